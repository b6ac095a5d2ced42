/* SPDX-License-Identifier: MIT */
/* Graphs of random shape in which everything takes part: tasks of all kinds, batched copies, memory taken and
 * given back on the way, completions, recordings, partitions, shares; runs that are cancelled, cut short or
 * end with the dispatcher; a limit of the process; a context that belongs to somebody else. */
#include "tests/campaign/scene.h"

#include "campaign_kernels.kernels.h"

#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

enum { TASKS = 14, ALL = TASKS + 2, FIRST_VALUE = 100, RUNS = 3 };

struct node {
    struct web *web;
    uint32_t index;
    gantry_task_kind kind;
};

/* Task 0 uploads a word for each task, the others work on their own words, the last but one copies all of
 * them back, and the last one looks. */
struct web {
    gantry_taskman *manager;
    gantry_kernel *add;
    uint32_t *host;   /* pinned: the input, and the output */
    uint32_t *device; /* one word for each task */
    uint64_t random;
    uint32_t profile_id;
    bool is_stable, cancels;
    struct node nodes[ALL];
    gantry_task *tasks[ALL];
    uint32_t submitted;
    atomic_uint released, looked;
};

static uint32_t draw(struct web *web, uint32_t below)
{
    web->random = web->random * UINT64_C(6364136223846793005) + UINT64_C(1442695040888963407);
    return (uint32_t)((web->random >> 33) % below);
}

static gantry_launch_result done_if(gantry_status status)
{
    return status == GANTRY_OK ? GANTRY_LAUNCH_DONE : GANTRY_LAUNCH_FAILED;
}

/* ---- what the tasks do ----------------------------------------------------------------------- */

static gantry_launch_result launch_all_in(gantry_launch *launch, void *arg)
{
    const struct web *web = ((struct node *)arg)->web;
    return done_if(gantry_launch_copy_htod(launch, web->device, web->host, TASKS * sizeof(uint32_t)));
}

/* Copy the same word once more, by the kernel of batched copies or by the engines. */
static gantry_launch_result launch_in(gantry_launch *launch, void *arg)
{
    const struct node *node = arg;
    uint32_t *device = node->web->device + node->index, *host = node->web->host + node->index;
    gantry_copy_desc desc = {device, host, sizeof(uint32_t), GANTRY_COPY_HTOD, 0, 0};
    return done_if(node->index % 2 == 0 ? gantry_copy_launch(launch, &desc, 1)
                                        : gantry_launch_copy_htod(launch, device, host, sizeof(uint32_t)));
}

/* Add one by way of memory that the callback allocates and frees. */
static gantry_launch_result launch_add(gantry_launch *launch, void *arg)
{
    const struct node *node = arg;
    const struct web *web = node->web;
    uint32_t *word = web->device + node->index, none = 0, id = web->profile_id;
    void *scratch = NULL;
    gantry_dim3 one = {1, 1, 1};
    gantry_status status =
        gantry_launch_alloc(launch, GANTRY_MEMORY_DEVICE, 64, 0, GANTRY_ALLOC_SITE("web"), &scratch);
    if (status != GANTRY_OK) {
        return GANTRY_LAUNCH_FAILED;
    }
    void *profile = gantry_launch_profile(launch, id, one), *args[] = {&scratch, &none, &profile, &id};
    status = gantry_launch_copy_dtod(launch, scratch, word, sizeof(*word));
    status = status == GANTRY_OK ? gantry_launch_kernel(launch, web->add, one, one, 0, args) : status;
    status = status == GANTRY_OK ? gantry_launch_copy_dtod(launch, word, scratch, sizeof(*word)) : status;
    gantry_status freed = gantry_free_after(scratch, launch);
    return done_if(status == GANTRY_OK ? freed : status);
}

static gantry_launch_result launch_out(gantry_launch *launch, void *arg)
{
    const struct node *node = arg;
    return done_if(gantry_launch_copy_dtoh(launch, node->web->host + TASKS + node->index,
                                           node->web->device + node->index, sizeof(uint32_t)));
}

static gantry_launch_result launch_all_out(gantry_launch *launch, void *arg)
{
    const struct web *web = ((struct node *)arg)->web;
    gantry_status status = gantry_launch_leave_graph(launch);
    if (status == GANTRY_OK) {
        status = gantry_launch_copy_dtoh(launch, web->host + TASKS, web->device, TASKS * sizeof(uint32_t));
    }
    return done_if(status == GANTRY_OK ? gantry_launch_add_completion(launch, web->tasks[ALL - 1]) : status);
}

static gantry_status run_cpu(gantry_task *task, void *arg)
{
    const struct web *web = ((struct node *)arg)->web;
    if (web->cancels) {
        (void)gantry_taskman_cancel(gantry_task_manager(task));
    }
    return GANTRY_OK;
}

