/* SPDX-License-Identifier: MIT */
/* Growth and trimming of one kind.
 *
 *   gy_kind_alloc ──small──> jemalloc arena ──out of pages──> add_chunk ──┐ 2 MiB of
 *        │                                                                │ the page layer
 *        └──large or no small tier──> page layer <────────────────────────┘
 *                                        └──full──> add_slab ──> driver
 *
 * Growth: a thread that finds a tier full calls grow().  One thread at a time grows a kind, and it holds no
 * lock while it calls the driver; the others wait for it and then try again first.  `generation` counts
 * successful growths, so that a thread that failed before such a growth repeats its attempt instead of
 * growing once more.
 *
 * Slab sizes: by default, a slab is as large as all slabs before it together, from 2 MiB up to the kind's
 * default, so that a small program stays small.  It is never larger than the limit leaves, nor than an eighth
 * of the device's memory unless a single request needs it.  When the driver has not as much, half is asked
 * for, down to what the request needs; then wholly free slabs are given back, and the driver is asked once
 * more.
 *
 * The structs of slabs and chunks that were given back are kept for the next ones and freed at the end: a
 * free() of a stale address may still look at them, and must find memory that it can read. */
#include "heap/growth.h"

#include "base/alloc.h"
#include "base/clock.h"
#include "base/options.h"
#include "base/outside.h"

#include <assert.h>

/* A kind that has less than this need not use it well. */
#define LEAST_ENOUGH ((size_t)512 << 20)
/* From this much memory on, idle memory between blocks costs less than the time to give it back and take it
 * again. */
#define MUCH_MEMORY ((uint64_t)16 << 30)
#define USUAL_AHEAD ((size_t)64 << 20)
#define USUAL_DECAY_MS 10000

/* ---- slab memory: from the driver, the system or the application ---- */

/* The status that says that this kind's memory has run out. */
static gantry_status exhausted(const struct gy_kind *kind)
{
    return kind->setup.kind == GANTRY_MEMORY_HOST ? GANTRY_ERR_OUT_OF_HOST_MEMORY
                                                  : GANTRY_ERR_OUT_OF_DEVICE_MEMORY;
}

gantry_status gy_growth_import_source(const gantry_memory_source *theirs, gantry_memory_source *ours)
{
    gantry_status status =
        gy_options_import(ours, sizeof(*ours), theirs, sizeof(*ours), "gantry_memory_source");
    return status == GANTRY_OK && (ours->take == NULL || ours->give_back == NULL)
               ? GY_FAIL(GANTRY_ERR_INVALID_ARGUMENT, "gantry_memory_source: a function is NULL")
               : status;
}

static void give_to(const struct gy_kind *kind, void *base, size_t bytes)
{
    const gantry_memory_source *source = kind->setup.source;
    const struct gy_inside *inside = gy_outside_begin();
    source->give_back(source->user, kind->setup.kind, base, bytes);
    gy_outside_end_of(inside, "a memory source");
}

/* Ask the application's source for memory.  The context is current. */
static gantry_status ask_source(struct gy_kind *kind, size_t bytes, struct gy_backing *out)
{
    const gantry_memory_source *source = kind->setup.source;
    size_t asked = bytes;
    for (;;) {
        void *base = NULL;
        void *device = NULL;
        const struct gy_inside *inside = gy_outside_begin();
        gantry_status status = source->take(source->user, kind->setup.kind, asked, &base, &device);
        gy_outside_end_of(inside, "a memory source");
        if (status != GANTRY_OK) {
            return status == GANTRY_ERR_OUT_OF_HOST_MEMORY ? exhausted(kind) : status;
        }
        uintptr_t up = -(uintptr_t)base & (GY_GRANULE_BYTES - 1);
        if (up + bytes <= asked) {
            *out = (struct gy_backing){.base = (uintptr_t)base + up,
                                       .bytes = bytes,
                                       .device_base = device != NULL ? (uintptr_t)device + up : 0,
                                       .raw = (uintptr_t)base,
                                       .raw_bytes = asked};
            return GANTRY_OK;
        }
        give_to(kind, base, asked);
        asked = bytes + GY_GRANULE_BYTES;
    }
}

