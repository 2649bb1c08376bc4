/* shape.c: movement. A method gives another view of the same cell wherever strides allow: writing
 * through it is seen by the tensor it came from. Where strides do not allow it, reshape gives a
 * copy. */
#include "bind/bind.h"

/* Pushes another view of the tensor's cell. */
static int push_view(lua_State *L, ct_tensor *tensor, const ct_view *view, const char *function) {
    ct_error error = {.status = CT_OK};
    ct_tensor **box = ct_lua_push_empty(L, ct_bind_of(L));
    return ct_lua_result(L, box, ct_tensor_view(tensor, view, &error), &error, function);
}

/* One extent may be -1: it follows from the others. */
static void resolve_shape(lua_State *L, const char *function, const ct_tensor *tensor,
                          const int64_t *extents, int n, ct_shape *shape) {
    char text[CT_SHAPE_TEXT], wanted[CT_SHAPE_TEXT];
    int64_t numel = ct_shape_numel(&tensor->view.shape), known[CT_MAX_DIMS], product = 1;
    int open = -1;
    ct_error error = {.status = CT_OK};
    for (int i = 0; i < n; i++) {
        known[i] = extents[i];
        if (extents[i] == -1) {
            if (open >= 0)
                ct_lua_raise(L, function, "'shape' has more than one -1");
            open = i;
            known[i] = 1;
        } else if (extents[i] < 0) {
            ct_lua_raise(L, function, "'shape[%d]' must not be negative, got %lld", i + 1,
                         (long long)extents[i]);
        }
    }
    if (ct_shape_set(shape, n, known, &error) != CT_OK)
        ct_lua_raise_error(L, function, &error);
    product = ct_shape_numel(shape);
    if (open >= 0 && product > 0 && numel % product == 0)
        shape->dim[open] = numel / product;
    else if (open >= 0)
        ct_lua_raise(
            L, function,
            "the -1 in 'shape' has no value: %lld elements (%s) are not a multiple of %lld",
            (long long)numel, ct_shape_text(&tensor->view.shape, text), (long long)product);
    if (ct_shape_numel(shape) != numel)
        ct_lua_raise(L, function,
                     "a tensor of shape %s has %lld elements and cannot have the shape %s (%lld)",
                     ct_shape_text(&tensor->view.shape, text), (long long)numel,
                     ct_shape_text(shape, wanted), (long long)ct_shape_numel(shape));
}

static int reshape_to(lua_State *L, ct_tensor *tensor, const ct_shape *shape, const char *function,
                      bool copy) {
    ct_view view;
    ct_lua_call call;
    char from[CT_SHAPE_TEXT], to[CT_SHAPE_TEXT];
    if (ct_view_reshape(&tensor->view, shape, &view))
        return push_view(L, tensor, &view, function);
    if (!copy)
        return ct_lua_raise(
            L, function,
            "strides of this %s tensor do not allow the shape %s without a copy; use reshape",
            ct_shape_text(&tensor->view.shape, from), ct_shape_text(shape, to));
    ct_lua_begin(&call, L, function);
    return ct_lua_finish(&call, ct_reshape(&call.builder, ct_lua_node(&call, tensor), shape));
}

static int reshape(lua_State *L) {
    int64_t extents[CT_MAX_DIMS];
    int n;
    ct_shape shape;
    ct_tensor *tensor = ct_lua_tensor(L, 1, "reshape", "self");
    ct_lua_extents(L, 2, "reshape", "shape", extents, &n);
    resolve_shape(L, "reshape", tensor, extents, n, &shape);
    return reshape_to(L, tensor, &shape, "reshape", true);
}

static int view(lua_State *L) {
    int64_t extents[CT_MAX_DIMS];
    int n;
    ct_shape shape;
    ct_tensor *tensor = ct_lua_tensor(L, 1, "view", "self");
    ct_lua_extents(L, 2, "view", "shape", extents, &n);
    resolve_shape(L, "view", tensor, extents, n, &shape);
    return reshape_to(L, tensor, &shape, "view", false);
}

