/* SPDX-License-Identifier: MIT */
/* `gantry bench overlap`: what graphs of one manager cost the work of another.
 *
 * two-managers: each manager submits a step of kernels in 8 pipelines, with 8 blocks each, which leaves room
 * for both on the device.  The time of both at once is compared with that of one alone.  critical: a short
 * task in a partition of its own is timed from its start until a CPU task knows its end.  Meanwhile another
 * manager submits steps of 1000 kernels without a pause, with a new shape every 100 steps.  Ours is graphs
 * mode, the yardstick is the same on streams.  beside: of a step, a task of 5 us, a CPU task behind it, and
 * another task of 5 us behind that are timed until the host knows their end, beside a task of 2 ms that
 * became ready with the first one; the yardstick is the same on streams.  urgent: two kernels are submitted
 * together, one that fills the device 72 times and a short one with the greatest priority.  The time from the
 * long one's begin to the short one's end is compared with that without the priority. */
#include "base/clock.h"
#include "bench/harness.h"
#include "bench/overlap_buffers.h"
#include "bench/raw_cuda.h"

#include <gantry/gantry.h>

#include "critical_kernels.kernels.h"

#include <pthread.h>
#include <stdatomic.h>
#include <stdlib.h>
#include <string.h>

enum { PIPELINES = 8, BLOCKS = 8, WIDE_KERNELS = 200, MANY_KERNELS = 1000, SHAPE_STEPS = 100, MOST = 2000 };

enum { WAVES = 72, WAVE_NS = 138000, URGENT_NS = 20000, THREADS = 1024, PATIENCE_S = 5 };

struct overlap {
    gantry_context *context;
    gantry_cpu_dispatcher *cpus;
    gantry_taskman *managers[2]; /* the first manager alone is the yardstick */
    gantry_partition *critical;  /* NULL: no plan */
    gantry_kernel *kernel;
    struct raw_cuda cuda;
    uint32_t *counter; /* on the device: how many blocks have run, and how many of urgent kernels */
    uint64_t launched; /* how many blocks were launched; one thread calls the callbacks of both managers */
    uint64_t ns;       /* of a kernel */
    uint32_t kernels, blocks;
    bool emulated;
    atomic_bool closing, failed; /* atomic */
    uint64_t ended_ns;           /* the critical task's */
    gantry_task *then;
    bool has_priority; /* the urgent kernel */
    int priority;
    atomic_uint *words; /* in page-locked memory: the long kernel has begun, the urgent one has ended */
    void *words_device;
};

static bool ok(gantry_status status)
{
    return bench_ok("overlap", status);
}

/* ---- work ----------------------------------------------------------------------------------- */

static gantry_launch_result launch(gantry_launch *launch, void *arg)
{
    struct overlap *o = arg;
    void *none = NULL, *done = o->counter;
    uint64_t ns = o->ns;
    void *args[] = {&none, &none, &done, &ns};
    const gantry_dim3 grid = {o->blocks, 1, 1}, block = {32, 1, 1};
    o->launched += o->blocks;
    return gantry_launch_kernel(launch, o->kernel, grid, block, 0, args) == GANTRY_OK ? GANTRY_LAUNCH_DONE
                                                                                      : GANTRY_LAUNCH_FAILED;
}

static gantry_launch_result launch_critical(gantry_launch *launch, void *arg)
{
    struct overlap *o = arg;
    void *none = NULL, *done = o->counter;
    uint64_t ns = 5000;
    void *args[] = {&none, &none, &done, &ns};
    const gantry_dim3 one = {1, 1, 1};
    o->launched++;
    return gantry_launch_kernel(launch, o->kernel, one, one, 0, args) == GANTRY_OK &&
                   gantry_launch_add_completion(launch, o->then) == GANTRY_OK
               ? GANTRY_LAUNCH_DONE
               : GANTRY_LAUNCH_FAILED;
}

static gantry_status note_end(gantry_task *task, void *arg)
{
    (void)task;
    ((struct overlap *)arg)->ended_ns = gy_clock_ns();
    return GANTRY_OK;
}

/* Submit `kernels` tasks in pipelines, each after the one before it. */
static bool submit(struct overlap *o, gantry_taskman *manager, uint32_t kernels)
{
    gantry_task *last[PIPELINES] = {NULL};
    bool good = true;
    for (uint32_t i = 0; i < kernels && good; i++) {
        gantry_task_desc desc = GANTRY_TASK_DESC_INIT;
        gantry_task *task;
        desc.kind = GANTRY_TASK_KERNEL;
        desc.launch = launch;
        desc.arg = o;
        good = ok(gantry_taskman_submit(manager, &desc, &task)) &&
               (last[i % PIPELINES] == NULL || ok(gantry_task_start_after(task, last[i % PIPELINES])));
        last[i % PIPELINES] = task;
    }
    return good;
}

