/* SPDX-License-Identifier: MIT */
#include "tests/context/foreign_scene.h"

#include <string.h>

/* ---- waits ------------------------------------------------------------------------------------- */

/* A large block that waits for a stream, of which no event tells. */
static gantry_status act_settle(struct scene *s)
{
    CUstream stream;
    void *block = NULL;
    must(cu->cuCtxPushCurrent(primary));
    must(cu->cuStreamCreate(&stream, CU_STREAM_NON_BLOCKING));
    gantry_status status = gantry_heap_alloc_on(s->heap, GANTRY_MEMORY_DEVICE, 4 << 20, 0, stream,
                                                GANTRY_ALLOC_SITE("settled"), &block);
    if (status == GANTRY_OK) {
        must(cu->cuMemsetD32Async((CUdeviceptr)(uintptr_t)block, 1, WORDS, stream));
        status = gantry_heap_free_on(s->heap, block, stream);
    }
    if (status == GANTRY_OK) {
        status = gantry_heap_settle(s->heap);
    }
    must(cu->cuStreamDestroy(stream));
    must(cu->cuCtxPopCurrent(&(CUcontext){NULL}));
    return status;
}

static gantry_status act_synchronize(struct scene *s)
{
    const gantry_status status = act_kernels(s);
    return status == GANTRY_OK ? gantry_context_synchronize(s->gpu.context) : status;
}

static gantry_status act_synchronize_partition(struct scene *s)
{
    const gantry_status status = act_kernels(s);
    return status == GANTRY_OK ? gantry_partition_synchronize(gantry_partition_default(s->gpu.context))
                               : status;
}

/* The first answer that is not OK, and `calls` of them are made in any case. */
static gantry_status use_event(gantry_partition *partition)
{
    CUevent event;
    must(cu->cuCtxPushCurrent(primary));
    must(cu->cuEventCreate(&event, CU_EVENT_DISABLE_TIMING));
    const gantry_status recorded = gantry_partition_record_event(partition, event);
    assert_true(recorded != GANTRY_ERR_STATE ||
                strstr(gantry_last_error(), "gantry_partition_record_event: a stream of the context") !=
                    NULL);
    const gantry_status waited = gantry_partition_wait_event(partition, event);
    assert_true(waited != GANTRY_ERR_STATE ||
                strstr(gantry_last_error(), "gantry_partition_wait_event: a stream of the context") != NULL);
    must(cu->cuEventDestroy(event));
    must(cu->cuCtxPopCurrent(&(CUcontext){NULL}));
    return recorded == GANTRY_OK ? waited : recorded;
}

static gantry_status act_events(struct scene *s)
{
    const gantry_status status = act_kernels(s);
    assert_int_equal(status, GANTRY_OK);
    return use_event(gantry_partition_default(s->gpu.context));
}

/* Of partitions that the application has no stream of. */
static gantry_status act_events_of_partitions(struct scene *s)
{
    gantry_status status = act_plan(s);
    for (uint32_t i = 0; i < 2 && status == GANTRY_OK; i++) {
        gantry_partition *partition = gantry_partition_at(s->gpu.context, i);
        status = use_event(partition);
        status = status == GANTRY_OK ? gantry_partition_synchronize(partition) : status;
    }
    return status;
}

/* ---- devices ----------------------------------------------------------------------------------- */

struct pair {
    uint32_t *from, *to, *seen;
};

static gantry_launch_result launch_fill(gantry_launch *launch, void *arg)
{
    const struct pair *p = arg;
    return gantry_launch_fill(launch, p->from, 7, 4, WORDS) == GANTRY_OK ? GANTRY_LAUNCH_DONE
                                                                         : GANTRY_LAUNCH_FAILED;
}

static gantry_launch_result launch_across(gantry_launch *launch, void *arg)
{
    const struct pair *p = arg;
    const gantry_copy_desc copies[] = {{p->to, p->from, BYTES / 2, GANTRY_COPY_DTOD, 0, 0},
                                       {p->to + WORDS / 2, p->from, BYTES / 2, GANTRY_COPY_DTOD, 0, 0}};
    return gantry_copy_launch(launch, copies, 2) == GANTRY_OK &&
                   gantry_launch_copy_dtoh(launch, p->seen, p->to, BYTES) == GANTRY_OK
               ? GANTRY_LAUNCH_DONE
               : GANTRY_LAUNCH_FAILED;
}

static void take(gantry_fleet *fleet, uint32_t device, gantry_memory_kind kind, uint32_t **out)
{
    assert_ok(gantry_heap_alloc(gantry_context_heap(gantry_fleet_context(fleet, device)), kind, BYTES, 0,
                                GANTRY_ALLOC_SITE("pair"), (void **)out));
}

