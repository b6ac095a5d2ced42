/* SPDX-License-Identifier: MIT */
/* The work of `gantry bench submit` and `replay`: kernels in 8 pipelines, as tasks of ours and as a loop
 * over 8 streams.  Every tenth launch of a pipeline also waits for the launch before it in the neighbouring
 * pipeline.  The kernel increments its pipeline's cell, so a lost, doubled or unordered launch shows. */
#ifndef BENCH_SUBMIT_WORK_H
#define BENCH_SUBMIT_WORK_H

#include "bench/harness.h"
#include "bench/raw_cuda.h"

#include <sched.h>

#define PIPELINES 8u
#define CELL_BYTES 256u
#define CROSS_EVERY 10u
#define MOST_KERNELS 10000u
#define MOST_KEPT MOST_KERNELS

struct submit_work {
    gantry_context *context;
    gantry_cpu_dispatcher *cpus;
    gantry_taskman *manager;
    gantry_kernel *kernel;
    struct raw_cuda cuda;
    CUmodule module;
    CUfunction function;
    CUstream streams[PIPELINES];
    CUevent events[PIPELINES];
    void *cells; /* 2 * PIPELINES cells on the device, CELL_BYTES apart */
    /* the kernel's argument: the address of a cell; launches that `changed` picks use a cell of the
     * second half in every other run */
    void *cell[2 * PIPELINES];
    uint32_t changed;         /* percent of the launches whose argument differs from that of the run before */
    uint32_t turn, hand_turn; /* how often our side has run, and the graph that was made by hand */
    CUgraph kept_graph;       /* the graph made by hand, its nodes, and the pipeline of each node */
    CUgraphNode kept_nodes[MOST_KEPT];
    uint8_t kept_pipelines[MOST_KEPT];
    uint32_t kernels;      /* per step */
    bool executes;         /* false: the driver accepts launches and does not execute them */
    bool stable;           /* tasks are declared stable */
    bool apart;            /* by hand, no launch waits for a neighbouring pipeline */
    bool scrambled;        /* half of the tasks also wait for one before them that is chosen anew each turn */
    gantry_task **tasks;   /* MOST_KERNELS of them */
    int cpu;               /* while pinned: the dispatcher's */
    cpu_set_t cpus_before; /* the CPUs that the thread may use when it is not pinned */
};

/* True for GANTRY_OK; else false and a line on stderr. */
bool bench_submit_ok(gantry_status status);

/* Open the work in a context with these options.  False when that failed, with a line on stderr; it must be
 * closed in either case. */
bool bench_submit_open(struct submit_work *work, const gantry_context_options *context);
void bench_submit_close(struct submit_work *work);

/* Submit the tasks of a step: one per kernel. */
bool bench_submit_build(struct submit_work *work);
/* Start the manager and stop it. */
bool bench_submit_run(struct submit_work *work);
/* Launch the same kernels by hand. */
bool bench_submit_by_hand(struct submit_work *work);
/* The argument of launch `index` in this turn. */
void **bench_submit_cell(struct submit_work *work, uint32_t index, uint32_t turn);
/* submit_kept.c: the same kernels as one executable graph, which can be launched again and again. */
bool bench_submit_keep(struct submit_work *work, CUgraphExec *out);
/* Give the launches that change another argument. */
bool bench_submit_patch_kept(struct submit_work *work, CUgraphExec kept);
bool bench_submit_launch_kept(struct submit_work *work, CUgraphExec kept);
bool bench_submit_drop_kept(struct submit_work *work, CUgraphExec kept);
/* Keep the dispatcher's thread on its present CPU and the caller off that CPU, until unpin().  False when
 * that is impossible; then nothing has changed. */
bool bench_submit_pin(struct submit_work *work);
bool bench_submit_unpin(struct submit_work *work);
/* While pinned, move the caller to that CPU for the loop by hand, and back. */
bool bench_submit_enter_cpu(struct submit_work *work);
bool bench_submit_leave_cpu(struct submit_work *work);
/* Check the counts and set them to zero again.  A driver that executes nothing makes no copies either, so
 * nothing can be checked there. */
bool bench_submit_check(struct submit_work *work);

#endif
