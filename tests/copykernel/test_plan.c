/* SPDX-License-Identifier: MIT */
/* The planner: checks, patterns, overlaps, prefixes, merging and divisions of the work. */
#include "tests/support/cmocka_c11.h"
#include "tests/support/plant.h"

#include "base/status.h"
#include "copykernel/ring.h"
#include "copykernel/tuning.h"

#include <stdlib.h>
#include <string.h>

static uint64_t random_state = 88172645463325252u;

static uint64_t random_bits(void)
{
    random_state ^= random_state << 13;
    random_state ^= random_state >> 7;
    random_state ^= random_state << 17;
    return random_state >> 11;
}

static uint64_t random_below(uint64_t bound)
{
    return random_bits() % bound;
}

static struct gy_copy_item make_item(uint64_t dest, uint64_t source, uint64_t bytes, uint32_t index,
                                     bool is_fill)
{
    return (struct gy_copy_item){.dest = dest,
                                 .source = source,
                                 .bytes = bytes,
                                 .index = index,
                                 .group = GY_COPY_WITHIN,
                                 .is_fill = is_fill};
}

/* ---- checks ---- */

static char somewhere[64];

static void assert_refused(gantry_copy_desc bad, const char *field)
{
    gantry_copy_desc descs[3] = {
        {somewhere, somewhere + 8, 8, GANTRY_COPY_DTOD, 0, 0},
        {NULL, NULL, 0, GANTRY_COPY_HTOD, 0, 0},
        bad,
    };
    assert_int_equal(gy_copy_check(descs, 3), GANTRY_ERR_INVALID_ARGUMENT);
    assert_non_null(strstr(gantry_last_error(), "copy descriptor 2: "));
    if (strstr(gantry_last_error(), field) == NULL) {
        fail_msg("no \"%s\" in \"%s\"", field, gantry_last_error());
    }
}

static void test_check_names_index_and_field(void **state)
{
    (void)state;
    char *s = somewhere;
    void *far_out = (void *)(uintptr_t)((uint64_t)1 << 48),
         *top = (void *)(uintptr_t)(((uint64_t)1 << 48) - 4);
    assert_refused((gantry_copy_desc){s, s + 8, 8, (gantry_copy_type)4, 0, 0}, "type 4");
    assert_refused((gantry_copy_desc){NULL, s, 8, GANTRY_COPY_HTOD, 0, 0}, "dest is NULL");
    assert_refused((gantry_copy_desc){s, NULL, 8, GANTRY_COPY_DTOH, 0, 0}, "source is NULL");
    assert_refused((gantry_copy_desc){NULL, NULL, 8, GANTRY_COPY_FILL, 4, 0}, "dest is NULL");
    assert_refused((gantry_copy_desc){far_out, s, 1, GANTRY_COPY_DTOD, 0, 0}, "dest");
    assert_refused((gantry_copy_desc){top, s, 5, GANTRY_COPY_DTOD, 0, 0}, "dest");
    assert_refused((gantry_copy_desc){s, top, 5, GANTRY_COPY_DTOD, 0, 0}, "source");
    assert_refused((gantry_copy_desc){s, s, UINT64_MAX, GANTRY_COPY_DTOD, 0, 0}, "dest");
    assert_refused((gantry_copy_desc){s, NULL, 8, GANTRY_COPY_FILL, 0, 0}, "pattern_bytes is 0");
    assert_refused((gantry_copy_desc){s, NULL, 8, GANTRY_COPY_FILL, 3, 0}, "pattern_bytes is 3");
    assert_refused((gantry_copy_desc){s, s, 8, GANTRY_COPY_FILL, 32, 0}, "pattern_bytes is 32");
    assert_refused((gantry_copy_desc){s, NULL, 8, GANTRY_COPY_FILL, 8, 0}, "source is NULL");
    assert_refused((gantry_copy_desc){s, NULL, 0, GANTRY_COPY_FILL, 16, 0}, "source is NULL");
}

