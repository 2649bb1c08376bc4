/* matmul.c: matrix products. float32 and float64 go to a library as they lie where their strides
 * are those of a (transposed) row-major matrix, and through a packed copy where not. Which library,
 * and how the work is spread, depends on shape, dtype, CPU and thread count alone, so a product
 * repeats its bits:
 *
 *     every extent at most 16           tiny.h's loops: k in order, a multiplication and an
 * addition each float32, m * n * k <= 64^3        OpenBLAS, where it has kernels for this CPU (see
 * openblas_fits) float32 otherwise                 oneDNN float64 OpenBLAS integers loops that wrap
 *     half types                        as float32, rounded once at the end
 *
 * A batch whose right operand is shared and whose rows follow each other is one product of more
 * rows; other batches are spread over the threads matrix by matrix. */
#include <cblas.h>
#include <string.h>

#include "base/error.h"
#include "base/threads.h"
#include "eager/dnnl.h"
#include "eager/eager.h"
#include "eager/tiny.h"

/* A batch of matrices; strides in elements. */
typedef struct matrices {
    char *data;
    int64_t row, column;
    int64_t batch[CT_MAX_DIMS];
} matrices;

typedef struct product {
    ct_dtype dtype;
    int threads;
    int n_batch; /* leading dimensions left after merging */
    int64_t batch[CT_MAX_DIMS];
    int64_t count; /* of matrices */
    int64_t m, n, k;
    bool tiny;
    matrices a, b, out; /* out.column is 1 */
    ct_error *error;
    ct_status status; /* of the last failed matrix */
} product;

/* How a library sees a matrix: row-major as it is or transposed, with a leading dimension. */
typedef struct operand {
    bool transposed;
    int64_t leading;
} operand;

static bool as_operand(int64_t rows, int64_t columns, int64_t row, int64_t column,
                       operand *result) {
    if ((columns <= 1 || column == 1) && (rows <= 1 || row >= columns)) {
        *result = (operand){false, rows <= 1 ? columns : row};
        return true;
    }
    if ((rows <= 1 || row == 1) && (columns <= 1 || column >= rows)) {
        *result = (operand){true, columns <= 1 ? rows : column};
        return true;
    }
    return false;
}

/* OpenBLAS falls back to its oldest kernels on CPUs younger than itself. */
static bool openblas_fits(void) {
#ifdef __x86_64__
    static int fits = -1;
    if (fits < 0) {
        const char *core = openblas_get_corename();
        bool old = !strcmp(core, "Prescott") || !strcmp(core, "Core2") || !strcmp(core, "Nehalem");
        fits = !old || !__builtin_cpu_supports("avx2");
    }
    return fits;
#else
    return true;
#endif
}

/* The libraries follow the calling thread's setting. */
static void set_threads(int threads) {
    static _Thread_local int set;
    if (set == threads)
        return;
    openblas_set_num_threads(threads);
    set = threads;
}

static void blas_float64(const product *p, operand a, operand b, const double *x, const double *y,
                         double *z) {
    cblas_dgemm(CblasRowMajor, a.transposed ? CblasTrans : CblasNoTrans,
                b.transposed ? CblasTrans : CblasNoTrans, (int)p->m, (int)p->n, (int)p->k, 1.0, x,
                (int)a.leading, y, (int)b.leading, 0.0, z, (int)p->out.row);
}

static void blas_float32(const product *p, operand a, operand b, const float *x, const float *y,
                         float *z) {
    cblas_sgemm(CblasRowMajor, a.transposed ? CblasTrans : CblasNoTrans,
                b.transposed ? CblasTrans : CblasNoTrans, (int)p->m, (int)p->n, (int)p->k, 1.0f, x,
                (int)a.leading, y, (int)b.leading, 0.0f, z, (int)p->out.row);
}

/* One matrix through a library. Some OpenBLAS kernels multiply what is in the result by beta even
 * when it is 0, so it never sees a NaN there. */
static void by_library(product *p, const char *x, const char *y, char *z) {
    operand a, b;
    as_operand(p->m, p->k, p->a.row, p->a.column, &a);
    as_operand(p->k, p->n, p->b.row, p->b.column, &b);
    bool openblas = p->dtype == CT_FLOAT64 || (p->m * p->n <= 262144 / p->k && openblas_fits());
    if (!openblas) {
        ct_status status =
            ct_dnnl_sgemm(a.transposed, b.transposed, p->m, p->n, p->k, (const float *)x, a.leading,
                          (const float *)y, b.leading, (float *)z, p->out.row, p->error);
        if (status != CT_OK)
            p->status = status;
        return;
    }
    size_t size = ct_dtype_size(p->dtype);
    for (int64_t i = 0; i < p->m; i++)
        memset(z + i * p->out.row * (int64_t)size, 0, (size_t)p->n * size);
    if (p->dtype == CT_FLOAT64)
        blas_float64(p, a, b, (const double *)x, (const double *)y, (double *)z);
    else
        blas_float32(p, a, b, (const float *)x, (const float *)y, (float *)z);
}

