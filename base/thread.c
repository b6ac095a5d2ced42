/* SPDX-License-Identifier: MIT */
#include "base/thread.h"

#include "base/alloc.h"
#include "base/cpus.h"
#include "base/point.h"
#include "base/status.h"

#include <assert.h>
#include <errno.h>
#include <limits.h>
#include <linux/futex.h>
#include <sched.h>
#include <signal.h>
#include <stdio.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/resource.h>
#include <sys/syscall.h>
#include <time.h>
#include <unistd.h>

#ifndef NDEBUG
/* Bit r is set while the thread holds a mutex of rank r. */
static _Thread_local uint32_t held;
#define HELD(rank) (held >> (rank)&1u)
#define HELD_ABOVE(rank) (held >> (rank))
#define HELD_SET(rank) (held |= 1u << (rank))
#define HELD_CLEAR(rank) (held &= ~(1u << (rank)))
#else
#define HELD_SET(rank) ((void)0)
#define HELD_CLEAR(rank) ((void)0)
#endif

static _Thread_local const char *thread_name;
static _Thread_local bool is_serving;

void gy_rank_note_check(enum gy_rank rank)
{
    (void)rank;
    assert(HELD_ABOVE(rank) == 0 && "locks are taken in increasing rank");
}

void gy_rank_note_hold(enum gy_rank rank)
{
    (void)rank;
    HELD_SET(rank);
}

void gy_rank_note_drop(enum gy_rank rank)
{
    (void)rank;
    assert(HELD(rank) && "who gives a lock back holds it");
    HELD_CLEAR(rank);
}

void gy_mutex_init(gy_mutex *mutex, enum gy_rank rank)
{
    /* A default mutex needs no resources on Linux: pthread_mutex_init cannot fail there. */
    pthread_mutex_init(&mutex->native, NULL);
    mutex->rank = rank;
}

void gy_mutex_fini(gy_mutex *mutex)
{
    pthread_mutex_destroy(&mutex->native);
}

static void take(gy_mutex *mutex) GY_NO_ANALYSIS
{
    enum { LOOKS = 32 }; /* the holder is most likely done in less time than it takes to sleep */
    for (int i = 0; pthread_mutex_trylock(&mutex->native) != 0; i++) {
        if (i == LOOKS) {
            pthread_mutex_lock(&mutex->native);
            break;
        }
        gy_cpu_relax();
    }
}

void gy_mutex_lock(gy_mutex *mutex) GY_NO_ANALYSIS
{
    assert(HELD_ABOVE(mutex->rank) == 0 && "locks are taken in increasing rank");
    take(mutex);
    HELD_SET(mutex->rank);
}

bool gy_mutex_try_lock(gy_mutex *mutex) GY_NO_ANALYSIS
{
    if (pthread_mutex_trylock(&mutex->native) != 0) {
        return false;
    }
    HELD_SET(mutex->rank);
    return true;
}

void gy_mutex_unlock(gy_mutex *mutex) GY_NO_ANALYSIS
{
    assert(HELD(mutex->rank) && "who gives a lock back holds it");
    HELD_CLEAR(mutex->rank);
    pthread_mutex_unlock(&mutex->native);
}

/* ---- conditions --------------------------------------------------------------------------------
 *
 * Those of glibc 2.27 to 2.40 lose a wake-up when a later waiter steals a signal, so these are our own.
 *
 * A waiter holds the mutex while it looks for what it waits for, counts itself in, and reads the sequence;
 * then it gives the mutex back, and the kernel lets it sleep only if the sequence is still what it has read.
 * A signal that finds somebody counted moves the sequence on and wakes one sleeper; a broadcast wakes all.
 *
 * Why no wake-up is lost: the signaler makes its change, has the mutex then or after that, and signals.  A
 * waiter that had the mutex later than the signaler has seen the change.  One that had it earlier has counted
 * itself in and read the sequence before it gave the mutex back, which happens before the signal.  Hence the
 * signal sees the count, and moves the sequence on from what that waiter has read or from a later value.  The
 * kernel compares and falls asleep in one step with respect to wake-ups: the waiter finds another sequence
 * and does not sleep, or it is asleep when the wake-up comes.  A thread that comes later can be woken in the
 * place of one that slept only if the signal was given without the mutex, and it sleeps only if what was
 * signalled is used up by then.  For each further change there is a further wake-up, and a sleeper that is
 * woken leaves the kernel's queue at once, so two wake-ups never go to one sleeper.  A wait that ends by time
 * or by a signal handler while it is woken counts as woken; else the wake-up goes to another sleeper
 * (futex_unqueue() in the kernel). tests/models/condition.pml has this for all interleavings.
 *
 * Memory orders: relaxed.  What orders the accesses is the mutex, as above, also where the signal comes after
 * the mutex was given back: a load cannot be done before a lock that precedes it.  What a woken thread
 * reads it reads under the mutex.
 *
 * A waiter would sleep on if 2^32 signals came between its reading and the kernel's: each of them is a system
 * call, so that takes ten minutes in which the waiter does not run, and an exact hit.
 *
 * Destruction: the last access of a waiter is the count out, under the mutex; that of a signal is the system
 * call, to which an address without memory does no harm. */

