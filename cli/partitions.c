/* SPDX-License-Identifier: MIT */
#include "cli/partitions.h"

#include "cli/command.h"
#include "cli/plan_json.h"

#include <gantry/gantry.h>

#include <inttypes.h>
#include <stdio.h>
#include <string.h>

/* The SMs that a kernel has seen in one partition. */
struct seen {
    gantry_partition_info info;
    gantry_sm_set stream, graph;
    uint32_t strays;  /* SMs more than granted, or others as a graph */
    uint32_t missing; /* SMs fewer than granted */
    uint32_t overlap; /* SMs that another partition ran on, too, though this one is exclusive */
    struct cli_share share;
};

/* The SMs on which a task ran that names no partition. */
struct unnamed {
    uint32_t stream, graph; /* SMs */
    uint32_t strays;        /* of either, where the default partition's tasks may not run */
    uint32_t wide;          /* SMs of the default partition with what it may borrow; 0: nothing */
};

static uint32_t count_outside(const gantry_sm_set *of, const gantry_sm_set *set)
{
    uint32_t count = 0;
    for (int w = 0; w < GANTRY_SM_SET_WORDS; w++) {
        count += (uint32_t)__builtin_popcountll(of->words[w] & ~set->words[w]);
    }
    return count;
}

static bool look(gantry_context *context, uint32_t index, struct seen *out)
{
    gantry_partition *partition = gantry_partition_at(context, index);
    out->info.struct_size = sizeof(out->info);
    out->stream.struct_size = out->graph.struct_size = sizeof(out->stream);
    if (gantry_partition_get_info(partition, &out->info) != GANTRY_OK ||
        gantry_partition_audit(partition, GANTRY_AUDIT_STREAM, &out->stream) != GANTRY_OK ||
        gantry_partition_audit(partition, GANTRY_AUDIT_GRAPH, &out->graph) != GANTRY_OK) {
        return false; /* the log said why */
    }
    uint32_t granted = out->info.granted_sms, ran = out->stream.seen_sms;
    out->strays = ran > granted ? ran - granted : 0;
    out->missing = ran < granted ? granted - ran : 0;
    out->strays += count_outside(&out->graph, &out->stream);
    return true;
}

/* The partition that lends its SMs to the one of that index, if that may borrow any. */
static const struct seen *find_lender(const struct cli_plan *asked, const struct seen *seen, uint32_t count,
                                      uint32_t index)
{
    const char *name = index < asked->options.count ? asked->requests[index].borrows : NULL;
    for (uint32_t i = 0; i < count && name != NULL && seen[index].info.wide_sms != 0; i++) {
        if (strcmp(seen[i].info.name, name) == 0) {
            return &seen[i];
        }
    }
    return NULL;
}

/* What names no partition runs in the default one, and on the SMs that this may borrow. */
static bool look_at_unnamed(gantry_context *context, const struct cli_plan *asked, const struct seen *seen,
                            const gantry_partition_layout *plan, struct unnamed *out)
{
    const struct seen *own = &seen[plan->default_partition];
    const struct seen *lender = find_lender(asked, seen, plan->count, plan->default_partition);
    gantry_sm_set stream, graph, allowed = own->stream;
    for (int w = 0; w < GANTRY_SM_SET_WORDS && lender != NULL; w++) {
        allowed.words[w] |= lender->stream.words[w];
    }
    if (!cli_look_at_tasks(context, &stream, &graph)) {
        return false;
    }
    *out = (struct unnamed){stream.seen_sms, graph.seen_sms, count_outside(&stream, &allowed),
                            own->info.wide_sms};
    out->strays += count_outside(&graph, &allowed);
    return true;
}

static void find_overlaps(struct seen *seen, uint32_t count)
{
    for (uint32_t a = 0; a < count; a++) {
        for (uint32_t b = 0; b < count; b++) {
            for (int w = 0; w < GANTRY_SM_SET_WORDS && a != b && seen[a].info.is_exclusive; w++) {
                uint64_t both = seen[a].stream.words[w] & seen[b].stream.words[w];
                seen[a].overlap += (uint32_t)__builtin_popcountll(both);
            }
        }
    }
}

