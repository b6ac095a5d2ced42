/* SPDX-License-Identifier: MIT */
/* `gantry bench heap`: what a block of memory costs.
 *
 * A pair is a block taken and given back.  One run takes some blocks and gives them back in the order in
 * which they were taken, several times.  Yardsticks: for device memory the driver's own pool
 * (cuMemAllocAsync, which keeps all it has) and its plain allocation, for page-locked memory the driver's
 * own call, for host memory malloc.  With several threads the figure is the time that each of them sees.
 * The rest is in bench_heap_work.c: a trace of tensors, freeing after a stream, and what a large free does
 * to others while the device is busy.  On the emulated driver the driver's side shows what emulation costs,
 * not what a device does. */
#include "bench/bench_heap.h"

#include "cli/messages.h"

#include <gantry/heap.h>

#include <dlfcn.h>
#include <pthread.h>
#include <stdlib.h>
#include <string.h>

#define MOST_BLOCKS 64u
#define MOST_THREADS 16u

struct worker {
    struct heap_bench *bench;
    CUstream stream;
    bool theirs; /* set before a run */
    bool good;
    void *blocks[MOST_BLOCKS];
    pthread_t thread;
};

struct heap_bench {
    struct bench_heap_context *context;
    gantry_memory_kind kind;
    size_t bytes;
    uint32_t burst;  /* blocks taken before the first is given back */
    uint32_t rounds; /* how often that is done in a run */
    uint32_t yardstick_rounds;
    bool plain; /* the yardstick is cuMemAlloc although there is a pool */
    uint64_t live_before;
    struct worker workers[MOST_THREADS]; /* the first is the main thread */
    uint32_t threads;
    pthread_barrier_t begin, end; /* of a run, with several threads */
    bool stop;                    /* written before `begin` */
};

/* ---- ours ---------------------------------------------------------------------------------- */

static bool run_ours_once(struct worker *worker)
{
    struct heap_bench *bench = worker->bench;
    gantry_alloc_site site = GANTRY_ALLOC_SITE("bench heap");
    for (uint32_t round = 0; round < bench->rounds; round++) {
        for (uint32_t i = 0; i < bench->burst; i++) {
            if (!bench_heap_ok(gantry_heap_alloc(bench->context->heap, bench->kind, bench->bytes, 0, site,
                                                 &worker->blocks[i]))) {
                return false;
            }
        }
        for (uint32_t i = 0; i < bench->burst; i++) {
            if (!bench_heap_ok(gantry_heap_free(bench->context->heap, worker->blocks[i]))) {
                return false;
            }
        }
    }
    return true;
}

static bool count_live(struct heap_bench *bench, uint64_t *out)
{
    gantry_heap_stats stats = {.struct_size = sizeof(stats)};
    if (!bench_heap_ok(gantry_heap_get_stats(bench->context->heap, bench->kind, &stats))) {
        return false;
    }
    *out = stats.block_count;
    return true;
}

static bool prepare_ours(void *arg)
{
    struct heap_bench *bench = arg;
    return count_live(bench, &bench->live_before);
}

static int compare_addresses(const void *a, const void *b)
{
    uintptr_t left = (uintptr_t)(*(void *const *)a);
    uintptr_t right = (uintptr_t)(*(void *const *)b);
    return (left > right) - (left < right);
}

/* The blocks of a thread's last round did not overlap. */
static bool blocks_were_apart(struct heap_bench *bench)
{
    bool apart = true;
    for (uint32_t t = 0; t < bench->threads; t++) {
        void **blocks = bench->workers[t].blocks;
        qsort(blocks, bench->burst, sizeof(blocks[0]), compare_addresses);
        for (uint32_t i = 1; i < bench->burst; i++) {
            apart = apart && (uintptr_t)blocks[i] - (uintptr_t)blocks[i - 1] >= bench->bytes;
        }
        apart = apart && blocks[0] != NULL;
    }
    return apart;
}

static bool verify_ours(void *arg)
{
    struct heap_bench *bench = arg;
    uint64_t live;
    return blocks_were_apart(bench) && count_live(bench, &live) && live == bench->live_before;
}

/* ---- the driver, malloc -------------------------------------------------------------------- */

static bool use_pool(const struct heap_bench *bench)
{
    return !bench->plain && bench->context->cuda.cuMemAllocAsync != NULL;
}

