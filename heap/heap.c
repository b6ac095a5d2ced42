/* SPDX-License-Identifier: MIT */
/* The heap of a context.
 *
 *   gantry_heap ─── one struct gy_kind per memory kind          (kind.c)
 *                      ├─ page layer: slabs, ranges of 4 KiB     (pages.c, tlsf.c)
 *                      ├─ small tier: jemalloc over chunks       (small_jemalloc.c, chunk.c, canary.c)
 *                      ├─ parked: large blocks just freed       (park.c)
 *                      └─ slab memory from driver or system      (growth.c, backing.c)
 *
 * Shared by the kinds: the granule map (granules.c), which says for any address which slab or chunk it lies
 * in without a lock, the numbering of allocation sites (sites.c), the reclaimer (reclaimer.c) and, on demand,
 * checks (check.c).
 *
 * Everything the heap knows lies in host memory, so that device memory is never touched.  A free finds its
 * block from the address alone: in a chunk by the record of the 256-byte unit, else in its slab's table
 * of live ranges; an address that starts no live block is refused.
 *
 * Locks: growth_lock of a kind, the small tier's list of thread caches, the reclaimer's (rank HEAP, one at a
 * time), page
 * layer and chunk pool (rank PAGES, leaves; never both; the only ones taken inside jemalloc's hooks), new
 * sites (rank LEAF).  No lock is held over a driver call or an allocation of host memory. */
#include "heap/heap.h"

#include "base/alloc.h"
#include "base/checking.h"
#include "base/clock.h"
#include "base/handle.h"
#include "base/hints.h"
#include "base/options.h"
#include "base/outside.h"
#include "base/proof.h"
#include "heap/growth.h"
#include "heap/internal.h"
#include "heap/others.h"

#include <inttypes.h>
#include <sched.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>

#define LEAST_ALIGNMENT GY_UNIT_BYTES
#define MOST_ALIGNMENT GY_GRANULE_BYTES
#define DEFAULT_QUEUE_BYTES ((uint64_t)4 << 30)
#define LARGEST_TAGS 3

/* ---- life ---- */

/* Copy the options with the sources that they point to. */
static gantry_status import_options(gantry_heap_options *ours, gantry_memory_source *sources,
                                    const gantry_heap_options *theirs)
{
    gantry_status status =
        gy_options_import(ours, sizeof(*ours), theirs, sizeof(size_t) * 2, "gantry_heap_options");
    if (status != GANTRY_OK) {
        return status;
    }
    for (int i = 0; i < GANTRY_MEMORY_KIND_COUNT; i++) {
        if (!gy_granules_round(ours->slab_bytes[i], &ours->slab_bytes[i])) {
            return GY_FAIL(GANTRY_ERR_INVALID_ARGUMENT, "gantry_heap_options: slab_bytes[%d] is too large",
                           i);
        }
        gy_heap_round_unit(&ours->unit_bytes[i]);
        if (!gy_granules_round(ours->base_bytes[i], &ours->base_bytes[i])) {
            return GY_FAIL(GANTRY_ERR_INVALID_ARGUMENT, "gantry_heap_options: base_bytes[%d] is too large",
                           i);
        }
        if (ours->source[i] != NULL) {
            status = gy_growth_import_source(ours->source[i], &sources[i]);
            ours->source[i] = &sources[i];
        }
        if (status != GANTRY_OK) {
            return status;
        }
    }
    if ((unsigned)ours->reclaim > GANTRY_RECLAIM_UNBOUNDED) {
        return GY_FAIL(GANTRY_ERR_INVALID_ARGUMENT, "gantry_heap_options: unknown reclaim policy %d",
                       (int)ours->reclaim);
    }
    return GANTRY_OK;
}

static void trim_kind(void *user, gantry_memory_kind kind, uint64_t *out_bytes)
{
    gantry_heap *heap = user;
    *out_bytes = gy_kind_trim_excess(&heap->kinds[kind]);
}

static void map_ahead(void *user, gantry_memory_kind kind)
{
    gantry_heap *heap = user;
    gy_kind_map_ahead(&heap->kinds[kind]);
}

