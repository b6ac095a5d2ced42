/* SPDX-License-Identifier: MIT */
#include "dispatcher/call/stand_in.h"

#include "dispatcher/internal.h"
#include "dispatcher/loop/current.h"
#include "driver/inside.h"
#include "driver/told.h"

#include <assert.h>

_Thread_local bool gy_is_stale;

static void enter(struct gy_stand_in *s, enum gy_stand_in_state state)
{
    const uint32_t from = atomic_load_explicit(&s->state, memory_order_relaxed);
    assert(state == GY_STAND_IN_IDLE       ? from == GY_STAND_IN_NONE || from == GY_STAND_IN_RETURNED
           : state == GY_STAND_IN_RETURNED ? from == GY_STAND_IN_CALLED
                                           : from == GY_STAND_IN_IDLE);
    (void)from;
    atomic_store(&s->state, state);
    gy_event_notify(&s->changed, 2);
}

void gy_stale_look(struct gantry_dispatcher *d)
{
    atomic_store_explicit(&d->watching.why, d->watching.checks | (gy_is_stale ? GY_WATCHED_STALE : 0),
                          memory_order_relaxed);
}

void gy_stale_note(struct gantry_dispatcher *d)
{
    gy_is_stale = true;
    gy_stale_look(d);
}

/* ---- the thread -------------------------------------------------------------------------------- */

/* What the dispatcher keeps of the thread that has its loop. */
struct post {
    const struct gy_error *last_error;
    const uint32_t *refusals;
};

static struct post take_post(struct gantry_dispatcher *d)
{
    const struct post before = {d->loop.last_error, d->loop.refusals};
    gy_gd_current = d;
    gy_guest_current = d->loop.guest;
    d->loop.last_error = gy_error_last();
    d->loop.refusals = gy_told_refusals_at();
    return before;
}

static void leave_post(struct gantry_dispatcher *d, const struct post *before)
{
    d->loop.last_error = before->last_error;
    d->loop.refusals = before->refusals;
    gy_guest_current = NULL;
    gy_gd_current = NULL;
}

static void make_call(struct gy_stand_in *s)
{
    struct gantry_dispatcher *d = s->dispatcher;
    const struct post before = take_post(d);
    gy_context_subject = gy_task_label(s->launch->task);
    gy_copy_call = s->copy_call;
    gy_error_clear();
    s->result = s->call(s->launch);
    gy_inside_return();
    s->cause = *gy_error_last();
    s->copy_call = gy_copy_call;
    gy_context_subject = NULL;
    leave_post(d, &before);
}

/* Wait for a call; false: none will come. */
static bool await_call(struct gy_stand_in *s)
{
    for (;;) {
        const uint32_t key = gy_event_prepare(&s->changed), state = atomic_load(&s->state);
        if (state == GY_STAND_IN_CALLED || state == GY_STAND_IN_CLOSING) {
            gy_event_cancel(&s->changed);
            return state == GY_STAND_IN_CALLED;
        }
        gy_event_sleep(&s->changed, key);
    }
}

static void stand_in_main(void *arg)
{
    struct gy_stand_in *s = arg;
    struct gy_context *context = s->dispatcher->config.context;
    gy_thread_serve(true);
    const bool pushed = gy_context_push(context) == GANTRY_OK;
    while (await_call(s)) {
        if (pushed) {
            make_call(s);
        } else {
            s->result = GANTRY_LAUNCH_FAILED;
            s->cause = *gy_error_last();
        }
        enter(s, GY_STAND_IN_RETURNED);
    }
    if (pushed) {
        (void)gy_context_pop(context);
    }
}

/* ---- calls ------------------------------------------------------------------------------------- */

static bool is_there(struct gy_stand_in *s)
{
    if (atomic_load(&s->state) == GY_STAND_IN_NONE &&
        gy_thread_start(&s->thread, "GD stand-in", stand_in_main, s) == GANTRY_OK) {
        enter(s, GY_STAND_IN_IDLE);
    }
    return atomic_load(&s->state) == GY_STAND_IN_IDLE;
}

gantry_launch_result gy_stand_in_call(struct gantry_launch *launch, gy_stand_in_fn call)
{
    struct gy_stand_in *s = &launch->dispatcher->stand_in;
    assert(!gy_mode_is_noted(launch));
    if (!is_there(s)) {
        return call(launch);
    }
    s->launch = launch;
    s->call = call;
    s->copy_call = gy_copy_call;
    enter(s, GY_STAND_IN_CALLED);
    gy_event_wait_for(&s->changed, &s->state, GY_STAND_IN_RETURNED);
    gy_copy_call = s->copy_call;
    const gantry_launch_result result = s->result;
    if (s->cause.status != GANTRY_OK) {
        (void)gy_error_adopt(&s->cause);
    }
    enter(s, GY_STAND_IN_IDLE);
    return result;
}

/* ---- life -------------------------------------------------------------------------------------- */

gantry_status gy_stand_in_init(struct gy_stand_in *s, struct gantry_dispatcher *d)
{
    *s = (struct gy_stand_in){.dispatcher = d};
    return gy_event_init(&s->changed);
}

void gy_stand_in_fini(struct gy_stand_in *s)
{
    if (atomic_load(&s->state) != GY_STAND_IN_NONE) {
        enter(s, GY_STAND_IN_CLOSING);
        gy_thread_join(&s->thread);
    }
    gy_event_fini(&s->changed);
}
