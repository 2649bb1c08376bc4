// program.c: running a compiled step. Everything that can be decided once is decided when the
// program is made; a run binds addresses, settles the state, makes the output tensors, and calls
// one function.
#define _GNU_SOURCE
#include <dlfcn.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include "backend/compiler.h"
#include "backend/cpu.h"
#include "backend/inside.h"
#include "base/error.h"
#include "base/threads.h"
#include "eager/eager.h"
#include "kernel/kernel.h"
#include "kernel/render.h"
#include "kernel/step.h"

/* One source or result of a library call: an array whose address is known at each run. */
typedef struct call_array {
    ct_array array;
    ct_place place;
    int64_t bytes; /* from the start of the place to element 0 */
} call_array;

typedef struct program_call {
    ct_node *node;
    call_array out, sources[3];
} program_call;

struct ct_program {
    ct_trace *trace;
    ct_runtime *runtime;
    ct_plan *plan;
    char *source;
    ct_build build;
    char note[512];
    bool ready, failed;
    void *handle;
    int (*function)(const ct_step *step);
    ct_step step;
    program_call *calls; /* by kernel, as the rendered source numbers them */
    ct_buffer *arena;
    ct_buffer *
        *input_copies; /* of inputs that are not in C order, or lie where a state is written */
    ct_tensor **made;  /* the outputs of this run */
    ct_error *error;   /* of this run */
    ct_status status;
    double *seconds; /* by kernel, while measuring */
    int64_t runs;
    double last_mark;
    ct_program_watcher *watch; /* or NULL */
    void *watch_context;
};

/* ---- library calls ---- */

static void *address(const ct_program *program, ct_place place) {
    switch (place.kind) {
    case CT_PLACE_ARENA: return program->step.arena + place.index;
    case CT_PLACE_INPUT: return program->step.inputs[place.index];
    case CT_PLACE_STATE: return program->step.states[place.index];
    case CT_PLACE_OUTPUT: return program->step.outputs[place.index];
    case CT_PLACE_NONE: break;
    }
    return NULL;
}

static void describe_array(const ct_plan *plan, ct_node *source, call_array *result) {
    ct_view view;
    ct_node *base = ct_node_base(source, &view);
    *result = (call_array){.array = {.dtype = base->dtype, .shape = view.shape}};
    if (base->op == CT_CONST) { // one element, wherever one looks
        result->array.data = &base->element;
        return;
    }
    memcpy(result->array.stride, view.stride, sizeof view.stride);
    result->place = plan->places[base->id];
    result->bytes = view.offset * (int64_t)ct_dtype_size(base->dtype);
}

static void bind(const ct_program *program, call_array *bound) {
    if (bound->place.kind != CT_PLACE_NONE) {
        bound->array.data = (char *)address(program, bound->place) + bound->bytes;
    }
}

static ct_status run_update(ct_program *program, program_call *call) {
    const ct_array *base = &call->sources[0].array, *out = &call->out.array;
    if (out->data != base->data &&
        !ct_view_is_bijection(&call->node->attr.view, ct_shape_numel(&out->shape))) {
        ct_status status = ct_eager_copy(program->runtime, out, base, program->error);
        if (status != CT_OK)
            return status;
    }
    ct_array region = ct_array_through(out, &call->node->attr.view);
    return ct_eager_copy(program->runtime, &region, &call->sources[1].array, program->error);
}

/* The eager executor would also look for an interrupt, which a step honours only at its ends. */
static ct_status run_call(ct_program *program, program_call *call) {
    ct_runtime *runtime = program->runtime;
    const ct_node *node = call->node;
    ct_array sources[3];
    bind(program, &call->out);
    for (int i = 0; i < node->n_sources; i++) {
        bind(program, &call->sources[i]);
        sources[i] = call->sources[i].array;
    }
    const ct_array *out = &call->out.array;
    switch (ct_op_table[node->op].class) {
    case CT_CLASS_CONTRACTION:
        return ct_gemm(runtime, out, &sources[0], &sources[1], program->error);
    case CT_CLASS_UNARY:
    case CT_CLASS_BINARY:
    case CT_CLASS_COMPARE:
    case CT_CLASS_SELECT: return ct_eager_elementwise(runtime, node, out, sources, program->error);
    case CT_CLASS_REDUCE: return ct_eager_reduce(runtime, node, out, sources, program->error);
    case CT_CLASS_SCAN: return ct_eager_scan(runtime, node, out, sources, program->error);
    case CT_CLASS_INDEX: return ct_eager_index(runtime, node, out, sources, program->error);
    case CT_CLASS_MOVEMENT:
        if (node->op == CT_UPDATE)
            return run_update(program, call);
        return ct_eager_copy(runtime, out, &sources[0], program->error);
    default: break;
    }
    if (node->op == CT_RANDOM) {
        call->node->attr.seed = runtime->seed;
        return ct_eager_random(runtime, node, out, runtime->draws + node->attr.draw,
                               program->error);
    }
    return runtime->executor->run(runtime, node, out, sources, 0, program->error);
}

