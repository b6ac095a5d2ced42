/* SPDX-License-Identifier: MIT */
/* Frozen graphs run whole and in parts: tasks outside of a run cannot be let go, linked to or held.  Random
 * graphs, runs and interventions are compared with a model that runs the tasks one after the other. */
#include "tests/taskman/fixture.h"

enum { MOST = 16, MOST_ADDED = 8 };

static gantry_status fail_body(gantry_task *task, void *arg)
{
    (void)task;
    (void)arg;
    return GANTRY_ERR_IO;
}

static void count_release(gantry_task *task, void *arg, gantry_status result)
{
    (void)task;
    atomic_int *counts = arg;
    atomic_fetch_add(&counts[result == GANTRY_OK ? 0 : 1], 1);
}

static gantry_task *add_counted(gantry_taskman *manager, gantry_task_fn run, atomic_int *count,
                                gantry_task_release_fn release)
{
    gantry_task_desc desc = GANTRY_TASK_DESC_INIT;
    desc.run = run;
    desc.arg = count;
    desc.release = release;
    gantry_task *task = NULL;
    assert_ok(gantry_taskman_submit(manager, &desc, &task));
    return task;
}

/* ---- what is outside of the part --------------------------------------------------------------- */

/* 0 -> 1 and, outside of the part that starts at 0, 2 -> 3 with a reference held on 2. */
struct halves {
    struct fixture f;
    atomic_int counts[4];
    gantry_task *tasks[4];
};

static void set_up_halves(struct halves *h, uint32_t workers)
{
    memset(h, 0, sizeof(*h));
    h->f = set_up(workers);
    for (int i = 0; i < 4; i++) {
        h->tasks[i] = add_cpu(h->f.manager, NULL, count_body, &h->counts[i]);
    }
    assert_ok(gantry_task_start_after(h->tasks[1], h->tasks[0]));
    assert_ok(gantry_task_start_after(h->tasks[3], h->tasks[2]));
    assert_ok(gantry_task_add_reference(h->tasks[2]));
    assert_ok(gantry_taskman_freeze(h->f.manager));
}

static void try_outside(struct halves *h)
{
    gantry_task *late = add_cpu(h->f.manager, NULL, fail_body, NULL), *light = NULL;
    assert_error(gantry_task_finish_before(late, h->tasks[3]), GANTRY_ERR_LATE_DEPENDENCY);
    assert_last_error_has("is not part of this run");
    assert_error(gantry_taskman_create_light(h->f.manager, fail_body, NULL, NULL, h->tasks[3], &light),
                 GANTRY_ERR_LATE_DEPENDENCY);
    assert_error(gantry_task_add_reference(h->tasks[3]), GANTRY_ERR_LATE_DEPENDENCY);
    assert_error(gantry_task_remove_reference(h->tasks[2]), GANTRY_ERR_STATE);
    assert_error(gantry_task_remove_reference(h->tasks[3]), GANTRY_ERR_STATE);
    assert_ok(gantry_task_remove_reference(late));
}

static void test_what_is_outside_of_a_part_stays_as_it_is(void **state)
{
    (void)state;
    for (uint32_t workers = 0; workers < 3; workers++) {
        struct halves h;
        set_up_halves(&h, workers);
        int runs = 0;
        for (int round = 0; round < 6; round++) {
            gantry_task_state before = gantry_task_get_state(h.tasks[3]);
            assert_ok(gantry_taskman_start_from(h.f.manager, h.tasks, 1));
            try_outside(&h);
            assert_error(gantry_taskman_stop(h.f.manager), GANTRY_ERR_IO); /* the task that was added */
            assert_int_equal(gantry_task_get_state(h.tasks[3]), before);
            assert_int_equal(gantry_task_result(h.tasks[3]), GANTRY_OK);
            assert_int_equal(h.counts[0], ++runs + round / 2);
            assert_int_equal(h.counts[3], round / 2);
            if (round % 2 == 1) {
                assert_ok(gantry_taskman_start(h.f.manager));
                assert_ok(gantry_task_remove_reference(h.tasks[2]));
                assert_ok(gantry_taskman_stop(h.f.manager));
                assert_int_equal(h.counts[3], round / 2 + 1);
            }
        }
        tear_down(&h.f);
    }
}

