/* SPDX-License-Identifier: MIT */
/* A pipeline's own data, for the files that set it up, run it and launch its device work. */
#ifndef PROOF_PIPELINE_INTERNAL_H
#define PROOF_PIPELINE_INTERNAL_H

#include "samples/proof_pipeline/pipeline.h"

#include <stdatomic.h>

enum kernel { KERNEL_FORWARD, KERNEL_BACKWARD, KERNEL_SCALE, KERNEL_COMBINE, KERNEL_BUCKET_SUMS, KERNELS };

/* Memory straight from the system, as large arrays are; or from the heap. */
struct big {
    struct pipeline *pipeline;
    void *memory;
    size_t bytes;
};
enum { BIG_WITNESS, BIG_VECTORS, BIG_ORDER, BIG_BASES, BIG_TABLES, BIGS };

struct job;

/* One partition of one proof.  Each stage writes what the next ones read; the graph orders them. */
struct partition {
    struct pipeline *pipeline;
    struct job *job;
    uint32_t index;  /* in the proof */
    uint32_t memory; /* what is declared for it */
    struct big bigs[BIGS];
    uint32_t *staging;               /* page-locked: a, b, c, order, starts; then h, sums */
    uint32_t *device;                /* the same */
    uint64_t launched_ns, landed_ns; /* on the device in between */
    bool is_right;
};

struct job {
    struct pipeline *pipeline;
    gantry_task *begin;
    uint64_t begin_ns, end_ns;
};

struct pipeline {
    struct settings settings;
    const struct problem *problem;
    const struct answer *answers;
    gantry_context *context;
    gantry_heap *heap;
    gantry_device_info info;
    gantry_kernel *kernels[KERNELS];
    gantry_cpu_dispatcher *cpus;
    gantry_taskman *manager;
    uint32_t *roots;              /* on the device */
    struct partition *partitions; /* of all jobs */
    struct job *jobs;
    _Atomic(uint32_t) next_job; /* atomic; that is let begin when one ends */
    uint32_t tail_cpus;
    _Atomic(uint64_t) stage_ns[STAGES]; /* atomic */
    _Atomic(uint64_t) cpu_ns[STAGES];   /* atomic */
    _Atomic(uint32_t) failed;           /* atomic; messages told */
};

uint64_t proof_now_ns(void);

/* Where what lies in `staging` and `device`, in words. */
size_t proof_offset_order(const struct problem *problem);
size_t proof_offset_starts(const struct problem *problem);
size_t proof_offset_h(const struct problem *problem);
size_t proof_offset_sums(const struct problem *problem);
size_t proof_words_in(const struct problem *problem);
size_t proof_words_in_all(const struct problem *problem);

/* "what: why" on stderr, the first few times. */
void proof_tell(struct pipeline *pipeline, const char *what, const char *why);

/* stages.c: the CPU's task bodies, and big memory. */
gantry_status proof_run_synthesis(gantry_task *task, void *arg);
gantry_status proof_run_preparation(gantry_task *task, void *arg);
gantry_status proof_run_tail(gantry_task *task, void *arg);
gantry_status proof_run_freeing(gantry_task *task, void *arg);
/* Give back what a partition has left, whatever became of it. */
void proof_drop_partition(struct partition *partition);

/* device.c: launch callbacks. */
gantry_launch_result proof_launch_upload(gantry_launch *launch, void *arg);
gantry_launch_result proof_launch_transforms(gantry_launch *launch, void *arg);
gantry_launch_result proof_launch_download(gantry_launch *launch, void *arg);

/* counters.c */
struct counters {
    double faults, shootdowns, user_ms, system_ms;
};
struct counters proof_counters_now(void);

#endif
