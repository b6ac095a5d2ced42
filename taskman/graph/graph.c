/* SPDX-License-Identifier: MIT */
#include "taskman/graph/graph.h"

#include "base/alloc.h"
#include "base/handle.h"
#include "base/status.h"

#include <assert.h>
#include <string.h>

enum {
    FIRST_TASKS = 64,   /* 8 KiB */
    MOST_TASKS = 16384, /* 2 MiB */
    WORKER_TASKS = 512, /* 64 KiB */
    FIRST_EDGES = 64,
    MOST_EDGES = 65536, /* 1 MiB */
};

struct gy_edge gy_edge_closed;

bool gy_graph_is_valid(const struct gy_graph *graph)
{
    const struct gy_task_chunk *tasks = graph->task_current;
    const struct gy_edge_chunk *edges = graph->edge_current;
    bool has_tasks =
        (tasks != NULL) == (graph->task_chunks != NULL) &&
        (tasks == NULL ? graph->tasks == 0 : tasks->used <= tasks->capacity && tasks->used <= graph->tasks);
    bool has_edges =
        (edges != NULL) == (graph->edge_chunks != NULL) && (edges == NULL || edges->used <= edges->capacity);
    bool has_spares = graph->spare_chunks == NULL || graph->spare_chunks->used == 0;
    return has_tasks && has_edges && has_spares;
}

static struct gy_task_chunk *new_task_chunk(struct gy_graph *graph, size_t capacity)
{
    size_t bytes;
    if (__builtin_mul_overflow(capacity, sizeof(gantry_task), &bytes) ||
        __builtin_add_overflow(bytes, sizeof(struct gy_task_chunk), &bytes)) {
        return NULL;
    }
    struct gy_task_chunk *chunk = gy_alloc_aligned(bytes, 64);
    if (chunk != NULL) {
        chunk->next = NULL;
        chunk->used = 0;
        chunk->capacity = capacity;
        graph->bytes += bytes;
        gy_handle_born(GY_HANDLE_TASK, chunk->tasks, bytes - sizeof(*chunk), sizeof(gantry_task));
    }
    return chunk;
}

static size_t edge_chunk_bytes(size_t capacity)
{
    return sizeof(struct gy_edge_chunk) + capacity * sizeof(struct gy_edge);
}

static struct gy_edge_chunk *new_edge_chunk(struct gy_graph *graph, size_t capacity)
{
    struct gy_edge_chunk *chunk = gy_alloc_aligned(edge_chunk_bytes(capacity), 16);
    if (chunk != NULL) {
        chunk->next = NULL;
        chunk->used = 0;
        chunk->capacity = capacity;
        graph->bytes += edge_chunk_bytes(capacity);
    }
    return chunk;
}

static void free_edge_chunks(struct gy_graph *graph)
{
    for (struct gy_edge_chunk *chunk = graph->edge_chunks, *next; chunk != NULL; chunk = next) {
        next = chunk->next;
        graph->bytes -= edge_chunk_bytes(chunk->capacity);
        gy_free(chunk);
    }
    graph->edge_chunks = graph->edge_current = NULL;
    assert(gy_graph_is_valid(graph));
}

gantry_status gy_graph_expect(struct gy_graph *graph, size_t tasks)
{
    struct gy_task_chunk *chunk = new_task_chunk(graph, tasks);
    if (chunk == NULL) {
        return GY_FAIL(GANTRY_ERR_OUT_OF_HOST_MEMORY, "task manager: no memory for %zu tasks", tasks);
    }
    graph->task_chunks = graph->task_current = chunk;
    return GANTRY_OK;
}

struct gy_task_chunk *gy_graph_give_chunk(struct gy_graph *graph)
{
    assert(gy_graph_is_valid(graph));
    struct gy_task_chunk *chunk = graph->spare_chunks;
    if (chunk != NULL) {
        graph->spare_chunks = chunk->next;
    } else {
        chunk = new_task_chunk(graph, WORKER_TASKS);
    }
    if (chunk != NULL) {
        chunk->next = graph->worker_chunks;
        graph->worker_chunks = chunk;
    }
    return chunk;
}

static void take_chunks_back(struct gy_graph *graph)
{
    for (struct gy_task_chunk *chunk; (chunk = graph->worker_chunks) != NULL;) {
        graph->worker_chunks = chunk->next;
        chunk->used = 0;
        chunk->next = graph->spare_chunks;
        graph->spare_chunks = chunk;
    }
}

static void free_task_chunks(struct gy_graph *graph, struct gy_task_chunk *chunk)
{
    for (struct gy_task_chunk *next; chunk != NULL; chunk = next) {
        next = chunk->next;
        graph->bytes -= sizeof(*chunk) + chunk->capacity * sizeof(gantry_task);
        gy_handle_free(chunk->tasks, chunk);
    }
}

