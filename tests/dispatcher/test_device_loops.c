/* SPDX-License-Identifier: MIT */
/* Loops whose turns a word on the device decides: the device goes round by itself where it can, the CPU where
 * it cannot, and what is computed is the same, as a model on the host computes it.
 *
 * `--graphs N` sets how many random bodies. */
#include "base/alloc.h"
#include "dispatcher/submit/device_loop.h"
#include "driver/cuda_abi.h"
#include "taskman/gpu_task.h"
#include "tests/dispatcher/loop_scene.h"
#include "tests/support/cmocka_c11.h"
#include "tests/support/deadline.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

static uint32_t bodies_wanted = 60;

/* ---- on the device ---------------------------------------------------------------------------- */

static void test_the_device_goes_round_by_itself(void **state)
{
    (void)state;
    struct loop_scene s;
    loops_open_usual(&s, 1000);
    for (uint32_t i = 0; i < 4; i++) {
        loops_run(&s, 10 + i);
        loops_expect(&s, i + 1, 0, GANTRY_LOOP_WORD, 10 + i);
    }
    for (uint32_t i = 0; i < s.step_count; i++) {
        assert_int_equal(atomic_load(&s.steps[i].calls), 1); /* recorded once, whatever the turns */
    }
    loops_close_scene(&s);
}

static void test_each_loop_has_a_turn_and_no_more_than_its_most(void **state)
{
    (void)state;
    struct loop_scene s;
    loops_open_usual(&s, 5);
    loops_run(&s, 1);
    loops_expect(&s, 1, 0, GANTRY_LOOP_WORD, 1);
    loops_run(&s, 5);
    loops_expect(&s, 2, 0, GANTRY_LOOP_WORD, 5);
    loops_run(&s, 6);
    loops_expect(&s, 3, 0, GANTRY_LOOP_MOST, 5);
    loops_close_scene(&s);
}

static void test_what_has_changed_is_recorded_anew(void **state)
{
    (void)state;
    struct loop_scene s;
    loops_open_usual(&s, 100);
    loops_run(&s, 3);
    s.steps[0].value = 11;
    assert_ok(gantry_task_invalidate(s.steps[0].task));
    loops_run(&s, 4);
    loops_expect(&s, 2, 0, GANTRY_LOOP_WORD, 4);
    assert_int_equal(atomic_load(&s.steps[0].calls), 2);
    loops_close_scene(&s);
}

static void test_runs_need_not_wait_for_each_other(void **state)
{
    (void)state;
    struct loop_scene s;
    loops_open_usual(&s, 100000);
    loops_set_begin(&s, 300);
    assert_ok(gantry_taskman_run(s.gpu.manager, 20));
    loops_expect(&s, 20, 0, GANTRY_LOOP_WORD, 300);
    loops_close_scene(&s);
}

static void await_turns(const struct loop_scene *s)
{
    deadline_await(loops_stats_of(s).is_on_device != 0, "the loop to begin");
}

static void test_a_loop_is_cancelled_by_a_word(void **state)
{
    (void)state;
    struct loop_scene s;
    loops_open_usual(&s, ENDLESS);
    assert_int_equal(gantry_loop_cancel(s.loop.decide), GANTRY_ERR_STATE);
    for (uint32_t i = 0; i < 3; i++) {
        loops_set_begin(&s, ENDLESS);
        assert_ok(gantry_taskman_start(s.gpu.manager));
        await_turns(&s);
        assert_ok(gantry_loop_cancel(s.loop.decide));
        assert_ok(gantry_taskman_stop(s.gpu.manager)); /* what comes after the loop goes on */
        const gantry_loop_stats stats = loops_stats_of(&s);
        assert_int_equal(stats.end, GANTRY_LOOP_CANCELLED);
        loops_expect_cells(&s, stats.turns);
        assert_int_equal(gantry_loop_cancel(s.loop.decide), GANTRY_ERR_STATE);
    }
    loops_run(&s, 4); /* the next one is not */
    loops_expect_stats(&s, 4, 0, GANTRY_LOOP_WORD, 4);
    loops_close_scene(&s);
}

