/* SPDX-License-Identifier: MIT */
/* What an OS thread keeps that runs thread blocks: the struct of the block engine (exec.c), and its fibers.
 */
#ifndef EMULATOR_ENGINE_H
#define EMULATOR_ENGINE_H

#include "emulator/fiber.h"
#include "emulator/gang.h"
#include "emulator/steal.h"

enum {
    MAX_THREADS = 1024,
    WARP = 32,
    MAX_WARPS = MAX_THREADS / WARP,
};

enum warp_op { WARP_BARRIER, WARP_SHUFFLE, WARP_BALLOT };

/* A stack and, while a kernel thread is on it, that thread. */
struct fiber {
    struct gy_fiber base;     /* first member */
    struct fiber *next;       /* link of `ready`, `at_barrier` or `idle` */
    struct fiber *next_all;   /* link of `all` */
    bool is_idle;             /* in `idle`: it waits in fiber_main() for a thread to run */
    uint32_t thread;          /* number of the kernel thread in its block */
    uint32_t thread_index[3]; /* the number as the kernel sees it */
    /* The warp operation at which it waits: */
    enum warp_op op;
    uint32_t mask;
    uint32_t source;
    uint64_t value;
    uint64_t result;
};

struct fiber_queue {
    struct fiber *first, *last;
};

/* Where threads wait for other blocks. */
struct engine_meeting {
    struct fiber_queue threads;
    uint32_t count; /* of these */
    enum gy_emu_meeting where;
};

struct engine {
    struct gantry_host_thread thread; /* the running kernel thread as it sees itself; first member */
    const struct gy_emu_grid *grid;
    uint32_t thread_count; /* threads of the block */
    uint32_t next_thread;  /* the first thread that has not started */
    uint32_t next_index[3];
    uint32_t exited;
    uint32_t warp_exited[MAX_WARPS];             /* bit per lane */
    uint32_t warp_waiters[MAX_WARPS];            /* bit per lane; all 0 between blocks */
    struct fiber *warp_waiting[MAX_WARPS][WARP]; /* all NULL between blocks */
    uint32_t at_barrier_count;
    struct fiber_queue at_barrier;
    struct fiber_queue at_steal; /* threads that wait for an answer that nobody has asked for yet */
    struct gy_emu_steal steal;
    struct engine_meeting meeting;
    bool has_waited; /* a thread has waited for earlier work */
    struct fiber_queue ready;
    struct fiber *idle;
    struct fiber *all;
    struct fiber host; /* the OS thread's own stack */
    struct fiber *current;
    void *shared; /* dynamic shared memory */
    size_t shared_bytes;
    size_t page_bytes;
    bool failed;
    char why[320];
};

#endif
