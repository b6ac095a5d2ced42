/* SPDX-License-Identifier: MIT */
/* The device's clock: host time, or a manual one for tests. */
#ifndef EMULATOR_CLOCK_H
#define EMULATOR_CLOCK_H

#include <stdbool.h>
#include <stdint.h>

/* The time in nanoseconds, which events and %globaltimer show.  Any thread, no lock needed. */
uint64_t gy_emu_clock_ns(void);
void gy_emu_clock_set_manual(bool manual);
void gy_emu_clock_advance(uint64_t ns);
/* Each kernel execution advances the manual clock by this much. */
void gy_emu_clock_set_kernel_cost(uint64_t ns);
void gy_emu_clock_kernel_done(void);

#endif
