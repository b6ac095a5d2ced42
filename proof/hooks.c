/* SPDX-License-Identifier: MIT */
/* The functions that a compiler calls at each access of code that it compiles with -fsanitize=thread: ours in
 * place of the sanitizer's runtime, which must not be linked.  Code of no task, and addresses that are not
 * watched, cost a load and a comparison.
 *
 * Stacks, thread-local variables and memory that a block shares are not watched: they are nobody's. */
#include "proof/marks.h"
#include "proof/shadow.h"

#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>
#include <string.h>

#define HOOK __attribute__((visibility("default")))

/* Most of what is watched is touched again by the work that has touched it, a cell at a time: that takes no
 * lock.  Bytes that the shadow cannot tell so are left to gy_shadow_note(). */
static __attribute__((noinline)) void watched_access(uintptr_t at, unsigned bytes, unsigned touch,
                                                     const void *place)
{
    struct gy_access *access = gy_access_now;
    if (access == NULL) {
        if (gy_marks_kept()) {
            gy_shadow_note(NULL, at, bytes, touch);
        }
        return;
    }
    const struct gy_cell *cell = gy_cell_at(at, gy_watched_kinds(access));
    if (cell == NULL) {
        return;
    }
    const unsigned in_cell = (unsigned)at & 3;
    if (in_cell + bytes <= 4) {
        if (gy_shadow_is_noted(access, cell, ((1u << bytes) - 1) << in_cell, touch)) {
            return;
        }
    } else if (bytes == 8 && in_cell == 0 && gy_shadow_is_noted(access, cell, 15, touch) &&
               gy_shadow_is_noted(access, cell + 1, 15, touch)) {
        return;
    }
    access->place = place;
    gy_shadow_note(access, at, bytes, touch);
}

/* Most accesses are to nothing that is watched: those are over here. */
static inline void access_from(const void *address, unsigned bytes, unsigned touch, const void *place)
{
    if (__builtin_expect(gy_may_be_watched((uintptr_t)address), 0)) {
        watched_access((uintptr_t)address, bytes, touch, place);
    }
}
/* No range has watched bytes in its middle alone. */
static inline void range_from(const void *address, size_t bytes, unsigned touch, const void *place)
{
    const uintptr_t at = (uintptr_t)address;
    if (gy_may_be_watched(at) || gy_may_be_watched(at + bytes)) {
        gy_shadow_touch(address, bytes, touch, place);
    }
}
/* From where the hook was called; a macro, since each hook is a function of its own. */
#define access_of(address, bytes, touch) access_from(address, bytes, touch, __builtin_return_address(0))
#define touch_range(address, bytes, touch) range_from(address, bytes, touch, __builtin_return_address(0))

/* Compilers know the names; there is no header. */
#define PLAIN(name, bytes, touch)         \
    HOOK void name(void *address);        \
    void name(void *address)              \
    {                                     \
        access_of(address, bytes, touch); \
    }
