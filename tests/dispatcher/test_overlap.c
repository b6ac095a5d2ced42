/* Graphs run beside each other unless an edge, or the order of a manager's steps, is between them. */
#include "context/context.h"
#include "dispatcher/internal.h"
#include "order_kernels.kernels.h"
#include "tests/dispatcher/stamps.h"
#include "tests/partition/plan_support.h"
#include "tests/support/cmocka_c11.h"
#include "tests/support/deadline.h"
#include "tests/support/gpu_fixture.h"

#include <pthread.h>
#include <sched.h>
#include <stdatomic.h>
#include <string.h>

enum { FLAG = 100, SEEN = 101, TICKS = 102, WIDTH = 4 };
enum { NEVER = 1, IN_TIME = 2 }; /* the values of the flag, as `await_flag` reports them */

#define PATIENCE_NS UINT64_C(20000000000) /* how long a kernel waits for an event that has to come */
#define MOMENT_NS UINT64_C(30000000)      /* how long a kernel waits for an event that must not come */

static struct {
    struct gpu_fixture gpu;
    struct stamps stamps;
    gantry_kernel *await;
    gantry_partition *critical;
    gantry_taskman *other;
} s;

/* ---- the scene ------------------------------------------------------------------------------ */

/* A partition "critical" beside the rest when `is_planned`. */
static void open_scene(bool is_planned)
{
    gantry_partition_request requests[] = {request("critical", GANTRY_PARTITION_AT_LEAST, 8),
                                           request("rest", GANTRY_PARTITION_REST, 0)};
    gantry_partition_options plan = GANTRY_PARTITION_OPTIONS_INIT;
    gantry_context_options options = GANTRY_CONTEXT_OPTIONS_INIT;
    gantry_taskman_options manager = GANTRY_TASKMAN_OPTIONS_INIT;
    gantry_module *module;
    memset(&s, 0, sizeof(s));
    plan.requests = requests;
    plan.count = 2;
    options.driver = gpu_fixture_driver();
    options.submission = GANTRY_SUBMISSION_GRAPHS;
    options.partitions = is_planned ? &plan : NULL;
    gpu_fixture_open_with(&s.gpu, 1, &options);
    stamps_open(&s.stamps, s.gpu.context, 1024);
    assert_ok(gantry_module_load(s.gpu.context, &gantry_image_order_kernels, &module));
    assert_ok(gantry_module_get_kernel(module, "await_flag", &s.await));
    if (is_planned) {
        assert_ok(gantry_partition_find(s.gpu.context, "critical", &s.critical));
    }
    manager.cpu_dispatcher = s.gpu.cpus;
    manager.gpu_dispatcher = gantry_context_dispatcher(s.gpu.context);
    assert_ok(gantry_taskman_create(&manager, &s.other));
}

static void close_scene(void)
{
    gantry_taskman_destroy(s.other);
    assert_ok(gantry_context_synchronize(s.gpu.context));
    stamps_close(&s.stamps);
    gpu_fixture_close(&s.gpu);
}

static uint32_t cell(uint32_t index)
{
    return __atomic_load_n(&s.stamps.cells[index], __ATOMIC_ACQUIRE);
}

static gantry_launch_result launch_stamp(gantry_launch *launch, void *arg)
{
    (void)arg;
    uint32_t at = TICKS + 2 * (uint32_t)(uintptr_t)arg;
    return stamps_launch(&s.stamps, launch, at, at + 1, 0) == GANTRY_OK ? GANTRY_LAUNCH_DONE
                                                                        : GANTRY_LAUNCH_FAILED;
}

/* A kernel sets the flag. */
static gantry_launch_result launch_flag(gantry_launch *launch, void *arg)
{
    (void)arg;
    return stamps_launch(&s.stamps, launch, TICKS, FLAG, 0) == GANTRY_OK ? GANTRY_LAUNCH_DONE
                                                                         : GANTRY_LAUNCH_FAILED;
}

/* A kernel waits so long for the flag. */
static gantry_launch_result launch_await(gantry_launch *launch, void *arg)
{
    const uint64_t *most_ns = arg;
    void *flag = s.stamps.on_device + FLAG, *seen = s.stamps.on_device + SEEN;
    uint64_t most = *most_ns;
    void *args[] = {&flag, &seen, &most};
    const gantry_dim3 one = {1, 1, 1};
    return gantry_launch_kernel(launch, s.await, one, one, 0, args) == GANTRY_OK ? GANTRY_LAUNCH_DONE
                                                                                 : GANTRY_LAUNCH_FAILED;
}

