/* eager.h: running one node at once with loops and library calls that were compiled when ctrain was
 * built.
 *
 * All functions write `out` completely and read `sources` as they lie (any strides, 0 and negative
 * ones too); `out` is in C order unless said otherwise and never overlaps a source unless said
 * otherwise. They return after the last element is written, and spread over runtime->threads by
 * themselves. */
#ifndef CT_EAGER_EAGER_H
#define CT_EAGER_EAGER_H

#include "graph/node.h"

/* Runs any node that has a value of its own; see ct_executor. */
extern const ct_executor ct_eager;
/* anomaly.c: the same, but the first NaN or inf that an operation makes of operands without one is
 * an error. */
extern const ct_executor ct_eager_anomaly;

/* elementwise.c: UNARY, BINARY, COMPARE and SELECT; all arrays have one shape. */
ct_status ct_eager_elementwise(ct_runtime *runtime, const ct_node *node, const ct_array *out,
                               const ct_array *sources, ct_error *error);
/* The same elements in another place; both strided, of one dtype and one shape. */
ct_status ct_eager_copy(ct_runtime *runtime, const ct_array *out, const ct_array *in,
                        ct_error *error);

/* reduce.c: REDUCE (reduced dimensions are kept with extent 1) and SCAN. */
ct_status ct_eager_reduce(ct_runtime *runtime, const ct_node *node, const ct_array *out,
                          const ct_array *sources, ct_error *error);
ct_status ct_eager_scan(ct_runtime *runtime, const ct_node *node, const ct_array *out,
                        const ct_array *sources, ct_error *error);

/* matmul.c: out (..., m, n) = a (..., m, k) x b (..., k, n) with equal leading extents, at least
 * two dimensions, and one dtype. The one way to a matrix product: compiled steps call it too, so
 * that they give the bits of the eager path. What is in `out` before does not matter. */
ct_status ct_gemm(ct_runtime *runtime, const ct_array *out, const ct_array *a, const ct_array *b,
                  ct_error *error);

/* index.c: GATHER, SCATTER_ADD and ARGSORT. Index data are checked before anything is written:
 * CT_ERR_INDEX names the op, the position, what was there and the extent. SCATTER_ADD adds to each
 * target in the order of the source's elements (C order) at any thread count, and rounds after
 * every addition. Its out may be sources[0] itself. */
ct_status ct_eager_index(ct_runtime *runtime, const ct_node *node, const ct_array *out,
                         const ct_array *sources, ct_error *error);
/* The positions of the elements that are not zero, counting from 0: int64 (count, ndim) in a new
 * buffer. */
ct_status ct_eager_nonzero(ct_runtime *runtime, const ct_array *in, ct_buffer **out, int64_t *count,
                           ct_error *error);

/* random.c: RANDOM of draw number `draw`; see there for which random words an element takes. */
ct_status ct_eager_random(ct_runtime *runtime, const ct_node *node, const ct_array *out,
                          uint64_t draw, ct_error *error);

#endif