static void tell_growth(void *user, gantry_memory_kind kind)
{
    gantry_heap *heap = user;
    gy_reclaimer_grow(&heap->reclaimer, kind);
}

static void tell_excess(void *user, gantry_memory_kind kind)
{
    gantry_heap *heap = user;
    gy_reclaimer_trim(&heap->reclaimer, kind, gy_kind_decay_ns(&heap->kinds[kind]));
}

/* The kind gets its reclaimer before anything can be freed, so that no free has to make a thread. */
static void have_reclaimer(void *user, gantry_memory_kind kind)
{
    gantry_heap *heap = user;
    gy_reclaimer_open(&heap->reclaimer, kind);
}

static void free_late_claim(void *user, gantry_memory_kind kind, const struct gy_claim *claim)
{
    struct gy_heap_claim ours = {kind, claim->range, claim->address, claim->record};
    gy_heap_free_claimed(user, &ours);
}

static gantry_status init_kind(gantry_heap *heap, gantry_memory_kind kind, struct gy_context *context,
                               const gantry_heap_options *options, bool use_small)
{
    struct gy_kind_setup setup = {.kind = kind,
                                  .context = context,
                                  .map = &heap->map,
                                  .slab_bytes = options->slab_bytes[kind],
                                  .limit_bytes = options->limit_bytes[kind],
                                  .base_bytes = options->base_bytes[kind],
                                  .keep_bytes = options->keep_bytes[kind],
                                  .use_small = use_small,
                                  .unit_bytes = options->unit_bytes[kind],
                                  .ahead_bytes = options->ahead_bytes[kind],
                                  .decay_ms = options->decay_ms[kind],
                                  .excess = tell_excess,
                                  .grows = tell_growth,
                                  .begins = have_reclaimer,
                                  .free_claimed = free_late_claim,
                                  .user = heap};
    if (options->source[kind] != NULL) {
        heap->sources[kind] = *options->source[kind];
        setup.source = &heap->sources[kind];
        return gy_kind_init(&heap->kinds[kind], &setup);
    }
    gantry_status status = gy_backing_ops_for(kind, context, &setup.ops);
    if (status == GANTRY_OK && kind == GANTRY_MEMORY_DEVICE && options->peers != 0) {
        status = gy_backing_check_peers(context, options->peers, &setup.peers);
        heap->peers = setup.peers;
    }
    if (status == GANTRY_OK && kind == GANTRY_MEMORY_DEVICE && options->handles != GANTRY_HEAP_HANDLES_NONE) {
        status = gy_backing_find_handles(context, options->handles, &setup.handles);
        heap->handles = setup.handles;
    }
    return status == GANTRY_OK ? gy_kind_init(&heap->kinds[kind], &setup) : status;
}

/* The checks that this heap is made with. */
static unsigned wanted_checks(const gantry_heap_options *options)
{
    unsigned parts = gy_checks_read() & (GY_CHECK_FREES | GY_CHECK_GUARDS | GY_CHECK_EDGES);
    return options->check ? parts | GY_CHECK_FREES | GY_CHECK_GUARDS : parts;
}

static gantry_status init_shared(gantry_heap *heap, struct gy_context *context,
                                 const gantry_heap_options *options)
{
    heap->context = context;
    heap->forks = gy_thread_forks();
    heap->out_of_memory = options->out_of_memory;
    heap->out_of_memory_user = options->out_of_memory_user;
    gantry_status status = GANTRY_ERR_OUT_OF_HOST_MEMORY;
    if (!gy_sites_init(&heap->sites)) {
        return GY_FAIL(status, "heap: no memory for its bookkeeping");
    }
    unsigned parts = wanted_checks(options);
    if (parts != 0) {
        heap->check = gy_check_create(context, &heap->sites, parts);
        heap->guard_bytes = (parts & GY_CHECK_GUARDS) != 0 ? GY_GUARD_BYTES : 0;
        if (heap->check == NULL) {
            status = GY_FAIL(status, "heap: no memory for its bookkeeping");
            goto fini_sites;
        }
    }
    uint64_t queue = options->reclaim_queue_bytes != 0 ? options->reclaim_queue_bytes : DEFAULT_QUEUE_BYTES;
    status = gy_reclaimer_init(&heap->reclaimer, options->reclaim, queue, trim_kind, map_ahead, heap);
    if (status != GANTRY_OK) {
        goto destroy_check;
    }
    gy_mutex_init(&heap->pending_lock, GY_RANK_HEAP);
    return GANTRY_OK;
destroy_check:
    gy_check_destroy(heap->check);
fini_sites:
    gy_sites_fini(&heap->sites);
    return status;
}

