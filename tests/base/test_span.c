/* SPDX-License-Identifier: MIT */
#include "tests/support/cmocka_c11.h"

#include "base/span.h"
#include "base/thread.h"

#include <sched.h>
#include <string.h>

struct recorder {
    struct gy_span_sink sink;
    atomic_int count;
    enum gy_span_category category;
    char name[32];
    char thread[32];
    uint64_t begin_ns, end_ns, id;
    atomic_bool hold, held; /* emit() does not return while `hold` is set */
};

static void record(struct gy_span_sink *self, enum gy_span_category category, const char *name,
                   uint64_t begin_ns, uint64_t end_ns, uint64_t id)
{
    struct recorder *recorder = (struct recorder *)self;
    recorder->category = category;
    strncpy(recorder->name, name, sizeof(recorder->name) - 1);
    const char *thread = gy_thread_name();
    strncpy(recorder->thread, thread != NULL ? thread : "", sizeof(recorder->thread) - 1);
    recorder->begin_ns = begin_ns;
    recorder->end_ns = end_ns;
    recorder->id = id;
    atomic_fetch_add(&recorder->count, 1);
    atomic_store(&recorder->held, true);
    while (atomic_load(&recorder->hold)) {
        sched_yield();
    }
}

static void test_nothing_is_recorded_without_a_sink(void **state)
{
    (void)state;
    assert_false(gy_span_on());
    assert_true(gy_span_begin() == 0);
    gy_span_end(GY_SPAN_TASK, "off", gy_span_begin(), 1);
}

static void test_a_span_reaches_the_sink_with_its_times(void **state)
{
    (void)state;
    struct recorder recorder = {.sink = {.emit = record}};
    uint64_t before = gy_clock_ns();
    gy_span_set_sink(&recorder.sink);
    uint64_t begin = gy_span_begin();
    gy_span_end(GY_SPAN_PHASE, "HtoD", begin, 42);
    gy_span_set_sink(NULL);
    assert_int_equal(recorder.count, 1);
    assert_int_equal(recorder.category, GY_SPAN_PHASE);
    assert_string_equal(recorder.name, "HtoD");
    assert_true(recorder.begin_ns == begin && begin >= before);
    assert_true(recorder.end_ns >= recorder.begin_ns && recorder.end_ns <= gy_clock_ns());
    assert_true(recorder.id == 42);
    assert_string_equal(recorder.thread, ""); /* the application's thread got no name from us */
}

static void test_a_span_begun_while_off_is_dropped(void **state)
{
    (void)state;
    struct recorder recorder = {.sink = {.emit = record}};
    uint64_t begin = gy_span_begin();
    gy_span_set_sink(&recorder.sink);
    gy_span_end(GY_SPAN_TASK, "early", begin, 0);
    uint64_t late = gy_span_begin();
    gy_span_set_sink(NULL);
    gy_span_end(GY_SPAN_TASK, "late", late, 0);
    assert_int_equal(recorder.count, 0);
}

static void emit_one(void *arg)
{
    (void)arg;
    gy_span_end(GY_SPAN_TASK, "work", gy_span_begin(), 0);
}

static void test_the_sink_sees_the_threads_name(void **state)
{
    (void)state;
    struct recorder recorder = {.sink = {.emit = record}};
    gy_thread thread;
    gy_span_set_sink(&recorder.sink);
    assert_ok(gy_thread_start(&thread, "worker 7", emit_one, NULL));
    gy_thread_join(&thread);
    gy_span_set_sink(NULL);
    assert_string_equal(recorder.thread, "worker 7");
}

static void remove_sink(void *arg)
{
    gy_span_set_sink(NULL);
    atomic_store((atomic_bool *)arg, true);
}

static void test_removing_the_sink_waits_for_threads_inside(void **state)
{
    (void)state;
    struct recorder recorder = {.sink = {.emit = record}};
    atomic_bool removed = false;
    gy_thread emitter, remover;
    atomic_store(&recorder.hold, true);
    gy_span_set_sink(&recorder.sink);
    assert_ok(gy_thread_start(&emitter, "emitter", emit_one, NULL));
    while (!atomic_load(&recorder.held)) {
        sched_yield();
    }
    assert_ok(gy_thread_start(&remover, "remover", remove_sink, &removed));
    while (gy_span_on()) {
        sched_yield();
    }
    /* The remover is waiting: give it every chance to return too early. */
    for (int i = 0; i < 1000; i++) {
        sched_yield();
    }
    assert_false(atomic_load(&removed));
    atomic_store(&recorder.hold, false);
    gy_thread_join(&remover);
    gy_thread_join(&emitter);
    assert_true(atomic_load(&removed));
    assert_int_equal(recorder.count, 1);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_nothing_is_recorded_without_a_sink),
        cmocka_unit_test(test_a_span_reaches_the_sink_with_its_times),
        cmocka_unit_test(test_a_span_begun_while_off_is_dropped),
        cmocka_unit_test(test_the_sink_sees_the_threads_name),
        cmocka_unit_test(test_removing_the_sink_waits_for_threads_inside),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
