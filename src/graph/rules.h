/* rules.h: the gradient of each primitive, for grad.c. */
#ifndef CT_GRAPH_RULES_H
#define CT_GRAPH_RULES_H

#include "graph/build.h"

/* d(root)/d(source `source` of node), given d(root)/d(node); of the source's shape and dtype, owned
 * by the builder. Not for CUSTOM, whose gradients come all at once. */
ct_node *ct_gradient_rule(ct_builder *b, ct_node *node, ct_node *gradient, int source);

#endif
