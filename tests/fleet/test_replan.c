/* SPDX-License-Identifier: MIT */
/* Another plan of partitions for one device of a fleet: tasks of the other devices, and edges between them,
 * go on. */
#include "tests/partition/replan_scene.h"
#include "tests/support/cmocka_c11.h"

#include <stdlib.h>
#include <string.h>

enum { DEVICES = 2 };

struct fleet_scene {
    gantry_fleet *fleet;
    gantry_taskman *manager;
    struct replan_scene on[DEVICES];
};

static void open_scene(struct fleet_scene *s, gantry_submission submission)
{
    struct replan_plan plan;
    gantry_context_options context = GANTRY_CONTEXT_OPTIONS_INIT;
    gantry_fleet_options options = GANTRY_FLEET_OPTIONS_INIT;
    gantry_taskman_options manager = GANTRY_TASKMAN_OPTIONS_INIT;
    memset(s, 0, sizeof(*s));
    context.driver = GANTRY_DRIVER_EMULATED;
    context.submission = submission;
    context.partitions = replan_plan(&plan, "a16 b8 *rest");
    options.devices = "0,1";
    options.context = &context;
    assert_ok(gantry_fleet_create(&options, &s->fleet));
    manager.fleet = s->fleet;
    assert_ok(gantry_taskman_create(&manager, &s->manager));
    for (uint32_t e = 0; e < DEVICES; e++) {
        replan_open_on(&s->on[e], gantry_fleet_context(s->fleet, e), s->manager);
    }
}

static void close_scene(struct fleet_scene *s)
{
    gantry_taskman_destroy(s->manager);
    for (uint32_t e = 0; e < DEVICES; e++) {
        gantry_heap *heap = gantry_context_heap(s->on[e].gpu.context);
        assert_ok(gantry_heap_free(heap, s->on[e].device));
        assert_ok(gantry_heap_free(heap, s->on[e].pinned));
    }
    gantry_fleet_destroy(s->fleet);
}

/* A chain that goes from one device to the other and back, in partitions "a" and "b" and in none. */
static void submit(struct fleet_scene *s)
{
    static const char *const names[] = {"a", "b", ""};
    const struct replan_job *before = NULL;
    for (uint32_t e = 0; e < DEVICES; e++) {
        s->on[e].count = 0;
    }
    for (uint32_t i = 0; i < 18; i++) {
        before = replan_submit(&s->on[i % DEVICES], names[i / DEVICES % 3], before);
    }
}

static void run(struct fleet_scene *s)
{
    assert_ok(gantry_taskman_start(s->manager));
    assert_ok(gantry_taskman_stop(s->manager));
    for (uint32_t e = 0; e < DEVICES; e++) {
        replan_check(&s->on[e]);
    }
}

static void test_one_device_gets_another_plan(void **state)
{
    static const gantry_submission modes[] = {GANTRY_SUBMISSION_STREAMS, GANTRY_SUBMISSION_GRAPHS};
    (void)state;
    for (size_t m = 0; m < sizeof(modes) / sizeof(modes[0]); m++) {
        struct fleet_scene s;
        open_scene(&s, modes[m]);
        submit(&s);
        assert_int_equal(gantry_taskman_freeze(s.manager), GANTRY_OK);
        for (int i = 0; i < 3; i++) {
            run(&s);
            assert_ok(replan_to(&s.on[1], i % 2 == 0 ? "b16 *rest a24" : "a8 *b"));
            run(&s);
            assert_ok(replan_to(&s.on[0], "x8 b8 *a"));
            run(&s);
        }
        assert_int_equal(replan_to(&s.on[0], "x8 *a"), GANTRY_ERR_STATE);
        assert_non_null(strstr(gantry_last_error(), "in partition 'b', which the new plan does not have"));
        run(&s);
        assert_ok(gantry_taskman_reset(s.manager));
        assert_ok(replan_to(&s.on[0], NULL));
        assert_ok(replan_to(&s.on[1], NULL));
        close_scene(&s);
    }
}

static void test_a_running_step_of_the_fleet_is_named(void **state)
{
    (void)state;
    struct fleet_scene s;
    open_scene(&s, GANTRY_SUBMISSION_STREAMS);
    submit(&s);
    gantry_task *held = s.on[0].jobs[0].task;
    assert_ok(gantry_task_add_reference(held));
    assert_ok(gantry_taskman_start(s.manager));
    char text[64];
    (void)snprintf(text, sizeof(text), "task manager %p is running", (void *)s.manager);
    assert_int_equal(replan_to(&s.on[1], NULL), GANTRY_ERR_STATE);
    assert_non_null(strstr(gantry_last_error(), text));
    gantry_task_remove_reference(held);
    assert_ok(gantry_taskman_stop(s.manager));
    assert_ok(gantry_taskman_reset(s.manager));
    assert_ok(replan_to(&s.on[1], "b16 *rest a24"));
    submit(&s);
    run(&s);
    close_scene(&s);
}

int main(void)
{
    setenv("GANTRY_EMU_DEVICES", "2", 1);
    setenv("GANTRY_CHECK", "handles", 1);
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_one_device_gets_another_plan),
        cmocka_unit_test(test_a_running_step_of_the_fleet_is_named),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
