/* SPDX-License-Identifier: MIT */
/**
 * @file loop.h
 * Loops of a frozen graph whose turns a word in device memory decides.  Where the body is GPU work that a
 * CUDA graph can repeat, the whole loop is one launch, and the device goes round by itself; else the CPU
 * looks at the word after each turn.
 *
 * Threading: gantry_taskman_submit_loop() as gantry_taskman_submit(); the others: any thread.
 */
#ifndef GANTRY_LOOP_H
#define GANTRY_LOOP_H

#include <gantry/task.h>

GANTRY_BEGIN_DECLS

/** What a loop is to be. */
typedef struct gantry_loop_options {
    size_t struct_size;
    const void *word;  /* a uint32_t in device memory, aligned to 4 bytes, that the body writes: not 0: one
                        * more  turn.  It is read when a turn is done, so each loop has at least one */
    uint32_t most;     /* turns, at least 1: the loop ends after so many, whatever the word is */
    uint32_t reserved; /* 0 */
    const char *label; /* what profiles and errors call the loop's two tasks; NULL: "loop".  NOT copied: must
                        * outlive the manager's reset */
    gantry_partition *partition; /* that of the body's tasks; NULL: the manager's */
    gantry_context *context; /* of a manager with a fleet: that of the body's tasks; NULL: as for a task */
} gantry_loop_options;
#define GANTRY_LOOP_OPTIONS_INIT                                  \
    {                                                             \
        sizeof(gantry_loop_options), NULL, 0, 0, NULL, NULL, NULL \
    }

/** The two tasks that stand for a loop.  They are tasks like all others. */
typedef struct gantry_loop {
    size_t struct_size;  /* in: sizeof of the caller */
    gantry_task *test;   /* a GPU task: it starts after the last tasks of the body */
    gantry_task *decide; /* a condition (gantry_task_choose()): its first dependent is where each turn begins,
                          * its second one, which need not be, is what comes after the loop */
} gantry_loop;

/** Submit the two tasks, with the edge between them.  The body is declared by edges:
 *
 *      before ──► first ──► ... ──► last ──► test ──► decide ──► after
 *                   ▲                                   │
 *                   └────────── dependent 0 ────────────┘
 *
 *    gantry_task_start_after(first, before);
 *    gantry_task_start_after(loop.test, last);
 *    gantry_task_start_after(first, loop.decide);
 *    gantry_task_start_after(after, loop.decide);
 *
 *  It runs on the device when all tasks of the body are stable GPU tasks of one partition, or sync points;
 * when nothing but `first` comes after tasks outside of it, and nothing but `test` after tasks inside; when
 * what they enqueue are kernels, copies and fills that a conditional node of a CUDA graph takes; and when the
 * driver has such nodes (CUDA 12.4).  This does not depend on the submission mode.  Else, and while a profile
 * is recorded, in synchronous mode and on one stream, the CPU looks at the word after each turn; the log says
 * why.  Which it was makes no difference to what is computed.
 *
 *  `decide` is released when the loop was launched, not when it has ended: GPU tasks after it are ordered
 * behind the last turn, a CPU task that reads results waits for them as always
 * (gantry_task_start_after_done() on a GPU task, gantry_launch_add_completion()).  Where the CPU decides,
 * `decide` is released after the last turn.
 *
 *  The memory of the word, and what the body uses, must stay until the GPU has passed the loop.
 *  @retval GANTRY_OK
 *  @retval GANTRY_ERR_INVALID_ARGUMENT  NULL, a struct_size too small, no word or one that is not aligned,
 * `most` 0
 *  @retval GANTRY_ERR_UNSUPPORTED       the manager has no GPU dispatcher; a field that this version does not
 * know
 *  @retval GANTRY_ERR_STATE             the manager is not being built
 *  @retval GANTRY_ERR_FOREIGN_HANDLE    as gantry_taskman_submit()
 *  @retval GANTRY_ERR_OUT_OF_HOST_MEMORY  the memory may have been short after the first task: that stays
 * until the reset, without an edge, and does nothing
 *  @retval GANTRY_ERR_DRIVER, GANTRY_ERR_DEVICE_LOST
 *
 *  No other failure leaves anything. */
GANTRY_API GANTRY_MUST_CHECK gantry_status gantry_taskman_submit_loop(gantry_taskman *manager,
                                                                      const gantry_loop_options *options,
                                                                      gantry_loop *out);

/** End the loop of which `decide` is a task after its present turn.  What comes after it goes on.
 * The device may still be in the loop of a run before: that one ends, too.  gantry_taskman_cancel() ends all
 * loops of the present run, whose other tasks are cancelled then, and none of a run before.
 *  @retval GANTRY_OK                    it was on its way; should its last turn have been decided already, it
 * ends by itself
 *  @retval GANTRY_ERR_INVALID_ARGUMENT  NULL, or no `decide` of a loop
 *  @retval GANTRY_ERR_STATE             it is not on its way: no turn of it was launched, or it has ended */
GANTRY_API GANTRY_MUST_CHECK gantry_status gantry_loop_cancel(gantry_task *decide);

/** Why a loop has ended. */
typedef enum gantry_loop_end {
    GANTRY_LOOP_NOT_ENDED = 0, /* it has never ended */
    GANTRY_LOOP_WORD = 1,      /* the word was 0 */
    GANTRY_LOOP_MOST = 2,      /* `most` turns were done */
    GANTRY_LOOP_CANCELLED = 3, /* gantry_loop_cancel(), gantry_taskman_cancel(), the context was lost; or the
                                * CPU decided, and a task of the run failed */
} gantry_loop_end;

/** What became of a loop since it was submitted. */
typedef struct gantry_loop_stats {
    size_t struct_size;    /* in: sizeof of the caller */
    uint64_t launches;     /* how often it was begun on the device */
    uint64_t cpu_loops;    /* how often it has ended with the CPU deciding */
    gantry_loop_end end;   /* of the latest that has ended */
    uint32_t turns;        /* of the same */
    uint32_t is_on_device; /* 1: the device has not reached the end of the latest launch */
    uint32_t reserved;
} gantry_loop_stats;

/** The counts as they are now.
 *  @retval GANTRY_OK
 *  @retval GANTRY_ERR_INVALID_ARGUMENT  NULL, no `decide` of a loop, or a struct_size too small */
GANTRY_API GANTRY_MUST_CHECK gantry_status gantry_loop_get_stats(const gantry_task *decide,
                                                                 gantry_loop_stats *out);

GANTRY_END_DECLS

#endif
