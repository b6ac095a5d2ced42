/* SPDX-License-Identifier: MIT */
#include "driver/whole.h"

#define PER_THREAD ((CUstream)(uintptr_t)2) /* the calling thread's default stream */

gantry_status gy_whole_failed(struct gy_context *context, CUresult result, const char *call, const char *file,
                              int line)
{
    const gantry_status status = gy_context_check(context, result, call, file, line);
    return gy_driver_result_is_of_capture(result) && status != GANTRY_ERR_DEVICE_LOST
               ? GY_FAIL(GANTRY_ERR_STATE, "a stream of the context is being captured: the driver refuses %s",
                         call)
               : status;
}

gantry_status gy_whole_wait(struct gy_context *context)
{
    const struct gy_driver *driver = context->driver;
    CUdeviceptr block = 0;
    void *host = NULL;
    CUresult result = driver->cuMemAlloc(&block, 1);
    if (result != CUDA_ERROR_OUT_OF_MEMORY) {
        return result == CUDA_SUCCESS ? GY_WHOLE_CALL(context, cuMemFree(block))
                                      : gy_whole_failed(context, result, "cuMemAlloc(1)", __FILE__, __LINE__);
    }
    const gantry_status status = GY_WHOLE_CALL(context, cuMemHostAlloc(&host, 1, 0));
    return status == GANTRY_OK ? GY_WHOLE_CALL(context, cuMemFreeHost(host)) : status;
}

bool gy_whole_is_captured(struct gy_context *context)
{
    static const CUstream asked[] = {NULL, PER_THREAD};
    const struct gy_driver *driver = context->driver;
    bool any = false;
    for (size_t i = 0; i < sizeof(asked) / sizeof(asked[0]); i++) {
        CUstreamCaptureStatus capturing = CU_STREAM_CAPTURE_STATUS_NONE;
        const CUresult result = driver->cuStreamGetCaptureInfo(asked[i], &capturing, NULL, NULL, NULL, NULL);
        any = any || result == CUDA_ERROR_STREAM_CAPTURE_IMPLICIT ||
              (result == CUDA_SUCCESS && capturing != CU_STREAM_CAPTURE_STATUS_NONE);
    }
    return any;
}

static gantry_status ask(struct gy_context *context)
{
    return gy_whole_is_captured(context)
               ? GY_FAIL(GANTRY_ERR_STATE, "a stream of the context is being captured")
               : GANTRY_OK;
}

gantry_status gy_whole_record(struct gy_context *context, CUevent event)
{
    const gantry_status status = ask(context);
    return status == GANTRY_OK ? GY_WHOLE_CALL(context, cuCtxRecordEvent(context->native, event)) : status;
}

gantry_status gy_whole_come_after(struct gy_context *context, CUevent event)
{
    const gantry_status status = ask(context);
    return status == GANTRY_OK ? GY_WHOLE_CALL(context, cuCtxWaitEvent(context->native, event)) : status;
}
