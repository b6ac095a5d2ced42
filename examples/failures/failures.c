/* SPDX-License-Identifier: MIT */
/* What happens when a task fails: its dependents do not run, others do, and stop() returns the first
 * failure's status with a message that names the task. */
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

static gantry_status read_file(gantry_task *task, void *path)
{
    FILE *file = fopen(path, "r");
    if (file == NULL) {
        return GANTRY_ERR_IO;
    }
    fclose(file);
    return GANTRY_OK;
}

static gantry_status use_file(gantry_task *task, void *arg)
{
    printf("%s runs\n", gantry_task_label(task));
    return GANTRY_OK;
}

int main(void)
{
    gantry_taskman *graph;
    gantry_task *failing[2];
    must(gantry_taskman_create(&(gantry_taskman_options)GANTRY_TASKMAN_OPTIONS_INIT, &graph));
    gantry_task_desc chain[] = {
        {sizeof(*chain), GANTRY_TASK_CPU, .label = "read the settings", .run = read_file,
         .arg = "/nowhere/settings"},
        {sizeof(*chain), GANTRY_TASK_CPU, .label = "use the settings", .run = use_file}};
    gantry_task_desc independent = {sizeof(independent), GANTRY_TASK_CPU, .label = "something else",
                                    .run = use_file};
    must(gantry_taskman_submit_chain(graph, chain, 2, failing));
    must(gantry_taskman_submit(graph, &independent, NULL));
    must(gantry_taskman_start(graph));
    gantry_status status = gantry_taskman_stop(graph);
    printf("the run: %s\n", gantry_status_name(status));
    printf("read the settings: %s\n", gantry_status_text(gantry_task_result(failing[0])));
    printf("use the settings: %s\n", gantry_status_text(gantry_task_result(failing[1])));
    fprintf(stderr, "%s\n", gantry_last_error()); /* the whole story */
    gantry_taskman_destroy(graph);
    return status == GANTRY_ERR_IO ? 0 : 1;
}
