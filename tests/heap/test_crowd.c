/* SPDX-License-Identifier: MIT */
/* Several threads use one kind over memory that faults when touched: random sizes and alignments, blocks
 * that other threads free and resize than those that allocated them, trimming at any time, running out of
 * memory, and blocks that are left when the kind ends.  A shadow map finds blocks that overlap. */
#include "tests/support/cmocka_c11.h"

#include "base/alloc.h"
#include "heap/growth.h"
#include "heap/kind.h"
#include "tests/heap/untouchable.h"

#include <stdlib.h>
#include <string.h>

#define MIB ((size_t)1 << 20)
#define THREADS 3
#define SLOTS 2048
#define EMPTY 0
#define BUSY 1 /* no address has this value */
#define LARGE 0x80000000u

struct way {
    size_t slab_bytes, limit_bytes;
    size_t granules; /* pages of the window */
    size_t most_bytes;
    unsigned steps;
    bool use_small;
    bool may_run_out;
    bool trims;
};

struct slot {
    _Atomic(uintptr_t) address; /* atomic; EMPTY, BUSY or the address of a block */
    size_t bytes;               /* owned, as the members below, by the thread that made the slot BUSY */
    size_t made;                /* the size that it was allocated with */
    uint16_t maker;             /* the worker that allocated it */
    bool is_large;              /* it has whole pages */
};

/* The state that several threads share while they use one kind.  They only count; the test's thread
 * asserts. */
struct crowd {
    const struct way *way;
    struct gy_granules map;
    struct gy_kind kind;
    struct slot slots[SLOTS];
    _Atomic(uint32_t) *units; /* atomic; shadow: per 256 bytes of the window 0, or a small block's slot + 1 */
    _Atomic(uint32_t) *pages; /* atomic; shadow: per page LARGE + slot + 1, or how many small blocks it has */
    atomic_uint allocs, frees; /* allocations that succeeded */
    atomic_uint overlaps, misaligned, refused_frees, refused_allocs, other_failures;
    atomic_uint grown, shrunk, crossed, largest;
};

struct worker {
    struct crowd *crowd;
    gy_thread thread;
    uint64_t random;
    uint16_t number;
};

static uint64_t next_random(uint64_t *random)
{
    *random ^= *random << 13;
    *random ^= *random >> 7;
    *random ^= *random << 17;
    return *random;
}

/* A size; each octave up to the largest is as likely, and now and then it is the largest itself. */
static size_t random_bytes(struct worker *w)
{
    size_t most = w->crowd->way->most_bytes;
    unsigned octaves = 64u - (unsigned)__builtin_clzll(most - 1);
    uint64_t dice = next_random(&w->random);
    size_t bytes =
        ((size_t)1 << dice % (octaves + 1)) + (size_t)(dice >> 8) % ((size_t)1 << dice % (octaves + 1));
    return bytes < most ? bytes : most;
}

static size_t up(size_t bytes, size_t unit)
{
    return (bytes + unit - 1) & ~(unit - 1);
}

/* ---- the shadow ---- */

static bool is_in_window(struct crowd *c, uintptr_t address, size_t bytes)
{
    bool inside = address >= untouchable_window() &&
                  address + bytes <= untouchable_window() + c->way->granules * GY_GRANULE_BYTES;
    atomic_fetch_add(&c->overlaps, inside ? 0 : 1);
    return inside;
}

/* Change the owner of the units or pages in [address, address + bytes). */
static void own(struct crowd *c, _Atomic(uint32_t) *shadow, size_t unit, uintptr_t address, size_t bytes,
                uint32_t from, uint32_t to)
{
    size_t first = (address - untouchable_window()) / unit;
    for (size_t i = 0; is_in_window(c, address, bytes) && i < bytes / unit; i++) {
        uint32_t expected = from;
        if (!atomic_compare_exchange_strong(&shadow[first + i], &expected, to)) {
            atomic_fetch_add(&c->overlaps, 1);
        }
    }
}

/* A small block comes (1) or goes (-1) in its pages, none of which belongs to a large block. */
static void count_in_pages(struct crowd *c, uintptr_t address, size_t bytes, int count)
{
    size_t first = (address - untouchable_window()) / GY_PAGE_BYTES;
    size_t last = (address + bytes - 1 - untouchable_window()) / GY_PAGE_BYTES;
    for (size_t page = first; is_in_window(c, address, bytes) && page <= last; page++) {
        uint32_t before = atomic_fetch_add(&c->pages[page], (uint32_t)count);
        atomic_fetch_add(&c->overlaps, (before & LARGE) != 0 ? 1 : 0);
    }
}

