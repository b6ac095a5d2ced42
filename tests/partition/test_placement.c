/* SPDX-License-Identifier: MIT */
/* Tasks, managers and copies in partitions: no work leaves its own partition, and no other work gets in. */
#include "context/context.h"
#include "dispatcher/internal.h"
#include "emulator/gantry_emu.h"
#include "tests/partition/plan_support.h"
#include "tests/support/cmocka_c11.h"
#include "tests/support/gpu_fixture.h"

#include "audit_kernels.kernels.h"
#include "gate_kernels.kernels.h"

#include <sched.h>
#include <string.h>

#define WORDS (2 * GANTRY_SM_SET_WORDS)
#define BLOCKS 600u
#define JOBS 12u

struct job {
    struct scene *scene;
    gantry_partition *partition; /* the partition in the task's description; NULL: none */
    gantry_partition *expected;
    uint32_t *seen; /* WORDS of the device */
    uint32_t found[WORDS];
    gantry_task *completes;
    uint32_t errors;
};

struct scene {
    struct gpu_fixture gpu;
    gantry_kernel *audit;
    uint32_t *device; /* JOBS * WORDS */
    uint32_t *pinned; /* likewise */
    bool stable;      /* tasks are declared stable */
    struct job jobs[JOBS];
    gantry_sm_set sets[GANTRY_PARTITIONS_MAX];
};

/* Three partitions; "bulk" may use the SMs of `lender` (NULL: of no partition). */
static void open_scene_with(struct scene *s, gantry_submission submission, gantry_wait_mode wait,
                            const char *lender)
{
    gantry_partition_request r[] = {request("critical", GANTRY_PARTITION_AT_LEAST, 16),
                                    request("bulk", GANTRY_PARTITION_AT_LEAST, 24),
                                    request("other", GANTRY_PARTITION_REST, 0)};
    gantry_partition_options plan = GANTRY_PARTITION_OPTIONS_INIT;
    gantry_context_options options = GANTRY_CONTEXT_OPTIONS_INIT;
    r[1].borrows = lender;
    plan.requests = r;
    plan.count = 3;
    options.driver = gpu_fixture_driver();
    options.partitions = &plan;
    options.submission = submission;
    options.completion_wait = wait;
    memset(s, 0, sizeof(*s));
    gpu_fixture_open_with(&s->gpu, 1, &options);
    for (uint32_t i = 0; i < 3; i++) {
        s->sets[i].struct_size = sizeof(s->sets[i]);
        assert_ok(
            gantry_partition_audit(gantry_partition_at(s->gpu.context, i), GANTRY_AUDIT_STREAM, &s->sets[i]));
    }
    gantry_module *module;
    assert_ok(gantry_module_load(s->gpu.context, &gantry_image_audit_kernels, &module));
    assert_ok(gantry_module_get_kernel(module, "gantry_audit", &s->audit));
    gantry_heap *heap = gantry_context_heap(s->gpu.context);
    size_t bytes = JOBS * WORDS * sizeof(uint32_t);
    void *memory;
    assert_ok(gantry_heap_alloc(heap, GANTRY_MEMORY_DEVICE, bytes, 0, GANTRY_ALLOC_SITE("seen"), &memory));
    s->device = memory;
    assert_ok(gantry_heap_alloc(heap, GANTRY_MEMORY_PINNED, bytes, 0, GANTRY_ALLOC_SITE("seen"), &memory));
    s->pinned = memory;
}

static void open_scene(struct scene *s, gantry_submission submission)
{
    open_scene_with(s, submission, GANTRY_WAIT_DEFAULT, NULL);
}

static void close_scene(struct scene *s)
{
    gantry_heap *heap = gantry_context_heap(s->gpu.context);
    assert_ok(gantry_heap_free(heap, s->device));
    assert_ok(gantry_heap_free(heap, s->pinned));
    gpu_fixture_close(&s->gpu);
}