static gantry_status look(gantry_task *task, void *arg)
{
    (void)task;
    struct web *web = ((struct node *)arg)->web;
    for (uint32_t i = 0; i < TASKS; i++) {
        uint32_t wanted = FIRST_VALUE + i + (web->nodes[i].kind == GANTRY_TASK_KERNEL);
        if (web->host[TASKS + i] != wanted) {
            scene_broken("word %u is %u, not %u", i, web->host[TASKS + i], wanted);
        }
    }
    atomic_fetch_add(&web->looked, 1);
    return GANTRY_OK;
}

static void released(gantry_task *task, void *arg, gantry_status result)
{
    (void)task;
    (void)result;
    atomic_fetch_add(&((struct node *)arg)->web->released, 1);
}

/* ---- graphs ---------------------------------------------------------------------------------- */

static bool submit(struct web *web, uint32_t i, gantry_task_kind kind, gantry_launch_fn launch)
{
    gantry_task_desc desc = GANTRY_TASK_DESC_INIT;
    bool is_gpu = kind >= GANTRY_TASK_HTOD;
    web->nodes[i] = (struct node){web, i, kind};
    desc.kind = kind;
    desc.launch = is_gpu ? launch : NULL;
    desc.run = kind != GANTRY_TASK_CPU ? NULL : i == ALL - 1 ? look : run_cpu;
    desc.release = released;
    desc.arg = &web->nodes[i];
    desc.is_stable = is_gpu && web->is_stable && draw(web, 2) == 0;
    if (!SCENE_MAKE(web->tasks[i], gantry_taskman_submit(web->manager, &desc, &web->tasks[i]))) {
        return false;
    }
    web->submitted++;
    return true;
}

static bool build(struct web *web)
{
    static const struct {
        gantry_task_kind kind;
        gantry_launch_fn launch;
    } kinds[] = {{GANTRY_TASK_CPU, NULL},          {GANTRY_TASK_SYNC_POINT, NULL},
                 {GANTRY_TASK_HTOD, launch_in},    {GANTRY_TASK_KERNEL, launch_add},
                 {GANTRY_TASK_KERNEL, launch_add}, {GANTRY_TASK_DTOH, launch_out}};
    web->submitted = 0;
    bool good = submit(web, 0, GANTRY_TASK_HTOD, launch_all_in);
    for (uint32_t i = 1; i < TASKS && good; i++) {
        uint32_t kind = draw(web, sizeof(kinds) / sizeof(kinds[0]));
        good = submit(web, i, kinds[kind].kind, kinds[kind].launch) &&
               scene_ok(gantry_task_start_after(web->tasks[i], web->tasks[draw(web, i)]), "after") &&
               scene_ok(gantry_task_start_after(web->tasks[i], web->tasks[0]), "after the first");
    }
    good = good && submit(web, TASKS, GANTRY_TASK_DTOH, launch_all_out) &&
           submit(web, ALL - 1, GANTRY_TASK_CPU, NULL);
    for (uint32_t i = 0; i < TASKS && good; i++) {
        good = scene_ok(gantry_task_start_after(web->tasks[TASKS], web->tasks[i]), "after all");
    }
    return good && scene_ok(gantry_task_start_after(web->tasks[ALL - 1], web->tasks[TASKS]), "the end");
}

/* Whatever happened, the graph is destroyed, and every task has been released `times` times. */
static void end(struct web *web, uint32_t times, bool good)
{
    if (gantry_taskman_reset(web->manager) != GANTRY_OK) {
        scene_broken("reset: %s", gantry_last_error());
    }
    uint32_t released_tasks = atomic_exchange(&web->released, 0), looked = atomic_exchange(&web->looked, 0);
    if (released_tasks != times * web->submitted) {
        scene_broken("%u releases of %u tasks in %u runs", released_tasks, web->submitted, times);
    }
    if (good && looked != times) {
        scene_broken("%u of %u runs came to their end", looked, times);
    }
}

static bool run_frozen(struct web *web)
{
    uint32_t runs = 0;
    bool good = build(web) && scene_ok(gantry_taskman_freeze(web->manager), "freeze");
    while (good && runs < RUNS) {
        good = scene_ok(gantry_taskman_start(web->manager), "start");
        runs += good;
        good = good && scene_ok(gantry_taskman_stop(web->manager), "stop");
    }
    if (good) { /* the last two tasks alone */
        gantry_task *const from[] = {web->tasks[TASKS]};
        good = scene_ok(gantry_taskman_start_from(web->manager, from, 1), "start from") &&
               scene_ok(gantry_taskman_stop(web->manager), "stop");
        if (good && atomic_load(&web->released) != runs * ALL + 2) {
            scene_broken("a part of a graph released %u tasks", atomic_load(&web->released) - runs * ALL);
        }
        atomic_store(&web->released, runs * ALL);
        atomic_store(&web->looked, runs);
    }
    end(web, runs != 0 ? runs : 1, good); /* the reset releases tasks that were never started */
    return good;
}

