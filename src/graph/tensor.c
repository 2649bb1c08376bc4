/* tensor.c: cells, tensors, and writing as the making of versions. */
#include "graph/tensor.h"

#include <stdlib.h>
#include <string.h>

#include "base/error.h"
#include "graph/trace.h"

/* ---- cells ---- */

static void free_if_unused(ct_cell *cell) {
    if (cell->refs > 0 || cell->weak > 0)
        return;
    ct_runtime *runtime = cell->runtime;
    free(cell);
    ct_runtime_drop(runtime);
}

ct_cell *ct_cell_retain(ct_cell *cell) {
    cell->refs++;
    return cell;
}

void ct_cell_release(ct_cell *cell) {
    if (!cell || --cell->refs > 0)
        return;
    ct_node *version = cell->version;
    ct_tensor *grad = cell->grad;
    cell->version = NULL;
    cell->grad = NULL;
    cell->weak++; /* stays in one piece while its version lets go of it */
    ct_node_release(version);
    ct_tensor_free(grad);
    ct_cell_release_weak(cell);
}

void ct_cell_release_weak(ct_cell *cell) {
    cell->weak--;
    free_if_unused(cell);
}

static void mark_leaf(ct_cell *cell, ct_node *node) {
    node->requires_grad = true;
    if (!node->leaf) {
        node->leaf = cell;
        cell->weak++;
    }
}

static ct_cell *cell_new(ct_node *version, ct_error *error) {
    ct_cell *cell = ct_calloc(1, sizeof *cell);
    if (!cell) {
        ct_fail(error, CT_ERR_MEMORY, "out of memory for a tensor");
        return NULL;
    }
    cell->refs = 1;
    cell->runtime = ct_runtime_hold(version->runtime);
    cell->version = ct_node_retain(version);
    version->versioned = true;
    return cell;
}

ct_status ct_cell_install(ct_cell *cell, ct_node *node, ct_error *error) {
    ct_node *old = cell->version;
    ct_buffer *home = old ? old->buffer : NULL;
    if (home && home->pinned && node->buffer != home && !node->trace) {
        ct_status status = ct_node_materialize(node, error);
        if (status != CT_OK)
            return status;
        if (old->refs > 1) {
            ct_buffer *copy = ct_buffer_new(cell->runtime->heap, home->bytes);
            if (!copy)
                return ct_fail(error, CT_ERR_MEMORY,
                               "out of memory for a copy of %lld bytes that earlier readers keep",
                               (long long)home->bytes);
            memcpy(copy->data, home->data, (size_t)home->bytes);
            old->buffer = copy;
        } else {
            ct_buffer_retain(home);
        }
        memcpy(home->data, node->buffer->data, (size_t)home->bytes);
        ct_buffer_release(node->buffer);
        node->buffer = home;
    }
    if (cell->requires_grad)
        mark_leaf(cell, node);
    cell->version = ct_node_retain(node);
    node->versioned = true;
    ct_node_release(old);
    return CT_OK;
}

ct_tensor *ct_cell_grad(ct_cell *cell) {
    ct_trace *trace = cell->runtime->trace;
    ct_trace_state *state = NULL;
    if (trace && ct_trace_touch(trace, cell, &state, NULL) == CT_OK && state && !state->grad_set) {
        state->grad_read = true;
        state->grad_was = cell->grad != NULL;
    }
    return cell->grad;
}

ct_status ct_cell_set_grad(ct_cell *cell, ct_tensor *grad, ct_error *error) {
    ct_trace *trace = cell->runtime->trace;
    ct_trace_state *state = NULL;
    if (trace) {
        ct_status status = ct_trace_touch(trace, cell, &state, error);
        if (status != CT_OK)
            return status;
        if (state)
            state->grad_set = true;
    }
    ct_tensor *old = cell->grad;
    cell->grad = grad ? ct_tensor_retain(grad) : NULL;
    ct_tensor_free(old);
    return CT_OK;
}

/* ---- tensors ---- */

static ct_tensor *tensor_of(ct_cell *cell, const ct_view *view, ct_error *error) {
    ct_tensor *tensor = ct_calloc(1, sizeof *tensor);
    if (!tensor) {
        ct_fail(error, CT_ERR_MEMORY, "out of memory for a tensor");
        return NULL;
    }
    tensor->refs = 1;
    tensor->cell = cell;
    tensor->dtype = cell->version->dtype;
    tensor->view = *view;
    tensor->whole = ct_view_is_whole(view) && ct_shape_equal(&view->shape, &cell->version->shape);
    return tensor;
}

