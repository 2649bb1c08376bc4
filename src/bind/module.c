/* module.c: `require "ctrain.core"`. Each Lua state has one binding and one runtime, kept in its
 * registry by a userdata that is made first and so finalized last; nodes that live longer hold the
 * runtime themselves. */
#include <stdlib.h>
#include <string.h>

#include "base/error.h"
#include "bind/bind.h"
#include "eager/eager.h" // defines: ct_eager

static const char bind_key, core_key, traceback_key;

ct_lua_link *ct_lua_link_retain(ct_lua_link *link) {
    link->refs++;
    return link;
}

void ct_lua_link_release(ct_lua_link *link) {
    if (link && --link->refs == 0)
        free(link);
}

ct_bind *ct_bind_of(lua_State *L) {
    lua_rawgetp(L, LUA_REGISTRYINDEX, &bind_key);
    ct_bind *bind = lua_touserdata(L, -1);
    lua_pop(L, 1);
    if (bind) {
        bind->state = L;
        bind->line_known = false;
    }
    return bind;
}

static int bind_collect(lua_State *L) {
    ct_bind *bind = lua_touserdata(L, 1);
    ct_runtime *runtime = bind->runtime;
    if (!runtime)
        return 0;
    bind->runtime = NULL;
    runtime->where = NULL;
    runtime->where_context = NULL;
    if (bind->link)
        bind->link->state = NULL;
    ct_lua_link_release(bind->link);
    free(bind->own);
    bind->link = NULL;
    bind->own = NULL;
    ct_runtime_drop(runtime);
    return 0;
}

/* string errors get a traceback, once; other values pass unchanged */
static int add_traceback(lua_State *L) {
    if (lua_type(L, 1) == LUA_TSTRING && !strstr(lua_tostring(L, 1), "\nstack traceback:"))
        luaL_traceback(L, L, lua_tostring(L, 1), 1);
    return 1;
}

bool ct_lua_protected(lua_State *L, int n, int n_results) {
    int handler = lua_gettop(L) - n;
    lua_rawgetp(L, LUA_REGISTRYINDEX, &traceback_key);
    lua_insert(L, handler);
    int status = lua_pcall(L, n, n_results, handler);
    lua_remove(L, handler);
    return status == 0;
}

ct_bind *ct_bind_create(lua_State *L, ct_runtime *runtime) {
    ct_bind *bind = lua_newuserdatauv(L, sizeof *bind, 0);
    memset(bind, 0, sizeof *bind);
    bind->runtime = runtime;
    lua_newtable(L);
    lua_pushcfunction(L, bind_collect);
    lua_setfield(L, -2, "__gc");
    lua_setmetatable(L, -2);
    lua_rawsetp(L, LUA_REGISTRYINDEX, &bind_key);
    lua_pushcfunction(L, add_traceback);
    lua_rawsetp(L, LUA_REGISTRYINDEX, &traceback_key);

    bind->link = ct_calloc(1, sizeof *bind->link);
    if (!bind->link)
        luaL_error(L, "ctrain.core: memory is out");
    bind->link->refs = 1;
    ct_error error = {.status = CT_OK};
    if (!runtime)
        runtime = ct_runtime_create(NULL, &error);
    if (!runtime)
        luaL_error(L, "ctrain.core: %s", error.message);
    bind->runtime = runtime;
    bind->state = bind->link->state = L;
    bind->collect_at = 0;
    runtime->executor = &ct_eager;
    runtime->where = ct_lua_where;
    runtime->where_context = bind;
    return bind;
}

/* The folder of the ctrain/init.lua that is loading this module: its frames are not the user's. */
static void find_own_files(lua_State *L, ct_bind *bind) {
    static const char ending[] = "/ctrain/init.lua";
    lua_Debug frame;
    for (int level = 1; !bind->own && lua_getstack(L, level, &frame); level++) {
        lua_getinfo(L, "S", &frame);
        size_t length = strlen(frame.source), tail = sizeof ending - 1;
        if (frame.source[0] != '@' || length <= tail ||
            strcmp(frame.source + length - tail, ending) != 0)
            continue;
        bind->own_length = length - 1 - strlen("init.lua");
        bind->own = ct_malloc(bind->own_length + 1);
        if (bind->own) {
            memcpy(bind->own, frame.source + 1, bind->own_length);
            bind->own[bind->own_length] = 0;
        }
    }
}

static int live_bytes(lua_State *L) {
    lua_pushinteger(L, (lua_Integer)ct_heap_live(ct_bind_of(L)->runtime->heap));
    return 1;
}

static int peak_bytes(lua_State *L) {
    lua_pushinteger(L, (lua_Integer)ct_heap_peak(ct_bind_of(L)->runtime->heap));
    return 1;
}

static int reset_peak_bytes(lua_State *L) {
    ct_heap_reset_peak(ct_bind_of(L)->runtime->heap);
    return 0;
}

