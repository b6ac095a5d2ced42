/* SPDX-License-Identifier: MIT */
/* Bytes as calls of the library, on the emulated driver: three task managers on one context, their tasks, the
 * heap, recordings, failures.  Each operation is a byte that names it and bytes that are its arguments; what
 * is missing at the end is 0.
 *
 * Checked: every submitted task of a step is released exactly once; the counts of a manager fit each other;
 * a refused call has a message and has not written its output; nothing is left at the end.  What would
 * rightly wait for ever is not done: references that the program took are given back, and groups finished,
 * before a manager is stopped. */
#include "tests/fuzz/fuzz.h"

#include "base/alloc.h"
#include "emulator/gantry_emu.h"

#include "campaign_kernels.kernels.h"
#include "tests/support/emu_controls.h"

#include <gantry/gantry.h>

#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { MANAGERS = 3, TASKS = 24, BLOCKS = 12, WORDS = 32, MOST_OPERATIONS = 300 };

static struct gantry_emu_control emu;

struct place {
    struct fuzzed *manager;
    gantry_task *task;
    uint32_t does;  /* what its callback does */
    uint32_t holds; /* references that the program has taken */
    uint32_t *words;
};

struct fuzzed { /* one manager */
    struct state *state;
    gantry_taskman *manager;
    struct place places[TASKS];
    uint32_t count;
    bool running, frozen, was_frozen;
    atomic_uint released, chosen;
};

struct state {
    const uint8_t *at;
    size_t left;
    gantry_context *context;
    gantry_cpu_dispatcher *cpus;
    gantry_kernel *kernel;
    gantry_profile *profile;
    void *blocks[BLOCKS];
    uint32_t *words; /* on the device: the places of each manager */
    uint32_t *host;
    uint32_t groups;
    uint32_t profile_id;
    struct fuzzed managers[MANAGERS];
};

static void check(int promise, const char *what)
{
    if (!promise) {
        fprintf(stderr, "broken: %s: %s\n", what, gantry_last_error());
        abort();
    }
}

static uint32_t byte(struct state *s)
{
    if (s->left == 0) {
        return 0;
    }
    s->left--;
    return *s->at++;
}

static bool ok(gantry_status status)
{
    check(status == GANTRY_OK || gantry_last_error()[0] != '\0', "a refused call has a message");
    check(strcmp(gantry_status_name(status), "GANTRY_ERR_?") != 0, "a status that there is");
    return status == GANTRY_OK;
}

/* ---- callbacks ------------------------------------------------------------------------------- */

static void released(gantry_task *task, void *arg, gantry_status result)
{
    (void)task;
    (void)result;
    atomic_fetch_add(&((struct place *)arg)->manager->released, 1);
}

static gantry_status run_light(gantry_task *task, void *arg)
{
    (void)task;
    (void)arg;
    return GANTRY_OK;
}

static gantry_status run(gantry_task *task, void *arg)
{
    struct place *place = arg;
    switch (place->does % 8) {
    case 1:
        return GANTRY_ERR_IO; /* it fails */
    case 2:
        return gantry_taskman_spawn(gantry_task_manager(task), run_light, place, "light", NULL);
    case 3:
        if (atomic_fetch_add(&place->manager->chosen, 1) < 20) { /* loops end */
            return gantry_task_choose(task, place->does / 8 % 4);
        }
        return GANTRY_OK;
    default:
        return GANTRY_OK;
    }
}

