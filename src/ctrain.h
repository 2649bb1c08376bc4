/* ctrain.h: the public C interface of ctrain, a deep-learning training runtime.
 *
 * Ownership: functions borrow their arguments and return new references; give a reference back with
 * ct_tensor_free. A function that can fail takes a `ct_error *` last (NULL where the caller does
 * not care), leaves a message in it, and returns NULL or a status other than CT_OK. Nothing here
 * exits, prints or jumps.
 *
 * Threads: a runtime and everything made from it belong to one thread at a time. Two runtimes may
 * be used by two threads. Kernels spread over the CPUs by themselves.
 *
 * Counting: in C everything counts from 0. Extents, strides and offsets are int64_t and in
 * elements.
 */
#ifndef CTRAIN_H
#define CTRAIN_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#ifdef __cplusplus
extern "C" {
#endif

#if defined(__GNUC__)
#define CT_API __attribute__((visibility("default")))
#define CT_PRINTF(text, first) __attribute__((format(printf, text, first)))
#else
#define CT_API
#define CT_PRINTF(text, first)
#endif

#define CT_VERSION "0.1.0"
#define CT_MAX_DIMS 8

/* ---- Errors --------------------------------------------------------------------------------- */

typedef enum ct_status {
    CT_OK = 0,
    CT_ERR_ARGUMENT,    /* a value no call of this kind accepts */
    CT_ERR_SHAPE,       /* extents that do not fit together */
    CT_ERR_DTYPE,       /* an element type the operation has no meaning for */
    CT_ERR_INDEX,       /* a position or label out of range */
    CT_ERR_MEMORY,      /* an allocation failed; nothing was changed */
    CT_ERR_IO,          /* a file could not be read or written as asked */
    CT_ERR_STATE,       /* a call at the wrong time, such as reading a tensor inside a trace */
    CT_ERR_UNSUPPORTED, /* meaningful, but not in this build */
    CT_ERR_INTERRUPTED, /* stopped by ct_interrupt */
    CT_ERR_LUA,         /* an error raised by a Lua script */
} ct_status;

typedef struct ct_error {
    ct_status status;
    char message[2048]; /* always terminated; empty while status is CT_OK */
} ct_error;

/* ---- Runtime -------------------------------------------------------------------------------- */

typedef struct ct_runtime ct_runtime;

typedef enum ct_log_level { CT_LOG_WARNING, CT_LOG_INFO, CT_LOG_DEBUG } ct_log_level;

/* Every field may be zero: the default is then used. */
typedef struct ct_config {
    /* The host's allocator for tensor memory: as realloc with free, bytes == 0 frees. The result
     * must be aligned to 64 bytes. Default: aligned_alloc. */
    void *(*allocate)(void *context, void *pointer, size_t bytes);
    void *allocate_context;
    /* Receives warnings and notes, a line each, without a newline. Default: standard error. */
    void (*log)(void *context, ct_log_level level, const char *line);
    void *log_context;
    int threads; /* CPUs that kernels use; default: what affinity and cgroup quota allow */
} ct_config;

/* Makes a runtime with its own random state, caches and Lua state. NULL on failure. */
CT_API ct_runtime *ct_runtime_new(const ct_config *config, ct_error *error);
/* Frees the runtime. Tensors that the host still holds stay readable until they are freed. */
CT_API void ct_runtime_free(ct_runtime *runtime);
/* Asks the running computation to stop; the only call that is safe in a signal handler. */
CT_API void ct_interrupt(ct_runtime *runtime);
/* Bytes of tensor memory alive now, and the most there ever were. */
CT_API int64_t ct_live_bytes(const ct_runtime *runtime);
CT_API int64_t ct_peak_bytes(const ct_runtime *runtime);

/* ---- Element types -------------------------------------------------------------------------- */

typedef enum ct_dtype {
    CT_BOOL,
    CT_UINT8,
    CT_INT8,
    CT_INT16,
    CT_INT32,
    CT_INT64,
    CT_FLOAT16,
    CT_BFLOAT16,
    CT_FLOAT32,
    CT_FLOAT64,
    CT_DTYPES, /* how many there are; also "not given" */
} ct_dtype;

CT_API const char *ct_dtype_name(ct_dtype dtype);
CT_API size_t ct_dtype_size(ct_dtype dtype);
/* CT_DTYPES where no type has this name. */
CT_API ct_dtype ct_dtype_from_name(const char *name);
/* The type two operands meet in, as PyTorch promotes tensors of one or more dimensions. */
CT_API ct_dtype ct_dtype_promote(ct_dtype a, ct_dtype b);

/* ---- Tensors -------------------------------------------------------------------------------- */

typedef struct ct_tensor ct_tensor;

/* A copy of host data: `shape` and `strides` of `ndim` entries; strides NULL means C order. */
CT_API ct_tensor *ct_tensor_copy(ct_runtime *runtime, ct_dtype dtype, int ndim,
                                 const int64_t *shape, const int64_t *strides, const void *data,
                                 ct_error *error);
/* The host's own memory as a tensor, without a copy. `release(context)` is called when ctrain no
 * longer refers to it. Writing through the tensor writes to that memory. */
CT_API ct_tensor *ct_tensor_wrap(ct_runtime *runtime, ct_dtype dtype, int ndim,
                                 const int64_t *shape, const int64_t *strides, void *data,
                                 void (*release)(void *context), void *context, ct_error *error);
CT_API ct_tensor *ct_tensor_full(ct_runtime *runtime, ct_dtype dtype, int ndim,
                                 const int64_t *shape, double value, ct_error *error);
CT_API ct_tensor *ct_tensor_retain(ct_tensor *tensor);
CT_API void ct_tensor_free(ct_tensor *tensor); /* NULL is allowed */

CT_API ct_dtype ct_tensor_dtype(const ct_tensor *tensor);
CT_API int ct_tensor_ndim(const ct_tensor *tensor);
CT_API const int64_t *
ct_tensor_shape(const ct_tensor *tensor); /* ndim entries, owned by the tensor */
CT_API const int64_t *ct_tensor_strides(const ct_tensor *tensor); /* likewise */
CT_API int64_t ct_tensor_numel(const ct_tensor *tensor);
/* The address of element 0, after waiting for whatever computes it. Valid while the tensor lives;
 * later in-place writes show there. NULL with an error inside a trace. */
CT_API void *ct_tensor_data(ct_tensor *tensor, ct_error *error);
/* The value of a tensor with one element. */
CT_API ct_status ct_tensor_item(ct_tensor *tensor, double *value, ct_error *error);

/* ---- Lua ------------------------------------------------------------------------------------ */

/* Runs Lua source text; `name` is what error messages call it.
 * The message carries the traceback. */
CT_API ct_status ct_run_string(ct_runtime *runtime, const char *source, const char *name,
                               ct_error *error);
CT_API ct_status ct_run_file(ct_runtime *runtime, const char *path, ct_error *error);
/* Calls the global Lua function `name` with tensors; its first n_results results, which must be
 * tensors, are new references in `results`. */
CT_API ct_status ct_call(ct_runtime *runtime, const char *name, ct_tensor *const *arguments,
                         int n_arguments, ct_tensor **results, int n_results, ct_error *error);

#ifdef __cplusplus
}
#endif
#endif
