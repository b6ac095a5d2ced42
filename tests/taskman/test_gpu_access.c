/* SPDX-License-Identifier: MIT */
/* Random steps whose order is from data alone: copies, fills and CPU tasks give what a sequential program
 * gives, step behind step without a wait, in each way of submission, frozen or not.
 *
 * `--programs N` of each kind from `--seed S` on. */
#include "driver/driver.h"
#include "taskman/gpu_task.h"
#include "tests/dispatcher/stamps.h"
#include "tests/support/cmocka_c11.h"
#include "tests/support/gpu_fixture.h"

#include "order_kernels.kernels.h"

#include <gantry/access.h>

#include <pthread.h>
#include <stdatomic.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

enum {
    WORDS = 256,
    GRAIN = 8, /* of addresses, so that ranges come again */
    TASKS = 24,
    STEPS = 6,
    RUNS = 3,
    MOST_WORDS = 24
};

enum program { BUILT, FROZEN, LATE /* a task makes the others while the step runs */ };
enum what { COPY_UP, COPY_DOWN, COPY_ON_DEVICE, FILL, ON_HOST, UNDECLARED };

struct scene;

struct task {
    struct scene *scene;
    enum what what;
    uint32_t from, to, count, value; /* in words */
};

struct scene {
    struct gpu_fixture gpu;
    uint32_t *host, *device;                   /* page-locked, and of the device */
    uint32_t host_is[WORDS], device_is[WORDS]; /* what a sequential program has by now */
    uint64_t random;
    struct task tasks[STEPS][TASKS];
    uint32_t step;
    uint32_t late_from; /* those from this one on are made while the step runs */
};

static uint32_t programs_wanted = 20, seed_wanted = 1;

static uint32_t draw(struct scene *s, uint32_t below)
{
    s->random = s->random * UINT64_C(6364136223846793005) + UINT64_C(1442695040888963407);
    return (uint32_t)(s->random >> 33) % below;
}

/* ---- tasks --------------------------------------------------------------------------------------- */

static gantry_launch_result launch(gantry_launch *call, void *arg)
{
    const struct task *t = arg;
    const struct scene *s = t->scene;
    const size_t bytes = t->count * sizeof(uint32_t);
    const gantry_status status =
        t->what == COPY_UP     ? gantry_launch_copy_htod(call, &s->device[t->to], &s->host[t->from], bytes)
        : t->what == COPY_DOWN ? gantry_launch_copy_dtoh(call, &s->host[t->to], &s->device[t->from], bytes)
        : t->what == COPY_ON_DEVICE
            ? gantry_launch_copy_dtod(call, &s->device[t->to], &s->device[t->from], bytes)
        : t->what == FILL ? gantry_launch_fill(call, &s->device[t->to], t->value, 4, t->count)
                          : gantry_launch_fill(call, s->device, t->value, 4, t->count);
    return status == GANTRY_OK ? GANTRY_LAUNCH_DONE : GANTRY_LAUNCH_FAILED;
}

static gantry_status run(gantry_task *task, void *arg)
{
    const struct task *t = arg;
    (void)task;
    for (uint32_t i = 0; i < t->count; i++) {
        t->scene->host[t->to + i] = t->scene->host[t->from + i] * 3 + t->value;
    }
    return GANTRY_OK;
}

/* The same on the sequential program's memory. */
static void run_sequentially(const struct task *t)
{
    struct scene *s = t->scene;
    const uint32_t *from = t->what == COPY_UP || t->what == ON_HOST ? s->host_is : s->device_is;
    uint32_t *to = t->what == COPY_DOWN || t->what == ON_HOST ? s->host_is : s->device_is;
    for (uint32_t i = 0; i < t->count; i++) {
        to[t->to + i] = t->what == FILL || t->what == UNDECLARED ? t->value
                        : t->what == ON_HOST                     ? from[t->from + i] * 3 + t->value
                                                                 : from[t->from + i];
    }
}

