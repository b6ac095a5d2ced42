/* SPDX-License-Identifier: MIT */
/* A job on two devices, simulated: each has a thread that launches ahead, and the last kernel of each step
 * waits for that of the other device, as NCCL's do.  The arithmetic is the library's, and the time is the
 * simulation's. */
#include "limit/pace.h"
#include "tests/support/cmocka_c11.h"

#include <string.h>

#define US UINT64_C(1000)
#define MS (1000 * US)
#define S (1000 * MS)
#define BEGIN (5 * S)
#define TICK (5 * US)
#define LENGTH (4 * S)

enum { QUEUE = 1024, LAUNCH_TICKS = 1, LOOK_TICKS = 100, POLL_TICKS = 30 };

/* What a rank does, over and over: so many kernels of so long, and one that waits. */
struct steps {
    uint32_t kernels;
    uint64_t each_ns, last_ns;
    bool is_awaited;  /* the thread waits for the step before it begins the next one */
    bool is_together; /* the last kernel waits for the other device's */
    double slower;    /* the second device's kernels take so much longer */
};

struct kernel {
    bool is_last;
    uint64_t cost_ns, began_ns, ends_ns; /* 0: not yet */
};

struct rank {
    struct kernel queue[QUEUE];
    uint32_t put, taken, charged; /* launched, over, and seen to be over */
    uint32_t in_step;
    uint32_t met, done; /* last kernels that have begun, and that have ended */
    uint64_t busy_until;
};

static struct gy_region region;
static struct gy_region_place job = {.region = &region, .slot = 3};
static struct rank ranks[2];

/* The device's first kernel goes on, ends or waits. */
static void compute(struct rank *own, const struct rank *other, const struct steps *steps, uint64_t now)
{
    while (own->taken < own->put) {
        struct kernel *k = &own->queue[own->taken % QUEUE];
        if (k->began_ns == 0) {
            k->began_ns = now;
            own->met += k->is_last;
        }
        const bool waits = k->is_last && steps->is_together && other->met < own->met;
        k->ends_ns = k->ends_ns == 0 && !waits ? now + k->cost_ns : k->ends_ns;
        if (waits || now < k->ends_ns) {
            return;
        }
        own->done += k->is_last;
        own->taken++;
    }
}

/* The meter sees what has ended. */
static void poll(struct rank *own, int d, uint64_t now)
{
    for (; own->charged < own->taken; own->charged++) {
        const struct kernel *k = &own->queue[own->charged % QUEUE];
        gy_pace_charge(&job, d, k->ends_ns - k->began_ns, now);
        gy_pace_give_back(&job, d, k->cost_ns);
    }
}

static void launch(struct rank *own, int d, const struct steps *steps, uint64_t now)
{
    uint64_t ready = 0;
    const bool waits = steps->is_awaited && own->in_step == 0 && own->charged < own->put;
    if (now < own->busy_until || waits || own->put - own->charged == QUEUE) {
        return;
    }
    if (gy_pace_ask(&region, d, &job.settings, now, &ready) == GY_PACE_HOLD) {
        const uint64_t most = now + LOOK_TICKS * TICK;
        own->busy_until = ready < most ? ready : most;
        return;
    }
    const bool is_last = own->in_step == steps->kernels;
    const double longer = d == 1 ? 1 + steps->slower : 1;
    const uint64_t cost = is_last ? steps->last_ns : (uint64_t)((double)steps->each_ns * longer);
    own->queue[own->put++ % QUEUE] = (struct kernel){.is_last = is_last, .cost_ns = cost};
    gy_pace_reserve(&job, d, cost);
    gy_pace_expect(&job, d, cost, now);
    own->in_step = is_last ? 0 : own->in_step + 1;
    own->busy_until = now + LAUNCH_TICKS * TICK;
}

/* Steps of device `d` over those that it makes alone in its share of the time. */
static double part_of_share(int d, const struct steps *steps)
{
    const double longer = d == 1 || steps->is_together ? 1 + steps->slower : 1;
    const double step = steps->kernels * (double)steps->each_ns * longer + (double)steps->last_ns;
    return ranks[d].done * step / ((double)LENGTH * job.settings.share / GY_REGION_WHOLE);
}

static double used(int d)
{
    return (double)atomic_load(&region.devices[d].charged) / (double)LENGTH;
}

