/* host.c: the Lua side of ctrain.h: a runtime with a Lua 5.4 state that carries ctrain's Lua files
 * inside. Every call from the host runs protected on the main state and leaves its stack as it was.
 */
#ifdef CT_LUA54

#include <string.h>

#include "base/error.h"
#include "bind/bind.h"
#include "bind/host.h"

static const struct ct_lua_file *find_file(const char *name) {
    for (const struct ct_lua_file *file = ct_lua_files; file->name; file++)
        if (strcmp(file->name, name) == 0)
            return file;
    return NULL;
}

/* core.source("ctrain/nn/init.lua"): the text of a file that the library carries, or nil */
static int source(lua_State *L) {
    const struct ct_lua_file *file = find_file(luaL_checkstring(L, 1));
    if (file)
        lua_pushlstring(L, file->text, file->size);
    else
        lua_pushnil(L);
    return 1;
}

static int open_core(lua_State *L) {
    luaopen_ctrain_core(L);
    lua_pushcfunction(L, source);
    lua_setfield(L, -2, "source");
    return 1;
}

/* A searcher for `require`: "ctrain.nn" is the file "ctrain/nn.lua" or "ctrain/nn/init.lua". */
static int search_file(lua_State *L) {
    const char *module = luaL_checkstring(L, 1);
    if (strcmp(module, "ctrain.core") == 0) {
        lua_pushcfunction(L, open_core);
        return 1;
    }
    const char *path = luaL_gsub(L, module, ".", "/");
    const char *tails[] = {".lua", "/init.lua"};
    for (int i = 0; i < 2; i++) {
        const struct ct_lua_file *file = find_file(lua_pushfstring(L, "%s%s", path, tails[i]));
        if (!file)
            continue;
        lua_pushfstring(L, "@%s", file->name);
        if (luaL_loadbuffer(L, file->text, file->size, lua_tostring(L, -1)) != LUA_OK)
            return lua_error(L);
        lua_pushstring(L, file->name);
        return 2;
    }
    lua_pushfstring(L, "no file '%s.lua' inside ctrain", path);
    return 1;
}

/* The state's own libraries, the binding, and the searcher in front of all others. */
static int open_state(lua_State *L) {
    ct_runtime *runtime = lua_touserdata(L, 1);
    luaL_openlibs(L);
    ct_bind_create(L, runtime);
    lua_getglobal(L, "package");
    lua_getfield(L, -1, "searchers");
    for (int i = (int)lua_rawlen(L, -1); i >= 2; i--) {
        lua_rawgeti(L, -1, i);
        lua_rawseti(L, -2, i + 1);
    }
    lua_pushcfunction(L, search_file);
    lua_rawseti(L, -2, 2);
    return 0;
}

static void close_state(void *state) {
    lua_close(state);
}

/* The host may now make tensors itself: they have no script line. */
static void leave(lua_State *L) {
    ct_bind *bind = ct_bind_of(L);
    bind->line = (ct_line){NULL, 0};
    bind->line_known = true;
}

/* The error value on top, popped, as a ct_error. */
static ct_status fail_from_lua(lua_State *L, ct_error *error) {
    size_t length;
    const char *message = luaL_tolstring(L, -1, &length);
    ct_status status = ct_fail(error, CT_ERR_LUA, "%s", message);
    lua_pop(L, 2);
    return status;
}

ct_runtime *ct_runtime_new(const ct_config *config, ct_error *error) {
    ct_runtime *runtime = ct_runtime_create(config, error);
    lua_State *L = runtime ? luaL_newstate() : NULL;
    if (!L) {
        if (runtime) {
            ct_fail(error, CT_ERR_MEMORY, "out of memory for a Lua state");
            ct_runtime_drop(runtime);
        }
        return NULL;
    }
    lua_pushcfunction(L, open_state);
    lua_pushlightuserdata(L, ct_runtime_hold(runtime));
    if (lua_pcall(L, 1, 0, 0) != LUA_OK) {
        fail_from_lua(L, error);
        lua_close(L);
        ct_runtime_drop(runtime);
        return NULL;
    }
    runtime->lua = L;
    runtime->lua_close = close_state;
    leave(L);
    return runtime;
}

