/* SPDX-License-Identifier: MIT */
/* Part of `gantry bench fleet`: a chain of short kernels from device to device, against events by hand.
 *
 * A kernel at its head holds the chain back until all of it is enqueued.  So only the devices' part is
 * timed: from the release of the chain to its end, divided by the number of hops. */
#include "bench/fleet_pair.h"

#include "hop_kernels.kernels.h"

#include <stdlib.h>

enum { HOPS = 200, LEAST_HOPS = 20 };
#define MOST_NS UINT64_C(2000000000) /* the chain is held back for so long at most, whatever goes wrong */

struct hop {
    struct fleet_pair pair;
    gantry_kernel *gates[FLEET_PAIR], *links[FLEET_PAIR];
    uint32_t *open;           /* page-locked; 0: the chain is held back */
    void *open_on_device;     /* its address on the device */
    void *counts[FLEET_PAIR]; /* on each device: how many of its links have run */
    CUevent events[HOPS + 1];
    uint32_t hops;
    uint64_t runs;
};

/* ---- ours --------------------------------------------------------------------------------------- */

static gantry_launch_result launched(gantry_status status)
{
    return status == GANTRY_OK ? GANTRY_LAUNCH_DONE : GANTRY_LAUNCH_FAILED;
}

static const gantry_dim3 one = {1, 1, 1};

static gantry_launch_result launch_gate(gantry_launch *launch, void *arg)
{
    struct hop *h = arg;
    uint64_t most = MOST_NS;
    void *args[] = {&h->open_on_device, &most};
    return launched(gantry_launch_kernel(launch, h->gates[0], one, one, 0, args));
}

static gantry_launch_result launch_link(gantry_launch *launch, void *arg)
{
    struct hop *h = arg;
    const uint32_t device = gantry_launch_context(launch) == h->pair.contexts[1];
    void *args[] = {&h->counts[device]};
    return launched(gantry_launch_kernel(launch, h->links[device], one, one, 0, args));
}

/* The gate on the first device, then a link on the second one, on the first, on the second … */
static bool build(struct hop *h)
{
    gantry_task *last = NULL;
    bool good = true;
    for (uint32_t i = 0; i <= h->hops && good; i++) {
        gantry_task_desc desc = GANTRY_TASK_DESC_INIT;
        gantry_task *task;
        desc.kind = GANTRY_TASK_KERNEL;
        desc.label = i == 0 ? "gate" : "link";
        desc.launch = i == 0 ? launch_gate : launch_link;
        desc.arg = h;
        desc.context = h->pair.contexts[i % FLEET_PAIR];
        good = bench_pair_ok(gantry_taskman_submit(h->pair.manager, &desc, &task)) &&
               (last == NULL || bench_pair_ok(gantry_task_start_after(task, last)));
        last = task;
    }
    return good && bench_pair_ok(gantry_taskman_freeze(h->pair.manager));
}

static void close_gate(struct hop *h)
{
    __atomic_store_n(h->open, 0, __ATOMIC_RELEASE);
}

/* gantry_taskman_stop() returns when the tasks are launched, not when the device is done. */
static bool prepare_ours(void *arg)
{
    struct hop *h = arg;
    h->runs++;
    close_gate(h);
    return bench_pair_ok(gantry_taskman_run(h->pair.manager, 1));
}

/* ---- by hand ------------------------------------------------------------------------------------ */

static bool enqueue(struct hop *h, uint32_t i)
{
    struct raw_cuda *cuda = &h->pair.cuda;
    const uint32_t device = i % FLEET_PAIR;
    CUstream stream = h->pair.streams[device];
    uint64_t most = MOST_NS;
    void *gate_args[] = {&h->open_on_device, &most}, *link_args[] = {&h->counts[device]};
    CUfunction kernel = gantry_kernel_native(i == 0 ? h->gates[0] : h->links[device]);
    if (!bench_pair_enter(&h->pair, device)) {
        return false;
    }
    bool good = (i == 0 || RAW(cuda, cuStreamWaitEvent(stream, h->events[i - 1], 0))) &&
                RAW(cuda, cuLaunchKernel(kernel, 1, 1, 1, 1, 1, 1, 0, stream, i == 0 ? gate_args : link_args,
                                         NULL)) &&
                RAW(cuda, cuEventRecord(h->events[i], stream));
    bench_pair_leave(&h->pair, device);
    return good;
}

static bool prepare_by_hand(void *arg)
{
    struct hop *h = arg;
    bool good = true;
    h->runs++;
    close_gate(h);
    for (uint32_t i = 0; i <= h->hops && good; i++) {
        good = enqueue(h, i);
    }
    return good;
}

/* ---- both --------------------------------------------------------------------------------------- */

