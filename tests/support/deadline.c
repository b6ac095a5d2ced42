/* SPDX-License-Identifier: MIT */
#include "tests/support/deadline.h"

#include "base/status.h"

#include <dlfcn.h>
#include <pthread.h>
#include <signal.h>
#include <stdarg.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

enum { SECONDS = 240, TEARDOWN_SECONDS = 60 };

static const char *_Atomic waits_for; /* atomic; only the main thread writes it */
static char said[4096]; /* what CMocka was told about a failure, to be printed after the teardown */
static timer_t timer;
static bool has_timer;

static void put(const char *text)
{
    ssize_t written = write(STDERR_FILENO, text, strlen(text));
    (void)written; /* there is nobody to inform */
}

static void give_up(void)
{
    put(said);
    _exit(1);
}

static void on_time(int signal)
{
    (void)signal;
    put("\ndeadline: waited too long for ");
    put(atomic_load(&waits_for));
    put("\n");
    give_up();
}

#ifdef __SANITIZE_THREAD__
/* The C library's own function: the thread sanitizer's delays signals for a thread that only computes. */
int __sigaction(int signal, const struct sigaction *action, struct sigaction *before);
#define sigaction_at_once __sigaction
#else
#define sigaction_at_once sigaction
#endif

static void make_timer(void)
{
    struct sigevent event = {.sigev_notify = SIGEV_SIGNAL, .sigev_signo = SIGRTMAX - 1};
    struct sigaction action = {.sa_handler = on_time};
    has_timer = sigaction_at_once(SIGRTMAX - 1, &action, NULL) == 0 &&
                timer_create(CLOCK_MONOTONIC, &event, &timer) == 0;
}

/* 0: none is running.  Several threads may wait at the same time. */
static void set_timer(long seconds)
{
    static pthread_once_t once = PTHREAD_ONCE_INIT;
    struct itimerspec spec = {.it_value.tv_sec = seconds};
    (void)pthread_once(&once, make_timer);
    if (has_timer) {
        (void)timer_settime(timer, 0, &spec, NULL);
    }
}

static long seconds_given(long otherwise)
{
    const char *given = getenv("GANTRY_TEST_DEADLINE");
    long seconds = given != NULL ? strtol(given, NULL, 10) : 0;
    return seconds > 0 ? seconds : otherwise;
}

void deadline_begin(const char *what)
{
    atomic_store(&waits_for, what);
    set_timer(seconds_given(SECONDS));
}

/* Between waits, the test as a whole must go on, if a time was set for it. */
static void begin_test(void)
{
    atomic_store(&waits_for, "the test to get on");
    set_timer(seconds_given(0));
}

void deadline_end(void)
{
    begin_test();
}

/* ---- failures ------------------------------------------------------------------------------ */

/* CMocka calls these functions through its own public symbols, so that ours are found first.  If a version
 * of CMocka does not, only the additions of this file are lost. */
void cm_print_error(const char *format, ...) GANTRY_PRINTF(1, 2);
void print_message(const char *format, ...) GANTRY_PRINTF(1, 2);
void vprint_message(const char *format, va_list args) GANTRY_PRINTF(1, 0);

/* An assertion has failed, and the test is about to be left for its teardown. */
void cm_print_error(const char *format, ...)
{
    void (*next)(const char *, ...) = NULL;
    char text[2048];
    va_list args;
    va_start(args, format);
    vsnprintf(text, sizeof(text), format, args);
    va_end(args);
    strncat(said, text, sizeof(said) - strlen(said) - 1);
    if (getpid() != gettid()) {
        put("\nan assertion failed on a thread of its own, where CMocka's do not work\n");
        give_up();
    }
    gy_log_leave();
    atomic_store(&waits_for, "the teardown of a failed test");
    set_timer(seconds_given(TEARDOWN_SECONDS));
    *(void **)&next = dlsym(RTLD_NEXT, "cm_print_error");
    if (next != NULL) {
        next("%s", text);
    }
}

/* CMocka reports by this call that a test begins, or how it ended. */
void print_message(const char *format, ...)
{
    va_list args;
    if (strncmp(format, "[ RUN", 5) == 0) {
        begin_test();
    } else if (strncmp(format, "[  ", 3) == 0) {
        said[0] = '\0';
        set_timer(0);
    }
    va_start(args, format);
    vprint_message(format, args);
    va_end(args);
}
