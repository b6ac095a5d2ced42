/* SPDX-License-Identifier: MIT */
/* The stream rules and the waits, one decision at a time. */
#include "dispatcher/order/step_order.h"
#include "dispatcher/order/tails.h"
#include "tests/support/cmocka_c11.h"
#include "tests/support/gpu_fixture.h"

#define LIMIT 6u

struct pool {
    struct gy_context *context;
    struct gy_partitions *partitions;
    struct gy_streams streams;
    struct gy_wait_set_pool wait_sets;
    struct gy_stream_owner owner;
};

static int open_pool(void **state)
{
    static struct pool pool;
    gantry_context_options options = GANTRY_CONTEXT_OPTIONS_INIT;
    options.driver = gpu_fixture_driver();
    assert_ok(gy_context_open(&options, &pool.context));
    assert_ok(gy_context_push(pool.context));
    assert_ok(gy_partitions_create(pool.context, NULL, NULL, &pool.partitions));
    assert_ok(gy_streams_init(&pool.streams, pool.context, pool.partitions, LIMIT, false));
    assert_ok(gy_wait_set_pool_init(&pool.wait_sets, 32));
    *state = &pool;
    return 0;
}

static int close_pool(void **state)
{
    struct pool *pool = *state;
    gy_wait_set_pool_fini(&pool->wait_sets);
    gy_streams_fini(&pool->streams);
    gy_partitions_destroy(pool->partitions);
    assert_ok(gy_context_pop(pool->context));
    gy_context_close(pool->context);
    return 0;
}

static uint32_t assign(struct pool *pool, uint64_t wait_set)
{
    uint32_t stream = UINT32_MAX;
    assert_ok(gy_streams_assign(&pool->streams, wait_set, 0, &(struct gy_stream_claim){.owner = &pool->owner},
                                &stream));
    return stream;
}

static uint64_t finish(struct pool *pool, uint32_t stream, uint32_t dependents)
{
    uint64_t point = 0;
    assert_ok(
        gy_streams_finish_at(&pool->streams, stream, &pool->streams.streams[stream], dependents, 0, &point));
    pool->streams.streams[stream].owner = &pool->owner;
    return point;
}

/* Assign a task that comes after `wait_set` and has that many dependents; returns its timeline point. */
static uint64_t run_task(struct pool *pool, uint64_t wait_set, uint32_t dependents)
{
    uint32_t stream = assign(pool, wait_set);
    assert_ok(gy_streams_wait(&pool->streams, stream, wait_set));
    return finish(pool, stream, dependents);
}

static uint64_t join(struct pool *pool, uint64_t a, uint64_t b)
{
    _Atomic(uint64_t) wait_set = GY_WAIT_SET_NONE;
    gy_wait_set_merge(&pool->wait_sets, &wait_set, a);
    gy_wait_set_merge(&pool->wait_sets, &wait_set, b);
    return atomic_load(&wait_set);
}

static uint64_t waits(const struct pool *pool)
{
    return atomic_load(&pool->streams.counts.waits);
}

static void test_first_dependent_inherits_and_others_get_streams_of_their_own(void **state)
{
    struct pool *pool = *state;
    uint64_t root = run_task(pool, GY_WAIT_SET_NONE, 3);
    uint32_t first = assign(pool, root);
    uint32_t second = assign(pool, root);
    uint32_t third = assign(pool, root);
    assert_int_equal(first, gy_timeline_stream(root));
    assert_int_not_equal(second, first);
    assert_int_not_equal(third, first);
    assert_int_not_equal(third, second);
}

static void test_one_record_serves_all_waiters(void **state)
{
    struct pool *pool = *state;
    uint64_t root = run_task(pool, GY_WAIT_SET_NONE, 4);
    for (int i = 0; i < 4; i++) {
        run_task(pool, root, 0);
    }
    assert_int_equal(atomic_load(&pool->streams.counts.recorded), 1);
    assert_int_equal(waits(pool), 3);
}

