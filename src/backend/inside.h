/* inside.h: looking into a compiled step: its plan, the memory its kernels write, the time each
 * takes. */
#ifndef CT_BACKEND_INSIDE_H
#define CT_BACKEND_INSIDE_H

#include "backend/cpu.h"
#include "kernel/kernel.h"

/* Told after each kernel and library call of a run, with the time on the monotonic clock, in
 * seconds. What the kernel wrote is in place until the watcher returns. */
typedef void ct_program_watcher(void *context, ct_program *program, int kernel, double begin,
                                double end);
/* NULL ends it. */
void ct_program_watch(ct_program *program, ct_program_watcher *watch, void *context);

const ct_plan *ct_program_plan(const ct_program *program);
/* Where a place lies in the run that is going on. */
const void *ct_program_address(const ct_program *program, ct_place place);
/* Since measuring began (ct_program_measure); 0 where nothing is measured. */
int64_t ct_program_runs(const ct_program *program);
double ct_program_seconds(const ct_program *program, int kernel);

#endif
