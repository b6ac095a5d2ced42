/* SPDX-License-Identifier: MIT */
/* Blocks that are allocated and freed on streams. */
#include "heap/streams.h"

#include "base/alloc.h"
#include "base/point.h"
#include "base/status.h"
#include "heap/growth.h"
#include "heap/kind.h"
#include "heap/pages_inside.h"
#include "heap/streams_inside.h"
#include "heap/visit.h"

#include <assert.h>
#include <string.h>

/* ---- blocks -------------------------------------------------------------------------------- */

static bool adopt(struct gy_heap_streams *streams, const struct gy_heap_stream_name *name) GY_NO_ANALYSIS
{
    struct gy_heap_stream *stream = gy_heap_stream_lock(streams, name, false);
    if (stream == NULL) {
        return false;
    }
    size_t bytes = gy_waiting_adopt(&streams->kind->pages, &stream->waiter);
    gy_mutex_unlock(gy_heap_streams_guard(streams));
    return bytes != 0;
}

/* The least bytes that a lap may keep, and as many that may leave it; and their shares of the kind's memory
 * where these are more.  They are never more than these shares of all that the kind may have, and laps
 * are off once it has all: what is in them has no event for which others could wait. */
#define LAP_BYTES ((size_t)8 << 20)
#define SHARE_PER_LAP 512u
#define SHARE_THAT_LEAVES 128u

static size_t lap_bytes(struct gy_kind *kind, unsigned share)
{
    const size_t usual = gy_kind_total(kind) / share, most = gy_kind_capacity(kind) / share;
    const size_t bytes = usual > LAP_BYTES ? usual : LAP_BYTES;
    return bytes < most ? bytes : most;
}

static struct gy_lap_room lap_room(struct gy_heap_streams *streams)
{
    struct gy_kind *kind = streams->kind;
    if (gy_kind_is_full(kind)) {
        return (struct gy_lap_room){0, 0};
    }
    return (struct gy_lap_room){.kept = lap_bytes(kind, SHARE_PER_LAP) >> GY_PAGE_SHIFT,
                                .leaving = lap_bytes(kind, SHARE_THAT_LEAVES) >> GY_PAGE_SHIFT};
}

/* Let what leaves the thread's lap wait for its stream.  The lock is held. */
static void keep_leaving(struct gy_heap_streams *streams, struct gy_heap_stream *stream)
{
    struct gy_range *range =
        stream->capture == 0 ? gy_park_lap_leave(&streams->kind->park, stream->id) : NULL;
    while (range != NULL) {
        struct gy_range *next = range->next;
        gy_heap_stream_keep(streams, stream, range, streams->order);
        range = next;
    }
}

struct gy_heap_stream *gy_heap_streams_home(void *user, struct gy_heap_stream *old, struct gy_range *first,
                                            uint64_t id) GY_NO_ANALYSIS
{
    struct gy_heap_streams *streams = user;
    gy_mutex_lock(gy_heap_streams_guard(streams));
    while (first != NULL) {
        struct gy_range *next = first->next;
        gy_heap_stream_keep(streams, old, first, streams->order);
        first = next;
    }
    struct gy_heap_stream *now = old;
    if (old == NULL || old->id != id) {
        now = streams->first;
        while (now != NULL && (now->id != id || now->capture != 0)) {
            now = now->next;
        }
        if (old != NULL) {
            assert(old->laps != 0);
            old->laps--;
        }
        if (now != NULL) {
            now->laps++;
        }
    }
    gy_mutex_unlock(gy_heap_streams_guard(streams));
    return now;
}

/* Make room out of what there is; `tries` counts the calls for one block.  OK: try again. */
static gantry_status find_room(struct gy_heap_streams *streams, const struct gy_heap_stream_name *name,
                               uint64_t seen, size_t bytes, unsigned tries)
{
    struct gy_kind *kind = streams->kind;
    gy_point(GY_POINT_HEAP_ROOM, kind);
    if (tries < GY_KIND_MOST_LOOKS &&
        (gy_heap_streams_poll(streams) || gy_park_flush(&kind->park) || adopt(streams, name))) {
        return GANTRY_OK;
    }
    gy_heap_streams_want(streams, name);
    return gy_kind_grow(kind, seen, GY_GROW_SLAB, bytes);
}

