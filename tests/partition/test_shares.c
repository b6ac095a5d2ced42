/* Shares through the dispatcher, on the device clock of the emulated driver: nothing here takes time of the
 * host. */
#include "context/context.h"
#include "dispatcher/internal.h"
#include "driver/emulator/gantry_emu.h"
#include "partition/limit.h"
#include "tests/partition/plan_support.h"
#include "tests/support/cmocka_c11.h"
#include "tests/support/gpu_fixture.h"

#include "audit_kernels.kernels.h"

#include <math.h>
#include <sched.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define MS 1000000u

static struct gantry_emu_control emu;
static _Atomic(bool) frozen; /* the clock does not go on by itself */

static uint64_t device_now(void)
{
    return emu.clock_ns();
}

/* Called by GD when nothing is in flight: time passes at once. */
static void pass_time(uint64_t until)
{
    uint64_t now = emu.clock_ns();
    if (atomic_load(&frozen)) {
        sched_yield();
    } else if (until > now) {
        emu.clock_advance(until - now);
    }
}

static const struct gy_share_clock device_clock = {device_now, pass_time};

struct scene {
    struct gpu_fixture gpu;
    gantry_kernel *kernel;
    void *seen;
    _Atomic(uint32_t) done;
};

static bool get_controls(void)
{
    bool there = true;
#define X(result, name, parameters)                                  \
    *(void **)&emu.name = gpu_fixture_emulator("gantry_emu_" #name); \
    there = there && emu.name != NULL;
    GANTRY_EMU_CONTROLS(X)
#undef X
    return there;
}

/* One limited partition and the rest; each kernel takes 1 ms of the device. */
static void open_scene(struct scene *s, double percent, gantry_submission submission)
{
    gantry_partition_request r[] = {request("limited", GANTRY_PARTITION_EXACT, 64),
                                    request("free", GANTRY_PARTITION_REST, 0)};
    gantry_partition_options plan = GANTRY_PARTITION_OPTIONS_INIT;
    gantry_context_options options = GANTRY_CONTEXT_OPTIONS_INIT;
    gantry_module *module;
    r[0].share.percent = percent;
    r[0].share.in_flight = 1; /* so that time passes only while nothing runs */
    plan.requests = r;
    plan.count = 2;
    options.driver = GANTRY_DRIVER_EMULATED;
    options.partitions = &plan;
    options.submission = submission;
    memset(s, 0, sizeof(*s));
    gy_share_test_clock = &device_clock;
    gpu_fixture_open_with(&s->gpu, 1, &options);
    assert_ok(gantry_module_load(s->gpu.context, &gantry_image_audit_kernels, &module));
    assert_ok(gantry_module_get_kernel(module, "gantry_audit", &s->kernel));
    assert_ok(gantry_heap_alloc(gantry_context_heap(s->gpu.context), GANTRY_MEMORY_DEVICE, 128, 0,
                                GANTRY_ALLOC_SITE("seen"), &s->seen));
    emu.clock_manual(1);
    emu.clock_kernel_cost(MS);
}

static void close_scene(struct scene *s)
{
    (void)gantry_heap_free(gantry_context_heap(s->gpu.context), s->seen);
    gpu_fixture_close(&s->gpu);
    gy_share_test_clock = NULL;
    atomic_store(&frozen, false);
    emu.reset();
}

static gantry_launch_result launch(gantry_launch *launch, void *arg)
{
    struct scene *s = arg;
    uint32_t words = 32;
    uint64_t ns = 0;
    void *args[] = {&s->seen, &words, &ns};
    atomic_fetch_add(&s->done, 1);
    return gantry_launch_kernel(launch, s->kernel, (gantry_dim3){1, 1, 1}, (gantry_dim3){32, 1, 1}, 0,
                                args) == GANTRY_OK
               ? GANTRY_LAUNCH_DONE
               : GANTRY_LAUNCH_FAILED;
}

static void submit(struct scene *s, gantry_taskman *manager, const char *partition, uint32_t count)
{
    gantry_task_desc desc = GANTRY_TASK_DESC_INIT;
    desc.kind = GANTRY_TASK_KERNEL;
    desc.launch = launch;
    desc.arg = s;
    assert_ok(gantry_partition_find(s->gpu.context, partition, &desc.partition));
    for (uint32_t i = 0; i < count; i++) {
        gantry_task *task;
        assert_ok(gantry_taskman_submit(manager, &desc, &task));
    }
}

static gantry_share_usage usage_of(struct scene *s, uint32_t partition)
{
    gantry_share_usage usage = {.struct_size = sizeof(usage)};
    assert_ok(gantry_partition_get_usage(gantry_partition_at(s->gpu.context, partition), &usage));
    return usage;
}

static void test_a_share_is_kept(void **state)
{
    static const double percents[] = {5, 10, 20, 40};
    (void)state;
    for (size_t i = 0; i < sizeof(percents) / sizeof(percents[0]); i++) {
        struct scene s;
        const uint32_t count = 300;
        open_scene(&s, percents[i], i % 2 == 0 ? GANTRY_SUBMISSION_STREAMS : GANTRY_SUBMISSION_GRAPHS);
        submit(&s, s.gpu.manager, "limited", count);
        uint64_t begin = emu.clock_ns();
        assert_ok(gpu_fixture_step(&s.gpu));
        assert_ok(gantry_context_acquire(s.gpu.context)); /* the last segment is charged when it was seen */
        while (usage_of(&s, 0).used_ns < count * (uint64_t)MS * 64 / 132 - count) {
            sched_yield();
        }
        assert_ok(gantry_context_release(s.gpu.context));
        gantry_share_usage usage = usage_of(&s, 0);
        double weight = 64.0 / 132, rate = percents[i] / 100;
        double elapsed = (double)(emu.clock_ns() - begin);
        assert_true(fabs((double)usage.used_ns - count * (double)MS * weight) <
                    count); /* every kernel, once */
        /* Two kernels of 0.48 ms of the device at most: the second begins before 0.5 ms are reached. */
        assert_true((double)usage.longest_ns < 2 * MS * weight + 2);
        /* |used - rate * W| <= burst + (n + 1) * longest */
        assert_true(fabs((double)usage.used_ns - rate * elapsed) <= 2 * MS + 2 * (double)usage.longest_ns);
        assert_true(usage.throttled_ns > 0);
        assert_int_equal(gpu_fixture_stats(&s.gpu).graph_launches, 0);
        assert_int_equal(s.done, count);
        close_scene(&s);
    }
}

static void test_a_throttled_partition_holds_up_no_other(void **state)
{
    (void)state;
    struct scene s;
    gantry_taskman_options options = GANTRY_TASKMAN_OPTIONS_INIT;
    gantry_taskman *free_one;
    open_scene(&s, 1, GANTRY_SUBMISSION_STREAMS);
    options.gpu_dispatcher = gantry_context_dispatcher(s.gpu.context);
    options.cpu_dispatcher = s.gpu.cpus;
    assert_ok(gantry_taskman_create(&options, &free_one));
    atomic_store(&frozen, true);
    emu.clock_kernel_cost(100 * MS); /* one uses up the burst and much more */
    submit(&s, s.gpu.manager, "limited", 5);
    assert_ok(gantry_taskman_start(s.gpu.manager));
    while (!atomic_load(&gantry_context_dispatcher(s.gpu.context)->shares.of[0]->has_held) ||
           usage_of(&s, 0).used_ns == 0) { /* else the first might run for nothing, and let the others in */
        sched_yield();
    }
    emu.clock_kernel_cost(0);
    submit(&s, free_one, "free", 50);
    assert_ok(gantry_taskman_start(free_one));
    assert_ok(gantry_taskman_stop(free_one));
    assert_in_range(s.done, 50, 54);
    atomic_store(&frozen, false);
    assert_ok(gantry_taskman_stop(s.gpu.manager));
    assert_int_equal(s.done, 55);
    gantry_taskman_destroy(free_one);
    close_scene(&s);
}

static void test_a_failure_releases_what_is_held(void **state)
{
    (void)state;
    struct scene s;
    open_scene(&s, 1, GANTRY_SUBMISSION_STREAMS);
    atomic_store(&frozen, true);
    emu.clock_kernel_cost(100 * MS);
    submit(&s, s.gpu.manager, "limited", 5);
    assert_ok(gantry_taskman_start(s.gpu.manager));
    while (!atomic_load(&gantry_context_dispatcher(s.gpu.context)->shares.of[0]->has_held)) {
        sched_yield();
    }
    gantry_dispatcher_force_failure(gantry_context_dispatcher(s.gpu.context));
    assert_int_equal(gantry_taskman_stop(s.gpu.manager), GANTRY_ERR_DEVICE_LOST);
    close_scene(&s);
}

static void test_the_limit_of_the_process(void **state)
{
    static const struct {
        const char *text;
        double percent; /* -1: refused */
    } cases[] = {{"50", 50}, {"1", 1},     {"99", 99}, {"0", 0},   {"100", 0},  {"250", 0}, {"", 0},
                 {" 7 ", 7}, {"half", -1}, {"-5", -1}, {"5%", -1}, {"3.5", -1}, {" ", -1}};
    (void)state;
    double percent;
    for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
        setenv("CUDA_DEVICE_SM_LIMIT", cases[i].text, 1);
        gantry_status status = gy_limit_read(&percent);
        assert_int_equal(status, cases[i].percent < 0 ? GANTRY_ERR_INVALID_ARGUMENT : GANTRY_OK);
        assert_true(cases[i].percent < 0 || percent == cases[i].percent);
    }
    unsetenv("CUDA_DEVICE_SM_LIMIT");
    FILE *file = fopen("shares.conf", "w");
    assert_non_null(file);
    fputs("OTHER=1\nCUDA_DEVICE_SM_LIMIT=30\n", file);
    fclose(file);
    setenv("GANTRY_CONFIG", "shares.conf", 1);
    assert_ok(gy_limit_read(&percent));
    assert_true(percent == 30);
    setenv("CUDA_DEVICE_SM_LIMIT", "60", 1); /* is before the file */
    assert_ok(gy_limit_read(&percent));
    assert_true(percent == 60);
    unsetenv("CUDA_DEVICE_SM_LIMIT");
    setenv("GANTRY_CONFIG", "there/is/no.conf", 1);
    assert_int_equal(gy_limit_read(&percent), GANTRY_ERR_IO);
    unsetenv("GANTRY_CONFIG");
    remove("shares.conf");
}

