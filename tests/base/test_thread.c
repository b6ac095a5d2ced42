/* SPDX-License-Identifier: MIT */
#include "tests/support/cmocka_c11.h"

#include "base/alloc.h"
#include "base/thread.h"

#include <fcntl.h>
#include <signal.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

static gy_mutex low, high, high_too;

static int init_mutexes(void **state)
{
    (void)state;
    gy_mutex_init(&low, GY_RANK_CONTEXT);
    gy_mutex_init(&high, GY_RANK_HEAP);
    gy_mutex_init(&high_too, GY_RANK_HEAP);
    return 0;
}

static int fini_mutexes(void **state)
{
    (void)state;
    gy_mutex_fini(&high_too);
    gy_mutex_fini(&high);
    gy_mutex_fini(&low);
    return 0;
}

/* Returns the signal that ends a child which runs `body`; 0 when it ends by itself. */
static int signal_of(void (*body)(void))
{
    pid_t child = fork();
    if (child == 0) {
        /* The message of the assert is expected: keep it out of the test's output. */
        int null = open("/dev/null", O_WRONLY);
        dup2(null, STDERR_FILENO);
        body();
        _exit(0);
    }
    int status = -1;
    if (child < 0 || waitpid(child, &status, 0) != child) {
        return -1;
    }
    return WIFSIGNALED(status) ? WTERMSIG(status) : WEXITSTATUS(status);
}

static void lock_downwards(void) GY_NO_ANALYSIS
{
    gy_mutex_lock(&high);
    gy_mutex_lock(&low);
}

static void lock_the_same_rank_twice(void) GY_NO_ANALYSIS
{
    gy_mutex_lock(&high);
    gy_mutex_lock(&high_too);
}

static void lock_twice(void) GY_NO_ANALYSIS
{
    gy_mutex_lock(&low);
    gy_mutex_lock(&low);
}

static void wait_below_another_lock(void) GY_NO_ANALYSIS
{
    gy_cond cond;
    if (gy_cond_init(&cond) != GANTRY_OK) {
        return;
    }
    gy_mutex_lock(&low);
    gy_mutex_lock(&high);
    gy_cond_wait(&cond, &low);
}

static void lock_upwards_and_unlock_in_any_order(void) GY_NO_ANALYSIS
{
    for (int i = 0; i < 2; i++) {
        gy_mutex_lock(&low);
        gy_mutex_lock(&high);
        gy_mutex_unlock(&low);
        gy_mutex_unlock(&high);
    }
    gy_mutex_lock(&high);
    gy_mutex_unlock(&high);
    gy_mutex_lock(&low);
    gy_mutex_unlock(&low);
}

static void test_lock_order_violations_are_caught(void **state)
{
    (void)state;
    assert_int_equal(signal_of(lock_downwards), SIGABRT);
    assert_int_equal(signal_of(lock_the_same_rank_twice), SIGABRT);
    assert_int_equal(signal_of(lock_twice), SIGABRT);
    assert_int_equal(signal_of(wait_below_another_lock), SIGABRT);
}

static void test_locks_in_increasing_rank_are_fine(void **state)
{
    (void)state;
    assert_int_equal(signal_of(lock_upwards_and_unlock_in_any_order), 0);
    lock_upwards_and_unlock_in_any_order();
}

/* The set of held ranks belongs to the thread. */
static void lock_low(void *arg)
{
    (void)arg;
    gy_mutex_lock(&low);
    gy_mutex_unlock(&low);
}

static void test_ranks_are_kept_per_thread(void **state)
{
    (void)state;
    gy_thread thread;
    gy_mutex_lock(&high);
    gantry_status status = gy_thread_start(&thread, "low", lock_low, NULL);
    gy_mutex_unlock(&high);
    assert_ok(status);
    gy_thread_join(&thread);
}

#define PING_ROUNDS 200

struct ping {
    gy_mutex lock;
    gy_cond turned;
    int turn; /* guarded by lock; even: it is the test's turn, odd: the thread's */
};

static void take_turns(struct ping *ping, int parity)
{
    for (int i = 0; i < PING_ROUNDS; i++) {
        gy_mutex_lock(&ping->lock);
        while (ping->turn % 2 != parity) {
            gy_cond_wait(&ping->turned, &ping->lock);
        }
        ping->turn++;
        gy_mutex_unlock(&ping->lock);
        if (i % 2 == 0) {
            gy_cond_signal(&ping->turned);
        } else {
            gy_cond_broadcast(&ping->turned);
        }
    }
}

