/* build.h: saying operations on nodes: broadcasting, promotion, checks, and compositions of
 * primitives.
 *
 * A builder collects the nodes made through it and the first error. Functions take nodes and return
 * nodes that the builder owns until ct_builder_end; a NULL operand gives NULL, so that a chain of
 * calls is checked once, at its end. Keep a result with ct_node_retain.
 *
 *     ct_builder b;
 *     ct_builder_begin(&b, runtime, error);
 *     ct_node *y = ct_mul(&b, x, ct_sub(&b, ct_number_like(&b, x, 1), x));
 *     y = ct_builder_keep(&b, y);      // ends the builder; NULL after an error
 */
#ifndef CT_GRAPH_BUILD_H
#define CT_GRAPH_BUILD_H

#include "graph/node.h"

typedef struct ct_builder {
    ct_runtime *runtime;
    ct_error *error;
    ct_error own_error; /* used where the caller passed NULL */
    ct_node **nodes;
    int n_nodes, capacity;
    ct_node *inline_nodes[16];
} ct_builder;

void ct_builder_begin(ct_builder *b, ct_runtime *runtime, ct_error *error);
void ct_builder_end(ct_builder *b);
ct_node *ct_builder_keep(ct_builder *b, ct_node *result); /* retains result, ends b */
ct_node *ct_own(ct_builder *b, ct_node *node);            /* hands a reference to the builder */

/* values */
ct_node *ct_constant(ct_builder *b, ct_dtype dtype, const ct_shape *shape, ct_scalar value);
/* A number of the script: 0-d, weakly typed (int64, or float32, until it meets an operand). */
ct_node *ct_number(ct_builder *b, ct_scalar value);
/* A 0-d constant of x's own dtype. */
ct_node *ct_number_like(ct_builder *b, const ct_node *x, double value);
ct_node *ct_zeros_like(ct_builder *b, const ct_node *x);
ct_node *ct_iota(ct_builder *b, ct_dtype dtype, int64_t count, ct_scalar start, ct_scalar step);
ct_node *ct_random_node(ct_builder *b, ct_dtype dtype, const ct_shape *shape, ct_random kind,
                        int64_t low, int64_t high);
/* UNIFORM or NORMAL, times scale, plus shift: one node, so
 * that it stays deferred until it is read. */
ct_node *ct_random_scaled(ct_builder *b, ct_dtype dtype, const ct_shape *shape, ct_random kind,
                          double scale, double shift);

/* element-wise. Binary ops broadcast and promote; a 0-d operand promotes another only to a higher
 * kind (bool < int < float), as in PyTorch. FLOAT ops take integers as float32. */
ct_node *ct_cast(ct_builder *b, ct_node *x, ct_dtype dtype);
ct_node *ct_unary(ct_builder *b, ct_op op, ct_node *x);
ct_node *ct_binary(ct_builder *b, ct_op op, ct_node *x, ct_node *y);
ct_node *ct_where(ct_builder *b, ct_node *condition, ct_node *x, ct_node *y);
ct_node *ct_add(ct_builder *b, ct_node *x, ct_node *y);
ct_node *ct_sub(ct_builder *b, ct_node *x, ct_node *y);
ct_node *ct_mul(ct_builder *b, ct_node *x, ct_node *y);
ct_node *ct_div(ct_builder *b, ct_node *x, ct_node *y);
ct_node *ct_neg(ct_builder *b, ct_node *x);
/* The dtype in which x and y would meet. */
ct_dtype ct_result_type(const ct_node *x, const ct_node *y);

/* reductions over the dimensions whose bit is set in axes; keepdim false drops them. SUM and PROD
 * of bool and integers give int64. MAX, MIN, ARGMAX, ARGMIN over an extent of 0 fail. */
ct_node *ct_reduce(ct_builder *b, ct_op op, ct_node *x, uint32_t axes, bool keepdim);
ct_node *ct_cumsum(ct_builder *b, ct_node *x, int axis);

/* movement: views where strides allow, copies where not */
ct_node *ct_view_of(ct_builder *b, ct_node *x,
                    const ct_view *over_x); /* a view over x's elements in C order */
ct_node *ct_reshape(ct_builder *b, ct_node *x, const ct_shape *shape);
ct_node *ct_expand(ct_builder *b, ct_node *x, const ct_shape *shape);
ct_node *ct_permute(ct_builder *b, ct_node *x, const int *order);
ct_node *ct_transpose(ct_builder *b, ct_node *x, int a, int c);
ct_node *ct_slice(ct_builder *b, ct_node *x, int axis, int64_t start, int64_t count, int64_t step);
ct_node *ct_contiguous(ct_builder *b, ct_node *x); /* x itself where it already is */
ct_node *ct_update(ct_builder *b, ct_node *base, const ct_view *view,
                   ct_node *value); /* value is cast, expanded */
/* As ct_update, for a base that is not a VIEW: its buffer is reused where only the caller's cell
 * holds the base. */
ct_node *ct_update_in_place(ct_builder *b, ct_node *base, const ct_view *view, ct_node *value);
/* The same value, cut off from the gradient. */
ct_node *ct_detach(ct_builder *b, ct_node *x);

/* contraction: 1-d to n-d as torch.matmul */
ct_node *ct_matmul(ct_builder *b, ct_node *x, ct_node *y);

/* index: int32 or int64 data counting from 0, checked at run time; `index` has x's rank and, but
 * for `axis`, extents that x covers (equal to x's). */
ct_node *ct_gather(ct_builder *b, ct_node *x, int axis, ct_node *index);
ct_node *ct_scatter_add(ct_builder *b, ct_node *base, int axis, ct_node *index, ct_node *source);
ct_node *ct_argsort(ct_builder *b, ct_node *x, int axis, bool descending);
/* value with a gradient of its own; n inputs receive it. Takes over one reference to custom. */
ct_node *ct_custom_node(ct_builder *b, ct_node *value, ct_node *const *inputs, int n,
                        ct_custom *custom);

#endif
