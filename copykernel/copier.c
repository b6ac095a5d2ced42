/* SPDX-License-Identifier: MIT */
/* Batched copies: from the caller's descriptors to one kernel launch.
 *
 *   check (plan.c)      what can be told from the descriptors alone
 *   resolve (address.c) which memory they mean, as the device sees it
 *   overlap (plan.c)    dest against dest and source; a queue is cut there instead
 *   merge (plan.c)      neighbours that continue each other
 *   choose (tuning.c)   the copy engines: one call per item; or the kernel:
 *   divide (divide.c)   pieces, and units of equal cost
 *   pack                into the kernel's parameters when it fits, else into pinned memory (ring.c)
 *   launch
 *
 * Nothing is launched before everything is checked.  All state except the tuning belongs to the dispatcher's
 * thread, which is the only one that launches.  Scratch memory grows to the largest batch seen and is then
 * used again. */
#include "copykernel/copier.h"

#include "base/alloc.h"
#include "base/options.h"
#include "copykernel/address.h"
#include "copykernel/between.h"
#include "copykernel/internal.h"
#include "copykernel/queue.h"
#include "copykernel/tuning.h"
#include "driver/module.h"
#include "profile/cta.h"
#include "profile/kernel_names.h"

#include <copy_kernels.kernels.h>

#include <assert.h>
#include <stdio.h>

/* The number of warps of 64 registers per thread that a multiprocessor runs at the same time. */
enum { WARPS_PER_MULTIPROCESSOR = 32 };
/* Up to this many descriptors are turned into items, whatever they are. */
enum { LONG_WAY = 256 };
/* The most bytes of one copy with a grid of its own: a grid has fewer than 2^31 blocks. */
#define MOST_OF_ONE ((uint64_t)GY_COPY_TILE * INT32_MAX)

static gantry_status find_kernels(struct gy_copier *copier)
{
    static const char *const names[GY_COPY_FORMS] = {
        "gantry_copy_few",         "gantry_copy_inline", "gantry_copy_many",         "gantry_copy_plain",
        "gantry_copy_table",       "gantry_copy_arrays", "gantry_copy_arrays_large", "gantry_copy_descs",
        "gantry_copy_descs_large", "gantry_copy_one",    "gantry_copy_rows"};
    for (int i = 0; i < GY_COPY_FORMS; i++) {
        struct gantry_kernel *kernel, *twin = NULL;
        char name[64];
        snprintf(name, sizeof(name), "%s_seen", names[i]);
        gantry_status status = gy_module_kernel(copier->module, names[i], &kernel);
        if (status == GANTRY_OK) {
            status = gy_module_kernel(copier->module, name, &twin);
        }
        if (status != GANTRY_OK) {
            return status;
        }
        copier->kernels[i] = kernel;
        copier->seen[i] = twin;
    }
    const struct gy_context *context = copier->context;
    copier->takes_many = !context->driver->emulated && gantry_image_copy_kernels.fatbin != NULL &&
                         context->driver->version >= 12010;
    int greatest;
    return GY_CALL(copier->context, cuCtxGetStreamPriorityRange(&copier->least_priority, &greatest));
}