static gantry_status launch_something(gantry_launch *launch, struct place *place)
{
    struct state *s = place->manager->state;
    gantry_dim3 one = {1, 1, 1}, block = {WORDS, 1, 1};
    uint32_t from = 0, id = s->profile_id;
    void *words = place->words, *profile, *scratch;
    void *args[] = {&words, &from, &profile, &id};
    gantry_copy_desc desc = {place->words, NULL, WORDS, GANTRY_COPY_FILL, 1u << place->does / 16 % 4, 7};
    gantry_status status;
    switch (place->does % 16) {
    case 0:
        profile = gantry_launch_profile(launch, id, one);
        return gantry_launch_kernel(launch, s->kernel, one, block, 0, args);
    case 1:
        return gantry_launch_copy_htod(launch, place->words, s->host, WORDS * 4);
    case 2:
        return gantry_launch_fill(launch, place->words, 1, 4, WORDS);
    case 3:
        return gantry_copy_launch(launch, &desc, 1);
    case 4:
        return gantry_launch_request_sync_point(launch);
    case 5:
        return gantry_launch_leave_graph(launch);
    case 6:
        status = gantry_launch_alloc(launch, GANTRY_MEMORY_DEVICE, 1u << place->does / 16, 0,
                                     GANTRY_ALLOC_SITE("fuzz"), &scratch);
        return status == GANTRY_OK ? gantry_free_after(scratch, launch) : status;
    case 8:
        return gantry_copy_calibrate(launch, 64u << 10);
    case 9:
        return gantry_launch_add_completion(launch, place->manager->places[place->does / 16 % TASKS].task);
    default:
        return GANTRY_OK;
    }
}

static gantry_launch_result launch(gantry_launch *launch, void *arg)
{
    struct place *place = arg;
    if (place->does % 16 == 7 || !ok(launch_something(launch, place))) {
        return GANTRY_LAUNCH_FAILED;
    }
    return gantry_launch_index(launch) < place->does / 64 ? GANTRY_LAUNCH_AGAIN : GANTRY_LAUNCH_DONE;
}

/* ---- managers -------------------------------------------------------------------------------- */

/* Give back everything that keeps a step from ending. */
static void let_go(struct state *s)
{
    for (; s->groups > 0; s->groups--) {
        gantry_dispatcher_finish_group(gantry_context_dispatcher(s->context));
    }
    for (int m = 0; m < MANAGERS; m++) {
        for (uint32_t i = 0; i < s->managers[m].count && s->managers[m].running; i++) {
            struct place *place = &s->managers[m].places[i];
            for (; place->holds > 0; place->holds--) {
                check(gantry_task_remove_reference(place->task) == GANTRY_OK, "our reference is there");
            }
        }
    }
}

static void submit(struct state *s, struct fuzzed *f)
{
    static const gantry_task_kind kinds[] = {GANTRY_TASK_CPU,    GANTRY_TASK_SYNC_POINT, GANTRY_TASK_HTOD,
                                             GANTRY_TASK_KERNEL, GANTRY_TASK_DTOH,       GANTRY_TASK_CPU};
    static const char *const names[] = {NULL, NULL, NULL, "a", "b", "c", ""};
    gantry_task_desc desc = GANTRY_TASK_DESC_INIT;
    uint32_t how = byte(s), index = f->count;
    if (index == TASKS) {
        return;
    }
    struct place *place = &f->places[index];
    gantry_task *untouched = (gantry_task *)(void *)s, *task = untouched;
    place->does = byte(s);
    desc.kind = kinds[how % 6];
    desc.name = names[how / 8 % 7];
    desc.run = desc.kind == GANTRY_TASK_CPU ? run : NULL;
    desc.launch = desc.kind >= GANTRY_TASK_HTOD ? launch : NULL;
    desc.is_condition = desc.kind == GANTRY_TASK_CPU && place->does % 8 == 3;
    desc.priority = (gantry_task_priority)((int)(how / 64) - 1);
    desc.release = released;
    desc.arg = place;
    place->task = NULL;
    if (ok(gantry_taskman_submit(f->manager, &desc, &task))) {
        place->task = task;
        place->holds = f->running ? 1 : 0;
        f->count++;
    } else {
        check(task == untouched, "a refused submission wrote its output");
    }
}

static void forget(struct fuzzed *f)
{
    for (uint32_t i = 0; i < f->count; i++) {
        f->places[i].task = NULL;
        f->places[i].holds = 0;
    }
    f->count = 0;
    f->frozen = f->was_frozen = false;
    atomic_store(&f->released, 0);
}

