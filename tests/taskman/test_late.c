/* SPDX-License-Identifier: MIT */
/* Tasks, edges and names that come while the manager runs; light tasks. */
#include "tests/taskman/fixture.h"

#include "base/thread.h"

/* ---- a tree that grows out of its own tasks -------------------------------------------------- */

struct node {
    gantry_task *join;
    int depth;
    atomic_long *leaves;
    atomic_int *failures;
};

static struct node nodes[1 << 12];
static atomic_int nodes_used;

static gantry_status leaf_body(gantry_task *task, void *arg);

static gantry_status grow_body(gantry_task *task, void *arg)
{
    struct node *node = arg;
    if (node->depth == 0) {
        return leaf_body(task, arg);
    }
    for (int i = 0; i < 2; i++) {
        struct node *child = &nodes[atomic_fetch_add(&nodes_used, 1)];
        *child = (struct node){node->join, node->depth - 1, node->leaves, node->failures};
        gantry_task_desc desc = GANTRY_TASK_DESC_INIT;
        desc.run = grow_body;
        desc.arg = child;
        gantry_task *born = NULL;
        if (gantry_taskman_submit(gantry_task_manager(task), &desc, &born) != GANTRY_OK ||
            gantry_task_finish_before(born, node->join) != GANTRY_OK ||
            gantry_task_remove_reference(born) != GANTRY_OK) {
            atomic_fetch_add(node->failures, 1);
        }
    }
    return GANTRY_OK;
}

static gantry_status leaf_body(gantry_task *task, void *arg)
{
    (void)task;
    struct node *node = arg;
    atomic_fetch_add(node->leaves, 1);
    return GANTRY_OK;
}

static gantry_status join_body(gantry_task *task, void *arg)
{
    (void)task;
    struct node *root = arg;
    if (atomic_load(root->leaves) != 1 << 9) {
        atomic_fetch_add(root->failures, 1); /* it ran before its predecessors */
    }
    return GANTRY_OK;
}

static void test_tasks_submit_tasks_before_a_common_successor(void **state)
{
    (void)state;
    for (uint32_t workers = 0; workers < 4; workers++) {
        struct fixture f = set_up(workers);
        atomic_long leaves = 0;
        atomic_int failures = 0;
        atomic_store(&nodes_used, 1);
        nodes[0] = (struct node){NULL, 9, &leaves, &failures};
        gantry_task *join = add_cpu(f.manager, "join", join_body, &nodes[0]);
        nodes[0].join = join;
        gantry_task *root = add_cpu(f.manager, "root", grow_body, &nodes[0]);
        assert_ok(gantry_task_finish_before(root, join));
        assert_ok(gantry_taskman_start(f.manager));
        assert_ok(gantry_taskman_stop(f.manager));
        assert_int_equal(leaves, 1 << 9);
        assert_int_equal(failures, 0);
        assert_int_equal(gantry_task_get_state(join), GANTRY_TASK_STATE_DONE);
        assert_int_equal(stats_of(f.manager).tasks, (1 << 10) - 1 + 1);
        tear_down(&f);
    }
}

/* ---- threads that submit while it runs ------------------------------------------------------- */

enum { SUBMITTERS = 3, EACH = 1500 };

struct submitter {
    gantry_taskman *manager;
    gantry_task *end; /* the successor of everything */
    atomic_int *count;
    int id;
    int refused; /* only this thread uses it; it is read after the join */
    gy_thread thread;
};

static void submit_many(void *arg)
{
    struct submitter *self = arg;
    gantry_task *last = NULL;
    for (int i = 0; i < EACH; i++) {
        char name[32];
        /* threads use each other's names by reference, not by submission */
        snprintf(name, sizeof(name), "%d/%d", self->id, i);
        gantry_task_desc desc = GANTRY_TASK_DESC_INIT;
        desc.name = name;
        desc.run = count_body;
        desc.arg = self->count;
        gantry_task *task = NULL, *other = NULL;
        snprintf(name + 16, sizeof(name) - 16, "%d/%d", (self->id + 1) % SUBMITTERS, i);
        self->refused += gantry_taskman_submit(self->manager, &desc, &task) != GANTRY_OK;
        self->refused += gantry_task_finish_before(task, self->end) != GANTRY_OK;
        if (gantry_taskman_get_named(self->manager, name + 16, &other) != GANTRY_OK) {
            self->refused++;
            /* this is no cycle: it always comes after the next thread's */
        } else if (self->id + 1 < SUBMITTERS) {
            gantry_status status = gantry_task_start_after(task, other);
            self->refused += status != GANTRY_OK && status != GANTRY_ERR_LATE_DEPENDENCY;
        }
        if (last != NULL) {
            gantry_status status = gantry_task_start_after(task, last);
            self->refused += status != GANTRY_OK && status != GANTRY_ERR_LATE_DEPENDENCY;
        }
        self->refused += gantry_task_remove_reference(task) != GANTRY_OK;
        last = task;
    }
}

