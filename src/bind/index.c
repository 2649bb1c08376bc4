/* index.c: t[i], t[{...}], t[mask] and assignment to them. In a list, a number takes one position
 * and drops its dimension, {first, last} or {first, last, step} a range (both ends belong to it),
 * {} a whole dimension, and one tensor of integers the positions it holds (data, so they count from
 * 0). All but tensors give views. */
#include "base/error.h"
#include "bind/bind.h"
#include "eager/eager.h" // defines: ct_eager_nonzero

typedef struct selection {
    ct_view view;
    ct_tensor *tensor; /* of integers or bool, along `axis` of the view, or NULL */
    int axis;
} selection;

/* A bound of a range, from 0; `low` is the least that is allowed, counted from 1. */
static int64_t bound(lua_State *L, const char *function, int axis, int64_t value, int64_t low,
                     int64_t high, int64_t extent, const char *name) {
    int64_t position = value < 0 ? value + extent + 1 : value;
    if (value == 0 && low > 0)
        ct_lua_raise(L, function, "the range of dimension %d has %s 0, but positions count from 1",
                     axis + 1, name);
    if (position < low || position > high)
        ct_lua_raise(L, function, "the range of dimension %d has %s %lld, but the extent is %lld",
                     axis + 1, name, (long long)value, (long long)extent);
    return position;
}

void ct_lua_slice_view(lua_State *L, const char *function, const ct_view *view, int axis,
                       int64_t first, int64_t last, int64_t step, ct_view *result) {
    int64_t extent = view->shape.dim[axis], count = 0;
    if (step == 0)
        ct_lua_raise(L, function, "the range of dimension %d has step 0", axis + 1);
    if (step > 0) {
        first = bound(L, function, axis, first, 1, extent + 1, extent, "the first position");
        last = bound(L, function, axis, last, 0, extent, extent, "the last position");
        if (last >= first)
            count = (last - first) / step + 1;
    } else {
        first = bound(L, function, axis, first, 1, extent, extent, "the first position");
        last = bound(L, function, axis, last, 1, extent, extent, "the last position");
        if (first >= last)
            count = (first - last) / -step + 1;
    }
    *result = ct_view_slice(view, axis, count ? first - 1 : 0, count, step);
}

static void take_position(lua_State *L, int index, selection *s, int axis, int said) {
    int64_t extent = s->view.shape.dim[axis], i = ct_lua_integer(L, index, "index", "position");
    if (i == 0)
        ct_lua_raise(
            L, "index",
            "position 0 in dimension %d, but positions count from 1 (or from the end: -1 is the "
            "last)",
            said);
    if (i < -extent || i > extent)
        ct_lua_raise(L, "index", "position %lld in dimension %d, but the extent is %lld",
                     (long long)i, said, (long long)extent);
    s->view = ct_view_slice(&s->view, axis, i > 0 ? i - 1 : i + extent, 1, 1);
    s->view = ct_view_drop(&s->view, axis);
}

static void take_range(lua_State *L, int index, selection *s, int axis) {
    int64_t part[3] = {1, -1, 1};
    size_t n = lua_rawlen(L, index);
    if (n == 0 && !ct_lua_is_options(L, index))
        return;
    if (n != 2 && n != 3)
        ct_lua_raise(
            L, "index",
            "a range is {first, last} or {first, last, step}, or {} for all; got a table of %d",
            (int)n);
    for (size_t i = 0; i < n; i++) {
        lua_rawgeti(L, index, (int)i + 1);
        part[i] = ct_lua_integer(L, -1, "index", i == 0 ? "first" : i == 1 ? "last" : "step");
        lua_pop(L, 1);
    }
    ct_lua_slice_view(L, "index", &s->view, axis, part[0], part[1], part[2], &s->view);
}

static void take_tensor(lua_State *L, ct_tensor *tensor, selection *s, int axis) {
    if (s->tensor)
        ct_lua_raise(L, "index", "one tensor at a time can be an index");
    if (tensor->dtype != CT_BOOL && !ct_dtype_is_int(tensor->dtype))
        ct_lua_raise(L, "index", "an index tensor holds integers or booleans, not %s",
                     ct_dtype_name(tensor->dtype));
    s->tensor = tensor;
    s->axis = axis;
}

