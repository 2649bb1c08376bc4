// fuse.c: which nodes share a loop nest. Nodes are taken in recorded order; each joins the latest
// kernel that computes something it reads (or reads the same memory the same way), walks the same
// elements and does not wait for it through another kernel; else it opens a kernel of its own.
// `needs` holds, transitively, the kernels that must run before one, so a join that would close a
// cycle is seen at once.
#include <stdlib.h>
#include <string.h>

#include "base/error.h" // defines: ct_fail
#include "base/heap.h"  // defines: ct_calloc, ct_realloc
#include "kernel/kernel.h"

#define LOOK_BACK 96 /* kernels looked at for a join, from the latest */
#define LOADS_AT_MOST                                                                              \
    20 /* arrays one kernel reads: a budget of registers and of streams from memory */
#define MEMBERS_AT_MOST 96
#define ROW_AT_MOST 8192 /* elements of a row that several passes walk: it must stay in cache */
#define CHEAP 4          /* operations that are worth less than a pass through memory */
#define LONG_COLUMN 4096
#define LONG_ROW                                                                                   \
    16384 /* longer rows, where there are few, are left to the loop that splits a row */

typedef struct fuser {
    ct_graph *graph;
    ct_kernel **kernels;
    int n, words;
    int *home;    /* by node id: the kernel that computes it, or -1 */
    bool *wanted; /* by node id: something reads it from memory, or it leaves the step */
    bool memory_out;
} fuser;

ct_node *ct_node_base(ct_node *source, ct_view *view) {
    if (source->op == CT_VIEW) {
        *view = source->attr.view;
        return source->sources[0];
    }
    *view = ct_view_whole(&source->shape);
    return source;
}

void ct_kernel_free(ct_kernel *kernel) {
    if (kernel == NULL)
        return;
    free(kernel->members);
    free(kernel->loads);
    free(kernel->needs);
    free(kernel);
}

/* ---- views against a kernel's loops ---- */

/* The view's dimensions without those of extent 1, merged where memory walks them alike. */
static int coalesce(const ct_view *view, int64_t *dim, int64_t *stride) {
    int n = 0;
    for (int d = 0; d < view->shape.ndim; d++) {
        int64_t extent = view->shape.dim[d];
        if (extent == 1)
            continue;
        if (n > 0 && stride[n - 1] == view->stride[d] * extent) {
            dim[n - 1] *= extent;
            stride[n - 1] = view->stride[d];
        } else {
            dim[n] = extent;
            stride[n++] = view->stride[d];
        }
    }
    return n;
}

static int64_t full_count(const ct_kernel *kernel) {
    return kernel->outer * kernel->reduced * kernel->inner;
}

static int64_t part_count(const ct_kernel *kernel) {
    return kernel->outer * kernel->inner;
}

/* Whether a FULL element at (o, r, i) reads the PART element (o, i). */
static bool spreads_part(const ct_kernel *kernel, const ct_view *view) {
    int64_t dim[CT_MAX_DIMS], stride[CT_MAX_DIMS], suffix = 1;
    int64_t inner = kernel->inner, row = kernel->inner * kernel->reduced;
    if (view->offset != 0)
        return false;
    int n = coalesce(view, dim, stride);
    for (int d = n - 1; d >= 0; d--) {
        // a dimension may run over a border where both sides are walked alike: it is split there
        int64_t left = dim[d], step = stride[d];
        while (left > 1) {
            int64_t border = suffix < inner ? inner : suffix < row ? row : INT64_MAX;
            int64_t count = border == INT64_MAX || border / suffix > left ? left : border / suffix;
            if (border != INT64_MAX && border % suffix != 0)
                return false;
            if (left % count != 0)
                return false;
            int64_t want = suffix < inner ? suffix : suffix < row ? 0 : suffix / row * inner;
            if (step != want)
                return false;
            suffix *= count;
            left /= count;
            step *= count;
        }
    }
    return true;
}

static bool aligned(const ct_kernel *kernel, ct_level reader, const ct_member *member,
                    const ct_view *view) {
    if (reader == member->level)
        return ct_view_is_whole(view);
    if (kernel->kind != CT_KERNEL_ROWS || reader == CT_LEVEL_PART)
        return false;
    return spreads_part(kernel, view);
}

static bool add_cut(int64_t *cuts, int *n, int64_t cut) {
    int at = 0;
    while (at < *n && cuts[at] < cut)
        at++;
    if (at < *n && cuts[at] == cut)
        return true;
    if (*n == CT_MAX_LOOPS - 2)
        return false;
    if (at > 0 && cut % cuts[at - 1] != 0)
        return false;
    if (at < *n && cuts[at] % cut != 0)
        return false;
    memmove(&cuts[at + 1], &cuts[at], (size_t)(*n - at) * sizeof *cuts);
    cuts[at] = cut;
    (*n)++;
    return true;
}

