/* SPDX-License-Identifier: MIT */
/* Ports: whatever becomes of an operation, its task ends once, and only the port's thread calls the table. */
#include "tests/support/deadline.h"
#include "tests/taskman/detached.h"

#include "base/cpus.h"
#include "base/thread.h"

#include <gantry/port.h>

#include <pthread.h>
#include <sys/wait.h>
#include <unistd.h>

enum { MOST = 64 };

/* What becomes of an operation, and what did. */
struct operation {
    int looks;              /* it ends so many looks later; -1: in `start`; NEVER */
    gantry_status begins;   /* `start` returns it */
    gantry_status ends;     /* and with that it ends */
    const char *text;       /* likewise */
    bool is_kept;           /* when it is given up, it is not completed */
    gantry_detached handle; /* the port's thread alone */
    atomic_int begun, told, released, order;
    _Atomic(int) why, result;
};
enum { NEVER = 1 << 30 };

/* A fake of what a port is for; but for the counts, its thread's alone. */
struct engine {
    struct operation *under_way[MOST];
    int count;
    pthread_t thread;
    bool has_thread;
    atomic_int begun, looks, strangers, ended;
};

static void check_thread(struct engine *engine)
{
    if (!engine->has_thread) {
        engine->thread = pthread_self();
        engine->has_thread = true;
    }
    const char *name = gy_thread_name();
    const bool is_ours = name != NULL && strncmp(name, "gantry port ", 12) == 0;
    atomic_fetch_add(&engine->strangers, !is_ours || pthread_equal(engine->thread, pthread_self()) == 0);
}

static gantry_status start(void *user, gantry_task *task, gantry_detached handle)
{
    struct engine *engine = user;
    struct operation *operation = gantry_task_arg(task);
    check_thread(engine);
    atomic_fetch_add(&operation->begun, 1);
    atomic_store(&operation->order, atomic_fetch_add(&engine->begun, 1));
    if (operation->begins != GANTRY_OK) {
        return gantry_fail(operation->begins, operation->text);
    }
    if (operation->looks < 0) {
        return gantry_task_complete(handle, operation->ends, operation->text);
    }
    operation->handle = handle;
    engine->under_way[engine->count++] = operation;
    return GANTRY_OK;
}

static bool look(void *user)
{
    struct engine *engine = user;
    bool has_moved = false;
    check_thread(engine);
    atomic_fetch_add(&engine->looks, 1);
    for (int i = engine->count - 1; i >= 0; i--) {
        struct operation *operation = engine->under_way[i];
        if (operation->looks == NEVER || operation->looks-- > 0) {
            continue;
        }
        operation->looks = 0;
        engine->under_way[i] = engine->under_way[--engine->count];
        has_moved = true;
        atomic_fetch_add(&engine->ended, 1);
        (void)gantry_task_complete(operation->handle, operation->ends, operation->text);
    }
    return has_moved;
}

static void give_up(void *user, gantry_detached handle, gantry_status why)
{
    struct engine *engine = user;
    check_thread(engine);
    for (int i = 0; i < engine->count; i++) {
        struct operation *operation = engine->under_way[i];
        if (operation->handle == handle) {
            engine->under_way[i] = engine->under_way[--engine->count];
            atomic_store(&operation->why, why);
            atomic_fetch_add(&operation->told, 1);
            if (!operation->is_kept) {
                (void)gantry_task_complete(handle, GANTRY_ERR_CANCELLED, "the engine has stopped it");
            }
            return;
        }
    }
}

static gantry_port *new_port(struct engine *engine, const gantry_port_options *options)
{
    gantry_port_ops ops = GANTRY_PORT_OPS_INIT;
    ops.start = start;
    ops.look = look;
    ops.give_up = give_up;
    ops.user = engine;
    gantry_port *port = NULL;
    assert_ok(gantry_port_create(&ops, options, &port));
    return port;
}

static void end_port(gantry_port *port, const struct engine *engine)
{
    assert_ok(gantry_port_destroy(port));
    assert_int_equal(atomic_load(&engine->strangers), 0);
}

