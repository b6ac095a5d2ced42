/* Records of blocks on their way from a context to the writer of a recording. */
#ifndef PROFILE_CTA_BATCH_H
#define PROFILE_CTA_BATCH_H

#include "profile/gpu_clock.h"

#include <gantry/profile_kernel.h>

/* One launch of an instrumented kernel. */
struct gy_cta_launch {
    uint32_t first, count; /* its records */
    uint32_t kernel;
    uint32_t stream;
    uint64_t id;          /* of the task */
    uint64_t flow;        /* of the task; 0: none */
    uint64_t launched_ns; /* host time, before the launch: no block starts earlier */
};

/* What one buffer brought home. */
struct gy_cta_batch {
    struct gy_cta_batch *next;                /* link of the recording's list; its lock guards it */
    void (*done)(struct gy_cta_batch *batch); /* the writer is through with it; the writer's thread */
    const gantry_cta_record *records;
    const struct gy_cta_launch *launches;
    uint32_t launch_count;
    uint32_t used;    /* records */
    uint32_t gpu;     /* of gy_profile_add_gpu() */
    uint64_t number;  /* of the batch in its context */
    uint64_t seen_ns; /* host time when all was known to be done: no block stops later */
    struct gy_gpu_clock clock;
};

#endif
