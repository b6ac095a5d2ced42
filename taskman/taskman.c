/* SPDX-License-Identifier: MIT */
/* The task manager.
 *
 * Building and late submission take the manager's lock: they touch the names, the storage and the lists
 * of edges.  Running does not (release.c), except to keep the first failure.
 *
 * Life of a step: start() looks for cycles, then takes one reference from every task of the step; each
 * task that reaches 0 references goes to the pool, to the GPU dispatcher or, with nothing to run, is
 * released on the spot; stop() waits until `work` says that nothing is pending.
 *
 * Who owns a task's first reference: start() for what was submitted before; the submitter for what is
 * submitted while running; the creator for a light task, always; for a name referred to while running, the
 * thread that submits the task, or stop() when none does. */
#include "base/alloc.h"
#include "base/handle.h"
#include "base/options.h"
#include "base/proof.h"
#include "taskman/access.h"
#include "taskman/awaits.h"
#include "taskman/cpu/cpu_dispatcher.h"
#include "taskman/cpu/owners.h"
#include "taskman/cpu/pool.h"
#include "taskman/description.h"
#include "taskman/graph/dump.h"
#include "taskman/phase.h"
#include "taskman/places.h"

#include <assert.h>
#include <string.h>

/* ---- create, destroy ------------------------------------------------------------------------- */

/* The share is the dispatcher's to judge. */
static gantry_status attach(gantry_taskman *manager, const gantry_taskman_options *options)
{
    struct gy_gpu_use *gpu = &manager->gpu;
    gpu->dispatcher = options->fleet != NULL
                          ? ((const struct gy_gpu_fleet *)(const void *)options->fleet)->dispatcher
                          : options->gpu_dispatcher;
    if (gpu->dispatcher == NULL) {
        return options->share == NULL
                   ? GANTRY_OK
                   : GY_FAIL(GANTRY_ERR_UNSUPPORTED,
                             "task manager: a share of GPU time, but it has no GPU dispatcher");
    }
    const struct gy_gpu_ops *ops = ((const struct gy_gpu_dispatcher *)(const void *)gpu->dispatcher)->ops;
    struct gy_gpu_seat seat = {
        .user = &gpu->user, .wanted = options->share, .is_ordered = !options->independent_steps};
    gantry_status status = ops->attach(gpu->dispatcher, &seat);
    if (status == GANTRY_OK) {
        gpu->ops = ops;
        manager->gpu_facts.share = seat.share;
        manager->gpu_facts.order = seat.order;
    }
    return status;
}

/* gy_thread_forks() of the threads that run its tasks, by what was given to it: it may be asked when that is
 * gone. */
static unsigned threads_forks(const gantry_taskman *manager)
{
    unsigned forks = gy_pool_forks(manager->as_owner.pool);
    const struct gy_gpu_dispatcher *gpu = (const void *)manager->gpu.dispatcher;
    return gpu != NULL && gpu->forks < forks ? gpu->forks : forks;
}

