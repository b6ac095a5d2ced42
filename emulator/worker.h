/* SPDX-License-Identifier: MIT */
/* The emulator's own threads, which execute operations; each device has its own.
 *
 *   gpu    min(4, cores) threads, at least 2 ($GANTRY_EMU_THREADS): kernels, and copies when free; more, up
 *          to 64, where all are in blocks that wait while other kernels wait for a thread
 *   copy   one thread: copies, fills and value waits, so that they go on while kernels occupy the others;
 *          it sees that the others are stuck
 *   host   one thread: host functions */
#ifndef EMULATOR_WORKER_H
#define EMULATOR_WORKER_H

#include "emulator/crew.h"

/* Start the threads of a device unless they run.  OUT_OF_MEMORY when that fails. */
CUresult gy_emu_crews_start(int device);

/* From a kernel that the calling thread executes: fail its launch with `result` when the block ends. */
void gy_emu_trap(CUresult result);
/* Refuse each so-manieth request of a thread block for another one; 0: only when none is left. */
void gy_emu_steals_refuse(uint64_t every);
/* Blocks taken over, ever. */
uint64_t gy_emu_steals(void);

#endif
