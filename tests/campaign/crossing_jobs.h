/* SPDX-License-Identifier: MIT */
/* Processes that perform crossings.  Each is this program anew, so that it has nothing of another one; what
 * they share is memory in a file without a name. */
#ifndef TESTS_CAMPAIGN_CROSSING_JOBS_H
#define TESTS_CAMPAIGN_CROSSING_JOBS_H

#include "tests/campaign/crossing.h"

#include <sys/types.h>

enum {
    CROSS_JOBS_MOST = 64,
    /* the slot of a process that tries whether a smaller program fails, too */
    CROSS_SHRINKS = CROSS_JOBS_MOST,
    CROSS_SKIPPED = 77, /* exit codes */
    CROSS_NEXT = 43,    /* another process shall go on */
    CROSS_STUCK = 42,   /* this process and the next one have reported everything */
    CROSS_BROKEN = 41
};

/* the program that a process performs; it writes this, or its parent does before it begins */
struct cross_slot {
    uint64_t seed;
    struct cross_choice choice;
};

struct cross_settings {
    uint64_t first, programs, jobs, repeat, least, dear, triples, failures, deadline_s;
    /* patience: how many more programs are run when pairs or triples are missing */
    uint64_t seconds, patience;
    bool single, everything;
    struct cross_choice choice;
};

struct cross_shared {
    struct cross_settings settings; /* written before the first process begins */
    double begin;
    atomic_ullong next;  /* program */
    atomic_bool is_over; /* everything has met as often as was asked for; the parent writes it */
    struct cross_matrix matrix;
    struct cross_slot slots[CROSS_JOBS_MOST + 1];
};

double cross_seconds(void);
void cross_print_repetition(const struct cross_slot *slot, FILE *file);
/* Perform the programs that the settings ask for, and print the findings; returns the exit code. */
int cross_run_many(struct cross_shared *shared, int file);
/* Perform one program, as often as the settings say, in this process; does not return. */
void cross_run_single(struct cross_shared *shared);
/* The main function of a process that was begun; does not return. */
void cross_worker(struct cross_shared *shared, uint32_t slot);
/* Begin a process for a slot; `quiet`: its output is dropped.  -1: none could be begun. */
pid_t cross_begin_worker(int file, uint32_t slot, bool quiet);

/* crossing_shrink.c */
void cross_shrink(struct cross_shared *shared, int file, const struct cross_slot *failed);

#endif
