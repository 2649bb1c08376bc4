/* h5.c: see h5.h. Every public function holds the lock and libhdf5's silenced error stack between
 * enter and leave; static functions are called within. Every hid_t lives in one function, which
 * closes it on each way out. */
#define H5_USE_110_API
#include <errno.h>
#include <fcntl.h>
#include <hdf5.h>
#include <limits.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <time.h>
#include <unistd.h>

#include "base/error.h"
#include "base/heap.h"
#include "io/h5.h"

struct ct_h5 {
    hid_t id;
    char *path;         /* the target */
    char *temporary;    /* where it is written; NULL: open for reading */
    int64_t file_bytes; /* of a file open for reading */
    bool failed;        /* something could not be written: what there is must not be put in place */
};

/* ---- Lock, errors --------------------------------------------------------------------------- */

static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
static H5E_auto2_t host_handler;
static void *host_context;

static void enter(void) {
    pthread_mutex_lock(&lock);
    if (H5Eget_auto2(H5E_DEFAULT, &host_handler, &host_context) < 0)
        host_handler = NULL;
    H5Eset_auto2(H5E_DEFAULT, NULL, NULL);
    H5Eclear2(H5E_DEFAULT);
}

static ct_status leave(ct_status status) {
    H5Eclear2(H5E_DEFAULT);
    H5Eset_auto2(H5E_DEFAULT, host_handler, host_context);
    pthread_mutex_unlock(&lock);
    return status;
}

static herr_t keep_innermost(unsigned n, const H5E_error2_t *entry, void *context) {
    (void)n;
    snprintf(context, 256, "%s", entry->desc ? entry->desc : "unknown reason");
    return 1; /* upward, the first is the innermost */
}

/* libhdf5's own reason. Where the system refused, that alone: it comes as "..., error message =
 * 'text', ...". */
static const char *reason(char text[256]) {
    static const char mark[] = "error message = '";
    snprintf(text, 256, "unknown reason");
    H5Ewalk2(H5E_DEFAULT, H5E_WALK_UPWARD, keep_innermost, text);
    char *system = strstr(text, mark);
    if (system) {
        system += sizeof mark - 1;
        size_t length = strcspn(system, "'");
        memmove(text, system, length);
        text[length] = 0;
    }
    return text;
}

/* "'model.h5': dataset 'fc.weight': could not ...: reason" */
static ct_status fail_at(const ct_h5 *file, const char *what, const char *name, const char *problem,
                         ct_error *error) {
    char text[256];
    return ct_fail(error, CT_ERR_IO, "'%s': %s '%.200s' %s: %s", file->path, what, name, problem,
                   reason(text));
}

/* ---- Opening, creating, closing ------------------------------------------------------------- */

static ct_h5 *new_handle(const char *path, ct_error *error) {
    ct_h5 *file = ct_calloc(1, sizeof *file);
    if (file)
        file->path = ct_strdup(path);
    if (file && file->path) {
        file->id = H5I_INVALID_HID;
        return file;
    }
    free(file);
    ct_fail(error, CT_ERR_MEMORY, "'%s': memory is out", path);
    return NULL;
}

static void free_handle(ct_h5 *file) {
    free(file->path);
    free(file->temporary);
    free(file);
}

/* How files are opened: without locks (a network folder may have none, and a file in its place
 * never changes), and closed even where something in them was left open. */
static hid_t access_list(void) {
    hid_t list = H5Pcreate(H5P_FILE_ACCESS);
    if (list >= 0) {
        H5Pset_fclose_degree(list, H5F_CLOSE_STRONG);
        H5Pset_libver_bounds(list, H5F_LIBVER_V18,
                             H5F_LIBVER_LATEST); /* attributes beyond 64 KiB, any number */
#if H5_VERSION_GE(1, 10, 7)
        H5Pset_file_locking(list, false, true);
#endif
    }
    return list;
}

