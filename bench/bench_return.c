/* SPDX-License-Identifier: MIT */
/* `gantry bench latency`, rows rested and return: a step of one kernel, in hybrid, after a pause in which all
 * threads fall asleep, as in a program that has something to do every millisecond, or every twenty.
 *
 * rested-PAUSE: from before the kernel is launched until the first instruction of the CPU task that its
 * completion starts.  return-PAUSE: from before gantry_taskman_run() of the kernel and its completion until
 * it is back; return-0: without a pause.  The graph is frozen, and there are two workers.  -p90: the time
 * that 90 of 100 steps do not exceed.  -threads: the same with a manager whose caller does not help, so
 * that the dispatcher's threads have to wake up.
 *
 * Yardstick: the same kernel and an event by hand, until a spinning cuEventSynchronize() returns, after the
 * same pause.  Ours and by hand take turns. */
#include "bench/bench_return.h"

#include "base/clock.h"
#include "bench/event_scene.h"

#include "submit_kernels.kernels.h"

#include <stdlib.h>
#include <string.h>
#include <time.h>

#define PER_RUN 20u /* samples for each run that was asked for: pauses are long */
#define FOR_A_LOOK 8u

struct return_bench {
    struct event_scene scene;
    void *cell;
    gantry_task *done;
    uint64_t launched_ns, started_ns; /* of the latest step */
    uint32_t kernels;                 /* how many kernels have incremented the cell */
};

static bool ok(gantry_status status)
{
    return bench_ok("latency", status);
}

/* ---- a step ---------------------------------------------------------------------------------- */

static gantry_launch_result launch(gantry_launch *launch, void *arg)
{
    struct return_bench *bench = arg;
    void *args[] = {&bench->cell};
    gantry_dim3 one = {1, 1, 1}, warp = {32, 1, 1};
    bench->launched_ns = gy_clock_ns();
    return gantry_launch_kernel(launch, bench->scene.kernel, one, warp, 0, args) == GANTRY_OK &&
                   gantry_launch_add_completion(launch, bench->done) == GANTRY_OK
               ? GANTRY_LAUNCH_DONE
               : GANTRY_LAUNCH_FAILED;
}

static gantry_status note_start(gantry_task *task, void *arg)
{
    (void)task;
    ((struct return_bench *)arg)->started_ns = gy_clock_ns();
    return GANTRY_OK;
}

/* A CPU task or a sync point waits for the kernel's end. */
static bool make_graph(struct return_bench *bench, bool has_task)
{
    gantry_task_desc done = GANTRY_TASK_DESC_INIT, gpu = GANTRY_TASK_DESC_INIT;
    gantry_task *task;
    done.kind = has_task ? GANTRY_TASK_CPU : GANTRY_TASK_SYNC_POINT;
    done.run = has_task ? note_start : NULL;
    done.arg = bench;
    gpu.kind = GANTRY_TASK_KERNEL;
    gpu.launch = launch;
    gpu.arg = bench;
    return ok(gantry_taskman_submit(bench->scene.manager, &done, &bench->done)) &&
           ok(gantry_taskman_submit(bench->scene.manager, &gpu, &task)) &&
           ok(gantry_task_start_after(bench->done, task)) && ok(gantry_taskman_freeze(bench->scene.manager));
}

static void pause_for(uint64_t ns)
{
    if (ns != 0) {
        struct timespec t = {.tv_sec = (time_t)(ns / 1000000000u), .tv_nsec = (long)(ns % 1000000000u)};
        (void)nanosleep(&t, NULL);
    }
}

static bool sample_ours(struct return_bench *bench, bool has_task, double *ns)
{
    uint64_t begin = gy_clock_ns();
    if (!ok(gantry_taskman_run(bench->scene.manager, 1))) {
        return false;
    }
    uint64_t end = gy_clock_ns();
    *ns = has_task ? (double)(bench->started_ns - bench->launched_ns) : (double)(end - begin);
    bench->kernels++;
    return true;
}

static bool sample_by_hand(struct return_bench *bench, double *ns)
{
    struct raw_cuda *cuda = &bench->scene.cuda;
    void *args[] = {&bench->cell};
    uint64_t begin = gy_clock_ns();
    if (!RAW(cuda,
             cuLaunchKernel(bench->scene.function, 1, 1, 1, 32, 1, 1, 0, bench->scene.stream, args, NULL)) ||
        !RAW(cuda, cuEventRecord(bench->scene.event, bench->scene.stream)) ||
        !RAW(cuda, cuEventSynchronize(bench->scene.event))) {
        return false;
    }
    *ns = (double)(gy_clock_ns() - begin);
    bench->kernels++;
    return true;
}

