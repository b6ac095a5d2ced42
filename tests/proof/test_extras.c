/* SPDX-License-Identifier: MIT */
/* GANTRY_CHECK=needless,unwritten,unread: edges that no bytes need and what they cost, memory that is read
 * before it is written, and blocks that nobody reads. */
#include "tests/support/cmocka_c11.h"
#include "tests/support/gpu_fixture.h"

#include "pipeline_kernels.kernels.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

enum { WORDS = 512, BYTES = WORDS * 4, THREADS = 64, LINES = 32, SLOW_MS = 20, MORE = WORDS / 2 + THREADS };

static struct gpu_fixture f;
static gantry_module *module;
static gantry_kernel *scale, *sum;
static char lines[LINES][1500];
static int line_count;

static void hear(void *user, gantry_log_level level, const char *line)
{
    (void)user;
    (void)level;
    if (line_count < LINES) {
        snprintf(lines[line_count++], sizeof(lines[0]), "%s", line);
    }
}

/* The line with that text; NULL: there is none. */
static const char *line_with(const char *text)
{
    for (int i = 0; i < line_count; i++) {
        if (strstr(lines[i], text) != NULL) {
            return lines[i];
        }
    }
    return NULL;
}

static int count_with(const char *text)
{
    int count = 0;
    for (int i = 0; i < line_count; i++) {
        count += strstr(lines[i], text) != NULL;
    }
    return count;
}

static void must_say(const char *text)
{
    if (line_with(text) == NULL) {
        fail_msg("no line has \"%s\"; the first of %d is: %s", text, line_count, lines[0]);
    }
}

static void must_not_say(const char *text)
{
    if (line_with(text) != NULL) {
        fail_msg("%s", line_with(text));
    }
}

/* Lines of the source are told where it is there. */
static bool has_addr2line(void)
{
    return system("command -v addr2line > /dev/null") == 0;
}

static int setup(void **state)
{
    (void)state;
    setenv("GANTRY_CHECK", "needless,unwritten,unread", 1);
    gpu_fixture_open(&f, 2, 0);
    assert_int_equal(gantry_module_load(f.context, &gantry_image_pipeline_kernels, &module), GANTRY_OK);
    assert_int_equal(gantry_module_get_kernel(module, "pipeline_scale", &scale), GANTRY_OK);
    assert_int_equal(gantry_module_get_kernel(module, "pipeline_sum", &sum), GANTRY_OK);
    line_count = 0;
    gantry_set_log(hear, NULL, GANTRY_LOG_WARNING);
    return 0;
}

static int teardown(void **state)
{
    (void)state;
    gantry_set_log(NULL, NULL, GANTRY_LOG_INFO);
    return 0;
}

static void *block(const char *tag, gantry_memory_kind kind)
{
    void *out;
    assert_int_equal(
        gantry_heap_alloc(gantry_context_heap(f.context), kind, BYTES, 0, GANTRY_ALLOC_SITE(tag), &out),
        GANTRY_OK);
    return out;
}

static void give_back(void *memory)
{
    assert_int_equal(gantry_heap_free(gantry_context_heap(f.context), memory), GANTRY_OK);
}

/* What a task does. */
struct work {
    enum { FILL, COPY, UP, SCALE, SUM } what;
    void *to;
    void *from;
    uint32_t words;
};

static gantry_launch_result launch(gantry_launch *launch, void *arg)
{
    struct work *work = arg;
    uint32_t factor = 1;
    void *scale_args[] = {&work->to, &work->from, &work->words, &factor};
    void *sum_args[] = {&work->from, &work->words, &work->to};
    const gantry_dim3 grid = {WORDS / THREADS, 1, 1}, threads = {THREADS, 1, 1};
    gantry_status status = GANTRY_OK;
    switch (work->what) {
    case FILL:
        status = gantry_launch_fill(launch, work->to, 0, 4, work->words);
        break;
    case COPY:
        status = gantry_launch_copy_dtod(launch, work->to, work->from, work->words * 4);
        break;
    case UP:
        status = gantry_launch_copy_htod(launch, work->to, work->from, work->words * 4);
        break;
    case SCALE:
        status = gantry_launch_kernel(launch, scale, grid, threads, 0, scale_args);
        break;
    default:
        status = gantry_launch_kernel(launch, sum, grid, threads, 0, sum_args);
    }
    return status == GANTRY_OK ? GANTRY_LAUNCH_DONE : GANTRY_LAUNCH_FAILED;
}

static gantry_task *task_of(const char *label, struct work *work)
{
    return gpu_fixture_gpu(&f, GANTRY_TASK_KERNEL, label, launch, work);
}

