/* SPDX-License-Identifier: MIT */
/* What the driver takes for green contexts and their streams, one after another, and for launches on those.
 * Then: what a plan of three partitions adds to the creation of a context, and what a change of plans takes.
 */
#include "bench/bench_partition.h"
#include "cli/messages.h"

#include "base/clock.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { ROUNDS_PER_RUN = 4, LAUNCHES = 100, GREEN_SMS = 16 };

enum call { SPLIT, DESCRIBE, CREATE, STREAM, LAUNCH, PLAIN_LAUNCH, STREAM_DESTROY, DESTROY, CALLS };

static const char *const names[CALLS] = {
    "partition/cost-split",    "partition/cost-describe", "partition/cost-create",
    "partition/cost-stream",   "partition/cost-launch",   NULL,
    "partition/cost-unstream", "partition/cost-destroy",
};

/* Make the calls one after the other; the time of each goes to its column of this round. */
struct clockwork {
    double *columns; /* CALLS + 2 of `rounds`: the last two are plain streams made and destroyed */
    uint32_t rounds, round;
    uint64_t since;
};

static void begin(struct clockwork *w)
{
    w->since = gy_clock_ns();
}

static void end(struct clockwork *w, uint32_t column, uint32_t calls)
{
    w->columns[column * w->rounds + w->round] = (double)(gy_clock_ns() - w->since) / calls;
}

static bool launch_empty(struct bench_scene *s, CUstream stream)
{
    void *none = NULL, *done = s->counters + 1;
    uint64_t ns = 0;
    void *args[] = {&none, &none, &done, &ns};
    bool good = true;
    for (int i = 0; i < LAUNCHES && good; i++) {
        good = RAW(&s->cuda, cuLaunchKernel(s->function, 1, 1, 1, 32, 1, 1, 0, stream, args, NULL));
    }
    s->short_total += LAUNCHES;
    return good;
}

static bool time_launches(struct bench_scene *s, struct clockwork *w, CUstream stream, uint32_t column)
{
    begin(w);
    bool good = launch_empty(s, stream);
    end(w, column, LAUNCHES);
    return good && RAW(&s->cuda, cuStreamSynchronize(stream));
}

static bool time_plain_stream(struct bench_scene *s, struct clockwork *w)
{
    CUstream stream;
    begin(w);
    bool good = RAW(&s->cuda, cuStreamCreate(&stream, CU_STREAM_NON_BLOCKING));
    end(w, CALLS, 1);
    if (good) {
        good = time_launches(s, w, stream, PLAIN_LAUNCH);
        begin(w);
        good = RAW(&s->cuda, cuStreamDestroy(stream)) && good;
        end(w, CALLS + 1, 1);
    }
    return good;
}

static bool time_green_stream(struct bench_scene *s, struct clockwork *w, CUgreenCtx green)
{
    CUstream stream;
    begin(w);
    bool good = RAW(&s->cuda, cuGreenCtxStreamCreate(&stream, green, CU_STREAM_NON_BLOCKING, 0));
    end(w, STREAM, 1);
    if (good) {
        good = time_launches(s, w, stream, LAUNCH);
        begin(w);
        good = RAW(&s->cuda, cuStreamDestroy(stream)) && good;
        end(w, STREAM_DESTROY, 1);
    }
    return good;
}

static bool time_round(struct bench_scene *s, struct clockwork *w)
{
    CUdevResource all, part;
    CUdevResourceDesc desc = NULL;
    CUgreenCtx green;
    unsigned groups = 1;
    memset(&all, 0, sizeof(all));
    if (!RAW(&s->cuda, cuDeviceGetDevResource(s->info.ordinal, &all, CU_DEV_RESOURCE_TYPE_SM))) {
        return false;
    }
    begin(w);
    bool good = RAW(&s->cuda, cuDevSmResourceSplitByCount(&part, &groups, &all, NULL, 0, GREEN_SMS));
    end(w, SPLIT, 1);
    begin(w);
    good = good && RAW(&s->cuda, cuDevResourceGenerateDesc(&desc, &part, 1));
    end(w, DESCRIBE, 1);
    begin(w);
    good =
        good && RAW(&s->cuda, cuGreenCtxCreate(&green, desc, s->info.ordinal, CU_GREEN_CTX_DEFAULT_STREAM));
    end(w, CREATE, 1);
    if (good) {
        good = time_green_stream(s, w, green) && time_plain_stream(s, w);
        begin(w);
        good = RAW(&s->cuda, cuGreenCtxDestroy(green)) && good;
        end(w, DESTROY, 1);
    }
    return good;
}

static struct bench_pair column(struct clockwork *w, uint32_t which)
{
    double *values = w->columns + which * w->rounds;
    bench_sort(values, w->rounds);
    return (struct bench_pair){values[0], values[w->rounds / 2]};
}

