/* SPDX-License-Identifier: MIT */
/* `gantry bench latency`: how soon the host learns what the GPU has done, and the other way round, by wait
 * mode.
 *
 * done-to-task: from before the dispatcher's thread launches a kernel until the first instruction of the CPU
 * task that the kernel's completion starts.  Yardstick: a kernel and an event by hand, until
 * cuEventSynchronize() returns; the event blocks in the mode that blocks, else it spins.  So both sides
 * contain the kernel.  Two more cases show the parts: only the workers, or only the dispatcher's threads,
 * never sleep.
 *
 * ready-to-launch: from the last instruction of that CPU task, after which a GPU task is ready, until the
 * first instruction of the GPU task's launch callback; the dispatcher has had nothing to do meanwhile.
 * Yardstick: one thread signals another by hand, from before the signal until the other has seen it.  The
 * other sleeps on a condition in the mode that blocks, else it spins.
 *
 * call, told: parts of done-to-task, until cuLaunchKernel() has returned, and until the dispatcher reports
 * the completion to a sync point.  Yardsticks: the call by hand, and an event that spins.
 *
 * cpu-idle: the CPU time of the process in the 20 ms after a step, while nothing runs and the main thread
 * sleeps.  cpu-waiting: the same in a step in which the device copies for some 10 ms, a CPU task waits for
 * the copy, and the main thread waits for that task (not on the emulated driver, whose device is this
 * CPU).  Yardstick: the time that passes, so the ratio is the number of CPUs that waiting takes.
 *
 * publish rows: bench_publish.c; rested and return: bench_return.c. */
#include "base/clock.h"
#include "bench/bench_publish.h"
#include "bench/bench_return.h"
#include "bench/event_scene.h"
#include "bench/harness.h"

#include "submit_kernels.kernels.h"

#include <pthread.h>
#include <stdatomic.h>
#include <stdlib.h>
#include <string.h>

#define PER_RUN 50u   /* samples for each run that the user asked for */
#define FOR_A_LOOK 8u /* samples when there is one run: many threads may spin on few CPUs */
#define PAUSE_NS 20000000
#define COPY_BYTES ((size_t)64 << 20)
#define COPIES 200u

/* A thread that waits for signals. */
struct listener {
    pthread_t thread;
    pthread_mutex_t lock;
    pthread_cond_t told;
    bool blocks;            /* immutable */
    _Atomic(uint32_t) news; /* atomic; how often it was signalled; the last signal ends it */
    _Atomic(uint32_t) seen; /* atomic; how often it has seen that */
    uint32_t last;          /* immutable */
    uint64_t seen_ns;       /* before `seen` */
};

struct latency_bench {
    struct event_scene scene;
    void *cell;
    gantry_task *done;
    uint64_t called_ns, told_ns;                         /* of the latest sample of parts */
    void *large;                                         /* device; 2 * COPY_BYTES */
    uint64_t launched_ns, started_ns, ended_ns, next_ns; /* of the latest sample */
    uint32_t ran;
};

/* Of one side, sorted. */
struct samples {
    double *ns;
    uint32_t count;
};

static bool ok(gantry_status status)
{
    return bench_ok("latency", status);
}

static gantry_launch_result launch(gantry_launch *launch, void *arg)
{
    struct latency_bench *bench = arg;
    void *args[] = {&bench->cell};
    gantry_dim3 one = {1, 1, 1};
    gantry_dim3 warp = {32, 1, 1};
    bench->launched_ns = gy_clock_ns();
    return gantry_launch_kernel(launch, bench->scene.kernel, one, warp, 0, args) == GANTRY_OK &&
                   gantry_launch_add_completion(launch, bench->done) == GANTRY_OK
               ? GANTRY_LAUNCH_DONE
               : GANTRY_LAUNCH_FAILED;
}

static gantry_launch_result launch_next(gantry_launch *launch, void *arg)
{
    (void)launch;
    ((struct latency_bench *)arg)->next_ns = gy_clock_ns();
    return GANTRY_LAUNCH_DONE;
}

static gantry_status start(gantry_task *task, void *arg)
{
    struct latency_bench *bench = arg;
    (void)task;
    bench->started_ns = gy_clock_ns();
    bench->ran++;
    bench->ended_ns = gy_clock_ns();
    return GANTRY_OK;
}

static bool submit(struct latency_bench *bench, gantry_task_desc *desc, gantry_task **out)
{
    desc->arg = bench;
    return ok(gantry_taskman_submit(bench->scene.manager, desc, out));
}

