/* reduce.c: reductions and cumulative sums. What is combined with what is said by graph/reduce.h;
 * this file finds the elements and shares the work: a task is one block of one result, or of a
 * strip of neighbouring results where the elements of each lie far apart. Blocks' results go to a
 * table (block, result), which is combined at the end. */
#include <string.h>

#include "base/error.h"
#include "base/threads.h"
#include "eager/eager.h"
#include "eager/elementwise.h"
#include "graph/reduce.h"

typedef struct reduction {
    const ct_loops *loops;
    const ct_reduction *steps;
    ct_array kept,
        reduced; /* the dimensions of the source that stay, and those that go; coalesced */
    ct_dtype from, computed;
    int64_t from_size, size; /* bytes of an element of the source, of a result */
    int64_t results, elements, blocks, strips;
    char *table; /* (blocks, results) */
    bool flat;   /* the elements of one result lie side by side */
} reduction;

static int64_t offset_of(const ct_array *a, int64_t number) {
    int64_t offset = 0;
    for (int d = a->shape.ndim - 1; d >= 0; d--) {
        offset += number % a->shape.dim[d] * a->stride[d];
        number /= a->shape.dim[d];
    }
    return offset;
}

static int64_t block_length(const reduction *r, int64_t block) {
    int64_t left = r->elements - block * CT_BLOCK;
    return left < CT_BLOCK ? left : CT_BLOCK;
}

/* Tasks (result, block). */
static void rows_part(void *context, int64_t begin, int64_t end) {
    const reduction *r = context;
    _Alignas(64) char scratch[CT_BLOCK * 8];
    char raw[CT_BLOCK * 2]; /* half types alone change on the way */
    ct_reader reader = ct_reader_of(r->loops, &r->reduced, r->computed);
    const char *data = r->reduced.data;
    for (int64_t task = begin; task < end; task++) {
        int64_t result = task / r->blocks, block = task % r->blocks, n = block_length(r, block);
        reader.array.data = (char *)(uintptr_t)(data + offset_of(&r->kept, result) * r->from_size);
        const void *in = ct_reader_get(&reader, block * CT_BLOCK, n, scratch, raw);
        r->steps->block(in, 0, n, 1, r->table + (block * r->results + result) * r->size);
    }
}

/* Rows of so few elements are turned into columns first: each element is a lane of its own. */
#define SHORT 32

/* Results of one block each, from elements that lie as they are computed with, the same distance
 * apart. */
static void flat_part(void *context, int64_t begin, int64_t end) {
    const reduction *r = context;
    int64_t stride = r->kept.shape.ndim ? r->kept.stride[0] : 0;
    if (r->elements <= SHORT) {
        _Alignas(64) char lanes[SHORT * CT_STRIP * 8];
        for (int64_t i = begin; i < end; i += CT_STRIP) {
            int64_t width = end - i < CT_STRIP ? end - i : CT_STRIP;
            r->loops->transpose[__builtin_ctzll((uint64_t)r->size)](
                lanes, CT_STRIP, (const char *)r->reduced.data + i * stride * r->size, stride,
                r->elements, width);
            r->steps->fold(lanes, r->elements, width, r->table + i * r->size);
        }
        return;
    }
    r->steps->block((const char *)r->reduced.data + begin * stride * r->size, stride, r->elements,
                    end - begin, r->table + begin * r->size);
}

/* The next `count` elements of every column of a strip, as
 * they are computed with, CT_STRIP apart. */
static void collect_rows(const reduction *r, const char *data, int64_t first, int64_t count,
                         int64_t width, char *rows) {
    for (int64_t i = 0; i < count; i++) {
        const char *row = data + offset_of(&r->reduced, first + i) * r->from_size;
        char *to = rows + i * CT_STRIP * r->size;
        if (r->from == r->computed)
            memcpy(to, row, (size_t)(width * r->size));
        else
            r->loops->convert[r->from][r->computed](to, row, width);
    }
}

