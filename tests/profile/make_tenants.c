/* SPDX-License-Identifier: MIT */
/* make_tenants FILE [two]: a recording of two partitions and a task manager with shares, written by hand:
 * each of its times and counts is known.  tests/profile/test_tenants.py says what a report must find in it.
 * With `two`, a second GPU has a partition alpha, too. */
#include "profile/pftrace.h"

#include <stdio.h>
#include <string.h>

#define MS UINT64_C(1000000)
#define US UINT64_C(1000)

static struct gy_pftrace *trace;
static const uint64_t start = 1000 * MS;

static void task_on(uint32_t gpu, const char *partition, uint32_t stream, uint64_t begin_ns, uint64_t ns,
                    uint32_t manager, uint64_t id)
{
    const struct gy_pftrace_stage stage = {.gpu = gpu,
                                           .gpu_name = gpu == 1 ? "GPU 0: example" : "GPU 1: example",
                                           .partition = partition,
                                           .stream = stream,
                                           .name = "task",
                                           .begin_ns = begin_ns,
                                           .end_ns = begin_ns + ns,
                                           .id = id,
                                           .manager = manager};
    gy_pftrace_add_stage(trace, &stage);
}

static void task(const char *partition, uint32_t stream, uint64_t begin_ns, uint64_t ns, uint32_t manager,
                 uint64_t id)
{
    task_on(1, partition, stream, begin_ns, ns, manager, id);
}

/* Where the gap behind alpha's task number `i` begins and ends. */
static uint64_t gap_begin(uint64_t i)
{
    return start + 2 * i * MS + i * US;
}

static uint64_t gap_end(uint64_t i)
{
    return start + 2 * (i + 1) * MS;
}

/* Tasks of alpha, numbered, take 1 us, 2 us, ... 100 us, and begin every 2 ms; beta has ten of 500 us, of
 * which the first four are charged to manager 5. */
static void tasks(void)
{
    for (uint64_t i = 1; i <= 100; i++) {
        task("alpha", i % 2, start + 2 * i * MS, i * US, 0, i);
    }
    for (uint64_t i = 0; i < 10; i++) {
        task("beta", 2, start + 2 * (50 + i) * MS + MS, 500 * US, i < 4 ? 5 : 0, 1000 + i);
    }
}

static void host(gy_pftrace_track thread, enum gy_span_category category, const char *name, uint64_t begin_ns,
                 uint64_t end_ns, uint64_t id)
{
    const struct gy_pftrace_slice slice = {.track = thread,
                                           .category = category,
                                           .name = name,
                                           .begin_ns = begin_ns,
                                           .end_ns = end_ns,
                                           .argument_count = 1,
                                           .arguments = {{GY_ARGUMENT_ID, id}}};
    gy_pftrace_add_slice(trace, &slice);
}

/* A step waits for a renderer for all of gap 60, and within it the task behind had been launched. Those
 * behind gaps 65 and 66 were launched before these began, those behind 67 and 68 when 1400 us and 600 us of
 * them were left; a batch was under way for the last 1500 us of gap 66, and a CPU task ran through all of
 * gap 65. */
static void orders(gy_pftrace_track gd)
{
    static const struct {
        uint64_t gap, left_us;
    } launched[] = {{60, 1900}, {65, 2000}, {66, 2000}, {67, 1400}, {68, 600}};
    const gy_pftrace_track exchange = gy_pftrace_add_thread(trace, 8, "gantry-exchange");
    const gy_pftrace_track worker = gy_pftrace_add_thread(trace, 9, "gantry worker 0");
    host(exchange, GY_SPAN_EXCHANGE, "waits for frame", gap_begin(60), gap_end(60), 1);
    for (uint64_t i = 0; i < sizeof(launched) / sizeof(launched[0]); i++) {
        const uint64_t end_ns = gap_end(launched[i].gap) - launched[i].left_us * US;
        host(gd, GY_SPAN_LAUNCH, "task", end_ns - 5 * US, end_ns, launched[i].gap + 1);
    }
    host(gd, GY_SPAN_BATCH, "batch", gap_end(66) - 1500 * US, gap_end(66), 1);
    host(worker, GY_SPAN_TASK, "meanwhile", gap_begin(65), gap_end(65), 2);
}

/* What was done before gap 70 is told when 1200 of its 1930 us are over, and a batch takes the rest; for gap
 * 71 it is 300 us, and for gap 72 all, but a CPU task runs for 1500 us. A thread that waits has told nothing
 * in gap 73. */
static void completions(gy_pftrace_track gd)
{
    const gy_pftrace_track thread = gy_pftrace_add_thread(trace, 11, "completion");
    const gy_pftrace_track worker = gy_pftrace_add_thread(trace, 12, "gantry worker 1");
    host(thread, GY_SPAN_WAIT, "complete download", gap_begin(70) + 400 * US, gap_begin(70) + 401 * US, 0);
    host(thread, GY_SPAN_WAIT, "complete download", gap_begin(70) + 1200 * US, gap_begin(70) + 1201 * US, 1);
    host(gd, GY_SPAN_BATCH, "batch", gap_begin(70) + 1200 * US, gap_end(70), 3);
    host(thread, GY_SPAN_WAIT, "complete download", gap_begin(71) + 300 * US, gap_begin(71) + 301 * US, 0);
    host(thread, GY_SPAN_WAIT, "complete download", gap_end(72) - US, gap_end(72), 0);
    host(worker, GY_SPAN_TASK, "meanwhile", gap_begin(72), gap_begin(72) + 1500 * US, 4);
    host(thread, GY_SPAN_WAIT, "completion wait", gap_end(73) - 10 * US, gap_end(73), 0);
}

