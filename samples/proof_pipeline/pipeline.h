/* SPDX-License-Identifier: MIT */
/* The proofs as a task graph on one context, run as often as wanted. */
#ifndef PROOF_PIPELINE_PIPELINE_H
#define PROOF_PIPELINE_PIPELINE_H

#include "samples/proof_pipeline/problem.h"

#include <gantry/gantry.h>

enum stage { STAGE_SYNTHESIS, STAGE_PREPARATION, STAGE_DEVICE, STAGE_TAIL, STAGE_FREEING, STAGES };

/* What is set up once per configuration. */
struct settings {
    gantry_driver_choice driver;
    uint32_t workers;      /* 0: one per CPU */
    uint32_t jobs;         /* most proofs of a run */
    uint32_t concurrency;  /* most of these at a time */
    uint32_t partitions;   /* of a proof */
    uint32_t rounds;       /* transforms of the device, there and back, before those that count */
    uint32_t tail_workers; /* most workers of tails at a time; 0: all */
    uint64_t device_bytes; /* most that the heap takes of the device; 0: no limit */
    gantry_reclaim_policy reclaim;
    bool keep_memory; /* big memory comes from the heap, which keeps it, not from the system */
    bool admission;   /* partitions declare what they take of the device */
    bool gate;        /* tails raise the bandwidth gate */
    bool
        cpu_set; /* tails run on the CPUs of as few last-level caches as have one for each of their workers */
};

struct measured {
    double seconds;
    double stage_ms[STAGES]; /* mean per partition */
    double cpu_ms[STAGES]; /* the same, CPU time of all threads: grows when memory is slow, not when CPUs are
                              few */
    double latency_ms;     /* mean per proof */
    double busy_percent;   /* of the time, something was on the device */
    uint32_t gaps;         /* pauses of the device between two partitions */
    double gap_ms;         /* all of them */
    double user_ms, system_ms; /* CPU time of the process */
    double faults;             /* minor page faults */
    double shootdowns;         /* TLB shootdown interrupts; < 0: the system does not tell */
    double held_ms;            /* all threads together, by the gate */
    double holds;
    double reclaim_waits;
    double reclaim_running; /* most releases at once, since the configuration was opened */
    double admission_waits;
    double admission_wait_ms;
};

struct pipeline;

/* `answers` has an entry per partition of a proof: all proofs are the same.  NULL: told on stderr. */
struct pipeline *proof_open(const struct settings *settings, const struct problem *problem,
                            const struct answer *answers);
void proof_close(struct pipeline *pipeline);

/* The next runs: so many proofs, at most as many as it was opened with, and so many of them at a time. */
void proof_set_load(struct pipeline *pipeline, uint32_t concurrency, uint32_t jobs);

/* Run all proofs and check every partition.  False: told on stderr. */
bool proof_run(struct pipeline *pipeline, struct measured *out);
const char *proof_device_name(const struct pipeline *pipeline);
bool proof_device_is_emulated(const struct pipeline *pipeline);
uint32_t proof_workers(const struct pipeline *pipeline);
/* Device memory: what all partitions that are in work at a time need, and what there is. */
void proof_device_bytes(const struct pipeline *pipeline, uint64_t *needed, uint64_t *there);
/* CPUs that tails run on. */
uint32_t proof_tail_cpus(const struct pipeline *pipeline);

#endif