/* flatten(start_dim = 1, end_dim = -1) */
static int flatten(lua_State *L) {
    static const char *const options[] = {"start_dim", "end_dim", NULL};
    ct_tensor *tensor = ct_lua_tensor(L, 1, "flatten", "self");
    const ct_shape *from = &tensor->view.shape;
    ct_lua_spread_options(L, 2, "flatten", options);
    int first = lua_isnil(L, 2) ? 0 : ct_lua_axis(L, 2, "flatten", "start_dim", from->ndim);
    int last =
        lua_isnil(L, 3) ? from->ndim - 1 : ct_lua_axis(L, 3, "flatten", "end_dim", from->ndim);
    ct_shape shape = {0, {0}};
    if (from->ndim == 0) {
        shape = (ct_shape){1, {1}};
        return reshape_to(L, tensor, &shape, "flatten", true);
    }
    if (first > last)
        return ct_lua_raise(L, "flatten", "'start_dim' (%d) must not come after 'end_dim' (%d)",
                            first + 1, last + 1);
    for (int d = 0; d < from->ndim; d++)
        if (d > first && d <= last)
            shape.dim[shape.ndim - 1] *= from->dim[d];
        else
            shape.dim[shape.ndim++] = from->dim[d];
    return reshape_to(L, tensor, &shape, "flatten", true);
}

static int permute(lua_State *L) {
    int64_t dims[CT_MAX_DIMS];
    int n, order[CT_MAX_DIMS];
    uint32_t seen = 0;
    ct_tensor *tensor = ct_lua_tensor(L, 1, "permute", "self");
    int ndim = tensor->view.shape.ndim;
    ct_lua_extents(L, 2, "permute", "dims", dims, &n);
    if (n != ndim)
        return ct_lua_raise(L, "permute", "'dims' has %d entries, but the tensor has %d dimensions",
                            n, ndim);
    for (int i = 0; i < n; i++) {
        if (dims[i] == 0 || dims[i] > ndim || dims[i] < -ndim)
            return ct_lua_raise(
                L, "permute", "'dims[%d]' is %lld; dimensions count from 1 to %d, or from the end",
                i + 1, (long long)dims[i], ndim);
        order[i] = (int)(dims[i] > 0 ? dims[i] - 1 : dims[i] + ndim);
        if (seen >> order[i] & 1)
            return ct_lua_raise(L, "permute", "'dims' names dimension %d twice", order[i] + 1);
        seen |= 1u << order[i];
    }
    ct_view result = ct_view_permute(&tensor->view, order);
    return push_view(L, tensor, &result, "permute");
}

static int swap_dims(lua_State *L, ct_tensor *tensor, int a, int b, const char *function) {
    int order[CT_MAX_DIMS];
    for (int d = 0; d < CT_MAX_DIMS; d++)
        order[d] = d == a ? b : d == b ? a : d;
    ct_view result = ct_view_permute(&tensor->view, order);
    return push_view(L, tensor, &result, function);
}

static int transpose(lua_State *L) {
    ct_tensor *tensor = ct_lua_tensor(L, 1, "transpose", "self");
    int ndim = tensor->view.shape.ndim;
    int a = ct_lua_axis(L, 2, "transpose", "dim1", ndim),
        b = ct_lua_axis(L, 3, "transpose", "dim2", ndim);
    return swap_dims(L, tensor, a, b, "transpose");
}

static int t(lua_State *L) {
    ct_tensor *tensor = ct_lua_tensor(L, 1, "t", "self");
    int ndim = tensor->view.shape.ndim;
    if (ndim > 2)
        return ct_lua_raise(
            L, "t", "the tensor has %d dimensions; t is for at most 2, use transpose or permute",
            ndim);
    return swap_dims(L, tensor, 0, ndim == 2 ? 1 : 0, "t");
}

/* squeeze(): all dimensions of extent 1; squeeze(dim), squeeze({dims}): those, where they have
 * extent 1 */