/* A tensor over a new cell that takes `base`, not yet any cell's, as its version. */
static ct_tensor *adopt(ct_node *base, const ct_view *view, ct_error *error) {
    ct_cell *cell = cell_new(base, error);
    ct_tensor *tensor = cell ? tensor_of(cell, view, error) : NULL;
    if (!tensor)
        ct_cell_release(cell);
    return tensor;
}

ct_tensor *ct_tensor_new(ct_node *node, ct_error *error) {
    if (!node)
        return NULL;
    ct_view view = ct_view_whole(&node->shape);
    ct_node *base = node;
    if (node->op == CT_VIEW) {
        base = node->sources[0];
        view = node->attr.view;
    }
    if (!base->versioned && base->requires_grad == node->requires_grad &&
        !ct_view_overlaps_itself(&view))
        return adopt(base, &view, error);
    view = ct_view_whole(&node->shape);
    ct_builder b;
    ct_builder_begin(&b, node->runtime, error);
    ct_node *copy;
    if (base->op == CT_CONST && !base->buffer && !node->requires_grad)
        copy =
            ct_constant(&b, base->dtype, &node->shape, ct_scalar_load(base->dtype, &base->element));
    else
        copy = ct_own(&b, ct_record(node->runtime, CT_COPY, &node, 1, NULL, &node->shape, error));
    ct_tensor *tensor = copy ? adopt(copy, &view, error) : NULL;
    ct_builder_end(&b);
    return tensor;
}

ct_tensor *ct_tensor_view(ct_tensor *tensor, const ct_view *view, ct_error *error) {
    ct_tensor *result = tensor_of(tensor->cell, view, error);
    if (result) {
        ct_cell_retain(tensor->cell);
        result->detached = tensor->detached;
    }
    return result;
}

ct_tensor *ct_tensor_detach(ct_tensor *tensor, ct_error *error) {
    ct_tensor *result = ct_tensor_view(tensor, &tensor->view, error);
    if (result)
        result->detached = true;
    return result;
}

ct_tensor *ct_tensor_retain(ct_tensor *tensor) {
    tensor->refs++;
    return tensor;
}

void ct_tensor_free(ct_tensor *tensor) {
    if (!tensor || --tensor->refs > 0)
        return;
    ct_cell_release(tensor->cell);
    free(tensor);
}

ct_node *ct_tensor_node(ct_builder *b, ct_tensor *tensor) {
    ct_cell *cell = tensor->cell;
    ct_trace *trace = b->runtime->trace;
    ct_trace_state *state;
    if (trace && ct_trace_touch(trace, cell, &state, b->error) != CT_OK)
        return NULL;
    ct_node *node = ct_own(b, ct_node_retain(cell->version));
    if (node && !tensor->whole)
        node = ct_view_of(b, node, &tensor->view);
    return tensor->detached ? ct_detach(b, node) : node;
}

/* Whether a version can be made of the node as it is: it is nobody's yet, and has elements of its
 * own. */
static bool is_fresh(const ct_node *node) {
    return node->op != CT_VIEW && node->op != CT_INPUT && node->op != CT_STATE && !node->versioned;
}

ct_status ct_tensor_write(ct_builder *b, ct_tensor *tensor, ct_node *value) {
    ct_cell *cell = tensor->cell;
    ct_runtime *runtime = cell->runtime;
    ct_trace_state *state;
    if (!value)
        return b->error->status;
    if (ct_view_overlaps_itself(&tensor->view))
        return ct_fail(b->error, CT_ERR_ARGUMENT,
                       "in-place write to an expanded view: several of its elements are one place "
                       "in memory; write to "
                       "the tensor it was made from, or to a clone()");
    if (cell->requires_grad && runtime->no_grad == 0)
        return ct_fail(b->error, CT_ERR_STATE,
                       "in-place write to a leaf that requires grad; wrap updates of parameters in "
                       "ct.no_grad(function() "
                       "... end), or write to its detach()");
    if (runtime->trace && ct_trace_touch(runtime->trace, cell, &state, b->error) != CT_OK)
        return b->error->status;
    value = ct_cast(b, value, tensor->dtype);
    if (value && !ct_shape_equal(&value->shape, &tensor->view.shape)) {
        char from[CT_SHAPE_TEXT], to[CT_SHAPE_TEXT];
        ct_shape target = tensor->view.shape, given = value->shape;
        value = ct_expand(b, value, &target);
        if (!value && b->error->status == CT_ERR_SHAPE)
            return ct_fail(b->error, CT_ERR_SHAPE,
                           "in-place write: a value of shape %s does not broadcast to %s",
                           ct_shape_text(&given, from), ct_shape_text(&target, to));
    }
    if (value && tensor->whole && !is_fresh(value)) {
        if (value->op == CT_VIEW && value->sources[0]->op == CT_CONST && !value->sources[0]->buffer)
            value = ct_constant(b, value->dtype, &value->shape,
                                ct_scalar_load(value->dtype, &value->sources[0]->element));
        else
            value =
                ct_own(b, ct_record(runtime, CT_COPY, &value, 1, NULL, &value->shape, b->error));
    }
    if (!value)
        return b->error->status;
    ct_node_retain(value);
    ct_builder_end(b);
    ct_node *next = ct_own(b, value);
    if (next && !tensor->whole)
        next = ct_update_in_place(b, cell->version, &tensor->view, next);
    return next ? ct_cell_install(cell, next, b->error) : b->error->status;
}

