/* Copy queues: growing lists of descriptors.  A long pattern is copied beside its descriptor at once, so
 * that the caller's memory is free again. */
#include "copykernel/queue.h"

#include "base/alloc.h"
#include "base/handle.h"
#include "base/status.h"
#include "copykernel/plan.h"

#include <string.h>

static gantry_status grow(gantry_copy_queue *queue, size_t room)
{
    gantry_copy_desc *descs = gy_zalloc_array(room, sizeof(*descs));
    unsigned char(*patterns)[16] = gy_zalloc_array(room, sizeof(*patterns));
    if (descs == NULL || patterns == NULL) {
        gy_free(descs);
        gy_free(patterns);
        return GY_FAIL(GANTRY_ERR_OUT_OF_HOST_MEMORY, "out of memory for %zu queued copies", room);
    }
    if (queue->count > 0) {
        memcpy(descs, queue->descs, queue->count * sizeof(*descs));
        memcpy(patterns, queue->patterns, queue->count * sizeof(*patterns));
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
    gantry_status status = gy_copy_check(desc, 1);
    if (status == GANTRY_OK && queue->count == queue->room) {
        status = grow(queue, queue->room != 0 ? 2 * queue->room : 64);
    }
    if (status != GANTRY_OK) {
        return status;
    }
    queue->descs[queue->count] = *desc;
    if (desc->type == GANTRY_COPY_FILL && desc->pattern_bytes > sizeof(desc->pattern)) {
        memcpy(queue->patterns[queue->count], desc->source, desc->pattern_bytes);
    }
    queue->count++;
    return GANTRY_OK;
}

const gantry_copy_desc *gy_copy_queue_descs(gantry_copy_queue *queue)
{
    for (size_t i = 0; i < queue->count; i++) {
        if (queue->descs[i].type == GANTRY_COPY_FILL) {
            queue->descs[i].source = queue->patterns[i];
        }
    }
    return queue->descs;
}

void gy_copy_queue_drop(gantry_copy_queue *queue, size_t count)
{
    queue->count -= count;
    if (queue->count > 0) {
        memmove(queue->descs, queue->descs + count, queue->count * sizeof(*queue->descs));
        memmove(queue->patterns, queue->patterns + count, queue->count * sizeof(*queue->patterns));
    }
}

size_t gantry_copy_queue_count(const gantry_copy_queue *queue)
{
    GY_ACCEPT_OR(0, COPY_QUEUE, queue);
    return queue != NULL ? queue->count : 0;
}

void gantry_copy_queue_clear(gantry_copy_queue *queue)
{
    GY_ACCEPT_OR_LEAVE(COPY_QUEUE, queue);
    if (queue != NULL) {
        queue->count = 0;
    }
}
