/* grad.c: backward, grad, no_grad, and functions whose gradient is written in Lua. */
#include <stdlib.h>

#include "base/error.h"
#include "bind/bind.h"
#include "graph/grad.h"

/* backward(gradient, retain_graph, create_graph) */
static int backward(lua_State *L) {
    static const char *const options[] = {"gradient", "retain_graph", "create_graph", NULL};
    ct_error error = {.status = CT_OK};
    ct_tensor *root = ct_lua_tensor(L, 1, "backward", "self");
    ct_lua_spread_options(L, 2, "backward", options);
    ct_tensor *seed = lua_isnil(L, 2) ? NULL : ct_lua_tensor(L, 2, "backward", "gradient");
    bool create = ct_lua_flag(L, 4, "backward", "create_graph", false);
    bool retain = ct_lua_flag(L, 3, "backward", "retain_graph", create);
    ct_bind_of(L);
    if (ct_backward(root, seed, retain, create, &error) != CT_OK)
        return ct_lua_raise_error(L, "backward", &error);
    return 0;
}

/* An array of tensors in a userdata, from one tensor or a list at `index`; nils stay NULL where
 * allowed. */
static ct_tensor **read_tensors(lua_State *L, int index, const char *argument, bool nils, int due,
                                int *n) {
    char text[CT_LUA_TEXT];
    bool single = ct_lua_to_tensor(L, index) != NULL;
    if (!single && !lua_istable(L, index))
        ct_lua_raise(L, "grad", "'%s' must be a tensor or a list of tensors, got %s", argument,
                     ct_lua_describe(L, index, text));
    int count = single ? 1 : nils ? due : (int)lua_rawlen(L, index);
    if (count == 0)
        ct_lua_raise(L, "grad", "'%s' is an empty list", argument);
    if (due > 0 && count != due)
        ct_lua_raise(L, "grad", "'%s' has %d entries where there are %d outputs", argument, count,
                     due);
    ct_tensor **tensors = lua_newuserdatauv(L, (size_t)count * sizeof *tensors, 0);
    for (int i = 0; i < count; i++) {
        if (single)
            lua_pushvalue(L, index);
        else
            lua_rawgeti(L, index, i + 1);
        tensors[i] = ct_lua_to_tensor(L, -1);
        if (!tensors[i] && !(nils && lua_isnil(L, -1)))
            ct_lua_raise(L, "grad", "'%s[%d]' must be a tensor, got %s", argument, i + 1,
                         ct_lua_describe(L, -1, text));
        lua_pop(L, 1);
    }
    *n = count;
    return tensors;
}

/* grad(outputs, inputs, {grad_outputs, retain_graph, create_graph, allow_unused}): a tensor for a
 * tensor, a list for a list */
static int grad(lua_State *L) {
    static const char *const options[] = {"grad_outputs", "retain_graph", "create_graph",
                                          "allow_unused", NULL};
    enum { GRAD_OUTPUTS = 3, RETAIN, CREATE, ALLOW_UNUSED };
    ct_error error = {.status = CT_OK};
    int n_outputs, n_inputs, n_seeds;
    ct_lua_spread_options(L, GRAD_OUTPUTS, "grad", options);
    lua_settop(L, ALLOW_UNUSED);
    ct_tensor **outputs = read_tensors(L, 1, "outputs", false, 0, &n_outputs);
    ct_tensor **inputs = read_tensors(L, 2, "inputs", false, 0, &n_inputs);
    ct_tensor **seeds = NULL;
    if (!lua_isnil(L, GRAD_OUTPUTS))
        seeds = read_tensors(L, GRAD_OUTPUTS, "grad_outputs", true, n_outputs, &n_seeds);
    bool create = ct_lua_flag(L, CREATE, "grad", "create_graph", false);
    bool retain = ct_lua_flag(L, RETAIN, "grad", "retain_graph", create);
    bool unused = ct_lua_flag(L, ALLOW_UNUSED, "grad", "allow_unused", false);
    bool single = ct_lua_to_tensor(L, 2) != NULL;
    ct_bind *bind = ct_bind_of(L);
    lua_createtable(L, n_inputs, 0);
    int list = lua_gettop(L);
    for (int i = 0; i < n_inputs; i++) {
        ct_lua_push_empty(L, bind);
        lua_rawseti(L, list, i + 1);
    }
    ct_tensor **gradients = lua_newuserdatauv(L, (size_t)n_inputs * sizeof *gradients, 0);
    ct_bind_of(L);
    if (ct_gradients(outputs, seeds, n_outputs, inputs, n_inputs, retain, create, gradients,
                     &error) != CT_OK)
        return ct_lua_raise_error(L, "grad", &error);
    int missing = 0;
    for (int i = 0; i < n_inputs; i++) {
        if (!gradients[i]) {
            missing = missing ? missing : i + 1;
            lua_pushboolean(L, false); /* a list of results has no holes */
            lua_rawseti(L, list, i + 1);
            continue;
        }
        lua_rawgeti(L, list, i + 1);
        *(ct_tensor **)lua_touserdata(L, -1) = gradients[i];
        lua_pop(L, 1);
    }
    if (missing && !unused)
        return ct_lua_raise(L, "grad",
                            "the outputs do not depend on 'inputs[%d]'; with {allow_unused = true} "
                            "its gradient is %s",
                            missing, single ? "nil" : "false");
    if (!single) {
        lua_pushvalue(L, list);
        return 1;
    }
    if (missing)
        lua_pushnil(L);
    else
        lua_rawgeti(L, list, 1);
    return 1;
}

