#include "dispatcher/submit/launch_batch.h"

#include "base/point.h"
#include "dispatcher/loop/current.h"
#include "dispatcher/order/batch_order.h"
#include "dispatcher/order/tails.h"
#include "dispatcher/submit/device_loop.h"

_Static_assert(GY_STREAMS_MAX < GY_PLAY_LANES,
               "each stream of the pool may be a lane, and a side stream is home");

#include <assert.h>

/* ---- what is spent ---------------------------------------------------------------------------- */

void gy_graphs_sweep(struct gy_graphs *g)
{
    assert(gy_graphs_are_valid(g));
    if (g->streams->batch.state == GY_BATCH_CLOSED) {
        gy_nodes_clear(&g->batch);
        if (gy_kept_follow_modules(&g->kept)) {
            gy_kept_forget(&g->kept);
        }
    }
    while (g->spent_count > 0 &&
           gy_graphs_is_over(g, GY_CALL(g->context, cuGraphDestroy(g->spent[g->spent_count - 1])))) {
        g->spent_count--;
    }
    gy_exec_drop_refused(g->context);
    assert(gy_graphs_are_valid(g));
}

/* Keep a launched graph for the next sweep.  Where the driver destroys none of them, one is left behind. */
void gy_graphs_spend(struct gy_graphs *g, CUgraph graph)
{
    assert(gy_graphs_are_valid(g));
    if (g->spent_count == GY_GRAPHS_SPENT) {
        gy_graphs_sweep(g);
    }
    g->spent_count -= g->spent_count == GY_GRAPHS_SPENT;
    g->spent[g->spent_count++] = graph;
    assert(gy_graphs_are_valid(g));
}

/* ---- executable graphs that are updated as a whole ------------------------------------------- */

/* Find the cached graph of this signature, else the place of the one to give up. */
static struct gy_graph_cached *find_cached(struct gy_graphs *g, uint64_t signature)
{
    struct gy_graph_cached *oldest = &g->cache[0];
    for (int i = 0; i < GY_GRAPHS_CACHED; i++) {
        struct gy_graph_cached *c = &g->cache[i];
        if (c->exec.native != NULL && c->signature == signature) {
            return c;
        }
        if (c->exec.native == NULL || (oldest->exec.native != NULL && c->used < oldest->used)) {
            oldest = c;
        }
    }
    return oldest;
}

/* Make `exec` an executable form of `graph`, of that shape and so many nodes: by an update if it is one
 * already and the update works, else anew. */
static gantry_status refresh(struct gy_graphs *g, uint32_t nodes, CUgraph graph, struct gy_exec_shape shape,
                             struct gy_exec *exec)
{
    if (exec->native != NULL) {
        const CUresult result = gy_exec_update(g->context, exec, graph, shape);
        if (result != CUDA_ERROR_GRAPH_EXEC_UPDATE_FAILURE) {
            return gy_context_check(g->context, result, "cuGraphExecUpdate", __FILE__, __LINE__);
        }
    }
    struct gy_exec fresh;
    gantry_status status = gy_exec_make(g->context, graph, shape, GY_EXEC_OF_NODES, &fresh);
    if (status != GANTRY_OK) {
        return status;
    }
    gy_exec_drop(g->context, exec);
    *exec = fresh;
    g->strange += nodes;
    atomic_fetch_add_explicit(&g->instantiations, 1, memory_order_relaxed);
    return GANTRY_OK;
}

/* Nodes that are launched as one graph: the first `count` of `nodes`, on `stream`. */
struct work {
    struct gy_nodes *nodes;
    uint32_t count;
    CUstream stream;
    uint32_t piece; /* of the batch; 0: the first one, or no piece */
};

/* The first nodes of the batch. */
static struct work whole_of(struct gy_graphs *g, uint32_t count)
{
    return (struct work){.nodes = &g->batch, .count = count, .stream = gy_batch_home(g->streams)};
}

