/* SPDX-License-Identifier: MIT */
/* A report as text, as JSON, and as the difference of two. */
#include "cli/report_print.h"

#include "cli/command.h"

#include <inttypes.h>
#include <stdio.h>
#include <string.h>

static const char *const phase_names[3] = {"HtoD", "Kernel", "DtoH"};

static double ms(uint64_t ns)
{
    return (double)ns / 1e6;
}

static double share(uint64_t part, uint64_t whole)
{
    return whole != 0 ? 100.0 * (double)part / (double)whole : 0;
}

/* ---- text -------------------------------------------------------------------------------------- */

static void print_partitions(const struct trace *trace, const struct report *r, uint64_t gpu_ns)
{
    for (size_t i = 0; i < r->partition_count; i++) {
        const struct report_partition *p = &r->partitions[i];
        printf("  ");
        cli_print_text(stdout, p->name[0] != '\0' ? p->name : trace->tracks[p->gpu].name, 34, 34);
        printf(" %10.3f ms (%5.1f %%), %" PRIu64 " tasks on %u streams, idle %.3f ms in %" PRIu64
               " gaps, the largest %.3f ms\n",
               ms(p->ns), share(p->ns, gpu_ns), p->tasks, p->streams, ms(p->gap_ns), p->gaps,
               ms(p->largest_gap_ns));
        for (size_t s = 0; s < r->stream_count; s++) {
            const struct report_stream *stream = &r->streams[s];
            size_t bytes = strlen(p->name);
            bool is_mine =
                stream->gpu == p->gpu && (bytes == 0 ? strstr(stream->name, " / ") == NULL
                                                     : strncmp(stream->name, p->name, bytes) == 0 &&
                                                           strncmp(stream->name + bytes, " / ", 3) == 0);
            if (is_mine) {
                printf("    ");
                cli_print_text(stdout, stream->name, 32, CLI_ANY_LENGTH);
                printf(" %10.3f ms (%5.1f %%), %" PRIu64 " tasks\n", ms(stream->ns),
                       share(stream->ns, gpu_ns), stream->tasks);
            }
        }
    }
}

static void print_gpu(const struct trace *trace, const struct report *r)
{
    uint64_t gpu_ns = r->gpu.end_ns - r->gpu.begin_ns;
    printf("GPU busy       %10.3f ms of %.3f ms between its first and last task (%.1f %%), %" PRIu64
           " tasks\n",
           ms(r->gpu.busy_ns), ms(gpu_ns), share(r->gpu.busy_ns, gpu_ns), r->gpu.tasks);
    if (r->gpu.batches > 0) {
        printf("GPU batches    %10.3f ms on average, %" PRIu64
               " of them; the longest %.3f ms, number %" PRIu64 "\n",
               ms(r->gpu.batch_ns) / (double)r->gpu.batches, r->gpu.batches, ms(r->gpu.longest_batch_ns),
               r->gpu.longest_batch);
    }
    print_partitions(trace, r, gpu_ns);
    if (r->sms.count > 0) {
        uint64_t mean = r->sms.sum_ns / r->sms.count;
        printf("SMs            %zu seen; busy %.1f %% on average, %.1f %% least, %.1f %% most\n",
               r->sms.count, share(mean, gpu_ns), share(r->sms.least_ns, gpu_ns),
               share(r->sms.most_ns, gpu_ns));
    }
    printf("idle gaps      %" PRIu64 ", %.3f ms together, the largest %.3f ms\n", r->idle.gaps,
           ms(r->idle.gap_ns), ms(r->idle.largest_ns));
}

static void print_causes(const struct trace *trace, const struct report *r)
{
    for (int c = 0; c < REPORT_CAUSES_OF_ALL; c++) {
        if (r->idle.cause_count[c] != 0) {
            printf("  %-24s %6" PRIu64 ", %.3f ms\n", cli_report_cause((enum report_cause)c),
                   r->idle.cause_count[c], ms(r->idle.cause_ns[c]));
        }
        for (size_t i = 0; c == REPORT_HOST_TASK && i < r->host_task_count; i++) {
            printf("    ");
            cli_print_text(stdout, trace->names[r->host_tasks[i].name], 22, 22);
            printf(" %6" PRIu64 ", %.3f ms\n", r->host_tasks[i].gaps, ms(r->host_tasks[i].ns));
        }
    }
}