struct whole {
    gantry_context *context;
    gantry_cpu_dispatcher *cpus;
    struct web webs[2];
    uint32_t count;
};

static bool open_web(struct whole *w, const gantry_taskman_options *options)
{
    struct web *web = &w->webs[w->count++];
    gantry_heap *heap = gantry_context_heap(w->context);
    gantry_alloc_site site = GANTRY_ALLOC_SITE("web");
    gantry_taskman_options with = *options;
    gantry_module *module = NULL;
    void *host = NULL, *device = NULL;
    const size_t bytes = TASKS * sizeof(uint32_t);
    const char *name = "add_one";
    with.cpu_dispatcher = w->cpus;
    with.gpu_dispatcher = gantry_context_dispatcher(w->context);
    web->random = w->count;
    bool good = SCENE_MAKE(web->manager, gantry_taskman_create(&with, &web->manager)) &&
                SCENE_MAKE(module, gantry_module_load(w->context, &gantry_image_campaign_kernels, &module)) &&
                SCENE_MAKE(web->add, gantry_module_get_kernel(module, name, &web->add)) &&
                scene_ok(gantry_profile_register_kernels(&name, 1, &web->profile_id), "register kernels") &&
                SCENE_MAKE(host, gantry_heap_alloc(heap, GANTRY_MEMORY_PINNED, 2 * bytes, 0, site, &host)) &&
                SCENE_MAKE(device, gantry_heap_alloc(heap, GANTRY_MEMORY_DEVICE, bytes, 0, site, &device));
    web->host = host;
    web->device = device;
    for (uint32_t i = 0; i < TASKS && good; i++) {
        web->host[i] = FIRST_VALUE + i;
    }
    return good;
}

static bool open_whole(struct whole *w, const gantry_context_options *options)
{
    gantry_cpu_dispatcher_options cpus = GANTRY_CPU_DISPATCHER_OPTIONS_INIT;
    memset(w, 0, sizeof(*w));
    cpus.worker_count = 1;
    return SCENE_MAKE(w->context, gantry_context_create(options, &w->context)) &&
           SCENE_MAKE(w->cpus, gantry_cpu_dispatcher_create(&cpus, &w->cpus));
}

static void close_whole(struct whole *w)
{
    for (uint32_t i = 0; i < w->count; i++) {
        gantry_taskman_destroy(w->webs[i].manager);
    }
    gantry_cpu_dispatcher_destroy(w->cpus);
    gantry_context_destroy(w->context);
}

/* ---- scenes ---------------------------------------------------------------------------------- */

/* Several shapes, in steps and frozen; some of the tasks are stable. */
int scene_random(void)
{
    static struct whole w;
    gantry_context_options options = GANTRY_CONTEXT_OPTIONS_INIT;
    gantry_taskman_options plain = GANTRY_TASKMAN_OPTIONS_INIT;
    options.submission = GANTRY_SUBMISSION_GRAPHS;
    bool good = open_whole(&w, &options) && open_web(&w, &plain);
    struct web *web = &w.webs[0];
    for (int i = 0; i < 3 && good; i++) {
        web->is_stable = i > 0;
        good = run_frozen(web);
    }
    close_whole(&w);
    return good ? 0 : 1;
}

/* Both are started as a group; what one of them is refused does not concern the other. */
static bool run_both(struct whole *w)
{
    bool built[2], started[2], good = true;
    gantry_dispatcher *dispatcher = gantry_context_dispatcher(w->context);
    for (int i = 0; i < 2; i++) {
        built[i] = build(&w->webs[i]);
    }
    gantry_dispatcher_start_group(dispatcher);
    for (int i = 0; i < 2; i++) {
        started[i] = built[i] && scene_ok(gantry_taskman_start(w->webs[i].manager), "start");
    }
    gantry_dispatcher_finish_group(dispatcher);
    for (int i = 0; i < 2; i++) {
        bool stopped = started[i] && scene_ok(gantry_taskman_stop(w->webs[i].manager), "stop");
        end(&w->webs[i], 1, stopped);
        good = good && stopped;
    }
    return good;
}

/* Two managers have shares, one of them in a partition that has one, too; everything
 * is recorded. */
