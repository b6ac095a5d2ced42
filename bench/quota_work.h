/* The work of `gantry bench quota`: one tenant that always has kernels of one length to launch, and what it
 * had of the device by what its kernels have noted themselves. */
#ifndef BENCH_QUOTA_WORK_H
#define BENCH_QUOTA_WORK_H

#include "bench/harness.h"

struct quota_setting {
    gantry_driver_choice driver;
    const char *controller; /* "bucket", "nvml" */
    uint32_t percent;
    uint32_t kernel_us;
    double seconds;
};

/* Shares of the device's time in percent.  Kernels with less than 10 us between them count as one: in between
 * the next one is launched, and the device is nobody else's. */
struct quota_figures {
    uint64_t kernels;
    double mean, kernels_only; /* over all the time; without what is between kernels */
    double low_1s, high_1s;    /* least and greatest in a window of 1 s, from 1 s on; 0: it was too short */
    double low_100ms, high_100ms; /* the same of 100 ms */
    double charged;               /* what the bucket has charged; 0: no bucket */
    double bound_1s;  /* what the bucket promises for 1 s, either way, in percent of it; 0: none */
    double throttled; /* of the time, tasks were held back */
};

/* False, told on stderr, when something failed or a kernel has not run. */
bool bench_quota_run(const struct quota_setting *setting, struct quota_figures *out);

#endif
