/* SPDX-License-Identifier: MIT */
/* Buffers into which the blocks of instrumented kernels write, and their way to the recording.  There is one
 * struct per context; it holds nothing until a recording wants blocks and kernels have been registered. */
#ifndef PROFILE_CTA_H
#define PROFILE_CTA_H

#include "profile/cta_batch.h"
#include "profile/session.h"
#include "work/nodes.h"

struct gy_cta;

GANTRY_MUST_CHECK gantry_status gy_cta_create(struct gy_context *context, struct gy_cta **out);
/* Destroy it when no thread uses it any more; the context is current, and the GPU is idle or the context
 * lost. NULL is ignored. */
void gy_cta_destroy(struct gy_cta *cta);

struct gy_cta_request {
    CUstream native;
    bool in_graph;   /* it will run in a graph that is not launched yet */
    uint32_t stream; /* the stream's number, below 64 */
    uint32_t kernel;
    uint64_t ctas;
    uint32_t ranges;      /* of each block, at most GANTRY_RANGES_MOST */
    uint64_t id, flow;    /* the task's */
    struct gy_lane *lane; /* the kernel will be noted there, and knows slots (work/slot_args.h); else NULL */
    struct gy_cta_copies copies;
};
/* Dispatcher thread, context current, outside of a capture.  Prepare for the launches of a batch: this makes
 * buffers when a recording is first met.  It costs one branch while nothing is recorded. */
void gy_cta_begin_batch(struct gy_cta *cta);
/* Behind it, when all memory is there that a recording needs: compare the clocks, once for each recording.
 * This launches kernels. */
void gy_cta_compare_clocks(struct gy_cta *cta);
/* Dispatcher thread.  Will launches of this batch have records? */
bool gy_cta_is_ready(const struct gy_cta *cta);
/* Dispatcher thread.  Get the parameter that says where the launch's records go; NULL: they are not wanted,
 * or there is no room, which is counted.  For a kernel with a slot the slot says so. */
void *gy_cta_reserve(struct gy_cta *cta, const struct gy_cta_request *request);
/* Dispatcher thread, context current.  The whole batch has been launched, on the streams of the requests:
 * bring its records back. */
void gy_cta_end_batch(struct gy_cta *cta);
/* The next two are called before that, for work that was launched in a graph: the streams of the requests,
 * and where their work ends. */
uint64_t gy_cta_streams(const struct gy_cta *cta);
void gy_cta_set_end(struct gy_cta *cta, uint32_t stream, CUstream native);

/* Dispatcher thread, context current, between batches; the GPU is done, and no completion thread collects.
 * The context is about to get another home: records are handed over, and streams destroyed. */
void gy_cta_move(struct gy_cta *cta);

/* Completion thread.  The GPU has passed the work that was on `stream` at the host time `recorded_ns`:
 * launches there before that time have ended by now. */
void gy_cta_passed(struct gy_cta *cta, uint32_t stream, uint64_t recorded_ns);
/* Completion thread, context current.  Hand over the records that have come back.  It waits for no work of
 * the GPU, and compares the clocks if the last comparison is old, which takes some 10 us. */
void gy_cta_collect(struct gy_cta *cta);

#endif
