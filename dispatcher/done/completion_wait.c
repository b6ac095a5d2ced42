/* SPDX-License-Identifier: MIT */
/* How a completion thread waits: which thread leads, naps, follows or blocks, and what it learns about how
 * long completions take.
 *
 *               called                      nothing is pending, or what is has its thread
 *    FOLLOWS -------------> LEADS ----------------------------------------------> FOLLOWS
 *                            | ^
 *                            | | the time is over, or news      while it sleeps: a thread that leads
 *                            +-+-------> NAPS                   may appear; then it follows
 *                            | |
 *                            +-+-------> BLOCKS on an event     (one thread at a time)
 *
 * A guest (guest.h) leads in the place of threads that all do something else than LEAD, and calls one when it
 * leaves with something pending; it neither naps nor blocks.
 *
 * A leader that blocks on the event of a list leaves the rest to a follower, which it calls when that has
 * something to look at: a list of another stream, or, in the modes that spin before they sleep, the time at
 * which the event is expected, since a thread wakes up tens of microseconds after the interrupt and one that
 * looks is there at once.  So alone in BLOCK, which is the commonest case, a wait is one call of the driver,
 * whatever it takes.
 *
 * A thread that stops leading does so under the lock, then looks for news once more; the dispatcher's thread
 * (GD) counts its news, then looks at `wake`.  All four are sequentially consistent, so one of the two sees
 * the other (tests/models/completion.pml). */
#include "base/clock.h"
#include "base/point.h"
#include "base/span.h"
#include "base/times.h"
#include "base/waiter.h"
#include "dispatcher/done/completion_thread.h"
#include "driver/context.h"
#include "taskman/gpu_facts.h"

#include <assert.h>

enum {
    LONG_COUNT = 8, /* after a long one so many quick ones make a list quick again */
    NO_LIST = GY_STREAMS_MAX,
};

/* Naps between two looks at the GPU: a part of the time that the first of a list has been awaited, so that
 * what took long may be told a little later, within bounds. */
static const struct naps {
    uint32_t part;
    uint32_t least_ns, most_ns;
} blocking_naps = {4, GY_BLOCKING_NAP_NS, GY_BLOCKING_NAP_MOST_NS},
  spinning_naps = {128, GY_SPINNING_NAP_NS, GY_SPINNING_NAP_MOST_NS},
  early_naps = {8, GY_EARLY_NAP_NS, GY_EARLY_NAP_MOST_NS};

/* For so long the mode may look in vain. */
static uint64_t most_spin_ns(const struct gy_completion *c)
{
    return c->config.wait == GANTRY_WAIT_HYBRID || c->config.wait == GANTRY_WAIT_BLOCK ? GY_WAITER_HYBRID_NS
                                                                                       : GY_WAITER_MOST_NS;
}

/* ---- learning ------------------------------------------------------------------------------ */

/* The only writer of what others were told of a list. */
static void enter_news(struct gy_completion *c, struct gy_completion_list *list, enum gy_list_news next)
{
    uint64_t bit = UINT64_C(1) << (list - c->lists);
    assert(next == GY_LIST_UNKNOWN || next == list->told + 1);
    if (next == GY_LIST_FORETOLD) {
        atomic_fetch_or(&c->shown.foretold, bit);
    } else if (next == GY_LIST_UNKNOWN && list->told != GY_LIST_UNKNOWN) {
        atomic_fetch_and_explicit(&c->shown.foretold, ~bit, memory_order_relaxed);
    }
    list->told = next;
}

void gy_completion_list_begins(struct gy_completion *c, struct gy_completion_list *list, uint64_t now)
{
    uint64_t begun = c->slots[list->first].begun_ns;
    begun = begun > list->ended_ns ? begun : list->ended_ns;
    list->since_ns = begun != 0 && begun < now ? begun : now;
    list->ended_ns = 0;
    list->lookout = c->config.wait != GANTRY_WAIT_BLOCK
                        ? gy_foresight_lookout(&list->foresight, list->since_ns)
                        : (struct gy_lookout){0};
    enter_news(c, list, GY_LIST_UNKNOWN);
}

