/* SPDX-License-Identifier: MIT */
/* Admission: GPU tasks that declare memory start when it fits, see gantry_taskman_declare_memory(). */
#include "tests/support/cmocka_c11.h"
#include "tests/support/deadline.h"
#include "tests/support/gpu_fixture.h"

#include "base/alloc.h"
#include "tests/profile/trace_reader.h"

#include <pthread.h>
#include <stdatomic.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#define MIB ((size_t)1 << 20)
#define STAGED (24 * MIB)
#define SCRATCH (24 * MIB)
#define ROOM (64 * MIB) /* enough for one job, and nearly enough for the first half of a third */
#define JOBS 6u

/* A job copies its input to the device, computes with scratch memory, and gives both back. */
struct job {
    gantry_heap *heap;
    uint32_t number;
    size_t bytes; /* how much of each of these; 0: STAGED and SCRATCH */
    void *staged, *scratch;
    gantry_status status;    /* the first status that was not GANTRY_OK */
    _Atomic(bool) freed;     /* set by a CPU task */
    struct job *before;      /* not NULL: this task has freed its memory when we start */
    bool before_was_freed;   /* what was seen of it */
    uint32_t *order, *begun; /* the numbers of the jobs, in the order of their first launches */
};

static void keep(struct job *job, gantry_status status)
{
    job->status = job->status == GANTRY_OK ? status : job->status;
}

static gantry_launch_result note(gantry_launch *launch, void *arg)
{
    struct job *job = arg;
    (void)launch;
    if (job->order != NULL) {
        job->order[(*job->begun)++] = job->number;
    }
    return GANTRY_LAUNCH_DONE;
}

static gantry_launch_result stage(gantry_launch *launch, void *arg)
{
    struct job *job = arg;
    (void)note(launch, arg);
    if (job->before != NULL) {
        job->before_was_freed = atomic_load(&job->before->freed);
    }
    keep(job, gantry_launch_alloc(launch, GANTRY_MEMORY_DEVICE, job->bytes != 0 ? job->bytes : STAGED, 0,
                                  GANTRY_ALLOC_SITE("staged"), &job->staged));
    return job->status == GANTRY_OK ? GANTRY_LAUNCH_DONE : GANTRY_LAUNCH_FAILED;
}

static gantry_launch_result compute(gantry_launch *launch, void *arg)
{
    struct job *job = arg;
    keep(job, gantry_launch_alloc(launch, GANTRY_MEMORY_DEVICE, job->bytes != 0 ? job->bytes : SCRATCH, 0,
                                  GANTRY_ALLOC_SITE("scratch"), &job->scratch));
    if (job->status == GANTRY_OK) {
        keep(job, gantry_launch_fill(launch, job->scratch, job->number, 1, MIB));
    }
    return job->status == GANTRY_OK ? GANTRY_LAUNCH_DONE : GANTRY_LAUNCH_FAILED;
}

static gantry_launch_result give_back(gantry_launch *launch, void *arg)
{
    struct job *job = arg;
    keep(job, gantry_free_after(job->staged, launch));
    keep(job, gantry_free_after(job->scratch, launch));
    job->staged = job->scratch = NULL;
    return GANTRY_LAUNCH_DONE;
}

static gantry_launch_result nothing(gantry_launch *launch, void *arg)
{
    (void)launch;
    (void)arg;
    return GANTRY_LAUNCH_DONE;
}

static gantry_task *submit(struct gpu_fixture *f, gantry_task_kind kind, gantry_launch_fn launch, void *arg,
                           uint32_t memory)
{
    gantry_task_desc desc = GANTRY_TASK_DESC_INIT;
    desc.kind = kind;
    desc.launch = launch;
    desc.arg = arg;
    desc.memory = memory;
    gantry_task *task;
    assert_ok(gantry_taskman_submit(f->manager, &desc, &task));
    return task;
}

