/* Processes that perform crossings.  Each is this program anew, so that nothing is left to it of another one;
 * what they share is memory in a file without a name. */
#ifndef TESTS_CAMPAIGN_CROSSING_JOBS_H
#define TESTS_CAMPAIGN_CROSSING_JOBS_H

#include "tests/campaign/crossing.h"

#include <sys/types.h>

enum {
    CROSS_JOBS_MOST = 64,
    CROSS_SHRINKS = CROSS_JOBS_MOST, /* the slot of a process that tries whether a smaller program fails */
    CROSS_SKIPPED = 77,              /* exit codes */
    CROSS_NEXT = 43,                 /* another process shall go on */
    CROSS_STUCK = 42,                /* this and the next one have told what there is to tell */
    CROSS_BROKEN = 41
};

struct cross_slot { /* what a process performs; written by it, or by its parent before it begins */
    uint64_t seed;
    struct cross_choice choice;
};

struct cross_settings {
    uint64_t first, programs, jobs, repeat, least, dear, triples, failures, deadline_s;
    uint64_t seconds, patience; /* patience: so many more when pairs or triples are missing */
    bool single, everything;
    struct cross_choice choice;
};

struct cross_shared {
    struct cross_settings settings; /* written before the first process begins */
    double begin;
    atomic_ullong next;  /* program */
    atomic_bool is_over; /* everything has met as often as is asked for; written by the parent */
    struct cross_matrix matrix;
    struct cross_slot slots[CROSS_JOBS_MOST + 1];
};

double cross_seconds(void);
void cross_print_repetition(const struct cross_slot *slot, FILE *file);
/* Performs the programs that the settings ask for, and prints what was found; the exit code. */
int cross_run_many(struct cross_shared *shared, int file);
/* One program, as often as the settings say, in this process; does not return. */
void cross_run_single(struct cross_shared *shared);
/* What a process that was begun does; does not return. */
void cross_worker(struct cross_shared *shared, uint32_t slot);
/* A process for a slot; `quiet`: what it prints is dropped.  -1: none could be begun. */
pid_t cross_begin_worker(int file, uint32_t slot, bool quiet);

/* crossing_shrink.c */
void cross_shrink(struct cross_shared *shared, int file, const struct cross_slot *failed);

#endif
