/* SPDX-License-Identifier: MIT */
/* The driver's and the system's sources of slab memory, one for each kind.
 *
 * DEVICE comes through virtual memory management where the driver has it: such memory can be given back
 * without stopping the device, and plain device memory cannot.  PINNED and WRITE_COMBINED are mapped into the
 * device and portable; their device address is asked for once per slab.  HOST is the system's.
 *
 * The calls run with the context current and in relaxed capture mode, so that a slab may be taken while
 * some thread captures a graph. */
#include "heap/backing.h"

#include "base/alloc.h"
#include "base/environment.h"
#include "heap/visit.h"

#include <sys/mman.h>

#define MOST_PEERS 64 /* bits of a set of devices */

static _Thread_local const char *refused; /* the call by which the driver last said that there is no memory */

const char *gy_backing_refused(void)
{
    const char *call = refused;
    refused = NULL;
    return call;
}

/* As GY_CALL(), but the caller judges what running out of memory means. */
static gantry_status check(struct gy_context *context, CUresult result, const char *call, int line)
{
    if (result == CUDA_ERROR_OUT_OF_MEMORY && !gy_context_is_lost(context)) {
        refused = call;
        return GANTRY_ERR_OUT_OF_DEVICE_MEMORY;
    }
    return gy_context_check(context, result, call, __FILE__, line);
}
#define TAKE_CALL(ctx, call) check((ctx), (ctx)->driver->call, #call, __LINE__)

gantry_status gy_visit_begin(struct gy_context *context, struct gy_visit *visit)
{
    *visit = (struct gy_visit){.pushed = false};
    gantry_status status = gy_context_push(context);
    visit->pushed = status == GANTRY_OK;
    visit->relaxed = gy_relaxed_begin(context); /* a failure is in the context */
    return status;
}

void gy_visit_end(struct gy_context *context, struct gy_visit *visit)
{
    (void)gy_relaxed_end(context, &visit->relaxed);
    if (visit->pushed) {
        (void)gy_context_pop(context);
    }
}

/* As gy_visit_begin(), for calls that take memory: a lost context gets none. */
static gantry_status enter_to_take(struct gy_context *context, struct gy_visit *visit)
{
    gantry_status status = gy_visit_begin(context, visit);
    if (status == GANTRY_ERR_OUT_OF_DEVICE_MEMORY) {
        refused = "cuCtxPushCurrent";
    }
    if (status == GANTRY_OK && gy_context_is_lost(context)) {
        status = gy_context_adopt_loss(context);
    }
    return status;
}

static uintptr_t align_up(uintptr_t address)
{
    return (address + GY_GRANULE_BYTES - 1) & ~(uintptr_t)(GY_GRANULE_BYTES - 1);
}

/* ---- device memory through virtual memory management ---- */

static CUmemAllocationProp device_property(const struct gy_context *context)
{
    return (CUmemAllocationProp){.type = CU_MEM_ALLOCATION_TYPE_PINNED,
                                 .location = {CU_MEM_LOCATION_TYPE_DEVICE, (int)context->device}};
}

static size_t unit_count(const struct gy_backing *backing)
{
    return (backing->bytes + backing->unit_bytes - 1) / backing->unit_bytes;
}

static size_t bytes_of_unit(const struct gy_backing *backing, size_t unit)
{
    size_t left = backing->bytes - unit * backing->unit_bytes;
    return left < backing->unit_bytes ? left : backing->unit_bytes;
}

/* Take away the memory of a unit, which may be mapped. */
static void drop_unit(struct gy_context *context, const struct gy_backing *backing, size_t unit)
{
    CUdeviceptr at = (CUdeviceptr)backing->base + unit * backing->unit_bytes;
    (void)GY_CALL(context, cuMemUnmap(at, bytes_of_unit(backing, unit)));
    (void)GY_CALL(context, cuMemRelease(backing->handles[unit]));
    backing->handles[unit] = 0;
}

static gantry_status add_unit(struct gy_context *context, const struct gy_backing *backing, size_t unit,
                              const CUmemAllocationProp *property)
{
    CUmemGenericAllocationHandle handle;
    size_t bytes = bytes_of_unit(backing, unit);
    gantry_status status = TAKE_CALL(context, cuMemCreate(&handle, bytes, property, 0));
    if (status != GANTRY_OK) {
        return status;
    }
    CUdeviceptr at = (CUdeviceptr)backing->base + unit * backing->unit_bytes;
    status = TAKE_CALL(context, cuMemMap(at, bytes, 0, handle, 0));
    if (status != GANTRY_OK) {
        (void)GY_CALL(context, cuMemRelease(handle));
        return status;
    }
    backing->handles[unit] = handle;
    return GANTRY_OK;
}

