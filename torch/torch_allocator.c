/* SPDX-License-Identifier: MIT */
/* libgantry-torch.so: the heap as an allocator of PyTorch (torch.cuda.memory.CUDAPluggableAllocator), and of
 * others that ask for memory by size, device and stream.
 *
 * One heap per device, on its primary context, made by the first allocation there and never destroyed:
 * tensors outlive everything else of a process.  The library has a copy of the rooms base, driver and heap in
 * it, and no jemalloc, so that it can be opened at run time (whose thread data would not fit then); small
 * blocks take whole pages.
 *
 * PyTorch's captures: between begin_pool() and end_pool() what is allocated or freed under capture is noted
 * by the capture's number with the pool, and given back when the pool is released as often as it was begun.
 *
 * Threading: any thread. */
#include "torch/torch_allocator.h"

#include "base/alloc.h"
#include "base/thread.h"
#include "driver/context.h"
#include "heap/heap.h"
#include "heap/streams.h"

#include <dlfcn.h>
#include <stdatomic.h>
#include <stdio.h>
#include <string.h>

#define MOST_DEVICES 64

struct torch_pool {
    struct torch_pool *next;
    uint64_t first, second; /* its name */
    unsigned uses;          /* times it was begun and not released */
    uint64_t *captures;     /* numbers of captures in it */
    size_t count, room;
};

/* Of one device. */
struct torch_device {
    struct gy_context *context; /* immutable once `heap` is set */
    _Atomic(gantry_heap *) heap;
    struct torch_pool *pools;            /* guarded by pools_lock */
    _Atomic(struct torch_pool *) active; /* written under pools_lock; that captures belong to now */
};

static struct torch_device devices[MOST_DEVICES];
/* Held while a context is opened: below all ranks of the library. */
static gy_mutex open_lock = {PTHREAD_MUTEX_INITIALIZER, (enum gy_rank)0};
static gy_mutex pools_lock = {PTHREAD_MUTEX_INITIALIZER, GY_RANK_DRIVER_LOAD};

/* A failure is an exception for callers in C++, as their own allocators throw: a NULL would become a tensor
 * without memory.  Programs without libstdc++ get the NULL. */
static void *fail(gantry_status status, size_t bytes, int device)
{
    void (*throw_error)(const char *) = NULL;
    static const char name[] = "_ZSt21__throw_runtime_errorPKc";
    void *symbol = dlsym(RTLD_DEFAULT, name);
    if (symbol == NULL) { /* loaded for a library of its caller's only, as Python does */
        void *library = dlopen("libstdc++.so.6", RTLD_NOW | RTLD_NOLOAD);
        symbol = library != NULL ? dlsym(library, name) : NULL;
    }
    memcpy(&throw_error, &symbol, sizeof(symbol));
    if (throw_error != NULL) {
        char text[640];
        bool is_out = status == GANTRY_ERR_OUT_OF_DEVICE_MEMORY;
        (void)snprintf(text, sizeof(text), "%sgantry: %zu bytes on device %d: %s",
                       is_out ? "CUDA out of memory. " : "", bytes, device, gantry_last_error());
        throw_error(text);
    }
    return NULL;
}

/* ---- devices ------------------------------------------------------------------------------- */

static gantry_status open_heap(struct torch_device *of, int device)
{
    char ordinal[16];
    (void)snprintf(ordinal, sizeof(ordinal), "%d", device);
    gantry_context_options options = GANTRY_CONTEXT_OPTIONS_INIT;
    options.device = ordinal;
    gantry_heap *heap;
    gantry_status status = gy_context_open(&options, &of->context);
    if (status != GANTRY_OK) {
        return status;
    }
    status = gy_heap_create(of->context, NULL, &heap);
    if (status != GANTRY_OK) {
        gy_context_close(of->context);
        return status;
    }
    atomic_store_explicit(&of->heap, heap, memory_order_release);
    return GANTRY_OK;
}

/* The heap of a device, NULL when there is none (gantry_last_error()); `make` one. */
static gantry_heap *heap_of(int device, bool make)
{
    if (device < 0 || device >= MOST_DEVICES) {
        (void)GY_FAIL(GANTRY_ERR_INVALID_ARGUMENT, "gantry_torch: no device %d", device);
        return NULL;
    }
    struct torch_device *of = &devices[device];
    gantry_heap *heap = atomic_load_explicit(&of->heap, memory_order_acquire);
    if (__builtin_expect(heap != NULL || !make, 1)) {
        return heap;
    }
    gy_mutex_lock(&open_lock);
    gantry_status status =
        atomic_load_explicit(&of->heap, memory_order_relaxed) == NULL ? open_heap(of, device) : GANTRY_OK;
    gy_mutex_unlock(&open_lock);
    return status == GANTRY_OK ? atomic_load_explicit(&of->heap, memory_order_acquire) : NULL;
}

