/* Part of `gantry bench fleet`: copies from one device to another in a task, against the same calls by hand.
 */
#include "bench/fleet_pair.h"

#include <stdlib.h>
#include <string.h>

struct peer {
    struct fleet_pair pair;
    void *from, *to; /* on the first and on the second device */
    uint32_t *host;  /* page-locked, `bytes` */
    size_t bytes;
    uint32_t copies;
};

/* ---- ours --------------------------------------------------------------------------------------- */

static gantry_launch_result launch_copies(gantry_launch *launch, void *arg)
{
    struct peer *p = arg;
    gantry_status status = GANTRY_OK;
    for (uint32_t i = 0; i < p->copies && status == GANTRY_OK; i++) {
        status = gantry_launch_copy_dtod(launch, p->to, p->from, p->bytes);
    }
    return status == GANTRY_OK ? GANTRY_LAUNCH_DONE : GANTRY_LAUNCH_FAILED;
}

static bool build(struct peer *p)
{
    gantry_task_desc desc = GANTRY_TASK_DESC_INIT, end = GANTRY_TASK_DESC_INIT;
    gantry_task *task, *ended;
    desc.kind = GANTRY_TASK_KERNEL;
    desc.label = "copies";
    desc.launch = launch_copies;
    desc.arg = p;
    desc.context = p->pair.contexts[0];
    end.kind = GANTRY_TASK_SYNC_POINT;
    return bench_pair_ok(gantry_taskman_submit(p->pair.manager, &desc, &task)) &&
           bench_pair_ok(gantry_taskman_submit(p->pair.manager, &end, &ended)) &&
           bench_pair_ok(gantry_task_start_after_done(ended, task)) &&
           bench_pair_ok(gantry_taskman_freeze(p->pair.manager));
}

static bool run_ours(void *arg)
{
    return bench_pair_ok(gantry_taskman_run(((struct peer *)arg)->pair.manager, 1));
}

/* ---- by hand ------------------------------------------------------------------------------------ */

static bool run_by_hand(void *arg)
{
    struct peer *p = arg;
    struct raw_cuda *cuda = &p->pair.cuda;
    bool good = bench_pair_enter(&p->pair, 0);
    if (!good) {
        return false;
    }
    for (uint32_t i = 0; i < p->copies && good; i++) {
        good = RAW(cuda, cuMemcpyAsync((CUdeviceptr)(uintptr_t)p->to, (CUdeviceptr)(uintptr_t)p->from,
                                       p->bytes, p->pair.streams[0]));
    }
    good = RAW(cuda, cuStreamSynchronize(p->pair.streams[0])) && good;
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

static bool take(struct peer *p)
{
    void *host = NULL;
    gantry_alloc_site site = GANTRY_ALLOC_SITE("copied");
    bool good =
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
    void *const blocks[] = {p->host, p->from, p->to};
    for (int i = 0; i < 3; i++) {
        if (blocks[i] != NULL) {
            (void)bench_pair_ok(gantry_heap_free(p->pair.heaps[i == 2], blocks[i]));
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
        .ours = {.run = run_ours, .verify = verify},
        .yardstick = {.name = "cuMemcpyAsync", .run = run_by_hand, .verify = verify},
        .arg = p,
    };
    good = good && take(p) && build(p) && bench_run(options, &one, NULL);
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
    bool good = run_size(options, "fleet/copy-1MiB", (size_t)1 << 20, 1024);
    good = run_size(options, "fleet/copy-16MiB", (size_t)16 << 20, 128) && good;
    return run_size(options, "fleet/copy-256MiB", (size_t)256 << 20, 16) && good;
}