static void hear(gantry_task *task, void *arg, gantry_status result)
{
    struct operation *operation = arg;
    (void)task;
    atomic_store(&operation->result, result);
    atomic_fetch_add(&operation->released, 1);
}

static gantry_task *add(gantry_taskman *manager, gantry_port *port, const char *label,
                        struct operation *operation)
{
    gantry_task_desc desc = GANTRY_TASK_DESC_INIT;
    desc.label = label;
    desc.port = port;
    desc.release = hear;
    desc.arg = operation;
    gantry_task *task = NULL;
    assert_ok(gantry_taskman_submit(manager, &desc, &task));
    return task;
}

/* ---- what becomes of an operation ------------------------------------------------------------- */

static gantry_status linger_body(gantry_task *task, void *arg)
{
    (void)task;
    deadline_await(atomic_load((atomic_int *)arg) != 0, "the operations");
    return GANTRY_OK;
}

/* The only worker is busy until all operations have ended, and a chain of them goes on by itself. */
static void test_no_worker_is_in_between(void **state)
{
    (void)state;
    struct fixture f = set_up_workers_only(1);
    struct engine engine = {.count = 0};
    gantry_port *port = new_port(&engine, NULL);
    struct operation chain[4] = {{.looks = 3}, {.looks = 0}, {.looks = -1}, {.looks = 40}};
    gantry_task *tasks[4];
    add_cpu(f.manager, "busy", linger_body, &chain[3].released);
    for (int i = 0; i < 4; i++) {
        tasks[i] = add(f.manager, port, "link", &chain[i]);
        if (i > 0) {
            assert_ok(gantry_task_start_after(tasks[i], tasks[i - 1]));
        }
    }
    assert_int_equal(gantry_task_get_priority(tasks[0]), GANTRY_TASK_PRIORITY_NORMAL);
    assert_ok(gantry_taskman_start(f.manager));
    assert_ok(gantry_taskman_stop(f.manager));
    for (int i = 0; i < 4; i++) {
        assert_int_equal(atomic_load(&chain[i].order), i);
        assert_int_equal(atomic_load(&chain[i].begun), 1);
        assert_int_equal(atomic_load(&chain[i].released), 1);
        assert_int_equal(gantry_task_get_state(tasks[i]), GANTRY_TASK_STATE_DONE);
    }
    end_port(port, &engine);
    tear_down(&f);
}

/* In `start`, by its status and by complete(), and later; inline and with workers. */
static void test_a_failure_brings_its_cause(void **state)
{
    (void)state;
    for (int way = 0; way < 3; way++) {
        struct fixture f = set_up((uint32_t)way);
        struct engine engine = {.count = 0};
        gantry_port *port = new_port(&engine, NULL);
        struct operation operation = {.looks = way == 1 ? -1 : 5,
                                      .begins = way == 0 ? GANTRY_ERR_IO : GANTRY_OK,
                                      .ends = GANTRY_ERR_IO,
                                      .text = "rank 3: tag 17: cut short"};
        struct operation next = {.looks = 0};
        gantry_task *task = add(f.manager, port, "receive", &operation);
        gantry_task *behind = add(f.manager, port, "behind", &next);
        assert_ok(gantry_task_start_after(behind, task));
        assert_ok(gantry_taskman_start(f.manager));
        assert_error(gantry_taskman_stop(f.manager), GANTRY_ERR_IO);
        assert_last_error_has("'receive'");
        assert_last_error_has("rank 3: tag 17: cut short");
        assert_int_equal(gantry_task_result(task), GANTRY_ERR_IO);
        assert_int_equal(gantry_task_result(behind), GANTRY_ERR_TASK_FAILED);
        assert_int_equal(atomic_load(&next.begun), 0);
        assert_int_equal(atomic_load(&next.released), 1);
        end_port(port, &engine);
        tear_down(&f);
    }
}

static const char memory_text[] = "its memory may still be written";