ct_h5 *ct_h5_open(const char *path, ct_error *error) {
    char text[256];
    struct stat status;
    if (stat(path, &status) != 0) {
        ct_fail(error, CT_ERR_IO, "cannot open '%s': %s", path, strerror(errno));
        return NULL;
    }
    if (!S_ISREG(status.st_mode)) {
        ct_fail(error, CT_ERR_IO, "cannot open '%s': it is %s", path,
                S_ISDIR(status.st_mode) ? "a folder" : "not an ordinary file");
        return NULL;
    }
    if (access(path, R_OK) != 0) {
        ct_fail(error, CT_ERR_IO, "cannot open '%s': %s", path, strerror(errno));
        return NULL;
    }
    if (status.st_size == 0) {
        ct_fail(error, CT_ERR_IO, "cannot open '%s': the file is empty", path);
        return NULL;
    }
    ct_h5 *file = new_handle(path, error);
    if (!file)
        return NULL;
    file->file_bytes = status.st_size;
    enter();
    hid_t list = access_list();
    if (H5Fis_hdf5(path) <= 0)
        ct_fail(error, CT_ERR_IO, "'%s' is not an HDF5 file", path);
    else {
        file->id = H5Fopen(path, H5F_ACC_RDONLY, list);
        if (file->id < 0)
            ct_fail(error, CT_ERR_IO, "cannot open '%s', which is damaged: %s", path, reason(text));
    }
    H5Pclose(list);
    leave(CT_OK);
    if (file->id < 0) {
        free_handle(file);
        return NULL;
    }
    return file;
}

/* The file that `path` names, through a symbolic link, so that renaming replaces the file and not
 * the link. */
static char *resolved(const char *path) {
    char *real = realpath(path, NULL);
    return real ? real : ct_strdup(path);
}

/* Makes an empty file of a name not yet taken beside the target; returns false with errno. */
static bool make_temporary(ct_h5 *file, const char *target) {
    static unsigned count;
    size_t bytes = strlen(target) + sizeof ".01234567.tmp";
    file->temporary = ct_malloc(bytes);
    if (!file->temporary) {
        errno = ENOMEM;
        return false;
    }
    struct timespec now;
    clock_gettime(CLOCK_REALTIME, &now);
    uint32_t number =
        (uint32_t)now.tv_nsec ^ (uint32_t)now.tv_sec * 2654435761u ^ (uint32_t)getpid() << 12;
    for (int tries = 0; tries < 100; tries++) {
        number = number * 1664525u + 1013904223u + count++;
        snprintf(file->temporary, bytes, "%s.%08x.tmp", target, (unsigned)number);
        int fd = open(file->temporary, O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC, 0666);
        if (fd >= 0) {
            close(fd);
            return true;
        }
        if (errno != EEXIST)
            return false;
    }
    return false;
}

ct_h5 *ct_h5_create(const char *path, ct_error *error) {
    char text[256];
    struct stat status;
    if (path[0] == 0) {
        ct_fail(error, CT_ERR_ARGUMENT, "the path is empty");
        return NULL;
    }
    if (stat(path, &status) == 0 && !S_ISREG(status.st_mode)) {
        ct_fail(error, CT_ERR_IO, "cannot write '%s': it is %s", path,
                S_ISDIR(status.st_mode) ? "a folder" : "not an ordinary file");
        return NULL;
    }
    char *target = resolved(path);
    ct_h5 *file = target ? new_handle(target, error) : NULL;
    free(target);
    if (!file) {
        ct_fail(error, CT_ERR_MEMORY, "'%s': memory is out", path);
        return NULL;
    }
    if (!make_temporary(file, file->path)) {
        ct_fail(error, CT_ERR_IO, "cannot write '%s': %s", path, strerror(errno));
        free_handle(file);
        return NULL;
    }
    enter();
    hid_t list = access_list();
    file->id = H5Fcreate(file->temporary, H5F_ACC_TRUNC, H5P_DEFAULT, list);
    H5Pclose(list);
    if (file->id < 0)
        ct_fail(error, CT_ERR_IO, "cannot write '%s': %s", path, reason(text));
    leave(CT_OK);
    if (file->id < 0) {
        unlink(file->temporary);
        free_handle(file);
        return NULL;
    }
    return file;
}

/* Waits until a file or folder is on the disk; returns errno. */
static int sync_path(const char *path, int flags) {
    int fd = open(path, flags | O_CLOEXEC);
    if (fd < 0)
        return errno;
    int problem = fsync(fd) == 0 ? 0 : errno;
    close(fd);
    return problem;
}

static int sync_folder_of(const char *path) {
    const char *slash = strrchr(path, '/');
    if (!slash)
        return sync_path(".", O_RDONLY | O_DIRECTORY);
    char *folder = ct_strdup(path);
    if (!folder)
        return ENOMEM;
    folder[slash == path ? 1 : slash - path] = 0;
    int problem = sync_path(folder, O_RDONLY | O_DIRECTORY);
    free(folder);
    return problem == EINVAL ? 0 : problem; /* some file systems cannot sync a folder */
}