/* The application's functions may call CUDA: the heap's context is current in them, whichever thread
 * allocates. */
static gantry_status take_from_source(struct gy_kind *kind, size_t bytes, struct gy_backing *out)
{
    struct gy_context *context = kind->setup.context;
    gantry_status status = context != NULL ? gy_context_push(context) : GANTRY_OK;
    if (status != GANTRY_OK) {
        return status;
    }
    status = ask_source(kind, bytes, out);
    if (context != NULL) {
        (void)gy_context_pop(context);
    }
    return status;
}

static void give_to_source(struct gy_kind *kind, const struct gy_backing *backing)
{
    struct gy_context *context = kind->setup.context;
    bool pushed = context != NULL &&
                  gy_context_push(context) == GANTRY_OK; /* the memory goes back even if this fails */
    give_to(kind, (void *)backing->raw, backing->raw_bytes);
    if (pushed) {
        (void)gy_context_pop(context);
    }
}

/* Settings that are left open depend on how much memory there is. */
static bool has_much_memory(const struct gy_kind *kind)
{
    const struct gy_kind_setup *setup = &kind->setup;
    size_t limit = atomic_load_explicit(&kind->settings.limit_bytes, memory_order_relaxed);
    return setup->kind == GANTRY_MEMORY_DEVICE && setup->context != NULL &&
           setup->context->info.memory_bytes >= MUCH_MEMORY && (limit == 0 || limit >= MUCH_MEMORY);
}

static size_t unit_bytes(struct gy_kind *kind)
{
    if (kind->setup.peers != 0 || kind->setup.handles != CU_MEM_HANDLE_TYPE_NONE) {
        return SIZE_MAX; /* letting several devices use many small pieces takes 15 to 100 times as long */
    }
    size_t unit = gy_setting(&kind->settings.unit_bytes);
    return unit != 0 ? unit : has_much_memory(kind) ? SIZE_MAX : GY_SMALL_UNIT;
}

static size_t ahead_bytes(struct gy_kind *kind)
{
    size_t ahead = gy_setting(&kind->settings.ahead_bytes);
    const bool takes_long = has_much_memory(kind) || kind->setup.peers != 0;
    ahead = ahead != 0 ? ahead : takes_long ? USUAL_AHEAD : SIZE_MAX;
    return ahead != SIZE_MAX ? ahead : 0;
}

uint64_t gy_kind_decay_ns(struct gy_kind *kind)
{
    uint64_t decay = atomic_load_explicit(&kind->settings.decay_ms, memory_order_relaxed);
    if (decay == 0) {
        decay = gy_setting(&kind->settings.keep_bytes) == 0 ? USUAL_DECAY_MS : UINT64_MAX;
    }
    return decay < UINT64_MAX / 1000000 ? decay * 1000000 : 0;
}

static gantry_status take_backing(struct gy_kind *kind, size_t bytes, struct gy_backing *out)
{
    const struct gy_backing_need need = {unit_bytes(kind), kind->setup.peers, kind->setup.handles};
    return kind->setup.source != NULL ? take_from_source(kind, bytes, out)
                                      : kind->setup.ops->take(kind->setup.context, bytes, &need, out);
}

void gy_kind_give_back(struct gy_kind *kind, const struct gy_backing *backing)
{
    if (kind->setup.source != NULL) {
        give_to_source(kind, backing);
    } else {
        kind->setup.ops->give_back(kind->setup.context, backing);
    }
}

/* ---- growth: the growing thread only ---- */