/* no_grad(fn, ...): fn(...) with nothing recorded for gradients; its results */
static int no_grad(lua_State *L) {
    char text[CT_LUA_TEXT];
    if (!lua_isfunction(L, 1))
        return ct_lua_raise(L, "ct.no_grad", "'fn' must be a function, got %s",
                            ct_lua_describe(L, 1, text));
    ct_runtime *runtime = ct_bind_of(L)->runtime;
    int before = runtime->no_grad;
    runtime->no_grad = before + 1;
    bool ok = ct_lua_protected(L, lua_gettop(L) - 1, LUA_MULTRET);
    runtime->no_grad = before;
    return ok ? lua_gettop(L) : lua_error(L);
}

/* enable_grad(fn, ...): the opposite, inside no_grad */
static int enable_grad(lua_State *L) {
    char text[CT_LUA_TEXT];
    if (!lua_isfunction(L, 1))
        return ct_lua_raise(L, "ct.enable_grad", "'fn' must be a function, got %s",
                            ct_lua_describe(L, 1, text));
    ct_runtime *runtime = ct_bind_of(L)->runtime;
    int before = runtime->no_grad;
    runtime->no_grad = 0;
    bool ok = ct_lua_protected(L, lua_gettop(L) - 1, LUA_MULTRET);
    runtime->no_grad = before;
    return ok ? lua_gettop(L) : lua_error(L);
}

static int is_grad_enabled(lua_State *L) {
    lua_pushboolean(L, ct_bind_of(L)->runtime->no_grad == 0);
    return 1;
}

static int detach(lua_State *L) {
    ct_error error = {.status = CT_OK};
    ct_tensor *tensor = ct_lua_tensor(L, 1, "detach", "self");
    ct_tensor **box = ct_lua_push_empty(L, ct_bind_of(L));
    return ct_lua_result(L, box, ct_tensor_detach(tensor, &error), &error, "detach");
}

static int requires_grad(lua_State *L) {
    ct_error error = {.status = CT_OK};
    ct_tensor *tensor = ct_lua_tensor(L, 1, "requires_grad_", "self");
    bool flag = ct_lua_flag(L, 2, "requires_grad_", "requires_grad", true);
    ct_bind_of(L);
    if (ct_tensor_require_grad(tensor, flag, &error) != CT_OK)
        return ct_lua_raise_error(L, "requires_grad_", &error);
    lua_settop(L, 1);
    return 1;
}

/* ---- Functions with a gradient of their own ------------------------------------------------- */

typedef struct lua_gradient {
    ct_lua_link *link;
    ct_bind *bind;
    int function; /* reference in the registry */
} lua_gradient;

typedef struct gradient_call {
    lua_gradient *own;
    ct_node *gradient;
    ct_node **gradients;
    int n;
} gradient_call;

static void release_gradient(void *context) {
    lua_gradient *own = context;
    if (own->link->state)
        luaL_unref(own->link->state, LUA_REGISTRYINDEX, own->function);
    ct_lua_link_release(own->link);
    free(own);
}

