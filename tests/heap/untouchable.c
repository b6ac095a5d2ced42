/* SPDX-License-Identifier: MIT */
#include "tests/heap/untouchable.h"

#include "base/alloc.h"
#include "heap/granules.h"
#include "heap/kind.h"
#include "tests/support/cmocka_c11.h"

#include <sys/mman.h>

#include <assert.h>
#include <string.h>

#define MAX_GRANULES 1024

/* One kind uses the window at a time, and one thread of the kind. */
static uintptr_t window;
static size_t window_granules;
static bool used[MAX_GRANULES];
static size_t calls;

uintptr_t untouchable_map(size_t bytes)
{
    size_t reserved = bytes + GY_GRANULE_BYTES;
    void *mapped = mmap(NULL, reserved, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
    if (mapped == MAP_FAILED) {
        return 0;
    }
    uintptr_t base = ((uintptr_t)mapped + GY_GRANULE_BYTES - 1) & ~(uintptr_t)(GY_GRANULE_BYTES - 1);
    if (base > (uintptr_t)mapped) {
        munmap(mapped, base - (uintptr_t)mapped);
    }
    uintptr_t end = (uintptr_t)mapped + reserved;
    if (end > base + bytes) {
        munmap((void *)(base + bytes), end - base - bytes);
    }
    return base;
}

void untouchable_unmap(uintptr_t base, size_t bytes)
{
    munmap((void *)base, bytes);
}

void untouchable_open(size_t granules)
{
    assert(granules <= MAX_GRANULES);
    memset(used, 0, sizeof(used));
    calls = 0;
    window_granules = granules;
    window = untouchable_map(granules * GY_GRANULE_BYTES);
    assert(window != 0);
}

void untouchable_close(void)
{
    untouchable_unmap(window, window_granules * GY_GRANULE_BYTES);
}

uintptr_t untouchable_window(void)
{
    return window;
}

size_t untouchable_taken(void)
{
    size_t count = 0;
    for (size_t i = 0; i < window_granules; i++) {
        count += used[i] ? 1 : 0;
    }
    return count * GY_GRANULE_BYTES;
}

size_t untouchable_calls(void)
{
    return calls;
}

static void set_used(size_t first, size_t count, bool value)
{
    for (size_t i = first; i < first + count; i++) {
        assert(used[i] != value);
        used[i] = value;
    }
}

static gantry_status take(struct gy_context *context, size_t bytes, const struct gy_backing_need *need,
                          struct gy_backing *out)
{
    (void)context;
    (void)need;
    calls++;
    size_t count = bytes / GY_GRANULE_BYTES;
    size_t run = 0;
    for (size_t i = 0; i < window_granules; i++) {
        run = used[i] ? 0 : run + 1;
        if (run == count) {
            set_used(i + 1 - count, count, true);
            *out = (struct gy_backing){.base = window + (i + 1 - count) * GY_GRANULE_BYTES, .bytes = bytes};
            return GANTRY_OK;
        }
    }
    return GANTRY_ERR_OUT_OF_DEVICE_MEMORY;
}

static void give_back(struct gy_context *context, const struct gy_backing *backing)
{
    (void)context;
    set_used((backing->base - window) / GY_GRANULE_BYTES, backing->bytes / GY_GRANULE_BYTES, false);
}

const struct gy_backing_ops untouchable_ops = {take, give_back, NULL};

void untouchable_close_kind(struct gy_kind *kind, struct gy_granules *map)
{
    gy_kind_fini(kind);
    gy_granules_fini(map);
    assert_int_equal(untouchable_taken(), 0);
    assert_int_equal(gy_alloc_live(), 0);
    untouchable_close();
}
