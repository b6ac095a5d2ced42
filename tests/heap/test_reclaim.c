/* SPDX-License-Identifier: MIT */
/* What memory goes back to the driver, when, and on which thread: pieces and slabs, and the application's
 * releases. */
#include "tests/support/cmocka_c11.h"

#include "base/alloc.h"
#include "base/clock.h"
#include "base/thread.h"
#include "heap/heap.h"
#include "heap/internal.h"
#include "heap/pages.h"
#include "tests/heap/fake_driver.h"
#include "tests/heap/heap_scene.h"

#include <sched.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#define MIB ((size_t)1 << 20)
#define SITE GANTRY_ALLOC_SITE("test")

/* ---- slabs and pieces ---- */

/* Half of the memory is free, but nowhere are 48 MiB in one piece: free memory between blocks goes back to
 * the driver before more is taken. */
static void test_pieces_between_blocks_are_given_back_for_larger_ones(void **state)
{
    (void)state;
    enum { COUNT = 64 };
    gantry_heap_options options = GANTRY_HEAP_OPTIONS_INIT;
    options.keep_bytes[GANTRY_MEMORY_DEVICE] = (size_t)1
                                               << 40; /* the heap's thread has nothing to give back */
    gantry_heap *heap = heap_scene_open(&options);
    void *blocks[COUNT], *large[8];
    for (int i = 0; i < COUNT; i++) {
        blocks[i] = heap_scene_alloc(heap, GANTRY_MEMORY_DEVICE, 14 * MIB);
    }
    for (int i = 0; i < COUNT; i += 2) {
        assert_ok(gantry_heap_free(heap, blocks[i]));
    }
    size_t before = fake_driver.device_bytes;
    for (int i = 0; i < 8; i++) {
        large[i] = heap_scene_alloc(heap, GANTRY_MEMORY_DEVICE, 16 * MIB);
    }
    gantry_heap_stats stats = {.struct_size = sizeof(stats)};
    assert_ok(gantry_heap_get_stats(heap, GANTRY_MEMORY_DEVICE, &stats));
    assert_int_equal(stats.slab_bytes, fake_driver.device_bytes);
    assert_true(fake_driver.device_bytes <= before + 16 * MIB);
    char *inside = (char *)blocks[0] + 7 * MIB; /* now it is a hole, or free */
    assert_int_equal(gantry_heap_free(heap, inside), GANTRY_ERR_NOT_FOUND);
    for (int i = 0; i < 8; i++) {
        assert_ok(gantry_heap_free(heap, large[i]));
    }
    for (int i = 1; i < COUNT; i += 2) {
        assert_ok(gantry_heap_resize(heap, blocks[i], 13 * MIB));
        assert_ok(gantry_heap_free(heap, blocks[i]));
    }
    assert_ok(gantry_heap_trim(heap, GANTRY_MEMORY_DEVICE, 0, NULL)); /* slabs with holes go back as wholes */
    assert_int_equal(fake_driver.device_bytes, 0);
    heap_scene_close(heap);
}

/* All memory that the limit allows is taken, and none of its pieces is large enough: pieces of it go back
 * for one that is, while the blocks between them stay where they are. */
