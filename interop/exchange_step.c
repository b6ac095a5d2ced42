/* SPDX-License-Identifier: MIT */
/* One step of an exchange: its tasks, and the thread that waits for the renderer. */
#include "interop/exchange.h"

#include "base/clock.h"
#include "base/outside.h"
#include "base/span.h"
#include "context/context.h"
#include "dispatcher/taskman_ops.h"
#include "taskman/gpu_ops.h"

#include <inttypes.h>

#define SLICE_NS UINT64_C(5000000) /* a waiting thread looks this often whether its step was cancelled */

/* ---- the step --------------------------------------------------------------------------------- */

static gantry_status fail_destroyed(void)
{
    return GY_FAIL(GANTRY_ERR_CLOSED, "the exchange of this step was destroyed");
}

static gantry_status check_armed(const gantry_exchange *e) GY_REQUIRES(e->lock)
{
    if (e->closing) {
        return fail_destroyed(); /* its thread may have ended */
    }
    if (e->state == GY_EXCHANGE_LOST) {
        return gy_exchange_refuse(e, "the step");
    }
    if (e->state != GY_EXCHANGE_ARMED || e->step.held == NULL) {
        return GY_FAIL(GANTRY_ERR_STATE,
                       "exchange '%s': gantry_exchange_next() was not called before this step", e->label);
    }
    return GANTRY_OK;
}

/* Report what wait() has said, which is neither OK nor TIMED_OUT. */
static gantry_status fail_wait(const gantry_exchange *e, uint64_t value, gantry_status status)
{
    gantry_status why = gy_status_is_failure(status) ? status : GANTRY_ERR_INVALID_ARGUMENT;
    return GY_FAIL(why, "exchange '%s': the application's wait for value %" PRIu64 " failed (%s)", e->label,
                   value, gantry_status_name(status));
}

static gantry_status take_values(gantry_exchange *e, uint64_t *wait_value)
{
    gy_mutex_lock(&e->lock);
    gantry_status status = check_armed(e);
    if (status == GANTRY_OK) {
        e->step.is_open = true;
        e->stats.steps++;
        *wait_value = e->step.wait_value;
    }
    gy_mutex_unlock(&e->lock);
    return status;
}

/* The GPU waits, and the exchange's thread looks whether it still does. */
static gantry_status begin_on_device(gantry_exchange *e, gantry_launch *launch)
{
    uint64_t value = 0;
    gantry_status status = take_values(e, &value);
    if (status != GANTRY_OK) {
        return status;
    }
    gy_mutex_lock(&e->lock);
    gantry_task *held = e->step.held;
    status = check_armed(e);
    status = status == GANTRY_OK ? gantry_task_add_reference(held) : status;
    bool is_held = status == GANTRY_OK;
    if (is_held) {
        uint64_t since = gy_clock_ns();
        status = gy_exchange_device_wait(e, e->step.is_ahead ? gantry_launch_stream(launch) : NULL, value);
        e->stats.acquire_ns += gy_clock_ns() - since;
        if (status == GANTRY_OK) {
            gy_exchange_enter(e, GY_EXCHANGE_WAITING);
            gy_cond_broadcast(&e->changed);
        } else {
            gy_exchange_lose(e);
        }
    }
    gy_mutex_unlock(&e->lock);
    if (is_held && status != GANTRY_OK) {
        (void)gantry_task_fail_reference(held, status);
    }
    return status;
}

static gantry_status ask_renderer(gantry_exchange *e, uint64_t value, uint64_t timeout_ns)
{
    const struct gy_inside *inside = gy_outside_begin();
    gantry_status status = e->wait(e->arg, value, timeout_ns);
    gy_outside_end_of(inside, "a callback of an exchange");
    return status;
}

static gantry_status tell_renderer(gantry_exchange *e, uint64_t value)
{
    const struct gy_inside *inside = gy_outside_begin();
    gantry_status status = e->signal(e->arg, value);
    gy_outside_end_of(inside, "a callback of an exchange");
    return status;
}

