/* trace.c: the trace userdata: core.trace_begin() starts recording, finish ends it, compile hands
 * it to the compiler, run runs it: compiled where that is ready, else on the eager loops, with the
 * same bits. Collected while recording it is aborted. */
#include <string.h>

#include "backend/bisect.h"  // defines: ct_bisect_run
#include "backend/inspect.h" // defines: ct_inspect_timeline
#include "base/timeline.h"
#include "bind/trace.h"
#include "eager/eager.h"  // defines: ct_eager_anomaly
#include "eager/replay.h" // defines: ct_replay
#include "graph/trace.h"

static const char meta_key;

static ct_lua_trace *to_trace(lua_State *L, int index, const char *function) {
    char text[CT_LUA_TEXT];
    ct_lua_trace *box = lua_touserdata(L, index);
    bool is_trace = false;
    if (box && lua_getmetatable(L, index)) {
        lua_rawgetp(L, LUA_REGISTRYINDEX, &meta_key);
        is_trace = lua_rawequal(L, -1, -2);
        lua_pop(L, 2);
    }
    if (!is_trace)
        ct_lua_raise(L, function, "'self' must be a trace, got %s",
                     ct_lua_describe(L, index, text));
    return box;
}

ct_lua_trace *ct_lua_live_trace(lua_State *L, int index, bool recording) {
    ct_lua_trace *box = to_trace(L, index, "trace");
    if (!box->trace)
        ct_lua_raise(L, "trace", "the trace was aborted");
    if (box->recording != recording)
        ct_lua_raise(L, "trace",
                     recording ? "the trace is finished" : "the trace is still being recorded");
    return box;
}

static int trace_begin(lua_State *L) {
    ct_error error = {.status = CT_OK};
    ct_lua_trace *box = lua_newuserdatauv(L, sizeof *box, 0);
    *box = (ct_lua_trace){0};
    lua_rawgetp(L, LUA_REGISTRYINDEX, &meta_key);
    lua_setmetatable(L, -2);
    box->trace = ct_trace_begin(ct_bind_of(L)->runtime, &error);
    if (!box->trace)
        return ct_lua_raise_error(L, "trace", &error);
    box->recording = true;
    return 1;
}

/* trace:input(tensor or number): an argument of the step. A number's is 0-d float64, which takes
 * the type of what it meets. */
static int trace_input(lua_State *L) {
    static const ct_shape scalar = {0, {0}};
    ct_error error = {.status = CT_OK};
    ct_lua_trace *box = ct_lua_live_trace(L, 1, true);
    const ct_tensor *like = ct_lua_to_tensor(L, 2);
    ct_dtype dtype = like ? like->dtype : CT_FLOAT64;
    if (!like)
        ct_lua_real(L, 2, "trace", "input");
    ct_tensor **result = ct_lua_push_empty(L, ct_bind_of(L));
    return ct_lua_result(
        L, result, ct_trace_input(box->trace, dtype, like ? &like->view.shape : &scalar, &error),
        &error, "trace");
}

/* trace:finish(list of tensors): ends recording; after an error the trace is gone */
static int trace_finish(lua_State *L) {
    char text[CT_LUA_TEXT];
    ct_error error = {.status = CT_OK};
    ct_lua_trace *box = ct_lua_live_trace(L, 1, true);
    luaL_checktype(L, 2, LUA_TTABLE);
    int n = (int)lua_rawlen(L, 2);
    ct_tensor **outputs = lua_newuserdatauv(L, (size_t)(n + 1) * sizeof *outputs, 0);
    for (int i = 0; i < n; i++) {
        lua_rawgeti(L, 2, i + 1);
        outputs[i] = ct_lua_to_tensor(L, -1);
        if (!outputs[i])
            return ct_lua_raise(L, "trace", "result %d must be a tensor, got %s", i + 1,
                                ct_lua_describe(L, -1, text));
        lua_pop(L, 1);
    }
    ct_bind_of(L);
    box->recording = false;
    if (ct_trace_end(box->trace, outputs, n, &error) != CT_OK) {
        box->trace = NULL;
        return ct_lua_raise_error(L, "trace", &error);
    }
    lua_settop(L, 1);
    return 1;
}

/* No check of its argument, for a finalizer must not raise. */
static int trace_gc(lua_State *L) {
    ct_lua_trace *box = lua_touserdata(L, 1);
    ct_bind_of(L);
    ct_trace *trace = box->trace;
    box->trace = NULL;
    ct_program_free(box->program);
    box->program = NULL;
    if (trace && box->recording)
        ct_trace_abort(trace);
    else if (trace)
        ct_trace_free(trace);
    box->recording = false;
    return 0;
}

static int trace_abort(lua_State *L) {
    to_trace(L, 1, "trace");
    return trace_gc(L);
}