/* Submit three tasks, of which the last gives the memory back; returns that one. */
static gantry_task *add_job(struct gpu_fixture *f, struct job *job, uint32_t memory)
{
    gantry_task *first = submit(f, GANTRY_TASK_HTOD, stage, job, memory);
    gantry_task *second = submit(f, GANTRY_TASK_KERNEL, compute, job, memory);
    gantry_task *third = submit(f, GANTRY_TASK_DTOH, give_back, job, memory);
    gpu_fixture_after(second, first);
    gpu_fixture_after(third, second);
    return third;
}

/* Leave ROOM for device memory besides the library's own. */
static void limit(struct gpu_fixture *f)
{
    gantry_heap *heap = gantry_context_heap(f->context);
    gantry_heap_stats stats = {.struct_size = sizeof(stats)};
    assert_ok(gantry_heap_get_stats(heap, GANTRY_MEMORY_DEVICE, &stats));
    gantry_heap_settings settings = {
        .struct_size = sizeof(settings), .slab_bytes = 2 * MIB, .limit_bytes = stats.slab_bytes + ROOM};
    assert_ok(gantry_heap_configure(heap, GANTRY_MEMORY_DEVICE, &settings));
}

/* The memory that a job holds comes back when the GPU has passed its work, which a step does not wait for. */
static gantry_dispatcher_stats settled(struct gpu_fixture *f)
{
    deadline_await(gpu_fixture_stats(f).memory_held_bytes[GANTRY_MEMORY_DEVICE] == 0,
                   "declared memory to come back when the GPU has passed");
    gantry_dispatcher_stats stats = gpu_fixture_stats(f);
    assert_int_equal(stats.memory_tasks_waiting, 0);
    return stats;
}

static int open_fixture(void **state)
{
    static struct gpu_fixture fixture;
    gpu_fixture_open(&fixture, 2, 0);
    limit(&fixture);
    *state = &fixture;
    return 0;
}

static int close_fixture(void **state)
{
    gpu_fixture_close(*state);
    return 0;
}

/* ---- what it is for ---- */

/* The dispatcher runs all copies to the device before the kernels: the memory of all copies leaves no room
 * for the first kernel's, unless the jobs have declared it.  Both jobs are there when the batch begins. */
static gantry_status run_both_at_once(struct gpu_fixture *f, struct job jobs[2], bool is_declared)
{
    gantry_dispatcher *dispatcher = gantry_context_dispatcher(f->context);
    for (int i = 0; i < 2; i++) {
        jobs[i] = (struct job){.heap = gantry_context_heap(f->context)};
        add_job(f, &jobs[i], is_declared ? gpu_fixture_declare(f->manager, STAGED + SCRATCH) : 0);
    }
    gantry_dispatcher_start_group(dispatcher);
    assert_ok(gantry_taskman_start(f->manager));
    gantry_dispatcher_finish_group(dispatcher);
    return gantry_taskman_stop(f->manager);
}

static void test_with_it_both_jobs_have_what_they_need(void **state)
{
    struct gpu_fixture *f = *state;
    struct job jobs[2];
    assert_ok(run_both_at_once(f, jobs, true));
    assert_int_equal(jobs[0].status, GANTRY_OK);
    assert_int_equal(jobs[1].status, GANTRY_OK);
    assert_ok(gantry_taskman_reset(f->manager));
    assert_int_equal(settled(f).memory_waited, 1);
}

static void test_without_it_a_later_kernel_runs_out_of_memory(void **state)
{
    struct gpu_fixture *f = *state;
    struct job jobs[2];
    assert_int_not_equal(run_both_at_once(f, jobs, false), GANTRY_OK);
    assert_int_equal(jobs[0].status, GANTRY_ERR_OUT_OF_DEVICE_MEMORY);
    assert_non_null(jobs[0].staged);
    for (int i = 0; i < 2; i++) {
        assert_ok(gantry_heap_free(jobs[i].heap, jobs[i].staged));
        assert_ok(gantry_heap_free(jobs[i].heap, jobs[i].scratch));
    }
    assert_ok(gantry_taskman_reset(f->manager));
}

