/* SPDX-License-Identifier: MIT */
/* The sums over blocks: tallies that delay what they report, the lone tally that delays everything, and
 * peaks that miss no more than they say. */
#include "tests/support/cmocka_c11.h"

#include "base/alloc.h"
#include "heap/kind.h"
#include "tests/heap/untouchable.h"

#include <sched.h>
#include <string.h>

#define MIB ((int64_t)1 << 20)
#define HOLD MIB

static struct gy_usage usage;

static int setup(void **state)
{
    (void)state;
    memset(&usage, 0, sizeof(usage));
    assert_true(gy_usage_make_site(&usage, 1));
    return 0;
}

static int teardown(void **state)
{
    (void)state;
    gy_usage_fini(&usage);
    assert_int_equal(gy_alloc_live(), 0);
    return 0;
}

static void note(struct gy_tally *tally, uint32_t site, int64_t bytes)
{
    gy_tally_note(tally, &usage, site, bytes, bytes > 0 ? 1 : -1, true);
}

static void pairs(struct gy_tally *tally, uint32_t site, int64_t bytes, int count)
{
    for (int i = 0; i < count; i++) {
        note(tally, site, bytes);
        note(tally, site, -bytes);
    }
}

static int64_t peak(void)
{
    return atomic_load(&usage.peak);
}

static int64_t site_peak(uint32_t site)
{
    return atomic_load(&gy_usage_site(&usage, site)->peak);
}

static int64_t used(struct gy_tally *a, struct gy_tally *b)
{
    struct gy_sums sums = {.used = atomic_load(&usage.used)};
    gy_tally_collect(a, &sums);
    gy_tally_collect(b, &sums);
    return sums.used;
}

static int64_t site_used(uint32_t site, struct gy_tally *a, struct gy_tally *b)
{
    int64_t bytes = atomic_load(&gy_usage_site(&usage, site)->bytes), count = 0;
    gy_tally_collect_site(a, site, &bytes, &count);
    gy_tally_collect_site(b, site, &bytes, &count);
    return bytes;
}

static void test_alone_a_tally_keeps_everything_and_misses_no_peak(void **state)
{
    (void)state;
    struct gy_tally a;
    gy_tally_init(&a, HOLD, true);
    pairs(&a, 1, 4 * MIB, 100);
    assert_ptr_equal(gy_tally_rival(&usage), &a);
    assert_true(peak() == 4 * MIB && site_peak(1) == 4 * MIB);
    int64_t shared = atomic_load(&usage.used);
    for (int64_t i = 1; i <= 20; i++) {
        note(&a, i % 2 == 0 ? 1 : 2, i * MIB);
    }
    assert_true(atomic_load(&usage.used) == shared); /* nothing was moved */
    assert_true(peak() == 210 * MIB);
    assert_true(site_peak(1) == 110 * MIB && site_peak(2) == 100 * MIB);
    for (int64_t i = 1; i <= 20; i++) {
        note(&a, i % 2 == 0 ? 1 : 2, -i * MIB);
    }
    for (int64_t i = 0; i < 300; i++) { /* one site allocates, another frees: the sum stays */
        note(&a, 1, MIB / 2);
        if (i < 100) {
            note(&a, 2, MIB / 2);
        } else if (i < 200) {
            note(&a, 2, -MIB / 2);
        }
    }
    assert_true(site_peak(1) > 150 * MIB - HOLD && site_peak(1) <= 150 * MIB);
    for (int64_t i = 0; i < 1000; i++) { /* in small steps */
        note(&a, 3, MIB / 4);
    }
    assert_true(site_peak(3) > 250 * MIB - HOLD && site_peak(3) <= 250 * MIB);
    assert_true(peak() > 400 * MIB - HOLD && peak() <= 400 * MIB);
    gy_tally_end(&a, &usage);
}

static void test_other_threads_count_blocks_of_the_lone_tally(void **state)
{
    (void)state;
    struct gy_tally a, b;
    gy_tally_init(&a, HOLD, true);
    gy_tally_init(&b, HOLD, true);
    pairs(&a, 1, 4 * MIB, 100);
    note(&a, 1, 20 * MIB);
    note(&b, 1, 30 * MIB);
    assert_true(peak() == 50 * MIB && site_peak(1) == 50 * MIB);
    assert_true(used(&a, &b) == 50 * MIB && site_used(1, &a, &b) == 50 * MIB);
    note(&b, 1, -30 * MIB);
    gy_usage_note(&usage, 2, 40 * MIB, 1);
    assert_true(peak() == 60 * MIB && site_peak(2) == 40 * MIB);
    note(&a, 1, MIB); /* it has seen that it is not alone any more */
    assert_null(gy_tally_rival(&usage));
    assert_true(peak() == 61 * MIB);
    assert_true(used(&a, &b) == 61 * MIB && site_used(1, &a, &b) == 21 * MIB);
}

