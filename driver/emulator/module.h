/* Modules and their kernels. */
#ifndef DRIVER_EMULATOR_MODULE_H
#define DRIVER_EMULATOR_MODULE_H

#include "driver/emulator/context.h"

struct gy_emu_function {
    struct gy_emu_object object;
    const struct gantry_host_kernel *code;
    uint32_t max_dynamic_shared; /* set by cuFuncSetAttribute() */
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
};

/* Check a launch on `context` against the device's limits, and fill `work` with copied parameters. */
CUresult gy_emu_kernel_prepare(struct gy_emu_context *context, const struct gy_emu_launch *launch,
                               struct gy_emu_work *work);
void gy_emu_module_close(struct gy_emu_module *module);

#endif