/* Mark the part of a slot's block from `begin` to `end` as the slot's, or as nobody's. */
static void own_part(struct crowd *c, struct slot *slot, uintptr_t address, size_t begin, size_t end,
                     bool becomes)
{
    uint32_t tag = (uint32_t)(slot - c->slots) + 1;
    if (slot->is_large) {
        begin = up(begin, GY_PAGE_BYTES);
        end = up(end, GY_PAGE_BYTES);
        tag |= LARGE;
        own(c, c->pages, GY_PAGE_BYTES, address + begin, end - begin, becomes ? 0 : tag, becomes ? tag : 0);
    } else {
        begin = up(begin, GY_UNIT_BYTES);
        end = up(end, GY_UNIT_BYTES);
        own(c, c->units, GY_UNIT_BYTES, address + begin, end - begin, becomes ? 0 : tag, becomes ? tag : 0);
    }
}

/* ---- what the threads do ---- */

static uintptr_t fill(struct worker *w, struct slot *slot)
{
    struct crowd *c = w->crowd;
    uint64_t dice = next_random(&w->random);
    size_t bytes = random_bytes(w);
    size_t alignment = (size_t)256 << (dice >> 8) % 5;
    uintptr_t address = 0;
    if (gy_kind_alloc(&c->kind, bytes, alignment, (uint32_t)(dice >> 16) % 100, &address) != GANTRY_OK) {
        atomic_fetch_add(&c->refused_allocs, 1);
        return EMPTY;
    }
    atomic_fetch_add(&c->allocs, 1);
    atomic_fetch_add(&c->misaligned, address % alignment != 0 ? 1 : 0);
    atomic_fetch_add(&c->largest, bytes == c->way->most_bytes ? 1 : 0);
    slot->bytes = slot->made = bytes;
    slot->maker = w->number;
    slot->is_large = !gy_granules_find(&c->map, address)->is_chunk;
    own_part(c, slot, address, 0, bytes, true);
    if (!slot->is_large) {
        count_in_pages(c, address, bytes, 1);
    }
    return address;
}

static uintptr_t empty(struct worker *w, struct slot *slot, uintptr_t address)
{
    struct crowd *c = w->crowd;
    own_part(c, slot, address, 0, slot->bytes, false);
    if (!slot->is_large) {
        count_in_pages(c, address, slot->made, -1);
    }
    struct gy_heap_region *region = gy_granules_find(&c->map, address);
    bool freed = region != NULL && gy_kind_free(&c->kind, region, address);
    atomic_fetch_add(&c->refused_frees, freed ? 0 : 1);
    atomic_fetch_add(&c->frees, freed ? 1 : 0);
    atomic_fetch_add(&c->crossed, slot->maker != w->number ? 1 : 0);
    return EMPTY;
}

static void resize(struct worker *w, struct slot *slot, uintptr_t address)
{
    struct crowd *c = w->crowd;
    size_t bytes = 1 + (size_t)(next_random(&w->random) % (slot->bytes + slot->bytes / 2));
    bool shrinks = bytes < slot->bytes;
    if (shrinks) {
        own_part(c, slot, address, bytes, slot->bytes, false); /* before any other block may have it */
    }
    gantry_status status = gy_kind_resize(&c->kind, gy_granules_find(&c->map, address), address, bytes);
    if (status == GANTRY_OK) {
        atomic_fetch_add(shrinks ? &c->shrunk : &c->grown, 1);
        if (!shrinks) {
            own_part(c, slot, address, slot->bytes, bytes, true);
        }
        slot->bytes = bytes;
    } else if (shrinks || status != GANTRY_ERR_UNSUPPORTED) {
        atomic_fetch_add(&c->other_failures, 1);
    }
}

static void work(void *arg)
{
    struct worker *w = arg;
    struct crowd *c = w->crowd;
    for (unsigned step = 0; step < c->way->steps; step++) {
        struct slot *slot = &c->slots[next_random(&w->random) % SLOTS];
        uintptr_t address = atomic_exchange(&slot->address, BUSY);
        if (address == BUSY) {
            continue; /* its holder puts it back */
        }
        if (address == EMPTY) {
            address = fill(w, slot);
        } else if (next_random(&w->random) % 4 == 0) {
            resize(w, slot, address);
        } else {
            address = empty(w, slot, address);
        }
        atomic_store(&slot->address, address);
        if (c->way->trims && step % 512 == 0) {
            (void)gy_kind_trim(&c->kind, 0);
        }
    }
}

/* ---- the test's thread ---- */

