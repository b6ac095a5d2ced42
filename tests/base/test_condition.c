/* SPDX-License-Identifier: MIT */
/* Conditions (base/thread.h): no wake-up is lost, whoever comes when. */
#include "tests/support/cmocka_c11.h"

#include "tests/support/deadline.h"
#include "tests/support/stops.h"

#include "base/alloc.h"
#include "base/clock.h"
#include "base/thread.h"

#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <stdlib.h>
#include <sys/wait.h>
#include <unistd.h>

enum { MOST_THREADS = 4, ROOM = 3, LONG_NS = 1000000 };

static gy_mutex lock = {PTHREAD_MUTEX_INITIALIZER, GY_RANK_LEAF};

/* ---- one waiter ------------------------------------------------------------------------------ */

struct door {
    gy_cond changed;
    bool open;           /* guarded by lock */
    uint64_t until_ns;   /* immutable; 0: it waits for ever */
    atomic_bool is_back; /* the waiter is */
};

static void wait_at(void *arg)
{
    struct door *door = arg;
    gy_mutex_lock(&lock);
    while (!door->open) {
        if (door->until_ns != 0) {
            gy_cond_wait_until(&door->changed, &lock, door->until_ns);
        } else {
            gy_cond_wait(&door->changed, &lock);
        }
    }
    gy_mutex_unlock(&lock);
    atomic_store(&door->is_back, true);
}

static void open_door(struct door *door, bool to_all)
{
    gy_mutex_lock(&lock);
    door->open = true;
    gy_mutex_unlock(&lock);
    if (to_all) {
        gy_cond_broadcast(&door->changed);
    } else {
        gy_cond_signal(&door->changed);
    }
}

/* The thread has given the mutex back and does not sleep yet. */
static void test_a_signal_that_overtakes_a_waiter_is_not_lost(void **state)
{
    (void)state;
    for (int round = 0; round < 4; round++) {
        struct door door = {.until_ns = round < 2 ? 0 : UINT64_MAX};
        assert_ok(gy_cond_init(&door.changed));
        gy_thread thread;
        stops_arm(0, GY_POINT_COND_SLEEP, &door.changed);
        assert_ok(gy_thread_start(&thread, "waiter", wait_at, &door));
        stops_await(0);
        open_door(&door, round % 2 != 0);
        stops_go(0);
        deadline_await(atomic_load(&door.is_back), "a waiter that a signal has overtaken");
        gy_thread_join(&thread);
        gy_cond_fini(&door.changed);
    }
    gy_point_hook(NULL);
}

static void test_a_signal_to_nobody_does_nothing(void **state)
{
    (void)state;
    gy_cond cond;
    assert_ok(gy_cond_init(&cond));
    gy_cond_signal(&cond);
    gy_cond_broadcast(&cond);
    assert_int_equal(atomic_load(&cond.sequence), 0);
    gy_cond_fini(&cond);
}

static void test_timed_waits_end(void **state)
{
    (void)state;
    gy_cond cond = GY_COND_INIT;
    deadline_begin("a timed wait");
    errno = ERANGE;
    gy_mutex_lock(&lock);
    gy_cond_wait_until(&cond, &lock, 0);
    gy_cond_wait_until(&cond, &lock, gy_clock_ns());
    const uint64_t until_ns = gy_clock_ns() + LONG_NS;
    while (gy_clock_ns() < until_ns) {
        gy_cond_wait_until(&cond, &lock, until_ns);
    }
    gy_mutex_unlock(&lock);
    deadline_end();
    assert_int_equal(errno, ERANGE);
    assert_int_equal(atomic_load(&cond.waiters), 0);
    gy_cond_fini(&cond);
}

/* A waiter that is back may free the condition, although the one that has signalled still runs. */
static void wait_and_free(void *arg)
{
    struct door *door = arg;
    gy_mutex_lock(&lock);
    while (!door->open) {
        gy_cond_wait(&door->changed, &lock);
    }
    gy_mutex_unlock(&lock);
    gy_cond_fini(&door->changed);
    free(door);
}

