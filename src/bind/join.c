/* join.c: ct.cat: tensors behind each other along a dimension, in a new tensor. */
#include "bind/bind.h"

/* A 1-d tensor of no elements continues anything: what a script begins to gather with. */
static bool is_nothing(const ct_tensor *part) {
    return part->view.shape.ndim == 1 && part->view.shape.dim[0] == 0;
}

static const ct_tensor *part_at(lua_State *L, int i) {
    char text[CT_LUA_TEXT];
    lua_rawgeti(L, 1, i);
    const ct_tensor *part = ct_lua_to_tensor(L, -1);
    if (!part)
        ct_lua_raise(L, "cat", "'tensors[%d]' must be a tensor, got %s", i,
                     ct_lua_describe(L, -1, text));
    if (part->view.shape.ndim == 0)
        ct_lua_raise(L, "cat", "'tensors[%d]' has no dimensions; stack joins 0-d tensors", i);
    lua_pop(L, 1);
    return part;
}

/* The dtype and shape that parts of a list joined along a dimension have. */
static void read_parts(lua_State *L, int n, int *axis, ct_dtype *dtype, ct_shape *shape) {
    char first_text[CT_SHAPE_TEXT], here[CT_SHAPE_TEXT];
    const ct_tensor *first = part_at(L, 1);
    for (int i = 2; i <= n && is_nothing(first); i++)
        first = part_at(L, i);
    *axis = lua_isnoneornil(L, 2) ? 0 : ct_lua_axis(L, 2, "cat", "dim", first->view.shape.ndim);
    *dtype = first->dtype;
    *shape = first->view.shape;
    shape->dim[*axis] = 0;
    for (int i = 1; i <= n; i++) {
        const ct_tensor *part = part_at(L, i);
        *dtype = ct_dtype_promote(*dtype, part->dtype);
        if (is_nothing(part))
            continue;
        bool fits = part->view.shape.ndim == shape->ndim;
        for (int d = 0; fits && d < shape->ndim; d++)
            fits = d == *axis || part->view.shape.dim[d] == shape->dim[d];
        if (!fits)
            ct_lua_raise(
                L, "cat",
                "'tensors[%d]' has shape %s, which does not continue %s along dimension %d", i,
                ct_shape_text(&part->view.shape, here),
                ct_shape_text(&first->view.shape, first_text), *axis + 1);
        shape->dim[*axis] += part->view.shape.dim[*axis];
    }
}

/* Writes the parts of the list at index 1 behind each other into `whole`. */
static bool join(ct_lua_call *call, ct_tensor *whole, ct_tensor *const *parts, int n, int axis) {
    ct_builder *b = &call->builder;
    int64_t start = 0;
    bool ok = true;
    for (int i = 0; ok && i < n; i++) {
        if (is_nothing(parts[i]))
            continue;
        int64_t count = parts[i]->view.shape.dim[axis];
        ct_view view = ct_view_slice(&whole->view, axis, start, count, 1);
        ct_tensor *place = ct_tensor_view(whole, &view, &call->error);
        ct_node *node = place ? ct_tensor_node(b, parts[i]) : NULL;
        ok = node && ct_tensor_write(b, place, node) == CT_OK;
        ct_tensor_free(place);
        start += count;
    }
    return ok;
}

/* cat(list of tensors, dim = 1) */
static int cat(lua_State *L) {
    static const char *const options[] = {"dim", NULL};
    char text[CT_LUA_TEXT];
    int axis = 0, n;
    ct_dtype dtype = CT_FLOAT32;
    ct_shape joined, shape;
    ct_error error = {.status = CT_OK};
    ct_lua_call call;
    if (!lua_istable(L, 1) || (n = (int)lua_rawlen(L, 1)) == 0)
        return ct_lua_raise(L, "cat", "'tensors' must be a list of tensors, got %s",
                            lua_istable(L, 1) ? "an empty one" : ct_lua_describe(L, 1, text));
    ct_lua_spread_options(L, 2, "cat", options);
    read_parts(L, n, &axis, &dtype, &joined);
    if (ct_shape_set(&shape, joined.ndim, joined.dim, &error) != CT_OK)
        return ct_lua_raise_error(L, "cat", &error);
    ct_tensor **parts = lua_newuserdatauv(L, (size_t)n * sizeof *parts, 0);
    for (int i = 0; i < n; i++) {
        lua_rawgeti(L, 1, i + 1);
        parts[i] = ct_lua_to_tensor(L, -1);
        lua_pop(L, 1);
    }
    ct_lua_begin(&call, L, "cat");
    *call.result =
        ct_tensor_new(ct_constant(&call.builder, dtype, &shape, ct_scalar_int(0)), &call.error);
    ct_lua_end(&call, *call.result && join(&call, *call.result, parts, n, axis));
    return 1;
}

void ct_open_join(lua_State *L, int core, int methods) {
    static const luaL_Reg functions[] = {{"cat", cat}, {NULL, NULL}};
    (void)methods;
    ct_lua_add(L, core, functions);
}