/* A body that takes a while and writes a word, so that it is seen. */
static gantry_status be_slow(gantry_task *task, void *arg)
{
    const struct timespec while_ = {0, SLOW_MS * 1000000L};
    (void)task;
    *(volatile uint32_t *)arg = 1;
    return nanosleep(&while_, NULL) == 0 ? GANTRY_OK : GANTRY_ERR_TASK_FAILED;
}

/* 'slow' and 'apart' share no byte: the edge between them is the one that is told, and what it costs. */
static void test_a_needless_edge(void **state)
{
    (void)state;
    uint32_t *one = block("one", GANTRY_MEMORY_PINNED), *two = block("two", GANTRY_MEMORY_PINNED);
    gantry_task *first = gpu_fixture_cpu(&f, "first", be_slow, one);
    gantry_task *slow = gpu_fixture_cpu(&f, "slow", be_slow, one);
    gantry_task *apart = gpu_fixture_cpu(&f, "apart", be_slow, two);
    gpu_fixture_after(slow, first);
    gpu_fixture_after(apart, slow);
    assert_int_equal(gpu_fixture_step(&f), GANTRY_OK);
    give_back(one);
    give_back(two);
    gpu_fixture_close(&f);
    assert_int_equal(line_count, 1);
    must_say("no bytes need the edge from task 'slow' to task 'apart' (1 in this run): take out "
             "gantry_task_start_after(apart, slow); without it 'apart' begins up to ");
    must_say(" ms earlier, beside 'slow', and is out of the chain 'first' > 'slow' > 'apart'; the longest "
             "chain then takes ");
    double earlier = 0, without = 0, with = 0;
    assert_int_equal(sscanf(strstr(lines[0], "up to ") + 6, "%lf", &earlier), 1);
    assert_int_equal(sscanf(strstr(lines[0], "then takes ") + 11, "%lf ms, not %lf", &without, &with), 2);
    assert_true(earlier >= 2 * SLOW_MS && with >= 3 * SLOW_MS && without >= 2 * SLOW_MS &&
                with >= without + SLOW_MS);
}

/* Two readers and a writer.  The edge between the readers is needless where each has one to the writer, and
 * not where the way from the first one to the writer leads through the second. */
static void test_edges_between_readers(void **state)
{
    (void)state;
    for (int has_own = 0; has_own < 2; has_own++) {
        char labels[2][3][16];
        struct work fill = {FILL, block("shared", GANTRY_MEMORY_DEVICE), NULL, WORDS}, fill_again = fill;
        struct work read[2];
        gantry_task *tasks[3];
        for (int i = 0; i < 3; i++) {
            snprintf(labels[has_own][i], sizeof(labels[0][0]), "%s%d-%d", i < 2 ? "read" : "write", i,
                     has_own);
        }
        gantry_task *begin = task_of(has_own ? "begin1" : "begin0", &fill);
        for (int i = 0; i < 2; i++) {
            read[i] = (struct work){COPY, block("own", GANTRY_MEMORY_DEVICE), fill.to, WORDS};
            tasks[i] = task_of(labels[has_own][i], &read[i]);
            gpu_fixture_after(tasks[i], begin);
        }
        tasks[2] = task_of(labels[has_own][2], &fill_again);
        gpu_fixture_after(tasks[1], tasks[0]);
        gpu_fixture_after(tasks[2], tasks[1]);
        if (has_own) {
            gpu_fixture_after(tasks[2], tasks[0]);
        }
        assert_int_equal(gpu_fixture_step(&f), GANTRY_OK);
        give_back(fill.to);
        give_back(read[0].to);
        give_back(read[1].to);
    }
    gpu_fixture_close(&f);
    must_not_say("no bytes need the edge from task 'read0-0' to task 'read1-0'");
    must_say("no bytes need the edge from task 'read0-1' to task 'read1-1'");
    must_say(
        "no bytes need the edge from task 'read0-1' to task 'write2-1'"); /* by itself: the way is left */
    must_not_say("'read1-0' to task 'write2-0'");
    must_not_say("no bytes need the edge from task 'read1-1' to task 'write2-1'");
}

static void step_of(const char *label, struct work work)
{
    (void)task_of(label, &work);
    assert_int_equal(gpu_fixture_step(&f), GANTRY_OK);
}

