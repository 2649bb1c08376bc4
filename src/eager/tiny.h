/* tiny.h: matrix products so small that a library call costs more than the work. */
#ifndef CT_EAGER_TINY_H
#define CT_EAGER_TINY_H

#include <stdint.h>

#define CT_TINY 16 /* the largest extent */

/* out (m, n) = a (m, k) x b (k, n), any strides in elements; out has column stride 1. Each element
 * is
 * ((0 + a0 * b0) + a1 * b1) + ..., every step rounded, on every CPU. */
void ct_tiny_float32(int m, int n, int k, const float *a, int64_t a_row, int64_t a_column,
                     const float *b, int64_t b_row, int64_t b_column, float *out, int64_t out_row);
void ct_tiny_float64(int m, int n, int k, const double *a, int64_t a_row, int64_t a_column,
                     const double *b, int64_t b_row, int64_t b_column, double *out,
                     int64_t out_row);

#endif