/* core.log(level, text) with level "warning", "info" or "debug" */
static int log_line(lua_State *L) {
    static const char *const levels[] = {"warning", "info", "debug"};
    const char *level = lua_type(L, 1) == LUA_TSTRING ? lua_tostring(L, 1) : "";
    const char *text = lua_type(L, 2) == LUA_TSTRING ? lua_tostring(L, 2) : NULL;
    for (int i = 0; text && i < 3; i++)
        if (strcmp(level, levels[i]) == 0) {
            ct_log(ct_bind_of(L)->runtime, (ct_log_level)i, "%s", text);
            return 0;
        }
    return ct_lua_raise(L, "log", "expected a level (\"warning\", \"info\", \"debug\") and a text");
}

static int script_line(lua_State *L) {
    ct_line line = ct_lua_where(ct_bind_of(L));
    if (!line.source)
        return 0;
    lua_pushfstring(L, "%s:%d", line.source, line.line);
    return 1;
}

/* core.raise(function_name, message): an error at the user's script line */
static int raise_for_lua(lua_State *L) {
    const char *function = lua_type(L, 1) == LUA_TSTRING ? lua_tostring(L, 1) : NULL;
    const char *message = lua_type(L, 2) == LUA_TSTRING ? lua_tostring(L, 2) : "error";
    return ct_lua_raise(L, function, "%s", message);
}

/* core.interrupted(): raises "interrupted", once, after ct_interrupt */
static int interrupted(lua_State *L) {
    ct_error error = {.status = CT_OK};
    if (ct_check_interrupt(ct_bind_of(L)->runtime, &error) != CT_OK)
        return ct_lua_raise_error(L, NULL, &error);
    return 0;
}

/* core.nearest(wrong, table): " (did you mean 'name'?)" or "" */
static int nearest(lua_State *L) {
    char text[CT_LUA_TEXT];
    luaL_checktype(L, 2, LUA_TTABLE);
    lua_pushstring(L, ct_lua_nearest_key(L, 2, luaL_checkstring(L, 1), text));
    return 1;
}

#ifdef CT_FAULTS
/* core.fail_every(n): from now on every n-th allocation fails; 0: none does */
static int fail_every(lua_State *L) {
    ct_fail_every((long)luaL_checkinteger(L, 1));
    return 0;
}
#endif

void ct_lua_add(lua_State *L, int table, const luaL_Reg *functions) {
    lua_pushvalue(L, table);
    luaL_setfuncs(L, functions, 0);
    lua_pop(L, 1);
}

/* Opened again (package.loaded was cleared), it is the same module: tensors made before stay
 * tensors. */
CT_API int luaopen_ctrain_core(lua_State *L) {
    static const luaL_Reg functions[] = {
        {"live_bytes", live_bytes},
        {"peak_bytes", peak_bytes},
        {"reset_peak_bytes", reset_peak_bytes},
        {"log", log_line},
        {"script_line", script_line},
        {"raise", raise_for_lua},
        {"interrupted", interrupted},
        {"nearest", nearest},
        {NULL, NULL},
    };
    lua_rawgetp(L, LUA_REGISTRYINDEX, &core_key);
    if (lua_istable(L, -1))
        return 1;
    lua_pop(L, 1);
    ct_bind *bind = ct_bind_of(L);
    if (!bind)
        bind = ct_bind_create(L, NULL);
    find_own_files(L, bind);
    lua_newtable(L);
    int core = lua_gettop(L);
    ct_lua_add(L, core, functions);
#ifdef CT_FAULTS
    lua_pushcfunction(L, fail_every);
    lua_setfield(L, core, "fail_every");
#endif
    lua_pushstring(L, CT_VERSION);
    lua_setfield(L, core, "version");
    lua_newtable(L);
    for (int i = 0; i < CT_DTYPES; i++) {
        lua_pushstring(L, ct_dtype_name(i));
        lua_rawseti(L, -2, i + 1);
    }
    lua_setfield(L, core, "dtypes");
    lua_newtable(L);
    int methods = lua_gettop(L);
    lua_pushvalue(L, methods);
    lua_setfield(L, core, "Tensor");
    ct_open_convert(L, core, methods);
    ct_open_tensor(L, core, methods);
    ct_open_create(L, core, methods);
    ct_open_elementwise(L, core, methods);
    ct_open_reduce(L, core, methods);
    ct_open_shape(L, core, methods);
    ct_open_index(L, core, methods);
    ct_open_contract(L, core, methods);
    ct_open_join(L, core, methods);
    ct_open_grad(L, core, methods);
    ct_open_trace(L, core, methods);
    ct_open_h5(L, core, methods);
    ct_open_system(L, core, methods);
    lua_settop(L, core);
    lua_pushvalue(L, core);
    lua_rawsetp(L, LUA_REGISTRYINDEX, &core_key);
    return 1;
}
