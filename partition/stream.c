/* SPDX-License-Identifier: MIT */
/* What a stream has: its partition, its SMs; whoever made it. */
#include "partition/partitions.h"

#include <string.h>

/* Some drivers call it an error when a stream is of no green context. */
gantry_status gy_stream_green(struct gy_context *context, CUstream stream, CUgreenCtx *out)
{
    const struct gy_driver *driver = context->driver;
    *out = NULL;
    if (driver->cuStreamGetGreenCtx == NULL) {
        return GANTRY_OK;
    }
    CUresult result = driver->cuStreamGetGreenCtx(stream, out);
    if (result == CUDA_ERROR_INVALID_HANDLE && driver->cuStreamQuery(stream) != CUDA_ERROR_INVALID_HANDLE) {
        *out = NULL;
        return GANTRY_OK;
    }
    return gy_context_check(context, result, "cuStreamGetGreenCtx", __FILE__, __LINE__);
}

static struct gantry_partition *find_partition(struct gy_partitions *all, CUgreenCtx green)
{
    for (uint32_t i = 0; i < all->count && green != NULL; i++) {
        if (all->partitions[i].green == green || all->partitions[i].wide == green) {
            return &all->partitions[i];
        }
    }
    return NULL;
}

gantry_status gy_partition_of(struct gy_partitions *all, CUstream stream, struct gantry_partition **out)
{
    CUgreenCtx green = NULL;
    gantry_status status =
        all->partitions[0].green != NULL ? gy_stream_green(all->context, stream, &green) : GANTRY_OK;
    if (status != GANTRY_OK) {
        return status;
    }
    *out = find_partition(all, green);
    if (*out == NULL && all->is_planned) {
        gy_log(GANTRY_LOG_WARNING, "a stream of no partition: its work runs on the SMs of all %u partitions",
               all->count);
    }
    return GANTRY_OK;
}

/* Read the SMs of a stream's context.  Drivers before CUDA 12.4 cannot tell, and have no contexts with a part
 * of the SMs. */
static gantry_status read_sms(struct gy_context *context, CUcontext of, CUgreenCtx green, uint32_t *out)
{
    const struct gy_driver *driver = context->driver;
    CUdevResource sms;
    memset(&sms, 0, sizeof(sms));
    gantry_status status = GANTRY_OK;
    if (green != NULL && driver->cuGreenCtxGetDevResource != NULL) {
        status = GY_CALL(context, cuGreenCtxGetDevResource(green, &sms, CU_DEV_RESOURCE_TYPE_SM));
    } else if (driver->cuCtxGetDevResource != NULL) {
        status = GY_CALL(context, cuCtxGetDevResource(of, &sms, CU_DEV_RESOURCE_TYPE_SM));
    } else {
        sms.sm.smCount = context->info.total_sms;
    }
    *out = sms.sm.smCount;
    return status;
}

/* A stream that is being captured may be asked, too: none of these calls breaks the capture. */
gantry_status gy_stream_read_info(struct gy_partitions *all, CUstream stream, gantry_stream_info *out)
{
    struct gy_context *context = all->context;
    CUcontext of = NULL;
    CUgreenCtx green = NULL;
    gantry_stream_info info = {.struct_size = sizeof(info), .total_sms = context->info.total_sms};
    gantry_status status = gy_stream_green(context, stream, &green);
    if (status == GANTRY_OK) {
        status = GY_CALL(context, cuStreamGetCtx(stream, &of));
    }
    if (status == GANTRY_OK) {
        status = GY_CALL(context, cuStreamGetPriority(stream, &info.priority));
    }
    if (status == GANTRY_OK) {
        status = read_sms(context, of, green, &info.granted_sms);
    }
    if (status != GANTRY_OK) {
        return status;
    }
    info.partition = find_partition(all, green);
    if (info.partition != NULL) {
        info.place = info.partition->green == green ? GANTRY_STREAM_OF_PARTITION : GANTRY_STREAM_OF_WIDE;
    } else if (of != context->native) { /* which may be a green context itself, that was adopted */
        info.place = green != NULL ? GANTRY_STREAM_OF_GREEN : GANTRY_STREAM_OF_OTHER;
    }
    *out = info;
    return GANTRY_OK;
}
