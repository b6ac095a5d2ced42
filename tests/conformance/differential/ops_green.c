/* SPDX-License-Identifier: MIT */
/* SM resources and green contexts, each made and given back by one operation. */
#include "tests/conformance/differential/ops.h"

static void op_resource(void)
{
    CUdevResource resource;
    unsigned type = (unsigned)DF_PICK("type", 1, 1, 0, 2, 99);
    CUcontext context = df_context();
    CUdevice device = (CUdevice)DF_PICK("d", 0, 0, w.has_second ? 1 : 0, 99, (unsigned long long)-1);
    CUresult result =
        df_choice("op", 2) == 0
            ? ask(cuDeviceGetDevResource, device, df_or_null(&resource), (CUdevResourceType)type)
            : ask(cuCtxGetDevResource, context, df_or_null(&resource), (CUdevResourceType)type);
    if (result == CUDA_SUCCESS) {
        df_note("%u", resource.sm.smCount);
    }
}

static void op_split(void)
{
    CUdevResource whole, groups[20], rest = {.type = CU_DEV_RESOURCE_TYPE_INVALID};
    unsigned count = (unsigned)DF_PICK("groups", 1, 2, 1, 8, 16, 20, 0);
    unsigned flags = (unsigned)DF_PICK("flags", 0, 0, 1, 2, 4);
    unsigned least = (unsigned)DF_PICK("least", 8, 16, 1, 0, 7, 9, 64, 132, 133, 1000);
    bool has_groups = !df_one_in(6), has_rest = df_below(2) == 0;
    groups[0] = rest;
    if (ask(cuDeviceGetDevResource, w.device, &whole, CU_DEV_RESOURCE_TYPE_SM) != CUDA_SUCCESS) {
        return;
    }
    df_shape("g%u,f%u,l%u,%d%d", count, flags, least, has_groups, has_rest);
    if (ask(cuDevSmResourceSplitByCount, has_groups ? groups : NULL, &count, &whole, has_rest ? &rest : NULL,
            flags, least) == CUDA_SUCCESS) {
        df_note("%u.%u.%u", count, has_groups && count > 0 ? groups[0].sm.smCount : 0,
                has_rest ? rest.sm.smCount : 0);
    }
}

static void use_green(CUgreenCtx green)
{
    CUcontext context = NULL;
    CUgreenCtx back = NULL;
    CUdevResource resource;
    CUstream stream = NULL;
    unsigned flags = (unsigned)DF_PICK("flags", 1, 1, 1, 0, 2), type = (unsigned)DF_PICK("type", 1, 1, 0);
    CUevent event = df_event();
    if (ask(cuGreenCtxStreamCreate, &stream, green, flags, 0) == CUDA_SUCCESS) {
        ask(cuStreamGetGreenCtx, stream, &back);
        df_note("%d", back == green);
    }
    if (ask(cuCtxFromGreenCtx, df_or_null(&context), green) == CUDA_SUCCESS) {
        df_note("%c", df_context_letter(context));
    }
    df_shape("type%u", type);
    if (ask(cuGreenCtxGetDevResource, green, df_or_null(&resource), (CUdevResourceType)type) ==
        CUDA_SUCCESS) {
        df_note("%u", resource.sm.smCount);
    }
    if (event != NULL) {
        ask(cuGreenCtxRecordEvent, green, event);
        ask(cuGreenCtxWaitEvent, green, event);
    }
    if (stream != NULL) {
        (void)cu->cuStreamDestroy(stream);
    }
}

static void op_green(void)
{
    CUdevResource whole, group;
    CUdevResourceDesc desc = NULL;
    CUgreenCtx green = NULL;
    unsigned count = 1, number = 1;
    unsigned flags = (unsigned)DF_PICK("flags", 1, 1, 1, 0, 2);
    CUdevice device = (CUdevice)DF_PICK("d", 0, 0, w.has_second ? 1 : 0, 99);
    if (!df_one_in(4) ||
        ask(cuDeviceGetDevResource, w.device, &whole, CU_DEV_RESOURCE_TYPE_SM) != CUDA_SUCCESS ||
        cu->cuDevSmResourceSplitByCount(&group, &count, &whole, NULL, 0, 16) != CUDA_SUCCESS) {
        df_skip(DF_cuGreenCtxCreate);
        return;
    }
    df_shape("n%u", number);
    if (ask(cuDevResourceGenerateDesc, df_or_null(&desc), &group, number) != CUDA_SUCCESS || desc == NULL) {
        return;
    }
    df_settle();
    df_shape("flags%u,d%d", flags, device);
    if (ask(cuGreenCtxCreate, df_or_null(&green), desc, device, flags) == CUDA_SUCCESS && green != NULL) {
        use_green(green);
        ask(cuGreenCtxDestroy, green);
    }
}

static void op_stream(void)
{
    CUgreenCtx green = NULL;
    CUstream stream = df_stream();
    if (!df_stream_is_there()) {
        df_skip(DF_cuStreamGetGreenCtx);
        return;
    }
    ask(cuStreamGetGreenCtx, stream, &green);
    df_note("%d", green != NULL);
}

static void op_event(void)
{
    CUcontext context = df_context();
    CUevent event = df_event();
    bool waits = df_choice("wait", 2) == 1;
    if (event == NULL) {
        df_skip(waits ? DF_cuCtxWaitEvent : DF_cuCtxRecordEvent);
    } else if (waits) {
        ask(cuCtxWaitEvent, context, event);
    } else {
        ask(cuCtxRecordEvent, context, event);
    }
}

/* The structured split and a stream's resource, which drivers since CUDA 13.1 have. */
static void op_newer(void)
{
    CUdevResource whole, group;
    CU_DEV_SM_RESOURCE_GROUP_PARAMS params = {.smCount = (unsigned)DF_PICK("sms", 8, 16, 0, 7, 1000)};
    CUstream stream = df_stream();
    unsigned flags = (unsigned)DF_PICK("flags", 0, 0, 1);
    if (df_choice("op", 2) == 0 && df_stream_is_there()) {
        ask(cuStreamGetDevResource, stream, &group, CU_DEV_RESOURCE_TYPE_SM);
    } else if (cu->cuDeviceGetDevResource != NULL &&
               cu->cuDeviceGetDevResource(w.device, &whole, CU_DEV_RESOURCE_TYPE_SM) == CUDA_SUCCESS) {
        ask(cuDevSmResourceSplit, &group, 1, &whole, NULL, flags, &params);
    }
}

const struct df_op df_ops_green[] = {{4, op_resource}, {4, op_split}, {1, op_green}, {2, op_stream},
                                     {4, op_event},    {1, op_newer}, {0, NULL}};
