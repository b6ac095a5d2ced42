/* SPDX-License-Identifier: MIT */
/* The process's limit on GPU time, while programs run beside it: two contexts that were made under it use no
 * more than it allows together.  They use it up again and again, as long as programs have this feature,
 * each time beside several of them.  On a busy machine times only become longer, so only a time that is too
 * short breaks the rule. */
#include "tests/campaign/crossing.h"

#include "crossing_kernels.kernels.h"

#include <pthread.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#define PERCENT "20"
#define KERNEL_NS UINT64_C(2000000)

/* 64 ms of GPU time at 20 percent take 320 ms, less the time that may be saved up and is in flight.  If
 * each of the contexts had a limit of its own, it would be half of that. */
#define LEAST_S 0.12

enum { WARM_UP = 3, KERNELS = 16 }; /* of each context */

struct cross_limited { /* one of the contexts */
    struct cross_run *run;
    gantry_context *context;
    gantry_taskman *manager;
    gantry_kernel *kernel;
    struct cross_beside *words, *words_device;
};

struct cross_limit {
    struct cross_limited of[2];
    pthread_t thread;
    bool is_open, begun;
    atomic_bool is_over;
    double took_s; /* this and `trouble`: the thread writes them, and they are read when it has ended */
    char trouble[256];
};

static struct cross_limit limit; /* the limit of the process */

static gantry_launch_result launch(gantry_launch *launch, void *arg)
{
    struct cross_limited *l = arg;
    uint32_t turn = UINT32_MAX; /* a task that is never released */
    uint64_t most_ns = KERNEL_NS;
    void *args[] = {&l->words_device, &turn, &most_ns};
    atomic_fetch_add(&cross_progress, 1);
    const gantry_dim3 one = {1, 1, 1};
    return gantry_launch_kernel(launch, l->kernel, one, one, 0, args) == GANTRY_OK ? GANTRY_LAUNCH_DONE
                                                                                   : GANTRY_LAUNCH_FAILED;
}

static bool submit(struct cross_limited *l, int count)
{
    gantry_task_desc desc = GANTRY_TASK_DESC_INIT;
    bool done = true;
    desc.kind = GANTRY_TASK_KERNEL;
    desc.launch = launch;
    desc.arg = l;
    for (int i = 0; i < count && done; i++) {
        gantry_task *task = NULL;
        done = cross_must(l->run, gantry_taskman_submit(l->manager, &desc, &task), "limited task");
    }
    return done;
}

static bool open_one(struct cross_run *run, struct cross_limited *l)
{
    gantry_context_options options = GANTRY_CONTEXT_OPTIONS_INIT;
    gantry_taskman_options manager = GANTRY_TASKMAN_OPTIONS_INIT;
    gantry_module *module = NULL;
    void *memory = NULL, *device = NULL;
    l->run = run;
    options.driver = cross_is_device() ? GANTRY_DRIVER_CUDA : GANTRY_DRIVER_EMULATED;
    options.mode = GANTRY_CONTEXT_OWN;
    options.completion_wait = GANTRY_WAIT_BLOCK;
    options.submission = GANTRY_SUBMISSION_STREAMS;
    if (!cross_must(run, gantry_context_create(&options, &l->context), "limited context")) {
        return false;
    }
    gantry_heap *heap = gantry_context_heap(l->context);
    manager.gpu_dispatcher = gantry_context_dispatcher(l->context);
    bool done =
        cross_must(run, gantry_taskman_create(&manager, &l->manager), "limited manager") &&
        cross_must(run, gantry_module_load(l->context, &gantry_image_crossing_kernels, &module), "module") &&
        cross_must(run, gantry_module_get_kernel(module, "cross_older", &l->kernel), "kernel") &&
        cross_must(run,
                   gantry_heap_alloc(heap, GANTRY_MEMORY_PINNED, sizeof(*l->words), 0,
                                     GANTRY_ALLOC_SITE("limited"), &memory),
                   "words") &&
        cross_must(run, gantry_heap_device_address(heap, memory, &device), "address");
    l->words = memory;
    l->words_device = device;
    if (done) {
        memset(l->words, 0, sizeof(*l->words));
    }
    /* The length of its kernels is measured before. */
    return done && submit(l, WARM_UP) && cross_must(run, gantry_taskman_start(l->manager), "first start") &&
           cross_must(run, gantry_taskman_stop(l->manager), "first stop") &&
           cross_must(run, gantry_context_synchronize(l->context), "limited context") &&
           cross_must(run, gantry_taskman_reset(l->manager), "reset") && submit(l, KERNELS);
}

static bool open_limit(struct cross_run *run)
{
    (void)setenv("CUDA_DEVICE_SM_LIMIT", PERCENT, 1); /* no other thread of ours reads the environment now */
    limit.is_open = open_one(run, &limit.of[0]) && open_one(run, &limit.of[1]);
    (void)unsetenv("CUDA_DEVICE_SM_LIMIT");
    return limit.is_open;
}

static void say(gantry_status status, const char *what)
{
    if (status != GANTRY_OK && limit.trouble[0] == '\0') {
        (void)snprintf(limit.trouble, sizeof(limit.trouble), "%s: %s: %s", what, gantry_status_name(status),
                       gantry_last_error());
    }
}

static void *use_up(void *arg)
{
    struct timespec from, to;
    (void)arg;
    clock_gettime(CLOCK_MONOTONIC, &from);
    for (int i = 0; i < 2; i++) {
        say(gantry_taskman_start(limit.of[i].manager), "start of a limited manager");
    }
    for (int i = 0; i < 2 && limit.trouble[0] == '\0'; i++) {
        say(gantry_taskman_stop(limit.of[i].manager), "stop of a limited manager");
        say(gantry_context_synchronize(limit.of[i].context), "limited context");
        atomic_fetch_add(&cross_progress, 1);
    }
    clock_gettime(CLOCK_MONOTONIC, &to);
    limit.took_s = (double)(to.tv_sec - from.tv_sec) + (double)(to.tv_nsec - from.tv_nsec) * 1e-9;
    atomic_store(&limit.is_over, true);
    return NULL;
}

bool cross_limit_runs(void)
{
    return limit.begun && !atomic_load(&limit.is_over);
}

void cross_limit_end(struct cross_run *run)
{
    if (!limit.begun) {
        return;
    }
    pthread_join(limit.thread, NULL);
    limit.begun = false;
    if (limit.trouble[0] != '\0') {
        cross_break(run, "beside: %s", limit.trouble);
    } else if (limit.took_s < LEAST_S) {
        cross_break(run,
                    "two contexts under a limit of " PERCENT " percent used %d ms of GPU time in %.0f ms",
                    (int)(2 * KERNELS * KERNEL_NS / 1000000), limit.took_s * 1e3);
    }
    for (int i = 0; i < 2 && run->broken == NULL; i++) { /* for the next time */
        limit.of[i].run = run;
        (void)(cross_must(run, gantry_taskman_reset(limit.of[i].manager), "reset") &&
               submit(&limit.of[i], KERNELS));
    }
}

bool cross_limit_begin(struct cross_run *run)
{
    if (!cross_has(run->program, VALUE_LIMIT)) {
        cross_limit_end(run);
        return run->broken == NULL;
    }
    if (!cross_limit_runs()) {
        cross_limit_end(run);
        if (run->broken != NULL || (!limit.is_open && !open_limit(run))) {
            return false;
        }
        atomic_store(&limit.is_over, false);
        limit.begun = pthread_create(&limit.thread, NULL, use_up, NULL) == 0;
    }
    atomic_fetch_add(&run->beside.limits, limit.begun ? 1 : 0);
    return true;
}
