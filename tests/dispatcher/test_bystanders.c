/* SPDX-License-Identifier: MIT */
/* Threads that know nothing of a batch wait for the whole CUDA context, or record events of it, while auto
 * notes the batch or makes its graph: nothing is refused to them, and no call is made again because of them.
 */
#include "context/context.h"
#include "dispatcher/internal.h"
#include "driver/apart.h"
#include "tests/dispatcher/modes_scene.h"
#include "tests/support/cmocka_c11.h"

#include <pthread.h>
#include <string.h>

enum { JOBS = 24, STEPS = 6, ASKS = 5 /* the job during whose call the others ask */ };

/* Another thread, and another context of the library on the same device. */
static struct bystander {
    struct modes_scene *scene;
    gantry_context *other;
    CUevent event;
    CUresult synchronized, recorded, waited;
    gantry_status other_synchronized;
    uint32_t rounds;
    _Atomic(bool) is_over;
} by;

static void ask(struct bystander *b)
{
    const struct gy_context *cuda = b->scene->gpu.context->cuda;
    b->synchronized = cuda->driver->cuCtxSynchronize();
    b->recorded = cuda->driver->cuCtxRecordEvent(cuda->native, b->event);
    b->waited = cuda->driver->cuCtxWaitEvent(cuda->native, b->event);
    b->other_synchronized = gantry_context_synchronize(b->other);
    b->rounds++;
}

static bool was_served(const struct bystander *b)
{
    return b->synchronized == CUDA_SUCCESS && b->recorded == CUDA_SUCCESS && b->waited == CUDA_SUCCESS &&
           b->other_synchronized == GANTRY_OK;
}

static void *ask_once(void *arg)
{
    struct bystander *b = arg;
    if (gy_context_push(b->scene->gpu.context->cuda) == GANTRY_OK) {
        ask(b);
        (void)gy_context_pop(b->scene->gpu.context->cuda);
    }
    return NULL;
}

static void *ask_again_and_again(void *arg)
{
    struct bystander *b = arg;
    if (gy_context_push(b->scene->gpu.context->cuda) == GANTRY_OK) {
        do {
            ask(b);
        } while (was_served(b) && !atomic_load(&b->is_over));
        (void)gy_context_pop(b->scene->gpu.context->cuda);
    }
    return NULL;
}

/* The work of a job, in whose call another thread asks. */
static gantry_launch_result launch_beside(gantry_launch *launch, void *arg)
{
    const struct modes_job *job = arg;
    const gantry_launch_result result = modes_launch(launch, arg);
    pthread_t thread;
    if (job->index == ASKS) {
        assert_int_equal(pthread_create(&thread, NULL, ask_once, &by), 0);
        assert_int_equal(pthread_join(thread, NULL), 0);
    }
    return result;
}

static gantry_launch_result launch_copy(gantry_launch *launch, void *arg)
{
    struct modes_job *job = arg;
    uint32_t *words = job->scene->device;
    const bool done =
        gantry_launch_copy_dtod(launch, words + 64 + job->index, words, 4) == GANTRY_OK &&
        gantry_launch_fill(launch, words + 512 + job->index % 2 * 64, job->index, 4, 16) == GANTRY_OK;
    return done ? modes_launch(launch, arg) : GANTRY_LAUNCH_FAILED;
}

static void open_scene(struct modes_scene *s, gantry_submission submission)
{
    gantry_context_options options = modes_options();
    options.submission = submission;
    modes_open(s, &options);
    gantry_context_dispatcher(s->gpu.context)->graphs.choice.slow_ns = UINT64_MAX; /* no time decides */
    memset(&by, 0, sizeof(by));
    by.scene = s;
    assert_ok(gantry_context_create(&options, &by.other));
    assert_ok(gantry_context_acquire(s->gpu.context));
    assert_int_equal(s->gpu.context->cuda->driver->cuEventCreate(&by.event, CU_EVENT_DISABLE_TIMING),
                     CUDA_SUCCESS);
}

