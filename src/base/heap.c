/* heap.c: freed blocks wait in bins, one per size class (four classes to a power of two), and are
 * handed out again before the allocator is asked. The cache holds at most a quarter of the peak, so
 * that a program whose sizes wander does not keep them all. */
#include "base/heap.h"

#include <stdlib.h>
#include <string.h>

#define BINS 248
#define CACHE_MINIMUM (INT64_C(64) << 20)

struct ct_heap {
    void *(*allocate)(void *context, void *pointer, size_t bytes);
    void *context;
    int64_t live, peak, cached;
    int64_t blocks; /* handed out */
    bool closed;
    void *bins[BINS]; /* each a chain through the blocks' first words */
};

#ifdef CT_FAULTS
static long fault_every, allocations;

void ct_fail_every(long n) {
    fault_every = n;
    allocations = 0;
}

static bool fault(void) {
    return fault_every > 0 && ++allocations % fault_every == 0;
}
#else
#define fault() false
#endif

void *ct_malloc(size_t bytes) {
    return fault() ? NULL : malloc(bytes ? bytes : 1);
}

void *ct_calloc(size_t count, size_t bytes) {
    return fault() ? NULL : calloc(count ? count : 1, bytes ? bytes : 1);
}

void *ct_realloc(void *pointer, size_t bytes) {
    return fault() ? NULL : realloc(pointer, bytes ? bytes : 1);
}

char *ct_strdup(const char *text) {
    size_t size = strlen(text) + 1;
    char *copy = ct_malloc(size);
    return copy ? memcpy(copy, text, size) : NULL;
}

static void *default_allocate(void *context, void *pointer, size_t bytes) {
    (void)context;
    if (bytes == 0) {
        free(pointer);
        return NULL;
    }
    return fault() ? NULL : aligned_alloc(CT_ALIGN, bytes);
}

/* Size classes 64 * {4, 5, 6, 7} * 2^k / 4: at most a quarter of a block is slack. The bin's index,
 * and the class's size in *bytes. Sizes come in as multiples of CT_ALIGN. */
static int class_of(int64_t *bytes) {
    int64_t units = *bytes / CT_ALIGN;
    if (units <= 8) {
        *bytes = units * CT_ALIGN;
        return (int)units;
    }
    int power = 63 - __builtin_clzll((unsigned long long)(units - 1)); /* 2^power <= units - 1 */
    int64_t quarter = INT64_C(1) << (power - 2);
    int64_t steps = (units - 1) / quarter + 1; /* 5 to 8 */
    *bytes = steps * quarter * CT_ALIGN;
    return (power - 2) * 4 + (int)steps;
}

ct_heap *ct_heap_new(void *(*allocate)(void *, void *, size_t), void *context) {
    ct_heap *heap = ct_calloc(1, sizeof *heap);
    if (heap) {
        heap->allocate = allocate ? allocate : default_allocate;
        heap->context = context;
    }
    return heap;
}

static void empty_cache(ct_heap *heap) {
    for (int bin = 0; bin < BINS; bin++)
        while (heap->bins[bin]) {
            void *block = heap->bins[bin];
            memcpy(&heap->bins[bin], block, sizeof(void *));
            heap->allocate(heap->context, block, 0);
        }
    heap->cached = 0;
}

void ct_heap_release(ct_heap *heap) {
    if (!heap)
        return;
    empty_cache(heap);
    heap->closed = true;
    if (heap->blocks == 0)
        free(heap);
}

static int64_t rounded(int64_t bytes) {
    return bytes <= 0 ? CT_ALIGN : (bytes + CT_ALIGN - 1) / CT_ALIGN * CT_ALIGN;
}

void *ct_heap_take(ct_heap *heap, int64_t bytes) {
    if (bytes > INT64_MAX / 4)
        return NULL;
    int64_t size = rounded(bytes);
    int bin = class_of(&size);
    void *block = heap->bins[bin];
    if (block) {
        memcpy(&heap->bins[bin], block, sizeof(void *));
        heap->cached -= size;
    } else {
        block = heap->allocate(heap->context, NULL, (size_t)size);
        if (!block) {
            empty_cache(heap);
            block = heap->allocate(heap->context, NULL, (size_t)size);
        }
        if (!block)
            return NULL;
    }
    heap->blocks++;
    heap->live += size;
    if (heap->live > heap->peak)
        heap->peak = heap->live;
    return block;
}

void ct_heap_give(ct_heap *heap, void *block, int64_t bytes) {
    if (!block)
        return;
    int64_t size = rounded(bytes);
    int bin = class_of(&size);
    heap->blocks--;
    heap->live -= size;
    int64_t limit = heap->peak / 2 > CACHE_MINIMUM ? heap->peak / 2 : CACHE_MINIMUM;
    if (heap->closed || heap->cached + size > limit) {
        heap->allocate(heap->context, block, 0);
    } else {
        memcpy(block, &heap->bins[bin], sizeof(void *));
        heap->bins[bin] = block;
        heap->cached += size;
    }
    if (heap->closed && heap->blocks == 0)
        free(heap);
}

int64_t ct_heap_live(const ct_heap *heap) {
    return heap->live;
}

int64_t ct_heap_peak(const ct_heap *heap) {
    return heap->peak;
}

void ct_heap_reset_peak(ct_heap *heap) {
    heap->peak = heap->live;
}

ct_buffer *ct_buffer_new(ct_heap *heap, int64_t bytes) {
    void *data = ct_heap_take(heap, bytes);
    if (!data)
        return NULL;
    ct_buffer *buffer = ct_malloc(sizeof *buffer);
    if (!buffer) {
        ct_heap_give(heap, data, bytes);
        return NULL;
    }
    *buffer = (ct_buffer){.refs = 1, .bytes = bytes, .data = data, .heap = heap};
    return buffer;
}

ct_buffer *ct_buffer_wrap(void *data, int64_t bytes, void (*release)(void *), void *context) {
    ct_buffer *buffer = ct_malloc(sizeof *buffer);
    if (buffer)
        *buffer = (ct_buffer){.refs = 1,
                              .pinned = true,
                              .bytes = bytes,
                              .data = data,
                              .release = release,
                              .context = context};
    return buffer;
}

ct_buffer *ct_buffer_retain(ct_buffer *buffer) {
    buffer->refs++;
    return buffer;
}

void ct_buffer_release(ct_buffer *buffer) {
    if (!buffer || --buffer->refs > 0)
        return;
    if (buffer->heap)
        ct_heap_give(buffer->heap, buffer->data, buffer->bytes);
    else if (buffer->release)
        buffer->release(buffer->context);
    free(buffer);
}
