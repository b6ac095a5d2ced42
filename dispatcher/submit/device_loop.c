/* SPDX-License-Identifier: MIT */
#include "dispatcher/submit/device_loop.h"

#include "base/alloc.h"
#include "base/checking.h"
#include "base/span.h"
#include "dispatcher/internal.h"
#include "dispatcher/submit/plan.h"

#include <assert.h>

/* ---- all loops of a dispatcher ---------------------------------------------------------------- */

void gy_device_loops_init(struct gy_device_loops *loops, struct gy_context *context)
{
    gy_while_pool_init(&loops->pool, context);
    gy_mutex_init(&loops->lock, GY_RANK_LEAF);
    loops->first = NULL;
}

void gy_device_loops_fini(struct gy_device_loops *loops)
{
    gy_mutex_lock(&loops->lock);
    struct gy_device_loop *first = loops->first;
    loops->first = NULL;
    gy_mutex_unlock(&loops->lock);
    for (struct gy_device_loop *loop = first; loop != NULL; loop = loop->after) {
        gy_while_put(&loops->pool, loop->record);
        loop->record = NULL;
        loop->list = NULL;
    }
    gy_while_pool_fini(&loops->pool);
    gy_mutex_fini(&loops->lock);
}

void gy_device_loops_cancel(struct gy_device_loops *loops)
{
    gy_while_cancel_all(&loops->pool);
}

/* ---- a loop ----------------------------------------------------------------------------------- */

/* The device may be in it still: then its record waits in the pool until it is not. */
static void drop(struct gy_gpu_loop *self)
{
    struct gy_device_loop *loop = (struct gy_device_loop *)(void *)self;
    struct gy_device_loops *list = loop->list;
    if (list != NULL) {
        gy_mutex_lock(&list->lock);
        *loop->place = loop->after;
        if (loop->after != NULL) {
            loop->after->place = loop->place;
        }
        gy_mutex_unlock(&list->lock);
        gy_while_put(&list->pool, loop->record);
    }
    gy_free(loop);
}

/* Has the device not reached the end of what was launched? */
static bool is_on_device(const struct gy_device_loop *loop)
{
    return loop->record != NULL &&
           atomic_load(&loop->record->host->finished) != atomic_load(&loop->record->launched);
}

/* End the entries behind `after`.  True: some are on their way. */
static bool cancel(struct gy_device_loop *loop, uint32_t after)
{
    return gy_while_cancel(&loop->list->pool, loop->record, after);
}

bool gy_device_loop_end_all(struct gy_device_loop *loop)
{
    return loop->record != NULL && cancel(loop, atomic_load(&loop->record->host->finished));
}

/* The device may still be in it for runs before this one, whose results count.  What this run launches after
 * this is ended by gy_device_loop_enter(), which looks the other way round. */
static bool cancel_run(struct gy_gpu_loop *self, uint64_t run)
{
    struct gy_device_loop *loop = (struct gy_device_loop *)(void *)self;
    return loop->record != NULL && atomic_load(&loop->run) == run &&
           cancel(loop, atomic_load(&loop->run_entry));
}

/* A loop that the CPU decides about was cut short, by a failure or since its run was cancelled. */
static void end_run(struct gy_gpu_loop *self)
{
    struct gy_device_loop *loop = (struct gy_device_loop *)(void *)self;
    const enum gy_loop_state state = atomic_load(&loop->state);
    if (state == GY_LOOP_WITH_CPU || state == GY_LOOP_ENDING) {
        gy_device_loop_note_end(loop, atomic_load(&loop->cpu_turns), GANTRY_LOOP_CANCELLED);
    }
    while (!gy_device_loop_pass(loop, atomic_load(&loop->state), GY_LOOP_IDLE)) {
    } /* it may just be cancelled, too late */
}

void gy_device_loop_note_end(struct gy_device_loop *loop, uint32_t turns, gantry_loop_end end)
{
    atomic_store(&loop->latest_turns, turns);
    atomic_store(&loop->latest_end, (uint32_t)end);
    atomic_store(&loop->latest_entry, loop->record != NULL ? atomic_load(&loop->record->launched) : 0);
    atomic_fetch_add(&loop->cpu_loops, 1);
    atomic_store(&loop->cpu_turns, 0);
}

struct gy_device_loop *gy_device_loop_new(const gantry_taskman *manager, CUdeviceptr word, uint32_t most)
{
    struct gy_device_loop *loop = gy_zalloc(sizeof(*loop));
    if (loop != NULL) {
        loop->head.drop = drop;
        loop->head.cancel = cancel_run;
        loop->head.end_run = end_run;
        loop->manager = manager;
        loop->word = word;
        loop->most = most;
    }
    return loop;
}

gantry_status gy_device_loop_enlist(struct gy_device_loop *loop, struct gy_device_loops *list)
{
    gantry_status status = gy_while_take(&list->pool, &loop->record);
    if (status != GANTRY_OK) {
        return status;
    }
    loop->first_entry = atomic_load(&loop->record->launched);
    atomic_store(&loop->record->host->most, loop->most);
    atomic_store(&loop->record->host->turns, 0);
    gy_mutex_lock(&list->lock);
    loop->list = list;
    loop->after = list->first;
    loop->place = &list->first;
    if (loop->after != NULL) {
        loop->after->place = &loop->after;
    }
    list->first = loop;
    gy_mutex_unlock(&list->lock);
    assert(gy_device_loop_is_valid(loop));
    return GANTRY_OK;
}

