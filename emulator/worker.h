/* The emulator's own threads, which execute operations; each device has its own.
 *
 *   gpu    min(4, cores) threads, at least 2 ($GANTRY_EMU_THREADS): kernels, and copies when free; more, up
 *          to 64, where all are in blocks that wait while other kernels wait for a thread
 *   copy   one thread: copies, fills and value waits, so that they go on while kernels occupy the others;
 *          it sees that the others are stuck
 *   host   one thread: host functions */
#ifndef EMULATOR_WORKER_H
#define EMULATOR_WORKER_H

#include "emulator/context.h"

/* Start the threads of a device unless they run.  OUT_OF_MEMORY when that fails. */
CUresult gy_emu_crews_start(int device);

/* Hand an operation that takes time to the crew for it. */
void gy_emu_crews_add(struct gy_emu_op *op);

/* How many sleepers to wake for the operations that are ready now.  Planned under the lock, signalled
 * without it. */
struct gy_emu_wake {
    uint8_t gpu, copy, host;
};
struct gy_emu_wakes {
    uint32_t devices; /* entries of `of` that are set */
    struct gy_emu_wake of[GY_EMU_MAX_DEVICES];
};
/* False: nobody, and nothing is in `wakes`. */
bool gy_emu_crews_plan(struct gy_emu_wakes *wakes);
void gy_emu_crews_signal(const struct gy_emu_wakes *wakes);

/* From a kernel that the calling thread executes: fail its launch with `result` when the block ends. */
void gy_emu_trap(CUresult result);
/* Refuse each so-manieth request of a thread block for another one; 0: only when none is left. */
void gy_emu_steals_refuse(uint64_t every);
/* Blocks taken over, ever. */
uint64_t gy_emu_steals(void);
/* Why the latest launch that failed did; the text's whole length. */
size_t gy_emu_last_failure(char *text, size_t room);
/* The same, if it failed with `result`; else NULL.  Good while the lock is held.  *is_new: nobody has asked
 * for it before. */
const char *gy_emu_failure_of(CUresult result, bool *is_new);
void gy_emu_failures_forget(void);

#endif