/* Let the context's device and its peers use the memory, in one call. */
static gantry_status grant(struct gy_context *context, const struct gy_backing *backing, uint64_t peers)
{
    CUmemAccessDesc access[MOST_PEERS + 1];
    size_t count = 0;
    access[count++] =
        (CUmemAccessDesc){device_property(context).location, CU_MEM_ACCESS_FLAGS_PROT_READWRITE};
    for (; peers != 0; peers &= peers - 1) {
        access[count++] = (CUmemAccessDesc){{CU_MEM_LOCATION_TYPE_DEVICE, __builtin_ctzll(peers)},
                                            CU_MEM_ACCESS_FLAGS_PROT_READWRITE};
    }
    return TAKE_CALL(context, cuMemSetAccess((CUdeviceptr)backing->base, backing->bytes, access, count));
}

static gantry_status map_units(struct gy_context *context, const struct gy_backing *backing,
                               const struct gy_backing_need *need)
{
    CUmemAllocationProp property = device_property(context);
    property.requestedHandleTypes = need->handles;
    gantry_status status = GANTRY_OK;
    size_t done = 0;
    while (status == GANTRY_OK && done < unit_count(backing)) {
        status = add_unit(context, backing, done, &property);
        done += status == GANTRY_OK;
    }
    if (status == GANTRY_OK) {
        status = grant(context, backing, need->peers);
    }
    while (status != GANTRY_OK && done > 0) {
        drop_unit(context, backing, --done);
    }
    return status;
}

static gantry_status map_current(struct gy_context *context, size_t bytes, const struct gy_backing_need *need,
                                 struct gy_backing *out)
{
    if (bytes > context->info.memory_bytes) { /* a table of that many handles would be a waste */
        return GANTRY_ERR_OUT_OF_DEVICE_MEMORY;
    }
    struct gy_backing got = {.bytes = bytes};
    got.unit_bytes = bytes > need->unit_bytes ? need->unit_bytes : bytes;
    got.handles = gy_zalloc_array(unit_count(&got), sizeof(got.handles[0]));
    if (got.handles == NULL) {
        return GANTRY_ERR_OUT_OF_HOST_MEMORY;
    }
    CUdeviceptr base;
    gantry_status status = TAKE_CALL(context, cuMemAddressReserve(&base, bytes, GY_GRANULE_BYTES, 0, 0));
    if (status != GANTRY_OK) {
        goto free_handles;
    }
    got.base = (uintptr_t)base;
    status = map_units(context, &got, need);
    if (status != GANTRY_OK) {
        goto free_address;
    }
    *out = got;
    return GANTRY_OK;
free_address:
    (void)GY_CALL(context, cuMemAddressFree(base, bytes));
free_handles:
    gy_free(got.handles);
    return status;
}

static gantry_status take_mapped(struct gy_context *context, size_t bytes, const struct gy_backing_need *need,
                                 struct gy_backing *out)
{
    struct gy_visit visit;
    gantry_status status = enter_to_take(context, &visit);
    if (status == GANTRY_OK) {
        status = map_current(context, bytes, need, out);
    }
    gy_visit_end(context, &visit);
    return status;
}

/* Such memory belongs to the process, not to the context: it must be given back after a loss, too. */
static void give_back_mapped(struct gy_context *context, const struct gy_backing *backing)
{
    struct gy_visit visit;
    (void)gy_visit_begin(context, &visit);
    for (size_t unit = 0; unit < unit_count(backing); unit++) {
        if (backing->handles[unit] != 0) {
            drop_unit(context, backing, unit);
        }
    }
    (void)GY_CALL(context, cuMemAddressFree((CUdeviceptr)backing->base, backing->bytes));
    gy_visit_end(context, &visit);
    gy_free(backing->handles);
}

static void give_back_units(struct gy_context *context, const struct gy_backing *backing, size_t offset,
                            size_t bytes)
{
    struct gy_visit visit;
    (void)gy_visit_begin(context, &visit);
    for (size_t unit = offset / backing->unit_bytes; unit * backing->unit_bytes < offset + bytes; unit++) {
        drop_unit(context, backing, unit);
    }
    gy_visit_end(context, &visit);
}

/* ---- plain device memory ---- */

static gantry_status allocate_device(struct gy_context *context, size_t bytes, struct gy_backing *out)
{
    CUdeviceptr address;
    gantry_status status = TAKE_CALL(context, cuMemAlloc(&address, bytes));
    if (status == GANTRY_OK) {
        out->raw = (uintptr_t)address;
    }
    return status;
}

