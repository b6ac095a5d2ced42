/* SPDX-License-Identifier: MIT */
/* One step again and again, for tools/path_length: which functions of the library does it enter?
 *
 *     path_steps MODE KERNELS STEPS FOLDER
 *
 * A step is KERNELS kernels, each after the one before, and a CPU task after the last of them is done.  The
 * library in this program is compiled with -finstrument-functions: each of its functions calls
 * __cyg_profile_func_enter() first.  After WARM_STEPS steps STEPS more are counted, each from its first
 * submission to the end of the reset, on all threads; what threads do between two steps counts for the later
 * one.  For each a line is printed: how many calls there were, and where in the program the functions lie
 * that were entered.
 *
 * So that nearly every step is the same, all threads share one CPU and block while they wait, the last kernel
 * takes LAST_NS, so that all of them do wait, the CPU task runs in the thread that waits, and only the
 * dispatcher's threads do its work.  Of the mode auto those steps count that are launched as graphs; it takes
 * no call for slow, since all are in code like this.  Recordings are written into FOLDER. */
#include "context/context.h"
#include "dispatcher/internal.h"
#include "submit_kernels.kernels.h"

#include <gantry/gantry.h>

#include <sched.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { WARM_STEPS = 100, MOST_KERNELS = 64, TRIES = 20, LAST_NS = 500000, MOST_DEVICES = 2 };

struct path_mode {
    const char *name;
    gantry_submission submission;
    bool is_frozen; /* with stable kernels: it is replayed */
    bool frees;     /* the last kernel's callback calls gantry_free_after() */
    bool is_recorded;
    bool wants_graphs; /* steps count that are launched as graphs */
    uint32_t devices;
};

static const struct path_mode modes[] = {
    {"streams", GANTRY_SUBMISSION_STREAMS, false, false, false, false, 1},
    {"graphs", GANTRY_SUBMISSION_GRAPHS, false, false, false, false, 1},
    {"auto", GANTRY_SUBMISSION_AUTO, false, false, false, true, 1},
    {"replay", GANTRY_SUBMISSION_GRAPHS, true, false, false, false, 1},
    {"free_after", GANTRY_SUBMISSION_GRAPHS, false, true, false, false, 1},
    {"recorded", GANTRY_SUBMISSION_GRAPHS, false, false, true, false, 1},
    {"fleet", GANTRY_SUBMISSION_AUTO, false, false, false, true, MOST_DEVICES},
};

struct scene {
    const struct path_mode *mode;
    uint32_t kernels;    /* of a step */
    gantry_fleet *fleet; /* with several devices */
    gantry_context *contexts[MOST_DEVICES];
    gantry_kernel *increment[MOST_DEVICES], *last[MOST_DEVICES];
    void *cells[MOST_DEVICES];
    gantry_cpu_dispatcher *cpus;
    gantry_taskman *manager;
    gantry_profile *profile;
    gantry_task *tasks[MOST_KERNELS];
    void *block; /* what the last kernel frees */
    const char *folder;
};

/* ---- what is entered ----------------------------------------------------------------------- */

extern const char __executable_start, etext; /* the linker's */

/* Where a function begins in each UNIT bytes of code, plus 1; 0: none was entered.  A function with its two
 * calls is longer than that. */
enum { UNIT = 16 };
static atomic_uchar *entered; /* immutable; each atomic */
static atomic_bool is_counting;
static atomic_ulong calls; /* atomic; in this step */

void __cyg_profile_func_enter(void *function, void *site);
void __cyg_profile_func_exit(void *function, void *site);

void __cyg_profile_func_enter(void *function, void *site)
{
    (void)site;
    if (atomic_load_explicit(&is_counting, memory_order_relaxed)) {
        const size_t at = (size_t)((const char *)function - &__executable_start);
        atomic_fetch_add_explicit(&calls, 1, memory_order_relaxed);
        atomic_store_explicit(&entered[at / UNIT], (unsigned char)(at % UNIT + 1), memory_order_relaxed);
    }
}

void __cyg_profile_func_exit(void *function, void *site)
{
    (void)function;
    (void)site;
}

static size_t units_of_code(void)
{
    return (size_t)(&etext - &__executable_start) / UNIT + 1;
}

/* Print what was entered in a step, and begin anew. */
static void take_counts(bool prints)
{
    const unsigned long count = atomic_exchange(&calls, 0);
    if (prints) {
        printf("%lu", count);
    }
    for (size_t i = 0; i < units_of_code(); i++) {
        const unsigned char at = atomic_load_explicit(&entered[i], memory_order_relaxed);
        if (at != 0) {
            atomic_store_explicit(&entered[i], 0, memory_order_relaxed);
            if (prints) {
                printf(" %zx", i * UNIT + at - 1);
            }
        }
    }
    if (prints) {
        putchar('\n');
    }
}

