/* system.c: what the data executor asks of the system: a clock, and whether progress is shown on a
 * terminal. */
#include <time.h>
#include <unistd.h>

#include "bind/bind.h"

/* core.clock(): seconds of a clock that never goes back */
static int clock_seconds(lua_State *L) {
    struct timespec now;
    clock_gettime(CLOCK_MONOTONIC, &now);
    lua_pushnumber(L, (lua_Number)now.tv_sec + 1e-9 * (lua_Number)now.tv_nsec);
    return 1;
}

/* core.is_terminal(): whether standard error is one */
static int is_terminal(lua_State *L) {
    lua_pushboolean(L, isatty(STDERR_FILENO));
    return 1;
}

void ct_open_system(lua_State *L, int core, int methods) {
    static const luaL_Reg functions[] = {
        {"clock", clock_seconds}, {"is_terminal", is_terminal}, {NULL, NULL}};
    (void)methods;
    ct_lua_add(L, core, functions);
}
