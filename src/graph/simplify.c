// simplify.c: one walk over the recorded order that rebuilds the graph. Each node is first
// rewritten (a rule below gives an older node for it), then looked up among the equal pure ones,
// then made. A rule stays only if it is exact: x * 1 is x for every float, x + 0 is not (-0 + 0 is
// 0). A walk from the results drops the rest.
#include "graph/simplify.h"

#include <stdlib.h>
#include <string.h>

#include "base/error.h" // defines: ct_fail
#include "base/heap.h"  // defines: ct_malloc, ct_calloc

typedef struct simplifier {
    ct_graph *graph;
    ct_runtime *runtime;
    int used; /* nodes of graph->storage in use */
    int capacity;
    int *table; /* open addressing: index into storage, or -1 */
    int table_size;
    int n_lines, line_capacity;
} simplifier;

/* ---- views ---- */

bool ct_view_compose(const ct_view *outer, const ct_view *inner, ct_view *result) {
    // The array's dimensions, those that memory walks alike merged, with their C-order strides.
    int64_t dim[CT_MAX_DIMS], stride[CT_MAX_DIMS], place[CT_MAX_DIMS];
    int n = 0;
    for (int d = 0; d < inner->shape.ndim; d++) {
        int64_t extent = inner->shape.dim[d];
        if (extent == 1)
            continue;
        if (n > 0 && stride[n - 1] == inner->stride[d] * extent) {
            dim[n - 1] *= extent;
            stride[n - 1] = inner->stride[d];
        } else {
            dim[n] = extent;
            stride[n++] = inner->stride[d];
        }
    }
    int64_t step = 1;
    for (int k = n - 1; k >= 0; k--) {
        place[k] = step;
        step *= dim[k];
    }
    *result = *outer;
    result->offset = inner->offset;
    if (ct_shape_numel(&outer->shape) == 0)
        return true;
    // Every coordinate must stay inside its dimension, else the walk would carry into the next one.
    int64_t low[CT_MAX_DIMS], high[CT_MAX_DIMS], rest = outer->offset;
    for (int k = 0; k < n; k++) {
        low[k] = high[k] = rest / place[k];
        rest %= place[k];
        result->offset += low[k] * stride[k];
    }
    for (int d = 0; d < outer->shape.ndim; d++) {
        int64_t count = outer->shape.dim[d] - 1;
        result->stride[d] = 0;
        if (count <= 0)
            continue;
        int64_t sign = outer->stride[d] < 0 ? -1 : 1, left = outer->stride[d] * sign;
        for (int k = 0; k < n; k++) {
            int64_t move = left / place[k] * sign;
            left %= place[k];
            result->stride[d] += move * stride[k];
            *(move < 0 ? &low[k] : &high[k]) += move * count;
        }
        if (left != 0)
            return false;
    }
    for (int k = 0; k < n; k++) {
        if (low[k] < 0 || high[k] >= dim[k])
            return false;
    }
    return true;
}

/* ---- making nodes ---- */

static bool mergeable(ct_op op) {
    return op != CT_INPUT && op != CT_STATE && op != CT_RANDOM && op != CT_DATA && op != CT_CUSTOM;
}

static bool same_scalar(const ct_scalar *a, const ct_scalar *b) {
    if (a->is_int != b->is_int)
        return false;
    return a->is_int ? a->i == b->i : memcmp(&a->f, &b->f, sizeof a->f) == 0;
}

static bool same_view(const ct_view *a, const ct_view *b) {
    if (!ct_shape_equal(&a->shape, &b->shape) || a->offset != b->offset)
        return false;
    for (int d = 0; d < a->shape.ndim; d++) {
        if (a->shape.dim[d] > 1 && a->stride[d] != b->stride[d])
            return false;
    }
    return true;
}

static bool same_attr(ct_op op, const ct_attr *a, const ct_attr *b) {
    switch (op) {
    case CT_VIEW:
    case CT_UPDATE: return same_view(&a->view, &b->view);
    case CT_CONST: return same_scalar(&a->value, &b->value);
    case CT_IOTA: return same_scalar(&a->value, &b->value) && same_scalar(&a->step, &b->step);
    case CT_ARGSORT: return a->axis == b->axis && a->descending == b->descending;
    default: break;
    }
    switch (ct_op_table[op].class) {
    case CT_CLASS_REDUCE: return a->axes == b->axes;
    case CT_CLASS_SCAN:
    case CT_CLASS_INDEX: return a->axis == b->axis;
    default: return true;
    }
}

static uint64_t mix(uint64_t hash, uint64_t value) {
    return (hash ^ value) * 0x9e3779b97f4a7c15u + (hash >> 29);
}

