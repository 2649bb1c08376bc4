/* reduce.c: reductions over one dimension, a list of them, or all. The arguments are (dim,
 * keepdim), by position or as {dim = ..., keepdim = ...}. */
#include "bind/bind.h"

typedef struct reduction {
    const char *function;
    ct_tensor *tensor;
    uint32_t axes;
    bool given; /* a dim was said */
    bool keepdim;
} reduction;

static void read_reduction(lua_State *L, const char *function, reduction *r) {
    static const char *const options[] = {"dim", "keepdim", NULL};
    r->function = function;
    r->tensor = ct_lua_tensor(L, 1, function, "self");
    int ndim = r->tensor->view.shape.ndim;
    ct_lua_spread_options(L, 2, function, options);
    bool empty = lua_istable(L, 2) && lua_rawlen(L, 2) == 0;
    r->given = !lua_isnil(L, 2) && !empty; /* {} names none, and so all */
    if (ct_lua_is_options(L, 3)) {         /* sum(2, {keepdim = true}) */
        ct_lua_check_options(L, 3, function, options + 1);
        lua_getfield(L, 3, "keepdim");
        lua_replace(L, 3);
    }
    r->axes = r->given ? ct_lua_axes(L, 2, function, "dim", ndim) : (1u << ndim) - 1;
    if (ndim == 0)
        r->axes = 0;
    r->keepdim = ct_lua_flag(L, 3, function, "keepdim", false);
}

static int64_t reduced_count(const reduction *r) {
    int64_t count = 1;
    for (int d = 0; d < r->tensor->view.shape.ndim; d++)
        if (r->axes >> d & 1)
            count *= r->tensor->view.shape.dim[d];
    return count;
}

/* Raises where one dimension is due and the list names more. */
static void check_one_axis(lua_State *L, const reduction *r) {
    if (r->axes & (r->axes - 1))
        ct_lua_raise(L, r->function, "'dim' must be one dimension here, got a list of several");
}

/* upvalue 1: the op */
static int reduce(lua_State *L) {
    ct_op op = (ct_op)lua_tointeger(L, lua_upvalueindex(1));
    reduction r;
    ct_lua_call call;
    read_reduction(L, ct_op_table[op].name, &r);
    ct_lua_begin(&call, L, r.function);
    return ct_lua_finish(
        &call, ct_reduce(&call.builder, op, ct_lua_node(&call, r.tensor), r.axes, r.keepdim));
}

/* The mean of narrow floats is taken in float32, whose sum does not overflow. */
static int mean(lua_State *L) {
    reduction r;
    ct_lua_call call;
    read_reduction(L, "mean", &r);
    ct_lua_begin(&call, L, "mean");
    ct_builder *b = &call.builder;
    ct_dtype dtype = r.tensor->dtype;
    ct_node *x = ct_lua_node(&call, r.tensor);
    if (dtype != CT_FLOAT64)
        x = ct_cast(b, x, CT_FLOAT32);
    ct_node *sum = ct_reduce(b, CT_SUM, x, r.axes, r.keepdim);
    ct_node *y = ct_div(b, sum, ct_number(b, ct_scalar_float((double)reduced_count(&r))));
    return ct_lua_finish(&call, ct_dtype_is_float(dtype) ? ct_cast(b, y, dtype) : y);
}

/* How many elements are (any) or are not (all) zero, as bool: so that no elements give false and
 * true. */
static int any_or_all(lua_State *L, const char *function, bool all) {
    reduction r;
    ct_lua_call call;
    read_reduction(L, function, &r);
    ct_lua_begin(&call, L, function);
    ct_builder *b = &call.builder;
    ct_node *x = ct_lua_node(&call, r.tensor);
    ct_node *hit = ct_binary(b, all ? CT_EQ : CT_NE, x, ct_number(b, ct_scalar_int(0)));
    ct_node *hits = ct_reduce(b, CT_SUM, hit, r.axes, r.keepdim);
    return ct_lua_finish(&call,
                         ct_binary(b, all ? CT_EQ : CT_NE, hits, ct_number(b, ct_scalar_int(0))));
}

static int any(lua_State *L) {
    return any_or_all(L, "any", false);
}

static int all(lua_State *L) {
    return any_or_all(L, "all", true);
}

