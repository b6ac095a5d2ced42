/* SPDX-License-Identifier: MIT */
/* Graphs run beside each other unless an edge, or the order of a manager's steps, is between them. */
#include "context/context.h"
#include "dispatcher/internal.h"
#include "order_kernels.kernels.h"
#include "tests/dispatcher/two_managers.h"
#include "tests/support/cmocka_c11.h"
#include "tests/support/deadline.h"

#include <pthread.h>
#include <sched.h>
#include <stdatomic.h>
#include <string.h>

enum { FLAG = 100, SEEN = 101, TICKS = 102, WIDTH = 4 };
enum { NEVER = 1, IN_TIME = 2 }; /* the values of the flag, as `await_flag` reports them */

#define PATIENCE_NS UINT64_C(20000000000) /* how long a kernel waits for an event that has to come */
#define MOMENT_NS UINT64_C(30000000)      /* how long a kernel waits for an event that must not come */

static struct {
    struct two_managers m;
    gantry_kernel *await;
} s;

/* ---- the scene ------------------------------------------------------------------------------ */

/* A partition "critical" beside the rest when `is_planned`. */
static void open_scene(bool is_planned)
{
    gantry_module *module;
    two_managers_open(&s.m, is_planned, 0, 1024);
    assert_ok(gantry_module_load(s.m.gpu.context, &gantry_image_order_kernels, &module));
    assert_ok(gantry_module_get_kernel(module, "await_flag", &s.await));
}

static uint32_t cell(uint32_t index)
{
    return __atomic_load_n(&s.m.stamps.cells[index], __ATOMIC_ACQUIRE);
}

static gantry_launch_result launch_stamp(gantry_launch *launch, void *arg)
{
    (void)arg;
    uint32_t at = TICKS + 2 * (uint32_t)(uintptr_t)arg;
    return two_managers_stamp(&s.m, launch, at, at + 1);
}

/* A kernel sets the flag. */
static gantry_launch_result launch_flag(gantry_launch *launch, void *arg)
{
    (void)arg;
    return two_managers_stamp(&s.m, launch, TICKS, FLAG);
}

/* A kernel waits so long for the flag. */
static gantry_launch_result launch_await(gantry_launch *launch, void *arg)
{
    const uint64_t *most_ns = arg;
    return stamps_await(&s.m.stamps, launch, s.await, FLAG, *most_ns);
}

static void clear(void)
{
    assert_ok(gantry_context_synchronize(s.m.gpu.context));
    __atomic_store_n(&s.m.stamps.cells[FLAG], 0u, __ATOMIC_RELEASE);
    __atomic_store_n(&s.m.stamps.cells[SEEN], 0u, __ATOMIC_RELEASE);
}

/* A step of some tasks, one of which waits for the flag; those behind it are of the same graph. */
static void run_waiting(gantry_taskman *manager, gantry_partition *partition, uint64_t most_ns)
{
    static uint64_t most[2];
    uint64_t *slot = &most[most_ns == PATIENCE_NS];
    *slot = most_ns;
    gantry_task *waiter = submit_kernel(manager, partition, launch_await, slot);
    for (uintptr_t i = 0; i < WIDTH; i++) {
        gantry_task *beside = submit_kernel(manager, partition, launch_stamp, (void *)(8 + i));
        if (i % 2 == 0) {
            assert_ok(gantry_task_start_after(beside, waiter));
        }
    }
    run_step(manager);
}

/* Run a step of the same shape as that of run_waiting(), with one task that sets the flag. */
static void run_flag_in_that_shape(gantry_taskman *manager)
{
    gantry_task *flag = submit_kernel(manager, NULL, launch_flag, NULL);
    for (uintptr_t i = 0; i < WIDTH; i++) {
        gantry_task *beside = submit_kernel(manager, NULL, launch_stamp, (void *)(16 + i));
        if (i % 2 == 0) {
            assert_ok(gantry_task_start_after(beside, flag));
        }
    }
    run_step(manager);
}

static void run_flag(gantry_taskman *manager, gantry_partition *partition)
{
    (void)submit_kernel(manager, partition, launch_stamp, (void *)1);
    (void)submit_kernel(manager, partition, launch_flag, NULL);
    run_step(manager);
}

static uint32_t seen_at_the_end(void)
{
    assert_ok(gantry_context_synchronize(s.m.gpu.context));
    return cell(SEEN);
}

/* The first call of each function is captured alone, which makes another graph: so everything is done once
 * before. */
