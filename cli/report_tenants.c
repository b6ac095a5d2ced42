/* SPDX-License-Identifier: MIT */
#include "cli/report_tenants.h"

#include "cli/command.h"
#include "cli/intervals.h"
#include "cli/report_stats.h"

#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

/* Counters are "GPU 0: us of NAME" and "GPU 0: share of NAME". */
static const char us_of[] = "us of ", share_of[] = "share of ", turn_of[] = " / turn of ";

/* The share of which the counter says this, and the ordinal of its device; NULL: it says something else. */
static const char *share_of_counter(const char *counter, const char *what, int *ordinal)
{
    int at = 0;
    if (sscanf(counter, "GPU %d: %n", ordinal, &at) != 1 || at == 0) {
        return NULL;
    }
    return strncmp(counter + at, what, strlen(what)) == 0 ? counter + at + strlen(what) : NULL;
}

bool cli_report_is_target(const char *counter)
{
    int ordinal;
    return share_of_counter(counter, share_of, &ordinal) != NULL;
}

/* The tenant; it is added if need be.  NULL: there are too many. */
static struct report_tenant *tenant_of(struct report_tenants *tenants, uint32_t gpu, const char *name)
{
    for (size_t i = 0; i < tenants->count; i++) {
        if (tenants->list[i].gpu == gpu && strcmp(tenants->list[i].name, name) == 0) {
            return &tenants->list[i];
        }
    }
    if (tenants->count == REPORT_TENANTS) {
        return NULL;
    }
    struct report_tenant *tenant = &tenants->list[tenants->count++];
    tenant->gpu = gpu;
    snprintf(tenant->name, sizeof(tenant->name), "%s", name);
    return tenant;
}

/* The one that has the share of that name on the device.  It is added if need be. */
static struct report_tenant *with_share(const struct trace *trace, struct report_tenants *tenants,
                                        int ordinal, const char *name)
{
    for (size_t i = 0; i < tenants->count; i++) {
        struct report_tenant *one = &tenants->list[i];
        if (strcmp(one->name, name) == 0 &&
            (one->gpu == 0 || cli_report_ordinal(trace, one->gpu) == ordinal)) {
            return one;
        }
    }
    return tenant_of(tenants, 0, name);
}

/* ---- tasks ------------------------------------------------------------------------------------- */

static int by_length(const void *a, const void *b)
{
    const struct interval *x = a, *y = b;
    const uint64_t m = x->end - x->begin, n = y->end - y->begin;
    return m < n ? -1 : m > n;
}

static void take_tasks(struct report_tenant *tenant, struct intervals *tasks)
{
    const size_t count = tasks->count;
    tenant->tasks = count;
    if (count != 0) {
        qsort(tasks->at, count, sizeof(*tasks->at), by_length);
        const struct interval *middle = &tasks->at[(count - 1) / 2],
                              *late = &tasks->at[(count * 99 - 1) / 100];
        tenant->p50_ns = middle->end - middle->begin;
        tenant->p99_ns = late->end - late->begin;
    }
}

static bool add_task(const struct report_tenants *tenants, const struct report_tenant *tenant,
                     const struct trace_slice *task, struct intervals *tasks)
{
    return tenant == NULL ||
           cli_intervals_add(&tasks[tenant - tenants->list], task->begin_ns, task->end_ns, task->name);
}

/* A task is its partition's, and its manager's where that has a share. */
static bool gather_tasks(const struct trace *trace, struct report_tenants *tenants)
{
    struct intervals *tasks = calloc(REPORT_TENANTS, sizeof(*tasks));
    struct report_tenant **of_track = calloc(trace->track_count + 1, sizeof(struct report_tenant *));
    bool good = tasks != NULL && of_track != NULL;
    for (size_t t = 1; t < trace->track_count && good; t++) {
        const struct trace_track *track = &trace->tracks[t];
        const char *slash = track->kind == TRACE_QUEUE ? strstr(track->name, " / ") : NULL;
        for (size_t i = 0; i < tenants->count && slash != NULL; i++) {
            const size_t bytes = strlen(tenants->list[i].name);
            const bool is_its = tenants->list[i].gpu == track->parent &&
                                bytes == (size_t)(slash - track->name) &&
                                memcmp(tenants->list[i].name, track->name, bytes) == 0;
            of_track[t] = is_its ? &tenants->list[i] : of_track[t];
        }
    }
    for (size_t i = 0; i < trace->slice_count && good; i++) {
        const struct trace_slice *s = &trace->slices[i];
        const uint64_t manager = cli_trace_argument(trace, s, TRACE_MANAGER, 0);
        struct report_tenant *other = NULL;
        if (trace->tracks[s->track].kind == TRACE_QUEUE && manager != 0) {
            char name[40];
            snprintf(name, sizeof(name), "task manager %" PRIu64, manager);
            other = tenant_of(tenants, 0, name);
        }
        good = add_task(tenants, of_track[s->track], s, tasks) && add_task(tenants, other, s, tasks);
    }
    for (size_t i = 0; i < REPORT_TENANTS && tasks != NULL; i++) {
        take_tasks(&tenants->list[i], &tasks[i]);
        free(tasks[i].at);
    }
    free(tasks);
    free(of_track);
    return good;
}

