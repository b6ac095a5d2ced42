/* SPDX-License-Identifier: MIT */
#include "dispatcher/submit/graphs.h"

#include "base/alloc.h"
#include "dispatcher/call/met.h"
#include "dispatcher/loop/current.h"
#include "dispatcher/order/batch_order.h"
#include "dispatcher/order/lane_order.h"
#include "dispatcher/order/step_order.h"
#include "dispatcher/submit/ends.h"
#include "dispatcher/submit/launch_batch.h"
#include "driver/apart.h"
#include "driver/places.h"
#include "driver/spent.h"

#include <assert.h>

gantry_status gy_graphs_init(struct gy_graphs *g, struct gy_context *context, struct gy_streams *streams,
                             struct gy_copier *copier, uint64_t spin_budget_ns)
{
    g->context = context;
    g->streams = streams;
    g->places_wanted = GY_PLACES_LEAST;
    g->copier = copier;
    g->size.first_calls = GY_GRAPHS_FIRST_CALLS;
    g->may_lend = context->driver->log != NULL;
    g->trusts.latest = g->trusts.functions;
    g->trusts.met_context = gy_met_context(context);
    g->trusts.notes = gy_nodes_are_possible(context->driver);
    gy_nodes_init(&g->batch, context);
    gy_nodes_init(&g->ahead, context);
    gy_side_streams_init(&g->sides, context);
    gy_player_init(&g->player, context, &g->sides);
    gy_batch_guard_init(&g->guard, context);
    gy_holds_init(&g->hold, context);
    gantry_status status = gy_kept_init(&g->kept, context, &g->sides);
    if (status != GANTRY_OK) {
        return status;
    }
    status = gy_launch_gate_init(&g->gate, spin_budget_ns);
    if (status != GANTRY_OK) {
        gy_kept_fini(&g->kept);
    }
    return status;
}

void gy_graphs_prepare(struct gy_graphs *g)
{
    if (!g->trusts.notes || gy_ends_are_asked(&g->ends) || gy_context_push(g->context) != GANTRY_OK) {
        return;
    }
    const struct gy_relaxed relaxed = gy_relaxed_begin(g->context);
    if (relaxed.status == GANTRY_OK) {
        gy_places_reserve(g->context, GY_GRAPHS_PLACES);
        gy_ends_ask(&g->ends, g->context);
        gy_apart_open(g->context);
        gy_holds_prepare(&g->hold);
        (void)gy_relaxed_end(g->context, &relaxed);
    }
    (void)gy_context_pop(g->context);
}

void gy_graphs_forget(struct gy_graphs *g)
{
    assert(g->streams->batch.state == GY_BATCH_CLOSED && g->guard.state == GY_GUARD_CLOSED);
    gy_nodes_drop_stream(&g->batch);
    gy_nodes_drop_stream(&g->ahead);
    gy_player_fini(&g->player);
    gy_player_init(&g->player, g->context, &g->sides);
    gy_side_streams_fini(&g->sides);
    gy_side_streams_init(&g->sides, g->context);
    gy_batch_guard_forget(&g->guard);
    gy_holds_forget(&g->hold);
    g->choice = (struct gy_choice){.slow_ns = g->choice.slow_ns};
    gy_kept_drop_all(&g->kept);
    assert(gy_graphs_are_valid(g));
}

void gy_graphs_fini(struct gy_graphs *g)
{
    gy_batch_guard_forget(&g->guard);
    gy_holds_forget(&g->hold);
    gy_kept_fini(&g->kept);
    gy_nodes_fini(&g->batch);
    gy_nodes_fini(&g->ahead);
    gy_player_fini(&g->player);
    gy_side_streams_fini(&g->sides);
    gy_spent_end(g->context); /* captures have ended with their streams */
    gy_apart_close(g->context);
    gy_free(g->nodes);
    gy_launch_gate_fini(&g->gate);
}

/* ---- capture ------------------------------------------------------------------------------- */

static void end_guard(struct gy_graphs *g)
{
    CUgraph empty = gy_batch_guard_end(&g->guard);
    if (empty != NULL) {
        gy_graph_spend(g->context, empty);
    }
}

