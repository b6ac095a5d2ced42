/* SPDX-License-Identifier: MIT */
/* The buffers of records of blocks as the files that handle them see them: cta.c has the dispatcher's part,
 * cta_collect.c that of the threads which bring records to the writer.  The states are at the head of cta.c.
 */
#ifndef PROFILE_CTA_INSIDE_H
#define PROFILE_CTA_INSIDE_H

#include "base/thread.h"
#include "profile/cta.h"
#include "profile/device_clock.h"
#include "profile/passes.h"

#include <stdatomic.h>

#define GY_CTA_STREAMS GY_PASSES_STREAMS

enum gy_cta_buffer_state {
    GY_CTA_BUFFER_IDLE,
    GY_CTA_BUFFER_OPEN,
    GY_CTA_BUFFER_RETURNING,
    GY_CTA_BUFFER_WRITING
};

struct gy_cta_buffer {
    struct gy_cta_batch batch;       /* first: done() gets it */
    struct gy_cta *owner;            /* immutable */
    enum gy_cta_buffer_state state;  /* guarded by owner->lock; gy_cta_set_state() is the only writer */
    atomic_uint_fast64_t generation; /* atomic: the recording it belongs to; 0: nobody wants it any more */
    uint64_t order;     /* the number of its end_batch(); the thread that moves the buffer writes it */
    uint32_t next_open; /* index + 1 of the one that the batch opened next; the dispatcher thread's */
    uint32_t places;    /* immutable while not idle, like all fields below: room for records */
    uint32_t launch_room;
    CUdeviceptr device;
    void *host;
    CUevent returned;
    struct gy_cta_launch *launches;
};

/* The recording that prepare() was done for. */
struct gy_cta_recording {
    uint64_t prepared; /* its generation */
    bool has_copies;   /* batched copies were launched in a recording: later recordings want buffers from
                        * their begin */
    bool refused;
    bool is_wanted;      /* it wants records of blocks */
    bool is_compared;    /* the clocks were compared for it */
    bool told_too_large; /* a launch that no buffer of it has room for has been logged */
    uint32_t gpu;        /* its number there */
};

/* The memory of the buffers. */
struct gy_cta_room {
    uint32_t large;                 /* the first so many buffers are large, the others small */
    uint32_t large_places;          /* of a large buffer */
    uint32_t small_places;          /* of a small one; 0: there is none */
    CUdeviceptr device;             /* all of it */
    void *host;                     /* likewise */
    struct gy_cta_launch *launches; /* likewise */
    bool sm_clock;                  /* blocks read their SM's clock, and the buffers have anchors */
};

struct gy_cta {
    struct gy_profile_recorder recorder; /* first; session.c's */
    struct gy_context *context;          /* immutable */
    gy_mutex lock;                       /* rank LEAF */
    gy_cond moved;   /* with lock: a buffer has changed its state, or no thread is in collect() */
    bool collecting; /* guarded by lock: a thread is in collect() */
    struct gy_cta_buffer *buffers; /* guarded by lock; the dispatcher thread changes it while all are idle */
    uint32_t buffer_count;         /* guarded by lock; likewise */
    uint32_t returning;            /* guarded by lock: buffers in that state; gy_cta_set_state() writes it */
    struct gy_device_clock clock;  /* its own guards */
    struct gy_passes passes;       /* guarded by lock */

    /* The dispatcher thread alone: */
    struct gy_cta_recording recording;
    struct gy_cta_room room;
    uint32_t open;       /* index + 1 of the buffer to reserve from; 0: none */
    uint32_t first_open; /* index + 1 of the one that the batch opened first */
    uint64_t streams;    /* bit s: natives[s] has launched into the batch's buffers */
    uint64_t orders, batches;
    CUstream natives[GY_CTA_STREAMS];
    CUevent forks[GY_CTA_STREAMS]; /* made when first used */
    CUstream stream;               /* immutable while anything returns */
};

/* The offset in a buffer of its anchors' set 0 or 1. */
static inline size_t gy_cta_anchors_at(const struct gy_cta *cta, uint32_t places, uint32_t set)
{
    return (size_t)places * sizeof(gantry_cta_record) + set * gy_device_clock_anchor_bytes(&cta->clock);
}

/* The only writer of buffer->state. */
void gy_cta_set_state(struct gy_cta_buffer *buffer, enum gy_cta_buffer_state state);
/* Hand over all records, and wait for those that have not come back. */
void gy_cta_collect_all(struct gy_cta *cta);
/* Wait until then for as long as a buffer of the recording, of any when it is 0, is in this state. */
void gy_cta_wait_while(struct gy_cta *cta, enum gy_cta_buffer_state state, uint64_t generation,
                       uint64_t until_ns);
/* struct gy_profile_recorder has it. */
uint64_t gy_cta_drain(struct gy_profile_recorder *self, uint64_t generation, uint64_t until_ns);

#endif
