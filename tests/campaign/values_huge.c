/* SPDX-License-Identifier: MIT */
/* Copies and fills whose lengths have more than 32 bits.  They take little memory: a range of 4 GiB has the
 * same 4 MiB again and again, and only what lies behind these 4 GiB, the tail, is looked at. */
#include "tests/campaign/values_huge.h"

#include "context/context.h"
#include "tests/campaign/values_launch.h"

#include <string.h>

#define BODY ((size_t)4 << 20)
#define BODIES 1024
#define TAIL ((size_t)2 << 20)
#define RANGE (BODY * BODIES + TAIL)
enum { LOOKED_AT = 4096, MORE = 1000 };
_Static_assert(BODY *BODIES == (size_t)1 << 32, "the tail begins where 32 bits end");

struct range {
    CUdeviceptr base;
    CUmemGenericAllocationHandle body, tail;
};

static struct {
    const struct gy_driver *driver;
    struct range ranges[2]; /* the copy's target, and its source, which is filled then */
    size_t bytes;
    bool in_batch;
} h;

static void must(CUresult result, const char *what)
{
    if (result != CUDA_SUCCESS) {
        value_broken("more than 4 GiB: %s: %d", what, (int)result);
    }
}

/* ---- memory --------------------------------------------------------------------------------------- */

static void create(CUmemGenericAllocationHandle *out, size_t bytes, CUdevice device)
{
    CUmemAllocationProp property;
    memset(&property, 0, sizeof(property));
    property.type = CU_MEM_ALLOCATION_TYPE_PINNED;
    property.location.type = CU_MEM_LOCATION_TYPE_DEVICE;
    property.location.id = device;
    must(h.driver->cuMemCreate(out, bytes, &property, 0), "cuMemCreate");
}

static void open_range(struct range *range, CUdevice device)
{
    CUmemAccessDesc access;
    memset(&access, 0, sizeof(access));
    access.location.type = CU_MEM_LOCATION_TYPE_DEVICE;
    access.location.id = device;
    access.flags = CU_MEM_ACCESS_FLAGS_PROT_READWRITE;
    must(h.driver->cuMemAddressReserve(&range->base, RANGE, 0, 0, 0), "cuMemAddressReserve");
    create(&range->body, BODY, device);
    create(&range->tail, TAIL, device);
    for (uint32_t i = 0; i < BODIES; i++) {
        must(h.driver->cuMemMap(range->base + i * BODY, BODY, 0, range->body, 0), "cuMemMap");
    }
    must(h.driver->cuMemMap(range->base + BODIES * BODY, TAIL, 0, range->tail, 0), "cuMemMap");
    must(h.driver->cuMemSetAccess(range->base, RANGE, &access, 1), "cuMemSetAccess");
}

static void close_range(const struct range *range)
{
    for (uint32_t i = 0; i < BODIES; i++) {
        must(h.driver->cuMemUnmap(range->base + i * BODY, BODY), "cuMemUnmap");
    }
    must(h.driver->cuMemUnmap(range->base + BODIES * BODY, TAIL), "cuMemUnmap");
    must(h.driver->cuMemRelease(range->body), "cuMemRelease");
    must(h.driver->cuMemRelease(range->tail), "cuMemRelease");
    must(h.driver->cuMemAddressFree(range->base, RANGE), "cuMemAddressFree");
}

/* ---- a step --------------------------------------------------------------------------------------- */

static gantry_launch_result launch_both(gantry_launch *launch, void *arg)
{
    void *to = (void *)(uintptr_t)h.ranges[0].base, *from = (void *)(uintptr_t)h.ranges[1].base;
    const gantry_copy_desc desc = {to, from, h.bytes, GANTRY_COPY_DTOD, 0, 0};
    (void)arg;
    gantry_status status = h.in_batch ? gantry_copy_launch(launch, &desc, 1)
                                      : gantry_launch_copy_dtod(launch, to, from, h.bytes);
    if (status == GANTRY_OK) {
        status = gantry_launch_fill(launch, from, 0x5a, 1, h.bytes);
    }
    if (status != GANTRY_OK) {
        value_broken("%zu bytes: %s: %s", h.bytes, gantry_status_name(status), gantry_last_error());
    }
    return GANTRY_LAUNCH_DONE;
}

