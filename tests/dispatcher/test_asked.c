/* SPDX-License-Identifier: MIT */
/* Tasks whose calls say what they access: the same edges as from a list, nothing enqueued at submission, and
 * whatever else a callback does is refused by name. */
#include "base/alloc.h"
#include "tests/support/cmocka_c11.h"
#include "tests/support/gpu_fixture.h"

#include <gantry/access.h>
#include <gantry/copy.h>

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { WORDS = 64, BYTES = WORDS * 4, MANY = 40 };

struct scene {
    struct gpu_fixture gpu;
    uint32_t *host, *device; /* page-locked, and of the device; WORDS each */
    uint32_t *other;         /* of the device */
};

static uint32_t *allocate(const struct scene *s, gantry_memory_kind kind)
{
    void *block;
    assert_ok(gantry_heap_alloc(gantry_context_heap(s->gpu.context), kind, BYTES, 0,
                                GANTRY_ALLOC_SITE("asked"), &block));
    return block;
}

static int open_scene(void **state)
{
    static struct scene scene;
    gpu_fixture_open(&scene.gpu, 1, 0);
    scene.host = allocate(&scene, GANTRY_MEMORY_PINNED);
    scene.device = allocate(&scene, GANTRY_MEMORY_DEVICE);
    scene.other = allocate(&scene, GANTRY_MEMORY_DEVICE);
    *state = &scene;
    return 0;
}

static int close_scene(void **state)
{
    struct scene *s = *state;
    uint32_t *blocks[] = {s->host, s->device, s->other};
    for (size_t i = 0; i < sizeof(blocks) / sizeof(blocks[0]); i++) {
        assert_ok(gantry_heap_free(gantry_context_heap(s->gpu.context), blocks[i]));
    }
    gpu_fixture_close(&s->gpu);
    return 0;
}

/* ---- tasks ---------------------------------------------------------------------------------------- */

struct work;
typedef gantry_status make_calls(const struct scene *s, gantry_launch *launch, struct work *work);

/* A task: what its callback calls, and how often it was called. */
struct work {
    struct scene *scene;
    make_calls *calls;
    uint32_t value, asked, launched, turns; /* turns: beside the last call */
    uint32_t layers;                        /* of a box */
    gantry_status refused;                  /* what it submits */
};

/* A launch of no task is one that is asked. */
static gantry_launch_result launch(gantry_launch *call, void *arg)
{
    struct work *work = arg;
    ++*(gantry_launch_task(call) == NULL ? &work->asked : &work->launched);
    if (work->calls(work->scene, call, work) != GANTRY_OK) {
        return GANTRY_LAUNCH_FAILED;
    }
    return gantry_launch_index(call) < work->turns ? GANTRY_LAUNCH_AGAIN : GANTRY_LAUNCH_DONE;
}

static gantry_status submit(struct work *work, gantry_task **out)
{
    gantry_task_desc desc = GANTRY_TASK_DESC_INIT;
    desc.kind = GANTRY_TASK_KERNEL;
    desc.label = "says it";
    desc.launch = launch;
    desc.arg = work;
    desc.calls_say_accesses = true;
    return gantry_taskman_submit(work->scene->gpu.manager, &desc, out);
}

static uint64_t edges_from_data(const struct scene *s)
{
    gantry_taskman_stats stats = {.struct_size = sizeof(stats)};
    assert_ok(gantry_taskman_get_stats(s->gpu.manager, &stats));
    return stats.edges_from_data;
}

static gantry_launch_result launch_nothing(gantry_launch *call, void *arg)
{
    (void)call;
    (void)arg;
    return GANTRY_LAUNCH_DONE;
}

/* Edges to a task that has declared these accesses, all of which are there, and to none from `nowhere`. */
static void assert_behind(const struct scene *s, const gantry_access *accesses, size_t count, uint64_t edges)
{
    const uint64_t before = edges_from_data(s);
    gantry_task *task;
    gantry_task_desc desc = GANTRY_TASK_DESC_INIT;
    desc.kind = GANTRY_TASK_KERNEL;
    desc.label = "behind";
    desc.launch = launch_nothing;
    desc.accesses = accesses;
    desc.access_count = (uint32_t)count;
    assert_ok(gantry_taskman_submit(s->gpu.manager, &desc, &task));
    assert_int_equal(edges_from_data(s) - before, edges);
}

