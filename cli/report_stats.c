/* SPDX-License-Identifier: MIT */
/* Busy time is the length of the union of intervals: what overlaps counts once. */
#include "cli/report_stats.h"

#include "cli/messages.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* ---- kernels ----------------------------------------------------------------------------------- */

/* Names that are not there, whose count is 0, come last. */
static int by_total_and_name(const void *a, const void *b)
{
    const struct report_kernel *x = a, *y = b;
    if ((x->count == 0) != (y->count == 0)) {
        return x->count == 0 ? 1 : -1;
    }
    return x->total_ns != y->total_ns ? (x->total_ns > y->total_ns ? -1 : 1)
                                      : (x->name > y->name) - (x->name < y->name);
}

static void count_copies(const struct trace *trace, const struct trace_slice *s, struct report *report)
{
    uint64_t copies = cli_trace_argument(trace, s, TRACE_COPIES, 0);
    report->copies.launches += copies != 0;
    report->copies.count += copies;
    for (int way = 0; way < 3; way++) {
        enum trace_argument bytes = (enum trace_argument)(TRACE_BYTES_TO_DEVICE + way);
        report->copies.bytes[way] += cli_trace_argument(trace, s, bytes, 0);
    }
}

/* Sum the slices of a category by name, and take those that took longest; `*left`: the other names.  False:
 * out of memory. */
static bool sum_by_name(const struct trace *trace, const char *category, struct report_kernel *out,
                        size_t *count, size_t *left)
{
    struct report_kernel *all = calloc(trace->name_count, sizeof(*all));
    if (all == NULL) {
        return false;
    }
    *left = 0;
    for (size_t i = 0; i < trace->slice_count; i++) {
        const struct trace_slice *s = &trace->slices[i];
        if (!cli_trace_is(trace, s, category)) {
            continue;
        }
        struct report_kernel *k = &all[s->name];
        uint64_t ns = s->end_ns - s->begin_ns;
        *left += k->count == 0;
        k->name = s->name;
        k->least_ns = k->count == 0 || ns < k->least_ns ? ns : k->least_ns;
        k->most_ns = ns > k->most_ns ? ns : k->most_ns;
        k->total_ns += ns;
        k->count++;
        k->ctas += cli_trace_argument(trace, s, TRACE_CTAS, 0);
    }
    *count = *left < REPORT_KERNELS ? *left : REPORT_KERNELS;
    *left -= *count;
    qsort(all, trace->name_count, sizeof(*all), by_total_and_name);
    memcpy(out, all, *count * sizeof(*all));
    free(all);
    return true;
}

static bool compute_kernels(const struct trace *trace, struct report *report)
{
    bool any = false;
    for (size_t i = 0; i < trace->slice_count; i++) {
        if (cli_trace_is(trace, &trace->slices[i], "kernel")) {
            any = true;
            count_copies(trace, &trace->slices[i], report);
        }
    }
    size_t left;
    report->kernels.are_tasks = !any;
    return sum_by_name(trace, any ? "kernel" : "gpu", report->kernels.list, &report->kernels.count, &left) &&
           (!any ||
            sum_by_name(trace, "gpu", report->labels.list, &report->labels.count, &report->labels.left));
}

/* ---- streams and partitions -------------------------------------------------------------------- */

/* Lanes of one stream have the same name and the same GPU.  NULL: too many. */
static struct report_stream *stream_of(struct report *report, const struct trace_track *track)
{
    size_t i = 0;
    while (i < report->stream_count &&
           (report->streams[i].gpu != track->parent || strcmp(report->streams[i].name, track->name) != 0)) {
        i++;
    }
    if (i == REPORT_STREAMS) {
        return NULL;
    }
    if (i == report->stream_count) {
        report->streams[report->stream_count++] =
            (struct report_stream){.name = track->name, .gpu = track->parent};
    }
    return &report->streams[i];
}

/* By the numbers of the GPUs, whichever began first; those of one GPU stay in their order. */
static void order_streams(const struct trace *trace, struct report *report)
{
    for (size_t i = 1; i < report->stream_count; i++) {
        const struct report_stream stream = report->streams[i];
        const int ordinal = cli_report_ordinal(trace, stream.gpu);
        size_t to = i;
        for (; to > 0 && cli_report_ordinal(trace, report->streams[to - 1].gpu) > ordinal; to--) {
            report->streams[to] = report->streams[to - 1];
        }
        report->streams[to] = stream;
    }
}

static void partition_name(const char *stream, char *name, size_t room)
{
    const char *slash = strstr(stream, " / ");
    size_t bytes = slash != NULL ? (size_t)(slash - stream) : 0;
    snprintf(name, room, "%.*s", (int)(bytes < room ? bytes : room - 1), stream);
}

