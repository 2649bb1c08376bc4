/* elementwise.h: reading any array as a line of elements. Internal to the eager loops. */
#ifndef CT_EAGER_ELEMENTWISE_H
#define CT_EAGER_ELEMENTWISE_H

#include "eager/loops.h"

#define CT_CHUNK 1024 /* elements a loop takes at once where they must be collected first */

/* An array whose elements, in C order, are asked for as another type. */
typedef struct ct_reader {
    ct_array array; /* coalesced */
    ct_dtype as;
    int size; /* log2 of the bytes of an element of the array */
    const ct_loops *loops;
} ct_reader;

ct_reader ct_reader_of(const ct_loops *loops, const ct_array *array, ct_dtype as);
/* Whether the elements lie in C order as the type they are asked for. */
bool ct_reader_is_direct(const ct_reader *reader);
/* Elements begin to begin + n. The result is where they lie already, or `scratch`; `raw` is used on
 * the way where the type changes. Both hold n elements of 8 bytes. */
const void *ct_reader_get(const ct_reader *reader, int64_t begin, int64_t n, void *scratch,
                          void *raw);

#endif