/* What a callback can find out: its partition, its stream, how many blocks fit. */
static void check_launch(gantry_launch *launch, struct job *job)
{
    gantry_partition *of = NULL;
    gantry_partition_info info = {.struct_size = sizeof(info)};
    uint32_t blocks = 0, more = 0;
    job->errors += gantry_launch_partition(launch) != job->expected;
    job->errors +=
        gantry_partition_of_stream(job->scene->gpu.context, gantry_launch_stream(launch), &of) != GANTRY_OK;
    job->errors += of != job->expected;
    job->errors += gantry_partition_get_info(job->expected, &info) != GANTRY_OK;
    job->errors += gantry_launch_max_blocks(launch, job->scene->audit, 1024, 0, &blocks) != GANTRY_OK;
    job->errors += gantry_launch_max_blocks(launch, job->scene->audit, 32, 0, &more) != GANTRY_OK;
    job->errors += blocks == 0 || blocks % info.granted_sms != 0 || more <= blocks;
    job->errors += gantry_partition_synchronize(job->expected) != GANTRY_ERR_STATE;
}

static gantry_launch_result launch_audit(gantry_launch *launch, void *arg)
{
    struct job *job = arg;
    void *seen = job->seen;
    uint32_t words = WORDS;
    uint64_t ns = 0;
    void *args[] = {&seen, &words, &ns};
    check_launch(launch, job);
    return gantry_launch_fill(launch, seen, 0, 4, WORDS) == GANTRY_OK &&
                   gantry_launch_kernel(launch, job->scene->audit, (gantry_dim3){BLOCKS, 1, 1},
                                        (gantry_dim3){32, 1, 1}, 0, args) == GANTRY_OK
               ? GANTRY_LAUNCH_DONE
               : GANTRY_LAUNCH_FAILED;
}

static gantry_launch_result launch_back(gantry_launch *launch, void *arg)
{
    struct job *job = arg;
    uint32_t *to = job->scene->pinned + (job->seen - job->scene->device);
    check_launch(launch, job);
    return gantry_launch_copy_dtoh(launch, to, job->seen, WORDS * sizeof(uint32_t)) == GANTRY_OK &&
                   gantry_launch_add_completion(launch, job->completes) == GANTRY_OK
               ? GANTRY_LAUNCH_DONE
               : GANTRY_LAUNCH_FAILED;
}

static gantry_task *submit(struct scene *s, gantry_task_kind kind, gantry_launch_fn launch, struct job *job)
{
    gantry_task_desc desc = GANTRY_TASK_DESC_INIT;
    gantry_task *task = NULL;
    desc.kind = kind;
    desc.launch = launch;
    desc.arg = job;
    desc.partition = job->partition;
    desc.is_stable = job->scene->stable;
    assert_ok(gantry_taskman_submit(s->gpu.manager, &desc, &task));
    return task;
}

static gantry_status nothing(gantry_task *task, void *arg)
{
    (void)task;
    (void)arg;
    return GANTRY_OK;
}

/* Jobs are in all partitions in turn, each after the one before: every edge goes from one partition to
 * another. */
static void build(struct scene *s)
{
    gantry_task *before = NULL;
    for (uint32_t i = 0; i < JOBS; i++) {
        struct job *job = &s->jobs[i];
        *job = (struct job){.scene = s, .seen = s->device + i * WORDS};
        job->partition = i % 4 == 3 ? NULL : gantry_partition_at(s->gpu.context, i % 4);
        job->expected = job->partition != NULL ? job->partition : gantry_partition_default(s->gpu.context);
        job->completes = gpu_fixture_cpu(&s->gpu, "done", nothing, NULL);
        gantry_task *kernel = submit(s, GANTRY_TASK_KERNEL, launch_audit, job);
        gantry_task *back = submit(s, GANTRY_TASK_DTOH, launch_back, job);
        if (before != NULL) {
            gpu_fixture_after(kernel, before);
        }
        gpu_fixture_after(back, kernel);
        gpu_fixture_after(job->completes, back);
        before = kernel;
    }
}

static void run_step(struct scene *s)
{
    build(s);
    assert_ok(gpu_fixture_step(&s->gpu));
}

static uint32_t index_of(const gantry_partition *partition)
{
    gantry_partition_info info = {.struct_size = sizeof(info)};
    assert_ok(gantry_partition_get_info(partition, &info));
    return info.index;
}

static void check_step(struct scene *s)
{
    for (uint32_t i = 0; i < JOBS; i++) {
        const struct job *job = &s->jobs[i];
        const gantry_sm_set *allowed = &s->sets[index_of(job->expected)];
        uint32_t count = 0;
        assert_int_equal(job->errors, 0);
        for (uint32_t w = 0; w < WORDS; w++) {
            uint32_t word = s->pinned[i * WORDS + w];
            count += (uint32_t)__builtin_popcount(word);
            assert_int_equal(word & ~(uint32_t)(allowed->words[w / 2] >> (w % 2 * 32)), 0);
        }
        assert_in_range(count, 1, allowed->seen_sms);
        if (gpu_fixture_driver() == GANTRY_DRIVER_EMULATED) { /* it fills virtual SMs in turn */
            assert_int_equal(count, allowed->seen_sms);
        }
    }
}

