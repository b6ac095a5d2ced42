/* SPDX-License-Identifier: MIT */
/* Each check of the heap's own state fails when the state is wrong: a mistake is planted, seen and taken
 * back. */
#include "base/alloc.h"
#include "heap/chunk.h"
#include "heap/growth.h"
#include "heap/internal.h"
#include "heap/reclaimer.h"
#include "heap/starts.h"
#include "heap/streams_inside.h"
#include "tests/support/cmocka_c11.h"
#include "tests/support/plant.h"

#include <string.h>

#define BASE ((uintptr_t)1 << 40)
#define SLAB_BYTES (2 * GY_GRANULE_BYTES)

static struct {
    struct gy_pages pages;
    struct gy_slab slab[2];
    struct gy_range *low, *block, *high; /* of the first slab: they are OWNED, BLOCK and FREE */
} s;

static struct gy_range *range_at(uintptr_t base)
{
    struct gy_range *range = s.slab[0].first;
    while (range != NULL && range->base != base) {
        range = range->above;
    }
    assert_non_null(range);
    return range;
}

static int open_pages(void **state)
{
    (void)state;
    uintptr_t low, block;
    memset(&s, 0, sizeof(s));
    if (!gy_pages_init(&s.pages)) {
        return -1;
    }
    for (int i = 1; i >= 0; i--) {
        const struct gy_backing backing = {.base = BASE + (uintptr_t)i * SLAB_BYTES, .bytes = SLAB_BYTES};
        if (!gy_slab_init(&s.slab[i], GANTRY_MEMORY_DEVICE, &backing) ||
            !gy_pages_add_slab(&s.pages, &s.slab[i])) {
            return -1;
        }
    }
    assert_int_equal(gy_pages_alloc(&s.pages, GY_RANGE_BLOCK, 8192, GY_PAGE_BYTES, 1, &low), GY_PAGES_OK);
    assert_int_equal(gy_pages_alloc(&s.pages, GY_RANGE_BLOCK, 4096, GY_PAGE_BYTES, 1, &block), GY_PAGES_OK);
    s.low = range_at(low);
    s.block = range_at(block);
    s.high = range_at(block + 4096);
    assert_ptr_equal(gy_pages_claim(&s.slab[0], GY_RANGE_BLOCK, low), s.low);
    return 0;
}

static int close_pages(void **state)
{
    (void)state;
    struct gy_block_request request;
    s.low->next = NULL;
    gy_pages_release(&s.pages, s.low);
    assert_int_equal(gy_pages_free(&s.pages, &s.slab[0], GY_RANGE_BLOCK, s.block->base, &request),
                     GY_PAGES_OK);
    while (gy_pages_remove_slab(&s.pages, false) != NULL) {
    }
    gy_slab_fini(&s.slab[0]);
    gy_slab_fini(&s.slab[1]);
    gy_pages_fini(&s.pages);
    return 0;
}

static void test_ranges(void **state)
{
    (void)state;
    struct gy_range *r = s.block;
    PLANT(gy_range_is_valid(r), r->pages, r->pages + 1);
    PLANT(gy_range_is_valid(r), r->pages, 0);
    PLANT(gy_range_is_valid(r), r->base, r->base + 1);
    PLANT(gy_range_is_valid(r), r->base, r->base + GY_PAGE_BYTES);
    PLANT(gy_range_is_valid(r), r->slab, NULL);
    PLANT(gy_range_is_valid(r), r->slab, &s.slab[1]);
    PLANT(gy_range_is_valid(r), r->below, NULL);
    PLANT(gy_range_is_valid(r), r->above, NULL);
    PLANT(gy_range_is_valid(r), r->above->below, NULL);
    PLANT(gy_range_is_valid(r), r->below->above, s.high);
    PLANT(gy_range_is_valid(r), r->state, GY_RANGE_SPARE);
    PLANT(gy_range_is_valid(r), r->state, GY_RANGE_WAITING + 1);
    PLANT(gy_range_is_valid(s.low), s.slab[0].first, r);
    PLANT(gy_range_is_valid(r), s.slab[0].starts[0], (uint64_t)1);
    PLANT(gy_range_is_valid(r), s.slab[0].starts_summary[0], (uint64_t)0);
    PLANT(gy_range_is_joined(s.high), r->state, GY_RANGE_FREE);
}