static uint64_t node_hash(const ct_node *node) {
    uint64_t hash = mix((uint64_t)node->op, (uint64_t)node->dtype);
    for (int i = 0; i < node->n_sources; i++)
        hash = mix(hash, node->sources[i]->id);
    for (int d = 0; d < node->shape.ndim; d++)
        hash = mix(hash, (uint64_t)node->shape.dim[d]);
    hash =
        mix(hash, node->op == CT_CONST ? (uint64_t)node->attr.value.i : (uint64_t)node->attr.axes);
    if (node->op == CT_CONST && !node->attr.value.is_int) {
        uint64_t bits;
        memcpy(&bits, &node->attr.value.f, sizeof bits);
        hash = mix(hash, bits);
    }
    return hash ^ hash >> 32;
}

static void note_line(simplifier *s, ct_node *node, ct_line line) {
    ct_graph *graph = s->graph;
    if (line.source == NULL || (line.source == node->line.source && line.line == node->line.line))
        return;
    for (int i = graph->first_line[node->id]; i >= 0; i = graph->lines[i].next) {
        if (graph->lines[i].line.source == line.source && graph->lines[i].line.line == line.line)
            return;
    }
    if (s->n_lines == s->line_capacity)
        return;
    graph->lines[s->n_lines] = (ct_graph_line){line, graph->first_line[node->id]};
    graph->first_line[node->id] = s->n_lines++;
}

/* The node next in storage is complete: it, or the equal one there already is. */
static ct_node *intern(simplifier *s) {
    ct_node *node = &s->graph->storage[s->used];
    node->id = (uint64_t)s->used;
    if (mergeable(node->op)) {
        int slot = (int)(node_hash(node) % (uint64_t)s->table_size);
        for (; s->table[slot] >= 0; slot = (slot + 1) % s->table_size) {
            ct_node *other = &s->graph->storage[s->table[slot]];
            bool same = other->op == node->op && other->dtype == node->dtype &&
                        other->n_sources == node->n_sources &&
                        ct_shape_equal(&other->shape, &node->shape);
            for (int i = 0; same && i < node->n_sources; i++)
                same = other->sources[i] == node->sources[i];
            if (same && same_attr(node->op, &other->attr, &node->attr)) {
                note_line(s, other, node->line);
                return other;
            }
        }
        s->table[slot] = s->used;
    }
    s->used++;
    return node;
}

static ct_node *blank(simplifier *s, ct_op op, ct_dtype dtype, const ct_shape *shape,
                      ct_line line) {
    ct_node *node = &s->graph->storage[s->used];
    memset(node, 0, sizeof *node);
    node->runtime = s->runtime;
    node->op = op;
    node->dtype = dtype;
    node->refs = 1;
    node->sources = node->inline_sources;
    node->shape = *shape;
    node->line = line;
    return node;
}

static ct_node *constant(simplifier *s, ct_dtype dtype, const ct_shape *shape, ct_scalar value,
                         ct_line line) {
    ct_node *node = blank(s, CT_CONST, dtype, shape, line);
    node->attr.value = value;
    node->attr.dtype = dtype;
    ct_scalar_store(value, dtype, &node->element);
    return intern(s);
}

static ct_node *copy_of(simplifier *s, ct_node *source, ct_line line) {
    ct_node *node = blank(s, CT_COPY, source->dtype, &source->shape, line);
    node->n_sources = 1;
    node->sources[0] = source;
    return intern(s);
}

/* A copy that never merges. */
static ct_node *blank_copy(simplifier *s, ct_node *source) {
    ct_node *node = blank(s, CT_COPY, source->dtype, &source->shape, source->line);
    node->n_sources = 1;
    node->sources[0] = source;
    node->id = (uint64_t)s->used++;
    return node;
}

static ct_node *view_of(simplifier *s, ct_node *source, const ct_view *view, ct_line line) {
    if (source->op == CT_CONST) {
        return constant(s, source->dtype, &view->shape, source->attr.value, line);
    }
    ct_view merged = *view;
    if (source->op == CT_VIEW) {
        if (ct_view_compose(view, &source->attr.view, &merged)) {
            source = source->sources[0];
        } else {
            merged = *view;
            source = copy_of(s, source, line);
        }
    }
    if (ct_shape_equal(&merged.shape, &source->shape) && ct_view_is_whole(&merged))
        return source;
    ct_node *node = blank(s, CT_VIEW, source->dtype, &merged.shape, line);
    node->n_sources = 1;
    node->sources[0] = source;
    node->attr.view = merged;
    return intern(s);
}

