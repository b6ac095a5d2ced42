#include "dispatcher/ways/launchers.h"

#include "base/alloc.h"
#include "base/waiter.h"
#include "dispatcher/current.h"
#include "dispatcher/ways/callback.h"

#include <assert.h>
#include <stdio.h>
#include <string.h>

enum {
    LEAST_AWAKE = 2, /* the number of turns that makes a group worthwhile while some launcher looks for one */
    LEAST_ASLEEP = 4,   /* the same number when all launchers would have to be woken up */
    IDLE_NS = 200000,   /* how long a launcher looks for the next group before it sleeps */
    RETURN_NS = 100000, /* how long the dispatcher's thread looks for the turns of others, in all wait modes,
                           since most take a few us */
};

/* ---- turns --------------------------------------------------------------------------------- */

/* From here on, no thread is alone before this callback has returned, or waits to be alone itself. */
static void enter_call(struct gy_launcher *self)
{
    /* A thread that wants to be alone first says so and then looks which threads are busy.  Both sides are
     * sequentially consistent, so that one of the two sees the other. */
    atomic_store(&self->busy, true);
    for (uint32_t round = 0; atomic_load(&self->all->alone); round++) {
        atomic_store(&self->busy, false);
        while (atomic_load(&self->all->alone)) {
            gy_spin(round++);
        }
        atomic_store(&self->busy, true);
    }
}

static void take_turn(struct gy_launcher *self, struct gy_turn *turn)
{
    assert(atomic_load(&turn->state) == GY_TURN_TAKEN && turn->ready == GANTRY_OK);
    turn->launch.launcher = self;
    enter_call(self);
    turn->result = gy_callback_call_beside(&turn->launch);
    atomic_store(&self->busy, false);
    if (turn->result != GANTRY_LAUNCH_DONE && turn->result != GANTRY_LAUNCH_AGAIN) {
        turn->cause = *gy_error_last();
    }
    atomic_store(&turn->state, GY_TURN_RETURNED);
    if (self->number != 0) {
        gy_event_notify(&self->all->returned, 1);
    }
}

/* Take the thread's own turns first, so that a pipeline's stream stays with a thread; then whatever is left.
 */
static void take_turns(struct gy_launcher *self)
{
    struct gy_launchers *l = self->all;
    uint32_t count = atomic_load_explicit(&l->turn_count, memory_order_relaxed);
    for (int pass = 0; pass < 2; pass++) {
        for (uint32_t i = 0; i < count; i++) {
            struct gy_turn *turn = &l->turns[i];
            uint32_t ready = GY_TURN_READY;
            if ((pass != 0 || i % l->count == self->number) &&
                atomic_load_explicit(&turn->state, memory_order_relaxed) == GY_TURN_READY &&
                atomic_compare_exchange_strong(&turn->state, &ready, GY_TURN_TAKEN)) {
                take_turn(self, turn);
            }
        }
    }
    gy_inside_return();
}

static bool has_returned(const struct gy_turn *turn)
{
    return atomic_load(&turn->state) != GY_TURN_TAKEN;
}

/* Wait for the turns that others have taken; the dispatcher's thread has called all the others. */
static void await_turns(struct gy_launchers *l, uint32_t count)
{
    struct gy_waiter waiter = gy_waiter_begin(GANTRY_WAIT_HYBRID, RETURN_NS, 0);
    for (uint32_t i = 0; i < count; i++) {
        while (!has_returned(&l->turns[i])) {
            if (gy_waiter_pause(&waiter) != GY_WAITER_SLEEP) {
                continue;
            }
            uint32_t key = gy_event_prepare(&l->returned);
            if (has_returned(&l->turns[i])) {
                gy_event_cancel(&l->returned);
            } else {
                gy_event_sleep(&l->returned, key);
            }
        }
    }
}

bool gy_turns_are_valid(const struct gy_launchers *l, uint32_t count)
{
    for (uint32_t i = 0; i < count; i++) {
        const uint32_t state = atomic_load(&l->turns[i].state);
        if (state != (l->turns[i].ready == GANTRY_OK ? GY_TURN_RETURNED : GY_TURN_EMPTY)) {
            return false;
        }
    }
    return true;
}

bool gy_launchers_want(struct gy_launchers *l, uint32_t count)
{
    return count >= LEAST_ASLEEP ||
           (count >= LEAST_AWAKE &&
            atomic_load_explicit(&l->begun.sleepers, memory_order_relaxed) < l->count - 1);
}

void gy_launchers_run(struct gy_launchers *l, uint32_t count)
{
    /* This comes last, when the group is prepared: a callback that is alone may touch what the preparation
     * uses. */
    for (uint32_t i = 0; i < count; i++) {
        assert(atomic_load(&l->turns[i].state) == GY_TURN_EMPTY);
        if (l->turns[i].ready == GANTRY_OK) {
            atomic_store_explicit(&l->turns[i].state, GY_TURN_READY, memory_order_release);
        }
    }
    atomic_store_explicit(&l->turn_count, count, memory_order_relaxed);
    atomic_fetch_add(&l->groups, 1);
    gy_event_notify(&l->begun, l->count - 1);
    take_turns(&l->launchers[0]);
    await_turns(l, count);
    assert(gy_turns_are_valid(l, count));
}

/* ---- launchers ----------------------------------------------------------------------------- */

static bool has_news(const struct gy_launchers *l, uint32_t seen)
{
    return atomic_load(&l->groups) != seen || atomic_load(&l->closing);
}

