/* SPDX-License-Identifier: MIT */
/* A point that the GPU's timed events and the host's clock have in common. */
#ifndef PROFILE_GPU_ANCHOR_H
#define PROFILE_GPU_ANCHOR_H

#include "driver/context.h"

struct gy_gpu_anchor {
    CUevent event, trial; /* `trial` is the current try's, and `event` the best one's so far */
    uint64_t generation;
    uint64_t host_ns; /* 0: not taken */
    uint64_t bound_ns;
    bool rough; /* it is a mark around an application's work: a real anchor is wanted */
};

/* Create a timed event, if there is none yet. */
bool gy_gpu_create_event(struct gy_context *context, CUevent *event);
/* NULL is ignored. */
void gy_gpu_destroy_event(struct gy_context *context, CUevent event);

/* Record the event on `stream`, which is idle, and see it complete between two readings of the host's clock.
 * Of several tries, the tightest is kept.  False: the GPU did not answer in time, or the context is lost. */
bool gy_gpu_anchor_take(struct gy_gpu_anchor *anchor, struct gy_context *context, CUstream stream,
                        uint64_t generation, unsigned tries);

/* The signed nanoseconds from one event to another.  False: the driver refuses. */
bool gy_gpu_elapsed(struct gy_context *context, CUevent from, CUevent to, int64_t *ns);

#endif
