/* Busy time is the length of the union of intervals: what overlaps counts once. */
#include "cli/report_stats.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

struct interval {
    uint64_t begin, end;
    uint32_t name;
};

struct intervals {
    struct interval *at;
    size_t count, room;
};

static bool push(struct intervals *list, uint64_t begin, uint64_t end, uint32_t name)
{
    if (list->count == list->room) {
        size_t room = list->room == 0 ? 1024 : list->room * 2;
        struct interval *more = realloc(list->at, room * sizeof(*more));
        if (more == NULL) {
            return false;
        }
        list->at = more;
        list->room = room;
    }
    list->at[list->count++] = (struct interval){begin, end, name};
    return true;
}

static int by_begin(const void *a, const void *b)
{
    const struct interval *x = a, *y = b;
    return x->begin < y->begin ? -1 : x->begin > y->begin;
}

static void sort(struct intervals *list)
{
    for (size_t i = 1; i < list->count; i++) {
        if (list->at[i].begin < list->at[i - 1].begin) {
            qsort(list->at, list->count, sizeof(*list->at), by_begin);
            return;
        }
    }
}

/* Sort, and join what overlaps or touches; the length of it all. */
static uint64_t unite(struct intervals *list)
{
    uint64_t ns = 0;
    size_t kept = 0;
    sort(list);
    for (size_t i = 0; i < list->count; i++) {
        struct interval *last = kept > 0 ? &list->at[kept - 1] : NULL;
        if (last != NULL && list->at[i].begin <= last->end) {
            last->end = list->at[i].end > last->end ? list->at[i].end : last->end;
        } else {
            list->at[kept++] = list->at[i];
        }
    }
    list->count = kept;
    for (size_t i = 0; i < kept; i++) {
        ns += list->at[i].end - list->at[i].begin;
    }
    return ns;
}

/* ---- SMs: many blocks on few lanes, each in order already ----------------------------------------- */

/* The union of two lists that are unions themselves, into `out`, which has room. */
static size_t merge(const struct interval *a, size_t a_count, const struct interval *b, size_t b_count,
                    struct interval *out)
{
    size_t count = 0, i = 0, j = 0;
    while (i < a_count || j < b_count) {
        bool first = j == b_count || (i < a_count && a[i].begin <= b[j].begin);
        struct interval next = first ? a[i++] : b[j++];
        if (count > 0 && next.begin <= out[count - 1].end) {
            out[count - 1].end = next.end > out[count - 1].end ? next.end : out[count - 1].end;
        } else {
            out[count++] = next;
        }
    }
    return count;
}

static bool add_lane(struct intervals *sm, struct intervals *scratch, const struct interval *lane,
                     size_t count)
{
    size_t need = sm->count + count;
    if (scratch->room < need) {
        struct interval *more = realloc(scratch->at, need * 2 * sizeof(*more));
        if (more == NULL) {
            return false;
        }
        scratch->at = more;
        scratch->room = need * 2;
    }
    scratch->count = merge(sm->at, sm->count, lane, count, scratch->at);
    struct intervals swap = *sm;
    *sm = *scratch;
    *scratch = swap;
    return true;
}

struct lanes {
    size_t *first;           /* by track: where its blocks begin in `blocks`; one more at the end */
    struct interval *blocks; /* of all lanes, lane after lane */
    uint32_t *order;         /* tracks, those of one SM together */
};

static int compare_lanes(const struct trace *trace, uint32_t a, uint32_t b)
{
    const struct trace_track *x = &trace->tracks[a], *y = &trace->tracks[b];
    return x->parent != y->parent ? (x->parent < y->parent ? -1 : 1)
           : x->rank != y->rank   ? (x->rank < y->rank ? -1 : 1)
                                  : 0;
}

