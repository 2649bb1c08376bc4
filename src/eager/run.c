/* run.c: which loop runs a node. What is small enough to be said by a copy is done here. */
#include <string.h>

#include "base/error.h"
#include "base/threads.h"
#include "eager/eager.h"

static ct_status fill(ct_runtime *runtime, const ct_array *out, ct_scalar value, ct_error *error) {
    _Alignas(8) char element[8];
    ct_array in = {.dtype = out->dtype, .shape = out->shape, .data = element}; /* strides 0 */
    ct_scalar_store(value, out->dtype, element);
    return ct_eager_copy(runtime, out, &in, error);
}

typedef struct iota_job {
    ct_array out;
    ct_scalar start, step;
} iota_job;

static void iota_part(void *context, int64_t begin, int64_t end) {
    const iota_job *job = context;
    size_t size = ct_dtype_size(job->out.dtype);
    bool exact = job->start.is_int && job->step.is_int;
    for (int64_t i = begin; i < end; i++) {
        ct_scalar value;
        if (exact)
            value = ct_scalar_int(
                (int64_t)((uint64_t)job->start.i + (uint64_t)i * (uint64_t)job->step.i));
        else
            value = ct_scalar_float(job->start.f + (double)i * job->step.f);
        ct_scalar_store(value, job->out.dtype,
                        (char *)job->out.data + i * job->out.stride[0] * (int64_t)size);
    }
}

/* start + index * step, in int64 where both are integers, else in double, rounded once. */
static ct_status iota(ct_runtime *runtime, const ct_node *node, const ct_array *out) {
    iota_job job = {*out, node->attr.value, node->attr.step};
    ct_parallel(runtime->threads, ct_shape_numel(&out->shape), 16384, iota_part, &job);
    return CT_OK;
}

static ct_status source(ct_runtime *runtime, const ct_node *node, const ct_array *out,
                        uint64_t draw, ct_error *error) {
    switch (node->op) {
    case CT_CONST: return fill(runtime, out, node->attr.value, error);
    case CT_IOTA: return iota(runtime, node, out);
    case CT_RANDOM: return ct_eager_random(runtime, node, out, draw, error);
    default:
        return ct_fail(error, CT_ERR_STATE, "%s: has no value to compute",
                       ct_op_table[node->op].name);
    }
}

/* Source 0, but source 1 where the view reaches. In place where out is source 0. */
static ct_status update(ct_runtime *runtime, const ct_node *node, const ct_array *out,
                        const ct_array *sources, ct_error *error) {
    if (out->data != sources[0].data) {
        /* A view that reaches everything leaves nothing of source 0. */
        if (!ct_view_is_bijection(&node->attr.view, ct_shape_numel(&out->shape))) {
            ct_status status = ct_eager_copy(runtime, out, &sources[0], error);
            if (status != CT_OK)
                return status;
        }
    }
    ct_array target = ct_array_through(out, &node->attr.view);
    return ct_eager_copy(runtime, &target, &sources[1], error);
}

static ct_status run(ct_runtime *runtime, const ct_node *node, const ct_array *out,
                     const ct_array *sources, uint64_t draw, ct_error *error) {
    ct_status status = ct_check_interrupt(runtime, error);
    if (status != CT_OK)
        return status;
    switch (ct_op_table[node->op].class) {
    case CT_CLASS_SOURCE: return source(runtime, node, out, draw, error);
    case CT_CLASS_UNARY:
    case CT_CLASS_BINARY:
    case CT_CLASS_COMPARE:
    case CT_CLASS_SELECT: return ct_eager_elementwise(runtime, node, out, sources, error);
    case CT_CLASS_REDUCE: return ct_eager_reduce(runtime, node, out, sources, error);
    case CT_CLASS_SCAN: return ct_eager_scan(runtime, node, out, sources, error);
    case CT_CLASS_CONTRACTION: return ct_gemm(runtime, out, &sources[0], &sources[1], error);
    case CT_CLASS_INDEX: return ct_eager_index(runtime, node, out, sources, error);
    case CT_CLASS_CUSTOM: return ct_eager_copy(runtime, out, &sources[0], error);
    case CT_CLASS_MOVEMENT:
        if (node->op == CT_UPDATE)
            return update(runtime, node, out, sources, error);
        return ct_eager_copy(runtime, out, &sources[0], error);
    }
    return ct_fail(error, CT_ERR_UNSUPPORTED, "%s: no loop runs it", ct_op_table[node->op].name);
}

const ct_executor ct_eager = {.run = run};