static gantry_status begin_pinned(gantry_exchange *e)
{
    uint64_t value = 0;
    gantry_status status = take_values(e, &value);
    if (status != GANTRY_OK) {
        return status;
    }
    uint64_t since = gy_clock_ns();
    gantry_status seen = ask_renderer(e, value, 0);
    if (seen != GANTRY_OK && seen != GANTRY_ERR_TIMED_OUT) {
        status = fail_wait(e, value, seen);
    }
    gy_mutex_lock(&e->lock);
    e->stats.acquire_ns += gy_clock_ns() - since;
    bool is_wanted = e->state == GY_EXCHANGE_ARMED && !e->closing;
    if (seen == GANTRY_ERR_TIMED_OUT && is_wanted) {
        status = gantry_task_add_reference(e->step.held);
    }
    if (e->closing) {
        status = fail_destroyed();
    } else if (e->state != GY_EXCHANGE_ARMED) { /* the step was abandoned meanwhile */
        status = gy_exchange_refuse(e, "the step");
    } else if (status != GANTRY_OK) {
        gy_exchange_lose(e);
    } else {
        e->stats.at_once += seen == GANTRY_OK;
        gy_exchange_enter(e, seen == GANTRY_OK ? GY_EXCHANGE_PASSED : GY_EXCHANGE_WAITING);
        gy_cond_broadcast(&e->changed);
    }
    gy_mutex_unlock(&e->lock);
    return status;
}

/* The body of the task `begin` on the host way. */
static gantry_status begin_step(gantry_task *task, void *number)
{
    (void)task;
    gantry_exchange *e = gy_exchange_pin(number);
    if (e == NULL) {
        return fail_destroyed();
    }
    gantry_status status = begin_pinned(e);
    gy_exchange_unpin(e);
    return status;
}

/* The callback of `begin` where the GPU waits: the dispatcher's thread calls it, so it needs no worker.  The
 * wait is no part of a graph: it could not be seen, or ended, before the whole graph was launched. */
static gantry_launch_result launch_wait(gantry_launch *launch, void *number)
{
    gantry_status status = gantry_launch_leave_graph(launch);
    gantry_exchange *e = gy_exchange_pin(number);
    if (e == NULL) {
        return gantry_launch_fail(launch, fail_destroyed());
    }
    status = status == GANTRY_OK ? begin_on_device(e, launch) : status;
    gy_exchange_unpin(e);
    return status == GANTRY_OK ? GANTRY_LAUNCH_DONE : gantry_launch_fail(launch, status);
}

static gantry_launch_result launch_nothing(gantry_launch *launch, void *arg)
{
    (void)launch;
    (void)arg;
    return GANTRY_LAUNCH_DONE;
}

static gantry_status signal_pinned(gantry_exchange *e)
{
    gy_mutex_lock(&e->lock);
    gantry_status status = e->state == GY_EXCHANGE_PASSED ? GANTRY_OK : gy_exchange_refuse(e, "the step");
    uint64_t value = e->step.signal_value;
    gy_mutex_unlock(&e->lock);
    if (status != GANTRY_OK) {
        return status;
    }
    uint64_t since = gy_clock_ns();
    status = tell_renderer(e, value);
    uint64_t until = gy_clock_ns();
    if (status != GANTRY_OK) {
        return GY_FAIL(gy_status_is_failure(status) ? status : GANTRY_ERR_INVALID_ARGUMENT,
                       "exchange '%s': the application could not signal value %" PRIu64 " (%s)", e->label,
                       value, gantry_status_name(status));
    }
    gy_mutex_lock(&e->lock);
    e->stats.signalled++;
    e->stats.release_ns += until - since;
    gy_mutex_unlock(&e->lock);
    return GANTRY_OK;
}

static gantry_status signal_behind(gantry_exchange *e, CUstream stream)
{
    gy_mutex_lock(&e->lock);
    gantry_status status = e->state == GY_EXCHANGE_PASSED && !e->closing ? GANTRY_OK
                           : e->closing                                  ? fail_destroyed()
                                                                         : gy_exchange_refuse(e, "the step");
    if (status == GANTRY_OK) {
        uint64_t since = gy_clock_ns();
        status = gy_exchange_device_signal(e, stream, e->step.signal_value);
        e->stats.release_ns += gy_clock_ns() - since;
        e->stats.signalled += status == GANTRY_OK;
    }
    gy_mutex_unlock(&e->lock);
    return status;
}

/* The callback of `release` on the device way.  The signal is no part of a graph: its value changes from step
 * to step. */
static gantry_launch_result launch_signal(gantry_launch *launch, void *number)
{
    gantry_status status = gantry_launch_leave_graph(launch);
    CUstream stream = status == GANTRY_OK ? gantry_launch_stream(launch) : NULL;
    gantry_exchange *e = gy_exchange_pin(number);
    if (e == NULL) {
        return gantry_launch_fail(launch, fail_destroyed());
    }
    status = stream != NULL ? signal_behind(e, stream) : status;
    gy_exchange_unpin(e);
    return stream != NULL && status == GANTRY_OK ? GANTRY_LAUNCH_DONE : gantry_launch_fail(launch, status);
}

