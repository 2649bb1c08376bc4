/* step.c: the short way into a recorded step whose arguments are plain tensors: two calls from Lua,
 * no tables. */
#include "bind/bind.h"
#include "bind/trace.h"

/* trace:accepts(...): whether the arguments are what it was recorded with, none of them twice, and
 * gradients are enabled or not as they were then */
static int step_accepts(lua_State *L) {
    const ct_lua_trace *box = ct_lua_live_trace(L, 1, false);
    const ct_trace *trace = box->trace;
    int n = lua_gettop(L) - 1;
    bool fits = n == trace->n_inputs && n <= 16 && !trace->runtime->no_grad == !trace->depth;
    const ct_tensor *seen[16];
    for (int i = 0; i < n && fits; i++) {
        const ct_node *input = trace->inputs[i];
        const ct_tensor *tensor = seen[i] = ct_lua_to_tensor(L, i + 2);
        fits = tensor && tensor->dtype == input->dtype &&
               ct_shape_equal(&tensor->view.shape, &input->shape) &&
               !ct_tensor_requires_grad(tensor);
        for (int j = 0; j < i && fits; j++)
            fits = seen[j] != tensor;
    }
    lua_pushboolean(L, fits);
    return 1;
}

/* trace:call(...): one step on arguments that it accepts; its results */
static int step_call(lua_State *L) {
    ct_error error = {.status = CT_OK};
    ct_lua_trace *box = ct_lua_live_trace(L, 1, false);
    int n = box->trace->n_inputs, m = box->trace->n_results;
    if (lua_gettop(L) != n + 1)
        ct_lua_raise(L, "trace", "the step takes %d tensors, got %d", n, lua_gettop(L) - 1);
    ct_bind *bind = ct_bind_of(L);
    luaL_checkstack(L, m + 4, "too many results");
    ct_tensor **tensors = lua_newuserdatauv(L, (size_t)(n + m + 1) * sizeof *tensors, 0);
    for (int i = 0; i < n; i++)
        tensors[i] = ct_lua_tensor(L, i + 2, "trace", "argument");
    int first = lua_gettop(L) + 1;
    for (int i = 0; i < m; i++)
        ct_lua_push_empty(L, bind);
    bind->state = L;
    bind->line_known = false;
    if (ct_lua_run_step(box, tensors, tensors + n, &error) != CT_OK)
        return ct_lua_raise_error(L, "trace", &error);
    for (int i = 0; i < m; i++)
        *(ct_tensor **)lua_touserdata(L, first + i) = tensors[n + i];
    return m;
}

const luaL_Reg ct_lua_step_methods[] = {
    {"accepts", step_accepts}, {"call", step_call}, {NULL, NULL}};