/* Tasks (strip, block). */
static void columns_part(void *context, int64_t begin, int64_t end) {
    const reduction *r = context;
    _Alignas(64) char lanes[CT_LANES * CT_STRIP * 8], rows[CT_LANES * CT_STRIP * 8];
    int last = r->kept.shape.ndim - 1;
    int64_t columns = r->kept.shape.dim[last], strips = (columns + CT_STRIP - 1) / CT_STRIP;
    bool as_they_lie = r->from == r->computed && r->reduced.shape.ndim == 1;
    for (int64_t task = begin; task < end; task++) {
        /* neighbouring strips one after the other, so that a row is read to its end */
        int64_t strip = task % r->strips, block = task / r->strips, n = block_length(r, block);
        int64_t column = strip % strips * CT_STRIP, outer = strip / strips;
        int64_t width = columns - column < CT_STRIP ? columns - column : CT_STRIP;
        int64_t result = outer * columns + column;
        const char *data =
            (const char *)r->reduced.data + offset_of(&r->kept, result) * r->from_size;
        for (int64_t i = 0; i < n; i += CT_LANES) {
            int64_t count = n - i < CT_LANES ? n - i : CT_LANES, first = block * CT_BLOCK + i;
            if (as_they_lie) {
                int64_t stride = r->reduced.stride[0];
                r->steps->rows(lanes, data + first * stride * r->size, stride, count, width,
                               i == 0);
            } else {
                collect_rows(r, data, first, count, width, rows);
                r->steps->rows(lanes, rows, CT_STRIP, count, width, i == 0);
            }
        }
        r->steps->fold(lanes, n, width, r->table + (block * r->results + result) * r->size);
    }
}

/* Combines the table's rows into its first, pairwise as blocks come. */
static void combine_part(void *context, int64_t begin, int64_t end) {
    const reduction *r = context;
    int64_t stack[CT_LEVELS], row = r->results * r->size;
    int depth = 0;
    char *table = r->table + begin * r->size;
    for (int64_t block = 0; block < r->blocks; block++) {
        stack[depth++] = block;
        for (int64_t count = block + 1; count % 2 == 0; count /= 2, depth--)
            r->steps->combine(table + stack[depth - 2] * row, table + stack[depth - 1] * row,
                              end - begin);
    }
    for (; depth > 1; depth--)
        r->steps->combine(table + stack[depth - 2] * row, table + stack[depth - 1] * row,
                          end - begin);
}

/* The source's dimensions that are reduced, or those that are not. */
static ct_array dimensions(const ct_array *in, uint32_t axes, bool reduced) {
    ct_array a = *in;
    a.shape.ndim = 0;
    for (int d = 0; d < in->shape.ndim; d++)
        if ((axes >> d & 1) == reduced) {
            a.shape.dim[a.shape.ndim] = in->shape.dim[d];
            a.stride[a.shape.ndim++] = in->stride[d];
        }
    ct_arrays_coalesce(&a, 1);
    return a;
}

static int64_t grain_of(int64_t work_of_one) {
    int64_t grain = 32768 / (work_of_one + 1);
    return grain < 1 ? 1 : grain;
}

static void reduce_into_table(ct_runtime *runtime, reduction *r) {
    int kept = r->kept.shape.ndim, reduced = r->reduced.shape.ndim;
    bool side_by_side = reduced == 0 || r->reduced.stride[reduced - 1] == 1;
    int64_t block = r->elements < CT_BLOCK ? r->elements : CT_BLOCK;
    if (!side_by_side && kept > 0 && r->kept.stride[kept - 1] == 1) {
        int64_t columns = r->kept.shape.dim[kept - 1];
        r->strips = r->results / columns * ((columns + CT_STRIP - 1) / CT_STRIP);
        int64_t width = columns < CT_STRIP ? columns : CT_STRIP;
        ct_parallel(runtime->threads, r->strips * r->blocks, grain_of(block * width), columns_part,
                    r);
    } else if (side_by_side && reduced <= 1 && kept <= 1 && r->blocks == 1 &&
               r->from == r->computed) {
        ct_parallel(runtime->threads, r->results, grain_of(block), flat_part, r);
    } else {
        ct_parallel(runtime->threads, r->results * r->blocks, grain_of(block), rows_part, r);
    }
    if (r->blocks > 1)
        ct_parallel(runtime->threads, r->results, grain_of(r->blocks), combine_part, r);
}

