/* SPDX-License-Identifier: MIT */
/* From settings to proofs.
 *
 * All proofs of a run are one graph.  A proof: begin -> its partitions, each on its own -> end.  A partition:
 *
 *   synthesis -> preparation -> upload -> transforms -> download -> landed -> tail -> freeing
 *   CPU, a loop  CPU, one thread  ------------- device --------    (completion)  CPU, a loop   CPU
 *
 * Only `concurrency` proofs have begun at a time: the others' begin has one reference more, which the end of
 * a proof takes from the next one, whatever became of it.  Later stages go before earlier ones (priorities),
 * so that what was begun is ended before more memory is taken.  What the device will need is declared:
 * uploads do not run ahead of what fits (--admission off: they do). */
#include "samples/proof_pipeline/pipeline.h"

#include "cli/messages.h"
#include "cli/samples.h"
#include "samples/proof_pipeline/internal.h"

#include "proof_kernels.kernels.h"

#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

enum { TAIL_CLASS = 1, MOST_MESSAGES = 5 };

uint64_t proof_now_ns(void)
{
    struct timespec t;
    clock_gettime(CLOCK_MONOTONIC, &t);
    return (uint64_t)t.tv_sec * 1000000000u + (uint64_t)t.tv_nsec;
}

void proof_tell(struct pipeline *pipeline, const char *what, const char *why)
{
    if (atomic_fetch_add(&pipeline->failed, 1) < MOST_MESSAGES) {
        cli_error("proof_pipeline: %s: %s", what, why);
    }
}

static bool ok(struct pipeline *pipeline, gantry_status status, const char *what)
{
    if (status != GANTRY_OK) {
        proof_tell(pipeline, what, cli_cause(status));
    }
    return status == GANTRY_OK;
}

/* ---- set-up -------------------------------------------------------------------------------- */

static bool open_context(struct pipeline *p)
{
    gantry_heap_options heap = GANTRY_HEAP_OPTIONS_INIT;
    heap.reclaim = p->settings.reclaim;
    heap.keep_bytes[GANTRY_MEMORY_HOST] = SIZE_MAX;
    heap.limit_bytes[GANTRY_MEMORY_DEVICE] = (size_t)p->settings.device_bytes;
    gantry_context_options options = GANTRY_CONTEXT_OPTIONS_INIT;
    options.driver = p->settings.driver;
    options.heap = &heap;
    p->info.struct_size = sizeof(p->info);
    if (!ok(p, gantry_context_create(&options, &p->context), "the device") ||
        !ok(p, gantry_context_device_info(p->context, &p->info), "the device")) {
        return false;
    }
    p->heap = gantry_context_heap(p->context);
    static const char *const names[KERNELS] = {"proof_forward", "proof_backward", "proof_scale",
                                               "proof_combine", "proof_bucket_sums"};
    gantry_module *module = NULL;
    bool good = ok(p, gantry_module_load(p->context, &gantry_image_proof_kernels, &module), "the kernels");
    for (int i = 0; i < KERNELS && good; i++) {
        good = ok(p, gantry_module_get_kernel(module, names[i], &p->kernels[i]), "the kernels");
    }
    return good;
}

static uint32_t count_cpus(void)
{
    uint32_t all = 0, more = 0;
    for (uint32_t i = 0; gantry_cpu_cache_domain(i, NULL, 0, &more) == GANTRY_OK && more != 0; i++) {
        all += more;
    }
    return all;
}

/* On the CPUs of the first cache domains that together have one for each worker of tails.  Where these are
 * all that there are, nothing changes. */
static bool place_tails(struct pipeline *p)
{
    if (!p->settings.cpu_set) {
        return true;
    }
    uint32_t *cpus = malloc(p->tail_cpus * sizeof(*cpus));
    if (cpus == NULL) {
        proof_tell(p, "the CPUs of tails", "no memory");
        return false;
    }
    gantry_cpu_class_options tails = GANTRY_CPU_CLASS_OPTIONS_INIT;
    tails.cpus = cpus;
    for (uint32_t i = 0, more = 1; more != 0 && (i == 0 || tails.cpu_count < p->settings.tail_workers); i++) {
        uint32_t room = p->tail_cpus - tails.cpu_count;
        if (gantry_cpu_cache_domain(i, cpus + tails.cpu_count, room, &more) != GANTRY_OK || more > room) {
            break;
        }
        tails.cpu_count += more;
    }
    bool good = tails.cpu_count == p->tail_cpus ||
                ok(p, gantry_cpu_dispatcher_set_class(p->cpus, TAIL_CLASS, &tails), "the CPUs of tails");
    p->tail_cpus = tails.cpu_count;
    free(cpus);
    return good;
}