static int squeeze(lua_State *L) {
    ct_tensor *tensor = ct_lua_tensor(L, 1, "squeeze", "self");
    ct_view result = tensor->view;
    int ndim = result.shape.ndim;
    uint32_t axes = lua_isnoneornil(L, 2) ? ~0u : ct_lua_axes(L, 2, "squeeze", "dim", ndim);
    for (int d = ndim - 1; d >= 0; d--)
        if ((axes >> d & 1) && result.shape.dim[d] == 1)
            result = ct_view_drop(&result, d);
    return push_view(L, tensor, &result, "squeeze");
}

static int unsqueeze(lua_State *L) {
    ct_tensor *tensor = ct_lua_tensor(L, 1, "unsqueeze", "self");
    int ndim = tensor->view.shape.ndim;
    if (ndim == CT_MAX_DIMS)
        return ct_lua_raise(L, "unsqueeze", "the tensor has %d dimensions already", ndim);
    int axis = ct_lua_axis(L, 2, "unsqueeze", "dim", ndim + 1);
    ct_view result = ct_view_insert(&tensor->view, axis);
    return push_view(L, tensor, &result, "unsqueeze");
}

static int expand_to(lua_State *L, ct_tensor *tensor, const ct_shape *shape, const char *function) {
    ct_error error = {.status = CT_OK};
    ct_view result;
    if (ct_view_expand(&tensor->view, shape, &result, &error) != CT_OK)
        return ct_lua_raise_error(L, function, &error);
    return push_view(L, tensor, &result, function);
}

/* expand(sizes): -1 leaves an extent as it is */
static int expand(lua_State *L) {
    int64_t extents[CT_MAX_DIMS];
    int n;
    ct_shape shape;
    ct_error error = {.status = CT_OK};
    ct_tensor *tensor = ct_lua_tensor(L, 1, "expand", "self");
    const ct_shape *from = &tensor->view.shape;
    ct_lua_extents(L, 2, "expand", "shape", extents, &n);
    for (int i = 0; i < n; i++) {
        int source = i - (n - from->ndim);
        if (extents[i] == -1 && source >= 0)
            extents[i] = from->dim[source];
        if (extents[i] < 0)
            return ct_lua_raise(L, "expand", "'shape[%d]' is %lld, and there is no extent to keep",
                                i + 1, (long long)extents[i]);
    }
    if (ct_shape_set(&shape, n, extents, &error) != CT_OK)
        return ct_lua_raise_error(L, "expand", &error);
    return expand_to(L, tensor, &shape, "expand");
}

static int broadcast_to(lua_State *L) {
    ct_shape shape;
    ct_tensor *tensor = ct_lua_tensor(L, 1, "broadcast_to", "self");
    ct_lua_shape(L, 2, "broadcast_to", &shape);
    return expand_to(L, tensor, &shape, "broadcast_to");
}

static int expand_as(lua_State *L) {
    ct_tensor *tensor = ct_lua_tensor(L, 1, "expand_as", "self");
    const ct_tensor *other = ct_lua_tensor(L, 2, "expand_as", "other");
    return expand_to(L, tensor, &other->view.shape, "expand_as");
}

/* flip(dim), flip({dims}), flip(): a copy, as in PyTorch */
static int flip(lua_State *L) {
    ct_lua_call call;
    ct_tensor *tensor = ct_lua_tensor(L, 1, "flip", "self");
    int ndim = tensor->view.shape.ndim;
    uint32_t axes = lua_isnoneornil(L, 2) ? ~0u : ct_lua_axes(L, 2, "flip", "dim", ndim);
    ct_lua_begin(&call, L, "flip");
    ct_node *x = ct_lua_node(&call, tensor);
    for (int d = 0; x && d < ndim; d++)
        if (axes >> d & 1 && x->shape.dim[d] > 1)
            x = ct_slice(&call.builder, x, d, x->shape.dim[d] - 1, x->shape.dim[d], -1);
    return ct_lua_finish(&call, x);
}