/* ---- shares ------------------------------------------------------------------------------------- */

/* A place among the counts of a counter, and the sum of what was charged until then. */
struct place {
    const struct trace_count *at; /* NULL: before the first */
    uint64_t sum_us;
};

/* Go on to the next count of the track; false: there is none.  One that is smaller than the one before begins
 * anew: the manager's share went to another manager. */
static bool go_on(const struct trace *trace, uint32_t track, struct place *place)
{
    const struct trace_count *end = trace->counts + trace->count_count;
    const struct trace_count *next = place->at == NULL ? trace->counts : place->at + 1;
    while (next < end && next->track != track) {
        next++;
    }
    if (next < end && place->at != NULL) {
        place->sum_us += next->value >= place->at->value ? next->value - place->at->value : next->value;
    }
    place->at = next < end ? next : place->at;
    return next < end;
}

/* What the counter of charged time says of its share. */
static void read_charged(const struct trace *trace, uint32_t track, struct report_tenant *tenant)
{
    struct place first = {NULL, 0}, last = {NULL, 0};
    if (!go_on(trace, track, &first)) {
        return;
    }
    const uint64_t begin_ns = first.at->time_ns;
    while (go_on(trace, track, &last)) {
        while (last.at->time_ns - first.at->time_ns > REPORT_WINDOW_US * UINT64_C(1000)) {
            (void)go_on(trace, track, &first);
        }
        const uint64_t within = last.sum_us - first.sum_us;
        tenant->worst_us = within > tenant->worst_us ? within : tenant->worst_us;
    }
    tenant->charged_us = last.sum_us;
    tenant->counted_us = (last.at->time_ns - begin_ns) / 1000;
    tenant->worst_us = tenant->counted_us >= REPORT_WINDOW_US ? tenant->worst_us : 0;
}

static void read_counters(const struct trace *trace, struct report_tenants *tenants)
{
    for (size_t i = 0; i < trace->count_count; i++) {
        int ordinal = 0;
        const char *name = share_of_counter(trace->tracks[trace->counts[i].track].name, share_of, &ordinal);
        struct report_tenant *tenant = name != NULL ? with_share(trace, tenants, ordinal, name) : NULL;
        if (tenant != NULL) {
            tenant->target_ppm = trace->counts[i].value;
        }
    }
    for (size_t t = 1; t < trace->track_count; t++) {
        int ordinal = 0;
        const char *name = trace->tracks[t].kind == TRACE_COUNTER
                               ? share_of_counter(trace->tracks[t].name, us_of, &ordinal)
                               : NULL;
        struct report_tenant *tenant = name != NULL ? with_share(trace, tenants, ordinal, name) : NULL;
        if (tenant != NULL && tenant->target_ppm != 0) {
            read_charged(trace, (uint32_t)t, tenant);
        }
    }
}

static int by_time(const void *a, const void *b)
{
    const struct report_hold *x = a, *y = b;
    return x->ns != y->ns ? (x->ns > y->ns ? -1 : 1) : (x->name > y->name) - (x->name < y->name);
}

/* The share that held tasks back, and where it was another's turn that one; else NULL. */
static const char *split_hold(const char *text, char *name, size_t room)
{
    const char *turn = strstr(text, turn_of);
    const size_t bytes = turn != NULL ? (size_t)(turn - text) : strlen(text);
    snprintf(name, room, "%.*s", (int)bytes, text);
    return turn != NULL ? turn + sizeof(turn_of) - 1 : NULL;
}

