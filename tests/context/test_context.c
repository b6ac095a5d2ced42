/* SPDX-License-Identifier: MIT */
/* A whole context: how it is made, which options it refuses, and that it leaves nothing behind. */
#include "tests/support/cmocka_c11.h"

#include "base/alloc.h"
#include "base/sanitizers.h"
#include "driver/context.h"
#include "driver/funcs.h"
#include "emulator/gantry_emu.h"
#include "tests/support/gpu_fixture.h"

#include <order_kernels.kernels.h>

#include <sched.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

static gantry_context *const UNTOUCHED = (gantry_context *)0x10;

static gantry_context_options default_options(void)
{
    gantry_context_options options = GANTRY_CONTEXT_OPTIONS_INIT;
    options.driver = gpu_fixture_driver();
    return options;
}

static gantry_context *open_context(void)
{
    gantry_context_options options = default_options();
    gantry_context *context;
    assert_ok(gantry_context_create(&options, &context));
    return context;
}

/* ---- options ---- */

static void expect_refused(const gantry_context_options *options, gantry_status expected)
{
    gantry_context *context = UNTOUCHED;
    assert_int_equal(gantry_context_create(options, &context), expected);
    assert_ptr_equal(context, UNTOUCHED);
}

static void test_wrong_options_are_refused(void **state)
{
    (void)state;
    gantry_context_options options = default_options();
    assert_int_equal(gantry_context_create(&options, NULL), GANTRY_ERR_INVALID_ARGUMENT);
    options.stream_limit = 65;
    expect_refused(&options, GANTRY_ERR_INVALID_ARGUMENT);
    options = default_options();
    options.completion_wait = (gantry_wait_mode)(GANTRY_WAIT_ADAPTIVE + 1);
    expect_refused(&options, GANTRY_ERR_INVALID_ARGUMENT);
    options = default_options();
    options.mode = (gantry_context_mode)(GANTRY_CONTEXT_ADOPT + 1);
    expect_refused(&options, GANTRY_ERR_INVALID_ARGUMENT);
    options.mode = GANTRY_CONTEXT_ADOPT; /* without a context */
    expect_refused(&options, GANTRY_ERR_INVALID_ARGUMENT);
    options = default_options();
    options.driver = (gantry_driver_choice)(GANTRY_DRIVER_EMULATED + 1);
    expect_refused(&options, GANTRY_ERR_INVALID_ARGUMENT);
    options = default_options();
    options.device = "4711";
    expect_refused(&options, GANTRY_ERR_NO_DEVICE);
    options.struct_size = 1;
    expect_refused(&options, GANTRY_ERR_INVALID_ARGUMENT);
}

static void test_options_of_a_newer_caller_are_refused_only_when_used(void **state)
{
    (void)state;
    struct {
        gantry_context_options known;
        uint64_t unknown;
    } newer = {default_options(), 1};
    newer.known.struct_size = sizeof(newer);
    expect_refused(&newer.known, GANTRY_ERR_UNSUPPORTED);
    newer.unknown = 0;
    gantry_context *context;
    assert_ok(gantry_context_create(&newer.known, &context));
    gantry_context_destroy(context);
}

static void test_wrong_heap_options_are_refused(void **state)
{
    (void)state;
    gantry_heap_options heap = GANTRY_HEAP_OPTIONS_INIT;
    heap.slab_bytes[GANTRY_MEMORY_PINNED] = SIZE_MAX;
    gantry_context_options options = default_options();
    options.heap = &heap;
    long live = gy_alloc_live();
    expect_refused(&options, GANTRY_ERR_INVALID_ARGUMENT);
    assert_int_equal(gy_alloc_live(), live);
}

/* A pool that calls CUDA for itself, on whatever thread memory is asked for. */
struct cuda_pool {
    const struct gy_driver *driver;
    CUcontext expected; /* NULL: it is not known yet, as the context is being created */
    int taken, given, without;
};

static void look_for_context(struct cuda_pool *pool)
{
    CUcontext current = NULL;
    (void)pool->driver->cuCtxGetCurrent(&current);
    pool->without += current == NULL || (pool->expected != NULL && current != pool->expected);
}

