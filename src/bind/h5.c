/* h5.c: core.h5, HDF5 files for ctrain's Lua files (checkpoint.lua, data.lua). Names and attributes
 * are strings, datasets are tensors. `where` is the function that error messages name. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/error.h"
#include "bind/bind.h"
#include "io/h5.h"

static const char meta_key;

typedef struct h5_box {
    ct_h5 *file; /* NULL: closed */
    char where[32];
} h5_box;

static h5_box *to_file(lua_State *L) {
    h5_box *box = lua_touserdata(L, 1);
    bool is_file = false;
    if (box && lua_getmetatable(L, 1)) {
        lua_rawgetp(L, LUA_REGISTRYINDEX, &meta_key);
        is_file = lua_rawequal(L, -1, -2);
        lua_pop(L, 2);
    }
    if (!is_file)
        ct_lua_raise(L, "h5", "'self' must be an HDF5 file");
    if (!box->file)
        ct_lua_raise(L, box->where, "the file is closed");
    return box;
}

static const char *text_at(lua_State *L, int index, const char *where, const char *argument) {
    char text[CT_LUA_TEXT];
    if (lua_type(L, index) != LUA_TSTRING)
        ct_lua_raise(L, where, "'%s' must be a string, got %s", argument,
                     ct_lua_describe(L, index, text));
    size_t length;
    const char *s = lua_tolstring(L, index, &length);
    if (strlen(s) != length)
        ct_lua_raise(L, where, "'%s' contains a zero byte", argument);
    return s;
}

static int new_file(lua_State *L, ct_h5 *(*begin)(const char *, ct_error *)) {
    ct_error error = {.status = CT_OK};
    const char *where = lua_type(L, 2) == LUA_TSTRING ? lua_tostring(L, 2) : "h5";
    const char *path = text_at(L, 1, where, "path");
    h5_box *box = lua_newuserdatauv(L, sizeof *box, 0);
    box->file = NULL;
    snprintf(box->where, sizeof box->where, "%s", where);
    lua_rawgetp(L, LUA_REGISTRYINDEX, &meta_key);
    lua_setmetatable(L, -2);
    box->file = begin(path, &error);
    return box->file ? 1 : ct_lua_raise_error(L, where, &error);
}

/* h5.open(path, where) */
static int h5_open(lua_State *L) {
    return new_file(L, ct_h5_open);
}

/* h5.create(path, where) */
static int h5_create(lua_State *L) {
    return new_file(L, ct_h5_create);
}

static int file_close(lua_State *L) {
    h5_box *box = lua_touserdata(L, 1);
    if (box) {
        ct_h5_free(box->file);
        box->file = NULL;
    }
    return 0;
}

/* file:commit(): puts a new file in its place, and closes it */
static int file_commit(lua_State *L) {
    ct_error error = {.status = CT_OK};
    h5_box *box = to_file(L);
    ct_status status = ct_h5_commit(box->file, &error);
    ct_h5_free(box->file);
    box->file = NULL;
    return status == CT_OK ? 0 : ct_lua_raise_error(L, box->where, &error);
}

/* Writes the elements of a strided array in C order; a
 * constant that has no buffer has strides 0. */
static void pack(const ct_array *array, char *to) {
    int64_t index[CT_MAX_DIMS] = {0}, at = 0, size = (int64_t)ct_dtype_size(array->dtype);
    int ndim = array->shape.ndim;
    const char *from = array->data;
    for (int64_t left = ct_shape_numel(&array->shape); left > 0; left--, to += size) {
        memcpy(to, from + at * size, (size_t)size);
        for (int d = ndim - 1; d >= 0; d--) {
            at += array->stride[d];
            if (++index[d] < array->shape.dim[d])
                break;
            at -= array->stride[d] * index[d];
            index[d] = 0;
        }
    }
}