static void test_check_accepts_what_is_right(void **state)
{
    (void)state;
    const gantry_copy_desc descs[] = {
        {somewhere, somewhere + 8, 8, GANTRY_COPY_HTOD, 0, 0},
        {NULL, NULL, 0, GANTRY_COPY_DTOH, 0, 0},
        {NULL, NULL, 0, GANTRY_COPY_FILL, 4, 0},
        {somewhere + 1, NULL, 7, GANTRY_COPY_FILL, 1, 0x12},
        {somewhere + 1, NULL, 7, GANTRY_COPY_FILL, 2, 0x1234},
        {somewhere + 3, somewhere, 5, GANTRY_COPY_FILL, 8, 0},
        {somewhere + 3, somewhere, 50, GANTRY_COPY_FILL, 16, 0},
        {(void *)(uintptr_t)(((uint64_t)1 << 48) - 4), somewhere, 4, GANTRY_COPY_DTOD, 0, 0},
    };
    assert_ok(gy_copy_check(descs, sizeof(descs) / sizeof(descs[0])));
    assert_ok(gy_copy_check(NULL, 0));
}

static void test_pattern_begins_at_dest_whatever_its_alignment(void **state)
{
    (void)state;
    uint8_t given[16];
    for (uint32_t i = 0; i < 16; i++) {
        given[i] = (uint8_t)(0x11 * i + 1);
    }
    for (uint32_t size = 1; size <= 16; size *= 2) {
        gantry_copy_desc desc = {.type = GANTRY_COPY_FILL, .source = given, .pattern_bytes = size};
        memcpy(&desc.pattern, given, 4);
        for (uint64_t dest = 1000; dest < 1016; dest++) {
            uint64_t vector[2];
            gy_copy_pattern(&desc, dest, &vector[0], &vector[1]);
            for (uint64_t i = 0; i < 32; i++) {
                assert_int_equal(((uint8_t *)vector)[(dest + i) % 16], given[i % size]);
            }
        }
    }
}

/* ---- overlaps ---- */

static bool touch(uint64_t a, uint64_t a_bytes, uint64_t b, uint64_t b_bytes)
{
    return a < b + b_bytes && b < a + a_bytes;
}

/* The definition of an overlap, pair by pair. */
static bool overlaps(const struct gy_copy_item *items, size_t count)
{
    for (size_t i = 0; i < count; i++) {
        for (size_t k = 0; k < count; k++) {
            if ((i != k && touch(items[i].dest, items[i].bytes, items[k].dest, items[k].bytes)) ||
                (!items[i].is_fill &&
                 touch(items[i].source, items[i].bytes, items[k].dest, items[k].bytes))) {
                return true;
            }
        }
    }
    return false;
}

static void test_overlap_is_found_exactly_when_there_is_one(void **state)
{
    (void)state;
    enum { MOST = 24 };
    struct gy_copy_item items[MOST];
    struct gy_copy_range scratch[2 * MOST];
    int found = 0, clean = 0;
    for (int round = 0; round < 20000; round++) {
        size_t count = 1 + random_below(MOST);
        uint64_t space = 50u << random_below(9);
        for (size_t i = 0; i < count; i++) {
            items[i] = make_item(1000 + random_below(space), 1000 + random_below(space), 1 + random_below(12),
                                 (uint32_t)(100 + i), random_below(3) == 0);
            if (random_below(2) == 0) {
                items[i].source += 100000; /* like sources on the other side of the link */
            }
        }
        bool expected = overlaps(items, count);
        gantry_status status = gy_copy_check_overlap(items, count, scratch);
        assert_int_equal(status, expected ? GANTRY_ERR_INVALID_ARGUMENT : GANTRY_OK);
        found += expected;
        clean += !expected;
    }
    assert_true(found > 1000 && clean > 1000);
}

static void test_overlap_names_both_descriptors(void **state)
{
    (void)state;
    struct gy_copy_range scratch[6];
    struct gy_copy_item items[3] = {make_item(1000, 5000, 100, 7, false),
                                    make_item(2000, 6000, 100, 8, false),
                                    make_item(1099, 7000, 10, 9, false)};
    assert_int_equal(gy_copy_check_overlap(items, 3, scratch), GANTRY_ERR_INVALID_ARGUMENT);
    assert_non_null(strstr(gantry_last_error(), "descriptors 7 and 9: their dest ranges overlap"));
    items[2].dest = 1100;
    assert_ok(gy_copy_check_overlap(items, 3, scratch));
    items[0].source = 2099;
    assert_int_equal(gy_copy_check_overlap(items, 3, scratch), GANTRY_ERR_INVALID_ARGUMENT);
    assert_non_null(strstr(gantry_last_error(), "descriptor 7: source overlaps dest of descriptor 8"));
    items[0].is_fill = true; /* then the same number is a pattern */
    assert_ok(gy_copy_check_overlap(items, 3, scratch));
}

