// render.c: a plan as one file: the words it is written in, a function per kernel (one for all
// kernels that differ in addresses alone), and ctrain_step, which calls them and the libraries in
// order.
#include "kernel/render.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/error.h" // defines: ct_fail
#include "base/heap.h"  // defines: ct_calloc
#include "kernel/inline.h"
#include "kernel/loops.h"
#include "kernel/order.h"

#define GRAIN 16384     /* elements that are worth a thread's while */
#define COLUMN_GRAIN 64 /* columns */

/* ---- what a kernel is, in words ---- */

static void put_lines(const ct_plan *plan, const ct_kernel *kernel, ct_text *text) {
    ct_line seen[8];
    int n = 0, more = 0;
    for (int i = 0; i < kernel->n_members; i++) {
        const ct_node *node = kernel->members[i].node;
        int next = plan->graph->first_line[node->id];
        ct_line line = node->line;
        for (;;) {
            bool known = line.source == NULL;
            for (int k = 0; k < n; k++)
                known = known || (seen[k].source == line.source && seen[k].line == line.line);
            if (!known && n == 8)
                more++;
            else if (!known)
                seen[n++] = line;
            if (next < 0)
                break;
            line = plan->graph->lines[next].line;
            next = plan->graph->lines[next].next;
        }
    }
    for (int k = 0; k < n; k++) {
        bool same = k > 0 && seen[k].source == seen[k - 1].source;
        const char *name = seen[k].source[0] == '@' || seen[k].source[0] == '=' ? seen[k].source + 1
                                                                                : seen[k].source;
        if (same)
            ct_put(text, ",%d", seen[k].line);
        else
            ct_put(text, "%s%.80s:%d", k > 0 ? " " : "", name, seen[k].line);
    }
    if (more > 0)
        ct_put_text(text, " ...");
}

static void put_title(const ct_plan *plan, const ct_kernel *kernel, ct_text *text) {
    char shape[CT_SHAPE_TEXT];
    int shown = 0;
    for (int i = 0; i < kernel->n_members && shown < 12; i++) {
        const ct_op op = kernel->members[i].node->op;
        if (op == CT_COPY && kernel->n_members > 1)
            continue;
        ct_put(text, "%s%s", shown++ > 0 ? " " : "", ct_op_table[op].name);
    }
    if (kernel->n_members > 12)
        ct_put_text(text, " ...");
    const ct_node *node = kernel->members[0].node;
    switch (kernel->kind) {
    case CT_KERNEL_MAP: ct_put(text, " %s", ct_shape_text(&node->shape, shape)); break;
    case CT_KERNEL_ROWS:
        ct_put(text, " of %lld rows of %lld", (long long)kernel->outer, (long long)kernel->reduced);
        break;
    case CT_KERNEL_COLUMNS:
        if (kernel->outer > 1)
            ct_put(text, " of %lld times", (long long)kernel->outer);
        ct_put(text, " of %lld columns of %lld", (long long)kernel->inner,
               (long long)kernel->reduced);
        break;
    case CT_KERNEL_CALL:
        for (int i = 0; i < node->n_sources; i++) {
            ct_put(text, "%s%s", i > 0 ? ", " : " ",
                   ct_shape_text(&node->sources[i]->shape, shape));
        }
        if (node->n_sources == 0)
            ct_put(text, " %s", ct_shape_text(&node->shape, shape));
        break;
    }
    ct_put(text, " %s, ", ct_dtype_name(node->dtype));
    put_lines(plan, kernel, text);
}

void ct_kernel_title(const ct_plan *plan, int index, char *text, size_t size) {
    ct_text title = {0};
    put_title(plan, plan->kernels[index], &title);
    snprintf(text, size, "%s", title.data != NULL ? title.data : "");
    free(title.data);
}

static double node_bytes(const ct_node *node) {
    return (double)ct_shape_numel(&node->shape) * (double)ct_dtype_size(node->dtype);
}

