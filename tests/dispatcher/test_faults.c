/* SPDX-License-Identifier: MIT */
/* Whatever driver call fails, and whenever: the step ends, every task is released once, the cause is
 * reported, the context can be destroyed without leaving anything behind, and a new one works.  The faults
 * are the emulated driver's.
 *
 * With a share of GPU time (CUDA_DEVICE_SM_LIMIT=50) this has to be run by hand: the time decides when
 * events are asked about then, and so which thread hears of a failure first. */
#include "base/alloc.h"
#include "context/context.h"
#include "dispatcher/internal.h"
#include "driver/context.h"
#include "emulator/gantry_emu.h"
#include "tests/dispatcher/stamps.h"
#include "tests/support/cmocka_c11.h"
#include "tests/support/deadline.h"
#include "tests/support/gpu_fixture.h"

#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define PIPELINES 2u
#define PER_PIPELINE 8u
#define PIPELINE_BYTES 4096u
#define TASKS (PIPELINES * PER_PIPELINE + 1)
#define OUT_OF_MEMORY 2
#define ILLEGAL_ADDRESS 700
#define LAUNCH_FAILED 719
#define UPDATE_FAILURE 910

static struct gantry_emu_control emu;

struct record {
    _Atomic(uint32_t) ran, released, failed, order;
};

struct scene {
    struct gpu_fixture gpu;
    struct stamps stamps; /* clock, begins, ends, what is copied */
    void *buffer;         /* device */
    gantry_task *completes[PIPELINES];
    struct record records[TASKS];
    gantry_status result; /* status of the step */
    char cause[512];      /* last error of the step */
    bool lost;
    _Atomic(uint32_t) releases;
    bool stable; /* the tasks are declared so */
    bool frozen; /* the graph is built already */
};

/* Each task gets its scene and its place. */
struct place {
    struct scene *scene;
    uint32_t index;
};
static struct place places[TASKS];

static void released(gantry_task *task, void *arg, gantry_status result)
{
    (void)task;
    const struct place *place = arg;
    struct record *record = &place->scene->records[place->index];
    atomic_store(&record->order, atomic_fetch_add(&place->scene->releases, 1) + 1);
    atomic_fetch_add(&record->released, 1);
    atomic_fetch_add(&record->failed, result != GANTRY_OK);
}

static gantry_status run_cpu(gantry_task *task, void *arg)
{
    (void)task;
    const struct place *place = arg;
    atomic_fetch_add(&place->scene->records[place->index].ran, 1);
    return GANTRY_OK;
}

static gantry_launch_result done_if(gantry_status status)
{
    return status == GANTRY_OK ? GANTRY_LAUNCH_DONE : GANTRY_LAUNCH_FAILED;
}

/* Every pipeline has memory of its own. */
static void *buffer_of(const struct place *place)
{
    return (char *)place->scene->buffer + place->index / PER_PIPELINE * PIPELINE_BYTES;
}

static uint32_t *cells_of(const struct place *place, uint32_t from)
{
    return place->scene->stamps.cells + from + place->index / PER_PIPELINE * 32;
}

static gantry_launch_result launch_in(gantry_launch *launch, void *arg)
{
    const struct place *place = arg;
    return done_if(gantry_launch_copy_htod(launch, buffer_of(place), cells_of(place, 256), 64));
}

static gantry_launch_result launch_kernel(gantry_launch *launch, void *arg)
{
    const struct place *place = arg;
    if (stamps_launch(&place->scene->stamps, launch, 1 + place->index, 64 + place->index, 0) != GANTRY_OK) {
        return GANTRY_LAUNCH_FAILED;
    }
    return gantry_launch_index(launch) == 0 ? GANTRY_LAUNCH_AGAIN : GANTRY_LAUNCH_DONE;
}

static gantry_launch_result launch_batched(gantry_launch *launch, void *arg)
{
    gantry_copy_desc fill = {
        .dest = buffer_of(arg), .bytes = PIPELINE_BYTES, .type = GANTRY_COPY_FILL, .pattern_bytes = 1};
    return done_if(gantry_copy_launch(launch, &fill, 1));
}

