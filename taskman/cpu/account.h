/* SPDX-License-Identifier: MIT */
/* The debt of a worker to the counters of an owner of tasks: it saves up the numbers that it would otherwise
 * count off one by one. */
#ifndef TASKMAN_CPU_ACCOUNT_H
#define TASKMAN_CPU_ACCOUNT_H

#include "taskman/cpu/worker.h"

#include <assert.h>

/* This is the last step of one or several tasks: take `less` off the owner's `work` and `odd` off its
 * `odd_pending`, and wake the threads that wait for that.  The owner may be gone when this returns. */
void gy_owner_count_off(struct gy_task_owner *owner, uint64_t less, uint64_t odd);

/* Count off the debt, and leave the join. */
void gy_worker_flush(struct gy_worker *self);
/* gy_worker_flush() for a worker that goes on: it keeps a part for the next tasks that become active. */
void gy_worker_flush_most(struct gy_worker *self);

enum {
    GY_OWED_MOST = 64,           /* released tasks not counted off yet */
    GY_ACTIVE_OWED_MOST = 65536, /* references of bodies not counted off yet */
    GY_CREDIT = 64,              /* how much a worker counts into `work` at once */
    GY_JOIN_MANY = 8,            /* references of a task that is met as a join */
    GY_JOIN_AHEAD = 32,          /* how many of these are taken at once */
};

static inline void gy_worker_owe_to(struct gy_worker *self, struct gy_task_owner *owner)
{
    if (self->debt.owner != owner) {
        gy_worker_flush(self);
        self->debt.owner = owner;
    }
}

/* Note a number for gy_owner_count_off().  It is counted off later, at the latest before the worker looks
 * for work elsewhere, runs a task of another manager or of the other epoch, or does anything that is not the
 * manager's.  This saves most of the traffic on the one counter that all workers share. */
static inline void gy_worker_owe(struct gy_worker *self, struct gy_task_owner *owner, uint64_t less)
{
    assert(gy_worker_is_valid(self));
    if (!self->has_deque) {
        gy_owner_count_off(owner, less, 0);
        return;
    }
    gy_worker_owe_to(self, owner);
    self->debt.work += less;
    if (self->debt.work >= GY_OWED_MOST * GY_WORK_PENDING) {
        gy_worker_flush_most(self);
    }
}

/* Does the worker, which may be NULL, run a task of the owner at this moment? */
static inline bool gy_worker_is_inside(const struct gy_worker *self, const struct gy_task_owner *owner)
{
    return self != NULL && self->has_deque && self->activity == GY_WORKER_IN_BODY && self->running != NULL &&
           self->running->owner == owner;
}

/* The body of a task of the owner, which is active itself, has given a reference back. */
static inline void gy_worker_owe_active(struct gy_worker *self, struct gy_task_owner *owner)
{
    if (self->debt.owner == owner && self->debt.work % GY_WORK_PENDING >= GY_ACTIVE_OWED_MOST) {
        gy_worker_flush(self);
    }
    gy_worker_owe(self, owner, GY_WORK_ACTIVE);
}

/* gy_worker_owe() for a task of an odd epoch, and `less` beside. */
static inline void gy_worker_owe_odd(struct gy_worker *self, struct gy_task_owner *owner, uint64_t less)
{
    assert(gy_worker_is_valid(self));
    if (!self->has_deque) {
        gy_owner_count_off(owner, less, 1);
        return;
    }
    gy_worker_owe_to(self, owner);
    self->debt.work += less;
    if (++self->debt.odd >= GY_OWED_MOST) {
        gy_worker_flush(self);
    }
}

/* Count `count` more as active.  A number that was not counted off yet can be used again: then nothing is
 * written that other workers read.  Otherwise more is counted than is needed now, and the rest is owed. */
static inline void gy_worker_claim_active(struct gy_worker *self, struct gy_task_owner *owner, uint64_t count)
{
    assert(gy_worker_is_valid(self));
    uint64_t credit = 0;
    if (self->has_deque) {
        gy_worker_owe_to(self, owner);
        if (self->debt.work % GY_WORK_PENDING >= count) {
            self->debt.work -= count * GY_WORK_ACTIVE;
            return;
        }
        credit = GY_CREDIT;
        self->debt.work += credit * GY_WORK_ACTIVE;
    }
    atomic_fetch_add_explicit(&owner->work, (count + credit) * GY_WORK_ACTIVE, memory_order_relaxed);
}

/* gy_worker_claim_task() for a task that is spawned in an odd epoch. */
static inline void gy_worker_claim_odd_task(struct gy_worker *self, struct gy_task_owner *owner)
{
    gy_worker_owe_to(self, owner);
    gy_worker_claim_active(self, owner, 1);
    if (self->debt.odd <= 1) {
        atomic_fetch_add_explicit(&owner->odd_pending, GY_CREDIT / 2, memory_order_relaxed);
        self->debt.odd += GY_CREDIT / 2;
    }
    self->debt.odd--;
    self->debt.spawned++;
    assert(gy_worker_is_valid(self));
}

/* Count one more task as pending and active.  Something stays owed, so the owner stays until it has been
 * told of the spawned tasks. */
static inline void gy_worker_claim_task(struct gy_worker *self, struct gy_task_owner *owner)
{
    gy_worker_owe_to(self, owner);
    if (self->debt.work < 2 * GY_WORK_PENDING || self->debt.work % GY_WORK_PENDING == 0) {
        const uint64_t credit = GY_CREDIT / 2 * (GY_WORK_PENDING + GY_WORK_ACTIVE);
        atomic_fetch_add_explicit(&owner->work, credit, memory_order_relaxed);
        self->debt.work += credit;
    }
    self->debt.work -= GY_WORK_PENDING + GY_WORK_ACTIVE;
    self->debt.spawned++;
    assert(gy_worker_is_valid(self));
}

#endif
