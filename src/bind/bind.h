/* bind.h: what the files of the binding share.
 *
 * How a function is written: read and check every argument (this may raise), ct_lua_begin (pushes
 * the empty result), say the operation with the builder, ct_lua_finish. Between begin and finish
 * nothing may raise a Lua error or call into Lua, for the builder holds nodes; after a failure
 * finish ends the builder first and raises then. */
#ifndef CT_BIND_BIND_H
#define CT_BIND_BIND_H

#include "bind/compat.h"
#include "graph/tensor.h"

/* Shared by all that may outlive the Lua state and refers to it. */
typedef struct ct_lua_link {
    int refs;
    lua_State *state; /* the main state; NULL once it is closed */
} ct_lua_link;

typedef struct ct_bind {
    ct_runtime *runtime;
    lua_State *state; /* of the call that is running; a coroutine's perhaps */
    ct_lua_link *link;
    ct_line line; /* the script line of the call that is running, once asked for */
    bool line_known;
    char *own; /* path in front of ctrain's own Lua files, or NULL */
    size_t own_length;
    int64_t tensors;    /* userdata alive, garbage included */
    int64_t collect_at; /* native bytes at which the collector is run */
} ct_bind;

typedef struct ct_lua_call {
    lua_State *L;
    ct_bind *bind;
    const char *function; /* as messages name it */
    ct_tensor **result;   /* the userdata on top of the stack */
    ct_error error;
    ct_builder builder;
} ct_lua_call;

/* module.c: the binding of this Lua state, made for the call that is running. */
ct_bind *ct_bind_of(lua_State *L);
/* A protected call with a traceback on string errors; the function and n arguments are on the
 * stack. True: n_results are. False: the error is. */
bool ct_lua_protected(lua_State *L, int n, int n_results);
/* Binds runtime to L (taking over the caller's hold of it), before `require "ctrain.core"` would
 * make one. */
ct_bind *ct_bind_create(lua_State *L, ct_runtime *runtime);
int luaopen_ctrain_core(lua_State *L);
ct_lua_link *ct_lua_link_retain(ct_lua_link *link);
void ct_lua_link_release(ct_lua_link *link);

/* error.c: the only place that raises. Messages read "script.lua:12: function: what was wrong". */
int ct_lua_raise(lua_State *L, const char *function, const char *format, ...) CT_PRINTF(3, 4);
int ct_lua_raise_error(lua_State *L, const char *function, const ct_error *error);
/* Keeps the error value on top, popping it, for the
 * ct_lua_raise_error that follows a CT_ERR_LUA. */
void ct_lua_keep_error(lua_State *L);
ct_line ct_lua_where(void *bind); /* the runtime's hook */
/* "a number (3.5)", "a tensor [float32 2x3]": the value for a message. */
#define CT_LUA_TEXT 256
const char *ct_lua_describe(lua_State *L, int index, char text[CT_LUA_TEXT]);
/* A number as both Lua versions print it: 3 for 3.0, nan without a sign. */
const char *ct_lua_number_text(double value, char text[CT_LUA_TEXT]);
/* " (did you mean 'shape'?)" for the nearest of the names, or "". */
const char *ct_lua_nearest(const char *wrong, const char *const *names, int n,
                           char text[CT_LUA_TEXT]);
/* The same, over the string keys of a table. */
const char *ct_lua_nearest_key(lua_State *L, int table, const char *wrong, char text[CT_LUA_TEXT]);

/* args.c: arguments, each with a message that names function and argument. */
bool ct_lua_scalar(lua_State *L, int index, ct_scalar *value); /* false: not a number */
/* Whether a number lies in the range of an integer type; bool
 * and floating types hold every number. */
bool ct_lua_fits(ct_scalar value, ct_dtype dtype);
int64_t ct_lua_integer(lua_State *L, int index, const char *function, const char *argument);
int64_t ct_lua_integer_or(lua_State *L, int index, const char *function, const char *argument,
                          int64_t absent);
double ct_lua_real(lua_State *L, int index, const char *function, const char *argument);
double ct_lua_real_or(lua_State *L, int index, const char *function, const char *argument,
                      double absent);
bool ct_lua_flag(lua_State *L, int index, const char *function, const char *argument, bool absent);
ct_dtype ct_lua_dtype(lua_State *L, int index, const char *function, const char *argument);
/* A dimension, counted from 1 or from the end, as 0..ndim-1. A 0-d tensor counts as 1-d here. */
int ct_lua_axis(lua_State *L, int index, const char *function, const char *argument, int ndim);
/* One dimension or a list of them, as bits. */
uint32_t ct_lua_axes(lua_State *L, int index, const char *function, const char *argument, int ndim);
/* A list of whole numbers, or the numbers themselves; returns the index of the argument behind
 * them. */
