/* SPDX-License-Identifier: MIT */
/* Another plan of partitions for a context that lives on: what stays, what goes, and what is refused. */
#include "base/alloc.h"
#include "context/context.h"
#include "partition/budget.h"
#include "tests/dispatcher/loop_scene.h"
#include "tests/partition/plan_support.h"
#include "tests/partition/replan_scene.h"
#include "tests/support/cmocka_c11.h"
#include "tests/support/file_has.h"

#include <pthread.h>
#include <sched.h>
#include <stdatomic.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#define PLAN_A "critical16 bulk24 *other"
#define PLAN_B "bulk32 *other critical8"

static const gantry_submission modes[] = {GANTRY_SUBMISSION_STREAMS, GANTRY_SUBMISSION_GRAPHS,
                                          GANTRY_SUBMISSION_AUTO};

/* Fewer where everything takes long: a driver makes green contexts one by one, for all processes. */
static uint32_t light_runs(uint32_t runs)
{
    const bool is_slow =
        getenv("GANTRY_TEST_LIGHT") != NULL || gpu_fixture_driver() != GANTRY_DRIVER_EMULATED;
    return is_slow ? runs / 4 : runs;
}

/* ---- what it does ------------------------------------------------------------------------------ */

static void test_steps_go_to_the_new_partitions(void **state)
{
    (void)state;
    for (size_t m = 0; m < sizeof(modes) / sizeof(modes[0]); m++) {
        struct replan_scene s;
        replan_open(&s, PLAN_A, modes[m]);
        replan_run_row(&s);
        replan_run_row(&s);
        gantry_dispatcher_stats before = gpu_fixture_stats(&s.gpu);
        assert_ok(replan_to(&s, PLAN_B));
        assert_int_equal(gantry_partition_count(s.gpu.context), 3);
        assert_int_equal(replan_info(replan_partition(&s, "bulk")).index, 0);
        assert_true(replan_info(replan_partition(&s, "bulk")).granted_sms >= 32);
        assert_string_equal(replan_info(replan_partition(&s, "")).name, "other");
        for (int i = 0; i < 3; i++) {
            replan_run_row(&s);
        }
        gantry_dispatcher_stats after = gpu_fixture_stats(&s.gpu);
        assert_int_equal(after.tasks, before.tasks + 24); /* counters go on */
        assert_true(after.wfi_edges > before.wfi_edges);
        replan_close(&s);
    }
}

static void test_from_no_plan_and_back(void **state)
{
    (void)state;
    struct replan_scene s;
    gantry_partition_layout layout = {.struct_size = sizeof(layout)};
    replan_open(&s, NULL, GANTRY_SUBMISSION_GRAPHS);
    uint64_t random = 1;
    replan_random_step(&s, 6, &random);
    replan_check(&s);
    assert_ok(replan_to(&s, PLAN_A));
    assert_ok(gantry_partition_get_layout(s.gpu.context, &layout));
    replan_run_row(&s);
    assert_ok(replan_to(&s, NULL));
    assert_int_equal(gantry_partition_count(s.gpu.context), 1);
    replan_refused(gantry_partition_get_layout(s.gpu.context, &layout), GANTRY_ERR_NOT_FOUND, "has no plan");
    replan_random_step(&s, 6, &random);
    replan_check(&s);
    assert_ok(replan_to(&s, PLAN_B));
    replan_run_row(&s);
    replan_close(&s);
}

static void test_old_handles_are_refused(void **state)
{
    (void)state;
    struct replan_scene s;
    gantry_partition_info info = {.struct_size = sizeof(info)};
    gantry_task_desc desc = GANTRY_TASK_DESC_INIT;
    gantry_task *task;
    replan_open(&s, PLAN_A, GANTRY_SUBMISSION_STREAMS);
    gantry_partition *old = replan_partition(&s, "critical");
    assert_ok(replan_to(&s, PLAN_B));
    replan_refused(gantry_partition_get_info(old, &info), GANTRY_ERR_INVALID_ARGUMENT, "partition");
    replan_refused(gantry_partition_synchronize(old), GANTRY_ERR_INVALID_ARGUMENT, "partition");
    desc.kind = GANTRY_TASK_KERNEL;
    desc.launch = (gantry_launch_fn)NULL;
    desc.partition = old;
    assert_int_equal(gantry_taskman_submit(s.gpu.manager, &desc, &task), GANTRY_ERR_INVALID_ARGUMENT);
    replan_run_row(&s);
    replan_close(&s);
}

