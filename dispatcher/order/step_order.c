/* SPDX-License-Identifier: MIT */
#include "dispatcher/order/step_order.h"

#include "base/alloc.h"
#include "dispatcher/order/batch_order.h"
#include "dispatcher/order/waits.h"
#include "taskman/manager.h"

#include <assert.h>

struct gy_gpu_order *gy_step_order_open(struct gy_streams *streams)
{
    struct gy_gpu_order *order = gy_zalloc(sizeof(*order));
    if (order != NULL) {
        order->streams = streams;
    }
    return order;
}

bool gy_step_order_isolate(struct gy_gpu_order *order)
{
    if (order->owner.private_set == 0) {
        order->owner.private_set = gy_streams_take_private(order->streams);
    }
    return order->owner.private_set != 0;
}

void gy_step_order_forget(struct gy_gpu_order *order)
{
    for (int b = 0; b < GY_BOUNDS; b++) {
        order->bounds[b].before.streams = 0;
        order->bounds[b].is_fenced = false;
    }
    order->during.streams = order->latest = 0;
    order->owner.private_set = 0;
}

void gy_step_order_close(struct gy_gpu_order *order)
{
    if (order->owner.private_set != 0) {
        gy_streams_give_private(order->streams, order->owner.private_set);
    }
    struct gy_context *context = order->streams->context;
    for (int b = 0; b < GY_BOUNDS; b++) {
        const CUevent fence = order->bounds[b].fence.native;
        if (fence != NULL && gy_context_push(context) == GANTRY_OK) {
            /* On a lost context this fails, as everything does, and no caller could act on it. */
            (void)context->driver->cuEventDestroy(fence);
            (void)gy_context_pop(context);
        }
    }
    gy_free(order);
}

/* Forget the timeline points that need no wait any more, whatever stream the next work goes to.  Streams of
 * other devices do not wait for this device's barrier, so in a fleet what lies before it is kept. */
static void drop_passed(const struct gy_gpu_order *order, struct gy_clock *before)
{
    for (uint64_t left = before->streams; left != 0; left &= left - 1) {
        uint32_t i = (uint32_t)__builtin_ctzll(left);
        struct gy_stream *s = &order->streams->streams[i];
        if ((!order->has_peers && s->floor >= before->seq[i]) ||
            atomic_load_explicit(&s->completed, memory_order_acquire) >= before->seq[i]) {
            before->streams &= ~(UINT64_C(1) << i);
        }
    }
}

/* True when the timeline point on stream `i` comes before the one on some other stream.  What that stream has
 * waited for after its point closed, for another manager's work, is not before the point. */
static bool is_implied(const struct gy_gpu_order *order, const struct gy_clock *before, uint32_t i)
{
    for (uint64_t left = before->streams & ~(UINT64_C(1) << i); left != 0; left &= left - 1) {
        uint32_t j = (uint32_t)__builtin_ctzll(left);
        const struct gy_stream *s = &order->streams->streams[j];
        if (s->tail == before->seq[j] && s->line->learnt_at < s->tail &&
            s->line->known[i] >= before->seq[i]) {
            return true;
        }
    }
    return false;
}

static void drop_implied(const struct gy_gpu_order *order, struct gy_clock *before)
{
    for (uint64_t left = before->streams; left != 0; left &= left - 1) {
        uint32_t i = (uint32_t)__builtin_ctzll(left);
        if (is_implied(order, before, i)) {
            before->streams &= ~(UINT64_C(1) << i);
        }
    }
}

/* The work that the step before has left is added to the rest of the steps before that one: some of its
 * tasks may have been independent of those.  A step without GPU work has left nothing; all that is known is
 * older then. */
void gy_step_order_begin(struct gy_gpu_order *order, uint64_t run, uint64_t previous)
{
    struct gy_clock *all = &order->bounds[GY_BOUND_ALL].before;
    struct gy_clock *older = &order->bounds[GY_BOUND_OLDER].before;
    const bool is_next = previous != 0 && previous == order->run;
    older->streams = 0;
    gy_clock_add_clock(older, all);
    gy_clock_add_clock(all, &order->during);
    if (!is_next) {
        gy_clock_add_clock(older, &order->during);
    }
    order->latest = is_next ? order->during.streams : 0;
    order->during.streams = 0;
    order->bounds[GY_BOUND_ALL].is_fenced = order->bounds[GY_BOUND_OLDER].is_fenced = false;
    order->run = run;
    order->closed = 0;
    drop_implied(order, all); /* first: what implies others may have passed, and then so have they */
    drop_passed(order, all);
    drop_passed(order, older);
    assert(gy_step_order_is_valid(order));
}

const struct gy_clock *gy_step_order_left(struct gy_gpu_order *order, uint64_t run,
                                          enum gy_step_bound_of bound)
{
    if (order->run != run) {
        gy_step_order_begin(order, run, 0);
    }
    struct gy_clock *before = &order->bounds[bound].before;
    drop_passed(order, before);
    if (before->streams != 0) {
        return before;
    }
    if (bound == GY_BOUND_ALL) {
        atomic_store_explicit(&order->clear, run, memory_order_release);
    }
    return NULL;
}

