/* Launch callbacks that several threads call at once: that they do, that everything a callback may do stays
 * right, and that tasks end in order with their own causes. */
#include "dispatcher/internal.h"
#include "tests/dispatcher/modes_scene.h"
#include "tests/support/cmocka_c11.h"

#include <sched.h>
#include <stdatomic.h>
#include <string.h>

#define TASKS 8u
#define BYTES 4096u

struct group;

struct member {
    struct group *group;
    uint32_t index;
    gantry_task *task;
    gantry_task *completes; /* NULL: none */
    _Atomic(uint32_t) returned;
    void *block;
};

/* A task, and behind it TASKS tasks that are ready at once. */
struct group {
    struct modes_scene scene;
    struct member members[TASKS];
    struct modes_job stamps[2 * TASKS + 1];
    _Atomic(uint32_t) entered, clock, ran;
    uint32_t before_point;         /* bit i: member i had returned before the sync point was asked for */
    _Atomic(uint32_t) after_point; /* bit i: member i began after it was there */
    _Atomic(bool) point_is_there;
    uint32_t asks; /* the member that asks for the sync point */
    uint32_t failed_order[TASKS], failed_count;
};

static void open_group(struct group *g, uint32_t launch_threads, gantry_wait_mode wait)
{
    memset(g, 0, sizeof(*g));
    gantry_context_options options = modes_options();
    options.launch_threads = launch_threads;
    options.submission = GANTRY_SUBMISSION_STREAMS; /* launchers are for streams */
    options.completion_wait = wait;
    modes_open(&g->scene, &options);
    for (uint32_t i = 0; i < TASKS; i++) {
        g->members[i].group = g;
        g->members[i].index = i;
    }
}

static gantry_launch_result launch_nothing(gantry_launch *launch, void *arg)
{
    (void)launch;
    (void)arg;
    return GANTRY_LAUNCH_DONE;
}

/* The tasks of the group follow one task, so they become ready together. */
static void build_group(struct group *g, gantry_launch_fn launch)
{
    gantry_task *first = gpu_fixture_gpu(&g->scene.gpu, GANTRY_TASK_KERNEL, "first", launch_nothing, NULL);
    for (uint32_t i = 0; i < TASKS; i++) {
        struct member *m = &g->members[i];
        m->task = gpu_fixture_gpu(&g->scene.gpu, GANTRY_TASK_KERNEL, "member", launch, m);
        m->completes = NULL;
        gpu_fixture_after(m->task, first);
    }
}

/* ---- at once ------------------------------------------------------------------------------- */

static gantry_launch_result launch_together(gantry_launch *launch, void *arg)
{
    (void)launch;
    struct member *m = arg;
    atomic_fetch_add(&m->group->entered, 1);
    while (atomic_load(&m->group->entered) < 2) {
        sched_yield();
    }
    return GANTRY_LAUNCH_DONE;
}

/* This would not end if one thread called them all. */
static void test_callbacks_run_at_once(void **state)
{
    (void)state;
    static const gantry_wait_mode modes[] = {GANTRY_WAIT_DEFAULT, GANTRY_WAIT_BLOCK, GANTRY_WAIT_YIELD,
                                             GANTRY_WAIT_SPIN, GANTRY_WAIT_ADAPTIVE};
    static struct group g;
    for (size_t i = 0; i < sizeof(modes) / sizeof(modes[0]); i++) {
        open_group(&g, 2, modes[i]);
        for (int step = 0; step < 3; step++) {
            atomic_store(&g.entered, 0);
            build_group(&g, launch_together);
            assert_ok(gpu_fixture_step(&g.scene.gpu));
            assert_int_equal(atomic_load(&g.entered), TASKS);
        }
        gantry_dispatcher_stats stats = gpu_fixture_stats(&g.scene.gpu);
        assert_int_equal(stats.tasks, 3 * (TASKS + 1));
        assert_int_equal(stats.launch_calls, 3 * (TASKS + 1));
        assert_int_equal(stats.phase_tasks[1], 3 * (TASKS + 1));
        modes_close(&g.scene);
    }
}

