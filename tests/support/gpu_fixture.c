/* SPDX-License-Identifier: MIT */
#include "tests/support/gpu_fixture.h"

#include "dispatcher/internal.h"
#include "driver/driver.h"
#include "tests/support/cmocka_c11.h"
#include "tests/support/deadline.h"
#include "tests/support/emu_controls.h"

#include <dlfcn.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { HOLD_NS = 50000000 };

gantry_driver_choice gpu_fixture_driver(void)
{
    const char *name = getenv("GANTRY_TEST_DRIVER");
    return name != NULL && strcmp(name, "cuda") == 0 ? GANTRY_DRIVER_CUDA : GANTRY_DRIVER_EMULATED;
}

uint32_t gpu_fixture_devices(void)
{
    const struct gy_driver *driver;
    int count = 0;
    assert_ok(gy_driver_open(gpu_fixture_driver(), &driver));
    assert_int_equal(driver->cuDeviceGetCount(&count), CUDA_SUCCESS);
    return (uint32_t)count;
}

bool gpu_fixture_lacks_devices(uint32_t wanted)
{
    const uint32_t there = gpu_fixture_devices();
    if (there < wanted) {
        assert_int_not_equal(gpu_fixture_driver(), GANTRY_DRIVER_EMULATED);
        const char *promised = getenv("GANTRY_TEST_DEVICES");
        assert_true(promised == NULL || strtoul(promised, NULL, 10) <= there);
        printf("left out: there are %u of %u devices\n", there, wanted);
    }
    return there < wanted;
}

void gpu_fixture_hold_devices(void)
{
    static bool held;
    if (held || gpu_fixture_driver() != GANTRY_DRIVER_CUDA) {
        return;
    }
    held = true;
    const struct gy_driver *driver;
    assert_ok(gy_driver_open(GANTRY_DRIVER_CUDA, &driver));
    for (uint32_t i = 0; i < gpu_fixture_devices(); ++i) {
        CUdevice device;
        CUcontext context;
        assert_int_equal(driver->cuDeviceGet(&device, (int)i), CUDA_SUCCESS);
        assert_int_equal(driver->cuDevicePrimaryCtxRetain(&context, device), CUDA_SUCCESS);
    }
}

void gpu_fixture_open(struct gpu_fixture *fixture, uint32_t workers, uint32_t stream_limit)
{
    gantry_context_options context = GANTRY_CONTEXT_OPTIONS_INIT;
    context.driver = gpu_fixture_driver();
    context.stream_limit = stream_limit;
    gpu_fixture_open_with(fixture, workers, &context);
}

void gpu_fixture_open_with(struct gpu_fixture *fixture, uint32_t workers,
                           const gantry_context_options *context)
{
    memset(fixture, 0, sizeof(*fixture));
    gpu_fixture_hold_devices();
    assert_ok(gantry_context_create(context, &fixture->context));
    /* A call that is held up by a busy machine has not waited for the GPU. */
    gantry_context_dispatcher(fixture->context)->graphs.hold.limit_ns = HOLD_NS;
    gantry_cpu_dispatcher_options cpus = GANTRY_CPU_DISPATCHER_OPTIONS_INIT;
    cpus.worker_count = workers;
    cpus.inline_only = workers == 0;
    assert_ok(gantry_cpu_dispatcher_create(&cpus, &fixture->cpus));
    gantry_taskman_options manager = GANTRY_TASKMAN_OPTIONS_INIT;
    manager.cpu_dispatcher = fixture->cpus;
    manager.gpu_dispatcher = gantry_context_dispatcher(fixture->context);
    assert_ok(gantry_taskman_create(&manager, &fixture->manager));
}

void gpu_fixture_use_threads_only(struct gpu_fixture *fixture)
{
    gantry_taskman_options manager = GANTRY_TASKMAN_OPTIONS_INIT;
    manager.cpu_dispatcher = fixture->cpus;
    manager.gpu_dispatcher = gantry_context_dispatcher(fixture->context);
    manager.dispatcher_only = true;
    gantry_taskman_destroy(fixture->manager);
    assert_ok(gantry_taskman_create(&manager, &fixture->manager));
}

void gpu_fixture_close(struct gpu_fixture *fixture)
{
    gantry_taskman_destroy(fixture->manager);
    gantry_cpu_dispatcher_destroy(fixture->cpus);
    gantry_context_destroy(fixture->context);
}

