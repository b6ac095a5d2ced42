/* SPDX-License-Identifier: MIT */
/* How the nodes of a batch come to the device.
 *
 * By an executable graph that is kept and patched (kept.h), or one that is updated as a whole; or, where the
 * driver refuses a graph, on the streams of their lanes (work/play.h).
 *
 * The dispatcher's thread (GD) calls it. */
#ifndef DISPATCHER_SUBMIT_LAUNCH_BATCH_H
#define DISPATCHER_SUBMIT_LAUNCH_BATCH_H

#include "dispatcher/submit/graphs.h"

/* Launch all nodes of the batch on its home; `into` NULL: no place.  No capture of the batch is open.
 * On failure some of them may have been launched, and the context is to be lost. */
GANTRY_MUST_CHECK gantry_status gy_graphs_launch(struct gy_graphs *graphs, struct gy_unit *unit,
                                                 CUcontext where);

#endif
