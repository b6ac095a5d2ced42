/* SPDX-License-Identifier: MIT */
/* What the test programs share that know nothing of Gantry: they reach the driver by the door that is asked
 * for. */
#ifndef TESTS_LIMIT_DOOR_PROGRAM_H
#define TESTS_LIMIT_DOOR_PROGRAM_H

#include "driver/cuda_abi.h"
#include "driver/funcs.h"

#include <stdint.h>

/* The driver as this program found it. */
struct door_driver {
#define F(need, member, symbol, prototype) CUresult(*member) prototype;
    GY_DRIVER_FUNCS(F)
#undef F
    CUresult (*cuLaunchCooperativeKernel)(CUfunction, unsigned, unsigned, unsigned, unsigned, unsigned,
                                          unsigned, unsigned, CUstream, void **);
    CUresult (*cuMemsetD32)(CUdeviceptr, unsigned, size_t);
    CUresult (*cuStandInOfTheFuture)(int);
};
extern struct door_driver cu;

/* The emulator's controls (their own header says what they do). */
extern struct door_emulator {
    void (*clock_manual)(int);
    void (*clock_kernel_cost)(uint64_t);
    void (*clock_advance)(uint64_t);
    uint64_t (*calls)(const char *);
    int64_t (*live)(int);
    int (*fail)(const char *, uint64_t, int, int);
} emu;

/* Find the driver by "dlsym", "default", "next", "dlvsym", "getproc", "getproc2", "ptsz" or "exported", and
 * begin: a primary context is current and the kernels are loaded. */
void door_open(const char *door);
/* End the program with what went wrong unless the result is this. */
#define OK(call) door_expect(CUDA_SUCCESS, cu.call, #call)
void door_expect(CUresult expected, CUresult result, const char *call);
/* End the program unless it is true. */
#define CHECK(condition) door_check((condition) != 0, #condition)
void door_check(int holds, const char *what);

/* add(data, count, value), spin(flag): runs until *flag is not 0, and raise(flag): *flag = 1. */
CUfunction door_kernel(const char *name);
CUresult door_add(CUstream stream, CUdeviceptr data, uint32_t count, uint32_t value);
CUresult door_flag(const char *kernel, CUstream stream, void *flag);
/* The kernels for the current context, of another device. */
CUmodule door_load(void);
CUresult door_flag_of(CUmodule module, const char *kernel, CUstream stream, void *flag);

/* What the job was charged on its first device, ns; 0 without a job. */
uint64_t door_charged(void);
uint64_t door_held(void), door_credits(void), door_unmeasured(void), door_in_flight(void);

/* The modes beside the simple ones. */
void door_random(unsigned seed);
void door_threads(void);

#endif
