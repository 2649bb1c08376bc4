/* loops.h: the loops over elements side by side in memory, built once for each instruction set from
 * the expressions of ops.def. A half type has no loops of its own but conversions: it is read as
 * float32. Bool is a byte, 0 or 1. */
#ifndef CT_EAGER_LOOPS_H
#define CT_EAGER_LOOPS_H

#include "graph/node.h"

/* n elements; in[i] are the sources. Comparisons write bool, SELECT's first source is bool. */
typedef void ct_loop(void *out, const void *const *in, int64_t n);
typedef void ct_conversion(void *out, const void *in, int64_t n);

/* One reduction on one dtype; reduce.h says what the steps are. */
typedef struct ct_reduction {
    /* `count` rows of n <= CT_BLOCK elements, `stride` elements apart: one result each */
    void (*block)(const void *data, int64_t stride, int64_t n, int64_t count, void *results);
    void (*rows)(void *lanes, const void *data, int64_t stride, int64_t rows, int64_t width,
                 bool first);
    void (*fold)(void *lanes, int64_t rows, int64_t width, void *result);
    void (*combine)(void *left, const void *right, int64_t width);
} ct_reduction;

enum { CT_REDUCE_SUM, CT_REDUCE_PROD, CT_REDUCE_MAX, CT_REDUCE_MIN, CT_REDUCTIONS };

typedef struct ct_loops {
    ct_loop
        *op[CT_OPS][CT_DTYPES]; /* by the dtype that is computed with; NULL: no such operation */
    ct_conversion *convert[CT_DTYPES][CT_DTYPES]; /* [from][to] */
    /* by log2 of the element's bytes: to or from a line of elements `stride` apart */
    void (*gather[4])(void *out, const void *in, int64_t stride, int64_t n);
    void (*scatter[4])(void *out, const void *in, int64_t stride, int64_t n);
    /* out[r * out_stride + c] = in[r + c * in_stride] */
    void (*transpose[4])(void *out, int64_t out_stride, const void *in, int64_t in_stride,
                         int64_t rows, int64_t columns);
    ct_reduction reduction[CT_REDUCTIONS][CT_DTYPES];
    /* The first largest (smallest) of n <= CT_BLOCK elements, a NaN above all; when it is above
     * *best, or `first`, *best and *index (its place + base) are set. [0] largest, [1] smallest. */
    void (*argument[2][CT_DTYPES])(const void *data, int64_t n, int64_t base, bool first,
                                   void *best, int64_t *index);
    /* out[i] = carry + in[0] + ... + in[i], in order; *carry goes on; `first`: there is no carry
     * yet */
    void (*scan[CT_DTYPES])(void *out, const void *in, int64_t n, bool first, void *carry);
    ct_loop *bool_not; /* of bools; other operations on them are those of bytes */
    bool (*has_zero[CT_DTYPES])(const void *in, int64_t n); /* integers */
} ct_loops;

/* The loops of the best instruction set this CPU has; CTRAIN_ISA=v2, v3 or v4 asks for a lesser
 * one. */
const ct_loops *ct_loops_get(void);

/* The type that elements are read as to compute with them. */
static inline ct_dtype ct_computed(ct_dtype dtype) {
    return dtype == CT_FLOAT16 || dtype == CT_BFLOAT16 ? CT_FLOAT32 : dtype;
}

#endif
