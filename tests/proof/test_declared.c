/* SPDX-License-Identifier: MIT */
/* What tasks have declared (gantry_task_access()) is proven: kernels, copies, fills and bodies that go beyond
 * it are told once, and those that keep to it are not; so is memory that is freed before the end.
 *
 * Usage: test_proof_declared [PROGRAMS [SEED]] */
#include "tests/support/cmocka_c11.h"
#include "tests/support/gpu_fixture.h"

#include "pipeline_kernels.kernels.h"

#include <pthread.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

enum { BYTES = 2048, WORDS = BYTES / 4, BLOCKS = 4, PINNED = 2, TASKS = 7, LINES = 64, THREADS = 64 };
static const char UNDECLARED[] = ", which it has ", FREED[] = " is freed before the end of task ";

static struct gpu_fixture f;
static gantry_module *module;
static gantry_kernel *scale, *sum, *stamp;
static uint8_t *blocks[BLOCKS]; /* the first ones are page-locked */
static char lines[LINES][1500];
static _Atomic(uint32_t) line_count;
static uint32_t programs = 250, seed = 1;

static void hear(void *user, gantry_log_level level, const char *line)
{
    (void)user;
    (void)level;
    if (strstr(line, UNDECLARED) != NULL || strstr(line, FREED) != NULL) {
        const uint32_t at = atomic_fetch_add(&line_count, 1);
        snprintf(lines[at % LINES], sizeof(lines[0]), "%s", line);
    }
}

static void must_say(const char *text)
{
    for (uint32_t i = 0; i < atomic_load(&line_count); i++) {
        if (strstr(lines[i], text) != NULL) {
            return;
        }
    }
    fail_msg("no line has \"%s\"; the first of %u is: %s", text, atomic_load(&line_count), lines[0]);
}

/* So many lines so far. */
static void must_be(uint32_t count)
{
    if (atomic_load(&line_count) != count) {
        fail_msg("%u lines, not %u; the last one is: %s", atomic_load(&line_count), count,
                 lines[atomic_load(&line_count) - 1]);
    }
}

/* Lines of the source are told where it is there. */
static bool has_addr2line(void)
{
    return system("command -v addr2line > /dev/null") == 0;
}

/* ---- tasks ------------------------------------------------------------------------------------- */

enum what { FILL, COPY, UP, DOWN, BATCH, BOX, SCALE, STAMP, SUM, BODY, WHATS };

/* What a task does, byte by byte: `bytes` of each row, from `from` to `to`. */
struct work {
    enum what what;
    uint8_t *to, *from;
    size_t bytes, rows, pitch;
    char label[24];
};

static gantry_status run_body(gantry_task *task, void *arg)
{
    struct work *work = arg;
    (void)task;
    for (size_t i = 0; i < work->bytes; i++) {
        work->to[i] = (uint8_t)(work->from[i] + 1);
    }
    return GANTRY_OK;
}

static gantry_status launch_kernel(gantry_launch *launch, struct work *work)
{
    uint32_t words = (uint32_t)work->bytes / 4, bytes = (uint32_t)work->bytes, one = 1, none = 0;
    void *scale_args[] = {&work->to, &work->from, &words, &one};
    void *sum_args[] = {&work->from, &words, &work->to}, *stamp_args[] = {&work->to, &bytes, &none};
    const gantry_dim3 grid = {BYTES / THREADS, 1, 1}, threads = {THREADS, 1, 1};
    return work->what == SCALE ? gantry_launch_kernel(launch, scale, grid, threads, 0, scale_args)
           : work->what == SUM ? gantry_launch_kernel(launch, sum, grid, threads, 0, sum_args)
                               : gantry_launch_kernel(launch, stamp, grid, threads, 0, stamp_args);
}