/* ---- failures ------------------------------------------------------------------------------ */

static gantry_launch_result launch_failing(gantry_launch *launch, void *arg)
{
    struct member *m = arg;
    void *device = m->group->scene.device;
    gantry_status status = GANTRY_OK;
    if (m->index == 2) {
        status = gantry_launch_fill(launch, device, 0, 3, 1);
    } else if (m->index == 3) {
        status = gantry_launch_copy_htod(launch, NULL, NULL, 1);
    } else if (m->index == 6) {
        return (gantry_launch_result)77;
    } else {
        status = gantry_launch_fill(launch, (char *)device + m->index * 64, m->index, 4, 16);
    }
    return status == GANTRY_OK ? GANTRY_LAUNCH_DONE : GANTRY_LAUNCH_FAILED;
}

static struct gantry_emu_control emu;

static gantry_launch_result launch_before_failure(gantry_launch *launch, void *arg)
{
    const struct member *m = arg;
    if (m->index == 0) { /* its end is recorded, because two tasks come after it */
        (void)(emu.fail)("cuEventRecord", 1, CUDA_ERROR_INVALID_VALUE, GANTRY_EMU_ONCE);
    }
    return launch_together(launch, arg);
}

/* A failure at the end of a task, on the dispatcher's thread, names that task. */
static void test_what_fails_behind_a_call_names_the_task(void **state)
{
    (void)state;
    static struct group g;
    open_group(&g, 2, GANTRY_WAIT_DEFAULT);
    if (!gpu_fixture_controls(&emu)) {
        skip();
    }
    build_group(&g, launch_before_failure);
    for (int i = 0; i < 2; i++) {
        gantry_task *after = gpu_fixture_gpu(&g.scene.gpu, GANTRY_TASK_KERNEL, "after", launch_nothing, NULL);
        gpu_fixture_after(after, g.members[0].task);
    }
    assert_int_equal(gpu_fixture_step(&g.scene.gpu), GANTRY_ERR_DRIVER);
    assert_non_null(strstr(gantry_last_error(), "for task 'member'"));
    emu.clear_faults();
    modes_close(&g.scene);
}

static void note_failure(gantry_task *task, void *arg, gantry_status result)
{
    (void)task;
    struct member *m = arg;
    if (result != GANTRY_OK) {
        m->group->failed_order[m->group->failed_count++] = m->index;
    }
}

static void test_failures_come_in_order_with_their_own_cause(void **state)
{
    (void)state;
    static struct group g;
    open_group(&g, 4, GANTRY_WAIT_DEFAULT);
    for (int round = 0; round < 20; round++) {
        g.failed_count = 0;
        atomic_store(&g.ran, 0);
        gantry_task *first = gpu_fixture_gpu(&g.scene.gpu, GANTRY_TASK_KERNEL, "first", launch_nothing, NULL);
        for (uint32_t i = 0; i < TASKS; i++) {
            gantry_task_desc desc = GANTRY_TASK_DESC_INIT;
            desc.kind = GANTRY_TASK_KERNEL;
            desc.launch = launch_failing;
            desc.release = note_failure;
            desc.arg = &g.members[i];
            assert_ok(gantry_taskman_submit(g.scene.gpu.manager, &desc, &g.members[i].task));
            gpu_fixture_after(g.members[i].task, first);
            gpu_fixture_after(gpu_fixture_cpu(&g.scene.gpu, "after", modes_count_run, &g.ran),
                              g.members[i].task);
        }
        assert_int_equal(gpu_fixture_step(&g.scene.gpu), GANTRY_ERR_INVALID_ARGUMENT);
        assert_non_null(strstr(gantry_last_error(), "a pattern of 3 bytes"));
        assert_int_equal(g.failed_count, 3);
        assert_int_equal(g.failed_order[0], 2);
        assert_int_equal(g.failed_order[1], 3);
        assert_int_equal(g.failed_order[2], 6);
        assert_int_equal(atomic_load(&g.ran), TASKS - 3);
    }
    modes_close(&g.scene);
}

