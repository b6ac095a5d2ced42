/* SPDX-License-Identifier: MIT */
/* Timelines of another API, as work waits for them and signals them. */
#include "emulator/semaphore.h"

#include "base/alloc.h"
#include "emulator/context.h"

void gy_emu_timeline_ref(struct gy_emu_timeline *timeline)
{
    timeline->refs++;
}

void gy_emu_timeline_unref(struct gy_emu_timeline *timeline)
{
    if (--timeline->refs != 0) {
        return;
    }
    munmap(timeline->file, GY_TIMELINE_FILE_BYTES);
    close(timeline->fd);
    gy_free(timeline);
}

static uint64_t *counter_of(struct gy_emu_timeline *timeline)
{
    return &timeline->file->value;
}

bool gy_emu_semaphore_reached(const struct gy_emu_work *work)
{
    const struct gy_emu_context *context = work->context;
    if (context->root->discarding) {
        return true;
    }
    return context->green == NULL &&
           __atomic_load_n(counter_of(work->semaphore.timeline), __ATOMIC_ACQUIRE) >= work->semaphore.value;
}

void gy_emu_semaphore_signal(const struct gy_emu_work *work)
{
    __atomic_store_n(counter_of(work->semaphore.timeline), work->semaphore.value, __ATOMIC_RELEASE);
}

void gy_emu_semaphore_close(struct gy_emu_timeline *timeline)
{
    gy_emu_handle_close(&timeline->object);
    gy_emu_timeline_unref(timeline);
}

void gy_emu_semaphores_close_all(struct gy_emu_context *root)
{
    uint32_t cursor = 0;
    struct gy_emu_object *object;
    while ((object = gy_emu_handle_next(GY_EMU_EXTERNAL_SEMAPHORE, &cursor)) != NULL) {
        if (object->context == root) {
            gy_emu_semaphore_close((struct gy_emu_timeline *)(void *)object);
        }
    }
}