static gantry_status take_pinned(void *user, gantry_memory_kind kind, size_t bytes, void **out,
                                 void **out_device)
{
    struct cuda_pool *pool = user;
    CUdeviceptr device;
    (void)kind;
    look_for_context(pool);
    if (pool->driver->cuMemHostAlloc(out, bytes, 0) != CUDA_SUCCESS ||
        pool->driver->cuMemHostGetDevicePointer(&device, *out, 0) != CUDA_SUCCESS) {
        return GANTRY_ERR_OUT_OF_DEVICE_MEMORY;
    }
    *out_device = (void *)(uintptr_t)device;
    pool->taken++;
    return GANTRY_OK;
}

static void give_pinned(void *user, gantry_memory_kind kind, void *memory, size_t bytes)
{
    struct cuda_pool *pool = user;
    (void)kind;
    (void)bytes;
    look_for_context(pool);
    pool->given += pool->driver->cuMemFreeHost(memory) == CUDA_SUCCESS;
}

static void test_a_memory_source_may_call_cuda(void **state)
{
    (void)state;
    struct cuda_pool pool = {0};
    assert_ok(gy_driver_open(gpu_fixture_driver(), &pool.driver));
    const gantry_memory_source source = {sizeof(source), take_pinned, give_pinned, &pool};
    gantry_heap_options heap = GANTRY_HEAP_OPTIONS_INIT;
    heap.source[GANTRY_MEMORY_PINNED] = &source;
    gantry_context_options options = default_options();
    options.heap = &heap;
    gantry_context *context;
    assert_ok(gantry_context_create(&options, &context));
    pool.expected = gantry_context_native(context);
    void *block;
    assert_ok(gantry_heap_alloc(gantry_context_heap(context), GANTRY_MEMORY_PINNED, (size_t)64 << 20, 0,
                                GANTRY_ALLOC_SITE("large"), &block));
    assert_ok(gantry_heap_free(gantry_context_heap(context), block));
    assert_ok(gantry_heap_trim(gantry_context_heap(context), GANTRY_MEMORY_PINNED, 0, NULL));
    gantry_context_destroy(context);
    assert_true(pool.taken > 0);
    assert_int_equal(pool.given, pool.taken);
    assert_int_equal(pool.without, 0);
    gy_driver_close(pool.driver);
}

/* ---- what it gives ---- */

static void test_a_context_has_all_its_parts(void **state)
{
    (void)state;
    gantry_context *context = open_context();
    gantry_device_info info = {.struct_size = sizeof(info)};
    assert_ok(gantry_context_device_info(context, &info));
    assert_int_equal(info.emulated, gpu_fixture_driver() == GANTRY_DRIVER_EMULATED);
    assert_true(info.total_sms > 0 && info.memory_bytes > 0 && info.name[0] != '\0');
    info.struct_size = 0;
    assert_int_equal(gantry_context_device_info(context, &info), GANTRY_ERR_INVALID_ARGUMENT);
    assert_int_equal(gantry_context_device_info(NULL, &info), GANTRY_ERR_INVALID_ARGUMENT);
    assert_non_null(gantry_context_native(context));
    assert_non_null(gantry_context_heap(context));
    assert_non_null(gantry_context_dispatcher(context));
    assert_true(gantry_context_is_valid(context));
    gantry_context_destroy(context);
    gantry_context_destroy(NULL);
}

static void test_copies_are_calibrated_when_asked_for(void **state)
{
    (void)state;
    gantry_context_options options = default_options();
    gantry_copy_tuning tuning = {.struct_size = sizeof(tuning)};
    gantry_context *context = open_context();
    assert_ok(gantry_copy_get_tuning(context, &tuning));
    assert_int_equal(tuning.measured, 0);
    gantry_context_destroy(context);
    options.calibrate_copies = 128 * 1024;
    assert_ok(gantry_context_create(&options, &context));
    assert_ok(gantry_copy_get_tuning(context, &tuning));
    assert_int_equal(tuning.measured, 1);
    gantry_context_destroy(context);
    options.calibrate_copies = 1;
    expect_refused(&options, GANTRY_ERR_INVALID_ARGUMENT);
}

