/* SPDX-License-Identifier: MIT */
/* The calls that the callbacks of stable tasks make, noted and compared from run to run: GANTRY_CHECK=stable.
 *
 *            the first run ends             a call differs, or one more or less is made
 *   NOTING ---------------------> COMPARING ------------------------------------------> TOLD
 *      ^                            |
 *      +--- the task is invalidated +      FREE from any state: what the callback does is not replayed anyhow
 *
 * The calls of our launch functions are seen; work that a callback enqueues itself is not. */
#ifndef DISPATCHER_CALL_CALLS_H
#define DISPATCHER_CALL_CALLS_H

#include "base/hints.h"
#include "driver/extra.h"

#include <gantry/copy.h>

enum gy_calls_state { GY_CALLS_NOTING, GY_CALLS_COMPARING, GY_CALLS_TOLD, GY_CALLS_FREE };

struct gy_noted_call;

struct gy_fill;

/* The calls of one task.  The thread that calls the callback may touch it; between runs, the manager's owner.
 */
struct gy_calls {
    enum gy_calls_state state; /* enter() of calls.c is the only writer */
    uint32_t count;            /* calls of the run that this run is compared with */
    uint32_t at;               /* the next call's number in this run */
    bool lost;                 /* NOTING: a call of this run has failed, so the rest of it is not noted */
    size_t bytes, bytes_room;
    struct gy_noted_call *noted;
    size_t room;           /* the number of calls that `noted` has room for */
    unsigned char *values; /* the values of kernels' parameters, one after the other */
};

/* To be called before the callback is called for the `index`-th time in a run. */
void gy_calls_begin(struct gy_calls *calls, uint64_t index);
/* To be called when the callback has returned. */
void gy_calls_end(struct gy_calls *calls, const gantry_task *task, gantry_launch_result result);

/* To be called in the callback, for work that it has enqueued. */
GY_COLD void gy_calls_note_kernel(struct gy_calls *calls, const gantry_task *task,
                                  const struct gantry_kernel *kernel, const struct gy_launch_size *size,
                                  const struct gy_launch_extra *extra, void *const *args);
GY_COLD void gy_calls_note_copy(struct gy_calls *calls, const gantry_task *task, const void *to,
                                const void *from, uint64_t bytes);
GY_COLD void gy_calls_note_fill(struct gy_calls *calls, const gantry_task *task, const struct gy_fill *fill);
GY_COLD void gy_calls_note_batch(struct gy_calls *calls, const gantry_task *task,
                                 const gantry_copy_desc *descs, size_t count);
GY_COLD void gy_calls_note_list(struct gy_calls *calls, const gantry_task *task,
                                const gantry_copy_list *list);
GY_COLD void gy_calls_note_box(struct gy_calls *calls, const gantry_task *task, const gantry_copy_box *box);
GY_COLD void gy_calls_note_completion(struct gy_calls *calls, const gantry_task *task,
                                      const gantry_task *target);

/* The callback did something that is not replayed, or that no capture takes: its calls may differ. */
void gy_calls_set_free(struct gy_calls *calls);
/* The task's promise was taken back for the next run. */
void gy_calls_forget(struct gy_calls *calls);
void gy_calls_fini(struct gy_calls *calls);

#endif
