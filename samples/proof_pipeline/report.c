/* SPDX-License-Identifier: MIT */
#include "samples/proof_pipeline/report.h"

#include <math.h>
#include <stdio.h>

static const char *const stage_names[STAGES] = {"synthesis", "preparation", "device", "tail", "freeing"};

void proof_series_add(struct series *s, const struct measured *run, uint32_t jobs)
{
    double per_proof = run->seconds / jobs;
    struct measured *sum = &s->means;
    s->seconds[s->count++] = per_proof;
    s->busy += per_proof * run->busy_percent / 100;
    s->sum += per_proof;
    s->squares += per_proof * per_proof;
    sum->seconds += run->seconds;
    for (int i = 0; i < STAGES; i++) {
        sum->stage_ms[i] += run->stage_ms[i];
        sum->cpu_ms[i] += run->cpu_ms[i];
    }
    sum->latency_ms += run->latency_ms;
    sum->busy_percent += run->busy_percent;
    sum->gaps += run->gaps;
    sum->gap_ms += run->gap_ms;
    sum->user_ms += run->user_ms;
    sum->system_ms += run->system_ms;
    sum->faults += run->faults;
    sum->shootdowns += run->shootdowns;
    sum->held_ms += run->held_ms;
    sum->holds += run->holds;
    sum->reclaim_waits += run->reclaim_waits;
    sum->reclaim_running = fmax(sum->reclaim_running, run->reclaim_running);
    sum->admission_waits += run->admission_waits;
    sum->admission_wait_ms += run->admission_wait_ms;
}

void proof_series_end(struct series *s)
{
    if (s->count == 0) {
        return;
    }
    struct measured *mean = &s->means;
    double n = s->count;
    s->busy /= n;
    mean->seconds /= n;
    for (int i = 0; i < STAGES; i++) {
        mean->stage_ms[i] /= n;
        mean->cpu_ms[i] /= n;
    }
    mean->latency_ms /= n;
    mean->busy_percent /= n;
    mean->gaps /= s->count;
    mean->gap_ms /= n;
    mean->user_ms /= n;
    mean->system_ms /= n;
    mean->faults /= n;
    mean->shootdowns /= n;
    mean->held_ms /= n;
    mean->holds /= n;
    mean->reclaim_waits /= n;
    mean->admission_waits /= n;
    mean->admission_wait_ms /= n;
}

double proof_series_mean(const struct series *s)
{
    return s->sum / s->count;
}

/* Student's t for 95 %, both sides, by degrees of freedom. */
static double student(uint32_t freedom)
{
    static const double t[] = {12.706, 4.303, 3.182, 2.776, 2.571, 2.447, 2.365, 2.306, 2.262, 2.228,
                               2.201,  2.179, 2.160, 2.145, 2.131, 2.120, 2.110, 2.101, 2.093, 2.086,
                               2.080,  2.074, 2.069, 2.064, 2.060, 2.056, 2.052, 2.048, 2.045, 2.042};
    return t[freedom - 1 < 30 ? freedom - 1 : 29];
}

/* "12.345", of one run "-": a single value has no interval. */
static const char *error_text(const struct series *s, double error, int decimals, char *room, size_t bytes)
{
    if (s->count < 2) {
        return "-";
    }
    snprintf(room, bytes, "%.*f", decimals, error);
    return room;
}

double proof_series_error(const struct series *s)
{
    if (s->count < 2) {
        return 0;
    }
    double n = s->count, mean = s->sum / n;
    double variance = fmax(0, (s->squares - n * mean * mean) / (n - 1));
    return student(s->count - 1) * sqrt(variance / n);
}

double proof_floor_ms(const struct proof_rows *rows, uint32_t partitions, uint32_t cpus)
{
    double least = INFINITY;
    for (uint32_t i = 0; i < rows->count; i++) {
        const struct series *s = &rows->series[i];
        const double *ms = s->means.cpu_ms; /* memory is given back on threads besides the workers */
        const double on_cpus =
            partitions * (ms[STAGE_SYNTHESIS] + ms[STAGE_PREPARATION] + ms[STAGE_TAIL]) / cpus;
        least = fmin(least, fmax(s->busy * 1e3, on_cpus));
    }
    return least;
}

void proof_report_sweep(const char *title, const struct proof_rows *rows, uint32_t partitions, uint32_t cpus)
{
    const double floor_ms = proof_floor_ms(rows, partitions, cpus);
    printf("\nthroughput, %s\n", title);
    printf("%4s %5s %12s %10s %12s %14s %8s %6s %10s %10s %10s %10s\n", "c", "jobs", "ms/proof", "+- 95 %",
           "latency ms", "device ms/part", "busy %", "gaps", "gaps ms", "against c", "floor ms", "gap ms");
    for (uint32_t i = 0; i < rows->count; i++) {
        const struct series *s = &rows->series[i];
        char error[32];
        printf("%4u %5u %12.3f %10s %12.3f %14.3f %8.1f %6u %10.3f %+9.1f%% %10.3f %+10.3f\n",
               rows->levels[i], rows->jobs[i], proof_series_mean(s) * 1e3,
               error_text(s, proof_series_error(s) * 1e3, 3, error, sizeof(error)), s->means.latency_ms,
               s->means.stage_ms[STAGE_DEVICE], s->means.busy_percent, s->means.gaps, s->means.gap_ms,
               100 * (proof_series_mean(&rows->series[0]) / proof_series_mean(s) - 1), floor_ms,
               proof_series_mean(s) * 1e3 - floor_ms);
    }
    printf(
        "floor of a proof: the time that the device was busy for it, or the CPU time of its stages on %u "
        "CPUs, whichever is longer,\nin the row where that is least; the gap is what a row takes beyond it\n",
        cpus);
}

