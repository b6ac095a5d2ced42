/* SPDX-License-Identifier: MIT */
/* The search for cycles: Kahn's algorithm with the counters and the queue inside the tasks. */
#include "taskman/graph/cycles.h"

#include "base/status.h"

#include <stdio.h>

struct search {
    gantry_task *first; /* tasks all of whose predecessors were taken out */
    gantry_task *last;
    uint32_t taken;
    gantry_task *left_over;
};

static void enqueue(struct search *search, gantry_task *task)
{
    task->next = NULL;
    *(search->first == NULL ? &search->first : &search->last->next) = task;
    search->last = task;
}

static void enqueue_root(void *user, gantry_task *task)
{
    task->scratch = task->predecessors;
    if (task->scratch == 0) {
        enqueue(user, task);
    }
}

/* Every task left over has a predecessor that is left over as well: note one in `next`. */
static void point_back(void *user, gantry_task *task)
{
    struct search *search = user;
    if (task->scratch == 0 || gy_task_is_released(task)) {
        return;
    }
    search->left_over = task;
    struct gy_edge *edge = gy_task_is_condition(task) ? NULL : gy_edge_at(&task->edges);
    for (; edge != NULL; edge = gy_edge_at(&edge->next)) {
        if (gy_edge_successor(edge)->scratch != 0) {
            gy_edge_successor(edge)->next = task;
        }
    }
}

static void clear_search(void *user, gantry_task *task)
{
    (void)user;
    task->next = NULL;
    task->scratch = 0;
}

/* Clear what the search left in the tasks. */
static void end_search(struct gy_graph *graph)
{
    struct gy_graph_view view = gy_graph_view(graph);
    gy_graph_each(&view, clear_search, NULL);
}

/* Returns what gy_graph_walk_to_cycle() does; NULL: there is no cycle. */
static gantry_task *find_cycle(struct gy_graph *graph)
{
    if (graph->back_edges == 0) {
        return NULL;
    }
    struct gy_graph_view view = gy_graph_view(graph);
    struct search search = {0};
    gy_graph_each(&view, enqueue_root, &search);
    while (search.first != NULL) {
        gantry_task *task = search.first;
        search.first = task->next;
        search.taken++;
        struct gy_edge *edge = gy_task_is_condition(task) ? NULL : gy_edge_at(&task->edges);
        for (; edge != NULL; edge = gy_edge_at(&edge->next)) {
            if (--gy_edge_successor(edge)->scratch == 0) {
                enqueue(&search, gy_edge_successor(edge));
            }
        }
    }
    if (search.taken == graph->tasks) {
        end_search(graph);
        return NULL;
    }
    return gy_graph_walk_to_cycle(&view, graph->tasks - search.taken);
}

gantry_task *gy_graph_walk_to_cycle(const struct gy_graph_view *view, size_t count)
{
    struct search search = {0};
    gy_graph_each(view, point_back, &search);
    gantry_task *task = search.left_over;
    for (size_t i = 0; i < count; i++) {
        task = task->next; /* after as many steps as there are tasks: surely on a cycle */
    }
    return task;
}

/* The way back from one task to itself is the cycle read backwards: turn it round while counting. */
void gy_graph_name_cycle(const gantry_task *on_cycle, char *text, size_t bytes)
{
    size_t length = 1;
    for (const gantry_task *t = on_cycle->next; t != on_cycle; t = t->next) {
        length++;
    }
    size_t shown = length <= 16 ? length : 16;
    size_t used = 0;
    text[0] = '\0';
    for (size_t i = 0; i < shown && used + 1 < bytes; i++) {
        const gantry_task *task = on_cycle; /* the i-th along the edges is length - i steps back */
        for (size_t back = (length - i) % length; back > 0; back--) {
            task = task->next;
        }
        int wrote = snprintf(text + used, bytes - used, "'%.40s' -> ", gantry_task_label(task));
        used += wrote > 0 ? (size_t)wrote : 0;
    }
    if (used + 1 < bytes) {
        const char *gap = length > shown ? "... -> " : "";
        snprintf(text + used, bytes - used, "%s'%.40s' (%zu tasks)", gap, gantry_task_label(on_cycle),
                 length);
    }
}

gantry_status gy_graph_check_cycles(struct gy_graph *graph, const char *call)
{
    gantry_task *on_cycle = find_cycle(graph);
    if (on_cycle == NULL) {
        return GANTRY_OK;
    }
    char cycle[GY_ERROR_TEXT_BYTES - 100];
    gy_graph_name_cycle(on_cycle, cycle, sizeof(cycle));
    end_search(graph);
    return GY_FAIL(GANTRY_ERR_CYCLE, "%s: the tasks wait for each other: %s", call, cycle);
}
