/* SPDX-License-Identifier: MIT */
#include "bench/copy_sides.h"

#include "cli/messages.h"

#include <dlfcn.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#define BATCH_CALL 8192u /* larger calls of cuMemcpyBatchAsync() have crashed drivers */
#define PATTERN_BLOCK (1u << 20)

/* ---- set-up -------------------------------------------------------------------------------- */

/* The library lies beside the program. */
static void find_cub(struct copy_sides *sides)
{
    char path[4096];
    ssize_t length = readlink("/proc/self/exe", path, sizeof(path) - 64);
    if (length <= 0) {
        return;
    }
    path[length] = '\0';
    char *name = strrchr(path, '/');
    snprintf(name != NULL ? name + 1 : path, 64, "%s", "libgantry-bench-cub.so");
    void *library = dlopen(path, RTLD_NOW | RTLD_LOCAL);
    if (library != NULL) {
        void *address = dlsym(library, "gantry_cub_batched");
        memcpy(&sides->cub, &address, sizeof(address));
    }
}

static void find_rows(struct copy_sides *sides)
{
    void *library = dlopen("libcuda.so.1", RTLD_NOW | RTLD_NOLOAD);
    void *address = library != NULL ? dlsym(library, "cuMemcpy2DAsync_v2") : NULL;
    memcpy(&sides->rows, &address, sizeof(address));
}

bool bench_copy_sides_open(struct copy_sides *sides, uint32_t most)
{
    struct raw_cuda *cuda = sides->cuda;
    void *lists = NULL;
    size_t bytes = 3 * (size_t)most * sizeof(uint64_t);
    sides->most = most;
    if (!RAW(cuda, cuMemHostAlloc(&lists, bytes, CU_MEMHOSTALLOC_DEVICEMAP)) ||
        !RAW(cuda, cuMemAlloc(&sides->device_lists, bytes)) ||
        !RAW(cuda, cuMemAlloc(&sides->pattern_block, PATTERN_BLOCK))) {
        return false;
    }
    sides->lists = lists;
    if (cuda->emulator_set_noop != NULL) {
        return true;
    }
    find_rows(sides);
    find_cub(sides);
    if (sides->cub == NULL) {
        return true;
    }
    if (sides->cub(NULL, &sides->cub_bytes, NULL, NULL, NULL, most, NULL) != 0 ||
        !RAW(cuda, cuMemAlloc(&sides->cub_temporary, sides->cub_bytes))) {
        sides->cub = NULL;
    }
    return true;
}

void bench_copy_sides_close(struct copy_sides *sides)
{
    struct raw_cuda *cuda = sides->cuda;
    const CUdeviceptr blocks[] = {sides->cub_temporary, sides->pattern_block, sides->device_lists};
    for (int i = 0; i < 3; i++) {
        if (blocks[i] != 0) {
            (void)RAW(cuda, cuMemFree(blocks[i]));
        }
    }
    if (sides->lists != NULL) {
        (void)RAW(cuda, cuMemFreeHost(sides->lists));
    }
}

static uint64_t *list(const struct copy_sides *sides, uint32_t which)
{
    return sides->lists + (size_t)which * sides->most;
}

bool bench_copy_sides_prepare(struct copy_sides *sides, const struct copy_work *work)
{
    struct raw_cuda *cuda = sides->cuda;
    bool fill = work->type == GANTRY_COPY_FILL;
    for (uint32_t i = 0; i < work->count; i++) {
        list(sides, 0)[i] = fill ? sides->pattern_block : bench_copy_work_source(sides->arenas, work, i);
        list(sides, 1)[i] = bench_copy_work_dest(sides->arenas, work, i);
        list(sides, 2)[i] = work->bytes[i];
    }
    size_t bytes = 3 * (size_t)sides->most * sizeof(uint64_t);
    return RAW(cuda, cuMemcpyHtoDAsync(sides->device_lists, sides->lists, bytes, sides->stream)) &&
           RAW(cuda, cuMemsetD32Async(sides->pattern_block, fill ? work->descs[0].pattern : 0,
                                      PATTERN_BLOCK / 4, sides->stream)) &&
           RAW(cuda, cuStreamSynchronize(sides->stream));
}

