/* SPDX-License-Identifier: MIT */
/* Units of stable tasks, when something goes wrong between their recording and their launch: a call fails, a
 * run is cancelled, or the driver or the graph refuses a launch or a completion. */
#include "base/alloc.h"
#include "context/context.h"
#include "dispatcher/internal.h"
#include "tests/dispatcher/stamps.h"
#include "tests/support/cmocka_c11.h"
#include "tests/support/deadline.h"
#include "tests/support/emu_controls.h"
#include "tests/support/gpu_fixture.h"
#include "tests/support/log_lines.h"

#include <stdatomic.h>
#include <string.h>

#define MOST 8u

struct scene;

/* A GPU task that stamps cells 1 + 2 index (begin) and 2 + 2 index (end) from the clock. */
struct node {
    struct scene *scene;
    uint32_t index;
    uint32_t spins;
    bool fails; /* it gives up before it enqueues anything */
    gantry_task *task;
    gantry_task *completes;
    _Atomic(uint32_t) calls, asked; /* it has begun; it is done, its completion included */
};

struct scene {
    struct gpu_fixture gpu;
    struct gantry_emu_control emu;
    struct stamps stamps;
    gantry_dispatcher *dispatcher;
    gantry_task *waits; /* a CPU task that starts when the GPU has done all nodes that complete it */
    uint32_t count;
    struct node nodes[MOST];
};

static struct scene scene; /* tasks of a test that has failed may still look at it */

static int open_scene(void **state)
{
    memset(&scene, 0, sizeof(scene));
    gantry_context_options options = GANTRY_CONTEXT_OPTIONS_INIT;
    options.driver = GANTRY_DRIVER_EMULATED;
    options.submission = GANTRY_SUBMISSION_GRAPHS;
    gpu_fixture_open_with(&scene.gpu, 2, &options);
    assert_true(emu_controls_open(&scene.emu));
    stamps_open(&scene.stamps, scene.gpu.context, 4096);
    scene.dispatcher = gantry_context_dispatcher(scene.gpu.context);
    *state = &scene;
    return 0;
}

static int close_scene(void **state)
{
    struct scene *s = *state;
    s->emu.reset();
    assert_ok(gantry_context_synchronize(s->gpu.context));
    stamps_close(&s->stamps);
    gpu_fixture_close(&s->gpu);
    return 0;
}

static gantry_launch_result launch_node(gantry_launch *launch, void *arg)
{
    struct node *node = arg;
    uint32_t begin = 1 + 2 * node->index;
    atomic_fetch_add(&node->calls, 1);
    if (node->fails ||
        stamps_launch(&node->scene->stamps, launch, begin, begin + 1, node->spins) != GANTRY_OK ||
        (node->completes != NULL && gantry_launch_add_completion(launch, node->completes) != GANTRY_OK)) {
        return GANTRY_LAUNCH_FAILED;
    }
    atomic_fetch_add(&node->asked, 1);
    return GANTRY_LAUNCH_DONE;
}

static struct node *add_with(struct scene *s, gantry_task_release_fn release)
{
    struct node *node = &s->nodes[s->count];
    gantry_task_desc desc = GANTRY_TASK_DESC_INIT;
    *node = (struct node){.scene = s, .index = s->count++};
    desc.kind = GANTRY_TASK_KERNEL;
    desc.label = "stable";
    desc.launch = launch_node;
    desc.release = release;
    desc.arg = node;
    desc.is_stable = true;
    assert_ok(gantry_taskman_submit(s->gpu.manager, &desc, &node->task));
    return node;
}

static struct node *add(struct scene *s)
{
    return add_with(s, NULL);
}

/* The run ends when the GPU has done it. */
static void add_end(struct scene *s, struct node *last)
{
    s->waits = gpu_fixture_cpu(&s->gpu, "waits", NULL, NULL);
    gpu_fixture_after(s->waits, last->task);
    last->completes = s->waits;
}

static void freeze(struct scene *s)
{
    assert_ok(gantry_taskman_freeze(s->gpu.manager));
}

