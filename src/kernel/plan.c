// plan.c: where every value lives. What leaves the step is written where it goes: outputs into
// their buffers, exit versions into the state's own buffer where every reader of the entry version
// is done by then and nothing can fail any more; else through the arena and a copy at the end. The
// rest shares one arena: each block is taken when its value is made and given back after the last
// reader, the smallest free hole that fits first.
#include <stdlib.h>
#include <string.h>

#include "base/error.h" // defines: ct_fail
#include "base/heap.h"  // defines: CT_ALIGN, ct_calloc, ct_malloc
#include "kernel/kernel.h"

typedef struct hole {
    int64_t offset, bytes;
} hole;

typedef struct planner {
    ct_plan *plan;
    int *last;   /* by node id: position of the last kernel that reads it; n_kernels: it leaves the
                    step */
    hole *holes; /* free parts of the arena, by offset */
    int n_holes;
} planner;

static int64_t block_bytes(const ct_node *node) {
    int64_t bytes = ct_shape_numel(&node->shape) * (int64_t)ct_dtype_size(node->dtype);
    return (bytes + CT_ALIGN - 1) / CT_ALIGN * CT_ALIGN;
}

/* ---- the arena ---- */

static int64_t take(planner *p, int64_t bytes) {
    int best = -1;
    for (int i = 0; i < p->n_holes; i++) {
        if (p->holes[i].bytes >= bytes && (best < 0 || p->holes[i].bytes < p->holes[best].bytes))
            best = i;
    }
    if (best < 0) { // grow; a hole at the end is part of the growth
        hole *end = p->n_holes > 0 ? &p->holes[p->n_holes - 1] : NULL;
        int64_t offset = p->plan->arena_bytes;
        if (end != NULL && end->offset + end->bytes == offset) {
            offset = end->offset;
            p->n_holes--;
        }
        p->plan->arena_bytes = offset + bytes;
        return offset;
    }
    int64_t offset = p->holes[best].offset;
    p->holes[best].offset += bytes;
    p->holes[best].bytes -= bytes;
    if (p->holes[best].bytes == 0) {
        memmove(&p->holes[best], &p->holes[best + 1],
                (size_t)(--p->n_holes - best) * sizeof *p->holes);
    }
    return offset;
}

static void give(planner *p, int64_t offset, int64_t bytes) {
    int at = 0;
    while (at < p->n_holes && p->holes[at].offset < offset)
        at++;
    memmove(&p->holes[at + 1], &p->holes[at], (size_t)(p->n_holes++ - at) * sizeof *p->holes);
    p->holes[at] = (hole){offset, bytes};
    if (at + 1 < p->n_holes && offset + bytes == p->holes[at + 1].offset) {
        p->holes[at].bytes += p->holes[at + 1].bytes;
        memmove(&p->holes[at + 1], &p->holes[at + 2],
                (size_t)(--p->n_holes - at - 1) * sizeof *p->holes);
    }
    if (at > 0 && p->holes[at - 1].offset + p->holes[at - 1].bytes == offset) {
        p->holes[at - 1].bytes += p->holes[at].bytes;
        memmove(&p->holes[at], &p->holes[at + 1], (size_t)(--p->n_holes - at) * sizeof *p->holes);
    }
}

/* ---- writing over what is read ---- */

/* Whether the kernel may write the member where the load reads: each element is read, for the last
 * time, in the step of the loop that writes it. */
static bool may_overwrite(const ct_kernel *kernel, const ct_load *load, const ct_member *member) {
    if (load->level != member->level || !ct_view_is_whole(&load->view) || load->node->op == CT_IOTA)
        return false;
    if (ct_dtype_size(load->node->dtype) != ct_dtype_size(member->node->dtype))
        return false;
    if (ct_shape_numel(&load->node->shape) != ct_shape_numel(&member->node->shape))
        return false;
    if (kernel->kind == CT_KERNEL_ROWS && member->level == CT_LEVEL_FULL &&
        member->stage + 1 < kernel->stages) {
        return false;
    }
    for (int i = 0; i < kernel->n_loads; i++) { // no other walk over the same memory
        if (&kernel->loads[i] != load && kernel->loads[i].node == load->node)
            return false;
    }
    return true;
}