static void get_ready(gantry_partition *one, gantry_partition *two)
{
    for (int i = 0; i < 2; i++) {
        run_flag(s.m.other, two);
        run_waiting(s.m.gpu.manager, one, PATIENCE_NS);
        clear();
    }
}

/* ---- what runs beside each other -------------------------------------------------------------- */

static void test_graphs_of_two_managers_overlap(void **state)
{
    (void)state;
    open_scene(false);
    get_ready(NULL, NULL);
    uint64_t graphs = gpu_fixture_stats(&s.m.gpu).graph_launches;
    for (int i = 0; i < 4; i++) {
        run_waiting(s.m.gpu.manager, NULL, PATIENCE_NS);
        run_flag(s.m.other, NULL);
        assert_int_equal(seen_at_the_end(), IN_TIME);
        clear();
    }
    assert_true(gpu_fixture_stats(&s.m.gpu).graph_launches >= graphs + 4 * 2);
    two_managers_close(&s.m);
}

/* An executable graph runs once at a time, so each needs one of its own. */
static void test_graphs_of_one_shape_overlap(void **state)
{
    (void)state;
    open_scene(false);
    get_ready(NULL, NULL);
    for (int i = 0; i < 4; i++) {
        run_waiting(s.m.gpu.manager, NULL, PATIENCE_NS);
        run_flag_in_that_shape(s.m.other);
        assert_int_equal(seen_at_the_end(), IN_TIME);
        clear();
    }
    two_managers_close(&s.m);
}

static void test_graphs_of_two_partitions_overlap(void **state)
{
    (void)state;
    open_scene(true);
    get_ready(NULL, s.m.critical);
    for (int i = 0; i < 4; i++) {
        run_waiting(s.m.gpu.manager, NULL, PATIENCE_NS);
        run_flag(s.m.other, s.m.critical);
        assert_int_equal(seen_at_the_end(), IN_TIME);
        clear();
    }
    two_managers_close(&s.m);
}

static void test_graphs_of_independent_steps_overlap(void **state)
{
    (void)state;
    open_scene(false);
    gantry_taskman_destroy(s.m.other);
    gantry_taskman_options manager = GANTRY_TASKMAN_OPTIONS_INIT;
    manager.cpu_dispatcher = s.m.gpu.cpus;
    manager.gpu_dispatcher = gantry_context_dispatcher(s.m.gpu.context);
    manager.independent_steps = 1;
    assert_ok(gantry_taskman_create(&manager, &s.m.other));
    get_ready(NULL, NULL);
    for (int i = 0; i < 4; i++) {
        run_waiting(s.m.other, NULL, PATIENCE_NS);
        run_flag(s.m.other, NULL);
        assert_int_equal(seen_at_the_end(), IN_TIME);
        clear();
    }
    two_managers_close(&s.m);
}

/* They are started as a group, and so are ready at once: each has a graph of its own. */
static void test_a_graph_holds_one_managers_work(void **state)
{
    (void)state;
    static uint64_t patience = PATIENCE_NS;
    open_scene(true);
    gantry_dispatcher *d = gantry_context_dispatcher(s.m.gpu.context);
    get_ready(NULL, NULL);
    get_ready(s.m.critical, s.m.critical);
    for (int i = 0; i < 3; i++) {
        uint64_t graphs = gpu_fixture_stats(&s.m.gpu).graph_launches;
        for (uintptr_t t = 0; t < WIDTH; t++) {
            (void)submit_kernel(s.m.gpu.manager, NULL, launch_stamp, (void *)(8 + t));
            (void)submit_kernel(s.m.other, NULL, launch_stamp, (void *)(16 + t));
            (void)submit_kernel(s.m.other, s.m.critical, launch_stamp, (void *)(24 + t));
        }
        (void)submit_kernel(s.m.gpu.manager, NULL, launch_await, &patience);
        (void)submit_kernel(s.m.other, s.m.critical, launch_flag, NULL);
        gantry_dispatcher_start_group(d);
        assert_ok(gantry_taskman_start(s.m.gpu.manager));
        assert_ok(gantry_taskman_start(s.m.other));
        gantry_dispatcher_finish_group(d);
        assert_ok(gantry_taskman_stop(s.m.gpu.manager));
        assert_ok(gantry_taskman_stop(s.m.other));
        assert_ok(gantry_taskman_reset(s.m.gpu.manager));
        assert_ok(gantry_taskman_reset(s.m.other));
        assert_int_equal(seen_at_the_end(), IN_TIME);
        /* the batch is cut for a waiting thread, so there are more */
        assert_true(gpu_fixture_stats(&s.m.gpu).graph_launches >= graphs + 3);
        clear();
    }
    two_managers_close(&s.m);
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
        run_waiting(s.m.gpu.manager, NULL, PATIENCE_NS);
        for (int t = 0; t < WIDTH; t++) {
            gantry_task_desc desc = GANTRY_TASK_DESC_INIT;
            gantry_task *then;
            desc.run = note_run;
            desc.arg = &told[t];
            assert_ok(gantry_taskman_submit(s.m.other, &desc, &then));
            assert_ok(gantry_task_start_after(then, submit_kernel(s.m.other, NULL, launch_told, then)));
        }
        run_step(s.m.other); /* with the CPU tasks */
        assert_int_equal(cell(SEEN), 0);
        for (int t = 0; t < WIDTH; t++) {
            assert_true(atomic_load(&told[t]));
        }
        __atomic_store_n(&s.m.stamps.cells[FLAG], 1u, __ATOMIC_RELEASE);
        assert_int_equal(seen_at_the_end(), IN_TIME);
        clear();
    }
    two_managers_close(&s.m);
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
    assert_ok(gantry_taskman_submit(s.m.other, &desc, &task));
    deadline_await(atomic_load(&between.may_end), "the batch to be open");
    run_step(s.m.other);
    atomic_store(&between.has_ended, true);
    return NULL;
}