/* So that no task of the next step is where one of this step was. */
static void drop_task_chunks(struct gy_graph *graph)
{
    free_task_chunks(graph, graph->task_chunks);
    free_task_chunks(graph, graph->spare_chunks);
    graph->task_chunks = graph->task_current = graph->spare_chunks = NULL;
}

void gy_graph_reset(struct gy_graph *graph)
{
    take_chunks_back(graph);
    if (gy_handles_are_checked()) {
        drop_task_chunks(graph);
    }
    for (struct gy_task_chunk *chunk = graph->task_chunks; chunk != NULL; chunk = chunk->next) {
        chunk->used = 0;
    }
    for (struct gy_edge_chunk *chunk = graph->edge_chunks; chunk != NULL; chunk = chunk->next) {
        chunk->used = 0;
    }
    graph->task_current = graph->task_chunks;
    graph->edge_current = graph->edge_chunks;
    graph->tasks = 0;
    graph->edges = 0;
    graph->back_edges = 0;
    assert(gy_graph_is_valid(graph));
}

void gy_graph_fini(struct gy_graph *graph)
{
    take_chunks_back(graph);
    drop_task_chunks(graph);
    free_edge_chunks(graph);
    assert(gy_graph_is_valid(graph));
}

struct gy_graph_mark gy_graph_mark(struct gy_graph *graph)
{
    assert(gy_graph_is_valid(graph));
    struct gy_task_chunk *current = graph->task_current;
    /* tasks that are added later get chunks of their own */
    if (gy_handles_are_checked() && current != NULL) {
        graph->bytes -= (current->capacity - current->used) * sizeof(gantry_task);
        current->capacity = current->used;
    }
    return (struct gy_graph_mark){
        .task_current = graph->task_current,
        .edge_current = graph->edge_current,
        .task_used = graph->task_current != NULL ? graph->task_current->used : 0,
        .edge_used = graph->edge_current != NULL ? graph->edge_current->used : 0,
        .tasks = graph->tasks,
        .edges = graph->edges,
    };
}

/* So that no task that is added in this run is where one of an earlier run was. */
static void drop_chunks_behind(struct gy_graph *graph, struct gy_task_chunk *last)
{
    free_task_chunks(graph, last != NULL ? last->next : graph->task_chunks);
    free_task_chunks(graph, graph->spare_chunks);
    graph->spare_chunks = NULL;
    *(last != NULL ? &last->next : &graph->task_chunks) = NULL;
}

void gy_graph_return(struct gy_graph *graph, const struct gy_graph_mark *mark)
{
    take_chunks_back(graph);
    if (gy_handles_are_checked()) {
        drop_chunks_behind(graph, mark->task_current);
    }
    struct gy_task_chunk *tasks = mark->task_current != NULL ? mark->task_current->next : graph->task_chunks;
    struct gy_edge_chunk *edges = mark->edge_current != NULL ? mark->edge_current->next : graph->edge_chunks;
    for (; tasks != NULL; tasks = tasks->next) {
        tasks->used = 0;
    }
    for (; edges != NULL; edges = edges->next) {
        edges->used = 0;
    }
    graph->task_current = mark->task_current != NULL ? mark->task_current : graph->task_chunks;
    graph->edge_current = mark->edge_current != NULL ? mark->edge_current : graph->edge_chunks;
    if (mark->task_current != NULL) {
        mark->task_current->used = mark->task_used;
    }
    if (mark->edge_current != NULL) {
        mark->edge_current->used = mark->edge_used;
    }
    graph->tasks = mark->tasks;
    graph->edges = mark->edges;
    assert(gy_graph_is_valid(graph));
}

struct packing {
    struct gy_edge *next;
};

static void pack_task(void *user, gantry_task *task)
{
    struct packing *packing = user;
    struct gy_edge *old = gy_edge_at(&task->edges);
    if (old == NULL) {
        return;
    }
    atomic_store_explicit(&task->edges, packing->next, memory_order_relaxed);
    for (; old != NULL; old = gy_edge_at(&old->next)) {
        struct gy_edge *edge = packing->next++;
        edge->to = old->to;
        atomic_init(&edge->next, packing->next);
    }
    task->last_edge = packing->next - 1;
    atomic_store_explicit(&task->last_edge->next, NULL, memory_order_relaxed);
}

