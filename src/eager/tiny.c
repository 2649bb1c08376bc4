/* tiny.c: see tiny.h. The right operand is packed into vectors of a row each, one block of columns
 * after another; four rows of the result then gather products of them. Compiled for several ISAs,
 * each with its own vector width: with separate multiplication and addition all give the same bits.
 */
#include "eager/tiny.h"

#include <string.h>

#define ARGUMENTS(T)                                                                               \
    int m, int n, int k, const T *a, int64_t a_row, int64_t a_column, const T *b, int64_t b_row,   \
        int64_t b_column, T *out, int64_t out_row
#define PASSED m, n, k, a, a_row, a_column, b, b_row, b_column, out, out_row

#define TINY(T, name, bytes, isa)                                                                  \
    typedef __attribute__((vector_size(bytes))) T name##_vector;                                   \
    static isa void name(ARGUMENTS(T)) {                                                           \
        enum { LANES = bytes / sizeof(T) };                                                        \
        name##_vector rows[CT_TINY], sums[4];                                                      \
        for (int first = 0; first < n; first += LANES) {                                           \
            int count = n - first < LANES ? n - first : LANES;                                     \
            for (int l = 0; l < k; l++) {                                                          \
                const T *from = b + l * b_row + first * b_column;                                  \
                if (count == LANES && b_column == 1) {                                             \
                    memcpy(&rows[l], from, bytes);                                                 \
                    continue;                                                                      \
                }                                                                                  \
                T *row = (T *)&rows[l];                                                            \
                for (int j = 0; j < count; j++)                                                    \
                    row[j] = from[j * b_column];                                                   \
                for (int j = count; j < LANES; j++)                                                \
                    row[j] = 0;                                                                    \
            }                                                                                      \
            for (int i = 0; i < m; i += 4) {                                                       \
                int there = m - i < 4 ? m - i : 4; /* missing rows repeat the last one */          \
                const T *a0 = a + i * a_row, *a1 = there > 1 ? a0 + a_row : a0;                    \
                const T *a2 = there > 2 ? a1 + a_row : a1, *a3 = there > 3 ? a2 + a_row : a2;      \
                name##_vector s0 = {0}, s1 = s0, s2 = s0, s3 = s0;                                 \
                for (int l = 0; l < k; l++) {                                                      \
                    s0 = s0 + a0[l * a_column] * rows[l];                                          \
                    s1 = s1 + a1[l * a_column] * rows[l];                                          \
                    s2 = s2 + a2[l * a_column] * rows[l];                                          \
                    s3 = s3 + a3[l * a_column] * rows[l];                                          \
                }                                                                                  \
                sums[0] = s0, sums[1] = s1, sums[2] = s2, sums[3] = s3;                            \
                for (int r = 0; r < there; r++) {                                                  \
                    T *to = out + (i + r) * out_row + first;                                       \
                    if (count == LANES)                                                            \
                        memcpy(to, &sums[r], bytes);                                               \
                    else                                                                           \
                        for (int j = 0; j < count; j++)                                            \
                            to[j] = ((T *)&sums[r])[j];                                            \
                }                                                                                  \
            }                                                                                      \
        }                                                                                          \
    }

TINY(float, float32_16, 16, )
TINY(double, float64_16, 16, )
#ifdef __x86_64__
#define AVX2 __attribute__((target("avx2")))
#define AVX512 __attribute__((target("avx512f")))
TINY(float, float32_32, 32, AVX2)
TINY(double, float64_32, 32, AVX2)
TINY(float, float32_64, 64, AVX512)
TINY(double, float64_64, 64, AVX512)
#endif

void ct_tiny_float32(ARGUMENTS(float)) {
#ifdef __x86_64__
    if (n > 8 && __builtin_cpu_supports("avx512f")) {
        float32_64(PASSED);
        return;
    }
    if (n > 4 && __builtin_cpu_supports("avx2")) {
        float32_32(PASSED);
        return;
    }
#endif
    float32_16(PASSED);
}

void ct_tiny_float64(ARGUMENTS(double)) {
#ifdef __x86_64__
    if (n > 4 && __builtin_cpu_supports("avx512f")) {
        float64_64(PASSED);
        return;
    }
    if (n > 2 && __builtin_cpu_supports("avx2")) {
        float64_32(PASSED);
        return;
    }
#endif
    float64_16(PASSED);
}