/* End everything that the kinds share.  The reclaimer has ended. */
static void fini_shared(gantry_heap *heap)
{
    gy_granules_fini(&heap->map);
    gy_mutex_fini(&heap->pending_lock);
    gy_check_destroy(heap->check);
    gy_sites_fini(&heap->sites);
}

gantry_status gy_heap_create(struct gy_context *context, const gantry_heap_options *options,
                             gantry_heap **out)
{
    gantry_heap_options ours = {0};
    gantry_memory_source sources[GANTRY_MEMORY_KIND_COUNT] = {{0}};
    gantry_status status = import_options(&ours, sources, options);
    if (status != GANTRY_OK) {
        return status;
    }
    status = gy_small_probe();
    if (status != GANTRY_OK && status != GANTRY_ERR_UNSUPPORTED) {
        return status;
    }
    bool use_small = status == GANTRY_OK;
    gantry_heap *heap = gy_zalloc(sizeof(*heap));
    if (heap == NULL) {
        return GY_FAIL(GANTRY_ERR_OUT_OF_HOST_MEMORY, "heap: no memory for its bookkeeping");
    }
    status = init_shared(heap, context, &ours);
    if (status != GANTRY_OK) {
        goto free_heap;
    }
    int kinds = 0;
    for (; kinds < GANTRY_MEMORY_KIND_COUNT; kinds++) {
        status = init_kind(heap, (gantry_memory_kind)kinds, context, &ours, use_small);
        if (status != GANTRY_OK) {
            goto fini_kinds;
        }
    }
    gy_heaps_add(heap);
    gy_handle_born(GY_HANDLE_HEAP, heap, sizeof(*heap), sizeof(*heap));
    *out = heap;
    return GANTRY_OK;
fini_kinds:
    gy_reclaimer_fini(&heap->reclaimer);
    while (kinds > 0) {
        gy_kind_fini(&heap->kinds[--kinds]);
    }
    fini_shared(heap);
free_heap:
    gy_free(heap);
    return status;
}

void gy_heap_destroy(gantry_heap *heap)
{
    if (heap == NULL) {
        return;
    }
    gy_heaps_remove(heap);
    gy_imports_fini(heap);
    gy_reclaimer_fini(&heap->reclaimer);
    for (int i = 0; i < GANTRY_MEMORY_KIND_COUNT; i++) {
        struct gy_leaks leaks;
        gy_leaks_begin(&leaks, &heap->sites);
        gy_kind_each_block(&heap->kinds[i], gy_leaks_visit, &leaks);
        gy_leaks_report(&leaks, gy_kind_name((gantry_memory_kind)i));
        gy_kind_fini(&heap->kinds[i]);
    }
    fini_shared(heap);
    gy_handle_free(heap, heap);
}

/* ---- running out ---- */

/* Larger blocks take whole pages. */
static uint64_t whole_pages(size_t bytes)
{
    return ((uint64_t)bytes + GY_PAGE_BYTES - 1) & ~(uint64_t)(GY_PAGE_BYTES - 1);
}

gantry_status gy_heap_alloc_own(gantry_heap *heap, gantry_memory_kind kind, size_t bytes,
                                gantry_alloc_site site, void **out)
{
    gantry_status status = gantry_heap_alloc(heap, kind, bytes, 0, site, out);
    if (status == GANTRY_OK) {
        atomic_fetch_add_explicit(&heap->own_bytes[kind], whole_pages(bytes), memory_order_relaxed);
    }
    if (status == GANTRY_OK && gy_proof() != NULL) { /* it does not see what the library does with it */
        gy_proof()->device.touch(*out, bytes, GY_PROOF_WRITE);
        gy_proof()->device.touch(*out, bytes, GY_PROOF_READ);
    }
    return status;
}