static void test_full_kind_trades_pieces_for_what_is_needed(void **state)
{
    (void)state;
    enum { COUNT = 8 };
    gantry_heap_options options = GANTRY_HEAP_OPTIONS_INIT;
    options.slab_bytes[GANTRY_MEMORY_DEVICE] = 16 * MIB;
    for (int by_limit = 1; by_limit >= 0; by_limit--) {
        options.limit_bytes[GANTRY_MEMORY_DEVICE] = by_limit != 0 ? 64 * MIB : 0;
        gantry_heap *heap = heap_scene_open(&options);
        fake_driver.room = by_limit != 0 ? fake_driver.room : 64 * MIB;
        void *blocks[COUNT], *large = NULL;
        for (int i = 0; i < COUNT; i++) {
            blocks[i] = heap_scene_alloc(heap, GANTRY_MEMORY_DEVICE, 7 * MIB);
        }
        assert_int_equal(fake_driver.device_bytes, 64 * MIB);
        for (int i = 0; i < COUNT; i += 2) { /* 4 MiB in one piece in each slab */
            assert_ok(gantry_heap_free(heap, blocks[i]));
        }
        assert_true(heap_scene_stats(heap, GANTRY_MEMORY_DEVICE).largest_free < 16 * MIB);
        assert_int_equal(gantry_heap_alloc(heap, GANTRY_MEMORY_DEVICE, 17 * MIB, 0, SITE, &large),
                         GANTRY_ERR_OUT_OF_DEVICE_MEMORY);
        if (by_limit != 0) {
            assert_int_equal(fake_driver.device_bytes, 64 * MIB); /* they were not given back for nothing */
        }
        assert_ok(gantry_heap_alloc(heap, GANTRY_MEMORY_DEVICE, 16 * MIB, 0, SITE, &large));
        assert_int_equal(fake_driver.device_bytes, 64 * MIB);
        assert_int_equal(heap_scene_stats(heap, GANTRY_MEMORY_DEVICE).slab_bytes, 64 * MIB);
        for (int i = 1; i < COUNT; i += 2) {
            assert_ok(gantry_heap_free(heap, blocks[i]));
        }
        assert_ok(gantry_heap_free(heap, large));
        heap_scene_close(heap);
    }
}

/* A single unit beside a block, which has 4 MiB here, is a piece, too. */
static void test_single_units_are_pieces(void **state)
{
    (void)state;
    enum { COUNT = 4 };
    gantry_heap_options options = GANTRY_HEAP_OPTIONS_INIT;
    options.slab_bytes[GANTRY_MEMORY_DEVICE] = 16 * MIB;
    options.limit_bytes[GANTRY_MEMORY_DEVICE] = 64 * MIB;
    gantry_heap *heap = heap_scene_open(&options);
    void *blocks[COUNT], *large = NULL;
    for (int i = 0; i < COUNT; i++) {
        blocks[i] = heap_scene_alloc(heap, GANTRY_MEMORY_DEVICE, 12 * MIB);
    }
    assert_int_equal(fake_driver.device_bytes, 64 * MIB);
    assert_ok(gantry_heap_alloc(heap, GANTRY_MEMORY_DEVICE, 16 * MIB, 0, SITE, &large));
    assert_int_equal(fake_driver.device_bytes, 64 * MIB);
    assert_ok(gantry_heap_free(heap, large));
    for (int i = 0; i < COUNT; i++) {
        assert_ok(gantry_heap_free(heap, blocks[i]));
    }
    heap_scene_close(heap);
}

/* More than `keep_bytes` lies unused: the heap's thread gives it back, and no other thread does. */
static void test_excess_is_given_back_on_the_side(void **state)
{
    (void)state;
    gantry_heap_options options = GANTRY_HEAP_OPTIONS_INIT;
    options.keep_bytes[GANTRY_MEMORY_DEVICE] = 4 * MIB;
    gantry_heap *heap = heap_scene_open(&options);
    void *blocks[3], *pinned[3];
    for (unsigned round = 1; round <= 3; round++) {
        for (int i = 0; i < 3; i++) { /* it is larger than what is parked, so the pages are free at once */
            blocks[i] = heap_scene_alloc(heap, GANTRY_MEMORY_DEVICE, 130 * MIB);
            pinned[i] = heap_scene_alloc(heap, GANTRY_MEMORY_PINNED, 130 * MIB);
        }
        for (int i = 0; i < 3; i++) {
            assert_ok(gantry_heap_free(heap, blocks[i]));
            assert_ok(gantry_heap_free(heap, pinned[i]));
        }
        assert_ok(gantry_heap_reclaim_wait(heap));
        gantry_reclaim_stats stats = {.struct_size = sizeof(stats)};
        assert_ok(gantry_heap_get_reclaim_stats(heap, &stats));
        assert_int_equal(stats.slab_bytes, round * 2 * 130 * MIB);
        assert_int_equal(fake_driver.device_bytes, 130 * MIB);  /* without it, less than that would be kept */
        assert_true(fake_driver.pinned_bytes >= 3 * 130 * MIB); /* giving it back would wait for the device */
    }
    heap_scene_close(heap);
}

