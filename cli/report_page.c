/* SPDX-License-Identifier: MIT */
#include "cli/report_page.h"

#include "cli/command.h"
#include "cli/page_data.h"
#include "cli/report_print.h"
#include "timeline.html.h"

#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

static const char place[] = "<!--RECORDINGS-->";

void cli_page_begin(FILE *file)
{
    fwrite(timeline_html, 1, (size_t)(strstr(timeline_html, place) - timeline_html), file);
}

void cli_page_end(FILE *file)
{
    fputs(strstr(timeline_html, place) + sizeof(place) - 1, file);
}

void cli_page_block(void *user, const struct trace *trace, const struct trace_slice *block, uint64_t number)
{
    struct page_blocks *blocks = user;
    (void)trace;
    if (blocks->count == PAGE_BLOCKS) {
        blocks->left++;
        return;
    }
    if (blocks->count == blocks->room) {
        size_t room = blocks->room == 0 ? 4096 : blocks->room * 2;
        struct page_block *more = realloc(blocks->at, room * sizeof(*more));
        if (more == NULL) {
            blocks->left++;
            return;
        }
        blocks->at = more;
        blocks->room = room;
    }
    blocks->at[blocks->count++] = (struct page_block){*block, number != UINT64_MAX ? number : 0};
}

/* ---- what the JSON says -------------------------------------------------------------------------- */

static void put_tracks(const struct trace *trace, const struct report_tenants *tenants, FILE *file)
{
    fputs(",\"tracks\":[[\"\",\"\",0,0]", file);
    for (size_t t = 1; t < trace->track_count; t++) {
        const struct trace_track *track = &trace->tracks[t];
        const struct trace_track *above = &trace->tracks[track->parent];
        bool is_sm = track->kind == TRACE_BLOCKS; /* group: the GPU and "SMs" */
        char group[400];
        const struct report_tenant *tenant =
            is_sm ? cli_report_tenant_of_sm(trace, tenants, above->parent, track->rank) : NULL;
        snprintf(group, sizeof(group), "%s%s%s%s%s",
                 track->kind == TRACE_THREAD ? "host threads"
                 : is_sm                     ? trace->tracks[above->parent].name
                                             : above->name,
                 is_sm ? ", " : "", is_sm ? above->name : "", tenant != NULL ? " of " : "",
                 tenant != NULL ? tenant->name : "");
        fputs(",[", file);
        cli_json_string(file, track->name);
        fputs(",", file);
        cli_json_string(file, group);
        fprintf(file, ",%d,%d]", (int)track->kind, track->kind == TRACE_THREAD ? (int)t : track->rank);
    }
    fputs("]", file);
}

static void put_strings(const char *key, const char *const *strings, size_t count, FILE *file)
{
    fprintf(file, ",\"%s\":[", key);
    for (size_t n = 0; n < count; n++) {
        fputs(n == 0 ? "" : ",", file);
        cli_json_string(file, strings[n]);
    }
    fputs("]", file);
}

/* Where there are several GPUs: each one's track, and how many of the gaps are its. */
static void put_gap_gpus(const struct report *report, FILE *file)
{
    fputs(",\"gapGpus\":[", file);
    for (size_t g = 0; report->gpu_count > 1 && g < report->gpu_count; g++) {
        fprintf(file, "%s[%u,%" PRIu64 "]", g == 0 ? "" : ",", report->gpus[g].track, report->gpus[g].gaps);
    }
    fputs("]", file);
}

static void put_head(const char *title, const struct trace *trace, const struct page_blocks *blocks,
                     const struct report *report, FILE *file)
{
    const char *causes[REPORT_CAUSES];
    const size_t cause_count = report->gpu_count > 1 ? REPORT_CAUSES : REPORT_CAUSES_OF_ALL;
    for (size_t c = 0; c < cause_count; c++) {
        causes[c] = cli_report_cause((enum report_cause)c);
    }
    fputs("{\"file\":", file);
    cli_json_string(file, title);
    fprintf(file, ",\"complete\":%s,\"emulated\":%s,\"left\":%" PRIu64, trace->is_complete ? "true" : "false",
            cli_report_is_emulated(trace, report) ? "true" : "false", blocks->left);
    put_strings("causes", causes, cause_count, file);
    put_gap_gpus(report, file);
    put_tracks(trace, &report->tenants, file);
    put_strings("names", (const char *const *)trace->names, trace->name_count, file);
    fputs(",", file);
    cli_report_tenants_json(trace, &report->tenants, file);
    fputs("}\n", file);
}

