/* SPDX-License-Identifier: MIT */
#include "bench/event_scene.h"

#include "bench/harness.h"

static bool ok(gantry_status status)
{
    return bench_ok("latency", status);
}

static bool open_by_hand(struct event_scene *scene, const struct event_scene_options *options)
{
    struct raw_cuda *cuda = &scene->cuda;
    unsigned flags = CU_EVENT_DISABLE_TIMING | (options->event_blocks ? CU_EVENT_BLOCKING_SYNC : 0u);
    return ok(gantry_context_acquire(scene->context)) && raw_cuda_open(scene->context, cuda) &&
           raw_cuda_load(cuda, options->image, options->kernel, &scene->module, &scene->function) &&
           RAW(cuda, cuStreamCreate(&scene->stream, CU_STREAM_NON_BLOCKING)) &&
           RAW(cuda, cuEventCreate(&scene->event, flags));
}

bool bench_event_scene_open(struct event_scene *scene, const struct event_scene_options *options)
{
    gantry_context_options context = GANTRY_CONTEXT_OPTIONS_INIT;
    gantry_cpu_dispatcher_options cpus = GANTRY_CPU_DISPATCHER_OPTIONS_INIT;
    gantry_taskman_options manager = GANTRY_TASKMAN_OPTIONS_INIT;
    gantry_module *module;
    context.driver = options->driver;
    context.completion_wait = options->completions;
    cpus.wait_mode = options->workers;
    cpus.worker_count = options->worker_count;
    if (!ok(gantry_context_create(&context, &scene->context)) ||
        !ok(gantry_cpu_dispatcher_create(&cpus, &scene->cpus))) {
        return false;
    }
    manager.cpu_dispatcher = scene->cpus;
    manager.gpu_dispatcher = gantry_context_dispatcher(scene->context);
    manager.dispatcher_only = options->dispatcher_only;
    return ok(gantry_taskman_create(&manager, &scene->manager)) &&
           ok(gantry_module_load(scene->context, options->image, &module)) &&
           ok(gantry_module_get_kernel(module, options->kernel, &scene->kernel)) &&
           open_by_hand(scene, options);
}

void bench_event_scene_close(struct event_scene *scene)
{
    gantry_taskman_destroy(scene->manager);
    gantry_cpu_dispatcher_destroy(scene->cpus);
    if (scene->event != NULL) {
        (void)scene->cuda.cuEventDestroy(scene->event);
    }
    if (scene->stream != NULL) {
        (void)scene->cuda.cuStreamDestroy(scene->stream);
    }
    if (scene->context != NULL) {
        (void)gantry_context_release(scene->context);
    }
    gantry_context_destroy(scene->context);
}