static void test_a_reference_is_given_back_in_every_run_of_its_task(void **state)
{
    (void)state;
    struct halves h;
    set_up_halves(&h, 2);
    for (int run = 1; run <= 6; run++) {
        if (run % 2 == 0) {
            assert_ok(gantry_taskman_start(h.f.manager));
        } else {
            assert_ok(gantry_taskman_start_from(h.f.manager, &h.tasks[2], 1));
        }
        assert_int_equal(gantry_task_get_state(h.tasks[2]), GANTRY_TASK_STATE_HELD);
        assert_ok(gantry_task_remove_reference(h.tasks[2]));
        assert_ok(gantry_taskman_stop(h.f.manager));
        assert_error(gantry_task_remove_reference(h.tasks[2]), GANTRY_ERR_STATE);
        assert_int_equal(h.counts[3], run);
        assert_int_equal(h.counts[1], run / 2);
    }
    tear_down(&h.f);
}

static void test_what_never_ran_is_released_by_the_reset(void **state)
{
    (void)state;
    struct fixture f = set_up(1);
    for (int parts = 0; parts < 3; parts++) {
        atomic_int counts[4][2] = {{0}};
        gantry_task *tasks[4];
        for (int i = 0; i < 4; i++) {
            tasks[i] = add_counted(f.manager, count_body, counts[i], count_release);
        }
        assert_ok(gantry_task_start_after(tasks[1], tasks[0]));
        assert_ok(gantry_taskman_freeze(f.manager));
        for (int part = 0; part < parts; part++) {
            assert_ok(gantry_taskman_start_from(f.manager, &tasks[part], 1));
            assert_ok(gantry_taskman_stop(f.manager));
        }
        assert_ok(gantry_taskman_reset(f.manager));
        for (int i = 0; i < 4; i++) {
            int ran = parts == 0 || i > 1 ? 0 : parts == 2 && i == 1 ? 2 : 1;
            assert_int_equal(counts[i][0], 2 * ran); /* set by its body, and when it was released */
            assert_int_equal(counts[i][1], ran == 0);
        }
    }
    tear_down(&f);
}

/* ---- conditions ------------------------------------------------------------------------------- */

struct rounds {
    atomic_int left, rounds, works, outside;
};

static gantry_status again_body(gantry_task *task, void *arg)
{
    struct rounds *rounds = arg;
    atomic_fetch_add(&rounds->rounds, 1);
    return atomic_fetch_sub(&rounds->left, 1) > 1 ? gantry_task_choose(task, 0) : GANTRY_OK;
}

static gantry_task *add_condition(gantry_taskman *manager, gantry_task_fn run, void *arg)
{
    gantry_task_desc desc = GANTRY_TASK_DESC_INIT;
    desc.run = run;
    desc.arg = arg;
    desc.is_condition = true;
    gantry_task *task = NULL;
    assert_ok(gantry_taskman_submit(manager, &desc, &task));
    return task;
}

/* enter -> work -> again -(chosen)-> enter; work also depends on something outside of the part that starts
 * at `enter`, and that counts as done in every round. */
static void test_a_loop_goes_round_in_a_part(void **state)
{
    (void)state;
    for (uint32_t workers = 0; workers < 3; workers++) {
        struct fixture f = set_up(workers);
        struct rounds rounds = {.left = 0};
        gantry_task *outside = add_cpu(f.manager, NULL, count_body, &rounds.outside);
        gantry_task *enter = add_sync(f.manager, NULL);
        gantry_task *work = add_cpu(f.manager, NULL, count_body, &rounds.works);
        gantry_task *again = add_condition(f.manager, again_body, &rounds);
        gantry_task *late = NULL;
        assert_ok(gantry_task_start_after(work, outside));
        assert_ok(gantry_task_start_after(work, enter));
        assert_ok(gantry_task_start_after(again, work));
        assert_ok(gantry_task_start_after(enter, again));
        assert_ok(gantry_taskman_freeze(f.manager));
        for (int run = 1; run <= 3; run++) {
            atomic_store(&rounds.left, 5);
            assert_ok(gantry_taskman_start_from(f.manager, &enter, 1));
            assert_error(gantry_task_add_reference(outside), GANTRY_ERR_LATE_DEPENDENCY);
            late = add_cpu(f.manager, NULL, count_body, &rounds.outside);
            assert_error(gantry_task_finish_before(late, outside), GANTRY_ERR_LATE_DEPENDENCY);
            assert_error(gantry_task_finish_before(late, enter), GANTRY_ERR_LATE_DEPENDENCY);
            assert_last_error_has("starts when a condition chooses it");
            assert_error(gantry_task_remove_reference(outside), GANTRY_ERR_STATE);
            assert_ok(gantry_task_remove_reference(late));
            assert_ok(gantry_taskman_stop(f.manager));
            assert_int_equal(rounds.works, 5 * run);
            assert_int_equal(rounds.rounds, 5 * run);
            assert_int_equal(rounds.outside, run);
        }
        atomic_store(&rounds.left, 1); /* a second round would wait for `outside` again */
        gantry_task *both[] = {outside, enter};
        assert_ok(gantry_taskman_start_from(f.manager, both, 2));
        assert_ok(gantry_taskman_stop(f.manager));
        assert_int_equal(rounds.works, 16);
        tear_down(&f);
    }
}