static void stop(struct state *s, struct fuzzed *f)
{
    let_go(s);
    gantry_status status = gantry_taskman_stop(f->manager);
    (void)ok(status);
    f->running = f->running && status == GANTRY_ERR_STATE;
    gantry_taskman_stats stats = {.struct_size = sizeof(stats)};
    check(gantry_taskman_get_stats(f->manager, &stats) == GANTRY_OK, "statistics");
    check(stats.failed <= stats.released && stats.released <= stats.tasks, "counts fit each other");
    check(f->was_frozen || !f->running, "a stopped manager is stopped");
}

static void reset(struct fuzzed *f)
{
    if (ok(gantry_taskman_reset(f->manager))) {
        check(f->was_frozen || atomic_load(&f->released) == f->count, "each task is released once");
        forget(f);
    }
}

static void start(struct fuzzed *f)
{
    f->running = ok(gantry_taskman_start(f->manager)) || f->running;
}

static gantry_task *task_of(struct state *s, struct fuzzed *f)
{
    uint32_t index = byte(s);
    return f->count > 0 ? f->places[index % f->count].task : NULL;
}

static void add_reference(struct state *s, struct fuzzed *f)
{
    uint32_t index = byte(s);
    if (f->count > 0 && !f->frozen && ok(gantry_task_add_reference(f->places[index % f->count].task))) {
        f->places[index % f->count].holds++;
    }
}

static void freeze(struct fuzzed *f)
{
    /* references in a frozen graph come back in every run, so the program has none */
    for (uint32_t i = 0; i < f->count; i++) {
        for (; !f->running && f->places[i].holds > 0; f->places[i].holds--) {
            check(gantry_task_remove_reference(f->places[i].task) == GANTRY_OK, "our reference is there");
        }
    }
    f->frozen = ok(gantry_taskman_freeze(f->manager)) || f->frozen;
    f->was_frozen = f->was_frozen || f->frozen;
}

static void light(struct state *s, struct fuzzed *f)
{
    gantry_task *task;
    gantry_task *then = byte(s) % 2 == 0 ? task_of(s, f) : NULL;
    if (!f->running) {
        return; /* a task in a graph that never starts can let nobody go */
    }
    if (ok(gantry_taskman_create_light(f->manager, run_light, f, "light", then, &task))) {
        check(gantry_task_remove_reference(task) == GANTRY_OK, "the first reference is there");
    }
}

static void look(struct state *s, struct fuzzed *f)
{
    gantry_task *task = task_of(s, f);
    if (task != NULL) {
        check(gantry_task_get_state(task) <= GANTRY_TASK_STATE_AWAITED, "a state that there is");
        check(gantry_task_references(task) >= 0, "references");
        check(gantry_task_manager(task) == f->manager, "its manager");
        (void)gantry_task_result(task);
    }
    FILE *sink = fopen("/dev/null", "w");
    check(gantry_taskman_dump_graph(f->manager, sink) == GANTRY_OK, "dump");
    (void)fclose(sink);
}

static void operate_tasks(struct state *s, uint32_t operation)
{
    struct fuzzed *f = &s->managers[byte(s) % MANAGERS];
    gantry_task *a, *b;
    switch (operation) {
    case 0:
    case 1:
    case 2:
        submit(s, f);
        break;
    case 3:
    case 4:
        a = task_of(s, f);
        b = task_of(s, f);
        (void)ok(gantry_task_start_after(a, b));
        break;
    case 5:
        a = task_of(s, f);
        b = task_of(s, &s->managers[byte(s) % MANAGERS]);
        (void)ok(gantry_task_finish_before(a, b));
        break;
    case 6:
        add_reference(s, f);
        break;
    case 7:
        let_go(s);
        break;
    case 8:
        start(f);
        break;
    case 9:
        stop(s, f);
        break;
    case 10:
        reset(f);
        break;
    case 11:
        freeze(f);
        break;
    case 12:
        (void)ok(gantry_taskman_cancel(f->manager));
        break;
    case 13:
        light(s, f);
        break;
    case 14:
        look(s, f);
        break;
    default:
        let_go(s);
        (void)ok(gantry_taskman_wait(f->manager));
        break;
    }
}

