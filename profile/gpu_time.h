/* GPU time of tasks: pairs of timed events on their streams, read back when the GPU has passed them and
 * aligned to host time.  One struct per context; made at its creation, idle while nothing is recorded. */
#ifndef PROFILE_GPU_TIME_H
#define PROFILE_GPU_TIME_H

#include "driver/nodes.h"

struct gy_cta;
struct gy_gpu_time;
struct gy_gpu_mark;

GANTRY_MUST_CHECK gantry_status gy_gpu_time_create(struct gy_context *context, struct gy_gpu_time **out);
/* Emits what the GPU has finished, drops the rest.  Both threads below have ended.  NULL is ignored. */
void gy_gpu_time_destroy(struct gy_gpu_time *time);

/* The records of blocks that go with it; as long-lived. */
struct gy_cta *gy_gpu_time_ctas(struct gy_gpu_time *time);

/* Dispatcher thread, context current, outside of a capture.  Get ready for what a batch will mark, which
 * begins with `waiting` tasks: takes an anchor when a recording is first met, makes marks.  One branch while
 * nothing is recorded. */
void gy_gpu_time_begin_batch(struct gy_gpu_time *time, uint32_t waiting);
/* Dispatcher thread, context current.  Record the begin of `name` (copied) on `stream`, or on `lane` when
 * that is not NULL; NULL when nothing is recorded now, the recording has begun within this batch, or no mark
 * is free (counted as lost). */
struct gy_gpu_mark *gy_gpu_time_begin(struct gy_gpu_time *time, CUstream stream, struct gy_lane *lane,
                                      uint32_t stream_index, const char *partition, const char *name,
                                      uint64_t id);
/* Dispatcher thread.  Record the end.  NULL mark is ignored. */
void gy_gpu_time_end(struct gy_gpu_time *time, struct gy_gpu_mark *mark, CUstream stream,
                     struct gy_lane *lane);
/* The same for a task that was not called after all: no slice comes of the mark. */
void gy_gpu_time_drop(struct gy_gpu_time *time, struct gy_gpu_mark *mark, CUstream stream,
                      struct gy_lane *lane);
/* Dispatcher thread.  What was captured has been launched: marks that ended in it may be looked for. */
void gy_gpu_time_launched(struct gy_gpu_time *time);
/* Completion thread, context current: emit every mark whose end the GPU has passed.  Waits for no work of
 * the GPU; a new anchor (at most every 100 ms) takes some 10 us, 2 ms if the GPU does not answer.  What
 * shall be in the trace of a recording must be collected before the application can know of it, hence
 * before the completions of the same work are told. */
void gy_gpu_time_collect(struct gy_gpu_time *time);

#ifdef GANTRY_TESTING
/* Before the first mark: replace anchors when they are this old. */
void gy_gpu_time_set_anchor_age(struct gy_gpu_time *time, uint64_t ns);
/* Recordings to come begin with so many marks, a pair of events each. */
void gy_gpu_time_set_marks(uint32_t first);
#endif

#endif
