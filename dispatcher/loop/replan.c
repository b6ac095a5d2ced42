/* SPDX-License-Identifier: MIT */
#include "dispatcher/loop/replan.h"

#include "base/clock.h"
#include "base/point.h"
#include "base/span.h"
#include "base/times.h"
#include "dispatcher/internal.h"
#include "dispatcher/submit/round.h"
#include "profile/gpu_time.h"

#include <assert.h>
#include <string.h>

static gy_mutex users_lock = {PTHREAD_MUTEX_INITIALIZER,
                              GY_RANK_USERS}; /* of all lists; held while a change is made */

/* ---- states ------------------------------------------------------------------------------------ */

bool gy_replan_is_valid(const struct gd_replan *replan)
{
    return (atomic_load_explicit(&replan->state, memory_order_relaxed) == GY_REPLAN_ASKED) ==
           (replan->next != NULL);
}

/* The only writer of the state. */
static void replan_enter(struct gd_replan *r, enum gy_replan_state state, struct gy_replan *next)
    GY_REQUIRES(r->lock)
{
    r->next = next;
    atomic_store(&r->state, state);
    gy_cond_broadcast(&r->changed);
    assert(gy_replan_is_valid(r));
}

gantry_status gy_replan_init(struct gd_replan *replan)
{
    return gy_guard_init(&replan->lock, GY_RANK_LEAF, &replan->changed);
}

void gy_replan_fini(struct gd_replan *replan)
{
    gy_guard_fini(&replan->lock, &replan->changed);
}

/* ---- who keeps out ------------------------------------------------------------------------------- */

bool gy_replan_is_still(const struct gantry_dispatcher *d)
{
    return atomic_load(&d->replan.state) == GY_REPLAN_STILL;
}

/* Either the thread that begins a change sees the call, or we see the change. */
bool gy_replan_try_begin(struct gantry_dispatcher *d)
{
    atomic_fetch_add(&d->replan.calls, 1);
    if (gy_replan_is_still(d)) {
        return true;
    }
    gy_replan_call_end(d);
    return false;
}

gantry_status gy_replan_call_begin(struct gantry_dispatcher *d, const char *call)
{
    return gy_replan_try_begin(d)
               ? GANTRY_OK
               : GY_FAIL(GANTRY_ERR_STATE, "%s: another thread gives the context another plan of partitions",
                         call);
}

void gy_replan_call_end(struct gantry_dispatcher *d)
{
    atomic_fetch_sub(&d->replan.calls, 1);
}

struct gy_completion_counts gy_replan_count_completions(struct gantry_dispatcher *d)
{
    gy_mutex_lock(&d->replan.lock);
    const struct gy_completion_counts counts = gy_rings_counts(&d->completion);
    gy_mutex_unlock(&d->replan.lock);
    return counts;
}

void gy_users_add(struct gy_gpu_user **list, struct gy_gpu_user *user)
{
    gy_mutex_lock(&users_lock);
    user->next = *list;
    user->place = list;
    if (user->next != NULL) {
        user->next->place = &user->next;
    }
    *list = user;
    gy_mutex_unlock(&users_lock);
}

void gy_users_remove(struct gy_gpu_user *user)
{
    gy_mutex_lock(&users_lock);
    *user->place = user->next;
    if (user->next != NULL) {
        user->next->place = user->place;
    }
    gy_mutex_unlock(&users_lock);
}

/* ---- begin, end ------------------------------------------------------------------------------------ */

/* Some step is open: say which manager's. */
static gantry_status refuse_running(struct gantry_dispatcher *d, const char *call)
{
    struct gy_gpu_user *const lists[] = {d->users.managers,
                                         d->member.fleet != NULL ? *d->member.managers : NULL};
    for (int l = 0; l < 2; l++) {
        for (struct gy_gpu_user *user = lists[l]; user != NULL; user = user->next) {
            gantry_status status = gy_gpu_user_check_still(user, call);
            if (status != GANTRY_OK) {
                return status;
            }
        }
    }
    return GY_FAIL(GANTRY_ERR_STATE, "%s: a step of a task manager is beginning, or is being stopped", call);
}