bool gy_kind_growth_is_valid(struct gy_kind *kind)
{
    const size_t total = gy_kind_total(kind);
    const struct gy_slab *spare = kind->spare_slabs;
    return kind->growing && total % GY_GRANULE_BYTES == 0 &&
           atomic_load_explicit(&kind->pages.empty_bytes, memory_order_relaxed) <= total &&
           (spare == NULL || (spare->live == NULL && spare->first == NULL)) &&
           (kind->spare_chunks == NULL || kind->small != NULL);
}

/* Take what no block uses out of the small tier and the shards.  Each thread empties its magazines when it
 * next calls the small tier. */
static void collect_unused(struct gy_kind *kind)
{
    assert(gy_kind_growth_is_valid(kind));
    (void)gy_park_flush(&kind->park);
    if (kind->small == NULL) {
        return;
    }
    gy_small_purge(kind->small);
    struct gy_chunk *chunk;
    while ((chunk = gy_small_remove_chunk(kind->small)) != NULL) {
        struct gy_heap_region *region = &chunk->region;
        struct gy_block_request request;
        assert(gy_heap_region_is_valid(region) && gy_granules_find(kind->setup.map, region->base) == region);
        gy_granules_replace(kind->setup.map, region->base, region->bytes, &region->slab->region);
        enum gy_pages_result result =
            gy_pages_free(&kind->pages, region->slab, GY_RANGE_CHUNK, region->base, &request);
        assert(result == GY_PAGES_OK);
        (void)result;
        chunk->next = kind->spare_chunks;
        kind->spare_chunks = chunk;
    }
}

/* We may take a context for lost while the device goes on: work of tasks that were released as failed may
 * still use memory that is free, and unmapping does not wait.  Nor may we wait for the device, which would
 * break captures of the application's.  So the memory stays until the heap is destroyed, by which time its
 * owner has waited. */
static bool may_give_back(const struct gy_kind *kind)
{
    return kind->setup.kind != GANTRY_MEMORY_DEVICE || kind->setup.context == NULL ||
           !gy_context_is_lost(kind->setup.context);
}

/* Take a wholly free slab of at most `most` bytes out of all lists; NULL: there is none that may go. */
static struct gy_slab *detach_slab(struct gy_kind *kind, size_t most)
{
    struct gy_slab *slab = !may_give_back(kind) ? NULL : gy_pages_remove_empty(&kind->pages, most);
    assert(kind->growing);
    if (slab != NULL) {
        assert(slab->first == NULL && gy_granules_find(kind->setup.map, slab->region.base) == &slab->region);
        gy_granules_replace(kind->setup.map, slab->region.base, slab->region.bytes, NULL);
        gy_park_quiesce(&kind->park);
    }
    return slab;
}

/* Keep the structs of `slab`, whose memory was given back. */
static void retire_slab(struct gy_kind *kind, struct gy_slab *slab)
{
    assert(gy_kind_total(kind) >= slab->region.bytes - slab->hole_bytes);
    atomic_fetch_sub_explicit(&kind->slab_total, slab->region.bytes - slab->hole_bytes, memory_order_relaxed);
    gy_slab_fini(slab);
    slab->next = kind->spare_slabs;
    kind->spare_slabs = slab;
    assert(gy_kind_growth_is_valid(kind));
}

/* Give wholly free slabs back to the driver.  True when there was one. */
static bool give_back_unused(struct gy_kind *kind)
{
    collect_unused(kind);
    bool any = false;
    struct gy_slab *slab;
    while ((slab = detach_slab(kind, SIZE_MAX)) != NULL) {
        gy_kind_give_back(kind, &slab->backing);
        retire_slab(kind, slab);
        any = true;
    }
    return any;
}

/* Has the kind taken a sixteenth more than was ever in use?  Much is free then, but in pieces between blocks.
 */