/* The first task of some steps has no accesses: nothing else of the step touches the first words. */
static void draw_task(struct scene *s, struct task *t, bool has_undeclared, bool is_first)
{
    const uint32_t first = has_undeclared ? GRAIN : 0;
    *t = (struct task){.scene = s, .what = (enum what)draw(s, UNDECLARED), .value = draw(s, 1000)};
    t->count = 1 + draw(s, MOST_WORDS);
    t->from = first + draw(s, (WORDS / 2 - MOST_WORDS - GRAIN) / GRAIN) * GRAIN;
    t->to = first + draw(s, (WORDS / 2 - MOST_WORDS - GRAIN) / GRAIN) * GRAIN;
    *(draw(s, 2) == 0 ? &t->from : &t->to) += WORDS / 2; /* they do not overlap */
    if (has_undeclared && is_first) {
        t->what = UNDECLARED;
        t->count = GRAIN;
        t->to = 0;
    }
}

/* Accesses of a late task are in its description; of others, here or there.  Of some their calls say them. */
static void submit(struct task *t, bool is_late)
{
    const struct scene *s = t->scene;
    static const gantry_task_kind kinds[] = {
        [COPY_UP] = GANTRY_TASK_HTOD, [COPY_DOWN] = GANTRY_TASK_DTOH, [COPY_ON_DEVICE] = GANTRY_TASK_KERNEL,
        [FILL] = GANTRY_TASK_KERNEL,  [ON_HOST] = GANTRY_TASK_CPU,    [UNDECLARED] = GANTRY_TASK_KERNEL};
    const size_t bytes = t->count * sizeof(uint32_t);
    const bool reads_host = t->what == COPY_UP || t->what == ON_HOST;
    const bool writes_host = t->what == COPY_DOWN || t->what == ON_HOST;
    const gantry_access accesses[] = {
        {&(writes_host ? s->host : s->device)[t->to], bytes, 1, 0, GANTRY_ACCESS_WRITE, 0},
        {&(reads_host ? s->host : s->device)[t->from], t->what != FILL ? bytes : 0, 1, 0, GANTRY_ACCESS_READ,
         0},
    };
    gantry_task_desc desc = GANTRY_TASK_DESC_INIT;
    gantry_task *task;
    desc.kind = kinds[t->what];
    desc.launch = t->what != ON_HOST ? launch : NULL;
    desc.run = t->what == ON_HOST ? run : NULL;
    desc.arg = t;
    const bool has_list = is_late || t->count % 2 == 0;
    desc.calls_say_accesses = t->what != UNDECLARED && t->what != ON_HOST && t->count % 3 == 0;
    if (t->what != UNDECLARED && has_list && !desc.calls_say_accesses) {
        desc.accesses = accesses;
        desc.access_count = 2;
    }
    assert_ok(gantry_taskman_submit(s->gpu.manager, &desc, &task));
    if (t->what != UNDECLARED && !has_list && !desc.calls_say_accesses) {
        assert_ok(gantry_task_access(task, accesses, 2));
    }
    if (is_late) {
        assert_ok(gantry_task_remove_reference(task));
    }
}

/* What the tasks before have launched is done or not, and so are their bodies. */
static gantry_status make_late_tasks(gantry_task *task, void *arg)
{
    struct scene *s = arg;
    (void)task;
    for (uint32_t i = s->late_from; i < TASKS; i++) {
        if (i % 4 == 0) {
            usleep(i * 10);
        }
        submit(&s->tasks[s->step][i], true);
    }
    return GANTRY_OK;
}

/* ---- a slow device --------------------------------------------------------------------------- */

/* The emulated device stops again and again, so that what does not wait for it comes too early. */
static void *stop_and_go(void *arg)
{
    atomic_bool *is_over = arg;
    void (*hold)(void), (*go)(void);
    *(void **)&hold = gpu_fixture_emulator("gantry_emu_hold");
    *(void **)&go = gpu_fixture_emulator("gantry_emu_release");
    while (hold != NULL && go != NULL && !atomic_load(is_over)) {
        hold();
        usleep(200);
        go();
        usleep(20);
    }
    return NULL;
}

