/* SPDX-License-Identifier: MIT */
/* What a change of partitions meets: recordings that end, threads that wait or read the statistics, the maker
 * of graphs, what AUTO has learnt, and memory that was freed on streams. */
#include "context/context.h"
#include "dispatcher/internal.h"
#include "profile/session.h"
#include "tests/partition/replan_scene.h"
#include "tests/support/cmocka_c11.h"
#include "tests/support/deadline.h"

#include <pthread.h>
#include <stdatomic.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

#define PLAN_A "critical16 bulk24 *other"
#define PLAN_B "bulk32 *other critical8"

static char path[64];

/* Fewer where everything takes long. */
static uint32_t light(uint32_t runs)
{
    return getenv("GANTRY_TEST_LIGHT") != NULL ? runs / 4 : runs;
}

/* Jobs in the partitions that both plans have, each after the one before. */
static void run_row(struct replan_scene *s)
{
    replan_submit_row(s);
    assert_ok(gpu_fixture_step(&s->gpu));
}

/* Forty jobs beside each other: a graph that the maker makes, whatever the plan. */
static void run_wide(struct replan_scene *s)
{
    s->count = 0;
    for (uint32_t i = 0; i < 40; i++) {
        (void)replan_submit(s, "", NULL);
    }
    assert_ok(gpu_fixture_step(&s->gpu));
    assert_ok(gantry_context_synchronize(s->gpu.context));
}

static void change(struct replan_scene *s, uint32_t i)
{
    assert_ok(replan_to(s, i % 2 == 0 ? PLAN_B : PLAN_A));
}

static void nap_ms(long ms)
{
    (void)nanosleep(&(struct timespec){0, ms * 1000000}, NULL);
}

/* ---- the maker, AUTO ------------------------------------------------------------------------------- */

static void test_the_maker_uploads_in_the_new_home(void **state)
{
    (void)state;
    static const char *const plans[] = {PLAN_A, PLAN_B, NULL, PLAN_B};
    struct replan_scene s;
    replan_open(&s, NULL, GANTRY_SUBMISSION_GRAPHS);
    gpu_fixture_use_threads_only(&s.gpu);
    const struct gy_maker *maker = &s.gpu.context->dispatcher->graphs.kept.maker;
    s.is_brief = true;
    for (size_t i = 0; i < sizeof(plans) / sizeof(plans[0]); i++) {
        gantry_partition *home;
        const uint64_t uploaded = atomic_load(&maker->uploaded);
        run_wide(&s);
        assert_true(atomic_load(&maker->uploaded) > uploaded);
        assert_ok(gantry_partition_of_stream(s.gpu.context, maker->uploads, &home));
        assert_ptr_equal(home,
                         i == 0 || plans[i - 1] == NULL ? NULL : gantry_partition_default(s.gpu.context));
        assert_ok(replan_to(&s, plans[i]));
        assert_int_equal(gy_maker_state(maker), GY_MAKER_IDLE);
        assert_null(maker->uploads);
    }
    run_wide(&s);
    replan_close(&s);
}

/* The graphs of before are gone, so what came of them says nothing. */
static void test_auto_learns_anew(void **state)
{
    (void)state;
    struct replan_scene s;
    replan_open(&s, PLAN_A, GANTRY_SUBMISSION_AUTO);
    struct gy_choice *choice = &s.gpu.context->dispatcher->graphs.choice;
    const struct gy_choice fresh = {.slow_ns = UINT64_MAX}; /* no time decides */
    choice->slow_ns = UINT64_MAX;
    s.is_brief = true;
    for (uint32_t i = 0; i < 4; i++) {
        const uint64_t graphs = gpu_fixture_stats(&s.gpu).graph_launches;
        for (uint32_t n = 0; n < 4; n++) {
            run_wide(&s);
        }
        const bool meets = i == 0; /* the first step of all, which goes to streams */
        assert_true(gpu_fixture_stats(&s.gpu).graph_launches >= graphs + 4 - meets);
        assert_memory_not_equal(choice, &fresh, sizeof(fresh));
        change(&s, i);
        assert_memory_equal(choice, &fresh, sizeof(fresh));
    }
    replan_close(&s);
}

