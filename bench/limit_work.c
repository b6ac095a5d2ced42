/* SPDX-License-Identifier: MIT */
/* Work for tools/limit_figures.py: a program of the driver API that knows nothing of Gantry's library.  It
 * runs with a limit or without one, and its kernels tell themselves when they ran.
 *
 *     gantry-limit-work run PATTERN NS ROUNDS SECONDS FILE
 *         keep the device busy with kernels of NS; or, where ROUNDS is not 0, of so many rounds, which take
 *         about NS
 *     gantry-limit-work job NS SECONDS FILE
 *         the same, a few at a time: FILE grows as they end
 *     gantry-limit-work light PER NS HOST_NS SECONDS
 *         again and again: PER kernels, a wait, HOST_NS of the host's; PER 0: one kernel and HOST_NS, without
 *         a wait
 *     gantry-limit-work cost PART
 *         what calls take, with 1/PART of the usual number of calls
 *     gantry-limit-work leave
 *         exit while the device works
 *
 * PATTERN is streams, streams4, graph, cooperative or thread.  FILE gets pairs of times, ns of the device's
 * clock.  What else was found is printed as one line of JSON. */
#include "driver/cuda_abi.h"
#include "driver/funcs.h"
#include "limit_kernels.kernels.h"

#include <dlfcn.h>
#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

enum { STREAMS = 4, ROOM = 1 << 18, TAIL = 2, COST_ROUNDS = 15 };

static struct {
#define F(need, member, symbol, prototype) CUresult(*member) prototype;
    GY_DRIVER_FUNCS(F)
#undef F
    CUresult (*cooperative)(CUfunction, unsigned, unsigned, unsigned, unsigned, unsigned, unsigned, unsigned,
                            CUstream, void **);
    CUresult (*thread_launch)(CUfunction, unsigned, unsigned, unsigned, unsigned, unsigned, unsigned,
                              unsigned, CUstream, void **, void **);
    CUresult (*thread_synchronize)(CUstream);
} cu;

static CUfunction busy, empty;
static unsigned multiprocessors, threads; /* of a launch */
static uint64_t init_ns;

/* ---- the driver ---------------------------------------------------------------------------------- */

static void expect(CUresult result, const char *call)
{
    if (result != CUDA_SUCCESS) {
        fprintf(stderr, "gantry-limit-work: %s: CUresult %d\n", call, (int)result);
        exit(1);
    }
}
#define OK(call) expect(cu.call, #call)

static uint64_t now(void)
{
    struct timespec t;
    clock_gettime(CLOCK_MONOTONIC, &t);
    return (uint64_t)t.tv_sec * UINT64_C(1000000000) + (uint64_t)t.tv_nsec;
}

/* POSIX lets dlsym()'s void * be a function's address; ISO C wants it copied. */
static void bind(void *library, const char *symbol, void *out)
{
    void *address = dlsym(library, symbol);
    memcpy(out, &address, sizeof(address));
}

static void open_driver(void)
{
    CUcontext context;
    CUmodule module;
    int count;
    void *library = dlopen("libcuda.so.1", RTLD_NOW);
    if (library == NULL) {
        fprintf(stderr, "gantry-limit-work: %s\n", dlerror());
        exit(77);
    }
#define F(need, member, symbol, prototype) bind(library, #symbol, &cu.member);
    GY_DRIVER_FUNCS(F)
#undef F
    bind(library, "cuLaunchCooperativeKernel", &cu.cooperative);
    bind(library, "cuLaunchKernel_ptsz", &cu.thread_launch);
    bind(library, "cuStreamSynchronize_ptsz", &cu.thread_synchronize);
    const bool is_emulated = dlopen("libgantry-emu.so", RTLD_NOW | RTLD_NOLOAD) != NULL ||
                             dlsym(library, "cuStandInOfTheFuture") != NULL;
    const gantry_module_image *image = &gantry_image_limit_kernels;
    const uint64_t begin = now();
    OK(cuInit(0));
    init_ns = now() - begin;
    OK(cuDevicePrimaryCtxRetain(&context, 0));
    OK(cuCtxSetCurrent(context));
    OK(cuModuleLoadDataEx(&module,
                          is_emulated             ? image->host
                          : image->fatbin != NULL ? image->fatbin
                                                  : image->ptx,
                          0, NULL, NULL));
    OK(cuModuleGetFunction(&busy, module, "limit_busy"));
    OK(cuModuleGetFunction(&empty, module, "limit_empty"));
    OK(cuDeviceGetAttribute(&count, CU_DEVICE_ATTRIBUTE_MULTIPROCESSOR_COUNT, 0));
    multiprocessors = is_emulated ? 2 : (unsigned)count;
    threads = is_emulated ? 1 : 32;
}