/* Rows of an integer product: k in order, wrapping. */
#define INTEGER_ROWS(T, U)                                                                         \
    static void rows_##T(const product *p, const char *x, const char *y, char *z, int64_t begin,   \
                         int64_t end) {                                                            \
        for (int64_t i = begin; i < end; i++) {                                                    \
            T *out = (T *)z + i * p->out.row;                                                      \
            memset(out, 0, (size_t)p->n * sizeof *out);                                            \
            for (int64_t l = 0; l < p->k; l++) {                                                   \
                U factor = (U)((const T *)x)[i * p->a.row + l * p->a.column];                      \
                const T *row = (const T *)y + l * p->b.row;                                        \
                for (int64_t j = 0; j < p->n; j++)                                                 \
                    out[j] = (T)((U)out[j] + factor * (U)row[j * p->b.column]);                    \
            }                                                                                      \
        }                                                                                          \
    }
INTEGER_ROWS(uint8_t, uint32_t)
INTEGER_ROWS(int8_t, uint32_t)
INTEGER_ROWS(int16_t, uint32_t)
INTEGER_ROWS(int32_t, uint32_t)
INTEGER_ROWS(int64_t, uint64_t)

typedef void rows_function(const product *, const char *, const char *, char *, int64_t, int64_t);

static rows_function *integer_rows(ct_dtype dtype) {
    switch (dtype) {
    case CT_UINT8: return rows_uint8_t;
    case CT_INT8: return rows_int8_t;
    case CT_INT16: return rows_int16_t;
    case CT_INT32: return rows_int32_t;
    case CT_INT64: return rows_int64_t;
    default: return NULL;
    }
}

/* The addresses of one matrix of the batch. */
static void locate(const product *p, int64_t number, const char **x, const char **y, char **z) {
    int64_t a = 0, b = 0, out = 0;
    for (int d = p->n_batch - 1; d >= 0; d--) {
        int64_t at = number % p->batch[d];
        number /= p->batch[d];
        a += at * p->a.batch[d];
        b += at * p->b.batch[d];
        out += at * p->out.batch[d];
    }
    int64_t size = (int64_t)ct_dtype_size(p->dtype);
    *x = p->a.data + a * size;
    *y = p->b.data + b * size;
    *z = p->out.data + out * size;
}

static void by_loops(ct_dtype dtype, int64_t m, int64_t n, int64_t k, const void *x, int64_t x_row,
                     int64_t x_column, const void *y, int64_t y_row, int64_t y_column, void *z,
                     int64_t z_row) {
    if (dtype == CT_FLOAT32)
        ct_tiny_float32((int)m, (int)n, (int)k, x, x_row, x_column, y, y_row, y_column, z, z_row);
    else
        ct_tiny_float64((int)m, (int)n, (int)k, x, x_row, x_column, y, y_row, y_column, z, z_row);
}

static void matrices_part(void *context, int64_t begin, int64_t end) {
    product *p = context;
    for (int64_t i = begin; i < end; i++) {
        const char *x, *y;
        char *z;
        locate(p, i, &x, &y, &z);
        if (p->tiny)
            by_loops(p->dtype, p->m, p->n, p->k, x, p->a.row, p->a.column, y, p->b.row, p->b.column,
                     z, p->out.row);
        else
            by_library(p, x, y, z);
    }
}

/* Rows of all matrices, counted through. */
static void integer_part(void *context, int64_t begin, int64_t end) {
    const product *p = context;
    rows_function *rows = integer_rows(p->dtype);
    while (begin < end) {
        const char *x, *y;
        char *z;
        int64_t matrix = begin / p->m, first = begin % p->m, last = first + (end - begin);
        if (last > p->m)
            last = p->m;
        locate(p, matrix, &x, &y, &z);
        rows(p, x, y, z, first, last);
        begin += last - first;
    }
}

static int64_t grain_of(int64_t work_of_one) {
    int64_t grain = 65536 / (work_of_one + 1);
    return grain < 1 ? 1 : grain;
}

