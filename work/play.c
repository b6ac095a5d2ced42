/* SPDX-License-Identifier: MIT */
#include "work/play.h"

#include "base/alloc.h"
#include "work/exec.h"

#include <assert.h>

#define MARKED (UINT32_MAX - 1) /* others wait for the node, which was not enqueued yet */

/* ---- nodes ------------------------------------------------------------------------------------- */

/* The graph stays the node's. */
static gantry_status make_and_launch(struct gy_context *context, CUgraph graph, CUstream stream)
{
    struct gy_exec exec = {.graph = graph, .shape.places = GY_EXEC_CHILD_PLACES};
    gantry_status status = gy_exec_make(context, &exec, GY_EXEC_OF_NODES);
    status = status == GANTRY_OK ? GY_CALL(context, cuGraphLaunch(exec.native, stream)) : status;
    exec.graph = NULL;
    gy_exec_drop(context, &exec);
    return status;
}

/* A batch's guard may be open: while a thread captures, only relaxed mode permits to make an executable
 * graph. */
static gantry_status launch_child(struct gy_context *context, CUgraph graph, CUstream stream)
{
    const struct gy_relaxed relaxed = gy_relaxed_begin(context);
    if (relaxed.status != GANTRY_OK) {
        return relaxed.status;
    }
    const gantry_status status = make_and_launch(context, graph, stream);
    const gantry_status back = gy_relaxed_end(context, &relaxed);
    return status == GANTRY_OK ? back : status;
}

static gantry_status enqueue(struct gy_nodes *n, const struct gy_node *node, CUstream stream)
{
    switch (node->kind) {
    case GY_NODE_GRAPH:
        return launch_child(n->context, node->graph, stream);
    case GY_NODE_EVENT:
        return GY_CALL(n->context, cuEventRecord(gy_node_event_of(&n->events[node->event]), stream));
    case GY_NODE_WAIT:
        return GY_CALL(n->context, cuStreamWaitEvent(stream, n->events[node->event].event, 0));
    case GY_NODE_KERNEL:
    case GY_NODE_COPY:
    case GY_NODE_FILL:
        break;
    }
    return gy_node_enqueue(n, node, stream);
}

gantry_status gy_nodes_play(struct gy_nodes *n, CUstream stream)
{
    gantry_status status = GANTRY_OK;
    for (uint32_t i = 0; i < n->count && status == GANTRY_OK; i++) {
        status = enqueue(n, &n->list[i], stream);
    }
    gy_nodes_give_events(n, n->count);
    return status;
}

/* ---- the player -------------------------------------------------------------------------------- */

void gy_player_init(struct gy_player *p, struct gy_context *context, struct gy_side_streams *sides)
{
    *p = (struct gy_player){.context = context, .sides = sides};
}

void gy_player_fini(struct gy_player *p)
{
    for (uint32_t i = 0; i < GY_PLAY_EVENTS; i++) {
        if (p->events[i].native != NULL) {
            (void)p->context->driver->cuEventDestroy(p->events[i].native);
        }
    }
    gy_free(p->marks);
    gy_free(p->ends);
}

static gantry_status stop(struct gy_player *p, gantry_status status)
{
    p->nodes = NULL;
    assert(gy_player_is_valid(p));
    return status;
}

/* ---- lanes ------------------------------------------------------------------------------------- */

/* The lane of the stream; GY_PLAY_NONE: there is no such one. */
static inline uint32_t find_lane(struct gy_player *p, CUstream stream)
{
    if (p->latest < p->lane_count && p->lanes[p->latest].stream == stream) {
        return p->latest;
    }
    for (uint32_t i = 0; i < p->lane_count; i++) {
        if (p->lanes[i].stream == stream) {
            return p->latest = i;
        }
    }
    return GY_PLAY_NONE;
}

static inline uint32_t lane_of(struct gy_player *p, uint32_t node)
{
    return find_lane(p, p->nodes->streams[node]);
}

static bool add_lane(struct gy_player *p, CUstream stream)
{
    if (p->lane_count == GY_PLAY_LANES) {
        return false;
    }
    p->latest = p->lane_count++;
    p->lanes[p->latest].stream = p->lanes[p->latest].on = stream;
    p->lanes[p->latest].side = NULL;
    p->lanes[p->latest].last = GY_PLAY_NONE;
    for (uint32_t i = 0; i < GY_PLAY_LANES; i++) {
        p->lanes[p->latest].behind[i] = 0;
    }
    return true;
}

static bool find_lanes(struct gy_player *p, CUstream home)
{
    p->lane_count = 0;
    bool has_room = add_lane(p, home);
    for (uint32_t i = 0; i < p->count && has_room; i++) {
        has_room = lane_of(p, i) != GY_PLAY_NONE || add_lane(p, p->nodes->streams[i]);
    }
    return has_room;
}

