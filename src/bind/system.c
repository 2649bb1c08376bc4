/* system.c: what scripts ask of the system: a clock, whether progress is shown on a terminal, and
 * how many threads kernels use. */
#include <time.h>
#include <unistd.h>

#include "bind/bind.h"
#include "eager/eager.h" // defines: ct_eager, ct_eager_anomaly

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

/* ct.get_num_threads() */
static int get_threads(lua_State *L) {
    lua_pushinteger(L, ct_bind_of(L)->runtime->threads);
    return 1;
}

/* ct.set_num_threads(n): a positive number; more than the CPUs is allowed */
static int set_threads(lua_State *L) {
    int64_t n = ct_lua_integer(L, 1, "ct.set_num_threads", "n");
    if (n < 1 || n > 4096)
        ct_lua_raise(L, "ct.set_num_threads", "'n' must be from 1 to 4096, got %d", (int)n);
    ct_bind_of(L)->runtime->threads = (int)n;
    return 0;
}

/* core.anomaly(on): whether the first NaN or inf that an operation makes is an error */
static int set_anomaly(lua_State *L) {
    ct_bind_of(L)->runtime->executor =
        ct_lua_flag(L, 1, "ct.debug.anomaly", "on", true) ? &ct_eager_anomaly : &ct_eager;
    return 0;
}

void ct_open_system(lua_State *L, int core, int methods) {
    static const luaL_Reg functions[] = {
        {"clock", clock_seconds},         {"is_terminal", is_terminal},
        {"get_num_threads", get_threads}, {"set_num_threads", set_threads},
        {"anomaly", set_anomaly},         {NULL, NULL}};
    (void)methods;
    ct_lua_add(L, core, functions);
}