static gantry_status import_options(gantry_taskman *manager, const gantry_taskman_options *theirs)
{
    gantry_taskman_options options = {0};
    gantry_status status = gy_options_import(
        &options, sizeof(options), theirs, offsetof(gantry_taskman_options, gpu_dispatcher), "task manager");
    if (status != GANTRY_OK) {
        return status;
    }
    static const char function[] = "gantry_taskman_create";
    if (GY_HANDLE_IS_BAD_IN(function, CPU_DISPATCHER, options.cpu_dispatcher) ||
        GY_HANDLE_IS_BAD_IN(function, DISPATCHER, options.gpu_dispatcher) ||
        GY_HANDLE_IS_BAD_IN(function, FLEET, options.fleet) ||
        GY_HANDLE_IS_BAD_IN(function, PARTITION, options.partition)) {
        return GANTRY_ERR_INVALID_ARGUMENT;
    }
    static const uint8_t nothing[sizeof(options.reserved)];
    if (memcmp(options.reserved, nothing, sizeof(nothing)) != 0) {
        return GY_FAIL(GANTRY_ERR_UNSUPPORTED,
                       "task manager: `reserved` is set, which this version does not know");
    }
    if (options.fleet != NULL && options.gpu_dispatcher != NULL) {
        return GY_FAIL(GANTRY_ERR_INVALID_ARGUMENT,
                       "task manager: both a fleet and a GPU dispatcher, of which it can have one");
    }
    manager->gpu.fleet = options.fleet;
    manager->on_failure.tell = options.on_failure;
    manager->on_failure.user = options.on_failure_user;
    manager->as_owner.pool = options.cpu_dispatcher;
    if (manager->as_owner.pool == NULL) {
        gantry_cpu_dispatcher_options own = GANTRY_CPU_DISPATCHER_OPTIONS_INIT;
        own.inline_only = true;
        status = gantry_cpu_dispatcher_create(&own, &manager->own_pool);
        if (status != GANTRY_OK) {
            return status;
        }
        manager->as_owner.pool = manager->own_pool;
    }
    status = attach(manager, &options);
    if (status != GANTRY_OK) {
        return status;
    }
    manager->forks = threads_forks(manager);
    if (options.partition != NULL) {
        manager->gpu.partition =
            gy_taskman_partition_number(manager, options.partition, &manager->gpu.device);
        if (manager->gpu.partition == 0) {
            return GY_FAIL(GANTRY_ERR_FOREIGN_HANDLE,
                           "task manager: the partition is not of its GPU dispatcher's context");
        }
    }
    manager->as_owner.lets_guests = !options.workers_only && gy_pool_lends(manager->as_owner.pool);
    manager->gpu.lets_guests = manager->gpu.dispatcher != NULL && manager->gpu.ops->guests.look != NULL &&
                               !options.dispatcher_only && !manager->as_owner.pool->inline_only;
    status = gy_taskman_make_places(manager);
    return status != GANTRY_OK || options.expected_tasks == 0
               ? status
               : gy_graph_expect(&manager->graph, options.expected_tasks);
}

static void leave_dispatcher(gantry_taskman *manager)
{
    if (manager->gpu.ops != NULL) {
        const struct gy_gpu_seat seat = {
            .user = &manager->gpu.user, .share = manager->gpu_facts.share, .order = manager->gpu_facts.order};
        manager->gpu.ops->detach(manager->gpu.dispatcher, &seat);
    }
}

gantry_status gantry_taskman_create(const gantry_taskman_options *options, gantry_taskman **out)
{
    gy_proof_begin_if_linked();
    if (out == NULL || options == NULL) {
        return GY_FAIL(GANTRY_ERR_INVALID_ARGUMENT, "task manager: options or out is NULL");
    }
    gantry_taskman *manager = gy_alloc_aligned(sizeof(*manager), 64);
    if (manager == NULL) {
        return GY_FAIL(GANTRY_ERR_OUT_OF_HOST_MEMORY, "task manager: no memory");
    }
    memset(manager, 0, sizeof(*manager));
    gy_fast_lock_init(&manager->lock, GY_RANK_TASKMAN); /* a thread that changes partitions finds it soon */
    gantry_status status = import_options(manager, options);
    if (status != GANTRY_OK) {
        gy_pool_destroy(manager->own_pool);
        gy_free(manager->places);
        leave_dispatcher(manager);
        gy_free(manager);
        return status;
    }
    if (manager->gpu.dispatcher != NULL) {
        gy_pool_add_owner(manager->as_owner.pool, &manager->as_owner);
    }
    gy_handle_born(GY_HANDLE_TASKMAN, manager, sizeof(*manager), sizeof(*manager));
    *out = manager;
    return GANTRY_OK;
}

void gantry_taskman_destroy(gantry_taskman *manager)
{
    GY_ACCEPT_OR_LEAVE(TASKMAN, manager);
    if (manager == NULL || gy_taskman_check_owner(manager, "gantry_taskman_destroy") != GANTRY_OK) {
        return;
    }
    if (gy_taskman_phase(manager) == GY_RUNNING) {
        char labels[GY_ERROR_TEXT_BYTES / 2];
        const size_t awaited = gy_awaits_of(manager, NULL, labels, sizeof(labels));
        if (awaited != 0) {
            (void)GY_FAIL(GANTRY_ERR_STATE, "gantry_taskman_destroy: refused, %zu tasks are awaited:%s",
                          awaited, labels);
            return;
        }
        (void)!gantry_taskman_stop(manager);
    }
    (void)!gantry_taskman_reset(manager);
    gy_awaits_leave(manager);
    gy_accesses_free(manager);
    gy_names_fini(&manager->names);
    gy_graph_fini(&manager->graph);
    if (manager->gpu.dispatcher != NULL) {
        gy_pool_remove_owner(manager->as_owner.pool, &manager->as_owner);
    }
    gy_pool_destroy(manager->own_pool);
    gy_free(manager->places);
    leave_dispatcher(manager);
    if (gy_proof() != NULL) {
        gy_proof()->manager_gone(manager);
    }
    gy_handle_free(manager, manager);
}

