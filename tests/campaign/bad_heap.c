/* SPDX-License-Identifier: MIT */
/* base.h, heap.h, partition.h, profile.h: wrong arguments, blocks of other heaps, wrong states. */
#include "tests/campaign/bad_input.h"

#include "tests/support/cmocka_c11.h"

#include <stdio.h>
#include <string.h>

static gantry_context *new_context(void)
{
    gantry_context_options options = GANTRY_CONTEXT_OPTIONS_INIT;
    gantry_context *context = NULL;
    options.driver = GANTRY_DRIVER_EMULATED;
    assert_ok(gantry_context_create(&options, &context));
    return context;
}

static void bandwidth_rows(void)
{
    gantry_bandwidth_settings settings = GANTRY_BANDWIDTH_SETTINGS_INIT;
    gantry_bandwidth_stats small = {.struct_size = 4};
    struct {
        gantry_bandwidth_settings settings;
        uint64_t field;
    } later = {{.struct_size = sizeof(later)}, 1};
    BAD("not raised by this thread", gantry_bandwidth_gate_lower());
    BAD("a field not known", gantry_bandwidth_configure(&later.settings));
    settings.way = 2;
    BAD("unknown way", gantry_bandwidth_configure(&settings));
    settings.way = GANTRY_BANDWIDTH_SLEEP;
    settings.run_percent = 100;
    BAD("100 percent", gantry_bandwidth_configure(&settings));
    settings.run_percent = 0;
    settings.most_held_ns = UINT64_MAX;
    BAD("more than a second", gantry_bandwidth_configure(&settings));
    settings.struct_size = 4;
    BAD("struct_size too small", gantry_bandwidth_configure(&settings));
    BAD("`stats` NULL", gantry_bandwidth_get_stats(NULL));
    BAD("struct_size too small", gantry_bandwidth_get_stats(&small));
    BAD_NOTHING(gantry_bandwidth_gate_raise);
    BAD_NOTHING(gantry_bandwidth_raised);
    BAD_NOTHING(gantry_bandwidth_wait);
}

void bad_base(void)
{
    bandwidth_rows();
    gantry_allocator none = {sizeof(none), NULL, NULL, NULL};
    BAD("a function is NULL", gantry_set_allocator(&none));
    none.struct_size = 8;
    BAD("struct_size too small", gantry_set_allocator(&none));
    gantry_copy_queue *queue;
    assert_ok(gantry_copy_queue_create(1, &queue));
    BAD("memory is in use", gantry_set_allocator(NULL));
    gantry_copy_queue_destroy(queue);
    BAD_NOTHING(gantry_last_error);
    BAD_NOTHING(gantry_last_native_error);
    BAD_NOTHING(gantry_set_log);
    BAD_NOTHING(gantry_version);
    assert_string_equal(gantry_status_name((gantry_status)77), "GANTRY_ERR_?");
    assert_string_equal(gantry_status_text((gantry_status)77), "unknown status");
    bad_note("gantry_status_name", "an unknown status", "gives \"GANTRY_ERR_?\"");
    bad_note("gantry_status_text", "an unknown status", "gives \"unknown status\"");
}