static gantry_launch_result launch_losing(gantry_launch *launch, void *arg)
{
    struct member *m = arg;
    if (m->index == 5) {
        gantry_dispatcher_force_failure(launch->dispatcher);
    }
    return modes_stamp(launch, &m->group->stamps[m->index]) ? GANTRY_LAUNCH_DONE : GANTRY_LAUNCH_FAILED;
}

static void test_a_lost_context_ends_the_group(void **state)
{
    (void)state;
    static struct group g;
    open_group(&g, 3, GANTRY_WAIT_DEFAULT);
    for (uint32_t i = 0; i < TASKS; i++) {
        g.stamps[i] = (struct modes_job){.scene = &g.scene, .index = i};
    }
    build_group(&g, launch_losing);
    assert_int_equal(gpu_fixture_step(&g.scene.gpu), GANTRY_ERR_DEVICE_LOST);
    assert_int_equal(gantry_taskman_start(g.scene.gpu.manager), GANTRY_ERR_DEVICE_LOST);
    assert_ok(gantry_taskman_reset(g.scene.gpu.manager));
    modes_close(&g.scene);
}

/* ---- sync points --------------------------------------------------------------------------- */

static gantry_launch_result launch_around_point(gantry_launch *launch, void *arg)
{
    struct member *m = arg;
    struct group *g = m->group;
    atomic_fetch_or(&g->after_point, (uint32_t)atomic_load(&g->point_is_there) << m->index);
    if (m->index == g->asks) {
        for (uint32_t i = 0; i < TASKS; i++) {
            g->before_point |= atomic_load(&g->members[i].returned) << i;
        }
        if (gantry_launch_request_sync_point(launch) != GANTRY_OK) {
            return GANTRY_LAUNCH_FAILED;
        }
        atomic_store(&g->point_is_there, true);
    }
    if (!modes_stamp(launch, &g->stamps[m->index])) {
        return GANTRY_LAUNCH_FAILED;
    }
    atomic_store(&m->returned, 1);
    return GANTRY_LAUNCH_DONE;
}

static gantry_launch_result launch_later(gantry_launch *launch, void *arg)
{
    const struct modes_job *job = arg;
    return modes_stamp(launch, job) && modes_complete(launch, job) ? GANTRY_LAUNCH_DONE
                                                                   : GANTRY_LAUNCH_FAILED;
}

/* Work that had been launched when a member asks for the sync point comes before the work that this member
 * launches then, before the work of members that begin later, and before the work after the group. */
static void check_point(struct group *g, uint32_t asks)
{
    g->asks = asks;
    g->before_point = 0;
    atomic_store(&g->after_point, 0);
    atomic_store(&g->point_is_there, false);
    memset(g->scene.stamps.cells, 0, 256);
    gantry_task *done = gpu_fixture_cpu(&g->scene.gpu, "done", modes_count_run, &g->ran);
    build_group(g, launch_around_point);
    for (uint32_t i = 0; i < 2 * TASKS; i++) {
        g->stamps[i] = (struct modes_job){.scene = &g->scene, .index = i, .spins = 50};
    }
    for (uint32_t i = 0; i < TASKS; i++) {
        struct modes_job *job = &g->stamps[TASKS + i];
        atomic_store(&g->members[i].returned, 0);
        job->completes = done;
        gantry_task *later = gpu_fixture_gpu(&g->scene.gpu, GANTRY_TASK_KERNEL, "later", launch_later, job);
        gpu_fixture_after(later, g->members[i].task);
        gpu_fixture_after(done, later);
    }
    assert_ok(gpu_fixture_step(&g->scene.gpu));
    for (uint32_t i = 0; i < TASKS; i++) {
        uint32_t end = modes_end_of(&g->scene, i);
        uint32_t after = g->after_point | 1u << asks | ((1u << TASKS) - 1) << TASKS;
        for (uint32_t j = 0; j < 2 * TASKS && (g->before_point >> i & 1) != 0; j++) {
            assert_true((after >> j & 1) == 0 || end < modes_begin_of(&g->scene, j));
        }
    }
}

