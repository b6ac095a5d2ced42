/* SPDX-License-Identifier: MIT */
/* A driver table with just enough behind it for timed events: the test sets the GPU time at which each
 * record is reached, and how far the GPU has got. */
#ifndef TESTS_PROFILE_FAKE_GPU_H
#define TESTS_PROFILE_FAKE_GPU_H

#include "driver/context.h"

#include <pthread.h>

#define FAKE_STREAMS 8
#define FAKE_NOW 0 /* like next_ns: the GPU time of the record itself */

struct fake_gpu {
    pthread_mutex_t lock;           /* it guards everything below */
    uint64_t next_ns[FAKE_STREAMS]; /* GPU time at which the next record on the stream is reached */
    uint64_t last_ns;               /* GPU time of the latest record on a stream of the test */
    uint64_t reached_ns;            /* records up to here are complete */
    double rate;                    /* the rate of the GPU's clock against the host's */
    int64_t jump_ns;                /* added to the GPU time of anchors */
    bool mute;                      /* anchors never complete */
    long live;                      /* how many events and streams exist */
    long calls;                     /* since fake_gpu_reset() */
    long fail_at;                   /* the call with this number fails; -1: none does */
    CUresult fail_with;
};

extern struct fake_gpu fake;

/* A context on the fake, with everything at its beginning. */
void fake_gpu_reset(struct gy_context *context);

/* A stream of the test, 0 … FAKE_STREAMS - 1. */
CUstream fake_stream(uint32_t index);

/* Convert a host time to GPU time, and back. */
uint64_t fake_gpu_ns(uint64_t host_ns);
uint64_t fake_host_ns(uint64_t gpu_ns);

#endif
