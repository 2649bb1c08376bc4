/* shape.c: see shape.h. */
#include "base/shape.h"

#include <stdio.h>
#include <string.h>

#include "base/error.h"

ct_status ct_shape_set(ct_shape *shape, int ndim, const int64_t *dims, ct_error *error) {
    if (ndim < 0 || ndim > CT_MAX_DIMS)
        return ct_fail(error, CT_ERR_SHAPE, "%d dimensions: a tensor has at most %d", ndim,
                       CT_MAX_DIMS);
    int64_t numel = 1;
    bool empty = false;
    for (int d = 0; d < ndim; d++) {
        if (dims[d] < 0)
            return ct_fail(error, CT_ERR_SHAPE,
                           "dimension %d has extent %lld: an extent is 0 or more", d + 1,
                           (long long)dims[d]);
        empty |= dims[d] == 0;
    }
    /* the largest element is 8 bytes; 16 leaves room for offsets */
    for (int d = 0; d < ndim && !empty; d++)
        if (__builtin_mul_overflow(numel, dims[d], &numel) || numel > INT64_MAX / 16)
            return ct_fail(error, CT_ERR_MEMORY,
                           "the extents multiply to more elements than memory can number");
    ct_shape result = {.ndim = ndim}; /* dims may be shape's own */
    for (int d = 0; d < ndim; d++)
        result.dim[d] = dims[d];
    *shape = result;
    return CT_OK;
}

int64_t ct_shape_numel(const ct_shape *shape) {
    int64_t numel = 1;
    for (int d = 0; d < shape->ndim; d++)
        numel *= shape->dim[d];
    return numel;
}

bool ct_shape_equal(const ct_shape *a, const ct_shape *b) {
    return a->ndim == b->ndim && memcmp(a->dim, b->dim, (size_t)a->ndim * sizeof *a->dim) == 0;
}

const char *ct_shape_text(const ct_shape *shape, char text[CT_SHAPE_TEXT]) {
    if (shape->ndim == 0)
        return strcpy(text, "scalar");
    int used = 0;
    for (int d = 0; d < shape->ndim; d++)
        used += snprintf(text + used, CT_SHAPE_TEXT - (size_t)used, d ? "x%lld" : "%lld",
                         (long long)shape->dim[d]);
    return text;
}

ct_status ct_shape_broadcast(const ct_shape *a, const ct_shape *b, ct_shape *result,
                             ct_error *error) {
    int ndim = a->ndim > b->ndim ? a->ndim : b->ndim;
    int64_t dims[CT_MAX_DIMS];
    for (int d = 0; d < ndim; d++) {
        int da = d - (ndim - a->ndim), db = d - (ndim - b->ndim);
        int64_t x = da < 0 ? 1 : a->dim[da], y = db < 0 ? 1 : b->dim[db];
        if (x != y && x != 1 && y != 1) {
            char ta[CT_SHAPE_TEXT], tb[CT_SHAPE_TEXT];
            return ct_fail(error, CT_ERR_SHAPE,
                           "shapes %s and %s do not broadcast: dimension %d has %lld against %lld "
                           "(equal, or one "
                           "of them 1, was expected)",
                           ct_shape_text(a, ta), ct_shape_text(b, tb), d + 1, (long long)x,
                           (long long)y);
        }
        dims[d] = x == 1 ? y : x;
    }
    return ct_shape_set(result, ndim, dims, error);
}

ct_view ct_view_whole(const ct_shape *shape) {
    ct_view view = {.shape = *shape};
    int64_t stride = 1;
    for (int d = shape->ndim - 1; d >= 0; d--) {
        view.stride[d] = stride;
        stride *= shape->dim[d] > 0 ? shape->dim[d] : 1;
    }
    return view;
}

bool ct_view_is_contiguous(const ct_view *view) {
    if (ct_shape_numel(&view->shape) == 0)
        return true;
    int64_t stride = 1;
    for (int d = view->shape.ndim - 1; d >= 0; d--) {
        if (view->shape.dim[d] == 1)
            continue;
        if (view->stride[d] != stride)
            return false;
        stride *= view->shape.dim[d];
    }
    return true;
}

