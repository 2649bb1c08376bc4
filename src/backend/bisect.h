/* bisect.h: finding the kernel that is wrong. */
#ifndef CT_BACKEND_BISECT_H
#define CT_BACKEND_BISECT_H

#include "backend/cpu.h"

/* One run of the step, compiled and on the eager loops from the same state, compared bit for bit
 * after each kernel; what is returned and left is the eager run's. CT_ERR_STATE where they differ:
 * the message names the first kernel that gives other bits, or (thorough: every value that is still
 * needed is compared after every kernel) that writes over such a value. */
ct_status ct_bisect_run(ct_trace *trace, ct_program *program, bool thorough,
                        ct_tensor *const *inputs, ct_tensor **outputs, ct_error *error);

#endif
