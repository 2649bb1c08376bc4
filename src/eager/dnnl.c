/* dnnl.c: see dnnl.h. The only file that includes oneDNN's header; builds with its versions 2.6 and
 * later. */
#include "eager/dnnl.h"

#include <oneapi/dnnl/dnnl.h>

#include "base/error.h"

ct_status ct_dnnl_sgemm(bool transpose_a, bool transpose_b, int64_t m, int64_t n, int64_t k,
                        const float *a, int64_t lda, const float *b, int64_t ldb, float *c,
                        int64_t ldc, ct_error *error) {
    dnnl_status_t status = dnnl_sgemm(transpose_a ? 'T' : 'N', transpose_b ? 'T' : 'N', m, n, k,
                                      1.0f, a, lda, b, ldb, 0.0f, c, ldc);
    if (status == dnnl_success)
        return CT_OK;
    return ct_fail(error, status == dnnl_out_of_memory ? CT_ERR_MEMORY : CT_ERR_UNSUPPORTED,
                   "matmul: oneDNN's sgemm failed with status %d on %lldx%lld times %lldx%lld",
                   (int)status, (long long)m, (long long)k, (long long)k, (long long)n);
}
