/* SPDX-License-Identifier: MIT */
/* The pages and records of chunks, compared with shadow maps. */
#include "tests/support/cmocka_c11.h"

#include "base/alloc.h"
#include "heap/chunk.h"

#include <stdlib.h>
#include <string.h>

#define CHUNKS 3
#define PAGES (CHUNKS * GY_CHUNK_PAGES)
#define BASE ((uintptr_t)1 << 46) /* nothing ever touches memory there */

struct fixture {
    struct gy_granules map;
    struct gy_chunk_pool pool;
    struct gy_chunk chunks[CHUNKS];
    bool used[PAGES]; /* shadow */
};

static int setup(void **state)
{
    struct fixture *f = calloc(1, sizeof(*f));
    assert_non_null(f);
    gy_chunk_pool_init(&f->pool, &f->map);
    for (unsigned i = 0; i < CHUNKS; i++) {
        uintptr_t base = BASE + i * GY_GRANULE_BYTES;
        f->chunks[i].region =
            (struct gy_heap_region){true, GANTRY_MEMORY_DEVICE, base, GY_GRANULE_BYTES, NULL};
        assert_true(gy_granules_add(&f->map, base, GY_GRANULE_BYTES, &f->chunks[i].region));
        gy_chunk_pool_add(&f->pool, &f->chunks[i]);
    }
    *state = f;
    return 0;
}

static int teardown(void **state)
{
    struct fixture *f = *state;
    gy_chunk_pool_fini(&f->pool);
    gy_granules_fini(&f->map);
    free(f);
    assert_int_equal(gy_alloc_live(), 0);
    return 0;
}

static uint64_t next_random(uint64_t *random)
{
    *random ^= *random << 13;
    *random ^= *random >> 7;
    *random ^= *random << 17;
    return *random;
}

/* Change the shadow; the pages must have had the other state, and be of one chunk. */
static void mark(struct fixture *f, uintptr_t base, size_t pages, bool used)
{
    size_t first = (base - BASE) / GY_PAGE_BYTES;
    assert_true(base >= BASE && first + pages <= PAGES);
    assert_int_equal(first / GY_CHUNK_PAGES, (first + pages - 1) / GY_CHUNK_PAGES);
    for (size_t page = first; page < first + pages; page++) {
        assert_int_equal(f->used[page], !used);
        f->used[page] = used;
    }
}

static size_t longest_free_run(const struct fixture *f)
{
    size_t longest = 0;
    size_t run = 0;
    for (size_t page = 0; page < PAGES; page++) {
        run = f->used[page] ? 0 : page % GY_CHUNK_PAGES == 0 ? 1 : run + 1;
        longest = run > longest ? run : longest;
    }
    return longest;
}

static void test_runs_agree_with_a_shadow_map_when_returned_in_pieces(void **state)
{
    struct fixture *f = *state;
    uint64_t random = 88172645463325252u;
    unsigned full = 0;
    for (unsigned step = 0; step < 40000; step++) {
        if (next_random(&random) % 2 == 0) {
            size_t pages = 1 + (size_t)(next_random(&random) % 40);
            size_t alignment = GY_PAGE_BYTES << next_random(&random) % 3;
            uintptr_t base = gy_chunk_pool_take(&f->pool, pages * GY_PAGE_BYTES, alignment);
            if (base != 0) {
                assert_int_equal(base % alignment, 0);
                mark(f, base, pages, true);
            } else {
                assert_true(longest_free_run(f) < pages + alignment / GY_PAGE_BYTES);
                full++;
            }
        } else {
            /* Give back any run of used pages, however it was taken. */
            size_t first = (size_t)(next_random(&random) % PAGES);
            size_t wanted = 1 + (size_t)(next_random(&random) % 60);
            size_t pages = 0;
            while (pages < wanted && first + pages < PAGES && f->used[first + pages] &&
                   (pages == 0 || (first + pages) % GY_CHUNK_PAGES != 0)) {
                pages++;
            }
            if (pages > 0) {
                mark(f, BASE + first * GY_PAGE_BYTES, pages, false);
                gy_chunk_pool_return(&f->pool, BASE + first * GY_PAGE_BYTES, pages * GY_PAGE_BYTES);
            }
        }
    }
    assert_true(full > 0);
}

static void test_only_unused_chunks_are_removed(void **state)
{
    struct fixture *f = *state;
    uintptr_t a = gy_chunk_pool_take(&f->pool, GY_GRANULE_BYTES, GY_PAGE_BYTES);
    uintptr_t b = gy_chunk_pool_take(&f->pool, GY_PAGE_BYTES, GY_GRANULE_BYTES);
    assert_true(a != 0 && b != 0 && b % GY_GRANULE_BYTES == 0);
    assert_non_null(gy_chunk_pool_remove(&f->pool, false));
    assert_null(gy_chunk_pool_remove(&f->pool, false));
    assert_int_equal(gy_chunk_pool_take(&f->pool, GY_GRANULE_BYTES, GY_PAGE_BYTES), 0);
    assert_int_equal(gy_chunk_pool_take(&f->pool, 2 * GY_GRANULE_BYTES, GY_PAGE_BYTES), 0);
    gy_chunk_pool_return(&f->pool, b, GY_PAGE_BYTES);
    assert_non_null(gy_chunk_pool_remove(&f->pool, false));
    assert_non_null(gy_chunk_pool_remove(&f->pool, true));
    assert_null(gy_chunk_pool_remove(&f->pool, true));
}

