/* trace.c: recording a step, and putting the world back afterwards. */
#include "graph/trace.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/error.h"

ct_trace *ct_trace_begin(ct_runtime *runtime, ct_error *error) {
    if (runtime->trace) {
        ct_fail(error, CT_ERR_STATE, "a traced function was called inside another trace");
        return NULL;
    }
    ct_trace *trace = ct_calloc(1, sizeof *trace);
    if (!trace) {
        ct_fail(error, CT_ERR_MEMORY, "out of memory for a trace");
        return NULL;
    }
    trace->runtime = ct_runtime_hold(runtime);
    trace->id = runtime->next_id++;
    trace->depth = runtime->no_grad;
    runtime->trace = trace;
    return trace;
}

/* Room for one more in a list that grows by doubling; false when memory is out. */
static bool grow(void *list, int count, int *capacity, size_t size, ct_error *error) {
    if (count < *capacity)
        return true;
    int wanted = *capacity ? *capacity * 2 : 16;
    void *old, *made;
    memcpy(&old, list, sizeof old);
    made = ct_realloc(old, (size_t)wanted * size);
    if (!made) {
        ct_fail(error, CT_ERR_MEMORY, "out of memory for a trace");
        return false;
    }
    memcpy(list, &made, sizeof made);
    *capacity = wanted;
    return true;
}

ct_tensor *ct_trace_input(ct_trace *trace, ct_dtype dtype, const ct_shape *shape, ct_error *error) {
    ct_node **inputs = ct_realloc(trace->inputs, (size_t)(trace->n_inputs + 1) * sizeof *inputs);
    if (!inputs) {
        ct_fail(error, CT_ERR_MEMORY, "out of memory for a trace");
        return NULL;
    }
    trace->inputs = inputs;
    ct_attr attr = {.dtype = dtype, .slot = trace->n_inputs};
    ct_node *node = ct_record(trace->runtime, CT_INPUT, NULL, 0, &attr, shape, error);
    if (!node)
        return NULL;
    trace->inputs[trace->n_inputs++] = node;
    return ct_tensor_new(node, error);
}

ct_status ct_trace_touch(ct_trace *trace, ct_cell *cell, ct_trace_state **state, ct_error *error) {
    *state = NULL;
    if (cell->touched) {
        *state = &trace->states[cell->touched - 1];
        return CT_OK;
    }
    ct_node *version = cell->version;
    if (version->trace == trace->id)
        return CT_OK;
    if (version->trace)
        return ct_fail(error, CT_ERR_STATE,
                       "a tensor made inside an earlier traced step ('%s' at %s:%d) was used in "
                       "another; return it from "
                       "its step, or copy it into a tensor made before (t:copy_(...))",
                       ct_op_table[version->op].name,
                       version->line.source ? version->line.source : "?", version->line.line);
    if (!grow(&trace->states, trace->n_states, &trace->states_capacity, sizeof *trace->states,
              error))
        return error ? error->status : CT_ERR_MEMORY;
    ct_attr attr = {.dtype = version->dtype, .slot = trace->n_states};
    ct_node *entry = ct_record(trace->runtime, CT_STATE, NULL, 0, &attr, &version->shape, error);
    if (!entry)
        return error ? error->status : CT_ERR_MEMORY;
    if (cell->requires_grad) {
        entry->requires_grad = true;
        entry->leaf = cell;
        cell->weak++;
    }
    entry->versioned = true;
    *state = &trace->states[trace->n_states++];
    **state = (ct_trace_state){.cell = ct_cell_retain(cell),
                               .entry = entry,
                               .outside = version,
                               .outside_grad = cell->grad ? ct_tensor_retain(cell->grad) : NULL,
                               .grad_output = CT_GRAD_KEEP};
    cell->version = ct_node_retain(entry); /* the trace now holds the outside version */
    cell->touched = trace->n_states;
    return CT_OK;
}

/* Cells and the runtime as they were before begin. */
static void restore(ct_trace *trace) {
    for (int i = 0; i < trace->n_states; i++) {
        ct_trace_state *state = &trace->states[i];
        ct_cell *cell = state->cell;
        if (!cell->touched)
            continue;
        cell->touched = 0;
        ct_node *inside = cell->version;
        ct_tensor *grad = cell->grad;
        cell->version = state->outside;
        cell->grad = state->outside_grad;
        state->outside = NULL;
        state->outside_grad = NULL;
        ct_node_release(inside);
        ct_tensor_free(grad);
    }
    if (trace->runtime->trace == trace) {
        trace->runtime->trace = NULL;
        trace->runtime->no_grad = trace->depth;
    }
}