/* A graph that is frozen, and one that is being built, keep their partitions by name. */
static void test_frozen_graphs_go_on(void **state)
{
    (void)state;
    for (int stable = 0; stable < 2; stable++) {
        struct replan_scene s;
        replan_open(&s, PLAN_A, GANTRY_SUBMISSION_GRAPHS);
        s.is_stable = stable != 0;
        replan_submit_row(&s);
        assert_ok(gantry_taskman_freeze(s.gpu.manager));
        for (int run = 0; run < 4; run++) {
            assert_ok(gantry_taskman_start(s.gpu.manager));
            assert_ok(gantry_taskman_stop(s.gpu.manager));
            replan_check(&s);
        }
        uint32_t calls = s.jobs[0].calls;
        uint64_t replays = gpu_fixture_stats(&s.gpu).graph_replays;
        assert_int_equal(replays != 0, stable);
        assert_ok(replan_to(&s, PLAN_B));
        for (int run = 0; run < 4; run++) {
            assert_ok(gantry_taskman_start(s.gpu.manager));
            assert_ok(gantry_taskman_stop(s.gpu.manager));
            replan_check(&s);
        }
        assert_true(s.jobs[0].calls > calls); /* what was recorded is of streams that have gone */
        if (stable != 0) {
            assert_true(gpu_fixture_stats(&s.gpu).graph_replays > replays);
        }
        assert_ok(gantry_taskman_reset(s.gpu.manager));
        s.is_stable = false;
        replan_submit_row(&s); /* in a graph that is being built */
        assert_ok(replan_to(&s, PLAN_A));
        assert_ok(gpu_fixture_step(&s.gpu));
        replan_check(&s);
        replan_close(&s);
    }
}

/* A loop that goes round on the device: its body is recorded anew, in the partition that it is in by then. */
static void test_loops_on_the_device_go_on(void **state)
{
    (void)state;
    struct loop_scene s;
    struct replan_plan plan;
    loops_open_usual(&s, 100);
    loops_run(&s, 3);
    assert_ok(gantry_context_set_partitions(s.gpu.context, replan_plan(&plan, PLAN_A)));
    loops_run(&s, 4);
    loops_expect(&s, 2, 0, GANTRY_LOOP_WORD, 4);
    assert_ok(gantry_context_set_partitions(s.gpu.context, NULL));
    loops_run(&s, 5);
    loops_run(&s, 6);
    loops_expect(&s, 4, 0, GANTRY_LOOP_WORD, 6);
    assert_int_equal(atomic_load(&s.steps[0].calls), 3);
    loops_close_scene(&s);
}

static void test_a_partition_with_tasks_must_stay(void **state)
{
    (void)state;
    struct replan_scene s;
    replan_open(&s, PLAN_A, GANTRY_SUBMISSION_GRAPHS);
    s.is_stable = true;
    replan_submit_row(&s);
    assert_ok(gantry_taskman_freeze(s.gpu.manager));
    replan_refused(replan_to(&s, "critical8 *other"), GANTRY_ERR_STATE,
                   "task 'job' is in partition 'bulk', which the new plan does not have");
    replan_refused(replan_to(&s, NULL), GANTRY_ERR_STATE, "which the new plan does not have");
    for (int run = 0; run < 3; run++) {
        assert_ok(gantry_taskman_start(s.gpu.manager));
        assert_ok(gantry_taskman_stop(s.gpu.manager));
        replan_check(&s);
    }
    assert_ok(gantry_taskman_reset(s.gpu.manager));
    gantry_taskman_options options = GANTRY_TASKMAN_OPTIONS_INIT;
    gantry_taskman *other;
    options.gpu_dispatcher = gantry_context_dispatcher(s.gpu.context);
    options.partition = replan_partition(&s, "critical");
    assert_ok(gantry_taskman_create(&options, &other));
    replan_refused(replan_to(&s, "bulk8 *other"), GANTRY_ERR_STATE, "has its tasks in partition 'critical'");
    gantry_taskman_destroy(other);
    assert_ok(replan_to(&s, "bulk8 *other"));
    replan_close(&s);
}

