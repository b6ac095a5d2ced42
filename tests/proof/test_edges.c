/* SPDX-License-Identifier: MIT */
/* GANTRY_CHECK=edges on graphs of copies, fills and batches: an edge that is left out is found, and a graph
 * that has all its edges is silent. */
#include "tests/support/cmocka_c11.h"
#include "tests/support/gpu_fixture.h"
#include "tests/support/log_lines.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { WORDS = 1024, BYTES = WORDS * 4, FRAMES = 5, BUFFERS = 2, STAGES = 3 };
static const char MISSING[] = "no edge leads from task ";

/* Labels that no other test has, since a pair of them is told once. */
static const char *label(const char *name)
{
    static char labels[400][24];
    static int count;
    assert_true(count < 400);
    snprintf(labels[count], sizeof(labels[0]), "%s-%d", name, count);
    return labels[count++];
}

/* The memory that a task touches. */
struct place {
    void *to;
    const void *from; /* NULL: it is filled */
    enum { PLAIN, BATCH, BOX } way;
};

static gantry_launch_result move(gantry_launch *launch, void *arg)
{
    const struct place *place = arg;
    gantry_status status = GANTRY_OK;
    if (place->way == BATCH) {
        const gantry_copy_desc descs[] = {
            {.dest = place->to, .source = place->from, .bytes = BYTES / 2, .type = GANTRY_COPY_DTOD},
            {.dest = (char *)place->to + BYTES / 2,
             .bytes = BYTES / 2,
             .type = GANTRY_COPY_FILL,
             .pattern_bytes = 4}};
        status = gantry_copy_launch(launch, descs, 2);
    } else if (place->way == BOX) {
        gantry_copy_box box = GANTRY_COPY_BOX_INIT;
        box.dest = place->to;
        box.source = place->from;
        box.width = 16;
        box.rows = 4;
        box.dest_pitch = box.source_pitch = 64;
        status = gantry_copy_launch_box(launch, &box, NULL);
    } else if (place->from == NULL) {
        status = gantry_launch_fill(launch, place->to, 0, 4, WORDS);
    } else {
        status = gantry_launch_copy_dtod(launch, place->to, place->from, BYTES);
    }
    return status == GANTRY_OK ? GANTRY_LAUNCH_DONE : GANTRY_LAUNCH_FAILED;
}

static void *device_block(struct gpu_fixture *f)
{
    void *block;
    assert_int_equal(gantry_heap_alloc(gantry_context_heap(f->context), GANTRY_MEMORY_DEVICE, BYTES, 0,
                                       GANTRY_ALLOC_SITE("frame"), &block),
                     GANTRY_OK);
    return block;
}

static void give_back(struct gpu_fixture *f, void *block)
{
    assert_int_equal(gantry_heap_free(gantry_context_heap(f->context), block), GANTRY_OK);
}

static gantry_task *task_of(struct gpu_fixture *f, const char *name, struct place *place)
{
    return gpu_fixture_gpu(f, GANTRY_TASK_KERNEL, name, move, place);
}

/* A double buffer: in, work (in place) and out, of each frame; a frame has its buffer when the frame before
 * is out. `without`: the kind of edge that is left out; -1: none.  Returns the lines. */
static uint32_t run_pipeline(struct gpu_fixture *f, int without, bool is_built_anew)
{
    void *in = device_block(f), *out[FRAMES], *buffers[BUFFERS];
    struct place places[FRAMES][STAGES];
    gantry_task *tasks[FRAMES][STAGES];
    const char *names[STAGES];
    for (int i = 0; i < STAGES; i++) {
        names[i] = label("stage");
    }
    for (int i = 0; i < BUFFERS; i++) {
        buffers[i] = device_block(f);
    }
    struct log_lines lines;
    log_lines_begin(&lines, MISSING);
    for (int i = 0; i < FRAMES; i++) {
        void *buffer = buffers[i % BUFFERS];
        out[i] = device_block(f);
        places[i][0] = (struct place){buffer, in, PLAIN};
        places[i][1] = (struct place){buffer, NULL, PLAIN};
        places[i][2] = (struct place){out[i], buffer, PLAIN};
        for (int stage = 0; stage < STAGES; stage++) {
            tasks[i][stage] = task_of(f, names[stage], &places[i][stage]);
            if (stage > 0 && without != stage) {
                gpu_fixture_after(tasks[i][stage], tasks[i][stage - 1]);
            }
        }
        if (i >= BUFFERS && without != 0) {
            gpu_fixture_after(tasks[i][0], tasks[i - BUFFERS][2]);
        }
    }
    if (is_built_anew) {
        assert_int_equal(gpu_fixture_step(f), GANTRY_OK);
    } else {
        assert_int_equal(gantry_taskman_freeze(f->manager), GANTRY_OK);
        assert_int_equal(gantry_taskman_run(f->manager, 3),
                         GANTRY_OK); /* each step comes after the one before */
        assert_int_equal(gantry_taskman_reset(f->manager), GANTRY_OK);
    }
    const uint32_t found = log_lines_end(&lines);
    for (int i = 0; i < FRAMES; i++) {
        give_back(f, out[i]);
    }
    for (int i = 0; i < BUFFERS; i++) {
        give_back(f, buffers[i]);
    }
    give_back(f, in);
    return found;
}

