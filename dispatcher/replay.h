/* Running the regions of a plan (plan.h): what stable tasks have enqueued in an earlier run is launched again
 * as one graph, and they are released without a call.  GD only. */
#ifndef DISPATCHER_REPLAY_H
#define DISPATCHER_REPLAY_H

#include "dispatcher/ways/plan.h"

struct gantry_dispatcher;

/* What is being recorded. */
struct gy_recording {
    struct gy_region *region;  /* NULL: nothing */
    bool complete;             /* so far everything went into one capture, and nothing failed */
    uint32_t finished;         /* tasks */
    struct gy_gpu_list others; /* ready tasks that have to wait until it is over */
};

/* A ready task has come.  True when its region takes care of it; false: it goes its usual way. */
bool gy_replay_take(struct gantry_dispatcher *d, gantry_task *task);

/* d->due is not NULL, so some region's roots are all ready: launch it, record it or let it go. */
void gy_replay_run_due(struct gantry_dispatcher *d);

/* Regions that a share held back are due again. */
void gy_replay_try_again(struct gantry_dispatcher *d);

/* From a callback: what it just did cannot be replayed, so from now on its region is called in every run. */
void gy_replay_forbid(struct gantry_dispatcher *d, const gantry_task *task, const char *why);
/* From a callback: `target` is completed behind the work of the region being recorded, if there is one. */
void gy_replay_note_completion(struct gantry_dispatcher *d, const gantry_task *task, gantry_task *target);
/* A task has launched all it will. */
void gy_replay_note_finished(struct gantry_dispatcher *d, gantry_status result);

#endif
