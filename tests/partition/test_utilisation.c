/* The controller by NVML's utilisation: its step, and how many blocks it lets through, with an NVML whose
 * answers the test sets and a watcher that the test moves. */
#include "context/context.h"
#include "dispatcher/internal.h"
#include "partition/limit.h"
#include "partition/utilisation.h"
#include "tests/partition/plan_support.h"
#include "tests/partition/share_scene.h"
#include "tests/support/cmocka_c11.h"

#include "audit_kernels.kernels.h"

#include <dlfcn.h>
#include <sched.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#define BLOCKS (UINT32_C(1) << 20)

static void (*use)(int of_process, int of_device);
static int (*started)(void);
static void (*have_cores)(unsigned count);

static void test_the_step_is_that_of_the_formula(void **state)
{
    (void)state;
    struct gy_utilisation u = {.limit = 50, .sms = 48, .threads = 2048, .whole = 48 * 2048 * 32};
    assert_int_equal(gy_utilisation_delta(&u, 40, 0), 18432);
    assert_int_equal(gy_utilisation_delta(&u, 50, 1000), 1000);
    assert_int_equal(gy_utilisation_delta(&u, 60, 20000), 20000 - 18432);
    assert_int_equal(gy_utilisation_delta(&u, 60, 100), 0);
    assert_int_equal(gy_utilisation_delta(&u, 0, u.whole - 5), u.whole);
}

static void test_the_watcher_follows_nvml(void **state)
{
    (void)state;
    gantry_context *context = NULL;
    gantry_context_options options = GANTRY_CONTEXT_OPTIONS_INIT;
    struct gy_utilisation u;
    options.driver = GANTRY_DRIVER_EMULATED;
    assert_ok(gantry_context_create(&options, &context));
    assert_ok(gy_utilisation_open(&u, context->cuda, 30));
    assert_int_equal(atomic_load(&u.tokens), 132 * 2048 * 32);
    use(80, 10); /* above the limit: the amount given back stays 0 */
    gy_utilisation_take(&u, 1000);
    gy_utilisation_tick(&u);
    assert_int_equal(atomic_load(&u.use), 80);
    assert_int_equal(atomic_load(&u.tokens), u.whole - 1000);
    gy_utilisation_take(&u, (uint64_t)u.whole);
    assert_false(gy_utilisation_admits(&u));
    use(-1, 10); /* NVML reports nothing about the process: the device's utilisation counts */
    gy_utilisation_tick(&u);
    assert_int_equal(atomic_load(&u.use), 10);
    assert_int_equal(atomic_load(&u.tokens), gy_utilisation_delta(&u, 10, 0) - 1000);
    assert_true(gy_utilisation_admits(&u));
    use(-1, -1);
    gy_utilisation_tick(&u); /* no process was seen running */
    assert_int_equal(atomic_load(&u.ticks), 3);
    assert_int_equal(started(), 1);
    gy_utilisation_close(&u);
    assert_int_equal(started(), 0);
    gantry_context_destroy(context);
}

static gantry_launch_result launch_many_blocks(gantry_launch *launch, void *arg)
{
    struct share_scene *s = arg;
    uint32_t words = 32;
    uint64_t ns = 0;
    void *args[] = {&s->seen, &words, &ns};
    atomic_fetch_add(&s->done, 1);
    return gantry_launch_kernel(launch, s->kernel, (gantry_dim3){BLOCKS, 1, 1}, (gantry_dim3){32, 1, 1}, 0,
                                args) == GANTRY_OK
               ? GANTRY_LAUNCH_DONE
               : GANTRY_LAUNCH_FAILED;
}

/* Limited by NVML, with kernels that do nothing. */
static void open_limited(struct share_scene *s)
{
    gantry_context_options options = GANTRY_CONTEXT_OPTIONS_INIT;
    options.quota_controller = "nvml";
    setenv("CUDA_DEVICE_SM_LIMIT", "40", 1);
    share_scene_open(s, &options);
    unsetenv("CUDA_DEVICE_SM_LIMIT");
    share_emu.set_noop(1);
}

