/* SPDX-License-Identifier: MIT */
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

#define BENCH_PRECISION_S 8u

/* What the user asked for; read by benches, used by bench_run(). */
struct bench_options {
    FILE *out;                   /* where the results go */
    bool json;                   /* one JSON object per line instead of a table */
    uint32_t runs;               /* how many timed runs each side makes; at least 1 */
    gantry_driver_choice driver; /* for benches that open a context */
    bool emulated;               /* the device is emulated: results are checked, times mean nothing */
    uint32_t seconds; /* how long a bench that measures for a time measures each row; 0: it chooses */
};

/* One way to do the job.  `arg` is the case's. */
struct bench_side {
    const char *name;           /* the name of the yardstick, NULL: there is none; our side has no name */
    bool (*prepare)(void *arg); /* before each run, not timed; may be NULL */
    bool (*run)(void *arg);     /* the timed part; false: failed */
    bool (*verify)(void *arg);  /* after each run, not timed: is the result right?  May be NULL only when
                                 * run() can tell */
};

/* One line of results.  The reported value is nanoseconds per item: the fastest run divided by `items`. */
struct bench_case {
    const char *name;         /* "tasks/chain" */
    const char *item;         /* "task": the unit is "ns/task" */
    uint64_t items;           /* how many items one run does; > 0 */
    uint64_t yardstick_items; /* how many items a run of the yardstick does; 0: as many */
    /* for ratios near 1, with a yardstick: so many times as many runs are made and compared in pairs; 0:
     * the fastest runs of the two sides are compared */
    uint32_t pairs;
    double precision; /* with pairs: on a device more of them are made, until ratio_error is that, for
                       * options->seconds (BENCH_PRECISION_S) at most; 0: not */
    struct bench_side ours;
    struct bench_side yardstick; /* zeroed: there is no yardstick */
    void *arg;
};

struct bench_result {
    double min_ns, median_ns;                     /* per item */
    double yardstick_min_ns, yardstick_median_ns; /* 0 when there is no yardstick */
    /* with pairs: the median of the ratios of ours to the yardstick's; else 0, and the fastest runs count */
    double ratio;
    double ratio_error; /* with pairs: half of the 95 % interval of that median; else 0 */
    bool verified;      /* every run of both sides worked and was right */
};

/* Run one case (an untimed run of each side, then `options->runs` timed ones in turn) and print its line. In
 * every second pair the yardstick runs first. Returns `verified`; `result` may be NULL and is filled in any
 * case. */
bool bench_run(const struct bench_options *options, const struct bench_case *bench,
               struct bench_result *result);

/* Sort the numbers, the least first. */
void bench_sort(double *values, size_t count);
void bench_sort_times(uint64_t *times, size_t count);

/* The median of sorted numbers, and where it lies in 95 of 100 cases (by ranks: no distribution is assumed).
 * Of five numbers or less that is from the least to the greatest, in fewer cases. */
struct bench_median {
    double is, low, high;
};
struct bench_median bench_median_of(const double *sorted, uint32_t count);

/* Print the line of a result that the bench has measured itself; only the names in `bench` are used. */
void bench_report(const struct bench_options *options, const struct bench_case *bench,
                  const struct bench_result *result);

/* On the emulated driver times say nothing about a GPU.  There this function prints only whether the
 * results of a row are right, and returns false; in JSON the times are written and marked as emulated. */
bool bench_has_times(const struct bench_options *options, const char *name, bool verified);
/* Write the end of a result in JSON, from "verified" on. */
void bench_json_end(const struct bench_options *options, bool verified);

/* Did a call of the library work?  If not, the reason is printed on stderr, with the bench's name. */
bool bench_ok(const char *bench, gantry_status status);

/* What a bench gives to `gantry bench`.  Registered with gantry_bench() in CMake. */
struct gantry_bench {
    const char *name;    /* as registered */
    const char *summary; /* one line */
    const char *help;    /* text for `gantry help NAME` that explains its rows; it ends with a newline */
    bool needs_no_device;
    /* how many devices it needs; 0: one. The emulated driver has that many then, unless
     * $GANTRY_EMU_DEVICES says otherwise */
    uint32_t least_devices;
    /* Set up, bench_run() each case, tear down.  True when all were verified; tells why not on stderr. */
    bool (*main)(const struct bench_options *options);
};

#endif