static void test_a_wait_implied_by_an_earlier_one_is_dropped(void **state)
{
    struct pool *pool = *state;
    uint64_t root = run_task(pool, GY_WAIT_SET_NONE, 2);
    (void)run_task(pool, root, 1);           /* it inherits the stream */
    uint64_t side = run_task(pool, root, 1); /* it waits */
    assert_int_equal(waits(pool), 1);
    uint64_t next = run_task(pool, join(pool, side, root), 1);
    assert_int_equal(gy_timeline_stream(next), gy_timeline_stream(side));
    assert_int_equal(waits(pool), 1);
}

static void test_a_join_does_not_wait_for_what_another_wait_covers(void **state)
{
    struct pool *pool = *state;
    /* a is on A; b on B after a; c on C after b and a: the wait for b covers a. */
    uint64_t a = run_task(pool, GY_WAIT_SET_NONE, 3);
    uint32_t heir = assign(pool, a); /* this occupies A */
    uint64_t b = run_task(pool, a, 2);
    uint32_t heir_b = assign(pool, b); /* this occupies B */
    uint64_t before = waits(pool);
    uint64_t c = run_task(pool, join(pool, a, b), 0);
    assert_int_not_equal(gy_timeline_stream(c), gy_timeline_stream(a));
    assert_int_not_equal(gy_timeline_stream(c), gy_timeline_stream(b));
    assert_int_equal(waits(pool) - before, 1);
    (void)finish(pool, heir, 0);
    (void)finish(pool, heir_b, 0);
}

static void test_no_wait_for_what_the_host_has_seen_finished(void **state)
{
    struct pool *pool = *state;
    uint64_t root = run_task(pool, GY_WAIT_SET_NONE, 2);
    gy_streams_passed(&pool->streams, gy_timeline_stream(root), gy_timeline_seq(root));
    (void)run_task(pool, root, 0);
    (void)run_task(pool, root, 0);
    assert_int_equal(waits(pool), 0);
    assert_int_equal(atomic_load(&pool->streams.counts.dropped), 1);
}

static void test_an_ended_pipeline_whose_work_is_over_gives_its_stream_on(void **state)
{
    struct pool *pool = *state;
    uint64_t first = run_task(pool, GY_WAIT_SET_NONE, 0);
    gy_streams_passed(&pool->streams, gy_timeline_stream(first), gy_timeline_seq(first));
    uint64_t second = run_task(pool, GY_WAIT_SET_NONE, 0);
    assert_int_equal(gy_timeline_stream(first), gy_timeline_stream(second));
    assert_int_equal(atomic_load(&pool->streams.created), 1);
}

static void test_a_stream_waiting_for_its_heir_is_not_given_to_others(void **state)
{
    struct pool *pool = *state;
    uint64_t first = run_task(pool, GY_WAIT_SET_NONE, 1);
    uint64_t other = run_task(pool, GY_WAIT_SET_NONE, 0);
    assert_int_not_equal(gy_timeline_stream(first), gy_timeline_stream(other));
    assert_int_equal(assign(pool, first), gy_timeline_stream(first));
}

/* a -> c, b -> c, a -> d is two wide: c leaves the stream of a to d. */
static void test_a_join_leaves_a_stream_to_whom_has_no_other(void **state)
{
    struct pool *pool = *state;
    uint64_t a = run_task(pool, GY_WAIT_SET_NONE, 2);
    uint64_t b = run_task(pool, GY_WAIT_SET_NONE, 1);
    uint64_t c = run_task(pool, join(pool, a, b), 0);
    uint64_t d = run_task(pool, a, 0);
    assert_int_equal(gy_timeline_stream(c), gy_timeline_stream(b));
    assert_int_equal(gy_timeline_stream(d), gy_timeline_stream(a));
    assert_int_equal(waits(pool), 1); /* c comes after a */
}

