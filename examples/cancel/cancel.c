/* SPDX-License-Identifier: MIT */
/* Ending a run early: what has begun ends, what has not is released as failed, and stop() says that it was
 * cancelled. */
#include <gantry/gantry.h>
#include <stdio.h>
#include <stdlib.h>

static void must(gantry_status status)
{
    if (status != GANTRY_OK) {
        fprintf(stderr, "%s\n", gantry_last_error());
        exit(EXIT_FAILURE);
    }
}

static gantry_status search(gantry_task *task, void *number)
{
    if (*(int *)number == 3) {
        printf("found it in place 3: enough\n");
        return gantry_taskman_cancel(gantry_task_manager(task));
    }
    return GANTRY_OK;
}

int main(void)
{
    enum { PLACES = 6 };
    int numbers[PLACES];
    gantry_taskman *graph;
    gantry_task *tasks[PLACES];
    gantry_task_desc chain[PLACES];
    must(gantry_taskman_create(&(gantry_taskman_options)GANTRY_TASKMAN_OPTIONS_INIT, &graph));
    for (int i = 0; i < PLACES; i++) {
        numbers[i] = i;
        chain[i] = (gantry_task_desc){sizeof(*chain), GANTRY_TASK_CPU, .label = "search", .run = search,
                                      .arg = &numbers[i]};
    }
    must(gantry_taskman_submit_chain(graph, chain, PLACES, tasks));
    must(gantry_taskman_start(graph));
    gantry_status status = gantry_taskman_stop(graph);
    printf("the run: %s\n", gantry_status_name(status));
    for (int i = 0; i < PLACES; i++) {
        printf("place %d: %s\n", i, gantry_status_text(gantry_task_result(tasks[i])));
    }
    gantry_taskman_destroy(graph);
    return status == GANTRY_ERR_CANCELLED ? 0 : 1;
}