static void test_tasks_stay_in_their_partition(void **state)
{
    static const gantry_submission modes[] = {GANTRY_SUBMISSION_STREAMS, GANTRY_SUBMISSION_GRAPHS,
                                              GANTRY_SUBMISSION_AUTO};
    (void)state;
    for (size_t m = 0; m < sizeof(modes) / sizeof(modes[0]); m++) {
        struct scene s;
        open_scene(&s, modes[m]);
        for (int step = 0; step < 4; step++) {
            run_step(&s);
            check_step(&s);
        }
        gantry_dispatcher_stats stats = gpu_fixture_stats(&s.gpu);
        assert_true(stats.wfi_edges >= 4 * (JOBS * 3 / 4 - 1));
        if (modes[m] == GANTRY_SUBMISSION_GRAPHS) {
            assert_true(stats.graph_launches > 0);
        }
        for (uint32_t i = 0; i < 3; i++) { /* beside a dispatcher that captures */
            assert_ok(gantry_partition_synchronize(gantry_partition_at(s.gpu.context, i)));
        }
        close_scene(&s);
    }
}

/* A callback that leaves enqueueing to the library. */
static gantry_launch_result launch_quietly(gantry_launch *launch, void *arg)
{
    struct job *job = arg;
    void *seen = job->seen;
    uint32_t words = WORDS, *to = job->scene->pinned + (job->seen - job->scene->device);
    uint64_t ns = 0;
    void *args[] = {&seen, &words, &ns};
    const gantry_dim3 grid = {BLOCKS, 1, 1}, block = {32, 1, 1};
    return gantry_launch_fill(launch, seen, 0, 4, WORDS) == GANTRY_OK &&
                   gantry_launch_kernel(launch, job->scene->audit, grid, block, 0, args) == GANTRY_OK &&
                   gantry_launch_copy_dtoh(launch, to, seen, WORDS * sizeof(uint32_t)) == GANTRY_OK
               ? GANTRY_LAUNCH_DONE
               : GANTRY_LAUNCH_FAILED;
}

/* Job i is in partition i % 3; with each step it has other arguments. */
static void run_patched_step(struct scene *s, uint32_t step, bool has_edges)
{
    gantry_task *before = NULL;
    memset(s->pinned, 0xff, JOBS * WORDS * sizeof(uint32_t));
    for (uint32_t i = 0; i < JOBS; i++) {
        struct job *job = &s->jobs[(i + step) % JOBS];
        *job = (struct job){.scene = s, .seen = s->device + (i + step) % JOBS * WORDS};
        job->partition = job->expected = gantry_partition_at(s->gpu.context, i % 3);
        gantry_task *task = submit(s, GANTRY_TASK_KERNEL, launch_quietly, job);
        if (has_edges && before != NULL) {
            gpu_fixture_after(task, before);
        }
        before = task;
    }
    assert_ok(gpu_fixture_step(&s->gpu));
    assert_ok(gantry_context_synchronize(s->gpu.context));
    check_step(s);
}

/* Work of executable graphs that are kept, and get other arguments, runs where it should. */
static void test_kept_work_stays_in_its_partition(void **state)
{
    (void)state;
    enum { STEPS = 6 };
    for (uint32_t has_edges = 0; has_edges < 2; has_edges++) {
        struct scene s;
        open_scene(&s, GANTRY_SUBMISSION_GRAPHS);
        for (uint32_t step = 0; step < STEPS; step++) {
            run_patched_step(&s, step, has_edges != 0);
        }
        const gantry_dispatcher_stats stats = gpu_fixture_stats(&s.gpu);
        assert_true(stats.graph_nodes_kept >= 3u * JOBS);
        assert_true(stats.graph_nodes_set >= 2u * JOBS); /* a kernel, and the fill or the copy at least */
        close_scene(&s);
    }
}

