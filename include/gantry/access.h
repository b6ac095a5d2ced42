/* SPDX-License-Identifier: MIT */
/**
 * @file access.h
 * Order from data: a task says which memory it reads, writes or adds to, and its manager makes the edges that
 * this needs.  Edges that are made by hand may be mixed in.
 *
 * Tasks come after each other where they access the same byte, one of them not just reading, in the order in
 * which the accesses are declared: a reader after the last writer, a writer after the readers since then.
 * Several tasks that ADD to the same bytes need not come after each other; readers and writers come after all
 * of them.  They must use atomics, or disjoint bytes.
 *
 * A CPU task comes after what the GPU does with the memory (gantry_task_start_after_done()), a GPU task after
 * the end of a CPU task.
 *
 * From step to step: a GPU task comes after all GPU work of earlier steps, as it does without accesses.  Not
 * after that of the step just before, if all GPU tasks of that step and the task itself have declared
 * accesses that do not meet (as gantry_task_desc.is_independent; never in a frozen graph).  A CPU task comes
 * after GPU work of earlier steps that its accesses meet.
 *
 * A task that is made while its graph runs brings its accesses in its description
 * (gantry_task_desc.accesses). It comes after what was declared before, whether that has ended or not: after
 * GPU work that was launched, and with a task that has failed it fails.  Not while a frozen graph runs.
 *
 * A GPU task that makes nothing but single copies, fills, batches and boxes (copy.h) has no need of a list:
 * with gantry_task_desc.calls_say_accesses its calls say it.  gantry_taskman_submit() calls the callback for
 * that in the caller's thread, until it returns something other than GANTRY_LAUNCH_AGAIN; its copies and
 * fills enqueue nothing then.  It must bear that, and say the same later, in the run.  gantry_launch_task()
 * and gantry_launch_partition() are NULL meanwhile; any other function of a launch that does something is
 * refused, and the task with it (GANTRY_ERR_UNSUPPORTED, which names the function).
 *
 * Declare what a task accesses in one call: two tasks whose accesses are declared by turns may have to come
 * after each other, which the start refuses as a cycle.  A run of a part of a frozen graph has the edges of
 * that part alone.
 *
 * An access of memory of the contexts' heaps that was freed before is refused, as long as the heap keeps that
 * memory.  Memory that is freed later must not be freed before the task has ended: that is not looked for but
 * with GANTRY_CHECK=edges, as are mappings that are closed.
 *
 * Each range costs the manager some 200 bytes of host memory until it is destroyed, or until most of very
 * many were not used in a step.
 */
#ifndef GANTRY_ACCESS_H
#define GANTRY_ACCESS_H

#include <gantry/task.h>

GANTRY_BEGIN_DECLS

/** What a task does with memory. */
typedef enum gantry_access_mode {
    GANTRY_ACCESS_READ = 1,       /* its bytes stay as they are */
    GANTRY_ACCESS_WRITE = 2,      /* they are written; what was there may be read before */
    GANTRY_ACCESS_READ_WRITE = 3, /* the same as WRITE */
    GANTRY_ACCESS_ADD = 4,        /* they are changed in a way that does not depend on who is first */
} gantry_access_mode;

/** Memory that a task accesses: any addresses, of the device or the host, a part of a block or several. */
struct gantry_access {
    const void *at;          /* the first byte; with the next two: NULL for an empty range */
    size_t bytes;            /* of each row; 0: the range is empty, and orders nothing */
    size_t rows;             /* 0 and 1: one */
    size_t pitch;            /* bytes from one row to the next, at least `bytes`; of one row: not looked at */
    gantry_access_mode mode; /* what is done with all of it */
    uint32_t reserved;       /* 0 */
};

/** An element of a list of accesses: `bytes` bytes from `at` on are read. */
#define GANTRY_READS(at, bytes)                    \
    {                                              \
        (at), (bytes), 1, 0, GANTRY_ACCESS_READ, 0 \
    }
/** Likewise: they are written. */
#define GANTRY_WRITES(at, bytes)                    \
    {                                               \
        (at), (bytes), 1, 0, GANTRY_ACCESS_WRITE, 0 \
    }
/** Likewise: they are added to. */
#define GANTRY_ADDS_TO(at, bytes)                 \
    {                                             \
        (at), (bytes), 1, 0, GANTRY_ACCESS_ADD, 0 \
    }

/** Declare accesses of `task`, which come behind those that were declared before, by any task of the manager
 *  since its reset.  While the graph is built, or in the description; any thread.
 *  @param accesses  `count` of them; copied
 *  @retval GANTRY_OK
 *  @retval GANTRY_ERR_INVALID_ARGUMENT  `task` NULL, a light task, a condition or a name without a task;
 *                                       `accesses` NULL; a range that goes beyond the end of memory, NULL
 *                                       with bytes, memory that was freed, a pitch below the bytes of a row,
 *                                       or no such mode; none was declared then
 *  @retval GANTRY_ERR_STATE             the manager was started, or its graph is frozen
 *  @retval GANTRY_ERR_OUT_OF_HOST_MEMORY  the task has edges, but not all of them: it fails, instead of
 * running too early, and the graph cannot be frozen */
GANTRY_API GANTRY_MUST_CHECK gantry_status gantry_task_access(gantry_task *task,
                                                              const gantry_access *accesses, size_t count);

GANTRY_END_DECLS

#endif