/* ---- what says it --------------------------------------------------------------------------------- */

static gantry_status fill_device(const struct scene *s, gantry_launch *launch, struct work *work)
{
    return gantry_launch_fill(launch, s->device, work->value, 4, WORDS);
}

static gantry_status copy_on_device(const struct scene *s, gantry_launch *launch, struct work *work)
{
    (void)work;
    return gantry_launch_copy_dtod(launch, s->other, s->device, BYTES);
}

static gantry_status copy_down(const struct scene *s, gantry_launch *launch, struct work *work)
{
    (void)work;
    return gantry_launch_copy_dtoh(launch, s->host, s->other, BYTES);
}

static gantry_status copy_up(const struct scene *s, gantry_launch *launch, struct work *work)
{
    (void)work;
    return gantry_launch_copy_htod(launch, s->device, s->host, BYTES);
}

/* fill, copy on the device, copy down, copy up: each comes after the one before, and by that the last one also
 * after what reads the device's words. */
static void test_calls_give_the_edges_of_a_list(void **state)
{
    struct scene *s = *state;
    make_calls *const calls[] = {fill_device, copy_on_device, copy_down, copy_up};
    struct work work[4];
    gantry_task *task;
    for (int run = 0; run < 2; run++) {
        for (uint32_t i = 0; i < 4; i++) {
            work[i] = (struct work){.scene = s, .calls = calls[i], .value = 7};
            assert_ok(submit(&work[i], &task));
        }
        assert_int_equal(edges_from_data(s), 3);
        assert_ok(gpu_fixture_step(&s->gpu));
        assert_ok(gantry_context_synchronize(s->gpu.context));
        for (uint32_t i = 0; i < 4; i++) {
            assert_int_equal(work[i].asked, 1);
            assert_int_equal(work[i].launched, 1);
        }
        assert_int_equal(s->host[WORDS - 1], 7);
        memset(s->host, 0, BYTES);
    }
}

/* ---- each kind of call ---------------------------------------------------------------------------- */

static gantry_status fill_by_turns(const struct scene *s, gantry_launch *launch, struct work *work)
{
    return gantry_launch_fill(launch, &s->device[gantry_launch_index(launch)], work->value, 4, 1);
}

static void test_each_turn_is_asked(void **state)
{
    struct scene *s = *state;
    struct work work = {.scene = s, .calls = fill_by_turns, .turns = MANY - 1};
    gantry_task *task;
    assert_ok(submit(&work, &task));
    assert_int_equal(work.asked, MANY);
    for (uint32_t i = 0; i <= MANY; i++) {
        const gantry_access read = GANTRY_READS(&s->device[i], 4);
        assert_behind(s, &read, 1, i < MANY);
    }
    assert_ok(gpu_fixture_step(&s->gpu));
    assert_int_equal(work.launched, MANY);
}

static gantry_status copy_batch(const struct scene *s, gantry_launch *launch, struct work *work)
{
    (void)work;
    const gantry_copy_desc descs[] = {
        {.dest = s->device, .source = s->host, .bytes = 4, .type = GANTRY_COPY_HTOD},
        {.dest = &s->device[8], .bytes = 8, .type = GANTRY_COPY_FILL, .pattern_bytes = 4},
        {.dest = &s->device[16], .bytes = 0, .type = GANTRY_COPY_FILL, .pattern_bytes = 4},
    };
    return gantry_copy_launch(launch, descs, 3);
}

/* Two layers of two rows of a word: on one side 4 words apart and 16 from layer to layer, on the other all
 * the same word. */
static gantry_status copy_box(const struct scene *s, gantry_launch *launch, struct work *work)
{
    gantry_copy_box box = GANTRY_COPY_BOX_INIT;
    box.dest = s->device;
    box.source = s->other;
    box.width = 4;
    box.rows = 2;
    box.layers = work->layers;
    box.dest_pitch = 3 * sizeof(uint32_t);
    box.dest_layer_pitch = 8 * sizeof(uint32_t);
    return gantry_copy_launch_box(launch, &box, NULL);
}

