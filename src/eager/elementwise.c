/* elementwise.c: element-wise operations and copies. The result is written in C order, in parts
 * that threads share; what a loop cannot read as it lies is collected a chunk at a time in a buffer
 * on the stack. */
#include "eager/elementwise.h"

#include <string.h>

#include "base/error.h"
#include "base/threads.h"
#include "eager/eager.h"

static int log2_size(ct_dtype dtype) {
    return __builtin_ctz((unsigned)ct_dtype_size(dtype));
}

ct_reader ct_reader_of(const ct_loops *loops, const ct_array *array, ct_dtype as) {
    ct_reader reader = {*array, as, log2_size(array->dtype), loops};
    ct_arrays_coalesce(&reader.array, 1);
    return reader;
}

bool ct_reader_is_direct(const ct_reader *reader) {
    const ct_array *a = &reader->array;
    return a->dtype == reader->as &&
           (a->shape.ndim == 0 || (a->shape.ndim == 1 && a->stride[0] == 1));
}

/* Where a walk over the runs of the last dimension stands. */
typedef struct walk {
    int64_t index[CT_MAX_DIMS];
    int64_t offset; /* of the run's first element */
    int64_t left;   /* elements of the run from here on */
} walk;

static walk walk_from(const ct_array *a, int64_t begin) {
    walk w = {.left = 1};
    for (int d = a->shape.ndim - 1; d >= 0; d--) {
        w.index[d] = begin % a->shape.dim[d];
        begin /= a->shape.dim[d];
        w.offset += w.index[d] * a->stride[d];
    }
    int last = a->shape.ndim - 1;
    if (last >= 0)
        w.left = a->shape.dim[last] - w.index[last];
    return w;
}

static void walk_next_run(walk *w, const ct_array *a) {
    int last = a->shape.ndim - 1;
    if (last < 0)
        return;
    w->offset -= w->index[last] * a->stride[last];
    w->index[last] = 0;
    w->left = a->shape.dim[last];
    for (int d = last - 1; d >= 0; d--) {
        w->offset += a->stride[d];
        if (++w->index[d] < a->shape.dim[d])
            return;
        w->offset -= a->shape.dim[d] * a->stride[d];
        w->index[d] = 0;
    }
}

/* n elements of one line said again and again, such as a bias added to every row. */
static const void *periodic(const ct_reader *reader, const walk *w, int64_t n, char *to) {
    const ct_array *a = &reader->array;
    int size = reader->size;
    int64_t period = a->shape.dim[1], stride = a->stride[1], rest = period - w->left;
    const char *data = a->data;
    reader->loops->gather[size](to, data + w->offset * ((int64_t)1 << size), stride, w->left);
    if (rest > n - w->left)
        rest = n - w->left;
    reader->loops->gather[size](to + (w->left << size), data, stride, rest);
    for (int64_t done = w->left + rest; done < n; done *= 2) /* whole periods so far */
        memcpy(to + (done << size), to, (size_t)(n - done < done ? n - done : done) << size);
    return to;
}

const void *ct_reader_get(const ct_reader *reader, int64_t begin, int64_t n, void *scratch,
                          void *raw) {
    const ct_array *a = &reader->array;
    bool same = a->dtype == reader->as;
    const char *data = a->data;
    int size = reader->size, last = a->shape.ndim - 1;
    int64_t stride = last >= 0 ? a->stride[last] : 0;
    walk w =
        last == 0
            ? (walk){.offset = begin * stride, .left = a->shape.dim[0] - begin, .index = {begin}}
            : walk_from(a, begin);
    const void *found;
    if (w.left >= n && (stride == 1 || n == 1)) {
        found = data + w.offset * ((int64_t)1 << size);
    } else if (last == 1 && a->stride[0] == 0 && w.left < n) {
        found = periodic(reader, &w, n, same ? scratch : raw);
    } else {
        char *to = same ? scratch : raw;
        found = to;
        for (int64_t done = 0;;) {
            int64_t run = n - done < w.left ? n - done : w.left;
            reader->loops->gather[size](to + (done << size), data + w.offset * ((int64_t)1 << size),
                                        stride, run);
            done += run;
            if (done == n)
                break;
            w.left -= run;
            if (w.left == 0)
                walk_next_run(&w, a);
        }
    }
    if (same)
        return found;
    reader->loops->convert[a->dtype][reader->as](scratch, found, n);
    return scratch;
}

/* ---- Operations ----------------------------------------------------------------------------- */

typedef struct operation {
    const ct_loops *loops;
    ct_loop *loop;
    ct_reader source[3];
    int n_sources;
    bool direct; /* everything is read and written as it lies */
    ct_dtype computed, stored;
    char *out;
    bool checked; /* an integer division, whose last source must not be 0 */
    int failed;
} operation;

