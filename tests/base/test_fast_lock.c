/* SPDX-License-Identifier: MIT */
/* The lock of the build path: mutual exclusion, sleeping and waking, ranks. */
#include "tests/support/cmocka_c11.h"

#include "base/fast_lock.h"

#include <fcntl.h>
#include <sched.h>
#include <signal.h>
#include <sys/wait.h>
#include <unistd.h>

enum { THREADS = 4, ROUNDS = 20000 };

static gy_fast_lock lock, lower;
static uint64_t count; /* guarded by lock */

static void *count_up(void *arg)
{
    (void)arg;
    for (int i = 0; i < ROUNDS; i++) {
        gy_fast_lock_take(&lock);
        count++;
        gy_fast_lock_give(&lock);
    }
    return NULL;
}

static void test_one_at_a_time(void **state)
{
    (void)state;
    pthread_t threads[THREADS];
    gy_fast_lock_init(&lock, GY_RANK_LEAF);
    count = 0;
    for (int i = 0; i < THREADS; i++) {
        assert_int_equal(pthread_create(&threads[i], NULL, count_up, NULL), 0);
    }
    for (int i = 0; i < THREADS; i++) {
        assert_int_equal(pthread_join(threads[i], NULL), 0);
    }
    assert_int_equal(count, (uint64_t)THREADS * ROUNDS);
    assert_int_equal(atomic_load(&lock.state), 0);
}

static void *take_once(void *arg)
{
    gy_fast_lock_take(&lock);
    *(uint64_t *)arg = ++count;
    gy_fast_lock_give(&lock);
    return NULL;
}

/* Every waiter has said that it sleeps, or is about to, before the lock is released. */
static void test_sleepers_are_woken_one_after_the_other(void **state)
{
    (void)state;
    pthread_t threads[THREADS];
    uint64_t got[THREADS] = {0}, sum = 0;
    gy_fast_lock_init(&lock, GY_RANK_LEAF);
    count = 0;
    gy_fast_lock_take(&lock);
    for (int i = 0; i < THREADS; i++) {
        assert_int_equal(pthread_create(&threads[i], NULL, take_once, &got[i]), 0);
        while (atomic_load(&lock.state) != 2) {
            sched_yield();
        }
    }
    assert_int_equal(count, 0);
    gy_fast_lock_give(&lock);
    for (int i = 0; i < THREADS; i++) {
        assert_int_equal(pthread_join(threads[i], NULL), 0);
        sum += got[i];
    }
    assert_int_equal(sum, THREADS * (THREADS + 1) / 2);
    assert_int_equal(atomic_load(&lock.state), 0);
}

static void take_downwards(void) GY_NO_ANALYSIS
{
    gy_fast_lock_take(&lock);
    gy_fast_lock_take(&lower);
}

static void take_upwards(void) GY_NO_ANALYSIS
{
    gy_fast_lock_take(&lower);
    gy_fast_lock_take(&lock);
    gy_fast_lock_give(&lower);
    gy_fast_lock_give(&lock);
}

static int end_of(void (*body)(void))
{
    pid_t child = fork();
    if (child == 0) {
        dup2(open("/dev/null", O_WRONLY), STDERR_FILENO); /* the message of the assert is expected */
        body();
        _exit(0);
    }
    int status = -1;
    return child < 0 || waitpid(child, &status, 0) != child ? -1
           : WIFSIGNALED(status)                            ? WTERMSIG(status)
                                                            : WEXITSTATUS(status);
}

static void test_ranks_are_checked(void **state)
{
    (void)state;
    gy_fast_lock_init(&lower, GY_RANK_TASKMAN);
    gy_fast_lock_init(&lock, GY_RANK_CPU_POOL);
    assert_int_equal(end_of(take_upwards), 0);
    assert_int_equal(end_of(take_downwards), SIGABRT);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_one_at_a_time),
        cmocka_unit_test(test_sleepers_are_woken_one_after_the_other),
        cmocka_unit_test(test_ranks_are_checked),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
