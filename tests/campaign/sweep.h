/* SPDX-License-Identifier: MIT */
/* Runs a scene with one thing failing, in a process of its own, and reports which promises were broken. */
#ifndef TESTS_CAMPAIGN_SWEEP_H
#define TESTS_CAMPAIGN_SWEEP_H

#include "tests/campaign/point.h"
#include "tests/campaign/scene.h"

#include <stdbool.h>

#define SWEEP_MOST_JOBS 128

struct sweep_options {
    const char *scene; /* this scene only; NULL: all */
    uint64_t most;     /* points of each scene; 0: all */
    uint64_t seed;     /* chooses the points, when not all are run */
    uint64_t seconds;  /* no new point begins after so many seconds; 0: there is no limit */
    uint32_t jobs;     /* processes at a time */
    uint32_t patience_s;
    uint32_t part,
        /* run the part-th (from 0) of so many disjoint parts of all points; the parts are the same each
         * time */
        parts;
    bool fourth; /* run every fourth scene; `seed` chooses with which it begins */
};

struct sweep_result {
    uint64_t space;   /* how many points there are in this part */
    uint64_t run;     /* how many of them were run */
    uint64_t reached; /* points that were run and where the failure happened */
    /* of those, points where the scene was refused something; in the others it did without */
    uint64_t refused;
    uint64_t broken; /* points that were run and where a promise was broken, with a report on stdout */
};

/* Call this once, before anything else; false: there is no emulated driver. */
bool sweep_open(void);

/* The scenes take turns and get the same time each, in an order that is spread over all their points; then a
 * table of the results goes to stdout.  SIGTERM ends it early, with the table.  False: a promise was
 * broken, or there is no such scene. */
bool sweep_run(const struct sweep_options *options);
/* Run one point in this process, for a debugger; returns the status with which a sweep's process ends. */
int sweep_point(const struct scene *scene, const struct point *point);

#endif
