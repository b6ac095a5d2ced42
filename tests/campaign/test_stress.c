/* SPDX-License-Identifier: MIT */
/* Everything at once, at random: several task managers on one context, each with a thread of its own, a
 * thread that allocates and frees, one that starts and stops recordings; every way of submission, waiting and
 * ordering, and partitions, some with a share of GPU time; tasks added while others run, runs cancelled,
 * frozen graphs; and in every third round a failure of the driver, of a kernel or of the host somewhere.
 *
 *   test_campaign_stress [SECONDS [SEED]]     3 seconds, 9 under the address and 45 under the thread
 * sanitizer
 *
 * After each round: every task was released exactly once, without a failure nothing failed, and nothing of
 * the library or the driver is left.  With GANTRY_TEST_DRIVER=cuda all that on a device, where only the host
 * can be made to fail and nobody counts the driver's objects.  The seed of each round is printed when
 * something is wrong; the same seed makes the same choices, but not the same interleaving. */
#include "base/alloc.h"
#include "base/clock.h"
#include "base/sanitizers.h"
#include "base/thread.h"
#include "emulator/gantry_emu.h"
#include "tests/campaign/scene.h"

#include "campaign_kernels.kernels.h"
#include "tests/support/emu_controls.h"

#include <sched.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

enum { MOST_MANAGERS = 4, MOST_TASKS = 60, PLACES = MOST_TASKS + 8, STEPS = 4, WORDS = 64, SKIPPED = 77 };

#if GY_WITH_TSAN
#define DEFAULT_SECONDS 45
#elif GY_WITH_ASAN
#define DEFAULT_SECONDS 9
#else
#define DEFAULT_SECONDS 3
#endif

static struct gantry_emu_control emu;
static bool emulated;

struct rng {
    uint64_t state;
};

static uint32_t draw(struct rng *rng, uint32_t below)
{
    rng->state = rng->state * UINT64_C(6364136223846793005) + UINT64_C(1442695040888963407);
    return (uint32_t)((rng->state >> 33) % below);
}

struct round {
    uint64_t seed;
    bool faulty; /* something fails in this round */
    gantry_context *context;
    gantry_cpu_dispatcher *cpus;
    gantry_kernel *kernel;
    gantry_partition *partitions[3];
    uint32_t partition_count;
    uint32_t profile_id;
    atomic_uint working; /* managers that are not done */
    atomic_uint steps, tasks, failures;
};

/* The memory of a task: tasks that do not depend on each other must not share any.  Nor must those of two
 * steps: a step that failed or was cancelled may end before its work on the device. */
struct place {
    struct driver *driver;
    uint32_t *device, *host;
};

struct driver { /* of one manager */
    struct round *round;
    gantry_taskman *manager;
    gy_thread thread;
    struct rng rng;
    gantry_task *tasks[MOST_TASKS];
    struct place places[STEPS * PLACES];
    uint32_t step;
    gantry_task *tell; /* the task that GPU tasks complete */
    atomic_uint submitted, released, refused;
};

static _Noreturn void broken(const struct round *round, const char *what, uint64_t value)
{
    fprintf(stderr, "seed %llu%s: %s: %llu: %s\n", (unsigned long long)round->seed,
            round->faulty ? " (with a failure)" : "", what, (unsigned long long)value, gantry_last_error());
    _exit(1);
}

/* In a round without a failure nothing may be refused. */
static bool accepted(struct driver *d, gantry_status status, const char *what)
{
    if (status == GANTRY_OK) {
        return true;
    }
    if (!d->round->faulty && status != GANTRY_ERR_CANCELLED) {
        broken(d->round, what, (uint64_t)-status);
    }
    atomic_fetch_add(&d->round->failures, 1);
    return false;
}

/* ---- tasks ----------------------------------------------------------------------------------- */

static void released(gantry_task *task, void *arg, gantry_status result)
{
    (void)task;
    (void)result;
    atomic_fetch_add(&((struct place *)arg)->driver->released, 1);
}

