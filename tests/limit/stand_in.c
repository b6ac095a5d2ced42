/* SPDX-License-Identifier: MIT */
/* A libcuda.so.1 for the tests of limits: hands every call on to the emulated driver, and adds what a real
 * driver has beside: cuGetProcAddress() with versions and flags, functions for per-thread default streams,
 * cooperative launches, and a function that nobody knows. */
#include "driver/cuda_abi.h"
#include "driver/funcs.h"

#include <dlfcn.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* Each function of the emulated driver: its address, and a jump to it under its own name. */
#define F(need, member, symbol, prototype)                                                   \
    extern void *stand_in_##symbol;                                                          \
    void *stand_in_##symbol __attribute__((visibility("hidden")));                           \
    __asm__(".pushsection .text\n.globl " #symbol "\n.type " #symbol ", @function\n" #symbol \
            ": jmp *stand_in_" #symbol "(%rip)\n.popsection\n");
GY_DRIVER_FUNCS(F)
#undef F

static void *self, *emulated_init;

/* As a driver does with the library that a tool is in. */
static CUresult initialise(unsigned flags)
{
    static int is_injected;
    const char *path = getenv("CUDA_INJECTION64_PATH");
    const CUresult result = ((CUresult(*)(unsigned))(uintptr_t)emulated_init)(flags);
    void *tool = result == CUDA_SUCCESS && path != NULL && !is_injected ? dlopen(path, RTLD_NOW) : NULL;
    int (*inject)(void) = tool != NULL ? (int (*)(void))(uintptr_t)dlsym(tool, "InitializeInjection") : NULL;
    is_injected = 1;
    if (inject != NULL && inject() != 1) {
        fprintf(stderr, "stand-in: the injected library says no\n");
    }
    return result;
}

__attribute__((constructor)) static void open_emulator(void)
{
    void *emulator = dlopen(STAND_IN_EMULATOR, RTLD_NOW | RTLD_LOCAL);
    if (emulator == NULL) {
        fprintf(stderr, "stand-in: %s\n", dlerror());
        abort();
    }
#define F(need, member, symbol, prototype) stand_in_##symbol = dlsym(emulator, #symbol);
    GY_DRIVER_FUNCS(F)
#undef F
    emulated_init = stand_in_cuInit;
    stand_in_cuInit = (void *)(uintptr_t)initialise;
    self = dlopen("libcuda.so.1", RTLD_LAZY | RTLD_NOLOAD);
}

#define EXPORT(result, name, parameters) \
    result name parameters;              \
    result name parameters
#define CALL(symbol, type) ((CUresult(*) type)(uintptr_t)stand_in_##symbol)
#define OWN(stream) ((stream) == NULL ? (CUstream)(uintptr_t)2 : (stream))

EXPORT(CUresult, cuLaunchKernel_ptsz,
       (CUfunction f, unsigned gx, unsigned gy, unsigned gz, unsigned bx, unsigned by, unsigned bz,
        unsigned shared, CUstream stream, void **parameters, void **extra))
{
    return CALL(cuLaunchKernel, (CUfunction, unsigned, unsigned, unsigned, unsigned, unsigned, unsigned,
                                 unsigned, CUstream, void **, void **))(f, gx, gy, gz, bx, by, bz, shared,
                                                                        OWN(stream), parameters, extra);
}

EXPORT(CUresult, cuLaunchCooperativeKernel,
       (CUfunction f, unsigned gx, unsigned gy, unsigned gz, unsigned bx, unsigned by, unsigned bz,
        unsigned shared, CUstream stream, void **parameters))
{
    CUlaunchAttribute attribute;
    memset(&attribute, 0, sizeof(attribute));
    attribute.id = CU_LAUNCH_ATTRIBUTE_COOPERATIVE;
    attribute.value.cooperative = 1;
    const CUlaunchConfig config = {gx, gy, gz, bx, by, bz, shared, stream, &attribute, 1};
    return CALL(cuLaunchKernelEx, (const CUlaunchConfig *, CUfunction, void **, void **))(&config, f,
                                                                                          parameters, NULL);
}

EXPORT(CUresult, cuStreamSynchronize_ptsz, (CUstream stream))
{
    return CALL(cuStreamSynchronize, (CUstream))(OWN(stream));
}

EXPORT(CUresult, cuMemsetD32_v2, (CUdeviceptr to, unsigned value, size_t count))
{
    const CUresult result =
        CALL(cuMemsetD32Async, (CUdeviceptr, unsigned, size_t, CUstream))(to, value, count, NULL);
    return result == CUDA_SUCCESS ? CALL(cuStreamSynchronize, (CUstream))(NULL) : result;
}

/* Not in any list: a driver newer than whoever looks at it. */
EXPORT(CUresult, cuStandInOfTheFuture, (int number))
{
    return number == 42 ? CUDA_SUCCESS : CUDA_ERROR_INVALID_VALUE;
}

/* "cuMemAlloc" is cuMemAlloc_v2 from 3.2 on; flag 2 asks for per-thread default streams. */
static void *find(const char *symbol, int version, cuuint64_t flags)
{
    static const char *const forms[] = {"_v3", "_v2", ""};
    static const char *const threads[] = {"_ptsz", "_ptds", ""};
    char name[128];
    for (int t = flags == 2 ? 0 : 2; t < 3; t++) {
        for (int f = version >= 3020 ? 0 : 2; f < 3; f++) {
            snprintf(name, sizeof(name), "%s%s%s", symbol, forms[f], threads[t]);
            void *found = dlsym(self, name);
            if (found != NULL) {
                return found;
            }
        }
    }
    return NULL;
}

EXPORT(CUresult, cuGetProcAddress, (const char *symbol, void **function, int version, cuuint64_t flags))
{
    *function = strcmp(symbol, "cuGetProcAddress") == 0 && version < 12000 ? dlsym(self, symbol)
                                                                           : find(symbol, version, flags);
    return *function != NULL ? CUDA_SUCCESS : CUDA_ERROR_NOT_FOUND;
}

EXPORT(CUresult, cuGetProcAddress_v2,
       (const char *symbol, void **function, int version, cuuint64_t flags, int *found))
{
    *function = find(symbol, version, flags);
    if (found != NULL) {
        *found = *function != NULL ? 0 : 1;
    }
    return *function != NULL ? CUDA_SUCCESS : CUDA_ERROR_NOT_FOUND;
}
