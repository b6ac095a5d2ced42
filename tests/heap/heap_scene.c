/* SPDX-License-Identifier: MIT */
#include "tests/heap/heap_scene.h"

#include "base/alloc.h"
#include "heap/heap.h"
#include "tests/heap/fake_driver.h"
#include "tests/support/cmocka_c11.h"

gantry_heap *heap_scene_open(const gantry_heap_options *options)
{
    gantry_heap *heap = NULL;
    assert_ok(gy_heap_create(fake_driver_open((uint64_t)1 << 30), options, &heap));
    return heap;
}

void heap_scene_close(gantry_heap *heap)
{
    gy_heap_destroy(heap);
    assert_int_equal(fake_driver.held, 0);
    assert_int_equal(fake_driver.device_bytes, 0);
    assert_int_equal(fake_driver.pinned_bytes, 0);
    assert_int_equal(fake_driver_pushes, 0);
    assert_false(fake_driver.called_outside);
    assert_false(fake_driver.wrong_capture);
    assert_int_equal(gy_alloc_live(), 0);
}

gantry_heap_stats heap_scene_stats(gantry_heap *heap, gantry_memory_kind kind)
{
    gantry_heap_stats stats = {.struct_size = sizeof(stats)};
    assert_ok(gantry_heap_get_stats(heap, kind, &stats));
    return stats;
}

void *heap_scene_alloc(gantry_heap *heap, gantry_memory_kind kind, size_t bytes)
{
    void *block = NULL;
    assert_ok(gantry_heap_alloc(heap, kind, bytes, 0, GANTRY_ALLOC_SITE("test"), &block));
    return block;
}
