// loops.c: the loop nest of a kernel. The innermost loop of MAP and ROWS kernels takes `lanes`
// elements a step, and what is left over one by one, in the same words and so with the same bits.
// In COLUMNS kernels the columns are the vector, and the loop over what is reduced is inside.
#include <stdarg.h>
#include <stdio.h>
#include <string.h>

#include "kernel/loops.h"
#include "kernel/order.h"
#include "kernel/short.h"

#define SHORTEST 2 /* elements of the shortest and the longest vector there is */
#define LONGEST 16
#define TILE 16    /* steps of the loop that a transposed load lies along */
#define STRETCH 64 /* and of the innermost one */

void ct_line_out(ct_nest *nest, const char *format, ...) {
    char line[4096];
    va_list arguments;
    va_start(arguments, format);
    vsnprintf(line, sizeof line, format, arguments);
    va_end(arguments);
    ct_put(nest->out, "%*s%s\n", 4 * nest->indent, "", line);
}

static bool in_memory(const ct_load *load) {
    return load->node->op != CT_IOTA;
}

int ct_load_slot(const ct_kernel *kernel, int load) {
    int slot = 0;
    if (!in_memory(&kernel->loads[load]))
        return -1;
    for (int i = 0; i < load; i++)
        slot += in_memory(&kernel->loads[i]);
    return slot;
}

int ct_store_slot(const ct_kernel *kernel, int member) {
    int slot = 0;
    if (!kernel->members[member].stored)
        return -1;
    for (int i = 0; i < kernel->n_loads; i++)
        slot += in_memory(&kernel->loads[i]);
    for (int i = 0; i < member; i++)
        slot += kernel->members[i].stored;
    return slot;
}

/* ---- what a pass needs ---- */

/* Whether the member's value comes, in this pass, from where an earlier pass left it. */
static bool is_left(const ct_nest *nest, const ct_member *member) {
    return member->stage < nest->pass && (member->kept || member->stored);
}

static void need_operands(ct_nest *nest, const ct_member *member) {
    for (int k = 0; k < member->operands; k++) {
        const ct_origin *operand = &member->operand[k];
        if (operand->kind == CT_OPERAND_LOAD)
            nest->needs_load[operand->index] = true;
        if (operand->kind == CT_OPERAND_MEMBER &&
            nest->kernel->members[operand->index].level == CT_LEVEL_FULL) {
            nest->needs_member[operand->index] = true;
        }
    }
}

/* The FULL members and loads that this pass computes; false where there is nothing to do. */
bool ct_find_needs(ct_nest *nest, int pass) {
    const ct_kernel *kernel = nest->kernel;
    bool any = false;
    nest->pass = pass;
    memset(nest->needs_member, 0, sizeof nest->needs_member);
    memset(nest->needs_load, 0, sizeof nest->needs_load);
    for (int i = 0; i < kernel->n_members; i++) {
        const ct_member *member = &kernel->members[i];
        if (member->stage != pass)
            continue;
        if (ct_is_reduction(member))
            need_operands(nest, member);
        else if (member->level == CT_LEVEL_FULL && (member->stored || member->kept))
            nest->needs_member[i] = true;
        else
            continue;
        any = true;
    }
    for (int i = kernel->n_members - 1; i >= 0; i--) {
        if (nest->needs_member[i] && !is_left(nest, &kernel->members[i]))
            need_operands(nest, &kernel->members[i]);
    }
    return any;
}

/* ---- reading and writing ---- */

