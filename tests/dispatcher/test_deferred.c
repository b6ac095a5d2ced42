/* SPDX-License-Identifier: MIT */
/* Blocks given back while the GPU still works: gantry_free_after(), gantry_launch_alloc(). */
#include "tests/support/cmocka_c11.h"
#include "tests/support/deadline.h"
#include "tests/support/gpu_fixture.h"

#include <pthread.h>
#include <stdint.h>
#include <string.h>

#define MIB ((size_t)1 << 20)
#define SITE GANTRY_ALLOC_SITE("test")
#define MANY 1000

/* The callbacks' inputs, and what they saw; read after the step. */
struct work {
    gantry_heap *heap;
    void *host;  /* the pinned source of a copy */
    void *block; /* a block that is given back after the copy */
    size_t bytes;
    gantry_status status; /* the status of the call under test */
    gantry_status again;  /* the status of a second one */
    void *reused;         /* from gantry_launch_alloc() on the same stream */
    void *elsewhere;      /* the same on another stream */
    void *many[MANY];
};

static void emulator_call(const char *symbol)
{
    void (*function)(void);
    void *address = gpu_fixture_emulator(symbol);
    if (address == NULL) {
        return;
    }
    memcpy(&function, &address, sizeof(function));
    function();
}

static uint64_t emulator_calls(const char *of)
{
    uint64_t (*function)(const char *);
    void *address = gpu_fixture_emulator("gantry_emu_calls");
    if (address == NULL) {
        return 0;
    }
    memcpy(&function, &address, sizeof(function));
    return function(of);
}

static bool is_emulated(void)
{
    return gpu_fixture_emulator("gantry_emu_hold") != NULL;
}

static void *allocate(struct work *work, gantry_memory_kind kind, size_t bytes)
{
    void *block = NULL;
    assert_ok(gantry_heap_alloc(work->heap, kind, bytes, 0, SITE, &block));
    return block;
}

/* The bytes that the library itself has; taken when the context is new. */
static uint64_t own[GANTRY_MEMORY_KIND_COUNT];

static uint64_t used_of(gantry_heap *heap, gantry_memory_kind kind)
{
    gantry_heap_stats stats = {.struct_size = sizeof(stats)};
    assert_ok(gantry_heap_get_stats(heap, kind, &stats));
    return stats.used_bytes;
}

static uint64_t used(struct work *work, gantry_memory_kind kind)
{
    return used_of(work->heap, kind) - own[kind];
}

static void open_work(struct gpu_fixture *f, struct work *work, size_t bytes)
{
    *work = (struct work){.heap = gantry_context_heap(f->context), .bytes = bytes};
    work->host = allocate(work, GANTRY_MEMORY_PINNED, bytes);
    memset(work->host, 1, bytes);
    work->block = allocate(work, GANTRY_MEMORY_DEVICE, bytes);
}

/* Wait until the last stream has passed: blocks that were given back come back by themselves. */
static void wait_for_frees(struct gpu_fixture *f)
{
    deadline_await(gpu_fixture_stats(f).frees_pending == 0, "blocks to come back when the GPU has passed");
}

static int open_fixture(void **state)
{
    static struct gpu_fixture fixture;
    gpu_fixture_open(&fixture, 1, 0);
    for (int kind = 0; kind < GANTRY_MEMORY_KIND_COUNT; kind++) {
        own[kind] = used_of(gantry_context_heap(fixture.context), (gantry_memory_kind)kind);
    }
    *state = &fixture;
    return 0;
}

static int close_fixture(void **state)
{
    emulator_call("gantry_emu_release"); /* after a failed assertion it is still held */
    gpu_fixture_close(*state);
    return 0;
}

/* ---- callbacks ---- */

static gantry_launch_result copy_and_free(gantry_launch *launch, void *arg)
{
    struct work *work = arg;
    work->status = gantry_launch_copy_htod(launch, work->block, work->host, work->bytes);
    if (work->status == GANTRY_OK) {
        work->status = gantry_free_after(work->block, launch);
    }
    work->again = gantry_free_after(work->block, launch);
    return GANTRY_LAUNCH_DONE;
}

static gantry_launch_result copy_free_and_reuse(gantry_launch *launch, void *arg)
{
    struct work *work = arg;
    (void)copy_and_free(launch, arg);
    work->again = gantry_launch_alloc(launch, GANTRY_MEMORY_DEVICE, work->bytes, 0, SITE, &work->reused);
    return GANTRY_LAUNCH_DONE;
}

static gantry_launch_result alloc_elsewhere(gantry_launch *launch, void *arg)
{
    struct work *work = arg;
    work->status = gantry_launch_alloc(launch, GANTRY_MEMORY_DEVICE, work->bytes, 0, SITE, &work->elsewhere);
    return GANTRY_LAUNCH_DONE;
}