/* Whether an UPDATE may write into its base's memory. */
static bool updates_in_place(const ct_node *node, const ct_node *base) {
    ct_view view;
    return node->op == CT_UPDATE && node->sources[0] == base &&
           ct_node_base(node->sources[1], &view) != base;
}

static bool reads(const ct_kernel *kernel, const ct_node *node) {
    if (kernel->kind == CT_KERNEL_CALL) {
        const ct_node *self = kernel->members[0].node;
        for (int i = 0; i < self->n_sources; i++) {
            ct_view view;
            if (ct_node_base(self->sources[i], &view) == node)
                return true;
        }
        return false;
    }
    for (int i = 0; i < kernel->n_loads; i++) {
        if (kernel->loads[i].node == node)
            return true;
    }
    return false;
}

static bool may_fail(const ct_kernel *kernel) {
    return kernel->kind == CT_KERNEL_CALL &&
           ct_op_table[kernel->members[0].node->op].class == CT_CLASS_INDEX;
}

/* Whether the exit version of a state may be written into its buffer by the kernel that computes
 * it. */
static bool writes_state(const planner *p, const ct_kernel *kernel, const ct_member *member,
                         const ct_graph_state *state, int last_failure) {
    if (kernel->position <= last_failure)
        return false;
    const ct_node *entry = state->entry;
    if (entry == NULL)
        return true;
    for (int k = kernel->position + 1; k < p->plan->n_kernels; k++) {
        if (reads(p->plan->kernels[k], entry))
            return false;
    }
    if (!reads(kernel, entry))
        return true;
    if (kernel->kind == CT_KERNEL_CALL)
        return updates_in_place(member->node, entry);
    for (int i = 0; i < kernel->n_loads; i++) {
        if (kernel->loads[i].node == entry && !may_overwrite(kernel, &kernel->loads[i], member))
            return false;
    }
    return true;
}

/* ---- the walk ---- */

static void find_last_readers(planner *p) {
    ct_plan *plan = p->plan;
    ct_view view;
    for (int k = 0; k < plan->n_kernels; k++) {
        const ct_kernel *kernel = plan->kernels[k];
        for (int i = 0; i < kernel->n_members; i++) {
            if (!kernel->members[i].stored)
                continue;
            if (p->last[kernel->members[i].node->id] < k)
                p->last[kernel->members[i].node->id] = k;
        }
        for (int i = 0; i < kernel->n_loads; i++)
            p->last[kernel->loads[i].node->id] = k;
        if (kernel->kind != CT_KERNEL_CALL)
            continue;
        const ct_node *node = kernel->members[0].node;
        for (int i = 0; i < node->n_sources; i++)
            p->last[ct_node_base(node->sources[i], &view)->id] = k;
    }
}

static void place_fixed(planner *p) {
    ct_plan *plan = p->plan;
    ct_graph *graph = plan->graph;
    int last_failure = -1;
    for (int k = 0; k < plan->n_kernels; k++) {
        if (may_fail(plan->kernels[k]))
            last_failure = k;
    }
    for (int i = 0; i < graph->n_inputs; i++) {
        if (graph->inputs[i])
            plan->places[graph->inputs[i]->id] = (ct_place){CT_PLACE_INPUT, i};
    }
    for (int i = 0; i < graph->n_outputs; i++) {
        plan->places[graph->outputs[i]->id] = (ct_place){CT_PLACE_OUTPUT, i};
    }
    for (int i = 0; i < graph->n_states; i++) {
        const ct_graph_state *state = &graph->states[i];
        ct_place place = {CT_PLACE_STATE, i};
        if (state->entry)
            plan->places[state->entry->id] = place;
        if (state->exit == NULL)
            continue;
        bool direct = false;
        for (int k = 0; k < plan->n_kernels; k++) {
            const ct_kernel *kernel = plan->kernels[k];
            for (int m = 0; m < kernel->n_members; m++) {
                if (kernel->members[m].node != state->exit || !kernel->members[m].stored)
                    continue;
                direct = writes_state(p, kernel, &kernel->members[m], state, last_failure);
            }
        }
        if (direct) {
            plan->places[state->exit->id] = place;
        } else {
            plan->departures[plan->n_departures++] = (ct_departure){state->exit, place};
            p->last[state->exit->id] = plan->n_kernels;
        }
    }
}