void gy_heap_free_own(gantry_heap *heap, gantry_memory_kind kind, size_t bytes, void *pointer)
{
    if (pointer != NULL) {
        atomic_fetch_sub_explicit(&heap->own_bytes[kind], whole_pages(bytes), memory_order_relaxed);
        (void)gantry_heap_free(heap, pointer);
    }
}

void gy_heap_set_pending(gantry_heap *heap, bool (*free_pending)(void *user, gantry_memory_kind kind),
                         void *user)
{
    gy_mutex_lock(&heap->pending_lock);
    while (heap->pending_calls != 0) {
        gy_mutex_unlock(&heap->pending_lock);
        sched_yield();
        gy_mutex_lock(&heap->pending_lock);
    }
    heap->pending = free_pending;
    heap->pending_user = user;
    gy_mutex_unlock(&heap->pending_lock);
}

static bool free_pending(gantry_heap *heap, gantry_memory_kind kind)
{
    gy_mutex_lock(&heap->pending_lock);
    bool (*function)(void *user, gantry_memory_kind kind) = heap->pending;
    void *user = heap->pending_user;
    heap->pending_calls++;
    gy_mutex_unlock(&heap->pending_lock);
    bool any = function != NULL && function(user, kind);
    gy_mutex_lock(&heap->pending_lock);
    heap->pending_calls--;
    gy_mutex_unlock(&heap->pending_lock);
    return any;
}

/* Report what keeps a driver from reserving addresses and shows in no number of the heap. */
static void tell_address_limit(char *text, size_t room)
{
    struct rlimit limit;
    text[0] = '\0';
    if (getrlimit(RLIMIT_AS, &limit) == 0 && limit.rlim_cur != RLIM_INFINITY) {
        (void)snprintf(text, room, "; the process may have %llu bytes of addresses (ulimit -v)",
                       (unsigned long long)limit.rlim_cur);
    }
}

gantry_status gy_heap_fail_exhausted(gantry_heap *heap, gantry_memory_kind kind, size_t bytes,
                                     gantry_status status)
{
    struct gy_kind *of = &heap->kinds[kind];
    size_t limit = gy_setting(&of->settings.limit_bytes);
    gantry_heap_stats stats = {.struct_size = sizeof(stats)};
    gy_kind_stats(of, &stats);
    char text[300] = "";
    size_t count;
    gantry_heap_tag_stats *tags = gy_heap_tags(heap, kind, &count);
    for (size_t i = 0, used = 0; i < count && i < LARGEST_TAGS && tags[i].used_bytes != 0; i++) {
        int more = snprintf(text + used, sizeof(text) - used, "%s%.40s %" PRIu64,
                            i == 0 ? "; most have: " : ", ", tags[i].tag, tags[i].used_bytes);
        used += more > 0 && (size_t)more < sizeof(text) - used ? (size_t)more : 0;
    }
    gy_free(tags);
    char waiting[208];
    gy_heap_streams_tell(&of->streams, stats.waiting_bytes, waiting, sizeof(waiting));
    const char *refused = gy_backing_refused();
    char addresses[96];
    tell_address_limit(addresses, sizeof(addresses));
    return GY_FAIL_NATIVE(status, refused != NULL ? CUDA_ERROR_OUT_OF_MEMORY : 0,
                          "heap: no room for %zu bytes of %s memory: %" PRIu64 " bytes are taken, %" PRIu64
                          " in use, the largest free piece is %" PRIu64 ", the limit is %zu%s%s%s%s%s%s",
                          bytes, gy_kind_name(kind), stats.slab_bytes, stats.used_bytes, stats.largest_free,
                          limit, limit == 0 ? " (none)" : "", waiting, text,
                          refused != NULL ? "; CUDA_ERROR_OUT_OF_MEMORY from " : "",
                          refused != NULL ? refused : "", refused != NULL ? addresses : "");
}

