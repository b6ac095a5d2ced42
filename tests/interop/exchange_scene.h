/* SPDX-License-Identifier: MIT */
/* A step that shares memory with a renderer whose timelines the GPU waits for and signals, on the emulated
 * driver.  The renderer is the test, which signals and reads the timelines of two memory files.  Functions
 * fail the test themselves. */
#ifndef TESTS_INTEROP_EXCHANGE_SCENE_H
#define TESTS_INTEROP_EXCHANGE_SCENE_H

#include "tests/support/cmocka_c11.h"
#include "tests/support/deadline.h"
#include "tests/support/gpu_fixture.h"
#include "tests/support/timeline_shell.h"

#include "base/clock.h"

enum { WORDS = 1024, FRAME_BYTES = 2 * WORDS * 4, FRAMES = 40 };
#define MS UINT64_C(1000000)

/* The way of the exchanges that are opened next; GANTRY_EXCHANGE_DEVICE at first. */
extern gantry_exchange_way scene_way;

struct scene {
    struct gpu_fixture gpu;
    struct gy_timeline_file *drawn, *filtered;
    int drawn_fd; /* another process inherits it */
    gantry_exchange *exchange;
    gantry_task *acquire, *release, *work;
    gantry_shared_memory *memory;
    uint32_t *in, *out;      /* the two halves of the shared memory, in the renderer's mapping */
    uint32_t *frame, *other; /* their addresses on the device; `other`: device memory of the context */
    uint32_t *seen;          /* page-locked */
    uint32_t wrong;
    bool draws_late; /* set after the step was started */
};

void scene_build(struct scene *s);
gantry_exchange_options scene_options(int wait_fd, int signal_fd, uint64_t timeout_ns);
void scene_open_context(struct scene *s, gantry_submission submission, const gantry_partition_options *plan);
void scene_open_with_partition(struct scene *s);
void scene_open_with_streams(struct scene *s, uint32_t limit, gantry_submission submission);
void scene_open_exchange(struct scene *s, uint64_t timeout_ns);
void scene_open(struct scene *s, uint64_t timeout_ns, gantry_submission submission);
/* For the usual one of the context, before scene_build(). */
void scene_replace_manager(struct scene *s, const gantry_share *share, bool independent_steps);
void scene_close_timelines(struct scene *s);
void scene_close(struct scene *s);
void scene_draw(struct scene *s, uint32_t frame);
void scene_run_frames(struct scene *s, bool frozen, bool draws_late);
gantry_launch_result scene_fill_other(gantry_launch *launch, void *arg);
/* While a step waits, another manager's work goes on. */
void scene_expect_others_go_on(struct scene *s);
/* Frame 1 is begun, and its wait is enqueued when they return. */
void scene_start(struct scene *s);
void scene_start_waiting(struct scene *s, uint64_t timeout_ns);
/* Frame 1 is drawn, and all its work is done. */
void scene_finish(struct scene *s);

/* Cases that both ways must pass, for lists of tests. */
void scene_frames_go_back_and_forth(void **state);
void scene_destroying_the_context_ends_a_wait(void **state);
void scene_a_lost_device_ends_a_wait(void **state);
void scene_calls_that_fail_end_the_step(void **state);
void scene_cancelling_ends_a_wait(void **state);
void scene_destroying_it_ends_a_wait(void **state);

#endif