static gantry_status run_across(struct scene *s, gantry_fleet *fleet, struct pair *p)
{
    gantry_taskman_options options = GANTRY_TASKMAN_OPTIONS_INIT;
    gantry_taskman *manager = NULL;
    options.cpu_dispatcher = s->gpu.cpus;
    options.fleet = fleet;
    assert_ok(gantry_taskman_create(&options, &manager));
    gantry_status status = GANTRY_OK;
    for (uint32_t step = 0; step < 3 && status == GANTRY_OK; step++) {
        gantry_task_desc desc = GANTRY_TASK_DESC_INIT;
        gantry_task *fill, *across;
        desc.kind = GANTRY_TASK_KERNEL;
        desc.arg = p;
        desc.launch = launch_fill;
        desc.context = gantry_fleet_context(fleet, 0);
        assert_ok(gantry_taskman_submit(manager, &desc, &fill));
        desc.launch = launch_across;
        desc.context = gantry_fleet_context(fleet, 1);
        assert_ok(gantry_taskman_submit(manager, &desc, &across));
        gpu_fixture_after(across, fill);
        gantry_task *seen = NULL;
        desc = (gantry_task_desc)GANTRY_TASK_DESC_INIT;
        desc.kind = GANTRY_TASK_SYNC_POINT;
        assert_ok(gantry_taskman_submit(manager, &desc, &seen));
        assert_ok(gantry_task_start_after_done(seen, across));
        memset(p->seen, 0, BYTES);
        status = gantry_taskman_start(manager);
        status = status == GANTRY_OK ? gantry_taskman_stop(manager) : status;
        assert_ok(gantry_taskman_reset(manager));
        for (uint32_t i = 0; i < WORDS && status == GANTRY_OK; i++) {
            assert_int_equal(p->seen[i], 7);
        }
    }
    gantry_taskman_destroy(manager);
    return status;
}

static gantry_status act_across(struct scene *s)
{
    gantry_context_options context = GANTRY_CONTEXT_OPTIONS_INIT;
    gantry_fleet_options options = GANTRY_FLEET_OPTIONS_INIT;
    gantry_fleet *fleet = NULL;
    struct pair p;
    if (gpu_fixture_lacks_devices(2)) {
        return GANTRY_OK;
    }
    context.driver = gpu_fixture_driver();
    context.submission = s->submission;
    options.context = &context;
    options.devices = "0,1";
    gantry_status status = gantry_fleet_create(&options, &fleet);
    if (status != GANTRY_OK) {
        return status;
    }
    take(fleet, 0, GANTRY_MEMORY_DEVICE, &p.from);
    take(fleet, 1, GANTRY_MEMORY_DEVICE, &p.to);
    take(fleet, 1, GANTRY_MEMORY_PINNED, &p.seen);
    status = run_across(s, fleet, &p);
    assert_ok(gantry_heap_free(gantry_context_heap(gantry_fleet_context(fleet, 0)), p.from));
    assert_ok(gantry_heap_free(gantry_context_heap(gantry_fleet_context(fleet, 1)), p.to));
    assert_ok(gantry_heap_free(gantry_context_heap(gantry_fleet_context(fleet, 1)), p.seen));
    gantry_fleet_destroy(fleet);
    return status;
}

/* ---- a renderer -------------------------------------------------------------------------------- */

static gantry_status wait_drawn(void *arg, uint64_t value, uint64_t timeout_ns)
{
    (void)arg;
    (void)value;
    (void)timeout_ns;
    return GANTRY_OK; /* it has drawn each frame before it is asked */
}

static gantry_status signal_filtered(void *arg, uint64_t value)
{
    *(uint64_t *)arg = value;
    return GANTRY_OK;
}

static gantry_launch_result launch_filter(gantry_launch *launch, void *arg)
{
    const struct scene *s = arg;
    return gantry_launch_fill(launch, s->device, 9, 4, WORDS) == GANTRY_OK ? GANTRY_LAUNCH_DONE
                                                                           : GANTRY_LAUNCH_FAILED;
}

static gantry_status act_exchange(struct scene *s)
{
    gantry_exchange_options options = GANTRY_EXCHANGE_OPTIONS_INIT;
    gantry_exchange *exchange = NULL;
    uint64_t filtered = 0;
    options.wait = wait_drawn;
    options.signal = signal_filtered;
    options.user = &filtered;
    options.timeout_ns = UINT64_C(20000000000);
    gantry_status status = gantry_exchange_create(s->gpu.context, &options, &exchange);
    for (uint64_t frame = 1; frame <= 3 && status == GANTRY_OK; frame++) {
        gantry_task *acquire, *release;
        assert_ok(gantry_exchange_tasks(exchange, s->gpu.manager, &acquire, &release));
        gantry_task *work = gpu_fixture_gpu(&s->gpu, GANTRY_TASK_KERNEL, "filter", launch_filter, s);
        gpu_fixture_after(work, acquire);
        gpu_fixture_after(release, work);
        assert_ok(gantry_exchange_next(exchange, frame, frame));
        status = gantry_taskman_start(s->gpu.manager);
        status = status == GANTRY_OK ? gantry_taskman_stop(s->gpu.manager) : status;
        assert_ok(gantry_taskman_reset(s->gpu.manager));
        assert_true(status != GANTRY_OK || filtered == frame);
    }
    gantry_exchange_destroy(exchange);
    return status;
}

const struct act foreign_waits[] = {
    {"settle the heap", act_settle, false},
    {"synchronise the context", act_synchronize, false},
    {"synchronise the default partition", act_synchronize_partition, false},
    {"events of all streams", act_events, true},
    {"events of partitions", act_events_of_partitions, false},
    {"copies between devices", act_across, false},
    {"exchange frames with a renderer", act_exchange, false},
};
const size_t foreign_wait_count = sizeof(foreign_waits) / sizeof(foreign_waits[0]);