/* A column per stage; the device's has no CPU time. */
static void print_stages(const struct proof_rows *table, bool is_cpu)
{
    const struct series *rows = table->series;
    printf("%4s", "c");
    for (int k = 0; k < STAGES; k++) {
        if (!is_cpu || k != STAGE_DEVICE) {
            printf(" %20s", stage_names[k]);
        }
    }
    printf("\n");
    for (uint32_t i = 0; i < table->count; i++) {
        printf("%4u", table->levels[i]);
        for (int k = 0; k < STAGES; k++) {
            double ms = is_cpu ? rows[i].means.cpu_ms[k] : rows[i].means.stage_ms[k];
            double first = is_cpu ? rows[0].means.cpu_ms[k] : rows[0].means.stage_ms[k];
            if (!is_cpu || k != STAGE_DEVICE) {
                printf(" %11.3f (x%5.2f)", ms, first > 0 ? ms / first : 0);
            }
        }
        printf("\n");
    }
}

void proof_report_inflation(const char *title, const struct proof_rows *rows)
{
    printf("\nstages, ms per partition (times the first row's), %s\n", title);
    print_stages(rows, false);
}

void proof_report_cpu(const char *title, const struct proof_rows *rows)
{
    printf("\nCPU time of stages, ms per partition (times the first row's), %s\n", title);
    print_stages(rows, true);
}

static void print_counters(const char *const *names, const struct series *rows, uint32_t count)
{
    printf("\ncounters of these, per run\n%-16s %10s %10s %10s %10s %10s %8s %8s %8s %10s\n", "", "user ms",
           "system ms", "TLB IPIs", "faults", "held ms", "waits", "at once", "admitted", "waited ms");
    for (uint32_t i = 0; i < count; i++) {
        const struct measured *means = &rows[i].means;
        printf("%-16s %10.1f %10.1f ", names[i], means->user_ms, means->system_ms);
        if (means->shootdowns < 0) {
            printf("%10s", "unknown");
        } else {
            printf("%10.0f", means->shootdowns);
        }
        printf(" %10.0f %10.3f %8.1f %8.0f %8.1f %10.3f\n", means->faults, means->held_ms,
               means->reclaim_waits, means->reclaim_running, means->admission_waits,
               means->admission_wait_ms);
    }
    printf(
        "user, system: CPU time of all threads; TLB IPIs: the machine's; faults: minor page faults; held: by "
        "the gate, all threads\ntogether; waits: for room in the reclaimer's queue; at once: most releases "
        "running; admitted: partitions that waited for\ndevice memory, and how long, all together\n");
}

/* How much faster than `base` a configuration is.  They took turns, so the runs of one turn are compared with
 * each other, as ratios: what disturbed the machine in a turn disturbed both.  `low` and `high` are the ends
 * of the 95 % interval. */
struct gain {
    double mean, low, high; /* percent */
};

static double percent(double log_ratio)
{
    return 100 * (exp(log_ratio) - 1);
}

static struct gain compare(const struct series *base, const struct series *own)
{
    double sum = 0, squares = 0;
    const double n = own->count;
    for (uint32_t i = 0; i < own->count; i++) {
        const double ratio = log(base->seconds[i] / own->seconds[i]);
        sum += ratio;
        squares += ratio * ratio;
    }
    const double mean = sum / n;
    double error = 0;
    if (own->count > 1) {
        error = student(own->count - 1) * sqrt(fmax(0, (squares - n * mean * mean) / (n - 1)) / n);
    }
    return (struct gain){percent(mean), percent(mean - error), percent(mean + error)};
}

void proof_report_gains(uint32_t level, const char *const *names, const struct series *rows, uint32_t count)
{
    printf("\ninterventions, c = %u; gain in throughput over the first row, of runs in the same turn\n",
           level);
    printf("%-16s %10s %8s %8s %18s\n", "", "ms/proof", "+- 95 %", "gain %", "95 % interval");
    for (uint32_t i = 0; i < count; i++) {
        const struct gain gain = compare(&rows[0], &rows[i]);
        const bool is_known = i != 0 && rows[i].count > 1;
        char own_text[32], interval[32] = "-";
        if (is_known) {
            snprintf(interval, sizeof(interval), "%+.1f to %+.1f", gain.low, gain.high);
        }
        printf("%-16s %10.3f %8s %+8.1f %18s%s\n", names[i], proof_series_mean(&rows[i]) * 1e3,
               error_text(&rows[i], proof_series_error(&rows[i]) * 1e3, 3, own_text, sizeof(own_text)),
               gain.mean, interval,
               !is_known       ? ""
               : gain.low > 0  ? "  faster"
               : gain.high < 0 ? "  slower"
                               : "  not told apart: --repeat more");
    }
    print_counters(names, rows, count);
}
