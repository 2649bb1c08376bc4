/* tensor.c: the tensor userdata: a box around one reference to a ct_tensor, its fields, and its
 * end. The box is made empty, before what it will hold, so that an error of Lua's in between loses
 * nothing. */
#include <string.h>

#include "bind/bind.h"

static const char meta_key, format_key;

/* What a tensor costs beside its elements: tensor, cell, node. */
#define TENSOR_BYTES 1024
/* Native bytes that may gather between two collections, as garbage or not. */
#define COLLECT_STEP (32 << 20)

void ct_lua_push_metatable(lua_State *L) {
    lua_rawgetp(L, LUA_REGISTRYINDEX, &meta_key);
}

ct_tensor *ct_lua_to_tensor(lua_State *L, int index) {
    ct_tensor **box = lua_touserdata(L, index);
    if (!box || !lua_getmetatable(L, index))
        return NULL;
    lua_rawgetp(L, LUA_REGISTRYINDEX, &meta_key);
    bool is_tensor = lua_rawequal(L, -1, -2);
    lua_pop(L, 2);
    return is_tensor ? *box : NULL;
}

ct_tensor *ct_lua_tensor(lua_State *L, int index, const char *function, const char *argument) {
    char text[CT_LUA_TEXT];
    ct_tensor *tensor = ct_lua_to_tensor(L, index);
    if (!tensor)
        ct_lua_raise(L, function, "'%s' must be a tensor, got %s", argument,
                     ct_lua_describe(L, index, text));
    return tensor;
}

/* The collector does not see native memory: it is run when that has grown by half, and by
 * COLLECT_STEP. */
static void collect_if_due(lua_State *L, ct_bind *bind) {
    int64_t native = ct_heap_live(bind->runtime->heap) + bind->tensors * TENSOR_BYTES;
    if (native < bind->collect_at)
        return;
    if (bind->collect_at)
        lua_gc(L, LUA_GCCOLLECT, 0);
    bind->state = L; /* finalizers may have called in */
    native = ct_heap_live(bind->runtime->heap) + bind->tensors * TENSOR_BYTES;
    bind->collect_at = native + (native / 2 > COLLECT_STEP ? native / 2 : COLLECT_STEP);
}

ct_tensor **ct_lua_push_empty(lua_State *L, ct_bind *bind) {
    collect_if_due(L, bind);
    ct_tensor **box = lua_newuserdatauv(L, sizeof *box, 0);
    *box = NULL;
    lua_rawgetp(L, LUA_REGISTRYINDEX, &meta_key);
    lua_setmetatable(L, -2);
    bind->tensors++;
    return box;
}

int ct_lua_result(lua_State *L, ct_tensor **result, ct_tensor *tensor, const ct_error *error,
                  const char *function) {
    if (!tensor)
        return ct_lua_raise_error(L, function, error);
    *result = tensor;
    return 1;
}

void ct_lua_begin(ct_lua_call *call, lua_State *L, const char *function) {
    call->L = L;
    call->bind = ct_bind_of(L);
    call->function = function;
    call->result = ct_lua_push_empty(L, call->bind);
    call->error.status = CT_OK;
    call->error.message[0] = 0;
    ct_builder_begin(&call->builder, call->bind->runtime, &call->error);
}

ct_node *ct_lua_node(ct_lua_call *call, ct_tensor *tensor) {
    return ct_tensor_node(&call->builder, tensor);
}

int ct_lua_finish(ct_lua_call *call, ct_node *node) {
    if (node)
        *call->result = ct_tensor_new(node, &call->error);
    ct_builder_end(&call->builder);
    if (!*call->result)
        return ct_lua_raise_error(call->L, call->function, &call->error);
    return 1;
}

void ct_lua_end(ct_lua_call *call, bool ok) {
    ct_builder_end(&call->builder);
    if (!ok || call->error.status != CT_OK)
        ct_lua_raise_error(call->L, call->function, &call->error);
}

static int tensor_gc(lua_State *L) {
    ct_tensor **box = lua_touserdata(L, 1);
    ct_bind *bind = ct_bind_of(L);
    if (!box)
        return 0;
    ct_tensor *tensor = *box;
    *box = NULL;
    bind->tensors--;
    ct_tensor_free(tensor);
    return 0;
}

static int push_shape(lua_State *L, const ct_shape *shape) {
    lua_createtable(L, shape->ndim, 0);
    for (int i = 0; i < shape->ndim; i++) {
        lua_pushinteger(L, (lua_Integer)shape->dim[i]);
        lua_rawseti(L, -2, i + 1);
    }
    return 1;
}