static void test_a_sync_point_is_asked_for_alone(void **state)
{
    (void)state;
    static struct group g;
    open_group(&g, 3, GANTRY_WAIT_DEFAULT);
    for (uint32_t round = 0; round < 5 * TASKS; round++) {
        check_point(&g, round % TASKS);
    }
    modes_close(&g.scene);
}

/* Two of them are inside at once: the first one stays for a while, and the second one asks. */
static gantry_launch_result launch_beside_point(gantry_launch *launch, void *arg)
{
    struct member *m = arg;
    struct group *g = m->group;
    uint32_t place = atomic_fetch_add(&g->entered, 1);
    if (place == 1) {
        atomic_store(&m->returned, 1); /* this counts as asked */
        gantry_status status = gantry_launch_request_sync_point(launch);
        atomic_store(&g->point_is_there, true);
        return status == GANTRY_OK ? GANTRY_LAUNCH_DONE : GANTRY_LAUNCH_FAILED;
    }
    bool asked = place != 0;
    while (!asked) {
        for (uint32_t i = 0; i < TASKS; i++) {
            asked = asked || atomic_load(&g->members[i].returned) != 0;
        }
        sched_yield();
    }
    for (int i = 0; i < 1000 && place == 0; i++) {
        sched_yield();
        if (atomic_load(&g->point_is_there)) { /* while this one is inside */
            return GANTRY_LAUNCH_FAILED;
        }
    }
    return GANTRY_LAUNCH_DONE;
}

static void test_a_sync_point_waits_until_nobody_is_inside(void **state)
{
    (void)state;
    static struct group g;
    open_group(&g, 2, GANTRY_WAIT_DEFAULT);
    for (uint32_t round = 0; round < 10; round++) {
        atomic_store(&g.entered, 0);
        atomic_store(&g.point_is_there, false);
        for (uint32_t i = 0; i < TASKS; i++) {
            atomic_store(&g.members[i].returned, 0);
        }
        build_group(&g, launch_beside_point);
        assert_ok(gpu_fixture_step(&g.scene.gpu));
        assert_true(atomic_load(&g.point_is_there));
    }
    modes_close(&g.scene);
}

/* All of them ask at once: they take turns. */
static gantry_launch_result launch_point(gantry_launch *launch, void *arg)
{
    struct member *m = arg;
    return gantry_launch_request_sync_point(launch) == GANTRY_OK &&
                   modes_stamp(launch, &m->group->stamps[m->index]) &&
                   gantry_launch_request_sync_point(launch) == GANTRY_OK &&
                   gantry_launch_add_completion(launch, m->completes) == GANTRY_OK
               ? GANTRY_LAUNCH_DONE
               : GANTRY_LAUNCH_FAILED;
}

static void test_everybody_may_ask_for_a_sync_point(void **state)
{
    (void)state;
    static struct group g;
    open_group(&g, 4, GANTRY_WAIT_DEFAULT);
    for (uint32_t round = 0; round < 20; round++) {
        gantry_task *done = gpu_fixture_cpu(&g.scene.gpu, "done", modes_count_run, &g.ran);
        build_group(&g, launch_point);
        for (uint32_t i = 0; i < TASKS; i++) {
            g.stamps[i] = (struct modes_job){.scene = &g.scene, .index = i, .spins = 20};
            g.members[i].completes = done;
            gpu_fixture_after(done, g.members[i].task);
        }
        assert_ok(gpu_fixture_step(&g.scene.gpu));
        for (uint32_t i = 0; i < TASKS; i++) {
            for (uint32_t j = 0; j < TASKS; j++) { /* one after the other, in any order */
                assert_true(i == j || modes_end_of(&g.scene, i) < modes_begin_of(&g.scene, j) ||
                            modes_end_of(&g.scene, j) < modes_begin_of(&g.scene, i));
            }
        }
    }
    assert_int_equal(atomic_load(&g.ran), 20);
    modes_close(&g.scene);
}

