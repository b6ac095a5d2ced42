/* SPDX-License-Identifier: MIT */
/* What a compiler calls in code that it instruments, for the oracle. */
#include "tests/proof/edge_oracle.h"

#include <stdio.h>
#include <string.h>

#define HOOK __attribute__((visibility("default")))
/* A function that compilers know: there is no header. */
#define DEFINE(type, name, parameters) \
    HOOK type name parameters;         \
    type name parameters

#define ACCESS(name, bytes, how)            \
    DEFINE(void, __tsan_##name, (void *at)) \
    {                                       \
        oracle_touch(at, bytes, how);       \
    }
#define ACCESSES(bytes)                                 \
    ACCESS(read##bytes, bytes, ORACLE_READ)             \
    ACCESS(write##bytes, bytes, ORACLE_WRITE)           \
    ACCESS(unaligned_read##bytes, bytes, ORACLE_READ)   \
    ACCESS(unaligned_write##bytes, bytes, ORACLE_WRITE) \
    ACCESS(volatile_read##bytes, bytes, ORACLE_READ)    \
    ACCESS(volatile_write##bytes, bytes, ORACLE_WRITE)  \
    ACCESS(read_write##bytes, bytes, ORACLE_WRITE)      \
    ACCESS(unaligned_read_write##bytes, bytes, ORACLE_WRITE)
ACCESSES(1)
ACCESSES(2)
ACCESSES(4)
ACCESSES(8)
ACCESSES(16)
ACCESS(vptr_read, 8, ORACLE_READ)

DEFINE(void, __tsan_vptr_update, (void *at, void *value))
{
    (void)value;
    oracle_touch(at, 8, ORACLE_WRITE);
}
DEFINE(void, __tsan_read_range, (void *at, unsigned long bytes))
{
    oracle_touch(at, bytes, ORACLE_READ);
}
DEFINE(void, __tsan_write_range, (void *at, unsigned long bytes))
{
    oracle_touch(at, bytes, ORACLE_WRITE);
}

/* The C library's, as clang calls them and as the linker turns calls of them. */
#define COPY(name, function)                                         \
    DEFINE(void *, name, (void *to, const void *from, size_t bytes)) \
    {                                                                \
        oracle_touch(from, bytes, ORACLE_READ);                      \
        oracle_touch(to, bytes, ORACLE_WRITE);                       \
        return function(to, from, bytes);                            \
    }
COPY(__tsan_memcpy, memcpy)
COPY(__tsan_memmove, memmove)
COPY(__wrap_memcpy, memcpy)
COPY(__wrap_memmove, memmove)
#define FILL(name)                                            \
    DEFINE(void *, name, (void *to, int value, size_t bytes)) \
    {                                                         \
        oracle_touch(to, bytes, ORACLE_WRITE);                \
        return memset(to, value, bytes);                      \
    }
FILL(__tsan_memset)
FILL(__wrap_memset)
DEFINE(int, __wrap_memcmp, (const void *a, const void *b, size_t bytes))
{
    oracle_touch(a, bytes, ORACLE_READ);
    oracle_touch(b, bytes, ORACLE_READ);
    return memcmp(a, b, bytes);
}
DEFINE(size_t, __wrap_fread, (void *to, size_t size, size_t count, FILE *file))
{
    oracle_touch(to, size * count, ORACLE_WRITE);
    return fread(to, size, count, file);
}
DEFINE(size_t, __wrap_fwrite, (const void *from, size_t size, size_t count, FILE *file))
{
    oracle_touch(from, size * count, ORACLE_READ);
    return fwrite(from, size, count, file);
}

DEFINE(void, __tsan_init, (void))
{
}
DEFINE(void, __tsan_func_entry, (void *caller))
{
    (void)caller;
}
DEFINE(void, __tsan_func_exit, (void))
{
}
DEFINE(void, __tsan_atomic_thread_fence, (int order))
{
    (void)order;
    __atomic_thread_fence(__ATOMIC_SEQ_CST);
}
DEFINE(void, __tsan_atomic_signal_fence, (int order))
{
    (void)order;
    __atomic_signal_fence(__ATOMIC_SEQ_CST);
}

#define MODIFY(bits, type, name)                                                            \
    DEFINE(type, __tsan_atomic##bits##_##name, (volatile type * at, type value, int order)) \
    {                                                                                       \
        (void)order;                                                                        \
        oracle_touch((const void *)at, sizeof(type), ORACLE_ATOMIC_WRITE);                  \
        return __atomic_##name(at, value, __ATOMIC_SEQ_CST);                                \
    }
#define COMPARE(bits, type, name)                                                                        \
    DEFINE(int, __tsan_atomic##bits##_compare_exchange_##name,                                           \
           (volatile type * at, type * expected, type wanted, int order, int failed))                    \
    {                                                                                                    \
        (void)order;                                                                                     \
        (void)failed;                                                                                    \
        oracle_touch((const void *)at, sizeof(type), ORACLE_ATOMIC_WRITE);                               \
        return __atomic_compare_exchange_n(at, expected, wanted, 0, __ATOMIC_SEQ_CST, __ATOMIC_SEQ_CST); \
    }
#define ATOMIC(bits, type)                                                                         \
    DEFINE(type, __tsan_atomic##bits##_load, (const volatile type *at, int order))                 \
    {                                                                                              \
        (void)order;                                                                               \
        oracle_touch((const void *)at, sizeof(type), ORACLE_ATOMIC_READ);                          \
        return __atomic_load_n(at, __ATOMIC_SEQ_CST);                                              \
    }                                                                                              \
    DEFINE(void, __tsan_atomic##bits##_store, (volatile type * at, type value, int order))         \
    {                                                                                              \
        (void)order;                                                                               \
        oracle_touch((const void *)at, sizeof(type), ORACLE_ATOMIC_WRITE);                         \
        __atomic_store_n(at, value, __ATOMIC_SEQ_CST);                                             \
    }                                                                                              \
    DEFINE(type, __tsan_atomic##bits##_exchange, (volatile type * at, type value, int order))      \
    {                                                                                              \
        (void)order;                                                                               \
        oracle_touch((const void *)at, sizeof(type), ORACLE_ATOMIC_WRITE);                         \
        return __atomic_exchange_n(at, value, __ATOMIC_SEQ_CST);                                   \
    }                                                                                              \
    MODIFY(bits, type, fetch_add)                                                                  \
    MODIFY(bits, type, fetch_sub)                                                                  \
    MODIFY(bits, type, fetch_and)                                                                  \
    MODIFY(bits, type, fetch_or)                                                                   \
    MODIFY(bits, type, fetch_xor)                                                                  \
    MODIFY(bits, type, fetch_nand)                                                                 \
    COMPARE(bits, type, strong)                                                                    \
    COMPARE(bits, type, weak)                                                                      \
    DEFINE(type, __tsan_atomic##bits##_compare_exchange_val,                                       \
           (volatile type * at, type expected, type wanted, int order, int failed))                \
    {                                                                                              \
        (void)__tsan_atomic##bits##_compare_exchange_strong(at, &expected, wanted, order, failed); \
        return expected;                                                                           \
    }
ATOMIC(8, uint8_t)
ATOMIC(16, uint16_t)
ATOMIC(32, uint32_t)
ATOMIC(64, uint64_t)
