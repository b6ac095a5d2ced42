/* SPDX-License-Identifier: MIT */
/* Order from data: what ranges have in common, and which edges random accesses make, against an oracle that
 * looks at each byte. */
#include "taskman/access.h"
#include "taskman/areas.h"
#include "tests/taskman/fixture.h"

#include <gantry/access.h>

#include <stdlib.h>

enum { BYTES = 96, TASKS = 60, MOST_ACCESSES = 3, STEPS = 40 };

static uint64_t random_state = 1;

static uint32_t draw(uint32_t below)
{
    random_state = random_state * UINT64_C(6364136223846793005) + UINT64_C(1442695040888963407);
    return (uint32_t)(random_state >> 33) % below;
}

/* ---- ranges -------------------------------------------------------------------------------------- */

static unsigned char arena[BYTES];

/* One row or several, within the arena. */
static gantry_access draw_access(void)
{
    gantry_access access = {.mode = (gantry_access_mode)(GANTRY_ACCESS_READ + draw(4))};
    access.rows = draw(3) == 0 ? 2 + draw(4) : draw(2);
    access.bytes = 1 + draw(access.rows > 1 ? 6 : 24);
    access.pitch = access.bytes + draw(6);
    const size_t rows = access.rows > 1 ? access.rows : 1;
    const size_t length = (rows - 1) * access.pitch + access.bytes;
    access.at = &arena[draw((uint32_t)(BYTES - length) + 1) / 4 * 4]; /* so that some come again */
    return access;
}

static void mark_bytes(const gantry_access *access, bool bytes[BYTES])
{
    const size_t rows = access->rows > 1 ? access->rows : 1;
    memset(bytes, 0, BYTES * sizeof(bool));
    for (size_t row = 0; row < rows; row++) {
        for (size_t i = 0; i < access->bytes; i++) {
            bytes[(const unsigned char *)access->at - arena + (ptrdiff_t)(row * access->pitch + i)] = true;
        }
    }
}

static bool have_common_byte(const gantry_access *a, const gantry_access *b)
{
    bool of_a[BYTES], of_b[BYTES], common = false;
    mark_bytes(a, of_a);
    mark_bytes(b, of_b);
    for (size_t i = 0; i < BYTES; i++) {
        common = common || (of_a[i] && of_b[i]);
    }
    return common;
}

static struct gy_area_key key_of(const gantry_access *access)
{
    const size_t rows = access->rows > 1 ? access->rows : 1;
    return (struct gy_area_key){(uintptr_t)access->at, access->bytes, rows, rows > 1 ? access->pitch : 0};
}

static void test_ranges_know_what_they_meet(void **state)
{
    enum { RANGES = 400 };
    static gantry_access accesses[RANGES];
    static struct gy_area *found[RANGES];
    struct gy_areas ranges = {.places = 0};
    (void)state;
    for (size_t i = 0; i < RANGES; i++) {
        accesses[i] = draw_access();
        const struct gy_area_key key = key_of(&accesses[i]);
        found[i] = gy_areas_find(&ranges, &key);
        assert_non_null(found[i]);
    }
    for (size_t i = 0; i < RANGES; i++) {
        for (size_t j = 0; j < RANGES; j++) {
            bool has_met = found[i] == found[j];
            for (size_t k = 0; k < found[i]->met_count; k++) {
                has_met = has_met || found[i]->met[k] == found[j];
            }
            assert_int_equal(has_met, have_common_byte(&accesses[i], &accesses[j]));
        }
    }
    gy_areas_clear(&ranges);
}

/* ---- edges --------------------------------------------------------------------------------------- */

struct task {
    gantry_access accesses[MOST_ACCESSES];
    size_t count;
    gantry_task *task;
    bool before[TASKS]; /* an edge from there */
};

static struct task tasks[TASKS];

static bool must_not_be_beside(const struct task *a, const struct task *b)
{
    bool is = false;
    for (size_t i = 0; i < a->count; i++) {
        for (size_t k = 0; k < b->count; k++) {
            const gantry_access_mode one = a->accesses[i].mode, other = b->accesses[k].mode;
            const bool may = one == other && (one == GANTRY_ACCESS_READ || one == GANTRY_ACCESS_ADD);
            is = is || (!may && have_common_byte(&a->accesses[i], &b->accesses[k]));
        }
    }
    return is;
}

