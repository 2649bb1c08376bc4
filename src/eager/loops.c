/* loops.c: see loops.h. Compiled once for each instruction set, with CT_ISA its name and
 * -ffp-contract=off. */
#include "eager/loops.h"

#include <math.h>
#include <string.h>

#include "graph/element.h"
#include "graph/reduce.h"

#ifndef CT_ISA
#define CT_ISA base
#endif

/* ---- Picking apart ops.def
 * -------------------------------------------------------------------------- Called at last,
 * CT_NONE brings a comma that moves `skip` into the second place. */
#define CT_NONE() 0, skip
#define SECOND(first, second, ...) second
#define CHOOSE(...) SECOND(__VA_ARGS__)
#define PASTE_(a, b) a##b
#define PASTE(a, b) PASTE_(a, b)

/* ---- Element-wise loops
 * ------------------------------------------------------------------------------ Whole vectors,
 * then one that is filled up: all elements take the same instructions. */
#define LOAD(S, name, from)                                                                        \
    ct_##S##v name;                                                                                \
    memcpy(&name, from, sizeof name)

#define TYPES(S)                                                                                   \
    typedef ct_##S##v ct_t __attribute__((unused));                                                \
    typedef ct_##S ct_e __attribute__((unused));                                                   \
    enum { WIDTH = CT_VECTOR / sizeof(ct_##S) }

#define UNARY_keep(NAME, S, EXPRESSION)                                                            \
    static void NAME##_##S(void *out, const void *const *in, int64_t n) {                          \
        TYPES(S);                                                                                  \
        const ct_e *a = in[0];                                                                     \
        ct_e *to = out, last[2][WIDTH];                                                            \
        for (int64_t i = 0; i < n; i += WIDTH) {                                                   \
            const ct_e *pa = a + i;                                                                \
            ct_e *po = to + i;                                                                     \
            if (n - i < WIDTH) {                                                                   \
                memset(last, 0, sizeof last);                                                      \
                memcpy(last[0], pa, (size_t)(n - i) * sizeof *a);                                  \
                pa = last[0], po = last[1];                                                        \
            }                                                                                      \
            LOAD(S, x, pa);                                                                        \
            ct_t r = EXPRESSION;                                                                   \
            memcpy(po, &r, sizeof r);                                                              \
        }                                                                                          \
        memcpy(to + n / WIDTH * WIDTH, last[1], (size_t)(n % WIDTH) * sizeof *to);                 \
    }

#define BINARY_keep(NAME, S, EXPRESSION)                                                           \
    static void NAME##_##S(void *out, const void *const *in, int64_t n) {                          \
        TYPES(S);                                                                                  \
        const ct_e *a = in[0], *b = in[1];                                                         \
        ct_e *to = out, last[3][WIDTH];                                                            \
        for (int64_t i = 0; i < n; i += WIDTH) {                                                   \
            const ct_e *pa = a + i, *pb = b + i;                                                   \
            ct_e *po = to + i;                                                                     \
            if (n - i < WIDTH) {                                                                   \
                memset(last, 0, sizeof last);                                                      \
                memcpy(last[0], pa, (size_t)(n - i) * sizeof *a);                                  \
                memcpy(last[1], pb, (size_t)(n - i) * sizeof *b);                                  \
                pa = last[0], pb = last[1], po = last[2];                                          \
            }                                                                                      \
            LOAD(S, x, pa);                                                                        \
            LOAD(S, y, pb);                                                                        \
            ct_t r = EXPRESSION;                                                                   \
            memcpy(po, &r, sizeof r);                                                              \
        }                                                                                          \
        memcpy(to + n / WIDTH * WIDTH, last[2], (size_t)(n % WIDTH) * sizeof *to);                 \
    }

/* A mask of WIDTH elements to bytes 0 and 1, and back. */
#define BYTES(name) typedef __attribute__((vector_size(WIDTH))) ct_i8 name

