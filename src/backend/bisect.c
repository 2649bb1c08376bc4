/* bisect.c: the simplified graph is run node by node on the eager loops, and every value kept; then
 * the compiled step runs and is stopped after each kernel, whose results must be the same bits;
 * then the recorded graph is replayed, which tells whether simplification changed anything. Two
 * NaNs count as the same. */
#include "backend/bisect.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "backend/inside.h"
#include "base/error.h"
#include "eager/eager.h"
#include "eager/replay.h"  // defines: ct_replay
#include "kernel/render.h" // defines: ct_kernel_title

typedef struct bisection {
    ct_trace *trace;
    const ct_plan *plan;
    bool thorough;
    ct_array *values;    /* by node id: what the eager loops give */
    ct_buffer **buffers; /* of those that are no view */
    int *writer,
        *last;        /* by node id: the kernel that writes it, the last that reads it; -1: none */
    char found[2048]; /* the first difference; empty: none */
} bisection;

/* ---- the eager run of the simplified graph ---- */

static ct_status own_buffer(bisection *b, const ct_node *node, ct_error *error) {
    int64_t bytes = ct_shape_numel(&node->shape) * (int64_t)ct_dtype_size(node->dtype);
    ct_view whole = ct_view_whole(&node->shape);
    ct_array *value = &b->values[node->id];
    b->buffers[node->id] = ct_buffer_new(b->trace->runtime->heap, bytes);
    if (!b->buffers[node->id])
        return ct_fail(error, CT_ERR_MEMORY,
                       "bisect: out of memory for the values of every operation");
    *value =
        (ct_array){.dtype = node->dtype, .shape = node->shape, .data = b->buffers[node->id]->data};
    memcpy(value->stride, whole.stride, sizeof value->stride);
    return CT_OK;
}

static ct_status evaluate(bisection *b, ct_node *node, ct_tensor *const *inputs, ct_error *error) {
    ct_runtime *runtime = b->trace->runtime;
    ct_array outside, few[4], *sources = few;
    ct_status status = CT_OK;
    if (node->op == CT_VIEW) {
        b->values[node->id] = ct_array_through(&b->values[node->sources[0]->id], &node->attr.view);
        return CT_OK;
    }
    if ((status = own_buffer(b, node, error)) != CT_OK)
        return status;
    ct_array *value = &b->values[node->id];
    switch (node->op) {
    case CT_CONST:
        outside = (ct_array){.dtype = node->dtype, .shape = node->shape, .data = &node->element};
        return ct_eager_copy(runtime, value, &outside, error);
    case CT_INPUT: status = ct_tensor_array(inputs[node->attr.slot], &outside, error); break;
    case CT_STATE:
        status = ct_node_value(b->trace->states[node->attr.slot].cell->version, &outside, error);
        break;
    default: break;
    }
    if (node->op == CT_INPUT || node->op == CT_STATE)
        return status == CT_OK ? ct_eager_copy(runtime, value, &outside, error) : status;
    if (node->n_sources > 4 && !(sources = ct_malloc((size_t)node->n_sources * sizeof *sources)))
        return ct_fail(error, CT_ERR_MEMORY, "bisect: out of memory");
    for (int s = 0; s < node->n_sources; s++)
        sources[s] = b->values[node->sources[s]->id];
    if (node->op == CT_RANDOM)
        node->attr.seed = runtime->seed;
    status = ct_eager.run(runtime, node, value, sources, runtime->draws + node->attr.draw, error);
    if (sources != few)
        free(sources);
    return status;
}

/* ---- comparing ---- */

/* The first element that differs, or -1. */
static int64_t first_difference(ct_dtype dtype, int64_t numel, const void *a, const void *b) {
    size_t size = ct_dtype_size(dtype);
    if (memcmp(a, b, (size_t)numel * size) == 0)
        return -1;
    for (int64_t i = 0; i < numel; i++) {
        const char *x = (const char *)a + (size_t)i * size, *y = (const char *)b + (size_t)i * size;
        if (memcmp(x, y, size) == 0)
            continue;
        if (ct_dtype_is_float(dtype) && isnan(ct_scalar_load(dtype, x).f) &&
            isnan(ct_scalar_load(dtype, y).f))
            continue;
        return i;
    }
    return -1;
}