static void take_odd_turns(void *arg)
{
    take_turns(arg, 1);
}

static void test_condition_hands_over_between_threads(void **state)
{
    (void)state;
    struct ping ping = {.turn = 0};
    gy_mutex_init(&ping.lock, GY_RANK_LEAF);
    assert_ok(gy_cond_init(&ping.turned));
    gy_thread thread;
    assert_ok(gy_thread_start(&thread, "ping", take_odd_turns, &ping));
    take_turns(&ping, 0);
    gy_thread_join(&thread);
    assert_int_equal(ping.turn, 2 * PING_ROUNDS);
    gy_cond_fini(&ping.turned);
    gy_mutex_fini(&ping.lock);
}

struct seen {
    char name[40];
    char system_name[16];
    int blocked;
    int open; /* signals that code gets for what it does */
};

static void look_around(void *arg)
{
    struct seen *seen = arg;
    strncpy(seen->name, gy_thread_name(), sizeof(seen->name) - 1);
    pthread_getname_np(pthread_self(), seen->system_name, sizeof(seen->system_name));
    sigset_t mask;
    sigemptyset(&mask);
    pthread_sigmask(SIG_SETMASK, NULL, &mask);
    seen->blocked = sigismember(&mask, SIGINT) == 1 && sigismember(&mask, SIGTERM) == 1 &&
                    sigismember(&mask, SIGUSR1) == 1;
    static const int of_code[] = {SIGSEGV, SIGBUS, SIGFPE, SIGILL, SIGTRAP, SIGSYS, SIGPROF};
    for (size_t i = 0; i < sizeof(of_code) / sizeof(of_code[0]); i++) {
        seen->open += sigismember(&mask, of_code[i]) == 0;
    }
}

static void test_a_thread_has_its_name_and_the_signals_of_code(void **state)
{
    (void)state;
    struct seen seen = {{0}, {0}, 0, 0};
    gy_thread thread;
    assert_ok(gy_thread_start(&thread, "gantry a long name", look_around, &seen));
    gy_thread_join(&thread);
    assert_string_equal(seen.name, "gantry a long name");
    assert_string_equal(seen.system_name, "gantry a long n");
    assert_true(seen.blocked);
    assert_int_equal(seen.open, 7);
    assert_null(gy_thread_name());
    sigset_t mask;
    pthread_sigmask(SIG_SETMASK, NULL, &mask);
    assert_int_equal(sigismember(&mask, SIGTERM), 0); /* the starter's signal mask is as before */
}

static void count_up(void *arg)
{
    ++*(int *)arg;
}

static void test_thread_start_fails_cleanly(void **state)
{
    (void)state;
    long live = gy_alloc_live();
    int ran = 0;
    for (long nth = 0;; nth++) {
        gy_thread thread;
        gy_fault_arm(nth);
        gantry_status status = gy_thread_start(&thread, "fails", count_up, &ran);
        bool fired = gy_fault_fired();
        gy_fault_arm(-1);
        if (!fired) {
            assert_ok(status);
            assert_int_equal(gy_alloc_live(), live); /* nobody may free anything later */
            gy_thread_join(&thread);
            assert_int_equal(nth, 1); /* this is the thread itself */
            break;
        }
        assert_int_equal(status, GANTRY_ERR_OUT_OF_HOST_MEMORY);
        assert_int_equal(gy_alloc_live(), live);
        assert_int_equal(ran, 0);
    }
    assert_int_equal(ran, 1);
    assert_int_equal(gy_alloc_live(), live);
}

static void test_cond_init_fails_cleanly(void **state)
{
    (void)state;
    gy_cond cond;
    gy_fault_arm(0);
    assert_int_equal(gy_cond_init(&cond), GANTRY_ERR_OUT_OF_HOST_MEMORY);
    gy_fault_arm(-1);
    assert_ok(gy_cond_init(&cond));
    gy_cond_fini(&cond);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_lock_order_violations_are_caught),
        cmocka_unit_test(test_locks_in_increasing_rank_are_fine),
        cmocka_unit_test(test_ranks_are_kept_per_thread),
        cmocka_unit_test(test_condition_hands_over_between_threads),
        cmocka_unit_test(test_a_thread_has_its_name_and_the_signals_of_code),
        cmocka_unit_test(test_thread_start_fails_cleanly),
        cmocka_unit_test(test_cond_init_fails_cleanly),
    };
    return cmocka_run_group_tests(tests, init_mutexes, fini_mutexes);
}
