/* replay.c: a step on the eager loops. A buffer is given back after its last reader; an UPDATE
 * whose source 0 dies there happens in place. While a step runs, a node's mark is its place in the
 * order, plus one. */
#include "eager/replay.h"

#include <stdlib.h>
#include <string.h>

#include "base/error.h"
#include "eager/eager.h" // defines: ct_eager_copy

typedef struct slot {
    ct_array value;
    ct_buffer *buffer; /* made in this run, or NULL: a VIEW, a constant, what comes from outside in
                          C order */
    int uses;          /* readers that have not run yet; results count as one */
} slot;

typedef struct replay {
    ct_trace *trace;
    ct_tensor *const *inputs;
    slot *slots;
    uint64_t draw; /* number of the run's first draw */
    ct_error *error;
} replay;

static slot *slot_of(const replay *r, const ct_node *node) {
    return &r->slots[node->mark - 1];
}

static void count_uses(replay *r) {
    ct_trace *trace = r->trace;
    for (int i = 0; i < trace->n_order; i++)
        trace->order[i]->mark = i + 1;
    for (int i = 0; i < trace->n_order; i++)
        for (int s = 0; s < trace->order[i]->n_sources; s++)
            slot_of(r, trace->order[i]->sources[s])->uses++;
    for (int i = 0; i < trace->n_outputs; i++)
        slot_of(r, trace->outputs[i])->uses++;
    for (int i = 0; i < trace->n_states; i++)
        if (trace->states[i].exit)
            slot_of(r, trace->states[i].exit)->uses++;
}

/* A reader of the node is done. A VIEW reads its source until its own readers are. */
static void used(replay *r, const ct_node *node) {
    slot *at = slot_of(r, node);
    if (--at->uses > 0)
        return;
    ct_buffer_release(at->buffer);
    at->buffer = NULL;
    if (node->op == CT_VIEW)
        used(r, node->sources[0]);
}

static ct_status allocate(replay *r, const ct_node *node, slot *at) {
    int64_t bytes = ct_shape_numel(&node->shape) * (int64_t)ct_dtype_size(node->dtype);
    at->buffer = ct_buffer_new(r->trace->runtime->heap, bytes);
    if (!at->buffer)
        return ct_fail(r->error, CT_ERR_MEMORY, "out of memory for %lld bytes", (long long)bytes);
    return CT_OK;
}

/* What comes from outside is copied where it is not in C order (a strided argument, a state that is
 * still a constant of one element), for a VIEW counts on that order. */
static ct_status in_c_order(replay *r, const ct_node *node, slot *at, ct_status status) {
    ct_view view = ct_view_whole(&node->shape);
    ct_array outside = at->value;
    if (status != CT_OK)
        return status;
    memcpy(view.stride, outside.stride, sizeof view.stride);
    if (ct_view_is_contiguous(&view))
        return CT_OK;
    status = allocate(r, node, at);
    if (status != CT_OK)
        return status;
    view = ct_view_whole(&node->shape);
    memcpy(at->value.stride, view.stride, sizeof view.stride);
    at->value.data = at->buffer->data;
    return ct_eager_copy(r->trace->runtime, &at->value, &outside, r->error);
}

static ct_status run_node(replay *r, const ct_node *node) {
    slot *at = slot_of(r, node);
    ct_runtime *runtime = r->trace->runtime;
    at->value = (ct_array){.dtype = node->dtype, .shape = node->shape};
    switch (node->op) {
    case CT_INPUT:
        return in_c_order(r, node, at,
                          ct_tensor_array(r->inputs[node->attr.slot], &at->value, r->error));
    case CT_STATE:
        return in_c_order(
            r, node, at,
            ct_node_value(r->trace->states[node->attr.slot].cell->version, &at->value, r->error));
    case CT_CONST:
        if (at->uses > 0) { /* read where it is, with strides 0; results need a buffer */
            at->value.data = (void *)(uintptr_t)&node->element;
            bool result = false;
            for (int i = 0; i < r->trace->n_outputs && !result; i++)
                result = r->trace->outputs[i] == node;
            for (int i = 0; i < r->trace->n_states && !result; i++)
                result = r->trace->states[i].exit == node;
            if (!result)
                return CT_OK;
        }
        break;
    case CT_VIEW: {
        const ct_node *base = node->sources[0];
        const slot *from = slot_of(r, base);
        if (base->op == CT_CONST && !from->buffer) {
            at->value.data = from->value.data;
            return CT_OK;
        }
        at->value = ct_array_through(&from->value, &node->attr.view);
        return CT_OK;
    }
    default: break;
    }
    ct_array few[4], *sources = few;
    if (node->n_sources > 4 && !(sources = ct_malloc((size_t)node->n_sources * sizeof *sources)))
        return ct_fail(r->error, CT_ERR_MEMORY, "out of memory");
    for (int s = 0; s < node->n_sources; s++)
        sources[s] = slot_of(r, node->sources[s])->value;
    ct_status status = CT_OK;
    slot *base = node->op == CT_UPDATE ? slot_of(r, node->sources[0]) : NULL;
    if (base && base->uses == 1 && base->buffer) {
        at->buffer = base->buffer;
        base->buffer = NULL;
    } else {
        status = allocate(r, node, at);
    }
    if (status == CT_OK) {
        ct_view whole = ct_view_whole(&node->shape);
        memcpy(at->value.stride, whole.stride, sizeof whole.stride);
        at->value.data = at->buffer->data;
        status = runtime->executor->run(runtime, node, &at->value, sources,
                                        r->draw + node->attr.draw, r->error);
    }
    if (sources != few)
        free(sources);
    for (int s = 0; s < node->n_sources && status == CT_OK; s++)
        used(r, node->sources[s]);
    return status;
}