#define PLAINS(bytes)                                                    \
    PLAIN(__tsan_read##bytes, bytes, GY_TOUCH_READ)                      \
    PLAIN(__tsan_write##bytes, bytes, GY_TOUCH_WRITE)                    \
    PLAIN(__tsan_unaligned_read##bytes, bytes, GY_TOUCH_READ)            \
    PLAIN(__tsan_unaligned_write##bytes, bytes, GY_TOUCH_WRITE)          \
    PLAIN(__tsan_volatile_read##bytes, bytes, GY_TOUCH_READ)             \
    PLAIN(__tsan_volatile_write##bytes, bytes, GY_TOUCH_WRITE)           \
    PLAIN(__tsan_unaligned_volatile_read##bytes, bytes, GY_TOUCH_READ)   \
    PLAIN(__tsan_unaligned_volatile_write##bytes, bytes, GY_TOUCH_WRITE) \
    PLAIN(__tsan_read_write##bytes, bytes, GY_TOUCH_CHANGE)              \
    PLAIN(__tsan_unaligned_read_write##bytes, bytes, GY_TOUCH_CHANGE)
PLAINS(1)
PLAINS(2)
PLAINS(4)
PLAINS(8)
PLAINS(16)

#define RANGE(name, touch)                              \
    HOOK void name(void *address, unsigned long bytes); \
    void name(void *address, unsigned long bytes)       \
    {                                                   \
        touch_range(address, bytes, touch);             \
    }
RANGE(__tsan_read_range, GY_TOUCH_READ)
RANGE(__tsan_write_range, GY_TOUCH_WRITE)

/* ---- what the sanitizer needs and the proof does not
 * --------------------------------------------------------- */

HOOK void __tsan_init(void);
void __tsan_init(void)
{
}
/* A kernel that does not come here is not instrumented. */
HOOK void __tsan_func_entry(void *caller);
void __tsan_func_entry(void *caller)
{
    struct gy_access *access = gy_access_now;
    (void)caller;
    if (access != NULL) {
        access->touches++;
    }
}
HOOK void __tsan_func_exit(void);
void __tsan_func_exit(void)
{
}
/* Objects of C++ that have virtual functions. */
HOOK void __tsan_vptr_update(void **vptr, void *value);
void __tsan_vptr_update(void **vptr, void *value)
{
    (void)value;
    access_of(vptr, sizeof(*vptr), GY_TOUCH_WRITE);
}
HOOK void __tsan_vptr_read(void **vptr);
void __tsan_vptr_read(void **vptr)
{
    access_of(vptr, sizeof(*vptr), GY_TOUCH_READ);
}

/* ---- functions of the C library that read and write what they are given -----------------------------------
 *
 * clang calls the first names.  gcc calls the C library's: the linker turns those calls, also of code that is
 * not instrumented, to the second ones (CMakeLists.txt). */

#define MEMORY_CALL(type, name, parameters, call, ...) \
    HOOK type __tsan_##name parameters;                \
    type __tsan_##name parameters                      \
    {                                                  \
        __VA_ARGS__;                                   \
        return call;                                   \
    }                                                  \
    HOOK type __wrap_##name parameters;                \
    type __wrap_##name parameters                      \
    {                                                  \
        __VA_ARGS__;                                   \
        return call;                                   \
    }
MEMORY_CALL(void *, memcpy, (void *to, const void *from, size_t bytes), memcpy(to, from, bytes),
            touch_range(from, bytes, GY_TOUCH_READ), touch_range(to, bytes, GY_TOUCH_WRITE))
MEMORY_CALL(void *, memmove, (void *to, const void *from, size_t bytes), memmove(to, from, bytes),
            touch_range(from, bytes, GY_TOUCH_READ), touch_range(to, bytes, GY_TOUCH_WRITE))
MEMORY_CALL(void *, memset, (void *to, int value, size_t bytes), memset(to, value, bytes),
            touch_range(to, bytes, GY_TOUCH_WRITE))

HOOK int __wrap_memcmp(const void *a, const void *b, size_t bytes);
int __wrap_memcmp(const void *a, const void *b, size_t bytes)
{
    touch_range(a, bytes, GY_TOUCH_READ);
    touch_range(b, bytes, GY_TOUCH_READ);
    return memcmp(a, b, bytes);
}
HOOK size_t __wrap_fread(void *to, size_t size, size_t count, FILE *file);
size_t __wrap_fread(void *to, size_t size, size_t count, FILE *file)
{
    touch_range(to, size * count, GY_TOUCH_WRITE);
    return fread(to, size, count, file);
}
HOOK size_t __wrap_fwrite(const void *from, size_t size, size_t count, FILE *file);
size_t __wrap_fwrite(const void *from, size_t size, size_t count, FILE *file)
{
    touch_range(from, size * count, GY_TOUCH_READ);
    return fwrite(from, size, count, file);
}

/* ---- atomics: sequentially consistent, whatever is asked for ----------------------------------------------
 */

HOOK void __tsan_atomic_thread_fence(int order);
void __tsan_atomic_thread_fence(int order)
{
    (void)order;
    __atomic_thread_fence(__ATOMIC_SEQ_CST);
}
HOOK void __tsan_atomic_signal_fence(int order);
void __tsan_atomic_signal_fence(int order)
{
    (void)order;
    __atomic_signal_fence(__ATOMIC_SEQ_CST);
}

#define CHANGE(bits, type, name)                                                      \
    HOOK type __tsan_atomic##bits##_##name(volatile type *at, type value, int order); \
    type __tsan_atomic##bits##_##name(volatile type *at, type value, int order)       \
    {                                                                                 \
        (void)order;                                                                  \
        access_of((const void *)at, sizeof(type), GY_TOUCH_CHANGE | GY_TOUCH_ATOMIC); \
        return __atomic_##name(at, value, __ATOMIC_SEQ_CST);                          \
    }
#define ATOMICS(bits, type)                                                                                \
    HOOK type __tsan_atomic##bits##_load(const volatile type *at, int order);                              \
    type __tsan_atomic##bits##_load(const volatile type *at, int order)                                    \
    {                                                                                                      \
        (void)order;                                                                                       \
        access_of((const void *)at, sizeof(type), GY_TOUCH_ATOMIC);                                        \
        return __atomic_load_n(at, __ATOMIC_SEQ_CST);                                                      \
    }                                                                                                      \
    HOOK void __tsan_atomic##bits##_store(volatile type *at, type value, int order);                       \
    void __tsan_atomic##bits##_store(volatile type *at, type value, int order)                             \
    {                                                                                                      \
        (void)order;                                                                                       \
        access_of((const void *)at, sizeof(type), GY_TOUCH_WRITE | GY_TOUCH_ATOMIC);                       \
        __atomic_store_n(at, value, __ATOMIC_SEQ_CST);                                                     \
    }                                                                                                      \
    HOOK type __tsan_atomic##bits##_exchange(volatile type *at, type value, int order);                    \
    type __tsan_atomic##bits##_exchange(volatile type *at, type value, int order)                          \
    {                                                                                                      \
        (void)order;                                                                                       \
        access_of((const void *)at, sizeof(type), GY_TOUCH_CHANGE | GY_TOUCH_ATOMIC);                      \
        return __atomic_exchange_n(at, value, __ATOMIC_SEQ_CST);                                           \
    }                                                                                                      \
    CHANGE(bits, type, fetch_add)                                                                          \
    CHANGE(bits, type, fetch_sub)                                                                          \
    CHANGE(bits, type, fetch_and)                                                                          \
    CHANGE(bits, type, fetch_or)                                                                           \
    CHANGE(bits, type, fetch_xor)                                                                          \
    CHANGE(bits, type, fetch_nand)                                                                         \
    HOOK int __tsan_atomic##bits##_compare_exchange_strong(volatile type *at, type *expected, type wanted, \
                                                           int order, int failed);                         \
    int __tsan_atomic##bits##_compare_exchange_strong(volatile type *at, type *expected, type wanted,      \
                                                      int order, int failed)                               \
    {                                                                                                      \
        (void)order;                                                                                       \
        (void)failed;                                                                                      \
        access_of((const void *)at, sizeof(type), GY_TOUCH_CHANGE | GY_TOUCH_ATOMIC);                      \
        return __atomic_compare_exchange_n(at, expected, wanted, 0, __ATOMIC_SEQ_CST, __ATOMIC_SEQ_CST);   \
    }                                                                                                      \
    HOOK int __tsan_atomic##bits##_compare_exchange_weak(volatile type *at, type *expected, type wanted,   \
                                                         int order, int failed);                           \
    int __tsan_atomic##bits##_compare_exchange_weak(volatile type *at, type *expected, type wanted,        \
                                                    int order, int failed)                                 \
    {                                                                                                      \
        return __tsan_atomic##bits##_compare_exchange_strong(at, expected, wanted, order, failed);         \
    }                                                                                                      \
    HOOK type __tsan_atomic##bits##_compare_exchange_val(volatile type *at, type expected, type wanted,    \
                                                         int order, int failed);                           \
    type __tsan_atomic##bits##_compare_exchange_val(volatile type *at, type expected, type wanted,         \
                                                    int order, int failed)                                 \
    {                                                                                                      \
        (void)__tsan_atomic##bits##_compare_exchange_strong(at, &expected, wanted, order, failed);         \
        return expected;                                                                                   \
    }
ATOMICS(8, uint8_t)
ATOMICS(16, uint16_t)
ATOMICS(32, uint32_t)
ATOMICS(64, uint64_t)
