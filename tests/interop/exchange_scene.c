/* SPDX-License-Identifier: MIT */
#include "tests/interop/exchange_scene.h"
#include "tests/partition/plan_support.h"

#include <pthread.h>
#include <stdlib.h>

gantry_exchange_way scene_way = GANTRY_EXCHANGE_DEVICE;

static gantry_launch_result filter(gantry_launch *launch, void *arg)
{
    struct scene *s = arg;
    return gantry_launch_copy_dtod(launch, s->frame + WORDS, s->frame, WORDS * 4) == GANTRY_OK
               ? GANTRY_LAUNCH_DONE
               : GANTRY_LAUNCH_FAILED;
}

static gantry_task *stable(struct scene *s, gantry_task_kind kind, const char *label, gantry_launch_fn launch)
{
    gantry_task_desc desc = {.struct_size = sizeof(desc),
                             .kind = kind,
                             .label = label,
                             .launch = launch,
                             .arg = s,
                             .is_stable = true};
    gantry_task *task;
    assert_ok(gantry_taskman_submit(s->gpu.manager, &desc, &task));
    return task;
}

void scene_build(struct scene *s)
{
    assert_ok(gantry_exchange_tasks(s->exchange, s->gpu.manager, &s->acquire, &s->release));
    s->work = stable(s, GANTRY_TASK_KERNEL, "filter", filter);
    gpu_fixture_after(s->work, s->acquire);
    gpu_fixture_after(s->release, s->work);
}

/* Memory that the renderer and the context share.  The renderer has a mapping of its own, as another API
 * would have. */
static void open_frame(struct scene *s)
{
    int fd = memfd_create("frame", MFD_CLOEXEC);
    assert_int_equal(ftruncate(fd, FRAME_BYTES), 0);
    void *mapped = mmap(NULL, FRAME_BYTES, PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0);
    assert_true(mapped != MAP_FAILED);
    s->in = mapped;
    s->out = s->in + WORDS;
    gantry_shared_memory_options options = GANTRY_SHARED_MEMORY_OPTIONS_INIT;
    options.fd = fd;
    options.bytes = FRAME_BYTES;
    assert_ok(gantry_shared_memory_import(s->gpu.context, &options, &s->memory));
    assert_ok(gantry_shared_memory_map(s->memory, 0, FRAME_BYTES, (void **)&s->frame));
}

gantry_exchange_options scene_options(int wait_fd, int signal_fd, uint64_t timeout_ns)
{
    gantry_exchange_options options = GANTRY_EXCHANGE_OPTIONS_INIT;
    options.way = scene_way;
    options.wait_fd = wait_fd;
    options.signal_fd = signal_fd;
    options.timeout_ns = timeout_ns;
    options.label = "frame";
    return options;
}

static void open_context_with(struct scene *s, gantry_context_options *context)
{
    memset(s, 0, sizeof(*s));
    context->driver = GANTRY_DRIVER_EMULATED;
    gpu_fixture_open_with(&s->gpu, 2, context);
    gantry_heap *heap = gantry_context_heap(s->gpu.context);
    gantry_alloc_site site = GANTRY_ALLOC_SITE("frame");
    assert_ok(gantry_heap_alloc(heap, GANTRY_MEMORY_PINNED, WORDS * 4, 0, site, (void **)&s->seen));
    assert_ok(gantry_heap_alloc(heap, GANTRY_MEMORY_DEVICE, WORDS * 4, 0, site, (void **)&s->other));
    open_frame(s);
}

void scene_open_context(struct scene *s, gantry_submission submission, const gantry_partition_options *plan)
{
    gantry_context_options context = GANTRY_CONTEXT_OPTIONS_INIT;
    context.submission = submission;
    context.partitions = plan;
    open_context_with(s, &context);
}

void scene_replace_manager(struct scene *s, const gantry_share *share, bool independent_steps)
{
    gantry_taskman_options options = GANTRY_TASKMAN_OPTIONS_INIT;
    gantry_taskman_destroy(s->gpu.manager);
    options.cpu_dispatcher = s->gpu.cpus;
    options.gpu_dispatcher = gantry_context_dispatcher(s->gpu.context);
    options.share = share;
    options.independent_steps = independent_steps;
    assert_ok(gantry_taskman_create(&options, &s->gpu.manager));
}

