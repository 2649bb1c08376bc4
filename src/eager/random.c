/* random.c: random tensors. Element e of draw d under seed s is a function of (s, d, e) alone:
 *
 *     uniform   float32, float16, bfloat16: the top 24, 11 or 8 bits of word e times 2^-24, 2^-11
 * or 2^-8 (exact, so 1 never comes out); float64: the top 53 bits of words 2e (low) and 2e + 1
 *     normal    elements 2i and 2i + 1 are r cos(2 pi v) and r sin(2 pi v), r = sqrt(-2 log(1 -
 * u)), of the uniforms u and v that have their numbers (Box and Muller, 1958); half types are
 * computed in float32 integer   low + floor(range * w / 2^bits) with w word e (32 bits) where the
 * range is at most 2^16, else words 2e (low) and 2e + 1 (64 bits)
 *
 * where words 4b to 4b + 3 of a draw are ct_philox's of block b. Uniform and normal numbers are
 * then multiplied by the node's scale and moved by its shift, each rounded to the type. log, sin,
 * cos and sqrt are the eager loops'. */
#include "base/error.h"
#include "base/philox.h"
#include "base/threads.h"
#include "eager/eager.h"

#define BATCH 1024 /* elements made at a time; a multiple of 4 */

typedef struct random_job {
    ct_runtime *runtime;
    ct_dtype dtype;
    ct_random kind;
    char *out;
    bool wide; /* an element takes two words */
    uint64_t seed, draw;
    int64_t numel, low;
    uint64_t range;
    double scale, shift;
} random_job;

static void words_of(const random_job *job, int64_t element, uint32_t *words) {
    int each = job->wide ? 2 : 1;
    uint64_t block = (uint64_t)element * (uint64_t)each / 4;
    for (int i = 0; i < BATCH * each; i += 4)
        ct_philox(job->seed, job->draw, block++, words + i);
}

static uint64_t join(const uint32_t *words) {
    return words[0] | (uint64_t)words[1] << 32;
}

static void uniform(const random_job *job, const uint32_t *words, int count, void *out) {
    switch (job->dtype) {
    case CT_FLOAT64:
        for (int i = 0; i < count; i++)
            ((double *)out)[i] = (double)(join(words + 2 * i) >> 11) * 0x1p-53;
        break;
    case CT_FLOAT32:
        for (int i = 0; i < count; i++)
            ((float *)out)[i] = (float)(words[i] >> 8) * 0x1p-24f;
        break;
    case CT_FLOAT16:
        for (int i = 0; i < count; i++)
            ((uint16_t *)out)[i] = ct_f16_from_f64((words[i] >> 21) * 0x1p-11);
        break;
    default:
        for (int i = 0; i < count; i++)
            ((uint16_t *)out)[i] = ct_bf16_from_f64((words[i] >> 24) * 0x1p-8);
    }
}

/* The eager loops' function of BATCH / 2 elements, in place or not; it can't fail on these. */
static void apply(const random_job *job, ct_op op, ct_dtype dtype, void *in, void *out) {
    ct_array x = {.dtype = dtype, .shape = {1, {BATCH / 2}}, .stride = {1}, .data = in}, y = x;
    ct_node node = {.op = op, .dtype = dtype, .n_sources = 1, .shape = x.shape};
    y.data = out;
    ct_eager_elementwise(job->runtime, &node, &y, &x, NULL);
}

#define NORMAL(T, name, dtype, HIGH, LOW, SCALE)                                                   \
    static void name(const random_job *job, const uint32_t *words, T *out) {                       \
        T radius[BATCH / 2], angle[BATCH / 2], part[BATCH / 2];                                    \
        for (int i = 0; i < BATCH / 2; i++) {                                                      \
            radius[i] = (T)1 - (T)(HIGH) * (T)SCALE; /* exact, in (0, 1] */                        \
            angle[i] = (T)(LOW) * (T)SCALE * (T)6.283185307179586;                                 \
        }                                                                                          \
        apply(job, CT_LOG, dtype, radius, part);                                                   \
        for (int i = 0; i < BATCH / 2; i++)                                                        \
            part[i] *= (T)-2;                                                                      \
        apply(job, CT_SQRT, dtype, part, radius);                                                  \
        apply(job, CT_COS, dtype, angle, part);                                                    \
        for (int i = 0; i < BATCH / 2; i++)                                                        \
            out[2 * i] = radius[i] * part[i];                                                      \
        apply(job, CT_SIN, dtype, angle, part);                                                    \
        for (int i = 0; i < BATCH / 2; i++)                                                        \
            out[2 * i + 1] = radius[i] * part[i];                                                  \
    }
