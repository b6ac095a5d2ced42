/* SPDX-License-Identifier: MIT */
/* Every public function with a handle whose object is gone, and its answer with GANTRY_CHECK=handles. */
#include "tests/campaign/bad_input.h"

#include "campaign_kernels.kernels.h"
#include "tests/support/cmocka_c11.h"

#include <stdio.h>
#include <string.h>

#define GONE "destroyed handle"

static gantry_context *context;
static gantry_fleet *fleet;
static gantry_dispatcher *dispatcher;
static gantry_heap *heap;
static gantry_partition *partition;
static gantry_module *module;
static gantry_kernel *kernel;
static gantry_launch *launch;
static gantry_cpu_dispatcher *pool;
static gantry_taskman *manager;
static gantry_task *task;
static gantry_copy_queue *queue;
static gantry_port *port;
static gantry_ring *ring;
static gantry_profile *profile;

static void release(void *arg)
{
    (void)arg;
}

static gantry_status start_none(void *user, gantry_task *of, gantry_detached operation)
{
    (void)user;
    (void)of;
    (void)operation;
    return GANTRY_ERR_TASK_FAILED;
}

static bool look_at_none(void *user)
{
    (void)user;
    return false;
}

static gantry_launch_result keep_launch(gantry_launch *mine, void *arg)
{
    (void)arg;
    launch = mine;
    return GANTRY_LAUNCH_DONE;
}

static gantry_task *submit(gantry_taskman *to, gantry_task_kind kind)
{
    gantry_task_desc desc = GANTRY_TASK_DESC_INIT;
    gantry_task *made = NULL;
    desc.kind = kind;
    desc.run = kind == GANTRY_TASK_CPU ? bad_body : NULL;
    desc.launch = kind == GANTRY_TASK_CPU ? NULL : keep_launch;
    assert_ok(gantry_taskman_submit(to, &desc, &made));
    return made;
}

/* One object of each kind, used once and destroyed. */
static void make_and_destroy(void)
{
    gantry_context_options options = GANTRY_CONTEXT_OPTIONS_INIT;
    gantry_cpu_dispatcher_options cpus = GANTRY_CPU_DISPATCHER_OPTIONS_INIT;
    gantry_taskman_options with = GANTRY_TASKMAN_OPTIONS_INIT;
    gantry_profile_options recording = GANTRY_PROFILE_OPTIONS_INIT;
    options.driver = GANTRY_DRIVER_EMULATED;
    recording.path = "/dev/null";
    cpus.worker_count = 1;
    assert_ok(gantry_context_create(&options, &context));
    dispatcher = gantry_context_dispatcher(context);
    heap = gantry_context_heap(context);
    partition = gantry_partition_default(context);
    assert_ok(gantry_module_load(context, &gantry_image_campaign_kernels, &module));
    assert_ok(gantry_module_get_kernel(module, "add_one", &kernel));
    assert_ok(gantry_cpu_dispatcher_create(&cpus, &pool));
    with.cpu_dispatcher = pool;
    with.gpu_dispatcher = dispatcher;
    assert_ok(gantry_taskman_create(&with, &manager));
    assert_ok(gantry_copy_queue_create(1, &queue));
    gantry_port_ops ops = {.struct_size = sizeof(ops), .start = start_none, .look = look_at_none};
    assert_ok(gantry_port_create(&ops, NULL, &port));
    assert_ok(gantry_port_destroy(port));
    assert_ok(gantry_ring_create(heap, GANTRY_MEMORY_HOST, 1, 1, GANTRY_ALLOC_SITE("ring"), &ring));
    assert_ok(gantry_profile_start(&recording, &profile));
    assert_ok(gantry_profile_stop(profile, NULL));
    task = submit(manager, GANTRY_TASK_KERNEL);
    assert_ok(gantry_taskman_start(manager));
    assert_ok(gantry_taskman_stop(manager));
    gantry_copy_queue_destroy(queue);
    gantry_ring_destroy(ring);
    gantry_taskman_destroy(manager);
    gantry_cpu_dispatcher_destroy(pool);
    gantry_module_unload(module);
    gantry_context_destroy(context);
    gantry_fleet_options of = GANTRY_FLEET_OPTIONS_INIT;
    of.devices = "0";
    of.context = &options;
    assert_ok(gantry_fleet_create(&of, &fleet));
    gantry_fleet_destroy(fleet);
}