static void check_crowd(struct crowd *c)
{
    assert_int_equal(atomic_load(&c->overlaps), 0);
    assert_int_equal(atomic_load(&c->misaligned), 0);
    assert_int_equal(atomic_load(&c->refused_frees), 0);
    assert_int_equal(atomic_load(&c->other_failures), 0);
    assert_true(atomic_load(&c->crossed) > 0);
    assert_true(atomic_load(&c->grown) > 0);
    assert_true(atomic_load(&c->shrunk) > 0);
    assert_true(atomic_load(&c->largest) > 0);
    assert_int_equal(atomic_load(&c->refused_allocs) > 0, c->way->may_run_out);
    uint64_t used = 0;
    uint64_t count = 0;
    for (unsigned i = 0; i < SLOTS; i++) {
        if (atomic_load(&c->slots[i].address) != EMPTY) {
            used += c->slots[i].bytes;
            count++;
        }
    }
    assert_true(count > 0);
    gantry_heap_stats stats = {0};
    gy_kind_stats(&c->kind, &stats);
    assert_int_equal(stats.used_bytes, used);
    assert_int_equal(stats.block_count, count);
    assert_int_equal(stats.alloc_count, atomic_load(&c->allocs));
    assert_int_equal(stats.free_count, atomic_load(&c->frees));
    assert_true(stats.peak_bytes >= used);
    assert_int_equal(stats.slab_bytes, untouchable_taken());
}

static void run_crowd(const struct way *way)
{
    struct crowd *c = calloc(1, sizeof(*c));
    assert_non_null(c);
    c->way = way;
    c->units = calloc(way->granules * (GY_GRANULE_BYTES / GY_UNIT_BYTES), sizeof(*c->units));
    c->pages = calloc(way->granules * (GY_GRANULE_BYTES / GY_PAGE_BYTES), sizeof(*c->pages));
    assert_true(c->units != NULL && c->pages != NULL);
    untouchable_open(way->granules);
    struct gy_kind_setup setup = {.kind = GANTRY_MEMORY_DEVICE,
                                  .ops = &untouchable_ops,
                                  .map = &c->map,
                                  .slab_bytes = way->slab_bytes,
                                  .limit_bytes = way->limit_bytes,
                                  .use_small = way->use_small && gy_small_probe() == GANTRY_OK};
    assert_ok(gy_kind_init(&c->kind, &setup));
    struct worker workers[THREADS];
    for (uint16_t i = 0; i < THREADS; i++) {
        workers[i] = (struct worker){.crowd = c, .random = 88172645463325252u + i, .number = i};
        assert_ok(gy_thread_start(&workers[i].thread, "heap", work, &workers[i]));
    }
    for (int i = 0; i < THREADS; i++) {
        gy_thread_join(&workers[i].thread);
    }
    check_crowd(c);
    gy_kind_fini(&c->kind); /* destroyed with the blocks that are left */
    gy_granules_fini(&c->map);
    assert_int_equal(untouchable_taken(), 0);
    assert_int_equal(gy_alloc_live(), 0);
    untouchable_close();
    free((void *)c->units);
    free((void *)c->pages);
    free(c);
}

static unsigned steps(unsigned usual)
{
    return getenv("GANTRY_TEST_LIGHT") != NULL ? usual / 4 : usual;
}

static void test_threads_share_both_tiers_without_overlap_or_touch(void **state)
{
    (void)state;
    struct way way = {.granules = 256, .most_bytes = 300000, .steps = steps(40000), .use_small = true};
    run_crowd(&way);
}

static void test_threads_share_the_page_layer_alone(void **state)
{
    (void)state;
    struct way way = {.slab_bytes = 8 * MIB, .granules = 256, .most_bytes = 300000, .steps = steps(40000)};
    run_crowd(&way);
}

static void test_threads_survive_running_out(void **state)
{
    (void)state;
    struct way way = {.slab_bytes = 4 * MIB,
                      .limit_bytes = 6 * MIB,
                      .granules = 64,
                      .most_bytes = 300000,
                      .steps = steps(40000),
                      .use_small = true,
                      .may_run_out = true};
    run_crowd(&way);
}

/* Sizes from one byte to 64 MiB, more than there is, while slabs are given back all the time. */
static void test_threads_use_any_size_while_slabs_come_and_go(void **state)
{
    (void)state;
    struct way way = {.granules = 512,
                      .most_bytes = 64 * MIB,
                      .steps = steps(20000),
                      .use_small = true,
                      .may_run_out = true,
                      .trims = true};
    run_crowd(&way);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_threads_share_both_tiers_without_overlap_or_touch),
        cmocka_unit_test(test_threads_share_the_page_layer_alone),
        cmocka_unit_test(test_threads_survive_running_out),
        cmocka_unit_test(test_threads_use_any_size_while_slabs_come_and_go),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