/* Adds the places where the loops must be cut so that the load has one stride in each. */
static bool cut_for_load(const ct_kernel *kernel, ct_level level, const ct_view *view,
                         int64_t *cuts, int *n) {
    int64_t dim[CT_MAX_DIMS], stride[CT_MAX_DIMS], suffix = 1;
    int64_t inner = kernel->inner, row = kernel->inner * kernel->reduced;
    int count = coalesce(view, dim, stride);
    for (int d = count - 1; d > 0; d--) {
        suffix *= dim[d];
        int64_t cut = suffix;
        if (level == CT_LEVEL_PART) {
            if (cut < inner)
                return false;
            cut *= kernel->reduced;
        } else if (kernel->kind != CT_KERNEL_MAP && cut < row && cut != inner) {
            return false;
        }
        if (!add_cut(cuts, n, cut))
            return false;
    }
    return true;
}

static bool same_place(const ct_view *a, const ct_view *b) {
    int64_t dim_a[CT_MAX_DIMS], stride_a[CT_MAX_DIMS], dim_b[CT_MAX_DIMS], stride_b[CT_MAX_DIMS];
    if (a->offset != b->offset)
        return false;
    int n = coalesce(a, dim_a, stride_a);
    if (n != coalesce(b, dim_b, stride_b))
        return false;
    return memcmp(dim_a, dim_b, (size_t)n * sizeof *dim_a) == 0 &&
           memcmp(stride_a, stride_b, (size_t)n * sizeof *stride_a) == 0;
}

static int find_member(const ct_kernel *kernel, const ct_node *node) {
    for (int i = kernel->n_members - 1; i >= 0; i--) {
        if (kernel->members[i].node == node)
            return i;
    }
    return -1;
}

static int find_load(const ct_kernel *kernel, const ct_node *node, const ct_view *view,
                     ct_level level) {
    for (int i = 0; i < kernel->n_loads; i++) {
        const ct_load *load = &kernel->loads[i];
        if (load->node == node && load->level == level && same_place(&load->view, view))
            return i;
    }
    return -1;
}

/* ---- kernels and what they need ---- */

static bool needs(const ct_kernel *kernel, int other) {
    return kernel->needs[other / 64] >> (other % 64) & 1;
}

/* `kernel` (number `self`) now waits for `other`, and so does whoever waits for it. */
static void add_need(fuser *f, int self, int other) {
    if (self == other || needs(f->kernels[self], other))
        return;
    for (int k = 0; k < f->n; k++) {
        ct_kernel *kernel = f->kernels[k];
        if (k != self && !needs(kernel, self))
            continue;
        for (int w = 0; w < f->words; w++)
            kernel->needs[w] |= f->kernels[other]->needs[w];
        kernel->needs[other / 64] |= (uint64_t)1 << (other % 64);
    }
}

static int open_kernel(fuser *f, ct_kernel_kind kind, int64_t outer, int64_t reduced,
                       int64_t inner) {
    ct_kernel *kernel = ct_calloc(1, sizeof *kernel);
    if (kernel == NULL ||
        (kernel->needs = ct_calloc((size_t)f->words, sizeof *kernel->needs)) == NULL) {
        free(kernel);
        f->memory_out = true;
        return -1;
    }
    kernel->kind = kind;
    kernel->outer = outer;
    kernel->reduced = reduced;
    kernel->inner = inner;
    if (kind == CT_KERNEL_ROWS || kind == CT_KERNEL_COLUMNS) {
        add_cut(kernel->cuts, &kernel->n_cuts, inner);
        add_cut(kernel->cuts, &kernel->n_cuts, inner * reduced);
    }
    f->kernels[f->n] = kernel;
    return f->n++;
}

static void *grown(fuser *f, void *list, int count, int *capacity, size_t size) {
    if (count < *capacity)
        return list;
    int wanted = *capacity == 0 ? 8 : 2 * *capacity;
    void *bigger = ct_realloc(list, (size_t)wanted * size);
    if (bigger == NULL) {
        f->memory_out = true;
        return NULL;
    }
    *capacity = wanted;
    return bigger;
}

static bool is_reduce(const ct_node *node) {
    return ct_op_table[node->op].class == CT_CLASS_REDUCE;
}

