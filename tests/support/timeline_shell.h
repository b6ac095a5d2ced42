/* SPDX-License-Identifier: MIT */
/* A renderer in another process, which signals a timeline file (emulator/timeline_file.h).  It is a
 * shell, because the thread sanitizer does not support forking a process that has threads and an allocator
 * of its own. */
#ifndef TESTS_SUPPORT_TIMELINE_SHELL_H
#define TESTS_SUPPORT_TIMELINE_SHELL_H

#include "emulator/timeline_file.h"

#include <spawn.h>
#include <stddef.h>
#include <stdio.h>
#include <sys/types.h>

extern char **environ;

/* Start a process that signals 1 to `count`, less than 8, on the timeline behind `fd`, and then does
 * `what`.  The process inherits the descriptor, so it must not be closed on exec.  Returns 0 when the
 * process cannot be started. */
static inline pid_t timeline_shell_start(int fd, unsigned count, const char *what)
{
    char script[512];
    size_t length = 0;
    for (unsigned value = 1; value <= count; value++) {
        length +=
            (size_t)snprintf(script + length, sizeof(script) - length,
                             "printf '\\00%u' | dd of=/proc/self/fd/%d bs=1 seek=%zu conv=notrunc 2>&-; ",
                             value, fd, offsetof(struct gy_timeline_file, value));
    }
    (void)snprintf(script + length, sizeof(script) - length, "%s", what);
    char *arguments[] = {(char[]){"sh"}, (char[]){"-c"}, script, NULL};
    pid_t child = 0;
    return posix_spawnp(&child, "sh", NULL, NULL, arguments, environ) == 0 ? child : 0;
}

#endif