/* Fills, copies from the host and kernels write; the bytes that none of them has written are told. */
static void test_memory_that_nobody_has_written(void **state)
{
    (void)state;
    void *half = block("half", GANTRY_MEMORY_DEVICE), *whole = block("whole", GANTRY_MEMORY_DEVICE);
    void *host = block("host", GANTRY_MEMORY_PINNED), *none = block("none", GANTRY_MEMORY_DEVICE);
    memset(host, 0, BYTES);
    step_of("fill half", (struct work){FILL, half, NULL, WORDS / 2});
    step_of("scale half", (struct work){SCALE, whole, half, WORDS / 2});
    assert_int_equal(count_with("nobody has written"), 0);
    step_of("scale all", (struct work){SCALE, whole, half, MORE}); /* of block 4 alone */
    assert_int_equal(count_with("nobody has written"), 1);
    must_say("task 'scale all' reads in pipeline_scale (block 4)");
    must_say(" byte 1024 of the block 'half' at 0x");
    must_say(has_addr2line() ? "(block 4) at pipeline_kernels.cu:9 byte" : "(block 4) byte");
    must_say("test_extras.c:");
    must_say("), and nobody has written bytes 1024 to 2047: fill them or copy to them in a task that 'scale "
             "all' starts "
             "after, or read less");
    step_of("scale whole", (struct work){SCALE, half, whole, MORE});
    assert_int_equal(count_with("nobody has written"), 1);
    step_of("add up", (struct work){SUM, none, whole, MORE});
    must_say("task 'add up' reads in pipeline_sum (block ");
    must_say(" byte 0 of the block 'none'");
    give_back(none);
    none = block("none again", GANTRY_MEMORY_DEVICE);
    step_of("up", (struct work){UP, none, host, WORDS - 1});
    assert_int_equal(count_with("nobody has written"), 2);
    step_of("copy", (struct work){COPY, whole, none, WORDS});
    assert_int_equal(count_with("nobody has written"), 3);
    must_say("task 'copy' reads in a copy byte 2044 of the block 'none again'");
    must_say("nobody has written bytes 2044 to 2047");
    give_back(none);
    give_back(whole);
    give_back(half);
    give_back(host);
    gpu_fixture_close(&f);
    assert_int_equal(count_with("nobody has written"), 3);
}

/* Memory that is no block any more is nobody's to write; those beside it are judged all the same. */
static void test_memory_that_is_no_block(void **state)
{
    (void)state;
    void *freed = block("freed", GANTRY_MEMORY_DEVICE), *beside = block("beside", GANTRY_MEMORY_DEVICE);
    void *to = block("to", GANTRY_MEMORY_DEVICE);
    give_back(freed);
    step_of("from freed", (struct work){SCALE, to, freed, 1});
    assert_int_equal(count_with("nobody has written"), 0);
    step_of("from beside", (struct work){SCALE, to, beside, WORDS});
    assert_int_equal(count_with("nobody has written"), 1);
    must_say("and nobody has written bytes 0 to 2047");
    void *again = block("again", GANTRY_MEMORY_DEVICE);
    assert_ptr_equal(again, freed);
    step_of("from again", (struct work){SCALE, to, again, WORDS});
    assert_int_equal(count_with("nobody has written"), 2);
    give_back(beside);
    give_back(again);
    give_back(to);
    gpu_fixture_close(&f);
}

/* A block that only gets written, and one that is never touched; not one that a task has read, nor the
 * host's. */
static void test_blocks_that_nobody_reads(void **state)
{
    (void)state;
    void *written = block("written", GANTRY_MEMORY_DEVICE), *read = block("read", GANTRY_MEMORY_DEVICE);
    void *host = block("host", GANTRY_MEMORY_PINNED), *idle = block("idle", GANTRY_MEMORY_DEVICE);
    step_of("fill", (struct work){FILL, read, NULL, WORDS});
    step_of("use", (struct work){COPY, written, read, 1});
    give_back(written);
    must_say("nobody reads the block 'written' at 0x");
    must_say(", which task 'use' writes: leave out the block and what writes it, or read it in a task that "
             "starts after "
             "that");
    give_back(read);
    give_back(host);
    if (line_count != 1) {
        fail_msg("%s", lines[1]);
    }
    give_back(idle);
    assert_int_equal(line_count, 2);
    must_say("nobody touches the block 'idle' at 0x");
    gpu_fixture_close(&f);
    assert_int_equal(line_count, 2);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup_teardown(test_a_needless_edge, setup, teardown),
        cmocka_unit_test_setup_teardown(test_edges_between_readers, setup, teardown),
        cmocka_unit_test_setup_teardown(test_memory_that_nobody_has_written, setup, teardown),
        cmocka_unit_test_setup_teardown(test_memory_that_is_no_block, setup, teardown),
        cmocka_unit_test_setup_teardown(test_blocks_that_nobody_reads, setup, teardown),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