static void read_list(lua_State *L, int index, selection *s) {
    char text[CT_LUA_TEXT];
    int n = (int)lua_rawlen(L, index), axis = 0;
    if (n > s->view.shape.ndim)
        ct_lua_raise(L, "index", "%d entries for %d dimensions", n, s->view.shape.ndim);
    for (int i = 1; i <= n; i++) {
        lua_rawgeti(L, index, i);
        int entry = lua_gettop(L);
        ct_tensor *tensor = ct_lua_to_tensor(L, entry);
        if (tensor)
            take_tensor(L, tensor, s, axis++);
        else if (lua_istable(L, entry))
            take_range(L, entry, s, axis++);
        else if (lua_type(L, entry) == LUA_TNUMBER)
            take_position(L, entry, s, axis, i);
        else
            ct_lua_raise(L, "index", "entry %d must be a position, a range, {} or a tensor, got %s",
                         i, ct_lua_describe(L, entry, text));
        lua_pop(L, 1);
    }
}

static void read_key(lua_State *L, const ct_tensor *self, selection *s) {
    char text[CT_LUA_TEXT];
    *s = (selection){.view = self->view};
    ct_tensor *tensor = ct_lua_to_tensor(L, 2);
    if (tensor)
        take_tensor(L, tensor, s, 0);
    else if (lua_istable(L, 2))
        read_list(L, 2, s);
    else if (lua_type(L, 2) != LUA_TNUMBER)
        ct_lua_raise(L, "index", "a tensor is indexed by a number, a list or a tensor, not by %s",
                     ct_lua_describe(L, 2, text));
    else if (self->view.shape.ndim == 0)
        ct_lua_raise(L, "index", "a 0-d tensor has no positions; its number is t:item()");
    else
        take_position(L, 2, s, 0, 1);
    if (s->tensor && s->view.shape.ndim == 0)
        ct_lua_raise(L, "index", "a 0-d tensor has no positions");
}

/* Entries of x along axis at the positions in the 1-d node `index`. */
static ct_node *select_rows(ct_builder *b, ct_node *x, int axis, ct_node *index) {
    if (!x || !index)
        return NULL;
    ct_shape line = {x->shape.ndim, {1, 1, 1, 1, 1, 1, 1, 1}}, full = x->shape;
    line.dim[axis] = full.dim[axis] = ct_shape_numel(&index->shape);
    return ct_gather(b, x, axis, ct_expand(b, ct_reshape(b, index, &line), &full));
}

/* The extents of `shape` with those of `part` in place of `count` dimensions from axis. */
static ct_status splice(const ct_shape *shape, int axis, int count, const ct_shape *part,
                        ct_shape *result, ct_error *error) {
    int64_t dims[3 * CT_MAX_DIMS];
    int n = 0;
    for (int d = 0; d < axis; d++)
        dims[n++] = shape->dim[d];
    for (int d = 0; d < part->ndim; d++)
        dims[n++] = part->dim[d];
    for (int d = axis + count; d < shape->ndim; d++)
        dims[n++] = shape->dim[d];
    return ct_shape_set(result, n, dims, error);
}

/* Positions of the true elements of a mask, in C order: reads the mask, so not in a trace. */
static ct_node *mask_positions(ct_lua_call *call, ct_tensor *mask) {
    ct_builder *b = &call->builder;
    ct_shape flat = {1, {ct_shape_numel(&mask->view.shape)}}, found = {1, {0}};
    ct_array array;
    ct_buffer *buffer = NULL;
    ct_node *line = ct_reshape(b, ct_lua_node(call, mask), &flat);
    if (!line || ct_node_value(line, &array, &call->error) != CT_OK ||
        ct_eager_nonzero(call->bind->runtime, &array, &buffer, &found.dim[0], &call->error) !=
            CT_OK)
        return NULL;
    ct_node *node = ct_node_data(call->bind->runtime, CT_INT64, &found, buffer, &call->error);
    ct_buffer_release(buffer);
    return ct_own(b, node);
}

static void check_mask(lua_State *L, const ct_tensor *mask, const ct_view *view, int axis) {
    char seen[CT_SHAPE_TEXT], due[CT_SHAPE_TEXT];
    const ct_shape *m = &mask->view.shape, *x = &view->shape;
    bool fits = m->ndim >= 1 && axis + m->ndim <= x->ndim;
    for (int d = 0; fits && d < m->ndim; d++)
        fits = m->dim[d] == x->dim[axis + d];
    if (!fits)
        ct_lua_raise(
            L, "index",
            "a mask of shape %s does not lie on the dimensions from %d on of a tensor of shape %s",
            ct_shape_text(m, seen), axis + 1, ct_shape_text(x, due));
}

