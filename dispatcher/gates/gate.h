/* SPDX-License-Identifier: MIT */
/* Gates: the reasons for which a ready task may not go yet.
 *
 * A task asks the gates in order and stands in the lists of the first that does not let it pass; nowhere else
 * as long as it does.  Intake asks once, when the task has become ready; the phases ask before each of its
 * calls, since a bound on GPU time may be used up between two of them.
 *
 *              intake                          before a call
 *   ready --> units --> memory --> stream, bin --> share --> call
 *               ^         |            ^            |
 *               |  next() |            |   poll()   |
 *   a unit is launched, called         +------------+
 *   or recorded
 *
 * A gate that is asked by intake gives its tasks back one by one (next), and they go on with the gates behind
 * it; one that is asked before calls puts them back in front of the bins (poll).  What none of them holds
 * costs nothing: the questions are inline, and say which gates concern a task at all.
 *
 * A new reason to wait is a new gate: a constant of this struct, its place among the others in gate.c, and,
 * at intake, its question in gy_gates_admit().  The gates belong to the dispatcher's thread (GD). */
#ifndef DISPATCHER_GATES_GATE_H
#define DISPATCHER_GATES_GATE_H

#include "dispatcher/internal.h"
#include "dispatcher/submit/round.h"

struct gy_gate {
    const char *name;
    /* True: the task passes.  False: the gate has it now. */
    bool (*admits)(struct gantry_dispatcher *d, struct gy_round *round, gantry_task *task);
    /* See which tasks may go now; `all`: every one.  If the gate is asked before calls they go to the
     * bins.  NULL: its tasks come back when something is done with them. */
    void (*poll)(struct gantry_dispatcher *d, struct gy_round *round, bool all);
    /* A task that may go now; NULL: there is none.  NULL where poll does that. */
    gantry_task *(*next)(struct gantry_dispatcher *d);
    /* Runs were cancelled: what of them it holds may go.  NULL: it does so by itself. */
    void (*cancel)(struct gantry_dispatcher *d, struct gy_round *round);
    /* GD is about to sleep, or a manager cannot go on: whether something may go after all.  NULL: never. */
    void (*last_look)(struct gantry_dispatcher *d);
    /* When something may go that no other event announces, on gy_clock_ns(); 0: not known.  NULL: never. */
    uint64_t (*deadline)(struct gantry_dispatcher *d);
    /* Does the gate hold tasks between two calls?  NULL at intake. */
    bool (*holds)(struct gantry_dispatcher *d);
    /* Do the gate's lists and its state agree? */
    bool (*is_valid)(const struct gantry_dispatcher *d);
};

/* The gates, where they are: memory_gate.c, share_gate.c, submit/replay_units.c. */
extern const struct gy_gate gy_gate_units, gy_gate_memory, gy_gate_share;

/* ---- intake ---- */

/* The task passes all gates that intake asks; or one has it.  Here is their order, and which of them concern
 * a task: most are asked nothing. */
static inline bool gy_gates_admit_behind_units(struct gantry_dispatcher *d, struct gy_round *round,
                                               gantry_task *task)
{
    return gy_admission_memory(task) == NULL || gy_gate_memory.admits(d, round, task);
}
static inline bool gy_gates_admit(struct gantry_dispatcher *d, struct gy_round *round, gantry_task *task)
{
    bool is_of_unit = gy_task_gpu_plan(task) != NULL;
    return ((!is_of_unit && round->recording == NULL) || gy_gate_units.admits(d, round, task)) &&
           gy_gates_admit_behind_units(d, round, task);
}

/* There may be tasks that may go now: poll; then take them until there is none. */
static inline bool gy_gates_are_busy(const struct gantry_dispatcher *d)
{
    return gy_admission_is_busy(&d->admission);
}
void gy_gates_poll(struct gantry_dispatcher *d, struct gy_round *round);
gantry_task *gy_gates_next(struct gantry_dispatcher *d);

/* ---- calls ---- */

/* May a gate that is asked before calls refuse any task? */
static inline bool gy_gates_concern_calls(const struct gantry_dispatcher *d)
{
    return gy_shares_any(&d->shares);
}

/* gy_gates_admit() before a call of `task`. */
GY_RARE bool gy_gates_admit_call(struct gantry_dispatcher *d, struct gy_round *round, gantry_task *task);

/* Put the tasks that may be called now, or `all`, back into the bins. */
void gy_gates_poll_calls(struct gantry_dispatcher *d, struct gy_round *round, bool all);

/* Does any of the gates that are asked before calls hold a task? */
bool gy_gates_hold_calls(struct gantry_dispatcher *d);

/* ---- all ---- */

/* Runs were cancelled: nothing of them waits any more. */
GY_COLD void gy_gates_cancel(struct gantry_dispatcher *d, struct gy_round *round);

/* See struct gy_gate. */
void gy_gates_last_look(struct gantry_dispatcher *d);
/* The earliest; 0: there is none. */
uint64_t gy_gates_deadline(struct gantry_dispatcher *d);

bool gy_gates_are_valid(const struct gantry_dispatcher *d);

#endif
