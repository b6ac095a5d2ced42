/* SPDX-License-Identifier: MIT */
/* Clocks of SMs on made-up devices, where the truth is known. */
#include "tests/support/cmocka_c11.h"

#include "base/alloc.h"
#include "profile/sm_clock.h"
#include "profile/sm_times.h"

#include <stdlib.h>
#include <string.h>

enum { SMS = 132, ROUNDS = 64, COUNT = SMS * ROUNDS, TICK = 32 };

static struct gy_sm_offset offsets[GY_SMS];

static uint64_t p99(uint32_t count)
{
    uint64_t errors[GY_SMS];
    for (uint32_t i = 0; i < count; i++) {
        errors[i] = gy_sm_offset_error(&offsets[i]);
    }
    return gy_sm_p99(errors, count);
}

static uint64_t random_below(uint64_t limit)
{
    static uint64_t state = 88172645463325252u;
    state ^= state << 13;
    state ^= state >> 7;
    state ^= state << 17;
    return state % limit;
}

/* Steps of all SMs in turn, some 5 ns apart; the way to the counter and back takes 350 ns, give or take 60;
 * clocks tick. */
static struct gy_sm_sample *make_samples(const int64_t *ahead)
{
    struct gy_sm_sample *samples = calloc(COUNT, sizeof(*samples));
    assert_non_null(samples);
    for (uint32_t i = 0; i < COUNT; i++) {
        uint32_t sm = i * 61 % SMS; /* each SM is read once in SMS steps */
        uint64_t now = 1700000000000000000u + i * 5;
        uint64_t before = now - 320 - random_below(60) + (uint64_t)ahead[sm];
        uint64_t after = now + 320 + random_below(60) + (uint64_t)ahead[sm];
        samples[i] = (struct gy_sm_sample){before / TICK * TICK, after / TICK * TICK, sm, 0};
    }
    return samples;
}

static void test_offsets_are_found(void **state)
{
    (void)state;
    int64_t ahead[SMS] = {0};
    ahead[7] = 500;
    ahead[100] = -300;
    struct gy_sm_sample *samples = make_samples(ahead);
    assert_int_equal(gy_sm_offsets(samples, COUNT, offsets), SMS);
    for (uint32_t sm = 0; sm < SMS; sm++) {
        assert_int_equal(offsets[sm].sm, sm);
        assert_true(offsets[sm].samples > ROUNDS / 2);
        double off = offsets[sm].ns - (double)ahead[sm];
        assert_true(off > -20 && off < 20);
    }
    assert_int_equal(p99(SMS), (uint64_t)(-offsets[100].ns + 0.999)); /* one is above */
    free(samples);
}

static void test_nothing_is_said_without_turns(void **state)
{
    (void)state;
    int64_t ahead[SMS] = {0};
    struct gy_sm_sample *samples = make_samples(ahead);
    samples[COUNT / 2].before_ns = 0; /* a step that no SM took */
    assert_int_equal(gy_sm_offsets(samples, COUNT, offsets), 0);
    free(samples);
    samples = make_samples(ahead);
    for (uint32_t i = 0; i < COUNT; i++) { /* one SM after the other, like blocks that wait for a place */
        samples[i].sm = i / ROUNDS;
    }
    assert_int_equal(gy_sm_offsets(samples, COUNT, offsets), 0);
    assert_int_equal(gy_sm_offsets(samples, 8, offsets), 0); /* and with few steps neither */
    assert_int_equal(p99(0), 0);
    gy_fault_arm(0);
    samples[0].sm = 1;
    assert_int_equal(gy_sm_offsets(samples, COUNT, offsets), 0);
    gy_fault_arm(-1);
    free(samples);
}

