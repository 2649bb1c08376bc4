/* inspect.c: looking into finished traces: what they hold, their C source, their graph. */
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "backend/inspect.h"
#include "backend/store.h"
#include "base/heap.h" // defines: ct_realloc
#include "base/timeline.h"
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

/* trace:bisect(): from now on compiled runs are compared with the eager loops; how many were */
static int bisect(lua_State *L) {
    ct_lua_trace *box = ct_lua_live_trace(L, 1, false);
    box->bisected = true;
    lua_pushinteger(L, box->compared);
    return 1;
}

/* ---- graphviz and the cache ---- */

/* core.inspect.svg(): an error where there is no dot; svg(dot file, svg file) has it draw */
static int svg(lua_State *L) {
    ct_error error = {.status = CT_OK};
    ct_status status = lua_isnoneornil(L, 1)
                           ? ct_inspect_has_dot(&error)
                           : ct_inspect_svg(luaL_checkstring(L, 1), luaL_checkstring(L, 2), &error);
    return status == CT_OK ? 0 : ct_lua_raise_error(L, NULL, &error);
}

/* The directory at index 1, or the user's cache. */
static const char *directory_at(lua_State *L, char path[CT_PATH]) {
    if (lua_type(L, 1) == LUA_TSTRING)
        return lua_tostring(L, 1);
    if (!ct_store_directory(path))
        ct_lua_raise(L, NULL, "no home directory is known, so there is no cache; name a directory");
    return path;
}

typedef struct listing {
    ct_store_file *files;
    size_t n, room;
    bool failed;
} listing;

static void add_file(void *context, const ct_store_file *file) {
    listing *list = context;
    if (list->n == list->room) {
        size_t room = list->room ? 2 * list->room : 64;
        ct_store_file *files = ct_realloc(list->files, room * sizeof *files);
        if (!files) {
            list->failed = true;
            return;
        }
        list->files = files;
        list->room = room;
    }
    list->files[list->n++] = *file;
}

/* pushes what a listing in a light userdata at index 1 holds */
static int push_listing(lua_State *L) {
    const listing *list = lua_touserdata(L, 1);
    lua_createtable(L, (int)list->n, 0);
    for (size_t i = 0; i < list->n; i++) {
        lua_createtable(L, 0, 4);
        lua_pushstring(L, list->files[i].key);
        lua_setfield(L, -2, "key");
        lua_pushboolean(L, list->files[i].finished);
        lua_setfield(L, -2, "finished");
        set_number(L, "bytes", (double)list->files[i].bytes);
        set_number(L, "age", list->files[i].age);
        lua_rawseti(L, -2, (int)i + 1);
    }
    return 1;
}

/* core.inspect.cache_files(directory or nil): our files in it, and its path */
static int cache_files(lua_State *L) {
    char own[CT_PATH];
    ct_error error = {.status = CT_OK};
    listing list = {0};
    const char *path = directory_at(L, own);
    ct_status status = ct_store_list(path, add_file, &list, &error);
    if (status == CT_OK && list.failed)
        status = CT_ERR_MEMORY;
    lua_pushcfunction(L, push_listing);
    lua_pushlightuserdata(L, &list);
    bool pushed = status != CT_OK || lua_pcall(L, 1, 1, 0) == LUA_OK;
    free(list.files);
    if (status != CT_OK)
        return ct_lua_raise_error(L, NULL, &error);
    if (!pushed)
        return lua_error(L);
    lua_pushstring(L, path);
    return 2;
}

/* core.inspect.clear_cache(directory or nil): how many files went, their bytes, the path */
static int clear_cache(lua_State *L) {
    char own[CT_PATH];
    ct_error error = {.status = CT_OK};
    int64_t files, bytes;
    const char *path = directory_at(L, own);
    if (ct_store_clear(path, &files, &bytes, &error) != CT_OK)
        return ct_lua_raise_error(L, NULL, &error);
    lua_pushinteger(L, (lua_Integer)files);
    lua_pushnumber(L, (lua_Number)bytes);
    lua_pushstring(L, path);
    return 3;
}

/* ---- time ---- */

/* core.inspect.timeline(path): begins the timeline of this process */
static int timeline(lua_State *L) {
    ct_error error = {.status = CT_OK};
    if (ct_timeline_open(luaL_checkstring(L, 1), &error) != CT_OK) {
        lua_pushstring(L, error.message);
        return lua_error(L);
    }
    return 0;
}

/* core.inspect.event(name, category, begin, end) */
static int event(lua_State *L) {
    ct_timeline_event(luaL_checkstring(L, 1), luaL_checkstring(L, 2), luaL_checknumber(L, 3),
                      luaL_checknumber(L, 4));
    return 0;
}

/* trace:measure(on): whether the time of its kernels is taken; true where it is compiled */
static int measure(lua_State *L) {
    const ct_lua_trace *box = ct_lua_live_trace(L, 1, false);
    if (box->program)
        ct_program_measure(box->program, lua_toboolean(L, 2));
    lua_pushboolean(L, box->program != NULL);
    return 1;
}

/* trace:kernels(): the runs measured, and a table for each kernel and library call in their order:
 * name, kind, count, seconds, gbs, gflops; nothing where nothing was measured */
static int kernels(lua_State *L) {
    const ct_lua_trace *box = ct_lua_live_trace(L, 1, false);
    ct_kernel_row row = {.runs = 0};
    int n = box->program ? ct_inspect_kernels(box->program) : 0;
    if (n > 0)
        ct_inspect_kernel(box->program, 0, &row);
    if (row.runs == 0)
        return 0;
    lua_pushnumber(L, (lua_Number)row.runs);
    lua_createtable(L, n, 0);
    for (int k = 0; k < n; k++) {
        ct_inspect_kernel(box->program, k, &row);
        double rate = row.seconds > 0 ? 1e-9 * (double)row.runs / row.seconds : 0;
        lua_createtable(L, 0, 6);
        lua_pushstring(L, row.name);
        lua_setfield(L, -2, "name");
        lua_pushstring(L, row.call ? "call" : "kernel");
        lua_setfield(L, -2, "kind");
        set_number(L, "count", (double)row.runs);
        set_number(L, "seconds", row.seconds);
        set_number(L, "gbs", row.bytes * rate);
        set_number(L, "gflops", row.flops * rate);
        lua_rawseti(L, -2, k + 1);
    }
    return 2;
}

const luaL_Reg ct_lua_inspect_functions[] = {
    {"svg", svg},
    {"timeline", timeline},
    {"event", event},
    {"cache_files", cache_files},
    {"clear_cache", clear_cache},
    {NULL, NULL},
};

const luaL_Reg ct_lua_inspect_methods[] = {
    {"bisect", bisect}, {"measure", measure}, {"kernels", kernels}, {"summary", summary},
    {"blank", blank},   {"render", render},   {"graph", graph},     {NULL, NULL},
};