static void clear_stamps(struct scene *s)
{
    memset(s->stamps.cells, 0, (1 + 2 * MOST) * sizeof(*s->stamps.cells));
    s->stamps.cells[0] = 1; /* the clock: no stamp is 0 */
}

static gantry_status run(struct scene *s)
{
    clear_stamps(s);
    deadline_begin("the end of a run");
    gantry_status status = gantry_taskman_run(s->gpu.manager, 1);
    assert_ok(gantry_context_synchronize(s->gpu.context)); /* not every task has a completion */
    deadline_end();
    return status;
}

static uint32_t begin_of(const struct node *node)
{
    return node->scene->stamps.cells[1 + 2 * node->index];
}

static uint32_t end_of(const struct node *node)
{
    return node->scene->stamps.cells[2 + 2 * node->index];
}

static uint64_t replays(struct scene *s)
{
    return gpu_fixture_stats(&s->gpu).graph_replays;
}

/* Run until a run has called nothing. */
static void warm_up(struct scene *s)
{
    for (uint32_t i = 0; i < 8; i++) {
        uint32_t calls = atomic_load(&s->nodes[0].calls);
        assert_ok(run(s));
        if (atomic_load(&s->nodes[0].calls) == calls) {
            return;
        }
    }
    fail_msg("stable tasks are called again and again");
}

/* Whichever call fails, the task is called again, and does its work.  The third time, when the callback is
 * known to be capturable, the first call is the one that is recorded. */
static void test_a_failed_call_is_not_the_one_that_is_repeated(void **state)
{
    struct scene *s = *state;
    for (uint32_t round = 0; round < 6; round++) {
        uint32_t failing = round / 2;
        s->count = 0;
        struct node *node = add(s);
        add_end(s, node);
        freeze(s);
        for (uint32_t i = 0; i < 7; i++) {
            uint32_t calls = atomic_load(&node->calls);
            node->fails = i == failing;
            gantry_status status = run(s);
            if (node->fails && atomic_load(&node->calls) != calls) {
                assert_int_equal(status, GANTRY_ERR_TASK_FAILED);
            } else {
                assert_ok(status);
                assert_true(end_of(node) > begin_of(node));
            }
        }
        assert_ok(gantry_taskman_reset(s->gpu.manager));
    }
    assert_true(replays(s) > 0);
}

static void test_a_failed_launch_gives_its_stream_back(void **state)
{
    struct scene *s = *state;
    struct node *node = add(s);
    add_end(s, node);
    freeze(s);
    for (int round = 0; round < 5; round++) {
        warm_up(s);
        uint32_t calls = atomic_load(&node->calls);
        assert_int_equal((s->emu.fail)("cuGraphLaunch", 1, CUDA_ERROR_INVALID_VALUE, GANTRY_EMU_ONCE), 0);
        assert_ok(run(s));
        assert_true(end_of(node) > begin_of(node));
        assert_int_equal(atomic_load(&node->calls), calls + 1);
        assert_int_equal(s->dispatcher->streams.busy, 0);
        for (uint32_t i = 0; i < s->dispatcher->streams.count; i++) {
            assert_int_equal(s->dispatcher->streams.streams[i].running, 0);
        }
    }
}

static struct {
    _Atomic(bool) begun, over;
} occupied;

static gantry_launch_result occupy(gantry_launch *launch, void *arg)
{
    struct scene *s = arg;
    if (!atomic_load(&occupied.begun) && /* its stream from now on */
        stamps_launch(&s->stamps, launch, 2 * MOST - 1, 2 * MOST, 0) != GANTRY_OK) {
        return GANTRY_LAUNCH_FAILED;
    }
    atomic_store(&occupied.begun, true);
    return atomic_load(&occupied.over) ? GANTRY_LAUNCH_DONE : GANTRY_LAUNCH_AGAIN;
}

/* Another manager's task has the only stream, and there is no second one just when a unit shall be launched:
 * its task is called, as after any other failure. */
