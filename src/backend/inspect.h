/* inspect.h: what becomes of a finished trace, without a compiler and without running anything. */
#ifndef CT_BACKEND_INSPECT_H
#define CT_BACKEND_INSPECT_H

#include "backend/cpu.h"

typedef struct ct_trace_summary {
    int nodes;              /* recorded */
    int kernels, calls;     /* fused loop nests, library calls */
    int parameters, others; /* states that need a gradient, states that don't */
    int64_t parameter_bytes, other_bytes;
    int64_t arena_bytes;
} ct_trace_summary;

ct_status ct_inspect_summary(const ct_trace *trace, ct_trace_summary *summary, ct_error *error);
/* The C source; a block of its own (free()), or NULL. */
char *ct_inspect_source(const ct_trace *trace, ct_error *error);

typedef enum ct_drawing { CT_DRAWING_TEXT, CT_DRAWING_DOT } ct_drawing;
/* The graph as recorded, and the kernels made of it, as text to read or for graphviz's dot; as
 * above. */
char *ct_inspect_graph(const ct_trace *trace, ct_drawing drawing, ct_error *error);

/* A kernel or library call of a compiled step. */
typedef struct ct_kernel_row {
    char name[512]; /* ops, shape, script lines */
    bool call;
    int64_t runs;        /* measured (ct_program_measure) */
    double seconds;      /* of all of them */
    double bytes, flops; /* of one, at least */
} ct_kernel_row;
int ct_inspect_kernels(const ct_program *program);
void ct_inspect_kernel(const ct_program *program, int kernel, ct_kernel_row *row);

/* From now on the kernels of each run are noted in the timeline of the process. */
void ct_inspect_timeline(ct_program *program);

/* Has graphviz's dot make an SVG file of a dot file. */
ct_status ct_inspect_svg(const char *dot_path, const char *svg_path, ct_error *error);
/* CT_OK where there is a dot to run. */
ct_status ct_inspect_has_dot(ct_error *error);

#endif
