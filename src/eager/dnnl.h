/* dnnl.h: the one door to oneDNN, whose C interface differs between its versions 2 and 3. */
#ifndef CT_EAGER_DNNL_H
#define CT_EAGER_DNNL_H

#include "ctrain.h"

/* c (m, n) = a (m, k) x b (k, n), row-major with leading dimensions lda, ldb, ldc; transposed: a is
 * stored as (k, m), b as (n, k). What is in c before does not matter. */
ct_status ct_dnnl_sgemm(bool transpose_a, bool transpose_b, int64_t m, int64_t n, int64_t k,
                        const float *a, int64_t lda, const float *b, int64_t ldb, float *c,
                        int64_t ldc, ct_error *error);

#endif