uint64_t gy_completion_list_passed(struct gy_completion *c, struct gy_completion_list *list, uint64_t now)
{
    uint64_t took = now - list->since_ns;
    uint64_t least = c->round.vain > list->since_ns ? c->round.vain - list->since_ns : 0;
    gy_completion_count(&c->counters.awaited, 1);
    gy_completion_count(&c->counters.unseen_ns, took - (least < took ? least : took));
    list->ended_ns = list->since_ns + gy_foresight_learn(&list->foresight, least, took, most_spin_ns(c));
    enter_news(c, list, GY_LIST_UNKNOWN);
    if (atomic_load_explicit(&c->shown.guest_until_ns, memory_order_relaxed) != 0) {
        atomic_store_explicit(&c->shown.guest_until_ns, 0, memory_order_relaxed); /* it asks anew */
    }
    list->long_left = took > most_spin_ns(c) ? LONG_COUNT : list->long_left - (list->long_left != 0);
    atomic_store_explicit(&list->is_long, list->long_left != 0, memory_order_relaxed);
    return took;
}

void gy_completion_learn(struct gy_completion *c, uint64_t took_ns)
{
    uint64_t most = most_spin_ns(c);
    c->learned.spin_budget_ns = gy_waiter_learn(c->learned.spin_budget_ns, took_ns, most);
    /* Others have to wake up first. */
    uint64_t likely =
        c->learned.spin_budget_ns > GY_COMPLETION_IDLE_NS ? c->learned.spin_budget_ns : GY_COMPLETION_IDLE_NS;
    c->learned.near_ns = c->config.wait != GANTRY_WAIT_BLOCK && took_ns <= most ? likely : 0;
    gy_wake_forecast_set(&c->learned.soon, c->learned.near_ns);
}

/* ---- what is pending ----------------------------------------------------------------------- */

/* The first list from `from` on that is not empty; NO_LIST: none is. */
static uint32_t next_list(const struct gy_completion *c, uint32_t from)
{
    uint64_t left = from < GY_STREAMS_MAX ? c->round.listed & UINT64_MAX << from : 0;
    return left != 0 ? (uint32_t)__builtin_ctzll(left) : NO_LIST;
}

/* Will a guest be there when the ends are expected that are known now?  A hint: when it is not, who blocks on
 * the event is. */
static bool is_left_to_guest(const struct gy_completion *c, uint64_t now)
{
    return now < atomic_load_explicit(&c->shown.guest_until_ns, memory_order_relaxed);
}

/* What to do for the expected end of the first of a list: as gy_lookout_next(). */
static uint64_t next_of(const struct gy_completion *c, uint32_t which, uint64_t now)
{
    return gy_lookout_next(&c->lists[which].lookout, &c->learned.oversleep, now);
}

/* Is the end of anything so near that the leader looks without a break? */
static bool is_expected(const struct gy_completion *c, uint64_t now)
{
    bool is_near = false;
    for (uint32_t i = next_list(c, 0); i != NO_LIST && !is_near; i = next_list(c, i + 1)) {
        is_near = next_of(c, i, now) == 0;
    }
    return is_near && !is_left_to_guest(c, now);
}

/* ---- wake hints ------------------------------------------------------------------------------ */

/* The first task that waits for a completion of the list; NULL: none does. */
static const gantry_task *first_task(struct gy_completion *c, const struct gy_completion_list *list)
{
    for (uint32_t i = list->first; i != GY_COMPLETION_NONE; i = c->slots[i].next) {
        if (c->slots[i].task != NULL) {
            return c->slots[i].task;
        }
    }
    return NULL;
}

/* Show when the end is expected, before those are looked for who sleep and would like to know (the other side
 * is doze() in taskman/cpu/wait.c). */
static void foretell(struct gy_completion *c, struct gy_completion_list *list, const gantry_task *task)
{
    atomic_store_explicit(&list->owner, (uintptr_t)gy_task_manager(task), memory_order_relaxed);
    atomic_store_explicit(&list->from_ns, list->lookout.from_ns, memory_order_relaxed);
    atomic_store_explicit(&list->until_ns, list->lookout.until_ns, memory_order_relaxed);
    atomic_store_explicit(&list->nap_ns, list->lookout.nap_ns, memory_order_relaxed);
    enter_news(c, list, GY_LIST_FORETOLD);
    gy_task_foretell_end(task, list->lookout.from_ns);
}