/* ---- units, what is mapped beforehand, decay ---- */

/* To give back a slab that is one piece takes one call of each sort; no part of it can go back. */
static void test_slabs_are_whole_or_made_of_units(void **state)
{
    (void)state;
    const size_t units[] = {SIZE_MAX, 8 * MIB, 0}; /* 0: it is 4 MiB on a device as small as this */
    /* an address range, and a handle and a mapping per unit */
    const long held[] = {3, 1 + 2 * 8, 1 + 2 * 16};
    for (int i = 0; i < 3; i++) {
        gantry_heap_options options = GANTRY_HEAP_OPTIONS_INIT;
        options.unit_bytes[GANTRY_MEMORY_DEVICE] = units[i];
        gantry_heap *heap = heap_scene_open(&options);
        void *block = heap_scene_alloc(heap, GANTRY_MEMORY_DEVICE, 64 * MIB);
        assert_int_equal(fake_driver.held, held[i]);
        assert_ok(gantry_heap_free(heap, block));
        heap_scene_close(heap);
    }
}

static size_t slab_bytes_of(gantry_heap *heap)
{
    return heap_scene_stats(heap, GANTRY_MEMORY_DEVICE).slab_bytes;
}

static void test_memory_is_mapped_ahead_while_a_kind_grows(void **state)
{
    (void)state;
    gantry_heap_options options = GANTRY_HEAP_OPTIONS_INIT;
    options.ahead_bytes[GANTRY_MEMORY_DEVICE] = 32 * MIB;
    options.slab_bytes[GANTRY_MEMORY_DEVICE] = 2 * MIB;
    gantry_heap *heap = heap_scene_open(&options);
    void *first = heap_scene_alloc(heap, GANTRY_MEMORY_DEVICE, 32 * MIB);
    assert_ok(gantry_heap_reclaim_wait(heap));
    assert_int_equal(slab_bytes_of(heap), 64 * MIB);
    uint64_t stalls = heap_scene_stats(heap, GANTRY_MEMORY_DEVICE).stalls[GANTRY_HEAP_STALL_MAPPING];
    assert_int_equal(stalls, 1);
    long calls = fake_driver.calls;
    void *second = heap_scene_alloc(heap, GANTRY_MEMORY_DEVICE, 32 * MIB); /* the allocation finds it */
    assert_int_equal(fake_driver.calls, calls);
    gantry_heap_stats stats = heap_scene_stats(heap, GANTRY_MEMORY_DEVICE);
    assert_int_equal(stats.stalls[GANTRY_HEAP_STALL_MAPPING], 1);
    assert_true(stats.stall_ns[GANTRY_HEAP_STALL_MAPPING] >=
                stats.longest_stall_ns[GANTRY_HEAP_STALL_MAPPING]);
    assert_true(stats.longest_stall_ns[GANTRY_HEAP_STALL_MAPPING] > 0);
    assert_ok(gantry_heap_reclaim_wait(heap)); /* it does not grow, and nothing more happens */
    assert_int_equal(slab_bytes_of(heap), 64 * MIB);
    assert_ok(gantry_heap_free(heap, first));
    assert_ok(gantry_heap_free(heap, second));
    heap_scene_close(heap);
}

/* Unused memory goes back only after some time: a loop that uses and frees the same memory neither takes nor
 * gives back any. */
