/* A point that the GPU's timed events and the host's clock have in common. */
#ifndef PROFILE_GPU_ANCHOR_H
#define PROFILE_GPU_ANCHOR_H

#include "driver/context.h"

struct gy_gpu_anchor {
    CUevent event, trial; /* trial: of the try at hand, while event is the best one so far */
    uint64_t generation;
    uint64_t host_ns; /* 0: not taken */
    uint64_t bound_ns;
    bool rough; /* a mark of somebody's work: a real one is wanted */
};

/* Record the event on `stream`, which is idle, and see it complete between two readings of the host's clock;
 * of several tries the tightest counts.  False when the GPU did not answer in time or the context is lost. */
bool gy_gpu_anchor_take(struct gy_gpu_anchor *anchor, struct gy_context *context, CUstream stream,
                        uint64_t generation, unsigned tries);

/* Signed nanoseconds from one event to another.  False when the driver refuses. */
bool gy_gpu_elapsed(struct gy_context *context, CUevent from, CUevent to, int64_t *ns);

#endif
