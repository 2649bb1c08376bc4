// dialect.c: C, as the compiler of this machine takes it. The words are the very files that the eager loops are
// compiled from, so that both give the same bits.
#include "kernel/render.h"

#define EMBED(name, file)                                                                                   \
    __asm__(".pushsection .rodata\n" #name ":\n.incbin \"" file "\"\n.byte 0\n.popsection\n");              \
    extern const char name[] __attribute__((visibility("hidden")))

EMBED(ct_text_element, "graph/element.h");
EMBED(ct_text_reduce, "graph/reduce.h");
EMBED(ct_text_words, "kernel/words.h");
EMBED(ct_text_step, "kernel/step.h");

static const char *const prelude[] = {"\n", ct_text_step, "\n", ct_text_element, "\n", ct_text_reduce, "\n", ct_text_words, NULL};

const ct_dialect ct_dialect_c = {.name = "C", .prelude = prelude};
