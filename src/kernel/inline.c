// inline.c: calls that cost more than their work. Matrix products with every extent at most 16 are
// those that ct_gemm leaves to eager/tiny.h: k rising, a multiplication and an addition each. Small
// gathers and scatters check their index first, and where it is wrong leave the error to the call;
// scatters add in the order of the source.
#include "kernel/inline.h"

#include "kernel/loops.h"

#define TINY 16
#define SMALL 1024 /* elements of an index */

static void put_address(ct_text *out, const ct_plan *plan, ct_node *source, const char *type) {
    ct_view view;
    ct_place place = plan->places[ct_node_base(source, &view)->id];
    static const char *const bases[] = {"", "", "s->inputs", "s->states", "s->outputs"};
    if (place.kind == CT_PLACE_ARENA) {
        ct_put(out, "(%s *)(s->arena + %lld)", type, (long long)place.index);
    } else {
        ct_put(out, "(%s *)%s[%lld]", type, bases[place.kind], (long long)place.index);
    }
    if (view.offset != 0)
        ct_put(out, " + %lld", (long long)view.offset);
}

static bool put_product(ct_text *out, const ct_plan *plan, ct_node *node) {
    if (node->op != CT_MATMUL || node->shape.ndim != 2)
        return false;
    if (node->dtype != CT_FLOAT32 && node->dtype != CT_FLOAT64)
        return false;
    ct_node *a = node->sources[0], *b = node->sources[1];
    ct_view a_view, b_view;
    const ct_node *a_base = ct_node_base(a, &a_view), *b_base = ct_node_base(b, &b_view);
    int64_t m = node->shape.dim[0], n = node->shape.dim[1], k = a->shape.dim[1];
    if (m < 1 || n < 1 || k < 1 || m > TINY || n > TINY || k > TINY)
        return false;
    if (a_base->op == CT_CONST || b_base->op == CT_CONST)
        return false;
    const char *type = ct_memory_type(node->dtype);
    ct_put(out, "    tiny_%s_%d(%lld, %lld, %lld, ", ct_word(node->dtype),
           n <= 4   ? 4
           : n <= 8 ? 8
                    : 16,
           (long long)m, (long long)n, (long long)k);
    put_address(out, plan, a, type);
    ct_put(out, ", %lld, %lld, ", (long long)a_view.stride[0], (long long)a_view.stride[1]);
    put_address(out, plan, b, type);
    ct_put(out, ", %lld, %lld, ", (long long)b_view.stride[0], (long long)b_view.stride[1]);
    put_address(out, plan, node, type);
    ct_put_text(out, ");\n");
    return true;
}

/* ---- gathers and scatters ---- */

static bool simple(ct_dtype dtype) {
    return dtype == CT_FLOAT32 || dtype == CT_FLOAT64 || dtype == CT_INT32 || dtype == CT_INT64;
}

/* Loops i0, i1 ... over a shape; the number of braces that end them. */
static int put_loops(ct_text *out, const ct_shape *shape) {
    int braces = 1;
    ct_put_text(out, "        {\n");
    for (int d = 0; d < shape->ndim; d++) {
        if (shape->dim[d] == 1)
            continue;
        ct_put(out, "%*sfor (int64_t i%d = 0; i%d < %lld; i%d++) {\n", 8 + 4 * braces, "", d, d,
               (long long)shape->dim[d], d);
        braces++;
    }
    return braces;
}

static void put_ends(ct_text *out, int braces) {
    while (braces > 0)
        ct_put(out, "%*s}\n", 4 + 4 * braces--, "");
}

/* " + i0 * 3 + at * 1": an element, with `at` in place of the counter of dimension `axis`. */
static void put_element(ct_text *out, const ct_shape *shape, const int64_t *stride, int axis) {
    ct_put_text(out, "0");
    for (int d = 0; d < shape->ndim; d++) {
        if (d == axis)
            ct_put(out, " + at * %lld", (long long)stride[d]);
        else if (shape->dim[d] > 1 && stride[d] != 0)
            ct_put(out, " + i%d * %lld", d, (long long)stride[d]);
    }
}