static int call(void *context, int index) {
    ct_program *program = context;
    const ct_node *node = program->calls[index].node;
    program->status = run_call(program, &program->calls[index]);
    if (program->status == CT_OK)
        return 0;
    if (node->line.source) {
        ct_error_prefix(program->error, "in the traced step, %s:%d: ", node->line.source,
                        node->line.line);
    }
    return 1;
}

/* ---- measuring ---- */

static double seconds(void) {
    struct timespec now;
    clock_gettime(CLOCK_MONOTONIC, &now);
    return (double)now.tv_sec + (double)now.tv_nsec * 1e-9;
}

static void mark(void *context, int index) {
    ct_program *program = context;
    double now = seconds();
    if (program->seconds)
        program->seconds[index] += now - program->last_mark;
    if (program->watch) {
        program->watch(program->watch_context, program, index, program->last_mark, now);
        now = seconds();
    }
    program->last_mark = now;
}

static void set_mark(ct_program *program) {
    program->step.mark = program->seconds != NULL || program->watch != NULL ? mark : NULL;
}

void ct_program_measure(ct_program *program, bool on) {
    free(program->seconds);
    program->seconds =
        on ? ct_calloc((size_t)program->plan->n_kernels + 1, sizeof *program->seconds) : NULL;
    set_mark(program);
    program->runs = 0;
}

void ct_program_watch(ct_program *program, ct_program_watcher *watch, void *context) {
    program->watch = watch;
    program->watch_context = context;
    set_mark(program);
}

const ct_plan *ct_program_plan(const ct_program *program) {
    return program->plan;
}

const void *ct_program_address(const ct_program *program, ct_place place) {
    return address(program, place);
}

int64_t ct_program_runs(const ct_program *program) {
    return program->seconds != NULL ? program->runs : 0;
}

double ct_program_seconds(const ct_program *program, int kernel) {
    return program->seconds != NULL ? program->seconds[kernel] : 0;
}

typedef struct timed {
    double seconds;
    int kernel;
} timed;

static int longest_first(const void *a, const void *b) {
    const timed *x = a, *y = b;
    return x->seconds > y->seconds ? -1 : x->seconds < y->seconds ? 1 : x->kernel - y->kernel;
}

void ct_program_report(const ct_program *program, void (*write)(void *context, const char *line),
                       void *context) {
    if (program->seconds == NULL || program->runs == 0)
        return;
    int n = program->plan->n_kernels;
    timed *order = ct_calloc((size_t)n + 1, sizeof *order);
    if (order == NULL)
        return;
    double total = 0;
    for (int k = 0; k < n; k++) {
        order[k] = (timed){program->seconds[k], k};
        total += program->seconds[k];
    }
    qsort(order, (size_t)n, sizeof *order, longest_first);
    char line[512], text[320];
    snprintf(line, sizeof line, "%lld runs, %.3f ms each", (long long)program->runs,
             total * 1e3 / (double)program->runs);
    write(context, line);
    write(context, "   count        ms   share     GB/s  GFLOP/s");
    for (int i = 0; i < n; i++) {
        double each = order[i].seconds / (double)program->runs, bytes, flops,
               rate = each > 0 ? 1e-9 / each : 0;
        ct_kernel_work(program->plan, order[i].kernel, &bytes, &flops);
        ct_kernel_title(program->plan, order[i].kernel, text, sizeof text);
        snprintf(line, sizeof line, "%8lld %9.4f %5.1f %% %8.1f %8.1f  %s",
                 (long long)program->runs, each * 1e3,
                 total > 0 ? 100 * order[i].seconds / total : 0, bytes * rate, flops * rate, text);
        write(context, line);
    }
    free(order);
}

static void log_line(void *context, const char *line) {
    ct_log(context, CT_LOG_INFO, "%s", line);
}

/* Whether CTRAIN_LOG, words separated by commas, has "kernels". */
static bool wants_kernels(void) {
    const char *words = getenv("CTRAIN_LOG"), *word = "kernels";
    for (const char *at = words ? strstr(words, word) : NULL; at != NULL;
         at = strstr(at + 1, word)) {
        char end = at[strlen(word)];
        if ((at == words || at[-1] == ',') && (end == '\0' || end == ','))
            return true;
    }
    return false;
}