static ct_node *read_by_tensor(ct_lua_call *call, ct_tensor *part, const selection *s) {
    ct_builder *b = &call->builder;
    const ct_shape *extents = &s->tensor->view.shape;
    ct_node *x = ct_lua_node(call, part), *index;
    ct_shape shape, flat = {1, {ct_shape_numel(extents)}};
    if (!x)
        return NULL;
    if (s->tensor->dtype == CT_BOOL) {
        index = mask_positions(call, s->tensor);
        if (splice(&x->shape, s->axis, extents->ndim, &flat, &shape, &call->error) != CT_OK)
            return NULL;
        return select_rows(b, ct_reshape(b, x, &shape), s->axis, index);
    }
    index = ct_cast(b, ct_reshape(b, ct_lua_node(call, s->tensor), &flat), CT_INT64);
    if (splice(&x->shape, s->axis, 1, extents, &shape, &call->error) != CT_OK)
        return NULL;
    return ct_reshape(b, select_rows(b, x, s->axis, index), &shape);
}

int ct_lua_index_read(lua_State *L) {
    selection s;
    ct_error error = {.status = CT_OK};
    ct_lua_call call;
    ct_tensor *self = ct_lua_tensor(L, 1, "index", "self");
    read_key(L, self, &s);
    ct_tensor **box = ct_lua_push_empty(L, ct_bind_of(L));
    ct_lua_result(L, box, ct_tensor_view(self, &s.view, &error), &error, "index");
    if (!s.tensor)
        return 1;
    if (s.tensor->dtype == CT_BOOL)
        check_mask(L, s.tensor, &s.view, s.axis);
    ct_lua_begin(&call, L, "index");
    return ct_lua_finish(&call, read_by_tensor(&call, *box, &s));
}

/* Elements under a mask become one value. */
static ct_node *masked(ct_lua_call *call, ct_tensor *part, const selection *s, ct_node *value) {
    ct_builder *b = &call->builder;
    ct_node *x = ct_lua_node(call, part), *mask = ct_lua_node(call, s->tensor);
    if (!x || !mask || !value)
        return NULL;
    ct_shape line = {x->shape.ndim, {1, 1, 1, 1, 1, 1, 1, 1}};
    for (int d = 0; d < mask->shape.ndim; d++)
        line.dim[s->axis + d] = mask->shape.dim[d];
    mask = ct_expand(b, ct_reshape(b, mask, &line), &x->shape);
    return ct_where(b, mask, ct_cast(b, value, x->dtype), x);
}

/* Position i of an index tensor, checked; -1 after an error. */
static int64_t row_at(const ct_array *index, int64_t i, int64_t extent, ct_error *error) {
    int64_t offset = 0, rest = i;
    for (int d = index->shape.ndim - 1; d >= 0; d--) {
        offset += rest % index->shape.dim[d] * index->stride[d];
        rest /= index->shape.dim[d];
    }
    const char *element = (const char *)index->data + offset * (int64_t)ct_dtype_size(index->dtype);
    int64_t row = ct_scalar_load(index->dtype, element).i;
    if (row >= 0 && row < extent)
        return row;
    ct_fail(error, CT_ERR_INDEX,
            "the index tensor holds %lld, but the extent is %lld (its data count from 0)",
            (long long)row, (long long)extent);
    return -1;
}

/* Writes a value over the rows that an index tensor names, one after the other: of equal rows the
 * last stays. All are checked first. Reads the index, so not in a trace. */