/* ---- the scene ----------------------------------------------------------------------------- */

static bool ok(gantry_status status)
{
    if (status != GANTRY_OK) {
        fprintf(stderr, "path_steps: %s\n", gantry_last_error());
    }
    return status == GANTRY_OK;
}

/* In a fleet the last kernel is the other device's. */
static uint32_t device_of(const struct scene *scene, uint64_t index)
{
    return index == scene->kernels - 1 ? scene->mode->devices - 1 : 0;
}

static gantry_launch_result launch_increment(gantry_launch *launch, void *arg)
{
    struct scene *scene = arg;
    const uint64_t index = gantry_task_context_id(gantry_launch_task(launch));
    const bool is_last = index == scene->kernels - 1;
    const uint32_t device = device_of(scene, index);
    uint64_t ns = LAST_NS;
    void *args[] = {&scene->cells[device], &ns};
    const gantry_dim3 one = {1, 1, 1}, warp = {32, 1, 1};
    gantry_kernel *kernel = is_last ? scene->last[device] : scene->increment[device];
    bool good = gantry_launch_kernel(launch, kernel, one, warp, 0, args) == GANTRY_OK;
    if (scene->mode->frees && is_last) {
        good = gantry_free_after(scene->block, launch) == GANTRY_OK && good;
    }
    return good ? GANTRY_LAUNCH_DONE : GANTRY_LAUNCH_FAILED;
}

static gantry_status run_nothing(gantry_task *task, void *arg)
{
    (void)task;
    (void)arg;
    return GANTRY_OK;
}

static bool build(struct scene *scene)
{
    const gantry_alloc_site site = GANTRY_ALLOC_SITE("path");
    bool good =
        !scene->mode->frees || ok(gantry_heap_alloc(gantry_context_heap(scene->contexts[0]),
                                                    GANTRY_MEMORY_DEVICE, 256, 0, site, &scene->block));
    for (uint32_t i = 0; i < scene->kernels && good; i++) {
        gantry_task_desc desc = GANTRY_TASK_DESC_INIT;
        desc.kind = GANTRY_TASK_KERNEL;
        desc.launch = launch_increment;
        desc.arg = scene;
        desc.context_id = i;
        desc.is_stable = scene->mode->is_frozen;
        desc.context = scene->fleet != NULL ? scene->contexts[device_of(scene, i)] : NULL;
        good = ok(gantry_taskman_submit(scene->manager, &desc, &scene->tasks[i])) &&
               (i == 0 || ok(gantry_task_start_after(scene->tasks[i], scene->tasks[i - 1])));
    }
    gantry_task_desc last = GANTRY_TASK_DESC_INIT;
    gantry_task *task;
    last.run = run_nothing;
    return good && ok(gantry_taskman_submit(scene->manager, &last, &task)) &&
           ok(gantry_task_start_after_done(task, scene->tasks[scene->kernels - 1]));
}

static bool run_step(struct scene *scene, bool is_first)
{
    const bool is_frozen = scene->mode->is_frozen;
    return ((is_frozen && !is_first) || build(scene)) &&
           (!is_frozen || !is_first || ok(gantry_taskman_freeze(scene->manager))) &&
           ok(gantry_taskman_start(scene->manager)) && ok(gantry_taskman_stop(scene->manager)) &&
           (is_frozen || ok(gantry_taskman_reset(scene->manager)));
}

static bool open_contexts(struct scene *scene)
{
    gantry_context_options options = GANTRY_CONTEXT_OPTIONS_INIT;
    options.driver = GANTRY_DRIVER_EMULATED;
    options.submission = scene->mode->submission;
    options.completion_wait = GANTRY_WAIT_BLOCK;
    if (scene->mode->devices == 1) {
        return ok(gantry_context_create(&options, &scene->contexts[0]));
    }
    gantry_fleet_options fleet = GANTRY_FLEET_OPTIONS_INIT;
    fleet.context = &options;
    if (!ok(gantry_fleet_create(&fleet, &scene->fleet))) {
        return false;
    }
    for (uint32_t i = 0; i < scene->mode->devices; i++) {
        scene->contexts[i] = gantry_fleet_context(scene->fleet, i);
    }
    return gantry_fleet_device_count(scene->fleet) == scene->mode->devices;
}

static bool open_kernels(struct scene *scene)
{
    const gantry_alloc_site site = GANTRY_ALLOC_SITE("path");
    bool good = true;
    for (uint32_t i = 0; i < scene->mode->devices && good; i++) {
        scene->contexts[i]->dispatcher->graphs.choice.slow_ns = UINT64_MAX;
        gantry_module *module;
        good = ok(gantry_module_load(scene->contexts[i], &gantry_image_submit_kernels, &module)) &&
               ok(gantry_module_get_kernel(module, "increment", &scene->increment[i])) &&
               ok(gantry_module_get_kernel(module, "increment_after", &scene->last[i])) &&
               ok(gantry_heap_alloc(gantry_context_heap(scene->contexts[i]), GANTRY_MEMORY_DEVICE, 256, 0,
                                    site, &scene->cells[i]));
    }
    return good;
}