static void fleet_rows(void)
{
    gantry_taskman_options with = GANTRY_TASKMAN_OPTIONS_INIT;
    gantry_taskman *made;
    with.fleet = fleet;
    BAD_OUT(GONE, made, gantry_taskman_create(&with, &made));
    BAD_GIVES(GONE, NULL, gantry_fleet_context(fleet, 0));
    BAD_GIVES(GONE, 0, gantry_fleet_device_count(fleet));
    BAD_REFUSED(GONE, gantry_fleet_destroy(fleet));
}

static void context_rows(void)
{
    gantry_device_info info = {.struct_size = sizeof(info)};
    gantry_copy_tuning tuning = {.struct_size = sizeof(tuning)};
    gantry_module *made;
    gantry_kernel *found;
    uint64_t free_bytes;
    BAD(GONE, gantry_context_acquire(context));
    BAD(GONE, gantry_context_release(context));
    BAD(GONE, gantry_context_memory(context, &free_bytes, NULL));
    BAD(GONE, gantry_context_device_info(context, &info));
    BAD_GIVES(GONE, NULL, gantry_context_dispatcher(context));
    BAD_GIVES(GONE, NULL, gantry_context_heap(context));
    BAD_GIVES(GONE, NULL, gantry_context_native(context));
    BAD_GIVES(GONE, false, gantry_context_is_valid(context));
    BAD_GIVES(GONE, false, gantry_context_is_aborted(context));
    BAD_REFUSED(GONE, gantry_context_clear_abort(context));
    BAD_REFUSED(GONE, gantry_context_destroy(context));
    BAD(GONE, gantry_copy_get_tuning(context, &tuning));
    BAD(GONE, gantry_copy_set_tuning(context, &tuning));
    gantry_copy_peer_tuning peer = {.struct_size = sizeof(peer)};
    BAD(GONE, gantry_copy_get_peer_tuning(context, 1, &peer));
    BAD(GONE, gantry_copy_set_peer_tuning(context, 1, &peer));
    BAD_OUT(GONE, made, gantry_module_load(context, &gantry_image_campaign_kernels, &made));
    BAD_OUT(GONE, found, gantry_module_get_kernel(module, "add_one", &found));
    gantry_module_code code = GANTRY_MODULE_CODE_INIT;
    BAD_OUT(GONE, made, gantry_module_load_code(context, &code, &made));
    gantry_module_source source = GANTRY_MODULE_SOURCE_INIT;
    BAD_OUT(GONE, made, gantry_module_compile(context, &source, &made));
    BAD_REFUSED(GONE, gantry_module_unload(module));
    BAD_GIVES_TEXT(GONE, "", gantry_kernel_name(kernel));
    BAD_GIVES(GONE, NULL, gantry_kernel_native(kernel));
}

static void partition_rows(void)
{
    static gantry_partition_layout layout = {.struct_size = sizeof(layout)};
    gantry_sm_topology topology = {.struct_size = sizeof(topology)};
    gantry_partition_info info = {.struct_size = sizeof(info)};
    gantry_share_usage usage = {.struct_size = sizeof(usage)};
    gantry_partition *found;
    gantry_sm_set set = {.struct_size = sizeof(set)};
    void *stream;
    int event = 0;
    BAD_GIVES(GONE, 0, gantry_partition_count(context));
    BAD_GIVES(GONE, NULL, gantry_partition_at(context, 0));
    BAD_GIVES(GONE, NULL, gantry_partition_default(context));
    BAD_OUT(GONE, found, gantry_partition_find(context, "default", &found));
    BAD(GONE, gantry_context_synchronize(context));
    BAD(GONE, gantry_partition_get_layout(context, &layout));
    BAD(GONE, gantry_partition_read_topology(context, &topology));
    gantry_partition_options plan = GANTRY_PARTITION_OPTIONS_INIT;
    BAD(GONE, gantry_partition_read_parent_topology(context, &plan, &topology));
    BAD(GONE, gantry_context_set_partitions(context, NULL));
    BAD_OUT(GONE, found, gantry_partition_of_stream(context, NULL, &found));
    BAD(GONE, gantry_partition_get_info(partition, &info));
    gantry_stream_info told = {.struct_size = sizeof(told)};
    BAD(GONE, gantry_stream_get_info(context, NULL, &told));
    gantry_occupancy fits = {.struct_size = sizeof(fits)};
    BAD(GONE, gantry_stream_get_occupancy(context, NULL, NULL, (gantry_dim3){1, 1, 1}, 0, NULL, &fits));
    BAD(GONE, gantry_partition_get_occupancy(partition, NULL, (gantry_dim3){1, 1, 1}, 0, NULL, &fits));
    BAD(GONE, gantry_partition_get_usage(partition, &usage));
    BAD_OUT(GONE, stream, gantry_partition_create_stream(partition, &stream));
    BAD(GONE, gantry_partition_record_event(partition, &event));
    BAD(GONE, gantry_partition_wait_event(partition, &event));
    BAD(GONE, gantry_partition_synchronize(partition));
    BAD(GONE, gantry_partition_audit(partition, GANTRY_AUDIT_STREAM, &set));
}

