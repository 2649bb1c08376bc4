/* kernel.h: what a simplified graph becomes on its way to a backend: kernels and library calls in
 * order, and a place in memory for every value that needs one.
 *
 * A kernel is one loop nest over `outer` x `reduced` x `inner` elements. Its members are
 * element-wise nodes and reductions, sources first. A member is FULL (an element for every step of
 * the nest) or PART (one for every outer x inner: reductions, and what is computed from them). In
 * MAP kernels everything is FULL. What a member reads is a constant, a member of its own kernel at
 * the same place, or a load. A kernel never reads through memory what it writes itself. */
#ifndef CT_KERNEL_KERNEL_H
#define CT_KERNEL_KERNEL_H

#include "graph/simplify.h" // defines: ct_graph

#define CT_MAX_LOOPS 16
#define CT_MAX_MEMBERS 256
#define CT_MAX_LOADS 96

typedef enum ct_kernel_kind {
    CT_KERNEL_MAP,     /* element-wise: reduced and inner are 1 */
    CT_KERNEL_ROWS,    /* inner is 1: reductions along rows that lie in C order */
    CT_KERNEL_COLUMNS, /* inner > 1: reductions down columns */
    CT_KERNEL_CALL,    /* one node, by an eager loop or a library */
} ct_kernel_kind;

typedef enum ct_level { CT_LEVEL_FULL, CT_LEVEL_PART } ct_level;

typedef enum ct_operand_kind {
    CT_OPERAND_CONST,
    CT_OPERAND_MEMBER,
    CT_OPERAND_LOAD
} ct_operand_kind;

typedef struct ct_origin {
    ct_operand_kind kind;
    int index;       /* of the member or the load */
    ct_scalar value; /* CONST */
    ct_dtype dtype;
} ct_origin;

typedef struct ct_member {
    ct_node *node;
    ct_level level;
    int stage;   /* ROWS: passes over the row that come before it; a reduction ends the pass of its
                    source */
    bool stored; /* it has memory: others read it, or it leaves the step */
    bool kept;   /* ROWS: a later pass reads it from a row kept in cache */
    int operands;
    ct_origin operand[3];
} ct_member;

/* Elements of `node` (which has memory, or is an IOTA) as `view` over its C-order elements sees
 * them. */
typedef struct ct_load {
    ct_node *node;
    ct_view view;
    ct_level level;
    int64_t offset;
    int64_t stride[CT_MAX_LOOPS]; /* by loop of the kernel; 0 in the reduced loop of a PART load */
} ct_load;

typedef struct ct_kernel {
    ct_kernel_kind kind;
    int64_t outer, reduced, inner;
    ct_member *members; /* CALL: one */
    int n_members, member_capacity;
    ct_load *loads;
    int n_loads, load_capacity;
    /* Loops from the outermost; MAP: the last is vectorised; ROWS: the last is the row; COLUMNS:
     * the last two are the reduced one and the columns. */
    int n_loops;
    int64_t loop[CT_MAX_LOOPS];
    int64_t cuts[CT_MAX_LOOPS]; /* suffix products at which loops begin, rising */
    int n_cuts;
    int stages;
    uint64_t *needs; /* the kernels that must run before it, a bit each */
    int position;    /* in the plan's order */
} ct_kernel;

typedef enum ct_place_kind {
    CT_PLACE_NONE,
    CT_PLACE_ARENA,
    CT_PLACE_INPUT,
    CT_PLACE_STATE,
    CT_PLACE_OUTPUT,
} ct_place_kind;

typedef struct ct_place {
    ct_place_kind kind;
    int64_t index; /* byte offset in the arena, or number of the input, state, output */
} ct_place;

/* A value that leaves the step by a copy at its end, since no kernel could write it where it
 * belongs. */
typedef struct ct_departure {
    ct_node *node;
    ct_place place;
} ct_departure;

typedef struct ct_plan {
    ct_graph *graph;
    ct_kernel **kernels; /* in order */
    int n_kernels;
    ct_place *places; /* by node id */
    ct_departure *departures;
    int n_departures;
    int64_t arena_bytes;
} ct_plan;

/* fuse.c: kernels for the graph's nodes, in an order that satisfies every kernel's needs. */
ct_status ct_fuse(ct_graph *graph, ct_kernel ***kernels, int *n_kernels, ct_error *error);
void ct_kernel_free(ct_kernel *kernel);

/* Whether kernels can have this node as a member: expression.c element-wise nodes, order.c
 * reductions. */
bool ct_renders(const ct_node *node);
bool ct_order_renders(const ct_node *node);

/* plan.c: places for everything. Takes the graph over, on failure too. */
ct_plan *ct_plan_make(ct_graph *graph, ct_error *error);
void ct_plan_free(ct_plan *plan);
/* verify.c: whether every value is where it is read, when it is read. */
ct_status ct_plan_verify(const ct_plan *plan, ct_error *error);

/* The node whose memory a source is read from (a VIEW's source), and how; the view is whole for
 * others. */
ct_node *ct_node_base(ct_node *source, ct_view *view);

#endif
