/* store.h: the artifacts that lie in a cache directory, for people who look after it. */
#ifndef CT_BACKEND_STORE_H
#define CT_BACKEND_STORE_H

#include "backend/compiler.h"

/* The cache of this user, where nothing else is asked for;
 * false where no home directory is known. */
bool ct_store_directory(char path[CT_PATH]);

typedef struct ct_store_file {
    char key[33];  /* of the artifact it belongs to */
    bool finished; /* no half-made one of a running or ended compiler */
    int64_t bytes;
    double age; /* seconds since it was written */
} ct_store_file;

/* Tells of each of our own files in the directory; a directory that does not exist has none. */
ct_status ct_store_list(const char *directory,
                        void (*told)(void *context, const ct_store_file *file), void *context,
                        ct_error *error);
/* Removes our own files, and none else; half-made ones only when nobody can still be at work on
 * them. */
ct_status ct_store_clear(const char *directory, int64_t *files, int64_t *bytes, ct_error *error);

#endif
