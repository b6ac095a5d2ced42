/* SPDX-License-Identifier: MIT */
#include "dispatcher/done/completion.h"

#include "base/clock.h"
#include "base/point.h"
#include "base/span.h"
#include "dispatcher/done/completion_thread.h"
#include "dispatcher/loop/current.h"
#include "dispatcher/order/streams.h"
#include "driver/context.h"

#include <assert.h>
#include <stdio.h>
#include <string.h>

/* Have the completion thread look at new completions, for the list `which` or GY_COMPLETION_ALL_LISTS. */
static void look(struct gy_completion *c, uint32_t which)
{
    gy_point(GY_POINT_COMPLETION_TELL, c);
    atomic_fetch_add(&c->news, 1);
    uint32_t wake = atomic_load(&c->lead.wake);
    if (wake != GY_COMPLETION_WAKE_NOBODY && wake != which) {
        gy_mutex_lock(&c->lock);
        gy_completion_call(c);
        gy_mutex_unlock(&c->lock);
    }
}

/* ---- the dispatcher's side --------------------------------------------------------------------- */

/* Take an idle event, or a new one. */
static gantry_status take_event(struct gy_completion *c, bool may_block, CUevent *out)
{
    struct gy_idle_events *idle = may_block ? &c->blocked : &c->polled;
    if (atomic_load_explicit(&idle->put, memory_order_acquire) != idle->taken) {
        *out = idle->events[idle->taken++ % GY_COMPLETION_EVENTS];
        return GANTRY_OK;
    }
    const unsigned flags = CU_EVENT_DISABLE_TIMING | (may_block ? CU_EVENT_BLOCKING_SYNC : 0u);
    return GY_CALL(c->config.context, cuEventCreate(out, flags));
}

static gantry_status record_event(struct gy_completion *c, bool may_block, CUstream on, CUevent *out)
{
    gantry_status status = take_event(c, may_block, out);
    if (status == GANTRY_OK) {
        atomic_fetch_add_explicit(&c->config.streams->counts.recorded, 1, memory_order_relaxed);
        status = GY_CALL(c->config.context, cuEventRecord(*out, on));
    }
    return status;
}

/* Do the list's completions take so long that a thread probably blocks on their events? */
static bool is_long(const struct gy_completion *c, uint32_t list)
{
    return c->config.wait != GANTRY_WAIT_BLOCK &&
           atomic_load_explicit(&c->lists[list].is_long, memory_order_relaxed);
}

/* An event that may be blocked on raises an interrupt, and a thread that polls it sees it later.  So the
 * completion thread polls one without that where it may be in a hurry, and has the other behind it where it
 * will probably block. */
static gantry_status record_slot(struct gy_completion *c, struct gy_completion_slot *slot, CUstream on)
{
    bool blocks = c->config.wait == GANTRY_WAIT_BLOCK;
    const bool takes_long = is_long(c, gy_completion_list_of(slot));
    gantry_status status = record_event(c, blocks, on, &slot->event);
    slot->begun_ns = takes_long ? gy_clock_ns() : 0;
    if (status == GANTRY_OK && blocks) {
        slot->block = slot->event;
    } else if (status == GANTRY_OK && takes_long && gy_completion_spins_first(c)) {
        status = record_event(c, true, on, &slot->block);
    }
    return status;
}

/* The event, which is behind all that the stream has, is that of its slots that have none; returns how many
 * these are. */
static uint32_t cover(struct gy_completion *c, uint32_t stream, CUevent event, CUevent block)
{
    const uint64_t now = gy_span_begin();
    uint32_t covered = 0;
    for (uint64_t p = c->writer.unnoted_from; p != c->writer.written; p++) {
        struct gy_completion_slot *slot = gy_completion_slot_at(c, p);
        if (slot->stream == stream && slot->kind == GY_SLOT_POINT && !slot->is_noted) {
            slot->is_noted = true;
            slot->seq = c->config.streams->streams[stream].tail;
            slot->recorded_ns = now;
            slot->event = covered == 0 ? event : NULL;
            slot->block = covered == 0 ? block : NULL;
            covered++;
        }
    }
    c->writer.unnoted &= ~(UINT64_C(1) << stream);
    c->writer.unnoted_from = c->writer.unnoted == 0 ? c->writer.written : c->writer.unnoted_from;
    assert(covered != 0 && gy_completion_is_valid(c));
    return covered;
}

