/* SPDX-License-Identifier: MIT */
/* The heap's functions that set a kind up, and have it take or give back memory. */
#include "base/handle.h"
#include "base/options.h"
#include "heap/growth.h"
#include "heap/internal.h"

static gantry_status check_kind(const gantry_heap *heap, gantry_memory_kind kind, const void *pointer,
                                const char *call)
{
    if (heap == NULL || pointer == NULL || (unsigned)kind >= GANTRY_MEMORY_KIND_COUNT) {
        return GY_FAIL(GANTRY_ERR_INVALID_ARGUMENT, "%s: something is NULL, or unknown memory kind %d", call,
                       (int)kind);
    }
    return GANTRY_OK;
}

gantry_status gantry_heap_configure(gantry_heap *heap, gantry_memory_kind kind,
                                    const gantry_heap_settings *settings)
{
    GY_ACCEPT(HEAP, heap);
    gantry_heap_settings ours = {0};
    gantry_status status = check_kind(heap, kind, settings, "gantry_heap_configure");
    if (status == GANTRY_OK) {
        status = gy_options_import(&ours, sizeof(ours), settings, sizeof(size_t) * 2, "gantry_heap_settings");
    }
    if (status != GANTRY_OK) {
        return status;
    }
    if (!gy_granules_round(ours.slab_bytes, &ours.slab_bytes) ||
        !gy_granules_round(ours.base_bytes, &ours.base_bytes)) {
        return GY_FAIL(GANTRY_ERR_INVALID_ARGUMENT, "gantry_heap_settings: a size is too large");
    }
    struct gy_kind *of = &heap->kinds[kind];
    atomic_store(&of->settings.slab_bytes, ours.slab_bytes);
    atomic_store(&of->settings.base_bytes, ours.base_bytes);
    atomic_store(&of->settings.keep_bytes, ours.keep_bytes);
    gy_heap_round_unit(&ours.unit_bytes);
    atomic_store(&of->settings.unit_bytes, ours.unit_bytes);
    atomic_store(&of->settings.ahead_bytes, ours.ahead_bytes);
    atomic_store(&of->settings.decay_ms, ours.decay_ms);
    atomic_store(&of->settings.limit_bytes, ours.limit_bytes);
    if (ours.limit_bytes != 0 && gy_kind_total(of) > ours.limit_bytes) {
        (void)gy_kind_trim(of, SIZE_MAX); /* memory above the limit goes back, whatever is to be kept */
    }
    return GANTRY_OK;
}

gantry_status gantry_heap_get_settings(gantry_heap *heap, gantry_memory_kind kind,
                                       gantry_heap_settings *settings)
{
    GY_ACCEPT(HEAP, heap);
    gantry_status status = check_kind(heap, kind, settings, "gantry_heap_get_settings");
    if (status != GANTRY_OK) {
        return status;
    }
    struct gy_kind_settings *of = &heap->kinds[kind].settings;
    gantry_heap_settings ours = {.slab_bytes = gy_setting(&of->slab_bytes),
                                 .limit_bytes = gy_setting(&of->limit_bytes),
                                 .base_bytes = gy_setting(&of->base_bytes),
                                 .keep_bytes = gy_setting(&of->keep_bytes),
                                 .unit_bytes = gy_setting(&of->unit_bytes),
                                 .ahead_bytes = gy_setting(&of->ahead_bytes),
                                 .decay_ms = atomic_load(&of->decay_ms)};
    return gy_stats_export(settings, &ours, sizeof(ours), "gantry_heap_get_settings");
}

gantry_status gantry_heap_reserve(gantry_heap *heap, gantry_memory_kind kind, size_t bytes)
{
    GY_ACCEPT(HEAP, heap);
    gantry_status status = check_kind(heap, kind, heap, "gantry_heap_reserve");
    if (status != GANTRY_OK) {
        return status;
    }
    status = gy_kind_reserve(&heap->kinds[kind], bytes);
    return gy_is_exhausted(status) ? gy_heap_fail_exhausted(heap, kind, bytes, status) : status;
}

gantry_status gantry_heap_trim(gantry_heap *heap, gantry_memory_kind kind, size_t keep_bytes,
                               uint64_t *out_bytes)
{
    GY_ACCEPT(HEAP, heap);
    gantry_status status = check_kind(heap, kind, heap, "gantry_heap_trim");
    if (status != GANTRY_OK) {
        return status;
    }
    atomic_store(&heap->kinds[kind].settings.reserved_bytes, 0);
    uint64_t given = gy_kind_trim(&heap->kinds[kind], keep_bytes);
    if (out_bytes != NULL) {
        *out_bytes = given;
    }
    return GANTRY_OK;
}
