/* cli.c: the Lua half of the command line and the REPL. */
#ifdef CT_LUA54

#include "bind/cli.h"

#include <stdlib.h>
#include <string.h>

#include "base/error.h"
#include "base/heap.h"
#include "bind/bind.h"
#include "bind/host.h"

static const char message_key;

/* The error value on top as a message. It may be longer than a ct_error holds, so the whole is kept
 * for ct_cli_message. */
static ct_status failure(lua_State *L, ct_error *error) {
    const char *message = lua_tostring(L, -1);
    if (!message)
        message = lua_pushfstring(L, "(error object is a %s value)", luaL_typename(L, -1));
    lua_pushvalue(L, -1);
    lua_rawsetp(L, LUA_REGISTRYINDEX, &message_key);
    return ct_fail(error, CT_ERR_LUA, "%s", message);
}

const char *ct_cli_message(ct_runtime *runtime, const ct_error *error) {
    lua_State *L = ct_host_state(runtime);
    lua_rawgetp(L, LUA_REGISTRYINDEX, &message_key);
    const char *whole = lua_tostring(L, -1);
    lua_pop(L, 1); /* the registry still holds it */
    return whole && strncmp(whole, error->message, strlen(error->message)) == 0 ? whole
                                                                                : error->message;
}

/* What an error becomes: a string gets a traceback, once, and so does an object that cannot say
 * what it is. */
static int explain(lua_State *L) {
    const char *message = lua_tostring(L, 1);
    if (!message) {
        if (luaL_callmeta(L, 1, "__tostring") && lua_type(L, -1) == LUA_TSTRING)
            return 1;
        message = lua_pushfstring(L, "(error object is a %s value)", luaL_typename(L, 1));
    }
    if (strstr(message, "\nstack traceback:"))
        lua_pushstring(L, message);
    else
        luaL_traceback(L, L, message, 1);
    return 1;
}

/* The function at 1 is called with what is above it. Gives true and the results, or false and the
 * error's text. */
static int call_explained(lua_State *L) {
    lua_pushcfunction(L, explain);
    lua_insert(L, 1);
    bool ok = lua_pcall(L, lua_gettop(L) - 2, LUA_MULTRET, 1) == LUA_OK;
    lua_pushboolean(L, ok);
    lua_replace(L, 1);
    return lua_gettop(L);
}

/* Calls the function below n arguments; its results take their place, or the error's text does.
 * Called from C, as in the stand-alone lua, so that tracebacks end in "[C]: in ?". */
static ct_status call(lua_State *L, int n, ct_error *error) {
    int function = lua_gettop(L) - n;
    lua_pushcfunction(L, call_explained);
    lua_insert(L, function);
    bool ok = lua_pcall(L, n + 1, LUA_MULTRET, 0) == LUA_OK;
    if (ok) {
        ok = lua_toboolean(L, function);
        lua_remove(L, function);
    }
    return ok ? CT_OK : failure(L, error);
}

ct_status ct_cli_arguments(ct_runtime *runtime, char **argv, int argc, int script,
                           ct_error *error) {
    lua_State *L = ct_host_state(runtime);
    (void)error;
    lua_createtable(L, argc, 0);
    for (int i = 0; i < argc; i++) {
        lua_pushstring(L, argv[i]);
        lua_rawseti(L, -2, i - script);
    }
    lua_setglobal(L, "arg");
    return CT_OK;
}

static int require_as(lua_State *L) {
    const char *name = lua_touserdata(L, 1), *equals = strchr(name, '=');
    lua_getglobal(L, "require");
    lua_pushstring(L, equals ? equals + 1 : name);
    lua_call(L, 1, 1);
    if (equals)
        lua_pushlstring(L, name, (size_t)(equals - name));
    else
        lua_pushstring(L, name);
    lua_insert(L, -2);
    lua_pushglobaltable(L);
    lua_insert(L, -3);
    lua_settable(L, -3);
    return 0;
}