/* Submit `done`, which becomes bench->done, and before it a GPU task that calls `function`. */
static bool submit_pair(struct latency_bench *bench, gantry_launch_fn function, gantry_task_desc *done)
{
    gantry_task_desc gpu = GANTRY_TASK_DESC_INIT;
    gantry_task *task;
    gpu.kind = GANTRY_TASK_KERNEL;
    gpu.launch = function;
    return submit(bench, done, &bench->done) && submit(bench, &gpu, &task) &&
           ok(gantry_task_start_after(bench->done, task));
}

static bool run_step(struct latency_bench *bench)
{
    return ok(gantry_taskman_start(bench->scene.manager)) && ok(gantry_taskman_stop(bench->scene.manager));
}

/* Submit a kernel with a completion, a CPU task behind it, and then a GPU task that launches nothing. */
static bool sample_ours(struct latency_bench *bench, double *done_ns, double *ready_ns)
{
    gantry_task_desc cpu = GANTRY_TASK_DESC_INIT;
    gantry_task_desc gpu = GANTRY_TASK_DESC_INIT;
    gantry_task *next;
    cpu.run = start;
    gpu.kind = GANTRY_TASK_KERNEL;
    gpu.launch = launch_next;
    if (!submit_pair(bench, launch, &cpu) || !submit(bench, &gpu, &next) ||
        !ok(gantry_task_start_after(next, bench->done)) || !run_step(bench) ||
        !ok(gantry_taskman_reset(bench->scene.manager))) {
        return false;
    }
    *done_ns = (double)(bench->started_ns - bench->launched_ns);
    *ready_ns = (double)(bench->next_ns - bench->ended_ns);
    return true;
}

static bool sample_hand(struct latency_bench *bench, double *ns)
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
    return true;
}

/* ---- parts --------------------------------------------------------------------------------- */

static gantry_launch_result launch_parts(gantry_launch *launch, void *arg)
{
    struct latency_bench *bench = arg;
    void *args[] = {&bench->cell};
    gantry_dim3 one = {1, 1, 1};
    gantry_dim3 warp = {32, 1, 1};
    bench->launched_ns = gy_clock_ns();
    gantry_status status = gantry_launch_kernel(launch, bench->scene.kernel, one, warp, 0, args);
    bench->called_ns = gy_clock_ns();
    return status == GANTRY_OK && gantry_launch_add_completion(launch, bench->done) == GANTRY_OK
               ? GANTRY_LAUNCH_DONE
               : GANTRY_LAUNCH_FAILED;
}

static void note_told(gantry_task *task, void *arg, gantry_status result)
{
    (void)task;
    (void)result;
    ((struct latency_bench *)arg)->told_ns = gy_clock_ns();
}

static bool sample_parts(struct latency_bench *bench, double *call_ns, double *told_ns)
{
    gantry_task_desc point = GANTRY_TASK_DESC_INIT;
    point.kind = GANTRY_TASK_SYNC_POINT;
    point.release = note_told;
    if (!submit_pair(bench, launch_parts, &point) || !run_step(bench) ||
        !ok(gantry_taskman_reset(bench->scene.manager))) {
        return false;
    }
    *call_ns = (double)(bench->called_ns - bench->launched_ns);
    *told_ns = (double)(bench->told_ns - bench->launched_ns);
    return true;
}

static bool sample_hand_parts(struct latency_bench *bench, double *call_ns, double *ns)
{
    struct raw_cuda *cuda = &bench->scene.cuda;
    void *args[] = {&bench->cell};
    uint64_t begin = gy_clock_ns();
    if (!RAW(cuda,
             cuLaunchKernel(bench->scene.function, 1, 1, 1, 32, 1, 1, 0, bench->scene.stream, args, NULL))) {
        return false;
    }
    *call_ns = (double)(gy_clock_ns() - begin);
    if (!RAW(cuda, cuEventRecord(bench->scene.event, bench->scene.stream)) ||
        !RAW(cuda, cuEventSynchronize(bench->scene.event))) {
        return false;
    }
    *ns = (double)(gy_clock_ns() - begin);
    return true;
}

/* ---- what waiting costs -------------------------------------------------------------------- */

static uint64_t cpu_ns(void)
{
    struct timespec t;
    (void)clock_gettime(CLOCK_PROCESS_CPUTIME_ID, &t);
    return (uint64_t)t.tv_sec * 1000000000u + (uint64_t)t.tv_nsec;
}