static void report_calls(const struct bench_options *options, struct clockwork *w)
{
    struct bench_pair none = {0, 0};
    for (uint32_t call = 0; call < CALLS; call++) {
        bool has_plain = call == STREAM || call == LAUNCH || call == STREAM_DESTROY;
        uint32_t plain = call == STREAM ? CALLS : call == LAUNCH ? PLAIN_LAUNCH : CALLS + 1;
        if (names[call] != NULL) {
            bench_partition_line(options, names[call], "call", column(w, call),
                                 has_plain ? "plain-stream" : NULL, has_plain ? column(w, plain) : none);
        }
    }
}

/* ---- a whole plan --------------------------------------------------------------------------- */

static const gantry_partition_request three[] = {
    {.struct_size = sizeof(three[0]), .name = "a", .size = GANTRY_PARTITION_AT_LEAST, .sm_count = 16},
    {.struct_size = sizeof(three[0]), .name = "b", .size = GANTRY_PARTITION_AT_LEAST, .sm_count = 32},
    {.struct_size = sizeof(three[0]), .name = "c", .size = GANTRY_PARTITION_REST},
};

static gantry_partition_options plan_of_three(void)
{
    gantry_partition_options plan = GANTRY_PARTITION_OPTIONS_INIT;
    plan.requests = three;
    plan.count = 3;
    return plan;
}

/* Create a context beside one that exists already, so that the device's part is done. */
static bool time_context(const struct bench_options *options, bool with_plan, double *ns)
{
    gantry_partition_options plan = plan_of_three();
    gantry_context_options context = GANTRY_CONTEXT_OPTIONS_INIT;
    gantry_context *made;
    context.driver = options->driver;
    context.partitions = with_plan ? &plan : NULL;
    uint64_t since = gy_clock_ns();
    gantry_status status = gantry_context_create(&context, &made);
    *ns = (double)(gy_clock_ns() - since);
    if (status == GANTRY_OK) {
        gantry_context_destroy(made);
    } else {
        cli_error("bench partition: %s", gantry_last_error());
    }
    return status == GANTRY_OK;
}

/* A context without a plan gets one, and loses it again, into these two columns. */
static bool time_changes(const struct bench_options *options, struct clockwork *w, uint32_t to, uint32_t from)
{
    gantry_context_options context = GANTRY_CONTEXT_OPTIONS_INIT;
    gantry_partition_options plan = plan_of_three();
    gantry_context *made = NULL;
    context.driver = options->driver;
    gantry_status status = gantry_context_create(&context, &made);
    for (w->round = 0; w->round < w->rounds && status == GANTRY_OK; w->round++) {
        begin(w);
        status = gantry_context_set_partitions(made, &plan);
        end(w, to, 1);
        begin(w);
        status = status == GANTRY_OK ? gantry_context_set_partitions(made, NULL) : status;
        end(w, from, 1);
    }
    if (status != GANTRY_OK) {
        cli_error("bench partition: %s", gantry_last_error());
    }
    gantry_context_destroy(made);
    return status == GANTRY_OK;
}

/* Measure both in turn, into the first two columns. */
static bool bench_plan(const struct bench_options *options, struct clockwork *w)
{
    bool good = true;
    for (uint32_t i = 0; i < w->rounds && good; i++) {
        good = time_context(options, true, &w->columns[i]) &&
               time_context(options, false, &w->columns[w->rounds + i]);
    }
    if (good) {
        bench_partition_line(options, "partition/cost-plan-of-3", "context", column(w, 0), "no-plan",
                             column(w, 1));
    }
    good = good && time_changes(options, w, 1, 2);
    if (good) { /* beside a context that is created with it */
        bench_partition_line(options, "partition/cost-change-to-3", "change", column(w, 1), "new-context",
                             column(w, 0));
        bench_partition_line(options, "partition/cost-change-to-none", "change", column(w, 2), NULL,
                             (struct bench_pair){0, 0});
    }
    return good;
}

bool bench_partition_costs(const struct bench_options *options)
{
    struct bench_scene scene;
    struct bench_scene_options how = {.driver = options->driver, .critical_sms = 8, .waves = 1, .wave_us = 1};
    struct clockwork w = {.rounds = options->runs * ROUNDS_PER_RUN};
    w.columns = calloc((size_t)w.rounds * (CALLS + 2), sizeof(double));
    bool good = w.columns != NULL && bench_scene_open(&scene, &how);
    if (w.columns == NULL) {
        return false;
    }
    for (w.round = 0; w.round < w.rounds && good; w.round++) {
        good = time_round(&scene, &w);
    }
    good = good && bench_scene_verify(&scene);
    if (good) {
        report_calls(options, &w);
    }
    bench_scene_close(&scene); /* with its plan: two plans of one device have SMs in common */
    good = good && bench_plan(options, &w);
    free(w.columns);
    return good;
}
