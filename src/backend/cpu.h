/* cpu.h: a recorded step as one compiled C function.
 *
 * A program does what ct_replay does, to the bit: outputs are new tensors, states are installed
 * after success, draws advance. The step's source is compiled by the system's C compiler in a
 * process of its own, and kept in a cache; until that is done the program is not ready, and the
 * caller runs the step on the eager loops.
 *
 *     ct_program *program = ct_cpu_compile(trace, NULL, &error);
 *     if (program && ct_program_ready(program, &error)) ct_program_run(program, inputs, outputs,
 * &error);
 */
#ifndef CT_BACKEND_CPU_H
#define CT_BACKEND_CPU_H

#include "graph/trace.h"

typedef struct ct_program ct_program;

typedef struct ct_cpu_options {
    const char *compile_dir; /* NULL: $XDG_CACHE_HOME/ctrain or ~/.cache/ctrain */
    bool wait;               /* return when the compiler is done */
} ct_cpu_options;

typedef struct ct_program_info {
    int nodes;          /* recorded */
    int kernels, calls; /* fused loop nests, library calls */
    int64_t arena_bytes;
    double milliseconds; /* that the compiler took; 0 when cached */
    bool cached;
    const char *directory; /* of the artifact */
    const char *key;       /* <directory>/<key>.c is the source */
    const char *note; /* a sentence the user should read, or empty: why the cache is not used */
} ct_program_info;

/* Simplifies, fuses, plans and renders the step, and starts the compiler where the cache has no
 * artifact. NULL with a message where the step can't be compiled here: the eager path then goes on.
 * The trace must outlive the program. options NULL: defaults. */
ct_program *ct_cpu_compile(ct_trace *trace, const ct_cpu_options *options, ct_error *error);
/* Whether it can run. False while the compiler works, and for good once that failed (then with a
 * message). */
bool ct_program_ready(ct_program *program, ct_error *error);
bool ct_program_failed(const ct_program *program);
/* Waits for the compiler. */
ct_status ct_program_wait(ct_program *program, ct_error *error);

/* Runs the step, waiting for the compiler: inputs[i] for the trace's inputs, outputs[i] a new
 * reference for each of its n_results. After an error no state has changed. */
ct_status ct_program_run(ct_program *program, ct_tensor *const *inputs, ct_tensor **outputs,
                         ct_error *error);

ct_program_info ct_program_describe(const ct_program *program);
/* The C source of the step, as long as the program lives. */
const char *ct_program_source(const ct_program *program);
/* Where the time of the runs since this was switched on goes: a line per kernel and library call,
 * longest first, to `write`. */
void ct_program_measure(ct_program *program, bool on);
void ct_program_report(const ct_program *program, void (*write)(void *context, const char *line),
                       void *context);

void ct_program_free(ct_program *program);

#endif