/* ---- launches ------------------------------------------------------------------------------------ */

struct lane {
    CUstream stream;
    CUdeviceptr records, tail;
    CUgraphExec graph; /* NULL: none */
};

enum pattern { PATTERN_STREAMS, PATTERN_STREAMS4, PATTERN_GRAPH, PATTERN_COOPERATIVE, PATTERN_THREAD };
static const char *const pattern_names[] = {"streams", "streams4", "graph", "cooperative", "thread"};

static void launch(const struct lane *lane, enum pattern pattern, uint64_t rounds, uint64_t ns)
{
    uint64_t room = ROOM;
    CUdeviceptr records = lane->records, tail = lane->tail;
    void *args[] = {&records, &tail, &room, &rounds, &ns};
    if (lane->graph != NULL) {
        OK(cuGraphLaunch(lane->graph, lane->stream));
    } else if (pattern == PATTERN_COOPERATIVE) {
        OK(cooperative(busy, multiprocessors, 1, 1, threads, 1, 1, 0, lane->stream, args));
    } else if (pattern == PATTERN_THREAD) {
        OK(thread_launch(busy, 1, 1, 1, threads, 1, 1, 0, NULL, args, NULL));
    } else {
        OK(cuLaunchKernel(busy, 1, 1, 1, threads, 1, 1, 0, lane->stream, args, NULL));
    }
}

/* A graph of that many kernels, one after the other. */
static CUgraphExec record(const struct lane *lane, CUfunction function, unsigned nodes, void **args)
{
    CUgraph graph;
    CUgraphExec exec;
    OK(cuStreamBeginCapture(lane->stream, CU_STREAM_CAPTURE_MODE_GLOBAL));
    for (unsigned i = 0; i < nodes; i++) {
        OK(cuLaunchKernel(function, 1, 1, 1, threads, 1, 1, 0, lane->stream, args, NULL));
    }
    OK(cuStreamEndCapture(lane->stream, &graph));
    OK(cuGraphInstantiateWithFlags(&exec, graph, 0));
    OK(cuGraphDestroy(graph));
    return exec;
}

static CUgraphExec record_busy(const struct lane *lane, unsigned nodes, uint64_t rounds, uint64_t ns)
{
    uint64_t room = ROOM;
    CUdeviceptr records = lane->records, tail = lane->tail;
    void *args[] = {&records, &tail, &room, &rounds, &ns};
    return record(lane, busy, nodes, args);
}

static struct lane open_lane(enum pattern pattern)
{
    struct lane lane = {.stream = (CUstream)(uintptr_t)2};
    if (pattern != PATTERN_THREAD) {
        OK(cuStreamCreate(&lane.stream, CU_STREAM_NON_BLOCKING));
    }
    OK(cuMemAlloc(&lane.records, (size_t)ROOM * 2 * sizeof(uint64_t)));
    OK(cuMemAlloc(&lane.tail, TAIL * sizeof(uint64_t)));
    OK(cuMemsetD32Async(lane.tail, 0, TAIL * 2, lane.stream));
    OK(cuStreamSynchronize(lane.stream));
    return lane;
}

/* Append what the lane has recorded since `*done` records. */
static void save(const struct lane *lane, uint64_t *done, FILE *file)
{
    uint64_t tail[TAIL];
    OK(cuMemcpyDtoH(tail, lane->tail, sizeof(tail)));
    if (tail[0] - *done > ROOM) {
        fprintf(stderr, "gantry-limit-work: %llu kernels, and room for %d\n",
                (unsigned long long)(tail[0] - *done), ROOM);
        exit(1);
    }
    uint64_t *pairs = malloc((size_t)ROOM * 2 * sizeof(uint64_t));
    while (pairs != NULL && *done < tail[0]) {
        const uint64_t at = *done % ROOM, behind = ROOM - at, left = tail[0] - *done;
        const uint64_t count = left < behind ? left : behind;
        OK(cuMemcpyDtoH(pairs, lane->records + at * 16, count * 16));
        if (fwrite(pairs, 16, count, file) != count) {
            exit(1);
        }
        *done += count;
    }
    free(pairs);
    fflush(file);
}

