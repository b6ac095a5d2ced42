/* What ping_pong() of profile_kernels_bench.cu writes. */
#ifndef BENCH_PROFILE_WAYS_H
#define BENCH_PROFILE_WAYS_H

#include <stdint.h>

/* Messages from one SM to another: the receiver's clock when one came less the sender's when it left. */
struct bench_way {
    int64_t least, sum; /* ns */
};

#endif