gantry_status gy_heap_streams_alloc(struct gy_heap_streams *streams, const struct gy_heap_stream_name *name,
                                    size_t bytes, size_t alignment, uint32_t site,
                                    uintptr_t *out) GY_NO_ANALYSIS
{
    struct gy_kind *kind = streams->kind;
    if (__builtin_expect(!gy_usage_make_site(&kind->usage, site), 0)) {
        return GANTRY_ERR_OUT_OF_HOST_MEMORY;
    }
    if (name->capture == 0 && gy_park_lap_take(&kind->park, name->id, bytes, alignment, site, out)) {
        return GANTRY_OK;
    }
    for (unsigned tries = 0;; tries++) {
        uint64_t seen = atomic_load_explicit(&kind->generation, memory_order_acquire);
        struct gy_heap_stream *stream = gy_heap_stream_lock(streams, name, true);
        if (stream == NULL) {
            return GANTRY_ERR_OUT_OF_HOST_MEMORY;
        }
        keep_leaving(streams, stream);
        struct gy_range *range = gy_waiting_alloc(&kind->pages, &stream->waiter, bytes, alignment, site);
        struct gy_heap_marking marking = gy_heap_stream_begin_mark(streams, stream, name, false);
        if (range != NULL) {
            *out = range->base;
        }
        gy_mutex_unlock(gy_heap_streams_guard(streams));
        gy_heap_stream_finish_mark(streams, &marking, name->handle);
        if (range != NULL) {
            gy_park_note(&kind->park, site, (int64_t)bytes, 1);
            if (tries != 0) {
                gy_kind_tell_growth(kind);
            }
            return GANTRY_OK;
        }
        gantry_status status = find_room(streams, name, seen, bytes, tries);
        if (status != GANTRY_OK) {
            return status;
        }
    }
}

/* Take out the entries that were recorded for the block.  The lock is held. */
static struct gy_late *take_shares(struct gy_heap_streams *streams, uintptr_t address)
{
    struct gy_late *taken = NULL;
    struct gy_late **link = &streams->shares[(address >> GY_PAGE_SHIFT) % GY_SHARE_BUCKETS];
    while (*link != NULL) {
        struct gy_late *one = *link;
        if (one->address == address) {
            *link = one->next;
            one->next = taken;
            taken = one;
            atomic_fetch_sub_explicit(&streams->share_count, 1, memory_order_relaxed);
        } else {
            link = &one->next;
        }
    }
    return taken;
}

void gy_heap_streams_forget(struct gy_heap_streams *streams, uintptr_t address)
{
    if (atomic_load_explicit(&streams->share_count, memory_order_relaxed) != 0) {
        gy_mutex_lock(gy_heap_streams_guard(streams));
        struct gy_late *shares = take_shares(streams, address);
        gy_mutex_unlock(gy_heap_streams_guard(streams));
        gy_late_free(shares);
    }
}

/* Make the live block the caller's.  The lock is held. */
static bool claim(struct gy_heap_streams *streams, struct gy_heap_region *region, uintptr_t address,
                  struct gy_claim *out)
{
    *out = (struct gy_claim){.address = address};
    if (region->is_chunk) {
        out->record = gy_chunk_take((struct gy_chunk *)(void *)region, address);
        return out->record != 0;
    }
    struct gy_slab *slab = region->slab;
    bool is_ours = gy_granules_find(streams->kind->setup.map, address) == region && slab->first != NULL;
    out->range = is_ours ? gy_pages_claim(slab, GY_RANGE_BLOCK, address) : NULL;
    return out->range != NULL;
}

/* Record an event for each entry; `graph` gets the stream of them that is under capture.  The lock is not
 * held. */
