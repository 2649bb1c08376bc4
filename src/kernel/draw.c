/* draw.c: a recorded step and what was fused from it, as text
 * or in the language of graphviz's dot. */
#include "kernel/draw.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/heap.h"     // defines: ct_malloc
#include "kernel/render.h" // defines: ct_kernel_title

/* While a drawing is made, a recorded node's mark is its place in the order, plus one. */
static void number(const ct_trace *trace, bool on) {
    for (int i = 0; i < trace->n_order; i++)
        trace->order[i]->mark = on ? i + 1 : 0;
}

static void put_node(ct_text *out, const ct_node *node) {
    char shape[CT_SHAPE_TEXT];
    ct_put_text(out, ct_op_table[node->op].name);
    if (node->op == CT_CONST) {
        if (node->attr.value.is_int)
            ct_put(out, " %lld", (long long)node->attr.value.i);
        else
            ct_put(out, " %.9g", node->attr.value.f);
    } else if (node->op == CT_INPUT || node->op == CT_STATE) {
        ct_put(out, " %d", node->attr.slot + 1);
    }
    ct_put(out, " %s %s", ct_dtype_name(node->dtype), ct_shape_text(&node->shape, shape));
}

static void put_line(ct_text *out, const char *before, const ct_line *line) {
    if (line->source)
        ct_put(out, "%s%.100s:%d", before, line->source, line->line);
}

/* What of the step node `node` is: "result 1, new state 2", or nothing. */
static void put_role(ct_text *out, const ct_trace *trace, const ct_node *node, const char *before) {
    for (int i = 0; i < trace->n_outputs; i++)
        if (trace->outputs[i] == node) {
            ct_put(out, i < trace->n_results ? "%sresult %d" : "%sgradient %d", before,
                   i < trace->n_results ? i + 1 : i - trace->n_results + 1);
            before = ", ";
        }
    for (int i = 0; i < trace->n_states; i++)
        if (trace->states[i].exit == node) {
            ct_put(out, "%snew state %d", before, i + 1);
            before = ", ";
        }
}

/* The kernel that writes the node, or -1. */
static int *writers(const ct_plan *plan) {
    int n = plan->graph->n_nodes, *by = ct_malloc((size_t)(n + 1) * sizeof *by);
    if (!by)
        return NULL;
    for (int i = 0; i < n; i++)
        by[i] = -1;
    for (int k = 0; k < plan->n_kernels; k++)
        for (int m = 0; m < plan->kernels[k]->n_members; m++)
            by[plan->kernels[k]->members[m].node->id] = k;
    return by;
}

typedef struct reads {
    const ct_node *nodes[CT_MAX_LOADS + 8];
    int n;
} reads;

static void add_read(reads *list, const ct_node *node) {
    for (int i = 0; i < list->n; i++)
        if (list->nodes[i] == node)
            return;
    if (list->n < CT_MAX_LOADS + 8)
        list->nodes[list->n++] = node;
}

/* What a kernel reads through memory. */
static void list_reads(const ct_kernel *kernel, reads *list) {
    list->n = 0;
    for (int i = 0; i < kernel->n_loads; i++)
        add_read(list, kernel->loads[i].node);
    if (kernel->kind != CT_KERNEL_CALL)
        return;
    ct_view view;
    ct_node *node = kernel->members[0].node;
    for (int i = 0; i < node->n_sources; i++)
        add_read(list, ct_node_base(node->sources[i], &view));
}

static void kernel_text(const ct_plan *plan, int k, char text[512]) {
    ct_kernel_title(plan, k, text, 512);
}

void ct_draw_text(ct_text *out, const ct_trace *trace, const ct_plan *plan) {
    char title[512];
    int *by = writers(plan);
    number(trace, true);
    ct_put(out, "recorded: %d nodes\n", trace->n_order);
    for (int i = 0; i < trace->n_order; i++) {
        const ct_node *node = trace->order[i];
        ct_put(out, "%5d  ", i + 1);
        put_node(out, node);
        for (int s = 0; s < node->n_sources; s++)
            ct_put(out, "%s%d", s ? ", " : " <- ", node->sources[s]->mark);
        put_role(out, trace, node, " -> ");
        put_line(out, "  ", &node->line);
        ct_put_text(out, "\n");
    }
    number(trace, false);
    ct_put(out, "\nfused: %d kernels and library calls, arena %lld bytes\n", plan->n_kernels,
           (long long)plan->arena_bytes);
    for (int k = 0; k < plan->n_kernels && by; k++) {
        const ct_kernel *kernel = plan->kernels[k];
        const char *before = " <- ";
        reads list;
        kernel_text(plan, k, title);
        ct_put(out, "%5d  %s: %s", k + 1, kernel->kind == CT_KERNEL_CALL ? "call" : "kernel",
               title);
        list_reads(kernel, &list);
        for (int i = 0; i < list.n; i++) {
            const ct_node *node = list.nodes[i];
            if (by[node->id] >= 0)
                ct_put(out, "%s%d", before, by[node->id] + 1);
            else if (node->op == CT_INPUT || node->op == CT_STATE)
                ct_put(out, "%s%s %d", before, ct_op_table[node->op].name, node->attr.slot + 1);
            else
                continue;
            before = ", ";
        }
        ct_put_text(out, "\n");
    }
    if (!by)
        out->failed = true;
    free(by);
}