static void operation_part(void *context, int64_t begin, int64_t end) {
    operation *op = context;
    _Alignas(64) char scratch[4][CT_CHUNK * 8], raw[CT_CHUNK * 8];
    int64_t size = (int64_t)ct_dtype_size(op->stored);
    int64_t step = op->direct && !op->checked ? end - begin : CT_CHUNK;
    for (; begin < end; begin += step) {
        int64_t n = end - begin < step ? end - begin : step;
        const void *in[3];
        for (int i = 0; i < op->n_sources; i++)
            in[i] = ct_reader_get(&op->source[i], begin, n, scratch[i], raw);
        if (op->checked && op->loops->has_zero[op->computed](in[1], n)) {
            __atomic_store_n(&op->failed, 1, __ATOMIC_RELAXED);
            return;
        }
        if (op->stored == op->computed) {
            op->loop(op->out + begin * size, in, n);
        } else {
            op->loop(scratch[3], in, n);
            op->loops->convert[op->computed][op->stored](op->out + begin * size, scratch[3], n);
        }
    }
}

/* Elements that are worth a thread of their own. */
static int64_t grain_of(ct_op op) {
    return (ct_op_is_costly(op) ? 8 : 32) * CT_CHUNK;
}

static ct_loop *loop_of(const ct_loops *loops, ct_op op, ct_dtype dtype) {
    if (dtype == CT_BOOL && op == CT_BITNOT)
        return loops->bool_not;
    if (dtype == CT_BOOL && op == CT_ADD)
        op = CT_BITOR;
    if (dtype == CT_BOOL && op == CT_MUL)
        op = CT_BITAND;
    return loops->op[op][dtype];
}

ct_status ct_eager_elementwise(ct_runtime *runtime, const ct_node *node, const ct_array *out,
                               const ct_array *sources, ct_error *error) {
    if (node->op == CT_CAST)
        return ct_eager_copy(runtime, out, &sources[0], error);
    const ct_op_info *info = &ct_op_table[node->op];
    bool compares = info->class == CT_CLASS_COMPARE, selects = info->class == CT_CLASS_SELECT;
    const ct_loops *loops = ct_loops_get();
    operation op = {.loops = loops, .n_sources = info->sources, .out = out->data};
    op.computed = ct_computed(compares ? sources[0].dtype : out->dtype);
    op.stored = out->dtype;
    op.loop = loop_of(loops, node->op, op.computed);
    if (!op.loop)
        return ct_fail(error, CT_ERR_DTYPE, "%s: has no meaning for %s", info->name,
                       ct_dtype_name(op.computed));
    op.direct = compares || op.stored == op.computed;
    for (int i = 0; i < op.n_sources; i++) {
        op.source[i] = ct_reader_of(loops, &sources[i], selects && i == 0 ? CT_BOOL : op.computed);
        op.direct &= ct_reader_is_direct(&op.source[i]);
    }
    op.checked = (node->op == CT_MOD || node->op == CT_FLOORDIV) && ct_dtype_is_int(op.computed);
    if (compares) /* the loop writes bool whatever it computes with */
        op.stored = op.computed = out->dtype;
    int64_t numel = ct_shape_numel(&out->shape);
    ct_parallel(runtime->threads, numel, grain_of(node->op), operation_part, &op);
    if (op.failed)
        return ct_fail(error, CT_ERR_ARGUMENT, "%s: division by zero in %s", info->name,
                       ct_dtype_name(op.computed));
    return CT_OK;
}

/* ---- Copies --------------------------------------------------------------------------------- */

typedef struct copy {
    const ct_loops *loops;
    ct_reader source;
    ct_array out; /* coalesced with the source's array */
    int out_size;
    bool flat; /* out is in C order */
} copy;

static void copy_part(void *context, int64_t begin, int64_t end) {
    const copy *c = context;
    _Alignas(64) char scratch[CT_CHUNK * 8], raw[CT_CHUNK * 8];
    char *out = c->out.data;
    if (c->flat && ct_reader_is_direct(&c->source)) {
        const char *in = c->source.array.data;
        memcpy(out + (begin << c->out_size), in + (begin << c->out_size),
               (size_t)(end - begin) << c->out_size);
        return;
    }
    int last = c->out.shape.ndim - 1;
    int64_t stride = last >= 0 ? c->out.stride[last] : 1;
    walk w = walk_from(&c->out, begin);
    while (begin < end) {
        int64_t n = end - begin < CT_CHUNK ? end - begin : CT_CHUNK;
        if (c->flat) {
            char *to = out + (begin << c->out_size);
            const void *got = ct_reader_get(&c->source, begin, n, to, raw);
            if (got != to)
                memcpy(to, got, (size_t)n << c->out_size);
        } else {
            if (n > w.left)
                n = w.left;
            const void *got = ct_reader_get(&c->source, begin, n, scratch, raw);
            c->loops->scatter[c->out_size](out + w.offset * ((int64_t)1 << c->out_size), got,
                                           stride, n);
            w.offset += n * stride;
            w.left -= n;
            if (last >= 0)
                w.index[last] += n;
            if (w.left == 0)
                walk_next_run(&w, &c->out);
        }
        begin += n;
    }
}