static void test_acquire_nests_and_needs_its_release(void **state)
{
    (void)state;
    gantry_context *context = open_context();
    assert_int_equal(gantry_context_release(context), GANTRY_ERR_STATE);
    assert_ok(gantry_context_acquire(context));
    assert_ok(gantry_context_acquire(context));
    assert_ok(gantry_context_release(context));
    assert_ok(gantry_context_release(context));
    assert_int_equal(gantry_context_release(context), GANTRY_ERR_STATE);
    assert_int_equal(gantry_context_acquire(NULL), GANTRY_ERR_INVALID_ARGUMENT);
    assert_int_equal(gantry_context_release(NULL), GANTRY_ERR_INVALID_ARGUMENT);
    gantry_context_destroy(context);
}

static void test_an_adopted_context_is_left_alone(void **state)
{
    (void)state;
    gantry_context_options options = default_options();
    options.mode = GANTRY_CONTEXT_OWN;
    gantry_context *owner, *guest;
    assert_ok(gantry_context_create(&options, &owner));
    options.mode = GANTRY_CONTEXT_ADOPT;
    options.adopted = gantry_context_native(owner);
    assert_ok(gantry_context_create(&options, &guest));
    assert_ptr_equal(gantry_context_native(guest), gantry_context_native(owner));
    gantry_context_destroy(guest);
    void *block;
    gantry_alloc_site site = GANTRY_ALLOC_SITE("after the guest");
    assert_ok(gantry_heap_alloc(gantry_context_heap(owner), GANTRY_MEMORY_DEVICE, 4096, 0, site, &block));
    assert_ok(gantry_heap_free(gantry_context_heap(owner), block));
    gantry_context_destroy(owner);
}

static void test_a_device_is_suggested(void **state)
{
    (void)state;
    int ordinal = -1;
    (void)unsetenv("GANTRY_DEVICE");
    assert_ok(gantry_suggest_device(gpu_fixture_driver(), &ordinal));
    assert_true(ordinal >= 0);
    gantry_context_options options = default_options();
    gantry_context *context;
    gantry_device_info info = {.struct_size = sizeof(info)};
    options.device = "best";
    assert_ok(gantry_context_create(&options, &context));
    assert_ok(gantry_context_device_info(context, &info));
    assert_int_equal(info.ordinal, ordinal);
    gantry_context_destroy(context);
    assert_int_equal(gantry_suggest_device(gpu_fixture_driver(), NULL), GANTRY_ERR_INVALID_ARGUMENT);
    assert_int_equal(setenv("GANTRY_DEVICE", "0", 1), 0);
    assert_ok(gantry_suggest_device(gpu_fixture_driver(), &ordinal));
    assert_int_equal(ordinal, 0);
    assert_int_equal(setenv("GANTRY_DEVICE", "4711", 1), 0);
    assert_int_equal(gantry_suggest_device(gpu_fixture_driver(), &ordinal), GANTRY_ERR_NO_DEVICE);
    assert_int_equal(ordinal, 0);
    (void)unsetenv("GANTRY_DEVICE");
}

static void test_everything_is_told_about_the_device(void **state)
{
    (void)state;
    gantry_context *context = open_context();
    gantry_device_info info = {.struct_size = sizeof(info)};
    static const uint8_t none[16];
    uint64_t free_bytes = 0, total_bytes = 0;
    assert_ok(gantry_context_device_info(context, &info));
    assert_memory_not_equal(info.uuid, none, sizeof(none));
    assert_true(info.compute_major > 0 && info.driver_version >= 12000 && info.copy_engines > 0);
    if (info.emulated) { /* a real driver may not report clocks */
        assert_true(info.clock_khz > 0 && info.memory_clock_khz > 0);
    }
    assert_true(info.memory_bus_bits > 0 && info.l2_bytes > 0 && info.can_map_host_memory &&
                info.threads_per_sm > 0);
    assert_true(info.most_shared_bytes_per_block >= info.shared_bytes_per_block);
    assert_true(info.shared_bytes_per_sm >= info.most_shared_bytes_per_block);
    assert_ok(gantry_context_memory(context, &free_bytes, &total_bytes));
    assert_true(free_bytes > 0 && free_bytes <= total_bytes && total_bytes <= info.memory_bytes);
    assert_ok(gantry_context_memory(context, NULL, NULL));
    assert_int_equal(gantry_context_memory(NULL, NULL, NULL), GANTRY_ERR_INVALID_ARGUMENT);
    gantry_context_destroy(context);
}