static gantry_status run(gantry_task *task, void *arg)
{
    (void)task;
    (void)arg;
    return GANTRY_OK;
}

static void note_edge(void *user, gantry_task *successor)
{
    const size_t from = *(const size_t *)user;
    size_t to = 0;
    while (tasks[to].task != successor) {
        to++;
    }
    tasks[to].before[from] = true;
}

static void build(gantry_taskman *manager)
{
    memset(tasks, 0, sizeof(tasks));
    for (size_t i = 0; i < TASKS; i++) {
        gantry_task_desc desc = GANTRY_TASK_DESC_INIT;
        desc.run = run;
        assert_ok(gantry_taskman_submit(manager, &desc, &tasks[i].task));
        tasks[i].count = draw(MOST_ACCESSES + 1);
        for (size_t k = 0; k < tasks[i].count; k++) {
            tasks[i].accesses[k] = draw_access();
        }
        assert_ok(gantry_task_access(tasks[i].task, tasks[i].accesses, tasks[i].count));
    }
    for (size_t i = 0; i < TASKS; i++) {
        gy_task_each_dependent(tasks[i].task, note_edge, &i);
    }
}

/* All that is needed is ordered, and no edge is for nothing. */
static void check_edges(void)
{
    static bool comes_after[TASKS][TASKS];
    memset(comes_after, 0, sizeof(comes_after));
    for (size_t i = 0; i < TASKS; i++) {
        for (size_t j = 0; j < i; j++) {
            if (tasks[i].before[j]) {
                assert_true(must_not_be_beside(&tasks[j], &tasks[i]));
                comes_after[i][j] = true;
                for (size_t k = 0; k < j; k++) {
                    comes_after[i][k] = comes_after[i][k] || comes_after[j][k];
                }
            }
        }
        for (size_t j = i; j < TASKS; j++) {
            assert_false(tasks[i].before[j]);
        }
    }
    for (size_t i = 0; i < TASKS; i++) {
        for (size_t j = 0; j < i; j++) {
            assert_true(comes_after[i][j] || !must_not_be_beside(&tasks[j], &tasks[i]));
        }
    }
}

static void test_random_accesses_are_ordered(void **state)
{
    struct fixture f = set_up(0);
    (void)state;
    for (int step = 0; step < STEPS; step++) {
        build(f.manager);
        check_edges();
        assert_ok(gantry_taskman_start(f.manager));
        assert_ok(gantry_taskman_stop(f.manager));
        assert_ok(gantry_taskman_reset(f.manager));
    }
    tear_down(&f);
}

/* ---- what is refused ----------------------------------------------------------------------------- */

static void test_what_is_no_access(void **state)
{
    struct fixture f = set_up(0);
    gantry_task_desc desc = GANTRY_TASK_DESC_INIT;
    gantry_task *task, *name;
    static const struct {
        gantry_access access;
        const char *words;
    } bad[] = {
        {{arena, 1, 1, 0, (gantry_access_mode)0, 0}, "there is no mode 0"},
        {{arena, 1, 1, 0, (gantry_access_mode)5, 0}, "there is no mode 5"},
        {{NULL, 7, 1, 0, GANTRY_ACCESS_READ, 0}, "7 bytes at NULL"},
        {{arena, 8, 2, 7, GANTRY_ACCESS_READ, 0}, "a pitch of 7 is below the 8 bytes"},
        {{arena, SIZE_MAX, 1, 0, GANTRY_ACCESS_READ, 0}, "beyond the end of memory"},
        {{arena, 1, SIZE_MAX, 16, GANTRY_ACCESS_READ, 0}, "beyond the end of memory"},
    };
    (void)state;
    desc.run = run;
    desc.label = "reader";
    assert_ok(gantry_taskman_submit(f.manager, &desc, &task));
    for (size_t i = 0; i < sizeof(bad) / sizeof(bad[0]); i++) {
        const gantry_access both[] = {{arena, 1, 1, 0, GANTRY_ACCESS_WRITE, 0}, bad[i].access};
        assert_int_equal(gantry_task_access(task, both, 2), GANTRY_ERR_INVALID_ARGUMENT);
        assert_non_null(strstr(gantry_last_error(), bad[i].words));
        assert_non_null(strstr(gantry_last_error(), "access 1 of task 'reader'"));
    }
    assert_int_equal(gantry_task_access(NULL, NULL, 0), GANTRY_ERR_INVALID_ARGUMENT);
    assert_int_equal(gantry_task_access(task, NULL, 1), GANTRY_ERR_INVALID_ARGUMENT);
    assert_ok(gantry_taskman_get_named(f.manager, "nobody", &name));
    assert_int_equal(gantry_task_access(name, NULL, 0), GANTRY_ERR_INVALID_ARGUMENT);
    const gantry_access none = {NULL, 0, 9, 0, GANTRY_ACCESS_WRITE, 0};
    assert_ok(gantry_task_access(task, &none, 1));
    assert_ok(gantry_taskman_reset(f.manager));
    assert_ok(gantry_taskman_submit(f.manager, &desc, &task));
    assert_ok(gantry_taskman_freeze(f.manager));
    assert_int_equal(gantry_task_access(task, &none, 1), GANTRY_ERR_STATE);
    tear_down(&f);
}

