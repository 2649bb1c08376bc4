/* trace.h: recording a step. Between begin and end operations only record. Cells from outside that
 * the step reads become state: the trace reads their version at entry and writes their last version
 * back at the end of every run. Results leave as new tensors. The recorded graph is what backends
 * compile. */
#ifndef CT_GRAPH_TRACE_H
#define CT_GRAPH_TRACE_H

#include "graph/tensor.h"

typedef struct ct_trace_state {
    ct_cell *cell;    /* retained */
    ct_node *entry;   /* the STATE node */
    ct_node *exit;    /* its last version; NULL: only read */
    ct_node *outside; /* while recording: the version to put back */
    ct_tensor *outside_grad;
    bool grad_read; /* the step saw the entry gradient before it set one */
    bool grad_was;  /* ... and there was one */
    bool grad_set;
    int grad_output;     /* the output that is the cell's gradient after a step, or one of: */
#define CT_GRAD_KEEP -1  /* a step leaves it as it was */
#define CT_GRAD_CLEAR -2 /* a step leaves none */
} ct_trace_state;

struct ct_trace {
    ct_runtime *runtime;
    uint64_t id;
    ct_node **inputs; /* INPUT nodes */
    int n_inputs;
    ct_trace_state *states;
    int n_states, states_capacity;
    ct_node **outputs; /* what the caller asked for, then gradients that stay after a step */
    int n_outputs;
    int n_results;   /* how many of them the caller asked for */
    ct_node **order; /* after end: the nodes that outputs and states need, sources first */
    int n_order;
    uint64_t draws; /* random draws a run takes */
    int depth;      /* of no_grad at begin */
    bool trained;   /* a state was written */
};

ct_trace *ct_trace_begin(ct_runtime *runtime, ct_error *error);
/* An argument of the step, as a tensor of the trace. */
ct_tensor *ct_trace_input(ct_trace *trace, ct_dtype dtype, const ct_shape *shape, ct_error *error);
/* Ends recording; `outputs` are tensors of the trace (others are copied). After an error the trace
 * is aborted and freed. What holds then: no output or exit is a VIEW, an INPUT or a STATE, and none
 * of these nodes occurs twice among outputs and exits. A gradient set in the step stays after it
 * where the step read the one before, or did not write the leaf; else the leaf has none after the
 * step. */
ct_status ct_trace_end(ct_trace *trace, ct_tensor *const *outputs, int n_outputs, ct_error *error);
/* Puts everything back as before begin, and frees the trace. */
void ct_trace_abort(ct_trace *trace);
void ct_trace_free(ct_trace *trace);

/* Where two recordings of one step first differ: 0 and a message in `error` that names the
 * operations and their lines, or 1 where they are the same graph. */
bool ct_trace_same(const ct_trace *a, const ct_trace *b, ct_error *error);
/* Called by tensor.c: the cell's state in the trace being recorded, made when it has none; *state
 * is NULL for a cell made in the trace. Valid until the next touch. */
ct_status ct_trace_touch(ct_trace *trace, ct_cell *cell, ct_trace_state **state, ct_error *error);
/* Whether the gradients that the step read at entry are there, or not, as when it was recorded. */
bool ct_trace_fits(const ct_trace *trace);

#endif