static gantry_launch_result launch_out(gantry_launch *launch, void *arg)
{
    const struct place *place = arg;
    struct scene *s = place->scene;
    gantry_status status = gantry_launch_copy_dtoh(launch, cells_of(place, 512), buffer_of(place), 64);
    if (status == GANTRY_OK) {
        status = gantry_launch_add_completion(launch, s->completes[place->index / PER_PIPELINE]);
    }
    return done_if(status);
}

static gantry_task *submit(struct scene *s, uint32_t index, gantry_task_kind kind, gantry_launch_fn launch)
{
    static const char *const names[] = {"in", "left", "right", "cpu", "join", "batched", "out", "done"};
    gantry_task_desc desc = GANTRY_TASK_DESC_INIT;
    places[index] = (struct place){s, index};
    desc.kind = kind;
    desc.label = names[index % PER_PIPELINE];
    desc.launch = launch;
    desc.run = kind == GANTRY_TASK_CPU ? run_cpu : NULL;
    desc.release = released;
    desc.arg = &places[index];
    desc.is_stable = s->stable && kind != GANTRY_TASK_CPU;
    gantry_task *task = NULL;
    assert_ok(gantry_taskman_submit(s->gpu.manager, &desc, &task));
    return task;
}

/* in → {left → cpu, right} → join → batched → out → done in each pipeline; a last task after all. */
static void build(struct scene *s)
{
    memset(s->records, 0, sizeof(s->records));
    gantry_task *last = submit(s, TASKS - 1, GANTRY_TASK_CPU, NULL);
    for (uint32_t p = 0; p < PIPELINES; p++) {
        uint32_t at = p * PER_PIPELINE;
        gantry_task *in = submit(s, at, GANTRY_TASK_HTOD, launch_in);
        gantry_task *left = submit(s, at + 1, GANTRY_TASK_KERNEL, launch_kernel);
        gantry_task *right = submit(s, at + 2, GANTRY_TASK_KERNEL, launch_kernel);
        gantry_task *cpu = submit(s, at + 3, GANTRY_TASK_CPU, NULL);
        gantry_task *join = submit(s, at + 4, GANTRY_TASK_KERNEL, launch_kernel);
        gantry_task *batched = submit(s, at + 5, GANTRY_TASK_KERNEL, launch_batched);
        gantry_task *out = submit(s, at + 6, GANTRY_TASK_DTOH, launch_out);
        gantry_task *done = submit(s, at + 7, GANTRY_TASK_CPU, NULL);
        s->completes[p] = done;
        gpu_fixture_after(left, in);
        gpu_fixture_after(right, in);
        gpu_fixture_after(cpu, left);
        gpu_fixture_after(join, cpu);
        gpu_fixture_after(join, right);
        gpu_fixture_after(batched, join);
        gpu_fixture_after(out, batched);
        gpu_fixture_after(done, out);
        gpu_fixture_after(last, done);
    }
}

static void open_scene(struct scene *s, gantry_submission submission)
{
    memset(s, 0, sizeof(*s));
    gantry_context_options options = GANTRY_CONTEXT_OPTIONS_INIT;
    options.driver = GANTRY_DRIVER_EMULATED;
    /* batches of auto have a green context, which is the primary one's */
    options.mode = submission == GANTRY_SUBMISSION_AUTO ? GANTRY_CONTEXT_PRIMARY : GANTRY_CONTEXT_OWN;
    options.completion_wait = GANTRY_WAIT_BLOCK;
    options.submission = submission;
    assert_ok(gantry_context_create(&options, &s->gpu.context));
    gantry_context_dispatcher(s->gpu.context)->graphs.choice.slow_ns = UINT64_MAX; /* no time decides */
    gantry_cpu_dispatcher_options cpus = GANTRY_CPU_DISPATCHER_OPTIONS_INIT;
    cpus.worker_count = 1;
    assert_ok(gantry_cpu_dispatcher_create(&cpus, &s->gpu.cpus));
    gantry_taskman_options manager = GANTRY_TASKMAN_OPTIONS_INIT;
    manager.cpu_dispatcher = s->gpu.cpus;
    manager.gpu_dispatcher = gantry_context_dispatcher(s->gpu.context);
    assert_ok(gantry_taskman_create(&manager, &s->gpu.manager));
    stamps_open(&s->stamps, s->gpu.context, 4096);
    gantry_heap *heap = gantry_context_heap(s->gpu.context);
    assert_ok(gantry_heap_alloc(heap, GANTRY_MEMORY_DEVICE, PIPELINES * PIPELINE_BYTES, 0,
                                GANTRY_ALLOC_SITE("buffer"), &s->buffer));
}