/* Work that is launched again without a call runs where it was recorded. */
static void test_stable_tasks_stay_in_their_partition(void **state)
{
    (void)state;
    struct scene s;
    open_scene(&s, GANTRY_SUBMISSION_GRAPHS);
    s.stable = true;
    build(&s);
    assert_ok(gantry_taskman_freeze(s.gpu.manager));
    for (int run = 0; run < 6; run++) {
        memset(s.pinned, 0xff, JOBS * WORDS * sizeof(uint32_t));
        assert_ok(gantry_taskman_run(s.gpu.manager, 1));
        check_step(&s);
    }
    assert_true(gpu_fixture_stats(&s.gpu).graph_replays > 0);
    close_scene(&s);
}

/* With a plan no stream is made outside of a partition: not for the dispatcher itself, not for recordings,
 * not to calibrate copies.  But for one: the guard of batches, on which nothing runs. */
static gantry_launch_result launch_calibrate(gantry_launch *launch, void *arg)
{
    (void)arg;
    return gantry_copy_calibrate(launch, 1u << 20) == GANTRY_OK ? GANTRY_LAUNCH_DONE : GANTRY_LAUNCH_FAILED;
}

static void test_no_stream_is_outside_of_a_partition(void **state)
{
    (void)state;
    struct gantry_emu_control emu;
    bool controlled = gpu_fixture_controls(&emu);
    struct scene s;
    open_scene(&s, GANTRY_SUBMISSION_GRAPHS);
    if (controlled) {
        emu.reset_counters();
    }
    gantry_profile_options options = GANTRY_PROFILE_OPTIONS_INIT;
    gantry_profile *profile;
    options.path = "placement.pftrace";
    assert_ok(gantry_profile_start(&options, &profile));
    run_step(&s);
    (void)gpu_fixture_gpu(&s.gpu, GANTRY_TASK_KERNEL, "calibrate", launch_calibrate, NULL);
    assert_ok(gpu_fixture_step(&s.gpu));
    assert_ok(gantry_profile_stop(profile, NULL));
    run_step(&s);
    check_step(&s);
    if (controlled) {
        assert_int_equal(emu.calls("cuStreamCreate"), 1);
        assert_int_equal(emu.calls("cuStreamCreateWithPriority"), 0);
        assert_true(emu.calls("cuGreenCtxStreamCreate") > 3);
    }
    close_scene(&s);
    (void)remove("placement.pftrace");
}

/* A kernel, copies and fills are enqueued, one by one and in a batch. */
static gantry_launch_result launch_copies(gantry_launch *launch, void *arg)
{
    struct job *job = arg;
    struct scene *s = job->scene;
    uint32_t *to = s->device + 4 * WORDS;
    gantry_copy_desc descs[3] = {
        {.dest = to, .source = job->seen, .bytes = WORDS * sizeof(uint32_t), .type = GANTRY_COPY_DTOD},
        {.dest = to + WORDS,
         .source = s->pinned,
         .bytes = WORDS * sizeof(uint32_t),
         .type = GANTRY_COPY_HTOD},
        {.dest = to + 2 * WORDS,
         .bytes = WORDS * sizeof(uint32_t),
         .type = GANTRY_COPY_FILL,
         .pattern_bytes = 4,
         .pattern = 7},
    };
    gantry_launch_result result = launch_audit(launch, job);
    return result == GANTRY_LAUNCH_DONE && gantry_copy_launch(launch, descs, 3) == GANTRY_OK &&
                   gantry_launch_copy_dtoh(launch, s->pinned + WORDS, to, 3 * WORDS * sizeof(uint32_t)) ==
                       GANTRY_OK &&
                   gantry_launch_add_completion(launch, job->completes) == GANTRY_OK
               ? GANTRY_LAUNCH_DONE
               : GANTRY_LAUNCH_FAILED;
}