/* Make an executable form of `graph` in the cache. */
static gantry_status refresh_cached(struct gy_graphs *g, const struct work *work, CUgraph graph,
                                    struct gy_exec_shape shape, CUgraphExec *out)
{
    assert(gy_graphs_are_valid(g));
    /* An executable graph runs once at a time.  Parts and pieces of one batch look alike, and so do batches
     * of managers that do the same, but they shall run at the same time: then they have different homes. */
    const uint64_t seed =
        (uint64_t)g->streams->batch.home << 32 | (uint64_t)work->piece << 16 | (g->part & UINT16_MAX);
    const uint64_t signature = gy_nodes_hash(work->nodes, seed);
    struct gy_graph_cached *c = find_cached(g, signature);
    if (c->signature != signature) {
        gy_exec_drop(g->context, &c->exec);
    }
    gantry_status status = refresh(g, work->count, graph, shape, &c->exec);
    if (status == GANTRY_OK) {
        c->signature = signature;
        c->used = atomic_load_explicit(&g->launches, memory_order_relaxed);
        *out = c->exec.native;
    }
    return status;
}

/* The work was launched. */
static gantry_status count_launch(struct gy_graphs *g, const struct work *work, gantry_status status)
{
    if (status == GANTRY_OK) {
        gy_nodes_give_events(work->nodes, work->count);
        atomic_fetch_add_explicit(&g->launches, 1, memory_order_relaxed);
        atomic_fetch_add_explicit(&g->launched_nodes, gy_nodes_count_work(work->nodes, work->count),
                                  memory_order_relaxed);
    }
    return status;
}

/* Make a graph of the work and launch it, by an executable graph of the cache, or the place's. */
static gantry_status make_and_launch(struct gy_graphs *g, const struct work *work,
                                     struct gy_graph_place *into)
{
    struct gy_nodes *nodes = work->nodes;
    const uint32_t whole = nodes->count;
    CUgraph graph;
    CUgraphExec exec = NULL;
    nodes->count = work->count;
    gy_slot_args_settle(nodes, work->count);
    gantry_status status = gy_nodes_make(nodes, &graph);
    const struct gy_exec_shape shape = gy_exec_shape_of(nodes);
    if (status == GANTRY_OK && into == NULL) {
        status = refresh_cached(g, work, graph, shape, &exec);
        gy_graphs_spend(g, graph);
    } else if (status == GANTRY_OK) {
        status = refresh(g, work->count, graph, shape, into->exec);
        exec = into->exec->native;
        gy_graphs_spend(g, graph);
    }
    nodes->count = whole;
    if (status == GANTRY_OK) {
        status = count_launch(g, work, GY_CALL(g->context, cuGraphLaunch(exec, work->stream)));
    }
    return status;
}

/* Make an executable graph of the nodes that is a loop with them as its body.  What the driver refuses is no
 * loop.  All of it is of one partition, so the priority of the stream is that of the nodes.  The graph stays
 * while its executable form does: it owns the condition. */
static gantry_status make_loop(struct gy_graphs *g, const struct gy_graph_place *into, struct gy_exec *out)
{
    struct gy_device_loop *loop = into->loop;
    const struct gy_while_made made = {&loop->list->pool, loop->record, loop->word, into->where};
    CUgraph graph;
    gantry_status status = gy_while_make(&g->batch, &made, &graph);
    if (status == GANTRY_OK) {
        status = gy_exec_make(g->context, graph, gy_exec_shape_of(&g->batch), GY_EXEC_OF_STREAM, out);
        CUgraph spent = status == GANTRY_OK ? loop->graph : graph;
        loop->graph = status == GANTRY_OK ? graph : loop->graph;
        if (spent != NULL) {
            gy_graphs_spend(g, spent);
        }
    }
    return status;
}

/* Launch the nodes as a loop; into->is_loop false: they are none, and nothing was launched. */
static gantry_status launch_loop(struct gy_graphs *g, struct gy_graph_place *into)
{
    struct gy_exec exec;
    gantry_status status = make_loop(g, into, &exec);
    if (status != GANTRY_OK) {
        return gy_context_is_lost(g->context) ? status : GANTRY_OK;
    }
    gy_exec_drop(g->context, into->exec);
    *into->exec = exec;
    atomic_fetch_add_explicit(&g->instantiations, 1, memory_order_relaxed);
    gy_device_loop_enter(into->loop);
    const struct work work = whole_of(g, g->batch.count);
    status = count_launch(g, &work, GY_CALL(g->context, cuGraphLaunch(exec.native, work.stream)));
    if (status != GANTRY_OK) {
        gy_device_loop_abandon(into->loop);
        return gy_context_is_lost(g->context) ? status : GANTRY_OK;
    }
    into->is_loop = into->is_kept = true;
    return status;
}

/* ---- on streams -------------------------------------------------------------------------------- */

/* Enqueue the work there: where gy_play_apart() has put it, else on the streams of its lanes.  None was
 * launched.
 */