gantry_status gy_graph_pack_edges(struct gy_graph *graph)
{
    assert(gy_graph_is_valid(graph));
    struct gy_edge_chunk *packed = new_edge_chunk(graph, graph->edges + GY_EDGES_AHEAD);
    if (packed == NULL) {
        return GY_FAIL(GANTRY_ERR_OUT_OF_HOST_MEMORY, "task manager: no memory to freeze %llu dependencies",
                       (unsigned long long)graph->edges);
    }
    struct packing packing = {packed->edges};
    struct gy_graph_view view = gy_graph_view(graph);
    gy_graph_each(&view, pack_task, &packing);
    memset(packing.next, 0, GY_EDGES_AHEAD * sizeof(struct gy_edge));
    packed->used = (size_t)(packing.next - packed->edges) + GY_EDGES_AHEAD;
    free_edge_chunks(graph);
    graph->edge_chunks = graph->edge_current = packed;
    return GANTRY_OK;
}

/* A quarter more than there is: so much is unused at most. */
static size_t next_capacity(uint64_t have, size_t least, size_t most)
{
    uint64_t quarter = have / 4;
    return quarter < least ? least : quarter > most ? most : (size_t)quarter;
}

gantry_task *gy_graph_peek_new_task(struct gy_graph *graph)
{
    assert(gy_graph_is_valid(graph));
    struct gy_task_chunk *chunk = graph->task_current;
    if (chunk == NULL || chunk->next == NULL) {
        size_t capacity = next_capacity(graph->tasks, FIRST_TASKS, MOST_TASKS);
        struct gy_task_chunk *fresh = new_task_chunk(graph, capacity);
        if (fresh == NULL) {
            return NULL;
        }
        *(chunk == NULL ? &graph->task_chunks : &chunk->next) = fresh;
        graph->task_current = fresh;
    } else {
        graph->task_current = chunk->next;
    }
    return &graph->task_current->tasks[0];
}

struct gy_edge *gy_graph_peek_new_edge(struct gy_graph *graph)
{
    assert(gy_graph_is_valid(graph));
    struct gy_edge_chunk *chunk = graph->edge_current;
    if (chunk == NULL || chunk->next == NULL) {
        size_t capacity = next_capacity(graph->edges, FIRST_EDGES, MOST_EDGES);
        struct gy_edge_chunk *fresh = new_edge_chunk(graph, capacity);
        if (fresh == NULL) {
            return NULL;
        }
        *(chunk == NULL ? &graph->edge_chunks : &chunk->next) = fresh;
        graph->edge_current = fresh;
    } else {
        graph->edge_current = chunk->next;
    }
    return &graph->edge_current->edges[0];
}

void gy_graph_link_own(gantry_task *light, gantry_task *successor)
{
    light->own_edge.to = gy_edge_to(successor, false);
    atomic_init(&light->own_edge.next, NULL);
    atomic_init(&light->edges, &light->own_edge);
    atomic_init(&light->successors, 1);
}

void gy_graph_loosen(gantry_task *task)
{
    for (struct gy_edge *edge = gy_edge_at(&task->edges); edge != NULL; edge = gy_edge_at(&edge->next)) {
        gantry_task *successor = gy_edge_successor(edge);
        successor->predecessors--;
        atomic_fetch_sub_explicit(&successor->references, 1, memory_order_relaxed);
        gy_task_set(successor, GY_TASK_CHOSEN);
    }
}

struct gy_graph_view gy_graph_view(const struct gy_graph *graph)
{
    assert(gy_graph_is_valid(graph));
    struct gy_graph_view view = {graph->task_chunks, graph->task_current, 0, graph->tasks};
    if (view.last != NULL) {
        view.last_used = view.last->used;
    }
    return view;
}

void gy_graph_each(const struct gy_graph_view *view, void (*visit)(void *user, gantry_task *task), void *user)
{
    for (struct gy_task_chunk *chunk = view->first; chunk != NULL;) {
        bool is_last = chunk == view->last;
        size_t used = is_last ? view->last_used : chunk->capacity;
        for (size_t i = 0; i < used; i++) {
            visit(user, &chunk->tasks[i]);
        }
        chunk = is_last ? NULL : chunk->next;
    }
}

static void clear_scratch(void *user, gantry_task *task)
{
    (void)user;
    task->scratch = 0;
}

static void count_dependents(void *user, gantry_task *task)
{
    (void)user;
    if (gy_task_is_released(task) || gy_task_has(task, GY_TASK_FROZEN)) {
        return;
    }
    for (struct gy_edge *edge = gy_edge_at(&task->edges); edge != NULL; edge = gy_edge_at(&edge->next)) {
        gantry_task *successor = gy_edge_successor(edge);
        successor->scratch += !gy_task_has(successor, GY_TASK_FROZEN);
    }
}

void gy_graph_count_waiting(const struct gy_graph_view *view)
{
    gy_graph_each(view, clear_scratch, NULL);
    gy_graph_each(view, count_dependents, NULL);
}
