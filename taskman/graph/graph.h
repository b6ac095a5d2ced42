/* SPDX-License-Identifier: MIT */
/* Storage of tasks and edges.
 *
 * Tasks and edges are carved from chunks that grow geometrically and never move, so a handle stays good
 * until the reset; a reset keeps the chunks.  The manager's lock guards everything here, except that a
 * released predecessor's edges are walked without it (see struct gy_edge). */
#ifndef TASKMAN_GRAPH_GRAPH_H
#define TASKMAN_GRAPH_GRAPH_H

#include "base/hints.h"
#include "taskman/graph/state.h"

struct gy_task_chunk {
    struct gy_task_chunk *next;
    size_t used;
    size_t capacity;
    _Alignas(64) gantry_task tasks[];
};

struct gy_edge_chunk {
    struct gy_edge_chunk *next;
    size_t used;
    size_t capacity;
    struct gy_edge edges[];
};

struct gy_graph {
    struct gy_task_chunk *task_chunks;  /* first; NULL: none yet */
    struct gy_task_chunk *task_current; /* where the next task goes; later chunks are empty */
    struct gy_edge_chunk *edge_chunks;
    struct gy_edge_chunk *edge_current;
    uint32_t tasks;      /* created since the reset, placeholders and light tasks included */
    uint64_t edges;      /* linked since the reset */
    uint64_t back_edges; /* of those, from a younger task to an older one: without any, no cycle */
    size_t bytes;        /* of all chunks */
    struct gy_task_chunk *worker_chunks; /* given out since the reset, newest first */
    struct gy_task_chunk *spare_chunks;  /* of the same size, empty */
};

/* Do the chunks and the counts fit? */
bool gy_graph_is_valid(const struct gy_graph *graph);

/* How far the storage is filled. */
struct gy_graph_mark {
    struct gy_task_chunk *task_current;
    struct gy_edge_chunk *edge_current;
    size_t task_used, edge_used;
    uint32_t tasks;
    uint64_t edges;
};

/* The tasks created up to some moment, walkable later without the lock. */
struct gy_graph_view {
    struct gy_task_chunk *first;
    struct gy_task_chunk *last;
    size_t last_used;
    uint32_t tasks; /* in all: those with an index below */
};

/* Room for `tasks` tasks at once.
 * @retval GANTRY_ERR_OUT_OF_HOST_MEMORY  nothing changed */
gantry_status gy_graph_expect(struct gy_graph *graph, size_t tasks);
void gy_graph_reset(struct gy_graph *graph);
void gy_graph_fini(struct gy_graph *graph);

/* Note how far the storage is used, and go back to that: what was created since is forgotten. */
struct gy_graph_mark gy_graph_mark(struct gy_graph *graph);
void gy_graph_return(struct gy_graph *graph, const struct gy_graph_mark *mark);

/* Behind a frozen graph's packed edges lie so many empty ones, for code that looks ahead. */
enum { GY_EDGES_AHEAD = 12 };

/* Put every task's edges one behind the other, in order of creation of the tasks.
 * @retval GANTRY_ERR_OUT_OF_HOST_MEMORY  nothing changed */
gantry_status gy_graph_pack_edges(struct gy_graph *graph);

/* The place of the next task / edge, not yet taken; NULL when out of memory. */
static inline gantry_task *gy_graph_peek_task(struct gy_graph *graph);
static inline struct gy_edge *gy_graph_peek_edge(struct gy_graph *graph);
/* gy_graph_peek_edge() without getting memory: NULL where that would have to. */
static inline struct gy_edge *gy_graph_look_for_edge(const struct gy_graph *graph);

/* A chunk for one worker to fill with tasks that nobody sees when he walks the graph; NULL when out of
 * memory. */
struct gy_task_chunk *gy_graph_give_chunk(struct gy_graph *graph);

/* Take the place that gy_graph_peek_task() / gy_graph_peek_edge() showed. */
static inline void gy_graph_take_task(struct gy_graph *graph);
static inline void gy_graph_take_edge(struct gy_graph *graph, const struct gy_edge *edge);

/* Give a light task its one edge, in a place of its own.  The caller holds a reference on `successor`, which
 * becomes the edge's. */
void gy_graph_link_own(gantry_task *light, gantry_task *successor);

/* `task` turns out to be a condition: its dependents are not held by it. */
void gy_graph_loosen(gantry_task *task);

struct gy_graph_view gy_graph_view(const struct gy_graph *graph);

/* Calls `visit` for every task of the view, in order of creation. */
void gy_graph_each(const struct gy_graph_view *view, void (*visit)(void *user, gantry_task *task),
                   void *user);

/* The dependent behind `edge`'s place, NULL at the end of the list. */
static inline struct gy_edge *gy_edge_at(const _Atomic(struct gy_edge *) *place)
{
    struct gy_edge *edge = atomic_load_explicit(place, memory_order_acquire);
    return edge == &gy_edge_closed ? NULL : edge;
}

/* Count in `scratch`, for every task that was not released, how many of its predecessors were not.  Tasks of
 * a frozen graph are left out: they wait for others, but none of those that were added waits for them. */
void gy_graph_count_waiting(const struct gy_graph_view *view);

/* ---- inline: what building does for every task and edge ---- */

/* gy_graph_peek_task() when the current chunk is full, or there is none yet. */
gantry_task *gy_graph_peek_new_task(struct gy_graph *graph);
struct gy_edge *gy_graph_peek_new_edge(struct gy_graph *graph);

static inline gantry_task *gy_graph_peek_task(struct gy_graph *graph)
{
    struct gy_task_chunk *chunk = graph->task_current;
    return chunk != NULL && chunk->used < chunk->capacity ? &chunk->tasks[chunk->used]
                                                          : gy_graph_peek_new_task(graph);
}

static inline struct gy_edge *gy_graph_look_for_edge(const struct gy_graph *graph)
{
    struct gy_edge_chunk *chunk = graph->edge_current;
    return chunk != NULL && chunk->used < chunk->capacity ? &chunk->edges[chunk->used] : NULL;
}

static inline struct gy_edge *gy_graph_peek_edge(struct gy_graph *graph)
{
    struct gy_edge *edge = gy_graph_look_for_edge(graph);
    return edge != NULL ? edge : gy_graph_peek_new_edge(graph);
}

/* Storage that is used again was last written by the threads of the former step, on other cores: fetch what
 * a later call will write.  A little behind the chunk's end does no harm. */
static inline void gy_graph_take_task(struct gy_graph *graph)
{
    enum { AHEAD = 8 };
    struct gy_task_chunk *chunk = graph->task_current;
    const gantry_task *soon = &chunk->tasks[chunk->used] + AHEAD;
    gy_prefetch_write(soon);
    gy_prefetch_write(&soon->last_edge);
    chunk->used++;
    graph->tasks++;
}

/* As with tasks: the former step's workers have read these lines. */
static inline void gy_graph_take_edge(struct gy_graph *graph, const struct gy_edge *edge)
{
    enum { AHEAD = 24 };
    graph->edge_current->used++;
    graph->edges++;
    gy_prefetch_write(edge + AHEAD);
}

#endif
