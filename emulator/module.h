/* Modules and their kernels. */
#ifndef EMULATOR_MODULE_H
#define EMULATOR_MODULE_H

#include "emulator/context.h"

struct gy_emu_function {
    struct gy_emu_object object;
    const struct gantry_host_kernel *code;
    uint32_t max_dynamic_shared; /* set by cuFuncSetAttribute() */
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
};

/* Check a launch on `context` against the device's limits, and fill `work` with copied parameters. */
CUresult gy_emu_kernel_prepare(struct gy_emu_context *context, const struct gy_emu_launch *launch,
                               struct gy_emu_work *work);
/* Blocks of so many threads that an SM runs at once. */
uint32_t gy_emu_function_occupancy(const struct gy_emu_function *function, uint32_t threads,
                                   size_t shared_bytes);
/* Take a configuration's attributes over, and check the launch against the rules for clusters and
 * cooperative grids (attributes.c). */
CUresult gy_emu_attributes_import(const CUlaunchConfig *config, struct gy_emu_attributes *out);
CUresult gy_emu_attributes_check(const struct gy_emu_context *context, const struct gy_emu_function *function,
                                 const struct gy_emu_launch *launch);
void gy_emu_module_close(struct gy_emu_module *module);

#endif
