/* SPDX-License-Identifier: MIT */
/* The engine of the emulated driver: runs one thread block on the calling OS thread.  A block's threads
 * run one after the other until one needs its siblings (barrier, shuffle); only then do they become
 * fibers. */
#ifndef EMULATOR_EXEC_H
#define EMULATOR_EXEC_H

#include "driver/cuda_abi.h"

#include <gantry/host_module.h>

#include <stdbool.h>

struct gy_emu_gang;

struct gy_emu_grid {
    const struct gantry_host_kernel *kernel;
    uint32_t grid_size[3];
    uint32_t block_size[3]; /* at most 1024 threads in all */
    size_t dynamic_shared_bytes;
    void *const *args; /* pointers to the parameter values, which stay put until the grid is done */
    /* Take a block that has not started out of the grid, for a block that asks for one: true and its number,
     * or false.  With clusters it takes a cluster, and gives the cluster's number.  NULL: the device has no
     * Cluster Launch Control, or all blocks of the grid start together. */
    bool (*take)(void *grid_owner, uint64_t *block);
    void *grid_owner;
    uint32_t cluster[3]; /* blocks of a cluster; without clusters 1, or 0 */
    bool is_cooperative;
    bool must_wait; /* each block must have waited for earlier work when it ends */
    /* For blocks that wait for each other (gang.h): */
    struct gy_emu_gang *gang;                               /* NULL: they do not */
    uint32_t member;                                        /* the block's number in it */
    uint32_t (*sm_of)(void *grid_owner, uint64_t block);    /* the SM on behalf of which a block runs */
    bool (*set_condition)(uint64_t handle, uint32_t value); /* false: there is no such; NULL: there is none */
    void (*hear)(void *grid_owner, uint64_t block, bool begins); /* the calling thread runs a block */
    CUresult (*take_trap)(void); /* how the kernel was trapped on this thread since the last call */
};

/* Run block number `block` (x fastest) of the grid, on behalf of SM `sm`.  Different OS threads may run
 * different blocks of one grid at once.  False when the block could not be run to its end, and
 * gy_emu_exec_why() says why: no memory for fibers, threads that wait for each other for ever, or a broken
 * rule of Cluster Launch Control (steal.h).  What the block had written until then stays written. */
bool gy_emu_exec_block(const struct gy_emu_grid *grid, uint64_t block, uint32_t sm);

/* The cause of the calling OS thread's latest failure; valid until its next one or
 * gy_emu_exec_thread_end(). */
const char *gy_emu_exec_why(void);

/* Free what the calling OS thread keeps between blocks (fiber stacks).  To be called before the thread ends.
 */
void gy_emu_exec_thread_end(void);

#endif