/* ---- on the device ---------------------------------------------------------------------------- */

static void tell(struct gy_device_loop *loop, const char *why)
{
    if (loop->told != why) {
        loop->told = why;
        gy_log(GANTRY_LOG_INFO, "loop '%s' is decided by the CPU: %s", gantry_task_label(loop->decide), why);
    }
}

void gy_device_loop_forbid(struct gy_device_loop *loop, const char *why)
{
    if (!loop->never) {
        loop->never = true;
        tell(loop, why);
    }
}

bool gy_device_loop_pass(struct gy_device_loop *loop, enum gy_loop_state from, enum gy_loop_state next)
{
    const bool did = atomic_compare_exchange_strong(&loop->state, &from, next);
    assert(gy_device_loop_is_valid(loop));
    return did;
}

void gy_device_loop_renew(struct gy_device_loop *loop)
{
    const uint64_t run = gy_task_run(loop->test);
    if (atomic_load(&loop->run) != run) {
        assert(atomic_load(&loop->state) == GY_LOOP_IDLE && atomic_load(&loop->cpu_turns) == 0);
        atomic_store(&loop->run_entry, loop->record != NULL ? atomic_load(&loop->record->launched) : 0);
        atomic_store(&loop->run, run);
    }
}

bool gy_device_loop_may_begin(const struct gantry_dispatcher *d, struct gy_device_loop *loop)
{
    gy_device_loop_renew(loop);
    if (loop->never || atomic_load(&loop->state) != GY_LOOP_IDLE) {
        return false;
    }
    const char *why = gy_span_on()            ? "a profile is being recorded"
                      : d->config.synchronous ? "the context is synchronous"
                      : atomic_load_explicit(&d->streams.single, memory_order_relaxed)
                          ? "everything runs on one stream"
                      : !gy_while_is_possible(&loop->list->pool)    ? "the driver has no conditional nodes"
                      : (d->watching.checks & GY_CHECK_STABLE) != 0 ? "what stable tasks enqueue is checked"
                      : gy_while_is_full(loop->record) ? "the device has not ended it for 64 runs before"
                                                       : NULL;
    if (why != NULL) {
        tell(loop, why);
    }
    return why == NULL && !gy_context_is_stopped(d->config.context);
}

/* gantry_taskman_cancel() sets its mark and then looks at `launched`; here it is the other way round. */
void gy_device_loop_enter(struct gy_device_loop *loop)
{
    assert(gy_device_loop_is_valid(loop) && !loop->never);
    gy_while_enter(&loop->list->pool, loop->record);
    atomic_fetch_add(&loop->launches, 1);
    if (gy_taskman_is_cancelled(loop->manager)) {
        (void)cancel(loop, atomic_load(&loop->run_entry));
    }
}

void gy_device_loop_abandon(struct gy_device_loop *loop)
{
    atomic_fetch_sub(&loop->record->launched, 1);
    atomic_fetch_sub(&loop->launches, 1);
    assert(gy_device_loop_is_valid(loop));
}

uint32_t gy_device_loop_expects(const struct gy_device_loop *loop)
{
    const uint32_t turns = atomic_load(&loop->record->host->turns);
    return turns != 0 ? turns : 1;
}

/* Was the latest loop that has ended decided by the CPU?  Entries are counted round, and few are on their
 * way.
 */
static bool stats_are_of_cpu(const struct gy_device_loop *loop, bool was_any)
{
    if (loop->record == NULL) {
        return true;
    }
    const uint32_t finished = atomic_load(&loop->record->host->finished);
    return finished == loop->first_entry ||
           (was_any && (int32_t)(finished - atomic_load(&loop->latest_entry)) <= 0);
}

gantry_loop_stats gy_device_loop_stats(const struct gy_device_loop *loop)
{
    gantry_loop_stats stats = {.launches = atomic_load(&loop->launches),
                               .cpu_loops = atomic_load(&loop->cpu_loops),
                               .is_on_device = is_on_device(loop)};
    if (stats_are_of_cpu(loop, stats.cpu_loops != 0)) {
        stats.turns = atomic_load(&loop->latest_turns);
        stats.end = (gantry_loop_end)atomic_load(&loop->latest_end);
    } else {
        stats.turns = atomic_load(&loop->record->host->turns);
        stats.end = (gantry_loop_end)atomic_load(&loop->record->host->end);
    }
    return stats;
}

bool gy_device_loop_is_valid(const struct gy_device_loop *loop)
{
    return (loop->list == NULL) == (loop->record == NULL) && atomic_load(&loop->state) <= GY_LOOP_ENDING &&
           loop->most != 0 && atomic_load(&loop->cpu_turns) < loop->most &&
           (loop->unit == NULL || loop->unit->loop == loop);
}
