/* SPDX-License-Identifier: MIT */
/* Very many tasks through one dispatcher: memory stays where it was, and the counters say what happened.
 *
 *   test_campaign_soak [TASKS]     200000 tasks; by hand 100000000
 *
 * A frozen graph of GPU and CPU tasks runs again and again, and now and then a step of named tasks that are
 * submitted anew.  The emulated driver accepts the work without doing it.  After a tenth of the tasks, when
 * everything has been made that is made at first use, memory is looked at, and at the end once more. */
#include "base/alloc.h"
#include "base/clock.h"
#include "base/sanitizers.h"
#include "tests/campaign/scene.h"

#include "campaign_kernels.kernels.h"

#include <dlfcn.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

enum { PIPELINES = 100, PER_PIPELINE = 4, NAMED = 50, NAMED_EVERY = 64, WORDS = 32, SKIPPED = 77 };

#if GY_WITH_ASAN || GY_WITH_TSAN
#define SANITIZED 1
#else
#define SANITIZED 0
#endif

struct soak {
    struct scene_gpu gpu;
    gantry_taskman *names; /* a second manager */
    gantry_kernel *kernel;
    uint32_t *host, *device;
    gantry_task *last;
    _Atomic uint64_t cpu, gpu_calls, released;
};

static void must(gantry_status status, const char *what)
{
    if (status != GANTRY_OK) {
        scene_broken("%s: %s: %s", what, gantry_status_name(status), gantry_last_error());
    }
}

static gantry_status run_cpu(gantry_task *task, void *arg)
{
    (void)task;
    atomic_fetch_add_explicit(&((struct soak *)arg)->cpu, 1, memory_order_relaxed);
    return GANTRY_OK;
}

static void released(gantry_task *task, void *arg, gantry_status result)
{
    (void)task;
    must(result, "a task");
    atomic_fetch_add_explicit(&((struct soak *)arg)->released, 1, memory_order_relaxed);
}

static gantry_launch_result launch(gantry_launch *launch, void *arg)
{
    struct soak *s = arg;
    void *words = s->device, *profile = NULL;
    uint32_t from = 0, id = 0;
    void *args[] = {&words, &from, &profile, &id};
    gantry_dim3 one = {1, 1, 1}, block = {WORDS, 1, 1};
    atomic_fetch_add_explicit(&s->gpu_calls, 1, memory_order_relaxed);
    switch (gantry_task_get_kind(gantry_launch_task(launch))) {
    case GANTRY_TASK_HTOD:
        must(gantry_launch_copy_htod(launch, s->device, s->host, WORDS * 4), "copy");
        break;
    case GANTRY_TASK_DTOH:
        must(gantry_launch_copy_dtoh(launch, s->host, s->device, WORDS * 4), "copy");
        must(gantry_launch_add_completion(launch, s->last), "completion");
        break;
    default:
        must(gantry_launch_kernel(launch, s->kernel, one, block, 0, args), "kernel");
        break;
    }
    return GANTRY_LAUNCH_DONE;
}

static gantry_task *submit(struct soak *s, gantry_taskman *manager, gantry_task_kind kind, const char *name)
{
    gantry_task_desc desc = GANTRY_TASK_DESC_INIT;
    gantry_task *task = NULL;
    desc.kind = kind;
    desc.name = name;
    desc.run = kind == GANTRY_TASK_CPU ? run_cpu : NULL;
    desc.launch = kind == GANTRY_TASK_CPU ? NULL : launch;
    desc.release = released;
    desc.arg = s;
    must(gantry_taskman_submit(manager, &desc, &task), "submit");
    return task;
}

/* HtoD → kernel → DtoH → CPU in each pipeline; the last task comes after all. */
static void build(struct soak *s)
{
    static const gantry_task_kind kinds[PER_PIPELINE] = {GANTRY_TASK_HTOD, GANTRY_TASK_KERNEL,
                                                         GANTRY_TASK_DTOH, GANTRY_TASK_CPU};
    s->last = submit(s, s->gpu.manager, GANTRY_TASK_CPU, NULL);
    for (int p = 0; p < PIPELINES; p++) {
        gantry_task *before = NULL;
        for (int i = 0; i < PER_PIPELINE; i++) {
            gantry_task *task = submit(s, s->gpu.manager, kinds[i], NULL);
            if (before != NULL) {
                must(gantry_task_start_after(task, before), "after");
            }
            before = task;
        }
        must(gantry_task_start_after(s->last, before), "last");
    }
    must(gantry_taskman_freeze(s->gpu.manager), "freeze");
}