static void test_lines_give_each_sm_its_time(void **state)
{
    (void)state;
    static struct gy_sm_anchor begin[SMS], end[SMS], before[SMS];
    static struct gy_sm_line lines[SMS];
    const uint64_t span = 50000000, span_ns = 25252525; /* length of the batch, in steps and in ns */
    for (uint32_t sm = 0; sm < SMS; sm++) {
        uint64_t clock = 1000000007u * sm + 5, timer = 1700000000000000000u + sm;
        begin[sm] = (struct gy_sm_anchor){clock, timer, 1, TICK};
        end[sm] = (struct gy_sm_anchor){clock + span, timer + span_ns, 1, TICK};
    }
    begin[3].claimed = 0;                  /* the SM was busy */
    begin[4].claimed = end[4].claimed = 0; /* the SM was never seen */
    end[5].timer_ns += 400;                /* its clock has another rate than the others */
    begin[6] = (struct gy_sm_anchor){0};   /* an earlier batch knows the SM */
    before[6] = (struct gy_sm_anchor){end[6].clock - 2 * span, end[6].timer_ns - 2 * span_ns, 1, 0};
    gy_sm_lines(begin, end, SMS, before, lines);
    for (uint32_t sm = 0; sm < SMS; sm++) {
        uint64_t middle = end[sm].clock - span / 2;
        int64_t off =
            (int64_t)(gy_sm_line_at(&lines[sm], middle) - end[sm].timer_ns) + (int64_t)(span_ns / 2);
        if (sm == 4) {
            assert_true(lines[sm].ns_per_clock == 0);
            continue;
        }
        if (sm == 5) {
            assert_true(lines[sm].error_ns >= TICK + 399 && off < 0 && off >= -200);
            continue;
        }
        assert_true(off >= -2 && off <= 2);
        assert_in_range(lines[sm].error_ns, TICK, TICK + 3);
        assert_int_equal(before[sm].clock, end[sm].clock);
    }
    memset(begin, 0, sizeof(begin)); /* the next batch: the end of the last one is its begin */
    for (uint32_t sm = 0; sm < SMS; sm++) {
        end[sm].clock += span;
        end[sm].timer_ns += span_ns;
    }
    gy_sm_lines(begin, end, SMS, before, lines);
    assert_int_equal(gy_sm_line_at(&lines[20], end[20].clock - span), end[20].timer_ns - span_ns);
    memset(before, 0, sizeof(before));
    gy_sm_lines(begin, end, SMS, before, lines); /* a single anchor has no rate */
    assert_true(lines[20].ns_per_clock == 0);
}

/* Of a clock that is slower than the host's: durations beyond 32 bits of ns are told as the longest. */
static void test_durations_are_converted_and_bounded(void **state)
{
    (void)state;
    enum { RATE = 10, FIRST = 1000, TIME = 1000000 };
    static const uint32_t clocks[] = {0, 1, 1000, UINT32_MAX / RATE, UINT32_MAX / RATE + 1, UINT32_MAX};
    enum { BLOCKS = sizeof(clocks) / sizeof(clocks[0]) };
    const struct gy_sm_anchor begin = {FIRST, TIME, 1, 0}, end = {FIRST + TIME, TIME + RATE * TIME, 1, 0};
    gantry_cta_record records[BLOCKS];
    for (uint32_t i = 0; i < BLOCKS; i++) {
        records[i] = (gantry_cta_record){(FIRST + i) | GANTRY_CTA_OWN_CLOCK, clocks[i], 0};
    }
    const struct gy_cta_launch launch = {.count = BLOCKS};
    const struct gy_cta_batch batch = {.records = records,
                                       .launches = &launch,
                                       .launch_count = 1,
                                       .anchor_count = 1,
                                       .anchors = {&begin, &end}};
    struct gy_sm_times *times = gy_sm_times_create();
    assert_non_null(times);
    gy_sm_times_convert(times, &batch);
    for (uint32_t i = 0; i < BLOCKS; i++) {
        const uint64_t ns = (uint64_t)clocks[i] * RATE;
        assert_int_equal(records[i].start_ns, TIME + RATE * i);
        assert_int_equal(records[i].duration_ns, ns < UINT32_MAX ? ns : UINT32_MAX);
    }
    gy_sm_times_destroy(times);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_offsets_are_found),
        cmocka_unit_test(test_nothing_is_said_without_turns),
        cmocka_unit_test(test_lines_give_each_sm_its_time),
        cmocka_unit_test(test_durations_are_converted_and_bounded),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
