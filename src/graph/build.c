/* build.c: the builder, and element-wise, reducing, contracting and indexing operations. Movement
 * is in move.c. */
#include "graph/build.h"

#include <stdlib.h>
#include <string.h>

#include "base/error.h"

#define INLINE_NODES ((int)(sizeof((ct_builder *)0)->inline_nodes / sizeof(ct_node *)))

void ct_builder_begin(ct_builder *b, ct_runtime *runtime, ct_error *error) {
    b->runtime = runtime;
    b->error = error ? error : &b->own_error;
    b->nodes = b->inline_nodes;
    b->n_nodes = 0;
    b->capacity = INLINE_NODES;
}

void ct_builder_end(ct_builder *b) {
    for (int i = 0; i < b->n_nodes; i++)
        ct_node_release(b->nodes[i]);
    if (b->nodes != b->inline_nodes)
        free(b->nodes);
    b->nodes = b->inline_nodes;
    b->n_nodes = 0;
    b->capacity = INLINE_NODES;
}

ct_node *ct_builder_keep(ct_builder *b, ct_node *result) {
    if (result)
        ct_node_retain(result);
    ct_builder_end(b);
    return result;
}

ct_node *ct_own(ct_builder *b, ct_node *node) {
    if (!node)
        return NULL;
    if (b->n_nodes == b->capacity) {
        int capacity = b->capacity * 2;
        ct_node **nodes = ct_malloc((size_t)capacity * sizeof *nodes);
        if (!nodes) {
            ct_node_release(node);
            ct_fail(b->error, CT_ERR_MEMORY, "out of memory");
            return NULL;
        }
        memcpy(nodes, b->nodes, (size_t)b->n_nodes * sizeof *nodes);
        if (b->nodes != b->inline_nodes)
            free(b->nodes);
        b->nodes = nodes;
        b->capacity = capacity;
    }
    return b->nodes[b->n_nodes++] = node;
}

static ct_node *record(ct_builder *b, ct_op op, ct_node *const *sources, int n, const ct_attr *attr,
                       const ct_shape *shape) {
    return ct_own(b, ct_record(b->runtime, op, sources, n, attr, shape, b->error));
}

#define fail(b, status, ...) (ct_fail((b)->error, status, __VA_ARGS__), (ct_node *)NULL)

/* ---- values ---- */

ct_node *ct_constant(ct_builder *b, ct_dtype dtype, const ct_shape *shape, ct_scalar value) {
    ct_attr attr = {.dtype = dtype, .value = value};
    return record(b, CT_CONST, NULL, 0, &attr, shape);
}

ct_node *ct_number(ct_builder *b, ct_scalar value) {
    ct_attr attr = {.dtype = value.is_int ? CT_INT64 : CT_FLOAT32, .value = value, .weak = true};
    return record(b, CT_CONST, NULL, 0, &attr, &(ct_shape){0});
}

ct_node *ct_number_like(ct_builder *b, const ct_node *x, double value) {
    return x ? ct_constant(b, x->dtype, &(ct_shape){0}, ct_scalar_float(value)) : NULL;
}

ct_node *ct_zeros_like(ct_builder *b, const ct_node *x) {
    return x ? ct_constant(b, x->dtype, &x->shape, ct_scalar_int(0)) : NULL;
}

ct_node *ct_iota(ct_builder *b, ct_dtype dtype, int64_t count, ct_scalar start, ct_scalar step) {
    ct_shape shape;
    if (ct_shape_set(&shape, 1, &count, b->error) != CT_OK)
        return NULL;
    ct_attr attr = {.dtype = dtype, .value = start, .step = step};
    return record(b, CT_IOTA, NULL, 0, &attr, &shape);
}

ct_node *ct_random_node(ct_builder *b, ct_dtype dtype, const ct_shape *shape, ct_random kind,
                        int64_t low, int64_t high) {
    if (kind == CT_RANDOM_INTEGER ? high <= low : !ct_dtype_is_float(dtype))
        return kind == CT_RANDOM_INTEGER
                   ? fail(b, CT_ERR_ARGUMENT,
                          "random integers: high (%lld) must be above low (%lld)", (long long)high,
                          (long long)low)
                   : fail(b, CT_ERR_DTYPE,
                          "random numbers of type %s: a floating type was expected",
                          ct_dtype_name(dtype));
    bool whole = kind == CT_RANDOM_INTEGER;
    ct_attr attr = {.dtype = dtype,
                    .random = kind,
                    .value = whole ? ct_scalar_int(low) : ct_scalar_float(0),
                    .step = whole ? ct_scalar_int(high) : ct_scalar_float(1)};
    return record(b, CT_RANDOM, NULL, 0, &attr, shape);
}