static bool open_workers(struct pipeline *p)
{
    static const uint32_t no_limit = UINT32_MAX;
    gantry_cpu_dispatcher_options cpus = GANTRY_CPU_DISPATCHER_OPTIONS_INIT;
    cpus.worker_count = p->settings.workers;
    cpus.class_count = TAIL_CLASS;
    cpus.class_limits = p->settings.tail_workers != 0 ? &p->settings.tail_workers : &no_limit;
    gantry_taskman_options manager = GANTRY_TASKMAN_OPTIONS_INIT;
    manager.gpu_dispatcher = gantry_context_dispatcher(p->context);
    if (!ok(p, gantry_cpu_dispatcher_create(&cpus, &p->cpus), "the workers")) {
        return false;
    }
    manager.cpu_dispatcher = p->cpus;
    p->tail_cpus = count_cpus();
    return place_tails(p) && ok(p, gantry_taskman_create(&manager, &p->manager), "the task manager");
}

/* The roots, in a step of their own. */
struct roots {
    struct pipeline *pipeline;
    void *staging;
};

static gantry_launch_result launch_roots(gantry_launch *launch, void *arg)
{
    struct roots *roots = arg;
    struct pipeline *p = roots->pipeline;
    gantry_status status =
        gantry_launch_copy_htod(launch, p->roots, roots->staging, p->problem->rows / 2 * 4);
    return status == GANTRY_OK ? GANTRY_LAUNCH_DONE : GANTRY_LAUNCH_FAILED;
}

/* Upload, then a sync point that waits for it: the staging memory is freed after the step. */
static gantry_status submit_roots(struct pipeline *p, struct roots *roots)
{
    gantry_task_desc upload = GANTRY_TASK_DESC_INIT, landed = GANTRY_TASK_DESC_INIT;
    upload.kind = GANTRY_TASK_HTOD;
    upload.label = "roots";
    upload.launch = launch_roots;
    upload.arg = roots;
    landed.kind = GANTRY_TASK_SYNC_POINT;
    landed.label = "roots landed";
    gantry_task *task = NULL, *sync = NULL;
    gantry_status status = gantry_taskman_submit(p->manager, &upload, &task);
    if (status == GANTRY_OK) {
        status = gantry_taskman_submit(p->manager, &landed, &sync);
    }
    return status == GANTRY_OK ? gantry_task_start_after_done(sync, task) : status;
}

static bool upload_roots(struct pipeline *p)
{
    size_t bytes = p->problem->rows / 2 * 4;
    struct roots roots = {.pipeline = p};
    void *device = NULL;
    gantry_alloc_site site = GANTRY_ALLOC_SITE("roots");
    if (!ok(p, gantry_heap_alloc(p->heap, GANTRY_MEMORY_DEVICE, bytes, 0, site, &device), "roots")) {
        return false;
    }
    p->roots = device;
    if (!ok(p, gantry_heap_alloc(p->heap, GANTRY_MEMORY_PINNED, bytes, 0, site, &roots.staging), "roots")) {
        return false;
    }
    memcpy(roots.staging, p->problem->roots, bytes);
    bool good = ok(p, submit_roots(p, &roots), "roots") && ok(p, gantry_taskman_start(p->manager), "roots") &&
                ok(p, gantry_taskman_stop(p->manager), "roots") &&
                ok(p, gantry_taskman_reset(p->manager), "roots");
    (void)gantry_heap_free(p->heap, roots.staging);
    return good;
}

