/* SPDX-License-Identifier: MIT */
/* Loops whose turns a word on the device decides, in partitions. */
#include "driver/cuda_abi.h"
#include "tests/dispatcher/loop_scene.h"
#include "tests/support/cmocka_c11.h"

/* All tasks are of the left one at first. */
static void open_parts(struct loop_scene *s, gantry_partition **left, gantry_partition **right)
{
    const gantry_partition_request requests[] = {
        {sizeof(requests[0]), .name = "left", .sm_count = 16},
        {sizeof(requests[0]), .name = "right", .size = GANTRY_PARTITION_REST}};
    gantry_partition_options plan = GANTRY_PARTITION_OPTIONS_INIT;
    plan.requests = requests;
    plan.count = 2;
    gantry_context_options options = GANTRY_CONTEXT_OPTIONS_INIT;
    options.partitions = &plan;
    loops_open_scene(s, &options);
    assert_ok(gantry_partition_find(s->gpu.context, "left", left));
    assert_ok(gantry_partition_find(s->gpu.context, "right", right));
    s->partition = *left;
}

/* All of the loop is in one partition, its body in another than its test, or in two.  Where a driver takes no
 * loop of a partition, the CPU decides. */
static void test_loops_of_partitions(void **state)
{
    (void)state;
    for (uint32_t way = 0; way < 2; way++) {
        struct loop_scene s;
        gantry_partition *left, *right;
        open_parts(&s, &left, &right);
        loops_add_loop(&s, 100);
        loops_add_step(&s, ACT_MIX, 3, 2, 3);
        s.partition = way == 0 ? left : right;
        loops_add_step(&s, ACT_FILL, 5, 0, 77);
        s.partition = left;
        loops_add_step(&s, ACT_COPY, 4, 3, 0);
        loops_add_step(&s, ACT_COUNT, 0, 0, 0);
        loops_close_line(&s);
        for (uint32_t i = 1; i < 5; i++) {
            loops_run(&s, 10 * i);
            loops_expect_cells(&s, 10 * i);
            const gantry_loop_stats stats = loops_stats_of(&s);
            assert_int_equal(stats.turns, 10 * i);
            assert_int_equal(stats.launches + stats.cpu_loops, i);
            assert_true(way == 0 || stats.launches == 0);
            assert_true(way == 1 || !s.has_emu || stats.cpu_loops == 0);
        }
        loops_close_scene(&s);
    }
}

/* A body that has changed is recorded anew, and the driver does not say where it belongs: the loop goes round
 * by calls, and what was recorded before it changed is not launched later. */
static void test_a_recording_that_is_not_kept_leaves_no_older_one(void **state)
{
    (void)state;
    struct loop_scene s;
    gantry_partition *left, *right;
    open_parts(&s, &left, &right);
    if (s.has_emu) {
        loops_make_usual(&s, 100);
        loops_run(&s, 10);
        loops_expect(&s, 1, 0, GANTRY_LOOP_WORD, 10);
        s.steps[0].value = 11;
        assert_ok(gantry_task_invalidate(s.steps[0].task));
        assert_int_equal((s.emu.fail)("cuCtxFromGreenCtx", 1, CUDA_ERROR_INVALID_VALUE, GANTRY_EMU_ONCE), 0);
        loops_run(&s, 7);
        loops_expect(&s, 1, 1, GANTRY_LOOP_WORD, 7);
        for (uint32_t i = 1; i < 4; i++) {
            loops_run(&s, 8 + i);
            loops_expect(&s, 1 + i, 1, GANTRY_LOOP_WORD, 8 + i);
        }
    }
    loops_close_scene(&s);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_loops_of_partitions),
        cmocka_unit_test(test_a_recording_that_is_not_kept_leaves_no_older_one),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