static bool verify(void *arg)
{
    struct overlap *o = arg;
    uint32_t ran = 0;
    return ok(gantry_context_synchronize(o->context)) &&
           RAW(&o->cuda, cuMemcpyDtoH(&ran, (CUdeviceptr)(uintptr_t)o->counter, sizeof(ran))) &&
           ran == (uint32_t)o->launched && !atomic_load(&o->failed);
}

/* ---- life ----------------------------------------------------------------------------------- */

static bool open_managers(struct overlap *o, const struct bench_options *options,
                          gantry_submission submission, bool is_planned)
{
    gantry_partition_request requests[] = {
        {.struct_size = sizeof(requests[0]),
         .name = "critical",
         .size = GANTRY_PARTITION_AT_LEAST,
         .sm_count = 16},
        {.struct_size = sizeof(requests[0]), .name = "rest", .size = GANTRY_PARTITION_REST},
    };
    gantry_partition_options plan = GANTRY_PARTITION_OPTIONS_INIT;
    gantry_context_options context = GANTRY_CONTEXT_OPTIONS_INIT;
    gantry_cpu_dispatcher_options cpus = GANTRY_CPU_DISPATCHER_OPTIONS_INIT;
    gantry_taskman_options manager = GANTRY_TASKMAN_OPTIONS_INIT;
    plan.requests = requests;
    plan.count = 2;
    context.driver = options->driver;
    context.submission = submission;
    context.partitions = is_planned ? &plan : NULL;
    cpus.worker_count = 1;
    bool good =
        ok(gantry_context_create(&context, &o->context)) && ok(gantry_cpu_dispatcher_create(&cpus, &o->cpus));
    manager.cpu_dispatcher = o->cpus;
    manager.gpu_dispatcher = good ? gantry_context_dispatcher(o->context) : NULL;
    return good && ok(gantry_taskman_create(&manager, &o->managers[0])) &&
           ok(gantry_taskman_create(&manager, &o->managers[1])) &&
           (!is_planned || ok(gantry_partition_find(o->context, "critical", &o->critical)));
}

static bool open_overlap(struct overlap *o, const struct bench_options *options, gantry_submission submission,
                         bool is_planned)
{
    const uint32_t zero[2] = {0, 0};
    gantry_module *module;
    void *counter;
    memset(o, 0, sizeof(*o));
    o->emulated = options->emulated;
    if (!open_managers(o, options, submission, is_planned) || !raw_cuda_open(o->context, &o->cuda) ||
        !ok(gantry_context_acquire(o->context)) ||
        !ok(gantry_module_load(o->context, &gantry_image_critical_kernels, &module)) ||
        !ok(gantry_module_get_kernel(module, "occupy", &o->kernel)) ||
        !ok(gantry_heap_alloc(gantry_context_heap(o->context), GANTRY_MEMORY_DEVICE, 2 * sizeof(uint32_t), 0,
                              GANTRY_ALLOC_SITE("counter"), &counter))) {
        return false;
    }
    o->counter = counter;
    return raw_cuda_upload(&o->cuda, counter, zero, sizeof(zero));
}

static void close_overlap(struct overlap *o)
{
    gantry_taskman_destroy(o->managers[0]);
    gantry_taskman_destroy(o->managers[1]);
    gantry_cpu_dispatcher_destroy(o->cpus);
    if (o->counter != NULL) {
        (void)gantry_heap_free(gantry_context_heap(o->context), o->counter);
        (void)gantry_context_release(o->context);
    }
    gantry_context_destroy(o->context);
}

/* ---- two managers ------------------------------------------------------------------------------ */

static bool prepare(struct overlap *o, uint32_t count)
{
    bool good = true;
    for (uint32_t m = 0; m < count; m++) {
        good = good && submit(o, o->managers[m], o->kernels);
    }
    return good;
}

static bool run(struct overlap *o, uint32_t count)
{
    bool good = true;
    for (uint32_t m = 0; m < count; m++) {
        good = good && ok(gantry_taskman_start(o->managers[m]));
    }
    for (uint32_t m = 0; m < count; m++) {
        good = good && ok(gantry_taskman_stop(o->managers[m]));
    }
    good = good && ok(gantry_context_synchronize(o->context));
    for (uint32_t m = 0; m < count; m++) {
        good = ok(gantry_taskman_reset(o->managers[m])) && good;
    }
    return good;
}

