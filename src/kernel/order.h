/* order.h: the order of reductions, which is that of graph/reduce.h. */
#ifndef CT_KERNEL_ORDER_H
#define CT_KERNEL_ORDER_H

#include "kernel/loops.h"

bool ct_is_reduction(const ct_member *member);
/* What a reduction is made of, as reduce.h defines it. */
void ct_order_operation(ct_text *out, ct_op op, ct_dtype dtype);
/* One pass over a row: `step` writes what the innermost loop does in each step; the pass's
 * reductions are declared as m<member> when it ends. `loop` is the number of the innermost loop. */
void ct_order_rows(ct_nest *nest, void (*step)(ct_nest *nest, int loop), int loop);
/* The body of a COLUMNS kernel, and how many pieces its work comes in. */
void ct_order_columns(ct_nest *nest, void (*step)(ct_nest *nest, int loop));
void ct_order_columns_extent(const ct_kernel *kernel, int64_t elements, int64_t *count,
                             int64_t *grain);

#endif