/* Whether the node may become a member of the kernel; `cuts` then has room for its loads. */
static bool may_join(fuser *f, int number, ct_node *node, ct_level source_level, int64_t *cuts,
                     int *n_cuts) {
    ct_kernel *kernel = f->kernels[number];
    if (kernel->n_members >= MEMBERS_AT_MOST)
        return false;
    int loads = kernel->n_loads, stage = 0;
    for (int i = 0; i < node->n_sources; i++) {
        ct_view view;
        ct_node *base = ct_node_base(node->sources[i], &view);
        if (base->op == CT_CONST)
            continue;
        int m = find_member(kernel, base);
        if (m >= 0) {
            const ct_member *member = &kernel->members[m];
            if (!aligned(kernel, source_level, member, &view))
                return false;
            int after = member->stage + is_reduce(member->node);
            if (after > stage)
                stage = after;
            continue;
        }
        int home = f->home[base->id];
        if (home >= 0 && needs(f->kernels[home], number))
            return false;
        if (find_load(kernel, base, &view, source_level) < 0)
            loads++;
        if (!cut_for_load(kernel, source_level, &view, cuts, n_cuts))
            return false;
    }
    if (stage > 0 && source_level == CT_LEVEL_FULL &&
        (kernel->kind != CT_KERNEL_ROWS || kernel->reduced > ROW_AT_MOST)) {
        return false;
    }
    return loads <= LOADS_AT_MOST || kernel->n_members == 0;
}

static void join(fuser *f, int number, ct_node *node, ct_level source_level, const int64_t *cuts,
                 int n_cuts) {
    ct_kernel *kernel = f->kernels[number];
    memcpy(kernel->cuts, cuts, (size_t)n_cuts * sizeof *cuts);
    kernel->n_cuts = n_cuts;
    ct_member *members =
        grown(f, kernel->members, kernel->n_members, &kernel->member_capacity, sizeof *members);
    if (members == NULL)
        return;
    kernel->members = members;
    ct_member member = {.node = node, .level = is_reduce(node) ? CT_LEVEL_PART : source_level};
    member.operands = node->n_sources;
    for (int i = 0; i < node->n_sources; i++) {
        ct_view view;
        ct_node *base = ct_node_base(node->sources[i], &view);
        ct_origin *operand = &member.operand[i];
        operand->dtype = base->dtype;
        if (base->op == CT_CONST) {
            operand->kind = CT_OPERAND_CONST;
            operand->value = base->attr.value;
            continue;
        }
        int m = find_member(kernel, base);
        if (m >= 0) {
            operand->kind = CT_OPERAND_MEMBER;
            operand->index = m;
            int after = kernel->members[m].stage + is_reduce(base);
            if (after > member.stage)
                member.stage = after;
            continue;
        }
        int l = find_load(kernel, base, &view, source_level);
        if (l < 0) {
            ct_load *loads =
                grown(f, kernel->loads, kernel->n_loads, &kernel->load_capacity, sizeof *loads);
            if (loads == NULL)
                return;
            kernel->loads = loads;
            l = kernel->n_loads++;
            loads[l] = (ct_load){.node = base, .view = view, .level = source_level};
            if (f->home[base->id] >= 0)
                add_need(f, number, f->home[base->id]);
            f->wanted[base->id] = true;
        }
        operand->kind = CT_OPERAND_LOAD;
        operand->index = l;
    }
    if (member.stage + 1 > kernel->stages)
        kernel->stages = member.stage + 1;
    kernel->members[kernel->n_members++] = member;
    if (f->home[node->id] < 0)
        f->home[node->id] = number;
}

static void call(fuser *f, ct_node *node) {
    for (int i = 0; i < node->n_sources; i++) { // a loop or library reads memory
        ct_view view;
        ct_node *base = ct_node_base(node->sources[i], &view);
        if (base->op == CT_IOTA && f->home[base->id] < 0)
            call(f, base);
    }
    int number = open_kernel(f, CT_KERNEL_CALL, ct_shape_numel(&node->shape), 1, 1);
    if (number < 0)
        return;
    ct_kernel *kernel = f->kernels[number];
    kernel->members = ct_calloc(1, sizeof *kernel->members);
    if (kernel->members == NULL) {
        f->memory_out = true;
        return;
    }
    kernel->members[0] = (ct_member){.node = node, .stored = true};
    kernel->n_members = kernel->member_capacity = 1;
    for (int i = 0; i < node->n_sources; i++) {
        ct_view view;
        ct_node *base = ct_node_base(node->sources[i], &view);
        if (f->home[base->id] >= 0)
            add_need(f, number, f->home[base->id]);
        f->wanted[base->id] = true;
    }
    f->home[node->id] = number;
}

/* ---- where a node goes ---- */

static int weight(ct_op op) {
    if (ct_op_is_costly(op))
        return 12;
    return op == CT_DIV || op == CT_SQRT || op == CT_RSQRT ? 3 : 1;
}

