/* error.h: filling a caller's ct_error. A NULL error is allowed everywhere. */
#ifndef CT_BASE_ERROR_H
#define CT_BASE_ERROR_H

#include "ctrain.h" // defines: ct_error, ct_status

/* Sets status and message and returns status, so that `return ct_fail(...)` reads well. */
ct_status ct_fail(ct_error *error, ct_status status, const char *format, ...) CT_PRINTF(3, 4);
/* Puts text in front of the message already there: "layer 'fc1': " + what was wrong. */
void ct_error_prefix(ct_error *error, const char *format, ...) CT_PRINTF(2, 3);

#endif