static ct_status put_in_place(ct_h5 *file, ct_error *error) {
    int problem = sync_path(file->temporary, O_RDWR);
    if (problem == 0 && rename(file->temporary, file->path) != 0)
        problem = errno;
    if (problem != 0)
        return ct_fail(error, CT_ERR_IO, "cannot write '%s': %s", file->path, strerror(problem));
    free(file->temporary);
    file->temporary = NULL;
    problem = sync_folder_of(file->path);
    if (problem != 0)
        return ct_fail(error, CT_ERR_IO, "cannot write the folder of '%s': %s", file->path,
                       strerror(problem));
    return CT_OK;
}

ct_status ct_h5_commit(ct_h5 *file, ct_error *error) {
    char text[256];
    if (file->id < 0 || !file->temporary)
        return ct_fail(error, CT_ERR_STATE, "'%s' is not open for writing", file->path);
    ct_status status = CT_OK;
    if (file->failed)
        status =
            ct_fail(error, CT_ERR_IO, "'%s' is not written: a part of it could not be", file->path);
    enter();
    if (status == CT_OK && H5Fflush(file->id, H5F_SCOPE_LOCAL) < 0)
        status = ct_fail(error, CT_ERR_IO, "cannot write '%s': %s", file->path, reason(text));
    H5Eclear2(H5E_DEFAULT);
    if (H5Fclose(file->id) < 0 && status == CT_OK)
        status = ct_fail(error, CT_ERR_IO, "cannot write '%s': %s", file->path, reason(text));
    file->id = H5I_INVALID_HID;
    leave(CT_OK);
    if (status == CT_OK)
        status = put_in_place(file, error);
    if (file->temporary) {
        unlink(file->temporary);
        free(file->temporary);
        file->temporary = NULL;
    }
    return status;
}

void ct_h5_free(ct_h5 *file) {
    if (!file)
        return;
    if (file->id >= 0) {
        enter();
        H5Fclose(file->id);
        leave(CT_OK);
    }
    if (file->temporary)
        unlink(file->temporary);
    free_handle(file);
}

/* ---- Types ---------------------------------------------------------------------------------- */

/* A copy of the type of a dtype, on disk or (the same: the machine is little-endian) in memory. */
static hid_t type_of(ct_dtype dtype) {
    hid_t type;
    switch (dtype) {
    case CT_UINT8: return H5Tcopy(H5T_STD_U8LE);
    case CT_INT8: return H5Tcopy(H5T_STD_I8LE);
    case CT_INT16: return H5Tcopy(H5T_STD_I16LE);
    case CT_INT32: return H5Tcopy(H5T_STD_I32LE);
    case CT_INT64: return H5Tcopy(H5T_STD_I64LE);
    case CT_BFLOAT16: return H5Tcopy(H5T_STD_U16LE);
    case CT_FLOAT32: return H5Tcopy(H5T_IEEE_F32LE);
    case CT_FLOAT64: return H5Tcopy(H5T_IEEE_F64LE);
    case CT_FLOAT16:
        type = H5Tcopy(H5T_IEEE_F32LE);
        if (H5Tset_fields(type, 15, 10, 5, 0, 10) < 0 || H5Tset_size(type, 2) < 0 ||
            H5Tset_ebias(type, 15) < 0) {
            H5Tclose(type);
            return H5I_INVALID_HID;
        }
        return type;
    case CT_BOOL:
        type = H5Tenum_create(H5T_STD_I8LE);
        if (type >= 0) {
            int8_t no = 0, yes = 1;
            H5Tenum_insert(type, "FALSE", &no);
            H5Tenum_insert(type, "TRUE", &yes);
        }
        return type;
    default: return H5I_INVALID_HID;
    }
}

static bool is_bool_type(hid_t type) {
    bool answer =
        H5Tget_class(type) == H5T_ENUM && H5Tget_size(type) == 1 && H5Tget_nmembers(type) == 2;
    for (unsigned i = 0; answer && i < 2; i++) {
        int8_t value = 2;
        char *name = H5Tget_member_name(type, i);
        answer = name && H5Tget_member_value(type, i, &value) >= 0 &&
                 strcmp(name, value ? "TRUE" : "FALSE") == 0 && (value == 0 || value == 1);
        H5free_memory(name);
    }
    return answer;
}

static bool has_fields(hid_t type, size_t sign, size_t exponent, size_t exponent_bits,
                       size_t mantissa_bits) {
    size_t s, e, e_bits, m, m_bits;
    return H5Tget_fields(type, &s, &e, &e_bits, &m, &m_bits) >= 0 && s == sign && e == exponent &&
           e_bits == exponent_bits && m == 0 && m_bits == mantissa_bits;
}