#define COMPARE_keep(NAME, S, EXPRESSION)                                                          \
    static void NAME##_##S(void *out, const void *const *in, int64_t n) {                          \
        TYPES(S);                                                                                  \
        BYTES(bytes);                                                                              \
        const ct_e *a = in[0], *b = in[1];                                                         \
        ct_e last[2][WIDTH];                                                                       \
        ct_u8 *to = out, last_out[WIDTH];                                                          \
        for (int64_t i = 0; i < n; i += WIDTH) {                                                   \
            const ct_e *pa = a + i, *pb = b + i;                                                   \
            ct_u8 *po = to + i;                                                                    \
            if (n - i < WIDTH) {                                                                   \
                memset(last, 0, sizeof last);                                                      \
                memcpy(last[0], pa, (size_t)(n - i) * sizeof *a);                                  \
                memcpy(last[1], pb, (size_t)(n - i) * sizeof *b);                                  \
                pa = last[0], pb = last[1], po = last_out;                                         \
            }                                                                                      \
            LOAD(S, x, pa);                                                                        \
            LOAD(S, y, pb);                                                                        \
            bytes r = __builtin_convertvector(EXPRESSION, bytes) & 1;                              \
            memcpy(po, &r, sizeof r);                                                              \
        }                                                                                          \
        memcpy(to + n / WIDTH * WIDTH, last_out, (size_t)(n % WIDTH));                             \
    }

#define SELECT_keep(NAME, S, EXPRESSION)                                                           \
    static void NAME##_##S(void *out, const void *const *in, int64_t n) {                          \
        TYPES(S);                                                                                  \
        BYTES(bytes);                                                                              \
        typedef __typeof__((ct_t){0} == (ct_t){0}) mask;                                           \
        const ct_u8 *a = in[0];                                                                    \
        const ct_e *b = in[1], *c = in[2];                                                         \
        ct_u8 last_mask[WIDTH];                                                                    \
        ct_e *to = out, last[3][WIDTH];                                                            \
        for (int64_t i = 0; i < n; i += WIDTH) {                                                   \
            const ct_u8 *pa = a + i;                                                               \
            const ct_e *pb = b + i, *pc = c + i;                                                   \
            ct_e *po = to + i;                                                                     \
            if (n - i < WIDTH) {                                                                   \
                memset(last, 0, sizeof last);                                                      \
                memset(last_mask, 0, sizeof last_mask);                                            \
                memcpy(last_mask, pa, (size_t)(n - i));                                            \
                memcpy(last[0], pb, (size_t)(n - i) * sizeof *b);                                  \
                memcpy(last[1], pc, (size_t)(n - i) * sizeof *c);                                  \
                pa = last_mask, pb = last[0], pc = last[1], po = last[2];                          \
            }                                                                                      \
            bytes m;                                                                               \
            memcpy(&m, pa, sizeof m);                                                              \
            mask x = (mask)(__builtin_convertvector(m, mask) != 0);                                \
            LOAD(S, y, pb);                                                                        \
            LOAD(S, z, pc);                                                                        \
            ct_t r = EXPRESSION;                                                                   \
            memcpy(po, &r, sizeof r);                                                              \
        }                                                                                          \
        memcpy(to + n / WIDTH * WIDTH, last[2], (size_t)(n % WIDTH) * sizeof *to);                 \
    }

