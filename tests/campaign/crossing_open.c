/* SPDX-License-Identifier: MIT */
/* Opens what a program needs: a context, a pool, managers, memory; and checks that nothing of it is left in
 * the end. */
#include "tests/campaign/crossing.h"

#include "crossing_kernels.kernels.h"

#include <string.h>

enum { DEVICE_LIMIT = 64 << 20 };

/* ---- opening --------------------------------------------------------------------------------- */

static void fill_partitions(const struct cross_program *p, gantry_partition_request requests[3],
                            gantry_partition_options *plan)
{
    static const char *const names[] = {"first", "second", "rest"};
    static const gantry_share half = {sizeof(half), .percent = 50};
    for (uint32_t i = 0; i < 3; i++) {
        requests[i] = (gantry_partition_request){.struct_size = sizeof(requests[i]),
                                                 .name = names[i],
                                                 .size = GANTRY_PARTITION_AT_LEAST,
                                                 .sm_count = 16};
    }
    plan->count = cross_has(p, VALUE_BORROWING) ? 3 : 2;
    requests[plan->count - 1].size = GANTRY_PARTITION_REST;
    requests[0].share = cross_has(p, VALUE_PARTITION_SHARE) ? &half : NULL;
    requests[1].borrows = cross_has(p, VALUE_BORROWING) ? names[2] : NULL;
    plan->requests = requests;
}

/* Make a context, or one on each device. */
static bool create(struct cross_run *run, const gantry_context_options *context)
{
    gantry_fleet_options options = GANTRY_FLEET_OPTIONS_INIT;
    options.devices = "0,1";
    options.context = context;
    run->devices = 1;
    if (!cross_has(run->program, VALUE_TWO_DEVICES)) {
        bool done = cross_must(run, gantry_context_create(context, &run->context), "context");
        run->contexts[0] = run->context;
        return done;
    }
    if (!cross_must(run, gantry_fleet_create(&options, &run->fleet), "fleet")) {
        return false;
    }
    run->devices = gantry_fleet_device_count(run->fleet);
    for (uint32_t d = 0; d < run->devices; d++) {
        run->contexts[d] = gantry_fleet_context(run->fleet, d);
    }
    run->context = run->contexts[0];
    return true;
}

static bool open_context(struct cross_run *run)
{
    static const uint32_t limits[] = {0, 2, 1, 0};
    static const gantry_wait_mode waits[] = {GANTRY_WAIT_HYBRID, GANTRY_WAIT_BLOCK, GANTRY_WAIT_YIELD,
                                             GANTRY_WAIT_SPIN, GANTRY_WAIT_ADAPTIVE};
    const struct cross_program *p = run->program;
    gantry_partition_request requests[3];
    gantry_partition_options plan = GANTRY_PARTITION_OPTIONS_INIT;
    gantry_heap_options heap = GANTRY_HEAP_OPTIONS_INIT;
    gantry_context_options options = GANTRY_CONTEXT_OPTIONS_INIT;
    options.driver = cross_is_device() ? GANTRY_DRIVER_CUDA : GANTRY_DRIVER_EMULATED;
    options.mode = cross_has(p, VALUE_PRIMARY) ? GANTRY_CONTEXT_PRIMARY : GANTRY_CONTEXT_OWN;
    if (cross_has(p, VALUE_ADOPTED)) {
        if (!cross_must(run, gantry_context_create(&options, &run->base), "context to adopt")) {
            return false;
        }
        options.mode = GANTRY_CONTEXT_ADOPT;
        options.adopted = gantry_context_native(run->base);
    }
    if (!cross_has(p, VALUE_WHOLE)) {
        fill_partitions(p, requests, &plan);
        options.partitions = &plan;
    }
    if (!cross_has(p, VALUE_NO_MEMORY)) {
        heap.limit_bytes[GANTRY_MEMORY_DEVICE] = DEVICE_LIMIT;
        options.heap = &heap;
    }
    int limit = p->value[FEATURE_STREAM_LIMIT] - VALUE_MANY_STREAMS;
    options.stream_limit = limits[limit];
    options.single_stream = cross_has(p, VALUE_SINGLE_STREAM);
    options.submission =
        (gantry_submission)(GANTRY_SUBMISSION_STREAMS + p->value[FEATURE_SUBMISSION] - VALUE_STREAMS);
    options.completion_wait = waits[p->value[FEATURE_GPU_WAIT] - VALUE_GPU_HYBRID];
    options.wfi = cross_has(p, VALUE_WIDE) ? GANTRY_WFI_DEVICE_WIDE : GANTRY_WFI_PRECISE;
    options.synchronous = cross_has(p, VALUE_SYNCHRONOUS);
    options.abort_on_out_of_memory = cross_has(p, VALUE_ABORT);
    return create(run, &options);
}