static ct_status multiply(ct_runtime *runtime, product *p) {
    if (integer_rows(p->dtype)) {
        ct_parallel(p->threads, p->count * p->m, grain_of(p->n * p->k), integer_part, p);
        return CT_OK;
    }
    set_threads(p->threads);
    if (p->tiny) {
        ct_parallel(p->threads, p->count, grain_of(p->m * p->n * p->k), matrices_part, p);
        return CT_OK;
    }
    /* Enough matrices to keep every thread busy: one thread each. Else each gets all threads. */
    if (p->count >= 4 * (int64_t)p->threads || (p->count > 1 && p->count % p->threads == 0)) {
        ct_parallel(p->threads, p->count, grain_of(p->m * p->n * p->k), matrices_part, p);
        return p->status;
    }
    for (int64_t i = 0; i < p->count && p->status == CT_OK; i++) {
        ct_status status = ct_check_interrupt(runtime, p->error);
        if (status != CT_OK)
            return status;
        matrices_part(p, i, i + 1);
    }
    return p->status;
}

/* ---- Operands that no library takes as they lie --------------------------------------------- */

typedef struct scratch {
    void *data;
    int64_t bytes;
} scratch;

/* The array in C order under another dtype; expanded leading dimensions stay expanded. */
static ct_status pack(ct_runtime *runtime, ct_array *array, ct_dtype dtype, scratch *memory,
                      ct_error *error) {
    ct_array from = *array, to = *array;
    for (int d = 0; d < array->shape.ndim - 2; d++)
        if (array->stride[d] == 0)
            from.shape.dim[d] = 1;
    to.shape = from.shape;
    to.dtype = dtype;
    ct_view whole = ct_view_whole(&to.shape);
    memcpy(to.stride, whole.stride, sizeof to.stride);
    memory->bytes = ct_shape_numel(&to.shape) * (int64_t)ct_dtype_size(dtype);
    memory->data = ct_heap_take(runtime->heap, memory->bytes);
    if (!memory->data)
        return ct_fail(error, CT_ERR_MEMORY, "matmul: out of memory for a copy of %lld bytes",
                       (long long)memory->bytes);
    to.data = memory->data;
    ct_status status;
    if (dtype == from.dtype) {
        status = ct_eager_copy(runtime, &to, &from, error);
    } else {
        ct_node cast = {.op = CT_CAST, .dtype = dtype, .attr = {.dtype = dtype}, .n_sources = 1};
        cast.shape = to.shape;
        status = ct_eager_elementwise(runtime, &cast, &to, &from, error);
    }
    for (int d = 0; d < array->shape.ndim - 2; d++)
        if (array->stride[d] == 0)
            to.stride[d] = 0;
    to.shape = array->shape;
    *array = to;
    return status;
}

static void drop(ct_runtime *runtime, scratch *memory) {
    if (memory->data)
        ct_heap_give(runtime->heap, memory->data, memory->bytes);
}

static matrices as_matrices(const ct_array *array) {
    int last = array->shape.ndim - 1;
    matrices result = {
        .data = array->data, .row = array->stride[last - 1], .column = array->stride[last]};
    memcpy(result.batch, array->stride, sizeof result.batch);
    return result;
}

/* Merges leading dimensions from the last on: into the rows where the right operand is shared and
 * rows follow each other; else into one another where all operands walk alike. */
static void merge_batch(product *p, const ct_array *out) {
    int64_t dims[CT_MAX_DIMS];
    int n = 0;
    p->count = 1;
    for (int d = 0; d < out->shape.ndim - 2; d++) { /* extents of 1 say nothing */
        if (out->shape.dim[d] == 1)
            continue;
        dims[n] = out->shape.dim[d];
        p->a.batch[n] = p->a.batch[d]; /* n <= d */
        p->b.batch[n] = p->b.batch[d];
        p->out.batch[n] = p->out.batch[d];
        p->count *= dims[n++];
    }
    while (!p->tiny && n > 0 && p->b.batch[n - 1] == 0 &&
           p->out.batch[n - 1] == p->m * p->out.row) {
        /* the only row of a matrix: rows are as far apart as the matrices */
        int64_t row = p->m == 1 ? p->a.batch[n - 1] : p->a.row;
        operand as;
        if (p->a.batch[n - 1] != p->m * row ||
            !as_operand(p->m * dims[n - 1], p->k, row, p->a.column, &as))
            break;
        n--;
        p->a.row = row;
        p->m *= dims[n];
        p->count /= dims[n];
    }
    p->n_batch = n;
    memcpy(p->batch, dims, sizeof dims);
}

/* BLAS counts in 32 bits. */
static ct_status check_width(const product *p, ct_error *error) {
    if (p->dtype != CT_FLOAT64 || (p->m <= INT32_MAX && p->n <= INT32_MAX && p->k <= INT32_MAX))
        return CT_OK;
    return ct_fail(error, CT_ERR_UNSUPPORTED,
                   "matmul: %lldx%lld times %lldx%lld: extents of a float64 product end at %d",
                   (long long)p->m, (long long)p->k, (long long)p->k, (long long)p->n, INT32_MAX);
}