/* The port's thread is the clock: `gantry clock` would be a stranger.  `way` 1: nobody answers. */
static void test_a_time_out_gives_an_operation_up(void **state)
{
    (void)state;
    for (int way = 0; way < 2; way++) {
        struct fixture f = set_up(1);
        struct engine engine = {.count = 0};
        gantry_port_options options = GANTRY_PORT_OPTIONS_INIT;
        options.timeout_ns = 1;
        options.grace_ns = way == 0 ? 600000000000 : 1;
        gantry_port *port = new_port(&engine, &options);
        struct operation operation = {.looks = NEVER, .is_kept = way == 1};
        add(f.manager, port, "silent", &operation);
        assert_ok(gantry_taskman_start(f.manager));
        assert_error(gantry_taskman_stop(f.manager), GANTRY_ERR_TIMED_OUT);
        assert_last_error_has("'silent'");
        assert_last_error_has(way == 0 ? "the engine has stopped it" : memory_text);
        assert_int_equal(atomic_load(&operation.told), 1);
        assert_int_equal(atomic_load(&operation.why), GANTRY_ERR_TIMED_OUT);
        assert_int_equal(atomic_load(&operation.result), GANTRY_ERR_TIMED_OUT);
        end_port(port, &engine);
        tear_down(&f);
    }
}

static atomic_int holds, is_held;

/* The next look is held. */
static gantry_status start_and_hold(void *user, gantry_task *task, gantry_detached handle)
{
    atomic_store(&holds, 1);
    return start(user, task, handle);
}

static bool held_look(void *user)
{
    if (atomic_load(&holds) != 0) {
        atomic_store(&is_held, 1);
        deadline_await(atomic_load(&holds) == 0, "the test");
    }
    return look(user);
}

/* The port's thread is busy: its operation, which is late, stays, though the library's clock releases a
 * detached task that is as late. */
static void test_the_clock_of_others_tells_no_table(void **state)
{
    (void)state;
    struct fixture f = set_up(1);
    struct engine engine = {.count = 0};
    const gantry_port_ops ops = {sizeof(ops), start_and_hold, held_look, give_up, &engine};
    gantry_port_options options = GANTRY_PORT_OPTIONS_INIT;
    gantry_port *port = NULL;
    struct operation operation = {.looks = NEVER};
    struct work detached = {.has_options = true};
    detached.options = (gantry_detach_options){.struct_size = sizeof(detached.options), .timeout_ns = 1};
    detached.options.grace_ns = options.timeout_ns = 1;
    options.grace_ns = 600000000000;
    atomic_store(&is_held, 0);
    assert_ok(gantry_port_create(&ops, &options, &port));
    add(f.manager, port, "the port's", &operation);
    assert_ok(gantry_taskman_start(f.manager));
    deadline_await(atomic_load(&is_held) != 0, "the port's thread");
    gantry_task *task = add_detached(f.manager, "the clock's", &detached);
    assert_ok(gantry_task_remove_reference(task));
    deadline_await(atomic_load(&detached.released) != 0, "the clock");
    assert_int_equal(atomic_load(&operation.told), 0);
    atomic_store(&holds, 0);
    assert_error(gantry_taskman_stop(f.manager), GANTRY_ERR_TIMED_OUT);
    assert_int_equal(atomic_load(&operation.told), 1);
    end_port(port, &engine);
    tear_down(&f);
}

/* Operations under way are given up, and what comes behind them does not begin.  Those of another manager on
 * the same port go on. */
