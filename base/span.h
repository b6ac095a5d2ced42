/* SPDX-License-Identifier: MIT */
/* Spans: what the host has done, and when.  Modules emit them, profile/ receives them.  Off (no sink) costs
 * one relaxed load and a predictable branch. */
#ifndef BASE_SPAN_H
#define BASE_SPAN_H

#include "base/clock.h"

#include <gantry/task.h>

#include <stdatomic.h>
#include <stdbool.h>
#include <stdint.h>

enum gy_span_category {
    GY_SPAN_TASK,     /* a CPU task's body, on its worker */
    GY_SPAN_PHASE,    /* a dispatcher phase, on the dispatcher's thread */
    GY_SPAN_LAUNCH,   /* one launch callback, on the dispatcher's thread */
    GY_SPAN_BATCH,    /* a whole batch, on the dispatcher's thread */
    GY_SPAN_WAIT,     /* a wait for the GPU, on the completion thread */
    GY_SPAN_SUBMIT,   /* ready GPU tasks were handed to the dispatcher, by the thread that made them ready */
    GY_SPAN_MEMORY,   /* a wait for memory */
    GY_SPAN_SHARE,    /* a share of GPU time holds tasks back, see dispatcher/gates/share_turns.c */
    GY_SPAN_EXCHANGE, /* a step waits for the renderer, on the exchange's thread */
    GY_SPAN_ACROSS,   /* an event for other devices is recorded, or waited for, by a dispatcher's thread */
    GY_SPAN_APPLICATION, /* the application gives it, see gantry_profile_span() */
};

struct gy_span_sink {
    /* Called on the emitting thread, whose gy_thread_name() names the track.  `name` is valid only during
     * the call.  Must not block. */
    void (*emit)(struct gy_span_sink *self, enum gy_span_category category, const char *name,
                 uint64_t begin_ns, uint64_t end_ns, uint64_t id);
    /* Called for a counter: `name` has `value` from now on.  May be NULL. */
    void (*count)(struct gy_span_sink *self, const char *name, uint64_t value);
};

extern _Atomic(struct gy_span_sink *) gy_span_current; /* atomic; NULL: off */

static inline bool gy_span_on(void)
{
    return __builtin_expect(atomic_load_explicit(&gy_span_current, memory_order_relaxed) != NULL, 0);
}

/* Returns the time while recording, else 0: the begin argument of gy_span_end(). */
static inline uint64_t gy_span_begin(void)
{
    return gy_span_on() ? gy_clock_ns() : 0;
}

/* Emit the span since `begin_ns` = gy_span_begin(); nothing when recording was off then or is off now.
 * `id` is free: the task's context id, the batch number. */
void gy_span_end(enum gy_span_category category, const char *name, uint64_t begin_ns, uint64_t id);
/* Emit a span that ended at `end_ns`. */
void gy_span_emit(enum gy_span_category category, const char *name, uint64_t begin_ns, uint64_t end_ns,
                  uint64_t id);

#define GY_SPAN_FLOWS 25 /* of one span; more are left out */
/* An arrow joins the next span that the calling thread emits with all others that have the number `flow`, in
 * order of time; 0: none.  The arrow is forgotten when that span is not recorded. */
void gy_span_add_flow(uint64_t flow);
/* For emit(): the flows of the span that is being emitted. */
const uint64_t *gy_span_flows(uint32_t *count);

/* The counter `name` has `value` from now on; nothing when recording is off. */
void gy_span_count(const char *name, uint64_t value);

/* What a range or a mark is of; for a task add its gantry_task_kind. */
enum gy_range_kind {
    GY_RANGE_TASK = 1,
    GY_RANGE_PHASE = GY_RANGE_TASK + GANTRY_TASK_DTOH + 1,
    GY_RANGE_BATCH,
    GY_RANGE_WAIT,
    GY_RANGE_STEP,
    GY_RANGE_COPY,
};

/* A second receiver of spans, which is called as they begin and end, on their own thread: see profile/nvtx.h.
 * `kind` is of enum gy_range_kind; a name is copied, or not looked at later. */
struct gy_span_ranges {
    void (*push)(uint32_t kind, const char *name);
    void (*pop)(void);
    /* For what begins on one thread and ends on another: the number that start() gives goes to end(). */
    uint64_t (*start)(uint32_t kind, const char *name);
    void (*end)(uint64_t number);
    void (*mark)(uint32_t kind, const char *name, uint64_t bytes); /* so many were asked to move */
    void (*name_device)(int device, const char *name);
    void (*name_stream)(void *stream, const char *name);
};
extern _Atomic(const struct gy_span_ranges *) gy_span_ranges; /* atomic; NULL: nobody; set once */

/* A span begins, with `begin_ns` = gy_span_begin(), which is 0 when nobody listens.  The result goes to
 * gy_span_pop() on the same thread, in the opposite order. */
static inline const struct gy_span_ranges *gy_span_push(uint64_t begin_ns, uint32_t kind, const char *name)
{
    const struct gy_span_ranges *ranges = NULL;
    if (__builtin_expect(begin_ns != 0, 0)) {
        ranges = atomic_load_explicit(&gy_span_ranges, memory_order_acquire);
        if (ranges != NULL) {
            ranges->push(kind, name);
        }
    }
    return ranges;
}

static inline void gy_span_pop(const struct gy_span_ranges *ranges)
{
    if (__builtin_expect(ranges != NULL, 0)) {
        ranges->pop();
    }
}

/* Install a sink, or NULL.  When this returns, no thread is inside the former sink. */
void gy_span_set_sink(struct gy_span_sink *sink);

#endif