static bool sample_idle(struct latency_bench *bench, double *cpu, double *wall)
{
    double done, ready;
    if (!sample_ours(bench, &done, &ready)) {
        return false;
    }
    uint64_t used = cpu_ns(), begin = gy_clock_ns();
    (void)nanosleep(&(struct timespec){.tv_nsec = PAUSE_NS}, NULL);
    *cpu = (double)(cpu_ns() - used);
    *wall = (double)(gy_clock_ns() - begin);
    return true;
}

static gantry_launch_result launch_copies(gantry_launch *launch, void *arg)
{
    struct latency_bench *bench = arg;
    gantry_status status = GANTRY_OK;
    for (uint32_t i = 0; i < COPIES && status == GANTRY_OK; i++) {
        status = gantry_launch_copy_dtod(launch, bench->large, (char *)bench->large + COPY_BYTES, COPY_BYTES);
    }
    return status == GANTRY_OK && gantry_launch_add_completion(launch, bench->done) == GANTRY_OK
               ? GANTRY_LAUNCH_DONE
               : GANTRY_LAUNCH_FAILED;
}

static bool sample_waiting(struct latency_bench *bench, double *cpu, double *wall)
{
    gantry_task_desc host = GANTRY_TASK_DESC_INIT;
    host.run = start;
    if (!submit_pair(bench, launch_copies, &host)) {
        return false;
    }
    uint64_t used = cpu_ns(), begin = gy_clock_ns();
    if (!run_step(bench)) {
        return false;
    }
    *cpu = (double)(cpu_ns() - used);
    *wall = (double)(gy_clock_ns() - begin);
    return ok(gantry_taskman_reset(bench->scene.manager));
}

/* ---- one thread tells another -------------------------------------------------------------- */

static void *listen(void *arg)
{
    struct listener *l = arg;
    for (uint32_t n = 1; n <= l->last; n++) {
        if (l->blocks) {
            (void)pthread_mutex_lock(&l->lock);
            while (atomic_load(&l->news) < n) {
                (void)pthread_cond_wait(&l->told, &l->lock);
            }
            (void)pthread_mutex_unlock(&l->lock);
        } else {
            while (atomic_load_explicit(&l->news, memory_order_acquire) < n) {
            }
        }
        l->seen_ns = gy_clock_ns();
        atomic_store(&l->seen, n);
    }
    return NULL;
}

static bool listener_start(struct listener *l, bool blocks, uint32_t last)
{
    memset(l, 0, sizeof(*l));
    l->blocks = blocks;
    l->last = last;
    return pthread_mutex_init(&l->lock, NULL) == 0 && pthread_cond_init(&l->told, NULL) == 0 &&
           pthread_create(&l->thread, NULL, listen, l) == 0;
}

static void tell(struct listener *l)
{
    if (l->blocks) {
        (void)pthread_mutex_lock(&l->lock);
        atomic_fetch_add(&l->news, 1);
        (void)pthread_cond_signal(&l->told);
        (void)pthread_mutex_unlock(&l->lock);
    } else {
        atomic_fetch_add_explicit(&l->news, 1, memory_order_release);
    }
}

/* The listener has been waiting for a while when it is signalled. */
static double sample_handoff(struct listener *l)
{
    uint64_t idle = gy_clock_ns() + 50000;
    while (gy_clock_ns() < idle) {
    }
    uint64_t begin = gy_clock_ns();
    tell(l);
    while (atomic_load(&l->seen) != atomic_load(&l->news)) {
    }
    return (double)(l->seen_ns - begin);
}

/* ---- sampling ------------------------------------------------------------------------------ */

static struct bench_result summarise(struct samples ours, struct samples hand)
{
    bench_sort(ours.ns, ours.count);
    bench_sort(hand.ns, hand.count);
    return (struct bench_result){.min_ns = ours.ns[0],
                                 .median_ns = ours.ns[ours.count / 2],
                                 .yardstick_min_ns = hand.ns[0],
                                 .yardstick_median_ns = hand.ns[hand.count / 2],
                                 .verified = true};
}

/* Take `count` samples of each side in turn, after one that is not kept, and check that every kernel has
 * incremented the cell. */
