/* SPDX-License-Identifier: MIT */
/* Pre- and post-launch tasks: order, one batch, failure, and every kind of task that may take part. */
#include "tests/dispatcher/stamps.h"
#include "tests/support/cmocka_c11.h"
#include "tests/support/gpu_fixture.h"

#include <stdatomic.h>
#include <string.h>

#define PARTS 4u

struct scene {
    struct gpu_fixture gpu;
    struct stamps stamps;
    gantry_launch_tasks tasks;
    _Atomic(uint32_t) prepared, launched, ended; /* parts */
    _Atomic(uint32_t) wrong;                     /* a task ran too early */
    bool fails;                                  /* the launches of part 1 */
};

struct part {
    struct scene *scene;
    uint32_t index;
};

static struct part parts[PARTS];

static gantry_status prepare(gantry_task *task, void *arg)
{
    struct part *part = arg;
    (void)task;
    atomic_fetch_add(&part->scene->wrong, atomic_load(&part->scene->launched) != 0);
    atomic_fetch_add(&part->scene->prepared, 1);
    return GANTRY_OK;
}

static gantry_launch_result launch_part(gantry_launch *launch, void *arg)
{
    struct part *part = arg;
    struct scene *s = part->scene;
    uint32_t begin = 1 + 2 * part->index;
    atomic_fetch_add(&s->wrong, atomic_load(&s->prepared) != PARTS);
    atomic_fetch_add(&s->launched, 1);
    if ((s->fails && part->index == 1) ||
        stamps_launch(&s->stamps, launch, begin, begin + 1, 100) != GANTRY_OK) {
        return GANTRY_LAUNCH_FAILED;
    }
    return GANTRY_LAUNCH_DONE;
}

static gantry_status end_part(gantry_task *task, void *arg)
{
    struct scene *s = ((struct part *)arg)->scene;
    (void)task;
    for (uint32_t i = 0; i < PARTS; i++) {
        atomic_fetch_add(&s->wrong, __atomic_load_n(&s->stamps.cells[2 + 2 * i], __ATOMIC_ACQUIRE) == 0);
    }
    atomic_fetch_add(&s->ended, 1);
    return GANTRY_OK;
}

static void open_scene(struct scene *s, gantry_submission submission)
{
    memset(s, 0, sizeof(*s));
    gantry_context_options options = GANTRY_CONTEXT_OPTIONS_INIT;
    options.driver = gpu_fixture_driver();
    options.submission = submission;
    gpu_fixture_open_with(&s->gpu, 2, &options);
    stamps_open(&s->stamps, s->gpu.context, 4096);
    s->tasks.struct_size = sizeof(s->tasks);
    for (uint32_t i = 0; i < PARTS; i++) {
        parts[i] = (struct part){s, i};
    }
}

static void close_scene(struct scene *s)
{
    stamps_close(&s->stamps);
    gpu_fixture_close(&s->gpu);
}

static void clear(struct scene *s)
{
    memset(s->stamps.cells, 0, (1 + 2 * PARTS) * sizeof(*s->stamps.cells));
    atomic_store(&s->prepared, 0);
    atomic_store(&s->launched, 0);
    atomic_store(&s->ended, 0);
}

static void build(struct scene *s)
{
    assert_ok(gantry_taskman_submit_launch_tasks(s->gpu.manager, &s->tasks));
    for (uint32_t i = 0; i < PARTS; i++) {
        gantry_task *before = gpu_fixture_cpu(&s->gpu, "prepare", prepare, &parts[i]);
        gantry_task *work = gpu_fixture_gpu(&s->gpu, GANTRY_TASK_KERNEL, "work", launch_part, &parts[i]);
        gantry_task *after = gpu_fixture_cpu(&s->gpu, "end", end_part, &parts[i]);
        gpu_fixture_after(s->tasks.pre_launch, before);
        gpu_fixture_after(work, s->tasks.pre_launch);
        gpu_fixture_after(s->tasks.post_launch, work);
        gpu_fixture_after(after, s->tasks.finished);
    }
}

static void test_parts_launch_together_and_end_when_the_gpu_has(void **state)
{
    (void)state;
    static struct scene s;
    open_scene(&s, GANTRY_SUBMISSION_STREAMS);
    for (uint32_t step = 1; step <= 10; step++) {
        clear(&s);
        build(&s);
        assert_ok(gpu_fixture_step(&s.gpu));
        assert_int_equal(s.ended, PARTS);
        assert_int_equal(s.wrong, 0);
        assert_int_equal(gpu_fixture_stats(&s.gpu).completions, step);
        assert_int_equal(gpu_fixture_stats(&s.gpu).batches, step); /* one task for all parts */
    }
    close_scene(&s);
}

static void test_a_frozen_graph_may_have_them(void **state)
{
    (void)state;
    static struct scene s;
    open_scene(&s, GANTRY_SUBMISSION_GRAPHS);
    build(&s);
    assert_ok(gantry_taskman_freeze(s.gpu.manager));
    for (uint32_t run = 0; run < 10; run++) {
        clear(&s);
        assert_ok(gantry_taskman_run(s.gpu.manager, 1));
        assert_int_equal(s.ended, PARTS);
        assert_int_equal(s.wrong, 0);
    }
    close_scene(&s);
}

static void test_a_part_that_fails_ends_all(void **state)
{
    (void)state;
    static struct scene s;
    open_scene(&s, GANTRY_SUBMISSION_STREAMS);
    s.fails = true;
    build(&s);
    assert_int_equal(gpu_fixture_step(&s.gpu), GANTRY_ERR_TASK_FAILED);
    assert_int_equal(s.ended, 0);
    s.fails = false;
    clear(&s);
    build(&s);
    assert_ok(gpu_fixture_step(&s.gpu));
    assert_int_equal(s.ended, PARTS);
    close_scene(&s);
}