static gantry_status run_light(gantry_task *task, void *arg)
{
    (void)task;
    (void)arg;
    return GANTRY_OK;
}

static gantry_status run_cpu(gantry_task *task, void *arg)
{
    gantry_status status = gantry_taskman_spawn(gantry_task_manager(task), run_light, arg, "light", NULL);
    return ((struct place *)arg)->driver->round->faulty ? GANTRY_OK : status;
}

/* The end of a launch callback: the step's last task starts when the device is done. */
static gantry_launch_result done(gantry_launch *launch, const struct place *place, gantry_status status)
{
    if (status == GANTRY_OK && place->driver->tell != NULL) {
        status = gantry_launch_add_completion(launch, place->driver->tell);
    }
    return status == GANTRY_OK ? GANTRY_LAUNCH_DONE : GANTRY_LAUNCH_FAILED;
}

static gantry_launch_result launch_in(gantry_launch *launch, void *arg)
{
    const struct place *place = arg;
    return done(launch, place, gantry_launch_copy_htod(launch, place->device, place->host, WORDS * 4));
}

static gantry_launch_result launch_out(gantry_launch *launch, void *arg)
{
    const struct place *place = arg;
    return done(launch, place, gantry_launch_copy_dtoh(launch, place->host, place->device, WORDS * 4));
}

static gantry_launch_result launch_kernel(gantry_launch *launch, void *arg)
{
    const struct place *place = arg;
    const struct driver *d = place->driver;
    void *words = place->device, *scratch = NULL;
    uint32_t from = 0, id = d->round->profile_id;
    gantry_dim3 grid = {2, 1, 1}, block = {32, 1, 1};
    void *profile = gantry_launch_profile(launch, id, grid);
    void *args[] = {&words, &from, &profile, &id};
    gantry_status status = gantry_launch_kernel(launch, d->round->kernel, grid, block, 0, args);
    if (status == GANTRY_OK && gantry_launch_index(launch) == 0) {
        status =
            gantry_launch_alloc(launch, GANTRY_MEMORY_DEVICE, 300, 0, GANTRY_ALLOC_SITE("scratch"), &scratch);
        if (status == GANTRY_OK) {
            status = gantry_free_after(scratch, launch);
        }
        return status == GANTRY_OK ? GANTRY_LAUNCH_AGAIN : GANTRY_LAUNCH_FAILED;
    }
    return done(launch, place, status);
}

static gantry_launch_result launch_batch(gantry_launch *launch, void *arg)
{
    const struct place *place = arg;
    gantry_copy_desc descs[8];
    memset(descs, 0, sizeof(descs));
    for (uint32_t i = 0; i < 8; i++) {
        descs[i].dest = place->device + 2 * i;
        descs[i].bytes = 4;
        descs[i].type = GANTRY_COPY_FILL;
        descs[i].pattern_bytes = 4;
    }
    return done(launch, place, gantry_copy_launch(launch, descs, 8));
}

static gantry_task *submit(struct driver *d, uint32_t kind)
{
    static const struct {
        gantry_task_kind kind;
        gantry_launch_fn launch;
    } kinds[] = {{GANTRY_TASK_CPU, NULL},
                 {GANTRY_TASK_CPU, NULL},
                 {GANTRY_TASK_SYNC_POINT, NULL},
                 {GANTRY_TASK_HTOD, launch_in},
                 {GANTRY_TASK_KERNEL, launch_kernel},
                 {GANTRY_TASK_KERNEL, launch_batch},
                 {GANTRY_TASK_DTOH, launch_out}};
    gantry_task_desc desc = GANTRY_TASK_DESC_INIT;
    gantry_task *task = NULL;
    kind = kind % (sizeof(kinds) / sizeof(kinds[0]));
    desc.kind = kinds[kind].kind;
    desc.launch = kinds[kind].launch;
    desc.run = desc.kind == GANTRY_TASK_CPU ? run_cpu : NULL;
    desc.release = released;
    if (desc.kind >= GANTRY_TASK_HTOD && d->round->partition_count != 0 && draw(&d->rng, 2) == 0) {
        desc.partition = d->round->partitions[draw(&d->rng, d->round->partition_count)];
    }
    desc.arg = &d->places[d->step * PLACES + atomic_load(&d->submitted)];
    if (accepted(d, gantry_taskman_submit(d->manager, &desc, &task), "submit")) {
        atomic_fetch_add(&d->submitted, 1);
    }
    return task;
}

