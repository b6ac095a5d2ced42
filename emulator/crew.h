/* SPDX-License-Identifier: MIT */
/* The crews of a device: the threads that execute operations, as lists of what there is to do, and who
 * sleeps. */
#ifndef EMULATOR_CREW_H
#define EMULATOR_CREW_H

#include "emulator/context.h"

#define MAX_GPU_WORKERS 64u

enum crew_kind { CREW_GPU, CREW_COPY, CREW_HOST };

struct crew {
    struct crews *crews; /* the device's */
    enum crew_kind kind;
    struct gy_emu_list ready;
    gy_cond cond;
    uint32_t sleeping; /* sleeping threads without a token */
    uint32_t tokens;   /* threads that were woken and do not run yet */
};

/* The threads of one device. */
struct crews {
    int device;
    struct crew gpu, copy, host;
    struct gy_emu_list polled;              /* waits for values; only the copy thread looks at them */
    struct gy_emu_list grids;               /* kernels with blocks that no thread has taken yet, by urgency */
    atomic_int most_urgent;                 /* priority of what a thread could begin with; INT_MAX: nothing */
    uint32_t gpu_workers;                   /* GPU workers at first; more may be started, for those stuck */
    bool may_grow;                          /* their number was not asked for */
    uint64_t gpu_turns;                     /* kernels and shares of grids that GPU workers have taken */
    uint64_t stuck_at, stuck_ns;            /* see help_stuck(); stuck_ns 0: nothing waits for a thread */
    gy_thread threads[MAX_GPU_WORKERS + 2]; /* never joined: the library is never unloaded */
    uint32_t thread_count;
    enum { CREWS_NONE, CREWS_RUNNING, CREWS_FAILED } state;
};

extern struct crews gy_emu_crews[GY_EMU_MAX_DEVICES];

/* The threads of the device are about to be started. */
void gy_emu_crews_begin(int device);
/* Does a kernel, or a block, wait for a thread while all are in blocks? */
bool gy_emu_crews_lack_threads(const struct crews *crews);

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

#endif