/* file:write(name, tensor) */
static int file_write(lua_State *L) {
    ct_error error = {.status = CT_OK};
    ct_array array;
    h5_box *box = to_file(L);
    const char *name = text_at(L, 2, box->where, "name");
    ct_tensor *tensor = ct_lua_tensor(L, 3, box->where, "tensor");
    ct_bind *bind = ct_bind_of(L);
    if (ct_tensor_array(tensor, &array, &error) != CT_OK)
        return ct_lua_raise_error(L, box->where, &error);
    ct_view view = {.shape = array.shape};
    memcpy(view.stride, array.stride, sizeof view.stride);
    ct_buffer *packed = NULL;
    if (!ct_view_is_contiguous(&view)) {
        packed = ct_buffer_new(bind->runtime->heap,
                               ct_shape_numel(&array.shape) * (int64_t)ct_dtype_size(array.dtype));
        if (!packed)
            return ct_lua_raise(L, box->where, "dataset '%.100s': memory is out", name);
        pack(&array, packed->data);
    }
    ct_status status = ct_h5_write(box->file, name, array.dtype, &array.shape,
                                   packed ? packed->data : array.data, &error);
    ct_buffer_release(packed);
    return status == CT_OK ? 0 : ct_lua_raise_error(L, box->where, &error);
}

/* Reads the dataset, or the block, into a new leaf. */
static ct_tensor *read_tensor(ct_bind *bind, ct_h5 *file, const char *name, const ct_h5_info *info,
                              const int64_t *start, const int64_t *count, ct_error *error) {
    ct_shape shape = info->shape;
    if (count)
        memcpy(shape.dim, count, sizeof *count * (size_t)shape.ndim);
    ct_buffer *buffer = ct_buffer_new(bind->runtime->heap,
                                      ct_shape_numel(&shape) * (int64_t)ct_dtype_size(info->dtype));
    if (!buffer) {
        char text[CT_SHAPE_TEXT];
        ct_fail(error, CT_ERR_MEMORY, "memory is out for dataset '%.200s' of shape %s", name,
                ct_shape_text(&shape, text));
        return NULL;
    }
    ct_tensor *tensor = NULL;
    if (ct_h5_read(file, name, start, count, buffer->data, error) == CT_OK) {
        ct_node *node = ct_node_data(bind->runtime, info->dtype, &shape, buffer, error);
        if (node)
            tensor = ct_tensor_new(node, error);
        ct_node_release(node);
    }
    ct_buffer_release(buffer);
    return tensor;
}

/* file:read(name), file:read(name, start, count): a block, start counting from 1 */
static int file_read(lua_State *L) {
    ct_error error = {.status = CT_OK};
    ct_h5_info info;
    int64_t start[CT_MAX_DIMS], count[CT_MAX_DIMS];
    int n_start, n_count;
    h5_box *box = to_file(L);
    const char *name = text_at(L, 2, box->where, "name");
    bool part = !lua_isnoneornil(L, 3);
    if (ct_h5_describe(box->file, name, &info, &error) != CT_OK)
        return ct_lua_raise_error(L, box->where, &error);
    if (part) {
        ct_lua_extents(L, 3, box->where, "start", start, &n_start);
        ct_lua_extents(L, 4, box->where, "count", count, &n_count);
        if (n_start != info.shape.ndim || n_count != info.shape.ndim)
            return ct_lua_raise(
                L, box->where, "dataset '%.100s' has %d dimensions; start and count have %d and %d",
                name, info.shape.ndim, n_start, n_count);
        for (int d = 0; d < n_start; d++) {
            start[d]--;
            if (start[d] < 0 || count[d] < 0 || start[d] > info.shape.dim[d] ||
                count[d] > info.shape.dim[d] - start[d])
                return ct_lua_raise(L, box->where,
                                    "dataset '%.100s': %lld elements from %lld of dimension %d "
                                    "leave its extent of %lld",
                                    name, (long long)count[d], (long long)start[d] + 1, d + 1,
                                    (long long)info.shape.dim[d]);
        }
    }
    ct_bind *bind = ct_bind_of(L);
    ct_tensor **result = ct_lua_push_empty(L, bind);
    ct_tensor *tensor =
        read_tensor(bind, box->file, name, &info, part ? start : NULL, part ? count : NULL, &error);
    return ct_lua_result(L, result, tensor, &error, box->where);
}

