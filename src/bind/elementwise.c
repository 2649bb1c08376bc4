/* elementwise.c: element-wise functions, made from the op table: each as a method, and in place
 * under its name with "_". A Lua number beside a tensor takes the tensor's type where its kind
 * allows (3 and 3.0 are integers, 0.5 is not), so float32 stays float32 and an integer tensor times
 * 0.5 is float32. */
#include "bind/bind.h"

typedef struct binary_method {
    const char *name;
    ct_op op;
    bool exchanged; /* gt and ge are lt and le with the operands exchanged */
    bool logical;   /* operands become bool first */
} binary_method;

static const binary_method binary_methods[] = {
    {"add", CT_ADD, false, false},
    {"sub", CT_SUB, false, false},
    {"mul", CT_MUL, false, false},
    {"div", CT_DIV, false, false},
    {"floor_divide", CT_FLOORDIV, false, false},
    {"remainder", CT_MOD, false, false},
    {"pow", CT_POW, false, false},
    {"maximum", CT_MAXIMUM, false, false},
    {"minimum", CT_MINIMUM, false, false},
    {"bitwise_and", CT_BITAND, false, false},
    {"bitwise_or", CT_BITOR, false, false},
    {"bitwise_xor", CT_BITXOR, false, false},
    {"bitwise_left_shift", CT_SHL, false, false},
    {"bitwise_right_shift", CT_SHR, false, false},
    {"logical_and", CT_BITAND, false, true},
    {"logical_or", CT_BITOR, false, true},
    {"logical_xor", CT_BITXOR, false, true},
    {"eq", CT_EQ, false, false},
    {"ne", CT_NE, false, false},
    {"lt", CT_LT, false, false},
    {"le", CT_LE, false, false},
    {"gt", CT_LT, true, false},
    {"ge", CT_LE, true, false},
};
enum { N_BINARY = sizeof binary_methods / sizeof *binary_methods };

void ct_lua_operand(lua_State *L, int index, const char *function, const char *argument,
                    const ct_tensor *other, ct_operand *operand) {
    char text[CT_LUA_TEXT];
    operand->tensor = ct_lua_to_tensor(L, index);
    if (operand->tensor) {
        operand->dtype = operand->tensor->dtype;
    } else if (lua_isboolean(L, index)) {
        operand->dtype = CT_BOOL;
        operand->value = ct_scalar_int(lua_toboolean(L, index));
    } else if (ct_lua_scalar(L, index, &operand->value)) {
        if (operand->value.f == 0 && other && ct_dtype_is_float(other->dtype))
            operand->value.is_int = false; /* -0 stays -0 */
        operand->dtype = operand->value.is_int ? CT_INT64 : CT_FLOAT32;
        if (other && operand->value.is_int && !ct_lua_fits(operand->value, other->dtype))
            ct_lua_raise(
                L, function,
                "%lld does not fit into %s; convert the tensor first, as with :to(\"int64\")",
                (long long)operand->value.i, ct_dtype_name(other->dtype));
    } else {
        ct_lua_raise(L, function, "'%s' must be a tensor or a number, got %s", argument,
                     ct_lua_describe(L, index, text));
    }
}

ct_node *ct_operand_node(ct_lua_call *call, const ct_operand *operand) {
    static const ct_shape scalar = {0, {0}};
    if (operand->tensor)
        return ct_tensor_node(&call->builder, operand->tensor);
    if (operand->dtype == CT_BOOL)
        return ct_constant(&call->builder, CT_BOOL, &scalar, operand->value);
    return ct_number(&call->builder, operand->value);
}

/* A power that is a product or a root is said as one: exact, and differentiable at 0. */
static ct_node *power(ct_builder *b, ct_node *x, ct_node *y, const ct_operand *exponent) {
    if (!exponent->tensor && exponent->dtype != CT_BOOL && x && x->dtype != CT_BOOL) {
        if (exponent->value.f == 2)
            return ct_mul(b, x, x);
        if (exponent->value.f == 0.5)
            return ct_unary(b, CT_SQRT, x);
    }
    return ct_binary(b, CT_POW, x, y);
}

