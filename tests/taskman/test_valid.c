/* SPDX-License-Identifier: MIT */
/* Each check of a state says no to a struct that was damaged, and yes to the one from which it was copied. */
#include "tests/taskman/fixture.h"

#include "taskman/cpu/loop.h"
#include "taskman/cpu/start_batch.h"
#include "taskman/places.h"

/* Ask `is_valid` about a copy of `whole`, once as it is and once after `damage`. */
#define SEES(is_valid, type, whole, damage) \
    do {                                    \
        type copy_ = (whole);               \
        assert_true(is_valid(&copy_));      \
        type *s = &copy_;                   \
        damage;                             \
        assert_false(is_valid(&copy_));     \
    } while (0)

static void test_task_states(void **state)
{
    (void)state;
    struct fixture f = set_up(0);
    gantry_task *task = add_cpu(f.manager, NULL, count_body, NULL);
    assert_true(gy_task_is_valid(task, GANTRY_TASK_STATE_HELD));
    assert_false(gy_task_is_valid(task, GANTRY_TASK_STATE_PLACEHOLDER)); /* it has a body, and no name */
    assert_false(gy_task_is_valid(task, GANTRY_TASK_STATE_READY));       /* a reference is left */
    assert_false(gy_task_is_valid(task, GANTRY_TASK_STATE_DONE));
    gantry_task copy;
    memcpy(&copy, task, sizeof(copy));
    atomic_store(&copy.references, 0);
    assert_true(gy_task_is_valid(&copy, GANTRY_TASK_STATE_RUNNING));
    assert_false(gy_task_is_valid(&copy, GANTRY_TASK_STATE_FAILED)); /* it has no result */
    copy.body.run = NULL;
    assert_false(gy_task_is_valid(&copy, GANTRY_TASK_STATE_RUNNING));
    tear_down(&f);
}

static void test_lists(void **state)
{
    (void)state;
    gantry_task tasks[2] = {0};
    struct gy_task_list list = {0};
    assert_true(gy_task_list_is_valid(&list));
    gy_task_list_add(&list, &tasks[0]);
    gy_task_list_add(&list, &tasks[1]);
    SEES(gy_task_list_is_valid, struct gy_task_list, list, s->count = 0);
    SEES(gy_task_list_is_valid, struct gy_task_list, list, s->count = 1);
    SEES(gy_task_list_is_valid, struct gy_task_list, list, s->first = NULL);
    SEES(gy_task_list_is_valid, struct gy_task_list, list, s->last = s->first);
}

static void test_storage(void **state)
{
    (void)state;
    struct fixture f = set_up(0);
    gantry_task *a = add_cpu(f.manager, "a", count_body, NULL);
    assert_ok(gantry_task_start_after(add_cpu(f.manager, "b", count_body, NULL), a));
    struct gy_graph *graph = &f.manager->graph;
    SEES(gy_graph_is_valid, struct gy_graph, *graph, s->task_current = NULL);
    SEES(gy_graph_is_valid, struct gy_graph, *graph, s->edge_chunks = NULL);
    SEES(gy_graph_is_valid, struct gy_graph, *graph, s->tasks = 1);
    SEES(gy_graph_is_valid, struct gy_graph, *graph, s->spare_chunks = s->task_current);
    size_t used = graph->edge_current->used;
    graph->edge_current->used = graph->edge_current->capacity + 1;
    assert_false(gy_graph_is_valid(graph));
    graph->edge_current->used = used;
    struct gy_names *names = &f.manager->names;
    SEES(gy_names_are_valid, struct gy_names, *names, s->slots = NULL);
    SEES(gy_names_are_valid, struct gy_names, *names, s->capacity = 63);
    SEES(gy_names_are_valid, struct gy_names, *names, s->used = s->capacity);
    SEES(gy_names_are_valid, struct gy_names, *names, s->chunks = NULL);
    tear_down(&f);
}