static void test_a_cancelled_run_ends_its_loop(void **state)
{
    (void)state;
    struct loop_scene s;
    loops_open_usual(&s, ENDLESS);
    for (uint32_t i = 0; i < 3; i++) {
        loops_set_begin(&s, ENDLESS);
        assert_ok(gantry_taskman_start(s.gpu.manager));
        if (i > 0) {
            await_turns(&s);
        }
        assert_ok(gantry_taskman_cancel(s.gpu.manager));
        assert_int_equal(gantry_taskman_stop(s.gpu.manager), GANTRY_ERR_CANCELLED);
        assert_ok(gantry_context_synchronize(s.gpu.context)); /* or it would go round for minutes */
    }
    loops_run(&s, 9);
    loops_expect_cells(&s, 9);
    loops_close_scene(&s);
}

/* The loop is all that the step has left to do; the second cancellation comes when the device has left it. */
static void test_a_run_that_is_cancelled_twice_says_so(void **state)
{
    (void)state;
    struct loop_scene s;
    loops_open_scene(&s, NULL);
    loops_add_loop(&s, ENDLESS);
    gantry_task *body = loops_add_step(&s, ACT_COUNT, 0, 0, 0)->task;
    gpu_fixture_after(s.before, s.after);
    gpu_fixture_after(body, s.before);
    gpu_fixture_after(s.loop.test, body);
    gpu_fixture_after(body, s.loop.decide);
    assert_ok(gantry_taskman_freeze(s.gpu.manager));
    loops_set_begin(&s, ENDLESS);
    assert_ok(gantry_taskman_start(s.gpu.manager));
    assert_ok(gantry_taskman_wait(s.gpu.manager));
    await_turns(&s);
    assert_ok(gantry_taskman_cancel(s.gpu.manager));
    assert_ok(gantry_context_synchronize(s.gpu.context));
    assert_ok(gantry_taskman_cancel(s.gpu.manager));
    assert_int_equal(gantry_taskman_stop(s.gpu.manager), GANTRY_ERR_CANCELLED);
    assert_int_equal(loops_stats_of(&s).end, GANTRY_LOOP_CANCELLED);
    loops_close_scene(&s);
}

/* The device may be in the loop when its manager's graph is forgotten. */
static void test_a_graph_may_be_reset_while_the_device_is_in_its_loop(void **state)
{
    (void)state;
    struct loop_scene s;
    loops_open_scene(&s, NULL);
    for (uint32_t i = 0; i < 5; i++) {
        loops_add_loop(&s, 2000);
        loops_add_step(&s, ACT_MIX, 3, 2, 3);
        loops_add_step(&s, ACT_COUNT, 0, 0, 0);
        loops_close_line(&s);
        loops_set_begin(&s, 400 + i);
        assert_ok(gantry_taskman_start(s.gpu.manager));
        assert_ok(gantry_taskman_wait(s.gpu.manager));
        assert_ok(gantry_taskman_stop(s.gpu.manager));
        loops_expect(&s, 1, 0, GANTRY_LOOP_WORD, 400 + i);
        assert_ok(gantry_taskman_reset(s.gpu.manager));
        loops_add_loop(&s, 50);
        gantry_task *last = loops_add_step(&s, ACT_COUNT, 0, 0, 0)->task;
        gpu_fixture_after(s.before, s.after); /* the loop is the end of the graph, the way back its begin */
        gpu_fixture_after(last, s.before);
        gpu_fixture_after(s.loop.test, last);
        gpu_fixture_after(last, s.loop.decide);
        assert_ok(gantry_taskman_freeze(s.gpu.manager));
        loops_set_begin(&s, ENDLESS);
        assert_ok(gantry_taskman_run(s.gpu.manager, 1));
        assert_ok(gantry_taskman_reset(s.gpu.manager));
        assert_ok(gantry_context_synchronize(s.gpu.context)); /* `begin` is written again, which it reads */
    }
    loops_close_scene(&s);
}