static gantry_status attempt(gantry_heap *heap, const struct gy_heap_request *request, uintptr_t *out)
{
    struct gy_kind *kind = &heap->kinds[request->kind];
    return request->stream != NULL
               ? gy_heap_streams_alloc(&kind->streams, request->stream, request->bytes, request->alignment,
                                       request->site, out)
               : gy_kind_alloc(kind, request->bytes, request->alignment, request->site, out);
}

/* Wait for what was freed first on streams.  True: some of it is free now. */
static bool free_waiting(gantry_heap *heap, const struct gy_heap_request *request)
{
    struct gy_heap_streams *streams = &heap->kinds[request->kind].streams;
    uint64_t begin_ns = gy_clock_ns();
    (void)gy_park_flush(&heap->kinds[request->kind].park); /* what is in laps waits, too */
    gy_heap_streams_want(streams, request->stream);
    const bool any = gy_heap_streams_wait(streams, UINT64_MAX);
    if (any) {
        gy_kind_note_stall(&heap->kinds[request->kind], GANTRY_HEAP_STALL_GPU, begin_ns);
    }
    return any;
}

/* Rounds without progress before a thread gives up.  Each of them may have waited for the GPU. */
#define MOST_FRUITLESS 64u

/* What a thread has seen that frees what it can, and tries again. */
struct rounds {
    uint64_t least[GANTRY_MEMORY_KIND_COUNT]; /* the fewest bytes that were in use, or waited for a stream */
    unsigned fruitless;                       /* rounds after which no kind had fewer than ever */
};

/* Has something come of the last round?  Other threads may free and take for ever, and never leave room.
 * What waits is freed in its order, of whatever kind it is. */
static bool goes_on(gantry_heap *heap, struct rounds *rounds)
{
    bool is_progress = false;
    for (int i = 0; i < GANTRY_MEMORY_KIND_COUNT; i++) {
        gantry_heap_stats stats;
        gy_kind_stats(&heap->kinds[i], &stats);
        const uint64_t held = stats.used_bytes + stats.waiting_bytes;
        is_progress |= held < rounds->least[i];
        rounds->least[i] = held < rounds->least[i] ? held : rounds->least[i];
    }
    rounds->fruitless += !is_progress;
    return rounds->fruitless < MOST_FRUITLESS;
}

/* Allocate for a kind that has no room, even after it gave back what it could by itself. */
__attribute__((noinline, cold)) static gantry_status alloc_at_last(gantry_heap *heap,
                                                                   const struct gy_heap_request *request,
                                                                   gantry_status first, uintptr_t *out)
{
    gantry_memory_kind kind = request->kind;
    gantry_status status = first;
    bool any = true;
    struct rounds rounds = {{UINT64_MAX, UINT64_MAX, UINT64_MAX, UINT64_MAX}, 0};
    while (gy_is_exhausted(status) && any && goes_on(heap, &rounds)) {
        any = free_pending(heap, kind);
        any = free_waiting(heap, request) || any;
        /* Try again even if nothing was freed: what was pending may have been freed since the last attempt.
         */
        status = attempt(heap, request, out);
    }
    if (gy_is_exhausted(status) && heap->out_of_memory != NULL) {
        uint64_t begin_ns = gy_clock_ns();
        const struct gy_inside *inside = gy_outside_begin();
        bool again = heap->out_of_memory(heap->out_of_memory_user, heap, kind, request->bytes);
        gy_outside_end_of(inside, "the out-of-memory callback");
        gy_kind_note_stall(&heap->kinds[kind], GANTRY_HEAP_STALL_CALLBACK, begin_ns);
        status = again ? attempt(heap, request, out) : status;
    }
    if (gy_is_exhausted(status)) {
        gy_heap_note_exhausted(heap);
        status = gy_heap_fail_exhausted(heap, kind, request->bytes, status);
        if (kind != GANTRY_MEMORY_HOST) {
            gy_context_note_out_of_memory(heap->context, gy_error_last());
        }
        return status;
    }
    (void)gy_backing_refused(); /* this is not the cause of a later failure */
    return status;
}

/* ---- blocks ---- */

