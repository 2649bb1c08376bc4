/* draw.h: graphs and plans for people to look at. */
#ifndef CT_KERNEL_DRAW_H
#define CT_KERNEL_DRAW_H

#include "graph/trace.h"
#include "kernel/kernel.h"
#include "kernel/text.h"

/* A line a node, then a line a kernel. */
void ct_draw_text(ct_text *out, const ct_trace *trace, const ct_plan *plan);
/* One digraph with a cluster of nodes and a cluster of kernels. */
void ct_draw_dot(ct_text *out, const ct_trace *trace, const ct_plan *plan);

#endif