/* Edges lead from earlier to later tasks; the last one, which GPU tasks complete, comes after all. */
static void build(struct driver *d, uint32_t count)
{
    memset(d->tasks, 0, sizeof(d->tasks));
    d->tell = NULL;
    for (uint32_t i = 0; i < count; i++) {
        d->tasks[i] = submit(d, draw(&d->rng, 1000));
        for (uint32_t k = draw(&d->rng, 4); k > 0 && i > 0 && d->tasks[i] != NULL; k--) {
            gantry_task *before = d->tasks[i - 1 - draw(&d->rng, i < 8 ? i : 8)];
            if (before != NULL) {
                (void)accepted(d, gantry_task_start_after(d->tasks[i], before), "start after");
            }
        }
    }
    gantry_task *last = submit(d, 0);
    bool after_all = last != NULL;
    for (uint32_t i = 0; i < count && after_all; i++) {
        after_all = d->tasks[i] == NULL || accepted(d, gantry_task_start_after(last, d->tasks[i]), "last");
    }
    d->tell = after_all ? last : NULL;
}

static void add_late(struct driver *d)
{
    for (uint32_t i = draw(&d->rng, 6); i > 0; i--) {
        gantry_task *late = submit(d, draw(&d->rng, 3));
        if (late != NULL) {
            (void)gantry_task_remove_reference(late);
        }
    }
}

/* Start and stop once; false when one of the calls was refused. */
static bool run_once(struct driver *d, bool may_cancel, uint32_t *runs)
{
    if (!accepted(d, gantry_taskman_start(d->manager), "start")) {
        return false;
    }
    *runs += 1;
    if (may_cancel) {
        add_late(d);
    }
    if (may_cancel && draw(&d->rng, 8) == 0) {
        (void)gantry_taskman_cancel(d->manager);
    }
    atomic_fetch_add(&d->round->steps, 1);
    return accepted(d, gantry_taskman_stop(d->manager), "stop");
}

static void check_released(struct driver *d, uint32_t times)
{
    uint32_t wanted = times * atomic_load(&d->submitted);
    if (atomic_load(&d->released) != wanted) {
        broken(d->round, "tasks were not released once each", atomic_load(&d->released));
    }
    atomic_fetch_add(&d->round->tasks, wanted);
}

static void step(struct driver *d)
{
    uint32_t runs = 0;
    atomic_store(&d->submitted, 0);
    atomic_store(&d->released, 0);
    build(d, 1 + draw(&d->rng, MOST_TASKS));
    bool frozen = draw(&d->rng, 3) == 0 && accepted(d, gantry_taskman_freeze(d->manager), "freeze");
    while (frozen && runs < 3 && run_once(d, false, &runs)) {
    }
    if (frozen) {
        check_released(d, runs);
    } else {
        (void)run_once(d, true, &runs);
    }
    if (gantry_taskman_reset(d->manager) != GANTRY_OK) {
        broken(d->round, "reset", 0);
    }
    if (!frozen) { /* also when it was never started */
        check_released(d, 1);
    }
}

static void manager_main(void *arg)
{
    struct driver *d = arg;
    for (d->step = 0; d->step < STEPS; d->step++) {
        step(d);
    }
    atomic_fetch_sub(&d->round->working, 1);
}

/* ---- around the managers --------------------------------------------------------------------- */

static void count_release(void *arg)
{
    atomic_fetch_add((atomic_uint *)arg, 1);
}