static inline gantry_status alloc_block(gantry_heap *heap, const struct gy_heap_request *request,
                                        uintptr_t *out)
{
    gantry_status status = attempt(heap, request, out);
    return __builtin_expect(gy_is_exhausted(status), 0) ? alloc_at_last(heap, request, status, out) : status;
}

/* Allocate with guard bytes, if there are to be any: they are allocated, but not part of the block. */
static GY_COLD gantry_status alloc_checked(gantry_heap *heap, const struct gy_heap_request *request,
                                           uintptr_t *out)
{
    size_t bytes = request->bytes;
    size_t guard = bytes <= SIZE_MAX - heap->guard_bytes ? heap->guard_bytes : 0;
    struct gy_heap_request larger = *request;
    larger.bytes += guard;
    larger.stream = NULL; /* waiting memory is filled with a pattern only when its stream has passed */
    gantry_status status = alloc_block(heap, &larger, out);
    if (status == GANTRY_OK) {
        struct gy_visited block = {*out, bytes, request->site};
        if (guard != 0) {
            gy_kind_set_size(&heap->kinds[request->kind], *out, bytes + guard, bytes);
        }
        gy_check_allocated(heap->check, request->kind, &block);
    }
    return status;
}

gantry_status gy_heap_alloc_block(gantry_heap *heap, const struct gy_heap_request *request, uintptr_t *out)
{
    return __builtin_expect(heap->check != NULL, 0) ? alloc_checked(heap, request, out)
                                                    : alloc_block(heap, request, out);
}

gantry_status gy_heap_check_request(const gantry_heap *heap, const char *call, gantry_memory_kind kind,
                                    size_t bytes, size_t alignment, const void *out)
{
    if (heap == NULL || out == NULL) {
        return GY_FAIL(GANTRY_ERR_INVALID_ARGUMENT, "%s: %s is NULL", call, heap == NULL ? "heap" : "out");
    }
    if ((unsigned)kind >= GANTRY_MEMORY_KIND_COUNT) {
        return GY_FAIL(GANTRY_ERR_INVALID_ARGUMENT, "%s: unknown memory kind %d", call, (int)kind);
    }
    if (bytes == 0) {
        return GY_FAIL(GANTRY_ERR_INVALID_ARGUMENT, "%s: 0 bytes", call);
    }
    if ((alignment & (alignment - 1)) != 0 || alignment > MOST_ALIGNMENT) {
        return GY_FAIL(GANTRY_ERR_INVALID_ARGUMENT, "%s: alignment %zu is not a power of two up to 2 MiB",
                       call, alignment);
    }
    return GANTRY_OK;
}

gantry_status gantry_heap_alloc(gantry_heap *heap, gantry_memory_kind kind, size_t bytes, size_t alignment,
                                gantry_alloc_site site, void **out)
{
    GY_ACCEPT(HEAP, heap);
    gantry_status status = gy_heap_check_request(heap, "gantry_heap_alloc", kind, bytes, alignment, out);
    if (status != GANTRY_OK) {
        return status;
    }
    uint32_t number;
    uintptr_t address;
    if (!gy_sites_number(&heap->sites, &site, &number)) {
        return GY_FAIL(GANTRY_ERR_OUT_OF_HOST_MEMORY, "heap: no memory for its bookkeeping");
    }
    struct gy_heap_request request = {kind, bytes, alignment > LEAST_ALIGNMENT ? alignment : LEAST_ALIGNMENT,
                                      number, NULL};
    status = gy_heap_alloc_block(heap, &request, &address);
    if (status == GANTRY_OK) {
        *out = (void *)address;
    }
    return status;
}