static bool open_cpus(struct cross_run *run)
{
    static const uint32_t counts[] = {1, 2, 4, 0, 0};
    static const gantry_wait_mode waits[] = {GANTRY_WAIT_HYBRID, GANTRY_WAIT_BLOCK, GANTRY_WAIT_YIELD,
                                             GANTRY_WAIT_SPIN, GANTRY_WAIT_ADAPTIVE};
    const struct cross_program *p = run->program;
    uint32_t one = 1;
    gantry_cpu_dispatcher_options options = GANTRY_CPU_DISPATCHER_OPTIONS_INIT;
    if (cross_has(p, VALUE_NO_POOL)) {
        return true;
    }
    options.worker_count = counts[p->value[FEATURE_WORKERS] - VALUE_ONE_WORKER];
    options.inline_only = cross_has(p, VALUE_INLINE);
    options.wait_mode = waits[p->value[FEATURE_CPU_WAIT] - VALUE_CPU_HYBRID];
    options.class_count = cross_has(p, VALUE_CLASSES) ? 1 : 0;
    options.class_limits = &one;
    return cross_must(run, gantry_cpu_dispatcher_create(&options, &run->cpus), "CPU dispatcher");
}

/* The words of the nodes, and of the things beside them: pages that nobody uses are not touched. */
static void zero(void *memory, size_t each, uint32_t nodes)
{
    memset(memory, 0, nodes * each);
    memset((uint8_t *)memory + NODES_MOST * each, 0, MANAGERS_MOST * each);
}

static bool open_memory(struct cross_run *run)
{
    size_t cells = CROSS_CELL_BYTES; /* loops have one of their own */
    size_t records = (size_t)(NODES_MOST + MANAGERS_MOST) * CROSS_RECORDS * sizeof(struct cross_record);
    gantry_alloc_site site = GANTRY_ALLOC_SITE("crossing");
    void *memory = NULL, *device = NULL;
    run->heap = gantry_context_heap(run->context);
    if (!cross_must(run,
                    gantry_heap_alloc(run->heap, GANTRY_MEMORY_PINNED, cells + records, 0, site, &memory),
                    "cells") ||
        !cross_must(run, gantry_heap_device_address(run->heap, memory, &device), "address")) {
        return false;
    }
    for (uint32_t d = 0; d < run->devices; d++) {
        run->heaps[d] = gantry_context_heap(run->contexts[d]);
        if (!cross_must(run,
                        gantry_heap_alloc(run->heaps[d], GANTRY_MEMORY_DEVICE, NODES_MOST * 64, 0, site,
                                          &run->scratches[d]),
                        "scratch")) {
            return false;
        }
    }
    zero(memory, sizeof(struct cross_cell), run->program->node_count);
    zero((uint8_t *)memory + cells, CROSS_RECORDS * sizeof(struct cross_record), run->program->node_count);
    run->cells = memory;
    run->records = (struct cross_record *)((uint8_t *)memory + cells);
    run->cells_device = device;
    run->records_device = run->cells_device + cells;
    for (uint32_t i = 0; i < run->program->node_count; i++) {
        if (run->program->nodes[i].copies == VALUE_QUEUE &&
            !cross_must(run, gantry_copy_queue_create(4, &run->queues[i]), "queue")) {
            return false;
        }
    }
    return true;
}