/* What libhdf5 has to be asked for, in memory, to get a tensor's elements. */
typedef struct element {
    ct_dtype dtype;     /* CT_DTYPES: none */
    bool wide_unsigned; /* read as uint64, which has to fit in int64 */
    bool raw;           /* two bytes taken as they are */
} element;

static element integer_element(hid_t type, bool bfloat16) {
    bool sign = H5Tget_sign(type) != H5T_SGN_NONE;
    switch (H5Tget_size(type)) {
    case 1: return (element){.dtype = sign ? CT_INT8 : CT_UINT8};
    case 2:
        if (bfloat16)
            return (element){.dtype = CT_BFLOAT16, .raw = true};
        return (element){.dtype = sign ? CT_INT16 : CT_INT32};
    case 4: return (element){.dtype = sign ? CT_INT32 : CT_INT64};
    case 8: return (element){.dtype = CT_INT64, .wide_unsigned = !sign};
    default: return (element){.dtype = CT_DTYPES};
    }
}

static element element_of(hid_t type, bool bfloat16) {
    switch (H5Tget_class(type)) {
    case H5T_INTEGER: return integer_element(type, bfloat16);
    case H5T_ENUM:
        if (is_bool_type(type))
            return (element){.dtype = CT_BOOL};
        break;
    case H5T_FLOAT:
        if (has_fields(type, 15, 10, 5, 10))
            return (element){.dtype = CT_FLOAT16};
        if (has_fields(type, 15, 7, 8, 7))
            return (element){.dtype = CT_BFLOAT16, .raw = true};
        if (has_fields(type, 31, 23, 8, 23))
            return (element){.dtype = CT_FLOAT32};
        if (has_fields(type, 63, 52, 11, 52))
            return (element){.dtype = CT_FLOAT64};
        break;
    case H5T_OPAQUE:
        if (H5Tget_size(type) == 2 && bfloat16)
            return (element){.dtype = CT_BFLOAT16, .raw = true};
        break;
    default: break;
    }
    return (element){.dtype = CT_DTYPES};
}

static const char *class_text(hid_t type) {
    switch (H5Tget_class(type)) {
    case H5T_STRING: return "strings";
    case H5T_COMPOUND: return "records";
    case H5T_VLEN: return "lists of varying length";
    case H5T_REFERENCE: return "references";
    case H5T_ARRAY: return "arrays";
    case H5T_ENUM: return "an enumeration";
    case H5T_OPAQUE: return "opaque bytes";
    case H5T_BITFIELD: return "bits";
    case H5T_FLOAT: return "floating-point numbers of a width that no dtype has";
    case H5T_INTEGER: return "integers of a width that no dtype has";
    default: return "a type that no dtype has";
    }
}

/* ---- Attributes ----------------------------------------------------------------------------- */

static hid_t text_type(void) {
    hid_t type = H5Tcopy(H5T_C_S1);
    H5Tset_size(type, H5T_VARIABLE);
    H5Tset_cset(type, H5T_CSET_UTF8);
    return type;
}

static hid_t open_object(ct_h5 *file, const char *object) {
    return H5Oopen(file->id, object ? object : "/", H5P_DEFAULT);
}

/* Takes over `type`. rank -1 is a scalar. */
static ct_status set_attribute(ct_h5 *file, const char *object, const char *name, hid_t type,
                               int rank, const hsize_t *extents, const void *value,
                               ct_error *error) {
    enter();
    hid_t owner = open_object(file, object);
    hid_t space = rank < 0 ? H5Screate(H5S_SCALAR) : H5Screate_simple(rank, extents, NULL);
    hid_t list = H5Pcreate(H5P_ATTRIBUTE_CREATE);
    H5Pset_char_encoding(list, H5T_CSET_UTF8);
    hid_t attribute = owner < 0 ? owner : H5Acreate2(owner, name, type, space, list, H5P_DEFAULT);
    ct_status status = CT_OK;
    if (attribute < 0 || H5Awrite(attribute, type, value) < 0)
        status = fail_at(file, "attribute", name, "cannot be written", error);
    file->failed |= status != CT_OK;
    if (attribute >= 0)
        H5Aclose(attribute);
    H5Pclose(list);
    H5Sclose(space);
    if (owner >= 0)
        H5Oclose(owner);
    H5Tclose(type);
    return leave(status);
}

ct_status ct_h5_set_string(ct_h5 *file, const char *object, const char *name, const char *text,
                           ct_error *error) {
    return set_attribute(file, object, name, text_type(), -1, NULL, &text, error);
}

