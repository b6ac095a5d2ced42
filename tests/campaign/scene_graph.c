/* SPDX-License-Identifier: MIT */
/* Pipelines on the device in every submission mode, frozen, and recorded. */
#include "tests/campaign/scene.h"

#include "campaign_kernels.kernels.h"

#include <stdatomic.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

enum { PIPELINES = 2, PER_PIPELINE = 8, TASKS = PIPELINES * PER_PIPELINE + 1, WORDS = 64, FILLED = 7 };

struct flavour {
    gantry_submission submission;
    gantry_wfi_mode wfi;
    bool frozen, recorded;
};

struct record {
    _Atomic(uint32_t) ran, released, failed;
};

struct stage {
    struct graph *graph;
    uint32_t index;
};

struct graph {
    struct scene_gpu gpu;
    const struct flavour *flavour;
    gantry_kernel *add;
    uint32_t profile_id;
    uint32_t *host;   /* pinned: for each pipeline the input, then the output */
    uint32_t *device; /* per pipeline */
    gantry_task *tasks[TASKS];
    struct stage stages[TASKS];
    struct record records[TASKS];
};

static uint32_t *in_of(const struct stage *stage)
{
    return stage->graph->host + stage->index / PER_PIPELINE * 2 * WORDS;
}

static uint32_t *device_of(const struct stage *stage)
{
    return stage->graph->device + stage->index / PER_PIPELINE * WORDS;
}

static void released(gantry_task *task, void *arg, gantry_status result)
{
    (void)task;
    const struct stage *stage = arg;
    struct record *record = &stage->graph->records[stage->index];
    atomic_fetch_add(&record->released, 1);
    atomic_fetch_add(&record->failed, result != GANTRY_OK);
}

static gantry_status run_cpu(gantry_task *task, void *arg)
{
    (void)task;
    const struct stage *stage = arg;
    atomic_fetch_add(&stage->graph->records[stage->index].ran, 1);
    return GANTRY_OK;
}

static gantry_launch_result done_if(gantry_status status)
{
    return status == GANTRY_OK ? GANTRY_LAUNCH_DONE : GANTRY_LAUNCH_FAILED;
}

static gantry_launch_result launch_in(gantry_launch *launch, void *arg)
{
    return done_if(gantry_launch_copy_htod(launch, device_of(arg), in_of(arg), WORDS * sizeof(uint32_t)));
}

static gantry_launch_result launch_add(gantry_launch *launch, void *arg)
{
    const struct stage *stage = arg;
    void *device = device_of(stage);
    uint32_t half = stage->index % PER_PIPELINE == 2 ? WORDS / 2 : 0;
    gantry_dim3 one = {1, 1, 1}, block = {WORDS / 2, 1, 1};
    void *profile = gantry_launch_profile(launch, stage->graph->profile_id, one);
    uint32_t id = stage->graph->profile_id;
    void *args[] = {&device, &half, &profile, &id};
    if (gantry_launch_kernel(launch, stage->graph->add, one, block, 0, args) != GANTRY_OK) {
        return GANTRY_LAUNCH_FAILED;
    }
    return gantry_launch_index(launch) == 0 ? GANTRY_LAUNCH_AGAIN : GANTRY_LAUNCH_DONE;
}

/* A batch of descriptors of one word each fills the second half. */
static gantry_launch_result launch_batch(gantry_launch *launch, void *arg)
{
    gantry_copy_desc descs[WORDS / 2];
    memset(descs, 0, sizeof(descs));
    for (uint32_t i = 0; i < WORDS / 2; i++) {
        descs[i].dest = device_of(arg) + WORDS / 2 + i;
        descs[i].bytes = sizeof(uint32_t);
        descs[i].type = GANTRY_COPY_FILL;
        descs[i].pattern_bytes = 4;
        descs[i].pattern = FILLED;
    }
    return done_if(gantry_copy_launch(launch, descs, WORDS / 2));
}

static gantry_launch_result launch_out(gantry_launch *launch, void *arg)
{
    const struct stage *stage = arg;
    gantry_status status =
        gantry_launch_copy_dtoh(launch, in_of(stage) + WORDS, device_of(stage), WORDS * sizeof(uint32_t));
    if (status == GANTRY_OK) {
        status = gantry_launch_add_completion(launch, stage->graph->tasks[stage->index + 1]);
    }
    return done_if(status);
}

static bool submit(struct graph *g, uint32_t index, gantry_task_kind kind, gantry_launch_fn launch)
{
    static const char *const names[] = {"in", "left", "right", "cpu", "join", "batch", "out", "done"};
    gantry_task_desc desc = GANTRY_TASK_DESC_INIT;
    g->stages[index] = (struct stage){g, index};
    desc.kind = kind;
    desc.label = names[index % PER_PIPELINE];
    desc.launch = launch;
    desc.run = kind == GANTRY_TASK_CPU ? run_cpu : NULL;
    desc.release = released;
    desc.arg = &g->stages[index];
    return SCENE_MAKE(g->tasks[index], gantry_taskman_submit(g->gpu.manager, &desc, &g->tasks[index]));
}