static bool prepare_both(void *arg)
{
    return prepare(arg, 2);
}

static bool run_both(void *arg)
{
    return run(arg, 2);
}

static bool prepare_one(void *arg)
{
    return prepare(arg, 1);
}

static bool run_one(void *arg)
{
    return run(arg, 1);
}

static bool bench_managers(const struct bench_options *options, gantry_submission submission,
                           const char *name)
{
    struct overlap *o = calloc(1, sizeof(*o));
    if (o == NULL) {
        return false;
    }
    bool good = open_overlap(o, options, submission, false);
    o->kernels = options->emulated ? 40 : WIDE_KERNELS;
    o->blocks = BLOCKS;
    o->ns = options->emulated ? 1000 : 50000;
    for (int i = 0; i < 3 && good; i++) { /* the dispatcher learns the shapes and the functions */
        good = prepare(o, 2) && run(o, 2) && prepare(o, 1) && run(o, 1);
    }
    const struct bench_case one = {.name = name,
                                   .item = "step",
                                   .items = 1,
                                   .ours = {.prepare = prepare_both, .run = run_both, .verify = verify},
                                   .yardstick = {"one alone", prepare_one, run_one, verify},
                                   .arg = o};
    good = good && bench_run(options, &one, NULL);
    close_overlap(o);
    free(o);
    return good;
}

/* ---- critical ---------------------------------------------------------------------------------- */

static void *run_background(void *arg)
{
    struct overlap *o = arg;
    const uint32_t many = o->emulated ? 60 : MANY_KERNELS;
    bool good = true;
    for (uint32_t step = 0; good && !atomic_load(&o->closing); step++) {
        good = submit(o, o->managers[0], many + step / SHAPE_STEPS % 16) &&
               ok(gantry_taskman_start(o->managers[0])) && ok(gantry_taskman_stop(o->managers[0])) &&
               ok(gantry_taskman_reset(o->managers[0]));
        good = good && (step % 8 != 7 || ok(gantry_context_synchronize(o->context)));
    }
    atomic_store(&o->failed, atomic_load(&o->failed) || !good);
    return NULL;
}

static bool shoot(struct overlap *o, double *ns)
{
    gantry_task_desc kernel = GANTRY_TASK_DESC_INIT, then = GANTRY_TASK_DESC_INIT;
    gantry_task *gpu;
    kernel.kind = GANTRY_TASK_KERNEL;
    kernel.launch = launch_critical;
    kernel.partition = o->critical;
    then.run = note_end;
    kernel.arg = then.arg = o;
    bool good = ok(gantry_taskman_submit(o->managers[1], &then, &o->then)) &&
                ok(gantry_taskman_submit(o->managers[1], &kernel, &gpu)) &&
                ok(gantry_task_start_after(o->then, gpu));
    uint64_t begin = gy_clock_ns();
    good = good && ok(gantry_taskman_start(o->managers[1])) && ok(gantry_taskman_stop(o->managers[1]));
    *ns = (double)(o->ended_ns - begin);
    return ok(gantry_taskman_reset(o->managers[1])) && good;
}

/* Measure the p50 and the p99 of a critical task. */
static bool measure_critical(const struct bench_options *options, gantry_submission submission, double out[2])
{
    struct overlap *o = calloc(1, sizeof(*o));
    double *all = calloc(MOST, sizeof(*all));
    uint32_t count = options->emulated ? 10 : options->runs * 100;
    pthread_t thread;
    count = count < MOST ? count : MOST;
    bool good = o != NULL && all != NULL && open_overlap(o, options, submission, true);
    if (good) {
        o->blocks = 1;
        good = pthread_create(&thread, NULL, run_background, o) == 0;
        const bool has_thread = good;
        for (uint32_t i = 0; i < 20 + count && good; i++) { /* the first samples warm up and do not count */
            good = shoot(o, &all[i < 20 ? 0 : i - 20]);
        }
        atomic_store(&o->closing, true);
        good = (!has_thread || pthread_join(thread, NULL) == 0) && good && verify(o);
        bench_sort(all, count);
        out[0] = all[count / 2];
        out[1] = all[(count - 1) * 99 / 100];
    }
    if (o != NULL) {
        close_overlap(o);
    }
    free(all);
    free(o);
    return good;
}

