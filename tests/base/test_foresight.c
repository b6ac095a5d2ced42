/* SPDX-License-Identifier: MIT */
/* When to look for an expected end, on a machine that the test makes up: histories of how long something
 * took, with sleeps that end late and an interrupt that comes later still; how late the ends are seen, and
 * how long the thread looks in vain for that. */
#include "tests/support/cmocka_c11.h"

#include "base/foresight.h"

#include <string.h>

#define US 1000u
#define MS 1000000u
#define WASTE (200 * US) /* what HYBRID may look in vain */

enum { POLLED = 60 * US, INTERRUPT = 150 * US, LOOK = 1 * US, STEPS = 64 };

/* A thread that waits for one thing after the other. */
struct machine {
    struct gy_foresight foresight;
    struct gy_oversleep oversleep;
    uint64_t late_ns[GY_OVERSLEEP_CLASSES]; /* how late sleeps end */
    uint64_t told_late_ns, looked_ns;       /* of the latest step: how late it was seen, and looks in vain */
    uint32_t naps;                          /* of the latest step */
    uint64_t awake_ns;                      /* in all: looks, and 8 us for each nap */
    uint32_t random;
};

static uint32_t roll(struct machine *m, uint32_t below)
{
    m->random = m->random * 1664525u + 1013904223u;
    return (uint32_t)((uint64_t)(m->random >> 8) * below >> 24);
}

static struct machine new_machine(void)
{
    struct machine m = {.late_ns = {6 * US, 14 * US, 25 * US, 60 * US}, .random = 1};
    gy_oversleep_init(&m.oversleep);
    return m;
}

/* Half of the sleeps end at the machine's time, the others are up to twice as late. */
static uint64_t late_by(struct machine *m, uint64_t slept_ns)
{
    uint32_t i = slept_ns < 128 * US ? 0 : slept_ns < 512 * US ? 1 : slept_ns < 2 * MS ? 2 : 3;
    return m->late_ns[i] + (roll(m, 2) == 0 ? roll(m, (uint32_t)m->late_ns[i]) : 0);
}

/* The thread sleeps until its alarm, or is told by the interrupt. */
static uint64_t wake_up(struct machine *m, uint64_t now, uint64_t alarm, uint64_t took)
{
    uint64_t late = late_by(m, alarm - now), woke = alarm + late;
    m->naps++;
    gy_oversleep_learn(&m->oversleep, alarm - now, late);
    return woke < took + INTERRUPT ? woke : took + INTERRUPT;
}

/* What takes `took` ns is waited for: looks at first, then the lookout, then the interrupt. */
static void wait_for(struct machine *m, uint64_t took)
{
    struct gy_lookout lookout = gy_foresight_lookout(&m->foresight, 0);
    uint64_t now = POLLED, vain = now < took ? now : 0;
    m->looked_ns = m->naps = 0;
    while (now < took) {
        uint64_t next = gy_lookout_next(&lookout, &m->oversleep, now);
        if (m->foresight.state == GY_FORESIGHT_NOTHING) {
            now += now / 128;
            vain = now < took ? now : vain;
        } else if (next == UINT64_MAX) {
            now = took + INTERRUPT;
        } else if (next == 0) {
            now += LOOK;
            m->looked_ns += LOOK;
            vain = now < took ? now : vain;
        } else {
            now = wake_up(m, now, next, took);
            vain = now < took && now >= lookout.from_ns ? now : vain;
        }
    }
    m->told_late_ns = now - took;
    m->awake_ns += m->looked_ns + 8 * US * m->naps;
    (void)gy_foresight_learn(&m->foresight, vain, now, WASTE);
    assert_true(gy_foresight_is_valid(&m->foresight));
}

/* ---- the states ---------------------------------------------------------------------------------- */