/* "0-15,32" */
static void format_set(const gantry_sm_set *set, char *out, size_t room)
{
    size_t used = 0;
    out[0] = '\0';
    for (uint32_t sm = 0, first = 0; sm <= 64 * GANTRY_SM_SET_WORDS; sm++) {
        bool in = sm < 64 * GANTRY_SM_SET_WORDS && (set->words[sm / 64] >> (sm % 64) & 1) != 0;
        bool before = sm > 0 && (set->words[(sm - 1) / 64] >> ((sm - 1) % 64) & 1) != 0;
        if (in && !before) {
            first = sm;
        } else if (!in && before && used < room) {
            const char *comma = used != 0 ? "," : "";
            int n = first == sm - 1
                        ? snprintf(out + used, room - used, "%s%" PRIu32, comma, first)
                        : snprintf(out + used, room - used, "%s%" PRIu32 "-%" PRIu32, comma, first, sm - 1);
            used += (size_t)n;
        }
    }
}

static void print_name(const struct seen *seen)
{
    cli_print_text(stdout, seen->info.name, 16, CLI_ANY_LENGTH);
}

static const char *scope_name(const struct seen *seen)
{
    return seen->info.workqueue_scope == GANTRY_WORKQUEUE_BALANCED ? "balanced" : "shared";
}

/* What else was granted; a work queue limit of 0 says that the driver tells nothing of queues. */
static void print_grants(const struct seen *seen, uint32_t count)
{
    printf("%-16s %7s %8s %11s  %s\n", "partition", "cluster", "priority", "work queues", "scope");
    for (uint32_t i = 0; i < count; i++) {
        const gantry_partition_info *info = &seen[i].info;
        print_name(&seen[i]);
        printf(" %7" PRIu32 " %8d ", info->cluster_size, info->priority);
        if (info->workqueue_limit != 0) {
            printf("%11" PRIu32 "  %s\n", info->workqueue_limit, scope_name(&seen[i]));
        } else {
            printf("%11s  not divided\n", "-");
        }
    }
}

/* What the device offers, and what was made of it.  A topology without units is that of a driver that divides
 * nothing. */
static void print_split(const gantry_sm_topology *t, const gantry_partition_layout *plan)
{
    if (t->unit_count == 0) {
        printf("multiprocessors    %" PRIu32 ", which this driver does not divide\n", t->total_sms);
        printf("split              none: streams with priorities, on all multiprocessors\n");
        return;
    }
    printf("multiprocessors    %" PRIu32 "%s%s, %" PRIu32 " units of %" PRIu32
           "; without co-scheduling %" PRIu32 " of %" PRIu32 "\n",
           t->total_sms, t->is_mig ? " of a MIG instance" : "", t->mps_percentage != 0 ? " under MPS" : "",
           t->unit_count, t->unit_sms, t->fine_unit_count, t->fine_unit_sms);
    printf("split              %s, %" PRIu32 " groups, remainder %" PRIu32 ", unused %" PRIu32 "\n",
           plan->is_structured ? "structured" : "by count", plan->group_count, plan->remainder_sms,
           plan->unused_sms);
}

static void print_text(const gantry_sm_topology *t, const gantry_partition_layout *plan,
                       const struct seen *seen, const struct unnamed *unnamed)
{
    char set[4096], note[48] = "";
    print_split(t, plan);
    printf("%-16s %7s %7s %6s %6s %7s %7s %7s  %s\n", "partition", "planned", "granted", "stream", "graph",
           "strays", "missing", "overlap", "SMs");
    for (uint32_t i = 0; i < plan->count; i++) {
        const struct seen *s = &seen[i];
        format_set(&s->stream, set, sizeof(set));
        print_name(s);
        printf(" %7" PRIu32 " %7" PRIu32 " %6" PRIu32 " %6" PRIu32 " %7" PRIu32 " %7" PRIu32 " %7" PRIu32
               "  %s%s\n",
               s->info.planned_sms, s->info.granted_sms, s->stream.seen_sms, s->graph.seen_sms, s->strays,
               s->missing, s->overlap, set, s->info.is_default ? "  (default)" : "");
    }
    if (unnamed->wide != 0) {
        (void)snprintf(note, sizeof(note), "  (%" PRIu32 " with borrowed ones)", unnamed->wide);
    }
    printf("%-16s %7s %7s %6" PRIu32 " %6" PRIu32 " %7" PRIu32 "%s\n", "(a task of none)", "", "",
           unnamed->stream, unnamed->graph, unnamed->strays, note);
    print_grants(seen, plan->count);
}