/* ---- rules ---- */

static bool is_const(const ct_node *node, double value) {
    return node->op == CT_CONST && node->attr.value.f == value;
}

/* Whether every value of `from` has one of its own in `to`, so that passing through `to` changes
 * nothing. */
static bool keeps_values(ct_dtype from, ct_dtype to) {
    if (from == to || from == CT_BOOL)
        return true;
    switch (from) {
    case CT_FLOAT16:
    case CT_BFLOAT16: return to == CT_FLOAT32 || to == CT_FLOAT64;
    case CT_FLOAT32: return to == CT_FLOAT64;
    case CT_UINT8: return to == CT_INT16 || to == CT_INT32 || to == CT_INT64;
    case CT_INT8:
    case CT_INT16:
        return ct_dtype_is_int(to) && to != CT_UINT8 && ct_dtype_size(to) > ct_dtype_size(from);
    case CT_INT32: return to == CT_INT64;
    default: return false;
    }
}

/* An element-wise node whose sources are all constants: the executor gives its one element. */
static ct_node *fold(simplifier *s, const ct_node *like, ct_node **sources) {
    int n = like->n_sources;
    if (n < 1 || n > 3 || s->runtime->executor == NULL)
        return NULL;
    _Alignas(CT_ALIGN) unsigned char memory[4][CT_ALIGN] = {{0}};
    ct_array arrays[3], out = {.dtype = like->dtype, .data = memory[3]};
    ct_node probe = *like, probe_sources[3];
    memset(&probe.shape, 0, sizeof probe.shape);
    probe.sources = probe.inline_sources;
    for (int i = 0; i < n; i++) {
        if (sources[i]->op != CT_CONST)
            return NULL;
        ct_scalar_store(sources[i]->attr.value, sources[i]->dtype, memory[i]);
        arrays[i] = (ct_array){.dtype = sources[i]->dtype, .data = memory[i]};
        probe_sources[i] = *sources[i];
        memset(&probe_sources[i].shape, 0, sizeof probe.shape);
        probe.sources[i] = &probe_sources[i];
    }
    if (s->runtime->executor->run(s->runtime, &probe, &out, arrays, 0, NULL) != CT_OK)
        return NULL;
    return constant(s, like->dtype, &like->shape, ct_scalar_load(like->dtype, memory[3]),
                    like->line);
}

/* An older node with the same value, or NULL. */
static ct_node *rewrite(simplifier *s, const ct_node *node, ct_node **x) {
    bool elementwise = false;
    switch (ct_op_table[node->op].class) {
    case CT_CLASS_UNARY:
    case CT_CLASS_BINARY:
    case CT_CLASS_COMPARE:
    case CT_CLASS_SELECT: elementwise = true; break;
    default: break;
    }
    switch (node->op) {
    case CT_CUSTOM: return x[0];
    case CT_VIEW: return view_of(s, x[0], &node->attr.view, node->line);
    case CT_COPY: return x[0]->op == CT_VIEW ? NULL : x[0];
    case CT_CAST:
        if (x[0]->dtype == node->dtype)
            return x[0];
        if (x[0]->op == CT_CAST && x[0]->sources[0]->dtype == node->dtype &&
            keeps_values(node->dtype, x[0]->dtype)) {
            return x[0]->sources[0];
        }
        break;
    case CT_NEG:
        if (x[0]->op == CT_NEG)
            return x[0]->sources[0];
        break;
    case CT_MUL:
        if (node->dtype == CT_BOOL)
            break;
        if (is_const(x[1], 1))
            return x[0];
        if (is_const(x[0], 1))
            return x[1];
        break;
    case CT_DIV:
    case CT_POW:
        if (is_const(x[1], 1))
            return x[0];
        break;
    case CT_ADD:
        if (ct_dtype_is_float(node->dtype) || node->dtype == CT_BOOL)
            break;
        if (is_const(x[1], 0))
            return x[0];
        if (is_const(x[0], 0))
            return x[1];
        break;
    case CT_SUB: // x - 0 is x also for -0; x - -0 is not
        if (is_const(x[1], 0) && (x[1]->attr.value.is_int || 1 / x[1]->attr.value.f > 0))
            return x[0];
        break;
    case CT_WHERE:
        if (x[1] == x[2])
            return x[1];
        if (x[0]->op == CT_CONST)
            return is_const(x[0], 0) ? x[2] : x[1];
        break;
    case CT_UPDATE:
        if (ct_shape_equal(&node->attr.view.shape, &node->shape) &&
            ct_view_is_whole(&node->attr.view) && x[1]->dtype == node->dtype) {
            return x[1];
        }
        break;
    default: break;
    }
    return elementwise ? fold(s, node, x) : NULL;
}