static void test_a_unit_without_a_stream_is_called(void **state)
{
    struct scene *s = *state;
    gantry_taskman_options options = GANTRY_TASKMAN_OPTIONS_INIT;
    gantry_task_desc desc = GANTRY_TASK_DESC_INIT;
    gantry_taskman *other = NULL;
    gantry_task *task = NULL;
    struct node *node = add(s);
    add_end(s, node);
    freeze(s);
    warm_up(s);
    assert_int_equal(s->dispatcher->streams.count, 1);
    options.gpu_dispatcher = s->dispatcher;
    assert_ok(gantry_taskman_create(&options, &other));
    desc.kind = GANTRY_TASK_KERNEL;
    desc.launch = occupy;
    desc.arg = s;
    assert_ok(gantry_taskman_submit(other, &desc, &task));
    atomic_store(&occupied.begun, false);
    atomic_store(&occupied.over, false);
    assert_ok(gantry_taskman_start(other));
    deadline_await(atomic_load(&occupied.begun), "a task to have the stream");
    assert_ok(gantry_context_synchronize(s->gpu.context)); /* its stamps are there before all are cleared */
    uint32_t calls = atomic_load(&node->calls);
    assert_int_equal((s->emu.fail)("cuStreamCreate", 1, CUDA_ERROR_OUT_OF_MEMORY, GANTRY_EMU_ONCE), 0);
    assert_ok(run(s));
    assert_int_equal(atomic_load(&node->calls), calls + 1);
    assert_true(end_of(node) > begin_of(node));
    assert_int_equal(s->dispatcher->streams.count, 2);
    atomic_store(&occupied.over, true);
    assert_ok(gantry_taskman_stop(other));
    gantry_taskman_destroy(other);
}

static gantry_status nothing(gantry_task *task, void *arg)
{
    (void)task;
    (void)arg;
    return GANTRY_OK;
}

/* No thread takes them out meanwhile. */
static uint32_t count_submitted(struct scene *s)
{
    uint32_t count = 0;
    for (gantry_task *task = atomic_load(&s->dispatcher->inbox.head); task != NULL; task = task->next) {
        count++;
    }
    return count;
}

/* Start a run whose tasks come to the dispatcher with end_held(); until then so many are submitted. */
static void start_held(struct scene *s, uint32_t tasks)
{
    clear_stamps(s);
    deadline_await(atomic_load(&s->dispatcher->inbox.asleep),
                   "the dispatcher to sleep"); /* GD is not reading */
    gantry_dispatcher_start_group(s->dispatcher);
    assert_ok(gantry_taskman_start(s->gpu.manager));
    deadline_await(count_submitted(s) == tasks, "tasks to be submitted");
}

static gantry_status end_held(struct scene *s)
{
    gantry_dispatcher_finish_group(s->dispatcher);
    deadline_begin("the end of a run");
    gantry_status status = gantry_taskman_stop(s->gpu.manager);
    assert_ok(gantry_context_synchronize(s->gpu.context));
    deadline_end();
    return status;
}

/* {p} is a unit; r and t are the next one, and t comes after p.  r is there already when the launch of {p}
 * fails: t may not be launched before p is called. */
static void test_a_region_behind_one_that_is_called_is_called_too(void **state)
{
    struct scene *s = *state;
    gantry_task *cpu = gpu_fixture_cpu(&s->gpu, "cpu", nothing, NULL);
    struct node *p = add(s), *r = add(s), *t = add(s);
    p->spins = 300;
    gpu_fixture_after(r->task, cpu);
    gpu_fixture_after(t->task, r->task);
    gpu_fixture_after(t->task, p->task);
    add_end(s, t);
    freeze(s);
    warm_up(s);
    for (int round = 0; round < 3; round++) {
        uint32_t calls = atomic_load(&t->calls);
        start_held(s, 2);
        assert_int_equal((s->emu.fail)("cuGraphLaunch", 1, CUDA_ERROR_INVALID_VALUE, GANTRY_EMU_ONCE), 0);
        assert_ok(end_held(s));
        assert_int_equal(atomic_load(&t->calls), calls + 1);
        assert_true(begin_of(p) != 0 && end_of(p) < begin_of(t));
        warm_up(s);
    }
}