static void test_cancel_gives_the_operations_of_its_manager_up(void **state)
{
    (void)state;
    for (int way = 0; way < 2; way++) {
        struct fixture f = set_up(1);
        gantry_taskman *other = new_manager(f.pool);
        struct engine engine = {.count = 0};
        gantry_port_options options = GANTRY_PORT_OPTIONS_INIT;
        options.grace_ns = way == 0 ? 600000000000 : 1;
        options.wait_mode = way == 0 ? GANTRY_WAIT_BLOCK : GANTRY_WAIT_ADAPTIVE;
        gantry_port *port = new_port(&engine, &options);
        struct operation mine = {.looks = NEVER, .is_kept = way == 1}, behind = {.looks = 0};
        struct operation others = {.looks = NEVER};
        gantry_task *task = add(f.manager, port, "mine", &mine);
        gantry_task *after = add(f.manager, port, "behind", &behind);
        assert_ok(gantry_task_start_after(after, task));
        gantry_task *stays = add(other, port, "stays", &others);
        assert_ok(gantry_taskman_start(other));
        assert_ok(gantry_taskman_start(f.manager));
        deadline_await(gantry_task_get_state(task) == GANTRY_TASK_STATE_AWAITED &&
                           gantry_task_get_state(stays) == GANTRY_TASK_STATE_AWAITED,
                       "the operations");
        assert_ok(gantry_taskman_cancel(f.manager));
        assert_error(gantry_taskman_stop(f.manager), GANTRY_ERR_CANCELLED);
        assert_last_error_has(way == 0 ? "the engine has stopped it" : memory_text);
        assert_int_equal(atomic_load(&mine.told), 1);
        assert_int_equal(atomic_load(&mine.why), GANTRY_ERR_CANCELLED);
        assert_int_equal(atomic_load(&behind.begun), 0);
        assert_int_equal(gantry_task_get_state(stays), GANTRY_TASK_STATE_AWAITED);
        assert_error(gantry_port_destroy(port), GANTRY_ERR_STATE);
        assert_last_error_has("under way: 'stays'");
        assert_ok(gantry_taskman_cancel(other));
        assert_error(gantry_taskman_stop(other), GANTRY_ERR_CANCELLED);
        assert_int_equal(atomic_load(&others.told), 1);
        end_port(port, &engine);
        gantry_taskman_destroy(other);
        tear_down(&f);
    }
}

/* One that waits in the queue when its run is cancelled does not begin. */
static gantry_status held_start(void *user, gantry_task *task, gantry_detached handle)
{
    struct operation *operation = gantry_task_arg(task);
    (void)user;
    atomic_fetch_add(&operation->begun, 1);
    atomic_store(&is_held, 1);
    deadline_await(atomic_load(&holds) == 0, "the test");
    return gantry_task_complete(handle, GANTRY_OK, NULL);
}

static void test_cancel_reaches_the_queue(void **state)
{
    (void)state;
    struct fixture f = set_up(0);
    struct engine engine = {.count = 0};
    gantry_port_ops ops = {.struct_size = sizeof(ops), .start = held_start, .look = look, .user = &engine};
    gantry_port *port = NULL;
    assert_ok(gantry_port_create(&ops, NULL, &port));
    struct operation first = {.looks = 0}, second = {.looks = 0};
    atomic_store(&holds, 1);
    atomic_store(&is_held, 0);
    add(f.manager, port, "first", &first);
    add(f.manager, port, "second", &second);
    assert_ok(gantry_taskman_start(f.manager));
    deadline_await(atomic_load(&is_held) != 0, "the first one");
    assert_error(gantry_port_destroy(port), GANTRY_ERR_STATE);
    assert_ok(gantry_taskman_cancel(f.manager));
    atomic_store(&holds, 0);
    assert_error(gantry_taskman_stop(f.manager), GANTRY_ERR_CANCELLED);
    assert_int_equal(atomic_load(&second.begun), 0);
    assert_int_equal(atomic_load(&second.result), GANTRY_ERR_CANCELLED);
    end_port(port, &engine);
    tear_down(&f);
}

/* ---- graphs ----------------------------------------------------------------------------------- */

/* Three managers, of which one is inline, run frozen graphs of operations and bodies on one port. */
static void run_graphs(void *arg)
{
    gantry_taskman *manager = arg;
    for (int run = 0; run < 20; run++) {
        assert_ok(gantry_taskman_run(manager, 1));
    }
}

