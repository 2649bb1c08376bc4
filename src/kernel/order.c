// order.c: reductions inside kernels, in the order of graph/reduce.h: element i of a block of 4096
// goes to lane i % 64, lanes are folded in halves, blocks like the carries of a counter. A lane
// that no element reached holds what leaves the other operand as it is, so folding all 64 gives the
// bits of folding those that were reached.
#include "kernel/order.h"

#include <stdio.h>

#include "kernel/short.h"

#define LANES 64
#define BLOCK 4096
#define STRIP 64 /* columns side by side */

bool ct_is_reduction(const ct_member *member) {
    return ct_op_table[member->node->op].class == CT_CLASS_REDUCE;
}

bool ct_order_renders(const ct_node *node) {
    ct_dtype dtype = node->sources[0]->dtype;
    bool known =
        node->op == CT_SUM || node->op == CT_PROD || node->op == CT_MAX || node->op == CT_MIN;
    return known && node->sources[0]->op != CT_CONST && dtype == node->dtype && dtype != CT_BOOL &&
           dtype != CT_FLOAT16 && dtype != CT_BFLOAT16;
}

static const char *start_of(ct_op op, ct_dtype dtype) {
    static const char *const least[] = {
        "0", "0", "-128", "-32768", "(-2147483647 - 1)", "(-9223372036854775807 - 1)"};
    static const char *const most[] = {"1",     "255",        "127",
                                       "32767", "2147483647", "9223372036854775807"};
    bool is_float = ct_dtype_is_float(dtype);
    switch (op) {
    case CT_SUM: return is_float ? "CT_SUM_START" : "0";
    case CT_PROD: return "1";
    case CT_MAX: return is_float ? "-__builtin_inff()" : least[dtype];
    default: return is_float ? "__builtin_inff()" : most[dtype];
    }
}

void ct_order_operation(ct_text *out, ct_op op, ct_dtype dtype) {
    const ct_op_info *info = &ct_op_table[op];
    ct_put(out, "CT_REDUCTION(%s, %s, %s, %s)\n", info->name, ct_word(dtype), start_of(op, dtype),
           ct_dtype_is_float(dtype) ? info->float_expression : info->int_expression);
}

/* The name of what a reduction reads. */
static void source_name(const ct_member *member, char text[16]) {
    const ct_origin *operand = &member->operand[0];
    snprintf(text, 16, "%c%d", operand->kind == CT_OPERAND_MEMBER ? 'm' : 'x', operand->index);
}

static bool ends_here(const ct_nest *nest, const ct_member *member) {
    return ct_is_reduction(member) && member->stage == nest->pass;
}

static const char *splat_start(const ct_member *member, char text[96]) {
    ct_dtype dtype = member->node->dtype;
    snprintf(text, 96, "SPLAT_%s(%s)", ct_word(dtype), start_of(member->node->op, dtype));
    return text;
}

/* ---- rows ---- */

static void combine_vectors(ct_nest *nest) {
    for (int i = 0; i < nest->kernel->n_members; i++) {
        const ct_member *member = &nest->kernel->members[i];
        char name[16];
        if (!ends_here(nest, member))
            continue;
        source_name(member, name);
        ct_line_out(nest, "t%d[u] = ct_%s_%sv(t%d[u], %s);", i, ct_op_table[member->node->op].name,
                    ct_word(member->node->dtype), i, name);
    }
}

static void combine_scalars(ct_nest *nest) {
    for (int i = 0; i < nest->kernel->n_members; i++) {
        const ct_member *member = &nest->kernel->members[i];
        char name[16];
        if (!ends_here(nest, member))
            continue;
        source_name(member, name);
        ct_line_out(nest, "l%d[%s %% 64] = ct_%s_%s(l%d[%s %% 64], %s);", i, nest->index,
                    ct_op_table[member->node->op].name, ct_word(member->node->dtype), i,
                    nest->index, name);
    }
}

/* Whether a vector step of the kernel fills a register of this type. */
static bool fills(const ct_nest *nest, ct_dtype dtype) {
    return ct_dtype_size(dtype) == (size_t)nest->width;
}

/* The lanes as an array of elements l<i>, from the vectors t<i>. */
static void spill(ct_nest *nest, int i) {
    ct_dtype dtype = nest->kernel->members[i].node->dtype;
    ct_line_out(nest, "_Alignas(64) %s l%d[64];", ct_memory_type(dtype), i);
    ct_line_out(nest, "for (int u = 0; u < 64 / W%d; u++) STORE%d_%s(l%d + u * W%d, t%d[u]);",
                nest->width, nest->width, ct_dtype_name(dtype), i, nest->width, i);
}