/* ---- the CPU decides -------------------------------------------------------------------------- */

static gantry_launch_result ask_for_stream(gantry_launch *launch, void *arg)
{
    (void)arg;
    return gantry_launch_leave_graph(launch) == GANTRY_OK && gantry_launch_stream(launch) != NULL
               ? GANTRY_LAUNCH_DONE
               : GANTRY_LAUNCH_FAILED;
}

static gantry_launch_result complete_decide(gantry_launch *launch, void *arg)
{
    struct loop_step *step = arg;
    return loops_result_of(gantry_launch_add_completion(launch, step->scene->loop.decide));
}

static void test_a_body_that_needs_more_is_decided_by_the_cpu(void **state)
{
    (void)state;
    char path[64];
    gantry_profile *profile = NULL;
    snprintf(path, sizeof(path), "/tmp/gantry-loops-%d.pftrace", (int)getpid());
    for (uint32_t way = 0; way < 5; way++) {
        struct loop_scene s;
        loops_open_scene(&s, NULL);
        loops_add_loop(&s, 1000);
        loops_add_step(&s, ACT_MIX, 3, 2, 3);
        loops_add_step_with(&s, ACT_MIX, 4, 3, 5, way != 0);
        loops_add_step(&s, ACT_COUNT, 0, 0, 0);
        if (way == 1) {
            s.steps[1].extra = ask_for_stream;
        } else if (way == 2) {
            s.steps[1].extra = complete_decide;
        } else if (way == 3) { /* a CPU task in the body */
            gantry_task *cpu = gpu_fixture_cpu(&s.gpu, "cpu", loops_see, &s);
            gpu_fixture_after(cpu, s.steps[0].task);
            gpu_fixture_after(s.steps[1].task, cpu);
        }
        loops_close_line(&s);
        if (way == 4) {
            gantry_profile_options options = GANTRY_PROFILE_OPTIONS_INIT;
            options.path = path;
            assert_ok(gantry_profile_start(&options, &profile));
        }
        for (uint32_t i = 0; i < 3; i++) {
            loops_set_begin(&s, 4 + i);
            assert_ok(gantry_taskman_run(s.gpu.manager, 1));
            loops_expect(&s, 0, i + 1, GANTRY_LOOP_WORD, 4 + i);
        }
        if (way == 4) {
            assert_ok(gantry_profile_stop(profile, NULL));
            (void)remove(path);
        }
        loops_close_scene(&s);
    }
}

static void test_the_cpu_keeps_to_the_most_and_is_cancelled(void **state)
{
    (void)state;
    struct loop_scene s;
    loops_open_scene(&s, NULL);
    loops_add_loop(&s, 7);
    loops_add_step_with(&s, ACT_COUNT, 0, 0, 0, false);
    loops_close_line(&s);
    loops_run(&s, 8);
    loops_expect(&s, 0, 1, GANTRY_LOOP_MOST, 7);
    assert_int_equal(gantry_loop_cancel(s.loop.decide), GANTRY_ERR_STATE);
    assert_ok(gantry_taskman_reset(s.gpu.manager));

    loops_add_loop(&s, ENDLESS);
    loops_add_step_with(&s, ACT_COUNT, 0, 0, 0, false);
    loops_close_line(&s);
    loops_set_begin(&s, ENDLESS);
    assert_ok(gantry_taskman_start(s.gpu.manager));
    deadline_await(gantry_loop_cancel(s.loop.decide) == GANTRY_OK, "the first turn of the loop");
    assert_ok(gantry_taskman_stop(s.gpu.manager));
    assert_int_equal(loops_stats_of(&s).end, GANTRY_LOOP_CANCELLED);
    loops_expect_cells(&s, loops_stats_of(&s).turns);

    loops_set_begin(&s, ENDLESS); /* a run that is cancelled leaves nothing to the next */
    const uint32_t calls = atomic_load(&s.steps[0].calls);
    assert_ok(gantry_taskman_start(s.gpu.manager));
    deadline_await(atomic_load(&s.steps[0].calls) > calls + 2, "two turns of the loop");
    assert_ok(gantry_taskman_cancel(s.gpu.manager));
    assert_int_equal(gantry_taskman_stop(s.gpu.manager), GANTRY_ERR_CANCELLED);
    loops_run(&s, 3);
    loops_expect_cells(&s, 3);
    assert_int_equal(loops_stats_of(&s).turns, 3);
    loops_close_scene(&s);
}

