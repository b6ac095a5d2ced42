/* SPDX-License-Identifier: MIT */
/* context.h, dispatcher.h, module.h, copy.h: wrong arguments and, for launch-scope functions, the wrong
 * thread. */
#include "tests/campaign/bad_input.h"

#include "campaign_kernels.kernels.h"
#include "tests/support/cmocka_c11.h"

#include <sched.h>

static gantry_context *context;
static gantry_taskman *manager;
static gantry_kernel *kernel;
static gantry_launch *stale; /* the launch of a callback that has returned */
static void *device, *pinned;
static gantry_task *gpu_task, *released_task;

static void fleet_rows(void)
{
    gantry_context_options contexts = GANTRY_CONTEXT_OPTIONS_INIT;
    gantry_fleet_options options = GANTRY_FLEET_OPTIONS_INIT;
    gantry_fleet *out, *fleet;
    contexts.driver = GANTRY_DRIVER_EMULATED;
    options.context = &contexts;
    options.devices = "0";
    BAD("`out` NULL", gantry_fleet_create(&options, NULL));
    options.struct_size = 4;
    BAD_OUT("struct_size too small", out, gantry_fleet_create(&options, &out));
    options.struct_size = sizeof(options);
    options.devices = "0,";
    BAD_OUT("a device without a name", out, gantry_fleet_create(&options, &out));
    options.devices = "0,0";
    BAD_OUT("a device twice", out, gantry_fleet_create(&options, &out));
    options.devices = "17";
    BAD_OUT("no such device", out, gantry_fleet_create(&options, &out));
    options.devices = "0";
    contexts.mode = GANTRY_CONTEXT_ADOPT;
    BAD_OUT("ADOPT", out, gantry_fleet_create(&options, &out));
    contexts.mode = GANTRY_CONTEXT_PRIMARY;
    assert_ok(gantry_fleet_create(&options, &fleet));
    BAD_GIVES("no such index", NULL, gantry_fleet_context(fleet, 1));
    BAD_GIVES("NULL", NULL, gantry_fleet_context(NULL, 0));
    bad_note("gantry_fleet_device_count", "NULL", "gives 0");
    BAD_REFUSED("of a fleet", gantry_context_destroy(gantry_fleet_context(fleet, 0)));
    gantry_taskman_options with = GANTRY_TASKMAN_OPTIONS_INIT;
    gantry_taskman *none;
    with.fleet = fleet;
    with.gpu_dispatcher = gantry_context_dispatcher(gantry_fleet_context(fleet, 0));
    BAD_OUT("a fleet and a GPU dispatcher", none, gantry_taskman_create(&with, &none));
    gantry_fleet_destroy(fleet);
    BAD_IGNORED(gantry_fleet_destroy, "NULL");
}

static void create_rows(void)
{
    gantry_context_options options = GANTRY_CONTEXT_OPTIONS_INIT;
    gantry_context *out;
    struct {
        gantry_context_options options;
        uint64_t field;
    } later = {{.struct_size = sizeof(later), .driver = GANTRY_DRIVER_EMULATED}, 1};
    options.driver = GANTRY_DRIVER_EMULATED;
    BAD("`out` NULL", gantry_context_create(&options, NULL));
    options.struct_size = 4;
    BAD_OUT("struct_size too small", out, gantry_context_create(&options, &out));
    options.struct_size = sizeof(options);
    BAD_OUT("a field not known", out, gantry_context_create(&later.options, &out));
    options.driver = (gantry_driver_choice)7;
    BAD_OUT("unknown driver", out, gantry_context_create(&options, &out));
    options.driver = GANTRY_DRIVER_EMULATED;
    options.mode = GANTRY_CONTEXT_ADOPT;
    BAD_OUT("ADOPT without a context", out, gantry_context_create(&options, &out));
    options.mode = (gantry_context_mode)7;
    BAD_OUT("unknown mode", out, gantry_context_create(&options, &out));
    options.mode = GANTRY_CONTEXT_PRIMARY;
    options.device = "17";
    BAD_OUT("no such device", out, gantry_context_create(&options, &out));
    options.device = "first";
    BAD_OUT("no ordinal and no UUID", out, gantry_context_create(&options, &out));
    options.device = NULL;
    options.stream_limit = 1000;
    BAD_OUT("too many streams", out, gantry_context_create(&options, &out));
    options.stream_limit = 0;
    options.retired_launch_threads = 2;
    BAD_OUT("launch threads, which are gone", out, gantry_context_create(&options, &out));
    options.retired_launch_threads = 0;
    options.submission = (gantry_submission)7;
    BAD_OUT("unknown submission", out, gantry_context_create(&options, &out));
    options.submission = GANTRY_SUBMISSION_DEFAULT;
    options.retired_quota_controller = "nvml";
    BAD_OUT("a quota controller, which is gone", out, gantry_context_create(&options, &out));
    options.retired_quota_controller = NULL;
    options.completion_wait = (gantry_wait_mode)77;
    BAD_OUT("unknown wait mode", out, gantry_context_create(&options, &out));
    options.completion_wait = GANTRY_WAIT_DEFAULT;
    gantry_heap_options heap = {.struct_size = 4};
    gantry_partition_options plan = {.struct_size = 4};
    options.heap = &heap;
    BAD_OUT("struct_size of `heap` too small", out, gantry_context_create(&options, &out));
    options.heap = NULL;
    options.partitions = &plan;
    BAD_OUT("struct_size of `partitions` too small", out, gantry_context_create(&options, &out));
    options.partitions = NULL;
    options.wfi = (gantry_wfi_mode)7;
    BAD_OUT("unknown wfi mode", out, gantry_context_create(&options, &out));
    gantry_context_destroy(NULL);
    BAD_IGNORED(gantry_context_destroy, "NULL");
}