static void vector_steps(ct_nest *nest, void (*step)(ct_nest *nest, int loop), int loop,
                         const char *head) {
    nest->vector = true;
    ct_line_out(nest, "#pragma GCC unroll 16");
    ct_line_out(nest, "%s", head);
    nest->indent++;
    step(nest, loop);
    combine_vectors(nest);
    nest->indent--;
    ct_line_out(nest, "}");
    nest->vector = false;
}

/* A row of few elements: one lane each, no vectors. */
static void put_short(ct_nest *nest, void (*step)(ct_nest *nest, int loop), int loop) {
    const ct_kernel *kernel = nest->kernel;
    long long n = (long long)kernel->reduced;
    char name[16];
    for (int i = 0; i < kernel->n_members; i++) {
        const ct_member *member = &kernel->members[i];
        if (ends_here(nest, member))
            ct_line_out(nest, "%s l%d[%lld];", ct_value_type(member->node->dtype, false), i, n);
    }
    ct_line_out(nest, "for (; %s < %lld; %s++) {", nest->index, n, nest->index);
    nest->indent++;
    step(nest, loop);
    for (int i = 0; i < kernel->n_members; i++) {
        const ct_member *member = &kernel->members[i];
        if (!ends_here(nest, member))
            continue;
        source_name(member, name);
        ct_line_out(nest, "l%d[%s] = %s;", i, nest->index, name);
    }
    nest->indent--;
    ct_line_out(nest, "}");
    for (int i = 0; i < kernel->n_members; i++) {
        const ct_member *member = &kernel->members[i];
        if (!ends_here(nest, member))
            continue;
        ct_line_out(nest, "for (int half = %d; half > 0; half /= 2)",
                    n > 8   ? 8
                    : n > 4 ? 4
                    : n > 2 ? 2
                            : 1);
        ct_line_out(nest, "    for (int l = 0; l < half && l + half < %lld; l++)", n);
        ct_line_out(nest, "        l%d[l] = ct_%s_%s(l%d[l], l%d[l + half]);", i,
                    ct_op_table[member->node->op].name, ct_word(member->node->dtype), i, i);
        ct_line_out(nest, "const %s m%d = l%d[0];", ct_value_type(member->node->dtype, false), i,
                    i);
    }
}

/* Elements j to `end` of one block; leaves the lanes' result in m<i> (declared before where
 * `blocks`). */
static void put_block(ct_nest *nest, void (*step)(ct_nest *nest, int loop), int loop,
                      const char *end, bool blocks) {
    const ct_kernel *kernel = nest->kernel;
    long long n = (long long)kernel->reduced;
    char head[160], text[96];
    const char *j = nest->index;
    int w = nest->width;
    bool any = false;
    for (int i = 0; i < kernel->n_members; i++) {
        const ct_member *member = &kernel->members[i];
        if (!ends_here(nest, member))
            continue;
        any = true;
        ct_line_out(nest, "%s t%d[64 / W%d];", ct_value_type(member->node->dtype, true), i, w);
        ct_line_out(nest, "for (int u = 0; u < 64 / W%d; u++) t%d[u] = %s;", w, i,
                    splat_start(member, text));
    }
    if (any && n >= LANES) {
        ct_line_out(nest, "for (; %s + 64 <= %s;)", j, end);
        nest->indent++;
        snprintf(head, sizeof head, "for (int u = 0; u < 64 / W%d; u++, %s += W%d) {", w, j, w);
        vector_steps(nest, step, loop, head);
        nest->indent--;
    }
    if (!any || blocks || n % LANES != 0) {
        snprintf(head, sizeof head, "for (int u = 0; %s + W%d <= %s; u++, %s += W%d) {", j, w, end,
                 j, w);
        vector_steps(nest, step, loop, head);
    }
    bool tail = n % 16 != 0;
    for (int i = 0; i < kernel->n_members; i++) {
        if (ends_here(nest, &kernel->members[i]) &&
            (tail || !fills(nest, kernel->members[i].node->dtype)))
            spill(nest, i);
    }
    if (tail) {
        ct_line_out(nest, "for (; %s < %s; %s++) {", j, end, j);
        nest->indent++;
        step(nest, loop);
        combine_scalars(nest);
        nest->indent--;
        ct_line_out(nest, "}");
    }
    for (int i = 0; i < kernel->n_members; i++) {
        const ct_member *member = &kernel->members[i];
        if (!ends_here(nest, member))
            continue;
        ct_dtype dtype = member->node->dtype;
        const char *name = ct_op_table[member->node->op].name, *word = ct_word(dtype);
        bool spilled = tail || !fills(nest, dtype);
        char lanes[64];
        snprintf(lanes, sizeof lanes, spilled ? "(const %sv *)l%d" : "(const %sv *)t%d",
                 ct_value_type(dtype, false), i);
        if (!blocks) {
            ct_line_out(nest, "const %s m%d = ct_%s_%s_lanes(%s);", ct_value_type(dtype, false), i,
                        name, word, lanes);
        } else {
            ct_line_out(nest, "CARRY(c%d, d%d, ct_%s_%s_lanes(%s), ct_%s_%s)", i, i, name, word,
                        lanes, name, word);
        }
    }
}

