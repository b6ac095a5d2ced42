/* How lists that the device reads are launched.  The host knows only their maximum and their place.  The
 * notes that the kernels leave for each other are in the copier's device memory (ring.h). */
#include "copykernel/list.h"

#include "base/alloc.h"
#include "base/options.h"
#include "copykernel/address.h"
#include "copykernel/internal.h"

#include <stdio.h>

enum {
    WARPS = GY_COPY_BLOCK / 32,
    BLOCKS_PER_MULTIPROCESSOR = 3, /* the registers of the kernels allow no more */
    EMULATED_BLOCKS =
        4, /* the emulated device runs blocks one after the other, whether they have work or not */
};

_Static_assert(sizeof(gantry_copy_desc) == sizeof(struct gy_copy_listed) &&
                   offsetof(gantry_copy_desc, type) == offsetof(struct gy_copy_listed, type) &&
                   offsetof(gantry_copy_desc, pattern) == offsetof(struct gy_copy_listed, pattern),
               "the kernels read the caller's descriptors");

/* ---- what the caller says ------------------------------------------------------------------------ */

static gantry_status check_place(const char *name, const void *address, size_t alignment)
{
    if (address == NULL) {
        return GY_FAIL(GANTRY_ERR_INVALID_ARGUMENT, "copy list: %s is NULL", name);
    }
    if ((uintptr_t)address % alignment != 0) {
        return GY_FAIL(GANTRY_ERR_INVALID_ARGUMENT, "copy list: %s %p is not aligned to %zu bytes", name,
                       address, alignment);
    }
    return GANTRY_OK;
}

gantry_status gy_copy_list_import(const gantry_copy_list *theirs, gantry_copy_list *out)
{
    *out = (gantry_copy_list){0};
    if (theirs == NULL) {
        return GY_FAIL(GANTRY_ERR_INVALID_ARGUMENT, "copy list: NULL");
    }
    gantry_status status = gy_options_import(out, offsetof(gantry_copy_list, reserved), theirs,
                                             offsetof(gantry_copy_list, reserved), "copy list");
    if (status != GANTRY_OK || out->most == 0) {
        return status;
    }
    if (out->descs != NULL && (out->dests != NULL || out->sources != NULL || out->bytes != NULL)) {
        return GY_FAIL(GANTRY_ERR_INVALID_ARGUMENT,
                       "copy list: it has both descs and dests, sources or bytes");
    }
    if (out->descs != NULL) {
        status = check_place("descs", out->descs, 8);
    } else {
        status = check_place("dests", out->dests, 8);
        status = status == GANTRY_OK ? check_place("sources", out->sources, 8) : status;
        status = status == GANTRY_OK ? check_place("bytes", out->bytes, 8) : status;
    }
    return status == GANTRY_OK && out->count != NULL ? check_place("count", out->count, 4) : status;
}

/* Find the addresses at which the device sees the list. */
static gantry_status find_arrays(struct gy_copier *copier, const gantry_copy_list *list,
                                 struct gy_copy_list_view *view)
{
    const struct {
        const char *name;
        const void *address;
        uint64_t bytes;
        uint64_t *out;
    } arrays[] = {
        {"descs", list->descs, list->most * sizeof(gantry_copy_desc), &view->descs},
        {"dests", list->dests, list->most * sizeof(void *), &view->dests},
        {"sources", list->sources, list->most * sizeof(void *), &view->sources},
        {"bytes", list->bytes, list->most * sizeof(uint64_t), &view->bytes},
        {"count", list->count, sizeof(uint32_t), &view->count},
    };
    *view = (struct gy_copy_list_view){.most = list->most};
    gantry_status status = GANTRY_OK;
    for (size_t i = 0; i < sizeof(arrays) / sizeof(arrays[0]) && status == GANTRY_OK; i++) {
        if (arrays[i].address != NULL) {
            status = gy_copy_find_list(copier->context, copier->heap, arrays[i].name, arrays[i].address,
                                       arrays[i].bytes, arrays[i].out);
        }
    }
    return status;
}

