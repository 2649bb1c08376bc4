/* move.c: movement: views of views are merged into one view over a node that is not a VIEW; where
 * strides cannot say it, the elements are copied first. */
#include <string.h>

#include "base/error.h"
#include "graph/build.h"

/* What x shows of which node's elements. */
static ct_node *base_of(ct_node *x, ct_view *view) {
    if (x->op == CT_VIEW) {
        *view = x->attr.view;
        return x->sources[0];
    }
    *view = ct_view_whole(&x->shape);
    return x;
}

/* A node that shows `view` of the elements under x; x itself where that is what it shows. */
static ct_node *show(ct_builder *b, ct_node *x, const ct_view *view) {
    ct_view present;
    ct_node *base = base_of(x, &present);
    if (ct_shape_equal(&x->shape, &view->shape) && present.offset == view->offset &&
        memcmp(present.stride, view->stride, (size_t)view->shape.ndim * sizeof *view->stride) == 0)
        return x;
    ct_attr attr = {.view = *view};
    ct_node *node =
        ct_own(b, ct_record(b->runtime, CT_VIEW, &base, 1, &attr, &view->shape, b->error));
    if (node)
        node->requires_grad &= x->requires_grad; /* a detached view stays detached */
    return node;
}

ct_node *ct_contiguous(ct_builder *b, ct_node *x) {
    if (!x || x->op != CT_VIEW)
        return x;
    if (ct_view_is_whole(&x->attr.view) && x->requires_grad == x->sources[0]->requires_grad &&
        ct_shape_equal(&x->shape, &x->sources[0]->shape))
        return x->sources[0];
    return ct_own(b, ct_record(b->runtime, CT_COPY, &x, 1, NULL, &x->shape, b->error));
}

ct_node *ct_view_of(ct_builder *b, ct_node *x, const ct_view *over_x) {
    if (!x)
        return NULL;
    if (x->op == CT_VIEW && ct_view_is_whole(&x->attr.view))
        return show(b, x, over_x); /* x's elements in C order are the base's */
    x = ct_contiguous(b, x);
    return x ? show(b, x, over_x) : NULL;
}

ct_node *ct_reshape(ct_builder *b, ct_node *x, const ct_shape *shape) {
    if (!x || ct_shape_equal(&x->shape, shape))
        return x;
    ct_view present, view;
    base_of(x, &present);
    if (ct_shape_numel(shape) != ct_shape_numel(&x->shape)) {
        char from[CT_SHAPE_TEXT], to[CT_SHAPE_TEXT];
        ct_fail(b->error, CT_ERR_SHAPE, "reshape: %s has %lld elements, %s would have %lld",
                ct_shape_text(&x->shape, from), (long long)ct_shape_numel(&x->shape),
                ct_shape_text(shape, to), (long long)ct_shape_numel(shape));
        return NULL;
    }
    if (!ct_view_reshape(&present, shape, &view)) {
        x = ct_contiguous(b, x);
        view = ct_view_whole(shape);
    }
    return x ? show(b, x, &view) : NULL;
}

ct_node *ct_expand(ct_builder *b, ct_node *x, const ct_shape *shape) {
    if (!x)
        return NULL;
    ct_view present, view;
    base_of(x, &present);
    if (ct_view_expand(&present, shape, &view, b->error) != CT_OK)
        return NULL;
    return show(b, x, &view);
}

ct_node *ct_permute(ct_builder *b, ct_node *x, const int *order) {
    if (!x)
        return NULL;
    ct_view present;
    base_of(x, &present);
    ct_view view = ct_view_permute(&present, order);
    return show(b, x, &view);
}

ct_node *ct_transpose(ct_builder *b, ct_node *x, int a, int c) {
    int order[CT_MAX_DIMS];
    for (int d = 0; d < CT_MAX_DIMS; d++)
        order[d] = d == a ? c : d == c ? a : d;
    return ct_permute(b, x, order);
}

ct_node *ct_slice(ct_builder *b, ct_node *x, int axis, int64_t start, int64_t count, int64_t step) {
    if (!x)
        return NULL;
    ct_view present;
    base_of(x, &present);
    ct_view view = ct_view_slice(&present, axis, start, count, step);
    return show(b, x, &view);
}

static ct_node *update(ct_builder *b, ct_node *base, const ct_view *view, ct_node *value,
                       bool in_place) {
    value = ct_cast(b, value, base->dtype);
    if (value && !ct_shape_equal(&value->shape, &view->shape))
        value = ct_expand(b, value, &view->shape);
    if (!value)
        return NULL;
    ct_attr attr = {.view = *view, .in_place = in_place};
    ct_node *sources[2] = {base, value};
    return ct_own(b, ct_record(b->runtime, CT_UPDATE, sources, 2, &attr, &base->shape, b->error));
}

ct_node *ct_update(ct_builder *b, ct_node *base, const ct_view *view, ct_node *value) {
    base = ct_contiguous(b, base);
    return base && value ? update(b, base, view, value, false) : NULL;
}

ct_node *ct_update_in_place(ct_builder *b, ct_node *base, const ct_view *view, ct_node *value) {
    return update(b, base, view, value, true);
}

ct_node *ct_detach(ct_builder *b, ct_node *x) {
    if (!x || !x->requires_grad)
        return x;
    ct_view present;
    ct_node *base = base_of(x, &present);
    ct_attr attr = {.view = present};
    ct_node *node =
        ct_own(b, ct_record(b->runtime, CT_VIEW, &base, 1, &attr, &present.shape, b->error));
    if (node)
        node->requires_grad = false;
    return node;
}