void ct_order_rows(ct_nest *nest, void (*step)(ct_nest *nest, int loop), int loop) {
    const ct_kernel *kernel = nest->kernel;
    bool blocks = false;
    for (int i = 0; i < kernel->n_members && kernel->reduced > BLOCK; i++) {
        const ct_member *member = &kernel->members[i];
        if (!ends_here(nest, member))
            continue;
        blocks = true;
        ct_line_out(nest, "%s c%d[CT_LEVELS], m%d;", ct_value_type(member->node->dtype, false), i,
                    i);
        ct_line_out(nest, "int64_t d%d = 0;", i);
    }
    char text[32], j[16];
    snprintf(text, sizeof text, "%lld", (long long)kernel->reduced);
    snprintf(j, sizeof j, "j%d", nest->pass);
    nest->index = j;
    ct_line_out(nest, "int64_t %s = 0;", j);
    if (blocks) {
        ct_line_out(nest, "while (%s < %s) {", j, text);
        nest->indent++;
        ct_line_out(nest, "const int64_t stop = %s + %d < %s ? %s + %d : %s;", j, BLOCK, text, j,
                    BLOCK, text);
        put_block(nest, step, loop, "stop", true);
        nest->indent--;
        ct_line_out(nest, "}");
        for (int i = 0; i < kernel->n_members; i++) {
            const ct_member *member = &kernel->members[i];
            if (!ends_here(nest, member))
                continue;
            ct_line_out(nest, "CARRIED(c%d, d%d, m%d, ct_%s_%s)", i, i, i,
                        ct_op_table[member->node->op].name, ct_word(member->node->dtype));
        }
    } else if (kernel->reduced < CT_SHORT) {
        put_short(nest, step, loop);
    } else {
        put_block(nest, step, loop, text, false);
    }
    nest->index = NULL;
}

/* ---- columns ---- */

void ct_order_columns_extent(const ct_kernel *kernel, int64_t elements, int64_t *count,
                             int64_t *grain) {
    *count = kernel->outer * ((kernel->inner + STRIP - 1) / STRIP);
    *grain = elements / (STRIP * kernel->reduced) + 1;
}

static long long lanes_of(const ct_kernel *kernel) {
    return kernel->reduced < LANES ? (long long)kernel->reduced : LANES;
}

/* The loop down the columns, whose lanes are t<i>[lane][u] (vectors) or t<i>[lane] (one column). */
static void put_down(ct_nest *nest, void (*step)(ct_nest *nest, int loop)) {
    const ct_kernel *kernel = nest->kernel;
    int inner = kernel->n_loops - 1, down = inner - 1;
    char text[96];
    const char *u = nest->vector ? "[u]" : "";
    for (int i = 0; i < kernel->n_members; i++) {
        const ct_member *member = &kernel->members[i];
        if (!ends_here(nest, member))
            continue;
        const char *type = ct_value_type(member->node->dtype, nest->vector);
        if (nest->vector) {
            ct_line_out(nest, "%s t%d[%lld][64 / W%d];", type, i, lanes_of(kernel), nest->width);
            ct_line_out(
                nest,
                "for (int l = 0; l < %lld; l++) for (int u = 0; u < units; u++) t%d[l][u] = %s;",
                lanes_of(kernel), i, splat_start(member, text));
        } else {
            ct_line_out(nest, "%s t%d[%lld];", type, i, lanes_of(kernel));
            ct_line_out(nest, "for (int l = 0; l < %lld; l++) t%d[l] = %s;", lanes_of(kernel), i,
                        start_of(member->node->op, member->node->dtype));
        }
    }
    ct_line_out(nest, "for (int64_t i%d = 0; i%d < %lld; i%d++) {", down, down,
                (long long)kernel->reduced, down);
    nest->indent++;
    ct_put_heads(nest, inner, inner, CT_LEVEL_FULL);
    for (int i = 0; i < kernel->n_members; i++) {
        const ct_member *member = &kernel->members[i];
        if (!member->stored || member->level != CT_LEVEL_FULL)
            continue;
        ct_line_out(nest, "%s *const r%d = w%d + (row * %lld + i%d) * %lld;",
                    ct_memory_type(member->node->dtype), i, i, (long long)kernel->reduced, down,
                    (long long)kernel->inner);
    }
    if (nest->vector) {
        ct_line_out(nest, "for (int u = 0; u < units; u++) {");
        nest->indent++;
        ct_line_out(nest, "const int64_t j = first + u * W%d;", nest->width);
    }
    step(nest, inner);
    for (int i = 0; i < kernel->n_members; i++) {
        const ct_member *member = &kernel->members[i];
        char name[16];
        if (!ends_here(nest, member))
            continue;
        source_name(member, name);
        ct_line_out(nest, "t%d[i%d %% 64]%s = ct_%s_%s%s(t%d[i%d %% 64]%s, %s);", i, down, u,
                    ct_op_table[member->node->op].name, ct_word(member->node->dtype),
                    nest->vector ? "v" : "", i, down, u, name);
    }
    if (nest->vector) {
        nest->indent--;
        ct_line_out(nest, "}");
    }
    nest->indent--;
    ct_line_out(nest, "}");
}