ct_status ct_h5_set_float(ct_h5 *file, const char *object, const char *name, double value,
                          ct_error *error) {
    return set_attribute(file, object, name, type_of(CT_FLOAT64), -1, NULL, &value, error);
}

ct_status ct_h5_set_bool(ct_h5 *file, const char *object, const char *name, bool value,
                         ct_error *error) {
    int8_t byte = value;
    return set_attribute(file, object, name, type_of(CT_BOOL), -1, NULL, &byte, error);
}

ct_status ct_h5_set_strings(ct_h5 *file, const char *object, const char *name, const char *text,
                            ct_error *error) {
    hsize_t extent = 1;
    return set_attribute(file, object, name, text_type(), 1, &extent, &text, error);
}

ct_status ct_h5_set_shapes(ct_h5 *file, const char *object, const char *name, const ct_shape *shape,
                           ct_error *error) {
    hsize_t extents[2] = {1, (hsize_t)shape->ndim};
    return set_attribute(file, object, name, type_of(CT_INT64), 2, extents, shape->dim, error);
}

/* The strings of an attribute, the first kept. Where memory is
 * out, the kind becomes CT_H5_ABSENT. */
static bool read_text(ct_h5 *file, hid_t attribute, hid_t type, hssize_t count,
                      ct_h5_value *value) {
    size_t size = H5Tget_size(type);
    if (H5Tis_variable_str(type) > 0) {
        if (count > file->file_bytes)
            return false;
        char **texts = ct_calloc((size_t)count, sizeof *texts);
        hid_t memory = H5Tcopy(type), space = H5Aget_space(attribute);
        bool ok = texts && H5Aread(attribute, memory, texts) >= 0;
        value->text = ok ? ct_strdup(texts[0] ? texts[0] : "") : NULL;
        if (!texts || (ok && !value->text))
            value->kind = CT_H5_ABSENT;
        if (ok)
            H5Dvlen_reclaim(memory, space, H5P_DEFAULT, texts);
        H5Sclose(space);
        H5Tclose(memory);
        free(texts);
    } else if (size > 0 && (int64_t)size <= file->file_bytes / count) {
        char *texts = ct_malloc(size * (size_t)count + 1);
        if (texts && H5Aread(attribute, type, texts) >= 0) {
            if (H5Tget_strpad(type) == H5T_STR_SPACEPAD)
                while (size > 0 && texts[size - 1] == ' ')
                    size--;
            texts[size] = 0;
            value->text = texts;
        } else {
            value->kind = texts ? value->kind : CT_H5_ABSENT;
            free(texts);
        }
    }
    return value->text != NULL;
}

/* Reads `count` attribute values as int64 or double, the first kept; as read_text. */
static bool read_number(hid_t attribute, hid_t type, hssize_t count, ct_h5_value *value) {
    int64_t *numbers = ct_malloc(8 * (size_t)count);
    bool ok = numbers && H5Aread(attribute, type, numbers) >= 0;
    if (ok && value->kind == CT_H5_FLOAT)
        memcpy(&value->f, numbers, 8);
    else if (ok) {
        value->i = value->kind == CT_H5_BOOL ? *(const int8_t *)numbers : *numbers;
        value->f = (double)value->i;
    } else if (!numbers)
        value->kind = CT_H5_ABSENT;
    free(numbers);
    return ok;
}

static ct_status get_value(ct_h5 *file, hid_t attribute, const char *name, ct_h5_value *value,
                           ct_error *error) {
    hid_t type = H5Aget_type(attribute), space = H5Aget_space(attribute);
    hssize_t count = H5Sget_simple_extent_npoints(space);
    bool ok = type >= 0 && space >= 0 && count >= 0;
    value->kind = CT_H5_OTHER;
    if (ok && count > 0 && count <= file->file_bytes) {
        switch (H5Tget_class(type)) {
        case H5T_STRING:
            value->kind = CT_H5_STRING;
            ok = read_text(file, attribute, type, count, value);
            break;
        case H5T_INTEGER:
            value->kind = CT_H5_INT;
            ok = read_number(attribute, H5T_NATIVE_INT64, count, value);
            break;
        case H5T_FLOAT:
            value->kind = CT_H5_FLOAT;
            ok = read_number(attribute, H5T_NATIVE_DOUBLE, count, value);
            break;
        case H5T_ENUM:
            if (is_bool_type(type)) {
                value->kind = CT_H5_BOOL;
                ok = read_number(attribute, type, count, value);
            }
            break;
        default: break;
        }
    }
    ct_status status = CT_OK;
    if (!ok && value->kind == CT_H5_ABSENT)
        status = ct_fail(error, CT_ERR_MEMORY, "'%s': memory is out for attribute '%.200s'",
                         file->path, name);
    else if (!ok)
        status = fail_at(file, "attribute", name, "cannot be read", error);
    if (space >= 0)
        H5Sclose(space);
    if (type >= 0)
        H5Tclose(type);
    return status;
}