static gantry_launch_result launch_nothing(gantry_launch *launch, void *arg)
{
    (void)launch;
    ++*(uint32_t *)arg;
    return GANTRY_LAUNCH_DONE;
}

static gantry_task *submit_task(gantry_taskman *manager, gantry_task_kind kind, gantry_task_fn run,
                                gantry_launch_fn launch, void *arg)
{
    gantry_task_desc desc = GANTRY_TASK_DESC_INIT;
    gantry_task *task;
    desc.kind = kind;
    desc.run = run;
    desc.launch = launch;
    desc.arg = arg;
    assert_ok(gantry_taskman_submit(manager, &desc, &task));
    return task;
}

/* ---- destruction in any order ---- */

static gantry_status wait_for_flag(gantry_task *task, void *arg)
{
    (void)task;
    while (!__atomic_load_n((bool *)arg, __ATOMIC_ACQUIRE)) {
        sched_yield();
    }
    return GANTRY_OK;
}

static void test_managers_may_outlive_the_context(void **state)
{
    (void)state;
    gantry_cpu_dispatcher_options pool = GANTRY_CPU_DISPATCHER_OPTIONS_INIT;
    gantry_cpu_dispatcher *cpus;
    pool.worker_count = 1;
    assert_ok(gantry_cpu_dispatcher_create(&pool, &cpus));
    gantry_context *context = open_context();
    gantry_taskman_options options = GANTRY_TASKMAN_OPTIONS_INIT;
    options.cpu_dispatcher = cpus;
    options.gpu_dispatcher = gantry_context_dispatcher(context);
    gantry_taskman *running, *idle, *frozen;
    assert_ok(gantry_taskman_create(&options, &running));
    assert_ok(gantry_taskman_create(&options, &idle));
    assert_ok(gantry_taskman_create(&options, &frozen));
    uint32_t before = 0, after = 0;
    bool go = false;
    gantry_task *first = submit_task(running, GANTRY_TASK_KERNEL, NULL, launch_nothing, &before);
    gantry_task *cpu = submit_task(running, GANTRY_TASK_CPU, wait_for_flag, NULL, &go);
    gantry_task *last = submit_task(running, GANTRY_TASK_KERNEL, NULL, launch_nothing, &after);
    assert_ok(gantry_task_start_after(cpu, first));
    assert_ok(gantry_task_start_after(last, cpu));
    (void)submit_task(frozen, GANTRY_TASK_KERNEL, NULL, launch_nothing, &after);
    assert_ok(gantry_taskman_freeze(frozen));
    assert_ok(gantry_taskman_start(running));
    while (gantry_task_get_state(cpu) != GANTRY_TASK_STATE_RUNNING) {
        sched_yield();
    }
    gantry_context_destroy(context);
    __atomic_store_n(&go, true, __ATOMIC_RELEASE);
    assert_int_equal(gantry_taskman_stop(running), GANTRY_ERR_DEVICE_LOST);
    assert_non_null(strstr(gantry_last_error(), "gantry_context_destroy"));
    assert_int_equal(before, 1);
    assert_int_equal(after, 0);
    assert_int_equal(gantry_task_get_state(last), GANTRY_TASK_STATE_FAILED);
    assert_int_equal(gantry_taskman_run(frozen, 1), GANTRY_ERR_DEVICE_LOST);
    gantry_taskman_destroy(running);
    assert_int_equal(gantry_taskman_start(idle), GANTRY_ERR_DEVICE_LOST);
    gantry_taskman_destroy(idle);
    gantry_taskman_destroy(frozen);
    gantry_cpu_dispatcher_destroy(cpus);
}