static gantry_task *add(gantry_taskman *manager, gantry_partition *partition, gantry_launch_fn launch,
                        void *arg)
{
    gantry_task_desc desc = GANTRY_TASK_DESC_INIT;
    gantry_task *task;
    desc.kind = GANTRY_TASK_KERNEL;
    desc.launch = launch;
    desc.arg = arg;
    desc.partition = partition;
    assert_ok(gantry_taskman_submit(manager, &desc, &task));
    return task;
}

static void run(gantry_taskman *manager)
{
    assert_ok(gantry_taskman_start(manager));
    assert_ok(gantry_taskman_stop(manager));
    assert_ok(gantry_taskman_reset(manager));
}

static void clear(void)
{
    assert_ok(gantry_context_synchronize(s.gpu.context));
    __atomic_store_n(&s.stamps.cells[FLAG], 0u, __ATOMIC_RELEASE);
    __atomic_store_n(&s.stamps.cells[SEEN], 0u, __ATOMIC_RELEASE);
}

/* A step of some tasks, one of which waits for the flag; those behind it are of the same graph. */
static void run_waiting(gantry_taskman *manager, gantry_partition *partition, uint64_t most_ns)
{
    static uint64_t most[2];
    uint64_t *slot = &most[most_ns == PATIENCE_NS];
    *slot = most_ns;
    gantry_task *waiter = add(manager, partition, launch_await, slot);
    for (uintptr_t i = 0; i < WIDTH; i++) {
        gantry_task *beside = add(manager, partition, launch_stamp, (void *)(8 + i));
        if (i % 2 == 0) {
            assert_ok(gantry_task_start_after(beside, waiter));
        }
    }
    run(manager);
}

/* Run a step of the same shape as that of run_waiting(), with one task that sets the flag. */
static void run_flag_in_that_shape(gantry_taskman *manager)
{
    gantry_task *flag = add(manager, NULL, launch_flag, NULL);
    for (uintptr_t i = 0; i < WIDTH; i++) {
        gantry_task *beside = add(manager, NULL, launch_stamp, (void *)(16 + i));
        if (i % 2 == 0) {
            assert_ok(gantry_task_start_after(beside, flag));
        }
    }
    run(manager);
}

static void run_flag(gantry_taskman *manager, gantry_partition *partition)
{
    (void)add(manager, partition, launch_stamp, (void *)1);
    (void)add(manager, partition, launch_flag, NULL);
    run(manager);
}

static uint32_t seen_at_the_end(void)
{
    assert_ok(gantry_context_synchronize(s.gpu.context));
    return cell(SEEN);
}

/* The first call of each function is captured alone, which makes another graph: so everything is done once
 * before. */
static void get_ready(gantry_partition *one, gantry_partition *two)
{
    for (int i = 0; i < 2; i++) {
        run_flag(s.other, two);
        run_waiting(s.gpu.manager, one, PATIENCE_NS);
        clear();
    }
}

/* ---- what runs beside each other -------------------------------------------------------------- */

static void test_graphs_of_two_managers_overlap(void **state)
{
    (void)state;
    open_scene(false);
    get_ready(NULL, NULL);
    uint64_t graphs = gpu_fixture_stats(&s.gpu).graph_launches;
    for (int i = 0; i < 4; i++) {
        run_waiting(s.gpu.manager, NULL, PATIENCE_NS);
        run_flag(s.other, NULL);
        assert_int_equal(seen_at_the_end(), IN_TIME);
        clear();
    }
    assert_true(gpu_fixture_stats(&s.gpu).graph_launches >= graphs + 4 * 2);
    close_scene();
}

/* An executable graph runs once at a time, so each needs one of its own. */
static void test_graphs_of_one_shape_overlap(void **state)
{
    (void)state;
    open_scene(false);
    get_ready(NULL, NULL);
    for (int i = 0; i < 4; i++) {
        run_waiting(s.gpu.manager, NULL, PATIENCE_NS);
        run_flag_in_that_shape(s.other);
        assert_int_equal(seen_at_the_end(), IN_TIME);
        clear();
    }
    close_scene();
}

static void test_graphs_of_two_partitions_overlap(void **state)
{
    (void)state;
    open_scene(true);
    get_ready(NULL, s.critical);
    for (int i = 0; i < 4; i++) {
        run_waiting(s.gpu.manager, NULL, PATIENCE_NS);
        run_flag(s.other, s.critical);
        assert_int_equal(seen_at_the_end(), IN_TIME);
        clear();
    }
    close_scene();
}