static void test_an_idle_lone_one_is_deposed(void **state)
{
    (void)state;
    struct gy_tally a, b;
    gy_tally_init(&a, HOLD, true);
    gy_tally_init(&b, HOLD, true);
    pairs(&a, 1, 4 * MIB, 100);
    note(&a, 1, 20 * MIB);
    while (!b.has_idle_rival) { /* it looks twice, with some time between */
        pairs(&b, 1, 4 * MIB, 1);
    }
    note(&a, 1, MIB / 4); /* it is not idle after all; it does so little that it does not look around */
    gy_tally_depose(&a, &usage, &b);
    assert_ptr_equal(gy_tally_rival(&usage), &a);
    b.has_idle_rival = false;
    while (!b.has_idle_rival) {
        pairs(&b, 1, 4 * MIB, 1);
    }
    gy_tally_depose(&a, &usage, &b);
    assert_null(gy_tally_rival(&usage));
    assert_true(atomic_load(&a.held_back) == 0);
    pairs(&b, 1, 4 * MIB, 100);
    assert_ptr_equal(gy_tally_rival(&usage), &b);
    assert_true(used(&a, &b) == 20 * MIB + MIB / 4 && site_used(1, &a, &b) == 20 * MIB + MIB / 4);
    assert_true(peak() == 24 * MIB + MIB / 4);
}

static void test_a_tally_that_must_not_is_never_the_lone_one(void **state)
{
    (void)state;
    struct gy_tally a;
    gy_tally_init(&a, HOLD, false);
    pairs(&a, 1, 4 * MIB, 1000);
    assert_null(gy_tally_rival(&usage));
    note(&a, 1, 9 * MIB);
    assert_true(atomic_load(&usage.used) == 9 * MIB);
    for (uint32_t site = 1; site < 200; site++) { /* more sites than a tally has room for */
        note(&a, site, 100);
    }
    assert_true(used(&a, &a) >= 9 * MIB + 19900);
    gy_tally_end(&a, &usage);
    assert_true(atomic_load(&usage.used) == 9 * MIB + 19900);
    assert_int_equal(atomic_load(&usage.allocs), 1200);
    assert_int_equal(atomic_load(&usage.frees), 1000);
}

/* ---- the same in a kind ---- */

struct side {
    struct gy_kind *kind;
    struct gy_granules *map;
    int rounds;
    bool good;
};

static void use(void *arg)
{
    struct side *side = arg;
    side->good = true;
    for (int i = 0; i < side->rounds && side->good; i++) {
        uintptr_t block;
        side->good = gy_kind_alloc(side->kind, 2 * (size_t)MIB, 256, 1, &block) == GANTRY_OK &&
                     gy_kind_free(side->kind, gy_granules_find(side->map, block), block);
    }
}

/* Threads follow one another, each with a shard of its own: each becomes the lone one after the last. */
static void test_threads_take_over_from_each_other(void **state)
{
    (void)state;
    static struct gy_granules map;
    static struct gy_kind kind;
    untouchable_open(64);
    struct gy_kind_setup made = {.kind = GANTRY_MEMORY_DEVICE, .ops = &untouchable_ops, .map = &map};
    assert_ok(gy_kind_init(&kind, &made));
    uintptr_t kept;
    assert_ok(gy_kind_alloc(&kind, 10 * (size_t)MIB, 256, 2, &kept));
    struct gy_tally *before = NULL;
    for (int i = 0; i < 4; i++) {
        struct side side = {&kind, &map, 1000, false};
        gy_thread thread;
        assert_ok(gy_thread_start(&thread, "side", use, &side));
        gy_thread_join(&thread);
        assert_true(side.good);
        assert_non_null(gy_tally_rival(&kind.usage));
        assert_ptr_not_equal(gy_tally_rival(&kind.usage), before);
        before = gy_tally_rival(&kind.usage);
    }
    gantry_heap_stats stats = {0};
    gy_kind_stats(&kind, &stats);
    assert_int_equal(stats.used_bytes, 10 * MIB);
    assert_int_equal(stats.peak_bytes, 12 * MIB);
    assert_int_equal(stats.alloc_count, 4001);
    gy_kind_fini(&kind);
    gy_granules_fini(&map);
    untouchable_close();
}

/* ---- peaks are never above what was in use ---- */

enum { HANDS = 3, IN_HAND = 24 };

/* Blocks change hands: another thread frees a block than the one that allocated it.  `live` counts each
 * block from before its allocation until after its free, so `most` is at least the true peak. */
struct hands {
    struct gy_kind kind;
    _Atomic(uintptr_t) blocks[IN_HAND];
    _Atomic(int64_t) live, most;
    int64_t sizes[IN_HAND];
    _Atomic(int) failures;
};

struct hand {
    struct hands *all;
    unsigned number;
};

static struct gy_granules hands_map;

static void change_hands(void *arg)
{
    const struct hand *hand = arg;
    struct hands *h = hand->all;
    for (unsigned i = 0; i < 5000; i++) {
        unsigned slot = (i * 7 + hand->number * 5) % IN_HAND;
        uintptr_t block = 0;
        int64_t now = atomic_fetch_add(&h->live, h->sizes[slot]) + h->sizes[slot];
        gy_usage_raise_peak(&h->most, now);
        if (gy_kind_alloc(&h->kind, (size_t)h->sizes[slot], 256, 1 + slot % 3, &block) != GANTRY_OK) {
            atomic_fetch_add(&h->failures, 1);
            return;
        }
        uintptr_t former = atomic_exchange(&h->blocks[slot], block);
        if (former != 0) {
            atomic_fetch_add(&h->failures,
                             !gy_kind_free(&h->kind, gy_granules_find(&hands_map, former), former));
            atomic_fetch_sub(&h->live, h->sizes[slot]);
        }
    }
}

