/* SPDX-License-Identifier: MIT */
/* Random graphs: whatever their shape, every task runs once and after all of its predecessors.  Also
 * several graphs on one pool, with threads that wait for them. */
#include "tests/taskman/fixture.h"

#include "base/thread.h"

enum { MOST_TASKS = 400, MOST_PREDECESSORS = 6 };

struct item {
    gantry_task *task;
    int predecessors[MOST_PREDECESSORS];
    int predecessor_count;
    bool runs; /* a CPU task: it notes its clock; the others inherit the clock of their predecessors */
    atomic_int started; /* the clock at the start of the body; 0: it has not run */
    atomic_int finished;
    atomic_int runs_seen;
};

struct graph {
    atomic_int clock;
    atomic_int violations;
    int count;
    struct item items[MOST_TASKS];
};

static _Thread_local uint64_t random_state;

static uint32_t random_below(uint32_t bound)
{
    random_state = random_state * 6364136223846793005u + 1442695040888963407u;
    return (uint32_t)((random_state >> 33) % bound);
}

/* Every predecessor that runs has finished; of one that does not run, its predecessors have. */
static bool predecessors_finished(struct graph *graph, int index)
{
    const struct item *item = &graph->items[index];
    for (int i = 0; i < item->predecessor_count; i++) {
        int before = item->predecessors[i];
        if (graph->items[before].runs ? atomic_load(&graph->items[before].finished) == 0
                                      : !predecessors_finished(graph, before)) {
            return false;
        }
    }
    return true;
}

static struct graph graph;

static gantry_status random_body(gantry_task *task, void *arg)
{
    (void)task;
    struct item *item = arg;
    atomic_store(&item->started, atomic_fetch_add(&graph.clock, 1) + 1);
    if (!predecessors_finished(&graph, (int)(item - graph.items))) {
        atomic_fetch_add(&graph.violations, 1);
    }
    atomic_fetch_add(&item->runs_seen, 1);
    atomic_store(&item->finished, atomic_fetch_add(&graph.clock, 1) + 1);
    return GANTRY_OK;
}

/* The items are in topological order; they are submitted in random order, and names make forward
 * references. */
static void build(gantry_taskman *manager, bool *has_holes)
{
    memset(&graph, 0, sizeof(graph));
    graph.count = 2 + (int)random_below(MOST_TASKS - 2);
    int order[MOST_TASKS];
    for (int i = 0; i < graph.count; i++) {
        order[i] = i;
        int other = (int)random_below((uint32_t)i + 1);
        order[i] = order[other];
        order[other] = i;
    }
    *has_holes = false;
    for (int i = 0; i < graph.count; i++) {
        struct item *item = &graph.items[order[i]];
        char name[16];
        snprintf(name, sizeof(name), "item %d", order[i]);
        uint32_t sort = random_below(10);
        item->runs = sort < 7;
        if (item->runs) {
            item->task = add_cpu(manager, name, random_body, item);
        } else if (sort < 9) {
            item->task = add_sync(manager, name);
        } else {
            item->task = get_named(manager, name);
            *has_holes = true;
        }
    }
    for (int i = 0; i < graph.count; i++) {
        struct item *item = &graph.items[order[i]];
        uint32_t wanted = random_below(MOST_PREDECESSORS + 1);
        for (uint32_t p = 0; p < wanted && order[i] > 0; p++) {
            int before = (int)random_below((uint32_t)order[i]);
            item->predecessors[item->predecessor_count++] = before;
            assert_ok(gantry_task_start_after(item->task, graph.items[before].task));
        }
    }
}

static void check_random_graphs(struct fixture *f, int rounds)
{
    for (int round = 0; round < rounds; round++) {
        bool has_holes;
        build(f->manager, &has_holes);
        assert_ok(gantry_taskman_start(f->manager));
        if (round % 2 == 0) {
            assert_ok(gantry_taskman_wait(f->manager));
        }
        gantry_status status = gantry_taskman_stop(f->manager);
        assert_int_equal(status, has_holes ? GANTRY_ERR_UNFILLED_NAME : GANTRY_OK);
        assert_int_equal(graph.violations, 0);
        for (int i = 0; i < graph.count; i++) {
            assert_int_equal(graph.items[i].runs_seen, graph.items[i].runs);
            assert_int_equal(gantry_task_get_state(graph.items[i].task), GANTRY_TASK_STATE_DONE);
        }
        assert_ok(gantry_taskman_reset(f->manager));
    }
}