void ct_put_load(ct_nest *nest, int index, int64_t stride) {
    const ct_load *load = &nest->kernel->loads[index];
    ct_dtype dtype = load->node->dtype;
    const char *word = ct_word(dtype), *type = ct_value_type(dtype, nest->vector),
               *at = nest->index;
    const char *form = ct_form(nest);
    if (!in_memory(load)) {
        const ct_attr *attr = &load->node->attr;
        if (attr->value.is_int && attr->step.is_int) {
            ct_line_out(nest, "const %s x%d = %s_IOTA_%s(b%d + %lld * %s, %lld, %lldLL, %lldLL);",
                        type, index, form, word, index, (long long)stride, at, (long long)stride,
                        (long long)attr->value.i, (long long)attr->step.i);
        } else {
            ct_line_out(nest, "const %s x%d = %s_STEPS_%s(b%d + %lld * %s, %lld, %a, %a);", type,
                        index, form, word, index, (long long)stride, at, (long long)stride,
                        attr->value.f, attr->step.f);
        }
    } else if (stride == 0) {
        if (nest->vector)
            ct_line_out(nest, "const %s x%d = SPLAT_%s(u%d);", type, index, word, index);
        else
            ct_line_out(nest, "const %s x%d = u%d;", type, index, index);
    } else if (!nest->vector) {
        if (stride == 1)
            ct_line_out(nest, "const %s x%d = GET_%s(b%d + %s);", type, index, ct_dtype_name(dtype),
                        index, at);
        else
            ct_line_out(nest, "const %s x%d = GET_%s(b%d + %s * %lld);", type, index,
                        ct_dtype_name(dtype), index, at, (long long)stride);
    } else if (stride == 1) {
        ct_line_out(nest, "const %s x%d = LOAD%d_%s(b%d + %s);", type, index, nest->width,
                    ct_dtype_name(dtype), index, at);
    } else {
        ct_line_out(nest, "const %s x%d = GATHER%d_%s(b%d + %s * %lld, %lld);", type, index,
                    nest->width, ct_dtype_name(dtype), index, at, (long long)stride,
                    (long long)stride);
    }
}

static const char *load_word(const ct_nest *nest) {
    return !nest->vector ? "GET" : nest->width == 4 ? "LOAD4" : "LOAD8";
}

static const char *store_word(const ct_nest *nest) {
    return !nest->vector ? "PUT" : nest->width == 4 ? "STORE4" : "STORE8";
}

static void put_store(ct_nest *nest, int index) {
    const ct_member *member = &nest->kernel->members[index];
    ct_line_out(nest, "%s_%s(%c%d + %s, m%d);", store_word(nest),
                ct_dtype_name(member->node->dtype), member->stored ? 'r' : 'k', index, nest->index,
                index);
}

/* Whether the load lies along `loop`, and not along the innermost one. */
static bool is_tiled(const ct_kernel *kernel, const ct_load *load, int loop) {
    int64_t inner = load->stride[kernel->n_loops - 1];
    return in_memory(load) && load->stride[loop] == 1 && inner != 0 && inner != 1;
}

/* One step of the innermost loop: loads, members, stores. `stride_of` is the loop whose strides
 * loads have here. */
static void put_step(ct_nest *nest, int loop) {
    const ct_kernel *kernel = nest->kernel;
    for (int i = 0; i < kernel->n_loads; i++) {
        if (nest->needs_load[i] && kernel->loads[i].level == CT_LEVEL_FULL) {
            bool turned = nest->tiled >= 0 && is_tiled(kernel, &kernel->loads[i], nest->tiled);
            ct_put_load(nest, i, turned ? 1 : kernel->loads[i].stride[loop]);
        }
    }
    for (int i = 0; i < kernel->n_members; i++) {
        const ct_member *member = &kernel->members[i];
        if (!nest->needs_member[i])
            continue;
        if (!is_left(nest, member)) {
            ct_render_member(nest, i);
        } else {
            ct_dtype dtype = member->node->dtype;
            ct_line_out(nest, "const %s m%d = %s_%s(%c%d + %s);",
                        ct_value_type(dtype, nest->vector), i, load_word(nest),
                        ct_dtype_name(dtype), member->stored ? 'r' : 'k', i, nest->index);
        }
    }
    for (int i = 0; i < kernel->n_members; i++) {
        const ct_member *member = &kernel->members[i];
        if (!nest->needs_member[i] || member->stage != nest->pass)
            continue;
        if (member->stored || member->kept)
            put_store(nest, i);
    }
}

/* ---- pointers ---- */