static void record_all(struct gy_heap_streams *streams, struct gy_late *first,
                       struct gy_heap_stream_name *graph)
{
    for (struct gy_late *one = first; one != NULL; one = one->next) {
        struct gy_heap_stream_name name;
        one->event = NULL;
        if (gy_heap_stream_name(gy_heap_streams_context(streams), one->handle, "gantry_heap_free_on",
                                &name) != GANTRY_OK) {
            continue;
        }
        if (name.capture != 0) {
            *graph = name;
        } else if (name.may_mark) {
            gy_mutex_lock(gy_heap_streams_guard(streams));
            one->event = gy_heap_streams_pop_event(streams);
            gy_mutex_unlock(gy_heap_streams_guard(streams));
            if (!gy_heap_streams_record_event(gy_heap_streams_context(streams), one->handle, &one->event)) {
                gy_mutex_lock(gy_heap_streams_guard(streams));
                gy_heap_streams_give_event(streams, one->event);
                gy_mutex_unlock(gy_heap_streams_guard(streams));
                one->event = NULL;
            }
        }
    }
}

/* Keep a claimed block in a graph; it stays for good when there is no memory to note it. */
static void keep_in_graph(struct gy_heap_streams *streams, const struct gy_heap_stream_name *name,
                          struct gy_late *late) GY_NO_ANALYSIS
{
    struct gy_range *range = late->claim.range;
    struct gy_heap_stream *graph = gy_heap_stream_lock(streams, name, false);
    if (graph != NULL && range != NULL) {
        gy_heap_stream_keep(streams, graph, range, 0);
    } else if (graph != NULL) {
        late->later = graph->kept;
        graph->kept = late;
        late = NULL;
    }
    if (graph != NULL) {
        gy_mutex_unlock(gy_heap_streams_guard(streams));
    }
    gy_late_free(late);
}

/* Free a claimed block for which streams are recorded, of which `late` is the first.  It goes to late->stream
 * if that is set; else it is freed like any other. */
static void free_late(struct gy_heap_streams *streams, const struct gy_heap_stream_name *name,
                      struct gy_late *late)
{
    struct gy_heap_stream_name graph = *name;
    record_all(streams, late, &graph);
    if (graph.capture == 0) {
        gy_heap_streams_attach_late(streams, late);
        return;
    }
    struct gy_range *range = late->claim.range;
    if (late->stream != NULL) {
        gy_mutex_lock(gy_heap_streams_guard(streams));
        assert(late->stream->lates != 0 && gy_heap_stream_is_valid(late->stream));
        late->stream->lates--;
        gy_mutex_unlock(gy_heap_streams_guard(streams));
    } else if (range != NULL) { /* it does not count as freed yet */
        gy_park_note(&streams->kind->park, gy_range_site(range), -(int64_t)gy_range_requested(range), -1);
    }
    keep_in_graph(streams, &graph, late);
}

static struct gy_late *make_late(const struct gy_heap_stream_name *name, uintptr_t address)
{
    struct gy_late *late = gy_zalloc(sizeof(*late));
    if (late != NULL) {
        *late = (struct gy_late){.address = address, .id = name->id, .handle = name->handle};
    }
    return late;
}

/* Free a block of the small tier, or any block with checks: it waits for an event of its own, and is then
 * freed like any other. */
static gantry_status free_aside(struct gy_heap_streams *streams, const struct gy_heap_stream_name *name,
                                struct gy_heap_region *region, uintptr_t address)
{
    struct gy_late *late = make_late(name, address);
    if (late == NULL) {
        return GANTRY_ERR_OUT_OF_HOST_MEMORY;
    }
    struct gy_claim claimed;
    gy_mutex_lock(gy_heap_streams_guard(streams));
    bool is_live = claim(streams, region, address, &claimed);
    if (is_live) {
        late->next = take_shares(streams, address);
        late->order = streams->order;
    }
    gy_mutex_unlock(gy_heap_streams_guard(streams));
    if (!is_live) {
        gy_free(late);
        return GANTRY_ERR_NOT_FOUND;
    }
    atomic_store_explicit(&streams->used, true, memory_order_relaxed);
    late->claim = claimed;
    free_late(streams, name, late);
    (void)gy_heap_streams_poll(streams);
    return GANTRY_OK;
}