/* file:info(name): dtype, shape; or nil and the reason where no tensor can hold it */
static int file_info(lua_State *L) {
    ct_error error = {.status = CT_OK};
    ct_h5_info info;
    h5_box *box = to_file(L);
    const char *name = text_at(L, 2, box->where, "name");
    ct_status status = ct_h5_describe(box->file, name, &info, &error);
    if (status == CT_ERR_UNSUPPORTED) {
        lua_pushnil(L);
        lua_pushstring(L, error.message);
        return 2;
    }
    if (status != CT_OK)
        return ct_lua_raise_error(L, box->where, &error);
    lua_pushstring(L, ct_dtype_name(info.dtype));
    lua_createtable(L, info.shape.ndim, 0);
    for (int d = 0; d < info.shape.ndim; d++) {
        lua_pushinteger(L, (lua_Integer)info.shape.dim[d]);
        lua_rawseti(L, -2, d + 1);
    }
    return 2;
}

/* Names gathered while libhdf5 walks: nothing may call into Lua there. */
typedef struct name_list {
    char **names;
    size_t n, capacity;
    bool out_of_memory;
} name_list;

static bool add_name(void *context, const char *name) {
    name_list *list = context;
    if (list->n == list->capacity) {
        size_t capacity = list->capacity ? 2 * list->capacity : 64;
        char **names = ct_realloc(list->names, capacity * sizeof *names);
        if (!names) {
            list->out_of_memory = true;
            return false;
        }
        list->names = names;
        list->capacity = capacity;
    }
    list->names[list->n] = ct_strdup(name);
    list->out_of_memory = !list->names[list->n];
    list->n += !list->out_of_memory;
    return !list->out_of_memory;
}

/* argument 1: the name_list */
static int push_names(lua_State *L) {
    const name_list *list = lua_touserdata(L, 1);
    lua_createtable(L, (int)list->n, 0);
    for (size_t i = 0; i < list->n; i++) {
        lua_pushstring(L, list->names[i]);
        lua_rawseti(L, -2, (int)i + 1);
    }
    return 1;
}

static int finish_names(lua_State *L, const h5_box *box, name_list *list, ct_status status,
                        ct_error *error) {
    if (list->out_of_memory)
        status = ct_fail(error, CT_ERR_MEMORY, "memory is out");
    int problem = 0;
    if (status == CT_OK) { /* protected, for the names are to be freed */
        lua_pushcfunction(L, push_names);
        lua_pushlightuserdata(L, list);
        problem = lua_pcall(L, 1, 1, 0);
    }
    for (size_t i = 0; i < list->n; i++)
        free(list->names[i]);
    free(list->names);
    if (status != CT_OK)
        return ct_lua_raise_error(L, box->where, error);
    return problem ? lua_error(L) : 1;
}

/* file:datasets(): a list of names */
static int file_datasets(lua_State *L) {
    ct_error error = {.status = CT_OK};
    name_list list = {0};
    h5_box *box = to_file(L);
    ct_status status = ct_h5_each_dataset(box->file, add_name, &list, &error);
    return finish_names(L, box, &list, status, &error);
}

static const char *object_at(lua_State *L, int index, const h5_box *box) {
    return lua_isnil(L, index) ? NULL : text_at(L, index, box->where, "object");
}

/* file:attributes(object): a list of names; nil is the file itself */
static int file_attributes(lua_State *L) {
    ct_error error = {.status = CT_OK};
    name_list list = {0};
    lua_settop(L, 2);
    h5_box *box = to_file(L);
    const char *object = object_at(L, 2, box);
    ct_status status = ct_h5_each_attribute(box->file, object, add_name, &list, &error);
    return finish_names(L, box, &list, status, &error);
}

static int push_text(lua_State *L) {
    lua_pushstring(L, lua_touserdata(L, 1));
    return 1;
}

/* file:get(object, name): a string, number or boolean; nil where there is none */
static int file_get(lua_State *L) {
    ct_error error = {.status = CT_OK};
    ct_h5_value value;
    h5_box *box = to_file(L);
    const char *object = object_at(L, 2, box), *name = text_at(L, 3, box->where, "name");
    if (ct_h5_get(box->file, object, name, &value, &error) != CT_OK)
        return ct_lua_raise_error(L, box->where, &error);
    int problem = 0;
    switch (value.kind) {
    case CT_H5_STRING:
        lua_pushcfunction(L, push_text);
        lua_pushlightuserdata(L, value.text);
        problem = lua_pcall(L, 1, 1, 0);
        free(value.text);
        break;
    case CT_H5_INT: lua_pushinteger(L, (lua_Integer)value.i); break;
    case CT_H5_FLOAT: lua_pushnumber(L, value.f); break;
    case CT_H5_BOOL: lua_pushboolean(L, value.i != 0); break;
    default: lua_pushnil(L); break;
    }
    return problem ? lua_error(L) : 1;
}