static void test_work(void **state)
{
    (void)state;
    uint64_t work = 3 * GY_WORK_PENDING + 2 * GY_WORK_ACTIVE;
    assert_true(gy_work_is_valid(work, work));
    assert_true(gy_work_is_valid(work, 0));
    assert_false(gy_work_is_valid(work, 4 * GY_WORK_PENDING));
    assert_false(gy_work_is_valid(work, 3 * GY_WORK_ACTIVE)); /* it would borrow from the upper half */
    assert_false(gy_work_is_valid(0, GY_WORK_ACTIVE));
}

/* No other thread has the copies, so their locks are not taken. */
GY_NO_ANALYSIS static void test_managers_and_frozen_graphs(void **state)
{
    (void)state;
    struct fixture f = set_up(0);
    add_cpu(f.manager, NULL, count_body, NULL);
    assert_ok(gantry_taskman_freeze(f.manager));
    SEES(gy_taskman_is_valid, gantry_taskman, *f.manager, atomic_store(&s->phase, 3));
    SEES(gy_taskman_is_valid, gantry_taskman, *f.manager, s->counts.sync = 2);
    SEES(gy_taskman_is_valid, gantry_taskman, *f.manager, s->counts.late_names = 1);
    SEES(gy_taskman_is_valid, gantry_taskman, *f.manager, s->counts.lights = s->counts.special + 1);
    SEES(gy_taskman_is_valid, gantry_taskman, *f.manager, s->memory.count = 1);
    SEES(gy_taskman_is_valid, gantry_taskman, *f.manager, s->stall.has_broken_cycle = true);
    SEES(gy_taskman_is_valid, gantry_taskman, *f.manager, s->frozen = false);
    SEES(gy_taskman_is_valid, gantry_taskman, *f.manager, s->gpu.dispatcher = (gantry_dispatcher *)(void *)s);
    SEES(gy_taskman_is_valid, gantry_taskman, *f.manager,
         s->gpu_facts.plan = (struct gy_gpu_plan *)(void *)s);
    SEES(gy_taskman_is_valid, gantry_taskman, *f.manager,
         (atomic_store(&s->phase, GY_BUILDING), atomic_store(&s->as_owner.work, 1)));
    struct gy_frozen *frozen = &f.manager->frozen_graph;
    SEES(gy_frozen_is_valid, struct gy_frozen, *frozen, s->plain_count = s->root_count + 1);
    SEES(gy_frozen_is_valid, struct gy_frozen, *frozen, s->root_count = s->end.tasks + 1);
    SEES(gy_frozen_is_valid, struct gy_frozen, *frozen, s->tasks_gpu = s->tasks + 1);
    SEES(gy_frozen_is_valid, struct gy_frozen, *frozen, s->roots = NULL);
    assert_ok(gantry_taskman_reset(f.manager));
    SEES(gy_taskman_is_valid, gantry_taskman, *f.manager, s->as_owner.has_conditions = true);
    tear_down(&f);
}

static void test_workers(void **state)
{
    (void)state;
    gantry_cpu_dispatcher pool = {.worker_count = 2};
    struct gy_task_owner owner = {.pool = &pool};
    gantry_task task = {.owner = &owner};
    struct gy_worker worker = {.pool = &pool,
                               .debt = {.owner = &owner, .work = GY_WORK_PENDING},
                               .cpus = {.cpu_class = 1, .is_away = true}};
    SEES(gy_worker_is_valid, struct gy_worker, worker, s->pool = NULL);
    SEES(gy_worker_is_valid, struct gy_worker, worker, s->debt.owner = NULL);
    SEES(gy_worker_is_valid, struct gy_worker, worker, s->debt.work -= 2 * GY_WORK_PENDING);
    SEES(gy_worker_is_valid, struct gy_worker, worker, s->debt.work -= GY_WORK_ACTIVE);
    SEES(gy_worker_is_valid, struct gy_worker, worker, s->debt.odd--);
    /* this is set while it looks for a task */
    SEES(gy_worker_is_valid, struct gy_worker, worker, s->running = &task);
    SEES(gy_worker_is_valid, struct gy_worker, worker, s->cpus.cpu_class = 0);
    SEES(gy_worker_is_valid, struct gy_worker, worker, s->batch.left = 1);
    SEES(gy_worker_is_valid, struct gy_worker, worker, s->only_owner = &owner); /* nobody has borrowed it */
    SEES(gy_worker_is_valid, struct gy_worker, worker, atomic_store(&s->holder, GY_WORKER_RECLAIMED + 1));
    assert_true(gy_pool_loans_are_valid(&pool));
    atomic_store(&pool.shown.on_loan, 3);
    assert_false(gy_pool_loans_are_valid(&pool));
    atomic_store(&pool.shown.on_loan, (uint32_t)-3);
    assert_false(gy_pool_loans_are_valid(&pool));
}