gantry_status gy_copier_create(struct gy_context *context, gantry_heap *heap, struct gy_copier **out)
{
    struct gy_copier *copier = gy_zalloc(sizeof(*copier));
    if (copier == NULL) {
        return GY_FAIL(GANTRY_ERR_OUT_OF_HOST_MEMORY, "out of memory for the copier");
    }
    copier->context = context;
    copier->heap = heap;
    gy_copy_tuning_defaults(&copier->tuning);
    gantry_status status = gy_copy_ring_init(&copier->ring, context, heap, GANTRY_MEMORY_PINNED,
                                             sizeof(struct gy_copy_counters));
    if (status != GANTRY_OK) {
        goto free_copier;
    }
    status = gy_copy_ring_init(&copier->scratch, context, heap, GANTRY_MEMORY_DEVICE,
                               sizeof(struct gy_copy_large));
    if (status != GANTRY_OK) {
        goto fini_ring;
    }
    status = gy_module_load(context, &gantry_image_copy_kernels, &copier->module);
    if (status != GANTRY_OK) {
        goto fini_scratch;
    }
    status = find_kernels(copier);
    if (status != GANTRY_OK) {
        goto unload_module;
    }
    gy_mutex_init(&copier->lock, GY_RANK_LEAF);
    *out = copier;
    return GANTRY_OK;
unload_module:
    gy_module_unload(copier->module);
fini_scratch:
    gy_copy_ring_fini(&copier->scratch);
fini_ring:
    gy_copy_ring_fini(&copier->ring);
free_copier:
    gy_free(copier);
    return status;
}

/* Take the chunks of graphs that are no longer kept. */
static void take_returned(struct gy_copier *copier)
{
    struct gy_copy_chunk *chunk = atomic_exchange_explicit(&copier->returned, NULL, memory_order_acquire);
    while (chunk != NULL) {
        struct gy_copy_chunk *next = chunk->next;
        gy_copy_ring_returned(chunk);
        chunk = next;
    }
}

void gy_copier_destroy(struct gy_copier *copier)
{
    if (copier == NULL) {
        return;
    }
    gy_mutex_fini(&copier->lock);
    take_returned(copier);
    gy_copy_ring_fini(&copier->scratch);
    gy_copy_ring_fini(&copier->ring);
    gy_module_unload(copier->module);
    gy_free(copier->places.bits);
    gy_free(copier->ranges);
    gy_free(copier->items);
    gy_free(copier);
}

/* ---- tuning -------------------------------------------------------------------------------------- */

gantry_copy_tuning gy_copier_tuning(struct gy_copier *copier)
{
    gy_mutex_lock(&copier->lock);
    gantry_copy_tuning tuning = copier->tuning;
    gy_mutex_unlock(&copier->lock);
    return tuning;
}

gantry_status gy_copier_set_tuning(struct gy_copier *copier, const gantry_copy_tuning *tuning)
{
    if (tuning == NULL) {
        return GY_FAIL(GANTRY_ERR_INVALID_ARGUMENT, "copy tuning: NULL");
    }
    gantry_copy_tuning ours = {0};
    gantry_status status = gy_options_import(&ours, sizeof(ours), tuning,
                                             offsetof(gantry_copy_tuning, host_threads), "copy tuning");
    if (status != GANTRY_OK) {
        return status;
    }
    ours.struct_size = sizeof(ours);
    status = gy_copy_tuning_complete(&ours);
    if (status != GANTRY_OK) {
        return status;
    }
    gy_mutex_lock(&copier->lock);
    copier->tuning = ours;
    gy_mutex_unlock(&copier->lock);
    return GANTRY_OK;
}

/* ---- the kernel ---------------------------------------------------------------------------------- */

/* Make room for `count` descriptors. */
static gantry_status reserve(struct gy_copier *copier, size_t count)
{
    if (count <= copier->room) {
        return GANTRY_OK;
    }
    size_t room = copier->room != 0 ? copier->room : 64;
    while (room < count) {
        room *= 2;
    }
    struct gy_copy_item *items = gy_zalloc_array(room, sizeof(*items));
    struct gy_copy_range *ranges = gy_zalloc_array(2 * room, sizeof(*ranges));
    if (items == NULL || ranges == NULL) {
        gy_free(items);
        gy_free(ranges);
        return GY_FAIL(GANTRY_ERR_OUT_OF_HOST_MEMORY, "out of memory for %zu copy descriptors", count);
    }
    gy_free(copier->items);
    gy_free(copier->ranges);
    copier->items = items;
    copier->ranges = ranges;
    copier->room = room;
    return GANTRY_OK;
}