ct_node *ct_random_scaled(ct_builder *b, ct_dtype dtype, const ct_shape *shape, ct_random kind,
                          double scale, double shift) {
    if (kind == CT_RANDOM_INTEGER || !ct_dtype_is_float(dtype))
        return fail(b, CT_ERR_DTYPE, "random numbers of type %s: a floating type was expected",
                    ct_dtype_name(dtype));
    ct_attr attr = {.dtype = dtype,
                    .random = kind,
                    .value = ct_scalar_float(shift),
                    .step = ct_scalar_float(scale)};
    return record(b, CT_RANDOM, NULL, 0, &attr, shape);
}

/* ---- element-wise ---- */

ct_node *ct_cast(ct_builder *b, ct_node *x, ct_dtype dtype) {
    if (!x || x->dtype == dtype)
        return x;
    if (x->op == CT_CONST && !x->buffer && !x->requires_grad)
        return ct_constant(b, dtype, &x->shape,
                           x->attr.weak ? x->attr.value : ct_scalar_load(x->dtype, &x->element));
    ct_attr attr = {.dtype = dtype};
    return record(b, CT_CAST, &x, 1, &attr, &x->shape);
}

static int kind(ct_dtype dtype) {
    return ct_dtype_is_float(dtype) ? 2 : ct_dtype_is_int(dtype) ? 1 : 0;
}

static bool is_weak(const ct_node *x) {
    return x->op == CT_CONST && x->attr.weak;
}

ct_dtype ct_result_type(const ct_node *x, const ct_node *y) {
    /* rank 2: a tensor of one or more dimensions; 1: 0-d; 0: a number. The lower rank counts only
     * by its kind. */
    int rank_x = is_weak(x) ? 0 : x->shape.ndim > 0 ? 2 : 1;
    int rank_y = is_weak(y) ? 0 : y->shape.ndim > 0 ? 2 : 1;
    if (rank_x == rank_y)
        return ct_dtype_promote(x->dtype, y->dtype);
    const ct_node *high = rank_x > rank_y ? x : y, *low = rank_x > rank_y ? y : x;
    return kind(low->dtype) > kind(high->dtype) ? low->dtype : high->dtype;
}

/* The floating type that integers are computed in where an operation has only floating values. */
static ct_node *floating(ct_builder *b, ct_node *x) {
    return x && !ct_dtype_is_float(x->dtype) ? ct_cast(b, x, CT_FLOAT32) : x;
}

ct_node *ct_unary(ct_builder *b, ct_op op, ct_node *x) {
    if (x && ct_op_table[op].accepts[0] == 'F')
        x = floating(b, x);
    return x ? record(b, op, &x, 1, NULL, &x->shape) : NULL;
}

static ct_node *checked_expand(ct_builder *b, ct_node *x, const ct_shape *shape) {
    return x && !ct_shape_equal(&x->shape, shape) ? ct_expand(b, x, shape) : x;
}

ct_node *ct_binary(ct_builder *b, ct_op op, ct_node *x, ct_node *y) {
    if (!x || !y)
        return NULL;
    ct_dtype dtype = ct_result_type(x, y);
    if (ct_op_table[op].accepts[0] == 'F' && !ct_dtype_is_float(dtype))
        dtype = CT_FLOAT32;
    ct_shape shape;
    if (ct_shape_broadcast(&x->shape, &y->shape, &shape, b->error) != CT_OK) {
        ct_error_prefix(b->error, "%s: ", ct_op_table[op].name);
        return NULL;
    }
    ct_node *sources[2] = {checked_expand(b, ct_cast(b, x, dtype), &shape),
                           checked_expand(b, ct_cast(b, y, dtype), &shape)};
    return sources[0] && sources[1] ? record(b, op, sources, 2, NULL, &shape) : NULL;
}