static bool has_more_than_enough(struct gy_kind *kind, size_t need)
{
    int64_t peak = atomic_load_explicit(&kind->usage.peak, memory_order_relaxed);
    int64_t former = atomic_load_explicit(&kind->usage.former_peak, memory_order_relaxed);
    peak = former > peak ? former : peak;
    size_t enough = need + (peak > 0 ? (size_t)peak + (size_t)peak / 16 : 0);
    return gy_kind_total(kind) + need > (enough > LEAST_ENOUGH ? enough : LEAST_ENOUGH);
}

/* The bytes of wholly free slabs that no setting keeps; none of these slabs was large enough. */
static size_t spare_bytes(struct gy_kind *kind)
{
    bool is_kept =
        gy_setting(&kind->settings.base_bytes) != 0 || gy_setting(&kind->settings.reserved_bytes) != 0;
    return is_kept ? 0 : atomic_load_explicit(&kind->pages.empty_bytes, memory_order_relaxed);
}

/* The bytes that give_back_pieces() could give back. */
static size_t piece_bytes(struct gy_kind *kind)
{
    bool possible = kind->setup.source == NULL && kind->setup.ops->give_back_part != NULL;
    return possible ? gy_pages_whole_units(&kind->pages) + spare_bytes(kind) : 0;
}

/* Give pieces and slabs back until they come to `most` bytes, or until there are no more; returns their
 * bytes. */
static size_t give_back_pieces(struct gy_kind *kind, size_t most)
{
    struct gy_slab *slab;
    size_t given = 0, offset, bytes;
    while (given < most && spare_bytes(kind) != 0 && (slab = detach_slab(kind, SIZE_MAX)) != NULL) {
        gy_kind_give_back(kind, &slab->backing);
        given += slab->region.bytes - slab->hole_bytes;
        retire_slab(kind, slab);
    }
    while (given < most && may_give_back(kind) &&
           (slab = gy_pages_punch(&kind->pages, most - given, &offset, &bytes)) != NULL) {
        assert(bytes != 0 && gy_kind_total(kind) >= bytes && offset + bytes <= slab->region.bytes);
        kind->setup.ops->give_back_part(kind->setup.context, &slab->backing, offset, bytes);
        atomic_fetch_sub_explicit(&kind->slab_total, bytes, memory_order_relaxed);
        given += bytes;
    }
    return given;
}

/* Give pieces back instead of taking ever more memory, when they come to what is needed. */
static bool prefer_pieces(struct gy_kind *kind, size_t need)
{
    return unit_bytes(kind) != SIZE_MAX && has_more_than_enough(kind, need) && piece_bytes(kind) >= need &&
           give_back_pieces(kind, need) >= need;
}

/* There is no other room for `need` bytes, nor a wholly free slab, so pieces are given back.  True: there
 * were some, and the limit leaves room now. */
static bool sacrifice_pieces(struct gy_kind *kind, size_t need)
{
    size_t total = gy_kind_total(kind);
    size_t limit = gy_setting(&kind->settings.limit_bytes) & ~(GY_GRANULE_BYTES - 1);
    if (limit != 0 && total + need > limit) {
        size_t missing = total + need - limit;
        return piece_bytes(kind) >= missing && give_back_pieces(kind, missing) >= missing;
    }
    return piece_bytes(kind) != 0 &&
           give_back_pieces(kind, need) != 0; /* the driver has less than `need` bytes */
}

