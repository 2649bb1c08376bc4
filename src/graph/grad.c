/* grad.c: the walk backwards. Nodes are visited by falling id, so that a node's gradient is
 * complete when its turn comes; each is held from the start, and what it kept is released behind
 * the walk. */
#include "graph/grad.h"

#include <stdlib.h>
#include <string.h>

#include "base/error.h"
#include "graph/rules.h"

typedef struct visit {
    ct_node *node;     /* retained */
    ct_node *gradient; /* retained; NULL: none arrived */
    bool wanted;       /* one of the inputs asked for: its gradient is kept */
} visit;

typedef struct walk {
    ct_runtime *runtime;
    ct_error *error;
    visit *visits; /* sorted by rising id; a node's mark is its place + 1 while the walk lasts */
    int n, capacity;
} walk;

static ct_status add_visit(walk *w, ct_node *node) {
    if (w->n == w->capacity) {
        int capacity = w->capacity ? w->capacity * 2 : 64;
        visit *visits = ct_realloc(w->visits, (size_t)capacity * sizeof *visits);
        if (!visits)
            return ct_fail(w->error, CT_ERR_MEMORY, "backward: out of memory");
        w->visits = visits;
        w->capacity = capacity;
    }
    node->mark = ++w->n;
    w->visits[w->n - 1] = (visit){.node = ct_node_retain(node)};
    return CT_OK;
}

static int by_id(const void *a, const void *b) {
    uint64_t x = ((const visit *)a)->node->id, y = ((const visit *)b)->node->id;
    return x < y ? -1 : x > y;
}

static ct_status refuse_spent(walk *w, const ct_node *node) {
    return ct_fail(w->error, CT_ERR_STATE,
                   "backward: what '%s' at %s:%d kept was freed by an earlier backward; pass "
                   "retain_graph = true to the "
                   "earlier one, or compute the value again",
                   ct_op_table[node->op].name, node->line.source ? node->line.source : "?",
                   node->line.line);
}

/* All that a gradient may flow through from the roots already added. */
static ct_status collect(walk *w) {
    for (int i = 0; i < w->n; i++) {
        ct_node *node = w->visits[i].node;
        if (node->leaf)
            continue;
        if (node->spent)
            return refuse_spent(w, node);
        for (int s = 0; s < node->n_sources; s++)
            if (node->sources[s]->requires_grad && !node->sources[s]->mark &&
                add_visit(w, node->sources[s]) != CT_OK)
                return CT_ERR_MEMORY;
    }
    if (w->n > 0)
        qsort(w->visits, (size_t)w->n, sizeof *w->visits, by_id);
    for (int i = 0; i < w->n; i++)
        w->visits[i].node->mark = i + 1;
    return CT_OK;
}

static ct_status arrive(ct_builder *b, visit *at, ct_node *gradient) {
    if (gradient && at->gradient)
        gradient = ct_add(b, at->gradient, gradient);
    if (!gradient)
        return b->error->status;
    ct_node *old = at->gradient;
    at->gradient = ct_node_retain(gradient);
    ct_node_release(old);
    return CT_OK;
}

static ct_status custom_backward(walk *w, ct_builder *b, ct_node *node, ct_node *gradient) {
    int n = node->n_sources - 1;
    ct_node **gradients = ct_calloc((size_t)n, sizeof *gradients);
    if (!gradients)
        return ct_fail(b->error, CT_ERR_MEMORY, "backward: out of memory");
    ct_custom *custom = node->attr.custom;
    ct_status status = custom->backward(custom->context, gradient, gradients, n, b->error);
    for (int i = 0; i < n; i++) {
        ct_node *source = node->sources[i + 1], *given = ct_own(b, gradients[i]);
        if (status != CT_OK || !given || !source->requires_grad)
            continue;
        char want[CT_SHAPE_TEXT], have[CT_SHAPE_TEXT];
        if (!ct_shape_equal(&given->shape, &source->shape))
            status = ct_fail(
                b->error, CT_ERR_SHAPE,
                "backward of a custom function: gradient %d has shape %s, its input %s", i + 1,
                ct_shape_text(&given->shape, have), ct_shape_text(&source->shape, want));
        else
            status = arrive(b, &w->visits[source->mark - 1], ct_cast(b, given, source->dtype));
    }
    free(gradients);
    return status;
}

