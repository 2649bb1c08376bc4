/* args.c: arguments of functions called from Lua. A number is a number by its value: 3.0 is 3, 3.5
 * is refused where a whole number is due, on both Lua versions and with the same words. Strings are
 * never numbers. */
#include <math.h>
#include <stdio.h>
#include <string.h>

#include "bind/bind.h"

bool ct_lua_scalar(lua_State *L, int index, ct_scalar *value) {
    int64_t integer;
    if (lua_type(L, index) != LUA_TNUMBER) {
        if (!ct_lua_ffi_integer(L, index, &integer))
            return false;
        *value = ct_scalar_int(integer);
        return true;
    }
    if (lua_isinteger(L, index)) {
        *value = ct_scalar_int((int64_t)lua_tointeger(L, index));
        return true;
    }
    double number = lua_tonumber(L, index);
    *value = ct_scalar_float(number);
    if (number == floor(number) && fabs(number) < 9223372036854775808.0)
        value->is_int = true, value->i = (int64_t)number;
    return true;
}

bool ct_lua_fits(ct_scalar value, ct_dtype dtype) {
    static const struct {
        double low, high;
    } ranges[CT_DTYPES] = {
        [CT_UINT8] = {0, UINT8_MAX},           [CT_INT8] = {INT8_MIN, INT8_MAX},
        [CT_INT16] = {INT16_MIN, INT16_MAX},   [CT_INT32] = {INT32_MIN, INT32_MAX},
        [CT_INT64] = {-0x1p63, 0x1p63 - 1024}, /* the largest double below 2^63 */
    };
    if (!ct_dtype_is_int(dtype) || (value.is_int && dtype == CT_INT64))
        return true;
    double number = trunc(value.is_int ? (double)value.i : value.f);
    return number >= ranges[dtype].low && number <= ranges[dtype].high; /* false for NaN */
}

int64_t ct_lua_integer(lua_State *L, int index, const char *function, const char *argument) {
    ct_scalar value;
    char text[CT_LUA_TEXT];
    if (!ct_lua_scalar(L, index, &value))
        ct_lua_raise(L, function, "'%s' must be a whole number, got %s", argument,
                     ct_lua_describe(L, index, text));
    if (!value.is_int)
        ct_lua_raise(L, function, "'%s' must be a whole number, got %s", argument,
                     ct_lua_number_text(value.f, text));
    return value.i;
}

int64_t ct_lua_integer_or(lua_State *L, int index, const char *function, const char *argument,
                          int64_t absent) {
    return lua_isnoneornil(L, index) ? absent : ct_lua_integer(L, index, function, argument);
}

double ct_lua_real(lua_State *L, int index, const char *function, const char *argument) {
    ct_scalar value;
    char text[CT_LUA_TEXT];
    if (!ct_lua_scalar(L, index, &value))
        ct_lua_raise(L, function, "'%s' must be a number, got %s", argument,
                     ct_lua_describe(L, index, text));
    return value.f;
}

double ct_lua_real_or(lua_State *L, int index, const char *function, const char *argument,
                      double absent) {
    return lua_isnoneornil(L, index) ? absent : ct_lua_real(L, index, function, argument);
}

bool ct_lua_flag(lua_State *L, int index, const char *function, const char *argument, bool absent) {
    char text[CT_LUA_TEXT];
    if (lua_isnoneornil(L, index))
        return absent;
    if (!lua_isboolean(L, index))
        ct_lua_raise(L, function, "'%s' must be true or false, got %s", argument,
                     ct_lua_describe(L, index, text));
    return lua_toboolean(L, index);
}

ct_dtype ct_lua_dtype(lua_State *L, int index, const char *function, const char *argument) {
    char text[CT_LUA_TEXT];
    if (lua_type(L, index) != LUA_TSTRING)
        ct_lua_raise(L, function, "'%s' must name an element type such as \"float32\", got %s",
                     argument, ct_lua_describe(L, index, text));
    const char *name = lua_tostring(L, index);
    ct_dtype dtype = ct_dtype_from_name(name);
    if (dtype == CT_DTYPES) {
        const char *names[CT_DTYPES];
        for (int i = 0; i < CT_DTYPES; i++)
            names[i] = ct_dtype_name(i);
        ct_lua_raise(L, function,
                     "unknown dtype '%.60s'%s; there are bool, uint8, int8, int16, int32, int64, "
                     "float16, bfloat16, float32 and float64",
                     name, ct_lua_nearest(name, names, CT_DTYPES, text));
    }
    return dtype;
}

int ct_lua_axis(lua_State *L, int index, const char *function, const char *argument, int ndim) {
    int64_t dim = ct_lua_integer(L, index, function, argument);
    int count = ndim ? ndim : 1;
    if (dim == 0)
        ct_lua_raise(L, function,
                     "'%s' is 0, but dimensions count from 1 (or from the end: -1 is the last)",
                     argument);
    if (dim < -count || dim > count)
        ct_lua_raise(L, function, "'%s' is %lld, but the tensor has %d dimension%s", argument,
                     (long long)dim, ndim, ndim == 1 ? "" : "s");
    return (int)(dim > 0 ? dim - 1 : dim + count);
}