/* trace:compile{wait =, directory =}: starts the compiler. True, or false and why the eager loops
 * will do. */
static int trace_compile(lua_State *L) {
    ct_error error = {.status = CT_OK};
    ct_lua_trace *box = ct_lua_live_trace(L, 1, false);
    luaL_checktype(L, 2, LUA_TTABLE);
    lua_getfield(L, 2, "wait");
    lua_getfield(L, 2, "directory");
    ct_cpu_options options = {.compile_dir = lua_tostring(L, -1), .wait = lua_toboolean(L, -2)};
    if (!box->program)
        box->program = ct_cpu_compile(box->trace, &options, &error);
    lua_pushboolean(L, box->program != NULL);
    if (box->program)
        return 1;
    lua_pushstring(L, error.message);
    return 2;
}

/* trace:news(): nil while the compiler works and after it was asked once; else a table of what it
 * made, or a text that says why the eager loops go on. */
static int trace_news(lua_State *L) {
    ct_error error = {.status = CT_OK};
    ct_lua_trace *box = ct_lua_live_trace(L, 1, false);
    if (!box->program || box->announced)
        return 0;
    bool ready = ct_program_ready(box->program, &error);
    if (!ready && !ct_program_failed(box->program))
        return 0;
    box->announced = true;
    if (!ready) {
        lua_pushstring(L, error.message);
        return 1;
    }
    ct_program_info info = ct_program_describe(box->program);
    lua_createtable(L, 0, 6);
    lua_pushinteger(L, info.kernels);
    lua_setfield(L, -2, "kernels");
    lua_pushinteger(L, info.calls);
    lua_setfield(L, -2, "calls");
    lua_pushnumber(L, (lua_Number)info.arena_bytes);
    lua_setfield(L, -2, "arena_bytes");
    lua_pushnumber(L, info.milliseconds);
    lua_setfield(L, -2, "milliseconds");
    lua_pushboolean(L, info.cached);
    lua_setfield(L, -2, "cached");
    lua_pushstring(L, info.note ? info.note : "");
    lua_setfield(L, -2, "note");
    return 1;
}

/* trace:source(): the C of the compiled step, or nil */
static int trace_source(lua_State *L) {
    ct_lua_trace *box = ct_lua_live_trace(L, 1, false);
    lua_pushstring(L, box->program ? ct_program_source(box->program) : NULL);
    return 1;
}

/* The step on its inputs, compiled where that is ready. */
ct_status ct_lua_run_step(ct_lua_trace *box, ct_tensor *const *inputs, ct_tensor **outputs,
                          ct_error *error) {
    bool checked = box->trace->runtime->executor == &ct_eager_anomaly;
    if (checked || !box->program || !ct_program_ready(box->program, NULL))
        return ct_replay(box->trace, inputs, outputs, error);
    if (box->bisected) {
        bool first = box->compared++ == 0;
        return ct_bisect_run(box->trace, box->program, first, inputs, outputs, error);
    }
    if (ct_timeline_on())
        ct_inspect_timeline(box->program);
    return ct_program_run(box->program, inputs, outputs, error);
}

/* One argument of a run: the tensor, or a new one that holds the number; what `list` gets keeps it
 * alive. */
static ct_tensor *run_input(lua_State *L, ct_bind *bind, const ct_node *input, int list, int i) {
    char text[CT_LUA_TEXT], seen[CT_SHAPE_TEXT], due[CT_SHAPE_TEXT];
    ct_error error = {.status = CT_OK};
    lua_rawgeti(L, 2, i + 1);
    ct_tensor *tensor = ct_lua_to_tensor(L, -1);
    if (!tensor && lua_type(L, -1) == LUA_TNUMBER && input->shape.ndim == 0) {
        double value = lua_tonumber(L, -1);
        ct_tensor **box = ct_lua_push_empty(L, bind);
        *box = ct_tensor_full(bind->runtime, input->dtype, 0, NULL, value, &error);
        if (!*box)
            ct_lua_raise_error(L, "trace", &error);
        lua_rawseti(L, list, i + 1);
        tensor = *box;
    }
    if (!tensor)
        ct_lua_raise(L, "trace", "argument %d must be a tensor, got %s", i + 1,
                     ct_lua_describe(L, -1, text));
    if (tensor->dtype != input->dtype || !ct_shape_equal(&tensor->view.shape, &input->shape))
        ct_lua_raise(L, "trace", "argument %d is [%s %s], but the trace was recorded with [%s %s]",
                     i + 1, ct_dtype_name(tensor->dtype), ct_shape_text(&tensor->view.shape, seen),
                     ct_dtype_name(input->dtype), ct_shape_text(&input->shape, due));
    lua_pop(L, 1);
    return tensor;
}