/* ---- rows ------------------------------------------------------------------------------------ */

/* The one of the sorted numbers which so many of 100 do not exceed. */
static void report(const struct bench_options *options, const char *name, bool good, const double *ours,
                   const double *theirs, uint32_t count, uint32_t percent)
{
    uint32_t at = count * percent / 100;
    struct bench_case one = {.name = name, .item = "event", .items = 1};
    one.yardstick = (struct bench_side){.name = "event-spin"};
    struct bench_result result = {.min_ns = percent == 50 ? ours[0] : ours[at],
                                  .median_ns = ours[at],
                                  .yardstick_min_ns = percent == 50 ? theirs[0] : theirs[at],
                                  .yardstick_median_ns = theirs[at],
                                  .verified = good};
    bench_report(options, &one, &result);
}

/* Has every kernel incremented the cell once? */
static bool check(struct return_bench *bench)
{
    uint32_t cell = 0;
    return RAW(&bench->scene.cuda, cuMemcpyDtoH(&cell, (CUdeviceptr)(uintptr_t)bench->cell, sizeof(cell))) &&
           cell == bench->kernels;
}

struct return_case {
    const char *name, *name_p90;
    uint64_t pause_ns;
    bool has_task, threads_only;
};

static bool measure(struct return_bench *bench, const struct return_case *c,
                    const struct bench_options *options)
{
    enum { WARM = 3 }; /* this sample is not kept: it lets the threads learn how long they wait */
    uint32_t count = options->runs > 1 ? options->runs * PER_RUN : FOR_A_LOOK;
    double *ours = calloc(2 * (size_t)(count + WARM), sizeof(double)), *theirs = ours + count + WARM;
    bool good = ours != NULL && make_graph(bench, c->has_task);
    for (uint32_t i = 0; i < count + WARM && good; i++) {
        pause_for(c->pause_ns);
        good = sample_ours(bench, c->has_task, &ours[i]);
        pause_for(c->pause_ns);
        good = good && sample_by_hand(bench, &theirs[i]);
    }
    good = good && check(bench);
    if (ours != NULL) {
        bench_sort(ours + WARM, count);
        bench_sort(theirs + WARM, count);
        report(options, c->name, good, ours + WARM, theirs + WARM, count, 50);
        report(options, c->name_p90, good, ours + WARM, theirs + WARM, count, 90);
    }
    free(ours);
    return good;
}

/* ---- opening --------------------------------------------------------------------------------- */

static bool open_bench(struct return_bench *bench, const struct bench_options *options, bool threads_only)
{
    struct event_scene *scene = &bench->scene;
    gantry_alloc_site site = GANTRY_ALLOC_SITE("bench latency");
    uint32_t zero = 0;
    const struct event_scene_options hybrid = {.driver = options->driver,
                                               .completions = GANTRY_WAIT_HYBRID,
                                               .workers = GANTRY_WAIT_HYBRID,
                                               .worker_count = 2,
                                               .dispatcher_only = threads_only,
                                               .image = &gantry_image_submit_kernels,
                                               .kernel = "increment"};
    return bench_event_scene_open(scene, &hybrid) &&
           ok(gantry_heap_alloc(gantry_context_heap(scene->context), GANTRY_MEMORY_DEVICE, 256, 0, site,
                                &bench->cell)) &&
           raw_cuda_upload(&scene->cuda, bench->cell, &zero, sizeof(zero));
}

static void close_bench(struct return_bench *bench)
{
    if (bench->cell != NULL) {
        (void)gantry_heap_free(gantry_context_heap(bench->scene.context), bench->cell);
    }
    bench_event_scene_close(&bench->scene);
}

#define CASE(name, ns, task, threads)                              \
    {                                                              \
        "latency/" name, "latency/" name "-p90", ns, task, threads \
    }

bool bench_return(const struct bench_options *options)
{
    static const struct return_case cases[] = {
        CASE("rested-1ms", 1000000, true, false),
        CASE("rested-20ms", 20000000, true, false),
        CASE("rested-1ms-threads", 1000000, true, true),
        CASE("rested-20ms-threads", 20000000, true, true),
        CASE("return-0", 0, false, false),
        CASE("return-1ms", 1000000, false, false),
        CASE("return-20ms", 20000000, false, false),
        CASE("return-0-threads", 0, false, true),
        CASE("return-1ms-threads", 1000000, false, true),
        CASE("return-20ms-threads", 20000000, false, true),
    };
    bool good = true;
    for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
        struct return_bench bench;
        memset(&bench, 0, sizeof(bench));
        good =
            open_bench(&bench, options, cases[i].threads_only) && measure(&bench, &cases[i], options) && good;
        close_bench(&bench);
    }
    return good;
}
