/* SPDX-License-Identifier: MIT */
/* `gantry run proof_pipeline`: a pipeline that is bound by memory more than by anything else, and what helps.
 *
 * problem.c is the mathematics, stages.c and device.c are task bodies and launch callbacks, pipeline.c is the
 * graph.  Here: which configurations are measured, and in which order.  They take turns, so that whatever
 * disturbs the machine disturbs all of them. */
#include "cli/messages.h"
#include "cli/samples.h"

#include "samples/proof_pipeline/options.h"
#include "samples/proof_pipeline/report.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

enum { NOTHING, INLINE, RECLAIMER, LIMIT, CPU_SET, GATE, KEEP, EVERYTHING, CONFIGURATIONS };

static const char *const names[CONFIGURATIONS] = {"nothing",     "inline frees",  "reclaimer",
                                                  "class limit", "limit+CPU set", "bandwidth gate",
                                                  "kept memory", "everything"};

struct session {
    struct options options;
    struct problem problem;
    struct answer *answers;
    struct pipeline *pipelines[CONFIGURATIONS];
    uint32_t count; /* of pipelines */
    struct series sweeps[2][MOST_LEVELS];
    struct series gains[CONFIGURATIONS];
};

static void configure(const struct options *options, uint32_t number, struct settings *out)
{
    *out = options->settings;
    if (options->is_fixed) {
        return;
    }
    bool all = number == EVERYTHING;
    out->reclaim = all || number == RECLAIMER ? GANTRY_RECLAIM_BOUNDED
                   : number == INLINE         ? GANTRY_RECLAIM_INLINE
                                              : GANTRY_RECLAIM_UNBOUNDED;
    out->tail_workers = all || number == LIMIT || number == CPU_SET ? options->tail_limit : 0;
    out->cpu_set = all || number == CPU_SET;
    out->gate = all || number == GATE;
    out->keep_memory = number == KEEP; /* instead of the interventions, not one of them */
}

static bool solve_serially(struct session *s)
{
    uint32_t count = s->options.settings.partitions;
    s->answers = calloc(count, sizeof(*s->answers));
    bool good = s->answers != NULL;
    for (uint32_t i = 0; i < count && good; i++) {
        good = proof_solve(&s->problem, i, &s->answers[i]);
    }
    if (!good) {
        cli_error("proof_pipeline: no memory for the serial run");
    }
    return good;
}

static bool open_all(struct session *s)
{
    const struct options *o = &s->options;
    if (!proof_create(&s->problem, o->rows_log2, o->entries, o->window_bits)) {
        cli_error("proof_pipeline: no memory for matrices of 2^%u rows", o->rows_log2);
        return false;
    }
    if (gantry_bandwidth_configure(&o->gate) != GANTRY_OK || !solve_serially(s)) {
        return false;
    }
    uint32_t count = o->is_fixed ? 1 : CONFIGURATIONS;
    for (; s->count < count; s->count++) {
        struct settings settings;
        struct measured warm;
        configure(o, s->count, &settings);
        s->pipelines[s->count] = proof_open(&settings, &s->problem, s->answers);
        if (s->pipelines[s->count] == NULL) {
            return false;
        }
        if (!proof_run(s->pipelines[s->count], &warm)) {
            s->count++;
            return false;
        }
    }
    return true;
}

static void close_all(struct session *s)
{
    for (uint32_t i = 0; i < s->count; i++) {
        proof_close(s->pipelines[i]);
    }
    free(s->answers);
    proof_destroy(&s->problem);
}

static bool measure_load(struct session *s, uint32_t pipeline, uint32_t concurrency, uint32_t jobs,
                         struct series *series)
{
    struct measured run;
    proof_set_load(s->pipelines[pipeline], concurrency, jobs);
    if (!proof_run(s->pipelines[pipeline], &run)) {
        return false;
    }
    proof_series_add(series, &run, jobs);
    return true;
}

static bool measure_row(struct session *s, uint32_t pipeline, uint32_t row, struct series *series)
{
    return measure_load(s, pipeline, s->options.levels.at[row], s->options.jobs.at[row], series);
}

