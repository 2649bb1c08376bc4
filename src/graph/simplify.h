/* simplify.h: the graph of a finished trace as backends compile it: rebuilt from the recorded
 * nodes, which stay as they are, with constants folded, equal pure nodes merged and what nothing
 * needs left out. Every rewrite gives the very bits of the recorded graph. */
#ifndef CT_GRAPH_SIMPLIFY_H
#define CT_GRAPH_SIMPLIFY_H

#include "graph/trace.h"

typedef struct ct_graph_state {
    ct_node *entry; /* NULL: the entry version is not read */
    ct_node *exit;  /* NULL: not written */
} ct_graph_state;

typedef struct ct_graph {
    ct_node **nodes; /* sources first; nodes[i]->id == i */
    int n_nodes;
    ct_node **inputs; /* NULL entries: not read */
    int n_inputs;
    ct_graph_state *states;
    int n_states;
    ct_node **outputs;
    int n_outputs;
    int recorded;                /* nodes before simplification */
    ct_node *storage;            /* the graph's own nodes; their refs are not counted */
    struct ct_graph_line *lines; /* script lines of nodes that were merged: a list per node */
    int *first_line;             /* by id; -1: only the node's own */
} ct_graph;

typedef struct ct_graph_line {
    ct_line line;
    int next; /* index in lines, -1 at the end */
} ct_graph_line;

/* NULL on failure. The trace must outlive the graph. */
ct_graph *ct_simplify(const ct_trace *trace, ct_error *error);
void ct_graph_free(ct_graph *graph);

/* `outer` sees the C-order elements of an array of shape inner->shape, which `inner` sees in
 * memory: whether one view of that memory shows the same, and which. */
bool ct_view_compose(const ct_view *outer, const ct_view *inner, ct_view *result);

#endif
