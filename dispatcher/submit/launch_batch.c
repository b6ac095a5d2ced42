/* SPDX-License-Identifier: MIT */
#include "dispatcher/submit/launch_batch.h"

#include "base/point.h"
#include "dispatcher/loop/current.h"
#include "dispatcher/order/batch_order.h"
#include "dispatcher/order/tails.h"
#include "dispatcher/submit/device_loop.h"
#include "dispatcher/submit/plan.h"
#include "driver/spent.h"

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
    gy_spent_sweep(g->context);
    assert(gy_graphs_are_valid(g));
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

/* The work was launched. */
static gantry_status count_launch(struct gy_graphs *g, const struct work *work, gantry_status status)
{
    if (status == GANTRY_OK) {
        gy_nodes_give_events(work->nodes, work->count);
        atomic_fetch_add_explicit(&g->counts.launches, 1, memory_order_relaxed);
        atomic_fetch_add_explicit(&g->counts.launched_nodes, gy_nodes_count_work(work->nodes, work->count),
                                  memory_order_relaxed);
    }
    return status;
}

/* Make a graph of the work and launch it, by `into`; NULL: an executable graph that the store has.  It runs
 * once at a time.  Parts and pieces of one batch look alike, and so do batches of managers that do the same,
 * but they shall run at the same time: then they have different homes. */
static gantry_status make_and_launch(struct gy_graphs *g, const struct work *work, struct gy_exec *into)
{
    const uint64_t seed =
        (uint64_t)g->streams->batch.home << 32 | (uint64_t)work->piece << 16 | (g->size.part & UINT16_MAX);
    gantry_status status = gy_kept_refresh(&g->kept, work->nodes, work->count, seed, &into);
    status = status == GANTRY_OK ? GY_CALL(g->context, cuGraphLaunch(into->native, work->stream)) : status;
    return count_launch(g, work, status);
}

/* Make an executable graph of the nodes that is a loop with them as its body.  What the driver refuses is no
 * loop.  All of it is of one partition, so the priority of the stream is that of the nodes.  The graph stays
 * while its executable form does: it owns the condition. */
static gantry_status make_loop(struct gy_graphs *g, const struct gy_device_loop *loop, CUcontext where,
                               struct gy_exec *out)
{
    const struct gy_while_made made = {&loop->list->pool, loop->record, loop->word, where};
    *out = (struct gy_exec){.shape = gy_exec_shape_of(&g->batch)};
    gantry_status status = gy_while_make(&g->batch, &made, &out->graph);
    status = status == GANTRY_OK ? gy_exec_make(g->context, out, GY_EXEC_OF_STREAM) : status;
    if (status != GANTRY_OK) {
        gy_exec_drop(g->context, out);
    }
    return status;
}

