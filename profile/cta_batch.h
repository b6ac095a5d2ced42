/* SPDX-License-Identifier: MIT */
/* Records of blocks on their way from a context to the writer of a recording. */
#ifndef PROFILE_CTA_BATCH_H
#define PROFILE_CTA_BATCH_H

#include "profile/gpu_clock.h"
#include "profile/sm_clock.h"

#include <gantry/profile_kernel.h>

/* The size of the work of a launch of the batched-copy kernel; all 0 for other kernels. */
struct gy_cta_copies {
    uint64_t count;
    uint64_t bytes[3]; /* to the device, to the host, on the device; as the groups of copykernel/format.h */
};

/* One launch of an instrumented kernel. */
struct gy_cta_launch {
    uint32_t first, count; /* the launch's records, one for each block */
    uint32_t ranges;       /* the records for ranges that each block has behind those; 0: none */
    uint32_t kernel;
    uint32_t stream;
    uint64_t id;          /* the task's */
    uint64_t flow;        /* the task's; 0: none */
    uint64_t launched_ns; /* host time, before the launch: no block starts earlier */
    uint64_t ended_ns;    /* host time when all of them were known to have ended: no block stops later */
    struct gy_cta_copies copies;
};

/* The records that one buffer has brought back. */
struct gy_cta_batch {
    struct gy_cta_batch *next; /* link of the recording's list; its lock guards it */
    void (*done)(struct gy_cta_batch
                     *batch);   /* called on the writer's thread when the writer does not need it any more */
    gantry_cta_record *records; /* the writer may change them */
    const struct gy_cta_launch *launches;
    uint32_t launch_count;
    uint32_t used;    /* number of records */
    uint32_t blocks;  /* number of blocks, with one of these records each */
    uint32_t gpu;     /* as gy_profile_add_gpu() returned it */
    uint64_t number;  /* the number of the batch in its context */
    uint64_t seen_ns; /* host time when everything was known to be done */
    struct gy_gpu_clock clock;
    const struct gy_sm_offset
        *offsets;          /* the offsets of the SMs' clocks against each other when the recording began */
    uint32_t offset_count; /* 0: they are not known */
    uint32_t anchor_count; /* in each set of anchors; 0: the records are in %globaltimer */
    const struct gy_sm_anchor *anchors[2]; /* the sets of its begin and its end */
};

#endif