/* In a graph with conditions a run that fails leaves marks on tasks that it does not reach. */
static void test_a_failure_does_not_outlive_its_run(void **state)
{
    (void)state;
    struct fixture f = set_up(2);
    atomic_int never[2] = {0}, counts[2] = {0};
    struct rounds rounds = {.left = 0};
    gantry_task *fails = add_cpu(f.manager, NULL, fail_body, NULL);
    gantry_task *choice = add_condition(f.manager, again_body, &rounds);
    gantry_task *branch = add_counted(f.manager, count_body, never, count_release);
    gantry_task *join = add_counted(f.manager, count_body, counts, count_release);
    assert_ok(gantry_task_start_after(branch, choice));
    assert_ok(gantry_task_start_after(join, branch));
    assert_ok(gantry_task_start_after(join, fails));
    assert_ok(gantry_taskman_freeze(f.manager));
    for (int run = 1; run <= 3; run++) {
        /* `join` gets the failure and is not run */
        assert_error(gantry_taskman_run(f.manager, 1), GANTRY_ERR_IO);
        assert_int_equal(gantry_task_get_state(join), GANTRY_TASK_STATE_HELD);
        assert_ok(gantry_taskman_start_from(f.manager, &join, 1));
        assert_ok(gantry_taskman_stop(f.manager));
        assert_int_equal(counts[0], 2 * run);
    }
    assert_ok(gantry_taskman_reset(f.manager));
    assert_int_equal(never[0], 0);
    assert_int_equal(never[1], 1);
    assert_int_equal(counts[1], 0);
    tear_down(&f);
}

/* ---- random runs against a model --------------------------------------------------------------- */

static uint64_t random_state;

static uint32_t random_below(uint32_t limit)
{
    random_state = random_state * UINT64_C(6364136223846793005) + 1442695040888963407u;
    return (uint32_t)((random_state >> 33) % limit);
}

struct item {
    gantry_task *task;
    uint32_t before; /* bits of the items it comes after */
    int references;  /* the application holds it in every run */
    bool runs;       /* it has a body */
    /* this run */
    bool takes_part, fails;
    gantry_status added_failure; /* GANTRY_OK: no added task before it fails */
    int added[MOST_ADDED], added_count;
    int given_back;
    atomic_int ran, released, stamp;
    _Atomic(int) release_result;
    /* its last run before this one */
    bool ever;
    gantry_task_state shown;
};

struct added {
    bool fails;
    atomic_int ran, stamp;
};

static struct {
    struct item items[MOST];
    int count;
    struct added added[MOST_ADDED];
    int added_count;
    atomic_int clock;
    bool cancelled;
} world;

static gantry_status item_body(gantry_task *task, void *arg)
{
    (void)task;
    struct item *item = arg;
    atomic_fetch_add(&item->ran, 1);
    atomic_store(&item->stamp, atomic_fetch_add(&world.clock, 1));
    return item->fails ? GANTRY_ERR_IO : GANTRY_OK;
}

static void item_released(gantry_task *task, void *arg, gantry_status result)
{
    (void)task;
    struct item *item = arg;
    atomic_fetch_add(&item->released, 1);
    atomic_store(&item->release_result, result);
}

static gantry_status added_body(gantry_task *task, void *arg)
{
    (void)task;
    struct added *added = arg;
    atomic_fetch_add(&added->ran, 1);
    atomic_store(&added->stamp, atomic_fetch_add(&world.clock, 1));
    return added->fails ? GANTRY_ERR_UNSUPPORTED : GANTRY_OK;
}

