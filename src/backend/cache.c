// cache.c: artifacts on disk. One file per artifact, <key>.so beside the <key>.c it was made from;
// the key is a hash of everything that decides its contents. A file appears complete, by rename,
// and ends with a hash of itself, so that N processes may make the same one at once and a damaged
// one is never run. What lies in the directory is executed: it must be ours, and writable by nobody
// else.
#define _GNU_SOURCE // mkdtemp
#include <dirent.h>
#include <dlfcn.h>
#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#define XXH_INLINE_ALL
#include <xxhash.h> // defines: XXH3_128bits

#include "backend/process.h"
#include "backend/store.h"
#include "base/error.h"
#include "base/heap.h" // defines: ct_malloc

#define TRAILER "ctrain artifact\n" /* 16 bytes, then 16 of hash */

static double milliseconds(void) {
    struct timespec now;
    clock_gettime(CLOCK_MONOTONIC, &now);
    return (double)now.tv_sec * 1e3 + (double)now.tv_nsec * 1e-6;
}

static void hash_text(const void *data, size_t bytes, char text[33]) {
    XXH128_hash_t hash = XXH3_128bits(data, bytes);
    snprintf(text, 33, "%016llx%016llx", (unsigned long long)hash.high64,
             (unsigned long long)hash.low64);
}

/* ---- directories ---- */

static bool make_directories(const char *path) {
    char part[CT_PATH];
    snprintf(part, sizeof part, "%s", path);
    for (char *slash = strchr(part + 1, '/'); slash != NULL; slash = strchr(slash + 1, '/')) {
        *slash = '\0';
        if (mkdir(part, 0700) != 0 && errno != EEXIST)
            return false;
        *slash = '/';
    }
    return mkdir(part, 0700) == 0 || errno == EEXIST;
}

/* NULL where the directory may be used, else why not. */
static const char *objection(const char *path) {
    struct stat status;
    if (!make_directories(path))
        return strerror(errno);
    if (stat(path, &status) != 0)
        return strerror(errno);
    if (!S_ISDIR(status.st_mode))
        return "it is not a directory";
    if (status.st_uid != geteuid())
        return "it belongs to another user";
    if (status.st_mode & 022)
        return "others may write to it";
    if (access(path, W_OK | X_OK) != 0)
        return strerror(errno);
    return NULL;
}

static char own_directory[CT_PATH]; /* of this process, where no cache can be used */

static void remove_own_directory(void) {
    DIR *directory = opendir(own_directory);
    if (directory == NULL)
        return;
    for (struct dirent *entry = readdir(directory); entry != NULL; entry = readdir(directory)) {
        if (entry->d_name[0] != '.')
            unlinkat(dirfd(directory), entry->d_name, 0);
    }
    closedir(directory);
    rmdir(own_directory);
}

bool ct_store_directory(char path[CT_PATH]) {
    const char *home = getenv("HOME"), *cache = getenv("XDG_CACHE_HOME");
    path[0] = '\0';
    if (cache != NULL && cache[0] == '/')
        snprintf(path, CT_PATH, "%s/ctrain", cache);
    else if (home != NULL && home[0] == '/')
        snprintf(path, CT_PATH, "%s/.cache/ctrain", home);
    return path[0] != '\0';
}

static bool choose_directory(ct_build *build, const char *wanted, char note[512], ct_error *error) {
    const char *why = "no home directory is known";
    note[0] = '\0';
    build->temporary = false;
    if (wanted != NULL)
        snprintf(build->directory, CT_PATH, "%s", wanted);
    else
        ct_store_directory(build->directory);
    if (build->directory[0] != '\0' && (why = objection(build->directory)) == NULL)
        return true;
    if (own_directory[0] == '\0') {
        const char *temporary = getenv("TMPDIR");
        snprintf(own_directory, CT_PATH, "%s/ctrain-XXXXXX",
                 temporary && temporary[0] == '/' ? temporary : "/tmp");
        if (mkdtemp(own_directory) == NULL) {
            int number = errno;
            char path[CT_PATH];
            memcpy(path, own_directory, sizeof path);
            own_directory[0] = '\0';
            ct_fail(error, CT_ERR_IO, "no place for compiled steps: %s: %s; %s: %s",
                    build->directory, why, path, strerror(number));
            return false;
        }
        atexit(remove_own_directory);
    }
    snprintf(note, 512, "compiled steps are not kept: %.300s: %s", build->directory, why);
    memcpy(build->directory, own_directory, sizeof own_directory);
    build->temporary = true;
    return true;
}