/* Its batch stays open until the other manager's step has ended, or waits for it. */
static gantry_launch_result launch_between(gantry_launch *launch, void *arg)
{
    atomic_store(&between.may_end, true);
    deadline_await(atomic_load(&between.has_ended) || atomic_load(&between.graphs->gate.waiting) != 0,
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
    between.graphs = &gantry_context_dispatcher(s.m.gpu.context)->graphs;
    atomic_store(&between.may_end, false);
    atomic_store(&between.has_ended, false);
    uint64_t cuts = gpu_fixture_stats(&s.m.gpu).graph_cuts;
    pthread_t thread;
    assert_int_equal(pthread_create(&thread, NULL, end_others_step, NULL), 0);
    gantry_task *first = submit_kernel(s.m.gpu.manager, NULL, launch_stamp, (void *)1);
    gantry_task *second = submit_kernel(s.m.gpu.manager, NULL, launch_between, (void *)2);
    assert_ok(gantry_task_start_after(second, first));
    assert_ok(gantry_task_start_after(submit_kernel(s.m.gpu.manager, NULL, launch_stamp, (void *)3), second));
    run_step(s.m.gpu.manager);
    assert_int_equal(pthread_join(thread, NULL), 0);
    assert_false(atomic_load(&between.was_waited_for));
    assert_int_equal(gpu_fixture_stats(&s.m.gpu).graph_cuts, cuts);
    two_managers_close(&s.m);
}

/* ---- what does not ------------------------------------------------------------------------------ */

static void test_graphs_of_a_managers_steps_do_not_overlap(void **state)
{
    (void)state;
    open_scene(true);
    get_ready(NULL, s.m.critical);
    for (int i = 0; i < 2; i++) {
        run_waiting(s.m.gpu.manager, NULL, MOMENT_NS);
        run_flag(s.m.gpu.manager, i == 0 ? NULL : s.m.critical);
        assert_int_equal(seen_at_the_end(), NEVER);
        clear();
    }
    two_managers_close(&s.m);
}

/* The order goes over streams between two graphs, and the other way round. */
static void test_steps_in_both_ways_keep_their_order(void **state)
{
    (void)state;
    gantry_dispatcher *d;
    open_scene(false);
    d = gantry_context_dispatcher(s.m.gpu.context);
    get_ready(NULL, NULL);
    for (int i = 0; i < 4; i++) {
        assert_ok(gantry_dispatcher_set_submission(d, i % 2 == 0 ? GANTRY_SUBMISSION_GRAPHS
                                                                 : GANTRY_SUBMISSION_STREAMS));
        run_waiting(s.m.gpu.manager, NULL, MOMENT_NS);
        run_flag(s.m.other, NULL); /* a third task beside it has its own streams in between */
        __atomic_store_n(&s.m.stamps.cells[FLAG], 0u, __ATOMIC_RELEASE);
        assert_ok(gantry_dispatcher_set_submission(d, i % 2 == 0 ? GANTRY_SUBMISSION_STREAMS
                                                                 : GANTRY_SUBMISSION_GRAPHS));
        clear();
        run_waiting(s.m.gpu.manager, NULL, MOMENT_NS);
        run_flag(s.m.gpu.manager, NULL);
        assert_int_equal(seen_at_the_end(), NEVER);
        clear();
    }
    two_managers_close(&s.m);
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
    struct gantry_dispatcher *d = gantry_context_dispatcher(s.m.gpu.context);
    get_ready(NULL, s.m.critical);
    deadline_await(gy_inbox_borrow(&d->inbox), "the dispatcher to sleep"); /* the next work is its own */
    gy_trusts_set(&d->graphs.trusts, launch_flag_later, GY_TRUST_OURS);
    d->graphs.size.first_calls = 2; /* the graph ends behind that call */
    gy_inbox_give_back(&d->inbox, 0, true, true);
    for (int i = 0; i < 3; i++) {
        gantry_task *first = submit_kernel(s.m.gpu.manager, NULL, launch_await, &moment);
        gantry_task *second = submit_kernel(s.m.gpu.manager, s.m.critical, launch_flag_later, NULL);
        (void)submit_kernel(s.m.gpu.manager, s.m.critical, launch_stamp, (void *)3);
        assert_ok(gantry_task_start_after(second, first));
        gantry_dispatcher_start_group(gantry_context_dispatcher(s.m.gpu.context));
        assert_ok(gantry_taskman_start(s.m.gpu.manager));
        gantry_dispatcher_finish_group(gantry_context_dispatcher(s.m.gpu.context));
        assert_ok(gantry_taskman_stop(s.m.gpu.manager));
        assert_ok(gantry_taskman_reset(s.m.gpu.manager));
        assert_int_equal(seen_at_the_end(), NEVER);
        clear();
    }
    two_managers_close(&s.m);
}

/* ---- whole partitions ---------------------------------------------------------------------------- */

static void *set_flag_late(void *arg)
{
    (void)arg;
    for (uint64_t i = 0; i < 200; i++) {
        sched_yield();
    }
    __atomic_store_n(&s.m.stamps.cells[FLAG], 1u, __ATOMIC_RELEASE);
    return NULL;
}

static void test_a_partition_is_waited_for_with_its_graphs_alone(void **state)
{
    (void)state;
    open_scene(true);
    get_ready(NULL, s.m.critical);
    gantry_partition *rest = gantry_partition_default(s.m.gpu.context);
    for (int i = 0; i < 3; i++) {
        run_waiting(s.m.gpu.manager, NULL, PATIENCE_NS);
        (void)submit_kernel(s.m.other, s.m.critical, launch_stamp, (void *)2);
        run_step(s.m.other);
        uint32_t before = cell(TICKS + 5);
        assert_ok(gantry_partition_synchronize(s.m.critical));
        assert_int_equal(cell(SEEN), 0);
        assert_true(i == 0 || cell(TICKS + 5) >= before);
        pthread_t thread;
        assert_int_equal(pthread_create(&thread, NULL, set_flag_late, NULL), 0);
        assert_ok(gantry_partition_synchronize(rest));
        assert_int_equal(cell(SEEN), IN_TIME);
        assert_int_equal(pthread_join(thread, NULL), 0);
        clear();
    }
    two_managers_close(&s.m);
}

/* A graph with work in two partitions, joined by an edge, is waited for together with either. */
static void test_a_graph_of_two_partitions_is_part_of_both(void **state)
{
    (void)state;
    static uint64_t patience = PATIENCE_NS;
    open_scene(true);
    get_ready(NULL, s.m.critical);
    for (int i = 0; i < 4; i++) {
        gantry_task *first =
            submit_kernel(s.m.gpu.manager, i % 2 == 0 ? NULL : s.m.critical, launch_stamp, (void *)1);
        gantry_task *second =
            submit_kernel(s.m.gpu.manager, i % 2 == 0 ? s.m.critical : NULL, launch_await, &patience);
        assert_ok(gantry_task_start_after(second, first));
        run_step(s.m.gpu.manager);
        pthread_t thread;
        assert_int_equal(pthread_create(&thread, NULL, set_flag_late, NULL), 0);
        assert_ok(gantry_partition_synchronize(i % 2 == 0 ? s.m.critical
                                                          : gantry_partition_default(s.m.gpu.context)));
        assert_int_equal(cell(SEEN), IN_TIME);
        assert_int_equal(pthread_join(thread, NULL), 0);
        clear();
    }
    two_managers_close(&s.m);
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