static ct_status get_attribute(ct_h5 *file, hid_t owner, const char *name, ct_h5_value *value,
                               ct_error *error) {
    *value = (ct_h5_value){.kind = CT_H5_ABSENT};
    htri_t there = H5Aexists(owner, name);
    if (there == 0)
        return CT_OK;
    hid_t attribute = there < 0 ? H5I_INVALID_HID : H5Aopen(owner, name, H5P_DEFAULT);
    if (attribute < 0)
        return fail_at(file, "attribute", name, "cannot be read", error);
    ct_status status = get_value(file, attribute, name, value, error);
    H5Aclose(attribute);
    return status;
}

ct_status ct_h5_get(ct_h5 *file, const char *object, const char *name, ct_h5_value *value,
                    ct_error *error) {
    enter();
    hid_t owner = open_object(file, object);
    ct_status status =
        owner < 0 ? fail_at(file, "object", object ? object : "/", "cannot be opened", error)
                  : get_attribute(file, owner, name, value, error);
    if (owner >= 0)
        H5Oclose(owner);
    return leave(status);
}

/* ---- Walking -------------------------------------------------------------------------------- */

typedef struct walk {
    bool (*visit)(void *context, const char *name);
    void *context;
} walk;

static herr_t visit_attribute(hid_t owner, const char *name, const H5A_info_t *info,
                              void *context) {
    const walk *w = context;
    (void)owner, (void)info;
    return !w->visit(w->context, name);
}

static herr_t visit_object(hid_t owner, const char *name, const H5O_info_t *info, void *context) {
    const walk *w = context;
    (void)owner;
    return info->type == H5O_TYPE_DATASET && !w->visit(w->context, name);
}

ct_status ct_h5_each_attribute(ct_h5 *file, const char *object,
                               bool (*visit)(void *context, const char *name), void *context,
                               ct_error *error) {
    walk w = {visit, context};
    ct_status status = CT_OK;
    enter();
    hid_t owner = open_object(file, object);
    hsize_t at = 0;
    if (owner < 0 || H5Aiterate2(owner, H5_INDEX_NAME, H5_ITER_INC, &at, visit_attribute, &w) < 0)
        status = fail_at(file, "the attributes of", object ? object : "/", "cannot be read", error);
    if (owner >= 0)
        H5Oclose(owner);
    return leave(status);
}

ct_status ct_h5_each_dataset(ct_h5 *file, bool (*visit)(void *context, const char *name),
                             void *context, ct_error *error) {
    walk w = {visit, context};
    ct_status status = CT_OK;
    enter();
    if (H5Ovisit2(file->id, H5_INDEX_NAME, H5_ITER_INC, visit_object, &w, H5O_INFO_BASIC) < 0)
        status = fail_at(file, "group", "/", "cannot be read", error);
    return leave(status);
}

/* ---- Datasets ------------------------------------------------------------------------------- */

static hid_t space_of(int ndim, const int64_t *extents) {
    hsize_t sizes[CT_MAX_DIMS];
    for (int d = 0; d < ndim; d++)
        sizes[d] = (hsize_t)extents[d];
    return ndim == 0 ? H5Screate(H5S_SCALAR) : H5Screate_simple(ndim, sizes, NULL);
}

ct_status ct_h5_write(ct_h5 *file, const char *name, ct_dtype dtype, const ct_shape *shape,
                      const void *data, ct_error *error) {
    if (file->id < 0 || !file->temporary)
        return ct_fail(error, CT_ERR_STATE, "'%s' is not open for writing", file->path);
    enter();
    hid_t type = type_of(dtype), space = space_of(shape->ndim, shape->dim);
    hid_t list = H5Pcreate(H5P_LINK_CREATE);
    H5Pset_char_encoding(list, H5T_CSET_UTF8);
    hid_t set = H5Dcreate2(file->id, name, type, space, list, H5P_DEFAULT, H5P_DEFAULT);
    ct_status status = CT_OK;
    if (set < 0 ||
        (ct_shape_numel(shape) > 0 && H5Dwrite(set, type, H5S_ALL, H5S_ALL, H5P_DEFAULT, data) < 0))
        status = fail_at(file, "dataset", name, "cannot be written", error);
    if (set >= 0 && H5Dclose(set) < 0 && status == CT_OK)
        status = fail_at(file, "dataset", name, "cannot be written", error);
    H5Pclose(list);
    H5Sclose(space);
    H5Tclose(type);
    file->failed |= status != CT_OK;
    if (status == CT_OK && dtype == CT_BFLOAT16) {
        leave(CT_OK);
        return ct_h5_set_bool(file, name, "is_bfloat16", true, error);
    }
    return leave(status);
}