static void heap_rows(void)
{
    const gantry_memory_kind kind = GANTRY_MEMORY_PINNED;
    gantry_alloc_site site = GANTRY_ALLOC_SITE("row");
    gantry_heap_settings settings = {.struct_size = sizeof(settings)};
    gantry_heap_stats stats = {.struct_size = sizeof(stats)};
    gantry_reclaim_stats reclaim = {.struct_size = sizeof(reclaim)};
    gantry_heap_block block = {.struct_size = sizeof(block)};
    char somewhere = 0;
    void *out;
    size_t count;
    BAD_OUT(GONE, out, gantry_heap_alloc(heap, kind, 1, 0, site, &out));
    BAD(GONE, gantry_heap_free(heap, &somewhere));
    BAD(GONE, gantry_heap_resize(heap, &somewhere, 1));
    BAD_OUT(GONE, out, gantry_heap_alloc_on(heap, GANTRY_MEMORY_HOST, 1, 0, NULL, site, &out));
    BAD(GONE, gantry_heap_free_on(heap, &somewhere, NULL));
    BAD(GONE, gantry_heap_record_stream(heap, &somewhere, NULL));
    BAD(GONE, gantry_heap_end_capture(heap, 1, true));
    BAD(GONE, gantry_heap_settle(heap));
    BAD_OUT(GONE, out, gantry_heap_device_address(heap, &somewhere, &out));
    BAD(GONE, gantry_heap_find_block(heap, &somewhere, &block));
    BAD(GONE, gantry_heap_configure(heap, kind, &settings));
    BAD(GONE, gantry_heap_get_settings(heap, kind, &settings));
    BAD(GONE, gantry_heap_reserve(heap, kind, 1));
    BAD(GONE, gantry_heap_trim(heap, kind, 0, NULL));
    BAD(GONE, gantry_heap_reset_peaks(heap, kind));
    BAD(GONE, gantry_heap_get_stats(heap, kind, &stats));
    BAD(GONE, gantry_heap_get_tag_stats(heap, kind, NULL, 0, &count));
    BAD(GONE, gantry_heap_dump(heap, kind, stdout));
    BAD(GONE, gantry_heap_write_json(heap, true, stdout));
    BAD(GONE, gantry_heap_reclaim(heap, release, NULL, 0));
    BAD(GONE, gantry_heap_reclaim_kind(heap, GANTRY_MEMORY_HOST, release, NULL, 0));
    BAD(GONE, gantry_heap_reclaim_wait(heap));
    BAD(GONE, gantry_heap_get_reclaim_stats(heap, &reclaim));
    gantry_exported_memory memory = {.struct_size = sizeof(memory)};
    void *imported;
    BAD(GONE, gantry_heap_export(heap, &memory, GANTRY_HEAP_HANDLES_FD, &memory));
    BAD(GONE, gantry_heap_import(heap, &memory, &imported));
    BAD(GONE, gantry_heap_release_import(heap, &memory));
}

static void dispatcher_rows(void)
{
    gantry_dispatcher_stats stats = {.struct_size = sizeof(stats)};
    gantry_batch_stats batch = {.struct_size = sizeof(batch)};
    BAD(GONE, gantry_dispatcher_set_submission(dispatcher, GANTRY_SUBMISSION_AUTO));
    BAD(GONE, gantry_dispatcher_get_stats(dispatcher, &stats));
    BAD(GONE, gantry_dispatcher_get_batch_stats(dispatcher, &batch));
    BAD_GIVES(GONE, false, gantry_dispatcher_failure_detected(dispatcher));
    BAD_GIVES(GONE, false, gantry_dispatcher_get_concurrent_streams(dispatcher));
    BAD_REFUSED(GONE, gantry_dispatcher_set_concurrent_streams(dispatcher, true));
    BAD_REFUSED(GONE, gantry_dispatcher_start_group(dispatcher));
    BAD_REFUSED(GONE, gantry_dispatcher_finish_group(dispatcher));
    BAD_REFUSED(GONE, gantry_dispatcher_force_failure(dispatcher));
}