static void test_threads_submit_while_it_runs(void **state)
{
    (void)state;
    struct fixture f = set_up(2);
    atomic_int count = 0, ended = 0;
    gantry_task *end = add_cpu(f.manager, "end", count_body, &ended);
    assert_ok(gantry_task_add_reference(end));
    assert_ok(gantry_taskman_start(f.manager));
    struct submitter submitters[SUBMITTERS];
    for (int i = 0; i < SUBMITTERS; i++) {
        submitters[i] = (struct submitter){.manager = f.manager, .end = end, .count = &count, .id = i};
        assert_ok(gy_thread_start(&submitters[i].thread, "submitter", submit_many, &submitters[i]));
    }
    int refused = 0;
    for (int i = 0; i < SUBMITTERS; i++) {
        gy_thread_join(&submitters[i].thread);
        refused += submitters[i].refused;
    }
    assert_int_equal(refused, 0);
    assert_int_equal(ended, 0);
    assert_ok(gantry_task_remove_reference(end));
    assert_ok(gantry_taskman_stop(f.manager));
    assert_int_equal(count, SUBMITTERS * EACH);
    assert_int_equal(ended, 1);
    assert_int_equal(stats_of(f.manager).tasks, SUBMITTERS * EACH + 1);
    tear_down(&f);
}

/* ---- names referred to while running --------------------------------------------------------- */

static void test_late_name_holds_its_dependents_until_it_is_filled(void **state)
{
    (void)state;
    struct fixture f = set_up(1);
    struct trace trace = {0};
    assert_ok(gantry_taskman_start(f.manager));
    gantry_task *name = get_named(f.manager, "name");
    gantry_task *user = add_cpu(f.manager, "user", trace_body, &trace);
    assert_ok(gantry_task_start_after(user, name));
    assert_ok(gantry_task_remove_reference(user));
    assert_int_equal(gantry_task_references(user), 1);
    gantry_task *filled = add_cpu(f.manager, "name", trace_body, &trace);
    assert_ptr_equal(filled, name);
    assert_int_equal(gantry_task_references(name), 1); /* ours */
    assert_int_equal(trace.length, 0);
    assert_ok(gantry_task_remove_reference(name));
    assert_ok(gantry_taskman_wait(f.manager));
    assert_int_equal(trace.length, 2);
    assert_ptr_equal(trace.tasks[0], name);
    assert_ok(gantry_taskman_stop(f.manager));
    tear_down(&f);
}

static void test_stop_gives_up_late_names_when_nothing_else_is_left(void **state)
{
    (void)state;
    for (uint32_t workers = 0; workers < 2; workers++) {
        struct fixture f = set_up(workers);
        struct trace trace = {0};
        assert_ok(gantry_taskman_start(f.manager));
        gantry_task *name = get_named(f.manager, "never"), *again = get_named(f.manager, "never again");
        gantry_task *user = add_cpu(f.manager, "user", trace_body, &trace);
        assert_ok(gantry_task_start_after(again, name));
        assert_ok(gantry_task_start_after(user, again));
        assert_ok(gantry_task_remove_reference(user));
        assert_int_equal(trace.length, 0);
        assert_error(gantry_taskman_stop(f.manager), GANTRY_ERR_UNFILLED_NAME);
        assert_last_error_has("'never'");
        assert_last_error_has("'never again'");
        assert_int_equal(trace.length, 1);
        gantry_taskman_stats stats = stats_of(f.manager);
        assert_int_equal(stats.tasks, 1);
        assert_int_equal(stats.released, 1);
        tear_down(&f);
    }
}