static void context_rows(void)
{
    gantry_device_info info = {.struct_size = sizeof(info)}, small = {.struct_size = 4};
    BAD("`context` NULL", gantry_context_acquire(NULL));
    BAD("`context` NULL", gantry_context_synchronize(NULL));
    BAD("`context` NULL", gantry_context_release(NULL));
    BAD("not acquired", gantry_context_release(context));
    uint64_t free_bytes, total_bytes;
    int ordinal;
    BAD("`context` NULL", gantry_context_memory(NULL, &free_bytes, &total_bytes));
    BAD("`out_ordinal` NULL", gantry_suggest_device(GANTRY_DRIVER_EMULATED, NULL));
    BAD("unknown driver", gantry_suggest_device((gantry_driver_choice)7, &ordinal));
    gantry_link link = {.struct_size = sizeof(link)};
    BAD("`out` NULL", gantry_link_get(GANTRY_DRIVER_EMULATED, 0, 1, NULL));
    BAD("`from` is `to`", gantry_link_get(GANTRY_DRIVER_EMULATED, 0, 0, &link));
    BAD("no such ordinal", gantry_link_get(GANTRY_DRIVER_EMULATED, 0, 4711, &link));
    BAD("unknown driver", gantry_link_get((gantry_driver_choice)7, 0, 1, &link));
    BAD("`out` NULL", gantry_link_measure(GANTRY_DRIVER_EMULATED, 0, 1, 1 << 20, NULL));
    BAD("`from` is `to`", gantry_link_measure(GANTRY_DRIVER_EMULATED, 1, 1, 1 << 20, &link));
    BAD("less than 64 KiB", gantry_link_measure(GANTRY_DRIVER_EMULATED, 0, 1, 4, &link));
    gantry_context_clear_abort(NULL);
    BAD_IGNORED(gantry_context_clear_abort, "NULL");
    BAD_UNCHECKED(gantry_context_is_aborted, "NULL");
    BAD("`context` NULL", gantry_context_device_info(NULL, &info));
    BAD("`info` NULL", gantry_context_device_info(context, NULL));
    BAD("struct_size too small", gantry_context_device_info(context, &small));
    BAD_UNCHECKED(gantry_context_dispatcher, "NULL");
    BAD_UNCHECKED(gantry_context_heap, "NULL");
    BAD_UNCHECKED(gantry_context_is_valid, "NULL");
    BAD_UNCHECKED(gantry_context_native, "NULL");
}

/* Whether there is a compiler depends on the machine, so none is asked. */
static void compile_rows(void)
{
    static const char *const names[] = {"add_one", NULL};
    char log[8];
    gantry_module *none;
    gantry_module_source source = GANTRY_MODULE_SOURCE_INIT;
    BAD_OUT("`context` NULL", none, gantry_module_compile(NULL, &source, &none));
    BAD_OUT("`source` NULL", none, gantry_module_compile(context, NULL, &none));
    BAD("`out` NULL", gantry_module_compile(context, &source, NULL));
    BAD_OUT("`text` NULL", none, gantry_module_compile(context, &source, &none));
    source.text = "";
    BAD_OUT("no names", none, gantry_module_compile(context, &source, &none));
    source.kernel_names = names;
    source.log = log;
    BAD_OUT("a log without room", none, gantry_module_compile(context, &source, &none));
    source.struct_size = 4;
    BAD_OUT("struct_size too small", none, gantry_module_compile(context, &source, &none));
}