static void launch_rows(void)
{
    const gantry_dim3 one = {1, 1, 1};
    gantry_alloc_site site = GANTRY_ALLOC_SITE("row");
    gantry_copy_list list = GANTRY_COPY_LIST_INIT;
    gantry_copy_box box = GANTRY_COPY_BOX_INIT;
    gantry_copy_desc desc = {NULL, NULL, 4, GANTRY_COPY_FILL, 1, 0};
    char memory[4];
    uint32_t blocks;
    void *out;
    BAD_GIVES(GONE, NULL, gantry_launch_stream(launch));
    BAD_GIVES(GONE, NULL, gantry_launch_capture_stream(launch));
    BAD_GIVES(GONE, 0, gantry_launch_index(launch));
    BAD_GIVES(GONE, NULL, gantry_launch_task(launch));
    BAD_GIVES(GONE, NULL, gantry_launch_context(launch));
    BAD_GIVES(GONE, NULL, gantry_launch_partition(launch));
    BAD_GIVES(GONE, NULL, gantry_launch_profile(launch, 0, one));
    BAD_GIVES(GONE, NULL, gantry_launch_profile_ranges(launch, 0, one, 4));
    BAD(GONE, gantry_launch_leave_graph(launch));
    BAD_GIVES(GONE, GANTRY_LAUNCH_FAILED, gantry_launch_fail(launch, GANTRY_ERR_IO));
    BAD(GONE, gantry_launch_request_sync_point(launch));
    BAD(GONE, gantry_launch_kernel(launch, kernel, one, one, 0, &out));
    BAD(GONE, gantry_launch_kernel_with(launch, kernel, one, one, 0, &out, NULL));
    BAD(GONE, gantry_launch_kernel_sized(launch, kernel, one, one, 0, &out, NULL, 0, NULL));
    BAD(GONE, gantry_launch_graph(launch, &out));
    BAD(GONE, gantry_launch_max_blocks(launch, kernel, 32, 0, &blocks));
    BAD(GONE, gantry_launch_copy_htod(launch, memory, memory, 4));
    BAD(GONE, gantry_launch_copy_dtoh(launch, memory, memory, 4));
    BAD(GONE, gantry_launch_copy_dtod(launch, memory, memory, 4));
    BAD(GONE, gantry_launch_fill(launch, memory, 0, 1, 4));
    BAD(GONE, gantry_copy_launch(launch, &desc, 1));
    BAD(GONE, gantry_copy_launch_with(launch, &desc, 1, NULL));
    BAD(GONE, gantry_copy_launch_list(launch, &list, NULL));
    BAD(GONE, gantry_copy_launch_box(launch, &box, NULL));
    BAD(GONE, gantry_copy_calibrate(launch, 1u << 20));
    BAD(GONE, gantry_launch_add_completion(launch, task));
    BAD(GONE, gantry_launch_add_completion_of_all(launch, task));
    BAD(GONE, gantry_free_after(memory, launch));
    BAD_OUT(GONE, out, gantry_launch_alloc(launch, GANTRY_MEMORY_DEVICE, 1, 0, site, &out));
    BAD(GONE, gantry_copy_queue_flush(queue, launch));
    BAD(GONE, gantry_copy_queue_flush_with(queue, launch, NULL));
    BAD(GONE, gantry_copy_queue_enqueue(queue, &desc));
    BAD_GIVES(GONE, 0, gantry_copy_queue_count(queue));
    BAD_REFUSED(GONE, gantry_copy_queue_clear(queue));
    BAD_REFUSED(GONE, gantry_copy_queue_destroy(queue));
    BAD_GIVES(GONE, NULL, gantry_ring_next(ring));
    BAD_REFUSED(GONE, gantry_ring_destroy(ring));
    BAD(GONE, gantry_port_destroy(port));
    BAD(GONE, gantry_profile_stop(profile, NULL));
}

static void pool_rows(gantry_task *good)
{
    gantry_cpu_class_options class = GANTRY_CPU_CLASS_OPTIONS_INIT;
    BAD(GONE, gantry_cpu_dispatcher_set_class(pool, 1, &class));
    BAD(GONE, gantry_cpu_dispatcher_execute(pool, good));
    BAD(GONE, gantry_parallel_for(pool, 0, 1, 1, bad_range, NULL));
    BAD_GIVES(GONE, 0, gantry_cpu_dispatcher_worker_count(pool));
    BAD_REFUSED(GONE, gantry_cpu_dispatcher_destroy(pool));
}