/* ---- files ---- */

static bool write_whole(int file, const char *data, size_t bytes) {
    while (bytes > 0) {
        ssize_t written = write(file, data, bytes);
        if (written < 0 && errno == EINTR)
            continue;
        if (written <= 0)
            return false;
        data += written;
        bytes -= (size_t)written;
    }
    return true;
}

/* The whole file in a block of its own, or NULL. */
static char *read_whole(const char *path, size_t *bytes) {
    int file = open(path, O_RDONLY | O_CLOEXEC);
    if (file < 0)
        return NULL;
    struct stat status;
    char *data = NULL;
    if (fstat(file, &status) == 0 && S_ISREG(status.st_mode) &&
        (data = ct_malloc((size_t)status.st_size + 1)) != NULL) {
        size_t have = 0, size = (size_t)status.st_size;
        while (have < size) {
            ssize_t count = read(file, data + have, size - have);
            if (count < 0 && errno == EINTR)
                continue;
            if (count <= 0)
                break;
            have += (size_t)count;
        }
        *bytes = have;
        data[have] = '\0';
    }
    close(file);
    return data;
}

static void path_of(const ct_build *build, const char *suffix, char path[CT_PATH + 64]) {
    snprintf(path, CT_PATH + 64, "%s/%s%s", build->directory, build->key, suffix);
}

static bool intact(const char *path) {
    size_t bytes = 0;
    char *data = read_whole(path, &bytes);
    bool good = false;
    if (data != NULL && bytes > 32 && memcmp(data + bytes - 32, TRAILER, 16) == 0) {
        XXH128_hash_t hash = XXH3_128bits(data, bytes - 32);
        XXH128_canonical_t canonical;
        XXH128_canonicalFromHash(&canonical, hash);
        good = memcmp(data + bytes - 16, &canonical, 16) == 0;
    }
    free(data);
    return good;
}

static bool seal(const char *path) {
    size_t bytes = 0;
    char *data = read_whole(path, &bytes);
    if (data == NULL)
        return false;
    XXH128_canonical_t canonical;
    XXH128_canonicalFromHash(&canonical, XXH3_128bits(data, bytes));
    free(data);
    int file = open(path, O_WRONLY | O_APPEND | O_CLOEXEC);
    if (file < 0)
        return false;
    bool good = write_whole(file, TRAILER, 16) && write_whole(file, (const char *)&canonical, 16);
    return close(file) == 0 && good;
}

/* The source beside the artifact, for readers and debuggers. */
static bool write_source(ct_build *build, const char *source, ct_error *error) {
    char path[CT_PATH + 64], made[CT_PATH + 64];
    path_of(build, ".c", path);
    path_of(build, ".c.XXXXXX", made);
    int file = mkostemp(made, O_CLOEXEC);
    bool good = file >= 0 && write_whole(file, source, strlen(source));
    if (file >= 0)
        good = close(file) == 0 && good;
    if (good && rename(made, path) == 0)
        return true;
    int number = errno;
    if (file >= 0)
        unlink(made);
    ct_fail(error, CT_ERR_IO, "the source of a compiled step can't be written: %s: %s", path,
            strerror(number));
    return false;
}

/* ---- building ---- */

static ct_status start(ct_build *build, const ct_compiler *compiler, const char *source,
                       ct_error *error) {
    char path[CT_PATH + 64];
    if (!write_source(build, source, error))
        return CT_ERR_IO;
    path_of(build, ".c", path);
    path_of(build, ".so.XXXXXX", build->made);
    path_of(build, ".log.XXXXXX", build->report);
    int made = mkostemp(build->made, O_CLOEXEC), report = mkostemp(build->report, O_CLOEXEC);
    if (made >= 0)
        close(made);
    if (made < 0 || report < 0) {
        return ct_fail(error, CT_ERR_IO, "%s: %s", build->directory, strerror(errno));
    }
    const char *tail[] = {"-o", build->made, path, "-lm", NULL};
    char command[sizeof compiler->command + sizeof compiler->flags + 2];
    snprintf(command, sizeof command, "%s %s", compiler->command, compiler->flags);
    build->began = milliseconds();
    build->process = ct_process_start(command, tail, report);
    close(report);
    if (build->process > 0)
        return CT_OK;
    build->process = 0;
    return ct_fail(error, CT_ERR_IO, "the C compiler (%s) can't be started: %s", compiler->command,
                   strerror(errno));
}

