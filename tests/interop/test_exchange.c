/* SPDX-License-Identifier: MIT */
/* An exchange with a renderer: a thread of the test with two timelines.  It writes a frame, signals it, and
 * reads the GPU's result when that is signalled. */
#include "tests/support/cmocka_c11.h"
#include "tests/support/deadline.h"
#include "tests/support/file_has.h"
#include "tests/support/gpu_fixture.h"

#include "base/clock.h"

#include <pthread.h>
#include <sched.h>
#include <string.h>
#include <unistd.h>

enum { WORDS = 1024, FRAMES = 60 };
#define MS UINT64_C(1000000)

struct timeline {
    pthread_mutex_t lock;
    pthread_cond_t changed;
    uint64_t value;
    uint32_t waits; /* atomic: how many had to wait */
};

struct scene {
    struct gpu_fixture gpu;
    struct timeline drawn, filtered;
    gantry_exchange *exchange;
    gantry_task *acquire, *release, *work;
    gantry_status answer; /* the answer of the wait function; OK: it looks at the timeline */
    uint64_t late_ns;     /* the wait function returns so much too late */
    uint32_t *in, *out;   /* page-locked */
    void *device;
    uint32_t wrong, saw_early;
};

static void set_value(struct timeline *t, uint64_t value)
{
    pthread_mutex_lock(&t->lock);
    t->value = value;
    pthread_cond_broadcast(&t->changed);
    pthread_mutex_unlock(&t->lock);
}

static gantry_status wait_for(struct timeline *t, uint64_t value, uint64_t timeout_ns)
{
    struct timespec until;
    clock_gettime(CLOCK_REALTIME, &until);
    uint64_t ns = (uint64_t)until.tv_nsec + timeout_ns;
    until.tv_sec += (time_t)(ns / 1000000000);
    until.tv_nsec = (long)(ns % 1000000000);
    pthread_mutex_lock(&t->lock);
    int failed = 0;
    (void)__atomic_add_fetch(&t->waits, timeout_ns != 0, __ATOMIC_RELEASE);
    while (t->value < value && failed == 0 && timeout_ns != 0) {
        failed = pthread_cond_timedwait(&t->changed, &t->lock, &until);
    }
    bool reached = t->value >= value;
    pthread_mutex_unlock(&t->lock);
    return reached ? GANTRY_OK : GANTRY_ERR_TIMED_OUT;
}

static gantry_status wait_drawn(void *arg, uint64_t value, uint64_t timeout_ns)
{
    struct scene *s = arg;
    uint64_t until = gy_clock_ns() + (timeout_ns != 0 ? s->late_ns : 0);
    gantry_status status = s->answer != GANTRY_OK ? s->answer : wait_for(&s->drawn, value, timeout_ns);
    while (gy_clock_ns() < until) {
        sched_yield();
    }
    return status;
}

static gantry_status signal_filtered(void *arg, uint64_t value)
{
    struct scene *s = arg;
    set_value(&s->filtered, value);
    return GANTRY_OK;
}

static gantry_launch_result upload(gantry_launch *launch, void *arg)
{
    struct scene *s = arg;
    return gantry_launch_copy_htod(launch, s->device, s->in, WORDS * 4) == GANTRY_OK ? GANTRY_LAUNCH_DONE
                                                                                     : GANTRY_LAUNCH_FAILED;
}

static gantry_launch_result download(gantry_launch *launch, void *arg)
{
    struct scene *s = arg;
    return gantry_launch_copy_dtoh(launch, s->out, s->device, WORDS * 4) == GANTRY_OK ? GANTRY_LAUNCH_DONE
                                                                                      : GANTRY_LAUNCH_FAILED;
}

static void build(struct scene *s)
{
    assert_ok(gantry_exchange_tasks(s->exchange, s->gpu.manager, &s->acquire, &s->release));
    s->work = gpu_fixture_gpu(&s->gpu, GANTRY_TASK_HTOD, "upload", upload, s);
    gantry_task *down = gpu_fixture_gpu(&s->gpu, GANTRY_TASK_DTOH, "download", download, s);
    gpu_fixture_after(s->work, s->acquire);
    gpu_fixture_after(down, s->work);
    gpu_fixture_after(s->release, down);
}

