/* SPDX-License-Identifier: MIT */
#include "tests/partition/share_scene.h"

#include "context/context.h"
#include "dispatcher/gates/quota.h"
#include "dispatcher/internal.h"
#include "dispatcher/loop/current.h"
#include "tests/support/cmocka_c11.h"

#include "audit_kernels.kernels.h"

#include <math.h>
#include <sched.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

struct gantry_emu_control share_emu;
static _Atomic(bool) frozen;

uint64_t share_scene_now(void)
{
    return share_emu.clock_ns();
}

bool share_scene_is_working(void)
{
    const struct gy_shares *shares = &gy_gd_current->shares;
    bool any = false;
    for (uint32_t i = 0; i < atomic_load(&shares->count); i++) {
        any = any || shares->quotas[i]->working != 0;
    }
    return any;
}

static void pass_time(uint64_t until)
{
    uint64_t now = share_emu.clock_ns();
    if (atomic_load(&frozen) || share_scene_is_working()) {
        sched_yield();
    } else if (until > now) {
        share_emu.clock_advance(until - now);
    }
}

static const struct gy_share_clock device_clock = {share_scene_now, pass_time};

void share_scene_start_clock(uint64_t kernel_ns)
{
    gy_share_test_clock = &device_clock;
    share_emu.clock_manual(1);
    share_emu.clock_kernel_cost(kernel_ns);
}

void share_scene_stop_clock(void)
{
    gy_share_test_clock = NULL;
    share_scene_freeze(false);
    share_emu.reset();
}

bool share_scene_begin(void)
{
    gantry_context *context;
    gantry_context_options options = GANTRY_CONTEXT_OPTIONS_INIT;
    unsetenv("GANTRY_TEST_DRIVER");
    unsetenv("CUDA_DEVICE_SM_LIMIT");
    unsetenv("GANTRY_CONFIG");
    options.driver = GANTRY_DRIVER_EMULATED;
    if (gantry_context_create(&options, &context) != GANTRY_OK) {
        fprintf(stderr, "no emulated driver: %s\n", gantry_last_error());
        return false;
    }
    bool there = gpu_fixture_controls(&share_emu);
    gantry_context_destroy(context);
    return there;
}

void share_scene_open(struct share_scene *s, gantry_context_options *options)
{
    gantry_context_options plain = GANTRY_CONTEXT_OPTIONS_INIT;
    gantry_module *module;
    options = options != NULL ? options : &plain;
    options->driver = GANTRY_DRIVER_EMULATED;
    memset(s, 0, sizeof(*s));
    share_scene_start_clock(0);
    gpu_fixture_open_with(&s->gpu, 1, options);
    assert_ok(gantry_module_load(s->gpu.context, &gantry_image_audit_kernels, &module));
    assert_ok(gantry_module_get_kernel(module, "gantry_audit", &s->kernel));
    assert_ok(gantry_heap_alloc(gantry_context_heap(s->gpu.context), GANTRY_MEMORY_DEVICE, 128, 0,
                                GANTRY_ALLOC_SITE("seen"), &s->seen));
    share_emu.clock_kernel_cost(MS);
}

void share_scene_close(struct share_scene *s)
{
    if (gantry_context_is_valid(s->gpu.context)) { /* nothing waits for the last kernels */
        assert_ok(gantry_context_acquire(s->gpu.context));
        assert_int_equal(s->gpu.context->cuda->driver->cuCtxSynchronize(), CUDA_SUCCESS);
        assert_ok(gantry_context_release(s->gpu.context));
    }
    (void)gantry_heap_free(gantry_context_heap(s->gpu.context), s->seen);
    gpu_fixture_close(&s->gpu);
    share_scene_stop_clock();
}

void share_scene_freeze(bool value)
{
    atomic_store(&frozen, value);
}

gantry_launch_result share_scene_launch(gantry_launch *launch, void *arg)
{
    struct share_scene *s = arg;
    uint32_t words = 32;
    uint64_t ns = 0;
    void *args[] = {&s->seen, &words, &ns};
    atomic_fetch_add(&s->done, 1);
    if (gantry_launch_kernel(launch, s->kernel, (gantry_dim3){1, 1, 1}, (gantry_dim3){32, 1, 1}, 0, args) !=
        GANTRY_OK) {
        return GANTRY_LAUNCH_FAILED;
    }
    return gantry_launch_index(launch) + 1 < s->calls ? GANTRY_LAUNCH_AGAIN : GANTRY_LAUNCH_DONE;
}

void share_scene_submit(struct share_scene *s, gantry_taskman *manager, gantry_partition *partition,
                        uint32_t count, bool chained, bool stable)
{
    gantry_task *before = NULL;
    gantry_task_desc desc = GANTRY_TASK_DESC_INIT;
    desc.kind = GANTRY_TASK_KERNEL;
    desc.launch = share_scene_launch;
    desc.arg = s;
    desc.partition = partition;
    desc.is_stable = stable;
    for (uint32_t i = 0; i < count; i++) {
        gantry_task *task;
        assert_ok(gantry_taskman_submit(manager, &desc, &task));
        if (chained && before != NULL) {
            assert_ok(gantry_task_start_after(task, before));
        }
        before = task;
    }
}

gantry_taskman *share_scene_manager(struct share_scene *s, const gantry_share *share)
{
    gantry_taskman *manager;
    gantry_taskman_options options = GANTRY_TASKMAN_OPTIONS_INIT;
    options.gpu_dispatcher = gantry_context_dispatcher(s->gpu.context);
    options.cpu_dispatcher = s->gpu.cpus;
    options.share = share;
    assert_ok(gantry_taskman_create(&options, &manager));
    return manager;
}

gantry_share_usage share_scene_usage(gantry_taskman *manager)
{
    gantry_share_usage usage = {.struct_size = sizeof(usage)};
    assert_ok(gantry_taskman_get_usage(manager, &usage));
    return usage;
}

gantry_share_usage share_scene_partition_usage(struct share_scene *s, uint32_t index)
{
    gantry_share_usage usage = {.struct_size = sizeof(usage)};
    assert_ok(gantry_partition_get_usage(gantry_partition_at(s->gpu.context, index), &usage));
    return usage;
}

void share_scene_await(gantry_taskman *manager, uint64_t ns)
{
    while (share_scene_usage(manager).used_ns + 1000 < ns) {
        sched_yield();
    }
}

void share_scene_await_partition(struct share_scene *s, uint32_t index, uint64_t ns)
{
    while (share_scene_partition_usage(s, index).used_ns + 1000 < ns) {
        sched_yield();
    }
}

bool share_scene_within(const gantry_share_usage *usage, double time_ns, uint64_t burst_ns,
                        uint32_t in_flight)
{
    double error = fabs((double)usage->used_ns - usage->target * time_ns);
    return error <= (double)burst_ns + (in_flight + 1) * (double)usage->longest_ns;
}