void scene_open_with_partition(struct scene *s)
{
    gantry_partition_request requests[1] = {request("part", GANTRY_PARTITION_AT_LEAST, 16)};
    gantry_partition_options plan = GANTRY_PARTITION_OPTIONS_INIT;
    plan.requests = requests;
    plan.count = 1;
    scene_open_context(s, GANTRY_SUBMISSION_STREAMS, &plan);
}

void scene_open_with_streams(struct scene *s, uint32_t limit, gantry_submission submission)
{
    gantry_context_options context = GANTRY_CONTEXT_OPTIONS_INIT;
    context.submission = submission;
    context.stream_limit = limit;
    open_context_with(s, &context);
}

void scene_open_exchange(struct scene *s, uint64_t timeout_ns)
{
    int drawn = gy_timeline_file_create(&s->drawn), filtered = gy_timeline_file_create(&s->filtered);
    gantry_exchange_options options = scene_options(drawn, filtered, timeout_ns);
    s->drawn_fd = dup(drawn);
    assert_ok(gantry_exchange_create(s->gpu.context, &options, &s->exchange));
}

void scene_open(struct scene *s, uint64_t timeout_ns, gantry_submission submission)
{
    scene_open_context(s, submission, NULL);
    scene_open_exchange(s, timeout_ns);
}

void scene_close_timelines(struct scene *s)
{
    close(s->drawn_fd);
    munmap(s->in, FRAME_BYTES);
    munmap(s->drawn, GY_TIMELINE_FILE_BYTES);
    munmap(s->filtered, GY_TIMELINE_FILE_BYTES);
}

void scene_close(struct scene *s)
{
    gantry_heap *heap = gantry_context_heap(s->gpu.context);
    gantry_exchange_destroy(s->exchange);
    gantry_status done = gantry_context_synchronize(s->gpu.context);
    assert_true(done == GANTRY_OK || done == GANTRY_ERR_DEVICE_LOST);
    assert_ok(gantry_heap_free(heap, s->seen));
    assert_ok(gantry_heap_free(heap, s->other));
    gantry_shared_memory_destroy(s->memory);
    gpu_fixture_close(&s->gpu);
    scene_close_timelines(s);
}

void scene_draw(struct scene *s, uint32_t frame)
{
    for (uint32_t i = 0; i < WORDS; i++) {
        s->in[i] = frame * 7919 + i;
    }
    memset(s->out, 0, WORDS * 4);
    gy_timeline_file_signal(s->drawn, frame);
}

static void *draw_frames(void *arg)
{
    struct scene *s = arg;
    for (uint32_t frame = 1; frame <= FRAMES; frame++) {
        if (s->draws_late) {
            usleep(300);
        }
        scene_draw(s, frame);
        uint64_t until = gy_clock_ns() + 20000 * MS;
        while (gy_timeline_file_read(s->filtered) < frame) {
            if (gy_clock_ns() > until) {
                s->wrong++;
                return NULL;
            }
            usleep(50);
        }
        for (uint32_t i = 0; i < WORDS; i++) {
            s->wrong += s->out[i] != frame * 7919 + i;
        }
    }
    return NULL;
}

void scene_run_frames(struct scene *s, bool frozen, bool draws_late)
{
    pthread_t renderer;
    scene_open_exchange(s, 20000 * MS);
    s->draws_late = draws_late;
    assert_int_equal(pthread_create(&renderer, NULL, draw_frames, s), 0);
    for (uint32_t frame = 1; frame <= FRAMES; frame++) {
        if (frame == 1 || !frozen) {
            scene_build(s);
        }
        if (frame == 1 && frozen) {
            assert_ok(gantry_taskman_freeze(s->gpu.manager));
        }
        assert_ok(gantry_exchange_next(s->exchange, frame, frame));
        assert_ok(gantry_taskman_start(s->gpu.manager));
        assert_ok(gantry_taskman_stop(s->gpu.manager));
        if (!frozen) {
            assert_ok(gantry_taskman_reset(s->gpu.manager));
        }
    }
    pthread_join(renderer, NULL);
    assert_int_equal(s->wrong, 0);
    gantry_exchange_stats stats = {.struct_size = sizeof(stats)};
    assert_ok(gantry_exchange_get_stats(s->exchange, &stats));
    assert_int_equal(stats.steps, FRAMES);
    assert_int_equal(stats.signalled, FRAMES);
    assert_true(stats.acquire_ns > 0 && stats.release_ns > 0);
    assert_false(gantry_exchange_is_lost(s->exchange));
}

