/* SPDX-License-Identifier: MIT */
/* A recording's ranges inside blocks: how long the groups of a kernel's blocks took, and what for. */
#include "cli/command.h"
#include "cli/report_print.h"
#include "cli/report_stats.h"

#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define ROWS 40 /* of the text; JSON has all */

static const char tracks_of_a_kernel[] = "ranges of ";

static const char *kernel_of(const struct trace *trace, const struct trace_slice *range)
{
    const char *above = trace->tracks[trace->tracks[range->track].parent].name;
    size_t bytes = sizeof(tracks_of_a_kernel) - 1;
    return strncmp(above, tracks_of_a_kernel, bytes) == 0 ? above + bytes : "?";
}

static struct report_range *range_of(struct report *report, size_t *room, const char *kernel, uint32_t name)
{
    for (size_t i = 0; i < report->range_count; i++) {
        if (report->ranges[i].name == name && strcmp(report->ranges[i].kernel, kernel) == 0) {
            return &report->ranges[i];
        }
    }
    if (report->range_count == *room) {
        size_t more = *room == 0 ? 32 : *room * 2;
        struct report_range *ranges = realloc(report->ranges, more * sizeof(*ranges));
        if (ranges == NULL) {
            return NULL;
        }
        report->ranges = ranges;
        *room = more;
    }
    struct report_range *range = &report->ranges[report->range_count++];
    *range = (struct report_range){.kernel = kernel, .name = name, .least_ns = UINT64_MAX};
    return range;
}

static int by_kernel_and_time(const void *a, const void *b)
{
    const struct report_range *x = a, *y = b;
    int order = strcmp(x->kernel, y->kernel);
    bool x_lost = x->kernel[0] == '\0', y_lost = y->kernel[0] == '\0';
    return x_lost != y_lost             ? (x_lost ? 1 : -1)
           : order != 0                 ? order
           : x->total_ns != y->total_ns ? (x->total_ns > y->total_ns ? -1 : 1)
           : x->count != y->count       ? (x->count > y->count ? -1 : 1)
                                        : (x->name > y->name) - (x->name < y->name);
}

bool cli_report_ranges(const struct trace *trace, struct report *report)
{
    size_t room = 0;
    for (size_t i = 0; i < trace->slice_count; i++) {
        const struct trace_slice *s = &trace->slices[i];
        if (!cli_trace_is(trace, s, "range")) {
            continue;
        }
        struct report_range *range = range_of(report, &room, kernel_of(trace, s), s->name);
        if (range == NULL) {
            return false;
        }
        uint64_t ns = s->end_ns - s->begin_ns;
        range->count++;
        range->total_ns += ns;
        range->least_ns = ns < range->least_ns ? ns : range->least_ns;
        range->most_ns = ns > range->most_ns ? ns : range->most_ns;
    }
    for (size_t i = 0; i < trace->mark_count; i++) {
        const struct trace_slice *m = &trace->marks[i];
        if (!cli_trace_is(trace, m, "range")) {
            continue;
        }
        struct report_range *range = range_of(report, &room, "", m->name);
        if (range == NULL) {
            return false;
        }
        range->count += cli_trace_argument(trace, m, TRACE_LOST, 0);
    }
    if (report->range_count != 0) {
        qsort(report->ranges, report->range_count, sizeof(*report->ranges), by_kernel_and_time);
    }
    return true;
}

void cli_report_ranges_text(const struct trace *trace, const struct report *r)
{
    if (r->range_count != 0) {
        printf("\n%-28s %8s %12s %12s %12s %12s\n", "range in blocks", "count", "total ms", "mean us",
               "least us", "most us");
    }
    for (size_t i = 0; i < r->range_count && i < ROWS; i++) {
        const struct report_range *range = &r->ranges[i];
        char name[160];
        snprintf(name, sizeof(name), "%s%s%s", range->kernel, range->kernel[0] != '\0' ? ": " : "",
                 trace->names[range->name]);
        cli_print_text(stdout, name, 28, 28);
        if (range->kernel[0] == '\0') {
            printf(" %8" PRIu64 " lost, this one first: its block had no room for more\n", range->count);
            continue;
        }
        printf(" %8" PRIu64 " %12.3f %12.3f %12.3f %12.3f\n", range->count, (double)range->total_ns / 1e6,
               (double)range->total_ns / 1e3 / (double)range->count, (double)range->least_ns / 1e3,
               (double)range->most_ns / 1e3);
    }
    if (r->range_count > ROWS) {
        printf("and %zu more, which --json has\n", r->range_count - ROWS);
    }
    if (r->records.ranges_lost != 0) {
        printf("%" PRIu64 " ranges were lost in all.\n", r->records.ranges_lost);
    }
}

/* Those that were recorded, or those that were lost. */
static void print_some(const struct trace *trace, const struct report *r, bool lost)
{
    bool first = true;
    for (size_t i = 0; i < r->range_count; i++) {
        const struct report_range *range = &r->ranges[i];
        if ((range->kernel[0] == '\0') != lost) {
            continue;
        }
        printf("%s{", first ? "" : ",");
        first = false;
        if (!lost) {
            printf("\"kernel\":");
            cli_json_string(stdout, range->kernel);
            printf(",\"name\":");
        } else {
            printf("\"first\":");
        }
        cli_json_string(stdout, trace->names[range->name]);
        printf(",\"count\":%" PRIu64, range->count);
        if (!lost) {
            printf(",\"total_ns\":%" PRIu64 ",\"least_ns\":%" PRIu64 ",\"most_ns\":%" PRIu64, range->total_ns,
                   range->least_ns, range->most_ns);
        }
        printf("}");
    }
}

void cli_report_ranges_json(const struct trace *trace, const struct report *r)
{
    printf("\"ranges\":[");
    print_some(trace, r, false);
    printf("],\"ranges_lost\":{\"count\":%" PRIu64 ",\"of\":[", r->records.ranges_lost);
    print_some(trace, r, true);
    printf("]},");
}
