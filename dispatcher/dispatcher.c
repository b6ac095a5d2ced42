/* The public face of the dispatcher and what the task manager sees of it. */
#include "dispatcher/dispatcher.h"

#include "base/alloc.h"
#include "base/clock.h"
#include "base/handle.h"
#include "base/options.h"
#include "base/span.h"
#include "dispatcher/order/when_done.h"
#include "dispatcher/ways/launchers.h"
#include "profile/session.h"

#include <assert.h>
#include <stdio.h>

/* Joins over several streams that may be open at once before ordering gets coarser (never wrong). */
#define TRAIL_CLOCKS 2048

/* How long a thread that ends a step spins for the launch of a graph: updating a large one takes about that.
 */
#define LAUNCH_PATIENCE_NS 200000

/* ---- ops of taskman/gpu_ops.h --------------------------------------------------------------- */

static gantry_status adopt_failure(gantry_dispatcher *d)
{
    gy_graphs_wait_launched(&d->graphs); /* a step is over when its work was launched, not just captured */
    if (!gy_context_is_lost(d->config.context)) {
        return GANTRY_OK;
    }
    return gy_context_adopt_loss(d->config.context);
}

static gantry_status step_begin(gantry_dispatcher *d)
{
    gy_profile_step_begin();
    gantry_status status = GANTRY_OK;
    if (gy_context_is_stopped(d->config.context)) {
        status = gy_context_adopt_stop(d->config.context);
    }
    if (status != GANTRY_OK) {
        return status;
    }
    atomic_fetch_add(&d->open_steps, 1);
    if (d->config.wait != GANTRY_WAIT_BLOCK) {
        /* GD wakes up while the caller still looks for the first tasks, or is more patient from now on. */
        gy_inbox_signal(&d->inbox);
    }
    return GANTRY_OK;
}

static void step_announced(gantry_dispatcher *d)
{
    if (d->config.wait == GANTRY_WAIT_HYBRID || d->config.wait == GANTRY_WAIT_ADAPTIVE) {
        atomic_store_explicit(&d->announced_ns, gy_clock_ns(), memory_order_relaxed);
        gy_inbox_signal(&d->inbox);
    }
}

static uint64_t step_begun(gantry_dispatcher *d)
{
    return gy_rings_expect(&d->completion);
}

static void step_end(gantry_dispatcher *d)
{
    uint32_t before = atomic_fetch_sub(&d->open_steps, 1);
    assert(before > 0);
    if (before == 1) {
        atomic_store(&d->streams_due, true);
        gy_inbox_signal(&d->inbox);
    }
}

/* Before anybody can run the tasks, and so end the recording. */
static void record_submission(gantry_task *first, gantry_task *last)
{
    uint64_t begin = gy_span_begin(), count = 1;
    gy_span_add_flow(gy_task_releasing_flow());
    gy_span_add_flow(gy_task_flow(first));
    for (gantry_task *task = first; task != last; count++) {
        task = gy_task_gpu(task)->next;
        gy_span_add_flow(gy_task_flow(task));
    }
    char name[64];
    if (count == 1) {
        snprintf(name, sizeof(name), "submit %s", gantry_task_label(first));
    } else {
        snprintf(name, sizeof(name), "submit %llu tasks", (unsigned long long)count);
    }
    gy_span_end(GY_SPAN_SUBMIT, name, begin, count);
}

static inline void deliver(gantry_dispatcher *d, gantry_task *first, gantry_task *last)
{
    if (gy_gd_current == d) {
        gy_gpu_list_append(&d->local, first, last); /* GD polls it when the release returns */
    } else {
        gy_inbox_push(&d->inbox, first, last);
    }
}

static GY_COLD void deliver_recorded(gantry_dispatcher *d, gantry_task *first, gantry_task *last)
{
    record_submission(first, last);
    deliver(d, first, last);
}

/* Path of a task, step 3 of 8: a ready GPU task reaches the dispatcher. */
static void submit(gantry_dispatcher *d, gantry_task *first, gantry_task *last)
{
    if (gy_span_on()) {
        deliver_recorded(d, first, last);
    } else {
        deliver(d, first, last);
    }
}

static uint32_t partition_number(gantry_dispatcher *d, const gantry_partition *partition)
{
    return partition->owner == d->config.partitions ? partition->info.index + 1 : 0;
}

static void carry(gantry_dispatcher *d, gantry_task *predecessor, gantry_task *successor)
{
    gy_trail_merge(&d->trails, &gy_task_gpu(successor)->trail,
                   atomic_load_explicit(&gy_task_gpu(predecessor)->trail, memory_order_acquire));
}

