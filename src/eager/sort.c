/* sort.c: argsort. An element becomes an unsigned key that sorts as the element does; keys with
 * their places are sorted by insertion where they are few, else by bytes from the last (LSD radix
 * sort), leaving out bytes in which all keys agree. Both are stable. */
#include "eager/sort.h"

#include <string.h>

#include "base/dtype.h"
#include "base/error.h"
#include "base/threads.h"

typedef struct entry {
    uint64_t key;
    int64_t place;
} entry;

typedef struct sort_job {
    ct_array x, out; /* the axis taken out */
    int64_t length, step, out_step, lines;
    bool descending;
    int parts;
    entry *scratch; /* 2 * length entries for each part */
} sort_job;

static uint64_t float_key(double value) {
    uint64_t bits;
    if (value != value)
        return UINT64_MAX;
    value += 0.0; /* -0 is 0 */
    memcpy(&bits, &value, sizeof bits);
    return bits >> 63 ? ~bits : bits | UINT64_C(1) << 63;
}

static uint64_t key_of(ct_dtype dtype, const void *data, int64_t at) {
    const uint64_t sign = UINT64_C(1) << 63;
    switch (dtype) {
    case CT_FLOAT64: return float_key(((const double *)data)[at]);
    case CT_FLOAT32: return float_key(((const float *)data)[at]);
    case CT_FLOAT16: return float_key(ct_f16_to_f32(((const uint16_t *)data)[at]));
    case CT_BFLOAT16: return float_key(ct_bf16_to_f32(((const uint16_t *)data)[at]));
    case CT_INT64: return (uint64_t)((const int64_t *)data)[at] ^ sign;
    case CT_INT32: return (uint64_t)(int64_t)((const int32_t *)data)[at] ^ sign;
    case CT_INT16: return (uint64_t)(int64_t)((const int16_t *)data)[at] ^ sign;
    case CT_INT8: return (uint64_t)(int64_t)((const int8_t *)data)[at] ^ sign;
    default: return ((const uint8_t *)data)[at];
    }
}

static void insertion_sort(entry *entries, int64_t n) {
    for (int64_t i = 1; i < n; i++) {
        entry moving = entries[i];
        int64_t j = i;
        for (; j > 0 && entries[j - 1].key > moving.key; j--)
            entries[j] = entries[j - 1];
        entries[j] = moving;
    }
}

/* Sorts `entries`; the result is in it or in `other`, which is returned. */
static entry *radix_sort(entry *entries, entry *other, int64_t n) {
    int64_t counts[8][256];
    memset(counts, 0, sizeof counts);
    for (int64_t i = 0; i < n; i++)
        for (int byte = 0; byte < 8; byte++)
            counts[byte][entries[i].key >> (8 * byte) & 255]++;
    for (int byte = 0; byte < 8; byte++) {
        int64_t *count = counts[byte], start = 0;
        if (count[entries[0].key >> (8 * byte) & 255] == n)
            continue;
        for (int value = 0; value < 256; value++) {
            int64_t here = count[value];
            count[value] = start;
            start += here;
        }
        for (int64_t i = 0; i < n; i++)
            other[count[entries[i].key >> (8 * byte) & 255]++] = entries[i];
        entry *swap = entries;
        entries = other;
        other = swap;
    }
    return entries;
}

static void sort_line(const sort_job *job, int64_t line, entry *entries) {
    int64_t x = 0, out = 0;
    for (int d = job->x.shape.ndim - 1; d >= 0; d--) {
        int64_t at = line % job->x.shape.dim[d];
        line /= job->x.shape.dim[d];
        x += at * job->x.stride[d];
        out += at * job->out.stride[d];
    }
    for (int64_t i = 0; i < job->length; i++) {
        uint64_t key = key_of(job->x.dtype, job->x.data, x + i * job->step);
        entries[i] = (entry){job->descending ? ~key : key, i};
    }
    entry *sorted = entries;
    if (job->length <= 64)
        insertion_sort(entries, job->length);
    else
        sorted = radix_sort(entries, entries + job->length, job->length);
    for (int64_t i = 0; i < job->length; i++)
        ((int64_t *)job->out.data)[out + i * job->out_step] = sorted[i].place;
}

static void sort_part(void *context, int64_t begin, int64_t end) {
    const sort_job *job = context;
    for (int64_t part = begin; part < end; part++) {
        int64_t first = job->lines / job->parts * part,
                last = part + 1 == job->parts ? job->lines : job->lines / job->parts * (part + 1);
        for (int64_t line = first; line < last; line++)
            sort_line(job, line, job->scratch + 2 * job->length * part);
    }
}

static void take_out(ct_array *array, int axis) {
    for (int d = axis; d + 1 < array->shape.ndim; d++) {
        array->shape.dim[d] = array->shape.dim[d + 1];
        array->stride[d] = array->stride[d + 1];
    }
    array->shape.ndim--;
}

ct_status ct_sort_indexes(ct_runtime *runtime, int axis, bool descending, const ct_array *out,
                          const ct_array *x, ct_error *error) {
    int64_t numel = ct_shape_numel(&out->shape);
    if (numel == 0)
        return CT_OK;
    if (x->shape.ndim == 0) {
        *(int64_t *)out->data = 0;
        return CT_OK;
    }
    sort_job job = {.x = *x,
                    .out = *out,
                    .length = x->shape.dim[axis],
                    .step = x->stride[axis],
                    .out_step = out->stride[axis],
                    .descending = descending,
                    .parts = 1};
    take_out(&job.x, axis);
    take_out(&job.out, axis);
    job.lines = numel / job.length;
    if (numel >= 8192)
        job.parts = job.lines < runtime->threads ? (int)job.lines : runtime->threads;
    int64_t bytes = 2 * job.length * job.parts * (int64_t)sizeof(entry);
    job.scratch = ct_heap_take(runtime->heap, bytes);
    if (!job.scratch)
        return ct_fail(error, CT_ERR_MEMORY, "argsort: out of memory for %lld bytes",
                       (long long)bytes);
    ct_parallel(runtime->threads, job.parts, 1, sort_part, &job);
    ct_heap_give(runtime->heap, job.scratch, bytes);
    return CT_OK;
}
