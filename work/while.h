/* SPDX-License-Identifier: MIT */
/* Loops on the device: noted work becomes the body of a WHILE node, and a kernel behind it decides on another
 * turn.
 *
 *     launch ──► WHILE ──► body ──► decide ──┐
 *                  ▲                         │ the word is not 0, turns are left, and it was not cancelled
 *                  └─────────────────────────┘
 *
 * What a loop needs lies in a record: a few words of page-locked memory, which the host writes and the kernel
 * reads in each turn, and two words on the device, which count.  A record outlives the task manager that the
 * loop belongs to: the device may still be in the loop.  It is used again when the device has left.
 *
 * Any thread may take and put records.  GD is the dispatcher's thread. */
#ifndef WORK_WHILE_H
#define WORK_WHILE_H

#include "driver/module.h"
#include "work/nodes.h"

/* How a loop has ended; the values of gantry_loop_end. */
enum gy_while_end {
    GY_WHILE_NOT_YET = 0,
    GY_WHILE_BY_WORD = 1,
    GY_WHILE_BY_LIMIT = 2,
    GY_WHILE_CANCELLED = 3
};

/* So many entries may be on their way: launched, and not seen to have ended. */
#define GY_WHILE_ENTRIES 64u

/* Page-locked; the kernel reads the first four words in one access. */
struct gy_while_host {
    _Atomic(uint32_t) cancelled[2]; /* atomic; written by the host: bit e % 32 of word e / 32 % 2 tells that
                                     * entry e shall end */
    _Atomic(uint32_t) most;         /* atomic; written by the host before the first launch: turns */
    _Atomic(uint32_t) finished;     /* atomic; written by the device, last: the entry that has ended */
    _Atomic(uint32_t) turns;        /* atomic; written by the device: of that entry */
    _Atomic(uint32_t) end;          /* atomic; written by the device: enum gy_while_end of that entry */
    _Atomic(uint32_t)
        word; /* atomic; written by the device: the application's word, where the host decides */
};

struct gy_while_record {
    struct gy_while_host *host; /* immutable */
    CUdeviceptr host_address;   /* immutable; of `host`, for the device */
    CUdeviceptr counters; /* immutable; on the device: entries that have ended, turns of the present one */
    _Atomic(uint32_t) launched;          /* atomic; written by GD: entries that were launched on the device */
    struct gy_while_record *next;        /* guarded by the pool's lock: of the free ones */
    struct gy_while_record *made_before; /* immutable; of all that the pool has made */
};

struct gy_while_pool {
    struct gy_context *context;   /* immutable */
    gy_mutex lock;                /* rank LEAF */
    struct gy_while_record *free; /* guarded by lock; the device may still be in the loops of some */
    struct gy_while_record *made; /* guarded by lock; all of them, the latest first */
    struct gantry_module *module; /* guarded by lock until it is set, then immutable */
    struct gantry_kernel *decide; /* guarded by lock until it is set, then immutable; NULL: the driver has no
                                     such nodes, or was not asked yet */
    bool was_asked;               /* guarded by lock */
};

void gy_while_pool_init(struct gy_while_pool *pool, struct gy_context *context);
/* The GPU is done or the context lost, the context is current, and all records were put back. */
void gy_while_pool_fini(struct gy_while_pool *pool);

/* Take a record; the context is not lost.  The first call also finds out whether there are loops on the
 * device.
 * @retval GANTRY_ERR_OUT_OF_HOST_MEMORY, GANTRY_ERR_DRIVER, GANTRY_ERR_DEVICE_LOST */
GANTRY_MUST_CHECK gantry_status gy_while_take(struct gy_while_pool *pool, struct gy_while_record **out);
void gy_while_put(struct gy_while_pool *pool, struct gy_while_record *record);

/* Does the driver take loops, as far as is known after the first gy_while_take()? */
static inline bool gy_while_is_possible(const struct gy_while_pool *pool)
{
    return pool->decide != NULL;
}

/* Are as many entries on their way as there may be? */
bool gy_while_is_full(const struct gy_while_record *record);

/* GD: one more entry is about to be launched; not when it is full. */
void gy_while_enter(struct gy_while_pool *pool, struct gy_while_record *record);
/* End the entries that were launched behind `after` after their present turn.  False: none is on its way. */
bool gy_while_cancel(struct gy_while_pool *pool, struct gy_while_record *record, uint32_t after);
/* End all entries of all records, those that were put back included. */
void gy_while_cancel_all(struct gy_while_pool *pool);

/* What a loop is made of. */
struct gy_while_made {
    const struct gy_while_pool *pool;
    const struct gy_while_record *record;
    CUdeviceptr word; /* not 0 after a turn: one more */
    CUcontext where;  /* of the partition where the body's work runs */
};

/* Make a graph that is a WHILE node with all noted work as its body.  What it refuses may still be made as a
 * graph without a loop.  No stream of a lane is being captured. */
GANTRY_MUST_CHECK gantry_status gy_while_make(struct gy_nodes *nodes, const struct gy_while_made *loop,
                                              CUgraph *out);

#endif