static gantry_launch_result launch_work(gantry_launch *launch, void *arg)
{
    struct work *work = arg;
    gantry_status status = GANTRY_OK;
    const gantry_copy_desc desc = {
        .dest = work->to, .source = work->from, .bytes = work->bytes, .type = GANTRY_COPY_DTOD};
    gantry_copy_box box = GANTRY_COPY_BOX_INIT;
    box.dest = work->to;
    box.source = work->from;
    box.width = work->bytes;
    box.rows = work->rows;
    box.dest_pitch = box.source_pitch = work->pitch;
    switch (work->what) {
    case FILL:
        status = gantry_launch_fill(launch, work->to, 0, 1, work->bytes);
        break;
    case COPY:
        status = gantry_launch_copy_dtod(launch, work->to, work->from, work->bytes);
        break;
    case UP:
        status = gantry_launch_copy_htod(launch, work->to, work->from, work->bytes);
        break;
    case DOWN:
        status = gantry_launch_copy_dtoh(launch, work->to, work->from, work->bytes);
        break;
    case BATCH:
        status = gantry_copy_launch(launch, &desc, 1);
        break;
    case BOX:
        status = gantry_copy_launch_box(launch, &box, NULL);
        break;
    default:
        status = launch_kernel(launch, work);
    }
    return status == GANTRY_OK ? GANTRY_LAUNCH_DONE : GANTRY_LAUNCH_FAILED;
}

static gantry_task *task_of(struct work *work)
{
    return work->what == BODY ? gpu_fixture_cpu(&f, work->label, run_body, work)
                              : gpu_fixture_gpu(&f, GANTRY_TASK_KERNEL, work->label, launch_work, work);
}

static gantry_access range(const void *at, size_t bytes, gantry_access_mode mode)
{
    return (gantry_access){.at = at, .bytes = bytes, .mode = mode};
}

static void step_of(struct work work, const gantry_access *accesses, size_t count)
{
    gantry_task *task = task_of(&work);
    assert_int_equal(gantry_task_access(task, accesses, count), GANTRY_OK);
    assert_int_equal(gpu_fixture_step(&f), GANTRY_OK);
}

/* ---- one by one --------------------------------------------------------------------------------- */

static void test_a_kernel_beyond_its_declaration(void **state)
{
    const gantry_access all[] = {range(blocks[2], 1024, GANTRY_ACCESS_WRITE),
                                 range(blocks[3], 1028, GANTRY_ACCESS_READ)};
    (void)state;
    step_of((struct work){SCALE, blocks[2], blocks[3], 1024, 1, 0, "right"}, all, 2);
    must_be(0);
    step_of((struct work){SCALE, blocks[2], blocks[3], 1028, 1, 0, "beyond"}, all, 2);
    must_be(1);
    must_say("task 'beyond' writes in pipeline_scale (block 4)");
    must_say(has_addr2line()
                 ? "(block 4) at pipeline_kernels.cu:9 bytes 1024 to 1027 of the block 'data2' at "
                 : "(block 4) bytes 1024 to 1027 of the block 'data2' at ");
    must_say("test_declared.c:");
    must_say(
        "), which it has not declared: gantry_task_access(beyond, &(gantry_access){.at = (char *)data2 + "
        "1024, .bytes = 4, .mode = GANTRY_ACCESS_WRITE}, 1)");
    step_of((struct work){STAMP, blocks[2] + 3, NULL, 1022, 1, 0, "a byte"}, all, 2);
    must_be(2);
    must_say("task 'a byte' writes in pipeline_stamp (block 15)");
    must_say("byte 1024 of the block");
    step_of((struct work){SCALE, blocks[2], blocks[3], 1028, 1, 0, "beyond"}, all, 2);
    must_be(2);
    gantry_task *task = task_of(&(struct work){SCALE, blocks[2], blocks[3], 2048, 1, 0, "silent"});
    assert_int_equal(gantry_task_access(task, NULL, 0), GANTRY_OK);
    assert_int_equal(gpu_fixture_step(&f), GANTRY_OK);
    must_be(2); /* without a declaration it is not looked at */
}