static ct_status step(walk *w, visit *at, bool retain) {
    ct_node *node = at->node;
    ct_builder b;
    ct_builder_begin(&b, w->runtime, w->error);
    ct_status status = CT_OK;
    if (node->op == CT_CUSTOM)
        status = custom_backward(w, &b, node, at->gradient);
    for (int s = 0; s < node->n_sources && node->op != CT_CUSTOM && status == CT_OK; s++) {
        ct_node *source = node->sources[s];
        if (!source->requires_grad)
            continue;
        const ct_node *outer = w->runtime->differentiated;
        w->runtime->differentiated = node;
        status =
            arrive(&b, &w->visits[source->mark - 1], ct_gradient_rule(&b, node, at->gradient, s));
        w->runtime->differentiated = outer;
    }
    ct_builder_end(&b);
    if (status == CT_OK && !retain) {
        node->spent = true;
        if (!node->trace && node->op != CT_VIEW) {
            int n = node->n_sources;
            node->n_sources = 0;
            for (int s = 0; s < n; s++) {
                ct_node *source = node->sources[s];
                node->sources[s] = NULL;
                ct_node_release(source);
            }
        }
    }
    if (!at->wanted) {
        ct_node_release(at->gradient);
        at->gradient = NULL;
    }
    return status;
}

/* Adds a leaf's gradient to what its cell has. */
static ct_status gather(walk *w, visit *at) {
    ct_cell *cell = at->node->leaf;
    if (cell->refs == 0)
        return CT_OK; /* nobody can look at it any more */
    ct_tensor *present = ct_cell_grad(cell);
    ct_builder b;
    ct_builder_begin(&b, w->runtime, w->error);
    ct_status status;
    if (present) {
        ct_node *sum = ct_add(&b, ct_tensor_node(&b, present), at->gradient);
        status = ct_tensor_write(&b, present, sum);
    } else {
        ct_tensor *grad = ct_tensor_new(at->gradient, b.error);
        status = grad ? ct_cell_set_grad(cell, grad, b.error) : b.error->status;
        ct_tensor_free(grad);
    }
    ct_builder_end(&b);
    return status;
}

static ct_status seed_root(walk *w, ct_builder *b, ct_node *root, ct_tensor *seed) {
    ct_node *gradient;
    char want[CT_SHAPE_TEXT], have[CT_SHAPE_TEXT];
    if (!root->requires_grad)
        return ct_fail(b->error, CT_ERR_STATE,
                       "backward: nothing that requires grad led to this tensor (requires_grad_(), "
                       "or ct.no_grad was "
                       "around its computation)");
    if (seed) {
        gradient = ct_cast(b, ct_tensor_node(b, seed), root->dtype);
        if (gradient && !ct_shape_equal(&gradient->shape, &root->shape))
            return ct_fail(
                b->error, CT_ERR_SHAPE, "backward: the gradient given has shape %s, the tensor %s",
                ct_shape_text(&gradient->shape, have), ct_shape_text(&root->shape, want));
    } else {
        if (ct_shape_numel(&root->shape) != 1)
            return ct_fail(b->error, CT_ERR_SHAPE,
                           "backward: a tensor of shape %s is no scalar; reduce it (sum, mean), or "
                           "pass the gradient of "
                           "its elements",
                           ct_shape_text(&root->shape, want));
        gradient = ct_constant(b, root->dtype, &root->shape, ct_scalar_int(1));
    }
    return arrive(b, &w->visits[root->mark - 1], gradient);
}

/* The whole walk from n roots. Where `inputs` is given, their gradients stay in the visits; else
 * leaves gather. */