/* ---- making ---- */

static ct_status prepare(ct_program *program, ct_error *error) {
    const ct_plan *plan = program->plan;
    const ct_graph *graph = plan->graph;
    program->calls = ct_calloc((size_t)plan->n_kernels + 1, sizeof *program->calls);
    program->step.inputs = ct_calloc((size_t)graph->n_inputs + 1, sizeof(void *));
    program->step.states = ct_calloc((size_t)graph->n_states + 1, sizeof(void *));
    program->step.outputs = ct_calloc((size_t)graph->n_outputs + 1, sizeof(void *));
    program->input_copies = ct_calloc((size_t)graph->n_inputs + 1, sizeof(ct_buffer *));
    program->made = ct_calloc((size_t)graph->n_outputs + 1, sizeof(ct_tensor *));
    if (!program->calls || !program->step.inputs || !program->step.states ||
        !program->step.outputs || !program->input_copies || !program->made) {
        return ct_fail(error, CT_ERR_MEMORY, "memory is out for a compiled step");
    }
    for (int k = 0; k < plan->n_kernels; k++) {
        if (plan->kernels[k]->kind != CT_KERNEL_CALL)
            continue;
        program_call *made = &program->calls[k];
        made->node = plan->kernels[k]->members[0].node;
        describe_array(plan, made->node, &made->out);
        for (int i = 0; i < made->node->n_sources; i++) {
            describe_array(plan, made->node->sources[i], &made->sources[i]);
        }
    }
    program->step.threads = program->runtime->threads;
    program->step.parallel = ct_parallel;
    program->step.call = call;
    program->step.context = program;
    return CT_OK;
}

ct_program *ct_cpu_compile(ct_trace *trace, const ct_cpu_options *options, ct_error *error) {
    static const ct_cpu_options defaults;
    if (options == NULL)
        options = &defaults;
    ct_graph *graph = ct_simplify(trace, error);
    if (graph == NULL)
        return NULL;
    ct_plan *plan = ct_plan_make(graph, error);
    if (plan == NULL)
        return NULL;
    ct_program *program = ct_calloc(1, sizeof *program);
    if (program == NULL) {
        ct_plan_free(plan);
        ct_fail(error, CT_ERR_MEMORY, "memory is out for a compiled step");
        return NULL;
    }
    program->trace = trace;
    program->runtime = ct_runtime_hold(trace->runtime);
    program->plan = plan;
    if (prepare(program, error) != CT_OK ||
        (program->source = ct_render(plan, &ct_dialect_c, error)) == NULL ||
        ct_build_begin(&program->build, options->compile_dir, program->source, program->note,
                       error) != CT_OK ||
        (options->wait && ct_program_wait(program, error) != CT_OK)) {
        ct_program_free(program);
        return NULL;
    }
    if (wants_kernels())
        ct_program_measure(program, true);
    return program;
}

static ct_status poll(ct_program *program, bool wait, ct_error *error) {
    if (program->ready)
        return CT_OK;
    if (program->failed)
        return ct_fail(error, CT_ERR_STATE, "the step could not be compiled");
    bool done = false;
    ct_status status = ct_build_poll(&program->build, wait, &done, error);
    if (status == CT_OK && done) {
        program->handle = ct_build_load(&program->build, error);
        if (program->handle == NULL &&
            program->build.cached) { // damaged since it was looked up: made anew
            status = ct_build_begin(&program->build, program->build.directory, program->source,
                                    program->note, error);
            if (status == CT_OK)
                status = ct_build_poll(&program->build, true, &done, error);
            if (status == CT_OK)
                program->handle = ct_build_load(&program->build, error);
        }
        void *symbol = program->handle ? dlsym(program->handle, "ctrain_step") : NULL;
        memcpy(&program->function, &symbol, sizeof symbol);
        program->ready = symbol != NULL;
        if (!program->ready && status == CT_OK) {
            status = CT_ERR_IO;
            if (program->handle)
                ct_fail(error, status, "the compiled step has no entry point");
        }
    }
    if (status != CT_OK)
        program->failed = true;
    return status;
}

bool ct_program_ready(ct_program *program, ct_error *error) {
    if (!program->ready && !program->failed)
        poll(program, false, error);
    return program->ready;
}

bool ct_program_failed(const ct_program *program) {
    return program->failed;
}

ct_status ct_program_wait(ct_program *program, ct_error *error) {
    return poll(program, true, error);
}