/* The tensor leaves its cell for one of its own, with the elements it shows now. */
static ct_status part_from_cell(ct_tensor *tensor, ct_error *error) {
    ct_builder b;
    ct_builder_begin(&b, tensor->cell->runtime, error);
    ct_tensor *own = ct_tensor_new(ct_detach(&b, ct_tensor_node(&b, tensor)), b.error);
    ct_status status = own ? CT_OK : b.error->status;
    ct_builder_end(&b);
    if (own) {
        ct_cell *shared = tensor->cell;
        tensor->cell = own->cell;
        tensor->view = own->view;
        tensor->whole = own->whole;
        tensor->detached = false;
        own->cell = shared;
        ct_tensor_free(own);
    }
    return status;
}

ct_status ct_tensor_require_grad(ct_tensor *tensor, bool requires_grad, ct_error *error) {
    bool part = !tensor->whole || tensor->detached;
    if (requires_grad && part && ct_dtype_is_float(tensor->dtype) &&
        !ct_tensor_requires_grad(tensor)) {
        ct_status status = part_from_cell(tensor, error);
        if (status != CT_OK)
            return status;
    }
    ct_cell *cell = tensor->cell;
    ct_node *version = cell->version;
    if (cell->requires_grad == requires_grad && !version->requires_grad == !requires_grad)
        return CT_OK;
    if (version->requires_grad && !version->leaf)
        return ct_fail(
            error, CT_ERR_STATE,
            "requires_grad of a computed tensor can't be changed (it is not a leaf); use detach()");
    if (requires_grad && !ct_dtype_is_float(tensor->dtype))
        return ct_fail(error, CT_ERR_DTYPE,
                       "requires_grad: a %s tensor has no gradient; a floating type was expected",
                       ct_dtype_name(tensor->dtype));
    cell->requires_grad = requires_grad;
    if (requires_grad) {
        mark_leaf(cell, version);
    } else {
        version->requires_grad = false;
        if (version->leaf) {
            version->leaf = NULL;
            ct_cell_release_weak(cell);
        }
    }
    return CT_OK;
}

bool ct_tensor_requires_grad(const ct_tensor *tensor) {
    return tensor->cell->version->requires_grad && !tensor->detached;
}

bool ct_tensor_is_leaf(const ct_tensor *tensor) {
    const ct_node *version = tensor->cell->version;
    return tensor->detached || !version->requires_grad || (version->leaf && tensor->whole);
}

ct_status ct_tensor_array(ct_tensor *tensor, ct_array *array, ct_error *error) {
    ct_node *version = tensor->cell->version;
    ct_array base;
    ct_status status = ct_node_value(version, &base, error);
    if (status != CT_OK)
        return status;
    if (version->op == CT_CONST && !version->buffer) {
        *array = base;
        array->shape = tensor->view.shape;
    } else {
        *array = ct_array_through(&base, &tensor->view);
    }
    return CT_OK;
}

/* ---- the public part (ctrain.h) ---- */

ct_dtype ct_tensor_dtype(const ct_tensor *tensor) {
    return tensor->dtype;
}

int ct_tensor_ndim(const ct_tensor *tensor) {
    return tensor->view.shape.ndim;
}

const int64_t *ct_tensor_shape(const ct_tensor *tensor) {
    return tensor->view.shape.dim;
}

const int64_t *ct_tensor_strides(const ct_tensor *tensor) {
    return tensor->view.stride;
}

int64_t ct_tensor_numel(const ct_tensor *tensor) {
    return ct_shape_numel(&tensor->view.shape);
}