/* One event, whatever it will be used for, so that equal steps are equal graphs. */
uint32_t gy_completion_note(struct gy_completion *c, uint32_t stream)
{
    struct gy_stream *s = &c->config.streams->streams[stream];
    assert(s->state == GY_STREAM_MEMBER && s->running == 0 && gy_completion_is_unnoted(c, stream));
    const bool may_block =
        c->config.wait == GANTRY_WAIT_BLOCK || (is_long(c, stream) && gy_completion_spins_first(c));
    CUevent event;
    if (take_event(c, may_block, &event) != GANTRY_OK) {
        return 0;
    }
    if (gy_lane_end(&s->lane.to, event) != GANTRY_OK) {
        (void)c->config.context->driver->cuEventDestroy(event);
        return 0;
    }
    atomic_fetch_add_explicit(&c->config.streams->counts.recorded, 1, memory_order_relaxed);
    return cover(c, stream, event, may_block ? event : NULL);
}

uint32_t gy_completion_record(struct gy_completion *c, uint32_t stream)
{
    struct gy_completion_slot first = {.stream = stream};
    CUstream on;
    assert(c->config.streams->streams[stream].state != GY_STREAM_MEMBER &&
           c->config.streams->streams[stream].running == 0 && gy_completion_is_unnoted(c, stream));
    gantry_status status = gy_streams_end_of(c->config.streams, stream, &on);
    status = status == GANTRY_OK ? record_slot(c, &first, on) : status;
    if (status == GANTRY_OK) {
        return cover(c, stream, first.event, first.block);
    }
    const CUevent events[] = {first.event, first.block != first.event ? first.block : NULL};
    for (int i = 0; i < 2; i++) {
        if (events[i] != NULL) {
            (void)c->config.context->driver->cuEventDestroy(events[i]);
        }
    }
    return 0;
}

bool gy_completion_is_valid(struct gy_completion *c)
{
    uint64_t head = atomic_load(&c->head),
             published = atomic_load_explicit(&c->published, memory_order_relaxed);
    return head <= published && published <= c->writer.written &&
           c->writer.written <= head + GY_COMPLETION_SLOTS && c->writer.unnoted_from <= c->writer.written &&
           published <= c->writer.unnoted_from &&
           (c->writer.written == published ||
            (gy_completion_slot_is_valid(gy_completion_slot_at(c, published), GY_SLOT_WRITTEN) &&
             gy_completion_slot_is_valid(gy_completion_slot_at(c, c->writer.written - 1), GY_SLOT_WRITTEN)));
}

/* Path of a task, step 8 of 9: an event for every stream somebody waits for.
 *
 * Give the first slot of each stream in [published, written) that has none an event behind everything on it.
 * `*which`: the list that they all are for, or GY_COMPLETION_ALL_LISTS. */
static gantry_status record_events(struct gy_completion *c, uint32_t *which)
{
    gy_point(GY_POINT_PATH_8, c);
    uint64_t recorded = 0, now = gy_span_begin();
    uint64_t first = atomic_load_explicit(&c->published, memory_order_relaxed);
    *which = gy_completion_list_of(gy_completion_slot_at(c, first));
    for (uint64_t p = first; p != c->writer.written; p++) {
        struct gy_completion_slot *slot = gy_completion_slot_at(c, p);
        struct gy_stream *stream = &c->config.streams->streams[slot->stream];
        uint64_t bit = UINT64_C(1) << slot->stream;
        *which = *which == gy_completion_list_of(slot) ? *which : GY_COMPLETION_ALL_LISTS;
        if (slot->is_noted) { /* its event is on the way since its task's end, or since its graph's launch
                                 just now */
            slot->begun_ns = slot->event != NULL && is_long(c, slot->stream) ? gy_clock_ns() : 0;
            continue;
        }
        bool is_point = slot->kind == GY_SLOT_POINT;
        /* A full ring is flushed in the middle of a launch call: its timeline point is not closed yet. */
        bool is_open = stream->running != 0;
        slot->seq = is_point ? stream->tail : 0;
        slot->recorded_ns = is_point ? now : 0;
        if (is_point && !is_open && (recorded & bit) != 0) {
            continue;
        }
        CUstream on;
        gantry_status status = gy_streams_end_of(c->config.streams, slot->stream, &on);
        status = status == GANTRY_OK ? record_slot(c, slot, on) : status;
        if (status != GANTRY_OK) {
            return status;
        }
        recorded |= is_point ? bit : 0;
    }
    return GANTRY_OK;
}