static struct report_partition *partition_of(struct report *report, const struct report_stream *stream)
{
    char name[sizeof(report->partitions[0].name)];
    partition_name(stream->name, name, sizeof(name));
    size_t i = 0;
    while (i < report->partition_count &&
           (report->partitions[i].gpu != stream->gpu || strcmp(report->partitions[i].name, name) != 0)) {
        i++;
    }
    if (i == REPORT_PARTITIONS) {
        return NULL;
    }
    if (i == report->partition_count) {
        struct report_partition *partition = &report->partitions[report->partition_count++];
        *partition = (struct report_partition){.gpu = stream->gpu};
        memcpy(partition->name, name, sizeof(name));
    }
    return &report->partitions[i];
}

static bool is_of(const struct trace *trace, const struct trace_slice *s, const struct report_stream *stream)
{
    const struct trace_track *track = &trace->tracks[s->track];
    return track->kind == TRACE_QUEUE && track->parent == stream->gpu &&
           strcmp(track->name, stream->name) == 0;
}

/* Streams one at a time: their intervals are needed together, and once more for all of a partition or the
 * GPU. */
static bool compute_streams(const struct trace *trace, struct report *report)
{
    struct intervals one = {NULL, 0, 0};
    bool good = true;
    for (size_t n = 0; n < report->stream_count && good; n++) {
        struct report_stream *stream = &report->streams[n];
        one.count = 0;
        for (size_t i = 0; i < trace->slice_count && good; i++) {
            const struct trace_slice *s = &trace->slices[i];
            if (is_of(trace, s, stream)) {
                good = cli_intervals_add(&one, s->begin_ns, s->end_ns, s->name);
                stream->tasks++;
            }
        }
        stream->ns = cli_intervals_unite(&one);
        struct report_partition *partition = partition_of(report, stream);
        if (partition != NULL) {
            partition->streams++;
            partition->tasks += stream->tasks;
        }
    }
    free(one.at);
    return good;
}

/* All tasks of a GPU's partition; of everything when it is NULL. */
static bool gather(const struct trace *trace, const struct report_partition *partition, struct intervals *out)
{
    char name[sizeof(partition->name)];
    bool good = true;
    out->count = 0;
    for (size_t i = 0; i < trace->slice_count && good; i++) {
        const struct trace_slice *s = &trace->slices[i];
        const struct trace_track *track = &trace->tracks[s->track];
        if (track->kind != TRACE_QUEUE) {
            continue;
        }
        partition_name(track->name, name, sizeof(name));
        if (partition == NULL || (partition->gpu == track->parent && strcmp(partition->name, name) == 0)) {
            good = cli_intervals_add(out, s->begin_ns, s->end_ns, s->name);
        }
    }
    return good;
}

static bool compute_partitions(const struct trace *trace, struct report *report)
{
    struct intervals one = {NULL, 0, 0};
    bool good = true;
    for (size_t n = 0; n < report->partition_count && good; n++) {
        struct report_partition *partition = &report->partitions[n];
        good = gather(trace, partition, &one);
        partition->ns = cli_intervals_unite(&one);
        for (size_t i = 1; i < one.count; i++) {
            uint64_t gap = one.at[i].begin - one.at[i - 1].end;
            partition->gaps++;
            partition->gap_ns += gap;
            partition->largest_gap_ns = gap > partition->largest_gap_ns ? gap : partition->largest_gap_ns;
        }
    }
    free(one.at);
    return good;
}

/* ---- all of it --------------------------------------------------------------------------------- */

static void keep_most(uint64_t *most, uint64_t value)
{
    *most = value > *most ? value : *most;
}

