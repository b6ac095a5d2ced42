/* SPDX-License-Identifier: MIT */
/* Mutexes of the program, locks for readers and writers, condition variables and semaphores: accesses under
 * one mutex are no race, and who is woken comes after who has woken it.  What is done once for all, and known
 * to be done, is nobody's.  In a program that is linked with
 * this library these functions come before those of the C library, which they call. */
#include "proof/order.h"

#include <dlfcn.h>
#include <pthread.h>
#include <semaphore.h>
#include <string.h>
#include <time.h>

#define HOOK __attribute__((visibility("default")))

typedef void any_fn(void);

/* The C library's function of that name, kept in `*known`. */
static any_fn *real(_Atomic(any_fn *) *known, const char *name)
{
    any_fn *function = atomic_load_explicit(known, memory_order_relaxed);
    if (function == NULL) {
        void *found = dlsym(RTLD_NEXT, name);
        memcpy(&function, &found,
               sizeof(function)); /* ISO C has no cast from an object pointer to a function pointer */
        atomic_store_explicit(known, function, memory_order_relaxed);
    }
    return function;
}

/* Does the calling thread carry out a work of the program's? */
static bool is_heard(void)
{
    return gy_access_now != NULL && !gy_proof_is_inside;
}

static void locked(const void *mutex)
{
    gy_order_locked(mutex, false);
}

static void locked_shared(const void *mutex)
{
    gy_order_locked(mutex, true);
}

static void unlocking(const void *mutex)
{
    (void)mutex;
    gy_order_unlocking();
}