/* Whether a library takes all matrices of the array as they lie. */
static bool lies_well(const ct_array *array) {
    int last = array->shape.ndim - 1;
    operand as;
    return as_operand(array->shape.dim[last - 1], array->shape.dim[last], array->stride[last - 1],
                      array->stride[last], &as) &&
           (array->dtype != CT_FLOAT64 || as.leading <= INT32_MAX);
}

static bool is_tiny(const ct_array *out, const ct_array *a) {
    int last = out->shape.ndim - 1;
    return out->shape.dim[last - 1] <= CT_TINY && out->shape.dim[last] <= CT_TINY &&
           a->shape.dim[last] <= CT_TINY;
}

static ct_status product_of(ct_runtime *runtime, const ct_array *out, const ct_array *a,
                            const ct_array *b, bool tiny, ct_error *error) {
    int last = out->shape.ndim - 1;
    product p = {.tiny = tiny,
                 .dtype = out->dtype,
                 .threads = runtime->threads,
                 .m = out->shape.dim[last - 1],
                 .n = out->shape.dim[last],
                 .k = a->shape.dim[last],
                 .a = as_matrices(a),
                 .b = as_matrices(b),
                 .out = as_matrices(out),
                 .error = error};
    if (p.out.row < p.n) /* one row: its stride may be anything */
        p.out.row = p.n;
    merge_batch(&p, out);
    ct_status status = check_width(&p, error);
    return status == CT_OK ? multiply(runtime, &p) : status;
}

static ct_status half_product(ct_runtime *runtime, const ct_array *out, const ct_array *a,
                              const ct_array *b, ct_error *error) {
    ct_array x = *a, y = *b, z = *out;
    scratch memory[3] = {{0}};
    ct_status status = pack(runtime, &x, CT_FLOAT32, &memory[0], error);
    if (status == CT_OK)
        status = pack(runtime, &y, CT_FLOAT32, &memory[1], error);
    if (status == CT_OK) {
        z.dtype = CT_FLOAT32;
        memory[2].bytes = ct_shape_numel(&z.shape) * (int64_t)sizeof(float);
        z.data = memory[2].data = ct_heap_take(runtime->heap, memory[2].bytes);
        if (!z.data)
            status =
                ct_fail(error, CT_ERR_MEMORY, "matmul: out of memory for a result of %lld bytes",
                        (long long)memory[2].bytes);
    }
    if (status == CT_OK)
        status = product_of(runtime, &z, &x, &y, is_tiny(out, a), error);
    if (status == CT_OK) {
        ct_node cast = {
            .op = CT_CAST, .dtype = out->dtype, .attr = {.dtype = out->dtype}, .n_sources = 1};
        cast.shape = out->shape;
        status = ct_eager_elementwise(runtime, &cast, out, &z, error);
    }
    for (int i = 0; i < 3; i++)
        drop(runtime, &memory[i]);
    return status;
}

ct_status ct_gemm(ct_runtime *runtime, const ct_array *out, const ct_array *a, const ct_array *b,
                  ct_error *error) {
    int64_t numel = ct_shape_numel(&out->shape);
    if (numel == 0)
        return CT_OK;
    int last = out->shape.ndim - 1;
    if (a->shape.dim[last] == 0) {
        memset(out->data, 0, (size_t)numel * ct_dtype_size(out->dtype));
        return CT_OK;
    }
    if (out->dtype == CT_BOOL)
        return ct_fail(error, CT_ERR_DTYPE, "matmul: bool operands: a number type was expected");
    if (integer_rows(out->dtype))
        return product_of(runtime, out, a, b, false, error);
    if (out->dtype == CT_FLOAT16 || out->dtype == CT_BFLOAT16)
        return half_product(runtime, out, a, b, error);

    bool tiny = is_tiny(out, a);
    if (tiny && last == 1) { /* what follows would take longer than the product */
        by_loops(out->dtype, out->shape.dim[0], out->shape.dim[1], a->shape.dim[1], a->data,
                 a->stride[0], a->stride[1], b->data, b->stride[0], b->stride[1], out->data,
                 out->stride[0]);
        return CT_OK;
    }
    ct_array x = *a, y = *b;
    scratch memory[2] = {{0}};
    ct_status status = CT_OK;
    if (!tiny && !lies_well(a))
        status = pack(runtime, &x, a->dtype, &memory[0], error);
    if (status == CT_OK && !tiny && !lies_well(b))
        status = pack(runtime, &y, b->dtype, &memory[1], error);
    if (status == CT_OK)
        status = product_of(runtime, out, &x, &y, tiny, error);
    for (int i = 0; i < 2; i++)
        drop(runtime, &memory[i]);
    return status;
}
