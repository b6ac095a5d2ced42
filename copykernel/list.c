/* SPDX-License-Identifier: MIT */
/* How lists that the device reads are launched.  The host knows only their maximum and their place.  The
 * notes that the kernels leave for each other are in the copier's device memory (ring.h). */
#include "copykernel/list.h"

#include "base/options.h"
#include "copykernel/address.h"
#include "copykernel/internal.h"

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

gantry_status gy_copier_find_arrays(struct gy_copier *copier, const gantry_copy_list *list,
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
                                       arrays[i].bytes, NULL, arrays[i].out);
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
    status = gy_copier_find_arrays(copier, list, &view);
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