static void drop(gantry_dispatcher *d, gantry_task *task)
{
    /* Whoever releases a task is the only one left who looks at its trail. */
    gy_trail_drop(&d->trails, atomic_load_explicit(&gy_task_gpu(task)->trail, memory_order_acquire));
}

static struct gy_gpu_order *order_open(gantry_dispatcher *d)
{
    return gy_step_order_open(&d->streams);
}

static struct gy_gpu_memory *memory_open(gantry_dispatcher *d, gantry_taskman *manager, const uint64_t *bytes)
{
    (void)d;
    return gy_admission_open(manager, bytes);
}

static void memory_close(gantry_dispatcher *d, struct gy_gpu_memory *memory)
{
    gy_admission_close(&d->admission, memory);
}

static void memory_begin(gantry_dispatcher *d, struct gy_gpu_memory *memory)
{
    (void)d;
    gy_admission_begin(memory);
}

static void memory_end(gantry_dispatcher *d, struct gy_gpu_memory *memory)
{
    gy_admission_end(&d->admission, memory);
}

static void quiet(gantry_dispatcher *d)
{
    gy_admission_quiet(&d->admission);
}

static void cancelled(gantry_dispatcher *d)
{
    atomic_fetch_add(&d->cancels, 1);
    gy_inbox_signal(&d->inbox);
}

static gantry_status share_open(gantry_dispatcher *d, const gantry_share *share, struct gy_gpu_share **out)
{
    struct gy_account *account = NULL;
    gantry_status status = gy_shares_open(&d->shares, share, &account);
    *out = (struct gy_gpu_share *)account;
    return status;
}

static void share_close(struct gy_gpu_share *share)
{
    gy_shares_close_account((struct gy_account *)share);
}

static void share_usage(struct gy_gpu_share *share, gantry_share_usage *out)
{
    gy_account_usage((struct gy_account *)share, out);
}

static gantry_status make_plan(gantry_dispatcher *d, gantry_taskman *manager, struct gy_gpu_plan **out)
{
    return gy_plan_make(&d->plans, manager, out);
}

static void attach(gantry_dispatcher *d)
{
    gy_mutex_lock(&d->batch_lock);
    d->users++;
    gy_mutex_unlock(&d->batch_lock);
}

static void detach(gantry_dispatcher *d)
{
    gy_mutex_lock(&d->batch_lock);
    assert(d->users > 0);
    bool is_last = --d->users == 0;
    void (*last)(void *user) = is_last ? d->last : NULL;
    void *user = d->last_user;
    gy_mutex_unlock(&d->batch_lock);
    if (last != NULL) {
        last(user);
    }
}

static const struct gy_gpu_ops ops = {
    .attach = attach,
    .detach = detach,
    .order_open = order_open,
    .order_close = gy_step_order_close,
    .step_begin = step_begin,
    .step_end = step_end,
    .step_announced = step_announced,
    .step_begun = step_begun,
    .submit = submit,
    .partition_number = partition_number,
    .carry = carry,
    .when_done = gy_when_done,
    .is_unawaited = gy_is_unawaited,
    .drop = drop,
    .plan = make_plan,
    .adopt_failure = adopt_failure,
    .memory_open = memory_open,
    .memory_close = memory_close,
    .memory_begin = memory_begin,
    .memory_end = memory_end,
    .quiet = quiet,
    .cancelled = cancelled,
    .share_open = share_open,
    .share_close = share_close,
    .share_usage = share_usage,
};

/* ---- life ---------------------------------------------------------------------------------- */

/* Somebody has run out of memory; see enum gy_deferred_wait for who may wait for what. */
static bool free_pending(void *user, gantry_memory_kind kind)
{
    gantry_dispatcher *d = user;
    enum gy_deferred_wait wait = gy_gdb_is_current     ? GY_DEFERRED_NOTHING
                                 : gy_gd_may_launch(d) ? GY_DEFERRED_WATCHED
                                                       : GY_DEFERRED_ALL;
    uint64_t begin = gy_span_begin();
    bool freed = gy_deferred_collect_or_wait(&d->deferred, wait);
    gy_span_end(GY_SPAN_MEMORY, "waiting for memory", begin, (uint64_t)kind);
    return freed;
}

static gantry_status init_signals(gantry_dispatcher *d)
{
    gantry_status status = gy_cond_init(&d->quiet);
    if (status == GANTRY_OK) {
        status = gy_inbox_init(&d->inbox);
        if (status != GANTRY_OK) {
            gy_cond_fini(&d->quiet);
        }
    }
    return status;
}