/* ---- out of memory ---- */

#define MOST_DEVICE_MEMORY ((size_t)64 << 20)

static gantry_status take_too_much(gantry_task *task, void *arg)
{
    void *block;
    (void)task;
    gantry_alloc_site site = GANTRY_ALLOC_SITE("too much");
    return gantry_heap_alloc(arg, GANTRY_MEMORY_DEVICE, MOST_DEVICE_MEMORY + 1, 0, site, &block) ==
                   GANTRY_ERR_OUT_OF_DEVICE_MEMORY
               ? GANTRY_OK
               : GANTRY_ERR_STATE;
}

/* Submit a GPU task, then a CPU task that asks for too much memory, then another GPU task. */
static gantry_status run_out(gantry_taskman *manager, gantry_heap *heap, uint32_t *before, uint32_t *after)
{
    gantry_task *first = submit_task(manager, GANTRY_TASK_KERNEL, NULL, launch_nothing, before);
    gantry_task *greedy = submit_task(manager, GANTRY_TASK_CPU, take_too_much, NULL, heap);
    gantry_task *last = submit_task(manager, GANTRY_TASK_KERNEL, NULL, launch_nothing, after);
    assert_ok(gantry_task_start_after(greedy, first));
    assert_ok(gantry_task_start_after(last, greedy));
    assert_ok(gantry_taskman_start(manager));
    gantry_status status = gantry_taskman_stop(manager);
    assert_true(gantry_task_result(last) == GANTRY_OK ||
                gantry_task_result(last) == GANTRY_ERR_OUT_OF_DEVICE_MEMORY);
    return status;
}

static void test_running_out_of_memory_may_abort(void **state)
{
    (void)state;
    for (uint32_t aborts = 0; aborts < 2; aborts++) {
        gantry_context_options options = default_options();
        gantry_heap_options heap = GANTRY_HEAP_OPTIONS_INIT;
        heap.limit_bytes[GANTRY_MEMORY_DEVICE] = MOST_DEVICE_MEMORY;
        options.heap = &heap;
        options.abort_on_out_of_memory = aborts;
        gantry_context *context;
        assert_ok(gantry_context_create(&options, &context));
        gantry_taskman_options managed = GANTRY_TASKMAN_OPTIONS_INIT;
        managed.gpu_dispatcher = gantry_context_dispatcher(context);
        gantry_taskman *manager;
        uint32_t before = 0, after = 0;
        assert_ok(gantry_taskman_create(&managed, &manager));
        gantry_status status = run_out(manager, gantry_context_heap(context), &before, &after);
        assert_int_equal(status, aborts ? GANTRY_ERR_OUT_OF_DEVICE_MEMORY : GANTRY_OK);
        assert_int_equal(before, 1);
        assert_int_equal(after, !aborts);
        assert_int_equal(gantry_context_is_aborted(context), aborts != 0);
        assert_true(gantry_context_is_valid(context));
        assert_ok(gantry_taskman_reset(manager));
        if (aborts) {
            assert_int_equal(gantry_taskman_start(manager), GANTRY_ERR_OUT_OF_DEVICE_MEMORY);
            assert_non_null(strstr(gantry_last_error(), "no room for"));
            gantry_context_clear_abort(context);
        }
        submit_task(manager, GANTRY_TASK_KERNEL, NULL, launch_nothing, &after);
        assert_ok(gantry_taskman_start(manager));
        assert_ok(gantry_taskman_stop(manager));
        assert_int_equal(after, aborts ? 1 : 2);
        gantry_taskman_destroy(manager);
        gantry_context_destroy(context);
    }
    gantry_context_clear_abort(NULL);
}

/* ---- threads, adoption ---- */

