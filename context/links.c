/* SPDX-License-Identifier: MIT */
/* Links between devices: what the driver says, and what copies take.
 *
 * The memory on the device that is reached is mapped for both devices, as the heap's slabs are that several
 * devices reach; without access both blocks are plain, and the driver copies through the host. */
#include <gantry/links.h>

#include "base/options.h"
#include "driver/context.h"
#include "driver/device.h"

#include <stdio.h>

#define LEAST_BYTES ((uint64_t)64 << 10)
#define SMALL_BYTES 4096u
#define SMALL_COPIES 32u
#define ROUNDS 5
#define GRANULE_BYTES ((size_t)2 << 20)

/* The two sides of a measurement. */
struct sides {
    const struct gy_driver *driver;
    struct gy_context *from, *to;
    size_t bytes;
    CUdeviceptr source, dest;
    CUmemGenericAllocationHandle handle; /* of `dest`; 0: it is plain memory */
    CUstream stream;                     /* of `from`, as are the events */
    CUevent begin, end;
};

/* ---- what the driver says -------------------------------------------------------------------- */

static gantry_status check_pair(const struct gy_driver *driver, int from, int to)
{
    int count = 0;
    gantry_status status = GY_DRIVER_CALL(driver, cuDeviceGetCount(&count));
    if (status != GANTRY_OK) {
        return status;
    }
    if (from < 0 || from >= count || to < 0 || to >= count) {
        return GY_FAIL(GANTRY_ERR_NO_DEVICE, "link from device %d to device %d: there are %d devices", from,
                       to, count);
    }
    if (driver->cuDeviceCanAccessPeer == NULL || driver->cuDeviceGetP2PAttribute == NULL) {
        return GY_FAIL(GANTRY_ERR_UNSUPPORTED, "the driver says nothing about links between devices");
    }
    return GANTRY_OK;
}

static gantry_status ask(const struct gy_driver *driver, int from, int to, gantry_link *link)
{
    CUdevice from_device, to_device;
    int can = 0, atomics = 0, rank = -1;
    gantry_status status = GY_DRIVER_CALL(driver, cuDeviceGet(&from_device, from));
    if (status == GANTRY_OK) {
        status = GY_DRIVER_CALL(driver, cuDeviceGet(&to_device, to));
    }
    if (status == GANTRY_OK) {
        status = GY_DRIVER_CALL(driver, cuDeviceCanAccessPeer(&can, from_device, to_device));
    }
    if (status == GANTRY_OK && can != 0) {
        status =
            GY_DRIVER_CALL(driver, cuDeviceGetP2PAttribute(&rank, CU_DEVICE_P2P_ATTRIBUTE_PERFORMANCE_RANK,
                                                           from_device, to_device));
    }
    if (status == GANTRY_OK && can != 0) {
        status = GY_DRIVER_CALL(
            driver, cuDeviceGetP2PAttribute(&atomics, CU_DEVICE_P2P_ATTRIBUTE_NATIVE_ATOMIC_SUPPORTED,
                                            from_device, to_device));
    }
    *link = (gantry_link){.struct_size = sizeof(*link),
                          .from = from,
                          .to = to,
                          .access = can != 0,
                          .atomics = atomics != 0,
                          .rank = rank};
    return status;
}

static gantry_status open_pair(gantry_driver_choice choice, int from, int to, const gantry_link *out,
                               const char *call, const struct gy_driver **driver)
{
    if (out == NULL || from == to) {
        return GY_FAIL(GANTRY_ERR_INVALID_ARGUMENT, "%s: %s", call,
                       out == NULL ? "out is NULL" : "a device has no link to itself");
    }
    gantry_status status = gy_driver_open(choice, driver);
    if (status != GANTRY_OK) {
        return status;
    }
    status = check_pair(*driver, from, to);
    if (status != GANTRY_OK) {
        gy_driver_close(*driver);
    }
    return status;
}

gantry_status gantry_link_get(gantry_driver_choice choice, int from, int to, gantry_link *out)
{
    const struct gy_driver *driver;
    gantry_link link = {0};
    gantry_status status = open_pair(choice, from, to, out, "gantry_link_get", &driver);
    if (status != GANTRY_OK) {
        return status;
    }
    status = ask(driver, from, to, &link);
    gy_driver_close(driver);
    return status == GANTRY_OK ? gy_stats_export(out, &link, sizeof(link), "gantry_link_get") : status;
}