/* The number of blocks of `warps` warps for this many units. */
static uint32_t blocks_for(uint32_t units, uint32_t warps, uint32_t most)
{
    uint32_t blocks = (units + warps - 1) / warps;
    return most != 0 && blocks > most ? most : blocks;
}

/* The grid for a plan. */
struct geometry {
    struct gy_copy_shape shape;
    uint32_t blocks, threads;
};

/* The most blocks of each group. */
static void limits_of(const gantry_copy_tuning *tuning, uint32_t *most)
{
    most[GY_COPY_FROM_HOST] = tuning->host_blocks;
    most[GY_COPY_TO_HOST] = tuning->dtoh_blocks;
    most[GY_COPY_WITHIN] = tuning->device_blocks;
}

static struct geometry shape_of(const gantry_copy_tuning *tuning, const struct gy_copy_plan *plan)
{
    struct geometry g = {.threads = GY_COPY_BLOCK};
    uint32_t most[GY_COPY_GROUPS], units[GY_COPY_GROUPS];
    limits_of(tuning, most);
    for (uint32_t i = 0; i < GY_COPY_GROUPS; i++) {
        units[i] = plan->ends[i] - (i > 0 ? plan->ends[i - 1] : 0);
    }
    /* Limited blocks must be big to have enough in flight, if there is enough to do. */
    const uint32_t warps_of_plain = GY_COPY_BLOCK / 32;
    if (units[GY_COPY_FROM_HOST] > most[GY_COPY_FROM_HOST] * warps_of_plain ||
        units[GY_COPY_TO_HOST] > most[GY_COPY_TO_HOST] * warps_of_plain) {
        g.threads = tuning->host_threads;
    } else if (plan->ends[GY_COPY_TO_HOST] == 0 && tuning->device_blocks != 0) {
        g.threads = GY_COPY_BIG_BLOCK;
    }
    uint32_t warps = g.threads / 32;
    g.shape.starts = 2 * (plan->pieces + plan->patterns);
    g.shape.wide = plan->wide;
    for (uint32_t i = 0; i < GY_COPY_GROUPS; i++) {
        g.shape.ends[i] = plan->ends[i];
        g.shape.blocks[i] = blocks_for(units[i], plan->wide ? 1 : warps, most[i]);
        g.blocks += g.shape.blocks[i];
    }
    g.shape.blocks[GY_COPY_WITHIN] = tuning->device_blocks != 0 ? g.shape.blocks[GY_COPY_WITHIN] : 0;
    return g;
}

/* The memory where the blocks of the launch leave their records; NULL: they are not recorded, or there is no
 * room. */
static void *records_for(const struct gy_copy_way *way, uint32_t blocks)
{
    if (__builtin_expect(way->ctas == NULL, 1)) {
        return NULL;
    }
    struct gy_cta_request request = *way->request;
    request.kernel = GY_KERNEL_COPIES;
    request.ctas = blocks;
    if (way->copies != NULL) {
        request.copies = *way->copies;
    }
    return gy_cta_reserve(way->ctas, &request);
}

gantry_status gy_copier_launch_kernel(struct gy_copier *copier, const struct gy_copy_way *way,
                                      const struct gy_copy_grid *g, void **arguments, uint32_t count)
{
    uint32_t number = GY_KERNEL_COPIES;
    void *records = records_for(way, g->blocks);
    struct gantry_kernel *kernel = records != NULL ? copier->seen[g->form] : copier->kernels[g->form];
    const bool is_low = way->low_priority && copier->context->driver->cuLaunchKernelEx != NULL;
    arguments[count] = &records;
    arguments[count + 1] = &number;
    const struct gy_launch_size size = {{g->blocks, 1, 1}, {g->threads, 1, 1}, 0};
    const struct gy_launch_extra low = {.has_priority = true, .priority = copier->least_priority};
    gantry_status status;
    if (way->lane != NULL) {
        status = gy_lane_kernel(way->lane, kernel, &size, arguments, is_low ? &low : NULL);
    } else if (!is_low) {
        status = GY_CALL(copier->context, cuLaunchKernel(kernel->function, g->blocks, 1, 1, g->threads, 1, 1,
                                                         0, way->stream, arguments, NULL));
    } else {
        status = gy_context_check(
            copier->context,
            gy_launch_with(copier->context->driver, kernel->function, &size, &low, way->stream, arguments),
            "cuLaunchKernelEx()", __FILE__, __LINE__);
    }
    if (status == GANTRY_OK && way->went != NULL) {
        way->went->kernels++;
    }
    return status;
}

