/* SPDX-License-Identifier: MIT */
/* Random steps over two devices, some tasks in partitions, whose order is from data alone: they give what a
 * sequential program gives, built, frozen or made while the step runs, while one device after the other
 * stops.
 *
 * `--programs N` of each kind from `--seed S` on. */
#include "tests/partition/replan_scene.h"
#include "tests/support/cmocka_c11.h"
#include "tests/support/gpu_fixture.h"

#include <pthread.h>
#include <stdatomic.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

enum { DEVICES = 2, HOST = DEVICES, MEMORIES, WORDS = 256, GRAIN = 8, MOST_WORDS = 24 };
enum { TASKS = 30, STEPS = 5, RUNS = 2 };
enum form { BUILT, FROZEN, LATE };

struct scene;

/* Words of one memory become those of another one and `value`: a copy adds nothing.  Of two equal memories:
 * on the host a body, else a fill. */
struct task {
    struct scene *scene;
    uint32_t from_memory, to_memory, from, to, count, value;
    uint32_t partition; /* 0: none */
};

struct scene {
    gantry_fleet *fleet;
    gantry_cpu_dispatcher *cpus;
    gantry_taskman *manager;
    gantry_partition *partitions[DEVICES][2];
    uint32_t *memory[MEMORIES], is[MEMORIES][WORDS]; /* what a sequential program has by now */
    uint64_t random;
    struct task tasks[TASKS];
    uint32_t late_from;
};

static uint32_t programs_wanted = 6, seed_wanted = 1;

static uint32_t draw(struct scene *s, uint32_t below)
{
    s->random = s->random * UINT64_C(6364136223846793005) + UINT64_C(1442695040888963407);
    return (uint32_t)(s->random >> 33) % below;
}

/* ---- tasks --------------------------------------------------------------------------------------- */

static bool is_body(const struct task *t)
{
    return t->from_memory == HOST && t->to_memory == HOST;
}

static bool is_fill(const struct task *t)
{
    return t->from_memory == t->to_memory && t->to_memory != HOST;
}

static uint32_t device_of(const struct task *t)
{
    return t->from_memory != HOST ? t->from_memory : t->to_memory;
}

static gantry_launch_result launch(gantry_launch *call, void *arg)
{
    const struct task *t = arg;
    const struct scene *s = t->scene;
    const uint32_t *from = s->memory[t->from_memory] + t->from;
    uint32_t *to = s->memory[t->to_memory] + t->to;
    const size_t bytes = t->count * sizeof(uint32_t);
    if (gantry_launch_context(call) != gantry_fleet_context(s->fleet, device_of(t))) {
        return gantry_launch_fail(call, GANTRY_ERR_FOREIGN_HANDLE);
    }
    const gantry_status status = is_fill(t) ? gantry_launch_fill(call, to, t->value, 4, t->count)
                                 : t->from_memory == HOST ? gantry_launch_copy_htod(call, to, from, bytes)
                                 : t->to_memory == HOST   ? gantry_launch_copy_dtoh(call, to, from, bytes)
                                                          : gantry_launch_copy_dtod(call, to, from, bytes);
    return status == GANTRY_OK ? GANTRY_LAUNCH_DONE : GANTRY_LAUNCH_FAILED;
}

/* On the memory of the tasks, or on the sequential program's. */
static void carry_out(const struct task *t, uint32_t *to, const uint32_t *from)
{
    for (uint32_t i = 0; i < t->count; i++) {
        to[t->to + i] = is_fill(t) ? t->value : from[t->from + i] + (is_body(t) ? t->value : 0);
    }
}

static gantry_status run(gantry_task *task, void *arg)
{
    const struct task *t = arg;
    (void)task;
    carry_out(t, t->scene->memory[HOST], t->scene->memory[HOST]);
    return GANTRY_OK;
}

static void draw_task(struct scene *s, struct task *t)
{
    *t = (struct task){.scene = s, .from_memory = draw(s, MEMORIES), .to_memory = draw(s, MEMORIES)};
    t->count = 1 + draw(s, MOST_WORDS);
    t->from = draw(s, (WORDS / 2 - MOST_WORDS) / GRAIN) * GRAIN;
    t->to = WORDS / 2 + draw(s, (WORDS / 2 - MOST_WORDS) / GRAIN) * GRAIN;
    if (draw(s, 2) == 0) {
        const uint32_t from = t->from;
        t->from = t->to;
        t->to = from;
    }
    t->partition = draw(s, 3);
}