static void test_prefix_ends_before_the_first_conflict(void **state)
{
    (void)state;
    enum { MOST = 24 };
    struct gy_copy_item items[MOST];
    struct gy_copy_range scratch[2 * MOST];
    int cut = 0;
    for (int round = 0; round < 5000; round++) {
        size_t count = 1 + random_below(MOST), expected = 1;
        for (size_t i = 0; i < count; i++) {
            items[i] = make_item(1000 + 20 * random_below(100), 100000 + 20 * random_below(100), 10,
                                 (uint32_t)i, false);
            if (random_below(4) == 0) {
                items[i].source -= 99000 - 10; /* between the dests, beside its own */
                items[i].source -= random_below(2) * 10;
                items[i].source += items[i].source == items[i].dest ? 10 : 0;
            }
        }
        while (expected < count && !overlaps(items, expected + 1)) {
            expected++;
        }
        assert_int_equal(gy_copy_free_prefix(items, count, scratch), expected);
        cut += expected < count;
    }
    assert_true(cut > 500);
}

static void test_neighbours_are_merged_only_where_both_sides_continue(void **state)
{
    (void)state;
    struct gy_copy_item items[10];
    for (uint32_t i = 0; i < 10; i++) {
        items[i] = make_item(1000 + 100 * i, 9000 + 100 * i, 100, i, false);
        items[i].joins = true;
    }
    assert_int_equal(gy_copy_merge(items, 10), 1);
    assert_true(items[0].dest == 1000 && items[0].source == 9000 && items[0].bytes == 1000);
    for (uint32_t i = 0; i < 10; i++) {
        items[i] = make_item(1000 + 100 * i, 9000 + 100 * i, 100, i, i >= 8);
        items[i].joins = i != 2;
    }
    items[4].source += 1;
    items[6].dest += 1;
    items[8].source = items[9].source = 0x1111111111111111u;
    items[9].high = 1;
    /* 0-1 | 2-3 | 4 | 5 | 6 | 7 | fill 8 | fill 9: 4 leaves the line of 3, 5 that of 4, 6 and 7 likewise */
    assert_int_equal(gy_copy_merge(items, 10), 8);
    assert_int_equal(items[1].index, 2);
    assert_int_equal(items[1].bytes, 200);
    assert_int_equal(items[7].index, 9);
    assert_int_equal(gy_copy_merge(items, 0), 0);
    for (uint32_t i = 0; i < 3; i++) { /* for fills the pattern counts, and is no address */
        items[i] = make_item(1000 + 100 * i, 0, 100, i, true);
        items[i].joins = true;
        items[i].source = items[i].high = 0x1111111111111111u + (i == 2 ? 100 : 0);
    }
    items[2].high = items[1].high;
    assert_int_equal(gy_copy_merge(items, 3), 2);
    assert_int_equal(items[0].bytes, 200);
}

/* ---- division ---- */

static uint64_t piece_dest(const uint64_t *piece)
{
    return piece[0] >> 48 | (piece[1] & 0xffffffffu) << 16;
}

static uint64_t piece_source(const uint64_t *piece)
{
    return piece[0] & (((uint64_t)1 << 48) - 1);
}

static uint64_t piece_bytes(const uint64_t *piece)
{
    return piece[1] >> 32 & ((1u << 30) - 1);
}

static uint64_t *pack(const struct gy_copy_item *items, size_t count, uint32_t warps,
                      struct gy_copy_plan *plan)
{
    const struct gy_copy_budget budget = {{128, 64, warps}, false};
    assert_ok(gy_copy_measure(items, count, &budget, plan));
    uint64_t *words = malloc((plan->words + 1) * sizeof(*words));
    assert_non_null(words);
    words[plan->words] = 0x5555555555555555u;
    gy_copy_pack(items, count, plan, words);
    assert_true(words[plan->words] == 0x5555555555555555u);
    return words;
}