static void test_a_loop_keeps_what_it_uses_again(void **state)
{
    (void)state;
    gantry_heap_options options = GANTRY_HEAP_OPTIONS_INIT;
    options.keep_bytes[GANTRY_MEMORY_DEVICE] = 4 * MIB;
    options.decay_ms[GANTRY_MEMORY_DEVICE] = 300;
    gantry_heap *heap = heap_scene_open(&options);
    void *blocks[3];
    long calls = 0;
    uint64_t end_ns = gy_clock_ns() + 450 * 1000000u;
    for (int round = 0; round < 3 || gy_clock_ns() < end_ns; round++) {
        for (int i = 0; i < 3; i++) {
            blocks[i] = heap_scene_alloc(heap, GANTRY_MEMORY_DEVICE, 130 * MIB);
        }
        if (round == 1) {
            calls = fake_driver.calls;
        }
        for (int i = 0; i < 3; i++) {
            assert_ok(gantry_heap_free(heap, blocks[i]));
        }
    }
    assert_int_equal(fake_driver.calls, calls);
    end_ns = gy_clock_ns() + (uint64_t)20 * 1000000000u; /* and then it goes back, except what is kept */
    while (slab_bytes_of(heap) > 130 * MIB && gy_clock_ns() < end_ns) {
        void *block = heap_scene_alloc(heap, GANTRY_MEMORY_DEVICE, 129 * MIB); /* the heap hears of frees */
        assert_ok(gantry_heap_free(heap, block));
        usleep(20000);
    }
    assert_int_equal(slab_bytes_of(heap), 130 * MIB);
    heap_scene_close(heap);
}

/* Nobody finds a slab that has gone back: the memory at its addresses belongs to somebody else. */
static void test_a_slab_that_went_is_not_found(void **state)
{
    (void)state;
    gantry_heap_options options = GANTRY_HEAP_OPTIONS_INIT;
    gantry_heap *heap = heap_scene_open(&options);
    for (int kind = 0; kind < GANTRY_MEMORY_KIND_COUNT; kind++) {
        char *block = heap_scene_alloc(heap, (gantry_memory_kind)kind, 6 * MIB);
        assert_non_null(gy_granules_find(&heap->map, (uintptr_t)block));
        assert_ok(gantry_heap_free(heap, block));
        assert_ok(gantry_heap_trim(heap, (gantry_memory_kind)kind, 0, NULL));
        for (size_t at = 0; at < 6; at += 2) {
            assert_null(gy_granules_find(&heap->map, (uintptr_t)block + at * MIB));
        }
        assert_int_equal(gantry_heap_free(heap, block), GANTRY_ERR_NOT_FOUND);
    }
    heap_scene_close(heap);
}

/* When no small block uses the pages of a chunk any more, they can be used as pages again. */
static void test_blocks_in_the_place_of_small_ones_are_their_own(void **state)
{
    (void)state;
    enum { SMALL = 4000, LARGE = 200, LARGE_BYTES = 64 * 1024 };
    static void *blocks[SMALL];
    gantry_heap_options options = GANTRY_HEAP_OPTIONS_INIT;
    gantry_heap *heap = heap_scene_open(&options);
    for (int round = 0; round < 3; round++) {
        for (int i = 0; i < SMALL; i++) {
            blocks[i] = heap_scene_alloc(heap, GANTRY_MEMORY_PINNED, 1024);
        }
        for (int i = 0; i < SMALL; i++) {
            assert_ok(gantry_heap_free(heap, blocks[i]));
        }
        /* the slabs stay */
        assert_ok(gantry_heap_trim(heap, GANTRY_MEMORY_PINNED, SIZE_MAX, NULL));
        for (int i = 0; i < LARGE; i++) {
            blocks[i] = heap_scene_alloc(heap, GANTRY_MEMORY_PINNED, LARGE_BYTES);
            struct gy_heap_region *region = gy_granules_find(&heap->map, (uintptr_t)blocks[i]);
            assert_non_null(region);
            assert_ptr_equal(region, &region->slab->region);
        }
        for (int i = 0; i < LARGE; i++) {
            assert_ok(gantry_heap_free(heap, blocks[i]));
        }
    }
    heap_scene_close(heap);
}

/* ---- releases ---- */

struct gate {
    gy_mutex lock;
    gy_cond changed;
    bool open;
    int inside;
    int most;
    int done;
};

