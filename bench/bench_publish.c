/* SPDX-License-Identifier: MIT */
/* `gantry bench latency`, rows publish: how late a completion is published, and how much CPU time the
 * completion threads use meanwhile.
 *
 * publish: a kernel of 3 ms writes a word to host memory as its last action, and a thread that does nothing
 * else looks for it.  The time runs from when that thread sees the word until the completion thread
 * publishes the completion.  The device needs a microsecond or two of it to end the kernel.  The time is 0
 * when the looking thread was late itself. publish-p99: the time that 99 of 100 do not exceed.  Rows
 * beside-... are measured while an older kernel of 400 ms runs on another stream.  Yardstick: the same
 * kernel launched by hand, until cuEventSynchronize() returns; the event blocks in the mode that blocks,
 * else it spins.
 *
 * publish-cpu: the CPU time of the completion threads over such a step, without the thread that looks at the
 * word. Yardstick: the time that passes, so the ratio is their share of a core. */
#include "bench/bench_publish.h"

#include "base/clock.h"
#include "bench/event_scene.h"

#include "critical_kernels.kernels.h"

#include <dirent.h>
#include <pthread.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define KERNEL_NS 3000000u
#define OLDER_NS 400000000u
#define PER_STEP 40u /* one after the other: 120 ms and more */
#define FOR_A_LOOK 4u

struct publish_sample {
    uint64_t seen_ns, told_ns;
};

struct publish_bench {
    struct event_scene scene;
    _Atomic(uint32_t) *words; /* pinned: the words of the samples, then that of the older kernel */
    void *counts;             /* on the device: the same number of counters, which blocks increment */
    uint32_t count;           /* samples of a step */
    struct publish_sample samples[PER_STEP];
};

struct publish_job {
    struct publish_bench *bench;
    uint32_t index; /* PER_STEP: the older kernel */
    uint64_t ns;
    gantry_task *told;
};

static bool ok(gantry_status status)
{
    return bench_ok("latency", status);
}

/* ---- a step -------------------------------------------------------------------------------- */

static gantry_launch_result launch(gantry_launch *launch, void *arg)
{
    struct publish_job *job = arg;
    struct publish_bench *bench = job->bench;
    void *begun = NULL, *ended = (void *)&bench->words[job->index];
    void *count = (uint32_t *)bench->counts + job->index;
    void *args[] = {&begun, &ended, &count, &job->ns};
    gantry_dim3 one = {1, 1, 1}, warp = {32, 1, 1};
    return gantry_launch_kernel(launch, bench->scene.kernel, one, warp, 0, args) == GANTRY_OK &&
                   gantry_launch_add_completion(launch, job->told) == GANTRY_OK
               ? GANTRY_LAUNCH_DONE
               : GANTRY_LAUNCH_FAILED;
}

/* This is called on the thread that publishes. */
static void note_told(gantry_task *task, void *arg, gantry_status result)
{
    const struct publish_job *job = arg;
    (void)task;
    (void)result;
    if (job->index < PER_STEP) {
        job->bench->samples[job->index].told_ns = gy_clock_ns();
    }
}

static bool submit(struct publish_bench *bench, struct publish_job *job, gantry_task *before)
{
    gantry_task_desc point = GANTRY_TASK_DESC_INIT;
    gantry_task_desc gpu = GANTRY_TASK_DESC_INIT;
    gantry_task *task;
    point.kind = GANTRY_TASK_SYNC_POINT;
    point.release = note_told;
    point.arg = job;
    gpu.kind = GANTRY_TASK_KERNEL;
    gpu.launch = launch;
    gpu.arg = job;
    return ok(gantry_taskman_submit(bench->scene.manager, &point, &job->told)) &&
           ok(gantry_taskman_submit(bench->scene.manager, &gpu, &task)) &&
           ok(gantry_task_start_after(job->told, task)) &&
           (before == NULL || ok(gantry_task_start_after(task, before)));
}

/* Run a step with kernels one after the other.  Each starts when the completion of the one before it was
 * published; an older kernel may run beside them. */
static bool run_step(struct publish_bench *bench, uint64_t older_ns)
{
    struct publish_job jobs[PER_STEP + 1];
    gantry_task *before = NULL;
    jobs[PER_STEP] = (struct publish_job){.bench = bench, .index = PER_STEP, .ns = older_ns};
    bool good = older_ns == 0 || submit(bench, &jobs[PER_STEP], NULL);
    for (uint32_t i = 0; i < bench->count && good; i++) {
        jobs[i] = (struct publish_job){.bench = bench, .index = i, .ns = KERNEL_NS};
        good = submit(bench, &jobs[i], before);
        before = jobs[i].told;
    }
    return good && ok(gantry_taskman_start(bench->scene.manager)) &&
           ok(gantry_taskman_stop(bench->scene.manager)) && ok(gantry_taskman_reset(bench->scene.manager));
}

/* ---- the thread that looks ------------------------------------------------------------------ */

static void *watch_words(void *arg)
{
    struct publish_bench *bench = arg;
    for (uint32_t i = 0; i < bench->count; i++) {
        while (atomic_load_explicit(&bench->words[i], memory_order_acquire) == 0) {
        }
        bench->samples[i].seen_ns = gy_clock_ns();
    }
    return NULL;
}