static void module_rows(void)
{
    gantry_module *module = NULL, *none;
    gantry_kernel *no_kernel;
    gantry_module_image image = gantry_image_campaign_kernels;
    BAD_OUT("`context` NULL", none, gantry_module_load(NULL, &image, &none));
    BAD_OUT("`image` NULL", none, gantry_module_load(context, NULL, &none));
    BAD("`out` NULL", gantry_module_load(context, &image, NULL));
    image.struct_size = 4;
    BAD_OUT("struct_size too small", none, gantry_module_load(context, &image, &none));
    image = gantry_image_campaign_kernels;
    image.host = NULL;
    image.fatbin = NULL;
    image.ptx = NULL;
    BAD_OUT("an image without a form", none, gantry_module_load(context, &image, &none));
    assert_ok(gantry_module_load(context, &gantry_image_campaign_kernels, &module));
    assert_ok(gantry_module_get_kernel(module, "add_one", &kernel));
    BAD_OUT("`module` NULL", no_kernel, gantry_module_get_kernel(NULL, "a", &no_kernel));
    BAD_OUT("`name` NULL", no_kernel, gantry_module_get_kernel(module, NULL, &no_kernel));
    BAD_OUT("no such kernel", no_kernel, gantry_module_get_kernel(module, "add_two", &no_kernel));
    BAD("`out` NULL", gantry_module_get_kernel(module, "add_one", NULL));
    static const char *const names[] = {"add_one", NULL};
    gantry_module_code code = {.struct_size = 4}, neither = GANTRY_MODULE_CODE_INIT;
    neither.kernel_names = names;
    BAD_OUT("`context` NULL", none, gantry_module_load_code(NULL, &neither, &none));
    BAD_OUT("`code` NULL", none, gantry_module_load_code(context, NULL, &none));
    BAD("`out` NULL", gantry_module_load_code(context, &neither, NULL));
    BAD_OUT("struct_size too small", none, gantry_module_load_code(context, &code, &none));
    BAD_OUT("neither code nor path", none, gantry_module_load_code(context, &neither, &none));
    code = neither;
    code.path = "no/such.cubin";
    BAD_OUT("no such file", none, gantry_module_load_code(context, &code, &none));
    code.code = "";
    BAD_OUT("both code and path", none, gantry_module_load_code(context, &code, &none));
    code = neither;
    code.code = ".version 7.0 this is no PTX";
    BAD_OUT("no code that the driver takes", none, gantry_module_load_code(context, &code, &none));
    code.kernel_names = NULL;
    BAD_OUT("no names", none, gantry_module_load_code(context, &code, &none));
    compile_rows();
    gantry_module_unload(NULL);
    BAD_IGNORED(gantry_module_unload, "NULL");
    BAD_UNCHECKED(gantry_kernel_name, "NULL");
    BAD_GIVES("NULL", NULL, gantry_kernel_native(NULL));
}

static void queue_rows(void)
{
    gantry_copy_queue *queue = NULL;
    gantry_copy_desc desc = {pinned, device, 4, GANTRY_COPY_DTOH, 0, 0};
    gantry_copy_tuning tuning = {.struct_size = sizeof(tuning)}, small = {.struct_size = 4};
    BAD("`out` NULL", gantry_copy_queue_create(1, NULL));
    assert_ok(gantry_copy_queue_create(1, &queue));
    BAD("`queue` NULL", gantry_copy_queue_enqueue(NULL, &desc));
    BAD("`desc` NULL", gantry_copy_queue_enqueue(queue, NULL));
    desc.type = (gantry_copy_type)7;
    BAD("unknown type", gantry_copy_queue_enqueue(queue, &desc));
    desc = (gantry_copy_desc){NULL, device, 4, GANTRY_COPY_DTOH, 0, 0};
    BAD("`dest` NULL", gantry_copy_queue_enqueue(queue, &desc));
    desc = (gantry_copy_desc){device, NULL, 4, GANTRY_COPY_FILL, 3, 0};
    BAD("a pattern of 3 bytes", gantry_copy_queue_enqueue(queue, &desc));
    desc = (gantry_copy_desc){device, pinned, UINT64_MAX, GANTRY_COPY_HTOD, 0, 0};
    BAD("a range that wraps", gantry_copy_queue_enqueue(queue, &desc));
    gantry_copy_queue_destroy(queue);
    gantry_copy_queue_destroy(NULL);
    BAD_IGNORED(gantry_copy_queue_destroy, "NULL");
    gantry_copy_queue_clear(NULL);
    BAD_IGNORED(gantry_copy_queue_clear, "NULL");
    assert_int_equal(gantry_copy_queue_count(NULL), 0);
    bad_note("gantry_copy_queue_count", "NULL", "gives 0");
    BAD("`context` NULL", gantry_copy_get_tuning(NULL, &tuning));
    BAD("`out` NULL", gantry_copy_get_tuning(context, NULL));
    BAD("struct_size too small", gantry_copy_get_tuning(context, &small));
    BAD("`context` NULL", gantry_copy_set_tuning(NULL, &tuning));
    BAD("`tuning` NULL", gantry_copy_set_tuning(context, NULL));
    BAD("struct_size too small", gantry_copy_set_tuning(context, &small));
    tuning.misaligned = 3;
    BAD("`misaligned` 3", gantry_copy_set_tuning(context, &tuning));
    tuning.misaligned = 0;
    tuning.host_blocks = 65;
    BAD("65 host blocks", gantry_copy_set_tuning(context, &tuning));
    tuning.host_blocks = 0;
    tuning.host_threads = 33;
    BAD("33 host threads", gantry_copy_set_tuning(context, &tuning));
    gantry_copy_peer_tuning peer = {.struct_size = sizeof(peer)}, small_peer = {.struct_size = 4};
    BAD("`context` NULL", gantry_copy_get_peer_tuning(NULL, 1, &peer));
    BAD("`out` NULL", gantry_copy_get_peer_tuning(context, 1, NULL));
    BAD("struct_size too small", gantry_copy_get_peer_tuning(context, 1, &small_peer));
    BAD("`peer` -1", gantry_copy_get_peer_tuning(context, -1, &peer));
    BAD("`peer` 64", gantry_copy_get_peer_tuning(context, 64, &peer));
    BAD("`context` NULL", gantry_copy_set_peer_tuning(NULL, 1, &peer));
    BAD("`tuning` NULL", gantry_copy_set_peer_tuning(context, 1, NULL));
    BAD("struct_size too small", gantry_copy_set_peer_tuning(context, 1, &small_peer));
    BAD("the context's own device", gantry_copy_set_peer_tuning(context, 0, &peer));
    BAD_UNCHECKED(gantry_copy_tuning_text, "NULL");
}

