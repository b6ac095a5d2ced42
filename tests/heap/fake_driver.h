/* A context on a driver of a few functions, all of memory: it counts what is held, fails when told, refuses
 * calls without the context, and gives device memory that faults when touched. */
#ifndef TESTS_HEAP_FAKE_DRIVER_H
#define TESTS_HEAP_FAKE_DRIVER_H

#include "driver/context.h"

/* What the tests steer and see; one test at a time. */
struct fake_driver {
    bool misaligned;     /* plain memory starts 4 KiB above a multiple of 2 MiB */
    size_t room;         /* bytes of device memory, pinned memory likewise */
    long fail_at;        /* this call from now on fails (0: the next); -1: none */
    CUresult fail_with;  /* with this */
    bool failed;         /* it did */
    long calls;          /* since fake_driver_open() */
    long held;           /* reservations, handles, mappings, allocations */
    size_t device_bytes; /* in handles or allocations */
    size_t pinned_bytes; /* in allocations */
    unsigned int flags;  /* of the last cuMemHostAlloc */
    long pushes;         /* contexts on the stack of this thread */
    bool called_outside; /* a call came without the context */
    bool wrong_capture;  /* a call came in a capture mode other than relaxed */
};
extern struct fake_driver fake_driver;

/* Distance from a page-locked address to its device address. */
#define FAKE_DEVICE_DISTANCE ((uintptr_t)1 << 40)

/* Everything zero, but 1 GiB of room and no failure; the context is static.  Device memory is
 * `memory_bytes`, as the device information says. */
struct gy_context *fake_driver_open(uint64_t memory_bytes);

#endif