static void print_shares(const struct seen *seen, uint32_t count)
{
    bool any = false;
    for (uint32_t i = 0; i < count; i++) {
        const gantry_share_usage *u = &seen[i].share.usage;
        if (!seen[i].share.is_bound) {
            continue;
        }
        if (!any) {
            printf("%-16s %7s %8s %9s %9s %9s  %s\n", "share of", "target", "measured", "in 100 ms", "in 1 s",
                   "throttled", "(all of them loaded at a time)");
        }
        any = true;
        if (seen[i].share.is_too_small) {
            print_name(&seen[i]);
            printf(" %5.2g %% is too small to be measured here\n", 100 * u->target);
            continue;
        }
        print_name(&seen[i]);
        printf(" %5.1f %% %6.1f %% %7.1f %% %7.1f %% %7.1f %%\n", 100 * u->target, 100 * u->measured,
               100 * u->worst_100ms, 100 * u->worst_1s,
               u->since_ns != 0 ? 100 * (double)u->throttled_ns / (double)u->since_ns : 0.0);
    }
}

static void print_json_share(const struct cli_share *share)
{
    const gantry_share_usage *u = &share->usage;
    if (!share->is_bound) {
        printf(",\"share\":null}");
        return;
    }
    if (share->is_too_small) {
        printf(",\"share\":{\"target\":%.9g,\"measured\":null}}", u->target);
        return;
    }
    printf(",\"share\":{\"target\":%.6f,\"measured\":%.6f,\"worst_100ms\":%.6f,\"worst_1s\":%.6f,"
           "\"used_ns\":%" PRIu64 ",\"since_ns\":%" PRIu64 ",\"throttled_ns\":%" PRIu64 "}}",
           u->target, u->measured, u->worst_100ms, u->worst_1s, u->used_ns, u->since_ns, u->throttled_ns);
}

static void print_json(const gantry_sm_topology *t, const gantry_partition_layout *plan,
                       const struct seen *seen, const struct unnamed *unnamed)
{
    char set[4096];
    printf("{\"total_sms\":%" PRIu32 ",\"unit_sms\":%" PRIu32 ",\"unit_count\":%" PRIu32 ",\"is_mig\":%s,"
           "\"mps_percentage\":%" PRIu32 ",\"is_divided\":%s,\"is_structured\":%s,\"remainder_sms\":%" PRIu32
           ",\"unused_sms\":%" PRIu32 ",\"partitions\":[",
           t->total_sms, t->unit_sms, t->unit_count, t->is_mig ? "true" : "false", t->mps_percentage,
           t->unit_count != 0 ? "true" : "false", plan->is_structured ? "true" : "false", plan->remainder_sms,
           plan->unused_sms);
    for (uint32_t i = 0; i < plan->count; i++) {
        const struct seen *s = &seen[i];
        format_set(&s->stream, set, sizeof(set));
        printf("%s{\"name\":", i != 0 ? "," : "");
        cli_json_string(stdout, s->info.name);
        printf(",\"planned_sms\":%" PRIu32 ",\"granted_sms\":%" PRIu32 ",\"seen_sms\":%" PRIu32
               ",\"seen_in_graph\":%" PRIu32 ",\"strays\":%" PRIu32 ",\"missing\":%" PRIu32
               ",\"overlap\":%" PRIu32 ",\"default\":%s,\"seen_ids\":\"%s\",\"cluster_size\":%" PRIu32
               ",\"priority\":%d,\"workqueue_limit\":%" PRIu32 ",\"workqueue_scope\":\"%s\"",
               s->info.planned_sms, s->info.granted_sms, s->stream.seen_sms, s->graph.seen_sms, s->strays,
               s->missing, s->overlap, s->info.is_default ? "true" : "false", set, s->info.cluster_size,
               s->info.priority, s->info.workqueue_limit, scope_name(s));
        print_json_share(&s->share);
    }
    printf("],\"unnamed\":{\"seen_sms\":%" PRIu32 ",\"seen_in_graph\":%" PRIu32 ",\"strays\":%" PRIu32 "}}\n",
           unnamed->stream, unnamed->graph, unnamed->strays);
}