/* ---- what is refused ------------------------------------------------------------------------------ */

struct blocker {
    struct replan_scene *scene;
    _Atomic(int) state; /* 1: the task runs, 2: it may end */
    gantry_status from_task;
};

static gantry_status block(gantry_task *task, void *arg)
{
    (void)task;
    struct blocker *b = arg;
    b->from_task = gantry_context_set_partitions(b->scene->gpu.context, NULL);
    atomic_store(&b->state, 1);
    while (atomic_load(&b->state) != 2) {
        (void)sched_yield();
    }
    return GANTRY_OK;
}

static void test_a_running_manager_is_named(void **state)
{
    (void)state;
    struct replan_scene s;
    replan_open(&s, PLAN_A, GANTRY_SUBMISSION_STREAMS);
    struct blocker b = {.scene = &s};
    gantry_task *blocker = gpu_fixture_cpu(&s.gpu, "a task that takes long", block, &b);
    s.count = 0;
    gpu_fixture_after(replan_submit(&s, "bulk", NULL)->task, blocker);
    assert_ok(gantry_taskman_start(s.gpu.manager));
    while (atomic_load(&b.state) != 1) {
        (void)sched_yield();
    }
    assert_int_equal(b.from_task, GANTRY_ERR_STATE);
    char text[64];
    (void)snprintf(text, sizeof(text), "task manager %p is running", (void *)s.gpu.manager);
    replan_refused(replan_to(&s, PLAN_B), GANTRY_ERR_STATE, text);
    assert_non_null(strstr(gantry_last_error(), "'a task that takes long'"));
    atomic_store(&b.state, 2);
    assert_ok(gpu_fixture_stop(&s.gpu));
    replan_check(&s);
    assert_ok(replan_to(&s, PLAN_B));
    replan_run_row(&s);
    replan_close(&s);
}

static void test_a_bad_plan_changes_nothing(void **state)
{
    (void)state;
    struct replan_scene s;
    replan_open(&s, PLAN_A, GANTRY_SUBMISSION_GRAPHS);
    replan_run_row(&s);
    gantry_partition *before = replan_partition(&s, "bulk");
    uint64_t id = replan_info(before).id;
    struct replan_plan plan;
    (void)replan_plan(&plan, "a8 b8");
    plan.requests[0].sm_count = 4000;
    replan_refused(gantry_context_set_partitions(s.gpu.context, &plan.options), GANTRY_ERR_INVALID_ARGUMENT,
                   "the device has");
    plan.options.count = 0;
    assert_int_equal(gantry_context_set_partitions(s.gpu.context, &plan.options),
                     GANTRY_ERR_INVALID_ARGUMENT);
    assert_int_equal(gantry_context_set_partitions(NULL, NULL), GANTRY_ERR_INVALID_ARGUMENT);
    assert_ptr_equal(replan_partition(&s, "bulk"), before);
    assert_int_equal(replan_info(before).id, id);
    replan_run_row(&s);
    replan_close(&s);
}

/* ---- from another thread ----------------------------------------------------------------------- */

struct other_thread {
    struct replan_scene *scene;
    _Atomic(bool) ends;
    _Atomic(uint32_t) changes;
    uint32_t refusals, others;
};

static void *change_all_the_time(void *arg)
{
    struct other_thread *t = arg;
    for (uint32_t i = 0; !atomic_load(&t->ends); i++) {
        struct replan_plan plan;
        gantry_status status = gantry_context_set_partitions(
            t->scene->gpu.context, replan_plan(&plan, i % 2 == 0 ? PLAN_B : PLAN_A));
        atomic_fetch_add(&t->changes, status == GANTRY_OK);
        t->refusals += status == GANTRY_ERR_STATE;
        t->others += status != GANTRY_OK && status != GANTRY_ERR_STATE;
        for (uint32_t n = 0; n < 20; n++) {
            (void)sched_yield();
        }
    }
    return NULL;
}

/* The frozen graph is of the named partitions, whichever plan is in force.  A start that comes into a change
 * is refused, and tried again. */