static void test_a_waiter_frees_the_condition(void **state)
{
    (void)state;
    for (int round = 0; round < 50; round++) {
        struct door *door = calloc(1, sizeof(*door));
        assert_non_null(door);
        gy_thread thread;
        assert_ok(gy_thread_start(&thread, "waiter", wait_and_free, door));
        gy_mutex_lock(&lock);
        door->open = true;
        gy_cond_signal(&door->changed);
        gy_mutex_unlock(&lock);
        gy_thread_join(&thread);
    }
}

/* ---- several waiters and signalers ----------------------------------------------------------- */

/* Threads give tokens, others take them. */
struct market {
    gy_cond given, taken;
    uint32_t tokens, room;        /* guarded by lock; `room`: tokens that may lie there */
    uint32_t to_give, to_take;    /* guarded by lock; in all */
    uint32_t got[MOST_THREADS];   /* guarded by lock; of each thread that takes */
    atomic_uint takers;           /* the number of the next thread that takes */
    atomic_uint impatient;        /* so many threads that take wait for a short time only */
    atomic_uint_fast32_t ran_dry; /* how often a thread that takes has waited */
};

static void signal_one(gy_cond *cond, bool with_lock) GY_NO_ANALYSIS
{
    if (with_lock) {
        gy_cond_signal(cond);
        gy_mutex_unlock(&lock);
    } else {
        gy_mutex_unlock(&lock);
        gy_cond_signal(cond);
    }
}

static void give_tokens(void *arg) GY_NO_ANALYSIS
{
    struct market *m = arg;
    for (uint32_t i = 0;; i++) {
        gy_mutex_lock(&lock);
        while (m->tokens == m->room && m->to_give != 0) {
            gy_cond_wait(&m->taken, &lock);
        }
        if (m->to_give == 0) {
            gy_cond_broadcast(&m->taken);
            gy_mutex_unlock(&lock);
            return;
        }
        m->to_give--;
        m->tokens++;
        signal_one(&m->given, i % 2 == 0);
    }
}

/* Wait for a token; false: there will be none. */
static bool await_token(struct market *m, uint64_t pause_ns) GY_NO_ANALYSIS
{
    while (m->tokens == 0 && m->to_take != 0) {
        atomic_fetch_add(&m->ran_dry, 1);
        if (pause_ns != 0) {
            gy_cond_wait_until(&m->given, &lock, gy_clock_ns() + pause_ns);
        } else {
            gy_cond_wait(&m->given, &lock);
        }
    }
    return m->to_take != 0;
}

static void take_tokens(void *arg) GY_NO_ANALYSIS
{
    struct market *m = arg;
    const uint32_t me = atomic_fetch_add(&m->takers, 1);
    const bool is_impatient = me < atomic_load(&m->impatient);
    for (uint32_t i = 0;; i++) {
        gy_mutex_lock(&lock);
        if (!await_token(m, is_impatient ? 1 + i * 997 % 60000 : 0)) {
            gy_cond_broadcast(&m->given);
            gy_mutex_unlock(&lock);
            return;
        }
        m->tokens--;
        m->to_take--;
        m->got[me]++;
        signal_one(&m->taken, i % 3 == 0);
    }
}

static void trade(uint32_t takers, uint32_t impatient, uint32_t givers, uint32_t rounds)
{
    struct market m = {.room = ROOM, .to_give = rounds, .to_take = rounds, .impatient = impatient};
    gy_thread threads[2 * MOST_THREADS];
    assert_ok(gy_cond_init(&m.given));
    assert_ok(gy_cond_init(&m.taken));
    for (uint32_t i = 0; i < takers + givers; i++) {
        assert_ok(gy_thread_start(&threads[i], "trader", i < takers ? take_tokens : give_tokens, &m));
    }
    deadline_begin("threads that wait for tokens");
    uint64_t got = 0;
    for (uint32_t i = 0; i < takers + givers; i++) {
        gy_thread_join(&threads[i]);
    }
    deadline_end();
    for (uint32_t i = 0; i < takers; i++) {
        got += m.got[i];
    }
    assert_int_equal(got, rounds);
    assert_int_equal(m.tokens, 0);
    assert_true(atomic_load(&m.ran_dry) != 0);
    gy_cond_fini(&m.given);
    gy_cond_fini(&m.taken);
}