/* file:set(object, name, value): a string, a boolean, a number
 * (float64), or a list of one string */
static int file_set(lua_State *L) {
    ct_error error = {.status = CT_OK};
    h5_box *box = to_file(L);
    const char *object = object_at(L, 2, box), *name = text_at(L, 3, box->where, "name");
    ct_status status = CT_OK;
    switch (lua_type(L, 4)) {
    case LUA_TSTRING:
        status =
            ct_h5_set_string(box->file, object, name, text_at(L, 4, box->where, "value"), &error);
        break;
    case LUA_TNUMBER:
        status = ct_h5_set_float(box->file, object, name, lua_tonumber(L, 4), &error);
        break;
    case LUA_TBOOLEAN:
        status = ct_h5_set_bool(box->file, object, name, lua_toboolean(L, 4), &error);
        break;
    case LUA_TTABLE:
        lua_rawgeti(L, 4, 1);
        status =
            ct_h5_set_strings(box->file, object, name, text_at(L, -1, box->where, "value"), &error);
        break;
    default:
        return ct_lua_raise(L, box->where, "the attribute '%.100s' cannot be a %s", name,
                            luaL_typename(L, 4));
    }
    return status == CT_OK ? 0 : ct_lua_raise_error(L, box->where, &error);
}

/* file:set_shapes(object, name, shape): a list of one shape */
static int file_set_shapes(lua_State *L) {
    ct_error error = {.status = CT_OK};
    ct_shape shape;
    h5_box *box = to_file(L);
    const char *object = object_at(L, 2, box), *name = text_at(L, 3, box->where, "name");
    ct_lua_shape(L, 4, box->where, &shape);
    if (ct_h5_set_shapes(box->file, object, name, &shape, &error) != CT_OK)
        return ct_lua_raise_error(L, box->where, &error);
    return 0;
}

/* h5.identity(tensor): a text that two tensors share where they are the same elements of the same
 * cell */
static int identity(lua_State *L) {
    const ct_tensor *tensor = ct_lua_tensor(L, 1, "h5.identity", "tensor");
    char text[512];
    int n = snprintf(text, sizeof text, "%p", (void *)tensor->cell);
    if (!tensor->whole) {
        n += snprintf(text + n, sizeof text - (size_t)n, "+%lld", (long long)tensor->view.offset);
        for (int d = 0; d < tensor->view.shape.ndim; d++)
            n += snprintf(text + n, sizeof text - (size_t)n, ",%lld:%lld",
                          (long long)tensor->view.shape.dim[d], (long long)tensor->view.stride[d]);
    }
    lua_pushlstring(L, text, (size_t)n);
    return 1;
}

void ct_open_h5(lua_State *L, int core, int methods) {
    static const luaL_Reg functions[] = {
        {"open", h5_open}, {"create", h5_create}, {"identity", identity}, {NULL, NULL}};
    static const luaL_Reg file_methods[] = {
        {"close", file_close},
        {"commit", file_commit},
        {"write", file_write},
        {"read", file_read},
        {"info", file_info},
        {"datasets", file_datasets},
        {"get", file_get},
        {"set", file_set},
        {"set_shapes", file_set_shapes},
        {"attributes", file_attributes},
        {"__gc", file_close},
        {NULL, NULL},
    };
    (void)methods;
    lua_newtable(L);
    ct_lua_add(L, lua_gettop(L), file_methods);
    lua_pushvalue(L, -1);
    lua_setfield(L, -2, "__index");
    lua_rawsetp(L, LUA_REGISTRYINDEX, &meta_key);
    lua_newtable(L);
    ct_lua_add(L, lua_gettop(L), functions);
    lua_setfield(L, core, "h5");
}
