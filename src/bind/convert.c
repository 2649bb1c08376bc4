/* convert.c: tensors from numbers and nested tables, and back. What FFI (LuaJIT) has to do with
 * numbers and addresses is done by a small Lua chunk, loaded once. */
#include <stdio.h>
#include <stdlib.h>

#include "bind/bind.h"

/* ---- FFI ------------------------------------------------------------------------------------ */

#ifndef CT_LUA54
static const char ffi_key;

static const char ffi_source[] =
    "local ffi = require 'ffi'\n"
    "local anchors = setmetatable({}, {__mode = 'k'})\n"
    "local types = {bool = 'bool *', uint8 = 'uint8_t *', int8 = 'int8_t *', int16 = 'int16_t *',\n"
    "  int32 = 'int32_t *', int64 = 'int64_t *', float16 = 'uint16_t *', bfloat16 = 'uint16_t *',\n"
    "  float32 = 'float *', float64 = 'double *'}\n"
    "local functions = {}\n"
    "function functions.pointer(address, dtype, tensor)\n"
    "  local p = ffi.cast(types[dtype], address)\n"
    "  anchors[p] = tensor\n"
    "  return p\n"
    "end\n"
    "function functions.int64(address) return ffi.cast('int64_t *', address)[0] end\n"
    "function functions.integer(x, address)\n"
    "  if not (ffi.istype('int64_t', x) or ffi.istype('uint64_t', x)) then return false end\n"
    "  ffi.cast('int64_t *', address)[0] = x\n"
    "  return true\n"
    "end\n"
    "function functions.address(x, place)\n"
    "  local ok, p = pcall(ffi.cast, 'void *', x)\n"
    "  if ok then ffi.cast('void **', place)[0] = p end\n"
    "  return ok\n"
    "end\n"
    "return functions\n";

/* Pushes a function of the chunk. */
static void push_ffi(lua_State *L, const char *name) {
    lua_rawgetp(L, LUA_REGISTRYINDEX, &ffi_key);
    lua_getfield(L, -1, name);
    lua_remove(L, -2);
}

static void load_ffi(lua_State *L) {
    if (luaL_loadbuffer(L, ffi_source, sizeof ffi_source - 1, "@ctrain/ffi") != 0)
        lua_error(L);
    lua_call(L, 0, 1);
    lua_rawsetp(L, LUA_REGISTRYINDEX, &ffi_key);
}
#endif

bool ct_lua_ffi_integer(lua_State *L, int index, int64_t *value) {
#ifdef CT_LUA54
    (void)L, (void)index, (void)value;
    return false;
#else
    if (lua_type(L, index) != LUA_TCDATA)
        return false;
    index = lua_absindex(L, index);
    push_ffi(L, "integer");
    lua_pushvalue(L, index);
    lua_pushlightuserdata(L, value);
    lua_call(L, 2, 1);
    bool found = lua_toboolean(L, -1);
    lua_pop(L, 1);
    return found;
#endif
}

/* The address in a light userdata, or (LuaJIT) an FFI pointer or array. */
static void *read_address(lua_State *L, int index, const char *function) {
    char text[CT_LUA_TEXT];
    if (lua_islightuserdata(L, index))
        return lua_touserdata(L, index);
#ifndef CT_LUA54
    if (lua_type(L, index) == LUA_TCDATA) {
        void *address = NULL;
        push_ffi(L, "address");
        lua_pushvalue(L, index);
        lua_pushlightuserdata(L, &address);
        lua_call(L, 2, 1);
        bool ok = lua_toboolean(L, -1);
        lua_pop(L, 1);
        if (ok)
            return address;
    }
#endif
    ct_lua_raise(L, function, "'pointer' must be a light userdata or an FFI pointer, got %s",
                 ct_lua_describe(L, index, text));
    return NULL;
}

/* ---- from Lua ------------------------------------------------------------------------------- */