static void test_nothing_is_foreseen_at_first(void **state)
{
    (void)state;
    struct gy_foresight f = {0};
    struct gy_oversleep o;
    gy_oversleep_init(&o);
    struct gy_lookout none = gy_foresight_lookout(&f, 5 * MS);
    assert_true(gy_foresight_is_valid(&f) && gy_lookout_is_over(&none, 0));
    assert_true(gy_lookout_next(&none, &o, 0) == UINT64_MAX);
    assert_int_equal(gy_foresight_learn(&f, 0, 3 * MS, WASTE), 3 * MS); /* the only one there is */
    assert_int_equal(f.state, GY_FORESIGHT_ONCE);
    struct gy_lookout first = gy_foresight_lookout(&f, 5 * MS);
    assert_in_range(first.from_ns, 7 * MS, 8 * MS);
    assert_in_range(first.until_ns, 8 * MS, 9 * MS);
    assert_in_range(first.nap_ns, 25 * US, 100 * US);
    struct gy_foresight varies = f; /* what was guessed of the spread is forgotten */
    (void)gy_foresight_learn(&f, 3 * MS, 3 * MS + 10 * US, WASTE);
    assert_int_equal(f.state, GY_FORESIGHT_CLOSE);
    (void)gy_foresight_learn(&varies, 4 * MS, 4 * MS, WASTE);
    assert_int_equal(varies.state, GY_FORESIGHT_ROUGH);
}

/* Who was late does not know when the end was: only what contradicts the expectation changes it. */
static void test_being_late_teaches_nothing(void **state)
{
    (void)state;
    const struct gy_foresight known = {GY_FORESIGHT_CLOSE, 2 * MS, 4 * US, 2 * MS};
    struct gy_foresight f = known;
    assert_int_equal(gy_foresight_learn(&f, MS, 2 * MS + 250 * US, WASTE), 2 * MS);
    assert_int_equal(f.usual_ns, 2 * MS);
    assert_int_equal(f.error_ns, 2 * US); /* it is as expected */
    const struct {
        uint64_t least_ns, most_ns, took_ns, error_least, error_most;
    } table[] = {
        {2 * MS + 9 * US, 2 * MS + 10 * US, 2 * MS + 9 * US, 4 * US, 6 * US},      /* seen at once, later */
        {2 * MS - 10 * US, 2 * MS - 9 * US, 2 * MS - 9 * US, 4 * US, 6 * US},      /* and earlier */
        {MS, 2 * MS - 100 * US, 2 * MS - 100 * US, 45 * US, 55 * US},              /* before the first look */
        {MS, 2 * MS - 19 * US, 2 * MS - 19 * US, 18 * US, 18 * US},                /* just before it */
        {2 * MS + 28 * US, 2 * MS + 150 * US, 2 * MS + 28 * US, 18 * US, 18 * US}, /* behind the last one */
        {2 * MS + 28 * US, 4 * MS, 4 * MS - 300 * US, 840 * US, 1000 * US},        /* twice as long */
        {0, MS, MS, 500 * US, 500 * US},                                           /* half as long */
    };
    for (size_t i = 0; i < sizeof(table) / sizeof(table[0]); i++) {
        f = known;
        assert_int_equal(gy_foresight_learn(&f, table[i].least_ns, table[i].most_ns, WASTE),
                         table[i].took_ns);
        assert_in_range(f.error_ns, table[i].error_least, table[i].error_most);
    }
}

static void test_a_large_spread_is_rough(void **state)
{
    (void)state;
    const struct {
        uint64_t usual_ns, may_waste_ns, error_ns; /* the largest that is close */
    } table[] = {{300 * US, 200 * US, 42500}, {4 * MS, 200 * US, 242500}, {4 * MS, 2 * MS, 492500}};
    for (size_t i = 0; i < sizeof(table) / sizeof(table[0]); i++) {
        for (uint64_t more = 0; more < 2; more++) {
            uint64_t usual = table[i].usual_ns, error = table[i].error_ns + 2 * more;
            struct gy_foresight f = {GY_FORESIGHT_CLOSE, usual, 2 * error,
                                     usual}; /* it is as expected: half goes */
            (void)gy_foresight_learn(&f, usual, usual, table[i].may_waste_ns);
            assert_in_range(f.error_ns, error - 1, error + 1);
            assert_int_equal(f.state, more == 0 ? GY_FORESIGHT_CLOSE : GY_FORESIGHT_ROUGH);
        }
    }
}

