/* runtime.h: what one ctrain runtime holds, and how its owner's rooms below plug in: the eager
 * loops set `executor`, the binding sets `where` and `log`. */
#ifndef CT_GRAPH_RUNTIME_H
#define CT_GRAPH_RUNTIME_H

#include <signal.h>

#include "base/heap.h"
#include "base/shape.h"

typedef struct ct_node ct_node;
typedef struct ct_trace ct_trace;

/* A place in a script: an interned chunk name and a line; source NULL where unknown. */
typedef struct ct_line {
    const char *source;
    int line;
} ct_line;

/* Runs one node. `out` is allocated (C order) but for in-place UPDATE; sources are ready. `draw`
 * replaces attr.draw of RANDOM nodes. */
typedef struct ct_executor {
    ct_status (*run)(ct_runtime *runtime, const ct_node *node, const ct_array *out,
                     const ct_array *sources, uint64_t draw, ct_error *error);
} ct_executor;

struct ct_runtime {
    ct_heap *heap;
    int threads;
    uint64_t seed;                 /* Philox key */
    uint64_t draws;                /* number of the next draw */
    int no_grad;                   /* > 0: results need no gradient */
    const ct_node *differentiated; /* whose gradient is being computed, or NULL */
    ct_trace *trace;               /* being recorded, or NULL */
    const ct_executor *executor;
    ct_line (*where)(void *context); /* the script line that is running */
    void *where_context;
    void (*log)(void *context, ct_log_level level, const char *line);
    void *log_context;
    volatile sig_atomic_t interrupted;
    uint64_t next_id;
    void *lua; /* the binding's own */
    void (*lua_close)(void *lua);
    int holders; /* the owner, and each node: freed with the last */
    struct ct_interned *strings;
};

ct_runtime *ct_runtime_create(const ct_config *config, ct_error *error);
ct_runtime *ct_runtime_hold(ct_runtime *runtime);
void ct_runtime_drop(ct_runtime *runtime);

void ct_log(ct_runtime *runtime, ct_log_level level, const char *format, ...) CT_PRINTF(3, 4);
/* One copy of each text, kept as long as the runtime. NULL when memory is out. */
const char *ct_intern(ct_runtime *runtime, const char *text);
/* CT_ERR_INTERRUPTED, once, after ct_interrupt. */
ct_status ct_check_interrupt(ct_runtime *runtime, ct_error *error);

#endif