static void read_holds(const struct trace *trace, struct report_tenants *tenants)
{
    for (size_t i = 0; i < trace->slice_count; i++) {
        const struct trace_slice *s = &trace->slices[i];
        if (!cli_trace_is(trace, s, "share")) {
            continue;
        }
        char name[64];
        (void)split_hold(trace->names[s->name], name, sizeof(name));
        const uint64_t ordinal = cli_trace_argument(trace, s, TRACE_ID, 0);
        struct report_tenant *tenant = with_share(trace, tenants, (int)ordinal, name);
        if (tenant != NULL) {
            tenant->holds++;
            tenant->held_ns += s->end_ns - s->begin_ns;
        }
        size_t h = 0;
        while (h < tenants->hold_count &&
               (tenants->holds[h].name != s->name || tenants->holds[h].ordinal != ordinal)) {
            h++;
        }
        if (h < REPORT_HOLDS) {
            tenants->hold_count = h == tenants->hold_count ? h + 1 : tenants->hold_count;
            tenants->holds[h].name = s->name;
            tenants->holds[h].ordinal = ordinal;
            tenants->holds[h].count++;
            tenants->holds[h].ns += s->end_ns - s->begin_ns;
        }
    }
    qsort(tenants->holds, tenants->hold_count, sizeof(*tenants->holds), by_time);
}

/* ---- SMs ----------------------------------------------------------------------------------------- */

/* Contexts of one device have tracks of one name, and GPU tasks lie below any of them. */
static bool is_on(const struct trace *trace, const struct report_tenant *tenant, uint32_t gpu)
{
    return tenant->gpu != 0 && strcmp(trace->tracks[tenant->gpu].name, trace->tracks[gpu].name) == 0;
}

const struct report_tenant *cli_report_tenant_of_sm(const struct trace *trace,
                                                    const struct report_tenants *tenants, uint32_t gpu,
                                                    int32_t sm)
{
    const struct report_tenant *most = NULL;
    for (size_t i = 0; i < tenants->count && sm >= 0 && sm < (int32_t)REPORT_SMS; i++) {
        const struct report_tenant *one = &tenants->list[i];
        if (one->blocks_of != NULL && one->blocks_of[sm] != 0 && is_on(trace, one, gpu) &&
            (most == NULL || one->blocks_of[sm] > most->blocks_of[sm])) {
            most = one;
        }
    }
    return most;
}

/* The marks behind the last blocks say how many of each partition ran on each SM. */
static bool read_places(const struct trace *trace, struct report_tenants *tenants)
{
    for (size_t i = 0; i < trace->mark_count; i++) {
        const struct trace_slice *m = &trace->marks[i];
        const struct trace_track *track = &trace->tracks[m->track];
        const uint64_t sm = cli_trace_argument(trace, m, TRACE_SM, REPORT_SMS);
        if (strcmp(track->name, "SMs of partitions") != 0 || sm >= REPORT_SMS) {
            continue;
        }
        const uint64_t blocks = cli_trace_argument(trace, m, TRACE_CTAS, 0);
        struct report_tenant *tenant = NULL;
        for (size_t n = 0; n < tenants->count && tenant == NULL; n++) {
            const bool is_it = is_on(trace, &tenants->list[n], track->parent) &&
                               strcmp(tenants->list[n].name, trace->names[m->name]) == 0;
            tenant = is_it ? &tenants->list[n] : NULL;
        }
        if (tenant == NULL) {
            continue;
        }
        if (tenant->blocks_of == NULL) {
            tenant->blocks_of = calloc(REPORT_SMS, sizeof(*tenant->blocks_of));
            if (tenant->blocks_of == NULL) {
                return false;
            }
        }
        tenant->blocks_of[sm] += blocks;
        tenant->blocks += blocks;
    }
    for (size_t i = 0; i < tenants->count; i++) {
        struct report_tenant *one = &tenants->list[i];
        for (int32_t sm = 0; one->blocks_of != NULL && sm < (int32_t)REPORT_SMS; sm++) {
            one->strays +=
                cli_report_tenant_of_sm(trace, tenants, one->gpu, sm) != one ? one->blocks_of[sm] : 0;
        }
    }
    return true;
}