/* ---- what the numbers say ------------------------------------------------------------------------ */

/* Sorts by track, then by begin; a slice comes before those that it contains. */
static int by_place(const struct trace_slice *x, const struct trace_slice *y)
{
    return x->track != y->track         ? (x->track < y->track ? -1 : 1)
           : x->begin_ns != y->begin_ns ? (x->begin_ns < y->begin_ns ? -1 : 1)
                                        : (x->end_ns > y->end_ns ? -1 : x->end_ns < y->end_ns);
}

static int slices_by_place(const void *a, const void *b)
{
    return by_place(a, b);
}

static int blocks_by_place(const void *a, const void *b)
{
    const struct page_block *x = a, *y = b;
    return by_place(&x->slice, &y->slice);
}

static int by_value(const void *a, const void *b)
{
    const uint64_t *x = a, *y = b;
    return *x < *y ? -1 : *x > *y;
}

/* The different flows, sorted: the place of one is its number in the page, where they have 53 bits only. */
struct flows {
    uint64_t *at;
    size_t count;
};

static bool gather_flows(const struct trace *trace, struct flows *flows)
{
    flows->at = calloc(trace->flow_count + 1, sizeof(*flows->at));
    if (flows->at == NULL) {
        return false;
    }
    for (size_t i = 0; i < trace->flow_count; i++) {
        flows->at[i] = trace->flows[i];
    }
    qsort(flows->at, trace->flow_count, sizeof(*flows->at), by_value);
    for (size_t i = 0; i < trace->flow_count; i++) {
        if (flows->count == 0 || flows->at[flows->count - 1] != flows->at[i]) {
            flows->at[flows->count++] = flows->at[i];
        }
    }
    return true;
}

static uint64_t number_of(const struct flows *flows, uint64_t flow)
{
    const uint64_t *found = bsearch(&flow, flows->at, flows->count, sizeof(flow), by_value);
    return (uint64_t)(found - flows->at);
}

static void put_slices(struct page_data *data, const struct trace *trace, const struct flows *flows,
                       uint64_t begin_ns)
{
    uint64_t runs = 0, last_ns = begin_ns;
    for (size_t i = 0; i < trace->slice_count; i++) {
        runs += i == 0 || trace->slices[i].track != trace->slices[i - 1].track;
    }
    cli_page_number(data, runs);
    for (size_t i = 0; i < trace->slice_count; i++) {
        const struct trace_slice *s = &trace->slices[i];
        const struct trace_details *d = &trace->details[s->details];
        if (i == 0 || s->track != s[-1].track) {
            size_t end = i;
            while (end < trace->slice_count && trace->slices[end].track == s->track) {
                end++;
            }
            cli_page_number(data, s->track);
            cli_page_number(data, end - i);
            last_ns = begin_ns;
        }
        uint64_t batch = cli_trace_argument(trace, s, TRACE_BATCH, 0);
        cli_page_number(data, s->begin_ns - last_ns);
        cli_page_number(data, s->end_ns - s->begin_ns);
        cli_page_number(data, s->name);
        cli_page_number(data, cli_trace_argument(trace, s, TRACE_ID, batch));
        last_ns = s->begin_ns;
        cli_page_number(data, s->category);
        cli_page_number(data, d->flow_count);
        for (uint32_t f = 0; f < d->flow_count; f++) {
            cli_page_number(data, number_of(flows, trace->flows[d->first_flow + f]));
        }
    }
}

/* There may be a million: only what differs from the block before is told, and that is little.  The lowest
 * bit of the number's change says that another name follows. */
static void put_block(struct page_data *data, const struct page_block *before, const struct page_block *b)
{
    const uint64_t change = b->number >= before->number ? (b->number - before->number) << 1
                                                        : (before->number - b->number) << 1 | 1;
    const bool renamed = b->slice.name != before->slice.name;
    cli_page_change(data, before->slice.end_ns, b->slice.begin_ns);
    cli_page_change(data, before->slice.end_ns - before->slice.begin_ns, b->slice.end_ns - b->slice.begin_ns);
    cli_page_number(data, change << 1 | renamed);
    if (renamed) {
        cli_page_number(data, b->slice.name);
    }
}

