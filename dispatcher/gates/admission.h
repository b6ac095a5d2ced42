/* SPDX-License-Identifier: MIT */
/* Admission: GPU tasks that declare memory start when it fits.
 *
 * What a manager declares (struct gy_gpu_memory) is held as a whole, from when the first task that names it
 * was ready and had its turn, until all of them were released and the GPU has passed them.  One that does not
 * fit beside what others hold waits, and behind it, in order of arrival, all that come later; their tasks are
 * held back meanwhile.
 *
 *           first task         its turn, it fits       last task released
 *    IDLE -------------> WAITING ------------> HELD ----------------------> ENDING
 *      ^                   ^ |  too large, cancelled,                       |  |
 *      |                   | |  context lost                                |  |
 *      |<------------------|-+         tasks came meanwhile, the GPU passed |  |
 *      |                   +------------------------------------------------+  |
 *      +------------------------------------------------------ the GPU passed -+
 *
 * There is no deadlock: a holder of memory waits for no memory, so its tasks end, unless they depend on tasks
 * that wait for memory themselves.  When nothing else can happen, the first in the queue is let in although
 * it does not fit; with a fleet, on any of its devices (stall_group.h).  GD is the dispatcher's thread. */
#ifndef DISPATCHER_GATES_ADMISSION_H
#define DISPATCHER_GATES_ADMISSION_H

#include "dispatcher/gates/stall_group.h"
#include "dispatcher/order/streams.h"
#include "heap/heap.h"

enum gy_memory_state { GY_MEMORY_IDLE, GY_MEMORY_WAITING, GY_MEMORY_HELD, GY_MEMORY_ENDING };

struct gy_gpu_memory {
    struct gy_gpu_memory *const
        *members;            /* immutable; of a fleet: that of each device, and no more; else NULL */
    gantry_taskman *manager; /* immutable */
    uint64_t declared[GANTRY_MEMORY_KIND_COUNT]; /* immutable */
    uint64_t bytes[GANTRY_MEMORY_KIND_COUNT]; /* immutable; the bytes in whole granules, which are counted */
    _Atomic(uint64_t) tasks;                  /* atomic; that name it and will be released */
    struct gy_gpu_memory *next_event;         /* guarded by admission.lock */
    bool has_event;                           /* guarded by admission.lock; it is in the list */
    bool ended;                               /* guarded by admission.lock; `tasks` has come down to 0 */
    bool closed;                              /* guarded by admission.lock; no task will name it */
    enum gy_memory_state state;               /* GD only */
    bool forget;                              /* GD only: free it when it is IDLE */
    bool watched;                             /* GD only: the completion thread looks out for its streams */
    struct gy_gpu_memory *next;               /* GD only: in `waiting` or `active` */
    struct gy_gpu_list held_back;             /* GD only */
    uint64_t held_back_count;                 /* GD only */
    uint64_t since_ns;                        /* GD only; WAITING */
    uint64_t streams;                         /* GD only; bit i: its tasks have used stream i */
    uint64_t seq[GY_STREAMS_MAX];             /* GD only; up to there */
};

struct gy_admission {
    struct gy_context *context;                 /* immutable */
    gantry_heap *heap;                          /* immutable */
    struct gy_streams *streams;                 /* immutable */
    struct gy_stall_member stall;               /* its own guards; of GD, to wake it */
    gy_mutex lock;                              /* rank LEAF */
    struct gy_gpu_memory *events;               /* guarded by lock; have ended or are closed */
    _Atomic(bool) was_declared;                 /* atomic; never goes back: memory was declared, ever */
    _Atomic(bool) has_events;                   /* atomic; written under lock */
    _Atomic(uint32_t) ending;                   /* atomic; written by GD: memories that are ENDING */
    struct gy_gpu_memory *first, *last;         /* GD only: WAITING, in order of arrival */
    struct gy_gpu_memory *active;               /* GD only: HELD or ENDING */
    uint64_t held[GANTRY_MEMORY_KIND_COUNT];    /* GD only: bytes of all `active` */
    uint64_t others[GANTRY_MEMORY_KIND_COUNT];  /* GD only: occupied by tasks that declare nothing */
    bool changed;                               /* GD only: more may fit than did */
    struct gy_gpu_list ready;                   /* GD only: let go, to be binned */
    struct gy_gpu_list refused;                 /* GD only: to be failed, their memory never fits */
    _Atomic(uint64_t) admitted, waited, forced; /* atomic; written by GD */
    _Atomic(uint64_t) wait_ns;                  /* atomic; written by GD */
    _Atomic(uint64_t) held_bytes[GANTRY_MEMORY_KIND_COUNT]; /* atomic; written by GD: copies of `held` */
};

