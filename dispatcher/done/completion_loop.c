/* SPDX-License-Identifier: MIT */
/* The loop of the completion threads: it takes in published completions, and tells those that the GPU has
 * passed. */
#include "base/clock.h"
#include "base/span.h"
#include "base/times.h"
#include "dispatcher/done/completion_thread.h"
#include "dispatcher/done/deferred.h"
#include "dispatcher/gates/admission.h"
#include "dispatcher/gates/shares.h"
#include "dispatcher/loop/current.h"
#include "dispatcher/order/streams.h"
#include "profile/cta.h"
#include "profile/gpu_time.h"
#include "taskman/gpu_ops.h"

#include <assert.h>
#include <stdio.h>

/* The completions that were published from `from` on will probably pass soon: give a wake hint to the pool
 * that runs the first task. */
static void announce(struct gy_completion *c, uint64_t from, uint64_t to)
{
    for (uint64_t p = from; p != to && c->learned.near_ns != 0; p++) {
        const gantry_task *task = gy_completion_slot_at(c, p)->task;
        if (task != NULL) {
            gy_task_expect_ready(task, c->learned.near_ns);
            return;
        }
    }
}

/* Record a slice between the GPU task and the one that waited for it, which their arrows pass.  This comes
 * before the completion is told, since its task may end the recording. */
static void record_completion(const struct gy_completion_slot *slot)
{
    char name[64];
    uint64_t begin = gy_span_begin();
    if (begin != 0) {
        snprintf(name, sizeof(name), "complete %s", gantry_task_label(slot->task));
        gy_span_add_flow(slot->flow);
        gy_span_add_flow(gy_task_expect_flow(slot->task));
        gy_span_end(GY_SPAN_WAIT, name, begin, slot->stream);
    }
}

static void finish_slot(struct gy_completion *c, struct gy_completion_slot *slot)
{
    const struct gy_completion_round *round = &c->round;
    if (!round->lost) {
        gy_streams_passed(c->config.streams, slot->stream, slot->seq);
    }
    gy_completion_put_back(c, slot);
    /* Before the completion is told: its task may count on the memory. */
    (void)gy_deferred_collect(c->config.deferred, slot->stream, round->lost);
    gy_admission_passed(c->config.admission);
    if (slot->task == NULL) {
        return;
    }
    if (__builtin_expect(slot->flow != 0, 0)) {
        record_completion(slot);
    }
    if (round->lost) {
        gy_task_remove_reference_failed(slot->task, gy_context_adopt_loss(c->config.context));
    } else {
        (void)gantry_task_remove_reference(slot->task); /* the reference is ours: cannot fail */
    }
}

static void collect_times(struct gy_completion *c)
{
    gy_mutex_lock(c->config.collecting);
    gy_gpu_time_collect(c->config.time);
    if (gy_shares_any(c->config.shares)) {
        gy_shares_collect(c->config.shares);
    }
    gy_mutex_unlock(c->config.collecting);
}

bool gy_completion_list_is_valid(const struct gy_completion *c, uint32_t stream)
{
    const struct gy_completion_list *list = &c->lists[stream];
    const bool is_empty = list->first == GY_COMPLETION_NONE;
    bool is_shown = (atomic_load_explicit(&c->shown.foretold, memory_order_relaxed) >> stream & 1u) != 0;
    return is_empty == ((c->round.listed >> stream & 1u) == 0) &&
           is_shown == (list->told != GY_LIST_UNKNOWN) && (!is_empty || !is_shown) &&
           gy_foresight_is_valid(&list->foresight) &&
           (is_empty || (list->first < GY_COMPLETION_SLOTS && list->last < GY_COMPLETION_SLOTS &&
                         c->slots[list->first].state == GY_SLOT_LISTED &&
                         c->slots[list->last].next == GY_COMPLETION_NONE));
}

/* Take the published completions into the lists. */
static void take_in(struct gy_completion *c, uint64_t published, uint64_t now)
{
    for (; c->round.taken != published; c->round.taken++) {
        uint16_t number = c->ring[c->round.taken % GY_COMPLETION_SLOTS];
        struct gy_completion_slot *slot = &c->slots[number];
        uint32_t which = gy_completion_list_of(slot);
        struct gy_completion_list *list = &c->lists[which];
        gy_completion_slot_enter(slot, GY_SLOT_LISTED);
        slot->next = GY_COMPLETION_NONE;
        if (list->first == GY_COMPLETION_NONE) {
            list->first = number;
            list->ended_ns = 0;
            gy_completion_list_begins(c, list, now);
            c->round.since = now;
        } else {
            c->slots[list->last].next = number;
        }
        list->last = number;
        c->round.listed |= which < GY_STREAMS_MAX ? UINT64_C(1) << which : 0;
        assert(gy_completion_list_is_valid(c, which));
    }
}

/* The first of a list.  One without an event was flushed with the one before it. */
static bool has_passed(struct gy_completion *c, const struct gy_completion_slot *slot)
{
    if (c->round.lost || slot->event == NULL) {
        return true;
    }
    CUresult result = c->config.context->driver->cuEventQuery(slot->event);
    if (gy_driver_result_is_of_capture(result)) { /* it is asked again */
        result = CUDA_ERROR_NOT_READY;
    }
    if (result != CUDA_SUCCESS && result != CUDA_ERROR_NOT_READY) {
        (void)gy_context_check(c->config.context, result, "cuEventQuery(completion)", __FILE__, __LINE__);
        gy_context_lose(c->config.context, gy_error_last());
        c->round.lost = true;
    }
    return result != CUDA_ERROR_NOT_READY;
}