static void assert_words(struct scene *s, struct work work, const uint32_t *base, gantry_access_mode mode,
                         uint64_t touched)
{
    gantry_task *task;
    assert_ok(submit(&work, &task));
    for (uint32_t i = 0; i < 24; i++) {
        const gantry_access access = {&base[i], 4, 1, 0, mode, 0};
        assert_behind(s, &access, 1, touched >> i & 1);
    }
    assert_ok(gpu_fixture_step(&s->gpu));
}

static void test_batches_and_boxes(void **state)
{
    struct scene *s = *state;
    const struct work batch = {.scene = s, .calls = copy_batch};
    const struct work rows = {.scene = s, .calls = copy_box, .layers = 1};
    const struct work layers = {.scene = s, .calls = copy_box, .layers = 2};
    assert_words(s, batch, s->device, GANTRY_ACCESS_READ, 0x301);
    assert_words(s, batch, s->host, GANTRY_ACCESS_READ, 0); /* it is just read */
    assert_words(s, batch, s->host, GANTRY_ACCESS_WRITE, 1);
    assert_words(s, rows, s->device, GANTRY_ACCESS_READ, 0x9);
    assert_words(s, rows, s->other, GANTRY_ACCESS_WRITE, 1);
    assert_words(s, layers, s->device, GANTRY_ACCESS_READ, 0xfff);
    assert_words(s, layers, s->other, GANTRY_ACCESS_WRITE, 1);
}

/* ---- what does not say it ------------------------------------------------------------------------- */

static gantry_status ask_for_stream(const struct scene *s, gantry_launch *launch, struct work *work)
{
    (void)s;
    (void)work;
    return gantry_launch_stream(launch) == NULL ? GANTRY_ERR_UNSUPPORTED : GANTRY_OK;
}

static gantry_status ask_for_capture(const struct scene *s, gantry_launch *launch, struct work *work)
{
    (void)s;
    (void)work;
    return gantry_launch_capture_stream(launch) == NULL ? GANTRY_ERR_UNSUPPORTED : GANTRY_OK;
}

static gantry_status launch_kernel(const struct scene *s, gantry_launch *launch, struct work *work)
{
    (void)s;
    (void)work;
    return gantry_launch_kernel(launch, NULL, (gantry_dim3){1, 1, 1}, (gantry_dim3){1, 1, 1}, 0, NULL);
}

static gantry_status take_memory(const struct scene *s, gantry_launch *launch, struct work *work)
{
    void *block;
    (void)s;
    (void)work;
    const gantry_status status =
        gantry_launch_alloc(launch, GANTRY_MEMORY_DEVICE, 16, 0, GANTRY_ALLOC_SITE("asked"), &block);
    return status != GANTRY_OK ? GANTRY_OK : GANTRY_ERR_STATE; /* it goes on */
}

static gantry_status give_memory(const struct scene *s, gantry_launch *launch, struct work *work)
{
    (void)work;
    return gantry_free_after(s->other, launch);
}

static gantry_status copy_list(const struct scene *s, gantry_launch *launch, struct work *work)
{
    gantry_copy_list list = GANTRY_COPY_LIST_INIT;
    (void)s;
    (void)work;
    return gantry_copy_launch_list(launch, &list, NULL);
}

static gantry_status ask_for_point(const struct scene *s, gantry_launch *launch, struct work *work)
{
    (void)s;
    (void)work;
    return gantry_launch_request_sync_point(launch);
}

static gantry_status flush_queue(const struct scene *s, gantry_launch *launch, struct work *work)
{
    gantry_copy_queue *queue;
    (void)work;
    const gantry_copy_desc desc = {
        .dest = s->device, .bytes = 4, .type = GANTRY_COPY_FILL, .pattern_bytes = 4};
    assert_ok(gantry_copy_queue_create(1, &queue));
    assert_ok(gantry_copy_queue_enqueue(queue, &desc));
    const gantry_status status = gantry_copy_queue_flush(queue, launch);
    assert_int_equal(gantry_copy_queue_count(queue), 1);
    gantry_copy_queue_destroy(queue);
    return status;
}

