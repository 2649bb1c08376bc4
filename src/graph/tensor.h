/* tensor.h: a tensor is (cell, view); a cell names its current version, which is a node. Writing
 * through any view of a cell makes the next version, and every view of the cell then sees it (SSA:
 * a node that read the earlier version keeps it). */
#ifndef CT_GRAPH_TENSOR_H
#define CT_GRAPH_TENSOR_H

#include "graph/build.h"

struct ct_cell {
    int refs; /* tensors and traces */
    int weak; /* nodes that name it as their leaf */
    ct_runtime *runtime;
    ct_node *version;   /* never a VIEW */
    ct_tensor *grad;    /* of a leaf; NULL: none yet. Read it through ct_cell_grad */
    bool requires_grad; /* a leaf: gradients gather in `grad` */
    int touched;        /* slot + 1 in the trace being recorded, 0 outside */
};

struct ct_tensor {
    int refs;
    ct_cell *cell;
    ct_dtype dtype;
    ct_view view;  /* over the cell's elements in C order */
    bool whole;    /* view is the identity */
    bool detached; /* reads give no gradient */
};

/* A new cell whose first version is the node (retained), seen whole. NULL node gives NULL, so that
 * results of a builder can be passed on. A VIEW node outside a trace becomes a view of a shared
 * cell only through ct_tensor_view; here it is copied to have elements of its own. */
ct_tensor *ct_tensor_new(ct_node *node, ct_error *error);
/* Another view of the same cell. */
ct_tensor *ct_tensor_view(ct_tensor *tensor, const ct_view *view, ct_error *error);
ct_tensor *ct_tensor_detach(ct_tensor *tensor, ct_error *error);

/* The node that holds the tensor's present value, owned by the builder. In a trace, a cell from
 * outside becomes state of the trace. */
ct_node *ct_tensor_node(ct_builder *b, ct_tensor *tensor);
/* The tensor's elements become value's (broadcast and cast to the tensor's own). Errors: an
 * expanded view, a leaf that requires grad outside no_grad. Gives up every node the builder owns,
 * so that nothing but the cell need hold the old version, and it can be written in place. */
ct_status ct_tensor_write(ct_builder *b, ct_tensor *tensor, ct_node *value);
/* Makes a leaf of it, or stops being one. A view, or a detached tensor, becomes a tensor of its
 * own: later writes to what it was made from do not show in it. Error on a computed tensor or one
 * that is not floating. */
ct_status ct_tensor_require_grad(ct_tensor *tensor, bool requires_grad, ct_error *error);
bool ct_tensor_requires_grad(const ct_tensor *tensor);
bool ct_tensor_is_leaf(const ct_tensor *tensor);

/* The elements as an array; never a copy. Error in a trace. */
ct_status ct_tensor_array(ct_tensor *tensor, ct_array *array, ct_error *error);

ct_cell *ct_cell_retain(ct_cell *cell);
void ct_cell_release(ct_cell *cell);
void ct_cell_release_weak(ct_cell *cell);
/* Makes `node` (not a VIEW, and no other cell's version) the cell's version. Where the old
 * version's address is known outside, the new elements move there, and readers of the old version
 * get a copy. A leaf's version is a leaf. */
ct_status ct_cell_install(ct_cell *cell, ct_node *node, ct_error *error);
/* A leaf's gradient, borrowed, or NULL. In a trace this makes its presence part of what the trace
 * assumes. */
ct_tensor *ct_cell_grad(ct_cell *cell);
/* The cell's gradient is replaced (retained; NULL clears it).
 * In a trace this is undone at its end. */
ct_status ct_cell_set_grad(ct_cell *cell, ct_tensor *grad, ct_error *error);

#endif
