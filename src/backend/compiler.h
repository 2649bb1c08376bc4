/* compiler.h: the system's C compiler as a process of its own, and the artifacts it has made. */
#ifndef CT_BACKEND_COMPILER_H
#define CT_BACKEND_COMPILER_H

#include <sys/types.h>

#include "ctrain.h"

#define CT_PATH 1024

/* The compiler of this process: $CTRAIN_CC, $CC, cc, gcc or clang, whichever first runs and is one
 * that knows vector types. NULL with a message where there is none. Found once, and again when the
 * variables change. */
typedef struct ct_compiler {
    char command[CT_PATH]; /* what is run, words separated by spaces */
    char version[512];     /* its first line about itself */
    char flags[512];       /* for a shared object on this CPU */
    char cpu[17];          /* hash of the CPU's model and features */
} ct_compiler;
const ct_compiler *ct_compiler_find(ct_error *error);

/* An artifact on its way: one shared object of one source text. */
typedef struct ct_build {
    char directory[CT_PATH];
    char key[33];
    char made[CT_PATH + 64];   /* the compiler's result, before it is renamed */
    char report[CT_PATH + 64]; /* what the compiler says */
    pid_t process;             /* 0: none runs */
    bool temporary;            /* the directory is this process's own, without a cache behind it */
    bool cached;               /* the artifact was there already */
    double milliseconds;       /* that the compiler took */
    double began;
} ct_build;

/* Looks the source up in the cache, and starts the compiler where it is not there. `directory`
 * NULL: the default cache. `note` receives a sentence where a directory was refused and another is
 * used. */
ct_status ct_build_begin(ct_build *build, const char *directory, const char *source, char note[512],
                         ct_error *error);
/* CT_OK with *done false while the compiler runs, which `wait` waits for. */
ct_status ct_build_poll(ct_build *build, bool wait, bool *done, ct_error *error);
/* The finished artifact, verified and loaded; a handle for dlsym. NULL: it is damaged (and
 * removed). */
void *ct_build_load(ct_build *build, ct_error *error);
/* Ends a running compiler and removes what is half made. */
void ct_build_end(ct_build *build);

#endif