static void put_array(ct_text *out, const ct_plan *plan, ct_node *node, const char *name) {
    ct_put(out, "        %s *const %s = ", ct_memory_type(node->dtype), name);
    put_address(out, plan, node, ct_memory_type(node->dtype));
    ct_put_text(out, ";\n");
}

static bool put_index_call(ct_text *out, const ct_plan *plan, ct_node *node, int number) {
    bool scatters = node->op == CT_SCATTER_ADD;
    ct_node *base = node->sources[0], *index = node->sources[1],
            *source = scatters ? node->sources[2] : NULL;
    ct_view base_view, index_view, source_view;
    const ct_node *base_memory = ct_node_base(base, &base_view);
    int axis = node->attr.axis;
    if (!simple(node->dtype) || ct_shape_numel(&index->shape) > SMALL ||
        ct_shape_numel(&base->shape) > 16 * SMALL)
        return false;
    if (ct_shape_numel(&index->shape) == 0 || ct_node_base(index, &index_view)->op == CT_CONST)
        return false;
    if (scatters && !ct_shape_equal(&source->shape, &index->shape))
        return false;
    const ct_node *source_memory = scatters ? ct_node_base(source, &source_view) : NULL;
    char literal[64];
    if (base_memory->op == CT_CONST && !scatters)
        return false;
    long long extent = (long long)base->shape.dim[axis];
    ct_view whole = ct_view_whole(&node->shape);
    ct_put_text(out, "    {\n");
    put_array(out, plan, index, "index");
    put_array(out, plan, node, "to");
    if (base_memory->op != CT_CONST)
        put_array(out, plan, base, "from");
    if (scatters && source_memory->op != CT_CONST)
        put_array(out, plan, source, "source");
    ct_put_text(out, "        int wrong = 0;\n");
    int braces = put_loops(out, &index->shape);
    ct_put(out, "%*sconst int64_t at = index[", 8 + 4 * braces, "");
    put_element(out, &index->shape, index_view.stride, -1);
    ct_put(out, "];\n%*swrong |= at < 0 || at >= %lld;\n", 8 + 4 * braces, "", extent);
    put_ends(out, braces);
    ct_put(out,
           "        if (wrong) {\n            s->call(s->context, %d); // it knows the words for "
           "the error\n",
           number);
    ct_put_text(out, "            return 1;\n        }\n");
    if (scatters) {
        braces = put_loops(out, &node->shape);
        ct_put(out, "%*sto[", 8 + 4 * braces, "");
        put_element(out, &node->shape, whole.stride, -1);
        if (base_memory->op == CT_CONST) {
            ct_constant_text(literal, sizeof literal, base_memory->attr.value, base_memory->dtype);
            ct_put(out, "] = %s;\n", literal);
        } else {
            ct_put_text(out, "] = from[");
            put_element(out, &base->shape, base_view.stride, -1);
            ct_put_text(out, "];\n");
        }
        put_ends(out, braces);
    }
    braces = put_loops(out, &index->shape);
    ct_put(out, "%*sconst int64_t at = index[", 8 + 4 * braces, "");
    put_element(out, &index->shape, index_view.stride, -1);
    ct_put(out, "];\n%*sto[", 8 + 4 * braces, "");
    put_element(out, &index->shape, whole.stride, scatters ? axis : -1);
    if (!scatters) {
        ct_put_text(out, "] = from[");
        put_element(out, &index->shape, base_view.stride, axis);
        ct_put_text(out, "];\n");
    } else if (source_memory->op == CT_CONST) {
        ct_constant_text(literal, sizeof literal, source_memory->attr.value, source_memory->dtype);
        ct_put(out, "] += %s;\n", literal);
    } else {
        ct_put_text(out, "] += source[");
        put_element(out, &index->shape, source_view.stride, -1);
        ct_put_text(out, "];\n");
    }
    put_ends(out, braces);
    ct_put_text(out, "    }\n");
    return true;
}

bool ct_put_inline_call(ct_text *out, const ct_plan *plan, const ct_kernel *kernel) {
    ct_node *node = kernel->members[0].node;
    switch (node->op) {
    case CT_MATMUL: return put_product(out, plan, node);
    case CT_GATHER:
    case CT_SCATTER_ADD: return put_index_call(out, plan, node, kernel->position);
    default: return false;
    }
}