static void test_the_index(void **state)
{
    (void)state;
    const size_t pages = s.high->pages;
    struct gy_tlsf *index = &s.pages.free;
    struct gy_range other = {.state = GY_RANGE_FREE, .pages = pages};
    PLANT(gy_tlsf_link_is_valid(index, s.high), s.high->prev, &other);
    PLANT(gy_tlsf_link_is_valid(index, s.high), s.high->next, &other);
    PLANT(gy_tlsf_link_is_valid(index, s.high), s.high->state, GY_RANGE_BLOCK);
    PLANT(gy_tlsf_link_is_valid(index, s.high), s.high->pages, 1);
    PLANT(gy_tlsf_column_is_valid(index, pages), s.high->prev, &other);
    PLANT(gy_tlsf_column_is_valid(index, pages), s.high->pages, 1);
    PLANT(gy_tlsf_column_is_valid(index, pages), s.high->state, GY_RANGE_OWNED);
    PLANT(gy_tlsf_column_is_valid(index, pages), index->rows, (uint64_t)0);
    PLANT(gy_tlsf_column_is_valid(index, pages), index->pages, pages - 1);
    PLANT(gy_tlsf_column_is_valid(index, 1), index->columns[0], 1u << 1);
}

static void test_slabs_and_the_page_layer(void **state)
{
    (void)state;
    struct gy_slab *slab = &s.slab[0];
    struct gy_range not_spare = {.state = GY_RANGE_FREE};
    PLANT(gy_slab_is_valid(slab), slab->idle_pages, (SLAB_BYTES >> GY_PAGE_SHIFT) + 1);
    PLANT(gy_slab_is_valid(slab), slab->hole_bytes, SLAB_BYTES);
    PLANT(gy_slab_is_valid(slab), slab->first, NULL);
    PLANT(gy_slab_is_valid(slab), slab->first, s.block);
    PLANT(gy_slab_is_valid(slab), slab->region.slab, NULL);
    PLANT(gy_slab_is_valid(slab), slab->prev, &s.slab[1]);
    PLANT(gy_slab_is_valid(slab), slab->next->prev, NULL);
    PLANT(gy_pages_are_valid(&s.pages), s.pages.spare_count, 0);
    PLANT(gy_pages_are_valid(&s.pages), s.pages.spare, NULL);
    PLANT(gy_pages_are_valid(&s.pages), s.pages.spare, &not_spare);
    PLANT(gy_pages_are_valid(&s.pages), s.pages.slabs, NULL);
    PLANT(gy_pages_are_valid(&s.pages), slab->prev, &s.slab[1]);
    PLANT(gy_pages_are_valid(&s.pages), s.pages.empty_bytes, 2 * SLAB_BYTES);
}

static void test_regions_and_chunks(void **state)
{
    (void)state;
    static struct gy_chunk chunk, other;
    chunk.region = (struct gy_heap_region){true, GANTRY_MEMORY_DEVICE, BASE, GY_GRANULE_BYTES, &s.slab[0]};
    chunk.longest = GY_CHUNK_PAGES;
    struct gy_heap_region *region = &chunk.region;
    PLANT(gy_heap_region_is_valid(region), region->kind, GANTRY_MEMORY_KIND_COUNT);
    PLANT(gy_heap_region_is_valid(region), region->base, BASE + 1);
    PLANT(gy_heap_region_is_valid(region), region->bytes, 0);
    PLANT(gy_heap_region_is_valid(region), region->bytes, GY_GRANULE_BYTES + 1);
    PLANT(gy_heap_region_is_valid(region), region->bytes, SLAB_BYTES); /* no chunk has this size */
    PLANT(gy_chunk_is_valid(&chunk), region->is_chunk, false);
    PLANT(gy_chunk_is_valid(&chunk), chunk.longest, 1);
    PLANT(gy_chunk_is_valid(&chunk), chunk.used[0], 1);
    PLANT(gy_chunk_is_valid(&chunk), chunk.prev, &other);
    PLANT(gy_chunk_is_valid(&chunk), chunk.next, &other);
}