/* Whether what the node reads is in memory anyway, or small beside it. */
static bool at_hand(const fuser *f, const ct_node *base, int64_t count) {
    int home = f->home[base->id];
    return base->op == CT_CONST || home < 0 || f->kernels[home]->kind == CT_KERNEL_CALL ||
           f->wanted[base->id] || ct_shape_numel(&base->shape) <= count / 8;
}

/* The nodes that must be computed again to have `node` from what is at hand, sources first; the
 * work left of `budget`, or -1 where it is cheaper to keep the node in memory. */
static int recipe(const fuser *f, ct_node *node, int budget, ct_node **list, int *n) {
    int64_t count = ct_shape_numel(&node->shape);
    if (!ct_renders(node) || (budget -= weight(node->op)) < 0)
        return -1;
    for (int i = 0; i < node->n_sources; i++) {
        ct_view view;
        ct_node *base = ct_node_base(node->sources[i], &view);
        if (at_hand(f, base, count))
            continue;
        if (!ct_view_is_whole(&view) || (budget = recipe(f, base, budget, list, n)) < 0)
            return -1;
    }
    for (int i = 0; i < *n; i++) {
        if (list[i] == node)
            return budget;
    }
    list[(*n)++] = node;
    return budget;
}

/* Where a source of the node is cheap to compute again from what is at hand, the kernel does so,
 * and the value need not travel through memory. */
static void compute_again(fuser *f, int number, const ct_node *node, ct_level level) {
    for (int i = 0; i < node->n_sources; i++) {
        ct_view view;
        ct_node *base = ct_node_base(node->sources[i], &view), *list[16];
        int n = 0, home = f->home[base->id];
        if (home < 0 || home == number || f->kernels[home]->kind == CT_KERNEL_CALL ||
            f->wanted[base->id] || ct_shape_numel(&base->shape) <= 64 || !ct_view_is_whole(&view) ||
            find_member(f->kernels[number], base) >= 0 || recipe(f, base, CHEAP, list, &n) < 0) {
            continue;
        }
        for (int k = 0; k < n; k++) {
            int64_t cuts[CT_MAX_LOOPS];
            int n_cuts = f->kernels[number]->n_cuts;
            memcpy(cuts, f->kernels[number]->cuts, sizeof cuts);
            if (find_member(f->kernels[number], list[k]) >= 0)
                continue;
            if (!may_join(f, number, list[k], level, cuts, &n_cuts))
                break;
            join(f, number, list[k], level, cuts, n_cuts);
        }
    }
}

/* How much the kernel has to do with the node's sources: 4 for
 * a member, 2 for a load they share. */
static int kinship(const ct_kernel *kernel, const ct_node *node, ct_level level) {
    int score = 0;
    for (int i = 0; i < node->n_sources; i++) {
        ct_view view;
        const ct_node *base = ct_node_base(node->sources[i], &view);
        if (base->op == CT_CONST)
            continue;
        if (find_member(kernel, base) >= 0)
            score += 4;
        else if (find_load(kernel, base, &view, level) >= 0 && ct_shape_numel(&base->shape) > 1)
            score += 2;
    }
    return score;
}

static void place_elementwise(fuser *f, ct_node *node) {
    int64_t count = ct_shape_numel(&node->shape);
    int64_t cuts[CT_MAX_LOOPS], best_cuts[CT_MAX_LOOPS];
    int best = -1, best_score = 0, best_n = 0;
    ct_level best_level = CT_LEVEL_FULL;
    for (int k = f->n - 1; k >= 0 && k >= f->n - LOOK_BACK; k--) {
        ct_kernel *kernel = f->kernels[k];
        if (kernel->kind == CT_KERNEL_CALL)
            continue;
        ct_level level = CT_LEVEL_FULL;
        if (count != full_count(kernel)) {
            if (kernel->kind == CT_KERNEL_MAP || count != part_count(kernel))
                continue;
            level = CT_LEVEL_PART;
        }
        int score = kinship(kernel, node, level) + (count == 1 && kernel->kind == CT_KERNEL_MAP);
        if (score <= best_score)
            continue;
        int n_cuts = kernel->n_cuts;
        memcpy(cuts, kernel->cuts, sizeof cuts);
        if (!may_join(f, k, node, level, cuts, &n_cuts))
            continue;
        best = k;
        best_score = score;
        best_level = level;
        best_n = n_cuts;
        memcpy(best_cuts, cuts, sizeof cuts);
    }
    if (best < 0) {
        best = open_kernel(f, CT_KERNEL_MAP, count, 1, 1);
        if (best < 0)
            return;
        best_n = 0;
        if (!may_join(f, best, node, CT_LEVEL_FULL, best_cuts,
                      &best_n)) { // views that no one nest can walk
            ct_kernel_free(f->kernels[--f->n]);
            call(f, node);
            return;
        }
    }
    compute_again(f, best, node, best_level);
    best_n = f->kernels[best]->n_cuts;
    memcpy(best_cuts, f->kernels[best]->cuts, sizeof best_cuts);
    if (may_join(f, best, node, best_level, best_cuts, &best_n))
        join(f, best, node, best_level, best_cuts, best_n);
    else
        call(f, node);
}