static bool says_bfloat16(ct_h5 *file, hid_t set) {
    ct_h5_value value;
    if (get_attribute(file, set, "is_bfloat16", &value, NULL) == CT_OK &&
        value.kind != CT_H5_ABSENT) {
        free(value.text);
        return value.i != 0;
    }
    bool answer = get_attribute(file, set, "dtypes", &value, NULL) == CT_OK &&
                  value.kind == CT_H5_STRING && strstr(value.text, "bfloat16");
    free(value.text);
    return answer;
}

/* Whether a file of its size can hold the bytes a dataset claims: as they are, or packed by a
 * filter (deflate packs at most 1032 to 1). A dataset that was never written takes no room in the
 * file; a few of these are let through. */
static bool is_plausible(const ct_h5 *file, hid_t set, int64_t bytes) {
    const int64_t small = 64 << 20, ratio = 1100;
    if (bytes <= small || bytes <= file->file_bytes)
        return true;
    hid_t list = H5Dget_create_plist(set);
    bool packed = list >= 0 && H5Pget_layout(list) == H5D_CHUNKED;
    if (list >= 0)
        H5Pclose(list);
    return packed && bytes / ratio <= file->file_bytes;
}

/* What a dataset is; everything about it is checked here. */
static ct_status examine(ct_h5 *file, hid_t set, const char *name, ct_h5_info *info, element *found,
                         ct_error *error) {
    char extents_text[CT_SHAPE_TEXT];
    hid_t type = H5Dget_type(set), space = H5Dget_space(set);
    ct_status status = CT_OK;
    int rank = space < 0 ? -1 : H5Sget_simple_extent_ndims(space);
    if (type < 0 || rank < 0)
        status = fail_at(file, "dataset", name, "cannot be read", error);
    else if (H5Sget_simple_extent_type(space) == H5S_NULL)
        status = ct_fail(error, CT_ERR_UNSUPPORTED, "'%s': dataset '%.200s' has no shape",
                         file->path, name);
    else if (rank > CT_MAX_DIMS)
        status = ct_fail(error, CT_ERR_UNSUPPORTED,
                         "'%s': dataset '%.200s' has %d dimensions; a tensor has at most %d",
                         file->path, name, rank, CT_MAX_DIMS);
    if (status == CT_OK) {
        *found = element_of(type, false);
        bool two_bytes = H5Tget_size(type) == 2 && H5Tget_class(type) != H5T_FLOAT;
        if (two_bytes && says_bfloat16(file, set))
            *found = element_of(type, true);
        if (found->dtype == CT_DTYPES)
            status = ct_fail(error, CT_ERR_UNSUPPORTED,
                             "'%s': dataset '%.200s' holds %s, which a tensor cannot", file->path,
                             name, class_text(type));
    }
    if (status == CT_OK) {
        hsize_t sizes[CT_MAX_DIMS];
        int64_t extents[CT_MAX_DIMS];
        H5Sget_simple_extent_dims(space, sizes, NULL);
        for (int d = 0; d < rank; d++)
            extents[d] = sizes[d] > INT64_MAX ? -1 : (int64_t)sizes[d];
        ct_error inner = {.status = CT_OK};
        info->dtype = found->dtype;
        if (ct_shape_set(&info->shape, rank, extents, &inner) != CT_OK)
            status = ct_fail(error, CT_ERR_IO, "'%s': dataset '%.200s': %s", file->path, name,
                             inner.message);
        else if (ct_shape_numel(&info->shape) > INT64_MAX / 8 ||
                 !is_plausible(file, set,
                               ct_shape_numel(&info->shape) * (int64_t)H5Tget_size(type)))
            status = ct_fail(
                error, CT_ERR_IO,
                "'%s': dataset '%.200s' claims to be %s, more than a file of %lld bytes can hold",
                file->path, name, ct_shape_text(&info->shape, extents_text),
                (long long)file->file_bytes);
    }
    if (space >= 0)
        H5Sclose(space);
    if (type >= 0)
        H5Tclose(type);
    return status;
}

