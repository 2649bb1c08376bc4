/* runtime.c: see runtime.h. */
#include "graph/runtime.h"

#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/error.h"
#include "base/threads.h"

struct ct_interned {
    struct ct_interned *next;
    char text[];
};

static void log_to_stderr(void *context, ct_log_level level, const char *line) {
    (void)context;
    fprintf(stderr, "ctrain: %s%s\n", level == CT_LOG_WARNING ? "warning: " : "", line);
}

ct_runtime *ct_runtime_create(const ct_config *config, ct_error *error) {
    static const ct_config defaults;
    if (!config)
        config = &defaults;
    ct_runtime *runtime = ct_calloc(1, sizeof *runtime);
    ct_heap *heap = runtime ? ct_heap_new(config->allocate, config->allocate_context) : NULL;
    if (!heap) {
        free(runtime);
        ct_fail(error, CT_ERR_MEMORY, "out of memory for a runtime");
        return NULL;
    }
    runtime->heap = heap;
    runtime->threads = config->threads > 0 ? config->threads : ct_threads_available();
    runtime->log = config->log ? config->log : log_to_stderr;
    runtime->log_context = config->log_context;
    runtime->next_id = 1;
    runtime->holders = 1;
    return runtime;
}

ct_runtime *ct_runtime_hold(ct_runtime *runtime) {
    runtime->holders++;
    return runtime;
}

void ct_runtime_drop(ct_runtime *runtime) {
    if (!runtime || --runtime->holders > 0)
        return;
    while (runtime->strings) {
        struct ct_interned *next = runtime->strings->next;
        free(runtime->strings);
        runtime->strings = next;
    }
    ct_heap_release(runtime->heap);
    free(runtime);
}

void ct_log(ct_runtime *runtime, ct_log_level level, const char *format, ...) {
    char line[2048];
    va_list arguments;
    va_start(arguments, format);
    vsnprintf(line, sizeof line, format, arguments);
    va_end(arguments);
    runtime->log(runtime->log_context, level, line);
}

/* A step has few chunk names, and asks for the same one over and over: the list is kept most recent
 * first. */
const char *ct_intern(ct_runtime *runtime, const char *text) {
    struct ct_interned **link = &runtime->strings;
    for (; *link; link = &(*link)->next)
        if (strcmp((*link)->text, text) == 0) {
            struct ct_interned *found = *link;
            *link = found->next;
            found->next = runtime->strings;
            runtime->strings = found;
            return found->text;
        }
    size_t size = strlen(text) + 1;
    struct ct_interned *made = ct_malloc(sizeof *made + size);
    if (!made)
        return NULL;
    memcpy(made->text, text, size);
    made->next = runtime->strings;
    runtime->strings = made;
    return made->text;
}

void ct_interrupt(ct_runtime *runtime) {
    runtime->interrupted = 1;
}

ct_status ct_check_interrupt(ct_runtime *runtime, ct_error *error) {
    if (!runtime->interrupted)
        return CT_OK;
    runtime->interrupted = 0;
    return ct_fail(error, CT_ERR_INTERRUPTED, "interrupted");
}

int64_t ct_live_bytes(const ct_runtime *runtime) {
    return ct_heap_live(runtime->heap);
}

int64_t ct_peak_bytes(const ct_runtime *runtime) {
    return ct_heap_peak(runtime->heap);
}