static ct_node *rebuild(simplifier *s, const ct_node *node, ct_node **sources) {
    ct_node *known = rewrite(s, node, sources);
    if (known != NULL) {
        note_line(s, known, node->line);
        return known;
    }
    ct_node *made = blank(s, node->op, node->dtype, &node->shape, node->line);
    made->attr = node->attr;
    made->attr.custom = NULL;
    if (node->op == CT_CONST)
        ct_scalar_store(node->attr.value, node->dtype, &made->element);
    made->n_sources = node->n_sources;
    for (int i = 0; i < node->n_sources; i++) {
        ct_node *source = sources[i];
        made->sources[i] = source;
    }
    // addition and multiplication of equal operands in another order are the same node
    if ((node->op == CT_ADD || node->op == CT_MUL) && made->sources[0]->id > made->sources[1]->id &&
        !ct_dtype_is_float(node->dtype)) {
        ct_node *first = made->sources[0];
        made->sources[0] = made->sources[1];
        made->sources[1] = first;
    }
    return intern(s);
}

/* What leaves the step is a node of its own: computed, no view, and nothing else that leaves. */
static ct_node *root(simplifier *s, ct_node *node) {
    bool computed = ct_op_table[node->op].class != CT_CLASS_SOURCE && node->op != CT_VIEW;
    if (!computed || node->mark)
        node = blank_copy(s, node);
    node->mark = 1;
    return node;
}

/* ---- dead code ---- */

static void need(ct_node *node, ct_node **stack, int *depth) {
    if (node == NULL || node->mark)
        return;
    node->mark = 1;
    stack[(*depth)++] = node;
}

static void compact(ct_graph *graph, int used, ct_node **stack) {
    int depth = 0;
    for (int i = 0; i < used; i++)
        graph->storage[i].mark = 0;
    for (int i = 0; i < graph->n_outputs; i++)
        need(graph->outputs[i], stack, &depth);
    for (int i = 0; i < graph->n_states; i++)
        need(graph->states[i].exit, stack, &depth);
    while (depth > 0) {
        ct_node *node = stack[--depth];
        for (int i = 0; i < node->n_sources; i++)
            need(node->sources[i], stack, &depth);
    }
    for (int i = 0; i < used; i++) {
        ct_node *node = &graph->storage[i];
        if (!node->mark)
            continue;
        int first = graph->first_line[node->id];
        node->id = (uint64_t)graph->n_nodes;
        graph->first_line[node->id] = first;
        graph->nodes[graph->n_nodes++] = node;
    }
    for (int i = 0; i < graph->n_inputs; i++) {
        if (graph->inputs[i] != NULL && !graph->inputs[i]->mark)
            graph->inputs[i] = NULL;
    }
    for (int i = 0; i < graph->n_states; i++) {
        ct_graph_state *state = &graph->states[i];
        if (state->exit == state->entry)
            state->exit = NULL;
        if (state->entry != NULL && !state->entry->mark)
            state->entry = NULL;
    }
    for (int i = 0; i < graph->n_nodes; i++)
        graph->nodes[i]->mark = 0;
}

typedef struct place {
    const ct_node *node;
    int index;
} place;

static int by_address(const void *a, const void *b) {
    uintptr_t x = (uintptr_t)((const place *)a)->node, y = (uintptr_t)((const place *)b)->node;
    return x < y ? -1 : x > y;
}

/* The new node of a recorded one. (The recorded nodes' `mark`
 * is left to who walks them meanwhile.) */
static ct_node *find(ct_node **map, const place *places, int n, const ct_node *node) {
    place key = {node, 0};
    if (node == NULL || n == 0)
        return NULL;
    const place *found = bsearch(&key, places, (size_t)n, sizeof *places, by_address);
    return found != NULL ? map[found->index] : NULL;
}

/* A product's bits may depend on how its operands lie in memory: where a rewrite has made a view or
 * a constant of what was computed, a copy lies as the recorded operand did. */
static ct_node *product_source(simplifier *s, const ct_node *recorded, ct_node *source,
                               ct_node *base) {
    const ct_node *computed = recorded->op == CT_VIEW ? recorded->sources[0] : recorded;
    if (base == NULL || computed->op == CT_CONST || (base->op != CT_VIEW && base->op != CT_CONST))
        return source;
    ct_node *copy = copy_of(s, base, recorded->line);
    return recorded->op == CT_VIEW ? view_of(s, copy, &recorded->attr.view, recorded->line) : copy;
}