static void print_quality(const struct trace *trace, const struct report *r)
{
    if (!trace->is_complete) {
        printf("not complete   the end is missing: of a killed program up to its last second\n");
    }
    printf("lost           %" PRIu64 " slices, %" PRIu64 " of %" PRIu64 " blocks\n", r->records.slices_lost,
           r->records.ctas_lost, r->records.ctas + r->records.ctas_lost);
    if (r->records.ctas_taken != 0) {
        printf("taken over     %" PRIu64 " blocks, by blocks of %" PRIu64 " that steal\n",
               r->records.ctas_taken, r->records.ctas);
    }
    if (r->records.gpu_unfinished != 0) {
        printf("               %" PRIu64
               " of the slices are GPU tasks that had not ended when the recording did\n",
               r->records.gpu_unfinished);
    }
    if (r->gpu.tasks != 0) {
        printf("clocks         GPU tasks within %" PRIu64 " ns of the host's", r->precision.gpu_ns);
        if (r->records.ctas != 0) {
            printf(", blocks within %" PRIu64 " ns, clock step %" PRIu64 " ns", r->precision.cta_ns,
                   r->precision.tick_ns);
        }
        if (r->precision.sm_ns != 0) {
            printf(", SMs within %" PRIu64 " ns of each other", r->precision.sm_ns);
        }
        printf("\n");
    }
}

static void print_rows(const struct trace *trace, const struct report_kernel *rows, size_t count, bool tasks)
{
    printf("\n%-28s %8s %12s %12s %12s %12s%s\n", tasks ? "GPU task" : "kernel", "count", "total ms",
           "mean us", "least us", "most us", tasks ? "" : "   blocks");
    for (size_t i = 0; i < count; i++) {
        const struct report_kernel *k = &rows[i];
        cli_print_text(stdout, trace->names[k->name], 28, 28);
        printf(" %8" PRIu64 " %12.3f %12.3f %12.3f %12.3f", k->count, ms(k->total_ns),
               (double)k->total_ns / 1e3 / (double)k->count, (double)k->least_ns / 1e3,
               (double)k->most_ns / 1e3);
        if (!tasks) {
            printf(" %8" PRIu64, k->ctas);
        }
        printf("\n");
    }
}

/* Where kernels have records of blocks, the tasks follow, since other kernels may have none. */
static void print_kernels(const struct trace *trace, const struct report *r)
{
    print_rows(trace, r->kernels.list, r->kernels.count, r->kernels.are_tasks);
    if (r->labels.count != 0) {
        printf("\nAll GPU tasks by label, also those whose kernels leave no records of blocks:\n");
        print_rows(trace, r->labels.list, r->labels.count, true);
    }
    if (r->labels.left != 0) {
        printf("and %zu labels more\n", r->labels.left);
    }
}

/* The cause of most of the idle time. */
static enum report_cause main_cause(const struct report *r)
{
    int most = 0;
    for (int c = 1; c < REPORT_CAUSES_OF_ALL; c++) {
        most = r->idle.cause_ns[c] > r->idle.cause_ns[most] ? c : most;
    }
    return (enum report_cause)most;
}

bool cli_report_is_emulated(const struct trace *trace, const struct report *r)
{
    return r->partition_count > 0 &&
           strstr(trace->tracks[r->partitions[0].gpu].name, "Gantry emulated ") != NULL;
}

/* The most important results, as sentences. */
static void print_headline(const struct trace *trace, const struct report *r)
{
    if (r->records.ctas_lost != 0) {
        printf("%" PRIu64 " of %" PRIu64 " blocks are missing: give the recording more buffers "
               "(GANTRY_PROFILE_OPTIONS=buffers=..., options.buffers).\n",
               r->records.ctas_lost, r->records.ctas + r->records.ctas_lost);
    }
    if (r->gpu.tasks == 0) {
        printf("No GPU task was recorded.\n");
        return;
    }
    if (cli_report_is_emulated(trace, r)) {
        printf("The device was emulated: its times say nothing about a GPU.\n");
    }
    uint64_t gpu_ns = r->gpu.end_ns - r->gpu.begin_ns;
    printf("The GPU was busy for %.1f %% of the %.3f ms between its first task and its last.\n",
           share(r->gpu.busy_ns, gpu_ns), ms(gpu_ns));
    if (r->idle.gaps > 0) {
        enum report_cause cause = main_cause(r);
        printf("It was idle for %.3f ms.  The main cause: %s, %.3f ms", ms(r->idle.gap_ns),
               cli_report_cause(cause), ms(r->idle.cause_ns[cause]));
        if (cause == REPORT_HOST_TASK && r->host_task_count > 0) {
            printf(" (most for ");
            cli_print_text(stdout, trace->names[r->host_tasks[0].name], 0, 28);
            printf(")");
        }
        printf(".\n");
    }
}

