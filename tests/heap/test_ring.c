/* SPDX-License-Identifier: MIT */
/* Buffers in turn: where they are, what is refused, and a pipeline whose tasks have no edge but those from
 * data, on a device that stops again and again. */
#include "base/alloc.h"
#include "tests/support/cmocka_c11.h"
#include "tests/support/gpu_fixture.h"

#include <gantry/ring.h>

#include <pthread.h>
#include <stdatomic.h>
#include <string.h>
#include <unistd.h>

/* ---- buffers ------------------------------------------------------------------------------------- */

static void test_buffers_come_in_turn(void **state)
{
    enum { BUFFERS = 5, BYTES = 300 };
    struct gpu_fixture gpu;
    gantry_ring *ring;
    unsigned char *first[BUFFERS];
    (void)state;
    gpu_fixture_open(&gpu, 1, 0);
    gantry_heap *heap = gantry_context_heap(gpu.context);
    assert_ok(
        gantry_ring_create(heap, GANTRY_MEMORY_PINNED, BYTES, BUFFERS, GANTRY_ALLOC_SITE("ring"), &ring));
    for (size_t i = 0; i < BUFFERS; i++) {
        first[i] = gantry_ring_next(ring);
        assert_int_equal((uintptr_t)first[i] % 256, 0);
        memset(first[i], (int)i, BYTES);
    }
    for (size_t i = 0; i < 2 * BUFFERS; i++) {
        assert_ptr_equal(gantry_ring_next(ring), first[i % BUFFERS]);
        assert_int_equal(first[i % BUFFERS][0], i % BUFFERS); /* they do not overlap */
        assert_int_equal(first[i % BUFFERS][BYTES - 1], i % BUFFERS);
    }
    gantry_ring_destroy(ring);
    assert_int_equal(gantry_heap_free(heap, first[0]), GANTRY_ERR_NOT_FOUND); /* it is free already */
    gpu_fixture_close(&gpu);
}

static void test_what_is_no_ring(void **state)
{
    struct gpu_fixture gpu;
    gantry_ring *ring = NULL;
    gantry_status status = GANTRY_ERR_OUT_OF_HOST_MEMORY;
    const gantry_alloc_site site = GANTRY_ALLOC_SITE("ring");
    (void)state;
    gpu_fixture_open(&gpu, 1, 0);
    gantry_heap *heap = gantry_context_heap(gpu.context);
    assert_int_equal(gantry_ring_create(heap, GANTRY_MEMORY_HOST, SIZE_MAX, 1, site, &ring),
                     GANTRY_ERR_INVALID_ARGUMENT);
    assert_int_equal(gantry_ring_create(heap, GANTRY_MEMORY_HOST, 1, SIZE_MAX, site, &ring),
                     GANTRY_ERR_INVALID_ARGUMENT);
    assert_int_equal(gantry_ring_create(heap, (gantry_memory_kind)9, 1, 1, site, &ring),
                     GANTRY_ERR_INVALID_ARGUMENT);
    assert_null(ring);
    assert_null(gantry_ring_next(NULL));
    gantry_ring_destroy(NULL);
    assert_ok(gantry_ring_create(heap, GANTRY_MEMORY_HOST, 100, 2, site, &ring)); /* the heap gets warm */
    gantry_ring_destroy(ring);
    const long before = gy_alloc_live();
    for (long n = 0; status != GANTRY_OK; n++) {
        gy_fault_arm(n);
        status = gantry_ring_create(heap, GANTRY_MEMORY_HOST, 100, 2, site, &ring);
        gy_fault_arm(-1);
        assert_true(status == GANTRY_OK || status == GANTRY_ERR_OUT_OF_HOST_MEMORY);
    }
    gantry_ring_destroy(ring);
    assert_true(gy_alloc_live() <= before);
    gpu_fixture_close(&gpu);
}

/* ---- a pipeline ---------------------------------------------------------------------------------- */

enum { CHUNKS = 40, COUNT = 64, CHUNK_BYTES = COUNT * sizeof(uint32_t) };

struct chunk {
    uint32_t *page, *block;
    uint32_t number;
    atomic_uint *right;
};

static gantry_status fill_page(gantry_task *task, void *arg)
{
    const struct chunk *c = arg;
    (void)task;
    for (uint32_t i = 0; i < COUNT; i++) {
        c->page[i] = c->number;
    }
    return GANTRY_OK;
}

static gantry_launch_result upload(gantry_launch *launch, void *arg)
{
    const struct chunk *c = arg;
    return gantry_launch_copy_htod(launch, c->block, c->page, CHUNK_BYTES) == GANTRY_OK
               ? GANTRY_LAUNCH_DONE
               : GANTRY_LAUNCH_FAILED;
}