struct filler {
    gantry_taskman *manager;
    struct trace *trace;
    gantry_task *held;
};

/* Fills the name while the main thread is in stop(), then lets a task go that others wait for. */
static gantry_status fill_body(gantry_task *task, void *arg)
{
    (void)task;
    struct filler *filler = arg;
    gantry_task_desc desc = GANTRY_TASK_DESC_INIT;
    desc.name = "name";
    desc.run = trace_body;
    desc.arg = filler->trace;
    gantry_task *filled = NULL;
    gantry_status status = gantry_taskman_submit(filler->manager, &desc, &filled);
    return status != GANTRY_OK ? status : gantry_task_remove_reference(filled);
}

static void let_go(void *arg)
{
    struct filler *filler = arg;
    gantry_task_remove_reference(filler->held);
}

static void test_stop_does_not_give_up_a_name_that_can_still_be_filled(void **state)
{
    (void)state;
    for (int i = 0; i < 200; i++) {
        struct fixture f = set_up(1);
        struct trace trace = {0};
        assert_ok(gantry_taskman_start(f.manager));
        gantry_task *name = get_named(f.manager, "name");
        gantry_task *user = add_cpu(f.manager, "user", trace_body, &trace);
        assert_ok(gantry_task_start_after(user, name));
        assert_ok(gantry_task_remove_reference(user));
        struct filler filler = {.manager = f.manager, .trace = &trace};
        filler.held = add_cpu(f.manager, "filler", fill_body, &filler);
        gy_thread thread; /* it stands for the GPU: it holds a reference while nothing is dispatched */
        assert_ok(gy_thread_start(&thread, "outside", let_go, &filler));
        gantry_status status = gantry_taskman_stop(f.manager);
        gy_thread_join(&thread);
        assert_int_equal(status, GANTRY_OK);
        assert_int_equal(trace.length, 2);
        assert_ptr_equal(trace.tasks[0], name);
        tear_down(&f);
    }
}

static void test_name_of_before_the_start_can_be_filled_while_held(void **state)
{
    (void)state;
    struct fixture f = set_up(1);
    struct trace trace = {0};
    gantry_task *gate = add_sync(f.manager, "gate");
    gantry_task *name = get_named(f.manager, "name");
    assert_ok(gantry_task_add_reference(gate));
    assert_ok(gantry_task_start_after(name, gate));
    assert_ok(gantry_taskman_start(f.manager));
    assert_int_equal(gantry_task_references(name), 1);
    assert_ptr_equal(add_cpu(f.manager, "name", trace_body, &trace), name);
    assert_int_equal(gantry_task_references(name), 2);
    assert_ok(gantry_task_remove_reference(gate));
    assert_int_equal(trace.length, 0);
    assert_ok(gantry_task_remove_reference(name));
    assert_ok(gantry_taskman_stop(f.manager));
    assert_int_equal(trace.length, 1);
    tear_down(&f);
}

/* ---- late cycles ----------------------------------------------------------------------------- */

static void check_late_cycle(uint32_t workers, gantry_status (*wait)(gantry_taskman *manager))
{
    struct fixture f = set_up(workers);
    atomic_int count = 0;
    assert_ok(gantry_taskman_start(f.manager));
    gantry_task *free = add_cpu(f.manager, "free", count_body, &count);
    gantry_task *a = add_cpu(f.manager, "a", count_body, &count);
    gantry_task *b = add_cpu(f.manager, "b", count_body, &count);
    gantry_task *c = add_cpu(f.manager, "c", count_body, &count);
    gantry_task *d = add_cpu(f.manager, "d", count_body, &count);
    assert_ok(gantry_task_start_after(b, a));
    assert_ok(gantry_task_start_after(a, c));
    assert_ok(gantry_task_start_after(c, b)); /* a, b and c wait for each other */
    assert_ok(gantry_task_start_after(d, c));
    gantry_task *all[] = {a, b, c, d, free};
    for (int i = 0; i < 5; i++) {
        assert_ok(gantry_task_remove_reference(all[i]));
    }
    assert_error(wait(f.manager), GANTRY_ERR_CYCLE);
    assert_last_error_has("'a' -> 'b'");
    assert_null(strstr(gantry_last_error(), "'d'"));
    assert_int_equal(count, 1);
    assert_int_equal(gantry_task_get_state(d), GANTRY_TASK_STATE_FAILED);
    assert_int_equal(gantry_task_get_state(a), GANTRY_TASK_STATE_FAILED);
    assert_int_equal(stats_of(f.manager).failed, 4);
    assert_int_equal(stats_of(f.manager).released, 5);
    tear_down(&f);
}

