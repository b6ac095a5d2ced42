/* SPDX-License-Identifier: MIT */
/* task.h, taskman.h: wrong arguments, handles of other managers, wrong states. */
#include "tests/campaign/bad_input.h"

#include "tests/support/cmocka_c11.h"

#include <stdint.h>
#include <stdio.h>
#include <string.h>

static gantry_task_desc described(void)
{
    gantry_task_desc desc = GANTRY_TASK_DESC_INIT;
    desc.run = bad_body;
    return desc;
}

static gantry_task *submitted(gantry_taskman *manager)
{
    gantry_task_desc desc = described();
    gantry_task *task = NULL;
    assert_ok(gantry_taskman_submit(manager, &desc, &task));
    return task;
}

static gantry_taskman *new_manager(void)
{
    gantry_taskman_options options = GANTRY_TASKMAN_OPTIONS_INIT;
    gantry_taskman *manager = NULL;
    assert_ok(gantry_taskman_create(&options, &manager));
    return manager;
}

/* An options struct of a later version: it has a field behind the last one. */
struct later_pool {
    gantry_cpu_dispatcher_options options;
    uint64_t field;
};
struct later_manager {
    gantry_taskman_options options;
    uint64_t field;
};
struct later_desc {
    gantry_task_desc desc;
    uint64_t field;
};

static void pool_rows(void)
{
    gantry_cpu_dispatcher_options options = GANTRY_CPU_DISPATCHER_OPTIONS_INIT;
    gantry_cpu_dispatcher *pool;
    struct later_pool later = {{.struct_size = sizeof(later)}, 1};
    uint32_t cpu = 1000000, limit = 0;
    BAD("`out` NULL", gantry_cpu_dispatcher_create(&options, NULL));
    options.struct_size = 4;
    BAD_OUT("struct_size too small", pool, gantry_cpu_dispatcher_create(&options, &pool));
    BAD_OUT("a field not known", pool, gantry_cpu_dispatcher_create(&later.options, &pool));
    options = (gantry_cpu_dispatcher_options)GANTRY_CPU_DISPATCHER_OPTIONS_INIT;
    options.wait_mode = (gantry_wait_mode)77;
    BAD_OUT("unknown wait mode", pool, gantry_cpu_dispatcher_create(&options, &pool));
    options.wait_mode = GANTRY_WAIT_DEFAULT;
    options.worker_count = 1u << 30;
    BAD_OUT("too many workers", pool, gantry_cpu_dispatcher_create(&options, &pool));
    options.worker_count = 1;
    options.cpu_count = 1;
    options.cpus = &cpu;
    BAD_OUT("a CPU that is not there", pool, gantry_cpu_dispatcher_create(&options, &pool));
    options.cpu_count = 0;
    options.cpus = NULL;
    options.class_count = 1;
    options.class_limits = &limit;
    BAD_OUT("a limit of 0", pool, gantry_cpu_dispatcher_create(&options, &pool));
    options.class_count = 0;
    gantry_cpu_pool_ops host = {.struct_size = 4};
    options.host_pool = &host;
    BAD_OUT("struct_size of the host pool too small", pool, gantry_cpu_dispatcher_create(&options, &pool));
    options.host_pool = NULL;
    options.class_count = limit = 1;
    assert_ok(gantry_cpu_dispatcher_create(&options, &pool));
    BAD("`dispatcher` NULL", gantry_cpu_dispatcher_execute(NULL, NULL));
    gantry_cpu_class_options class = GANTRY_CPU_CLASS_OPTIONS_INIT;
    uint32_t count;
    BAD("`dispatcher` NULL", gantry_cpu_dispatcher_set_class(NULL, 1, &class));
    BAD("`options` NULL", gantry_cpu_dispatcher_set_class(pool, 1, NULL));
    BAD("a class that is not there", gantry_cpu_dispatcher_set_class(pool, 2, &class));
    class.struct_size = 4;
    BAD("struct_size too small", gantry_cpu_dispatcher_set_class(pool, 1, &class));
    BAD("`out_count` NULL", gantry_cpu_cache_domain(0, NULL, 0, NULL));
    BAD("`cpus` NULL, a capacity", gantry_cpu_cache_domain(0, NULL, 1, &count));
    gantry_taskman *manager = new_manager();
    BAD("no host pool", gantry_cpu_dispatcher_execute(pool, submitted(manager)));
    BAD("`dispatcher` NULL", gantry_parallel_for(NULL, 0, 1, 1, bad_range, NULL));
    BAD("`body` NULL", gantry_parallel_for(pool, 0, 1, 1, NULL, NULL));
    BAD("begin > end", gantry_parallel_for(pool, 2, 1, 1, bad_range, NULL));
    gantry_taskman_destroy(manager);
    gantry_cpu_dispatcher_destroy(pool);
    gantry_cpu_dispatcher_destroy(NULL);
    BAD_IGNORED(gantry_cpu_dispatcher_destroy, "NULL");
    BAD_UNCHECKED(gantry_cpu_dispatcher_worker_count, "NULL");
}