static void test_modes(void **state)
{
    const gantry_access reads[] = {range(blocks[2], BYTES, GANTRY_ACCESS_READ),
                                   range(blocks[3], BYTES, GANTRY_ACCESS_READ)};
    const gantry_access writes[] = {range(blocks[2], BYTES, GANTRY_ACCESS_WRITE),
                                    range(blocks[3], BYTES, GANTRY_ACCESS_READ_WRITE)};
    const gantry_access adds[] = {range(blocks[2], BYTES, GANTRY_ACCESS_ADD),
                                  range(blocks[3], BYTES, GANTRY_ACCESS_ADD)};
    (void)state;
    step_of((struct work){SCALE, blocks[2], blocks[3], 64, 1, 0, "scale writes"}, writes, 2);
    step_of((struct work){SCALE, blocks[2], blocks[3], 64, 1, 0, "scale adds"}, adds, 2);
    step_of((struct work){SUM, blocks[2], blocks[3], 64, 1, 0, "sum adds"}, adds, 2);
    step_of((struct work){SUM, blocks[2], blocks[3], 64, 1, 0, "sum writes"}, writes, 2);
    must_be(0);
    step_of((struct work){SCALE, blocks[2], blocks[3], 64, 1, 0, "scale reads"}, reads, 2);
    must_be(1);
    must_say("task 'scale reads' writes in pipeline_scale");
    must_say(", which it has declared as GANTRY_ACCESS_READ: gantry_task_access(scale reads, "
             "&(gantry_access){.at = data2, .bytes = 4, .mode = GANTRY_ACCESS_WRITE}, 1)");
    step_of((struct work){SUM, blocks[2], blocks[3], 64, 1, 0, "sum reads"}, reads, 2);
    must_be(2);
    must_say(".at = data2, .bytes = 4, .mode = GANTRY_ACCESS_ADD}, 1)");
}

static void test_copies_and_fills(void **state)
{
    const gantry_access to = range(blocks[2], BYTES, GANTRY_ACCESS_WRITE);
    const gantry_access halves[] = {to, range(blocks[3], 512, GANTRY_ACCESS_READ),
                                    range(blocks[3] + 512, 1024, GANTRY_ACCESS_READ)};
    (void)state;
    step_of((struct work){COPY, blocks[2], blocks[3], 1536, 1, 0, "copy"}, halves, 3);
    must_be(0);
    step_of((struct work){COPY, blocks[2], blocks[3], BYTES, 1, 0, "copy all"}, halves, 3);
    must_be(1);
    must_say("task 'copy all' reads in a copy bytes 1536 to 2047 of the block 'data3'");
    must_say(".at = (char *)data3 + 1536, .bytes = 512, .mode = GANTRY_ACCESS_READ}, 1)");
    step_of((struct work){UP, blocks[2], blocks[0], 8, 1, 0, "up"}, &to, 1);
    must_be(2);
    must_say("task 'up' reads in a copy bytes 0 to 7 of the block 'data0'");
    step_of((struct work){BATCH, blocks[2], blocks[3], 8, 1, 0, "batch"}, &to, 1);
    must_be(3);
    must_say("task 'batch' reads in a copy of a batch bytes 0 to 7 of the block 'data3'");
    step_of((struct work){FILL, blocks[3] + 1, NULL, 5, 1, 0, "fill"}, &to, 1);
    must_be(4);
    must_say("task 'fill' writes in a fill bytes 1 to 5 of the block 'data3'");
}

static void test_rows(void **state)
{
    gantry_access rows[] = {range(blocks[2] + 8, 40, GANTRY_ACCESS_WRITE),
                            range(blocks[3] + 8, 40, GANTRY_ACCESS_READ)};
    (void)state;
    for (int i = 0; i < 2; i++) {
        rows[i].rows = 10;
        rows[i].pitch = 100;
    }
    step_of((struct work){BOX, blocks[2] + 8, blocks[3] + 8, 40, 10, 100, "box"}, rows, 2);
    must_be(0);
    step_of((struct work){BOX, blocks[2] + 8, blocks[3] + 8, 40, 11, 100, "a row too many"}, rows, 2);
    must_be(2);
    must_say("task 'a row too many' reads in a copy of a batch bytes 1008 to 1047 of the block 'data3'");
    must_say("task 'a row too many' writes in a copy of a batch bytes 1008 to 1047 of the block 'data2'");
    step_of((struct work){FILL, blocks[2] + 8, NULL, 240, 1, 0, "between rows"}, rows, 2);
    must_be(3);
    must_say("task 'between rows' writes in a fill bytes 48 to 107 of the block 'data2'");
}

