/* SPDX-License-Identifier: MIT */
/* The functions that only the control interface (control.c) needs from the other files. */
#ifndef EMULATOR_CONTROL_H
#define EMULATOR_CONTROL_H

#include "emulator/gantry_emu.h"

#include <stdbool.h>

bool gy_emu_order_start(size_t capacity);
size_t gy_emu_order_stop(void);
size_t gy_emu_order_read(struct gantry_emu_operation *operations, size_t capacity);
void gy_emu_order_forget(void);
uint64_t gy_emu_order_executed(void);

uint32_t gy_emu_fault_hanging(void);

/* The counts of memory, by enum gantry_emu_live_kind. */
int64_t gy_emu_memory_live(enum gantry_emu_live_kind kind);

#endif
