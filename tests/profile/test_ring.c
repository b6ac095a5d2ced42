/* SPDX-License-Identifier: MIT */
/* Rings of spans and lanes of slices. */
#include "tests/support/cmocka_c11.h"

#include "base/alloc.h"
#include "base/thread.h"
#include "profile/ring.h"
#include "profile/track_row.h"

#include <sched.h>
#include <string.h>

static bool put(struct gy_ring *ring, uint64_t id, bool *half)
{
    struct gy_ring_span *span = gy_ring_slot(ring);
    if (span == NULL) {
        return false;
    }
    span->id = id;
    gy_ring_copy_name(span->name, "span");
    bool reached = gy_ring_push(ring);
    if (half != NULL) {
        *half = reached;
    }
    return true;
}

static void test_full_ring_counts_every_lost_span(void **state)
{
    (void)state;
    struct gy_ring *ring = gy_ring_create(3); /* rounded up to 4 */
    assert_non_null(ring);
    for (uint64_t i = 0; i < 11; i++) {
        assert_int_equal(put(ring, i, NULL), i < 4);
    }
    assert_int_equal(gy_ring_lost(ring), 7);
    assert_int_equal(gy_ring_peek(ring)->id, 0);
    gy_ring_pop(ring);
    assert_true(put(ring, 100, NULL));
    assert_false(put(ring, 101, NULL));
    assert_int_equal(gy_ring_lost(ring), 8);
    static const uint64_t expected[] = {1, 2, 3, 100};
    for (size_t i = 0; i < 4; i++) {
        assert_int_equal(gy_ring_peek(ring)->id, expected[i]);
        gy_ring_pop(ring);
    }
    assert_null(gy_ring_peek(ring));
    gy_ring_destroy(ring);
    assert_int_equal(gy_alloc_live(), 0);
}

static void test_ring_tells_when_it_is_half_full(void **state)
{
    (void)state;
    struct gy_ring *ring = gy_ring_create(8);
    assert_non_null(ring);
    bool half;
    for (uint64_t i = 1; i <= 8; i++) {
        assert_true(put(ring, i, &half));
        assert_int_equal(half, i >= 4);
    }
    for (int i = 0; i < 6; i++) {
        gy_ring_pop(ring);
    }
    assert_true(put(ring, 9, &half));
    assert_false(half);
    gy_ring_destroy(ring);
}

static void test_ring_of_one_slot_works(void **state)
{
    (void)state;
    struct gy_ring *ring = gy_ring_create(1);
    assert_non_null(ring);
    for (uint64_t i = 0; i < 5; i++) {
        bool half = false;
        assert_true(put(ring, i, &half));
        assert_true(half);
        assert_false(put(ring, i, NULL));
        gy_ring_pop(ring);
    }
    assert_int_equal(gy_ring_lost(ring), 5);
    gy_ring_destroy(ring);
}

static void test_long_name_is_cut_between_characters(void **state)
{
    (void)state;
    struct gy_ring_span span;
    char name[2 * GY_RING_NAME_BYTES];
    memset(name, 'x', sizeof(name));
    name[sizeof(name) - 1] = '\0';
    gy_ring_copy_name(span.name, name);
    assert_int_equal(strlen(span.name), GY_RING_NAME_BYTES - 1);
    name[GY_RING_NAME_BYTES - 2] = '\xC3'; /* a two-byte character would be cut in half */
    name[GY_RING_NAME_BYTES - 1] = '\xA9';
    gy_ring_copy_name(span.name, name);
    assert_int_equal(strlen(span.name), GY_RING_NAME_BYTES - 2);
    name[GY_RING_NAME_BYTES - 1] = '\0';
    name[GY_RING_NAME_BYTES - 2] = 'y';
    gy_ring_copy_name(span.name, name);
    assert_string_equal(span.name, name);
}

#define HANDED 200000

static void producer(void *arg)
{
    struct gy_ring *ring = arg;
    for (uint64_t i = 0; i < HANDED;) {
        if (put(ring, i, NULL)) {
            i++;
        } else {
            sched_yield();
        }
    }
}