/* A position from 1 or from the end, as 0..extent-1. */
static int64_t read_position(lua_State *L, int index, const char *function, const char *argument,
                             int axis, int64_t extent) {
    int64_t i = ct_lua_integer(L, index, function, argument);
    if (i == 0)
        ct_lua_raise(L, function,
                     "'%s' is 0, but positions count from 1 (or from the end: -1 is the last)",
                     argument);
    if (i < -extent || i > extent)
        ct_lua_raise(L, function, "'%s' is %lld, but dimension %d has extent %lld", argument,
                     (long long)i, axis + 1, (long long)extent);
    return i > 0 ? i - 1 : i + extent;
}

static int axis_of(lua_State *L, const ct_tensor *tensor, const char *function) {
    if (tensor->view.shape.ndim == 0)
        ct_lua_raise(L, function, "the tensor has no dimensions");
    return ct_lua_axis(L, 2, function, "dim", tensor->view.shape.ndim);
}

/* narrow(dim, start, length) */
static int narrow(lua_State *L) {
    ct_tensor *tensor = ct_lua_tensor(L, 1, "narrow", "self");
    int axis = axis_of(L, tensor, "narrow");
    int64_t extent = tensor->view.shape.dim[axis], start;
    int64_t length = ct_lua_integer(L, 4, "narrow", "length");
    if (length == 0 && ct_lua_integer(L, 3, "narrow", "start") == extent + 1)
        start = extent;
    else
        start = read_position(L, 3, "narrow", "start", axis, extent);
    if (length < 0 || length > extent - start)
        return ct_lua_raise(
            L, "narrow", "'length' is %lld, but from position %lld dimension %d has %lld",
            (long long)length, (long long)start + 1, axis + 1, (long long)(extent - start));
    ct_view result = ct_view_slice(&tensor->view, axis, start, length, 1);
    return push_view(L, tensor, &result, "narrow");
}

/* slice(dim, first, last, step): as t[{ {first, last, step} }] in that dimension */
static int slice(lua_State *L) {
    ct_tensor *tensor = ct_lua_tensor(L, 1, "slice", "self");
    int axis = axis_of(L, tensor, "slice");
    int64_t first = ct_lua_integer_or(L, 3, "slice", "first", 1);
    int64_t last = ct_lua_integer_or(L, 4, "slice", "last", -1);
    int64_t step = ct_lua_integer_or(L, 5, "slice", "step", 1);
    ct_view result;
    ct_lua_slice_view(L, "slice", &tensor->view, axis, first, last, step, &result);
    return push_view(L, tensor, &result, "slice");
}

static int select_position(lua_State *L) {
    ct_tensor *tensor = ct_lua_tensor(L, 1, "select", "self");
    int axis = axis_of(L, tensor, "select");
    int64_t i = read_position(L, 3, "select", "index", axis, tensor->view.shape.dim[axis]);
    ct_view result = ct_view_slice(&tensor->view, axis, i, 1, 1);
    result = ct_view_drop(&result, axis);
    return push_view(L, tensor, &result, "select");
}

/* diagonal(offset = 0, dim1 = 1, dim2 = 2) */
static int diagonal(lua_State *L) {
    static const char *const options[] = {"offset", "dim1", "dim2", NULL};
    ct_tensor *tensor = ct_lua_tensor(L, 1, "diagonal", "self");
    int ndim = tensor->view.shape.ndim;
    ct_lua_spread_options(L, 2, "diagonal", options);
    int64_t shift = ct_lua_integer_or(L, 2, "diagonal", "offset", 0);
    if (ndim < 2)
        return ct_lua_raise(L, "diagonal", "a diagonal needs 2 dimensions, the tensor has %d",
                            ndim);
    int a = lua_isnil(L, 3) ? 0 : ct_lua_axis(L, 3, "diagonal", "dim1", ndim);
    int b = lua_isnil(L, 4) ? 1 : ct_lua_axis(L, 4, "diagonal", "dim2", ndim);
    if (a == b)
        return ct_lua_raise(L, "diagonal", "'dim1' and 'dim2' are both %d", a + 1);
    ct_view result = ct_view_diagonal(&tensor->view, shift, a, b);
    return push_view(L, tensor, &result, "diagonal");
}