static gantry_launch_result mark_half(gantry_launch *launch, void *arg)
{
    const struct chunk *c = arg;
    return gantry_launch_fill(launch, c->block, 1000 + c->number, 4, COUNT / 2) == GANTRY_OK
               ? GANTRY_LAUNCH_DONE
               : GANTRY_LAUNCH_FAILED;
}

static gantry_launch_result download(gantry_launch *launch, void *arg)
{
    const struct chunk *c = arg;
    return gantry_launch_copy_dtoh(launch, c->page, c->block, CHUNK_BYTES) == GANTRY_OK
               ? GANTRY_LAUNCH_DONE
               : GANTRY_LAUNCH_FAILED;
}

static gantry_status check_page(gantry_task *task, void *arg)
{
    const struct chunk *c = arg;
    bool is_right = true;
    (void)task;
    for (uint32_t i = 0; i < COUNT; i++) {
        is_right = is_right && c->page[i] == c->number + (i < COUNT / 2 ? 1000 : 0);
    }
    atomic_fetch_add(c->right, is_right);
    return GANTRY_OK;
}

static void submit_chunk(gantry_taskman *manager, struct chunk *c)
{
    const gantry_access of_page[] = {GANTRY_WRITES(c->page, CHUNK_BYTES), GANTRY_READS(c->page, CHUNK_BYTES)};
    const gantry_access up[] = {GANTRY_READS(c->page, CHUNK_BYTES), GANTRY_WRITES(c->block, CHUNK_BYTES)};
    const gantry_access half = GANTRY_WRITES(c->block, CHUNK_BYTES / 2);
    const gantry_access down[] = {GANTRY_READS(c->block, CHUNK_BYTES), GANTRY_WRITES(c->page, CHUNK_BYTES)};
    const gantry_task_desc descs[] = {
        {sizeof(*descs), GANTRY_TASK_CPU, .run = fill_page, .accesses = &of_page[0], .access_count = 1},
        {sizeof(*descs), GANTRY_TASK_HTOD, .launch = upload, .accesses = up, .access_count = 2},
        {sizeof(*descs), GANTRY_TASK_KERNEL, .launch = mark_half, .accesses = &half, .access_count = 1},
        {sizeof(*descs), GANTRY_TASK_DTOH, .launch = download, .accesses = down, .access_count = 2},
        {sizeof(*descs), GANTRY_TASK_CPU, .run = check_page, .accesses = &of_page[1], .access_count = 1},
    };
    for (size_t i = 0; i < sizeof(descs) / sizeof(descs[0]); i++) {
        gantry_task_desc desc = descs[i];
        desc.arg = c;
        assert_ok(gantry_taskman_submit(manager, &desc, NULL));
    }
}

static void *stop_and_go(void *arg)
{
    void (*hold)(void), (*go)(void);
    *(void **)&hold = gpu_fixture_emulator("gantry_emu_hold");
    *(void **)&go = gpu_fixture_emulator("gantry_emu_release");
    while (hold != NULL && go != NULL && !atomic_load((atomic_bool *)arg)) {
        hold();
        usleep(200);
        go();
        usleep(20);
    }
    return NULL;
}

/* Nobody writes an edge: a buffer is used again when its last reader has passed. */
static void test_pipelines_have_no_hazard(void **state)
{
    struct gpu_fixture gpu;
    static struct chunk chunks[CHUNKS];
    atomic_bool is_over = false;
    atomic_uint right = 0;
    pthread_t thread;
    (void)state;
    gpu_fixture_open(&gpu, 2, 0);
    gantry_heap *heap = gantry_context_heap(gpu.context);
    assert_int_equal(pthread_create(&thread, NULL, stop_and_go, &is_over), 0);
    for (size_t buffers = 1; buffers <= 8; buffers++) {
        gantry_ring *pages, *blocks;
        const gantry_alloc_site site = GANTRY_ALLOC_SITE("ring");
        assert_ok(gantry_ring_create(heap, GANTRY_MEMORY_PINNED, CHUNK_BYTES, buffers, site, &pages));
        assert_ok(gantry_ring_create(heap, GANTRY_MEMORY_DEVICE, CHUNK_BYTES, buffers, site, &blocks));
        for (uint32_t i = 0; i < CHUNKS; i++) {
            chunks[i] = (struct chunk){gantry_ring_next(pages), gantry_ring_next(blocks), i, &right};
            submit_chunk(gpu.manager, &chunks[i]);
        }
        atomic_store(&right, 0);
        assert_ok(gpu_fixture_step(&gpu));
        assert_int_equal(atomic_load(&right), CHUNKS);
        gantry_ring_destroy(pages);
        gantry_ring_destroy(blocks);
    }
    atomic_store(&is_over, true);
    assert_int_equal(pthread_join(thread, NULL), 0);
    gpu_fixture_close(&gpu);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_buffers_come_in_turn),
        cmocka_unit_test(test_what_is_no_ring),
        cmocka_unit_test(test_pipelines_have_no_hazard),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
