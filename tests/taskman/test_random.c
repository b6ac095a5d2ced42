/* Random graphs: whatever their shape, every task runs once and after all of its predecessors. */
#include "tests/taskman/fixture.h"

enum { MOST_TASKS = 400, MOST_PREDECESSORS = 6 };

struct item {
    gantry_task *task;
    int predecessors[MOST_PREDECESSORS];
    int predecessor_count;
    bool runs;          /* a CPU task: notes its clock; others inherit their predecessors' */
    atomic_int started; /* clock at the start of the body; 0: not run */
    atomic_int finished;
    atomic_int runs_seen;
};

struct graph {
    atomic_int clock;
    atomic_int violations;
    int count;
    struct item items[MOST_TASKS];
};

static uint64_t random_state;

static uint32_t random_below(uint32_t bound)
{
    random_state = random_state * 6364136223846793005u + 1442695040888963407u;
    return (uint32_t)((random_state >> 33) % bound);
}

/* Every predecessor that runs has finished; through those that do not run, theirs have. */
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

/* Items are in topological order; submission is in random order, names make forward references. */
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

/* A random graph into which one edge against the order was put is refused, and nothing runs. */
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
        if (steps != 0) { /* `at` comes before the last item: now also after it */
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

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_random_graphs_run_in_order),
        cmocka_unit_test(test_random_graphs_run_in_order_in_every_wait_mode),
        cmocka_unit_test(test_random_cycles_are_found),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