static bool bench_critical(const struct bench_options *options)
{
    static const char *const names[2] = {"overlap/critical", "overlap/critical-p99"};
    double streams[2] = {0, 0}, graphs[2] = {0, 0};
    bool good = measure_critical(options, GANTRY_SUBMISSION_STREAMS, streams) &&
                measure_critical(options, GANTRY_SUBMISSION_GRAPHS, graphs);
    for (int i = 0; i < 2; i++) {
        const struct bench_case one = {
            .name = names[i], .item = "task", .items = 1, .yardstick = {.name = "on streams"}};
        const struct bench_result result = {graphs[i], graphs[i], streams[i], streams[i], 0, 0, good};
        bench_report(options, &one, &result);
    }
    return good;
}

/* ---- beside ------------------------------------------------------------------------------------ */

struct link {
    struct overlap *o;
    gantry_task *then;
};

static gantry_launch_result launch_link(gantry_launch *launch, void *arg)
{
    struct link *link = arg;
    link->o->then = link->then;
    return launch_critical(launch, link->o);
}

static gantry_status do_nothing(gantry_task *task, void *arg)
{
    (void)task;
    (void)arg;
    return GANTRY_OK;
}

static bool submit_link(struct link *link, gantry_task **out)
{
    gantry_task_desc desc = GANTRY_TASK_DESC_INIT;
    desc.kind = GANTRY_TASK_KERNEL;
    desc.launch = launch_link;
    desc.arg = link;
    return ok(gantry_taskman_submit(link->o->managers[0], &desc, out)) &&
           ok(gantry_task_start_after(link->then, *out));
}

/* The first short kernel and the long one are ready at once. */
static bool time_beside(struct overlap *o, double *ns)
{
    gantry_taskman *manager = o->managers[0];
    gantry_dispatcher *dispatcher = gantry_context_dispatcher(o->context);
    gantry_task_desc between = GANTRY_TASK_DESC_INIT, end = GANTRY_TASK_DESC_INIT;
    struct link first = {.o = o}, second = {.o = o};
    gantry_task *a1, *a2;
    between.run = do_nothing;
    end.run = note_end;
    end.arg = o;
    bool good = ok(gantry_taskman_submit(manager, &between, &first.then)) &&
                ok(gantry_taskman_submit(manager, &end, &second.then)) && submit_link(&first, &a1) &&
                submit(o, manager, 1) && submit_link(&second, &a2) &&
                ok(gantry_task_start_after(a2, first.then));
    gantry_dispatcher_start_group(dispatcher); /* both are there when the first one is looked at */
    good = good && ok(gantry_taskman_start(manager));
    const uint64_t begin = gy_clock_ns();
    gantry_dispatcher_finish_group(dispatcher);
    good = ok(gantry_taskman_stop(manager)) && good;
    *ns = (double)(o->ended_ns - begin);
    good = ok(gantry_context_synchronize(o->context)) && good;
    return ok(gantry_taskman_reset(manager)) && good;
}

static bool measure_beside(const struct bench_options *options, gantry_submission submission, double *out)
{
    double all[MOST];
    struct overlap *o = calloc(1, sizeof(*o));
    const uint32_t count = options->emulated ? 10 : options->runs * 20 < MOST ? options->runs * 20 : MOST;
    bool good = o != NULL && open_overlap(o, options, submission, false);
    if (good) {
        o->blocks = 1;
        o->ns = 2000000;
        for (uint32_t i = 0; i < 20 + count && good; i++) { /* the first samples warm up and do not count */
            good = time_beside(o, &all[i < 20 ? 0 : i - 20]);
        }
        good = good && verify(o);
        bench_sort(all, count);
        *out = all[count / 2];
    }
    if (o != NULL) {
        close_overlap(o);
    }
    free(o);
    return good;
}

static bool bench_beside(const struct bench_options *options)
{
    static const struct {
        const char *name;
        gantry_submission submission;
    } ways[2] = {{"overlap/beside-graphs", GANTRY_SUBMISSION_GRAPHS},
                 {"overlap/beside-auto", GANTRY_SUBMISSION_AUTO}};
    double streams = 0;
    bool good = measure_beside(options, GANTRY_SUBMISSION_STREAMS, &streams);
    for (int i = 0; i < 2 && good; i++) {
        const struct bench_case one = {
            .name = ways[i].name, .item = "step", .items = 1, .yardstick = {.name = "on streams"}};
        double ns = 0;
        good = measure_beside(options, ways[i].submission, &ns);
        const struct bench_result result = {ns, ns, streams, streams, 0, 0, good};
        bench_report(options, &one, &result);
    }
    return good;
}