/* Where a run of SMs that ran its blocks begins and ends, from `*at` on; -1 when there is none any more. */
static int next_run(const struct report_tenant *tenant, int *at)
{
    while (tenant->blocks_of != NULL && *at < (int)REPORT_SMS && tenant->blocks_of[*at] == 0) {
        ++*at;
    }
    if (tenant->blocks_of == NULL || *at == (int)REPORT_SMS) {
        return -1;
    }
    int last = *at;
    while (last + 1 < (int)REPORT_SMS && tenant->blocks_of[last + 1] != 0) {
        last++;
    }
    return last;
}

static unsigned sm_count(const struct report_tenant *tenant)
{
    unsigned count = 0;
    for (int last, at = 0; (last = next_run(tenant, &at)) >= 0; at = last + 1) {
        count += (unsigned)(last - at) + 1;
    }
    return count;
}

/* ---- all of it ----------------------------------------------------------------------------------- */

bool cli_report_tenants(const struct trace *trace, const struct report *report, struct report_tenants *out)
{
    *out = (struct report_tenants){.list = calloc(REPORT_TENANTS, sizeof(*out->list)),
                                   .holds = calloc(REPORT_HOLDS, sizeof(*out->holds))};
    if (out->list == NULL || out->holds == NULL) {
        return false;
    }
    for (size_t i = 0; i < report->partition_count; i++) {
        if (report->partitions[i].name[0] != '\0') {
            (void)tenant_of(out, report->partitions[i].gpu, report->partitions[i].name);
        }
    }
    const bool good = gather_tasks(trace, out) && read_places(trace, out);
    read_counters(trace, out);
    read_holds(trace, out);
    return good;
}

void cli_report_tenants_free(struct report_tenants *tenants)
{
    for (size_t i = 0; tenants->list != NULL && i < tenants->count; i++) {
        free(tenants->list[i].blocks_of);
    }
    free(tenants->list);
    free(tenants->holds);
}

/* ---- text and JSON ------------------------------------------------------------------------------- */

static double percent(uint64_t part, uint64_t whole)
{
    return whole != 0 ? 100.0 * (double)part / (double)whole : 0;
}

static void print_percent(bool is_known, double value, int width)
{
    if (is_known) {
        printf(" %*.1f %%", width - 2, value);
    } else {
        printf(" %*s", width, "-");
    }
}

/* Its name, with the device where another one has a partition of that name. */
static void print_name(const struct trace *trace, const struct report_tenants *tenants,
                       const struct report_tenant *t)
{
    char text[sizeof(t->name) + 32];
    bool is_one_of_several = false;
    for (size_t i = 0; i < tenants->count; i++) {
        const struct report_tenant *other = &tenants->list[i];
        is_one_of_several = is_one_of_several || (other != t && strcmp(other->name, t->name) == 0);
    }
    snprintf(text, sizeof(text), "%s", t->name);
    if (is_one_of_several && t->gpu != 0) {
        snprintf(text, sizeof(text), "%s, GPU %d", t->name, cli_report_ordinal(trace, t->gpu));
    }
    cli_print_text(stdout, text, 20, 20);
}

static void print_tenant(const struct trace *trace, const struct report_tenants *tenants,
                         const struct report_tenant *t)
{
    const bool has_share = t->target_ppm != 0;
    print_name(trace, tenants, t);
    print_percent(has_share, (double)t->target_ppm / 1e4, 8);
    print_percent(has_share && t->counted_us != 0, percent(t->charged_us, t->counted_us), 8);
    print_percent(has_share && t->worst_us != 0, percent(t->worst_us, REPORT_WINDOW_US), 12);
    printf(" %10.3f %8" PRIu64 " %10.3f %10.3f", (double)t->held_ns / 1e6, t->tasks, (double)t->p50_ns / 1e3,
           (double)t->p99_ns / 1e3);
    if (t->blocks_of != NULL) {
        printf(" %5u %8" PRIu64 " %7" PRIu64, sm_count(t), t->blocks, t->strays);
    }
    printf("\n");
}