static void test_a_second_thread_loses_nothing(void **state)
{
    (void)state;
    struct replan_scene s;
    struct other_thread other = {.scene = &s};
    pthread_t thread;
    uint32_t steps = 0, want = light_runs(400);
    replan_open(&s, PLAN_A, GANTRY_SUBMISSION_GRAPHS);
    s.is_stable = s.is_brief = true;
    replan_submit_row(&s);
    assert_ok(gantry_taskman_freeze(s.gpu.manager));
    assert_int_equal(pthread_create(&thread, NULL, change_all_the_time, &other), 0);
    while (steps < want || (atomic_load(&other.changes) == 0 && steps < 100 * want)) {
        gantry_status status = gantry_taskman_start(s.gpu.manager);
        if (status == GANTRY_OK) {
            assert_ok(gantry_taskman_stop(s.gpu.manager));
            steps++;
        } else {
            replan_refused(status, GANTRY_ERR_STATE, "another plan of partitions");
        }
        if (steps % 4 == 0) {
            (void)nanosleep(&(struct timespec){0, 1000000}, NULL);
        }
    }
    atomic_store(&other.ends, true);
    assert_int_equal(pthread_join(thread, NULL), 0);
    assert_int_equal(other.others, 0);
    assert_true(atomic_load(&other.changes) > 0);
    assert_int_equal(gpu_fixture_stats(&s.gpu).tasks, (uint64_t)steps * 8);
    assert_int_equal(gpu_fixture_stats(&s.gpu).tasks_failed, 0);
    s.is_brief = false;
    assert_ok(replan_to(&s, PLAN_A)); /* what was recorded is dropped */
    assert_ok(gantry_taskman_start(s.gpu.manager));
    assert_ok(gantry_taskman_stop(s.gpu.manager));
    replan_check(&s);
    assert_ok(gantry_taskman_reset(s.gpu.manager));
    replan_close(&s);
}

/* ---- nothing is left -------------------------------------------------------------------------------- */

static void random_plan(char *text, size_t room, uint64_t *random)
{
    static const char *const names[] = {"a", "b", "c", "d", "e", "f"};
    uint32_t count = 1 + replan_random(random, 6);
    size_t used = 0;
    for (uint32_t i = 0; i < count; i++) {
        used +=
            (size_t)snprintf(text + used, room - used, "%s%u ", names[i], 8 * (1 + replan_random(random, 2)));
    }
    (void)snprintf(text + used, room - used, "*rest");
}

static void test_a_hundred_changes_leave_nothing(void **state)
{
    (void)state;
    struct gantry_emu_control emu;
    bool is_emulated = gpu_fixture_controls(&emu);
    int64_t before[GANTRY_EMU_LIVE_KINDS] = {0};
    const uint32_t changes = light_runs(100);
    for (int kind = 0; is_emulated && kind < GANTRY_EMU_LIVE_KINDS; kind++) {
        before[kind] = emu.live(kind);
    }
    struct replan_scene s;
    uint64_t random = 23;
    long blocks = 0;
    replan_open(&s, PLAN_A, GANTRY_SUBMISSION_DEFAULT);
    for (uint32_t i = 0; i < changes; i++) {
        char text[128];
        assert_ok(gantry_dispatcher_set_submission(gantry_context_dispatcher(s.gpu.context), modes[i % 3]));
        random_plan(text, sizeof(text), &random);
        assert_ok(replan_to(&s, i % 10 == 9 ? NULL : text));
        if (is_emulated) { /* what the plan needs, and nothing of those before; and one for guards of batches
                            */
            uint32_t partitions = gantry_partition_count(s.gpu.context);
            assert_int_equal(emu.live(GANTRY_EMU_LIVE_GREEN_CONTEXTS) -
                                 before[GANTRY_EMU_LIVE_GREEN_CONTEXTS],
                             1 + (i % 10 == 9 ? 0 : partitions));
            assert_int_equal(emu.live(GANTRY_EMU_LIVE_STREAMS), before[GANTRY_EMU_LIVE_STREAMS]);
            assert_int_equal(emu.live(GANTRY_EMU_LIVE_GRAPH_EXECS), before[GANTRY_EMU_LIVE_GRAPH_EXECS]);
            assert_int_equal(emu.live(GANTRY_EMU_LIVE_GRAPHS), before[GANTRY_EMU_LIVE_GRAPHS]);
            assert_in_range(emu.live(GANTRY_EMU_LIVE_EVENTS) - before[GANTRY_EMU_LIVE_EVENTS], 0, 8);
        }
        s.is_brief = i % 8 != 0;
        replan_random_step(&s, 1 + replan_random(&random, 12), &random);
        if (i % 8 == 0) {
            replan_check(&s);
        }
        if (i % 10 == 9) { /* the same plan again and again, so as much memory */
            assert_true(i < 30 || gy_alloc_live() <= blocks + 64);
            blocks = i == 19 ? gy_alloc_live() : blocks;
        }
    }
    replan_close(&s);
    for (int kind = 0; is_emulated && kind < GANTRY_EMU_LIVE_KINDS; kind++) {
        assert_int_equal(emu.live(kind), before[kind]);
    }
}

