/* SPDX-License-Identifier: MIT */
/* Partitions with a bound on GPU time; frozen graphs that are replayed; declared memory, launch tasks and
 * contexts that give up when memory runs out; a context that is destroyed under its managers. */
#include "tests/campaign/scene.h"

#include "campaign_kernels.kernels.h"

#include <stdatomic.h>
#include <string.h>

enum { WORDS = 256, LENGTH = 3, MOST_TASKS = 8 };

/* A pipeline: copy in, `adds` times add_one, copy out, and a CPU task that looks when the GPU is done. */
struct line {
    struct scene_gpu gpu;
    gantry_kernel *add;
    uint32_t *host;   /* pinned: the input, and the output */
    uint32_t *device; /* NULL where the first launch allocates it */
    gantry_task *tasks[MOST_TASKS], *landed;
    uint32_t count;
    bool is_stable, takes_memory;
    uint32_t memory; /* declared memory; 0: none */
    gantry_partition *partition;
    atomic_uint looked, released;
};

static gantry_launch_result done_if(gantry_status status)
{
    return status == GANTRY_OK ? GANTRY_LAUNCH_DONE : GANTRY_LAUNCH_FAILED;
}

static gantry_launch_result launch_in(gantry_launch *launch, void *arg)
{
    struct line *line = arg;
    void *memory = line->device;
    if (line->takes_memory) {
        gantry_status status = gantry_launch_alloc(launch, GANTRY_MEMORY_DEVICE, WORDS * 4, 0,
                                                   GANTRY_ALLOC_SITE("line"), &memory);
        if (status != GANTRY_OK) {
            return GANTRY_LAUNCH_FAILED;
        }
        line->device = memory;
    }
    return done_if(gantry_launch_copy_htod(launch, line->device, line->host, WORDS * 4));
}

static gantry_launch_result launch_add(gantry_launch *launch, void *arg)
{
    struct line *line = arg;
    uint32_t none = 0;
    void *profile = NULL, *args[] = {&line->device, &none, &profile, &none};
    gantry_dim3 one = {1, 1, 1}, block = {WORDS, 1, 1};
    return done_if(gantry_launch_kernel(launch, line->add, one, block, 0, args));
}

static gantry_launch_result launch_out(gantry_launch *launch, void *arg)
{
    struct line *line = arg;
    gantry_status status = gantry_launch_copy_dtoh(launch, line->host + WORDS, line->device, WORDS * 4);
    if (status == GANTRY_OK && line->takes_memory) {
        status = gantry_free_after(line->device, launch);
    }
    return done_if(status == GANTRY_OK ? gantry_launch_add_completion(launch, line->landed) : status);
}

static gantry_status look(gantry_task *task, void *arg)
{
    (void)task;
    struct line *line = arg;
    for (uint32_t i = 0; i < WORDS; i++) {
        if (line->host[WORDS + i] != line->host[i] + LENGTH) {
            scene_broken("word %u is %u, not %u", i, line->host[WORDS + i], line->host[i] + LENGTH);
        }
    }
    atomic_fetch_add(&line->looked, 1);
    return GANTRY_OK;
}

static void note_release(gantry_task *task, void *arg, gantry_status result)
{
    (void)task;
    (void)result;
    atomic_fetch_add(&((struct line *)arg)->released, 1);
}

static bool submit(struct line *line, gantry_task_kind kind, gantry_launch_fn launch)
{
    gantry_task **out = &line->tasks[line->count];
    gantry_task_desc desc = GANTRY_TASK_DESC_INIT;
    desc.kind = kind;
    desc.launch = launch;
    desc.run = kind == GANTRY_TASK_CPU ? look : NULL;
    desc.release = note_release;
    desc.arg = line;
    desc.memory = kind == GANTRY_TASK_CPU ? 0 : line->memory;
    desc.partition = kind == GANTRY_TASK_CPU ? NULL : line->partition;
    desc.is_stable = launch == launch_add && line->is_stable;
    if (!SCENE_MAKE(*out, gantry_taskman_submit(line->gpu.manager, &desc, out))) {
        return false;
    }
    line->count++;
    return line->count == 1 || scene_ok(gantry_task_start_after(*out, out[-1]), "after");
}

static bool build(struct line *line)
{
    line->count = 0;
    bool good = submit(line, GANTRY_TASK_HTOD, launch_in);
    for (int i = 0; i < LENGTH && good; i++) {
        good = submit(line, GANTRY_TASK_KERNEL, launch_add);
    }
    good = good && submit(line, GANTRY_TASK_DTOH, launch_out) && submit(line, GANTRY_TASK_CPU, NULL);
    line->landed = good ? line->tasks[line->count - 1] : NULL;
    return good;
}

