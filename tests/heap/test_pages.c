/* SPDX-License-Identifier: MIT */
/* The page layer, compared with a shadow map, over memory that faults when touched. */
#include "tests/support/cmocka_c11.h"

#include "base/alloc.h"
#include "heap/pages.h"
#include "tests/heap/untouchable.h"

#include <stdlib.h>
#include <string.h>

#define SLABS 4
#define BLOCKS 600
#define STEPS 100000

struct block {
    uintptr_t base; /* 0: none */
    size_t bytes;
};

struct fixture {
    struct gy_pages pages;
    struct gy_slab slabs[SLABS];
    uint16_t *owners[SLABS]; /* shadow: per page 0 or block number + 1 */
    struct block blocks[BLOCKS];
    uint64_t random;
};

static const size_t slab_granules[SLABS] = {1, 2, 5, 16};

static uint64_t next_random(struct fixture *f)
{
    f->random ^= f->random << 13;
    f->random ^= f->random >> 7;
    f->random ^= f->random << 17;
    return f->random;
}

/* A number in 1 … 2^bits; every magnitude is as likely. */
static size_t random_bytes(struct fixture *f, unsigned bits)
{
    return 1 + (size_t)(next_random(f) & (((uint64_t)1 << (1 + next_random(f) % bits)) - 1));
}

static size_t pages_of(size_t bytes)
{
    return (bytes + GY_PAGE_BYTES - 1) / GY_PAGE_BYTES;
}

static struct gy_slab *slab_at(struct fixture *f, uintptr_t address)
{
    for (int i = 0; i < SLABS; i++) {
        if (address - f->slabs[i].region.base < f->slabs[i].region.bytes) {
            return &f->slabs[i];
        }
    }
    fail_msg("%p is in no slab", (void *)address);
    return NULL;
}

static int setup(void **state)
{
    struct fixture *f = calloc(1, sizeof(*f));
    assert_non_null(f);
    f->random = 88172645463325252u;
    assert_true(gy_pages_init(&f->pages));
    for (int i = 0; i < SLABS; i++) {
        size_t bytes = slab_granules[i] * GY_GRANULE_BYTES;
        struct gy_backing backing = {.base = untouchable_map(bytes), .bytes = bytes};
        assert_true(backing.base != 0);
        assert_true(gy_slab_init(&f->slabs[i], GANTRY_MEMORY_DEVICE, &backing));
        assert_true(gy_pages_add_slab(&f->pages, &f->slabs[i]));
        f->owners[i] = calloc(bytes / GY_PAGE_BYTES, sizeof(*f->owners[i]));
        assert_non_null(f->owners[i]);
    }
    *state = f;
    return 0;
}

static int teardown(void **state)
{
    struct fixture *f = *state;
    struct gy_slab *slab;
    while ((slab = gy_pages_remove_slab(&f->pages, true)) != NULL) {
        untouchable_unmap(slab->region.base, slab->region.bytes);
        gy_slab_fini(slab);
    }
    gy_pages_fini(&f->pages);
    for (int i = 0; i < SLABS; i++) {
        free(f->owners[i]);
    }
    free(f);
    return 0;
}

/* The slab that holds [base, base + bytes); -1: none does. */
static int slab_of(const struct fixture *f, uintptr_t base, size_t bytes)
{
    for (int i = 0; i < SLABS; i++) {
        if (base >= f->slabs[i].region.base &&
            base + bytes <= f->slabs[i].region.base + f->slabs[i].region.bytes) {
            return i;
        }
    }
    return -1;
}

/* Change the shadow of `pages` pages, which must all belong to `from`. */
static void own(struct fixture *f, uintptr_t base, size_t pages, unsigned from, unsigned to)
{
    int slab = slab_of(f, base, pages * GY_PAGE_BYTES);
    assert_true(slab >= 0);
    size_t first = (base - f->slabs[slab].region.base) / GY_PAGE_BYTES;
    for (size_t page = first; page < first + pages; page++) {
        if (f->owners[slab][page] != from) {
            fail_msg("page %zu of slab %d belongs to %u, not %u", page, slab, f->owners[slab][page], from);
        }
        f->owners[slab][page] = (uint16_t)to;
    }
}