static ct_node *binary_node(ct_lua_call *call, const binary_method *method, const ct_operand *left,
                            const ct_operand *right) {
    ct_builder *b = &call->builder;
    ct_node *x = ct_operand_node(call, left), *y = ct_operand_node(call, right);
    if (method->logical)
        x = ct_cast(b, x, CT_BOOL), y = ct_cast(b, y, CT_BOOL);
    if (method->op == CT_POW)
        return power(b, x, y, right);
    return method->exchanged ? ct_binary(b, method->op, y, x) : ct_binary(b, method->op, x, y);
}

static void binary_operands(lua_State *L, const char *name, ct_operand *left, ct_operand *right) {
    left->tensor = ct_lua_to_tensor(L, 1);
    right->tensor = ct_lua_to_tensor(L, 2);
    if (left->tensor && right->tensor) { /* the common case, which operators are fast for */
        left->dtype = left->tensor->dtype;
        right->dtype = right->tensor->dtype;
        return;
    }
    ct_tensor *first = left->tensor, *second = right->tensor;
    if (!first && !second)
        ct_lua_tensor(L, 1, name, "self");
    ct_lua_operand(L, 1, name, "self", second, left);
    ct_lua_operand(L, 2, name, "other", first, right);
}

/* upvalue 1: the place in binary_methods */
static int binary(lua_State *L) {
    const binary_method *method = &binary_methods[lua_tointeger(L, lua_upvalueindex(1))];
    ct_operand left, right;
    ct_lua_call call;
    binary_operands(L, method->name, &left, &right);
    ct_lua_begin(&call, L, method->name);
    return ct_lua_finish(&call, binary_node(&call, method, &left, &right));
}

static int kind(ct_dtype dtype) {
    return ct_dtype_is_float(dtype) ? 2 : ct_dtype_is_int(dtype) ? 1 : 0;
}

/* Writes a result over the tensor at index 1 and returns that. A result of a higher kind is
 * refused, for its fractions would be lost without a word. */
static int write_back(ct_lua_call *call, ct_tensor *target, ct_node *node) {
    bool ok = false;
    if (node && kind(node->dtype) > kind(target->dtype)) {
        ct_dtype found = node->dtype;
        ct_builder_end(&call->builder);
        return ct_lua_raise(call->L, call->function,
                            "the result is %s, which a tensor of %s cannot hold; convert it first",
                            ct_dtype_name(found), ct_dtype_name(target->dtype));
    }
    if (node)
        ok = ct_tensor_write(&call->builder, target, node) == CT_OK;
    ct_lua_end(call, ok);
    lua_pushvalue(call->L, 1);
    return 1;
}

/* upvalue 1: the place in binary_methods; 2: the name with "_" */
static int binary_in_place(lua_State *L) {
    const binary_method *method = &binary_methods[lua_tointeger(L, lua_upvalueindex(1))];
    const char *name = lua_tostring(L, lua_upvalueindex(2));
    ct_tensor *target = ct_lua_tensor(L, 1, name, "self");
    ct_operand left = {target, target->dtype, {false, 0, 0}}, right;
    ct_lua_call call;
    ct_lua_operand(L, 2, name, "other", target, &right);
    ct_lua_begin(&call, L, name);
    return write_back(&call, target, binary_node(&call, method, &left, &right));
}

/* upvalue 1: the op */
static int unary(lua_State *L) {
    ct_op op = (ct_op)lua_tointeger(L, lua_upvalueindex(1));
    const char *name = ct_op_table[op].name;
    ct_tensor *tensor = ct_lua_tensor(L, 1, name, "self");
    ct_lua_call call;
    ct_lua_begin(&call, L, name);
    return ct_lua_finish(&call, ct_unary(&call.builder, op, ct_lua_node(&call, tensor)));
}

static int unary_in_place(lua_State *L) {
    ct_op op = (ct_op)lua_tointeger(L, lua_upvalueindex(1));
    const char *name = lua_tostring(L, lua_upvalueindex(2));
    ct_tensor *tensor = ct_lua_tensor(L, 1, name, "self");
    ct_lua_call call;
    ct_lua_begin(&call, L, name);
    return write_back(&call, tensor, ct_unary(&call.builder, op, ct_lua_node(&call, tensor)));
}