bool ct_view_is_whole(const ct_view *view) {
    return view->offset == 0 && ct_view_is_contiguous(view);
}

/* The dimensions of extent above 1, by rising |stride|. */
static int by_stride(const ct_view *view, int order[CT_MAX_DIMS]) {
    int n = 0;
    for (int d = 0; d < view->shape.ndim; d++) {
        if (view->shape.dim[d] <= 1)
            continue;
        int64_t stride = view->stride[d] < 0 ? -view->stride[d] : view->stride[d];
        int at = n++;
        for (; at > 0; at--) {
            int64_t before = view->stride[order[at - 1]];
            if ((before < 0 ? -before : before) <= stride)
                break;
            order[at] = order[at - 1];
        }
        order[at] = d;
    }
    return n;
}

bool ct_view_overlaps_itself(const ct_view *view) {
    if (ct_shape_numel(&view->shape) == 0)
        return false;
    int order[CT_MAX_DIMS], n = by_stride(view, order);
    int64_t reach = 0; /* distance that the smaller strides cover */
    for (int i = 0; i < n; i++) {
        int64_t stride = view->stride[order[i]];
        stride = stride < 0 ? -stride : stride;
        if (stride <= reach)
            return true;
        reach += stride * (view->shape.dim[order[i]] - 1);
    }
    return false;
}

bool ct_view_is_bijection(const ct_view *view, int64_t numel) {
    if (ct_shape_numel(&view->shape) != numel)
        return false;
    if (numel == 0)
        return true;
    int order[CT_MAX_DIMS], n = by_stride(view, order);
    int64_t expected = 1, lowest = view->offset;
    for (int i = 0; i < n; i++) {
        int64_t stride = view->stride[order[i]], extent = view->shape.dim[order[i]];
        if (stride < 0) {
            lowest += stride * (extent - 1);
            stride = -stride;
        }
        if (stride != expected)
            return false;
        expected *= extent;
    }
    return lowest == 0;
}

ct_status ct_view_expand(const ct_view *view, const ct_shape *shape, ct_view *result,
                         ct_error *error) {
    int lead = shape->ndim - view->shape.ndim;
    ct_view wide = {.shape = *shape, .offset = view->offset};
    bool fits = lead >= 0;
    for (int d = 0; fits && d < view->shape.ndim; d++) {
        int64_t have = view->shape.dim[d], want = shape->dim[d + lead];
        wide.stride[d + lead] = have == want ? view->stride[d] : 0;
        fits = have == want || have == 1;
    }
    if (!fits) {
        char from[CT_SHAPE_TEXT], to[CT_SHAPE_TEXT];
        return ct_fail(error, CT_ERR_SHAPE,
                       "a tensor of shape %s does not expand to %s: only extents of 1 can grow, "
                       "and new dimensions "
                       "come in front",
                       ct_shape_text(&view->shape, from), ct_shape_text(shape, to));
    }
    *result = wide;
    return CT_OK;
}

ct_view ct_view_permute(const ct_view *view, const int *order) {
    ct_view result = *view;
    for (int d = 0; d < view->shape.ndim; d++) {
        result.shape.dim[d] = view->shape.dim[order[d]];
        result.stride[d] = view->stride[order[d]];
    }
    return result;
}

ct_view ct_view_slice(const ct_view *view, int axis, int64_t start, int64_t count, int64_t step) {
    ct_view result = *view;
    result.offset += count > 0 ? start * view->stride[axis] : 0;
    result.shape.dim[axis] = count;
    result.stride[axis] = view->stride[axis] * step;
    return result;
}

ct_view ct_view_drop(const ct_view *view, int axis) {
    ct_view result = *view;
    result.shape.ndim--;
    for (int d = axis; d < result.shape.ndim; d++) {
        result.shape.dim[d] = view->shape.dim[d + 1];
        result.stride[d] = view->stride[d + 1];
    }
    return result;
}