/* Called for the first work of the step that has to wait.  The fence is recorded before that work is
 * enqueued, so a stream that waits for the fence does not wait for the work. */
static gantry_status collect(const struct gy_gpu_order *order, struct gy_step_bound *bound, uint32_t stream,
                             bool is_all)
{
    struct gy_streams *streams = order->streams;
    drop_passed(order, &bound->before);
    if (bound->before.streams == 0) {
        return GANTRY_OK;
    }
    gantry_status status = gy_streams_wait_clock(streams, stream, &bound->before);
    if (status == GANTRY_OK && !streams->device_wide && !is_all) {
        status = gy_streams_record_into(streams, stream, &bound->fence);
        bound->is_fenced = status == GANTRY_OK;
    }
    assert(gy_step_order_is_valid(order));
    return status;
}

/* Does whoever knows `known` come after what the bound means, and is that to be fenced? */
static bool wants_fence(const struct gy_gpu_order *order, uint64_t run, struct gy_step_bound *bound,
                        const uint64_t *known)
{
    if (order->run != run || bound->is_fenced || bound->before.streams == 0 || order->manager == NULL ||
        order->streams->device_wide || order->closed == gy_taskman_gpu_tasks(order->manager)) {
        return false;
    }
    drop_passed(order, &bound->before);
    bool is_known = bound->before.streams != 0;
    for (uint64_t left = bound->before.streams; left != 0 && is_known; left &= left - 1) {
        uint32_t i = (uint32_t)__builtin_ctzll(left);
        is_known = known[i] >= bound->before.seq[i];
    }
    return is_known;
}

gantry_status gy_step_order_fence_graph(struct gy_streams *streams)
{
    const struct gy_batch_order *batch = &streams->batch;
    struct gy_gpu_order *order = batch->order;
    struct gy_step_bound *bound = order != NULL ? &order->bounds[GY_BOUND_ALL] : NULL;
    if (bound == NULL || batch->is_beside ||
        !wants_fence(order, batch->run, bound, gy_batch_line(streams)->known)) {
        return GANTRY_OK;
    }
    const gantry_status status = gy_stream_record_plain(streams, batch->home, &bound->fence);
    bound->is_fenced = status == GANTRY_OK;
    return status;
}

gantry_status gy_step_order_fence(struct gy_gpu_order *order, uint64_t run, uint32_t stream)
{
    struct gy_step_bound *bound = &order->bounds[GY_BOUND_ALL];
    const struct gy_stream *s = &order->streams->streams[stream];
    if (s->state == GY_STREAM_MEMBER || !wants_fence(order, run, bound, s->line->known)) {
        return GANTRY_OK;
    }
    const gantry_status status = gy_streams_record_into(order->streams, stream, &bound->fence);
    bound->is_fenced = status == GANTRY_OK;
    return status;
}

bool gy_step_order_reaches(const struct gy_gpu_order *order, uint64_t run)
{
    return gy_batch_holds_any(order->streams, &order->bounds[GY_BOUND_ALL].before) ||
           (order->run != run && gy_batch_holds_any(order->streams, &order->during));
}

gantry_status gy_step_order_enter(struct gy_gpu_order *order, uint64_t run, enum gy_step_bound_of which,
                                  uint32_t stream, bool is_all)
{
    assert(gy_step_order_is_valid(order) && gy_stream_is_valid(order->streams, stream));
    struct gy_step_bound *bound = &order->bounds[which];
    if (order->run != run) {
        gy_step_order_begin(order, run, 0);
    }
    if (bound->before.streams == 0) {
        return GANTRY_OK;
    }
    if (bound->is_fenced) {
        return gy_streams_wait_fence(order->streams, stream, &bound->before, &bound->fence);
    }
    /* A member's graph, or its lane, comes after it: it gets no fence. */
    return order->streams->streams[stream].state == GY_STREAM_MEMBER
               ? gy_streams_wait_clock(order->streams, stream, &bound->before)
               : collect(order, bound, stream, is_all);
}

/* ---- checks -------------------------------------------------------------------------------- */

static bool points_are_valid(const struct gy_streams *streams, const struct gy_clock *clock)
{
    for (uint64_t left = clock->streams; left != 0; left &= left - 1) {
        uint32_t i = (uint32_t)__builtin_ctzll(left);
        if (i >= streams->count || clock->seq[i] == 0 || clock->seq[i] > streams->streams[i].tail) {
            return false;
        }
    }
    return true;
}

bool gy_step_order_is_valid(const struct gy_gpu_order *order)
{
    for (int b = 0; b < GY_BOUNDS; b++) {
        const struct gy_step_bound *bound = &order->bounds[b];
        if (!points_are_valid(order->streams, &bound->before) ||
            (bound->is_fenced && (order->run == 0 || bound->fence.native == NULL))) {
            return false;
        }
    }
    return points_are_valid(order->streams, &order->during) &&
           atomic_load_explicit(&order->clear, memory_order_relaxed) <= order->run;
}
