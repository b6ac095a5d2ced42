/* The clocks of a device: %globaltimer against the host's clock, and the SMs' against each other.  One struct
 * per context, part of its struct gy_cta. */
#ifndef PROFILE_DEVICE_CLOCK_H
#define PROFILE_DEVICE_CLOCK_H

#include "base/thread.h"
#include "driver/context.h"
#include "driver/module.h"
#include "profile/gpu_clock.h"
#include "profile/sm_clock.h"

/* Nothing: the caller's struct, all zero but for context and lock. */
struct gy_device_clock {
    struct gy_context *context; /* immutable */
    gy_mutex lock;              /* rank LEAF */
    struct gy_gpu_clock latest; /* guarded by lock */
    uint64_t generation;        /* guarded by lock: the recording that it is of */
    struct gy_gpu_clock
        reference[2];  /* guarded by lock: earlier ones, for the rate; also of other recordings */
    bool measuring;    /* guarded by lock: a thread is in gy_device_clock_compare() */
    uint64_t retry_ns; /* the measuring thread alone: not before this time */
    uint64_t *shown;   /* the measuring thread alone, once made */
    bool chosen;       /* the measuring thread alone: the next one is */
    uint32_t line;     /* the measuring thread alone: of the mailbox, which the GPU reads soonest */

    /* Made by the dispatcher thread before anything uses them, immutable then: */
    CUstream stream;
    CUevent done;
    struct gy_clock_mailbox *mailbox; /* page-locked */
    CUdeviceptr mailbox_device, counter;
    struct gantry_module *module;
    struct gantry_kernel *exchange, *reads, *compare, *saturate;
    uint32_t room; /* SMs that a set of anchors has room for */

    struct gy_sm_offset
        *offsets; /* guarded by the batches: the dispatcher's thread writes while none is under way */
    uint32_t offset_count; /* guarded by the batches, too */
};

void gy_device_clock_init(struct gy_device_clock *clock, struct gy_context *context);
/* Context current, nothing uses it any more. */
void gy_device_clock_fini(struct gy_device_clock *clock);

/* Dispatcher thread, context current.  Make what is missing. */
GANTRY_MUST_CHECK gantry_status gy_device_clock_open(struct gy_device_clock *clock);

/* Context current.  Make the latest comparison of recording `generation` a recent one, if the GPU answers
 * within `patience_ns`, which is for all that is done; the first of a recording takes some ms.  One thread at
 * a time does it, others go on. */
void gy_device_clock_compare(struct gy_device_clock *clock, uint64_t generation, uint64_t patience_ns);
/* Any thread.  The latest comparison; bound_ns 0: none in this recording. */
struct gy_gpu_clock gy_device_clock_latest(struct gy_device_clock *clock, uint64_t generation);

/* Dispatcher thread, context current.  Measure `offsets`; none when the GPU does not answer in time. */
void gy_device_clock_compare_sms(struct gy_device_clock *clock, uint64_t patience_ns);

/* Bytes of a set of anchors. */
size_t gy_device_clock_anchor_bytes(const struct gy_device_clock *clock);
/* Dispatcher thread, context current.  Have `stream` write a set to `anchors`, which is zero there. */
GANTRY_MUST_CHECK gantry_status gy_device_clock_saturate(struct gy_device_clock *clock, CUstream stream,
                                                         CUdeviceptr anchors);

#endif