struct pipeline *proof_open(const struct settings *settings, const struct problem *problem,
                            const struct answer *answers)
{
    struct pipeline *p = calloc(1, sizeof(*p));
    if (p == NULL) {
        return NULL;
    }
    p->settings = *settings;
    p->problem = problem;
    p->answers = answers;
    p->jobs = calloc(settings->jobs, sizeof(*p->jobs));
    p->partitions = calloc((size_t)settings->jobs * settings->partitions, sizeof(*p->partitions));
    if (p->jobs != NULL && p->partitions != NULL && open_context(p) && open_workers(p) && upload_roots(p)) {
        return p;
    }
    proof_close(p);
    return NULL;
}

void proof_close(struct pipeline *p)
{
    if (p == NULL) {
        return;
    }
    gantry_taskman_destroy(p->manager);
    gantry_cpu_dispatcher_destroy(p->cpus);
    if (p->roots != NULL) {
        (void)gantry_heap_free(p->heap, p->roots);
    }
    gantry_context_destroy(p->context);
    free(p->partitions);
    free(p->jobs);
    free(p);
}

/* The heap hands out pages. */
static uint64_t partition_bytes(const struct pipeline *p)
{
    const uint64_t granule = 4096;
    return (proof_words_in_all(p->problem) * 4 + granule - 1) / granule * granule;
}

void proof_device_bytes(const struct pipeline *p, uint64_t *needed, uint64_t *there)
{
    uint32_t jobs = p->settings.concurrency < p->settings.jobs ? p->settings.concurrency : p->settings.jobs;
    *needed = partition_bytes(p) * p->settings.partitions * jobs;
    *there = p->settings.device_bytes != 0 ? p->settings.device_bytes : p->info.memory_bytes;
}

const char *proof_device_name(const struct pipeline *p)
{
    return p->info.name;
}

bool proof_device_is_emulated(const struct pipeline *p)
{
    return p->info.emulated != 0;
}

uint32_t proof_workers(const struct pipeline *p)
{
    return gantry_cpu_dispatcher_worker_count(p->cpus);
}

uint32_t proof_tail_cpus(const struct pipeline *p)
{
    return p->tail_cpus;
}

void proof_set_load(struct pipeline *p, uint32_t concurrency, uint32_t jobs)
{
    p->settings.concurrency = concurrency;
    p->settings.jobs = jobs;
}

/* ---- the graph ----------------------------------------------------------------------------- */

static void note_begin(gantry_task *task, void *arg, gantry_status result)
{
    (void)task, (void)result;
    ((struct job *)arg)->begin_ns = proof_now_ns();
}

static void note_end(gantry_task *task, void *arg, gantry_status result)
{
    (void)task, (void)result;
    struct job *job = arg;
    struct pipeline *p = job->pipeline;
    job->end_ns = proof_now_ns();
    uint32_t next = atomic_fetch_add(&p->next_job, 1);
    if (next < p->settings.jobs) {
        (void)gantry_task_remove_reference(p->jobs[next].begin);
    }
}

static void note_landed(gantry_task *task, void *arg, gantry_status result)
{
    (void)task, (void)result;
    ((struct partition *)arg)->landed_ns = proof_now_ns();
}

static const gantry_task_desc stages[] = {
    {.kind = GANTRY_TASK_CPU,
     .label = "synthesis",
     .run = proof_run_synthesis,
     .priority = GANTRY_TASK_PRIORITY_LOW},
    {.kind = GANTRY_TASK_CPU, .label = "preparation", .run = proof_run_preparation},
    {.kind = GANTRY_TASK_HTOD, .label = "upload", .launch = proof_launch_upload},
    {.kind = GANTRY_TASK_KERNEL, .label = "transforms", .launch = proof_launch_transforms},
    {.kind = GANTRY_TASK_DTOH, .label = "download", .launch = proof_launch_download},
    {.kind = GANTRY_TASK_SYNC_POINT, .label = "landed", .release = note_landed},
    {.kind = GANTRY_TASK_CPU,
     .label = "tail",
     .run = proof_run_tail,
     .priority = GANTRY_TASK_PRIORITY_HIGH,
     .cpu_class = TAIL_CLASS},
    {.kind = GANTRY_TASK_CPU,
     .label = "freeing",
     .run = proof_run_freeing,
     .priority = GANTRY_TASK_PRIORITY_HIGH},
};
enum { STAGE_TASKS = sizeof(stages) / sizeof(stages[0]) };