static void test_bodies(void **state)
{
    const gantry_access both[] = {range(blocks[0], 100, GANTRY_ACCESS_WRITE),
                                  range(blocks[1], 101, GANTRY_ACCESS_READ)};
    (void)state;
    step_of((struct work){BODY, blocks[0], blocks[1], 100, 1, 0, "body"}, both, 2);
    must_be(0);
    step_of((struct work){BODY, blocks[0], blocks[1], 101, 1, 0, "long body"}, both, 2);
    must_be(1);
    must_say("task 'long body' writes on the host at test_declared.c:");
    must_say(" byte 100 of the block 'data0'");
}

static gantry_launch_result launch_own(gantry_launch *launch, void *arg)
{
    uint8_t *const *to = arg;
    void *own = NULL;
    const bool is_done = gantry_launch_alloc(launch, GANTRY_MEMORY_DEVICE, BYTES, 0, GANTRY_ALLOC_SITE("own"),
                                             &own) == GANTRY_OK &&
                         gantry_launch_fill(launch, own, 0, 1, BYTES) == GANTRY_OK &&
                         gantry_launch_copy_dtod(launch, *to, own, BYTES) == GANTRY_OK &&
                         gantry_free_after(own, launch) == GANTRY_OK;
    return is_done ? GANTRY_LAUNCH_DONE : GANTRY_LAUNCH_FAILED;
}

/* What a task allocates itself it cannot have declared. */
static void test_a_block_of_its_own(void **state)
{
    const gantry_access to = range(blocks[2], BYTES, GANTRY_ACCESS_WRITE);
    (void)state;
    gantry_task *task = gpu_fixture_gpu(&f, GANTRY_TASK_KERNEL, "own", launch_own, &blocks[2]);
    assert_int_equal(gantry_task_access(task, &to, 1), GANTRY_OK);
    assert_int_equal(gpu_fixture_step(&f), GANTRY_OK);
    must_be(0);
}

static void *take_block(const char *tag)
{
    void *out = NULL;
    assert_int_equal(gantry_heap_alloc(gantry_context_heap(f.context), GANTRY_MEMORY_DEVICE, BYTES, 0,
                                       GANTRY_ALLOC_SITE(tag), &out),
                     GANTRY_OK);
    return out;
}

static void *free_block(void *block)
{
    return (void *)(intptr_t)gantry_heap_free(gantry_context_heap(f.context), block);
}

static gantry_status free_own(gantry_task *task, void *block)
{
    (void)task;
    return free_block(block) == NULL ? GANTRY_OK : GANTRY_ERR_STATE;
}

/* Another thread, which carries out no task, frees it meanwhile. */
static gantry_status free_aside(gantry_task *task, void *block)
{
    pthread_t thread;
    void *failed = NULL;
    (void)task;
    return pthread_create(&thread, NULL, free_block, block) == 0 && pthread_join(thread, &failed) == 0 &&
                   failed == NULL
               ? GANTRY_OK
               : GANTRY_ERR_STATE;
}

/* The task declares the block, and touches none of it. */
static void declare_block(gantry_task *task, const void *block)
{
    const gantry_access all[] = {range(block, BYTES, GANTRY_ACCESS_READ),
                                 range(blocks[2], BYTES, GANTRY_ACCESS_WRITE)};
    assert_int_equal(gantry_task_access(task, all, 2), GANTRY_OK);
}

