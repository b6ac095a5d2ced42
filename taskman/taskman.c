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

static gantry_status open_share(gantry_taskman *manager, const gantry_share *share)
{
    if (manager->gpu_ops == NULL || manager->gpu_ops->share.open == NULL) {
        return GY_FAIL(GANTRY_ERR_UNSUPPORTED,
                       "task manager: a share of GPU time, but it has no GPU dispatcher");
    }
    return manager->gpu_ops->share.open(manager->gpu, share, &manager->gpu_facts.share);
}

static gantry_status open_order(gantry_taskman *manager)
{
    if (manager->gpu_ops == NULL || manager->gpu_ops->order.open == NULL) {
        return GANTRY_OK;
    }
    manager->gpu_facts.order = manager->gpu_ops->order.open(manager->gpu);
    return manager->gpu_facts.order != NULL
               ? GANTRY_OK
               : GY_FAIL(GANTRY_ERR_OUT_OF_HOST_MEMORY, "task manager: no memory for the order of its steps");
}

/* gy_thread_forks() of the threads that run its tasks, by what was given to it: it may be asked when that is
 * gone. */
static unsigned threads_forks(const gantry_taskman *manager)
{
    unsigned forks = gy_pool_forks(manager->as_owner.pool);
    const struct gy_gpu_dispatcher *gpu = (const void *)manager->gpu;
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
    manager->fleet = options.fleet;
    manager->on_failure = options.on_failure;
    manager->on_failure_user = options.on_failure_user;
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
    manager->gpu = options.fleet != NULL
                       ? ((const struct gy_gpu_fleet *)(const void *)options.fleet)->dispatcher
                       : options.gpu_dispatcher;
    if (manager->gpu != NULL) {
        manager->gpu_ops = ((const struct gy_gpu_dispatcher *)(const void *)manager->gpu)->ops;
        manager->gpu_ops->attach(manager->gpu, &manager->gpu_user);
    }
    manager->forks = threads_forks(manager);
    if (options.partition != NULL) {
        manager->partition = gy_taskman_partition_number(manager, options.partition, &manager->device);
        if (manager->partition == 0) {
            return GY_FAIL(GANTRY_ERR_FOREIGN_HANDLE,
                           "task manager: the partition is not of its GPU dispatcher's context");
        }
    }
    manager->as_owner.lets_guests = !options.workers_only && gy_pool_lends(manager->as_owner.pool);
    manager->lets_gpu_guests = manager->gpu != NULL && manager->gpu_ops->guests.look != NULL &&
                               !options.dispatcher_only && !manager->as_owner.pool->inline_only;
    if (options.share != NULL) {
        status = open_share(manager, options.share);
    }
    if (status == GANTRY_OK && !options.independent_steps) {
        status = open_order(manager);
    }
    if (status == GANTRY_OK) {
        status = gy_taskman_make_places(manager);
    }
    return status != GANTRY_OK || options.expected_tasks == 0
               ? status
               : gy_graph_expect(&manager->graph, options.expected_tasks);
}

bool gy_taskman_isolate(gantry_taskman *manager)
{
    return manager->gpu_facts.order != NULL && manager->gpu_facts.share == NULL &&
           manager->gpu_ops->order.isolate != NULL &&
           manager->gpu_ops->order.isolate(manager->gpu, manager->gpu_facts.order);
}

static void leave_dispatcher(gantry_taskman *manager)
{
    if (manager->gpu_facts.share != NULL) {
        manager->gpu_ops->share.close(manager->gpu_facts.share);
    }
    if (manager->gpu_facts.order != NULL) {
        manager->gpu_ops->order.close(manager->gpu_facts.order);
    }
    if (manager->gpu_ops != NULL) {
        manager->gpu_ops->detach(manager->gpu, &manager->gpu_user);
    }
}

gantry_status gantry_taskman_create(const gantry_taskman_options *options, gantry_taskman **out)
{
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
    if (manager->gpu != NULL) {
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
        (void)!gantry_taskman_stop(manager);
    }
    (void)!gantry_taskman_reset(manager);
    gy_names_fini(&manager->names);
    gy_graph_fini(&manager->graph);
    if (manager->gpu != NULL) {
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
    return manager != NULL && manager->fleet == NULL ? manager->gpu : NULL;
}

gantry_fleet *gantry_taskman_fleet(const gantry_taskman *manager)
{
    GY_ACCEPT_OR(NULL, TASKMAN, manager);
    return manager != NULL ? manager->fleet : NULL;
}

gantry_status gantry_taskman_get_usage(gantry_taskman *manager, gantry_share_usage *out)
{
    GY_NEED(TASKMAN, manager);
    if (manager->gpu_facts.share == NULL) {
        return GY_FAIL(GANTRY_ERR_NOT_FOUND, "gantry_taskman_get_usage: the task manager has no share");
    }
    gantry_share_usage usage;
    manager->gpu_ops->share.usage(manager->gpu_facts.share, &usage);
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
    assert(gy_taskman_is_valid(manager));
    gy_fast_lock_give(&manager->lock);
    return gy_graph_dump(&view, file);
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
    uint64_t pending = is_waiting ? manager->counted : running;
    uint64_t spawned = atomic_load(&manager->as_owner.spawned);
    uint64_t released = manager->counted + spawned > pending ? manager->counted + spawned - pending : 0;
    uint64_t names = atomic_load(&manager->resolved_names);
    gantry_taskman_stats ours = {
        .tasks = manager->submitted + spawned,
        .tasks_cpu = manager->submitted + spawned - gy_taskman_gpu_tasks(manager) - manager->submitted_sync,
        .tasks_gpu = gy_taskman_gpu_tasks(manager),
        .edges = manager->graph.edges,
        .released = released > names ? released - names : 0,
        .failed = atomic_load(&manager->failed),
        .memory_bytes = manager->graph.bytes + manager->names.bytes,
    };
    gy_fast_lock_give(&locked->lock);
    return gy_stats_export(stats, &ours, sizeof(ours), "task manager");
}
