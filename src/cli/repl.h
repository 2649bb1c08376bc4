/* repl.h: reading statements and printing values. */
#ifndef CT_CLI_REPL_H
#define CT_CLI_REPL_H

#include "ctrain.h"

/* Reads until end of input (Ctrl-D). Errors in statements are printed and do not end it. */
ct_status ct_repl(ct_runtime *runtime, ct_error *error);

#endif
