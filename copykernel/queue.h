/* SPDX-License-Identifier: MIT */
/* The list behind gantry_copy_queue. */
#ifndef COPYKERNEL_QUEUE_H
#define COPYKERNEL_QUEUE_H

#include "base/hints.h"

#include <gantry/copy.h>

#include <stdbool.h>

/* What queues must know of the launch call that the calling thread makes. */
enum gy_copy_call_stage {
    GY_COPY_CALL_NONE,  /* there is none, or it will not be made once more */
    GY_COPY_CALL_FIRST, /* it may be made once more */
    GY_COPY_CALL_AGAIN  /* it is made once more: a queue holds again what it held before the first */
};
struct gy_copy_call {
    enum gy_copy_call_stage stage;
    uint64_t number; /* of the first of the two, and even; 0: no queue has asked for it */
};
extern _Thread_local struct gy_copy_call gy_copy_call GY_TLS_HOT;

static inline void gy_copy_call_begin(void)
{
    gy_copy_call.stage = GY_COPY_CALL_FIRST;
    gy_copy_call.number = 0;
}

static inline void gy_copy_call_enter(enum gy_copy_call_stage stage)
{
    gy_copy_call.stage = stage;
}

/* It belongs to the user of the queue; one thread at a time may use it.  Queued are [begin, end). */
struct gantry_copy_queue {
    gantry_copy_desc *descs;       /* `room` of them; gy_copy_queue_descs() sets the source of a long fill */
    unsigned char (*patterns)[16]; /* as many, for long fills */
    size_t begin, end, room;
    uint64_t call; /* the number of the launch call that has used it last, odd when made again; 0: none */
    size_t before; /* [0, before) was queued when that call began, and is kept; begin may lie in there */
};

bool gy_copy_queue_is_valid(const gantry_copy_queue *queue);
/* The queued descriptors; valid until the queue changes. */
const gantry_copy_desc *gy_copy_queue_descs(gantry_copy_queue *queue);
/* Take away the first `count` descriptors. */
void gy_copy_queue_drop(gantry_copy_queue *queue, size_t count);

#endif