ct_status ct_build_begin(ct_build *build, const char *directory, const char *source, char note[512],
                         ct_error *error) {
    memset(build, 0, sizeof *build);
    const ct_compiler *compiler = ct_compiler_find(error);
    if (compiler == NULL)
        return CT_ERR_UNSUPPORTED;
    if (!choose_directory(build, directory, note, error))
        return CT_ERR_IO;
    size_t bytes = strlen(source) + sizeof *compiler + 64;
    char *all = ct_malloc(bytes);
    if (all == NULL)
        return ct_fail(error, CT_ERR_MEMORY, "memory is out for the source of a compiled step");
    snprintf(all, bytes, "%s\n%s\n%s\n%s\n%s", compiler->command, compiler->version,
             compiler->flags, compiler->cpu, source);
    hash_text(all, strlen(all), build->key);
    free(all);
    char path[CT_PATH + 64];
    path_of(build, ".so", path);
    if (access(path, F_OK) == 0) {
        if (intact(path)) {
            build->cached = true;
            return CT_OK;
        }
        unlink(path);
    }
    return start(build, compiler, source, error);
}

static ct_status failed(ct_build *build, int status, ct_error *error) {
    size_t bytes = 0;
    char *report = read_whole(build->report, &bytes);
    char how[64];
    if (WIFSIGNALED(status))
        snprintf(how, sizeof how, "ended by signal %d", WTERMSIG(status));
    else
        snprintf(how, sizeof how, "failed with status %d", WEXITSTATUS(status));
    ct_fail(error, CT_ERR_IO, "the C compiler %s on %s/%s.c%s%.600s", how, build->directory,
            build->key, bytes > 0 ? ":\n" : "", report != NULL ? report : "");
    free(report);
    ct_build_end(build);
    return CT_ERR_IO;
}

ct_status ct_build_poll(ct_build *build, bool wait, bool *done, ct_error *error) {
    *done = true;
    if (build->process == 0)
        return CT_OK;
    int status = 0;
    pid_t ended;
    do {
        ended = waitpid(build->process, &status, wait ? 0 : WNOHANG);
    } while (ended < 0 && errno == EINTR);
    if (ended == 0) {
        *done = false;
        return CT_OK;
    }
    build->process = 0;
    build->milliseconds = milliseconds() - build->began;
    // another part of the process may have collected the status; then only the result tells
    if (ended > 0 && !(WIFEXITED(status) && WEXITSTATUS(status) == 0))
        return failed(build, status, error);
    char path[CT_PATH + 64];
    path_of(build, ".so", path);
    if (!seal(build->made) || rename(build->made, path) != 0) {
        ct_fail(error, CT_ERR_IO, "the compiled step can't be kept: %s: %s", path, strerror(errno));
        ct_build_end(build);
        return CT_ERR_IO;
    }
    unlink(build->report);
    return CT_OK;
}

void *ct_build_load(ct_build *build, ct_error *error) {
    char path[CT_PATH + 64];
    path_of(build, ".so", path);
    if (!intact(path)) {
        unlink(path);
        ct_fail(error, CT_ERR_IO, "the compiled step %s is damaged", path);
        return NULL;
    }
    void *handle = dlopen(path, RTLD_NOW | RTLD_LOCAL);
    if (handle == NULL) {
        const char *reason = dlerror();
        ct_fail(error, CT_ERR_IO, "the compiled step can't be loaded: %s", reason ? reason : path);
    }
    return handle;
}

void ct_build_end(ct_build *build) {
    if (build->process > 0) {
        kill(build->process, SIGKILL);
        while (waitpid(build->process, NULL, 0) < 0 && errno == EINTR)
            continue;
        build->process = 0;
    }
    if (build->made[0] != '\0')
        unlink(build->made);
    if (build->report[0] != '\0')
        unlink(build->report);
}
