/* timeline.c: see timeline.h. The format is the JSON array of complete events ("ph": "X") of the
 * Trace Event Format. */
#include "base/timeline.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

#include "base/error.h"

static FILE *file;
static pid_t owner;
static double start; /* of the file's time */
static bool first;

static void finish(void) {
    if (!ct_timeline_on())
        return;
    fputs("\n]\n", file);
    fclose(file);
    file = NULL;
}

ct_status ct_timeline_open(const char *path, ct_error *error) {
    struct timespec now;
    if (ct_timeline_on())
        return CT_OK;
    file = fopen(path, "we");
    if (!file)
        return ct_fail(error, CT_ERR_IO, "%s: %s", path, strerror(errno));
    clock_gettime(CLOCK_MONOTONIC, &now);
    start = (double)now.tv_sec + 1e-9 * (double)now.tv_nsec;
    first = true;
    owner = getpid();
    fputs("[", file);
    atexit(finish);
    return CT_OK;
}

bool ct_timeline_on(void) {
    return file && owner == getpid();
}

static void put_quoted(const char *text) {
    fputc('"', file);
    for (; *text; text++) {
        if (*text == '"' || *text == '\\')
            fputc('\\', file);
        if ((unsigned char)*text < ' ')
            fprintf(file, "\\u%04x", (unsigned char)*text);
        else
            fputc(*text, file);
    }
    fputc('"', file);
}

void ct_timeline_event(const char *name, const char *category, double begin, double end) {
    if (!ct_timeline_on())
        return;
    fputs(first ? "\n{\"name\": " : ",\n{\"name\": ", file);
    first = false;
    put_quoted(name);
    fputs(", \"cat\": ", file);
    put_quoted(category);
    fprintf(file, ", \"ph\": \"X\", \"pid\": %ld, \"tid\": 1, \"ts\": %.3f, \"dur\": %.3f}",
            (long)owner, (begin - start) * 1e6, (end - begin) * 1e6);
}
