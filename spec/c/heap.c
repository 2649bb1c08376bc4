/* The heap: blocks are aligned, freed ones are reused, and a host allocator that fails is an error,
 * not a crash. */
#include "base/heap.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static int failures;

static void check(bool good, const char *name) {
    failures += !good;
    printf("%s heap: %s\n", good ? "ok" : "not ok", name);
}

typedef struct host {
    int64_t taken, given;
    bool fails;
} host;

static void *host_allocate(void *context, void *pointer, size_t bytes) {
    host *h = context;
    if (bytes == 0) {
        h->given++;
        free(pointer);
        return NULL;
    }
    if (h->fails)
        return NULL;
    h->taken++;
    return aligned_alloc(CT_ALIGN, (bytes + CT_ALIGN - 1) / CT_ALIGN * CT_ALIGN);
}

int main(void) {
    host h = {0};
    ct_heap *heap = ct_heap_new(host_allocate, &h);
    void *a = ct_heap_take(heap, 1000), *b = ct_heap_take(heap, 0);
    check(a && b && (uintptr_t)a % CT_ALIGN == 0 && (uintptr_t)b % CT_ALIGN == 0,
          "blocks are aligned");
    memset(a, 1, 1000 + CT_ALIGN - 1000 % CT_ALIGN);
    check(ct_heap_live(heap) >= 1000, "live bytes are counted");
    ct_heap_give(heap, a, 1000);
    check(ct_heap_take(heap, 990) == a, "a freed block is handed out again");
    ct_heap_give(heap, a, 990);
    h.fails = true;
    check(ct_heap_take(heap, 1 << 20) == NULL, "a failing host allocator gives NULL");
    check(h.given > 0, "and the cache was emptied before giving up");
    check(ct_heap_take(heap, INT64_MAX) == NULL, "a size no memory has gives NULL");
    ct_heap_give(heap, b, 0);
    check(ct_heap_live(heap) == 0, "all given back, nothing is live");
    check(ct_heap_peak(heap) >= 1000, "the peak is kept");
    ct_heap_release(heap);
    check(h.taken == h.given, "every block went back to the host");

    heap = ct_heap_new(NULL, NULL);
    bool sound = true;
    for (int64_t size = 1; size < (INT64_C(1) << 30) && sound; size = size * 5 / 4 + 1) {
        char *block = ct_heap_take(heap, size);
        sound = block && ct_heap_live(heap) >= size && ct_heap_live(heap) <= size + size / 4 + 128;
        if (block)
            block[0] = block[size - 1] = 1;
        ct_heap_give(heap, block, size);
    }
    check(sound, "every size fits its class, with at most a quarter of slack");
    ct_heap_release(heap);
    return failures != 0;
}