/* Allocate and free as long as managers work. */
static void heap_main(void *arg)
{
    struct round *round = arg;
    struct rng rng = {round->seed + 99};
    gantry_heap *heap = gantry_context_heap(round->context);
    void *blocks[16] = {NULL};
    atomic_uint reclaimed = 0;
    uint32_t asked = 0;
    while (atomic_load(&round->working) > 0) {
        uint32_t i = draw(&rng, 16);
        gantry_memory_kind kind = (gantry_memory_kind)draw(&rng, GANTRY_MEMORY_KIND_COUNT);
        if (gantry_heap_free(heap, blocks[i]) != GANTRY_OK) {
            broken(round, "free", i);
        }
        blocks[i] = NULL;
        size_t bytes = (size_t)1 << draw(&rng, 20);
        if (gantry_heap_alloc(heap, kind, bytes, 0, GANTRY_ALLOC_SITE("stress"), &blocks[i]) != GANTRY_OK &&
            !round->faulty) {
            broken(round, "alloc", bytes);
        }
        if (draw(&rng, 50) == 0) {
            (void)gantry_heap_trim(heap, kind, 0, NULL);
            asked += gantry_heap_reclaim(heap, count_release, &reclaimed, 100) == GANTRY_OK;
        }
        sched_yield();
    }
    for (uint32_t i = 0; i < 16; i++) {
        (void)gantry_heap_free(heap, blocks[i]);
    }
    (void)gantry_heap_reclaim_wait(heap);
    if (atomic_load(&reclaimed) != asked) {
        broken(round, "releases that were not called", asked);
    }
}

static void profile_main(void *arg)
{
    struct round *round = arg;
    gantry_profile_options options = GANTRY_PROFILE_OPTIONS_INIT;
    options.path = "/dev/null";
    options.spans_per_thread = 1024;
    options.ctas_per_buffer = 1024;
    while (atomic_load(&round->working) > 0) {
        gantry_profile *profile = NULL;
        if (gantry_profile_start(&options, &profile) == GANTRY_OK) {
            sched_yield();
            (void)gantry_profile_stop(profile, NULL);
        }
        sched_yield();
    }
}

/* Make something fail, somewhere. */
static void inject(struct rng *rng)
{
    static const char *const functions[] = {"cuLaunchKernel",     "cuMemcpyHtoDAsync", "cuMemcpyDtoHAsync",
                                            "cuEventRecord",      "cuStreamWaitEvent", "cuEventQuery",
                                            "cuEventSynchronize", "cuGraphLaunch",     "cuStreamEndCapture",
                                            "cuMemCreate",        "cuEventCreate",     "cuStreamCreate"};
    const char *function = functions[draw(rng, sizeof(functions) / sizeof(functions[0]))];
    uint64_t nth = 1 + draw(rng, 60);
    switch (emulated ? draw(rng, 4) : 3) {
    case 0:
        (void)(emu.fail)(function, nth, 2, GANTRY_EMU_ONCE);
        break;
    case 1:
        (void)(emu.fail)(function, nth, 700, GANTRY_EMU_ONCE);
        break;
    case 2:
        (void)emu.fail_kernel(nth, 719, GANTRY_EMU_ONCE);
        break;
    default:
        gy_fault_arm((long)draw(rng, 60));
        break;
    }
}

/* There are three partitions, one of which has a share; only primary contexts have any. */
static void plan(struct rng *rng, gantry_partition_request requests[3], gantry_context_options *options)
{
    static gantry_partition_options plan = GANTRY_PARTITION_OPTIONS_INIT;
    static const char *const names[] = {"one", "two", "rest"};
    static gantry_share share = GANTRY_SHARE_INIT;
    for (int i = 0; i < 3; i++) {
        requests[i] = (gantry_partition_request){.struct_size = sizeof(requests[i]),
                                                 .name = names[i],
                                                 .size = GANTRY_PARTITION_AT_LEAST,
                                                 .sm_count = 8 * (1 + draw(rng, 4))};
    }
    requests[2].size = GANTRY_PARTITION_REST;
    requests[draw(rng, 3)].share = &share;
    share.percent = 20 + draw(rng, 60);
    requests[draw(rng, 3)].is_default = 1;
    plan.requests = requests;
    plan.count = 3;
    options->mode = GANTRY_CONTEXT_PRIMARY;
    options->partitions = &plan;
}

