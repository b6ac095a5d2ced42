/* A context on a driver of a few functions, all of memory: it counts what is held, fails when told, refuses
 * calls without the context, and gives device memory that faults when touched. */
#ifndef TESTS_HEAP_FAKE_DRIVER_H
#define TESTS_HEAP_FAKE_DRIVER_H

#include "driver/context.h"

/* What the tests steer and see; one test at a time.  Atomic where the heap's own thread calls the driver,
 * too. */
struct fake_driver {
    bool misaligned;              /* plain memory starts 4 KiB above a multiple of 2 MiB */
    size_t room;                  /* bytes of device memory, pinned memory likewise */
    _Atomic(long) fail_at;        /* this call from now on fails (0: the next); -1: none */
    CUresult fail_with;           /* with this */
    _Atomic(bool) failed;         /* it did */
    _Atomic(long) calls;          /* since fake_driver_open() */
    _Atomic(long) held;           /* reservations, handles, mappings, allocations */
    _Atomic(size_t) device_bytes; /* in handles or allocations */
    _Atomic(size_t) pinned_bytes; /* in allocations */
    unsigned int flags;           /* of the last cuMemHostAlloc */
    _Atomic(bool) called_outside; /* a call came without the context */
    _Atomic(bool) wrong_capture;  /* a call came in a capture mode other than relaxed */
};
extern struct fake_driver fake_driver;
extern _Thread_local long fake_driver_pushes; /* contexts on this thread's stack */

/* Distance from a page-locked address to its device address. */
#define FAKE_DEVICE_DISTANCE ((uintptr_t)1 << 40)

/* Everything zero, but 1 GiB of room and no failure; the context is static.  Device memory is
 * `memory_bytes`, as the device information says. */
struct gy_context *fake_driver_open(uint64_t memory_bytes);

#endif
