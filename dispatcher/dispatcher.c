/* SPDX-License-Identifier: MIT */
/* The public face of the dispatcher: its life, groups, modes. */
#include "dispatcher/dispatcher.h"

#include "base/alloc.h"
#include "base/checking.h"
#include "base/clock.h"
#include "base/environment.h"
#include "base/handle.h"
#include "base/proof.h"
#include "base/span.h"
#include "base/times.h"
#include "dispatcher/internal.h"
#include "dispatcher/loop/current.h"
#include "dispatcher/loop/guest.h"
#include "dispatcher/loop/loop.h"
#include "dispatcher/taskman_ops.h"
#include "driver/places.h"
#include "profile/gpu_time.h"
#include "profile/session.h"

#include <assert.h>
#include <stdio.h>
#include <string.h>

/* Joins over several streams that may be open at once before ordering gets coarser (never wrong). */
#define WAIT_SET_CLOCKS 2048

/* ---- life ---------------------------------------------------------------------------------- */

/* The calling thread has run out of memory; enum gy_deferred_wait says what each thread may wait for. */
static bool free_pending(void *user, gantry_memory_kind kind)
{
    gantry_dispatcher *d = user;
    enum gy_deferred_wait wait = gy_is_completion_thread ? GY_DEFERRED_NOTHING
                                 : gy_gd_current == d    ? GY_DEFERRED_WATCHED
                                                         : GY_DEFERRED_ALL;
    uint64_t begin = gy_span_begin();
    gy_guest_leave_rings(d);
    bool freed = gy_deferred_collect_or_wait(&d->deferred, wait);
    gy_span_end(GY_SPAN_MEMORY, "waiting for memory", begin, (uint64_t)kind);
    return freed;
}

static gantry_status init_signals(gantry_dispatcher *d)
{
    gantry_status status = gy_cond_init(&d->users.quiet);
    if (status != GANTRY_OK) {
        return status;
    }
    status = gy_replan_init(&d->replan);
    if (status != GANTRY_OK) {
        goto fini_quiet;
    }
    status = gy_inbox_init(&d->inbox);
    if (status != GANTRY_OK) {
        goto fini_replan;
    }
    return GANTRY_OK;
fini_replan:
    gy_replan_fini(&d->replan);
fini_quiet:
    gy_cond_fini(&d->users.quiet);
    return status;
}

static void fini_signals(gantry_dispatcher *d)
{
    gy_inbox_fini(&d->inbox);
    gy_replan_fini(&d->replan);
    gy_cond_fini(&d->users.quiet);
}

/* Start the completion threads, and the meters that they charge. */
static gantry_status init_completion(gantry_dispatcher *d)
{
    const struct gy_dispatcher_config *config = &d->config;
    gantry_status status =
        gy_shares_init(&d->shares, config->context, config->partitions, &d->streams, &d->inbox);
    if (status != GANTRY_OK) {
        return status;
    }
    const struct gy_completion_config ours = gy_gd_rings_config(d);
    status = gy_rings_init(&d->completion, &ours, config->partitions);
    if (status != GANTRY_OK) {
        gy_shares_fini(&d->shares);
    }
    return status;
}

/* Threads of several devices are told apart, in recordings above all. */
static const char *thread_name(const struct gy_context *context)
{
    static const char *const names[] = {"GD",   "GD 1", "GD 2",  "GD 3",  "GD 4",  "GD 5",  "GD 6",  "GD 7",
                                        "GD 8", "GD 9", "GD 10", "GD 11", "GD 12", "GD 13", "GD 14", "GD 15"};
    const unsigned ordinal = (unsigned)context->info.ordinal;
    return ordinal < sizeof(names) / sizeof(names[0]) ? names[ordinal] : "GD of a GPU";
}