/* Memory of a value that dies here, for a member to be written over it; or none. */
static bool inherit(planner *p, const ct_kernel *kernel, const ct_member *member, bool *taken) {
    ct_plan *plan = p->plan;
    ct_place *place = &plan->places[member->node->id];
    if (kernel->kind == CT_KERNEL_CALL) {
        const ct_node *base = member->node->n_sources > 0 ? member->node->sources[0] : NULL;
        if (base == NULL || !updates_in_place(member->node, base))
            return false;
        if (plan->places[base->id].kind != CT_PLACE_ARENA || p->last[base->id] != kernel->position)
            return false;
        *place = plan->places[base->id];
        p->last[base->id] = -2; // its block has a new owner
        return true;
    }
    for (int i = 0; i < kernel->n_loads; i++) {
        const ct_load *load = &kernel->loads[i];
        if (taken[i] || plan->places[load->node->id].kind != CT_PLACE_ARENA)
            continue;
        if (p->last[load->node->id] != kernel->position || !may_overwrite(kernel, load, member))
            continue;
        if (block_bytes(load->node) != block_bytes(member->node))
            continue;
        *place = plan->places[load->node->id];
        p->last[load->node->id] = -2;
        taken[i] = true;
        return true;
    }
    return false;
}

static void place_arena(planner *p) {
    ct_plan *plan = p->plan;
    ct_graph *graph = plan->graph;
    for (int k = 0; k < plan->n_kernels; k++) {
        const ct_kernel *kernel = plan->kernels[k];
        bool taken[CT_MAX_LOADS] = {false};
        for (int m = 0; m < kernel->n_members; m++) {
            const ct_member *member = &kernel->members[m];
            ct_place *place = &plan->places[member->node->id];
            if (!member->stored || place->kind != CT_PLACE_NONE ||
                inherit(p, kernel, member, taken))
                continue;
            *place = (ct_place){CT_PLACE_ARENA, take(p, block_bytes(member->node))};
        }
        for (int i = 0; i < graph->n_nodes; i++) {
            if (p->last[i] != k || plan->places[i].kind != CT_PLACE_ARENA)
                continue;
            give(p, plan->places[i].index, block_bytes(graph->nodes[i]));
        }
    }
}

ct_plan *ct_plan_make(ct_graph *graph, ct_error *error) {
    ct_plan *plan = ct_calloc(1, sizeof *plan);
    size_t n = (size_t)graph->n_nodes + 1;
    if (plan == NULL) {
        ct_graph_free(graph);
        ct_fail(error, CT_ERR_MEMORY, "plan: memory is out");
        return NULL;
    }
    plan->graph = graph;
    if (ct_fuse(graph, &plan->kernels, &plan->n_kernels, error) != CT_OK) {
        ct_plan_free(plan);
        return NULL;
    }
    planner p = {.plan = plan};
    p.last = ct_malloc(n * sizeof *p.last);
    p.holes = ct_malloc((n + 1) * sizeof *p.holes);
    plan->places = ct_calloc(n, sizeof *plan->places);
    plan->departures = ct_calloc((size_t)graph->n_states + 1, sizeof *plan->departures);
    bool ok = p.last && p.holes && plan->places && plan->departures;
    if (ok) {
        for (size_t i = 0; i < n; i++)
            p.last[i] = -1;
        find_last_readers(&p);
        place_fixed(&p);
        place_arena(&p);
    } else {
        ct_fail(error, CT_ERR_MEMORY, "plan: memory is out for %d nodes", graph->n_nodes);
    }
    free(p.last);
    free(p.holes);
    if (ok)
        ok = ct_plan_verify(plan, error) == CT_OK;
    if (!ok) {
        ct_plan_free(plan);
        return NULL;
    }
    return plan;
}

void ct_plan_free(ct_plan *plan) {
    if (plan == NULL)
        return;
    for (int k = 0; k < plan->n_kernels; k++)
        ct_kernel_free(plan->kernels[k]);
    free(plan->kernels);
    free(plan->places);
    free(plan->departures);
    ct_graph_free(plan->graph);
    free(plan);
}