/* ---- urgent ------------------------------------------------------------------------------------ */

static gantry_launch_result launch_long(gantry_launch *launch, void *arg)
{
    struct overlap *o = arg;
    void *begun = o->words_device, *none = NULL, *done = o->counter;
    uint64_t ns = o->ns;
    void *args[] = {&begun, &none, &done, &ns};
    const gantry_dim3 grid = {o->blocks, 1, 1}, block = {THREADS, 1, 1};
    o->launched += o->blocks;
    return gantry_launch_kernel(launch, o->kernel, grid, block, 0, args) == GANTRY_OK ? GANTRY_LAUNCH_DONE
                                                                                      : GANTRY_LAUNCH_FAILED;
}

static gantry_launch_result launch_urgent(gantry_launch *launch, void *arg)
{
    struct overlap *o = arg;
    /* Blocks of one grid only tell the host of its last one, so this grid has a counter of its own. */
    void *none = NULL, *ended = (uint32_t *)o->words_device + 1, *done = o->counter + 1;
    uint64_t ns = o->emulated ? 1000 : URGENT_NS;
    void *args[] = {&none, &ended, &done, &ns};
    const gantry_dim3 one = {1, 1, 1};
    gantry_launch_options options = GANTRY_LAUNCH_OPTIONS_INIT;
    options.has_priority = 1;
    options.priority = o->priority;
    return gantry_launch_kernel_with(launch, o->kernel, one, one, 0, args,
                                     o->has_priority ? &options : NULL) == GANTRY_OK
               ? GANTRY_LAUNCH_DONE
               : GANTRY_LAUNCH_FAILED;
}

static bool await_word(struct overlap *o, uint32_t word, uint64_t *ns)
{
    uint64_t begin = gy_clock_ns(), now = begin;
    while (atomic_load_explicit(&o->words[word], memory_order_acquire) == 0 &&
           now - begin < PATIENCE_S * UINT64_C(1000000000)) {
        now = gy_clock_ns();
    }
    *ns = now;
    return atomic_load(&o->words[word]) != 0 && gantry_context_is_valid(o->context);
}

static bool submit_urgent(struct overlap *o, bool is_stable)
{
    gantry_launch_fn functions[2] = {launch_long, launch_urgent};
    bool good = true;
    for (int i = 0; i < 2 && good; i++) {
        gantry_task_desc desc = GANTRY_TASK_DESC_INIT;
        gantry_task *task;
        desc.kind = GANTRY_TASK_KERNEL;
        desc.launch = functions[i];
        desc.arg = o;
        desc.is_stable = is_stable;
        good = ok(gantry_taskman_submit(o->managers[0], &desc, &task));
    }
    return good && (!is_stable || ok(gantry_taskman_freeze(o->managers[0])));
}

static bool time_urgent(struct overlap *o, double *ns)
{
    gantry_dispatcher *dispatcher = gantry_context_dispatcher(o->context);
    uint64_t begun = 0, ended = 0;
    atomic_store(&o->words[0], 0);
    atomic_store(&o->words[1], 0);
    gantry_dispatcher_start_group(dispatcher); /* both are there when the first one is looked at */
    bool good = ok(gantry_taskman_start(o->managers[0]));
    gantry_dispatcher_finish_group(dispatcher);
    good = good && await_word(o, 0, &begun) && await_word(o, 1, &ended);
    good = ok(gantry_taskman_stop(o->managers[0])) && good;
    *ns = ended > begun ? (double)(ended - begun) : 0;
    return ok(gantry_context_synchronize(o->context)) && good;
}

static bool open_urgent(struct overlap *o, const struct bench_options *options, gantry_submission submission)
{
    void *memory = NULL;
    int least = 0;
    gantry_device_info info = {.struct_size = sizeof(info)};
    if (!open_overlap(o, options, submission, false) ||
        !ok(gantry_heap_alloc(gantry_context_heap(o->context), GANTRY_MEMORY_PINNED, 2 * sizeof(uint32_t), 0,
                              GANTRY_ALLOC_SITE("words"), &memory)) ||
        !ok(gantry_heap_device_address(gantry_context_heap(o->context), memory, &o->words_device)) ||
        !RAW(&o->cuda, cuCtxGetStreamPriorityRange(&least, &o->priority)) ||
        !ok(gantry_context_device_info(o->context, &info))) {
        return false;
    }
    o->words = memory;
    o->blocks = options->emulated ? 4 : info.total_sms * (2048 / THREADS) * WAVES;
    o->ns = options->emulated ? 1000 : WAVE_NS;
    return true;
}

