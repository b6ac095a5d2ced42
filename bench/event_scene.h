/* SPDX-License-Identifier: MIT */
/* One kernel in two ways: as tasks of a manager, and launched by hand on a stream and seen by an event. */
#ifndef BENCH_EVENT_SCENE_H
#define BENCH_EVENT_SCENE_H

#include "bench/raw_cuda.h"

#include <gantry/context.h>
#include <gantry/taskman.h>

struct event_scene_options {
    gantry_driver_choice driver;
    gantry_wait_mode completions, workers;
    uint32_t worker_count;
    bool event_blocks;    /* the thread that waits for the event sleeps; else it spins */
    bool dispatcher_only; /* the manager's caller does not do the dispatcher's work */
    const gantry_module_image *image;
    const char *kernel;
};

/* Zeroed before it is opened. */
struct event_scene {
    gantry_context *context; /* acquired by the thread that opened the scene */
    gantry_cpu_dispatcher *cpus;
    gantry_taskman *manager;
    gantry_kernel *kernel;
    struct raw_cuda cuda;
    CUmodule module;
    CUfunction function;
    CUstream stream;
    CUevent event;
};

/* Open the scene.  False when something failed, with a line on stderr for `gantry bench latency`; it must
 * be closed in either case. */
bool bench_event_scene_open(struct event_scene *scene, const struct event_scene_options *options);
void bench_event_scene_close(struct event_scene *scene);

#endif
