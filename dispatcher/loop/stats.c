/* SPDX-License-Identifier: MIT */
#include "dispatcher/loop/stats.h"

#include "base/clock.h"
#include "base/handle.h"
#include "base/options.h"
#include "dispatcher/internal.h"

void gy_gd_read_batch(struct gantry_dispatcher *d, gantry_batch_stats *now)
{
    now->tasks = atomic_load_explicit(&d->counters.tasks, memory_order_relaxed);
    now->launch_calls = atomic_load_explicit(&d->counters.launch_calls, memory_order_relaxed);
    now->wfi_edges = atomic_load_explicit(&d->streams.counts.waits, memory_order_relaxed);
    now->as_graph = (uint32_t)(atomic_load_explicit(&d->graphs.counts.launches, memory_order_relaxed) +
                               atomic_load_explicit(&d->counters.replays, memory_order_relaxed));
    for (int phase = 0; phase < GD_PHASES; phase++) {
        now->phase_ns[phase] = atomic_load_explicit(&d->counters.phase_ns[phase], memory_order_relaxed);
        now->phase_tasks[phase] = atomic_load_explicit(&d->counters.phase_tasks[phase], memory_order_relaxed);
    }
    now->ns = gy_clock_ns();
}

void gy_gd_end_batch(struct gantry_dispatcher *d, const gantry_batch_stats *before, gantry_batch_stats *now)
{
    gy_gd_read_batch(d, now);
    now->number = atomic_load_explicit(&d->counters.batches, memory_order_relaxed);
    now->tasks -= before->tasks;
    now->launch_calls -= before->launch_calls;
    now->wfi_edges -= before->wfi_edges;
    now->as_graph = now->as_graph != before->as_graph;
    now->ns -= before->ns;
    for (int phase = 0; phase < GD_PHASES; phase++) {
        now->phase_ns[phase] -= before->phase_ns[phase];
        now->phase_tasks[phase] -= before->phase_tasks[phase];
    }
    gy_mutex_lock(&d->batch.lock);
    d->batch.latest = *now;
    gy_mutex_unlock(&d->batch.lock);
}

static uint64_t read_counter(const _Atomic(uint64_t) *counter)
{
    return atomic_load_explicit(counter, memory_order_relaxed);
}

static void read_completions(const gantry_dispatcher *d, gantry_dispatcher_stats *out)
{
    const struct gy_completion_counts counts = gy_replan_count_completions((gantry_dispatcher *)d);
    out->completion_looks = counts.looks;
    out->completion_naps = counts.naps;
    out->completion_awaited = counts.awaited;
    out->completion_unseen_ns = counts.unseen_ns;
}

