/* SPDX-License-Identifier: MIT */
/* What a limit costs a program that it does not hold: calls of the driver through libgantry-limit.so against
 * the same calls without it, in turn in one process.  tools/limit_figures.py measures shares, and whole
 * programs. */
#include "bench/harness.h"
#include "bench/raw_cuda.h"

#include "cli/limit.h"
#include "cli/messages.h"
#include "limit/job.h"
#include "limit_kernels.kernels.h"

#include <dlfcn.h>
#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

enum { LAUNCHES = 2000, WAITS = 500, GRAPHS = 500, NODES = 10, THREADS = 32 };

/* The calls of one side. */
struct calls {
    CUresult (*launch)(CUfunction, unsigned, unsigned, unsigned, unsigned, unsigned, unsigned, unsigned,
                       CUstream, void **, void **);
    CUresult (*launch_graph)(CUgraphExec, CUstream);
    CUresult (*synchronize)(CUstream);
};

struct limited {
    struct raw_cuda cuda;
    CUfunction kernel;
    CUstream stream;
    CUgraphExec graph;
    struct calls through, bare;
};

/* POSIX lets dlsym()'s void * be a function's address; ISO C wants it copied. */
static bool is_wrapped(void *(*find)(void *, const char *), void *driver, const char *name, void *bare,
                       void *out)
{
    void *found = find(driver, name);
    memcpy(out, &found, sizeof(found));
    return found != NULL && found != bare;
}

/* The library as it is in a program whose job has a share of 100 percent. */
static bool open_library(struct limited *l, bool emulated)
{
    const struct gy_region_settings settings = {
        .share = GY_REGION_WHOLE, .devices = UINT32_MAX, .credit_ms = 1000};
    char path[PATH_MAX], job[GY_REGION_PATH_BYTES], text[GY_REGION_TEXT_BYTES], name[64];
    void *(*find)(void *, const char *) = NULL;
    snprintf(name, sizeof(name), "bench-%d", (int)getpid());
    if (!cli_limit_library(path, sizeof(path)) || !gy_region_path(name, job, sizeof(job))) {
        cli_error("bench: limit: there is no %s", path);
        return false;
    }
    (void)gy_job_print(text, sizeof(text), &settings);
    (void)setenv("GANTRY_LIMIT_JOB", job, 1); /* the library reads both when it is loaded */
    (void)setenv("GANTRY_LIMIT_SETTINGS", text, 1);
    void *library = dlopen(path, RTLD_NOW);
    (void)unsetenv("GANTRY_LIMIT_JOB");
    (void)unsetenv("GANTRY_LIMIT_SETTINGS");
    void *driver = dlopen(emulated ? "libgantry-emu.so" : "libcuda.so.1", RTLD_NOW | RTLD_NOLOAD);
    void *door = library != NULL ? dlsym(library, "dlsym") : NULL;
    memcpy(&find, &door, sizeof(door));
    void *bare[3];
    memcpy(&bare[0], &l->bare.launch, sizeof(void *));
    memcpy(&bare[1], &l->bare.launch_graph, sizeof(void *));
    memcpy(&bare[2], &l->bare.synchronize, sizeof(void *));
    if (driver == NULL || find == NULL ||
        !is_wrapped(find, driver, "cuLaunchKernel", bare[0], &l->through.launch) ||
        !is_wrapped(find, driver, "cuGraphLaunch", bare[1], &l->through.launch_graph) ||
        !is_wrapped(find, driver, "cuStreamSynchronize", bare[2], &l->through.synchronize)) {
        cli_error("bench: limit: %s does not take the driver's place", path);
        return false;
    }
    return true;
}

static bool launch(const struct limited *l, const struct calls *calls)
{
    CUdeviceptr nothing = 0;
    void *args[] = {&nothing};
    return calls->launch(l->kernel, 1, 1, 1, THREADS, 1, 1, 0, l->stream, args, NULL) == CUDA_SUCCESS;
}