static bool gather_lanes(const struct trace *trace, struct lanes *lanes)
{
    size_t tracks = trace->track_count;
    lanes->first = calloc(tracks + 2, sizeof(*lanes->first));
    size_t *next = calloc(tracks + 1, sizeof(*next));
    lanes->order = calloc(tracks + 1, sizeof(*lanes->order));
    if (lanes->first == NULL || next == NULL || lanes->order == NULL) {
        free(next);
        return false;
    }
    for (size_t i = 0; i < trace->slice_count; i++) {
        uint32_t track = trace->slices[i].track;
        lanes->first[track + 1] += trace->tracks[track].is_block;
    }
    for (size_t t = 0; t <= tracks; t++) {
        lanes->first[t + 1] += lanes->first[t];
    }
    memcpy(next, lanes->first, tracks * sizeof(*next));
    lanes->blocks = calloc(lanes->first[tracks] + 1, sizeof(*lanes->blocks));
    for (size_t i = 0; i < trace->slice_count && lanes->blocks != NULL; i++) {
        const struct trace_slice *s = &trace->slices[i];
        if (trace->tracks[s->track].is_block) {
            lanes->blocks[next[s->track]++] = (struct interval){s->begin_ns, s->end_ns, s->name};
        }
    }
    free(next);
    return lanes->blocks != NULL;
}

/* Put the lanes of one SM side by side: insertion, there are a few thousand at most. */
static size_t order_lanes(const struct trace *trace, struct lanes *lanes)
{
    size_t count = 0;
    for (uint32_t t = 1; t < trace->track_count; t++) {
        if (lanes->first[t] == lanes->first[t + 1]) {
            continue;
        }
        size_t at = count++;
        while (at > 0 && compare_lanes(trace, lanes->order[at - 1], t) > 0) {
            lanes->order[at] = lanes->order[at - 1];
            at--;
        }
        lanes->order[at] = t;
    }
    return count;
}

static void end_sm(struct report *report, struct intervals *sm)
{
    uint64_t ns = 0;
    for (size_t i = 0; i < sm->count; i++) {
        ns += sm->at[i].end - sm->at[i].begin;
    }
    report->sm_least_ns = report->sm_count == 0 || ns < report->sm_least_ns ? ns : report->sm_least_ns;
    report->sm_most_ns = ns > report->sm_most_ns ? ns : report->sm_most_ns;
    report->sm_sum_ns += ns;
    report->sm_count++;
    sm->count = 0;
}

static bool compute_sms(const struct trace *trace, struct report *report)
{
    struct lanes lanes = {NULL, NULL, NULL};
    struct intervals sm = {NULL, 0, 0}, scratch = {NULL, 0, 0};
    bool good = gather_lanes(trace, &lanes);
    size_t count = good ? order_lanes(trace, &lanes) : 0;
    for (size_t i = 0; i < count && good; i++) {
        uint32_t t = lanes.order[i];
        good = add_lane(&sm, &scratch, lanes.blocks + lanes.first[t], lanes.first[t + 1] - lanes.first[t]);
        if (i + 1 == count || compare_lanes(trace, t, lanes.order[i + 1]) != 0) {
            end_sm(report, &sm);
        }
    }
    free(sm.at);
    free(scratch.at);
    free(lanes.first);
    free(lanes.blocks);
    free(lanes.order);
    return good;
}

/* ---- kernels ----------------------------------------------------------------------------------- */

static int by_total(const void *a, const void *b)
{
    const struct report_kernel *x = a, *y = b;
    return x->total_ns > y->total_ns ? -1 : x->total_ns < y->total_ns;
}

static bool compute_kernels(const struct trace *trace, struct report *report)
{
    struct report_kernel *all = calloc(trace->name_count, sizeof(*all));
    if (all == NULL) {
        return false;
    }
    bool any = false;
    for (size_t i = 0; i < trace->slice_count && !any; i++) {
        any = cli_trace_is(trace, &trace->slices[i], "kernel");
    }
    report->kernels_are_tasks = !any;
    for (size_t i = 0; i < trace->slice_count; i++) {
        const struct trace_slice *s = &trace->slices[i];
        if (s->category == 0 || !cli_trace_is(trace, s, any ? "kernel" : "gpu")) {
            continue;
        }
        struct report_kernel *k = &all[s->name];
        uint64_t ns = s->end_ns - s->begin_ns;
        k->name = s->name;
        k->least_ns = k->count == 0 || ns < k->least_ns ? ns : k->least_ns;
        k->most_ns = ns > k->most_ns ? ns : k->most_ns;
        k->total_ns += ns;
        k->count++;
        k->ctas += cli_trace_argument(trace, s, TRACE_CTAS, 0);
    }
    qsort(all, trace->name_count, sizeof(*all), by_total);
    while (report->kernel_count < REPORT_KERNELS && report->kernel_count < trace->name_count &&
           all[report->kernel_count].count > 0) {
        report->kernels[report->kernel_count] = all[report->kernel_count];
        report->kernel_count++;
    }
    free(all);
    return true;
}