static bool take(struct worker *worker, void **out)
{
    struct heap_bench *bench = worker->bench;
    struct raw_cuda *cuda = &bench->context->cuda;
    CUdeviceptr address = 0;
    bool worked;
    switch (bench->kind) {
    case GANTRY_MEMORY_DEVICE:
        worked = use_pool(bench) ? RAW(cuda, cuMemAllocAsync(&address, bench->bytes, worker->stream))
                                 : RAW(cuda, cuMemAlloc(&address, bench->bytes));
        *out = (void *)(uintptr_t)address;
        return worked;
    case GANTRY_MEMORY_PINNED:
        return RAW(cuda, cuMemHostAlloc(out, bench->bytes, 0));
    default:
        *out = malloc(bench->bytes);
        return *out != NULL;
    }
}

static bool give(struct worker *worker, void *block)
{
    struct heap_bench *bench = worker->bench;
    struct raw_cuda *cuda = &bench->context->cuda;
    CUdeviceptr address = (CUdeviceptr)(uintptr_t)block;
    switch (bench->kind) {
    case GANTRY_MEMORY_DEVICE:
        return use_pool(bench) ? RAW(cuda, cuMemFreeAsync(address, worker->stream))
                               : RAW(cuda, cuMemFree(address));
    case GANTRY_MEMORY_PINNED:
        return RAW(cuda, cuMemFreeHost(block));
    default:
        free(block);
        return true;
    }
}

static bool run_theirs_once(struct worker *worker)
{
    struct heap_bench *bench = worker->bench;
    for (uint32_t round = 0; round < bench->yardstick_rounds; round++) {
        for (uint32_t i = 0; i < bench->burst; i++) {
            if (!take(worker, &worker->blocks[i])) {
                return false;
            }
        }
        for (uint32_t i = 0; i < bench->burst; i++) {
            if (!give(worker, worker->blocks[i])) {
                return false;
            }
        }
    }
    return true;
}

static bool verify_theirs(void *arg)
{
    return blocks_were_apart(arg);
}

/* ---- threads ------------------------------------------------------------------------------- */

static void work_once(struct worker *worker)
{
    worker->good = worker->theirs ? run_theirs_once(worker) : run_ours_once(worker);
}

static void *work(void *arg)
{
    struct worker *worker = arg;
    struct heap_bench *bench = worker->bench;
    bool entered = bench_heap_ok(gantry_context_acquire(bench->context->context));
    for (;;) {
        (void)pthread_barrier_wait(&bench->begin);
        if (bench->stop) {
            break;
        }
        work_once(worker);
        worker->good = worker->good && entered;
        (void)pthread_barrier_wait(&bench->end);
    }
    if (entered) {
        (void)gantry_context_release(bench->context->context);
    }
    return NULL;
}

static bool run_all(struct heap_bench *bench, bool theirs)
{
    for (uint32_t t = 0; t < bench->threads; t++) {
        bench->workers[t].theirs = theirs;
    }
    if (bench->threads > 1) {
        (void)pthread_barrier_wait(&bench->begin);
    }
    work_once(&bench->workers[0]);
    if (bench->threads > 1) {
        (void)pthread_barrier_wait(&bench->end);
    }
    bool good = true;
    for (uint32_t t = 0; t < bench->threads; t++) {
        good = good && bench->workers[t].good;
    }
    return good;
}

static bool run_ours(void *arg)
{
    return run_all(arg, false);
}

static bool run_theirs(void *arg)
{
    return run_all(arg, true);
}

/* ---- cases --------------------------------------------------------------------------------- */

struct pair_case {
    const char *name;
    gantry_memory_kind kind;
    size_t bytes;
    uint32_t burst, rounds;
    uint32_t slow_rounds; /* runs of a yardstick that is too slow for as many as ours; 0: it makes as many */
    bool plain;
    const char *yardstick;
};

static bool run_case(struct heap_bench *bench, const struct bench_options *options,
                     const struct pair_case *pair)
{
    bench->kind = pair->kind;
    bench->bytes = pair->bytes;
    bench->burst = pair->burst;
    bench->rounds = pair->rounds;
    bench->yardstick_rounds = pair->slow_rounds != 0 ? pair->slow_rounds : pair->rounds;
    bench->plain = pair->plain;
    const char *yardstick = pair->yardstick;
    if (yardstick == NULL) {
        yardstick = bench->context->cuda.cuMemAllocAsync != NULL ? "cuMemAllocAsync" : "cuMemAlloc";
    }
    struct bench_case one = {
        .name = pair->name,
        .item = "pair",
        .items = (uint64_t)pair->burst * pair->rounds,
        .yardstick_items = (uint64_t)pair->burst * bench->yardstick_rounds,
        .ours = {.prepare = prepare_ours, .run = run_ours, .verify = verify_ours},
        .yardstick = {.name = yardstick, .run = run_theirs, .verify = verify_theirs},
        .arg = bench,
    };
    return bench_run(options, &one, NULL);
}