void ct_kernel_work(const ct_plan *plan, int index, double *bytes, double *flops) {
    const ct_kernel *kernel = plan->kernels[index];
    *bytes = *flops = 0;
    for (int i = 0; i < kernel->n_loads; i++) {
        const ct_load *load = &kernel->loads[i];
        double whole = node_bytes(load->node);
        double seen =
            (double)ct_shape_numel(&load->view.shape) * (double)ct_dtype_size(load->node->dtype);
        if (load->node->op != CT_IOTA)
            *bytes += seen < whole ? seen : whole;
    }
    for (int i = 0; i < kernel->n_members; i++) {
        if (kernel->members[i].stored)
            *bytes += node_bytes(kernel->members[i].node);
    }
    const ct_node *node = kernel->members[0].node;
    if (kernel->kind != CT_KERNEL_CALL)
        return;
    for (int i = 0; i < node->n_sources; i++)
        *bytes += node_bytes(node->sources[i]);
    if (node->op == CT_MATMUL) {
        *flops = 2 * (double)ct_shape_numel(&node->shape) *
                 (double)node->sources[0]->shape.dim[node->sources[0]->shape.ndim - 1];
    }
}

/* ---- functions ---- */

typedef struct rendered {
    int *function; /* by kernel: the kernel whose function it uses */
    char **body;   /* by kernel: its function's text without the name */
} rendered;

static void put_comment(ct_text *out, const ct_plan *plan, int k) {
    ct_put(out, "\n/* %d: ", k);
    put_title(plan, plan->kernels[k], out);
    ct_put_text(out, " */\n");
}

static bool put_functions(ct_text *out, const ct_plan *plan, rendered *r) {
    for (int k = 0; k < plan->n_kernels; k++) {
        const ct_kernel *kernel = plan->kernels[k];
        r->function[k] = k;
        if (kernel->kind == CT_KERNEL_CALL)
            continue;
        ct_text body = {0};
        ct_render_kernel(&body, plan, kernel, "KERNEL");
        if (body.failed) {
            free(body.data);
            return false;
        }
        r->body[k] = body.data;
        for (int other = 0; other < k && r->function[k] == k; other++) {
            if (r->body[other] != NULL && strcmp(r->body[other], body.data) == 0)
                r->function[k] = r->function[other];
        }
        if (r->function[k] != k)
            continue;
        put_comment(out, plan, k);
        const char *name = strstr(body.data, "KERNEL"); // in its first line
        ct_put(out, "%.*sk%d%s", (int)(name - body.data), body.data, k, name + strlen("KERNEL"));
    }
    return true;
}

static void put_place(ct_text *out, const ct_plan *plan, const ct_node *node) {
    ct_place place = plan->places[node->id];
    switch (place.kind) {
    case CT_PLACE_ARENA: ct_put(out, "s->arena + %lld", (long long)place.index); break;
    case CT_PLACE_INPUT: ct_put(out, "s->inputs[%lld]", (long long)place.index); break;
    case CT_PLACE_STATE: ct_put(out, "s->states[%lld]", (long long)place.index); break;
    case CT_PLACE_OUTPUT: ct_put(out, "s->outputs[%lld]", (long long)place.index); break;
    case CT_PLACE_NONE: ct_put_text(out, "0"); break;
    }
}

static void put_pointers(ct_text *out, const ct_plan *plan, const ct_kernel *kernel) {
    const char *comma = "";
    for (int i = 0; i < kernel->n_loads; i++) {
        if (kernel->loads[i].node->op == CT_IOTA)
            continue;
        ct_put_text(out, comma);
        put_place(out, plan, kernel->loads[i].node);
        comma = ", ";
    }
    for (int i = 0; i < kernel->n_members; i++) {
        if (!kernel->members[i].stored)
            continue;
        ct_put_text(out, comma);
        put_place(out, plan, kernel->members[i].node);
        comma = ", ";
    }
}

