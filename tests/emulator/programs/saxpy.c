/* SPDX-License-Identifier: MIT */
/* A kernel on each device: y = a x + y.  Its image is the host form, which gantry_add_kernels() makes of a
 * .cu file; the program calls nothing of Gantry's library. */
#include "saxpy.kernels.h"
#include "tests/emulator/programs/check.h"

#define COUNT 10000u

static int run_on(CUdevice device)
{
    static float x[COUNT], y[COUNT];
    CUcontext context;
    CUmodule module;
    CUfunction saxpy;
    CUdeviceptr to, from;
    float a = 2;
    unsigned count = COUNT;
    int wrong = 0;
    for (unsigned i = 0; i < COUNT; i++) {
        x[i] = (float)i;
        y[i] = 1;
    }
    CHECK(cuCtxCreate(&context, 0, device));
    CHECK(cuModuleLoadData(&module, gantry_image_saxpy.host));
    CHECK(cuModuleGetFunction(&saxpy, module, "saxpy"));
    CHECK(cuMemAlloc(&from, sizeof(x)));
    CHECK(cuMemAlloc(&to, sizeof(y)));
    CHECK(cuMemcpyHtoD(from, x, sizeof(x)));
    CHECK(cuMemcpyHtoD(to, y, sizeof(y)));
    void *arguments[] = {&a, &from, &to, &count};
    CHECK(cuLaunchKernel(saxpy, (COUNT + 255) / 256, 1, 1, 256, 1, 1, 0, NULL, arguments, NULL));
    CHECK(cuCtxSynchronize());
    CHECK(cuMemcpyDtoH(y, to, sizeof(y)));
    for (unsigned i = 0; i < COUNT; i++) {
        wrong += y[i] != 2 * (float)i + 1;
    }
    CHECK(cuModuleUnload(module));
    CHECK(cuCtxDestroy(context));
    return wrong;
}

int main(void)
{
    int count = 0, wrong = 0;
    CHECK(cuInit(0));
    CHECK(cuDeviceGetCount(&count));
    for (int i = 0; i < count; i++) {
        CUdevice device;
        CHECK(cuDeviceGet(&device, i));
        wrong += run_on(device);
    }
    printf("saxpy on %d devices: %d wrong\n", count, wrong);
    return wrong != 0;
}
