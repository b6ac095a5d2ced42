/* SPDX-License-Identifier: MIT */
/* A bound on GPU time: this manager's tasks get a tenth of the device, however much they ask for, so that
 * others find it free.  They are held back before they are launched; nothing that runs is interrupted. */
#include "shares.kernels.h" /* made of shares.cu by gantry_add_kernels() */
#include <gantry/gantry.h>
#include <stdio.h>
#include <stdlib.h>

enum { TASKS = 60, NANOSECONDS = 500000 };
static gantry_kernel *kernel;

static void must(gantry_status status)
{
    if (status != GANTRY_OK) {
        fprintf(stderr, "%s\n", gantry_last_error());
        exit(EXIT_FAILURE);
    }
}

static gantry_launch_result launched(gantry_status status)
{
    return status == GANTRY_OK ? GANTRY_LAUNCH_DONE : GANTRY_LAUNCH_FAILED;
}

static gantry_launch_result busy(gantry_launch *launch, void *arg)
{
    void *args[] = {&(uint32_t){NANOSECONDS}};
    return launched(
        gantry_launch_kernel(launch, kernel, (gantry_dim3){1, 1, 1}, (gantry_dim3){1, 1, 1}, 0, args));
}

int main(void)
{
    gantry_context *context;
    gantry_module *module;
    gantry_taskman *graph;
    gantry_task *tasks[TASKS];
    gantry_share tenth = {sizeof(tenth), .percent = 10};
    must(gantry_context_create(NULL, &context));
    must(gantry_module_load(context, &gantry_image_shares, &module));
    must(gantry_module_get_kernel(module, "busy", &kernel));
    gantry_taskman_options options = {sizeof(options), .gpu_dispatcher = gantry_context_dispatcher(context),
                                      .share = &tenth};
    must(gantry_taskman_create(&options, &graph));
    gantry_task_desc chain[TASKS];
    for (int i = 0; i < TASKS; i++) {
        chain[i] = (gantry_task_desc){sizeof(*chain), GANTRY_TASK_KERNEL, .label = "busy", .launch = busy};
    }
    must(gantry_taskman_submit_chain(graph, chain, TASKS, tasks)); /* 30 ms of work, one after the other */
    must(gantry_taskman_start(graph));
    must(gantry_taskman_stop(graph));
    must(gantry_context_synchronize(context));

    gantry_share_usage usage = {.struct_size = sizeof(usage)};
    must(gantry_taskman_get_usage(graph, &usage));
    printf("may use %.0f %% of the device, was held back: %s\n", usage.target * 100,
           usage.throttled_ns > 0 ? "yes" : "no");
    gantry_taskman_destroy(graph);
    gantry_context_destroy(context);
    return 0;
}