/* How many pieces the kernel's work comes in, and how many of them a thread takes at least. */
static void extent(const ct_kernel *kernel, int64_t *count, int64_t *grain) {
    int64_t inner = kernel->loop[kernel->n_loops - 1];
    int tiled = ct_tiled_loop(kernel);
    if (tiled >= 0) {
        *count = ct_tiled_pieces(kernel, tiled);
        *grain = GRAIN / inner / 16 + 1;
        return;
    }
    switch (kernel->kind) {
    case CT_KERNEL_MAP:
        *count = kernel->n_loops == 1 ? inner : kernel->outer / inner;
        *grain = kernel->n_loops == 1 ? GRAIN : GRAIN / inner + 1;
        break;
    case CT_KERNEL_ROWS:
        *count = kernel->outer;
        *grain = GRAIN / 2 / kernel->reduced + 1;
        break;
    default: ct_order_columns_extent(kernel, GRAIN / 2, count, grain); break;
    }
}

static void put_step(ct_text *out, const ct_plan *plan, const rendered *r) {
    ct_put_text(
        out, "\n__attribute__((visibility(\"default\")))\nint ctrain_step(const ct_step *s) {\n");
    for (int k = 0; k < plan->n_kernels; k++) {
        const ct_kernel *kernel = plan->kernels[k];
        ct_put_text(out, "    // ");
        ct_put(out, "%d: ", k);
        put_title(plan, kernel, out);
        ct_put_text(out, "\n");
        if (kernel->kind == CT_KERNEL_CALL) {
            if (!ct_put_inline_call(out, plan, kernel)) {
                ct_put(out, "    if (s->call(s->context, %d) != 0) return 1;\n", k);
            }
        } else {
            int64_t count, grain;
            extent(kernel, &count, &grain);
            ct_put(out, "    {\n        void *p[] = {");
            put_pointers(out, plan, kernel);
            ct_put_text(out, "};\n");
            if (count <= grain) {
                ct_put(out, "        k%d(p, 0, %lld);\n    }\n", r->function[k], (long long)count);
            } else {
                ct_put(out, "        s->parallel(s->threads, %lld, %lld, k%d, p);\n    }\n",
                       (long long)count, (long long)grain, r->function[k]);
            }
        }
        ct_put(out, "    if (s->mark) s->mark(s->context, %d);\n", k);
    }
    if (plan->n_departures > 0)
        ct_put_text(out, "    // exit versions that could not be written in place\n");
    for (int i = 0; i < plan->n_departures; i++) {
        const ct_departure *departure = &plan->departures[i];
        ct_put(out, "    __builtin_memcpy(s->states[%lld], ", (long long)departure->place.index);
        put_place(out, plan, departure->node);
        ct_put(out, ", %lld);\n", (long long)node_bytes(departure->node));
    }
    ct_put_text(out, "    return 0;\n}\n");
}

char *ct_render(const ct_plan *plan, const ct_dialect *dialect, ct_error *error) {
    ct_text out = {0};
    size_t n = (size_t)plan->n_kernels + 1;
    rendered r = {ct_calloc(n, sizeof *r.function), ct_calloc(n, sizeof *r.body)};
    bool ok = r.function != NULL && r.body != NULL;
    if (ok) {
        ct_put(&out,
               "/* A training step of ctrain %s: %d kernels and library calls for %d nodes. */\n",
               CT_VERSION, plan->n_kernels, plan->graph->n_nodes);
        for (int i = 0; dialect->prelude[i] != NULL; i++)
            ct_put_text(&out, dialect->prelude[i]);
        ct_render_operations(&out, plan);
        ok = put_functions(&out, plan, &r);
    }
    if (ok)
        put_step(&out, plan, &r);
    for (int k = 0; r.body != NULL && k < plan->n_kernels; k++)
        free(r.body[k]);
    free(r.body);
    free(r.function);
    if (ok && !out.failed)
        return out.data;
    free(out.data);
    ct_fail(error, CT_ERR_MEMORY, "render: memory is out for the source of a step");
    return NULL;
}