/* The size of the next slab, in which `need` bytes are needed; 0: the limit does not allow it. */
static size_t next_slab_bytes(struct gy_kind *kind, size_t need)
{
    static const size_t usual[GANTRY_MEMORY_KIND_COUNT] = {
        [GANTRY_MEMORY_DEVICE] = (size_t)256 << 20,
        [GANTRY_MEMORY_PINNED] = (size_t)64 << 20,
        [GANTRY_MEMORY_WRITE_COMBINED] = (size_t)64 << 20,
        [GANTRY_MEMORY_HOST] = (size_t)64 << 20,
    };
    const struct gy_kind_setup *setup = &kind->setup;
    size_t total = gy_kind_total(kind);
    size_t want = gy_setting(&kind->settings.slab_bytes);
    size_t limit = gy_setting(&kind->settings.limit_bytes);
    size_t base = gy_setting(&kind->settings.base_bytes);
    if (want == 0) {
        want = total < GY_GRANULE_BYTES ? GY_GRANULE_BYTES : total & ~(GY_GRANULE_BYTES - 1);
        want = want < usual[setup->kind] ? want : usual[setup->kind];
    }
    if (setup->kind == GANTRY_MEMORY_DEVICE && setup->context != NULL) {
        size_t share = (size_t)(setup->context->info.memory_bytes / 8) & ~(GY_GRANULE_BYTES - 1);
        want = want < share ? want : share;
    }
    want = total < base && want < base - total ? base - total : want;
    want = want > need ? want : need;
    if (limit != 0) {
        size_t room = total < limit ? (limit - total) & ~(GY_GRANULE_BYTES - 1) : 0;
        want = want < room ? want : room;
    }
    assert(limit == 0 || want == 0 || want < need || total + want <= limit);
    return want >= need ? want : 0;
}

/* Get memory for a slab of at least `need` bytes, out of what the limit and the driver have left. */
static gantry_status take_memory(struct gy_kind *kind, size_t need, bool exactly, struct gy_backing *out)
{
    gantry_status none = exhausted(kind);
    for (;;) {
        size_t want = next_slab_bytes(kind, need);
        want = exactly && want > need ? need : want;
        gantry_status status = none;
        while (want != 0) {
            status = take_backing(kind, want, out);
            if (status != none || want == need) {
                break;
            }
            want = want / 2 > need ? (want / 2) & ~(GY_GRANULE_BYTES - 1) : need;
        }
        if (status != none) {
            return status;
        }
        if (!give_back_unused(kind)) {
            if (!sacrifice_pieces(kind, need)) {
                return status;
            }
            exactly = true;
        }
    }
}

static struct gy_slab *slab_struct(struct gy_kind *kind)
{
    struct gy_slab *slab = kind->spare_slabs;
    if (slab == NULL) {
        return gy_zalloc(sizeof(*slab));
    }
    assert(slab->live == NULL && slab->first == NULL);
    kind->spare_slabs = slab->next;
    return slab;
}

/* Make a slab of memory that was taken; on failure the memory is given back. */
static gantry_status use_backing(struct gy_kind *kind, const struct gy_backing *backing)
{
    assert(backing->base % GY_GRANULE_BYTES == 0);
    struct gy_slab *slab = slab_struct(kind);
    if (slab == NULL) {
        goto give_back;
    }
    if (!gy_slab_init(slab, kind->setup.kind, backing)) {
        goto spare_slab;
    }
    if (!gy_granules_add(kind->setup.map, backing->base, backing->bytes, &slab->region)) {
        goto fini_slab;
    }
    if (!gy_pages_add_slab(&kind->pages, slab)) {
        goto remove_region;
    }
    size_t total =
        atomic_fetch_add_explicit(&kind->slab_total, backing->bytes, memory_order_relaxed) + backing->bytes;
    if (total > atomic_load_explicit(&kind->slab_peak, memory_order_relaxed)) {
        atomic_store_explicit(&kind->slab_peak, total, memory_order_relaxed);
    }
    assert(gy_kind_growth_is_valid(kind));
    assert(gy_granules_find(kind->setup.map, backing->base) != NULL);
    return GANTRY_OK;
remove_region:
    gy_granules_replace(kind->setup.map, backing->base, backing->bytes, NULL);
fini_slab:
    gy_slab_fini(slab);
spare_slab:
    slab->next = kind->spare_slabs;
    kind->spare_slabs = slab;
give_back:
    gy_kind_give_back(kind, backing);
    return GANTRY_ERR_OUT_OF_HOST_MEMORY;
}

