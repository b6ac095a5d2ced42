/* SPDX-License-Identifier: MIT */
#include "dispatcher/loop/guest.h"

#include "base/clock.h"
#include "base/waiter.h"
#include "dispatcher/done/completion_thread.h"
#include "dispatcher/gates/gate.h"
#include "dispatcher/loop/current.h"
#include "dispatcher/loop/guest_rule.h"
#include "dispatcher/loop/loop.h"
#include "driver/inside.h"
#include "driver/told.h"
#include "profile/cta.h"

#include <assert.h>
#include <pthread.h>

/* ---- whose partitions stay -------------------------------------------------------------------- */

/* Before the guest looks at the rings or the loop: other partitions are not put in place until it has left.
 * False: that is under way. */
static bool count_in(struct gantry_dispatcher *d, struct gy_gpu_guest *guest)
{
    guest->is_counted = guest->is_counted || gy_replan_try_begin(d);
    return guest->is_counted;
}

static void count_out(struct gantry_dispatcher *d, struct gy_gpu_guest *guest)
{
    if (guest->is_counted) {
        guest->is_counted = false;
        gy_replan_call_end(d);
    }
}

/* ---- the thread ------------------------------------------------------------------------------ */

/* Is something being captured on a stream that the legacy stream waits for?  Most likely this thread does
 * that. */
static bool is_capturing(const struct gy_context *context)
{
    CUstreamCaptureStatus status = CU_STREAM_CAPTURE_STATUS_NONE;
    return context->driver->cuStreamIsCapturing(NULL, &status) != CUDA_SUCCESS ||
           status != CU_STREAM_CAPTURE_STATUS_NONE;
}

/* Give the calling thread the state of a thread of the dispatcher.  This makes few calls of the driver: all
 * are on the way to the first launch.  On streams nothing is forbidden on the thread at any time, so it
 * need not be asked whether it captures. */
static bool enter_thread(struct gantry_dispatcher *d, struct gy_gpu_guest *guest)
{
    struct gy_context *context = d->config.context;
    CUcontext current = NULL;
    if (guest->is_in) {
        return true;
    }
    bool may_capture =
        atomic_load_explicit(&d->told.submission, memory_order_relaxed) >= GANTRY_SUBMISSION_GRAPHS;
    if (context->driver->cuCtxGetCurrent(&current) != CUDA_SUCCESS) {
        return false;
    }
    if (gy_context_push(context) != GANTRY_OK) {
        return false;
    }
    if (may_capture && is_capturing(context)) {
        (void)gy_context_pop(context);
        return false;
    }
    gy_inside_set_outer_mode(CU_STREAM_CAPTURE_MODE_RELAXED);
    guest->native_context = current;
    (void)pthread_setcancelstate(PTHREAD_CANCEL_DISABLE, &guest->cancel_state);
    guest->is_in = true;
    return true;
}

static void leave_thread(struct gantry_dispatcher *d, struct gy_gpu_guest *guest)
{
    struct gy_context *context = d->config.context;
    CUcontext current = NULL;
    if (!guest->is_in) {
        return;
    }
    guest->is_in = false;
    (void)gy_context_pop(context);
    /* A callback may have popped what the application had current before. */
    if (context->driver->cuCtxGetCurrent(&current) == CUDA_SUCCESS && current != guest->native_context) {
        (void)context->driver->cuCtxSetCurrent(guest->native_context);
    }
    (void)pthread_setcancelstate(guest->cancel_state, NULL);
}

/* ---- whose turn it is ------------------------------------------------------------------------ */

bool gy_guest_may_help(const struct gantry_dispatcher *d)
{
    return gy_waiter_spins_first(d->config.wait) && gy_guest_is_alone(d) &&
           !gy_context_is_stopped(d->config.context) && !gy_is_stale;
}

/* ---- the lead of the rings ------------------------------------------------------------------- */

_Static_assert(GANTRY_PARTITIONS_MAX <= 64, "a bit of guest->rings for each");

static void take_rings(struct gantry_dispatcher *d, struct gy_gpu_guest *guest)
{
    for (uint32_t i = 0; i < d->completion.count; i++) {
        struct gy_completion *ring = &d->completion.rings[i];
        if (gy_completion_is_led_by(ring, guest) || gy_completion_lead(ring, guest)) {
            guest->rings |= UINT64_C(1) << i;
        } else {
            guest->rings &= ~(UINT64_C(1) << i); /* it was full, so the guest has left it */
        }
    }
}

static void leave_rings(struct gantry_dispatcher *d, struct gy_gpu_guest *guest)
{
    for (; guest->rings != 0; guest->rings &= guest->rings - 1) {
        gy_completion_stop_leading(&d->completion.rings[__builtin_ctzll(guest->rings)], guest);
    }
}

void gy_guest_leave_rings(struct gantry_dispatcher *d)
{
    if (gy_guest_current != NULL) {
        leave_rings(d, gy_guest_current);
    }
}

/* ---- the loop ---------------------------------------------------------------------------------- */

static void take_loop(struct gantry_dispatcher *d, struct gy_gpu_guest *guest)
{
    if (!guest->has_loop && gy_inbox_borrow(&d->inbox)) {
        assert(d->loop.guest == NULL);
        d->loop.guest = guest;
        guest->has_loop = true;
        guest->is_due = true;
        guest->deadline_ns = 0;
    }
}