void ct_put_pointers(ct_nest *nest) {
    const ct_kernel *kernel = nest->kernel;
    for (int i = 0; i < kernel->n_loads; i++) {
        const ct_load *load = &kernel->loads[i];
        if (!in_memory(load))
            continue;
        ct_line_out(nest, "const %s *const a%d = (const %s *)p[%d] + %lld;",
                    ct_memory_type(load->node->dtype), i, ct_memory_type(load->node->dtype),
                    ct_load_slot(kernel, i), (long long)load->offset);
    }
    for (int i = 0; i < kernel->n_members; i++) {
        const ct_member *member = &kernel->members[i];
        if (!member->stored)
            continue;
        ct_line_out(nest, "%s *const w%d = p[%d];", ct_memory_type(member->node->dtype), i,
                    ct_store_slot(kernel, i));
    }
}

/* " + i0 * 128 + i1": where the outer loops have moved a load to. */
static void moved(const ct_nest *nest, const int64_t *stride, int loops, char *text, size_t size) {
    size_t used = 0;
    text[0] = '\0';
    for (int l = 0; l < loops && used < size; l++) {
        if (nest->kernel->loop[l] == 1 || stride[l] == 0)
            continue;
        used +=
            (size_t)snprintf(text + used, size - used, " + i%d * %lld", l, (long long)stride[l]);
    }
}

/* The counters i0, i1 ... of the outer loops but `skip`, taken from `from`. */
static void put_counters(ct_nest *nest, int loops, int skip, const char *from) {
    const ct_kernel *kernel = nest->kernel;
    int64_t below = 1;
    for (int l = loops - 1; l >= 0; l--) {
        if (kernel->loop[l] == 1 || l == skip)
            continue;
        bool first = true;
        for (int o = 0; o < l; o++)
            first = first && (kernel->loop[o] == 1 || o == skip);
        long long extent = (long long)kernel->loop[l];
        if (below == 1 && first)
            ct_line_out(nest, "const int64_t i%d = %s;", l, from);
        else if (below == 1)
            ct_line_out(nest, "const int64_t i%d = %s %% %lld;", l, from, extent);
        else if (first)
            ct_line_out(nest, "const int64_t i%d = %s / %lld;", l, from, (long long)below);
        else
            ct_line_out(nest, "const int64_t i%d = %s / %lld %% %lld;", l, from, (long long)below,
                        extent);
        below *= extent;
    }
}

void ct_put_counters(ct_nest *nest, int loops) {
    put_counters(nest, loops, -1, "row");
}

void ct_put_head(ct_nest *nest, int index, int loop, const char *at) {
    const ct_load *load = &nest->kernel->loads[index];
    long long stride = (long long)load->stride[loop];
    if (!in_memory(load)) {
        ct_line_out(nest, "const int64_t b%d = %lld + %s * %lld;", index, (long long)load->offset,
                    at, stride);
        return;
    }
    ct_line_out(nest, "const %s *const b%d = a%d + %s * %lld;", ct_memory_type(load->node->dtype),
                index, index, at, stride);
    if (load->stride[0] != 0)
        return;
    ct_line_out(nest, "const %s u%d = GET_%s(b%d);", ct_value_type(load->node->dtype, false), index,
                ct_dtype_name(load->node->dtype), index);
}

/* The address of each load at the head of the inner loop, and the value of those that stay the same
 * in it. */
