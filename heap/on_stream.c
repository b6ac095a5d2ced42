/* SPDX-License-Identifier: MIT */
/* The heap's functions for blocks that are used on streams. */
#include "base/handle.h"
#include "heap/internal.h"

#define LEAST_ALIGNMENT GY_UNIT_BYTES

/* A forked child has no driver, none of the heap's threads, and perhaps locks that nobody will give back: it
 * must look at nothing. */
static bool is_child(const gantry_heap *heap)
{
    return heap->forks != gy_thread_forks();
}

static gantry_status fail_child(const char *call)
{
    return GY_FAIL(GANTRY_ERR_STATE, "%s: this process was forked from the one with the heap", call);
}

gantry_status gantry_heap_alloc_on(gantry_heap *heap, gantry_memory_kind kind, size_t bytes, size_t alignment,
                                   void *stream, gantry_alloc_site site, void **out)
{
    static const char call[] = "gantry_heap_alloc_on";
    GY_ACCEPT(HEAP, heap);
    gantry_status status = gy_heap_check_request(heap, call, kind, bytes, alignment, out);
    if (status != GANTRY_OK) {
        return status;
    }
    if (is_child(heap)) {
        return fail_child(call);
    }
    struct gy_heap_stream_name name;
    status = gy_heap_stream_name(heap->context, stream, call, &name);
    if (status != GANTRY_OK) {
        return status;
    }
    struct gy_heap_request request = {kind, bytes, alignment > LEAST_ALIGNMENT ? alignment : LEAST_ALIGNMENT,
                                      0, &name};
    uintptr_t address;
    if (!gy_sites_number(&heap->sites, &site, &request.site)) {
        return GY_FAIL(GANTRY_ERR_OUT_OF_HOST_MEMORY, "heap: no memory for its bookkeeping");
    }
    status = gy_heap_alloc_block(heap, &request, &address);
    if (status == GANTRY_OK) {
        *out = (void *)address;
    }
    return status;
}

/* Look up the region that `pointer` lies in, and the stream's name. */
static gantry_status look_up(gantry_heap *heap, const char *call, void *pointer, void *stream,
                             struct gy_heap_region **region, struct gy_heap_stream_name *name)
{
    *region = gy_granules_find(&heap->map, (uintptr_t)pointer);
    if (*region == NULL) {
        return gy_heap_fail_not_found(heap, call, pointer);
    }
    return gy_heap_stream_name(heap->context, stream, call, name);
}

static gantry_status tell(gantry_heap *heap, const char *call, const void *pointer, gantry_status status)
{
    switch (status) {
    case GANTRY_ERR_NOT_FOUND:
        return gy_heap_fail_not_found(heap, call, pointer);
    case GANTRY_ERR_OUT_OF_HOST_MEMORY:
        return GY_FAIL(status, "heap: no memory for its bookkeeping");
    default:
        return status;
    }
}

gantry_status gantry_heap_free_on(gantry_heap *heap, void *pointer, void *stream)
{
    static const char call[] = "gantry_heap_free_on";
    GY_ACCEPT(HEAP, heap);
    if (heap == NULL) {
        return GY_FAIL(GANTRY_ERR_INVALID_ARGUMENT, "%s: heap is NULL", call);
    }
    if (pointer == NULL || is_child(heap)) {
        return GANTRY_OK;
    }
    if (gy_context_is_lost(heap->context)) { /* nothing runs any more, and no stream can be asked */
        return gantry_heap_free(heap, pointer);
    }
    struct gy_heap_region *region;
    struct gy_heap_stream_name name;
    gantry_status status = look_up(heap, call, pointer, stream, &region, &name);
    if (status != GANTRY_OK) {
        return status;
    }
    struct gy_kind *kind = &heap->kinds[region->kind];
    status = gy_heap_streams_free(&kind->streams, &name, region, (uintptr_t)pointer, heap->check != NULL);
    return tell(heap, call, pointer, status);
}

gantry_status gantry_heap_record_stream(gantry_heap *heap, void *pointer, void *stream)
{
    static const char call[] = "gantry_heap_record_stream";
    GY_ACCEPT(HEAP, heap);
    if (heap == NULL || pointer == NULL) {
        return GY_FAIL(GANTRY_ERR_INVALID_ARGUMENT, "%s: %s is NULL", call,
                       heap == NULL ? "heap" : "pointer");
    }
    if (is_child(heap)) {
        return fail_child(call);
    }
    struct gy_heap_region *region;
    struct gy_heap_stream_name name;
    gantry_status status = look_up(heap, call, pointer, stream, &region, &name);
    if (status != GANTRY_OK) {
        return status;
    }
    struct gy_kind *kind = &heap->kinds[region->kind];
    status = gy_heap_streams_record(&kind->streams, &name, region, (uintptr_t)pointer);
    return tell(heap, call, pointer, status);
}

gantry_status gantry_heap_end_capture(gantry_heap *heap, uint64_t capture, bool graph_is_gone)
{
    GY_NEED(HEAP, heap);
    for (int i = 0; i < GANTRY_MEMORY_KIND_COUNT && !is_child(heap); i++) {
        gy_heap_streams_end_capture(&heap->kinds[i].streams, capture, graph_is_gone);
    }
    return GANTRY_OK;
}

gantry_status gantry_heap_settle(gantry_heap *heap)
{
    static const char call[] = "gantry_heap_settle";
    GY_NEED(HEAP, heap);
    if (is_child(heap)) {
        return fail_child(call);
    }
    gantry_status status = GANTRY_OK;
    for (int i = 0; i < GANTRY_MEMORY_KIND_COUNT && status == GANTRY_OK; i++) {
        status = gy_heap_streams_settle(&heap->kinds[i].streams);
    }
    return status == GANTRY_ERR_STATE ? GY_FAIL(status, "%s: something is captured", call) : status;
}
