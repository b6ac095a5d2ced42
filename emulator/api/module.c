/* SPDX-License-Identifier: MIT */
/* Modules, whose host code takes the place of kernel images, and the launch of their kernels. */
#include "emulator/module.h"

#include "base/alloc.h"
#include "emulator/capture.h"

#include <stdio.h>
#include <string.h>

#define REGISTERS 32
enum { PREFERRED_CARVEOUT = 9, LAST_ATTRIBUTE = 15 }; /* of functions */

/* This compares byte by byte, since the image may be a PTX text shorter than the number. */
static bool is_host_module(const void *image)
{
    const unsigned char *bytes = image;
    for (unsigned int i = 0; i < sizeof(uint64_t); i++) {
        if (bytes[i] != (unsigned char)((uint64_t)GANTRY_HOST_MODULE_MAGIC >> (8 * i))) {
            return false;
        }
    }
    return true;
}

/* Put the reason where the caller wants compiler messages. */
static void explain(unsigned int count, const CUjit_option *options, void *const *values)
{
    char *buffer = NULL;
    size_t room = 0;
    for (unsigned int i = 0; i < count && options != NULL && values != NULL; i++) {
        if (options[i] == CU_JIT_ERROR_LOG_BUFFER) {
            buffer = values[i];
        } else if (options[i] == CU_JIT_ERROR_LOG_BUFFER_SIZE_BYTES) {
            room = (size_t)(uintptr_t)values[i];
        }
    }
    if (buffer != NULL && room > 0) {
        snprintf(buffer, room, "the emulated driver runs host modules only, not PTX or device code");
    }
}

static CUresult load(CUmodule *out, const struct gantry_host_module *image)
{
    struct gy_emu_context *context;
    CUresult result = gy_emu_context_current(&context);
    if (result != CUDA_SUCCESS) {
        return result;
    }
    size_t functions = image->kernel_count * sizeof(struct gy_emu_function);
    struct gy_emu_module *module = gy_zalloc(sizeof(*module) + functions);
    if (module == NULL) {
        return CUDA_ERROR_OUT_OF_MEMORY;
    }
    module->object.context = context->root;
    result = gy_emu_handle_open(GY_EMU_MODULE, &module->object);
    if (result != CUDA_SUCCESS) {
        gy_free(module);
        return result;
    }
    while (module->count < image->kernel_count) {
        struct gy_emu_function *function = &module->functions[module->count];
        function->object.context = context->root;
        function->code = &image->kernels[module->count];
        function->max_dynamic_shared = context->device->profile->shared_bytes_per_block;
        function->carveout = -1;
        result = gy_emu_handle_open(GY_EMU_FUNCTION, &function->object);
        if (result != CUDA_SUCCESS) {
            gy_emu_module_close(module);
            return result;
        }
        module->count++;
    }
    *out = (CUmodule)module->object.handle;
    return CUDA_SUCCESS;
}

static CUresult load_image(CUmodule *module, const void *image, unsigned int count,
                           const CUjit_option *options, void *const *values)
{
    struct gy_emu_context *context;
    CUresult result = module != NULL ? gy_emu_context_current(&context) : CUDA_ERROR_INVALID_VALUE;
    if (result != CUDA_SUCCESS || image == NULL) {
        return result != CUDA_SUCCESS ? result : CUDA_ERROR_INVALID_VALUE;
    }
    if (!is_host_module(image)) {
        explain(count, options, values);
        return CUDA_ERROR_INVALID_IMAGE;
    }
    return load(module, image);
}

CUresult cuModuleLoadDataEx(CUmodule *module, const void *image, unsigned int count, CUjit_option *options,
                            void **values)
{
    return GY_EMU_CALL(cuModuleLoadDataEx, load_image(module, image, count, options, values));
}

static CUresult unload(CUmodule handle)
{
    struct gy_emu_module *module = gy_emu_handle_find(GY_EMU_MODULE, handle);
    if (module == NULL) {
        return CUDA_ERROR_INVALID_HANDLE;
    }
    CUresult result = gy_emu_capture_forbids_unsafe();
    if (result != CUDA_SUCCESS) {
        return result;
    }
    result = gy_emu_context_health(module->object.context);
    gy_emu_module_close(module);
    return result;
}

CUresult cuModuleUnload(CUmodule module)
{
    return GY_EMU_CALL(cuModuleUnload, unload(module));
}

static CUresult get_function(CUfunction *out, CUmodule handle, const char *name)
{
    const struct gy_emu_module *module = gy_emu_handle_find(GY_EMU_MODULE, handle);
    if (module == NULL) {
        return CUDA_ERROR_INVALID_HANDLE;
    }
    if (out == NULL || name == NULL || name[0] == '\0') {
        return CUDA_ERROR_INVALID_VALUE;
    }
    CUresult result = gy_emu_context_health(module->object.context);
    if (result != CUDA_SUCCESS) {
        return result;
    }
    for (uint32_t i = 0; i < module->count; i++) {
        if (strcmp(module->functions[i].code->name, name) == 0) {
            *out = (CUfunction)module->functions[i].object.handle;
            return CUDA_SUCCESS;
        }
    }
    return CUDA_ERROR_NOT_FOUND;
}

