/* SPDX-License-Identifier: MIT */
/* The operations, in groups: each draws its arguments, asks one call or a few, and puts what it got in slots.
 */
#ifndef TESTS_CONFORMANCE_DIFFERENTIAL_OPS_H
#define TESTS_CONFORMANCE_DIFFERENTIAL_OPS_H

#include "tests/conformance/differential/world.h"

struct df_op {
    uint32_t weight; /* of its group; 0 ends the list */
    void (*run)(void);
};

/* Many sequences have one group for half of their operations. */
#define DF_GROUPS(X) \
    X(device)        \
    X(launch) X(stream) X(copy) X(memory) X(vmm) X(capture) X(graph) X(exec) X(green) X(external) X(pair)

#define X(group) extern const struct df_op df_ops_##group[];
DF_GROUPS(X)
#undef X

/* Ask for access of the current context to another one's memory, or end it, and remember which there is. */
void df_enable_peer(CUcontext peer, unsigned flags);
void df_disable_peer(CUcontext peer);
/* NULL instead of one of the pointers of an operation's first call, seldom: df_draw_null() says which. */
void *df_or_null(void *pointer);
void df_draw_null(void);

#endif