static gantry_status start_threads(gantry_dispatcher *d)
{
    gantry_status status = gy_stand_in_init(&d->stand_in, d);
    if (status != GANTRY_OK) {
        return status;
    }
    status = gy_thread_start(&d->thread, thread_name(d->config.context), gy_gd_main, d);
    if (status != GANTRY_OK) {
        gy_stand_in_fini(&d->stand_in);
    }
    return status;
}

/* Returns the checks that watch callbacks; whether handles are checked is decided by now. */
static unsigned find_checks(void)
{
    return (gy_handles_are_checked() ? GY_CHECK_HANDLES : 0u) |
           (gy_check_is_on(GY_CHECK_FORKS) ? GY_CHECK_FORKS : 0u) |
           (gy_check_is_on(GY_CHECK_STABLE) ? GY_CHECK_STABLE : 0u) |
           (gy_proof() != NULL ? GY_CHECK_EDGES : 0u);
}

/* Allocate the dispatcher, and initialise what cannot fail; NULL: no memory. */
static gantry_dispatcher *allocate(const struct gy_dispatcher_config *config)
{
    gantry_dispatcher *d = gy_alloc_aligned(sizeof(*d), _Alignof(gantry_dispatcher));
    if (d == NULL) {
        (void)GY_FAIL(GANTRY_ERR_OUT_OF_HOST_MEMORY, "no memory for a dispatcher");
        return NULL;
    }
    memset(d, 0, sizeof(*d));
    d->base.ops = &gy_dispatcher_ops;
    d->base.forks = gy_thread_forks();
    d->config = *config;
    d->watching.checks = find_checks();
    atomic_init(&d->watching.why, d->watching.checks);
    atomic_init(&d->told.submission, config->submission);
    gy_mutex_init(&d->batch.lock, GY_RANK_LEAF);
    gy_mutex_init(&d->users.lock, GY_RANK_LEAF);
    gy_plan_list_init(&d->plans, config->context, config->copier);
    gy_device_loops_init(&d->loops, config->context);
    return d;
}

gantry_status gy_dispatcher_create(const struct gy_dispatcher_config *config, gantry_dispatcher **out)
{
    gantry_dispatcher *d = allocate(config);
    if (d == NULL) {
        return GANTRY_ERR_OUT_OF_HOST_MEMORY;
    }
    gantry_status status = init_signals(d);
    if (status != GANTRY_OK) {
        goto free_dispatcher;
    }
    status = gy_wait_set_pool_init(&d->wait_sets, WAIT_SET_CLOCKS);
    if (status != GANTRY_OK) {
        goto fini_inbox;
    }
    status = gy_streams_init(&d->streams, config->context, config->partitions, config->stream_limit,
                             config->device_wide);
    if (status != GANTRY_OK) {
        goto fini_wait_sets;
    }
    atomic_init(&d->streams.single, config->single_stream);
    status = gy_deferred_init(&d->deferred, config->heap, &d->streams);
    if (status != GANTRY_OK) {
        goto fini_streams;
    }
    status = gy_graphs_init(&d->graphs, config->context, &d->streams, config->copier,
                            config->wait == GANTRY_WAIT_BLOCK ? 0 : GY_LAUNCH_SPIN_NS);
    if (status != GANTRY_OK) {
        goto fini_deferred;
    }
    gy_places_reserve(config->context, config->stream_limit);
    if (config->submission > GANTRY_SUBMISSION_STREAMS) {
        gy_graphs_prepare(&d->graphs);
    }
    gy_admission_init(&d->admission, config->context, config->heap, &d->streams, &d->inbox);
    status = init_completion(d);
    if (status != GANTRY_OK) {
        goto fini_admission;
    }
    status = start_threads(d);
    if (status != GANTRY_OK) {
        goto fini_completion;
    }
    gy_heap_set_pending(config->heap, free_pending, d);
    gy_handle_born(GY_HANDLE_DISPATCHER, d, sizeof(*d), sizeof(*d));
    *out = d;
    return GANTRY_OK;
fini_completion:
    gy_rings_fini(&d->completion);
    gy_shares_fini(&d->shares);
fini_admission:
    gy_admission_fini(&d->admission);
    gy_graphs_fini(&d->graphs);
fini_deferred:
    gy_deferred_fini(&d->deferred);
fini_streams:
    gy_streams_fini(&d->streams);
fini_wait_sets:
    gy_wait_set_pool_fini(&d->wait_sets);
fini_inbox:
    fini_signals(d);
free_dispatcher:
    gy_plan_list_fini(&d->plans);
    gy_device_loops_fini(&d->loops);
    gy_mutex_fini(&d->users.lock);
    gy_mutex_fini(&d->batch.lock);
    gy_free(d);
    return status;
}