static void test_cycle_made_while_running_fails_its_tasks(void **state)
{
    (void)state;
    check_late_cycle(0, gantry_taskman_wait);
    check_late_cycle(1, gantry_taskman_wait);
    check_late_cycle(2, gantry_taskman_stop);
}

/* ---- light tasks ----------------------------------------------------------------------------- */

static void test_light_tasks_hold_their_continuation_back(void **state)
{
    (void)state;
    for (uint32_t workers = 0; workers < 3; workers++) {
        struct fixture f = set_up(workers);
        struct trace trace = {0};
        gantry_task *end = add_cpu(f.manager, "end", trace_body, &trace);
        gantry_task *second = NULL, *first = NULL, *early = NULL;
        assert_ok(gantry_taskman_create_light(f.manager, trace_body, &trace, "early", end, &early));
        assert_int_equal(gantry_task_references(end), 2);
        assert_int_equal(gantry_task_references(early), 1);
        assert_ok(gantry_task_remove_reference(early)); /* it is queued, and not run */
        assert_error(gantry_task_remove_reference(early), GANTRY_ERR_STATE);
        assert_int_equal(gantry_task_get_state(early), GANTRY_TASK_STATE_HELD);
        assert_ok(gantry_task_add_reference(end));
        assert_ok(gantry_taskman_start(f.manager));
        assert_ok(gantry_taskman_create_light(f.manager, trace_body, &trace, "second", end, &second));
        assert_ok(gantry_taskman_create_light(f.manager, trace_body, &trace, "first", second, &first));
        assert_string_equal(gantry_task_label(first), "first");
        assert_ok(gantry_task_remove_reference(end));
        assert_ok(gantry_task_remove_reference(second));
        assert_ok(gantry_task_remove_reference(first));
        assert_ok(gantry_taskman_stop(f.manager));
        assert_int_equal(trace.length, 4);
        assert_ptr_equal(trace.tasks[3], end);
        int at[2] = {0};
        for (int i = 0; i < 4; i++) {
            at[0] = trace.tasks[i] == first ? i : at[0];
            at[1] = trace.tasks[i] == second ? i : at[1];
        }
        assert_true(at[0] < at[1]);
        assert_int_equal(stats_of(f.manager).tasks, 4);
        gantry_task *lost = NULL;
        assert_ok(gantry_taskman_reset(f.manager));
        assert_ok(gantry_taskman_create_light(f.manager, trace_body, &trace, NULL, NULL, &lost));
        tear_down(&f); /* it was never let go and never started, and is forgotten */
    }
}

static void test_light_task_after_its_continuation_started_is_late(void **state)
{
    (void)state;
    struct fixture f = set_up(0);
    atomic_int count = 0;
    gantry_task *sync = add_sync(f.manager, "sync"), *light = NULL;
    assert_ok(gantry_taskman_start(f.manager));
    assert_error(gantry_taskman_create_light(f.manager, count_body, &count, NULL, sync, &light),
                 GANTRY_ERR_LATE_DEPENDENCY);
    assert_null(light);
    assert_ok(gantry_taskman_stop(f.manager)); /* nothing is pending because of it */
    assert_int_equal(stats_of(f.manager).tasks, 1);
    tear_down(&f);
}

struct spawning {
    atomic_int count;
    gantry_task *end;
    bool use_end;
};

/* Make two more of the next generation, until there are enough. */
static gantry_status spawn_body(gantry_task *task, void *arg)
{
    struct spawning *spawning = arg;
    gantry_taskman *manager = gantry_task_manager(task);
    gantry_task *end = spawning->use_end ? spawning->end : NULL;
    int before = atomic_fetch_add(&spawning->count, 1);
    for (int i = 0; i < 2 && before < 2000; i++) {
        gantry_status status = gantry_taskman_spawn(manager, spawn_body, spawning, "spawned", end);
        if (status != GANTRY_OK) {
            return status;
        }
    }
    return GANTRY_OK;
}

