/* SPDX-License-Identifier: MIT */
/* Wide joins of frozen graphs.
 *
 * Every predecessor of a join takes a reference from it.  With thousands of predecessors all workers write
 * to that one count all the time, and wait for each other.  So freeze() puts the edges to a wide join in
 * groups, in order of creation of the predecessors, and each predecessor takes from the count of its group.
 * The one that takes the last of a group takes all of the group's references from the join.  Tasks that were
 * created one after the other are mostly run by the same worker, which then has the group's line for itself.
 *
 * A group brings itself back to its begin when its last is taken, as tasks do.  Left out are edges to and
 * from GPU tasks, and those that wait for the GPU, whose references the GPU dispatcher takes; and graphs with
 * conditions, of which a run may leave anything out. */
#include "taskman/joins.h"

#include <assert.h>

#define NOT_WIDE UINT32_MAX

static bool may_be_grouped(const gantry_task *task, const struct gy_edge *edge)
{
    return !gy_task_is_gpu(task) && !gy_task_is_gpu(gy_edge_successor(edge)) && !gy_edge_is_done(edge);
}

static void clear(void *unused, gantry_task *task)
{
    (void)unused;
    task->scratch = 0;
}

static void count_edges(void *unused, gantry_task *task)
{
    (void)unused;
    for (struct gy_edge *edge = gy_edge_at(&task->edges); edge != NULL; edge = gy_edge_at(&edge->next)) {
        gy_edge_successor(edge)->scratch += may_be_grouped(task, edge);
    }
}

/* The number of edges becomes that of the join's first group. */
static void number_groups(void *user, gantry_task *task)
{
    size_t *groups = user;
    uint32_t edges = task->scratch;
    task->scratch = NOT_WIDE;
    if (edges >= GY_JOIN_WIDE) {
        task->scratch = (uint32_t)*groups;
        *groups += (edges - 1) / GY_JOIN_GROUP + 1;
    }
}

size_t gy_joins_count(const struct gy_graph_view *view)
{
    size_t groups = 0;
    gy_graph_each(view, clear, NULL);
    gy_graph_each(view, count_edges, NULL);
    gy_graph_each(view, number_groups, &groups);
    return groups;
}

static void lead_edges(void *user, gantry_task *task)
{
    struct gy_join_group *groups = user;
    for (struct gy_edge *edge = gy_edge_at(&task->edges); edge != NULL; edge = gy_edge_at(&edge->next)) {
        gantry_task *join = gy_edge_successor(edge);
        if (join->scratch == NOT_WIDE || !may_be_grouped(task, edge)) {
            continue;
        }
        struct gy_join_group *group = &groups[join->scratch];
        assert(group->join == NULL || group->join == join);
        group->join = join;
        edge->to = (uintptr_t)group | GY_EDGE_GROUPED;
        join->scratch += ++group->edges == GY_JOIN_GROUP;
    }
}

void gy_joins_make(const struct gy_graph_view *view, struct gy_join_group *groups)
{
    if (groups != NULL) {
        gy_graph_each(view, lead_edges, groups);
    }
    gy_graph_each(view, clear, NULL);
}

static void arm(struct gy_join_group *group, int32_t edges)
{
    group->armed = edges;
    atomic_store_explicit(&group->left, edges, memory_order_relaxed);
}

void gy_joins_arm_all(struct gy_frozen *frozen)
{
    for (size_t i = 0; i < frozen->group_count; i++) {
        arm(&frozen->groups[i], frozen->groups[i].edges);
    }
    frozen->joins_are_armed = true;
}

void gy_joins_arm_none(struct gy_frozen *frozen)
{
    for (size_t i = 0; i < frozen->group_count; i++) {
        arm(&frozen->groups[i], 0);
    }
    frozen->joins_are_armed = false;
}

void gy_joins_arm_edge(const struct gy_edge *edge)
{
    if ((edge->to & GY_EDGE_GROUPED) != 0) {
        struct gy_join_group *group = gy_edge_group(edge);
        arm(group, group->armed + 1);
    }
}