static gantry_launch_result free_many(gantry_launch *launch, void *arg)
{
    struct work *work = arg;
    for (int i = 0; i < MANY && work->status == GANTRY_OK; i++) {
        work->status = gantry_free_after(work->many[i], launch);
    }
    return GANTRY_LAUNCH_DONE;
}

/* A task gives its block back and then asks again until another one's completion was told. */
struct asking {
    struct work work;
    gantry_task *told;
    _Atomic bool is_told;
    uint32_t calls;
};

static gantry_launch_result free_and_ask(gantry_launch *launch, void *arg)
{
    struct asking *asking = arg;
    if (asking->calls++ == 0) {
        (void)copy_and_free(launch, &asking->work);
    }
    return asking->is_told ? GANTRY_LAUNCH_DONE : GANTRY_LAUNCH_AGAIN;
}

static gantry_launch_result tell(gantry_launch *launch, void *arg)
{
    struct asking *asking = arg;
    assert_ok(gantry_launch_add_completion(launch, asking->told));
    return GANTRY_LAUNCH_DONE;
}

static gantry_status is_told(gantry_task *task, void *arg)
{
    struct asking *asking = arg;
    (void)task;
    asking->is_told = true;
    return GANTRY_OK;
}

/* Memory runs out, in this task or in another, after the copy was enqueued. */
static gantry_launch_result run_out_and_free(gantry_launch *launch, void *arg)
{
    struct work *work = arg;
    void *block = NULL;
    assert_ok(gantry_launch_copy_htod(launch, work->block, work->host, work->bytes));
    work->again = gantry_heap_alloc(work->heap, GANTRY_MEMORY_DEVICE, (size_t)1 << 50, 0, SITE, &block);
    work->status = gantry_free_after(work->block, launch);
    return GANTRY_LAUNCH_DONE;
}

/* ---- tests ---- */

/* Completions are flushed while a task asks again; the block that it gave back waits for the work after
 * that. */
static void test_block_of_a_task_that_asks_again_comes_back(void **state)
{
    struct gpu_fixture *f = *state;
    static struct asking asking;
    memset(&asking, 0, sizeof(asking));
    open_work(f, &asking.work, 3000);
    gantry_task_desc desc = GANTRY_TASK_DESC_INIT;
    desc.run = is_told;
    desc.arg = &asking;
    assert_ok(gantry_taskman_submit(f->manager, &desc, &asking.told));
    gpu_fixture_gpu(f, GANTRY_TASK_KERNEL, "asks", free_and_ask, &asking);
    gantry_task *tells = gpu_fixture_gpu(f, GANTRY_TASK_KERNEL, "tells", tell, &asking);
    assert_ok(gantry_task_start_after(asking.told, tells));
    assert_ok(gpu_fixture_step(f));
    assert_ok(asking.work.status);
    assert_true(asking.calls > 1);
    wait_for_frees(f);
    assert_int_equal(used(&asking.work, GANTRY_MEMORY_DEVICE), 0);
    assert_ok(gantry_heap_free(asking.work.heap, asking.work.host));
}

static void test_block_comes_back_when_its_stream_has_passed(void **state)
{
    struct gpu_fixture *f = *state;
    static const size_t sizes[] = {3000, 100000};
    for (int i = 0; i < 2; i++) {
        struct work work;
        open_work(f, &work, sizes[i]);
        emulator_call("gantry_emu_hold");
        gpu_fixture_gpu(f, GANTRY_TASK_HTOD, "copy", copy_and_free, &work);
        assert_ok(gpu_fixture_step(f));
        assert_ok(work.status);
        assert_int_equal(work.again, GANTRY_ERR_NOT_FOUND); /* it is not the application's any more */
        assert_int_equal(gantry_heap_free(work.heap, work.block), GANTRY_ERR_NOT_FOUND);
        if (is_emulated()) {
            assert_int_equal(gpu_fixture_stats(f).frees_pending, 1);
            assert_int_equal(used(&work, GANTRY_MEMORY_DEVICE), sizes[i]);
            void *other = allocate(&work, GANTRY_MEMORY_DEVICE, sizes[i]);
            assert_true(other != work.block); /* it is in use */
            assert_ok(gantry_heap_free(work.heap, other));
        }
        emulator_call("gantry_emu_release");
        wait_for_frees(f);
        assert_int_equal(used(&work, GANTRY_MEMORY_DEVICE), 0);
        assert_int_equal(gpu_fixture_stats(f).frees_deferred, i + 1);
        assert_ok(gantry_heap_free(work.heap, work.host));
    }
}