void ct_put_heads(ct_nest *nest, int outer_loops, int loop, ct_level level) {
    const ct_kernel *kernel = nest->kernel;
    char text[512];
    for (int i = 0; i < kernel->n_loads; i++) {
        const ct_load *load = &kernel->loads[i];
        if (kernel->kind == CT_KERNEL_COLUMNS && load->level != level)
            continue;
        moved(nest, load->stride, outer_loops, text, sizeof text);
        if (!in_memory(load)) {
            ct_line_out(nest, "const int64_t b%d = %lld%s;", i, (long long)load->offset, text);
            if (load->level == CT_LEVEL_PART && kernel->kind == CT_KERNEL_ROWS) {
                bool vector = nest->vector;
                const char *index = nest->index;
                nest->vector = false;
                nest->index = "0";
                ct_put_load(nest, i, 0);
                nest->vector = vector;
                nest->index = index;
            }
            continue;
        }
        const char *type = ct_memory_type(load->node->dtype);
        ct_line_out(nest, "const %s *const b%d = a%d%s;", type, i, i, text);
        if (load->level == CT_LEVEL_PART && kernel->kind == CT_KERNEL_ROWS) {
            ct_line_out(nest, "const %s x%d = GET_%s(b%d);",
                        ct_value_type(load->node->dtype, false), i,
                        ct_dtype_name(load->node->dtype), i);
        } else if (load->stride[loop] == 0) {
            ct_line_out(nest, "const %s u%d = GET_%s(b%d);",
                        ct_value_type(load->node->dtype, false), i,
                        ct_dtype_name(load->node->dtype), i);
        }
    }
}

/* ---- MAP ---- */

/* The innermost loop from j to `bound`, which is at most n. */
static void put_inner(ct_nest *nest, const char *bound, long long n, bool whole) {
    int inner = nest->kernel->n_loops - 1;
    nest->index = "j";
    if (n >= SHORTEST) {
        nest->vector = true;
        ct_line_out(nest, "for (; j + W%d <= %s; j += W%d) {", nest->width, bound, nest->width);
        nest->indent++;
        put_step(nest, inner);
        nest->indent--;
        ct_line_out(nest, "}");
        nest->vector = false;
    }
    if (whole && n % LONGEST == 0)
        return;
    ct_line_out(nest, "for (; j < %s; j++) {", bound);
    nest->indent++;
    put_step(nest, inner);
    nest->indent--;
    ct_line_out(nest, "}");
}

int ct_tiled_loop(const ct_kernel *kernel) {
    int inner = kernel->n_loops - 1;
    if (kernel->kind != CT_KERNEL_MAP || kernel->loop[inner] < TILE / 2)
        return -1;
    for (int l = inner - 1; l >= 0; l--) {
        if (kernel->loop[l] < TILE / 2)
            continue;
        for (int i = 0; i < kernel->n_loads; i++) {
            if (is_tiled(kernel, &kernel->loads[i], l))
                return l;
        }
    }
    return -1;
}

int64_t ct_tiled_pieces(const ct_kernel *kernel, int loop) {
    return kernel->outer / kernel->loop[kernel->n_loops - 1] / kernel->loop[loop] *
           ((kernel->loop[loop] + TILE - 1) / TILE);
}

/* Some loads lie along loop `tiled` in memory, not along the innermost: TILE of its steps times
 * STRETCH of the innermost are turned round in a small array first, so that each cache line is
 * fetched once. */