ct_node *ct_where(ct_builder *b, ct_node *condition, ct_node *x, ct_node *y) {
    if (!condition || !x || !y)
        return NULL;
    if (condition->dtype != CT_BOOL)
        return fail(b, CT_ERR_DTYPE,
                    "where: the condition is %s: bool expected (a comparison gives one)",
                    ct_dtype_name(condition->dtype));
    ct_dtype dtype = ct_result_type(x, y);
    ct_shape shape;
    if (ct_shape_broadcast(&x->shape, &y->shape, &shape, b->error) != CT_OK ||
        ct_shape_broadcast(&shape, &condition->shape, &shape, b->error) != CT_OK) {
        ct_error_prefix(b->error, "where: ");
        return NULL;
    }
    ct_node *sources[3] = {checked_expand(b, condition, &shape),
                           checked_expand(b, ct_cast(b, x, dtype), &shape),
                           checked_expand(b, ct_cast(b, y, dtype), &shape)};
    return sources[0] && sources[1] && sources[2] ? record(b, CT_WHERE, sources, 3, NULL, &shape)
                                                  : NULL;
}

ct_node *ct_add(ct_builder *b, ct_node *x, ct_node *y) {
    return ct_binary(b, CT_ADD, x, y);
}

ct_node *ct_sub(ct_builder *b, ct_node *x, ct_node *y) {
    return ct_binary(b, CT_SUB, x, y);
}

ct_node *ct_mul(ct_builder *b, ct_node *x, ct_node *y) {
    return ct_binary(b, CT_MUL, x, y);
}

ct_node *ct_div(ct_builder *b, ct_node *x, ct_node *y) {
    return ct_binary(b, CT_DIV, x, y);
}

ct_node *ct_neg(ct_builder *b, ct_node *x) {
    return ct_unary(b, CT_NEG, x);
}

/* ---- reductions ---- */

ct_node *ct_reduce(ct_builder *b, ct_op op, ct_node *x, uint32_t axes, bool keepdim) {
    if (!x)
        return NULL;
    bool adds = op == CT_SUM || op == CT_PROD, arg = op == CT_ARGMAX || op == CT_ARGMIN;
    /* The eager loops widen integers as they read them; in a trace the cast is said, and fused. */
    if (adds && !ct_dtype_is_float(x->dtype) && (b->runtime->trace || axes == 0))
        x = ct_cast(b, x, CT_INT64);
    if (!x)
        return NULL;
    ct_shape kept = x->shape, dropped = {0};
    for (int d = 0; d < x->shape.ndim; d++) {
        if (!(axes >> d & 1)) {
            dropped.dim[dropped.ndim++] = x->shape.dim[d];
            continue;
        }
        kept.dim[d] = 1;
        if (!adds && x->shape.dim[d] == 0) {
            char text[CT_SHAPE_TEXT];
            return fail(
                b, CT_ERR_SHAPE,
                "%s: dimension %d of a tensor of shape %s is empty, and %s of nothing has no value",
                ct_op_table[op].name, d + 1, ct_shape_text(&x->shape, text), ct_op_table[op].name);
        }
    }
    ct_node *result;
    if (axes == 0 && !arg) {
        result = x;
    } else {
        ct_attr attr = {.axes = axes};
        result = record(b, op, &x, 1, &attr, &kept);
    }
    return keepdim ? result : ct_reshape(b, result, &dropped);
}

ct_node *ct_cumsum(ct_builder *b, ct_node *x, int axis) {
    if (x && !ct_dtype_is_float(x->dtype))
        x = ct_cast(b, x, CT_INT64);
    ct_attr attr = {.axis = axis};
    return x ? record(b, CT_CUMSUM, &x, 1, &attr, &x->shape) : NULL;
}

/* ---- contraction ---- */

static ct_node *insert_axis(ct_builder *b, ct_node *x, int axis) {
    if (!x)
        return NULL;
    ct_shape shape = {.ndim = x->shape.ndim + 1};
    for (int d = 0, from = 0; d < shape.ndim; d++)
        shape.dim[d] = d == axis ? 1 : x->shape.dim[from++];
    return ct_reshape(b, x, &shape);
}

