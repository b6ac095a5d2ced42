/* SPDX-License-Identifier: MIT */
#include "cli/report_export.h"

#include "cli/command.h"

#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

/* ---- Chrome ------------------------------------------------------------------------------------ */

static void put_time(FILE *file, const char *key, uint64_t ns)
{
    fprintf(file, ",\"%s\":%" PRIu64 ".%03u", key, ns / 1000, (unsigned)(ns % 1000));
}

void cli_export_chrome_begin(FILE *file)
{
    fputs("{\"displayTimeUnit\":\"ns\",\"traceEvents\":[\n"
          "{\"ph\":\"M\",\"pid\":1,\"tid\":0,\"name\":\"process_name\",\"args\":{\"name\":\"gantry\"}}",
          file);
}

static void put_slice(FILE *file, const struct trace *trace, const struct trace_slice *s, uint64_t id)
{
    fprintf(file, ",\n{\"ph\":\"X\",\"pid\":1,\"tid\":%u,\"cat\":", s->track);
    cli_json_string(file, s->category != 0 ? trace->names[s->category] : "cta");
    fputs(",\"name\":", file);
    cli_json_string(file, trace->names[s->name]);
    put_time(file, "ts", s->begin_ns);
    put_time(file, "dur", s->end_ns - s->begin_ns);
    fprintf(file, ",\"args\":{\"id\":%" PRIu64 "}}", id);
}

void cli_export_chrome_block(void *file, const struct trace *trace, const struct trace_slice *block,
                             uint64_t number)
{
    put_slice(file, trace, block, number != UINT64_MAX ? number : 0);
}

static void put_tracks(const struct trace *trace, FILE *file)
{
    for (size_t t = 1; t < trace->track_count; t++) {
        const struct trace_track *track = &trace->tracks[t];
        bool is_thread = track->kind == TRACE_THREAD;
        fprintf(file,
                ",\n{\"ph\":\"M\",\"pid\":1,\"tid\":%zu,\"name\":\"thread_name\",\"args\":{\"name\":", t);
        char name[400];
        snprintf(name, sizeof(name), "%s%s%s", is_thread ? "" : trace->tracks[track->parent].name,
                 is_thread ? "" : " / ", track->name);
        cli_json_string(file, name);
        fprintf(file, "}},\n{\"ph\":\"M\",\"pid\":1,\"tid\":%zu,\"name\":\"thread_sort_index\",", t);
        fprintf(file, "\"args\":{\"sort_index\":%zu}}", t);
    }
}

/* One end of an arrow. */
struct flow_end {
    uint64_t flow, time_ns;
    uint32_t track;
};

static int by_flow_and_time(const void *a, const void *b)
{
    const struct flow_end *x = a, *y = b;
    return x->flow != y->flow         ? (x->flow < y->flow ? -1 : 1)
           : x->time_ns != y->time_ns ? (x->time_ns < y->time_ns ? -1 : 1)
                                      : 0;
}

static size_t gather_flows(const struct trace *trace, struct flow_end *ends)
{
    size_t count = 0;
    for (size_t i = 0; i < trace->slice_count; i++) {
        const struct trace_slice *s = &trace->slices[i];
        const struct trace_details *d = &trace->details[s->details];
        for (uint32_t f = 0; f < d->flow_count && count < trace->flow_count; f++) {
            ends[count++] = (struct flow_end){trace->flows[d->first_flow + f], s->begin_ns, s->track};
        }
    }
    qsort(ends, count, sizeof(*ends), by_flow_and_time);
    return count;
}

/* In order of time: the first slice of a flow starts it, the last one finishes it. */
static bool put_flows(const struct trace *trace, FILE *file)
{
    struct flow_end *ends = calloc(trace->flow_count + 1, sizeof(*ends));
    if (ends == NULL) {
        return false;
    }
    size_t count = gather_flows(trace, ends);
    for (size_t i = 0; i < count; i++) {
        bool first = i == 0 || ends[i - 1].flow != ends[i].flow;
        bool last = i + 1 == count || ends[i + 1].flow != ends[i].flow;
        if (first && last) {
            continue;
        }
        fprintf(file,
                ",\n{\"ph\":\"%s\",\"pid\":1,\"tid\":%u,\"cat\":\"flow\",\"name\":\"task\",\"id\":%" PRIu64,
                first  ? "s"
                : last ? "f"
                       : "t",
                ends[i].track, ends[i].flow);
        put_time(file, "ts", ends[i].time_ns);
        fputs(last ? ",\"bp\":\"e\"}" : "}", file);
    }
    free(ends);
    return true;
}

bool cli_export_chrome_end(const struct trace *trace, FILE *file)
{
    put_tracks(trace, file);
    for (size_t i = 0; i < trace->slice_count; i++) {
        const struct trace_slice *s = &trace->slices[i];
        put_slice(file, trace, s, cli_trace_argument(trace, s, TRACE_ID, 0));
    }
    if (!put_flows(trace, file)) {
        cli_error("out of memory");
        return false;
    }
    for (size_t i = 0; i < trace->count_count; i++) {
        const struct trace_count *c = &trace->counts[i];
        fputs(",\n{\"ph\":\"C\",\"pid\":1,\"name\":", file);
        cli_json_string(file, trace->tracks[c->track].name);
        put_time(file, "ts", c->time_ns);
        fprintf(file, ",\"args\":{\"value\":%" PRIu64 "}}", c->value);
    }
    fputs("\n]}\n", file);
    return true;
}