static void alloc_rows(gantry_heap *heap, void *block, void *foreign)
{
    gantry_alloc_site site = GANTRY_ALLOC_SITE("row");
    void *out;
    BAD_OUT("`heap` NULL", out, gantry_heap_alloc(NULL, GANTRY_MEMORY_PINNED, 1, 0, site, &out));
    BAD_OUT("unknown kind", out, gantry_heap_alloc(heap, (gantry_memory_kind)7, 1, 0, site, &out));
    BAD_OUT("0 bytes", out, gantry_heap_alloc(heap, GANTRY_MEMORY_PINNED, 0, 0, site, &out));
    BAD_OUT("an alignment of 3", out, gantry_heap_alloc(heap, GANTRY_MEMORY_PINNED, 1, 3, site, &out));
    BAD("`out` NULL", gantry_heap_alloc(heap, GANTRY_MEMORY_PINNED, 1, 0, site, NULL));
    gantry_ring *ring = NULL;
    BAD_OUT("`heap` NULL", ring, gantry_ring_create(NULL, GANTRY_MEMORY_PINNED, 1, 1, site, &ring));
    BAD_OUT("no bytes", ring, gantry_ring_create(heap, GANTRY_MEMORY_PINNED, 0, 1, site, &ring));
    BAD_OUT("no buffers", ring, gantry_ring_create(heap, GANTRY_MEMORY_PINNED, 1, 0, site, &ring));
    BAD_OUT("more bytes than there are", ring,
            gantry_ring_create(heap, GANTRY_MEMORY_PINNED, SIZE_MAX / 2, 3, site, &ring));
    BAD("`out` NULL", gantry_ring_create(heap, GANTRY_MEMORY_PINNED, 1, 1, site, NULL));
    BAD_GIVES("NULL", NULL, gantry_ring_next(NULL));
    BAD("`heap` NULL", gantry_heap_free(NULL, block));
    BAD("an address inside a block", gantry_heap_free(heap, (char *)block + 8));
    BAD("a block of another heap", gantry_heap_free(heap, foreign));
    BAD("`heap` NULL", gantry_heap_resize(NULL, block, 1));
    BAD("0 bytes", gantry_heap_resize(heap, block, 0));
    BAD("no block", gantry_heap_resize(heap, foreign, 1));
    BAD("more than there is room for", gantry_heap_resize(heap, block, (size_t)1 << 40));
    BAD_OUT("`heap` NULL", out, gantry_heap_device_address(NULL, block, &out));
    BAD_OUT("`host` NULL", out, gantry_heap_device_address(heap, NULL, &out));
    BAD("`out` NULL", gantry_heap_device_address(heap, block, NULL));
    BAD_OUT("no block", out, gantry_heap_device_address(heap, foreign, &out));
    gantry_heap_block found = {.struct_size = sizeof(found)};
    BAD("`heap` NULL", gantry_heap_find_block(NULL, block, &found));
    BAD("`out` NULL", gantry_heap_find_block(heap, block, NULL));
    BAD("no block", gantry_heap_find_block(heap, foreign, &found));
    found.struct_size = 4;
    BAD("struct_size too small", gantry_heap_find_block(heap, block, &found));
}

/* Without a stream of its own it uses the default one. */
static void stream_rows(gantry_heap *heap, void *block, void *foreign)
{
    gantry_alloc_site site = GANTRY_ALLOC_SITE("row");
    const gantry_memory_kind pinned = GANTRY_MEMORY_PINNED, unknown = (gantry_memory_kind)7;
    void *out;
    BAD_OUT("`heap` NULL", out, gantry_heap_alloc_on(NULL, pinned, 1, 0, NULL, site, &out));
    BAD_OUT("unknown kind", out, gantry_heap_alloc_on(heap, unknown, 1, 0, NULL, site, &out));
    BAD_OUT("0 bytes", out, gantry_heap_alloc_on(heap, pinned, 0, 0, NULL, site, &out));
    BAD_OUT("an alignment of 3", out, gantry_heap_alloc_on(heap, pinned, 1, 3, NULL, site, &out));
    BAD("`out` NULL", gantry_heap_alloc_on(heap, pinned, 1, 0, NULL, site, NULL));
    BAD("`heap` NULL", gantry_heap_free_on(NULL, block, NULL));
    BAD("an address inside a block", gantry_heap_free_on(heap, (char *)block + 8, NULL));
    BAD("a block of another heap", gantry_heap_free_on(heap, foreign, NULL));
    BAD("`heap` NULL", gantry_heap_record_stream(NULL, block, NULL));
    BAD("`pointer` NULL", gantry_heap_record_stream(heap, NULL, NULL));
    BAD("a block of another heap", gantry_heap_record_stream(heap, foreign, NULL));
    BAD("`heap` NULL", gantry_heap_end_capture(NULL, 1, true));
    BAD("`heap` NULL", gantry_heap_settle(NULL));
}

