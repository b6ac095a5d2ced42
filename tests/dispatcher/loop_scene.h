/* SPDX-License-Identifier: MIT */
/* Loops whose turns a word on the device decides, with bodies that a model on the host can follow.  Functions
 * fail the test themselves. */
#ifndef TESTS_DISPATCHER_LOOP_SCENE_H
#define TESTS_DISPATCHER_LOOP_SCENE_H

#include "tests/support/gpu_fixture.h"

#include <stdatomic.h>

#define CELLS 16u
#define MOST_STEPS 12u
#define ENDLESS 0x40000000u

enum act { ACT_COUNT, ACT_MIX, ACT_COPY, ACT_FILL, ACT_SYNC };

struct loop_scene;

/* A task of the body, and what the model does for it. */
struct loop_step {
    struct loop_scene *scene;
    enum act act;
    uint32_t to, from, value;
    gantry_launch_fn extra;
    gantry_task *task;
    _Atomic(uint32_t) calls; /* since it was submitted */
};

struct loop_scene {
    struct gpu_fixture gpu;
    struct gantry_emu_control emu;
    bool has_emu;
    gantry_module *module;
    gantry_kernel *count, *mix;
    uint32_t *cells; /* on the device */
    uint32_t *begin; /* pinned: what each run begins with */
    uint32_t *end;   /* pinned: what it ends with */
    gantry_loop loop;
    gantry_task *before, *after, *seen;
    struct loop_step steps[MOST_STEPS];
    uint32_t step_count;
    gantry_partition *partition; /* of all tasks; NULL: the default one */
    _Atomic(uint32_t) checked;
};

/* `more` NULL: usual options. */
void loops_open_scene(struct loop_scene *s, const gantry_context_options *more);
void loops_close_scene(struct loop_scene *s);
/* The device is lost; waits until it is not in a loop any more. */
void loops_close_lost(struct loop_scene *s);
struct loop_step *loops_add_step_with(struct loop_scene *s, enum act act, uint32_t to, uint32_t from,
                                      uint32_t value, bool stable);
struct loop_step *loops_add_step(struct loop_scene *s, enum act act, uint32_t to, uint32_t from,
                                 uint32_t value);
gantry_task *loops_gpu_task(struct loop_scene *s, gantry_task_kind kind, gantry_launch_fn launch);
/* before, test, decide, after, and a CPU task that sees that all is done. */
void loops_add_loop(struct loop_scene *s, uint32_t most);
/* The body is a line of all steps; the graph is frozen. */
void loops_close_line(struct loop_scene *s);
void loops_set_begin(struct loop_scene *s, uint32_t turns);
/* What the cells are after `turns` of the body, whose steps are in an order that its edges allow. */
void loops_expect_cells(const struct loop_scene *s, uint32_t turns);
/* A run with so many turns. */
void loops_run(struct loop_scene *s, uint32_t turns);
gantry_loop_stats loops_stats_of(const struct loop_scene *s);
void loops_expect_stats(const struct loop_scene *s, uint64_t launches, uint64_t cpu_loops,
                        gantry_loop_end end, uint32_t turns);
/* The cells, too. */
void loops_expect(const struct loop_scene *s, uint64_t launches, uint64_t cpu_loops, gantry_loop_end end,
                  uint32_t turns);
/* A body of five steps. */
void loops_make_usual(struct loop_scene *s, uint32_t most);
/* With usual options, and such a body. */
void loops_open_usual(struct loop_scene *s, uint32_t most);
gantry_launch_result loops_result_of(gantry_status status);
/* A CPU task that counts its runs. */
gantry_status loops_see(gantry_task *task, void *arg);

#endif