static void print_places(const struct trace *trace, const struct report_tenants *tenants)
{
    uint64_t strays = 0;
    size_t placed = 0;
    for (size_t i = 0; i < tenants->count; i++) {
        const struct report_tenant *t = &tenants->list[i];
        if (t->blocks_of == NULL) {
            continue;
        }
        strays += t->strays;
        printf("%s  ", placed++ == 0 ? "\nSMs by partition, as blocks ran on them\n" : "");
        print_name(trace, tenants, t);
        const char *comma = " ";
        for (int last, at = 0; (last = next_run(t, &at)) >= 0; at = last + 1, comma = ", ") {
            printf(last == at ? "%s%d" : "%s%d-%d", comma, at, last);
        }
        printf("\n");
    }
    if (placed > 1) {
        printf(strays == 0 ? "  No SM ran blocks of two partitions.\n"
                           : "  %" PRIu64 " blocks are strays: they ran where another partition has more.\n",
               strays);
    }
}

void cli_report_tenants_text(const struct trace *trace, const struct report_tenants *tenants)
{
    if (tenants->count == 0) {
        return;
    }
    printf("\n%-20s %8s %8s %12s %10s %8s %10s %10s %5s %8s %7s\n", "tenant", "target", "got", "worst 100ms",
           "held ms", "tasks", "p50 us", "p99 us", "SMs", "blocks", "strays");
    for (size_t i = 0; i < tenants->count; i++) {
        print_tenant(trace, tenants, &tenants->list[i]);
    }
    for (size_t i = 0; i < tenants->hold_count; i++) {
        char name[64];
        const char *other = split_hold(trace->names[tenants->holds[i].name], name, sizeof(name));
        printf("%s  ", i == 0 ? "\nheld back by shares\n" : "");
        cli_print_text(stdout, name, 20, 20);
        printf(" %6" PRIu64 ", %.3f ms on GPU %" PRIu64 ": ", tenants->holds[i].count,
               (double)tenants->holds[i].ns / 1e6, tenants->holds[i].ordinal);
        cli_print_text(stdout, other != NULL ? other : "its own share was used up", 0, CLI_ANY_LENGTH);
        printf("%s\n", other != NULL ? " had the turn" : "");
    }
    print_places(trace, tenants);
    printf("\n");
}

static void json_of_tenant(const struct trace *trace, const struct report_tenant *t, FILE *file)
{
    fputs("{\"name\":", file);
    cli_json_string(file, t->name);
    fputs(",\"gpu\":", file);
    cli_json_string(file, trace->tracks[t->gpu].name);
    fprintf(file,
            ",\"target_ppm\":%" PRIu64 ",\"charged_us\":%" PRIu64 ",\"counted_us\":%" PRIu64
            ",\"worst_100ms_us\":%" PRIu64 ",\"holds\":%" PRIu64 ",\"held_ns\":%" PRIu64 ",\"tasks\":%" PRIu64
            ",\"p50_ns\":%" PRIu64 ",\"p99_ns\":%" PRIu64 ",\"blocks\":%" PRIu64 ",\"strays\":%" PRIu64
            ",\"sms\":[",
            t->target_ppm, t->charged_us, t->counted_us, t->worst_us, t->holds, t->held_ns, t->tasks,
            t->p50_ns, t->p99_ns, t->blocks, t->strays);
    const char *comma = "";
    for (int last, at = 0; (last = next_run(t, &at)) >= 0; at = last + 1, comma = ",") {
        fprintf(file, "%s[%d,%d]", comma, at, last);
    }
    fputs("]}", file);
}

void cli_report_tenants_json(const struct trace *trace, const struct report_tenants *tenants, FILE *file)
{
    fputs("\"tenants\":[", file);
    for (size_t i = 0; i < tenants->count; i++) {
        fputs(i == 0 ? "" : ",", file);
        json_of_tenant(trace, &tenants->list[i], file);
    }
    fputs("],\"held_back\":[", file);
    for (size_t i = 0; i < tenants->hold_count; i++) {
        char name[64];
        const char *other = split_hold(trace->names[tenants->holds[i].name], name, sizeof(name));
        fputs(i == 0 ? "{\"tenant\":" : ",{\"tenant\":", file);
        cli_json_string(file, name);
        fputs(",\"turn_of\":", file);
        cli_json_string(file, other != NULL ? other : "");
        fprintf(file, ",\"device\":%" PRIu64 ",\"count\":%" PRIu64 ",\"ns\":%" PRIu64 "}",
                tenants->holds[i].ordinal, tenants->holds[i].count, tenants->holds[i].ns);
    }
    fputs("]", file);
}
