/* SPDX-License-Identifier: MIT */
/* Kernels that note when they begin and end, by a clock that all of them advance: by these stamps a test
 * sees in which order work was done.  Functions fail the test themselves. */
#ifndef TESTS_DISPATCHER_STAMPS_H
#define TESTS_DISPATCHER_STAMPS_H

#include <gantry/gantry.h>

struct stamps {
    gantry_heap *heap;
    gantry_kernel *kernel;
    uint32_t *cells;     /* pinned; [0] is the clock */
    uint32_t *on_device; /* the address of the same memory on the device */
};

/* Make `bytes` of cells, all 0. */
void stamps_open(struct stamps *stamps, gantry_context *context, size_t bytes);
void stamps_close(struct stamps *stamps);

/* In a launch callback: launch a kernel that stamps cells `begin` and `end`; `spins` make it last longer. */
GANTRY_MUST_CHECK gantry_status stamps_launch(const struct stamps *stamps, gantry_launch *launch,
                                              uint32_t begin, uint32_t end, uint32_t spins);

/* In a launch callback: launch the kernel "await_flag" of the order kernels.  It goes on when the host has
 * set cell `flag` or `most_ns` have passed, and sets the cell behind it: to 2 when the flag was set in time,
 * else to 1. */
GANTRY_MUST_CHECK gantry_launch_result stamps_await(const struct stamps *stamps, gantry_launch *launch,
                                                    gantry_kernel *await, uint32_t flag, uint64_t most_ns);

#endif
