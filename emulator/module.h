/* SPDX-License-Identifier: MIT */
/* Modules and their kernels. */
#ifndef EMULATOR_MODULE_H
#define EMULATOR_MODULE_H

#include "emulator/context.h"

#define GY_EMU_MAX_THREADS 1024u /* of a block */

struct gy_emu_function {
    struct gy_emu_object object;
    const struct gantry_host_kernel *code;
    uint32_t max_dynamic_shared; /* set by cuFuncSetAttribute() */
    bool has_carveout;           /* it was set by cuFuncSetAttribute() */
    int carveout;                /* percent; -1: the driver chooses */
    bool has_large_clusters;     /* set by cuFuncSetAttribute(): more than 8 blocks */
};

struct gy_emu_module {
    struct gy_emu_object object;
    uint32_t count;
    struct gy_emu_function functions[];
};

struct gy_emu_launch {
    CUfunction function;
    uint32_t grid[3], block[3];
    uint32_t shared_bytes;
    void *const *params;
    struct gy_emu_attributes attributes;
    CUresult failure; /* what is wrong with the attributes, told behind what is wrong with the block */
};

/* The two halves of gy_emu_kernel_prepare().  `lacks_params`: nothing else is wrong. */
CUresult gy_emu_kernel_check(const struct gy_emu_context *context, const struct gy_emu_launch *launch,
                             const struct gy_emu_function **out, bool *lacks_params);
CUresult gy_emu_kernel_fill(struct gy_emu_context *context, const struct gy_emu_launch *launch,
                            const struct gy_emu_function *function, struct gy_emu_work *work);
/* Check a launch on `context` against the device's limits, and fill `work` with copied parameters. */
CUresult gy_emu_kernel_prepare(struct gy_emu_context *context, const struct gy_emu_launch *launch,
                               struct gy_emu_work *work);
/* Blocks of so many threads that an SM runs at once. */
uint32_t gy_emu_function_occupancy(const struct gy_emu_function *function, uint32_t threads,
                                   size_t shared_bytes);
#define GY_EMU_CLUSTERS_MAJOR 9    /* compute capability that has clusters */
#define GY_EMU_PORTABLE_CLUSTER 8u /* blocks of a cluster that every such device runs */
#define GY_EMU_LARGEST_CLUSTER 16u
static inline uint64_t gy_emu_size_of(const uint32_t size[3])
{
    return (uint64_t)size[0] * size[1] * size[2];
}
/* Clusters of `size` blocks that fit at once when an SM runs `blocks` of them. */
uint32_t gy_emu_attributes_clusters(const struct gy_emu_context *context, uint32_t size, uint32_t blocks);
/* Take a configuration's attributes over, and check the launch against the rules for clusters and
 * cooperative grids (attributes.c). */
CUresult gy_emu_attributes_import(const CUlaunchConfig *config, struct gy_emu_attributes *out);
/* The grid is made of whole clusters, of a size that the kernel may have. */
bool gy_emu_clusters_are_possible(const struct gy_emu_function *function, const struct gy_emu_launch *launch);
CUresult gy_emu_attributes_check(const struct gy_emu_context *context, const struct gy_emu_function *function,
                                 const struct gy_emu_launch *launch);
void gy_emu_module_close(struct gy_emu_module *module);

#endif
