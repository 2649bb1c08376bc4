// text.c: see text.h.
#include "kernel/text.h"

#include <stdarg.h>
#include <stdio.h>
#include <string.h>

#include "base/heap.h" // defines: ct_realloc

static bool reserve(ct_text *text, size_t more) {
    if (text->failed)
        return false;
    if (text->used + more < text->room)
        return true;
    size_t room = 2 * text->room + more + 256;
    char *data = ct_realloc(text->data, room);
    if (data == NULL) {
        text->failed = true;
        return false;
    }
    text->data = data;
    text->room = room;
    return true;
}

void ct_put_text(ct_text *text, const char *plain) {
    size_t length = strlen(plain);
    if (!reserve(text, length + 1))
        return;
    memcpy(text->data + text->used, plain, length + 1);
    text->used += length;
}

void ct_put(ct_text *text, const char *format, ...) {
    va_list arguments;
    va_start(arguments, format);
    int length = vsnprintf(NULL, 0, format, arguments);
    va_end(arguments);
    if (length < 0 || !reserve(text, (size_t)length + 1))
        return;
    va_start(arguments, format);
    vsnprintf(text->data + text->used, (size_t)length + 1, format, arguments);
    va_end(arguments);
    text->used += (size_t)length;
}
