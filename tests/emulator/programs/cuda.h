/* SPDX-License-Identifier: MIT */
/* What the programs here need of the toolkit's header of this name: they are written as programs for CUDA's
 * driver are. */
#ifndef TESTS_EMULATOR_PROGRAMS_CUDA_H
#define TESTS_EMULATOR_PROGRAMS_CUDA_H

#include "driver/funcs.h"
#include "emulator/others.h"

#define F(need, member, symbol, prototype) CUresult symbol prototype;
GY_DRIVER_FUNCS(F)
#undef F

#define cuCtxCreate cuCtxCreate_v2
#define cuCtxDestroy cuCtxDestroy_v2
#define cuDeviceTotalMem cuDeviceTotalMem_v2
#define cuEventDestroy cuEventDestroy_v2
#define cuMemAlloc cuMemAlloc_v2
#define cuMemFree cuMemFree_v2
#define cuMemcpyDtoD cuMemcpyDtoD_v2
#define cuMemcpyDtoH cuMemcpyDtoH_v2
#define cuMemcpyDtoHAsync cuMemcpyDtoHAsync_v2
#define cuMemcpyHtoD cuMemcpyHtoD_v2
#define cuMemcpyHtoDAsync cuMemcpyHtoDAsync_v2
#define cuMemsetD32 cuMemsetD32_v2
#define cuStreamDestroy cuStreamDestroy_v2

#endif
