/* SPDX-License-Identifier: MIT */
/* The functions that the two halves of a completion thread share: the loop that looks at events, and how it
 * waits. */
#ifndef DISPATCHER_DONE_COMPLETION_THREAD_H
#define DISPATCHER_DONE_COMPLETION_THREAD_H

#include "base/waiter.h"
#include "dispatcher/done/completion.h"

static inline struct gy_completion_slot *gy_completion_slot_at(struct gy_completion *c, uint64_t position)
{
    return &c->slots[c->ring[position % GY_COMPLETION_SLOTS]];
}

static inline uint32_t gy_completion_list_of(const struct gy_completion_slot *slot)
{
    return slot->stream;
}

static inline bool gy_completion_spins_first(const struct gy_completion *c)
{
    return gy_waiter_spins_first(c->config.wait);
}

/* Leader, or a thread that naps. */
static inline void gy_completion_count(_Atomic(uint64_t) *counter, uint64_t n)
{
    uint64_t before = atomic_load_explicit(counter, memory_order_relaxed);
    atomic_store_explicit(counter, before + n, memory_order_relaxed);
}

/* ---- completion.c -------------------------------------------------------------------------- */

/* The only writer of its state. */
void gy_completion_slot_enter(struct gy_completion_slot *slot, enum gy_slot_state next);

/* ---- completion_loop.c ----------------------------------------------------------------------- */

/* The body of a thread; `thread`: a struct gy_completion_thread. */
void gy_completion_main(void *thread);

/* ---- completion_wait.c ----------------------------------------------------------------------- */

/* Wake the thread that naps, or a follower. */
void gy_completion_call(struct gy_completion *c) GY_REQUIRES(c->lock);

/* A thread that does not lead waits until it does; false: all is over. */
bool gy_completion_follow(struct gy_completion_thread *thread);

/* Leader: nothing is pending.  Wait for news as the wait mode says; false: all is over. */
bool gy_completion_await_news(struct gy_completion_thread *thread);

/* Leader: completions are pending and none has passed.  Look again at once, or stop leading for a while, as
 * the wait mode and the expected times of the completions say; false: everything is over. */
bool gy_completion_rest(struct gy_completion_thread *thread);

/* Leader only: all completions were told and the ring is closing. */
void gy_completion_end(struct gy_completion *c);

/* Leader: `list` has another first completion. */
void gy_completion_list_begins(struct gy_completion *c, struct gy_completion_list *list, uint64_t now);

/* Leader: the first of `list` has passed; in so many ns. */
uint64_t gy_completion_list_passed(struct gy_completion *c, struct gy_completion_list *list, uint64_t now);

/* Leader: something has passed after `took_ns`. */
void gy_completion_learn(struct gy_completion *c, uint64_t took_ns);

/* Leader: the events of a slot that is done are idle. */
void gy_completion_put_back(struct gy_completion *c, const struct gy_completion_slot *slot);

/* The thread does not wait any more: a slice in recordings ends, if one has begun. */
void gy_completion_end_span(struct gy_completion_thread *thread);

#endif
