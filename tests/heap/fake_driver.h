/* SPDX-License-Identifier: MIT */
/* A context on a driver that has a few functions, all about memory: it counts what is held, fails when it is
 * told to, refuses calls without the context, and gives device memory that faults when touched. */
#ifndef TESTS_HEAP_FAKE_DRIVER_H
#define TESTS_HEAP_FAKE_DRIVER_H

#include "driver/context.h"

/* The settings and counters for tests; one test runs at a time.  Members are atomic where the heap's own
 * thread calls the driver, too. */
struct fake_driver {
    bool misaligned;              /* plain memory starts 4 KiB above a multiple of 2 MiB */
    size_t room;                  /* bytes of device memory, pinned memory likewise */
    _Atomic(long) fail_at;        /* this call from now on fails (0: the next one); -1: none does */
    CUresult fail_with;           /* it fails with this result */
    _Atomic(bool) failed;         /* it has failed */
    _Atomic(long) calls;          /* since fake_driver_open() */
    _Atomic(long) held;           /* reservations, handles, mappings, allocations */
    _Atomic(size_t) device_bytes; /* in handles or allocations */
    _Atomic(size_t) pinned_bytes; /* in allocations */
    unsigned int flags;           /* the flags of the last cuMemHostAlloc */
    _Atomic(bool) called_outside; /* a call was made without the context */
    _Atomic(bool) wrong_capture;  /* a call was made in a capture mode other than relaxed */
};
extern struct fake_driver fake_driver;
extern _Thread_local long fake_driver_pushes; /* contexts on this thread's stack */

/* The distance from a page-locked address to its device address. */
#define FAKE_DEVICE_DISTANCE ((uintptr_t)1 << 40)

/* Reset everything to zero, with 1 GiB of room and no failure; the context is static.  The device
 * information says that the device has `memory_bytes`. */
struct gy_context *fake_driver_open(uint64_t memory_bytes);

#endif