static void check_released(struct line *line, uint32_t runs, bool good)
{
    if (atomic_load(&line->released) != runs * line->count) {
        scene_broken("%u releases in %u runs of %u tasks", atomic_load(&line->released), runs, line->count);
    }
    if (good && atomic_load(&line->looked) != runs) {
        scene_broken("%u of %u runs were looked at", atomic_load(&line->looked), runs);
    }
    atomic_store(&line->released, 0);
    atomic_store(&line->looked, 0);
}

static void reset(struct line *line)
{
    if (gantry_taskman_reset(line->gpu.manager) != GANTRY_OK) {
        scene_broken("reset: %s", gantry_last_error());
    }
}

static bool run_once(struct line *line)
{
    bool good = build(line) && scene_ok(gantry_taskman_start(line->gpu.manager), "start") &&
                scene_ok(gantry_taskman_stop(line->gpu.manager), "stop");
    reset(line);
    check_released(line, 1, good);
    return good;
}

static bool open_line(struct line *line, const gantry_context_options *options)
{
    memset(line, 0, sizeof(*line));
    gantry_module *module = NULL;
    gantry_alloc_site site = GANTRY_ALLOC_SITE("scene");
    void *host = NULL, *device = NULL;
    if (!scene_open(&line->gpu, options) ||
        !SCENE_MAKE(module, gantry_module_load(line->gpu.context, &gantry_image_campaign_kernels, &module)) ||
        !SCENE_MAKE(line->add, gantry_module_get_kernel(module, "add_one", &line->add))) {
        return false;
    }
    gantry_heap *heap = gantry_context_heap(line->gpu.context);
    bool good =
        SCENE_MAKE(host, gantry_heap_alloc(heap, GANTRY_MEMORY_PINNED, 2 * WORDS * 4, 0, site, &host)) &&
        SCENE_MAKE(device, gantry_heap_alloc(heap, GANTRY_MEMORY_DEVICE, WORDS * 4, 0, site, &device));
    line->host = host;
    line->device = device;
    for (uint32_t i = 0; i < WORDS && good; i++) {
        line->host[i] = i * 7;
    }
    return good;
}

/* ---- partitions ------------------------------------------------------------------------------ */

static bool look_at_partitions(struct line *line)
{
    static gantry_partition_layout layout;
    gantry_context *context = line->gpu.context;
    gantry_partition *partition = NULL, *found = NULL;
    gantry_sm_topology topology = {.struct_size = sizeof(topology)};
    gantry_partition_info info = {.struct_size = sizeof(info)};
    gantry_share_usage usage = {.struct_size = sizeof(usage)};
    layout.struct_size = sizeof(layout);
    bool good = SCENE_MAKE(partition, gantry_partition_find(context, "small", &partition)) &&
                scene_ok(gantry_partition_read_topology(context, &topology), "topology") &&
                scene_ok(gantry_partition_get_layout(context, &layout), "layout") &&
                scene_ok(gantry_partition_get_info(partition, &info), "info") &&
                scene_ok(gantry_partition_get_usage(partition, &usage), "usage") &&
                scene_ok(gantry_partition_synchronize(partition), "synchronize");
    if (good && (info.granted_sms < 8 || usage.target <= 0)) {
        scene_broken("%u SMs, a share of %g", info.granted_sms, usage.target);
    }
    found = scene_untouched();
    if (good && (gantry_partition_find(context, "none", &found) == GANTRY_OK || found != scene_untouched())) {
        scene_broken("a partition was found that there is not");
    }
    line->partition = partition;
    return good;
}

static bool open_planned(struct line *line)
{
    gantry_partition_request requests[] = {
        {.struct_size = sizeof(requests[0]),
         .name = "small",
         .size = GANTRY_PARTITION_AT_LEAST,
         .sm_count = 8},
        {.struct_size = sizeof(requests[0]), .name = "rest", .size = GANTRY_PARTITION_REST, .is_default = 1}};
    gantry_partition_options plan = GANTRY_PARTITION_OPTIONS_INIT;
    gantry_context_options options = GANTRY_CONTEXT_OPTIONS_INIT;
    const gantry_share half = {sizeof(half), .percent = 50};
    requests[0].share = &half;
    plan.requests = requests;
    plan.count = 2;
    options.partitions = &plan;
    return open_line(line, &options);
}

int scene_partitions(void)
{
    static struct line line;
    bool good = open_planned(&line) && look_at_partitions(&line) && run_once(&line);
    scene_close(&line.gpu);
    return good ? 0 : 1;
}

/* The SMs that work runs on: kernels wait until they are everywhere. */
int scene_audit(void)
{
    static struct line line;
    gantry_partition *partition = NULL;
    gantry_sm_set set = {.struct_size = sizeof(set)};
    bool good = open_planned(&line) &&
                SCENE_MAKE(partition, gantry_partition_find(line.gpu.context, "small", &partition));
    for (gantry_audit_way way = GANTRY_AUDIT_STREAM; good && way <= GANTRY_AUDIT_GRAPH; way++) {
        good = scene_ok(gantry_partition_audit(partition, way, &set), "audit");
    }
    scene_close(&line.gpu);
    return good ? 0 : 1;
}

