/* heap.h: where tensor memory comes from: the host's allocator, or aligned_alloc, behind a cache of
 * freed blocks, since a training loop asks for the same sizes again and again and fresh pages are
 * slow. Blocks are aligned to CT_ALIGN bytes and padded to a multiple of it, so that a vector may
 * read past the last element. Small bookkeeping goes through ct_malloc, which the tests can make
 * fail. */
#ifndef CT_BASE_HEAP_H
#define CT_BASE_HEAP_H

#include "ctrain.h"

#define CT_ALIGN 64

typedef struct ct_heap ct_heap;

ct_heap *ct_heap_new(void *(*allocate)(void *, void *, size_t), void *context);
/* The heap lives on until its last block is returned. */
void ct_heap_release(ct_heap *heap);

/* NULL when memory is out (after the cache was emptied and tried again). bytes may be 0. */
void *ct_heap_take(ct_heap *heap, int64_t bytes);
void ct_heap_give(ct_heap *heap, void *block, int64_t bytes);
int64_t ct_heap_live(const ct_heap *heap);
int64_t ct_heap_peak(const ct_heap *heap);
void ct_heap_reset_peak(ct_heap *heap);

/* malloc, realloc, calloc and strdup that fault injection
 * reaches. Memory is returned with free(). */
void *ct_malloc(size_t bytes);
void *ct_calloc(size_t count, size_t bytes);
void *ct_realloc(void *pointer, size_t bytes);
char *ct_strdup(const char *text);
#ifdef CT_FAULTS
/* From now on every n-th allocation fails; 0: none does. */
void ct_fail_every(long n);
#endif

/* A counted block of memory. Its holders are nodes, and hosts that hold its address. */
typedef struct ct_buffer {
    int refs;
    bool pinned; /* its address is known outside: writes must land here, not in a new buffer */
    int64_t bytes;
    void *data;
    ct_heap *heap; /* NULL: borrowed memory */
    void (*release)(void *context);
    void *context;
} ct_buffer;

ct_buffer *ct_buffer_new(ct_heap *heap, int64_t bytes);
ct_buffer *ct_buffer_wrap(void *data, int64_t bytes, void (*release)(void *), void *context);
ct_buffer *ct_buffer_retain(ct_buffer *buffer);
void ct_buffer_release(ct_buffer *buffer);

#endif