/* Inside the quotes of a label. */
static void put_quoted(ct_text *out, const char *plain) {
    for (; *plain; plain++) {
        if (*plain == '"' || *plain == '\\')
            ct_put_text(out, "\\");
        ct_put(out, "%c", *plain);
    }
}

static void put_label(ct_text *out, const ct_text *label) {
    put_quoted(out, label->data ? label->data : "");
}

static void draw_recorded(ct_text *out, const ct_trace *trace) {
    ct_put(out, "  subgraph cluster_recorded {\n    label=\"recorded: %d nodes\";\n",
           trace->n_order);
    for (int i = 0; i < trace->n_order; i++) {
        const ct_node *node = trace->order[i];
        ct_text label = {0};
        put_node(&label, node);
        ct_put(out, "    n%d [label=\"", i + 1);
        put_label(out, &label);
        free(label.data);
        label = (ct_text){0};
        put_role(&label, trace, node, "");
        bool leaves = label.used > 0;
        if (leaves)
            ct_put_text(out, "\\n");
        put_label(out, &label);
        free(label.data);
        label = (ct_text){0};
        put_line(&label, "", &node->line);
        if (label.used > 0)
            ct_put_text(out, "\\n");
        put_label(out, &label);
        free(label.data);
        ct_put(out, "\"%s];\n",
               leaves ? ", penwidth=2"
               : node->op == CT_INPUT || node->op == CT_STATE
                   ? ", style=filled, fillcolor=lightgrey"
                   : "");
    }
    for (int i = 0; i < trace->n_order; i++)
        for (int s = 0; s < trace->order[i]->n_sources; s++)
            ct_put(out, "    n%d -> n%d;\n", trace->order[i]->sources[s]->mark, i + 1);
    ct_put_text(out, "  }\n");
}

static void draw_fused(ct_text *out, const ct_plan *plan, const int *by) {
    char title[512];
    ct_put(out, "  subgraph cluster_fused {\n    label=\"fused: %d kernels and library calls\";\n",
           plan->n_kernels);
    for (int i = 0; i < plan->graph->n_nodes; i++) {
        const ct_node *node = plan->graph->nodes[i];
        if (node->op == CT_INPUT || node->op == CT_STATE) {
            ct_text label = {0};
            put_node(&label, node);
            ct_put(out, "    s%d [style=filled, fillcolor=lightgrey, label=\"", i);
            put_label(out, &label);
            ct_put_text(out, "\"];\n");
            free(label.data);
        }
    }
    for (int k = 0; k < plan->n_kernels; k++) {
        const ct_kernel *kernel = plan->kernels[k];
        reads list;
        kernel_text(plan, k, title);
        ct_put(out, "    k%d [label=\"%d: ", k + 1, k + 1);
        put_quoted(out, title);
        ct_put(out, "\"%s];\n", kernel->kind == CT_KERNEL_CALL ? ", shape=ellipse" : "");
        list_reads(kernel, &list);
        for (int i = 0; i < list.n; i++) {
            const ct_node *node = list.nodes[i];
            if (by[node->id] >= 0)
                ct_put(out, "    k%d -> k%d;\n", by[node->id] + 1, k + 1);
            else if (node->op == CT_INPUT || node->op == CT_STATE)
                ct_put(out, "    s%d -> k%d;\n", (int)node->id, k + 1);
        }
    }
    ct_put_text(out, "  }\n");
}

void ct_draw_dot(ct_text *out, const ct_trace *trace, const ct_plan *plan) {
    int *by = writers(plan);
    if (!by) {
        out->failed = true;
        return;
    }
    number(trace, true);
    ct_put_text(out, "digraph step {\n  node [shape=box, fontname=\"sans-serif\", fontsize=10];\n");
    draw_recorded(out, trace);
    draw_fused(out, plan, by);
    ct_put_text(out, "}\n");
    number(trace, false);
    free(by);
}