static void fini_signals(gantry_dispatcher *d)
{
    gy_inbox_fini(&d->inbox);
    gy_cond_fini(&d->quiet);
}

/* GDB, and what it charges. */
static gantry_status init_completion(gantry_dispatcher *d)
{
    const struct gy_dispatcher_config *config = &d->config;
    gantry_status status = gy_shares_init(&d->shares, config->context, config->partitions, &d->streams,
                                          &d->inbox, config->quota_controller);
    if (status != GANTRY_OK) {
        return status;
    }
    const struct gy_completion_config ours = {.context = config->context,
                                              .streams = &d->streams,
                                              .deferred = &d->deferred,
                                              .admission = &d->admission,
                                              .shares = &d->shares,
                                              .time = config->time,
                                              .wait = config->wait};
    status = gy_rings_init(&d->completion, &ours);
    if (status != GANTRY_OK) {
        gy_shares_fini(&d->shares);
    }
    return status;
}

static gantry_status start_threads(gantry_dispatcher *d)
{
    gantry_status status = GANTRY_OK;
    if (d->config.launch_threads > 1) {
        status = gy_launchers_create(d, d->config.launch_threads, &d->launchers);
    }
    if (status == GANTRY_OK) {
        status = gy_thread_start(&d->thread, "GD", gy_gd_main, d);
        if (status != GANTRY_OK) {
            gy_launchers_destroy(d->launchers);
        }
    }
    return status;
}