gantry_status gy_completion_flush(struct gy_completion *c)
{
    if (!gy_completion_is_pending(c)) {
        return GANTRY_OK;
    }
    uint32_t which = GY_COMPLETION_ALL_LISTS;
    gantry_status status =
        gy_context_is_lost(c->config.context) ? GANTRY_ERR_DEVICE_LOST : record_events(c, &which);
    if (status != GANTRY_OK) {
        /* Without its event a completion can never come true: the context is of no use any more. */
        gy_context_lose(c->config.context, gy_error_last());
        which = GY_COMPLETION_ALL_LISTS;
    }
    for (uint64_t p = atomic_load_explicit(&c->published, memory_order_relaxed); p != c->writer.written;
         p++) {
        gy_completion_slot_enter(gy_completion_slot_at(c, p), GY_SLOT_PUBLISHED);
    }
    atomic_store_explicit(&c->published, c->writer.written, memory_order_release);
    c->writer.unnoted = 0;
    c->writer.unnoted_from = c->writer.written;
    look(c, which);
    return status;
}

uint64_t gy_completion_expect(struct gy_completion *c)
{
    uint64_t soon = gy_wake_forecast_ask(&c->learned.soon);
    if (soon != 0 && gy_completion_spins_first(c)) {
        look(c, GY_COMPLETION_ALL_LISTS);
    }
    return soon;
}

bool gy_completion_is_full(struct gy_completion *c)
{
    return c->writer.written - atomic_load(&c->head) == GY_COMPLETION_SLOTS;
}

static gantry_status add(struct gy_completion *c, const struct gy_completion_slot *slot)
{
    if (gy_completion_is_full(c)) {
        gantry_status status = gy_completion_flush(c);
        if (status != GANTRY_OK) {
            return gy_context_adopt_loss(c->config.context);
        }
        if (gy_guest_current != NULL) {
            gy_completion_stop_leading(c, gy_guest_current); /* it would wait for itself */
        }
        gy_mutex_lock(&c->lock);
        atomic_store(&c->room.gd_sleeps, true);
        while (gy_completion_is_full(c)) {
            gy_cond_wait(&c->room.changed, &c->lock);
        }
        atomic_store(&c->room.gd_sleeps, false);
        gy_mutex_unlock(&c->lock);
    }
    assert(gy_completion_slot_at(c, c->writer.written)->state == GY_SLOT_FREE);
    *gy_completion_slot_at(c, c->writer.written) = *slot;
    gy_completion_slot_enter(gy_completion_slot_at(c, c->writer.written), GY_SLOT_WRITTEN);
    c->writer.written++;
    c->writer.unnoted |= slot->kind == GY_SLOT_POINT ? UINT64_C(1) << slot->stream : 0;
    assert(gy_completion_is_valid(c));
    return GANTRY_OK;
}

gantry_status gy_completion_add(struct gy_completion *c, uint32_t stream, gantry_task *task, uint64_t flow)
{
    return add(c, &(struct gy_completion_slot){.task = task, .flow = flow, .stream = stream});
}