/* ---- in descriptions ----------------------------------------------------------------------------- */

static void test_what_is_no_list(void **state)
{
    struct fixture f = set_up(0);
    gantry_task_desc desc = GANTRY_TASK_DESC_INIT;
    gantry_task *task = NULL;
    (void)state;
    const gantry_access wraps = {arena, SIZE_MAX, 1, 0, GANTRY_ACCESS_READ, 0};
    desc.run = run;
    desc.label = "reader";
    desc.access_count = 1;
    assert_int_equal(gantry_taskman_submit(f.manager, &desc, &task), GANTRY_ERR_INVALID_ARGUMENT);
    assert_non_null(strstr(gantry_last_error(), "task 'reader': 1 accesses at NULL"));
    desc.accesses = &wraps;
    assert_int_equal(gantry_taskman_submit(f.manager, &desc, &task), GANTRY_ERR_INVALID_ARGUMENT);
    assert_non_null(strstr(gantry_last_error(), "access 0 of task 'reader'"));
    desc.is_condition = true;
    assert_int_equal(gantry_taskman_submit(f.manager, &desc, &task), GANTRY_ERR_INVALID_ARGUMENT);
    assert_non_null(strstr(gantry_last_error(), "of a condition"));
    assert_null(task);
    gantry_taskman_stats stats = {.struct_size = sizeof(stats)};
    assert_ok(gantry_taskman_get_stats(f.manager, &stats));
    assert_int_equal(stats.tasks, 0);
    tear_down(&f);
}

/* What a body does with others of its step. */
struct maker {
    gantry_taskman *manager;
    gantry_task *before;
    gantry_status of_access, of_late;
    char why[200]; /* of_late */
    gantry_status fails;
    int ran;
};

static gantry_status note_run(gantry_task *task, void *arg)
{
    (void)task;
    ((struct maker *)arg)->ran++;
    return GANTRY_OK;
}

static gantry_status make_reader(gantry_task *task, void *arg)
{
    struct maker *m = arg;
    gantry_task *reader;
    const gantry_access read = {arena, 8, 1, 0, GANTRY_ACCESS_READ, 0};
    gantry_task_desc desc = GANTRY_TASK_DESC_INIT;
    desc.label = "late reader";
    desc.run = note_run;
    desc.arg = m;
    desc.accesses = &read;
    desc.access_count = 1;
    m->of_access = gantry_task_access(m->before, &read, 1); /* released, or of a frozen graph */
    m->of_late = gantry_taskman_submit(m->manager, &desc, &reader);
    (void)snprintf(m->why, sizeof(m->why), "%s", gantry_last_error());
    (void)task;
    return m->of_late == GANTRY_OK ? gantry_task_remove_reference(reader) : GANTRY_OK;
}

static gantry_status end_as_told(gantry_task *task, void *arg)
{
    const struct maker *m = arg;
    (void)task;
    return m->fails;
}

