/* SPDX-License-Identifier: MIT */
/* The emulated driver's one lock, and what host threads sleep on while they wait for operations. */
#include "emulator/emu.h"

gy_mutex gy_emu_lock;

static gy_cond progress; /* signalled when an operation has ended that a host thread may wait for */

bool gy_emu_lock_prepare(void)
{
    gy_mutex_init(&gy_emu_lock, GY_RANK_LEAF);
    return gy_cond_init(&progress) == GANTRY_OK;
}

void gy_emu_sleep(void) GY_NO_ANALYSIS
{
    gy_cond_wait(&progress, &gy_emu_lock);
}

void gy_emu_progress(void)
{
    gy_cond_broadcast(&progress);
}