#define UNARY_skip(NAME, S, EXPRESSION)
#define BINARY_skip(NAME, S, EXPRESSION)
#define COMPARE_skip(NAME, S, EXPRESSION)
#define SELECT_skip(NAME, S, EXPRESSION)
#define KERNEL(CLASS, NAME, S, ...)                                                                \
    PASTE(CLASS##_, CHOOSE(__VA_ARGS__(), keep, ))(NAME, S, __VA_ARGS__)
#define KERNELS(CLASS, NAME, f, i)                                                                 \
    KERNEL(CLASS, NAME, f32, f)                                                                    \
    KERNEL(CLASS, NAME, f64, f)                                                                    \
    KERNEL(CLASS, NAME, u8, i)                                                                     \
    KERNEL(CLASS, NAME, i8, i)                                                                     \
    KERNEL(CLASS, NAME, i16, i)                                                                    \
    KERNEL(CLASS, NAME, i32, i)                                                                    \
    KERNEL(CLASS, NAME, i64, i)
#define EACH_UNARY(NAME, f, i) KERNELS(UNARY, NAME, f, i)
#define EACH_BINARY(NAME, f, i) KERNELS(BINARY, NAME, f, i)
#define EACH_COMPARE(NAME, f, i) KERNELS(COMPARE, NAME, f, i)
#define EACH_SELECT(NAME, f, i) KERNELS(SELECT, NAME, f, i)
#define EACH_SOURCE(NAME, f, i)
#define EACH_REDUCE(NAME, f, i)
#define EACH_SCAN(NAME, f, i)
#define EACH_MOVEMENT(NAME, f, i)
#define EACH_CONTRACTION(NAME, f, i)
#define EACH_INDEX(NAME, f, i)
#define EACH_CUSTOM(NAME, f, i)
#define CT_OP(NAME, name, sources, CLASS, accepts, result, f, i) EACH_##CLASS(NAME, f, i)
#include "graph/ops.def"
#undef CT_OP

static void bool_not(void *out, const void *const *in, int64_t n) {
    const uint8_t *a = in[0];
    uint8_t *to = out;
    for (int64_t i = 0; i < n; i++)
        to[i] = a[i] ^ 1;
}

/* ---- Conversions
 * ------------------------------------------------------------------------------------- Written
 * without branches, so that the compiler makes vectors of them. Rounding is to nearest, ties to
 * even, once; a NaN becomes the quiet one with its sign, or keeps its payload where it fits. */
static inline uint32_t bits_of(float x) {
    uint32_t u;
    memcpy(&u, &x, sizeof u);
    return u;
}
static inline float from_bits(uint32_t u) {
    float x;
    memcpy(&x, &u, sizeof x);
    return x;
}

static inline float read_f16(uint16_t h) {
    uint32_t sign = (uint32_t)(h & 0x8000) << 16, a = (uint32_t)(h & 0x7fff) << 13;
    uint32_t normal = a + (112u << 23), special = a + (224u << 23);
    uint32_t small = bits_of((float)(int32_t)(h & 0x3ff) * 0x1p-24f);
    uint32_t u = a < 1u << 23 ? small : a >= 31u << 23 ? special : normal;
    return from_bits(sign | u);
}
static inline float read_bf16(uint16_t h) {
    return from_bits((uint32_t)h << 16);
}

static inline uint16_t write_f16(float x) {
    uint32_t u = bits_of(x), sign = u >> 16 & 0x8000, a = u & 0x7fffffff;
    uint32_t normal = (a + 0xfff + (a >> 13 & 1) - (112u << 23)) >> 13;
    uint32_t small =
        bits_of(from_bits(a) + 0.5f) - 0x3f000000; /* the last place of 0.5 is that of subnormals */
    uint32_t h = a < 113u << 23 ? small : normal;
    h = a >= 0x477ff000 ? 0x7c00 : h;
    h = a > 0x7f800000 ? 0x7e00 : h;
    return (uint16_t)(sign | h);
}
static inline uint16_t write_bf16(float x) {
    uint32_t u = bits_of(x), r = (u + 0x7fff + (u >> 16 & 1)) >> 16;
    return (uint16_t)((u & 0x7fffffff) > 0x7f800000 ? (u >> 16 & 0x8000) | 0x7fc0 : r);
}

/* float32 towards zero with the last bit set where something was lost ("round to odd", Boldo and
 * Melquiond 2008): rounding that once more to a narrower type is as rounding x once. */
static inline float odd_f64(double x) {
    float f = (float)x;
    double d = f;
    uint32_t u = bits_of(f);
    uint32_t away = fabs(d) > fabs(x), lost = (d != x) & (x == x);
    return from_bits(lost ? (u - away) | 1 : u);
}
/* A double whose rounding to any narrower type is that of i. */
static inline double odd_i64(int64_t i) {
    int64_t rough = (i & ~(int64_t)2047) | ((i & 2047) != 0) << 10;
    bool exact = i >= -((int64_t)1 << 53) && i <= (int64_t)1 << 53;
    return (double)(exact ? i : rough);
}

/* As ct_scalar_store: truncated; what does not fit is the least int64. */
static inline int64_t whole(double x) {
    bool fits = x >= -0x1p63 && x < 0x1p63;
    int64_t i = (int64_t)(fits ? x : 0);
    return fits ? i : INT64_MIN;
}
static inline int32_t whole32(double x) {
    bool fits = x > -2147483649.0 && x < 2147483648.0;
    int32_t i = (int32_t)(fits ? x : 0);
    return fits ? i : INT32_MIN;
}

/* How each type is read, as int64, float or double, and written from each of them. */
#define READ_CT_BOOL(x) (x)
#define READ_CT_UINT8(x) (x)
#define READ_CT_INT8(x) (x)
#define READ_CT_INT16(x) (x)
#define READ_CT_INT32(x) (x)
#define READ_CT_INT64(x) (x)
#define READ_CT_FLOAT16(x) read_f16(x)
#define READ_CT_BFLOAT16(x) read_bf16(x)
#define READ_CT_FLOAT32(x) (x)
#define READ_CT_FLOAT64(x) (x)
#define INT_CT_BOOL(x) ((x) != 0)
#define INT_CT_UINT8(x) (uint8_t)(x)
#define INT_CT_INT8(x) (int8_t)(x)
#define INT_CT_INT16(x) (int16_t)(x)
#define INT_CT_INT32(x) (int32_t)(x)
#define INT_CT_INT64(x) (x)
#define INT_CT_FLOAT16(x) write_f16((float)(x))
#define INT_CT_BFLOAT16(x) write_bf16((float)(x))
#define INT_CT_FLOAT32(x) (float)(x)
#define INT_CT_FLOAT64(x) (double)(x)
#define WIDE_CT_BOOL(x) ((x) != 0)
#define WIDE_CT_UINT8(x) (uint8_t)(x)
#define WIDE_CT_INT8(x) (int8_t)(x)
#define WIDE_CT_INT16(x) (int16_t)(x)
#define WIDE_CT_INT32(x) (int32_t)(x)
#define WIDE_CT_INT64(x) (x)
#define WIDE_CT_FLOAT16(x) write_f16(odd_f64(odd_i64(x)))
#define WIDE_CT_BFLOAT16(x) write_bf16(odd_f64(odd_i64(x)))
#define WIDE_CT_FLOAT32(x) (float)(x)
#define WIDE_CT_FLOAT64(x) (double)(x)
#define FLOAT_CT_BOOL(x) ((x) != 0)
#define FLOAT_CT_UINT8(x) (uint8_t) whole(x)
#define FLOAT_CT_INT8(x) (int8_t) whole(x)
#define FLOAT_CT_INT16(x) (int16_t) whole(x)
#define FLOAT_CT_INT32(x) whole32(x)
#define FLOAT_CT_INT64(x) whole(x)
#define FLOAT_CT_FLOAT16(x) write_f16(x)
#define FLOAT_CT_BFLOAT16(x) write_bf16(x)
#define FLOAT_CT_FLOAT32(x) (x)
#define FLOAT_CT_FLOAT64(x) (double)(x)
#define DOUBLE_CT_BOOL(x) ((x) != 0)
#define DOUBLE_CT_UINT8(x) (uint8_t) whole(x)
#define DOUBLE_CT_INT8(x) (int8_t) whole(x)
#define DOUBLE_CT_INT16(x) (int16_t) whole(x)
#define DOUBLE_CT_INT32(x) whole32(x)
#define DOUBLE_CT_INT64(x) whole(x)
#define DOUBLE_CT_FLOAT16(x) write_f16(odd_f64(x))
#define DOUBLE_CT_BFLOAT16(x) write_bf16(odd_f64(x))
#define DOUBLE_CT_FLOAT32(x) (float)(x)
#define DOUBLE_CT_FLOAT64(x) (x)

#define CONVERT(FROM, F, TO, T, KIND)                                                              \
    static void FROM##_to_##TO(void *out, const void *in, int64_t n) {                             \
        const F *a = in;                                                                           \
        T *to = out;                                                                               \
        for (int64_t i = 0; i < n; i++)                                                            \
            to[i] = (T)KIND##_##TO(READ_##FROM(a[i]));                                             \
    }
