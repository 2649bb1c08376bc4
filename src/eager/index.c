/* index.c: gather, scatter_add and nonzero. Index data are checked in a pass of their own, so that
 * an error leaves everything as it was. Positions of the axis that the index data choose are walked
 * with stride 0 in the array they are chosen from; the chosen place is then added. */
#include <stdio.h>
#include <string.h>

#include "base/error.h"
#include "base/threads.h"
#include "eager/eager.h"
#include "eager/sort.h"

static int64_t load(ct_dtype dtype, const void *data, int64_t at) {
    switch (dtype) {
    case CT_INT64: return ((const int64_t *)data)[at];
    case CT_INT32: return ((const int32_t *)data)[at];
    case CT_INT16: return ((const int16_t *)data)[at];
    case CT_INT8: return ((const int8_t *)data)[at];
    default: return ((const uint8_t *)data)[at];
    }
}

/* Offsets of the element with number `number` (C order) in n arrays of one shape. */
static void offsets_of(const ct_array *const *arrays, int n, int64_t number, int64_t *offsets) {
    const ct_shape *shape = &arrays[0]->shape;
    memset(offsets, 0, (size_t)n * sizeof *offsets);
    for (int d = shape->ndim - 1; d >= 0 && number > 0; d--) {
        int64_t at = number % shape->dim[d];
        number /= shape->dim[d];
        for (int i = 0; i < n; i++)
            offsets[i] += at * arrays[i]->stride[d];
    }
}

/* ---- Checking ------------------------------------------------------------------------------- */

typedef struct check_job {
    ct_array index;
    int64_t extent;
    int64_t bad; /* number of the first bad element seen, or INT64_MAX */
} check_job;

static void check_part(void *context, int64_t begin, int64_t end) {
    check_job *job = context;
    const ct_array *index = &job->index;
    int last = index->shape.ndim - 1;
    int64_t run = last < 0 ? 1 : index->shape.dim[last],
            stride = last < 0 ? 0 : index->stride[last];
    while (begin < end) {
        int64_t at, column = begin % run,
                    count = run - column < end - begin ? run - column : end - begin;
        offsets_of(&index, 1, begin, &at);
        uint64_t largest = 0; /* negative indexes are larger than any extent */
        for (int64_t j = 0; j < count; j++) {
            uint64_t value = (uint64_t)load(index->dtype, index->data, at + j * stride);
            largest = value > largest ? value : largest;
        }
        for (int64_t j = 0; largest >= (uint64_t)job->extent && j < count; j++) {
            if ((uint64_t)load(index->dtype, index->data, at + j * stride) < (uint64_t)job->extent)
                continue;
            int64_t seen = __atomic_load_n(&job->bad, __ATOMIC_RELAXED);
            while (begin + j < seen &&
                   !__atomic_compare_exchange_n(&job->bad, &seen, begin + j, false,
                                                __ATOMIC_RELAXED, __ATOMIC_RELAXED)) {
            }
            return;
        }
        begin += count;
    }
}

static ct_status check(ct_runtime *runtime, const char *name, const ct_array *index, int64_t extent,
                       ct_error *error) {
    if (ct_shape_numel(&index->shape) == 0)
        return CT_OK;
    check_job job = {*index, extent, INT64_MAX};
    for (int d = 0; d < index->shape.ndim; d++) /* what is repeated is checked once */
        if (index->stride[d] == 0)
            job.index.shape.dim[d] = 1;
    ct_parallel(runtime->threads, ct_shape_numel(&job.index.shape), 32768, check_part, &job);
    if (job.bad == INT64_MAX)
        return CT_OK;
    char position[CT_MAX_DIMS * 24] = "";
    int64_t at[CT_MAX_DIMS], number = job.bad, offset;
    const ct_array *checked = &job.index;
    offsets_of(&checked, 1, number, &offset);
    for (int d = index->shape.ndim - 1; d >= 0; d--) {
        at[d] = number % checked->shape.dim[d];
        number /= checked->shape.dim[d];
    }
    size_t used = 0;
    for (int d = 0; d < index->shape.ndim; d++)
        used += (size_t)snprintf(position + used, sizeof position - used, d ? ", %lld" : "%lld",
                                 (long long)at[d]);
    return ct_fail(error, CT_ERR_INDEX,
                   "%s: index %lld at position (%s) is out of range for an extent of %lld", name,
                   (long long)load(index->dtype, index->data, offset), position, (long long)extent);
}