static void run_jobs(struct gpu_fixture *f)
{
    struct job jobs[JOBS];
    uint32_t order[JOBS], begun = 0;
    uint64_t admitted = gpu_fixture_stats(f).memory_admitted;
    for (uint32_t i = 0; i < JOBS; i++) {
        jobs[i] = (struct job){.number = i, .order = order, .begun = &begun};
        add_job(f, &jobs[i], gpu_fixture_declare(f->manager, STAGED + SCRATCH));
    }
    assert_ok(gpu_fixture_step(f));
    for (uint32_t i = 0; i < JOBS; i++) {
        assert_int_equal(jobs[i].status, GANTRY_OK);
        assert_int_equal(order[i], i);
    }
    gantry_dispatcher_stats stats = settled(f);
    assert_int_equal(stats.memory_admitted - admitted, JOBS);
    assert_int_equal(stats.memory_forced, 0);
}

static void test_declared_memory_is_waited_for(void **state)
{
    struct gpu_fixture *f = *state;
    gantry_dispatcher *dispatcher = gantry_context_dispatcher(f->context);
    run_jobs(f);
    gantry_dispatcher_stats stats = gpu_fixture_stats(f);
    assert_true(stats.memory_waited >= 1 && stats.memory_waited < JOBS);
    assert_true(stats.memory_wait_ns > 0);
    assert_ok(gantry_dispatcher_set_submission(dispatcher, GANTRY_SUBMISSION_GRAPHS));
    run_jobs(f);
    assert_ok(gantry_dispatcher_set_submission(dispatcher, GANTRY_SUBMISSION_AUTO));
    run_jobs(f);
}

/* Other blocks withhold more than their bytes: the units of slabs in which they lie.  By the bytes, two
 * jobs would fit beside eight small blocks. */
static void test_memory_is_counted_as_the_heap_takes_it(void **state)
{
    struct gpu_fixture *f = *state;
    gantry_heap *heap = gantry_context_heap(f->context);
    gantry_dispatcher *dispatcher = gantry_context_dispatcher(f->context);
    enum { SMALL = 8 };
    void *small[SMALL], *beside[SMALL];
    struct job jobs[4] = {{.bytes = 10 * MIB}, {.bytes = 10 * MIB}, {.bytes = 10 * MIB}, {.bytes = 10 * MIB}};
    gantry_heap_settings settings = {.struct_size = sizeof(settings)};
    assert_ok(gantry_heap_get_settings(heap, GANTRY_MEMORY_DEVICE, &settings));
    settings.slab_bytes = 8 * MIB;
    assert_ok(gantry_heap_configure(heap, GANTRY_MEMORY_DEVICE, &settings));
    for (int i = 0; i < SMALL; i++) {
        assert_ok(
            gantry_heap_alloc(heap, GANTRY_MEMORY_DEVICE, MIB, 0, GANTRY_ALLOC_SITE("small"), &small[i]));
        assert_ok(gantry_heap_alloc(heap, GANTRY_MEMORY_DEVICE, 7 * MIB, 0, GANTRY_ALLOC_SITE("beside"),
                                    &beside[i]));
    }
    for (int i = 0; i < SMALL; i++) {
        assert_ok(gantry_heap_free(heap, beside[i]));
    }
    for (uint32_t i = 0; i < 4; i++) {
        add_job(f, &jobs[i], gpu_fixture_declare(f->manager, 20 * MIB));
    }
    gantry_dispatcher_start_group(dispatcher);
    assert_ok(gantry_taskman_start(f->manager));
    gantry_dispatcher_finish_group(dispatcher);
    assert_ok(gantry_taskman_stop(f->manager));
    assert_int_equal(settled(f).memory_forced, 0);
    for (uint32_t i = 0; i < 4; i++) {
        assert_int_equal(jobs[i].status, GANTRY_OK);
    }
    for (int i = 0; i < SMALL; i++) {
        assert_ok(gantry_heap_free(heap, small[i]));
    }
    assert_ok(gantry_taskman_reset(f->manager));
}

/* All values that a counter of the recording has taken. */
struct counted {
    size_t count;
    uint64_t most, last;
};

