/* SPDX-License-Identifier: MIT */
/* The types and numbers that test_steal.c and its kernels share. */
#ifndef TESTS_KERNELS_STEAL_KERNELS_H
#define TESTS_KERNELS_STEAL_KERNELS_H

/* The rules of Cluster Launch Control, of which each kernel breaks one. */
enum steal_rule {
    STEAL_NOTHING_BROKEN,
    STEAL_TWO_IN_FLIGHT, /* this is allowed: nobody has seen a refusal when the second request is made */
    STEAL_ASK_AFTER_REFUSAL,
    STEAL_READ_EARLY,
    STEAL_BLOCK_OF_REFUSAL,
    STEAL_NO_BARRIER,
    STEAL_BARRIER_IN_USE,
    STEAL_WAIT_FOR_NOTHING,
    STEAL_END_WITHOUT_WAITING,
    STEAL_END_WITHOUT_LOOKING,
    STEAL_WRITE_OVER,
};

/* The same for a cluster of two blocks. */
enum steal_cluster_rule {
    STEAL_CLUSTER_NOTHING_BROKEN,
    STEAL_CLUSTER_LEAVES_EARLY, /* the second block ends before it is told */
    STEAL_CLUSTER_LEAVES_LATE,  /* the second block ends when it was told, without looking */
    STEAL_CLUSTER_LOOKS_EARLY,
    STEAL_CLUSTER_NO_SUCH_BLOCK,
};

#endif