/* ---- gaps -------------------------------------------------------------------------------------- */

static uint64_t overlap(const struct interval *a, uint64_t begin, uint64_t end)
{
    uint64_t from = a->begin > begin ? a->begin : begin;
    uint64_t to = a->end < end ? a->end : end;
    return to > from ? to - from : 0;
}

/* Lists by begin; `from` moves along with the gaps, which come in order. */
struct host_work {
    struct intervals tasks, batches;
    uint64_t longest_task;
    size_t task_from, batch_from;
};

static void explain(struct report *report, struct host_work *work, uint64_t begin, uint64_t end,
                    uint64_t *worst_ns)
{
    uint64_t task_ns = 0, batch_ns = 0;
    uint32_t task = 0;
    while (work->task_from < work->tasks.count &&
           work->tasks.at[work->task_from].begin + work->longest_task < begin) {
        work->task_from++;
    }
    for (size_t i = work->task_from; i < work->tasks.count && work->tasks.at[i].begin < end; i++) {
        uint64_t ns = overlap(&work->tasks.at[i], begin, end);
        if (ns > task_ns) {
            task_ns = ns;
            task = work->tasks.at[i].name;
        }
    }
    while (work->batch_from < work->batches.count && work->batches.at[work->batch_from].end < begin) {
        work->batch_from++;
    }
    for (size_t i = work->batch_from; i < work->batches.count && work->batches.at[i].begin < end; i++) {
        batch_ns += overlap(&work->batches.at[i], begin, end);
    }
    uint64_t rest = end - begin > task_ns + batch_ns ? end - begin - task_ns - batch_ns : 0;
    enum report_cause cause = rest > task_ns && rest > batch_ns ? REPORT_NOTHING
                              : task_ns >= batch_ns             ? REPORT_HOST_TASK
                                                                : REPORT_DISPATCHER;
    report->cause_count[cause]++;
    report->cause_ns[cause] += end - begin;
    if (cause == REPORT_HOST_TASK && end - begin > *worst_ns) {
        *worst_ns = end - begin;
        report->worst_task = task;
    }
}

static void compute_gaps(struct report *report, const struct intervals *gpu, struct host_work *work)
{
    uint64_t worst_ns = 0;
    sort(&work->tasks);
    (void)unite(&work->batches);
    for (size_t i = 0; i < work->tasks.count; i++) {
        uint64_t ns = work->tasks.at[i].end - work->tasks.at[i].begin;
        work->longest_task = ns > work->longest_task ? ns : work->longest_task;
    }
    for (size_t i = 1; i < gpu->count; i++) {
        uint64_t begin = gpu->at[i - 1].end, end = gpu->at[i].begin;
        report->gaps++;
        report->gap_ns += end - begin;
        report->largest_gap_ns = end - begin > report->largest_gap_ns ? end - begin : report->largest_gap_ns;
        explain(report, work, begin, end, &worst_ns);
    }
}

/* ---- all of it --------------------------------------------------------------------------------- */

/* The place of a stream by its track's name: lanes of one stream have the same. */
static struct report_busy *stream_called(struct report *report, const char *name)
{
    size_t i = 0;
    while (i < report->stream_count && strcmp(report->streams[i].name, name) != 0) {
        i++;
    }
    if (i == REPORT_STREAMS) {
        return NULL;
    }
    if (i == report->stream_count) {
        report->streams[report->stream_count++] = (struct report_busy){.name = name};
    }
    return &report->streams[i];
}