#define CONVERT_FROM(FROM, F, KIND)                                                                \
    CONVERT(FROM, F, CT_BOOL, uint8_t, KIND)                                                       \
    CONVERT(FROM, F, CT_UINT8, uint8_t, KIND)                                                      \
    CONVERT(FROM, F, CT_INT8, int8_t, KIND)                                                        \
    CONVERT(FROM, F, CT_INT16, int16_t, KIND)                                                      \
    CONVERT(FROM, F, CT_INT32, int32_t, KIND)                                                      \
    CONVERT(FROM, F, CT_INT64, int64_t, KIND)                                                      \
    CONVERT(FROM, F, CT_FLOAT16, uint16_t, KIND)                                                   \
    CONVERT(FROM, F, CT_BFLOAT16, uint16_t, KIND)                                                  \
    CONVERT(FROM, F, CT_FLOAT32, float, KIND)                                                      \
    CONVERT(FROM, F, CT_FLOAT64, double, KIND)
CONVERT_FROM(CT_BOOL, uint8_t, INT)
CONVERT_FROM(CT_UINT8, uint8_t, INT)
CONVERT_FROM(CT_INT8, int8_t, INT)
CONVERT_FROM(CT_INT16, int16_t, INT)
CONVERT_FROM(CT_INT32, int32_t, WIDE)
CONVERT_FROM(CT_INT64, int64_t, WIDE)
CONVERT_FROM(CT_FLOAT16, uint16_t, FLOAT)
CONVERT_FROM(CT_BFLOAT16, uint16_t, FLOAT)
CONVERT_FROM(CT_FLOAT32, float, FLOAT)
CONVERT_FROM(CT_FLOAT64, double, DOUBLE)