/* The reduced dimensions as one, with what is before and after them. False where they are not
 * adjacent. */
static bool split(const ct_node *node, int64_t *outer, int64_t *reduced, int64_t *inner) {
    const ct_shape *shape = &node->sources[0]->shape;
    *outer = *reduced = *inner = 1;
    int phase = 0;
    for (int d = 0; d < shape->ndim; d++) {
        if (shape->dim[d] == 1)
            continue;
        if (node->attr.axes >> d & 1) {
            if (phase == 2)
                return false;
            phase = 1;
            *reduced *= shape->dim[d];
        } else if (phase == 0) {
            *outer *= shape->dim[d];
        } else {
            phase = 2;
            *inner *= shape->dim[d];
        }
    }
    return true;
}

static void place_reduce(fuser *f, ct_node *node) {
    int64_t outer, reduced, inner, cuts[CT_MAX_LOOPS];
    if (!ct_order_renders(node) || !split(node, &outer, &reduced, &inner) || reduced < 2 ||
        (outer * inner < 4 && reduced > LONG_ROW) || (inner > 1 && reduced > LONG_COLUMN)) {
        call(f, node);
        return;
    }
    ct_kernel_kind kind = inner == 1 ? CT_KERNEL_ROWS : CT_KERNEL_COLUMNS;
    for (int k = f->n - 1; k >= 0 && k >= f->n - LOOK_BACK; k--) {
        ct_kernel *kernel = f->kernels[k], before = *kernel;
        bool same = kernel->kind == kind && kernel->outer == outer && kernel->reduced == reduced &&
                    kernel->inner == inner;
        bool grows = kernel->kind == CT_KERNEL_MAP && kernel->outer == outer * reduced * inner;
        if ((!same && !grows) || kinship(kernel, node, CT_LEVEL_FULL) == 0)
            continue;
        int n_cuts = kernel->n_cuts;
        memcpy(cuts, kernel->cuts, sizeof cuts);
        bool fits = true;
        if (grows) {
            kernel->kind = kind;
            kernel->outer = outer;
            kernel->reduced = reduced;
            kernel->inner = inner;
            fits = (inner == 1 || add_cut(cuts, &n_cuts, inner)) &&
                   add_cut(cuts, &n_cuts, inner * reduced);
            for (int c = 0; c < n_cuts && fits; c++) {
                fits = cuts[c] >= inner * reduced || cuts[c] == inner;
            }
        }
        if (fits && may_join(f, k, node, CT_LEVEL_FULL, cuts, &n_cuts)) {
            join(f, k, node, CT_LEVEL_FULL, cuts, n_cuts);
            return;
        }
        *kernel = before;
    }
    int number = open_kernel(f, kind, outer, reduced, inner);
    if (number < 0)
        return;
    ct_kernel *kernel = f->kernels[number];
    int n_cuts = kernel->n_cuts;
    memcpy(cuts, kernel->cuts, sizeof cuts);
    if (may_join(f, number, node, CT_LEVEL_FULL, cuts, &n_cuts)) {
        join(f, number, node, CT_LEVEL_FULL, cuts, n_cuts);
    } else {
        ct_kernel_free(f->kernels[--f->n]);
        call(f, node);
    }
}

/* ---- kernels that have come to belong together ---- */

/* Whether another kernel must run between the two. */
static bool something_between(const fuser *f, int first, int second) {
    for (int k = 0; k < f->n; k++) {
        if (k != first && k != second && needs(f->kernels[second], k) &&
            needs(f->kernels[k], first))
            return true;
    }
    return false;
}

/* Whether the second kernel reads what the first computes, or both read the same memory the same
 * way. */
static bool related(const fuser *f, int first, int second) {
    const ct_kernel *a = f->kernels[first], *b = f->kernels[second];
    for (int i = 0; i < b->n_loads; i++) {
        const ct_load *load = &b->loads[i];
        if (ct_shape_numel(&load->node->shape) <= 64)
            continue;
        if (f->home[load->node->id] == first ||
            find_load(a, load->node, &load->view, load->level) >= 0)
            return true;
    }
    return false;
}