static const char *const fields[] = {"shape",         "dtype",   "ndim", "grad",
                                     "requires_grad", "is_leaf", "value"};
enum { N_FIELDS = sizeof fields / sizeof *fields };

/* The method `name` of the tensor at index 1, with the arguments behind it: what it returns is on
 * top. */
static void call_method(lua_State *L, const char *name, int argument) {
    lua_getfield(L, 1, name);
    lua_pushvalue(L, 1);
    if (argument)
        lua_pushvalue(L, argument);
    lua_call(L, argument ? 2 : 1, 1);
}

/* t.value is the number of a 0-d tensor. */
static void check_single(lua_State *L, const ct_tensor *tensor) {
    char text[CT_SHAPE_TEXT];
    if (tensor->view.shape.ndim > 0)
        ct_lua_raise(L, "value",
                     "a tensor of shape %s is not one number; only 0-d tensors have a value",
                     ct_shape_text(&tensor->view.shape, text));
}

static int read_field(lua_State *L, ct_tensor *tensor, const char *name) {
    if (strcmp(name, "shape") == 0)
        return push_shape(L, &tensor->view.shape);
    if (strcmp(name, "dtype") == 0) {
        lua_pushstring(L, ct_dtype_name(tensor->dtype));
        return 1;
    }
    if (strcmp(name, "ndim") == 0) {
        lua_pushinteger(L, tensor->view.shape.ndim);
        return 1;
    }
    if (strcmp(name, "grad") == 0) {
        ct_tensor **box = ct_lua_push_empty(L, ct_bind_of(L));
        ct_tensor *grad = ct_cell_grad(tensor->cell);
        if (grad)
            *box = ct_tensor_retain(grad);
        else
            lua_pushnil(L);
        return 1;
    }
    if (strcmp(name, "requires_grad") == 0) {
        lua_pushboolean(L, ct_tensor_requires_grad(tensor));
        return 1;
    }
    if (strcmp(name, "is_leaf") == 0) {
        lua_pushboolean(L, ct_tensor_is_leaf(tensor));
        return 1;
    }
    if (strcmp(name, "value") == 0) {
        check_single(L, tensor);
        call_method(L, "item", 0);
        return 1;
    }
    return 0;
}

/* upvalue 1: the method table */
static int tensor_index(lua_State *L) {
    char text[CT_LUA_TEXT], guess[CT_LUA_TEXT];
    if (lua_type(L, 2) != LUA_TSTRING)
        return ct_lua_index_read(L);
    lua_pushvalue(L, 2);
    lua_rawget(L, lua_upvalueindex(1));
    if (!lua_isnil(L, -1))
        return 1;
    ct_tensor *tensor = ct_lua_tensor(L, 1, NULL, "self");
    const char *name = lua_tostring(L, 2);
    if (read_field(L, tensor, name))
        return 1;
    const char *nearest = ct_lua_nearest(name, fields, N_FIELDS, guess);
    if (!nearest[0])
        nearest = ct_lua_nearest_key(L, lua_upvalueindex(1), name, guess);
    return ct_lua_raise(L, NULL, "%s has no field or method '%.60s'%s", ct_lua_describe(L, 1, text),
                        name, nearest);
}

static int set_grad(lua_State *L, ct_tensor *tensor) {
    char seen[CT_SHAPE_TEXT], due[CT_SHAPE_TEXT];
    ct_error error = {.status = CT_OK};
    ct_tensor *grad = lua_isnil(L, 3) ? NULL : ct_lua_tensor(L, 3, "grad", "value");
    if (grad &&
        (!ct_shape_equal(&grad->view.shape, &tensor->view.shape) || grad->dtype != tensor->dtype))
        return ct_lua_raise(
            L, "grad", "the gradient of a %s tensor of shape %s cannot be a %s tensor of shape %s",
            ct_dtype_name(tensor->dtype), ct_shape_text(&tensor->view.shape, due),
            ct_dtype_name(grad->dtype), ct_shape_text(&grad->view.shape, seen));
    ct_bind_of(L);
    if (ct_cell_set_grad(tensor->cell, grad, &error) != CT_OK)
        return ct_lua_raise_error(L, "grad", &error);
    return 0;
}

