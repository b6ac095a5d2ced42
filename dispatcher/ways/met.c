#include "dispatcher/ways/met.h"

#include <stdatomic.h>
#include <stdint.h>

static _Atomic(uintptr_t) functions[GY_MET_MOST]; /* atomic; open addressing; 0: free */

static uint32_t place_of(uintptr_t function)
{
    return (uint32_t)(((uint64_t)function * UINT64_C(0x9e3779b97f4a7c15)) >> 54) % GY_MET_MOST;
}

void gy_met_add(gantry_launch_fn function)
{
    const uintptr_t what = (uintptr_t)function;
    for (uint32_t i = 0, place = place_of(what); i < GY_MET_MOST; i++, place = (place + 1) % GY_MET_MOST) {
        uintptr_t there = 0;
        if (atomic_compare_exchange_strong(&functions[place], &there, what) || there == what) {
            return;
        }
    }
}

bool gy_met_has(gantry_launch_fn function)
{
    const uintptr_t what = (uintptr_t)function;
    for (uint32_t i = 0, place = place_of(what); i < GY_MET_MOST; i++, place = (place + 1) % GY_MET_MOST) {
        const uintptr_t there = atomic_load_explicit(&functions[place], memory_order_relaxed);
        if (there == what || there == 0) {
            return there == what;
        }
    }
    return false;
}