/* Kernels wait when as many blocks were launched as there are tokens; copies never wait. */
static void test_launches_wait_for_tokens(void **state)
{
    (void)state;
    struct share_scene s;
    open_limited(&s);
    struct gy_watcher *watcher = gantry_context_dispatcher(s.gpu.context)->shares.watcher;
    assert_non_null(watcher);
    const uint32_t most = (uint32_t)(watcher->use->whole / BLOCKS) + 1; /* the last one makes it negative */
    use(90, 90);
    for (uint32_t i = 0; i < most + 3; i++) {
        (void)gpu_fixture_gpu(&s.gpu, GANTRY_TASK_KERNEL, "much", launch_many_blocks, &s);
    }
    assert_ok(gantry_taskman_start(s.gpu.manager));
    while (atomic_load(&s.done) < most) {
        sched_yield();
    }
    gantry_taskman *copies = share_scene_manager(&s, NULL);
    gantry_task_desc copy = GANTRY_TASK_DESC_INIT;
    copy.kind = GANTRY_TASK_HTOD;
    copy.launch = launch_many_blocks;
    copy.arg = &s;
    assert_ok(gantry_taskman_submit(copies, &copy, NULL));
    assert_ok(gantry_taskman_start(copies));
    assert_ok(gantry_taskman_stop(copies));
    gy_watcher_tick(watcher); /* this is still too much: nothing is given back */
    assert_int_equal(s.done, most + 1);
    gantry_share_usage usage = {.struct_size = sizeof(usage)};
    assert_int_equal(gantry_partition_get_usage(gantry_partition_default(s.gpu.context), &usage),
                     GANTRY_ERR_NOT_FOUND);
    use(0, 0);
    while (atomic_load(&s.done) < most + 4) {
        gy_watcher_tick(watcher);
    }
    assert_ok(gantry_taskman_stop(s.gpu.manager));
    gantry_taskman_destroy(copies);
    share_emu.set_noop(0);
    share_scene_close(&s);
}

static void test_a_failure_releases_what_waits_for_tokens(void **state)
{
    (void)state;
    struct share_scene s;
    open_limited(&s);
    use(90, 90);
    for (uint32_t i = 0; i < 20; i++) {
        (void)gpu_fixture_gpu(&s.gpu, GANTRY_TASK_KERNEL, "much", launch_many_blocks, &s);
    }
    assert_ok(gantry_taskman_start(s.gpu.manager));
    while (atomic_load(&s.done) < 9) {
        sched_yield();
    }
    gantry_dispatcher_force_failure(gantry_context_dispatcher(s.gpu.context));
    assert_int_equal(gantry_taskman_stop(s.gpu.manager), GANTRY_ERR_DEVICE_LOST);
    share_emu.set_noop(0);
    share_scene_close(&s);
}

/* There is one pool, one NVML and one tick per period, however many contexts the device has. */
static void test_a_cancelled_run_waits_for_no_tokens(void **state)
{
    (void)state;
    struct share_scene s;
    open_limited(&s);
    gantry_dispatcher *d = gantry_context_dispatcher(s.gpu.context);
    use(90, 90);
    for (uint32_t i = 0; i < 20; i++) {
        (void)gpu_fixture_gpu(&s.gpu, GANTRY_TASK_KERNEL, "much", launch_many_blocks, &s);
    }
    assert_ok(gantry_taskman_start(s.gpu.manager));
    while (atomic_load(&s.done) < (uint32_t)(d->shares.watcher->use->whole / BLOCKS) + 1) {
        sched_yield();
    }
    uint32_t done = atomic_load(&s.done);
    assert_ok(gantry_taskman_cancel(s.gpu.manager));
    assert_int_equal(gantry_taskman_stop(s.gpu.manager), GANTRY_ERR_CANCELLED);
    assert_int_equal(s.done, done);
    share_emu.set_noop(0);
    share_scene_close(&s);
}