/* ---- the rest -------------------------------------------------------------------------------- */

static void operate_heap(struct state *s)
{
    gantry_heap *heap = gantry_context_heap(s->context);
    uint32_t how = byte(s), index = byte(s) % BLOCKS;
    gantry_memory_kind kind = (gantry_memory_kind)(how / 8 % 5);
    void *untouched = s, *block = untouched;
    switch (how % 8) {
    case 0:
    case 1:
        if (s->blocks[index] == NULL) {
            if (ok(gantry_heap_alloc(heap, kind, (size_t)byte(s) << byte(s) % 16, (size_t)1 << byte(s) % 24,
                                     GANTRY_ALLOC_SITE("fuzz"), &block))) {
                s->blocks[index] = block;
            } else {
                check(block == untouched, "a refused allocation wrote its output");
            }
        }
        break;
    case 2:
    case 3:
        check(gantry_heap_free(heap, s->blocks[index]) == GANTRY_OK, "a block can be freed");
        s->blocks[index] = NULL;
        break;
    case 4:
        (void)ok(gantry_heap_resize(heap, s->blocks[index], (size_t)byte(s) << byte(s) % 16));
        break;
    case 5:
        (void)ok(gantry_heap_trim(heap, kind, (size_t)byte(s) << 16, NULL));
        break;
    case 6:
        (void)ok(gantry_heap_reserve(heap, kind, (size_t)byte(s) << 16));
        break;
    default:
        (void)ok(gantry_heap_device_address(heap, (void *)((uintptr_t)s->blocks[index] + byte(s)), &block));
        break;
    }
}

static void operate_device(struct state *s)
{
    static const char *const functions[] = {
        "cuLaunchKernel", "cuMemcpyHtoDAsync", "cuEventRecord",  "cuStreamWaitEvent",  "cuEventQuery",
        "cuGraphLaunch",  "cuMemCreate",       "cuStreamCreate", "cuStreamEndCapture", "cuEventSynchronize"};
    static const int results[] = {2, 700, 801, 1};
    gantry_dispatcher *dispatcher = gantry_context_dispatcher(s->context);
    gantry_profile_options options = GANTRY_PROFILE_OPTIONS_INIT;
    uint32_t how = byte(s);
    switch (how % 8) {
    case 0:
        (void)ok(gantry_dispatcher_set_submission(dispatcher, (gantry_submission)(how / 8 % 5)));
        break;
    case 1:
        gantry_dispatcher_start_group(dispatcher);
        s->groups++;
        break;
    case 2:
        gantry_dispatcher_set_concurrent_streams(dispatcher, how / 8 % 2 == 0);
        break;
    case 3:
        options.path = "/dev/null";
        options.spans_per_thread = 64;
        options.ctas_per_buffer = 64;
        if (s->profile == NULL && !ok(gantry_profile_start(&options, &s->profile))) {
            s->profile = NULL;
        }
        break;
    case 4:
        (void)ok(gantry_profile_stop(s->profile, NULL));
        s->profile = NULL;
        break;
    case 5:
        (void)(emu.fail)(functions[byte(s) % 10], 1 + byte(s) % 40, results[how / 8 % 4], GANTRY_EMU_ONCE);
        break;
    case 6:
        gy_fault_arm((long)byte(s));
        break;
    default:
        if (how / 8 % 8 == 0) {
            gantry_dispatcher_force_failure(dispatcher);
        }
        break;
    }
}

static void operate(struct state *s)
{
    for (int i = 0; i < MOST_OPERATIONS && s->left > 0; i++) {
        uint32_t operation = byte(s) % 20;
        if (operation < 16) {
            operate_tasks(s, operation);
        } else if (operation < 18) {
            operate_heap(s);
        } else {
            operate_device(s);
        }
    }
}