static void test_a_block_that_is_freed_too_early(void **state)
{
    struct work work = {FILL, blocks[2], NULL, BYTES, 1, 0, "late"};
    void *block = take_block("early");
    (void)state;
    declare_block(task_of(&work), block);
    assert_null(free_block(block));
    must_be(0); /* it may never begin */
    assert_int_equal(gpu_fixture_step(&f), GANTRY_OK);
    must_be(1);
    must_say("the block 'early' at 0x");
    must_say(" (2048 bytes, from ");
    must_say(
        ") is freed before the end of task 'late', which has declared bytes of it: free it in a task that "
        "starts after 'late', or behind the step");

    block = take_block("meanwhile");
    declare_block(gpu_fixture_cpu(&f, "aside", free_aside, block), block);
    assert_int_equal(gpu_fixture_step(&f), GANTRY_OK);
    must_be(2);
    must_say("the block 'meanwhile' at 0x");
    must_say("the end of task 'aside'");
}

static void test_a_mapping_that_is_closed(void **state)
{
    struct work work = {FILL, blocks[2], NULL, BYTES, 1, 0, "of a mapping"};
    gantry_shared_memory_options options = GANTRY_SHARED_MEMORY_OPTIONS_INIT;
    gantry_shared_memory *memory;
    void *mapped;
    (void)state;
    options.fd = memfd_create("frame", MFD_CLOEXEC);
    options.bytes = BYTES;
    assert_int_equal(ftruncate(options.fd, BYTES), 0);
    assert_int_equal(gantry_shared_memory_import(f.context, &options, &memory), GANTRY_OK);
    assert_int_equal(gantry_shared_memory_map(memory, 0, BYTES, &mapped), GANTRY_OK);
    declare_block(task_of(&work), mapped);
    gantry_shared_memory_destroy(memory);
    assert_int_equal(gpu_fixture_step(&f), GANTRY_OK);
    must_be(1);
    must_say("memory at 0x");
    must_say(" is freed before the end of task 'of a mapping', which");
}

static void test_blocks_that_are_freed_in_time(void **state)
{
    struct work work = {FILL, blocks[2], NULL, BYTES, 1, 0, "early"};
    void *block = take_block("behind the step");
    (void)state;
    declare_block(task_of(&work), block);
    assert_int_equal(gantry_taskman_start(f.manager), GANTRY_OK);
    assert_int_equal(gantry_taskman_stop(f.manager), GANTRY_OK);
    assert_null(free_block(block)); /* and the manager still knows what was declared */
    assert_int_equal(gantry_taskman_reset(f.manager), GANTRY_OK);
    block = take_block("its own");
    declare_block(gpu_fixture_cpu(&f, "own", free_own, block), block);
    assert_int_equal(gpu_fixture_step(&f), GANTRY_OK);
    must_be(0);
}

static void test_a_frozen_graph(void **state)
{
    const gantry_access both[] = {range(blocks[2], 100, GANTRY_ACCESS_WRITE),
                                  range(blocks[3], 100, GANTRY_ACCESS_READ)};
    struct work work = {COPY, blocks[2], blocks[3], 100, 1, 0, "frozen"};
    (void)state;
    gantry_task *task = task_of(&work);
    assert_int_equal(gantry_task_access(task, both, 2), GANTRY_OK);
    assert_int_equal(gantry_taskman_freeze(f.manager), GANTRY_OK);
    for (int run = 0; run < 3; run++) {
        work.bytes = run == 1 ? 104 : 100; /* what the callback copies */
        assert_int_equal(gantry_taskman_start(f.manager), GANTRY_OK);
        assert_int_equal(gantry_taskman_stop(f.manager), GANTRY_OK);
        must_be(run == 0 ? 0 : 2);
    }
    must_say("task 'frozen' reads in a copy bytes 100 to 103 of the block 'data3'");
    must_say("task 'frozen' writes in a copy bytes 100 to 103 of the block 'data2'");
    assert_int_equal(gantry_taskman_reset(f.manager), GANTRY_OK);
    (void)task_of(&work); /* most likely where the other was */
    work.bytes = BYTES;
    snprintf(work.label, sizeof(work.label), "after reset");
    assert_int_equal(gpu_fixture_step(&f), GANTRY_OK);
    must_be(2);
}

