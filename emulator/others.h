/* SPDX-License-Identifier: MIT */
/* Functions of a CUDA driver that Gantry does not call, for programs of others: each is another one of
 * driver/funcs.h with something left out, or finds them.  They are not counted and have no faults of their
 * own. */
#ifndef EMULATOR_OTHERS_H
#define EMULATOR_OTHERS_H

#include "driver/cuda_abi.h"

#include <stddef.h>

/* F(member, symbol, prototype), as in driver/funcs.h. */
/* clang-format off */
#define GY_EMU_OTHERS(F) \
    F(cuGetProcAddress, cuGetProcAddress, \
      (const char *name, void **function, int version, unsigned long long flags)) \
    F(cuGetProcAddress, cuGetProcAddress_v2, \
      (const char *name, void **function, int version, unsigned long long flags, int *found)) \
    F(cuModuleLoadData, cuModuleLoadData, (CUmodule *module, const void *image)) \
    F(cuMemsetD8, cuMemsetD8_v2, (CUdeviceptr address, unsigned char value, size_t count)) \
    F(cuMemsetD32, cuMemsetD32_v2, (CUdeviceptr address, unsigned int value, size_t count)) \
    F(cuMemcpyDtoD, cuMemcpyDtoD_v2, (CUdeviceptr to, CUdeviceptr from, size_t bytes))
/* clang-format on */

#define F(member, symbol, prototype) __attribute__((visibility("default"))) CUresult symbol prototype;
GY_EMU_OTHERS(F)
#undef F

#endif