/* Tell each completion whose event has passed; true when any has. */
static bool sweep_list(struct gy_completion *c, struct gy_completion_list *list)
{
    struct gy_completion_round *round = &c->round;
    bool any = false;
    uint32_t events = 0;
    while (list->first != GY_COMPLETION_NONE && has_passed(c, &c->slots[list->first])) {
        uint16_t number = list->first;
        struct gy_completion_slot *slot = &c->slots[number];
        list->first = slot->next;
        events += slot->event != NULL;
        struct gy_gpu_guest *guest = atomic_load_explicit(&c->lead.guest, memory_order_relaxed);
        if (!any && guest != NULL && slot->task != NULL) {
            gy_gpu_guest_begin_release(guest);
        }
        if (!any) {
            round->took = gy_completion_list_passed(c, list, gy_clock_ns());
        }
        /* Before the completion is told: its task may end the recording. */
        if (__builtin_expect(slot->recorded_ns != 0 && !round->lost, 0)) {
            gy_cta_passed(gy_gpu_time_ctas(c->config.time), slot->stream, slot->recorded_ns);
        }
        collect_times(c);
        finish_slot(c, slot);
        round->stream = slot->stream;
        gy_completion_slot_enter(slot, GY_SLOT_FREE);
        c->ring[round->head++ % GY_COMPLETION_SLOTS] = number;
        any = true;
    }
    if (events > 1) {
        list->ended_ns = 0; /* only of the first it is known when it has passed */
    }
    if (any && list->first != GY_COMPLETION_NONE) {
        gy_completion_list_begins(c, list, gy_clock_ns());
    }
    return any;
}

static bool sweep(struct gy_completion *c)
{
    bool any = false;
    for (uint64_t left = c->round.listed; left != 0; left &= left - 1) {
        struct gy_completion_list *list = &c->lists[__builtin_ctzll(left)];
        any = sweep_list(c, list) || any;
        c->round.listed &= list->first == GY_COMPLETION_NONE ? ~(left & -left) : UINT64_MAX;
        assert(gy_completion_list_is_valid(c, (uint32_t)__builtin_ctzll(left)));
    }
    return any;
}

/* Let the dispatcher's thread have the slots that are done. */
static void advance_head(struct gy_completion *c)
{
    assert(c->round.head <= c->round.taken && atomic_load(&c->head) <= c->round.head);
    atomic_store(&c->head, c->round.head);
    if (atomic_load(&c->room.gd_sleeps)) {
        gy_mutex_lock(&c->lock);
        gy_cond_signal(&c->room.changed);
        gy_mutex_unlock(&c->lock);
    }
}

/* Take in published completions, or wait for some while there is nothing to look at; false when everything
 * is over. */
static bool next_round(struct gy_completion_thread *thread)
{
    struct gy_completion *c = thread->ring;
    for (;;) {
        /* This is read first: news that comes later makes the waits return at once. */
        c->round.seen = atomic_load(&c->news);
        bool closing = atomic_load(&c->closing);
        uint64_t published = atomic_load(&c->published);
        if (published != c->round.taken) {
            announce(c, c->round.taken, published);
            take_in(c, published, gy_clock_ns());
            break;
        }
        if (c->round.taken != c->round.head) {
            break;
        }
        if (closing || !gy_completion_await_news(thread)) {
            return false;
        }
    }
    c->round.lost = gy_context_is_lost(c->config.context);
    return true;
}

/* Look at all events once; true when any has passed. */
static bool tell(struct gy_completion *c)
{
    gy_completion_count(&c->counters.looks, 1);
    if (!sweep(c)) {
        c->round.vain = gy_clock_ns();
        return false;
    }
    advance_head(c);
    c->round.since = gy_clock_ns();
    gy_completion_learn(c, c->round.took);
    return true;
}

bool gy_completion_take_in(struct gy_completion *c, const struct gy_gpu_guest *guest)
{
    if (!gy_completion_is_led_by(c, guest)) {
        return false;
    }
    c->round.seen = atomic_load(&c->news);
    uint64_t published = atomic_load(&c->published);
    if (published != c->round.taken) {
        take_in(c, published,
                gy_clock_ns()); /* nobody else need be awake: the guest runs what becomes ready */
    }
    return c->round.taken != c->round.head;
}

bool gy_completion_tell(struct gy_completion *c)
{
    c->round.lost = gy_context_is_lost(c->config.context);
    return tell(c);
}

void gy_completion_main(void *arg)
{
    struct gy_completion_thread *thread = arg;
    struct gy_completion *c = thread->ring;
    gy_is_completion_thread = true;
    gy_thread_serve(true);
    (void)gy_thread_set_slack(GY_SLACK_NS); /* else naps last 50 us longer */
    bool pushed = gy_context_push(c->config.context) == GANTRY_OK;
    if (!pushed) {
        gy_context_lose(c->config.context, gy_error_last());
    }
    bool goes_on = gy_completion_follow(thread);
    while (goes_on && next_round(thread)) {
        if (tell(c)) {
            gy_completion_end_span(thread);
        } else {
            goes_on = gy_completion_rest(thread);
        }
    }
    gy_completion_end_span(thread);
    gy_completion_end(c);
    if (pushed) {
        (void)gy_context_pop(c->config.context);
    }
}
