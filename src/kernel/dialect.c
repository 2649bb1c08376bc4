// dialect.c: C, as the compiler of this machine takes it. The words are the texts of the very files
// that the eager loops are compiled from (the Makefile makes them), so that both give the same
// bits.
#include "kernel/render.h"

extern const char ct_element_text[], ct_reduce_text[], ct_words_text[], ct_step_text[];

static const char *const prelude[] = {
    "\n", ct_step_text, "\n", ct_element_text, "\n", ct_reduce_text, "\n", ct_words_text, NULL};

const ct_dialect ct_dialect_c = {.name = "C", .prelude = prelude};