/* ---- side streams ------------------------------------------------------------------------------ */

static bool find_sides(struct gy_player *p)
{
    bool is_found = true;
    uint32_t next = 0;
    for (uint32_t i = 1; i < p->lane_count && is_found; i++) {
        struct gy_side_stream *side = gy_side_streams_next(p->sides, &next);
        is_found = side != NULL;
        p->lanes[i].side = side;
        p->lanes[i].on = is_found ? side->native : NULL;
    }
    return is_found;
}

/* There is room for `count` nodes. */
static bool find_room(struct gy_player *p, uint32_t count)
{
    return gy_grow_array(&p->marks, &p->marks_room, count, sizeof(*p->marks)) &&
           gy_grow_array(&p->ends, &p->ends_room, count, sizeof(*p->ends));
}

/* Is the node an end behind one node of its lane?  It is recorded there, though the lane may have gone on
 * before it was noted: what comes behind may be a kernel that waits for somebody who waits for the end. */
static inline bool is_end(const struct gy_nodes *n, uint32_t i)
{
    const struct gy_node *node = &n->list[i];
    return node->kind == GY_NODE_EVENT && n->events[node->event].is_order && node->before.count == 1 &&
           n->streams[n->before[node->before.first]] == n->streams[i];
}

/* Mark the nodes that others wait for, on other lanes; returns how many these are. */
static uint32_t mark(struct gy_player *p)
{
    const struct gy_nodes *n = p->nodes;
    uint32_t marked = 0;
    for (uint32_t i = 0; i < p->count; i++) {
        const struct gy_node_set before = n->list[i].before;
        p->marks[i] = p->ends[i] = GY_PLAY_NONE;
        if (is_end(n, i)) {
            p->ends[i] = p->ends[n->before[before.first]];
            p->ends[n->before[before.first]] = i;
        }
        for (uint32_t b = 0; b < before.count; b++) {
            const uint32_t number = n->before[before.first + b];
            if (n->streams[number] != n->streams[i]) {
                marked += p->marks[number] != MARKED;
                p->marks[number] = MARKED;
            }
        }
    }
    return marked;
}

/* An event that is used again may be behind a kernel that waits for the host, and who waits for it need not
 * come after that.  The first one is behind what is on home. */
bool gy_play_apart(struct gy_player *p, struct gy_nodes *nodes, uint32_t count, CUstream home)
{
    assert(p->nodes == NULL && count <= nodes->count);
    p->nodes = nodes;
    p->count = count;
    p->is_apart = find_room(p, count) && find_lanes(p, home) && mark(p) < GY_PLAY_EVENTS && find_sides(p);
    p->nodes = NULL;
    return p->is_apart;
}

/* ---- events ------------------------------------------------------------------------------------ */

/* Record the next event at the end of the lane, behind `node`. */
static gantry_status record(struct gy_player *p, uint32_t lane, uint32_t node, struct gy_play_event **out)
{
    struct gy_play_event *event = &p->events[p->next_event];
    gantry_status status = event->native != NULL
                               ? GANTRY_OK
                               : GY_CALL(p->context, cuEventCreate(&event->native, CU_EVENT_DISABLE_TIMING));
    if (status == GANTRY_OK) {
        status = GY_CALL(p->context, cuEventRecord(event->native, p->lanes[lane].on));
    }
    if (status == GANTRY_OK) {
        event->node = node;
        if (node != GY_PLAY_NONE) {
            p->marks[node] = p->next_event;
        }
        p->next_event = (p->next_event + 1) % GY_PLAY_EVENTS;
        *out = event;
    }
    return status;
}

/* Let the lane come after a node of another one. */
static GY_COLD gantry_status wait_for(struct gy_player *p, uint32_t lane, uint32_t node)
{
    const uint32_t other = lane_of(p, node);
    uint32_t *behind = &p->lanes[lane].behind[other];
    if (node < *behind) {
        return GANTRY_OK;
    }
    assert(p->marks[node] < GY_PLAY_EVENTS);
    struct gy_play_event *event = &p->events[p->marks[node]];
    gantry_status status = GANTRY_OK;
    if (event->node != node) { /* it was used again */
        status = record(p, other, p->lanes[other].last, &event);
    }
    if (status == GANTRY_OK) {
        status = GY_CALL(p->context, cuStreamWaitEvent(p->lanes[lane].on, event->native, 0));
        *behind = event->node + 1;
    }
    return status;
}

