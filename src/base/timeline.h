/* timeline.h: what this process did when, as a file that Chrome's about:tracing and Perfetto show.
 * One file a process; what a forked child does is not in it. Times are seconds on the monotonic
 * clock. */
#ifndef CT_BASE_TIMELINE_H
#define CT_BASE_TIMELINE_H

#include "ctrain.h"

/* The file begins empty, and is complete when the process ends
 * (one cut short can still be shown). */
ct_status ct_timeline_open(const char *path, ct_error *error);
bool ct_timeline_on(void);
void ct_timeline_event(const char *name, const char *category, double begin, double end);

#endif
