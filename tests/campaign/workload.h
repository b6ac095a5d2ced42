/* SPDX-License-Identifier: MIT */
/* Random workloads: task graphs in the shapes that programs have, on small cells of memory.  A node reads
 * and writes cells; the edges follow from that, and a sequential run computes the right contents of every
 * cell. */
#ifndef TESTS_CAMPAIGN_WORKLOAD_H
#define TESTS_CAMPAIGN_WORKLOAD_H

#include "base/thread.h"
#include "tests/campaign/workload_mix.h"

#include <gantry/gantry.h>

#include <stdatomic.h>
#include <stdbool.h>

enum {
    WORKLOAD_NODES = 384, /* at most */
    WORKLOAD_CELLS = 256,
    NODE_SET_WORDS = WORKLOAD_NODES / 64,
    SPAWNED = 3, /* light tasks of a CPU node that makes any */
};

enum pattern { /* the first seven are Task Bench's: rows of nodes that depend on the row before */
               PATTERN_TRIVIAL,
               PATTERN_STENCIL,
               PATTERN_FFT,
               PATTERN_TREE,
               PATTERN_RANDOM_ROWS,
               PATTERN_DOM,
               PATTERN_ALL_TO_ALL,
               PATTERN_CHOLESKY,
               PATTERN_LU,
               PATTERN_QR,
               PATTERN_WAVEFRONT,
               PATTERN_MAP_REDUCE,
               PATTERN_PING_PONG,
               PATTERN_RANDOM_GRAPH,
               PATTERN_COUNT
};

enum mode {
    MODE_FRESH,  /* each step submits its tasks, then starts */
    MODE_LATE,   /* each step starts, then submits */
    MODE_FROZEN, /* submitted once, frozen, started again and again */
    MODE_RUN,    /* likewise, with gantry_taskman_run() */
    MODE_COUNT
};

enum node_kind { NODE_CPU, NODE_KERNEL, NODE_HTOD, NODE_DTOH, NODE_DTOD, NODE_END };

enum node_flag {
    NODE_BATCHED = 1,  /* a copy through gantry_copy_launch() */
    NODE_SCRATCH = 2,  /* a kernel that also reads a copy of the cell it writes, which the launch allocates */
    NODE_SPAWNS = 4,   /* CPU: light tasks that run before its end */
    NODE_PARALLEL = 8, /* CPU: parallel_for */
    NODE_ASKS = 16,    /* for a sync point */
    NODE_LEAVES_GRAPH = 32 /* the captured one */
};

struct rng {
    uint64_t state;
};

static inline uint32_t draw(struct rng *rng, uint32_t below)
{
    rng->state = rng->state * UINT64_C(6364136223846793005) + UINT64_C(1442695040888963407);
    return (uint32_t)((rng->state >> 33) % below);
}

/* The settings that all workloads of one seed share. */
struct round {
    uint64_t seed;
    uint32_t steps;
    gantry_context *context;
    gantry_cpu_dispatcher *cpus; /* NULL: the waiting thread runs CPU tasks */
    gantry_kernel *kernel;
    uint32_t kernel_id;       /* the name in recordings */
    uint32_t partition_count; /* 0: none */
    char options[256];        /* in words */
};

struct node_set {
    uint64_t words[NODE_SET_WORDS];
};

struct node {
    struct workload *load;
    enum node_kind kind;
    uint32_t flags, code;
    uint32_t calls;    /* calls of the launch callback */
    uint32_t pause_ns; /* how long the kernel waits before it writes */
    int32_t partition; /* -1: the manager's */
    uint32_t outs, ins;
    uint32_t out[MIX_OUTPUTS], in[MIX_INPUTS]; /* cells */
    struct node_set before;                    /* the nodes directly before it */
    struct node_set tells; /* GPU: nodes of the host that come directly after it, by completions */
    bool has_successor;
    gantry_task *task;
    atomic_uint released;
};

struct cell {
    bool on_device;
    void *memory, *device_address;
    uint32_t expected[MIX_WORDS];
    int32_t writer; /* while edges are found: the last one; -1: there is none */
    struct node_set readers;
};

struct workload {
    const struct round *round;
    enum pattern pattern;
    enum mode mode;
    bool mixed;           /* CPU nodes write cells, too, and can read them */
    bool stable;          /* most GPU tasks are declared stable */
    bool launch_tasks;    /* around the GPU tasks */
    uint32_t ask_chances; /* one in so many kernels asks for a sync point */
    uint32_t step;
    struct rng rng;
    uint32_t node_count, cell_count, end; /* the index of the last node, which comes after all */
    struct node nodes[WORKLOAD_NODES];
    struct cell cells[WORKLOAD_CELLS];
    uint32_t *step_host, *step_device; /* the same word */
    gantry_taskman *manager;
    gantry_launch_tasks bracket;
    atomic_uint spawned;
    uint32_t spawned_expected;
    gy_thread thread;
};

/* Report what is wrong where, and how to repeat it, and end the process: callbacks run on any thread. */
_Noreturn void workload_broken(const struct workload *load, const char *format, ...) GANTRY_PRINTF(2, 3);
/* The same when a call was refused. */
void workload_must(const struct workload *load, gantry_status status, const char *what);

bool node_set_has(const struct node_set *set, uint32_t node);
void node_set_add(struct node_set *set, uint32_t node);

/* Make the nodes and cells of the pattern, and the edges between them. */
void workload_plan(struct workload *load);

/* Allocate memory for the cells, with the expected contents. */
void workload_open_memory(struct workload *load);
void workload_close_memory(struct workload *load);
/* Submit one task for each node, with edges; tasks that are submitted late are held until all edges are
 * there. */
void workload_build(struct workload *load, bool late);
/* How many tasks of one step the GPU dispatcher counts. */
uint32_t workload_gpu_tasks(const struct workload *load);

/* Run all steps; or one step in two parts, for workloads that overlap on one thread. */
void workload_run(struct workload *load);
void workload_begin(struct workload *load, uint32_t step);
void workload_finish(struct workload *load);

#endif