static GY_RARE gantry_status play(struct gy_graphs *g, const struct work *work)
{
    gy_slot_args_settle(work->nodes, work->count);
    gantry_status status = gy_play_begin(&g->player, work->nodes, work->count, work->stream);
    status = status == GANTRY_OK ? gy_play_some(&g->player, work->count) : status;
    status = status == GANTRY_OK ? gy_play_end(&g->player) : status;
    if (status == GANTRY_OK) {
        atomic_fetch_add_explicit(&g->plays, 1, memory_order_relaxed);
    }
    return status;
}

/* May the work be played, which a graph could be made of as well?  To the stream pool it is one: so it is
 * kept apart from what is on its streams. */
static bool may_play(struct gy_graphs *g, const struct work *work)
{
    return gy_nodes_are_released(work->nodes, work->count) &&
           gy_play_apart(&g->player, work->nodes, work->count, work->stream);
}

/* The driver has refused to make or to launch a graph of the work; none was launched. */
static GY_COLD gantry_status play_refused(struct gy_graphs *g, const struct work *work, gantry_status status)
{
    if (gy_context_is_lost(g->context) || !gy_nodes_are_released(work->nodes, work->count)) {
        return status;
    }
    if (!g->told_refused) {
        g->told_refused = true;
        gy_log(GANTRY_LOG_WARNING, "the driver takes no graph of %u nodes (%s): such work goes to streams",
               work->count, gy_error_last()->text);
    }
    return play(g, work);
}

/* Would an executable graph be made for which the driver has no places, and would wait for the device? */
static bool lacks_places(struct gy_graphs *g, const struct work *work)
{
    const uint32_t whole = work->nodes->count;
    uint32_t places = 0;
    work->nodes->count = work->count;
    const bool lacks = gy_exec_lacks_places(work->nodes, &places);
    work->nodes->count = whole;
    if (__builtin_expect(lacks, 0) && places > g->places_wanted) {
        g->places_wanted = places;
    }
    return lacks;
}

/* ---- a batch --------------------------------------------------------------------------------- */

/* Launch the work, as a graph. */
static gantry_status launch_work(struct gy_graphs *g, const struct work *work, struct gy_kept *kept)
{
    if (kept == NULL) {
        return make_and_launch(g, work, NULL);
    }
    struct gy_few_points ends;
    gy_few_points_take(&ends, g->streams, g->streams->batch.members);
    const uint32_t partition = gy_batch_partition(g->streams);
    return count_launch(g, work, gy_kept_launch(&g->kept, kept, work->stream, partition, &ends));
}

/* Launch some of the first nodes, whose number is *count then, or play them. */
static gantry_status launch_some(struct gy_graphs *g, uint32_t *count)
{
    struct gy_kept *kept;
    enum gy_kept_way way;
    gantry_status status = gy_kept_take(&g->kept, &g->batch, count, &kept, &way);
    const struct work work = whole_of(g, *count);
    const bool shall_play =
        status == GANTRY_OK && kept == NULL && (way == GY_KEPT_PLAYED || lacks_places(g, &work));
    if (shall_play && may_play(g, &work)) {
        return play(g, &work);
    }
    status = status == GANTRY_OK ? launch_work(g, &work, kept) : status;
    return __builtin_expect(status != GANTRY_OK, 0) ? play_refused(g, &work, status) : status;
}

/* Launch all nodes, by executable graphs that are kept where there may be some.  What is left of a batch
 * whose beginning was cut off is made. */
static gantry_status launch_whole(struct gy_graphs *g)
{
    const enum gy_kept_plays plays = g->kept.plays;
    gantry_status status = GANTRY_OK;
    uint32_t left = g->batch.count;
    while (left != 0 && status == GANTRY_OK) {
        uint32_t first = left;
        status = launch_some(g, &first);
        left -= first;
        if (left != 0 && status == GANTRY_OK) {
            gy_kept_drop_first(&g->kept, &g->batch, first);
            g->kept.plays = GY_PLAYS_NOTHING;
            g->kept.is_rest = true;
        }
    }
    g->kept.plays = plays;
    g->kept.is_rest = false;
    return status;
}

