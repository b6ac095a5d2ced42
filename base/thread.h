/* SPDX-License-Identifier: MIT */
/* Threads, mutexes with ranks, condition variables.
 *
 * Ranks: a thread takes mutexes in strictly increasing rank; debug and testing builds assert it.  The
 * list below is the lock order of the whole library; docs/design/threading.md explains it. */
#ifndef BASE_THREAD_H
#define BASE_THREAD_H

#include <gantry/base.h>

#include <pthread.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <stdint.h>

#if defined(__clang__)
#define GY_CAPABILITY(name) __attribute__((capability(name)))
#define GY_ACQUIRE(...) __attribute__((acquire_capability(__VA_ARGS__)))
#define GY_TRY_ACQUIRE(...) __attribute__((try_acquire_capability(__VA_ARGS__)))
#define GY_RELEASE(...) __attribute__((release_capability(__VA_ARGS__)))
#define GY_REQUIRES(...) __attribute__((requires_capability(__VA_ARGS__)))
#define GY_NO_ANALYSIS __attribute__((no_thread_safety_analysis))
#else
#define GY_CAPABILITY(name)
#define GY_ACQUIRE(...)
#define GY_TRY_ACQUIRE(...)
#define GY_RELEASE(...)
#define GY_REQUIRES(...)
#define GY_NO_ANALYSIS
#endif

enum gy_rank {
    GY_RANK_DRIVER_LOAD = 1,  /* driver/: loading of the driver library */
    GY_RANK_USERS,            /* dispatcher/: the task managers of all dispatchers, while a plan is changed */
    GY_RANK_CONTEXT,          /* context/: module list */
    GY_RANK_EXCHANGES,        /* interop/: which exchanges there are */
    GY_RANK_EXCHANGE,         /* interop/: one per exchange */
    GY_RANK_TASKMAN,          /* taskman/: one per manager: names, growth of storage */
    GY_RANK_CPU_POOL,         /* taskman/: sleeping and waking of workers */
    GY_RANK_COLLECT,          /* dispatcher/: taken by the thread that reads GPU times and charges shares */
    GY_RANK_STALLS,           /* dispatcher/: devices on which tasks wait for memory */
    GY_RANK_DISPATCHER_INBOX, /* dispatcher/: inbox and its waiter */
    GY_RANK_COMPLETION,       /* dispatcher/: completion ring */
    GY_RANK_WAIT_SETS,        /* dispatcher/: timeline points carried along edges */
    GY_RANK_HEAPS,            /* heap/: which heaps there are */
    GY_RANK_HEAP,             /* heap/: front of one kind */
    GY_RANK_PAGES,            /* heap/: page layer (leaf: taken inside jemalloc's hooks) */
    GY_RANK_PROFILE,          /* profile/: list of per-thread rings; start and stop of a recording */
    GY_RANK_PROOF,            /* proof/: cells of the shadow */
    GY_RANK_LEAF,             /* anything that takes no other lock */
};

typedef struct GY_CAPABILITY("mutex") gy_mutex {
    pthread_mutex_t native;
    enum gy_rank rank; /* immutable after init */
} gy_mutex;

/* A condition variable on a futex; thread.c says why it loses no wake-up. */
typedef struct gy_cond {
    _Atomic(uint32_t) sequence; /* atomic; counts signals and broadcasts that found a waiter; the futex */
    _Atomic(uint32_t) waiters;  /* atomic; written under the waiters' mutex; threads in gy_cond_wait() */
} gy_cond;

#define GY_COND_INIT \
    {                \
        0, 0         \
    }

/* For locks that are no gy_mutex: the caller is about to take, has taken, or gives back one of that rank. */
void gy_rank_note_check(enum gy_rank rank);
void gy_rank_note_hold(enum gy_rank rank);
void gy_rank_note_drop(enum gy_rank rank);
static inline void gy_rank_check(enum gy_rank rank)
{
#ifndef NDEBUG
    gy_rank_note_check(rank);
#endif
    (void)rank;
}

static inline void gy_rank_hold(enum gy_rank rank)
{
#ifndef NDEBUG
    gy_rank_note_hold(rank);
#endif
    (void)rank;
}

static inline void gy_rank_drop(enum gy_rank rank)
{
#ifndef NDEBUG
    gy_rank_note_drop(rank);
#endif
    (void)rank;
}

