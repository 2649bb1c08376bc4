/* trace.h: the trace userdata, for the files that add methods to it. */
#ifndef CT_BIND_TRACE_H
#define CT_BIND_TRACE_H

#include "backend/cpu.h"
#include "bind/bind.h"

typedef struct ct_lua_trace {
    ct_trace *trace;     /* NULL: aborted or freed */
    ct_program *program; /* NULL: the eager loops run it */
    bool recording;
    bool announced; /* that the compiler is done, or failed */
    bool bisected;  /* compiled runs are compared with the eager loops, kernel by kernel */
    int compared;   /* how many were */
} ct_lua_trace;

/* A trace that is still being recorded, or finished, at the index; raises for anything else. */
ct_lua_trace *ct_lua_live_trace(lua_State *L, int index, bool recording);
/* The step on its inputs, compiled where that is ready; new references in outputs. */
ct_status ct_lua_run_step(ct_lua_trace *box, ct_tensor *const *inputs, ct_tensor **outputs,
                          ct_error *error);
/* step.c: methods that run a step on arguments as they are. */
extern const luaL_Reg ct_lua_step_methods[];

/* inspect.c: methods for looking into a finished trace; {NULL, NULL} ends them. */
extern const luaL_Reg ct_lua_inspect_methods[];
/* inspect.c: core.inspect */
extern const luaL_Reg ct_lua_inspect_functions[];

#endif