/* ---- lookouts and sleeps ------------------------------------------------------------------------- */

static void test_what_to_do_next(void **state)
{
    (void)state;
    struct gy_oversleep o;
    gy_oversleep_init(&o);
    const struct gy_lookout close = {10 * MS, 10 * MS + 50 * US, 0},
                            rough = {10 * MS, 10 * MS + 50 * US, 25 * US};
    assert_int_equal(gy_lookout_next(&close, &o, MS), 10 * MS - 100 * US); /* a long sleep ends late */
    assert_int_equal(gy_lookout_next(&close, &o, 10 * MS - 90 * US),
                     10 * MS - 10 * US);                                 /* a short one less */
    assert_int_equal(gy_lookout_next(&close, &o, 10 * MS - 20 * US), 0); /* it is not worth it */
    assert_int_equal(gy_lookout_next(&close, &o, 10 * MS), 0);
    assert_int_equal(gy_lookout_next(&rough, &o, 10 * MS - 20 * US), 10 * MS + 5 * US); /* nor here: a nap */
    assert_int_equal(gy_lookout_next(&rough, &o, 10 * MS), 10 * MS + 25 * US);
    assert_int_equal(gy_lookout_next(&close, &o, 10 * MS + 50 * US - 1), 0);
    assert_true(gy_lookout_next(&close, &o, 10 * MS + 50 * US) == UINT64_MAX);
}

/* It comes to what nine sleeps of ten do not exceed, for each length of sleep by itself. */
static void test_an_oversleep_is_learnt(void **state)
{
    (void)state;
    struct gy_oversleep o;
    gy_oversleep_init(&o);
    for (uint32_t i = 0; i < 4000; i++) {
        uint64_t late = i % 20 == 7 ? 900 * US : (30 + i * 7 % 10) * US; /* 30 to 39 us, and rarely more */
        gy_oversleep_learn(&o, 5 * MS, late);
        gy_oversleep_learn(&o, 50 * US, 3 * US);
    }
    assert_in_range(atomic_load(&o.late_ns[3]), 35 * US, 50 * US);
    assert_in_range(atomic_load(&o.late_ns[0]), 2 * US, 4 * US);
    assert_int_equal(atomic_load(&o.late_ns[1]), 25 * US);
    for (uint32_t i = 0; i < 4000; i++) {
        gy_oversleep_learn(&o, 5 * MS, 2 * MS);
    }
    assert_int_equal(atomic_load(&o.late_ns[3]), 300 * US); /* no thread gets up for ever earlier */
}

/* ---- histories ----------------------------------------------------------------------------------- */

/* Within a few times what always takes as long is seen at once, and costs little. */
static void test_what_is_steady_is_seen_at_once(void **state)
{
    (void)state;
    const uint32_t times_us[] = {300, 500, 1000, 2000, 5000, 10000, 20000};
    for (size_t i = 0; i < sizeof(times_us) / sizeof(times_us[0]); i++) {
        struct machine m = new_machine();
        uint32_t late = 0;
        uint64_t looked = 0;
        for (uint32_t step = 0; step < STEPS; step++) {
            wait_for(&m, times_us[i] * (uint64_t)US + roll(&m, 4 * US));
            if (step >= 10) {
                late += m.told_late_ns > 3 * US;
                looked += m.looked_ns;
            }
        }
        assert_int_equal(m.foresight.state, GY_FORESIGHT_CLOSE);
        assert_in_range(late, 0, (STEPS - 10) / 8);
        assert_in_range(looked / (STEPS - 10), 1, 80 * US);
    }
}