/* Work that is enqueued beside kernels goes to the task's stream, and so to its partition. */
static void test_copies_and_fills_run_where_their_task_does(void **state)
{
    (void)state;
    enum { ROOM = 64 };
    struct gantry_emu_operation log[ROOM];
    struct scene s;
    struct gantry_emu_control emu;
    bool controlled = gpu_fixture_controls(&emu);
    open_scene(&s, GANTRY_SUBMISSION_STREAMS);
    struct job *job = &s.jobs[0];
    *job = (struct job){.scene = &s, .seen = s.device, .expected = gantry_partition_at(s.gpu.context, 1)};
    job->partition = job->expected;
    job->completes = gpu_fixture_cpu(&s.gpu, "done", nothing, NULL);
    gpu_fixture_after(job->completes, submit(&s, GANTRY_TASK_KERNEL, launch_copies, job));
    memset(s.pinned, 0x5a, WORDS * sizeof(uint32_t));
    if (controlled) {
        assert_int_equal(emu.log_start(ROOM), 0);
    }
    assert_ok(gpu_fixture_step(&s.gpu));
    assert_int_equal(job->errors, 0);
    assert_int_not_equal(s.pinned[WORDS], 0x5a5a5a5a); /* the SMs that the kernel has noted */
    assert_int_equal(s.pinned[2 * WORDS], 0x5a5a5a5a);
    assert_int_equal(s.pinned[4 * WORDS - 1], 7);
    if (controlled) {
        assert_in_range(emu.log_stop(), 4, ROOM);
        size_t count = emu.log_read(log, ROOM);
        for (size_t i = 0; i < count; i++) {
            assert_int_equal(log[i].stream, log[0].stream);
        }
    }
    close_scene(&s);
}

/* This holds while no work is known to run in the partition that lends its SMs. */
static void test_borrowed_sms_are_used(void **state)
{
    (void)state;
    struct scene s;
    open_scene_with(&s, GANTRY_SUBMISSION_STREAMS, GANTRY_WAIT_DEFAULT, "critical");
    struct job *job = &s.jobs[0];
    gantry_partition *bulk = gantry_partition_at(s.gpu.context, 1);
    gantry_partition_info info = {.struct_size = sizeof(info)};
    assert_ok(gantry_partition_get_info(bulk, &info));
    *job = (struct job){.scene = &s, .seen = s.device, .partition = bulk, .expected = bulk};
    job->completes = gpu_fixture_cpu(&s.gpu, "done", nothing, NULL);
    gantry_task *kernel = submit(&s, GANTRY_TASK_KERNEL, launch_audit, job);
    gantry_task *back = submit(&s, GANTRY_TASK_DTOH, launch_back, job);
    gpu_fixture_after(back, kernel);
    gpu_fixture_after(job->completes, back);
    assert_ok(gpu_fixture_step(&s.gpu));
    assert_int_equal(job->errors, 0);
    uint32_t count = 0;
    for (uint32_t w = 0; w < WORDS; w++) {
        uint64_t both = s.sets[0].words[w / 2] | s.sets[1].words[w / 2];
        assert_int_equal(s.pinned[w] & ~(uint32_t)(both >> (w % 2 * 32)), 0);
        count += (uint32_t)__builtin_popcount(s.pinned[w]);
    }
    assert_int_equal(info.wide_sms, s.sets[0].seen_sms + s.sets[1].seen_sms);
    assert_in_range(count, 1, info.wide_sms);
    if (gpu_fixture_driver() == GANTRY_DRIVER_EMULATED) { /* it fills virtual SMs in turn */
        assert_int_equal(count, info.wide_sms);
    }
    close_scene(&s);
}

static void test_a_manager_names_a_partition(void **state)
{
    (void)state;
    struct scene s;
    open_scene(&s, GANTRY_SUBMISSION_STREAMS);
    gantry_taskman_options options = GANTRY_TASKMAN_OPTIONS_INIT;
    gantry_taskman *manager = s.gpu.manager;
    options.cpu_dispatcher = s.gpu.cpus;
    options.gpu_dispatcher = gantry_context_dispatcher(s.gpu.context);
    options.partition = gantry_partition_at(s.gpu.context, 1);
    assert_ok(gantry_taskman_create(&options, &s.gpu.manager));
    s.jobs[0] = (struct job){.scene = &s, .seen = s.device, .expected = options.partition};
    s.jobs[1] = (struct job){
        .scene = &s, .seen = s.device + WORDS, .expected = gantry_partition_at(s.gpu.context, 0)};
    s.jobs[1].partition = s.jobs[1].expected;
    for (int i = 0; i < 2; i++) {
        s.jobs[i].completes = gpu_fixture_cpu(&s.gpu, "done", nothing, NULL);
        gantry_task *kernel = submit(&s, GANTRY_TASK_KERNEL, launch_audit, &s.jobs[i]);
        gantry_task *back = submit(&s, GANTRY_TASK_DTOH, launch_back, &s.jobs[i]);
        gpu_fixture_after(back, kernel);
        gpu_fixture_after(s.jobs[i].completes, back);
    }
    assert_ok(gpu_fixture_step(&s.gpu));
    assert_int_equal(s.jobs[0].errors + s.jobs[1].errors, 0);
    gantry_taskman_destroy(s.gpu.manager);
    s.gpu.manager = manager;
    close_scene(&s);
}