/* A writer, and behind it a body that makes a reader. */
static void build_maker(gantry_taskman *manager, struct maker *m)
{
    gantry_task_desc desc = GANTRY_TASK_DESC_INIT;
    gantry_task *writer, *between, *maker;
    const gantry_access write = {arena, 16, 1, 0, GANTRY_ACCESS_WRITE, 0};
    m->manager = manager;
    desc.arg = m;
    desc.run = end_as_told;
    desc.accesses = &write;
    desc.access_count = 1;
    assert_ok(gantry_taskman_submit(manager, &desc, &writer));
    desc.access_count = 0;
    desc.run = make_reader;
    assert_ok(gantry_taskman_submit(manager, &desc, &maker));
    assert_ok(gantry_taskman_submit(manager, &(gantry_task_desc){sizeof(desc), .run = run}, &between));
    assert_ok(gantry_task_start_after(maker, m->fails == GANTRY_OK ? writer : between));
    m->before = writer;
}

static void test_late_tasks_bring_their_list(void **state)
{
    struct fixture f = set_up(0);
    struct maker m = {.ran = 0};
    (void)state;
    build_maker(f.manager, &m);
    assert_ok(gantry_taskman_start(f.manager));
    assert_ok(gantry_taskman_stop(f.manager));
    assert_int_equal(m.of_access, GANTRY_ERR_STATE);
    assert_ok(m.of_late);
    assert_int_equal(m.ran, 1);
    assert_ok(gantry_taskman_reset(f.manager));

    m = (struct maker){.fails = GANTRY_ERR_TASK_FAILED}; /* without workers tasks run in order, so it has */
    build_maker(f.manager, &m);
    assert_ok(gantry_taskman_start(f.manager));
    assert_int_equal(gantry_taskman_stop(f.manager), GANTRY_ERR_TASK_FAILED);
    assert_ok(m.of_late);
    assert_int_equal(m.ran, 0); /* what it reads was never written */
    assert_ok(gantry_taskman_reset(f.manager));

    m = (struct maker){.ran = 0};
    build_maker(f.manager, &m);
    assert_ok(gantry_taskman_freeze(f.manager));
    assert_ok(gantry_taskman_start(f.manager));
    assert_ok(gantry_taskman_stop(f.manager));
    assert_int_equal(m.of_access, GANTRY_ERR_STATE);
    assert_int_equal(m.of_late, GANTRY_ERR_STATE);
    assert_non_null(strstr(m.why, "task 'late reader': its graph is frozen: accesses come too late"));
    tear_down(&f);
}

/* Whatever allocation fails, no task runs with fewer edges than it needs: it fails. */
static void test_no_edge_is_lost_for_lack_of_memory(void **state)
{
    struct fixture f = set_up(0);
    const gantry_access write = {arena, 16, 1, 0, GANTRY_ACCESS_WRITE, 0};
    const gantry_access more[] = {{&arena[8], 16, 1, 0, GANTRY_ACCESS_READ, 0}, write};
    struct maker m = {.ran = 0};
    gantry_task_desc desc = GANTRY_TASK_DESC_INIT;
    gantry_status status = GANTRY_ERR_OUT_OF_HOST_MEMORY;
    (void)state;
    desc.run = note_run;
    desc.arg = &m;
    desc.accesses = &write;
    for (long n = 0; status != GANTRY_OK; n++) {
        gantry_taskman *manager = new_manager(f.pool);
        gantry_task *first, *second;
        m.ran = 0;
        desc.access_count = 1;
        assert_ok(gantry_taskman_submit(manager, &desc, &first));
        desc.access_count = 0;
        assert_ok(gantry_taskman_submit(manager, &desc, &second));
        gy_fault_arm(n);
        status = gantry_task_access(second, more, 2);
        gy_fault_arm(-1);
        if (status != GANTRY_OK) {
            assert_int_equal(status, GANTRY_ERR_OUT_OF_HOST_MEMORY);
            assert_ok(gantry_taskman_start(manager));
            assert_int_equal(gantry_taskman_stop(manager), GANTRY_ERR_OUT_OF_HOST_MEMORY);
            assert_int_equal(m.ran, 1);
        }
        assert_ok(gantry_taskman_reset(manager));
        gantry_taskman_destroy(manager);
    }
    tear_down(&f);
}

/* ---- what can be asked for ----------------------------------------------------------------------- */