/* Whatever fails once while the plan is changed: the old one is in force, and works. */
static void check_old_or_new(struct replan_scene *s, gantry_status status, uint32_t *next)
{
    struct replan_plan plan;
    const char *names[] = {PLAN_A, PLAN_B};
    (void)replan_plan(&plan, names[*next]);
    if (status == GANTRY_OK) {
        *next = 1 - *next; /* the failure was of something that can do without */
    } else {
        (void)replan_plan(&plan, names[1 - *next]);
    }
    assert_string_equal(replan_info(gantry_partition_at(s->gpu.context, 0)).name, plan.names[0]);
    assert_true(gantry_context_is_valid(s->gpu.context));
    replan_submit_row(s);
    assert_ok(gpu_fixture_step(&s->gpu));
}

static void test_every_allocation_may_fail(void **state)
{
    (void)state;
    struct replan_scene s;
    uint32_t next = 1, failed = 0;
    replan_open(&s, PLAN_A, GANTRY_SUBMISSION_GRAPHS);
    replan_run_row(&s);
    s.is_brief = true;
    for (long nth = 0;; nth++) {
        gy_fault_arm(nth);
        gantry_status status = replan_to(&s, next == 1 ? PLAN_B : PLAN_A);
        bool fired = gy_fault_fired();
        gy_fault_arm(-1);
        assert_true(status == GANTRY_OK || (fired && status == GANTRY_ERR_OUT_OF_HOST_MEMORY));
        failed += status != GANTRY_OK;
        check_old_or_new(&s, status, &next);
        if (!fired) {
            break;
        }
    }
    assert_true(failed > 5);
    replan_close(&s);
}

static void test_every_driver_call_may_fail(void **state)
{
    (void)state;
    static const char *const calls[] = {"cuDeviceGetDevResource",      "cuDevSmResourceSplitByCount",
                                        "cuDevResourceGenerateDesc",   "cuGreenCtxCreate",
                                        "cuGreenCtxGetDevResource",    "cuGreenCtxRecordEvent",
                                        "cuCtxGetStreamPriorityRange", "cuEventCreate",
                                        "cuEventSynchronize",          "cuStreamSynchronize",
                                        "cuStreamDestroy_v2",          "cuGreenCtxDestroy",
                                        "cuGraphExecDestroy",          "cuEventDestroy_v2"};
    struct gantry_emu_control emu;
    if (!gpu_fixture_controls(&emu)) {
        return;
    }
    struct replan_scene s;
    uint32_t next = 1, failed = 0;
    replan_open(&s, PLAN_A, GANTRY_SUBMISSION_GRAPHS);
    replan_run_row(&s);
    s.is_brief = true;
    for (size_t i = 0; i < sizeof(calls) / sizeof(calls[0]); i++) {
        for (uint64_t nth = 1; nth <= 3; nth++) {
            assert_int_equal((emu.fail)(calls[i], nth, CUDA_ERROR_NOT_PERMITTED, GANTRY_EMU_ONCE), 0);
            gantry_status status = replan_to(&s, next == 1 ? PLAN_B : PLAN_A);
            emu.clear_faults();
            assert_true(status == GANTRY_OK || status == GANTRY_ERR_DRIVER);
            failed += status != GANTRY_OK;
            check_old_or_new(&s, status, &next);
        }
    }
    assert_true(failed >= 15);
    replan_close(&s);
}

/* ---- all kinds of contexts ------------------------------------------------------------------------- */

