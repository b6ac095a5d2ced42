/* SPDX-License-Identifier: MIT */
#include "dispatcher/call/met.h"

#include <stdatomic.h>
#include <stdint.h>

/* atomic; the keys of functions on contexts, open addressing; 0: free */
static _Atomic(uint64_t) met[GY_MET_MOST];

static uint64_t mixed(uint64_t value)
{
    value *= UINT64_C(0x9e3779b97f4a7c15);
    return value ^ value >> 29;
}

/* Two that have the same one are as unlikely as a hash of 64 bits makes it. */
static uint64_t key_of(gantry_launch_fn function, uint64_t context)
{
    const uint64_t key = mixed(mixed((uint64_t)(uintptr_t)function) + context);
    return key != 0 ? key : 1;
}

uint64_t gy_met_context(const struct gy_context *context)
{
    static _Atomic(uint64_t) untold = 1; /* atomic */
    const struct gy_driver *driver = context->driver;
    unsigned long long id;
    const bool is_told =
        driver->cuCtxGetId != NULL && driver->cuCtxGetId(context->native, &id) == CUDA_SUCCESS;
    return is_told ? (uint64_t)id : UINT64_MAX - atomic_fetch_add(&untold, 1);
}

void gy_met_add(gantry_launch_fn function, uint64_t context)
{
    const uint64_t key = key_of(function, context);
    for (uint32_t i = 0, place = key % GY_MET_MOST; i < GY_MET_MOST; i++, place = (place + 1) % GY_MET_MOST) {
        uint64_t there = 0;
        if (atomic_compare_exchange_strong(&met[place], &there, key) || there == key) {
            return;
        }
    }
}

bool gy_met_has(gantry_launch_fn function, uint64_t context)
{
    const uint64_t key = key_of(function, context);
    for (uint32_t i = 0, place = key % GY_MET_MOST; i < GY_MET_MOST; i++, place = (place + 1) % GY_MET_MOST) {
        const uint64_t there = atomic_load_explicit(&met[place], memory_order_relaxed);
        if (there == key || there == 0) {
            return there == key;
        }
    }
    return false;
}
