/* SPDX-License-Identifier: MIT */
/* What orders tasks: an edge says that one starts after another, and tasks without a path between them may
 * run at the same time. */
#include <gantry/gantry.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { TEXT = 32 };

static void must(gantry_status status)
{
    if (status != GANTRY_OK) {
        fprintf(stderr, "%s\n", gantry_last_error());
        exit(EXIT_FAILURE);
    }
}

static gantry_status step(gantry_task *task, void *text)
{
    size_t used = strlen(text);
    snprintf((char *)text + used, TEXT - used, "%s", gantry_task_label(task));
    return GANTRY_OK;
}

static gantry_task *add(gantry_taskman *graph, const char *label, char *text)
{
    gantry_task *task;
    gantry_task_desc desc = {sizeof(desc), GANTRY_TASK_CPU, .label = label, .run = step, .arg = text};
    must(gantry_taskman_submit(graph, &desc, &task));
    return task;
}

int main(void)
{
    gantry_taskman *graph;
    gantry_cpu_dispatcher *workers;
    char left_text[TEXT] = "", right_text[TEXT] = "";
    must(gantry_cpu_dispatcher_create(NULL, &workers));
    gantry_taskman_options options = {sizeof(options), .cpu_dispatcher = workers};
    must(gantry_taskman_create(&options, &graph));

    /* wash -> peel -> cook, and beside it boil -> salt -> cook.  The order of submission does not matter. */
    gantry_task *cook = add(graph, "cook.", left_text);
    gantry_task *peel = add(graph, "peel, ", left_text), *wash = add(graph, "wash, ", left_text);
    gantry_task *salt = add(graph, "salt.", right_text), *boil = add(graph, "boil, ", right_text);
    must(gantry_task_start_after(peel, wash));
    must(gantry_task_start_after(cook, peel));
    must(gantry_task_start_after(salt, boil));
    must(gantry_task_start_after(cook, salt));

    must(gantry_taskman_start(graph));
    must(gantry_taskman_stop(graph)); /* waits */
    printf("one side: %s\nthe other: %s\n", left_text, right_text);
    gantry_taskman_destroy(graph);
    gantry_cpu_dispatcher_destroy(workers);
    return 0;
}