/* ---- memory on both sides -------------------------------------------------------------------- */

/* Map memory of `to` for both devices; the context of `from` is current. */
static gantry_status map_dest(struct sides *s)
{
    CUmemAllocationProp what = {.type = CU_MEM_ALLOCATION_TYPE_PINNED,
                                .location = {CU_MEM_LOCATION_TYPE_DEVICE, (int)s->to->device}};
    CUmemAccessDesc access[] = {
        {{CU_MEM_LOCATION_TYPE_DEVICE, (int)s->from->device}, CU_MEM_ACCESS_FLAGS_PROT_READWRITE},
        {{CU_MEM_LOCATION_TYPE_DEVICE, (int)s->to->device}, CU_MEM_ACCESS_FLAGS_PROT_READWRITE}};
    gantry_status status = GY_CALL(s->from, cuMemAddressReserve(&s->dest, s->bytes, 0, 0, 0));
    if (status != GANTRY_OK) {
        return status;
    }
    status = GY_CALL(s->from, cuMemCreate(&s->handle, s->bytes, &what, 0));
    if (status != GANTRY_OK) {
        goto free_address;
    }
    status = GY_CALL(s->from, cuMemMap(s->dest, s->bytes, 0, s->handle, 0));
    if (status != GANTRY_OK) {
        goto release_memory;
    }
    status = GY_CALL(s->from, cuMemSetAccess(s->dest, s->bytes, access, 2));
    if (status == GANTRY_OK) {
        return GANTRY_OK;
    }
    (void)GY_CALL(s->from, cuMemUnmap(s->dest, s->bytes));
release_memory:
    (void)GY_CALL(s->from, cuMemRelease(s->handle));
    s->handle = 0;
free_address:
    (void)GY_CALL(s->from, cuMemAddressFree(s->dest, s->bytes));
    s->dest = 0;
    return status;
}

static gantry_status allocate_dest(struct sides *s)
{
    gantry_status status = gy_context_push(s->to);
    if (status == GANTRY_OK) {
        status = GY_CALL(s->to, cuMemAlloc(&s->dest, s->bytes));
        (void)gy_context_pop(s->to);
    }
    return status;
}

static void free_dest(struct sides *s)
{
    if (s->handle != 0) {
        (void)GY_CALL(s->from, cuMemUnmap(s->dest, s->bytes));
        (void)GY_CALL(s->from, cuMemRelease(s->handle));
        (void)GY_CALL(s->from, cuMemAddressFree(s->dest, s->bytes));
    } else if (s->dest != 0 && gy_context_push(s->to) == GANTRY_OK) {
        (void)GY_CALL(s->to, cuMemFree(s->dest));
        (void)gy_context_pop(s->to);
    }
}

/* ---- copies ---------------------------------------------------------------------------------- */

static gantry_status copy(const struct sides *s, size_t bytes)
{
    return s->handle != 0 ? GY_CALL(s->from, cuMemcpyDtoDAsync(s->dest, s->source, bytes, s->stream))
                          : GY_CALL(s->from, cuMemcpyPeerAsync(s->dest, s->to->native, s->source,
                                                               s->from->native, bytes, s->stream));
}

/* The least time of several rounds of `count` copies, in microseconds for each. */
static gantry_status time_copies(const struct sides *s, size_t bytes, uint32_t count, double *out_us)
{
    float least = 0;
    for (int round = 0; round <= ROUNDS; round++) { /* the first one does not count */
        float ms = 0;
        gantry_status status = GY_CALL(s->from, cuEventRecord(s->begin, s->stream));
        for (uint32_t i = 0; status == GANTRY_OK && i < count; i++) {
            status = copy(s, bytes);
        }
        if (status == GANTRY_OK) {
            status = GY_CALL(s->from, cuEventRecord(s->end, s->stream));
        }
        if (status == GANTRY_OK) {
            status = GY_CALL(s->from, cuEventSynchronize(s->end));
        }
        if (status == GANTRY_OK) {
            status = GY_CALL(s->from, cuEventElapsedTime(&ms, s->begin, s->end));
        }
        if (status != GANTRY_OK) {
            return status;
        }
        least = round == 1 || ms < least ? ms : least;
    }
    *out_us = (double)least * 1000 / count;
    return GANTRY_OK;
}

