/* SPDX-License-Identifier: MIT */
/* Lists the devices, as the first program of many does.  Functions of a later driver are asked for by their
 * names. */
#include "tests/emulator/programs/check.h"

static void print_device(int ordinal)
{
    CUdevice device;
    CUuuid uuid;
    char name[100];
    size_t bytes = 0;
    int major = 0, minor = 0, processors = 0;
    CHECK(cuDeviceGet(&device, ordinal));
    CHECK(cuDeviceGetName(name, sizeof(name), device));
    CHECK(cuDeviceTotalMem(&bytes, device));
    CHECK(cuDeviceGetUuid_v2(&uuid, device));
    CHECK(cuDeviceGetAttribute(&major, CU_DEVICE_ATTRIBUTE_COMPUTE_CAPABILITY_MAJOR, device));
    CHECK(cuDeviceGetAttribute(&minor, CU_DEVICE_ATTRIBUTE_COMPUTE_CAPABILITY_MINOR, device));
    CHECK(cuDeviceGetAttribute(&processors, CU_DEVICE_ATTRIBUTE_MULTIPROCESSOR_COUNT, device));
    printf("device %d: %s, compute %d.%d, %d multiprocessors, %zu MiB, UUID ends with %02x\n", ordinal, name,
           major, minor, processors, bytes >> 20, (unsigned)(unsigned char)uuid.bytes[15]);
}

int main(void)
{
    int version = 0, count = 0;
    void *function = NULL;
    CHECK(cuInit(0));
    CHECK(cuDriverGetVersion(&version));
    CHECK(cuDeviceGetCount(&count));
    printf("CUDA %d.%d, %d devices\n", version / 1000, version % 1000 / 10, count);
    for (int i = 0; i < count; i++) {
        print_device(i);
    }
    static const char *const names[] = {"cuStreamCreate", "cuGreenCtxCreate", "cuStreamGetDevResource",
                                        "cuNoSuchFunction"};
    for (size_t i = 0; i < sizeof(names) / sizeof(names[0]); i++) {
        int why = -1;
        CUresult result = cuGetProcAddress_v2(names[i], &function, version, 0, &why);
        printf("%s: %s\n", names[i],
               result == CUDA_SUCCESS ? "there"
               : why == 2             ? "not in this driver"
                                      : "unknown");
    }
    return 0;
}
