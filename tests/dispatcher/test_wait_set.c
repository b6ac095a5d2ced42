/* SPDX-License-Identifier: MIT */
#include "base/alloc.h"
#include "dispatcher/order/wait_set.h"
#include "tests/support/cmocka_c11.h"

#include <pthread.h>

#define CLOCKS 8u

static int open_pool(void **state)
{
    static struct gy_wait_set_pool pool;
    *state = &pool;
    return gy_wait_set_pool_init(&pool, CLOCKS) == GANTRY_OK ? 0 : -1;
}

static int close_pool(void **state)
{
    gy_wait_set_pool_fini(*state);
    return gy_alloc_live() == 0 ? 0 : -1;
}

static uint32_t free_clocks(struct gy_wait_set_pool *pool)
{
    uint32_t count = 0;
    for (struct gy_clock *clock = pool->free; clock != NULL; clock = clock->next_free) {
        count++;
    }
    return count;
}

static struct gy_clock read_clock(uint64_t wait_set)
{
    struct gy_clock room;
    const struct gy_clock *clock = gy_wait_set_read(wait_set, &room);
    assert_non_null(clock);
    return *clock;
}

static void test_point_survives_its_encoding(void **state)
{
    (void)state;
    uint64_t wait_set = gy_timeline_point(63, UINT64_C(123456789012));
    assert_true(gy_wait_set_is_point(wait_set));
    assert_int_equal(gy_timeline_stream(wait_set), 63);
    assert_true(gy_timeline_seq(wait_set) == UINT64_C(123456789012));
}

static void test_merge_keeps_the_later_point_of_one_stream(void **state)
{
    struct gy_wait_set_pool *pool = *state;
    _Atomic(uint64_t) wait_set = GY_WAIT_SET_NONE;
    gy_wait_set_merge(pool, &wait_set, gy_timeline_point(3, 7));
    gy_wait_set_merge(pool, &wait_set, gy_timeline_point(3, 5));
    assert_true(atomic_load(&wait_set) == gy_timeline_point(3, 7));
    gy_wait_set_merge(pool, &wait_set, gy_timeline_point(3, 9));
    assert_true(atomic_load(&wait_set) == gy_timeline_point(3, 9));
    gy_wait_set_merge(pool, &wait_set, GY_WAIT_SET_NONE);
    assert_true(atomic_load(&wait_set) == gy_timeline_point(3, 9));
    assert_int_equal(free_clocks(pool), CLOCKS);
}

static void test_merge_of_two_streams_makes_a_clock_with_the_first_as_home(void **state)
{
    struct gy_wait_set_pool *pool = *state;
    _Atomic(uint64_t) wait_set = GY_WAIT_SET_NONE;
    gy_wait_set_merge(pool, &wait_set, gy_timeline_point(5, 1));
    gy_wait_set_merge(pool, &wait_set, gy_timeline_point(2, 4));
    gy_wait_set_merge(pool, &wait_set, gy_timeline_point(5, 3));
    struct gy_clock clock = read_clock(atomic_load(&wait_set));
    assert_true(clock.streams == ((1u << 5) | (1u << 2)));
    assert_int_equal(clock.seq[5], 3);
    assert_int_equal(clock.seq[2], 4);
    assert_int_equal(clock.home, 5);
    assert_int_equal(free_clocks(pool), CLOCKS - 1);
    gy_wait_set_drop(pool, atomic_load(&wait_set));
    assert_int_equal(free_clocks(pool), CLOCKS);
}

static void test_a_shared_clock_is_not_changed_by_a_later_merge(void **state)
{
    struct gy_wait_set_pool *pool = *state;
    _Atomic(uint64_t) a = GY_WAIT_SET_NONE;
    gy_wait_set_merge(pool, &a, gy_timeline_point(0, 1));
    gy_wait_set_merge(pool, &a, gy_timeline_point(1, 1));
    _Atomic(uint64_t) b = GY_WAIT_SET_NONE;
    gy_wait_set_merge(pool, &b, atomic_load(&a));
    assert_true(atomic_load(&a) == atomic_load(&b));
    gy_wait_set_merge(pool, &b, gy_timeline_point(2, 8));
    assert_true(atomic_load(&a) != atomic_load(&b));
    struct gy_clock clock = read_clock(atomic_load(&a));
    assert_true(clock.streams == 3u);
    clock = read_clock(atomic_load(&b));
    assert_true(clock.streams == 7u);
    gy_wait_set_drop(pool, atomic_load(&a));
    gy_wait_set_drop(pool, atomic_load(&b));
    assert_int_equal(free_clocks(pool), CLOCKS);
}