/* The roots of a unit have come, and the run is cancelled. */
static void test_a_region_of_a_cancelled_run_is_not_launched(void **state)
{
    struct scene *s = *state;
    struct node *a = add(s), *b = add(s);
    struct node *join = add(s);
    gpu_fixture_after(join->task, a->task);
    gpu_fixture_after(join->task, b->task);
    add_end(s, join);
    freeze(s);
    warm_up(s);
    uint64_t before = replays(s);
    start_held(s, 2);
    assert_ok(gantry_taskman_cancel(s->gpu.manager));
    assert_int_equal(end_held(s), GANTRY_ERR_CANCELLED);
    assert_int_equal(replays(s), before);
    assert_int_equal(gantry_task_result(join->task), GANTRY_ERR_CANCELLED);
    for (uint32_t i = 0; i < s->count; i++) {
        assert_int_equal(begin_of(&s->nodes[i]), 0);
    }
    warm_up(s);
}

static _Atomic(bool) cancels;

static void cancel_when_released(gantry_task *task, void *arg, gantry_status result)
{
    (void)arg;
    (void)result;
    if (atomic_load(&cancels)) {
        (void)gantry_taskman_cancel(gantry_task_manager(task));
    }
}

/* The GPU has the unit's work: its later tasks have begun, too.  The tasks behind the unit have not. */
static void test_a_cancel_does_not_reach_into_a_launched_unit(void **state)
{
    struct scene *s = *state;
    struct node *a = add_with(s, cancel_when_released);
    struct node *b = add(s), *c = add(s);
    gantry_task *after = gpu_fixture_cpu(&s->gpu, "after", nothing, NULL);
    gpu_fixture_after(b->task, a->task);
    gpu_fixture_after(c->task, b->task);
    gpu_fixture_after(after, c->task);
    freeze(s);
    warm_up(s);
    gantry_dispatcher_stats before = gpu_fixture_stats(&s->gpu);
    atomic_store(&cancels, true);
    assert_int_equal(run(s), GANTRY_ERR_CANCELLED);
    atomic_store(&cancels, false);
    gantry_dispatcher_stats now = gpu_fixture_stats(&s->gpu);
    assert_int_equal(now.graph_replays, before.graph_replays + 1);
    assert_int_equal(now.tasks_failed, before.tasks_failed);
    for (uint32_t i = 0; i < s->count; i++) {
        assert_ok(gantry_task_result(s->nodes[i].task));
    }
    assert_int_equal(gantry_task_result(after), GANTRY_ERR_CANCELLED);
}

static void test_freezing_survives_every_failed_allocation(void **state)
{
    struct scene *s = *state;
    gantry_task *cpu = gpu_fixture_cpu(&s->gpu, "cpu", nothing, NULL);
    struct node *a = add(s), *b = add(s), *c = add(s);
    gpu_fixture_after(b->task, a->task);
    gpu_fixture_after(c->task, cpu);
    gpu_fixture_after(c->task, b->task);
    add_end(s, c);
    for (long nth = 0;; nth++) {
        long live = gy_alloc_live();
        gy_fault_arm(nth);
        gantry_status status = gantry_taskman_freeze(s->gpu.manager);
        bool fired = gy_fault_fired();
        gy_fault_arm(-1);
        if (!fired) {
            assert_ok(status);
            assert_true(nth > 5);
            break;
        }
        assert_int_equal(status, GANTRY_ERR_OUT_OF_HOST_MEMORY);
        assert_int_equal(gy_alloc_live(), live);
    }
    warm_up(s);
    assert_true(begin_of(c) > end_of(b));
}

/* ---- completions --------------------------------------------------------------------------- */

static struct {
    struct scene *scene;
    _Atomic(bool) early; /* in this run the task to be completed comes before the one that completes it */
    _Atomic(bool) ran;
    uint32_t asked; /* before this run */
    uint64_t replays;
} race;

/* Holds the CPU task that is to be completed until the completion was asked for. */
static gantry_status hold_until_asked(gantry_task *task, void *arg)
{
    struct scene *s = race.scene;
    (void)task;
    (void)arg;
    while (!atomic_load(&race.early) && atomic_load(&s->nodes[0].asked) == race.asked &&
           replays(s) == race.replays) {
        sched_yield();
    }
    return GANTRY_OK;
}