/* ---- threads that look meanwhile --------------------------------------------------------------------- */

struct looker {
    struct replan_scene *scene;
    _Atomic(bool) ends;
    uint64_t looks;
    uint64_t steps_back; /* counts that were less than before */
};

static void *read_statistics(void *arg)
{
    struct looker *l = arg;
    gantry_dispatcher_stats before = gpu_fixture_stats(&l->scene->gpu);
    while (!atomic_load(&l->ends)) {
        gantry_dispatcher_stats now = gpu_fixture_stats(&l->scene->gpu);
        l->steps_back += now.completion_looks < before.completion_looks ||
                         now.completion_awaited < before.completion_awaited ||
                         now.completion_naps < before.completion_naps || now.tasks < before.tasks;
        before = now;
        l->looks++;
        (void)sched_yield();
    }
    return NULL;
}

/* A GPU task of about a millisecond, and a CPU task that waits for its end. */
struct pair {
    struct replan_scene *scene;
    gantry_task *task;
    uint32_t ran;
};

static gantry_launch_result launch_long(gantry_launch *launch, void *arg)
{
    struct pair *pair = arg;
    void *seen = pair->scene->device;
    uint32_t words = REPLAN_WORDS;
    uint64_t ns = 1000000;
    void *args[] = {&seen, &words, &ns};
    const gantry_dim3 grid = {1, 1, 1}, block = {32, 1, 1};
    return gantry_launch_kernel(launch, pair->scene->audit, grid, block, 0, args) == GANTRY_OK &&
                   gantry_launch_add_completion(launch, pair->task) == GANTRY_OK
               ? GANTRY_LAUNCH_DONE
               : GANTRY_LAUNCH_FAILED;
}

static gantry_status note_run(gantry_task *task, void *arg)
{
    (void)task;
    ((struct pair *)arg)->ran++;
    return GANTRY_OK;
}

static void submit_pair(struct pair *pair)
{
    pair->task = gpu_fixture_cpu(&pair->scene->gpu, "after the GPU", note_run, pair);
    gpu_fixture_after(pair->task,
                      gpu_fixture_gpu(&pair->scene->gpu, GANTRY_TASK_KERNEL, "long", launch_long, pair));
}

static void test_counts_go_on(void **state)
{
    (void)state;
    struct replan_scene s;
    struct looker looker = {.scene = &s};
    struct pair pair = {.scene = &s};
    pthread_t thread;
    const uint32_t rounds = light(40);
    replan_open(&s, PLAN_A, GANTRY_SUBMISSION_STREAMS);
    assert_int_equal(pthread_create(&thread, NULL, read_statistics, &looker), 0);
    for (uint32_t i = 0; i < rounds; i++) {
        submit_pair(&pair);
        assert_ok(gpu_fixture_step(&s.gpu));
        change(&s, i);
    }
    atomic_store(&looker.ends, true);
    assert_int_equal(pthread_join(thread, NULL), 0);
    assert_true(looker.looks > 0);
    assert_int_equal(looker.steps_back, 0);
    assert_int_equal(pair.ran, rounds);
    assert_true(gpu_fixture_stats(&s.gpu).completion_awaited >= rounds); /* of all rings that there were */
    replan_close(&s);
}

/* It waits for whatever step runs, and may look when to expect its end while that is over for all others. */
static void *wait_all_the_time(void *arg)
{
    struct looker *l = arg;
    while (!atomic_load(&l->ends)) {
        gantry_status status = gantry_taskman_wait(l->scene->gpu.manager);
        l->looks += status == GANTRY_OK;
        l->steps_back += status != GANTRY_OK && status != GANTRY_ERR_STATE;
        (void)sched_yield();
    }
    return NULL;
}

