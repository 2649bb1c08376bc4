/* main.c: the ctrain program. Options, exit codes and messages are those of the stand-alone
 * lua 5.4, with ctrain's Lua files inside. */
#include <signal.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "bind/cli.h"
#include "cli/repl.h"

static ct_runtime *runtime;
static bool quiet;

static void report(const ct_error *error) {
    fflush(stdout);
    fprintf(stderr, "ctrain: %s\n", runtime ? ct_cli_message(runtime, error) : error->message);
}

static void log_line(void *context, ct_log_level level, const char *line) {
    (void)context;
    if (quiet && level != CT_LOG_WARNING)
        return;
    fprintf(stderr, "ctrain: %s%s\n", level == CT_LOG_WARNING ? "warning: " : "", line);
}

/* The first Ctrl-C asks the computation to stop, the next one ends the process. */
static void on_interrupt(int number) {
    signal(number, SIG_DFL);
    ct_cli_interrupt(runtime);
}

static void usage(FILE *to) {
    fputs("usage: ctrain [options] [script [args]]\n"
          "  -e stat   execute string 'stat'\n"
          "  -i        enter interactive mode after executing 'script'\n"
          "  -l mod    require library 'mod' into global 'mod'\n"
          "  -l g=mod  require library 'mod' into global 'g'\n"
          "  -E        ignore Lua's environment variables\n"
          "  -W        turn warnings on\n"
          "  -q        no notes on standard error, only warnings and errors\n"
          "  -v        show version information\n"
          "  -h        show this help\n"
          "  --emit-c FILE   write the C of each traced step (FILE, FILE-2, ...)\n"
          "  --graph FILE    draw the graph of each traced step, before and after fusion,\n"
          "                  as FILE says: .svg (by graphviz's dot), .dot or .txt\n"
          "  --bisect        compare each run of a compiled step with the eager loops, and\n"
          "                  name the first kernel that gives other bits\n"
          "  --cache [DIR]        list the compiled steps that are kept (in DIR)\n"
          "  --cache-clear [DIR]  remove them\n"
          "  --        stop handling options\n"
          "  -         stop handling options and execute stdin\n"
          "Without a script and at a terminal, ctrain reads statements and prints values.\n",
          to);
}

/* Options that ctrain.inspect serves. Those of steps come before a script, the others in place
 * of one. */
typedef struct inspection {
    const char *option, *function;
    bool of_steps, takes_file;
} inspection;

static const inspection inspections[] = {
    {"--emit-c", "emit_c", true, true},
    {"--graph", "graph", true, true},
    {"--bisect", "bisect", true, false},
    {"--cache", "cache", false, false},
    {"--cache-clear", "clear_cache", false, false},
};
enum { INSPECTIONS = sizeof inspections / sizeof *inspections };

typedef struct options {
    bool interactive, version, help, executes, no_environment;
    bool asked[INSPECTIONS];
    const char *file[INSPECTIONS];
    int script; /* place of the script in argv; argc where there is none */
} options;

/* Reads argv[*i] where it is one of the inspections, with its file, as "--graph FILE" or
 * "--graph=FILE"; *bad: it has none. */
static bool parse_inspection(int argc, char **argv, int *i, options *found, bool *bad) {
    for (int k = 0; k < INSPECTIONS; k++) {
        const char *option = argv[*i];
        size_t n = strlen(inspections[k].option);
        if (strncmp(option, inspections[k].option, n) != 0 ||
            (option[n] && (option[n] != '=' || !inspections[k].takes_file)))
            continue;
        found->asked[k] = true;
        if (inspections[k].takes_file) {
            found->file[k] = option[n]                                 ? option + n + 1
                             : *i + 1 < argc && argv[*i + 1][0] != '-' ? argv[++*i]
                                                                       : "";
            *bad = !found->file[k][0];
        }
        return true;
    }
    return false;
}

/* Finds the script; false for an unknown option, which is then argv[script]. */
static bool parse(int argc, char **argv, options *found) {
    int i = 1;
    for (; i < argc && argv[i][0] == '-' && argv[i][1]; i++) {
        const char *option = argv[i];
        found->script = i;
        if (strcmp(option, "--help") == 0) {
            found->help = true;
            continue;
        }
        if (strcmp(option, "--version") == 0) {
            found->version = true;
            continue;
        }
        if (strcmp(option, "--") == 0) {
            i++;
            break;
        }
        bool bad = false;
        if (parse_inspection(argc, argv, &i, found, &bad)) {
            if (bad)
                return false;
            continue;
        }
        if (strchr("eil", option[1]) == NULL && option[2])
            return false;
        switch (option[1]) {
        case 'i':
            if (option[2])
                return false;
            found->interactive = found->version = true;
            break;
        case 'v': found->version = true; break;
        case 'h': found->help = true; break;
        case 'q': quiet = true; break;
        case 'E': found->no_environment = true; break;
        case 'W': break;
        case 'e': found->executes = true; /* fallthrough */
        case 'l':
            if (!option[2] && (++i >= argc || (argv[i][0] == '-' && argv[i][1])))
                return false;
            break;
        default: return false;
        }
    }
    found->script = i;
    return true;
}