static gantry_status acquire_and_release(gantry_task *task, void *arg)
{
    gantry_status status = GANTRY_OK;
    (void)task;
    for (int i = 0; i < 100 && status == GANTRY_OK; i++) {
        status = gantry_context_acquire(arg);
        status = status == GANTRY_OK ? gantry_context_acquire(arg) : status;
        uint64_t total;
        status = status == GANTRY_OK ? gantry_context_memory(arg, NULL, &total) : status;
        status = status == GANTRY_OK ? gantry_context_release(arg) : status;
        status = status == GANTRY_OK ? gantry_context_release(arg) : status;
    }
    return status == GANTRY_OK && gantry_context_release(arg) != GANTRY_ERR_STATE ? GANTRY_ERR_STATE : status;
}

static void test_any_thread_may_acquire(void **state)
{
    (void)state;
    gantry_context *context = open_context();
    gantry_cpu_dispatcher_options pool = GANTRY_CPU_DISPATCHER_OPTIONS_INIT;
    gantry_taskman_options managed = GANTRY_TASKMAN_OPTIONS_INIT;
    gantry_taskman *manager;
    pool.worker_count = 4;
    assert_ok(gantry_cpu_dispatcher_create(&pool, &managed.cpu_dispatcher));
    assert_ok(gantry_taskman_create(&managed, &manager));
    for (int i = 0; i < 16; i++) {
        submit_task(manager, GANTRY_TASK_CPU, acquire_and_release, NULL, context);
    }
    assert_ok(gantry_taskman_start(manager));
    assert_ok(gantry_taskman_stop(manager));
    gantry_taskman_destroy(manager);
    gantry_cpu_dispatcher_destroy(managed.cpu_dispatcher);
    gantry_context_destroy(context);
}

static uint32_t lines_about_adoption;

static void count_adoption(void *user, gantry_log_level level, const char *line)
{
    (void)user;
    (void)level;
    lines_about_adoption += strstr(line, "adopted context is current") != NULL;
}

/* The application's context is detached from all threads, or current on the calling thread: both are
 * accepted, and the log mentions the second. */
static void test_a_context_is_adopted_whether_current_or_not(void **state)
{
    (void)state;
    gantry_context_options options = default_options();
    gantry_context *owner, *guest;
    options.mode = GANTRY_CONTEXT_OWN;
    assert_ok(gantry_context_create(&options, &owner));
    options.mode = GANTRY_CONTEXT_ADOPT;
    options.adopted = gantry_context_native(owner);
    for (uint32_t current = 0; current < 2; current++) {
        lines_about_adoption = 0;
        gantry_set_log(count_adoption, NULL, GANTRY_LOG_INFO);
        if (current) {
            assert_ok(gantry_context_acquire(owner));
        }
        assert_ok(gantry_context_create(&options, &guest));
        gantry_set_log(NULL, NULL, GANTRY_LOG_INFO);
        assert_int_equal(lines_about_adoption, current);
        assert_ok(gantry_context_acquire(guest));
        assert_ok(gantry_context_release(guest));
        gantry_context_destroy(guest);
        if (current) {
            assert_ok(gantry_context_release(owner)); /* it was still current */
        }
    }
    gantry_context_destroy(owner);
}

/* ---- modules ---- */

/* A child looks at the objects of its parent; returns the number of the first thing that is wrong. */
static int try_in_child(gantry_context *context, gantry_cpu_dispatcher *pool, gantry_taskman *manager)
{
    gantry_context_options options = default_options();
    gantry_context *another = UNTOUCHED;
    int wrong = gantry_taskman_start(manager) != GANTRY_ERR_STATE                ? 1
                : strstr(gantry_last_error(), "this process was forked") == NULL ? 2
                : gantry_context_create(&options, &another) != GANTRY_ERR_DRIVER ? 3
                : another != UNTOUCHED                                           ? 4
                                                                                 : 0;
    gantry_taskman_destroy(manager); /* these calls wait for no thread */
    gantry_cpu_dispatcher_destroy(pool);
    gantry_context_destroy(context);
    return wrong;
}

