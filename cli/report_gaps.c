/* SPDX-License-Identifier: MIT */
/* Why was the GPU idle?  Between two tasks of the GPU lies a gap; its cause is what covers the longest part
 * of it. */
#include "cli/report_stats.h"

#include <stdlib.h>
#include <string.h>

/* Lists by begin; the `from`s move along with the gaps, which come in order. */
struct host_work {
    struct intervals tasks;
    struct intervals united[REPORT_CAUSES]; /* when the host did what may be this cause */
    uint64_t longest_task;
    size_t task_from, from[REPORT_CAUSES];
    struct intervals told;           /* completions, from when they were told */
    struct report_host_task *waited; /* by name */
    struct report_starts starts;
    struct report_begins begins;
};

static uint64_t covered(const struct intervals *united, size_t *from, uint64_t begin, uint64_t end)
{
    uint64_t ns = 0;
    while (*from < united->count && united->at[*from].end < begin) {
        ++*from;
    }
    for (size_t i = *from; i < united->count && united->at[i].begin < end; i++) {
        ns += cli_interval_overlap(&united->at[i], begin, end);
    }
    return ns;
}

/* The CPU task that ran for the longest part of the gap. */
static uint64_t longest_task(struct host_work *work, uint64_t begin, uint64_t end, uint32_t *name)
{
    uint64_t longest = 0;
    while (work->task_from < work->tasks.count &&
           work->tasks.at[work->task_from].begin + work->longest_task < begin) {
        work->task_from++;
    }
    for (size_t i = work->task_from; i < work->tasks.count && work->tasks.at[i].begin < end; i++) {
        uint64_t ns = cli_interval_overlap(&work->tasks.at[i], begin, end);
        if (ns > longest) {
            longest = ns;
            *name = work->tasks.at[i].name;
        }
    }
    return longest;
}

/* For how long the task behind the gap had been launched, and no batch was under way that might have held it
 * back. */
static uint64_t launched_for(struct host_work *work, const struct report_gap *gap)
{
    uint64_t since = cli_report_launched(&work->begins, gap->gpu, gap->end_ns);
    if (since >= gap->end_ns) {
        return 0;
    }
    since = since > gap->begin_ns ? since : gap->begin_ns;
    size_t *from = &work->from[REPORT_DISPATCHER];
    return gap->end_ns - since - covered(&work->united[REPORT_DISPATCHER], from, since, gap->end_ns);
}

/* For how long something was not told that the GPU had done before the gap.  Completion threads do not name
 * their device: it is known only of the times when all were idle. */
static uint64_t untold_for(struct host_work *work, const struct report_gap *gap)
{
    size_t *from = &work->from[REPORT_COMPLETION];
    uint64_t last = gap->begin_ns;
    if (gap->gpu != 0) {
        return 0;
    }
    for (; *from < work->told.count && work->told.at[*from].begin < gap->end_ns; ++*from) {
        const uint64_t told = work->told.at[*from].begin;
        last = told > last ? told : last;
    }
    return last - gap->begin_ns;
}

/* What a task is known to wait for; each is the cause from half of a gap on, the first before the next. */
static const enum report_cause known_causes[] = {REPORT_OTHER_GPU, REPORT_SHARE, REPORT_EXCHANGE,
                                                 REPORT_ORDER};

static enum report_cause cause_of(const uint64_t ns[REPORT_CAUSES], uint64_t length)
{
    for (size_t i = 0; i < sizeof(known_causes) / sizeof(known_causes[0]); i++) {
        const uint64_t of_it = ns[known_causes[i]];
        if (of_it != 0 && of_it * 2 >= length) {
            return known_causes[i];
        }
    }
    enum report_cause most = REPORT_HOST_TASK;
    for (int c = 0; c < REPORT_CAUSES; c++) {
        most = ns[c] > ns[most] ? (enum report_cause)c : most;
    }
    return most;
}