/* ---- replay ---------------------------------------------------------------------------------- */

int scene_replay(void)
{
    enum { RUNS = 4 };
    static struct line line;
    gantry_context_options options = GANTRY_CONTEXT_OPTIONS_INIT;
    uint32_t runs = 0;
    options.submission = GANTRY_SUBMISSION_GRAPHS;
    bool good = open_line(&line, &options);
    line.is_stable = true;
    if (good) {
        good = build(&line) && scene_ok(gantry_taskman_freeze(line.gpu.manager), "freeze");
        while (good && runs < RUNS) {
            if (runs == 2) {
                good = scene_ok(gantry_task_invalidate(line.tasks[1]), "invalidate");
            }
            good = good && scene_ok(gantry_taskman_start(line.gpu.manager), "start");
            runs += good;
            good = good && scene_ok(gantry_taskman_stop(line.gpu.manager), "stop");
        }
        bool frozen = runs != 0;
        reset(&line);
        check_released(&line, frozen ? runs : 1, good);
    }
    scene_close(&line.gpu);
    return good ? 0 : 1;
}

/* ---- memory ---------------------------------------------------------------------------------- */

static bool run_declared(struct line *line)
{
    uint64_t bytes[GANTRY_MEMORY_KIND_COUNT] = {0};
    gantry_launch_tasks around = {.struct_size = sizeof(around)};
    bytes[GANTRY_MEMORY_DEVICE] = WORDS * 4;
    line->count = 0;
    bool good = scene_ok(gantry_taskman_declare_memory(line->gpu.manager, bytes, &line->memory), "declare");
    line->takes_memory = good;
    good = good && scene_ok(gantry_taskman_submit_launch_tasks(line->gpu.manager, &around), "launch tasks") &&
           build(line) && scene_ok(gantry_task_start_after(line->tasks[1], around.pre_launch), "after") &&
           scene_ok(gantry_task_finish_before(line->tasks[3], around.post_launch), "before") &&
           scene_ok(gantry_taskman_start(line->gpu.manager), "start") &&
           scene_ok(gantry_taskman_stop(line->gpu.manager), "stop");
    reset(line);
    check_released(line, 1, good);
    line->memory = 0;
    return good;
}

/* It asks for more than there may be: the context gives up, and goes on once it is told to. */
static bool run_out(struct line *line)
{
    void *much = scene_untouched();
    gantry_context *context = line->gpu.context;
    gantry_status status = gantry_heap_alloc(gantry_context_heap(context), GANTRY_MEMORY_DEVICE, 64u << 20, 0,
                                             GANTRY_ALLOC_SITE("much"), &much);
    if (status == GANTRY_OK || much != scene_untouched()) {
        scene_broken("64 MiB of 16");
    }
    if (status == GANTRY_ERR_OUT_OF_DEVICE_MEMORY && !gantry_context_is_aborted(context)) {
        scene_broken("memory ran out, the context does not say so");
    }
    bool good = scene_ok(status == GANTRY_ERR_OUT_OF_DEVICE_MEMORY ? GANTRY_OK : status, "running out");
    gantry_context_clear_abort(context);
    return good;
}

int scene_memory(void)
{
    static struct line line;
    gantry_heap_options heap = GANTRY_HEAP_OPTIONS_INIT;
    gantry_context_options options = GANTRY_CONTEXT_OPTIONS_INIT;
    heap.limit_bytes[GANTRY_MEMORY_DEVICE] = 16u << 20;
    options.heap = &heap;
    options.abort_on_out_of_memory = 1;
    options.calibrate_copies = 64u << 10;
    bool good = open_line(&line, &options) && run_declared(&line) && run_out(&line) && run_declared(&line);
    scene_close(&line.gpu);
    return good ? 0 : 1;
}

/* ---- the context goes first ------------------------------------------------------------------ */

int scene_abandon(void)
{
    static struct line line;
    gantry_context_options options = GANTRY_CONTEXT_OPTIONS_INIT;
    bool good = open_line(&line, &options) && run_once(&line) && build(&line) &&
                scene_ok(gantry_task_add_reference(line.tasks[1]), "hold") &&
                scene_ok(gantry_taskman_start(line.gpu.manager), "start");
    gantry_context_destroy(line.gpu.context);
    line.gpu.context = NULL;
    if (good) {
        (void)gantry_task_remove_reference(line.tasks[1]);
        if (gantry_taskman_stop(line.gpu.manager) == GANTRY_OK) {
            scene_broken("a step ended well without its context");
        }
        reset(&line);
        check_released(&line, 1, false);
    }
    scene_close(&line.gpu);
    return good ? 0 : 1;
}