static struct counted counter_of(const struct read_trace *trace, const char *name)
{
    const struct read_track *track = reader_track(trace, "gantry", name);
    struct counted counted = {.count = 0};
    assert_non_null(track);
    for (size_t i = 0; i < trace->count_count; i++) {
        if (trace->counts[i].track == track) {
            counted.count++;
            counted.last = trace->counts[i].value;
            counted.most = counted.last > counted.most ? counted.last : counted.most;
        }
    }
    return counted;
}

static void test_a_recording_shows_waiting_tasks_and_held_memory(void **state)
{
    struct gpu_fixture *f = *state;
    if (!reader_available()) {
        skip();
    }
    char path[64];
    snprintf(path, sizeof(path), "/tmp/gantry-admission-%d.pftrace", (int)getpid());
    gantry_profile_options options = GANTRY_PROFILE_OPTIONS_INIT;
    options.path = path;
    gantry_profile *profile;
    assert_ok(gantry_profile_start(&options, &profile));
    struct job jobs[2] = {{.number = 0}, {.number = 1}};
    gantry_dispatcher *dispatcher = gantry_context_dispatcher(f->context);
    add_job(f, &jobs[0], gpu_fixture_declare(f->manager, STAGED + SCRATCH - 5));
    add_job(f, &jobs[1], gpu_fixture_declare(f->manager, STAGED + SCRATCH - 5));
    gantry_dispatcher_start_group(dispatcher); /* the second job finds that the first holds its memory */
    assert_ok(gantry_taskman_start(f->manager));
    gantry_dispatcher_finish_group(dispatcher);
    assert_ok(gantry_taskman_stop(f->manager));
    gantry_dispatcher_stats stats = gpu_fixture_stats(f);
    assert_ok(gantry_profile_stop(profile, NULL));
    struct read_trace trace;
    const char *wrong = reader_load(path, &trace);
    assert_string_equal(wrong != NULL ? wrong : "", "");
    assert_int_equal(stats.memory_waited, 1);
    struct counted waiting = counter_of(&trace, "Tasks waiting for memory");
    assert_int_equal(waiting.most, 1);
    assert_int_equal(waiting.last, 0);
    struct counted held = counter_of(&trace, "Declared device bytes");
    assert_true(held.count >= 3); /* the first one, none, the second one */
    assert_int_equal(held.most, STAGED + SCRATCH);
    const struct read_slice *wait = NULL;
    for (size_t i = 0; i < trace.slice_count; i++) {
        const struct read_slice *slice = &trace.slices[i];
        wait = strcmp(slice->name, "waiting for memory") == 0 ? slice : wait;
    }
    assert_non_null(wait);
    assert_string_equal(wait->category, "memory");
    assert_true(wait->end > wait->begin && stats.memory_wait_ns > 0);
    reader_free(&trace);
    unlink(path);
    assert_ok(gantry_taskman_reset(f->manager));
    settled(f);
}

/* The third job would fit beside the first. */
static void test_nobody_overtakes(void **state)
{
    struct gpu_fixture *f = *state;
    struct job jobs[3];
    uint32_t order[3], begun = 0;
    const uint64_t bytes[3] = {STAGED + SCRATCH, STAGED + SCRATCH, 8 * MIB};
    gantry_dispatcher *dispatcher = gantry_context_dispatcher(f->context);
    for (uint32_t i = 0; i < 3; i++) {
        jobs[i] = (struct job){.number = i, .order = order, .begun = &begun};
    }
    for (uint32_t i = 0; i < 2; i++) {
        add_job(f, &jobs[i], gpu_fixture_declare(f->manager, bytes[i]));
    }
    (void)submit(f, GANTRY_TASK_HTOD, note, &jobs[2], gpu_fixture_declare(f->manager, bytes[2]));
    gantry_dispatcher_start_group(dispatcher);
    assert_ok(gantry_taskman_start(f->manager));
    gantry_dispatcher_finish_group(dispatcher);
    assert_ok(gantry_taskman_stop(f->manager));
    assert_int_equal(begun, 3);
    for (uint32_t i = 0; i < 3; i++) {
        assert_int_equal(order[i], i);
    }
    assert_ok(gantry_taskman_reset(f->manager));
    settled(f);
}