static bool write_rows(ct_lua_call *call, ct_tensor *part, const selection *s, ct_node *value) {
    ct_builder *b = &call->builder;
    ct_error *error = &call->error;
    const ct_shape *extents = &s->tensor->view.shape, *shape = &part->view.shape;
    int64_t n = ct_shape_numel(extents), extent = shape->dim[s->axis];
    ct_shape full, rows, flat = {1, {n}};
    ct_array index;
    if (!value || ct_tensor_array(s->tensor, &index, error) != CT_OK ||
        splice(shape, s->axis, 1, extents, &full, error) != CT_OK ||
        splice(shape, s->axis, 1, &flat, &rows, error) != CT_OK)
        return false;
    for (int64_t i = 0; i < n; i++)
        if (row_at(&index, i, extent, error) < 0)
            return false;
    ct_tensor *values = ct_tensor_new(ct_reshape(b, ct_expand(b, value, &full), &rows), error);
    bool ok = values != NULL;
    for (int64_t i = 0; ok && i < n; i++) {
        ct_view to = ct_view_slice(&part->view, s->axis, row_at(&index, i, extent, error), 1, 1);
        ct_view from = ct_view_slice(&values->view, s->axis, i, 1, 1);
        ct_tensor *target = ct_tensor_view(part, &to, error),
                  *source = ct_tensor_view(values, &from, error);
        ct_node *node = target && source ? ct_tensor_node(b, source) : NULL;
        ok = node && ct_tensor_write(b, target, node) == CT_OK;
        ct_tensor_free(target);
        ct_tensor_free(source);
    }
    ct_tensor_free(values);
    return ok;
}

static int kind(ct_dtype dtype) {
    return ct_dtype_is_float(dtype) ? 2 : ct_dtype_is_int(dtype) ? 1 : 0;
}

/* The value at stack index 3 as an operand; what the tensor cannot hold is refused. */
static void read_value(lua_State *L, const ct_tensor *self, ct_operand *value) {
    if (lua_istable(L, 3)) {
        ct_lua_push_converted(L, 3, "index", self->dtype);
        lua_replace(L, 3);
    }
    ct_lua_operand(L, 3, "index", "value", self, value);
    bool truth = self->dtype == CT_BOOL && !value->tensor && value->value.is_int &&
                 (value->value.i | 1) == 1;
    if (kind(value->dtype) > kind(self->dtype) && !truth)
        ct_lua_raise(L, "index", "a tensor of %s cannot hold %s; convert it first",
                     ct_dtype_name(self->dtype),
                     value->tensor             ? ct_dtype_name(value->dtype)
                     : kind(value->dtype) == 2 ? "a fraction"
                                               : "this number");
}

int ct_lua_index_write(lua_State *L) {
    selection s;
    ct_operand value;
    ct_error error = {.status = CT_OK};
    ct_lua_call call;
    ct_tensor *self = ct_lua_tensor(L, 1, "index", "self");
    read_key(L, self, &s);
    read_value(L, self, &value);
    if (s.tensor && s.tensor->dtype == CT_BOOL) {
        check_mask(L, s.tensor, &s.view, s.axis);
        if (value.tensor && ct_shape_numel(&value.tensor->view.shape) != 1)
            return ct_lua_raise(
                L, "index", "assignment through a mask takes one value; for several use ct.where");
    }
    ct_tensor **box = ct_lua_push_empty(L, ct_bind_of(L));
    ct_lua_result(L, box, ct_tensor_view(self, &s.view, &error), &error, "index");
    ct_lua_begin(&call, L, "index");
    static const ct_shape scalar = {0, {0}};
    ct_node *node = ct_operand_node(&call, &value);
    if (s.tensor && s.tensor->dtype != CT_BOOL) {
        ct_lua_end(&call, write_rows(&call, *box, &s, node));
        return 0;
    }
    if (s.tensor)
        node = masked(&call, *box, &s, ct_reshape(&call.builder, node, &scalar));
    ct_lua_end(&call, node && ct_tensor_write(&call.builder, *box, node) == CT_OK);
    return 0;
}

static int index_axis(lua_State *L, const char *function, const ct_tensor *tensor) {
    if (tensor->view.shape.ndim == 0)
        ct_lua_raise(L, function, "the tensor has no dimensions");
    return ct_lua_axis(L, 2, function, "dim", tensor->view.shape.ndim);
}

static ct_tensor *index_tensor(lua_State *L, int index, const char *function) {
    ct_tensor *tensor = ct_lua_tensor(L, index, function, "index");
    if (!ct_dtype_is_int(tensor->dtype))
        ct_lua_raise(L, function, "'index' must hold integers, not %s",
                     ct_dtype_name(tensor->dtype));
    return tensor;
}

static ct_node *index_node(ct_lua_call *call, ct_tensor *index) {
    ct_node *node = ct_lua_node(call, index);
    return index->dtype == CT_INT32 || index->dtype == CT_INT64
               ? node
               : ct_cast(&call->builder, node, CT_INT64);
}