void gy_mutex_init(gy_mutex *mutex, enum gy_rank rank);
void gy_mutex_fini(gy_mutex *mutex);
void gy_mutex_lock(gy_mutex *mutex) GY_ACQUIRE(*mutex);
void gy_mutex_unlock(gy_mutex *mutex) GY_RELEASE(*mutex);
/* Take the mutex if that needs no waiting.  The order of ranks need not be kept.  False: a thread holds it,
 * maybe the calling one. */
GANTRY_MUST_CHECK bool gy_mutex_try_lock(gy_mutex *mutex);

/* @retval GANTRY_ERR_OUT_OF_HOST_MEMORY  no resources */
GANTRY_MUST_CHECK gantry_status gy_cond_init(gy_cond *cond);
/* No thread is in gy_cond_wait(), and one that was woken is in it until it has the mutex again: the caller
 * has joined the threads that waited, or has learned under the mutex that they are back.  The same holds for
 * threads in gy_cond_signal() that do not hold the mutex. */
void gy_cond_fini(gy_cond *cond);
/* Initialise a mutex and the condition that tells of changes under it.
 * @retval GANTRY_ERR_OUT_OF_HOST_MEMORY  no resources; neither is there */
GANTRY_MUST_CHECK gantry_status gy_guard_init(gy_mutex *mutex, enum gy_rank rank, gy_cond *cond);
void gy_guard_fini(gy_mutex *mutex, gy_cond *cond);
/* The mutex must be the highest-ranked one the thread holds.  A wait may end without a signal: the caller
 * looks for itself.  This is no cancellation point: a thread that was cancelled here would keep the lock. */
void gy_cond_wait(gy_cond *cond, gy_mutex *mutex) GY_REQUIRES(*mutex);
/* gy_cond_wait(), which ends at `until_ns` of gy_clock_ns() at the latest. */
void gy_cond_wait_until(gy_cond *cond, gy_mutex *mutex, uint64_t until_ns) GY_REQUIRES(*mutex);
/* Wake one waiter, or all of them.  The caller holds the mutex, or has held it since it changed what they
 * look for.  If they look for different things, they need a broadcast.  No system call when nobody waits. */
void gy_cond_signal(gy_cond *cond);
void gy_cond_broadcast(gy_cond *cond);

typedef struct gy_thread {
    pthread_t native;
    const char *name; /* these three: immutable once it was started */
    void (*body)(void *arg);
    void *arg;
} gy_thread;

/* Start a thread, which reads *thread until it ends, called `name` (at most 15 characters are shown by the
 * system; the whole name appears in profiles and must be static or outlive the thread).  All signals are
 * blocked in it.
 * @retval GANTRY_ERR_OUT_OF_HOST_MEMORY  no resources */
GANTRY_MUST_CHECK gantry_status gy_thread_start(gy_thread *thread, const char *name, void (*body)(void *arg),
                                                void *arg);
void gy_thread_join(gy_thread *thread);
/* How many forks lie between this process and the one that loaded the library: threads that were started at
 * another number are not here. */
unsigned gy_thread_forks(void);
/* No thread waits for the calling thread: when it is woken, it does not take the CPU from the thread that
 * wakes it. */
void gy_thread_be_background(void);

/* So much later than its time the system may let the calling thread's timed sleeps end.  Returns what it was;
 * where the system refuses to tell or to change it, it stays as it is. */
unsigned long gy_thread_set_slack(unsigned long ns);

/* From now on other threads wait for the calling one, as for the dispatcher thread, so it must not wait for
 * what they do; false: no longer. */
void gy_thread_serve(bool serves);
bool gy_thread_is_serving(void);

/* The name given to gy_thread_start(); NULL in a thread of the application. */
const char *gy_thread_name(void);

/* Tell the core that the caller spins. */
static inline void gy_cpu_relax(void)
{
#if defined(__x86_64__)
    __builtin_ia32_pause();
#elif defined(__aarch64__)
    __asm__ volatile("yield");
#endif
}

/* Give the core away if the process has so few cores that spinning threads could keep those that they wait
 * for from running. */
void gy_spin_rest(void);

/* Pause between two looks of a thread that will sleep in the end; `round` counts the looks. */
static inline void gy_spin(uint32_t round)
{
    gy_cpu_relax();
    if (round % 32 == 31) {
        gy_spin_rest();
    }
}

#endif