/* The body of the task `signal`: the GPU has done the work that `release` comes after. */
static gantry_status signal_renderer(gantry_task *task, void *number)
{
    (void)task;
    gantry_exchange *e = gy_exchange_pin(number);
    if (e == NULL) {
        return fail_destroyed();
    }
    gantry_status status = signal_pinned(e);
    gy_exchange_unpin(e);
    return status;
}

/* The last task of the step was released, with whatever result: the step is over for the exchange. */
static void end_step(gantry_task *task, void *number, gantry_status result)
{
    (void)task;
    (void)result;
    gantry_exchange *e = gy_exchange_pin(number);
    if (e == NULL) {
        return;
    }
    gy_mutex_lock(&e->lock);
    e->step.is_open = false;
    if (e->state == GY_EXCHANGE_ARMED || e->state == GY_EXCHANGE_PASSED) {
        gy_exchange_enter(e, GY_EXCHANGE_IDLE);
    }
    gy_mutex_unlock(&e->lock);
    gy_exchange_unpin(e);
}

/* ---- its thread ------------------------------------------------------------------------------- */

/* Wait for one slice.  GANTRY_OK: the renderer came. */
static gantry_status wait_one_slice(gantry_exchange *e, uint64_t value, uint64_t now, uint64_t deadline)
{
    uint64_t left = deadline > now ? deadline - now : 0;
    uint64_t slice = left < SLICE_NS ? left : SLICE_NS;
    gantry_status status = e->on_device ? gy_exchange_device_look(e, deadline - e->timeout_ns, slice)
                                        : ask_renderer(e, value, slice);
    if (status == GANTRY_ERR_TIMED_OUT && left <= SLICE_NS) {
        return GY_FAIL(GANTRY_ERR_TIMED_OUT,
                       "exchange '%s': the renderer did not reach value %" PRIu64 " within %" PRIu64
                       " ms; the step was to answer with value %" PRIu64,
                       e->label, value, e->timeout_ns / 1000000, e->step.signal_value);
    }
    if (status != GANTRY_OK && status != GANTRY_ERR_TIMED_OUT) {
        return e->on_device ? status : fail_wait(e, value, status);
    }
    return status;
}

/* Is the wait to be given up, and why? */
static gantry_status check_wanted(gantry_exchange *e, const gantry_taskman *manager)
{
    gy_mutex_lock(&e->lock);
    bool closing = e->closing;
    bool has_context = e->context != NULL && !gy_context_is_lost(e->context->cuda);
    gy_mutex_unlock(&e->lock);
    if (closing) {
        return GY_FAIL(GANTRY_ERR_CLOSED, "exchange '%s' is being destroyed", e->label);
    }
    if (!has_context) {
        return GY_FAIL(GANTRY_ERR_DEVICE_LOST, "exchange '%s': its context is lost or gone", e->label);
    }
    return gy_taskman_is_cancelled(manager)
               ? GY_FAIL(GANTRY_ERR_CANCELLED, "exchange '%s': its step was cancelled", e->label)
               : GANTRY_OK;
}

/* Wait for the renderer.  The lock is not held. */
static gantry_status wait_for_renderer(gantry_exchange *e, uint64_t value, const gantry_taskman *manager)
{
    uint64_t deadline = gy_clock_ns() + e->timeout_ns;
    for (;;) {
        gantry_status status = check_wanted(e, manager);
        if (status != GANTRY_OK) {
            return status;
        }
        uint64_t now = gy_clock_ns();
        bool is_last = now + SLICE_NS >= deadline; /* then a failure has its cause */
        status = wait_one_slice(e, value, now, deadline);
        if (status != GANTRY_ERR_TIMED_OUT || is_last) {
            return status;
        }
    }
}

static void note_wait(gantry_exchange *e, uint64_t ns) GY_REQUIRES(e->lock)
{
    e->stats.waited_ns += ns;
    e->stats.longest_ns = ns > e->stats.longest_ns ? ns : e->stats.longest_ns;
}

/* The exchange is lost while the GPU waits for the renderer.  What is enqueued behind the wait runs when that
 * ends, on a frame that is not there: so the run is cancelled first, and nothing that comes after such work
 * starts. */
static void end_device_wait(gantry_exchange *e, gantry_taskman *manager, uint64_t value) GY_REQUIRES(e->lock)
{
    const bool is_ahead = e->step.is_ahead;
    if (e->on_device) {
        gy_mutex_unlock(&e->lock);
        if (is_ahead) {
            struct gy_error why = *gy_error_last();
            (void)gantry_taskman_cancel(manager); /* it runs: it has a task that is held */
            (void)gy_error_adopt(&why);
        }
        gy_exchange_device_rescue(e, value);
        gy_mutex_lock(&e->lock);
    }
}

