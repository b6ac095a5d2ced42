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
    for (uint32_t i = 0; i < 3; i++) {
        requests[i] = (gantry_partition_request){.struct_size = sizeof(requests[i]),
                                                 .name = names[i],
                                                 .size = GANTRY_PARTITION_AT_LEAST,
                                                 .sm_count = 16};
    }
    plan->count = cross_has(p, VALUE_BORROWING) ? 3 : 2;
    requests[plan->count - 1].size = GANTRY_PARTITION_REST;
    requests[0].share.percent = cross_has(p, VALUE_PARTITION_SHARE) ? 50 : 0;
    requests[1].borrows = cross_has(p, VALUE_BORROWING) ? names[2] : NULL;
    plan->requests = requests;
}

static bool open_context(struct cross_run *run)
{
    static const uint32_t limits[] = {0, 2, 1, 0}, launchers[] = {1, 2, 4};
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
    options.launch_threads = launchers[p->value[FEATURE_LAUNCHERS] - VALUE_ONE_LAUNCHER];
    options.abort_on_out_of_memory = cross_has(p, VALUE_ABORT);
    return cross_must(run, gantry_context_create(&options, &run->context), "context");
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
    size_t cells = (NODES_MOST + MANAGERS_MOST) * sizeof(struct cross_cell); /* loops have one of their own */
    size_t records = (size_t)(NODES_MOST + MANAGERS_MOST) * CROSS_RECORDS * sizeof(struct cross_record);
    gantry_alloc_site site = GANTRY_ALLOC_SITE("crossing");
    void *memory = NULL, *device = NULL;
    run->heap = gantry_context_heap(run->context);
    if (!cross_must(run,
                    gantry_heap_alloc(run->heap, GANTRY_MEMORY_PINNED, cells + records, 0, site, &memory),
                    "cells") ||
        !cross_must(run, gantry_heap_device_address(run->heap, memory, &device), "address") ||
        !cross_must(
            run, gantry_heap_alloc(run->heap, GANTRY_MEMORY_DEVICE, NODES_MOST * 64, 0, site, &run->scratch),
            "scratch")) {
        return false;
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
    gantry_module *module = NULL;
    if (!open_context(run) || !open_cpus(run) || !open_memory(run) ||
        !cross_must(run, gantry_module_load(run->context, &gantry_image_crossing_kernels, &module),
                    "module") ||
        !cross_must(run, gantry_module_get_kernel(module, "cross", &run->kernel), "kernel") ||
        !cross_beside_open(run, module)) {
        return false;
    }
    for (uint32_t m = 0; m < p->manager_count; m++) {
        gantry_taskman_options options = GANTRY_TASKMAN_OPTIONS_INIT;
        const gantry_share share = {.percent = 50}, small = {.percent = 1, .burst_ns = 15000000};
        options.cpu_dispatcher = run->cpus;
        options.gpu_dispatcher = gantry_context_dispatcher(run->context);
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

/* The library may keep blocks of its own, but none that a callback has allocated. */
static void check_heap(struct cross_run *run)
{
    for (int kind = 0; kind < GANTRY_MEMORY_KIND_COUNT && atomic_load(&run->lost) == 0; kind++) {
        gantry_heap_tag_stats tags[16];
        size_t count = 0;
        if (gantry_heap_get_tag_stats(run->heap, (gantry_memory_kind)kind, tags, 16, &count) != GANTRY_OK) {
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
        (void)gantry_heap_free(run->heap, run->scratch);
        cross_beside_close(run);
        check_heap(run);
    }
    gantry_context_destroy(run->context);
    gantry_context_destroy(run->base);
}
