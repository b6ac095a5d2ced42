/* SPDX-License-Identifier: MIT */
/* The devices of a recording, one by one: how busy each was, and what kept it idle. */
#include "cli/report_stats.h"

#include "cli/command.h"

#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

int cli_report_ordinal(const struct trace *trace, uint32_t gpu)
{
    int ordinal = -1;
    return sscanf(trace->tracks[gpu].name, "GPU %d:", &ordinal) == 1 ? ordinal : -1;
}

/* NULL: there are too many. */
static struct report_gpu *gpu_of(struct report *report, uint32_t track)
{
    size_t g = 0;
    while (g < report->gpu_count && report->gpus[g].track != track) {
        g++;
    }
    if (g == report->gpu_count && g < REPORT_GPUS) {
        report->gpus[report->gpu_count++] = (struct report_gpu){.track = track};
    }
    return g < REPORT_GPUS ? &report->gpus[g] : NULL;
}

/* By their numbers, whichever began first. */
static void list_gpus(const struct trace *trace, struct report *report)
{
    for (size_t i = 0; i < trace->slice_count; i++) {
        const struct trace_track *track = &trace->tracks[trace->slices[i].track];
        if (track->kind == TRACE_QUEUE) {
            (void)gpu_of(report, track->parent);
        }
    }
    for (size_t g = 1; g < report->gpu_count; g++) {
        const struct report_gpu gpu = report->gpus[g];
        const int ordinal = cli_report_ordinal(trace, gpu.track);
        size_t to = g;
        for (; to > 0 && cli_report_ordinal(trace, report->gpus[to - 1].track) > ordinal; to--) {
            report->gpus[to] = report->gpus[to - 1];
        }
        report->gpus[to] = gpu;
    }
}

/* What the recording says of each device's clock. */
static void read_clocks(const struct trace *trace, struct report *report)
{
    for (size_t i = 0; i < trace->mark_count; i++) {
        const struct trace_slice *m = &trace->marks[i];
        for (size_t g = 0; g < report->gpu_count; g++) {
            if (strcmp(trace->tracks[m->track].name, "recording") == 0 &&
                strcmp(trace->names[m->name], trace->tracks[report->gpus[g].track].name) == 0) {
                report->gpus[g].alignment_ns = cli_trace_argument(trace, m, TRACE_ALIGNMENT, 0);
            }
        }
    }
}

bool cli_report_gpus(const struct trace *trace, struct report *report, struct intervals *busy)
{
    bool good = true;
    list_gpus(trace, report);
    for (size_t i = 0; i < trace->slice_count && good; i++) {
        const struct trace_slice *s = &trace->slices[i];
        struct report_gpu *gpu = trace->tracks[s->track].kind == TRACE_QUEUE
                                     ? gpu_of(report, trace->tracks[s->track].parent)
                                     : NULL;
        if (gpu != NULL) {
            gpu->tasks++;
            good = cli_intervals_add(&busy[gpu - report->gpus], s->begin_ns, s->end_ns, s->name);
        }
    }
    for (size_t g = 0; g < report->gpu_count; g++) {
        report->gpus[g].ns = cli_intervals_unite(&busy[g]);
    }
    read_clocks(trace, report);
    return good;
}

static int by_gpu_and_time(const void *a, const void *b)
{
    const struct report_start *x = a, *y = b;
    return x->gpu != y->gpu ? (x->gpu < y->gpu ? -1 : 1) : x->time < y->time ? -1 : x->time > y->time;
}

bool cli_report_starts(const struct trace *trace, struct report_starts *out)
{
    out->count = 0;
    out->at = calloc(trace->slice_count + 1, sizeof(*out->at));
    for (size_t i = 0; i < trace->slice_count && out->at != NULL; i++) {
        const struct trace_slice *s = &trace->slices[i];
        const uint64_t after =
            trace->tracks[s->track].kind == TRACE_QUEUE ? cli_trace_argument(trace, s, TRACE_AFTER, 0) : 0;
        if (after != 0) {
            out->at[out->count++] = (struct report_start){s->begin_ns, after, trace->tracks[s->track].parent};
        }
    }
    if (out->count > 0) {
        qsort(out->at, out->count, sizeof(*out->at), by_gpu_and_time);
    }
    return out->at != NULL;
}