/* The GPU must be done before streams, modules and memory go.  So the driver is asked on a lost context,
 * too: the library may have given up a context whose work goes on in the driver, and a broken one answers at
 * once. */
static void drain_gpu(gantry_dispatcher *d)
{
    struct gy_context *context = d->config.context;
    if (gy_context_push(context) != GANTRY_OK) {
        return;
    }
    gantry_status status = GANTRY_OK;
    for (uint32_t i = 0; i < d->streams.count && status == GANTRY_OK; i++) {
        status = GY_CALL(context, cuStreamSynchronize(d->streams.streams[i].native));
    }
    if (status != GANTRY_OK) {
        gy_context_lose(context, gy_error_last());
    }
    (void)gy_context_pop(context);
}

void gy_dispatcher_destroy(gantry_dispatcher *d)
{
    if (d == NULL) {
        return;
    }
    atomic_store(&d->told.closing, true);
    gy_inbox_signal(&d->inbox);
    gy_thread_join(&d->thread);
    gy_stand_in_fini(&d->stand_in);
    if (gy_context_is_lost(d->config.context)) { /* since the thread has looked for that, maybe */
        gy_device_loops_cancel(&d->loops);
    }
    drain_gpu(d);
    bool pushed = gy_context_push(d->config.context) == GANTRY_OK;
    gy_rings_fini(&d->completion);
    gy_heap_set_pending(d->config.heap, NULL, NULL);
    gy_shares_fini(&d->shares);
    gy_admission_fini(&d->admission);
    gy_deferred_fini(&d->deferred);
    gy_gpu_time_collect(d->config.time);
    gy_plan_list_fini(&d->plans);
    gy_device_loops_fini(&d->loops);
    gy_exports_fini(&d->member.exports, d->config.context->driver);
    gy_streams_fini(&d->streams);
    gy_graphs_fini(&d->graphs); /* a graph that a stream could not leave goes after the stream */
    if (pushed) {
        (void)gy_context_pop(d->config.context);
    }
    gy_wait_set_pool_fini(&d->wait_sets);
    fini_signals(d);
    gy_mutex_fini(&d->users.lock);
    gy_mutex_fini(&d->batch.lock);
    gy_handle_free(d, d);
}

bool gy_dispatcher_abandon(gantry_dispatcher *d, void (*last)(void *user), void *user)
{
    gy_mutex_lock(&d->users.lock);
    bool is_used = d->users.count != 0;
    gy_mutex_unlock(&d->users.lock);
    if (!is_used) {
        return false;
    }
    (void)GY_FAIL(GANTRY_ERR_DEVICE_LOST,
                  "gantry_context_destroy() was called before its task managers were gone");
    gy_context_lose(d->config.context, gy_error_last());
    gy_inbox_signal(&d->inbox);
    gy_mutex_lock(&d->users.lock);
    while (!d->users.has_failed) {
        gy_cond_wait(&d->users.quiet, &d->users.lock);
    }
    gy_mutex_unlock(&d->users.lock);
    drain_gpu(d);
    gy_mutex_lock(&d->users.lock);
    is_used = d->users.count != 0;
    d->users.last = last;
    d->users.last_user = user;
    gy_mutex_unlock(&d->users.lock);
    return is_used;
}