static void test_foreign_partitions_are_refused(void **state)
{
    (void)state;
    struct scene s;
    struct gpu_fixture other;
    open_scene(&s, GANTRY_SUBMISSION_STREAMS);
    gpu_fixture_open(&other, 0, 0);
    gantry_task_desc desc = GANTRY_TASK_DESC_INIT;
    gantry_task *task = NULL;
    desc.kind = GANTRY_TASK_KERNEL;
    desc.launch = launch_audit;
    desc.partition = gantry_partition_default(other.context);
    assert_int_equal(gantry_taskman_submit(s.gpu.manager, &desc, &task), GANTRY_ERR_FOREIGN_HANDLE);
    desc = (gantry_task_desc){.struct_size = sizeof(desc), .kind = GANTRY_TASK_CPU, .run = nothing};
    desc.partition = gantry_partition_default(s.gpu.context);
    assert_int_equal(gantry_taskman_submit(s.gpu.manager, &desc, &task), GANTRY_ERR_INVALID_ARGUMENT);
    gantry_taskman_options options = GANTRY_TASKMAN_OPTIONS_INIT;
    gantry_taskman *manager = NULL;
    options.gpu_dispatcher = gantry_context_dispatcher(other.context);
    options.partition = gantry_partition_default(s.gpu.context);
    assert_int_equal(gantry_taskman_create(&options, &manager), GANTRY_ERR_FOREIGN_HANDLE);
    options.gpu_dispatcher = NULL;
    assert_int_equal(gantry_taskman_create(&options, &manager), GANTRY_ERR_FOREIGN_HANDLE);
    assert_null(manager);
    gpu_fixture_close(&other);
    close_scene(&s);
}

/* There are few streams for many partitions: each still has its own. */
static void test_every_partition_has_a_stream_whatever_the_limit(void **state)
{
    (void)state;
    gantry_partition_request r[] = {request("a", GANTRY_PARTITION_AT_LEAST, 8),
                                    request("b", GANTRY_PARTITION_AT_LEAST, 8),
                                    request("c", GANTRY_PARTITION_REST, 0)};
    gantry_partition_options plan = GANTRY_PARTITION_OPTIONS_INIT;
    gantry_context_options options = GANTRY_CONTEXT_OPTIONS_INIT;
    struct gpu_fixture gpu;
    r[1].borrows = "a";
    plan.requests = r;
    plan.count = 3;
    options.driver = gpu_fixture_driver();
    options.partitions = &plan;
    options.stream_limit = 1;
    gpu_fixture_open_with(&gpu, 0, &options);
    struct gy_streams *streams = &gantry_context_dispatcher(gpu.context)->streams;
    assert_int_equal(streams->limit, 4);
    assert_ok(gantry_context_acquire(gpu.context));
    for (int round = 0; round < 3; round++) { /* no task finishes: all streams stay busy */
        for (uint32_t p = 3; p-- > 0;) {
            uint32_t index = UINT32_MAX;
            assert_ok(gy_streams_assign(streams, GY_WAIT_SET_NONE, p,
                                        &(struct gy_stream_claim){.owner = NULL}, &index));
            assert_int_equal(GY_STREAM_PARTITION(&streams->streams[index]), p);
            assert_int_equal(streams->streams[index].kind % 2,
                             round == 0 && p == 1); /* then 'a' is at work */
        }
    }
    assert_int_equal(streams->count, 4);
    assert_int_equal(streams->counts.borrowed, 1);
    assert_ok(gantry_context_release(gpu.context));
    gpu_fixture_close(&gpu);
}

/* ---- one partition does not wait for another ------------------------------------------------- */

struct gate {
    struct scene *scene;
    gantry_kernel *hold;
    struct gantry_emu_control emu;
    bool controlled;
    uint32_t *words; /* pinned: the long kernel has begun; it may end */
    char *device_words;
    gantry_task *completes;
};

static gantry_launch_result launch_hold(gantry_launch *launch, void *arg)
{
    struct gate *gate = arg;
    void *begun = gate->device_words, *open = gate->device_words + sizeof(uint32_t);
    void *args[] = {&begun, &open};
    gantry_dim3 one = {1, 1, 1};
    return gantry_launch_kernel(launch, gate->hold, one, one, 0, args) == GANTRY_OK &&
                   gantry_launch_add_completion(launch, gate->completes) == GANTRY_OK
               ? GANTRY_LAUNCH_DONE
               : GANTRY_LAUNCH_FAILED;
}

