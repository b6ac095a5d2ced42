/* SPDX-License-Identifier: MIT */
/* What is left of earlier steps, as a new one begins: of streams that were made up, no driver is asked. */
#include "tests/support/cmocka_c11.h"

#include "dispatcher/order/step_order.h"

#include <string.h>

enum { STREAMS = 3, TAIL = 10 };

static struct gy_stream made[STREAMS];
static struct gy_streams streams;
static struct gy_gpu_order *order;

static int open_order(void **state)
{
    (void)state;
    memset((void *)made, 0, sizeof(made));
    streams = (struct gy_streams){.streams = made, .count = STREAMS};
    for (uint32_t s = 0; s < STREAMS; s++) {
        made[s].tail = TAIL;
        made[s].line = &made[s].plain;
    }
    order = gy_step_order_open(&streams);
    return order != NULL ? 0 : -1;
}

static int close_order(void **state)
{
    (void)state;
    gy_step_order_close(order);
    return 0;
}

/* The present step has left this on the stream. */
static void leave(uint32_t stream, uint64_t seq)
{
    order->during.streams |= UINT64_C(1) << stream;
    order->during.seq[stream] = seq;
}

static void expect_left(enum gy_step_bound_of bound, uint64_t which)
{
    assert_int_equal(order->bounds[bound].before.streams, which);
}

/* Independent work comes after the steps before the last one, other work after all. */
static void test_the_latest_step_is_known_apart(void **state)
{
    (void)state;
    gy_step_order_begin(order, 1, 0);
    leave(0, 1);
    gy_step_order_begin(order, 2, 1);
    expect_left(GY_BOUND_ALL, 1);
    expect_left(GY_BOUND_OLDER, 0);
    assert_int_equal(order->latest, 1);
    leave(1, 2);
    gy_step_order_begin(order, 3, 2);
    expect_left(GY_BOUND_ALL, 3);
    expect_left(GY_BOUND_OLDER, 1);
    assert_int_equal(order->latest, 2);
}

/* The last step had no GPU work, or which it was is not known: then all that is left is older. */
static void test_what_a_step_without_work_leaves_is_older(void **state)
{
    (void)state;
    for (uint64_t previous = 0; previous <= 7; previous += 7) {
        const uint64_t run = order->run;
        gy_step_order_begin(order, run + 1, run);
        leave(0, 1);
        gy_step_order_begin(order, run + 2, run + 1);
        leave(1, 2);
        gy_step_order_begin(order, run + 10, previous == 0 ? 0 : run + 9);
        expect_left(GY_BOUND_ALL, 3);
        expect_left(GY_BOUND_OLDER, 3);
        assert_int_equal(order->latest, 0);
    }
}

/* What has passed is left no more: of several streams the first, the last, or each. */
static void test_what_has_passed_is_not_left(void **state)
{
    (void)state;
    for (uint64_t passed = 0; passed < 1u << STREAMS; passed++) {
        for (uint32_t s = 0; s < STREAMS; s++) {
            leave(s, 3);
            atomic_store(&made[s].completed, (passed >> s & 1u) != 0 ? 3 : 2);
        }
        order->bounds[GY_BOUND_ALL].before.streams = 0;
        gy_step_order_begin(order, order->run + 2, order->run + 1);
        expect_left(GY_BOUND_ALL, ((1u << STREAMS) - 1) & ~passed);
        expect_left(GY_BOUND_OLDER, ((1u << STREAMS) - 1) & ~passed);
    }
}

/* A point that comes before the tail of another stream is implied by that; not if that stream has learnt of
 * it for what came behind its point. */
static void test_what_another_stream_comes_after_is_implied(void **state)
{
    (void)state;
    for (uint32_t learnt = 0; learnt < 2; learnt++) {
        struct gy_stream *other = &made[1];
        order->bounds[GY_BOUND_ALL].before.streams = 0;
        other->tail = 4;
        other->line->known[0] = 3;
        other->line->learnt_at = learnt != 0 ? 4 : 2;
        leave(0, 3);
        leave(1, 4);
        gy_step_order_begin(order, order->run + 1, order->run);
        expect_left(GY_BOUND_ALL, learnt != 0 ? 3 : 2);
    }
}

/* A stream comes after all that is left only if it does so of each stream. */
static void test_a_fence_comes_after_each_stream(void **state)
{
    (void)state;
    gantry_taskman_options options = GANTRY_TASKMAN_OPTIONS_INIT;
    gantry_taskman *manager;
    assert_ok(gantry_taskman_create(&options, &manager));
    for (uint32_t unknown = 0; unknown < STREAMS; unknown++) {
        order->bounds[GY_BOUND_ALL].before.streams = 0;
        order->manager = NULL;
        for (uint32_t s = 0; s < STREAMS; s++) {
            leave(s, 3);
            made[2].line->known[s] = s == unknown ? 2 : 3;
        }
        gy_step_order_begin(order, order->run + 1, order->run);
        order->manager = manager;
        order->closed = 1; /* more tasks may come */
        assert_ok(gy_step_order_fence(order, order->run, 2));
        assert_false(order->bounds[GY_BOUND_ALL].is_fenced);
    }
    order->manager = NULL;
    gantry_taskman_destroy(manager);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup_teardown(test_the_latest_step_is_known_apart, open_order, close_order),
        cmocka_unit_test_setup_teardown(test_what_a_step_without_work_leaves_is_older, open_order,
                                        close_order),
        cmocka_unit_test_setup_teardown(test_what_has_passed_is_not_left, open_order, close_order),
        cmocka_unit_test_setup_teardown(test_what_another_stream_comes_after_is_implied, open_order,
                                        close_order),
        cmocka_unit_test_setup_teardown(test_a_fence_comes_after_each_stream, open_order, close_order),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