/* The activity of a worker, how its thread looks for tasks, and who holds it. */
static void test_activities_of_workers(void **state)
{
    (void)state;
    gantry_cpu_dispatcher pool = {.worker_count = 2};
    gantry_task task = {0};
    struct gy_worker busy = {.pool = &pool, .activity = GY_WORKER_IN_BODY, .running = &task};
    SEES(gy_worker_is_valid, struct gy_worker, busy, s->activity = GY_WORKER_BETWEEN);
    SEES(gy_worker_is_valid, struct gy_worker, busy, s->activity = GY_WORKER_RELEASING + 1);
    SEES(gy_worker_is_valid, struct gy_worker, busy, s->search = GY_SEARCH_ON); /* it still counts as idle */
    SEES(gy_worker_is_valid, struct gy_worker, busy, s->search = GY_SEARCH_LAST_LOOK);
    SEES(gy_worker_is_valid, struct gy_worker, busy, s->search = GY_SEARCH_ASLEEP); /* not on loan */
    SEES(gy_worker_is_valid, struct gy_worker, busy, s->search = GY_SEARCH_ASLEEP + 1);
    SEES(gy_worker_is_valid, struct gy_worker, busy, atomic_store(&s->holder, GY_WORKER_ON_LOAN));
    struct gy_worker lent = {.pool = &pool, .search = GY_SEARCH_ASLEEP};
    lent.activity = GY_WORKER_RELEASING; /* there are GPU tasks, and nothing is running */
    atomic_store(&lent.holder, GY_WORKER_ON_LOAN);
    SEES(gy_worker_is_valid, struct gy_worker, lent, s->search = GY_SEARCH_ON);
    SEES(gy_worker_is_valid, struct gy_worker, lent, atomic_store(&s->holder, GY_WORKER_AWAKE));
    SEES(gy_worker_is_valid, struct gy_worker, lent, atomic_store(&s->holder, GY_WORKER_RECLAIMED + 1));
}

static void test_transitions_of_workers(void **state)
{
    (void)state;
    static const bool activities[3][3] = {{false, true, true}, {true, false, true}, {true, false, false}};
    static const bool searches[4][4] = {{[GY_SEARCH_ON] = true},
                                        {[GY_SEARCH_OFF] = true, [GY_SEARCH_LAST_LOOK] = true},
                                        {[GY_SEARCH_ON] = true, [GY_SEARCH_ASLEEP] = true},
                                        {[GY_SEARCH_ON] = true}};
    for (unsigned from = 0; from < 4; from++) {
        struct gy_worker worker = {.activity = from % 3, .search = from};
        for (unsigned to = 0; to < 4; to++) {
            assert_int_equal(gy_worker_may_search(&worker, to), searches[from][to]);
            assert_true(to > 2 || gy_worker_may_enter(&worker, to) == activities[from % 3][to]);
        }
    }
}

GY_NO_ANALYSIS static void test_queues_of_a_pool(void **state)
{
    (void)state;
    static gantry_cpu_dispatcher pool = {.class_count = 1, .classes = {{.limit = 1}}};
    gantry_task task = {0};
    SEES(gy_pool_is_valid, gantry_cpu_dispatcher, pool, s->queues.first = &task);
    SEES(gy_pool_is_valid, gantry_cpu_dispatcher, pool, atomic_store(&s->shown.inject_count, 1));
    SEES(gy_pool_is_valid, gantry_cpu_dispatcher, pool, atomic_store(&s->shown.urgent_count, 1));
    SEES(gy_pool_is_valid, gantry_cpu_dispatcher, pool, gy_task_list_add(&s->queues.low, &task));
    SEES(gy_pool_is_valid, gantry_cpu_dispatcher, pool, s->classes[0].limit = 0);
    SEES(gy_pool_is_valid, gantry_cpu_dispatcher, pool, s->classes[0].running--);
    SEES(gy_pool_is_valid, gantry_cpu_dispatcher, pool, s->classes[0].waiting.count = 1);
    struct gy_start_job job = {0};
    SEES(gy_pool_is_valid, gantry_cpu_dispatcher, pool, atomic_store(&s->shown.jobs, &job));
}

