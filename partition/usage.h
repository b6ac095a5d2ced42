/* SPDX-License-Identifier: MIT */
/* The part of the GPU's time that was used, in windows of 100 ms, 1 s and 10 s.  The functions are pure. */
#ifndef PARTITION_USAGE_H
#define PARTITION_USAGE_H

#include <stdint.h>

#define GY_USAGE_BIN_NS 10000000u /* 10 ms */
#define GY_USAGE_BINS 1000u       /* 10 s */
#define GY_USAGE_WINDOWS 3

struct gy_gpu_usage {
    uint64_t first_ns;              /* the time when the measurement began */
    uint64_t bin;                   /* the number of the current bin, counted from first_ns */
    double used_ns;                 /* the sum over all time */
    double bins[GY_USAGE_BINS];     /* bin number % GY_USAGE_BINS */
    double sums[GY_USAGE_WINDOWS];  /* the sums of the latest 10, 100, 1000 complete bins */
    double worst[GY_USAGE_WINDOWS]; /* the greatest share in any complete window */
};

void gy_gpu_usage_init(struct gy_gpu_usage *usage, uint64_t now_ns);
/* Add `used_ns` of use that ended now. */
void gy_gpu_usage_add(struct gy_gpu_usage *usage, uint64_t now_ns, double used_ns);

#endif
