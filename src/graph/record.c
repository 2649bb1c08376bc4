/* record.c: the life of a node: making it, running it where no trace records, its value, its
 * release. */
#include <stdlib.h>
#include <string.h>

#include "base/error.h"
#include "graph/node.h"
#include "graph/tensor.h"
#include "graph/trace.h"

/* The text of an expression; NULL for CT_NONE, whose comma moves the text away. */
#define CT_NONE 0, NULL
#define CT_TEXT(...) CT_SECOND(__VA_ARGS__)
#define CT_SECOND(first, second, ...) second

const ct_op_info ct_op_table[CT_OPS] = {
#define CT_OP(NAME, name, sources, class, accepts, result, f, i)                                   \
    {name, sources, CT_CLASS_##class, #accepts, #result, CT_TEXT(f, #f, ), CT_TEXT(i, #i, )},
#include "graph/ops.def"
#undef CT_OP
};

bool ct_op_is_costly(ct_op op) {
    switch (op) {
    case CT_EXP:
    case CT_LOG:
    case CT_LOG1P:
    case CT_EXPM1:
    case CT_SIN:
    case CT_COS:
    case CT_TANH:
    case CT_SIGMOID:
    case CT_ERF:
    case CT_POW:
    case CT_MOD:
    case CT_FLOORDIV: return true;
    default: return false;
    }
}

ct_node *ct_node_retain(ct_node *node) {
    node->refs++;
    return node;
}

static void release_custom(ct_custom *custom) {
    if (custom && --custom->refs == 0) {
        if (custom->release)
            custom->release(custom->context);
        free(custom);
    }
}

void ct_node_release(ct_node *node) {
    /* Chains may be millions of nodes long: what is to be freed waits in a list, so nothing
     * recurses. */
    ct_node *waiting = NULL;
    if (!node || --node->refs > 0)
        return;
    for (;;) {
        for (int i = 0; i < node->n_sources; i++) {
            ct_node *source = node->sources[i];
            if (!source || --source->refs > 0)
                continue;
            source->next_released = waiting;
            waiting = source;
        }
        if (node->sources != node->inline_sources)
            free(node->sources);
        ct_buffer_release(node->buffer);
        release_custom(node->attr.custom);
        if (node->leaf)
            ct_cell_release_weak(node->leaf);
        ct_runtime *runtime = node->runtime;
        free(node);
        ct_runtime_drop(runtime);
        if (!waiting)
            return;
        node = waiting;
        waiting = node->next_released;
    }
}

static bool accepted(const char *accepts, ct_dtype dtype) {
    switch (accepts[0]) {
    case 'N': return dtype != CT_BOOL;
    case 'F': return ct_dtype_is_float(dtype);
    case 'I': return !ct_dtype_is_float(dtype);
    default: return true;
    }
}

static ct_dtype result_dtype(ct_op op, ct_node *const *sources, const ct_attr *attr) {
    switch (ct_op_table[op].result[0]) {
    case 'W': return ct_dtype_is_float(sources[0]->dtype) ? sources[0]->dtype : CT_INT64;
    case 'B': return CT_BOOL;
    case 'I': return CT_INT64;
    case 'A': return attr->dtype;
    default: return sources[op == CT_WHERE ? 1 : 0]->dtype;
    }
}

static ct_status out_of_memory(ct_op op, const ct_shape *shape, ct_dtype dtype, ct_error *error) {
    char text[CT_SHAPE_TEXT];
    return ct_fail(error, CT_ERR_MEMORY, "%s: out of memory for a result of shape %s, %s (%.3g GB)",
                   ct_op_table[op].name, ct_shape_text(shape, text), ct_dtype_name(dtype),
                   (double)ct_shape_numel(shape) * (double)ct_dtype_size(dtype) / 1e9);
}

static ct_node *make(ct_runtime *runtime, ct_op op, ct_node *const *sources, int n_sources,
                     const ct_attr *attr, const ct_shape *shape, ct_error *error) {
    ct_node *node = ct_malloc(sizeof *node);
    if (!node) {
        ct_fail(error, CT_ERR_MEMORY, "%s: out of memory", ct_op_table[op].name);
        return NULL;
    }
    memset(node, 0, sizeof *node);
    node->sources = node->inline_sources;
    if (n_sources > 3) {
        node->sources = ct_malloc((size_t)n_sources * sizeof *node->sources);
        if (!node->sources) {
            free(node);
            ct_fail(error, CT_ERR_MEMORY, "%s: out of memory", ct_op_table[op].name);
            return NULL;
        }
    }
    node->runtime = ct_runtime_hold(runtime);
    node->op = op;
    node->refs = 1;
    node->n_sources = n_sources;
    node->shape = *shape;
    if (attr)
        node->attr = *attr;
    if (node->attr.custom)
        node->attr.custom->refs++;
    node->dtype = result_dtype(op, sources, &node->attr);
    node->id = runtime->next_id++;
    if (runtime->differentiated) {
        node->line = runtime->differentiated->line;
        node->gradient_of = (int)runtime->differentiated->op + 1;
    } else if (runtime->where && op != CT_DATA) { /* data was made nowhere in particular */
        node->line = runtime->where(runtime->where_context);
    }
    for (int i = 0; i < n_sources; i++) {
        node->sources[i] = ct_node_retain(sources[i]);
        node->requires_grad |= sources[i]->requires_grad;
    }
    node->requires_grad &= runtime->no_grad == 0 && ct_dtype_is_float(node->dtype);
    return node;
}

static void drop_sources(ct_node *node) {
    for (int i = 0; i < node->n_sources; i++) {
        ct_node *source = node->sources[i];
        node->sources[i] = NULL;
        ct_node_release(source);
    }
    node->n_sources = 0;
}

/* Whether a node can wait until it is read: sources of values, and what is made of nothing but
 * these, so that filling a tensor, changing its type or a part of it costs nothing yet. One level
 * of it: nothing recurses. */
static bool is_deferred(const ct_node *node) {
    if (ct_op_table[node->op].class == CT_CLASS_SOURCE)
        return true;
    if ((node->op != CT_CAST && node->op != CT_COPY && node->op != CT_UPDATE) ||
        node->requires_grad)
        return false;
    for (int i = 0; i < node->n_sources; i++) {
        const ct_node *source = node->sources[i];
        if (source->op == CT_VIEW)
            source = source->sources[0];
        if ((source->op != CT_CONST && source->op != CT_RANDOM && source->op != CT_IOTA) ||
            source->buffer)
            return false;
    }
    return true;
}

/* Runs a node outside a trace: its buffer is filled. The old version of an UPDATE is held by it and
 * its cell, which has let go of it by the time a deferred one runs. */
static ct_status run(ct_node *node, bool deferred, ct_error *error) {
    ct_runtime *runtime = node->runtime;
    ct_array out, few[4], *values = few;
    if (node->n_sources > 4 && !(values = ct_malloc((size_t)node->n_sources * sizeof *values)))
        return out_of_memory(node->op, &node->shape, node->dtype, error);
    ct_status status = CT_OK;
    for (int i = 0; i < node->n_sources && status == CT_OK; i++)
        status = ct_node_value(node->sources[i], &values[i], error);
    if (status == CT_OK) {
        ct_node *base = node->attr.in_place ? node->sources[0] : NULL;
        if (base && base->refs == (deferred ? 1 : 2) && base->buffer) {
            node->buffer = base->buffer; /* the old version is read by nobody any more */
            base->buffer = NULL;
        } else {
            node->buffer = ct_buffer_new(runtime->heap, ct_shape_numel(&node->shape) *
                                                            (int64_t)ct_dtype_size(node->dtype));
            if (!node->buffer)
                status = out_of_memory(node->op, &node->shape, node->dtype, error);
        }
    }
    if (status == CT_OK) {
        ct_view whole = ct_view_whole(&node->shape);
        out = (ct_array){.dtype = node->dtype, .shape = node->shape, .data = node->buffer->data};
        memcpy(out.stride, whole.stride, sizeof out.stride);
        status = runtime->executor->run(runtime, node, &out, values, node->attr.draw, error);
        if (status != CT_OK) {
            ct_buffer_release(node->buffer);
            node->buffer = NULL;
        }
    }
    if (values != few)
        free(values);
    return status;
}

ct_node *ct_record(ct_runtime *runtime, ct_op op, ct_node *const *sources, int n_sources,
                   const ct_attr *attr, const ct_shape *shape, ct_error *error) {
    ct_trace *trace = runtime->trace;
    for (int i = 0; i < n_sources; i++) {
        if (!accepted(ct_op_table[op].accepts, sources[i]->dtype)) {
            ct_fail(error, CT_ERR_DTYPE, "%s: %s operands have no meaning here (%s expected)",
                    ct_op_table[op].name, ct_dtype_name(sources[i]->dtype),
                    ct_op_table[op].accepts[0] == 'F'   ? "a floating type"
                    : ct_op_table[op].accepts[0] == 'I' ? "an integer type or bool"
                                                        : "a number type, not bool,");
            return NULL;
        }
        if (sources[i]->trace && (!trace || sources[i]->trace != trace->id)) {
            ct_fail(error, CT_ERR_STATE,
                    "%s: an operand was made inside a traced step that has ended (%s at %s:%d); "
                    "return it from the "
                    "step, or pass it to a step closure",
                    ct_op_table[op].name, ct_op_table[sources[i]->op].name,
                    sources[i]->line.source ? sources[i]->line.source : "?", sources[i]->line.line);
            return NULL;
        }
    }
    ct_node *node = make(runtime, op, sources, n_sources, attr, shape, error);
    if (!node)
        return NULL;
    if (op == CT_CONST)
        ct_scalar_store(node->attr.value, node->dtype, &node->element);
    if (op == CT_RANDOM) {
        node->attr.seed = runtime->seed;
        node->attr.draw = trace ? trace->draws++ : runtime->draws++;
    }
    if (trace) {
        node->trace = trace->id;
        return node;
    }
    if (op == CT_VIEW || is_deferred(node))
        return node;
    if (run(node, false, error) != CT_OK) {
        ct_node_release(node);
        return NULL;
    }
    if (!node->requires_grad)
        drop_sources(node);
    return node;
}

ct_node *ct_node_data(ct_runtime *runtime, ct_dtype dtype, const ct_shape *shape, ct_buffer *buffer,
                      ct_error *error) {
    ct_attr attr = {.dtype = dtype};
    ct_node *node = make(runtime, CT_DATA, NULL, 0, &attr, shape, error);
    if (node)
        node->buffer = ct_buffer_retain(buffer);
    return node;
}

static ct_status run_deferred(ct_node *node, ct_error *error) {
    ct_status status = run(node, true, error);
    if (status == CT_OK)
        drop_sources(node);
    return status;
}

ct_array ct_array_through(const ct_array *base, const ct_view *view) {
    ct_array array = {.dtype = base->dtype, .shape = view->shape};
    memcpy(array.stride, view->stride, sizeof array.stride);
    array.data = (char *)base->data + view->offset * (int64_t)ct_dtype_size(base->dtype);
    return array;
}

ct_status ct_node_value(ct_node *node, ct_array *array, ct_error *error) {
    if (node->trace)
        return ct_fail(error, CT_ERR_STATE,
                       "the result of '%s' (%s:%d) was read inside a traced step, where values do "
                       "not exist yet; "
                       "pass the tensor to a step closure (ct.step_closure) and read it there",
                       ct_op_table[node->op].name, node->line.source ? node->line.source : "?",
                       node->line.line);
    if (node->op == CT_VIEW) {
        ct_array base;
        ct_status status = ct_node_value(node->sources[0], &base, error);
        if (status == CT_OK && node->sources[0]->op == CT_CONST && !node->sources[0]->buffer) {
            *array = base; /* one element, wherever one looks */
            array->shape = node->shape;
            memset(array->stride, 0, sizeof array->stride);
        } else if (status == CT_OK) {
            *array = ct_array_through(&base, &node->attr.view);
        }
        return status;
    }
    *array = (ct_array){.dtype = node->dtype, .shape = node->shape};
    if (node->op == CT_CONST && !node->buffer) {
        array->data = &node->element;
        return CT_OK;
    }
    ct_status status = node->buffer ? CT_OK : run_deferred(node, error);
    if (status == CT_OK) {
        ct_view whole = ct_view_whole(&node->shape);
        memcpy(array->stride, whole.stride, sizeof array->stride);
        array->data = node->buffer->data;
    }
    return status;
}

ct_status ct_node_materialize(ct_node *node, ct_error *error) {
    ct_array array;
    if (node->trace || node->op == CT_VIEW || (node->op == CT_CONST && !node->buffer)) {
        if (node->trace || node->op == CT_VIEW)
            return ct_node_value(node, &array, error);
        return run_deferred(node, error);
    }
    return ct_node_value(node, &array, error);
}