/* The pieces are the items of one group, in order and without gaps. */
static uint32_t assert_pieces_cover(const struct gy_copy_item *items, size_t count, const uint64_t *words,
                                    uint32_t next, uint32_t group)
{
    for (size_t i = 0; i < count; i++) {
        uint64_t done = 0;
        while (items[i].group == group && done < items[i].bytes) {
            const uint64_t *piece = words + 2 * (size_t)next++;
            uint64_t source = piece_source(piece);
            assert_true(piece_dest(piece) == items[i].dest + done);
            assert_int_equal(piece[1] >> 63, items[i].is_fill);
            if (piece[1] >> 62 == 3) {
                assert_true(words[source] == items[i].source && words[source + 1] == items[i].high);
            } else if (items[i].is_fill) {
                assert_true((source | source << 32) == items[i].source && items[i].source == items[i].high);
            } else {
                assert_true(source == items[i].source + done);
            }
            assert_true(piece_bytes(piece) > 0 && piece_bytes(piece) <= GY_COPY_PIECE_MAX);
            done += piece_bytes(piece);
        }
        assert_true(items[i].group != group || done == items[i].bytes);
    }
    return next;
}

/* The cost of the unit; it is not empty, and a cut is at a memory line. */
static uint64_t cost_of_unit(const uint64_t *words, const uint64_t *start)
{
    uint32_t first = (uint32_t)start[0], last = (uint32_t)start[1];
    uint64_t from = start[0] >> 32, to = start[1] >> 32, cost = 0;
    assert_true(first < last || (first == last && from < to));
    for (uint32_t p = first; p < last || (p == last && to != 0); p++) {
        uint64_t begin = p == first ? from : 0;
        uint64_t end = p == last ? to : piece_bytes(words + 2 * (size_t)p);
        assert_true(begin < end);
        cost += end - begin + 256;
    }
    assert_true(to == 0 || (piece_dest(words + 2 * (size_t)last) + to) % 128 == 0);
    return cost;
}

/* The units follow each other, cover everything, and none costs much more than its share. */
static void assert_units_are_fair(const uint64_t *words, const struct gy_copy_plan *plan,
                                  const uint32_t *piece_ends)
{
    const uint64_t *starts = words + 2 * (size_t)(plan->pieces + plan->patterns);
    assert_true(starts[0] == 0);
    for (uint32_t g = 0, u = 0; g < GY_COPY_GROUPS; g++) {
        const struct gy_copy_dealing *dealing = &plan->dealing[g];
        uint64_t left = dealing->cost;
        for (; u < plan->ends[g]; u++) {
            uint64_t cost = cost_of_unit(words, starts + u);
            assert_true(cost <= dealing->most + 128);
            if (dealing->taper != 0) {
                assert_true(cost <= left / dealing->taper + 8192 + 128);
            }
            left -= left < cost ? left : cost;
        }
        assert_true(starts[u] == piece_ends[g]);
    }
    assert_true(starts[plan->ends[GY_COPY_WITHIN]] == plan->pieces);
}

static void assert_batch_is_right(const struct gy_copy_item *items, size_t count, const uint64_t *words,
                                  const struct gy_copy_plan *plan)
{
    uint32_t piece_ends[GY_COPY_GROUPS], next = 0;
    for (uint32_t g = 0; g < GY_COPY_GROUPS; g++) {
        next = assert_pieces_cover(items, count, words, next, g);
        piece_ends[g] = next;
    }
    assert_int_equal(next, plan->pieces);
    assert_units_are_fair(words, plan, piece_ends);
}