/* ---- from beginning to end ------------------------------------------------------------------- */

static void open_emulator(void)
{
    if (emu.live == NULL && !emu_controls_open(&emu)) {
        exit(77);
    }
}

static void open_state(struct state *s)
{
    gantry_context_options options = GANTRY_CONTEXT_OPTIONS_INIT;
    gantry_cpu_dispatcher_options cpus = GANTRY_CPU_DISPATCHER_OPTIONS_INIT;
    gantry_taskman_options manager = GANTRY_TASKMAN_OPTIONS_INIT;
    gantry_module *module;
    void *words = NULL, *host = NULL;
    uint32_t how = byte(s);
    options.driver = GANTRY_DRIVER_EMULATED;
    options.mode = GANTRY_CONTEXT_OWN;
    options.submission = (gantry_submission)(how % 4);
    options.wfi = (gantry_wfi_mode)(how / 4 % 2);
    options.synchronous = how / 8 % 4 == 0;
    options.completion_wait = GANTRY_WAIT_BLOCK;
    cpus.worker_count = 1;
    cpus.wait_mode = GANTRY_WAIT_BLOCK;
    check(gantry_context_create(&options, &s->context) == GANTRY_OK, "context");
    check(gantry_cpu_dispatcher_create(&cpus, &s->cpus) == GANTRY_OK, "workers");
    check(gantry_module_load(s->context, &gantry_image_campaign_kernels, &module) == GANTRY_OK, "module");
    check(gantry_module_get_kernel(module, "add_one", &s->kernel) == GANTRY_OK, "kernel");
    gantry_heap *heap = gantry_context_heap(s->context);
    check(gantry_heap_alloc(heap, GANTRY_MEMORY_DEVICE, MANAGERS * TASKS * WORDS * 4, 0,
                            GANTRY_ALLOC_SITE("fuzz"), &words) == GANTRY_OK &&
              gantry_heap_alloc(heap, GANTRY_MEMORY_PINNED, WORDS * 4, 0, GANTRY_ALLOC_SITE("fuzz"), &host) ==
                  GANTRY_OK,
          "memory");
    s->words = words;
    s->host = host;
    memset(host, 0, WORDS * 4);
    for (int m = 0; m < MANAGERS; m++) {
        struct fuzzed *f = &s->managers[m];
        manager.cpu_dispatcher = m == 1 ? NULL : s->cpus;
        manager.gpu_dispatcher = m == 2 ? NULL : gantry_context_dispatcher(s->context);
        check(gantry_taskman_create(&manager, &f->manager) == GANTRY_OK, "manager");
        f->state = s;
        for (int i = 0; i < TASKS; i++) {
            f->places[i].manager = f;
            f->places[i].words = s->words + (m * TASKS + i) * WORDS;
        }
    }
}

static void close_state(struct state *s)
{
    gy_fault_arm(-1);
    let_go(s);
    for (int m = 0; m < MANAGERS; m++) {
        struct fuzzed *f = &s->managers[m];
        if (f->running) {
            stop(s, f);
        }
        reset(f);
        gantry_taskman_destroy(f->manager);
    }
    (void)gantry_profile_stop(s->profile, NULL);
    gantry_cpu_dispatcher_destroy(s->cpus);
    gantry_context_destroy(s->context); /* destroyed with blocks left */
    emu.reset();
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    static struct state state;
    open_emulator();
    emu.reset();
    long live = gy_alloc_live();
    memset(&state, 0, sizeof(state));
    state.at = data;
    state.left = size;
    open_state(&state);
    operate(&state);
    close_state(&state);
    check(gy_alloc_live() == live, "no host memory is left");
    for (int kind = 0; kind < GANTRY_EMU_LIVE_KINDS; kind++) {
        check(emu.live(kind) == 0, "no object of the driver is left");
    }
    return 0;
}