/* A deep copy, to go back to. */
static ct_kernel *copy_kernel(fuser *f, const ct_kernel *kernel) {
    ct_kernel *copy = ct_malloc(sizeof *copy);
    if (copy == NULL) {
        f->memory_out = true;
        return NULL;
    }
    *copy = *kernel;
    copy->members = ct_malloc((size_t)kernel->member_capacity * sizeof *copy->members);
    copy->loads = ct_malloc((size_t)(kernel->load_capacity + 1) * sizeof *copy->loads);
    copy->needs = ct_malloc((size_t)f->words * sizeof *copy->needs);
    if (copy->members == NULL || copy->loads == NULL || copy->needs == NULL) {
        ct_kernel_free(copy);
        f->memory_out = true;
        return NULL;
    }
    memcpy(copy->members, kernel->members, (size_t)kernel->n_members * sizeof *copy->members);
    if (kernel->n_loads > 0)
        memcpy(copy->loads, kernel->loads, (size_t)kernel->n_loads * sizeof *copy->loads);
    memcpy(copy->needs, kernel->needs, (size_t)f->words * sizeof *copy->needs);
    return copy;
}

/* Takes the second kernel's members into the first where all of them may join. */
static bool merge(fuser *f, int first, int second) {
    ct_kernel *a = f->kernels[first], *b = f->kernels[second];
    int64_t cuts[CT_MAX_LOOPS];
    if (full_count(a) != full_count(b)) {
        if (a->kind == CT_KERNEL_MAP || b->kind != CT_KERNEL_MAP || part_count(a) != full_count(b))
            return false;
    } else if (a->kind != b->kind && a->kind != CT_KERNEL_MAP && b->kind != CT_KERNEL_MAP) {
        return false;
    } else if (a->kind == b->kind &&
               (a->outer != b->outer || a->reduced != b->reduced || a->inner != b->inner)) {
        return false;
    }
    if (something_between(f, first, second))
        return false;
    ct_kernel *before = copy_kernel(f, a);
    if (before == NULL)
        return false;
    bool fits = true;
    if (a->kind == CT_KERNEL_MAP && b->kind != CT_KERNEL_MAP) {
        a->kind = b->kind;
        a->outer = b->outer;
        a->reduced = b->reduced;
        a->inner = b->inner;
        fits = (a->inner == 1 || add_cut(a->cuts, &a->n_cuts, a->inner)) &&
               add_cut(a->cuts, &a->n_cuts, a->inner * a->reduced);
        for (int c = 0; c < a->n_cuts && fits; c++) {
            fits = a->cuts[c] >= a->inner * a->reduced || a->cuts[c] == a->inner;
        }
    }
    bool part = full_count(a) != full_count(b);
    for (int i = 0; i < b->n_members && fits && !f->memory_out; i++) {
        ct_node *node = b->members[i].node;
        int n_cuts = a->n_cuts;
        memcpy(cuts, a->cuts, sizeof cuts);
        ct_level level = part || (b->kind != CT_KERNEL_MAP &&
                                  b->members[i].level == CT_LEVEL_PART && !is_reduce(node))
                             ? CT_LEVEL_PART
                             : CT_LEVEL_FULL;
        if (find_member(a, node) >= 0)
            continue;
        fits = may_join(f, first, node, level, cuts, &n_cuts);
        if (fits)
            join(f, first, node, level, cuts, n_cuts);
        for (int l = 0; l < a->n_loads; l++)
            fits = fits && f->home[a->loads[l].node->id] != second;
    }
    if (!fits || f->memory_out) {
        ct_kernel swap = *a;
        *a = *before;
        *before = swap;
        ct_kernel_free(before);
        return false;
    }
    ct_kernel_free(before);
    for (int i = 0; i < b->n_members; i++) {
        if (f->home[b->members[i].node->id] == second)
            f->home[b->members[i].node->id] = first;
    }
    b->n_members = b->n_loads = 0; // nothing is left of it
    for (int k = 0; k < f->n; k++) {
        if (k != first && k != second && needs(f->kernels[k], second))
            add_need(f, k, first);
    }
    return true;
}

static void merge_kernels(fuser *f) {
    for (int b = 1; b < f->n && !f->memory_out; b++) {
        for (int a = b - 1; a >= 0 && a >= b - LOOK_BACK; a--) {
            const ct_kernel *x = f->kernels[a], *y = f->kernels[b];
            if (y->kind == CT_KERNEL_CALL || y->n_members == 0)
                break;
            if (x->kind == CT_KERNEL_CALL || x->n_members == 0)
                continue;
            bool backward = needs(x, b); // the later number may have to run first
            int first = backward ? b : a, second = backward ? a : b;
            if (related(f, first, second) && merge(f, first, second) && backward)
                continue;
        }
    }
}

/* ---- after all nodes have their kernel ---- */