static gantry_status time_both(const struct sides *s, gantry_link *link)
{
    double large = 0, small = 0;
    gantry_status status = time_copies(s, s->bytes, 1, &large);
    if (status == GANTRY_OK) {
        status = time_copies(s, SMALL_BYTES, SMALL_COPIES, &small);
    }
    if (status == GANTRY_OK) {
        link->gb_per_s = large > 0 ? (double)s->bytes / (large * 1000) : 0;
        link->copy_us = small;
        link->measured = 1;
    }
    return status;
}

/* The context of `from` is current. */
static gantry_status measure_between(struct sides *s, gantry_link *link)
{
    bool maps = link->access != 0 && s->driver->cuMemSetAccess != NULL && s->driver->cuMemCreate != NULL;
    if (!maps && s->driver->cuMemcpyPeerAsync == NULL) {
        return GY_FAIL(GANTRY_ERR_UNSUPPORTED, "the driver has no copies between contexts");
    }
    gantry_status status = GY_CALL(s->from, cuMemAlloc(&s->source, s->bytes));
    if (status != GANTRY_OK) {
        return status;
    }
    status = maps ? map_dest(s) : allocate_dest(s);
    if (status == GANTRY_OK) {
        status = GY_CALL(s->from, cuStreamCreate(&s->stream, CU_STREAM_NON_BLOCKING));
    }
    if (status == GANTRY_OK) {
        status = GY_CALL(s->from, cuEventCreate(&s->begin, CU_EVENT_DEFAULT));
    }
    if (status == GANTRY_OK) {
        status = GY_CALL(s->from, cuEventCreate(&s->end, CU_EVENT_DEFAULT));
    }
    if (status == GANTRY_OK) {
        status = time_both(s, link);
    }
    if (s->end != NULL) {
        (void)GY_CALL(s->from, cuEventDestroy(s->end));
    }
    if (s->begin != NULL) {
        (void)GY_CALL(s->from, cuEventDestroy(s->begin));
    }
    if (s->stream != NULL) {
        (void)GY_CALL(s->from, cuStreamSynchronize(s->stream));
        (void)GY_CALL(s->from, cuStreamDestroy(s->stream));
    }
    free_dest(s);
    (void)GY_CALL(s->from, cuMemFree(s->source));
    return status;
}

static gantry_status open_device(const struct gy_driver *driver, int ordinal, struct gy_context **out)
{
    char device[16];
    gantry_context_options options = GANTRY_CONTEXT_OPTIONS_INIT;
    snprintf(device, sizeof(device), "%d", ordinal);
    options.driver = driver->emulated ? GANTRY_DRIVER_EMULATED : GANTRY_DRIVER_CUDA;
    options.device = device;
    return gy_context_open(&options, out);
}

static gantry_status measure(struct sides *s, gantry_link *link)
{
    gantry_status status = open_device(s->driver, link->from, &s->from);
    if (status != GANTRY_OK) {
        return status;
    }
    status = open_device(s->driver, link->to, &s->to);
    if (status != GANTRY_OK) {
        goto close_from;
    }
    status = gy_context_push(s->from);
    if (status == GANTRY_OK) {
        status = measure_between(s, link);
        (void)gy_context_pop(s->from);
    }
    gy_context_close(s->to);
close_from:
    gy_context_close(s->from);
    return status;
}

gantry_status gantry_link_measure(gantry_driver_choice choice, int from, int to, uint64_t bytes,
                                  gantry_link *out)
{
    struct sides sides = {.bytes = (size_t)(bytes + GRANULE_BYTES - 1) & ~(GRANULE_BYTES - 1)};
    gantry_link link = {0};
    if (bytes < LEAST_BYTES || bytes > (uint64_t)1 << 40) {
        return GY_FAIL(GANTRY_ERR_INVALID_ARGUMENT, "gantry_link_measure: %llu bytes are %s",
                       (unsigned long long)bytes, bytes < LEAST_BYTES ? "less than 64 KiB" : "too many");
    }
    gantry_status status = open_pair(choice, from, to, out, "gantry_link_measure", &sides.driver);
    if (status != GANTRY_OK) {
        return status;
    }
    status = ask(sides.driver, from, to, &link);
    if (status == GANTRY_OK) {
        status = measure(&sides, &link);
    }
    gy_driver_close(sides.driver);
    return status == GANTRY_OK ? gy_stats_export(out, &link, sizeof(link), "gantry_link_measure") : status;
}
