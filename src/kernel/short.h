/* short.h: ROWS kernels with short rows. */
#ifndef CT_KERNEL_SHORT_H
#define CT_KERNEL_SHORT_H

#include "kernel/loops.h"

#define CT_SHORT 16 /* rows below this length have no vectors along them */

bool ct_is_short(const ct_kernel *kernel);
/* Declares `row`, and takes rows from `begin` in vectors; what is left is for the caller. */
void ct_put_short_rows(ct_nest *nest);

#endif