ct_status ct_cli_require(ct_runtime *runtime, const char *name, ct_error *error) {
    lua_State *L = ct_host_state(runtime);
    int top = lua_gettop(L);
    lua_pushcfunction(L, require_as);
    lua_pushlightuserdata(L, (void *)(uintptr_t)name);
    ct_status status = call(L, 1, error);
    lua_settop(L, top);
    return status;
}

static int call_inspect(lua_State *L) {
    lua_getglobal(L, "require");
    lua_pushliteral(L, "ctrain.inspect");
    lua_call(L, 1, 1);
    lua_getfield(L, -1, lua_touserdata(L, 1));
    lua_pushstring(L, lua_touserdata(L, 2));
    lua_call(L, 1, 0);
    return 0;
}

ct_status ct_cli_inspect(ct_runtime *runtime, const char *name, const char *value,
                         ct_error *error) {
    lua_State *L = ct_host_state(runtime);
    int top = lua_gettop(L);
    lua_pushcfunction(L, call_inspect);
    lua_pushlightuserdata(L, (void *)(uintptr_t)name);
    lua_pushlightuserdata(L, (void *)(uintptr_t)value);
    ct_status status = lua_pcall(L, 2, 0, 0) == LUA_OK ? CT_OK : failure(L, error);
    lua_settop(L, top);
    return status;
}

ct_status ct_cli_string(ct_runtime *runtime, const char *text, const char *name, ct_error *error) {
    lua_State *L = ct_host_state(runtime);
    int top = lua_gettop(L);
    const char *chunk = lua_pushfstring(L, "=%s", name);
    ct_status status = luaL_loadbuffer(L, text, strlen(text), chunk) == LUA_OK ? call(L, 0, error)
                                                                               : failure(L, error);
    lua_settop(L, top);
    return status;
}

ct_status ct_cli_script(ct_runtime *runtime, const char *path, ct_error *error) {
    lua_State *L = ct_host_state(runtime);
    int top = lua_gettop(L), n = 0;
    if (luaL_loadfile(L, path) != LUA_OK) {
        failure(L, error);
        lua_settop(L, top);
        return CT_ERR_LUA;
    }
    lua_getglobal(L, "arg");
    if (lua_istable(L, -1)) {
        n = (int)luaL_len(L, -1);
        luaL_checkstack(L, n + 8, "too many arguments to script");
        for (int i = 1; i <= n; i++)
            lua_rawgeti(L, top + 2, i);
    }
    lua_remove(L, top + 2);
    ct_status status = call(L, n, error);
    lua_settop(L, top);
    return status;
}

/* Whether a syntax error only says that the text ended too soon. */
static bool ends_too_soon(lua_State *L) {
    size_t length;
    const char *message = lua_tolstring(L, -1, &length);
    const size_t mark = sizeof "<eof>" - 1;
    return message && length >= mark && strcmp(message + length - mark, "<eof>") == 0;
}

/* print, but lists of a few numbers or strings, such as t.shape, as one would write them. */
static int print_values(lua_State *L) {
    int n = lua_gettop(L);
    lua_getglobal(L, "require");
    lua_pushliteral(L, "ctrain.help");
    lua_call(L, 1, 1);
    lua_getfield(L, -1, "shown");
    for (int i = 1; i <= n; i++) {
        if (lua_type(L, i) != LUA_TTABLE)
            continue;
        lua_pushvalue(L, -1);
        lua_pushvalue(L, i);
        lua_call(L, 1, 1);
        lua_replace(L, i);
    }
    lua_settop(L, n);
    lua_getglobal(L, "print");
    lua_insert(L, 1);
    lua_call(L, n, 0);
    return 0;
}

static void stop(lua_State *L, lua_Debug *activation) {
    (void)activation;
    lua_sethook(L, NULL, 0, 0);
    luaL_error(L, "interrupted!");
}

