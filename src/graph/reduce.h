/* reduce.h: the order in which a reduction combines its elements: a function of their number alone. Where they lie,
 * how many threads work and how wide the vectors are changes no bit. Eager loops include this file, compiled steps
 * carry its text behind that of element.h.
 *
 * The n elements, numbered in C order over the reduced dimensions, form blocks of CT_BLOCK. In a block, lane l
 * of CT_LANES combines elements l, l + 64, l + 128 ... one after the other. Then lanes l and l + 32 are combined, l and
 * l + 16, and so on to lane 0; a lane without elements takes no part. Block results are combined as they come
 * like carries of a binary counter: two neighbours that cover 2^k blocks each make one of 2^(k+1); at the end what
 * remains is combined from the last to the first, the earlier one always on the left. */
#ifndef CT_GRAPH_REDUCE_H
#define CT_GRAPH_REDUCE_H

#define CT_LANES 64
#define CT_BLOCK 4096
#define CT_LEVELS 52 /* of the counter: more blocks than memory holds */
#define CT_STRIP 64  /* columns that are reduced side by side */

#define CT_SUM_START (-0.0) /* x + y with this x is y, a negative zero too */

/* Defines for one operation NAME on ct_S, with EXPRESSION in x and y and START such that (START, y) gives y:
 *
 *   ct_NAME_S_block(data, n)                        n <= CT_BLOCK elements side by side
 *   ct_NAME_S_rows(lanes, data, stride, rows, width, first)
 *       the same for `width` <= CT_STRIP columns: the next `rows` <= CT_LANES elements of every column, `stride`
 *       apart; all calls but the last of a block give CT_LANES rows; `first` starts the block
 *   ct_NAME_S_fold(lanes, rows, width, result)      ends a block of `rows` rows
 *   ct_NAME_S_combine(left, right, width)           left[i] = (left[i], right[i])
 */
#define CT_REDUCTION(NAME, S, START, EXPRESSION)                                                          \
    CT_INLINE ct_##S##v ct_##NAME##_##S##v(ct_##S##v x, ct_##S##v y) {                                    \
        typedef ct_##S##v ct_t __attribute__((unused));                                                   \
        typedef ct_##S ct_e __attribute__((unused));                                                      \
        return EXPRESSION;                                                                                \
    }                                                                                                     \
    CT_INLINE ct_##S ct_##NAME##_##S(ct_##S x, ct_##S y) {                                                \
        typedef ct_##S ct_t __attribute__((unused));                                                      \
        typedef ct_##S ct_e __attribute__((unused));                                                      \
        return (ct_##S)(EXPRESSION);                                                                      \
    }                                                                                                     \
    CT_INLINE ct_##S ct_##NAME##_##S##_lanes(const ct_##S##v *lanes) {                                    \
        enum { VECTORS = CT_LANES * sizeof(ct_##S) / CT_VECTOR, WIDTH = CT_LANES / VECTORS };             \
        ct_##S##v v[VECTORS + 1]; /* of bytes there is one */                                             \
        __builtin_memcpy(v, lanes, VECTORS * sizeof *v);                                                             \
        for (int half = VECTORS / 2; half > 0; half /= 2)                                                 \
            for (int i = 0; i < half; i++)                                                                \
                v[i] = ct_##NAME##_##S##v(v[i], v[i + half]);                                             \
        for (int half = WIDTH / 2; half > 0; half /= 2) { /* what is beyond `half` is of no use any more */ \
            v[1] = v[0];                                                                                  \
            __builtin_memcpy(&v[1], (const ct_##S *)&v[0] + half, (unsigned long)half * sizeof(ct_##S));  \
            v[0] = ct_##NAME##_##S##v(v[0], v[1]);                                                        \
        }                                                                                                 \
        return v[0][0];                                                                                   \
    }                                                                                                     \
    CT_INLINE ct_##S ct_##NAME##_##S##_block(const ct_##S *data, long n) {                                \
        enum { VECTORS = CT_LANES * sizeof(ct_##S) / CT_VECTOR, WIDTH = CT_LANES / VECTORS };             \
        ct_##S##v v[VECTORS], y;                                                                          \
        for (int i = 0; i < VECTORS; i++)                                                                 \
            v[i] = -(ct_##S##v){0} + (ct_##S)(START);                                        \
        for (; n >= CT_LANES; n -= CT_LANES, data += CT_LANES)                                            \
            for (int i = 0; i < VECTORS; i++) {                                                           \
                __builtin_memcpy(&y, data + i * WIDTH, sizeof y);                                         \
                v[i] = ct_##NAME##_##S##v(v[i], y);                                                       \
            }                                                                                             \
        for (int i = 0; n > 0; i++, n -= WIDTH, data += WIDTH) {                                          \
            ct_##S part[WIDTH];                                                                           \
            for (int l = 0; l < WIDTH; l++)                                                               \
                part[l] = (ct_##S)(START);                                                                \
            __builtin_memcpy(part, data, (n < WIDTH ? (unsigned long)n : WIDTH) * sizeof *part);          \
            __builtin_memcpy(&y, part, sizeof y);                                                         \
            v[i] = ct_##NAME##_##S##v(v[i], y);                                                           \
        }                                                                                                 \
        return ct_##NAME##_##S##_lanes(v);                                                                \
    }                                                                                                     \
    CT_INLINE void ct_##NAME##_##S##_combine(ct_##S *left, const ct_##S *right, long width) {             \
        enum { WIDTH = CT_VECTOR / sizeof(ct_##S) };                                                      \
        for (; width >= WIDTH; width -= WIDTH, left += WIDTH, right += WIDTH) {                           \
            ct_##S##v x, y;                                                                               \
            __builtin_memcpy(&x, left, sizeof x);                                                         \
            __builtin_memcpy(&y, right, sizeof y);                                                        \
            x = ct_##NAME##_##S##v(x, y);                                                                 \
            __builtin_memcpy(left, &x, sizeof x);                                                         \
        }                                                                                                 \
        for (; width > 0; width--, left++, right++)                                                       \
            *left = ct_##NAME##_##S(*left, *right);                                                       \
    }                                                                                                     \
    CT_INLINE void ct_##NAME##_##S##_rows(ct_##S lanes[CT_LANES][CT_STRIP], const ct_##S *data,           \
                                          long stride, long rows, long width, int first) {                \
        for (long l = 0; l < rows; l++, data += stride)                                                   \
            if (first)                                                                                    \
                __builtin_memcpy(lanes[l], data, (unsigned long)width * sizeof *data);                    \
            else                                                                                          \
                ct_##NAME##_##S##_combine(lanes[l], data, width);                                         \
    }                                                                                                     \
    CT_INLINE void ct_##NAME##_##S##_fold(ct_##S lanes[CT_LANES][CT_STRIP], long rows, long width,        \
                                          ct_##S *result) {                                               \
        for (long half = CT_LANES / 2; half > 0; half /= 2)                                               \
            for (long l = 0; l < half && l + half < rows; l++)                                            \
                ct_##NAME##_##S##_combine(lanes[l], lanes[l + half], width);                              \
        __builtin_memcpy(result, lanes[0], (unsigned long)width * sizeof *result);                        \
    }

#endif