static void test_contexts_share_the_pool(void **state)
{
    (void)state;
    struct share_scene s[2];
    open_limited(&s[0]);
    open_limited(&s[1]);
    struct gy_utilisation *pool = gantry_context_dispatcher(s[0].gpu.context)->shares.watcher->use;
    assert_ptr_equal(gantry_context_dispatcher(s[1].gpu.context)->shares.watcher->use, pool);
    assert_int_equal(started(), 1);
    use(90, 90);
    gy_utilisation_tick_if_due(pool, 1000 * (uint64_t)MS);
    gy_utilisation_tick_if_due(pool, 1000 * (uint64_t)MS + 60 * (uint64_t)MS);
    assert_int_equal(atomic_load(&pool->ticks), 1);
    gy_utilisation_tick_if_due(pool, 1000 * (uint64_t)MS + GY_UTILISATION_TICK_NS);
    assert_int_equal(atomic_load(&pool->ticks), 2);
    share_emu.set_noop(0);
    share_scene_close(&s[1]);
    assert_int_equal(started(), 1);
    share_scene_close(&s[0]);
    assert_int_equal(started(), 0);
}

static void check_refused(const gantry_context_options *options, gantry_status status, const char *what)
{
    gantry_context *context = NULL;
    assert_int_equal(gantry_context_create(options, &context), status);
    assert_null(context);
    if (strstr(gantry_last_error(), what) == NULL) {
        fail_msg("\"%s\" does not name %s", gantry_last_error(), what);
    }
}

static void test_what_cannot_be_is_told(void **state)
{
    (void)state;
    gantry_context *context = NULL;
    gantry_context_options options = GANTRY_CONTEXT_OPTIONS_INIT;
    gantry_partition_request r[] = {request("limited", GANTRY_PARTITION_EXACT, 64)};
    gantry_partition_options plan = GANTRY_PARTITION_OPTIONS_INIT;
    options.driver = GANTRY_DRIVER_EMULATED;
    options.quota_controller = "pid";
    check_refused(&options, GANTRY_ERR_INVALID_ARGUMENT, "quota_controller=pid");
    options.quota_controller = NULL;
    setenv("GANTRY_QUOTA_CONTROLLER", "nvmlx", 1);
    check_refused(&options, GANTRY_ERR_INVALID_ARGUMENT, "GANTRY_QUOTA_CONTROLLER=nvmlx");
    setenv("GANTRY_QUOTA_CONTROLLER", "nvml", 1);
    /* there is no limit: nothing has to be kept, and NVML is not needed */
    assert_ok(gantry_context_create(&options, &context));
    gantry_context_destroy(context);
    setenv("CUDA_DEVICE_SM_LIMIT", "20", 1);
    setenv("GANTRY_NVML", "/there/is/no/nvml.so", 1);
    check_refused(&options, GANTRY_ERR_UNSUPPORTED, "/there/is/no/nvml.so");
    setenv("GANTRY_NVML", FAKE_NVML, 1);
    r[0].share.percent = 10;
    plan.requests = r;
    plan.count = 1;
    options.partitions = &plan;
    check_refused(&options, GANTRY_ERR_UNSUPPORTED, "'limited' has a share");
    options.partitions = NULL;
    assert_ok(gantry_context_create(&options, &context)); /* with a watcher that runs by itself */
    const gantry_share share = {.percent = 10};
    gantry_taskman_options manager = GANTRY_TASKMAN_OPTIONS_INIT;
    gantry_taskman *refused = NULL;
    manager.gpu_dispatcher = gantry_context_dispatcher(context);
    manager.share = &share;
    assert_int_equal(gantry_taskman_create(&manager, &refused), GANTRY_ERR_UNSUPPORTED);
    gantry_context_destroy(context);
    assert_int_equal(started(), 0);
    unsetenv("CUDA_DEVICE_SM_LIMIT");
    unsetenv("GANTRY_QUOTA_CONTROLLER");
}