static void build_world(gantry_taskman *manager)
{
    memset(&world, 0, sizeof(world));
    world.count = 2 + (int)random_below(MOST - 2);
    for (int i = 0; i < world.count; i++) {
        struct item *item = &world.items[i];
        gantry_task_desc desc = GANTRY_TASK_DESC_INIT;
        item->runs = random_below(4) != 0;
        desc.kind = item->runs ? GANTRY_TASK_CPU : GANTRY_TASK_SYNC_POINT;
        desc.run = item->runs ? item_body : NULL;
        desc.release = item_released;
        desc.arg = item;
        assert_ok(gantry_taskman_submit(manager, &desc, &item->task));
        for (uint32_t wanted = random_below(4); wanted != 0 && i > 0; wanted--) {
            uint32_t before = random_below((uint32_t)i);
            if ((item->before >> before & 1) == 0) {
                item->before |= 1u << before;
                assert_ok(gantry_task_start_after(item->task, world.items[before].task));
            }
        }
        item->references = random_below(4) == 0 ? 1 + (int)random_below(2) : 0;
        for (int r = 0; r < item->references; r++) {
            assert_ok(gantry_task_add_reference(item->task));
        }
        item->shown = GANTRY_TASK_STATE_HELD;
    }
    assert_ok(gantry_taskman_freeze(manager));
}

/* Start all items, or a part and what comes after it. */
static void begin_run(gantry_taskman *manager)
{
    gantry_task *roots[MOST];
    size_t root_count = 0;
    bool is_whole = random_below(3) == 0;
    world.added_count = 0;
    world.cancelled = false;
    for (int i = 0; i < world.count; i++) {
        struct item *item = &world.items[i];
        bool is_root = random_below(4) == 0 || (root_count == 0 && i == world.count - 1);
        item->takes_part = is_whole || is_root;
        for (int before = 0; before < i; before++) {
            item->takes_part |= (item->before >> before & 1) != 0 && world.items[before].takes_part;
        }
        if (is_root) {
            roots[root_count++] = item->task;
        }
        item->fails = item->runs && random_below(8) == 0;
        item->added_failure = GANTRY_OK;
        item->added_count = item->given_back = 0;
        atomic_store(&item->ran, 0);
        atomic_store(&item->released, 0);
    }
    if (is_whole) {
        assert_ok(gantry_taskman_start(manager));
    } else {
        assert_ok(gantry_taskman_start_from(manager, roots, root_count));
    }
}

/* Does a reference that was not given back hold the item or something before it? */
static bool is_surely_held(const struct item *item)
{
    if (!item->takes_part) {
        return false;
    }
    bool held = item->given_back < item->references;
    for (int before = 0; before < world.count; before++) {
        held |= (item->before >> before & 1) != 0 && is_surely_held(&world.items[before]);
    }
    return held;
}

static void add_task(gantry_taskman *manager)
{
    struct item *item = &world.items[random_below((uint32_t)world.count)];
    struct added *added = &world.added[world.added_count];
    gantry_task *task = NULL;
    gantry_status status = GANTRY_OK;
    bool is_light = random_below(3) == 0, sure = is_surely_held(item);
    if (world.added_count == MOST_ADDED) {
        return;
    }
    world.added_count++;
    memset(added, 0, sizeof(*added));
    added->fails = random_below(3) == 0;
    if (is_light) {
        status = gantry_taskman_create_light(manager, added_body, added, NULL, item->task, &task);
    } else {
        task = add_cpu(manager, NULL, added_body, added);
        status = gantry_task_finish_before(task, item->task);
    }
    if (!item->takes_part || status != GANTRY_OK) {
        assert_int_equal(status, GANTRY_ERR_LATE_DEPENDENCY);
        assert_false(sure);
    } else {
        item->added[item->added_count++] = (int)(added - world.added);
        item->added_failure = added->fails ? GANTRY_ERR_TASK_FAILED : item->added_failure;
    }
    if (task != NULL) {
        assert_ok(gantry_task_remove_reference(task));
    } else {
        world.added_count--;
    }
}

/* Hold an item for a while. */
static void hold_item(void)
{
    struct item *item = &world.items[random_below((uint32_t)world.count)];
    bool sure = is_surely_held(item);
    gantry_status status = gantry_task_add_reference(item->task);
    if (!item->takes_part || status != GANTRY_OK) {
        assert_int_equal(status, GANTRY_ERR_LATE_DEPENDENCY);
        assert_false(sure);
    } else {
        assert_int_equal(gantry_task_get_state(item->task), GANTRY_TASK_STATE_HELD);
        assert_ok(gantry_task_remove_reference(item->task));
    }
}

static void give_back(struct item *item)
{
    if (!item->takes_part) {
        assert_error(gantry_task_remove_reference(item->task), GANTRY_ERR_STATE);
    } else if (item->given_back < item->references) {
        assert_int_equal(gantry_task_get_state(item->task), GANTRY_TASK_STATE_HELD);
        item->given_back++;
        assert_ok(gantry_task_remove_reference(item->task));
    }
}

