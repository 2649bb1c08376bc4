/* host.h: what the command line takes from the binding beside ctrain.h: the Lua state of a runtime,
 * and the Lua files that the library carries. */
#ifndef CT_BIND_HOST_H
#define CT_BIND_HOST_H

#include "bind/compat.h"
#include "ctrain.h"

struct ct_lua_file {
    const char *name; /* "ctrain/nn/init.lua"; NULL ends the list */
    const char *text;
    size_t size;
};

extern const struct ct_lua_file ct_lua_files[];

lua_State *ct_host_state(ct_runtime *runtime);

#endif
