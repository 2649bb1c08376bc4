/* compat.h: the Lua 5.4 API under which the binding is written, on LuaJIT as well. Only what is
 * used. */
#ifndef CT_BIND_COMPAT_H
#define CT_BIND_COMPAT_H

#include <lauxlib.h>
#include <lua.h>
#include <lualib.h>

#ifndef CT_LUA54

#define LUA_TCDATA 10 /* what lua_type says of an FFI object */

#define lua_rawlen(L, index) lua_objlen(L, index)
#define lua_newuserdatauv(L, bytes, values) lua_newuserdata(L, bytes)
#define lua_absindex(L, index)                                                                     \
    ((index) > 0 || (index) <= LUA_REGISTRYINDEX ? (index) : lua_gettop(L) + (index) + 1)
#define lua_isinteger(L, index) ((void)(L), (void)(index), 0)
/* Only with absolute or pseudo indexes. */
#define lua_rawgetp(L, index, key) (lua_pushlightuserdata(L, (void *)(key)), lua_rawget(L, index))
#define lua_rawsetp(L, index, key)                                                                 \
    (lua_pushlightuserdata(L, (void *)(key)), lua_insert(L, -2), lua_rawset(L, index))

#endif
#endif