static bool open_scene(struct scene *scene)
{
    gantry_cpu_dispatcher_options cpus = GANTRY_CPU_DISPATCHER_OPTIONS_INIT;
    cpus.inline_only = true;
    cpus.wait_mode = GANTRY_WAIT_BLOCK;
    if (!open_contexts(scene) || !open_kernels(scene) ||
        !ok(gantry_cpu_dispatcher_create(&cpus, &scene->cpus))) {
        return false;
    }
    gantry_taskman_options manager = GANTRY_TASKMAN_OPTIONS_INIT;
    manager.cpu_dispatcher = scene->cpus;
    manager.dispatcher_only = true;
    if (scene->fleet != NULL) {
        manager.fleet = scene->fleet;
    } else {
        manager.gpu_dispatcher = gantry_context_dispatcher(scene->contexts[0]);
    }
    if (!ok(gantry_taskman_create(&manager, &scene->manager))) {
        return false;
    }
    char path[4096];
    snprintf(path, sizeof(path), "%s/path.pftrace", scene->folder);
    gantry_profile_options profile = GANTRY_PROFILE_OPTIONS_INIT;
    profile.path = path;
    return !scene->mode->is_recorded || ok(gantry_profile_start(&profile, &scene->profile));
}

static void close_scene(struct scene *scene)
{
    gantry_profile_stop(scene->profile, NULL);
    gantry_taskman_destroy(scene->manager);
    gantry_cpu_dispatcher_destroy(scene->cpus);
    if (scene->fleet != NULL) {
        gantry_fleet_destroy(scene->fleet);
    } else {
        gantry_context_destroy(scene->contexts[0]);
    }
}

/* ---- counting ------------------------------------------------------------------------------ */

static uint64_t graph_launches(const struct scene *scene)
{
    gantry_dispatcher_stats stats = {.struct_size = sizeof(stats)};
    return ok(gantry_dispatcher_get_stats(gantry_context_dispatcher(scene->contexts[0]), &stats))
               ? stats.graph_launches
               : 0;
}

/* Steps of a mode that wants graphs are tried TRIES times as often. */
static bool count(struct scene *scene, unsigned long steps)
{
    bool good = true;
    unsigned long counted = 0;
    for (uint32_t i = 0; i < WARM_STEPS && good; i++) {
        good = run_step(scene, i == 0);
    }
    entered = calloc(units_of_code(), sizeof(*entered)); /* it stays: threads may still look at it */
    good = good && entered != NULL;
    for (unsigned long i = 0; i < TRIES * steps && counted < steps && good; i++) {
        const uint64_t launches = graph_launches(scene);
        atomic_store(&is_counting, true);
        good = run_step(scene, false);
        atomic_store(&is_counting, false);
        const bool counts = !scene->mode->wants_graphs || graph_launches(scene) != launches;
        take_counts(counts && good);
        counted += counts;
    }
    return good && counted == steps;
}

static bool use_one_cpu(void)
{
    cpu_set_t cpus, one;
    if (sched_getaffinity(0, sizeof(cpus), &cpus) != 0) {
        return false;
    }
    size_t cpu = 0;
    while (cpu < CPU_SETSIZE - 1 && !CPU_ISSET(cpu, &cpus)) {
        cpu++;
    }
    CPU_ZERO(&one);
    CPU_SET(cpu, &one);
    return sched_setaffinity(0, sizeof(one), &one) == 0;
}

int main(int argc, char **argv)
{
    static struct scene scene;
    for (size_t i = 0; argc == 5 && i < sizeof(modes) / sizeof(modes[0]); i++) {
        scene.mode = strcmp(argv[1], modes[i].name) == 0 ? &modes[i] : scene.mode;
    }
    const unsigned long steps = argc == 5 ? strtoul(argv[3], NULL, 10) : 0;
    scene.kernels = argc == 5 ? (uint32_t)strtoul(argv[2], NULL, 10) : 0;
    if (scene.mode == NULL || scene.kernels == 0 || scene.kernels > MOST_KERNELS || steps == 0) {
        fputs("usage: path_steps MODE KERNELS STEPS FOLDER\n", stderr);
        return EXIT_FAILURE;
    }
    scene.folder = argv[4];
    const bool good = use_one_cpu() && open_scene(&scene) && count(&scene, steps);
    close_scene(&scene);
    return good ? EXIT_SUCCESS : EXIT_FAILURE;
}
