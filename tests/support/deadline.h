/* A test that waits says for what, and how it ends when that does not come: the program prints the reason and
 * ends with status 1, since a test that hangs tells nobody anything.
 *
 * deadline.c is part of every C test.  Besides it looks after tests that have failed: CMocka shows why only
 * after their teardown, which may hang or crash then.  So what it was told is printed at once if the teardown
 * takes longer than it may, or if the assertion failed on a thread that CMocka cannot leave. */
#ifndef TESTS_SUPPORT_DEADLINE_H
#define TESTS_SUPPORT_DEADLINE_H

#include <sched.h>
#include <stdbool.h>

/* From here to deadline_end() no more than so many seconds may pass: $GANTRY_TEST_DEADLINE, or 240.  A second
 * begin() begins anew.  `what` is static; in a message it follows "waits for". */
void deadline_begin(const char *what);
void deadline_end(void);

/* Wait until `condition` holds, which is `what`. */
#define deadline_await(condition, what) \
    do {                                \
        deadline_begin(what);           \
        while (!(condition)) {          \
            sched_yield();              \
        }                               \
        deadline_end();                 \
    } while (0)

#endif