/* A tensor over a buffer that holds a node's value. */
static ct_tensor *result_of(ct_trace *trace, const ct_node *node, ct_buffer *buffer,
                            ct_error *error) {
    ct_node *data = ct_node_data(trace->runtime, node->dtype, &node->shape, buffer, error);
    ct_tensor *tensor = ct_tensor_new(data, error);
    ct_node_release(data);
    return tensor;
}

ct_status ct_replay_finish(ct_trace *trace, ct_buffer *const *buffers, ct_tensor **outputs,
                           ct_error *error) {
    ct_error own;
    error = error ? error : &own;
    error->status = CT_OK;
    /* Everything that may fail for want of memory comes before the first change. */
    ct_tensor **made = ct_calloc((size_t)(trace->n_outputs + 1), sizeof *made);
    ct_node **exits = ct_calloc((size_t)(trace->n_states + 1), sizeof *exits);
    ct_status status = made && exits ? CT_OK : ct_fail(error, CT_ERR_MEMORY, "out of memory");
    for (int i = 0; i < trace->n_outputs && status == CT_OK; i++)
        if (!(made[i] = result_of(trace, trace->outputs[i], buffers[i], error)))
            status = error->status;
    for (int i = 0, at = trace->n_outputs; i < trace->n_states && status == CT_OK; i++) {
        const ct_node *exit = trace->states[i].exit;
        if (exit && !(exits[i] = ct_node_data(trace->runtime, exit->dtype, &exit->shape,
                                              buffers[at++], error)))
            status = error->status;
    }
    for (int i = 0; i < trace->n_states && status == CT_OK; i++)
        if (exits[i])
            status = ct_cell_install(trace->states[i].cell, exits[i], error);
    for (int i = 0; i < trace->n_states && status == CT_OK; i++) {
        const ct_trace_state *state = &trace->states[i];
        if (state->grad_output != CT_GRAD_KEEP)
            status = ct_cell_set_grad(
                state->cell, state->grad_output >= 0 ? made[state->grad_output] : NULL, error);
    }
    for (int i = 0; i < trace->n_outputs && made; i++) {
        if (status == CT_OK && i < trace->n_results)
            outputs[i] = made[i];
        else
            ct_tensor_free(made[i]);
    }
    for (int i = 0; i < trace->n_states && exits; i++)
        ct_node_release(exits[i]);
    free(made);
    free(exits);
    return status;
}

ct_status ct_replay(ct_trace *trace, ct_tensor *const *inputs, ct_tensor **outputs,
                    ct_error *error) {
    ct_runtime *runtime = trace->runtime;
    ct_error own;
    replay r = {
        .trace = trace, .inputs = inputs, .draw = runtime->draws, .error = error ? error : &own};
    r.slots = ct_calloc((size_t)(trace->n_order + 1), sizeof *r.slots);
    ct_buffer **results =
        ct_calloc((size_t)(trace->n_outputs + trace->n_states + 1), sizeof *results);
    ct_status status =
        r.slots && results ? CT_OK : ct_fail(r.error, CT_ERR_MEMORY, "out of memory");
    if (status == CT_OK)
        count_uses(&r);
    for (int i = 0; i < trace->n_order && status == CT_OK; i++) {
        const ct_node *node = trace->order[i];
        status = run_node(&r, node);
        if (status != CT_OK && status != CT_ERR_INTERRUPTED && node->line.source)
            ct_error_prefix(r.error, "in the traced step, %s:%d: ", node->line.source,
                            node->line.line);
    }
    if (status == CT_OK) {
        int n = 0;
        for (int i = 0; i < trace->n_outputs; i++)
            results[n++] = slot_of(&r, trace->outputs[i])->buffer;
        for (int i = 0; i < trace->n_states; i++)
            if (trace->states[i].exit)
                results[n++] = slot_of(&r, trace->states[i].exit)->buffer;
        status = ct_replay_finish(trace, results, outputs, r.error);
        if (status == CT_OK)
            runtime->draws += trace->draws;
    }
    for (int i = 0; i < trace->n_order && r.slots; i++) {
        ct_buffer_release(r.slots[i].buffer);
        trace->order[i]->mark = 0;
    }
    free(r.slots);
    free(results);
    return status;
}