int ct_lua_extents(lua_State *L, int index, const char *function, const char *argument,
                   int64_t extents[CT_MAX_DIMS], int *n);
int ct_lua_shape(lua_State *L, int index, const char *function, ct_shape *shape);
/* Whether it is a table with string keys. */
bool ct_lua_is_options(lua_State *L, int index);
/* Raises unless every key is one of the names (ended by NULL). */
void ct_lua_check_options(lua_State *L, int index, const char *function, const char *const *names);
/* Moves the named options of the table at `index` to the stack positions index, index + 1, ..., so
 * that they read as positional arguments do. Where there is no table there, only fills up with nil.
 */
void ct_lua_spread_options(lua_State *L, int index, const char *function, const char *const *names);

/* tensor.c */
ct_tensor *ct_lua_to_tensor(lua_State *L, int index); /* NULL: not a tensor */
ct_tensor *ct_lua_tensor(lua_State *L, int index, const char *function, const char *argument);
void ct_lua_push_metatable(lua_State *L);
/* Pushes a tensor userdata that is still empty; runs the collector where native memory calls for
 * it. */
ct_tensor **ct_lua_push_empty(lua_State *L, ct_bind *bind);
/* Fills it from a result, or raises the error. Returns 1. */
int ct_lua_result(lua_State *L, ct_tensor **result, ct_tensor *tensor, const ct_error *error,
                  const char *function);

void ct_lua_begin(ct_lua_call *call, lua_State *L, const char *function);
ct_node *ct_lua_node(ct_lua_call *call, ct_tensor *tensor);
int ct_lua_finish(ct_lua_call *call, ct_node *node);
/* Ends a call that leaves no node as its result: raises where `ok` is false or an error was
 * recorded. */
void ct_lua_end(ct_lua_call *call, bool ok);

/* elementwise.c: a tensor, number or boolean as an operand beside `other` (NULL: none). */
typedef struct ct_operand {
    ct_tensor *tensor; /* or a constant: */
    ct_dtype dtype;
    ct_scalar value;
} ct_operand;
void ct_lua_operand(lua_State *L, int index, const char *function, const char *argument,
                    const ct_tensor *other, ct_operand *operand);
ct_node *ct_operand_node(ct_lua_call *call, const ct_operand *operand);

/* convert.c: a tensor from a number, boolean, nested table or
 * tensor; CT_DTYPES: the natural type. */
void ct_lua_push_converted(lua_State *L, int index, const char *function, ct_dtype dtype);
void ct_lua_push_scalar(lua_State *L, ct_scalar value, ct_dtype dtype);
/* Reads an FFI integer or pointer (LuaJIT); false elsewhere. */
bool ct_lua_ffi_integer(lua_State *L, int index, int64_t *value);

/* index.c: t[key], t[key] = value, with the key at stack index 2 and the value at 3. */
int ct_lua_index_read(lua_State *L);
int ct_lua_index_write(lua_State *L);
/* Narrows a dimension to first..last (counted from 1 or from the end, inclusive; last may be first
 * - 1 for none), every step apart. */
void ct_lua_slice_view(lua_State *L, const char *function, const ct_view *view, int axis,
                       int64_t first, int64_t last, int64_t step, ct_view *result);

/* Each adds its functions to the core table and the tensors' method table. */
void ct_open_tensor(lua_State *L, int core, int methods);
void ct_open_create(lua_State *L, int core, int methods);
void ct_open_elementwise(lua_State *L, int core, int methods);
void ct_open_reduce(lua_State *L, int core, int methods);
void ct_open_shape(lua_State *L, int core, int methods);
void ct_open_index(lua_State *L, int core, int methods);
void ct_open_convert(lua_State *L, int core, int methods);
void ct_open_contract(lua_State *L, int core, int methods);
void ct_open_join(lua_State *L, int core, int methods);
void ct_open_grad(lua_State *L, int core, int methods);
void ct_open_trace(lua_State *L, int core, int methods);
void ct_open_h5(lua_State *L, int core, int methods);
void ct_open_system(lua_State *L, int core, int methods);
void ct_lua_add(lua_State *L, int table, const luaL_Reg *functions);

#endif