static void count_host(const struct trace *trace, const struct trace_slice *s, struct report *report)
{
    static const char *const phases[3] = {"GD HtoD", "GD Kernel", "GD DtoH"};
    uint64_t ns = s->end_ns - s->begin_ns;
    if (cli_trace_is(trace, s, "phase")) {
        for (int p = 0; p < 3; p++) {
            report->phase_ns[p] += strcmp(trace->names[s->name], phases[p]) == 0 ? ns : 0;
        }
    } else if (cli_trace_is(trace, s, "launch")) {
        report->launches++;
        report->launch_ns += ns;
    } else if (cli_trace_is(trace, s, "task")) {
        report->tasks++;
        report->task_ns += ns;
    } else if (cli_trace_is(trace, s, "batch")) {
        report->batches++;
    } else if (cli_trace_is(trace, s, "ctas")) {
        uint64_t alignment = cli_trace_argument(trace, s, TRACE_ALIGNMENT, 0);
        uint64_t tick = cli_trace_argument(trace, s, TRACE_TICK, 0);
        uint64_t shift = cli_trace_argument(trace, s, TRACE_SHIFT, 0);
        report->ctas += cli_trace_argument(trace, s, TRACE_CTAS, 0);
        report->ctas_lost += cli_trace_argument(trace, s, TRACE_LOST, 0);
        report->cta_alignment_ns =
            alignment > report->cta_alignment_ns ? alignment : report->cta_alignment_ns;
        report->tick_ns = tick > report->tick_ns ? tick : report->tick_ns;
        report->shift_ns = shift > report->shift_ns ? shift : report->shift_ns;
    }
}

/* Streams one at a time: their intervals are needed together, and once more for the union of all. */
static bool compute_streams(const struct trace *trace, struct report *report, struct intervals *gpu)
{
    struct intervals one = {NULL, 0, 0};
    bool good = true;
    for (size_t n = 0; n < report->stream_count && good; n++) {
        struct report_busy *stream = &report->streams[n];
        one.count = 0;
        for (size_t i = 0; i < trace->slice_count && good; i++) {
            const struct trace_slice *s = &trace->slices[i];
            if (s->category != 0 && cli_trace_is(trace, s, "gpu") &&
                strcmp(trace->tracks[s->track].name, stream->name) == 0) {
                good =
                    push(&one, s->begin_ns, s->end_ns, s->name) && push(gpu, s->begin_ns, s->end_ns, s->name);
                stream->slices++;
            }
        }
        stream->ns = unite(&one);
    }
    free(one.at);
    report->gpu_busy_ns = unite(gpu);
    if (gpu->count > 0) {
        report->gpu_begin_ns = gpu->at[0].begin;
        report->gpu_end_ns = gpu->at[gpu->count - 1].end;
    }
    return good;
}

bool cli_report_compute(const struct trace *trace, struct report *out)
{
    *out = (struct report){.begin_ns = UINT64_MAX};
    struct intervals gpu = {NULL, 0, 0};
    struct host_work work = {0};
    bool good = true;
    for (size_t i = 0; i < trace->slice_count && good; i++) {
        const struct trace_slice *s = &trace->slices[i];
        out->begin_ns = s->begin_ns < out->begin_ns ? s->begin_ns : out->begin_ns;
        out->end_ns = s->end_ns > out->end_ns ? s->end_ns : out->end_ns;
        if (s->category == 0) {
            continue; /* a block */
        }
        count_host(trace, s, out);
        if (cli_trace_is(trace, s, "gpu")) {
            out->gpu_tasks++;
            (void)stream_called(out, trace->tracks[s->track].name);
        } else if (cli_trace_is(trace, s, "task")) {
            good = push(&work.tasks, s->begin_ns, s->end_ns, s->name);
        } else if (cli_trace_is(trace, s, "batch")) {
            good = push(&work.batches, s->begin_ns, s->end_ns, s->name);
        }
    }
    out->begin_ns = trace->slice_count == 0 ? 0 : out->begin_ns;
    good =
        good && compute_streams(trace, out, &gpu) && compute_sms(trace, out) && compute_kernels(trace, out);
    if (good) {
        compute_gaps(out, &gpu, &work);
    } else {
        fprintf(stderr, "gantry: out of memory\n");
    }
    free(gpu.at);
    free(work.tasks.at);
    free(work.batches.at);
    return good;
}
