/* SPDX-License-Identifier: MIT */
/* Which handles are good.  With GANTRY_CHECK=handles in the environment every public function looks up the
 * handles that it is given before it touches what is behind them.  A handle that was destroyed, or is of
 * another kind, is refused by name.  Without the variable a look costs one predictable branch.
 *
 * While handles are checked, objects that were destroyed are kept for a while, the latest 256 of them or
 * 64 MiB, so that their addresses do not become those of new ones. */
#ifndef BASE_HANDLE_H
#define BASE_HANDLE_H

#include "base/hints.h"

#include <stdatomic.h>
#include <stdbool.h>
#include <stddef.h>

#define GY_HANDLE_KINDS(X)              \
    X(CONTEXT, "context")               \
    X(COPY_QUEUE, "copy queue")         \
    X(CPU_DISPATCHER, "CPU dispatcher") \
    X(DISPATCHER, "dispatcher")         \
    X(EXCHANGE, "exchange")             \
    X(FLEET, "fleet")                   \
    X(HEAP, "heap")                     \
    X(KERNEL, "kernel")                 \
    X(LAUNCH, "launch")                 \
    X(MODULE, "module")                 \
    X(PARTITION, "partition")           \
    X(PORT, "port")                     \
    X(PROFILE, "profile")               \
    X(RING, "ring")                     \
    X(SHARED_IMAGE, "shared image")     \
    X(SHARED_MEMORY, "shared memory")   \
    X(TASK, "task")                     \
    X(TASKMAN, "task manager")

enum gy_handle_kind {
#define GY_HANDLE_ENUM(name, text) GY_HANDLE_##name,
    GY_HANDLE_KINDS(GY_HANDLE_ENUM)
#undef GY_HANDLE_ENUM
};

enum gy_handle_checks { GY_HANDLES_UNDECIDED, GY_HANDLES_TRUSTED, GY_HANDLES_CHECKED };
extern atomic_int gy_handle_checks; /* atomic; decided once, by the first handle */

static inline bool gy_handles_are_checked(void)
{
    return __builtin_expect(
        atomic_load_explicit(&gy_handle_checks, memory_order_relaxed) == GY_HANDLES_CHECKED, 0);
}

/* A handle, or an array of `bytes` with handles `each` bytes apart, is good from now on. */
void gy_handle_born(enum gy_handle_kind kind, const void *handle, size_t bytes, size_t each);
/* The handle is not good any more; its memory stays the caller's. */
void gy_handle_died(const void *handle);
/* gy_handle_died(), then gy_free(memory), which is delayed while handles are checked.  NULL is ignored. */
void gy_handle_free(const void *handle, void *memory);
/* Free the memory of destroyed objects that is kept. */
void gy_handle_flush(void);
/* Blocks of host memory that are kept, and those of the bookkeeping about handles. */
long gy_handle_kept(void);

/* True: the handle is not good, and the thread's last error says why. */
bool gy_handle_is_refused(const void *handle, enum gy_handle_kind kind, const char *function);
/* Returns the handle if it is good or NULL.  A function that goes on with the returned handle keeps no copy
 * during the call, and so has no frame where handles are not checked. */
GY_COLD void *gy_handle_accepted(const void *handle, enum gy_handle_kind kind, const char *function,
                                 bool *is_refused);

/* At the head of public functions: GY_NEED(HEAP, heap) returns GANTRY_ERR_INVALID_ARGUMENT where the handle
 * is NULL or not good, GY_ACCEPT(HEAP, heap) only where it is not good.  The other macros return the given
 * value, or nothing.  The thread's last error says why. */
#define GY_NEED(kind, handle)                                                                 \
    do {                                                                                      \
        if (__builtin_expect((handle) == NULL, 0)) {                                          \
            return GY_FAIL(GANTRY_ERR_INVALID_ARGUMENT, "%s: %s is NULL", __func__, #handle); \
        }                                                                                     \
        GY_ACCEPT(kind, handle);                                                              \
    } while (0)
#define GY_ACCEPT(kind, handle) GY_ACCEPT_OR(GANTRY_ERR_INVALID_ARGUMENT, kind, handle)
#define GY_ACCEPT_OR(value, kind, handle)                                                        \
    do {                                                                                         \
        if (gy_handles_are_checked()) {                                                          \
            bool gy_is_refused;                                                                  \
            (handle) = gy_handle_accepted((handle), GY_HANDLE_##kind, __func__, &gy_is_refused); \
            if (gy_is_refused) {                                                                 \
                return value;                                                                    \
            }                                                                                    \
        }                                                                                        \
    } while (0)
#define GY_ACCEPT_OR_LEAVE(kind, handle)      \
    do {                                      \
        if (GY_HANDLE_IS_BAD(kind, handle)) { \
            return;                           \
        }                                     \
    } while (0)

/* True: the calling function must not use `handle`.  NULL passes. */
#define GY_HANDLE_IS_BAD(kind, handle) GY_HANDLE_IS_BAD_IN(__func__, kind, handle)
#define GY_HANDLE_IS_BAD_IN(function, kind, handle)  \
    (gy_handles_are_checked() && (handle) != NULL && \
     gy_handle_is_refused((handle), GY_HANDLE_##kind, (function)))

#endif
