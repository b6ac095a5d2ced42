/* SPDX-License-Identifier: MIT */
/* Nodes that stamp when they begin and end in each step of a manager: the cells for all of them, and random
 * numbers for the tests.  Functions fail the test themselves. */
#ifndef TESTS_DISPATCHER_STEP_STAMPS_H
#define TESTS_DISPATCHER_STEP_STAMPS_H

#include "tests/dispatcher/stamps.h"
#include "tests/support/gpu_fixture.h"

#define STEPS 5u
#define MOST 24u /* nodes */
/* Cells: the clock, how often each node has run, when it began and ended in each step, and how often it has
 * run in each step where the host tells which that is. */
#define RUNS_AT 1u
#define STAMPS_AT (RUNS_AT + MOST)
#define TOLD_RUNS_AT (STAMPS_AT + 2u * STEPS * MOST)
#define STEP_CELLS (TOLD_RUNS_AT + STEPS * MOST)

struct step_stamps {
    struct gpu_fixture gpu; /* with two workers */
    struct stamps stamps;
    gantry_module *module; /* order_kernels.cu */
    gantry_kernel *stamp_run;
    uint64_t random;
};

/* Make `more` cells behind those of the nodes. */
void step_stamps_open(struct step_stamps *s, const gantry_context_options *options, uint32_t more);
/* Destroy the manager first: after that nothing works on the cells. */
void step_stamps_close(struct step_stamps *s);

/* The cell of a node's begin in a step; the next cell is that of its end. */
uint32_t step_stamps_at(uint32_t step, uint32_t index);
/* Call this in a launch callback: it does the same in every step, as stable tasks promise.  So the device
 * counts the steps: a node of which two steps may overlap stamps for whichever began first. */
gantry_launch_result step_stamps_launch(const struct step_stamps *s, gantry_launch *launch, uint32_t index,
                                        uint64_t least_ns);
/* The same where the host tells the step, for tasks that are not stable. */
gantry_launch_result step_stamps_launch_in(const struct step_stamps *s, gantry_launch *launch, uint32_t step,
                                           uint32_t index, uint64_t least_ns);
uint32_t step_stamps_draw(struct step_stamps *s, uint32_t below);

#endif
