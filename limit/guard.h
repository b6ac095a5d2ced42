/* SPDX-License-Identifier: MIT */
/* A job's file may be truncated by whoever may write to it, and then touching its memory is a SIGBUS.  The
 * guard puts memory of the process's own in its place: the process goes on with a budget of its own.
 *
 * It is a handler of SIGBUS, set only where the program has none when it launches first.  All other SIGBUS
 * end the program as they would without it.  A program that sets a handler of its own later has no guard. */
#ifndef LIMIT_GUARD_H
#define LIMIT_GUARD_H

#include <stdbool.h>
#include <stddef.h>

/* Guard this memory, too; one at a time, and GY_GUARD_MOST at most. */
enum { GY_GUARD_MOST = 2 };
void gy_guard_begin(void *memory, size_t bytes);
/* A forked child has not what its parent had. */
void gy_guard_forget(void);
/* Has the memory been replaced? */
bool gy_guard_has_replaced(void);

#endif