static FILE *open_file(const char *path)
{
    FILE *file = fopen(path, "wb");
    if (file == NULL) {
        perror(path);
        exit(1);
    }
    return file;
}

/* ---- modes ---------------------------------------------------------------------------------------- */

/* Between 25 and 50 ms are queued, so that the device always has work and the end comes soon. */
static void run(enum pattern pattern, uint64_t ns, uint64_t rounds, double seconds, const char *path)
{
    const int count = pattern == PATTERN_STREAMS4 ? STREAMS : 1;
    const uint64_t kernel_ns = rounds > 0 ? 0 : ns; /* else it is what the rounds should take */
    const unsigned nodes = pattern != PATTERN_GRAPH ? 1 : ns < 100000 ? 50 : ns < 2000000 ? 4 : 1;
    const uint64_t length = (ns > 10000 ? ns : 10000) * nodes;
    const uint64_t batch = length < 25000000 ? 25000000 / length : 1;
    struct lane lanes[STREAMS];
    CUevent marks[2][STREAMS];
    FILE *file = open_file(path);
    uint64_t launched = 0, batches = 0;
    for (int i = 0; i < count; i++) {
        lanes[i] = open_lane(pattern);
        lanes[i].graph = pattern == PATTERN_GRAPH ? record_busy(&lanes[i], nodes, rounds, kernel_ns) : NULL;
        for (int k = 0; k < 2; k++) {
            OK(cuEventCreate(&marks[k][i], CU_EVENT_DISABLE_TIMING));
        }
    }
    const uint64_t begin = now();
    while ((double)(now() - begin) < seconds * 1e9) {
        for (uint64_t k = 0; k < batch; k++) {
            for (int i = 0; i < count; i++) {
                launch(&lanes[i], pattern, rounds, kernel_ns);
            }
        }
        launched += batch * (uint64_t)count * nodes;
        for (int i = 0; i < count; i++) {
            OK(cuEventRecord(marks[batches % 2][i], lanes[i].stream));
            if (batches > 0) {
                OK(cuEventSynchronize(marks[(batches + 1) % 2][i]));
            }
        }
        batches++;
    }
    OK(cuCtxSynchronize());
    for (int i = 0; i < count; i++) {
        uint64_t done = 0;
        save(&lanes[i], &done, file);
    }
    fclose(file);
    printf("{\"kernels\": %llu, \"seconds\": %.6f}\n", (unsigned long long)launched,
           (double)(now() - begin) / 1e9);
}

static void run_job(uint64_t ns, double seconds, const char *path)
{
    const struct lane lane = open_lane(PATTERN_STREAMS);
    FILE *file = open_file(path);
    uint64_t done = 0;
    const uint64_t begin = now();
    while ((double)(now() - begin) < seconds * 1e9) {
        for (int i = 0; i < 8; i++) {
            launch(&lane, PATTERN_STREAMS, 0, ns);
        }
        OK(cuStreamSynchronize(lane.stream));
        save(&lane, &done, file);
    }
    fclose(file);
    printf("{\"kernels\": %llu}\n", (unsigned long long)done);
}

static void work_on_host(uint64_t ns)
{
    const uint64_t begin = now();
    while (now() - begin < ns) {
    }
}

static void run_light(uint64_t per, uint64_t ns, uint64_t host_ns, double seconds)
{
    enum { WARM_NS = 300000000, EAGER = 1000 };
    const struct lane lane = open_lane(PATTERN_STREAMS);
    uint64_t kernels = 0, begin = now(), warm = begin;
    bool is_warm = false;
    while ((double)(now() - begin) < seconds * 1e9 || !is_warm) {
        for (uint64_t i = 0; i < (per == 0 ? EAGER : per); i++) {
            launch(&lane, PATTERN_STREAMS, 0, ns);
            kernels++;
            if (per == 0) {
                work_on_host(host_ns);
            }
        }
        OK(cuStreamSynchronize(lane.stream));
        work_on_host(per == 0 ? 0 : host_ns);
        if (!is_warm && now() - warm > WARM_NS) {
            is_warm = true;
            begin = now();
            kernels = 0;
        }
    }
    printf("{\"kernels_per_s\": %.3f}\n", (double)kernels * 1e9 / (double)(now() - begin));
}