static void test_records_are_taken_once_and_cover_their_block(void **state)
{
    struct fixture *f = *state;
    struct gy_chunk *chunk = &f->chunks[1];
    uintptr_t base = chunk->region.base;
    uint32_t most_site = (1u << GY_SITE_BITS) - 1;
    gy_chunk_record(chunk, base, GY_SMALL_MAX, most_site);
    gy_chunk_record(chunk, base + 16384, 1, 0);
    gy_chunk_record(chunk, base + GY_GRANULE_BYTES - 256, 256, 7);
    assert_int_equal(gy_record_size(gy_chunk_peek(chunk, base)), GY_SMALL_MAX);
    assert_int_equal(gy_record_site(gy_chunk_peek(chunk, base)), most_site);
    assert_int_equal(gy_chunk_peek(chunk, base + 1), 0);
    assert_int_equal(gy_chunk_peek(chunk, base + 256), 0);
    assert_true(gy_chunk_contain(chunk, base + GY_SMALL_MAX - 1));
    assert_false(gy_chunk_contain(chunk, base + GY_SMALL_MAX));
    assert_true(gy_chunk_contain(chunk, base + 16384));
    assert_false(gy_chunk_contain(chunk, base + 16385));
    assert_true(gy_chunk_contain(chunk, base + GY_GRANULE_BYTES - 1));
    assert_false(gy_chunk_contain(chunk, base + 100000));
    assert_int_equal(gy_chunk_take(chunk, base + 16), 0);
    assert_int_equal(gy_record_size(gy_chunk_take(chunk, base)), GY_SMALL_MAX);
    assert_int_equal(gy_chunk_take(chunk, base), 0);
    assert_false(gy_chunk_contain(chunk, base));
}

static void test_granules_are_found_at_both_ends_of_the_address_space(void **state)
{
    struct fixture *f = *state;
    struct gy_heap_region region = {.kind = GANTRY_MEMORY_HOST, .bytes = 2 * GY_GRANULE_BYTES};
    uintptr_t top = ((uintptr_t)1 << 57) - GY_GRANULE_BYTES;
    assert_true(gy_granules_add(&f->map, 0, 2 * GY_GRANULE_BYTES, &region));
    assert_true(gy_granules_add(&f->map, top, GY_GRANULE_BYTES, &region));
    assert_false(gy_granules_add(&f->map, top, 2 * GY_GRANULE_BYTES, &region));
    assert_false(gy_granules_add(&f->map, (uintptr_t)1 << 60, GY_GRANULE_BYTES, &region));
    assert_ptr_equal(gy_granules_find(&f->map, 0), &region);
    assert_ptr_equal(gy_granules_find(&f->map, 2 * GY_GRANULE_BYTES - 1), &region);
    assert_null(gy_granules_find(&f->map, 2 * GY_GRANULE_BYTES));
    assert_ptr_equal(gy_granules_find(&f->map, top + GY_GRANULE_BYTES - 1), &region);
    assert_null(gy_granules_find(&f->map, top + GY_GRANULE_BYTES));
    assert_null(gy_granules_find(&f->map, UINTPTR_MAX));
    /* A range over the border of two leaves of 8 GiB each. */
    uintptr_t border = (uintptr_t)5 << 33;
    assert_true(gy_granules_add(&f->map, border - GY_GRANULE_BYTES, 3 * GY_GRANULE_BYTES, &region));
    assert_null(gy_granules_find(&f->map, border - GY_GRANULE_BYTES - 1));
    assert_ptr_equal(gy_granules_find(&f->map, border - 1), &region);
    assert_ptr_equal(gy_granules_find(&f->map, border), &region);
    gy_granules_replace(&f->map, border, GY_GRANULE_BYTES, NULL);
    assert_null(gy_granules_find(&f->map, border));
    assert_ptr_equal(gy_granules_find(&f->map, border + GY_GRANULE_BYTES), &region);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup_teardown(test_runs_agree_with_a_shadow_map_when_returned_in_pieces, setup,
                                        teardown),
        cmocka_unit_test_setup_teardown(test_only_unused_chunks_are_removed, setup, teardown),
        cmocka_unit_test_setup_teardown(test_records_are_taken_once_and_cover_their_block, setup, teardown),
        cmocka_unit_test_setup_teardown(test_granules_are_found_at_both_ends_of_the_address_space, setup,
                                        teardown),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