static hid_t open_dataset(ct_h5 *file, const char *name, ct_error *error) {
    if (file->id < 0) {
        ct_fail(error, CT_ERR_STATE, "'%s' is closed", file->path);
        return H5I_INVALID_HID;
    }
    hid_t set = H5Dopen2(file->id, name, H5P_DEFAULT);
    if (set < 0)
        fail_at(file, "dataset", name, "cannot be opened", error);
    return set;
}

ct_status ct_h5_describe(ct_h5 *file, const char *name, ct_h5_info *info, ct_error *error) {
    element found;
    enter();
    hid_t set = open_dataset(file, name, error);
    ct_status status = set < 0 ? CT_ERR_IO : examine(file, set, name, info, &found, error);
    if (set >= 0)
        H5Dclose(set);
    return leave(status);
}

/* Narrows the file's space to the block; fails where it leaves the dataset. */
static ct_status choose_block(const ct_h5 *file, hid_t space, const char *name,
                              const ct_shape *shape, const int64_t *start, const int64_t *count,
                              ct_error *error) {
    hsize_t first[CT_MAX_DIMS], number[CT_MAX_DIMS];
    for (int d = 0; d < shape->ndim; d++) {
        if (start[d] < 0 || count[d] < 0 || start[d] > shape->dim[d] ||
            count[d] > shape->dim[d] - start[d])
            return ct_fail(error, CT_ERR_INDEX,
                           "'%s': dataset '%.200s': %lld elements from %lld (counted from 0) of "
                           "dimension %d leave its "
                           "extent of %lld",
                           file->path, name, (long long)count[d], (long long)start[d], d + 1,
                           (long long)shape->dim[d]);
        first[d] = (hsize_t)start[d];
        number[d] = (hsize_t)count[d];
    }
    if (shape->ndim > 0 &&
        H5Sselect_hyperslab(space, H5S_SELECT_SET, first, NULL, number, NULL) < 0)
        return fail_at(file, "dataset", name, "cannot be read in part", error);
    return CT_OK;
}

static ct_status read_block(ct_h5 *file, hid_t set, const char *name, const ct_shape *shape,
                            element found, const int64_t *start, const int64_t *count, void *data,
                            ct_error *error) {
    int64_t total = 1;
    for (int d = 0; d < shape->ndim; d++)
        total *= count ? count[d] : shape->dim[d];
    hid_t space = H5Dget_space(set),
          memory_space = space_of(shape->ndim, count ? count : shape->dim);
    hid_t type = found.wide_unsigned ? H5Tcopy(H5T_NATIVE_UINT64) : type_of(found.dtype);
    if (found.raw) {
        H5Tclose(type);
        type = H5Dget_type(set);
        if (H5Tget_class(type) != H5T_OPAQUE)
            H5Tset_order(type, H5T_ORDER_LE);
    }
    ct_status status = count ? choose_block(file, space, name, shape, start, count, error) : CT_OK;
    if (status == CT_OK && total > 0 &&
        H5Dread(set, type, memory_space, space, H5P_DEFAULT, data) < 0)
        status = fail_at(file, "dataset", name, "cannot be read", error);
    const int64_t *wide = data;
    for (int64_t i = 0; status == CT_OK && found.wide_unsigned && i < total; i++)
        if (wide[i] < 0)
            status = ct_fail(error, CT_ERR_UNSUPPORTED,
                             "'%s': dataset '%.200s' holds %llu, which int64 cannot", file->path,
                             name, (unsigned long long)wide[i]);
    H5Tclose(type);
    H5Sclose(memory_space);
    H5Sclose(space);
    return status;
}

/* Bytes of bool that are neither 0 nor 1 in the file are true. */
static void clean_bools(const ct_shape *shape, const int64_t *count, uint8_t *data) {
    int64_t total = 1;
    for (int d = 0; d < shape->ndim; d++)
        total *= count ? count[d] : shape->dim[d];
    for (int64_t i = 0; i < total; i++)
        data[i] = data[i] != 0;
}

ct_status ct_h5_read(ct_h5 *file, const char *name, const int64_t *start, const int64_t *count,
                     void *data, ct_error *error) {
    ct_h5_info info;
    element found;
    enter();
    hid_t set = open_dataset(file, name, error);
    ct_status status = set < 0 ? CT_ERR_IO : examine(file, set, name, &info, &found, error);
    if (status == CT_OK)
        status = read_block(file, set, name, &info.shape, found, start, count, data, error);
    if (status == CT_OK && found.dtype == CT_BOOL)
        clean_bools(&info.shape, count, data);
    if (set >= 0)
        H5Dclose(set);
    return leave(status);
}