/* Holds the GPU task until the other one has run. */
static gantry_status hold_until_ran(gantry_task *task, void *arg)
{
    (void)task;
    (void)arg;
    while (atomic_load(&race.early) && !atomic_load(&race.ran)) {
        sched_yield();
    }
    return GANTRY_OK;
}

static gantry_status note_run(gantry_task *task, void *arg)
{
    (void)task;
    (void)arg;
    atomic_store(&race.ran, true);
    return GANTRY_OK;
}

static gantry_status run_race(struct scene *s, bool early)
{
    atomic_store(&race.early, early);
    atomic_store(&race.ran, false);
    race.asked = atomic_load(&s->nodes[0].asked);
    race.replays = replays(s);
    return run(s);
}

/* A recorded completion comes too late: the callback hears of it in the next run. */
static void test_a_refused_completion_is_told_to_the_callback(void **state)
{
    struct scene *s = *state;
    race.scene = s;
    gantry_task *holds = gpu_fixture_cpu(&s->gpu, "holds", hold_until_asked, NULL);
    gantry_task *before = gpu_fixture_cpu(&s->gpu, "before", hold_until_ran, NULL);
    gantry_task *completed = gpu_fixture_cpu(&s->gpu, "completed", note_run, NULL);
    struct node *node = add(s);
    node->completes = completed;
    gpu_fixture_after(completed, holds);
    gpu_fixture_after(node->task, before);
    freeze(s);
    for (int i = 0; i < 6; i++) {
        assert_ok(run_race(s, false));
    }
    uint32_t calls = atomic_load(&node->calls);
    assert_ok(run_race(s, false));
    assert_int_equal(atomic_load(&node->calls), calls);
    assert_ok(run_race(s, true)); /* it was replayed, and the task that it completes has ended */
    assert_int_equal(atomic_load(&node->calls), calls);
    (void)run_race(s, false);
    assert_int_equal(atomic_load(&node->calls), calls + 1);
}

#define TEST(name) cmocka_unit_test_setup_teardown(name, open_scene, close_scene)

/* The log says this once, as somebody might wonder. */
static void check_that_nothing_is_replayed(struct scene *s, gantry_submission submission)
{
    struct log_lines lines;
    assert_ok(gantry_dispatcher_set_submission(s->dispatcher, submission));
    add_end(s, add(s));
    freeze(s);
    log_lines_begin(&lines, "submission mode is STREAMS");
    assert_ok(gantry_taskman_run(s->gpu.manager, 5));
    assert_int_equal(log_lines_end(&lines), 1);
    assert_int_equal(gpu_fixture_stats(&s->gpu).graph_replays, 0);
}

static void test_streams_mode_replays_nothing(void **state)
{
    check_that_nothing_is_replayed(*state, GANTRY_SUBMISSION_STREAMS);
}

/* That is auto, unless the environment says something else. */
static void test_the_default_mode_replays(void **state)
{
    struct scene *s = *state;
    gantry_submission submission;
    assert_ok(gy_submission_find(GANTRY_SUBMISSION_DEFAULT, &submission));
    assert_ok(gantry_dispatcher_set_submission(s->dispatcher, GANTRY_SUBMISSION_DEFAULT));
    add_end(s, add(s));
    freeze(s);
    assert_ok(gantry_taskman_run(s->gpu.manager, 5));
    assert_int_equal(gpu_fixture_stats(&s->gpu).graph_replays != 0, submission != GANTRY_SUBMISSION_STREAMS);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        TEST(test_a_failed_call_is_not_the_one_that_is_repeated),
        TEST(test_a_failed_launch_gives_its_stream_back),
        TEST(test_a_unit_without_a_stream_is_called),
        TEST(test_a_region_behind_one_that_is_called_is_called_too),
        TEST(test_a_region_of_a_cancelled_run_is_not_launched),
        TEST(test_a_cancel_does_not_reach_into_a_launched_unit),
        TEST(test_freezing_survives_every_failed_allocation),
        TEST(test_a_refused_completion_is_told_to_the_callback),
        TEST(test_streams_mode_replays_nothing),
        TEST(test_the_default_mode_replays),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