static void test_graphs_of_independent_steps_overlap(void **state)
{
    (void)state;
    open_scene(false);
    gantry_taskman_destroy(s.other);
    gantry_taskman_options manager = GANTRY_TASKMAN_OPTIONS_INIT;
    manager.cpu_dispatcher = s.gpu.cpus;
    manager.gpu_dispatcher = gantry_context_dispatcher(s.gpu.context);
    manager.independent_steps = 1;
    assert_ok(gantry_taskman_create(&manager, &s.other));
    get_ready(NULL, NULL);
    for (int i = 0; i < 4; i++) {
        run_waiting(s.other, NULL, PATIENCE_NS);
        run_flag(s.other, NULL);
        assert_int_equal(seen_at_the_end(), IN_TIME);
        clear();
    }
    close_scene();
}

/* They are started as a group, and so are ready at once: each has a graph of its own. */
static void test_a_graph_holds_one_managers_work(void **state)
{
    (void)state;
    static uint64_t patience = PATIENCE_NS;
    open_scene(true);
    gantry_dispatcher *d = gantry_context_dispatcher(s.gpu.context);
    get_ready(NULL, NULL);
    get_ready(s.critical, s.critical);
    for (int i = 0; i < 3; i++) {
        uint64_t graphs = gpu_fixture_stats(&s.gpu).graph_launches;
        for (uintptr_t t = 0; t < WIDTH; t++) {
            (void)add(s.gpu.manager, NULL, launch_stamp, (void *)(8 + t));
            (void)add(s.other, NULL, launch_stamp, (void *)(16 + t));
            (void)add(s.other, s.critical, launch_stamp, (void *)(24 + t));
        }
        (void)add(s.gpu.manager, NULL, launch_await, &patience);
        (void)add(s.other, s.critical, launch_flag, NULL);
        gantry_dispatcher_start_group(d);
        assert_ok(gantry_taskman_start(s.gpu.manager));
        assert_ok(gantry_taskman_start(s.other));
        gantry_dispatcher_finish_group(d);
        assert_ok(gantry_taskman_stop(s.gpu.manager));
        assert_ok(gantry_taskman_stop(s.other));
        assert_ok(gantry_taskman_reset(s.gpu.manager));
        assert_ok(gantry_taskman_reset(s.other));
        assert_int_equal(seen_at_the_end(), IN_TIME);
        /* the batch is cut for a waiting thread, so there are more */
        assert_true(gpu_fixture_stats(&s.gpu).graph_launches >= graphs + 3);
        clear();
    }
    close_scene();
}

static gantry_status note_run(gantry_task *task, void *arg)
{
    (void)task;
    atomic_store((_Atomic(bool) *)arg, true);
    return GANTRY_OK;
}

static gantry_launch_result launch_told(gantry_launch *launch, void *arg)
{
    return launch_stamp(launch, NULL) == GANTRY_LAUNCH_DONE &&
                   gantry_launch_add_completion(launch, arg) == GANTRY_OK
               ? GANTRY_LAUNCH_DONE
               : GANTRY_LAUNCH_FAILED;
}

/* The end of a graph is told while another one runs on. */
static void test_completions_do_not_wait_for_others_graphs(void **state)
{
    (void)state;
    open_scene(false);
    get_ready(NULL, NULL);
    for (int i = 0; i < 3; i++) {
        _Atomic(bool) told[WIDTH] = {false};
        run_waiting(s.gpu.manager, NULL, PATIENCE_NS);
        for (int t = 0; t < WIDTH; t++) {
            gantry_task_desc desc = GANTRY_TASK_DESC_INIT;
            gantry_task *then;
            desc.run = note_run;
            desc.arg = &told[t];
            assert_ok(gantry_taskman_submit(s.other, &desc, &then));
            assert_ok(gantry_task_start_after(then, add(s.other, NULL, launch_told, then)));
        }
        run(s.other); /* with the CPU tasks */
        assert_int_equal(cell(SEEN), 0);
        for (int t = 0; t < WIDTH; t++) {
            assert_true(atomic_load(&told[t]));
        }
        __atomic_store_n(&s.stamps.cells[FLAG], 1u, __ATOMIC_RELEASE);
        assert_int_equal(seen_at_the_end(), IN_TIME);
        clear();
    }
    close_scene();
}

static struct {
    struct gy_graphs *graphs;
    _Atomic(bool) may_end, has_ended, was_waited_for;
} between;

static gantry_status do_nothing(gantry_task *task, void *arg)
{
    (void)task;
    (void)arg;
    return GANTRY_OK;
}

