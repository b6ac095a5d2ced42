/* SPDX-License-Identifier: MIT */
/* Run whole grids of an image's host form through the block engine, on the calling thread. */
#ifndef TESTS_KERNELS_HOST_GRID_H
#define TESTS_KERNELS_HOST_GRID_H

#include "emulator/exec.h"
#include "emulator/gang.h"

#include <gantry/module.h>

#include <string.h>

/* NULL when the image has no such kernel. */
static inline const struct gantry_host_kernel *host_kernel(const gantry_module_image *image, const char *name)
{
    const struct gantry_host_module *module = image->host;
    for (uint32_t i = 0; i < module->kernel_count; i++) {
        if (strcmp(module->kernels[i].name, name) == 0) {
            return &module->kernels[i];
        }
    }
    return NULL;
}

/* A grid whose blocks may steal others. */
struct host_stealing {
    uint64_t refuse_every; /* one of so many requests is refused although blocks are left; 0: none is */
    uint64_t requests, steals;
    uint64_t next, blocks; /* the first block of the grid that has not started */
};

static inline bool host_take(void *owner, uint64_t *block)
{
    struct host_stealing *s = owner;
    s->requests++;
    if (s->next == s->blocks || (s->refuse_every != 0 && s->requests % s->refuse_every == 0)) {
        return false;
    }
    *block = s->next++;
    s->steals++;
    return true;
}

/* `stealing` NULL: the device's blocks do not steal. */
static inline bool host_run_with(const gantry_module_image *image, const char *name, gantry_dim3 grid,
                                 gantry_dim3 block, size_t shared, void *const *args,
                                 struct host_stealing *stealing)
{
    struct host_stealing counter = {0, 0, 0, 0, 0}, *s = stealing != NULL ? stealing : &counter;
    struct gy_emu_grid g = {.kernel = host_kernel(image, name),
                            .grid_size = {grid.x, grid.y, grid.z},
                            .block_size = {block.x, block.y, block.z},
                            .dynamic_shared_bytes = shared,
                            .args = args,
                            .take = stealing != NULL ? host_take : NULL,
                            .grid_owner = stealing};
    s->next = 0;
    s->blocks = (uint64_t)grid.x * grid.y * grid.z;
    if (g.kernel == NULL) {
        return false;
    }
    while (s->next < s->blocks) {
        uint64_t i = s->next++;
        if (!gy_emu_exec_block(&g, i, (uint32_t)(i % 4))) {
            return false;
        }
    }
    return true;
}

static inline bool host_run(const gantry_module_image *image, const char *name, gantry_dim3 grid,
                            gantry_dim3 block, size_t shared, void *const *args)
{
    return host_run_with(image, name, grid, block, shared, args, NULL);
}

static inline uint32_t host_sm_of(void *owner, uint64_t block)
{
    (void)owner;
    return (uint32_t)(block % 4);
}

static inline void host_hear(void *owner, uint64_t block, bool begins)
{
    (void)owner;
    (void)block;
    (void)begins;
}

static inline CUresult host_no_trap(void)
{
    return CUDA_SUCCESS;
}

/* The same in clusters.  What is counted are clusters.  `why` says why it failed. */
static inline bool host_run_clusters(const gantry_module_image *image, const char *name, gantry_dim3 grid,
                                     gantry_dim3 cluster, gantry_dim3 block, size_t shared, void *const *args,
                                     struct host_stealing *stealing, char *why, size_t room)
{
    struct host_stealing counter = {0, 0, 0, 0, 0}, *s = stealing != NULL ? stealing : &counter;
    struct gy_emu_grid g = {.kernel = host_kernel(image, name),
                            .grid_size = {grid.x, grid.y, grid.z},
                            .block_size = {block.x, block.y, block.z},
                            .cluster = {cluster.x, cluster.y, cluster.z},
                            .dynamic_shared_bytes = shared,
                            .args = args,
                            .sm_of = host_sm_of,
                            .hear = host_hear,
                            .take_trap = host_no_trap,
                            .take = stealing != NULL ? host_take : NULL,
                            .grid_owner = s};
    s->next = 0;
    s->blocks = (uint64_t)grid.x * grid.y * grid.z / ((uint64_t)cluster.x * cluster.y * cluster.z);
    while (s->next < s->blocks) {
        if (gy_emu_gang_run(&g, s->next++, 1, why, room) != CUDA_SUCCESS) {
            return false;
        }
    }
    return true;
}

/* The teardown of a program's tests: free the fibers of the calling thread. */
static inline int host_end_thread(void **state)
{
    (void)state;
    gy_emu_exec_thread_end();
    return 0;
}

#endif