gantry_status gy_cond_init(gy_cond *cond)
{
    if (gy_fault_should_fail()) {
        return GY_FAIL(GANTRY_ERR_OUT_OF_HOST_MEMORY, "cannot create a condition variable");
    }
    atomic_init(&cond->sequence, 0);
    atomic_init(&cond->waiters, 0);
    return GANTRY_OK;
}

/* In the child of a fork those that waited are not there. */
void gy_cond_fini(gy_cond *cond)
{
    (void)cond;
    assert((atomic_load_explicit(&cond->waiters, memory_order_relaxed) == 0 || gy_thread_forks() != 0) &&
           "nobody waits for a condition that ends");
}

gantry_status gy_guard_init(gy_mutex *mutex, enum gy_rank rank, gy_cond *cond)
{
    gantry_status status = gy_cond_init(cond);
    if (status == GANTRY_OK) {
        gy_mutex_init(mutex, rank);
    }
    return status;
}

void gy_guard_fini(gy_mutex *mutex, gy_cond *cond)
{
    gy_cond_fini(cond);
    gy_mutex_fini(mutex);
}

/* `until`: of CLOCK_MONOTONIC; NULL: for ever. */
static void wait(gy_cond *cond, gy_mutex *mutex, const struct timespec *until) GY_NO_ANALYSIS
{
    assert(HELD_ABOVE(mutex->rank) == 1 && "waiting while holding a higher lock");
    atomic_fetch_add_explicit(&cond->waiters, 1, memory_order_relaxed);
    const uint32_t seen = atomic_load_explicit(&cond->sequence, memory_order_relaxed);
    pthread_mutex_unlock(&mutex->native);
    gy_point(GY_POINT_COND_SLEEP, cond);
    const int error = errno;
    syscall(SYS_futex, &cond->sequence, FUTEX_WAIT_BITSET_PRIVATE, seen, until, NULL, FUTEX_BITSET_MATCH_ANY);
    errno = error;
    take(mutex);
    atomic_fetch_sub_explicit(&cond->waiters, 1, memory_order_relaxed);
}

void gy_cond_wait(gy_cond *cond, gy_mutex *mutex)
{
    wait(cond, mutex, NULL);
}

void gy_cond_wait_until(gy_cond *cond, gy_mutex *mutex, uint64_t until_ns)
{
    const struct timespec until = {.tv_sec = (time_t)(until_ns / 1000000000u),
                                   .tv_nsec = (long)(until_ns % 1000000000u)};
    wait(cond, mutex, &until);
}

static void wake(gy_cond *cond, int most)
{
    if (atomic_load_explicit(&cond->waiters, memory_order_relaxed) != 0) {
        atomic_fetch_add_explicit(&cond->sequence, 1, memory_order_relaxed);
        gy_point(GY_POINT_COND_WAKE, cond);
        syscall(SYS_futex, &cond->sequence, FUTEX_WAKE_PRIVATE, most, NULL, NULL, 0);
    }
}

void gy_cond_signal(gy_cond *cond)
{
    wake(cond, 1);
}

void gy_cond_broadcast(gy_cond *cond)
{
    wake(cond, INT_MAX);
}

