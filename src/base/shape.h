/* shape.h: extents, and views: how a tensor's elements lie in a buffer.
 * Element (i0, i1, ...) of a view is at offset + sum(i[d] * stride[d]), counted in elements.
 * Strides may be 0 (expanded) or negative (flipped). All counts are int64_t and checked against
 * overflow when made. */
#ifndef CT_BASE_SHAPE_H
#define CT_BASE_SHAPE_H

#include "ctrain.h"

typedef struct ct_shape {
    int ndim;
    int64_t dim[CT_MAX_DIMS];
} ct_shape;

typedef struct ct_view {
    ct_shape shape;
    int64_t stride[CT_MAX_DIMS];
    int64_t offset;
} ct_view;

/* A strided array in memory: what kernels read and write. `data` is the address of element 0. */
typedef struct ct_array {
    ct_dtype dtype;
    ct_shape shape;
    int64_t stride[CT_MAX_DIMS];
    void *data;
} ct_array;

/* Fails on negative extents, more than CT_MAX_DIMS, or a number of bytes beyond int64_t. */
ct_status ct_shape_set(ct_shape *shape, int ndim, const int64_t *dims, ct_error *error);
int64_t ct_shape_numel(const ct_shape *shape);
bool ct_shape_equal(const ct_shape *a, const ct_shape *b);
/* "2x3", "scalar" for 0-d; returns text. */
#define CT_SHAPE_TEXT 176
const char *ct_shape_text(const ct_shape *shape, char text[CT_SHAPE_TEXT]);
/* NumPy broadcasting. */
ct_status ct_shape_broadcast(const ct_shape *a, const ct_shape *b, ct_shape *result,
                             ct_error *error);

/* The view of a whole buffer in C order. */
ct_view ct_view_whole(const ct_shape *shape);
bool ct_view_is_contiguous(
    const ct_view *view);                   /* C order; strides of size-1 dimensions do not count */
bool ct_view_is_whole(const ct_view *view); /* contiguous and offset 0 */
/* Whether two indexes may reach one element (expanded or self-overlapping): such a view can't be
 * written. Exact for views made by slicing, permuting and expanding; errs on the side of true
 * elsewhere. */
bool ct_view_overlaps_itself(const ct_view *view);
/* Whether every element of a whole buffer of `numel` elements is reached exactly once. */
bool ct_view_is_bijection(const ct_view *view, int64_t numel);

ct_status ct_view_expand(const ct_view *view, const ct_shape *shape, ct_view *result,
                         ct_error *error);
ct_view ct_view_permute(const ct_view *view, const int *order);
/* One dimension narrowed to `count` elements from `start`,
 * every `step` (not 0) apart. No checks. */
ct_view ct_view_slice(const ct_view *view, int axis, int64_t start, int64_t count, int64_t step);
ct_view ct_view_drop(const ct_view *view, int axis);   /* removes a dimension (at its index 0) */
ct_view ct_view_insert(const ct_view *view, int axis); /* adds a dimension of extent 1 */
ct_view ct_view_diagonal(const ct_view *view, int64_t shift, int a, int b); /* new last dimension */
/* The same elements under another shape without a copy; false where strides do not allow it. */
bool ct_view_reshape(const ct_view *view, const ct_shape *shape, ct_view *result);

/* Merges adjacent dimensions that all n arrays walk alike,
 * drops size-1 dimensions; numel is kept. */
void ct_arrays_coalesce(ct_array *arrays, int n);

#endif