static void *end_others_step(void *arg)
{
    gantry_task_desc desc = GANTRY_TASK_DESC_INIT;
    gantry_task *task;
    (void)arg;
    desc.run = do_nothing;
    assert_ok(gantry_taskman_submit(s.other, &desc, &task));
    deadline_await(atomic_load(&between.may_end), "the batch to be open");
    run(s.other);
    atomic_store(&between.has_ended, true);
    return NULL;
}

/* Its batch stays open until the other manager's step has ended, or waits for it. */
static gantry_launch_result launch_between(gantry_launch *launch, void *arg)
{
    atomic_store(&between.may_end, true);
    deadline_await(atomic_load(&between.has_ended) || atomic_load(&between.graphs->waiting) != 0,
                   "the end of another manager's step");
    atomic_store(&between.was_waited_for, !atomic_load(&between.has_ended));
    return launch_stamp(launch, arg);
}

/* The end of a step waits for the step's own work alone. */
static void test_the_end_of_a_step_cuts_no_others_batch(void **state)
{
    (void)state;
    open_scene(false);
    get_ready(NULL, NULL);
    between.graphs = &gantry_context_dispatcher(s.gpu.context)->graphs;
    atomic_store(&between.may_end, false);
    atomic_store(&between.has_ended, false);
    uint64_t cuts = gpu_fixture_stats(&s.gpu).graph_cuts;
    pthread_t thread;
    assert_int_equal(pthread_create(&thread, NULL, end_others_step, NULL), 0);
    gantry_task *first = add(s.gpu.manager, NULL, launch_stamp, (void *)1);
    gantry_task *second = add(s.gpu.manager, NULL, launch_between, (void *)2);
    assert_ok(gantry_task_start_after(second, first));
    assert_ok(gantry_task_start_after(add(s.gpu.manager, NULL, launch_stamp, (void *)3), second));
    run(s.gpu.manager);
    assert_int_equal(pthread_join(thread, NULL), 0);
    assert_false(atomic_load(&between.was_waited_for));
    assert_int_equal(gpu_fixture_stats(&s.gpu).graph_cuts, cuts);
    close_scene();
}

/* ---- what does not ------------------------------------------------------------------------------ */

static void test_graphs_of_a_managers_steps_do_not_overlap(void **state)
{
    (void)state;
    open_scene(true);
    get_ready(NULL, s.critical);
    for (int i = 0; i < 2; i++) {
        run_waiting(s.gpu.manager, NULL, MOMENT_NS);
        run_flag(s.gpu.manager, i == 0 ? NULL : s.critical);
        assert_int_equal(seen_at_the_end(), NEVER);
        clear();
    }
    close_scene();
}

/* The order goes over streams between two graphs, and the other way round. */
static void test_steps_in_both_ways_keep_their_order(void **state)
{
    (void)state;
    gantry_dispatcher *d;
    open_scene(false);
    d = gantry_context_dispatcher(s.gpu.context);
    get_ready(NULL, NULL);
    for (int i = 0; i < 4; i++) {
        assert_ok(gantry_dispatcher_set_submission(d, i % 2 == 0 ? GANTRY_SUBMISSION_GRAPHS
                                                                 : GANTRY_SUBMISSION_STREAMS));
        run_waiting(s.gpu.manager, NULL, MOMENT_NS);
        run_flag(s.other, NULL); /* a third task beside it has its own streams in between */
        __atomic_store_n(&s.stamps.cells[FLAG], 0u, __ATOMIC_RELEASE);
        assert_ok(gantry_dispatcher_set_submission(d, i % 2 == 0 ? GANTRY_SUBMISSION_STREAMS
                                                                 : GANTRY_SUBMISSION_GRAPHS));
        clear();
        run_waiting(s.gpu.manager, NULL, MOMENT_NS);
        run_flag(s.gpu.manager, NULL);
        assert_int_equal(seen_at_the_end(), NEVER);
        clear();
    }
    close_scene();
}

/* It sets the flag in its second call. */
static gantry_launch_result launch_flag_later(gantry_launch *launch, void *arg)
{
    return gantry_launch_index(launch) == 0 ? GANTRY_LAUNCH_AGAIN : launch_flag(launch, arg);
}

/* Its first call is part of the graph that it comes after and enqueues nothing; then another graph is
 * launched, whose home is another task's stream. */
