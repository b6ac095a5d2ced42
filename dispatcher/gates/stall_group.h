/* SPDX-License-Identifier: MIT */
/* Stalls over several devices: when does nothing go on any more until a task gets memory that is not there?
 *
 * A device's admission (admission.h) sees its own waiting tasks and the managers that hold its memory.  It is
 * *stuck* when tasks wait, nothing of it is ending, and every manager that holds memory waits for some.  With
 * a fleet such a manager may wait on another device, which has memory for it in a moment.  So a task is let
 * in although it does not fit only when all devices on which tasks wait are stuck, all at once.
 *
 * Only tasks that are let go make a stuck device go on.  `moves` counts how often that was, and in its lower
 * half the devices that are doing it right now.  A device that finds itself stuck notes the number that it
 * had read before it looked, and tells the others on which tasks wait, or asks them to look.  The first of
 * the stuck ones lets a task in if all have noted the number that still stands, and makes it the next one in
 * the same step: so two devices never do it for one stall.  When the number has changed, who changed it tells
 * those on which tasks wait. tests/models/stall_group.pml has all executions of that.
 *
 * GD is the dispatcher thread of a device. */
#ifndef DISPATCHER_GATES_STALL_GROUP_H
#define DISPATCHER_GATES_STALL_GROUP_H

#include "base/thread.h"
#include "dispatcher/loop/inbox.h"

enum { GY_STALL_MEMBERS_MAX = 16 };
#define GY_STALL_MOVE (UINT64_C(1) << 32)

struct gy_stall_group;

/* A device. */
struct gy_stall_member {
    struct gy_inbox *inbox;       /* immutable; of GD, to wake it */
    struct gy_stall_group *group; /* immutable once memory is declared; NULL: it is alone */
    _Atomic(uint64_t) waiting;    /* atomic; written by GD: tasks that wait for memory */
    _Atomic(uint64_t) stuck;      /* atomic; written by GD: 1 + the number of moves at which it was stuck */
    _Atomic(bool) asked;          /* atomic; nothing may be able to go on: look at it */
};

struct gy_stall_group {
    _Atomic(uint64_t) moves; /* atomic; moves * GY_STALL_MOVE + devices that are letting tasks go */
    gy_mutex lock;           /* rank STALLS */
    struct gy_stall_member *members[GY_STALL_MEMBERS_MAX]; /* guarded by lock; NULL: it has left */
};

/* Devices that no task has reached yet are looked at together from now on.
 * @retval GANTRY_ERR_OUT_OF_HOST_MEMORY */
GANTRY_MUST_CHECK gantry_status gy_stall_group_make(struct gy_stall_member *const *members, uint32_t count);
/* GD has ended; the last one takes the group along. */
void gy_stall_leave(struct gy_stall_member *member);

/* Any thread: GD shall look whether anything can go on. */
void gy_stall_ask(struct gy_stall_member *member);
/* GD: tasks are about to be let go / were; others may have waited for that alone. */
static inline void gy_stall_begin_move(struct gy_stall_member *member)
{
    if (member->group != NULL) {
        atomic_fetch_add(&member->group->moves, 1);
    }
}
void gy_stall_end_move(struct gy_stall_member *member);

/* GD, before it looks whether it is stuck. */
static inline uint64_t gy_stall_moves(const struct gy_stall_member *member)
{
    return member->group != NULL ? atomic_load(&member->group->moves) : 0;
}
/* GD, which was stuck at that number of moves: are all devices stuck, and does this one let a task in? */
bool gy_stall_is_ours(struct gy_stall_member *member, uint64_t moves);

#endif
