/* SPDX-License-Identifier: MIT */
#include "samples/image_pipeline/summary.h"

#include <inttypes.h>
#include <stdio.h>

static double seconds(uint64_t ns)
{
    return (double)ns / 1e9;
}

static double milliseconds(uint64_t ns)
{
    return (double)ns / 1e6;
}

static void print_photos(const struct run *run)
{
    const size_t *counts = run->progress.counts;
    uint64_t pixels = atomic_load(&run->shared.pixels);
    double wall = seconds(run->wall_ns);
    gantry_device_info info = {.struct_size = sizeof(info)};
    bool is_emulated = gantry_context_device_info(run->context, &info) == GANTRY_OK && info.emulated;
    printf("%zu of %zu photos processed", counts[PROGRESS_DONE], run->progress.total);
    if (is_emulated) {
        printf("; the device is emulated, so the speed is not a GPU's and is not told");
    } else if (wall > 0) {
        printf(" in %.3f s", wall);
        printf(": %.1f photos/s, %.1f megapixels/s", (double)counts[PROGRESS_DONE] / wall,
               (double)pixels / 1e6 / wall);
    }
    printf("\n");
    if (counts[PROGRESS_FAILED] > 0 || counts[PROGRESS_SKIPPED] > 0) {
        printf("  not done    %zu failed, %zu not begun\n", counts[PROGRESS_FAILED],
               counts[PROGRESS_SKIPPED]);
    }
}

static void print_device(const struct run *run)
{
    gantry_device_info info = {.struct_size = sizeof(info)};
    if (gantry_context_device_info(run->context, &info) == GANTRY_OK) {
        printf("  device      %s, %s driver %d.%d\n", info.name, info.emulated ? "emulated" : "CUDA",
               info.driver_version / 1000, info.driver_version % 1000 / 10);
    }
}

static void print_tasks(const struct run *run)
{
    gantry_taskman_stats stats = {.struct_size = sizeof(stats)};
    if (gantry_taskman_get_stats(run->manager, &stats) == GANTRY_OK) {
        printf("  tasks       %" PRIu64 ": %" PRIu64 " on the CPU with %" PRIu32 " workers, %" PRIu64
               " on the device; %" PRIu64 " dependencies\n",
               stats.tasks, stats.tasks_cpu, gantry_cpu_dispatcher_worker_count(run->workers),
               stats.tasks_gpu, stats.edges);
    }
    printf("  CPU time    decode %.3f s, encode %.3f s, all workers together\n",
           seconds(atomic_load(&run->shared.decode_ns)), seconds(atomic_load(&run->shared.encode_ns)));
}

static void print_dispatcher(const struct run *run)
{
    gantry_dispatcher_stats stats = {.struct_size = sizeof(stats)};
    if (gantry_dispatcher_get_stats(gantry_context_dispatcher(run->context), &stats) != GANTRY_OK) {
        return;
    }
    printf("  dispatcher  %" PRIu64 " batches, %" PRIu64 " launch calls, %" PRIu64 " kernels, %" PRIu64
           " copies, %" PRIu64 " batched fills\n",
           stats.batches, stats.launch_calls, stats.kernels, stats.copies, stats.batched_copies);
    printf("  ordering    %" PRIu32 " streams, %" PRIu32 " at once; %" PRIu64 " waits for an event, %" PRIu64
           " implied by others; %" PRIu64 " completions\n",
           stats.streams_created, stats.streams_peak, stats.wfi_edges, stats.wfi_dropped, stats.completions);
    printf("  phases      HtoD %.3f ms, Kernel %.3f ms, DtoH %.3f ms of the dispatcher's time\n",
           milliseconds(stats.phase_ns[0]), milliseconds(stats.phase_ns[1]), milliseconds(stats.phase_ns[2]));
}

static double peak_mib(const struct run *run, gantry_memory_kind kind)
{
    gantry_heap_stats stats = {.struct_size = sizeof(stats)};
    if (gantry_heap_get_stats(run->shared.heap, kind, &stats) != GANTRY_OK) {
        return 0;
    }
    return (double)stats.peak_bytes / (1024 * 1024);
}

static void print_results(const struct run *run)
{
    printf("  memory      at most %.1f MiB on the device, %.1f MiB page-locked\n",
           peak_mib(run, GANTRY_MEMORY_DEVICE), peak_mib(run, GANTRY_MEMORY_PINNED));
    printf("  results     %s/NAME_edges.png, %s/NAME_result.png\n", run->options->output,
           run->options->output);
    if (run->shared.keep_first) {
        printf("  repeated    results of the first round written; %" PRIu64
               " later ones found equal to them, byte by byte\n",
               atomic_load(&run->shared.verified));
    }
    if (run->timeline != NULL) {
        const gantry_profile_stats *s = &run->profile_stats;
        printf("  timeline    %s: %" PRIu64 " slices, %" PRIu64 " lost", run->timeline, s->spans, s->lost);
        if (s->ctas_lost != 0) {
            printf(", and %" PRIu64 " of %" PRIu64 " blocks", s->ctas_lost, s->ctas + s->ctas_lost);
        }
        printf(" (open it with https://ui.perfetto.dev)\n");
    }
    if (run->options->graph_file != NULL) {
        printf("  graph       %s (dot -Tsvg)\n", run->options->graph_file);
    }
}

void summary_print(const struct run *run)
{
    print_photos(run);
    print_device(run);
    print_tasks(run);
    print_dispatcher(run);
    print_results(run);
}