static struct gy_context *held; /* it keeps the driver loaded */

/* A failed pipeline has work in flight that nothing waits for. */
static void await_gpu(struct scene *s)
{
    if (!s->lost) {
        assert_ok(gantry_context_acquire(s->gpu.context));
        assert_int_equal(held->driver->cuCtxSynchronize(), CUDA_SUCCESS);
        assert_ok(gantry_context_release(s->gpu.context));
    }
}

static void close_scene(struct scene *s)
{
    await_gpu(s);
    gantry_heap *heap = gantry_context_heap(s->gpu.context);
    assert_ok(gantry_heap_free(heap, s->stamps.cells));
    assert_ok(gantry_heap_free(heap, s->buffer));
    gpu_fixture_close(&s->gpu);
}

/* A frozen graph of stable tasks that will be launched without being called. */
static void warm_up(struct scene *s)
{
    s->stable = true;
    build(s);
    assert_ok(gantry_taskman_freeze(s->gpu.manager));
    assert_ok(gantry_taskman_run(s->gpu.manager, 4));
    assert_true(gpu_fixture_stats(&s->gpu).graph_replays > 0);
    s->stable = false;
    s->frozen = true;
}

/* Run one step; afterwards the graph is gone and the scene has the results. */
static void run_step(struct scene *s)
{
    if (s->frozen) {
        memset(s->records, 0, sizeof(s->records));
        s->frozen = false;
    } else {
        build(s);
    }
    s->cause[0] = '\0';
    s->result = gantry_taskman_start(s->gpu.manager);
    if (s->result == GANTRY_OK) {
        s->result = gantry_taskman_stop(s->gpu.manager);
    }
    if (s->result != GANTRY_OK) {
        (void)snprintf(s->cause, sizeof(s->cause), "%s", gantry_last_error());
    }
    assert_ok(gantry_taskman_reset(s->gpu.manager));
    s->lost = !gantry_context_is_valid(s->gpu.context);
    for (uint32_t i = 0; i < TASKS; i++) {
        assert_int_equal(s->records[i].released, 1);
        assert_true(s->records[i].failed == 0 || s->records[i].ran == 0);
        if (s->result == GANTRY_OK) {
            assert_int_equal(s->records[i].failed, 0);
        }
    }
}

/* A GPU task is released after the tasks it depends on.  (A CPU task releases its dependents before its
 * callback is called.) */
static void check_order(const struct scene *s)
{
    static const uint8_t after[][2] = {{1, 0}, {2, 0}, {4, 2}, {5, 4}, {6, 5}};
    for (uint32_t p = 0; p < PIPELINES; p++) {
        for (size_t i = 0; i < sizeof(after) / sizeof(after[0]); i++) {
            const struct record *first = &s->records[p * PER_PIPELINE + after[i][1]];
            const struct record *then = &s->records[p * PER_PIPELINE + after[i][0]];
            assert_true(atomic_load(&first->order) < atomic_load(&then->order));
        }
    }
}

static bool none_failed(const struct scene *s)
{
    uint32_t failed = 0;
    for (uint32_t i = 0; i < TASKS; i++) {
        failed += s->records[i].failed;
    }
    return failed == 0;
}

/* After a fault the cause is reported, and the context either works as before or refuses everything for
 * good. */
static void check_aftermath(struct scene *s, const char *cause)
{
    if (s->result != GANTRY_OK) {
        assert_true(s->result == (s->lost ? GANTRY_ERR_DEVICE_LOST : GANTRY_ERR_OUT_OF_DEVICE_MEMORY));
        if (strstr(s->cause, cause) == NULL) {
            fail_msg("\"%s\" does not name %s", s->cause, cause);
        }
        if (strstr(s->cause, ".c:") == NULL && strstr(s->cause, ".h:") == NULL) {
            fail_msg("\"%s\" tells no place", s->cause);
        }
        check_order(s);
        /* A driver call after the last task, for the events of a share, may find the context lost, too. */
        assert_true(s->records[TASKS - 1].failed == 1 || (s->lost && none_failed(s)));
    }
    if (s->lost) {
        build(s);
        assert_int_equal(gantry_taskman_start(s->gpu.manager), GANTRY_ERR_DEVICE_LOST);
        assert_ok(gantry_taskman_reset(s->gpu.manager));
    } else {
        await_gpu(s);
        run_step(s);
        assert_ok(s->result);
    }
}