ct_program_info ct_program_describe(const ct_program *program) {
    ct_program_info info = {.nodes = program->plan->graph->recorded,
                            .arena_bytes = program->plan->arena_bytes,
                            .milliseconds = program->build.cached ? 0 : program->build.milliseconds,
                            .cached = program->build.cached,
                            .directory = program->build.directory,
                            .key = program->build.key,
                            .note = program->note};
    for (int k = 0; k < program->plan->n_kernels; k++) {
        if (program->plan->kernels[k]->kind == CT_KERNEL_CALL)
            info.calls++;
        else
            info.kernels++;
    }
    return info;
}

const char *ct_program_source(const ct_program *program) {
    return program->source;
}

/* ---- a run ---- */

/* The cell's version becomes a leaf with a buffer that nobody else reads, so that it can be written
 * in place. */
static ct_status own_version(ct_cell *cell, ct_error *error) {
    ct_node *old = cell->version;
    if (old->op == CT_DATA && old->refs == 1 && old->buffer && old->n_sources == 0 &&
        (old->buffer->refs == 1 || old->buffer->pinned)) {
        return CT_OK;
    }
    ct_status status = ct_node_materialize(old, error);
    if (status != CT_OK)
        return status;
    ct_buffer *buffer = ct_buffer_new(cell->runtime->heap, old->buffer->bytes);
    ct_node *node =
        buffer ? ct_node_data(cell->runtime, old->dtype, &old->shape, buffer, error) : NULL;
    if (node != NULL) {
        memcpy(buffer->data, old->buffer->data, (size_t)buffer->bytes);
        status = ct_cell_install(cell, node, error);
    } else {
        status = ct_fail(error, CT_ERR_MEMORY, "out of memory for a state of the step");
    }
    ct_node_release(node);
    ct_buffer_release(buffer);
    return status;
}

static ct_status bind_states(ct_program *program, ct_error *error) {
    const ct_trace *trace = program->trace;
    for (int i = 0; i < trace->n_states; i++) {
        ct_cell *cell = trace->states[i].cell;
        const ct_graph_state *state = &program->plan->graph->states[i];
        if (state->exit != NULL) {
            ct_status status = own_version(cell, error);
            if (status != CT_OK)
                return status;
        } else if (state->entry == NULL) {
            continue;
        } else if (cell->version->buffer == NULL) {
            ct_status status = ct_node_materialize(cell->version, error);
            if (status != CT_OK)
                return status;
        }
        program->step.states[i] = cell->version->buffer->data;
    }
    return CT_OK;
}

static bool in_c_order(const ct_array *array) {
    int64_t stride = 1;
    for (int d = array->shape.ndim - 1; d >= 0; d--) {
        if (array->shape.dim[d] != 1 && array->stride[d] != stride)
            return false;
        stride *= array->shape.dim[d];
    }
    return true;
}

/* Whether the step would write into the memory of the input. */
static bool is_written(const ct_program *program, const char *data, int64_t bytes) {
    for (int i = 0; i < program->trace->n_states; i++) {
        if (program->plan->graph->states[i].exit == NULL)
            continue;
        const ct_buffer *buffer = program->trace->states[i].cell->version->buffer;
        const char *begin = buffer->data;
        if (data < begin + buffer->bytes && begin < data + bytes)
            return true;
    }
    return false;
}

static ct_status bind_inputs(ct_program *program, ct_tensor *const *inputs, ct_error *error) {
    const ct_trace *trace = program->trace;
    for (int i = 0; i < trace->n_inputs; i++) {
        const ct_node *node = trace->inputs[i];
        ct_array array;
        if (program->plan->graph->inputs[i] == NULL)
            continue; // not read
        ct_status status = ct_tensor_array(inputs[i], &array, error);
        if (status != CT_OK)
            return status;
        if (array.dtype != node->dtype || !ct_shape_equal(&array.shape, &node->shape)) {
            char seen[CT_SHAPE_TEXT], wanted[CT_SHAPE_TEXT];
            return ct_fail(error, CT_ERR_SHAPE,
                           "argument %d of the step is %s %s; it was recorded with %s %s", i + 1,
                           ct_dtype_name(array.dtype), ct_shape_text(&array.shape, seen),
                           ct_dtype_name(node->dtype), ct_shape_text(&node->shape, wanted));
        }
        int64_t bytes = ct_shape_numel(&node->shape) * (int64_t)ct_dtype_size(node->dtype);
        program->step.inputs[i] = array.data;
        if (bytes == 0 || (in_c_order(&array) && !is_written(program, array.data, bytes)))
            continue;
        if (program->input_copies[i] == NULL) {
            program->input_copies[i] = ct_buffer_new(program->runtime->heap, bytes);
            if (program->input_copies[i] == NULL) {
                return ct_fail(error, CT_ERR_MEMORY, "out of memory for a copy of argument %d",
                               i + 1);
            }
        }
        ct_view whole = ct_view_whole(&node->shape);
        ct_array copy = {
            .dtype = node->dtype, .shape = node->shape, .data = program->input_copies[i]->data};
        memcpy(copy.stride, whole.stride, sizeof copy.stride);
        status = ct_eager_copy(program->runtime, &copy, &array, error);
        if (status != CT_OK)
            return status;
        program->step.inputs[i] = copy.data;
    }
    return CT_OK;
}

