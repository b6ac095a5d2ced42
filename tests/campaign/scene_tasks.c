/* SPDX-License-Identifier: MIT */
/* CPU tasks; managers that share a dispatcher; modules. */
#include "tests/campaign/scene.h"

#include "campaign_kernels.kernels.h"

#include <stdatomic.h>
#include <stdio.h>
#include <string.h>

/* ---- task manager ---------------------------------------------------------------------------- */

struct counts {
    atomic_uint ran, released, spawned;
    gantry_taskman *manager;
};

static gantry_status count_body(gantry_task *task, void *arg)
{
    (void)task;
    atomic_fetch_add(&((struct counts *)arg)->ran, 1);
    return GANTRY_OK;
}

static gantry_status spawn_body(gantry_task *task, void *arg)
{
    struct counts *counts = arg;
    gantry_status status = count_body(task, arg);
    for (int i = 0; i < 20 && status == GANTRY_OK; i++) {
        status = gantry_taskman_spawn(counts->manager, count_body, counts, "spawned", NULL);
        atomic_fetch_add(&counts->spawned, status == GANTRY_OK);
    }
    return status;
}

static void count_release(gantry_task *task, void *arg, gantry_status result)
{
    (void)task;
    (void)result;
    atomic_fetch_add(&((struct counts *)arg)->released, 1);
}

static gantry_status add_range(size_t begin, size_t end, void *arg)
{
    atomic_fetch_add((atomic_size_t *)arg, end - begin);
    return GANTRY_OK;
}

enum { TASKS = 150 };

/* Returns how many tasks were submitted; *good false: something was refused. */
static uint32_t build(gantry_taskman *manager, struct counts *counts, bool *good)
{
    gantry_task *before = NULL, *task = NULL;
    uint32_t submitted = 0;
    for (int i = 0; i < TASKS && *good; i++) {
        char name[80];
        (void)snprintf(name, sizeof(name), "the name of a task, long enough to need memory of its own: %d",
                       i);
        gantry_task_desc desc = GANTRY_TASK_DESC_INIT;
        desc.name = i % 3 == 0 ? name : NULL;
        desc.run = i % 50 == 0 ? spawn_body : count_body;
        desc.release = count_release;
        desc.arg = counts;
        *good = SCENE_MAKE(task, gantry_taskman_submit(manager, &desc, &task));
        submitted += *good;
        for (int k = 0; k < 8 && *good && before != NULL && i % 4 == 0; k++) {
            *good = scene_ok(gantry_task_start_after(task, before), "start after");
        }
        before = i % 7 == 0 ? NULL : task;
    }
    return submitted;
}

/* A named task that is filled while the step runs; a chain. */
static uint32_t add_late(gantry_taskman *manager, struct counts *counts, bool *good)
{
    gantry_task_desc desc = GANTRY_TASK_DESC_INIT, chain[3];
    gantry_task *late = NULL, *handles[3] = {NULL};
    desc.name = "late";
    desc.run = count_body;
    desc.release = count_release;
    desc.arg = counts;
    *good = *good && SCENE_MAKE(late, gantry_taskman_submit(manager, &desc, &late));
    uint32_t submitted = *good;
    if (late != NULL && gantry_task_remove_reference(late) != GANTRY_OK) {
        scene_broken("remove reference: %s", gantry_last_error());
    }
    desc.name = NULL;
    for (int i = 0; i < 3; i++) {
        chain[i] = desc;
    }
    if (*good) {
        *good = scene_ok(gantry_taskman_submit_chain(manager, chain, 3, handles), "chain");
    }
    for (int i = 0; i < 3; i++) {
        if (handles[i] != NULL) {
            submitted++;
            (void)gantry_task_remove_reference(handles[i]);
        }
    }
    return submitted;
}