gantry_status gy_heap_fail_not_found(gantry_heap *heap, const char *call, const void *pointer)
{
    struct gy_heap_region *region = heap != NULL ? gy_granules_find(&heap->map, (uintptr_t)pointer) : NULL;
    if (region == NULL) {
        return GY_FAIL(GANTRY_ERR_NOT_FOUND,
                       "%s: %p is not a live block of this heap: it is memory of somebody else", call,
                       pointer);
    }
    const char *kind = gy_kind_name(region->kind);
    struct gy_visited block;
    if (gy_kind_block_at(&heap->kinds[region->kind], region, (uintptr_t)pointer, &block)) {
        gantry_alloc_site where = gy_sites_where(&heap->sites, block.site);
        return GY_FAIL(GANTRY_ERR_NOT_FOUND,
                       "%s: %p is not a live block of this heap: it lies %zu bytes into a %s block (%s, from "
                       "%s:%d)",
                       call, pointer, (size_t)((uintptr_t)pointer - block.base), kind, gy_site_tag(&where),
                       gy_site_file(&where), where.line);
    }
    if (heap->check != NULL && gy_check_remember(heap->check, (uintptr_t)pointer, &block)) {
        gantry_alloc_site where = gy_sites_where(&heap->sites, block.site);
        return GY_FAIL(
            GANTRY_ERR_NOT_FOUND,
            "%s: %p is not a live block of this heap: the %s block (%zu bytes, %s, from %s:%d) was "
            "freed before",
            call, pointer, kind, block.bytes, gy_site_tag(&where), gy_site_file(&where), where.line);
    }
    return GY_FAIL(GANTRY_ERR_NOT_FOUND,
                   "%s: %p is not a live block of this heap: nothing starts there in its %s memory (freed "
                   "before?)",
                   call, pointer, kind);
}

static void check_freeing(gantry_heap *heap, struct gy_heap_region *region, uintptr_t address)
{
    struct gy_visited block;
    if (gy_kind_block_at(&heap->kinds[region->kind], region, address, &block) && block.base == address) {
        gy_check_freeing(heap->check, region->kind, &block);
        if (heap->guard_bytes != 0) { /* the guard bytes go back with it */
            gy_kind_set_size(&heap->kinds[region->kind], address, block.bytes,
                             block.bytes + heap->guard_bytes);
        }
    }
}

gantry_status gantry_heap_free(gantry_heap *heap, void *pointer)
{
    GY_ACCEPT(HEAP, heap);
    if (pointer == NULL) {
        return GANTRY_OK;
    }
    struct gy_heap_region *region = heap != NULL ? gy_granules_find(&heap->map, (uintptr_t)pointer) : NULL;
    if (region != NULL && __builtin_expect(heap->check != NULL, 0)) {
        check_freeing(heap, region, (uintptr_t)pointer);
    }
    if (region == NULL || !gy_kind_free(&heap->kinds[region->kind], region, (uintptr_t)pointer)) {
        return gy_heap_fail_not_found(heap, "gantry_heap_free", pointer);
    }
    return GANTRY_OK;
}

gantry_status gy_heap_claim(gantry_heap *heap, void *pointer, const char *call, struct gy_heap_claim *out)
{
    struct gy_heap_region *region = gy_granules_find(&heap->map, (uintptr_t)pointer);
    struct gy_claim claim;
    if (region == NULL || !gy_kind_claim(&heap->kinds[region->kind], region, (uintptr_t)pointer, &claim)) {
        return gy_heap_fail_not_found(heap, call, pointer);
    }
    *out = (struct gy_heap_claim){region->kind, claim.range, claim.address, claim.record};
    return GANTRY_OK;
}

static struct gy_claim claim_of(const struct gy_heap_claim *claim)
{
    return (struct gy_claim){claim->range, claim->address, claim->record};
}

static struct gy_visited visited_of(const struct gy_heap_claim *claim)
{
    const struct gy_range *range = claim->range;
    return range != NULL
               ? (struct gy_visited){claim->address, gy_range_requested(range), gy_range_site(range)}
               : (struct gy_visited){claim->address, gy_record_size(claim->record),
                                     gy_record_site(claim->record)};
}

void gy_heap_free_claimed(gantry_heap *heap, const struct gy_heap_claim *claim)
{
    struct gy_claim inner = claim_of(claim);
    if (__builtin_expect(heap->check != NULL, 0)) {
        struct gy_visited block = visited_of(claim);
        gy_check_freeing(heap->check, claim->kind, &block);
    }
    gy_kind_free_claimed(&heap->kinds[claim->kind], &inner);
}

