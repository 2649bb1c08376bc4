/* h5.h: HDF5 files, through libhdf5, as arrays of our element types by name, and attributes.
 *
 * A file is either open for reading, or new: written beside its target as <path>.<8 hex>.tmp and
 * put in its place by ct_h5_commit, so that a reader sees the old file or the whole new one. Names
 * and sizes found in a file are checked before memory is taken for them. Each error names the file,
 * the dataset or attribute, and libhdf5's own reason. libhdf5 is entered under one lock, and prints
 * nothing; a host's own settings for its error stack are put back.
 *
 * Element types on disk, little-endian: bool is the enumeration FALSE, TRUE over int8 (as h5py has
 * it); float16 is the IEEE half; bfloat16 is uint16 with the attribute is_bfloat16 = TRUE (and
 * int16, uint16 or a 2-byte opaque type with that attribute, or with "torch.bfloat16" in the
 * attribute dtypes, is read as bfloat16). uint16 is read as int32, uint32 and uint64 as int64; a
 * uint64 beyond int64 is an error. */
#ifndef CT_IO_H5_H
#define CT_IO_H5_H

#include "base/shape.h"

typedef struct ct_h5 ct_h5;

typedef struct ct_h5_info {
    ct_dtype dtype; /* in which ct_h5_read gives it */
    ct_shape shape;
} ct_h5_info;

/* Opens an existing file for reading. */
ct_h5 *ct_h5_open(const char *path, ct_error *error);
/* Begins a new file that is to become `path`. */
ct_h5 *ct_h5_create(const char *path, ct_error *error);
/* Flushes the new file and its folder to the disk and renames it to its path. The file is closed
 * after it, whatever it returns; on failure nothing is left and what was at `path` before still is.
 */
ct_status ct_h5_commit(ct_h5 *file, ct_error *error);
/* Closes the file, and removes it where it is new and not committed. NULL is allowed. */
void ct_h5_free(ct_h5 *file);

/* ---- Datasets ------------------------------------------------------------------------------- */

/* Writes `data`, C order, as a dataset. */
ct_status ct_h5_write(ct_h5 *file, const char *name, ct_dtype dtype, const ct_shape *shape,
                      const void *data, ct_error *error);
/* Says what a dataset is. CT_ERR_UNSUPPORTED where it is nothing that a tensor can hold. */
ct_status ct_h5_describe(ct_h5 *file, const char *name, ct_h5_info *info, ct_error *error);
/* Reads a dataset, or its block of `count` elements a dimension from `start` (both NULL: all of
 * it), into `data`, C order, in the dtype that ct_h5_describe says. */
ct_status ct_h5_read(ct_h5 *file, const char *name, const int64_t *start, const int64_t *count,
                     void *data, ct_error *error);
/* Calls visit for each dataset, those in groups as "group/name", until it returns false. */
ct_status ct_h5_each_dataset(ct_h5 *file, bool (*visit)(void *context, const char *name),
                             void *context, ct_error *error);

/* ---- Attributes: of the dataset or group `object`, or, NULL, of the file's root ------------- */

typedef enum ct_h5_kind {
    CT_H5_ABSENT,
    CT_H5_STRING,
    CT_H5_INT,
    CT_H5_FLOAT,
    CT_H5_BOOL,
    CT_H5_OTHER
} ct_h5_kind;

typedef struct ct_h5_value {
    ct_h5_kind kind;
    char *text; /* STRING: ended by 0, to be given back with free() */
    int64_t i;  /* INT, BOOL */
    double f;   /* INT, FLOAT */
} ct_h5_value;

ct_status ct_h5_set_string(ct_h5 *file, const char *object, const char *name, const char *text,
                           ct_error *error);
ct_status ct_h5_set_float(ct_h5 *file, const char *object, const char *name, double value,
                          ct_error *error);
ct_status ct_h5_set_bool(ct_h5 *file, const char *object, const char *name, bool value,
                         ct_error *error);
/* A list of one string, and a list of one list of integers. */
ct_status ct_h5_set_strings(ct_h5 *file, const char *object, const char *name, const char *text,
                            ct_error *error);
ct_status ct_h5_set_shapes(ct_h5 *file, const char *object, const char *name, const ct_shape *shape,
                           ct_error *error);
/* The attribute's value, or the first one of several; kind
 * ABSENT where there is none of that name. */
ct_status ct_h5_get(ct_h5 *file, const char *object, const char *name, ct_h5_value *value,
                    ct_error *error);
ct_status ct_h5_each_attribute(ct_h5 *file, const char *object,
                               bool (*visit)(void *context, const char *name), void *context,
                               ct_error *error);

#endif
