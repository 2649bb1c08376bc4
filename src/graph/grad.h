/* grad.h: reverse-mode differentiation over primitives. Gradients are nodes made by the same
 * builders, so they run at once outside a trace, are recorded inside one, and can be differentiated
 * again. */
#ifndef CT_GRAPH_GRAD_H
#define CT_GRAPH_GRAD_H

#include "graph/tensor.h"

/* Adds d(root)/d(leaf) to the grad of every leaf. seed NULL: root has one element and the seed
 * is 1. Frees what the graph kept unless retain; a second run through it is then an error. create:
 * the gradients can be differentiated themselves. */
ct_status ct_backward(ct_tensor *root, ct_tensor *seed, bool retain, bool create, ct_error *error);
/* gradients[i] = sum over outputs of d(output)/d(inputs[i]), a new reference, or NULL where nothing
 * depends on it. seeds (may be NULL, as may its entries) as in ct_backward. Leaves' grads are left
 * alone. */
ct_status ct_gradients(ct_tensor *const *outputs, ct_tensor *const *seeds, int n_outputs,
                       ct_tensor *const *inputs, int n_inputs, bool retain, bool create,
                       ct_tensor **gradients, ct_error *error);

#endif