static void setting_rows(gantry_heap *heap)
{
    const gantry_memory_kind pinned = GANTRY_MEMORY_PINNED, unknown = (gantry_memory_kind)7;
    gantry_heap_settings settings = {.struct_size = sizeof(settings)}, small = {.struct_size = 4};
    struct {
        gantry_heap_settings settings;
        uint64_t field;
    } later = {{.struct_size = sizeof(later)}, 1};
    BAD("`heap` NULL", gantry_heap_configure(NULL, pinned, &settings));
    BAD("unknown kind", gantry_heap_configure(heap, unknown, &settings));
    BAD("`settings` NULL", gantry_heap_configure(heap, pinned, NULL));
    BAD("struct_size too small", gantry_heap_configure(heap, pinned, &small));
    BAD("a field not known", gantry_heap_configure(heap, pinned, &later.settings));
    settings.slab_bytes = SIZE_MAX;
    BAD("a size too large", gantry_heap_configure(heap, pinned, &settings));
    BAD("`heap` NULL", gantry_heap_get_settings(NULL, pinned, &settings));
    BAD("unknown kind", gantry_heap_get_settings(heap, unknown, &settings));
    BAD("`settings` NULL", gantry_heap_get_settings(heap, pinned, NULL));
    BAD("struct_size too small", gantry_heap_get_settings(heap, pinned, &small));
    BAD("`heap` NULL", gantry_heap_reserve(NULL, pinned, 1));
    BAD("unknown kind", gantry_heap_reserve(heap, unknown, 1));
    BAD("`heap` NULL", gantry_heap_trim(NULL, pinned, 0, NULL));
    BAD("`heap` NULL", gantry_heap_reset_peaks(NULL, pinned));
    BAD("unknown kind", gantry_heap_reset_peaks(heap, unknown));
    BAD("unknown kind", gantry_heap_trim(heap, unknown, 0, NULL));
}

static gantry_launch_result launch_nothing(gantry_launch *launch, void *arg)
{
    (void)launch;
    (void)arg;
    return GANTRY_LAUNCH_DONE;
}

static void release_nothing(void *arg)
{
    (void)arg;
}

static void bad_exports(gantry_heap *heap)
{
    gantry_exported_memory memory = {.struct_size = sizeof(memory), .handles = GANTRY_HEAP_HANDLES_FD},
                           little = {.struct_size = 4};
    void *out;
    BAD("`heap` NULL", gantry_heap_export(NULL, &memory, GANTRY_HEAP_HANDLES_FD, &memory));
    BAD("`out` NULL", gantry_heap_export(heap, &memory, GANTRY_HEAP_HANDLES_FD, NULL));
    BAD("both handles", gantry_heap_export(heap, &memory, GANTRY_HEAP_HANDLES_BEST, &memory));
    BAD("a heap without handles", gantry_heap_export(heap, &memory, GANTRY_HEAP_HANDLES_FD, &memory));
    BAD("`heap` NULL", gantry_heap_import(NULL, &memory, &out));
    BAD("`memory` NULL", gantry_heap_import(heap, NULL, &out));
    BAD("`out` NULL", gantry_heap_import(heap, &memory, NULL));
    BAD("struct_size too small", gantry_heap_import(heap, &little, &out));
    BAD("a piece of 0 bytes", gantry_heap_import(heap, &memory, &out));
    memory.slab_bytes = (uint64_t)2 << 20;
    memory.fd = -1;
    BAD("no file", gantry_heap_import(heap, &memory, &out));
    memory.handles = GANTRY_HEAP_HANDLES_NONE;
    BAD("no handle", gantry_heap_import(heap, &memory, &out));
    BAD("`heap` NULL", gantry_heap_release_import(NULL, &memory));
    BAD("no import", gantry_heap_release_import(heap, &memory));
    assert_int_equal(gantry_heap_release_import(heap, NULL), GANTRY_OK);
    bad_note("gantry_heap_release_import", "`address` NULL", "nothing happens");
}