/* Reductions of nothing: 0, 1, or an error. */
static ct_status reduce_nothing(ct_runtime *runtime, const ct_node *node, const ct_array *out,
                                ct_error *error) {
    if (node->op != CT_SUM && node->op != CT_PROD)
        return ct_fail(error, CT_ERR_SHAPE, "%s: over a dimension of extent 0, which has none",
                       ct_op_table[node->op].name);
    _Alignas(8) char element[8];
    ct_array in = {.dtype = out->dtype, .shape = out->shape, .data = element};
    ct_scalar_store(ct_scalar_int(node->op == CT_PROD), out->dtype, element);
    return ct_eager_copy(runtime, out, &in, error);
}

/* ---- Places of the largest and the smallest ------------------------------------------------- */

typedef struct search {
    reduction r;
    int smallest;
    int64_t *out;
} search;

static void search_part(void *context, int64_t begin, int64_t end) {
    const search *s = context;
    const reduction *r = &s->r;
    _Alignas(64) char scratch[CT_BLOCK * 8];
    char raw[CT_BLOCK * 2];
    ct_reader reader = ct_reader_of(r->loops, &r->reduced, r->computed);
    const char *data = r->reduced.data;
    for (int64_t result = begin; result < end; result++) {
        _Alignas(8) char best[8] = {0};
        int64_t index = 0;
        reader.array.data = (char *)(uintptr_t)(data + offset_of(&r->kept, result) * r->from_size);
        for (int64_t i = 0; i < r->elements; i += CT_BLOCK) {
            int64_t n = block_length(r, i / CT_BLOCK);
            const void *in = ct_reader_get(&reader, i, n, scratch, raw);
            r->loops->argument[s->smallest][r->computed](in, n, i, i == 0, best, &index);
        }
        s->out[result] = index;
    }
}

ct_status ct_eager_reduce(ct_runtime *runtime, const ct_node *node, const ct_array *out,
                          const ct_array *sources, ct_error *error) {
    const ct_array *in = &sources[0];
    bool argument = node->op == CT_ARGMAX || node->op == CT_ARGMIN;
    /* sums of integers are int64 whatever they are read from */
    ct_dtype due = argument ? in->dtype : out->dtype;
    reduction r = {.loops = ct_loops_get(), .from = in->dtype, .computed = ct_computed(due)};
    r.results = ct_shape_numel(&out->shape);
    r.elements = 1;
    for (int d = 0; d < in->shape.ndim; d++)
        if (node->attr.axes >> d & 1)
            r.elements *= in->shape.dim[d];
    if (r.results == 0)
        return CT_OK;
    if (r.elements == 0)
        return reduce_nothing(runtime, node, out, error);
    r.kept = dimensions(in, node->attr.axes, false);
    r.reduced = dimensions(in, node->attr.axes, true);
    r.blocks = (r.elements + CT_BLOCK - 1) / CT_BLOCK;
    r.from_size = (int64_t)ct_dtype_size(r.from);
    r.size = (int64_t)ct_dtype_size(r.computed);
    if (argument) {
        search s = {.r = r, .smallest = node->op == CT_ARGMIN, .out = out->data};
        ct_parallel(runtime->threads, r.results, grain_of(r.elements), search_part, &s);
        return CT_OK;
    }
    static const uint8_t number[CT_OPS] = {[CT_SUM] = CT_REDUCE_SUM,
                                           [CT_PROD] = CT_REDUCE_PROD,
                                           [CT_MAX] = CT_REDUCE_MAX,
                                           [CT_MIN] = CT_REDUCE_MIN};
    r.steps = &r.loops->reduction[number[node->op]][r.computed];

    int64_t bytes = r.blocks * r.results * r.size;
    bool in_place = r.blocks == 1 && r.computed == out->dtype;
    r.table = in_place ? out->data : ct_heap_take(runtime->heap, bytes);
    if (!r.table)
        return ct_fail(error, CT_ERR_MEMORY, "%s: out of memory for %lld bytes of partial results",
                       ct_op_table[node->op].name, (long long)bytes);
    reduce_into_table(runtime, &r);
    ct_status status = CT_OK;
    if (!in_place) {
        ct_array table = *out;
        table.dtype = r.computed;
        table.data = r.table;
        status = ct_eager_copy(runtime, out, &table, error);
        ct_heap_give(runtime->heap, r.table, bytes);
    }
    return status;
}