/* Share holds tasks for all of gap 10, for 1200 us of the 1980 us of gap 20, and for 400 of gap 30; the
 * dispatcher is in a launch callback for all of gap 40, and in a batch for all of gap 45. */
static void holds(void)
{
    const gy_pftrace_track gd = gy_pftrace_add_thread(trace, 7, "GD");
    host(gd, GY_SPAN_SHARE, "alpha", gap_begin(10), gap_end(10), 0);
    host(gd, GY_SPAN_SHARE, "alpha / turn of beta", gap_begin(20), gap_begin(20) + 1200 * US, 0);
    host(gd, GY_SPAN_SHARE, "task manager 5", gap_begin(30), gap_begin(30) + 400 * US, 0);
    host(gd, GY_SPAN_LAUNCH, "task", gap_begin(40), gap_end(40), 41);
    host(gd, GY_SPAN_BATCH, "batch", gap_begin(45), gap_end(45), 0);
    orders(gd);
    completions(gd);
}

static void count(gy_pftrace_track counter, uint64_t ms, uint64_t value)
{
    gy_pftrace_add_count(trace, counter, start + ms * MS, value);
}

/* The manager's falls once: another manager has got the number. */
static void charges(void)
{
    static const uint64_t alpha[][2] = {{0, 1000}, {50, 11000}, {100, 21000}, {150, 61000}, {200, 66000}};
    static const uint64_t manager[][2] = {{0, 500}, {60, 700}, {120, 100}};
    const gy_pftrace_track process = gy_pftrace_process_track(trace);
    const gy_pftrace_track of_alpha = gy_pftrace_add_counter_track(trace, process, "GPU 0: us of alpha");
    const gy_pftrace_track of_manager =
        gy_pftrace_add_counter_track(trace, process, "GPU 0: us of task manager 5");
    for (int i = 0; i < 5; i++) {
        count(of_alpha, alpha[i][0], alpha[i][1]);
    }
    for (int i = 0; i < 3; i++) {
        count(of_manager, manager[i][0], manager[i][1]);
    }
    count(gy_pftrace_add_counter_track(trace, process, "GPU 0: share of alpha"), 0, 300000);
    count(gy_pftrace_add_counter_track(trace, process, "GPU 0: share of task manager 5"), 0, 100000);
}

/* Alpha of GPU 1 has four tasks of 20 us, and was held back once. */
static void second_gpu(void)
{
    const gy_pftrace_track process = gy_pftrace_process_track(trace);
    const gy_pftrace_track counter = gy_pftrace_add_counter_track(trace, process, "GPU 1: us of alpha");
    for (uint64_t i = 0; i < 4; i++) {
        task_on(2, "alpha", 0, start + (80 + i) * MS, 20 * US, 0, 2000 + i);
    }
    count(counter, 0, 100);
    count(counter, 150, 900);
    count(gy_pftrace_add_counter_track(trace, process, "GPU 1: share of alpha"), 0, 500000);
    host(gy_pftrace_add_thread(trace, 10, "GD 1"), GY_SPAN_SHARE, "alpha", start + 81 * MS, start + 82 * MS,
         1);
}

/* On SM 3 beta has a stray, on SM 5 alpha has five. */
static void places(void)
{
    static const struct {
        const char *partition;
        uint64_t sm, blocks;
    } all[] = {{"alpha", 0, 10}, {"alpha", 1, 10}, {"alpha", 2, 10}, {"alpha", 3, 10}, {"alpha", 2, 5},
               {"alpha", 5, 5},  {"beta", 3, 1},   {"beta", 4, 7},   {"beta", 5, 6}};
    const gy_pftrace_track gpu =
        gy_pftrace_add_track(trace, gy_pftrace_process_track(trace), "GPU 0: example", 1);
    const gy_pftrace_track track = gy_pftrace_add_track(trace, gpu, "SMs of partitions", 1600);
    for (uint64_t i = 0; i < sizeof(all) / sizeof(all[0]); i++) {
        const struct gy_pftrace_slice mark = {
            .track = track,
            .category = GY_PFTRACE_CTAS,
            .instant = true,
            .name = all[i].partition,
            .begin_ns = start + i,
            .end_ns = start + i,
            .argument_count = 2,
            .arguments = {{GY_ARGUMENT_SM, all[i].sm}, {GY_ARGUMENT_CTAS, all[i].blocks}}};
        gy_pftrace_add_slice(trace, &mark);
    }
}

int main(int argc, char **argv)
{
    const bool is_two = argc == 3 && strcmp(argv[2], "two") == 0;
    if ((argc != 2 && !is_two) || gy_pftrace_open(argv[1], false, 3, &trace) != GANTRY_OK) {
        fprintf(stderr, "%s\n",
                argc != 2 && !is_two ? "usage: make_tenants FILE [two]" : gantry_last_error());
        return 1;
    }
    tasks();
    holds();
    charges();
    places();
    if (is_two) {
        second_gpu();
    }
    return gy_pftrace_close(trace, NULL) != GANTRY_OK;
}
