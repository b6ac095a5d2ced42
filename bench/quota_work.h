/* SPDX-License-Identifier: MIT */
/* The work of `gantry bench quota`: one tenant that always has kernels of one length to launch, and the
 * share of the device that it got, computed from what its kernels have noted themselves. */
#ifndef BENCH_QUOTA_WORK_H
#define BENCH_QUOTA_WORK_H

#include "bench/harness.h"

struct quota_setting {
    gantry_driver_choice driver;
    bool by_hand; /* launched by hand under the tokens of quota_tokens.h, not by tasks under the bucket */
    uint32_t percent;
    uint32_t kernel_us;
    double seconds;
};

/* Shares of the device's time in percent.  Kernels with less than 10 us between them count as one:
 * meanwhile the next one is being launched, and nobody else uses the device. */
struct quota_figures {
    uint64_t kernels;
    double mean, kernels_only; /* over all the time, and without the gaps between kernels */
    /* the least and the greatest share in a window of 1 s, from 1 s on; 0: the run was too short */
    double low_1s, high_1s;
    double low_100ms, high_100ms; /* the same for windows of 100 ms */
    double charged;               /* the share that the bucket has charged; 0: there is no bucket */
    double bound_1s;  /* the error that the bucket promises for 1 s, in percent of it, up or down; 0: none */
    double throttled; /* the share of the time in which tasks were held back */
};

/* False when something failed or a kernel has not run, with a line on stderr. */
bool bench_quota_run(const struct quota_setting *setting, struct quota_figures *out);

#endif