static void test_random_graphs_run_in_order(void **state)
{
    (void)state;
    for (uint32_t workers = 0; workers <= 4; workers++) {
        random_state = 17 + workers;
        struct fixture f = set_up(workers);
        check_random_graphs(&f, 60);
        tear_down(&f);
    }
}

static void test_random_graphs_run_in_order_in_every_wait_mode(void **state)
{
    (void)state;
    const gantry_wait_mode modes[] = {GANTRY_WAIT_BLOCK, GANTRY_WAIT_YIELD, GANTRY_WAIT_SPIN,
                                      GANTRY_WAIT_HYBRID};
    for (int i = 0; i < 4; i++) {
        random_state = (uint64_t)i;
        gantry_cpu_dispatcher *pool = new_pool(2, modes[i]);
        struct fixture f = {pool, new_manager(pool)};
        check_random_graphs(&f, 20);
        tear_down(&f);
    }
}

/* A random graph that got an edge against the order is refused, and nothing runs. */
static void test_random_cycles_are_found(void **state)
{
    (void)state;
    random_state = 4711;
    struct fixture f = set_up(2);
    int found = 0;
    for (int round = 0; round < 60; round++) {
        bool has_holes;
        build(f.manager, &has_holes);
        int at = graph.count - 1;
        int steps = 0;
        while (graph.items[at].predecessor_count != 0) {
            at = graph.items[at].predecessors[0];
            steps++;
        }
        if (steps != 0) { /* `at` comes before the last item: now it also comes after it */
            assert_ok(gantry_task_start_after(graph.items[at].task, graph.items[graph.count - 1].task));
            assert_error(gantry_taskman_start(f.manager), GANTRY_ERR_CYCLE);
            assert_last_error_has("' -> 'item ");
            found++;
        }
        for (int i = 0; i < graph.count; i++) {
            assert_int_equal(graph.items[i].runs_seen, 0);
        }
        assert_ok(gantry_taskman_reset(f.manager));
    }
    assert_true(found > 30);
    tear_down(&f);
}

/* ---- several at once --------------------------------------------------------------------------- */

enum { MEMBERS = 4, STEPS = 30, MOST_RUNS = 4 };

struct company {
    gantry_cpu_dispatcher *pool;
    int workers;
    atomic_int inside;
    /* too many bodies ran at a time, or one ran in a thread that waits for something else */
    atomic_int strange;
};

/* A manager on the pool that all share, and a thread that waits for it. */
struct member {
    struct company *company;
    gantry_taskman *manager;
    bool workers_only;
    int number;
    atomic_int made, ran, looped; /* tasks and indices, in this step */
    int failures;                 /* read once the thread has ended */
    gy_thread thread;
};

static _Thread_local const struct member *waits_for; /* NULL: it is a worker */

static void enter_body(struct member *member)
{
    struct company *company = member->company;
    bool too_many = atomic_fetch_add(&company->inside, 1) >= company->workers;
    bool strange = waits_for != NULL && (waits_for != member || member->workers_only);
    atomic_fetch_add(&company->strange, too_many || strange || gantry_last_error()[0] != '\0');
    atomic_fetch_add(&member->ran, 1);
}

static void leave_body(struct member *member)
{
    atomic_fetch_sub(&member->company->inside, 1);
}

static gantry_status small_body(gantry_task *task, void *arg)
{
    (void)task;
    enter_body(arg);
    leave_body(arg);
    return GANTRY_OK;
}

static gantry_status part_body(size_t begin, size_t end, void *arg)
{
    atomic_fetch_add(&((struct member *)arg)->looped, (int)(end - begin));
    return GANTRY_OK;
}

static gantry_status member_body(gantry_task *task, void *arg)
{
    struct member *member = arg;
    gantry_status status = GANTRY_OK;
    enter_body(member);
    switch (random_below(8)) {
    case 0:
        for (int i = 0; i < 4 && status == GANTRY_OK; i++) {
            atomic_fetch_add(&member->made, 1);
            status = gantry_taskman_spawn(gantry_task_manager(task), small_body, member, NULL, NULL);
        }
        break;
    case 1:
        atomic_fetch_sub(&member->looped, 50);
        status = gantry_parallel_for(member->company->pool, 0, 50, 5, part_body, member);
        break;
    case 2:
        status = gantry_taskman_wait(member->manager) == GANTRY_ERR_STATE ? GANTRY_OK : GANTRY_ERR_IO;
        break;
    case 3:
        sched_yield();
        break;
    default:
        break;
    }
    leave_body(member);
    return status;
}

