/* The units of a plan (plan.h) in a run: which are due, and what their tasks do while they are recorded. GD
 * only. */
#ifndef DISPATCHER_WAYS_REPLAY_UNITS_H
#define DISPATCHER_WAYS_REPLAY_UNITS_H

#include "dispatcher/ways/plan.h"

struct gantry_dispatcher;
struct gantry_launch;
struct gy_round;

/* The units of all plans that wait for GD.  GD only. */
struct gy_units {
    struct gy_unit *due, *last_due; /* their roots are all ready; NULL: none */
    struct gy_unit *throttled;      /* the same, and a share holds them back; NULL: none */
    bool told_streams;              /* the log says that streams mode replays nothing */
};

/* A unit is being recorded. */
struct gy_recording {
    struct gy_unit *unit;
    uint64_t cuts;             /* of the dispatcher's captures, when it began */
    bool failed;               /* a task of the unit has */
    uint32_t finished;         /* tasks */
    struct gy_gpu_list others; /* ready tasks that have to wait until it is over */
};

/* Units that a share held back are due again. */
void gy_units_try_again(struct gantry_dispatcher *d);

/* What has arrived of it, and what was kept of it, fits its stage. */
bool gy_unit_is_valid(const struct gy_unit *unit);

/* The unit is not WAITING any more: tell those that come after it. */
void gy_unit_settle(struct gantry_dispatcher *d, struct gy_unit *unit, enum gy_unit_stage stage);
/* The unit's tasks are enqueued: nothing is left of them but their release. */
void gy_unit_release(struct gantry_dispatcher *d, struct gy_unit *unit, gantry_task *task);
/* What `task` of the unit does cannot be replayed: its callbacks are called in every run. */
void gy_unit_forbid(struct gy_unit *unit, const gantry_task *task, const char *why);
static inline gantry_task *gy_unit_first_task(const struct gy_unit *unit)
{
    return unit->plan->members[unit->first];
}

/* From a callback: what it just did cannot be replayed, so from now on its unit is called in every run. */
void gy_units_forbid(const struct gantry_launch *launch, const char *why);
/* From a callback: `target` is completed behind the work of the unit being recorded, if there is one. */
void gy_units_note_completion(const struct gantry_launch *launch, gantry_task *target);
/* A task has launched all it will. */
static inline void gy_recording_note_finished(struct gy_recording *recording, gantry_status result)
{
    recording->finished++;
    recording->failed |= result != GANTRY_OK;
}

#endif