/* ---- programs ------------------------------------------------------------------------------------ */

static void run_program(struct scene *s, enum program program)
{
    gantry_taskman *manager = s->gpu.manager;
    const bool is_frozen = program == FROZEN;
    for (uint32_t step = 0; step < STEPS; step++) {
        const bool has_undeclared = draw(s, 4) == 0;
        for (uint32_t i = 0; i < TASKS; i++) {
            draw_task(s, &s->tasks[step][i], has_undeclared, i == 0);
        }
        s->step = step;
        s->late_from = program == LATE ? draw(s, TASKS) : TASKS;
        if (program == LATE) {
            (void)gpu_fixture_cpu(&s->gpu, "makes the others", make_late_tasks, s);
        }
        for (uint32_t i = 0; i < s->late_from; i++) {
            submit(&s->tasks[step][i], false);
        }
        if (is_frozen) {
            assert_ok(gantry_taskman_freeze(manager));
        }
        for (uint32_t runs = 0; runs < (is_frozen ? RUNS : 1); runs++) {
            for (uint32_t i = 0; i < TASKS; i++) {
                s->tasks[step][i].value += 1000; /* each run gives something else */
            }
            assert_ok(gantry_taskman_start(manager));
            for (uint32_t i = 0; i < TASKS; i++) {
                run_sequentially(&s->tasks[step][i]);
            }
            assert_ok(gantry_taskman_stop(manager));
        }
        assert_ok(gantry_taskman_reset(manager));
    }
}

static void check_memory(const struct scene *s, uint32_t seed)
{
    uint32_t device[WORDS];
    const struct gy_driver *driver;
    assert_ok(gantry_context_synchronize(s->gpu.context));
    assert_ok(gy_driver_open(gpu_fixture_driver(), &driver));
    assert_int_equal(driver->cuCtxPushCurrent(gantry_context_native(s->gpu.context)), CUDA_SUCCESS);
    assert_int_equal(driver->cuMemcpyDtoH(device, (CUdeviceptr)(uintptr_t)s->device, sizeof(device)),
                     CUDA_SUCCESS);
    assert_int_equal(driver->cuCtxPopCurrent(NULL), CUDA_SUCCESS);
    for (uint32_t i = 0; i < WORDS; i++) {
        if (device[i] != s->device_is[i] || s->host[i] != s->host_is[i]) {
            fail_msg("word %u is %u on the device and %u on the host, not %u and %u; again: --seed %u "
                     "--programs 1",
                     i, device[i], s->host[i], s->device_is[i], s->host_is[i], seed);
        }
    }
}

static void run_programs(gantry_submission submission, enum program program)
{
    struct scene *s = calloc(1, sizeof(*s));
    gantry_context_options options = GANTRY_CONTEXT_OPTIONS_INIT;
    assert_non_null(s);
    options.driver = gpu_fixture_driver();
    options.submission = submission;
    gpu_fixture_open_with(&s->gpu, 2, &options);
    gantry_heap *heap = gantry_context_heap(s->gpu.context);
    void *host, *device;
    assert_ok(gantry_heap_alloc(heap, GANTRY_MEMORY_PINNED, sizeof(s->host_is), 0, GANTRY_ALLOC_SITE("host"),
                                &host));
    assert_ok(gantry_heap_alloc(heap, GANTRY_MEMORY_DEVICE, sizeof(s->device_is), 0,
                                GANTRY_ALLOC_SITE("device"), &device));
    s->host = host;
    s->device = device;
    memset(host, 0, sizeof(s->host_is));
    gpu_fixture_clear(&s->gpu, device, sizeof(s->device_is));
    atomic_bool is_over = false;
    pthread_t thread;
    assert_int_equal(pthread_create(&thread, NULL, stop_and_go, &is_over), 0);
    for (uint32_t seed = seed_wanted; seed < seed_wanted + programs_wanted; seed++) {
        s->random = seed * UINT64_C(7919) + (uint64_t)program;
        run_program(s, program);
        check_memory(s, seed);
    }
    atomic_store(&is_over, true);
    assert_int_equal(pthread_join(thread, NULL), 0);
    assert_ok(gantry_heap_free(heap, host));
    assert_ok(gantry_heap_free(heap, device));
    gpu_fixture_close(&s->gpu);
    free(s);
}

