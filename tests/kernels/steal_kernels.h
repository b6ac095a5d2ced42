/* What test_steal.c and its kernels agree on. */
#ifndef TESTS_KERNELS_STEAL_KERNELS_H
#define TESTS_KERNELS_STEAL_KERNELS_H

/* Rules of Cluster Launch Control, one broken at a time. */
enum steal_rule {
    STEAL_NOTHING_BROKEN,
    STEAL_TWO_IN_FLIGHT, /* allowed: nobody has seen a refusal when the second request is made */
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

#endif