static bool run_single(struct heap_bench *bench, const struct bench_options *options)
{
    static const struct pair_case cases[] = {
        {"heap/device-256", GANTRY_MEMORY_DEVICE, 256, 64, 16, 0, false, NULL},
        {"heap/device-4k", GANTRY_MEMORY_DEVICE, 4096, 64, 16, 0, false, NULL},
        {"heap/device-64k", GANTRY_MEMORY_DEVICE, 65536, 64, 16, 0, false, NULL},
        {"heap/device-1m", GANTRY_MEMORY_DEVICE, 1048576, 64, 16, 0, false, NULL},
        {"heap/device-64m", GANTRY_MEMORY_DEVICE, 67108864, 1, 1024, 0, false, NULL},
        {"heap/device-64m-burst", GANTRY_MEMORY_DEVICE, 67108864, 8, 128, 0, false, NULL},
        {"heap/device-4k-plain", GANTRY_MEMORY_DEVICE, 4096, 16, 64, 1, true, "cuMemAlloc"},
        {"heap/device-64m-plain", GANTRY_MEMORY_DEVICE, 67108864, 8, 128, 1, true, "cuMemAlloc"},
        {"heap/pinned-4k", GANTRY_MEMORY_PINNED, 4096, 16, 64, 1, false, "cuMemHostAlloc"},
        {"heap/pinned-64k", GANTRY_MEMORY_PINNED, 65536, 16, 64, 1, false, "cuMemHostAlloc"},
        {"heap/host-256", GANTRY_MEMORY_HOST, 256, 64, 16, 0, false, "malloc"},
        {"heap/host-64k", GANTRY_MEMORY_HOST, 65536, 64, 16, 0, false, "malloc"},
    };
    bool good = true;
    bench->threads = 1;
    for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
        good &= run_case(bench, options, &cases[i]);
    }
    return good;
}

static bool run_threads(struct heap_bench *bench, const struct bench_options *options, uint32_t threads,
                        const struct pair_case *cases, size_t count)
{
    bool good = pthread_barrier_init(&bench->begin, NULL, threads) == 0 &&
                pthread_barrier_init(&bench->end, NULL, threads) == 0;
    bench->stop = false;
    for (bench->threads = 1; good && bench->threads < threads; bench->threads++) {
        struct worker *worker = &bench->workers[bench->threads];
        good = pthread_create(&worker->thread, NULL, work, worker) == 0;
    }
    if (!good) {
        fputs("bench heap: cannot start threads\n", stderr);
        exit(EXIT_FAILURE); /* the threads that did start would wait for ever */
    }
    for (size_t i = 0; i < count; i++) {
        good &= run_case(bench, options, &cases[i]);
    }
    bench->stop = true;
    (void)pthread_barrier_wait(&bench->begin);
    while (bench->threads > 1) {
        pthread_join(bench->workers[--bench->threads].thread, NULL);
    }
    pthread_barrier_destroy(&bench->begin);
    pthread_barrier_destroy(&bench->end);
    return good;
}

static bool run_all_threads(struct heap_bench *bench, const struct bench_options *options)
{
    static const struct pair_case eight[] = {
        {"heap/device-256-8-threads", GANTRY_MEMORY_DEVICE, 256, 16, 256, 0, false, NULL},
        {"heap/device-4k-8-threads", GANTRY_MEMORY_DEVICE, 4096, 16, 256, 0, false, NULL},
        {"heap/device-64k-8-threads", GANTRY_MEMORY_DEVICE, 65536, 16, 256, 0, false, NULL},
        {"heap/device-1m-8-threads", GANTRY_MEMORY_DEVICE, 1048576, 16, 256, 0, false, NULL},
    };
    static const struct pair_case sixteen[] = {
        {"heap/device-4k-16-threads", GANTRY_MEMORY_DEVICE, 4096, 16, 256, 0, false, NULL},
        {"heap/device-64k-16-threads", GANTRY_MEMORY_DEVICE, 65536, 16, 256, 0, false, NULL},
    };
    bool good = run_threads(bench, options, 8, eight, sizeof(eight) / sizeof(eight[0]));
    return run_threads(bench, options, 16, sixteen, sizeof(sixteen) / sizeof(sixteen[0])) && good;
}

