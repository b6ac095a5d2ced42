/* SPDX-License-Identifier: MIT */
/* An eventcount: a thread sleeps until another one says that something may have changed, and loses no news.
 *
 * A sleeper: key = gy_event_prepare(), look for its condition once more, then gy_event_sleep(key), or
 * gy_event_cancel() when the condition holds.  The other side: make the condition true, then
 * gy_event_notify().
 *
 * Why no wake-up is lost: the sleeper adds itself to `sleepers` and then reads the condition; the other
 * side writes the condition and then reads `sleepers`.  All four are sequentially consistent, so at least
 * one of them sees the other.  If the notifier sees the sleeper it moves `epoch` on, and a sleeper whose
 * key is no longer the epoch does not sleep.  Conditions must therefore be written with sequentially
 * consistent stores or read-modify-writes and read with sequentially consistent loads, or both under
 * a mutex of their own.
 *
 * gy_event_wake_one() wakes nobody while a sleeper that it has woken is still on its way.  No news is lost by
 * that either: a sleeper that comes back says so and then looks, and who would have woken another one has
 * made its condition true before.  What that sleeper leaves for others it has to pass on itself. */
#ifndef TASKMAN_CPU_EVENT_H
#define TASKMAN_CPU_EVENT_H

#include "base/thread.h"

#include <stdatomic.h>
#include <stdint.h>

struct gy_event {
    gy_mutex lock;
    gy_cond moved;           /* epoch changed */
    _Atomic(uint32_t) epoch; /* atomic; written under lock */
    /* This cache line is written only when a thread falls asleep or wakes up; threads that have news read
     * it. */
    _Alignas(
        64) _Atomic(uint32_t) sleepers; /* atomic; threads between prepare and the end of sleep or cancel */
    _Atomic(uint32_t) on_their_way; /* atomic; woken by gy_event_wake_one(), since the last one came back */
};

/* @retval GANTRY_ERR_OUT_OF_HOST_MEMORY */
GANTRY_MUST_CHECK gantry_status gy_event_init(struct gy_event *event);
void gy_event_fini(struct gy_event *event);

uint32_t gy_event_prepare(struct gy_event *event);
void gy_event_cancel(struct gy_event *event);
void gy_event_sleep(struct gy_event *event, uint32_t key);

/* gy_event_sleep(), but until `until_ns` of gy_clock_ns() at the latest: true if it was that long.  The
 * system may let it be a microsecond more. */
bool gy_event_sleep_until(struct gy_event *event, uint32_t key, uint64_t until_ns);

/* The same for `ns` at the most, without asking the system to be exact. */
bool gy_event_sleep_for(struct gy_event *event, uint32_t key, uint64_t ns);

/* Sleep until `*word`, for which the same holds as for a condition, has that value. */
void gy_event_wait_for(struct gy_event *event, _Atomic(uint32_t) *word, uint32_t value);

/* Wake at least `count` sleepers, or all when there are fewer.  No system call when nobody sleeps. */
void gy_event_notify(struct gy_event *event, uint32_t count);

/* Wake one sleeper, unless `most` or more that were woken so are on their way. */
void gy_event_wake_one(struct gy_event *event, uint32_t most);

#endif