static void submit(struct task *t, bool is_late)
{
    struct scene *s = t->scene;
    const size_t bytes = t->count * sizeof(uint32_t);
    const gantry_access accesses[] = {GANTRY_WRITES(s->memory[t->to_memory] + t->to, bytes),
                                      GANTRY_READS(s->memory[t->from_memory] + t->from, bytes)};
    const uint32_t device = device_of(t);
    gantry_task_desc desc = GANTRY_TASK_DESC_INIT;
    gantry_task *task;
    desc.arg = t;
    desc.accesses = accesses;
    desc.calls_say_accesses = !is_body(t) && t->count % 3 == 0;
    desc.access_count = desc.calls_say_accesses ? 0 : is_fill(t) ? 1 : 2;
    desc.run = run;
    if (!is_body(t)) {
        desc.kind = t->from_memory == HOST ? GANTRY_TASK_HTOD
                    : t->to_memory == HOST ? GANTRY_TASK_DTOH
                                           : GANTRY_TASK_KERNEL;
        desc.run = NULL;
        desc.launch = launch;
        desc.context = gantry_fleet_context(s->fleet, device);
        desc.partition = t->partition != 0 ? s->partitions[device][t->partition - 1] : NULL;
    }
    assert_ok(gantry_taskman_submit(s->manager, &desc, &task));
    if (is_late) {
        assert_ok(gantry_task_remove_reference(task));
    }
}

static gantry_status make_late_tasks(gantry_task *task, void *arg)
{
    struct scene *s = arg;
    (void)task;
    for (uint32_t i = s->late_from; i < TASKS; i++) {
        if (i % 4 == 0) {
            usleep(i * 10);
        }
        submit(&s->tasks[i], true);
    }
    return GANTRY_OK;
}

/* ---- programs ------------------------------------------------------------------------------------ */

static void *stop_and_go(void *arg)
{
    void (*hold)(void), (*go)(void);
    *(void **)&hold = gpu_fixture_emulator("gantry_emu_hold");
    *(void **)&go = gpu_fixture_emulator("gantry_emu_release");
    while (hold != NULL && go != NULL && !atomic_load((atomic_bool *)arg)) { /* NULL: a real device */
        hold();
        usleep(200);
        go();
        usleep(20);
    }
    return NULL;
}

static void run_program(struct scene *s, enum form form)
{
    for (uint32_t step = 0; step < STEPS; step++) {
        s->late_from = form == LATE ? draw(s, TASKS) : TASKS;
        if (form == LATE) {
            const gantry_task_desc maker = {sizeof(maker), .run = make_late_tasks, .arg = s};
            assert_ok(gantry_taskman_submit(s->manager, &maker, NULL));
        }
        for (uint32_t i = 0; i < TASKS; i++) {
            draw_task(s, &s->tasks[i]);
        }
        for (uint32_t i = 0; i < s->late_from; i++) {
            submit(&s->tasks[i], false);
        }
        if (form == FROZEN) {
            assert_ok(gantry_taskman_freeze(s->manager));
        }
        for (uint32_t runs = 0; runs < (form == FROZEN ? RUNS : 1); runs++) {
            for (uint32_t i = 0; i < TASKS; i++) {
                struct task *t = &s->tasks[i];
                t->value = draw(s, 1000);
                carry_out(t, s->is[t->to_memory], s->is[t->from_memory]);
            }
            assert_ok(gantry_taskman_start(s->manager));
            assert_ok(gantry_taskman_stop(s->manager));
        }
        assert_ok(gantry_taskman_reset(s->manager));
    }
}

/* The memories of the devices come to the host by tasks, too. */
static void check_memory(struct scene *s, uint32_t seed)
{
    for (uint32_t m = MEMORIES; m-- > 0;) {
        if (m != HOST) {
            s->tasks[0] = (struct task){s, m, HOST, 0, 0, WORDS, 0, 0};
            submit(&s->tasks[0], false);
            assert_ok(gantry_taskman_start(s->manager));
            assert_ok(gantry_taskman_stop(s->manager));
            assert_ok(gantry_taskman_reset(s->manager));
        }
        for (uint32_t d = 0; d < DEVICES; d++) {
            assert_ok(gantry_context_synchronize(gantry_fleet_context(s->fleet, d)));
        }
        if (memcmp(s->memory[HOST], s->is[m], sizeof(s->is[m])) != 0) {
            fail_msg("memory %u is not what it is to be; again: --seed %u --programs 1", m, seed);
        }
    }
    memcpy(s->is[HOST], s->memory[HOST], sizeof(s->is[HOST]));
}