ct_view ct_view_insert(const ct_view *view, int axis) {
    ct_view result = *view;
    result.shape.ndim++;
    for (int d = result.shape.ndim - 1; d > axis; d--) {
        result.shape.dim[d] = view->shape.dim[d - 1];
        result.stride[d] = view->stride[d - 1];
    }
    result.shape.dim[axis] = 1;
    result.stride[axis] =
        axis + 1 < result.shape.ndim ? result.stride[axis + 1] * result.shape.dim[axis + 1] : 1;
    return result;
}

ct_view ct_view_diagonal(const ct_view *view, int64_t shift, int a, int b) {
    int64_t rows = view->shape.dim[a], columns = view->shape.dim[b];
    int64_t first_row = shift < 0 ? -shift : 0, first_column = shift > 0 ? shift : 0;
    int64_t count =
        rows - first_row < columns - first_column ? rows - first_row : columns - first_column;
    if (count < 0)
        count = 0;
    int64_t stride = view->stride[a] + view->stride[b];
    int64_t offset = view->offset;
    if (count > 0)
        offset += first_row * view->stride[a] + first_column * view->stride[b];
    ct_view result = ct_view_drop(view, a > b ? a : b);
    result = ct_view_drop(&result, a > b ? b : a);
    result.shape.dim[result.shape.ndim] = count;
    result.stride[result.shape.ndim++] = stride;
    result.offset = offset;
    return result;
}

bool ct_view_reshape(const ct_view *view, const ct_shape *shape, ct_view *result) {
    if (ct_view_is_contiguous(view)) {
        *result = ct_view_whole(shape);
        result->offset = view->offset;
        return true;
    }
    /* Runs of old dimensions that lie like one are matched with runs of new ones of the same
     * product. */
    ct_view made = {.shape = *shape, .offset = view->offset};
    int64_t extents[CT_MAX_DIMS], strides[CT_MAX_DIMS];
    int n = 0;
    for (int d = 0; d < view->shape.ndim; d++) {
        if (view->shape.dim[d] == 1)
            continue;
        extents[n] = view->shape.dim[d];
        strides[n++] = view->stride[d];
    }
    int old = 0, new = 0;
    while (old < n) {
        int old_end = old + 1, new_end = new;
        int64_t old_product = extents[old], new_product = 1;
        while (new_product != old_product || new_end == new) {
            if (new_product < old_product) {
                if (new_end >= shape->ndim)
                    return false;
                new_product *= shape->dim[new_end++];
            } else if (new_product > old_product) {
                if (old_end >= n)
                    return false;
                old_product *= extents[old_end++];
            }
        }
        for (int d = old; d + 1 < old_end; d++)
            if (strides[d] != strides[d + 1] * extents[d + 1])
                return false;
        int64_t stride = strides[old_end - 1];
        for (int d = new_end - 1; d >= new; d--) {
            made.stride[d] = stride;
            stride *= shape->dim[d];
        }
        old = old_end;
        new = new_end;
    }
    for (; new < shape->ndim; new ++) /* what is left has extent 1 */
        made.stride[new] = 1;
    *result = made;
    return true;
}

void ct_arrays_coalesce(ct_array *arrays, int n) {
    int ndim = arrays[0].shape.ndim, kept = 0;
    for (int d = 0; d < ndim; d++) {
        int64_t extent = arrays[0].shape.dim[d];
        if (extent == 1)
            continue;
        bool merges = kept > 0;
        for (int a = 0; merges && a < n; a++)
            merges = arrays[a].stride[kept - 1] == arrays[a].stride[d] * extent;
        int at = merges ? kept - 1 : kept;
        for (int a = 0; a < n; a++) {
            arrays[a].stride[at] = arrays[a].stride[d];
            arrays[a].shape.dim[at] = merges ? arrays[a].shape.dim[at] * extent : extent;
        }
        kept = at + 1;
    }
    for (int a = 0; a < n; a++)
        arrays[a].shape.ndim = kept;
}