static void release_device(struct gy_context *context, const struct gy_backing *backing)
{
    (void)GY_CALL(context, cuMemFree((CUdeviceptr)backing->raw));
}

/* ---- page-locked memory ---- */

static gantry_status allocate_pinned(struct gy_context *context, size_t bytes, unsigned int extra_flags,
                                     struct gy_backing *out)
{
    void *pointer;
    CUdeviceptr address;
    unsigned int flags = CU_MEMHOSTALLOC_DEVICEMAP | CU_MEMHOSTALLOC_PORTABLE | extra_flags;
    gantry_status status = TAKE_CALL(context, cuMemHostAlloc(&pointer, bytes, flags));
    if (status != GANTRY_OK) {
        return status;
    }
    status = TAKE_CALL(context, cuMemHostGetDevicePointer(&address, pointer, 0));
    if (status != GANTRY_OK) {
        (void)GY_CALL(context, cuMemFreeHost(pointer));
        return status;
    }
    out->raw = (uintptr_t)pointer;
    out->device_base = (uintptr_t)address;
    return GANTRY_OK;
}

static gantry_status allocate_cached(struct gy_context *context, size_t bytes, struct gy_backing *out)
{
    return allocate_pinned(context, bytes, 0, out);
}

static gantry_status allocate_combined(struct gy_context *context, size_t bytes, struct gy_backing *out)
{
    return allocate_pinned(context, bytes, CU_MEMHOSTALLOC_WRITECOMBINED, out);
}

static void release_pinned(struct gy_context *context, const struct gy_backing *backing)
{
    (void)GY_CALL(context, cuMemFreeHost((void *)backing->raw));
}

/* ---- aligning what the driver gives at any address ---- */

typedef gantry_status (*allocate_fn)(struct gy_context *context, size_t bytes, struct gy_backing *out);
typedef void (*release_fn)(struct gy_context *context, const struct gy_backing *backing);

/* Large allocations usually come aligned; only if one does not, take a granule more. */
static gantry_status allocate_aligned(struct gy_context *context, size_t bytes, allocate_fn allocate,
                                      release_fn release, struct gy_backing *out)
{
    struct gy_backing got = {0};
    gantry_status status = allocate(context, bytes, &got);
    if (status == GANTRY_OK && got.raw % GY_GRANULE_BYTES != 0) {
        release(context, &got);
        got = (struct gy_backing){0};
        status = bytes <= SIZE_MAX - GY_GRANULE_BYTES ? allocate(context, bytes + GY_GRANULE_BYTES, &got)
                                                      : GANTRY_ERR_OUT_OF_DEVICE_MEMORY;
    }
    if (status != GANTRY_OK) {
        return status;
    }
    got.base = align_up(got.raw);
    got.bytes = bytes;
    if (got.device_base != 0) {
        got.device_base += got.base - got.raw;
    }
    *out = got;
    return GANTRY_OK;
}

static gantry_status take_aligned(struct gy_context *context, size_t bytes, allocate_fn allocate,
                                  release_fn release, struct gy_backing *out)
{
    struct gy_visit visit;
    gantry_status status = enter_to_take(context, &visit);
    if (status == GANTRY_OK) {
        status = allocate_aligned(context, bytes, allocate, release, out);
    }
    gy_visit_end(context, &visit);
    return status;
}

static void give_back_plain(struct gy_context *context, const struct gy_backing *backing, release_fn release)
{
    struct gy_visit visit;
    (void)gy_visit_begin(context, &visit);
    release(context, backing);
    gy_visit_end(context, &visit);
}

static gantry_status take_device(struct gy_context *context, size_t bytes, const struct gy_backing_need *need,
                                 struct gy_backing *out)
{
    (void)need;
    return take_aligned(context, bytes, allocate_device, release_device, out);
}

static void give_back_device(struct gy_context *context, const struct gy_backing *backing)
{
    give_back_plain(context, backing, release_device);
}

static gantry_status take_cached(struct gy_context *context, size_t bytes, const struct gy_backing_need *need,
                                 struct gy_backing *out)
{
    (void)need;
    return take_aligned(context, bytes, allocate_cached, release_pinned, out);
}

static gantry_status take_combined(struct gy_context *context, size_t bytes,
                                   const struct gy_backing_need *need, struct gy_backing *out)
{
    (void)need;
    return take_aligned(context, bytes, allocate_combined, release_pinned, out);
}

static void give_back_pinned(struct gy_context *context, const struct gy_backing *backing)
{
    give_back_plain(context, backing, release_pinned);
}