/* in → {left → cpu, right} → join → batch → out → done in each pipeline; a last task after all. */
static bool build(struct graph *g)
{
    static const struct {
        gantry_task_kind kind;
        gantry_launch_fn launch;
    } kinds[PER_PIPELINE] = {
        {GANTRY_TASK_HTOD, launch_in},  {GANTRY_TASK_KERNEL, launch_add}, {GANTRY_TASK_KERNEL, launch_add},
        {GANTRY_TASK_CPU, NULL},        {GANTRY_TASK_KERNEL, launch_add}, {GANTRY_TASK_KERNEL, launch_batch},
        {GANTRY_TASK_DTOH, launch_out}, {GANTRY_TASK_CPU, NULL},
    };
    static const uint32_t edges[][2] = {{1, 0}, {2, 0}, {3, 1}, {4, 3}, {4, 2}, {5, 4}, {6, 5}, {7, 6}};
    memset(g->records, 0, sizeof(g->records));
    bool good = submit(g, TASKS - 1, GANTRY_TASK_CPU, NULL);
    for (uint32_t p = 0; p < PIPELINES && good; p++) {
        gantry_task **tasks = &g->tasks[p * PER_PIPELINE];
        for (uint32_t i = 0; i < PER_PIPELINE && good; i++) {
            good = submit(g, p * PER_PIPELINE + i, kinds[i].kind, kinds[i].launch);
        }
        for (size_t i = 0; i < sizeof(edges) / sizeof(edges[0]) && good; i++) {
            good = scene_ok(gantry_task_start_after(tasks[edges[i][0]], tasks[edges[i][1]]), "start after");
        }
        good =
            good && scene_ok(gantry_task_start_after(g->tasks[TASKS - 1], tasks[PER_PIPELINE - 1]), "after");
    }
    return good;
}

/* Every task was released `times` times; none failed when all calls succeeded. */
static void check_records(struct graph *g, uint32_t times, bool good)
{
    for (uint32_t i = 0; i < TASKS; i++) {
        const struct record *record = &g->records[i];
        if (g->tasks[i] != NULL && record->released != times) {
            scene_broken("task %u was released %u times, not %u", i, record->released, times);
        }
        if (good && record->failed != 0) {
            scene_broken("task %u failed, its manager does not say so", i);
        }
        if (record->ran + record->failed > record->released) {
            scene_broken("task %u ran and was released as failed", i);
        }
    }
}

static void check_results(struct graph *g)
{
    for (uint32_t p = 0; p < PIPELINES; p++) {
        const uint32_t *in = g->host + p * 2 * WORDS, *out = in + WORDS;
        for (uint32_t i = 0; i < WORDS; i++) {
            uint32_t wanted = i < WORDS / 2 ? in[i] + 4 : FILLED;
            if (out[i] != wanted) {
                scene_broken("pipeline %u word %u is %u, not %u", p, i, out[i], wanted);
            }
        }
    }
}

static bool run_step(struct graph *g)
{
    memset(g->tasks, 0, sizeof(g->tasks));
    bool good = build(g);
    if (good) {
        good = scene_ok(gantry_taskman_start(g->gpu.manager), "start");
    }
    if (good) {
        good = scene_ok(gantry_taskman_stop(g->gpu.manager), "stop");
    }
    if (gantry_taskman_reset(g->gpu.manager) != GANTRY_OK) {
        scene_broken("reset: %s", gantry_last_error());
    }
    check_records(g, 1, good);
    if (good) {
        check_results(g);
    }
    return good;
}

static bool run_frozen(struct graph *g)
{
    memset(g->tasks, 0, sizeof(g->tasks));
    bool frozen = build(g) && scene_ok(gantry_taskman_freeze(g->gpu.manager), "freeze"), good = frozen;
    uint32_t runs = 0;
    while (good && runs < 3) {
        gantry_status status = gantry_taskman_start(g->gpu.manager);
        good = scene_ok(status, "start");
        if (good) {
            runs++;
            good = scene_ok(gantry_taskman_stop(g->gpu.manager), "stop");
        }
    }
    check_records(g, runs, good);
    if (good) {
        check_results(g);
    }
    if (gantry_taskman_reset(g->gpu.manager) != GANTRY_OK) {
        scene_broken("reset: %s", gantry_last_error());
    }
    return good;
}