static void test_a_forked_child_is_told(void **state)
{
    (void)state;
    if (GY_WITH_TSAN) {
        print_message("left out: jemalloc takes more locks around a fork than the thread sanitizer bears\n");
        return;
    }
    gantry_context *context = open_context();
    gantry_cpu_dispatcher_options two = GANTRY_CPU_DISPATCHER_OPTIONS_INIT;
    gantry_cpu_dispatcher *pool;
    gantry_taskman *manager;
    two.worker_count = 2;
    assert_ok(gantry_cpu_dispatcher_create(&two, &pool));
    gantry_taskman_options options = GANTRY_TASKMAN_OPTIONS_INIT;
    options.cpu_dispatcher = pool;
    options.gpu_dispatcher = gantry_context_dispatcher(context);
    assert_ok(gantry_taskman_create(&options, &manager));
    pid_t child = fork();
    if (child == 0) {
        _exit(try_in_child(context, pool, manager));
    }
    int status = -1;
    assert_true(child > 0);
    assert_int_equal(waitpid(child, &status, 0), child);
    assert_int_equal(status, 0);
    assert_ok(gantry_taskman_start(manager)); /* the parent has noticed nothing */
    assert_ok(gantry_taskman_stop(manager));
    gantry_taskman_destroy(manager);
    gantry_cpu_dispatcher_destroy(pool);
    gantry_context_destroy(context);
}

static void test_modules_are_found_and_left_ones_unloaded(void **state)
{
    (void)state;
    gantry_context *context = open_context();
    gantry_module *first, *second, *third;
    gantry_kernel *kernel;
    assert_ok(gantry_module_load(context, &gantry_image_order_kernels, &first));
    assert_ok(gantry_module_load(context, &gantry_image_order_kernels, &second));
    assert_ok(gantry_module_load(context, &gantry_image_order_kernels, &third));
    gantry_module_unload(second);
    assert_ok(gantry_module_get_kernel(first, "stamp", &kernel));
    assert_string_equal(gantry_kernel_name(kernel), "stamp");
    assert_int_equal(gantry_module_get_kernel(first, "crane", &kernel), GANTRY_ERR_NOT_FOUND);
    assert_non_null(strstr(gantry_last_error(), "stamp")); /* the message lists those that exist */
    assert_int_equal(gantry_module_get_kernel(NULL, "stamp", &kernel), GANTRY_ERR_INVALID_ARGUMENT);
    assert_int_equal(gantry_module_get_kernel(first, NULL, &kernel), GANTRY_ERR_INVALID_ARGUMENT);
    assert_int_equal(gantry_module_get_kernel(first, "stamp", NULL), GANTRY_ERR_INVALID_ARGUMENT);
    assert_int_equal(gantry_module_load(NULL, &gantry_image_order_kernels, &second),
                     GANTRY_ERR_INVALID_ARGUMENT);
    assert_int_equal(gantry_module_load(context, NULL, &second), GANTRY_ERR_INVALID_ARGUMENT);
    assert_int_equal(gantry_module_load(context, &gantry_image_order_kernels, NULL),
                     GANTRY_ERR_INVALID_ARGUMENT);
    gantry_module_unload(NULL);
    gantry_context_destroy(context); /* unload the first and the third */
}

/* ---- failures ---- */

/* Keeps the driver and the device's primary context in use, so that a creation costs little.  Unlike a
 * whole context it has no threads, whose start would change what is counted. */
static struct gy_context *hold_driver(void)
{
    gantry_context_options options = default_options();
    struct gy_context *held;
    assert_ok(gy_context_open(&options, &held));
    return held;
}