/* Folds the lanes, then what is computed from the results, and stores. */
static void put_results(ct_nest *nest) {
    const ct_kernel *kernel = nest->kernel;
    int inner = kernel->n_loops - 1;
    const char *u = nest->vector ? "[u]" : "";
    if (nest->vector) {
        ct_line_out(nest, "for (int u = 0; u < units; u++) {");
        nest->indent++;
        ct_line_out(nest, "const int64_t j = first + u * W%d;", nest->width);
    }
    for (int i = 0; i < kernel->n_members; i++) {
        const ct_member *member = &kernel->members[i];
        if (!ct_is_reduction(member))
            continue;
        ct_line_out(nest, "for (int half = 32; half > 0; half /= 2)");
        ct_line_out(nest, "    for (int l = 0; l < half && l + half < %lld; l++)",
                    lanes_of(kernel));
        ct_line_out(nest, "        t%d[l]%s = ct_%s_%s%s(t%d[l]%s, t%d[l + half]%s);", i, u,
                    ct_op_table[member->node->op].name, ct_word(member->node->dtype),
                    nest->vector ? "v" : "", i, u, i, u);
        ct_line_out(nest, "const %s m%d = t%d[0]%s;",
                    ct_value_type(member->node->dtype, nest->vector), i, i, u);
    }
    ct_put_heads(nest, inner - 1, inner, CT_LEVEL_PART);
    for (int i = 0; i < kernel->n_loads; i++) {
        if (kernel->loads[i].level == CT_LEVEL_PART)
            ct_put_load(nest, i, kernel->loads[i].stride[inner]);
    }
    for (int i = 0; i < kernel->n_members; i++) {
        const ct_member *member = &kernel->members[i];
        if (member->level == CT_LEVEL_PART && !ct_is_reduction(member))
            ct_render_member(nest, i);
    }
    for (int i = 0; i < kernel->n_members; i++) {
        const ct_member *member = &kernel->members[i];
        if (member->level != CT_LEVEL_PART || !member->stored)
            continue;
        const char *store = !nest->vector ? "PUT" : nest->width == 4 ? "STORE4" : "STORE8";
        ct_line_out(nest, "%s_%s(w%d + row * %lld + j, m%d);", store,
                    ct_dtype_name(member->node->dtype), i, (long long)kernel->inner, i);
    }
    if (nest->vector) {
        nest->indent--;
        ct_line_out(nest, "}");
    }
}

void ct_order_columns(ct_nest *nest, void (*step)(ct_nest *nest, int loop)) {
    const ct_kernel *kernel = nest->kernel;
    long long strips = (long long)(kernel->inner + STRIP - 1) / STRIP,
              inner = (long long)kernel->inner;
    ct_find_needs(nest, 0);
    ct_put_pointers(nest);
    ct_line_out(nest, "for (int64_t piece = begin; piece < end; piece++) {");
    nest->indent++;
    ct_line_out(nest, "const int64_t row = piece / %lld, first = piece %% %lld * %d;", strips,
                strips, STRIP);
    ct_line_out(nest, "const int64_t last = first + %d < %lld ? first + %d : %lld;", STRIP, inner,
                STRIP, inner);
    ct_put_counters(nest, kernel->n_loops - 2);
    ct_line_out(nest, "const int units = (last - first) / W%d;", nest->width);
    nest->index = "j";
    nest->vector = true;
    ct_line_out(nest, "if (units > 0) {");
    nest->indent++;
    put_down(nest, step);
    put_results(nest);
    nest->indent--;
    ct_line_out(nest, "}");
    nest->vector = false;
    if (kernel->inner % 16 != 0) {
        ct_line_out(nest, "for (int64_t j = first + units * W%d; j < last; j++) {", nest->width);
        nest->indent++;
        put_down(nest, step);
        put_results(nest);
        nest->indent--;
        ct_line_out(nest, "}");
    }
    nest->indent--;
    ct_line_out(nest, "}");
}
