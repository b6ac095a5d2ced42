/* SPDX-License-Identifier: MIT */
/* Chunks come in sizes of 16 KiB times a power of two.  A chunk in use is in the list of its size, oldest
 * launch first, and is used again once its event says that the GPU has passed the launch.  When the oldest
 * few are all still in use, another chunk is made: the launching thread never waits for the GPU, and memory
 * that the GPU may still read is never written. */
#include "copykernel/ring.h"

#include "base/alloc.h"
#include <assert.h>

enum {
    SMALLEST_CHUNK = 16 * 1024,
    LOOK_AT = 4, /* launches of other streams may finish out of order: this many are asked, not all */
};

bool gy_copy_ring_class_is_valid(const struct gy_copy_ring *ring, unsigned size_class)
{
    const struct gy_copy_chunk *idle = ring->free[size_class];
    const struct gy_copy_chunks *busy = &ring->busy[size_class];
    return (idle == NULL || idle->size_class == size_class) &&
           (busy->first == NULL) == (busy->last == NULL) &&
           (busy->last == NULL || (busy->last->next == NULL && busy->last->size_class == size_class)) &&
           ring->counters_given <= GY_COPY_RING_COUNTERS;
}

gantry_status gy_copy_ring_init(struct gy_copy_ring *ring, struct gy_context *context, gantry_heap *heap,
                                gantry_memory_kind kind, size_t counter_bytes)
{
    const size_t bytes = GY_COPY_RING_COUNTERS * counter_bytes;
    *ring =
        (struct gy_copy_ring){.context = context, .heap = heap, .kind = kind, .counter_bytes = counter_bytes};
    void *zeros = gy_zalloc(bytes), *counters;
    if (zeros == NULL) {
        return GY_FAIL(GANTRY_ERR_OUT_OF_HOST_MEMORY, "out of memory for the counters of batched copies");
    }
    gantry_status status =
        gy_heap_alloc_own(heap, GANTRY_MEMORY_DEVICE, bytes, GANTRY_ALLOC_SITE("copy counters"), &counters);
    if (status != GANTRY_OK) {
        goto free_zeros;
    }
    ring->counters = (CUdeviceptr)(uintptr_t)counters;
    status = gy_context_copy_in(context, ring->counters, zeros, bytes);
    if (status != GANTRY_OK) {
        gy_heap_free_own(heap, GANTRY_MEMORY_DEVICE, bytes, counters);
    }
free_zeros:
    gy_free(zeros);
    return status;
}

static void destroy_chunk(struct gy_copy_ring *ring, struct gy_copy_chunk *chunk)
{
    if (chunk->event != NULL) {
        (void)GY_CALL(ring->context, cuEventDestroy(chunk->event));
    }
    gy_heap_free_own(ring->heap, ring->kind, (size_t)SMALLEST_CHUNK << chunk->size_class, chunk->host);
    gy_free(chunk);
}

static void destroy_chunks(struct gy_copy_ring *ring, struct gy_copy_chunk *first)
{
    while (first != NULL) {
        struct gy_copy_chunk *next = first->next;
        destroy_chunk(ring, first);
        first = next;
    }
}

void gy_copy_ring_fini(struct gy_copy_ring *ring)
{
    for (unsigned i = 0; i < GY_COPY_RING_CLASSES; i++) {
        destroy_chunks(ring, ring->free[i]);
        destroy_chunks(ring, ring->busy[i].first);
    }
    destroy_chunks(ring, ring->stuck);
    destroy_chunks(ring, ring->captured);
    gy_heap_free_own(ring->heap, GANTRY_MEMORY_DEVICE, GY_COPY_RING_COUNTERS * ring->counter_bytes,
                     (void *)(uintptr_t)ring->counters);
}

static gantry_status new_chunk(struct gy_copy_ring *ring, unsigned size_class, struct gy_copy_chunk **out)
{
    struct gy_copy_chunk *chunk = gy_zalloc(sizeof(*chunk));
    if (chunk == NULL) {
        return GY_FAIL(GANTRY_ERR_OUT_OF_HOST_MEMORY, "out of memory for a batch of copies");
    }
    void *host = NULL, *device = NULL;
    gantry_status status = gy_heap_alloc_own(ring->heap, ring->kind, (size_t)SMALLEST_CHUNK << size_class,
                                             GANTRY_ALLOC_SITE("copy descriptors"), &host);
    if (status != GANTRY_OK) {
        goto free_chunk;
    }
    chunk->ring = ring;
    chunk->size_class = size_class;
    chunk->host = host;
    status = ring->kind != GANTRY_MEMORY_DEVICE ? gantry_heap_device_address(ring->heap, host, &device)
                                                : GANTRY_OK;
    if (status != GANTRY_OK) {
        goto destroy;
    }
    chunk->device = (CUdeviceptr)(uintptr_t)(device != NULL ? device : host);
    status = GY_CALL(ring->context, cuEventCreate(&chunk->event, CU_EVENT_DISABLE_TIMING));
    if (status != GANTRY_OK) {
        chunk->event = NULL;
        goto destroy;
    }
    if (ring->counters_given < GY_COPY_RING_COUNTERS) {
        chunk->counters = ring->counters + ring->counters_given++ * ring->counter_bytes;
    }
    *out = chunk;
    return GANTRY_OK;
destroy:
    destroy_chunk(ring, chunk);
    return status;
free_chunk:
    gy_free(chunk);
    return status;
}