/* The other lanes come after what is on home. */
static gantry_status fork_lanes(struct gy_player *p)
{
    struct gy_play_event *begin = NULL;
    gantry_status status = p->lane_count > 1 ? record(p, 0, GY_PLAY_NONE, &begin) : GANTRY_OK;
    for (uint32_t i = 1; i < p->lane_count && status == GANTRY_OK; i++) {
        status = GY_CALL(p->context, cuStreamWaitEvent(p->lanes[i].on, begin->native, 0));
    }
    return status;
}

/* ---- playing ----------------------------------------------------------------------------------- */

gantry_status gy_play_begin(struct gy_player *p, struct gy_nodes *nodes, uint32_t count, CUstream home)
{
    assert(p->nodes == NULL && count <= nodes->count);
    const bool is_apart = p->is_apart;
    p->is_apart = false;
    if (!find_room(p, count)) {
        return GY_FAIL(GANTRY_ERR_OUT_OF_HOST_MEMORY, "out of memory to enqueue the nodes of a graph");
    }
    p->nodes = nodes;
    p->count = count;
    p->next = p->next_event = 0;
    if (!is_apart && !find_lanes(p, home)) {
        return stop(p, GY_FAIL(GANTRY_ERR_UNSUPPORTED, "the nodes of a graph are of more than %u streams",
                               GY_PLAY_LANES));
    }
    if (!is_apart) { /* else they are marked */
        (void)mark(p);
    }
    const gantry_status status = fork_lanes(p);
    return status == GANTRY_OK ? status : stop(p, status);
}

/* The ends behind the node. */
static gantry_status play_ends(struct gy_player *p, uint32_t i, uint32_t lane)
{
    gantry_status status = GANTRY_OK;
    for (uint32_t e = p->ends[i]; e != GY_PLAY_NONE && status == GANTRY_OK; e = p->ends[e]) {
        status = enqueue(p->nodes, &p->nodes->list[e], p->lanes[lane].on);
    }
    return status;
}

static gantry_status play_node(struct gy_player *p, uint32_t i)
{
    if (is_end(p->nodes, i)) {
        return GANTRY_OK; /* it was enqueued with the node that it ends */
    }
    struct gy_nodes *n = p->nodes;
    const struct gy_node *node = &n->list[i];
    const uint32_t lane = lane_of(p, i);
    const CUstream stream = p->lanes[lane].stream;
    gantry_status status = GANTRY_OK;
    for (uint32_t b = 0; b < node->before.count && status == GANTRY_OK; b++) {
        const uint32_t before = n->before[node->before.first + b];
        status = n->streams[before] == stream ? GANTRY_OK : wait_for(p, lane, before);
    }
    status = status == GANTRY_OK ? enqueue(n, node, p->lanes[lane].on) : status;
    p->lanes[lane].last = i;
    if (status == GANTRY_OK && p->marks[i] == MARKED) {
        struct gy_play_event *event;
        status = record(p, lane, i, &event);
    }
    return status == GANTRY_OK ? play_ends(p, i, lane) : status;
}

gantry_status gy_play_some(struct gy_player *p, uint32_t most)
{
    assert(p->nodes != NULL && gy_player_is_valid(p));
    gantry_status status = GANTRY_OK;
    for (; most != 0 && p->next < p->count && status == GANTRY_OK; most--) {
        status = play_node(p, p->next++);
    }
    return status == GANTRY_OK ? status : stop(p, status);
}

/* Let home come after the lane. */
static gantry_status join_lane(struct gy_player *p, struct gy_play_lane *lane, uint32_t number)
{
    struct gy_play_event *event = NULL;
    if (lane->side != NULL) {
        return gy_side_stream_join(p->sides, lane->side, p->lanes[0].on);
    }
    const gantry_status status = record(p, number, GY_PLAY_NONE, &event);
    return status == GANTRY_OK ? GY_CALL(p->context, cuStreamWaitEvent(p->lanes[0].on, event->native, 0))
                               : status;
}

gantry_status gy_play_end(struct gy_player *p)
{
    assert(p->nodes != NULL && p->next == p->count);
    gantry_status status = GANTRY_OK;
    for (uint32_t i = 1; i < p->lane_count && status == GANTRY_OK; i++) {
        status = join_lane(p, &p->lanes[i], i);
    }
    if (status == GANTRY_OK) {
        gy_nodes_give_events(p->nodes, p->count);
    }
    return stop(p, status);
}

bool gy_player_is_valid(const struct gy_player *p)
{
    return p->next_event < GY_PLAY_EVENTS && p->lane_count <= GY_PLAY_LANES &&
           (p->nodes == NULL || (p->next <= p->count && p->count <= p->nodes->count && p->lane_count != 0));
}