static void heap_stats_rows(gantry_heap *heap)
{
    const gantry_memory_kind pinned = GANTRY_MEMORY_PINNED, unknown = (gantry_memory_kind)7;
    gantry_heap_stats stats = {.struct_size = sizeof(stats)}, small = {.struct_size = 4};
    gantry_reclaim_stats reclaim = {.struct_size = sizeof(reclaim)}, little = {.struct_size = 4};
    size_t count;
    BAD("`heap` NULL", gantry_heap_get_stats(NULL, pinned, &stats));
    BAD("unknown kind", gantry_heap_get_stats(heap, unknown, &stats));
    BAD("`stats` NULL", gantry_heap_get_stats(heap, pinned, NULL));
    BAD("struct_size too small", gantry_heap_get_stats(heap, pinned, &small));
    BAD("`heap` NULL", gantry_heap_get_tag_stats(NULL, pinned, NULL, 0, &count));
    BAD("unknown kind", gantry_heap_get_tag_stats(heap, unknown, NULL, 0, &count));
    BAD("`stats` NULL, a capacity", gantry_heap_get_tag_stats(heap, pinned, NULL, 1, &count));
    BAD("`out_count` NULL", gantry_heap_get_tag_stats(heap, pinned, NULL, 0, NULL));
    BAD("`heap` NULL", gantry_heap_dump(NULL, pinned, stdout));
    BAD("unknown kind", gantry_heap_dump(heap, unknown, stdout));
    BAD("`out` NULL", gantry_heap_dump(heap, pinned, NULL));
    BAD("`heap` NULL", gantry_heap_write_json(NULL, true, stdout));
    BAD("`out` NULL", gantry_heap_write_json(heap, true, NULL));
    BAD("`heap` NULL", gantry_heap_reclaim(NULL, release_nothing, NULL, 0));
    BAD("`release` NULL", gantry_heap_reclaim(heap, NULL, NULL, 0));
    BAD("`heap` NULL", gantry_heap_reclaim_kind(NULL, GANTRY_MEMORY_HOST, release_nothing, NULL, 0));
    BAD("`release` NULL", gantry_heap_reclaim_kind(heap, GANTRY_MEMORY_HOST, NULL, NULL, 0));
    BAD("unknown kind", gantry_heap_reclaim_kind(heap, (gantry_memory_kind)7, release_nothing, NULL, 0));
    BAD("`heap` NULL", gantry_heap_reclaim_wait(NULL));
    BAD("`heap` NULL", gantry_heap_get_reclaim_stats(NULL, &reclaim));
    BAD("`stats` NULL", gantry_heap_get_reclaim_stats(heap, NULL));
    BAD("struct_size too small", gantry_heap_get_reclaim_stats(heap, &little));
    bad_exports(heap);
}

static void profile_rows(void)
{
    gantry_profile_options options = GANTRY_PROFILE_OPTIONS_INIT;
    gantry_profile *profile, *second;
    gantry_profile_stats small = {.struct_size = 4};
    const char *names[] = {NULL}, *good = "load";
    uint32_t first;
    BAD_OUT("`options` NULL", profile, gantry_profile_start(NULL, &profile));
    BAD_OUT("`path` NULL", profile, gantry_profile_start(&options, &profile));
    options.path = "no such folder/x.pftrace";
    BAD("`out` NULL", gantry_profile_start(&options, NULL));
    BAD_OUT("a path that cannot be written", profile, gantry_profile_start(&options, &profile));
    options.path = "/dev/null";
    options.struct_size = 4;
    BAD_OUT("struct_size too small", profile, gantry_profile_start(&options, &profile));
    options.struct_size = sizeof(options);
    options.spans_per_thread = UINT32_MAX;
    BAD_OUT("too many spans", profile, gantry_profile_start(&options, &profile));
    options.spans_per_thread = 0;
    options.reserved[0] = 1;
    BAD_OUT("`reserved` set", profile, gantry_profile_start(&options, &profile));
    options.reserved[0] = 0;
    options.encoders = 65;
    BAD_OUT("too many encoders", profile, gantry_profile_start(&options, &profile));
    options.encoders = 0;
    options.ctas = (gantry_profile_ctas)7;
    BAD_OUT("unknown `ctas`", profile, gantry_profile_start(&options, &profile));
    options.ctas = GANTRY_PROFILE_CTAS_OFF;
    assert_ok(gantry_profile_start(&options, &profile));
    BAD_OUT("a recording runs", second, gantry_profile_start(&options, &second));
    BAD("no handle", gantry_profile_stop((gantry_profile *)&first, NULL));
    BAD("struct_size too small", gantry_profile_stop(profile, &small));
    BAD("`names` NULL", gantry_profile_register_kernels(NULL, 1, &first));
    BAD("no kernel", gantry_profile_register_kernels(names, 0, &first));
    BAD("a name is NULL", gantry_profile_register_kernels(names, 1, &first));
    BAD("`out_first` NULL", gantry_profile_register_kernels(names, 1, NULL));
    BAD_NOTHING(gantry_profile_now);
    BAD("`name` NULL", gantry_profile_span(NULL, 1, 2, 0));
    BAD("an end before the begin", gantry_profile_span("frame", 2, 1, 0));
    BAD("`names` NULL", gantry_profile_name_ranges(1, NULL, 1));
    BAD("no name", gantry_profile_name_ranges(1, names, 0));
    BAD("a name is NULL", gantry_profile_name_ranges(1, names, 1));
    BAD("no such kernel", gantry_profile_name_ranges(1u << 20, &good, 1));
}

