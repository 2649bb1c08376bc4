/* loops.h: the loop nest of one kernel as source text. Shared by the files of the renderer. */
#ifndef CT_KERNEL_LOOPS_H
#define CT_KERNEL_LOOPS_H

#include "kernel/render.h"
#include "kernel/text.h"

/* Where in a nest text is being written. A value's name is m<member> or x<load>. */
typedef struct ct_nest {
    ct_text *out;
    const ct_plan *plan;
    const ct_kernel *kernel;
    int width;   /* 4 or 8: which of words.h a vector step takes, W4 or W8 elements */
    bool vector; /* the innermost loop takes vectors */
    int indent;
    const char *index; /* of the innermost loop */
    bool across;       /* PART values are vectors too: the vector is across rows */
    int pass;
    int tiled; /* the loop along which some loads lie, turned round before the innermost loop; or -1
                */
    bool needs_member[CT_MAX_MEMBERS];
    bool needs_load[CT_MAX_LOADS];
} ct_nest;

/* A line at the nest's indent; the format ends without a newline. */
void ct_line_out(ct_nest *nest, const char *format, ...) CT_PRINTF(2, 3);

/* expression.c */
/* "f32" and the like: the word for the type that elements are computed in (half types: f32; bool: a
 * mask). */
const char *ct_word(ct_dtype dtype);
const char *ct_memory_type(ct_dtype dtype);
/* The type of a value in registers. */
const char *ct_value_type(ct_dtype dtype, bool vector);
void ct_constant_text(char *text, size_t size, ct_scalar value, ct_dtype dtype);
/* Declares m<index> from its operands' names. */
void ct_render_member(ct_nest *nest, int index);
/* The functions that rendered members call, for every operation and type in the plan. */
void ct_render_operations(ct_text *out, const ct_plan *plan);
/* "S", "V4" or "V8": how the names of functions begin where the nest is. */
const char *ct_form(const ct_nest *nest);

/* loops.c: the function `name` of a MAP, ROWS or COLUMNS kernel. */
void ct_render_kernel(ct_text *out, const ct_plan *plan, const ct_kernel *kernel, const char *name);

/* Parts of a nest. The FULL members and loads that a pass computes; false where there is nothing to
 * do. */
bool ct_find_needs(ct_nest *nest, int pass);
void ct_put_pointers(ct_nest *nest);
/* The counters i0, i1 ... of the outer loops, taken from `row`. */
void ct_put_counters(ct_nest *nest, int loops);
/* Where the loads of a level are at the head of loop `loop`, with `outer_loops` around it. */
void ct_put_heads(ct_nest *nest, int outer_loops, int loop, ct_level level);
/* Where one load is when loop `loop` is at `at`, the loops around it at 0; for vectors along loop
 * 0. */
void ct_put_head(ct_nest *nest, int index, int loop, const char *at);
/* Declares x<index> at the nest's index of a loop in which it has this stride. */
void ct_put_load(ct_nest *nest, int index, int64_t stride);

/* The loop of a MAP kernel that is walked in tiles, or -1, and how many pieces the work then comes
 * in. */
int ct_tiled_loop(const ct_kernel *kernel);
int64_t ct_tiled_pieces(const ct_kernel *kernel, int loop);

/* Pointers in a kernel's list: loads from memory first, then stored members. -1: it has none. */
int ct_load_slot(const ct_kernel *kernel, int load);
int ct_store_slot(const ct_kernel *kernel, int member);

#endif