static void put_tiles(ct_nest *nest, int tiled) {
    const ct_kernel *kernel = nest->kernel;
    int inner = kernel->n_loops - 1;
    long long n = (long long)kernel->loop[inner], extent = (long long)kernel->loop[tiled];
    long long blocks = (extent + TILE - 1) / TILE;
    char text[512], place[512];
    ct_line_out(nest, "for (int64_t piece = begin; piece < end; piece++) {");
    nest->indent++;
    ct_line_out(nest, "const int64_t rest = piece / %lld, q0 = piece %% %lld * %d;", blocks, blocks,
                TILE);
    ct_line_out(nest, "const int64_t q1 = q0 + %d < %lld ? q0 + %d : %lld;", TILE, extent, TILE,
                extent);
    put_counters(nest, inner, tiled, "rest");
    ct_line_out(nest, "for (int64_t j0 = 0; j0 < %lld; j0 += %d) {", n, STRETCH);
    nest->indent++;
    ct_line_out(nest, "const int64_t count = %lld - j0 < %d ? %lld - j0 : %d;", n, STRETCH, n,
                STRETCH);
    for (int i = 0; i < kernel->n_loads; i++) {
        const ct_load *load = &kernel->loads[i];
        if (!is_tiled(kernel, load, tiled))
            continue;
        int64_t stride[CT_MAX_LOOPS];
        memcpy(stride, load->stride, sizeof stride);
        stride[tiled] = 0;
        moved(nest, stride, inner, text, sizeof text);
        ct_line_out(nest, "%s tile%d[%d][%d];", ct_memory_type(load->node->dtype), i, TILE,
                    STRETCH);
        ct_line_out(nest, "for (int64_t t = 0; t < count; t++)");
        ct_line_out(
            nest,
            "    for (int64_t q = q0; q < q1; q++) tile%d[q - q0][t] = a%d[q + (j0 + t) * %lld%s];",
            i, i, (long long)load->stride[inner], text);
    }
    ct_line_out(nest, "for (int64_t i%d = q0; i%d < q1; i%d++) {", tiled, tiled, tiled);
    nest->indent++;
    for (int i = 0; i < kernel->n_loads; i++) {
        const ct_load *load = &kernel->loads[i];
        const char *type = ct_memory_type(load->node->dtype);
        long long along = (long long)load->stride[inner];
        moved(nest, load->stride, inner, text, sizeof text);
        if (is_tiled(kernel, load, tiled)) {
            ct_line_out(nest, "const %s *const b%d = tile%d[i%d - q0];", type, i, i, tiled);
        } else if (!in_memory(load)) {
            ct_line_out(nest, "const int64_t b%d = %lld%s + j0 * %lld;", i, (long long)load->offset,
                        text, along);
        } else {
            ct_line_out(nest, "const %s *const b%d = a%d%s + j0 * %lld;", type, i, i, text, along);
            if (along == 0) {
                ct_line_out(nest, "const %s u%d = GET_%s(b%d);",
                            ct_value_type(load->node->dtype, false), i,
                            ct_dtype_name(load->node->dtype), i);
            }
        }
    }
    int64_t order[CT_MAX_LOOPS], below = n;
    for (int l = inner - 1; l >= 0; l--) {
        order[l] = below;
        below *= kernel->loop[l];
    }
    moved(nest, order, inner, place, sizeof place);
    for (int i = 0; i < kernel->n_members; i++) {
        const ct_member *member = &kernel->members[i];
        if (!member->stored)
            continue;
        ct_line_out(nest, "%s *const r%d = w%d%s + j0;", ct_memory_type(member->node->dtype), i, i,
                    place);
    }
    ct_line_out(nest, "int64_t j = 0;");
    nest->tiled = tiled;
    put_inner(nest, "count", n, n % STRETCH == 0);
    nest->tiled = -1;
    for (int depth = 0; depth < 3; depth++) {
        nest->indent--;
        ct_line_out(nest, "}");
    }
}

static void put_map(ct_nest *nest) {
    const ct_kernel *kernel = nest->kernel;
    int inner = kernel->n_loops - 1, tiled = ct_tiled_loop(kernel);
    bool rows = kernel->n_loops > 1;
    ct_find_needs(nest, 0);
    ct_put_pointers(nest);
    if (tiled >= 0) {
        put_tiles(nest, tiled);
        return;
    }
    if (rows) {
        ct_line_out(nest, "for (int64_t row = begin; row < end; row++) {");
        nest->indent++;
        ct_put_counters(nest, inner);
    }
    ct_put_heads(nest, inner, inner, CT_LEVEL_FULL);
    long long n = (long long)kernel->loop[inner];
    for (int i = 0; i < kernel->n_members; i++) {
        const ct_member *member = &kernel->members[i];
        if (!member->stored)
            continue;
        if (rows)
            ct_line_out(nest, "%s *const r%d = w%d + row * %lld;",
                        ct_memory_type(member->node->dtype), i, i, n);
        else
            ct_line_out(nest, "%s *const r%d = w%d;", ct_memory_type(member->node->dtype), i, i);
    }
    ct_line_out(nest, "int64_t j = %s;", rows ? "0" : "begin");
    char bound[32];
    snprintf(bound, sizeof bound, rows ? "%lld" : "end", n);
    put_inner(nest, bound, n, rows);
    if (rows) {
        nest->indent--;
        ct_line_out(nest, "}");
    }
}