/* Objects that belong to another context. */
static void foreign_rows(gantry_context *context, gantry_context *other)
{
    gantry_taskman_options options = GANTRY_TASKMAN_OPTIONS_INIT;
    gantry_task_desc desc = GANTRY_TASK_DESC_INIT;
    gantry_taskman *manager;
    gantry_task *task;
    options.partition = gantry_partition_default(other);
    BAD_OUT("a partition without a GPU dispatcher", manager, gantry_taskman_create(&options, &manager));
    options.gpu_dispatcher = gantry_context_dispatcher(context);
    BAD_OUT("a partition of another context", manager, gantry_taskman_create(&options, &manager));
    options.partition = NULL;
    assert_ok(gantry_taskman_create(&options, &manager));
    desc.kind = GANTRY_TASK_KERNEL;
    desc.launch = launch_nothing;
    desc.partition = gantry_partition_default(other);
    BAD_OUT("a partition of another context", task, gantry_taskman_submit(manager, &desc, &task));
    gantry_taskman_destroy(manager);
    assert_ok(gantry_context_acquire(other));
    BAD("another context was acquired later", gantry_context_release(context));
    assert_ok(gantry_context_release(other));
}

void bad_heap(void)
{
    gantry_context *context = new_context(), *other = new_context();
    gantry_heap *heap = gantry_context_heap(context);
    void *block, *foreign;
    gantry_alloc_site site = GANTRY_ALLOC_SITE("row");
    assert_ok(gantry_heap_alloc(heap, GANTRY_MEMORY_PINNED, 100, 0, site, &block));
    assert_ok(gantry_heap_alloc(gantry_context_heap(other), GANTRY_MEMORY_PINNED, 100, 0, site, &foreign));
    alloc_rows(heap, block, foreign);
    stream_rows(heap, block, foreign);
    setting_rows(heap);
    heap_stats_rows(heap);
    profile_rows();
    foreign_rows(context, other);
    assert_ok(gantry_heap_free(heap, block));
    BAD("a block that was freed", gantry_heap_free(heap, block));
    assert_ok(gantry_heap_free(gantry_context_heap(other), foreign));
    gantry_context_destroy(other);
    gantry_context_destroy(context);
}