bool gy_completion_has(struct gy_completion *c, uint32_t stream, const gantry_task *task)
{
    bool has = false;
    for (uint64_t p = atomic_load_explicit(&c->published, memory_order_relaxed);
         p != c->writer.written && !has; p++) {
        const struct gy_completion_slot *slot = gy_completion_slot_at(c, p);
        has = slot->kind == GY_SLOT_POINT && !slot->is_noted && slot->stream == stream && slot->task == task;
    }
    return has;
}

gantry_status gy_completion_watch(struct gy_completion *c, uint32_t stream)
{
    return add(c, &(struct gy_completion_slot){.stream = stream, .kind = GY_SLOT_WATCH});
}

/* ---- life ---------------------------------------------------------------------------------- */

static gantry_status start_thread(struct gy_completion *c, const char *partition)
{
    struct gy_completion_thread *thread = &c->threads[c->thread_count];
    thread->ring = c;
    (void)snprintf(thread->name, sizeof(thread->name), "completion%s%s%s", partition != NULL ? " " : "",
                   partition != NULL ? partition : "", c->thread_count > 0 ? " 2" : "");
    gantry_status status = gy_thread_start(&thread->thread, thread->name, gy_completion_main, thread);
    c->thread_count += status == GANTRY_OK;
    return status;
}

static void stop_threads(struct gy_completion *c)
{
    atomic_store(&c->closing, true);
    look(c, GY_COMPLETION_ALL_LISTS);
    for (uint32_t i = 0; i < c->thread_count; i++) {
        gy_thread_join(&c->threads[i].thread);
    }
}

static gantry_status start_threads(struct gy_completion *c, const char *partition)
{
    bool may_sleep = gy_completion_spins_first(c) || c->config.wait == GANTRY_WAIT_BLOCK;
    gantry_status status = start_thread(c, partition);
    if (status == GANTRY_OK && may_sleep) {
        status = start_thread(c, partition);
        if (status != GANTRY_OK) {
            stop_threads(c);
        }
    }
    return status;
}

gantry_status gy_completion_init(struct gy_completion *c, const struct gy_completion_config *config,
                                 const char *partition)
{
    memset(c, 0, sizeof(*c));
    c->config = *config;
    for (uint32_t i = 0; i < GY_COMPLETION_SLOTS; i++) {
        c->ring[i] = (uint16_t)i;
    }
    for (uint32_t i = 0; i < GY_STREAMS_MAX; i++) {
        c->lists[i].first = GY_COMPLETION_NONE;
    }
    gy_oversleep_init(&c->learned.oversleep);
    c->lead.state = GY_LEAD_CALLED;                        /* the first thread leads at once, */
    atomic_init(&c->lead.wake, GY_COMPLETION_WAKE_NOBODY); /* and looks before it sleeps */
    gantry_status status = gy_guard_init(&c->lock, GY_RANK_COMPLETION, &c->lead.called);
    if (status != GANTRY_OK) {
        return status;
    }
    status = gy_cond_init(&c->lead.nap);
    if (status != GANTRY_OK) {
        goto fini_lock;
    }
    status = gy_cond_init(&c->room.changed);
    if (status != GANTRY_OK) {
        goto fini_nap;
    }
    status = start_threads(c, partition);
    if (status != GANTRY_OK) {
        goto fini_head;
    }
    return GANTRY_OK;
fini_head:
    gy_cond_fini(&c->room.changed);
fini_nap:
    gy_cond_fini(&c->lead.nap);
fini_lock:
    gy_guard_fini(&c->lock, &c->lead.called);
    return status;
}

static void destroy_events(struct gy_completion *c, const struct gy_idle_events *idle)
{
    for (uint64_t p = idle->taken; p != atomic_load_explicit(&idle->put, memory_order_relaxed); p++) {
        (void)c->config.context->driver->cuEventDestroy(idle->events[p % GY_COMPLETION_EVENTS]);
    }
}

void gy_completion_fini(struct gy_completion *c)
{
    stop_threads(c);
    destroy_events(c, &c->polled);
    destroy_events(c, &c->blocked);
    gy_cond_fini(&c->room.changed);
    gy_cond_fini(&c->lead.nap);
    gy_guard_fini(&c->lock, &c->lead.called);
}