/* ---- launch scope ---------------------------------------------------------------------------- */

static void list_rows(gantry_launch *launch, const gantry_copy_desc *wrong)
{
    gantry_copy_list list = GANTRY_COPY_LIST_INIT;
    BAD("`list` NULL", gantry_copy_launch_list(launch, NULL, NULL));
    list.most = 2;
    BAD("neither descs nor arrays", gantry_copy_launch_list(launch, &list, NULL));
    list.descs = wrong;
    BAD("descriptors in pageable memory", gantry_copy_launch_list(launch, &list, NULL));
    list.bytes = (const uint64_t *)(const void *)wrong;
    BAD("descs and bytes", gantry_copy_launch_list(launch, &list, NULL));
    gantry_copy_box box = GANTRY_COPY_BOX_INIT;
    BAD("`box` NULL", gantry_copy_launch_box(launch, NULL, NULL));
    box.width = 8;
    BAD("`dest` NULL", gantry_copy_launch_box(launch, &box, NULL));
    box.rows = 2;
    BAD("a dest_pitch of 0", gantry_copy_launch_box(launch, &box, NULL));
}

static void options_rows(gantry_launch *launch)
{
    const gantry_dim3 one = {1, 1, 1}, none = {0, 1, 1};
    void *args[4] = {NULL};
    gantry_launch_options options = {.struct_size = 4};
    BAD("`kernel` NULL", gantry_launch_kernel_with(launch, NULL, one, one, 0, args, NULL));
    BAD("`kernel` NULL", gantry_launch_kernel_sized(launch, NULL, one, one, 0, args, NULL, 0, NULL));
    BAD("a grid of 0", gantry_launch_kernel_with(launch, kernel, none, one, 0, args, NULL));
    BAD("struct_size too small", gantry_launch_kernel_with(launch, kernel, one, one, 0, args, &options));
    options = (gantry_launch_options)GANTRY_LAUNCH_OPTIONS_INIT;
    options.start = (gantry_kernel_start)7;
    BAD("unknown start", gantry_launch_kernel_with(launch, kernel, one, one, 0, args, &options));
    options.start = GANTRY_KERNEL_START_EARLY;
    BAD("an early start of a kernel that is not made for it",
        gantry_launch_kernel_with(launch, kernel, one, one, 0, args, &options));
    options = (gantry_launch_options)GANTRY_LAUNCH_OPTIONS_INIT;
    options.memory_domain = (gantry_memory_domain)7;
    BAD("unknown memory domain", gantry_launch_kernel_with(launch, kernel, one, one, 0, args, &options));
    options = (gantry_launch_options)GANTRY_LAUNCH_OPTIONS_INIT;
    options.cluster = (gantry_dim3){2, 1, 1};
    BAD("a cluster of 2 in a grid of 1",
        gantry_launch_kernel_with(launch, kernel, one, one, 0, args, &options));
    options.cluster = (gantry_dim3){32, 1, 1};
    BAD("a cluster of 32", gantry_launch_kernel_with(launch, kernel, one, one, 0, args, &options));
    options.cluster = (gantry_dim3){2, 0, 1};
    BAD("a cluster with a 0", gantry_launch_kernel_with(launch, kernel, one, one, 0, args, &options));
    options = (gantry_launch_options)GANTRY_LAUNCH_OPTIONS_INIT;
    options.cooperative = 1;
    BAD("a cooperative grid that does not fit",
        gantry_launch_kernel_with(launch, kernel, (gantry_dim3){1 << 20, 1, 1}, one, 0, args, &options));
    BAD("`graph_exec` NULL", gantry_launch_graph(launch, NULL));
    gantry_occupancy fits = {.struct_size = sizeof(fits)}, small = {.struct_size = 4};
    gantry_partition *partition = gantry_partition_default(context);
    BAD("`partition` NULL", gantry_partition_get_occupancy(NULL, kernel, one, 0, NULL, &fits));
    BAD("`kernel` NULL", gantry_partition_get_occupancy(partition, NULL, one, 0, NULL, &fits));
    BAD("`out` NULL", gantry_partition_get_occupancy(partition, kernel, one, 0, NULL, NULL));
    BAD("a block of 0", gantry_partition_get_occupancy(partition, kernel, none, 0, NULL, &fits));
    BAD("struct_size too small", gantry_partition_get_occupancy(partition, kernel, one, 0, NULL, &small));
    void *stream = gantry_launch_stream(launch);
    BAD("`context` NULL", gantry_stream_get_occupancy(NULL, stream, kernel, one, 0, NULL, &fits));
    BAD("`kernel` NULL", gantry_stream_get_occupancy(context, stream, NULL, one, 0, NULL, &fits));
    BAD("`out` NULL", gantry_stream_get_occupancy(context, stream, kernel, one, 0, NULL, NULL));
    BAD("no stream", gantry_stream_get_occupancy(context, &small, kernel, one, 0, NULL, &fits));
    BAD("a block of 0", gantry_stream_get_occupancy(context, stream, kernel, none, 0, NULL, &fits));
    BAD("struct_size too small", gantry_stream_get_occupancy(context, stream, kernel, one, 0, NULL, &small));
}

