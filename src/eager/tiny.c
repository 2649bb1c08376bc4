/* tiny.c: see tiny.h. The right operand is packed into rows of one vector; each row of the result is then one
 * vector that gathers products. The vector is as wide as n needs, and is compiled for several ISAs: with
 * separate multiplication and addition all give the same bits. */
#include "eager/tiny.h"

#include <string.h>

#define VECTOR(T, width) __attribute__((vector_size(width * sizeof(T)), aligned(sizeof(T)))) T

#define TINY_WIDTH(T, width, name)                                                                         \
    typedef VECTOR(T, width) name##_vector;                                                                \
    static inline __attribute__((always_inline)) void name(int m, int n, int k, const T *a, int64_t a_row, \
                                                           int64_t a_column, const T *b, int64_t b_row,    \
                                                           int64_t b_column, T *out, int64_t out_row) {    \
        name##_vector rows[CT_TINY];                                                                       \
        for (int l = 0; l < k; l++) {                                                                      \
            T row[width] = {0};                                                                            \
            for (int j = 0; j < n; j++)                                                                    \
                row[j] = b[l * b_row + j * b_column];                                                      \
            memcpy(&rows[l], row, sizeof row);                                                             \
        }                                                                                                  \
        for (int i = 0; i < m; i++) {                                                                      \
            name##_vector sum = {0};                                                                       \
            const T *factor = a + i * a_row;                                                               \
            for (int l = 0; l < k; l++)                                                                    \
                sum = sum + factor[l * a_column] * rows[l];                                                \
            if (n == width)                                                                                \
                memcpy(out + i * out_row, &sum, sizeof sum);                                               \
            else                                                                                           \
                for (int j = 0; j < n; j++)                                                                \
                    out[i * out_row + j] = sum[j];                                                         \
        }                                                                                                  \
    }

#define TINY_TYPE(T, name)                                                                                 \
    TINY_WIDTH(T, 4, name##_4)                                                                             \
    TINY_WIDTH(T, 8, name##_8)                                                                             \
    TINY_WIDTH(T, 16, name##_16)                                                                           \
    static inline __attribute__((always_inline)) void name(int m, int n, int k, const T *a, int64_t a_row, \
                                                           int64_t a_column, const T *b, int64_t b_row,    \
                                                           int64_t b_column, T *out, int64_t out_row) {    \
        if (n <= 4)                                                                                        \
            name##_4(m, n, k, a, a_row, a_column, b, b_row, b_column, out, out_row);                       \
        else if (n <= 8)                                                                                   \
            name##_8(m, n, k, a, a_row, a_column, b, b_row, b_column, out, out_row);                       \
        else                                                                                               \
            name##_16(m, n, k, a, a_row, a_column, b, b_row, b_column, out, out_row);                      \
    }

TINY_TYPE(float, float32)
TINY_TYPE(double, float64)

#ifdef __x86_64__
#define TINY_ISA(T, name, suffix, isa)                                                                     \
    static __attribute__((target(isa))) void name##_##suffix(                                              \
        int m, int n, int k, const T *a, int64_t a_row, int64_t a_column, const T *b, int64_t b_row,       \
        int64_t b_column, T *out, int64_t out_row) {                                                       \
        name(m, n, k, a, a_row, a_column, b, b_row, b_column, out, out_row);                               \
    }
TINY_ISA(float, float32, avx2, "avx2")
TINY_ISA(float, float32, avx512, "avx512f")
TINY_ISA(double, float64, avx2, "avx2")
TINY_ISA(double, float64, avx512, "avx512f")
#define TINY_CHOICE(name)                                                                                  \
    if (__builtin_cpu_supports("avx512f"))                                                                 \
        name##_avx512(m, n, k, a, a_row, a_column, b, b_row, b_column, out, out_row);                      \
    else if (__builtin_cpu_supports("avx2"))                                                               \
        name##_avx2(m, n, k, a, a_row, a_column, b, b_row, b_column, out, out_row);                        \
    else
#else
#define TINY_CHOICE(name)
#endif

void ct_tiny_float32(int m, int n, int k, const float *a, int64_t a_row, int64_t a_column, const float *b,
                     int64_t b_row, int64_t b_column, float *out, int64_t out_row) {
    TINY_CHOICE(float32)
    float32(m, n, k, a, a_row, a_column, b, b_row, b_column, out, out_row);
}

void ct_tiny_float64(int m, int n, int k, const double *a, int64_t a_row, int64_t a_column, const double *b,
                     int64_t b_row, int64_t b_column, double *out, int64_t out_row) {
    TINY_CHOICE(float64)
    float64(m, n, k, a, a_row, a_column, b, b_row, b_column, out, out_row);
}
