/* inline.h: library calls that are so small that they are rendered instead. */
#ifndef CT_KERNEL_INLINE_H
#define CT_KERNEL_INLINE_H

#include "kernel/kernel.h"
#include "kernel/text.h"

/* Writes the call into the step, with the bits of the
 * library's; false where it has to be called. */
bool ct_put_inline_call(ct_text *out, const ct_plan *plan, const ct_kernel *kernel);

#endif
