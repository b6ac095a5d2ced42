/* SPDX-License-Identifier: MIT */
/* When was the work launched that the GPU began after a gap?  From then on it stood behind what it comes
 * after on the GPU, and the host had no part in that. */
#include "cli/report_stats.h"

#include <stdlib.h>

#define NO_ID UINT64_MAX

struct launch {
    uint64_t id, begin, end;
    uint32_t name;
};

static int by_task(const void *a, const void *b)
{
    const struct launch *x = a, *y = b;
    if (x->name != y->name) {
        return x->name < y->name ? -1 : 1;
    }
    if (x->id != y->id) {
        return x->id < y->id ? -1 : 1;
    }
    return x->begin < y->begin ? -1 : x->begin > y->begin;
}

static int by_begin(const void *a, const void *b)
{
    const struct report_begin *x = a, *y = b;
    return x->begin_ns < y->begin_ns ? -1 : x->begin_ns > y->begin_ns;
}

/* The last launch of the GPU task that had begun before the task did; NULL: none is in the recording. */
static const struct launch *launch_of(const struct launch *launches, size_t count, const struct launch *task)
{
    size_t low = 0, high = count; /* the first that is behind it */
    while (low < high) {
        const size_t middle = low + (high - low) / 2;
        if (by_task(&launches[middle], task) <= 0) {
            low = middle + 1;
        } else {
            high = middle;
        }
    }
    const struct launch *last = low != 0 ? &launches[low - 1] : NULL;
    return last != NULL && last->name == task->name && last->id == task->id ? last : NULL;
}

static size_t gather_launches(const struct trace *trace, struct launch *launches)
{
    size_t count = 0;
    for (size_t i = 0; i < trace->slice_count; i++) {
        const struct trace_slice *s = &trace->slices[i];
        const uint64_t id = cli_trace_argument(trace, s, TRACE_ID, NO_ID);
        if (id != NO_ID && cli_trace_is(trace, s, "launch")) {
            launches[count++] = (struct launch){id, s->begin_ns, s->end_ns, s->name};
        }
    }
    if (count != 0) {
        qsort(launches, count, sizeof(*launches), by_task);
    }
    return count;
}

bool cli_report_begins(const struct trace *trace, struct report_begins *out)
{
    struct launch *launches = calloc(trace->slice_count + 1, sizeof(*launches));
    *out = (struct report_begins){.at = calloc(trace->slice_count + 1, sizeof(*out->at))};
    const bool good = launches != NULL && out->at != NULL;
    const size_t count = good ? gather_launches(trace, launches) : 0;
    for (size_t i = 0; count != 0 && i < trace->slice_count; i++) {
        const struct trace_slice *s = &trace->slices[i];
        if (trace->tracks[s->track].kind != TRACE_QUEUE) {
            continue;
        }
        const struct launch task = {cli_trace_argument(trace, s, TRACE_ID, NO_ID), s->begin_ns, 0, s->name};
        const struct launch *last = launch_of(launches, count, &task);
        if (last != NULL) {
            out->at[out->count++] =
                (struct report_begin){s->begin_ns, last->end, trace->tracks[s->track].parent};
        }
    }
    if (out->count != 0) {
        qsort(out->at, out->count, sizeof(*out->at), by_begin);
    }
    free(launches);
    return good;
}

uint64_t cli_report_launched(const struct report_begins *begins, uint32_t gpu, uint64_t time)
{
    size_t low = 0, high = begins->count;
    uint64_t launched = UINT64_MAX;
    while (low < high) {
        const size_t middle = low + (high - low) / 2;
        if (begins->at[middle].begin_ns < time) {
            low = middle + 1;
        } else {
            high = middle;
        }
    }
    for (; low < begins->count && begins->at[low].begin_ns == time; low++) {
        const bool is_of_it = gpu == 0 || begins->at[low].gpu == gpu;
        launched =
            is_of_it && begins->at[low].launched_ns < launched ? begins->at[low].launched_ns : launched;
    }
    return launched;
}