/* ---- Gather --------------------------------------------------------------------------------- */

typedef struct index_job {
    ct_array
        moved; /* of the index's shape: the array that is chosen from, stride 0 along the axis */
    ct_array index, other;
    int64_t step; /* its stride along the axis */
} index_job;

#define GATHER_RUN(T)                                                                              \
    static void gather_##T(const index_job *job, int64_t *at, int64_t count, int64_t out,          \
                           int64_t from, int64_t by) {                                             \
        T *to = (T *)job->other.data + at[0];                                                      \
        const T *x = (const T *)job->moved.data + at[1];                                           \
        if (by == 0) {                                                                             \
            x += load(job->index.dtype, job->index.data, at[2]) * job->step;                       \
            if (out == 1 && from == 1)                                                             \
                memcpy(to, x, (size_t)count * sizeof *to);                                         \
            else                                                                                   \
                for (int64_t j = 0; j < count; j++)                                                \
                    to[j * out] = x[j * from];                                                     \
            return;                                                                                \
        }                                                                                          \
        for (int64_t j = 0; j < count; j++)                                                        \
            to[j * out] =                                                                          \
                x[j * from + load(job->index.dtype, job->index.data, at[2] + j * by) * job->step]; \
    }
GATHER_RUN(uint8_t)
GATHER_RUN(uint16_t)
GATHER_RUN(uint32_t)
GATHER_RUN(uint64_t)

static void gather_part(void *context, int64_t begin, int64_t end) {
    const index_job *job = context;
    const ct_array *arrays[3] = {&job->other, &job->moved, &job->index};
    int last = job->other.shape.ndim - 1;
    int64_t run = last < 0 ? 1 : job->other.shape.dim[last];
    int64_t out = last < 0 ? 1 : job->other.stride[last],
            from = last < 0 ? 1 : job->moved.stride[last];
    int64_t by = last < 0 ? 0 : job->index.stride[last];
    while (begin < end) {
        int64_t at[3], column = begin % run,
                       count = run - column < end - begin ? run - column : end - begin;
        offsets_of(arrays, 3, begin, at);
        switch (ct_dtype_size(job->other.dtype)) {
        case 1: gather_uint8_t(job, at, count, out, from, by); break;
        case 2: gather_uint16_t(job, at, count, out, from, by); break;
        case 4: gather_uint32_t(job, at, count, out, from, by); break;
        default: gather_uint64_t(job, at, count, out, from, by);
        }
        begin += count;
    }
}

/* The array seen with the index's shape, but standing still along the axis. */
static ct_array stand(const ct_array *array, const ct_array *index, int axis) {
    ct_array result = *array;
    result.shape = index->shape;
    result.stride[axis] = 0;
    return result;
}

static ct_status gather(ct_runtime *runtime, int axis, const ct_array *out, const ct_array *x,
                        const ct_array *index, ct_error *error) {
    ct_status status = check(runtime, "gather", index, x->shape.dim[axis], error);
    int64_t numel = ct_shape_numel(&out->shape);
    if (status != CT_OK || numel == 0)
        return status;
    ct_array arrays[3] = {*out, stand(x, index, axis), *index};
    ct_arrays_coalesce(arrays, 3);
    index_job job = {
        .other = arrays[0], .moved = arrays[1], .index = arrays[2], .step = x->stride[axis]};
    ct_parallel(runtime->threads, numel, 16384, gather_part, &job);
    return CT_OK;
}

/* ---- Scatter-add ---------------------------------------------------------------------------- */

/* Targets of different columns (positions without the axis) never meet, so threads share out
 * columns; where there are few, they share out the axis, and each takes the source's elements that
 * go to its part. */
typedef struct scatter_job {
    ct_dtype dtype;
    ct_array out[3];             /* out, index, source: the dimensions before the axis */
    ct_array inner[3];           /* ... and after it */
    int64_t inner_numel, length; /* of the index along the axis */
    int64_t step, index_step, source_step;
    int64_t low, high; /* targets taken */
    int64_t extent, columns;
} scatter_job;

