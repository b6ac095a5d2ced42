/* SPDX-License-Identifier: MIT */
/* Checks for people who look for a mistake in their program, and which of these checks are on.
 * $GANTRY_CHECK is "1" for the usual ones, or names of parts with commas between them.
 * docs/guides/checking.md says what each finds. */
#ifndef BASE_CHECKING_H
#define BASE_CHECKING_H

#include <stdatomic.h>
#include <stdbool.h>
#include <stdint.h>

/* X(name, what $GANTRY_CHECK calls it) */
#define GY_CHECKS(X)              \
    X(HANDLES, "handles")         \
    X(FREES, "frees")             \
    X(GUARDS, "guards")           \
    X(BOUNDS, "bounds")           \
    X(COMPLETIONS, "completions") \
    X(FORKS, "forks")             \
    X(STABLE, "stable")           \
    X(ARGUMENTS, "arguments")     \
    X(EDGES, "edges")             \
    X(NEEDLESS, "needless") X(UNWRITTEN, "unwritten") X(NEVER_READ, "unread") X(MALLOC, "malloc")

enum gy_check_number {
#define GY_CHECK_NUMBER(name, text) GY_CHECK_NUMBER_##name,
    GY_CHECKS(GY_CHECK_NUMBER)
#undef GY_CHECK_NUMBER
};

/* Bits, to be or-ed. */
enum gy_check_part {
#define GY_CHECK_PART(name, text) GY_CHECK_##name = 1 << GY_CHECK_NUMBER_##name,
    GY_CHECKS(GY_CHECK_PART)
#undef GY_CHECK_PART
};

/* Those of the proof that no edge is missing; each but EDGES turns that on, too. */
#define GY_CHECKS_OF_PROOF                                                                      \
    ((unsigned)(GY_CHECK_EDGES | GY_CHECK_NEEDLESS | GY_CHECK_UNWRITTEN | GY_CHECK_NEVER_READ | \
                GY_CHECK_MALLOC))
#define GY_CHECKS_UNREAD (1u << 31)
extern _Atomic(unsigned) gy_checks; /* atomic; parts that are on, or GY_CHECKS_UNREAD */

/* Read the environment again, as a context or a heap is created.  Returns the parts that are on. */
unsigned gy_checks_read(void);

/* Is any of these parts on?  May be called anywhere, and costs one load. */
static inline bool gy_check_is_on(unsigned parts)
{
    unsigned on = atomic_load_explicit(&gy_checks, memory_order_relaxed);
    if (__builtin_expect((on & (parts | GY_CHECKS_UNREAD)) == 0, 1)) {
        return false;
    }
    return ((on == GY_CHECKS_UNREAD ? gy_checks_read() : on) & parts) != 0;
}

/* Is it the first time for this pair, or for one that hashes like it?  So what is found again and again is
 * reported once. */
bool gy_check_is_first(uintptr_t a, uintptr_t b);

#endif