typedef struct reading {
    lua_State *L;
    const char *function;
    ct_shape shape;
    ct_dtype dtype;
    int place[CT_MAX_DIMS]; /* of the element being read, from 1 */
    bool numbers, booleans;
    char *next; /* where the next element goes */
} reading;

/* "'value[2][1]'" */
static const char *place_text(const reading *r, int depth, char text[CT_LUA_TEXT]) {
    int length = snprintf(text, CT_LUA_TEXT, "'value");
    for (int d = 0; d < depth; d++)
        length += snprintf(text + length, (size_t)(CT_LUA_TEXT - length), "[%d]", r->place[d]);
    snprintf(text + length, (size_t)(CT_LUA_TEXT - length), "'");
    return text;
}

/* The table on top is a list without holes of the extent that its depth has. */
static void check_list(reading *r, int depth) {
    lua_State *L = r->L;
    char place[CT_LUA_TEXT], text[CT_LUA_TEXT];
    int64_t n = (int64_t)lua_rawlen(L, -1), keys = 0;
    double beyond = 0;
    for (lua_pushnil(L); lua_next(L, -2); lua_pop(L, 1), keys++) {
        double key = lua_type(L, -2) == LUA_TNUMBER ? lua_tonumber(L, -2) : 0;
        if (key < 1 || key != (double)(int64_t)key)
            ct_lua_raise(L, r->function, "%s is not a list: it has the key %s",
                         place_text(r, depth, place), ct_lua_describe(L, -2, text));
        if (key > (double)n)
            beyond = key;
    }
    if (keys < n || beyond > 0) {
        int64_t hole = 1;
        for (lua_rawgeti(L, -1, 1); !lua_isnil(L, -1); lua_rawgeti(L, -1, (int)hole))
            lua_pop(L, 1), hole++;
        lua_pop(L, 1);
        ct_lua_raise(L, r->function, "%s has a hole: its element %lld is nil",
                     place_text(r, depth, place), (long long)hole);
    }
    if (n != r->shape.dim[depth])
        ct_lua_raise(
            L, r->function,
            "ragged table: %s has %lld element%s where the first list at its depth has %lld",
            place_text(r, depth, place), (long long)n, n == 1 ? "" : "s",
            (long long)r->shape.dim[depth]);
}

/* Checks the value on top against shape and kind. */
static void check_value(reading *r, int depth) {
    lua_State *L = r->L;
    char place[CT_LUA_TEXT], text[CT_LUA_TEXT];
    ct_scalar value;
    if (depth < r->shape.ndim) {
        if (!lua_istable(L, -1))
            ct_lua_raise(L, r->function, "ragged table: %s is %s where other elements are lists",
                         place_text(r, depth, place), ct_lua_describe(L, -1, text));
        check_list(r, depth);
        for (int64_t i = 1; i <= r->shape.dim[depth]; i++) {
            r->place[depth] = (int)i;
            lua_rawgeti(L, -1, (int)i);
            check_value(r, depth + 1);
            lua_pop(L, 1);
        }
        return;
    }
    if (lua_isboolean(L, -1))
        r->booleans = true;
    else if (lua_istable(L, -1))
        ct_lua_raise(L, r->function, "ragged table: %s is a list where other elements are numbers",
                     place_text(r, depth, place));
    else if (!ct_lua_scalar(L, -1, &value))
        ct_lua_raise(L, r->function, "%s must be a number or a boolean, got %s",
                     place_text(r, depth, place), ct_lua_describe(L, -1, text));
    else if (r->dtype != CT_DTYPES && !ct_lua_fits(value, r->dtype))
        ct_lua_raise(L, r->function, "%s is %s, which does not fit into %s",
                     place_text(r, depth, place), ct_lua_number_text(value.f, text),
                     ct_dtype_name(r->dtype));
    else
        r->numbers = true;
    if (r->numbers && r->booleans && r->dtype == CT_DTYPES)
        ct_lua_raise(L, r->function, "%s: numbers and booleans are mixed; say the dtype",
                     place_text(r, depth, place));
}

