/* SPDX-License-Identifier: MIT */
/* The command line of the proof pipeline. */
#ifndef PROOF_PIPELINE_OPTIONS_H
#define PROOF_PIPELINE_OPTIONS_H

#include "samples/proof_pipeline/pipeline.h"

enum { MOST_LEVELS = 16, MOST_REPEAT = 31 };

struct options {
    struct settings settings; /* concurrency is the largest of the levels, jobs the largest of theirs */
    struct levels {
        uint32_t at[MOST_LEVELS], count;
    } levels, jobs; /* proofs at a time, and proofs of a run, of each row */
    uint32_t repeat;
    uint32_t rows_log2, entries, window_bits;
    bool is_fixed;       /* the interventions are as in `settings`; else all are compared */
    uint32_t tail_limit; /* tail_workers where tails are limited; 0: a quarter of the workers */
    gantry_bandwidth_settings gate;
    const char *timeline; /* file; NULL: none */
};

/* -1, or the exit status: cli_read_options(). */
int proof_options_read(int argc, char **argv, struct options *out);

#endif