static void clear_words(struct publish_bench *bench)
{
    for (uint32_t i = 0; i <= PER_STEP; i++) {
        atomic_store(&bench->words[i], 0);
    }
}

/* How late the completion was.  If it was published before the looking thread has seen the word, that
 * thread was late, and the completion was not: 0. */
static double late_ns(const struct publish_sample *sample)
{
    return sample->told_ns > sample->seen_ns ? (double)(sample->told_ns - sample->seen_ns) : 0;
}

/* ns[0 ... count). */
static bool take_ours(struct publish_bench *bench, uint64_t older_ns, double *ns)
{
    pthread_t watcher;
    clear_words(bench);
    if (pthread_create(&watcher, NULL, watch_words, bench) != 0) {
        return false;
    }
    bool good = run_step(bench, older_ns);
    if (!good) { /* release the kernel */
        for (uint32_t i = 0; i < bench->count; i++) {
            atomic_store(&bench->words[i], 1);
        }
    }
    (void)pthread_join(watcher, NULL);
    for (uint32_t i = 0; i < bench->count; i++) {
        ns[i] = late_ns(&bench->samples[i]);
    }
    return good;
}

static bool take_by_hand(struct publish_bench *bench, double *ns)
{
    struct raw_cuda *cuda = &bench->scene.cuda;
    pthread_t watcher;
    clear_words(bench);
    if (pthread_create(&watcher, NULL, watch_words, bench) != 0) {
        return false;
    }
    bool good = true;
    for (uint32_t i = 0; i < bench->count && good; i++) {
        void *begun = NULL, *ended = (void *)&bench->words[i], *count = (uint32_t *)bench->counts + i;
        uint64_t duration = KERNEL_NS;
        void *args[] = {&begun, &ended, &count, &duration};
        good = RAW(cuda, cuLaunchKernel(bench->scene.function, 1, 1, 1, 32, 1, 1, 0, bench->scene.stream,
                                        args, NULL)) &&
               RAW(cuda, cuEventRecord(bench->scene.event, bench->scene.stream)) &&
               RAW(cuda, cuEventSynchronize(bench->scene.event));
        bench->samples[i].told_ns = gy_clock_ns();
    }
    for (uint32_t i = 0; i < bench->count && !good; i++) {
        atomic_store(&bench->words[i], 1);
    }
    (void)pthread_join(watcher, NULL);
    for (uint32_t i = 0; i < bench->count; i++) {
        ns[i] = late_ns(&bench->samples[i]);
    }
    return good;
}

/* ---- CPU time of the completion threads -------------------------------------------------------- */

/* The clock of CPU time of a thread of this process by its number, as the kernel has it. */
static uint64_t cpu_ns_of(unsigned thread)
{
    struct timespec t = {0};
    (void)clock_gettime((clockid_t)(~thread << 3 | 6u), &t);
    return (uint64_t)t.tv_sec * 1000000000u + (uint64_t)t.tv_nsec;
}

static bool is_completion_thread(const char *number)
{
    char path[64], name[32] = "";
    (void)snprintf(path, sizeof(path), "/proc/self/task/%.16s/comm", number);
    FILE *file = fopen(path, "r");
    bool is = file != NULL && fgets(name, sizeof(name), file) != NULL && strncmp(name, "completion", 10) == 0;
    if (file != NULL) {
        (void)fclose(file);
    }
    return is;
}

static uint64_t completion_cpu_ns(void)
{
    uint64_t sum = 0;
    DIR *threads = opendir("/proc/self/task");
    for (const struct dirent *one; threads != NULL && (one = readdir(threads)) != NULL;) {
        if (is_completion_thread(one->d_name)) {
            sum += cpu_ns_of((unsigned)strtoul(one->d_name, NULL, 10));
        }
    }
    if (threads != NULL) {
        (void)closedir(threads);
    }
    return sum;
}

static bool take_cpu(struct publish_bench *bench, uint64_t older_ns, double *cpu, double *wall)
{
    uint64_t used = completion_cpu_ns(), begin = gy_clock_ns();
    bool good = run_step(bench, older_ns);
    *wall = (double)(gy_clock_ns() - begin);
    *cpu = (double)(completion_cpu_ns() - used);
    return good;
}

/* ---- rows ------------------------------------------------------------------------------------ */

/* Print the row NAME-MODE of sorted numbers.  Its value is not the fastest, but the one than which so many
 * of 100 are faster. */
static void report(const struct bench_options *options, const char *name, const char *yardstick, bool good,
                   const double *ours, const double *theirs, uint32_t count, uint32_t percent)
{
    uint32_t first = count * percent / 100 < count ? count * percent / 100 : count - 1;
    uint32_t middle = percent != 0 ? first : count / 2;
    struct bench_case one = {.name = name, .item = "event", .items = 1};
    one.yardstick = (struct bench_side){.name = yardstick};
    struct bench_result result = {.min_ns = ours[first],
                                  .median_ns = ours[middle],
                                  .yardstick_min_ns = theirs[first],
                                  .yardstick_median_ns = theirs[middle],
                                  .verified = good};
    bench_report(options, &one, &result);
}

