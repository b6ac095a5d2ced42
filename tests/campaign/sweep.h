/* Runs a scene with one thing failing, in a process of its own, and says what was wrong with that. */
#ifndef TESTS_CAMPAIGN_SWEEP_H
#define TESTS_CAMPAIGN_SWEEP_H

#include "tests/campaign/point.h"
#include "tests/campaign/scene.h"

#include <stdbool.h>

#define SWEEP_MOST_JOBS 128

struct sweep_options {
    const char *scene; /* this one only; NULL: all */
    uint64_t most;     /* points of each scene; 0: all */
    uint64_t seed;     /* which ones, when not all */
    uint64_t seconds;  /* no new point after so many; 0: no limit */
    uint32_t jobs;     /* at a time */
    uint32_t patience_s;
    uint32_t part,
        parts;   /* the part-th (from 0) of so many disjoint parts of all points, the same each time */
    bool fourth; /* of all scenes every fourth: which one, `seed` says */
};

struct sweep_result {
    uint64_t space;   /* points there are, in this part */
    uint64_t run;     /* of those that were run */
    uint64_t reached; /* of those, where the failure happened */
    uint64_t refused; /* of those, where the scene was refused something; else it did without */
    uint64_t broken;  /* of those run, where a promise was broken; told on stdout */
};

/* Once, before anything else; false: there is no emulated driver. */
bool sweep_open(void);

/* The scenes take turns and get the same time each, in an order that is spread over all their points; then a
 * table of what came of it, on stdout.  SIGTERM ends it early, with the table.  False: a promise was broken,
 * or there is no such scene. */
bool sweep_run(const struct sweep_options *options);
/* One point, in this process, for a debugger: the status a sweep's process ends with. */
int sweep_point(const struct scene *scene, const struct point *point);

#endif
