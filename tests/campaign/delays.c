/* SPDX-License-Identifier: MIT */
/* A library for LD_PRELOAD that delays threads at random where they meet others: around locks and
 * futexes, also those of conditions, at yields, and when one starts another.  What depends on who comes first
 * fails sooner.
 *
 * $GANTRY_TEST_DELAYS: one in so many of these calls is delayed; 0 or nothing: none.  A delay is up to 0.3 ms
 * long, every sixteenth up to 8 ms, which lets everybody else overtake. */
#include <dlfcn.h>
#include <errno.h>
#include <pthread.h>
#include <sched.h>
#include <stdarg.h>
#include <stdbool.h>
#include <stdint.h>
#include <stdlib.h>
#include <sys/syscall.h>
#include <time.h>
#include <unistd.h>

#define EXPORT __attribute__((visibility("default")))
#define SHORT_NS 300000
#define LONG_NS 8000000
#define LONG_PERIOD 16
#define START_CHANCES 30 /* a delay on each side when a thread starts */

/* The functions that these replace; they are found before there is a second thread. */
static struct {
    unsigned long period; /* from $GANTRY_TEST_DELAYS */
    int (*lock)(pthread_mutex_t *mutex);
    int (*unlock)(pthread_mutex_t *mutex);
    int (*create)(pthread_t *thread, const pthread_attr_t *attributes, void *(*body)(void *), void *arg);
    int (*yield)(void);
    long (*call)(long number, ...);
} next;

static _Thread_local uint64_t state; /* state of the random numbers, 0: they have not begun */

/* Other libraries may call us before our constructor has run. */
__attribute__((constructor)) static void find(void)
{
    if (next.call != NULL) {
        return;
    }
    const char *period = getenv("GANTRY_TEST_DELAYS");
    next.period = period != NULL ? strtoul(period, NULL, 10) : 0;
    *(void **)&next.lock = dlsym(RTLD_NEXT, "pthread_mutex_lock");
    *(void **)&next.unlock = dlsym(RTLD_NEXT, "pthread_mutex_unlock");
    *(void **)&next.create = dlsym(RTLD_NEXT, "pthread_create");
    *(void **)&next.yield = dlsym(RTLD_NEXT, "sched_yield");
    *(void **)&next.call = dlsym(RTLD_NEXT, "syscall");
}

/* xorshift64, after Marsaglia (2003) */
static uint64_t draw(void)
{
    if (state == 0) {
        struct timespec now;
        clock_gettime(CLOCK_MONOTONIC, &now);
        state = ((uint64_t)now.tv_nsec << 32 ^ (uint64_t)getpid() << 16 ^ (uintptr_t)&state) | 1;
    }
    state ^= state << 13;
    state ^= state >> 7;
    state ^= state << 17;
    return state;
}

/* This does not use nanosleep(), which is a cancellation point. */
static void delay(int chances)
{
    find();
    for (int i = 0; i < chances && next.period != 0; i++) {
        if (draw() % next.period == 0) {
            int before = errno;
            bool is_long = draw() % LONG_PERIOD == 0;
            struct timespec time = {.tv_nsec = (long)(draw() % (is_long ? LONG_NS : SHORT_NS))};
            next.call(SYS_nanosleep, &time, NULL);
            errno = before;
        }
    }
}

EXPORT int pthread_mutex_lock(pthread_mutex_t *mutex)
{
    delay(1);
    return next.lock(mutex);
}

EXPORT int pthread_mutex_unlock(pthread_mutex_t *mutex)
{
    find();
    int result = next.unlock(mutex);
    delay(1);
    return result;
}

EXPORT int sched_yield(void)
{
    delay(1);
    return next.yield();
}

EXPORT long syscall(long number, ...)
{
    va_list arguments;
    long a[6];
    va_start(arguments, number);
    for (int i = 0; i < 6; i++) {
        a[i] = va_arg(arguments, long);
    }
    va_end(arguments);
    find();
    if (number != SYS_futex) {
        return next.call(number, a[0], a[1], a[2], a[3], a[4], a[5]);
    }
    delay(1);
    long result = next.call(number, a[0], a[1], a[2], a[3], a[4], a[5]);
    delay(1);
    return result;
}

struct start {
    void *(*body)(void *);
    void *arg;
};

static void *run(void *arg)
{
    struct start start = *(struct start *)arg;
    free(arg);
    delay(START_CHANCES);
    return start.body(start.arg);
}

EXPORT int pthread_create(pthread_t *thread, const pthread_attr_t *attributes, void *(*body)(void *),
                          void *arg)
{
    find();
    struct start *start = malloc(sizeof(*start));
    if (start == NULL) {
        return EAGAIN;
    }
    *start = (struct start){body, arg};
    int result = next.create(thread, attributes, run, start);
    if (result != 0) {
        free(start);
    }
    delay(START_CHANCES);
    return result;
}