void ct_trace_free(ct_trace *trace) {
    if (!trace)
        return;
    for (int i = 0; i < trace->n_states; i++) {
        ct_node_release(trace->states[i].entry);
        ct_node_release(trace->states[i].exit);
        ct_cell_release(trace->states[i].cell);
    }
    for (int i = 0; i < trace->n_inputs; i++)
        ct_node_release(trace->inputs[i]);
    for (int i = 0; i < trace->n_outputs; i++)
        ct_node_release(trace->outputs[i]);
    free(trace->states);
    free(trace->inputs);
    free(trace->outputs);
    free(trace->order);
    ct_runtime *runtime = trace->runtime;
    free(trace);
    ct_runtime_drop(runtime);
}

void ct_trace_abort(ct_trace *trace) {
    restore(trace);
    ct_trace_free(trace);
}

/* A node that can leave the trace: neither a VIEW nor a source from outside, and not taken by
 * another output or exit (marked). */
static ct_node *leaving(ct_builder *b, ct_node *node) {
    if (node && (node->op == CT_VIEW || node->op == CT_INPUT || node->op == CT_STATE || node->mark))
        node = ct_own(b, ct_record(b->runtime, CT_COPY, &node, 1, NULL, &node->shape, b->error));
    if (node)
        node->mark = 1;
    return node;
}

static ct_status add_output(ct_trace *trace, ct_builder *b, ct_tensor *tensor, int *capacity) {
    ct_node *node = leaving(b, ct_tensor_node(b, tensor));
    if (!node)
        return b->error->status;
    if (!grow(&trace->outputs, trace->n_outputs, capacity, sizeof *trace->outputs, b->error))
        return CT_ERR_MEMORY;
    trace->outputs[trace->n_outputs++] = ct_node_retain(node);
    return CT_OK;
}

/* What becomes of each leaf's gradient after a step. */
static ct_status settle_grad(ct_trace *trace, ct_builder *b, int slot, int *capacity) {
    ct_trace_state *state = &trace->states[slot];
    ct_tensor *grad = state->cell->grad;
    if (!state->grad_set || (grad && grad == state->outside_grad))
        return CT_OK;
    bool stays = grad && (state->grad_read || state->cell->version == state->entry);
    if (!stays) {
        state->grad_output = CT_GRAD_CLEAR;
        return CT_OK;
    }
    ct_status status = add_output(trace, b, grad, capacity);
    if (status == CT_OK)
        trace->states[slot].grad_output = trace->n_outputs - 1;
    return status;
}

static int by_id(const void *a, const void *b) {
    uint64_t x = (*(ct_node *const *)a)->id, y = (*(ct_node *const *)b)->id;
    return x < y ? -1 : x > y;
}

/* Every node that outputs and exits need, in the order they were recorded, which is one where
 * sources come first. */
static ct_status sort_nodes(ct_trace *trace, ct_error *error) {
    int capacity = 0, done = 0;
    for (int i = -trace->n_states; i < trace->n_outputs; i++) {
        ct_node *root = i < 0 ? trace->states[-1 - i].exit : trace->outputs[i];
        if (!root || root->mark == 2)
            continue;
        if (!grow(&trace->order, trace->n_order, &capacity, sizeof *trace->order, error))
            return CT_ERR_MEMORY;
        root->mark = 2;
        trace->order[trace->n_order++] = root;
    }
    for (; done < trace->n_order; done++) {
        ct_node *node = trace->order[done];
        for (int s = 0; s < node->n_sources; s++) {
            ct_node *source = node->sources[s];
            if (source->mark == 2)
                continue;
            if (!grow(&trace->order, trace->n_order, &capacity, sizeof *trace->order, error))
                return CT_ERR_MEMORY;
            source->mark = 2;
            trace->order[trace->n_order++] = source;
        }
    }
    qsort(trace->order, (size_t)trace->n_order, sizeof *trace->order, by_id);
    return CT_OK;
}

ct_status ct_trace_end(ct_trace *trace, ct_tensor *const *outputs, int n_outputs, ct_error *error) {
    ct_builder b;
    ct_builder_begin(&b, trace->runtime, error);
    ct_status status = CT_OK;
    int capacity = 0;
    trace->runtime->no_grad++; /* the copies made here need no gradient */
    for (int i = 0; i < n_outputs && status == CT_OK; i++)
        status = add_output(trace, &b, outputs[i], &capacity);
    trace->n_results = trace->n_outputs;
    for (int i = 0; i < trace->n_states && status == CT_OK; i++)
        status = settle_grad(trace, &b, i, &capacity);
    for (int i = 0; i < trace->n_states && status == CT_OK; i++) {
        ct_trace_state *state = &trace->states[i];
        if (state->cell->version == state->entry)
            continue;
        ct_node *exit = leaving(&b, state->cell->version);
        if (!exit)
            status = b.error->status;
        else
            state->exit = ct_node_retain(exit);
        trace->trained = true;
    }
    if (status == CT_OK)
        status = sort_nodes(trace, b.error);
    for (int i = 0; i < trace->n_outputs; i++)
        trace->outputs[i]->mark = 0;
    for (int i = 0; i < trace->n_states; i++)
        if (trace->states[i].exit)
            trace->states[i].exit->mark = 0;
    for (int i = 0; i < trace->n_order; i++)
        trace->order[i]->mark = 0;
    ct_builder_end(&b);
    restore(trace);
    if (status != CT_OK)
        ct_trace_free(trace);
    return status;
}