static void test_no_peak_is_above_what_was_in_use(void **state)
{
    (void)state;
    static struct hands h;
    bool small = gy_small_probe() == GANTRY_OK;
    memset(&h, 0, sizeof(h));
    memset(&hands_map, 0, sizeof(hands_map));
    untouchable_open(256);
    struct gy_kind_setup made = {
        .kind = GANTRY_MEMORY_DEVICE, .ops = &untouchable_ops, .map = &hands_map, .use_small = small};
    assert_ok(gy_kind_init(&h.kind, &made));
    struct hand hands[HANDS];
    gy_thread threads[HANDS];
    for (unsigned slot = 0; slot < IN_HAND; slot++) {
        h.sizes[slot] = slot % 4 == 0 ? 3000 : slot % 4 == 1 ? 300 * 1024 : (int64_t)(slot + 1) * 20 * 1024;
    }
    for (unsigned i = 0; i < HANDS; i++) {
        hands[i] = (struct hand){&h, i};
        assert_ok(gy_thread_start(&threads[i], "hand", change_hands, &hands[i]));
    }
    for (unsigned i = 0; i < HANDS; i++) {
        gy_thread_join(&threads[i]);
    }
    assert_int_equal(h.failures, 0);
    gantry_heap_stats stats = {0};
    gy_kind_stats(&h.kind, &stats);
    assert_true((int64_t)stats.used_bytes == atomic_load(&h.live));
    assert_true((int64_t)stats.peak_bytes <= atomic_load(&h.most));
    assert_true(stats.peak_bytes >= stats.used_bytes && stats.peak_bytes <= stats.peak_slab_bytes);
    for (unsigned slot = 0; slot < IN_HAND; slot++) {
        uintptr_t block = atomic_load(&h.blocks[slot]);
        assert_true(gy_kind_free(&h.kind, gy_granules_find(&hands_map, block), block));
    }
    gy_kind_fini(&h.kind);
    gy_granules_fini(&hands_map);
    untouchable_close();
}

/* One thread allocates, another frees: a single block is in use at a time. */
static void free_one(void *arg)
{
    struct hands *h = arg;
    for (int i = 0; i < 1500; i++) {
        uintptr_t block;
        while ((block = atomic_exchange(&h->blocks[0], 0)) == 0) {
            sched_yield();
        }
        atomic_fetch_add(&h->failures, !gy_kind_free(&h->kind, gy_granules_find(&hands_map, block), block));
        atomic_store(&h->live, i + 1);
    }
}

static void test_frees_of_another_thread_count_at_once(void **state)
{
    (void)state;
    static struct hands h;
    const size_t bytes = 300 * 1024;
    gy_thread thread;
    memset(&h, 0, sizeof(h));
    memset(&hands_map, 0, sizeof(hands_map));
    untouchable_open(256);
    struct gy_kind_setup made = {.kind = GANTRY_MEMORY_DEVICE, .ops = &untouchable_ops, .map = &hands_map};
    assert_ok(gy_kind_init(&h.kind, &made));
    assert_ok(gy_thread_start(&thread, "frees", free_one, &h));
    for (int i = 0; i < 1500; i++) {
        uintptr_t block;
        while (atomic_load(&h.live) < i) {
            sched_yield();
        }
        assert_ok(gy_kind_alloc(&h.kind, bytes, 256, 1, &block));
        atomic_store(&h.blocks[0], block);
    }
    gy_thread_join(&thread);
    gantry_heap_stats stats = {0};
    gantry_heap_tag_stats tag = {0};
    gy_kind_stats(&h.kind, &stats);
    gy_kind_site_stats(&h.kind, 1, &tag);
    assert_int_equal(h.failures, 0);
    assert_int_equal(stats.used_bytes, 0);
    assert_in_range(stats.peak_bytes, 0, bytes);
    assert_in_range(tag.peak_bytes, 0, 2 * bytes);
    gy_kind_fini(&h.kind);
    gy_granules_fini(&hands_map);
    untouchable_close();
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup_teardown(test_alone_a_tally_keeps_everything_and_misses_no_peak, setup,
                                        teardown),
        cmocka_unit_test_setup_teardown(test_other_threads_count_blocks_of_the_lone_tally, setup, teardown),
        cmocka_unit_test_setup_teardown(test_an_idle_lone_one_is_deposed, setup, teardown),
        cmocka_unit_test_setup_teardown(test_a_tally_that_must_not_is_never_the_lone_one, setup, teardown),
        cmocka_unit_test(test_threads_take_over_from_each_other),
        cmocka_unit_test(test_no_peak_is_above_what_was_in_use),
        cmocka_unit_test(test_frees_of_another_thread_count_at_once),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