/* ---- pools of captures --------------------------------------------------------------------- */

/* Note the capture that the stream is under, if it is under one. */
static void note_capture(int device, void *stream)
{
    struct torch_device *of = &devices[device];
    struct gy_heap_stream_name name;
    if (gy_heap_stream_name(of->context, stream, "gantry_torch", &name) != GANTRY_OK || name.capture == 0) {
        return;
    }
    gy_mutex_lock(&pools_lock);
    struct torch_pool *pool = atomic_load_explicit(&of->active, memory_order_relaxed);
    bool known = pool == NULL;
    for (size_t i = 0; !known && i < pool->count; i++) {
        known = pool->captures[i] == name.capture;
    }
    if (!known && pool->count == pool->room) {
        size_t room = pool->room != 0 ? 2 * pool->room : 8;
        uint64_t *more = gy_zalloc_array(room, sizeof(*more));
        known = more == NULL; /* its memory stays with the graph then */
        if (more != NULL && pool->count != 0) {
            memcpy(more, pool->captures, pool->count * sizeof(*more));
        }
        if (more != NULL) {
            gy_free(pool->captures);
            pool->captures = more;
            pool->room = room;
        }
    }
    if (!known) {
        pool->captures[pool->count++] = name.capture;
    }
    gy_mutex_unlock(&pools_lock);
}

static inline void note_if_active(int device, void *stream)
{
    if (__builtin_expect(atomic_load_explicit(&devices[device].active, memory_order_relaxed) != NULL, 0)) {
        note_capture(device, stream);
    }
}

static struct torch_pool **find_pool(struct torch_device *of, uint64_t first, uint64_t second)
{
    struct torch_pool **link = &of->pools;
    while (*link != NULL && ((*link)->first != first || (*link)->second != second)) {
        link = &(*link)->next;
    }
    return link;
}

void gantry_torch_begin_pool(int device, uint64_t first, uint64_t second, void *filter)
{
    (void)filter; /* what is captured says so itself */
    if (heap_of(device, true) == NULL) {
        return;
    }
    struct torch_device *of = &devices[device];
    gy_mutex_lock(&pools_lock);
    struct torch_pool **link = find_pool(of, first, second);
    if (*link == NULL && (*link = gy_zalloc(sizeof(**link))) != NULL) {
        **link = (struct torch_pool){.first = first, .second = second};
    }
    if (*link != NULL) {
        (*link)->uses++;
    }
    atomic_store_explicit(&of->active, *link, memory_order_relaxed);
    gy_mutex_unlock(&pools_lock);
}

static void end_captures(gantry_heap *heap, const struct torch_pool *pool, bool graph_is_gone)
{
    for (size_t i = 0; i < pool->count; i++) {
        (void)gantry_heap_end_capture(heap, pool->captures[i], graph_is_gone);
    }
}

void gantry_torch_end_pool(int device, uint64_t first, uint64_t second)
{
    gantry_heap *heap = heap_of(device, false);
    if (heap == NULL) {
        return;
    }
    gy_mutex_lock(&pools_lock);
    struct torch_pool *pool = *find_pool(&devices[device], first, second);
    atomic_store_explicit(&devices[device].active, NULL, memory_order_relaxed);
    gy_mutex_unlock(&pools_lock);
    if (pool != NULL) {
        end_captures(heap, pool, false);
    }
}

/* Pools that were released as often as begun: a replay may still be on its way, so the device is waited for;
 * while something is captured they stay until the next time. */
static void end_released_pools(int device, gantry_heap *heap)
{
    struct torch_device *of = &devices[device];
    gy_mutex_lock(&pools_lock);
    bool any = false;
    for (const struct torch_pool *pool = of->pools; pool != NULL; pool = pool->next) {
        any = any || pool->uses == 0;
    }
    gy_mutex_unlock(&pools_lock);
    if (!any || gantry_heap_settle(heap) != GANTRY_OK) {
        return;
    }
    struct torch_pool *released = NULL;
    gy_mutex_lock(&pools_lock);
    for (struct torch_pool **link = &of->pools; *link != NULL;) {
        struct torch_pool *pool = *link;
        if (pool->uses == 0) {
            *link = pool->next;
            pool->next = released;
            released = pool;
        } else {
            link = &pool->next;
        }
    }
    gy_mutex_unlock(&pools_lock);
    while (released != NULL) {
        struct torch_pool *next = released->next;
        end_captures(heap, released, true);
        gy_free(released->captures);
        gy_free(released);
        released = next;
    }
}

void gantry_torch_release_pool(int device, uint64_t first, uint64_t second)
{
    gantry_heap *heap = heap_of(device, false);
    if (heap == NULL) {
        return;
    }
    gy_mutex_lock(&pools_lock);
    struct torch_pool *pool = *find_pool(&devices[device], first, second);
    if (pool != NULL && pool->uses != 0) {
        pool->uses--;
    }
    gy_mutex_unlock(&pools_lock);
    end_released_pools(device, heap);
}

