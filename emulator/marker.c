/* SPDX-License-Identifier: MIT */
/* Markers, launch parameters and references to them.  They are recycled, so that enqueueing allocates nothing
 * once the pools have grown. */
#include "emulator/queue.h"

#include "base/alloc.h"
#include "emulator/clock.h"
#include "emulator/condition.h"
#include "emulator/semaphore.h"

#include <string.h>

#define MARKERS_AT_ONCE 64

static struct gy_emu_marker *free_markers;

static bool grow_markers(void)
{
    struct gy_emu_marker *markers = gy_zalloc_array(MARKERS_AT_ONCE, sizeof(*markers));
    if (markers == NULL) {
        return false;
    }
    for (int i = 0; i < MARKERS_AT_ONCE; i++) {
        markers[i].next = free_markers;
        free_markers = &markers[i];
    }
    return true;
}

struct gy_emu_marker *gy_emu_marker_create(bool timed)
{
    if (free_markers == NULL && !grow_markers()) {
        return NULL;
    }
    struct gy_emu_marker *marker = free_markers;
    free_markers = marker->next;
    marker->next = NULL;
    marker->also = NULL;
    marker->refs = 1;
    marker->host_waiters = 0;
    marker->timed = timed;
    marker->lost = CUDA_SUCCESS;
    marker->time_ns = 0;
    atomic_store_explicit(&marker->done, false, memory_order_relaxed);
    return marker;
}

void gy_emu_marker_unref(struct gy_emu_marker *marker)
{
    if (marker != NULL && --marker->refs == 0) {
        marker->next = free_markers;
        free_markers = marker;
    }
}

void gy_emu_marker_complete(struct gy_emu_marker *marker)
{
    if (marker->timed) {
        marker->time_ns = gy_emu_clock_ns();
    }
    atomic_store_explicit(&marker->done, true, memory_order_release);
    while (marker->waiters.head != NULL) {
        gy_emu_op_start_later(gy_emu_list_pop(&marker->waiters));
    }
    if (marker->host_waiters > 0) {
        gy_emu_progress();
    }
}

/* ---- parameters ------------------------------------------------------------------------------ */

#define SLOT_ALIGNMENT 16u
#define UNPOOLED UINT32_MAX

static const size_t pool_bytes[] = {512, 8192, 65536};
#define POOLS (sizeof(pool_bytes) / sizeof(pool_bytes[0]))
static struct gy_emu_args *free_args[POOLS];

static size_t aligned(size_t bytes)
{
    return (bytes + SLOT_ALIGNMENT - 1) & ~(size_t)(SLOT_ALIGNMENT - 1);
}

static struct gy_emu_args *take_block(size_t bytes)
{
    uint32_t pool = 0;
    while (pool < POOLS && pool_bytes[pool] < bytes) {
        pool++;
    }
    struct gy_emu_args *args;
    if (pool == POOLS) {
        args = gy_alloc_aligned(bytes, SLOT_ALIGNMENT);
        pool = UNPOOLED;
    } else if (free_args[pool] != NULL) {
        args = free_args[pool];
        free_args[pool] = args->next;
    } else {
        args = gy_alloc_aligned(pool_bytes[pool], SLOT_ALIGNMENT);
    }
    if (args != NULL) {
        args->pool = pool;
    }
    return args;
}

struct gy_emu_args *gy_emu_args_create(const struct gantry_host_kernel *kernel, void *const *params)
{
    size_t table = aligned(sizeof(struct gy_emu_args));
    size_t bytes = table + aligned(kernel->param_count * sizeof(void *));
    size_t first_value = bytes;
    for (uint32_t i = 0; i < kernel->param_count; i++) {
        bytes += aligned(kernel->param_bytes[i]);
    }
    struct gy_emu_args *args = take_block(bytes);
    if (args == NULL) {
        return NULL;
    }
    args->refs = 1;
    args->count = kernel->param_count;
    args->sizes = kernel->param_bytes;
    args->pointers = (void **)(void *)((char *)args + table);
    char *value = (char *)args + first_value;
    for (uint32_t i = 0; i < kernel->param_count; i++) {
        args->pointers[i] = value;
        memcpy(value, params[i], kernel->param_bytes[i]);
        value += aligned(kernel->param_bytes[i]);
    }
    return args;
}

void gy_emu_args_unref(struct gy_emu_args *args)
{
    if (args == NULL || --args->refs > 0) {
        return;
    }
    if (args->pool == UNPOOLED) {
        gy_free(args);
        return;
    }
    args->next = free_args[args->pool];
    free_args[args->pool] = args;
}

/* ---- work ------------------------------------------------------------------------------------ */

void gy_emu_work_share(struct gy_emu_work *to, const struct gy_emu_work *from)
{
    *to = *from;
    switch (from->kind) {
    case GY_EMU_WORK_KERNEL:
        from->kernel.args->refs++;
        break;
    case GY_EMU_WORK_MARK:
    case GY_EMU_WORK_WAIT:
        from->marker->refs++;
        break;
    case GY_EMU_WORK_SIGNAL_SEMAPHORE:
    case GY_EMU_WORK_WAIT_SEMAPHORE:
        gy_emu_timeline_ref(from->semaphore.timeline);
        break;
    case GY_EMU_WORK_LOOP:
        from->condition->refs++;
        break;
    default:
        break;
    }
}