static void test_steps_give_what_a_sequence_gives(void **state)
{
    (void)state;
    run_programs(GANTRY_SUBMISSION_STREAMS, BUILT);
    run_programs(GANTRY_SUBMISSION_GRAPHS, BUILT);
    run_programs(GANTRY_SUBMISSION_AUTO, BUILT);
}

static void test_late_tasks_come_after_what_has_ended(void **state)
{
    (void)state;
    run_programs(GANTRY_SUBMISSION_STREAMS, LATE);
    run_programs(GANTRY_SUBMISSION_GRAPHS, LATE);
    run_programs(GANTRY_SUBMISSION_AUTO, LATE);
}

static void test_frozen_graphs_do_so_run_after_run(void **state)
{
    (void)state;
    run_programs(GANTRY_SUBMISSION_STREAMS, FROZEN);
    run_programs(GANTRY_SUBMISSION_GRAPHS, FROZEN);
    run_programs(GANTRY_SUBMISSION_AUTO, FROZEN);
}

/* ---- which tasks may be beside the step before --------------------------------------------------- */

static gantry_launch_result launch_nothing(gantry_launch *call, void *arg)
{
    (void)call;
    (void)arg;
    return GANTRY_LAUNCH_DONE;
}

static const char blocks[2][64]; /* addresses: nothing is done there */

/* A GPU task that accesses a block. */
static gantry_task *accessor(struct gpu_fixture *gpu, int block, gantry_access_mode mode)
{
    const gantry_access access = {blocks[block], sizeof(blocks[block]), 1, 0, mode, 0};
    gantry_task *task = gpu_fixture_gpu(gpu, GANTRY_TASK_KERNEL, "accessor", launch_nothing, NULL);
    assert_ok(gantry_task_access(task, &access, 1));
    return task;
}

static void test_who_is_beside_the_step_before(void **state)
{
    struct gpu_fixture gpu;
    (void)state;
    gpu_fixture_open(&gpu, 1, 0);
    assert_false(gy_task_is_independent(accessor(&gpu, 0, GANTRY_ACCESS_READ))); /* nothing is known yet */
    assert_ok(gpu_fixture_step(&gpu));

    gantry_task *reader = accessor(&gpu, 0, GANTRY_ACCESS_READ); /* as the step before: both may be at once */
    gantry_task *other = accessor(&gpu, 1, GANTRY_ACCESS_WRITE), *both = accessor(&gpu, 1, GANTRY_ACCESS_ADD);
    assert_true(gy_task_is_independent(reader) && gy_task_is_independent(other));
    assert_true(gy_task_is_independent(both));
    const gantry_access write = {&blocks[0][63], 1, 1, 0, GANTRY_ACCESS_WRITE, 0};
    assert_ok(gantry_task_access(both, &write, 1)); /* the step before has read that, and so has this one */
    assert_false(gy_task_is_independent(both));
    assert_ok(gpu_fixture_step(&gpu));

    assert_true(gy_task_is_independent(accessor(&gpu, 0, GANTRY_ACCESS_READ)) == false); /* it was written */
    (void)gpu_fixture_gpu(&gpu, GANTRY_TASK_KERNEL, "undeclared", launch_nothing, NULL);
    assert_ok(gpu_fixture_step(&gpu));

    other = accessor(&gpu, 1, GANTRY_ACCESS_READ); /* what the task without accesses does is not known */
    assert_false(gy_task_is_independent(other));
    assert_ok(gantry_taskman_reset(gpu.manager)); /* a step that never ran: the one before it is still that */
    assert_false(gy_task_is_independent(accessor(&gpu, 1, GANTRY_ACCESS_READ)));
    gpu_fixture_close(&gpu);
}

