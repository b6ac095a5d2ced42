/* SPDX-License-Identifier: MIT */
/* `gantry run scale_vector`: three ways to deal work out to thread blocks, measured.
 *
 *   fixed work     one tile per block
 *   fixed blocks   as many blocks as fit, each with many tiles
 *   stealing       one tile per block, and blocks take over blocks that have not begun
 *
 * The table has what each is good or bad at: the time for tiles of even size (a block's start and its
 * prologue are overhead), the time when every so-manieth tile is much longer, all of them with the same block
 * of the second way (balance), and how long an urgent kernel on a stream of high priority takes from its
 * submission to its end while the kernel runs with long tiles on a stream of low priority (response).  A
 * second table says what that comes to: which way is near the best.
 *
 * It times kernels one by one with events, so it talks to the driver itself, on Gantry's context. */
#include "bench/raw_cuda.h"
#include "cli/messages.h"
#include "cli/options.h"
#include "cli/samples.h"

#include "samples/scale_vector/scale_vector_kernels.h"
#include "scale_kernels.kernels.h"

#include <gantry/gantry.h>

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#ifndef SCALE_RUNS
#define SCALE_RUNS 9 /* whose median is told */
#endif
enum { WAYS = 3, RUNS = SCALE_RUNS };

static const char *const names[WAYS] = {"scale_fixed_work", "scale_fixed_blocks", "scale_stealing"};
static const char *const titles[WAYS] = {"fixed work", "fixed blocks", "stealing"};

struct scale {
    gantry_context *context;
    gantry_device_info info;
    struct raw_cuda cuda;
    CUmodule module;
    CUfunction ways[WAYS], urgent;
    CUstream low, high; /* priority */
    CUevent begin, end;
    CUdeviceptr data, counter;
    uint32_t count;  /* elements */
    uint32_t blocks; /* that run at once */
    uint32_t *host;  /* `count` elements */
};

static double now_us(void)
{
    struct timespec t;
    clock_gettime(CLOCK_MONOTONIC, &t);
    return (double)t.tv_sec * 1e6 + (double)t.tv_nsec / 1e3;
}

/* ---- set-up -------------------------------------------------------------------------------- */

static bool open_kernels(struct scale *s)
{
    struct raw_cuda *cuda = &s->cuda;
    const gantry_module_image *image = &gantry_image_scale_kernels;
    const void *code = s->info.emulated        ? image->host
                       : image->fatbin != NULL ? image->fatbin
                                               : (const void *)image->ptx;
    if (!RAW(cuda, cuModuleLoadDataEx(&s->module, code, 0, NULL, NULL)) ||
        !RAW(cuda, cuModuleGetFunction(&s->urgent, s->module, "scale_urgent"))) {
        return false;
    }
    for (int i = 0; i < WAYS; i++) {
        if (!RAW(cuda, cuModuleGetFunction(&s->ways[i], s->module, names[i]))) {
            return false;
        }
    }
    int resident = 0;
    if (!RAW(cuda, cuOccupancyMaxActiveBlocksPerMultiprocessor(&resident, s->ways[1], SCALE_BLOCK, 0))) {
        return false;
    }
    s->blocks = s->info.total_sms * (uint32_t)(resident > 0 ? resident : 1);
    return true;
}

static bool open_all(struct scale *s, gantry_driver_choice driver)
{
    struct raw_cuda *cuda = &s->cuda;
    gantry_context_options options = GANTRY_CONTEXT_OPTIONS_INIT;
    options.driver = driver;
    s->info.struct_size = sizeof(s->info);
    gantry_status status = gantry_context_create(&options, &s->context);
    if (status == GANTRY_OK) {
        status = gantry_context_device_info(s->context, &s->info);
    }
    if (status == GANTRY_OK) {
        status = gantry_context_acquire(s->context);
    }
    if (status != GANTRY_OK) {
        cli_error("scale_vector: the device cannot be opened: %s", cli_cause(status));
        return false;
    }
    int least = 0, greatest = 0;
    s->count = s->info.emulated ? 2048 : 16u << 20;
    s->host = malloc(s->count * sizeof(*s->host));
    return s->host != NULL && raw_cuda_open(s->context, cuda) && open_kernels(s) &&
           RAW(cuda, cuCtxGetStreamPriorityRange(&least, &greatest)) &&
           RAW(cuda, cuStreamCreateWithPriority(&s->low, CU_STREAM_NON_BLOCKING, least)) &&
           RAW(cuda, cuStreamCreateWithPriority(&s->high, CU_STREAM_NON_BLOCKING, greatest)) &&
           RAW(cuda, cuEventCreate(&s->begin, 0)) && RAW(cuda, cuEventCreate(&s->end, 0)) &&
           RAW(cuda, cuMemAlloc(&s->data, s->count * sizeof(uint32_t))) &&
           RAW(cuda, cuMemAlloc(&s->counter, 256)) &&
           RAW(cuda, cuMemsetD32Async(s->counter, 0, 64, s->low)) && RAW(cuda, cuStreamSynchronize(s->low));
}