void gy_admission_init(struct gy_admission *admission, struct gy_context *context, gantry_heap *heap,
                       struct gy_streams *streams, struct gy_inbox *inbox);
/* GD and the completion thread have ended, the GPU is done. */
void gy_admission_fini(struct gy_admission *admission);

/* The memory that the task declares to need on its device; NULL: none. */
static inline struct gy_gpu_memory *gy_admission_memory(gantry_task *task)
{
    struct gy_gpu_memory *memory = gy_task_memory(task);
    return memory != NULL && memory->members != NULL ? memory->members[task->device] : memory;
}

/* What taskman/gpu_ops.h says; any thread. */
struct gy_gpu_memory *gy_admission_open(struct gy_admission *admission, gantry_taskman *manager,
                                        const uint64_t *bytes);
void gy_admission_close(struct gy_admission *admission, struct gy_gpu_memory *memory);
void gy_admission_begin(struct gy_gpu_memory *memory);
void gy_admission_end(struct gy_admission *admission, struct gy_gpu_memory *memory);
void gy_admission_quiet(struct gy_admission *admission);

/* Completion thread: some stream has got further. */
void gy_admission_passed(struct gy_admission *admission);

/* GD: true when `task`, of which `memory` is, may start; else it comes out of the lists some time. */
bool gy_admission_enter(struct gy_admission *admission, gantry_task *task, struct gy_gpu_memory *memory);
/* GD: let the waiting tasks of managers go whose runs were cancelled. */
void gy_admission_cancel(struct gy_admission *admission);
/* GD: a task has launched up to there. */
void gy_admission_launched(struct gy_gpu_memory *memory, uint32_t stream, uint64_t seq);
/* GD: take notice of everything that has happened, and let tasks in that fit: then `ready` and `refused` may
 * have tasks. */
void gy_admission_poll(struct gy_admission *admission);
/* GD: returns the streams that the completion thread must be told to look out for; they count as told
 * then. */
uint64_t gy_admission_streams(struct gy_admission *admission);
/* GD, when it has nothing else to do: let in what fits, and the first one when nothing else can happen. */
void gy_admission_idle(struct gy_admission *admission);
/* GD: why a task was refused. */
gantry_status gy_admission_fail(struct gy_admission *admission, const struct gy_gpu_memory *memory);

/* The first: the memory and the tasks that a manager holds fit its state (GD).  The second: lists and sums
 * of all managers agree. */
bool gy_gpu_memory_is_valid(const struct gy_gpu_memory *memory);
bool gy_admission_is_valid(const struct gy_admission *admission);

/* GD: is there anything that gy_admission_poll() may be needed for?  Most programs declare no memory. */
static inline bool gy_admission_is_busy(const struct gy_admission *admission)
{
    if (__builtin_expect(!atomic_load_explicit(&admission->was_declared, memory_order_relaxed), 1)) {
        return false;
    }
    return atomic_load_explicit(&admission->has_events, memory_order_relaxed) ||
           atomic_load_explicit(&admission->ending, memory_order_relaxed) != 0 || admission->first != NULL ||
           admission->ready.first != NULL || admission->refused.first != NULL;
}

/* GD: perhaps nothing can go on while a task waits for memory: see gy_admission_idle(). */
static inline bool gy_admission_is_asked(const struct gy_admission *admission)
{
    return admission->first != NULL && atomic_load_explicit(&admission->stall.asked, memory_order_relaxed);
}

#endif