static void open_with(struct scene *s, uint64_t timeout_ns, uint32_t workers, gantry_submission submission)
{
    memset(s, 0, sizeof(*s));
    pthread_mutex_init(&s->drawn.lock, NULL);
    pthread_mutex_init(&s->filtered.lock, NULL);
    pthread_cond_init(&s->drawn.changed, NULL);
    pthread_cond_init(&s->filtered.changed, NULL);
    gantry_context_options context = GANTRY_CONTEXT_OPTIONS_INIT;
    context.driver = gpu_fixture_driver();
    context.submission = submission;
    gpu_fixture_open_with(&s->gpu, workers, &context);
    gantry_heap *heap = gantry_context_heap(s->gpu.context);
    gantry_alloc_site site = GANTRY_ALLOC_SITE("frame");
    assert_ok(gantry_heap_alloc(heap, GANTRY_MEMORY_PINNED, WORDS * 4, 0, site, (void **)&s->in));
    assert_ok(gantry_heap_alloc(heap, GANTRY_MEMORY_PINNED, WORDS * 4, 0, site, (void **)&s->out));
    assert_ok(gantry_heap_alloc(heap, GANTRY_MEMORY_DEVICE, WORDS * 4, 0, site, &s->device));
    gantry_exchange_options options = GANTRY_EXCHANGE_OPTIONS_INIT;
    options.wait = wait_drawn;
    options.signal = signal_filtered;
    options.user = s;
    options.timeout_ns = timeout_ns;
    options.label = "frame";
    assert_ok(gantry_exchange_create(s->gpu.context, &options, &s->exchange));
}

static void close_scene(struct scene *s)
{
    gantry_heap *heap = gantry_context_heap(s->gpu.context);
    gantry_exchange_destroy(s->exchange);
    assert_ok(gantry_context_synchronize(s->gpu.context));
    assert_ok(gantry_heap_free(heap, s->in));
    assert_ok(gantry_heap_free(heap, s->out));
    assert_ok(gantry_heap_free(heap, s->device));
    gpu_fixture_close(&s->gpu);
}

/* Draw frame after frame, each as soon as the one before was filtered. */
static void *render(void *arg)
{
    struct scene *s = arg;
    for (uint32_t frame = 1; frame <= FRAMES; frame++) {
        if (frame % 3 == 0) {
            usleep(300); /* the step waits for us */
        }
        for (uint32_t i = 0; i < WORDS; i++) {
            s->in[i] = frame * 7919 + i;
        }
        memset(s->out, 0, WORDS * 4);
        set_value(&s->drawn, frame);
        if (wait_for(&s->filtered, frame, 20000 * MS) != GANTRY_OK) {
            s->wrong++;
            return NULL;
        }
        for (uint32_t i = 0; i < WORDS; i++) {
            s->wrong += s->out[i] != frame * 7919 + i;
        }
    }
    return NULL;
}

static void run_frames(uint32_t workers, gantry_submission submission, bool frozen)
{
    struct scene s;
    open_with(&s, 20000 * MS, workers, submission);
    pthread_t renderer;
    assert_int_equal(pthread_create(&renderer, NULL, render, &s), 0);
    for (uint32_t frame = 1; frame <= FRAMES; frame++) {
        if (frame == 1 || !frozen) {
            build(&s);
        }
        if (frame == 1 && frozen) {
            assert_ok(gantry_taskman_freeze(s.gpu.manager));
        }
        assert_ok(gantry_exchange_next(s.exchange, frame, frame));
        assert_ok(gantry_taskman_start(s.gpu.manager));
        assert_ok(gantry_taskman_stop(s.gpu.manager));
        if (!frozen) {
            assert_ok(gantry_taskman_reset(s.gpu.manager));
        }
    }
    pthread_join(renderer, NULL);
    assert_int_equal(s.wrong, 0);
    gantry_exchange_stats stats = {.struct_size = sizeof(stats)};
    assert_ok(gantry_exchange_get_stats(s.exchange, &stats));
    assert_int_equal(stats.steps, FRAMES);
    assert_int_equal(stats.signalled, FRAMES);
    assert_true(stats.at_once <= FRAMES);
    assert_false(gantry_exchange_is_lost(s.exchange));
    close_scene(&s);
}

