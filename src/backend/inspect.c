/* inspect.c: see inspect.h. */
#define _GNU_SOURCE // O_CLOEXEC
#include "backend/inspect.h"

#include <errno.h>
#include <fcntl.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

#include "backend/inside.h"
#include "backend/process.h"
#include "base/error.h"
#include "base/timeline.h"
#include "kernel/draw.h"
#include "kernel/render.h"

static ct_plan *plan_of(const ct_trace *trace, ct_error *error) {
    ct_graph *graph = ct_simplify(trace, error);
    return graph ? ct_plan_make(graph, error) : NULL;
}

ct_status ct_inspect_summary(const ct_trace *trace, ct_trace_summary *summary, ct_error *error) {
    ct_error own;
    error = error ? error : &own;
    *summary = (ct_trace_summary){0};
    for (int i = 0; i < trace->n_states; i++) {
        const ct_node *entry = trace->states[i].entry;
        int64_t bytes = ct_shape_numel(&entry->shape) * (int64_t)ct_dtype_size(entry->dtype);
        bool parameter = trace->states[i].cell->requires_grad;
        *(parameter ? &summary->parameters : &summary->others) += 1;
        *(parameter ? &summary->parameter_bytes : &summary->other_bytes) += bytes;
    }
    error->status = CT_OK;
    ct_plan *plan = plan_of(trace, error);
    if (!plan)
        return error->status != CT_OK ? error->status : CT_ERR_MEMORY;
    summary->nodes = plan->graph->recorded;
    summary->arena_bytes = plan->arena_bytes;
    for (int k = 0; k < plan->n_kernels; k++)
        *(plan->kernels[k]->kind == CT_KERNEL_CALL ? &summary->calls : &summary->kernels) += 1;
    ct_plan_free(plan);
    return CT_OK;
}

char *ct_inspect_source(const ct_trace *trace, ct_error *error) {
    ct_plan *plan = plan_of(trace, error);
    char *source = plan ? ct_render(plan, &ct_dialect_c, error) : NULL;
    ct_plan_free(plan);
    return source;
}

char *ct_inspect_graph(const ct_trace *trace, ct_drawing drawing, ct_error *error) {
    ct_text out = {0};
    ct_plan *plan = plan_of(trace, error);
    if (!plan)
        return NULL;
    (drawing == CT_DRAWING_DOT ? ct_draw_dot : ct_draw_text)(&out, trace, plan);
    ct_plan_free(plan);
    if (!out.failed)
        return out.data;
    free(out.data);
    ct_fail(error, CT_ERR_MEMORY, "out of memory for a drawing of the graph");
    return NULL;
}

/* ---- compiled steps ---- */

int ct_inspect_kernels(const ct_program *program) {
    return ct_program_plan(program)->n_kernels;
}

void ct_inspect_kernel(const ct_program *program, int kernel, ct_kernel_row *row) {
    const ct_plan *plan = ct_program_plan(program);
    ct_kernel_title(plan, kernel, row->name, sizeof row->name);
    ct_kernel_work(plan, kernel, &row->bytes, &row->flops);
    row->call = plan->kernels[kernel]->kind == CT_KERNEL_CALL;
    row->runs = ct_program_runs(program);
    row->seconds = ct_program_seconds(program, kernel);
}

static void note(void *context, ct_program *program, int kernel, double begin, double end) {
    ct_kernel_row row;
    (void)context;
    ct_inspect_kernel(program, kernel, &row);
    ct_timeline_event(row.name, row.call ? "call" : "kernel", begin, end);
}

void ct_inspect_timeline(ct_program *program) {
    ct_program_watch(program, note, NULL);
}

/* ---- graphviz ---- */

/* Runs dot with these arguments; its exit status, or -1 with errno. */
static int run_dot(const char *const *arguments) {
    int nowhere = open("/dev/null", O_WRONLY | O_CLOEXEC), status = 0;
    if (nowhere < 0)
        return -1;
    pid_t process = ct_process_start("dot", arguments, nowhere);
    int number = errno;
    close(nowhere);
    errno = number;
    if (process <= 0)
        return -1;
    while (waitpid(process, &status, 0) < 0)
        if (errno != EINTR)
            return -1;
    return WIFEXITED(status) ? WEXITSTATUS(status) : 128;
}

ct_status ct_inspect_has_dot(ct_error *error) {
    static const char *const arguments[] = {"-V", NULL};
    if (run_dot(arguments) == 0)
        return CT_OK;
    return ct_fail(error, CT_ERR_UNSUPPORTED,
                   "an SVG file is drawn by graphviz's dot, which can't be run here (%s); install "
                   "graphviz, or name a "
                   ".dot or .txt file",
                   strerror(errno));
}

ct_status ct_inspect_svg(const char *dot_path, const char *svg_path, ct_error *error) {
    const char *arguments[] = {"-Tsvg", "-o", svg_path, dot_path, NULL};
    int status = run_dot(arguments);
    if (status == 0)
        return CT_OK;
    if (status < 0)
        return ct_inspect_has_dot(error);
    return ct_fail(error, CT_ERR_IO, "graphviz's dot failed with status %d on %s", status,
                   dot_path);
}
