/* SPDX-License-Identifier: MIT */
/* An exchange of shared memory with a renderer, step by step, through two functions of the application.
 *
 *                      next()             the renderer is there already
 *     +--> IDLE --------------> ARMED -----------------------> PASSED --+
 *     |     ^                     |                              ^      |
 *     |     |                     +------> WAITING --------------+      |
 *     |     |                                 |   it came               |
 *     |     +--- the step was cancelled ------+                         |
 *     |                                       +--> LOST: too late, a failed wait, destroyed, context gone
 *     +------ `signal` has run, or was released without --------------- +
 *
 * A step begins with the task `begin`, which looks at the renderer's timeline.  When the value is not there
 * yet, it takes a reference on `acquire` and wakes the exchange's thread; that waits, in slices, so that it
 * hears of a cancelled run and of the end, and gives the reference back.  So no worker is blocked, and a wait
 * ends with its time-out at the latest.  Where the GPU waits, `begin` is a GPU task that enqueues the wait,
 * and the thread always looks for its end; ahead, `begin` is what the application knows as `acquire`, and
 * what is held back until the renderer came is a sync point in front of `release`.  On the host way `release`
 * is a GPU task without work, and `signal` starts when the GPU has done it and tells the renderer. */
#include "interop/exchange.h"

#include "context/context.h"

#include <assert.h>

bool gy_exchange_is_valid(const gantry_exchange *e) GY_REQUIRES(e->lock)
{
    return e->state <= GY_EXCHANGE_LOST &&
           (e->state != GY_EXCHANGE_WAITING || (e->step.is_open && e->step.held != NULL)) &&
           (e->state == GY_EXCHANGE_IDLE || e->state == GY_EXCHANGE_LOST || e->has_values) &&
           (e->state != GY_EXCHANGE_LOST || e->cause.status != GANTRY_OK) &&
           e->stats.signalled <= e->stats.steps;
}

void gy_exchange_enter(gantry_exchange *e, enum gy_exchange_state state) GY_REQUIRES(e->lock)
{
    assert(e->state != GY_EXCHANGE_LOST || state == GY_EXCHANGE_LOST);
    e->state = state;
    assert(gy_exchange_is_valid(e));
}

void gy_exchange_lose(gantry_exchange *e) GY_REQUIRES(e->lock)
{
    if (e->state != GY_EXCHANGE_LOST) {
        e->cause = *gy_error_last();
        gy_exchange_enter(e, GY_EXCHANGE_LOST);
    }
}

gantry_status gy_exchange_refuse(const gantry_exchange *e, const char *call) GY_REQUIRES(e->lock)
{
    return GY_FAIL(GANTRY_ERR_STATE, "%s: exchange '%s' is lost: %s", call, e->label, e->cause.text);
}

/* ---- the exchanges that exist ------------------------------------------------------------------ */

static gy_mutex registry = {PTHREAD_MUTEX_INITIALIZER, GY_RANK_EXCHANGES};
static gy_cond unpinned = GY_COND_INIT; /* a task has let go of an exchange that is being destroyed */
static gantry_exchange *exchanges;      /* guarded by registry */
static uint64_t last_id;                /* guarded by registry */

void gy_exchange_register(gantry_exchange *e)
{
    gy_mutex_lock(&registry);
    e->id = ++last_id;
    e->users = 1;
    e->next = exchanges;
    exchanges = e;
    gy_mutex_unlock(&registry);
}

void gy_exchange_unregister(gantry_exchange *e)
{
    gy_mutex_lock(&registry);
    gantry_exchange **link = &exchanges;
    while (*link != e) {
        link = &(*link)->next;
    }
    *link = e->next;
    while (e->users > 1) {
        gy_cond_wait(&unpinned, &registry);
    }
    gy_mutex_unlock(&registry);
}

gantry_exchange *gy_exchange_pin(void *number)
{
    gy_mutex_lock(&registry);
    gantry_exchange *e = exchanges;
    while (e != NULL && e->id != (uintptr_t)number) {
        e = e->next;
    }
    if (e != NULL) {
        e->users++;
    }
    gy_mutex_unlock(&registry);
    return e;
}

void gy_exchange_unpin(gantry_exchange *e)
{
    gy_mutex_lock(&registry);
    e->users--;
    gy_cond_broadcast(&unpinned);
    gy_mutex_unlock(&registry);
}

gantry_status gy_exchanges_check_none(const gantry_context *context, const char *call)
{
    gantry_status status = GANTRY_OK;
    gy_mutex_lock(&registry);
    for (gantry_exchange *e = exchanges; e != NULL && status == GANTRY_OK; e = e->next) {
        gy_mutex_lock(&e->lock);
        if (e->context == context) {
            status = GY_FAIL(GANTRY_ERR_STATE, "%s: the context has exchange '%s', which knows its streams",
                             call, e->label);
        }
        gy_mutex_unlock(&e->lock);
    }
    gy_mutex_unlock(&registry);
    return status;
}

void gy_exchanges_abandon(const gantry_context *context)
{
    gy_mutex_lock(&registry);
    for (gantry_exchange *e = exchanges; e != NULL; e = e->next) {
        gy_mutex_lock(&e->lock);
        bool is_ours = e->context == context;
        e->context = is_ours ? NULL : e->context;
        if (is_ours && e->state != GY_EXCHANGE_LOST &&
            e->state != GY_EXCHANGE_WAITING) { /* the exchange's thread ends a wait */
            (void)GY_FAIL(GANTRY_ERR_DEVICE_LOST, "exchange '%s': its context was destroyed", e->label);
            gy_exchange_lose(e);
        }
        while (is_ours && e->on_device && (e->state == GY_EXCHANGE_WAITING || e->is_serving)) {
            gy_cond_wait(&e->changed, &e->lock); /* it needs the context to end the wait on the GPU */
        }
        if (is_ours) {
            gy_exchange_device_close(e);
        }
        gy_mutex_unlock(&e->lock);
    }
    gy_mutex_unlock(&registry);
}