static void test_contexts_of_every_kind(void **state)
{
    (void)state;
    for (int kind = 0; kind < 7; kind++) {
        struct replan_scene s;
        gantry_context_options options = GANTRY_CONTEXT_OPTIONS_INIT;
        options.completion_wait = kind == 1   ? GANTRY_WAIT_SPIN
                                  : kind == 2 ? GANTRY_WAIT_BLOCK
                                  : kind == 3 ? GANTRY_WAIT_ADAPTIVE
                                              : GANTRY_WAIT_DEFAULT;
        options.wfi = kind == 4 ? GANTRY_WFI_DEVICE_WIDE : GANTRY_WFI_PRECISE;
        options.single_stream = kind == 5;
        options.synchronous = kind == 6;
        options.stream_limit = kind == 0 ? 3 : 0; /* a plan may need more */
        options.submission = kind % 2 == 0 ? GANTRY_SUBMISSION_STREAMS : GANTRY_SUBMISSION_GRAPHS;
        replan_open_with(&s, "critical8 *other bulk8", &options);
        for (uint32_t i = 0; i < 2; i++) {
            replan_run_row(&s);
            assert_ok(replan_to(&s, i % 2 == 0 ? "a8 b8 c8 d8 critical8 bulk8 *other" : PLAN_A));
        }
        replan_run_row(&s);
        replan_close(&s);
    }
}

/* A partition that may have another one's SMs has two kinds of stream. */
static void test_borrowers(void **state)
{
    (void)state;
    struct replan_scene s;
    struct replan_plan plan;
    replan_open(&s, PLAN_A, GANTRY_SUBMISSION_STREAMS);
    for (uint32_t i = 0; i < 4; i++) {
        (void)replan_plan(&plan, "critical16 bulk24 *other");
        plan.requests[i % 2].borrows = "other";
        assert_ok(gantry_context_set_partitions(s.gpu.context, &plan.options));
        assert_true(replan_info(gantry_partition_at(s.gpu.context, i % 2)).wide_sms >
                    replan_info(gantry_partition_at(s.gpu.context, i % 2)).granted_sms);
        replan_submit_row(&s);
        assert_ok(gpu_fixture_step(&s.gpu));
    }
    replan_close(&s);
}

static void test_declared_memory_stays_declared(void **state)
{
    (void)state;
    struct replan_scene s;
    replan_open(&s, PLAN_A, GANTRY_SUBMISSION_STREAMS);
    s.memory = gpu_fixture_declare(s.gpu.manager, 1 << 20);
    replan_submit_row(&s);
    assert_ok(gantry_taskman_freeze(s.gpu.manager));
    for (uint32_t i = 0; i < 6; i++) {
        assert_ok(gantry_taskman_start(s.gpu.manager));
        assert_ok(gantry_taskman_stop(s.gpu.manager));
        replan_check(&s);
        assert_ok(replan_to(&s, i % 2 == 0 ? PLAN_B : PLAN_A));
    }
    assert_true(gpu_fixture_stats(&s.gpu).memory_admitted >= 6);
    assert_ok(gantry_taskman_reset(s.gpu.manager));
    replan_close(&s);
}

/* ---- shares ---------------------------------------------------------------------------------------- */

static void test_a_managers_share_goes_on(void **state)
{
    (void)state;
    struct replan_scene s;
    replan_open(&s, PLAN_A, GANTRY_SUBMISSION_STREAMS);
    gantry_taskman_options options = GANTRY_TASKMAN_OPTIONS_INIT;
    gantry_share share = {sizeof(share), .percent = 50};
    gantry_taskman *first = s.gpu.manager, *bound;
    options.cpu_dispatcher = s.gpu.cpus;
    options.gpu_dispatcher = gantry_context_dispatcher(s.gpu.context);
    options.share = &share;
    assert_ok(gantry_taskman_create(&options, &bound));
    s.gpu.manager = bound;
    replan_run_row(&s);
    gantry_share_usage before = {.struct_size = sizeof(before)}, after = before, of_partition = before;
    struct replan_plan plan;
    (void)replan_plan(&plan, PLAN_B);
    const gantry_share tenth = {sizeof(tenth), .percent = 10};
    plan.requests[0].share = &tenth;
    assert_ok(gantry_context_set_partitions(s.gpu.context, &plan.options));
    assert_ok(gantry_taskman_get_usage(bound, &before)); /* the change has waited for all of it */
    assert_true(before.groups > 0 && before.used_ns > 0);
    assert_ok(gantry_partition_get_usage(replan_partition(&s, "bulk"), &of_partition));
    assert_int_equal(of_partition.groups, 0);
    replan_run_row(&s);
    assert_ok(replan_to(&s, PLAN_A));
    assert_ok(gantry_taskman_get_usage(bound, &after));
    assert_true(after.groups > before.groups && after.used_ns > before.used_ns);
    replan_refused(gantry_partition_get_usage(replan_partition(&s, "bulk"), &of_partition),
                   GANTRY_ERR_NOT_FOUND, "has no share");
    replan_run_row(&s);
    s.gpu.manager = first;
    gantry_taskman_destroy(bound);
    assert_ok(replan_to(&s, PLAN_B)); /* with the account of a manager that has gone */
    replan_run_row(&s);
    replan_close(&s);
}

