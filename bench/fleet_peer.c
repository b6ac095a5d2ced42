/* SPDX-License-Identifier: MIT */
/* Part of `gantry bench fleet`: copies from one device to another in a task, against the same calls by hand.
 *
 * A kernel before the copies holds them back until all are enqueued, and both sides wait in the same way:
 * what is timed is the device's part, and one wait. */
#include "bench/fleet_pair.h"

#include "hop_kernels.kernels.h"

#include <stdlib.h>
#include <string.h>

struct peer {
    struct fleet_pair pair;
    void *from, *to; /* on the first and on the second device */
    uint32_t *host;  /* page-locked, `bytes` */
    size_t bytes;
    uint32_t copies;
    gantry_kernel *gate;  /* on the first device */
    uint32_t *open;       /* page-locked; 0: the copies are held back */
    void *open_on_device; /* its address there */
};

#define MOST_NS UINT64_C(2000000000) /* that the copies are held back, whatever goes wrong */

static void close_gate(struct peer *p)
{
    __atomic_store_n(p->open, 0, __ATOMIC_RELEASE);
}

/* Let the copies go, and wait for them; of both sides. */
static bool run(void *arg)
{
    struct peer *p = arg;
    __atomic_store_n(p->open, 1, __ATOMIC_RELEASE);
    return bench_pair_ok(gantry_context_synchronize(p->pair.contexts[0]));
}

/* ---- ours --------------------------------------------------------------------------------------- */

static gantry_launch_result launch_copies(gantry_launch *launch, void *arg)
{
    struct peer *p = arg;
    const gantry_dim3 one = {1, 1, 1};
    uint64_t most = MOST_NS;
    void *args[] = {&p->open_on_device, &most};
    gantry_status status = gantry_launch_kernel(launch, p->gate, one, one, 0, args);
    for (uint32_t i = 0; i < p->copies && status == GANTRY_OK; i++) {
        status = gantry_launch_copy_dtod(launch, p->to, p->from, p->bytes);
    }
    return status == GANTRY_OK ? GANTRY_LAUNCH_DONE : GANTRY_LAUNCH_FAILED;
}

static bool build(struct peer *p)
{
    gantry_task_desc desc = GANTRY_TASK_DESC_INIT;
    gantry_task *task;
    desc.kind = GANTRY_TASK_KERNEL;
    desc.label = "copies";
    desc.launch = launch_copies;
    desc.arg = p;
    desc.context = p->pair.contexts[0];
    return bench_pair_ok(gantry_taskman_submit(p->pair.manager, &desc, &task)) &&
           bench_pair_ok(gantry_taskman_freeze(p->pair.manager));
}

/* A run ends when its tasks are launched. */
static bool prepare_ours(void *arg)
{
    struct peer *p = arg;
    close_gate(p);
    return bench_pair_ok(gantry_taskman_run(p->pair.manager, 1));
}

/* ---- by hand ------------------------------------------------------------------------------------ */

static bool prepare_by_hand(void *arg)
{
    struct peer *p = arg;
    struct raw_cuda *cuda = &p->pair.cuda;
    uint64_t most = MOST_NS;
    void *args[] = {&p->open_on_device, &most};
    close_gate(p);
    if (!bench_pair_enter(&p->pair, 0)) {
        return false;
    }
    bool good = RAW(cuda, cuLaunchKernel(gantry_kernel_native(p->gate), 1, 1, 1, 1, 1, 1, 0,
                                         p->pair.streams[0], args, NULL));
    for (uint32_t i = 0; i < p->copies && good; i++) {
        good = RAW(cuda, cuMemcpyAsync((CUdeviceptr)(uintptr_t)p->to, (CUdeviceptr)(uintptr_t)p->from,
                                       p->bytes, p->pair.streams[0]));
    }
    bench_pair_leave(&p->pair, 0);
    return good;
}

/* ---- both --------------------------------------------------------------------------------------- */

static uint32_t word_at(size_t i)
{
    return (uint32_t)i * 2654435761u + 1;
}