static void create_rows(void)
{
    gantry_taskman_options with = GANTRY_TASKMAN_OPTIONS_INIT;
    gantry_taskman *made;
    with.cpu_dispatcher = pool;
    BAD_OUT("`cpu_dispatcher` destroyed", made, gantry_taskman_create(&with, &made));
    with.cpu_dispatcher = NULL;
    with.gpu_dispatcher = dispatcher;
    BAD_OUT("`gpu_dispatcher` destroyed", made, gantry_taskman_create(&with, &made));
    with.gpu_dispatcher = NULL;
    with.partition = partition;
    BAD_OUT("`partition` destroyed", made, gantry_taskman_create(&with, &made));
}

static void manager_rows(void)
{
    gantry_share_usage usage = {.struct_size = sizeof(usage)};
    gantry_task_desc desc = GANTRY_TASK_DESC_INIT;
    gantry_taskman_stats stats = {.struct_size = sizeof(stats)};
    gantry_launch_tasks launches = {.struct_size = sizeof(launches)};
    uint64_t bytes[GANTRY_MEMORY_KIND_COUNT] = {0};
    uint32_t memory;
    gantry_task *out;
    desc.run = bad_body;
    BAD_OUT(GONE, out, gantry_taskman_submit(manager, &desc, &out));
    BAD_OUT(GONE, out, gantry_taskman_submit_after(manager, &desc, NULL, 0, &out));
    BAD_OUT(GONE, out, gantry_taskman_submit_chain(manager, &desc, 1, &out));
    BAD(GONE, gantry_taskman_submit_launch_tasks(manager, &launches));
    gantry_loop_options loops = GANTRY_LOOP_OPTIONS_INIT;
    gantry_loop loop = {.struct_size = sizeof(loop)};
    BAD(GONE, gantry_taskman_submit_loop(manager, &loops, &loop));
    BAD_OUT(GONE, out, gantry_taskman_get_named(manager, "a", &out));
    BAD_OUT(GONE, out, gantry_taskman_create_light(manager, bad_body, NULL, NULL, NULL, &out));
    BAD(GONE, gantry_taskman_spawn(manager, bad_body, NULL, NULL, NULL));
    BAD(GONE, gantry_taskman_declare_memory(manager, bytes, &memory));
    BAD(GONE, gantry_taskman_start(manager));
    BAD(GONE, gantry_taskman_start_all(&manager, 1));
    BAD(GONE, gantry_taskman_start_from(manager, &task, 1));
    BAD(GONE, gantry_taskman_wait(manager));
    BAD(GONE, gantry_taskman_stop(manager));
    BAD(GONE, gantry_taskman_reset(manager));
    BAD(GONE, gantry_taskman_freeze(manager));
    BAD(GONE, gantry_taskman_run(manager, 1));
    BAD(GONE, gantry_taskman_cancel(manager));
    BAD(GONE, gantry_taskman_get_stats(manager, &stats));
    BAD(GONE, gantry_taskman_get_usage(manager, &usage));
    BAD_GIVES(GONE, NULL, gantry_taskman_cpu_dispatcher(manager));
    BAD_GIVES(GONE, NULL, gantry_taskman_gpu_dispatcher(manager));
    BAD_GIVES(GONE, NULL, gantry_taskman_fleet(manager));
    BAD(GONE, gantry_taskman_dump_graph(manager, stdout));
    BAD_REFUSED(GONE, gantry_taskman_destroy(manager));
}

