/* SPDX-License-Identifier: MIT */
/* Timeline semaphores that another API has exported. */
#ifndef EMULATOR_SEMAPHORE_H
#define EMULATOR_SEMAPHORE_H

#include "emulator/queue.h"
#include "emulator/timeline_file.h"

struct gy_emu_timeline {
    struct gy_emu_object object;
    uint32_t refs;
    int fd;
    struct gy_timeline_file *file;
};

/* A timeline lives as long as its handle, and as long as work refers to it. */
void gy_emu_timeline_ref(struct gy_emu_timeline *timeline);
void gy_emu_timeline_unref(struct gy_emu_timeline *timeline);

/* Of WAIT_SEMAPHORE and SIGNAL_SEMAPHORE. */
bool gy_emu_semaphore_reached(const struct gy_emu_work *work);
void gy_emu_semaphore_signal(const struct gy_emu_work *work);

void gy_emu_semaphore_close(struct gy_emu_timeline *timeline);
/* Close everything that a context which ends has imported. */
void gy_emu_semaphores_close_all(struct gy_emu_context *root);

#endif
