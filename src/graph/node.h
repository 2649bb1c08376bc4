/* node.h: a node is one recorded operation. Nodes are immutable but for their value; the graph is
 * the nodes and their sources, and has no cycles.
 *
 * A node is born with everything it reads. Outside a trace it is run at once (sources of values: at
 * first use), and keeps its sources only where a gradient may need them. In a trace it has no
 * value. A VIEW never has a buffer: its value is its source's, seen through attr.view; its source
 * is never itself a VIEW. */
#ifndef CT_GRAPH_NODE_H
#define CT_GRAPH_NODE_H

#include "base/dtype.h"
#include "base/shape.h"
#include "graph/runtime.h"

typedef enum ct_op {
#define CT_OP(NAME, name, sources, class, accepts, result, f, i) CT_##NAME,
#include "graph/ops.def"
#undef CT_OP
    CT_OPS,
} ct_op;

typedef enum ct_class {
    CT_CLASS_SOURCE,
    CT_CLASS_UNARY,
    CT_CLASS_BINARY,
    CT_CLASS_COMPARE,
    CT_CLASS_SELECT,
    CT_CLASS_REDUCE,
    CT_CLASS_SCAN,
    CT_CLASS_MOVEMENT,
    CT_CLASS_CONTRACTION,
    CT_CLASS_INDEX,
    CT_CLASS_CUSTOM,
} ct_class;

typedef struct ct_op_info {
    const char *name;
    int sources; /* -1: any number */
    ct_class class;
    const char *accepts, *result; /* the words of ops.def */
    const char *float_expression, *int_expression;
} ct_op_info;

extern const ct_op_info ct_op_table[CT_OPS];

/* Whether one element takes tens of instructions: such work is split finer, and not done twice. */
bool ct_op_is_costly(ct_op op);

typedef enum ct_random {
    CT_RANDOM_UNIFORM, /* [0, 1): 24 random bits (float32 and narrower), 53 (float64) */
    CT_RANDOM_NORMAL,  /* mean 0, deviation 1, by Box and Muller */
    /* both: times step.f, rounded, plus value.f, rounded */
    CT_RANDOM_INTEGER, /* value.i <= n < step.i; any dtype */
} ct_random;

/* The gradient of a custom node: fills gradients[i] (new references, NULL: none) for its
 * sources 1.. */
typedef struct ct_custom {
    int refs;
    ct_status (*backward)(void *context, ct_node *gradient, ct_node **gradients, int n,
                          ct_error *error);
    void (*release)(void *context);
    void *context;
} ct_custom;

typedef struct ct_attr {
    ct_view view;          /* VIEW, UPDATE */
    uint32_t axes;         /* REDUCE: bit d set, dimension d is reduced */
    int axis;              /* SCAN, INDEX */
    bool descending;       /* ARGSORT */
    ct_dtype dtype;        /* result ATTR */
    ct_scalar value, step; /* CONST, IOTA, RANDOM */
    ct_random random;
    uint64_t draw; /* RANDOM: eager: its number; traced: its place among the trace's draws */
    uint64_t seed; /* RANDOM, eager: the runtime's when it was said */
    bool weak; /* CONST: a number of the script, which takes the other operand's type where its kind
                  allows */
    bool in_place; /* UPDATE: source 0's value is given up when nothing but the caller holds it */
    int slot;      /* INPUT, STATE */
    ct_custom *custom;
} ct_attr;

typedef struct ct_cell ct_cell;

struct ct_node {
    ct_runtime *runtime;
    ct_op op;
    ct_dtype dtype;
    int refs;
    int n_sources;
    ct_node **sources; /* NULL entries: released after backward */
    ct_node *inline_sources[3];
    ct_shape shape;
    ct_attr attr;
    bool requires_grad;
    bool spent;        /* backward has run through it and released what it kept */
    bool versioned;    /* a cell has taken it as a version; another cell must copy it */
    ct_cell *leaf;     /* a leaf's cell (held weakly): gradients stop and gather there */
    uint64_t trace;    /* the id of the trace it was recorded in, 0: none */
    ct_buffer *buffer; /* the value, C order; NULL: deferred, traced, or a VIEW */
    uint64_t element;  /* CONST: its value, encoded; until it has a buffer it is read here, with
                          strides 0 */
    ct_line line;      /* of a node of a gradient: that of the operation it is the gradient of */
    int gradient_of;   /* that operation plus 1; 0: none */
    uint64_t id;       /* rises in order of recording: sources have smaller ids */
    int mark;          /* scratch of whoever walks the graph; 0 between walks */
    ct_node *next_released; /* of the list of nodes being freed */
};

/* Makes and, outside a trace, runs a node. Sources must already satisfy the table (equal shapes,
 * equal dtypes); build.h says operations more comfortably. `shape` is that of the result. */
ct_node *ct_record(ct_runtime *runtime, ct_op op, ct_node *const *sources, int n_sources,
                   const ct_attr *attr, const ct_shape *shape, ct_error *error);
/* A leaf on a buffer (a new reference to it is taken). */
ct_node *ct_node_data(ct_runtime *runtime, ct_dtype dtype, const ct_shape *shape, ct_buffer *buffer,
                      ct_error *error);

ct_node *ct_node_retain(ct_node *node);
void ct_node_release(ct_node *node); /* NULL is allowed; never recursive */

/* The value as an array, running what was deferred. Fails for a node of a trace, naming op and
 * line. */
ct_status ct_node_value(ct_node *node, ct_array *array, ct_error *error);
/* The array of `view` over the elements of a C-order `base`. */
ct_array ct_array_through(const ct_array *base, const ct_view *view);
/* Gives the node a whole C-order buffer of its own (a deferred or one-element constant is written
 * out). */
ct_status ct_node_materialize(ct_node *node, ct_error *error);

#endif