static void run_scene(gantry_submission submission, bool frozen, bool draws_late)
{
    struct scene s;
    scene_open_context(&s, submission, NULL);
    scene_run_frames(&s, frozen, draws_late);
    scene_close(&s);
}

gantry_launch_result scene_fill_other(gantry_launch *launch, void *arg)
{
    struct scene *s = arg;
    return gantry_launch_fill(launch, s->other, 3, 4, WORDS) == GANTRY_OK ? GANTRY_LAUNCH_DONE
                                                                          : GANTRY_LAUNCH_FAILED;
}

static gantry_launch_result download(gantry_launch *launch, void *arg)
{
    struct scene *s = arg;
    return gantry_launch_copy_dtoh(launch, s->seen, s->other, WORDS * 4) == GANTRY_OK ? GANTRY_LAUNCH_DONE
                                                                                      : GANTRY_LAUNCH_FAILED;
}

/* While a step waits, another manager's work goes on. */
void scene_expect_others_go_on(struct scene *s)
{
    gantry_taskman_options options = GANTRY_TASKMAN_OPTIONS_INIT;
    gantry_task_desc fill = {
        .struct_size = sizeof(fill), .kind = GANTRY_TASK_KERNEL, .launch = scene_fill_other, .arg = s};
    gantry_task_desc copy = {
        .struct_size = sizeof(copy), .kind = GANTRY_TASK_DTOH, .launch = download, .arg = s};
    gantry_task_desc seen = {.struct_size = sizeof(seen), .kind = GANTRY_TASK_SYNC_POINT};
    gantry_taskman *other;
    gantry_task *first, *second, *done;
    options.gpu_dispatcher = gantry_context_dispatcher(s->gpu.context);
    assert_ok(gantry_taskman_create(&options, &other));
    assert_ok(gantry_taskman_submit(other, &fill, &first));
    assert_ok(gantry_taskman_submit(other, &copy, &second));
    assert_ok(gantry_taskman_submit(other, &seen, &done));
    assert_ok(gantry_task_start_after(second, first));
    assert_ok(gantry_task_start_after_done(done, second));
    assert_ok(gantry_taskman_start(other));
    assert_ok(gantry_taskman_stop(other));
    assert_int_equal(s->seen[0], 3);
    assert_int_equal(s->seen[WORDS - 1], 3);
    gantry_taskman_destroy(other);
}

/* Returns when the wait is enqueued. */
static void until_it_waits(struct scene *s)
{
    gantry_exchange_stats stats = {.struct_size = sizeof(stats)};
    deadline_begin("the wait to be enqueued");
    do {
        usleep(1000);
        assert_ok(gantry_exchange_get_stats(s->exchange, &stats));
    } while (stats.acquire_ns == 0);
    deadline_end();
}

void scene_start(struct scene *s)
{
    assert_ok(gantry_exchange_next(s->exchange, 1, 1));
    assert_ok(gantry_taskman_start(s->gpu.manager));
    until_it_waits(s);
}

void scene_finish(struct scene *s)
{
    scene_draw(s, 1);
    assert_ok(gantry_taskman_stop(s->gpu.manager));
    assert_ok(gantry_context_synchronize(s->gpu.context));
}

void scene_start_waiting(struct scene *s, uint64_t timeout_ns)
{
    scene_open(s, timeout_ns, GANTRY_SUBMISSION_STREAMS);
    scene_build(s);
    scene_start(s);
}

/* ---- cases of either way ---------------------------------------------------------------------- */

void scene_frames_go_back_and_forth(void **state)
{
    (void)state;
    run_scene(GANTRY_SUBMISSION_STREAMS, false, false);
    run_scene(GANTRY_SUBMISSION_STREAMS, true, true);
    run_scene(GANTRY_SUBMISSION_GRAPHS, false, true);
    run_scene(GANTRY_SUBMISSION_GRAPHS, true, false);
    run_scene(GANTRY_SUBMISSION_AUTO, true, true);
}

