/* store.c: a cache directory from outside. Which files are ours is told by their names: a key of 32
 * hexadecimal digits, then .so or .c, or these and .log with a dot and six letters behind while a
 * compiler is at work. */
#define _GNU_SOURCE // O_DIRECTORY
#include "backend/store.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <string.h>
#include <sys/stat.h>
#include <time.h>
#include <unistd.h>

#include "base/error.h"

#define AT_WORK 3600 /* seconds that a compiler may take */

static bool is_ours(const char *name, ct_store_file *file) {
    static const char *const suffixes[] = {".so", ".c", ".log"};
    if (strspn(name, "0123456789abcdef") != 32)
        return false;
    memcpy(file->key, name, 32);
    file->key[32] = '\0';
    const char *rest = name + 32;
    for (int i = 0; i < 3; i++) {
        size_t n = strlen(suffixes[i]);
        if (strncmp(rest, suffixes[i], n) != 0)
            continue;
        file->finished = rest[n] == '\0' && i < 2;
        return file->finished ||
               (rest[n] == '.' && strlen(rest + n) == 7 && strchr(rest + n + 1, '.') == NULL);
    }
    return false;
}

typedef void visitor(void *context, int directory, const char *name, const ct_store_file *file);

static ct_status visit(const char *path, visitor *visit_file, void *context, ct_error *error) {
    int handle = open(path, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
    if (handle < 0 && errno == ENOENT)
        return CT_OK;
    DIR *directory = handle >= 0 ? fdopendir(handle) : NULL;
    if (!directory) {
        int number = errno;
        if (handle >= 0)
            close(handle);
        return ct_fail(error, CT_ERR_IO, "%s: %s", path, strerror(number));
    }
    time_t now = time(NULL);
    for (struct dirent *entry = readdir(directory); entry; entry = readdir(directory)) {
        ct_store_file file;
        struct stat status;
        if (!is_ours(entry->d_name, &file) ||
            fstatat(handle, entry->d_name, &status, AT_SYMLINK_NOFOLLOW) != 0 ||
            !S_ISREG(status.st_mode))
            continue;
        file.bytes = (int64_t)status.st_size;
        file.age = difftime(now, status.st_mtime);
        visit_file(context, handle, entry->d_name, &file);
    }
    closedir(directory);
    return CT_OK;
}

typedef struct teller {
    void (*told)(void *context, const ct_store_file *file);
    void *context;
} teller;

static void tell(void *context, int directory, const char *name, const ct_store_file *file) {
    const teller *to = context;
    (void)directory;
    (void)name;
    to->told(to->context, file);
}

ct_status ct_store_list(const char *directory,
                        void (*told)(void *context, const ct_store_file *file), void *context,
                        ct_error *error) {
    teller to = {told, context};
    return visit(directory, tell, &to, error);
}

typedef struct removal {
    int64_t files, bytes;
    int number; /* errno of the first that stayed */
} removal;

static void remove_file(void *context, int directory, const char *name, const ct_store_file *file) {
    removal *done = context;
    if (!file->finished && file->age < AT_WORK)
        return;
    if (unlinkat(directory, name, 0) == 0) {
        done->files++;
        done->bytes += file->bytes;
    } else if (done->number == 0 && errno != ENOENT) {
        done->number = errno;
    }
}

ct_status ct_store_clear(const char *directory, int64_t *files, int64_t *bytes, ct_error *error) {
    removal done = {0};
    ct_status status = visit(directory, remove_file, &done, error);
    *files = done.files;
    *bytes = done.bytes;
    if (status == CT_OK && done.number)
        return ct_fail(error, CT_ERR_IO, "%s: %s", directory, strerror(done.number));
    return status;
}