void cli_report_text(const char *path, const struct trace *trace, const struct report *r)
{
    printf("%s: %.3f ms\n\n", path, ms(r->end_ns - r->begin_ns));
    print_headline(trace, r);
    print_kernels(trace, r);
    cli_report_ranges_text(trace, r);
    printf("\n");
    print_gpu(trace, r);
    print_causes(trace, r);
    cli_report_gpus_text(trace, r);
    cli_report_tenants_text(trace, &r->tenants);
    printf("CPU tasks      %10.3f ms in %" PRIu64 "\n", ms(r->host.task_ns), r->host.tasks);
    printf("dispatcher     %10.3f ms in %" PRIu64 " batches:",
           ms(r->host.phase_ns[0] + r->host.phase_ns[1] + r->host.phase_ns[2]), r->host.batches);
    for (int p = 0; p < 3; p++) {
        printf(" %s %.3f ms%s", phase_names[p], ms(r->host.phase_ns[p]), p < 2 ? "," : "\n");
    }
    if (r->copies.count != 0) {
        printf("batched copies %10" PRIu64 " in %" PRIu64
               " launches: %.3f MB to the device, %.3f MB to the host, "
               "%.3f MB on the device\n",
               r->copies.count, r->copies.launches, (double)r->copies.bytes[0] / 1e6,
               (double)r->copies.bytes[1] / 1e6, (double)r->copies.bytes[2] / 1e6);
    }
    printf("launches       %10.3f ms in %" PRIu64 " calls\n", ms(r->host.launch_ns), r->host.launches);
    print_quality(trace, r);
}

/* ---- JSON -------------------------------------------------------------------------------------- */

static void print_rows_json(const struct trace *trace, const struct report_kernel *rows, size_t count,
                            bool has_blocks)
{
    for (size_t i = 0; i < count; i++) {
        const struct report_kernel *k = &rows[i];
        printf("%s{\"name\":", i == 0 ? "" : ",");
        cli_json_string(stdout, trace->names[k->name]);
        printf(",\"count\":%" PRIu64 ",\"total_ns\":%" PRIu64 ",\"least_ns\":%" PRIu64
               ",\"most_ns\":%" PRIu64,
               k->count, k->total_ns, k->least_ns, k->most_ns);
        if (has_blocks) {
            printf(",\"ctas\":%" PRIu64, k->ctas);
        }
        printf("}");
    }
}

static void print_kernels_json(const struct trace *trace, const struct report *r)
{
    printf("\"kernels_are_tasks\":%s,\"kernels\":[", r->kernels.are_tasks ? "true" : "false");
    print_rows_json(trace, r->kernels.list, r->kernels.count, true);
    printf("],\"gpu_labels\":[");
    print_rows_json(trace, r->labels.list, r->labels.count, false);
    printf("],\"gpu_labels_left\":%zu", r->labels.left);
}

static void print_sms_json(const struct report *r)
{
    printf("\"sms\":{\"count\":%zu,\"busy_sum_ns\":%" PRIu64 ",\"least_ns\":%" PRIu64 ",\"most_ns\":%" PRIu64
           ",\"each\":[",
           r->sms.count, r->sms.sum_ns, r->sms.least_ns, r->sms.most_ns);
    for (size_t i = 0; i < r->sms.count; i++) {
        printf("%s{\"sm\":%d,\"busy_ns\":%" PRIu64, i == 0 ? "" : ",", r->sms.list[i].number,
               r->sms.list[i].ns);
        if (r->sms.list[i].alignment_ns != UINT64_MAX) {
            printf(",\"alignment_ns\":%" PRIu64, r->sms.list[i].alignment_ns);
        }
        printf("}");
    }
    printf("]},");
}