static void foretell_ends(struct gy_completion *c, uint64_t now)
{
    for (uint32_t i = next_list(c, 0); i != NO_LIST; i = next_list(c, i + 1)) {
        struct gy_completion_list *list = &c->lists[i];
        if (list->told == GY_LIST_NEAR || gy_lookout_is_over(&list->lookout, now)) {
            continue;
        }
        const gantry_task *task = first_task(c, list);
        if (task != NULL && list->told == GY_LIST_UNKNOWN) {
            foretell(c, list, task);
        }
        if (task != NULL && next_of(c, i, now) == 0 && !is_left_to_guest(c, now)) {
            enter_news(c, list, GY_LIST_NEAR);
            gy_task_expect_end(task, list->lookout.until_ns - now);
        }
    }
}

bool gy_completion_next_end(struct gy_completion *c, const gantry_taskman *manager, bool will_look,
                            struct gy_lookout *out)
{
    bool any = false;
    uint64_t left = atomic_load(&c->shown.foretold), now = left != 0 ? gy_clock_ns() : 0;
    for (; left != 0; left &= left - 1) {
        const struct gy_completion_list *list = &c->lists[__builtin_ctzll(left)];
        struct gy_lookout one = {atomic_load_explicit(&list->from_ns, memory_order_relaxed),
                                 atomic_load_explicit(&list->until_ns, memory_order_relaxed),
                                 atomic_load_explicit(&list->nap_ns, memory_order_relaxed)};
        if (atomic_load_explicit(&list->owner, memory_order_relaxed) == (uintptr_t)manager &&
            !gy_lookout_is_over(&one, now) && (!any || one.from_ns < out->from_ns)) {
            *out = one;
            any = true;
        }
    }
    if (any && will_look) {
        atomic_store_explicit(&c->shown.guest_until_ns, out->until_ns, memory_order_relaxed);
    }
    return any;
}

/* ---- when to look again ---------------------------------------------------------------------- */

/* The list that is expected first, of those that can be blocked on; NO_LIST: none, or it will be looked at
 * before blocking would be worth it. */
static uint32_t list_to_block_on(const struct gy_completion *c, uint64_t now)
{
    uint32_t best = NO_LIST;
    for (uint32_t i = next_list(c, 0); i != NO_LIST; i = next_list(c, i + 1)) {
        const struct gy_completion_list *list = &c->lists[i], *first = &c->lists[best < NO_LIST ? best : i];
        if (c->slots[list->first].block != NULL &&
            (best == NO_LIST ||
             list->since_ns + list->foresight.usual_ns < first->since_ns + first->foresight.usual_ns)) {
            best = i;
        }
    }
    bool is_near = best != NO_LIST && c->lists[best].lookout.from_ns > now &&
                   c->lists[best].lookout.from_ns - now < GY_NEAR_NS && !is_left_to_guest(c, now);
    return is_near ? NO_LIST : best;
}

/* When a thread has to look, while another one blocks on the list `blocked`; UINT64_MAX: never. */
static uint64_t next_look(const struct gy_completion *c, uint32_t blocked, uint64_t now)
{
    uint64_t at = UINT64_MAX;
    bool is_left = is_left_to_guest(c, now);
    for (uint32_t i = next_list(c, 0); i != NO_LIST; i = next_list(c, i + 1)) {
        const struct gy_completion_list *list = &c->lists[i];
        const struct naps *naps = !gy_completion_spins_first(c) ? &blocking_naps
                                  : list->lookout.from_ns > now ? &early_naps
                                                                : &spinning_naps;
        uint64_t ns = (now - list->since_ns) / naps->part;
        ns = ns < naps->least_ns ? naps->least_ns : ns > naps->most_ns ? naps->most_ns : ns;
        uint64_t next = i != blocked ? now + ns : UINT64_MAX;
        uint64_t expected = is_left ? UINT64_MAX : next_of(c, i, now);
        next = expected < next ? expected : next;
        at = next < at ? next : at;
    }
    return at;
}

/* ---- the lead ------------------------------------------------------------------------------ */

/* Only a thread that naps in HYBRID or ADAPTIVE is woken by GD: one in BLOCK looks soon enough, and costs GD
 * nothing. */