/* Serve a step until its state is no longer GY_EXCHANGE_WAITING. */
static void serve_step(gantry_exchange *e) GY_REQUIRES(e->lock)
{
    e->is_serving = true;
    gantry_task *held = e->step.held;
    gantry_taskman *manager = gantry_task_manager(held);
    uint64_t value = e->step.wait_value;
    gy_mutex_unlock(&e->lock);
    uint64_t since = gy_clock_ns(), span = gy_span_begin();
    gantry_status status = wait_for_renderer(e, value, manager);
    gy_span_end(GY_SPAN_EXCHANGE, e->span, span, value);
    gy_mutex_lock(&e->lock);
    note_wait(e, gy_clock_ns() - since);
    if (status == GANTRY_OK || (status == GANTRY_ERR_CANCELLED && !e->on_device)) {
        gy_exchange_enter(e, status == GANTRY_OK ? GY_EXCHANGE_PASSED : GY_EXCHANGE_IDLE);
    } else {
        gy_exchange_lose(e);
        end_device_wait(e, manager, value);
    }
    e->is_serving = false;
    gy_cond_broadcast(&e->changed);
    gy_mutex_unlock(&e->lock);
    (void)(status == GANTRY_OK ? gantry_task_remove_reference(held)
                               : gantry_task_fail_reference(held, status));
    gy_mutex_lock(&e->lock);
}

void gy_exchange_serve(void *exchange)
{
    gantry_exchange *e = exchange;
    gy_mutex_lock(&e->lock);
    while (!e->closing || e->state == GY_EXCHANGE_WAITING) {
        if (e->state == GY_EXCHANGE_WAITING) {
            serve_step(e);
        } else {
            gy_cond_wait(&e->changed, &e->lock);
        }
    }
    gy_mutex_unlock(&e->lock);
}

/* ---- the tasks --------------------------------------------------------------------------------- */

static gantry_status submit_all(const gantry_exchange *e, gantry_taskman *manager,
                                struct gy_exchange_tasks *out)
{
    void *number = (void *)(uintptr_t)e->id;
    gantry_task_desc begin = {.struct_size = sizeof(begin),
                              .kind = e->on_device ? GANTRY_TASK_HTOD : GANTRY_TASK_CPU,
                              .label = "exchange begins",
                              .run = e->on_device ? NULL : begin_step,
                              .launch = e->on_device ? launch_wait : NULL,
                              .arg = number,
                              .priority = e->on_device ? 0 : GANTRY_TASK_PRIORITY_HIGH};
    gantry_task_desc held = {.struct_size = sizeof(held),
                             .kind = GANTRY_TASK_SYNC_POINT,
                             .label = out->is_ahead ? "the renderer came" : "acquire"};
    gantry_task_desc release = {.struct_size = sizeof(release),
                                .kind = GANTRY_TASK_DTOH,
                                .label = "release",
                                .launch = e->on_device ? launch_signal : launch_nothing,
                                .release = e->on_device ? end_step : NULL,
                                .arg = e->on_device ? number : NULL,
                                .is_stable = !e->on_device};
    gantry_task_desc signal = {.struct_size = sizeof(signal),
                               .kind = GANTRY_TASK_CPU,
                               .label = "exchange ends",
                               .run = signal_renderer,
                               .release = end_step,
                               .arg = number,
                               .priority = GANTRY_TASK_PRIORITY_HIGH};
    begin.label = out->is_ahead ? "acquire" : begin.label;
    gantry_status status =
        gantry_taskman_submit(manager, &release, &out->release); /* first, since it may be refused */
    if (status == GANTRY_OK) {
        status = gantry_taskman_submit(manager, &held, &out->held);
    }
    if (status == GANTRY_OK) {
        status = gantry_taskman_submit(manager, &begin, &out->begin);
    }
    return status == GANTRY_OK && !e->on_device ? gantry_taskman_submit(manager, &signal, &out->signal)
                                                : status;
}

gantry_status gy_exchange_submit(const gantry_exchange *e, gantry_taskman *manager,
                                 struct gy_exchange_tasks *out)
{
    out->is_ahead = e->may_be_ahead && gy_dispatcher_isolate(manager);
    gantry_status status = submit_all(e, manager, out);
    if (status == GANTRY_OK) {
        status = gantry_task_start_after(out->held, out->begin);
    }
    if (status == GANTRY_OK) {
        status = gantry_task_start_after(out->release, out->held);
    }
    return status == GANTRY_OK && !e->on_device ? gantry_task_start_after_done(out->signal, out->release)
                                                : status;
}