/* ---- blocks -------------------------------------------------------------------------------- */

/* NULL for 0 bytes, too. */
static inline gantry_status take(size_t bytes, int device, void *stream, void **out)
{
    *out = NULL;
    if (bytes == 0) {
        return GANTRY_OK;
    }
    gantry_heap *heap = heap_of(device, true);
    if (__builtin_expect(heap == NULL, 0)) {
        return GANTRY_ERR_NO_DEVICE;
    }
    note_if_active(device, stream);
    gantry_alloc_site site = {"torch", NULL, 0};
    return gantry_heap_alloc_on(heap, GANTRY_MEMORY_DEVICE, bytes, 0, stream, site, out);
}

void *gantry_torch_alloc(size_t bytes, int device, void *stream)
{
    void *block;
    gantry_status status = take(bytes, device, stream, &block);
    return __builtin_expect(status == GANTRY_OK, 1) ? block : fail(status, bytes, device);
}

void *gantry_torch_try_alloc(size_t bytes, int device, void *stream)
{
    void *block;
    return take(bytes, device, stream, &block) == GANTRY_OK ? block : NULL;
}

const char *gantry_torch_last_error(void)
{
    return gantry_last_error();
}

void gantry_torch_free(void *pointer, size_t bytes, int device, void *stream)
{
    (void)bytes;
    gantry_heap *heap = heap_of(device, false);
    if (heap != NULL && pointer != NULL) {
        note_if_active(device, stream);
        (void)gantry_heap_free_on(heap, pointer, stream);
    }
}

void gantry_torch_record_stream(void *pointer, void *stream)
{
    for (int device = 0; device < MOST_DEVICES; device++) {
        gantry_heap *heap = heap_of(device, false);
        struct gy_heap_look look;
        if (heap != NULL && gy_heap_look(heap, pointer, &look) == GY_HEAP_LIVE) {
            gantry_status status = gantry_heap_record_stream(heap, pointer, stream);
            if (status != GANTRY_OK) {
                (void)fail(status, look.bytes, device);
            }
            return;
        }
    }
}

void gantry_torch_empty_cache(void)
{
    for (int device = 0; device < MOST_DEVICES; device++) {
        gantry_heap *heap = heap_of(device, false);
        if (heap != NULL) {
            end_released_pools(device, heap);
            if (gantry_heap_settle(heap) != GANTRY_OK) { /* what waits stays */
                gy_error_clear();
            }
            (void)gantry_heap_trim(heap, GANTRY_MEMORY_DEVICE, 0, NULL);
        }
    }
}

void gantry_torch_set_fraction(double fraction, int device)
{
    gantry_heap *heap = heap_of(device, true);
    gantry_heap_settings settings = {.struct_size = sizeof(settings)};
    if (heap != NULL && fraction > 0 &&
        gantry_heap_get_settings(heap, GANTRY_MEMORY_DEVICE, &settings) == GANTRY_OK) {
        double bytes = fraction * (double)devices[device].context->info.memory_bytes;
        settings.limit_bytes = (size_t)bytes;
        gantry_status status = gantry_heap_configure(heap, GANTRY_MEMORY_DEVICE, &settings);
        if (status != GANTRY_OK) {
            (void)fail(status, settings.limit_bytes, device);
        }
    }
}

uint64_t gantry_torch_stat(int device, int what)
{
    gantry_heap *heap = heap_of(device, false);
    gantry_heap_stats stats = {.struct_size = sizeof(stats)};
    if (heap == NULL || gantry_heap_get_stats(heap, GANTRY_MEMORY_DEVICE, &stats) != GANTRY_OK) {
        return 0;
    }
    const uint64_t values[] = {stats.used_bytes,      stats.peak_bytes,  stats.slab_bytes,
                               stats.peak_slab_bytes, stats.alloc_count, stats.waiting_bytes};
    return (unsigned)what < sizeof(values) / sizeof(values[0]) ? values[what] : 0;
}

int gantry_torch_snapshot(int device, const char *path)
{
    gantry_heap *heap = heap_of(device, false);
    FILE *out = heap != NULL && path != NULL ? fopen(path, "we") : NULL;
    const bool good = out != NULL && gantry_heap_write_json(heap, true, out) == GANTRY_OK;
    return out != NULL && fclose(out) == 0 && good ? 0 : -1;
}

void gantry_torch_reset_peaks(int device)
{
    gantry_heap *heap = heap_of(device, false);
    if (heap != NULL) {
        (void)gantry_heap_reset_peaks(heap, GANTRY_MEMORY_DEVICE);
    }
}
