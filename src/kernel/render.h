/* render.h: a plan as source text. One renderer; what differs between C and the languages of
 * devices is in the dialect. */
#ifndef CT_KERNEL_RENDER_H
#define CT_KERNEL_RENDER_H

#include "kernel/kernel.h"

typedef struct ct_dialect {
    const char *name;
    const char *const *prelude; /* texts that open the file; NULL ends them */
} ct_dialect;

extern const ct_dialect ct_dialect_c;

/* The whole text, in a block of its own (free()); NULL on failure. */
char *ct_render(const ct_plan *plan, const ct_dialect *dialect, ct_error *error);

/* What kernel `index` does, in one line: ops, shape, script lines. */
void ct_kernel_title(const ct_plan *plan, int index, char *text, size_t size);
/* Bytes that it reads and writes at least, and floating-point
 * operations (those of contractions). */
void ct_kernel_work(const ct_plan *plan, int index, double *bytes, double *flops);

#endif