/* ---- plain host memory ---- */

/* Slabs are whole huge pages, and data that is read here and there misses the TLB less in such.  But a system
 * may take long to make one, at the first touch, so this is done only where it was asked for. */
static void ask_for_huge_pages(uintptr_t base, size_t bytes)
{
    if (gy_environment_is_on("GANTRY_HUGE_PAGES")) {
        (void)madvise((void *)base, bytes, MADV_HUGEPAGE);
    }
}

static gantry_status take_host(struct gy_context *context, size_t bytes, const struct gy_backing_need *need,
                               struct gy_backing *out)
{
    (void)context;
    (void)need;
    if (bytes > SIZE_MAX - GY_GRANULE_BYTES || gy_fault_should_fail()) {
        return GANTRY_ERR_OUT_OF_HOST_MEMORY;
    }
    size_t reserved = bytes + GY_GRANULE_BYTES;
    void *mapped = mmap(NULL, reserved, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    if (mapped == MAP_FAILED) {
        return GANTRY_ERR_OUT_OF_HOST_MEMORY;
    }
    uintptr_t base = align_up((uintptr_t)mapped);
    size_t below = base - (uintptr_t)mapped;
    if (below > 0) {
        munmap(mapped, below);
    }
    munmap((void *)(base + bytes), GY_GRANULE_BYTES - below);
    ask_for_huge_pages(base, bytes);
    *out = (struct gy_backing){.base = base, .bytes = bytes};
    return GANTRY_OK;
}

static void give_back_host(struct gy_context *context, const struct gy_backing *backing)
{
    (void)context;
    munmap((void *)backing->base, backing->bytes);
}

/* ---- choice ---- */

/* Can virtual memory management serve slabs of any number of granules? */
static gantry_status can_map(struct gy_context *context, bool *out)
{
    const struct gy_driver *driver = context->driver;
    if (driver->cuMemGetAllocationGranularity == NULL || driver->cuMemAddressReserve == NULL ||
        driver->cuMemAddressFree == NULL || driver->cuMemCreate == NULL || driver->cuMemRelease == NULL ||
        driver->cuMemMap == NULL || driver->cuMemUnmap == NULL || driver->cuMemSetAccess == NULL) {
        *out = false;
        return GANTRY_OK;
    }
    int supported = 0;
    size_t granularity = 0;
    CUmemAllocationProp property = device_property(context);
    gantry_status status = GY_CALL(
        context, cuDeviceGetAttribute(&supported, CU_DEVICE_ATTRIBUTE_VIRTUAL_MEMORY_MANAGEMENT_SUPPORTED,
                                      context->device));
    if (status == GANTRY_OK && supported != 0) {
        status = GY_CALL(context, cuMemGetAllocationGranularity(&granularity, &property,
                                                                CU_MEM_ALLOC_GRANULARITY_MINIMUM));
    }
    if (status == GANTRY_OK) {
        *out = supported != 0 && granularity != 0 && GY_GRANULE_BYTES % granularity == 0;
    }
    return status;
}

gantry_status gy_backing_ops_for(gantry_memory_kind kind, struct gy_context *context,
                                 const struct gy_backing_ops **out)
{
    static const struct gy_backing_ops mapped = {take_mapped, give_back_mapped, give_back_units};
    static const struct gy_backing_ops device = {take_device, give_back_device, NULL};
    static const struct gy_backing_ops cached = {take_cached, give_back_pinned, NULL};
    static const struct gy_backing_ops combined = {take_combined, give_back_pinned, NULL};
    static const struct gy_backing_ops host = {take_host, give_back_host, NULL};
    gantry_status status = GANTRY_OK;
    bool use_mapped = false;
    switch (kind) {
    case GANTRY_MEMORY_DEVICE:
        status = can_map(context, &use_mapped);
        if (status == GANTRY_OK) {
            *out = use_mapped ? &mapped : &device;
        }
        return status;
    case GANTRY_MEMORY_PINNED:
        *out = &cached;
        return GANTRY_OK;
    case GANTRY_MEMORY_WRITE_COMBINED:
        *out = &combined;
        return GANTRY_OK;
    case GANTRY_MEMORY_HOST:
        break;
    }
    *out = &host;
    return GANTRY_OK;
}

/* Does the driver make memory for such handles?  It must be asked by trying: an H200 says that it has fabric
 * handles, and permits none. */
static CUresult try_handles(struct gy_context *context, CUmemAllocationHandleType handles)
{
    const struct gy_driver *driver = context->driver;
    CUmemAllocationProp property = device_property(context);
    CUmemGenericAllocationHandle handle;
    property.requestedHandleTypes = handles;
    const CUresult result = driver->cuMemCreate(&handle, GY_GRANULE_BYTES, &property, 0);
    if (result == CUDA_SUCCESS) {
        (void)GY_CALL(context, cuMemRelease(handle));
    }
    return result;
}

static gantry_status find_handles(struct gy_context *context, gantry_heap_handles wanted,
                                  CUmemAllocationHandleType *out)
{
    const CUmemAllocationHandleType fd = CU_MEM_HANDLE_TYPE_POSIX_FILE_DESCRIPTOR,
                                    fabric = CU_MEM_HANDLE_TYPE_FABRIC;
    const CUmemAllocationHandleType both = (CUmemAllocationHandleType)(fd | fabric);
    *out = wanted == GANTRY_HEAP_HANDLES_FD ? fd : wanted == GANTRY_HEAP_HANDLES_FABRIC ? fabric : both;
    CUresult result = try_handles(context, *out);
    if (gy_visit_is_refusal(context, result) && *out == both) {
        *out = fd;
        result = try_handles(context, fd);
    }
    if (!gy_visit_is_refusal(context, result)) { /* or memory is short, or the context lost */
        return gy_context_check(context, result, "cuMemCreate()", __FILE__, __LINE__);
    }
    return GY_FAIL(
        GANTRY_ERR_UNSUPPORTED,
        "gantry_heap_options: handles: device %d makes no memory for %s handles: the driver says %d "
        "(%s)%s",
        context->info.ordinal, *out == fabric ? "fabric" : "file descriptor", (int)result,
        gy_driver_result_name(context->driver, result),
        *out == fabric && result == CUDA_ERROR_NOT_PERMITTED
            ? "; they need the channels of NVIDIA's IMEX service; FD needs nothing"
            : "");
}

gantry_status gy_backing_find_handles(struct gy_context *context, gantry_heap_handles wanted,
                                      CUmemAllocationHandleType *out)
{
    bool maps = false;
    const struct gy_driver *driver = context->driver;
    if ((unsigned)wanted > GANTRY_HEAP_HANDLES_BEST) {
        return GY_FAIL(GANTRY_ERR_INVALID_ARGUMENT, "gantry_heap_options: handles is %d, which is unknown",
                       (int)wanted);
    }
    gantry_status status = can_map(context, &maps);
    if (status == GANTRY_OK && (!maps || driver->cuMemExportToShareableHandle == NULL)) {
        return GY_FAIL(GANTRY_ERR_UNSUPPORTED,
                       "gantry_heap_options: handles, but the driver exports no memory of device %d",
                       context->info.ordinal);
    }
    if (status != GANTRY_OK) {
        return status;
    }
    struct gy_visit visit;
    status = gy_visit_begin(context, &visit);
    if (status == GANTRY_OK) {
        status = find_handles(context, wanted, out);
    }
    gy_visit_end(context, &visit);
    return status;
}

static gantry_status check_peer(struct gy_context *context, int ordinal)
{
    CUdevice peer;
    int can = 0;
    gantry_status status = GY_CALL(context, cuDeviceGet(&peer, ordinal));
    if (status == GANTRY_OK && context->driver->cuDeviceCanAccessPeer != NULL) {
        status = GY_CALL(context, cuDeviceCanAccessPeer(&can, peer, context->device));
    }
    if (status == GANTRY_OK && can == 0) {
        return GY_FAIL(GANTRY_ERR_UNSUPPORTED,
                       "gantry_heap_options: device %d does not reach memory of device %d", ordinal,
                       context->info.ordinal);
    }
    return status;
}

gantry_status gy_backing_check_peers(struct gy_context *context, uint64_t peers, uint64_t *out)
{
    bool maps = false;
    int devices = 0;
    gantry_status status = can_map(context, &maps);
    if (status == GANTRY_OK && !maps) {
        return GY_FAIL(GANTRY_ERR_UNSUPPORTED,
                       "gantry_heap_options: peers, but the driver does not map memory of device %d",
                       context->info.ordinal);
    }
    if (status == GANTRY_OK) {
        status = GY_CALL(context, cuDeviceGetCount(&devices));
    }
    uint64_t there = devices < MOST_PEERS ? (UINT64_C(1) << devices) - 1 : UINT64_MAX;
    peers &= there & ~(UINT64_C(1) << context->info.ordinal);
    *out = peers;
    for (; status == GANTRY_OK && peers != 0; peers &= peers - 1) {
        status = check_peer(context, __builtin_ctzll(peers));
    }
    return status;
}