static void launch_rows(gantry_launch *launch)
{
    const gantry_dim3 one = {1, 1, 1}, none = {0, 1, 1};
    gantry_copy_desc wrong[2] = {{device, NULL, 4, GANTRY_COPY_FILL, 1, 0},
                                 {(char *)device + 4, NULL, 4, GANTRY_COPY_FILL, 5, 0}};
    void *args[4] = {NULL}, *out;
    gantry_alloc_site site = GANTRY_ALLOC_SITE("row");
    BAD("`kernel` NULL", gantry_launch_kernel(launch, NULL, one, one, 0, args));
    BAD("a grid of 0", gantry_launch_kernel(launch, kernel, none, one, 0, args));
    BAD("a block of 0", gantry_launch_kernel(launch, kernel, one, none, 0, args));
    options_rows(launch);
    uint32_t blocks;
    BAD("`kernel` NULL", gantry_launch_max_blocks(launch, NULL, 32, 0, &blocks));
    BAD("no threads", gantry_launch_max_blocks(launch, kernel, 0, 0, &blocks));
    BAD("`out` NULL", gantry_launch_max_blocks(launch, kernel, 32, 0, NULL));
    BAD("too much shared memory", gantry_launch_kernel(launch, kernel, one, one, SIZE_MAX, args));
    BAD("`device` NULL", gantry_launch_copy_htod(launch, NULL, pinned, 4));
    BAD("`host` NULL", gantry_launch_copy_htod(launch, device, NULL, 4));
    BAD("`host` NULL", gantry_launch_copy_dtoh(launch, NULL, device, 4));
    BAD("`device` NULL", gantry_launch_copy_dtoh(launch, pinned, NULL, 4));
    BAD("`to` NULL", gantry_launch_copy_dtod(launch, NULL, device, 4));
    BAD("`from` NULL", gantry_launch_copy_dtod(launch, device, NULL, 4));
    BAD("`device` NULL", gantry_launch_fill(launch, NULL, 0, 1, 4));
    BAD("a pattern of 3 bytes", gantry_launch_fill(launch, device, 0, 3, 4));
    BAD("called from a launch callback", gantry_context_synchronize(context));
    BAD("called from a launch callback", gantry_partition_synchronize(gantry_partition_default(context)));
    const size_t gib = (size_t)1 << 30;
    BAD("more than the block has", gantry_launch_copy_htod(launch, device, pinned, gib));
    BAD("more than the block has", gantry_launch_copy_dtoh(launch, pinned, device, gib));
    BAD("more than the block has", gantry_launch_copy_dtod(launch, device, (char *)device + 4, gib));
    BAD("more than the block has", gantry_launch_fill(launch, device, 0, 4, gib));
    BAD("`task` NULL", gantry_launch_add_completion(launch, NULL));
    BAD("a task that is released", gantry_launch_add_completion(launch, released_task));
    BAD("no block", gantry_free_after((char *)device + 64, launch));
    BAD_OUT("0 bytes", out, gantry_launch_alloc(launch, GANTRY_MEMORY_DEVICE, 0, 0, site, &out));
    BAD_OUT("unknown kind", out, gantry_launch_alloc(launch, (gantry_memory_kind)7, 1, 0, site, &out));
    BAD("`out` NULL", gantry_launch_alloc(launch, GANTRY_MEMORY_DEVICE, 1, 0, site, NULL));
    BAD("`descs` NULL", gantry_copy_launch(launch, NULL, 1));
    BAD("a pattern of 5 bytes in the second", gantry_copy_launch(launch, wrong, 2));
    gantry_copy_options options = {.struct_size = 4};
    BAD("struct_size too small", gantry_copy_launch_with(launch, wrong, 1, &options));
    options = (gantry_copy_options)GANTRY_COPY_OPTIONS_INIT;
    options.priority = (gantry_copy_priority)7;
    BAD("unknown priority", gantry_copy_launch_with(launch, wrong, 1, &options));
    options.priority = GANTRY_COPY_PRIORITY_STREAM;
    options.htod_blocks = 65;
    BAD("65 blocks", gantry_copy_launch_with(launch, wrong, 1, &options));
    list_rows(launch, wrong);
    BAD("`queue` NULL", gantry_copy_queue_flush_with(NULL, launch, NULL));
    BAD("`queue` NULL", gantry_copy_queue_flush(NULL, launch));
    gantry_copy_queue *queue = NULL;
    gantry_copy_desc good = {device, NULL, 4, GANTRY_COPY_FILL, 1, 0};
    options = (gantry_copy_options){.struct_size = 4};
    assert_ok(gantry_copy_queue_create(1, &queue));
    assert_ok(gantry_copy_queue_enqueue(queue, &good));
    BAD("struct_size too small", gantry_copy_queue_flush_with(queue, launch, &options));
    gantry_copy_queue_destroy(queue);
    BAD("less than 64 KiB", gantry_copy_calibrate(launch, 1));
    gantry_task_launch_stats stats = {.struct_size = sizeof(stats)};
    BAD("not released yet", gantry_task_get_launch_stats(gpu_task, &stats));
}