/* Move the host's bytes to the source, or the target's to the host. */
static bool exchange(struct peer *p, bool out)
{
    struct raw_cuda *cuda = &p->pair.cuda;
    const uint32_t device = out ? 0 : 1;
    CUstream stream = p->pair.streams[device];
    if (!bench_pair_enter(&p->pair, device)) {
        return false;
    }
    bool good =
        out ? RAW(cuda, cuMemcpyHtoDAsync((CUdeviceptr)(uintptr_t)p->from, p->host, p->bytes, stream))
            : RAW(cuda, cuMemcpyDtoHAsync(p->host, (CUdeviceptr)(uintptr_t)p->to, p->bytes, stream)) &&
                  RAW(cuda, cuMemsetD8Async((CUdeviceptr)(uintptr_t)p->to, 0, p->bytes, stream));
    good = RAW(cuda, cuStreamSynchronize(stream)) && good;
    bench_pair_leave(&p->pair, device);
    return good;
}

/* Check that all words have arrived, and clear the target for the next run. */
static bool verify(void *arg)
{
    struct peer *p = arg;
    memset(p->host, 0, p->bytes);
    bool good = exchange(p, false);
    for (size_t i = 0; i < p->bytes / sizeof(uint32_t) && good; i++) {
        good = p->host[i] == word_at(i);
    }
    return good;
}

static bool take_gate(struct peer *p)
{
    gantry_module *module;
    void *open = NULL;
    bool good = bench_pair_ok(gantry_module_load(p->pair.contexts[0], &gantry_image_hop_kernels, &module)) &&
                bench_pair_ok(gantry_module_get_kernel(module, "hop_gate", &p->gate)) &&
                bench_pair_ok(gantry_heap_alloc(p->pair.heaps[0], GANTRY_MEMORY_PINNED, sizeof(uint32_t), 0,
                                                GANTRY_ALLOC_SITE("gate"), &open));
    p->open = open;
    return good && bench_pair_ok(gantry_heap_device_address(p->pair.heaps[0], open, &p->open_on_device));
}

static bool take(struct peer *p)
{
    void *host = NULL;
    gantry_alloc_site site = GANTRY_ALLOC_SITE("copied");
    bool good =
        take_gate(p) &&
        bench_pair_ok(gantry_heap_alloc(p->pair.heaps[0], GANTRY_MEMORY_PINNED, p->bytes, 0, site, &host)) &&
        bench_pair_ok(
            gantry_heap_alloc(p->pair.heaps[0], GANTRY_MEMORY_DEVICE, p->bytes, 0, site, &p->from)) &&
        bench_pair_ok(gantry_heap_alloc(p->pair.heaps[1], GANTRY_MEMORY_DEVICE, p->bytes, 0, site, &p->to));
    p->host = host;
    for (size_t i = 0; i < p->bytes / sizeof(uint32_t) && good; i++) {
        p->host[i] = word_at(i);
    }
    return good && exchange(p, true);
}

static void give_back(struct peer *p)
{
    void *const blocks[] = {p->host, p->from, p->open, p->to};
    for (int i = 0; i < 4; i++) {
        if (blocks[i] != NULL) {
            (void)bench_pair_ok(gantry_heap_free(p->pair.heaps[i == 3], blocks[i]));
        }
    }
}

static bool run_size(const struct bench_options *options, const char *name, size_t bytes, uint32_t copies)
{
    struct peer *p = calloc(1, sizeof(*p));
    if (p == NULL) {
        return false;
    }
    bool good = bench_pair_open(&p->pair, options);
    p->bytes = options->emulated ? 65536 : bytes;
    p->copies = options->emulated ? 4 : copies;
    const struct bench_case one = {
        .name = name,
        .item = "copy",
        .items = p->copies,
        .pairs = 1,
        .ours = {.prepare = prepare_ours, .run = run, .verify = verify},
        .yardstick = {.name = "cuMemcpyAsync", .prepare = prepare_by_hand, .run = run, .verify = verify},
        .arg = p,
    };
    good = good && take(p) && build(p) && bench_run(options, &one, NULL);
    if (p->open != NULL) {
        __atomic_store_n(p->open, 1, __ATOMIC_RELEASE);
    }
    good = (p->pair.manager == NULL || bench_pair_ok(gantry_taskman_reset(p->pair.manager))) && good;
    if (p->pair.heaps[1] != NULL) {
        give_back(p);
    }
    bench_pair_close(&p->pair);
    free(p);
    return good;
}

bool bench_fleet_peer(const struct bench_options *options)
{
    bool good = run_size(options, "fleet/copy-1MiB", (size_t)1 << 20, 256);
    good = run_size(options, "fleet/copy-16MiB", (size_t)16 << 20, 64) && good;
    return run_size(options, "fleet/copy-256MiB", (size_t)256 << 20, 16) && good;
}