static void begin(uint32_t share)
{
    memset(&region, 0, sizeof(region));
    memset(ranks, 0, sizeof(ranks));
    job.settings = (struct gy_region_settings){.share = share, .devices = 3, .credit_ms = 1000};
    assert_int_equal(gy_region_device(&region, 7, BEGIN), 0);
    assert_int_equal(gy_region_device(&region, 8, BEGIN), 1);
}

static void turn(int d, const struct steps *steps, uint64_t now)
{
    compute(&ranks[d], &ranks[1 - d], steps, now);
    if ((now - BEGIN) / TICK % POLL_TICKS == (uint64_t)d * 3) {
        poll(&ranks[d], d, now);
    }
    launch(&ranks[d], d, steps, now);
}

static void simulate(const struct steps *steps, uint32_t share)
{
    begin(share);
    for (uint64_t now = BEGIN; now < BEGIN + LENGTH; now += TICK) {
        turn(0, steps, now);
        turn(1, steps, now);
    }
}

/* Nobody waits for long, so the steps get what the share is worth; and no device gets more than it. */
static void test_devices_that_wait_for_each_other_keep_one_pace(void **state)
{
    static const struct steps rows[] = {
        {30, 100 * US, 200 * US, true, true, 0},    {30, 100 * US, 200 * US, false, true, 0},
        {3, 100 * US, 50 * US, false, true, 0},     {60, 40 * US, 100 * US, false, true, 0},
        {1, 20 * US, 20 * US, false, true, 0},      {10, 300 * US, 1000 * US, true, true, 0},
        {30, 100 * US, 200 * US, false, true, 0.3}, {1, 3000 * US, 300 * US, true, true, 0},
    };
    static const uint32_t shares[] = {100000, 300000, 500000};
    (void)state;
    for (size_t i = 0; i < sizeof(rows) / sizeof(rows[0]); i++) {
        for (size_t k = 0; k < sizeof(shares) / sizeof(shares[0]); k++) {
            simulate(&rows[i], shares[k]);
            for (int d = 0; d < 2; d++) {
                print_message("%u kernels of %u us, share %u: %.3f of the share's steps, %.2f %% used\n",
                              rows[i].kernels, (uint32_t)(rows[i].each_ns / US), shares[k] / 10000,
                              part_of_share(d, &rows[i]), 100 * used(d));
                assert_true(part_of_share(d, &rows[i]) >= 0.85);
                assert_true(used(d) <= (double)shares[k] / GY_REGION_WHOLE + 0.01);
                assert_int_equal(atomic_load(&region.devices[d].credits), 0);
            }
        }
    }
}

/* Devices whose work has nothing to do with each other get their shares, each for itself. */
static void test_devices_that_do_not_wait_are_not_coupled(void **state)
{
    static const struct steps rows[] = {
        {30, 100 * US, 200 * US, false, false, 0},
        {30, 100 * US, 200 * US, true, false, 0.5},
        {2, 8 * MS, 2 * MS, false, false, 0.5},
    };
    (void)state;
    for (size_t i = 0; i < sizeof(rows) / sizeof(rows[0]); i++) {
        simulate(&rows[i], 300000);
        for (int d = 0; d < 2; d++) {
            assert_true(part_of_share(d, &rows[i]) > 0.97);
            assert_true(used(d) < 0.31);
            assert_int_equal(atomic_load(&region.devices[d].awaited), 0);
        }
    }
}

/* A kernel that stays on one device holds up no launch on another one, and lets none through for long. */
static void test_a_kernel_that_stays_lets_nothing_through(void **state)
{
    static const struct steps steps = {30, 100 * US, 200 * US, false, false, 0};
    (void)state;
    begin(300000);
    gy_pace_reserve(&job, 1, MS);
    gy_pace_expect(&job, 1, MS, BEGIN);
    for (uint64_t now = BEGIN; now < BEGIN + LENGTH; now += TICK) {
        turn(0, &steps, now);
        gy_pace_reserve(&job, 1, TICK); /* it runs on */
    }
    assert_true(used(0) < 0.31);
    assert_true(part_of_share(0, &steps) > 0.95);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_devices_that_wait_for_each_other_keep_one_pace),
        cmocka_unit_test(test_devices_that_do_not_wait_are_not_coupled),
        cmocka_unit_test(test_a_kernel_that_stays_lets_nothing_through),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
