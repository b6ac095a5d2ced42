/* Benches: a thing of ours timed against a yardstick that does the same job without Gantry.
 *
 * Both are run in turn in the same process, so that whatever disturbs the machine disturbs both.  Every
 * result is checked after every run; a bench whose result is wrong has no number worth reading. */
#ifndef BENCH_HARNESS_H
#define BENCH_HARNESS_H

#include <gantry/context.h>

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>

/* What the user asked for; read by benches, used by bench_run(). */
struct bench_options {
    FILE *out;                   /* where the results go */
    bool json;                   /* one JSON object per line instead of a table */
    uint32_t runs;               /* timed runs of each side; at least 1 */
    gantry_driver_choice driver; /* for benches that open a context */
    bool emulated;               /* the device is: results are checked, times are not for people */
    uint32_t seconds;            /* for benches that measure for a time, each row; 0: as they think */
};

/* One way to do the job.  `arg` is the case's. */
struct bench_side {
    const char *name;           /* the yardstick's name, NULL: there is none; not used for our side */
    bool (*prepare)(void *arg); /* before each run, not timed; may be NULL */
    bool (*run)(void *arg);     /* the timed part; false: failed */
    bool (*verify)(void *arg);  /* after each run, not timed: is the result right?  May be NULL only when
                                 * run() can tell */
};

/* One line of results.  The reported value is nanoseconds per item: the fastest run divided by `items`. */
struct bench_case {
    const char *name;         /* "tasks/chain" */
    const char *item;         /* "task": the unit is "ns/task" */
    uint64_t items;           /* done by one run; > 0 */
    uint64_t yardstick_items; /* the same of the yardstick; 0: as many */
    uint32_t pairs;           /* with a yardstick: so many times as many runs, compared two by two, for
                               * ratios near 1; 0: one, the fastest of each side are compared */
    struct bench_side ours;
    struct bench_side yardstick; /* zeroed: there is none */
    void *arg;
};

struct bench_result {
    double min_ns, median_ns;                     /* per item */
    double yardstick_min_ns, yardstick_median_ns; /* 0 without a yardstick */
    double ratio; /* of pairs: ours to the yardstick's, the median of all; else 0, and the fastest count */
    double ratio_error; /* of pairs: half of the 95 % interval of that median; else 0 */
    bool verified;      /* every run of both sides worked and was right */
};

/* Run one case (an untimed run of each side, then `options->runs` timed ones in turn) and print its line.
 * Of pairs every second one has the yardstick's run first.
 * Returns `verified`; `result` may be NULL and is filled in any case. */
bool bench_run(const struct bench_options *options, const struct bench_case *bench,
               struct bench_result *result);

/* From the least on. */
void bench_sort(double *values, size_t count);
void bench_sort_times(uint64_t *times, size_t count);

/* Print the line of a result that was measured otherwise; of `bench` only the names count. */
void bench_report(const struct bench_options *options, const struct bench_case *bench,
                  const struct bench_result *result);

/* On the emulated driver times say nothing about a GPU: then this prints of a row whether its results are
 * right, and returns false; a reader of JSON gets them, marked. */
bool bench_has_times(const struct bench_options *options, const char *name, bool verified);
/* The end of a result in JSON, from "verified" on. */
void bench_json_end(const struct bench_options *options, bool verified);

/* Did a call of the library work?  When not, says why on stderr, for the bench of that name. */
bool bench_ok(const char *bench, gantry_status status);

/* What a bench gives to `gantry bench`.  Registered with gantry_bench() in CMake. */
struct gantry_bench {
    const char *name;    /* as registered */
    const char *summary; /* one line */
    const char *help;    /* what its rows are, for `gantry help NAME`; ends with a newline */
    bool needs_no_device;
    uint32_t least_devices; /* it needs so many; 0: one.  The emulated driver has as many for it, unless
                             * $GANTRY_EMU_DEVICES says otherwise */
    /* Set up, bench_run() each case, tear down.  True when all were verified; tells why not on stderr. */
    bool (*main)(const struct bench_options *options);
};

#endif
