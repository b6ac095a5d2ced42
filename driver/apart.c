/* SPDX-License-Identifier: MIT */
#include "driver/apart.h"

#include <string.h>

static bool has_green_contexts(const struct gy_driver *driver)
{
    return driver->version >= 12050 && driver->cuDeviceGetDevResource != NULL &&
           driver->cuDevResourceGenerateDesc != NULL && driver->cuGreenCtxCreate != NULL &&
           driver->cuGreenCtxDestroy != NULL && driver->cuGreenCtxStreamCreate != NULL;
}

/* An adopted context may be the primary one as well. */
static bool is_primary(const struct gy_context *context)
{
    const struct gy_driver *driver = context->driver;
    unsigned flags;
    int active = 0;
    CUcontext primary = NULL;
    if (context->mode == GANTRY_CONTEXT_PRIMARY) {
        return true;
    }
    if (driver->cuDevicePrimaryCtxGetState == NULL ||
        driver->cuDevicePrimaryCtxGetState(context->device, &flags, &active) != CUDA_SUCCESS || active == 0 ||
        driver->cuDevicePrimaryCtxRetain(&primary, context->device) != CUDA_SUCCESS) {
        return false;
    }
    (void)driver->cuDevicePrimaryCtxRelease(context->device);
    return primary == context->native;
}

void gy_apart_open(struct gy_context *context)
{
    const struct gy_driver *driver = context->driver;
    CUdevResource sms;
    CUdevResourceDesc all;
    CUgreenCtx green = NULL;
    if (gy_apart_is_there(context) || !has_green_contexts(driver) || !is_primary(context)) {
        return;
    }
    memset(&sms, 0, sizeof(sms));
    CUresult result = driver->cuDeviceGetDevResource(context->device, &sms, CU_DEV_RESOURCE_TYPE_SM);
    result = result == CUDA_SUCCESS ? driver->cuDevResourceGenerateDesc(&all, &sms, 1) : result;
    result = result == CUDA_SUCCESS
                 ? driver->cuGreenCtxCreate(&green, all, context->device, CU_GREEN_CTX_DEFAULT_STREAM)
                 : result;
    if (result != CUDA_SUCCESS) {
        gy_log(GANTRY_LOG_INFO,
               "the driver makes no green context of all SMs (%s): while a batch is noted, it refuses "
               "cuCtxSynchronize() and its likes to all threads",
               gy_driver_result_name(driver, result));
        return;
    }
    CUgreenCtx none = NULL;
    if (!atomic_compare_exchange_strong(&context->apart, &none, green)) { /* another thread was faster */
        (void)driver->cuGreenCtxDestroy(green);
    }
}

void gy_apart_close(struct gy_context *context)
{
    CUgreenCtx green = atomic_exchange(&context->apart, NULL);
    if (green != NULL) {
        (void)context->driver->cuGreenCtxDestroy(green);
    }
}

gantry_status gy_apart_create_stream(struct gy_context *context, CUstream *out)
{
    CUgreenCtx green = atomic_load_explicit(&context->apart, memory_order_acquire);
    return gy_context_create_stream(context, green, 0, out);
}
