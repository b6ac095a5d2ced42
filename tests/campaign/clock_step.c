/* SPDX-License-Identifier: MIT */
#include "tests/campaign/clock_step.h"

#include <dlfcn.h>
#include <stdatomic.h>
#include <sys/syscall.h>
#include <time.h>
#include <unistd.h>

typedef int (*read_fn)(clockid_t clock, struct timespec *out);

static _Atomic uint64_t readings, first;
static _Atomic int64_t step;
/* the C library's function, which needs no system call; NULL while it is not known */
static _Atomic(read_fn) library;

__attribute__((constructor)) static void find_library(void)
{
    atomic_store(&library, (read_fn)dlsym(RTLD_NEXT, "clock_gettime"));
}

void clock_step_arm(uint64_t nth, int64_t step_ns)
{
    atomic_store(&first, nth);
    atomic_store(&step, step_ns);
    atomic_store(&readings, 0);
}

uint64_t clock_step_readings(void)
{
    return atomic_load(&readings);
}

int clock_gettime(clockid_t clock, struct timespec *out)
{
    read_fn read_clock = atomic_load(&library);
    long result = read_clock != NULL ? read_clock(clock, out) : syscall(SYS_clock_gettime, clock, out);
    if (clock != CLOCK_MONOTONIC || result != 0) {
        return (int)result;
    }
    uint64_t reading = atomic_fetch_add(&readings, 1) + 1, from = atomic_load(&first);
    if (from != 0 && reading >= from) {
        int64_t ns = (int64_t)out->tv_sec * 1000000000 + out->tv_nsec + atomic_load(&step);
        out->tv_sec = (time_t)(ns / 1000000000);
        out->tv_nsec = (long)(ns % 1000000000);
    }
    return 0;
}