/* ---- memory and batches of copies ---------------------------------------------------------- */

static gantry_launch_result launch_memory(gantry_launch *launch, void *arg)
{
    struct member *m = arg;
    struct group *g = m->group;
    char *to = (char *)g->scene.device + m->index * 64;
    void *block;
    if (gantry_launch_alloc(launch, GANTRY_MEMORY_DEVICE, BYTES, 0, GANTRY_ALLOC_SITE("block"), &block) !=
        GANTRY_OK) {
        return GANTRY_LAUNCH_FAILED;
    }
    uint32_t pattern = 100 + m->index;
    gantry_copy_desc fill = {
        .dest = block, .bytes = BYTES, .type = GANTRY_COPY_FILL, .pattern = pattern, .pattern_bytes = 4};
    gantry_copy_desc copy = {.dest = to, .source = block, .bytes = 64, .type = GANTRY_COPY_DTOD};
    bool good = gantry_copy_launch(launch, &fill, 1) == GANTRY_OK &&
                gantry_copy_launch(launch, &copy, 1) == GANTRY_OK &&
                gantry_free_after(block, launch) == GANTRY_OK &&
                gantry_launch_copy_dtoh(launch, &g->scene.stamps.cells[m->index * 16], to, 64) == GANTRY_OK &&
                gantry_launch_add_completion(launch, m->completes) == GANTRY_OK;
    return good ? GANTRY_LAUNCH_DONE : GANTRY_LAUNCH_FAILED;
}

static void test_memory_and_batched_copies(void **state)
{
    (void)state;
    static struct group g;
    enum { ROUNDS = 20 };
    open_group(&g, 4, GANTRY_WAIT_DEFAULT);
    for (uint32_t round = 0; round < ROUNDS; round++) {
        memset(g.scene.stamps.cells, 0, TASKS * 64);
        gantry_task *done = gpu_fixture_cpu(&g.scene.gpu, "done", modes_count_run, &g.ran);
        build_group(&g, launch_memory);
        for (uint32_t i = 0; i < TASKS; i++) {
            g.members[i].completes = done;
            gpu_fixture_after(done, g.members[i].task);
        }
        assert_ok(gpu_fixture_step(&g.scene.gpu));
        for (uint32_t i = 0; i < TASKS * 16; i++) {
            assert_int_equal(g.scene.stamps.cells[i], 100 + i / 16);
        }
    }
    gantry_dispatcher_stats stats = gpu_fixture_stats(&g.scene.gpu);
    assert_int_equal(stats.batched_copies, 2 * TASKS * ROUNDS);
    assert_int_equal(stats.kernels, 2 * TASKS * ROUNDS);
    assert_int_equal(stats.copies, TASKS * ROUNDS);
    assert_int_equal(stats.completions, TASKS * ROUNDS);
    assert_int_equal(stats.frees_deferred, TASKS * ROUNDS);
    modes_close(&g.scene);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_callbacks_run_at_once),
        cmocka_unit_test(test_what_fails_behind_a_call_names_the_task),
        cmocka_unit_test(test_failures_come_in_order_with_their_own_cause),
        cmocka_unit_test(test_a_lost_context_ends_the_group),
        cmocka_unit_test(test_a_sync_point_is_asked_for_alone),
        cmocka_unit_test(test_a_sync_point_waits_until_nobody_is_inside),
        cmocka_unit_test(test_everybody_may_ask_for_a_sync_point),
        cmocka_unit_test(test_memory_and_batched_copies),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