static int is_contiguous(lua_State *L) {
    const ct_tensor *tensor = ct_lua_tensor(L, 1, "is_contiguous", "self");
    lua_pushboolean(L, ct_view_is_contiguous(&tensor->view));
    return 1;
}

static int contiguous(lua_State *L) {
    ct_lua_call call;
    ct_tensor *tensor = ct_lua_tensor(L, 1, "contiguous", "self");
    if (ct_view_is_contiguous(&tensor->view)) {
        lua_settop(L, 1);
        return 1;
    }
    ct_lua_begin(&call, L, "contiguous");
    return ct_lua_finish(&call, ct_contiguous(&call.builder, ct_lua_node(&call, tensor)));
}

/* A copy of its own, through which the gradient flows. */
static int clone(lua_State *L) {
    ct_lua_call call;
    ct_tensor *tensor = ct_lua_tensor(L, 1, "clone", "self");
    ct_lua_begin(&call, L, "clone");
    ct_node *x = ct_lua_node(&call, tensor), *copy = NULL;
    ct_attr attr = {.axis = 0};
    if (x)
        copy = ct_own(&call.builder,
                      ct_record(call.bind->runtime, CT_COPY, &x, 1, &attr, &x->shape, &call.error));
    return ct_lua_finish(&call, copy);
}

static int cast_to(lua_State *L, ct_dtype dtype, const char *function) {
    ct_lua_call call;
    ct_tensor *tensor = ct_lua_tensor(L, 1, function, "self");
    if (tensor->dtype == dtype) {
        lua_settop(L, 1);
        return 1;
    }
    ct_lua_begin(&call, L, function);
    return ct_lua_finish(&call, ct_cast(&call.builder, ct_lua_node(&call, tensor), dtype));
}

/* to(dtype); to{dtype = ...}; to(another tensor): its dtype */
static int to(lua_State *L) {
    static const char *const options[] = {"dtype", NULL};
    ct_lua_tensor(L, 1, "to", "self");
    const ct_tensor *like = ct_lua_to_tensor(L, 2);
    if (like)
        return cast_to(L, like->dtype, "to");
    ct_lua_spread_options(L, 2, "to", options);
    return cast_to(L, ct_lua_dtype(L, 2, "to", "dtype"), "to");
}

static const struct {
    const char *name;
    ct_dtype dtype;
} casts[] = {
    {"float", CT_FLOAT32}, {"double", CT_FLOAT64}, {"long", CT_INT64},        {"int", CT_INT32},
    {"bool", CT_BOOL},     {"half", CT_FLOAT16},   {"bfloat16", CT_BFLOAT16},
};

static int cast(lua_State *L) {
    int i = (int)lua_tointeger(L, lua_upvalueindex(1));
    return cast_to(L, casts[i].dtype, casts[i].name);
}

void ct_open_shape(lua_State *L, int core, int methods) {
    static const luaL_Reg method_functions[] = {
        {"reshape", reshape},
        {"view", view},
        {"flatten", flatten},
        {"permute", permute},
        {"transpose", transpose},
        {"t", t},
        {"squeeze", squeeze},
        {"unsqueeze", unsqueeze},
        {"expand", expand},
        {"broadcast_to", broadcast_to},
        {"expand_as", expand_as},
        {"flip", flip},
        {"narrow", narrow},
        {"slice", slice},
        {"select", select_position},
        {"diagonal", diagonal},
        {"contiguous", contiguous},
        {"is_contiguous", is_contiguous},
        {"clone", clone},
        {"to", to},
        {NULL, NULL},
    };
    (void)core;
    ct_lua_add(L, methods, method_functions);
    for (size_t i = 0; i < sizeof casts / sizeof *casts; i++) {
        lua_pushinteger(L, (lua_Integer)i);
        lua_pushcclosure(L, cast, 1);
        lua_setfield(L, methods, casts[i].name);
    }
}