static void create_rows(void)
{
    gantry_taskman_options options = GANTRY_TASKMAN_OPTIONS_INIT;
    gantry_taskman *manager;
    struct later_manager later = {{.struct_size = sizeof(later)}, 1};
    BAD("`out` NULL", gantry_taskman_create(&options, NULL));
    BAD_OUT("`options` NULL", manager, gantry_taskman_create(NULL, &manager));
    options.struct_size = 4;
    BAD_OUT("struct_size too small", manager, gantry_taskman_create(&options, &manager));
    BAD_OUT("a field not known", manager, gantry_taskman_create(&later.options, &manager));
    gantry_taskman_destroy(NULL);
    BAD_IGNORED(gantry_taskman_destroy, "NULL");
}

static void submit_after_rows(gantry_taskman *manager, gantry_task *own, gantry_task *foreign)
{
    gantry_task_desc desc = described();
    gantry_task *task, *light, *const none[1] = {NULL};
    assert_ok(gantry_taskman_create_light(manager, bad_body, NULL, "light", NULL, &light));
    BAD_OUT("`manager` NULL", task, gantry_taskman_submit_after(NULL, &desc, &own, 1, &task));
    BAD_OUT("`desc` NULL", task, gantry_taskman_submit_after(manager, NULL, &own, 1, &task));
    BAD_OUT("`predecessors` NULL", task, gantry_taskman_submit_after(manager, &desc, NULL, 1, &task));
    BAD_OUT("a predecessor is NULL", task, gantry_taskman_submit_after(manager, &desc, none, 1, &task));
    BAD_OUT("of another manager", task, gantry_taskman_submit_after(manager, &desc, &foreign, 1, &task));
    BAD_OUT("after a light task", task, gantry_taskman_submit_after(manager, &desc, &light, 1, &task));
    desc.struct_size = 8;
    BAD_OUT("struct_size too small", task, gantry_taskman_submit_after(manager, &desc, &own, 1, &task));
    assert_ok(gantry_task_remove_reference(light));
}