static void test_ring_hands_spans_over_in_order(void **state)
{
    (void)state;
    struct gy_ring *ring = gy_ring_create(64);
    assert_non_null(ring);
    gy_thread thread;
    assert_ok(gy_thread_start(&thread, "producer", producer, ring));
    uint64_t wrong = 0;
    for (uint64_t i = 0; i < HANDED;) {
        const struct gy_ring_span *span = gy_ring_peek(ring);
        if (span == NULL) {
            sched_yield();
            continue;
        }
        wrong += span->id != i || strcmp(span->name, "span") != 0;
        gy_ring_pop(ring);
        i++;
    }
    gy_thread_join(&thread);
    assert_int_equal(wrong, 0);
    assert_null(gy_ring_peek(ring));
    gy_ring_destroy(ring);
}

static void test_ring_survives_every_allocation_failure(void **state)
{
    (void)state;
    for (long nth = 0;; nth++) {
        gy_fault_arm(nth);
        struct gy_ring *ring = gy_ring_create(16);
        bool failed = gy_fault_fired();
        gy_fault_arm(-1);
        assert_int_equal(ring == NULL, failed);
        gy_ring_destroy(ring);
        assert_int_equal(gy_alloc_live(), 0);
        if (!failed) {
            assert_int_equal(nth, 2);
            return;
        }
    }
}

static void test_lane_takes_nested_and_disjoint_slices(void **state)
{
    (void)state;
    struct gy_track_row lane = {0};
    assert_true(gy_track_row_take(&lane, 10, 20));
    assert_true(gy_track_row_take(&lane, 20, 30)); /* it touches another */
    assert_true(gy_track_row_take(&lane, 30, 30)); /* empty */
    assert_true(gy_track_row_take(&lane, 5, 30));  /* it encloses all */
    assert_int_equal(lane.count, 1);
    assert_true(gy_track_row_take(&lane, 40, 50));
    assert_int_equal(lane.count, 2);
    gy_track_row_fini(&lane);
}

static void test_lane_refuses_what_a_viewer_would_garble(void **state)
{
    (void)state;
    struct gy_track_row lane = {0};
    assert_true(gy_track_row_take(&lane, 100, 200));
    assert_false(gy_track_row_take(&lane, 150, 250)); /* it overlaps another */
    assert_false(gy_track_row_take(&lane, 100, 250)); /* it begins together with a slice that it encloses */
    assert_false(gy_track_row_take(&lane, 100, 200)); /* the same again */
    assert_false(gy_track_row_take(&lane, 120, 130)); /* it is inside of one that is written already */
    assert_false(gy_track_row_take(&lane, 50, 150));  /* it overlaps from the left */
    assert_int_equal(lane.count, 1);
    assert_true(gy_track_row_take(&lane, 99, 200));
    gy_track_row_fini(&lane);
}

static void test_lane_memory_is_bounded(void **state)
{
    (void)state;
    struct gy_track_row lane = {0};
    for (uint64_t i = 1; i <= 300000; i++) {
        assert_true(gy_track_row_take(&lane, i * 10, i * 10 + 5));
    }
    assert_true(lane.room <= 65536);
    assert_true(lane.count >= 32768);
    assert_false(gy_track_row_take(&lane, 5, 3000006));      /* slices that it would enclose are forgotten */
    assert_true(gy_track_row_take(&lane, 2800009, 3000006)); /* this one is still known */
    assert_false(gy_track_row_take(&lane, 2800009, 3000007));
    gy_track_row_fini(&lane);
    assert_int_equal(gy_alloc_live(), 0);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_full_ring_counts_every_lost_span),
        cmocka_unit_test(test_ring_tells_when_it_is_half_full),
        cmocka_unit_test(test_ring_of_one_slot_works),
        cmocka_unit_test(test_long_name_is_cut_between_characters),
        cmocka_unit_test(test_ring_hands_spans_over_in_order),
        cmocka_unit_test(test_ring_survives_every_allocation_failure),
        cmocka_unit_test(test_lane_takes_nested_and_disjoint_slices),
        cmocka_unit_test(test_lane_refuses_what_a_viewer_would_garble),
        cmocka_unit_test(test_lane_memory_is_bounded),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