static void close_scene(struct modes_scene *s)
{
    assert_int_equal(s->gpu.context->cuda->driver->cuEventDestroy(by.event), CUDA_SUCCESS);
    assert_ok(gantry_context_release(s->gpu.context));
    gantry_context_destroy(by.other);
    modes_close(s);
}

/* True: the driver has what it takes.  The emulated one has, and drivers before CUDA 12.5 have not. */
static bool is_possible(const struct modes_scene *s)
{
    const bool is_there = gy_apart_is_there(s->gpu.context->cuda);
    if (!is_there) {
        assert_int_not_equal(gpu_fixture_driver(), GANTRY_DRIVER_EMULATED);
        print_message("skipped: no green context can be made\n");
    }
    return is_there;
}

/* A step of two rows of jobs, of which every `copies`-th copies. */
static void run(struct modes_scene *s, gantry_launch_fn launch, uint32_t count, uint32_t copies)
{
    struct modes_job jobs[3 * JOBS] = {{0}};
    gantry_task *latest[2] = {NULL, NULL};
    memset(s->stamps.cells, 0, (2 * 3 * JOBS + 1) * sizeof(uint32_t));
    for (uint32_t i = 0; i < count; i++) {
        jobs[i] = (struct modes_job){.scene = s, .index = i};
        gantry_task *task = gpu_fixture_gpu(&s->gpu, GANTRY_TASK_KERNEL, "job",
                                            copies != 0 && i % copies == 0 ? launch_copy : launch, &jobs[i]);
        if (latest[i % 2] != NULL) {
            gpu_fixture_after(task, latest[i % 2]);
        }
        latest[i % 2] = task;
    }
    assert_ok(gpu_fixture_step(&s->gpu));
    assert_ok(gantry_context_synchronize(s->gpu.context));
    for (uint32_t i = 0; i < count; i++) {
        assert_int_equal(jobs[i].calls, 1);
        assert_true(modes_end_of(s, i) != 0 && (i < 2 || modes_end_of(s, i - 2) < modes_begin_of(s, i)));
    }
}

static void test_a_batch_that_is_noted_hinders_nobody(void **state)
{
    (void)state;
    struct modes_scene s;
    open_scene(&s, GANTRY_SUBMISSION_AUTO);
    for (uint32_t step = 0; step < STEPS && is_possible(&s); step++) {
        const uint64_t graphs = gpu_fixture_stats(&s.gpu).graph_launches;
        run(&s, launch_beside, JOBS, 0);
        assert_int_equal(by.rounds, step + 1);
        assert_true(was_served(&by));
        assert_int_equal(gpu_fixture_stats(&s.gpu).graph_launches - graphs, step == 0 ? 0 : 1);
    }
    close_scene(&s);
}

/* Graphs are made, of kernels, copies and fills, while others ask. */
static void test_graphs_that_are_made_hinder_nobody(void **state)
{
    (void)state;
    struct modes_scene s;
    pthread_t thread;
    open_scene(&s, GANTRY_SUBMISSION_AUTO);
    if (is_possible(&s)) {
        assert_int_equal(pthread_create(&thread, NULL, ask_again_and_again, &by), 0);
        for (uint32_t step = 0; step < 20 * STEPS; step++) {
            run(&s, modes_launch, JOBS + step % 12 * 4, 2 + step % 3);
        }
        atomic_store(&by.is_over, true);
        assert_int_equal(pthread_join(thread, NULL), 0);
        assert_true(was_served(&by) && by.rounds != 0);
        assert_true(gpu_fixture_stats(&s.gpu).graph_launches >= STEPS);
        assert_int_equal(gpu_fixture_stats(&s.gpu).tasks_failed, 0);
    }
    close_scene(&s);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_a_batch_that_is_noted_hinders_nobody),
        cmocka_unit_test(test_graphs_that_are_made_hinder_nobody),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