static bool run_step(gantry_taskman *manager, struct counts *counts)
{
    bool good = true;
    FILE *sink = fopen("/dev/null", "w");
    memset(counts, 0, sizeof(*counts));
    counts->manager = manager;
    uint32_t submitted = build(manager, counts, &good);
    if (good) {
        good = scene_ok(gantry_taskman_start(manager), "start");
        if (good) {
            submitted += add_late(manager, counts, &good);
            gantry_status stopped = gantry_taskman_stop(manager);
            good = scene_ok(stopped, "stop") && good;
        }
    }
    if (sink != NULL) {
        good = scene_ok(gantry_taskman_dump_graph(manager, sink), "dump") && good;
        (void)fclose(sink);
    }
    if (gantry_taskman_reset(manager) != GANTRY_OK) {
        scene_broken("reset: %s", gantry_last_error());
    }
    if (counts->released != submitted) {
        scene_broken("%u of %u tasks were released", counts->released, submitted);
    }
    if (good && counts->ran != submitted + counts->spawned) {
        scene_broken("%u of %u tasks ran", counts->ran, submitted + counts->spawned);
    }
    return good;
}

int scene_taskman(void)
{
    gantry_cpu_dispatcher_options cpus = GANTRY_CPU_DISPATCHER_OPTIONS_INIT;
    gantry_cpu_dispatcher *pool = NULL;
    gantry_taskman_options options = GANTRY_TASKMAN_OPTIONS_INIT;
    gantry_taskman *manager = NULL;
    struct counts counts;
    const uint32_t limits[] = {1, 2};
    cpus.worker_count = 2;
    cpus.class_count = 2;
    cpus.class_limits = limits;
    bool good = SCENE_MAKE(pool, gantry_cpu_dispatcher_create(&cpus, &pool));
    options.cpu_dispatcher = pool;
    good = good && SCENE_MAKE(manager, gantry_taskman_create(&options, &manager)) &&
           run_step(manager, &counts) && run_step(manager, &counts);
    atomic_size_t sum = 0;
    if (pool != NULL) {
        if (gantry_parallel_for(pool, 0, 1000, 10, add_range, &sum) != GANTRY_OK || sum != 1000) {
            scene_broken("a parallel loop did %zu of 1000", (size_t)sum);
        }
    }
    gantry_taskman_destroy(manager);
    gantry_cpu_dispatcher_destroy(pool);
    return good ? 0 : 1;
}

/* ---- managers that share a dispatcher --------------------------------------------------------- */

enum { MANAGERS = 3, EACH = 6 };

static gantry_launch_result launch_nothing(gantry_launch *launch, void *arg)
{
    atomic_fetch_add((atomic_uint *)arg, 1);
    return gantry_launch_request_sync_point(launch) == GANTRY_OK ? GANTRY_LAUNCH_DONE : GANTRY_LAUNCH_FAILED;
}

static void count_gpu_release(gantry_task *task, void *arg, gantry_status result)
{
    (void)task;
    (void)result;
    atomic_fetch_add((atomic_uint *)arg + 1, 1);
}

static bool fill(gantry_taskman *manager, atomic_uint *counters, uint32_t *submitted)
{
    gantry_task *before = NULL, *task = NULL;
    for (uint32_t i = 0; i < EACH; i++) {
        gantry_task_desc desc = GANTRY_TASK_DESC_INIT;
        desc.kind = (gantry_task_kind)(GANTRY_TASK_HTOD + i % 3);
        desc.launch = launch_nothing;
        desc.release = count_gpu_release;
        desc.arg = counters;
        if (!SCENE_MAKE(task, gantry_taskman_submit(manager, &desc, &task))) {
            return false;
        }
        *submitted += 1;
        if (before != NULL && !scene_ok(gantry_task_start_after(task, before), "after")) {
            return false;
        }
        before = task;
    }
    return true;
}