static gantry_status add_slab(struct gy_kind *kind, size_t bytes)
{
    size_t need;
    struct gy_backing backing;
    if (!gy_granules_round(bytes, &need)) {
        return exhausted(kind);
    }
    if (gy_kind_total(kind) == 0 && kind->setup.begins != NULL) {
        kind->setup.begins(kind->setup.user, kind->setup.kind);
    }
    assert(gy_kind_growth_is_valid(kind));
    bool exactly = prefer_pieces(kind, need);
    gantry_status status = take_memory(kind, need, exactly, &backing);
    if (status != GANTRY_OK) {
        return status;
    }
    assert(backing.bytes >= need);
    return use_backing(kind, &backing);
}

static gantry_status take_granule(struct gy_kind *kind, uintptr_t *out)
{
    for (;;) {
        enum gy_pages_result result =
            gy_pages_alloc(&kind->pages, GY_RANGE_CHUNK, GY_GRANULE_BYTES, GY_GRANULE_BYTES, 0, out);
        if (result != GY_PAGES_FULL) {
            return result == GY_PAGES_OK ? GANTRY_OK : GANTRY_ERR_OUT_OF_HOST_MEMORY;
        }
        gantry_status status = add_slab(kind, GY_GRANULE_BYTES);
        if (status != GANTRY_OK) {
            return status;
        }
    }
}

static gantry_status add_chunk(struct gy_kind *kind)
{
    struct gy_chunk *chunk = kind->spare_chunks;
    if (chunk != NULL) {
        kind->spare_chunks = chunk->next;
    } else if ((chunk = gy_zalloc(sizeof(*chunk))) == NULL) {
        return GANTRY_ERR_OUT_OF_HOST_MEMORY;
    }
    uintptr_t base;
    gantry_status status = take_granule(kind, &base);
    if (status != GANTRY_OK) {
        chunk->next = kind->spare_chunks;
        kind->spare_chunks = chunk;
        return status;
    }
    struct gy_slab *slab = gy_granules_find(kind->setup.map, base)->slab;
    chunk->region = (struct gy_heap_region){true, kind->setup.kind, base, GY_GRANULE_BYTES, slab};
    assert(gy_heap_region_is_valid(&chunk->region) && gy_heap_region_is_valid(&slab->region));
    gy_granules_replace(kind->setup.map, base, GY_GRANULE_BYTES, &chunk->region);
    gy_small_add_chunk(kind->small, chunk);
    return GANTRY_OK;
}

/* ---- stalls ---- */

void gy_kind_note_stall(struct gy_kind *kind, gantry_heap_stall cause, uint64_t begin_ns)
{
    struct gy_stalls *stalls = &kind->stalls[cause];
    uint64_t ns = gy_clock_ns() - begin_ns;
    uint64_t longest = atomic_load_explicit(&stalls->longest, memory_order_relaxed);
    atomic_fetch_add_explicit(&stalls->count, 1, memory_order_relaxed);
    atomic_fetch_add_explicit(&stalls->ns, ns, memory_order_relaxed);
    while (ns > longest && !atomic_compare_exchange_weak_explicit(
                               &stalls->longest, &longest, ns, memory_order_relaxed, memory_order_relaxed)) {
    }
}

/* ---- growth: any thread ---- */

/* Become the growing thread. */
static void begin_growth(struct gy_kind *kind)
{
    gy_mutex_lock(&kind->growth_lock);
    while (kind->growing) {
        gy_cond_wait(&kind->grown, &kind->growth_lock);
    }
    kind->growing = true;
    assert(gy_kind_growth_is_valid(kind));
    gy_mutex_unlock(&kind->growth_lock);
}