/* A copy that turns rows into columns, by tiles that fit the nearest cache: out's last dimension
 * has stride 1, the source's dimension `rows` has. */
#define TILE 32
typedef struct transposition {
    const ct_loops *loops;
    ct_array out, in;
    int rows;
    int64_t row_tiles, column_tiles;
    int size;
} transposition;

static void transpose_part(void *context, int64_t begin, int64_t end) {
    const transposition *t = context;
    int last = t->out.shape.ndim - 1;
    int64_t height = t->out.shape.dim[t->rows], width = t->out.shape.dim[last];
    for (int64_t tile = begin; tile < end; tile++) {
        int64_t rest = tile, row = rest % t->row_tiles * TILE;
        rest /= t->row_tiles;
        int64_t column = rest % t->column_tiles * TILE;
        rest /= t->column_tiles;
        int64_t to = row * t->out.stride[t->rows] + column,
                from = row + column * t->in.stride[last];
        for (int d = last - 1; d >= 0; d--) {
            if (d == t->rows)
                continue;
            int64_t at = rest % t->out.shape.dim[d];
            rest /= t->out.shape.dim[d];
            to += at * t->out.stride[d];
            from += at * t->in.stride[d];
        }
        int64_t bytes = (int64_t)1 << t->size;
        t->loops->transpose[t->size]((char *)t->out.data + to * bytes, t->out.stride[t->rows],
                                     (const char *)t->in.data + from * bytes, t->in.stride[last],
                                     height - row < TILE ? height - row : TILE,
                                     width - column < TILE ? width - column : TILE);
    }
}

static bool transposes(ct_runtime *runtime, const ct_loops *loops, const ct_array arrays[2]) {
    transposition t = {.loops = loops, .out = arrays[0], .in = arrays[1], .rows = -1};
    int last = t.out.shape.ndim - 1;
    if (last < 1 || t.out.dtype != t.in.dtype || t.out.stride[last] != 1)
        return false;
    int64_t apart = t.in.stride[last];
    for (int d = 0; d < last; d++)
        if (t.in.stride[d] == 1 && t.out.shape.dim[d] >= 4)
            t.rows = d;
    if (t.rows < 0 || apart == 0 || apart == 1 || apart == -1 || t.out.shape.dim[last] < 4)
        return false;
    t.size = log2_size(t.out.dtype);
    t.row_tiles = (t.out.shape.dim[t.rows] + TILE - 1) / TILE;
    t.column_tiles = (t.out.shape.dim[last] + TILE - 1) / TILE;
    int64_t tiles = t.row_tiles * t.column_tiles;
    for (int d = 0; d < last; d++)
        if (d != t.rows)
            tiles *= t.out.shape.dim[d];
    ct_parallel(runtime->threads, tiles, 32, transpose_part, &t);
    return true;
}

/* Brings the dimensions into the order in which out lies: the order of a copy is free. */
static void sort_by_stride(ct_array arrays[2]) {
    ct_array *out = &arrays[0], *in = &arrays[1];
    for (int d = 1; d < out->shape.ndim; d++) {
        int64_t extent = out->shape.dim[d], to = out->stride[d], from = in->stride[d];
        int at = d;
        for (; at > 0; at--) {
            int64_t before = out->stride[at - 1];
            if ((before < 0 ? -before : before) >= (to < 0 ? -to : to))
                break;
            out->shape.dim[at] = in->shape.dim[at] = out->shape.dim[at - 1];
            out->stride[at] = before;
            in->stride[at] = in->stride[at - 1];
        }
        out->shape.dim[at] = in->shape.dim[at] = extent;
        out->stride[at] = to;
        in->stride[at] = from;
    }
}

ct_status ct_eager_copy(ct_runtime *runtime, const ct_array *out, const ct_array *in,
                        ct_error *error) {
    (void)error;
    int64_t numel = ct_shape_numel(&out->shape);
    if (numel == 0)
        return CT_OK;
    const ct_loops *loops = ct_loops_get();
    ct_array arrays[2] = {*out, *in};
    arrays[1].shape = arrays[0].shape;
    ct_arrays_coalesce(arrays, 2);
    if (arrays[0].shape.ndim > 1) {
        sort_by_stride(arrays);
        ct_arrays_coalesce(arrays, 2);
        if (transposes(runtime, loops, arrays))
            return CT_OK;
    }
    copy c = {.loops = loops, .out = arrays[0], .out_size = log2_size(out->dtype)};
    c.source = ct_reader_of(loops, &arrays[1], out->dtype);
    ct_array whole = arrays[0];
    ct_arrays_coalesce(&whole, 1);
    c.flat = whole.shape.ndim == 0 || (whole.shape.ndim == 1 && whole.stride[0] == 1);
    ct_parallel(runtime->threads, numel, 32 * CT_CHUNK, copy_part, &c);
    return CT_OK;
}