gantry_task *gpu_fixture_gpu(struct gpu_fixture *fixture, gantry_task_kind kind, const char *label,
                             gantry_launch_fn launch, void *arg)
{
    gantry_task_desc desc = GANTRY_TASK_DESC_INIT;
    desc.kind = kind;
    desc.label = label;
    desc.launch = launch;
    desc.arg = arg;
    gantry_task *task = NULL;
    assert_ok(gantry_taskman_submit(fixture->manager, &desc, &task));
    return task;
}

gantry_task *gpu_fixture_cpu(struct gpu_fixture *fixture, const char *label, gantry_task_fn run, void *arg)
{
    gantry_task_desc desc = GANTRY_TASK_DESC_INIT;
    desc.kind = run != NULL ? GANTRY_TASK_CPU : GANTRY_TASK_SYNC_POINT;
    desc.label = label;
    desc.run = run;
    desc.arg = arg;
    gantry_task *task = NULL;
    assert_ok(gantry_taskman_submit(fixture->manager, &desc, &task));
    return task;
}

void gpu_fixture_after(gantry_task *task, gantry_task *predecessor)
{
    assert_ok(gantry_task_start_after(task, predecessor));
}

uint32_t gpu_fixture_declare(gantry_taskman *manager, uint64_t device_bytes)
{
    uint64_t bytes[GANTRY_MEMORY_KIND_COUNT] = {[GANTRY_MEMORY_DEVICE] = device_bytes};
    uint32_t memory = 0;
    assert_ok(gantry_taskman_declare_memory(manager, bytes, &memory));
    assert_int_not_equal(memory, 0);
    return memory;
}

gantry_status gpu_fixture_stop(struct gpu_fixture *fixture)
{
    deadline_begin("the end of a step");
    gantry_status status = gantry_taskman_stop(fixture->manager);
    assert_ok(gantry_taskman_reset(fixture->manager));
    deadline_end();
    return status;
}

gantry_status gpu_fixture_step(struct gpu_fixture *fixture)
{
    assert_ok(gantry_taskman_start(fixture->manager));
    return gpu_fixture_stop(fixture);
}

struct clearing {
    void *device;
    size_t bytes;
    gantry_task *done;
};

static gantry_launch_result launch_clear(gantry_launch *launch, void *arg)
{
    const struct clearing *c = arg;
    gantry_status status = gantry_launch_fill(launch, c->device, 0, 1, c->bytes);
    if (status == GANTRY_OK) {
        status = gantry_launch_add_completion(launch, c->done);
    }
    return status == GANTRY_OK ? GANTRY_LAUNCH_DONE : GANTRY_LAUNCH_FAILED;
}

void gpu_fixture_clear(struct gpu_fixture *fixture, void *device, size_t bytes)
{
    struct clearing c = {device, bytes, NULL};
    c.done = gpu_fixture_cpu(fixture, "cleared", NULL, NULL);
    gpu_fixture_after(c.done, gpu_fixture_gpu(fixture, GANTRY_TASK_KERNEL, "clear", launch_clear, &c));
    assert_ok(gpu_fixture_step(fixture));
}

void gpu_fixture_upload(gantry_context *context, void *device, const void *from, size_t bytes)
{
    const struct gy_driver *driver;
    assert_ok(gy_driver_open(gpu_fixture_driver(), &driver));
    assert_int_equal(driver->cuCtxPushCurrent(gantry_context_native(context)), CUDA_SUCCESS);
    assert_int_equal(driver->cuMemcpyHtoD((CUdeviceptr)(uintptr_t)device, from, bytes), CUDA_SUCCESS);
    assert_int_equal(driver->cuStreamSynchronize(NULL), CUDA_SUCCESS); /* a small copy may not be done */
    assert_int_equal(driver->cuCtxPopCurrent(NULL), CUDA_SUCCESS);
}

gantry_dispatcher_stats gpu_fixture_stats(struct gpu_fixture *fixture)
{
    gantry_dispatcher_stats stats = {.struct_size = sizeof(stats)};
    assert_ok(gantry_dispatcher_get_stats(gantry_context_dispatcher(fixture->context), &stats));
    return stats;
}

/* it is NULL on a real device */
static void *emulator(void)
{
    return gpu_fixture_driver() == GANTRY_DRIVER_EMULATED ? dlopen("libgantry-emu.so", RTLD_NOW | RTLD_NOLOAD)
                                                          : NULL;
}

void *gpu_fixture_emulator(const char *symbol)
{
    void *library = emulator();
    return library != NULL ? dlsym(library, symbol) : NULL;
}

bool gpu_fixture_controls(struct gantry_emu_control *emu)
{
    return emu_controls_bind(emu, emulator());
}
