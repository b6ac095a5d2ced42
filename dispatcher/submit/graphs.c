#include "dispatcher/submit/graphs.h"

#include "base/alloc.h"
#include "base/waiter.h"
#include "dispatcher/call/met.h"
#include "dispatcher/loop/current.h"
#include "dispatcher/order/batch_order.h"
#include "dispatcher/order/lane_order.h"
#include "dispatcher/order/step_order.h"
#include "dispatcher/submit/ends.h"
#include "dispatcher/submit/launch_batch.h"
#include "driver/apart.h"
#include "driver/places.h"

#include <assert.h>
#include <string.h>

gantry_status gy_graphs_init(struct gy_graphs *g, struct gy_context *context, struct gy_streams *streams,
                             struct gy_copier *copier, uint64_t spin_budget_ns)
{
    g->context = context;
    g->streams = streams;
    g->places_wanted = GY_PLACES_LEAST;
    g->copier = copier;
    g->spin_budget_ns = spin_budget_ns;
    g->first_calls = GY_GRAPHS_FIRST_CALLS;
    g->may_lend = context->driver->log != NULL;
    g->met_context = gy_met_context(context);
    g->notes = gy_nodes_are_possible(context->driver);
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
    status = gy_guard_init(&g->lock, GY_RANK_LEAF, &g->launched);
    if (status != GANTRY_OK) {
        gy_kept_fini(&g->kept);
    }
    return status;
}