static void test_shards(void **state)
{
    (void)state;
    static struct gy_park_shard shard;
    struct gy_range range = {.state = GY_RANGE_OWNED, .pages = 3};
    const unsigned bucket = (unsigned)((3 * 0x9e3779b97f4a7c15u) >> 59); /* as park.c puts it there */
    atomic_store(&shard.held, true);
    PLANT(gy_park_shard_is_valid(&shard), shard.pages, 1);
    shard.buckets[bucket] = &range;
    shard.pages = 3;
    PLANT(gy_park_shard_is_valid(&shard), shard.pages, 2);
    PLANT(gy_park_shard_is_valid(&shard), shard.held, false);
    PLANT(gy_park_shard_is_valid(&shard), range.state, GY_RANGE_BLOCK);
    PLANT(gy_park_shard_is_valid(&shard), range.pages, 0);
    PLANT(gy_park_shard_is_valid(&shard), shard.buckets[bucket], NULL);
    PLANT(gy_park_shard_is_valid(&shard), shard.buckets[bucket ^ 1], &range);
}

static void test_the_growing_thread(void **state)
{
    (void)state;
    static struct gy_kind kind;
    static struct gy_slab spare;
    static struct gy_chunk chunk;
    memset(&kind, 0, sizeof(kind));
    kind.growing = true;
    atomic_store(&kind.slab_total, SLAB_BYTES);
    kind.spare_slabs = &spare;
    PLANT(gy_kind_growth_is_valid(&kind), kind.growing, false);
    PLANT(gy_kind_growth_is_valid(&kind), kind.slab_total, GY_PAGE_BYTES);
    PLANT(gy_kind_growth_is_valid(&kind), kind.pages.empty_bytes, 2 * SLAB_BYTES);
    PLANT(gy_kind_growth_is_valid(&kind), spare.first, s.block);
    PLANT(gy_kind_growth_is_valid(&kind), spare.live, s.slab[0].live);
    PLANT(gy_kind_growth_is_valid(&kind), kind.spare_chunks, &chunk); /* there is no small tier */
}

static void trim(void *user, gantry_memory_kind kind, uint64_t *out_bytes)
{
    (void)user;
    (void)kind;
    *out_bytes = 0;
}

static void test_lanes(void **state)
{
    (void)state;
    static struct gy_reclaimer r;
    assert_int_equal(gy_reclaimer_init(&r, GANTRY_RECLAIM_BOUNDED, 1 << 20, trim, NULL, NULL), GANTRY_OK);
    struct gy_reclaim_lane *lane = &r.lanes[GANTRY_MEMORY_HOST];
    PLANT(gy_reclaim_lane_is_valid(lane), lane->queued_bytes, 1);
    PLANT(gy_reclaim_lane_is_valid(lane), lane->first, (struct gy_release *)&r);
    PLANT(gy_reclaim_lane_is_valid(lane), lane->state, GY_LANE_RUNNING + 1);
    PLANT(gy_reclaimer_is_valid(&r), lane->queued_bytes, 1);
    PLANT(gy_reclaimer_is_valid(&r), r.running, 1);
    PLANT(gy_reclaimer_is_valid(&r), r.stats.queued_bytes, 1);
    lane->busy = true; /* somebody releases one byte */
    lane->queued_bytes = r.stats.queued_bytes = r.stats.peak_bytes = 1;
    PLANT(gy_reclaimer_is_valid(&r), lane->queued_bytes, 2);
    PLANT(gy_reclaimer_is_valid(&r), lane->busy, false);
    lane->busy = false;
    lane->queued_bytes = r.stats.queued_bytes = 0;
    gy_reclaimer_fini(&r);
}