static void test_keys_of_the_file(void **state)
{
    static const struct {
        const char *text;
        bool good, by_nvml;
    } cases[] = {{"quota_controller = \"nvml\"\n", true, true},
                 {"quota_controller=nvml\nCUDA_DEVICE_SM_LIMIT=10\n", true, true},
                 {"# quota_controller = \"nvml\"\n", true, false},
                 {"  quota_controller = bucket \n", true, false},
                 {"quota_controller = \"other\"\n", false, false},
                 {"quota_controller = nvml bucket\n", false, false}};
    (void)state;
    char path[64];
    snprintf(path, sizeof(path), "utilisation-%ld.conf", (long)getpid());
    setenv("GANTRY_CONFIG", path, 1);
    for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
        struct gy_limit limit = {0, false};
        FILE *file = fopen(path, "w");
        assert_non_null(file);
        fputs(cases[i].text, file);
        fclose(file);
        assert_int_equal(gy_limit_read(NULL, &limit),
                         cases[i].good ? GANTRY_OK : GANTRY_ERR_INVALID_ARGUMENT);
        assert_int_equal(limit.by_nvml, cases[i].by_nvml);
    }
    unsetenv("GANTRY_CONFIG");
    remove(path);
}

/* ---- the whole GPU under MPS -------------------------------------------------------------------- */

static gantry_sm_topology topology_now(void)
{
    gantry_context *context = NULL;
    gantry_context_options options = GANTRY_CONTEXT_OPTIONS_INIT;
    gantry_sm_topology topology = {.struct_size = sizeof(topology)};
    options.driver = GANTRY_DRIVER_EMULATED;
    assert_ok(gantry_context_create(&options, &context));
    assert_ok(gantry_partition_read_topology(context, &topology));
    gantry_context_destroy(context);
    return topology;
}

/* A client of MPS sees a part of the GPU; NVML counts the cores of all of it. */
static void test_parts_of_mps_are_told_apart(void **state)
{
    (void)state;
    gantry_sm_topology t = topology_now();
    assert_int_equal(t.mps_percentage, 0);
    assert_int_equal(t.mps_is_static, 0);
    assert_int_equal(t.device_sms, 0);               /* nobody asked NVML */
    setenv("CUDA_MPS_SM_PARTITION", "GPU-1/Dx4", 1); /* without MPS it says nothing */
    assert_int_equal(topology_now().mps_is_static, 0);
    unsetenv("CUDA_MPS_SM_PARTITION");
    setenv("GANTRY_EMU_MPS", "1", 1);
    have_cores(264 * 128);
    t = topology_now();
    assert_int_equal(t.mps_percentage, 100);
    assert_int_equal(t.mps_is_static, 0);
    assert_int_equal(t.sm_count, 132);
    assert_int_equal(t.device_sms, 264);
    setenv("CUDA_MPS_SM_PARTITION", "GPU-1/Dx4", 1);
    t = topology_now();
    assert_int_equal(t.mps_is_static, 1);
    assert_int_equal(t.device_sms, 264);
    have_cores(0);
    assert_int_equal(topology_now().device_sms, 0);
    setenv("GANTRY_NVML", "/there/is/no/nvml.so", 1);
    assert_int_equal(topology_now().device_sms, 0);
    setenv("GANTRY_NVML", FAKE_NVML, 1);
    have_cores(132 * 128);
    assert_int_equal(started(), 0);
    unsetenv("CUDA_MPS_SM_PARTITION");
    unsetenv("GANTRY_EMU_MPS");
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_the_step_is_that_of_the_formula),
        cmocka_unit_test(test_the_watcher_follows_nvml),
        cmocka_unit_test(test_launches_wait_for_tokens),
        cmocka_unit_test(test_a_failure_releases_what_waits_for_tokens),
        cmocka_unit_test(test_a_cancelled_run_waits_for_no_tokens),
        cmocka_unit_test(test_contexts_share_the_pool),
        cmocka_unit_test(test_what_cannot_be_is_told),
        cmocka_unit_test(test_keys_of_the_file),
        cmocka_unit_test(test_parts_of_mps_are_told_apart),
    };
    setenv("GANTRY_NVML", FAKE_NVML, 1);
    void *library = dlopen(FAKE_NVML, RTLD_NOW);
    if (library == NULL) {
        fprintf(stderr, "%s\n", dlerror());
        return 1;
    }
    *(void **)&use = dlsym(library, "fake_nvml_use");
    *(void **)&started = dlsym(library, "fake_nvml_started");
    *(void **)&have_cores = dlsym(library, "fake_nvml_have_cores");
    return use != NULL && started != NULL && have_cores != NULL && share_scene_begin()
               ? cmocka_run_group_tests(tests, NULL, NULL)
               : 1;
}
