/* SPDX-License-Identifier: MIT */
/* make_tenants FILE: a recording of two partitions and a task manager with shares, written by hand: each of
 * its times and counts is known.  tests/profile/test_tenants.py says what a report must find in it. */
#include "profile/pftrace.h"

#include <stdio.h>

#define MS UINT64_C(1000000)
#define US UINT64_C(1000)

static struct gy_pftrace *trace;
static const uint64_t start = 1000 * MS;

static void task(const char *partition, uint32_t stream, uint64_t begin_ns, uint64_t ns, uint32_t manager)
{
    const struct gy_pftrace_stage stage = {.gpu = 1,
                                           .gpu_name = "GPU 0: example",
                                           .partition = partition,
                                           .stream = stream,
                                           .name = "task",
                                           .begin_ns = begin_ns,
                                           .end_ns = begin_ns + ns,
                                           .manager = manager};
    gy_pftrace_add_stage(trace, &stage);
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

/* Tasks of alpha take 1 us, 2 us, ... 100 us, and begin every 2 ms; beta has ten of 500 us, of which the
 * first four are charged to manager 5. */
static void tasks(void)
{
    for (uint64_t i = 1; i <= 100; i++) {
        task("alpha", i % 2, start + 2 * i * MS, i * US, 0);
    }
    for (uint64_t i = 0; i < 10; i++) {
        task("beta", 2, start + 2 * (50 + i) * MS + MS, 500 * US, i < 4 ? 5 : 0);
    }
}

static void host(gy_pftrace_track thread, enum gy_span_category category, const char *name, uint64_t begin_ns,
                 uint64_t end_ns)
{
    const struct gy_pftrace_slice slice = {
        .track = thread, .category = category, .name = name, .begin_ns = begin_ns, .end_ns = end_ns};
    gy_pftrace_add_slice(trace, &slice);
}

/* Share holds tasks for all of gap 10, for 1200 us of the 1980 us of gap 20, and for 400 of gap 30; the
 * dispatcher is in a launch callback for all of gap 40, and in a batch for all of gap 45. */
static void holds(void)
{
    const gy_pftrace_track gd = gy_pftrace_add_thread(trace, 7, "GD");
    host(gd, GY_SPAN_SHARE, "alpha", gap_begin(10), gap_end(10));
    host(gd, GY_SPAN_SHARE, "alpha / turn of beta", gap_begin(20), gap_begin(20) + 1200 * US);
    host(gd, GY_SPAN_SHARE, "task manager 5", gap_begin(30), gap_begin(30) + 400 * US);
    host(gd, GY_SPAN_LAUNCH, "task", gap_begin(40), gap_end(40));
    host(gd, GY_SPAN_BATCH, "batch", gap_begin(45), gap_end(45));
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
    const gy_pftrace_track of_alpha = gy_pftrace_add_counter_track(trace, process, "GPU us of alpha");
    const gy_pftrace_track of_manager =
        gy_pftrace_add_counter_track(trace, process, "GPU us of task manager 5");
    for (int i = 0; i < 5; i++) {
        count(of_alpha, alpha[i][0], alpha[i][1]);
    }
    for (int i = 0; i < 3; i++) {
        count(of_manager, manager[i][0], manager[i][1]);
    }
    count(gy_pftrace_add_counter_track(trace, process, "GPU share of alpha"), 0, 300000);
    count(gy_pftrace_add_counter_track(trace, process, "GPU share of task manager 5"), 0, 100000);
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
    if (argc != 2 || gy_pftrace_open(argv[1], false, 3, &trace) != GANTRY_OK) {
        fprintf(stderr, "%s\n", argc != 2 ? "usage: make_tenants FILE" : gantry_last_error());
        return 1;
    }
    tasks();
    holds();
    charges();
    places();
    return gy_pftrace_close(trace, NULL) != GANTRY_OK;
}