/* ---- launching ----------------------------------------------------------------------------------- */

static uint32_t lesser(uint32_t a, uint32_t b)
{
    return a < b ? a : b;
}

/* The number of blocks that the device runs at the same time, or that it may have. */
static uint32_t blocks_at_once(const struct gy_copier *copier, const struct gy_copy_way *way)
{
    uint32_t blocks = way->tuning.device_blocks != 0 ? way->tuning.device_blocks
                                                     : way->multiprocessors * BLOCKS_PER_MULTIPROCESSOR;
    return copier->context->driver->emulated ? lesser(blocks, EMULATED_BLOCKS) : blocks;
}

uint32_t gy_copier_list_blocks(const struct gy_copier *copier, const struct gy_copy_way *way, uint32_t most)
{
    const uint32_t at_once = blocks_at_once(copier, way);
    const uint32_t each = most / WARPS + (most % WARPS != 0), full = most / (32 * WARPS) + 1;
    if (way->tuning.device_blocks != 0 || copier->context->driver->emulated) {
        return lesser(each, at_once);
    }
    return lesser(each, full > at_once ? full : at_once);
}

static gantry_status launch_pair(struct gy_copier *copier, const struct gy_copy_way *way,
                                 struct gy_copy_list_view *view, uint32_t *kernels)
{
    const enum gy_copy_form form = view->descs != 0 ? GY_COPY_FORM_DESCS : GY_COPY_FORM_ARRAYS;
    const struct gy_copy_grid grid = {form, gy_copier_list_blocks(copier, way, view->most), GY_COPY_BLOCK};
    const struct gy_copy_grid large = {form + 1, blocks_at_once(copier, way), GY_COPY_BLOCK};
    uint32_t warps = grid.blocks * WARPS;
    void *arguments[3] = {view}, *large_arguments[4] = {view, &warps};
    gantry_status status = gy_copier_launch_kernel(copier, way, &grid, arguments, 1);
    *kernels += status == GANTRY_OK;
    if (status == GANTRY_OK && view->large != 0) {
        status = gy_copier_launch_kernel(copier, way, &large, large_arguments, 2);
        *kernels += status == GANTRY_OK;
    }
    return status;
}

gantry_status gy_copier_launch_list(struct gy_copier *copier, const struct gy_copy_target *target,
                                    const gantry_copy_list *list, const gantry_copy_options *options,
                                    uint32_t *kernels)
{
    struct gy_copy_way way;
    struct gy_copy_list_view view;
    *kernels = 0;
    gantry_status status = gy_copier_make_way(copier, target, options, &way);
    if (status != GANTRY_OK || list->most == 0) {
        return status;
    }
    status = find_arrays(copier, list, &view);
    if (status != GANTRY_OK) {
        return status;
    }
    if (list->largest != 0 && list->largest <= GY_COPY_TILE) {
        return launch_pair(copier, &way, &view, kernels);
    }
    const size_t warps = (size_t)gy_copier_list_blocks(copier, &way, list->most) * WARPS;
    const size_t full = (size_t)list->most / 32 + 1, slices = warps > full ? warps : full;
    struct gy_copy_chunk *chunk;
    status =
        gy_copier_take_chunk(copier, &copier->scratch, slices * sizeof(struct gy_copy_large_entry), &chunk);
    if (status != GANTRY_OK) {
        return status;
    }
    view.large = chunk->counters; /* 0: there are too many launches at the same time, so no copy is cut */
    view.entries = chunk->device;
    status = launch_pair(copier, &way, &view, kernels);
    if (*kernels == 0) {
        gy_copy_ring_give_back(&copier->scratch, chunk);
        return status;
    }
    gantry_status used = gy_copier_chunk_launched(copier, &copier->scratch, chunk, way.stream);
    return status != GANTRY_OK ? status : used;
}

/* ---- checks -------------------------------------------------------------------------------------- */

static gantry_status read_array(struct gy_copier *copier, const void *from, size_t bytes, void *to)
{
    uint64_t device;
    gantry_status status = gy_copy_find_list(copier->context, copier->heap, "array", from, bytes, &device);
    return status == GANTRY_OK ? GY_CALL(copier->context, cuMemcpyDtoH(to, device, bytes)) : status;
}