/* ---- who holds ---- */

static gantry_status free_on_cpu(gantry_task *task, void *arg)
{
    struct job *job = arg;
    (void)task;
    gantry_status status = gantry_heap_free(job->heap, job->staged);
    atomic_store(&job->freed, true);
    return status;
}

static gantry_launch_result complete(gantry_launch *launch, void *arg)
{
    return gantry_launch_add_completion(launch, arg) == GANTRY_OK ? GANTRY_LAUNCH_DONE : GANTRY_LAUNCH_FAILED;
}

static void test_a_cpu_task_holds_until_it_was_released(void **state)
{
    struct gpu_fixture *f = *state;
    struct job jobs[3] = {{.number = 0}, {.number = 1}, {.number = 2}};
    for (uint32_t i = 0; i < 3; i++) {
        uint32_t memory = gpu_fixture_declare(f->manager, STAGED + SCRATCH);
        jobs[i].heap = gantry_context_heap(f->context);
        jobs[i].before = i > 0 ? &jobs[i - 1] : NULL;
        gantry_task_desc desc = GANTRY_TASK_DESC_INIT;
        desc.run = free_on_cpu;
        desc.arg = &jobs[i];
        desc.memory = memory;
        gantry_task *last;
        assert_ok(gantry_taskman_submit(f->manager, &desc, &last));
        gantry_task *first = submit(f, GANTRY_TASK_HTOD, stage, &jobs[i], memory);
        gantry_task *second = submit(f, GANTRY_TASK_DTOH, complete, last, memory);
        gpu_fixture_after(second, first);
        gpu_fixture_after(last, second);
    }
    assert_ok(gpu_fixture_step(f));
    for (uint32_t i = 0; i < 3; i++) {
        assert_int_equal(jobs[i].status, GANTRY_OK);
        assert_true(i == 0 || jobs[i].before_was_freed);
    }
    settled(f);
}

static void test_frozen_graphs_take_it_anew_in_every_run(void **state)
{
    struct gpu_fixture *f = *state;
    struct job jobs[3] = {{.number = 0}, {.number = 1}, {.number = 2}};
    for (uint32_t i = 0; i < 3; i++) {
        add_job(f, &jobs[i], gpu_fixture_declare(f->manager, STAGED + SCRATCH));
    }
    assert_ok(gantry_taskman_freeze(f->manager));
    assert_ok(gantry_taskman_run(f->manager, 10));
    gantry_dispatcher_stats stats = settled(f);
    assert_int_equal(stats.memory_admitted, 30);
    assert_int_equal(stats.memory_forced, 0);
    assert_ok(gantry_taskman_reset(f->manager));
    for (uint32_t i = 0; i < 3; i++) {
        assert_int_equal(jobs[i].status, GANTRY_OK);
    }
}

static void *run_steps(void *arg)
{
    struct gpu_fixture *f = arg;
    for (int step = 0; step < 5; step++) {
        struct job jobs[2] = {{.number = 0}, {.number = 1}};
        for (uint32_t i = 0; i < 2; i++) {
            add_job(f, &jobs[i], gpu_fixture_declare(f->manager, STAGED + SCRATCH));
        }
        if (gantry_taskman_start(f->manager) != GANTRY_OK || gantry_taskman_stop(f->manager) != GANTRY_OK ||
            gantry_taskman_reset(f->manager) != GANTRY_OK) {
            return f;
        }
    }
    return NULL;
}

static void test_managers_wait_for_each_other(void **state)
{
    struct gpu_fixture *f = *state;
    struct gpu_fixture other = *f;
    gantry_taskman_options options = GANTRY_TASKMAN_OPTIONS_INIT;
    options.cpu_dispatcher = f->cpus;
    options.gpu_dispatcher = gantry_context_dispatcher(f->context);
    assert_ok(gantry_taskman_create(&options, &other.manager));
    pthread_t thread;
    assert_int_equal(pthread_create(&thread, NULL, run_steps, &other), 0);
    void *ours = run_steps(f);
    void *theirs;
    assert_int_equal(pthread_join(thread, &theirs), 0);
    assert_null(ours);
    assert_null(theirs);
    gantry_dispatcher_stats stats = settled(f);
    assert_int_equal(stats.memory_admitted, 20);
    assert_int_equal(stats.memory_forced, 0);
    gantry_taskman_destroy(other.manager);
}