uint32_t ct_lua_axes(lua_State *L, int index, const char *function, const char *argument,
                     int ndim) {
    char text[CT_LUA_TEXT];
    if (!lua_istable(L, index))
        return 1u << ct_lua_axis(L, index, function, argument, ndim);
    uint32_t axes = 0;
    int n = (int)lua_rawlen(L, index);
    for (int i = 1; i <= n; i++) {
        lua_rawgeti(L, index, i);
        uint32_t bit = 1u << ct_lua_axis(L, -1, function, argument, ndim);
        if (axes & bit)
            ct_lua_raise(L, function, "'%s' names dimension %s twice", argument,
                         ct_lua_number_text(lua_tonumber(L, -1), text));
        axes |= bit;
        lua_pop(L, 1);
    }
    return axes;
}

int ct_lua_extents(lua_State *L, int index, const char *function, const char *argument,
                   int64_t extents[CT_MAX_DIMS], int *n) {
    char text[CT_LUA_TEXT];
    bool list = lua_istable(L, index) && !ct_lua_is_options(L, index);
    if (!list && lua_type(L, index) != LUA_TNUMBER)
        ct_lua_raise(L, function,
                     "'%s' must be a list of whole numbers or the numbers themselves, got %s",
                     argument, ct_lua_describe(L, index, text));
    int count = list ? (int)lua_rawlen(L, index) : 0;
    if (!list)
        while (lua_type(L, index + count) == LUA_TNUMBER)
            count++;
    if (count > CT_MAX_DIMS)
        ct_lua_raise(L, function, "'%s' has %d entries; tensors have at most %d dimensions",
                     argument, count, CT_MAX_DIMS);
    for (int i = 0; i < count; i++) {
        char name[CT_LUA_TEXT];
        snprintf(name, sizeof name, "%.100s[%d]", argument, i + 1);
        if (list)
            lua_rawgeti(L, index, i + 1);
        else
            lua_pushvalue(L, index + i);
        extents[i] = ct_lua_integer(L, -1, function, name);
        lua_pop(L, 1);
    }
    *n = count;
    return index + (list ? 1 : count);
}

int ct_lua_shape(lua_State *L, int index, const char *function, ct_shape *shape) {
    int64_t extents[CT_MAX_DIMS];
    int n, next = ct_lua_extents(L, index, function, "shape", extents, &n);
    ct_error error = {.status = CT_OK};
    for (int i = 0; i < n; i++)
        if (extents[i] < 0)
            ct_lua_raise(L, function, "'shape[%d]' must not be negative, got %lld", i + 1,
                         (long long)extents[i]);
    if (ct_shape_set(shape, n, extents, &error) != CT_OK)
        ct_lua_raise_error(L, function, &error);
    return next;
}

bool ct_lua_is_options(lua_State *L, int index) {
    if (!lua_istable(L, index))
        return false;
    index = lua_absindex(L, index);
    for (lua_pushnil(L); lua_next(L, index); lua_pop(L, 1))
        if (lua_type(L, -2) == LUA_TSTRING) {
            lua_pop(L, 2);
            return true;
        }
    return false;
}

static bool is_empty_table(lua_State *L, int index) {
    if (!lua_istable(L, index))
        return false;
    index = lua_absindex(L, index);
    lua_pushnil(L);
    if (!lua_next(L, index))
        return true;
    lua_pop(L, 2);
    return false;
}

void ct_lua_check_options(lua_State *L, int index, const char *function, const char *const *names) {
    char text[CT_LUA_TEXT];
    int n = 0;
    while (names[n])
        n++;
    index = lua_absindex(L, index);
    for (lua_pushnil(L); lua_next(L, index); lua_pop(L, 1)) {
        if (lua_type(L, -2) != LUA_TSTRING)
            ct_lua_raise(L, function, "the options are string keys, but the table has the key %s",
                         ct_lua_describe(L, -2, text));
        const char *key = lua_tostring(L, -2);
        int i = 0;
        while (i < n && strcmp(names[i], key) != 0)
            i++;
        if (i == n)
            ct_lua_raise(L, function, "unknown option '%.60s'%s", key,
                         ct_lua_nearest(key, names, n, text));
    }
}

void ct_lua_spread_options(lua_State *L, int index, const char *function,
                           const char *const *names) {
    int n = 0;
    while (names[n])
        n++;
    int last = index + n - 1;
    luaL_checkstack(L, n + 8, "too many arguments");
    if (!ct_lua_is_options(L, index) && !is_empty_table(L, index)) { /* {dtype = nil} is empty */
        if (lua_gettop(L) < last)
            lua_settop(L, last);
        return;
    }
    ct_lua_check_options(L, index, function, names);
    lua_settop(L, index);
    for (int i = 0; i < n; i++) {
        lua_pushstring(L, names[i]);
        lua_rawget(L, index);
    }
    lua_remove(L, index);
}