/* ---- ours ---------------------------------------------------------------------------------- */

static bool always(const struct copy_sides *sides, const struct copy_work *work)
{
    (void)sides;
    (void)work;
    return true;
}

static gantry_status run_list(struct copy_sides *sides, const struct copy_work *work)
{
    const uint64_t *lists =
        work->way == COPY_PINNED_LISTS ? sides->lists : (const uint64_t *)(uintptr_t)sides->device_lists;
    gantry_copy_list list = GANTRY_COPY_LIST_INIT;
    list.sources = (const void *const *)(const void *)lists;
    list.dests = (void *const *)(const void *)(lists + sides->most);
    list.bytes = lists + 2 * (size_t)sides->most;
    list.most = work->count;
    return gantry_copy_launch_list(sides->launch, &list, NULL);
}

static gantry_status run_box(struct copy_sides *sides, const struct copy_work *work)
{
    gantry_copy_box box = GANTRY_COPY_BOX_INIT;
    box.dest = work->descs[0].dest;
    box.source = work->descs[0].source;
    box.width = work->bytes[0];
    box.rows = work->count;
    box.dest_pitch = box.source_pitch = work->pitch;
    return gantry_copy_launch_box(sides->launch, &box, NULL);
}

static bool run_ours(struct copy_sides *sides, const struct copy_work *work)
{
    gantry_status status = work->way == COPY_PACKED
                               ? gantry_copy_launch(sides->launch, work->descs, work->count)
                           : work->way == COPY_BOX ? run_box(sides, work)
                                                   : run_list(sides, work);
    if (status != GANTRY_OK) {
        cli_error("bench copy: %s", gantry_last_error());
        return false;
    }
    return true;
}

const struct copy_side copy_side_ours = {.name = "gantry", .gated = true, .can = always, .run = run_ours};

/* ---- yardsticks ---------------------------------------------------------------------------- */

/* Batches whose copies the host issues one by one; larger ones would take seconds. */
static bool can_each(const struct copy_sides *sides, const struct copy_work *work)
{
    (void)sides;
    return work->way == COPY_PACKED || work->way == COPY_BOX;
}

static bool run_each(struct copy_sides *sides, const struct copy_work *work)
{
    for (uint32_t i = 0; i < work->count; i++) {
        const gantry_copy_desc *desc = &work->descs[i];
        CUdeviceptr dest = (uintptr_t)desc->dest;
        bool ok =
            work->type == GANTRY_COPY_FILL
                ? RAW(sides->cuda, cuMemsetD32Async(dest, desc->pattern, desc->bytes / 4, sides->stream))
                : RAW(sides->cuda, cuMemcpyAsync(dest, (uintptr_t)desc->source, desc->bytes, sides->stream));
        if (!ok) {
            return false;
        }
    }
    return true;
}

static bool can_batch(const struct copy_sides *sides, const struct copy_work *work)
{
    return sides->cuda->cuMemcpyBatchAsync != NULL && work->type != GANTRY_COPY_FILL && can_each(sides, work);
}

static bool run_batch(struct copy_sides *sides, const struct copy_work *work)
{
    CUmemcpyAttributes attributes = {.srcAccessOrder = CU_MEMCPY_SRC_ACCESS_ORDER_STREAM};
    size_t start = 0, failed = 0;
    for (uint32_t at = 0; at < work->count; at += BATCH_CALL) {
        size_t count = work->count - at < BATCH_CALL ? work->count - at : BATCH_CALL;
        CUdeviceptr *dests = (CUdeviceptr *)(void *)(list(sides, 1) + at);
        CUdeviceptr *sources = (CUdeviceptr *)(void *)(list(sides, 0) + at);
        size_t *bytes = (size_t *)(void *)(list(sides, 2) + at);
        if (!RAW(sides->cuda, cuMemcpyBatchAsync(dests, sources, bytes, count, &attributes, &start, 1,
                                                 &failed, sides->stream))) {
            return false;
        }
    }
    return true;
}