static void test_several_managers_share_a_port(void **state)
{
    (void)state;
    enum { MANAGERS = 3, WIDTH = 4 };
    gantry_cpu_dispatcher *pool = new_pool(2, GANTRY_WAIT_DEFAULT);
    struct engine engine = {.count = 0};
    gantry_port *port = new_port(&engine, NULL);
    static struct operation operations[MANAGERS][2 * WIDTH];
    atomic_int bodies = 0;
    gantry_taskman *managers[MANAGERS];
    gy_thread threads[MANAGERS];
    for (int m = 0; m < MANAGERS; m++) {
        managers[m] = new_manager(m == 0 ? NULL : pool);
        for (int i = 0; i < WIDTH; i++) {
            gantry_task *first = add(managers[m], port, "first", &operations[m][2 * i]);
            gantry_task *body = add_cpu(managers[m], NULL, count_body, &bodies);
            gantry_task *second = add(managers[m], port, "second", &operations[m][2 * i + 1]);
            operations[m][2 * i].looks = i % 2 == 0 ? -1 : i;
            assert_ok(gantry_task_start_after(body, first));
            assert_ok(gantry_task_start_after(second, body));
            assert_ok(gantry_task_start_after(second, first));
        }
        assert_ok(gantry_taskman_freeze(managers[m]));
    }
    for (int m = 0; m < MANAGERS; m++) {
        assert_ok(gy_thread_start(&threads[m], "runner", run_graphs, managers[m]));
    }
    for (int m = 0; m < MANAGERS; m++) {
        gy_thread_join(&threads[m]);
        gantry_taskman_destroy(managers[m]);
        for (int i = 0; i < 2 * WIDTH; i++) {
            assert_int_equal(atomic_load(&operations[m][i].begun), 20);
            assert_int_equal(atomic_load(&operations[m][i].released), 20);
        }
    }
    assert_int_equal(atomic_load(&bodies), MANAGERS * WIDTH * 20);
    end_port(port, &engine);
    gantry_cpu_dispatcher_destroy(pool);
    assert_int_equal(gy_alloc_live(), 0);
}

static gantry_status decide_body(gantry_task *task, void *arg)
{
    return atomic_fetch_sub((atomic_int *)arg, 1) > 1 ? gantry_task_choose(task, 0) : GANTRY_OK;
}

/* A loop goes round through an operation, which begins anew in each. */
static void test_loops_go_through_a_port(void **state)
{
    (void)state;
    struct fixture f = set_up(1);
    struct engine engine = {.count = 0};
    gantry_port *port = new_port(&engine, NULL);
    struct operation operation = {.looks = 1};
    atomic_int left = 5;
    gantry_task *task = add(f.manager, port, "body of the loop", &operation);
    gantry_task_desc desc = GANTRY_TASK_DESC_INIT;
    gantry_task *condition = NULL;
    desc.run = decide_body;
    desc.arg = &left;
    desc.is_condition = true;
    assert_ok(gantry_taskman_submit(f.manager, &desc, &condition));
    assert_ok(gantry_task_start_after(condition, task));
    assert_ok(gantry_task_start_after(task, add_sync(f.manager, "entry")));
    assert_ok(gantry_task_start_after(task, condition));
    assert_ok(gantry_taskman_freeze(f.manager));
    assert_ok(gantry_taskman_start_from(f.manager, &task, 1));
    assert_ok(gantry_taskman_stop(f.manager));
    assert_int_equal(atomic_load(&operation.begun), 5);
    end_port(port, &engine);
    tear_down(&f);
}

/* What becomes ready together goes different ways. */
static void test_priorities_beside_a_port(void **state)
{
    (void)state;
    struct fixture f = set_up(1);
    struct engine engine = {.count = 0};
    gantry_port *port = new_port(&engine, NULL);
    struct operation operations[2] = {{.looks = 1}, {.looks = 1}};
    atomic_int bodies = 0;
    gantry_task *first = add_cpu(f.manager, NULL, count_body, &bodies);
    for (int i = 0; i < 4; i++) {
        gantry_task_desc desc = GANTRY_TASK_DESC_INIT;
        gantry_task *task = NULL;
        desc.run = count_body;
        desc.arg = &bodies;
        desc.priority = i == 1 ? GANTRY_TASK_PRIORITY_HIGH : GANTRY_TASK_PRIORITY_LOW;
        if (i % 2 == 0) {
            task = add(f.manager, port, "beside", &operations[i / 2]);
        } else {
            assert_ok(gantry_taskman_submit(f.manager, &desc, &task));
        }
        assert_ok(gantry_task_start_after(task, first));
    }
    assert_ok(gantry_taskman_start(f.manager));
    assert_ok(gantry_taskman_stop(f.manager));
    assert_int_equal(atomic_load(&bodies), 3);
    assert_int_equal(atomic_load(&operations[0].released) + atomic_load(&operations[1].released), 2);
    end_port(port, &engine);
    tear_down(&f);
}