/* Launch the nodes as a loop; recorded.is_loop false: they are none, and nothing was launched. */
static gantry_status launch_loop(struct gy_graphs *g, struct gy_unit *unit, CUcontext where)
{
    struct gy_exec exec;
    gantry_status status = make_loop(g, unit->loop, where, &exec);
    if (status != GANTRY_OK) {
        return gy_context_is_lost(g->context) ? status : GANTRY_OK;
    }
    gy_exec_drop(g->context, &unit->recorded.exec);
    unit->recorded.exec = exec;
    gy_kept_note_made(&g->kept);
    gy_device_loop_enter(unit->loop);
    const struct work work = whole_of(g, g->batch.count);
    status = count_launch(g, &work, GY_CALL(g->context, cuGraphLaunch(exec.native, work.stream)));
    if (status != GANTRY_OK) {
        gy_device_loop_abandon(unit->loop);
        return gy_context_is_lost(g->context) ? status : GANTRY_OK;
    }
    unit->recorded.is_loop = true;
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
        atomic_fetch_add_explicit(&g->counts.plays, 1, memory_order_relaxed);
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
static gantry_status launch_some(struct gy_graphs *g, struct gy_kept_rule rule, uint32_t *count)
{
    struct gy_kept *kept;
    bool is_played;
    gantry_status status = gy_kept_take(&g->kept, &g->batch, rule, count, &kept, &is_played);
    const struct work work = whole_of(g, *count);
    const bool shall_play = status == GANTRY_OK && kept == NULL && (is_played || lacks_places(g, &work));
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
    struct gy_kept_rule rule = g->rule;
    gantry_status status = GANTRY_OK;
    uint32_t left = g->batch.count;
    while (left != 0 && status == GANTRY_OK) {
        uint32_t first = left;
        status = launch_some(g, rule, &first);
        left -= first;
        if (left != 0 && status == GANTRY_OK) {
            gy_kept_drop_first(&g->kept, &g->batch, first);
            rule = (struct gy_kept_rule){.plays = GY_PLAYS_NOTHING, .is_rest = true};
        }
    }
    return status;
}

static gantry_status launch_piece(struct gy_graphs *g, uint32_t piece, CUstream stream)
{
    struct gy_nodes *nodes = &g->kept.pieces.of[piece];
    const struct work work = {nodes, nodes->count, stream, piece};
    struct gy_kept *kept;
    gantry_status status = gy_kept_take_piece(&g->kept, piece, g->rule, &kept);
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
    const uint32_t pieces = gy_kept_pieces(&g->kept, &g->batch, g->rule);
    return __builtin_expect(pieces == 0, 1) ? launch_whole(g) : launch_pieces(g, pieces);
}

/* Launch all nodes, and have the unit keep the executable graph.  What was to be a loop and is none is
 * launched like any other, and not kept. */
static gantry_status launch_into(struct gy_graphs *g, struct gy_unit *unit, CUcontext where, bool *is_kept)
{
    gantry_status status;
    if (unit->loop != NULL) {
        gy_slot_args_settle(&g->batch, g->batch.count);
        status = launch_loop(g, unit, where);
        *is_kept = unit->recorded.is_loop;
        return status == GANTRY_OK && !*is_kept ? launch_nodes(g) : status;
    }
    const struct work work = whole_of(g, g->batch.count);
    status = make_and_launch(g, &work, &unit->recorded.exec);
    *is_kept = status == GANTRY_OK;
    return *is_kept ? status : play_refused(g, &work, status);
}

/* Path of a task, step 7 of 9: what was noted of its batch reaches the device. */
static gantry_status launch(struct gy_graphs *g, struct gy_unit *unit, CUcontext where)
{
    if (g->batch.count != 0) {
        gy_point(GY_POINT_PATH_7, g);
    }
    const CUstream home = gy_batch_home(g->streams);
    bool is_kept = false;
    gy_slot_args_place(&g->batch);
    gantry_status status = unit == NULL ? launch_nodes(g) : launch_into(g, unit, where, &is_kept);
    if (unit != NULL) {
        unit->recorded.is_stale |= !is_kept;
    }
    if (status != GANTRY_OK) {
        gy_copier_capture_dropped(g->copier);
    } else if (!is_kept) {
        status = gy_copier_capture_launched(g->copier, home);
    } else {
        gy_copier_kept_dropped(g->copier, &unit->recorded.kept);
        status = gy_copier_capture_kept(g->copier, home, &unit->recorded.kept);
    }
    return status;
}

/* A guest's thread may have captures of the application's open, beside which no graph can be made. */
static gantry_status launch_as_guest(struct gy_graphs *g, struct gy_unit *unit, CUcontext where)
{
    const struct gy_relaxed relaxed = gy_relaxed_begin(g->context);
    const gantry_status status = relaxed.status == GANTRY_OK ? launch(g, unit, where) : relaxed.status;
    const gantry_status back = gy_relaxed_end(g->context, &relaxed);
    return status == GANTRY_OK ? back : status;
}

gantry_status gy_graphs_launch(struct gy_graphs *g, struct gy_unit *unit, CUcontext where)
{
    return gy_guest_current != NULL ? launch_as_guest(g, unit, where) : launch(g, unit, where);
}

/* ---- checks -------------------------------------------------------------------------------- */

bool gy_graphs_are_valid(const struct gy_graphs *g)
{
    bool is_open = atomic_load_explicit(&g->gate.open, memory_order_relaxed);
    return (!gy_batch_is_open(&g->streams->batch) || is_open) && gy_batch_guard_is_valid(&g->guard) &&
           g->trusts.count < GY_TRUSTS_FUNCTIONS;
}