static gantry_status choose_none(gantry_task *task, void *arg)
{
    (void)task;
    (void)arg;
    return GANTRY_OK;
}

/* A task that comes after one that runs, and after one that is never chosen, so it does not begin.  What it
 * would have come after is forgotten at the reset: the task that gets its memory comes after nothing. */
static void test_tasks_that_never_began(void **state)
{
    struct gpu_fixture own = *(struct gpu_fixture *)*state;
    gantry_taskman_options options = {
        sizeof(options), .gpu_dispatcher = gantry_context_dispatcher(own.context), .independent_steps = 1};
    assert_int_equal(gantry_taskman_create(&options, &own.manager), GANTRY_OK);
    struct place place = {device_block(&own), NULL, PLAIN};
    gantry_task_desc condition = GANTRY_TASK_DESC_INIT;
    condition.label = "decide";
    condition.run = choose_none;
    condition.is_condition = true;
    uintptr_t before = 0;
    struct log_lines lines;
    log_lines_begin(&lines, MISSING);
    for (int step = 0; step < 2; step++) {
        gantry_task *behind = task_of(&own, label("behind"), step == 1 ? &place : NULL);
        assert_true(step == 0 ||
                    (uintptr_t)behind == before); /* it has the memory of the one that never began */
        before = (uintptr_t)behind;
        if (step == 0) {
            gantry_task *decide, *idle = gpu_fixture_cpu(&own, "idle", NULL, NULL);
            assert_int_equal(gantry_taskman_submit(own.manager, &condition, &decide), GANTRY_OK);
            gpu_fixture_after(idle, decide);
            gpu_fixture_after(behind, idle);
            gpu_fixture_after(behind, task_of(&own, label("runs"), &place));
            assert_int_equal(gantry_taskman_freeze(own.manager), GANTRY_OK);
        }
        assert_int_equal(gpu_fixture_step(&own), GANTRY_OK);
    }
    assert_int_equal(log_lines_end(&lines), 1);
    gantry_taskman_destroy(own.manager);
    give_back(&own, place.to);
}

static int open_with(void **state, const char *checks)
{
    static struct gpu_fixture fixture;
    setenv("GANTRY_CHECK", checks, 1);
    gpu_fixture_open(&fixture, 2, 0);
    *state = &fixture;
    return 0;
}

static int setup(void **state)
{
    return open_with(state, "edges");
}

static int setup_with_all(void **state)
{
    return open_with(state, "1,edges");
}

static int teardown(void **state)
{
    gpu_fixture_close(*state);
    return 0;
}

static void test_pipelines(void **state)
{
    for (int anew = 0; anew < 2; anew++) {
        assert_int_equal(run_pipeline(*state, -1, anew), 0);
        for (int without = 0; without < STAGES; without++) {
            assert_true(run_pipeline(*state, without, anew) > 0);
        }
    }
}

/* Two tasks side by side; returns the lines.  They conflict unless `is_ordered`. */
static uint32_t run_two(struct gpu_fixture *f, const struct place *one, const struct place *other,
                        bool is_ordered)
{
    struct place places[2] = {*one, *other};
    struct log_lines lines;
    log_lines_begin(&lines, MISSING);
    gantry_task *first = task_of(f, label("first"), &places[0]);
    gantry_task *second = task_of(f, label("second"), &places[1]);
    if (is_ordered) { /* through something that is not of the GPU */
        gantry_task *between = gpu_fixture_cpu(f, "between", NULL, NULL);
        gpu_fixture_after(between, first);
        gpu_fixture_after(second, between);
    }
    assert_int_equal(gpu_fixture_step(f), GANTRY_OK);
    return log_lines_end(&lines);
}

