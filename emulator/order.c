/* SPDX-License-Identifier: MIT */
/* The order log and the count of executed operations. */
#include "emulator/order.h"

#include "base/alloc.h"
#include "emulator/context.h"
#include "emulator/control.h"

#include <string.h>

static struct gantry_emu_operation *entries; /* NULL: nothing is being recorded */
static size_t room, begun;
static uint64_t position;
static uint64_t executed;
static uint64_t first_number; /* `executed` when recording began */

static int public_kind(enum gy_emu_work_kind kind)
{
    switch (kind) {
    case GY_EMU_WORK_KERNEL:
        return GANTRY_EMU_KERNEL;
    case GY_EMU_WORK_COPY:
    case GY_EMU_WORK_COPY_ROWS:
        return GANTRY_EMU_COPY;
    case GY_EMU_WORK_FILL:
        return GANTRY_EMU_FILL;
    case GY_EMU_WORK_HOST:
        return GANTRY_EMU_HOST_FUNCTION;
    case GY_EMU_WORK_WRITE_VALUE:
    case GY_EMU_WORK_SIGNAL_SEMAPHORE:
        return GANTRY_EMU_WRITE_VALUE;
    default:
        return GANTRY_EMU_WAIT_VALUE;
    }
}

static uint64_t first_word(const struct gy_emu_work *work)
{
    uint64_t word = 0;
    switch (work->kind) {
    case GY_EMU_WORK_KERNEL:
        if (work->kernel.args->count > 0) {
            size_t bytes = work->kernel.args->sizes[0];
            memcpy(&word, work->kernel.args->pointers[0], bytes < sizeof(word) ? bytes : sizeof(word));
        }
        return word;
    case GY_EMU_WORK_COPY:
        return (uintptr_t)work->copy.to;
    case GY_EMU_WORK_COPY_ROWS:
        return (uintptr_t)work->copy_rows.to;
    case GY_EMU_WORK_FILL:
        return (uintptr_t)work->fill.to;
    case GY_EMU_WORK_HOST:
        return (uintptr_t)work->host.user;
    case GY_EMU_WORK_SIGNAL_SEMAPHORE:
    case GY_EMU_WORK_WAIT_SEMAPHORE:
        return work->semaphore.value;
    default:
        return (uintptr_t)work->value.address;
    }
}

void gy_emu_order_begin(struct gy_emu_op *op)
{
    op->log_number = ++executed;
    if (entries == NULL) {
        return;
    }
    if (begun < room) {
        const struct gy_emu_work *work = &op->work;
        entries[begun] = (struct gantry_emu_operation){
            .begin = ++position,
            .stream = op->stream != NULL ? op->stream->id : 0,
            .kind = public_kind(work->kind),
            .device = work->context->device->ordinal,
            .name = work->kind == GY_EMU_WORK_KERNEL ? work->kernel.code->name : NULL,
            .first_word = first_word(work)};
    }
    begun++;
}

void gy_emu_order_end(struct gy_emu_op *op)
{
    if (entries == NULL || op->log_number <= first_number) {
        return;
    }
    uint64_t index = op->log_number - first_number - 1;
    if (index < room) {
        entries[index].end = ++position;
    }
}

bool gy_emu_order_start(size_t capacity)
{
    struct gantry_emu_operation *fresh = gy_zalloc_array(capacity > 0 ? capacity : 1, sizeof(*fresh));
    if (fresh == NULL) {
        return false;
    }
    gy_free(entries);
    entries = fresh;
    room = capacity;
    begun = 0;
    position = 0;
    first_number = executed;
    return true;
}

/* Recording goes on for operations that run, so that their ends are known; stopping only freezes the count.
 */
size_t gy_emu_order_stop(void)
{
    if (begun < room) {
        room = begun;
    }
    return begun;
}

size_t gy_emu_order_read(struct gantry_emu_operation *operations, size_t capacity)
{
    size_t n = begun < room ? begun : room;
    if (n > capacity) {
        n = capacity;
    }
    if (n > 0) {
        memcpy(operations, entries, n * sizeof(*operations));
    }
    return n;
}

uint64_t gy_emu_order_executed(void)
{
    return executed;
}

void gy_emu_order_forget(void)
{
    gy_free(entries);
    entries = NULL;
    room = begun = 0;
}