static void store_value(reading *r, int depth) {
    lua_State *L = r->L;
    ct_scalar value;
    if (depth < r->shape.ndim) {
        for (int64_t i = 1; i <= r->shape.dim[depth]; i++) {
            lua_rawgeti(L, -1, (int)i);
            store_value(r, depth + 1);
            lua_pop(L, 1);
        }
        return;
    }
    if (!ct_lua_scalar(L, -1, &value))
        value = ct_scalar_int(lua_toboolean(L, -1));
    else if (value.f == 0)
        value.is_int = false; /* -0 stays -0 */
    ct_scalar_store(value, r->dtype, r->next);
    r->next += ct_dtype_size(r->dtype);
}

/* The extents are those of the first element at each depth. */
static void measure(reading *r, int index) {
    lua_State *L = r->L;
    int top = lua_gettop(L);
    luaL_checkstack(L, 2 * CT_MAX_DIMS + 16, "too many arguments");
    r->shape.ndim = 0;
    for (lua_pushvalue(L, index); lua_istable(L, -1); lua_rawgeti(L, -1, 1)) {
        if (r->shape.ndim == CT_MAX_DIMS)
            ct_lua_raise(L, r->function,
                         "the table is nested deeper than the %d dimensions of a tensor",
                         CT_MAX_DIMS);
        r->shape.dim[r->shape.ndim++] = (int64_t)lua_rawlen(L, -1);
        if (lua_rawlen(L, -1) == 0)
            break;
    }
    lua_settop(L, top);
}

/* A tensor with memory of its own, in the empty userdata on top. */
static void *allocate(lua_State *L, ct_bind *bind, ct_tensor **box, ct_dtype dtype,
                      const ct_shape *shape, const char *function) {
    ct_error error = {.status = CT_OK};
    ct_shape checked;
    if (ct_shape_set(&checked, shape->ndim, shape->dim, &error) != CT_OK)
        ct_lua_raise_error(L, function, &error);
    ct_buffer *buffer =
        ct_buffer_new(bind->runtime->heap, ct_shape_numel(shape) * (int64_t)ct_dtype_size(dtype));
    if (!buffer)
        ct_lua_raise(L, function, "memory is out");
    void *data = buffer->data;
    ct_node *node = ct_node_data(bind->runtime, dtype, shape, buffer, &error);
    ct_buffer_release(buffer);
    *box = ct_tensor_new(node, &error);
    ct_node_release(node);
    if (!*box)
        ct_lua_raise_error(L, function, &error);
    return data;
}

void ct_lua_push_converted(lua_State *L, int index, const char *function, ct_dtype dtype) {
    ct_lua_call call;
    ct_tensor *tensor = ct_lua_to_tensor(L, index);
    index = lua_absindex(L, index);
    if (tensor) {
        ct_attr attr = {.axis = 0};
        ct_lua_begin(&call, L, function);
        ct_builder *b = &call.builder;
        ct_node *x = ct_detach(b, ct_lua_node(&call, tensor));
        if (x && dtype != CT_DTYPES && dtype != x->dtype)
            x = ct_cast(b, x, dtype);
        else if (x)
            x = ct_own(
                b, ct_record(call.bind->runtime, CT_COPY, &x, 1, &attr, &x->shape, &call.error));
        ct_lua_finish(&call, x);
        return;
    }
    reading r = {.L = L, .function = function, .dtype = dtype};
    measure(&r, index);
    lua_pushvalue(L, index);
    check_value(&r, 0);
    if (dtype == CT_DTYPES)
        r.dtype = r.booleans ? CT_BOOL : CT_FLOAT32;
    ct_bind *bind = ct_bind_of(L);
    ct_tensor **box = ct_lua_push_empty(L, bind);
    r.next = allocate(L, bind, box, r.dtype, &r.shape, function);
    lua_insert(L, -2);
    store_value(&r, 0);
    lua_pop(L, 1);
}