/* trace:run(list of tensors and numbers): one step; the list of its results */
static int trace_run(lua_State *L) {
    ct_error error = {.status = CT_OK};
    ct_lua_trace *box = ct_lua_live_trace(L, 1, false);
    ct_trace *trace = box->trace;
    luaL_checktype(L, 2, LUA_TTABLE);
    lua_settop(L, 2);
    ct_bind *bind = ct_bind_of(L);
    int n = trace->n_inputs, m = trace->n_results;
    lua_createtable(L, 0, 0);
    ct_tensor **tensors = lua_newuserdatauv(L, (size_t)(n + m + 1) * sizeof *tensors, 0);
    for (int i = 0; i < n; i++)
        tensors[i] = run_input(L, bind, trace->inputs[i], 3, i);
    lua_createtable(L, m, 0);
    int results = lua_gettop(L);
    for (int i = 0; i < m; i++) {
        ct_lua_push_empty(L, bind);
        lua_rawseti(L, results, i + 1);
    }
    bind->state = L;
    bind->line_known = false;
    if (ct_lua_run_step(box, tensors, tensors + n, &error) != CT_OK)
        return ct_lua_raise_error(L, "trace", &error);
    for (int i = 0; i < m; i++) {
        lua_rawgeti(L, results, i + 1);
        *(ct_tensor **)lua_touserdata(L, -1) = tensors[n + i];
        lua_pop(L, 1);
    }
    return 1;
}

/* trace:fits(): whether it may be run: gradients that the step read are there, or not, as when it
 * was recorded */
static int trace_fits(lua_State *L) {
    ct_lua_trace *box = ct_lua_live_trace(L, 1, false);
    lua_pushboolean(L, ct_trace_fits(box->trace));
    return 1;
}

/* trace:written(input): whether the step wrote to what trace:input gave; asked before finish */
static int trace_written(lua_State *L) {
    ct_lua_live_trace(L, 1, true);
    const ct_tensor *input = ct_lua_tensor(L, 2, "trace", "input");
    lua_pushboolean(L, input->cell->version->op != CT_INPUT);
    return 1;
}

/* trace:same(other): true, or false and where they first differ */
static int trace_same(lua_State *L) {
    ct_error error = {.status = CT_OK};
    const ct_lua_trace *a = ct_lua_live_trace(L, 1, false), *b = ct_lua_live_trace(L, 2, false);
    bool same = ct_trace_same(a->trace, b->trace, &error);
    lua_pushboolean(L, same);
    if (same)
        return 1;
    lua_pushstring(L, error.message);
    return 2;
}

/* upvalue 1: the methods */
static int trace_index(lua_State *L) {
    const ct_lua_trace *box = to_trace(L, 1, "trace");
    if (lua_type(L, 2) == LUA_TSTRING && strcmp(lua_tostring(L, 2), "trained") == 0) {
        lua_pushboolean(L, box->trace && box->trace->trained);
        return 1;
    }
    if (lua_type(L, 2) == LUA_TSTRING && strcmp(lua_tostring(L, 2), "results") == 0) {
        lua_pushinteger(L, box->trace ? box->trace->n_results : 0);
        return 1;
    }
    lua_pushvalue(L, 2);
    lua_rawget(L, lua_upvalueindex(1));
    return 1;
}

static int tracing(lua_State *L) {
    lua_pushboolean(L, ct_bind_of(L)->runtime->trace != NULL);
    return 1;
}

void ct_open_trace(lua_State *L, int core, int methods) {
    static const luaL_Reg functions[] = {
        {"trace_begin", trace_begin}, {"tracing", tracing}, {NULL, NULL}};
    static const luaL_Reg trace_methods[] = {
        {"input", trace_input},
        {"finish", trace_finish},
        {"abort", trace_abort},
        {"run", trace_run},
        {"fits", trace_fits},
        {"same", trace_same},
        {"written", trace_written},
        {"compile", trace_compile},
        {"news", trace_news},
        {"source", trace_source},
        {NULL, NULL},
    };
    (void)methods;
    lua_newtable(L);
    lua_newtable(L);
    ct_lua_add(L, lua_gettop(L), trace_methods);
    ct_lua_add(L, lua_gettop(L), ct_lua_inspect_methods);
    ct_lua_add(L, lua_gettop(L), ct_lua_step_methods);
    lua_pushcclosure(L, trace_index, 1);
    lua_setfield(L, -2, "__index");
    lua_pushcfunction(L, trace_gc);
    lua_setfield(L, -2, "__gc");
    lua_pushliteral(L, "trace");
    lua_setfield(L, -2, "__name");
    lua_rawsetp(L, LUA_REGISTRYINDEX, &meta_key);
    ct_lua_add(L, core, functions);
    lua_newtable(L);
    ct_lua_add(L, lua_gettop(L), ct_lua_inspect_functions);
    lua_setfield(L, core, "inspect");
}
