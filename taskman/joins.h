/* SPDX-License-Identifier: MIT */
/* Wide joins of frozen graphs: their predecessors count off groups of them. */
#ifndef TASKMAN_JOINS_H
#define TASKMAN_JOINS_H

#include "taskman/manager.h"

enum {
    GY_JOIN_WIDE = 256,  /* from so many predecessors on a join is wide */
    GY_JOIN_GROUP = 128, /* edges of one group */
};

/* How many groups the graph's wide joins need.  Writes `scratch`, as gy_joins_make() expects it. */
size_t gy_joins_count(const struct gy_graph_view *view);

/* Lead the edges to wide joins to `groups`, which are all 0 and as many as gy_joins_count() has said just
 * now. */
void gy_joins_make(const struct gy_graph_view *view, struct gy_join_group *groups);

/* Before a run of all tasks, after one of a part. */
void gy_joins_arm_all(struct gy_frozen *frozen);
/* Before a run of a part: no edge leads anywhere yet; then for each edge of a task of the part. */
void gy_joins_arm_none(struct gy_frozen *frozen);
void gy_joins_arm_edge(const struct gy_edge *edge);

#endif