/* `other_ns`: of the gap, another GPU worked on what is waited for; with that it is set in `gap`. */
static void explain(struct host_work *work, uint64_t other_ns, struct report_gap *gap)
{
    uint32_t task = 0;
    const uint64_t begin = gap->begin_ns, end = gap->end_ns;
    uint64_t ns[REPORT_CAUSES] = {0}, length = end - begin;
    for (int c = 0; c < REPORT_CAUSES; c++) {
        ns[c] = covered(&work->united[c], &work->from[c], begin, end);
    }
    ns[REPORT_OTHER_GPU] = other_ns;
    ns[REPORT_HOST_TASK] = longest_task(work, begin, end, &task);
    /* A dispatcher that waits or launches is in a batch, too; that time is the other cause's only. */
    const uint64_t within = ns[REPORT_MEMORY] + ns[REPORT_SHARE] + ns[REPORT_LAUNCH];
    ns[REPORT_DISPATCHER] -= within < ns[REPORT_DISPATCHER] ? within : ns[REPORT_DISPATCHER];
    ns[REPORT_ORDER] = launched_for(work, gap);
    const uint64_t known = ns[REPORT_HOST_TASK] + within + ns[REPORT_DISPATCHER] + other_ns +
                           ns[REPORT_EXCHANGE] + ns[REPORT_ORDER];
    const uint64_t untold = untold_for(work, gap), rest = length > known ? length - known : 0;
    ns[REPORT_COMPLETION] = untold < rest ? untold : rest;
    ns[REPORT_NOTHING] = rest - ns[REPORT_COMPLETION];
    gap->cause = cause_of(ns, length);
    gap->task = task;
}

/* The times in which shares of the device held tasks back; -1: of any. */
static bool gather_shares(const struct trace *trace, int ordinal, struct intervals *out)
{
    bool good = true;
    out->count = 0;
    for (size_t i = 0; i < trace->slice_count && good; i++) {
        const struct trace_slice *s = &trace->slices[i];
        if (cli_trace_is(trace, s, "share") &&
            (ordinal < 0 || cli_trace_argument(trace, s, TRACE_ID, 0) == (uint64_t)ordinal)) {
            good = cli_intervals_add(out, s->begin_ns, s->end_ns, s->name);
        }
    }
    (void)cli_intervals_unite(out);
    return good;
}

static void explain_all(struct report *report, struct host_work *work, uint64_t begin, uint64_t end)
{
    struct report_gap *gap = &report->idle.list[report->idle.list_count++];
    *gap = (struct report_gap){.begin_ns = begin, .end_ns = end};
    explain(work, 0, gap);
    report->idle.cause_count[gap->cause]++;
    report->idle.cause_ns[gap->cause] += end - begin;
    if (gap->cause == REPORT_HOST_TASK) {
        work->waited[gap->task].name = gap->task;
        work->waited[gap->task].gaps++;
        work->waited[gap->task].ns += end - begin;
    }
}

/* ---- several GPUs ------------------------------------------------------------------------------ */

static uint64_t busy_within(const struct intervals *busy, uint64_t begin, uint64_t end)
{
    size_t low = 0, high = busy->count; /* the first that ends behind `begin` */
    uint64_t ns = 0;
    while (low < high) {
        const size_t middle = low + (high - low) / 2;
        if (busy->at[middle].end <= begin) {
            low = middle + 1;
        } else {
            high = middle;
        }
    }
    for (size_t i = low; i < busy->count && busy->at[i].begin < end; i++) {
        ns += cli_interval_overlap(&busy->at[i], begin, end);
    }
    return ns;
}

/* For how long the task behind the gap waited for another GPU that worked; the one it waited for longest. */
static uint64_t waited_for_other(const struct trace *trace, const struct report *report,
                                 const struct host_work *work, const struct intervals *busy,
                                 struct report_gap *gap, size_t *other)
{
    const uint64_t after = cli_report_after(&work->starts, gap->gpu, gap->end_ns);
    uint64_t longest = 0;
    for (size_t g = 0; g < report->gpu_count && after != 0; g++) {
        const int ordinal = cli_report_ordinal(trace, report->gpus[g].track);
        if (ordinal < 0 || report->gpus[g].track == gap->gpu || (after >> (ordinal & 63) & 1) == 0) {
            continue;
        }
        const uint64_t ns = busy_within(&busy[g], gap->begin_ns, gap->end_ns);
        if (ns > longest) {
            longest = ns;
            *other = g;
            gap->other = report->gpus[g].track;
        }
    }
    return longest;
}

static bool explain_gpu(const struct trace *trace, struct report *report, const struct intervals *busy,
                        size_t of, struct host_work *work)
{
    struct report_gpu *gpu = &report->gpus[of];
    work->task_from = 0;
    memset(work->from, 0, sizeof(work->from));
    if (!gather_shares(trace, cli_report_ordinal(trace, gpu->track), &work->united[REPORT_SHARE])) {
        return false;
    }
    for (size_t i = 1; i < busy[of].count; i++) {
        struct report_gap *gap = &report->idle.list[report->idle.list_count++];
        size_t other = 0;
        *gap = (struct report_gap){
            .begin_ns = busy[of].at[i - 1].end, .end_ns = busy[of].at[i].begin, .gpu = gpu->track};
        const uint64_t length = gap->end_ns - gap->begin_ns;
        explain(work, waited_for_other(trace, report, work, busy, gap, &other), gap);
        gpu->gaps++;
        gpu->gap_ns += length;
        gpu->largest_gap_ns = length > gpu->largest_gap_ns ? length : gpu->largest_gap_ns;
        gpu->cause_count[gap->cause]++;
        gpu->cause_ns[gap->cause] += length;
        if (gap->cause == REPORT_OTHER_GPU) {
            gpu->waited_ns[other] += length;
        }
    }
    return true;
}