/* "element 17 of float32 5x4 is 0x1p-3 (0.125), eagerly 0x1.8p-3 (0.1875)" */
static void put_element(char *text, size_t size, const ct_node *node, int64_t at,
                        const void *compiled, const void *eager) {
    char shape[CT_SHAPE_TEXT];
    size_t each = ct_dtype_size(node->dtype);
    double x = ct_scalar_load(node->dtype, (const char *)compiled + (size_t)at * each).f,
           y = ct_scalar_load(node->dtype, (const char *)eager + (size_t)at * each).f;
    snprintf(text, size, "element %lld of %s %s is %a (%.9g), and %a (%.9g) on the eager loops",
             (long long)at + 1, ct_dtype_name(node->dtype), ct_shape_text(&node->shape, shape), x,
             x, y, y);
}

static void compare(void *context, ct_program *program, int kernel, double begin, double end) {
    bisection *b = context;
    const ct_plan *plan = b->plan;
    (void)begin;
    (void)end;
    for (int i = 0; i < plan->graph->n_nodes && !b->found[0]; i++) {
        const ct_node *node = plan->graph->nodes[i];
        int writer = b->writer[i];
        bool kept = b->thorough && writer >= 0 && writer < kernel && b->last[i] > kernel;
        if (writer != kernel && !kept)
            continue;
        const void *compiled = ct_program_address(program, plan->places[i]),
                   *eager = b->values[i].data;
        int64_t at =
            compiled ? first_difference(node->dtype, ct_shape_numel(&node->shape), compiled, eager)
                     : -1;
        if (at < 0)
            continue;
        char title[512], other[512], element[512];
        put_element(element, sizeof element, node, at, compiled, eager);
        ct_kernel_title(plan, kernel, title, sizeof title);
        const char *kind =
            plan->kernels[kernel]->kind == CT_KERNEL_CALL ? "library call" : "kernel";
        if (writer == kernel) {
            snprintf(b->found, sizeof b->found, "%s %d (%s) gives other bits in its '%s': %s", kind,
                     kernel + 1, title, ct_op_table[node->op].name, element);
            continue;
        }
        ct_kernel_title(plan, writer, other, sizeof other);
        snprintf(b->found, sizeof b->found,
                 "%s %d (%s) writes over what %d (%s) made, which %d still reads: %s", kind,
                 kernel + 1, title, writer + 1, other, b->last[i] + 1, element);
    }
}

static void find_readers(bisection *b) {
    const ct_plan *plan = b->plan;
    ct_view view;
    for (int i = 0; i < plan->graph->n_nodes; i++)
        b->writer[i] = b->last[i] = -1;
    for (int k = 0; k < plan->n_kernels; k++) {
        const ct_kernel *kernel = plan->kernels[k];
        for (int m = 0; m < kernel->n_members; m++)
            if (kernel->members[m].stored)
                b->writer[kernel->members[m].node->id] = k;
        for (int l = 0; l < kernel->n_loads; l++)
            b->last[kernel->loads[l].node->id] = k;
        if (kernel->kind != CT_KERNEL_CALL)
            continue;
        const ct_node *node = kernel->members[0].node;
        for (int s = 0; s < node->n_sources; s++)
            b->last[ct_node_base(node->sources[s], &view)->id] = k;
    }
}

/* Compares what a run returns or leaves, after both have run. */
static ct_status compare_result(bisection *b, const char *what, int number, ct_node *compiled,
                                ct_node *eager, ct_error *error) {
    ct_array x, y;
    char element[512];
    ct_status status = ct_node_materialize(compiled, error);
    if (status == CT_OK)
        status = ct_node_materialize(eager, error);
    if (status == CT_OK)
        status = ct_node_value(compiled, &x, error);
    if (status == CT_OK)
        status = ct_node_value(eager, &y, error);
    if (status != CT_OK || b->found[0])
        return status;
    int64_t at = first_difference(eager->dtype, ct_shape_numel(&eager->shape), x.data, y.data);
    if (at < 0)
        return CT_OK;
    put_element(element, sizeof element, eager, at, x.data, y.data);
    snprintf(b->found, sizeof b->found,
             "every kernel gives the bits that the simplified graph has on the eager loops, but %s "
             "%d differs from the "
             "recorded graph's: %s",
             what, number, element);
    return CT_OK;
}

/* ---- the whole ---- */

/* What a run changes, to start from it again. */
typedef struct snapshot {
    ct_node **versions;
    ct_tensor **grads;
    uint64_t draws;
} snapshot;

static ct_status keep(const ct_trace *trace, snapshot *kept) {
    size_t n = (size_t)trace->n_states + 1;
    kept->versions = ct_calloc(n, sizeof *kept->versions);
    kept->grads = ct_calloc(n, sizeof *kept->grads);
    kept->draws = trace->runtime->draws;
    if (!kept->versions || !kept->grads)
        return CT_ERR_MEMORY;
    for (int i = 0; i < trace->n_states; i++) {
        const ct_cell *cell = trace->states[i].cell;
        kept->versions[i] = ct_node_retain(cell->version);
        kept->grads[i] = cell->grad ? ct_tensor_retain(cell->grad) : NULL;
    }
    return CT_OK;
}

