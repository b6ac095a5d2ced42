/* Buffers into which the blocks of instrumented kernels write, and what becomes of them.  One struct per
 * context; it holds nothing until a recording wants blocks and kernels have been registered. */
#ifndef PROFILE_CTA_H
#define PROFILE_CTA_H

#include "driver/context.h"
#include "profile/session.h"

struct gy_cta;

GANTRY_MUST_CHECK gantry_status gy_cta_create(struct gy_context *context, struct gy_cta **out);
/* No thread uses it any more; the context is current, the GPU idle or the context lost.  NULL is ignored. */
void gy_cta_destroy(struct gy_cta *cta);

/* The dispatcher and the completion threads, when they begin: batches end by what they do. */
void gy_cta_serve(const struct gy_cta *cta);

struct gy_cta_request {
    CUstream native;
    bool in_graph;   /* it will run in a graph that is not launched yet */
    uint32_t stream; /* its number, below 64 */
    uint32_t kernel;
    uint64_t ctas;
    uint64_t id, flow; /* of the task */
};
/* Dispatcher thread, context current, outside of a capture.  Get ready for what a batch will launch: makes
 * buffers when a recording is first met.  One branch while nothing is recorded. */
void gy_cta_begin_batch(struct gy_cta *cta);
/* Dispatcher thread.  The device address of the launch's records; NULL when they are not wanted or there is
 * no room, which is counted. */
void *gy_cta_reserve(struct gy_cta *cta, const struct gy_cta_request *request);
/* Dispatcher thread, context current.  Everything of the batch has been launched, on the streams of the
 * requests: bring its records back. */
void gy_cta_end_batch(struct gy_cta *cta);
/* Before that, for what was launched in a graph: the streams of the requests, and where their work ends. */
uint64_t gy_cta_streams(const struct gy_cta *cta);
void gy_cta_set_end(struct gy_cta *cta, uint32_t stream, CUstream native);

/* Completion thread.  The GPU is seen to have passed what was on `stream` at the host time `recorded_ns`:
 * what was launched there before had ended by now. */
void gy_cta_passed(struct gy_cta *cta, uint32_t stream, uint64_t recorded_ns);
/* Completion thread, context current.  Hand over what has come back.  Waits for no work of the GPU; compares
 * the clocks when that was long ago, some 10 us. */
void gy_cta_collect(struct gy_cta *cta);

#endif
