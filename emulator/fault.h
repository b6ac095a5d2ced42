/* SPDX-License-Identifier: MIT */
/* Scripted faults: the n-th call of a function, or the n-th kernel execution, fails or hangs. */
#ifndef EMULATOR_FAULT_H
#define EMULATOR_FAULT_H

#include "emulator/emu.h"

/* Called for each call: returns what the call shall return instead, or SUCCESS.  The lock is given up while a
 * call hangs. */
CUresult gy_emu_fault_call(enum gy_emu_fn fn);
/* Called for each kernel that ran on the device: returns how it ends. */
CUresult gy_emu_fault_kernel(int device);
bool gy_emu_fault_armed(void);

#define GY_EMU_CALL_FAULT (-1)   /* the fault is one of a call */
#define GY_EMU_EVERY_DEVICE (-2) /* the fault is one of a kernel, wherever it runs */

/* A fault of the function `fn`, or (`fn` is GY_EMU_FN_COUNT) of a kernel on `device`.  `nth` counts from 1,
 * which is the next one.  False: the table is full. */
bool gy_emu_fault_add(enum gy_emu_fn fn, int device, uint64_t nth, CUresult result, int mode);
void gy_emu_fault_unhang(void);
void gy_emu_fault_clear(void);
/* Read the script of $GANTRY_EMU_FAIL: "function:nth:result[:once|always|hang]", comma separated; "kernel" is
 * an execution.  False: the script is malformed, and the part before the mistake is in force. */
bool gy_emu_fault_script(const char *text);

#endif