static void test_a_task_takes_a_stream_it_comes_after_anyhow(void **state)
{
    struct pool *pool = *state;
    uint64_t root = run_task(pool, GY_WAIT_SET_NONE, 2);
    uint64_t left = run_task(pool, root, 1);
    uint64_t right = run_task(pool, root, 1);
    uint64_t joined = run_task(pool, join(pool, left, right), 2);
    uint64_t before = waits(pool);
    uint64_t heir = run_task(pool, joined, 0);
    uint64_t other = run_task(pool, joined, 0);
    assert_int_equal(gy_timeline_stream(heir), gy_timeline_stream(joined));
    assert_int_equal(gy_timeline_stream(other), gy_timeline_stream(right));
    assert_int_equal(waits(pool) - before, 1);
    assert_int_equal(atomic_load(&pool->streams.created), 2);
}

/* Two streams are free for it: it comes after the work of one anyhow, and the work of the other would only
 * delay it. */
/* What a stream has waited for since its latest task is not what comes before that. */
static void test_a_task_does_not_come_after_what_a_later_one_waits_for(void **state)
{
    struct pool *pool = *state;
    const uint64_t a = run_task(pool, GY_WAIT_SET_NONE, 2), b = run_task(pool, GY_WAIT_SET_NONE, 2);
    const uint64_t both = join(pool, a, b);
    const uint32_t first = assign(pool, both);
    assert_ok(gy_streams_wait(&pool->streams, first, both)); /* for the other one; it is called now */
    const uint32_t second = assign(pool, first == gy_timeline_stream(a) ? a : b);
    assert_int_not_equal(second, gy_timeline_stream(a));
    assert_int_not_equal(second, gy_timeline_stream(b));
    (void)finish(pool, first, 0);
    (void)finish(pool, second, 0);
}

static void test_a_task_takes_what_it_comes_after_before_what_others_do(void **state)
{
    struct pool *pool = *state;
    struct gy_stream *streams = pool->streams.streams;
    uint64_t other = run_task(pool, GY_WAIT_SET_NONE, 1);
    uint64_t before = run_task(pool, GY_WAIT_SET_NONE, 1);
    uint64_t last = run_task(pool, GY_WAIT_SET_NONE, 2);
    streams[gy_timeline_stream(other)].superseded = gy_timeline_seq(other);
    streams[gy_timeline_stream(last)].line->known[gy_timeline_stream(before)] = gy_timeline_seq(before);
    assert_int_equal(assign(pool, last), gy_timeline_stream(last)); /* its successor */
    assert_int_equal(assign(pool, last), gy_timeline_stream(before));
}

static void test_a_new_pipeline_takes_an_overtaken_stream_only_if_there_is_no_new_one(void **state)
{
    struct pool *pool = *state;
    uint64_t a = run_task(pool, GY_WAIT_SET_NONE, 1);
    uint64_t b = run_task(pool, GY_WAIT_SET_NONE, 1);
    uint64_t wait_set = join(pool, a, b);
    /* it is not launched yet, but no task comes after b alone any more */
    uint32_t ready = assign(pool, wait_set);
    assert_int_equal(ready, gy_timeline_stream(a));
    for (uint32_t i = 2; i < LIMIT; i++) { /* the pipeline does not come after b */
        assert_int_equal(assign(pool, GY_WAIT_SET_NONE), i);
    }
    assert_int_equal(atomic_load(&pool->streams.created), LIMIT);
    assert_int_equal(assign(pool, GY_WAIT_SET_NONE), gy_timeline_stream(b));
    gy_wait_set_drop(&pool->wait_sets, wait_set);
}

static void test_a_task_after_everything_takes_any_stream(void **state)
{
    struct pool *pool = *state;
    (void)run_task(pool, GY_WAIT_SET_NONE, 1);
    (void)run_task(pool, GY_WAIT_SET_NONE, 1);
    (void)run_task(pool, GY_WAIT_SET_ALL, 1);
    assert_int_equal(atomic_load(&pool->streams.created), 2);
}

