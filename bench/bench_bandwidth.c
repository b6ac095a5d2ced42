/* SPDX-License-Identifier: MIT */
/* What gantry_bandwidth_yield() costs a loop while the gate is down: the loop with it against the loop
 * without. Both are the same but for the call, so the difference of the two columns is its price. */
#include "bench/harness.h"

#include <gantry/bandwidth.h>

enum { ROUNDS = 4000000 };

struct loop {
    uint32_t value;
};

static const uint32_t FIRST = 1, LAST = 1 + ROUNDS;

static bool begin(void *arg)
{
    ((struct loop *)arg)->value = FIRST;
    return true;
}

/* The compiler must neither fold the rounds nor know what memory holds. */
static bool run_with(void *arg)
{
    struct loop *loop = arg;
    for (int i = 0; i < ROUNDS; i++) {
        gantry_bandwidth_yield();
        loop->value++;
        __asm__ volatile("" ::: "memory");
    }
    return true;
}

static bool run_without(void *arg)
{
    struct loop *loop = arg;
    for (int i = 0; i < ROUNDS; i++) {
        loop->value++;
        __asm__ volatile("" ::: "memory");
    }
    return true;
}

static bool check(void *arg)
{
    return ((struct loop *)arg)->value == LAST;
}

static bool bench_bandwidth(const struct bench_options *options)
{
    struct loop loop = {0};
    const struct bench_case yield = {
        .name = "bandwidth/yield-down",
        .item = "call",
        .items = ROUNDS,
        .ours = {"gantry_bandwidth_yield", begin, run_with, check},
        .yardstick = {"no-call", begin, run_without, check},
        .arg = &loop,
    };
    return bench_run(options, &yield, NULL);
}

const struct gantry_bench gantry_bench_bandwidth = {
    .name = "bandwidth",
    .summary = "the price of gantry_bandwidth_yield() while the gate is down",
    .help = "A loop with gantry_bandwidth_yield() in it against the same loop without.  The difference of "
            "both is\n"
            "the price of a call while the gate is down.\n",
    .needs_no_device = true,
    .main = bench_bandwidth,
};