static ct_status run(walk *w, ct_builder *b, ct_node **roots, ct_tensor *const *seeds, int n_roots,
                     ct_node **inputs, int n_inputs, bool retain) {
    ct_status status = CT_OK;
    for (int i = 0; i < n_roots && status == CT_OK; i++)
        if (!roots[i]->mark && roots[i]->requires_grad)
            status = add_visit(w, roots[i]);
    if (status == CT_OK)
        status = collect(w);
    for (int i = 0; i < n_inputs && status == CT_OK; i++)
        if (inputs[i]->mark)
            w->visits[inputs[i]->mark - 1].wanted = true;
    for (int i = 0; i < n_roots && status == CT_OK; i++)
        status = seed_root(w, b, roots[i], seeds ? seeds[i] : NULL);
    for (int i = w->n - 1; i >= 0 && status == CT_OK; i--) {
        visit *at = &w->visits[i];
        if (!at->gradient)
            continue;
        if (!at->node->leaf)
            status = step(w, at, retain);
        else if (!inputs)
            status = gather(w, at);
        if (status == CT_OK)
            status = ct_check_interrupt(w->runtime, w->error);
    }
    return status;
}

static void finish(walk *w) {
    for (int i = 0; i < w->n; i++) {
        w->visits[i].node->mark = 0;
        ct_node_release(w->visits[i].gradient);
    }
    for (int i = w->n - 1; i >= 0; i--)
        ct_node_release(w->visits[i].node);
    free(w->visits);
}

ct_status ct_backward(ct_tensor *root, ct_tensor *seed, bool retain, bool create, ct_error *error) {
    ct_runtime *runtime = root->cell->runtime;
    ct_builder b;
    ct_builder_begin(&b, runtime, error);
    walk w = {.runtime = runtime, .error = b.error};
    int no_grad = runtime->no_grad;
    ct_node *node = ct_tensor_node(&b, root);
    runtime->no_grad = create ? 0 : 1;
    ct_status status =
        node ? run(&w, &b, &node, &seed, 1, NULL, 0, retain || create) : b.error->status;
    runtime->no_grad = no_grad;
    finish(&w);
    ct_builder_end(&b);
    return status;
}

/* An input's node as the graph knows it: of a view, gradients arrive at its base. */
static ct_node *input_node(ct_builder *b, ct_tensor *input) {
    ct_node *node = ct_tensor_node(b, input);
    return node && node->op == CT_VIEW && node->requires_grad ? node->sources[0] : node;
}

ct_status ct_gradients(ct_tensor *const *outputs, ct_tensor *const *seeds, int n_outputs,
                       ct_tensor *const *inputs, int n_inputs, bool retain, bool create,
                       ct_tensor **gradients, ct_error *error) {
    ct_runtime *runtime = outputs[0]->cell->runtime;
    ct_builder b;
    ct_builder_begin(&b, runtime, error);
    walk w = {.runtime = runtime, .error = b.error};
    int no_grad = runtime->no_grad;
    memset(gradients, 0, (size_t)n_inputs * sizeof *gradients);
    ct_node **nodes = ct_calloc((size_t)(n_outputs + n_inputs), sizeof *nodes);
    ct_status status = nodes ? CT_OK : ct_fail(b.error, CT_ERR_MEMORY, "grad: out of memory");
    for (int i = 0; i < n_outputs + n_inputs && status == CT_OK; i++) {
        nodes[i] =
            i < n_outputs ? ct_tensor_node(&b, outputs[i]) : input_node(&b, inputs[i - n_outputs]);
        if (!nodes[i])
            status = b.error->status;
        else if (i >= n_outputs && !nodes[i]->requires_grad)
            status = ct_fail(b.error, CT_ERR_STATE, "grad: input %d does not require grad",
                             i - n_outputs + 1);
    }
    runtime->no_grad = create ? 0 : 1;
    if (status == CT_OK)
        status =
            run(&w, &b, nodes, seeds, n_outputs, nodes + n_outputs, n_inputs, retain || create);
    for (int i = 0; i < n_inputs && status == CT_OK; i++) {
        ct_node *base = nodes[n_outputs + i];
        ct_node *gradient = base->mark ? w.visits[base->mark - 1].gradient : NULL;
        if (gradient && !inputs[i]->whole)
            gradient = ct_view_of(&b, gradient, &inputs[i]->view);
        else if (!gradient)
            continue;
        gradients[i] = ct_tensor_new(gradient, b.error);
        if (!gradients[i])
            status = b.error->status;
    }
    runtime->no_grad = no_grad;
    for (int i = 0; i < n_inputs && status != CT_OK; i++) {
        ct_tensor_free(gradients[i]);
        gradients[i] = NULL;
    }
    finish(&w);
    free(nodes);
    ct_builder_end(&b);
    return status;
}
