/* SPDX-License-Identifier: MIT */
#include "bench/raw_cuda.h"

#include "cli/messages.h"

#include <dlfcn.h>
#include <stdio.h>
#include <string.h>

bool raw_cuda_ok(CUresult result, const char *call)
{
    if (result == CUDA_SUCCESS) {
        return true;
    }
    cli_error("bench: %s: CUresult %d", call, (int)result);
    return false;
}

bool raw_cuda_upload(const struct raw_cuda *cuda, void *to, const void *from, size_t bytes)
{
    return RAW(cuda, cuMemcpyHtoD((CUdeviceptr)(uintptr_t)to, from, bytes)) &&
           RAW(cuda, cuStreamSynchronize(NULL));
}

/* POSIX lets dlsym()'s void * be a function's address; ISO C wants it copied. */
static bool bind(void *library, const char *symbol, void *out, size_t bytes)
{
    void *address = dlsym(library, symbol);
    memcpy(out, &address, bytes);
    return address != NULL;
}

bool raw_cuda_open(gantry_context *context, struct raw_cuda *out)
{
    gantry_device_info info = {.struct_size = sizeof(info)};
    if (gantry_context_device_info(context, &info) != GANTRY_OK) {
        return false;
    }
    const char *name = info.emulated ? "libgantry-emu.so" : "libcuda.so.1";
    void *library = dlopen(name, RTLD_NOW | RTLD_NOLOAD);
    if (library == NULL) {
        cli_error("bench: %s is not loaded", name);
        return false;
    }
    memset(out, 0, sizeof(*out));
    const char *missing = NULL;
#define F(need, member, symbol, prototype)                                      \
    if (!bind(library, #symbol, &out->member, sizeof(out->member)) && (need)) { \
        missing = #symbol;                                                      \
    }
    GY_DRIVER_FUNCS(F)
#undef F
    (void)bind(library, "gantry_emu_set_noop", &out->emulator_set_noop, sizeof(out->emulator_set_noop));
    if (missing != NULL) {
        cli_error("bench: %s lacks %s", name, missing);
    }
    return missing == NULL; /* the handle stays open: the process is short */
}

bool raw_cuda_load(const struct raw_cuda *cuda, const gantry_module_image *image, const char *kernel,
                   CUmodule *module, CUfunction *function)
{
    const void *code = cuda->emulator_set_noop != NULL ? image->host
                       : image->fatbin != NULL         ? image->fatbin
                                                       : (const void *)image->ptx;
    return RAW(cuda, cuModuleLoadDataEx(module, code, 0, NULL, NULL)) &&
           RAW(cuda, cuModuleGetFunction(function, *module, kernel));
}