/* Let the chain go, and wait for its last link.  That link is on the first device, because the number of
 * hops is even. */
static bool run_ours(void *arg)
{
    struct hop *h = arg;
    __atomic_store_n(h->open, 1, __ATOMIC_RELEASE);
    return bench_pair_ok(gantry_context_synchronize(h->pair.contexts[0]));
}

static bool run_by_hand(void *arg)
{
    struct hop *h = arg;
    __atomic_store_n(h->open, 1, __ATOMIC_RELEASE);
    return RAW(&h->pair.cuda, cuEventSynchronize(h->events[h->hops]));
}

static bool verify(void *arg)
{
    struct hop *h = arg;
    bool good = bench_pair_settle(&h->pair);
    for (uint32_t d = 0; d < FLEET_PAIR && good; d++) {
        uint32_t count = 0;
        good = bench_pair_enter(&h->pair, d);
        if (good) {
            good = RAW(&h->pair.cuda,
                       cuMemcpyDtoH(&count, (CUdeviceptr)(uintptr_t)h->counts[d], sizeof(count))) &&
                   count == (uint32_t)(h->runs * h->hops / FLEET_PAIR);
            bench_pair_leave(&h->pair, d);
        }
    }
    return good;
}

static bool open_device(struct hop *h, uint32_t d)
{
    const uint32_t zero = 0;
    gantry_module *module;
    if (!bench_pair_ok(gantry_module_load(h->pair.contexts[d], &gantry_image_hop_kernels, &module)) ||
        !bench_pair_ok(gantry_module_get_kernel(module, "hop_gate", &h->gates[d])) ||
        !bench_pair_ok(gantry_module_get_kernel(module, "hop_link", &h->links[d])) ||
        !bench_pair_ok(gantry_heap_alloc(h->pair.heaps[d], GANTRY_MEMORY_DEVICE, sizeof(zero), 0,
                                         GANTRY_ALLOC_SITE("count"), &h->counts[d])) ||
        !bench_pair_enter(&h->pair, d)) {
        return false;
    }
    bool good = raw_cuda_upload(&h->pair.cuda, h->counts[d], &zero, sizeof(zero));
    for (uint32_t i = d; i <= HOPS && good; i += FLEET_PAIR) {
        good = RAW(&h->pair.cuda, cuEventCreate(&h->events[i], CU_EVENT_DISABLE_TIMING));
    }
    bench_pair_leave(&h->pair, d);
    return good;
}

static bool open_hop(struct hop *h, const struct bench_options *options)
{
    void *open = NULL;
    if (!bench_pair_open(&h->pair, options)) {
        return false;
    }
    bool good = bench_pair_ok(gantry_heap_alloc(h->pair.heaps[0], GANTRY_MEMORY_PINNED, sizeof(uint32_t), 0,
                                                GANTRY_ALLOC_SITE("gate"), &open));
    h->open = open;
    return good && bench_pair_ok(gantry_heap_device_address(h->pair.heaps[0], open, &h->open_on_device)) &&
           open_device(h, 0) && open_device(h, 1);
}

static void close_hop(struct hop *h)
{
    for (uint32_t d = 0; d < FLEET_PAIR; d++) {
        if (h->counts[d] != NULL) {
            (void)bench_pair_ok(gantry_heap_free(h->pair.heaps[d], h->counts[d]));
        }
        for (uint32_t i = d; i <= HOPS; i += FLEET_PAIR) {
            if (h->events[i] != NULL && bench_pair_enter(&h->pair, d)) {
                (void)RAW(&h->pair.cuda, cuEventDestroy(h->events[i]));
                bench_pair_leave(&h->pair, d);
            }
        }
    }
    if (h->open != NULL) {
        (void)bench_pair_ok(gantry_heap_free(h->pair.heaps[0], h->open));
    }
    bench_pair_close(&h->pair);
}

bool bench_fleet_hop(const struct bench_options *options)
{
    struct hop *h = calloc(1, sizeof(*h));
    if (h == NULL) {
        return false;
    }
    h->hops = options->emulated ? LEAST_HOPS : HOPS;
    const struct bench_case chain = {
        .name = "fleet/hop",
        .item = "hop",
        .items = h->hops,
        .pairs = 1,
        .ours = {.prepare = prepare_ours, .run = run_ours, .verify = verify},
        .yardstick = {.name = "events", .prepare = prepare_by_hand, .run = run_by_hand, .verify = verify},
        .arg = h,
    };
    bool good = open_hop(h, options) && build(h) && bench_run(options, &chain, NULL);
    if (h->open != NULL) {
        __atomic_store_n(h->open, 1, __ATOMIC_RELEASE);
    }
    close_hop(h);
    free(h);
    return good;
}