bool ct_trace_fits(const ct_trace *trace) {
    for (int i = 0; i < trace->n_states; i++) {
        const ct_trace_state *state = &trace->states[i];
        if (state->grad_read && state->grad_was != (state->cell->grad != NULL))
            return false;
    }
    return true;
}

/* ---- comparing two recordings ---- */

static bool scalar_same(const ct_scalar *a, const ct_scalar *b) {
    return a->is_int == b->is_int &&
           (a->is_int ? a->i == b->i : memcmp(&a->f, &b->f, sizeof a->f) == 0);
}

static bool view_same(const ct_view *a, const ct_view *b) {
    return ct_shape_equal(&a->shape, &b->shape) && a->offset == b->offset &&
           memcmp(a->stride, b->stride, (size_t)a->shape.ndim * sizeof *a->stride) == 0;
}

/* Nodes are compared by place in their order, which `mark` holds. */
static bool node_same(const ct_node *a, const ct_node *b) {
    if (a->op != b->op || a->dtype != b->dtype || a->n_sources != b->n_sources ||
        !ct_shape_equal(&a->shape, &b->shape))
        return false;
    for (int s = 0; s < a->n_sources; s++)
        if (a->sources[s]->mark != b->sources[s]->mark)
            return false;
    const ct_attr *x = &a->attr, *y = &b->attr;
    return view_same(&x->view, &y->view) && x->axes == y->axes && x->axis == y->axis &&
           x->descending == y->descending && scalar_same(&x->value, &y->value) &&
           scalar_same(&x->step, &y->step) && x->random == y->random && x->draw == y->draw &&
           x->slot == y->slot;
}

static void describe(const ct_node *node, char text[256]) {
    char shape[CT_SHAPE_TEXT];
    if (!node) {
        snprintf(text, 256, "nothing more");
        return;
    }
    char value[40] = "";
    if (node->op == CT_CONST)
        snprintf(value, sizeof value, " %.9g", node->attr.value.f);
    snprintf(text, 256, "'%s%s' (%s %s) at %s:%d", ct_op_table[node->op].name, value,
             ct_dtype_name(node->dtype), ct_shape_text(&node->shape, shape),
             node->line.source ? node->line.source : "?", node->line.line);
}

bool ct_trace_same(const ct_trace *a, const ct_trace *b, ct_error *error) {
    int n = a->n_order > b->n_order ? a->n_order : b->n_order, at = -1;
    for (int i = 0; i < n && at < 0; i++) {
        if (i >= a->n_order || i >= b->n_order) {
            at = i;
            break;
        }
        a->order[i]->mark = b->order[i]->mark = i;
        if (!node_same(a->order[i], b->order[i]) ||
            (a->order[i]->op == CT_STATE &&
             a->states[a->order[i]->attr.slot].cell != b->states[b->order[i]->attr.slot].cell))
            at = i;
    }
    bool ends = at < 0 && a->n_outputs == b->n_outputs && a->n_states == b->n_states;
    for (int i = 0; ends && i < a->n_outputs; i++)
        ends = a->outputs[i]->mark == b->outputs[i]->mark;
    for (int i = 0; ends && i < a->n_states; i++) {
        const ct_node *x = a->states[i].exit, *y = b->states[i].exit;
        ends = a->states[i].cell == b->states[i].cell && !x == !y && (!x || x->mark == y->mark) &&
               a->states[i].grad_output == b->states[i].grad_output;
    }
    for (int i = 0; i < a->n_order; i++)
        a->order[i]->mark = 0;
    for (int i = 0; i < b->n_order; i++)
        b->order[i]->mark = 0;
    if (at < 0 && ends)
        return true;
    if (at < 0) {
        ct_fail(error, CT_ERR_STATE,
                "the step's operations are the same, but what it returns or writes is not");
        return false;
    }
    char was[256], is[256];
    describe(at < a->n_order ? a->order[at] : NULL, was);
    describe(at < b->n_order ? b->order[at] : NULL, is);
    ct_fail(error, CT_ERR_STATE, "operation %d was %s, and is now %s", at + 1, was, is);
    return false;
}