static bool open_work(struct limited *l, gantry_context *context)
{
    CUcontext native;
    CUmodule module;
    CUgraph graph;
    struct raw_cuda *cuda = &l->cuda;
    if (!raw_cuda_open(context, cuda) || !RAW(cuda, cuDevicePrimaryCtxRetain(&native, 0)) ||
        !RAW(cuda, cuCtxSetCurrent(native)) ||
        !raw_cuda_load(cuda, &gantry_image_limit_kernels, "limit_empty", &module, &l->kernel) ||
        !RAW(cuda, cuStreamCreate(&l->stream, CU_STREAM_NON_BLOCKING))) {
        return false;
    }
    l->bare = (struct calls){cuda->cuLaunchKernel, cuda->cuGraphLaunch, cuda->cuStreamSynchronize};
    bool good = RAW(cuda, cuStreamBeginCapture(l->stream, CU_STREAM_CAPTURE_MODE_GLOBAL));
    for (int i = 0; i < NODES && good; i++) {
        good = launch(l, &l->bare);
    }
    return good && RAW(cuda, cuStreamEndCapture(l->stream, &graph)) &&
           RAW(cuda, cuGraphInstantiateWithFlags(&l->graph, graph, 0)) && RAW(cuda, cuGraphDestroy(graph));
}

static bool run_launches(const struct limited *l, const struct calls *calls)
{
    bool good = true;
    for (int i = 0; i < LAUNCHES && good; i++) {
        good = launch(l, calls);
    }
    return good && calls->synchronize(l->stream) == CUDA_SUCCESS;
}

static bool run_waits(const struct limited *l, const struct calls *calls)
{
    bool good = true;
    for (int i = 0; i < WAITS && good; i++) {
        good = launch(l, calls) && calls->synchronize(l->stream) == CUDA_SUCCESS;
    }
    return good;
}

static bool run_graphs(const struct limited *l, const struct calls *calls)
{
    bool good = true;
    for (int i = 0; i < GRAPHS && good; i++) {
        good = calls->launch_graph(l->graph, l->stream) == CUDA_SUCCESS;
    }
    return good && calls->synchronize(l->stream) == CUDA_SUCCESS;
}

#define SIDES(what)                                                                              \
    static bool what##_through(void *arg)                                                        \
    {                                                                                            \
        return run_##what((const struct limited *)arg, &((const struct limited *)arg)->through); \
    }                                                                                            \
    static bool what##_bare(void *arg)                                                           \
    {                                                                                            \
        return run_##what((const struct limited *)arg, &((const struct limited *)arg)->bare);    \
    }
SIDES(launches)
SIDES(waits)
SIDES(graphs)

static bool bench_limit(const struct bench_options *options)
{
    gantry_context_options wanted = GANTRY_CONTEXT_OPTIONS_INIT;
    gantry_context *context = NULL;
    struct limited l = {.kernel = NULL};
    wanted.driver = options->driver;
    bool good = bench_ok("limit", gantry_context_create(&wanted, &context)) && open_work(&l, context) &&
                open_library(&l, options->emulated);
    const struct bench_case cases[] = {
        {.name = "limit/launch",
         .item = "launch",
         .items = LAUNCHES,
         .pairs = 3,
         .ours = {NULL, NULL, launches_through, NULL},
         .yardstick = {"bare", NULL, launches_bare, NULL},
         .arg = &l},
        {.name = "limit/launch-wait",
         .item = "launch",
         .items = WAITS,
         .pairs = 3,
         .ours = {NULL, NULL, waits_through, NULL},
         .yardstick = {"bare", NULL, waits_bare, NULL},
         .arg = &l},
        {.name = "limit/graph-of-10",
         .item = "graph",
         .items = GRAPHS,
         .pairs = 3,
         .ours = {NULL, NULL, graphs_through, NULL},
         .yardstick = {"bare", NULL, graphs_bare, NULL},
         .arg = &l},
    };
    for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]) && good; i++) {
        good = bench_run(options, &cases[i], NULL);
    }
    if (l.graph != NULL) {
        (void)l.cuda.cuGraphExecDestroy(l.graph);
    }
    if (l.stream != NULL) {
        (void)l.cuda.cuStreamDestroy(l.stream);
        (void)l.cuda.cuDevicePrimaryCtxRelease(0);
    }
    gantry_context_destroy(context);
    return good;
}

const struct gantry_bench gantry_bench_limit = {
    .name = "limit",
    .summary = "what 'gantry limit' costs a program that it does not hold",
    .help = "Calls through the library that 'gantry limit' preloads against the driver's own, in turn: a "
            "launch of an\n"
            "empty kernel until all are done, a launch that is waited for at once, and a graph of ten "
            "kernels.  The\n"
            "share is 100 percent.\n",
    .main = bench_limit,
};
