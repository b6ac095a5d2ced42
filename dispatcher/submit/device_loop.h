/* SPDX-License-Identifier: MIT */
/* Loops whose turns a word on the device decides: see <gantry/loop.h>, and work/while.h for how the device
 * goes round by itself.
 *
 * The body of such a loop is a unit of a plan (plan.h), found by device_loop_plan.c.  It is recorded and
 * launched again as others are, but its graph is a WHILE node.  The task `test` comes behind it:
 *
 *    unit launched as a loop -> test says ON_DEVICE -> decide goes on
 *    unit called, or no unit -> test copies the word, and decide waits for that -> decide looks at it:
 * another turn, or on
 *
 * Once a turn was done by calls, the CPU decides until the loop has ended.  GD is the dispatcher's thread. */
#ifndef DISPATCHER_SUBMIT_DEVICE_LOOP_H
#define DISPATCHER_SUBMIT_DEVICE_LOOP_H

#include "taskman/gpu_ops.h"
#include "work/while.h"

#include <gantry/loop.h>

struct gantry_dispatcher;
struct gy_plan;
struct gy_unit;

/* Where a loop is in a run; gy_device_loop_pass() is the only writer.
 *
 *             test: its body was launched as a loop             decide: on
 *      IDLE --------------------------------------> ON_DEVICE --------------> IDLE
 *       |     test: by calls                                    decide: the last turn
 *       +------------------> WITH_CPU, until the last turn -----------------> IDLE
 *                               | gantry_loop_cancel()          decide: the last turn
 *                               +------------------> ENDING ----------------> IDLE
 *
 * A run may be cut short anywhere: its end leads to IDLE, too. */
enum gy_loop_state { GY_LOOP_IDLE, GY_LOOP_ON_DEVICE, GY_LOOP_WITH_CPU, GY_LOOP_ENDING };

struct gy_device_loop {
    struct gy_gpu_loop head;               /* first: how taskman/ sees it */
    struct gy_device_loops *list;          /* immutable; NULL: the dispatcher was never found */
    struct gy_device_loop *after, **place; /* guarded by the list's lock */
    const gantry_taskman *manager;         /* immutable */
    gantry_task *test;                     /* immutable */
    gantry_task *decide;                   /* immutable; NULL: there was no memory for it */
    struct gy_while_record *record;        /* immutable while the list is there */
    uint32_t first_entry;                  /* immutable likewise; launches of its record by earlier loops */
    CUdeviceptr word;                      /* immutable */
    uint32_t most;                         /* immutable */
    struct gy_unit *unit;                  /* immutable while frozen; NULL: the CPU decides */
    bool never;                  /* GD only; it was tried, and cannot be a loop on the device, in any run */
    _Atomic(uint64_t) run;       /* atomic; written by GD: the manager's step that it was renewed for */
    _Atomic(uint32_t) run_entry; /* atomic; written by GD before `run`: entries of its record before that */
    const char *told;            /* GD only; the reason that the log has for the CPU's deciding */
    _Atomic(enum gy_loop_state) state; /* atomic; see above */
    _Atomic(uint32_t) cpu_turns;       /* atomic; written by `decide`: of the loop under way */
    _Atomic(uint64_t) launches;        /* atomic; written by GD: on the device */
    _Atomic(uint64_t) cpu_loops;       /* atomic; written by `decide` */
    _Atomic(uint32_t) latest_turns,
        latest_end; /* atomic; of the latest that has ended with the CPU deciding */
    _Atomic(uint32_t)
        latest_entry; /* atomic; the last entry of its record before that: a later one that has ended is
                         the latest, also when its run was cancelled and `decide` was not called */
};

/* All loops of a dispatcher. */
struct gy_device_loops {
    struct gy_while_pool pool;    /* its own guards */
    gy_mutex lock;                /* rank LEAF */
    struct gy_device_loop *first; /* guarded by lock */
};

void gy_device_loops_init(struct gy_device_loops *loops, struct gy_context *context);
/* The GPU is done or the context lost, and the context is current. */
void gy_device_loops_fini(struct gy_device_loops *loops);
/* The context is lost: the device shall leave all loops that it is in, also those of managers that are gone.
 */
void gy_device_loops_cancel(struct gy_device_loops *loops);

/* A loop without tasks; NULL: out of host memory. */
struct gy_device_loop *gy_device_loop_new(const gantry_taskman *manager, CUdeviceptr word, uint32_t most);
/* Join it to its dispatcher. */
GANTRY_MUST_CHECK gantry_status gy_device_loop_enlist(struct gy_device_loop *loop,
                                                      struct gy_device_loops *list);

/* Any thread: what became of it. */
gantry_loop_stats gy_device_loop_stats(const struct gy_device_loop *loop);

/* Any thread: end all that the device is in, of whichever run, after the present turn.  False: it is in none.
 */
bool gy_device_loop_end_all(struct gy_device_loop *loop);

/* It has ended with the CPU deciding, whoever is the one to know. */
void gy_device_loop_note_end(struct gy_device_loop *loop, uint32_t turns, gantry_loop_end end);

/* Any thread: go from one state to the next.  False: it was in another one, and stays there. */
bool gy_device_loop_pass(struct gy_device_loop *loop, enum gy_loop_state from, enum gy_loop_state next);

/* It has a record exactly while it is in a list, its counts are in range, and its unit is its own. */
bool gy_device_loop_is_valid(const struct gy_device_loop *loop);

/* GD: what an earlier run has left undone is no concern of this one. */
void gy_device_loop_renew(struct gy_device_loop *loop);
/* GD: may its body be made a WHILE node now?  Else the log says why not, once for each reason. */
bool gy_device_loop_may_begin(const struct gantry_dispatcher *d, struct gy_device_loop *loop);
/* GD: it cannot be a WHILE node. */
void gy_device_loop_forbid(struct gy_device_loop *loop, const char *why);
/* GD, around the launch of its graph: one more entry, which takes a cancelled run into account; and the
 * launch has failed. */
void gy_device_loop_enter(struct gy_device_loop *loop);
void gy_device_loop_abandon(struct gy_device_loop *loop);
/* GD: so many turns are likely. */
uint32_t gy_device_loop_expects(const struct gy_device_loop *loop);

/* Make a plan of the bodies of a manager's loops, whose graph has conditions.  A plan without units is none.
 * @retval GANTRY_ERR_OUT_OF_HOST_MEMORY */
GANTRY_MUST_CHECK gantry_status gy_device_loops_plan(struct gy_plan *plan, gantry_taskman *manager,
                                                     uint32_t device);

#endif