CUresult cuModuleGetFunction(CUfunction *function, CUmodule module, const char *name)
{
    return GY_EMU_CALL(cuModuleGetFunction, get_function(function, module, name));
}

/* ---- parameters ------------------------------------------------------------------------------ */

/* Parameters lie where their sizes allow, up to 16 bytes apart. */
static CUresult get_parameter(CUfunction handle, size_t index, size_t *offset, size_t *bytes)
{
    const struct gy_emu_function *function = gy_emu_handle_find(GY_EMU_FUNCTION, handle);
    if (function == NULL) {
        return handle == NULL ? CUDA_ERROR_INVALID_VALUE : CUDA_ERROR_INVALID_HANDLE;
    }
    if (offset == NULL || index >= function->code->param_count) {
        return CUDA_ERROR_INVALID_VALUE;
    }
    size_t at = 0;
    for (size_t i = 0;; at += function->code->param_bytes[i++]) {
        const size_t size = function->code->param_bytes[i], lowest = size & (~size + 1);
        const size_t align = lowest > 16 ? 16 : lowest;
        at = (at + align - 1) / align * align;
        if (i == index) {
            break;
        }
    }
    *offset = at;
    if (bytes != NULL) {
        *bytes = function->code->param_bytes[index];
    }
    return CUDA_SUCCESS;
}

CUresult cuFuncGetParamInfo(CUfunction function, size_t index, size_t *offset, size_t *bytes)
{
    return GY_EMU_CALL(cuFuncGetParamInfo, get_parameter(function, index, offset, bytes));
}

/* ---- attributes ------------------------------------------------------------------------------ */

static CUresult find_function(CUfunction handle, struct gy_emu_function **out)
{
    struct gy_emu_function *function = gy_emu_handle_find(GY_EMU_FUNCTION, handle);
    if (function == NULL) {
        return CUDA_ERROR_INVALID_HANDLE;
    }
    *out = function;
    return gy_emu_context_health(function->object.context);
}

static CUresult get_attribute(int *value, CUfunction_attribute attribute, CUfunction handle)
{
    struct gy_emu_function *function;
    if (value == NULL) {
        return CUDA_ERROR_INVALID_VALUE;
    }
    CUresult result = find_function(handle, &function);
    if (result != CUDA_SUCCESS) {
        return result;
    }
    const struct gy_emu_profile *profile = function->object.context->device->profile;
    switch ((int)attribute) {
    case CU_FUNC_ATTRIBUTE_MAX_THREADS_PER_BLOCK:
        *value = (int)GY_EMU_MAX_THREADS;
        return CUDA_SUCCESS;
    case CU_FUNC_ATTRIBUTE_SHARED_SIZE_BYTES:
    case CU_FUNC_ATTRIBUTE_CONST_SIZE_BYTES:
    case CU_FUNC_ATTRIBUTE_LOCAL_SIZE_BYTES:
        *value = 0;
        return CUDA_SUCCESS;
    case CU_FUNC_ATTRIBUTE_NUM_REGS:
        *value = REGISTERS;
        return CUDA_SUCCESS;
    case CU_FUNC_ATTRIBUTE_PTX_VERSION:
    case CU_FUNC_ATTRIBUTE_BINARY_VERSION:
        *value = profile->major * 10 + profile->minor;
        return CUDA_SUCCESS;
    case CU_FUNC_ATTRIBUTE_MAX_DYNAMIC_SHARED_SIZE_BYTES:
        *value = (int)function->max_dynamic_shared;
        return CUDA_SUCCESS;
    case CU_FUNC_ATTRIBUTE_NON_PORTABLE_CLUSTER_SIZE_ALLOWED:
        *value = function->has_large_clusters;
        return CUDA_SUCCESS;
    default:
        *value = 0; /* what Gantry does not ask for */
        return (int)attribute >= 0 && (int)attribute <= (int)LAST_ATTRIBUTE ? CUDA_SUCCESS
                                                                            : CUDA_ERROR_INVALID_VALUE;
    }
}

CUresult cuFuncGetAttribute(int *value, CUfunction_attribute attribute, CUfunction function)
{
    return GY_EMU_CALL(cuFuncGetAttribute, get_attribute(value, attribute, function));
}