static void test_streams_with_blocks(void **state)
{
    (void)state;
    struct gy_heap_event event = {.holders = 1};
    struct gy_heap_stream stream = {.id = 1, .mark_count = 2};
    for (unsigned i = 0; i < 2; i++) {
        stream.marks[i] = (struct gy_heap_stream_mark){&event, 3 + i};
    }
    PLANT(gy_heap_stream_is_valid(&stream), stream.marks[0].order, 4); /* as the one behind it */
    PLANT(gy_heap_stream_is_valid(&stream), stream.marks[1].event, NULL);
    PLANT(gy_heap_stream_is_valid(&stream), stream.mark_count, GY_STREAM_MARKS + 1);
    PLANT(gy_heap_stream_is_valid(&stream), stream.marks_state, GY_MARKS_MARKING + 1);
    PLANT(gy_heap_stream_is_valid(&stream), stream.unmarked_bytes, 1);
    PLANT(gy_heap_stream_is_valid(&stream), stream.wanted, true);  /* there is no memory to want */
    PLANT(gy_heap_stream_is_valid(&stream), stream.is_over, true); /* it belongs to no capture */
    PLANT(gy_heap_stream_is_valid(&stream), stream.waiter.is_graph, true);
    stream.capture = 7;
    PLANT(gy_heap_stream_is_valid(&stream), stream.is_pinned, true); /* its graph is gone */

    static struct gy_heap_streams streams;
    streams.first = &stream;
    streams.count = 1;
    streams.order = 5;
    atomic_store(&streams.used, true);
    PLANT(gy_heap_streams_are_valid(&streams), streams.order, 4); /* no memory has a mark's order yet */
    PLANT(gy_heap_streams_are_valid(&streams), streams.count, 2);
    PLANT(gy_heap_streams_are_valid(&streams), streams.first, NULL);
    PLANT(gy_heap_streams_are_valid(&streams), streams.spare_count, GY_SPARE_EVENTS + 1);
    atomic_store(&streams.used, false);
    assert_false(gy_heap_streams_are_valid(&streams));
}

static void test_sites(void **state)
{
    (void)state;
    static struct gy_sites sites;
    const gantry_alloc_site where = {"tag", "file.c", 1};
    uint32_t number = 0;
    assert_true(gy_sites_init(&sites));
    PLANT(gy_sites_are_valid(&sites), sites.count, 0);
    PLANT(gy_sites_are_valid(&sites), sites.count, 2); /* none of them is the newest */
    assert_true(gy_sites_number(&sites, &where, &number));
    PLANT(gy_sites_are_valid(&sites), sites.count, 1);
    PLANT(gy_sites_are_valid(&sites), sites.count, 3);
    PLANT(gy_sites_are_valid(&sites), sites.newest->number, number + 1);
    PLANT(gy_sites_are_valid(&sites), sites.newest, NULL);
    gy_sites_fini(&sites);
}

int main(void)
{
#define WITH_PAGES(test) cmocka_unit_test_setup_teardown(test, open_pages, close_pages)
    const struct CMUnitTest tests[] = {
        WITH_PAGES(test_ranges),
        WITH_PAGES(test_the_index),
        WITH_PAGES(test_slabs_and_the_page_layer),
        WITH_PAGES(test_regions_and_chunks),
        cmocka_unit_test(test_shards),
        WITH_PAGES(test_the_growing_thread),
        cmocka_unit_test(test_lanes),
        cmocka_unit_test(test_streams_with_blocks),
        cmocka_unit_test(test_sites),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