static void put_blocks(struct page_data *data, const struct page_blocks *blocks, uint64_t begin_ns)
{
    const struct page_block none = {.slice = {.begin_ns = begin_ns, .end_ns = begin_ns}};
    uint64_t runs = 0;
    for (size_t i = 0; i < blocks->count; i++) {
        runs += i == 0 || blocks->at[i].slice.track != blocks->at[i - 1].slice.track;
    }
    cli_page_number(data, runs);
    for (size_t i = 0; i < blocks->count; i++) {
        const struct page_block *b = &blocks->at[i];
        if (i == 0 || b->slice.track != b[-1].slice.track) {
            size_t end = i;
            while (end < blocks->count && blocks->at[end].slice.track == b->slice.track) {
                end++;
            }
            cli_page_number(data, b->slice.track);
            cli_page_number(data, end - i);
        }
        put_block(data, i == 0 || b->slice.track != b[-1].slice.track ? &none : &b[-1], b);
    }
}

static void put_gaps(struct page_data *data, const struct report *report, uint64_t begin_ns)
{
    uint64_t last_ns = begin_ns;
    cli_page_number(data, report->idle.list_count);
    for (size_t i = 0; i < report->idle.list_count; i++) {
        const struct report_gap *gap = &report->idle.list[i];
        last_ns = i > 0 && gap->gpu != gap[-1].gpu ? begin_ns : last_ns;
        cli_page_number(data, gap->begin_ns - last_ns);
        cli_page_number(data, gap->end_ns - gap->begin_ns);
        cli_page_number(data, gap->cause);
        cli_page_number(data, gap->cause == REPORT_OTHER_GPU ? gap->other : gap->task);
        last_ns = gap->end_ns;
    }
}

/* The targets of shares are in the table of tenants. */
static bool is_shown(const struct trace_track *track)
{
    return track->kind == TRACE_COUNTER && !cli_report_is_target(track->name);
}

/* A count before `last_ns` is told as if it were at that time: counters of one track come in order, but for
 * what was before the first slice. */
static void put_counters(struct page_data *data, const struct trace *trace, uint64_t begin_ns)
{
    uint64_t counters = 0;
    for (size_t t = 1; t < trace->track_count; t++) {
        counters += is_shown(&trace->tracks[t]);
    }
    cli_page_number(data, counters);
    for (size_t t = 1; t < trace->track_count; t++) {
        uint64_t count = 0, last_ns = begin_ns;
        if (!is_shown(&trace->tracks[t])) {
            continue;
        }
        for (size_t i = 0; i < trace->count_count; i++) {
            count += trace->counts[i].track == t;
        }
        cli_page_number(data, t);
        cli_page_number(data, count);
        for (size_t i = 0; i < trace->count_count; i++) {
            const struct trace_count *c = &trace->counts[i];
            if (c->track == t) {
                cli_page_number(data, c->time_ns > last_ns ? c->time_ns - last_ns : 0);
                cli_page_number(data, c->value);
                last_ns = c->time_ns > last_ns ? c->time_ns : last_ns;
            }
        }
    }
}

/* Of slices and blocks, which are sorted. */
static uint64_t begin_of(const struct trace *trace, const struct page_blocks *blocks)
{
    uint64_t begin = UINT64_MAX;
    for (size_t i = 0; i < trace->slice_count; i++) {
        begin = trace->slices[i].begin_ns < begin ? trace->slices[i].begin_ns : begin;
    }
    for (size_t i = 0; i < blocks->count; i++) {
        begin = blocks->at[i].slice.begin_ns < begin ? blocks->at[i].slice.begin_ns : begin;
    }
    return begin;
}

bool cli_page_recording(const char *title, struct trace *trace, struct page_blocks *blocks,
                        const struct report *report, FILE *file)
{
    struct flows flows = {NULL, 0};
    if (!gather_flows(trace, &flows)) {
        cli_error("out of memory");
        return false;
    }
    if (trace->slice_count > 0) {
        qsort(trace->slices, trace->slice_count, sizeof(*trace->slices), slices_by_place);
    }
    if (blocks->count > 0) {
        qsort(blocks->at, blocks->count, sizeof(*blocks->at), blocks_by_place);
    }
    uint64_t begin_ns = begin_of(trace, blocks);
    struct page_data data = {.file = file};
    fputs("<script type=\"text/x-gantry-recording-2\">", file);
    put_head(title, trace, blocks, report, file);
    cli_page_number(&data, trace->slice_count + blocks->count);
    put_slices(&data, trace, &flows, begin_ns);
    put_blocks(&data, blocks, begin_ns);
    put_gaps(&data, report, begin_ns);
    put_counters(&data, trace, begin_ns);
    fputs("\n</script>\n", file);
    free(flows.at);
    return true;
}