static void test_division_covers_everything_and_is_fair(void **state)
{
    (void)state;
    enum { MOST = 300 };
    static struct gy_copy_item items[MOST];
    static const uint32_t warp_counts[] = {1, 2, 128, 4224};
    static const uint64_t sizes[] = {8, 300, 5000, 1000000, 3000000000u};
    for (int round = 0; round < 200; round++) {
        uint64_t dest = 1 + random_below(10000), biggest = sizes[random_below(5)];
        size_t count = 1 + random_below(biggest > 1000000 ? 2 : MOST);
        for (size_t i = 0; i < count; i++) {
            items[i] = make_item(dest, random_below(1000000), 1 + random_below(biggest), (uint32_t)i,
                                 random_below(4) == 0);
            items[i].group = (uint32_t)random_below(GY_COPY_GROUPS);
            if (items[i].is_fill) { /* long ones and short ones; some come again and again */
                items[i].source = (1 + random_below(3)) * 0x100000001u;
                items[i].high = random_below(2) == 0 ? items[i].source : 7;
            }
            dest += items[i].bytes + random_below(100);
        }
        struct gy_copy_plan plan;
        uint64_t *words = pack(items, count, warp_counts[random_below(4)], &plan);
        assert_batch_is_right(items, count, words, &plan);
        free(words);
    }
}

/* The short way and the long way make the same words of the same copies. */
static void test_the_short_way_packs_what_the_long_way_does(void **state)
{
    (void)state;
    enum { COUNT = 700 };
    static struct gy_copy_item items[COUNT];
    static gantry_copy_desc descs[COUNT];
    static const uint64_t most_bytes[] = {1, 64, 300, 2000, 100000};
    for (uint32_t n = 0; n < 60; n++) {
        struct gy_copy_scan scan = {.type = (gantry_copy_type)(n % 3), .group = n % 3};
        const struct gy_copy_budget budget = {{8, 8, n % 4 == 0 ? 1 : 300}, false};
        size_t count = 0;
        for (size_t i = 0; i < COUNT; i++) {
            const uint64_t bytes = random_below(most_bytes[n % 5] + 1);
            descs[i] = (gantry_copy_desc){.dest = (void *)(uintptr_t)(0x700000000 + i * 100200 + n),
                                          .source = (void *)(uintptr_t)(0x900000000 + i * 100200),
                                          .bytes = bytes,
                                          .type = scan.type};
            if (bytes != 0) {
                items[count] = make_item((uintptr_t)descs[i].dest, (uintptr_t)descs[i].source, bytes,
                                         (uint32_t)i, false);
                items[count++].group = scan.group;
                scan.bytes += bytes;
            }
        }
        scan.pieces = count;
        struct gy_copy_plan longer, shorter;
        assert_ok(gy_copy_measure(items, count, &budget, &longer));
        assert_ok(gy_copy_measure_scan(&scan, &budget, &shorter));
        assert_true(shorter.words >= longer.words);
        uint64_t *const expected = calloc(longer.words, sizeof(*expected));
        uint64_t *const words = calloc(shorter.words, sizeof(*words));
        assert_non_null(expected);
        assert_non_null(words);
        gy_copy_pack(items, count, &longer, expected);
        gy_copy_pack_scan(descs, COUNT, &scan, &shorter, words);
        assert_memory_equal(words, expected, longer.words * sizeof(*words));
        assert_memory_equal(shorter.ends, longer.ends, sizeof(longer.ends));
        free(expected);
        free(words);
    }
}

static void test_one_large_copy_is_spread(void **state)
{
    (void)state;
    struct gy_copy_item item = make_item(0x10000, 0x900000000u, 256 << 20, 0, false);
    struct gy_copy_plan plan;
    free(pack(&item, 1, 4224, &plan));
    assert_true(plan.wide);
    assert_in_range(plan.ends[GY_COPY_WITHIN], 2048, 2048 * 105 / 100); /* of 128 KiB each */
    item.bytes = 32 << 20;
    free(pack(&item, 1, 4224, &plan));
    assert_false(plan.wide);
    assert_in_range(plan.ends[GY_COPY_WITHIN], 4224 - 200, 4224); /* one for each warp */
    item.bytes = 1000;                                            /* too little to share */
    free(pack(&item, 1, 4224, &plan));
    assert_int_equal(plan.ends[GY_COPY_WITHIN], 1);
    item.bytes = (uint64_t)1 << 40; /* the table stays small enough */
    const struct gy_copy_budget budget = {{128, 64, 4224}, false};
    assert_ok(gy_copy_measure(&item, 1, &budget, &plan));
    assert_in_range(plan.ends[GY_COPY_WITHIN], 4 << 20, (4 << 20) + 100000);
}