static void end_growth(struct gy_kind *kind, bool grown)
{
    gy_mutex_lock(&kind->growth_lock);
    assert(gy_kind_growth_is_valid(kind));
    kind->growing = false;
    if (grown) {
        uint64_t seen = atomic_load_explicit(&kind->generation, memory_order_relaxed);
        atomic_store_explicit(&kind->generation, seen + 1, memory_order_release);
    }
    gy_cond_broadcast(&kind->grown);
    gy_mutex_unlock(&kind->growth_lock);
}

gantry_status gy_kind_grow(struct gy_kind *kind, uint64_t seen, enum gy_growth growth, size_t bytes)
{
    uint64_t begin_ns = gy_clock_ns();
    gy_mutex_lock(&kind->growth_lock);
    while (kind->growing && atomic_load_explicit(&kind->generation, memory_order_relaxed) == seen) {
        gy_cond_wait(&kind->grown, &kind->growth_lock);
    }
    if (atomic_load_explicit(&kind->generation, memory_order_relaxed) != seen) {
        gy_mutex_unlock(&kind->growth_lock);
        gy_kind_note_stall(kind, GANTRY_HEAP_STALL_OTHER, begin_ns);
        return GANTRY_OK;
    }
    assert(!kind->growing);
    kind->growing = true;
    gy_mutex_unlock(&kind->growth_lock);
    gantry_status status = growth == GY_GROW_CHUNK ? add_chunk(kind) : add_slab(kind, bytes);
    end_growth(kind, status == GANTRY_OK);
    gy_kind_note_stall(kind, GANTRY_HEAP_STALL_MAPPING, begin_ns);
    atomic_store_explicit(&kind->is_short, status == exhausted(kind), memory_order_relaxed);
    if (status == GANTRY_OK) {
        atomic_store_explicit(&kind->has_grown, true, memory_order_relaxed);
    }
    return status;
}

void gy_kind_tell_growth(struct gy_kind *kind)
{
    if (kind->setup.grows != NULL && ahead_bytes(kind) != 0 &&
        atomic_exchange_explicit(&kind->has_grown, false, memory_order_relaxed)) {
        kind->setup.grows(kind->setup.user, kind->setup.kind);
    }
}

void gy_kind_map_ahead(struct gy_kind *kind)
{
    size_t ahead = ahead_bytes(kind);
    size_t limit = gy_setting(&kind->settings.limit_bytes);
    begin_growth(kind);
    size_t empty = atomic_load_explicit(&kind->pages.empty_bytes, memory_order_relaxed);
    size_t need = empty < ahead ? ahead - empty : 0;
    struct gy_backing backing;
    bool wanted = gy_granules_round(need, &need) && need != 0 && gy_kind_total(kind) >= ahead &&
                  (limit == 0 || gy_kind_total(kind) + need <= limit);
    bool grown =
        wanted && take_backing(kind, need, &backing) == GANTRY_OK && use_backing(kind, &backing) == GANTRY_OK;
    (void)gy_backing_refused(); /* forget what earlier calls noted */
    end_growth(kind, grown);
}

gantry_status gy_kind_reserve(struct gy_kind *kind, size_t bytes)
{
    gantry_status status = GANTRY_OK;
    begin_growth(kind);
    while (status == GANTRY_OK) {
        size_t empty = atomic_load_explicit(&kind->pages.empty_bytes, memory_order_relaxed);
        if (empty >= bytes) {
            break;
        }
        status = add_slab(kind, bytes - empty);
    }
    if (status == GANTRY_OK && gy_setting(&kind->settings.reserved_bytes) < bytes) {
        atomic_store(&kind->settings.reserved_bytes, bytes);
    }
    end_growth(kind, status == GANTRY_OK);
    return status;
}

/* ---- trimming: any thread ---- */