bool cross_open(struct cross_run *run)
{
    const struct cross_program *p = run->program;
    gantry_module *module = NULL, *first = NULL;
    if (!open_context(run) || !open_cpus(run) || !open_memory(run)) {
        return false;
    }
    for (uint32_t d = 0; d < run->devices; d++) {
        if (!cross_must(run, gantry_module_load(run->contexts[d], &gantry_image_crossing_kernels, &module),
                        "module") ||
            !cross_must(run, gantry_module_get_kernel(module, "cross", &run->kernels[d]), "kernel")) {
            return false;
        }
        first = d == 0 ? module : first;
    }
    run->kernel = run->kernels[0];
    if (!cross_beside_open(run, first)) {
        return false;
    }
    for (uint32_t m = 0; m < p->manager_count; m++) {
        gantry_taskman_options options = GANTRY_TASKMAN_OPTIONS_INIT;
        const gantry_share share = {sizeof(share), .percent = 50},
                           small = {sizeof(small), .percent = 1, .burst_ns = CROSS_SAVED_NS};
        options.cpu_dispatcher = run->cpus;
        options.gpu_dispatcher = run->fleet == NULL ? gantry_context_dispatcher(run->context) : NULL;
        options.fleet = run->fleet;
        options.dispatcher_only = cross_has(p, VALUE_THREADS_ONLY);
        options.independent_steps = cross_has(p, VALUE_FREE_STEPS);
        options.share = cross_has(p, VALUE_MANAGER_SHARE) ? &share : NULL;
        const struct cross_trouble *debt = cross_cancels(p, VALUE_CANCEL_DEBT);
        if (debt != NULL && m == debt->manager) {
            options.share = &small;
        }
        if (!cross_must(run, gantry_taskman_create(&options, &run->managers[m]), "manager")) {
            return false;
        }
    }
    if (!cross_foreign_prepare(run)) {
        cross_break(run, "no streams or events of its own");
    }
    return run->broken == NULL;
}

void cross_stats(struct cross_run *run, gantry_dispatcher_stats *sum)
{
    *sum = (gantry_dispatcher_stats){.struct_size = sizeof(*sum)};
    for (uint32_t d = 0; d < run->devices; d++) {
        gantry_dispatcher_stats one = {.struct_size = sizeof(one)};
        gantry_dispatcher *dispatcher = gantry_context_dispatcher(run->contexts[d]);
        (void)cross_must(run, gantry_dispatcher_get_stats(dispatcher, &one), "statistics");
        sum->tasks += one.tasks;
        sum->graph_launches += one.graph_launches;
        sum->graph_replays += one.graph_replays;
        sum->frees_deferred += one.frees_deferred;
        sum->frees_pending += one.frees_pending;
        sum->memory_admitted += one.memory_admitted;
        sum->memory_waited += one.memory_waited;
        sum->memory_forced += one.memory_forced;
        sum->memory_tasks_waiting += one.memory_tasks_waiting;
    }
}

/* The library may keep blocks of its own, but none that a callback has allocated. */
static void check_heap(struct cross_run *run, gantry_heap *heap)
{
    for (int kind = 0; kind < GANTRY_MEMORY_KIND_COUNT && atomic_load(&run->lost) == 0; kind++) {
        gantry_heap_tag_stats tags[16];
        size_t count = 0;
        if (gantry_heap_get_tag_stats(heap, (gantry_memory_kind)kind, tags, 16, &count) != GANTRY_OK) {
            cross_break(run, "no statistics of memory kind %d", kind);
        }
        for (size_t i = 0; i < count && i < 16; i++) {
            if (strcmp(tags[i].tag, "crossing") == 0 && tags[i].block_count != 0) {
                cross_break(run,
                            "%llu blocks of memory kind %d are left; of %u that callbacks had, %llu were "
                            "deferred, %llu are pending",
                            (unsigned long long)tags[i].block_count, kind, atomic_load(&run->heap_done),
                            (unsigned long long)run->stats.frees_deferred,
                            (unsigned long long)run->stats.frees_pending);
            }
        }
    }
}

void cross_close(struct cross_run *run)
{
    atomic_store(&run->resetting, 1);
    for (uint32_t m = 0; m < MANAGERS_MOST; m++) {
        gantry_taskman_destroy(run->managers[m]);
    }
    if (run->context != NULL) {
        cross_foreign_end(run);
    }
    gantry_cpu_dispatcher_destroy(run->cpus);
    for (uint32_t i = 0; i < NODES_MOST; i++) {
        gantry_copy_queue_destroy(run->queues[i]);
    }
    if (run->heap != NULL) {
        (void)gantry_heap_free(run->heap, run->cells);
        cross_beside_close(run);
        for (uint32_t d = 0; d < run->devices; d++) {
            (void)gantry_heap_free(run->heaps[d], run->scratches[d]);
            check_heap(run, run->heaps[d]);
        }
    }
    if (run->fleet != NULL) {
        gantry_fleet_destroy(run->fleet);
    } else {
        gantry_context_destroy(run->context);
    }
    gantry_context_destroy(run->base);
}