static size_t longest_free_run(const struct fixture *f)
{
    size_t longest = 0;
    for (int i = 0; i < SLABS; i++) {
        size_t run = 0;
        for (size_t page = 0; page < slab_granules[i] * GY_GRANULE_BYTES / GY_PAGE_BYTES; page++) {
            run = f->owners[i][page] == 0 ? run + 1 : 0;
            longest = run > longest ? run : longest;
        }
    }
    return longest;
}

/* Returns false when the layer was full. */
static bool allocate(struct fixture *f, unsigned i)
{
    size_t bytes = random_bytes(f, 22);
    size_t alignment = (size_t)256 << next_random(f) % 14;
    uintptr_t base = 1;
    enum gy_pages_result result = gy_pages_alloc(&f->pages, GY_RANGE_BLOCK, bytes, alignment, i, &base);
    if (result == GY_PAGES_FULL) {
        assert_int_equal(base, 1);
        size_t enough = pages_of(bytes) + (alignment > GY_PAGE_BYTES ? alignment / GY_PAGE_BYTES : 0);
        assert_true(longest_free_run(f) < enough + enough / 16 + 1);
        return false;
    }
    assert_int_equal(result, GY_PAGES_OK);
    assert_int_equal(base % alignment, 0);
    assert_int_equal(base % GY_PAGE_BYTES, 0);
    own(f, base, pages_of(bytes), 0, i + 1);
    f->blocks[i] = (struct block){base, bytes};
    return true;
}

static void release(struct fixture *f, unsigned i)
{
    struct gy_block_request requested = {0, 0};
    assert_int_equal(gy_pages_free(&f->pages, slab_at(f, f->blocks[i].base), GY_RANGE_CHUNK,
                                   f->blocks[i].base, &requested),
                     GY_PAGES_NOT_FOUND);
    assert_int_equal(gy_pages_free(&f->pages, slab_at(f, f->blocks[i].base), GY_RANGE_BLOCK,
                                   f->blocks[i].base, &requested),
                     GY_PAGES_OK);
    assert_int_equal(requested.bytes, f->blocks[i].bytes);
    assert_int_equal(requested.site, i);
    assert_int_equal(gy_pages_free(&f->pages, slab_at(f, f->blocks[i].base), GY_RANGE_BLOCK,
                                   f->blocks[i].base, &requested),
                     GY_PAGES_NOT_FOUND);
    own(f, f->blocks[i].base, pages_of(f->blocks[i].bytes), i + 1, 0);
    f->blocks[i].base = 0;
}

static void resize(struct fixture *f, unsigned i)
{
    struct block *block = &f->blocks[i];
    size_t bytes = random_bytes(f, 22);
    struct gy_block_request before = {0, 0};
    enum gy_pages_result result =
        gy_pages_resize(&f->pages, slab_at(f, block->base), block->base, bytes, &before);
    if (result == GY_PAGES_FULL) {
        /* The shadow must show the obstacle: another block, or the slab's end. */
        int slab = slab_of(f, block->base, block->bytes);
        uintptr_t end = f->slabs[slab].region.base + f->slabs[slab].region.bytes;
        size_t first = (block->base - f->slabs[slab].region.base) / GY_PAGE_BYTES;
        bool blocked = block->base + pages_of(bytes) * GY_PAGE_BYTES > end;
        for (size_t page = first; !blocked && page < first + pages_of(bytes); page++) {
            blocked = f->owners[slab][page] != 0 && f->owners[slab][page] != i + 1;
        }
        assert_true(blocked);
        return;
    }
    assert_int_equal(result, GY_PAGES_OK);
    assert_int_equal(before.bytes, block->bytes);
    size_t had = pages_of(block->bytes);
    size_t has = pages_of(bytes);
    if (has > had) {
        own(f, block->base + had * GY_PAGE_BYTES, has - had, 0, i + 1);
    } else if (has < had) {
        own(f, block->base + has * GY_PAGE_BYTES, had - has, i + 1, 0);
    }
    block->bytes = bytes;
}