static void open_scene(struct scene *s, gantry_submission submission)
{
    struct replan_plan plan;
    gantry_context_options context = GANTRY_CONTEXT_OPTIONS_INIT;
    gantry_fleet_options options = GANTRY_FLEET_OPTIONS_INIT;
    gantry_taskman_options manager = GANTRY_TASKMAN_OPTIONS_INIT;
    gantry_cpu_dispatcher_options cpus = GANTRY_CPU_DISPATCHER_OPTIONS_INIT;
    void *block;
    context.driver = gpu_fixture_driver();
    context.submission = submission;
    context.partitions = replan_plan(&plan, "a16 b8 *rest");
    options.devices = "0,1";
    options.context = &context;
    cpus.worker_count = 2;
    assert_ok(gantry_fleet_create(&options, &s->fleet));
    assert_ok(gantry_cpu_dispatcher_create(&cpus, &s->cpus));
    manager.fleet = s->fleet;
    manager.cpu_dispatcher = s->cpus;
    assert_ok(gantry_taskman_create(&manager, &s->manager));
    for (uint32_t m = 0; m < MEMORIES; m++) {
        gantry_heap *heap = gantry_context_heap(gantry_fleet_context(s->fleet, m % DEVICES));
        assert_ok(gantry_heap_alloc(heap, m == HOST ? GANTRY_MEMORY_PINNED : GANTRY_MEMORY_DEVICE,
                                    sizeof(s->is[m]), 0, GANTRY_ALLOC_SITE("words"), &block));
        s->memory[m] = block;
    }
    memset(s->memory[HOST], 0, sizeof(s->is[HOST]));
    for (uint32_t d = 0; d < DEVICES; d++) {
        gpu_fixture_upload(gantry_fleet_context(s->fleet, d), s->memory[d], s->is[d], sizeof(s->is[d]));
        for (uint32_t p = 0; p < 2; p++) {
            assert_ok(gantry_partition_find(gantry_fleet_context(s->fleet, d), p == 0 ? "a" : "b",
                                            &s->partitions[d][p]));
        }
    }
}

static void close_scene(struct scene *s)
{
    gantry_taskman_destroy(s->manager);
    gantry_cpu_dispatcher_destroy(s->cpus);
    for (uint32_t m = 0; m < MEMORIES; m++) {
        gantry_heap *heap = gantry_context_heap(gantry_fleet_context(s->fleet, m % DEVICES));
        assert_ok(gantry_heap_free(heap, s->memory[m]));
    }
    gantry_fleet_destroy(s->fleet);
    free(s);
}

static void run_programs(gantry_submission submission, enum form form)
{
    struct scene *s = calloc(1, sizeof(*s));
    atomic_bool is_over = false;
    pthread_t thread;
    assert_non_null(s);
    open_scene(s, submission);
    assert_int_equal(pthread_create(&thread, NULL, stop_and_go, &is_over), 0);
    for (uint32_t seed = seed_wanted; seed < seed_wanted + programs_wanted; seed++) {
        s->random = seed * UINT64_C(7919) + (uint64_t)form;
        run_program(s, form);
        check_memory(s, seed);
    }
    atomic_store(&is_over, true);
    assert_int_equal(pthread_join(thread, NULL), 0);
    close_scene(s);
}

static void test_steps(void **state)
{
    (void)state;
    run_programs(GANTRY_SUBMISSION_STREAMS, BUILT);
    run_programs(GANTRY_SUBMISSION_GRAPHS, BUILT);
}

static void test_frozen_graphs(void **state)
{
    (void)state;
    run_programs(GANTRY_SUBMISSION_STREAMS, FROZEN);
    run_programs(GANTRY_SUBMISSION_GRAPHS, FROZEN);
}

static void test_late_tasks(void **state)
{
    (void)state;
    run_programs(GANTRY_SUBMISSION_STREAMS, LATE);
    run_programs(GANTRY_SUBMISSION_GRAPHS, LATE);
}

/* Of each device's heap. */
static void test_memory_that_was_freed(void **state)
{
    struct scene *s = calloc(1, sizeof(*s));
    gantry_task *task;
    (void)state;
    assert_non_null(s);
    open_scene(s, GANTRY_SUBMISSION_STREAMS);
    for (uint32_t m = 0; m < DEVICES; m++) {
        gantry_heap *heap = gantry_context_heap(gantry_fleet_context(s->fleet, m));
        gantry_access access = GANTRY_READS(s->memory[m], 4);
        gantry_task_desc desc = GANTRY_TASK_DESC_INIT;
        desc.kind = GANTRY_TASK_SYNC_POINT;
        desc.accesses = &access;
        desc.access_count = 1;
        assert_ok(gantry_taskman_submit(s->manager, &desc, &task));
        assert_ok(gantry_taskman_reset(s->manager));
        void *block;
        assert_ok(gantry_heap_alloc(heap, GANTRY_MEMORY_DEVICE, 64, 0, GANTRY_ALLOC_SITE("freed"), &block));
        access.at = block;
        assert_ok(gantry_heap_free(heap, block));
        assert_int_equal(gantry_taskman_submit(s->manager, &desc, &task), GANTRY_ERR_INVALID_ARGUMENT);
    }
    close_scene(s);
}

int main(int argc, char **argv)
{
    for (int i = 1; i + 1 < argc; i += 2) {
        const uint32_t value = (uint32_t)strtoul(argv[i + 1], NULL, 10);
        programs_wanted = strcmp(argv[i], "--programs") == 0 ? value : programs_wanted;
        seed_wanted = strcmp(argv[i], "--seed") == 0 ? value : seed_wanted;
    }
    setenv("GANTRY_EMU_DEVICES", "2", 1);
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_steps),
        cmocka_unit_test(test_frozen_graphs),
        cmocka_unit_test(test_late_tasks),
        cmocka_unit_test(test_memory_that_was_freed),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