/* ---- random programs ----------------------------------------------------------------------------- */

static uint32_t below(uint32_t bound)
{
    seed = seed * 1664525u + 1013904223u;
    return (uint32_t)((uint64_t)seed * bound >> 32);
}

/* A piece of any block from `first` to `last`, which `other` is not in. */
static uint8_t *piece(uint32_t first, uint32_t last, const uint8_t *other, size_t bytes)
{
    uint8_t *at = NULL;
    while (at == NULL || (other != NULL && other >= at && other < at + BYTES)) {
        at = blocks[first + below(last - first + 1)];
    }
    return at + below((uint32_t)(BYTES - bytes) / 4 + 1) * 4;
}

/* A task at random, and what it does; returns how many accesses that are. */
static size_t make_work(struct work *work, gantry_access accesses[2], const char *label)
{
    memset(work, 0, sizeof(*work));
    snprintf(work->label, sizeof(work->label), "%s", label);
    work->what = (enum what)below(WHATS);
    work->rows = 1;
    work->bytes = 4 + below(99) * 4;
    size_t length = work->bytes;
    if (work->what == BOX) {
        work->rows = 2 + below(4);
        work->bytes = 1 + below(60);
        work->pitch = work->bytes + 1 + below(40);
        length = (work->rows - 1) * work->pitch + work->bytes;
    }
    const bool writes_host = work->what == BODY || work->what == DOWN;
    const bool reads_host = work->what == BODY || work->what == UP;
    const size_t written = work->what == SUM ? 4 : length;
    work->to = piece(writes_host ? 0 : PINNED, writes_host ? PINNED - 1 : BLOCKS - 1, NULL, written);
    accesses[0] = range(work->to, work->what == SUM ? 4 : work->bytes,
                        work->what == SUM ? GANTRY_ACCESS_ADD : GANTRY_ACCESS_WRITE);
    if (work->what == FILL || work->what == STAMP) {
        return 1;
    }
    work->from = piece(reads_host ? 0 : PINNED, reads_host ? PINNED - 1 : BLOCKS - 1, work->to, length);
    accesses[1] = range(work->from, work->bytes, GANTRY_ACCESS_READ);
    for (int i = 0; i < 2; i++) {
        accesses[i].rows = work->rows;
        accesses[i].pitch = work->pitch;
    }
    return 2;
}

/* One of the accesses is narrowed, made one that only reads, or taken out, if another one is left. */
static size_t spoil(gantry_access accesses[2], size_t count)
{
    const uint32_t which = below((uint32_t)count), how = below(4);
    gantry_access *access = &accesses[which];
    if (how == 0 && count == 2) {
        accesses[0] = accesses[1 - which];
        return 1;
    }
    if (how == 1 && access->mode != GANTRY_ACCESS_READ) {
        access->mode = GANTRY_ACCESS_READ;
    } else if (access->rows > 1 && (how == 2 || access->bytes == 1)) {
        access->rows--;
    } else {
        const size_t cut = 1 + below((uint32_t)access->bytes - 1);
        access->at = (const char *)access->at + (below(2) != 0 ? cut : 0);
        access->bytes -= cut;
    }
    return count;
}