/* A stream of its own for every thread's yardstick. */
static bool open_workers(struct heap_bench *bench)
{
    for (uint32_t t = 0; t < MOST_THREADS; t++) {
        bench->workers[t].bench = bench;
        if (!RAW(&bench->context->cuda, cuStreamCreate(&bench->workers[t].stream, CU_STREAM_NON_BLOCKING))) {
            return false;
        }
    }
    return true;
}

static void close_workers(struct heap_bench *bench)
{
    for (uint32_t t = 0; t < MOST_THREADS && bench->workers[t].stream != NULL; t++) {
        (void)RAW(&bench->context->cuda, cuStreamDestroy(bench->workers[t].stream));
    }
}

/* ---- set-up -------------------------------------------------------------------------------- */

bool bench_heap_ok(gantry_status status)
{
    if (status != GANTRY_OK) {
        cli_error("bench heap: %s", gantry_last_error());
    }
    return status == GANTRY_OK;
}

/* Make the driver's pool keep what it has, as a serious program would: otherwise the pool gives everything
 * back at every synchronisation.  These two calls are not in Gantry's own table. */
static void keep_pool(struct bench_heap_context *context, bool emulated)
{
    CUresult (*get_pool)(void **pool, CUdevice device) = NULL;
    CUresult (*set_attribute)(void *pool, int attribute, void *value) = NULL;
    enum { RELEASE_THRESHOLD = 4 };
    void *library = dlopen(emulated ? "libgantry-emu.so" : "libcuda.so.1", RTLD_NOW | RTLD_NOLOAD);
    void *get = library != NULL ? dlsym(library, "cuDeviceGetDefaultMemPool") : NULL;
    void *set = library != NULL ? dlsym(library, "cuMemPoolSetAttribute") : NULL;
    memcpy(&get_pool, &get, sizeof(get));
    memcpy(&set_attribute, &set, sizeof(set));
    CUdevice device;
    void *pool;
    uint64_t all = UINT64_MAX;
    if (get_pool == NULL || set_attribute == NULL || !RAW(&context->cuda, cuCtxGetDevice(&device)) ||
        get_pool(&pool, device) != CUDA_SUCCESS ||
        set_attribute(pool, RELEASE_THRESHOLD, &all) != CUDA_SUCCESS) {
        if (!emulated) {
            fputs("bench heap: the driver's pool could not be told to keep its memory\n", stderr);
        }
    }
}

static bool bench_heap(const struct bench_options *options)
{
    struct bench_heap_context context = {.context = NULL};
    struct heap_bench bench = {.context = &context};
    gantry_context_options ours = GANTRY_CONTEXT_OPTIONS_INIT;
    ours.driver = options->driver;
    gantry_device_info info = {.struct_size = sizeof(info)};
    if (!bench_heap_ok(gantry_context_create(&ours, &context.context))) {
        return false;
    }
    context.heap = gantry_context_heap(context.context);
    bool good = bench_heap_ok(gantry_context_device_info(context.context, &info)) &&
                raw_cuda_open(context.context, &context.cuda) &&
                bench_heap_ok(gantry_context_acquire(context.context));
    if (good) {
        context.emulated = info.emulated;
        keep_pool(&context, info.emulated);
        good = open_workers(&bench) && run_single(&bench, options) && run_all_threads(&bench, options);
        close_workers(&bench);
        good = good && bench_heap_trace(&context, options) && bench_heap_training(&context, options) &&
               bench_heap_free_after(&context, options) && bench_heap_stall(&context, options);
        (void)gantry_context_release(context.context);
    }
    gantry_context_destroy(context.context);
    return good;
}

const struct gantry_bench gantry_bench_heap = {
    .name = "heap",
    .summary = "taking and giving back memory, against the driver and malloc",
    .help = "  KIND-SIZE            a block taken and given back, against the driver's pool, its plain call, "
            "or malloc\n"
            "  KIND-SIZE-8-threads  what each of eight threads sees\n"
            "  trace                the sizes and lifetimes of a model's tensors\n"
            "  trace-slabs          of those: memory held per byte in use\n"
            "  training             four threads that train a model, each on its own stream, against the "
            "driver's "
            "pool\n"
            "  training-slowest     the slowest operation of these after the first passes\n"
            "  training-slabs       memory held per byte in use, all threads together\n"
            "  free-after-SIZE      freeing behind the work on a stream\n"
            "  stall-64m            how long a large free holds up others while the device is busy\n",
    .main = bench_heap,
};