/* The inspections of steps (of_steps), which wait for what the script does, or of the cache. */
static ct_status inspect(const options *found, bool of_steps, const char *directory, bool *any,
                         ct_error *error) {
    ct_status status = CT_OK;
    for (int k = 0; k < INSPECTIONS && status == CT_OK; k++) {
        if (!found->asked[k] || inspections[k].of_steps != of_steps)
            continue;
        *any = true;
        status = ct_cli_inspect(runtime, inspections[k].function,
                                of_steps ? found->file[k] : directory, error);
    }
    return status;
}

/* The -e, -l and -W options, in their order. */
static ct_status run_options(char **argv, int script, ct_error *error) {
    for (int i = 1; i < script; i++) {
        char kind = argv[i][0] == '-' ? argv[i][1] : '\0';
        ct_status status = CT_OK;
        if (kind == 'W') {
            status = ct_cli_string(runtime, "warn '@on'", "-W", error);
        } else if (kind == 'e' || kind == 'l') {
            const char *text = argv[i][2] ? argv[i] + 2 : argv[++i];
            status = kind == 'e' ? ct_cli_string(runtime, text, "(command line)", error)
                                 : ct_cli_require(runtime, text, error);
        }
        if (status != CT_OK)
            return status;
    }
    return CT_OK;
}

/* -E: what Lua reads, of this version and of any. */
static void forget_environment(void) {
    static const char *const names[] = {
        "LUA_INIT_5_4", "LUA_INIT", "LUA_PATH_5_4", "LUA_PATH", "LUA_CPATH_5_4", "LUA_CPATH", NULL};
    for (int i = 0; names[i]; i++)
        unsetenv(names[i]);
}

static ct_status run(int argc, char **argv, const options *found, ct_error *error) {
    const char *name = getenv("LUA_INIT_5_4") ? "LUA_INIT_5_4" : "LUA_INIT";
    const char *init = getenv(name);
    ct_status status =
        ct_cli_arguments(runtime, argv, argc, found->script < argc ? found->script : 0, error);
    if (status == CT_OK && init)
        status = *init == '@' ? ct_run_file(runtime, init + 1, error)
                              : ct_cli_string(runtime, init, name, error);
    bool looked = false, watched = false;
    if (status == CT_OK)
        status = inspect(found, false, found->script < argc ? argv[found->script] : NULL, &looked,
                         error);
    if (status != CT_OK || looked)
        return status;
    status = inspect(found, true, NULL, &watched, error);
    if (status == CT_OK)
        status = run_options(argv, found->script, error);
    bool terminal = isatty(STDIN_FILENO);
    if (status == CT_OK && found->script < argc) {
        const char *path = argv[found->script];
        bool from_stdin = strcmp(path, "-") == 0 && strcmp(argv[found->script - 1], "--") != 0;
        status = ct_cli_script(runtime, from_stdin ? NULL : path, error);
    } else if (status == CT_OK && !found->executes && !found->version && !terminal) {
        status = ct_cli_script(runtime, NULL, error);
    }
    if (status != CT_OK)
        return status;
    if (watched)
        status = ct_cli_inspect(runtime, "finish", NULL, error);
    if (status != CT_OK)
        return status;
    if (found->interactive ||
        (found->script >= argc && !found->executes && !found->version && terminal))
        return ct_repl(runtime, error);
    return CT_OK;
}

int main(int argc, char **argv) {
    options found = {.script = argc};
    ct_error error = {.status = CT_OK};
    if (!parse(argc, argv, &found)) {
        const char *bad = argv[found.script];
        bool has_file = false;
        for (int k = 0; k < INSPECTIONS; k++)
            has_file |= found.asked[k] &&
                        strncmp(bad, inspections[k].option, strlen(inspections[k].option)) == 0;
        if (bad[1] == 'e' || bad[1] == 'l')
            fprintf(stderr, "ctrain: '%s' needs argument\n", bad);
        else if (has_file)
            fprintf(stderr, "ctrain: '%s' needs a file\n", bad);
        else
            fprintf(stderr, "ctrain: unrecognized option '%s'\n", bad);
        usage(stderr);
        return EXIT_FAILURE;
    }
    if (found.help) {
        usage(stdout);
        return EXIT_SUCCESS;
    }
    if (found.version)
        puts(ct_cli_version());
    if (found.no_environment)
        forget_environment();
    runtime = ct_runtime_new(&(ct_config){.log = log_line}, &error);
    if (!runtime) {
        report(&error);
        return EXIT_FAILURE;
    }
    signal(SIGINT, on_interrupt);
    ct_status status = run(argc, argv, &found, &error);
    if (status != CT_OK)
        report(&error);
    ct_runtime_free(runtime);
    return status == CT_OK ? EXIT_SUCCESS : EXIT_FAILURE;
}