static void test_an_empty_pool_degrades_to_after_everything(void **state)
{
    struct gy_wait_set_pool *pool = *state;
    _Atomic(uint64_t) wait_sets[CLOCKS + 1];
    for (uint32_t i = 0; i <= CLOCKS; i++) {
        atomic_init(&wait_sets[i], GY_WAIT_SET_NONE);
        gy_wait_set_merge(pool, &wait_sets[i], gy_timeline_point(0, i + 1));
        gy_wait_set_merge(pool, &wait_sets[i], gy_timeline_point(1, i + 1));
    }
    assert_true(atomic_load(&wait_sets[CLOCKS]) == GY_WAIT_SET_ALL);
    struct gy_clock clock;
    assert_null(gy_wait_set_read(GY_WAIT_SET_ALL, &clock));
    gy_wait_set_merge(pool, &wait_sets[0], GY_WAIT_SET_ALL);
    assert_true(atomic_load(&wait_sets[0]) == GY_WAIT_SET_ALL);
    assert_int_equal(free_clocks(pool), 1);
    for (uint32_t i = 0; i <= CLOCKS; i++) {
        gy_wait_set_drop(pool, atomic_load(&wait_sets[i]));
    }
    assert_int_equal(free_clocks(pool), CLOCKS);
}

/* ---- several predecessors at once ---- */

struct merger {
    struct gy_wait_set_pool *pool;
    _Atomic(uint64_t) *to;
    uint32_t first_stream;
    pthread_barrier_t *start;
};

static void *merge_some(void *arg)
{
    struct merger *m = arg;
    pthread_barrier_wait(m->start);
    for (uint32_t i = 0; i < 4; i++) {
        gy_wait_set_merge(m->pool, m->to, gy_timeline_point(m->first_stream + i % 2, i + 1));
    }
    return NULL;
}

static void test_concurrent_merges_lose_no_point(void **state)
{
    struct gy_wait_set_pool *pool = *state;
    for (int round = 0; round < 500; round++) {
        _Atomic(uint64_t) wait_set = GY_WAIT_SET_NONE;
        pthread_barrier_t start;
        pthread_barrier_init(&start, NULL, 3);
        struct merger mergers[3];
        pthread_t threads[3];
        for (uint32_t t = 0; t < 3; t++) {
            mergers[t] = (struct merger){pool, &wait_set, t, &start};
            assert_int_equal(pthread_create(&threads[t], NULL, merge_some, &mergers[t]), 0);
        }
        for (uint32_t t = 0; t < 3; t++) {
            pthread_join(threads[t], NULL);
        }
        pthread_barrier_destroy(&start);
        struct gy_clock clock = read_clock(atomic_load(&wait_set));
        assert_true(clock.streams == 0xfu);
        assert_int_equal(clock.seq[0], 3);
        assert_int_equal(clock.seq[1], 4);
        assert_int_equal(clock.seq[2], 4);
        assert_int_equal(clock.seq[3], 4);
        gy_wait_set_drop(pool, atomic_load(&wait_set));
        assert_int_equal(free_clocks(pool), CLOCKS);
    }
}

static void test_init_reports_out_of_memory(void **state)
{
    (void)state;
    struct gy_wait_set_pool pool;
    gy_fault_arm(0);
    assert_int_equal(gy_wait_set_pool_init(&pool, 4), GANTRY_ERR_OUT_OF_HOST_MEMORY);
    assert_true(gy_fault_fired());
    gy_fault_arm(-1);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_point_survives_its_encoding),
        cmocka_unit_test_setup_teardown(test_merge_keeps_the_later_point_of_one_stream, open_pool,
                                        close_pool),
        cmocka_unit_test_setup_teardown(test_merge_of_two_streams_makes_a_clock_with_the_first_as_home,
                                        open_pool, close_pool),
        cmocka_unit_test_setup_teardown(test_a_shared_clock_is_not_changed_by_a_later_merge, open_pool,
                                        close_pool),
        cmocka_unit_test_setup_teardown(test_an_empty_pool_degrades_to_after_everything, open_pool,
                                        close_pool),
        cmocka_unit_test_setup_teardown(test_concurrent_merges_lose_no_point, open_pool, close_pool),
        cmocka_unit_test(test_init_reports_out_of_memory),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