/* A path that is there already spares an edge, but not the wait for the GPU. */
static void test_a_path_of_launches_is_no_wait(void **state)
{
    struct gpu_fixture gpu;
    gantry_taskman_stats stats = {.struct_size = sizeof(stats)};
    const gantry_access both[] = {GANTRY_READS(blocks[1], 1), GANTRY_READS(blocks[0], 1)};
    (void)state;
    for (int waits = 0; waits < 2; waits++) {
        gpu_fixture_open(&gpu, 1, 0);
        gantry_task *writer = accessor(&gpu, 0, GANTRY_ACCESS_WRITE);
        gantry_task *between = gpu_fixture_cpu(&gpu, "behind the launch", run, NULL);
        assert_ok(waits ? gantry_task_start_after_done(between, writer)
                        : gantry_task_start_after(between, writer));
        const gantry_access write = GANTRY_WRITES(blocks[1], 1);
        assert_ok(gantry_task_access(between, &write, 1));
        assert_ok(gantry_task_access(gpu_fixture_cpu(&gpu, "reads both", run, NULL), both, 2));
        assert_ok(gantry_taskman_get_stats(gpu.manager, &stats));
        assert_int_equal(stats.edges_from_data, waits ? 1 : 2);
        assert_ok(gantry_taskman_reset(gpu.manager));
        gpu_fixture_close(&gpu);
    }
}

/* ---- memory that is freed ---------------------------------------------------------------------- */

static gantry_status declare_at(struct gpu_fixture *gpu, const void *at, bool in_description)
{
    const gantry_access accesses[] = {GANTRY_READS(blocks[0], 4), GANTRY_READS(at, 4)};
    gantry_task_desc desc = GANTRY_TASK_DESC_INIT;
    gantry_task *task;
    desc.label = "reads it";
    desc.run = run;
    desc.accesses = accesses;
    desc.access_count = in_description ? 2 : 0;
    const gantry_status status = gantry_taskman_submit(gpu->manager, &desc, &task);
    return status == GANTRY_OK && !in_description ? gantry_task_access(task, accesses, 2) : status;
}

/* Whichever way it is declared, and whatever kind of memory it was, nothing comes of it. */
static void test_memory_that_was_freed_is_no_access(void **state)
{
    static const size_t sizes[] = {64, 1 << 20};
    struct gpu_fixture gpu;
    gantry_taskman_stats stats = {.struct_size = sizeof(stats)};
    (void)state;
    gpu_fixture_open(&gpu, 1, 0);
    gantry_heap *heap = gantry_context_heap(gpu.context);
    for (int i = 0; i < 8; i++) {
        const gantry_memory_kind kind = i % 2 == 0 ? GANTRY_MEMORY_DEVICE : GANTRY_MEMORY_PINNED;
        char *block, *other;
        assert_ok(
            gantry_heap_alloc(heap, kind, sizes[i / 4], 0, GANTRY_ALLOC_SITE("freed"), (void **)&block));
        assert_ok(gantry_heap_alloc(heap, kind, sizes[i / 4], 0, GANTRY_ALLOC_SITE("live"), (void **)&other));
        assert_ok(declare_at(&gpu, &block[60], i / 2 % 2));
        assert_ok(gantry_taskman_reset(gpu.manager));
        assert_ok(gantry_heap_free(heap, block));
        assert_int_equal(declare_at(&gpu, &block[60], i / 2 % 2), GANTRY_ERR_INVALID_ARGUMENT);
        assert_non_null(strstr(gantry_last_error(), "access 1 of task 'reads it'"));
        assert_non_null(strstr(gantry_last_error(), "is in no live block of the heap"));
        assert_ok(gantry_taskman_get_stats(gpu.manager, &stats));
        assert_int_equal(stats.edges_from_data, 0);
        assert_ok(gantry_taskman_reset(gpu.manager));
        assert_ok(gantry_heap_free(heap, other));
    }
    gpu_fixture_close(&gpu);
}