/* All are started as a group, so that they share batches, and stopped one after the other. */
static bool share(gantry_context *context, gantry_taskman **managers)
{
    atomic_uint counters[MANAGERS][2];
    uint32_t submitted[MANAGERS] = {0};
    bool started[MANAGERS] = {false}, good = true;
    memset(counters, 0, sizeof(counters));
    gantry_dispatcher *dispatcher = gantry_context_dispatcher(context);
    for (int i = 0; i < MANAGERS && good; i++) {
        good = fill(managers[i], counters[i], &submitted[i]);
    }
    gantry_dispatcher_start_group(dispatcher);
    for (int i = 0; i < MANAGERS && good; i++) {
        good = started[i] = scene_ok(gantry_taskman_start(managers[i]), "start");
    }
    gantry_dispatcher_finish_group(dispatcher);
    for (int i = 0; i < MANAGERS; i++) {
        gantry_status status = started[i] ? gantry_taskman_stop(managers[i]) : GANTRY_OK;
        good = scene_ok(status, "stop") && good;
        if (gantry_taskman_reset(managers[i]) != GANTRY_OK) {
            scene_broken("reset: %s", gantry_last_error());
        }
        if (counters[i][1] != submitted[i] || (good && counters[i][0] != submitted[i])) {
            scene_broken("%u of %u tasks were launched, %u released", counters[i][0], submitted[i],
                         counters[i][1]);
        }
    }
    return good;
}

int scene_sharing(void)
{
    gantry_context_options options = GANTRY_CONTEXT_OPTIONS_INIT;
    gantry_context *context = NULL;
    gantry_taskman *managers[MANAGERS] = {NULL};
    gantry_taskman_options with = GANTRY_TASKMAN_OPTIONS_INIT;
    bool good = SCENE_MAKE(context, gantry_context_create(&options, &context));
    for (int i = 0; i < MANAGERS && good; i++) {
        with.gpu_dispatcher = gantry_context_dispatcher(context);
        good = SCENE_MAKE(managers[i], gantry_taskman_create(&with, &managers[i]));
    }
    good = good && share(context, managers) && share(context, managers);
    for (int i = 0; i < MANAGERS; i++) {
        gantry_taskman_destroy(managers[i]);
    }
    gantry_context_destroy(context);
    return good ? 0 : 1;
}

/* ---- modules --------------------------------------------------------------------------------- */

static bool use_modules(gantry_context *context)
{
    gantry_module *module = NULL, *again = NULL;
    gantry_kernel *kernel = NULL, *none = scene_untouched();
    gantry_device_info info = {.struct_size = sizeof(info)};
    bool good = SCENE_MAKE(module, gantry_module_load(context, &gantry_image_campaign_kernels, &module)) &&
                SCENE_MAKE(again, gantry_module_load(context, &gantry_image_campaign_kernels, &again)) &&
                SCENE_MAKE(kernel, gantry_module_get_kernel(module, "add_one", &kernel)) &&
                scene_ok(gantry_context_device_info(context, &info), "device info");
    if (good &&
        (gantry_module_get_kernel(module, "add_two", &none) == GANTRY_OK || none != scene_untouched())) {
        scene_broken("a kernel was found that there is not");
    }
    if (good && strcmp(gantry_kernel_name(kernel), "add_one") != 0) {
        scene_broken("the kernel is called %s", gantry_kernel_name(kernel));
    }
    gantry_module_unload(again);
    gantry_module_unload(module);
    return good;
}

int scene_modules(void)
{
    gantry_context_options options = GANTRY_CONTEXT_OPTIONS_INIT;
    gantry_context *context = NULL, *second = NULL;
    bool good = SCENE_MAKE(context, gantry_context_create(&options, &context)) && use_modules(context);
    options.mode = GANTRY_CONTEXT_OWN;
    options.single_stream = 1;
    options.synchronous = 1;
    good = good && SCENE_MAKE(second, gantry_context_create(&options, &second)) && use_modules(second);
    if (good) {
        good = scene_ok(gantry_context_acquire(second), "acquire");
        good = good && scene_ok(gantry_context_release(second), "release");
    }
    gantry_context_destroy(second);
    gantry_context_destroy(context);
    return good ? 0 : 1;
}
