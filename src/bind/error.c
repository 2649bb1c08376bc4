/* error.c: the one place that raises Lua errors. A message starts with the user's script line: that
 * of the first frame whose chunk is not one of ctrain's own Lua files. */
#include <math.h>
#include <stdarg.h>
#include <stdio.h>
#include <string.h>

#include "bind/bind.h"

static bool is_own(const ct_bind *bind, const char *source) {
    if (source[0] != '@')
        return false;
    return strncmp(source + 1, "ctrain/", 7) == 0 ||
           (bind->own && strncmp(source + 1, bind->own, bind->own_length) == 0);
}

static bool user_frame(lua_State *L, const ct_bind *bind, lua_Debug *frame) {
    for (int level = 1; lua_getstack(L, level, frame); level++) { /* 0 is the C function */
        lua_getinfo(L, "Sl", frame);
        if (frame->currentline > 0 && !is_own(bind, frame->source))
            return true;
    }
    return false;
}

ct_line ct_lua_where(void *context) {
    ct_bind *bind = context;
    if (!bind->line_known) {
        lua_Debug frame;
        bind->line_known = true;
        if (!user_frame(bind->state, bind, &frame))
            bind->line = (ct_line){NULL, 0};
        else {
            bind->line.line = frame.currentline;
            if (!bind->line.source || strcmp(bind->line.source, frame.short_src) != 0)
                bind->line.source = ct_intern(bind->runtime, frame.short_src);
        }
    }
    return bind->line;
}

static int raise_message(lua_State *L, const char *function, const char *message) {
    lua_Debug frame;
    ct_bind *bind = ct_bind_of(L);
    char place[LUA_IDSIZE + 32] = "";
    if (user_frame(L, bind, &frame))
        snprintf(place, sizeof place, "%s:%d: ", frame.short_src, frame.currentline);
    /* what the graph says begins with the operation's name already: "add: " in add, and in add_ */
    size_t length = function ? strlen(function) : 0;
    size_t base = length && function[length - 1] == '_' ? length - 1 : length;
    if (function && strncmp(message, function, base) == 0 && message[base] == ':' &&
        message[base + 1] == ' ')
        message += base + 2;
    if (function)
        lua_pushfstring(L, "%s%s: %s", place, function, message);
    else
        lua_pushfstring(L, "%s%s", place, message);
    return lua_error(L);
}

int ct_lua_raise(lua_State *L, const char *function, const char *format, ...) {
    char message[1024];
    va_list arguments;
    va_start(arguments, format);
    vsnprintf(message, sizeof message, format, arguments);
    va_end(arguments);
    return raise_message(L, function, message);
}

static const char kept_key;

void ct_lua_keep_error(lua_State *L) {
    lua_rawsetp(L, LUA_REGISTRYINDEX, &kept_key);
}

int ct_lua_raise_error(lua_State *L, const char *function, const ct_error *error) {
    if (error->status == CT_ERR_LUA) { /* what a script raised passes unchanged */
        lua_rawgetp(L, LUA_REGISTRYINDEX, &kept_key);
        lua_pushnil(L);
        ct_lua_keep_error(L);
        if (!lua_isnil(L, -1))
            return lua_error(L);
        lua_pop(L, 1);
    }
    return raise_message(L, function, error->message[0] ? error->message : "memory is out");
}

const char *ct_lua_number_text(double value, char text[CT_LUA_TEXT]) {
    if (isnan(value))
        snprintf(text, CT_LUA_TEXT, "nan");
    else
        snprintf(text, CT_LUA_TEXT, "%.14g", value);
    return text;
}

const char *ct_lua_describe(lua_State *L, int index, char text[CT_LUA_TEXT]) {
    char part[CT_LUA_TEXT], extents[CT_SHAPE_TEXT];
    const ct_tensor *tensor;
    switch (lua_type(L, index)) {
    case LUA_TNONE:
    case LUA_TNIL: snprintf(text, CT_LUA_TEXT, "nil"); break;
    case LUA_TNUMBER:
        snprintf(text, CT_LUA_TEXT, "the number %.32s",
                 ct_lua_number_text(lua_tonumber(L, index), part));
        break;
    case LUA_TBOOLEAN:
        snprintf(text, CT_LUA_TEXT, "%s", lua_toboolean(L, index) ? "true" : "false");
        break;
    case LUA_TSTRING:
        snprintf(text, CT_LUA_TEXT, "the string '%.100s'", lua_tostring(L, index));
        break;
    default:
        tensor = ct_lua_to_tensor(L, index);
        if (tensor)
            snprintf(text, CT_LUA_TEXT, "a tensor [%s %s]", ct_dtype_name(tensor->dtype),
                     ct_shape_text(&tensor->view.shape, extents));
        else
            snprintf(text, CT_LUA_TEXT, "a %s", lua_typename(L, lua_type(L, index)));
    }
    return text;
}

#define LONGEST 40

/* Edit distance with exchanges of neighbours (Damerau), for words up to LONGEST. */
static int distance(const char *a, const char *b) {
    int n = (int)strlen(a), m = (int)strlen(b);
    if (n > LONGEST || m > LONGEST)
        return LONGEST;
    int rows[3][LONGEST + 1]; /* row i, i - 1, i - 2 */
    int *now = rows[0], *before = rows[1], *earlier = rows[2];
    for (int j = 0; j <= m; j++)
        before[j] = j;
    for (int i = 1; i <= n; i++) {
        now[0] = i;
        for (int j = 1; j <= m; j++) {
            int best = before[j - 1] + (a[i - 1] != b[j - 1]);
            best = before[j] + 1 < best ? before[j] + 1 : best;
            best = now[j - 1] + 1 < best ? now[j - 1] + 1 : best;
            if (i > 1 && j > 1 && a[i - 1] == b[j - 2] && a[i - 2] == b[j - 1] &&
                earlier[j - 2] + 1 < best)
                best = earlier[j - 2] + 1;
            now[j] = best;
        }
        int *old = earlier;
        earlier = before, before = now, now = old;
    }
    return before[m];
}

/* Keeps the better of two guesses; too far a name is none. */
static void consider(const char *wrong, const char *name, const char **best, int *best_distance) {
    int d = distance(wrong, name), allowed = (int)strlen(wrong) / 3 + 1;
    if (d <= allowed && d < (int)strlen(wrong) &&
        (!*best || d < *best_distance || (d == *best_distance && strcmp(name, *best) < 0)))
        *best = name, *best_distance = d;
}

static const char *suggestion(const char *best, char text[CT_LUA_TEXT]) {
    text[0] = 0;
    if (best)
        snprintf(text, CT_LUA_TEXT, " (did you mean '%.100s'?)", best);
    return text;
}

const char *ct_lua_nearest(const char *wrong, const char *const *names, int n,
                           char text[CT_LUA_TEXT]) {
    const char *best = NULL;
    int best_distance = 0;
    for (int i = 0; i < n; i++)
        consider(wrong, names[i], &best, &best_distance);
    return suggestion(best, text);
}

const char *ct_lua_nearest_key(lua_State *L, int table, const char *wrong, char text[CT_LUA_TEXT]) {
    const char *best = NULL;
    int best_distance = 0;
    table = lua_absindex(L, table);
    for (lua_pushnil(L); lua_next(L, table); lua_pop(L, 1))
        if (lua_type(L, -2) == LUA_TSTRING && lua_tostring(L, -2)[0] != '_')
            consider(wrong, lua_tostring(L, -2), &best, &best_distance);
    return suggestion(best, text);
}