/* ---- entries ---------------------------------------------------------------------------------- */

/* As if the loop had been entered 2^31 times since it was cancelled, or made. */
static void test_a_loop_may_be_entered_for_ever(void **state)
{
    (void)state;
    struct loop_scene s;
    loops_open_usual(&s, 1000);
    loops_run(&s, 10);
    assert_ok(gantry_context_synchronize(s.gpu.context));
    struct gy_device_loop *loop = gy_task_launch_arg(s.loop.test);
    struct gy_context *context = loop->list->pool.context;
    const uint32_t counters[2] = {UINT32_C(0x7ffffffd), 0};
    atomic_store(&loop->record->launched, counters[0]);
    atomic_store(&loop->record->host->finished, counters[0]);
    assert_ok(gy_context_enter(context));
    assert_int_equal(context->driver->cuMemcpyHtoD(loop->record->counters, counters, sizeof(counters)),
                     CUDA_SUCCESS);
    assert_int_equal(context->driver->cuStreamSynchronize(NULL), CUDA_SUCCESS);
    assert_ok(gy_context_pop(context));
    for (uint32_t i = 0; i < 6; i++) {
        loops_run(&s, 10 + i);
        loops_expect(&s, 2 + i, 0, GANTRY_LOOP_WORD, 10 + i);
    }
    loops_close_scene(&s);
}

/* ---- failures --------------------------------------------------------------------------------- */

static void test_what_the_driver_refuses_goes_round_by_calls(void **state)
{
    (void)state;
    static const char *const calls[] = {"cuGraphConditionalHandleCreate", "cuGraphAddNode", "cuGraphCreate",
                                        "cuGraphInstantiateWithFlags", "cuGraphAddKernelNode"};
    for (uint32_t i = 0; i < sizeof(calls) / sizeof(calls[0]); i++) {
        struct loop_scene s;
        gantry_context_options options = GANTRY_CONTEXT_OPTIONS_INIT;
        options.submission = GANTRY_SUBMISSION_STREAMS; /* the loop is the only graph that is refused */
        loops_open_scene(&s, &options);
        if (!s.has_emu) {
            loops_close_scene(&s);
            return;
        }
        loops_make_usual(&s, 100);
        assert_int_equal((s.emu.fail)(calls[i], 1, CUDA_ERROR_NOT_SUPPORTED, GANTRY_EMU_ONCE), 0);
        loops_run(&s, 6);
        loops_expect(&s, 0, 1, GANTRY_LOOP_WORD, 6);
        loops_run(&s, 5);
        loops_expect_cells(&s, 5);
        loops_close_scene(&s);
    }
}

static void test_a_fault_in_a_turn_ends_the_loop(void **state)
{
    (void)state;
    struct loop_scene s;
    loops_open_scene(&s, NULL);
    if (!s.has_emu) { /* a device does not fail when it is told to */
        loops_close_scene(&s);
        return;
    }
    loops_make_usual(&s, ENDLESS);
    assert_int_equal((s.emu.fail_kernel)(40, 214, GANTRY_EMU_ONCE), 0);
    loops_set_begin(&s, ENDLESS);
    assert_int_equal(gantry_taskman_run(s.gpu.manager, 1), GANTRY_ERR_DEVICE_LOST);
    loops_close_lost(&s);
}