/* The last pipeline is the one with everything, or the only one. */
static bool measure_all(struct session *s)
{
    const struct options *o = &s->options;
    bool good = true;
    for (uint32_t run = 0; run < o->repeat && good; run++) {
        for (uint32_t i = 0; i < o->levels.count && good; i++) {
            cli_progress("proof_pipeline: run %u of %u, %u proofs at a time", run + 1, o->repeat,
                         o->levels.at[i]);
            good = measure_row(s, 0, i, &s->sweeps[0][i]) &&
                   (s->count == 1 || measure_row(s, EVERYTHING, i, &s->sweeps[1][i]));
        }
        for (uint32_t i = 0; s->count > 1 && i < s->count && good; i++) {
            cli_progress("proof_pipeline: run %u of %u, %s", run + 1, o->repeat, names[i]);
            good = measure_load(s, i, o->settings.concurrency, o->settings.jobs, &s->gains[i]);
        }
    }
    cli_progress_end();
    for (uint32_t i = 0; i < o->levels.count && good; i++) {
        proof_series_end(&s->sweeps[0][i]);
        proof_series_end(&s->sweeps[1][i]);
    }
    for (uint32_t i = 0; i < CONFIGURATIONS && good; i++) {
        proof_series_end(&s->gains[i]);
    }
    return good;
}

/* That its workers can use. */
static uint32_t cpus_of(const struct pipeline *pipeline)
{
    const long online = sysconf(_SC_NPROCESSORS_ONLN);
    const uint32_t workers = proof_workers(pipeline);
    return online > 0 && (uint32_t)online < workers ? (uint32_t)online : workers;
}

static void print_tables(const struct session *s)
{
    const struct options *o = &s->options;
    printf("%s, %u workers; proofs of %u partitions of %u rows, %u runs a row; all results as in the serial "
           "run\n",
           proof_device_name(s->pipelines[0]), proof_workers(s->pipelines[0]), o->settings.partitions,
           s->problem.rows, o->repeat);
    if (proof_device_is_emulated(s->pipelines[0])) {
        printf("emulated: the CPU does the device's work as well, so these are no times of a pipeline with a "
               "GPU\n");
    }
    uint64_t needed, there;
    proof_set_load(s->pipelines[0], o->settings.concurrency, o->settings.jobs);
    proof_device_bytes(s->pipelines[0], &needed, &there);
    if (!o->settings.admission && needed + needed / 4 + 1048576 <= there) { /* with what else the heap has */
        printf("--admission off makes no difference here: all partitions at a time need %.2f MiB of %.0f\n",
               (double)needed / 1048576, (double)there / 1048576);
    }
    uint32_t limit = s->count > 1 ? o->tail_limit : o->settings.tail_workers;
    if (limit != 0) {
        printf("limited tails: %u workers; their CPU set: %u CPUs\n", limit,
               proof_tail_cpus(s->pipelines[s->count - 1]));
    }
    for (uint32_t i = 0; i < 2 && (i == 0 || s->count > 1); i++) {
        const char *title = s->count == 1 ? "as configured" : names[i == 0 ? NOTHING : EVERYTHING];
        const struct proof_rows rows = {o->levels.at, o->jobs.at, s->sweeps[i], o->levels.count};
        proof_report_sweep(title, &rows, o->settings.partitions, cpus_of(s->pipelines[0]));
        proof_report_inflation(title, &rows);
        proof_report_cpu(title, &rows);
    }
    if (s->count > 1) {
        proof_report_gains(o->settings.concurrency, names, s->gains, s->count);
    }
}

static bool record(struct session *s)
{
    gantry_profile_options options = GANTRY_PROFILE_OPTIONS_INIT;
    options.path = s->options.timeline;
    gantry_profile *profile = NULL;
    struct measured run;
    gantry_profile_stats stats = {.struct_size = sizeof(stats)};
    gantry_status status = gantry_profile_start(&options, &profile);
    if (status != GANTRY_OK) {
        cli_error("proof_pipeline: the timeline cannot be recorded: %s", cli_cause(status));
        return false;
    }
    bool good = proof_run(s->pipelines[s->count - 1], &run);
    status = gantry_profile_stop(profile, &stats);
    if (status != GANTRY_OK) {
        cli_error("proof_pipeline: the timeline cannot be written: %s", cli_cause(status));
        return false;
    }
    printf("\ntimeline: %s\n", options.path);
    return good;
}

static int proof_pipeline_main(int argc, char **argv)
{
    struct session s = {.count = 0};
    int status = proof_options_read(argc, argv, &s.options);
    if (status >= 0) {
        return status;
    }
    bool good = open_all(&s) && measure_all(&s);
    if (good) {
        print_tables(&s);
        good = s.options.timeline == NULL || record(&s);
    }
    close_all(&s);
    return good && fflush(stdout) == 0 ? 0 : 1;
}

const struct gantry_sample gantry_sample_proof_pipeline = {
    .name = "proof_pipeline",
    .summary =
        "a pipeline bound by memory bandwidth, and what reclaimer, class limits and the gate do for it",
    .main = proof_pipeline_main,
};
