/* SPDX-License-Identifier: MIT */
/* Steps of small kernels whose graphs are kept, for the tests of what is patched.  Each job adds to a cell of
 * its own, and the host knows what the cells must be.  Functions fail the test themselves. */
#ifndef TESTS_DISPATCHER_PATCHED_SCENE_H
#define TESTS_DISPATCHER_PATCHED_SCENE_H

#include "tests/support/gpu_fixture.h"

#include <stdatomic.h>

#define PATCHED_MOST 1000u
#define PATCHED_LANES 8u
#define PATCHED_ROWS 200u /* jobs of the usual step */

enum patched_function { COUNT_UP, COUNT_DOWN, STAMP, FUNCTIONS };

/* The work of one task: it adds the number of its threads to its cell, or subtracts it. */
struct patched_job {
    uint32_t index, by, blocks;
    enum patched_function function;
    _Atomic(bool) fails;
    bool cancels;
    uint32_t wait_spins; /* of its CPU task */
};

struct patched_scene {
    struct gpu_fixture gpu;
    gantry_module *module;
    gantry_kernel *kernels[FUNCTIONS];
    uint32_t *cells; /* 3 * PATCHED_MOST, pinned: a cell for each, and two into which stamps are copied */
    uint32_t *on_device;
    uint32_t expected[PATCHED_MOST];
    struct patched_job jobs[PATCHED_MOST];
    uint32_t nodes_each; /* of a job: 1, and its events while it is recorded */
};

extern struct patched_scene patched;

/* What steps have cost, by the dispatcher's statistics. */
struct patched_change {
    uint64_t launches, nodes, kept, set, made;
};

/* Load the kernels, as patched.module. */
void patched_load(void);
void patched_open_with(uint32_t workers, const gantry_partition_options *plan);
void patched_open(void);
/* The same, and the usual step has run once. */
void patched_open_with_rows(void);
void patched_close(void);

/* What the job does; false: the launch was refused. */
bool patched_enqueue(gantry_launch *launch, const struct patched_job *job);
gantry_launch_result patched_launch_job(gantry_launch *launch, void *arg);
/* Wait for the device: have the cells the right numbers? */
void patched_check(void);

/* Submit `count` jobs behind the first one, in PATCHED_LANES rows, with edges between the rows where
 * `crosses`. */
void patched_submit_rows(uint32_t count, bool crosses);
/* Run a step of that; returns what it has cost. */
struct patched_change patched_run_rows(uint32_t count, bool crosses);

struct patched_change patched_now(void);
struct patched_change patched_since(struct patched_change before);
/* Has the usual step been patched as a whole, and have so many nodes been set? */
void patched_expect(struct patched_change step, uint64_t set);

#endif
