/* SPDX-License-Identifier: MIT */
#include "dispatcher/order/export.h"

#include "base/alloc.h"
#include "base/span.h"
#include "dispatcher/order/placed.h"

#include <assert.h>

static struct gy_export *take(struct gy_export_pool *pool)
{
    if (pool->spare == NULL) {
        pool->spare = atomic_exchange_explicit(&pool->unused, NULL, memory_order_acquire);
    }
    struct gy_export *export = pool->spare;
    if (export != NULL) {
        pool->spare = export->next_unused;
    } else {
        export = gy_zalloc(sizeof(*export)); /* as many as are waited for at a time: soon there are enough */
        if (export == NULL) {
            return NULL;
        }
        export->pool = pool;
        export->next = pool->all;
        pool->all = export;
    }
    atomic_store_explicit(&export->refs, 1, memory_order_relaxed);
    return export;
}

/* An arrow that no other export and no task has: those of tasks are odd numbers. */
static uint64_t new_flow(void)
{
    static atomic_uint_fast64_t flows;
    return (atomic_fetch_add_explicit(&flows, 1, memory_order_relaxed) + 1) * 2;
}

/* The span leads from the tasks that were the latest on the streams of `clock` to whoever waits. */
static GY_COLD void end_span(struct gy_export *export, const struct gy_streams *streams,
                             const struct gy_clock *clock, uint64_t begin)
{
    export->flow = new_flow();
    for (uint64_t left = clock->streams; left != 0; left &= left - 1) {
        gy_span_add_flow(streams->streams[__builtin_ctzll(left)].trace.flow);
    }
    gy_span_add_flow(export->flow);
    gy_span_end(GY_SPAN_ACROSS, "event for other GPUs", begin, export->stream);
}

/* An event behind all that is on `stream`, for what `clock` says. */
static gantry_status record(struct gy_export_pool *pool, struct gy_streams *streams, uint32_t stream,
                            const struct gy_clock *clock, struct gy_export **out)
{
    const uint64_t begin = gy_span_begin();
    struct gy_export *export = take(pool);
    if (export == NULL) {
        return GY_FAIL(GANTRY_ERR_OUT_OF_HOST_MEMORY, "no memory for an event between two devices");
    }
    gantry_status status = gy_streams_record_into(streams, stream, &export->event);
    if (status != GANTRY_OK) {
        gy_export_unref(export);
        return status;
    }
    export->stream = stream;
    export->ordinal = streams->context->info.ordinal;
    export->flow = 0;
    if (begin != 0) {
        end_span(export, streams, clock, begin);
    }
    gy_export_unref(pool->latest[stream]);
    pool->latest[stream] = gy_export_ref(export);
    *out = export;
    return GANTRY_OK;
}

static bool has_passed(const struct gy_streams *streams, const struct gy_clock *clock)
{
    for (uint64_t left = clock->streams; left != 0; left &= left - 1) {
        uint32_t i = (uint32_t)__builtin_ctzll(left);
        if (atomic_load_explicit(&streams->streams[i].completed, memory_order_acquire) < clock->seq[i]) {
            return false;
        }
    }
    return true;
}

gantry_status gy_export_make(struct gy_export_pool *pool, struct gy_streams *streams, uint64_t wait_set,
                             uint32_t partition, struct gy_export **out)
{
    assert(!gy_batch_is_open(&streams->batch));
    struct gy_clock room;
    const struct gy_clock *clock = gy_wait_set_read(wait_set, &room);
    *out = NULL;
    if (has_passed(streams, clock)) {
        gy_streams_leave(streams, clock);
        return GANTRY_OK;
    }
    if ((clock->streams & (clock->streams - 1)) != 0) {
        uint32_t stream;
        uint64_t point;
        gantry_status status = gy_placed_join(streams, wait_set, partition, 0, 0, &stream, &point);
        return status == GANTRY_OK ? record(pool, streams, stream, clock, out) : status;
    }
    gy_streams_leave(streams, clock);
    uint32_t stream = (uint32_t)__builtin_ctzll(clock->streams);
    struct gy_export *latest = pool->latest[stream];
    if (latest != NULL && latest->event.known[stream] >= clock->seq[stream]) {
        *out = gy_export_ref(latest);
        return GANTRY_OK;
    }
    return record(pool, streams, stream, clock, out);
}

void gy_exports_fini(struct gy_export_pool *pool, const struct gy_driver *driver)
{
    for (struct gy_export *export = pool->all, *next; export != NULL; export = next) {
        next = export->next;
        if (export->event.native != NULL) {
            /* On a lost context this fails, as everything does, and no caller could act on it. */
            (void)driver->cuEventDestroy(export->event.native);
        }
        gy_free(export);
    }
    pool->all = NULL;
}
