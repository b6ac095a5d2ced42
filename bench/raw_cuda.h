/* SPDX-License-Identifier: MIT */
/* The driver that a context of ours has loaded, for yardsticks that use CUDA by hand. */
#ifndef BENCH_RAW_CUDA_H
#define BENCH_RAW_CUDA_H

#include "driver/funcs.h"

#include <gantry/context.h>
#include <gantry/module.h>

struct raw_cuda {
#define F(need, member, symbol, prototype) CUresult(*member) prototype;
    GY_DRIVER_FUNCS(F)
#undef F
    /* Make the emulated driver accept launches and copies without doing them; NULL on a real one. */
    void (*emulator_set_noop)(int on);
};

/* Bind to the driver library that `context` made the process load; false (told on stderr) when it cannot be
 * found. */
bool raw_cuda_open(gantry_context *context, struct raw_cuda *out);

/* Load the form of `image` that this driver takes, and find a kernel in it; false, with a line on stderr,
 * when that fails. */
bool raw_cuda_load(const struct raw_cuda *cuda, const gantry_module_image *image, const char *kernel,
                   CUmodule *module, CUfunction *function);

/* True for CUDA_SUCCESS; for any other result false, with a line on stderr. */
bool raw_cuda_ok(CUresult result, const char *call);
#define RAW(cuda, call) raw_cuda_ok((cuda)->call, #call)

/* Copy to device memory, and wait: cuMemcpyHtoD() may return before the device has a small copy. */
bool raw_cuda_upload(const struct raw_cuda *cuda, void *to, const void *from, size_t bytes);

#endif
