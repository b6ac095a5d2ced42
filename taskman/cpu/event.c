/* SPDX-License-Identifier: MIT */
#include "taskman/cpu/event.h"

#include "base/clock.h"
#include "base/point.h"
#include "base/times.h"

gantry_status gy_event_init(struct gy_event *event)
{
    gantry_status status = gy_guard_init(&event->lock, GY_RANK_CPU_POOL, &event->moved);
    if (status == GANTRY_OK) {
        atomic_init(&event->epoch, 0);
        atomic_init(&event->sleepers, 0);
        atomic_init(&event->on_their_way, 0);
    }
    return status;
}

void gy_event_fini(struct gy_event *event)
{
    gy_guard_fini(&event->lock, &event->moved);
}

/* A thread that looks for news from now on sees the news for which no other thread was woken. */
static void begin_to_look(struct gy_event *event)
{
    if (atomic_load(&event->on_their_way) != 0) {
        atomic_store(&event->on_their_way, 0);
    }
}

/* A notifier that counted this thread as woken before it has read the epoch does not wake it, so that count
 * must go. */
uint32_t gy_event_prepare(struct gy_event *event)
{
    gy_point(GY_POINT_EVENT_PREPARE, event);
    atomic_fetch_add(&event->sleepers, 1);
    gy_point(GY_POINT_EVENT_KEY, event);
    uint32_t key = atomic_load(&event->epoch);
    begin_to_look(event);
    return key;
}

/* The thread is awake again, or did not sleep. */
static void come_back(struct gy_event *event)
{
    atomic_fetch_sub(&event->sleepers, 1);
    gy_point(GY_POINT_EVENT_BACK, event);
    begin_to_look(event);
}

void gy_event_cancel(struct gy_event *event)
{
    come_back(event);
}

void gy_event_sleep(struct gy_event *event, uint32_t key)
{
    gy_mutex_lock(&event->lock);
    while (atomic_load_explicit(&event->epoch, memory_order_relaxed) == key) {
        gy_cond_wait(&event->moved, &event->lock);
    }
    gy_mutex_unlock(&event->lock);
    come_back(event);
}

static bool sleep_until(struct gy_event *event, uint32_t key, uint64_t until_ns)
{
    bool is_over = false;
    gy_mutex_lock(&event->lock);
    while (atomic_load_explicit(&event->epoch, memory_order_relaxed) == key && !is_over) {
        gy_cond_wait_until(&event->moved, &event->lock, until_ns);
        is_over = gy_clock_ns() >= until_ns;
    }
    is_over = atomic_load_explicit(&event->epoch, memory_order_relaxed) == key;
    gy_mutex_unlock(&event->lock);
    return is_over;
}

/* Threads of the application have a slack of 50 us. */
bool gy_event_sleep_until(struct gy_event *event, uint32_t key, uint64_t until_ns)
{
    unsigned long slack = gy_thread_set_slack(GY_SLACK_NS);
    bool is_over = sleep_until(event, key, until_ns);
    (void)gy_thread_set_slack(slack);
    come_back(event);
    return is_over;
}

bool gy_event_sleep_for(struct gy_event *event, uint32_t key, uint64_t ns)
{
    bool is_over = sleep_until(event, key, gy_clock_ns() + ns);
    come_back(event);
    return is_over;
}

void gy_event_wait_for(struct gy_event *event, _Atomic(uint32_t) *word, uint32_t value)
{
    for (;;) {
        uint32_t key = gy_event_prepare(event);
        if (atomic_load(word) == value) {
            gy_event_cancel(event);
            return;
        }
        gy_event_sleep(event, key);
    }
}

void gy_event_notify(struct gy_event *event, uint32_t count)
{
    gy_point(GY_POINT_EVENT_NOTIFY, event);
    uint32_t sleepers = atomic_load(&event->sleepers);
    if (sleepers == 0) {
        return;
    }
    gy_mutex_lock(&event->lock);
    atomic_fetch_add(&event->epoch, 1);
    if (count >= sleepers) {
        gy_cond_broadcast(&event->moved);
    } else {
        for (uint32_t i = 0; i < count; i++) {
            gy_cond_signal(&event->moved);
        }
    }
    gy_mutex_unlock(&event->lock);
}

/* A notifier that finds no sleeper after it has counted one as woken takes that back, and looks again:
 * meanwhile a thread may have fallen asleep, and another notifier may not have woken it because of that
 * count. */
void gy_event_wake_one(struct gy_event *event, uint32_t most)
{
    gy_point(GY_POINT_EVENT_NOTIFY, event);
    while (atomic_load(&event->sleepers) != 0) {
        uint32_t before = atomic_load(&event->on_their_way);
        do {
            if (before >= most) {
                return;
            }
        } while (!atomic_compare_exchange_weak(&event->on_their_way, &before, before + 1));
        gy_point(GY_POINT_EVENT_WAKE, event);
        if (atomic_load(&event->sleepers) != 0) {
            gy_mutex_lock(&event->lock);
            atomic_fetch_add(&event->epoch, 1);
            gy_cond_signal(&event->moved);
            gy_mutex_unlock(&event->lock);
            return;
        }
        gy_point(GY_POINT_EVENT_TAKE_BACK, event);
        atomic_store(&event->on_their_way, 0);
    }
}