static void test_batches_and_boxes(void **state)
{
    struct gpu_fixture *f = *state;
    char *a = device_block(f), *b = device_block(f), *c = device_block(f);
    const struct place batch = {a, b, BATCH}, box = {a, b, BOX}, fill_a = {a, NULL, PLAIN},
                       fill_b = {b, NULL, PLAIN};
    const struct place aside = {a + 16, b + 16, BOX};
    assert_int_equal(run_two(f, &batch, &fill_a, false), 1); /* both write */
    assert_int_equal(run_two(f, &batch, &fill_b, false), 1); /* the one reads what the other writes */
    assert_int_equal(run_two(f, &box, &fill_a, false), 1);
    assert_int_equal(run_two(f, &fill_b, &box, false), 1);
    assert_int_equal(run_two(f, &box, &aside, false), 0); /* between the rows */
    assert_int_equal(run_two(f, &batch, &fill_a, true), 0);
    assert_int_equal(run_two(f, &box, &fill_b, true), 0);
    give_back(f, a);
    give_back(f, b);
    give_back(f, c);
}

/* Steps of a manager that wants no order between them. */
static void test_independent_steps(void **state)
{
    struct gpu_fixture *f = *state;
    gantry_taskman_options options = {
        sizeof(options), .gpu_dispatcher = gantry_context_dispatcher(f->context), .independent_steps = 1};
    gantry_taskman *manager;
    assert_int_equal(gantry_taskman_create(&options, &manager), GANTRY_OK);
    struct gpu_fixture own = *f;
    own.manager = manager;
    struct place place = {device_block(f), NULL, PLAIN};
    const char *name = label("again");
    struct log_lines lines;
    log_lines_begin(&lines, MISSING);
    for (int step = 0; step < 2; step++) {
        (void)task_of(&own, name, &place);
        assert_int_equal(gpu_fixture_step(&own), GANTRY_OK);
    }
    assert_int_equal(log_lines_end(&lines), 1);
    log_lines_begin(&lines, MISSING); /* who waits in between has ordered them */
    assert_int_equal(gantry_context_synchronize(f->context), GANTRY_OK);
    (void)task_of(&own, label("behind"), &place);
    assert_int_equal(gpu_fixture_step(&own), GANTRY_OK);
    assert_int_equal(log_lines_end(&lines), 0);
    gantry_taskman_destroy(manager);
    give_back(f, place.to);
}

/* A block that was given back and out again is another's. */
static void test_memory_is_handed_over(void **state)
{
    struct gpu_fixture *f = *state;
    struct place places[2];
    struct log_lines lines;
    log_lines_begin(&lines, MISSING);
    gantry_taskman *managers[2] = {f->manager, NULL};
    gantry_taskman_options options = {sizeof(options),
                                      .gpu_dispatcher = gantry_context_dispatcher(f->context)};
    assert_int_equal(gantry_taskman_create(&options, &managers[1]), GANTRY_OK);
    void *before = NULL;
    for (int i = 0; i < 2; i++) { /* nothing orders the two managers */
        struct gpu_fixture own = *f;
        own.manager = managers[i];
        places[i] = (struct place){device_block(f), NULL, PLAIN};
        assert_true(before == NULL || before == places[i].to); /* it is the same memory */
        (void)task_of(&own, label("owner"), &places[i]);
        assert_int_equal(gpu_fixture_step(&own), GANTRY_OK);
        before = places[i].to;
        give_back(f, before);
    }
    assert_int_equal(log_lines_end(&lines), 0);
    gantry_taskman_destroy(managers[1]);
}

/* A block that the callback takes itself, and what is in it. */
static gantry_launch_result take_and_fill(gantry_launch *launch, void *arg)
{
    void **block = arg;
    gantry_status status =
        gantry_launch_alloc(launch, GANTRY_MEMORY_DEVICE, BYTES, 0, GANTRY_ALLOC_SITE("taken"), block);
    status = status == GANTRY_OK ? gantry_launch_fill(launch, *block, 0, 4, WORDS) : status;
    return status == GANTRY_OK ? GANTRY_LAUNCH_DONE : GANTRY_LAUNCH_FAILED;
}