static gantry_launch_result launch_callback(gantry_launch *launch, void *arg)
{
    (void)arg;
    launch_rows(launch);
    gantry_taskman *its = gantry_task_manager(gantry_launch_task(launch));
    BAD("called from a callback", gantry_taskman_wait(its));
    BAD("called from a callback", gantry_taskman_stop(its));
    BAD_REFUSED("called from a callback", gantry_taskman_destroy(its));
    BAD_REFUSED("called from a callback", gantry_context_destroy(gantry_launch_context(launch)));
    return GANTRY_LAUNCH_DONE;
}

/* NULL, and a launch of a callback that is still running, used by another thread: the CPU task below. */
static void scope_rows(gantry_launch *launch, const char *wrong)
{
    gantry_copy_list list = GANTRY_COPY_LIST_INIT;
    gantry_copy_box box = GANTRY_COPY_BOX_INIT;
    const gantry_dim3 one = {1, 1, 1};
    gantry_alloc_site site = GANTRY_ALLOC_SITE("row");
    void *args[4] = {NULL}, *out;
    gantry_copy_desc desc = {device, NULL, 4, GANTRY_COPY_FILL, 1, 0};
    BAD(wrong, gantry_launch_kernel(launch, kernel, one, one, 0, args));
    BAD(wrong, gantry_launch_kernel_with(launch, kernel, one, one, 0, args, NULL));
    BAD(wrong, gantry_launch_kernel_sized(launch, kernel, one, one, 0, args, NULL, 0, NULL));
    BAD(wrong, gantry_launch_graph(launch, pinned));
    uint32_t blocks;
    BAD(wrong, gantry_launch_max_blocks(launch, kernel, 32, 0, &blocks));
    BAD(wrong, gantry_launch_copy_htod(launch, device, pinned, 4));
    BAD(wrong, gantry_launch_copy_dtoh(launch, pinned, device, 4));
    BAD(wrong, gantry_launch_copy_dtod(launch, device, device, 4));
    BAD(wrong, gantry_launch_fill(launch, device, 0, 1, 4));
    BAD(wrong, gantry_launch_request_sync_point(launch));
    BAD(wrong, gantry_launch_leave_graph(launch));
    BAD(wrong, gantry_launch_add_completion(launch, gpu_task));
    BAD(wrong, gantry_launch_add_completion_of_all(launch, gpu_task));
    BAD_GIVES(wrong, GANTRY_LAUNCH_FAILED, gantry_launch_fail(launch, GANTRY_ERR_IO));
    BAD(wrong, gantry_free_after(device, launch));
    BAD_OUT(wrong, out, gantry_launch_alloc(launch, GANTRY_MEMORY_DEVICE, 1, 0, site, &out));
    BAD(wrong, gantry_copy_launch(launch, &desc, 1));
    BAD(wrong, gantry_copy_launch_with(launch, &desc, 1, NULL));
    BAD(wrong, gantry_copy_launch_list(launch, &list, NULL));
    BAD(wrong, gantry_copy_launch_box(launch, &box, NULL));
    BAD(wrong, gantry_copy_queue_flush_with(NULL, launch, NULL));
    BAD(wrong, gantry_copy_queue_flush(NULL, launch));
    BAD(wrong, gantry_copy_calibrate(launch, 1u << 20));
}