static void tell_whom_to_wake(struct gy_completion *c) GY_REQUIRES(c->lock)
{
    bool looks = c->lead.state == GY_LEAD_TAKEN || (c->lead.napper != NULL && !gy_completion_spins_first(c));
    atomic_store(&c->lead.wake, looks                      ? GY_COMPLETION_WAKE_NOBODY
                                : c->lead.blocking != NULL ? c->lead.blocked_list
                                                           : (uint32_t)GY_COMPLETION_WAKE_ONE);
}

bool gy_completion_lead_is_valid(const struct gy_completion *c)
{
    const bool has_guest = atomic_load_explicit(&c->lead.guest, memory_order_relaxed) != NULL;
    return (unsigned)c->lead.state <= GY_LEAD_ENDED && (!has_guest || c->lead.state == GY_LEAD_TAKEN) &&
           (!c->lead.orphaned || c->lead.blocking != NULL) &&
           (c->lead.blocking == NULL || c->lead.blocked_list < GY_STREAMS_MAX);
}

static void enter_lead(struct gy_completion *c, enum gy_completion_lead next) GY_REQUIRES(c->lock)
{
    assert(c->lead.state != GY_LEAD_ENDED || next == GY_LEAD_ENDED);
    assert(next != GY_LEAD_CALLED || c->lead.state == GY_LEAD_FREE);
    c->lead.state = next;
    assert(gy_completion_lead_is_valid(c));
}

static bool take_lead(struct gy_completion *c) GY_REQUIRES(c->lock)
{
    bool may = c->lead.state == GY_LEAD_FREE || c->lead.state == GY_LEAD_CALLED;
    if (may) {
        enter_lead(c, GY_LEAD_TAKEN);
    }
    tell_whom_to_wake(c);
    return may;
}

static void give_up_lead(struct gy_completion *c) GY_REQUIRES(c->lock)
{
    assert(c->lead.state == GY_LEAD_TAKEN);
    enter_lead(c, GY_LEAD_FREE);
    tell_whom_to_wake(c);
}

static void call_follower(struct gy_completion *c) GY_REQUIRES(c->lock)
{
    if (c->lead.state == GY_LEAD_FREE) {
        enter_lead(c, GY_LEAD_CALLED);
    }
}

void gy_completion_call(struct gy_completion *c)
{
    if (c->lead.napper != NULL) {
        gy_cond_broadcast(&c->lead.nap);
    } else if (c->lead.state != GY_LEAD_TAKEN) {
        call_follower(c);
        gy_cond_signal(&c->lead.called);
    }
}

static bool follow(struct gy_completion *c) GY_REQUIRES(c->lock)
{
    while (c->lead.state == GY_LEAD_FREE || c->lead.state == GY_LEAD_TAKEN) {
        gy_cond_wait(&c->lead.called, &c->lock);
    }
    return take_lead(c);
}

bool gy_completion_follow(struct gy_completion_thread *thread)
{
    struct gy_completion *c = thread->ring;
    gy_completion_end_span(thread);
    gy_mutex_lock(&c->lock);
    bool leads = follow(c);
    gy_mutex_unlock(&c->lock);
    return leads;
}

/* A leader that has nothing to look at becomes a follower. */
static bool stop_leading(struct gy_completion_thread *thread)
{
    struct gy_completion *c = thread->ring;
    uint64_t seen = c->round.seen;
    gy_completion_end_span(thread);
    gy_point(GY_POINT_COMPLETION_SLEEP, c);
    gy_mutex_lock(&c->lock);
    give_up_lead(c);
    if (atomic_load(&c->news) != seen) {
        call_follower(c);
    }
    bool leads = follow(c);
    gy_mutex_unlock(&c->lock);
    return leads;
}

void gy_completion_end(struct gy_completion *c)
{
    gy_mutex_lock(&c->lock);
    enter_lead(c, GY_LEAD_ENDED);
    gy_cond_broadcast(&c->lead.called);
    gy_cond_broadcast(&c->lead.nap);
    gy_mutex_unlock(&c->lock);
}

bool gy_completion_lead(struct gy_completion *c, struct gy_gpu_guest *guest)
{
    if (!gy_completion_is_free(c)) {
        return false;
    }
    gy_mutex_lock(&c->lock);
    bool leads = take_lead(c);
    if (leads) {
        atomic_store_explicit(&c->lead.guest, guest, memory_order_relaxed);
    }
    gy_mutex_unlock(&c->lock);
    return leads;
}