static void run(gantry_context *context, gantry_taskman *manager)
{
    gantry_task_desc desc = GANTRY_TASK_DESC_INIT;
    desc.kind = GANTRY_TASK_KERNEL;
    desc.launch = launch_both;
    desc.label = "more than 4 GiB";
    gantry_status status = gantry_taskman_submit(manager, &desc, NULL);
    status = status == GANTRY_OK ? gantry_taskman_start(manager) : status;
    status = status == GANTRY_OK ? gantry_taskman_stop(manager) : status;
    status = status == GANTRY_OK ? gantry_taskman_reset(manager) : status;
    status = status == GANTRY_OK ? gantry_context_synchronize(context) : status;
    if (status != GANTRY_OK) {
        value_broken("%zu bytes: %s: %s", h.bytes, gantry_status_name(status), gantry_last_error());
    }
}

/* Copy, and then fill the source: `more` bytes, or so many behind 4 GiB. */
static void step(gantry_context *context, gantry_taskman *manager, size_t more, bool is_huge)
{
    uint8_t before[2][LOOKED_AT], after[2][LOOKED_AT];
    for (uint32_t i = 0; i < 2; i++) {
        memset(before[i], 0x11 * (int)(i + 1), LOOKED_AT);
        must(h.driver->cuMemcpyHtoD(h.ranges[i].base + BODIES * BODY, before[i], LOOKED_AT), "cuMemcpyHtoD");
    }
    must(h.driver->cuCtxSynchronize(), "cuCtxSynchronize");
    h.bytes = more + (is_huge ? BODIES * BODY : 0);
    run(context, manager);
    if (is_huge) {
        memset(before[0], 0x22, more);
        memset(before[1], 0x5a, more);
    }
    for (uint32_t i = 0; i < 2; i++) {
        must(h.driver->cuMemcpyDtoH(after[i], h.ranges[i].base + BODIES * BODY, LOOKED_AT), "cuMemcpyDtoH");
        for (uint32_t k = 0; k < LOOKED_AT; k++) {
            if (after[i][k] != before[i][k]) {
                value_broken("%s of %zu bytes: byte %u behind 4 GiB is %02x, not %02x",
                             i == 0 ? "a copy" : "a fill", h.bytes, k, after[i][k], before[i][k]);
            }
        }
    }
}

static void set_submission(gantry_context *context, gantry_submission submission)
{
    if (gantry_dispatcher_set_submission(gantry_context_dispatcher(context), submission) != GANTRY_OK) {
        value_broken("submission: %s", gantry_last_error());
    }
}

/* A graph that is made with such lengths, and one that is patched to them. */
void values_run_huge(gantry_context *context, gantry_taskman *manager)
{
    const struct gy_context *cuda = context->cuda;
    CUcontext popped;
    h.driver = cuda->driver;
    if (h.driver->cuMemAddressReserve == NULL || h.driver->cuMemCreate == NULL ||
        h.driver->cuMemMap == NULL || h.driver->cuMemSetAccess == NULL) {
        return;
    }
    must(h.driver->cuCtxPushCurrent(cuda->native), "cuCtxPushCurrent");
    open_range(&h.ranges[0], cuda->device);
    open_range(&h.ranges[1], cuda->device);
    set_submission(context, GANTRY_SUBMISSION_STREAMS);
    step(context, manager, MORE, true);
    set_submission(context, GANTRY_SUBMISSION_GRAPHS);
    step(context, manager, MORE + 1, true);
    step(context, manager, MORE + 2, false);
    step(context, manager, MORE + 3, true);
    h.in_batch = true;
    step(context, manager, MORE + 4, true);
    h.in_batch = false;
    close_range(&h.ranges[0]);
    close_range(&h.ranges[1]);
    must(h.driver->cuCtxPopCurrent(&popped), "cuCtxPopCurrent");
}
