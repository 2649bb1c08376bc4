/* cli.h: what the command line does with Lua, so that src/cli need not know it. Texts of errors
 * carry a traceback; ct_cli_message gives all of a text that is too long for a ct_error. */
#ifndef CT_BIND_CLI_H
#define CT_BIND_CLI_H

#include "ctrain.h"

/* The global `arg`: argv[script] at 0, what came before at negative places. */
ct_status ct_cli_arguments(ct_runtime *runtime, char **argv, int argc, int script, ct_error *error);
/* -l: require "name" as a global of that name ("g=name": as g). */
ct_status ct_cli_require(ct_runtime *runtime, const char *name, ct_error *error);
/* -e: runs text that messages call `name`. */
ct_status ct_cli_string(ct_runtime *runtime, const char *text, const char *name, ct_error *error);
/* Calls the function `name` of ctrain.inspect with `value` (NULL: nothing); its error is the text
 * alone. */
ct_status ct_cli_inspect(ct_runtime *runtime, const char *name, const char *value, ct_error *error);
/* A script with its arguments as `...`; path NULL: standard input. */
ct_status ct_cli_script(ct_runtime *runtime, const char *path, ct_error *error);

typedef enum ct_cli_input { CT_CLI_DONE, CT_CLI_MORE, CT_CLI_FAILED } ct_cli_input;
/* One statement or expression of the REPL; the values of an expression are printed. MORE: the text
 * is the beginning of a statement. */
ct_cli_input ct_cli_statement(ct_runtime *runtime, const char *text, ct_error *error);
/* Makes `ct` and `help` globals, as the REPL has them. */
ct_status ct_cli_prepare(ct_runtime *runtime, ct_error *error);
/* What `text` ("ct.nn.Li") may become: a list that ends with NULL, it and its strings to be freed;
 * NULL: none. */
char **ct_cli_complete(ct_runtime *runtime, const char *text);

/* Stops running Lua code, or the running computation, with an error. Safe in a signal handler. */
void ct_cli_interrupt(ct_runtime *runtime);
/* The whole text of the error that a call here has just given; valid until the next one. */
const char *ct_cli_message(ct_runtime *runtime, const ct_error *error);
/* The versions of ctrain and Lua. */
const char *ct_cli_version(void);

#endif
