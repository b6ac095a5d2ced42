/* SPDX-License-Identifier: MIT */
/* What a process has to say on stderr. */
#include "limit/job.h"

#include "limit/old_glibc.h"

#include <errno.h>
#include <pthread.h>
#include <signal.h>
#include <stdarg.h>
#include <stdio.h>
#include <time.h>
#include <unistd.h>

/* Nobody may read stderr any more, which is not the program's fault: SIGPIPE is taken back. */
static void write_line(const char *line, size_t bytes)
{
    const struct timespec at_once = {0, 0};
    sigset_t pipe, before, pending;
    sigemptyset(&pipe);
    sigaddset(&pipe, SIGPIPE);
    (void)pthread_sigmask(SIG_BLOCK, &pipe, &before);
    const bool was_pending = sigpending(&pending) == 0 && sigismember(&pending, SIGPIPE) == 1;
    if (write(STDERR_FILENO, line, bytes) < 0 && errno == EPIPE && !was_pending) {
        while (sigtimedwait(&pipe, NULL, &at_once) < 0 && errno == EINTR) {
        }
    }
    (void)pthread_sigmask(SIG_SETMASK, &before, NULL);
}

void gy_job_tell(const char *format, ...)
{
    char line[512];
    const int error = errno;
    int used = snprintf(line, sizeof(line), "gantry limit: ");
    va_list args;
    va_start(args, format);
    used += vsnprintf(line + used, sizeof(line) - (size_t)used - 1, format, args);
    va_end(args);
    used = used < (int)sizeof(line) - 1 ? used : (int)sizeof(line) - 2;
    line[used] = '\n';
    write_line(line, (size_t)used + 1);
    errno = error;
}