static void count_host(const struct trace *trace, const struct trace_slice *s, struct report *report)
{
    static const char *const phases[3] = {"GD HtoD", "GD Kernel", "GD DtoH"};
    uint64_t ns = s->end_ns - s->begin_ns;
    if (cli_trace_is(trace, s, "phase")) {
        for (int p = 0; p < 3; p++) {
            report->host.phase_ns[p] += strcmp(trace->names[s->name], phases[p]) == 0 ? ns : 0;
        }
    } else if (cli_trace_is(trace, s, "launch")) {
        report->host.launches++;
        report->host.launch_ns += ns;
    } else if (cli_trace_is(trace, s, "task")) {
        report->host.tasks++;
        report->host.task_ns += ns;
    } else if (cli_trace_is(trace, s, "memory")) {
        report->host.memory_waits++;
        report->host.memory_ns += ns;
    } else if (cli_trace_is(trace, s, "batch")) {
        report->host.batches++;
    } else if (cli_trace_is(trace, s, "gpu_batch")) {
        report->gpu.batches++;
        report->gpu.batch_ns += ns;
        if (ns > report->gpu.longest_batch_ns) {
            report->gpu.longest_batch_ns = ns;
            report->gpu.longest_batch = cli_trace_argument(trace, s, TRACE_BATCH, 0);
        }
    } else if (cli_trace_is(trace, s, "ctas")) {
        report->records.ctas += cli_trace_argument(trace, s, TRACE_CTAS, 0);
        report->records.ctas_lost += cli_trace_argument(trace, s, TRACE_LOST, 0);
        keep_most(&report->precision.cta_ns, cli_trace_argument(trace, s, TRACE_ALIGNMENT, 0));
        keep_most(&report->precision.sm_ns, cli_trace_argument(trace, s, TRACE_SM_ALIGNMENT, 0));
        keep_most(&report->precision.tick_ns, cli_trace_argument(trace, s, TRACE_TICK, 0));
        keep_most(&report->precision.shift_ns, cli_trace_argument(trace, s, TRACE_SHIFT, 0));
    }
}

/* The last word of a recording, and what it says of each SM's clock. */
static void count_marks(const struct trace *trace, struct report *report)
{
    for (size_t i = 0; i < trace->mark_count; i++) {
        const struct trace_slice *m = &trace->marks[i];
        const char *track = trace->tracks[m->track].name;
        if (strcmp(track, "recording") == 0 && strcmp(trace->names[m->name], "end") == 0) {
            report->records.slices_lost = cli_trace_argument(trace, m, TRACE_LOST, 0);
            report->records.gpu_unfinished = cli_trace_argument(trace, m, TRACE_GPU_UNFINISHED, 0);
            report->records.ctas_lost = cli_trace_argument(trace, m, TRACE_CTAS_LOST, 0);
            report->records.ctas_taken = cli_trace_argument(trace, m, TRACE_CTAS_TAKEN, 0);
            report->records.ranges_lost = cli_trace_argument(trace, m, TRACE_RANGES_LOST, 0);
            report->precision.gpu_ns = cli_trace_argument(trace, m, TRACE_ALIGNMENT, 0);
        }
        int number = -1;
        if (strcmp(track, "SM clocks") == 0 && sscanf(trace->names[m->name], "SM %d", &number) == 1) {
            for (size_t s = 0; s < report->sms.count; s++) {
                uint32_t gpu = trace->tracks[report->sms.list[s].gpu].parent;
                if (report->sms.list[s].number == number && gpu == trace->tracks[m->track].parent) {
                    report->sms.list[s].alignment_ns = cli_trace_argument(trace, m, TRACE_SM_ALIGNMENT, 0);
                }
            }
        }
    }
}

static void scan(const struct trace *trace, struct report *out)
{
    out->begin_ns = UINT64_MAX;
    for (size_t i = 0; i < trace->slice_count; i++) {
        const struct trace_slice *s = &trace->slices[i];
        out->begin_ns = s->begin_ns < out->begin_ns ? s->begin_ns : out->begin_ns;
        keep_most(&out->end_ns, s->end_ns);
        count_host(trace, s, out);
        if (trace->tracks[s->track].kind == TRACE_QUEUE) {
            out->gpu.tasks++;
            (void)stream_of(out, &trace->tracks[s->track]);
        }
    }
    out->begin_ns = trace->slice_count == 0 ? 0 : out->begin_ns;
}

bool cli_report_compute(const struct trace *trace, const struct report_sms *sms, struct report *out)
{
    struct intervals gpu = {NULL, 0, 0};
    *out = (struct report){0};
    scan(trace, out);
    order_streams(trace, out);
    bool good = cli_report_sms_take(sms, trace, out) && compute_streams(trace, out) &&
                compute_partitions(trace, out) && compute_kernels(trace, out) &&
                cli_report_ranges(trace, out) && cli_report_tenants(trace, out, &out->tenants) &&
                gather(trace, NULL, &gpu);
    count_marks(trace, out);
    if (good) {
        out->gpu.busy_ns = cli_intervals_unite(&gpu);
        out->gpu.begin_ns = gpu.count > 0 ? gpu.at[0].begin : 0;
        out->gpu.end_ns = gpu.count > 0 ? gpu.at[gpu.count - 1].end : 0;
        good = cli_report_gaps(trace, &gpu, out);
    }
    if (!good) {
        cli_error("out of memory");
    }
    free(gpu.at);
    return good;
}

void cli_report_free(struct report *report)
{
    free(report->sms.list);
    free(report->idle.list);
    free(report->ranges);
    cli_report_tenants_free(&report->tenants);
}
