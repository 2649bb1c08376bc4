/* anomaly.c: the eager loops, with an eye on what they give: the first NaN or inf that an operation
 * makes of operands without one is an error. What came in with the data, or was put there by a
 * constant (a mask of -inf), is passed on: a NaN is refused where no operand had a NaN, an inf
 * where no operand had an inf or a NaN. */
#include <math.h>
#include <stdio.h>
#include <string.h>

#include "base/error.h"
#include "eager/eager.h"

enum finding { FINITE, INFINITE, NOT_A_NUMBER };

static enum finding judge(ct_dtype dtype, const char *element, double *value) {
    switch (dtype) {
    case CT_FLOAT32: *value = (double)*(const float *)(const void *)element; break;
    case CT_FLOAT64: *value = *(const double *)(const void *)element; break;
    default: *value = ct_scalar_load(dtype, element).f; break;
    }
    return isnan(*value) ? NOT_A_NUMBER : isinf(*value) ? INFINITE : FINITE;
}

typedef struct search {
    enum finding worst;
    double value;                  /* the first of the worst */
    int64_t position[CT_MAX_DIMS]; /* of it, from 0 */
} search;

static void look(const ct_array *array, search *found) {
    int64_t at[CT_MAX_DIMS] = {0}, size = (int64_t)ct_dtype_size(array->dtype);
    int ndim = array->shape.ndim;
    found->worst = FINITE;
    if (!ct_dtype_is_float(array->dtype) || ct_shape_numel(&array->shape) == 0)
        return;
    int64_t inner = ndim ? array->shape.dim[ndim - 1] : 1,
            step = ndim ? array->stride[ndim - 1] : 0;
    for (;;) {
        const char *row = array->data;
        for (int d = 0; d < ndim - 1; d++)
            row += at[d] * array->stride[d] * size;
        for (int64_t i = 0; i < inner; i++) {
            double value;
            enum finding finding = judge(array->dtype, row + i * step * size, &value);
            if (finding <= found->worst)
                continue;
            found->worst = finding;
            found->value = value;
            memcpy(found->position, at, sizeof at);
            if (ndim)
                found->position[ndim - 1] = i;
            if (finding == NOT_A_NUMBER)
                return;
        }
        int d = ndim - 2;
        while (d >= 0 && ++at[d] == array->shape.dim[d])
            at[d--] = 0;
        if (d < 0)
            return;
    }
}

static ct_status refuse(const ct_node *node, const search *found, ct_error *error) {
    char shape[CT_SHAPE_TEXT], place[24 * CT_MAX_DIMS] = "", origin[320] = "";
    size_t used = 0;
    for (int d = 0; d < node->shape.ndim; d++)
        used += (size_t)snprintf(place + used, sizeof place - used, "%s%lld",
                                 d ? ", " : " at position ", (long long)found->position[d] + 1);
    if (node->gradient_of)
        snprintf(origin, sizeof origin, ", in the gradient of '%s' at %.200s:%d,",
                 ct_op_table[node->gradient_of - 1].name,
                 node->line.source ? node->line.source : "?", node->line.line);
    return ct_fail(error, CT_ERR_STATE, "anomaly: '%s'%s made %s of operands without one: %s %s%s",
                   ct_op_table[node->op].name, origin,
                   found->worst == NOT_A_NUMBER ? "nan"
                   : found->value < 0           ? "-inf"
                                                : "inf",
                   ct_dtype_name(node->dtype), ct_shape_text(&node->shape, shape), place);
}

static ct_status run(ct_runtime *runtime, const ct_node *node, const ct_array *out,
                     const ct_array *sources, uint64_t draw, ct_error *error) {
    search made, had;
    bool checked = ct_dtype_is_float(node->dtype) && ct_op_table[node->op].class != CT_CLASS_SOURCE;
    enum finding before = FINITE;
    /* An UPDATE in place overwrites its source 0, so that must be looked at first. */
    bool in_place = checked && node->n_sources > 0 && sources[0].data == out->data;
    if (in_place) {
        look(&sources[0], &had);
        before = had.worst;
    }
    ct_status status = ct_eager.run(runtime, node, out, sources, draw, error);
    if (status != CT_OK || !checked)
        return status;
    look(out, &made);
    for (int i = in_place ? 1 : 0; i < node->n_sources && before < made.worst; i++) {
        look(&sources[i], &had);
        before = had.worst > before ? had.worst : before;
    }
    return made.worst > before ? refuse(node, &made, error) : CT_OK;
}

const ct_executor ct_eager_anomaly = {.run = run};
