/* rules.c: the gradient of each primitive: given a node and the gradient of its value, that of one
 * source.
 *
 * Where a derivative is infinite (sqrt at 0, a division by 0) and the incoming gradient is exactly
 * 0, the product must be 0 and not NaN, or `where(x > 0, sqrt(x), 0)` would poison x: guarded()
 * does that. Two values that share a maximum share its gradient. */
#include "graph/rules.h"

#include <math.h>
#include <stdlib.h>

#include "base/error.h"

/* gradient * factor, but 0 where the gradient is 0 and the factor is not finite. Only the factor is
 * masked, so that the product stays differentiable in the gradient. */
static ct_node *guarded(ct_builder *b, ct_node *gradient, ct_node *factor) {
    if (!gradient || !factor)
        return NULL;
    ct_node *zero = ct_number_like(b, factor, 0);
    ct_node *wild = ct_binary(b, CT_NE, ct_sub(b, factor, factor), zero);
    ct_node *idle = ct_binary(b, CT_EQ, gradient, zero);
    ct_node *tame = ct_where(b, ct_binary(b, CT_BITAND, wild, idle), zero, factor);
    return ct_mul(b, gradient, tame);
}

/* x op (a number of x's type) */
static ct_node *with(ct_builder *b, ct_op op, ct_node *x, double number) {
    return ct_binary(b, op, x, ct_number_like(b, x, number));
}

/* (a number of x's type) op x */
static ct_node *from(ct_builder *b, double number, ct_op op, ct_node *x) {
    return ct_binary(b, op, ct_number_like(b, x, number), x);
}

/* condition as 1 and 0 of x's type */
static ct_node *ones_where(ct_builder *b, ct_node *condition, ct_node *x) {
    return ct_where(b, condition, ct_number_like(b, x, 1), ct_number_like(b, x, 0));
}

static ct_node *unary_rule(ct_builder *b, ct_node *y, ct_node *g) {
    ct_node *x = y->sources[0];
    switch (y->op) {
    case CT_CAST: return ct_cast(b, g, x->dtype);
    case CT_NEG: return ct_neg(b, g);
    case CT_ABS: return ct_mul(b, g, ct_unary(b, CT_SIGN, x));
    case CT_SQRT: return guarded(b, g, from(b, 0.5, CT_DIV, y));
    case CT_RSQRT: return guarded(b, g, ct_mul(b, with(b, CT_MUL, y, -0.5), ct_mul(b, y, y)));
    case CT_EXP: return guarded(b, g, y);
    case CT_LOG: return guarded(b, g, from(b, 1, CT_DIV, x));
    case CT_LOG1P: return guarded(b, g, from(b, 1, CT_DIV, with(b, CT_ADD, x, 1)));
    case CT_EXPM1: return guarded(b, g, with(b, CT_ADD, y, 1));
    case CT_SIN: return ct_mul(b, g, ct_unary(b, CT_COS, x));
    case CT_COS: return ct_mul(b, g, ct_neg(b, ct_unary(b, CT_SIN, x)));
    case CT_TANH: return ct_mul(b, g, from(b, 1, CT_SUB, ct_mul(b, y, y)));
    case CT_SIGMOID: return ct_mul(b, g, ct_mul(b, y, from(b, 1, CT_SUB, y)));
    case CT_ERF: /* 2 / sqrt(pi) * exp(-x^2) */
        return ct_mul(b, g,
                      with(b, CT_MUL, ct_unary(b, CT_EXP, ct_neg(b, ct_mul(b, x, x))), M_2_SQRTPI));
    default: return ct_zeros_like(b, x); /* sign, floor, ceil, round, trunc: flat */
    }
}