static gantry_status launch_piece(struct gy_graphs *g, uint32_t piece, CUstream stream)
{
    struct gy_nodes *nodes = &g->kept.pieces.of[piece];
    const struct work work = {nodes, nodes->count, stream, piece};
    struct gy_kept *kept;
    gantry_status status = gy_kept_take_piece(&g->kept, piece, &kept);
    if (status == GANTRY_OK && kept == NULL && lacks_places(g, &work)) {
        return play(g, &work);
    }
    status = status == GANTRY_OK ? launch_work(g, &work, kept) : status;
    return __builtin_expect(status != GANTRY_OK, 0) ? play_refused(g, &work, status) : status;
}

/* Launch the pieces, each but the first on a side stream. */
static gantry_status launch_pieces(struct gy_graphs *g, uint32_t count)
{
    const CUstream home = gy_batch_home(g->streams);
    struct gy_side_stream *const *sides = g->kept.side_of;
    gantry_status status = gy_side_streams_fork(&g->sides, home, sides + 1, count - 1);
    for (uint32_t i = 1; i < count && status == GANTRY_OK; i++) {
        status = launch_piece(g, i, sides[i]->native);
    }
    status = status == GANTRY_OK ? launch_piece(g, 0, home) : status;
    for (uint32_t i = 1; i < count && status == GANTRY_OK; i++) {
        status = gy_side_stream_join(&g->sides, sides[i], home);
    }
    gy_kept_forget(&g->kept);
    return status;
}

static gantry_status launch_nodes(struct gy_graphs *g)
{
    const uint32_t pieces = gy_kept_pieces(&g->kept, &g->batch);
    return __builtin_expect(pieces == 0, 1) ? launch_whole(g) : launch_pieces(g, pieces);
}

/* Launch all nodes, and have the place keep the executable graph. */
static gantry_status launch_into(struct gy_graphs *g, struct gy_graph_place *into)
{
    const struct work work = whole_of(g, g->batch.count);
    const gantry_status status = make_and_launch(g, &work, into);
    into->is_kept = status == GANTRY_OK;
    return into->is_kept ? status : play_refused(g, &work, status);
}

/* Path of a task, step 7 of 9: what was noted of its batch reaches the device. */
static gantry_status launch(struct gy_graphs *g, struct gy_graph_place *place)
{
    if (g->batch.count != 0) {
        gy_point(GY_POINT_PATH_7, g);
    }
    const CUstream home = gy_batch_home(g->streams);
    struct gy_graph_place *into = place;
    gantry_status status = GANTRY_OK;
    gy_slot_args_place(&g->batch);
    if (into != NULL && into->loop != NULL) {
        gy_slot_args_settle(&g->batch, g->batch.count);
        status = launch_loop(g, into);
        into = status == GANTRY_OK && !into->is_loop ? NULL : into;
    }
    if (status == GANTRY_OK && (into == NULL || into->loop == NULL)) {
        status = into == NULL ? launch_nodes(g) : launch_into(g, into);
    }
    if (place != NULL && !place->is_kept) {
        *place->is_stale = true;
    }
    if (status == GANTRY_OK && (into == NULL || !into->is_kept)) {
        status = gy_copier_capture_launched(g->copier, home);
    } else if (status == GANTRY_OK) {
        gy_copier_kept_dropped(g->copier, into->kept);
        status = gy_copier_capture_kept(g->copier, home, into->kept);
    } else {
        gy_copier_capture_dropped(g->copier);
    }
    return status;
}

/* A guest's thread may have captures of the application's open, beside which no graph can be made. */
static gantry_status launch_as_guest(struct gy_graphs *g, struct gy_graph_place *into)
{
    const struct gy_relaxed relaxed = gy_relaxed_begin(g->context);
    const gantry_status status = relaxed.status == GANTRY_OK ? launch(g, into) : relaxed.status;
    const gantry_status back = gy_relaxed_end(g->context, &relaxed);
    return status == GANTRY_OK ? back : status;
}

gantry_status gy_graphs_launch(struct gy_graphs *g, struct gy_graph_place *into)
{
    return gy_guest_current != NULL ? launch_as_guest(g, into) : launch(g, into);
}

/* ---- checks -------------------------------------------------------------------------------- */

bool gy_graphs_are_valid(const struct gy_graphs *g)
{
    bool is_open = atomic_load_explicit(&g->open, memory_order_relaxed);
    return (!gy_batch_is_open(&g->streams->batch) || is_open) && gy_batch_guard_is_valid(&g->guard) &&
           g->spent_count <= GY_GRAPHS_SPENT && g->function_count < GY_GRAPHS_FUNCTIONS;
}