static void close_all(struct scale *s)
{
    struct raw_cuda *cuda = &s->cuda;
    if (s->counter != 0) {
        (void)RAW(cuda, cuMemFree(s->counter));
    }
    if (s->data != 0) {
        (void)RAW(cuda, cuMemFree(s->data));
    }
    if (s->end != NULL) {
        (void)RAW(cuda, cuEventDestroy(s->end));
    }
    if (s->begin != NULL) {
        (void)RAW(cuda, cuEventDestroy(s->begin));
    }
    if (s->high != NULL) {
        (void)RAW(cuda, cuStreamDestroy(s->high));
    }
    if (s->low != NULL) {
        (void)RAW(cuda, cuStreamDestroy(s->low));
    }
    if (s->module != NULL) {
        (void)RAW(cuda, cuModuleUnload(s->module));
    }
    free(s->host);
    if (s->context != NULL) {
        (void)gantry_context_release(s->context);
    }
    gantry_context_destroy(s->context);
}

/* ---- measuring ----------------------------------------------------------------------------- */

/* On the kernel's stream: a synchronous copy from pageable memory may return before its last part has
 * arrived, and a non-blocking stream does not wait for it. */
static bool load(struct scale *s)
{
    for (uint32_t i = 0; i < s->count; i++) {
        s->host[i] = i;
    }
    return RAW(&s->cuda, cuMemcpyHtoDAsync(s->data, s->host, s->count * sizeof(uint32_t), s->low));
}

static bool check(struct scale *s, const char *title)
{
    if (!RAW(&s->cuda, cuMemcpyDtoHAsync(s->host, s->data, s->count * sizeof(uint32_t), s->low)) ||
        !RAW(&s->cuda, cuStreamSynchronize(s->low))) {
        return false;
    }
    for (uint32_t i = 0; i < s->count; i++) {
        if (s->host[i] != i * SCALE_FACTOR) {
            cli_error("scale_vector: %s: element %u is %u", title, i, s->host[i]);
            return false;
        }
    }
    return true;
}

static bool launch(struct scale *s, int way, uint32_t every)
{
    uint32_t tiles = (s->count + SCALE_BLOCK - 1) / SCALE_BLOCK, seed = 1;
    uint32_t grid = way == 1 && s->blocks < tiles ? s->blocks : tiles;
    void *args[] = {&s->data, &s->count, &every, &seed};
    return RAW(&s->cuda, cuLaunchKernel(s->ways[way], grid, 1, 1, SCALE_BLOCK, 1, 1, 0, s->low, args, NULL));
}

static int compare_doubles(const void *a, const void *b)
{
    double left = *(const double *)a, right = *(const double *)b;
    return (left > right) - (left < right);
}

/* The kernel's time. */
static bool time_way(struct scale *s, int way, uint32_t every, double *us)
{
    struct raw_cuda *cuda = &s->cuda;
    double times[RUNS];
    for (int i = -1; i < RUNS; i++) { /* the first one warms up */
        float ms = 0;
        if (!load(s) || !RAW(cuda, cuEventRecord(s->begin, s->low)) || !launch(s, way, every) ||
            !RAW(cuda, cuEventRecord(s->end, s->low)) || !RAW(cuda, cuEventSynchronize(s->end)) ||
            !RAW(cuda, cuEventElapsedTime(&ms, s->begin, s->end)) || !check(s, titles[way])) {
            return false;
        }
        times[i > 0 ? i : 0] = (double)ms * 1e3;
    }
    qsort(times, RUNS, sizeof(times[0]), compare_doubles);
    *us = times[RUNS / 2];
    return true;
}