#define SCATTER_RUN(T, name, sum)                                                                  \
    static void name(const scatter_job *job, const int64_t *base, const int64_t *at,               \
                     int64_t count, const int64_t *stride) {                                       \
        for (int64_t l = 0; l < job->length; l++) {                                                \
            T *out = (T *)job->out[0].data + base[0] + at[0];                                      \
            int64_t index = base[1] + at[1] + l * job->index_step;                                 \
            const T *source =                                                                      \
                (const T *)job->out[2].data + base[2] + at[2] + l * job->source_step;              \
            const void *indexes = job->out[1].data;                                                \
            ct_dtype type = job->out[1].dtype;                                                     \
            if (stride[1] == 0) {                                                                  \
                int64_t target = load(type, indexes, index);                                       \
                if (target < job->low || target >= job->high)                                      \
                    continue;                                                                      \
                out += target * job->step;                                                         \
                if (stride[0] == 1 && stride[2] == 1) {                                            \
                    for (int64_t j = 0; j < count; j++) {                                          \
                        T x = out[j], y = source[j];                                               \
                        out[j] = sum;                                                              \
                    }                                                                              \
                    continue;                                                                      \
                }                                                                                  \
                for (int64_t j = 0; j < count; j++) {                                              \
                    T x = out[j * stride[0]], y = source[j * stride[2]];                           \
                    out[j * stride[0]] = sum;                                                      \
                }                                                                                  \
                continue;                                                                          \
            }                                                                                      \
            for (int64_t j = 0; j < count; j++) {                                                  \
                int64_t target = load(type, indexes, index + j * stride[1]);                       \
                if (target < job->low || target >= job->high)                                      \
                    continue;                                                                      \
                T *place = out + j * stride[0] + target * job->step;                               \
                T x = *place, y = source[j * stride[2]];                                           \
                *place = sum;                                                                      \
            }                                                                                      \
        }                                                                                          \
    }
SCATTER_RUN(bool, scatter_bool, x || y)
SCATTER_RUN(uint8_t, scatter_8, (uint8_t)(x + y))
SCATTER_RUN(uint16_t, scatter_16, (uint16_t)(x + y))
SCATTER_RUN(uint32_t, scatter_32, x + y)
SCATTER_RUN(uint64_t, scatter_64, x + y)
SCATTER_RUN(float, scatter_f32, x + y)
SCATTER_RUN(double, scatter_f64, x + y)

typedef void scatter_run(const scatter_job *, const int64_t *, const int64_t *, int64_t,
                         const int64_t *);

static scatter_run *scatter_run_of(ct_dtype dtype) {
    switch (dtype) {
    case CT_BOOL: return scatter_bool;
    case CT_UINT8:
    case CT_INT8: return scatter_8;
    case CT_INT16: return scatter_16;
    case CT_INT32: return scatter_32;
    case CT_INT64: return scatter_64;
    case CT_FLOAT32: return scatter_f32;
    default: return scatter_f64; /* half types are added in float32 */
    }
}

static void scatter_columns(void *context, int64_t begin, int64_t end) {
    const scatter_job *job = context;
    scatter_run *add = scatter_run_of(job->dtype);
    const ct_array *outer[3] = {&job->out[0], &job->out[1], &job->out[2]};
    const ct_array *inner[3] = {&job->inner[0], &job->inner[1], &job->inner[2]};
    int last = job->inner[0].shape.ndim - 1;
    int64_t run = last < 0 ? 1 : job->inner[0].shape.dim[last], stride[3] = {0};
    for (int i = 0; i < 3 && last >= 0; i++)
        stride[i] = job->inner[i].stride[last];
    while (begin < end) {
        int64_t base[3], at[3], within = begin % job->inner_numel, column = within % run;
        int64_t count = run - column < end - begin ? run - column : end - begin;
        offsets_of(outer, 3, begin / job->inner_numel, base);
        offsets_of(inner, 3, within, at);
        add(job, base, at, count, stride);
        begin += count;
    }
}

static void scatter_targets(void *context, int64_t begin, int64_t end) {
    scatter_job job = *(const scatter_job *)context;
    job.low = begin;
    job.high = end;
    scatter_columns(&job, 0, job.columns);
}

/* Splits an array at the axis. */
static void split(const ct_array *array, const ct_array *index, int axis, ct_array *outer,
                  ct_array *inner) {
    *outer = *inner = *array;
    outer->shape = inner->shape = index->shape;
    outer->shape.ndim = axis;
    inner->shape.ndim = index->shape.ndim - axis - 1;
    for (int d = 0; d < inner->shape.ndim; d++) {
        inner->shape.dim[d] = index->shape.dim[axis + 1 + d];
        inner->stride[d] = array->stride[axis + 1 + d];
    }
}

