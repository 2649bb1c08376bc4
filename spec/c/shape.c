/* Shapes and views, also past 2^31 elements, where no memory need exist. */
#include "base/shape.h"

#include <stdio.h>

static int failures;

static void check(bool good, const char *name) {
    failures += !good;
    printf("%s shape: %s\n", good ? "ok" : "not ok", name);
}

static ct_shape shape_of(int ndim, const int64_t *dims) {
    ct_shape shape;
    ct_shape_set(&shape, ndim, dims, NULL);
    return shape;
}

/* The offset of the last element of a view. */
static int64_t last_offset(const ct_view *view) {
    int64_t offset = view->offset;
    for (int d = 0; d < view->shape.ndim; d++)
        offset += (view->shape.dim[d] - 1) * view->stride[d];
    return offset;
}

static void large(void) {
    const int64_t dims[] = {INT64_C(70000), INT64_C(70000), 3};
    ct_shape shape = shape_of(3, dims);
    ct_view view = ct_view_whole(&shape);
    check(ct_shape_numel(&shape) == INT64_C(14700000000), "counts past 2^31 elements");
    check(last_offset(&view) == INT64_C(14699999999), "reaches past 2^31");
    ct_view slice = ct_view_slice(&view, 0, 69999, 1, 1);
    check(slice.offset == INT64_C(69999) * 210000, "slices at an offset past 2^31");
    const int order[] = {2, 1, 0};
    ct_view turned = ct_view_permute(&view, order);
    check(last_offset(&turned) == last_offset(&view) && !ct_view_is_contiguous(&turned),
          "permutes without moving the last element");
    ct_error error;
    const int64_t huge[] = {INT64_C(1) << 40, INT64_C(1) << 40};
    ct_shape none;
    check(ct_shape_set(&none, 2, huge, &error) == CT_ERR_MEMORY, "refuses a product beyond int64");
    const int64_t empty[] = {INT64_C(1) << 40, INT64_C(1) << 40, 0};
    check(ct_shape_set(&none, 3, empty, &error) == CT_OK && ct_shape_numel(&none) == 0,
          "takes an empty shape with huge extents");
}

static void reshaping(void) {
    ct_view result;
    const int64_t two[] = {4, 6}, flat[] = {24}, four[] = {2, 2, 3, 2}, ragged[] = {3, 8};
    ct_shape shape = shape_of(2, two), one = shape_of(1, flat), split = shape_of(4, four),
             other = shape_of(2, ragged);
    ct_view view = ct_view_whole(&shape);
    check(ct_view_reshape(&view, &one, &result) && result.stride[0] == 1, "flattens C order");
    const int order[] = {1, 0};
    ct_view turned = ct_view_permute(&view, order);
    check(!ct_view_reshape(&turned, &one, &result), "can't flatten a transpose without a copy");
    ct_view slice = ct_view_slice(&view, 1, 0, 6, 1);
    check(ct_view_reshape(&slice, &split, &result) && result.stride[0] == 12 &&
              result.stride[1] == 6 && result.stride[2] == 2,
          "splits dimensions");
    ct_view narrow = ct_view_slice(&view, 1, 1, 4, 1);
    const int64_t halves[] = {2, 2, 2, 2};
    ct_shape half = shape_of(4, halves);
    check(ct_view_reshape(&narrow, &half, &result) && result.stride[0] == 12 &&
              result.stride[1] == 6 && result.stride[2] == 2 && result.stride[3] == 1 &&
              result.offset == 1,
          "splits the dimensions of a narrowed view");
    check(ct_view_reshape(&view, &other, &result), "regroups C order");
}

static void overlap(void) {
    const int64_t dims[] = {3, 4};
    ct_shape shape = shape_of(2, dims);
    ct_view view = ct_view_whole(&shape);
    check(!ct_view_overlaps_itself(&view), "a whole view does not overlap itself");
    check(ct_view_is_bijection(&view, 12), "a whole view reaches everything once");
    ct_view flipped = ct_view_slice(&view, 1, 3, 4, -1);
    check(ct_view_is_bijection(&flipped, 12), "a flipped view reaches everything once");
    ct_view windows = view;
    windows.stride[0] = 1;
    check(ct_view_overlaps_itself(&windows), "overlapping windows are found");
    const int64_t wide[] = {5, 3, 4};
    ct_shape expanded = shape_of(3, wide);
    ct_view result;
    check(ct_view_expand(&view, &expanded, &result, NULL) == CT_OK &&
              ct_view_overlaps_itself(&result),
          "an expanded view overlaps itself");
    ct_view part = ct_view_slice(&view, 0, 0, 2, 1);
    check(!ct_view_is_bijection(&part, 12), "a part is not everything");
}

static void broadcasting(void) {
    const int64_t a[] = {2, 1, 3}, b[] = {4, 1}, c[] = {2, 4, 3}, d[] = {2};
    ct_shape x = shape_of(3, a), y = shape_of(2, b), z = shape_of(3, c), w = shape_of(1, d), result;
    ct_error error;
    check(ct_shape_broadcast(&x, &y, &result, &error) == CT_OK && ct_shape_equal(&result, &z),
          "broadcasts from the right");
    check(ct_shape_broadcast(&x, &w, &result, &error) == CT_ERR_SHAPE, "refuses 3 against 2");
}

int main(void) {
    large();
    reshaping();
    overlap();
    broadcasting();
    return failures != 0;
}
