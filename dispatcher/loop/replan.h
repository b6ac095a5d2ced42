/* SPDX-License-Identifier: MIT */
/* Another plan of partitions for a dispatcher that lives on.
 *
 * What is of partitions is made anew: streams, executable graphs, recorded work, completion rings, shares,
 * and the streams of a recording.  What can fail is made beside what is in force, by the thread that asks.
 * Then the dispatcher's thread (GD) puts it in place, which cannot fail, while it has nothing else to do: it
 * owns nearly all of that, so no lock is needed on the way of a task.
 *
 *          begin            prepared, the GPU is done          GD has put it in place
 *   STILL ------> CHANGING ---------------------------> ASKED -----------------------> CHANGING --> STILL
 *     ^               |                                                                    end
 *     +---------------+ refused or failed: nothing has changed
 *
 * While it is not STILL no step begins, no manager is created or destroyed, and no call about partitions gets
 * in.  Timeline points of streams that have gone count as passed for ever (gy_streams_renew()), so whoever
 * still holds one waits for nothing. */
#ifndef DISPATCHER_LOOP_REPLAN_H
#define DISPATCHER_LOOP_REPLAN_H

#include "dispatcher/done/completion_rings.h"
#include "dispatcher/gates/shares.h"
#include "taskman/gpu_ops.h"

struct gantry_dispatcher;

enum gy_replan_state { GY_REPLAN_STILL, GY_REPLAN_CHANGING, GY_REPLAN_ASKED };

/* What is made beside what is in force. */
struct gy_replan {
    struct gy_partitions *partitions;
    struct gy_completion_rings rings;
    struct gy_shares_change shares;
};

/* Of a dispatcher. */
struct gd_replan {
    _Atomic(uint32_t) state; /* atomic; written under lock, by replan_enter() alone: enum gy_replan_state */
    _Atomic(uint32_t) calls; /* atomic: calls about partitions that are under way, and guests */
    gy_mutex lock;           /* rank LEAF; other rings take their place under it, too */
    gy_cond changed;         /* `state` has changed */
    struct gy_replan *next;  /* guarded by lock; ASKED: what GD shall put in place */
};

GANTRY_MUST_CHECK gantry_status gy_replan_init(struct gd_replan *replan);
void gy_replan_fini(struct gd_replan *replan);

/* ---- any thread ---- */

/* A call that looks at partitions or their streams begins and ends.  GANTRY_ERR_STATE when they are being
 * changed. */
GANTRY_MUST_CHECK gantry_status gy_replan_call_begin(struct gantry_dispatcher *d, const char *call);
void gy_replan_call_end(struct gantry_dispatcher *d);
/* gy_replan_call_begin() without an error. */
bool gy_replan_try_begin(struct gantry_dispatcher *d);
bool gy_replan_is_still(const struct gantry_dispatcher *d);
/* Of the rings in force, and of those before; at any time. */
struct gy_completion_counts gy_replan_count_completions(struct gantry_dispatcher *d);

/* The task managers of a dispatcher, or of a fleet: `*list` is its list of them.  May have to wait until a
 * change is over. */
void gy_users_add(struct gy_gpu_user **list, struct gy_gpu_user *user);
void gy_users_remove(struct gy_gpu_user *user);

/* Begin a change: from now on no step begins.
 * @retval GANTRY_ERR_STATE        a step is running, or another thread is here
 * @retval GANTRY_ERR_DEVICE_LOST */
GANTRY_MUST_CHECK gantry_status gy_replan_begin(struct gantry_dispatcher *d, const char *call);
/* Put `partitions`, which are not in force yet, in the place of those that are.  The context is current.
 * Afterwards no stream of the old ones is left, but for the application's.
 * @retval GANTRY_ERR_STATE  as gy_gpu_user_check_moves()
 * @retval GANTRY_ERR_UNSUPPORTED, GANTRY_ERR_OUT_OF_HOST_MEMORY, GANTRY_ERR_DRIVER, GANTRY_ERR_DEVICE_LOST */
GANTRY_MUST_CHECK gantry_status gy_replan_change(struct gantry_dispatcher *d,
                                                 struct gy_partitions *partitions);
void gy_replan_end(struct gantry_dispatcher *d);

/* ---- GD ---- */

/* It has nothing to do: put in place what it was asked to. */
void gy_replan_put(struct gantry_dispatcher *d);
static inline bool gy_replan_is_asked(const struct gd_replan *replan)
{
    return __builtin_expect(atomic_load_explicit(&replan->state, memory_order_acquire) == GY_REPLAN_ASKED, 0);
}

/* Asked for something exactly when ASKED. */
bool gy_replan_is_valid(const struct gd_replan *replan);

#endif
