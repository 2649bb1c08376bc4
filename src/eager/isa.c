/* isa.c: which of the builds of loops.c this CPU runs. */
#include <stdlib.h>
#include <string.h>

#include "eager/loops.h"

#if defined(__x86_64__)
extern const ct_loops ct_loops_v2, ct_loops_v3, ct_loops_v4;

static const struct {
    const char *name;
    const ct_loops *loops;
} builds[] = {{"v2", &ct_loops_v2}, {"v3", &ct_loops_v3}, {"v4", &ct_loops_v4}};

static int best(void) {
    __builtin_cpu_init();
    bool v3 = __builtin_cpu_supports("avx2") && __builtin_cpu_supports("fma") &&
              __builtin_cpu_supports("bmi2") && __builtin_cpu_supports("bmi");
    bool v4 = v3 && __builtin_cpu_supports("avx512f") && __builtin_cpu_supports("avx512bw") &&
              __builtin_cpu_supports("avx512cd") && __builtin_cpu_supports("avx512dq") &&
              __builtin_cpu_supports("avx512vl");
    return v4 ? 2 : v3 ? 1 : 0;
}
#else
extern const ct_loops ct_loops_base;

static const struct {
    const char *name;
    const ct_loops *loops;
} builds[] = {{"base", &ct_loops_base}};

static int best(void) {
    return 0;
}
#endif

/* Several threads may find the answer at once: it is the same one. */
static int chosen(void) {
    static int choice = -1;
    int now = __atomic_load_n(&choice, __ATOMIC_RELAXED);
    if (now < 0) {
        now = best();
        const char *wanted = getenv("CTRAIN_ISA");
        for (int i = 0; wanted && i < now; i++)
            if (strcmp(builds[i].name, wanted) == 0)
                now = i;
        __atomic_store_n(&choice, now, __ATOMIC_RELAXED);
    }
    return now;
}

const ct_loops *ct_loops_get(void) {
    return builds[chosen()].loops;
}
