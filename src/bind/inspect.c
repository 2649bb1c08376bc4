/* inspect.c: looking into finished traces: what they hold, their C source, their graph. */
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "backend/inspect.h"
#include "bind/trace.h"

static void set_number(lua_State *L, const char *name, double value) {
    lua_pushnumber(L, value);
    lua_setfield(L, -2, name);
}

static void set_count(lua_State *L, const char *name, int value) {
    lua_pushinteger(L, value);
    lua_setfield(L, -2, name);
}

/* trace:summary(): what became of it, without a compiler: nodes, kernels, calls, arena_bytes,
 * parameters, parameter_bytes, others, other_bytes */
static int summary(lua_State *L) {
    ct_error error = {.status = CT_OK};
    ct_trace_summary found;
    const ct_lua_trace *box = ct_lua_live_trace(L, 1, false);
    if (ct_inspect_summary(box->trace, &found, &error) != CT_OK)
        return ct_lua_raise_error(L, "trace", &error);
    lua_createtable(L, 0, 8);
    set_count(L, "nodes", found.nodes);
    set_count(L, "kernels", found.kernels);
    set_count(L, "calls", found.calls);
    set_count(L, "parameters", found.parameters);
    set_count(L, "others", found.others);
    set_number(L, "parameter_bytes", (double)found.parameter_bytes);
    set_number(L, "other_bytes", (double)found.other_bytes);
    set_number(L, "arena_bytes", (double)found.arena_bytes);
    return 1;
}

/* trace:blank(): tensors like the results of a run that nobody made: nan, or 0, and no memory */
static int blank(lua_State *L) {
    ct_error error = {.status = CT_OK};
    const ct_trace *trace = ct_lua_live_trace(L, 1, false)->trace;
    ct_bind *bind = ct_bind_of(L);
    lua_createtable(L, trace->n_results, 0);
    for (int i = 0; i < trace->n_results; i++) {
        const ct_node *like = trace->outputs[i];
        ct_tensor **result = ct_lua_push_empty(L, bind);
        *result = ct_tensor_full(bind->runtime, like->dtype, like->shape.ndim, like->shape.dim,
                                 ct_dtype_is_float(like->dtype) ? NAN : 0, &error);
        if (!*result)
            return ct_lua_raise_error(L, "trace", &error);
        lua_rawseti(L, -2, i + 1);
    }
    return 1;
}

static int push_text(lua_State *L, char *text, const ct_error *error) {
    if (!text)
        return ct_lua_raise_error(L, "trace", error);
    lua_pushstring(L, text);
    free(text);
    return 1;
}

/* trace:render(): the C that the step is compiled from */
static int render(lua_State *L) {
    ct_error error = {.status = CT_OK};
    const ct_lua_trace *box = ct_lua_live_trace(L, 1, false);
    return push_text(L, ct_inspect_source(box->trace, &error), &error);
}

/* trace:graph("txt" or "dot"): what was recorded, and what was fused from it */
static int graph(lua_State *L) {
    ct_error error = {.status = CT_OK};
    const ct_lua_trace *box = ct_lua_live_trace(L, 1, false);
    ct_drawing drawing =
        strcmp(luaL_checkstring(L, 2), "dot") == 0 ? CT_DRAWING_DOT : CT_DRAWING_TEXT;
    return push_text(L, ct_inspect_graph(box->trace, drawing, &error), &error);
}

const luaL_Reg ct_lua_inspect_methods[] = {
    {"summary", summary}, {"blank", blank}, {"render", render}, {"graph", graph}, {NULL, NULL},
};