static void test_deques(void **state)
{
    (void)state;
    struct gy_deque deque;
    assert_ok(gy_deque_init(&deque));
    SEES(gy_deque_is_valid, struct gy_deque, deque, atomic_store(&s->top, 1));
    SEES(gy_deque_is_valid, struct gy_deque, deque,
         atomic_store(&s->bottom, 257)); /* its array has 256 slots */
    SEES(gy_deque_is_valid, struct gy_deque, deque, atomic_store(&s->array, NULL));
    gy_deque_fini(&deque);
}

static void test_starts_loops_places_and_debts(void **state)
{
    (void)state;
    struct gy_task_owner owner = {.epoch = 0};
    gantry_task *roots[2] = {NULL, NULL};
    struct gy_task_chunk chunk = {.capacity = 4, .used = 2};
    struct gy_start_batch batch = {.owner = &owner, .roots = roots, .left = 2};
    SEES(gy_start_batch_is_valid, struct gy_start_batch, batch, s->owner = NULL);
    SEES(gy_start_batch_is_valid, struct gy_start_batch, batch, s->roots = NULL);
    struct gy_start_job job = {.owner = &owner, .roots = roots, .left = 2};
    SEES(gy_start_job_is_valid, struct gy_start_job, job, s->owner = NULL);
    SEES(gy_start_job_is_valid, struct gy_start_job, job, s->roots = NULL);
    SEES(gy_start_job_is_valid, struct gy_start_job, job, s->chunk = &chunk); /* it has both */
    struct gy_start_job first = {.owner = &owner, .chunk = &chunk, .left = 2};
    SEES(gy_start_job_is_valid, struct gy_start_job, first, s->at = 5);
    struct gy_loop loop = {.begin = 0, .end = 10, .grain = 3, .parts = 4};
    SEES(gy_loop_is_valid, struct gy_loop, loop, s->parts = 3);
    SEES(gy_loop_is_valid, struct gy_loop, loop, s->grain = 0);
    SEES(gy_loop_is_valid, struct gy_loop, loop, s->end = 0);
    gantry_task task = {.owner = &owner};
    struct gy_spawn_place place = {.chunk = &chunk, .ended = &task};
    SEES(gy_spawn_place_is_valid, struct gy_spawn_place, place, s->ended->owner = NULL);
    chunk.used = 5;
    assert_false(gy_spawn_place_is_valid(&place));
    struct fixture f = set_up(0);
    struct gy_gpu_debt debt = {.manager = f.manager, .owed = GY_WORK_PENDING};
    SEES(gy_gpu_debt_is_valid, struct gy_gpu_debt, debt, s->manager = NULL);
    SEES(gy_gpu_debt_is_valid, struct gy_gpu_debt, debt, s->owed -= 2 * GY_WORK_PENDING);
    SEES(gy_gpu_debt_is_valid, struct gy_gpu_debt, debt, s->owed_odd--);
    tear_down(&f);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_task_states),
        cmocka_unit_test(test_lists),
        cmocka_unit_test(test_storage),
        cmocka_unit_test(test_work),
        cmocka_unit_test(test_managers_and_frozen_graphs),
        cmocka_unit_test(test_workers),
        cmocka_unit_test(test_activities_of_workers),
        cmocka_unit_test(test_transitions_of_workers),
        cmocka_unit_test(test_queues_of_a_pool),
        cmocka_unit_test(test_deques),
        cmocka_unit_test(test_starts_loops_places_and_debts),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
