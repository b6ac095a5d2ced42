/* SPDX-License-Identifier: MIT */
/* Contexts that get one plan after the other, and tasks that see on which SMs they run.  Functions fail the
 * test themselves. */
#ifndef TESTS_PARTITION_REPLAN_SCENE_H
#define TESTS_PARTITION_REPLAN_SCENE_H

#include "tests/support/gpu_fixture.h"

#define REPLAN_WORDS (2 * GANTRY_SM_SET_WORDS)
#define REPLAN_JOBS 48u

/* A GPU task that notes its SMs, and copies the note back. */
struct replan_job {
    struct replan_scene *scene;
    gantry_task *task;
    char partition[GANTRY_PARTITION_NAME_BYTES]; /* "": it names none */
    uint32_t index;
    uint32_t calls; /* of its callback */
};

struct replan_scene {
    struct gpu_fixture gpu;
    gantry_kernel *audit;
    uint32_t *device, *pinned;               /* REPLAN_JOBS * REPLAN_WORDS each */
    bool is_stable;                          /* jobs that are submitted from now on */
    bool is_brief;                           /* jobs have a few blocks: nothing to check */
    uint32_t memory;                         /* likewise: the declaration that they name; 0: none */
    uint32_t count;                          /* jobs submitted */
    uint64_t audited[GANTRY_PARTITIONS_MAX]; /* the id of the partition that `sets` is of */
    gantry_sm_set sets[GANTRY_PARTITIONS_MAX];
    struct replan_job jobs[REPLAN_JOBS];
};

/* A plan for gantry_context_set_partitions(): `text` is "a16 b24 *rest", each name with the least number of
 * its SMs, which is one digit or two; '*' takes the rest. */
struct replan_plan {
    gantry_partition_request requests[GANTRY_PARTITIONS_MAX];
    char names[GANTRY_PARTITIONS_MAX][GANTRY_PARTITION_NAME_BYTES];
    gantry_partition_options options;
};
const gantry_partition_options *replan_plan(struct replan_plan *plan, const char *text);

/* Open the scene; `text` NULL: without a plan. */
void replan_open(struct replan_scene *scene, const char *text, gantry_submission submission);
void replan_open_with(struct replan_scene *scene, const char *text, gantry_context_options *options);
void replan_open_on(struct replan_scene *scene, gantry_context *context, gantry_taskman *manager);
void replan_close(struct replan_scene *scene);
/* The scene's context gets another plan; NULL: none. */
gantry_status replan_to(struct replan_scene *scene, const char *text);
/* The partition of that name; "": the default one. */
gantry_partition *replan_partition(struct replan_scene *scene, const char *name);
gantry_partition_info replan_info(gantry_partition *partition);
/* The call was refused with `expected`, and `text` is in the message. */
void replan_refused(gantry_status status, gantry_status expected, const char *text);

/* Submit a job in the partition of that name, after `before` (NULL: nothing). */
struct replan_job *replan_submit(struct replan_scene *scene, const char *partition,
                                 const struct replan_job *before);
/* Submit eight jobs in "critical", "bulk", "other" and no partition in turn, each after the one before. */
void replan_submit_row(struct replan_scene *scene);
/* The same, and run and check them. */
void replan_run_row(struct replan_scene *scene);
/* After a step: each job has run on its partition's SMs, and on all of them where the driver is emulated. */
void replan_check(struct replan_scene *scene);
/* Submit, run and forget `count` jobs with random edges in the partitions of the plan in force. */
void replan_random_step(struct replan_scene *scene, uint32_t count, uint64_t *random);
uint32_t replan_random(uint64_t *random, uint32_t below);

#endif