uint64_t cli_report_after(const struct report_starts *starts, uint32_t gpu, uint64_t time)
{
    const struct report_start wanted = {.gpu = gpu, .time = time};
    size_t low = 0, high = starts->count;
    uint64_t after = 0;
    while (low < high) {
        const size_t middle = low + (high - low) / 2;
        if (by_gpu_and_time(&starts->at[middle], &wanted) < 0) {
            low = middle + 1;
        } else {
            high = middle;
        }
    }
    for (; low < starts->count && by_gpu_and_time(&starts->at[low], &wanted) == 0; low++) {
        after |= starts->at[low].after;
    }
    return after;
}

/* ---- text and JSON ------------------------------------------------------------------------------ */

static double ms(uint64_t ns)
{
    return (double)ns / 1e6;
}

static void text_of_gpu(const struct trace *trace, const struct report *report, const struct report_gpu *gpu)
{
    printf("  ");
    cli_print_text(stdout, trace->tracks[gpu->track].name, 34, 34);
    printf(" idle %.3f ms in %" PRIu64 " gaps, the largest %.3f ms", ms(gpu->gap_ns), gpu->gaps,
           ms(gpu->largest_gap_ns));
    if (gpu->alignment_ns != 0) {
        printf("; its times within %" PRIu64 " ns of the host's", gpu->alignment_ns);
    }
    printf("\n");
    for (int c = 0; c < REPORT_CAUSES; c++) {
        if (gpu->cause_count[c] != 0 && c != REPORT_OTHER_GPU) {
            printf("    %-32s %6" PRIu64 ", %.3f ms\n", cli_report_cause((enum report_cause)c),
                   gpu->cause_count[c], ms(gpu->cause_ns[c]));
        }
    }
    for (size_t g = 0; g < report->gpu_count; g++) {
        if (gpu->waited_ns[g] != 0) {
            printf("    waiting for GPU %-16d        %.3f ms\n",
                   cli_report_ordinal(trace, report->gpus[g].track), ms(gpu->waited_ns[g]));
        }
    }
}

void cli_report_gpus_text(const struct trace *trace, const struct report *report)
{
    if (report->gpu_count < 2) {
        return;
    }
    printf("GPU by GPU\n");
    for (size_t g = 0; g < report->gpu_count; g++) {
        text_of_gpu(trace, report, &report->gpus[g]);
    }
}

static void json_of_gpu(const struct trace *trace, const struct report *report, const struct report_gpu *gpu)
{
    printf("{\"name\":");
    cli_json_string(stdout, trace->tracks[gpu->track].name);
    printf(",\"tasks\":%" PRIu64 ",\"busy_ns\":%" PRIu64 ",\"alignment_ns\":%" PRIu64
           ",\"gaps\":{\"count\":%" PRIu64 ",\"total_ns\":%" PRIu64 ",\"largest_ns\":%" PRIu64,
           gpu->tasks, gpu->ns, gpu->alignment_ns, gpu->gaps, gpu->gap_ns, gpu->largest_gap_ns);
    for (int c = 0; c < REPORT_CAUSES; c++) {
        printf(",\"%s\":{\"count\":%" PRIu64 ",\"ns\":%" PRIu64 "}",
               cli_report_cause_key((enum report_cause)c), gpu->cause_count[c], gpu->cause_ns[c]);
    }
    printf(",\"others\":[");
    bool is_first = true;
    for (size_t g = 0; g < report->gpu_count; g++) {
        if (gpu->waited_ns[g] != 0) {
            printf("%s{\"name\":", is_first ? "" : ",");
            cli_json_string(stdout, trace->tracks[report->gpus[g].track].name);
            printf(",\"ns\":%" PRIu64 "}", gpu->waited_ns[g]);
            is_first = false;
        }
    }
    printf("]}}");
}

void cli_report_gpus_json(const struct trace *trace, const struct report *report)
{
    printf("\"gpus\":[");
    for (size_t g = 0; g < report->gpu_count; g++) {
        printf("%s", g == 0 ? "" : ",");
        json_of_gpu(trace, report, &report->gpus[g]);
    }
    printf("],");
}