/* tensor(value, dtype, requires_grad) */
static int tensor_of(lua_State *L) {
    static const char *const options[] = {"dtype", "requires_grad", NULL};
    ct_error error = {.status = CT_OK};
    char text[CT_LUA_TEXT];
    if (lua_isnoneornil(L, 1))
        return ct_lua_raise(
            L, "ct.tensor",
            "'value' must be a number, a boolean, a nested table or a tensor, got %s",
            ct_lua_describe(L, 1, text));
    ct_lua_spread_options(L, 2, "ct.tensor", options);
    ct_dtype dtype = lua_isnil(L, 2) ? CT_DTYPES : ct_lua_dtype(L, 2, "ct.tensor", "dtype");
    bool requires_grad = ct_lua_flag(L, 3, "ct.tensor", "requires_grad", false);
    ct_lua_push_converted(L, 1, "ct.tensor", dtype);
    if (requires_grad &&
        ct_tensor_require_grad(*(ct_tensor **)lua_touserdata(L, -1), true, &error) != CT_OK)
        return ct_lua_raise_error(L, "ct.tensor", &error);
    return 1;
}

typedef struct anchor {
    ct_lua_link *link;
    int reference;
} anchor;

static void release_anchor(void *context) {
    anchor *a = context;
    if (a->link->state)
        luaL_unref(a->link->state, LUA_REGISTRYINDEX, a->reference);
    ct_lua_link_release(a->link);
    free(a);
}

/* from_pointer(pointer, shape, dtype): memory of someone else as a tensor, without a copy; it must
 * stay valid as long as the tensor. An FFI object is kept alive. */
static int from_pointer(lua_State *L) {
    ct_shape shape;
    ct_error error = {.status = CT_OK};
    char text[CT_LUA_TEXT];
    void *data = read_address(L, 1, "ct.from_pointer");
    if (!lua_istable(L, 2))
        return ct_lua_raise(L, "ct.from_pointer", "'shape' must be a list of whole numbers, got %s",
                            ct_lua_describe(L, 2, text));
    ct_lua_shape(L, 2, "ct.from_pointer", &shape);
    ct_dtype dtype =
        lua_isnoneornil(L, 3) ? CT_FLOAT32 : ct_lua_dtype(L, 3, "ct.from_pointer", "dtype");
    if (!data)
        return ct_lua_raise(L, "ct.from_pointer", "'pointer' is NULL");
    ct_bind *bind = ct_bind_of(L);
    ct_tensor **box = ct_lua_push_empty(L, bind);
    lua_pushvalue(L, 1);
    int reference = luaL_ref(L, LUA_REGISTRYINDEX);
    anchor *a = ct_malloc(sizeof *a);
    if (!a) {
        luaL_unref(L, LUA_REGISTRYINDEX, reference);
        return ct_lua_raise(L, "ct.from_pointer", "memory is out");
    }
    *a = (anchor){ct_lua_link_retain(bind->link), reference};
    *box = ct_tensor_wrap(bind->runtime, dtype, shape.ndim, shape.dim, NULL, data, release_anchor,
                          a, &error);
    if (!*box) {
        release_anchor(a);
        return ct_lua_raise_error(L, "ct.from_pointer", &error);
    }
    return 1;
}

/* ---- to Lua --------------------------------------------------------------------------------- */

void ct_lua_push_scalar(lua_State *L, ct_scalar value, ct_dtype dtype) {
    if (dtype == CT_BOOL) {
        lua_pushboolean(L, value.is_int ? value.i != 0 : value.f != 0);
        return;
    }
    if (!value.is_int) {
        lua_pushnumber(L, value.f);
        return;
    }
#ifdef CT_LUA54
    lua_pushinteger(L, value.i);
#else
    if (value.i >= -9007199254740992 && value.i <= 9007199254740992) {
        lua_pushnumber(L, (lua_Number)value.i);
    } else {
        push_ffi(L, "int64");
        lua_pushlightuserdata(L, &value.i);
        lua_call(L, 1, 1);
    }
#endif
}