/* ---- what could hang ---- */

static gantry_status do_nothing(gantry_task *task, void *arg)
{
    (void)task;
    (void)arg;
    return GANTRY_OK;
}

/* One job holds memory and waits for another, which waits for that memory, and is let in after all. */
static void test_who_waits_for_its_own_memory_is_let_in(void **state)
{
    struct gpu_fixture *f = *state;
    for (int with_cpu = 0; with_cpu < 2; with_cpu++) {
        uint32_t first = gpu_fixture_declare(f->manager, ROOM / 2 + MIB);
        uint32_t second = gpu_fixture_declare(f->manager, ROOM / 2 + MIB);
        gantry_task *begin = submit(f, GANTRY_TASK_HTOD, nothing, NULL, first);
        gantry_task *other = submit(f, GANTRY_TASK_KERNEL, nothing, NULL, second);
        gantry_task *end = submit(f, GANTRY_TASK_KERNEL, nothing, NULL, first);
        gpu_fixture_after(other, begin);
        if (with_cpu != 0) {
            gantry_task *between = gpu_fixture_cpu(f, "between", do_nothing, NULL);
            gpu_fixture_after(between, other);
            gpu_fixture_after(end, between);
        } else {
            gpu_fixture_after(end, other);
        }
        assert_ok(gpu_fixture_step(f));
        assert_int_equal(settled(f).memory_forced, (uint64_t)with_cpu + 1);
    }
}

/* The same while other memory is about to come back, whichever of the two events is noticed first. */
static void test_who_waits_is_let_in_while_memory_comes_back(void **state)
{
    struct gpu_fixture *f = *state;
    uint32_t steps = getenv("GANTRY_TEST_LIGHT") != NULL ? 50 : 500;
    for (uint32_t i = 0; i < steps; i++) {
        uint32_t first = gpu_fixture_declare(f->manager, ROOM / 2 + MIB);
        uint32_t second = gpu_fixture_declare(f->manager, ROOM / 2 + MIB);
        gantry_task *begin = submit(f, GANTRY_TASK_KERNEL, nothing, NULL, first);
        gantry_task *end = submit(f, GANTRY_TASK_KERNEL, nothing, NULL, first);
        gantry_task *waits = submit(f, GANTRY_TASK_KERNEL, nothing, NULL, second);
        gantry_task *passing =
            submit(f, GANTRY_TASK_KERNEL, nothing, NULL, gpu_fixture_declare(f->manager, MIB));
        gantry_task *between = gpu_fixture_cpu(f, "between", do_nothing, NULL);
        gpu_fixture_after(passing, begin);
        gpu_fixture_after(between, passing);
        gpu_fixture_after(waits, between);
        gpu_fixture_after(end, begin);
        gpu_fixture_after(end, waits);
        assert_ok(gpu_fixture_step(f));
    }
    assert_int_equal(settled(f).memory_forced, steps);
}

static void test_what_can_never_fit_is_refused(void **state)
{
    struct gpu_fixture *f = *state;
    struct job job = {.number = 0};
    uint32_t large = gpu_fixture_declare(f->manager, UINT64_C(1) << 50);
    gantry_task *task = submit(f, GANTRY_TASK_KERNEL, nothing, NULL, large);
    gantry_task *after = submit(f, GANTRY_TASK_KERNEL, nothing, NULL, large);
    gpu_fixture_after(after, task);
    add_job(f, &job, gpu_fixture_declare(f->manager, STAGED + SCRATCH));
    assert_ok(gantry_taskman_start(f->manager));
    assert_int_equal(gantry_taskman_stop(f->manager), GANTRY_ERR_OUT_OF_DEVICE_MEMORY);
    assert_non_null(strstr(gantry_last_error(), "1125899906842624 bytes of device memory were declared"));
    assert_int_equal(gantry_task_result(task), GANTRY_ERR_OUT_OF_DEVICE_MEMORY);
    assert_int_equal(gantry_task_get_state(after), GANTRY_TASK_STATE_FAILED);
    assert_int_equal(job.status, GANTRY_OK);
    assert_ok(gantry_taskman_reset(f->manager));
    settled(f);
}

