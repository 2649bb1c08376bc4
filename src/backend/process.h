/* process.h: starting the C compiler, without a shell. */
#ifndef CT_BACKEND_PROCESS_H
#define CT_BACKEND_PROCESS_H

#include "backend/compiler.h"

/* Starts `command` (words separated by spaces) with the words of `tail` (NULL ends them); what it
 * prints goes to the file descriptor `output`. Its process id, or -1 with errno. */
pid_t ct_process_start(const char *command, const char *const *tail, int output);

#endif