static bool make_memory(struct graph *g)
{
    gantry_heap *heap = gantry_context_heap(g->gpu.context);
    gantry_alloc_site site = GANTRY_ALLOC_SITE("scene");
    const size_t bytes = PIPELINES * WORDS * sizeof(uint32_t);
    void *host = NULL, *device = NULL;
    bool good = SCENE_MAKE(host, gantry_heap_alloc(heap, GANTRY_MEMORY_PINNED, 2 * bytes, 0, site, &host));
    g->host = host;
    good = good && SCENE_MAKE(device, gantry_heap_alloc(heap, GANTRY_MEMORY_DEVICE, bytes, 0, site, &device));
    g->device = device;
    for (uint32_t i = 0; i < PIPELINES * 2 * WORDS && good; i++) {
        g->host[i] = i;
    }
    return good;
}

static bool work(struct graph *g)
{
    gantry_module *module = NULL;
    const char *name = "add_one";
    if (!SCENE_MAKE(module, gantry_module_load(g->gpu.context, &gantry_image_campaign_kernels, &module)) ||
        !SCENE_MAKE(g->add, gantry_module_get_kernel(module, name, &g->add)) || !make_memory(g)) {
        return false;
    }
    if (g->flavour->recorded &&
        !scene_ok(gantry_profile_register_kernels(&name, 1, &g->profile_id), "register kernels")) {
        return false;
    }
    return g->flavour->frozen ? run_frozen(g) : run_step(g) && run_step(g);
}

/* A failed pipeline leaves work in flight that nothing waits for: its memory is given back when the context
 * is destroyed.  Without a failure everything has ended. */
static void give_back(struct graph *g, bool good)
{
    if (good) {
        gantry_heap *heap = gantry_context_heap(g->gpu.context);
        if (gantry_heap_free(heap, g->host) != GANTRY_OK || gantry_heap_free(heap, g->device) != GANTRY_OK) {
            scene_broken("free: %s", gantry_last_error());
        }
    }
}

static int run_flavour(const struct flavour *flavour)
{
    static struct graph g;
    memset(&g, 0, sizeof(g));
    g.flavour = flavour;
    gantry_context_options options = GANTRY_CONTEXT_OPTIONS_INIT;
    options.submission = flavour->submission;
    options.wfi = flavour->wfi;
    char path[64];
    gantry_profile *profile = NULL;
    gantry_profile_options recording = GANTRY_PROFILE_OPTIONS_INIT;
    (void)snprintf(path, sizeof(path), "campaign-%ld.pftrace", (long)getpid());
    recording.path = path;
    /* the memory is cleared: the less there is, the more points run per second */
    recording.ctas_per_buffer = 1024;
    bool good = scene_open(&g.gpu, &options);
    if (good && flavour->recorded) {
        good = SCENE_MAKE(profile, gantry_profile_start(&recording, &profile));
    }
    good = good && work(&g);
    if (profile != NULL) {
        gantry_profile_stats stats = {.struct_size = sizeof(stats)};
        bool stopped = scene_ok(gantry_profile_stop(profile, &stats), "profile stop");
        good = good && stopped;
    }
    if (flavour->recorded) {
        (void)unlink(path);
    }
    give_back(&g, good);
    scene_close(&g.gpu);
    return good ? 0 : 1;
}

int scene_graph_streams(void)
{
    static const struct flavour flavour = {GANTRY_SUBMISSION_STREAMS, GANTRY_WFI_PRECISE, false, false};
    return run_flavour(&flavour);
}

int scene_graph_graphs(void)
{
    static const struct flavour flavour = {GANTRY_SUBMISSION_GRAPHS, GANTRY_WFI_PRECISE, false, false};
    return run_flavour(&flavour);
}

int scene_graph_auto(void)
{
    static const struct flavour flavour = {GANTRY_SUBMISSION_AUTO, GANTRY_WFI_PRECISE, true, false};
    return run_flavour(&flavour);
}

int scene_graph_device_wide(void)
{
    static const struct flavour flavour = {GANTRY_SUBMISSION_STREAMS, GANTRY_WFI_DEVICE_WIDE, false, false};
    return run_flavour(&flavour);
}

int scene_graph_frozen(void)
{
    static const struct flavour flavour = {GANTRY_SUBMISSION_GRAPHS, GANTRY_WFI_PRECISE, true, false};
    return run_flavour(&flavour);
}

int scene_graph_profile(void)
{
    static const struct flavour flavour = {GANTRY_SUBMISSION_STREAMS, GANTRY_WFI_PRECISE, false, true};
    return run_flavour(&flavour);
}

/* In graphs mode, and frozen. */
int scene_graph_recorded(void)
{
    static const struct flavour flavour = {GANTRY_SUBMISSION_GRAPHS, GANTRY_WFI_PRECISE, true, true};
    return run_flavour(&flavour);
}