static void test_same_stream_has_the_memory_at_once_and_others_do_not(void **state)
{
    struct gpu_fixture *f = *state;
    static const size_t sizes[] = {3000, 100000};
    for (int i = 0; i < 2; i++) {
        struct work work;
        open_work(f, &work, sizes[i]);
        void *block = work.block;
        emulator_call("gantry_emu_hold");
        gpu_fixture_gpu(f, GANTRY_TASK_HTOD, "copy", copy_free_and_reuse, &work);
        struct work other = work;
        gpu_fixture_gpu(f, GANTRY_TASK_KERNEL, "elsewhere", alloc_elsewhere, &other);
        assert_ok(gpu_fixture_step(f));
        assert_ok(work.status);
        assert_ok(work.again);
        assert_ok(other.status);
        assert_ptr_equal(work.reused, block);
        assert_true(other.elsewhere != block);
        emulator_call("gantry_emu_release");
        wait_for_frees(f);
        assert_int_equal(gpu_fixture_stats(f).frees_reused, i + 1);
        /* the block that was used again is live */
        assert_int_equal(used(&work, GANTRY_MEMORY_DEVICE), 2 * sizes[i]);
        assert_ok(gantry_heap_free(work.heap, work.reused));
        assert_ok(gantry_heap_free(work.heap, other.elsewhere));
        assert_ok(gantry_heap_free(work.heap, work.host));
    }
}

/* Captured: the block is in use until the graph was launched, at the end of the batch, and has run. */
static void test_graphs_free_what_they_have_passed(void **state)
{
    struct gpu_fixture *f = *state;
    assert_ok(
        gantry_dispatcher_set_submission(gantry_context_dispatcher(f->context), GANTRY_SUBMISSION_GRAPHS));
    uint64_t graphs = gpu_fixture_stats(f).graph_launches;
    test_block_comes_back_when_its_stream_has_passed(state);
    assert_true(gpu_fixture_stats(f).graph_launches >= graphs + 2);
    struct work work;
    open_work(f, &work, 100000);
    void *block = work.block;
    gpu_fixture_gpu(f, GANTRY_TASK_HTOD, "copy", copy_free_and_reuse, &work);
    assert_ok(gpu_fixture_step(f));
    assert_ok(work.status);
    assert_ptr_equal(work.reused, block);
    wait_for_frees(f);
    assert_ok(gantry_heap_free(work.heap, work.reused));
    assert_ok(gantry_heap_free(work.heap, work.host));
    assert_int_equal(used(&work, GANTRY_MEMORY_DEVICE), 0);
}

static void test_many_frees_of_one_batch_all_come_back(void **state)
{
    struct gpu_fixture *f = *state;
    struct work work = {.heap = gantry_context_heap(f->context)};
    for (int i = 0; i < MANY; i++) {
        work.many[i] = allocate(&work, (gantry_memory_kind)(i % 4), i % 3 == 0 ? 50000 : 500);
    }
    gpu_fixture_gpu(f, GANTRY_TASK_KERNEL, "free", free_many, &work);
    assert_ok(gpu_fixture_step(f));
    assert_ok(work.status);
    wait_for_frees(f);
    for (int kind = 0; kind < GANTRY_MEMORY_KIND_COUNT; kind++) {
        assert_int_equal(used(&work, (gantry_memory_kind)kind), 0);
    }
}

static void test_steady_path_makes_no_device_wide_call(void **state)
{
    struct gpu_fixture *f = *state;
    static const char *const device_wide[] = {"cuMemFree",    "cuMemFreeHost",  "cuCtxSynchronize",
                                              "cuMemGetInfo", "cuMemHostAlloc", "cuMemAlloc",
                                              "cuMemUnmap",   "cuMemCreate"};
    struct work work;
    uint64_t before[8] = {0};
    for (int round = 0; round < 20; round++) {
        if (round == 2) { /* warm */
            for (int i = 0; i < 8; i++) {
                before[i] = emulator_calls(device_wide[i]);
            }
        }
        open_work(f, &work, 300000);
        gpu_fixture_gpu(f, GANTRY_TASK_HTOD, "copy", copy_and_free, &work);
        assert_ok(gpu_fixture_step(f));
        assert_ok(work.status);
        wait_for_frees(f);
        assert_ok(gantry_heap_free(work.heap, work.host));
    }
    for (int i = 0; i < 8; i++) {
        assert_int_equal(emulator_calls(device_wide[i]), before[i]);
    }
}

struct taker {
    struct work *work;
    gantry_status status;
    void *block;
};

static void *take_large(void *arg)
{
    struct taker *taker = arg;
    taker->status =
        gantry_heap_alloc(taker->work->heap, GANTRY_MEMORY_DEVICE, 40 * MIB, 0, SITE, &taker->block);
    return NULL;
}