static enum gd_turn take_turn(struct gantry_dispatcher *d, struct gy_gpu_guest *guest)
{
    gy_gd_current = d;
    gy_guest_current = guest;
    gy_thread_serve(true); /* it counts as the dispatcher's thread, or as a completion thread */
    d->loop.last_error = gy_error_last();
    d->loop.refusals = gy_told_refusals_at();
    gy_stale_look(d);
    enum gd_turn turn = gy_gd_turn(d, &guest->seen);
    gy_inside_set_outer_mode(CU_STREAM_CAPTURE_MODE_RELAXED);
    gy_thread_serve(false);
    gy_guest_current = NULL;
    gy_gd_current = NULL;
    guest->is_due = turn != GD_TURN_IDLE;
    guest->deadline_ns = turn == GD_TURN_IDLE ? gy_gates_deadline(d) : 0;
    return turn;
}

/* The guest's wait is over, and a turn is due, behind the one that has ended it: mostly that finds nothing,
 * and to wake the dispatcher's thread for it takes longer.  If there is anything, that is left to it: a guest
 * that is through puts down what it has taken in. */
static void look_a_last_time(struct gantry_dispatcher *d, struct gy_gpu_guest *guest)
{
    if (gy_guest_is_alone(d) && !gy_gd_has_work(d) &&
        !gy_inbox_has_news(&d->inbox, guest->seen, gy_gd_may_read(d))) {
        (void)take_turn(d, guest);
    }
}

static void leave_loop(struct gantry_dispatcher *d, struct gy_gpu_guest *guest)
{
    if (!guest->has_loop) {
        return;
    }
    assert(d->loop.guest == guest);
    if (guest->is_due && gy_gpu_guest_is_through(guest)) {
        look_a_last_time(d, guest);
    }
    bool wake = guest->is_due || gy_gd_has_work(d) || guest->deadline_ns != 0;
    guest->has_loop = false;
    d->loop.guest = NULL;
    gy_inbox_give_back(&d->inbox, guest->seen, gy_gd_may_read(d), wake);
}

/* Take a turn of the loop if that is due; true when something was done. */
static bool look_at_loop(struct gantry_dispatcher *d, struct gy_gpu_guest *guest)
{
    if (!guest->has_loop) {
        return false;
    }
    bool is_time = guest->deadline_ns != 0 && gy_clock_ns() >= guest->deadline_ns;
    bool has_news = gy_inbox_has_news(&d->inbox, guest->seen, gy_gd_may_read(d));
    if (!guest->is_due && !is_time && !has_news) {
        return false;
    }
    if (is_time || has_news) {
        gy_guest_leave_pending_rings(d);
    }
    return take_turn(d, guest) == GD_TURN_AGAIN;
}

/* ---- what there is to do ----------------------------------------------------------------------- */

static bool look_at_rings(struct gantry_dispatcher *d, struct gy_gpu_guest *guest)
{
    bool any = false;
    for (uint64_t left = guest->rings; left != 0; left &= left - 1) {
        struct gy_completion *ring = &d->completion.rings[__builtin_ctzll(left)];
        if (!gy_completion_take_in(ring, guest) || !gy_guest_is_alone(d)) {
            continue; /* nothing is pending, or the tasks that were taken in may be another manager's */
        }
        gy_is_completion_thread = true;
        gy_thread_serve(true); /* it counts as the dispatcher's thread, or as a completion thread */
        any = gy_completion_tell(ring) || any;
        gy_thread_serve(false);
        gy_is_completion_thread = false;
    }
    return any;
}

/* ---- the guest ------------------------------------------------------------------------------- */

void gy_guest_enter(gantry_dispatcher *d, struct gy_gpu_guest *guest)
{
    if (!gy_guest_may_help(d) || !count_in(d, guest)) {
        return;
    }
    if (enter_thread(d, guest)) {
        take_loop(d, guest);
        take_rings(d, guest);
        if (!guest->has_loop) {
            gy_inbox_expect_guest(&d->inbox); /* its thread is awake, and leaves its place before it takes */
        }
    } else {
        count_out(d, guest);
    }
}

/* Is there a post that nobody holds? */
static bool is_anything_free(struct gantry_dispatcher *d)
{
    bool any = gy_inbox_is_free(&d->inbox);
    for (uint32_t i = 0; i < d->completion.count && !any; i++) {
        any = gy_completion_is_free(&d->completion.rings[i]);
    }
    return any;
}

bool gy_guest_look_at_gpu(gantry_dispatcher *d, struct gy_gpu_guest *guest)
{
    if (!gy_guest_may_help(d) || !count_in(d, guest)) {
        guest->is_kept_out = guest->is_kept_out || !gy_guest_is_alone(d);
        gy_guest_leave(d, guest);
        return false;
    }
    if ((!guest->is_in && !is_anything_free(d)) || !enter_thread(d, guest)) {
        return false; /* it stays counted until it stops to look */
    }
    take_loop(d, guest);
    take_rings(d, guest);
    bool any = look_at_loop(d, guest);
    return look_at_rings(d, guest) || any;
}

void gy_guest_leave(gantry_dispatcher *d, struct gy_gpu_guest *guest)
{
    leave_loop(d, guest);
    leave_rings(d, guest);
    leave_thread(d, guest);
    count_out(d, guest);
    assert(!guest->is_in && !guest->has_loop && guest->rings == 0);
}
