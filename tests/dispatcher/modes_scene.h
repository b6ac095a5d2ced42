/* SPDX-License-Identifier: MIT */
/* A scene that tests of the dispatcher's modes share: tasks that stamp cells, one after the other.
 * Functions fail the test themselves. */
#ifndef TESTS_DISPATCHER_MODES_SCENE_H
#define TESTS_DISPATCHER_MODES_SCENE_H

#include "tests/dispatcher/stamps.h"
#include "tests/support/gpu_fixture.h"

#include <stdbool.h>

#define WORDS 2048u

struct modes_scene {
    struct gpu_fixture gpu;
    struct stamps stamps;
    void *device; /* WORDS words */
};

/* The work of one GPU task in these tests. */
struct modes_job {
    struct modes_scene *scene;
    uint32_t index;
    uint32_t spins;
    gantry_task *completes;
    bool sync_point;
    uint32_t calls;
};

gantry_context_options modes_options(void);
/* Open the scene with one worker. */
void modes_open(struct modes_scene *s, const gantry_context_options *options);
void modes_close(struct modes_scene *s);
/* Call these in a launch callback: the first launches a kernel that stamps the job's cells, the second adds
 * the completion that the job asks for. */
bool modes_stamp(gantry_launch *launch, const struct modes_job *job);
bool modes_complete(gantry_launch *launch, const struct modes_job *job);
/* Do both, after a sync point if the job asks for one. */
gantry_launch_result modes_launch(gantry_launch *launch, void *arg);
/* The body of a CPU task: it adds one to the _Atomic(uint32_t) that is its argument. */
gantry_status modes_count_run(gantry_task *task, void *arg);
uint32_t modes_begin_of(const struct modes_scene *s, uint32_t index);
uint32_t modes_end_of(const struct modes_scene *s, uint32_t index);
/* Run a step of `count` jobs in a row (each after the one before), which ends with a completion. */
gantry_status modes_run_chain(struct modes_scene *s, gantry_launch_fn launch, struct modes_job *jobs,
                              uint32_t count);

#endif