static void test_more_pipelines_than_streams_share_them(void **state)
{
    struct pool *pool = *state;
    for (uint32_t i = 0; i < 3 * LIMIT; i++) {
        (void)assign(pool, GY_WAIT_SET_NONE);
    }
    for (uint32_t i = 0; i < LIMIT; i++) {
        assert_int_equal(pool->streams.streams[i].running, 3);
    }
    assert_int_equal(atomic_load(&pool->streams.counts.peak), LIMIT);
}

static void test_a_pipeline_that_shares_a_stream_stays_on_it(void **state)
{
    struct pool *pool = *state;
    uint32_t on[2 * LIMIT];
    for (uint32_t i = 0; i < 2 * LIMIT; i++) {
        on[i] = assign(pool, GY_WAIT_SET_NONE);
    }
    for (uint32_t i = 0; i < 10 * LIMIT; i++) { /* the next one as soon as one has ended, in some order */
        uint32_t *stream = &on[i * 5 % (2 * LIMIT)];
        uint64_t before = finish(pool, *stream, 1);
        *stream = assign(pool, before);
        assert_ok(gy_streams_wait(&pool->streams, *stream, before));
    }
    assert_int_equal(waits(pool), 0);
    for (uint32_t i = 0; i < LIMIT; i++) {
        assert_int_equal(pool->streams.streams[i].running, 2);
    }
}

static void test_a_stream_with_fewer_tasks_is_shared_first(void **state)
{
    struct pool *pool = *state;
    uint64_t root = run_task(pool, GY_WAIT_SET_NONE, 3 * LIMIT);
    for (uint32_t i = 0; i < 3 * LIMIT; i++) {
        (void)assign(pool, root);
    }
    for (uint32_t i = 0; i < LIMIT; i++) {
        assert_int_equal(pool->streams.streams[i].running, 3);
    }
}

/* The emulator sets the variables that a function does not write to 0, and does not leave the values of an
 * earlier call in them. */
static void clear_stack(void)
{
    volatile char below[16384];
    for (size_t i = 0; i < sizeof(below); i++) {
        below[i] = 0;
    }
}

static void test_after_everything_waits_for_every_stream(void **state)
{
    struct pool *pool = *state;
    (void)run_task(pool, GY_WAIT_SET_NONE, 0);
    (void)run_task(pool, GY_WAIT_SET_NONE, 0);
    (void)run_task(pool, GY_WAIT_SET_NONE, 0);
    uint32_t stream = assign(pool, GY_WAIT_SET_ALL);
    clear_stack();
    assert_ok(gy_streams_wait(&pool->streams, stream, GY_WAIT_SET_ALL));
    assert_int_equal(waits(pool), stream < 3 ? 2 : 3);
}

static void test_a_point_older_than_the_kept_events_is_still_covered(void **state)
{
    struct pool *pool = *state;
    uint64_t old = run_task(pool, GY_WAIT_SET_NONE, 2);
    uint64_t point = old;
    for (int i = 0; i < 2 * GY_STREAM_EVENTS; i++) {
        point = run_task(pool, point, 2); /* it inherits the stream, and records an event each time */
        assert_int_equal(gy_timeline_stream(point), gy_timeline_stream(old));
    }
    uint64_t before = waits(pool);
    uint64_t late = run_task(pool, old, 0);
    assert_int_not_equal(gy_timeline_stream(late), gy_timeline_stream(old));
    assert_int_equal(waits(pool) - before, 1);
    uint64_t known = pool->streams.streams[gy_timeline_stream(late)].line->known[gy_timeline_stream(old)];
    assert_true(known >= gy_timeline_seq(old));
}

static void test_streams_can_be_returned(void **state)
{
    struct pool *pool = *state;
    (void)run_task(pool, GY_WAIT_SET_NONE, 1);
    (void)run_task(pool, GY_WAIT_SET_NONE, 1);
    gy_streams_return_all(&pool->streams);
    assert_int_equal(pool->streams.in_use, 0);
    uint64_t again = run_task(pool, GY_WAIT_SET_NONE, 1);
    assert_true(gy_timeline_stream(again) < 2);
}