gantry_status gantry_dispatcher_get_stats(const gantry_dispatcher *dispatcher, gantry_dispatcher_stats *stats)
{
    GY_NEED(DISPATCHER, dispatcher);
    const struct gd_counters *c = &dispatcher->counters;
    const struct gy_streams *s = &dispatcher->streams;
    gantry_dispatcher_stats now = {
        .struct_size = sizeof(now),
        .tasks = read_counter(&c->tasks),
        .tasks_failed = read_counter(&c->tasks_failed),
        .batches = read_counter(&c->batches),
        .launch_calls = read_counter(&c->launch_calls),
        .kernels = read_counter(&c->works[GD_KERNELS]),
        .copies = read_counter(&c->works[GD_COPIES]),
        .batched_copies = read_counter(&c->works[GD_BATCHED_COPIES]),
        .wfi_edges = read_counter(&s->counts.waits),
        .wfi_dropped = read_counter(&s->counts.dropped),
        .events_recorded = read_counter(&s->counts.recorded),
        .completions = read_counter(&c->completions),
        .flushes = read_counter(&c->flushes),
        .streams_created = atomic_load_explicit(&s->created, memory_order_relaxed),
        .streams_peak = atomic_load_explicit(&s->counts.peak, memory_order_relaxed),
    };
    now.peer_copies = read_counter(&c->works[GD_PEER_COPIES]);
    now.staged_copies = read_counter(&c->staged_copies);
    now.peer_by_engine = read_counter(&c->works[GD_BETWEEN + GY_COPY_BY_ENGINE]);
    now.peer_by_kernel = read_counter(&c->works[GD_BETWEEN + GY_COPY_BY_KERNEL]);
    now.peer_bytes_by_engine = read_counter(&c->works[GD_BETWEEN_BYTES + GY_COPY_BY_ENGINE]);
    now.peer_bytes_by_kernel = read_counter(&c->works[GD_BETWEEN_BYTES + GY_COPY_BY_KERNEL]);
    now.peer_bytes_by_host = read_counter(&c->works[GD_BETWEEN_BYTES + GY_COPY_BY_HOST]);
    now.frees_deferred = read_counter(&dispatcher->deferred.deferred);
    now.frees_reused = read_counter(&dispatcher->deferred.reused);
    /* A caller that reads 0 sees that all of them are free. */
    now.frees_pending = atomic_load_explicit(&dispatcher->deferred.pending, memory_order_acquire);
    for (int phase = 0; phase < GD_PHASES; phase++) {
        now.phase_ns[phase] = read_counter(&c->phase_ns[phase]);
        now.phase_tasks[phase] = read_counter(&c->phase_tasks[phase]);
    }
    now.graph_launches = read_counter(&dispatcher->graphs.counts.launches);
    const struct gy_kept_counts *kept = &dispatcher->graphs.kept.counts;
    now.graph_instantiations = read_counter(&kept->made);
    now.graph_nodes = read_counter(&dispatcher->graphs.counts.launched_nodes);
    now.graph_patches = read_counter(&kept->hits);
    now.graph_nodes_kept = read_counter(&kept->nodes_hit);
    now.graph_nodes_set = read_counter(&kept->nodes_set);
    now.graphs_kept = read_counter(&kept->count);
    now.graphs_kept_nodes = read_counter(&kept->node_count);
    now.graph_cuts = read_counter(&dispatcher->graphs.counts.cuts);
    now.graph_plays = read_counter(&dispatcher->graphs.counts.plays);
    const struct gy_admission *a = &dispatcher->admission;
    now.memory_admitted = read_counter(&a->admitted);
    now.memory_waited = read_counter(&a->waited);
    now.memory_forced = read_counter(&a->forced);
    now.memory_wait_ns = read_counter(&a->wait_ns);
    now.memory_tasks_waiting = read_counter(&a->stall.waiting);
    for (int kind = 0; kind < GANTRY_MEMORY_KIND_COUNT; kind++) {
        now.memory_held_bytes[kind] = read_counter(&a->held_bytes[kind]);
    }
    now.graph_replays = read_counter(&c->replays);
    read_completions(dispatcher, &now);
    return gy_stats_export(stats, &now, sizeof(now), "gantry_dispatcher_get_stats");
}

gantry_status gantry_dispatcher_get_batch_stats(gantry_dispatcher *dispatcher, gantry_batch_stats *stats)
{
    GY_NEED(DISPATCHER, dispatcher);
    gy_mutex_lock(&dispatcher->batch.lock);
    struct gantry_batch_stats batch = dispatcher->batch.latest;
    gy_mutex_unlock(&dispatcher->batch.lock);
    return gy_stats_export(stats, &batch, sizeof(batch), "gantry_dispatcher_get_batch_stats");
}

gantry_status gantry_task_get_launch_stats(gantry_task *task, gantry_task_launch_stats *stats)
{
    GY_ACCEPT(TASK, task);
    if (task == NULL || gantry_task_get_kind(task) < GANTRY_TASK_HTOD) {
        return GY_FAIL(GANTRY_ERR_INVALID_ARGUMENT, "gantry_task_get_launch_stats: %s",
                       task == NULL ? "task is NULL" : "not a GPU task");
    }
    if (gantry_task_get_state(task) < GANTRY_TASK_STATE_DONE) {
        return GY_FAIL(GANTRY_ERR_STATE, "gantry_task_get_launch_stats: '%s' is not released yet",
                       gantry_task_label(task));
    }
    gantry_task_launch_stats now = {sizeof(now), task->launch_index, task->stream};
    return gy_stats_export(stats, &now, sizeof(now), "gantry_task_get_launch_stats");
}