static ct_node *logical_not_node(ct_lua_call *call, ct_tensor *tensor) {
    ct_builder *b = &call->builder;
    return ct_unary(b, CT_BITNOT, ct_cast(b, ct_lua_node(call, tensor), CT_BOOL));
}

static int logical_not(lua_State *L) {
    ct_tensor *tensor = ct_lua_tensor(L, 1, "logical_not", "self");
    ct_lua_call call;
    ct_lua_begin(&call, L, "logical_not");
    return ct_lua_finish(&call, logical_not_node(&call, tensor));
}

static int logical_not_in_place(lua_State *L) {
    ct_tensor *tensor = ct_lua_tensor(L, 1, "logical_not_", "self");
    ct_lua_call call;
    ct_lua_begin(&call, L, "logical_not_");
    return write_back(&call, tensor, logical_not_node(&call, tensor));
}

/* core.where(condition, x, y) */
static int where(lua_State *L) {
    ct_operand x, y;
    ct_lua_call call;
    ct_tensor *condition = ct_lua_tensor(L, 1, "where", "condition");
    if (condition->dtype != CT_BOOL)
        return ct_lua_raise(L, "where", "'condition' must be a bool tensor, got %s",
                            ct_dtype_name(condition->dtype));
    ct_lua_operand(L, 2, "where", "x", ct_lua_to_tensor(L, 3), &x);
    ct_lua_operand(L, 3, "where", "y", ct_lua_to_tensor(L, 2), &y);
    ct_lua_begin(&call, L, "where");
    ct_node *c = ct_lua_node(&call, condition);
    ct_node *a = ct_operand_node(&call, &x), *b = ct_operand_node(&call, &y);
    return ct_lua_finish(&call, ct_where(&call.builder, c, a, b));
}

static void add_closure(lua_State *L, int table, const char *name, const char *suffix,
                        lua_Integer upvalue, lua_CFunction function) {
    lua_pushfstring(L, "%s%s", name, suffix);
    lua_pushinteger(L, upvalue);
    lua_pushvalue(L, -2);
    lua_pushcclosure(L, function, 2);
    lua_rawset(L, table);
}

/* The operators of Lua, as the methods they stand for; bit operators are heard by Lua 5.4 alone. */
static void add_operators(lua_State *L, int methods) {
    static const char *const operators[][2] = {
        {"__add", "add"},
        {"__sub", "sub"},
        {"__mul", "mul"},
        {"__div", "div"},
        {"__mod", "remainder"},
        {"__pow", "pow"},
        {"__unm", "neg"},
        {"__idiv", "floor_divide"},
        {"__band", "bitwise_and"},
        {"__bor", "bitwise_or"},
        {"__bxor", "bitwise_xor"},
        {"__bnot", "bitwise_not"},
        {"__shl", "bitwise_left_shift"},
        {"__shr", "bitwise_right_shift"},
    };
    ct_lua_push_metatable(L);
    for (size_t i = 0; i < sizeof operators / sizeof *operators; i++) {
        lua_getfield(L, methods, operators[i][1]);
        lua_setfield(L, -2, operators[i][0]);
    }
    lua_pop(L, 1);
}

void ct_open_elementwise(lua_State *L, int core, int methods) {
    static const luaL_Reg functions[] = {{"where", where}, {NULL, NULL}};
    static const luaL_Reg method_functions[] = {
        {"logical_not", logical_not}, {"logical_not_", logical_not_in_place}, {NULL, NULL}};
    for (int op = 0; op < CT_OPS; op++)
        if (ct_op_table[op].class == CT_CLASS_UNARY && op != CT_CAST) {
            add_closure(L, methods, ct_op_table[op].name, "", op, unary);
            add_closure(L, methods, ct_op_table[op].name, "_", op, unary_in_place);
        }
    for (int i = 0; i < N_BINARY; i++) {
        add_closure(L, methods, binary_methods[i].name, "", i, binary);
        add_closure(L, methods, binary_methods[i].name, "_", i, binary_in_place);
    }
    ct_lua_add(L, core, functions);
    ct_lua_add(L, methods, method_functions);
    add_operators(L, methods);
}