/* ---- runs of a frozen graph -------------------------------------------------------------------- */

enum { FLAG = 1, CELLS = 3 };

struct runs {
    struct stamps stamps;
    gantry_kernel *await;
    atomic_uint bodies;
};

/* The GPU goes on when the host has raised the flag, or after some seconds. */
static gantry_launch_result launch_await(gantry_launch *call, void *arg)
{
    const struct runs *runs = arg;
    return stamps_await(&runs->stamps, call, runs->await, FLAG, UINT64_C(6000000000));
}

static gantry_status count_body(gantry_task *task, void *arg)
{
    struct runs *runs = arg;
    (void)task;
    atomic_fetch_add(&runs->bodies, 1);
    return GANTRY_OK;
}

/* While the kernel of the first run goes on, the CPU task of the second one must not write what it reads. */
static void test_a_run_waits_for_the_gpu_work_of_the_run_before(void **state)
{
    struct gpu_fixture gpu;
    struct runs runs = {.bodies = 0};
    gantry_module *module;
    (void)state;
    gpu_fixture_open(&gpu, 1, 0);
    stamps_open(&runs.stamps, gpu.context, CELLS * sizeof(uint32_t));
    assert_ok(gantry_module_load(gpu.context, &gantry_image_order_kernels, &module));
    assert_ok(gantry_module_get_kernel(module, "await_flag", &runs.await));
    const gantry_access write = {blocks[0], 4, 1, 0, GANTRY_ACCESS_WRITE, 0};
    const gantry_access read = {blocks[0], 4, 1, 0, GANTRY_ACCESS_READ, 0};
    assert_ok(gantry_task_access(gpu_fixture_cpu(&gpu, "writes", count_body, &runs), &write, 1));
    assert_ok(gantry_task_access(gpu_fixture_gpu(&gpu, GANTRY_TASK_KERNEL, "reads", launch_await, &runs),
                                 &read, 1));
    assert_ok(gantry_taskman_freeze(gpu.manager));
    assert_ok(gantry_taskman_start(gpu.manager));
    assert_ok(gantry_taskman_stop(gpu.manager));
    assert_ok(gantry_taskman_start(gpu.manager));
    usleep(20000); /* long enough for the body to run, if it does not wait */
    const unsigned bodies = atomic_load(&runs.bodies);
    __atomic_store_n(&runs.stamps.cells[FLAG], 1, __ATOMIC_RELEASE);
    assert_ok(gantry_taskman_stop(gpu.manager));
    assert_int_equal(bodies, 1);
    assert_int_equal(atomic_load(&runs.bodies), 2);
    assert_ok(gantry_context_synchronize(gpu.context)); /* the second run's kernel writes what is read here */
    assert_int_equal(runs.stamps.cells[FLAG + 1], 2);   /* the flag was seen */
    assert_ok(gantry_taskman_reset(gpu.manager));
    stamps_close(&runs.stamps);
    gpu_fixture_close(&gpu);
}

int main(int argc, char **argv)
{
    for (int i = 1; i + 1 < argc; i += 2) {
        const uint32_t value = (uint32_t)strtoul(argv[i + 1], NULL, 10);
        programs_wanted = strcmp(argv[i], "--programs") == 0 ? value : programs_wanted;
        seed_wanted = strcmp(argv[i], "--seed") == 0 ? value : seed_wanted;
    }
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_steps_give_what_a_sequence_gives),
        cmocka_unit_test(test_late_tasks_come_after_what_has_ended),
        cmocka_unit_test(test_frozen_graphs_do_so_run_after_run),
        cmocka_unit_test(test_who_is_beside_the_step_before),
        cmocka_unit_test(test_a_path_of_launches_is_no_wait),
        cmocka_unit_test(test_memory_that_was_freed_is_no_access),
        cmocka_unit_test(test_a_run_waits_for_the_gpu_work_of_the_run_before),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
