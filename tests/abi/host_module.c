/* SPDX-License-Identifier: MIT */
/* Modules that a host opens (host.c): one that is linked with the library, and, with OPENS, one that opens
 * that one. */
#include <stddef.h>

int module_work(void);

#ifdef OPENS
#include <dlfcn.h>

int module_work(void)
{
    int (*work)(void) = NULL;
    void *inner = dlopen(OPENS, RTLD_NOW | RTLD_LOCAL);
    if (inner != NULL) {
        *(void **)&work = dlsym(inner, "module_work");
    }
    int result = work != NULL ? work() : -1;
    return inner != NULL && dlclose(inner) == 0 ? result : -1;
}

#else
#include <gantry/gantry.h>

struct job {
    uint32_t *host, *device;
    uint32_t result;
};

static gantry_launch_result upload(gantry_launch *launch, void *arg)
{
    struct job *job = arg;
    return gantry_launch_copy_htod(launch, job->device, &job->host[0], 4) == GANTRY_OK ? GANTRY_LAUNCH_DONE
                                                                                       : GANTRY_LAUNCH_FAILED;
}

static gantry_launch_result download(gantry_launch *launch, void *arg)
{
    struct job *job = arg;
    return gantry_launch_copy_dtoh(launch, &job->host[1], job->device, 4) == GANTRY_OK ? GANTRY_LAUNCH_DONE
                                                                                       : GANTRY_LAUNCH_FAILED;
}

static gantry_status look(gantry_task *task, void *arg)
{
    struct job *job = arg;
    (void)task;
    job->result = 2 * job->host[1];
    return GANTRY_OK;
}

/* Copy a number to the device and back, and look at it on a worker. */
static gantry_status run(gantry_taskman *manager, struct job *job)
{
    gantry_task_desc chain[] = {{sizeof(*chain), GANTRY_TASK_HTOD, .launch = upload, .arg = job},
                                {sizeof(*chain), GANTRY_TASK_DTOH, .launch = download, .arg = job},
                                {sizeof(*chain), GANTRY_TASK_CPU, .run = look, .arg = job}};
    gantry_task *tasks[3];
    gantry_status status = gantry_taskman_submit_chain(manager, chain, 3, tasks);
    if (status == GANTRY_OK) {
        status = gantry_task_start_after_done(tasks[2], tasks[1]);
    }
    if (status == GANTRY_OK) {
        status = gantry_taskman_start(manager);
    }
    return status == GANTRY_OK ? gantry_taskman_stop(manager) : status;
}

int module_work(void)
{
    gantry_context_options options = GANTRY_CONTEXT_OPTIONS_INIT;
    gantry_context *context = NULL;
    options.driver = GANTRY_DRIVER_EMULATED;
    if (gantry_context_create(&options, &context) != GANTRY_OK) {
        return -1;
    }
    gantry_heap *heap = gantry_context_heap(context);
    struct job job = {NULL, NULL, 0};
    void *host = NULL, *device = NULL;
    gantry_taskman *manager = NULL;
    gantry_taskman_options of_manager = {sizeof(of_manager),
                                         .gpu_dispatcher = gantry_context_dispatcher(context)};
    if (gantry_heap_alloc(heap, GANTRY_MEMORY_PINNED, 8, 0, GANTRY_ALLOC_SITE("host"), &host) == GANTRY_OK &&
        gantry_heap_alloc(heap, GANTRY_MEMORY_DEVICE, 4, 0, GANTRY_ALLOC_SITE("device"), &device) ==
            GANTRY_OK &&
        gantry_taskman_create(&of_manager, &manager) == GANTRY_OK) {
        job.host = host;
        job.device = device;
        job.host[0] = 21;
        job.result = run(manager, &job) == GANTRY_OK ? job.result : 0;
        gantry_taskman_destroy(manager);
    }
    gantry_heap_free(heap, host);
    gantry_heap_free(heap, device);
    gantry_context_destroy(context);
    return (int)job.result;
}
#endif