static void test_the_limit_is_a_default_share(void **state)
{
    (void)state;
    gantry_context *context = NULL;
    gantry_context_options options = GANTRY_CONTEXT_OPTIONS_INIT;
    gantry_share_usage usage = {.struct_size = sizeof(usage)};
    options.driver = GANTRY_DRIVER_EMULATED;
    assert_ok(gantry_context_create(&options, &context));
    assert_int_equal(gantry_partition_get_usage(gantry_partition_default(context), &usage),
                     GANTRY_ERR_NOT_FOUND);
    gantry_context_destroy(context);
    setenv("CUDA_DEVICE_SM_LIMIT", "25", 1);
    assert_ok(gantry_context_create(&options, &context));
    assert_ok(gantry_partition_get_usage(gantry_partition_default(context), &usage));
    assert_true(usage.target == 0.25 && usage.used_ns == 0);
    gantry_context_destroy(context);
    setenv("CUDA_DEVICE_SM_LIMIT", "lots", 1);
    context = NULL;
    assert_int_equal(gantry_context_create(&options, &context), GANTRY_ERR_INVALID_ARGUMENT);
    assert_null(context);
    unsetenv("CUDA_DEVICE_SM_LIMIT");
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_the_limit_of_the_process),
        cmocka_unit_test(test_the_limit_is_a_default_share),
        cmocka_unit_test(test_a_share_is_kept),
        cmocka_unit_test(test_a_throttled_partition_holds_up_no_other),
        cmocka_unit_test(test_a_failure_releases_what_is_held),
    };
    /* The clock can only be told on the emulated driver, which this test takes whatever the others run on. */
    gantry_context *context;
    gantry_context_options options = GANTRY_CONTEXT_OPTIONS_INIT;
    unsetenv("GANTRY_TEST_DRIVER");
    unsetenv("CUDA_DEVICE_SM_LIMIT");
    options.driver = GANTRY_DRIVER_EMULATED;
    if (gantry_context_create(&options, &context) != GANTRY_OK) {
        fprintf(stderr, "no emulated driver: %s\n", gantry_last_error());
        return 1;
    }
    bool controlled = get_controls();
    gantry_context_destroy(context);
    return controlled ? cmocka_run_group_tests(tests, NULL, NULL) : 1;
}