static ct_status put_back(const ct_trace *trace, const snapshot *kept, ct_error *error) {
    ct_status status = CT_OK;
    for (int i = 0; i < trace->n_states && status == CT_OK; i++) {
        ct_cell *cell = trace->states[i].cell;
        if (cell->version != kept->versions[i])
            status = ct_cell_install(cell, kept->versions[i], error);
        if (status == CT_OK && cell->grad != kept->grads[i])
            status = ct_cell_set_grad(cell, kept->grads[i], error);
    }
    trace->runtime->draws = kept->draws;
    return status;
}

static void drop(const ct_trace *trace, snapshot *kept) {
    for (int i = 0; i < trace->n_states && kept->versions && kept->grads; i++) {
        ct_node_release(kept->versions[i]);
        ct_tensor_free(kept->grads[i]);
    }
    free(kept->versions);
    free(kept->grads);
}

static ct_status run_both(bisection *b, ct_program *program, ct_tensor *const *inputs,
                          ct_tensor **compiled, ct_tensor **outputs, snapshot *before,
                          snapshot *after, ct_error *error) {
    const ct_trace *trace = b->trace;
    ct_graph *graph = b->plan->graph;
    ct_status status = keep(trace, before);
    for (int i = 0; i < graph->n_nodes && status == CT_OK; i++)
        status = evaluate(b, graph->nodes[i], inputs, error);
    if (status != CT_OK)
        return status;
    ct_program_watch(program, compare, b);
    status = ct_program_run(program, inputs, compiled, error);
    ct_program_watch(program, NULL, NULL);
    if (status == CT_OK)
        status = keep(trace, after);
    if (status == CT_OK)
        status = put_back(trace, before, error);
    if (status == CT_OK)
        status = ct_replay(b->trace, inputs, outputs, error);
    for (int i = 0; i < trace->n_results && status == CT_OK; i++)
        status = compare_result(b, "result", i + 1, compiled[i]->cell->version,
                                outputs[i]->cell->version, error);
    for (int i = 0; i < trace->n_states && status == CT_OK; i++)
        if (trace->states[i].exit)
            status = compare_result(b, "new state", i + 1, after->versions[i],
                                    trace->states[i].cell->version, error);
    return status;
}

ct_status ct_bisect_run(ct_trace *trace, ct_program *program, bool thorough,
                        ct_tensor *const *inputs, ct_tensor **outputs, ct_error *error) {
    ct_error own = {.status = CT_OK};
    error = error ? error : &own;
    ct_status status = ct_program_wait(program, error);
    if (status != CT_OK)
        return status;
    bisection b = {.trace = trace, .plan = ct_program_plan(program), .thorough = thorough};
    size_t n = (size_t)b.plan->graph->n_nodes + 1;
    snapshot before = {0}, after = {0};
    ct_tensor **compiled = ct_calloc((size_t)trace->n_results + 1, sizeof *compiled);
    b.values = ct_calloc(n, sizeof *b.values);
    b.buffers = ct_calloc(n, sizeof *b.buffers);
    b.writer = ct_calloc(n, sizeof *b.writer);
    b.last = ct_calloc(n, sizeof *b.last);
    memset(outputs, 0, (size_t)trace->n_results * sizeof *outputs);
    if (compiled && b.values && b.buffers && b.writer && b.last) {
        find_readers(&b);
        status = run_both(&b, program, inputs, compiled, outputs, &before, &after, error);
        if (status != CT_OK && error->status == CT_OK)
            ct_fail(error, status, "bisect: out of memory");
    } else {
        status = ct_fail(error, CT_ERR_MEMORY, "bisect: out of memory");
    }
    if (status == CT_OK && b.found[0])
        status = ct_fail(error, CT_ERR_STATE, "bisect: %s", b.found);
    for (int i = 0; i < trace->n_results; i++) {
        if (compiled)
            ct_tensor_free(compiled[i]);
        if (status != CT_OK) {
            ct_tensor_free(outputs[i]);
            outputs[i] = NULL;
        }
    }
    for (size_t i = 0; i + 1 < n && b.buffers; i++)
        ct_buffer_release(b.buffers[i]);
    drop(trace, &before);
    drop(trace, &after);
    free(compiled);
    free(b.values);
    free(b.buffers);
    free(b.writer);
    free(b.last);
    return status;
}