static void intervene(gantry_taskman *manager)
{
    for (uint32_t i = random_below(12); i != 0; i--) {
        switch (random_below(8)) {
        case 0:
        case 1:
        case 2:
            add_task(manager);
            break;
        case 3:
            hold_item();
            break;
        case 4:
            if (random_below(6) == 0) {
                world.cancelled = true;
                assert_ok(gantry_taskman_cancel(manager));
            }
            break;
        default:
            give_back(&world.items[random_below((uint32_t)world.count)]);
            break;
        }
    }
    for (int i = 0; i < world.count; i++) {
        while (world.items[i].takes_part && world.items[i].given_back < world.items[i].references) {
            give_back(&world.items[i]);
        }
    }
}

/* The model's result for an item; the results of those before it are known. */
static gantry_status expect(const struct item *item, const gantry_status *results)
{
    gantry_status result = item->added_failure;
    for (int before = 0; before < world.count; before++) {
        bool counts = (item->before >> before & 1) != 0 && world.items[before].takes_part;
        result = counts && results[before] != GANTRY_OK ? GANTRY_ERR_TASK_FAILED : result;
    }
    return result != GANTRY_OK ? result : item->fails ? GANTRY_ERR_IO : GANTRY_OK;
}

static void check_order(const struct item *item)
{
    for (int before = 0; before < world.count; before++) {
        const struct item *other = &world.items[before];
        if ((item->before >> before & 1) != 0 && other->takes_part && other->runs && other->ran != 0) {
            assert_true(other->stamp < item->stamp);
        }
    }
    for (int i = 0; i < item->added_count; i++) {
        assert_true(world.added[item->added[i]].stamp < item->stamp);
    }
}

static void check_item(struct item *item, gantry_status expected)
{
    gantry_task_state shown = gantry_task_get_state(item->task);
    if (!item->takes_part) {
        assert_int_equal(shown, item->shown);
        assert_int_equal(item->ran + item->released, 0);
        return;
    }
    gantry_status result = gantry_task_result(item->task);
    if (!world.cancelled) {
        assert_int_equal(result, expected);
        assert_int_equal(item->ran, item->runs && (expected == GANTRY_OK || expected == GANTRY_ERR_IO));
    }
    assert_int_equal(item->released, 1);
    assert_int_equal(item->release_result, result);
    assert_int_equal(shown, result == GANTRY_OK ? GANTRY_TASK_STATE_DONE : GANTRY_TASK_STATE_FAILED);
    if (item->ran != 0) {
        check_order(item);
    }
    item->ever = true;
    item->shown = shown;
}

static void check_run(gantry_status status)
{
    gantry_status results[MOST];
    bool failed = false, added_failed = false;
    for (int i = 0; i < world.count; i++) {
        struct item *item = &world.items[i];
        results[i] = expect(item, results);
        check_item(item, results[i]);
        failed |= item->takes_part && results[i] == GANTRY_ERR_IO; /* others fail only after one of these */
    }
    for (int i = 0; i < world.added_count; i++) {
        added_failed |= world.added[i].fails;
        assert_true(world.added[i].ran == 1 || world.cancelled);
    }
    if (!world.cancelled) {
        assert_true(status == GANTRY_ERR_IO            ? failed
                    : status == GANTRY_ERR_UNSUPPORTED ? added_failed
                                                       : status == GANTRY_OK && !failed && !added_failed);
    }
}

static void check_worlds(uint32_t workers, int worlds)
{
    struct fixture f = set_up(workers);
    random_state = workers;
    for (int w = 0; w < worlds; w++) {
        build_world(f.manager);
        for (uint32_t runs = 1 + random_below(12); runs != 0; runs--) {
            begin_run(f.manager);
            intervene(f.manager);
            check_run(gantry_taskman_stop(f.manager));
        }
        for (int i = 0; i < world.count; i++) {
            atomic_store(&world.items[i].released, 0);
        }
        assert_ok(gantry_taskman_reset(f.manager));
        for (int i = 0; i < world.count; i++) {
            assert_int_equal(world.items[i].released, !world.items[i].ever);
        }
    }
    tear_down(&f);
}

static void test_random_runs_and_parts_as_in_the_model(void **state)
{
    (void)state;
    for (uint32_t workers = 0; workers < 4; workers++) {
        check_worlds(workers, 150);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_what_is_outside_of_a_part_stays_as_it_is),
        cmocka_unit_test(test_a_reference_is_given_back_in_every_run_of_its_task),
        cmocka_unit_test(test_what_never_ran_is_released_by_the_reset),
        cmocka_unit_test(test_a_loop_goes_round_in_a_part),
        cmocka_unit_test(test_a_failure_does_not_outlive_its_run),
        cmocka_unit_test(test_random_runs_and_parts_as_in_the_model),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
