/* threads.h: the one place that knows OpenMP. */
#ifndef CT_BASE_THREADS_H
#define CT_BASE_THREADS_H

#include <stdint.h>

/* CPUs that affinity and cgroup quota allow this process, at least 1. */
int ct_threads_available(void);
/* Calls body(context, begin, end) over 0..n in pieces whose borders are multiples of `grain`, on at
 * most `threads` threads; in place, on the calling thread, where n <= grain or threads is 1. */
void ct_parallel(int threads, int64_t n, int64_t grain,
                 void (*body)(void *context, int64_t begin, int64_t end), void *context);

#endif
