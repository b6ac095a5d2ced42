/* Runs whole grids of an image's host form through the block engine, on the calling thread. */
#ifndef TESTS_KERNELS_HOST_GRID_H
#define TESTS_KERNELS_HOST_GRID_H

#include "driver/emulator/exec.h"

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

static inline bool host_run(const gantry_module_image *image, const char *name, gantry_dim3 grid,
                            gantry_dim3 block, size_t shared, void *const *args)
{
    struct gy_emu_grid g = {
        host_kernel(image, name), {grid.x, grid.y, grid.z}, {block.x, block.y, block.z}, shared, args};
    if (g.kernel == NULL) {
        return false;
    }
    for (uint64_t i = 0; i < (uint64_t)grid.x * grid.y * grid.z; i++) {
        if (!gy_emu_exec_block(&g, i, (uint32_t)(i % 4))) {
            return false;
        }
    }
    return true;
}

#endif
