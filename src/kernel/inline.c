// inline.c: matrix products with every extent at most 16, which ct_gemm leaves to eager/tiny.h. The same order
// and rounding here: k rising, a multiplication and an addition each.
#include "kernel/inline.h"

#include "kernel/loops.h"

#define TINY 16

static void put_address(ct_text *out, const ct_plan *plan, ct_node *source, const char *type) {
    ct_view view;
    ct_place place = plan->places[ct_node_base(source, &view)->id];
    static const char *const bases[] = {"", "", "s->inputs", "s->states", "s->outputs"};
    if (place.kind == CT_PLACE_ARENA) {
        ct_put(out, "(%s *)(s->arena + %lld)", type, (long long)place.index);
    } else {
        ct_put(out, "(%s *)%s[%lld]", type, bases[place.kind], (long long)place.index);
    }
    if (view.offset != 0) ct_put(out, " + %lld", (long long)view.offset);
}

bool ct_put_inline_call(ct_text *out, const ct_plan *plan, const ct_kernel *kernel) {
    ct_node *node = kernel->members[0].node;
    if (node->op != CT_MATMUL || node->shape.ndim != 2) return false;
    if (node->dtype != CT_FLOAT32 && node->dtype != CT_FLOAT64) return false;
    ct_node *a = node->sources[0], *b = node->sources[1];
    ct_view a_view, b_view;
    const ct_node *a_base = ct_node_base(a, &a_view), *b_base = ct_node_base(b, &b_view);
    int64_t m = node->shape.dim[0], n = node->shape.dim[1], k = a->shape.dim[1];
    if (m < 1 || n < 1 || k < 1 || m > TINY || n > TINY || k > TINY) return false;
    if (a_base->op == CT_CONST || b_base->op == CT_CONST) return false;
    const char *type = ct_memory_type(node->dtype);
    ct_put(out, "    tiny_%s_%d(%lld, %lld, %lld, ", ct_word(node->dtype), n <= 4 ? 4 : n <= 8 ? 8 : 16, (long long)m,
           (long long)n, (long long)k);
    put_address(out, plan, a, type);
    ct_put(out, ", %lld, %lld, ", (long long)a_view.stride[0], (long long)a_view.stride[1]);
    put_address(out, plan, b, type);
    ct_put(out, ", %lld, %lld, ", (long long)b_view.stride[0], (long long)b_view.stride[1]);
    put_address(out, plan, node, type);
    ct_put_text(out, ");\n");
    return true;
}