/* Runs protected: gradient -> fn(gradient) -> as many tensors, or nil, as there are inputs. */
static int call_gradient(lua_State *L) {
    gradient_call *c = lua_touserdata(L, 1);
    char text[CT_LUA_TEXT];
    ct_error error = {.status = CT_OK};
    lua_rawgeti(L, LUA_REGISTRYINDEX, c->own->function);
    ct_tensor **box = ct_lua_push_empty(L, c->own->bind);
    ct_lua_result(L, box, ct_tensor_new(c->gradient, &error), &error, "backward");
    lua_call(L, 1, c->n);
    for (int i = 0; i < c->n; i++) {
        int index = i - c->n;
        ct_tensor *tensor = ct_lua_to_tensor(L, index);
        if (!tensor && !lua_isnil(L, index))
            return ct_lua_raise(
                L, "backward",
                "result %d of a custom backward function must be a tensor or nil, got %s", i + 1,
                ct_lua_describe(L, index, text));
        if (!tensor)
            continue;
        ct_builder b;
        ct_builder_begin(&b, c->own->bind->runtime, &error);
        c->gradients[i] = ct_builder_keep(&b, ct_tensor_node(&b, tensor));
        if (!c->gradients[i])
            return ct_lua_raise_error(L, "backward", &error);
    }
    return 0;
}

static ct_status run_gradient(void *context, ct_node *gradient, ct_node **gradients, int n,
                              ct_error *error) {
    lua_gradient *own = context;
    gradient_call call = {own, gradient, gradients, n};
    for (int i = 0; i < n; i++)
        gradients[i] = NULL;
    if (!own->link->state)
        return ct_fail(error, CT_ERR_STATE,
                       "backward: the Lua state of a custom function is closed");
    lua_State *L = own->bind->state;
    if (!lua_checkstack(L, n + 16))
        return ct_fail(error, CT_ERR_MEMORY, "backward: memory is out");
    int top = lua_gettop(L);
    lua_pushcfunction(L, call_gradient);
    lua_pushlightuserdata(L, &call);
    bool ok = ct_lua_protected(L, 1, 0);
    own->bind->state = L;
    own->bind->line_known = false;
    ct_status status = CT_OK;
    if (!ok) {
        const char *message = lua_type(L, -1) == LUA_TSTRING ? lua_tostring(L, -1) : NULL;
        status =
            ct_fail(error, CT_ERR_LUA, "%s", message ? message : "an error value that is not text");
        lua_pushvalue(L, -1);
        ct_lua_keep_error(L);
        for (int i = 0; i < n; i++) {
            ct_node_release(gradients[i]);
            gradients[i] = NULL;
        }
    }
    lua_settop(L, top);
    return status;
}

/* custom(value, inputs, backward): value, whose gradient goes to backward(gradient), which returns
 * those of the inputs (nil: none) */
static int custom(lua_State *L) {
    int n;
    char text[CT_LUA_TEXT];
    ct_lua_call call;
    ct_tensor *value = ct_lua_tensor(L, 1, "ct.custom", "value");
    ct_tensor **inputs = read_tensors(L, 2, "inputs", false, 0, &n);
    if (!lua_isfunction(L, 3))
        return ct_lua_raise(L, "ct.custom", "'backward' must be a function, got %s",
                            ct_lua_describe(L, 3, text));
    ct_node **nodes = lua_newuserdatauv(L, (size_t)n * sizeof *nodes, 0);
    ct_bind *bind = ct_bind_of(L);
    lua_pushvalue(L, 3);
    int function = luaL_ref(L, LUA_REGISTRYINDEX);
    ct_custom *custom_node = ct_malloc(sizeof *custom_node);
    lua_gradient *own = ct_malloc(sizeof *own);
    if (!custom_node || !own) {
        free(custom_node);
        free(own);
        luaL_unref(L, LUA_REGISTRYINDEX, function);
        return ct_lua_raise(L, "ct.custom", "memory is out");
    }
    *own = (lua_gradient){ct_lua_link_retain(bind->link), bind, function};
    *custom_node = (ct_custom){1, run_gradient, release_gradient, own};
    ct_lua_begin(&call, L, "ct.custom");
    ct_node *x = ct_lua_node(&call, value);
    for (int i = 0; i < n; i++) {
        nodes[i] = ct_lua_node(&call, inputs[i]);
        x = nodes[i] ? x : NULL;
    }
    return ct_lua_finish(&call, ct_custom_node(&call.builder, x, nodes, n, custom_node));
}

void ct_open_grad(lua_State *L, int core, int methods) {
    static const luaL_Reg functions[] = {
        {"grad", grad},
        {"no_grad", no_grad},
        {"enable_grad", enable_grad},
        {"is_grad_enabled", is_grad_enabled},
        {"custom", custom},
        {NULL, NULL},
    };
    static const luaL_Reg method_functions[] = {{"backward", backward},
                                                {"detach", detach},
                                                {"requires_grad_", requires_grad},
                                                {NULL, NULL}};
    ct_lua_add(L, core, functions);
    ct_lua_add(L, methods, method_functions);
}
