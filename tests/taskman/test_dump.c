/* SPDX-License-Identifier: MIT */
/* The Graphviz dump: its contents, its quoting, and that it can be made while tasks run. */
#include "tests/taskman/fixture.h"

#include <stdlib.h>

static char *dump_of(gantry_taskman *manager)
{
    char *text = NULL;
    size_t bytes = 0;
    FILE *file = open_memstream(&text, &bytes);
    assert_non_null(file);
    gantry_status status = gantry_taskman_dump_graph(manager, file);
    fclose(file);
    assert_int_equal(status, GANTRY_OK);
    return text;
}

static int count_of(const char *text, const char *what)
{
    int count = 0;
    for (const char *at = text; (at = strstr(at, what)) != NULL; at++) {
        count++;
    }
    return count;
}

/* Outside of quotes braces must be balanced and every statement ended; inside, escapes must be closed. */
static void assert_is_dot(const char *text)
{
    bool quoted = false;
    int depth = 0;
    for (const char *at = text; *at != '\0'; at++) {
        if (quoted && *at == '\\') {
            at++;
            assert_true(*at == '"' || *at == '\\');
        } else if (*at == '"') {
            quoted = !quoted;
        } else if (!quoted) {
            depth += (*at == '{') - (*at == '}');
            assert_true((unsigned char)*at < 0x80);
        } else {
            assert_true((unsigned char)*at >= 0x20);
        }
    }
    assert_false(quoted);
    assert_int_equal(depth, 0);
    assert_int_equal(strncmp(text, "digraph gantry {\n", 17), 0);
    assert_string_equal(text + strlen(text) - 2, "}\n");
}

static gantry_status fail_body(gantry_task *task, void *arg)
{
    (void)task;
    (void)arg;
    return GANTRY_ERR_IO;
}

static void test_kinds_states_and_edges_are_shown(void **state)
{
    (void)state;
    struct fixture f = set_up(1);
    atomic_int count = 0;
    gantry_task *cpu = add_cpu(f.manager, "say \"hi\" \\ {now}\n", count_body, &count);
    gantry_task *sync = add_sync(f.manager, "join"), *light = NULL;
    gantry_task *hole = get_named(f.manager, "hole");
    gantry_task *bad = add_cpu(f.manager, "bad", fail_body, NULL);
    assert_ok(gantry_taskman_create_light(f.manager, count_body, &count, "light", bad, &light));
    assert_ok(gantry_task_start_after(sync, cpu));
    assert_ok(gantry_task_start_after(hole, sync));
    char *text = dump_of(f.manager);
    assert_is_dot(text);
    assert_null(strstr(text, "context"));
    assert_non_null(strstr(text, "t0 [label=\"say \\\"hi\\\" \\\\ {now} \""));
    assert_non_null(strstr(text, "label=\"join\", tooltip=\"HELD, 2 references\", shape=diamond"));
    assert_non_null(strstr(text, "label=\"hole\", tooltip=\"PLACEHOLDER, 2 references\", shape=invhouse, "
                                 "style=\"filled,dashed\", fillcolor=white"));
    assert_non_null(strstr(text, "t0 -> t1;"));
    assert_non_null(strstr(text, "t1 -> t2;"));
    assert_non_null(strstr(text, "t4 -> t3;"));
    assert_int_equal(count_of(text, " -> "), 3);
    assert_int_equal(count_of(text, "shape="), 5);
    free(text);
    assert_ok(gantry_taskman_start(f.manager));
    assert_ok(gantry_task_remove_reference(light));
    assert_error(gantry_taskman_stop(f.manager), GANTRY_ERR_IO);
    text = dump_of(f.manager);
    assert_is_dot(text);
    assert_int_equal(count_of(text, "fillcolor=palegreen"), 4);
    assert_int_equal(count_of(text, "fillcolor=tomato"), 1);
    free(text);
    tear_down(&f);
}

static gantry_status spawning_body(gantry_task *task, void *arg)
{
    return gantry_taskman_spawn(gantry_task_manager(task), count_body, arg, "spawned", NULL);
}

static void test_context_ids_are_shown_and_spawned_tasks_are_not(void **state)
{
    (void)state;
    struct fixture f = set_up(1);
    atomic_int count = 0;
    gantry_task_desc desc = GANTRY_TASK_DESC_INIT;
    desc.run = spawning_body;
    desc.arg = &count;
    desc.context_id = 42;
    assert_ok(gantry_taskman_submit(f.manager, &desc, NULL));
    assert_ok(gantry_taskman_start(f.manager));
    assert_ok(gantry_taskman_stop(f.manager));
    assert_int_equal(count, 1);
    char *text = dump_of(f.manager);
    assert_is_dot(text);
    assert_non_null(strstr(text, "tooltip=\"DONE, 0 references, context 42\""));
    assert_int_equal(count_of(text, "shape="), 1);
    free(text);
    tear_down(&f);
}

static void test_dump_while_running(void **state)
{
    (void)state;
    struct fixture f = set_up(2);
    atomic_int count = 0;
    for (int step = 0; step < 5; step++) {
        gantry_task *last[8] = {NULL};
        for (int i = 0; i < 800; i++) {
            gantry_task *task = add_cpu(f.manager, NULL, count_body, &count);
            if (last[i % 8] != NULL) {
                assert_ok(gantry_task_start_after(task, last[i % 8]));
            }
            last[i % 8] = task;
        }
        assert_ok(gantry_taskman_start(f.manager));
        for (int i = 0; i < 3; i++) {
            char *text = dump_of(f.manager);
            assert_is_dot(text);
            assert_int_equal(count_of(text, "shape=ellipse"), 800);
            assert_int_equal(count_of(text, " -> "), 800 - 8);
            free(text);
        }
        assert_ok(gantry_taskman_stop(f.manager));
        assert_ok(gantry_taskman_reset(f.manager));
    }
    tear_down(&f);
}

static void test_a_write_that_fails_is_told(void **state)
{
    (void)state;
    struct fixture f = set_up(0);
    add_sync(f.manager, "a");
    FILE *full = fopen("/dev/full", "w");
    assert_non_null(full);
    assert_error(gantry_taskman_dump_graph(f.manager, full), GANTRY_ERR_IO);
    assert_non_null(strstr(gantry_last_error(), "No space left on device"));
    fclose(full);
    full = fopen("/dev/full", "w");
    assert_int_equal(setvbuf(full, NULL, _IOFBF, 16),
                     0); /* the first write fails, and nothing is left at the end */
    assert_error(gantry_taskman_dump_graph(f.manager, full), GANTRY_ERR_IO);
    assert_non_null(strstr(gantry_last_error(), "No space left on device"));
    fclose(full);
    assert_error(gantry_taskman_dump_graph(f.manager, NULL), GANTRY_ERR_INVALID_ARGUMENT);
    tear_down(&f);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_kinds_states_and_edges_are_shown),
        cmocka_unit_test(test_context_ids_are_shown_and_spawned_tasks_are_not),
        cmocka_unit_test(test_dump_while_running),
        cmocka_unit_test(test_a_write_that_fails_is_told),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