static int tensor_newindex(lua_State *L) {
    char guess[CT_LUA_TEXT];
    ct_error error = {.status = CT_OK};
    if (lua_type(L, 2) != LUA_TSTRING)
        return ct_lua_index_write(L);
    ct_tensor *tensor = ct_lua_tensor(L, 1, NULL, "self");
    const char *name = lua_tostring(L, 2);
    if (strcmp(name, "grad") == 0)
        return set_grad(L, tensor);
    if (strcmp(name, "requires_grad") == 0) {
        bool flag = ct_lua_flag(L, 3, "requires_grad", "value", false);
        ct_bind_of(L);
        if (ct_tensor_require_grad(tensor, flag, &error) != CT_OK)
            return ct_lua_raise_error(L, "requires_grad", &error);
        return 0;
    }
    if (strcmp(name, "value") == 0) {
        check_single(L, tensor);
        call_method(L, ct_lua_to_tensor(L, 3) ? "copy_" : "fill_", 3);
        return 0;
    }
    const char *settable[] = {"grad", "requires_grad", "value"};
    for (int i = 0; i < N_FIELDS; i++)
        if (strcmp(name, fields[i]) == 0)
            return ct_lua_raise(L, NULL, "the field '%s' of a tensor cannot be set", name);
    return ct_lua_raise(L, NULL, "a tensor has no field '%.60s' to set%s", name,
                        ct_lua_nearest(name, settable, 3, guess));
}

static int tensor_len(lua_State *L) {
    const ct_tensor *tensor = ct_lua_tensor(L, 1, "#", "self");
    if (tensor->view.shape.ndim == 0)
        return ct_lua_raise(L, "#", "a 0-d tensor has no length");
    lua_pushinteger(L, (lua_Integer)tensor->view.shape.dim[0]);
    return 1;
}

static int tensor_tostring(lua_State *L) {
    char text[CT_LUA_TEXT];
    ct_lua_tensor(L, 1, "tostring", "self");
    lua_rawgetp(L, LUA_REGISTRYINDEX, &format_key);
    if (lua_isfunction(L, -1)) {
        lua_pushvalue(L, 1);
        lua_call(L, 1, 1);
        return 1;
    }
    lua_pushstring(L, ct_lua_describe(L, 1, text));
    return 1;
}

/* core.set_format(fn): what __tostring calls */
static int set_format(lua_State *L) {
    luaL_checktype(L, 1, LUA_TFUNCTION);
    lua_settop(L, 1);
    lua_rawsetp(L, LUA_REGISTRYINDEX, &format_key);
    return 0;
}

static int is_tensor(lua_State *L) {
    lua_pushboolean(L, ct_lua_to_tensor(L, 1) != NULL);
    return 1;
}

static int numel(lua_State *L) {
    const ct_tensor *tensor = ct_lua_tensor(L, 1, "numel", "self");
    lua_pushinteger(L, (lua_Integer)ct_shape_numel(&tensor->view.shape));
    return 1;
}

/* a < b would turn a tensor of answers into one boolean */
static int no_order(lua_State *L) {
    return ct_lua_raise(
        L, NULL, "tensors have no order; compare their elements with a:lt(b), le, gt, ge, eq, ne");
}

static int no_concat(lua_State *L) {
    return ct_lua_raise(L, NULL, "'..' does not join tensors; use ct.cat, or tostring for text");
}

void ct_open_tensor(lua_State *L, int core, int methods) {
    static const luaL_Reg meta_functions[] = {
        {"__gc", tensor_gc},     {"__newindex", tensor_newindex},
        {"__len", tensor_len},   {"__tostring", tensor_tostring},
        {"__lt", no_order},      {"__le", no_order},
        {"__concat", no_concat}, {NULL, NULL},
    };
    static const luaL_Reg functions[] = {
        {"set_format", set_format}, {"is_tensor", is_tensor}, {NULL, NULL}};
    static const luaL_Reg method_functions[] = {{"numel", numel}, {NULL, NULL}};
    lua_newtable(L);
    ct_lua_add(L, lua_gettop(L), meta_functions);
    lua_pushvalue(L, methods);
    lua_pushcclosure(L, tensor_index, 1);
    lua_setfield(L, -2, "__index");
    lua_pushliteral(L, "tensor");
    lua_setfield(L, -2, "__name");
    lua_rawsetp(L, LUA_REGISTRYINDEX, &meta_key);
    ct_lua_add(L, core, functions);
    ct_lua_add(L, methods, method_functions);
}