void ct_runtime_free(ct_runtime *runtime) {
    if (!runtime)
        return;
    if (runtime->lua)
        runtime->lua_close(runtime->lua);
    runtime->lua = NULL;
    ct_runtime_drop(runtime);
}

lua_State *ct_host_state(ct_runtime *runtime) {
    return runtime->lua;
}

/* The chunk that loading left on the stack is run, or its error kept. */
static ct_status run_loaded(lua_State *L, int loaded, ct_error *error) {
    if (loaded != LUA_OK || !ct_lua_protected(L, 0, 0))
        return fail_from_lua(L, error);
    return CT_OK;
}

ct_status ct_run_string(ct_runtime *runtime, const char *source, const char *name,
                        ct_error *error) {
    lua_State *L = runtime->lua;
    int top = lua_gettop(L);
    char chunk[256] = "=";
    strncat(chunk, name ? name : "host", sizeof chunk - 2);
    ct_status status = run_loaded(L, luaL_loadbuffer(L, source, strlen(source), chunk), error);
    leave(L);
    lua_settop(L, top);
    return status;
}

ct_status ct_run_file(ct_runtime *runtime, const char *path, ct_error *error) {
    lua_State *L = runtime->lua;
    int top = lua_gettop(L);
    ct_status status = run_loaded(L, luaL_loadfile(L, path), error);
    leave(L);
    lua_settop(L, top);
    return status;
}

typedef struct host_call {
    const char *name;
    ct_tensor *const *arguments;
    ct_tensor **results;
    int n_arguments, n_results;
} host_call;

/* Runs protected: arguments in, the function's results out. */
static int call_function(lua_State *L) {
    host_call *c = lua_touserdata(L, 1);
    char text[CT_LUA_TEXT];
    ct_bind *bind = ct_bind_of(L);
    luaL_checkstack(L, c->n_arguments + c->n_results + 8, "too many arguments");
    lua_getglobal(L, c->name);
    if (!lua_isfunction(L, -1))
        return luaL_error(L, "there is no global function '%s', it is %s", c->name,
                          ct_lua_describe(L, -1, text));
    for (int i = 0; i < c->n_arguments; i++) {
        ct_tensor **box = ct_lua_push_empty(L, bind);
        *box = ct_tensor_retain(c->arguments[i]);
    }
    lua_call(L, c->n_arguments, c->n_results);
    int first = lua_gettop(L) - c->n_results + 1;
    for (int i = 0; i < c->n_results; i++)
        if (!ct_lua_to_tensor(L, first + i))
            return luaL_error(L, "result %d of '%s' must be a tensor, got %s", i + 1, c->name,
                              ct_lua_describe(L, first + i, text));
    for (int i = 0; i < c->n_results; i++)
        c->results[i] = ct_tensor_retain(ct_lua_to_tensor(L, first + i));
    return 0;
}

ct_status ct_call(ct_runtime *runtime, const char *name, ct_tensor *const *arguments,
                  int n_arguments, ct_tensor **results, int n_results, ct_error *error) {
    lua_State *L = runtime->lua;
    host_call call = {name, arguments, results, n_arguments, n_results};
    for (int i = 0; i < n_results; i++)
        results[i] = NULL;
    if (!lua_checkstack(L, 8))
        return ct_fail(error, CT_ERR_MEMORY, "out of memory for the Lua stack");
    lua_pushcfunction(L, call_function);
    lua_pushlightuserdata(L, &call);
    ct_status status = ct_lua_protected(L, 1, 0) ? CT_OK : fail_from_lua(L, error);
    leave(L);
    return status;
}

#endif