static void print_places_json(const struct trace *trace, const struct report *r)
{
    printf("\"partitions\":[");
    for (size_t i = 0; i < r->partition_count; i++) {
        const struct report_partition *p = &r->partitions[i];
        printf("%s{\"name\":", i == 0 ? "" : ",");
        cli_json_string(stdout, p->name);
        printf(",\"gpu\":");
        cli_json_string(stdout, trace->tracks[p->gpu].name);
        printf(",\"busy_ns\":%" PRIu64 ",\"tasks\":%" PRIu64 ",\"streams\":%u,\"gaps\":{\"count\":%" PRIu64
               ",\"total_ns\":%" PRIu64 ",\"largest_ns\":%" PRIu64 "}}",
               p->ns, p->tasks, p->streams, p->gaps, p->gap_ns, p->largest_gap_ns);
    }
    printf("],\"streams\":[");
    for (size_t i = 0; i < r->stream_count; i++) {
        printf("%s{\"name\":", i == 0 ? "" : ",");
        cli_json_string(stdout, r->streams[i].name);
        printf(",\"gpu\":");
        cli_json_string(stdout, trace->tracks[r->streams[i].gpu].name);
        printf(",\"busy_ns\":%" PRIu64 ",\"tasks\":%" PRIu64 "}", r->streams[i].ns, r->streams[i].tasks);
    }
    printf("],");
    print_sms_json(r);
}

void cli_report_json(const char *path, const struct trace *trace, const struct report *r)
{
    printf("{\"file\":");
    cli_json_string(stdout, path);
    printf(",\"complete\":%s,\"span_ns\":%" PRIu64 ",\"cpu_tasks\":%" PRIu64 ",\"cpu_task_ns\":%" PRIu64
           ",\"batches\":%" PRIu64 ",\"launches\":%" PRIu64 ",\"launch_ns\":%" PRIu64 ",",
           trace->is_complete ? "true" : "false", r->end_ns - r->begin_ns, r->host.tasks, r->host.task_ns,
           r->host.batches, r->host.launches, r->host.launch_ns);
    printf("\"phase_ns\":{\"htod\":%" PRIu64 ",\"kernel\":%" PRIu64 ",\"dtoh\":%" PRIu64 "},",
           r->host.phase_ns[0], r->host.phase_ns[1], r->host.phase_ns[2]);
    printf("\"gpu\":{\"tasks\":%" PRIu64 ",\"span_ns\":%" PRIu64 ",\"busy_ns\":%" PRIu64
           ",\"batches\":%" PRIu64 ",\"batch_ns\":%" PRIu64 ",\"longest_batch_ns\":%" PRIu64
           ",\"longest_batch\":%" PRIu64 "},",
           r->gpu.tasks, r->gpu.end_ns - r->gpu.begin_ns, r->gpu.busy_ns, r->gpu.batches, r->gpu.batch_ns,
           r->gpu.longest_batch_ns, r->gpu.longest_batch);
    print_places_json(trace, r);
    cli_report_gpus_json(trace, r);
    printf("\"gaps\":{\"count\":%" PRIu64 ",\"total_ns\":%" PRIu64 ",\"largest_ns\":%" PRIu64, r->idle.gaps,
           r->idle.gap_ns, r->idle.largest_ns);
    for (int c = 0; c < REPORT_CAUSES_OF_ALL; c++) {
        printf(",\"%s\":{\"count\":%" PRIu64 ",\"ns\":%" PRIu64 "}",
               cli_report_cause_key((enum report_cause)c), r->idle.cause_count[c], r->idle.cause_ns[c]);
    }
    printf(",\"host_tasks\":[");
    for (size_t i = 0; i < r->host_task_count; i++) {
        printf("%s{\"name\":", i == 0 ? "" : ",");
        cli_json_string(stdout, trace->names[r->host_tasks[i].name]);
        printf(",\"count\":%" PRIu64 ",\"ns\":%" PRIu64 "}", r->host_tasks[i].gaps, r->host_tasks[i].ns);
    }
    printf("]},\"memory\":{\"waits\":%" PRIu64 ",\"ns\":%" PRIu64 "},", r->host.memory_waits,
           r->host.memory_ns);
    printf("\"lost\":{\"slices\":%" PRIu64 ",\"ctas\":%" PRIu64 ",\"gpu_unfinished\":%" PRIu64
           "},\"gpu_alignment_ns\":%" PRIu64 ",",
           r->records.slices_lost, r->records.ctas_lost, r->records.gpu_unfinished, r->precision.gpu_ns);
    printf("\"ctas\":{\"recorded\":%" PRIu64 ",\"lost\":%" PRIu64 ",\"taken\":%" PRIu64
           ",\"alignment_ns\":%" PRIu64 ",\"sm_alignment_ns\":%" PRIu64 ",\"tick_ns\":%" PRIu64
           ",\"largest_shift_ns\":%" PRIu64 "},",
           r->records.ctas, r->records.ctas_lost, r->records.ctas_taken, r->precision.cta_ns,
           r->precision.sm_ns, r->precision.tick_ns, r->precision.shift_ns);
    printf("\"copies\":{\"launches\":%" PRIu64 ",\"count\":%" PRIu64 ",\"bytes_to_device\":%" PRIu64
           ",\"bytes_to_host\":%" PRIu64 ",\"bytes_on_device\":%" PRIu64 "},",
           r->copies.launches, r->copies.count, r->copies.bytes[0], r->copies.bytes[1], r->copies.bytes[2]);
    cli_report_ranges_json(trace, r);
    print_kernels_json(trace, r);
    printf(",");
    cli_report_tenants_json(trace, &r->tenants, stdout);
    printf("}");
}