/* A foresight that is wrong by a factor of two, either way, is right again soon. */
static void test_a_change_is_followed(void **state)
{
    (void)state;
    const struct {
        uint32_t before_us, after_us, steps;
    } table[] = {{1000, 2000, 12}, {2000, 1000, 12}, {1000, 1150, 8},
                 {1000, 850, 8},   {20000, 500, 28}, {500, 20000, 12}};
    for (size_t i = 0; i < sizeof(table) / sizeof(table[0]); i++) {
        struct machine m = new_machine();
        for (uint32_t step = 0; step < STEPS; step++) {
            wait_for(&m, table[i].before_us * (uint64_t)US);
        }
        uint32_t late = 0;
        for (uint32_t step = 0; step < STEPS; step++) {
            wait_for(&m, table[i].after_us * (uint64_t)US);
            assert_in_range(m.told_late_ns, 0, INTERRUPT);
            late += step >= table[i].steps && m.told_late_ns > 3 * US;
            assert_in_range(m.looked_ns, 0, step < 16 ? table[i].after_us * US / 4 + 100 * US : 80 * US);
        }
        assert_int_equal(m.foresight.state, GY_FORESIGHT_CLOSE);
        assert_in_range(late, 0, STEPS / 10);
    }
}

/* Told late by 150 us at each step so far, as by an interrupt: it does not stay so. */
static void test_lateness_is_no_trap(void **state)
{
    (void)state;
    struct machine m = new_machine();
    m.foresight = (struct gy_foresight){GY_FORESIGHT_CLOSE, MS + 150 * US, 2 * US, MS + 150 * US};
    uint32_t steps = 0;
    do {
        wait_for(&m, MS);
    } while (m.told_late_ns > 3 * US && ++steps < STEPS);
    assert_in_range(steps, 0, 8);
}

/* What varies by half is seen within a nap or two, and for that a thread looks and naps for a part of the
 * time. */
static void test_what_varies_is_seen_within_naps(void **state)
{
    (void)state;
    const uint32_t times_us[] = {1000, 2000, 10000, 12000};
    for (size_t i = 0; i < sizeof(times_us) / sizeof(times_us[0]); i++) {
        struct machine m = new_machine();
        uint64_t usual = times_us[i] * (uint64_t)US, nap = usual / 64, sum = 0;
        nap = nap < 25 * US ? 25 * US : nap;
        uint32_t late = 0;
        for (uint32_t step = 0; step < 4 * STEPS; step++) {
            uint64_t took = usual / 2 + roll(&m, (uint32_t)usual);
            wait_for(&m, took);
            sum += took;
            late += step >= 10 && m.told_late_ns > nap + 12 * US;
        }
        assert_in_range(late, 0,
                        4 * STEPS / 5); /* a fifth: outside of the lookout, and told by the interrupt */
        assert_in_range(m.awake_ns, 1, sum / 4);
    }
}

/* What varies by half and takes long is told by the interrupt: nobody looks for it. */
static void test_what_varies_and_takes_long_is_not_looked_for(void **state)
{
    (void)state;
    for (uint64_t usual = 30 * MS; usual < 10000 * (uint64_t)MS; usual *= 3) {
        struct machine m = new_machine();
        uint32_t naps = 0;
        for (uint32_t step = 0; step < STEPS; step++) {
            wait_for(&m, usual / 2 + roll(&m, (uint32_t)(usual / MS)) * (uint64_t)MS);
            naps += m.naps + (m.looked_ns != 0);
        }
        assert_in_range(naps, 0, STEPS / 8); /* two or three in a row that are alike */
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_nothing_is_foreseen_at_first),
        cmocka_unit_test(test_being_late_teaches_nothing),
        cmocka_unit_test(test_a_large_spread_is_rough),
        cmocka_unit_test(test_what_to_do_next),
        cmocka_unit_test(test_an_oversleep_is_learnt),
        cmocka_unit_test(test_what_is_steady_is_seen_at_once),
        cmocka_unit_test(test_a_change_is_followed),
        cmocka_unit_test(test_lateness_is_no_trap),
        cmocka_unit_test(test_what_varies_is_seen_within_naps),
        cmocka_unit_test(test_what_varies_and_takes_long_is_not_looked_for),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
