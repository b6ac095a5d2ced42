/* SPDX-License-Identifier: MIT */
/* Stacks to switch between within one OS thread.  They need no guard: a fiber is made, used and destroyed on
 * one OS thread. */
#ifndef EMULATOR_FIBER_H
#define EMULATOR_FIBER_H

#include <stddef.h>

#if defined(__x86_64__) && !defined(GY_EMU_UCONTEXT)
#define GY_FIBER_UCONTEXT 0
#else
#define GY_FIBER_UCONTEXT 1
#include <ucontext.h>
#endif

struct gy_fiber {
#if GY_FIBER_UCONTEXT
    ucontext_t context;
#else
    void *stack_pointer; /* valid while it is not running */
#endif
    void (*entry)(void);
    char *mapping; /* guard page, stack, and the object that this struct begins; NULL: it is an OS thread's
                      own stack */
    size_t mapping_bytes;
    void *stack; /* its lower end, which is above the guard page */
    size_t stack_bytes;
    void *fake_stack; /* AddressSanitizer's */
    void *tsan;       /* ThreadSanitizer's */
};

/* Make a fiber that starts at `entry` when it is switched to.  `entry` calls gy_fiber_entered() first and
 * never returns.  The object has `bytes` bytes, which are zero after the struct gy_fiber that it begins with;
 * it lies at the upper end of its own stack.  NULL: out of memory. */
struct gy_fiber *gy_fiber_create(size_t bytes, void (*entry)(void));
void gy_fiber_destroy(struct gy_fiber *fiber);

/* Forget the state of the fiber; it starts again at its entry. */
void gy_fiber_rewind(struct gy_fiber *fiber);

/* Let `fiber` (zeroed) stand for the stack the calling OS thread was started on. */
void gy_fiber_adopt_thread(struct gy_fiber *fiber);

/* Leave `from`, which is running, and continue `to`; returns when something switches to `from` again. */
void gy_fiber_switch(struct gy_fiber *from, struct gy_fiber *to);
void gy_fiber_entered(void);

#endif