static CUresult set_attribute(CUfunction handle, CUfunction_attribute attribute, int value)
{
    struct gy_emu_function *function;
    CUresult result = find_function(handle, &function);
    if (result != CUDA_SUCCESS) {
        return result;
    }
    if ((int)attribute == (int)PREFERRED_CARVEOUT && value >= -1 && value <= 100) {
        function->carveout = value;
        function->has_carveout = true;
        return CUDA_SUCCESS;
    }
    if (attribute == CU_FUNC_ATTRIBUTE_NON_PORTABLE_CLUSTER_SIZE_ALLOWED) {
        function->has_large_clusters = value != 0;
        return CUDA_SUCCESS;
    }
    if (attribute != CU_FUNC_ATTRIBUTE_MAX_DYNAMIC_SHARED_SIZE_BYTES || value < 0 ||
        (uint32_t)value > function->object.context->device->profile->shared_bytes_optin) {
        return CUDA_ERROR_INVALID_VALUE;
    }
    function->max_dynamic_shared = (uint32_t)value;
    return CUDA_SUCCESS;
}

CUresult cuFuncSetAttribute(CUfunction function, CUfunction_attribute attribute, int value)
{
    return GY_EMU_CALL(cuFuncSetAttribute, set_attribute(function, attribute, value));
}

static CUresult get_occupancy(int *blocks, CUfunction handle, int block_size, size_t shared_bytes)
{
    struct gy_emu_function *function;
    struct gy_emu_context *current;
    CUresult result = gy_emu_context_current(&current);
    if (result == CUDA_SUCCESS) {
        result = find_function(handle, &function);
    }
    if (result != CUDA_SUCCESS) {
        return result;
    }
    if (blocks == NULL || block_size <= 0) {
        return CUDA_ERROR_INVALID_VALUE;
    }
    *blocks = (int)gy_emu_function_occupancy(function, (uint32_t)block_size, shared_bytes);
    return CUDA_SUCCESS;
}

CUresult cuOccupancyMaxActiveBlocksPerMultiprocessor(int *blocks, CUfunction function, int block_size,
                                                     size_t dynamic_shared_bytes)
{
    return GY_EMU_CALL(cuOccupancyMaxActiveBlocksPerMultiprocessor,
                       get_occupancy(blocks, function, block_size, dynamic_shared_bytes));
}

/* ---- launching ------------------------------------------------------------------------------- */

static CUresult launch_kernel(const struct gy_emu_launch *launch, CUstream handle, void *const *extra)
{
    struct gy_emu_stream *stream;
    CUresult result = gy_emu_stream_find_for_work(handle, &stream);
    if (result != CUDA_SUCCESS) {
        return result;
    }
    const struct gy_emu_function *function;
    bool lacks_params = false;
    if (extra != NULL) {
        result = launch->params != NULL ? CUDA_ERROR_INVALID_VALUE : CUDA_ERROR_NOT_SUPPORTED;
    } else {
        result = gy_emu_kernel_check(stream->object.context, launch, &function, &lacks_params);
    }
    if (result != CUDA_SUCCESS && result != CUDA_ERROR_INVALID_HANDLE && launch->failure == CUDA_SUCCESS &&
        !lacks_params && stream->capture != NULL) {
        stream->capture->is_invalid = true; /* by a launch that is refused, as on an H200 */
    }
    if (result != CUDA_SUCCESS || gy_emu_stream_is_noop(stream)) {
        return result;
    }
    struct gy_emu_work work;
    result = gy_emu_kernel_fill(stream->object.context, launch, function, &work);
    return result == CUDA_SUCCESS ? gy_emu_stream_submit(stream, &work) : result;
}

CUresult cuLaunchKernel(CUfunction function, unsigned int grid_x, unsigned int grid_y, unsigned int grid_z,
                        unsigned int block_x, unsigned int block_y, unsigned int block_z,
                        unsigned int shared_bytes, CUstream stream, void **params, void **extra)
{
    const struct gy_emu_launch launch = {.function = function,
                                         .grid = {grid_x, grid_y, grid_z},
                                         .block = {block_x, block_y, block_z},
                                         .shared_bytes = shared_bytes,
                                         .params = params};
    return GY_EMU_CALL(cuLaunchKernel, launch_kernel(&launch, stream, extra));
}

static CUresult launch_kernel_ex(const CUlaunchConfig *config, CUfunction function, void **params,
                                 void *const *extra)
{
    if (config == NULL) {
        return CUDA_ERROR_INVALID_VALUE;
    }
    struct gy_emu_launch launch = {.function = function,
                                   .grid = {config->gridDimX, config->gridDimY, config->gridDimZ},
                                   .block = {config->blockDimX, config->blockDimY, config->blockDimZ},
                                   .shared_bytes = config->sharedMemBytes,
                                   .params = params};
    launch.failure = gy_emu_attributes_import(config, &launch.attributes);
    return launch_kernel(&launch, config->hStream, extra);
}

CUresult cuLaunchKernelEx(const CUlaunchConfig *config, CUfunction function, void **params, void **extra)
{
    return GY_EMU_CALL(cuLaunchKernelEx, launch_kernel_ex(config, function, params, extra));
}