/* Submitted while the manager runs, when the port sleeps and when it is busy; in every mode. */
static void test_late_tasks_come_at_once(void **state)
{
    (void)state;
    for (int mode = GANTRY_WAIT_DEFAULT; mode <= GANTRY_WAIT_ADAPTIVE; mode++) {
        struct fixture f = set_up(1);
        struct engine engine = {.count = 0};
        gantry_port_options options = GANTRY_PORT_OPTIONS_INIT;
        options.wait_mode = (gantry_wait_mode)mode;
        const uint32_t cpu = usable_cpus(&(cpu_set_t){0});
        options.cpus = mode % 2 == 0 ? NULL : &cpu;
        options.cpu_count = mode % 2 == 0 ? 0 : 1;
        gantry_port *port = new_port(&engine, &options);
        struct operation operations[8] = {{.looks = NEVER}};
        assert_ok(gantry_taskman_start(f.manager));
        for (int i = 0; i < 8; i++) {
            operations[i].looks = i % 3 - 1;
            gantry_task *task = add(f.manager, port, "late", &operations[i]);
            const int before = atomic_load(&engine.looks);
            assert_ok(gantry_task_remove_reference(task));
            if (i % 2 == 0) {
                deadline_await(atomic_load(&operations[i].released) == 1, "the operation");
                deadline_await(atomic_load(&engine.looks) >= before + 2, "looks with nothing under way");
            }
        }
        assert_ok(gantry_taskman_stop(f.manager));
        for (int i = 0; i < 8; i++) {
            assert_int_equal(atomic_load(&operations[i].result), GANTRY_OK);
            assert_int_equal(atomic_load(&operations[i].released), 1);
        }
        end_port(port, &engine);
        tear_down(&f);
    }
}

/* ---- a port that is not there ----------------------------------------------------------------- */

/* Also in the place of the task that keeps the worker busy next. */
static void test_tasks_of_a_closed_port_fail(void **state)
{
    (void)state;
    for (uint32_t workers = 0; workers < 2; workers++) {
        struct fixture f = set_up(workers);
        struct engine engine = {.count = 0};
        gantry_port *port = new_port(&engine, NULL);
        struct operation operation = {.looks = 1}, behind = {.looks = 1};
        atomic_int before = 0, after = 0;
        gantry_task *first = add_cpu(f.manager, NULL, count_body, &before);
        gantry_task *task = add(f.manager, port, "too late", &operation);
        gantry_task *last = add(f.manager, port, "behind", &behind);
        assert_ok(gantry_task_start_after(task, first));
        assert_ok(gantry_task_start_after(last, task));
        assert_ok(gantry_task_start_after(add_cpu(f.manager, NULL, count_body, &after), first));
        assert_ok(gantry_taskman_freeze(f.manager));
        assert_ok(gantry_taskman_run(f.manager, 1));
        assert_ok(gantry_port_destroy(port));
        gantry_port *another = new_port(&engine, NULL); /* most likely in the same place */
        for (int run = 2; run < 4; run++) {
            assert_error(gantry_taskman_run(f.manager, 1), GANTRY_ERR_STATE);
            assert_last_error_has("'too late'");
            assert_last_error_has("its port was destroyed");
            assert_int_equal(gantry_task_result(task), GANTRY_ERR_STATE);
            assert_int_equal(gantry_task_result(last), GANTRY_ERR_TASK_FAILED);
            assert_int_equal(atomic_load(&after), run);
            assert_int_equal(atomic_load(&behind.released), run);
        }
        assert_int_equal(atomic_load(&operation.begun), 1);
        assert_ok(gantry_port_destroy(another));
        tear_down(&f);
    }
}

/* Returns the line that did not hold, or 0. */
static int use_behind_the_fork(gantry_port *port, gantry_taskman *manager, const gantry_task *task)
{
    gantry_task_desc desc = GANTRY_TASK_DESC_INIT;
    gantry_task *late = NULL;
    desc.port = port;
    if (gantry_taskman_submit(manager, &desc, &late) != GANTRY_ERR_STATE ||
        strstr(gantry_last_error(), "before the fork") == NULL) {
        return __LINE__ % 200;
    }
    if (gantry_taskman_start(manager) != GANTRY_OK || gantry_taskman_stop(manager) != GANTRY_ERR_STATE ||
        gantry_task_result(task) != GANTRY_ERR_STATE) {
        return __LINE__ % 200;
    }
    return gantry_port_destroy(port) == GANTRY_ERR_STATE ? 0 : __LINE__ % 200;
}