/* Read the list as descriptors; those of three arrays become copies within the device, wherever they are. */
static gantry_status read_list(struct gy_copier *copier, const gantry_copy_list *list, uint32_t count,
                               gantry_copy_desc *descs, uint64_t *words)
{
    if (list->descs != NULL) {
        return read_array(copier, list->descs, count * sizeof(*descs), descs);
    }
    gantry_status status = read_array(copier, list->dests, count * sizeof(*words), words);
    for (uint32_t i = 0; status == GANTRY_OK && i < count; i++) {
        descs[i] = (gantry_copy_desc){.dest = (void *)(uintptr_t)words[i], .type = GANTRY_COPY_DTOD};
    }
    status = status == GANTRY_OK ? read_array(copier, list->sources, count * sizeof(*words), words) : status;
    for (uint32_t i = 0; status == GANTRY_OK && i < count; i++) {
        descs[i].source = (void *)(uintptr_t)words[i];
    }
    status = status == GANTRY_OK ? read_array(copier, list->bytes, count * sizeof(*words), words) : status;
    for (uint32_t i = 0; status == GANTRY_OK && i < count; i++) {
        descs[i].bytes = words[i];
    }
    return status;
}

/* The pattern of a fill must be where the device can read it; then the host's rules need not read it. */
static gantry_status check_patterns(struct gy_copier *copier, gantry_copy_desc *descs, uint32_t count)
{
    static const uint64_t some[2];
    for (uint32_t i = 0; i < count; i++) {
        gantry_copy_desc *desc = &descs[i];
        const bool is_long = desc->type == GANTRY_COPY_FILL && desc->bytes != 0 &&
                             (desc->pattern_bytes == 8 || desc->pattern_bytes == 16);
        uint64_t ignored;
        if (is_long && desc->source != NULL) {
            char name[48];
            (void)snprintf(name, sizeof(name), "the pattern of copy descriptor %u,", i);
            gantry_status status = gy_copy_find_list(copier->context, copier->heap, name, desc->source,
                                                     desc->pattern_bytes, &ignored);
            if (status != GANTRY_OK) {
                return status;
            }
            desc->source = some;
        }
    }
    return GANTRY_OK;
}

static gantry_status check_read(struct gy_copier *copier, const gantry_copy_list *list, uint32_t count,
                                gantry_copy_desc *descs, uint64_t *words)
{
    size_t used = 0;
    gantry_status status = read_list(copier, list, count, descs, words);
    status = status == GANTRY_OK ? check_patterns(copier, descs, count) : status;
    status =
        status == GANTRY_OK ? gy_copier_resolve(copier, descs, count, list->descs == NULL, &used) : status;
    return status == GANTRY_OK ? gy_copy_check_overlap(copier->items, used, copier->ranges) : status;
}

gantry_status gy_copier_check_list(struct gy_copier *copier, CUstream stream, const gantry_copy_list *list)
{
    uint32_t count = list->most;
    gantry_status status = GY_CALL(copier->context, cuStreamSynchronize(stream));
    if (status == GANTRY_OK && list->count != NULL && list->most != 0) {
        status = read_array(copier, list->count, sizeof(count), &count);
    }
    if (status != GANTRY_OK || count == 0) {
        return status;
    }
    if (count > list->most) {
        return GY_FAIL(GANTRY_ERR_INVALID_ARGUMENT, "copy list: the count is %u, more than the maximum %u",
                       count, list->most);
    }
    gantry_copy_desc *descs = gy_zalloc_array(count, sizeof(*descs));
    uint64_t *words = gy_zalloc_array(count, sizeof(*words));
    if (descs == NULL || words == NULL) {
        status = GY_FAIL(GANTRY_ERR_OUT_OF_HOST_MEMORY, "out of memory to check a list of %u copies", count);
    } else {
        status = check_read(copier, list, count, descs, words);
    }
    gy_free(words);
    gy_free(descs);
    return status;
}