static bool open_memory(struct publish_bench *bench)
{
    gantry_heap *heap = gantry_context_heap(bench->scene.context);
    gantry_alloc_site site = GANTRY_ALLOC_SITE("bench latency");
    size_t bytes = (PER_STEP + 1) * sizeof(uint32_t);
    void *words;
    if (!ok(gantry_heap_alloc(heap, GANTRY_MEMORY_DEVICE, bytes, 0, site, &bench->counts)) ||
        !ok(gantry_heap_alloc(heap, GANTRY_MEMORY_PINNED, bytes, 0, site, &words))) {
        return false;
    }
    bench->words = words;
    return RAW(&bench->scene.cuda,
               cuMemsetD8Async((CUdeviceptr)(uintptr_t)bench->counts, 0, bytes, bench->scene.stream)) &&
           RAW(&bench->scene.cuda, cuStreamSynchronize(bench->scene.stream));
}

static bool open_bench(struct publish_bench *bench, const struct bench_options *options,
                       gantry_wait_mode mode)
{
    const struct event_scene_options scene = {.driver = options->driver,
                                              .completions = mode,
                                              .workers = GANTRY_WAIT_BLOCK,
                                              .worker_count = 1,
                                              .event_blocks = mode == GANTRY_WAIT_BLOCK,
                                              .image = &gantry_image_critical_kernels,
                                              .kernel = "occupy"};
    bench->count = options->runs > 1 ? PER_STEP : FOR_A_LOOK;
    return bench_event_scene_open(&bench->scene, &scene) && open_memory(bench);
}

static void close_bench(struct publish_bench *bench)
{
    gantry_heap *heap = bench->scene.context != NULL ? gantry_context_heap(bench->scene.context) : NULL;
    if (bench->counts != NULL) {
        (void)gantry_heap_free(heap, bench->counts);
    }
    if (bench->words != NULL) {
        (void)gantry_heap_free(heap, (void *)bench->words);
    }
    bench_event_scene_close(&bench->scene);
}

struct publish_mode {
    gantry_wait_mode mode;
    const char *yardstick;
    const char *names[2][3]; /* alone, beside older work: the rows */
};

#define ROWS(where, name)                                                                                   \
    {                                                                                                       \
        "latency/publish-" where name, "latency/publish-p99-" where name, "latency/publish-cpu-" where name \
    }
#define MODE(wait, yardstick, name)               \
    {                                             \
        wait, yardstick,                          \
        {                                         \
            ROWS("", name), ROWS("beside-", name) \
        }                                         \
    }

static bool measure(struct publish_bench *bench, const struct publish_mode *mode,
                    const struct bench_options *options, bool beside)
{
    uint32_t count = bench->count, runs = options->runs;
    uint64_t older_ns = !beside ? 0 : options->runs > 1 ? OLDER_NS : OLDER_NS / 10;
    double *all = calloc(2 * (size_t)runs * count + 2 * (size_t)runs, sizeof(double));
    if (all == NULL) {
        return false;
    }
    double *theirs = all + (size_t)runs * count, *cpu = theirs + (size_t)runs * count, *wall = cpu + runs;
    /* this step is not kept: it lets the threads learn how long they wait */
    bool good = run_step(bench, older_ns);
    for (uint32_t i = 0; i < runs && good; i++) {
        good = take_ours(bench, older_ns, all + (size_t)i * count) &&
               take_by_hand(bench, theirs + (size_t)i * count) &&
               take_cpu(bench, older_ns, &cpu[i], &wall[i]);
    }
    bench_sort(all, (size_t)runs * count);
    bench_sort(theirs, (size_t)runs * count);
    bench_sort(cpu, runs);
    bench_sort(wall, runs);
    const char *const *names = mode->names[beside];
    report(options, names[0], mode->yardstick, good, all, theirs, runs * count, 0);
    report(options, names[1], mode->yardstick, good, all, theirs, runs * count, 99);
    report(options, names[2], "wall", good, cpu, wall, runs, 0);
    free(all);
    return good;
}

bool bench_publish(const struct bench_options *options)
{
    static const struct publish_mode modes[] = {
        MODE(GANTRY_WAIT_SPIN, "event-spin", "spin"),
        MODE(GANTRY_WAIT_HYBRID, "event-spin", "hybrid"),
        MODE(GANTRY_WAIT_ADAPTIVE, "event-spin", "adaptive"),
        MODE(GANTRY_WAIT_BLOCK, "event-block", "block"),
    };
    bool good = true;
    for (size_t i = 0; i < sizeof(modes) / sizeof(modes[0]); i++) {
        struct publish_bench bench;
        memset(&bench, 0, sizeof(bench));
        bool opened = open_bench(&bench, options, modes[i].mode);
        good = opened && good;
        for (int beside = 0; beside < 2 && opened; beside++) {
            good = measure(&bench, &modes[i], options, beside != 0) && good;
        }
        close_bench(&bench);
    }
    return good;
}
