/* Repeated measurements, and the tables made of them. */
#ifndef PROOF_PIPELINE_REPORT_H
#define PROOF_PIPELINE_REPORT_H

#include "samples/proof_pipeline/pipeline.h"

/* Of the runs of one row. */
struct series {
    uint32_t count;
    double sum, squares;   /* of seconds per proof */
    struct measured means; /* of everything, once proof_series_end() was called */
};

void proof_series_add(struct series *series, const struct measured *run, uint32_t jobs);
void proof_series_end(struct series *series);
double proof_series_mean(const struct series *series);
/* Half of the 95 % confidence interval of the mean; 0 with one run. */
double proof_series_error(const struct series *series);

/* A row for each number of proofs at a time.  The floor of a proof is the larger of two times of the first
 * row, in which the fewest are at a time: `partitions` times what the device takes of one, and the CPU time
 * of all its stages on `cpus`.  The gap is what a row takes beyond that. */
void proof_report_sweep(const char *title, const uint32_t *levels, const struct series *rows, uint32_t count,
                        uint32_t partitions, uint32_t cpus);
/* The floor, milliseconds. */
double proof_floor_ms(const struct series *first, uint32_t partitions, uint32_t cpus);
void proof_report_inflation(const char *title, const uint32_t *levels, const struct series *rows,
                            uint32_t count);
/* CPU time: what the same work costs, however many CPUs share it. */
void proof_report_cpu(const char *title, const uint32_t *levels, const struct series *rows, uint32_t count);
/* The first row is what the others are compared with. */
void proof_report_gains(uint32_t level, const char *const *names, const struct series *rows, uint32_t count);

#endif