static void test_a_thread_that_waits_looks_for_no_old_end(void **state)
{
    (void)state;
    static const gantry_wait_mode waits[] = {GANTRY_WAIT_HYBRID, GANTRY_WAIT_ADAPTIVE, GANTRY_WAIT_BLOCK};
    for (size_t w = 0; w < sizeof(waits) / sizeof(waits[0]); w++) {
        struct replan_scene s;
        struct looker looker = {.scene = &s};
        struct pair pair = {.scene = &s};
        pthread_t thread;
        gantry_context_options options = GANTRY_CONTEXT_OPTIONS_INIT;
        const uint32_t rounds = light(40);
        options.completion_wait = waits[w];
        replan_open_with(&s, PLAN_A, &options);
        assert_int_equal(pthread_create(&thread, NULL, wait_all_the_time, &looker), 0);
        for (uint32_t i = 0; i < rounds; i++) {
            submit_pair(&pair);
            assert_ok(gantry_taskman_start(s.gpu.manager));
            assert_ok(gantry_taskman_stop(s.gpu.manager));
            change(&s, i);
            assert_ok(gantry_taskman_reset(s.gpu.manager));
        }
        atomic_store(&looker.ends, true);
        assert_int_equal(pthread_join(thread, NULL), 0);
        assert_int_equal(looker.steps_back, 0);
        assert_int_equal(pair.ran, rounds);
        replan_close(&s);
    }
}

/* ---- recordings that end ------------------------------------------------------------------------------- */

static gantry_profile *record(void)
{
    gantry_profile *profile;
    gantry_profile_options options = GANTRY_PROFILE_OPTIONS_INIT;
    options.path = path;
    assert_ok(gantry_profile_start(&options, &profile));
    return profile;
}

struct ending {
    gantry_profile *profile;
    gantry_profile_stats stats;
    gantry_status status;
};

static void *stop_recording(void *arg)
{
    struct ending *e = arg;
    e->stats = (gantry_profile_stats){.struct_size = sizeof(e->stats)};
    e->status = gantry_profile_stop(e->profile, &e->stats);
    return NULL;
}

struct changing {
    struct replan_scene *scene;
    uint32_t number;
    gantry_status status;
};

static void *change_once(void *arg)
{
    struct changing *c = arg;
    c->status = replan_to(c->scene, c->number % 2 == 0 ? PLAN_B : PLAN_A);
    return NULL;
}

/* Both wait for the same work: the recording for the ends of its tasks, the change for the streams. Whichever
 * comes first, the tasks are recorded. */
static void test_a_recording_ends_while_the_plan_changes(void **state)
{
    (void)state;
    struct gantry_emu_control emu;
    const bool is_emulated = gpu_fixture_controls(&emu);
    const gantry_submission ways[] = {GANTRY_SUBMISSION_STREAMS, GANTRY_SUBMISSION_GRAPHS};
    for (uint32_t i = 0; i < light(16); i++) {
        struct replan_scene s;
        pthread_t stopping, replanning;
        replan_open(&s, PLAN_A, ways[i / 2 % 2]);
        struct ending ending = {.profile = record()};
        struct changing changing = {.scene = &s};
        s.is_brief = true;
        run_row(&s);
        if (is_emulated) {
            emu.hold();
        }
        run_row(&s);
        if (i % 2 == 0) {
            assert_int_equal(pthread_create(&stopping, NULL, stop_recording, &ending), 0);
            nap_ms(2);
            assert_int_equal(pthread_create(&replanning, NULL, change_once, &changing), 0);
        } else {
            assert_int_equal(pthread_create(&replanning, NULL, change_once, &changing), 0);
            nap_ms(2);
            assert_int_equal(pthread_create(&stopping, NULL, stop_recording, &ending), 0);
        }
        nap_ms(2);
        if (is_emulated) {
            emu.release();
        }
        assert_int_equal(pthread_join(stopping, NULL), 0);
        assert_int_equal(pthread_join(replanning, NULL), 0);
        assert_ok(ending.status);
        assert_ok(changing.status);
        assert_int_equal(ending.stats.lost, 0);
        assert_int_equal(ending.stats.ctas_lost, 0);
        assert_true(ending.stats.spans >= 16);
        run_row(&s);
        replan_close(&s);
    }
}

static void *record_all_the_time(void *arg)
{
    struct looker *l = arg;
    while (!atomic_load(&l->ends)) {
        struct ending ending = {.profile = record()};
        (void)stop_recording(&ending);
        l->looks++;
        l->steps_back += ending.status != GANTRY_OK || ending.stats.lost != 0 || ending.stats.ctas_lost != 0;
    }
    return NULL;
}