static size_t kept_unused(struct gy_kind *kind)
{
    static const size_t usual[GANTRY_MEMORY_KIND_COUNT] = {
        [GANTRY_MEMORY_DEVICE] = (size_t)256 << 20,
        [GANTRY_MEMORY_PINNED] = SIZE_MAX, /* giving pinned memory back waits for the device */
        [GANTRY_MEMORY_WRITE_COMBINED] = SIZE_MAX,
        [GANTRY_MEMORY_HOST] = (size_t)64 << 20,
    };
    size_t keep = gy_setting(&kind->settings.keep_bytes);
    size_t reserved = gy_setting(&kind->settings.reserved_bytes);
    if (keep != 0) {
        return keep > reserved ? keep : reserved;
    }
    /* Keep as much as is in use, so that a program whose use goes up and down does not take and give all the
     * time. */
    size_t total = gy_kind_total(kind);
    size_t empty = atomic_load_explicit(&kind->pages.empty_bytes, memory_order_relaxed);
    size_t in_use = total > empty ? total - empty : 0;
    keep = usual[kind->setup.kind] > in_use ? usual[kind->setup.kind] : in_use;
    return keep > reserved ? keep : reserved;
}

bool gy_kind_has_excess(struct gy_kind *kind)
{
    size_t empty = atomic_load_explicit(&kind->pages.empty_bytes, memory_order_relaxed);
    size_t limit = gy_setting(&kind->settings.limit_bytes);
    return empty != 0 && (empty > kept_unused(kind) || (limit != 0 && gy_kind_total(kind) > limit));
}

/* Detach a slab that may be given back while more than `keep` bytes lie in wholly free ones.  It has at most
 * `most` bytes, unless the limit wants it back. */
static struct gy_slab *detach_excess(struct gy_kind *kind, size_t keep, size_t most)
{
    size_t limit = gy_setting(&kind->settings.limit_bytes);
    size_t base = gy_setting(&kind->settings.base_bytes);
    size_t total = gy_kind_total(kind);
    size_t empty = atomic_load_explicit(&kind->pages.empty_bytes, memory_order_relaxed);
    if (limit != 0 && total > limit) {
        return detach_slab(kind, SIZE_MAX);
    }
    size_t above_keep = empty > keep ? empty - keep : 0;
    size_t above_base = total > base ? total - base : 0;
    most = most < above_keep ? most : above_keep;
    return detach_slab(kind, most < above_base ? most : above_base);
}

/* Give back until `keep` bytes are left (NULL: what the settings allow), and `most` bytes at most.  This
 * thread is not the growing one while the driver is busy: other threads may take or reserve meanwhile, so the
 * settings are read anew each time. */
static size_t trim(struct gy_kind *kind, const size_t *keep, size_t most,
                   void (*collect)(struct gy_kind *kind))
{
    size_t given = 0;
    atomic_store(&kind->excess_told, false);
    begin_growth(kind);
    collect(kind);
    struct gy_slab *slab;
    while ((slab = detach_excess(kind, keep != NULL ? *keep : kept_unused(kind), most - given)) != NULL) {
        end_growth(kind, false);
        gy_kind_give_back(kind, &slab->backing);
        given += slab->region.bytes - slab->hole_bytes;
        most = most > given ? most : given; /* the limit wanted more back */
        begin_growth(kind);
        retire_slab(kind, slab);
    }
    end_growth(kind, given != 0);
    return given;
}

size_t gy_kind_trim(struct gy_kind *kind, size_t keep)
{
    return trim(kind, &keep, SIZE_MAX, collect_unused);
}

/* Threads that allocate small blocks do not notice this: they keep what they have. */
static void collect_parked(struct gy_kind *kind)
{
    (void)gy_park_flush(&kind->park);
}

/* With a decay, this gives back no more than lay unused all the time since somebody found too much of it:
 * meanwhile other threads may take and free what they need again. */
size_t gy_kind_trim_excess(struct gy_kind *kind)
{
    size_t least = atomic_load_explicit(&kind->pages.least_empty, memory_order_relaxed);
    return trim(kind, NULL, gy_kind_decay_ns(kind) != 0 ? least : SIZE_MAX, collect_parked);
}