static void test_units_over_the_link_become_smaller_at_the_end(void **state)
{
    (void)state;
    struct gy_copy_item items[2] = {make_item(0x10000, 0x900000000u, 64 << 20, 0, false),
                                    make_item(0x80000000u, 0xa00000000u, 1 << 20, 1, false)};
    items[0].group = GY_COPY_FROM_HOST;
    items[1].group = GY_COPY_TO_HOST;
    struct gy_copy_plan plan;
    uint64_t *words = pack(items, 2, 4224, &plan);
    const uint64_t *starts = words + 2 * (size_t)plan.pieces;
    uint64_t before = UINT32_MAX;
    /* 1024 of 64 KiB would all be alike */
    assert_in_range(plan.ends[GY_COPY_FROM_HOST], 1024 + 200, 1024 + 500);
    for (uint32_t u = 0; u + 1 < plan.ends[GY_COPY_FROM_HOST]; u++) {
        uint64_t cost = cost_of_unit(words, starts + u);
        assert_true(cost <= before + 512);
        assert_true(cost >= 8192 - 512);
        before = cost;
    }
    assert_true(before < 9000);
    /* the work of one round of warps is dealt out evenly */
    assert_int_equal(plan.ends[GY_COPY_TO_HOST] - plan.ends[GY_COPY_FROM_HOST], 64);
    assert_int_equal(plan.ends[GY_COPY_WITHIN], plan.ends[GY_COPY_TO_HOST]);
    free(words);
}

static void test_many_small_copies_are_spread_too(void **state)
{
    (void)state;
    enum { COUNT = 1000 };
    static struct gy_copy_item items[COUNT];
    for (uint32_t i = 0; i < COUNT; i++) {
        items[i] = make_item(0x10000 + 4096 * i, 0x10000000 + 4096 * i, 4096, i, false);
    }
    struct gy_copy_plan plan;
    free(pack(items, COUNT, 4224, &plan));
    assert_in_range(plan.ends[GY_COPY_WITHIN], COUNT, 3 * COUNT);
}

static void test_millions_of_copies_and_more_than_4_gib_are_planned(void **state)
{
    (void)state;
    enum { COUNT = 2000000 };
    struct gy_copy_item *items = malloc(COUNT * sizeof(*items));
    struct gy_copy_range *scratch = malloc(2 * COUNT * sizeof(*scratch));
    assert_true(items != NULL && scratch != NULL);
    uint64_t dest = 0x10000;
    for (uint32_t i = 0; i < COUNT; i++) {
        uint64_t bytes = i == 1000000 ? ((uint64_t)5 << 30) + 3 : 1 + i % 300;
        items[i] = make_item(dest, 0x200000000000u + 2 * dest, bytes, i, false);
        dest += bytes + 1;
    }
    assert_ok(gy_copy_check_overlap(items, COUNT, scratch));
    assert_int_equal(gy_copy_merge(items, COUNT), COUNT);
    struct gy_copy_plan plan;
    uint64_t *words = pack(items, COUNT, 4224, &plan);
    assert_int_equal(plan.pieces, COUNT + 5);
    assert_batch_is_right(items, COUNT, words, &plan);
    free(words);
    free(scratch);
    free(items);
}

/* ---- tuning ---- */