/* The share of a maximum (or minimum) of two that goes to `mine`: 1, 0, or half of a tie. */
static ct_node *share_of_extreme(ct_builder *b, bool smallest, ct_node *mine, ct_node *other) {
    ct_node *tie = with(b, CT_MUL, ones_where(b, ct_binary(b, CT_EQ, mine, other), mine), 0.5);
    ct_node *wins = smallest ? ct_binary(b, CT_LT, mine, other) : ct_binary(b, CT_LT, other, mine);
    ct_node *is_nan = ct_binary(b, CT_NE, mine, mine);
    return ct_where(b, ct_binary(b, CT_BITOR, wins, is_nan), ct_number_like(b, mine, 1), tie);
}

static ct_node *binary_rule(ct_builder *b, ct_node *z, ct_node *g, int i) {
    ct_node *x = z->sources[0], *y = z->sources[1];
    switch (z->op) {
    case CT_ADD: return g;
    case CT_SUB: return i == 0 ? g : ct_neg(b, g);
    case CT_MUL: return ct_mul(b, g, i == 0 ? y : x);
    case CT_DIV:
        return i == 0 ? guarded(b, g, from(b, 1, CT_DIV, y))
                      : guarded(b, g, ct_neg(b, ct_div(b, z, y)));
    case CT_MOD: return i == 0 ? g : ct_neg(b, ct_mul(b, g, ct_binary(b, CT_FLOORDIV, x, y)));
    case CT_POW: {
        ct_node *zero = ct_number_like(b, x, 0);
        if (i == 0) { /* y x^(y-1), and 0 where y is 0 whatever x */
            ct_node *slope = ct_mul(b, y, ct_binary(b, CT_POW, x, with(b, CT_SUB, y, 1)));
            return guarded(b, g, ct_where(b, ct_binary(b, CT_EQ, y, zero), zero, slope));
        } /* z log x, and 0 where x is 0 and z flat */
        ct_node *flat =
            ct_binary(b, CT_BITAND, ct_binary(b, CT_EQ, x, zero), ct_binary(b, CT_LE, zero, y));
        return guarded(b, g, ct_where(b, flat, zero, ct_mul(b, z, ct_unary(b, CT_LOG, x))));
    }
    case CT_MAXIMUM:
    case CT_MINIMUM:
        return ct_mul(b, g,
                      share_of_extreme(b, z->op == CT_MINIMUM, z->sources[i], z->sources[1 - i]));
    default: return ct_zeros_like(b, z->sources[i]); /* floor_divide */
    }
}

static ct_node *reduce_rule(ct_builder *b, ct_node *y, ct_node *g) {
    ct_node *x = y->sources[0];
    uint32_t axes = y->attr.axes;
    ct_node *wide = ct_expand(b, g, &x->shape);
    switch (y->op) {
    case CT_SUM: return wide;
    case CT_PROD: { /* the product of the others: by division where no factor is 0, else by the
                       non-zero ones */
        ct_node *zero = ct_number_like(b, x, 0), *is_zero = ct_binary(b, CT_EQ, x, zero);
        ct_node *zeros = ct_reduce(b, CT_SUM, ones_where(b, is_zero, x), axes, true);
        ct_node *others =
            ct_reduce(b, CT_PROD, ct_where(b, is_zero, ct_number_like(b, x, 1), x), axes, true);
        ct_node *only =
            ct_where(b, ct_binary(b, CT_BITAND, is_zero, with(b, CT_EQ, zeros, 1)), others, zero);
        ct_node *factor = ct_where(b, with(b, CT_EQ, zeros, 0), ct_div(b, y, x), only);
        return ct_mul(b, wide, factor);
    }
    default: { /* max, min: equal elements share */
        ct_node *hit = ct_binary(b, CT_BITOR, ct_binary(b, CT_EQ, x, y), ct_binary(b, CT_NE, x, x));
        ct_node *ones = ones_where(b, hit, x);
        return ct_mul(b, wide, ct_div(b, ones, ct_reduce(b, CT_SUM, ones, axes, true)));
    }
    }
}

static ct_node *flip(ct_builder *b, ct_node *x, int axis) {
    int64_t n = x ? x->shape.dim[axis] : 0;
    return n > 0 ? ct_slice(b, x, axis, n - 1, n, -1) : x;
}