static void submit_rows(gantry_taskman *manager, gantry_taskman *other)
{
    gantry_task_desc desc = described();
    gantry_task *task;
    struct later_desc later = {{.struct_size = sizeof(later), .run = bad_body}, 1};
    BAD_OUT("`manager` NULL", task, gantry_taskman_submit(NULL, &desc, &task));
    BAD_OUT("`desc` NULL", task, gantry_taskman_submit(manager, NULL, &task));
    BAD_OUT("a field not known", task, gantry_taskman_submit(manager, &later.desc, &task));
    desc.struct_size = 8;
    BAD_OUT("struct_size too small", task, gantry_taskman_submit(manager, &desc, &task));
    desc = described();
    desc.kind = (gantry_task_kind)77;
    BAD_OUT("unknown kind", task, gantry_taskman_submit(manager, &desc, &task));
    desc = described();
    desc.name = "";
    BAD_OUT("empty name", task, gantry_taskman_submit(manager, &desc, &task));
    desc = described();
    desc.run = NULL;
    BAD_OUT("`run` NULL", task, gantry_taskman_submit(manager, &desc, &task));
    desc.kind = GANTRY_TASK_KERNEL;
    BAD_OUT("`launch` NULL", task, gantry_taskman_submit(manager, &desc, &task));
    desc = described();
    desc.priority = (gantry_task_priority)77;
    BAD_OUT("unknown priority", task, gantry_taskman_submit(manager, &desc, &task));
    desc = described();
    desc.cpu_class = 3;
    BAD_OUT("a class that is not there", task, gantry_taskman_submit(manager, &desc, &task));
    desc = described();
    desc.memory = 5;
    BAD_OUT("memory that was not declared", task, gantry_taskman_submit(manager, &desc, &task));
    desc = described();
    desc.access_count = 2;
    BAD_OUT("`accesses` NULL", task, gantry_taskman_submit(manager, &desc, &task));
    const gantry_access wraps = {&desc, SIZE_MAX, 1, 0, GANTRY_ACCESS_READ, 0};
    desc.accesses = &wraps;
    desc.access_count = 1;
    BAD_OUT("an access beyond the end of memory", task, gantry_taskman_submit(manager, &desc, &task));
    desc = described();
    desc.calls_say_accesses = true;
    BAD_OUT("calls of a CPU task", task, gantry_taskman_submit(manager, &desc, &task));
    desc = described();
    desc.reserved[sizeof(desc.reserved) - 1] = 1;
    BAD_OUT("`reserved` set", task, gantry_taskman_submit(manager, &desc, &task));
    desc = described();
    desc.name = "twice";
    assert_ok(gantry_taskman_submit(manager, &desc, &task));
    BAD_OUT("a name that is taken", task, gantry_taskman_submit(manager, &desc, &task));
    desc = described();
    submit_after_rows(manager, submitted(manager), submitted(other));
    BAD_OUT("`manager` NULL", task, gantry_taskman_submit_chain(NULL, &desc, 1, &task));
    BAD_OUT("`descs` NULL", task, gantry_taskman_submit_chain(manager, NULL, 1, NULL));
    desc.struct_size = 8;
    BAD("struct_size too small", gantry_taskman_submit_chain(manager, &desc, 1, NULL));
    desc = described();
    BAD_OUT("`manager` NULL", task, gantry_taskman_get_named(NULL, "a", &task));
    BAD_OUT("`name` NULL", task, gantry_taskman_get_named(manager, NULL, &task));
    BAD_OUT("empty name", task, gantry_taskman_get_named(manager, "", &task));
    BAD("`out` NULL", gantry_taskman_get_named(manager, "a", NULL));
}

static void light_rows(gantry_taskman *manager, gantry_taskman *other)
{
    gantry_task *task, *foreign = submitted(other);
    BAD_OUT("`manager` NULL", task, gantry_taskman_create_light(NULL, bad_body, NULL, NULL, NULL, &task));
    BAD_OUT("`run` NULL", task, gantry_taskman_create_light(manager, NULL, NULL, NULL, NULL, &task));
    BAD("`out` NULL", gantry_taskman_create_light(manager, bad_body, NULL, NULL, NULL, NULL));
    BAD_OUT("continuation of another manager", task,
            gantry_taskman_create_light(manager, bad_body, NULL, NULL, foreign, &task));
    BAD("`manager` NULL", gantry_taskman_spawn(NULL, bad_body, NULL, NULL, NULL));
    BAD("`run` NULL", gantry_taskman_spawn(manager, NULL, NULL, NULL, NULL));
    BAD("continuation of another manager", gantry_taskman_spawn(manager, bad_body, NULL, NULL, foreign));
    uint64_t bytes[GANTRY_MEMORY_KIND_COUNT] = {0};
    uint32_t memory = 0;
    BAD("`manager` NULL", gantry_taskman_declare_memory(NULL, bytes, &memory));
    BAD("`bytes` NULL", gantry_taskman_declare_memory(manager, NULL, &memory));
    BAD("`out` NULL", gantry_taskman_declare_memory(manager, bytes, NULL));
    BAD("no GPU dispatcher", gantry_taskman_declare_memory(manager, bytes, &memory));
}