/* ---- Cumulative sums: one line after the other, element by element -------------------------- */

typedef struct scan {
    const ct_loops *loops;
    ct_reader source;
    ct_dtype computed, stored;
    int64_t extent, inner; /* of the axis, and the elements behind each of its positions */
    char *out;
} scan;

static void store(const scan *s, int64_t at, const void *values, int64_t n) {
    int64_t size = (int64_t)ct_dtype_size(s->stored);
    if (s->computed == s->stored)
        memcpy(s->out + at * size, values, (size_t)(n * size));
    else
        s->loops->convert[s->computed][s->stored](s->out + at * size, values, n);
}

/* Lines along the last dimension. */
static void lines_part(void *context, int64_t begin, int64_t end) {
    const scan *s = context;
    _Alignas(64) char scratch[CT_CHUNK * 8], raw[CT_CHUNK * 8], sums[CT_CHUNK * 8];
    for (int64_t line = begin; line < end; line++) {
        _Alignas(8) char carry[8] = {0};
        for (int64_t i = 0; i < s->extent; i += CT_CHUNK) {
            int64_t n = s->extent - i < CT_CHUNK ? s->extent - i : CT_CHUNK,
                    at = line * s->extent + i;
            s->loops->scan[s->computed](sums, ct_reader_get(&s->source, at, n, scratch, raw), n,
                                        i == 0, carry);
            store(s, at, sums, n);
        }
    }
}

/* Strips of neighbouring lines: each row is added to the sums so far. */
static void strips_part(void *context, int64_t begin, int64_t end) {
    const scan *s = context;
    _Alignas(64) char scratch[CT_CHUNK * 8], raw[CT_CHUNK * 8], sums[CT_CHUNK * 8];
    int64_t strips = (s->inner + CT_CHUNK - 1) / CT_CHUNK;
    for (int64_t task = begin; task < end; task++) {
        int64_t column = task % strips * CT_CHUNK,
                first = task / strips * s->extent * s->inner + column;
        int64_t n = s->inner - column < CT_CHUNK ? s->inner - column : CT_CHUNK;
        for (int64_t i = 0; i < s->extent; i++) {
            int64_t at = first + i * s->inner;
            const void *row = ct_reader_get(&s->source, at, n, scratch, raw);
            if (i == 0)
                memcpy(sums, row, (size_t)n * ct_dtype_size(s->computed));
            else
                s->loops->op[CT_ADD][s->computed](sums, (const void *[]){sums, row}, n);
            store(s, at, sums, n);
        }
    }
}

ct_status ct_eager_scan(ct_runtime *runtime, const ct_node *node, const ct_array *out,
                        const ct_array *sources, ct_error *error) {
    (void)error;
    int64_t numel = ct_shape_numel(&out->shape);
    if (numel == 0)
        return CT_OK;
    scan s = {
        .loops = ct_loops_get(), .stored = out->dtype, .out = out->data, .extent = 1, .inner = 1};
    s.computed = ct_computed(out->dtype);
    s.source = ct_reader_of(s.loops, &sources[0], s.computed);
    if (out->shape.ndim > 0)
        s.extent = out->shape.dim[node->attr.axis];
    for (int d = node->attr.axis + 1; d < out->shape.ndim; d++)
        s.inner *= out->shape.dim[d];
    if (s.inner == 1) {
        ct_parallel(runtime->threads, numel / s.extent, grain_of(s.extent), lines_part, &s);
    } else {
        int64_t strips = (s.inner + CT_CHUNK - 1) / CT_CHUNK,
                width = s.inner < CT_CHUNK ? s.inner : CT_CHUNK;
        ct_parallel(runtime->threads, numel / (s.extent * s.inner) * strips,
                    grain_of(s.extent * width), strips_part, &s);
    }
    return CT_OK;
}