NORMAL(float, normal_float32, CT_FLOAT32, words[2 * i] >> 8, words[2 * i + 1] >> 8, 0x1p-24)
NORMAL(double, normal_float64, CT_FLOAT64, join(words + 4 * i) >> 11, join(words + 4 * i + 2) >> 11,
       0x1p-53)

static void normal(const random_job *job, const uint32_t *words, int count, void *out) {
    if (job->dtype == CT_FLOAT64) {
        double values[BATCH];
        normal_float64(job, words, values);
        for (int i = 0; i < count; i++)
            ((double *)out)[i] = values[i];
        return;
    }
    float values[BATCH];
    normal_float32(job, words, values);
    if (job->dtype == CT_FLOAT32)
        for (int i = 0; i < count; i++)
            ((float *)out)[i] = values[i];
    else
        for (int i = 0; i < count; i++)
            ((uint16_t *)out)[i] =
                job->dtype == CT_FLOAT16 ? ct_f16_from_f64(values[i]) : ct_bf16_from_f64(values[i]);
}

static void integer(const random_job *job, const uint32_t *words, int count, char *out) {
    size_t size = ct_dtype_size(job->dtype);
    for (int i = 0; i < count; i++) {
        uint64_t above;
        if (job->wide)
            above = (uint64_t)((unsigned __int128)join(words + 2 * i) * job->range >> 64);
        else
            above = words[i] * job->range >> 32;
        int64_t value = (int64_t)((uint64_t)job->low + above);
        if (job->dtype == CT_INT64)
            ((int64_t *)(void *)out)[i] = value;
        else
            ct_scalar_store(ct_scalar_int(value), job->dtype, out + (size_t)i * size);
    }
}

/* out op= value, as the eager loops do it with a number of the script. */
static void adjust(const random_job *job, ct_op op, double value, char *out, int count) {
    _Alignas(8) char number[8];
    ct_scalar_store(ct_scalar_float(value), job->dtype, number);
    ct_array x[2] = {
        {.dtype = job->dtype, .shape = {1, {count}}, .stride = {1}, .data = out},
        {.dtype = job->dtype, .shape = {1, {count}}, .stride = {0}, .data = number},
    };
    ct_node node = {.op = op, .dtype = job->dtype, .n_sources = 2, .shape = x[0].shape};
    ct_eager_elementwise(job->runtime, &node, &x[0], x, NULL);
}

static void random_part(void *context, int64_t begin, int64_t end) {
    const random_job *job = context;
    uint32_t words[2 * BATCH];
    for (int64_t batch = begin; batch < end; batch++) {
        int64_t first = batch * BATCH;
        int count = job->numel - first < BATCH ? (int)(job->numel - first) : BATCH;
        char *out = job->out + first * (int64_t)ct_dtype_size(job->dtype);
        words_of(job, first, words);
        switch (job->kind) {
        case CT_RANDOM_UNIFORM: uniform(job, words, count, out); break;
        case CT_RANDOM_NORMAL: normal(job, words, count, out); break;
        case CT_RANDOM_INTEGER: integer(job, words, count, out); break;
        }
        if (job->scale != 1)
            adjust(job, CT_MUL, job->scale, out, count);
        if (job->shift != 0)
            adjust(job, CT_ADD, job->shift, out, count);
    }
}

ct_status ct_eager_random(ct_runtime *runtime, const ct_node *node, const ct_array *out,
                          uint64_t draw, ct_error *error) {
    random_job job = {.runtime = runtime,
                      .dtype = out->dtype,
                      .kind = node->attr.random,
                      .out = out->data,
                      .wide = out->dtype == CT_FLOAT64,
                      .seed = node->trace ? runtime->seed : node->attr.seed,
                      .draw = draw,
                      .numel = ct_shape_numel(&out->shape),
                      .scale = 1};
    if (job.kind != CT_RANDOM_INTEGER) {
        job.scale = node->attr.step.f;
        job.shift = node->attr.value.f;
    }
    if (job.kind == CT_RANDOM_INTEGER) {
        job.low = node->attr.value.i;
        job.range = (uint64_t)node->attr.step.i - (uint64_t)job.low;
        job.wide = job.range > 65536;
    } else if (!ct_dtype_is_float(job.dtype)) {
        return ct_fail(error, CT_ERR_DTYPE, "random: a floating type was expected, not %s",
                       ct_dtype_name(job.dtype));
    }
    ct_parallel(runtime->threads, (job.numel + BATCH - 1) / BATCH, 8, random_part, &job);
    return CT_OK;
}
