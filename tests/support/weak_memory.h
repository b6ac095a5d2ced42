/* SPDX-License-Identifier: MIT */
/* All orders in which a few threads can access shared memory, when the processor keeps stores back.
 *
 * A source file that is compiled behind this header has its atomic accesses simulated: each thread has a
 * store buffer.  A store that is not sequentially consistent goes there and reaches memory some time later:
 * in the order of the stores to one address, and a release after all that came before it, but else in any
 * order.  A thread sees its own stores.  A sequentially consistent store and every read-modify-write empty
 * the buffer first.  (That is x86, and what other processors do with stores beyond it; loads stay in their
 * order.)
 *
 * weak_explore() runs a scene's threads in all interleavings and with all ways to empty the buffers that take
 * at most so many decisions against the usual course, which is that a thread goes on and its stores are late.
 * Most mistakes need one or two.
 *
 * Include the headers that use atomics for other things first: the macros are replaced from here on. */
#ifndef TESTS_SUPPORT_WEAK_MEMORY_H
#define TESTS_SUPPORT_WEAK_MEMORY_H

#include <stdatomic.h>
#include <stdbool.h>
#include <stdint.h>

struct weak_scene {
    void (*begin)(void);      /* memory as the threads find it; not simulated */
    void (*threads[3])(void); /* unused ones are NULL */
    /* called after all threads have ended; NULL: the result is right, else a text that says what is
     * wrong. Not simulated */
    const char *(*check)(void);
};

/* Returns NULL, or the text of the first wrong execution; writes how many executions there were. */
const char *weak_explore(const struct weak_scene *scene, unsigned decisions, uint64_t *out_executions);

uintptr_t weak_load(const volatile void *address);
void weak_store(volatile void *address, uintptr_t value, memory_order order);
bool weak_exchange_if(volatile void *address, void *expected, uintptr_t value);

#undef atomic_load
#undef atomic_load_explicit
#undef atomic_store
#undef atomic_store_explicit
#undef atomic_compare_exchange_strong
#undef atomic_init
#define atomic_load_explicit(p, order) ((void)(order), (__typeof__((void)0, *(p)))weak_load(p))
#define atomic_load(p) atomic_load_explicit(p, memory_order_seq_cst)
#define atomic_store_explicit(p, value, order) weak_store(p, (uintptr_t)(value), order)
#define atomic_store(p, value) atomic_store_explicit(p, value, memory_order_seq_cst)
#define atomic_init(p, value) atomic_store_explicit(p, value, memory_order_relaxed)
#define atomic_compare_exchange_strong(p, expected, value) weak_exchange_if(p, expected, (uintptr_t)(value))

#endif