static void test_frames_go_back_and_forth(void **state)
{
    (void)state;
    run_frames(2, GANTRY_SUBMISSION_STREAMS, false);
    run_frames(2, GANTRY_SUBMISSION_STREAMS, true);
    run_frames(2, GANTRY_SUBMISSION_GRAPHS, false);
    run_frames(0, GANTRY_SUBMISSION_GRAPHS, true);
}

/* Nobody draws: the step ends, names both values, and signals nothing. */
static void wait_in_vain(uint64_t late_ns)
{
    struct scene s;
    open_with(&s, 30 * MS, 2, GANTRY_SUBMISSION_STREAMS);
    s.late_ns = late_ns;
    build(&s);
    assert_ok(gantry_exchange_next(s.exchange, 5, 6));
    uint64_t since = gy_clock_ns();
    assert_ok(gantry_taskman_start(s.gpu.manager));
    assert_int_equal(gantry_taskman_stop(s.gpu.manager), GANTRY_ERR_TIMED_OUT);
    assert_true(gy_clock_ns() - since >= 30 * MS);
    assert_non_null(strstr(gantry_last_error(), "frame"));
    assert_non_null(strstr(gantry_last_error(), "value 5"));
    assert_non_null(strstr(gantry_last_error(), "value 6"));
    assert_int_equal(gantry_task_result(s.acquire), GANTRY_ERR_TIMED_OUT);
    assert_int_equal(gantry_task_result(s.work), GANTRY_ERR_TASK_FAILED);
    assert_int_equal(gantry_task_get_state(s.release), GANTRY_TASK_STATE_FAILED);
    assert_int_equal(s.filtered.value, 0);
    assert_true(gantry_exchange_is_lost(s.exchange));
    assert_int_equal(gantry_exchange_next(s.exchange, 7, 8), GANTRY_ERR_STATE);
    assert_non_null(strstr(gantry_last_error(), "value 5"));
    close_scene(&s);
}

static void test_a_renderer_that_does_not_come_fails_the_step(void **state)
{
    (void)state;
    wait_in_vain(0);
    wait_in_vain(40 * MS); /* the wait function returns from its first slice when the time is over */
}

static void test_a_recording_says_what_was_waited_for(void **state)
{
    (void)state;
    struct scene s;
    char path[64];
    snprintf(path, sizeof(path), "exchange-%d.pftrace", (int)getpid());
    open_with(&s, 5 * MS, 2, GANTRY_SUBMISSION_STREAMS);
    build(&s);
    gantry_profile_options options = GANTRY_PROFILE_OPTIONS_INIT;
    gantry_profile *profile;
    options.path = path;
    assert_ok(gantry_profile_start(&options, &profile));
    assert_ok(gantry_exchange_next(s.exchange, 1, 1));
    assert_ok(gantry_taskman_start(s.gpu.manager));
    assert_int_equal(gantry_taskman_stop(s.gpu.manager), GANTRY_ERR_TIMED_OUT);
    assert_ok(gantry_profile_stop(profile, NULL));
    assert_true(file_has(path, "waits for frame"));
    assert_int_equal(unlink(path), 0);
    close_scene(&s);
}

static void test_a_wait_that_fails_loses_the_exchange(void **state)
{
    (void)state;
    struct scene s;
    open_with(&s, 1000 * MS, 2, GANTRY_SUBMISSION_STREAMS);
    build(&s);
    s.answer = GANTRY_ERR_DEVICE_LOST; /* the renderer's */
    assert_ok(gantry_exchange_next(s.exchange, 1, 1));
    assert_ok(gantry_taskman_start(s.gpu.manager));
    assert_int_equal(gantry_taskman_stop(s.gpu.manager), GANTRY_ERR_DEVICE_LOST);
    assert_true(gantry_context_is_valid(s.gpu.context));
    assert_true(gantry_exchange_is_lost(s.exchange));
    close_scene(&s);
}