static ct_status make_outputs(ct_program *program, ct_error *error) {
    const ct_trace *trace = program->trace;
    for (int i = 0; i < trace->n_outputs; i++) {
        const ct_node *like = trace->outputs[i];
        int64_t bytes = ct_shape_numel(&like->shape) * (int64_t)ct_dtype_size(like->dtype);
        ct_buffer *buffer = ct_buffer_new(program->runtime->heap, bytes);
        ct_node *node =
            buffer ? ct_node_data(program->runtime, like->dtype, &like->shape, buffer, error)
                   : NULL;
        program->made[i] = node ? ct_tensor_new(node, error) : NULL;
        if (buffer)
            program->step.outputs[i] = buffer->data;
        ct_node_release(node);
        ct_buffer_release(buffer);
        if (program->made[i] == NULL)
            return ct_fail(error, CT_ERR_MEMORY, "out of memory for output %d", i + 1);
    }
    return CT_OK;
}

static ct_status run(ct_program *program, ct_tensor *const *inputs, ct_error *error) {
    ct_status status = ct_check_interrupt(program->runtime, error);
    if (status == CT_OK)
        status = bind_states(program, error);
    if (status == CT_OK)
        status = bind_inputs(program, inputs, error);
    if (status == CT_OK)
        status = make_outputs(program, error);
    if (status == CT_OK && program->arena == NULL) {
        program->arena = ct_buffer_new(program->runtime->heap, program->plan->arena_bytes);
        if (program->arena == NULL) {
            status =
                ct_fail(error, CT_ERR_MEMORY, "out of memory for the step's arena of %lld bytes",
                        (long long)program->plan->arena_bytes);
        } else {
            program->step.arena = program->arena->data;
        }
    }
    if (status != CT_OK)
        return status;
    program->error = error;
    program->status = CT_OK;
    if (program->step.mark)
        program->last_mark = seconds();
    if (program->function(&program->step) != 0)
        return program->status;
    program->runtime->draws += program->trace->draws;
    program->runs++;
    return CT_OK;
}

ct_status ct_program_run(ct_program *program, ct_tensor *const *inputs, ct_tensor **outputs,
                         ct_error *error) {
    const ct_trace *trace = program->trace;
    ct_status status = poll(program, true, error);
    if (status == CT_OK)
        status = run(program, inputs, error);
    for (int i = 0; i < trace->n_states && status == CT_OK; i++) {
        const ct_trace_state *state = &trace->states[i];
        if (state->grad_output == CT_GRAD_KEEP)
            continue;
        ct_tensor *grad = state->grad_output >= 0 ? program->made[state->grad_output] : NULL;
        status = ct_cell_set_grad(state->cell, grad, error);
    }
    for (int i = 0; i < trace->n_outputs; i++) {
        if (status == CT_OK && i < trace->n_results)
            outputs[i] = program->made[i];
        else
            ct_tensor_free(program->made[i]);
        program->made[i] = NULL;
    }
    return status;
}

void ct_program_free(ct_program *program) {
    if (program == NULL)
        return;
    if (program->seconds && wants_kernels())
        ct_program_report(program, log_line, program->runtime);
    if (program->handle)
        dlclose(program->handle);
    ct_build_end(&program->build);
    for (int i = 0; i < program->plan->graph->n_inputs && program->input_copies; i++) {
        ct_buffer_release(program->input_copies[i]);
    }
    ct_buffer_release(program->arena);
    free(program->input_copies);
    free(program->made);
    free(program->calls);
    free(program->step.inputs);
    free(program->step.states);
    free(program->step.outputs);
    free(program->seconds);
    free(program->source);
    ct_plan_free(program->plan);
    ct_runtime_drop(program->runtime);
    free(program);
}