static void pass_gate(void *arg)
{
    struct gate *gate = arg;
    gy_mutex_lock(&gate->lock);
    gate->inside++;
    gate->most = gate->inside > gate->most ? gate->inside : gate->most;
    gy_cond_broadcast(&gate->changed);
    while (!gate->open) {
        gy_cond_wait(&gate->changed, &gate->lock);
    }
    gate->inside--;
    gate->done++;
    gy_mutex_unlock(&gate->lock);
}

static void open_gate(struct gate *gate, bool open)
{
    gy_mutex_lock(&gate->lock);
    gate->open = open;
    gy_cond_broadcast(&gate->changed);
    gy_mutex_unlock(&gate->lock);
}

static void wait_inside(struct gate *gate, int count)
{
    gy_mutex_lock(&gate->lock);
    while (gate->inside < count) {
        gy_cond_wait(&gate->changed, &gate->lock);
    }
    gy_mutex_unlock(&gate->lock);
}

static gantry_heap *open_reclaiming(gantry_reclaim_policy policy, struct gate *gate)
{
    *gate = (struct gate){.open = false};
    gy_mutex_init(&gate->lock, GY_RANK_LEAF);
    assert_ok(gy_cond_init(&gate->changed));
    gantry_heap_options options = GANTRY_HEAP_OPTIONS_INIT;
    options.reclaim = policy;
    options.reclaim_queue_bytes = 100;
    return heap_scene_open(&options);
}

static gantry_reclaim_stats close_reclaiming(gantry_heap *heap, struct gate *gate)
{
    gantry_reclaim_stats stats = {.struct_size = sizeof(stats)};
    assert_ok(gantry_heap_reclaim_wait(heap));
    assert_ok(gantry_heap_get_reclaim_stats(heap, &stats));
    heap_scene_close(heap);
    gy_cond_fini(&gate->changed);
    gy_mutex_fini(&gate->lock);
    return stats;
}

struct adder {
    gantry_heap *heap;
    struct gate *gate;
};

static void add_one_more(void *arg)
{
    struct adder *adder = arg;
    (void)gantry_heap_reclaim(adder->heap, pass_gate, adder->gate, 60);
}

static void test_bounded_releases_run_one_at_a_time_and_push_back(void **state)
{
    (void)state;
    struct gate gate;
    gantry_heap *heap = open_reclaiming(GANTRY_RECLAIM_BOUNDED, &gate);
    assert_ok(gantry_heap_reclaim(heap, pass_gate, &gate, 60));
    assert_ok(gantry_heap_reclaim(heap, pass_gate, &gate, 40));
    wait_inside(&gate, 1);
    gantry_reclaim_stats stats = {.struct_size = sizeof(stats)};
    assert_ok(gantry_heap_get_reclaim_stats(heap, &stats));
    assert_int_equal(stats.queued_bytes, 100);
    assert_int_equal(stats.waits, 0);
    struct adder adder = {heap, &gate};
    gy_thread thread;
    assert_ok(gy_thread_start(&thread, "adder", add_one_more, &adder));
    do { /* the call waits, since the queue is full */
        assert_ok(gantry_heap_get_reclaim_stats(heap, &stats));
    } while (stats.waits == 0);
    assert_int_equal(stats.queued_bytes, 100);
    open_gate(&gate, true);
    gy_thread_join(&thread);
    stats = close_reclaiming(heap, &gate);
    assert_int_equal(gate.done, 3);
    assert_int_equal(gate.most, 1);
    assert_int_equal(stats.releases, 3);
    assert_int_equal(stats.released_bytes, 160);
    assert_int_equal(stats.peak_running, 1);
    assert_int_equal(stats.peak_bytes, 100);
    assert_int_equal(stats.queued_bytes, 0);
}

static gantry_reclaim_stats reclaim_stats(gantry_heap *heap)
{
    gantry_reclaim_stats stats = {.struct_size = sizeof(stats)};
    assert_ok(gantry_heap_get_reclaim_stats(heap, &stats));
    return stats;
}

static void note_thread(void *arg)
{
    *(const char **)arg = gy_thread_name();
}