static gantry_status end_body(gantry_task *task, void *arg)
{
    (void)task;
    struct spawning *spawning = arg;
    return gantry_taskman_spawn(gantry_task_manager(task), count_body, &spawning->count, NULL,
                                spawning->end) == GANTRY_ERR_LATE_DEPENDENCY
               ? GANTRY_OK
               : GANTRY_ERR_STATE;
}

static void test_spawned_tasks_end_with_their_step(void **state)
{
    (void)state;
    for (uint32_t workers = 0; workers < 4; workers++) {
        for (int frozen = 0; frozen < 2; frozen++) {
            struct fixture f = set_up(workers);
            struct spawning spawning = {.use_end = true};
            for (int run = 0; run < 3; run++) {
                if (run == 0 || frozen == 0) {
                    gantry_task *begin = add_cpu(f.manager, NULL, spawn_body, &spawning);
                    spawning.end = add_cpu(f.manager, NULL, end_body, &spawning);
                    assert_ok(gantry_task_start_after(spawning.end, begin));
                }
                if (run == 0 && frozen != 0) {
                    assert_ok(gantry_taskman_freeze(f.manager));
                }
                atomic_store(&spawning.count, 0);
                assert_ok(gantry_taskman_start(f.manager));
                assert_ok(gantry_taskman_stop(f.manager));
                assert_in_range(spawning.count, 2001, 4001);
                assert_int_equal(stats_of(f.manager).tasks, spawning.count + 1);
                assert_int_equal(stats_of(f.manager).released, spawning.count + 1);
                if (frozen == 0) {
                    assert_ok(gantry_taskman_reset(f.manager));
                }
            }
            tear_down(&f);
        }
    }
}

struct relay {
    gantry_taskman *manager;
    atomic_int left;
};

/* Each spawns the next one, and ends: there are never more than two at a time. */
static gantry_status relay_body(gantry_task *task, void *arg)
{
    (void)task;
    struct relay *relay = arg;
    return atomic_fetch_sub(&relay->left, 1) > 0
               ? gantry_taskman_spawn(relay->manager, relay_body, relay, "relay", NULL)
               : GANTRY_OK;
}

/* Two managers take turns on one worker, so that it changes from one to the other all the time. */
static void test_spawned_tasks_use_storage_again(void **state)
{
    (void)state;
    struct fixture f = set_up(1);
    struct relay relays[2] = {{f.manager, 5000}, {new_manager(f.pool), 5000}};
    for (int i = 0; i < 2; i++) {
        for (int n = 0; n < 10; n++) {
            add_cpu(relays[i].manager, NULL, relay_body, &relays[i]);
        }
    }
    uint64_t before = stats_of(f.manager).memory_bytes;
    assert_ok(gantry_taskman_start(relays[0].manager));
    assert_ok(gantry_taskman_start(relays[1].manager));
    for (int i = 0; i < 2; i++) {
        assert_ok(gantry_taskman_stop(relays[i].manager));
        assert_int_equal(stats_of(relays[i].manager).tasks, 5010);
        assert_int_equal(stats_of(relays[i].manager).released, 5010);
        assert_in_range(stats_of(relays[i].manager).memory_bytes, before, before + 1000 * 128);
    }
    gantry_taskman_destroy(relays[1].manager);
    tear_down(&f);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_tasks_submit_tasks_before_a_common_successor),
        cmocka_unit_test(test_threads_submit_while_it_runs),
        cmocka_unit_test(test_late_name_holds_its_dependents_until_it_is_filled),
        cmocka_unit_test(test_stop_gives_up_late_names_when_nothing_else_is_left),
        cmocka_unit_test(test_stop_does_not_give_up_a_name_that_can_still_be_filled),
        cmocka_unit_test(test_name_of_before_the_start_can_be_filled_while_held),
        cmocka_unit_test(test_cycle_made_while_running_fails_its_tasks),
        cmocka_unit_test(test_light_tasks_hold_their_continuation_back),
        cmocka_unit_test(test_light_task_after_its_continuation_started_is_late),
        cmocka_unit_test(test_spawned_tasks_end_with_their_step),
        cmocka_unit_test(test_spawned_tasks_use_storage_again),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
