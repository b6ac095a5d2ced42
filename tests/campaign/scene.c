/* SPDX-License-Identifier: MIT */
#include "tests/campaign/scene.h"

#include <stdarg.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

static char untouched;
static gantry_status kept;

void scene_broken(const char *format, ...)
{
    va_list args;
    va_start(args, format);
    fputs("BROKEN: ", stderr);
    vfprintf(stderr, format, args);
    va_end(args);
    fputs("\n", stderr);
    fflush(stderr);
    _exit(SCENE_BROKEN_STATUS);
}

bool scene_ok(gantry_status status, const char *what)
{
    if (status != GANTRY_OK) {
        fprintf(stderr, "%s: %s: %s\n", what, gantry_status_name(status), gantry_last_error());
    }
    return status == GANTRY_OK;
}

void *scene_untouched(void)
{
    return &untouched;
}

void scene_keep(gantry_status status)
{
    kept = status;
}

bool scene_made(const char *what, const void *variable)
{
    if (kept != GANTRY_OK && variable != &untouched) {
        scene_broken("%s failed and wrote its output", what);
    }
    if (kept == GANTRY_OK && variable == &untouched) {
        scene_broken("%s succeeded without an output", what);
    }
    return scene_ok(kept, what);
}

bool scene_open(struct scene_gpu *gpu, const gantry_context_options *options)
{
    memset(gpu, 0, sizeof(*gpu));
    gantry_cpu_dispatcher_options cpus = GANTRY_CPU_DISPATCHER_OPTIONS_INIT;
    cpus.worker_count = 2;
    gantry_taskman_options manager = GANTRY_TASKMAN_OPTIONS_INIT;
    if (!SCENE_MAKE(gpu->context, gantry_context_create(options, &gpu->context)) ||
        !SCENE_MAKE(gpu->cpus, gantry_cpu_dispatcher_create(&cpus, &gpu->cpus))) {
        return false;
    }
    manager.cpu_dispatcher = gpu->cpus;
    manager.gpu_dispatcher = gantry_context_dispatcher(gpu->context);
    return SCENE_MAKE(gpu->manager, gantry_taskman_create(&manager, &gpu->manager));
}

void scene_close(struct scene_gpu *gpu)
{
    gantry_taskman_destroy(gpu->manager);
    gantry_cpu_dispatcher_destroy(gpu->cpus);
    gantry_context_destroy(gpu->context);
}