gantry_status gy_submission_find(gantry_submission asked, gantry_submission *out)
{
    static const char *const names[] = {[GANTRY_SUBMISSION_STREAMS] = "streams",
                                        [GANTRY_SUBMISSION_GRAPHS] = "graphs",
                                        [GANTRY_SUBMISSION_AUTO] = "auto"};
    const char *text = asked == GANTRY_SUBMISSION_DEFAULT ? gy_environment("GANTRY_SUBMISSION") : NULL;
    if (text == NULL) {
        *out = asked == GANTRY_SUBMISSION_DEFAULT ? GY_SUBMISSION_UNASKED : asked;
        return GANTRY_OK;
    }
    for (int i = GANTRY_SUBMISSION_STREAMS; i <= GANTRY_SUBMISSION_AUTO; i++) {
        if (strcmp(text, names[i]) == 0) {
            *out = (gantry_submission)i;
            return GANTRY_OK;
        }
    }
    return GY_FAIL(GANTRY_ERR_INVALID_ARGUMENT, "GANTRY_SUBMISSION=\"%.40s\": it is streams, graphs or auto",
                   text);
}

/* ---- public -------------------------------------------------------------------------------- */

void gantry_dispatcher_start_group(gantry_dispatcher *dispatcher)
{
    GY_ACCEPT_OR_LEAVE(DISPATCHER, dispatcher);
    atomic_fetch_add(&dispatcher->told.open_groups, 1);
}

void gantry_dispatcher_finish_group(gantry_dispatcher *dispatcher)
{
    GY_ACCEPT_OR_LEAVE(DISPATCHER, dispatcher);
    uint32_t before = atomic_fetch_sub(&dispatcher->told.open_groups, 1);
    assert(before > 0 && "finish_group without start_group");
    if (before == 1) {
        gy_inbox_signal(&dispatcher->inbox);
    }
}

bool gantry_dispatcher_failure_detected(const gantry_dispatcher *dispatcher)
{
    GY_ACCEPT_OR(false, DISPATCHER, dispatcher);
    return gy_context_is_lost(dispatcher->config.context);
}

void gantry_dispatcher_force_failure(gantry_dispatcher *dispatcher)
{
    GY_ACCEPT_OR_LEAVE(DISPATCHER, dispatcher);
    (void)GY_FAIL(GANTRY_ERR_DEVICE_LOST, "gantry_dispatcher_force_failure() was called");
    gy_context_lose(dispatcher->config.context, gy_error_last());
    gy_inbox_signal(&dispatcher->inbox);
    if (dispatcher->member.fleet != NULL) {
        dispatcher->member.calls->signal(dispatcher->member.fleet);
    }
}

gantry_status gantry_dispatcher_set_submission(gantry_dispatcher *dispatcher, gantry_submission submission)
{
    GY_ACCEPT(DISPATCHER, dispatcher);
    if (dispatcher == NULL || (unsigned)submission > GANTRY_SUBMISSION_AUTO) {
        return GY_FAIL(GANTRY_ERR_INVALID_ARGUMENT, "gantry_dispatcher_set_submission: %s",
                       dispatcher == NULL ? "dispatcher is NULL" : "no such mode");
    }
    gantry_status status = gy_submission_find(submission, &submission);
    if (status != GANTRY_OK) {
        return status;
    }
    if (submission > GANTRY_SUBMISSION_STREAMS) {
        gy_graphs_prepare(&dispatcher->graphs);
    }
    atomic_store(&dispatcher->told.submission, submission);
    return GANTRY_OK;
}

void gantry_dispatcher_set_concurrent_streams(gantry_dispatcher *dispatcher, bool concurrent)
{
    GY_ACCEPT_OR_LEAVE(DISPATCHER, dispatcher);
    atomic_store(&dispatcher->streams.single, !concurrent);
}

bool gantry_dispatcher_get_concurrent_streams(const gantry_dispatcher *dispatcher)
{
    GY_ACCEPT_OR(false, DISPATCHER, dispatcher);
    return !atomic_load(&dispatcher->streams.single);
}