/* Launch the batch that is in copier->parameters. */
static gantry_status launch_parameters(struct gy_copier *copier, const struct gy_copy_way *way,
                                       enum gy_copy_form form, const struct geometry *g)
{
    static const size_t shape_at[] = {offsetof(struct gy_copy_few, shape),
                                      offsetof(struct gy_copy_inline, shape),
                                      offsetof(struct gy_copy_many, shape)};
    uint64_t *words = copier->parameters.words;
    memcpy((char *)words + shape_at[form], &g->shape, sizeof(g->shape));
    void *arguments[3] = {words};
    const struct gy_copy_grid grid = {form, g->blocks, g->threads};
    return gy_copier_launch_kernel(copier, way, &grid, arguments, 1);
}

static gantry_status launch_inline(struct gy_copier *copier, const struct gy_copy_way *way,
                                   enum gy_copy_form form, size_t count, const struct gy_copy_plan *plan,
                                   const struct geometry *g)
{
    gy_copy_pack(copier->items, count, plan, copier->parameters.words);
    return launch_parameters(copier, way, form, g);
}

/* While a stream is captured, by whomever, only relaxed mode permits taking memory and asking for older
 * events. */
gantry_status gy_copier_take_chunk(struct gy_copier *copier, struct gy_copy_ring *ring, size_t bytes,
                                   struct gy_copy_chunk **out)
{
    take_returned(copier);
    const struct gy_relaxed relaxed = gy_relaxed_begin(copier->context);
    if (relaxed.status != GANTRY_OK) {
        return relaxed.status;
    }
    const gantry_status status = gy_copy_ring_take(ring, bytes, out);
    const gantry_status back = gy_relaxed_end(copier->context, &relaxed);
    if (status == GANTRY_OK && back != GANTRY_OK) {
        gy_copy_ring_give_back(ring, *out);
        return back;
    }
    return status;
}

gantry_status gy_copier_chunk_launched(struct gy_copier *copier, struct gy_copy_ring *ring,
                                       struct gy_copy_chunk *chunk, CUstream stream)
{
    if (copier->use == GY_COPIER_FOR_GRAPH) {
        gy_copy_ring_captured(ring, chunk);
        return GANTRY_OK;
    }
    return gy_copy_ring_launched(ring, chunk, stream);
}

/* Launch the batch that is in the chunk, which is given back when nothing was launched. */
static gantry_status launch_chunk(struct gy_copier *copier, const struct gy_copy_way *way,
                                  struct gy_copy_chunk *chunk, const struct geometry *g)
{
    struct gy_copy_shape shape = g->shape;
    void *arguments[5] = {&chunk->device, &shape, &chunk->counters};
    const struct gy_copy_grid grid = {g->threads == GY_COPY_BLOCK ? GY_COPY_FORM_PLAIN : GY_COPY_FORM_TABLE,
                                      g->blocks, g->threads};
    gantry_status status = gy_copier_launch_kernel(copier, way, &grid, arguments, 3);
    if (status != GANTRY_OK) {
        gy_copy_ring_give_back(&copier->ring, chunk);
        return status;
    }
    return gy_copier_chunk_launched(copier, &copier->ring, chunk, way->stream);
}