/* A task is asked for while another one holds memory, and the context is destroyed meanwhile. */
static gantry_launch_result lose(gantry_launch *launch, void *arg)
{
    (void)arg;
    gantry_dispatcher_force_failure(gantry_context_dispatcher(gantry_launch_context(launch)));
    return GANTRY_LAUNCH_DONE;
}

static void test_a_lost_context_holds_no_task_back(void **state)
{
    struct gpu_fixture *f = *state;
    struct job jobs[3] = {{.number = 0}, {.number = 1}, {.number = 2}};
    (void)submit(f, GANTRY_TASK_KERNEL, lose, NULL, gpu_fixture_declare(f->manager, STAGED + SCRATCH));
    for (uint32_t i = 0; i < 3; i++) {
        add_job(f, &jobs[i], gpu_fixture_declare(f->manager, STAGED + SCRATCH));
    }
    assert_ok(gantry_taskman_start(f->manager));
    assert_int_equal(gantry_taskman_stop(f->manager), GANTRY_ERR_DEVICE_LOST);
    assert_ok(gantry_taskman_reset(f->manager));
    settled(f);
}

static gantry_status cancel(gantry_task *task, void *arg)
{
    (void)arg;
    return gantry_taskman_cancel(gantry_task_manager(task));
}

static void test_a_cancelled_step_ends(void **state)
{
    struct gpu_fixture *f = *state;
    gantry_task *first =
        submit(f, GANTRY_TASK_KERNEL, nothing, NULL, gpu_fixture_declare(f->manager, ROOM / 2 + MIB));
    gantry_task *cancels = gpu_fixture_cpu(f, "cancel", cancel, NULL);
    uint32_t memory = gpu_fixture_declare(f->manager, ROOM / 2 + MIB);
    gantry_task *second = submit(f, GANTRY_TASK_KERNEL, nothing, NULL, memory);
    gantry_task *third = submit(f, GANTRY_TASK_KERNEL, nothing, NULL, memory);
    gpu_fixture_after(cancels, first);
    gpu_fixture_after(third, cancels);
    (void)second;
    assert_ok(gantry_taskman_start(f->manager));
    assert_int_equal(gantry_taskman_stop(f->manager), GANTRY_ERR_CANCELLED);
    assert_ok(gantry_taskman_reset(f->manager));
    settled(f);
}

/* ---- declaring ---- */

static void test_what_declaring_refuses(void **state)
{
    struct gpu_fixture *f = *state;
    const uint64_t bytes[GANTRY_MEMORY_KIND_COUNT] = {MIB, MIB, MIB, MIB};
    uint32_t memory = 77;
    assert_int_equal(gantry_taskman_declare_memory(NULL, bytes, &memory), GANTRY_ERR_INVALID_ARGUMENT);
    assert_int_equal(gantry_taskman_declare_memory(f->manager, NULL, &memory), GANTRY_ERR_INVALID_ARGUMENT);
    assert_int_equal(gantry_taskman_declare_memory(f->manager, bytes, NULL), GANTRY_ERR_INVALID_ARGUMENT);
    gantry_taskman_options options = GANTRY_TASKMAN_OPTIONS_INIT;
    options.cpu_dispatcher = f->cpus;
    gantry_taskman *without;
    assert_ok(gantry_taskman_create(&options, &without));
    assert_int_equal(gantry_taskman_declare_memory(without, bytes, &memory), GANTRY_ERR_UNSUPPORTED);
    gantry_taskman_destroy(without);
    assert_int_equal(memory, 77);
    gantry_task_desc desc = GANTRY_TASK_DESC_INIT;
    desc.run = do_nothing;
    desc.memory = 1;
    assert_int_equal(gantry_taskman_submit(f->manager, &desc, NULL), GANTRY_ERR_INVALID_ARGUMENT);
    assert_non_null(strstr(gantry_last_error(), "memory 1 was not declared"));
    assert_ok(gantry_taskman_declare_memory(f->manager, bytes, &memory));
    assert_int_equal(memory, 1);
    assert_ok(gantry_taskman_submit(f->manager, &desc, NULL));
    desc.is_condition = true;
    desc.memory = 0;
    assert_ok(gantry_taskman_submit(f->manager, &desc, NULL));
    assert_int_equal(gantry_taskman_freeze(f->manager), GANTRY_ERR_UNSUPPORTED);
    assert_ok(gantry_taskman_reset(f->manager)); /* it was never started, so it held nothing */
    assert_int_equal(gpu_fixture_stats(f).memory_admitted, 0);
}