static void access_rows(gantry_taskman *manager)
{
    static char bytes[16];
    gantry_access access = {bytes, sizeof(bytes), 1, 0, GANTRY_ACCESS_READ, 0};
    gantry_task *task = submitted(manager), *light = NULL;
    assert_ok(gantry_taskman_create_light(manager, bad_body, NULL, NULL, NULL, &light));
    BAD("`task` NULL", gantry_task_access(NULL, &access, 1));
    BAD("`accesses` NULL", gantry_task_access(task, NULL, 1));
    BAD("a light task", gantry_task_access(light, &access, 1));
    access.mode = (gantry_access_mode)0;
    BAD("no such mode", gantry_task_access(task, &access, 1));
    access = (gantry_access){NULL, 4, 1, 0, GANTRY_ACCESS_READ, 0};
    BAD("`at` NULL with bytes", gantry_task_access(task, &access, 1));
    access = (gantry_access){bytes, 8, 2, 4, GANTRY_ACCESS_READ, 0};
    BAD("a pitch below the bytes of a row", gantry_task_access(task, &access, 1));
    access = (gantry_access){bytes, SIZE_MAX, 1, 0, GANTRY_ACCESS_READ, 0};
    BAD("beyond the end of memory", gantry_task_access(task, &access, 1));
    assert_ok(gantry_task_remove_reference(light));
    assert_ok(gantry_taskman_reset(manager));
}

static void edge_rows(gantry_taskman *manager, gantry_taskman *other)
{
    gantry_task *task = submitted(manager), *foreign = submitted(other), *light = NULL;
    assert_ok(gantry_taskman_create_light(manager, bad_body, NULL, NULL, NULL, &light));
    BAD("`task` NULL", gantry_task_start_after(NULL, task));
    BAD("`predecessor` NULL", gantry_task_start_after(task, NULL));
    BAD("a task after itself", gantry_task_start_after(task, task));
    BAD("a light task", gantry_task_start_after(task, light));
    BAD("a task of another manager", gantry_task_start_after(task, foreign));
    BAD("`task` NULL", gantry_task_start_after_done(NULL, task));
    BAD("`gpu_task` NULL", gantry_task_start_after_done(task, NULL));
    BAD("a task after itself", gantry_task_start_after_done(task, task));
    BAD("a light task", gantry_task_start_after_done(task, light));
    BAD("a task of another manager", gantry_task_start_after_done(task, foreign));
    BAD("`task` NULL", gantry_task_finish_before(NULL, task));
    BAD("`successor` NULL", gantry_task_finish_before(task, NULL));
    BAD("a task of another manager", gantry_task_finish_before(task, foreign));
    BAD("`task` NULL", gantry_task_add_reference(NULL));
    BAD("`task` NULL", gantry_task_remove_reference(NULL));
    BAD("no reference of the caller", gantry_task_remove_reference(task));
    BAD("`task` NULL", gantry_task_fail_reference(NULL, GANTRY_ERR_IO));
    BAD("`cause` GANTRY_OK", gantry_task_fail_reference(task, GANTRY_OK));
    BAD("`cause` unknown", gantry_task_fail_reference(task, (gantry_status)-77));
    BAD("no reference of the caller", gantry_task_fail_reference(task, GANTRY_ERR_IO));
    BAD("`task` NULL", gantry_task_fail_reference_with(NULL, GANTRY_ERR_IO, "why"));
    BAD("`cause` GANTRY_OK", gantry_task_fail_reference_with(task, GANTRY_OK, "why"));
    BAD("no reference of the caller", gantry_task_fail_reference_with(task, GANTRY_ERR_IO, "why"));
    BAD("`task` NULL", gantry_task_choose(NULL, 0));
    BAD("no condition", gantry_task_choose(task, 0));
    gantry_launch_tasks launches = {.struct_size = sizeof(launches)}, small = {.struct_size = 4};
    BAD("`manager` NULL", gantry_taskman_submit_launch_tasks(NULL, &launches));
    BAD("`out` NULL", gantry_taskman_submit_launch_tasks(manager, NULL));
    BAD("struct_size too small", gantry_taskman_submit_launch_tasks(manager, &small));
    BAD("no GPU dispatcher", gantry_taskman_submit_launch_tasks(manager, &launches));
    gantry_loop_options loops = GANTRY_LOOP_OPTIONS_INIT;
    gantry_loop loop = {.struct_size = sizeof(loop)}, small_loop = {.struct_size = 4};
    gantry_loop_stats turns = {.struct_size = sizeof(turns)};
    loops.word = &turns;
    loops.most = 1;
    BAD("`manager` NULL", gantry_taskman_submit_loop(NULL, &loops, &loop));
    BAD("`options` NULL", gantry_taskman_submit_loop(manager, NULL, &loop));
    BAD("`out` NULL", gantry_taskman_submit_loop(manager, &loops, NULL));
    BAD("struct_size too small", gantry_taskman_submit_loop(manager, &loops, &small_loop));
    BAD("no GPU dispatcher", gantry_taskman_submit_loop(manager, &loops, &loop));
    loops.most = 0;
    BAD("`most` 0", gantry_taskman_submit_loop(manager, &loops, &loop));
    loops.word = NULL;
    BAD("`word` NULL", gantry_taskman_submit_loop(manager, &loops, &loop));
    BAD("`decide` NULL", gantry_loop_cancel(NULL));
    BAD("no task of a loop", gantry_loop_cancel(task));
    BAD("`decide` NULL", gantry_loop_get_stats(NULL, &turns));
    BAD("no task of a loop", gantry_loop_get_stats(task, &turns));
    BAD("`task` NULL", gantry_task_invalidate(NULL));
    BAD("`task` NULL", gantry_task_result(NULL));
    BAD("`task` NULL", gantry_task_set_arg(NULL, NULL));
    assert_ok(gantry_task_remove_reference(light));
}

