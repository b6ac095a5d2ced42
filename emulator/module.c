/* SPDX-License-Identifier: MIT */
/* Modules' ends, and what a launch of a kernel has to be like. */
#include "emulator/module.h"

#include "base/alloc.h"
#include "emulator/logs.h"

#include <string.h>

void gy_emu_module_close(struct gy_emu_module *module)
{
    while (module->count > 0) {
        gy_emu_handle_close(&module->functions[--module->count].object);
    }
    gy_emu_handle_close(&module->object);
    gy_free(module);
}

/* Is each dimension above 0 and at most `most`? */
static inline bool are_within(const uint32_t size[3], const uint32_t most[3])
{
    return size[0] - 1 < most[0] && size[1] - 1 < most[1] && size[2] - 1 < most[2];
}

/* The log says which limit a launch breaks. */
static bool has_grid(const struct gy_emu_launch *launch)
{
    static const uint32_t most[3] = {INT32_MAX, UINT16_MAX, UINT16_MAX};
    const uint32_t *grid = launch->grid;
    if (!are_within(grid, most)) {
        gy_emu_explain("The grid (%u,%u,%u) exceeds what a launch may have, or has a zero", grid[0], grid[1],
                       grid[2]);
    }
    return are_within(grid, most);
}

static bool has_block(const struct gy_emu_launch *launch)
{
    static const uint32_t most[3] = {GY_EMU_MAX_THREADS, GY_EMU_MAX_THREADS, 64};
    const uint32_t *block = launch->block;
    if (!are_within(block, most)) {
        gy_emu_explain("A dimension of the block (%u,%u,%u) exceeds the most there is (%u,%u,64), or is zero",
                       block[0], block[1], block[2], GY_EMU_MAX_THREADS, GY_EMU_MAX_THREADS);
        return false;
    }
    const bool fits = (uint64_t)block[0] * block[1] * block[2] <= GY_EMU_MAX_THREADS;
    if (!fits) {
        gy_emu_explain("The block (%u,%u,%u) has more threads than %u", block[0], block[1], block[2],
                       GY_EMU_MAX_THREADS);
    }
    return fits;
}

static bool has_shared_memory(const struct gy_emu_launch *launch, const struct gy_emu_function *function)
{
    if (launch->shared_bytes > function->max_dynamic_shared) {
        gy_emu_explain("%u bytes of dynamic shared memory exceed the %u that the kernel may have",
                       launch->shared_bytes, function->max_dynamic_shared);
    }
    return launch->shared_bytes <= function->max_dynamic_shared;
}

static bool has_params(const struct gy_emu_launch *launch, uint32_t count)
{
    for (uint32_t i = 0; i < count; i++) {
        if (launch->params == NULL || launch->params[i] == NULL) {
            return false;
        }
    }
    return true;
}

CUresult gy_emu_kernel_check(const struct gy_emu_context *context, const struct gy_emu_launch *launch,
                             const struct gy_emu_function **out, bool *lacks_params)
{
    const struct gy_emu_function *function = gy_emu_handle_find(GY_EMU_FUNCTION, launch->function);
    if (function == NULL || function->object.context != context->root) {
        return CUDA_ERROR_INVALID_HANDLE;
    }
    *out = function;
    *lacks_params = false;
    CUresult result = has_block(launch) ? launch->failure : CUDA_ERROR_INVALID_VALUE;
    if (result == CUDA_SUCCESS && !has_grid(launch)) {
        result = CUDA_ERROR_INVALID_VALUE;
    }
    if (result == CUDA_SUCCESS &&
        (launch->attributes.has_bad_cluster || !gy_emu_clusters_are_possible(function, launch))) {
        result = CUDA_ERROR_INVALID_CLUSTER_SIZE;
    }
    if (result == CUDA_SUCCESS && !has_shared_memory(launch, function)) {
        result = CUDA_ERROR_INVALID_VALUE;
    }
    *lacks_params = result == CUDA_SUCCESS && !has_params(launch, function->code->param_count);
    if (*lacks_params) {
        result = CUDA_ERROR_INVALID_VALUE;
    }
    const bool is_plain = launch->attributes.cluster[0] == 0 && !launch->attributes.is_cooperative;
    return result == CUDA_SUCCESS && !is_plain ? gy_emu_attributes_check(context, function, launch) : result;
}

CUresult gy_emu_kernel_fill(struct gy_emu_context *context, const struct gy_emu_launch *launch,
                            const struct gy_emu_function *function, struct gy_emu_work *work)
{
    struct gy_emu_args *args = gy_emu_args_create(function->code, launch->params);
    if (args == NULL) {
        return CUDA_ERROR_OUT_OF_MEMORY;
    }
    work->kind = GY_EMU_WORK_KERNEL;
    work->context = context;
    work->kernel.code = function->code;
    work->kernel.function = launch->function;
    work->kernel.args = args;
    work->kernel.dynamic_shared_bytes = launch->shared_bytes;
    memcpy(work->kernel.grid, launch->grid, sizeof(launch->grid));
    memcpy(work->kernel.block, launch->block, sizeof(launch->block));
    work->kernel.attributes = launch->attributes;
    return CUDA_SUCCESS;
}

CUresult gy_emu_kernel_prepare(struct gy_emu_context *context, const struct gy_emu_launch *launch,
                               struct gy_emu_work *work)
{
    const struct gy_emu_function *function;
    bool lacks_params;
    CUresult result = gy_emu_kernel_check(context, launch, &function, &lacks_params);
    return result == CUDA_SUCCESS ? gy_emu_kernel_fill(context, launch, function, work) : result;
}