static void test_recordings_begin_and_end_at_any_time(void **state)
{
    (void)state;
    struct replan_scene s;
    struct looker looker = {.scene = &s};
    pthread_t thread;
    replan_open(&s, PLAN_A, GANTRY_SUBMISSION_GRAPHS);
    s.is_brief = true;
    assert_int_equal(pthread_create(&thread, NULL, record_all_the_time, &looker), 0);
    for (uint32_t i = 0; i < light(80); i++) {
        run_row(&s);
        change(&s, i);
    }
    atomic_store(&looker.ends, true);
    assert_int_equal(pthread_join(thread, NULL), 0);
    assert_true(looker.looks > 0);
    assert_int_equal(looker.steps_back, 0);
    replan_close(&s);
}

/* ---- memory that was freed on streams --------------------------------------------------------------------
 */

struct scratch {
    struct replan_scene *scene;
    uint32_t calls;
};

/* Enough to make the thread's lap that of the stream. */
static gantry_launch_result use_scratch(gantry_launch *launch, void *arg)
{
    struct scratch *scratch = arg;
    gantry_heap *heap = gantry_context_heap(scratch->scene->gpu.context);
    void *stream = gantry_launch_stream(launch);
    bool good = true;
    scratch->calls++;
    for (uint32_t i = 0; i < 24 && good; i++) {
        void *block = NULL;
        good = gantry_heap_alloc_on(heap, GANTRY_MEMORY_DEVICE, 300000, 0, stream,
                                    GANTRY_ALLOC_SITE("scratch"), &block) == GANTRY_OK &&
               gantry_launch_fill(launch, block, i, 4, 1024) == GANTRY_OK &&
               gantry_heap_free_on(heap, block, stream) == GANTRY_OK;
    }
    return good ? GANTRY_LAUNCH_DONE : GANTRY_LAUNCH_FAILED;
}

static void test_laps_of_old_streams_are_given_back(void **state)
{
    (void)state;
    struct replan_scene s;
    struct scratch scratch = {.scene = &s};
    gantry_heap_stats stats = {.struct_size = sizeof(stats)};
    uint64_t slabs = 0;
    const uint32_t rounds = light(40);
    replan_open(&s, PLAN_A, GANTRY_SUBMISSION_STREAMS);
    gpu_fixture_use_threads_only(&s.gpu);
    gantry_heap *heap = gantry_context_heap(s.gpu.context);
    for (uint32_t i = 0; i < rounds; i++) {
        (void)gpu_fixture_gpu(&s.gpu, GANTRY_TASK_KERNEL, "scratch", use_scratch, &scratch);
        assert_ok(gpu_fixture_step(&s.gpu));
        assert_ok(gantry_heap_get_stats(heap, GANTRY_MEMORY_DEVICE, &stats));
        slabs = i == 0 ? stats.slab_bytes : slabs;
        assert_true(stats.slab_bytes <= slabs); /* the next plan's streams use the same memory */
        change(&s, i);
        assert_ok(gantry_heap_get_stats(heap, GANTRY_MEMORY_DEVICE, &stats));
        assert_int_equal(stats.waiting_bytes, 0);
    }
    assert_int_equal(scratch.calls, rounds);
    replan_close(&s);
}

int main(void)
{
    setenv("GANTRY_CHECK", "handles", 1);
    (void)snprintf(path, sizeof(path), "/tmp/gantry-meets-%d.pftrace", (int)getpid());
    gy_profile_set_patience(UINT64_C(60000000000)); /* longer than a test may take */
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_the_maker_uploads_in_the_new_home),
        cmocka_unit_test(test_auto_learns_anew),
        cmocka_unit_test(test_counts_go_on),
        cmocka_unit_test(test_a_thread_that_waits_looks_for_no_old_end),
        cmocka_unit_test(test_a_recording_ends_while_the_plan_changes),
        cmocka_unit_test(test_recordings_begin_and_end_at_any_time),
        cmocka_unit_test(test_laps_of_old_streams_are_given_back),
    };
    const int failed = cmocka_run_group_tests(tests, NULL, NULL);
    (void)unlink(path);
    return failed;
}