static void test_a_task_that_goes_on_in_another_graph_keeps_its_order(void **state)
{
    (void)state;
    static uint64_t moment = MOMENT_NS;
    open_scene(true);
    struct gantry_dispatcher *d = gantry_context_dispatcher(s.gpu.context);
    get_ready(NULL, s.critical);
    deadline_await(gy_inbox_borrow(&d->inbox), "the dispatcher to sleep"); /* the next work is its own */
    gy_graphs_set_trust(&d->graphs, launch_flag_later, GY_TRUST_OURS);
    d->graphs.first_calls = 2; /* the graph ends behind that call */
    gy_inbox_give_back(&d->inbox, 0, true, true);
    for (int i = 0; i < 3; i++) {
        gantry_task *first = add(s.gpu.manager, NULL, launch_await, &moment);
        gantry_task *second = add(s.gpu.manager, s.critical, launch_flag_later, NULL);
        (void)add(s.gpu.manager, s.critical, launch_stamp, (void *)3);
        assert_ok(gantry_task_start_after(second, first));
        gantry_dispatcher_start_group(gantry_context_dispatcher(s.gpu.context));
        assert_ok(gantry_taskman_start(s.gpu.manager));
        gantry_dispatcher_finish_group(gantry_context_dispatcher(s.gpu.context));
        assert_ok(gantry_taskman_stop(s.gpu.manager));
        assert_ok(gantry_taskman_reset(s.gpu.manager));
        assert_int_equal(seen_at_the_end(), NEVER);
        clear();
    }
    close_scene();
}

/* ---- whole partitions ---------------------------------------------------------------------------- */

static void *set_flag_late(void *arg)
{
    (void)arg;
    for (uint64_t i = 0; i < 200; i++) {
        sched_yield();
    }
    __atomic_store_n(&s.stamps.cells[FLAG], 1u, __ATOMIC_RELEASE);
    return NULL;
}

static void test_a_partition_is_waited_for_with_its_graphs_alone(void **state)
{
    (void)state;
    open_scene(true);
    get_ready(NULL, s.critical);
    gantry_partition *rest = gantry_partition_default(s.gpu.context);
    for (int i = 0; i < 3; i++) {
        run_waiting(s.gpu.manager, NULL, PATIENCE_NS);
        (void)add(s.other, s.critical, launch_stamp, (void *)2);
        run(s.other);
        uint32_t before = cell(TICKS + 5);
        assert_ok(gantry_partition_synchronize(s.critical));
        assert_int_equal(cell(SEEN), 0);
        assert_true(i == 0 || cell(TICKS + 5) >= before);
        pthread_t thread;
        assert_int_equal(pthread_create(&thread, NULL, set_flag_late, NULL), 0);
        assert_ok(gantry_partition_synchronize(rest));
        assert_int_equal(cell(SEEN), IN_TIME);
        assert_int_equal(pthread_join(thread, NULL), 0);
        clear();
    }
    close_scene();
}

/* A graph with work in two partitions, joined by an edge, is waited for together with either. */
static void test_a_graph_of_two_partitions_is_part_of_both(void **state)
{
    (void)state;
    static uint64_t patience = PATIENCE_NS;
    open_scene(true);
    get_ready(NULL, s.critical);
    for (int i = 0; i < 4; i++) {
        gantry_task *first = add(s.gpu.manager, i % 2 == 0 ? NULL : s.critical, launch_stamp, (void *)1);
        gantry_task *second = add(s.gpu.manager, i % 2 == 0 ? s.critical : NULL, launch_await, &patience);
        assert_ok(gantry_task_start_after(second, first));
        run(s.gpu.manager);
        pthread_t thread;
        assert_int_equal(pthread_create(&thread, NULL, set_flag_late, NULL), 0);
        assert_ok(
            gantry_partition_synchronize(i % 2 == 0 ? s.critical : gantry_partition_default(s.gpu.context)));
        assert_int_equal(cell(SEEN), IN_TIME);
        assert_int_equal(pthread_join(thread, NULL), 0);
        clear();
    }
    close_scene();
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_graphs_of_two_managers_overlap),
        cmocka_unit_test(test_graphs_of_one_shape_overlap),
        cmocka_unit_test(test_graphs_of_two_partitions_overlap),
        cmocka_unit_test(test_graphs_of_independent_steps_overlap),
        cmocka_unit_test(test_a_graph_holds_one_managers_work),
        cmocka_unit_test(test_completions_do_not_wait_for_others_graphs),
        cmocka_unit_test(test_the_end_of_a_step_cuts_no_others_batch),
        cmocka_unit_test(test_graphs_of_a_managers_steps_do_not_overlap),
        cmocka_unit_test(test_steps_in_both_ways_keep_their_order),
        cmocka_unit_test(test_a_task_that_goes_on_in_another_graph_keeps_its_order),
        cmocka_unit_test(test_a_partition_is_waited_for_with_its_graphs_alone),
        cmocka_unit_test(test_a_graph_of_two_partitions_is_part_of_both),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
