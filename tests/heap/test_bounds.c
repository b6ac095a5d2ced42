/* SPDX-License-Identifier: MIT */
/* Every allocation ends, whatever other threads do meanwhile: what they free is no reason to look for ever.
 */
#include "tests/support/cmocka_c11.h"

#include "base/point.h"
#include "heap/heap.h"
#include "tests/heap/heap_scene.h"

#define MIB ((size_t)1 << 20)
#define SITE GANTRY_ALLOC_SITE("test")
#define PATIENCE 10000u /* after so many rounds, something is wrong */

enum { BLOCKS = 64, BLOCK_BYTES = 64 * 1024 };

static struct {
    gantry_heap *heap;
    void *block; /* what the other threads have taken */
    uint32_t rounds;
    void *parked[BLOCKS]; /* they free one of these each time that somebody looks */
    uint32_t freed;
} others;

static gantry_heap *open_with_limit(size_t limit)
{
    gantry_heap_options options = GANTRY_HEAP_OPTIONS_INIT;
    options.limit_bytes[GANTRY_MEMORY_DEVICE] = limit;
    others.heap = heap_scene_open(&options);
    others.rounds = others.freed = 0;
    return others.heap;
}

/* They free what they have and take as much at once, for ever. */
static bool free_and_take(void *user, gantry_memory_kind kind)
{
    (void)user;
    (void)kind;
    assert_true(++others.rounds < PATIENCE);
    assert_ok(gantry_heap_free(others.heap, others.block));
    others.block = heap_scene_alloc(others.heap, GANTRY_MEMORY_DEVICE, 30 * MIB);
    return true;
}

static void test_an_allocation_ends_while_others_free_and_take(void **state)
{
    (void)state;
    gantry_heap *heap = open_with_limit(64 * MIB);
    others.block = heap_scene_alloc(heap, GANTRY_MEMORY_DEVICE, 30 * MIB);
    gy_heap_set_pending(heap, free_and_take, NULL);
    void *block;
    assert_int_equal(gantry_heap_alloc(heap, GANTRY_MEMORY_DEVICE, 40 * MIB, 0, SITE, &block),
                     GANTRY_ERR_OUT_OF_DEVICE_MEMORY);
    assert_true(others.rounds > 1);
    gy_heap_set_pending(heap, NULL, NULL);
    assert_ok(gantry_heap_free(heap, others.block));
    heap_scene_close(heap);
}

/* A little comes back in each round, more often than it is looked for without progress: that is progress. */
static bool free_one(void *user, gantry_memory_kind kind)
{
    (void)user;
    (void)kind;
    others.rounds++;
    if (others.freed == BLOCKS) {
        return false;
    }
    assert_ok(gantry_heap_free(others.heap, others.parked[others.freed++]));
    return true;
}

static void test_what_comes_back_little_by_little_is_waited_for(void **state)
{
    (void)state;
    gantry_heap *heap = open_with_limit(BLOCKS * MIB);
    for (int i = 0; i < BLOCKS; i++) {
        others.parked[i] = heap_scene_alloc(heap, GANTRY_MEMORY_DEVICE, MIB);
    }
    gy_heap_set_pending(heap, free_one, NULL);
    void *block;
    assert_ok(gantry_heap_alloc(heap, GANTRY_MEMORY_DEVICE, BLOCKS * MIB, 0, SITE, &block));
    assert_int_equal(others.rounds, BLOCKS);
    gy_heap_set_pending(heap, NULL, NULL);
    assert_ok(gantry_heap_free(heap, block));
    heap_scene_close(heap);
}

static void free_when_somebody_looks(enum gy_point point, const void *at)
{
    (void)at;
    if (point == GY_POINT_HEAP_ROOM) {
        assert_true(++others.rounds < PATIENCE);
        if (others.freed < BLOCKS) {
            assert_ok(gantry_heap_free(others.heap, others.parked[others.freed++]));
        }
    }
}

/* It looks a few times, and takes more memory then. */
static void test_a_heap_grows_while_others_free(void **state)
{
    (void)state;
    gantry_heap *heap = open_with_limit(0);
    for (int i = 0; i < BLOCKS; i++) {
        others.parked[i] = heap_scene_alloc(heap, GANTRY_MEMORY_DEVICE, BLOCK_BYTES);
    }
    gy_point_hook(free_when_somebody_looks);
    void *block;
    assert_ok(gantry_heap_alloc(heap, GANTRY_MEMORY_DEVICE, 40 * MIB, 0, SITE, &block));
    gy_point_hook(NULL);
    assert_in_range(others.rounds, 1, 8);
    for (uint32_t i = others.freed; i < BLOCKS; i++) {
        assert_ok(gantry_heap_free(heap, others.parked[i]));
    }
    assert_ok(gantry_heap_free(heap, block));
    heap_scene_close(heap);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_an_allocation_ends_while_others_free_and_take),
        cmocka_unit_test(test_what_comes_back_little_by_little_is_waited_for),
        cmocka_unit_test(test_a_heap_grows_while_others_free),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