static void test_edges_from_data_are_counted_and_shown(void **state)
{
    struct fixture f = set_up(0);
    gantry_task_desc desc = GANTRY_TASK_DESC_INIT;
    gantry_task *writer, *reader, *after;
    char *text = NULL, line[128];
    size_t bytes = 0;
    (void)state;
    desc.run = run;
    assert_ok(gantry_taskman_submit(f.manager, &desc, &writer));
    assert_ok(gantry_taskman_submit(f.manager, &desc, &reader));
    assert_ok(gantry_taskman_submit(f.manager, &desc, &after));
    const gantry_access write = {arena, 16, 2, 32, GANTRY_ACCESS_WRITE, 0};
    const gantry_access read = {&arena[40], 4, 1, 0, GANTRY_ACCESS_READ, 0};
    assert_ok(gantry_task_access(writer, &write, 1));
    assert_ok(gantry_task_access(reader, &read, 1));
    assert_ok(gantry_task_start_after(after, reader));
    gantry_taskman_stats stats = {.struct_size = sizeof(stats)};
    assert_ok(gantry_taskman_get_stats(f.manager, &stats));
    assert_int_equal(stats.edges, 2);
    assert_int_equal(stats.edges_from_data, 1);
    FILE *file = open_memstream(&text, &bytes);
    assert_non_null(file);
    assert_ok(gantry_taskman_dump_graph(f.manager, file));
    fclose(file);
    snprintf(line, sizeof(line), "t0 -> t1 [color=steelblue, tooltip=\"2 rows of 16 bytes at %p\"];",
             (void *)arena);
    assert_non_null(strstr(text, line));
    assert_non_null(strstr(text, "t1 -> t2;"));
    free(text);
    tear_down(&f);
}

/* Whoever reads both comes after the first writer by way of the second one, if that is declared first. */
static void test_an_edge_that_another_implies_is_left_out(void **state)
{
    struct fixture f = set_up(0);
    gantry_taskman_stats stats = {.struct_size = sizeof(stats)};
    const gantry_access write = GANTRY_WRITES(arena, 8);
    const gantry_access pass_on[] = {GANTRY_READS(arena, 8), GANTRY_WRITES(&arena[8], 8)};
    const gantry_access both[] = {GANTRY_READS(&arena[8], 8), GANTRY_READS(arena, 8)};
    (void)state;
    const gantry_access *const lists[] = {&write, pass_on, both};
    for (uint32_t i = 0; i < 3; i++) {
        gantry_task_desc desc = GANTRY_TASK_DESC_INIT;
        gantry_task *task;
        desc.run = run;
        desc.accesses = lists[i];
        desc.access_count = i == 0 ? 1 : 2;
        assert_ok(gantry_taskman_submit(f.manager, &desc, &task));
    }
    assert_ok(gantry_taskman_get_stats(f.manager, &stats));
    assert_int_equal(stats.edges_from_data, 2);
    tear_down(&f);
}

/* What a condition may choose does not wait for what comes before it. */
static void test_a_way_by_a_condition_is_no_order(void **state)
{
    struct fixture f = set_up(0);
    gantry_taskman_stats stats = {.struct_size = sizeof(stats)};
    const gantry_access write = GANTRY_WRITES(arena, 8), read = GANTRY_READS(arena, 8);
    gantry_task *writer, *condition, *reader;
    gantry_task_desc desc = GANTRY_TASK_DESC_INIT;
    (void)state;
    desc.run = run;
    assert_ok(gantry_taskman_submit(f.manager, &desc, &writer));
    assert_ok(gantry_taskman_submit(f.manager, &desc, &reader));
    desc.is_condition = true;
    assert_ok(gantry_taskman_submit(f.manager, &desc, &condition));
    assert_ok(gantry_task_access(writer, &write, 1));
    assert_ok(gantry_task_start_after(condition, writer));
    assert_ok(gantry_task_start_after(reader, condition));
    assert_ok(gantry_task_access(reader, &read, 1));
    assert_ok(gantry_taskman_get_stats(f.manager, &stats));
    assert_int_equal(stats.edges_from_data, 1);
    tear_down(&f);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_ranges_know_what_they_meet),
        cmocka_unit_test(test_random_accesses_are_ordered),
        cmocka_unit_test(test_what_is_no_access),
        cmocka_unit_test(test_what_is_no_list),
        cmocka_unit_test(test_late_tasks_bring_their_list),
        cmocka_unit_test(test_no_edge_is_lost_for_lack_of_memory),
        cmocka_unit_test(test_edges_from_data_are_counted_and_shown),
        cmocka_unit_test(test_an_edge_that_another_implies_is_left_out),
        cmocka_unit_test(test_a_way_by_a_condition_is_no_order),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