static void test_what_has_passed_stays_passed(void **state)
{
    struct pool *pool = *state;
    uint64_t point = run_task(pool, GY_WAIT_SET_NONE, 1);
    for (int i = 0; i < 4; i++) {
        point = run_task(pool, point, 1);
    }
    uint32_t stream = gy_timeline_stream(point);
    gy_streams_passed(&pool->streams, stream, 4);
    gy_streams_passed(&pool->streams, stream, 2); /* told later, like a task of another completion ring */
    assert_int_equal(atomic_load(&pool->streams.streams[stream].completed), 4);
    gy_streams_passed(&pool->streams, stream, 5);
    assert_int_equal(atomic_load(&pool->streams.streams[stream].completed), 5);
}

/* A task that cannot inherit the stream waits for the other task itself, not for the next work of its
 * stream. */
static void test_two_dependents_get_an_event_at_once(void **state)
{
    struct pool *pool = *state;
    uint64_t root = run_task(pool, GY_WAIT_SET_NONE, 2);
    assert_int_equal(atomic_load(&pool->streams.counts.recorded), 1);
    uint64_t heir = run_task(pool, root, 1);
    assert_int_equal(gy_timeline_stream(heir), gy_timeline_stream(root));
    uint64_t other = run_task(pool, root, 0);
    assert_int_equal(atomic_load(&pool->streams.counts.recorded), 1);
    assert_int_equal(waits(pool), 1);
    uint64_t known = pool->streams.streams[gy_timeline_stream(other)].line->known[gy_timeline_stream(root)];
    assert_int_equal(known, gy_timeline_seq(root));
}

/* A stream that tasks share is busy until the last of them has launched, or was abandoned. */
static void test_a_shared_stream_is_busy_until_its_last_task_ends(void **state)
{
    struct pool *pool = *state;
    uint32_t on[2 * LIMIT];
    for (uint32_t i = 0; i < 2 * LIMIT; i++) {
        on[i] = assign(pool, GY_WAIT_SET_NONE);
    }
    assert_int_equal(pool->streams.busy, LIMIT);
    for (uint32_t i = 0; i < LIMIT; i++) { /* one on each of the two streams */
        gy_streams_abandon(&pool->streams, on[i]);
        assert_int_equal(pool->streams.busy, LIMIT);
    }
    for (uint32_t i = LIMIT; i < 2 * LIMIT; i++) {
        if (i % 2 == 0) {
            gy_streams_abandon(&pool->streams, on[i]);
        } else {
            (void)finish(pool, on[i], 0);
        }
        assert_int_equal(pool->streams.busy, 2 * LIMIT - 1 - i);
    }
}

/* A stream that is ordered after no work of `stream`. */
static uint32_t assign_other_than(struct pool *pool, uint32_t stream)
{
    uint32_t other = assign(pool, GY_WAIT_SET_NONE);
    return other != stream ? other : assign(pool, GY_WAIT_SET_NONE);
}

/* An event that is older than a wait of its stream does not come after the work that the wait is for. */
static void test_a_wait_behind_a_step_is_none_of_its_order(void **state)
{
    struct pool *pool = *state;
    struct gy_gpu_order *order = gy_step_order_open(&pool->streams);
    assert_non_null(order);
    uint32_t first = assign(pool, GY_WAIT_SET_NONE), second = assign(pool, GY_WAIT_SET_NONE);
    uint64_t point = finish(pool, first, 0);
    gy_step_order_note_at(order, 1, first, &pool->streams.streams[first]);
    (void)finish(pool, second, 2); /* its event is recorded now */
    gy_step_order_note_at(order, 1, second, &pool->streams.streams[second]);
    assert_ok(gy_streams_wait(&pool->streams, second, point)); /* for another manager's task */

    uint32_t next = assign_other_than(pool, first);
    assert_ok(gy_step_order_enter(order, 2, GY_BOUND_ALL, next, false));
    assert_int_equal(pool->streams.streams[next].line->known[first], 1);
    assert_int_equal(pool->streams.streams[next].line->known[second], 1);
    gy_step_order_close(order);
}