/* Shares of task managers. */
static void share_rows(gantry_context *context)
{
    gantry_share_usage usage = {.struct_size = sizeof(usage)}, slight = {.struct_size = 4};
    gantry_taskman_options options = GANTRY_TASKMAN_OPTIONS_INIT;
    gantry_share share = {sizeof(share), .percent = -1};
    gantry_taskman *manager;
    options.share = &share;
    BAD_OUT("a share without a GPU dispatcher", manager, gantry_taskman_create(&options, &manager));
    options.gpu_dispatcher = gantry_context_dispatcher(context);
    BAD_OUT("a share below 0", manager, gantry_taskman_create(&options, &manager));
    share = (gantry_share){sizeof(gantry_share), .percent = 50, .in_flight = 17};
    BAD_OUT("a share with too many groups in flight", manager, gantry_taskman_create(&options, &manager));
    share = (gantry_share){0, .percent = 50};
    BAD_OUT("a share without struct_size", manager, gantry_taskman_create(&options, &manager));
    share.struct_size = sizeof(share);
    BAD("`manager` NULL", gantry_taskman_get_usage(NULL, &usage));
    options.share = NULL;
    assert_ok(gantry_taskman_create(&options, &manager));
    BAD("no share", gantry_taskman_get_usage(manager, &usage));
    gantry_taskman_destroy(manager);
    share.in_flight = 4;
    options.share = &share;
    assert_ok(gantry_taskman_create(&options, &manager));
    BAD("`out` NULL", gantry_taskman_get_usage(manager, NULL));
    BAD("struct_size too small", gantry_taskman_get_usage(manager, &slight));
    gantry_taskman_destroy(manager);
}

/* A context without a plan has one partition, which is the device. */
static void partition_rows(gantry_context *context)
{
    gantry_partition *partition = gantry_partition_default(context), *none;
    gantry_sm_topology topology = {.struct_size = 4};
    gantry_partition_info info = {.struct_size = sizeof(info)}, little = {.struct_size = 4};
    static gantry_partition_layout layout = {.struct_size = sizeof(layout)};
    gantry_sm_set set = {.struct_size = sizeof(set)};
    void *stream;
    int event = 0;
    BAD("`context` NULL", gantry_partition_read_topology(NULL, &topology));
    BAD("`out` NULL", gantry_partition_read_topology(context, NULL));
    BAD("struct_size too small", gantry_partition_read_topology(context, &topology));
    gantry_partition_options plan = GANTRY_PARTITION_OPTIONS_INIT;
    BAD("`context` NULL", gantry_partition_read_parent_topology(NULL, &plan, &topology));
    BAD("`options` NULL", gantry_partition_read_parent_topology(context, NULL, &topology));
    BAD("`out` NULL", gantry_partition_read_parent_topology(context, &plan, NULL));
    plan.parent_green = plan.parent_stream = &plan;
    BAD("two parents", gantry_partition_read_parent_topology(context, &plan, &topology));
    BAD("two parents", gantry_context_set_partitions(context, &plan));
    plan.parent_green = plan.parent_stream = NULL;
    BAD("`context` NULL", gantry_context_set_partitions(NULL, &plan));
    BAD("no requests", gantry_context_set_partitions(context, &plan));
    plan.struct_size = 4;
    BAD("struct_size too small", gantry_context_set_partitions(context, &plan));
    BAD_OUT("`context` NULL", none, gantry_partition_find(NULL, "a", &none));
    BAD_OUT("`name` NULL", none, gantry_partition_find(context, NULL, &none));
    BAD("`out` NULL", gantry_partition_find(context, "a", NULL));
    BAD_OUT("no such partition", none, gantry_partition_find(context, "a", &none));
    BAD("`context` NULL", gantry_partition_get_layout(NULL, &layout));
    BAD("`out` NULL", gantry_partition_get_layout(context, NULL));
    BAD("no plan", gantry_partition_get_layout(context, &layout));
    BAD("`partition` NULL", gantry_partition_get_info(NULL, &info));
    BAD("`out` NULL", gantry_partition_get_info(partition, NULL));
    BAD("struct_size too small", gantry_partition_get_info(partition, &little));
    gantry_share_usage usage = {.struct_size = sizeof(usage)}, slight = {.struct_size = 4};
    BAD("`partition` NULL", gantry_partition_get_usage(NULL, &usage));
    BAD("`out` NULL", gantry_partition_get_usage(partition, NULL));
    BAD("struct_size too small", gantry_partition_get_usage(partition, &slight));
    BAD("no share", gantry_partition_get_usage(partition, &usage));
    share_rows(context);
    BAD_OUT("`partition` NULL", stream, gantry_partition_create_stream(NULL, &stream));
    BAD("`out` NULL", gantry_partition_create_stream(partition, NULL));
    BAD_OUT("`context` NULL", none, gantry_partition_of_stream(NULL, &event, &none));
    BAD("`out` NULL", gantry_partition_of_stream(context, &event, NULL));
    gantry_stream_info told = {.struct_size = sizeof(told)}, short_one = {.struct_size = 4};
    BAD("`context` NULL", gantry_stream_get_info(NULL, NULL, &told));
    BAD("`out` NULL", gantry_stream_get_info(context, NULL, NULL));
    BAD("no stream", gantry_stream_get_info(context, &event, &told));
    BAD("struct_size too small", gantry_stream_get_info(context, NULL, &short_one));
    BAD("`partition` NULL", gantry_partition_record_event(NULL, &event));
    BAD("`event` NULL", gantry_partition_record_event(partition, NULL));
    BAD("`partition` NULL", gantry_partition_wait_event(NULL, &event));
    BAD("`event` NULL", gantry_partition_wait_event(partition, NULL));
    BAD("`partition` NULL", gantry_partition_synchronize(NULL));
    BAD("`partition` NULL", gantry_partition_audit(NULL, GANTRY_AUDIT_STREAM, &set));
    BAD("unknown way", gantry_partition_audit(partition, (gantry_audit_way)7, &set));
    BAD("`out` NULL", gantry_partition_audit(partition, GANTRY_AUDIT_STREAM, NULL));
    set.struct_size = 4;
    BAD("struct_size too small", gantry_partition_audit(partition, GANTRY_AUDIT_STREAM, &set));
    BAD_UNCHECKED(gantry_partition_at, "NULL");
    BAD_UNCHECKED(gantry_partition_count, "NULL");
    BAD_UNCHECKED(gantry_partition_default, "NULL");
}