/* Free a block of the page layer. */
static gantry_status free_block(struct gy_heap_streams *streams, const struct gy_heap_stream_name *name,
                                struct gy_heap_region *region, uintptr_t address) GY_NO_ANALYSIS
{
    struct gy_heap_stream *stream = gy_heap_stream_lock(streams, name, false);
    if (stream == NULL) {
        return GANTRY_ERR_OUT_OF_HOST_MEMORY;
    }
    struct gy_claim claimed;
    if (!claim(streams, region, address, &claimed)) {
        gy_mutex_unlock(gy_heap_streams_guard(streams));
        return GANTRY_ERR_NOT_FOUND;
    }
    struct gy_range *range = claimed.range;
    int64_t bytes = (int64_t)gy_range_requested(range);
    uint32_t site = gy_range_site(range);
    struct gy_late *shares = NULL;
    if (__builtin_expect(atomic_load_explicit(&range->shared, memory_order_relaxed), 0)) {
        atomic_store_explicit(&range->shared, false, memory_order_relaxed);
        shares = take_shares(streams, address);
    }
    struct gy_heap_marking marking = {NULL, NULL, 0};
    if (shares == NULL) {
        keep_leaving(streams, stream);
        gy_heap_stream_keep(streams, stream, range, streams->order);
        marking = gy_heap_stream_begin_mark(streams, stream, name, false);
    } else {
        stream->lates++;
        shares->stream = stream;
        shares->order = streams->order;
        shares->claim = claimed;
        marking = gy_heap_stream_begin_mark(streams, stream, name, gy_kind_is_full(streams->kind));
    }
    gy_mutex_unlock(gy_heap_streams_guard(streams));
    gy_park_note(&streams->kind->park, site, -bytes, -1);
    if (shares != NULL) {
        free_late(streams, name, shares);
    }
    gy_heap_stream_finish_mark(streams, &marking, name->handle);
    return GANTRY_OK;
}

gantry_status gy_heap_streams_free(struct gy_heap_streams *streams, const struct gy_heap_stream_name *name,
                                   struct gy_heap_region *region, uintptr_t address, bool aside)
{
    if (region->is_chunk || aside) {
        return free_aside(streams, name, region, address);
    }
    struct gy_park *park = &streams->kind->park;
    enum gy_lap_result lap = GY_LAP_FULL;
    if (name->capture == 0 && name->may_mark) {
        lap = gy_park_lap_give(park, name->id, region, address, lap_room(streams));
    }
    if (lap == GY_LAP_GIVEN) {
        return GANTRY_OK;
    }
    gantry_status status = free_block(streams, name, region, address);
    if (lap == GY_LAP_STRANGE && status == GANTRY_OK) {
        gy_park_lap_attach(park, name->id);
    }
    return status;
}

gantry_status gy_heap_streams_record(struct gy_heap_streams *streams, const struct gy_heap_stream_name *name,
                                     struct gy_heap_region *region, uintptr_t address)
{
    struct gy_late *made = make_late(name, address);
    if (made == NULL) {
        return GANTRY_ERR_OUT_OF_HOST_MEMORY;
    }
    gantry_status status = GANTRY_OK;
    gy_mutex_lock(gy_heap_streams_guard(streams));
    struct gy_range *range = NULL;
    if (!region->is_chunk && address % GY_PAGE_BYTES == 0 && region->slab->first != NULL) {
        range = atomic_load_explicit(gy_live_at(region->slab, address), memory_order_acquire);
    }
    bool is_live = region->is_chunk ? gy_chunk_peek((struct gy_chunk *)(void *)region, address) != 0
                                    : range != NULL && gy_range_state(range) == GY_RANGE_BLOCK;
    struct gy_late **bucket = &streams->shares[(address >> GY_PAGE_SHIFT) % GY_SHARE_BUCKETS];
    struct gy_late *same = *bucket;
    while (same != NULL && (same->address != address || same->id != name->id)) {
        same = same->next;
    }
    if (!is_live) {
        status = GANTRY_ERR_NOT_FOUND;
    } else if (same == NULL) {
        made->next = *bucket;
        *bucket = made;
        made = NULL;
        atomic_fetch_add_explicit(&streams->share_count, 1, memory_order_relaxed);
        if (range != NULL) {
            atomic_store_explicit(&range->shared, true, memory_order_relaxed);
        }
    }
    gy_mutex_unlock(gy_heap_streams_guard(streams));
    gy_free(made);
    return status;
}