ct_graph *ct_simplify(const ct_trace *trace, ct_error *error) {
    int n = trace->n_order, capacity = 4 * n + trace->n_outputs + trace->n_states + 1;
    simplifier s = {.runtime = trace->runtime,
                    .capacity = capacity,
                    .line_capacity = n,
                    .table_size = 4 * n + 7};
    ct_graph *graph = s.graph = ct_calloc(1, sizeof *graph);
    ct_node **map = ct_calloc((size_t)n + 1, sizeof *map),
            **stack = ct_calloc((size_t)capacity, sizeof *stack);
    s.table = ct_malloc((size_t)s.table_size * sizeof *s.table);
    place *places = ct_malloc(((size_t)n + 1) * sizeof *places);
    bool ok = graph != NULL && map != NULL && stack != NULL && s.table != NULL && places != NULL;
    if (ok) {
        graph->storage = ct_calloc((size_t)capacity, sizeof *graph->storage);
        graph->nodes = ct_calloc((size_t)capacity, sizeof *graph->nodes);
        graph->lines = ct_calloc((size_t)n + 1, sizeof *graph->lines);
        graph->first_line = ct_malloc((size_t)capacity * sizeof *graph->first_line);
        graph->inputs = ct_calloc((size_t)trace->n_inputs + 1, sizeof *graph->inputs);
        graph->outputs = ct_calloc((size_t)trace->n_outputs + 1, sizeof *graph->outputs);
        graph->states = ct_calloc((size_t)trace->n_states + 1, sizeof *graph->states);
        ok = graph->storage && graph->nodes && graph->lines && graph->first_line && graph->inputs &&
             graph->outputs && graph->states;
    }
    if (ok) {
        graph->recorded = n;
        graph->n_inputs = trace->n_inputs;
        graph->n_outputs = trace->n_outputs;
        graph->n_states = trace->n_states;
        for (int i = 0; i < s.table_size; i++)
            s.table[i] = -1;
        for (int i = 0; i < capacity; i++)
            graph->first_line[i] = -1;
        for (int i = 0; i < n; i++)
            places[i] = (place){trace->order[i], i};
        qsort(places, (size_t)n, sizeof *places, by_address);
        for (int i = 0; i < n && ok; i++) {
            const ct_node *node = trace->order[i];
            ct_node *sources[3] = {NULL};
            int count = node->op == CT_CUSTOM ? 1 : node->n_sources;
            for (int k = 0; k < count && k < 3; k++) {
                sources[k] = find(map, places, n, node->sources[k]);
                ok = ok && sources[k] != NULL;
            }
            for (int k = 0; k < count && ok && node->op == CT_MATMUL; k++) {
                const ct_node *recorded = node->sources[k];
                const ct_node *computed = recorded->op == CT_VIEW ? recorded->sources[0] : recorded;
                sources[k] =
                    product_source(&s, recorded, sources[k], find(map, places, n, computed));
            }
            if (ok)
                map[i] = rebuild(&s, node, sources);
        }
        if (!ok)
            ct_fail(error, CT_ERR_ARGUMENT, "simplify: the order of a trace is not complete");
    } else {
        ct_fail(error, CT_ERR_MEMORY, "simplify: memory is out for %d nodes", n);
    }
    if (ok) {
        for (int i = 0; i < trace->n_inputs; i++)
            graph->inputs[i] = find(map, places, n, trace->inputs[i]);
        for (int i = 0; i < trace->n_outputs; i++)
            graph->outputs[i] = find(map, places, n, trace->outputs[i]);
        for (int i = 0; i < trace->n_states; i++) {
            graph->states[i].entry = find(map, places, n, trace->states[i].entry);
            graph->states[i].exit = find(map, places, n, trace->states[i].exit);
        }
        for (int i = 0; i < graph->n_outputs; i++)
            graph->outputs[i] = root(&s, graph->outputs[i]);
        for (int i = 0; i < graph->n_states; i++) {
            ct_graph_state *state = &graph->states[i];
            if (state->exit != NULL && state->exit != state->entry)
                state->exit = root(&s, state->exit);
        }
        compact(graph, s.used, stack);
    }
    free(map);
    free(places);
    free(stack);
    free(s.table);
    if (!ok) {
        ct_graph_free(graph);
        return NULL;
    }
    return graph;
}

void ct_graph_free(ct_graph *graph) {
    if (graph == NULL)
        return;
    free(graph->storage);
    free(graph->nodes);
    free(graph->lines);
    free(graph->first_line);
    free(graph->inputs);
    free(graph->outputs);
    free(graph->states);
    free(graph);
}