/* (..., m, k) x (..., k, n), both of two dimensions or more, of one dtype. */
static ct_node *batched(ct_builder *b, ct_node *x, ct_node *y) {
    if (!x || !y)
        return NULL;
    int rx = x->shape.ndim, ry = y->shape.ndim;
    int64_t m = x->shape.dim[rx - 2], k = x->shape.dim[rx - 1], n = y->shape.dim[ry - 1];
    if (ry == 2 && rx > 2) { /* one right operand for all: a single product of m * batch rows */
        ct_shape flat = {2, {ct_shape_numel(&x->shape) / (k > 0 ? k : 1), k}}, out = x->shape;
        if (k == 0) {
            flat.dim[0] = 1;
            for (int d = 0; d < rx - 1; d++)
                flat.dim[0] *= x->shape.dim[d];
        }
        out.dim[rx - 1] = n;
        ct_node *product = batched(b, ct_reshape(b, x, &flat), y);
        return ct_reshape(b, product, &out);
    }
    ct_shape lead_x = x->shape, lead_y = y->shape, lead;
    lead_x.ndim -= 2;
    lead_y.ndim -= 2;
    if (ct_shape_broadcast(&lead_x, &lead_y, &lead, b->error) != CT_OK) {
        ct_error_prefix(b->error, "matmul, leading dimensions: ");
        return NULL;
    }
    if (lead.ndim > CT_MAX_DIMS - 2)
        return fail(b, CT_ERR_SHAPE, "matmul: more than %d dimensions", CT_MAX_DIMS);
    ct_shape sx = lead, sy = lead, out = lead;
    sx.ndim = sy.ndim = out.ndim = lead.ndim + 2;
    sx.dim[lead.ndim] = out.dim[lead.ndim] = m;
    sx.dim[lead.ndim + 1] = sy.dim[lead.ndim] = k;
    sy.dim[lead.ndim + 1] = out.dim[lead.ndim + 1] = n;
    ct_node *sources[2] = {checked_expand(b, x, &sx), checked_expand(b, y, &sy)};
    return sources[0] && sources[1] ? record(b, CT_MATMUL, sources, 2, NULL, &out) : NULL;
}

ct_node *ct_matmul(ct_builder *b, ct_node *x, ct_node *y) {
    if (!x || !y)
        return NULL;
    char tx[CT_SHAPE_TEXT], ty[CT_SHAPE_TEXT];
    int rx = x->shape.ndim, ry = y->shape.ndim;
    if (rx == 0 || ry == 0)
        return fail(
            b, CT_ERR_SHAPE,
            "matmul: shapes %s and %s: both operands need at least one dimension (mul scales)",
            ct_shape_text(&x->shape, tx), ct_shape_text(&y->shape, ty));
    int64_t kx = x->shape.dim[rx - 1], ky = y->shape.dim[ry == 1 ? 0 : ry - 2];
    if (kx != ky)
        return fail(b, CT_ERR_SHAPE,
                    "matmul: the inner extents differ: %s and %s (%lld against %lld)",
                    ct_shape_text(&x->shape, tx), ct_shape_text(&y->shape, ty), (long long)kx,
                    (long long)ky);
    if (x->dtype != y->dtype)
        return fail(b, CT_ERR_DTYPE,
                    "matmul: the operands are %s and %s; convert one (t:to(\"%s\"))",
                    ct_dtype_name(x->dtype), ct_dtype_name(y->dtype), ct_dtype_name(x->dtype));
    ct_node *left = rx == 1 ? insert_axis(b, x, 0) : x, *right = ry == 1 ? insert_axis(b, y, 1) : y;
    ct_node *product = left && right ? batched(b, left, right) : NULL;
    if (!product || (rx > 1 && ry > 1))
        return product;
    ct_shape out = product->shape;
    if (ry == 1)
        out.ndim--;
    if (rx == 1) {
        if (ry > 1)
            out.dim[out.ndim - 2] = out.dim[out.ndim - 1];
        out.ndim--;
    }
    return ct_reshape(b, product, &out);
}

/* ---- index ---- */

/* Whether `index` (of the rank of x) is within x but for the axis; its values are checked when the
 * operation runs. */
static bool index_fits(ct_builder *b, const char *name, const ct_node *x, int axis,
                       const ct_node *index) {
    char tx[CT_SHAPE_TEXT], ti[CT_SHAPE_TEXT];
    if (index->dtype != CT_INT64 && index->dtype != CT_INT32) {
        ct_fail(b->error, CT_ERR_DTYPE, "%s: the index is %s: int64 or int32 expected", name,
                ct_dtype_name(index->dtype));
        return false;
    }
    bool fits = index->shape.ndim == x->shape.ndim && axis >= 0 && axis < x->shape.ndim;
    for (int d = 0; fits && d < x->shape.ndim; d++)
        fits = d == axis || index->shape.dim[d] <= x->shape.dim[d];
    if (!fits)
        ct_fail(b->error, CT_ERR_SHAPE,
                "%s: an index of shape %s does not fit a tensor of shape %s along dimension %d "
                "(no larger extents elsewhere expected)",
                name, ct_shape_text(&index->shape, ti), ct_shape_text(&x->shape, tx), axis + 1);
    return fits;
}