static void test_a_forced_failure_ends_the_loop(void **state)
{
    (void)state;
    struct loop_scene s;
    loops_open_usual(&s, ENDLESS);
    loops_set_begin(&s, ENDLESS);
    assert_ok(gantry_taskman_start(s.gpu.manager));
    await_turns(&s);
    gantry_dispatcher_force_failure(gantry_context_dispatcher(s.gpu.context));
    assert_int_equal(gantry_taskman_stop(s.gpu.manager), GANTRY_ERR_DEVICE_LOST);
    loops_close_lost(&s);
}

/* A manager with room for one task: memory is missing for the loop, its record, its edge, or its second task.
 * The step goes on as if it had not been tried.  True: memory was missing. */
static bool is_refused_without_memory(struct loop_scene *s, long nth)
{
    gantry_taskman_options usual = GANTRY_TASKMAN_OPTIONS_INIT;
    usual.gpu_dispatcher = gantry_context_dispatcher(s->gpu.context);
    usual.expected_tasks = 1;
    gantry_loop_options options = GANTRY_LOOP_OPTIONS_INIT;
    options.word = s->cells;
    options.most = 3;
    gantry_loop loop = {.struct_size = sizeof(loop)};
    gantry_taskman *manager;
    assert_ok(gantry_taskman_create(&usual, &manager));
    gy_fault_arm(nth);
    const gantry_status status = gantry_taskman_submit_loop(manager, &options, &loop);
    const bool fired = gy_fault_fired();
    gy_fault_arm(-1);
    assert_int_equal(status, fired ? GANTRY_ERR_OUT_OF_HOST_MEMORY : GANTRY_OK);
    assert_int_equal(loop.test == NULL, fired);
    if (fired) {
        assert_ok(gantry_taskman_start(manager));
        assert_ok(gantry_taskman_stop(manager));
    }
    gantry_taskman_destroy(manager);
    return fired;
}

static void test_a_submission_without_memory_leaves_nothing_that_runs(void **state)
{
    (void)state;
    struct loop_scene s;
    uint32_t refused = 0;
    loops_open_usual(&s, 10); /* which has looked for loops on the device, and keeps its record */
    for (uint32_t pass = 0; pass < 2; pass++) { /* in the second one there is a record that nobody uses */
        for (long nth = 0; is_refused_without_memory(&s, nth); nth++) {
            refused++;
        }
    }
    assert_int_equal(refused, 3 + 3);
    loops_run(&s, 4);
    loops_expect(&s, 1, 0, GANTRY_LOOP_WORD, 4);
    loops_close_scene(&s);
}

static void test_a_loop_that_the_driver_has_no_memory_for_leaves_nothing(void **state)
{
    (void)state;
    struct loop_scene s;
    loops_open_scene(&s, NULL);
    gantry_loop_options options = GANTRY_LOOP_OPTIONS_INIT;
    gantry_loop loop = {.struct_size = sizeof(loop)};
    options.word = s.cells;
    options.most = 3;
    if (s.has_emu) {
        assert_int_equal((s.emu.fail)("cuMemHostAlloc", 1, CUDA_ERROR_OUT_OF_MEMORY, GANTRY_EMU_ONCE), 0);
        assert_int_not_equal(gantry_taskman_submit_loop(s.gpu.manager, &options, &loop), GANTRY_OK);
        assert_ok(gantry_taskman_start(s.gpu.manager));
        assert_ok(gantry_taskman_stop(s.gpu.manager));
        assert_ok(gantry_taskman_reset(s.gpu.manager));
    }
    loops_make_usual(&s, 100);
    loops_run(&s, 6);
    loops_expect(&s, 1, 0, GANTRY_LOOP_WORD, 6);
    loops_close_scene(&s);
}

