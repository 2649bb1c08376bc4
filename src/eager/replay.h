/* replay.h: running a recorded step on the eager loops: what a compiled step is held against, and
 * what runs until one is there. */
#ifndef CT_EAGER_REPLAY_H
#define CT_EAGER_REPLAY_H

#include "graph/trace.h" // defines: ct_trace

/* One step: inputs[i] for the trace's inputs (of their dtype and shape), outputs[i] a new reference
 * for each of its n_results. Cells get their next versions, and leaves their gradients, after the
 * last node has run: an error before that leaves all state as it was. */
ct_status ct_replay(ct_trace *trace, ct_tensor *const *inputs, ct_tensor **outputs,
                    ct_error *error);
/* What ends a step, for whoever ran the nodes: new tensors for the results, gradients and exits
 * set. buffers[i] (C order, not shared) holds outputs[i] for i < n_outputs, and after them the exit
 * of each state that has one. */
ct_status ct_replay_finish(ct_trace *trace, ct_buffer *const *buffers, ct_tensor **outputs,
                           ct_error *error);

#endif