/* Functions that return 0 when `heard(object)` is to be told, after the call or before it. */
#define AFTER(name, object, parameters, arguments, heard)                     \
    HOOK int name parameters                                                  \
    {                                                                         \
        static _Atomic(any_fn *) known;                                       \
        const int result = ((int(*) parameters)real(&known, #name))arguments; \
        if (result == 0 && is_heard()) {                                      \
            heard(object);                                                    \
        }                                                                     \
        return result;                                                        \
    }
#define BEFORE(name, object, parameters, arguments, heard)        \
    HOOK int name parameters                                      \
    {                                                             \
        static _Atomic(any_fn *) known;                           \
        if (is_heard()) {                                         \
            heard(object);                                        \
        }                                                         \
        return ((int(*) parameters)real(&known, #name))arguments; \
    }

AFTER(pthread_mutex_lock, mutex, (pthread_mutex_t * mutex), (mutex), locked)
AFTER(pthread_mutex_trylock, mutex, (pthread_mutex_t * mutex), (mutex), locked)
AFTER(pthread_mutex_timedlock, mutex, (pthread_mutex_t * mutex, const struct timespec *until), (mutex, until),
      locked)
AFTER(pthread_mutex_clocklock, mutex,
      (pthread_mutex_t * mutex, clockid_t clock, const struct timespec *until), (mutex, clock, until), locked)
BEFORE(pthread_mutex_unlock, mutex, (pthread_mutex_t * mutex), (mutex), unlocking)

AFTER(pthread_rwlock_rdlock, lock, (pthread_rwlock_t * lock), (lock), locked_shared)
AFTER(pthread_rwlock_tryrdlock, lock, (pthread_rwlock_t * lock), (lock), locked_shared)
AFTER(pthread_rwlock_timedrdlock, lock, (pthread_rwlock_t * lock, const struct timespec *until),
      (lock, until), locked_shared)
AFTER(pthread_rwlock_clockrdlock, lock,
      (pthread_rwlock_t * lock, clockid_t clock, const struct timespec *until), (lock, clock, until),
      locked_shared)
AFTER(pthread_rwlock_wrlock, lock, (pthread_rwlock_t * lock), (lock), locked)
AFTER(pthread_rwlock_trywrlock, lock, (pthread_rwlock_t * lock), (lock), locked)
AFTER(pthread_rwlock_timedwrlock, lock, (pthread_rwlock_t * lock, const struct timespec *until),
      (lock, until), locked)
AFTER(pthread_rwlock_clockwrlock, lock,
      (pthread_rwlock_t * lock, clockid_t clock, const struct timespec *until), (lock, clock, until), locked)
BEFORE(pthread_rwlock_unlock, lock, (pthread_rwlock_t * lock), (lock), unlocking)

/* Others may have the mutex meanwhile. */
#define WAITS(name, parameters, arguments)                                    \
    HOOK int name parameters                                                  \
    {                                                                         \
        static _Atomic(any_fn *) known;                                       \
        const bool is_told = is_heard();                                      \
        if (is_told) {                                                        \
            gy_order_unlocking();                                             \
        }                                                                     \
        const int result = ((int(*) parameters)real(&known, #name))arguments; \
        if (is_told) {                                                        \
            gy_order_locked(mutex, false);                                    \
        }                                                                     \
        if (is_told && result == 0) {                                         \
            gy_order_woken(condition);                                        \
        }                                                                     \
        return result;                                                        \
    }
WAITS(pthread_cond_wait, (pthread_cond_t * condition, pthread_mutex_t *mutex), (condition, mutex))
WAITS(pthread_cond_timedwait,
      (pthread_cond_t * condition, pthread_mutex_t *mutex, const struct timespec *until),
      (condition, mutex, until))
WAITS(pthread_cond_clockwait,
      (pthread_cond_t * condition, pthread_mutex_t *mutex, clockid_t clock, const struct timespec *until),
      (condition, mutex, clock, until))
BEFORE(pthread_cond_signal, condition, (pthread_cond_t * condition), (condition), gy_order_wakes)
BEFORE(pthread_cond_broadcast, condition, (pthread_cond_t * condition), (condition), gy_order_wakes)

AFTER(sem_wait, semaphore, (sem_t * semaphore), (semaphore), gy_order_woken)
AFTER(sem_trywait, semaphore, (sem_t * semaphore), (semaphore), gy_order_woken)
AFTER(sem_timedwait, semaphore, (sem_t * semaphore, const struct timespec *until), (semaphore, until),
      gy_order_woken)
AFTER(sem_clockwait, semaphore, (sem_t * semaphore, clockid_t clock, const struct timespec *until),
      (semaphore, clock, until), gy_order_woken)
BEFORE(sem_post, semaphore, (sem_t * semaphore), (semaphore), gy_order_wakes)

/* ---- what is done once ------------------------------------------------------------------------------------
 *
 * Variables of functions that are static, pthread_once() and std::call_once(): whoever comes first does it,
 * and others ask a word whether it is done, which is no order that is known. */

static _Thread_local struct gy_access *paused;
static _Thread_local int pauses;

static void pause_access(void)
{
    if (pauses++ == 0) {
        paused = gy_access_now;
        gy_access_now = NULL;
    }
}

static void resume_access(void)
{
    if (--pauses == 0) {
        gy_access_now = paused;
    }
}

HOOK int __cxa_guard_acquire(void *guard);
int __cxa_guard_acquire(void *guard)
{
    static _Atomic(any_fn *) known;
    const int is_first = ((int (*)(void *))real(&known, "__cxa_guard_acquire"))(guard);
    if (is_first != 0) {
        pause_access();
    }
    return is_first;
}

HOOK void __cxa_guard_release(void *guard);
void __cxa_guard_release(void *guard)
{
    static _Atomic(any_fn *) known;
    ((void (*)(void *))real(&known, "__cxa_guard_release"))(guard);
    resume_access();
}

HOOK void __cxa_guard_abort(void *guard);
void __cxa_guard_abort(void *guard)
{
    static _Atomic(any_fn *) known;
    ((void (*)(void *))real(&known, "__cxa_guard_abort"))(guard);
    resume_access();
}

HOOK int pthread_once(pthread_once_t *once, void (*function)(void))
{
    static _Atomic(any_fn *) known;
    pause_access();
    const int result =
        ((int (*)(pthread_once_t *, void (*)(void)))real(&known, "pthread_once"))(once, function);
    resume_access();
    return result;
}