static void open_round(struct round *round, struct rng *rng)
{
    gantry_partition_request requests[3];
    static const gantry_wait_mode waits[] = {GANTRY_WAIT_BLOCK, GANTRY_WAIT_HYBRID, GANTRY_WAIT_YIELD};
    gantry_context_options options = GANTRY_CONTEXT_OPTIONS_INIT;
    gantry_cpu_dispatcher_options cpus = GANTRY_CPU_DISPATCHER_OPTIONS_INIT;
    gantry_module *module;
    options.driver = emulated ? GANTRY_DRIVER_EMULATED : GANTRY_DRIVER_CUDA;
    options.mode = GANTRY_CONTEXT_OWN;
    options.submission = (gantry_submission)(1 + draw(rng, 3));
    options.wfi = (gantry_wfi_mode)draw(rng, 2);
    options.stream_limit = 1 + draw(rng, 32);
    options.completion_wait = waits[draw(rng, 3)];
    cpus.worker_count = 1 + draw(rng, 3);
    cpus.wait_mode = waits[draw(rng, 3)];
    if (draw(rng, 3) == 0) {
        plan(rng, requests, &options);
    }
    if (gantry_context_create(&options, &round->context) != GANTRY_OK ||
        gantry_cpu_dispatcher_create(&cpus, &round->cpus) != GANTRY_OK ||
        gantry_module_load(round->context, &gantry_image_campaign_kernels, &module) != GANTRY_OK ||
        gantry_module_get_kernel(module, "add_one", &round->kernel) != GANTRY_OK) {
        broken(round, "open", 0);
    }
    round->partition_count = options.partitions != NULL ? 3 : 0;
    for (uint32_t i = 0; i < round->partition_count; i++) {
        round->partitions[i] = gantry_partition_at(round->context, i);
    }
}

static gantry_launch_result launch_clear(gantry_launch *launch, void *arg)
{
    const struct driver *d = arg;
    const struct place *all = &d->places[0];
    return done(launch, all,
                gantry_launch_copy_htod(launch, all->device, all->host, STEPS * PLACES * WORDS * 4));
}

/* The kernel counts in the memory that is there; at first there is none. */
static void clear(struct driver *d)
{
    gantry_task_desc copy = GANTRY_TASK_DESC_INIT, landed = GANTRY_TASK_DESC_INIT;
    gantry_task *task;
    copy.kind = GANTRY_TASK_HTOD;
    copy.launch = launch_clear;
    copy.arg = d;
    landed.kind = GANTRY_TASK_SYNC_POINT;
    if (gantry_taskman_submit(d->manager, &landed, &d->tell) != GANTRY_OK ||
        gantry_taskman_submit(d->manager, &copy, &task) != GANTRY_OK ||
        gantry_task_start_after(d->tell, task) != GANTRY_OK ||
        gantry_taskman_start(d->manager) != GANTRY_OK || gantry_taskman_stop(d->manager) != GANTRY_OK ||
        gantry_taskman_reset(d->manager) != GANTRY_OK) {
        broken(d->round, "clear", 0);
    }
}

static void open_driver(struct round *round, struct driver *d, uint32_t index)
{
    gantry_heap *heap = gantry_context_heap(round->context);
    gantry_taskman_options options = GANTRY_TASKMAN_OPTIONS_INIT;
    gantry_alloc_site site = GANTRY_ALLOC_SITE("stress");
    void *device, *host;
    memset(d, 0, sizeof(*d));
    d->round = round;
    d->rng.state = round->seed * 31 + index;
    options.cpu_dispatcher = round->cpus;
    options.gpu_dispatcher = gantry_context_dispatcher(round->context);
    if (gantry_taskman_create(&options, &d->manager) != GANTRY_OK ||
        gantry_heap_alloc(heap, GANTRY_MEMORY_DEVICE, STEPS * PLACES * WORDS * 4, 0, site, &device) !=
            GANTRY_OK ||
        gantry_heap_alloc(heap, GANTRY_MEMORY_PINNED, STEPS * PLACES * WORDS * 4, 0, site, &host) !=
            GANTRY_OK) {
        broken(round, "open manager", index);
    }
    memset(host, 0, STEPS * PLACES * WORDS * 4);
    for (uint32_t i = 0; i < STEPS * PLACES; i++) {
        d->places[i] = (struct place){d, (uint32_t *)device + i * WORDS, (uint32_t *)host + i * WORDS};
    }
    clear(d);
}