static bool take_samples(struct latency_bench *bench, bool blocks, uint32_t count, struct bench_result *done,
                         struct bench_result *ready)
{
    struct raw_cuda *cuda = &bench->scene.cuda;
    struct listener listener;
    double *all = calloc(4 * (size_t)count, sizeof(double));
    if (all == NULL || !listener_start(&listener, blocks, count + 1)) {
        free(all);
        return false;
    }
    double *of[4] = {all, all + count, all + 2 * count, all + 3 * count};
    bool good = true;
    for (uint32_t i = 0; i <= count; i++) {
        uint32_t at = i == 0 ? 0 : i - 1;
        good = good && sample_ours(bench, &of[0][at], &of[2][at]) && sample_hand(bench, &of[1][at]);
        of[3][at] = sample_handoff(&listener);
    }
    (void)pthread_join(listener.thread, NULL);
    uint32_t cell = 0;
    good = good && RAW(cuda, cuMemcpyDtoH(&cell, (CUdeviceptr)(uintptr_t)bench->cell, sizeof(cell))) &&
           cell == 2 * (count + 1) && bench->ran == count + 1;
    if (good) {
        *done = summarise((struct samples){of[0], count}, (struct samples){of[1], count});
        *ready = summarise((struct samples){of[2], count}, (struct samples){of[3], count});
    }
    free(all);
    return good;
}

/* Take `count` samples of each part, ours and by hand in turn. */
static bool take_parts(struct latency_bench *bench, uint32_t count, struct bench_result *call,
                       struct bench_result *told)
{
    double *all = calloc(4 * (size_t)count, sizeof(double));
    bool good = all != NULL;
    double *of[4] = {all, all + count, all + 2 * count, all + 3 * count};
    for (uint32_t i = 0; i < count && good; i++) {
        good = sample_parts(bench, &of[0][i], &of[2][i]) && sample_hand_parts(bench, &of[1][i], &of[3][i]);
    }
    if (good) {
        *call = summarise((struct samples){of[0], count}, (struct samples){of[1], count});
        *told = summarise((struct samples){of[2], count}, (struct samples){of[3], count});
    }
    free(all);
    return good;
}

typedef bool sample_cost(struct latency_bench *bench, double *cpu, double *wall);

static bool take_cost(struct latency_bench *bench, sample_cost *sample, uint32_t count,
                      struct bench_result *out)
{
    double *all = calloc(2 * (size_t)count, sizeof(double));
    bool good = all != NULL;
    double first[2];
    good = good && sample(bench, &first[0], &first[1]); /* not kept */
    for (uint32_t i = 0; i < count && good; i++) {
        good = sample(bench, &all[i], &all[count + i]);
    }
    if (good) {
        *out = summarise((struct samples){all, count}, (struct samples){all + count, count});
    }
    free(all);
    return good;
}

static bool open_bench(struct latency_bench *bench, const struct bench_options *options,
                       gantry_wait_mode mode, gantry_wait_mode workers, bool event_blocks)
{
    struct event_scene *scene = &bench->scene;
    uint32_t zero = 0;
    const struct event_scene_options one = {.driver = options->driver,
                                            .completions = mode,
                                            .workers = workers,
                                            .worker_count = 1,
                                            .event_blocks = event_blocks,
                                            .image = &gantry_image_submit_kernels,
                                            .kernel = "increment"};
    return bench_event_scene_open(scene, &one) &&
           ok(gantry_heap_alloc(gantry_context_heap(scene->context), GANTRY_MEMORY_DEVICE, 256, 0,
                                GANTRY_ALLOC_SITE("bench latency"), &bench->cell)) &&
           raw_cuda_upload(&scene->cuda, bench->cell, &zero, sizeof(zero));
}

static void close_bench(struct latency_bench *bench)
{
    gantry_heap *heap = bench->scene.context != NULL ? gantry_context_heap(bench->scene.context) : NULL;
    if (bench->large != NULL) {
        (void)gantry_heap_free(heap, bench->large);
    }
    if (bench->cell != NULL) {
        (void)gantry_heap_free(heap, bench->cell);
    }
    bench_event_scene_close(&bench->scene);
}

static void report(const struct bench_options *options, const char *name, const char *yardstick,
                   const struct bench_result *result)
{
    struct bench_case one = {.name = name, .item = "event", .items = 1};
    one.yardstick = (struct bench_side){.name = yardstick};
    bench_report(options, &one, result);
}

static uint32_t count_samples(const struct bench_options *options)
{
    return options->runs > 1 ? options->runs * PER_RUN : FOR_A_LOOK;
}