int scene_whole(void)
{
    static struct whole w;
    gantry_partition_request requests[] = {
        {.struct_size = sizeof(requests[0]), .name = "one", .size = GANTRY_PARTITION_AT_LEAST, .sm_count = 8},
        {.struct_size = sizeof(requests[0]), .name = "rest", .size = GANTRY_PARTITION_REST, .is_default = 1}};
    gantry_partition_options plan = GANTRY_PARTITION_OPTIONS_INIT;
    gantry_context_options options = GANTRY_CONTEXT_OPTIONS_INIT;
    gantry_taskman_options managers = GANTRY_TASKMAN_OPTIONS_INIT;
    gantry_profile_options recording = GANTRY_PROFILE_OPTIONS_INIT;
    const gantry_share share = {sizeof(share), .percent = 80}, of_one = {sizeof(of_one), .percent = 60};
    gantry_profile *profile = NULL;
    char path[64];
    (void)snprintf(path, sizeof(path), "campaign-%ld.web", (long)getpid());
    requests[0].share = &of_one;
    plan.requests = requests;
    plan.count = 2;
    options.partitions = &plan;
    recording.path = path;
    recording.ctas_per_buffer = 1024;
    bool good = open_whole(&w, &options);
    managers.share = &share;
    good = good && open_web(&w, &managers);
    managers.partition = good ? gantry_partition_at(w.context, 0) : NULL;
    good = good && open_web(&w, &managers);
    good = good && SCENE_MAKE(profile, gantry_profile_start(&recording, &profile)) && run_both(&w);
    if (profile != NULL) {
        good = scene_ok(gantry_profile_stop(profile, NULL), "profile stop") && good;
    }
    (void)unlink(path);
    close_whole(&w);
    return good ? 0 : 1;
}

/* The limit of the process. */
int scene_limited(void)
{
    static struct whole w;
    gantry_context_options options = GANTRY_CONTEXT_OPTIONS_INIT;
    gantry_taskman_options plain = GANTRY_TASKMAN_OPTIONS_INIT;
    (void)setenv("CUDA_DEVICE_SM_LIMIT", "40", 1);
    bool good = open_whole(&w, &options) && open_web(&w, &plain) && run_frozen(&w.webs[0]);
    close_whole(&w);
    (void)unsetenv("CUDA_DEVICE_SM_LIMIT");
    return good ? 0 : 1;
}

/* A run that is expected to fail does so, or was refused something on the way. */
static bool ends_with(gantry_status status, gantry_status wanted, const char *what)
{
    if (status == GANTRY_OK) {
        scene_broken("%s ended well", what);
    }
    return scene_ok(status == wanted ? GANTRY_OK : status, what);
}

/* A run is cancelled by one of its tasks; then the dispatcher is made to fail during another one. */
int scene_cancelled(void)
{
    static struct whole w;
    gantry_context_options options = GANTRY_CONTEXT_OPTIONS_INIT;
    gantry_taskman_options plain = GANTRY_TASKMAN_OPTIONS_INIT;
    options.mode = GANTRY_CONTEXT_OWN;
    bool good = open_whole(&w, &options) && open_web(&w, &plain);
    struct web *web = &w.webs[0];
    if (good) {
        web->cancels = true;
        good = build(web) && scene_ok(gantry_taskman_start(web->manager), "start");
        good = good && ends_with(gantry_taskman_stop(web->manager), GANTRY_ERR_CANCELLED, "a cancelled run");
        end(web, 1, false);
        web->cancels = false;
    }
    if (good) {
        good = build(web) && scene_ok(gantry_task_add_reference(web->tasks[TASKS]), "hold") &&
               scene_ok(gantry_taskman_start(web->manager), "start");
        if (good) {
            gantry_dispatcher_force_failure(gantry_context_dispatcher(w.context));
            (void)gantry_task_remove_reference(web->tasks[TASKS]);
            good = ends_with(gantry_taskman_stop(web->manager), GANTRY_ERR_DEVICE_LOST, "a forced failure");
        }
        end(web, 1, false);
        if (good && !gantry_dispatcher_failure_detected(gantry_context_dispatcher(w.context))) {
            scene_broken("a forced failure is not told");
        }
    }
    close_whole(&w);
    return good ? 0 : 1;
}

/* A context on somebody else's context, which is as before afterwards. */
int scene_adopted(void)
{
    static struct whole owner, guest;
    gantry_context_options options = GANTRY_CONTEXT_OPTIONS_INIT;
    gantry_taskman_options plain = GANTRY_TASKMAN_OPTIONS_INIT;
    options.mode = GANTRY_CONTEXT_OWN;
    memset(&guest, 0, sizeof(guest));
    bool good = open_whole(&owner, &options) && open_web(&owner, &plain);
    if (good) {
        options.mode = GANTRY_CONTEXT_ADOPT;
        options.adopted = gantry_context_native(owner.context);
        good = open_whole(&guest, &options) && open_web(&guest, &plain) && run_frozen(&guest.webs[0]);
        close_whole(&guest);
    }
    good = good && run_frozen(&owner.webs[0]);
    close_whole(&owner);
    return good ? 0 : 1;
}