static void test_size_classes_and_choice_of_engine(void **state)
{
    (void)state;
    static const uint64_t first[GANTRY_COPY_SIZE_CLASSES] = {1,       65536,   1 << 18, 1 << 20,
                                                             1 << 22, 1 << 24, 1 << 26, 1 << 28};
    for (uint32_t c = 0; c < GANTRY_COPY_SIZE_CLASSES; c++) {
        assert_int_equal(gy_copy_size_class(first[c]), c);
        assert_int_equal(gy_copy_size_class(gy_copy_class_bytes(c)), c);
        assert_int_equal(gy_copy_size_class(4 * gy_copy_class_bytes(c) - 1), c);
    }
    assert_int_equal(gy_copy_size_class(UINT64_MAX), 7);
    gantry_copy_tuning tuning = {.struct_size = sizeof(tuning)};
    tuning.engine_up_to[1][3] = 2;
    struct gy_copy_item items[3] = {make_item(0, 0, 5 << 20, 0, false), make_item(0, 0, 1 << 20, 1, false),
                                    make_item(0, 0, 5 << 20, 2, false)};
    assert_true(gy_copy_prefers_engine(&tuning, items, 2, 1)); /* the smallest decides */
    assert_false(gy_copy_prefers_engine(&tuning, items, 3, 1));
    assert_false(gy_copy_prefers_engine(&tuning, items, 2, 0));
    assert_false(gy_copy_prefers_engine(&tuning, items, 2, -1));
}

static void test_tuning_text_is_cut_to_its_room(void **state)
{
    (void)state;
    gantry_copy_tuning tuning;
    gy_copy_tuning_defaults(&tuning);
    char whole[1024], part[100];
    size_t length = gantry_copy_tuning_text(&tuning, whole, sizeof(whole));
    assert_int_equal(length, strlen(whole));
    assert_non_null(strstr(whole, "blocks: HtoD 4 and DtoH 4 of 1024 threads, device all\n"));
    assert_non_null(strstr(whole, "HtoD             0         2       all"));
    for (size_t room = 1; room <= sizeof(part); room++) {
        memset(part, 'x', sizeof(part));
        assert_int_equal(gantry_copy_tuning_text(&tuning, part, room), length);
        assert_int_equal(strlen(part), room - 1);
        assert_memory_equal(part, whole, room - 1);
    }
    assert_int_equal(gantry_copy_tuning_text(&tuning, NULL, 0), length);
    assert_int_equal(gantry_copy_tuning_text(NULL, part, sizeof(part)), 0);
}

static void test_a_ring_that_contradicts_itself_is_seen(void **state)
{
    (void)state;
    static struct gy_copy_ring ring;
    struct gy_copy_chunk idle = {.size_class = 3}, first = {.size_class = 3}, last = {.size_class = 3};
    first.next = &last;
    ring.free[3] = &idle;
    ring.busy[3] = (struct gy_copy_chunks){&first, &last};
    PLANT(gy_copy_ring_class_is_valid(&ring, 3), idle.size_class, 2);
    PLANT(gy_copy_ring_class_is_valid(&ring, 3), last.size_class, 2);
    PLANT(gy_copy_ring_class_is_valid(&ring, 3), ring.busy[3].first, NULL);
    PLANT(gy_copy_ring_class_is_valid(&ring, 3), ring.busy[3].last, NULL);
    PLANT(gy_copy_ring_class_is_valid(&ring, 3), ring.busy[3].last, &first);
    PLANT(gy_copy_ring_class_is_valid(&ring, 3), ring.counters_given, GY_COPY_RING_COUNTERS + 1);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_a_ring_that_contradicts_itself_is_seen),
        cmocka_unit_test(test_check_names_index_and_field),
        cmocka_unit_test(test_check_accepts_what_is_right),
        cmocka_unit_test(test_pattern_begins_at_dest_whatever_its_alignment),
        cmocka_unit_test(test_overlap_is_found_exactly_when_there_is_one),
        cmocka_unit_test(test_overlap_names_both_descriptors),
        cmocka_unit_test(test_prefix_ends_before_the_first_conflict),
        cmocka_unit_test(test_neighbours_are_merged_only_where_both_sides_continue),
        cmocka_unit_test(test_division_covers_everything_and_is_fair),
        cmocka_unit_test(test_the_short_way_packs_what_the_long_way_does),
        cmocka_unit_test(test_one_large_copy_is_spread),
        cmocka_unit_test(test_units_over_the_link_become_smaller_at_the_end),
        cmocka_unit_test(test_many_small_copies_are_spread_too),
        cmocka_unit_test(test_millions_of_copies_and_more_than_4_gib_are_planned),
        cmocka_unit_test(test_size_classes_and_choice_of_engine),
        cmocka_unit_test(test_tuning_text_is_cut_to_its_room),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
