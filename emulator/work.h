/* SPDX-License-Identifier: MIT */
/* Copies, fills, host functions and values, as the emulator's threads do them. */
#ifndef EMULATOR_WORK_H
#define EMULATOR_WORK_H

#include "emulator/queue.h"

/* Is the memory still there that it touches?  It may have been unmapped since the work was enqueued. */
bool gy_emu_work_has_memory(const struct gy_emu_work *work);
/* Is the value there that it waits for? */
bool gy_emu_work_reached(const struct gy_emu_work *work);
/* Do it, without the lock. */
void gy_emu_work_do(const struct gy_emu_work *work);

#endif