static gantry_status claim(struct gantry_dispatcher *d, const char *call)
{
    gy_mutex_lock(&d->replan.lock);
    const bool mine = gy_replan_is_still(d);
    if (mine) {
        replan_enter(&d->replan, GY_REPLAN_CHANGING, NULL);
    }
    gy_mutex_unlock(&d->replan.lock);
    return mine
               ? GANTRY_OK
               : GY_FAIL(GANTRY_ERR_STATE, "%s: another thread gives the context another plan already", call);
}

/* No more calls get in; each ends by itself, since the GPU's work does that it may wait for. */
static void await_calls(struct gantry_dispatcher *d)
{
    gy_mutex_lock(&d->replan.lock);
    while (atomic_load(&d->replan.calls) != 0) {
        (void)gy_cond_wait_until(&d->replan.changed, &d->replan.lock, gy_clock_ns() + GY_REPLAN_LOOK_NS);
    }
    gy_mutex_unlock(&d->replan.lock);
}

gantry_status gy_replan_begin(struct gantry_dispatcher *d, const char *call)
{
    gantry_status status = claim(d, call);
    if (status != GANTRY_OK) {
        return status;
    }
    if (atomic_load(&d->told.open_steps) != 0) {
        gy_mutex_lock(&users_lock);
        status = refuse_running(d, call);
        gy_mutex_unlock(&users_lock);
    } else if (gy_context_is_lost(d->config.context)) {
        status = gy_context_adopt_loss(d->config.context);
    }
    if (status != GANTRY_OK) {
        gy_replan_end(d);
        return status;
    }
    await_calls(d);
    return GANTRY_OK;
}

void gy_replan_end(struct gantry_dispatcher *d)
{
    gy_mutex_lock(&d->replan.lock);
    replan_enter(&d->replan, GY_REPLAN_STILL, NULL);
    gy_mutex_unlock(&d->replan.lock);
}

/* ---- what is made beside what is in force -------------------------------------------------------- */

static struct gy_gpu_moves find_moves(const struct gy_partitions *from, const struct gy_partitions *to,
                                      uint32_t device)
{
    struct gy_gpu_moves moves = {.device = device};
    for (uint32_t i = 0; i < from->count; i++) {
        moves.names[i + 1] = from->partitions[i].info.name;
        for (uint32_t j = 0; j < to->count; j++) {
            if (strcmp(from->partitions[i].info.name, to->partitions[j].info.name) == 0) {
                moves.to[i + 1] = (uint8_t)(j + 1);
            }
        }
    }
    return moves;
}

typedef gantry_status (*user_fn)(struct gy_gpu_user *user, const struct gy_gpu_moves *moves);

/* Each manager, with the moves as it numbers devices. */
static gantry_status each_user(struct gantry_dispatcher *d, const struct gy_partitions *to, user_fn visit)
{
    const struct gy_gpu_moves own = find_moves(d->config.partitions, to, 0);
    gantry_status status = GANTRY_OK;
    for (struct gy_gpu_user *user = d->users.managers; user != NULL && status == GANTRY_OK;
         user = user->next) {
        status = visit(user, &own);
    }
    struct gy_gpu_user *first = d->member.fleet != NULL ? *d->member.managers : NULL;
    const struct gy_gpu_moves theirs = find_moves(d->config.partitions, to, d->streams.device);
    for (struct gy_gpu_user *user = first; user != NULL && status == GANTRY_OK; user = user->next) {
        status = visit(user, &theirs);
    }
    return status;
}

/* Before the tasks go elsewhere: what is left of their managers' steps is over. */
static gantry_status move_user(struct gy_gpu_user *user, const struct gy_gpu_moves *moves)
{
    struct gy_gpu_order *order = gy_gpu_user_order(user);
    gy_gpu_user_move(user, moves);
    if (order != NULL) {
        gy_step_order_forget(order->members != NULL ? order->members[moves->device] : order);
    }
    return GANTRY_OK;
}

static gantry_status prepare(struct gantry_dispatcher *d, struct gy_replan *next)
{
    const struct gy_completion_config rings = gy_gd_rings_config(d);
    gantry_status status = each_user(d, next->partitions, gy_gpu_user_check_moves);
    if (status == GANTRY_OK) {
        status = gy_shares_prepare(&d->shares, next->partitions, &next->shares);
    }
    if (status != GANTRY_OK) {
        return status;
    }
    status = gy_rings_init(&next->rings, &rings, next->partitions);
    if (status != GANTRY_OK) {
        gy_shares_discard(&d->shares, &next->shares);
    }
    return status;
}

