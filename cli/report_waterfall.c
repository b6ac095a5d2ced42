/* A stage is all tasks of one label at one place: the host, or a partition. */
#include "cli/report_waterfall.h"

#include "cli/command.h"
#include "cli/report_export.h"

#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define CELLS 60
#define STAGES 512 /* of one trace; further ones are counted */

struct stage {
    size_t place; /* 0: the host; else partition + 1 */
    uint32_t name;
    uint64_t begin_ns, end_ns, total_ns, count;
    uint64_t cells[CELLS]; /* ns in each part of the recording, at most all of it */
};

struct waterfall {
    const struct trace *trace;
    const struct report *report;
    struct stage stages[STAGES];
    size_t count;
    uint64_t left_out; /* slices */
};

static size_t place_of(const struct waterfall *w, const struct trace_track *track)
{
    for (size_t p = 0; p < w->report->partition_count; p++) {
        const struct report_partition *partition = &w->report->partitions[p];
        size_t bytes = strlen(partition->name);
        const char *slash = strstr(track->name, " / ");
        size_t own = slash != NULL ? (size_t)(slash - track->name) : 0;
        if (partition->gpu == track->parent && own == bytes &&
            strncmp(track->name, partition->name, bytes) == 0) {
            return p + 1;
        }
    }
    return 0;
}

static struct stage *stage_of(struct waterfall *w, size_t place, uint32_t name)
{
    for (size_t i = 0; i < w->count; i++) {
        if (w->stages[i].place == place && w->stages[i].name == name) {
            return &w->stages[i];
        }
    }
    if (w->count == STAGES) {
        return NULL;
    }
    w->stages[w->count] = (struct stage){.place = place, .name = name, .begin_ns = UINT64_MAX};
    return &w->stages[w->count++];
}

static uint64_t cell_begin(const struct report *report, unsigned cell)
{
    double length = (double)(report->end_ns - report->begin_ns) / CELLS;
    return report->begin_ns + (uint64_t)(length * cell);
}

static void add(struct waterfall *w, struct stage *stage, const struct trace_slice *s)
{
    const struct interval slice = {s->begin_ns, s->end_ns, 0};
    stage->begin_ns = s->begin_ns < stage->begin_ns ? s->begin_ns : stage->begin_ns;
    stage->end_ns = s->end_ns > stage->end_ns ? s->end_ns : stage->end_ns;
    stage->total_ns += s->end_ns - s->begin_ns;
    stage->count++;
    for (unsigned c = 0; c < CELLS; c++) {
        uint64_t begin = cell_begin(w->report, c), end = cell_begin(w->report, c + 1);
        stage->cells[c] += cli_interval_overlap(&slice, begin, end);
        stage->cells[c] = stage->cells[c] < end - begin ? stage->cells[c] : end - begin;
    }
}

static int by_place_and_begin(const void *a, const void *b)
{
    const struct stage *x = a, *y = b;
    return x->place != y->place         ? (x->place < y->place ? -1 : 1)
           : x->begin_ns != y->begin_ns ? (x->begin_ns < y->begin_ns ? -1 : 1)
                                        : 0;
}

static void fill(struct waterfall *w)
{
    for (size_t i = 0; i < w->trace->slice_count; i++) {
        const struct trace_slice *s = &w->trace->slices[i];
        const struct trace_track *track = &w->trace->tracks[s->track];
        bool is_gpu = track->kind == TRACE_QUEUE;
        if (!is_gpu && !cli_trace_is(w->trace, s, "task") && !cli_trace_is(w->trace, s, "memory")) {
            continue;
        }
        struct stage *stage = stage_of(w, is_gpu ? place_of(w, track) : 0, s->name);
        if (stage != NULL) {
            add(w, stage, s);
        } else {
            w->left_out++;
        }
    }
    qsort(w->stages, w->count, sizeof(w->stages[0]), by_place_and_begin);
}

static void print_place(const struct waterfall *w, size_t place)
{
    if (place == 0) {
        printf("\nhost\n");
        return;
    }
    const struct report_partition *p = &w->report->partitions[place - 1];
    printf("\n%s%s%s\n", w->trace->tracks[p->gpu].name, p->name[0] != '\0' ? ", partition " : "", p->name);
}

static void print_text(const struct waterfall *w)
{
    static const char levels[] = " .:=#"; /* nothing, up to a quarter of the time, ... */
    double ms = (double)(w->report->end_ns - w->report->begin_ns) / 1e6;
    printf("%-24s %7s %11s %11s %11s  0%*.3f ms\n", "stage", "count", "begin ms", "end ms", "total ms",
           CELLS - 4, ms);
    for (size_t i = 0; i < w->count; i++) {
        const struct stage *s = &w->stages[i];
        char bar[CELLS + 1] = "";
        if (i == 0 || s->place != w->stages[i - 1].place) {
            print_place(w, s->place);
        }
        for (unsigned c = 0; c < CELLS; c++) {
            uint64_t room = cell_begin(w->report, c + 1) - cell_begin(w->report, c);
            bar[c] = levels[room != 0 ? (s->cells[c] * 4 + room - 1) / room : 0];
        }
        printf("%-24.24s %7" PRIu64 " %11.3f %11.3f %11.3f |%s|\n", w->trace->names[s->name], s->count,
               (double)(s->begin_ns - w->report->begin_ns) / 1e6,
               (double)(s->end_ns - w->report->begin_ns) / 1e6, (double)s->total_ns / 1e6, bar);
    }
    if (w->left_out != 0) {
        printf("\n%" PRIu64 " tasks of further labels are left out\n", w->left_out);
    }
}

static void print_json(const struct waterfall *w)
{
    printf("{\"span_ns\":%" PRIu64 ",\"cells\":%d,\"left_out\":%" PRIu64 ",\"stages\":[",
           w->report->end_ns - w->report->begin_ns, CELLS, w->left_out);
    for (size_t i = 0; i < w->count; i++) {
        const struct stage *s = &w->stages[i];
        const struct report_partition *p = s->place != 0 ? &w->report->partitions[s->place - 1] : NULL;
        printf("%s\n{\"gpu\":", i == 0 ? "" : ",");
        cli_json_string(stdout, p != NULL ? w->trace->tracks[p->gpu].name : "");
        printf(",\"partition\":");
        cli_json_string(stdout, p != NULL ? p->name : "host");
        printf(",\"stage\":");
        cli_json_string(stdout, w->trace->names[s->name]);
        printf(",\"count\":%" PRIu64 ",\"begin_ns\":%" PRIu64 ",\"end_ns\":%" PRIu64 ",\"total_ns\":%" PRIu64
               ",\"busy_ns\":[",
               s->count, s->begin_ns - w->report->begin_ns, s->end_ns - w->report->begin_ns, s->total_ns);
        for (unsigned c = 0; c < CELLS; c++) {
            printf("%s%" PRIu64, c == 0 ? "" : ",", s->cells[c]);
        }
        printf("]}");
    }
    printf("]}\n");
}

bool cli_report_waterfall(const struct trace *trace, const struct report *report, bool json)
{
    struct waterfall *w = calloc(1, sizeof(*w));
    if (w == NULL) {
        fprintf(stderr, "gantry: out of memory\n");
        return false;
    }
    w->trace = trace;
    w->report = report;
    fill(w);
    if (json) {
        print_json(w);
    } else {
        print_text(w);
    }
    free(w);
    return true;
}