static void test_a_step_without_values_fails(void **state)
{
    (void)state;
    struct scene s;
    open_with(&s, 1000 * MS, 2, GANTRY_SUBMISSION_STREAMS);
    build(&s);
    assert_ok(gantry_taskman_freeze(s.gpu.manager));
    assert_ok(gantry_taskman_start(s.gpu.manager));
    assert_int_equal(gantry_taskman_stop(s.gpu.manager), GANTRY_ERR_STATE);
    assert_non_null(strstr(gantry_last_error(), "gantry_exchange_next"));
    assert_int_equal(s.filtered.value, 0);
    set_value(&s.drawn, 1); /* and the next frame, with them, is right */
    assert_ok(gantry_exchange_next(s.exchange, 1, 1));
    assert_ok(gantry_taskman_start(s.gpu.manager));
    assert_ok(gantry_taskman_stop(s.gpu.manager));
    assert_int_equal(s.filtered.value, 1);
    close_scene(&s);
}

static void test_values_rise(void **state)
{
    (void)state;
    struct scene s;
    open_with(&s, 1000 * MS, 2, GANTRY_SUBMISSION_STREAMS);
    build(&s);
    assert_ok(gantry_taskman_freeze(s.gpu.manager));
    set_value(&s.drawn, 3);
    assert_ok(gantry_exchange_next(s.exchange, 3, 3));
    /* it is not used yet */
    assert_int_equal(gantry_exchange_next(s.exchange, 4, 4), GANTRY_ERR_STATE);
    assert_ok(gantry_taskman_start(s.gpu.manager));
    assert_ok(gantry_taskman_stop(s.gpu.manager));
    assert_int_equal(gantry_exchange_next(s.exchange, 3, 4), GANTRY_ERR_INVALID_ARGUMENT);
    assert_non_null(strstr(gantry_last_error(), "not above 3"));
    assert_int_equal(gantry_exchange_next(s.exchange, 4, 3), GANTRY_ERR_INVALID_ARGUMENT);
    close_scene(&s);
}

static gantry_status wait_a_little(gantry_task *task, void *arg)
{
    (void)task;
    struct scene *s = arg;
    for (int i = 0; i < 5000 && __atomic_load_n(&s->drawn.waits, __ATOMIC_ACQUIRE) == 0; i++) {
        usleep(1000);
    }
    return gantry_taskman_cancel(s->gpu.manager);
}

/* A cancelled step ends soon, whatever the time-out is, and the exchange can be used for the next one. */
static void test_cancelling_ends_a_wait(void **state)
{
    (void)state;
    struct scene s;
    open_with(&s, 3000000 * MS, 2, GANTRY_SUBMISSION_STREAMS);
    build(&s);
    (void)gpu_fixture_cpu(&s.gpu, "cancel", wait_a_little, &s);
    assert_ok(gantry_exchange_next(s.exchange, 1, 1));
    assert_ok(gantry_taskman_start(s.gpu.manager));
    assert_int_equal(gantry_taskman_stop(s.gpu.manager), GANTRY_ERR_CANCELLED);
    assert_int_equal(s.filtered.value, 0);
    assert_ok(gantry_taskman_reset(s.gpu.manager));
    build(&s);
    set_value(&s.drawn, 2);
    assert_ok(gantry_exchange_next(s.exchange, 2, 2));
    assert_int_equal(gpu_fixture_step(&s.gpu), GANTRY_OK);
    assert_int_equal(s.filtered.value, 2);
    close_scene(&s);
}

static void *destroy_exchange(void *arg)
{
    struct scene *s = arg;
    while (__atomic_load_n(&s->drawn.waits, __ATOMIC_ACQUIRE) == 0) {
        usleep(1000);
    }
    gantry_exchange_destroy(s->exchange);
    return NULL;
}

static void test_destroying_it_ends_a_wait(void **state)
{
    (void)state;
    struct scene s;
    open_with(&s, 3000000 * MS, 2, GANTRY_SUBMISSION_STREAMS);
    build(&s);
    assert_ok(gantry_exchange_next(s.exchange, 1, 1));
    pthread_t thread;
    assert_int_equal(pthread_create(&thread, NULL, destroy_exchange, &s), 0);
    assert_ok(gantry_taskman_start(s.gpu.manager));
    assert_int_equal(gantry_taskman_stop(s.gpu.manager), GANTRY_ERR_CLOSED);
    pthread_join(thread, NULL);
    s.exchange = NULL;
    close_scene(&s);
}