/* ---- Moving --------------------------------------------------------------------------------- */

#define MOVE(T)                                                                                    \
    static void gather_##T(void *out, const void *in, int64_t stride, int64_t n) {                 \
        T *to = out;                                                                               \
        const T *a = in;                                                                           \
        if (stride == 1)                                                                           \
            memcpy(to, a, (size_t)n * sizeof *to);                                                 \
        else if (stride == 0)                                                                      \
            for (int64_t i = 0; i < n; i++)                                                        \
                to[i] = *a;                                                                        \
        else                                                                                       \
            for (int64_t i = 0; i < n; i++)                                                        \
                to[i] = a[i * stride];                                                             \
    }                                                                                              \
    static void scatter_##T(void *out, const void *in, int64_t stride, int64_t n) {                \
        T *to = out;                                                                               \
        const T *a = in;                                                                           \
        if (stride == 1)                                                                           \
            memcpy(to, a, (size_t)n * sizeof *to);                                                 \
        else                                                                                       \
            for (int64_t i = 0; i < n; i++)                                                        \
                to[i * stride] = a[i];                                                             \
    }                                                                                              \
    static void transpose_##T(void *out, int64_t out_stride, const void *in, int64_t in_stride,    \
                              int64_t rows, int64_t columns) {                                     \
        for (int64_t r = 0; r < rows; r++) {                                                       \
            T *to = (T *)out + r * out_stride;                                                     \
            const T *a = (const T *)in + r;                                                        \
            for (int64_t c = 0; c < columns; c++)                                                  \
                to[c] = a[c * in_stride];                                                          \
        }                                                                                          \
    }