/* One task of each program goes beyond its declaration: it is told, and no other one. */
static void test_random_declarations(void **state)
{
    struct work works[TASKS];
    uint32_t found = 0;
    (void)state;
    for (uint32_t number = 0; number < programs; number++) {
        const uint32_t wrong = below(TASKS + 1); /* or none is */
        char expected[48];
        atomic_store(&line_count, 0);
        for (uint32_t i = 0; i < TASKS; i++) {
            gantry_access accesses[2];
            char label[24];
            snprintf(label, sizeof(label), "p%u-%u", number, i);
            size_t count = make_work(&works[i], accesses, label);
            count = i == wrong ? spoil(accesses, count) : count;
            assert_int_equal(gantry_task_access(task_of(&works[i]), accesses, count), GANTRY_OK);
        }
        if (below(3) == 0) {
            assert_int_equal(gantry_taskman_freeze(f.manager), GANTRY_OK);
            assert_int_equal(gantry_taskman_start(f.manager), GANTRY_OK);
            assert_int_equal(gantry_taskman_stop(f.manager), GANTRY_OK);
        }
        assert_int_equal(gpu_fixture_step(&f), GANTRY_OK);
        if (wrong == TASKS) {
            must_be(0);
            continue;
        }
        snprintf(expected, sizeof(expected), "task '%s' ", works[wrong].label);
        if (atomic_load(&line_count) != 1) {
            fail_msg("program %u: %u lines; %s (%d)", number, atomic_load(&line_count), works[wrong].label,
                     (int)works[wrong].what);
        }
        must_say(expected);
        found++;
    }
    print_message("%u declarations that were wrong are told, of %u programs\n", found, programs);
    assert_true(found >= programs / 2);
}

/* ---- life ------------------------------------------------------------------------------------------ */

static int setup(void **state)
{
    static const char *const tags[BLOCKS] = {"data0", "data1", "data2", "data3"};
    (void)state;
    setenv("GANTRY_CHECK", "edges", 1);
    gpu_fixture_open(&f, 2, 0);
    assert_int_equal(gantry_module_load(f.context, &gantry_image_pipeline_kernels, &module), GANTRY_OK);
    assert_int_equal(gantry_module_get_kernel(module, "pipeline_scale", &scale), GANTRY_OK);
    assert_int_equal(gantry_module_get_kernel(module, "pipeline_sum", &sum), GANTRY_OK);
    assert_int_equal(gantry_module_get_kernel(module, "pipeline_stamp", &stamp), GANTRY_OK);
    for (int i = 0; i < BLOCKS; i++) {
        void *out;
        assert_int_equal(gantry_heap_alloc(gantry_context_heap(f.context),
                                           i < PINNED ? GANTRY_MEMORY_PINNED : GANTRY_MEMORY_DEVICE, BYTES, 0,
                                           GANTRY_ALLOC_SITE(tags[i]), &out),
                         GANTRY_OK);
        blocks[i] = out;
    }
    atomic_store(&line_count, 0);
    gantry_set_log(hear, NULL, GANTRY_LOG_ERROR);
    return 0;
}

static int teardown(void **state)
{
    (void)state;
    for (int i = 0; i < BLOCKS; i++) {
        assert_int_equal(gantry_heap_free(gantry_context_heap(f.context), blocks[i]), GANTRY_OK);
    }
    gpu_fixture_close(&f);
    gantry_set_log(NULL, NULL, GANTRY_LOG_INFO);
    return 0;
}

int main(int argc, char **argv)
{
    programs = argc > 1 ? (uint32_t)strtoul(argv[1], NULL, 10) : programs;
    seed = argc > 2 ? (uint32_t)strtoul(argv[2], NULL, 10) : seed;
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup_teardown(test_a_kernel_beyond_its_declaration, setup, teardown),
        cmocka_unit_test_setup_teardown(test_modes, setup, teardown),
        cmocka_unit_test_setup_teardown(test_copies_and_fills, setup, teardown),
        cmocka_unit_test_setup_teardown(test_rows, setup, teardown),
        cmocka_unit_test_setup_teardown(test_bodies, setup, teardown),
        cmocka_unit_test_setup_teardown(test_a_block_of_its_own, setup, teardown),
        cmocka_unit_test_setup_teardown(test_a_block_that_is_freed_too_early, setup, teardown),
        cmocka_unit_test_setup_teardown(test_a_mapping_that_is_closed, setup, teardown),
        cmocka_unit_test_setup_teardown(test_blocks_that_are_freed_in_time, setup, teardown),
        cmocka_unit_test_setup_teardown(test_a_frozen_graph, setup, teardown),
        cmocka_unit_test_setup_teardown(test_random_declarations, setup, teardown),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