/* With every check the heap reads what freed blocks hold, and writes behind new ones: that is nobody's. */
static void test_what_checks_touch_is_nobodys(void **state)
{
    struct gpu_fixture *f = *state;
    struct log_lines lines;
    log_lines_begin(&lines, MISSING);
    gantry_taskman_options options = {
        sizeof(options), .gpu_dispatcher = gantry_context_dispatcher(f->context), .independent_steps = 1};
    gantry_taskman *manager;
    assert_int_equal(gantry_taskman_create(&options, &manager), GANTRY_OK);
    enum { LEAST = 8, MOST = 2000 };
    const char *name = label("taker");
    void *block = NULL, *taken[MOST];
    int again = 0; /* a block comes back when the GPU was seen to have passed it */
    for (int i = 0; i < LEAST || (again == 0 && i < MOST); i++) {
        struct gpu_fixture own = *f;
        own.manager = i % 2 == 0 ? f->manager : manager;
        (void)gpu_fixture_gpu(&own, GANTRY_TASK_KERNEL, name, take_and_fill, &block);
        assert_int_equal(gpu_fixture_step(&own), GANTRY_OK);
        for (int j = 0; j < i; j++) {
            again += taken[j] == block;
        }
        taken[i] = block;
        give_back(f, block);
    }
    assert_true(again > 0);
    assert_int_equal(log_lines_end(&lines), 0);
    gantry_taskman_destroy(manager);
}

static gantry_launch_result upload_pageable(gantry_launch *launch, void *arg)
{
    static uint32_t pageable;
    return gantry_launch_copy_htod(launch, arg, &pageable, sizeof(pageable)) == GANTRY_OK
               ? GANTRY_LAUNCH_DONE
               : GANTRY_LAUNCH_FAILED;
}

/* Memory that no edge is looked for in is told, once for each label. */
static void test_pageable_memory_is_told(void **state)
{
    struct gpu_fixture *f = *state;
    void *block = device_block(f);
    const char *name = label("upload");
    struct log_lines lines;
    log_lines_begin(&lines, "gantry_launch_copy_htod of 4 bytes at ");
    for (int i = 0; i < 2; i++) {
        gpu_fixture_after(gpu_fixture_gpu(f, GANTRY_TASK_HTOD, name, upload_pageable, block),
                          gpu_fixture_gpu(f, GANTRY_TASK_HTOD, name, upload_pageable, block));
        assert_int_equal(gpu_fixture_step(f), GANTRY_OK);
    }
    assert_int_equal(log_lines_end(&lines), 1);
    give_back(f, block);
}

/* Steps that are parts of a frozen graph come after those before. */
static void test_parts(void **state)
{
    struct gpu_fixture *f = *state;
    struct place place = {device_block(f), NULL, PLAIN};
    struct log_lines lines;
    log_lines_begin(&lines, MISSING);
    gantry_task *task = task_of(f, label("part"), &place);
    assert_int_equal(gantry_taskman_freeze(f->manager), GANTRY_OK);
    for (int step = 0; step < 3; step++) {
        assert_int_equal(gantry_taskman_start_from(f->manager, &task, 1), GANTRY_OK);
        assert_int_equal(gantry_taskman_stop(f->manager), GANTRY_OK);
    }
    assert_int_equal(gantry_taskman_reset(f->manager), GANTRY_OK);
    assert_int_equal(log_lines_end(&lines), 0);
    give_back(f, place.to);
}

/* Two tasks that are made while their graph runs need an edge, as all others do. */
static void test_late_tasks(void **state)
{
    struct gpu_fixture *f = *state;
    for (int missing = 0; missing < 2; missing++) {
        struct place place = {device_block(f), NULL, PLAIN};
        struct log_lines lines;
        log_lines_begin(&lines, MISSING);
        assert_int_equal(gantry_taskman_start(f->manager), GANTRY_OK);
        gantry_task *first = task_of(f, label("late"), &place), *second = task_of(f, label("late"), &place);
        if (missing == 0) {
            gpu_fixture_after(second, first);
        }
        assert_int_equal(gantry_task_remove_reference(first), GANTRY_OK);
        assert_int_equal(gantry_task_remove_reference(second), GANTRY_OK);
        assert_int_equal(gpu_fixture_stop(f), GANTRY_OK);
        assert_int_equal(log_lines_end(&lines), missing);
        give_back(f, place.to);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup_teardown(test_pipelines, setup, teardown),
        cmocka_unit_test_setup_teardown(test_batches_and_boxes, setup, teardown),
        cmocka_unit_test_setup_teardown(test_independent_steps, setup, teardown),
        cmocka_unit_test_setup_teardown(test_memory_is_handed_over, setup, teardown),
        cmocka_unit_test_setup_teardown(test_pageable_memory_is_told, setup, teardown),
        cmocka_unit_test_setup_teardown(test_parts, setup, teardown),
        cmocka_unit_test_setup_teardown(test_late_tasks, setup, teardown),
        cmocka_unit_test_setup_teardown(test_what_checks_touch_is_nobodys, setup_with_all, teardown),
        cmocka_unit_test_setup_teardown(test_tasks_that_never_began, setup, teardown),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