gantry_status gy_dispatcher_create(const struct gy_dispatcher_config *config, gantry_dispatcher **out)
{
    gantry_dispatcher *d = gy_zalloc(sizeof(*d));
    if (d == NULL) {
        return GY_FAIL(GANTRY_ERR_OUT_OF_HOST_MEMORY, "no memory for a dispatcher");
    }
    d->base.ops = &ops;
    d->base.forks = gy_thread_forks();
    d->config = *config;
    atomic_init(&d->submission, config->submission);
    gy_mutex_init(&d->batch_lock, GY_RANK_LEAF);
    gy_plan_list_init(&d->plans, config->context);
    gantry_status status = init_signals(d);
    if (status != GANTRY_OK) {
        goto free_dispatcher;
    }
    status = gy_trail_pool_init(&d->trails, TRAIL_CLOCKS);
    if (status != GANTRY_OK) {
        goto fini_inbox;
    }
    status = gy_streams_init(&d->streams, config->context, config->partitions, config->stream_limit,
                             config->device_wide);
    if (status != GANTRY_OK) {
        goto fini_trails;
    }
    atomic_init(&d->streams.single, config->single_stream);
    status = gy_deferred_init(&d->deferred, config->heap, &d->streams);
    if (status != GANTRY_OK) {
        goto fini_streams;
    }
    status = gy_graphs_init(&d->graphs, config->context, &d->streams, config->copier,
                            config->wait == GANTRY_WAIT_BLOCK ? 0 : LAUNCH_PATIENCE_NS);
    if (status != GANTRY_OK) {
        goto fini_deferred;
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
fini_trails:
    gy_trail_pool_fini(&d->trails);
fini_inbox:
    fini_signals(d);
free_dispatcher:
    gy_plan_list_fini(&d->plans);
    gy_mutex_fini(&d->batch_lock);
    gy_free(d);
    return status;
}

/* The GPU must be done before streams, modules and memory go.  So it is asked on a lost context, too: we may
 * have given up one that the driver has not, whose work goes on; a broken one answers at once. */
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
    if (status == GANTRY_OK && d->streams.origin != NULL) {
        status = GY_CALL(context, cuStreamSynchronize(d->streams.origin));
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
    atomic_store(&d->closing, true);
    gy_inbox_signal(&d->inbox);
    gy_thread_join(&d->thread);
    gy_launchers_destroy(d->launchers);
    drain_gpu(d);
    bool pushed = gy_context_push(d->config.context) == GANTRY_OK;
    gy_rings_fini(&d->completion);
    gy_heap_set_pending(d->config.heap, NULL, NULL);
    gy_shares_fini(&d->shares);
    gy_admission_fini(&d->admission);
    gy_deferred_fini(&d->deferred);
    gy_gpu_time_collect(d->config.time);
    gy_plan_list_fini(&d->plans);
    gy_graphs_fini(&d->graphs);
    gy_streams_fini(&d->streams);
    if (pushed) {
        (void)gy_context_pop(d->config.context);
    }
    gy_trail_pool_fini(&d->trails);
    fini_signals(d);
    gy_mutex_fini(&d->batch_lock);
    gy_handle_free(d, d);
}

bool gy_dispatcher_abandon(gantry_dispatcher *d, void (*last)(void *user), void *user)
{
    gy_mutex_lock(&d->batch_lock);
    bool is_used = d->users != 0;
    gy_mutex_unlock(&d->batch_lock);
    if (!is_used) {
        return false;
    }
    (void)GY_FAIL(GANTRY_ERR_DEVICE_LOST,
                  "gantry_context_destroy() was called before its task managers were gone");
    gy_context_lose(d->config.context, gy_error_last());
    gy_inbox_signal(&d->inbox);
    gy_mutex_lock(&d->batch_lock);
    while (!d->has_failed) {
        gy_cond_wait(&d->quiet, &d->batch_lock);
    }
    gy_mutex_unlock(&d->batch_lock);
    drain_gpu(d);
    gy_mutex_lock(&d->batch_lock);
    is_used = d->users != 0;
    d->last = last;
    d->last_user = user;
    gy_mutex_unlock(&d->batch_lock);
    return is_used;
}

/* ---- public -------------------------------------------------------------------------------- */

void gantry_dispatcher_start_group(gantry_dispatcher *dispatcher)
{
    if (GY_HANDLE_IS_BAD(DISPATCHER, dispatcher)) {
        return;
    }
    atomic_fetch_add(&dispatcher->open_groups, 1);
}

void gantry_dispatcher_finish_group(gantry_dispatcher *dispatcher)
{
    if (GY_HANDLE_IS_BAD(DISPATCHER, dispatcher)) {
        return;
    }
    uint32_t before = atomic_fetch_sub(&dispatcher->open_groups, 1);
    assert(before > 0 && "finish_group without start_group");
    if (before == 1) {
        gy_inbox_signal(&dispatcher->inbox);
    }
}

bool gantry_dispatcher_failure_detected(const gantry_dispatcher *dispatcher)
{
    if (GY_HANDLE_IS_BAD(DISPATCHER, dispatcher)) {
        return false;
    }
    return gy_context_is_lost(dispatcher->config.context);
}

void gantry_dispatcher_force_failure(gantry_dispatcher *dispatcher)
{
    if (GY_HANDLE_IS_BAD(DISPATCHER, dispatcher)) {
        return;
    }
    (void)GY_FAIL(GANTRY_ERR_DEVICE_LOST, "gantry_dispatcher_force_failure() was called");
    gy_context_lose(dispatcher->config.context, gy_error_last());
    gy_inbox_signal(&dispatcher->inbox);
}

gantry_status gantry_dispatcher_set_submission(gantry_dispatcher *dispatcher, gantry_submission submission)
{
    if (GY_HANDLE_IS_BAD(DISPATCHER, dispatcher)) {
        return GANTRY_ERR_INVALID_ARGUMENT;
    }
    if (dispatcher == NULL || (unsigned)submission > GANTRY_SUBMISSION_AUTO) {
        return GY_FAIL(GANTRY_ERR_INVALID_ARGUMENT, "gantry_dispatcher_set_submission: %s",
                       dispatcher == NULL ? "dispatcher is NULL" : "no such mode");
    }
    atomic_store(&dispatcher->submission, submission);
    return GANTRY_OK;
}

void gantry_dispatcher_set_concurrent_streams(gantry_dispatcher *dispatcher, bool concurrent)
{
    if (GY_HANDLE_IS_BAD(DISPATCHER, dispatcher)) {
        return;
    }
    atomic_store(&dispatcher->streams.single, !concurrent);
}

bool gantry_dispatcher_get_concurrent_streams(const gantry_dispatcher *dispatcher)
{
    if (GY_HANDLE_IS_BAD(DISPATCHER, dispatcher)) {
        return false;
    }
    return !atomic_load(&dispatcher->streams.single);
}

/* ---- statistics ---------------------------------------------------------------------------- */

static uint64_t read_counter(const _Atomic(uint64_t) *counter)
{
    return atomic_load_explicit(counter, memory_order_relaxed);
}

gantry_status gantry_dispatcher_get_stats(const gantry_dispatcher *dispatcher, gantry_dispatcher_stats *stats)
{
    if (GY_HANDLE_IS_BAD(DISPATCHER, dispatcher)) {
        return GANTRY_ERR_INVALID_ARGUMENT;
    }
    if (dispatcher == NULL) {
        return GY_FAIL(GANTRY_ERR_INVALID_ARGUMENT, "gantry_dispatcher_get_stats: dispatcher is NULL");
    }
    const struct gd_counters *c = &dispatcher->counters;
    const struct gy_streams *s = &dispatcher->streams;
    gantry_dispatcher_stats now = {
        .struct_size = sizeof(now),
        .tasks = read_counter(&c->tasks),
        .tasks_failed = read_counter(&c->tasks_failed),
        .batches = read_counter(&c->batches),
        .launch_calls = read_counter(&c->launch_calls),
        .kernels = read_counter(&c->kernels),
        .copies = read_counter(&c->copies),
        .batched_copies = read_counter(&c->batched_copies),
        .wfi_edges = read_counter(&s->waits),
        .wfi_dropped = read_counter(&s->dropped),
        .events_recorded = read_counter(&s->recorded),
        .completions = read_counter(&c->completions),
        .flushes = read_counter(&c->flushes),
        .streams_created = atomic_load_explicit(&s->created, memory_order_relaxed),
        .streams_peak = atomic_load_explicit(&s->peak, memory_order_relaxed),
    };
    now.frees_deferred = read_counter(&dispatcher->deferred.deferred);
    now.frees_reused = read_counter(&dispatcher->deferred.reused);
    /* Who reads 0 sees that all of them are free. */
    now.frees_pending = atomic_load_explicit(&dispatcher->deferred.pending, memory_order_acquire);
    for (int phase = 0; phase < GD_PHASES; phase++) {
        now.phase_ns[phase] = read_counter(&c->phase_ns[phase]);
        now.phase_tasks[phase] = read_counter(&c->phase_tasks[phase]);
    }
    now.graph_launches = read_counter(&dispatcher->graphs.launches);
    now.graph_instantiations = read_counter(&dispatcher->graphs.instantiations);
    now.graph_cuts = read_counter(&dispatcher->graphs.cuts);
    const struct gy_admission *a = &dispatcher->admission;
    now.memory_admitted = read_counter(&a->admitted);
    now.memory_waited = read_counter(&a->waited);
    now.memory_forced = read_counter(&a->forced);
    now.memory_wait_ns = read_counter(&a->wait_ns);
    now.memory_tasks_waiting = read_counter(&a->tasks_waiting);
    for (int kind = 0; kind < GANTRY_MEMORY_KIND_COUNT; kind++) {
        now.memory_held_bytes[kind] = read_counter(&a->held_bytes[kind]);
    }
    now.graph_replays = read_counter(&c->replays);
    return gy_stats_export(stats, &now, sizeof(now), "gantry_dispatcher_get_stats");
}

gantry_status gantry_dispatcher_get_batch_stats(gantry_dispatcher *dispatcher, gantry_batch_stats *stats)
{
    if (GY_HANDLE_IS_BAD(DISPATCHER, dispatcher)) {
        return GANTRY_ERR_INVALID_ARGUMENT;
    }
    if (dispatcher == NULL) {
        return GY_FAIL(GANTRY_ERR_INVALID_ARGUMENT, "gantry_dispatcher_get_batch_stats: dispatcher is NULL");
    }
    gy_mutex_lock(&dispatcher->batch_lock);
    struct gantry_batch_stats batch = dispatcher->batch;
    gy_mutex_unlock(&dispatcher->batch_lock);
    return gy_stats_export(stats, &batch, sizeof(batch), "gantry_dispatcher_get_batch_stats");
}

gantry_status gantry_task_get_launch_stats(gantry_task *task, gantry_task_launch_stats *stats)
{
    if (GY_HANDLE_IS_BAD(TASK, task)) {
        return GANTRY_ERR_INVALID_ARGUMENT;
    }
    if (task == NULL || gantry_task_get_kind(task) < GANTRY_TASK_HTOD) {
        return GY_FAIL(GANTRY_ERR_INVALID_ARGUMENT, "gantry_task_get_launch_stats: %s",
                       task == NULL ? "task is NULL" : "not a GPU task");
    }
    if (gantry_task_get_state(task) < GANTRY_TASK_STATE_DONE) {
        return GY_FAIL(GANTRY_ERR_STATE, "gantry_task_get_launch_stats: '%s' is not released yet",
                       gantry_task_label(task));
    }
    const struct gy_task_gpu *gpu = gy_task_gpu(task);
    gantry_task_launch_stats now = {sizeof(now), gpu->launch_index, gpu->stream};
    return gy_stats_export(stats, &now, sizeof(now), "gantry_task_get_launch_stats");
}