MOVE(uint8_t)
MOVE(uint16_t)
MOVE(uint32_t)
MOVE(uint64_t)

/* ---- Reductions ----------------------------------------------------------------------------- */

#define REDUCER(NAME, S, START, ...)                                                               \
    CT_REDUCTION(NAME, S, START, __VA_ARGS__)                                                      \
    static void NAME##_##S##_block(const void *data, int64_t stride, int64_t n, int64_t count,     \
                                   void *results) {                                                \
        for (int64_t i = 0; i < count; i++)                                                        \
            ((ct_##S *)results)[i] =                                                               \
                ct_##NAME##_##S##_block((const ct_##S *)data + i * stride, n);                     \
    }                                                                                              \
    static void NAME##_##S##_rows(void *lanes, const void *data, int64_t stride, int64_t rows,     \
                                  int64_t width, bool first) {                                     \
        ct_##NAME##_##S##_rows(lanes, data, stride, rows, width, first);                           \
    }                                                                                              \
    static void NAME##_##S##_fold(void *lanes, int64_t rows, int64_t width, void *result) {        \
        ct_##NAME##_##S##_fold(lanes, rows, width, result);                                        \
    }                                                                                              \
    static void NAME##_##S##_combine(void *left, const void *right, int64_t width) {               \
        ct_##NAME##_##S##_combine(left, right, width);                                             \
    }
#define LEAST_f32 (-__builtin_inff())
#define LEAST_f64 (-__builtin_inf())
#define LEAST_u8 0
#define LEAST_i8 INT8_MIN
#define LEAST_i16 INT16_MIN
#define LEAST_i32 INT32_MIN
#define LEAST_i64 INT64_MIN
#define MOST_f32 __builtin_inff()
#define MOST_f64 __builtin_inf()
#define MOST_u8 UINT8_MAX
#define MOST_i8 INT8_MAX
#define MOST_i16 INT16_MAX
#define MOST_i32 INT32_MAX
#define MOST_i64 INT64_MAX
#define REDUCERS_FLOAT(NAME, S, ...) REDUCERS_##NAME(S, __VA_ARGS__)
#define REDUCERS_SUM(S, ...) REDUCER(SUM, S, CT_SUM_START, __VA_ARGS__)
#define REDUCERS_PROD(S, ...) REDUCER(PROD, S, 1, __VA_ARGS__)
#define REDUCERS_MAX(S, ...) REDUCER(MAX, S, LEAST_##S, __VA_ARGS__)
#define REDUCERS_MIN(S, ...) REDUCER(MIN, S, MOST_##S, __VA_ARGS__)
#define REDUCERS_ARGMAX(S, ...)
#define REDUCERS_ARGMIN(S, ...)
#undef EACH_UNARY
#undef EACH_BINARY
#undef EACH_COMPARE
#undef EACH_SELECT
#undef EACH_REDUCE
#define EACH_UNARY(NAME, f, i)
#define EACH_BINARY(NAME, f, i)
#define EACH_COMPARE(NAME, f, i)
#define EACH_SELECT(NAME, f, i)
#define EACH_REDUCE(NAME, f, i)                                                                    \
    REDUCERS_##NAME(f32, f) REDUCERS_##NAME(f64, f) REDUCERS_##NAME(u8, i) REDUCERS_##NAME(i8, i)  \
        REDUCERS_##NAME(i16, i) REDUCERS_##NAME(i32, i) REDUCERS_##NAME(i64, i)
#define CT_OP(NAME, name, sources, CLASS, accepts, result, f, i) EACH_##CLASS(NAME, f, i)
#include "graph/ops.def"
#undef CT_OP