static void read_array(lua_State *L, const char *function, ct_array *array) {
    ct_error error = {.status = CT_OK};
    ct_tensor *tensor = ct_lua_tensor(L, 1, function, "self");
    ct_bind_of(L);
    if (ct_tensor_array(tensor, array, &error) != CT_OK)
        ct_lua_raise_error(L, function, &error);
}

static int item(lua_State *L) {
    char text[CT_SHAPE_TEXT];
    ct_array array;
    const ct_tensor *tensor = ct_lua_tensor(L, 1, "item", "self");
    if (ct_shape_numel(&tensor->view.shape) != 1)
        return ct_lua_raise(
            L, "item", "a tensor of shape %s has %lld elements, not one; totable gives them all",
            ct_shape_text(&tensor->view.shape, text),
            (long long)ct_shape_numel(&tensor->view.shape));
    read_array(L, "item", &array);
    ct_lua_push_scalar(L, ct_scalar_load(array.dtype, array.data), array.dtype);
    return 1;
}

static void push_table(lua_State *L, const ct_array *array, int depth, const char *element) {
    if (depth == array->shape.ndim) {
        ct_lua_push_scalar(L, ct_scalar_load(array->dtype, element), array->dtype);
        return;
    }
    int64_t n = array->shape.dim[depth],
            stride = array->stride[depth] * (int64_t)ct_dtype_size(array->dtype);
    if (n > INT32_MAX)
        ct_lua_raise(L, "totable", "a table cannot hold %lld elements", (long long)n);
    lua_createtable(L, (int)n, 0);
    for (int64_t i = 0; i < n; i++) {
        push_table(L, array, depth + 1, element + i * stride);
        lua_rawseti(L, -2, (int)i + 1);
    }
}

static int totable(lua_State *L) {
    ct_array array;
    read_array(L, "totable", &array);
    luaL_checkstack(L, CT_MAX_DIMS + 8, "too many dimensions");
    push_table(L, &array, 0, array.data);
    return 1;
}

/* data(): the address of element 0, for FFI and C libraries. On LuaJIT a typed pointer, which keeps
 * the tensor alive as long as it lives itself. */
static int data(lua_State *L) {
    char text[CT_SHAPE_TEXT];
    ct_error error = {.status = CT_OK};
    ct_tensor *tensor = ct_lua_tensor(L, 1, "data", "self");
    if (!ct_view_is_contiguous(&tensor->view))
        return ct_lua_raise(
            L, "data",
            "the elements of this %s tensor do not lie one behind the other; take the data of "
            "t:contiguous()",
            ct_shape_text(&tensor->view.shape, text));
    ct_bind_of(L);
    void *address = ct_tensor_data(tensor, &error);
    if (error.status != CT_OK)
        return ct_lua_raise_error(L, "data", &error);
#ifdef CT_LUA54
    lua_pushlightuserdata(L, address);
#else
    push_ffi(L, "pointer");
    lua_pushlightuserdata(L, address);
    lua_pushstring(L, ct_dtype_name(tensor->dtype));
    lua_pushvalue(L, 1);
    lua_call(L, 3, 1);
#endif
    return 1;
}

void ct_open_convert(lua_State *L, int core, int methods) {
    static const luaL_Reg functions[] = {
        {"tensor", tensor_of}, {"from_pointer", from_pointer}, {NULL, NULL}};
    static const luaL_Reg method_functions[] = {
        {"item", item}, {"totable", totable}, {"data", data}, {NULL, NULL}};
#ifndef CT_LUA54
    load_ffi(L);
#endif
    ct_lua_add(L, core, functions);
    ct_lua_add(L, methods, method_functions);
}
