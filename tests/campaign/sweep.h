/* Runs a scene with one thing failing, in a process of its own, and says what was wrong with that. */
#ifndef TESTS_CAMPAIGN_SWEEP_H
#define TESTS_CAMPAIGN_SWEEP_H

#include "tests/campaign/point.h"
#include "tests/campaign/scene.h"

#define SWEEP_MOST_JOBS 16

struct sweep_options {
    uint64_t most;   /* points of each scene; 0: all */
    uint64_t seed;   /* which ones, when not all */
    uint64_t end_ns; /* no new point after that time of CLOCK_MONOTONIC; 0: none */
    uint32_t jobs;   /* at a time */
    uint32_t patience_s;
};

struct sweep_result {
    uint64_t space;   /* points there are */
    uint64_t run;     /* of those that were run */
    uint64_t reached; /* of those, where the failure happened */
    uint64_t refused; /* of those, where the scene was refused something; else it did without */
    uint64_t broken;  /* of those run, where a promise was broken; told on stdout */
};

/* Once, before anything else; false: there is no emulated driver. */
bool sweep_open(void);

bool sweep_scene(const struct scene *scene, const struct sweep_options *options, struct sweep_result *out);
/* One point, in this process, for a debugger: the status a sweep's process ends with. */
int sweep_point(const struct scene *scene, const struct point *point);

#endif
