/* SPDX-License-Identifier: MIT */
/* What the driver refuses of a loop leaves nothing: no memory, no event, no entry that nobody will end. */
#include "dispatcher/submit/device_loop.h"
#include "taskman/gpu_task.h"
#include "tests/dispatcher/loop_scene.h"
#include "tests/support/cmocka_c11.h"

#include <string.h>

static void open_usual(struct loop_scene *s)
{
    gantry_context_options options = GANTRY_CONTEXT_OPTIONS_INIT;
    options.submission = GANTRY_SUBMISSION_STREAMS; /* the loop is the only graph that is refused */
    loops_open_scene(s, &options);
    if (!s->has_emu) { /* a device refuses nothing when it is told to */
        loops_close_scene(s);
        skip();
    }
}

static void fail_next(const struct loop_scene *s, const char *call)
{
    assert_int_equal((s->emu.fail)(call, 1, CUDA_ERROR_OUT_OF_MEMORY, GANTRY_EMU_ONCE), 0);
}

/* ---- the memory of a loop ------------------------------------------------------------------------ */

static void read_live(const struct loop_scene *s, int64_t live[GANTRY_EMU_LIVE_KINDS])
{
    for (int kind = 0; kind < GANTRY_EMU_LIVE_KINDS; kind++) {
        live[kind] = s->emu.live(kind);
    }
}

static void submit_loop(struct loop_scene *s, bool is_refused)
{
    gantry_loop_options options = GANTRY_LOOP_OPTIONS_INIT;
    gantry_loop loop = {.struct_size = sizeof(loop)};
    options.word = s->cells;
    options.most = 3;
    const gantry_status status = gantry_taskman_submit_loop(s->gpu.manager, &options, &loop);
    assert_int_equal(status == GANTRY_OK, !is_refused);
    assert_int_equal(loop.test == NULL, is_refused);
}

/* Each call that a record needs is refused, when what comes before it was done. */
static void test_a_record_that_is_refused_leaves_nothing(void **state)
{
    (void)state;
    static const char *const calls[] = {"cuMemHostAlloc", "cuMemHostGetDevicePointer", "cuMemAlloc",
                                        "cuMemcpyHtoDAsync"};
    struct loop_scene s;
    open_usual(&s);
    submit_loop(&s, false); /* which has looked for loops on the device, and keeps its record */
    for (size_t i = 0; i < sizeof(calls) / sizeof(calls[0]); i++) {
        int64_t before[GANTRY_EMU_LIVE_KINDS], after[GANTRY_EMU_LIVE_KINDS];
        read_live(&s, before);
        fail_next(&s, calls[i]);
        submit_loop(&s, true);
        read_live(&s, after);
        for (int kind = 0; kind < GANTRY_EMU_LIVE_KINDS; kind++) {
            if (after[kind] != before[kind]) {
                fail_msg("%s was refused: there are %d more objects of kind %d", calls[i],
                         (int)(after[kind] - before[kind]), kind);
            }
        }
    }
    assert_ok(gantry_taskman_reset(s.gpu.manager));
    loops_make_usual(&s, 100);
    loops_run(&s, 6);
    loops_expect(&s, 1, 0, GANTRY_LOOP_WORD, 6);
    loops_close_scene(&s);
}

/* ---- launches -------------------------------------------------------------------------------------- */

static const struct gy_while_record *record_of(const struct loop_scene *s)
{
    const struct gy_device_loop *loop = gy_task_launch_arg(s->loop.test);
    return loop->record;
}

/* Nothing is on its way: nobody waits for it, and there is nothing to cancel. */
static void expect_no_entry(const struct loop_scene *s)
{
    const struct gy_while_record *record = record_of(s);
    assert_int_equal(atomic_load(&record->launched), atomic_load(&record->host->finished));
    assert_int_equal(loops_stats_of(s).is_on_device, 0);
    assert_int_equal(gantry_loop_cancel(s->loop.decide), GANTRY_ERR_STATE);
}

/* The first launch is refused, and the CPU decides from then on. */
static void test_a_first_launch_that_is_refused_is_no_entry(void **state)
{
    (void)state;
    struct loop_scene s;
    open_usual(&s);
    const struct gy_while_record *record = NULL;
    for (uint32_t i = 0; i < 3; i++) { /* the record is free again, for the next loop */
        loops_make_usual(&s, 100);
        assert_true(record == NULL || record == record_of(&s));
        record = record_of(&s);
        const uint64_t launches = s.emu.calls("cuGraphLaunch");
        const uint64_t counted = gpu_fixture_stats(&s.gpu).graph_launches;
        fail_next(&s, "cuGraphLaunch");
        loops_run(&s, 6);
        assert_int_not_equal(s.emu.calls("cuGraphLaunch"), launches); /* one of them was refused: */
        assert_int_equal(gpu_fixture_stats(&s.gpu).graph_launches - counted + 1,
                         s.emu.calls("cuGraphLaunch") - launches);
        loops_expect(&s, 0, 1, GANTRY_LOOP_WORD, 6);
        expect_no_entry(&s);
        loops_run(&s, 5);
        loops_expect(&s, 0, 2, GANTRY_LOOP_WORD, 5);
        assert_ok(gantry_taskman_reset(s.gpu.manager));
    }
    loops_make_usual(&s, 100);
    loops_run(&s, 7);
    loops_expect(&s, 1, 0, GANTRY_LOOP_WORD, 7);
    loops_close_scene(&s);
}

/* A later launch is refused: the CPU decides in that run, and in the next one the device as before. */
static void test_a_later_launch_that_is_refused_is_no_entry(void **state)
{
    (void)state;
    struct loop_scene s;
    open_usual(&s);
    loops_make_usual(&s, 100);
    loops_run(&s, 3);
    loops_expect(&s, 1, 0, GANTRY_LOOP_WORD, 3);
    for (uint32_t i = 0; i < 3; i++) {
        fail_next(&s, "cuGraphLaunch");
        loops_run(&s, 4);
        loops_expect(&s, 1 + i, 1 + i, GANTRY_LOOP_WORD, 4);
        expect_no_entry(&s);
        loops_run(&s, 5 + i);
        loops_expect(&s, 2 + i, 1 + i, GANTRY_LOOP_WORD, 5 + i);
    }
    loops_close_scene(&s);
}

/* A run is cancelled while its launch may be refused: what was noted for that entry is not the next one's. */
static void test_a_cancelled_run_leaves_nothing_to_the_next(void **state)
{
    (void)state;
    struct loop_scene s;
    open_usual(&s);
    loops_make_usual(&s, 100);
    loops_run(&s, 3);
    for (uint32_t i = 0; i < 3; i++) {
        fail_next(&s, "cuGraphLaunch");
        loops_set_begin(&s, 4);
        assert_ok(gantry_taskman_start(s.gpu.manager));
        (void)gantry_taskman_cancel(s.gpu.manager);
        assert_int_not_equal(gantry_taskman_stop(s.gpu.manager), GANTRY_OK);
        s.emu.clear_faults();
        assert_ok(gantry_context_synchronize(s.gpu.context));
        expect_no_entry(&s);
        loops_run(&s, 5 + i);
        loops_expect_cells(&s, 5 + i);
        assert_int_equal(loops_stats_of(&s).end, GANTRY_LOOP_WORD);
    }
    loops_close_scene(&s);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_a_record_that_is_refused_leaves_nothing),
        cmocka_unit_test(test_a_first_launch_that_is_refused_is_no_entry),
        cmocka_unit_test(test_a_later_launch_that_is_refused_is_no_entry),
        cmocka_unit_test(test_a_cancelled_run_leaves_nothing_to_the_next),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