/* Wait for a group after the one `seen`; false: there will be none. */
static bool await_group(struct gy_launchers *l, uint32_t *seen)
{
    struct gy_waiter waiter = gy_waiter_begin(l->dispatcher->config.wait, IDLE_NS, 0);
    while (!has_news(l, *seen)) {
        if (gy_waiter_pause(&waiter) == GY_WAITER_SLEEP) {
            uint32_t key = gy_event_prepare(&l->begun);
            if (has_news(l, *seen)) {
                gy_event_cancel(&l->begun);
            } else {
                gy_event_sleep(&l->begun, key);
            }
        }
    }
    *seen = atomic_load(&l->groups);
    return !atomic_load(&l->closing);
}

static void launcher_main(void *arg)
{
    struct gy_launcher *self = arg;
    struct gantry_dispatcher *d = self->all->dispatcher;
    gy_launcher_current = d;
    gy_thread_serve(true);
    if (gy_context_push(d->config.context) != GANTRY_OK) {
        gy_context_lose(d->config.context, gy_error_last());
        return; /* the dispatcher's thread calls the rest */
    }
    uint32_t seen = 0;
    while (await_group(self->all, &seen)) {
        take_turns(self);
    }
    (void)gy_context_pop(d->config.context);
}

/* ---- alone --------------------------------------------------------------------------------- */

void gy_launch_begin_alone(struct gantry_launch *launch)
{
    struct gy_launcher *self = launch->launcher;
    if (self == NULL) {
        return;
    }
    struct gy_launchers *l = self->all;
    bool nobody = false;
    atomic_store(&self->busy, false); /* a thread that is alone now waits for us */
    for (uint32_t round = 0; !atomic_compare_exchange_strong(&l->alone, &nobody, true); round++) {
        nobody = false;
        gy_spin(round);
    }
    for (uint32_t i = 0; i < l->count; i++) {
        for (uint32_t round = 0; atomic_load(&l->launchers[i].busy); round++) {
            gy_spin(round);
        }
    }
}

gantry_status gy_launch_wait_barrier_all(struct gantry_launch *launch)
{
    gantry_status status = GANTRY_OK;
    struct gy_launchers *l = launch->launcher != NULL ? launch->launcher->all : NULL;
    uint32_t count = l != NULL ? atomic_load_explicit(&l->turn_count, memory_order_relaxed) : 0;
    for (uint32_t i = 0; i < count && status == GANTRY_OK; i++) {
        status = gy_streams_wait_barrier(&l->dispatcher->streams, l->turns[i].launch.stream_index);
    }
    return status;
}

void gy_launch_end_alone(struct gantry_launch *launch)
{
    struct gy_launcher *self = launch->launcher;
    if (self != NULL) {
        atomic_store(&self->busy, true);
        atomic_store(&self->all->alone, false);
    }
}

/* ---- life ---------------------------------------------------------------------------------- */

static void stop_launchers(struct gy_launchers *l, uint32_t started)
{
    atomic_store(&l->closing, true);
    gy_event_notify(&l->begun, l->count);
    for (uint32_t i = 1; i < started; i++) {
        gy_thread_join(&l->launchers[i].thread);
    }
}

static gantry_status start_launchers(struct gy_launchers *l)
{
    for (uint32_t i = 0; i < l->count; i++) {
        struct gy_launcher *launcher = &l->launchers[i];
        launcher->number = i;
        launcher->all = l;
        (void)snprintf(launcher->name, sizeof(launcher->name), "GD launcher %u", i);
    }
    for (uint32_t i = 1; i < l->count; i++) {
        struct gy_launcher *launcher = &l->launchers[i];
        gantry_status status = gy_thread_start(&launcher->thread, launcher->name, launcher_main, launcher);
        if (status != GANTRY_OK) {
            stop_launchers(l, i);
            return status;
        }
    }
    return GANTRY_OK;
}

gantry_status gy_launchers_create(struct gantry_dispatcher *d, uint32_t count, struct gy_launchers **out)
{
    struct gy_launchers *l = gy_alloc_aligned(sizeof(*l), 64);
    if (l == NULL) {
        return GY_FAIL(GANTRY_ERR_OUT_OF_HOST_MEMORY, "dispatcher: no memory for %u launch threads", count);
    }
    memset(l, 0, sizeof(*l));
    l->dispatcher = d;
    l->count = count;
    gantry_status status = GANTRY_ERR_OUT_OF_HOST_MEMORY;
    l->launchers = gy_alloc_aligned(count * sizeof(*l->launchers), 64);
    if (l->launchers == NULL) {
        status = GY_FAIL(status, "dispatcher: no memory for %u launch threads", count);
        goto free_all;
    }
    memset(l->launchers, 0, count * sizeof(*l->launchers));
    status = gy_event_init(&l->begun);
    if (status != GANTRY_OK) {
        goto free_launchers;
    }
    status = gy_event_init(&l->returned);
    if (status != GANTRY_OK) {
        goto fini_begun;
    }
    gy_mutex_init(&l->lock, GY_RANK_LAUNCHERS);
    status = start_launchers(l);
    if (status != GANTRY_OK) {
        goto fini_lock;
    }
    *out = l;
    return GANTRY_OK;
fini_lock:
    gy_mutex_fini(&l->lock);
    gy_event_fini(&l->returned);
fini_begun:
    gy_event_fini(&l->begun);
free_launchers:
    gy_free(l->launchers);
free_all:
    gy_free(l);
    return status;
}

void gy_launchers_destroy(struct gy_launchers *l)
{
    if (l == NULL) {
        return;
    }
    stop_launchers(l, l->count);
    gy_mutex_fini(&l->lock);
    gy_event_fini(&l->returned);
    gy_event_fini(&l->begun);
    gy_free(l->launchers);
    gy_free(l);
}