/* While the callback blocks the dispatcher's thread, another thread uses its launch. */
static gantry_launch_result lend_launch(gantry_launch *launch, void *arg)
{
    gantry_task *borrower = arg;
    stale = launch;
    if (gantry_task_remove_reference(borrower) != GANTRY_OK) {
        return GANTRY_LAUNCH_FAILED;
    }
    while (gantry_task_get_state(borrower) < GANTRY_TASK_STATE_DONE) {
        sched_yield();
    }
    return GANTRY_LAUNCH_DONE;
}

static gantry_status borrow(gantry_task *task, void *arg)
{
    (void)task;
    (void)arg;
    scope_rows(stale, "the thread is not that of the callback");
    return GANTRY_OK;
}

static gantry_task *submit(gantry_task_kind kind, gantry_launch_fn launch, gantry_task_fn run, void *arg)
{
    gantry_task_desc desc = GANTRY_TASK_DESC_INIT;
    gantry_task *task = NULL;
    desc.kind = kind;
    desc.launch = launch;
    desc.run = run;
    desc.arg = arg;
    desc.label = "row";
    assert_ok(gantry_taskman_submit(manager, &desc, &task));
    return task;
}

static gantry_status nothing(gantry_task *task, void *arg)
{
    (void)task;
    (void)arg;
    return GANTRY_OK;
}

static void launch_scope(void)
{
    released_task = submit(GANTRY_TASK_CPU, NULL, nothing, NULL);
    gpu_task = submit(GANTRY_TASK_KERNEL, launch_callback, NULL, NULL);
    assert_ok(gantry_task_start_after(gpu_task, released_task));
    gantry_task *borrower = submit(GANTRY_TASK_CPU, NULL, borrow, NULL);
    assert_ok(gantry_task_add_reference(borrower));
    gantry_task *lender = submit(GANTRY_TASK_KERNEL, lend_launch, NULL, borrower);
    assert_ok(gantry_task_start_after(lender, gpu_task));
    assert_ok(gantry_taskman_start(manager));
    assert_ok(gantry_taskman_stop(manager));
    gantry_task_launch_stats stats = {.struct_size = sizeof(stats)}, small = {.struct_size = 4};
    BAD("`task` NULL", gantry_task_get_launch_stats(NULL, &stats));
    BAD("no GPU task", gantry_task_get_launch_stats(released_task, &stats));
    BAD("`stats` NULL", gantry_task_get_launch_stats(gpu_task, NULL));
    BAD("struct_size too small", gantry_task_get_launch_stats(gpu_task, &small));
    scope_rows(NULL, "`launch` NULL");
    assert_ok(gantry_taskman_reset(manager));
    assert_null(gantry_launch_profile(NULL, 0, (gantry_dim3){1, 1, 1}));
    bad_note("gantry_launch_profile", "NULL", "gives NULL");
    assert_null(gantry_launch_profile_ranges(NULL, 0, (gantry_dim3){1, 1, 1}, 4));
    bad_note("gantry_launch_profile_ranges", "NULL", "gives NULL");
    BAD_UNCHECKED(gantry_launch_capture_stream, "NULL");
    BAD_UNCHECKED(gantry_launch_context, "NULL");
    BAD_UNCHECKED(gantry_launch_index, "NULL");
    BAD_UNCHECKED(gantry_launch_partition, "NULL");
    BAD_UNCHECKED(gantry_launch_stream, "NULL");
    BAD_UNCHECKED(gantry_launch_task, "NULL");
}