static void stats_rows(gantry_taskman *manager)
{
    gantry_taskman_stats stats = {.struct_size = sizeof(stats)}, small = {.struct_size = 4};
    BAD("`manager` NULL", gantry_taskman_get_stats(NULL, &stats));
    BAD("`stats` NULL", gantry_taskman_get_stats(manager, NULL));
    BAD("struct_size too small", gantry_taskman_get_stats(manager, &small));
    BAD_IGNORED(gantry_taskman_cpu_dispatcher, "`manager` NULL");
    BAD_IGNORED(gantry_taskman_gpu_dispatcher, "`manager` NULL");
    BAD_IGNORED(gantry_taskman_fleet, "`manager` NULL");
    BAD("`manager` NULL", gantry_taskman_dump_graph(NULL, stdout));
    BAD("`file` NULL", gantry_taskman_dump_graph(manager, NULL));
    FILE *readable = fopen("/dev/null", "r");
    assert_non_null(readable);
    BAD("a file that cannot be written", gantry_taskman_dump_graph(manager, readable));
    assert_int_equal(fclose(readable), 0);
}

/* The manager is BUILDING, then RUNNING, then STOPPED. */
static void state_rows(gantry_taskman *manager)
{
    gantry_task *held = submitted(manager), *hole, *task;
    BAD("`manager` NULL", gantry_taskman_start(NULL));
    gantry_taskman *twice[] = {manager, manager}, *none[] = {manager, NULL};
    BAD("`managers` NULL", gantry_taskman_start_all(NULL, 1));
    BAD("a manager is NULL", gantry_taskman_start_all(none, 2));
    BAD("a manager twice", gantry_taskman_start_all(twice, 2));
    BAD("`manager` NULL", gantry_taskman_wait(NULL));
    BAD("not running", gantry_taskman_wait(manager));
    BAD("`manager` NULL", gantry_taskman_stop(NULL));
    BAD("not running", gantry_taskman_stop(manager));
    BAD("`manager` NULL", gantry_taskman_reset(NULL));
    BAD("`manager` NULL", gantry_taskman_freeze(NULL));
    BAD("`manager` NULL", gantry_taskman_start_from(NULL, &held, 1));
    BAD("not frozen", gantry_taskman_start_from(manager, &held, 1));
    BAD("`manager` NULL", gantry_taskman_run(NULL, 1));
    BAD("not frozen", gantry_taskman_run(manager, 1));
    BAD("`manager` NULL", gantry_taskman_cancel(NULL));
    BAD("not running", gantry_taskman_cancel(manager));
    gantry_task *a = submitted(manager), *b = submitted(manager);
    assert_ok(gantry_task_start_after(a, b));
    assert_ok(gantry_task_start_after(b, a));
    BAD("a cycle", gantry_taskman_start(manager));
    BAD("a cycle", gantry_taskman_start_all(&manager, 1));
    BAD("a cycle", gantry_taskman_freeze(manager));
    assert_ok(gantry_taskman_reset(manager));
    assert_ok(gantry_taskman_get_named(manager, "hole", &hole));
    BAD("a name without a task", gantry_taskman_freeze(manager));
    BAD("a name without a task", gantry_task_set_arg(hole, NULL));
    held = submitted(manager);
    assert_ok(gantry_task_add_reference(held));
    assert_ok(gantry_taskman_start(manager));
    BAD("running", gantry_taskman_start(manager));
    BAD("running", gantry_taskman_start_all(&manager, 1));
    BAD("running", gantry_taskman_reset(manager));
    BAD("running", gantry_taskman_freeze(manager));
    BAD("running", gantry_task_invalidate(held));
    BAD("running", gantry_task_set_arg(held, NULL));
    BAD("running", gantry_task_access(held, NULL, 0));
    assert_ok(gantry_task_remove_reference(held));
    BAD("a name without a task", gantry_taskman_stop(manager));
    gantry_task_desc desc = described();
    BAD("stopped", gantry_taskman_start(manager));
    BAD_OUT("stopped", task, gantry_taskman_submit(manager, &desc, &task));
    BAD_OUT("stopped", task, gantry_taskman_get_named(manager, "late", &task));
    BAD_OUT("stopped", task, gantry_taskman_create_light(manager, bad_body, NULL, NULL, NULL, &task));
    BAD("stopped", gantry_taskman_spawn(manager, bad_body, NULL, NULL, NULL));
    BAD("released", gantry_task_add_reference(held));
    BAD("released", gantry_task_remove_reference(held));
    BAD("released", gantry_task_start_after(held, hole));
    assert_ok(gantry_taskman_reset(manager));
}