#define ARGUMENT(NAME, S, BETTER)                                                                  \
    static void NAME##_argument_##S(const void *data, int64_t n, int64_t base, bool first,         \
                                    void *best, int64_t *index) {                                  \
        const ct_##S *a = data;                                                                    \
        ct_##S top = a[0], value;                                                                  \
        if (n > 32)                                                                                \
            NAME##_##S##_block(data, 0, n, 1, &top);                                               \
        else                                                                                       \
            for (int64_t i = 1; i < n; i++)                                                        \
                top = ct_##NAME##_##S(top, a[i]);                                                  \
        memcpy(&value, best, sizeof value);                                                        \
        bool nan = top != top;                                                                     \
        if (!first && !(top BETTER value) && !(nan && value == value))                             \
            return;                                                                                \
        int64_t i = 0;                                                                             \
        while (i < n - 1 && !(nan ? a[i] != a[i] : a[i] == top))                                   \
            i++;                                                                                   \
        memcpy(best, &top, sizeof top);                                                            \
        *index = base + i;                                                                         \
    }
#define SCAN(S)                                                                                    \
    static void scan_##S(void *out, const void *in, int64_t n, bool first, void *carry) {          \
        const ct_##S *a = in;                                                                      \
        ct_##S *to = out, sum;                                                                     \
        int64_t i = 0;                                                                             \
        memcpy(&sum, carry, sizeof sum);                                                           \
        if (first && n > 0)                                                                        \
            to[0] = sum = a[0], i = 1;                                                             \
        for (; i < n; i++)                                                                         \
            to[i] = sum = (ct_##S)(sum + a[i]);                                                    \
        memcpy(carry, &sum, sizeof sum);                                                           \
    }
#define HAS_ZERO(S)                                                                                \
    static bool has_zero_##S(const void *in, int64_t n) {                                          \
        const ct_##S *a = in;                                                                      \
        ct_##S found = 0;                                                                          \
        for (int64_t i = 0; i < n; i++)                                                            \
            found |= a[i] == 0;                                                                    \
        return found != 0;                                                                         \
    }
#define REST(S)                                                                                    \
    ARGUMENT(MAX, S, >)                                                                            \
    ARGUMENT(MIN, S, <)                                                                            \
    SCAN(S)
REST(f32)
REST(f64)
REST(u8)
REST(i8)
REST(i16)
REST(i32)
REST(i64)
HAS_ZERO(u8)
HAS_ZERO(i8)
HAS_ZERO(i16)
HAS_ZERO(i32)
HAS_ZERO(i64)

/* ---- The table ------------------------------------------------------------------------------ */

#define ENTRY_keep(NAME, DTYPE, S) .op[CT_##NAME][DTYPE] = NAME##_##S,
#define ENTRY_skip(NAME, DTYPE, S)
#define ENTRY(NAME, DTYPE, S, ...) PASTE(ENTRY_, CHOOSE(__VA_ARGS__(), keep, ))(NAME, DTYPE, S)
#define ENTRIES(NAME, f, i)                                                                        \
    ENTRY(NAME, CT_FLOAT32, f32, f)                                                                \
    ENTRY(NAME, CT_FLOAT64, f64, f)                                                                \
    ENTRY(NAME, CT_BOOL, u8, i)                                                                    \
    ENTRY(NAME, CT_UINT8, u8, i)                                                                   \
    ENTRY(NAME, CT_INT8, i8, i)                                                                    \
    ENTRY(NAME, CT_INT16, i16, i)                                                                  \
    ENTRY(NAME, CT_INT32, i32, i)                                                                  \
    ENTRY(NAME, CT_INT64, i64, i)
#undef EACH_UNARY
#undef EACH_BINARY
#undef EACH_COMPARE
#undef EACH_SELECT
#undef EACH_REDUCE
#define EACH_UNARY ENTRIES
#define EACH_BINARY ENTRIES
#define EACH_COMPARE ENTRIES
#define EACH_SELECT ENTRIES
#define EACH_REDUCE(NAME, f, i)