static gantry_status launch_table(struct gy_copier *copier, const struct gy_copy_way *way, size_t count,
                                  const struct gy_copy_plan *plan, const struct geometry *g)
{
    struct gy_copy_chunk *chunk;
    gantry_status status =
        gy_copier_take_chunk(copier, &copier->ring, plan->words * sizeof(uint64_t), &chunk);
    if (status != GANTRY_OK) {
        return status;
    }
    gy_copy_pack(copier->items, count, plan, chunk->host);
    return launch_chunk(copier, way, chunk, g);
}

static struct gy_copy_budget budget_of(const struct gy_copy_way *way)
{
    const gantry_copy_tuning *tuning = &way->tuning;
    const uint32_t host_warps = tuning->host_threads / 32;
    const uint32_t blocks = tuning->device_blocks != 0 ? tuning->device_blocks : way->multiprocessors;
    return (struct gy_copy_budget){{tuning->host_blocks * host_warps, tuning->dtoh_blocks * host_warps,
                                    blocks * WARPS_PER_MULTIPROCESSOR},
                                   tuning->device_blocks != 0};
}

static gantry_status launch_items(struct gy_copier *copier, size_t count, const struct gy_copy_way *way)
{
    const gantry_copy_tuning *tuning = &way->tuning;
    const struct gy_copy_budget budget = budget_of(way);
    struct gy_copy_plan plan;
    gantry_status status = gy_copy_measure(copier->items, count, &budget, &plan);
    if (status != GANTRY_OK) {
        return status;
    }
    struct geometry g = shape_of(tuning, &plan);
    if (plan.words <= GY_COPY_FEW_WORDS) {
        return launch_inline(copier, way, GY_COPY_FORM_FEW, count, &plan, &g);
    }
    if (plan.words <= GY_COPY_INLINE_WORDS) {
        return launch_inline(copier, way, GY_COPY_FORM_INLINE, count, &plan, &g);
    }
    if (plan.words <= GY_COPY_MANY_WORDS && copier->takes_many) {
        return launch_inline(copier, way, GY_COPY_FORM_MANY, count, &plan, &g);
    }
    return launch_table(copier, way, count, &plan, &g);
}

/* Launch a usual batch straight from the descriptors; it is too large for the shorter forms. */
static gantry_status launch_scan(struct gy_copier *copier, const gantry_copy_desc *descs, size_t count,
                                 const struct gy_copy_scan *scan, const struct gy_copy_way *way)
{
    const struct gy_copy_budget budget = budget_of(way);
    struct gy_copy_plan plan;
    struct gy_copy_chunk *chunk;
    gantry_status status = gy_copy_measure_scan(scan, &budget, &plan);
    if (status != GANTRY_OK) {
        return status;
    }
    if (plan.words <= GY_COPY_MANY_WORDS && copier->takes_many) {
        gy_copy_pack_scan(descs, count, scan, &plan, copier->parameters.words);
        const struct geometry g = shape_of(&way->tuning, &plan);
        return launch_parameters(copier, way, GY_COPY_FORM_MANY, &g);
    }
    status = gy_copier_take_chunk(copier, &copier->ring, plan.words * sizeof(uint64_t), &chunk);
    if (status != GANTRY_OK) {
        return status;
    }
    gy_copy_pack_scan(descs, count, scan, &plan, chunk->host);
    const struct geometry g = shape_of(&way->tuning, &plan);
    return launch_chunk(copier, way, chunk, &g);
}

/* ---- batches ------------------------------------------------------------------------------------- */

/* Launch one large copy, of which each block does a tile. */
static gantry_status launch_one(struct gy_copier *copier, const struct gy_copy_item *item,
                                const struct gy_copy_way *way)
{
    uint64_t dest = item->dest, source = item->source, bytes = item->bytes;
    const uint64_t tiles = (bytes + dest % 128 + GY_COPY_TILE - 1) / GY_COPY_TILE;
    void *arguments[5] = {&dest, &source, &bytes};
    const struct gy_copy_grid grid = {GY_COPY_FORM_ONE, (uint32_t)tiles, GY_COPY_BLOCK};
    return gy_copier_launch_kernel(copier, way, &grid, arguments, 3);
}