void gy_graphs_prepare(struct gy_graphs *g)
{
    if (!g->notes || gy_ends_are_asked(&g->ends) || gy_context_push(g->context) != GANTRY_OK) {
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

static void destroy_made(struct gy_graphs *g)
{
    const struct gy_driver *driver = g->context->driver;
    for (int i = 0; i < GY_GRAPHS_CACHED; i++) {
        gy_exec_drop(g->context, &g->cache[i].exec);
    }
    for (uint32_t i = 0; i < g->spent_count; i++) {
        (void)driver->cuGraphDestroy(g->spent[i]);
    }
    gy_batch_guard_forget(&g->guard);
    gy_holds_forget(&g->hold);
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
    destroy_made(g);
    memset(g->cache, 0, sizeof(g->cache));
    g->choice = (struct gy_choice){.slow_ns = g->choice.slow_ns};
    g->spent_count = 0;
    gy_kept_drop_all(&g->kept);
    assert(gy_graphs_are_valid(g));
}

void gy_graphs_fini(struct gy_graphs *g)
{
    destroy_made(g);
    gy_kept_fini(&g->kept);
    gy_exec_drop_refused(g->context);
    gy_nodes_fini(&g->batch);
    gy_nodes_fini(&g->ahead);
    gy_player_fini(&g->player);
    gy_side_streams_fini(&g->sides);
    gy_apart_close(g->context);
    gy_free(g->nodes);
    gy_guard_fini(&g->lock, &g->launched);
}

void gy_graphs_close_gate(struct gy_graphs *g)
{
    gy_mutex_lock(&g->lock);
    atomic_fetch_add_explicit(&g->closes, 1, memory_order_release);
    atomic_store_explicit(&g->open, false, memory_order_release);
    gy_cond_broadcast(&g->launched);
    gy_mutex_unlock(&g->lock);
}

/* Has the capture ended that was under way when `closes` was `seen`? */
static bool was_closed(const struct gy_graphs *g, uint64_t seen)
{
    return !atomic_load_explicit(&g->open, memory_order_acquire) ||
           atomic_load_explicit(&g->closes, memory_order_acquire) != seen;
}

/* Is work of the manager in the batch?  Its work in earlier ones was launched. */
static bool holds_of(const struct gy_graphs *g, const struct gantry_taskman *manager)
{
    const struct gantry_taskman *holds = atomic_load_explicit(&g->holds, memory_order_relaxed);
    return holds == manager || holds == GY_GRAPHS_SEVERAL;
}

void gy_graphs_wait_launched(struct gy_graphs *g, const struct gantry_taskman *manager)
{
    uint64_t seen = atomic_load_explicit(&g->closes, memory_order_acquire);
    if (!atomic_load_explicit(&g->open, memory_order_acquire) || !holds_of(g, manager)) {
        return;
    }
    struct gy_waiter waiter = gy_waiter_begin(GANTRY_WAIT_HYBRID, g->spin_budget_ns, 0);
    atomic_fetch_add_explicit(&g->waiting, 1, memory_order_relaxed);
    while (!was_closed(g, seen)) {
        if (gy_waiter_pause(&waiter) == GY_WAITER_SLEEP) {
            gy_mutex_lock(&g->lock);
            while (!was_closed(g, seen)) {
                gy_cond_wait(&g->launched, &g->lock);
            }
            gy_mutex_unlock(&g->lock);
        }
    }
    atomic_fetch_sub_explicit(&g->waiting, 1, memory_order_relaxed);
}

void gy_graphs_pause(struct gy_graphs *g)
{
    atomic_fetch_add_explicit(&g->waiting, 1, memory_order_relaxed);
    gy_mutex_lock(&g->lock);
    g->pauses++; /* this comes first, so that no capture begins between the end of this one and our waking up
                  */
    while (g->open) {
        gy_cond_wait(&g->launched, &g->lock);
    }
    gy_mutex_unlock(&g->lock);
    atomic_fetch_sub_explicit(&g->waiting, 1, memory_order_relaxed);
}

void gy_graphs_resume(struct gy_graphs *g)
{
    gy_mutex_lock(&g->lock);
    g->pauses--;
    gy_cond_broadcast(&g->launched);
    gy_mutex_unlock(&g->lock);
}

void gy_graphs_open_gate(struct gy_graphs *g)
{
    gy_mutex_lock(&g->lock);
    while (g->pauses != 0) {
        gy_cond_wait(&g->launched, &g->lock);
    }
    atomic_store_explicit(&g->holds, NULL, memory_order_relaxed);
    g->open = true;
    gy_mutex_unlock(&g->lock);
}

/* ---- capture ------------------------------------------------------------------------------- */

static void end_guard(struct gy_graphs *g)
{
    CUgraph empty = gy_batch_guard_end(&g->guard);
    if (empty != NULL) {
        gy_graphs_spend(g, empty);
    }
}

gantry_status gy_graphs_begin(struct gy_graphs *g, enum gy_batch_guard_state guard, bool by_lanes)
{
    struct gy_streams *streams = g->streams;
    assert(!gy_batch_is_open(&streams->batch) && gy_graphs_are_valid(g));
    gy_graphs_open_gate(g);
    gantry_status status = gy_batch_guard_begin(&g->guard, guard);
    if (status != GANTRY_OK) {
        gy_graphs_close_gate(g);
        return status;
    }
    g->calls = 0;
    g->large_calls = (uint64_t)g->first_calls << g->part;
    gy_kept_begin(&g->kept, g->part != 0);
    gy_nodes_clear(&g->batch);
    gy_copier_begin_capture(g->copier);
    gy_batch_begin(streams, &g->batch,
                   by_lanes && g->notes && gy_ends_are_told(&g->ends) &&
                       gy_lanes_may_wait(g->context->driver) && !streams->device_wide);
    assert(gy_graphs_are_valid(g));
    return GANTRY_OK;
}

void gy_graphs_begin_ahead(struct gy_graphs *g, CUstream stream)
{
    gy_nodes_clear(&g->ahead);
    g->ahead_lane = gy_lane_of(stream, GY_FORM_FIXED);
    g->ahead_lane.nodes = &g->ahead;
}

/* End the batch, whatever happened to it.  From here on, the known order of streams must hold. */
static gantry_status leave(struct gy_graphs *g, gantry_status order)
{
    if (order != GANTRY_OK) {
        gy_context_lose(g->context, gy_error_last());
        order = gy_context_adopt_loss(g->context);
    }
    gy_graphs_close_gate(g);
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
        gy_graphs_close_gate(g);
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

static gantry_status end_into(struct gy_graphs *g, struct gy_graph_place *into)
{
    struct gy_streams *streams = g->streams;
    assert(gy_batch_is_open(&streams->batch) && gy_graphs_are_valid(g));
    const bool is_empty = g->batch.count == 0 && into == NULL;
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
    status = status == GANTRY_OK ? gy_graphs_launch(g, into) : status;
    if (status != GANTRY_OK) {
        /* The tasks were released.  Their work is gone, and their callbacks must not be called again. */
        gy_context_lose(g->context, gy_error_last());
        return drop(g);
    }
    return leave(g, gy_batch_launched(streams));
}

gantry_status gy_graphs_end(struct gy_graphs *g)
{
    return end_into(g, NULL);
}

gantry_status gy_graphs_end_into(struct gy_graphs *g, struct gy_graph_place *into)
{
    return end_into(g, into);
}

/* ---- callbacks ----------------------------------------------------------------------------- */

static uint32_t place_of(const struct gy_graphs *g, gantry_launch_fn function)
{
    uint32_t i = (uint32_t)(((uint64_t)(uintptr_t)function * UINT64_C(0x9e3779b97f4a7c15)) >> 56);
    while (g->functions[i].function != NULL && g->functions[i].function != function) {
        i = (i + 1) % GY_GRAPHS_FUNCTIONS;
    }
    return i;
}

static void set_latest(struct gy_graphs *g, gantry_launch_fn function, enum gy_trust trust)
{
    g->latest = (struct gy_graph_function){.function = function, .trust = trust};
    g->latest_ours = trust == GY_TRUST_OURS ? function : NULL;
}

enum gy_trust gy_graphs_find_trust(struct gy_graphs *g, gantry_launch_fn function)
{
    const uint32_t i = place_of(g, function);
    if (g->functions[i].function == NULL && g->function_count == GY_GRAPHS_FUNCTIONS - 1) {
        return GY_TRUST_NO; /* there is no room to remember it */
    }
    set_latest(g, function, g->functions[i].trust);
    return g->latest.trust;
}

void gy_graphs_set_trust(struct gy_graphs *g, gantry_launch_fn function, enum gy_trust trust)
{
    assert(gy_graphs_are_valid(g));
    if (trust == GY_TRUST_OURS) {
        gy_met_add(function, g->met_context);
    }
    trust = trust == GY_TRUST_OURS && !g->notes ? GY_TRUST_RAW : trust;
    uint32_t i = place_of(g, function);
    if (g->functions[i].function == NULL) {
        if (g->function_count == GY_GRAPHS_FUNCTIONS - 1) {
            return;
        }
        g->functions[i].function = function;
        g->function_count++;
    }
    g->functions[i].trust = trust;
    set_latest(g, function, trust);
    assert(gy_graphs_are_valid(g));
}

bool gy_graphs_may_meet(const struct gy_graphs *g, gantry_launch_fn function, uint64_t batch)
{
    const struct gy_graph_function *f = &g->functions[place_of(g, function)];
    return f->function == NULL || f->waits_of != batch || f->waits < GY_GRAPHS_WAITS;
}

bool gy_graphs_note_wait(struct gy_graphs *g, gantry_launch_fn function, uint64_t batch)
{
    gy_graphs_set_trust(g, function, GY_TRUST_UNKNOWN);
    struct gy_graph_function *f = &g->functions[place_of(g, function)];
    if (f->function == NULL) {
        return false;
    }
    if (f->waits_of != batch) {
        f->waits_of = batch;
        f->waits = 0;
        f->waiting_batches++;
    }
    f->waits++;
    const bool is_enough = f->waiting_batches >= GY_GRAPHS_WAITS;
    if (is_enough) {
        gy_graphs_set_trust(g, function, GY_TRUST_NO);
    }
    return is_enough;
}

bool gy_graphs_adopt_met(struct gy_graphs *g, gantry_launch_fn function)
{
    const bool is_met = gy_met_has(function, g->met_context);
    if (is_met) {
        gy_graphs_set_trust(g, function, GY_TRUST_OURS);
    }
    return is_met;
}

void gy_graphs_tell_child(struct gy_graphs *g, gantry_launch_fn function, const char *label)
{
    struct gy_graph_function *f = &g->functions[place_of(g, function)];
    if (f->function != NULL && !f->is_told) {
        f->is_told = true;
        gy_log(GANTRY_LOG_INFO,
               "task '%s' enqueues on its stream itself: graphs with work of its function are not patched",
               label);
    }
}