static int64_t live_objects(void)
{
    int64_t sum = 0;
    for (int kind = 0; kind < GANTRY_EMU_LIVE_KINDS; kind++) {
        sum += emu.live(kind);
    }
    return sum;
}

struct sweep {
    int64_t live;
    long host_live;
    uint32_t faults; /* steps that failed */
    uint32_t lost;   /* how many of these lost their context */
};

static int open_sweep(void **state)
{
    static struct sweep sweep;
    memset(&sweep, 0, sizeof(sweep));
    gantry_context_options options = GANTRY_CONTEXT_OPTIONS_INIT;
    options.driver = GANTRY_DRIVER_EMULATED;
    assert_ok(gy_context_open(&options, &held));
    (void)gpu_fixture_controls(&emu);
    sweep.live = live_objects();
    sweep.host_live = gy_alloc_live();
    *state = &sweep;
    return 0;
}

static int close_sweep(void **state)
{
    emu.reset();
    (void)state;
    gy_context_close(held);
    return 0;
}

static void end_run(struct sweep *sweep, struct scene *s, const char *cause)
{
    sweep->faults += s->result != GANTRY_OK;
    sweep->lost += s->lost;
    check_aftermath(s, cause);
    close_scene(s);
    assert_int_equal(gy_alloc_live(), sweep->host_live);
    assert_int_equal(live_objects(), sweep->live);
}

static bool light(void)
{
    return getenv("GANTRY_TEST_LIGHT") != NULL;
}

/* Fail the n-th call of every function for n = 1, 2, … until a step makes fewer calls; where tests are
 * light, with gaps behind the third. */
static void sweep_scene(struct sweep *sweep, gantry_submission submission, bool stable, int result, int mode)
{
    static const char *const functions[] = {
#define F(need, member, symbol, prototype) #member,
        GY_DRIVER_FUNCS(F)
#undef F
    };
    static struct scene scene;
    const uint64_t gap = light() ? 5 : 1;
    for (size_t i = 0; i < sizeof(functions) / sizeof(functions[0]); i++) {
        /* A call that a lost context would not destroy something with is not tried again: the object may be
         * gone. */
        bool leaks = result == ILLEGAL_ADDRESS && (strcmp(functions[i], "cuGraphDestroy") == 0 ||
                                                   strcmp(functions[i], "cuGraphExecDestroy") == 0);
        for (uint64_t nth = 1; !leaks; nth += nth < 3 ? 1 : gap) {
            open_scene(&scene, submission);
            if (stable) {
                warm_up(&scene);
            }
            emu.reset_counters();
            assert_int_equal((emu.fail)(functions[i], nth, result, mode), 0);
            run_step(&scene);
            bool reached = (emu.calls)(functions[i]) >= nth;
            emu.clear_faults();
            /* Any thread may hear first, from any call, that a context is broken. */
            end_run(sweep, &scene, result == OUT_OF_MEMORY ? functions[i] : "CUDA_ERROR_ILLEGAL_ADDRESS");
            if (!reached) {
                break;
            }
        }
    }
    assert_true(sweep->faults > 0);
}

static void sweep_calls(struct sweep *sweep, gantry_submission submission, int result, int mode)
{
    sweep_scene(sweep, submission, false, result, mode);
}

static void test_any_call_failing_once_is_survived(void **state)
{
    sweep_calls(*state, GANTRY_SUBMISSION_STREAMS, OUT_OF_MEMORY, GANTRY_EMU_ONCE);
}

static void test_any_call_failing_from_then_on_is_survived(void **state)
{
    sweep_calls(*state, GANTRY_SUBMISSION_STREAMS, OUT_OF_MEMORY, GANTRY_EMU_ALWAYS);
}

