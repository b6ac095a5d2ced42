/* SPDX-License-Identifier: MIT */
/* The bucket with a clock that the test moves: its bound in every window, and how much an idle or a starved
 * tenant may use afterwards. */
#include "partition/bucket.h"
#include "partition/usage.h"
#include "tests/support/cmocka_c11.h"
#include "tests/support/plant.h"

#include <math.h>
#include <string.h>

#define MS 1000000u
#define SECOND 1000000000u
#define MOST 2000000u

static uint32_t seed = 1;

static uint32_t draw(uint32_t below)
{
    seed = seed * 1664525u + 1013904223u;
    return (uint32_t)(((uint64_t)(seed >> 8) * below) >> 24);
}

/* One tenant that always has work, on a device that does one piece after another. */
struct tenant {
    struct gy_bucket bucket;
    uint64_t now, device_free;
    uint32_t mean, in_flight_limit;
    double estimate;
    uint64_t ends[16];
    double predicted[16], used[16];
    uint32_t head, count;
    double longest, total;
    /* The time used up to each moment, for windows. */
    uint64_t at[MOST];
    double sum[MOST];
    uint32_t points;
};

static void end_first(struct tenant *t)
{
    uint32_t i = t->head;
    t->now = t->ends[i] > t->now ? t->ends[i] : t->now;
    gy_bucket_refill(&t->bucket, t->now, false);
    gy_bucket_end(&t->bucket, t->predicted[i], t->used[i]);
    t->estimate = t->estimate * 0.8 + t->used[i] * 0.2;
    t->total += t->used[i];
    t->at[t->points] = t->ends[i];
    t->sum[t->points++] = t->total;
    t->head = (t->head + 1) % 16;
    t->count--;
}

static void begin_one(struct tenant *t)
{
    uint32_t i = (t->head + t->count++) % 16;
    double used = (double)t->mean * (0.5 + draw(1000) / 1000.0); /* half to one and a half */
    t->longest = used > t->longest ? used : t->longest;
    uint64_t start = t->device_free > t->now ? t->device_free : t->now;
    t->device_free = t->ends[i] = start + (uint64_t)used;
    t->predicted[i] = t->estimate;
    t->used[i] = used;
    gy_bucket_begin(&t->bucket, t->estimate);
}

static void run(struct tenant *t, double rate, uint32_t mean, uint32_t in_flight, uint64_t for_ns)
{
    memset(t, 0, sizeof(*t));
    t->mean = mean;
    t->estimate = mean;
    gy_bucket_init(&t->bucket, rate, 2 * MS, 0);
    while (t->now < for_ns) {
        gy_bucket_refill(&t->bucket, t->now, false);
        if (gy_bucket_admits(&t->bucket) && t->count < in_flight) {
            begin_one(t);
        } else if (t->count == in_flight ||
                   (t->count > 0 && t->ends[t->head] <= gy_bucket_ready_ns(&t->bucket))) {
            end_first(t);
        } else {
            t->now = gy_bucket_ready_ns(&t->bucket);
        }
    }
}

/* The greatest |used - rate * W| over all windows of this length that begin where a piece ended. */
static double worst_error(const struct tenant *t, double rate, uint64_t window)
{
    double worst = 0;
    for (uint32_t a = 0, b = 0; a < t->points; a++) {
        while (b < t->points && t->at[b] < t->at[a] + window) {
            b++;
        }
        if (b == t->points) {
            break;
        }
        double used = t->sum[b - 1] - t->sum[a]; /* the pieces that ended in (at[a], at[a] + window) */
        double error = fabs(used - rate * (double)window);
        worst = error > worst ? error : worst;
    }
    return worst;
}

static void test_every_window_keeps_the_bound(void **state)
{
    (void)state;
    static struct tenant t;
    static const double rates[] = {0.2, 0.5, 0.8};
    static const uint32_t means[] = {50000, 500000, 5000000};
    static const uint64_t windows[] = {100 * (uint64_t)MS, SECOND, 10 * (uint64_t)SECOND};
    for (size_t r = 0; r < 3; r++) {
        for (size_t m = 0; m < 3; m++) {
            for (uint32_t n = 1; n <= 4; n *= 2) {
                run(&t, rates[r], means[m], n, 30 * (uint64_t)SECOND);
                /* each end of the window cuts a piece */
                double bound = 2 * MS + (n + 1) * t.longest + 2 * t.longest;
                assert_true(fabs(t.total / (double)t.now - rates[r]) < 0.005);
                for (size_t w = 0; w < 3; w++) {
                    assert_true(worst_error(&t, rates[r], windows[w]) <= bound);
                }
            }
        }
    }
}