/* An event of the work that was waited for does. */
static void test_what_a_step_waited_for_is_implied_by_its_end(void **state)
{
    struct pool *pool = *state;
    struct gy_gpu_order *order = gy_step_order_open(&pool->streams);
    assert_non_null(order);
    uint32_t first = assign(pool, GY_WAIT_SET_NONE), second = assign(pool, GY_WAIT_SET_NONE);
    uint64_t point = finish(pool, first, 0);
    gy_step_order_note_at(order, 1, first, &pool->streams.streams[first]);
    assert_ok(gy_streams_wait(&pool->streams, second, point));
    (void)finish(pool, second, 2);
    gy_step_order_note_at(order, 1, second, &pool->streams.streams[second]);

    uint64_t before = waits(pool);
    uint32_t next = assign_other_than(pool, first);
    assert_ok(gy_step_order_enter(order, 2, GY_BOUND_ALL, next, false));
    assert_int_equal(pool->streams.streams[next].line->known[first], 1);
    assert_int_equal(waits(pool), before + 1);
    gy_step_order_close(order);
}

static uint32_t assign_to(struct pool *pool, const struct gy_stream_owner *owner, uint64_t wait_set)
{
    uint32_t stream = UINT32_MAX;
    assert_ok(
        gy_streams_assign(&pool->streams, wait_set, 0, &(struct gy_stream_claim){.owner = owner}, &stream));
    return stream;
}

/* Others share what there is rather than take the stream of a private set, and one of the limit is kept for a
 * set that has none yet. */
static void test_a_private_set_is_of_one_owner(void **state)
{
    struct pool *pool = *state;
    struct gy_stream_owner first = {.private_set = gy_streams_take_private(&pool->streams)},
                           second = {.private_set = gy_streams_take_private(&pool->streams)};
    assert_true(first.private_set != 0 && second.private_set != 0);
    assert_int_not_equal(first.private_set, second.private_set);
    uint32_t alone = assign_to(pool, &first, GY_WAIT_SET_NONE);
    for (uint32_t i = 0; i < 3 * LIMIT; i++) {
        assert_int_not_equal(assign(pool, GY_WAIT_SET_NONE), alone);
    }
    assert_int_equal(pool->streams.count, LIMIT - 1);
    uint32_t other = assign_to(pool, &second, GY_WAIT_SET_NONE);
    assert_int_equal(pool->streams.count, LIMIT);
    assert_int_not_equal(other, alone);
    for (uint32_t i = 0; i < LIMIT; i++) { /* an owner has no more than its own either */
        assert_int_equal(assign_to(pool, &first, GY_WAIT_SET_NONE), alone);
        assert_int_equal(assign_to(pool, &second, GY_WAIT_SET_NONE), other);
    }
    assert_int_equal(gy_streams_take_private(&pool->streams), 0);
    gy_streams_give_private(&pool->streams, first.private_set);
    gy_streams_give_private(&pool->streams, second.private_set);
}

/* Work that comes after that of another owner goes to a stream of its own owner, and waits. */
static void test_nobody_inherits_a_private_stream(void **state)
{
    struct pool *pool = *state;
    struct gy_stream_owner owner = {.private_set = gy_streams_take_private(&pool->streams)};
    uint32_t alone = assign_to(pool, &owner, GY_WAIT_SET_NONE);
    uint64_t point = finish(pool, alone, 1), before = waits(pool);
    uint32_t heir = assign(pool, point);
    assert_int_not_equal(heir, alone);
    assert_ok(gy_streams_wait(&pool->streams, heir, point));
    assert_int_equal(waits(pool), before + 1);
    (void)finish(pool, heir, 0);
    assert_int_equal(GY_STREAM_PARTITION(&pool->streams.streams[alone]), 0);
    gy_streams_give_private(&pool->streams, owner.private_set);
    assert_int_equal(gy_streams_take_private(&pool->streams), owner.private_set);
    gy_streams_passed(&pool->streams, alone, gy_timeline_seq(point));
    assert_int_equal(assign_to(pool, &owner, GY_WAIT_SET_NONE), alone); /* whoever has the set next */
    gy_streams_give_private(&pool->streams, owner.private_set);
}

