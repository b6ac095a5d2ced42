/* SPDX-License-Identifier: MIT */
/* The naps of an inbox's taker while guests are likely to come: what it finds at their end, and what ends
 * them. */
#include "base/clock.h"
#include "dispatcher/loop/inbox.h"
#include "tests/support/cmocka_c11.h"
#include "tests/support/deadline.h"

#include <unistd.h>

static const uint64_t LONG_NS = UINT64_C(60000000000);

static struct gy_inbox inbox;
static atomic_bool is_back;

static void wait_at_the_inbox(void *arg)
{
    (void)arg;
    gy_inbox_wait(&inbox, 0, true, GANTRY_WAIT_BLOCK, 0, 0);
    atomic_store(&is_back, true);
}

static gantry_task alone;

/* A taker sleeps, and naps for `ns` from now on. */
static void begin_to_nap(gy_thread *thread, uint64_t ns)
{
    atomic_store(&is_back, false);
    assert_ok(gy_inbox_init(&inbox));
    gy_wake_hint_give(&inbox.naps_on, gy_clock_ns() + ns);
    assert_ok(gy_thread_start(thread, "taker", wait_at_the_inbox, NULL));
}

static void end_naps(gy_thread *thread)
{
    deadline_await(atomic_load(&is_back), "the taker, which has news");
    gy_thread_join(thread);
    assert_false(atomic_load(&inbox.naps));
    gy_inbox_fini(&inbox);
}

/* Nobody calls who naps for a guest's tasks, and it finds them itself if that does not come.  Then nobody
 * counts on guests for a while, and who naps is called: mostly before a nap ends by itself. */
static void test_who_naps_finds_what_no_guest_takes(void **state)
{
    (void)state;
    int called = 0;
    for (int n = 0; n < 20; n++) {
        gy_thread thread;
        begin_to_nap(&thread, LONG_NS);
        deadline_await(atomic_load(&inbox.naps), "the taker to nap");
        gy_inbox_push_for_guest(&inbox, &alone, &alone);
        deadline_await(atomic_load(&is_back), "the taker, for whom something was left");
        gy_thread_join(&thread);
        assert_true(gy_wake_hint_was_given(&inbox.deserted));

        struct gy_gpu_list taken = {NULL, NULL};
        assert_true(gy_inbox_take(&inbox, &taken));
        atomic_store(&is_back, false);
        gy_wake_hint_give(&inbox.deserted, gy_clock_ns() + LONG_NS);
        gy_wake_hint_give(&inbox.naps_on, gy_clock_ns() + LONG_NS);
        assert_ok(gy_thread_start(&thread, "taker", wait_at_the_inbox, NULL));
        deadline_await(atomic_load(&inbox.naps), "the taker to nap");
        gy_inbox_push_for_guest(&inbox, &alone, &alone);
        end_naps(&thread);
        called += gy_wake_hint_left(&inbox.deserted, gy_clock_ns()) > UINT64_C(1000000000);
    }
    assert_true(called > 0);
}

/* What is only noted ends no naps; what is signalled does. */
static void test_who_naps_looks_at_signals_when_it_is_called(void **state)
{
    (void)state;
    for (int n = 0; n < 20; n++) {
        gy_thread thread;
        begin_to_nap(&thread, LONG_NS);
        deadline_await(atomic_load(&inbox.naps), "the taker to nap");
        gy_inbox_note(&inbox);
        (void)usleep(300);
        assert_false(atomic_load(&is_back));
        if (n % 2 == 0) {
            gy_inbox_signal(&inbox);
        } else {
            assert_true(gy_inbox_borrow(&inbox));
            (void)usleep(200);
            gy_inbox_give_back(&inbox, atomic_load(&inbox.signals), true, true);
        }
        end_naps(&thread);
    }
}

/* Around the end of the naps: who pushes sees that the taker naps no more, or that sees the task. */
static void test_the_end_of_naps_loses_no_task(void **state)
{
    (void)state;
    for (int n = 0; n < 300; n++) {
        gy_thread thread;
        begin_to_nap(&thread, (uint64_t)(n % 30) * 5000);
        while (gy_wake_hint_left(&inbox.naps_on, gy_clock_ns()) > (uint64_t)(n % 7) * 1000) {
        }
        gy_inbox_push_for_guest(&inbox, &alone, &alone);
        gy_wake_hint_give(&inbox.naps_on, 1); /* no further nap would find it */
        end_naps(&thread);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_who_naps_finds_what_no_guest_takes),
        cmocka_unit_test(test_who_naps_looks_at_signals_when_it_is_called),
        cmocka_unit_test(test_the_end_of_naps_loses_no_task),
    };
    return cmocka_run_group_tests_name("naps", tests, NULL, NULL);
}