static void frozen_rows(gantry_taskman *manager, gantry_taskman *other)
{
    gantry_task *first = submitted(manager), *second = submitted(manager), *foreign = submitted(other);
    assert_ok(gantry_task_start_after(second, first));
    assert_ok(gantry_taskman_freeze(manager));
    BAD("frozen", gantry_taskman_freeze(manager));
    BAD("frozen", gantry_task_start_after(second, first));
    BAD("frozen", gantry_task_access(first, NULL, 0));
    BAD("no task", gantry_taskman_start_from(manager, NULL, 0));
    BAD("a task of another manager", gantry_taskman_start_from(manager, &foreign, 1));
    assert_ok(gantry_taskman_reset(manager));
}

/* In a body: calls that would wait for that body itself. */
static gantry_status wait_in_body(gantry_task *task, void *arg)
{
    gantry_taskman *manager = arg;
    (void)task;
    BAD("called from a task", gantry_taskman_wait(manager));
    BAD("called from a task", gantry_taskman_stop(manager));
    BAD("called from a task", gantry_taskman_freeze(manager));
    BAD("called from a task", gantry_taskman_run(manager, 1));
    BAD_REFUSED("called from a task", gantry_taskman_destroy(manager));
    return GANTRY_OK;
}

static void body_rows(gantry_taskman *manager)
{
    gantry_task_desc desc = described();
    gantry_task *task = NULL;
    desc.run = wait_in_body;
    desc.arg = manager;
    assert_ok(gantry_taskman_submit(manager, &desc, &task));
    assert_ok(gantry_taskman_start(manager));
    assert_ok(gantry_taskman_stop(manager));
    assert_ok(gantry_taskman_reset(manager));
}

static gantry_detached detached; /* of the latest run */

/* In the body of a condition, and then in that of another task. */
static gantry_status detach_in_body(gantry_task *task, void *arg)
{
    gantry_task *other = *(gantry_task **)arg;
    gantry_detached handle;
    if (other == task) {
        BAD("a condition", gantry_task_detach(task, &handle));
        return GANTRY_OK;
    }
    struct {
        gantry_detach_options options;
        uint64_t field;
    } later = {{.struct_size = sizeof(later)}, 1};
    gantry_detach_options small = {.struct_size = 4};
    BAD("`task` NULL", gantry_task_detach(NULL, &handle));
    BAD("`out` NULL", gantry_task_detach(task, NULL));
    BAD("another task", gantry_task_detach(other, &handle));
    BAD("`task` NULL", gantry_task_detach_with(NULL, NULL, &handle));
    BAD("`out` NULL", gantry_task_detach_with(task, NULL, NULL));
    BAD("struct_size too small", gantry_task_detach_with(task, &small, &handle));
    BAD("a field not known", gantry_task_detach_with(task, &later.options, &handle));
    gantry_status status = gantry_task_detach(task, &handle);
    if (status == GANTRY_OK) {
        BAD("detached already", gantry_task_detach(task, &later.field));
        BAD("detached already", gantry_task_detach_with(task, NULL, &later.field));
        BAD("`status` unknown", gantry_task_complete(handle, (gantry_status)-77, NULL));
        detached = handle;
        status = gantry_task_complete(handle, GANTRY_OK, NULL);
        BAD("completed already", gantry_task_complete(handle, GANTRY_OK, NULL));
    }
    return status;
}