/* The tails of a few streams stand for what is on them, unless a task has calls left there. */
static void test_few_points_tell_that_all_is_over(void **state)
{
    struct pool *pool = *state;
    struct gy_few_points points;
    uint64_t which = 0, last = 0;
    uint32_t streams[GY_FEW_POINTS + 1];
    for (uint32_t i = 0; i <= GY_FEW_POINTS; i++) {
        streams[i] = assign(pool, GY_WAIT_SET_NONE);
        last = finish(pool, streams[i], 1);
        which |= UINT64_C(1) << streams[i];
    }
    gy_few_points_take(&points, &pool->streams, which); /* these are too many */
    assert_int_equal(points.count, 0);
    which &= which - 1;
    gy_few_points_take(&points, &pool->streams, which);
    assert_int_equal(points.count, GY_FEW_POINTS);
    for (uint32_t i = 0; i <= GY_FEW_POINTS; i++) {
        assert_false(gy_few_points_are_passed(&points));
        gy_streams_passed(&pool->streams, streams[i], pool->streams.streams[streams[i]].tail);
    }
    assert_true(gy_few_points_are_passed(&points));
    assert_int_equal(assign(pool, last), streams[GY_FEW_POINTS]);
    gy_few_points_take(&points, &pool->streams, which); /* a task has been called, or will be */
    assert_false(gy_few_points_are_passed(&points));
}

#define TEST(name) cmocka_unit_test_setup_teardown(name, open_pool, close_pool)

int main(void)
{
    const struct CMUnitTest tests[] = {
        TEST(test_first_dependent_inherits_and_others_get_streams_of_their_own),
        TEST(test_one_record_serves_all_waiters),
        TEST(test_a_wait_implied_by_an_earlier_one_is_dropped),
        TEST(test_a_join_does_not_wait_for_what_another_wait_covers),
        TEST(test_no_wait_for_what_the_host_has_seen_finished),
        TEST(test_an_ended_pipeline_whose_work_is_over_gives_its_stream_on),
        TEST(test_a_stream_waiting_for_its_heir_is_not_given_to_others),
        TEST(test_a_join_leaves_a_stream_to_whom_has_no_other),
        TEST(test_a_task_takes_a_stream_it_comes_after_anyhow),
        TEST(test_a_task_does_not_come_after_what_a_later_one_waits_for),
        TEST(test_a_task_takes_what_it_comes_after_before_what_others_do),
        TEST(test_a_new_pipeline_takes_an_overtaken_stream_only_if_there_is_no_new_one),
        TEST(test_a_task_after_everything_takes_any_stream),
        TEST(test_more_pipelines_than_streams_share_them),
        TEST(test_a_pipeline_that_shares_a_stream_stays_on_it),
        TEST(test_a_stream_with_fewer_tasks_is_shared_first),
        TEST(test_after_everything_waits_for_every_stream),
        TEST(test_a_point_older_than_the_kept_events_is_still_covered),
        TEST(test_streams_can_be_returned),
        TEST(test_what_has_passed_stays_passed),
        TEST(test_two_dependents_get_an_event_at_once),
        TEST(test_a_shared_stream_is_busy_until_its_last_task_ends),
        TEST(test_a_wait_behind_a_step_is_none_of_its_order),
        TEST(test_what_a_step_waited_for_is_implied_by_its_end),
        TEST(test_a_private_set_is_of_one_owner),
        TEST(test_nobody_inherits_a_private_stream),
        TEST(test_few_points_tell_that_all_is_over),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