/* Submit a graph; returns how many tasks it has. */
static int build_step(struct member *member)
{
    gantry_task *tasks[60] = {NULL};
    int count = 1 + (int)random_below(60);
    gantry_status status = GANTRY_OK;
    for (int i = 0; i < count && status == GANTRY_OK; i++) {
        gantry_task_desc desc = GANTRY_TASK_DESC_INIT;
        desc.run = member_body;
        desc.arg = member;
        desc.priority = (gantry_task_priority)(random_below(6) == 0 ? (int)random_below(3) - 1 : 0);
        desc.cpu_class = random_below(6) == 0 ? 1 + random_below(2) : 0;
        status = gantry_taskman_submit(member->manager, &desc, &tasks[i]);
        for (uint32_t wanted = random_below(3); wanted != 0 && i != 0 && status == GANTRY_OK; wanted--) {
            status = gantry_task_start_after(tasks[i], tasks[random_below((uint32_t)i)]);
        }
    }
    member->failures += status != GANTRY_OK;
    return count;
}

/* Run a step again and again; returns how often it was run; 0: something failed. */
static int run_step(struct member *member)
{
    if (random_below(2) == 0) {
        bool good = gantry_taskman_start(member->manager) == GANTRY_OK &&
                    (random_below(2) == 0 || gantry_taskman_wait(member->manager) == GANTRY_OK) &&
                    gantry_taskman_stop(member->manager) == GANTRY_OK;
        gantry_taskman_stats stats = {.struct_size = sizeof(stats)};
        good = good && gantry_taskman_get_stats(member->manager, &stats) == GANTRY_OK;
        return good && stats.released == stats.tasks && stats.tasks == (uint64_t)atomic_load(&member->ran);
    }
    int times = 1 + (int)random_below(MOST_RUNS);
    return gantry_taskman_freeze(member->manager) == GANTRY_OK &&
                   gantry_taskman_run(member->manager, (uint64_t)times) == GANTRY_OK
               ? times
               : 0;
}

static void work_in_company(void *arg)
{
    struct member *member = arg;
    waits_for = member;
    random_state = (uint64_t)member->number;
    for (int step = 0; step < STEPS; step++) {
        atomic_store(&member->made, 0);
        atomic_store(&member->ran, 0);
        int count = build_step(member), times = run_step(member);
        member->failures += times == 0 || member->ran != count * times + member->made ||
                            member->looped != 0 || gantry_last_error()[0] != '\0';
        member->failures += gantry_taskman_reset(member->manager) != GANTRY_OK;
    }
}

static void check_company(uint32_t workers, gantry_wait_mode mode)
{
    const uint32_t limits[] = {1, 2};
    gantry_cpu_dispatcher_options cpus = GANTRY_CPU_DISPATCHER_OPTIONS_INIT;
    cpus.worker_count = workers;
    cpus.wait_mode = mode;
    cpus.class_count = 2;
    cpus.class_limits = limits;
    struct company company = {.workers = (int)workers};
    assert_ok(gantry_cpu_dispatcher_create(&cpus, &company.pool));
    struct member members[MEMBERS];
    for (int i = 0; i < MEMBERS; i++) {
        members[i] =
            (struct member){.company = &company, .workers_only = i == 0, .number = i + 4 * (int)mode};
        members[i].manager = new_manager_with(company.pool, members[i].workers_only);
    }
    for (int i = 0; i < MEMBERS; i++) {
        assert_ok(gy_thread_start(&members[i].thread, "member", work_in_company, &members[i]));
    }
    for (int i = 0; i < MEMBERS; i++) {
        gy_thread_join(&members[i].thread);
        assert_int_equal(members[i].failures, 0);
        gantry_taskman_destroy(members[i].manager);
    }
    assert_int_equal(company.strange, 0);
    gantry_cpu_dispatcher_destroy(company.pool);
    assert_int_equal(gy_alloc_live(), 0);
}

/* Each graph is run by workers and by the thread that waits for it, by no other waiting thread, and by no
 * more threads than there are workers; no thread gets the errors of another. */
static void test_random_steps_of_several_managers(void **state)
{
    (void)state;
    const gantry_wait_mode modes[] = {GANTRY_WAIT_BLOCK, GANTRY_WAIT_HYBRID, GANTRY_WAIT_ADAPTIVE};
    for (uint32_t i = 0; i < 9; i++) {
        check_company(1 + i % 3, modes[i / 3]);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_random_graphs_run_in_order),
        cmocka_unit_test(test_random_graphs_run_in_order_in_every_wait_mode),
        cmocka_unit_test(test_random_cycles_are_found),
        cmocka_unit_test(test_random_steps_of_several_managers),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