static void test_bad_input_is_refused(void **state)
{
    (void)state;
    struct loop_scene s;
    loops_open_scene(&s, NULL);
    gantry_loop_options options = GANTRY_LOOP_OPTIONS_INIT;
    gantry_loop loop = {.struct_size = sizeof(loop)};
    gantry_loop_stats stats = {.struct_size = sizeof(stats)};
    options.most = 1;
    assert_int_equal(gantry_taskman_submit_loop(s.gpu.manager, &options, &loop), GANTRY_ERR_INVALID_ARGUMENT);
    options.word = (char *)s.cells + 2;
    assert_int_equal(gantry_taskman_submit_loop(s.gpu.manager, &options, &loop), GANTRY_ERR_INVALID_ARGUMENT);
    options.word = s.cells;
    options.most = 0;
    assert_int_equal(gantry_taskman_submit_loop(s.gpu.manager, &options, &loop), GANTRY_ERR_INVALID_ARGUMENT);
    options.most = 1;
    options.reserved = 1;
    assert_int_equal(gantry_taskman_submit_loop(s.gpu.manager, &options, &loop), GANTRY_ERR_UNSUPPORTED);
    options.reserved = 0;
    assert_int_equal(gantry_taskman_submit_loop(s.gpu.manager, NULL, &loop), GANTRY_ERR_INVALID_ARGUMENT);
    assert_int_equal(gantry_taskman_submit_loop(s.gpu.manager, &options, NULL), GANTRY_ERR_INVALID_ARGUMENT);
    gantry_task *cpu = gpu_fixture_cpu(&s.gpu, "cpu", loops_see, &s);
    assert_int_equal(gantry_loop_cancel(cpu), GANTRY_ERR_INVALID_ARGUMENT);
    assert_int_equal(gantry_loop_get_stats(cpu, &stats), GANTRY_ERR_INVALID_ARGUMENT);
    assert_ok(gantry_taskman_freeze(s.gpu.manager));
    assert_int_equal(gantry_taskman_submit_loop(s.gpu.manager, &options, &loop), GANTRY_ERR_STATE);
    loops_close_scene(&s);
}

/* The emulated driver refuses such an address; a device may be able to read it. */
static void test_a_word_on_the_host_is_named(void **state)
{
    (void)state;
    struct loop_scene s;
    loops_open_scene(&s, NULL);
    if (s.has_emu) {
        static uint32_t word;
        gantry_loop_options options = GANTRY_LOOP_OPTIONS_INIT;
        gantry_loop loop = {.struct_size = sizeof(loop)};
        options.word = &word;
        options.most = 1;
        options.label = "astray";
        assert_ok(gantry_taskman_submit_loop(s.gpu.manager, &options, &loop));
        assert_ok(gantry_taskman_freeze(s.gpu.manager));
        assert_int_equal(gantry_taskman_run(s.gpu.manager, 1), GANTRY_ERR_DRIVER);
        assert_non_null(strstr(gantry_last_error(), "the word of loop 'astray', 0x"));
        assert_non_null(strstr(gantry_last_error(), ": gantry_launch_copy_dtoh of 4 bytes from 0x"));
    }
    loops_close_scene(&s);
}

/* ---- bodies of any shape ----------------------------------------------------------------------- */

static uint32_t draw(uint64_t *random, uint32_t below)
{
    *random = *random * UINT64_C(6364136223846793005) + UINT64_C(1442695040888963407);
    return (uint32_t)(*random >> 33) % below;
}

/* Do two steps touch one cell, so that their order matters? */
static bool touches(const struct loop_step *a, const struct loop_step *b)
{
    if (a->act == ACT_SYNC || b->act == ACT_SYNC) {
        return false;
    }
    const bool counts[2] = {a->act == ACT_COUNT, b->act == ACT_COUNT};
    if (counts[0] || counts[1]) {
        const struct loop_step *other = counts[0] ? b : a;
        return (counts[0] && counts[1]) || other->from <= 2 || other->to <= 2;
    }
    return a->to == b->to || (b->act != ACT_FILL && a->to == b->from) ||
           (a->act != ACT_FILL && b->to == a->from);
}

/* A body with the first step in front and edges where order matters, and some more; steps without heirs lead
 * to the test. */
