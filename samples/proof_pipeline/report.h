/* SPDX-License-Identifier: MIT */
/* Repeated measurements, and the tables made of them. */
#ifndef PROOF_PIPELINE_REPORT_H
#define PROOF_PIPELINE_REPORT_H

#include "samples/proof_pipeline/pipeline.h"

enum { PROOF_MOST_RUNS = 31 };

/* Of the runs of one row. */
struct series {
    uint32_t count;
    double seconds[PROOF_MOST_RUNS]; /* per proof, of each run */
    double sum, squares;             /* of these */
    struct measured means;           /* of everything, once proof_series_end() was called */
    double busy;                     /* seconds that the device was busy per proof, mean */
};

void proof_series_add(struct series *series, const struct measured *run, uint32_t jobs);
void proof_series_end(struct series *series);
double proof_series_mean(const struct series *series);
/* Half of the 95 % confidence interval of the mean; 0 with one run. */
double proof_series_error(const struct series *series);

/* The rows of a table: so many proofs at a time, of so many in a run. */
struct proof_rows {
    const uint32_t *levels, *jobs;
    const struct series *series;
    uint32_t count;
};

/* The gap is what a row takes beyond the floor of a proof. */
void proof_report_sweep(const char *title, const struct proof_rows *rows, uint32_t partitions, uint32_t cpus);
/* The floor of a proof, milliseconds: the time that the device was busy for it, or the CPU time of its stages
 * of `partitions` partitions on `cpus`, whichever is longer, in the row where that is least.  No row is below
 * it, since no run ends before its device and its CPUs have done their work. */
double proof_floor_ms(const struct proof_rows *rows, uint32_t partitions, uint32_t cpus);
void proof_report_inflation(const char *title, const struct proof_rows *rows);
/* CPU time: what the same work costs, however many CPUs share it. */
void proof_report_cpu(const char *title, const struct proof_rows *rows);
/* The first row is what the others are compared with, run by run. */
void proof_report_gains(uint32_t level, const char *const *names, const struct series *rows, uint32_t count);

#endif