/* An interrupt reaches Lua code and computations alike; what one of them took, the other must not
 * find later. */
static void forget_interrupt(ct_runtime *runtime) {
    ct_error error;
    lua_sethook(ct_host_state(runtime), NULL, 0, 0);
    ct_check_interrupt(runtime, &error);
}

void ct_cli_interrupt(ct_runtime *runtime) {
    lua_State *L = ct_host_state(runtime);
    ct_interrupt(runtime);
    lua_sethook(L, stop, LUA_MASKCALL | LUA_MASKRET | LUA_MASKLINE | LUA_MASKCOUNT, 1);
}

ct_cli_input ct_cli_statement(ct_runtime *runtime, const char *text, ct_error *error) {
    lua_State *L = ct_host_state(runtime);
    int top = lua_gettop(L);
    forget_interrupt(runtime);
    const char *expression = lua_pushfstring(L, "return %s", text + (*text == '='));
    ct_cli_input outcome = CT_CLI_DONE;
    int loaded = luaL_loadbuffer(L, expression, strlen(expression), "=stdin");
    if (loaded != LUA_OK) {
        lua_settop(L, top);
        loaded = luaL_loadbuffer(L, text, strlen(text), "=stdin");
    } else {
        lua_remove(L, -2);
    }
    if (loaded == LUA_ERRSYNTAX && ends_too_soon(L)) {
        outcome = CT_CLI_MORE;
    } else if (loaded != LUA_OK || call(L, 0, error) != CT_OK) {
        if (loaded != LUA_OK)
            failure(L, error);
        outcome = CT_CLI_FAILED;
    } else if (lua_gettop(L) > top) {
        lua_pushcfunction(L, print_values);
        lua_insert(L, top + 1);
        if (call(L, lua_gettop(L) - top - 1, error) != CT_OK)
            outcome = CT_CLI_FAILED;
    }
    lua_settop(L, top);
    return outcome;
}

static int prepare(lua_State *L) {
    lua_getglobal(L, "require");
    lua_pushliteral(L, "ctrain");
    lua_call(L, 1, 1);
    lua_setglobal(L, "ct");
    lua_getglobal(L, "require");
    lua_pushliteral(L, "ctrain.help");
    lua_call(L, 1, 1);
    lua_setglobal(L, "help");
    return 0;
}

ct_status ct_cli_prepare(ct_runtime *runtime, ct_error *error) {
    lua_State *L = ct_host_state(runtime);
    int top = lua_gettop(L);
    lua_pushcfunction(L, prepare);
    ct_status status = call(L, 0, error);
    lua_settop(L, top);
    return status;
}

/* candidates(text) of ctrain.help gives a list of names. */
static int complete(lua_State *L) {
    lua_getglobal(L, "require");
    lua_pushliteral(L, "ctrain.help");
    lua_call(L, 1, 1);
    lua_getfield(L, -1, "complete");
    lua_pushvalue(L, 1);
    lua_call(L, 1, 1);
    return 1;
}

char **ct_cli_complete(ct_runtime *runtime, const char *text) {
    lua_State *L = ct_host_state(runtime);
    int top = lua_gettop(L);
    char **list = NULL;
    ct_error error;
    lua_pushcfunction(L, complete);
    lua_pushstring(L, text);
    if (call(L, 1, &error) == CT_OK && lua_istable(L, -1)) {
        size_t n = lua_rawlen(L, -1), made = 0;
        list = n ? ct_calloc(n + 1, sizeof *list) : NULL;
        for (size_t i = 0; list && i < n; i++) {
            lua_rawgeti(L, -1, (lua_Integer)i + 1);
            const char *name = lua_tostring(L, -1);
            if (name && (list[made] = ct_strdup(name)))
                made++;
            lua_pop(L, 1);
        }
    }
    lua_settop(L, top);
    return list;
}

const char *ct_cli_version(void) {
    return "ctrain " CT_VERSION "  (" LUA_RELEASE ")";
}

#endif
