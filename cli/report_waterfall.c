/* SPDX-License-Identifier: MIT */
/* A stage is all tasks of one label at one place: the host, or a partition. */
#include "cli/report_waterfall.h"

#include "cli/command.h"
#include "cli/report_stats.h"

#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/ioctl.h>
#include <unistd.h>

#define CELLS 60   /* the most; JSON always has this number */
#define STAGES 512 /* per trace; the stages beyond that are only counted */

struct stage {
    size_t place; /* 0: the host; else partition + 1 */
    uint32_t name;
    uint64_t begin_ns, end_ns, total_ns, count;
    uint64_t cells[CELLS]; /* ns in each part of the recording, at most all of it */
};

struct waterfall {
    const struct trace *trace;
    const struct report *report;
    unsigned name_width, cells; /* of a row */
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

static uint64_t cell_begin(const struct waterfall *w, unsigned cell)
{
    double length = (double)(w->report->end_ns - w->report->begin_ns) / w->cells;
    return w->report->begin_ns + (uint64_t)(length * cell);
}

static void add(struct waterfall *w, struct stage *stage, const struct trace_slice *s)
{
    const struct interval slice = {s->begin_ns, s->end_ns, 0};
    stage->begin_ns = s->begin_ns < stage->begin_ns ? s->begin_ns : stage->begin_ns;
    stage->end_ns = s->end_ns > stage->end_ns ? s->end_ns : stage->end_ns;
    stage->total_ns += s->end_ns - s->begin_ns;
    stage->count++;
    for (unsigned c = 0; c < w->cells; c++) {
        uint64_t begin = cell_begin(w, c), end = cell_begin(w, c + 1);
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
    printf("\n");
    cli_print_text(stdout, w->trace->tracks[p->gpu].name, 0, CLI_ANY_LENGTH);
    printf("%s", p->name[0] != '\0' ? ", partition " : "");
    cli_print_text(stdout, p->name, 0, CLI_ANY_LENGTH);
    printf("\n");
}

static void print_row(const struct waterfall *w, const struct stage *s, int decimals)
{
    static const char levels[] = " .:=#"; /* nothing, up to a quarter of the time, ... */
    char bar[CELLS + 1] = "";
    for (unsigned c = 0; c < w->cells; c++) {
        uint64_t room = cell_begin(w, c + 1) - cell_begin(w, c);
        bar[c] = levels[room != 0 ? (s->cells[c] * 4 + room - 1) / room : 0];
    }
    cli_print_text(stdout, w->trace->names[s->name], w->name_width, w->name_width);
    printf(" %6" PRIu64 " %8.*f %8.*f %9.*f |%s|\n", s->count, decimals,
           (double)(s->begin_ns - w->report->begin_ns) / 1e6, decimals,
           (double)(s->end_ns - w->report->begin_ns) / 1e6, decimals, (double)s->total_ns / 1e6, bar);
}

static void print_text(const struct waterfall *w)
{
    double ms = (double)(w->report->end_ns - w->report->begin_ns) / 1e6;
    int decimals = ms < 1e4 ? 3 : ms < 1e6 ? 1 : 0; /* what fits in eight columns */
    printf("%-*s %6s %8s %8s %9s  0%*.*f ms\n", (int)w->name_width, "stage", "count", "begin ms", "end ms",
           "total ms", (int)w->cells - 4, decimals, ms);
    for (size_t i = 0; i < w->count; i++) {
        if (i == 0 || w->stages[i].place != w->stages[i - 1].place) {
            print_place(w, w->stages[i].place);
        }
        print_row(w, &w->stages[i], decimals);
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

/* Rows as wide as the terminal, or 80 columns where there is none. */
static void choose_widths(struct waterfall *w)
{
    enum { NARROW = 18, WIDE = 24, NUMBERS = 7 + 9 + 9 + 10, FRAME = 3 };
    struct winsize size = {.ws_col = 0};
    unsigned columns = ioctl(STDOUT_FILENO, TIOCGWINSZ, &size) == 0 && size.ws_col != 0 ? size.ws_col : 80;
    columns = columns < 80 ? 80 : columns;
    w->name_width = columns < 100 ? NARROW : WIDE;
    unsigned left = columns - w->name_width - NUMBERS - FRAME;
    w->cells = left < CELLS ? left : CELLS;
}

bool cli_report_waterfall(const struct trace *trace, const struct report *report, bool json)
{
    struct waterfall *w = calloc(1, sizeof(*w));
    if (w == NULL) {
        cli_error("out of memory");
        return false;
    }
    w->trace = trace;
    w->report = report;
    choose_widths(w);
    w->cells = json ? CELLS : w->cells;
    fill(w);
    if (json) {
        print_json(w);
    } else {
        print_text(w);
    }
    free(w);
    return true;
}