static enum gy_node_sides sides_of(const struct gy_copy_item *item)
{
    static const enum gy_node_sides sides[] = {[GY_COPY_FROM_HOST] = GY_SIDES_TO_DEVICE,
                                               [GY_COPY_TO_HOST] = GY_SIDES_TO_HOST,
                                               [GY_COPY_WITHIN] = GY_SIDES_ON_DEVICE};
    return item->is_peer ? GY_SIDES_UNKNOWN
                         : sides[item->group]; /* a driver lets no node change its device */
}

/* Launch the engines' batch, except for copies that they are slow with. */
static gantry_status launch_engine(struct gy_copier *copier, const struct gy_copy_way *way, size_t count)
{
    gantry_status status = GANTRY_OK;
    const bool by_alignment =
        way->tuning.misaligned != GANTRY_COPY_MISALIGNED_ENGINE && way->tuning.device_blocks == 0;
    for (size_t i = 0; i < count && status == GANTRY_OK; i++) {
        const struct gy_copy_item *item = &copier->items[i];
        const bool is_odd = item->group == GY_COPY_WITHIN && (item->dest ^ item->source) % 16 != 0;
        if (is_odd && by_alignment && item->bytes <= MOST_OF_ONE) {
            status = launch_one(copier, item, way);
        } else if (way->lane != NULL) {
            status = gy_lane_copy(way->lane, item->dest, item->source, (size_t)item->bytes, sides_of(item));
        } else {
            status = GY_CALL(copier->context,
                             cuMemcpyAsync(item->dest, item->source, (size_t)item->bytes, way->stream));
        }
    }
    return status;
}

/* The direction of all items, which `descs` have; negative when they differ or one is a fill. */
static int direction_of(const gantry_copy_desc *descs, const struct gy_copy_item *items, size_t count)
{
    gantry_copy_type type = descs[items[0].index].type;
    for (size_t i = 1; i < count; i++) {
        if (descs[items[i].index].type != type) {
            return -1;
        }
    }
    return type != GANTRY_COPY_FILL ? (int)type : -1;
}

/* Launch the first `count` items, which are checked. */
static gantry_status launch_checked(struct gy_copier *copier, const gantry_copy_desc *descs, size_t count,
                                    const struct gy_copy_way *way)
{
    struct gy_copy_between between;
    struct gy_copy_way seen;
    struct gy_cta_copies copies;
    if (__builtin_expect(way->ctas != NULL, 0)) {
        gy_copy_sum_items(copier->items, count, &copies);
        seen = *way;
        seen.copies = &copies;
        way = &seen;
    }
    int direction = direction_of(descs, copier->items, count);
    const bool crosses = gy_copier_find_between(copier, count, way, &between);
    way = crosses ? &between.way : way;
    count = gy_copy_merge(copier->items, count);
    const bool by_engine = gy_copy_prefers_engine(&way->tuning, copier->items, count, direction);
    const gantry_status status =
        by_engine ? launch_engine(copier, way, count) : launch_items(copier, count, way);
    if (crosses && status == GANTRY_OK) {
        gy_copy_note_between(&between, by_engine ? GY_COPY_BY_ENGINE : GY_COPY_BY_KERNEL);
    }
    return status;
}

static gantry_status resolve(struct gy_copier *copier, const gantry_copy_desc *descs, size_t count,
                             bool any_kind, size_t *used)
{
    gantry_status status = gy_copy_check(descs, count);
    if (status == GANTRY_OK) {
        status = reserve(copier, count);
    }
    if (status == GANTRY_OK) {
        status = gy_copy_resolve(copier->context, copier->heap, descs, count, any_kind, copier->items, used);
    }
    return status;
}