/* The limit is the process's: what was used of it is not forgotten with a plan. */
static void test_the_process_keeps_its_limit(void **state)
{
    (void)state;
    struct replan_scene s;
    gantry_share_usage usage = {.struct_size = sizeof(usage)};
    setenv("CUDA_DEVICE_SM_LIMIT", "99", 1);
    replan_open(&s, PLAN_A, GANTRY_SUBMISSION_STREAMS);
    unsetenv("CUDA_DEVICE_SM_LIMIT");
    assert_int_equal(gy_budget_count(), 1);
    s.is_brief = true; /* who owes much waits long */
    for (uint32_t i = 0; i < 4; i++) {
        replan_submit_row(&s);
        assert_ok(gpu_fixture_step(&s.gpu));
        assert_ok(replan_to(&s, i == 2 ? NULL : i % 2 == 0 ? PLAN_B : PLAN_A));
        assert_int_equal(gy_budget_count(), 1);
        assert_ok(gantry_partition_get_usage(gantry_partition_default(s.gpu.context), &usage));
        if (i == 2) {
            assert_ok(replan_to(&s, PLAN_A));
        }
    }
    replan_close(&s);
    assert_int_equal(gy_budget_count(), 0);
}

/* ---- recordings ------------------------------------------------------------------------------------ */

static void test_a_recording_goes_on(void **state)
{
    (void)state;
    static const char path[] = "replan.pftrace";
    struct replan_scene s;
    gantry_profile *profile;
    gantry_profile_options options = GANTRY_PROFILE_OPTIONS_INIT;
    gantry_profile_stats stats = {.struct_size = sizeof(stats)};
    options.path = path;
    replan_open(&s, PLAN_A, GANTRY_SUBMISSION_GRAPHS);
    assert_ok(gantry_profile_start(&options, &profile));
    replan_run_row(&s);
    assert_ok(replan_to(&s, PLAN_B));
    replan_run_row(&s);
    replan_run_row(&s);
    assert_ok(gantry_profile_stop(profile, &stats));
    assert_int_equal(stats.lost, 0);
    assert_true(file_has(path, ", plan 2"));
    assert_true(file_has(path, "another plan of partitions"));
    assert_true(file_has(path, "bulk / stream"));
    replan_run_row(&s);
    replan_close(&s);
    (void)remove(path);
}

int main(void)
{
    setenv("GANTRY_CHECK", "handles", 1);
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_steps_go_to_the_new_partitions),
        cmocka_unit_test(test_from_no_plan_and_back),
        cmocka_unit_test(test_old_handles_are_refused),
        cmocka_unit_test(test_frozen_graphs_go_on),
        cmocka_unit_test(test_loops_on_the_device_go_on),
        cmocka_unit_test(test_a_partition_with_tasks_must_stay),
        cmocka_unit_test(test_a_running_manager_is_named),
        cmocka_unit_test(test_a_bad_plan_changes_nothing),
        cmocka_unit_test(test_a_second_thread_loses_nothing),
        cmocka_unit_test(test_a_hundred_changes_leave_nothing),
        cmocka_unit_test(test_every_allocation_may_fail),
        cmocka_unit_test(test_every_driver_call_may_fail),
        cmocka_unit_test(test_contexts_of_every_kind),
        cmocka_unit_test(test_borrowers),
        cmocka_unit_test(test_declared_memory_stays_declared),
        cmocka_unit_test(test_a_managers_share_goes_on),
        cmocka_unit_test(test_the_process_keeps_its_limit),
        cmocka_unit_test(test_a_recording_goes_on),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