static void make_random(struct loop_scene *s, uint64_t *random)
{
    loops_add_loop(s, 50);
    const uint32_t count = 2 + draw(random, MOST_STEPS - 2);
    bool has_heir[MOST_STEPS] = {false};
    for (uint32_t i = 0; i < count; i++) {
        const enum act act = i == count / 2 ? ACT_COUNT : (enum act)(1 + draw(random, i == 0 ? 3 : 4));
        loops_add_step(s, act, 3 + draw(random, CELLS - 3), 2 + draw(random, CELLS - 2), 1 + draw(random, 9));
        bool is_behind = false;
        for (uint32_t j = 0; j < i; j++) {
            const bool is_last = j + 1 == i && !is_behind && draw(random, 2) == 0;
            if (touches(&s->steps[j], &s->steps[i]) || draw(random, 5) == 0 || is_last) {
                gpu_fixture_after(s->steps[i].task, s->steps[j].task);
                has_heir[j] = is_behind = true;
            }
        }
        if (i > 0 && !is_behind) {
            gpu_fixture_after(s->steps[i].task, s->steps[0].task);
            has_heir[0] = true;
        }
    }
    for (uint32_t i = 0; i < count; i++) {
        if (!has_heir[i]) {
            gpu_fixture_after(s->loop.test, s->steps[i].task);
        }
    }
    gpu_fixture_after(s->steps[0].task, s->before);
    gpu_fixture_after(s->steps[0].task, s->loop.decide);
    gpu_fixture_after(s->after, s->loop.decide);
    assert_ok(gantry_taskman_freeze(s->gpu.manager));
}

static void test_bodies_of_any_shape_compute_what_they_should(void **state)
{
    (void)state;
    static const gantry_submission modes[] = {GANTRY_SUBMISSION_STREAMS, GANTRY_SUBMISSION_GRAPHS,
                                              GANTRY_SUBMISSION_AUTO};
    for (uint32_t mode = 0; mode < 3; mode++) {
        gantry_context_options options = GANTRY_CONTEXT_OPTIONS_INIT;
        options.submission = modes[mode];
        struct loop_scene s;
        loops_open_scene(&s, &options);
        for (uint32_t i = 0; i < bodies_wanted / 3 + 1; i++) {
            uint64_t random = i * 3 + mode + 1;
            make_random(&s, &random);
            for (uint32_t again = 0; again < 3; again++) {
                const uint32_t turns = 1 + draw(&random, 60);
                loops_run(&s, turns);
                loops_expect(&s, again + 1, 0, turns <= 50 ? GANTRY_LOOP_WORD : GANTRY_LOOP_MOST,
                             turns < 50 ? turns : 50);
            }
            assert_ok(gantry_taskman_reset(s.gpu.manager));
        }
        loops_close_scene(&s);
    }
}

/* ---- inside another loop ----------------------------------------------------------------------- */

struct outer {
    struct loop_scene *scene;
    uint32_t left;
};

static gantry_status again_or_on(gantry_task *task, void *arg)
{
    struct outer *outer = arg;
    return gantry_task_choose(task, --outer->left != 0 ? 0 : 1);
}

static void test_a_loop_is_entered_many_times_in_a_run(void **state)
{
    (void)state;
    struct loop_scene s;
    loops_open_scene(&s, NULL);
    struct outer outer = {.scene = &s};
    loops_add_loop(&s, 100);
    loops_add_step(&s, ACT_MIX, 3, 2, 3);
    loops_add_step(&s, ACT_COUNT, 0, 0, 0);
    gantry_task_desc desc = GANTRY_TASK_DESC_INIT;
    desc.run = again_or_on;
    desc.arg = &outer;
    desc.is_condition = true;
    gantry_task *choice, *end = gpu_fixture_cpu(&s.gpu, "end", loops_see, &s);
    assert_ok(gantry_taskman_submit(s.gpu.manager, &desc, &choice));
    gpu_fixture_after(choice, s.seen);
    gpu_fixture_after(s.before, choice); /* dependent 0: all of it again */
    gpu_fixture_after(end, choice);
    gantry_task *start = gpu_fixture_cpu(&s.gpu, "start", loops_see, &s);
    gpu_fixture_after(s.before, start);
    loops_close_line(&s);
    for (uint32_t i = 1; i < 4; i++) {
        outer.left = i;
        loops_set_begin(&s, 10 * i);
        assert_ok(gantry_taskman_run(s.gpu.manager, 1));
        loops_expect_cells(&s, 10 * i);
    }
    loops_expect_stats(&s, 1 + 2 + 3, 0, GANTRY_LOOP_WORD, 30);
    assert_int_equal(atomic_load(&s.steps[0].calls), 1);
    loops_close_scene(&s);
}