/* Measure the parts, and the cost of waiting, in one mode. */
static bool bench_cost(const struct bench_options *options, gantry_wait_mode mode, const char *const *names)
{
    struct latency_bench bench;
    struct bench_result call = {0}, told = {0}, idle = {0}, waiting = {0};
    memset(&bench, 0, sizeof(bench));
    bool good = open_bench(&bench, options, mode, mode, false);
    bool waits = good && bench.scene.cuda.emulator_set_noop == NULL;
    good = good && take_parts(&bench, count_samples(options), &call, &told) &&
           take_cost(&bench, sample_idle, options->runs, &idle);
    if (good && waits) {
        gantry_alloc_site site = GANTRY_ALLOC_SITE("bench latency");
        good = ok(gantry_heap_alloc(gantry_context_heap(bench.scene.context), GANTRY_MEMORY_DEVICE,
                                    2 * COPY_BYTES, 0, site, &bench.large)) &&
               take_cost(&bench, sample_waiting, options->runs, &waiting);
    }
    close_bench(&bench);
    report(options, names[0], "launch-call", &call);
    report(options, names[1], "event-spin", &told);
    report(options, names[2], "wall", &idle);
    if (waits) {
        report(options, names[3], "wall", &waiting);
    }
    return good;
}

static bool bench_costs(const struct bench_options *options)
{
    static const struct {
        gantry_wait_mode mode;
        const char *names[4];
    } cases[] = {
        {GANTRY_WAIT_SPIN,
         {"latency/call-spin", "latency/told-spin", "latency/cpu-idle-spin", "latency/cpu-waiting-spin"}},
        {GANTRY_WAIT_HYBRID,
         {"latency/call-hybrid", "latency/told-hybrid", "latency/cpu-idle-hybrid",
          "latency/cpu-waiting-hybrid"}},
        {GANTRY_WAIT_ADAPTIVE,
         {"latency/call-adaptive", "latency/told-adaptive", "latency/cpu-idle-adaptive",
          "latency/cpu-waiting-adaptive"}},
        {GANTRY_WAIT_BLOCK,
         {"latency/call-block", "latency/told-block", "latency/cpu-idle-block", "latency/cpu-waiting-block"}},
    };
    bool good = true;
    for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
        good = bench_cost(options, cases[i].mode, cases[i].names) && good;
    }
    return good;
}

static bool bench_latency(const struct bench_options *options)
{
    static const struct {
        const char *done, *event, *ready, *handoff;
        gantry_wait_mode mode, workers;
    } cases[] = {
        {"latency/done-to-task-spin", "event-spin", "latency/ready-to-launch-spin", "handoff-spin",
         GANTRY_WAIT_SPIN, GANTRY_WAIT_SPIN},
        {"latency/done-to-task-hybrid", "event-spin", "latency/ready-to-launch-hybrid", "handoff-spin",
         GANTRY_WAIT_HYBRID, GANTRY_WAIT_HYBRID},
        {"latency/done-to-task-block", "event-block", "latency/ready-to-launch-block", "handoff-block",
         GANTRY_WAIT_BLOCK, GANTRY_WAIT_BLOCK},
        {"latency/done-by-hybrid", "event-spin", "latency/ready-to-hybrid", "handoff-spin",
         GANTRY_WAIT_HYBRID, GANTRY_WAIT_SPIN},
        {"latency/done-to-hybrid", "event-spin", "latency/ready-by-hybrid", "handoff-spin", GANTRY_WAIT_SPIN,
         GANTRY_WAIT_HYBRID},
    };
    uint32_t samples = count_samples(options);
    bool good = true;
    for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
        struct latency_bench bench;
        struct bench_result done = {0}, ready = {0};
        memset(&bench, 0, sizeof(bench));
        bool blocks = cases[i].mode == GANTRY_WAIT_BLOCK;
        good = open_bench(&bench, options, cases[i].mode, cases[i].workers, blocks) &&
               take_samples(&bench, blocks, samples, &done, &ready) && good;
        close_bench(&bench);
        report(options, cases[i].done, cases[i].event, &done);
        report(options, cases[i].ready, cases[i].handoff, &ready);
    }
    good = bench_costs(options) && good;
    good = bench_return(options) && good;
    return bench_publish(options) && good;
}

const struct gantry_bench gantry_bench_latency = {
    .name = "latency",
    .summary = "from a launch to the CPU task that waits for it, and from that to the next launch",
    .help =
        "  done-to-task-MODE     from before a launch until the CPU task that its completion starts, by "
        "wait\n"
        "                        mode; the yardstick is an event waited for by hand\n"
        "  ready-to-launch-MODE  from the end of that CPU task until the launch callback of the next GPU "
        "task;\n"
        "                        the yardstick is one thread that tells another\n"
        "  rested-, return-PAUSE  after a pause in which all threads fall asleep: until the CPU task, and "
        "until\n"
        "                        gantry_taskman_run() is back; -threads: the caller does not do their "
        "work\n",
    .main = bench_latency,
};
