/* SPDX-License-Identifier: MIT */
/* The units of a plan (plan.h) in a run: which units are due, and what their tasks do while they are
 * recorded. Everything belongs to the dispatcher's thread (GD). */
#ifndef DISPATCHER_SUBMIT_REPLAY_UNITS_H
#define DISPATCHER_SUBMIT_REPLAY_UNITS_H

#include "dispatcher/submit/plan.h"

struct gantry_dispatcher;
struct gantry_launch;
struct gy_round;

/* The units of all plans that wait for GD.  GD only. */
struct gy_units {
    struct gy_unit *due, *last_due; /* units whose roots are all ready; NULL: none */
    struct gy_unit *throttled; /* units whose roots are all ready, but which a share holds back; NULL: none */
    bool told_streams;         /* the log has said that streams mode replays nothing */
};

/* The recording of a unit. */
struct gy_recording {
    struct gy_unit *unit;
    uint64_t cuts;             /* the cuts of the dispatcher's captures when the recording began */
    bool failed;               /* a task of the unit has failed */
    uint32_t finished;         /* the number of tasks that are finished */
    struct gy_gpu_list others; /* ready tasks that must wait until the recording has ended */
};

/* Units that a share held back are due again. */
void gy_units_try_again(struct gantry_dispatcher *d);

/* The numbers of tasks that have arrived, and the unit's recording, fit its stage. */
bool gy_unit_is_valid(const struct gy_unit *unit);

/* The unit is no longer WAITING: inform the units that come after it. */
void gy_unit_settle(struct gantry_dispatcher *d, struct gy_unit *unit, enum gy_unit_stage stage);
/* The unit's work is enqueued: this task has only to be released. */
void gy_unit_release(struct gantry_dispatcher *d, struct gy_unit *unit, gantry_task *task);
/* The work of this `task` of the unit cannot be replayed: its callbacks are called in every run. */
void gy_unit_forbid(struct gy_unit *unit, const gantry_task *task, const char *why);
static inline gantry_task *gy_unit_first_task(const struct gy_unit *unit)
{
    return unit->plan->members[unit->first];
}

/* From a callback: its latest action cannot be replayed, so from now on the callbacks of its unit are called
 * in every run. */
void gy_units_forbid(const struct gantry_launch *launch, const char *why);
/* From a callback: `target` is completed behind the work of the unit that is being recorded, if there is one.
 */
void gy_units_note_completion(const struct gantry_launch *launch, gantry_task *target);
/* A task has launched all its work. */
static inline void gy_recording_note_finished(struct gy_recording *recording, gantry_status result)
{
    recording->finished++;
    recording->failed |= result != GANTRY_OK;
}

#endif