/* In place of the gaps of all GPUs, the list gets those of each. */
static bool explain_gpus(const struct trace *trace, struct report *report, struct host_work *work)
{
    struct intervals busy[REPORT_GPUS] = {{NULL, 0, 0}};
    bool good = cli_report_gpus(trace, report, busy) && cli_report_starts(trace, &work->starts);
    size_t gaps = 1;
    for (size_t g = 0; g < report->gpu_count; g++) {
        gaps += busy[g].count;
    }
    if (good && report->gpu_count > 1) {
        free(report->idle.list);
        report->idle.list = calloc(gaps, sizeof(*report->idle.list));
        report->idle.list_count = 0;
        good = report->idle.list != NULL;
        for (size_t g = 0; g < report->gpu_count && good; g++) {
            good = explain_gpu(trace, report, busy, g, work);
        }
    }
    for (size_t g = 0; g < REPORT_GPUS; g++) {
        free(busy[g].at);
    }
    return good;
}

static int by_ns(const void *a, const void *b)
{
    const struct report_host_task *x = a, *y = b;
    return x->ns > y->ns ? -1 : x->ns < y->ns;
}

static bool is_completion(const struct trace *trace, const struct trace_slice *slice)
{
    static const char begin[] = "complete ";
    return cli_trace_is(trace, slice, "wait") &&
           strncmp(trace->names[slice->name], begin, sizeof(begin) - 1) == 0;
}

static bool gather(const struct trace *trace, struct host_work *work)
{
    bool good = true;
    for (size_t i = 0; i < trace->slice_count && good; i++) {
        const struct trace_slice *s = &trace->slices[i];
        struct intervals *list = cli_trace_is(trace, s, "task")       ? &work->tasks
                                 : cli_trace_is(trace, s, "batch")    ? &work->united[REPORT_DISPATCHER]
                                 : cli_trace_is(trace, s, "memory")   ? &work->united[REPORT_MEMORY]
                                 : cli_trace_is(trace, s, "exchange") ? &work->united[REPORT_EXCHANGE]
                                 : cli_trace_is(trace, s, "launch")   ? &work->united[REPORT_LAUNCH]
                                 : is_completion(trace, s)            ? &work->told
                                                                      : NULL;
        good = list == NULL || cli_intervals_add(list, s->begin_ns, s->end_ns, s->name);
        uint64_t ns = s->end_ns - s->begin_ns;
        work->longest_task = list == &work->tasks && ns > work->longest_task ? ns : work->longest_task;
    }
    cli_intervals_sort(&work->tasks);
    cli_intervals_sort(&work->told);
    for (int c = 0; c < REPORT_CAUSES; c++) {
        (void)cli_intervals_unite(&work->united[c]);
    }
    good = good && cli_report_begins(trace, &work->begins) &&
           gather_shares(trace, -1, &work->united[REPORT_SHARE]);
    work->waited = calloc(trace->name_count, sizeof(*work->waited));
    return good && work->waited != NULL;
}

bool cli_report_gaps(const struct trace *trace, const struct intervals *gpu, struct report *report)
{
    struct host_work work = {0};
    report->idle.list = calloc(gpu->count + 1, sizeof(*report->idle.list));
    bool good = gather(trace, &work) && report->idle.list != NULL;
    for (size_t i = 1; i < gpu->count && good; i++) {
        uint64_t begin = gpu->at[i - 1].end, end = gpu->at[i].begin;
        report->idle.gaps++;
        report->idle.gap_ns += end - begin;
        report->idle.largest_ns =
            end - begin > report->idle.largest_ns ? end - begin : report->idle.largest_ns;
        explain_all(report, &work, begin, end);
    }
    if (good) {
        qsort(work.waited, trace->name_count, sizeof(*work.waited), by_ns);
        while (report->host_task_count < REPORT_HOST_TASKS && report->host_task_count < trace->name_count &&
               work.waited[report->host_task_count].gaps != 0) {
            report->host_tasks[report->host_task_count] = work.waited[report->host_task_count];
            report->host_task_count++;
        }
        good = explain_gpus(trace, report, &work);
    }
    free(work.tasks.at);
    free(work.told.at);
    for (int c = 0; c < REPORT_CAUSES; c++) {
        free(work.united[c].at);
    }
    free(work.waited);
    free(work.starts.at);
    free(work.begins.at);
    return good;
}