/* Compare the answer for any address with the shadow and the requested sizes. */
static void ask(struct fixture *f)
{
    int slab = (int)(next_random(f) % SLABS);
    struct gy_slab *in = &f->slabs[slab];
    size_t offset = (size_t)(next_random(f) % in->region.bytes);
    unsigned owner = f->owners[slab][offset / GY_PAGE_BYTES];
    uintptr_t address = in->region.base + offset;
    bool inside = owner != 0 && address - f->blocks[owner - 1].base < f->blocks[owner - 1].bytes;
    assert_int_equal(gy_pages_contain(&f->pages, in, address), inside);
    struct gy_block_request requested;
    if (owner == 0 || f->blocks[owner - 1].base != address) {
        assert_int_equal(gy_pages_free(&f->pages, slab_at(f, address), GY_RANGE_BLOCK, address, &requested),
                         GY_PAGES_NOT_FOUND);
        assert_int_equal(gy_pages_resize(&f->pages, slab_at(f, address), address, 1, &requested),
                         GY_PAGES_NOT_FOUND);
    }
}

static void test_random_use_agrees_with_a_shadow_map(void **state)
{
    struct fixture *f = *state;
    unsigned full = 0;
    for (unsigned step = 0; step < STEPS; step++) {
        unsigned i = (unsigned)(next_random(f) % BLOCKS);
        if (f->blocks[i].base == 0) {
            full += allocate(f, i) ? 0 : 1;
        } else if (next_random(f) % 3 == 0) {
            resize(f, i);
        } else {
            release(f, i);
        }
        ask(f);
        if (step % 64 == 0) {
            assert_int_equal(gy_pages_stats(&f->pages).largest_free, longest_free_run(f) * GY_PAGE_BYTES);
        }
    }
    assert_true(full > 0); /* the layer was exercised near its end, too */
    for (unsigned i = 0; i < BLOCKS; i++) {
        if (f->blocks[i].base != 0) {
            release(f, i);
        }
    }
    assert_int_equal(gy_pages_stats(&f->pages).largest_free, 16 * GY_GRANULE_BYTES);
    unsigned empty = 0;
    struct gy_slab *slab;
    while ((slab = gy_pages_remove_slab(&f->pages, false)) != NULL) {
        untouchable_unmap(slab->region.base, slab->region.bytes);
        gy_slab_fini(slab);
        empty++;
    }
    assert_int_equal(empty, SLABS);
}

static void test_whole_slab_with_its_alignment_fits(void **state)
{
    struct fixture *f = *state;
    uintptr_t base;
    for (int i = 0; i < 24; i++) {
        assert_int_equal(
            gy_pages_alloc(&f->pages, GY_RANGE_CHUNK, GY_GRANULE_BYTES, GY_GRANULE_BYTES, 0, &base),
            GY_PAGES_OK);
        own(f, base, GY_GRANULE_BYTES / GY_PAGE_BYTES, 0, 1);
    }
    assert_int_equal(gy_pages_alloc(&f->pages, GY_RANGE_CHUNK, 1, 1, 0, &base), GY_PAGES_FULL);
    assert_int_equal(gy_pages_stats(&f->pages).largest_free, 0);
    assert_null(gy_pages_remove_slab(&f->pages, false));
}