static void test_running_out_waits_for_blocks_on_their_way(void **state)
{
    struct gpu_fixture *f = *state;
    struct work work;
    gantry_heap_settings settings = {.struct_size = sizeof(settings), .limit_bytes = 64 * MIB};
    assert_ok(gantry_heap_configure(gantry_context_heap(f->context), GANTRY_MEMORY_DEVICE, &settings));
    open_work(f, &work, 40 * MIB);
    emulator_call("gantry_emu_hold");
    gpu_fixture_gpu(f, GANTRY_TASK_HTOD, "copy", copy_and_free, &work);
    assert_ok(gpu_fixture_step(f));
    assert_ok(work.status);
    struct taker taker = {.work = &work};
    pthread_t thread;
    assert_int_equal(pthread_create(&thread, NULL, take_large, &taker), 0);
    emulator_call("gantry_emu_release");
    pthread_join(thread, NULL);
    assert_ok(taker.status);
    assert_ok(gantry_heap_free(work.heap, taker.block));
    assert_ok(gantry_heap_free(work.heap, work.host));
}

static void test_lost_context_gives_everything_back(void **state)
{
    struct gpu_fixture *f = *state;
    struct work work;
    open_work(f, &work, 100000);
    emulator_call("gantry_emu_hold");
    gpu_fixture_gpu(f, GANTRY_TASK_HTOD, "copy", copy_and_free, &work);
    assert_ok(gpu_fixture_step(f));
    gantry_dispatcher_force_failure(gantry_context_dispatcher(f->context));
    emulator_call("gantry_emu_release");
    wait_for_frees(f);
    assert_int_equal(used(&work, GANTRY_MEMORY_DEVICE), 0);
    assert_ok(gantry_heap_free(work.heap, work.host));
}

static void test_memory_that_ran_out_is_given_back(void **state)
{
    (void)state;
    struct gpu_fixture f;
    struct work work;
    gantry_context_options options = GANTRY_CONTEXT_OPTIONS_INIT;
    options.driver = gpu_fixture_driver();
    options.abort_on_out_of_memory = true;
    gpu_fixture_open_with(&f, 1, &options);
    uint64_t before = used_of(gantry_context_heap(f.context), GANTRY_MEMORY_DEVICE);
    open_work(&f, &work, MIB);
    gpu_fixture_gpu(&f, GANTRY_TASK_HTOD, "copy", run_out_and_free, &work);
    assert_ok(gpu_fixture_step(&f));
    assert_int_equal(work.again, GANTRY_ERR_OUT_OF_DEVICE_MEMORY);
    assert_true(gantry_context_is_aborted(f.context));
    assert_ok(work.status);
    wait_for_frees(&f);
    assert_true(used_of(work.heap, GANTRY_MEMORY_DEVICE) < before + MIB);
    gantry_context_clear_abort(f.context);
    assert_ok(gantry_heap_free(work.heap, work.host));
    gpu_fixture_close(&f);
}

static void test_calls_outside_a_callback_are_refused(void **state)
{
    struct gpu_fixture *f = *state;
    struct work work;
    void *out = &work;
    open_work(f, &work, 1000);
    assert_int_equal(gantry_free_after(work.block, NULL), GANTRY_ERR_INVALID_ARGUMENT);
    assert_int_equal(gantry_launch_alloc(NULL, GANTRY_MEMORY_DEVICE, 1, 0, SITE, &out),
                     GANTRY_ERR_INVALID_ARGUMENT);
    assert_ptr_equal(out, &work);
    assert_ok(gantry_heap_free(work.heap, work.block));
    assert_ok(gantry_heap_free(work.heap, work.host));
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup_teardown(test_block_comes_back_when_its_stream_has_passed, open_fixture,
                                        close_fixture),
        cmocka_unit_test_setup_teardown(test_same_stream_has_the_memory_at_once_and_others_do_not,
                                        open_fixture, close_fixture),
        cmocka_unit_test_setup_teardown(test_graphs_free_what_they_have_passed, open_fixture, close_fixture),
        cmocka_unit_test_setup_teardown(test_many_frees_of_one_batch_all_come_back, open_fixture,
                                        close_fixture),
        cmocka_unit_test_setup_teardown(test_block_of_a_task_that_asks_again_comes_back, open_fixture,
                                        close_fixture),
        cmocka_unit_test_setup_teardown(test_steady_path_makes_no_device_wide_call, open_fixture,
                                        close_fixture),
        cmocka_unit_test_setup_teardown(test_running_out_waits_for_blocks_on_their_way, open_fixture,
                                        close_fixture),
        cmocka_unit_test_setup_teardown(test_lost_context_gives_everything_back, open_fixture, close_fixture),
        cmocka_unit_test(test_memory_that_ran_out_is_given_back),
        cmocka_unit_test_setup_teardown(test_calls_outside_a_callback_are_refused, open_fixture,
                                        close_fixture),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