/* What the device offers.  A driver without green contexts offers nothing; where the plan says what to do
 * then, that was done, and `unit_count` is 0. */
static bool read_topology(gantry_context *context, const struct cli_plan *asked, gantry_sm_topology *out)
{
    gantry_set_log(NULL, NULL, GANTRY_LOG_ERROR); /* it is no error then */
    gantry_status status = gantry_partition_read_topology(context, out);
    gantry_set_log(cli_log_to_stderr, NULL, cli_log_level);
    if (status == GANTRY_ERR_UNSUPPORTED && asked->options.fallback == GANTRY_PARTITION_PRIORITY_ONLY) {
        gantry_device_info device = {.struct_size = sizeof(device)};
        status = gantry_context_device_info(context, &device);
        out->total_sms = device.total_sms;
        out->unit_count = 0;
    }
    if (status != GANTRY_OK) {
        cli_error("%s", gantry_last_error());
    }
    return status == GANTRY_OK;
}

static int show(gantry_context *context, const struct cli_plan *asked, bool json)
{
    struct seen seen[GANTRY_PARTITIONS_MAX];
    gantry_sm_topology topology = {.struct_size = sizeof(topology)};
    gantry_partition_layout plan = {.struct_size = sizeof(plan)};
    memset(seen, 0, sizeof(seen));
    if (!read_topology(context, asked, &topology) ||
        gantry_partition_get_layout(context, &plan) != GANTRY_OK) {
        return 1;
    }
    /* The shares are measured first: whatever ran before would have used up their time. */
    struct cli_share shares[GANTRY_PARTITIONS_MAX];
    memset(shares, 0, sizeof(shares));
    if (!cli_try_shares(context, shares, plan.count)) {
        return 1;
    }
    bool clean;
    for (uint32_t i = 0; i < plan.count; i++) {
        seen[i].share = shares[i];
        if (!look(context, i, &seen[i])) {
            return 1;
        }
    }
    find_overlaps(seen, plan.count);
    struct unnamed unnamed;
    if (!look_at_unnamed(context, asked, seen, &plan, &unnamed)) {
        return 1;
    }
    clean = unnamed.strays == 0;
    for (uint32_t i = 0; i < plan.count; i++) {
        clean = clean && seen[i].strays == 0 && seen[i].missing == 0 && seen[i].overlap == 0;
    }
    (json ? print_json : print_text)(&topology, &plan, seen, &unnamed);
    if (!json) {
        print_shares(seen, plan.count);
    }
    if (!clean) {
        cli_error("blocks ran where they should not, or not wherever they should");
    }
    return clean ? 0 : 1;
}

int cli_show_partitions(gantry_driver_choice driver, const char *path, bool json)
{
    struct cli_plan plan;
    gantry_context_options options = GANTRY_CONTEXT_OPTIONS_INIT;
    gantry_context *context;
    if (!cli_plan_read(path, &plan)) {
        return 1;
    }
    options.driver = driver;
    options.partitions = &plan.options;
    int result = 1;
    if (gantry_context_create(&options, &context) == GANTRY_OK) { /* else the log said why not */
        result = show(context, &plan, json);
        gantry_context_destroy(context);
    }
    cli_plan_free(&plan);
    return result;
}