/* ---- shares --------------------------------------------------------------------- */

static void test_a_loop_is_charged(void **state)
{
    (void)state;
    struct loop_scene s;
    loops_open_scene(&s, NULL);
    gantry_taskman_options options = GANTRY_TASKMAN_OPTIONS_INIT;
    const gantry_share share = {sizeof(share), .percent = 60};
    options.gpu_dispatcher = gantry_context_dispatcher(s.gpu.context);
    options.cpu_dispatcher = s.gpu.cpus;
    options.share = &share;
    gantry_taskman_destroy(s.gpu.manager);
    assert_ok(gantry_taskman_create(&options, &s.gpu.manager));
    loops_make_usual(&s, 1000);
    for (uint32_t i = 0; i < 5; i++) {
        loops_run(&s, 20);
        loops_expect_cells(&s, 20);
    }
    loops_expect_stats(&s, 5, 0, GANTRY_LOOP_WORD, 20);
    gantry_share_usage usage = {.struct_size = sizeof(usage)};
    assert_ok(gantry_taskman_get_usage(s.gpu.manager, &usage));
    assert_true(usage.used_ns > 0);
    loops_close_scene(&s);
}

int main(int argc, char **argv)
{
    if (argc == 3 && strcmp(argv[1], "--graphs") == 0) {
        bodies_wanted = (uint32_t)strtoul(argv[2], NULL, 10);
    }
    if (getenv("GANTRY_TEST_LIGHT") != NULL) {
        bodies_wanted /= 4;
    }
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_the_device_goes_round_by_itself),
        cmocka_unit_test(test_each_loop_has_a_turn_and_no_more_than_its_most),
        cmocka_unit_test(test_what_has_changed_is_recorded_anew),
        cmocka_unit_test(test_runs_need_not_wait_for_each_other),
        cmocka_unit_test(test_a_loop_is_cancelled_by_a_word),
        cmocka_unit_test(test_a_cancelled_run_ends_its_loop),
        cmocka_unit_test(test_a_run_that_is_cancelled_twice_says_so),
        cmocka_unit_test(test_a_graph_may_be_reset_while_the_device_is_in_its_loop),
        cmocka_unit_test(test_a_body_that_needs_more_is_decided_by_the_cpu),
        cmocka_unit_test(test_the_cpu_keeps_to_the_most_and_is_cancelled),
        cmocka_unit_test(test_a_loop_may_be_entered_for_ever),
        cmocka_unit_test(test_what_the_driver_refuses_goes_round_by_calls),
        cmocka_unit_test(test_a_fault_in_a_turn_ends_the_loop),
        cmocka_unit_test(test_a_forced_failure_ends_the_loop),
        cmocka_unit_test(test_a_submission_without_memory_leaves_nothing_that_runs),
        cmocka_unit_test(test_a_loop_that_the_driver_has_no_memory_for_leaves_nothing),
        cmocka_unit_test(test_bad_input_is_refused),
        cmocka_unit_test(test_a_word_on_the_host_is_named),
        cmocka_unit_test(test_bodies_of_any_shape_compute_what_they_should),
        cmocka_unit_test(test_a_loop_is_entered_many_times_in_a_run),
        cmocka_unit_test(test_a_loop_is_charged),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
