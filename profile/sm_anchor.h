/* SPDX-License-Identifier: MIT */
/* The structs that the kernels of profile_kernels.cu write, the same for host and device. */
#ifndef PROFILE_SM_ANCHOR_H
#define PROFILE_SM_ANCHOR_H

#include <stdint.h>

/* One step of the counter that all SMs share, in the order of its values. */
struct gy_sm_sample {
    uint64_t before_ns, after_ns; /* %globaltimer around the step; 0: it was not taken */
    uint32_t sm, unused;
};

/* An SM's own clock and %globaltimer at one moment. */
struct gy_sm_anchor {
    uint64_t clock, timer_ns;
    uint32_t claimed;  /* 0: no block ran there */
    uint32_t width_ns; /* the clock was read at most this long before timer_ns */
};

#endif
