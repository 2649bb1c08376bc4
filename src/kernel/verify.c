// verify.c: a plan checked by walking through it: at every read, the place must still hold the
// value that is meant. What this finds is a fault of fuse.c or plan.c; the step then stays on the
// eager loops.
#include <stdlib.h>
#include <string.h>

#include "base/error.h" // defines: ct_fail
#include "base/heap.h"  // defines: ct_calloc
#include "kernel/kernel.h"

typedef struct verifier {
    const ct_plan *plan;
    const ct_node **held; /* nodes whose values are in their places */
    int n_held;
    ct_error *error;
} verifier;

static int64_t bytes_of(const ct_node *node) {
    return ct_shape_numel(&node->shape) * (int64_t)ct_dtype_size(node->dtype);
}

static bool overlap(const verifier *v, const ct_node *a, const ct_node *b) {
    ct_place x = v->plan->places[a->id], y = v->plan->places[b->id];
    if (x.kind != y.kind)
        return false;
    if (x.kind != CT_PLACE_ARENA)
        return x.index == y.index;
    return x.index < y.index + bytes_of(b) && y.index < x.index + bytes_of(a);
}

static ct_status fault(verifier *v, const ct_node *node, int kernel, const char *what) {
    return ct_fail(v->error, CT_ERR_STATE, "internal: kernel %d of the plan %s (%s at %s:%d)",
                   kernel, what, ct_op_table[node->op].name,
                   node->line.source ? node->line.source : "?", node->line.line);
}

static ct_status check_read(verifier *v, ct_node *source, int kernel) {
    ct_view view;
    const ct_node *base = ct_node_base(source, &view);
    if (base->op == CT_CONST || ct_shape_numel(&base->shape) == 0)
        return CT_OK;
    for (int i = 0; i < v->n_held; i++) {
        if (v->held[i] == base)
            return CT_OK;
    }
    return fault(v, base, kernel, "reads a value that is not in its place");
}

/* The node's place now holds its value, and no other's. */
static ct_status write(verifier *v, const ct_node *node, int kernel, int first_of_kernel) {
    if (v->plan->places[node->id].kind == CT_PLACE_NONE)
        return fault(v, node, kernel, "has no place for a value");
    if (bytes_of(node) == 0)
        return CT_OK;
    int kept = 0;
    for (int i = 0; i < v->n_held; i++) {
        bool over = overlap(v, v->held[i], node);
        if (over && i >= first_of_kernel)
            return fault(v, node, kernel, "writes two values into one place");
        if (!over)
            v->held[kept++] = v->held[i];
    }
    v->n_held = kept;
    v->held[v->n_held++] = node;
    return CT_OK;
}

static ct_status check_kernel(verifier *v, const ct_kernel *kernel) {
    int number = kernel->position;
    ct_status status = CT_OK;
    for (int i = 0; i < kernel->n_loads && status == CT_OK; i++) {
        if (kernel->loads[i].node->op != CT_IOTA)
            status = check_read(v, kernel->loads[i].node, number);
    }
    if (kernel->kind == CT_KERNEL_CALL) {
        const ct_node *node = kernel->members[0].node;
        for (int i = 0; i < node->n_sources && status == CT_OK; i++)
            status = check_read(v, node->sources[i], number);
    }
    int first = v->n_held;
    for (int i = 0; i < kernel->n_members && status == CT_OK; i++) {
        int before = v->n_held;
        if (!kernel->members[i].stored)
            continue;
        status = write(v, kernel->members[i].node, number, first);
        first -= before + 1 - v->n_held; // what was overwritten stood before
    }
    return status;
}

ct_status ct_plan_verify(const ct_plan *plan, ct_error *error) {
    const ct_graph *graph = plan->graph;
    verifier v = {.plan = plan, .error = error};
    v.held = ct_calloc((size_t)graph->n_nodes + 1, sizeof *v.held);
    if (v.held == NULL)
        return ct_fail(error, CT_ERR_MEMORY, "verify: memory is out for %d nodes", graph->n_nodes);
    for (int i = 0; i < graph->n_inputs; i++) {
        if (graph->inputs[i])
            v.held[v.n_held++] = graph->inputs[i];
    }
    for (int i = 0; i < graph->n_states; i++) {
        if (graph->states[i].entry)
            v.held[v.n_held++] = graph->states[i].entry;
    }
    ct_status status = CT_OK;
    for (int k = 0; k < plan->n_kernels && status == CT_OK; k++)
        status = check_kernel(&v, plan->kernels[k]);
    for (int i = 0; i < graph->n_outputs && status == CT_OK; i++)
        status = check_read(&v, graph->outputs[i], plan->n_kernels);
    for (int i = 0; i < graph->n_states && status == CT_OK; i++) {
        if (graph->states[i].exit)
            status = check_read(&v, graph->states[i].exit, plan->n_kernels);
    }
    free(v.held);
    return status;
}