/* The thread that starts a step, two threads of a dispatcher and a worker may spin at the same time.
 */
#define SPINNERS 4

void gy_spin_rest(void)
{
    static _Atomic(int) cpus; /* 0: not counted yet */
    int count = atomic_load_explicit(&cpus, memory_order_relaxed);
    if (count == 0) {
        count = (int)gy_cpus_usable_at_once();
        atomic_store_explicit(&cpus, count, memory_order_relaxed);
    }
    if (count <= SPINNERS) {
        sched_yield();
    }
}

static void *thread_main(void *arg)
{
    const gy_thread *self = arg;
    thread_name = self->name;
    char shown[16];
    snprintf(shown, sizeof(shown), "%s", self->name);
    pthread_setname_np(pthread_self(), shown);
    self->body(self->arg);
    return NULL;
}

static atomic_uint forks; /* atomic; counted once a thread was started */

static void count_fork(void)
{
    atomic_fetch_add_explicit(&forks, 1, memory_order_relaxed);
}

static void watch_forks(void)
{
    (void)pthread_atfork(NULL, NULL, count_fork);
}

unsigned gy_thread_forks(void)
{
    return atomic_load_explicit(&forks, memory_order_relaxed);
}

/* Which limits may be meant; "" when it is none. */
static void tell_thread_limits(int error, char *out, size_t room)
{
    struct rlimit threads;
    out[0] = '\0';
    if (error != EAGAIN) {
        return;
    }
    if (getrlimit(RLIMIT_NPROC, &threads) == 0 && threads.rlim_cur != RLIM_INFINITY) {
        (void)snprintf(out, room,
                       "; this user may have %llu processes and threads (ulimit -u), and a container fewer "
                       "(pids.max)",
                       (unsigned long long)threads.rlim_cur);
    } else {
        (void)snprintf(out, room, "; a container may limit processes and threads (pids.max)");
    }
}

gantry_status gy_thread_start(gy_thread *thread, const char *name, void (*body)(void *arg), void *arg)
{
    static pthread_once_t once = PTHREAD_ONCE_INIT;
    (void)pthread_once(&once, watch_forks);
    thread->name = name;
    thread->body = body;
    thread->arg = arg;
    /* Signals to the process are the application's, and its handlers must not run on our threads.  Those that
     * code of the application gets for what it does on our threads reach its handlers. */
    static const int of_code[] = {SIGSEGV, SIGBUS, SIGFPE, SIGILL, SIGTRAP, SIGSYS, SIGPROF};
    sigset_t mask, before;
    sigfillset(&mask);
    for (size_t i = 0; i < sizeof(of_code) / sizeof(of_code[0]); i++) {
        sigdelset(&mask, of_code[i]);
    }
    pthread_sigmask(SIG_SETMASK, &mask, &before);
    int error = gy_fault_should_fail() ? EAGAIN : pthread_create(&thread->native, NULL, thread_main, thread);
    pthread_sigmask(SIG_SETMASK, &before, NULL);
    if (error != 0) {
        char limits[160];
        tell_thread_limits(error, limits, sizeof(limits));
        return GY_FAIL(GANTRY_ERR_OUT_OF_HOST_MEMORY, "cannot start thread %s: %s%s", name,
                       strerrordesc_np(error), limits);
    }
    return GANTRY_OK;
}

void gy_thread_serve(bool serves)
{
    is_serving = serves;
}

bool gy_thread_is_serving(void)
{
    return is_serving;
}

void gy_thread_be_background(void)
{
    struct sched_param none = {.sched_priority = 0};
    (void)pthread_setschedparam(pthread_self(), SCHED_BATCH, &none); /* at worst it stays as it is */
}

unsigned long gy_thread_set_slack(unsigned long ns)
{
    int before = prctl(PR_GET_TIMERSLACK, 0, 0, 0, 0);
    if (before < 0) {
        return ns;
    }
    if ((unsigned long)before != ns) {
        (void)prctl(PR_SET_TIMERSLACK, ns, 0, 0, 0);
    }
    return (unsigned long)before;
}

void gy_thread_join(gy_thread *thread)
{
    pthread_join(thread->native, NULL);
}

const char *gy_thread_name(void)
{
    return thread_name;
}