static void test_a_port_does_not_outlive_a_fork(void **state)
{
    (void)state;
    struct fixture f = set_up(0);
    struct engine engine = {.count = 0};
    gantry_port *port = new_port(&engine, NULL);
    struct operation operation = {.looks = 1};
    gantry_task *task = add(f.manager, port, "forked", &operation);
    const pid_t child = fork();
    if (child == 0) {
        (void)alarm(60);
        _exit(use_behind_the_fork(port, f.manager, task));
    }
    int status = 0;
    assert_int_equal(waitpid(child, &status, 0), child);
    assert_int_equal(status, 0);
    assert_ok(gantry_taskman_start(f.manager));
    assert_ok(gantry_taskman_stop(f.manager));
    end_port(port, &engine);
    tear_down(&f);
}

static gantry_status destroy_body(gantry_task *task, void *arg)
{
    (void)task;
    return gantry_port_destroy(arg) == GANTRY_ERR_STATE ? GANTRY_OK : GANTRY_ERR_TASK_FAILED;
}

static void test_bad_calls_change_nothing(void **state)
{
    (void)state;
    struct fixture f = set_up(1);
    struct engine engine = {.count = 0};
    gantry_port *port = new_port(&engine, NULL), *none = NULL;
    struct operation operation = {.looks = 1};
    gantry_task_desc desc = GANTRY_TASK_DESC_INIT;
    gantry_task *task = NULL;
    desc.port = port;
    desc.run = count_body;
    assert_error(gantry_taskman_submit(f.manager, &desc, &task), GANTRY_ERR_INVALID_ARGUMENT);
    desc.run = NULL;
    desc.priority = GANTRY_TASK_PRIORITY_HIGH;
    assert_error(gantry_taskman_submit(f.manager, &desc, &task), GANTRY_ERR_INVALID_ARGUMENT);
    gantry_port_ops ops = GANTRY_PORT_OPS_INIT;
    assert_error(gantry_port_create(&ops, NULL, &none), GANTRY_ERR_INVALID_ARGUMENT);
    assert_null(none);
    assert_ok(gantry_port_destroy(NULL));
    assert_error(gantry_fail(GANTRY_ERR_IO, "100 %s full"), GANTRY_ERR_IO);
    assert_string_equal(gantry_last_error(), "100 %s full [GANTRY_ERR_IO]");
    assert_error(gantry_fail(GANTRY_ERR_CLOSED, NULL), GANTRY_ERR_CLOSED);
    assert_last_error_has("the object is being destroyed");
    assert_error(gantry_fail(GANTRY_OK, "fine"), GANTRY_ERR_INVALID_ARGUMENT);
    add_cpu(f.manager, NULL, destroy_body, port);
    add(f.manager, port, "fine", &operation);
    assert_ok(gantry_taskman_start(f.manager));
    assert_ok(gantry_taskman_stop(f.manager));
    end_port(port, &engine);
    tear_down(&f);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_no_worker_is_in_between),
        cmocka_unit_test(test_a_failure_brings_its_cause),
        cmocka_unit_test(test_a_time_out_gives_an_operation_up),
        cmocka_unit_test(test_the_clock_of_others_tells_no_table),
        cmocka_unit_test(test_cancel_gives_the_operations_of_its_manager_up),
        cmocka_unit_test(test_cancel_reaches_the_queue),
        cmocka_unit_test(test_several_managers_share_a_port),
        cmocka_unit_test(test_loops_go_through_a_port),
        cmocka_unit_test(test_priorities_beside_a_port),
        cmocka_unit_test(test_late_tasks_come_at_once),
        cmocka_unit_test(test_tasks_of_a_closed_port_fail),
        cmocka_unit_test(test_a_port_does_not_outlive_a_fork),
        cmocka_unit_test(test_bad_calls_change_nothing),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