/* Launch and leave: what exit() finds is under way. */
static void run_leave(void)
{
    const struct lane lane = open_lane(PATTERN_STREAMS);
    for (int i = 0; i < 200; i++) {
        launch(&lane, PATTERN_STREAMS, 0, 100000);
    }
    printf("{\"left\": true}\n");
}

/* ---- costs ---------------------------------------------------------------------------------------- */

static int compare(const void *a, const void *b)
{
    const double x = *(const double *)a, y = *(const double *)b;
    return x < y ? -1 : x > y ? 1 : 0;
}

static void print_cost(const char *name, double *times)
{
    qsort(times, COST_ROUNDS, sizeof(*times), compare);
    printf(", \"%s\": [%.1f, %.1f]", name, times[0], times[COST_ROUNDS / 2]);
}

static CUgraphExec ten;

static void launch_empty(const struct lane *lane)
{
    CUdeviceptr nothing = 0;
    void *args[] = {&nothing};
    OK(cuLaunchKernel(empty, 1, 1, 1, threads, 1, 1, 0, lane->stream, args, NULL));
}

/* The time of one of `count` calls: of the calls alone, or of all until the device is done. */
static double time_of(const struct lane *lane, int kind, int count)
{
    const uint64_t begin = now();
    for (int i = 0; i < count; i++) {
        switch (kind) {
        case 0:
            launch_empty(lane);
            break;
        case 1:
            launch_empty(lane);
            OK(cuStreamSynchronize(lane->stream));
            break;
        case 2:
            OK(cuGraphLaunch(ten, lane->stream));
            break;
        case 3:
            launch(lane, PATTERN_STREAMS, 0, 20000);
            break;
        default:
            (void)cu.cuStreamQuery(lane->stream);
            break;
        }
    }
    const uint64_t called = now();
    OK(cuStreamSynchronize(lane->stream));
    return (double)((kind == 3 ? called : now()) - begin) / count;
}

static void run_cost(int part)
{
    static const char *const names[] = {"launch_ns", "synchronised_ns", "graph_of_10_ns", "call_20us_ns",
                                        "query_ns"};
    static const int counts[] = {5000, 2000, 2000, 200, 20000};
    const struct lane lane = open_lane(PATTERN_STREAMS);
    CUdeviceptr nothing = 0;
    void *args[] = {&nothing};
    ten = record(&lane, empty, 10, args);
    printf("{\"init_ns\": %llu", (unsigned long long)init_ns);
    for (int kind = 0; kind < 5; kind++) {
        const int count = counts[kind] / part > 0 ? counts[kind] / part : 1;
        double times[COST_ROUNDS];
        (void)time_of(&lane, kind, count);
        for (int i = 0; i < COST_ROUNDS; i++) {
            times[i] = time_of(&lane, kind, count);
        }
        print_cost(names[kind], times);
    }
    printf("}\n");
}

static uint64_t number(const char *text)
{
    return strtoull(text, NULL, 10);
}

int main(int argc, char **argv)
{
    const char *mode = argc > 1 ? argv[1] : "";
    int pattern = 0;
    if (strcmp(mode, "run") == 0 && argc == 7) {
        while (pattern < PATTERN_THREAD && strcmp(argv[2], pattern_names[pattern]) != 0) {
            pattern++;
        }
        open_driver();
        run((enum pattern)pattern, number(argv[3]), number(argv[4]), strtod(argv[5], NULL), argv[6]);
    } else if (strcmp(mode, "job") == 0 && argc == 5) {
        open_driver();
        run_job(number(argv[2]), strtod(argv[3], NULL), argv[4]);
    } else if (strcmp(mode, "light") == 0 && argc == 6) {
        open_driver();
        run_light(number(argv[2]), number(argv[3]), number(argv[4]), strtod(argv[5], NULL));
    } else if (strcmp(mode, "cost") == 0 && argc == 3 && number(argv[2]) > 0) {
        open_driver();
        run_cost((int)number(argv[2]));
    } else if (strcmp(mode, "leave") == 0 && argc == 2) {
        open_driver();
        run_leave();
    } else {
        fprintf(stderr, "gantry-limit-work: how it is called is said at the top of bench/limit_work.c\n");
        return 2;
    }
    return 0;
}