/* The median of some steps; the same tasks each time, so that they may be launched again, or new ones. */
static bool measure_urgent(const struct bench_options *options, gantry_submission submission, bool is_stable,
                           bool has_priority, double *out)
{
    enum { STEPS = 12, FIRST = 5 }; /* the first ones do not count */
    struct overlap *o = calloc(1, sizeof(*o));
    double all[STEPS] = {0};
    bool good = o != NULL && open_urgent(o, options, submission);
    if (good) {
        o->has_priority = has_priority;
        good = !is_stable || submit_urgent(o, true);
        for (uint32_t i = 0; i < STEPS && good; i++) {
            good = (is_stable || submit_urgent(o, false)) && time_urgent(o, &all[i]) &&
                   (is_stable || ok(gantry_taskman_reset(o->managers[0])));
        }
    }
    gantry_dispatcher_stats stats = {.struct_size = sizeof(stats)};
    if (good && submission == GANTRY_SUBMISSION_GRAPHS) { /* what is measured were graphs */
        good = ok(gantry_dispatcher_get_stats(gantry_context_dispatcher(o->context), &stats)) &&
               stats.graph_launches + stats.graph_replays >= STEPS - FIRST;
    }
    bench_sort(all + FIRST, STEPS - FIRST);
    *out = all[(FIRST + STEPS) / 2];
    if (o != NULL) {
        (void)gantry_heap_free(o->context != NULL ? gantry_context_heap(o->context) : NULL, o->words);
        close_overlap(o);
    }
    free(o);
    return good;
}

static bool bench_urgent(const struct bench_options *options)
{
    static const struct {
        const char *name;
        gantry_submission submission;
        bool is_stable;
    } rows[] = {{"overlap/urgent-streams", GANTRY_SUBMISSION_STREAMS, false},
                {"overlap/urgent-graphs", GANTRY_SUBMISSION_GRAPHS, false},
                {"overlap/urgent-replayed", GANTRY_SUBMISSION_GRAPHS, true}};
    bool good = true;
    for (size_t i = 0; i < sizeof(rows) / sizeof(rows[0]) && good; i++) {
        double with = 0, without = 0;
        good = measure_urgent(options, rows[i].submission, rows[i].is_stable, false, &without) &&
               measure_urgent(options, rows[i].submission, rows[i].is_stable, true, &with);
        const struct bench_case one = {
            .name = rows[i].name, .item = "task", .items = 1, .yardstick = {.name = "no priority"}};
        const struct bench_result result = {with, with, without, without, 0, 0, good};
        bench_report(options, &one, &result);
    }
    return good;
}

static bool bench_overlap(const struct bench_options *options)
{
    bool good = bench_managers(options, GANTRY_SUBMISSION_STREAMS, "overlap/two-managers-streams");
    good = bench_managers(options, GANTRY_SUBMISSION_GRAPHS, "overlap/two-managers-graphs") && good;
    good = bench_critical(options) && good;
    good = bench_beside(options) && good;
    good = bench_double_buffer(options) && good;
    return bench_urgent(options) && good;
}

const struct gantry_bench gantry_bench_overlap = {
    .name = "overlap",
    .summary = "what the graphs of one manager cost the work of another",
    .help =
        "  two-managers   steps of two managers at once, for which the device has room, against one alone\n"
        "  critical       a short task in a partition of its own beside steps of 1000 kernels of another "
        "manager:\n"
        "                 in graphs mode, against the same on streams; the median, and 99 of 100\n"
        "  beside         a task of 5 us, a CPU task behind it and another task of 5 us, beside a task of 2 "
        "ms,\n"
        "                 ready with the first: until the host knows the end of the last, in graphs mode "
        "and "
        "auto,\n"
        "                 against the same on streams\n"
        "  double-buffer  steps that upload a piece into one of two buffers and work on it, in order from\n"
        "                 data, against two streams and events by hand; hidden: what either needs less than\n"
        "                 one-stream, where nothing overlaps\n"
        "  urgent         a kernel of 20 us of the greatest priority beside one that fills the device 72 "
        "times\n"
        "                 for 138 us: from the long one's begin to its end, against the same without\n"
        "                 priority; on streams, in graphs, in graphs that are launched again\n",
    .main = bench_overlap,
};
