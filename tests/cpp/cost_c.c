/* SPDX-License-Identifier: MIT */
/* The step as it is written in C. */
#include "tests/cpp/cost.h"

#include <stdlib.h>

static void must(gantry_status status)
{
    if (status != GANTRY_OK) {
        abort();
    }
}

static gantry_status add(gantry_task *task, void *arg)
{
    struct cost_scene *scene = arg;
    (void)task;
    scene->sum += scene->count;
    return GANTRY_OK;
}

static gantry_launch_result compute(gantry_launch *launch, void *arg)
{
    struct cost_scene *scene = arg;
    void *arguments[] = {&scene->device, &scene->count, NULL};
    const gantry_dim3 grid = {(scene->count + 255) / 256, 1, 1}, block = {256, 1, 1};
    if (gantry_launch_copy_htod(launch, scene->device, scene->host, scene->count * sizeof(uint32_t)) !=
            GANTRY_OK ||
        gantry_launch_kernel(launch, scene->kernel, grid, block, 0, arguments) != GANTRY_OK) {
        return GANTRY_LAUNCH_FAILED;
    }
    return GANTRY_LAUNCH_DONE;
}

void cost_step_c(struct cost_scene *scene, void *unused)
{
    (void)unused;
    for (int i = 0; i < COST_TASKS; i++) {
        gantry_task *before = NULL, *after = NULL;
        gantry_task_desc desc = GANTRY_TASK_DESC_INIT;
        desc.kind = GANTRY_TASK_KERNEL;
        desc.label = "compute";
        desc.launch = compute;
        desc.arg = scene;
        must(gantry_taskman_submit(scene->manager, &desc, &before));
        desc = (gantry_task_desc)GANTRY_TASK_DESC_INIT;
        desc.label = "add";
        desc.run = add;
        desc.arg = scene;
        must(gantry_taskman_submit(scene->manager, &desc, &after));
        must(gantry_task_start_after_done(after, before));
    }
    must(gantry_taskman_start(scene->manager));
    must(gantry_taskman_stop(scene->manager));
    must(gantry_taskman_reset(scene->manager));
}