static ct_status scatter_add(ct_runtime *runtime, int axis, const ct_array *out,
                             const ct_array *sources, ct_error *error) {
    const ct_array *index = &sources[1], *source = &sources[2];
    ct_status status = check(runtime, "scatter_add", index, out->shape.dim[axis], error);
    if (status == CT_OK && out->data != sources[0].data)
        status = ct_eager_copy(runtime, out, &sources[0], error);
    if (status != CT_OK || ct_shape_numel(&index->shape) == 0)
        return status;
    scatter_job job = {.dtype = out->dtype,
                       .length = index->shape.dim[axis],
                       .step = out->stride[axis],
                       .index_step = index->stride[axis],
                       .source_step = source->stride[axis],
                       .high = out->shape.dim[axis],
                       .extent = out->shape.dim[axis]};
    const ct_array *arrays[3] = {out, index, source};
    for (int i = 0; i < 3; i++)
        split(arrays[i], index, axis, &job.out[i], &job.inner[i]);
    ct_arrays_coalesce(job.inner, 3);
    job.inner_numel = ct_shape_numel(&job.inner[0].shape);
    job.columns = ct_shape_numel(&job.out[0].shape) * job.inner_numel;
    int64_t grain = 16384 / job.length + 1;
    grain = (grain + 15) / 16 * 16;
    if (job.columns >= 16 * (int64_t)runtime->threads)
        ct_parallel(runtime->threads, job.columns, grain, scatter_columns, &job);
    else if (job.columns * job.length >= 65536)
        ct_parallel(runtime->threads, job.extent, 16, scatter_targets, &job);
    else
        scatter_columns(&job, 0, job.columns);
    return CT_OK;
}

ct_status ct_eager_index(ct_runtime *runtime, const ct_node *node, const ct_array *out,
                         const ct_array *sources, ct_error *error) {
    switch (node->op) {
    case CT_GATHER: return gather(runtime, node->attr.axis, out, &sources[0], &sources[1], error);
    case CT_SCATTER_ADD: return scatter_add(runtime, node->attr.axis, out, sources, error);
    default:
        return ct_sort_indexes(runtime, node->attr.axis, node->attr.descending, out, &sources[0],
                               error);
    }
}

/* ---- Nonzero -------------------------------------------------------------------------------- */

static bool is_nonzero(const ct_array *in, int64_t at) {
    switch (in->dtype) {
    case CT_FLOAT64: return ((const double *)in->data)[at] != 0;
    case CT_FLOAT32: return ((const float *)in->data)[at] != 0;
    case CT_FLOAT16:
    case CT_BFLOAT16: return (((const uint16_t *)in->data)[at] & 0x7fff) != 0; /* -0 is zero */
    default: return load(in->dtype, in->data, at) != 0;
    }
}

/* Counts, and where `out` is given writes positions. */
static int64_t scan_nonzero(const ct_array *in, int64_t *out) {
    int ndim = in->shape.ndim;
    int64_t at[CT_MAX_DIMS] = {0}, offset = 0, found = 0, numel = ct_shape_numel(&in->shape);
    for (int64_t i = 0; i < numel; i++) {
        if (is_nonzero(in, offset)) {
            if (out)
                memcpy(out + found * ndim, at, (size_t)ndim * sizeof *at);
            found++;
        }
        for (int d = ndim - 1; d >= 0; d--) {
            offset += in->stride[d];
            if (++at[d] < in->shape.dim[d])
                break;
            offset -= at[d] * in->stride[d];
            at[d] = 0;
        }
    }
    return found;
}

ct_status ct_eager_nonzero(ct_runtime *runtime, const ct_array *in, ct_buffer **out, int64_t *count,
                           ct_error *error) {
    *count = scan_nonzero(in, NULL);
    *out = ct_buffer_new(runtime->heap, *count * in->shape.ndim * (int64_t)sizeof(int64_t));
    if (!*out)
        return ct_fail(error, CT_ERR_MEMORY, "nonzero: out of memory for %lld positions",
                       (long long)*count);
    scan_nonzero(in, (*out)->data);
    return CT_OK;
}