/* Its tasks do not use it afterwards, and the context may be destroyed first. */
static void test_it_may_go_before_its_tasks_or_after_its_context(void **state)
{
    (void)state;
    struct scene s;
    open_with(&s, 1000 * MS, 2, GANTRY_SUBMISSION_STREAMS);
    build(&s);
    assert_ok(gantry_exchange_next(s.exchange, 1, 1));
    gantry_exchange_destroy(s.exchange);
    s.exchange = NULL;
    assert_int_equal(gpu_fixture_step(&s.gpu), GANTRY_ERR_CLOSED);
    close_scene(&s);
    open_with(&s, 1000 * MS, 2, GANTRY_SUBMISSION_STREAMS);
    gantry_exchange *late = s.exchange;
    s.exchange = NULL;
    close_scene(&s);
    assert_true(gantry_exchange_is_lost(late));
    assert_int_equal(gantry_exchange_next(late, 1, 1), GANTRY_ERR_STATE);
    gantry_exchange_destroy(late);
}

static void test_tasks_are_for_managers_that_are_being_built(void **state)
{
    (void)state;
    struct scene s;
    open_with(&s, 1000 * MS, 2, GANTRY_SUBMISSION_STREAMS);
    gantry_task *acquire, *release;
    gantry_taskman_options options = GANTRY_TASKMAN_OPTIONS_INIT;
    options.cpu_dispatcher = s.gpu.cpus;
    gantry_taskman *cpu_only;
    assert_ok(gantry_taskman_create(&options, &cpu_only));
    assert_int_equal(gantry_exchange_tasks(s.exchange, cpu_only, &acquire, &release), GANTRY_ERR_UNSUPPORTED);
    gantry_taskman_destroy(cpu_only);
    build(&s);
    assert_ok(gantry_taskman_freeze(s.gpu.manager));
    assert_int_equal(gantry_exchange_tasks(s.exchange, s.gpu.manager, &acquire, &release), GANTRY_ERR_STATE);
    close_scene(&s);
}

/* An exchange knows the streams of its context's partitions. */
static void test_partitions_stay_while_there_is_an_exchange(void **state)
{
    (void)state;
    static const gantry_partition_request requests[] = {
        {.struct_size = sizeof(requests[0]), .name = "a", .sm_count = 16},
        {.struct_size = sizeof(requests[0]), .name = "b", .sm_count = 16}};
    struct scene s;
    struct gpu_fixture other;
    gantry_partition_options plan = GANTRY_PARTITION_OPTIONS_INIT;
    plan.requests = requests;
    plan.count = 2;
    open_with(&s, MS, 1, GANTRY_SUBMISSION_AUTO);
    gpu_fixture_open(&other, 1, 0); /* its context has no exchange */
    assert_int_equal(gantry_context_set_partitions(s.gpu.context, &plan), GANTRY_ERR_STATE);
    assert_non_null(
        strstr(gantry_last_error(), "gantry_context_set_partitions: the context has exchange 'frame'"));
    assert_int_equal(gantry_partition_count(s.gpu.context), 1);
    assert_ok(gantry_context_set_partitions(other.context, &plan));
    assert_int_equal(gantry_partition_count(other.context), 3);
    gpu_fixture_close(&other);
    gantry_exchange_destroy(s.exchange);
    assert_ok(gantry_context_set_partitions(s.gpu.context, &plan));
    assert_int_equal(gantry_partition_count(s.gpu.context), 3);
    s.exchange = NULL;
    close_scene(&s);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_frames_go_back_and_forth),
        cmocka_unit_test(test_a_renderer_that_does_not_come_fails_the_step),
        cmocka_unit_test(test_a_recording_says_what_was_waited_for),
        cmocka_unit_test(test_a_wait_that_fails_loses_the_exchange),
        cmocka_unit_test(test_a_step_without_values_fails),
        cmocka_unit_test(test_values_rise),
        cmocka_unit_test(test_cancelling_ends_a_wait),
        cmocka_unit_test(test_destroying_it_ends_a_wait),
        cmocka_unit_test(test_it_may_go_before_its_tasks_or_after_its_context),
        cmocka_unit_test(test_tasks_are_for_managers_that_are_being_built),
        cmocka_unit_test(test_partitions_stay_while_there_is_an_exchange),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