static void detach_rows(gantry_taskman *manager)
{
    gantry_task_desc desc = described();
    gantry_task *condition = NULL, *task = NULL;
    desc.run = detach_in_body;
    desc.arg = &condition;
    desc.is_condition = true;
    assert_ok(gantry_taskman_submit(manager, &desc, &condition));
    desc.is_condition = false;
    assert_ok(gantry_taskman_submit(manager, &desc, &task));
    BAD("`handle` 0", gantry_task_complete(0, GANTRY_OK, NULL));
    BAD("of no task", gantry_task_complete(1, GANTRY_OK, NULL));
    assert_ok(gantry_taskman_freeze(manager));
    assert_ok(gantry_taskman_run(manager, 1));
    assert_ok(gantry_taskman_reset(manager));
    BAD("destroyed handle", gantry_task_complete(detached, GANTRY_OK, NULL));
}

static gantry_status start_none(void *user, gantry_task *task, gantry_detached operation)
{
    (void)user;
    (void)task;
    (void)operation;
    return GANTRY_ERR_TASK_FAILED;
}

static bool look_at_none(void *user)
{
    (void)user;
    return false;
}

static void port_rows(gantry_taskman *manager)
{
    gantry_port *port;
    gantry_port_ops none = GANTRY_PORT_OPS_INIT, ops = GANTRY_PORT_OPS_INIT, small = {.struct_size = 4};
    gantry_port_options options = GANTRY_PORT_OPTIONS_INIT;
    ops.start = start_none;
    ops.look = look_at_none;
    BAD_OUT("`ops` NULL", port, gantry_port_create(NULL, NULL, &port));
    BAD("`out` NULL", gantry_port_create(&ops, NULL, NULL));
    BAD_OUT("no functions", port, gantry_port_create(&none, NULL, &port));
    BAD_OUT("struct_size too small", port, gantry_port_create(&small, NULL, &port));
    options.wait_mode = (gantry_wait_mode)77;
    BAD_OUT("unknown wait mode", port, gantry_port_create(&ops, &options, &port));
    options = (gantry_port_options)GANTRY_PORT_OPTIONS_INIT;
    options.cpus = &(uint32_t){1u << 20};
    options.cpu_count = 1;
    BAD_OUT("a CPU that may not be used", port, gantry_port_create(&ops, &options, &port));
    assert_ok(gantry_port_create(&ops, NULL, &port));
    gantry_task_desc desc = described();
    desc.port = port;
    BAD("a port beside `run`", gantry_taskman_submit(manager, &desc, NULL));
    assert_ok(gantry_port_destroy(port));
    BAD_IGNORED(gantry_port_destroy, "NULL");
    BAD("GANTRY_OK", gantry_fail(GANTRY_OK, "fine"));
    BAD("no status", gantry_fail((gantry_status)-77, NULL));
}

static void unchecked_rows(void)
{
    BAD_UNCHECKED(gantry_task_arg, "NULL");
    BAD_UNCHECKED(gantry_task_context_id, "NULL");
    BAD_UNCHECKED(gantry_task_get_kind, "NULL");
    BAD_UNCHECKED(gantry_task_get_priority, "NULL");
    BAD_UNCHECKED(gantry_task_get_state, "NULL");
    BAD_UNCHECKED(gantry_task_label, "NULL");
    BAD_UNCHECKED(gantry_task_manager, "NULL");
    BAD_UNCHECKED(gantry_task_name, "NULL");
    BAD_UNCHECKED(gantry_task_references, "NULL");
}

void bad_tasks(void)
{
    pool_rows();
    create_rows();
    gantry_taskman *manager = new_manager(), *other = new_manager();
    submit_rows(manager, other);
    light_rows(manager, other);
    access_rows(manager);
    edge_rows(manager, other);
    stats_rows(manager);
    assert_ok(gantry_taskman_reset(manager));
    state_rows(manager);
    frozen_rows(manager, other);
    body_rows(manager);
    detach_rows(manager);
    port_rows(manager);
    unchecked_rows();
    gantry_taskman_destroy(manager);
    gantry_taskman_destroy(other);
}