static void test_other_calls_are_refused_by_name(void **state)
{
    static const struct {
        make_calls *calls;
        const char *name;
    } others[] = {
        {ask_for_stream, "gantry_launch_stream()"},
        {ask_for_capture, "gantry_launch_capture_stream()"},
        {launch_kernel, "gantry_launch_kernel()"},
        {take_memory, "gantry_launch_alloc()"},
        {give_memory, "gantry_free_after()"},
        {copy_list, "gantry_copy_launch_list()"},
        {ask_for_point, "gantry_launch_request_sync_point()"},
        {flush_queue, "gantry_copy_queue_flush()"},
    };
    struct scene *s = *state;
    for (size_t i = 0; i < sizeof(others) / sizeof(others[0]); i++) {
        struct work work = {.scene = s, .calls = others[i].calls};
        gantry_task *task = NULL;
        assert_int_equal(submit(&work, &task), GANTRY_ERR_UNSUPPORTED);
        assert_null(task);
        assert_non_null(strstr(gantry_last_error(), "task 'says it'"));
        assert_non_null(strstr(gantry_last_error(), others[i].name));
    }
    gantry_taskman_stats stats = {.struct_size = sizeof(stats)};
    assert_ok(gantry_taskman_get_stats(s->gpu.manager, &stats));
    assert_int_equal(stats.tasks, 0);
    gantry_heap_block block = {.struct_size = sizeof(block)};
    assert_ok(gantry_heap_find_block(gantry_context_heap(s->gpu.context), s->other, &block)); /* it is live */
}

static gantry_status fail_so(const struct scene *s, gantry_launch *launch, struct work *work)
{
    (void)s;
    (void)work;
    (void)gantry_launch_fail(launch, GANTRY_ERR_IO);
    return GANTRY_ERR_IO;
}

static gantry_status fail_silently(const struct scene *s, gantry_launch *launch, struct work *work)
{
    (void)s;
    (void)launch;
    (void)work;
    return GANTRY_ERR_IO;
}

static gantry_status copy_from_null(const struct scene *s, gantry_launch *launch, struct work *work)
{
    (void)work;
    return gantry_launch_copy_htod(launch, s->device, NULL, 4);
}

static gantry_status fill_too_much(const struct scene *s, gantry_launch *launch, struct work *work)
{
    (void)work;
    return gantry_launch_fill(launch, s->device, 0, 4, SIZE_MAX / 2);
}

static gantry_status box_without_end(const struct scene *s, gantry_launch *launch, struct work *work)
{
    gantry_copy_box box = GANTRY_COPY_BOX_INIT;
    (void)work;
    box.dest = s->device;
    box.source = s->other;
    box.width = UINT64_MAX / 2;
    box.rows = 4;
    box.dest_pitch = UINT64_MAX / 2;
    box.source_pitch = UINT64_MAX / 2 - 1;
    return gantry_copy_launch_box(launch, &box, NULL);
}

static void test_what_fails(void **state)
{
    static const struct {
        make_calls *calls;
        gantry_status status;
    } failing[] = {
        {fail_so, GANTRY_ERR_IO},
        {fail_silently, GANTRY_ERR_TASK_FAILED},
        {copy_from_null, GANTRY_ERR_INVALID_ARGUMENT},
        {fill_too_much, GANTRY_ERR_INVALID_ARGUMENT},
        {box_without_end, GANTRY_ERR_INVALID_ARGUMENT},
    };
    struct scene *s = *state;
    gantry_task *task = NULL;
    for (size_t i = 0; i < sizeof(failing) / sizeof(failing[0]); i++) {
        struct work work = {.scene = s, .calls = failing[i].calls};
        assert_int_equal(submit(&work, &task), failing[i].status);
        assert_null(task);
    }
    const gantry_access read = GANTRY_READS(s->device, 4);
    gantry_task_desc desc = GANTRY_TASK_DESC_INIT;
    struct work work = {.scene = s, .calls = fill_device};
    desc.kind = GANTRY_TASK_KERNEL;
    desc.launch = launch;
    desc.arg = &work;
    desc.calls_say_accesses = true;
    desc.accesses = &read;
    desc.access_count = 1;
    assert_int_equal(gantry_taskman_submit(s->gpu.manager, &desc, &task), GANTRY_ERR_INVALID_ARGUMENT);
    desc.access_count = 0;
    desc.kind = GANTRY_TASK_SYNC_POINT;
    assert_int_equal(gantry_taskman_submit(s->gpu.manager, &desc, &task), GANTRY_ERR_INVALID_ARGUMENT);
    assert_int_equal(work.asked, 0);
}

