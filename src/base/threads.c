/* threads.c: libgomp's pool, which OpenBLAS and oneDNN use too. */
#define _GNU_SOURCE // sched_getaffinity
#include "base/threads.h"

#include <omp.h>
#include <sched.h>
#include <stdio.h>

/* CPUs that the cgroup's quota allows, or 0 where there is none. Version 2, then version 1. */
static int cgroup_quota(void) {
    long long quota = 0, period = 0;
    FILE *file = fopen("/sys/fs/cgroup/cpu.max", "r");
    if (file) {
        if (fscanf(file, "%lld %lld", &quota, &period) != 2)
            quota = 0;
        fclose(file);
    } else {
        file = fopen("/sys/fs/cgroup/cpu/cpu.cfs_quota_us", "r");
        if (file) {
            if (fscanf(file, "%lld", &quota) != 1)
                quota = 0;
            fclose(file);
        }
        file = fopen("/sys/fs/cgroup/cpu/cpu.cfs_period_us", "r");
        if (file) {
            if (fscanf(file, "%lld", &period) != 1)
                period = 0;
            fclose(file);
        }
    }
    if (quota <= 0 || period <= 0)
        return 0;
    long long cpus = (quota + period - 1) / period;
    return cpus > 4096 ? 4096 : (int)cpus;
}

int ct_threads_available(void) {
    cpu_set_t set;
    int count = sched_getaffinity(0, sizeof set, &set) == 0 ? CPU_COUNT(&set) : omp_get_num_procs();
    int quota = cgroup_quota();
    if (quota > 0 && quota < count)
        count = quota;
    return count < 1 ? 1 : count;
}

void ct_parallel(int threads, int64_t n, int64_t grain,
                 void (*body)(void *context, int64_t begin, int64_t end), void *context) {
    if (n <= 0)
        return;
    if (grain < 1)
        grain = 1;
    int64_t pieces = (n - 1) / grain + 1;
    if (threads > pieces)
        threads = (int)pieces;
    if (threads <= 1 || omp_in_parallel()) {
        body(context, 0, n);
        return;
    }
#pragma omp parallel num_threads(threads)
    {
        int64_t team = omp_get_num_threads(), self = omp_get_thread_num();
        int64_t first = pieces / team * self + (self < pieces % team ? self : pieces % team);
        int64_t count = pieces / team + (self < pieces % team);
        int64_t begin = first * grain, end = (first + count) * grain;
        if (count > 0)
            body(context, begin, end < n ? end : n);
    }
}