static void test_absurd_sizes_are_refused(void **state)
{
    struct fixture *f = *state;
    uintptr_t base;
    struct gy_block_request before;
    static const size_t sizes[] = {SIZE_MAX, SIZE_MAX - 4095, SIZE_MAX - 4096, SIZE_MAX / 2, (size_t)1 << 52};
    assert_int_equal(gy_pages_alloc(&f->pages, GY_RANGE_BLOCK, 1, 1, 0, &base), GY_PAGES_OK);
    for (size_t i = 0; i < sizeof(sizes) / sizeof(sizes[0]); i++) {
        uintptr_t other;
        assert_int_equal(gy_pages_alloc(&f->pages, GY_RANGE_BLOCK, sizes[i], 1, 0, &other), GY_PAGES_FULL);
        assert_int_equal(gy_pages_alloc(&f->pages, GY_RANGE_BLOCK, sizes[i], GY_GRANULE_BYTES, 0, &other),
                         GY_PAGES_FULL);
        assert_int_equal(gy_pages_resize(&f->pages, slab_at(f, base), base, sizes[i], &before),
                         GY_PAGES_FULL);
    }
}

static void count_block(void *user, const struct gy_visited *block)
{
    size_t *sums = user;
    sums[block->site] += block->bytes;
}

static void test_each_live_block_is_visited_with_its_site(void **state)
{
    struct fixture *f = *state;
    size_t sums[3] = {0};
    struct gy_block_request bytes;
    uintptr_t base, chunk;
    assert_int_equal(gy_pages_alloc(&f->pages, GY_RANGE_BLOCK, 100, 1, 1, &base), GY_PAGES_OK);
    assert_int_equal(gy_pages_alloc(&f->pages, GY_RANGE_BLOCK, 5000, 1, 2, &base), GY_PAGES_OK);
    assert_int_equal(gy_pages_alloc(&f->pages, GY_RANGE_BLOCK, 7, 1, 2, &base), GY_PAGES_OK);
    assert_int_equal(gy_pages_alloc(&f->pages, GY_RANGE_CHUNK, 4096, 1, 0, &chunk), GY_PAGES_OK);
    gy_pages_each_block(&f->pages, count_block, sums);
    assert_int_equal(sums[0], 0);
    assert_int_equal(sums[1], 100);
    assert_int_equal(sums[2], 5007);
    assert_int_equal(gy_pages_free(&f->pages, slab_at(f, chunk), GY_RANGE_BLOCK, chunk, &bytes),
                     GY_PAGES_NOT_FOUND);
    assert_int_equal(gy_pages_free(&f->pages, slab_at(f, chunk), GY_RANGE_CHUNK, chunk, &bytes), GY_PAGES_OK);
}

static void test_host_memory_faults_leave_the_layer_usable(void **state)
{
    struct fixture *f = *state;
    unsigned faults = 0;
    /* There are enough blocks for several batches of nodes. */
    for (unsigned i = 0; i < BLOCKS; i++) {
        uintptr_t base = 1;
        gy_fault_arm(0);
        enum gy_pages_result result = gy_pages_alloc(&f->pages, GY_RANGE_BLOCK, 4096, 4096, i, &base);
        bool fired = gy_fault_fired();
        gy_fault_arm(-1);
        if (fired) {
            faults++;
            assert_int_equal(result, GY_PAGES_NO_MEMORY);
            assert_int_equal(base, 1);
            result = gy_pages_alloc(&f->pages, GY_RANGE_BLOCK, 4096, 4096, i, &base);
        }
        assert_int_equal(result, GY_PAGES_OK);
        own(f, base, 1, 0, i + 1);
    }
    assert_true(faults >= BLOCKS / 64 - 1);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup_teardown(test_random_use_agrees_with_a_shadow_map, setup, teardown),
        cmocka_unit_test_setup_teardown(test_whole_slab_with_its_alignment_fits, setup, teardown),
        cmocka_unit_test_setup_teardown(test_absurd_sizes_are_refused, setup, teardown),
        cmocka_unit_test_setup_teardown(test_each_live_block_is_visited_with_its_site, setup, teardown),
        cmocka_unit_test_setup_teardown(test_host_memory_faults_leave_the_layer_usable, setup, teardown),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