gantry_status gy_copier_launch_way(struct gy_copier *copier, const gantry_copy_desc *descs, size_t count,
                                   const struct gy_copy_way *way)
{
    if (count == 0) {
        return GANTRY_OK;
    }
    if (descs == NULL) {
        return GY_FAIL(GANTRY_ERR_INVALID_ARGUMENT, "copy descriptors: NULL");
    }
    struct gy_copy_scan scan;
    if (count > LONG_WAY &&
        gy_copy_scan(copier->context, copier->heap, descs, count, &copier->places, &scan) &&
        !gy_copy_engines_take(&way->tuning, scan.pieces, scan.smallest, (int)scan.type)) {
        struct gy_copy_way seen;
        struct gy_cta_copies copies;
        if (__builtin_expect(way->ctas != NULL, 0)) {
            gy_copy_sum_descs(descs, count, &copies);
            seen = *way;
            seen.copies = &copies;
            way = &seen;
        }
        return launch_scan(copier, descs, count, &scan, way);
    }
    size_t used = 0;
    gantry_status status = resolve(copier, descs, count, false, &used);
    if (status != GANTRY_OK || used == 0) {
        return status;
    }
    status = gy_copy_check_overlap(copier->items, used, copier->ranges);
    return status == GANTRY_OK ? launch_checked(copier, descs, used, way) : status;
}

static uint32_t lesser(uint32_t a, uint32_t b)
{
    return a < b ? a : b;
}

gantry_status gy_copier_make_way(struct gy_copier *copier, const struct gy_copy_target *target,
                                 const gantry_copy_options *options, struct gy_copy_way *way)
{
    gantry_copy_options ours = {0};
    gantry_status status =
        gy_options_import(&ours, sizeof(ours), options, sizeof(gantry_copy_options), "copy options");
    if (status != GANTRY_OK) {
        return status;
    }
    if ((uint32_t)ours.priority > (uint32_t)GANTRY_COPY_PRIORITY_LOW) {
        return GY_FAIL(GANTRY_ERR_INVALID_ARGUMENT, "copy options: priority %u is unknown",
                       (unsigned)ours.priority);
    }
    uint32_t all = copier->context->sms != 0 ? copier->context->sms : 1;
    *way =
        (struct gy_copy_way){.stream = target->stream,
                             .lane = target->lane,
                             .tuning = gy_copier_tuning(copier),
                             .multiprocessors = target->multiprocessors != 0 ? target->multiprocessors : all,
                             .low_priority = ours.priority == GANTRY_COPY_PRIORITY_LOW,
                             .ctas = target->ctas,
                             .request = target->request,
                             .went = target->went};
    gantry_copy_tuning *tuning = &way->tuning;
    tuning->host_blocks = ours.htod_blocks != 0 ? ours.htod_blocks : tuning->host_blocks;
    tuning->dtoh_blocks = ours.dtoh_blocks != 0 ? ours.dtoh_blocks : tuning->dtoh_blocks;
    tuning->device_blocks = ours.device_blocks != 0 ? ours.device_blocks : tuning->device_blocks;
    status = gy_copy_tuning_complete(tuning);
    tuning->host_blocks = lesser(tuning->host_blocks, way->multiprocessors);
    tuning->dtoh_blocks = lesser(tuning->dtoh_blocks, way->multiprocessors);
    tuning->device_blocks = lesser(tuning->device_blocks, way->multiprocessors);
    return status;
}

gantry_status gy_copier_launch(struct gy_copier *copier, const struct gy_copy_target *target,
                               const gantry_copy_desc *descs, size_t count,
                               const gantry_copy_options *options)
{
    struct gy_copy_way way;
    gantry_status status = gy_copier_make_way(copier, target, options, &way);
    return status == GANTRY_OK ? gy_copier_launch_way(copier, descs, count, &way) : status;
}

/* ---- queues -------------------------------------------------------------------------------------- */

