// short.c: ROWS kernels whose rows are short. A vector takes one element of W rows each, so that
// nothing of it is idle; the loop over the row is outside of it. The rows that do not fill a vector
// are left to the plain loop.
#include "kernel/short.h"

#include "kernel/order.h"

static bool is_left(const ct_nest *nest, const ct_member *member) {
    return member->stage < nest->pass && (member->kept || member->stored);
}

static bool is_held(const ct_member *member) {
    return member->level == CT_LEVEL_FULL && (member->kept || member->stored);
}

bool ct_is_short(const ct_kernel *kernel) {
    return kernel->kind == CT_KERNEL_ROWS && kernel->reduced < CT_SHORT && kernel->outer >= 4 &&
           kernel->n_loops == 2;
}

static void put_parts(ct_nest *nest, int pass) {
    const ct_kernel *kernel = nest->kernel;
    for (int i = 0; i < kernel->n_members; i++) {
        const ct_member *member = &kernel->members[i];
        if (member->level != CT_LEVEL_PART || member->stage != pass || ct_is_reduction(member))
            continue;
        ct_render_member(nest, i);
    }
}

/* The loop over the row in one pass; results of reductions are then m<i>, vectors. */
static void put_pass(ct_nest *nest) {
    const ct_kernel *kernel = nest->kernel;
    long long n = (long long)kernel->reduced;
    for (int i = 0; i < kernel->n_members; i++) {
        const ct_member *member = &kernel->members[i];
        const char *type = ct_value_type(member->node->dtype, true);
        if (member->stage != nest->pass)
            continue;
        if (ct_is_reduction(member))
            ct_line_out(nest, "%s t%d[%lld];", type, i, n);
        else if (is_held(member))
            ct_line_out(nest, "%s v%d[%lld];", type, i, n);
    }
    ct_line_out(nest, "#pragma GCC unroll 16");
    ct_line_out(nest, "for (int j = 0; j < %lld; j++) {", n);
    nest->indent++;
    for (int i = 0; i < kernel->n_loads; i++) {
        const ct_load *load = &kernel->loads[i];
        if (!nest->needs_load[i] || load->level != CT_LEVEL_FULL)
            continue;
        ct_put_head(nest, i, 1, "j");
        ct_put_load(nest, i, load->stride[0]);
    }
    for (int i = 0; i < kernel->n_members; i++) {
        const ct_member *member = &kernel->members[i];
        if (!nest->needs_member[i])
            continue;
        if (is_left(nest, member))
            ct_line_out(nest, "const %s m%d = v%d[j];", ct_value_type(member->node->dtype, true), i,
                        i);
        else
            ct_render_member(nest, i);
    }
    for (int i = 0; i < kernel->n_members; i++) {
        const ct_member *member = &kernel->members[i];
        if (member->stage != nest->pass)
            continue;
        if (ct_is_reduction(member)) {
            const ct_origin *operand = &member->operand[0];
            ct_line_out(nest, "t%d[j] = %c%d;", i, operand->kind == CT_OPERAND_MEMBER ? 'm' : 'x',
                        operand->index);
        } else if (nest->needs_member[i] && is_held(member)) {
            ct_line_out(nest, "v%d[j] = m%d;", i, i);
            if (member->stored) {
                ct_line_out(nest, "SCATTER%d_%s(w%d + row * %lld + j, %lld, m%d);", nest->width,
                            ct_dtype_name(member->node->dtype), i, n, n, i);
            }
        }
    }
    nest->indent--;
    ct_line_out(nest, "}");
    for (int i = 0; i < kernel->n_members; i++) {
        const ct_member *member = &kernel->members[i];
        if (!ct_is_reduction(member) || member->stage != nest->pass)
            continue;
        for (long long half = 8; half > 0; half /= 2) {
            for (long long l = 0; l < half && l + half < n; l++) {
                ct_line_out(nest, "t%d[%lld] = ct_%s_%sv(t%d[%lld], t%d[%lld]);", i, l,
                            ct_op_table[member->node->op].name, ct_word(member->node->dtype), i, l,
                            i, l + half);
            }
        }
        ct_line_out(nest, "const %s m%d = t%d[0];", ct_value_type(member->node->dtype, true), i, i);
    }
}

void ct_put_short_rows(ct_nest *nest) {
    const ct_kernel *kernel = nest->kernel;
    ct_line_out(nest, "int64_t row = begin;");
    ct_line_out(nest, "for (; row + W%d <= end; row += W%d) {", nest->width, nest->width);
    nest->indent++;
    nest->vector = nest->across = true;
    nest->index = "row";
    for (int i = 0; i < kernel->n_loads; i++) {
        if (kernel->loads[i].level != CT_LEVEL_PART)
            continue;
        ct_put_head(nest, i, 1, "0");
        ct_put_load(nest, i, kernel->loads[i].stride[0]);
    }
    for (int pass = 0; pass < kernel->stages; pass++) {
        put_parts(nest, pass);
        if (ct_find_needs(nest, pass))
            put_pass(nest);
    }
    for (int i = 0; i < kernel->n_members; i++) {
        const ct_member *member = &kernel->members[i];
        if (member->level != CT_LEVEL_PART || !member->stored)
            continue;
        ct_line_out(nest, "STORE%d_%s(w%d + row, m%d);", nest->width,
                    ct_dtype_name(member->node->dtype), i, i);
    }
    nest->vector = nest->across = false;
    nest->index = NULL;
    nest->indent--;
    ct_line_out(nest, "}");
}