/* The releases of one kind are stuck and its queue is full: those of the others go on. */
static void test_each_kind_has_its_own_thread_and_queue(void **state)
{
    (void)state;
    static const char *const names[] = {"reclaim device", "reclaim pinned", "reclaim wc", "reclaim host"};
    struct gate gate;
    gantry_heap *heap = open_reclaiming(GANTRY_RECLAIM_BOUNDED, &gate);
    assert_int_equal(reclaim_stats(heap).threads, 0); /* there is none before it has something to do */
    assert_ok(gantry_heap_reclaim_kind(heap, GANTRY_MEMORY_DEVICE, pass_gate, &gate, 100));
    wait_inside(&gate, 1);
    assert_int_equal(reclaim_stats(heap).threads, 1);
    for (int kind = 1; kind < GANTRY_MEMORY_KIND_COUNT; kind++) {
        for (int i = 0; i < 3; i++) {
            const char *name = NULL;
            uint64_t before = reclaim_stats(heap).releases;
            assert_ok(gantry_heap_reclaim_kind(heap, (gantry_memory_kind)kind, note_thread, &name, 100));
            while (reclaim_stats(heap).releases == before) {
                sched_yield();
            }
            assert_string_equal(name, names[kind]);
        }
    }
    gantry_reclaim_stats stats = reclaim_stats(heap);
    assert_int_equal(stats.threads, 4);
    assert_int_equal(stats.peak_running, 2);
    assert_int_equal(stats.peak_bytes, 200);
    assert_int_equal(stats.waits, 0);
    open_gate(&gate, true);
    stats = close_reclaiming(heap, &gate);
    assert_int_equal(stats.releases, 10);
}

static void test_a_kinds_thread_comes_with_its_first_slab(void **state)
{
    (void)state;
    struct gate gate;
    gantry_heap *heap = open_reclaiming(GANTRY_RECLAIM_BOUNDED, &gate);
    void *block = heap_scene_alloc(heap, GANTRY_MEMORY_DEVICE, 3 * MIB);
    assert_int_equal(reclaim_stats(heap).threads, 1);
    assert_ok(gantry_heap_free(heap, block));
    block = heap_scene_alloc(heap, GANTRY_MEMORY_DEVICE, 30 * MIB);
    void *other = heap_scene_alloc(heap, GANTRY_MEMORY_HOST, 300);
    assert_int_equal(reclaim_stats(heap).threads, 2);
    assert_ok(gantry_heap_free(heap, block));
    assert_ok(gantry_heap_free(heap, other));
    (void)close_reclaiming(heap, &gate);
    heap = open_reclaiming(GANTRY_RECLAIM_INLINE, &gate);
    assert_ok(gantry_heap_free(heap, heap_scene_alloc(heap, GANTRY_MEMORY_DEVICE, 3 * MIB)));
    assert_int_equal(close_reclaiming(heap, &gate).threads, 0);
}

static void add_one(void *arg)
{
    ++*(int *)arg;
}

static void test_a_release_is_called_once_whatever_fails(void **state)
{
    (void)state;
    static const gantry_reclaim_policy policies[] = {GANTRY_RECLAIM_BOUNDED, GANTRY_RECLAIM_UNBOUNDED};
    for (int i = 0; i < 2; i++) {
        bool fired = true;
        for (long nth = 0; fired; nth++) {
            struct gate gate;
            gantry_heap *heap = open_reclaiming(policies[i], &gate);
            int done = 0;
            gy_fault_arm(nth);
            assert_ok(gantry_heap_reclaim(heap, add_one, &done, 60));
            fired = gy_fault_fired();
            gy_fault_arm(-1);
            assert_int_equal(close_reclaiming(heap, &gate).releases, 1);
            assert_int_equal(done, 1);
            assert_true(fired || nth > 1); /* the job and its thread, at least */
        }
    }
}

static void test_release_may_ask_for_another_however_full_the_queue_is(void **state)
{
    (void)state;
    struct gate gate;
    gantry_heap *heap = open_reclaiming(GANTRY_RECLAIM_BOUNDED, &gate);
    open_gate(&gate, true);
    struct adder adder = {heap, &gate};
    assert_ok(gantry_heap_reclaim(heap, add_one_more, &adder, 100));
    gantry_reclaim_stats stats = close_reclaiming(heap, &gate);
    assert_int_equal(gate.done, 1);
    assert_int_equal(stats.releases, 2);
    assert_int_equal(stats.waits, 0);
}

