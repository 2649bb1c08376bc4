/* contract.c: matrix products: matmul as PyTorch's for 1-d to n-d operands, mm for two matrices,
 * bmm for two batches of them. */
#include "bind/bind.h"

/* ndim 0: any */
static int product(lua_State *L, const char *function, int ndim) {
    char left[CT_SHAPE_TEXT], right[CT_SHAPE_TEXT];
    ct_lua_call call;
    ct_tensor *a = ct_lua_tensor(L, 1, function, "self"),
              *b = ct_lua_tensor(L, 2, function, "other");
    if (ndim && (a->view.shape.ndim != ndim || b->view.shape.ndim != ndim))
        return ct_lua_raise(
            L, function, "both operands must have %d dimensions, got shapes %s and %s", ndim,
            ct_shape_text(&a->view.shape, left), ct_shape_text(&b->view.shape, right));
    if (ndim == 3 && a->view.shape.dim[0] != b->view.shape.dim[0])
        return ct_lua_raise(
            L, function, "both operands must have one batch size, got shapes %s and %s",
            ct_shape_text(&a->view.shape, left), ct_shape_text(&b->view.shape, right));
    ct_lua_begin(&call, L, function);
    ct_node *x = ct_lua_node(&call, a), *y = ct_lua_node(&call, b);
    return ct_lua_finish(&call, ct_matmul(&call.builder, x, y));
}

static int matmul(lua_State *L) {
    return product(L, "matmul", 0);
}

static int mm(lua_State *L) {
    return product(L, "mm", 2);
}

static int bmm(lua_State *L) {
    return product(L, "bmm", 3);
}

void ct_open_contract(lua_State *L, int core, int methods) {
    static const luaL_Reg method_functions[] = {
        {"matmul", matmul}, {"mm", mm}, {"bmm", bmm}, {NULL, NULL}};
    (void)core;
    ct_lua_add(L, methods, method_functions);
}