static bool can_cub(const struct copy_sides *sides, const struct copy_work *work)
{
    return sides->cub != NULL && (work->type != GANTRY_COPY_FILL || work->bytes[0] <= PATTERN_BLOCK);
}

static bool run_cub_on(struct copy_sides *sides, const struct copy_work *work, CUdeviceptr lists)
{
    size_t step = (size_t)sides->most * sizeof(uint64_t);
    int result = sides->cub((void *)(uintptr_t)sides->cub_temporary, &sides->cub_bytes,
                            (const void **)(uintptr_t)lists, (void **)(uintptr_t)(lists + step),
                            (const size_t *)(uintptr_t)(lists + 2 * step), work->count, sides->stream);
    if (result != 0) {
        cli_error("bench copy: cub: cudaError_t %d", result);
    }
    return result == 0;
}

static bool run_cub(struct copy_sides *sides, const struct copy_work *work)
{
    return run_cub_on(sides, work, (uintptr_t)sides->lists);
}

static bool run_cub_device(struct copy_sides *sides, const struct copy_work *work)
{
    return run_cub_on(sides, work, sides->device_lists);
}

/* The argument of cuMemcpy2DAsync, in CUDA 3.2 and later. */
struct driver_rows {
    size_t source_x, source_y;
    unsigned source_kind; /* 2: device memory */
    const void *source_host;
    CUdeviceptr source;
    void *source_array;
    size_t source_pitch, dest_x, dest_y;
    unsigned dest_kind;
    void *dest_host;
    CUdeviceptr dest;
    void *dest_array;
    size_t dest_pitch, width, height;
};

static bool can_rows(const struct copy_sides *sides, const struct copy_work *work)
{
    return sides->rows != NULL && work->way == COPY_BOX;
}

static bool run_rows(struct copy_sides *sides, const struct copy_work *work)
{
    const struct driver_rows rows = {.source_kind = 2,
                                     .source = bench_copy_work_source(sides->arenas, work, 0),
                                     .source_pitch = work->pitch,
                                     .dest_kind = 2,
                                     .dest = bench_copy_work_dest(sides->arenas, work, 0),
                                     .dest_pitch = work->pitch,
                                     .width = work->bytes[0],
                                     .height = work->count};
    return raw_cuda_ok((CUresult)sides->rows(&rows, sides->stream), "cuMemcpy2DAsync");
}

static bool run_one(struct copy_sides *sides, const struct copy_work *work)
{
    const struct copy_arenas *a = sides->arenas;
    if (work->type == GANTRY_COPY_FILL) {
        return RAW(sides->cuda, cuMemsetD8Async(a->device_dest, (unsigned char)work->descs[0].pattern,
                                                work->total, sides->stream));
    }
    CUdeviceptr dest = work->type == GANTRY_COPY_DTOH ? a->mapped + a->pinned_bytes : a->device_dest;
    CUdeviceptr source = work->type == GANTRY_COPY_HTOD ? a->mapped : a->device_source;
    return RAW(sides->cuda, cuMemcpyAsync(dest, source, work->total, sides->stream));
}

const struct copy_side copy_side_list[] = {
    {.name = "N x cuMemcpyAsync", .can = can_each, .run = run_each},
    {.name = "cuMemcpyBatchAsync", .can = can_batch, .run = run_batch},
    {.name = "cub, pinned lists", .gated = true, .can = can_cub, .run = run_cub},
    {.name = "cub, device lists", .gated = true, .can = can_cub, .run = run_cub_device},
    {.name = "cuMemcpy2DAsync", .gated = true, .can = can_rows, .run = run_rows},
    {.name = "one copy", .gated = true, .as_one = true, .can = always, .run = run_one},
    {.name = NULL},
};