#define CONVERSIONS(FROM)                                                                          \
    [FROM] = {[CT_BOOL] = FROM##_to_CT_BOOL,       [CT_UINT8] = FROM##_to_CT_UINT8,                \
              [CT_INT8] = FROM##_to_CT_INT8,       [CT_INT16] = FROM##_to_CT_INT16,                \
              [CT_INT32] = FROM##_to_CT_INT32,     [CT_INT64] = FROM##_to_CT_INT64,                \
              [CT_FLOAT16] = FROM##_to_CT_FLOAT16, [CT_BFLOAT16] = FROM##_to_CT_BFLOAT16,          \
              [CT_FLOAT32] = FROM##_to_CT_FLOAT32, [CT_FLOAT64] = FROM##_to_CT_FLOAT64}
#define BY_TYPE(PREFIX, SUFFIX)                                                                    \
    {                                                                                              \
        [CT_BOOL] = PREFIX##u8##SUFFIX, [CT_UINT8] = PREFIX##u8##SUFFIX,                           \
        [CT_INT8] = PREFIX##i8##SUFFIX, [CT_INT16] = PREFIX##i16##SUFFIX,                          \
        [CT_INT32] = PREFIX##i32##SUFFIX, [CT_INT64] = PREFIX##i64##SUFFIX,                        \
        [CT_FLOAT32] = PREFIX##f32##SUFFIX, [CT_FLOAT64] = PREFIX##f64##SUFFIX                     \
    }
#define STEPS(NAME, S)                                                                             \
    { NAME##_##S##_block, NAME##_##S##_rows, NAME##_##S##_fold, NAME##_##S##_combine }
#define REDUCTION(NAME)                                                                            \
    [CT_REDUCE_##NAME] = {[CT_BOOL] = STEPS(NAME, u8),     [CT_UINT8] = STEPS(NAME, u8),           \
                          [CT_INT8] = STEPS(NAME, i8),     [CT_INT16] = STEPS(NAME, i16),          \
                          [CT_INT32] = STEPS(NAME, i32),   [CT_INT64] = STEPS(NAME, i64),          \
                          [CT_FLOAT32] = STEPS(NAME, f32), [CT_FLOAT64] = STEPS(NAME, f64)}

extern const ct_loops PASTE(ct_loops_, CT_ISA);
const ct_loops PASTE(ct_loops_, CT_ISA) = {
#define CT_OP(NAME, name, sources, CLASS, accepts, result, f, i) EACH_##CLASS(NAME, f, i)
#include "graph/ops.def"
#undef CT_OP
    .convert = {CONVERSIONS(CT_BOOL), CONVERSIONS(CT_UINT8), CONVERSIONS(CT_INT8),
                CONVERSIONS(CT_INT16), CONVERSIONS(CT_INT32), CONVERSIONS(CT_INT64),
                CONVERSIONS(CT_FLOAT16), CONVERSIONS(CT_BFLOAT16), CONVERSIONS(CT_FLOAT32),
                CONVERSIONS(CT_FLOAT64)},
    .gather = {gather_uint8_t, gather_uint16_t, gather_uint32_t, gather_uint64_t},
    .scatter = {scatter_uint8_t, scatter_uint16_t, scatter_uint32_t, scatter_uint64_t},
    .transpose = {transpose_uint8_t, transpose_uint16_t, transpose_uint32_t, transpose_uint64_t},
    .reduction = {REDUCTION(SUM), REDUCTION(PROD), REDUCTION(MAX), REDUCTION(MIN)},
    .argument = {BY_TYPE(MAX_argument_, ), BY_TYPE(MIN_argument_, )},
    .scan = BY_TYPE(scan_, ),
    .bool_not = bool_not,
    .has_zero = {[CT_UINT8] = has_zero_u8,
                 [CT_INT8] = has_zero_i8,
                 [CT_INT16] = has_zero_i16,
                 [CT_INT32] = has_zero_i32,
                 [CT_INT64] = has_zero_i64},
};
