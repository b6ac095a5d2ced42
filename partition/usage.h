/* How much of the GPU's time was used, in windows of 100 ms, 1 s and 10 s.  Pure. */
#ifndef PARTITION_USAGE_H
#define PARTITION_USAGE_H

#include <stdint.h>

#define GY_USAGE_BIN_NS 10000000u /* 10 ms */
#define GY_USAGE_BINS 1000u       /* 10 s */
#define GY_USAGE_WINDOWS 3

struct gy_gpu_usage {
    uint64_t first_ns;              /* of the measurement */
    uint64_t bin;                   /* number of the bin at hand, from first_ns on */
    double used_ns;                 /* in all */
    double bins[GY_USAGE_BINS];     /* bin number % GY_USAGE_BINS */
    double sums[GY_USAGE_WINDOWS];  /* of the latest 10, 100, 1000 whole bins */
    double worst[GY_USAGE_WINDOWS]; /* greatest share in any whole window */
};

void gy_gpu_usage_init(struct gy_gpu_usage *usage, uint64_t now_ns);
/* `used_ns` more, that ended now. */
void gy_gpu_usage_add(struct gy_gpu_usage *usage, uint64_t now_ns, double used_ns);

#endif