static gantry_status check_users(struct gantry_dispatcher *d, const struct gy_partitions *partitions)
{
    gy_mutex_lock(&users_lock);
    gantry_status status = each_user(d, partitions, gy_gpu_user_check_moves);
    gy_mutex_unlock(&users_lock);
    return status;
}

/* The GPU has nothing left of what was enqueued on streams of the partitions in force. */
static gantry_status drain(struct gantry_dispatcher *d)
{
    struct gy_context *context = d->config.context;
    gantry_status status = GANTRY_OK;
    const uint32_t count = atomic_load_explicit(&d->streams.created, memory_order_acquire);
    for (uint32_t i = 0; i < count && status == GANTRY_OK; i++) {
        status = GY_CALL(context, cuStreamSynchronize(d->streams.streams[i].native));
    }
    if (status == GANTRY_OK) { /* large blocks may have been freed on these streams, without an event */
        status = gantry_heap_settle(d->config.heap);
    }
    if (status == GANTRY_OK) {
        status = gy_partitions_await(d->config.partitions);
    }
    return status;
}

/* ---- the change ---------------------------------------------------------------------------------- */

static void ask(struct gantry_dispatcher *d, struct gy_replan *next)
{
    struct gd_replan *r = &d->replan;
    gy_mutex_lock(&r->lock);
    replan_enter(r, GY_REPLAN_ASKED, next);
    gy_mutex_unlock(&r->lock);
    gy_inbox_signal(&d->inbox);
    gy_mutex_lock(&r->lock);
    while (r->next != NULL) {
        gy_cond_wait(&r->changed, &r->lock);
    }
    gy_mutex_unlock(&r->lock);
}

gantry_status gy_replan_change(struct gantry_dispatcher *d, struct gy_partitions *partitions)
{
    assert(!gy_replan_is_still(d));
    struct gy_replan next = {.partitions = partitions};
    gantry_status status = check_users(d, partitions);
    if (status == GANTRY_OK) { /* this may take long, and is no time to hold up other managers */
        status = drain(d);
    }
    if (status != GANTRY_OK) {
        return status;
    }
    gy_mutex_lock(&users_lock);
    status = prepare(d, &next);
    if (status == GANTRY_OK) {
        ask(d, &next);
    }
    gy_mutex_unlock(&users_lock);
    return status;
}

/* Threads that read the statistics look at any time. */
static void swap_rings(struct gantry_dispatcher *d, const struct gy_completion_rings *next)
{
    struct gy_completion_rings before = d->completion;
    gy_mutex_lock(&d->replan.lock);
    d->completion = *next;
    d->completion.gone = gy_rings_counts(&before);
    gy_mutex_unlock(&d->replan.lock);
    gy_rings_free(&before);
}

/* Nothing of the GPU's or the host's work is under way, and nobody else looks at partitions. */
void gy_replan_put(struct gantry_dispatcher *d)
{
    struct gd_replan *r = &d->replan;
    struct gy_replan *next = r->next; /* ours to read while it is ASKED */
    assert(gy_replan_is_asked(r) && d->loop.guest == NULL && d->units.due == NULL &&
           d->loop.local.first == NULL);
    const uint64_t begin = gy_span_begin();
    gy_gd_flush(d); /* intervals and completions that nobody has handed over yet */
    gy_rings_close(&d->completion);
    for (uint32_t i = 0; i < d->streams.room; i++) {
        (void)gy_deferred_collect(&d->deferred, i, true);
    }
    gy_shares_adopt(&d->shares, &next->shares);
    gy_gpu_time_move(d->config.time);
    (void)each_user(d, next->partitions, move_user);
    gy_plan_list_forget(&d->plans);
    gy_streams_renew(&d->streams, next->partitions);
    gy_graphs_forget(&d->graphs); /* a graph that a stream could not leave goes after the stream */
    swap_rings(d, &next->rings);
    d->config.partitions = next->partitions;
    d->watch = (struct gd_watch){.deferred = atomic_load(&d->deferred.deferred)};
    gy_partitions_enter(next->partitions);
    gy_span_end(GY_SPAN_BATCH, "another plan of partitions", begin, next->partitions->count);
    gy_mutex_lock(&r->lock);
    replan_enter(r, GY_REPLAN_CHANGING, NULL);
    gy_mutex_unlock(&r->lock);
}