/* ---- where it is submitted ------------------------------------------------------------------------ */

/* From a launch callback, whose thread may enqueue: what is asked there does not. */
static gantry_status submit_more(const struct scene *s, gantry_launch *launch, struct work *work)
{
    struct work *more = work + 1;
    gantry_task *task;
    (void)s;
    (void)launch;
    work->refused = submit(&more[1], &task);
    const gantry_status status = submit(&more[0], &task);
    return status == GANTRY_OK ? gantry_task_remove_reference(task) : status;
}

static gantry_status count_nothing(const struct scene *s, gantry_launch *launch, struct work *work)
{
    const uint64_t before = gpu_fixture_stats((struct gpu_fixture *)(uintptr_t)&s->gpu).copies;
    const gantry_status status = fill_device(s, launch, work);
    if (gantry_launch_task(launch) == NULL) {
        work->value = gpu_fixture_stats((struct gpu_fixture *)(uintptr_t)&s->gpu).copies == before;
    }
    return status;
}

static void test_it_may_be_submitted_by_a_callback(void **state)
{
    struct scene *s = *state;
    struct work work[3] = {{.scene = s, .calls = submit_more},
                           {.scene = s, .calls = count_nothing},
                           {.scene = s, .calls = ask_for_point}};
    (void)gpu_fixture_gpu(&s->gpu, GANTRY_TASK_KERNEL, "submits more", launch, &work[0]);
    assert_ok(gpu_fixture_step(&s->gpu));
    assert_ok(gantry_context_synchronize(s->gpu.context));
    assert_int_equal(work[1].asked, 1);
    assert_int_equal(work[1].launched, 1);
    assert_int_equal(work[1].value, 1);
    assert_int_equal(work[0].refused, GANTRY_ERR_UNSUPPORTED);
}

/* Behind one that is named, and one that only its bytes name. */
static void test_edges_by_hand_are_mixed_in(void **state)
{
    struct scene *s = *state;
    struct work work[2] = {{.scene = s, .calls = fill_device}, {.scene = s, .calls = copy_on_device}};
    gantry_task *first, *second, *by_hand = gpu_fixture_cpu(&s->gpu, "by hand", NULL, NULL);
    gantry_taskman_stats stats = {.struct_size = sizeof(stats)};
    gantry_task_desc desc = GANTRY_TASK_DESC_INIT;
    assert_ok(submit(&work[0], &first));
    desc.kind = GANTRY_TASK_KERNEL;
    desc.name = "named";
    desc.launch = launch;
    desc.arg = &work[1];
    desc.calls_say_accesses = true;
    assert_ok(gantry_taskman_submit_after(s->gpu.manager, &desc, &by_hand, 1, &second));
    assert_int_equal(work[1].asked, 1);
    assert_ok(gantry_taskman_get_stats(s->gpu.manager, &stats));
    assert_int_equal(stats.edges, 2);
    assert_int_equal(stats.edges_from_data, 1);
    assert_ok(gpu_fixture_step(&s->gpu));
}

static void test_memory_that_is_short(void **state)
{
    struct scene *s = *state;
    gantry_status status = GANTRY_ERR_OUT_OF_HOST_MEMORY;
    for (long n = 0; status != GANTRY_OK; n++) {
        struct work work = {.scene = s, .calls = fill_by_turns, .turns = MANY - 1};
        gantry_task *task = NULL;
        gy_fault_arm(n);
        status = submit(&work, &task);
        gy_fault_arm(-1);
        assert_true(status == GANTRY_OK || status == GANTRY_ERR_OUT_OF_HOST_MEMORY);
        assert_true(status == GANTRY_OK || task == NULL);
        assert_ok(gantry_taskman_reset(s->gpu.manager));
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_calls_give_the_edges_of_a_list),
        cmocka_unit_test(test_each_turn_is_asked),
        cmocka_unit_test(test_batches_and_boxes),
        cmocka_unit_test(test_other_calls_are_refused_by_name),
        cmocka_unit_test(test_what_fails),
        cmocka_unit_test(test_it_may_be_submitted_by_a_callback),
        cmocka_unit_test(test_edges_by_hand_are_mixed_in),
        cmocka_unit_test(test_memory_that_is_short),
    };
    return cmocka_run_group_tests(tests, open_scene, close_scene);
}