static gantry_status check_selves(struct gy_copier *copier, size_t count)
{
    for (size_t i = 0; i < count; i++) {
        gantry_status status = gy_copy_check_overlap(&copier->items[i], 1, copier->ranges);
        if (status != GANTRY_OK) {
            return status;
        }
    }
    return GANTRY_OK;
}

gantry_status gy_copier_flush(struct gy_copier *copier, const struct gy_copy_target *target,
                              gantry_copy_queue *queue, const gantry_copy_options *options)
{
    const gantry_copy_desc *descs = gy_copy_queue_descs(queue);
    size_t count = gantry_copy_queue_count(queue), left = 0, launched = 0;
    struct gy_copy_way way;
    gantry_status status = gy_copier_make_way(copier, target, options, &way);
    if (status == GANTRY_OK && count > 0) {
        status = resolve(copier, descs, count, false, &left);
    }
    if (status == GANTRY_OK) {
        status = check_selves(copier, left);
    }
    while (status == GANTRY_OK && left > 0) {
        size_t together = gy_copy_free_prefix(copier->items, left, copier->ranges);
        size_t upto = together < left ? copier->items[together].index : count;
        status = launch_checked(copier, descs, together, &way);
        if (status == GANTRY_OK) {
            left -= together;
            launched = upto;
            memmove(copier->items, copier->items + together, left * sizeof(*copier->items));
        }
    }
    gy_copy_queue_drop(queue, status == GANTRY_OK ? count : launched);
    return status;
}

/* ---- capture ------------------------------------------------------------------------------------- */

/* The only writer.  A capture that failed to begin is dropped, so STREAM may follow STREAM. */
static void set_use(struct gy_copier *copier, enum gy_copier_use use)
{
    assert(use == GY_COPIER_FOR_STREAM || copier->use == GY_COPIER_FOR_STREAM);
    copier->use = use;
}

void gy_copier_begin_capture(struct gy_copier *copier)
{
    set_use(copier, GY_COPIER_FOR_GRAPH);
}

gantry_status gy_copier_capture_launched(struct gy_copier *copier, CUstream stream)
{
    set_use(copier, GY_COPIER_FOR_STREAM);
    gantry_status status = gy_copy_ring_graph_launched(&copier->ring, stream);
    gantry_status other = gy_copy_ring_graph_launched(&copier->scratch, stream);
    return status != GANTRY_OK ? status : other;
}

gantry_status gy_copier_capture_kept(struct gy_copier *copier, CUstream stream, struct gy_copy_chunk **kept)
{
    set_use(copier, GY_COPIER_FOR_STREAM);
    gantry_status status = gy_copy_ring_graph_kept(&copier->ring, stream, kept);
    gantry_status other = gy_copy_ring_graph_kept(&copier->scratch, stream, kept);
    return status != GANTRY_OK ? status : other;
}

void gy_copier_kept_launched(struct gy_copy_chunk *kept, CUstream stream)
{
    for (struct gy_copy_chunk *chunk = kept; chunk != NULL; chunk = chunk->next) {
        (void)gy_copy_ring_relaunched(chunk, stream); /* a failure is kept in the chunk or the context */
    }
}

void gy_copier_kept_dropped(struct gy_copier *copier, struct gy_copy_chunk **kept)
{
    struct gy_copy_chunk *last = *kept;
    if (last == NULL) {
        return;
    }
    while (last->next != NULL) {
        last = last->next;
    }
    last->next = atomic_load_explicit(&copier->returned, memory_order_relaxed);
    while (!atomic_compare_exchange_weak_explicit(&copier->returned, &last->next, *kept, memory_order_release,
                                                  memory_order_relaxed)) {
    }
    *kept = NULL;
}

void gy_copier_capture_dropped(struct gy_copier *copier)
{
    set_use(copier, GY_COPIER_FOR_STREAM);
    gy_copy_ring_graph_dropped(&copier->ring);
    gy_copy_ring_graph_dropped(&copier->scratch);
}
