/* SPDX-License-Identifier: MIT */
/* Copy queues: growing lists of descriptors.  A long pattern is copied beside its descriptor at once, so
 * that the caller's memory is free again.
 *
 * A launch call may be made once more, when what it has enqueued was taken back.  So what a queue held when
 * such a call first used it stays where it is until the queue is used after the call. */
#include "copykernel/queue.h"

#include "base/alloc.h"
#include "base/handle.h"
#include "base/status.h"
#include "copykernel/plan.h"

#include <assert.h>
#include <stdatomic.h>
#include <string.h>

static _Atomic(uint64_t) calls; /* atomic; that have used a queue and may be made once more */

bool gy_copy_queue_is_valid(const gantry_copy_queue *queue)
{
    return queue->begin <= queue->end && queue->before <= queue->end && queue->end <= queue->room &&
           (queue->call != 0 || (queue->before == 0 && queue->begin == 0));
}

/* ---- calls ----------------------------------------------------------------------------------- */

/* The call that the thread makes, as the queues number it. */
static uint64_t this_call(void)
{
    if (gy_copy_call.stage == GY_COPY_CALL_NONE) {
        return 0;
    }
    if (gy_copy_call.number == 0) {
        gy_copy_call.number = 2 * (atomic_fetch_add_explicit(&calls, 1, memory_order_relaxed) + 1);
    }
    return gy_copy_call.number + (gy_copy_call.stage == GY_COPY_CALL_AGAIN);
}

/* Is the thread in the second of two calls, of which the first has used the queue last? */
static bool is_to_go_back(const gantry_copy_queue *queue)
{
    return gy_copy_call.stage == GY_COPY_CALL_AGAIN && gy_copy_call.number != 0 &&
           queue->call == gy_copy_call.number;
}

/* Descriptors that were taken away and are not kept make room. */
static void close_gap(gantry_copy_queue *queue)
{
    size_t count = queue->end - queue->begin;
    if (queue->begin <= queue->before) {
        return;
    }
    if (count > 0) {
        memmove(queue->descs + queue->before, queue->descs + queue->begin, count * sizeof(*queue->descs));
        memmove(queue->patterns + queue->before, queue->patterns + queue->begin,
                count * sizeof(*queue->patterns));
    }
    queue->begin = queue->before;
    queue->end = queue->before + count;
}

/* The queue is used: notice whether that is in another call than before. */
static void enter_call(gantry_copy_queue *queue)
{
    uint64_t call = this_call();
    if (__builtin_expect(queue->call == call, 1)) {
        return;
    }
    if (is_to_go_back(queue)) {
        queue->begin = 0;
        queue->end = queue->before;
    }
    queue->before = 0;
    close_gap(queue);
    queue->call = call;
    queue->before = call != 0 ? queue->end : 0;
    assert(gy_copy_queue_is_valid(queue));
}

/* ---- the list --------------------------------------------------------------------------------- */

static gantry_status grow(gantry_copy_queue *queue, size_t room)
{
    gantry_copy_desc *descs = gy_zalloc_array(room, sizeof(*descs));
    unsigned char(*patterns)[16] = gy_zalloc_array(room, sizeof(*patterns));
    if (descs == NULL || patterns == NULL) {
        gy_free(descs);
        gy_free(patterns);
        return GY_FAIL(GANTRY_ERR_OUT_OF_HOST_MEMORY, "out of memory for %zu queued copies", room);
    }
    if (queue->end > 0) {
        memcpy(descs, queue->descs, queue->end * sizeof(*descs));
        memcpy(patterns, queue->patterns, queue->end * sizeof(*patterns));
    }
    gy_free(queue->descs);
    gy_free(queue->patterns);
    queue->descs = descs;
    queue->patterns = patterns;
    queue->room = room;
    return GANTRY_OK;
}

gantry_status gantry_copy_queue_create(size_t reserve, gantry_copy_queue **out)
{
    if (out == NULL) {
        return GY_FAIL(GANTRY_ERR_INVALID_ARGUMENT, "gantry_copy_queue_create: out is NULL");
    }
    gantry_copy_queue *queue = gy_zalloc(sizeof(*queue));
    if (queue == NULL) {
        return GY_FAIL(GANTRY_ERR_OUT_OF_HOST_MEMORY, "out of memory for a copy queue");
    }
    gantry_status status = reserve > 0 ? grow(queue, reserve) : GANTRY_OK;
    if (status != GANTRY_OK) {
        gy_free(queue);
        return status;
    }
    gy_handle_born(GY_HANDLE_COPY_QUEUE, queue, sizeof(*queue), sizeof(*queue));
    *out = queue;
    return GANTRY_OK;
}

void gantry_copy_queue_destroy(gantry_copy_queue *queue)
{
    GY_ACCEPT_OR_LEAVE(COPY_QUEUE, queue);
    if (queue == NULL) {
        return;
    }
    gy_free(queue->descs);
    gy_free(queue->patterns);
    gy_handle_free(queue, queue);
}

gantry_status gantry_copy_queue_enqueue(gantry_copy_queue *queue, const gantry_copy_desc *desc)
{
    GY_ACCEPT(COPY_QUEUE, queue);
    if (queue == NULL || desc == NULL) {
        return GY_FAIL(GANTRY_ERR_INVALID_ARGUMENT, "gantry_copy_queue_enqueue: %s is NULL",
                       queue == NULL ? "queue" : "desc");
    }
    enter_call(queue);
    gantry_status status = gy_copy_check(desc, 1);
    if (status == GANTRY_OK && queue->end == queue->room) {
        status = grow(queue, queue->room != 0 ? 2 * queue->room : 64);
    }
    if (status != GANTRY_OK) {
        return status;
    }
    queue->descs[queue->end] = *desc;
    if (desc->type == GANTRY_COPY_FILL && desc->pattern_bytes > sizeof(desc->pattern)) {
        memcpy(queue->patterns[queue->end], desc->source, desc->pattern_bytes);
    }
    queue->end++;
    assert(gy_copy_queue_is_valid(queue));
    return GANTRY_OK;
}

const gantry_copy_desc *gy_copy_queue_descs(gantry_copy_queue *queue)
{
    enter_call(queue);
    for (size_t i = queue->begin; i < queue->end; i++) {
        if (queue->descs[i].type == GANTRY_COPY_FILL) {
            queue->descs[i].source = queue->patterns[i];
        }
    }
    return queue->descs != NULL ? queue->descs + queue->begin : NULL;
}

void gy_copy_queue_drop(gantry_copy_queue *queue, size_t count)
{
    assert(count <= queue->end - queue->begin);
    queue->begin += count;
    close_gap(queue);
    assert(gy_copy_queue_is_valid(queue));
}

size_t gantry_copy_queue_count(const gantry_copy_queue *queue)
{
    GY_ACCEPT_OR(0, COPY_QUEUE, queue);
    if (queue == NULL) {
        return 0;
    }
    return is_to_go_back(queue) ? queue->before : queue->end - queue->begin;
}

void gantry_copy_queue_clear(gantry_copy_queue *queue)
{
    GY_ACCEPT_OR_LEAVE(COPY_QUEUE, queue);
    if (queue != NULL) {
        enter_call(queue);
        gy_copy_queue_drop(queue, queue->end - queue->begin);
    }
}
