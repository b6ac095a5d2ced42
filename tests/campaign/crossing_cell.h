/* SPDX-License-Identifier: MIT */
/* The data that the tasks of a crossing leave in memory, for their kernel and for the host alike:
 * page-locked words that count executions, and for each execution the words of other tasks that it saw. */
#ifndef TESTS_CAMPAIGN_CROSSING_CELL_H
#define TESTS_CAMPAIGN_CROSSING_CELL_H

#include <stdint.h>

enum { CROSS_READS = 6, CROSS_RECORDS = 28, CROSS_STEPS = 6, CROSS_STAMP = 5 };

/* A cell belongs to one task, and no other task writes it.  `copied` is what the task's copy, if it has
 * one, makes of `ended`.  The steps of an independent task may overlap, so its copy goes from `nothing`,
 * which nobody writes, to a word of the step's own, which nobody reads. */
struct cross_cell {
    uint32_t begun, ended, copied, nothing, apart[CROSS_STEPS], reserved[6];
};

/* One execution of a task's kernel: the words of the tasks that it reads, when it began and before it
 * ended. */
struct cross_record {
    struct {
        uint32_t begun, ended, copied;
    } first[CROSS_READS], last[CROSS_READS];
    uint32_t executions;   /* executions that took this record for theirs: 1 */
    uint32_t ended_before; /* the task's own count when it began */
    uint32_t reserved[2];
};

enum {
    CROSS_GRID_X = 4,
    CROSS_GRID_Y = 3,
    CROSS_GRID_Z = 2,
    CROSS_UNITS = CROSS_GRID_X * CROSS_GRID_Y * CROSS_GRID_Z
};

/* The words that kernels beside the graph read and write. */
struct cross_beside {
    /* for older work: the permission to end, and how often it ended without it */
    uint32_t turn, overdue, reserved[2];
    uint32_t rows[CROSS_UNITS], units[CROSS_UNITS]; /* how often each was done */
};

/* The kernel's parameters: they are the same in every run, so that it may be replayed. */
struct cross_work {
    struct cross_cell *self;
    struct cross_cell *reads[CROSS_READS];
    struct cross_record *records; /* CROSS_RECORDS of the task's own; executions beyond have number 0 */
    uint32_t read_count, pause_ns;
    uint32_t sees_copies; /* 0: other tasks may write their `copied` meanwhile */
    uint32_t reserved;
    /* Bytes that are no atomics, for GANTRY_CHECK=edges: CROSS_STAMP of the task's own, which it writes, and
     * of those that it reads; NULL: none. */
    uint8_t *stamp;
    const uint8_t *stamps[CROSS_READS];
};

#endif