void *ct_tensor_data(ct_tensor *tensor, ct_error *error) {
    ct_node *version = tensor->cell->version;
    if (ct_node_materialize(version, error) != CT_OK)
        return NULL;
    version->buffer->pinned = true;
    return (char *)version->buffer->data +
           tensor->view.offset * (int64_t)ct_dtype_size(tensor->dtype);
}

ct_status ct_tensor_item(ct_tensor *tensor, double *value, ct_error *error) {
    char text[CT_SHAPE_TEXT];
    if (ct_tensor_numel(tensor) != 1)
        return ct_fail(error, CT_ERR_SHAPE,
                       "item: a tensor of shape %s has %lld elements; exactly one was expected",
                       ct_shape_text(&tensor->view.shape, text),
                       (long long)ct_tensor_numel(tensor));
    ct_array array;
    ct_status status = ct_tensor_array(tensor, &array, error);
    if (status == CT_OK)
        *value = ct_scalar_load(array.dtype, array.data).f;
    return status;
}

ct_tensor *ct_tensor_full(ct_runtime *runtime, ct_dtype dtype, int ndim, const int64_t *dims,
                          double value, ct_error *error) {
    ct_shape shape;
    if (ct_shape_set(&shape, ndim, dims, error) != CT_OK)
        return NULL;
    ct_builder b;
    ct_builder_begin(&b, runtime, error);
    ct_tensor *tensor =
        ct_tensor_new(ct_constant(&b, dtype, &shape, ct_scalar_float(value)), error);
    ct_builder_end(&b);
    return tensor;
}

/* A tensor over memory: the base is the run of elements that the strides reach, the tensor a view
 * of it. */
ct_tensor *ct_tensor_wrap(ct_runtime *runtime, ct_dtype dtype, int ndim, const int64_t *dims,
                          const int64_t *strides, void *data, void (*release)(void *context),
                          void *context, ct_error *error) {
    ct_shape shape;
    if (ct_shape_set(&shape, ndim, dims, error) != CT_OK)
        return NULL;
    if ((unsigned)dtype >= CT_DTYPES) {
        ct_fail(error, CT_ERR_DTYPE, "no element type has number %d", (int)dtype);
        return NULL;
    }
    ct_view view = ct_view_whole(&shape);
    int64_t low = 0, high = 0;
    for (int d = 0; d < ndim; d++) {
        if (strides)
            view.stride[d] = strides[d];
        int64_t reach = shape.dim[d] > 0 ? view.stride[d] * (shape.dim[d] - 1) : 0;
        *(reach < 0 ? &low : &high) += reach;
    }
    int64_t count = ct_shape_numel(&shape) > 0 ? high - low + 1 : 0;
    bool whole = !strides || ct_view_is_contiguous(&view);
    ct_shape flat = {1, {count}};
    view.offset = -low;
    size_t size = ct_dtype_size(dtype);
    ct_buffer *buffer =
        ct_buffer_wrap((char *)data + low * (int64_t)size, count * (int64_t)size, release, context);
    if (!buffer) {
        ct_fail(error, CT_ERR_MEMORY, "out of memory for a tensor");
        return NULL;
    }
    ct_node *node = ct_node_data(runtime, dtype, whole ? &shape : &flat, buffer, error);
    if (node && whole)
        view = ct_view_whole(&shape);
    ct_tensor *tensor = node ? adopt(node, &view, error) : NULL;
    if (!tensor)
        buffer->release = NULL; /* after an error the memory is still the caller's */
    ct_node_release(node);
    ct_buffer_release(buffer);
    return tensor;
}

ct_tensor *ct_tensor_copy(ct_runtime *runtime, ct_dtype dtype, int ndim, const int64_t *dims,
                          const int64_t *strides, const void *data, ct_error *error) {
    ct_tensor *outside = ct_tensor_wrap(runtime, dtype, ndim, dims, strides,
                                        (void *)(uintptr_t)data, NULL, NULL, error);
    if (!outside)
        return NULL;
    ct_trace *trace =
        runtime->trace; /* data is data, inside a trace too: it becomes state of it when read */
    runtime->trace = NULL;
    ct_builder b;
    ct_builder_begin(&b, runtime, error);
    ct_node *node = ct_tensor_node(&b, outside);
    node =
        node ? ct_own(&b, ct_record(runtime, CT_COPY, &node, 1, NULL, &outside->view.shape, error))
             : NULL;
    ct_tensor *tensor = ct_tensor_new(node, error);
    ct_builder_end(&b);
    runtime->trace = trace;
    ct_tensor_free(outside);
    return tensor;
}
