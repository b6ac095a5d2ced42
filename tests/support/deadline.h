/* SPDX-License-Identifier: MIT */
/* A test that waits says what it waits for, and has an end when that does not come: the program prints the
 * reason and ends with status 1, since a test that hangs says nothing.  deadline.c is part of every C test.
 *
 * It also looks after tests that have failed: CMocka shows the reason only after the test's teardown, which
 * may hang or crash then.  So the reason is printed at once if the teardown takes too long, or if the
 * assertion failed on a thread that CMocka cannot leave. */
#ifndef TESTS_SUPPORT_DEADLINE_H
#define TESTS_SUPPORT_DEADLINE_H

#include <sched.h>
#include <stdbool.h>

/* From here to deadline_end() no more than so many seconds may pass: $GANTRY_TEST_DEADLINE, or 240.  A
 * second begin() starts the time again.  `what` is a static text; in a message it follows "waits for". */
void deadline_begin(const char *what);
void deadline_end(void);

/* Wait until `condition` holds; `what` describes it. */
#define deadline_await(condition, what) \
    do {                                \
        deadline_begin(what);           \
        while (!(condition)) {          \
            sched_yield();              \
        }                               \
        deadline_end();                 \
    } while (0)

#endif