/* The gradient of a view goes back where its elements came
 * from. Expanded dimensions add up first. */
static ct_node *view_rule(ct_builder *b, ct_node *y, ct_node *g) {
    ct_node *x = y->sources[0];
    ct_view view = y->attr.view;
    uint32_t expanded = 0;
    for (int d = 0; d < view.shape.ndim; d++)
        if (view.stride[d] == 0 && view.shape.dim[d] != 1) {
            expanded |= 1u << d;
            view.shape.dim[d] = 1;
        }
    if (expanded)
        g = ct_reduce(b, CT_SUM, g, expanded, true);
    if (!g)
        return NULL;
    if (!ct_view_is_bijection(&view, ct_shape_numel(&x->shape))) {
        if (ct_view_overlaps_itself(&view)) {
            ct_fail(b->error, CT_ERR_UNSUPPORTED, "backward through a view whose elements overlap");
            return NULL;
        }
        return ct_update(b, ct_zeros_like(b, x), &view, g);
    }
    /* Every element once: order the dimensions as they lie in x (outermost first), flipped ones
     * forward. */
    int order[CT_MAX_DIMS], n = view.shape.ndim;
    for (int d = 0; d < n; d++) {
        int at = d;
        for (; at > 0; at--) {
            int before = order[at - 1];
            if (llabs(view.stride[before]) > llabs(view.stride[d]) ||
                (llabs(view.stride[before]) == llabs(view.stride[d]) &&
                 view.shape.dim[before] != 1))
                break;
            order[at] = before;
        }
        order[at] = d;
    }
    for (int d = 0; d < n; d++)
        if (view.stride[d] < 0 && view.shape.dim[d] > 1)
            g = flip(b, g, d);
    return ct_reshape(b, ct_permute(b, g, order), &x->shape);
}

static ct_node *matmul_rule(ct_builder *b, ct_node *z, ct_node *g, int i) {
    int last = z->shape.ndim - 1;
    ct_node *other = ct_transpose(b, z->sources[1 - i], last - 1, last);
    return i == 0 ? ct_matmul(b, g, other) : ct_matmul(b, other, g);
}

ct_node *ct_gradient_rule(ct_builder *b, ct_node *node, ct_node *gradient, int source) {
    ct_node *x = node->sources[source];
    switch (ct_op_table[node->op].class) {
    case CT_CLASS_UNARY: return unary_rule(b, node, gradient);
    case CT_CLASS_BINARY: return binary_rule(b, node, gradient, source);
    case CT_CLASS_SELECT: {
        ct_node *zero = ct_number_like(b, gradient, 0);
        return source == 1 ? ct_where(b, node->sources[0], gradient, zero)
                           : ct_where(b, node->sources[0], zero, gradient);
    }
    case CT_CLASS_REDUCE: return reduce_rule(b, node, gradient);
    case CT_CLASS_SCAN:
        return flip(b, ct_cumsum(b, flip(b, gradient, node->attr.axis), node->attr.axis),
                    node->attr.axis);
    case CT_CLASS_CONTRACTION: return matmul_rule(b, node, gradient, source);
    default: break;
    }
    switch (node->op) {
    case CT_VIEW: return view_rule(b, node, gradient);
    case CT_COPY: return gradient;
    case CT_UPDATE:
        return source == 0
                   ? ct_update(b, gradient, &node->attr.view, ct_number_like(b, gradient, 0))
                   : ct_view_of(b, gradient, &node->attr.view);
    case CT_GATHER:
        return ct_scatter_add(b, ct_zeros_like(b, x), node->attr.axis, node->sources[1], gradient);
    case CT_SCATTER_ADD:
        return source == 0 ? gradient : ct_gather(b, gradient, node->attr.axis, node->sources[1]);
    default:
        ct_fail(b->error, CT_ERR_UNSUPPORTED, "backward: '%s' has no gradient",
                ct_op_table[node->op].name);
        return NULL;
    }
}