/* argmax and argmin of a whole tensor are positions among its elements in C order. */
static ct_node *position(ct_lua_call *call, const reduction *r, ct_op op) {
    ct_builder *b = &call->builder;
    ct_node *x = ct_lua_node(call, r->tensor);
    if (!x)
        return NULL;
    int ndim = x->shape.ndim;
    if (r->given && ndim > 0)
        return ct_reduce(b, op, x, r->axes, r->keepdim);
    ct_shape flat = {1, {ct_shape_numel(&x->shape)}};
    ct_node *found = ct_reduce(b, op, ct_reshape(b, x, &flat), 1, false);
    ct_shape kept = {r->keepdim ? ndim : 0, {1, 1, 1, 1, 1, 1, 1, 1}};
    return ct_reshape(b, found, &kept);
}

static int arg_reduce(lua_State *L) {
    ct_op op = (ct_op)lua_tointeger(L, lua_upvalueindex(1));
    reduction r;
    ct_lua_call call;
    read_reduction(L, ct_op_table[op].name, &r);
    if (r.given)
        check_one_axis(L, &r);
    ct_lua_begin(&call, L, r.function);
    return ct_lua_finish(&call, position(&call, &r, op));
}

/* max and min: one value of a whole tensor; along a dimension the values and where they are. */
static int extreme(lua_State *L) {
    ct_op op = (ct_op)lua_tointeger(L, lua_upvalueindex(1));
    const char *name = ct_op_table[op].name;
    reduction r;
    ct_lua_call call;
    if (ct_lua_to_tensor(L, 2))
        return ct_lua_raise(
            L, name,
            "'dim' must be a dimension; for the larger or smaller of two tensors there are "
            "maximum and minimum");
    read_reduction(L, name, &r);
    bool single = !(r.axes & (r.axes - 1));
    ct_lua_begin(&call, L, name);
    ct_lua_finish(&call,
                  ct_reduce(&call.builder, op, ct_lua_node(&call, r.tensor), r.axes, r.keepdim));
    if (!r.given || !single)
        return 1;
    ct_lua_begin(&call, L, name);
    ct_lua_finish(&call, position(&call, &r, op == CT_MAX ? CT_ARGMAX : CT_ARGMIN));
    return 2;
}

static int cumsum(lua_State *L) {
    static const char *const options[] = {"dim", NULL};
    ct_lua_call call;
    ct_tensor *tensor = ct_lua_tensor(L, 1, "cumsum", "self");
    ct_lua_spread_options(L, 2, "cumsum", options);
    int axis = ct_lua_axis(L, 2, "cumsum", "dim", tensor->view.shape.ndim);
    ct_lua_begin(&call, L, "cumsum");
    ct_builder *b = &call.builder;
    ct_node *x = ct_lua_node(&call, tensor);
    static const ct_shape one = {1, {1}}, scalar = {0, {0}};
    if (tensor->view.shape.ndim == 0)
        return ct_lua_finish(&call,
                             ct_reshape(b, ct_cumsum(b, ct_reshape(b, x, &one), 0), &scalar));
    return ct_lua_finish(&call, ct_cumsum(b, x, axis));
}

void ct_open_reduce(lua_State *L, int core, int methods) {
    static const struct {
        ct_op op;
        lua_CFunction function;
    } table[] = {
        {CT_SUM, reduce},  {CT_PROD, reduce},       {CT_MAX, extreme},
        {CT_MIN, extreme}, {CT_ARGMAX, arg_reduce}, {CT_ARGMIN, arg_reduce},
    };
    static const luaL_Reg method_functions[] = {
        {"mean", mean}, {"any", any}, {"all", all}, {"cumsum", cumsum}, {NULL, NULL}};
    (void)core;
    for (size_t i = 0; i < sizeof table / sizeof *table; i++) {
        lua_pushinteger(L, table[i].op);
        lua_pushcclosure(L, table[i].function, 1);
        lua_setfield(L, methods, ct_op_table[table[i].op].name);
    }
    /* the extreme values alone, over one dimension or several */
    static const struct {
        const char *name;
        ct_op op;
    } values[] = {{"amax", CT_MAX}, {"amin", CT_MIN}};
    for (int i = 0; i < 2; i++) {
        lua_pushinteger(L, values[i].op);
        lua_pushcclosure(L, reduce, 1);
        lua_setfield(L, methods, values[i].name);
    }
    ct_lua_add(L, methods, method_functions);
}
