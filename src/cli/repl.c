/* repl.c: the loop that reads a statement, runs it and prints its values. Line editing is libedit's
 * where standard input is a terminal; the history is kept in $XDG_STATE_HOME/ctrain/history. */
#include "cli/repl.h"

#include <editline/readline.h>
#include <errno.h>
#include <locale.h>
#include <signal.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>
#include <wchar.h>

#include "bind/cli.h"

static ct_runtime *current; /* what completion and the signal handler work for */
static volatile sig_atomic_t reading, stopped;

/* Ctrl-C at the prompt gives a fresh one, during a computation it stops that. */
static void on_interrupt(int number) {
    (void)number;
    if (reading)
        stopped = 1;
    else
        ct_cli_interrupt(current);
}

/* libedit's source of characters: a read that Ctrl-C ends. */
static int read_character(FILE *unused) {
    (void)unused;
    mbstate_t state;
    memset(&state, 0, sizeof state);
    while (!stopped) {
        char byte;
        wchar_t character;
        ssize_t count = read(STDIN_FILENO, &byte, 1);
        if (count < 0 && errno == EINTR)
            continue;
        if (count <= 0)
            break;
        size_t used = mbrtowc(&character, &byte, 1, &state);
        if (used == (size_t)-1)
            memset(&state, 0, sizeof state);
        else if (used != (size_t)-2)
            return (int)character;
    }
    return EOF;
}

/* libedit asks for candidate number `state` until NULL. */
static char *next_candidate(const char *text, int state) {
    static char **list;
    static int at;
    if (state == 0) {
        free(list);
        list = ct_cli_complete(current, text);
        at = 0;
    }
    return list ? list[at++] : NULL; /* libedit frees the strings */
}

static char **complete(const char *text, int start, int end) {
    (void)start;
    (void)end;
    rl_attempted_completion_over = 1; /* no file names */
    rl_completion_append_character = '\0';
    return rl_completion_matches(text, next_candidate);
}

/* The history file's path, its directory made; false where there is no home. */
static bool history_path(char path[4096]) {
    const char *state = getenv("XDG_STATE_HOME"), *home = getenv("HOME");
    int used;
    if (state && *state)
        used = snprintf(path, 4096, "%s/ctrain", state);
    else if (home && *home)
        used = snprintf(path, 4096, "%s/.local/state/ctrain", home);
    else
        return false;
    if (used < 0 || used > 4000)
        return false;
    for (char *slash = path + 1; (slash = strchr(slash, '/')); slash++) {
        *slash = '\0';
        mkdir(path, 0700);
        *slash = '/';
    }
    if (mkdir(path, 0700) != 0 && errno != EEXIST)
        return false;
    strcpy(path + used, "/history");
    return true;
}

/* One line without its newline, to be freed; NULL at the end
 * of input, and where Ctrl-C ended it. */
static char *read_line(const char *text, bool terminal) {
    if (terminal) {
        reading = 1;
        char *line = readline(text);
        reading = 0;
        return line;
    }
    char *line = NULL;
    size_t size = 0;
    ssize_t length = getline(&line, &size, stdin);
    if (length < 0) {
        free(line);
        return NULL;
    }
    if (length > 0 && line[length - 1] == '\n')
        line[length - 1] = '\0';
    return line;
}

/* `text` and `line` joined by a newline, both freed; text may be NULL. */
static char *joined(char *text, char *line) {
    if (!text)
        return line;
    size_t size = strlen(text) + strlen(line) + 2;
    char *longer = malloc(size);
    if (longer)
        snprintf(longer, size, "%s\n%s", text, line);
    free(text);
    free(line);
    return longer;
}

/* A statement goes into the history as one line where it has no comments, which would swallow what
 * follows. */
static void remember(char *text) {
    if (!*text)
        return;
    if (!strstr(text, "--"))
        for (char *end = text; (end = strchr(end, '\n'));)
            *end = ' ';
    add_history(text);
}

static void open_terminal(char path[4096]) {
    setlocale(LC_CTYPE, "");
    printf("%s   help(x) tells about x, Ctrl-D leaves\n", ct_cli_version());
    rl_readline_name = "ctrain";
    rl_getc_function = read_character;
    rl_initialize();
    rl_attempted_completion_function = complete;
    rl_basic_word_break_characters = " \t\n\"\\'`@$><=;|&{(,+-*/^%#~[]})";
    using_history();
    if (history_path(path))
        read_history(path);
    else
        path[0] = '\0';
    sigaction(SIGINT, &(struct sigaction){.sa_handler = on_interrupt},
              NULL); /* reads are not restarted */
}

static void close_terminal(const char *path) {
    putchar('\n');
    if (!path[0])
        return;
    stifle_history(2000);
    write_history(path);
}

ct_status ct_repl(ct_runtime *runtime, ct_error *error) {
    bool terminal = isatty(STDIN_FILENO);
    char path[4096] = "", *text = NULL;
    current = runtime;
    ct_status status = ct_cli_prepare(runtime, error);
    if (status != CT_OK)
        return status;
    if (terminal)
        open_terminal(path);
    for (;;) {
        char *line = read_line(text ? ">> " : "> ", terminal);
        if (stopped) {
            stopped = 0;
            free(line);
            free(text);
            text = NULL;
            puts("^C");
            continue;
        }
        if (!line || !(text = joined(text, line)))
            break;
        ct_error failure = {.status = CT_OK};
        ct_cli_input outcome = ct_cli_statement(runtime, text, &failure);
        if (outcome == CT_CLI_MORE)
            continue;
        fflush(stdout);
        if (outcome == CT_CLI_FAILED)
            fprintf(stderr, "%s\n", ct_cli_message(runtime, &failure));
        if (terminal)
            remember(text);
        free(text);
        text = NULL;
    }
    free(text);
    if (terminal)
        close_terminal(path);
    return CT_OK;
}
