// compiler.c: which C compiler there is, what it calls itself, and the flags it gets.
#define _GNU_SOURCE // pipe2
#include "backend/compiler.h"

#include <errno.h>
#include <fcntl.h>
#include <spawn.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

#define XXH_INLINE_ALL
#include <xxhash.h> // defines: XXH3_64bits

#include "backend/process.h"
#include "base/error.h"

#define WORDS 64

extern char **environ;

/* The environment without LD_PRELOAD: what was loaded into this process (a sanitizer, a profiler)
 * has no business in the compiler's. To be freed; NULL when memory is out. */
static char **without_preload(void) {
    size_t n = 0, kept = 0;
    while (environ[n])
        n++;
    char **list = malloc((n + 1) * sizeof *list);
    for (size_t i = 0; list && i < n; i++)
        if (strncmp(environ[i], "LD_PRELOAD=", 11) != 0)
            list[kept++] = environ[i];
    if (list)
        list[kept] = NULL;
    return list;
}

pid_t ct_process_start(const char *command, const char *const *tail, int output) {
    char text[4096], *words[WORDS], *rest = text;
    int n = 0;
    if (strlen(command) >= sizeof text) {
        errno = E2BIG;
        return -1;
    }
    strcpy(text, command);
    for (char *word = strtok_r(text, " \t", &rest); word != NULL && n < WORDS - 8;
         word = strtok_r(NULL, " \t", &rest)) {
        words[n++] = word;
    }
    for (int i = 0; tail != NULL && tail[i] != NULL && n < WORDS - 1; i++)
        words[n++] = (char *)tail[i];
    words[n] = NULL;
    if (n == 0) {
        errno = ENOENT;
        return -1;
    }
    posix_spawn_file_actions_t actions;
    posix_spawn_file_actions_init(&actions);
    posix_spawn_file_actions_addopen(&actions, 0, "/dev/null", O_RDONLY, 0);
    posix_spawn_file_actions_adddup2(&actions, output, 1);
    posix_spawn_file_actions_adddup2(&actions, output, 2);
    pid_t process = -1;
    char **environment = without_preload();
    int number = posix_spawnp(&process, words[0], &actions, NULL, words,
                              environment ? environment : environ);
    free(environment);
    posix_spawn_file_actions_destroy(&actions);
    if (number == 0)
        return process;
    errno = number;
    return -1;
}

/* Runs `command --version`; its first line, or false. */
static bool ask_version(const char *command, char *line, size_t size) {
    int ends[2];
    if (pipe2(ends, O_CLOEXEC) != 0)
        return false;
    const char *tail[] = {"--version", NULL};
    pid_t process = ct_process_start(command, tail, ends[1]);
    close(ends[1]);
    size_t have = 0;
    char spill[512];
    for (;;) {
        bool full = have + 1 >= size;
        ssize_t count =
            read(ends[0], full ? spill : line + have, full ? sizeof spill : size - 1 - have);
        if (count < 0 && errno == EINTR)
            continue;
        if (count <= 0)
            break;
        if (!full)
            have += (size_t)count;
    }
    close(ends[0]);
    line[have] = '\0';
    line[strcspn(line, "\n")] = '\0';
    int status = 0;
    if (process < 0)
        return false;
    while (waitpid(process, &status, 0) < 0) {
        if (errno != EINTR)
            return have > 0;
    }
    return WIFEXITED(status) && WEXITSTATUS(status) == 0 && have > 0;
}

/* The CPU's own words about itself: features and model of the first one. */
static void hash_cpu(char text[17]) {
    char line[8192], all[16384] = "";
    FILE *file = fopen("/proc/cpuinfo", "r");
    while (file != NULL && fgets(line, sizeof line, file) != NULL && line[0] != '\n') {
        static const char *const wanted[] = {"flags",      "Features", "model name",
                                             "cpu family", "model\t",  "CPU part"};
        for (size_t i = 0; i < sizeof wanted / sizeof *wanted; i++) {
            if (strncmp(line, wanted[i], strlen(wanted[i])) != 0)
                continue;
            size_t have = strlen(all);
            snprintf(all + have, sizeof all - have, "%s", line);
        }
    }
    if (file != NULL)
        fclose(file);
    snprintf(text, 17, "%016llx", (unsigned long long)XXH3_64bits(all, strlen(all)));
}

static bool try_compiler(ct_compiler *compiler, const char *command) {
    if (command == NULL || command[0] == '\0' || strlen(command) >= sizeof compiler->command)
        return false;
    if (!ask_version(command, compiler->version, sizeof compiler->version))
        return false;
    if (strstr(compiler->version, "tcc") != NULL)
        return false; // no vector types
    strcpy(compiler->command, command);
    const char *wide = "";
#if defined(__x86_64__) || defined(__i386__)
    if (__builtin_cpu_supports("avx512f"))
        wide = " -mprefer-vector-width=512";
#endif
    snprintf(compiler->flags, sizeof compiler->flags,
             "-std=gnu11 -O2 -march=native%s -fno-math-errno -fno-trapping-math -ffp-contract=off "
             "-fwrapv "
             "-fvisibility=hidden -fPIC -shared -w -x c",
             wide);
    hash_cpu(compiler->cpu);
    return true;
}

const ct_compiler *ct_compiler_find(ct_error *error) {
    static ct_compiler found;
    static char asked[2 * CT_PATH];
    const char *own = getenv("CTRAIN_CC"), *cc = getenv("CC"), *path = getenv("PATH");
    char question[sizeof asked];
    snprintf(question, sizeof question, "%.600s|%.600s|%.600s", own ? own : "", cc ? cc : "",
             path ? path : "");
    if (found.command[0] != '\0' && strcmp(question, asked) == 0)
        return &found;
    strcpy(asked, question);
    memset(&found, 0, sizeof found);
    bool named = own != NULL && own[0] != '\0';
    const char *candidates[] = {cc, "cc", "gcc", "clang"};
    bool good = try_compiler(&found, own);
    for (int i = 0; !named && !good && i < 4; i++)
        good = try_compiler(&found, candidates[i]);
    if (good)
        return &found;
    memset(&found, 0, sizeof found);
    if (named)
        ct_fail(error, CT_ERR_UNSUPPORTED,
                "no C compiler: $CTRAIN_CC (%s) does not run, or is a tcc", own);
    else
        ct_fail(error, CT_ERR_UNSUPPORTED, "no C compiler: neither $CC nor cc, gcc, clang runs");
    return NULL;
}