/* A completion thread goes on with pending completions, unless another thread blocks on them already. */
void gy_completion_stop_leading(struct gy_completion *c, const struct gy_gpu_guest *guest)
{
    if (!gy_completion_is_led_by(c, guest)) {
        return;
    }
    uint64_t now = gy_clock_ns();
    foretell_ends(c, now);
    gy_point(GY_POINT_GUEST_LEAVE, c);
    gy_mutex_lock(&c->lock);
    uint32_t blocked = c->lead.blocking != NULL ? c->lead.blocked_list : NO_LIST;
    bool is_left = next_look(c, blocked, now) != UINT64_MAX;
    atomic_store_explicit(&c->lead.guest, NULL, memory_order_relaxed);
    give_up_lead(c);
    if (is_left || atomic_load(&c->news) != c->round.seen) {
        c->lead.nap_until = 0; /* of a thread that naps: it looks now */
        gy_completion_call(c);
    }
    gy_mutex_unlock(&c->lock);
}

/* ---- events -------------------------------------------------------------------------------- */

static void put(struct gy_idle_events *idle, CUevent event)
{
    uint64_t at = atomic_load_explicit(&idle->put, memory_order_relaxed);
    idle->events[at % GY_COMPLETION_EVENTS] = event;
    atomic_store_explicit(&idle->put, at + 1, memory_order_release);
}

static void put_blocked(struct gy_completion *c, CUevent event) GY_REQUIRES(c->lock)
{
    assert(event != c->lead.blocking && "a thread blocks on an event that is recorded again");
    put(&c->blocked, event);
}

void gy_completion_put_back(struct gy_completion *c, const struct gy_completion_slot *slot)
{
    if (slot->event != NULL && slot->event != slot->block) {
        put(&c->polled, slot->event);
    }
    if (slot->block != NULL) {
        gy_mutex_lock(&c->lock);
        if (slot->block == c->lead.blocking) {
            c->lead.orphaned = true; /* recorded again now, it might not let its thread go for long */
        } else {
            put_blocked(c, slot->block);
        }
        gy_mutex_unlock(&c->lock);
    }
}

/* ---- waiting ------------------------------------------------------------------------------- */

static void begin_span(struct gy_completion_thread *thread)
{
    if (thread->span == 0) {
        thread->span = gy_span_begin();
        thread->ranges = gy_span_push(thread->span, GY_RANGE_WAIT, "completion wait");
    }
}

void gy_completion_end_span(struct gy_completion_thread *thread)
{
    if (__builtin_expect(thread->span != 0, 0)) {
        gy_span_pop(thread->ranges);
        gy_span_end(GY_SPAN_WAIT, "completion wait", thread->span, thread->stream);
        thread->span = 0;
    }
}

/* The thread sleeps until then, until news come if its mode spins, or until another one naps; true: it leads
 * again. */
static bool nap(struct gy_completion_thread *thread, uint64_t until)
{
    struct gy_completion *c = thread->ring;
    uint64_t seen = c->round.seen, now = gy_clock_ns();
    gy_completion_count(&c->counters.naps, 1);
    gy_mutex_lock(&c->lock);
    c->lead.napper = thread;
    c->lead.nap_until = until;
    give_up_lead(c);
    while (atomic_load(&c->news) == seen && c->lead.napper == thread && c->lead.state != GY_LEAD_ENDED &&
           gy_clock_ns() < c->lead.nap_until) {
        gy_cond_wait_until(&c->lead.nap, &c->lock, c->lead.nap_until);
    }
    uint64_t end = gy_clock_ns();
    if (atomic_load(&c->news) == seen && c->lead.napper == thread && c->lead.nap_until == until &&
        now < until && until <= end) {
        gy_oversleep_learn(&c->learned.oversleep, until - now, end - until);
    }
    c->lead.napper = c->lead.napper == thread ? NULL : c->lead.napper;
    bool leads = take_lead(c);
    gy_mutex_unlock(&c->lock);
    return leads;
}