/* Light tasks prepare, and pre_launch is their continuation; the application holds a reference. */
static void test_light_tasks_and_references_hold_the_launch(void **state)
{
    (void)state;
    static struct scene s;
    gantry_task *light[PARTS];
    open_scene(&s, GANTRY_SUBMISSION_STREAMS);
    assert_ok(gantry_taskman_submit_launch_tasks(s.gpu.manager, &s.tasks));
    for (uint32_t i = 0; i < PARTS; i++) {
        gantry_task *work = gpu_fixture_gpu(&s.gpu, GANTRY_TASK_KERNEL, "work", launch_part, &parts[i]);
        gantry_task *after = gpu_fixture_cpu(&s.gpu, "end", end_part, &parts[i]);
        assert_ok(gantry_taskman_create_light(s.gpu.manager, prepare, &parts[i], "light", s.tasks.pre_launch,
                                              &light[i]));
        gpu_fixture_after(work, s.tasks.pre_launch);
        gpu_fixture_after(s.tasks.post_launch, work);
        gpu_fixture_after(after, s.tasks.finished);
    }
    assert_ok(gantry_task_add_reference(s.tasks.pre_launch));
    assert_ok(gantry_taskman_start(s.gpu.manager));
    for (uint32_t i = 0; i < PARTS; i++) {
        assert_ok(gantry_task_remove_reference(light[i]));
    }
    assert_int_equal(atomic_load(&s.launched), 0);
    assert_ok(gantry_task_remove_reference(s.tasks.pre_launch));
    assert_ok(gantry_taskman_stop(s.gpu.manager));
    assert_int_equal(s.ended, PARTS);
    assert_int_equal(s.wrong, 0);
    close_scene(&s);
}

/* Each of the three is submitted while the step runs, and is held until its submitter lets it go. */
static gantry_status submit_late(gantry_task *task, void *arg)
{
    struct scene *s = arg;
    gantry_taskman *manager = gantry_task_manager(task);
    gantry_launch_tasks tasks = {.struct_size = sizeof(tasks)};
    gantry_task_desc desc = GANTRY_TASK_DESC_INIT;
    gantry_task *work, *after;
    gantry_status status = gantry_taskman_submit_launch_tasks(manager, &tasks);
    desc.kind = GANTRY_TASK_KERNEL;
    desc.launch = launch_part;
    desc.arg = &parts[0];
    status = status == GANTRY_OK ? gantry_taskman_submit(manager, &desc, &work) : status;
    desc = (gantry_task_desc)GANTRY_TASK_DESC_INIT;
    desc.run = prepare;
    desc.arg = &parts[0];
    status = status == GANTRY_OK ? gantry_taskman_submit(manager, &desc, &after) : status;
    if (status != GANTRY_OK || gantry_task_start_after(work, tasks.pre_launch) != GANTRY_OK ||
        gantry_task_start_after(tasks.post_launch, work) != GANTRY_OK ||
        gantry_task_start_after(after, tasks.finished) != GANTRY_OK) {
        return GANTRY_ERR_STATE;
    }
    gantry_task *held[] = {after, tasks.finished, tasks.post_launch, work, tasks.pre_launch};
    for (size_t i = 0; i < sizeof(held) / sizeof(held[0]); i++) {
        status = status == GANTRY_OK ? gantry_task_remove_reference(held[i]) : status;
    }
    (void)s;
    return status;
}

static void test_they_may_be_submitted_while_running(void **state)
{
    (void)state;
    static struct scene s;
    open_scene(&s, GANTRY_SUBMISSION_STREAMS);
    atomic_store(&s.prepared, PARTS);
    gpu_fixture_cpu(&s.gpu, "late", submit_late, &s);
    assert_ok(gpu_fixture_step(&s.gpu));
    assert_int_equal(s.launched, 1);
    assert_int_equal(s.prepared, PARTS + 1);
    assert_true(s.stamps.cells[2] != 0);
    close_scene(&s);
}

static void test_wrong_arguments_are_refused(void **state)
{
    (void)state;
    static struct scene s;
    open_scene(&s, GANTRY_SUBMISSION_STREAMS);
    assert_int_equal(gantry_taskman_submit_launch_tasks(NULL, &s.tasks), GANTRY_ERR_INVALID_ARGUMENT);
    assert_int_equal(gantry_taskman_submit_launch_tasks(s.gpu.manager, NULL), GANTRY_ERR_INVALID_ARGUMENT);
    s.tasks.struct_size = 8;
    assert_int_equal(gantry_taskman_submit_launch_tasks(s.gpu.manager, &s.tasks),
                     GANTRY_ERR_INVALID_ARGUMENT);
    gantry_taskman_options options = GANTRY_TASKMAN_OPTIONS_INIT;
    gantry_taskman *without;
    assert_ok(gantry_taskman_create(&options, &without));
    s.tasks.struct_size = sizeof(s.tasks);
    s.tasks.pre_launch = NULL;
    assert_int_equal(gantry_taskman_submit_launch_tasks(without, &s.tasks), GANTRY_ERR_UNSUPPORTED);
    assert_null(s.tasks.pre_launch);
    gantry_taskman_destroy(without);
    close_scene(&s);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_parts_launch_together_and_end_when_the_gpu_has),
        cmocka_unit_test(test_a_frozen_graph_may_have_them),
        cmocka_unit_test(test_a_part_that_fails_ends_all),
        cmocka_unit_test(test_light_tasks_and_references_hold_the_launch),
        cmocka_unit_test(test_they_may_be_submitted_while_running),
        cmocka_unit_test(test_wrong_arguments_are_refused),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