/* ---- the difference of two runs ---------------------------------------------------------------- */

static void print_change(const char *what, uint64_t before_ns, uint64_t after_ns)
{
    cli_print_text(stdout, what, 28, 28);
    printf(" %12.3f %12.3f ", ms(before_ns), ms(after_ns));
    if (before_ns == 0 && after_ns != 0) {
        printf("%13s\n", "new");
        return;
    }
    printf("%+11.1f %%\n",
           before_ns != 0 ? 100.0 * ((double)after_ns - (double)before_ns) / (double)before_ns : 0);
}

static const struct report_kernel *kernel_called(const struct trace *trace, const struct report *r,
                                                 const char *name)
{
    for (size_t i = 0; i < r->kernels.count; i++) {
        if (strcmp(trace->names[r->kernels.list[i].name], name) == 0) {
            return &r->kernels.list[i];
        }
    }
    return NULL;
}

void cli_report_diff(const struct trace *before, const struct report *b, const struct trace *after,
                     const struct report *a)
{
    printf("%-28s %12s %12s %13s\n", "", "before ms", "after ms", "change");
    print_change("whole recording", b->end_ns - b->begin_ns, a->end_ns - a->begin_ns);
    print_change("CPU tasks", b->host.task_ns, a->host.task_ns);
    print_change("launches", b->host.launch_ns, a->host.launch_ns);
    for (int p = 0; p < 3; p++) {
        char name[32];
        snprintf(name, sizeof(name), "dispatcher, %s", phase_names[p]);
        print_change(name, b->host.phase_ns[p], a->host.phase_ns[p]);
    }
    print_change("GPU busy", b->gpu.busy_ns, a->gpu.busy_ns);
    print_change("GPU idle", b->idle.gap_ns, a->idle.gap_ns);
    for (int c = 0; c < REPORT_CAUSES_OF_ALL; c++) {
        char name[40];
        snprintf(name, sizeof(name), "  %s", cli_report_cause((enum report_cause)c));
        print_change(name, b->idle.cause_ns[c], a->idle.cause_ns[c]);
    }
    for (size_t i = 0; i < b->partition_count && b->partition_count > 1; i++) {
        const struct report_partition *same = NULL;
        for (size_t j = 0; j < a->partition_count; j++) {
            same = strcmp(a->partitions[j].name, b->partitions[i].name) == 0 ? &a->partitions[j] : same;
        }
        const char *name = b->partitions[i].name[0] != '\0' ? b->partitions[i].name : "no partition";
        print_change(name, b->partitions[i].ns, same != NULL ? same->ns : 0);
    }
    for (size_t i = 0; i < b->kernels.count; i++) {
        const char *name = before->names[b->kernels.list[i].name];
        const struct report_kernel *same = kernel_called(after, a, name);
        print_change(name, b->kernels.list[i].total_ns, same != NULL ? same->total_ns : 0);
    }
    for (size_t i = 0; i < a->kernels.count; i++) {
        const char *name = after->names[a->kernels.list[i].name];
        if (kernel_called(before, b, name) == NULL) {
            print_change(name, 0, a->kernels.list[i].total_ns);
        }
    }
}