static void want_roots(fuser *f) {
    for (int i = 0; i < f->graph->n_outputs; i++)
        f->wanted[f->graph->outputs[i]->id] = true;
    for (int i = 0; i < f->graph->n_states; i++) {
        if (f->graph->states[i].exit)
            f->wanted[f->graph->states[i].exit->id] = true;
    }
}

/* What is read from memory now that kernels were merged. */
static void want_again(fuser *f) {
    memset(f->wanted, 0, (size_t)f->graph->n_nodes * sizeof *f->wanted);
    want_roots(f);
    for (int k = 0; k < f->n; k++) {
        const ct_kernel *kernel = f->kernels[k];
        for (int i = 0; i < kernel->n_loads; i++)
            f->wanted[kernel->loads[i].node->id] = true;
        if (kernel->kind != CT_KERNEL_CALL)
            continue;
        const ct_node *node = kernel->members[0].node;
        for (int i = 0; i < node->n_sources; i++) {
            ct_view view;
            f->wanted[ct_node_base(node->sources[i], &view)->id] = true;
        }
    }
}

static void mark_stored(fuser *f) {
    for (int k = 0; k < f->n; k++) {
        ct_kernel *kernel = f->kernels[k];
        for (int i = 0; i < kernel->n_members; i++) {
            const ct_node *node = kernel->members[i].node;
            kernel->members[i].stored = f->wanted[node->id] && f->home[node->id] == k;
        }
    }
}

/* A FULL member that a later pass of its row reads is computed again where that is cheap, else
 * kept. */
static void mark_kept(ct_kernel *kernel, int *cost) {
    for (int i = 0; i < kernel->n_members; i++) {
        ct_member *member = &kernel->members[i];
        cost[i] = 0;
        if (member->level == CT_LEVEL_PART)
            continue;
        cost[i] = weight(member->node->op);
        for (int k = 0; k < member->operands; k++) {
            const ct_origin *operand = &member->operand[k];
            if (operand->kind != CT_OPERAND_MEMBER)
                continue;
            const ct_member *source = &kernel->members[operand->index];
            if (source->level == CT_LEVEL_FULL && !source->kept)
                cost[i] += cost[operand->index];
        }
        bool later = false;
        for (int k = i + 1; k < kernel->n_members && !later; k++) {
            const ct_member *reader = &kernel->members[k];
            for (int j = 0; j < reader->operands; j++) {
                later = later || (reader->operand[j].kind == CT_OPERAND_MEMBER &&
                                  reader->operand[j].index == i && reader->stage > member->stage);
            }
        }
        member->kept = later && cost[i] > 4 && kernel->reduced <= ROW_AT_MOST;
    }
}

static void make_loops(ct_kernel *kernel) {
    int64_t total = full_count(kernel), before = total;
    kernel->n_loops = 0;
    for (int c = kernel->n_cuts - 1; c >= 0; c--) {
        int64_t cut = kernel->cuts[c];
        if (cut <= 1 || cut >= total)
            continue;
        kernel->loop[kernel->n_loops++] = before / cut;
        before = cut;
    }
    kernel->loop[kernel->n_loops++] = before;
    if (kernel->kind == CT_KERNEL_MAP && kernel->n_loops == 1)
        return;
    if (kernel->kind != CT_KERNEL_MAP &&
        kernel->outer == 1) { // rows or planes are counted by the loops before
        memmove(&kernel->loop[1], kernel->loop, (size_t)kernel->n_loops * sizeof *kernel->loop);
        kernel->loop[0] = 1;
        kernel->n_loops++;
    }
}

static void make_strides(ct_kernel *kernel, ct_load *load) {
    int64_t dim[CT_MAX_DIMS], stride[CT_MAX_DIMS], place[CT_MAX_DIMS], suffix = 1;
    int n = coalesce(&load->view, dim, stride);
    for (int d = n - 1; d >= 0; d--) {
        place[d] = suffix;
        suffix *= dim[d];
    }
    load->offset = load->view.offset;
    int reduced_loop = kernel->kind == CT_KERNEL_ROWS      ? kernel->n_loops - 1
                       : kernel->kind == CT_KERNEL_COLUMNS ? kernel->n_loops - 2
                                                           : -1;
    suffix = 1;
    int d = n - 1;
    for (int l = kernel->n_loops - 1; l >= 0; l--) {
        load->stride[l] = 0;
        if (l == reduced_loop && load->level == CT_LEVEL_PART)
            continue;
        while (d > 0 && suffix >= place[d] * dim[d])
            d--;
        if (kernel->loop[l] > 1 && d >= 0)
            load->stride[l] = suffix / place[d] * stride[d];
        suffix *= kernel->loop[l];
    }
}

