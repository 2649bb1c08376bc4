/* sort.h: stable order of elements. */
#ifndef CT_EAGER_SORT_H
#define CT_EAGER_SORT_H

#include "graph/runtime.h"

/* out (int64, of x's shape): along the axis, the places in which x's elements are in order. Equal
 * elements keep theirs, descending too; NaN is larger than everything; -0 equals 0. */
ct_status ct_sort_indexes(ct_runtime *runtime, int axis, bool descending, const ct_array *out,
                          const ct_array *x, ct_error *error);

#endif