static void test_an_idle_bucket_saves_its_burst_and_no_more(void **state)
{
    (void)state;
    struct gy_bucket b;
    gy_bucket_init(&b, 0.5, 2 * MS, 1000);
    gy_bucket_refill(&b, SECOND, true);
    assert_true(b.tokens == 2 * MS);
    gy_bucket_begin(&b, 3 * MS);
    assert_false(gy_bucket_admits(&b));
    gy_bucket_end(&b, 3 * MS, 3 * MS);
    assert_true(b.tokens == -1.0 * MS);
    assert_int_equal(gy_bucket_ready_ns(&b), SECOND + 2 * MS + 1);
    gy_bucket_refill(&b, SECOND + 2 * MS + 10, false);
    assert_true(gy_bucket_admits(&b));
    assert_int_equal(gy_bucket_ready_ns(&b), SECOND + 2 * MS + 10);
}

static void test_a_busy_one_catches_up_to_the_ceiling(void **state)
{
    (void)state;
    struct gy_bucket b;
    gy_bucket_init(&b, 0.5, 2 * MS, 0);
    gy_bucket_refill(&b, SECOND / 2, false); /* others starved it: it wanted all the time */
    assert_true(b.tokens > 200 * MS);
    gy_bucket_refill(&b, 60 * (uint64_t)SECOND, false);
    assert_true(b.tokens == 0.5 * SECOND);
    gy_bucket_refill(&b, SECOND, false); /* time does not go back */
    assert_true(b.tokens == 0.5 * SECOND);
    gy_bucket_refill(&b, 60 * (uint64_t)SECOND, true);
    assert_true(b.tokens == 2 * MS);
}

static void test_usage_finds_the_worst_windows(void **state)
{
    (void)state;
    static struct gy_gpu_usage u;
    gy_gpu_usage_init(&u, 0);
    /* It uses half of every 10 ms for 12 s, and nine tenths in one second of them. */
    for (uint64_t i = 0; i < 1200; i++) {
        gy_gpu_usage_add(&u, i * 10 * MS + MS, i >= 300 && i < 400 ? 9.0 * MS : 5.0 * MS);
    }
    gy_gpu_usage_add(&u, 12001 * (uint64_t)MS, 0);
    assert_true(fabs(u.worst[0] - 0.9) < 1e-9);
    assert_true(fabs(u.worst[1] - 0.9) < 1e-9);
    assert_true(fabs(u.worst[2] - 0.54) < 1e-9);
    assert_true(fabs(u.used_ns - (1100 * 5.0 + 100 * 9.0) * MS) < 1);
    /* nothing of the time before is in a window any more */
    gy_gpu_usage_add(&u, 100 * (uint64_t)SECOND, 1.0);
    assert_true(u.sums[0] == 0 && u.sums[2] == 0);
    assert_true(fabs(u.worst[1] - 0.9) < 1e-9);
}

static void test_a_bucket_that_contradicts_itself_is_seen(void **state)
{
    (void)state;
    struct gy_bucket b;
    gy_bucket_init(&b, 0.5, 1000, 0);
    PLANT(gy_bucket_is_valid(&b), b.rate, 0);
    PLANT(gy_bucket_is_valid(&b), b.burst, -1);
    PLANT(gy_bucket_is_valid(&b), b.ceiling, 999);
    PLANT(gy_bucket_is_valid(&b), b.tokens, 1e9);
    PLANT(gy_bucket_is_valid(&b), b.in_flight, -1);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_a_bucket_that_contradicts_itself_is_seen),
        cmocka_unit_test(test_every_window_keeps_the_bound),
        cmocka_unit_test(test_an_idle_bucket_saves_its_burst_and_no_more),
        cmocka_unit_test(test_a_busy_one_catches_up_to_the_ceiling),
        cmocka_unit_test(test_usage_finds_the_worst_windows),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