void scene_destroying_the_context_ends_a_wait(void **state)
{
    (void)state;
    struct scene s;
    scene_start_waiting(&s, 3000000 * MS);
    gantry_context_destroy(s.gpu.context);
    assert_int_equal(gantry_taskman_stop(s.gpu.manager), GANTRY_ERR_DEVICE_LOST);
    assert_int_equal(gy_timeline_file_read(s.drawn), 1);
    assert_int_equal(gy_timeline_file_read(s.filtered), 0);
    gantry_taskman_destroy(s.gpu.manager);
    gantry_cpu_dispatcher_destroy(s.gpu.cpus);
    gantry_exchange_destroy(s.exchange);
    scene_close_timelines(&s);
}

void scene_a_lost_device_ends_a_wait(void **state)
{
    (void)state;
    struct scene s;
    struct gantry_emu_control emu;
    scene_start_waiting(&s, 3000000 * MS);
    assert_true(gpu_fixture_controls(&emu));
    assert_int_equal(emu.break_context(gantry_context_native(s.gpu.context), 719), 0);
    assert_int_equal(gantry_taskman_stop(s.gpu.manager), GANTRY_ERR_DEVICE_LOST);
    assert_true(gantry_exchange_is_lost(s.exchange));
    assert_int_equal(gy_timeline_file_read(s.filtered), 0);
    scene_close(&s);
}

/* Whatever call of the driver fails, the step fails, and nothing waits for ever. */
void scene_calls_that_fail_end_the_step(void **state)
{
    (void)state;
    static const char *const calls[] = {"cuWaitExternalSemaphoresAsync", "cuStreamWriteValue32",
                                        "cuSignalExternalSemaphoresAsync"};
    for (int i = 0; i < 3; i++) {
        struct scene s;
        struct gantry_emu_control emu;
        scene_open(&s, 20000 * MS, GANTRY_SUBMISSION_STREAMS);
        scene_build(&s);
        gy_timeline_file_signal(s.drawn, 1);
        assert_true(gpu_fixture_controls(&emu));
        assert_int_equal((emu.fail)(calls[i], 1, 1, GANTRY_EMU_ONCE), 0);
        assert_ok(gantry_exchange_next(s.exchange, 1, 1));
        assert_ok(gantry_taskman_start(s.gpu.manager));
        assert_int_equal(gantry_taskman_stop(s.gpu.manager), GANTRY_ERR_DRIVER);
        assert_non_null(strstr(gantry_last_error(), calls[i]));
        assert_ok(gantry_context_synchronize(s.gpu.context));
        assert_int_equal(gy_timeline_file_read(s.filtered), 0);
        assert_int_equal(gantry_exchange_is_lost(s.exchange), i < 2);
        emu.clear_faults();
        scene_close(&s);
    }
}

void scene_cancelling_ends_a_wait(void **state)
{
    (void)state;
    struct scene s;
    scene_start_waiting(&s, 3000000 * MS);
    assert_ok(gantry_taskman_cancel(s.gpu.manager));
    assert_int_equal(gantry_taskman_stop(s.gpu.manager), GANTRY_ERR_CANCELLED);
    assert_int_equal(gy_timeline_file_read(s.drawn), 1);
    assert_ok(gantry_context_synchronize(s.gpu.context));
    assert_int_equal(gy_timeline_file_read(s.filtered), 0);
    assert_true(gantry_exchange_is_lost(s.exchange));
    scene_close(&s);
}

void scene_destroying_it_ends_a_wait(void **state)
{
    (void)state;
    struct scene s;
    scene_start_waiting(&s, 3000000 * MS);
    gantry_exchange_destroy(s.exchange);
    s.exchange = NULL;
    assert_int_equal(gantry_taskman_stop(s.gpu.manager), GANTRY_ERR_CLOSED);
    assert_int_equal(gy_timeline_file_read(s.drawn), 1);
    assert_ok(gantry_context_synchronize(s.gpu.context));
    assert_int_equal(gy_timeline_file_read(s.filtered), 0);
    scene_close(&s);
}