static void test_any_call_losing_the_context_is_survived(void **state)
{
    struct sweep *sweep = *state;
    sweep_calls(sweep, GANTRY_SUBMISSION_STREAMS, ILLEGAL_ADDRESS, GANTRY_EMU_ONCE);
    assert_true(sweep->lost > 0);
}

static void test_any_call_failing_in_graphs_mode_is_survived(void **state)
{
    sweep_calls(*state, GANTRY_SUBMISSION_GRAPHS, OUT_OF_MEMORY, GANTRY_EMU_ONCE);
    if (!light()) {
        sweep_calls(*state, GANTRY_SUBMISSION_GRAPHS, OUT_OF_MEMORY, GANTRY_EMU_ALWAYS);
    }
    sweep_calls(*state, GANTRY_SUBMISSION_GRAPHS, ILLEGAL_ADDRESS, GANTRY_EMU_ONCE);
}

static void test_any_call_failing_in_auto_mode_is_survived(void **state)
{
    sweep_calls(*state, GANTRY_SUBMISSION_AUTO, OUT_OF_MEMORY, GANTRY_EMU_ONCE);
    if (!light()) {
        sweep_calls(*state, GANTRY_SUBMISSION_AUTO, OUT_OF_MEMORY, GANTRY_EMU_ALWAYS);
    }
}

static void test_any_call_failing_in_a_replay_is_survived(void **state)
{
    sweep_scene(*state, GANTRY_SUBMISSION_GRAPHS, true, OUT_OF_MEMORY, GANTRY_EMU_ONCE);
    if (!light()) {
        sweep_scene(*state, GANTRY_SUBMISSION_GRAPHS, true, OUT_OF_MEMORY, GANTRY_EMU_ALWAYS);
    }
    sweep_scene(*state, GANTRY_SUBMISSION_GRAPHS, true, ILLEGAL_ADDRESS, GANTRY_EMU_ONCE);
}

/* No executable graph is kept, so each batch updates one of the cache, or needs another. */
static void keep_no_graphs(const struct scene *scene)
{
    struct gantry_dispatcher *d = gantry_context_dispatcher(scene->gpu.context);
    deadline_await(gy_inbox_borrow(&d->inbox), "the dispatcher to sleep"); /* the next work is its own */
    d->graphs.kept.refusals = GY_KEPT_REFUSALS;
    gy_inbox_give_back(&d->inbox, 0, true, true);
}

/* A graph whose update is refused is replaced by another one. */
static void refuse_destruction(struct sweep *sweep, const char *function, int mode)
{
    static struct scene scene;
    open_scene(&scene, GANTRY_SUBMISSION_GRAPHS);
    keep_no_graphs(&scene);
    emu.reset_counters();
    assert_int_equal((emu.fail)("cuGraphExecUpdate", 1, UPDATE_FAILURE, GANTRY_EMU_ALWAYS), 0);
    assert_int_equal((emu.fail)(function, 1, OUT_OF_MEMORY, mode), 0);
    do { /* until a batch is divided as an earlier one was: that depends on the CPU tasks */
        run_step(&scene);
        assert_ok(scene.result);
    } while ((emu.calls)(function) == 0);
    emu.clear_faults();
    end_run(sweep, &scene, "");
}

static void test_graphs_that_are_not_destroyed_are_destroyed_later(void **state)
{
    static struct scene scene;
    static const char *const functions[] = {"cuGraphDestroy", "cuGraphExecDestroy"};
    for (int i = 0; i < 4; i++) {
        refuse_destruction(*state, functions[i % 2], i < 2 ? GANTRY_EMU_ONCE : GANTRY_EMU_ALWAYS);
    }
    open_scene(&scene, GANTRY_SUBMISSION_GRAPHS);
    warm_up(&scene);
    assert_int_equal((emu.fail)("cuGraphExecDestroy", 1, OUT_OF_MEMORY, GANTRY_EMU_ALWAYS), 0);
    run_step(&scene); /* and the frozen graph is given up */
    assert_ok(scene.result);
    assert_true((emu.calls)("cuGraphExecDestroy") > 0);
    emu.clear_faults();
    end_run(*state, &scene, "");
}