/* The long kernel runs, and as far as can be known a thread has looked for its end. */
static gantry_status await_hold(gantry_task *task, void *arg)
{
    struct gate *gate = arg;
    (void)task;
    while (__atomic_load_n(&gate->words[0], __ATOMIC_ACQUIRE) == 0 ||
           (gate->controlled && gate->emu.calls("cuEventQuery") == 0)) {
        sched_yield();
    }
    return GANTRY_OK;
}

static gantry_status open_gate(gantry_task *task, void *arg)
{
    (void)task;
    __atomic_store_n(&((struct gate *)arg)->words[1], 1u, __ATOMIC_RELEASE);
    return GANTRY_OK;
}

/* The completion of a kernel in one partition ends a kernel in another. */
static void test_completions_do_not_wait_for_another_partition(void **state)
{
    static const gantry_wait_mode modes[] = {GANTRY_WAIT_BLOCK, GANTRY_WAIT_HYBRID, GANTRY_WAIT_ADAPTIVE};
    (void)state;
    for (size_t m = 0; m < sizeof(modes) / sizeof(modes[0]); m++) {
        struct scene s;
        struct gate gate = {.scene = &s};
        gantry_module *module;
        void *words, *device_words;
        open_scene_with(&s, GANTRY_SUBMISSION_STREAMS, modes[m], NULL);
        gantry_heap *heap = gantry_context_heap(s.gpu.context);
        gate.controlled = gpu_fixture_controls(&gate.emu);
        assert_ok(gantry_module_load(s.gpu.context, &gantry_image_gate_kernels, &module));
        assert_ok(gantry_module_get_kernel(module, "hold", &gate.hold));
        assert_ok(gantry_heap_alloc(heap, GANTRY_MEMORY_PINNED, 64, 0, GANTRY_ALLOC_SITE("gate"), &words));
        assert_ok(gantry_heap_device_address(heap, words, &device_words));
        memset(words, 0, 64);
        gate.words = words;
        gate.device_words = device_words;
        if (gate.controlled) {
            gate.emu.reset_counters();
        }
        gantry_partition *bulk = gantry_partition_at(s.gpu.context, 1);
        gantry_task_desc held = GANTRY_TASK_DESC_INIT;
        gantry_task *task;
        gate.completes = gpu_fixture_cpu(&s.gpu, "long is done", nothing, NULL);
        held.kind = GANTRY_TASK_KERNEL;
        held.launch = launch_hold;
        held.arg = &gate;
        held.partition = bulk;
        assert_ok(gantry_taskman_submit(s.gpu.manager, &held, &task));
        gpu_fixture_after(gate.completes, task);
        struct job *job = &s.jobs[0];
        *job =
            (struct job){.scene = &s, .seen = s.device, .partition = gantry_partition_at(s.gpu.context, 0)};
        job->expected = job->partition;
        job->completes = gpu_fixture_cpu(&s.gpu, "short is done", open_gate, &gate);
        gantry_task *kernel = submit(&s, GANTRY_TASK_KERNEL, launch_audit, job);
        gantry_task *back = submit(&s, GANTRY_TASK_DTOH, launch_back, job);
        gpu_fixture_after(kernel, gpu_fixture_cpu(&s.gpu, "long has begun", await_hold, &gate));
        gpu_fixture_after(back, kernel);
        gpu_fixture_after(job->completes, back);
        assert_ok(gpu_fixture_step(&s.gpu));
        assert_int_equal(job->errors, 0);
        assert_ok(gantry_heap_free(heap, words));
        close_scene(&s);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_tasks_stay_in_their_partition),
        cmocka_unit_test(test_stable_tasks_stay_in_their_partition),
        cmocka_unit_test(test_no_stream_is_outside_of_a_partition),
        cmocka_unit_test(test_copies_and_fills_run_where_their_task_does),
        cmocka_unit_test(test_kept_work_stays_in_its_partition),
        cmocka_unit_test(test_borrowed_sms_are_used),
        cmocka_unit_test(test_a_manager_names_a_partition),
        cmocka_unit_test(test_foreign_partitions_are_refused),
        cmocka_unit_test(test_every_partition_has_a_stream_whatever_the_limit),
        cmocka_unit_test(test_completions_do_not_wait_for_another_partition),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