static void run_named(struct soak *s)
{
    for (int i = 0; i < NAMED; i++) {
        char name[48];
        (void)snprintf(name, sizeof(name), "a task that has the name of number %d", i);
        (void)submit(s, s->names, GANTRY_TASK_CPU, name);
    }
    must(gantry_taskman_start(s->names), "start");
    must(gantry_taskman_stop(s->names), "stop");
    must(gantry_taskman_reset(s->names), "reset");
}

/* Returns the kilobytes of the process's memory. */
static long resident_kb(void)
{
    char line[256];
    long kb = 0;
    FILE *file = fopen("/proc/self/status", "r");
    while (file != NULL && fgets(line, sizeof(line), file) != NULL) {
        if (strncmp(line, "VmRSS:", 6) == 0) {
            kb = strtol(line + 6, NULL, 10);
        }
    }
    if (file != NULL) {
        (void)fclose(file);
    }
    return kb;
}

static void open_soak(struct soak *s)
{
    gantry_context_options options = GANTRY_CONTEXT_OPTIONS_INIT;
    gantry_taskman_options manager = GANTRY_TASKMAN_OPTIONS_INIT;
    gantry_module *module;
    void *host, *device;
    options.driver = GANTRY_DRIVER_EMULATED;
    if (!scene_open(&s->gpu, &options)) {
        scene_broken("no context");
    }
    gantry_heap *heap = gantry_context_heap(s->gpu.context);
    manager.cpu_dispatcher = s->gpu.cpus;
    must(gantry_taskman_create(&manager, &s->names), "manager");
    must(gantry_module_load(s->gpu.context, &gantry_image_campaign_kernels, &module), "module");
    must(gantry_module_get_kernel(module, "add_one", &s->kernel), "kernel");
    must(gantry_heap_alloc(heap, GANTRY_MEMORY_PINNED, WORDS * 4, 0, GANTRY_ALLOC_SITE("soak"), &host),
         "host");
    must(gantry_heap_alloc(heap, GANTRY_MEMORY_DEVICE, WORDS * 4, 0, GANTRY_ALLOC_SITE("soak"), &device),
         "device");
    s->host = host;
    s->device = device;
    void *library = dlopen("libgantry-emu.so", RTLD_NOW | RTLD_NOLOAD);
    void (*set_noop)(int noop) = NULL;
    *(void **)&set_noop = library != NULL ? dlsym(library, "gantry_emu_set_noop") : NULL;
    if (set_noop == NULL) {
        scene_broken("no emulated driver");
    }
    set_noop(1);
}

static void check_counters(struct soak *s, uint64_t runs, uint64_t named)
{
    gantry_dispatcher_stats stats = {.struct_size = sizeof(stats)};
    must(gantry_dispatcher_get_stats(gantry_context_dispatcher(s->gpu.context), &stats), "statistics");
    uint64_t gpu = runs * PIPELINES * 3, all = runs * (PIPELINES * PER_PIPELINE + 1) + named * NAMED;
    if (stats.tasks != gpu || stats.launch_calls != gpu || s->gpu_calls != gpu || stats.tasks_failed != 0 ||
        stats.completions != runs * PIPELINES || stats.kernels != runs * PIPELINES ||
        stats.copies != 2 * runs * PIPELINES || s->released != all || s->cpu != all - gpu) {
        scene_broken("the counters do not fit %llu runs", (unsigned long long)runs);
    }
}

int main(int argc, char **argv)
{
    static struct soak s;
    uint64_t most = argc > 1 ? strtoull(argv[1], NULL, 10) : 200000, runs = 0, named = 0, tasks = 0;
    long blocks = 0, resident = 0;
    uint64_t begin = gy_clock_ns();
    open_soak(&s);
    build(&s);
    while (tasks < most) {
        must(gantry_taskman_run(s.gpu.manager, 1), "run");
        runs++;
        if (runs % NAMED_EVERY == 0) {
            run_named(&s);
            named++;
        }
        tasks = runs * (PIPELINES * PER_PIPELINE + 1) + named * NAMED;
        if (blocks == 0 && tasks >= most / 10 && named > 0) {
            blocks = gy_alloc_live();
            resident = resident_kb();
        }
    }
    check_counters(&s, runs, named);
    long grown = resident_kb() - resident;
    if (blocks != 0 && gy_alloc_live() != blocks) {
        scene_broken("%ld blocks of host memory more", gy_alloc_live() - blocks);
    }
    if (!SANITIZED && blocks != 0 && grown >= 1024) {
        scene_broken("%ld KiB more are resident", grown);
    }
    printf("%llu tasks in %.1f s, %ld KiB grown\n", (unsigned long long)tasks,
           (double)(gy_clock_ns() - begin) / 1e9, grown);
    gantry_taskman_destroy(s.names);
    scene_close(&s.gpu);
    return 0;
}