static void test_any_kernel_failing_on_the_device_is_survived(void **state)
{
    struct sweep *sweep = *state;
    static struct scene scene;
    for (uint64_t nth = 1;; nth++) {
        open_scene(&scene, nth % 2 == 0 ? GANTRY_SUBMISSION_GRAPHS : GANTRY_SUBMISSION_STREAMS);
        assert_int_equal(emu.fail_kernel(nth, LAUNCH_FAILED, GANTRY_EMU_ONCE), 0);
        run_step(&scene);
        emu.clear_faults();
        bool failed = scene.lost;
        end_run(sweep, &scene, "CUDA_ERROR_LAUNCH_FAILED");
        if (!failed) {
            assert_true(nth > 3 * PIPELINES);
            break;
        }
    }
}

/* If a driver call is made for one task, its failure names that task. */
static void test_a_failed_call_names_its_task(void **state)
{
    static const struct {
        const char *function, *task;
    } calls[] = {
        {"cuMemcpyHtoDAsync", "'in'"},
        {"cuLaunchKernel", "'left'"},
        {"cuMemcpyDtoHAsync", "'out'"},
        {"cuStreamWaitEvent", "task 'right'"},
    };
    struct sweep *sweep = *state;
    static struct scene scene;
    for (size_t i = 0; i < 2 * sizeof(calls) / sizeof(calls[0]); i++) {
        bool is_sticky = i % 2 != 0;
        if (is_sticky && getenv("CUDA_DEVICE_SM_LIMIT") != NULL) {
            /* the events of a share are looked at meanwhile: the looking thread may hear of it first */
            continue;
        }
        open_scene(&scene, GANTRY_SUBMISSION_STREAMS);
        emu.reset_counters();
        assert_int_equal((emu.fail)(calls[i / 2].function, 1, is_sticky ? ILLEGAL_ADDRESS : OUT_OF_MEMORY,
                                    GANTRY_EMU_ONCE),
                         0);
        run_step(&scene);
        emu.clear_faults();
        assert_int_equal(scene.result, is_sticky ? GANTRY_ERR_DEVICE_LOST : GANTRY_ERR_OUT_OF_DEVICE_MEMORY);
        if (strstr(scene.cause, calls[i / 2].function) == NULL ||
            strstr(scene.cause, calls[i / 2].task) == NULL) {
            fail_msg("\"%s\" does not name %s of %s", scene.cause, calls[i / 2].function, calls[i / 2].task);
        }
        end_run(sweep, &scene, calls[i / 2].function);
    }
}

static void test_a_step_takes_no_host_memory(void **state)
{
    struct sweep *sweep = *state;
    static struct scene scene;
    open_scene(&scene, GANTRY_SUBMISSION_STREAMS);
    run_step(&scene); /* everything that is made at first use is made now */
    assert_ok(scene.result);
    build(&scene);
    gy_fault_arm(0);
    gantry_status started = gantry_taskman_start(scene.gpu.manager);
    gantry_status stopped = gantry_taskman_stop(scene.gpu.manager);
    bool fired = gy_fault_fired();
    gy_fault_arm(-1);
    assert_ok(started);
    assert_ok(stopped);
    assert_false(fired);
    assert_ok(gantry_taskman_reset(scene.gpu.manager));
    end_run(sweep, &scene, "");
}

#define TEST(name) cmocka_unit_test_setup_teardown(name, open_sweep, close_sweep)

static void ignore_line(void *user, gantry_log_level level, const char *line)
{
    (void)user;
    (void)level;
    (void)line;
}

int main(void)
{
    /* Failures are scripted, which only the emulated driver can do. */
    unsetenv("GANTRY_TEST_DRIVER");
    gantry_set_log(ignore_line, NULL, GANTRY_LOG_DEBUG); /* source positions are logged at this level */
    const struct CMUnitTest tests[] = {
        TEST(test_any_call_failing_once_is_survived),
        TEST(test_any_call_failing_from_then_on_is_survived),
        TEST(test_any_call_losing_the_context_is_survived),
        TEST(test_any_call_failing_in_graphs_mode_is_survived),
        TEST(test_any_call_failing_in_auto_mode_is_survived),
        TEST(test_any_call_failing_in_a_replay_is_survived),
        TEST(test_graphs_that_are_not_destroyed_are_destroyed_later),
        TEST(test_any_kernel_failing_on_the_device_is_survived),
        TEST(test_a_failed_call_names_its_task),
        TEST(test_a_step_takes_no_host_memory),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