/* The part of x within `extents`, but whole along the axis. */
static ct_node *within(ct_builder *b, ct_node *x, int axis, const ct_shape *extents) {
    for (int d = 0; x && d < extents->ndim; d++)
        if (d != axis && extents->dim[d] < x->shape.dim[d])
            x = ct_slice(b, x, d, 0, extents->dim[d], 1);
    return x;
}

ct_node *ct_gather(ct_builder *b, ct_node *x, int axis, ct_node *index) {
    if (!x || !index || !index_fits(b, "gather", x, axis, index))
        return NULL;
    x = within(b, x, axis, &index->shape);
    if (!x)
        return NULL;
    ct_attr attr = {.axis = axis};
    ct_node *sources[2] = {x, index};
    return record(b, CT_GATHER, sources, 2, &attr, &index->shape);
}

ct_node *ct_scatter_add(ct_builder *b, ct_node *base, int axis, ct_node *index, ct_node *source) {
    if (!base || !index || !source || !index_fits(b, "scatter_add", base, axis, index))
        return NULL;
    char ti[CT_SHAPE_TEXT], ts[CT_SHAPE_TEXT];
    bool fits = index->shape.ndim == source->shape.ndim;
    for (int d = 0; fits && d < index->shape.ndim; d++)
        fits = index->shape.dim[d] <= source->shape.dim[d];
    if (!fits)
        return fail(b, CT_ERR_SHAPE,
                    "scatter_add: an index of shape %s is not within a source of shape %s",
                    ct_shape_text(&index->shape, ti), ct_shape_text(&source->shape, ts));
    if (base->dtype != source->dtype)
        return fail(b, CT_ERR_DTYPE,
                    "scatter_add: the source is %s, the tensor %s: equal types expected",
                    ct_dtype_name(source->dtype), ct_dtype_name(base->dtype));
    source = within(b, source, -1, &index->shape);
    if (base->dtype == CT_FLOAT16 || base->dtype == CT_BFLOAT16) { /* many small addends count */
        ct_node *wide = ct_cast(b, base, CT_FLOAT32), *added = ct_cast(b, source, CT_FLOAT32);
        return ct_cast(b, ct_scatter_add(b, wide, axis, index, added), base->dtype);
    }
    ct_node *part = within(b, base, axis, &index->shape);
    if (!part || !source)
        return NULL;
    ct_attr attr = {.axis = axis};
    ct_node *sources[3] = {part, index, source};
    ct_node *sum = record(b, CT_SCATTER_ADD, sources, 3, &attr, &part->shape);
    if (part == base)
        return sum;
    ct_view view = ct_view_whole(&base->shape);
    for (int d = 0; d < view.shape.ndim; d++)
        view = ct_view_slice(&view, d, 0, part->shape.dim[d], 1);
    return ct_update(b, base, &view, sum);
}

ct_node *ct_argsort(ct_builder *b, ct_node *x, int axis, bool descending) {
    ct_attr attr = {.axis = axis, .descending = descending};
    return x ? record(b, CT_ARGSORT, &x, 1, &attr, &x->shape) : NULL;
}

ct_node *ct_custom_node(ct_builder *b, ct_node *value, ct_node *const *inputs, int n,
                        ct_custom *custom) {
    ct_node *result = NULL;
    ct_node **sources = value ? ct_malloc((size_t)(n + 1) * sizeof *sources) : NULL;
    if (value && !sources)
        ct_fail(b->error, CT_ERR_MEMORY, "custom: out of memory");
    if (sources) {
        sources[0] = value;
        memcpy(sources + 1, inputs, (size_t)n * sizeof *sources);
        ct_attr attr = {.custom = custom};
        result = record(b, CT_CUSTOM, sources, n + 1, &attr, &value->shape);
        free(sources);
    }
    if (--custom->refs == 0) {
        if (custom->release)
            custom->release(custom->context);
        free(custom);
    }
    return result;
}