/* Take one of the oldest chunks that the GPU has passed out of `queue`; *out is NULL when there is none. */
static gantry_status take_passed(struct gy_copy_ring *ring, struct gy_copy_chunks *queue,
                                 struct gy_copy_chunk **out)
{
    *out = NULL;
    struct gy_copy_chunk *before = NULL, *chunk = queue->first;
    for (int i = 0; i < LOOK_AT && chunk != NULL; i++, before = chunk, chunk = chunk->next) {
        CUresult result = ring->context->driver->cuEventQuery(chunk->event);
        if (result == CUDA_ERROR_NOT_READY) {
            continue;
        }
        gantry_status status =
            gy_context_check(ring->context, result, "cuEventQuery(chunk)", __FILE__, __LINE__);
        if (status != GANTRY_OK) {
            return status;
        }
        if (before == NULL) {
            queue->first = chunk->next;
        } else {
            before->next = chunk->next;
        }
        if (queue->last == chunk) {
            queue->last = before;
        }
        assert(gy_copy_ring_class_is_valid(ring, chunk->size_class));
        *out = chunk;
        return GANTRY_OK;
    }
    return GANTRY_OK;
}

gantry_status gy_copy_ring_take(struct gy_copy_ring *ring, size_t bytes, struct gy_copy_chunk **out)
{
    unsigned size_class = 0;
    while (size_class < GY_COPY_RING_CLASSES && (size_t)SMALLEST_CHUNK << size_class < bytes) {
        size_class++;
    }
    if (size_class == GY_COPY_RING_CLASSES) {
        return GY_FAIL(GANTRY_ERR_OUT_OF_DEVICE_MEMORY, "a batch of copies needs %zu bytes", bytes);
    }
    struct gy_copy_chunk *chunk = ring->free[size_class];
    if (chunk != NULL) {
        assert(gy_copy_ring_class_is_valid(ring, size_class));
        ring->free[size_class] = chunk->next;
        *out = chunk;
        return GANTRY_OK;
    }
    gantry_status status = take_passed(ring, &ring->busy[size_class], &chunk);
    if (status == GANTRY_OK && chunk == NULL) {
        status = new_chunk(ring, size_class, &chunk);
    }
    if (status != GANTRY_OK) {
        return status;
    }
    assert(chunk->size_class == size_class && chunk->event != NULL);
    *out = chunk;
    return GANTRY_OK;
}

gantry_status gy_copy_ring_relaunched(struct gy_copy_chunk *chunk, CUstream stream)
{
    gantry_status status = GY_CALL(chunk->ring->context, cuEventRecord(chunk->event, stream));
    chunk->is_stuck = status != GANTRY_OK;
    return status;
}

void gy_copy_ring_returned(struct gy_copy_chunk *chunk)
{
    struct gy_copy_ring *ring = chunk->ring;
    if (chunk->is_stuck) {
        chunk->next = ring->stuck;
        ring->stuck = chunk;
        return;
    }
    struct gy_copy_chunks *queue = &ring->busy[chunk->size_class];
    chunk->next = NULL;
    if (queue->first == NULL) {
        queue->first = chunk;
    } else {
        queue->last->next = chunk;
    }
    queue->last = chunk;
    assert(gy_copy_ring_class_is_valid(ring, chunk->size_class));
}

gantry_status gy_copy_ring_launched(struct gy_copy_ring *ring, struct gy_copy_chunk *chunk, CUstream stream)
{
    assert(chunk->ring == ring);
    (void)ring;
    gantry_status status = gy_copy_ring_relaunched(chunk, stream);
    gy_copy_ring_returned(chunk);
    return status;
}

void gy_copy_ring_give_back(struct gy_copy_ring *ring, struct gy_copy_chunk *chunk)
{
    chunk->next = ring->free[chunk->size_class];
    ring->free[chunk->size_class] = chunk;
    assert(gy_copy_ring_class_is_valid(ring, chunk->size_class));
}

void gy_copy_ring_captured(struct gy_copy_ring *ring, struct gy_copy_chunk *chunk)
{
    chunk->next = ring->captured;
    ring->captured = chunk;
}

gantry_status gy_copy_ring_graph_launched(struct gy_copy_ring *ring, CUstream stream)
{
    gantry_status first = GANTRY_OK;
    while (ring->captured != NULL) {
        struct gy_copy_chunk *chunk = ring->captured;
        ring->captured = chunk->next;
        gantry_status status = gy_copy_ring_launched(ring, chunk, stream);
        first = first == GANTRY_OK ? status : first;
    }
    return first;
}

gantry_status gy_copy_ring_graph_kept(struct gy_copy_ring *ring, CUstream stream, struct gy_copy_chunk **kept)
{
    gantry_status first = GANTRY_OK;
    while (ring->captured != NULL) {
        struct gy_copy_chunk *chunk = ring->captured;
        ring->captured = chunk->next;
        gantry_status status = gy_copy_ring_relaunched(chunk, stream);
        first = first == GANTRY_OK ? status : first;
        chunk->next = *kept;
        *kept = chunk;
    }
    return first;
}

void gy_copy_ring_graph_dropped(struct gy_copy_ring *ring)
{
    while (ring->captured != NULL) {
        struct gy_copy_chunk *chunk = ring->captured;
        ring->captured = chunk->next;
        gy_copy_ring_give_back(ring, chunk);
    }
}
