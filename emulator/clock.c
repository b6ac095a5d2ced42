/* SPDX-License-Identifier: MIT */
#include "emulator/clock.h"

#include "base/clock.h"

#include <stdatomic.h>

static atomic_bool manual;
static atomic_uint_fast64_t manual_ns;
static atomic_uint_fast64_t kernel_cost_ns;

uint64_t gy_emu_clock_ns(void)
{
    return atomic_load(&manual) ? atomic_load(&manual_ns) : gy_clock_ns();
}

void gy_emu_clock_set_manual(bool value)
{
    atomic_store(&manual_ns, gy_emu_clock_ns());
    atomic_store(&manual, value);
}

void gy_emu_clock_advance(uint64_t ns)
{
    atomic_fetch_add(&manual_ns, ns);
}

void gy_emu_clock_set_kernel_cost(uint64_t ns)
{
    atomic_store(&kernel_cost_ns, ns);
}

void gy_emu_clock_kernel_done(void)
{
    uint64_t cost = atomic_load_explicit(&kernel_cost_ns, memory_order_relaxed);
    if (cost != 0) {
        gy_emu_clock_advance(cost);
    }
}
