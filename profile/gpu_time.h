/* SPDX-License-Identifier: MIT */
/* GPU time of tasks: pairs of timed events on their streams, which are read back when the GPU has passed them
 * and aligned to host time.  There is one struct per context, made with the context and idle while nothing is
 * recorded. */
#ifndef PROFILE_GPU_TIME_H
#define PROFILE_GPU_TIME_H

#include "work/nodes.h"

struct gy_cta;
struct gy_gpu_time;
struct gy_gpu_mark;

GANTRY_MUST_CHECK gantry_status gy_gpu_time_create(struct gy_context *context, struct gy_gpu_time **out);
/* Emit the times that the GPU has finished, and drop the rest.  Both threads below have ended.  NULL is
 * ignored. */
void gy_gpu_time_destroy(struct gy_gpu_time *time);

/* Dispatcher thread, context current, between batches; the GPU is done with what was measured, and no
 * completion thread collects.  The context is about to get another home: everything measured goes to the
 * recording, and the streams of before are destroyed.  Later work has the tracks that the context is recorded
 * as by then. */
void gy_gpu_time_move(struct gy_gpu_time *time);

/* The records of blocks that belong to it; they live as long. */
struct gy_cta *gy_gpu_time_ctas(struct gy_gpu_time *time);

/* Dispatcher thread, context current, outside of a capture.  Prepare for the marks of batch `number`, which
 * begins with `waiting` tasks: this takes an anchor when a recording is first met, and makes marks.  It costs
 * one branch while nothing is recorded. */
void gy_gpu_time_begin_batch(struct gy_gpu_time *time, uint32_t waiting, uint64_t number);
/* Dispatcher thread.  All tasks of the batch have a mark: its slice is written when the last of them is. */
void gy_gpu_time_end_batch(struct gy_gpu_time *time);
/* Dispatcher thread, context current.  Record the begin of `name` (copied) on `stream`, or on `lane` when
 * that is not NULL.  NULL: nothing is recorded now, the recording has begun within this batch, or no mark is
 * free (which is counted as lost). */
struct gy_gpu_mark *gy_gpu_time_begin(struct gy_gpu_time *time, CUstream stream, struct gy_lane *lane,
                                      uint32_t stream_index, const char *partition, const char *name,
                                      uint64_t id);
/* Dispatcher thread.  What struct gy_gpu_slice says besides: `after` and `manager`.  A NULL mark is ignored.
 */
void gy_gpu_time_describe(struct gy_gpu_mark *mark, uint64_t after, uint32_t manager);
/* Dispatcher thread.  The next call of the task is held back, for a time that nobody knows, or is not any
 * longer.  The end of a recording waits for no such task: its mark is counted as unfinished. */
void gy_gpu_time_rest(struct gy_gpu_time *time, struct gy_gpu_mark *mark, bool rests);
/* Dispatcher thread.  Record the end.  A NULL mark is ignored. */
void gy_gpu_time_end(struct gy_gpu_time *time, struct gy_gpu_mark *mark, CUstream stream,
                     struct gy_lane *lane);
/* Dispatcher thread.  End a mark whose task was not called after all: there is no slice for it. */
void gy_gpu_time_drop(struct gy_gpu_time *time, struct gy_gpu_mark *mark, CUstream stream,
                      struct gy_lane *lane);
/* Dispatcher thread.  The captured work has been launched: marks that ended in the capture may be looked for.
 */
void gy_gpu_time_launched(struct gy_gpu_time *time);
/* Completion thread, context current: emit every mark whose end the GPU has passed.  It waits for no work of
 * the GPU.  A new anchor (at most every 100 ms) takes some 10 us, or 2 ms if the GPU does not answer.  Marks
 * that shall be in the trace must be collected before the application can know of their work, so before the
 * completions of that work are reported. */
void gy_gpu_time_collect(struct gy_gpu_time *time);

#ifdef GANTRY_TESTING
/* To be called before the first mark: replace anchors when they are this old. */
void gy_gpu_time_set_anchor_age(struct gy_gpu_time *time, uint64_t ns);
#endif

#endif