gantry_cpu_dispatcher *gantry_taskman_cpu_dispatcher(const gantry_taskman *manager)
{
    GY_ACCEPT_OR(NULL, TASKMAN, manager);
    return manager != NULL && manager->own_pool == NULL ? manager->as_owner.pool : NULL;
}

gantry_dispatcher *gantry_taskman_gpu_dispatcher(const gantry_taskman *manager)
{
    GY_ACCEPT_OR(NULL, TASKMAN, manager);
    return manager != NULL && manager->gpu.fleet == NULL ? manager->gpu.dispatcher : NULL;
}

gantry_fleet *gantry_taskman_fleet(const gantry_taskman *manager)
{
    GY_ACCEPT_OR(NULL, TASKMAN, manager);
    return manager != NULL ? manager->gpu.fleet : NULL;
}

gantry_status gantry_taskman_get_usage(gantry_taskman *manager, gantry_share_usage *out)
{
    GY_NEED(TASKMAN, manager);
    if (manager->gpu_facts.share == NULL) {
        return GY_FAIL(GANTRY_ERR_NOT_FOUND, "gantry_taskman_get_usage: the task manager has no share");
    }
    gantry_share_usage usage;
    manager->gpu.ops->share_usage(manager->gpu_facts.share, &usage);
    return gy_stats_export(out, &usage, sizeof(usage), "gantry_taskman_get_usage");
}

gantry_status gantry_taskman_dump_graph(gantry_taskman *manager, FILE *file)
{
    GY_ACCEPT(TASKMAN, manager);
    if (manager == NULL || file == NULL) {
        return GY_FAIL(GANTRY_ERR_INVALID_ARGUMENT, "graph dump: manager or file is NULL");
    }
    gy_fast_lock_take(&manager->lock);
    struct gy_graph_view view = gy_graph_view(&manager->graph);
    struct gy_data_edge *edges;
    size_t count;
    gantry_status status = gy_accesses_copy_edges(manager, &edges, &count);
    assert(gy_taskman_is_valid(manager));
    gy_fast_lock_give(&manager->lock);
    status = status == GANTRY_OK ? gy_graph_dump(&view, edges, count, file) : status;
    gy_free(edges);
    return status;
}

gantry_status gantry_taskman_get_stats(const gantry_taskman *manager, gantry_taskman_stats *stats)
{
    GY_NEED(TASKMAN, manager);
    gantry_taskman *locked = (gantry_taskman *)manager; /* const means that nothing visible changes */
    gy_fast_lock_take(&locked->lock);
    bool is_waiting =
        gy_taskman_phase(manager) == GY_BUILDING || (manager->frozen && !manager->frozen_graph.has_run);
    uint64_t running =
        atomic_load(&manager->as_owner.work) / GY_WORK_PENDING + atomic_load(&manager->as_owner.odd_pending);
    uint64_t pending = is_waiting ? manager->counts.into_work : running;
    uint64_t spawned = atomic_load(&manager->as_owner.spawned);
    uint64_t released =
        manager->counts.into_work + spawned > pending ? manager->counts.into_work + spawned - pending : 0;
    uint64_t names = atomic_load(&manager->released.names);
    gantry_taskman_stats ours = {
        .tasks = manager->counts.submitted + spawned,
        .tasks_cpu =
            manager->counts.submitted + spawned - gy_taskman_gpu_tasks(manager) - manager->counts.sync,
        .tasks_gpu = gy_taskman_gpu_tasks(manager),
        .edges = manager->graph.edges,
        .released = released > names ? released - names : 0,
        .failed = atomic_load(&manager->released.failed),
        .memory_bytes = manager->graph.bytes + manager->names.bytes,
        .edges_from_data = gy_accesses_count_edges(locked),
    };
    gy_fast_lock_give(&locked->lock);
    return gy_stats_export(stats, &ours, sizeof(ours), "task manager");
}