/* While the caller blocks, another thread has to look at `next_look`. */
static void leave_looking(struct gy_completion *c, uint64_t next_look) GY_REQUIRES(c->lock)
{
    if (next_look == UINT64_MAX) {
        return;
    }
    if (c->lead.napper == NULL) {
        gy_completion_call(c);
    } else if (next_look < c->lead.nap_until) {
        c->lead.nap_until = next_look;
        gy_cond_broadcast(&c->lead.nap);
    }
}

static void await_event(struct gy_completion *c, CUevent event)
{
    CUresult result = c->config.context->driver->cuEventSynchronize(event);
    if (result != CUDA_SUCCESS && !gy_driver_result_is_of_capture(result)) {
        (void)gy_context_check(c->config.context, result, "cuEventSynchronize(completion)", __FILE__,
                               __LINE__);
        gy_context_lose(c->config.context, gy_error_last());
    }
}

/* Block until the event of the list has passed; true: the thread leads again.  If another one leads by then,
 * that is told to look once more, since it may have looked just before. */
static bool block(struct gy_completion_thread *thread, uint32_t which, uint64_t next_look)
{
    struct gy_completion *c = thread->ring;
    uint64_t seen = c->round.seen;
    CUevent event = c->slots[c->lists[which].first].block;
    gy_point(GY_POINT_COMPLETION_BLOCK, c);
    gy_mutex_lock(&c->lock);
    c->lead.blocking = event;
    c->lead.blocked_list = which;
    give_up_lead(c);
    leave_looking(c, next_look);
    gy_mutex_unlock(&c->lock);
    gy_point(GY_POINT_COMPLETION_EVENT, c);
    if (atomic_load(&c->news) == seen) {
        await_event(c, event);
    }
    gy_mutex_lock(&c->lock);
    c->lead.blocking = NULL;
    if (c->lead.orphaned) {
        c->lead.orphaned = false;
        put_blocked(c, event);
    }
    bool leads = take_lead(c);
    if (!leads) {
        atomic_fetch_add(&c->news, 1);
    }
    gy_mutex_unlock(&c->lock);
    return leads;
}

bool gy_completion_rest(struct gy_completion_thread *thread)
{
    struct gy_completion *c = thread->ring;
    struct gy_completion_round *round = &c->round;
    uint64_t now = round->vain;
    if (c->config.wait != GANTRY_WAIT_BLOCK) {
        foretell_ends(c, now);
    }
    if (c->config.wait == GANTRY_WAIT_SPIN || c->config.wait == GANTRY_WAIT_YIELD) {
        gy_waiter_relax(c->config.wait, 0);
        return true;
    }
    uint64_t poll_ns =
        c->learned.spin_budget_ns > GY_POLL_LEAST_NS ? c->learned.spin_budget_ns : GY_POLL_LEAST_NS;
    if (gy_completion_spins_first(c) && (now - round->since < poll_ns || is_expected(c, now))) {
        gy_waiter_relax(c->config.wait, round->looks++);
        return true;
    }
    gy_mutex_lock(&c->lock);
    uint32_t blocked = c->lead.blocking != NULL ? c->lead.blocked_list : NO_LIST;
    gy_mutex_unlock(
        &c->lock); /* it may end meanwhile, and is told then: whatever begins now returns at once */
    uint32_t which = blocked == NO_LIST ? list_to_block_on(c, now) : NO_LIST;
    uint64_t next = next_look(c, which != NO_LIST ? which : blocked, now);
    if (which == NO_LIST && next == UINT64_MAX) {
        return stop_leading(thread);
    }
    thread->stream = round->stream;
    begin_span(thread);
    return (which != NO_LIST ? block(thread, which, next) : nap(thread, next)) ||
           gy_completion_follow(thread);
}

bool gy_completion_await_news(struct gy_completion_thread *thread)
{
    struct gy_completion *c = thread->ring;
    uint64_t seen = c->round.seen;
    struct gy_waiter waiter = gy_waiter_begin(c->config.wait, GY_COMPLETION_IDLE_NS, 0);
    gy_completion_end_span(thread);
    while (atomic_load_explicit(&c->news, memory_order_acquire) == seen) {
        if (gy_waiter_pause(&waiter) == GY_WAITER_SLEEP) {
            return stop_leading(thread);
        }
    }
    return true;
}
