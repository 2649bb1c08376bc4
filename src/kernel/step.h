/* step.h: what a rendered step is given. The renderer writes the same declaration into every source
 * text, so a change here changes that text and with it the key of every artifact. */
#ifndef CT_KERNEL_STEP_H
#define CT_KERNEL_STEP_H

#include <stdint.h>

typedef void ct_body(void *context, int64_t begin, int64_t end);

typedef struct ct_step {
    char *arena;
    void **inputs;
    void **states;
    void **outputs;
    int threads;
    /* ct_parallel of base/threads.h */
    void (*parallel)(int threads, int64_t n, int64_t grain, ct_body *body, void *context);
    /* Runs library call `index` of the plan; not 0: it failed, and the step returns. */
    int (*call)(void *context, int index);
    /* NULL, or told after each kernel and call which one ended. */
    void (*mark)(void *context, int index);
    void *context;
} ct_step;

#endif
