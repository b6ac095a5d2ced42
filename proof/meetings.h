/* SPDX-License-Identifier: MIT */
/* Where parts of tasks meet: mutexes and conditions of the program, and queues of enqueued work (streams,
 * events, contexts).  The lock of order.c is held. */
#ifndef PROOF_MEETINGS_H
#define PROOF_MEETINGS_H

#include "proof/past.h"

enum gy_meeting_kind { GY_MEETING_MUTEX, GY_MEETING_QUEUE, GY_MEETING_KINDS };

struct gy_meeting {
    const void *at;
    struct gy_meeting *next; /* in its slot */
    struct gy_before parts;  /* that have held the mutex alone; that have told of the condition, and their
                              * pasts; of the device that are in the queue, and their pasts */
    struct gy_before beside; /* that have held the mutex beside others; for which the program has had the
                              * queue wait */
};

/* Made where there is none; NULL: no memory, which is told. */
struct gy_meeting *gy_meeting_at(enum gy_meeting_kind kind, const void *at);
/* NULL: there is none. */
struct gy_meeting *gy_meeting_find(enum gy_meeting_kind kind, const void *at);
void gy_meeting_drop(enum gy_meeting_kind kind, const void *at);

#endif
