/* SPDX-License-Identifier: MIT */
/* What the user sees while the graph runs: errors, and on a terminal a line with the state of things.
 *
 * Threading: any thread. */
#ifndef SAMPLES_IMAGE_PIPELINE_PROGRESS_H
#define SAMPLES_IMAGE_PIPELINE_PROGRESS_H

#include <gantry/base.h>

#include <pthread.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

enum progress_outcome {
    PROGRESS_DONE,
    PROGRESS_FAILED,
    PROGRESS_SKIPPED, /* not begun, because the run was interrupted */
    PROGRESS_OUTCOMES
};

struct progress {
    pthread_mutex_t lock;
    size_t total;                     /* immutable */
    size_t counts[PROGRESS_OUTCOMES]; /* guarded by lock while tasks run */
};

/* `total` photos are going to end.  False when out of resources. */
bool progress_init(struct progress *progress, size_t total);

/* Take the line away.  No other call is in progress. */
void progress_fini(struct progress *progress);

/* One more photo has ended. */
void progress_advance(struct progress *progress, enum progress_outcome outcome);

/* An error, with the sample's name in front. */
void progress_report(const char *format, ...) GANTRY_PRINTF(1, 2);

#endif