void bad_partition(void)
{
    gantry_context *context = new_context();
    partition_rows(context);
    gantry_context_destroy(context);
    gantry_sm_topology topology = {.struct_size = sizeof(topology),
                                   .total_sms = 132,
                                   .alignment = 8,
                                   .unit_sms = 8,
                                   .unit_count = 16,
                                   .fine_unit_sms = 2,
                                   .fine_unit_count = 66};
    gantry_partition_request request = {.struct_size = sizeof(request), .name = "a", .sm_count = 8};
    gantry_partition_options options = GANTRY_PARTITION_OPTIONS_INIT;
    static gantry_partition_layout layout = {.struct_size = sizeof(layout)};
    static gantry_partition_layout small = {.struct_size = 4};
    options.requests = &request;
    options.count = 1;
    options.struct_size = 4;
    BAD("struct_size of `options` too small", gantry_partition_plan(&topology, &options, &layout));
    options.struct_size = sizeof(options);
    request.struct_size = 4;
    BAD("struct_size of a request too small", gantry_partition_plan(&topology, &options, &layout));
    request.struct_size = sizeof(request);
    topology.struct_size = 4;
    BAD("struct_size of `topology` too small", gantry_partition_plan(&topology, &options, &layout));
    topology.struct_size = sizeof(topology);
    BAD("`topology` NULL", gantry_partition_plan(NULL, &options, &layout));
    BAD("`options` NULL", gantry_partition_plan(&topology, NULL, &layout));
    BAD("`out` NULL", gantry_partition_plan(&topology, &options, NULL));
    BAD("struct_size of `out` too small", gantry_partition_plan(&topology, &options, &small));
    options.reserved = 1;
    BAD("`reserved` set", gantry_partition_plan(&topology, &options, &layout));
    options.reserved = 0;
    request.name = "";
    BAD("a request without a name", gantry_partition_plan(&topology, &options, &layout));
    request.name = "a";
    request.priority = 1;
    BAD("a positive priority", gantry_partition_plan(&topology, &options, &layout));
    request.priority = 0;
    request.sm_count = 5;
    BAD("SMs that cannot be made", gantry_partition_plan(&topology, &options, &layout));
    request.sm_count = 1000;
    BAD("more SMs than there are", gantry_partition_plan(&topology, &options, &layout));
}
