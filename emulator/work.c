/* SPDX-License-Identifier: MIT */
/* What operations do that are no kernels. */
#include "emulator/work.h"

#include "emulator/memory.h"
#include "emulator/semaphore.h"

#include <string.h>

size_t gy_emu_rows_bytes(size_t pitch, size_t width, size_t height)
{
    return height == 0 ? 0 : (height - 1) * pitch + width;
}

/* Nodes may have a value with bits above their elements, which calls cannot: a device shifts it to all places
 * of a word without cutting it, as was seen on an H200. */
static uint32_t word_of(const struct gy_emu_work *work)
{
    uint32_t word = work->fill.value;
    for (uint32_t bits = 8 * work->fill.width; bits < 32; bits *= 2) {
        word |= word << bits;
    }
    return word;
}

static void fill(const struct gy_emu_work *work)
{
    const size_t bytes = work->fill.count * work->fill.width;
    const uint32_t width = 4, value = word_of(work);
    if (work->fill.width == 1 && work->fill.value <= UINT8_MAX) {
        memset(work->fill.to, (int)value, bytes);
        return;
    }
    for (size_t i = 0; i < bytes; i += width) { /* the host, too, has the lowest byte first */
        memcpy(work->fill.to + i, &value, bytes - i < width ? bytes - i : width);
    }
}

bool gy_emu_work_reached(const struct gy_emu_work *work)
{
    if (work->kind == GY_EMU_WORK_WAIT_SEMAPHORE) {
        return gy_emu_semaphore_reached(work);
    }
    uint32_t now = __atomic_load_n(work->value.address, __ATOMIC_ACQUIRE);
    uint32_t value = work->value.value;
    switch (work->value.flags) {
    case CU_STREAM_WAIT_VALUE_EQ:
        return now == value;
    case CU_STREAM_WAIT_VALUE_AND:
        return (now & value) != 0;
    case CU_STREAM_WAIT_VALUE_NOR:
        return ~(now | value) != 0;
    default:
        return (int32_t)(now - value) >= 0;
    }
}

bool gy_emu_work_has_memory(const struct gy_emu_work *work)
{
    switch (work->kind) {
    case GY_EMU_WORK_COPY:
        return gy_emu_memory_check_any(work->copy.to, work->copy.bytes) &&
               gy_emu_memory_check_any(work->copy.from, work->copy.bytes);
    case GY_EMU_WORK_COPY_ROWS:
        return gy_emu_memory_check_any(work->copy_rows.to,
                                       gy_emu_rows_bytes(work->copy_rows.to_pitch, work->copy_rows.width,
                                                         work->copy_rows.height)) &&
               gy_emu_memory_check_any(work->copy_rows.from,
                                       gy_emu_rows_bytes(work->copy_rows.from_pitch, work->copy_rows.width,
                                                         work->copy_rows.height));
    case GY_EMU_WORK_FILL:
        return gy_emu_memory_check_any(work->fill.to, work->fill.count * work->fill.width);
    case GY_EMU_WORK_WRITE_VALUE:
    case GY_EMU_WORK_WAIT_VALUE:
        return gy_emu_memory_check_any(work->value.address, sizeof(uint32_t));
    default:
        return true;
    }
}

void gy_emu_work_do(const struct gy_emu_work *work)
{
    switch (work->kind) {
    case GY_EMU_WORK_COPY:
        memmove(work->copy.to, work->copy.from, work->copy.bytes);
        break;
    case GY_EMU_WORK_COPY_ROWS:
        for (size_t row = 0; row < work->copy_rows.height; row++) {
            memmove(work->copy_rows.to + row * work->copy_rows.to_pitch,
                    work->copy_rows.from + row * work->copy_rows.from_pitch, work->copy_rows.width);
        }
        break;
    case GY_EMU_WORK_FILL:
        fill(work);
        break;
    case GY_EMU_WORK_HOST:
        work->host.function(work->host.user);
        break;
    case GY_EMU_WORK_WRITE_VALUE:
        __atomic_store_n(work->value.address, work->value.value, __ATOMIC_RELEASE);
        break;
    case GY_EMU_WORK_SIGNAL_SEMAPHORE:
        gy_emu_semaphore_signal(work);
        break;
    default:
        break;
    }
}
