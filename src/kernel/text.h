/* text.h: text that grows. Once memory is out it stays as it is, and `failed` is set. */
#ifndef CT_KERNEL_TEXT_H
#define CT_KERNEL_TEXT_H

#include "ctrain.h"

typedef struct ct_text {
    char *data; /* terminated; NULL while empty */
    size_t used, room;
    bool failed;
} ct_text;

void ct_put(ct_text *text, const char *format, ...) CT_PRINTF(2, 3);
void ct_put_text(ct_text *text, const char *plain);

#endif
