/* SPDX-License-Identifier: MIT */
/* Two streams between page-locked memory and the device, ordered by events, with a host function at the end;
 * then the device's memory runs out, and the program goes on. */
#include "tests/emulator/programs/check.h"

#include <string.h>

#define WORDS 100000u

static void note_done(void *user)
{
    *(int *)user = 1;
}

static int run_out_of_memory(CUdevice device)
{
    size_t bytes = 0;
    CUdeviceptr block = 0;
    CHECK(cuDeviceTotalMem(&bytes, device));
    return cuMemAlloc(&block, bytes + 1) == CUDA_ERROR_OUT_OF_MEMORY;
}

int main(void)
{
    CUdevice device;
    CUcontext context;
    CUstream up, down;
    CUevent uploaded;
    CUdeviceptr first, second;
    void *from, *to;
    int is_done = 0, wrong = 0;
    const size_t bytes = WORDS * sizeof(unsigned);
    CHECK(cuInit(0));
    CHECK(cuDeviceGet(&device, 0));
    CHECK(cuCtxCreate(&context, 0, device));
    CHECK(cuMemHostAlloc(&from, bytes, 0));
    CHECK(cuMemHostAlloc(&to, bytes, 0));
    CHECK(cuMemAlloc(&first, bytes));
    CHECK(cuMemAlloc(&second, bytes));
    CHECK(cuStreamCreate(&up, CU_STREAM_NON_BLOCKING));
    CHECK(cuStreamCreate(&down, CU_STREAM_NON_BLOCKING));
    CHECK(cuEventCreate(&uploaded, CU_EVENT_DISABLE_TIMING));
    for (unsigned i = 0; i < WORDS; i++) {
        ((unsigned *)from)[i] = 3 * i;
    }
    memset(to, 0, bytes);
    CHECK(cuMemcpyHtoDAsync(first, from, bytes, up));
    CHECK(cuEventRecord(uploaded, up));
    CHECK(cuStreamWaitEvent(down, uploaded, 0));
    CHECK(cuMemcpyDtoHAsync(to, first, bytes, down));
    CHECK(cuLaunchHostFunc(down, note_done, &is_done));
    CHECK(cuStreamSynchronize(down));
    wrong += memcmp(from, to, bytes) != 0 || !is_done;
    CHECK(cuMemsetD32(first, 7, WORDS));
    CHECK(cuMemcpyDtoD(second, first, bytes));
    CHECK(cuMemcpyDtoH(to, second, bytes));
    for (unsigned i = 0; i < WORDS; i++) {
        wrong += ((unsigned *)to)[i] != 7;
    }
    wrong += !run_out_of_memory(device);
    CHECK(cuEventDestroy(uploaded));
    CHECK(cuStreamDestroy(up));
    CHECK(cuStreamDestroy(down));
    CHECK(cuMemFree(first));
    CHECK(cuMemFree(second));
    CHECK(cuMemFreeHost(from));
    CHECK(cuMemFreeHost(to));
    CHECK(cuCtxDestroy(context));
    printf("copies: %d wrong\n", wrong);
    return wrong != 0;
}