static void test_declaring_survives_every_failed_allocation(void **state)
{
    struct gpu_fixture *f = *state;
    const uint64_t bytes[GANTRY_MEMORY_KIND_COUNT] = {MIB, 0, 0, 0};
    for (long nth = 0;; nth++) {
        uint32_t memory = 77;
        gy_fault_arm(nth);
        gantry_status status = gantry_taskman_declare_memory(f->manager, bytes, &memory);
        bool failed = gy_fault_fired();
        gy_fault_arm(-1);
        if (!failed) {
            assert_ok(status);
            break;
        }
        assert_int_equal(status, GANTRY_ERR_OUT_OF_HOST_MEMORY);
        assert_int_equal(memory, 77);
    }
    for (int i = 0; i < 100; i++) { /* more than there is room for at first */
        (void)gpu_fixture_declare(f->manager, MIB);
    }
    assert_ok(gantry_taskman_reset(f->manager));
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup_teardown(test_with_it_both_jobs_have_what_they_need, open_fixture,
                                        close_fixture),
        cmocka_unit_test_setup_teardown(test_without_it_a_later_kernel_runs_out_of_memory, open_fixture,
                                        close_fixture),
        cmocka_unit_test_setup_teardown(test_declared_memory_is_waited_for, open_fixture, close_fixture),
        cmocka_unit_test_setup_teardown(test_memory_is_counted_as_the_heap_takes_it, open_fixture,
                                        close_fixture),
        cmocka_unit_test_setup_teardown(test_a_recording_shows_waiting_tasks_and_held_memory, open_fixture,
                                        close_fixture),
        cmocka_unit_test_setup_teardown(test_nobody_overtakes, open_fixture, close_fixture),
        cmocka_unit_test_setup_teardown(test_a_cpu_task_holds_until_it_was_released, open_fixture,
                                        close_fixture),
        cmocka_unit_test_setup_teardown(test_frozen_graphs_take_it_anew_in_every_run, open_fixture,
                                        close_fixture),
        cmocka_unit_test_setup_teardown(test_managers_wait_for_each_other, open_fixture, close_fixture),
        cmocka_unit_test_setup_teardown(test_who_waits_for_its_own_memory_is_let_in, open_fixture,
                                        close_fixture),
        cmocka_unit_test_setup_teardown(test_who_waits_is_let_in_while_memory_comes_back, open_fixture,
                                        close_fixture),
        cmocka_unit_test_setup_teardown(test_what_can_never_fit_is_refused, open_fixture, close_fixture),
        cmocka_unit_test_setup_teardown(test_a_lost_context_holds_no_task_back, open_fixture, close_fixture),
        cmocka_unit_test_setup_teardown(test_a_cancelled_step_ends, open_fixture, close_fixture),
        cmocka_unit_test_setup_teardown(test_what_declaring_refuses, open_fixture, close_fixture),
        cmocka_unit_test_setup_teardown(test_declaring_survives_every_failed_allocation, open_fixture,
                                        close_fixture),
    };
    return cmocka_run_group_tests_name("admission", tests, NULL, NULL);
}