static void test_create_survives_every_host_failure(void **state)
{
    (void)state;
    struct gy_context *held = hold_driver();
    gantry_context_options options = default_options();
    long live = gy_alloc_live();
    for (long nth = 0;; nth++) {
        gantry_context *context = UNTOUCHED;
        gy_fault_arm(nth);
        gantry_status status = gantry_context_create(&options, &context);
        bool fired = gy_fault_fired();
        gy_fault_arm(-1);
        if (status == GANTRY_OK) {
            gantry_context_destroy(context);
        } else {
            assert_int_equal(status, GANTRY_ERR_OUT_OF_HOST_MEMORY);
            assert_ptr_equal(context, UNTOUCHED);
        }
        assert_int_equal(gy_alloc_live(), live);
        if (!fired) {
            assert_ok(status);
            assert_true(nth > 10);
            break;
        }
    }
    gy_context_close(held);
}

static int64_t live_objects(int64_t (*live)(int kind))
{
    int64_t sum = 0;
    for (int kind = 0; kind < GANTRY_EMU_LIVE_KINDS; kind++) {
        sum += live(kind);
    }
    return sum;
}

/* Every call of every function that a creation makes fails once. */
static void check_that_create_survives(gantry_submission submission)
{
    static const char *const functions[] = {
#define F(need, member, symbol, prototype) #member,
        GY_DRIVER_FUNCS(F)
#undef F
    };
    struct gy_context *held = hold_driver();
    struct gantry_emu_control emu;
    (void)gpu_fixture_controls(&emu);
    gantry_context_options options = default_options();
    options.submission = submission;
    long host_live = gy_alloc_live();
    int64_t live = live_objects(emu.live);
    uint32_t failures = 0;
    for (size_t i = 0; i < sizeof(functions) / sizeof(functions[0]); i++) {
        for (uint64_t nth = 1;; nth++) {
            gantry_context *context = UNTOUCHED;
            (emu.reset_counters)();
            assert_int_equal((emu.fail)(functions[i], nth, 2 /* CUDA_ERROR_OUT_OF_MEMORY */, GANTRY_EMU_ONCE),
                             0);
            gantry_status status = gantry_context_create(&options, &context);
            bool reached = (emu.calls)(functions[i]) >= nth;
            (emu.clear_faults)();
            if (status == GANTRY_OK) {
                gantry_context_destroy(context);
            } else {
                assert_ptr_equal(context, UNTOUCHED);
                failures++;
            }
            assert_int_equal(gy_alloc_live(), host_live);
            assert_int_equal(live_objects(emu.live), live);
            if (!reached) {
                assert_ok(status);
                break;
            }
        }
    }
    assert_true(failures > 0);
    gy_context_close(held);
}

static void test_create_survives_every_driver_failure(void **state)
{
    (void)state;
    check_that_create_survives(GANTRY_SUBMISSION_AUTO); /* which calls what STREAMS calls, and more */
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_wrong_options_are_refused),
        cmocka_unit_test(test_options_of_a_newer_caller_are_refused_only_when_used),
        cmocka_unit_test(test_wrong_heap_options_are_refused),
        cmocka_unit_test(test_a_memory_source_may_call_cuda),
        cmocka_unit_test(test_a_context_has_all_its_parts),
        cmocka_unit_test(test_copies_are_calibrated_when_asked_for),
        cmocka_unit_test(test_acquire_nests_and_needs_its_release),
        cmocka_unit_test(test_an_adopted_context_is_left_alone),
        cmocka_unit_test(test_a_device_is_suggested),
        cmocka_unit_test(test_everything_is_told_about_the_device),
        cmocka_unit_test(test_managers_may_outlive_the_context),
        cmocka_unit_test(test_running_out_of_memory_may_abort),
        cmocka_unit_test(test_any_thread_may_acquire),
        cmocka_unit_test(test_a_context_is_adopted_whether_current_or_not),
        cmocka_unit_test(test_a_forked_child_is_told),
        cmocka_unit_test(test_modules_are_found_and_left_ones_unloaded),
        cmocka_unit_test(test_create_survives_every_host_failure),
        cmocka_unit_test(test_create_survives_every_driver_failure),
    };
    /* Only the emulated driver can script failures. */
    size_t count = sizeof(tests) / sizeof(tests[0]) - (gpu_fixture_driver() != GANTRY_DRIVER_EMULATED);
    return _cmocka_run_group_tests("context", tests, count, NULL, NULL);
}