static void start(struct round *round, gy_thread *thread, const char *name, void (*body)(void *arg),
                  void *arg)
{
    if (gy_thread_start(thread, name, body, arg) != GANTRY_OK) {
        broken(round, "thread", 0);
    }
}

static void run_round(struct round *round, uint32_t profile_id)
{
    static struct driver drivers[MOST_MANAGERS];
    struct rng rng = {round->seed};
    gy_thread heap_thread, profile_thread;
    uint32_t managers = 1 + draw(&rng, MOST_MANAGERS);
    bool recorded = draw(&rng, 2) == 0;
    round->faulty = draw(&rng, 3) == 0;
    round->profile_id = profile_id;
    open_round(round, &rng);
    for (uint32_t i = 0; i < managers; i++) {
        open_driver(round, &drivers[i], i);
    }
    atomic_store(&round->working, managers);
    for (uint32_t i = 0; i < managers; i++) {
        start(round, &drivers[i].thread, "manager", manager_main, &drivers[i]);
    }
    start(round, &heap_thread, "heap", heap_main, round);
    if (recorded) {
        start(round, &profile_thread, "profile", profile_main, round);
    }
    if (round->faulty) { /* this is done when all threads exist, since starting a thread may not fail */
        inject(&rng);
    }
    for (uint32_t i = 0; i < managers; i++) {
        gy_thread_join(&drivers[i].thread);
        gantry_taskman_destroy(drivers[i].manager);
    }
    gy_thread_join(&heap_thread);
    if (recorded) {
        gy_thread_join(&profile_thread);
    }
    gantry_cpu_dispatcher_destroy(round->cpus);
    gantry_context_destroy(round->context); /* with the managers' blocks, which the device may still use */
    gy_fault_arm(-1);
    if (emulated) {
        emu.reset();
    }
}

static int64_t live_objects(void)
{
    int64_t sum = 0;
    for (int kind = 0; emulated && kind < GANTRY_EMU_LIVE_KINDS; kind++) {
        sum += emu.live(kind);
    }
    return sum;
}

int main(int argc, char **argv)
{
    uint64_t seconds = argc > 1 ? strtoull(argv[1], NULL, 10) : DEFAULT_SECONDS;
    uint64_t seed = argc > 2 ? strtoull(argv[2], NULL, 10) : 1;
    uint64_t end = gy_clock_ns() + seconds * 1000000000u, rounds = 0, steps = 0, tasks = 0, failures = 0;
    const char *name = "add_one";
    uint32_t profile_id = 0;
    const char *driver = getenv("GANTRY_TEST_DRIVER");
    emulated = driver == NULL || strcmp(driver, "cuda") != 0;
    if (emulated && !emu_controls_open(&emu)) {
        return SKIPPED;
    }
    if (gantry_profile_register_kernels(&name, 1, &profile_id) != GANTRY_OK) {
        return 1;
    }
    long host_live = gy_alloc_live();
    int64_t live = live_objects();
    do {
        struct round round = {.seed = seed + rounds};
        run_round(&round, profile_id);
        if (gy_alloc_live() != host_live || live_objects() != live) {
            broken(&round, "objects are left",
                   (uint64_t)(gy_alloc_live() - host_live + live_objects() - live));
        }
        rounds++;
        steps += round.steps;
        tasks += round.tasks;
        failures += round.failures;
    } while (gy_clock_ns() < end);
    printf("%llu rounds, %llu steps, %llu tasks, %llu calls refused\n", (unsigned long long)rounds,
           (unsigned long long)steps, (unsigned long long)tasks, (unsigned long long)failures);
    return 0;
}