static uint32_t rounds(void)
{
    return getenv("GANTRY_TEST_LIGHT") != NULL ? 10000 : 100000;
}

static void test_each_signal_wakes_a_waiter(void **state)
{
    (void)state;
    trade(3, 0, 2, rounds());
    trade(MOST_THREADS, 0, 1, rounds() / 4);
}

static void test_waits_that_end_by_time_take_no_signal_from_others(void **state)
{
    (void)state;
    trade(3, 1, 2, rounds() / 2);
    trade(MOST_THREADS, 3, 1, rounds() / 4);
}

/* ---- processes ------------------------------------------------------------------------------- */

/* Returns the signal that ends a child which runs `body`; 0 when it ends by itself. */
static int signal_of(void (*body)(void *arg), void *arg)
{
    const pid_t child = fork();
    if (child == 0) {
        const int null = open("/dev/null", O_WRONLY); /* the message of an assert is expected */
        dup2(null, STDERR_FILENO);
        body(arg);
        _exit(0);
    }
    int status = -1;
    if (child < 0 || waitpid(child, &status, 0) != child) {
        return -1;
    }
    return WIFSIGNALED(status) ? WTERMSIG(status) : WEXITSTATUS(status);
}

static void end_a_condition_in_use(void *arg)
{
    (void)arg;
    gy_cond cond = {0, 1};
    gy_cond_fini(&cond);
}

/* This comes before the first thread: later on, a child may end what threads of its parent wait for. */
static void test_a_condition_that_is_waited_for_must_not_end(void **state)
{
    (void)state;
    assert_int_equal(signal_of(end_a_condition_in_use, NULL), SIGABRT);
}

static void use_the_parents(void *arg)
{
    struct door *door = arg;
    gy_mutex_init(&lock, GY_RANK_LEAF);
    gy_mutex_lock(&lock);
    gy_cond_signal(&door->changed);
    gy_cond_broadcast(&door->changed);
    gy_cond_wait_until(&door->changed, &lock, gy_clock_ns() + LONG_NS);
    gy_mutex_unlock(&lock);
    gy_cond_fini(&door->changed);
}

/* With glibc's conditions, the end of one that threads of the parent wait for is waited for. */
static void test_a_child_is_not_held_up_by_its_parents_waiters(void **state)
{
    (void)state;
    struct door door = {.open = false};
    gy_thread threads[2];
    assert_ok(gy_cond_init(&door.changed));
    for (int i = 0; i < 2; i++) {
        assert_ok(gy_thread_start(&threads[i], "waiter", wait_at, &door));
    }
    deadline_await(atomic_load(&door.changed.waiters) == 2, "two waiters");
    deadline_begin("a child of a process whose threads wait");
    const int ended_by = signal_of(use_the_parents, &door);
    deadline_end();
    open_door(&door, true);
    for (int i = 0; i < 2; i++) {
        gy_thread_join(&threads[i]);
    }
    gy_cond_fini(&door.changed);
    assert_int_equal(ended_by, 0);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_a_condition_that_is_waited_for_must_not_end),
        cmocka_unit_test(test_a_signal_that_overtakes_a_waiter_is_not_lost),
        cmocka_unit_test(test_a_signal_to_nobody_does_nothing),
        cmocka_unit_test(test_timed_waits_end),
        cmocka_unit_test(test_a_waiter_frees_the_condition),
        cmocka_unit_test(test_each_signal_wakes_a_waiter),
        cmocka_unit_test(test_waits_that_end_by_time_take_no_signal_from_others),
        cmocka_unit_test(test_a_child_is_not_held_up_by_its_parents_waiters),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