static gantry_status declare(struct pipeline *p, uint32_t *out)
{
    if (!p->settings.admission) {
        *out = 0;
        return GANTRY_OK;
    }
    uint64_t bytes[GANTRY_MEMORY_KIND_COUNT] = {0};
    bytes[GANTRY_MEMORY_DEVICE] = partition_bytes(p);
    return gantry_taskman_declare_memory(p->manager, bytes, out);
}

static gantry_status submit_partition(struct pipeline *p, struct partition *partition, gantry_task *end)
{
    gantry_task *before = partition->job->begin;
    gantry_status status = declare(p, &partition->memory);
    for (int i = 0; i < STAGE_TASKS && status == GANTRY_OK; i++) {
        gantry_task_desc desc = stages[i];
        desc.struct_size = sizeof(desc);
        desc.arg = partition;
        desc.context_id = (uint64_t)(partition - p->partitions);
        desc.memory = desc.kind >= GANTRY_TASK_HTOD ? partition->memory : 0;
        desc.bandwidth_critical = desc.run == proof_run_tail && p->settings.gate;
        gantry_task *task = NULL;
        status = gantry_taskman_submit(p->manager, &desc, &task);
        if (status == GANTRY_OK) {
            status = desc.kind == GANTRY_TASK_SYNC_POINT ? gantry_task_start_after_done(task, before)
                                                         : gantry_task_start_after(task, before);
        }
        before = task;
    }
    return status == GANTRY_OK ? gantry_task_finish_before(before, end) : status;
}

static gantry_status submit_job(struct pipeline *p, uint32_t number)
{
    struct job *job = &p->jobs[number];
    *job = (struct job){.pipeline = p};
    gantry_task_desc desc = GANTRY_TASK_DESC_INIT;
    desc.kind = GANTRY_TASK_SYNC_POINT;
    desc.label = "proof begins";
    desc.arg = job;
    desc.release = note_begin;
    gantry_status status = gantry_taskman_submit(p->manager, &desc, &job->begin);
    if (status == GANTRY_OK && number >= p->settings.concurrency) {
        status = gantry_task_add_reference(job->begin);
    }
    gantry_task *end = NULL;
    if (status == GANTRY_OK) {
        desc.label = "proof ends";
        desc.release = note_end;
        status = gantry_taskman_submit(p->manager, &desc, &end);
    }
    for (uint32_t i = 0; i < p->settings.partitions && status == GANTRY_OK; i++) {
        struct partition *partition = &p->partitions[(size_t)number * p->settings.partitions + i];
        *partition = (struct partition){.pipeline = p, .job = job, .index = i};
        status = submit_partition(p, partition, end);
    }
    return status;
}

static gantry_status submit_all(struct pipeline *p)
{
    gantry_status status = GANTRY_OK;
    atomic_store(&p->next_job, p->settings.concurrency);
    for (uint32_t i = 0; i < p->settings.jobs && status == GANTRY_OK; i++) {
        status = submit_job(p, i);
    }
    return status;
}

/* ---- a run --------------------------------------------------------------------------------- */

static int compare_launches(const void *a, const void *b)
{
    const struct partition *left = a, *right = b;
    return (left->launched_ns > right->launched_ns) - (left->launched_ns < right->launched_ns);
}

/* The device is busy from a partition's upload being launched to its results having landed. */
static void measure_device(struct pipeline *p, uint64_t begin, uint64_t end, struct measured *out)
{
    size_t count = (size_t)p->settings.jobs * p->settings.partitions;
    qsort(p->partitions, count, sizeof(*p->partitions), compare_launches);
    uint64_t idle = p->partitions[0].launched_ns - begin, until = p->partitions[0].landed_ns, sum = 0,
             gaps = 0;
    for (size_t i = 0; i < count; i++) {
        const struct partition *partition = &p->partitions[i];
        if (partition->launched_ns > until) {
            out->gaps++;
            gaps += partition->launched_ns - until;
        }
        until = partition->landed_ns > until ? partition->landed_ns : until;
        sum += partition->landed_ns - partition->launched_ns;
    }
    idle += gaps + (end - until);
    out->gap_ms = (double)gaps / 1e6;
    out->busy_percent = 100.0 * (1 - (double)idle / (double)(end - begin));
    out->stage_ms[STAGE_DEVICE] = (double)sum / 1e6 / (double)count;
}