/* gather(dim, index) */
static int gather(lua_State *L) {
    ct_lua_call call;
    ct_tensor *self = ct_lua_tensor(L, 1, "gather", "self");
    int axis = index_axis(L, "gather", self);
    ct_tensor *index = index_tensor(L, 3, "gather");
    ct_lua_begin(&call, L, "gather");
    ct_node *x = ct_lua_node(&call, self);
    return ct_lua_finish(&call, ct_gather(&call.builder, x, axis, index_node(&call, index)));
}

/* scatter_add(dim, index, source) */
static int scatter_add(lua_State *L) {
    ct_lua_call call;
    ct_tensor *self = ct_lua_tensor(L, 1, "scatter_add", "self");
    int axis = index_axis(L, "scatter_add", self);
    ct_tensor *index = index_tensor(L, 3, "scatter_add");
    ct_tensor *source = ct_lua_tensor(L, 4, "scatter_add", "source");
    ct_lua_begin(&call, L, "scatter_add");
    ct_node *x = ct_lua_node(&call, self), *y = ct_lua_node(&call, source);
    return ct_lua_finish(&call,
                         ct_scatter_add(&call.builder, x, axis, index_node(&call, index), y));
}

/* index_select(dim, index): entries along dim at the positions of a 1-d tensor */
static int index_select(lua_State *L) {
    ct_lua_call call;
    ct_tensor *self = ct_lua_tensor(L, 1, "index_select", "self");
    int axis = index_axis(L, "index_select", self);
    ct_tensor *index = index_tensor(L, 3, "index_select");
    if (index->view.shape.ndim > 1)
        return ct_lua_raise(L, "index_select", "'index' must have 1 dimension, not %d",
                            index->view.shape.ndim);
    ct_lua_begin(&call, L, "index_select");
    ct_node *x = ct_lua_node(&call, self);
    return ct_lua_finish(&call, select_rows(&call.builder, x, axis, index_node(&call, index)));
}

/* argsort(dim = -1, descending = false) */
static int argsort(lua_State *L) {
    static const char *const options[] = {"dim", "descending", NULL};
    ct_lua_call call;
    ct_tensor *self = ct_lua_tensor(L, 1, "argsort", "self");
    ct_lua_spread_options(L, 2, "argsort", options);
    static const ct_shape one = {1, {1}};
    const ct_shape *shape = &self->view.shape, *line = shape->ndim > 0 ? shape : &one;
    int axis = line->ndim - 1;
    if (!lua_isnil(L, 2))
        axis = ct_lua_axis(L, 2, "argsort", "dim", shape->ndim);
    bool descending = ct_lua_flag(L, 3, "argsort", "descending", false);
    ct_lua_begin(&call, L, "argsort");
    ct_builder *b = &call.builder;
    ct_node *x = ct_reshape(b, ct_lua_node(&call, self), line);
    return ct_lua_finish(&call, ct_reshape(b, ct_argsort(b, x, axis, descending), shape));
}

/* nonzero(): where elements are not zero, counting from 0: int64 (count, ndim) */
static int nonzero(lua_State *L) {
    ct_lua_call call;
    ct_array array;
    ct_buffer *buffer = NULL;
    int64_t count = 0;
    ct_tensor *self = ct_lua_tensor(L, 1, "nonzero", "self");
    ct_lua_begin(&call, L, "nonzero");
    ct_node *found = NULL;
    if (ct_tensor_array(self, &array, &call.error) == CT_OK &&
        ct_eager_nonzero(call.bind->runtime, &array, &buffer, &count, &call.error) == CT_OK) {
        ct_shape shape = {2, {count, array.shape.ndim}};
        found = ct_own(&call.builder,
                       ct_node_data(call.bind->runtime, CT_INT64, &shape, buffer, &call.error));
        ct_buffer_release(buffer);
    }
    return ct_lua_finish(&call, found);
}

void ct_open_index(lua_State *L, int core, int methods) {
    static const luaL_Reg method_functions[] = {
        {"gather", gather},   {"scatter_add", scatter_add}, {"index_select", index_select},
        {"argsort", argsort}, {"nonzero", nonzero},         {NULL, NULL},
    };
    (void)core;
    ct_lua_add(L, methods, method_functions);
}