static void dispatcher_rows(void)
{
    gantry_dispatcher *dispatcher = gantry_context_dispatcher(context);
    gantry_dispatcher_stats stats = {.struct_size = sizeof(stats)}, small = {.struct_size = 4};
    gantry_batch_stats batch = {.struct_size = sizeof(batch)}, little = {.struct_size = 4};
    BAD("`dispatcher` NULL", gantry_dispatcher_set_submission(NULL, GANTRY_SUBMISSION_AUTO));
    BAD("unknown mode", gantry_dispatcher_set_submission(dispatcher, (gantry_submission)7));
    BAD("`dispatcher` NULL", gantry_dispatcher_get_stats(NULL, &stats));
    BAD("`stats` NULL", gantry_dispatcher_get_stats(dispatcher, NULL));
    BAD("struct_size too small", gantry_dispatcher_get_stats(dispatcher, &small));
    BAD("`dispatcher` NULL", gantry_dispatcher_get_batch_stats(NULL, &batch));
    BAD("`stats` NULL", gantry_dispatcher_get_batch_stats(dispatcher, NULL));
    BAD("struct_size too small", gantry_dispatcher_get_batch_stats(dispatcher, &little));
    BAD_UNCHECKED(gantry_dispatcher_failure_detected, "NULL");
    BAD_UNCHECKED(gantry_dispatcher_finish_group, "NULL");
    BAD_UNCHECKED(gantry_dispatcher_force_failure, "NULL");
    BAD_UNCHECKED(gantry_dispatcher_get_concurrent_streams, "NULL");
    BAD_UNCHECKED(gantry_dispatcher_set_concurrent_streams, "NULL");
    BAD_UNCHECKED(gantry_dispatcher_start_group, "NULL");
}

/* The context is lost from here on. */
static void lost_rows(void)
{
    void *out;
    gantry_alloc_site site = GANTRY_ALLOC_SITE("row");
    submit(GANTRY_TASK_KERNEL, launch_callback, NULL, NULL);
    gantry_dispatcher_force_failure(gantry_context_dispatcher(context));
    BAD("the context is lost", gantry_taskman_start(manager));
    BAD("the context is lost", gantry_context_acquire(context));
    gantry_partition *partition = gantry_partition_default(context), *found;
    gantry_sm_topology topology = {.struct_size = sizeof(topology)};
    gantry_module *module;
    gantry_sm_set set = {.struct_size = sizeof(set)};
    uint64_t free_bytes;
    void *stream;
    BAD("the context is lost", gantry_context_set_partitions(context, NULL));
    gantry_partition_options plan = GANTRY_PARTITION_OPTIONS_INIT;
    BAD("the context is lost", gantry_partition_read_parent_topology(context, &plan, &topology));
    BAD("the context is lost", gantry_context_memory(context, &free_bytes, NULL));
    BAD_OUT("the context is lost", module,
            gantry_module_load(context, &gantry_image_campaign_kernels, &module));
    BAD("the context is lost", gantry_partition_read_topology(context, &topology));
    BAD_OUT("the context is lost", stream, gantry_partition_create_stream(partition, &stream));
    BAD_OUT("the context is lost", found, gantry_partition_of_stream(context, &topology, &found));
    gantry_stream_info told = {.struct_size = sizeof(told)};
    BAD("the context is lost", gantry_stream_get_info(context, &topology, &told));
    BAD("the context is lost", gantry_partition_audit(partition, GANTRY_AUDIT_STREAM, &set));
    BAD_OUT("the context is lost", out,
            gantry_heap_alloc(gantry_context_heap(context), GANTRY_MEMORY_WRITE_COMBINED, 64u << 20, 0, site,
                              &out));
    assert_ok(gantry_taskman_reset(manager));
}

void bad_context(void)
{
    gantry_context_options options = GANTRY_CONTEXT_OPTIONS_INIT;
    gantry_taskman_options with = GANTRY_TASKMAN_OPTIONS_INIT;
    gantry_cpu_dispatcher_options cpus = GANTRY_CPU_DISPATCHER_OPTIONS_INIT;
    gantry_cpu_dispatcher *pool;
    gantry_alloc_site site = GANTRY_ALLOC_SITE("rows");
    create_rows();
    fleet_rows();
    options.driver = GANTRY_DRIVER_EMULATED;
    options.mode = GANTRY_CONTEXT_OWN;
    cpus.worker_count = 1;
    assert_ok(gantry_context_create(&options, &context));
    assert_ok(gantry_cpu_dispatcher_create(&cpus, &pool));
    with.gpu_dispatcher = gantry_context_dispatcher(context);
    with.cpu_dispatcher = pool;
    assert_ok(gantry_taskman_create(&with, &manager));
    gantry_heap *heap = gantry_context_heap(context);
    assert_ok(gantry_heap_alloc(heap, GANTRY_MEMORY_DEVICE, 4096, 0, site, &device));
    assert_ok(gantry_heap_alloc(heap, GANTRY_MEMORY_PINNED, 4096, 0, site, &pinned));
    context_rows();
    module_rows();
    queue_rows();
    launch_scope();
    dispatcher_rows();
    lost_rows();
    gantry_taskman_destroy(manager);
    gantry_cpu_dispatcher_destroy(pool);
    gantry_context_destroy(context);
}