bool gy_heap_reuse(gantry_heap *heap, const struct gy_heap_claim *claim, gantry_memory_kind kind,
                   size_t bytes, size_t alignment, const gantry_alloc_site *site)
{
    uint32_t number;
    struct gy_claim inner = claim_of(claim);
    alignment = alignment > LEAST_ALIGNMENT ? alignment : LEAST_ALIGNMENT;
    /* Guard bytes cannot be written into memory that earlier work may still use. */
    if (__builtin_expect(heap->guard_bytes != 0, 0) && visited_of(claim).bytes != bytes) {
        return false;
    }
    return claim->kind == kind && gy_sites_number(&heap->sites, site, &number) &&
           gy_kind_reuse(&heap->kinds[kind], &inner, bytes, alignment, number);
}

static GY_COLD gantry_status resize_checked(gantry_heap *heap, struct gy_heap_region *region,
                                            uintptr_t address, size_t bytes)
{
    struct gy_kind *kind = &heap->kinds[region->kind];
    struct gy_visited block;
    size_t guard = bytes <= SIZE_MAX - heap->guard_bytes ? heap->guard_bytes : 0;
    if (!gy_kind_block_at(kind, region, address, &block) || block.base != address) {
        return GANTRY_ERR_NOT_FOUND;
    }
    gy_check_resizing(heap->check, region->kind, &block);
    gantry_status status = gy_kind_resize(kind, region, address, bytes + guard);
    if (status == GANTRY_OK) {
        gy_kind_set_size(kind, address, bytes + guard, bytes);
        block.bytes = bytes;
    }
    gy_check_resized(heap->check, region->kind, &block); /* this is the old size if it was not changed */
    return status;
}

gantry_status gantry_heap_resize(gantry_heap *heap, void *pointer, size_t bytes)
{
    GY_ACCEPT(HEAP, heap);
    if (bytes == 0) {
        return GY_FAIL(GANTRY_ERR_INVALID_ARGUMENT, "gantry_heap_resize: 0 bytes");
    }
    struct gy_heap_region *region = heap != NULL ? gy_granules_find(&heap->map, (uintptr_t)pointer) : NULL;
    gantry_status status = GANTRY_ERR_NOT_FOUND;
    if (region != NULL && __builtin_expect(heap->check != NULL, 0)) {
        status = resize_checked(heap, region, (uintptr_t)pointer, bytes);
    } else if (region != NULL) {
        status = gy_kind_resize(&heap->kinds[region->kind], region, (uintptr_t)pointer, bytes);
    }
    switch (status) {
    case GANTRY_OK:
        return GANTRY_OK;
    case GANTRY_ERR_NOT_FOUND:
        return gy_heap_fail_not_found(heap, "gantry_heap_resize", pointer);
    case GANTRY_ERR_UNSUPPORTED:
        return GY_FAIL(status, "gantry_heap_resize: %p cannot have %zu bytes in place", pointer, bytes);
    default:
        return GY_FAIL(status, "heap: no memory for its bookkeeping");
    }
}

gantry_status gantry_heap_device_address(gantry_heap *heap, const void *host, void **out)
{
    GY_ACCEPT(HEAP, heap);
    if (heap == NULL || out == NULL) {
        return GY_FAIL(GANTRY_ERR_INVALID_ARGUMENT, "gantry_heap_device_address: %s is NULL",
                       heap == NULL ? "heap" : "out");
    }
    struct gy_heap_region *region = gy_granules_find(&heap->map, (uintptr_t)host);
    if (region == NULL ||
        (region->kind != GANTRY_MEMORY_PINNED && region->kind != GANTRY_MEMORY_WRITE_COMBINED) ||
        !gy_kind_contain(&heap->kinds[region->kind], region, (uintptr_t)host)) {
        return GY_FAIL(GANTRY_ERR_NOT_FOUND,
                       "gantry_heap_device_address: %p is in no page-locked block of this heap%s%s%s", host,
                       region != NULL ? ", but in its " : "",
                       region != NULL ? gy_kind_name(region->kind) : "", region != NULL ? " memory" : "");
    }
    const struct gy_backing *backing = &region->slab->backing;
    *out = (void *)(backing->device_base + ((uintptr_t)host - backing->base));
    return GANTRY_OK;
}
