/* SPDX-License-Identifier: MIT */
#include "dispatcher/submit/plan_graph.h"

#include "base/alloc.h"

static void count_task(void *user, gantry_task *task)
{
    struct gy_plan_graph *graph = user;
    const uint32_t index = gy_task_index(task);
    graph->tasks = index >= graph->tasks ? index + 1 : graph->tasks;
}

static void note_task(void *user, gantry_task *task)
{
    struct gy_plan_graph *graph = user;
    graph->task[gy_task_index(task)] = task;
}

bool gy_plan_graph_init(struct gy_plan_graph *graph, gantry_taskman *manager)
{
    *graph = (struct gy_plan_graph){.tasks = 0};
    gy_taskman_each_task(manager, count_task, graph);
    graph->task = gy_zalloc_array(graph->tasks, sizeof(gantry_task *));
    graph->stamp = gy_zalloc_array(graph->tasks, sizeof(*graph->stamp));
    graph->stack = gy_zalloc_array(graph->tasks, sizeof(*graph->stack));
    if (graph->task == NULL || graph->stamp == NULL || graph->stack == NULL) {
        return false;
    }
    gy_taskman_each_task(manager, note_task, graph);
    return true;
}

void gy_plan_graph_fini(struct gy_plan_graph *graph)
{
    gy_free(graph->task);
    gy_free(graph->stamp);
    gy_free(graph->stack);
}

static void reach(void *user, gantry_task *dependent)
{
    struct gy_plan_graph *graph = user;
    const uint32_t index = gy_task_index(dependent);
    if (graph->stamp[index] == graph->from + 1) {
        return;
    }
    graph->stamp[index] = graph->from + 1;
    if (graph->visit(graph->user, dependent)) {
        graph->stack[graph->depth++] = index;
    }
}

void gy_plan_graph_follow(struct gy_plan_graph *graph, uint32_t from, gy_plan_visit *visit, void *user)
{
    graph->from = from;
    graph->visit = visit;
    graph->user = user;
    graph->depth = 0;
    gy_task_each_dependent(graph->task[from], reach, graph);
    while (graph->depth > 0) {
        gy_task_each_dependent(graph->task[graph->stack[--graph->depth]], reach, graph);
    }
}