static void measure(struct pipeline *p, uint64_t begin, uint64_t end, struct measured *out)
{
    size_t count = (size_t)p->settings.jobs * p->settings.partitions;
    out->seconds = (double)(end - begin) / 1e9;
    for (int i = 0; i < STAGES; i++) {
        out->stage_ms[i] = (double)atomic_exchange(&p->stage_ns[i], 0) / 1e6 / (double)count;
        out->cpu_ms[i] = (double)atomic_exchange(&p->cpu_ns[i], 0) / 1e6 / (double)count;
    }
    for (uint32_t i = 0; i < p->settings.jobs; i++) {
        out->latency_ms += (double)(p->jobs[i].end_ns - p->jobs[i].begin_ns) / 1e6 / p->settings.jobs;
    }
    measure_device(p, begin, end, out);
}

struct before {
    struct counters counters;
    gantry_bandwidth_stats gate;
    gantry_reclaim_stats reclaim;
    gantry_dispatcher_stats dispatcher;
};

static struct before read_counters(struct pipeline *p)
{
    struct before now = {.counters = proof_counters_now(),
                         .gate = {.struct_size = sizeof(now.gate)},
                         .reclaim = {.struct_size = sizeof(now.reclaim)},
                         .dispatcher = {.struct_size = sizeof(now.dispatcher)}};
    (void)!gantry_bandwidth_get_stats(&now.gate);
    (void)!gantry_heap_get_reclaim_stats(p->heap, &now.reclaim);
    (void)!gantry_dispatcher_get_stats(gantry_context_dispatcher(p->context), &now.dispatcher);
    return now;
}

static void subtract(const struct before *before, const struct before *after, struct measured *out)
{
    out->user_ms = after->counters.user_ms - before->counters.user_ms;
    out->system_ms = after->counters.system_ms - before->counters.system_ms;
    out->faults = after->counters.faults - before->counters.faults;
    out->shootdowns =
        after->counters.shootdowns < 0 ? -1 : after->counters.shootdowns - before->counters.shootdowns;
    out->held_ms = (double)(after->gate.held_ns - before->gate.held_ns) / 1e6;
    out->holds = (double)(after->gate.holds - before->gate.holds);
    out->reclaim_waits = (double)(after->reclaim.waits - before->reclaim.waits);
    out->reclaim_running = (double)after->reclaim.peak_running;
    out->admission_waits = (double)(after->dispatcher.memory_waited - before->dispatcher.memory_waited);
    out->admission_wait_ms =
        (double)(after->dispatcher.memory_wait_ns - before->dispatcher.memory_wait_ns) / 1e6;
}

static bool check(struct pipeline *p)
{
    size_t count = (size_t)p->settings.jobs * p->settings.partitions, wrong = 0;
    for (size_t i = 0; i < count; i++) {
        wrong += !p->partitions[i].is_right;
        proof_drop_partition(&p->partitions[i]);
    }
    if (wrong != 0) {
        cli_error("proof_pipeline: %zu of %zu partitions differ from the serial run", wrong, count);
    }
    return wrong == 0;
}

bool proof_run(struct pipeline *p, struct measured *out)
{
    *out = (struct measured){0};
    bool good = ok(p, submit_all(p), "the graph");
    struct before before = read_counters(p);
    uint64_t begin = proof_now_ns();
    if (good) {
        good = ok(p, gantry_taskman_start(p->manager), "the run") &&
               ok(p, gantry_taskman_stop(p->manager), "the run");
    }
    (void)gantry_heap_reclaim_wait(p->heap); /* the run is not over before its memory is given back */
    uint64_t end = proof_now_ns();
    struct before after = read_counters(p);
    if (good) {
        measure(p, begin, end, out);
        subtract(&before, &after, out);
    }
    good = check(p) && good;
    return ok(p, gantry_taskman_reset(p->manager), "the run") && good;
}