static int last_id(const ct_kernel *kernel) {
    return (int)kernel->members[kernel->n_members - 1].node->id;
}

static int by_last_id(const void *a, const void *b) {
    return last_id(*(ct_kernel *const *)a) - last_id(*(ct_kernel *const *)b);
}

/* Kernels in recorded order of their last member, but none before what it needs. */
static bool put_in_order(fuser *f) {
    ct_kernel **waiting = ct_malloc(((size_t)f->n + 1) * sizeof *waiting);
    ct_kernel **order = ct_malloc(((size_t)f->n + 1) * sizeof *order);
    uint64_t *done = ct_calloc((size_t)f->words, sizeof *done);
    bool ok = waiting != NULL && order != NULL && done != NULL;
    if (ok) {
        int placed = 0, left = 0;
        for (int k = 0; k < f->n; k++) {
            f->kernels[k]->position = k;
            if (f->kernels[k]->n_members > 0)
                waiting[left++] = f->kernels[k];
            else
                done[k / 64] |= (uint64_t)1 << (k % 64);
        }
        qsort(waiting, (size_t)left, sizeof *waiting, by_last_id);
        while (left > 0) {
            int pick = -1;
            for (int i = 0; i < left && pick < 0; i++) {
                bool ready = true;
                for (int w = 0; w < f->words && ready; w++)
                    ready = (waiting[i]->needs[w] & ~done[w]) == 0;
                if (ready)
                    pick = i;
            }
            ct_kernel *kernel = waiting[pick];
            done[kernel->position / 64] |= (uint64_t)1 << (kernel->position % 64);
            order[placed++] = kernel;
            memmove(&waiting[pick], &waiting[pick + 1], (size_t)(--left - pick) * sizeof *waiting);
        }
        for (int k = 0; k < f->n; k++) {
            if (f->kernels[k]->n_members == 0)
                ct_kernel_free(f->kernels[k]);
        }
        f->n = placed;
        for (int k = 0; k < f->n; k++)
            order[k]->position = k;
        memcpy(f->kernels, order, (size_t)f->n * sizeof *order);
    }
    free(waiting);
    free(order);
    free(done);
    return ok;
}

ct_status ct_fuse(ct_graph *graph, ct_kernel ***kernels, int *n_kernels, ct_error *error) {
    fuser f = {.graph = graph, .words = graph->n_nodes / 64 + 1};
    size_t n = (size_t)graph->n_nodes + 1;
    f.kernels = ct_calloc(n, sizeof *f.kernels);
    f.home = ct_malloc(n * sizeof *f.home);
    f.wanted = ct_calloc(n, sizeof *f.wanted);
    int cost[CT_MAX_MEMBERS];
    f.memory_out = f.kernels == NULL || f.home == NULL || f.wanted == NULL;
    if (!f.memory_out)
        want_roots(&f);
    for (int i = 0; i < graph->n_nodes && !f.memory_out; i++)
        f.home[i] = -1;
    for (int i = 0; i < graph->n_nodes && !f.memory_out; i++) {
        ct_node *node = graph->nodes[i];
        if (node->op == CT_VIEW || node->op == CT_INPUT || node->op == CT_STATE ||
            node->op == CT_CONST || node->op == CT_IOTA) {
            continue;
        }
        bool empty = ct_shape_numel(&node->shape) == 0;
        for (int k = 0; k < node->n_sources; k++)
            empty = empty || ct_shape_numel(&node->sources[k]->shape) == 0;
        if (empty)
            call(&f, node);
        else if (ct_renders(node))
            place_elementwise(&f, node);
        else if (is_reduce(node))
            place_reduce(&f, node);
        else
            call(&f, node);
    }
    if (!f.memory_out)
        merge_kernels(&f);
    if (!f.memory_out) {
        want_again(&f);
        mark_stored(&f);
        for (int k = 0; k < f.n; k++) {
            ct_kernel *kernel = f.kernels[k];
            if (kernel->kind == CT_KERNEL_CALL || kernel->n_members == 0)
                continue;
            if (kernel->kind == CT_KERNEL_ROWS)
                mark_kept(kernel, cost);
            make_loops(kernel);
            for (int i = 0; i < kernel->n_loads; i++)
                make_strides(kernel, &kernel->loads[i]);
        }
        f.memory_out = !put_in_order(&f);
    }
    free(f.home);
    free(f.wanted);
    if (f.memory_out) {
        for (int k = 0; k < f.n; k++)
            ct_kernel_free(f.kernels[k]);
        free(f.kernels);
        return ct_fail(error, CT_ERR_MEMORY, "fuse: memory is out for %d nodes", graph->n_nodes);
    }
    *kernels = f.kernels;
    *n_kernels = f.n;
    return CT_OK;
}