static void test_unbounded_releases_run_all_at_once(void **state)
{
    (void)state;
    struct gate gate;
    gantry_heap *heap = open_reclaiming(GANTRY_RECLAIM_UNBOUNDED, &gate);
    for (int i = 0; i < 4; i++) {
        assert_ok(gantry_heap_reclaim(heap, pass_gate, &gate, 60));
    }
    wait_inside(&gate, 4);
    open_gate(&gate, true);
    gantry_reclaim_stats stats = close_reclaiming(heap, &gate);
    assert_int_equal(gate.done, 4);
    assert_int_equal(stats.peak_running, 4);
    assert_int_equal(stats.peak_bytes, 240);
    assert_int_equal(stats.waits, 0);
}

static void test_inline_release_runs_on_the_caller(void **state)
{
    (void)state;
    struct gate gate;
    gantry_heap *heap = open_reclaiming(GANTRY_RECLAIM_INLINE, &gate);
    const char *name = "somebody else";
    assert_ok(gantry_heap_reclaim(heap, note_thread, &name, 60));
    assert_null(name); /* this is a thread of the application */
    assert_int_equal(gantry_heap_reclaim(heap, NULL, NULL, 0), GANTRY_ERR_INVALID_ARGUMENT);
    assert_int_equal(gantry_heap_reclaim(NULL, note_thread, &name, 0), GANTRY_ERR_INVALID_ARGUMENT);
    assert_int_equal(gantry_heap_reclaim_wait(NULL), GANTRY_ERR_INVALID_ARGUMENT);
    gantry_reclaim_stats stats = close_reclaiming(heap, &gate);
    assert_int_equal(stats.releases, 1);
}

static void test_destroy_calls_what_is_still_queued(void **state)
{
    (void)state;
    static const gantry_reclaim_policy policies[] = {GANTRY_RECLAIM_BOUNDED, GANTRY_RECLAIM_UNBOUNDED};
    for (int i = 0; i < 2; i++) {
        struct gate gate;
        gantry_heap *heap = open_reclaiming(policies[i], &gate);
        open_gate(&gate, true);
        for (int k = 0; k < 10; k++) {
            assert_ok(gantry_heap_reclaim(heap, pass_gate, &gate, 1));
        }
        heap_scene_close(heap);
        assert_int_equal(gate.done, 10);
        gy_cond_fini(&gate.changed);
        gy_mutex_fini(&gate.lock);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_bounded_releases_run_one_at_a_time_and_push_back),
        cmocka_unit_test(test_each_kind_has_its_own_thread_and_queue),
        cmocka_unit_test(test_a_kinds_thread_comes_with_its_first_slab),
        cmocka_unit_test(test_a_release_is_called_once_whatever_fails),
        cmocka_unit_test(test_release_may_ask_for_another_however_full_the_queue_is),
        cmocka_unit_test(test_unbounded_releases_run_all_at_once),
        cmocka_unit_test(test_inline_release_runs_on_the_caller),
        cmocka_unit_test(test_destroy_calls_what_is_still_queued),
        cmocka_unit_test(test_single_units_are_pieces),
        cmocka_unit_test(test_excess_is_given_back_on_the_side),
        cmocka_unit_test(test_slabs_are_whole_or_made_of_units),
        cmocka_unit_test(test_memory_is_mapped_ahead_while_a_kind_grows),
        cmocka_unit_test(test_a_loop_keeps_what_it_uses_again),
        cmocka_unit_test(test_a_slab_that_went_is_not_found),
        cmocka_unit_test(test_blocks_in_the_place_of_small_ones_are_their_own),
        cmocka_unit_test(test_pieces_between_blocks_are_given_back_for_larger_ones),
        cmocka_unit_test(test_full_kind_trades_pieces_for_what_is_needed),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