/* ---- ROWS ---- */

/* PART members that are known before the pass, and what they store. */
static void put_parts(ct_nest *nest, int pass) {
    const ct_kernel *kernel = nest->kernel;
    for (int i = 0; i < kernel->n_members; i++) {
        const ct_member *member = &kernel->members[i];
        if (member->level != CT_LEVEL_PART || member->stage != pass || ct_is_reduction(member))
            continue;
        ct_render_member(nest, i);
        if (member->stored)
            ct_line_out(nest, "PUT_%s(w%d + row, m%d);", ct_dtype_name(member->node->dtype), i, i);
    }
}

static void put_rows(ct_nest *nest) {
    const ct_kernel *kernel = nest->kernel;
    int inner = kernel->n_loops - 1;
    long long n = (long long)kernel->reduced;
    ct_put_pointers(nest);
    for (int i = 0; i < kernel->n_members; i++) {
        const ct_member *member = &kernel->members[i];
        if (!member->kept || member->stored)
            continue;
        ct_line_out(nest, "_Alignas(64) %s k%d[%lld];", ct_memory_type(member->node->dtype), i, n);
    }
    if (ct_is_short(kernel)) {
        ct_put_short_rows(nest);
        ct_line_out(nest, "for (; row < end; row++) {");
    } else {
        ct_line_out(nest, "for (int64_t row = begin; row < end; row++) {");
    }
    nest->indent++;
    ct_put_counters(nest, inner);
    ct_put_heads(nest, inner, inner, CT_LEVEL_FULL);
    for (int i = 0; i < kernel->n_members; i++) {
        const ct_member *member = &kernel->members[i];
        if (!member->stored || member->level != CT_LEVEL_FULL)
            continue;
        ct_line_out(nest, "%s *const r%d = w%d + row * %lld;", ct_memory_type(member->node->dtype),
                    i, i, n);
    }
    nest->index = "j";
    for (int pass = 0; pass < kernel->stages; pass++) {
        put_parts(nest, pass);
        if (!ct_find_needs(nest, pass))
            continue;
        ct_order_rows(nest, put_step, inner);
        for (int i = 0; i < kernel->n_members; i++) {
            const ct_member *member = &kernel->members[i];
            if (!ct_is_reduction(member) || member->stage != pass || !member->stored)
                continue;
            ct_line_out(nest, "PUT_%s(w%d + row, m%d);", ct_dtype_name(member->node->dtype), i, i);
        }
    }
    nest->indent--;
    ct_line_out(nest, "}");
}

static int width_of(const ct_kernel *kernel) {
    size_t widest = 4;
    for (int i = 0; i < kernel->n_members; i++) {
        const ct_node *node = kernel->members[i].node;
        if (ct_dtype_size(node->dtype) > widest)
            widest = ct_dtype_size(node->dtype);
        for (int k = 0; k < node->n_sources; k++) {
            if (ct_dtype_size(node->sources[k]->dtype) > widest)
                widest = ct_dtype_size(node->sources[k]->dtype);
        }
    }
    return (int)widest;
}

void ct_render_kernel(ct_text *out, const ct_plan *plan, const ct_kernel *kernel,
                      const char *name) {
    ct_nest nest = {
        .out = out, .plan = plan, .kernel = kernel, .width = width_of(kernel), .tiled = -1};
    ct_line_out(&nest, "static void %s(void *context, int64_t begin, int64_t end) {", name);
    nest.indent = 1;
    ct_line_out(&nest, "void **const p = context;");
    switch (kernel->kind) {
    case CT_KERNEL_MAP: put_map(&nest); break;
    case CT_KERNEL_ROWS: put_rows(&nest); break;
    case CT_KERNEL_COLUMNS: ct_order_columns(&nest, put_step); break;
    case CT_KERNEL_CALL: break;
    }
    nest.indent = 0;
    ct_line_out(&nest, "}");
}