gantry_status gy_graphs_begin(struct gy_graphs *g, enum gy_batch_guard_state guard, bool by_lanes,
                              enum gy_kept_plays plays)
{
    struct gy_streams *streams = g->streams;
    assert(!gy_batch_is_open(&streams->batch) && gy_graphs_are_valid(g));
    gy_launch_gate_open(&g->gate);
    gantry_status status = gy_batch_guard_begin(&g->guard, guard);
    if (status != GANTRY_OK) {
        gy_launch_gate_close(&g->gate);
        return status;
    }
    g->size.calls = 0;
    g->size.large_calls = (uint64_t)g->size.first_calls << g->size.part;
    g->rule = (struct gy_kept_rule){.plays = plays, .is_later_part = g->size.part != 0};
    gy_kept_begin(&g->kept);
    gy_nodes_clear(&g->batch);
    gy_copier_begin_capture(g->copier);
    gy_batch_begin(streams, &g->batch,
                   by_lanes && g->trusts.notes && gy_ends_are_told(&g->ends) &&
                       gy_lanes_may_wait(g->context->driver) && !streams->device_wide);
    assert(gy_graphs_are_valid(g));
    return GANTRY_OK;
}

/* End the batch, whatever happened to it.  From here on, the known order of streams must hold. */
static gantry_status leave(struct gy_graphs *g, gantry_status order)
{
    if (order != GANTRY_OK) {
        gy_context_lose(g->context, gy_error_last());
        order = gy_context_adopt_loss(g->context);
    }
    gy_launch_gate_close(&g->gate);
    assert(!gy_batch_is_open(&g->streams->batch) && gy_graphs_are_valid(g));
    return order;
}

/* Give the batch up; nothing is launched. */
static gantry_status drop(struct gy_graphs *g)
{
    end_guard(g);
    gy_copier_capture_dropped(g->copier);
    if (gy_context_is_lost(g->context)) {
        gy_batch_abandon(g->streams);
        gy_launch_gate_close(&g->gate);
        return gy_context_adopt_loss(g->context);
    }
    return leave(g, gy_batch_dropped(g->streams));
}

static bool is_quiet(const struct gy_streams *streams)
{
    const struct gy_driver *driver = streams->context->driver;
    bool is_quiet = true;
    for (uint32_t i = 0; i < streams->count && is_quiet; i++) {
        is_quiet = driver->cuStreamQuery(streams->streams[i].native) == CUDA_SUCCESS;
    }
    return is_quiet;
}

/* Few places are left: take more ahead, if the device has done all that was launched.  A guest's thread may
 * have captures of the application's open. */
static GY_COLD void take_places(struct gy_graphs *g)
{
    const struct gy_relaxed relaxed = gy_relaxed_begin(g->context);
    if (relaxed.status == GANTRY_OK) {
        if (is_quiet(g->streams)) {
            gy_places_reserve(g->context, g->places_wanted + GY_PLACES_MORE);
            g->places_wanted = GY_PLACES_LEAST;
        }
        (void)gy_relaxed_end(g->context, &relaxed);
    }
}

gantry_status gy_graphs_end(struct gy_graphs *g, struct gy_unit *unit, CUcontext where)
{
    struct gy_streams *streams = g->streams;
    assert(gy_batch_is_open(&streams->batch) && gy_graphs_are_valid(g));
    const bool is_empty = g->batch.count == 0 && unit == NULL;
    if (is_empty || streams->batch.members == 0 || gy_context_is_lost(g->context)) {
        return drop(g);
    }
    end_guard(g);
    if (__builtin_expect(gy_places_left(g->context->places) < g->places_wanted, 0)) {
        take_places(g);
    }
    gy_lane_order_note_ends(streams);
    gantry_status status = gy_lane_order_leave_home(streams);
    status = status == GANTRY_OK ? gy_step_order_fence_graph(streams) : status;
    status = status == GANTRY_OK ? gy_graphs_launch(g, unit, where) : status;
    if (status != GANTRY_OK) {
        /* The tasks were released.  Their work is gone, and their callbacks must not be called again. */
        gy_context_lose(g->context, gy_error_last());
        return drop(g);
    }
    return leave(g, gy_batch_launched(streams));
}
