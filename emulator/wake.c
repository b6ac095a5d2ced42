/* SPDX-License-Identifier: MIT */
/* The ways to give the lock back: what became runnable is started first, and threads are woken behind it. */
#include "emulator/queue.h"

#include "emulator/crew.h"

void gy_emu_unlock_and_wake(void) GY_NO_ANALYSIS
{
    gy_emu_pump();
    struct gy_emu_wakes wakes;
    const bool wakes_any = gy_emu_crews_plan(&wakes);
    gy_mutex_unlock(&gy_emu_lock);
    if (__builtin_expect(wakes_any, 0)) {
        gy_emu_crews_signal(&wakes);
    }
}

void gy_emu_control_enter(void) GY_NO_ANALYSIS
{
    gy_mutex_lock(&gy_emu_lock);
}

void gy_emu_control_leave(void)
{
    gy_emu_unlock_and_wake();
}

void gy_emu_wait_progress(void) GY_NO_ANALYSIS
{
    if (gy_emu_pump()) {
        return; /* the caller may have waited for this */
    }
    struct gy_emu_wakes wakes;
    if (gy_emu_crews_plan(&wakes)) {
        gy_emu_crews_signal(&wakes);
    }
    gy_emu_sleep();
}
