/* Why was the GPU idle?  Between two tasks of the GPU lies a gap; its cause is what covers the longest part
 * of it. */
#include "cli/report_stats.h"

#include <stdlib.h>

/* Lists by begin; the `from`s move along with the gaps, which come in order. */
struct host_work {
    struct intervals tasks, batches, memory;
    uint64_t longest_task;
    size_t task_from, batch_from, memory_from;
    struct report_host_task *waited; /* by name */
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

const char *cli_report_cause(enum report_cause cause)
{
    static const char *const names[REPORT_CAUSES] = {
        [REPORT_HOST_TASK] = "waiting for a host task",
        [REPORT_MEMORY] = "waiting for memory",
        [REPORT_DISPATCHER] = "dispatcher busy",
        [REPORT_NOTHING] = "nothing ready",
    };
    return names[cause];
}

static void explain(struct report *report, struct host_work *work, uint64_t begin, uint64_t end)
{
    uint32_t task = 0;
    uint64_t ns[REPORT_CAUSES] = {0}, length = end - begin;
    ns[REPORT_HOST_TASK] = longest_task(work, begin, end, &task);
    ns[REPORT_MEMORY] = covered(&work->memory, &work->memory_from, begin, end);
    ns[REPORT_DISPATCHER] = covered(&work->batches, &work->batch_from, begin, end);
    /* A dispatcher that waits for memory is in a batch, too; that time counts as memory only. */
    ns[REPORT_DISPATCHER] -=
        ns[REPORT_MEMORY] < ns[REPORT_DISPATCHER] ? ns[REPORT_MEMORY] : ns[REPORT_DISPATCHER];
    uint64_t known = ns[REPORT_HOST_TASK] + ns[REPORT_MEMORY] + ns[REPORT_DISPATCHER];
    ns[REPORT_NOTHING] = length > known ? length - known : 0;
    enum report_cause cause = REPORT_HOST_TASK;
    for (int c = 0; c < REPORT_CAUSES; c++) {
        cause = ns[c] > ns[cause] ? (enum report_cause)c : cause;
    }
    report->gap_list[report->gap_list_count++] = (struct report_gap){begin, end, cause, task};
    report->cause_count[cause]++;
    report->cause_ns[cause] += length;
    if (cause == REPORT_HOST_TASK) {
        work->waited[task].name = task;
        work->waited[task].gaps++;
        work->waited[task].ns += length;
    }
}

static int by_ns(const void *a, const void *b)
{
    const struct report_host_task *x = a, *y = b;
    return x->ns > y->ns ? -1 : x->ns < y->ns;
}

static bool gather(const struct trace *trace, struct host_work *work)
{
    bool good = true;
    for (size_t i = 0; i < trace->slice_count && good; i++) {
        const struct trace_slice *s = &trace->slices[i];
        struct intervals *list = cli_trace_is(trace, s, "task")     ? &work->tasks
                                 : cli_trace_is(trace, s, "batch")  ? &work->batches
                                 : cli_trace_is(trace, s, "memory") ? &work->memory
                                                                    : NULL;
        good = list == NULL || cli_intervals_add(list, s->begin_ns, s->end_ns, s->name);
        uint64_t ns = s->end_ns - s->begin_ns;
        work->longest_task = list == &work->tasks && ns > work->longest_task ? ns : work->longest_task;
    }
    cli_intervals_sort(&work->tasks);
    (void)cli_intervals_unite(&work->batches);
    (void)cli_intervals_unite(&work->memory);
    work->waited = calloc(trace->name_count, sizeof(*work->waited));
    return good && work->waited != NULL;
}

bool cli_report_gaps(const struct trace *trace, const struct intervals *gpu, struct report *report)
{
    struct host_work work = {0};
    report->gap_list = calloc(gpu->count + 1, sizeof(*report->gap_list));
    bool good = gather(trace, &work) && report->gap_list != NULL;
    for (size_t i = 1; i < gpu->count && good; i++) {
        uint64_t begin = gpu->at[i - 1].end, end = gpu->at[i].begin;
        report->gaps++;
        report->gap_ns += end - begin;
        report->largest_gap_ns = end - begin > report->largest_gap_ns ? end - begin : report->largest_gap_ns;
        explain(report, &work, begin, end);
    }
    if (good) {
        qsort(work.waited, trace->name_count, sizeof(*work.waited), by_ns);
        while (report->host_task_count < REPORT_HOST_TASKS && report->host_task_count < trace->name_count &&
               work.waited[report->host_task_count].gaps != 0) {
            report->host_tasks[report->host_task_count] = work.waited[report->host_task_count];
            report->host_task_count++;
        }
    }
    free(work.tasks.at);
    free(work.batches.at);
    free(work.memory.at);
    free(work.waited);
    return good;
}