static void task_rows(gantry_taskman *alive, gantry_task *good)
{
    gantry_task_launch_stats stats = {.struct_size = sizeof(stats)};
    gantry_task *out;
    BAD(GONE, gantry_task_start_after(task, good));
    BAD("`predecessor` destroyed", gantry_task_start_after(good, task));
    BAD(GONE, gantry_task_start_after_done(task, good));
    BAD("`gpu_task` destroyed", gantry_task_start_after_done(good, task));
    BAD(GONE, gantry_task_finish_before(task, good));
    BAD("`successor` destroyed", gantry_task_finish_before(good, task));
    BAD_OUT("`continuation` destroyed", out,
            gantry_taskman_create_light(alive, bad_body, NULL, NULL, task, &out));
    BAD("`continuation` destroyed", gantry_taskman_spawn(alive, bad_body, NULL, NULL, task));
    BAD(GONE, gantry_task_add_reference(task));
    BAD(GONE, gantry_task_remove_reference(task));
    BAD(GONE, gantry_task_fail_reference(task, GANTRY_ERR_IO));
    BAD(GONE, gantry_task_fail_reference_with(task, GANTRY_ERR_IO, NULL));
    BAD(GONE, gantry_task_choose(task, 0));
    BAD(GONE, gantry_task_access(task, NULL, 0));
    gantry_loop_stats turns = {.struct_size = sizeof(turns)};
    BAD(GONE, gantry_loop_cancel(task));
    BAD(GONE, gantry_loop_get_stats(task, &turns));
    BAD(GONE, gantry_task_invalidate(task));
    gantry_detached handle;
    BAD(GONE, gantry_task_detach(task, &handle));
    BAD(GONE, gantry_task_detach_with(task, NULL, &handle));
    BAD(GONE, gantry_task_result(task));
    BAD(GONE, gantry_task_set_arg(task, NULL));
    BAD(GONE, gantry_task_get_launch_stats(task, &stats));
    BAD_GIVES(GONE, NULL, gantry_task_arg(task));
    BAD_GIVES(GONE, 0, gantry_task_context_id(task));
    BAD_GIVES(GONE, GANTRY_TASK_SYNC_POINT, gantry_task_get_kind(task));
    BAD_GIVES(GONE, GANTRY_TASK_PRIORITY_NORMAL, gantry_task_get_priority(task));
    BAD_GIVES(GONE, GANTRY_TASK_STATE_FAILED, gantry_task_get_state(task));
    BAD_GIVES(GONE, NULL, gantry_task_manager(task));
    BAD_GIVES(GONE, 0, gantry_task_references(task));
    BAD_GIVES_TEXT(GONE, "", gantry_task_label(task));
    BAD_GIVES_TEXT(GONE, "", gantry_task_name(task));
}

/* A handle of another kind, and something that is no handle at all. */
static void other_rows(gantry_taskman *alive, gantry_task *good)
{
    gantry_taskman_stats stats = {.struct_size = sizeof(stats)};
    void *wrong = good, *none = &stats;
    BAD("a handle of another kind", gantry_taskman_get_stats(wrong, &stats));
    BAD("no handle", gantry_task_add_reference(none));
    assert_ok(gantry_taskman_reset(alive));
    BAD("a task that the reset has forgotten", gantry_task_add_reference(good));
}

static gantry_task *added;

static gantry_status add_task(gantry_task *by, void *arg)
{
    (void)arg;
    gantry_task_desc desc = GANTRY_TASK_DESC_INIT;
    desc.run = bad_body;
    gantry_status status = gantry_taskman_submit(gantry_task_manager(by), &desc, &added);
    return status == GANTRY_OK ? gantry_task_remove_reference(added) : status;
}

/* Tasks that were added in a run of a frozen graph are forgotten when the next run begins. */
static void frozen_rows(gantry_taskman *alive)
{
    gantry_task_desc desc = GANTRY_TASK_DESC_INIT;
    gantry_task *frozen;
    desc.run = add_task;
    assert_ok(gantry_taskman_submit(alive, &desc, &frozen));
    assert_ok(gantry_taskman_freeze(alive));
    assert_ok(gantry_taskman_run(alive, 1));
    gantry_task *first = added;
    assert_int_equal(gantry_task_result(first), GANTRY_OK);
    assert_ok(gantry_taskman_run(alive, 1));
    assert_ptr_not_equal(first, added);
    assert_int_equal(gantry_task_result(frozen), GANTRY_OK);
    BAD("a task that the frozen graph's next run has forgotten", gantry_task_add_reference(first));
    assert_ok(gantry_taskman_reset(alive));
}

void bad_handles(void)
{
    gantry_taskman_options with = GANTRY_TASKMAN_OPTIONS_INIT;
    gantry_taskman *alive;
    make_and_destroy();
    assert_ok(gantry_taskman_create(&with, &alive));
    gantry_task *good = submit(alive, GANTRY_TASK_CPU);
    context_rows();
    fleet_rows();
    partition_rows();
    heap_rows();
    dispatcher_rows();
    launch_rows();
    pool_rows(good);
    create_rows();
    manager_rows();
    task_rows(alive, good);
    other_rows(alive, good);
    frozen_rows(alive);
    gantry_taskman_destroy(alive);
}