/* The time of an urgent kernel, submitted as soon as the other one has been. */
static bool time_urgent(struct scale *s, int way, double *us)
{
    struct raw_cuda *cuda = &s->cuda;
    double times[RUNS];
    void *args[] = {&s->counter};
    for (int i = -1; i < RUNS; i++) {
        if (!load(s) || !launch(s, way, 1)) {
            return false;
        }
        double begin = now_us();
        if (!RAW(cuda, cuLaunchKernel(s->urgent, 8, 1, 1, SCALE_BLOCK, 1, 1, 0, s->high, args, NULL)) ||
            !RAW(cuda, cuStreamSynchronize(s->high))) {
            return false;
        }
        times[i > 0 ? i : 0] = now_us() - begin;
        if (!RAW(cuda, cuStreamSynchronize(s->low)) || !check(s, titles[way])) {
            return false;
        }
    }
    qsort(times, RUNS, sizeof(times[0]), compare_doubles);
    *us = times[RUNS / 2];
    return true;
}

enum { EVEN, SKEWED, URGENT, MEASURES };

/* One line: which ways are at most so many times slower than the best. */
static void print_verdict(const char *name, double times[WAYS][MEASURES], int measure, double most)
{
    double best = times[0][measure];
    for (int way = 1; way < WAYS; way++) {
        best = times[way][measure] < best ? times[way][measure] : best;
    }
    printf("%-24s", name);
    for (int way = 0; way < WAYS; way++) {
        double ratio = times[way][measure] / best;
        printf(" %7s (%6.2f)", ratio <= most ? "yes" : "no", ratio);
    }
    printf("\n");
}

static void print_verdicts(double times[WAYS][MEASURES])
{
    printf("\n%-24s", "");
    for (int way = 0; way < WAYS; way++) {
        printf(" %16s", titles[way]);
    }
    printf("\n");
    print_verdict("reduced overheads", times, EVEN, 1.1);
    print_verdict("preemption", times, URGENT, 2.0);
    print_verdict("load balancing", times, SKEWED, 1.25);
    printf(
        "yes: even tiles within 1.1 times the best, an urgent kernel within 2, skewed tiles within 1.25\n");
}

static void print_row(const struct scale *s, int way, const double *t)
{
    if (s->info.emulated) {
        printf("%-14s right\n", titles[way]);
    } else {
        printf("%-14s %16.1f %18.1f %18.1f\n", titles[way], t[EVEN], t[SKEWED], t[URGENT]);
    }
}

static bool print_table(struct scale *s)
{
    bool steals = s->info.compute_major >= 10;
    printf("%s, %u elements, %u blocks at once; medians of %d runs, results checked\n", s->info.name,
           s->count, s->blocks, RUNS);
    printf("stealing: %s\n\n", steals
                                   ? "by Cluster Launch Control"
                                   : "every request is refused here (needs compute capability 10.0), so it "
                                     "acts as fixed work");
    if (s->info.emulated) {
        printf("The device is emulated, so results are checked and no times printed.\n");
    } else {
        printf("%-14s %16s %18s %18s\n", "", "even tiles, us", "skewed tiles, us", "urgent kernel, us");
    }
    double times[WAYS][MEASURES];
    for (int way = 0; way < WAYS; way++) {
        double *t = times[way];
        if (!time_way(s, way, 0, &t[EVEN]) || !time_way(s, way, s->blocks, &t[SKEWED]) ||
            !time_urgent(s, way, &t[URGENT])) {
            return false;
        }
        print_row(s, way, t);
    }
    if (!s->info.emulated) {
        print_verdicts(times);
    }
    return true;
}

static const char usage[] =
    "usage: gantry run scale_vector [--driver DRIVER]\n\n"
    "Shows three ways to deal work out to thread blocks: one block for each part of the work (fixed work), "
    "as\n"
    "many blocks as fit at once (fixed blocks), and stealing.  Measures each with parts of equal and of\n"
    "different size, and how long a kernel in a hurry waits behind it; the second table says which way has\n"
    "which advantage.\n\n"
    "  --driver DRIVER   auto (the default), cuda or emulated\n";

static int scale_vector_main(int argc, char **argv)
{
    int driver = GANTRY_DRIVER_AUTO;
    const struct cli_option table[] = {{.name = "driver", .choice = &driver, .names = cli_driver_names},
                                       {.name = "help", .letter = 'h', .help = usage},
                                       {.name = NULL}};
    int status = cli_read_options(argc, argv, table, 0);
    if (status >= 0) {
        return status;
    }
    struct scale s = {.context = NULL};
    bool good = open_all(&s, (gantry_driver_choice)driver) && print_table(&s);
    close_all(&s);
    return good ? 0 : 1;
}

const struct gantry_sample gantry_sample_scale_vector = {
    .name = "scale_vector",
    .summary = "fixed work, fixed blocks or work stealing: three ways to deal work out, measured",
    .main = scale_vector_main,
};
