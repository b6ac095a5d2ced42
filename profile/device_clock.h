/* SPDX-License-Identifier: MIT */
/* The clocks of a device: %globaltimer against the host's clock, and the SMs' clocks against each other.
 * There is one struct per context, a part of its struct gy_cta. */
#ifndef PROFILE_DEVICE_CLOCK_H
#define PROFILE_DEVICE_CLOCK_H

#include "base/thread.h"
#include "driver/context.h"
#include "driver/module.h"
#include "profile/gpu_clock.h"
#include "profile/sm_clock.h"

/* The caller's struct, which is all zero at first except for context and lock. */
struct gy_device_clock {
    struct gy_context *context; /* immutable */
    gy_mutex lock;              /* rank LEAF */
    struct gy_gpu_clock latest; /* guarded by lock */
    uint64_t generation;        /* guarded by lock: the number of the recording that `latest` belongs to */
    struct gy_gpu_clock
        reference[2];  /* guarded by lock: earlier ones, for the rate; also of other recordings */
    bool measuring;    /* guarded by lock: a thread is in gy_device_clock_compare() */
    uint64_t retry_ns; /* the measuring thread alone: no comparison before this time */
    uint64_t *shown;   /* the measuring thread alone, once made */
    bool chosen;       /* the measuring thread alone: `line` is chosen */
    uint32_t line;     /* the measuring thread alone: the line of the mailbox that the GPU reads soonest */

    /* The dispatcher's thread makes these before anything uses them; they are immutable then, but for the
     * stream while nothing is recorded (gy_cta_move()): */
    CUstream stream;
    CUevent done;
    struct gy_clock_mailbox *mailbox; /* page-locked */
    CUdeviceptr mailbox_device, counter;
    struct gantry_module *module;
    struct gantry_kernel *exchange, *reads, *compare, *saturate;
    uint32_t room; /* number of SMs that a set of anchors has room for */

    /* The dispatcher's thread writes the offsets while they belong to no recording; those of a recording stay
     * as they are. */
    struct gy_sm_offset *offsets;
    uint32_t offset_count;       /* guarded by lock */
    uint64_t offsets_generation; /* guarded by lock: the recording that they belong to; 0: none */
};

void gy_device_clock_init(struct gy_device_clock *clock, struct gy_context *context);
/* End it; the context is current, and nothing uses it any more. */
void gy_device_clock_fini(struct gy_device_clock *clock);

/* Dispatcher thread, context current.  Make the parts that are missing. */
GANTRY_MUST_CHECK gantry_status gy_device_clock_open(struct gy_device_clock *clock);

/* Context current.  Make the latest comparison of recording `generation` a recent one, if the GPU answers
 * within `patience_ns`, which bounds the whole call; the first comparison of a recording takes some ms.  One
 * thread at a time compares; others go on at once. */
void gy_device_clock_compare(struct gy_device_clock *clock, uint64_t generation, uint64_t patience_ns);
/* Any thread.  The latest comparison; bound_ns 0: there was none in this recording. */
struct gy_gpu_clock gy_device_clock_latest(struct gy_device_clock *clock, uint64_t generation);

/* Dispatcher thread, context current, no batch of recording `generation` begun.  Measure its offsets; there
 * are none when the GPU does not answer in time. */
void gy_device_clock_compare_sms(struct gy_device_clock *clock, uint64_t generation, uint64_t patience_ns);
/* Any thread.  The offsets of recording `generation`, which stay until it has ended, and their number; 0:
 * they are not known. */
uint32_t gy_device_clock_offsets(struct gy_device_clock *clock, uint64_t generation,
                                 const struct gy_sm_offset **out);

/* The bytes of a set of anchors. */
size_t gy_device_clock_anchor_bytes(const struct gy_device_clock *clock);
/* Dispatcher thread, context current.  Let `stream` write a set to `anchors`, which is zero there. */
GANTRY_MUST_CHECK gantry_status gy_device_clock_saturate(struct gy_device_clock *clock, CUstream stream,
                                                         CUdeviceptr anchors);

#endif
