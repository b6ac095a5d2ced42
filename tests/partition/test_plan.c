/* SPDX-License-Identifier: MIT */
/* Plans: the tables of the documentation hold, and a random search looks for plans that overlap or lose
 * SMs. */
#include "partition/plan.h"
#include "tests/partition/plan_support.h"
#include "tests/support/cmocka_c11.h"

#include <math.h>
#include <stddef.h>
#include <stdio.h>
#include <string.h>

#define EXACT GANTRY_PARTITION_EXACT
#define AT_LEAST GANTRY_PARTITION_AT_LEAST
#define REST GANTRY_PARTITION_REST

static void assert_split(uint32_t groups, uint32_t min, bool ignore, uint32_t made, uint32_t sms,
                         uint32_t rest)
{
    gantry_sm_topology both[] = {gh200(), h200()}; /* the sizes do not depend on the clusters' */
    for (size_t i = 0; i < 2; i++) {
        struct gy_split_result r = gy_split_by_count(&both[i], groups, min, ignore);
        assert_int_equal(r.groups, made);
        assert_int_equal(r.group_sms, sms);
        assert_int_equal(r.remaining, rest);
    }
}

/* The CUDA programming guide's table of splits by count on 132 SMs. */
static void test_split_by_count_gives_what_the_guide_says(void **state)
{
    (void)state;
    assert_split(2, 72, false, 1, 72, 60);
    assert_split(6, 11, false, 6, 16, 36);
    assert_split(6, 11, true, 6, 12, 60);
    assert_split(2, 1, false, 2, 8, 116);
}

static void assert_equal_plan(uint32_t count, uint32_t min, bool ignore, uint32_t sms, uint32_t rest)
{
    gantry_sm_topology t = gh200();
    gantry_partition_layout out;
    gantry_partition_request r[7];
    char names[6][8];
    for (uint32_t i = 0; i < count; i++) {
        snprintf(names[i], sizeof(names[i]), "p%u", i);
        r[i] = request(names[i], AT_LEAST, min);
        r[i].ignore_coscheduling = ignore;
    }
    r[count] = request("rest", REST, 0);
    assert_ok(plan(&t, r, count + 1, &out));
    for (uint32_t i = 0; i < count; i++) {
        assert_int_equal(out.partitions[i].planned_sms, sms);
    }
    assert_int_equal(out.partitions[count].planned_sms, rest);
    assert_int_equal(out.default_partition, count);
    assert_int_equal(out.unused_sms, 0);
}

/* The same table as plans.  One of its rows is impossible: 2 × 72 of 132. */
static void test_plans_give_the_same(void **state)
{
    (void)state;
    assert_equal_plan(1, 72, false, 72, 60);
    assert_equal_plan(6, 11, false, 16, 36);
    assert_equal_plan(6, 11, true, 12, 60);
    assert_equal_plan(2, 1, false, 8, 116);
    gantry_sm_topology t = gh200();
    gantry_partition_layout out;
    gantry_partition_request two[] = {request("a", AT_LEAST, 72), request("b", AT_LEAST, 72)};
    assert_int_equal(plan(&t, two, 2, &out), GANTRY_ERR_INVALID_ARGUMENT);
    assert_non_null(strstr(gantry_last_error(), "'b' wants 72 SMs"));
}

/* FlashInfer's helpers: (2, 16) → 16, 16, 100; [8, 16, 24] leaves 84. */
static void test_helper_splits(void **state)
{
    (void)state;
    gantry_sm_topology t = gh200();
    gantry_partition_layout out;
    gantry_partition_request a[] = {request("a", EXACT, 16), request("b", EXACT, 16), request("r", REST, 0)};
    assert_ok(plan(&t, a, 3, &out));
    assert_int_equal(out.partitions[2].planned_sms, 100);
    gantry_partition_request b[] = {request("a", EXACT, 8), request("b", EXACT, 16), request("c", EXACT, 24)};
    assert_ok(plan(&t, b, 3, &out));
    assert_int_equal(out.count, 4);
    assert_string_equal(out.partitions[3].name, "default");
    assert_int_equal(out.partitions[3].planned_sms, 84);
    assert_int_equal(out.partitions[3].request, UINT32_MAX);
    gantry_partition_request c[] = {request("long", EXACT, 112), request("critical", EXACT, 16)};
    assert_ok(plan(&t, c, 2, &out)); /* 14 + 2 units; the 4 SMs left over are the default */
    assert_int_equal(out.partitions[2].planned_sms, 4);
    assert_int_equal(out.partitions[2].cluster_size, 0);
}

/* The same 112 + 16 where clusters leave only 15 units: with the SMs left over, or in finer units. */
static void test_fewer_units_than_sms(void **state)
{
    (void)state;
    gantry_sm_topology t = h200();
    gantry_partition_layout out;
    gantry_partition_request r[] = {request("long", EXACT, 112), request("critical", EXACT, 16)};
    assert_int_equal(plan(&t, r, 2, &out), GANTRY_ERR_INVALID_ARGUMENT);
    r[0] = request("long", REST, 0);
    assert_ok(plan(&t, r, 2, &out));
    assert_int_equal(out.partitions[0].planned_sms, 116);
    r[0] = request("long", EXACT, 112);
    r[0].ignore_coscheduling = 1;
    assert_ok(plan(&t, r, 2, &out));
    assert_int_equal(out.partitions[0].planned_sms, 112);
    assert_int_equal(out.partitions[1].planned_sms, 16);
    assert_int_equal(out.partitions[2].planned_sms, 4);
    r[0] = request("long", AT_LEAST, 121);
    assert_int_equal(plan(&t, r, 1, &out), GANTRY_ERR_INVALID_ARGUMENT);
    r[0].backfill = 1; /* 14 units and the remainder */
    assert_ok(plan(&t, r, 1, &out));
    assert_int_equal(out.partitions[0].planned_sms, 124);
    r[0] = request("long", EXACT, 20);
    assert_int_equal(plan(&t, r, 1, &out), GANTRY_ERR_INVALID_ARGUMENT);
    r[0].backfill = 1; /* a unit and the remainder */
    assert_ok(plan(&t, r, 1, &out));
    assert_int_equal(out.partitions[0].planned_sms, 20);
}

static void test_small_units(void **state)
{
    (void)state;
    gantry_sm_topology t = rtx4090();
    gantry_partition_layout out;
    gantry_partition_request r[] = {request("a", EXACT, 112), request("b", EXACT, 16)};
    r[1].is_default = 1;
    assert_ok(plan(&t, r, 2, &out));
    assert_int_equal(out.count, 2);
    assert_int_equal(out.default_partition, 1);
    assert_int_equal(out.unused_sms, 0);
}

/* Splits that programs in the field ask for, on the devices on which they run. */
static void test_splits_of_the_field(void **state)
{
    (void)state;
    static const struct {
        uint32_t sms, unit, units;      /* the number of SMs of the device */
        uint32_t first, planned, other; /* the sizes asked for, and those granted */
    } cases[] = {
        {142, 2, 71, 120, 120, 22}, /* L40S */
        {170, 2, 85, 32, 32, 138},  /* RTX 5090: prefill and decode */
        {188, 2, 94, 94, 94, 94},   /* RTX PRO 6000 */
        {128, 2, 64, 16, 16, 112},  /* RTX 4090 */
        {108, 4, 27, 50, 52, 56},   /* A100: units of 4 */
        {132, 8, 15, 32, 32, 100},  /* H200: decode beside a vocoder */
        {132, 8, 15, 96, 96, 36},   /* the same device */
        {132, 8, 16, 60, 64, 68},   /* H100 */
        {148, 8, 18, 8, 8, 140},    /* B200 */
        {20, 2, 10, 4, 4, 16},      /* a Tegra: not every one of its generation has units of 8 */
        {16, 8, 2, 1, 8, 8},        /* a MIG instance with two units */
        {30, 2, 15, 28, 28, 2},     /* a small Ada */
    };
    for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
        gantry_sm_topology t = {.struct_size = sizeof(t), .total_sms = cases[i].sms, .fine_unit_sms = 2};
        gantry_partition_layout out;
        gantry_partition_request r[] = {request("first", AT_LEAST, cases[i].first),
                                        request("other", REST, 0)};
        t.alignment = t.unit_sms = cases[i].unit;
        t.unit_count = cases[i].units;
        t.fine_unit_count = cases[i].sms / 2;
        assert_ok(plan(&t, r, 2, &out));
        assert_int_equal(out.partitions[0].planned_sms, cases[i].planned);
        assert_int_equal(out.partitions[1].planned_sms, cases[i].other);
        assert_int_equal(out.unused_sms, 0);
        r[0] = request("first", EXACT, cases[i].first);
        r[0].ignore_coscheduling = 1; /* in steps of 2 whatever the generation is */
        assert_int_equal(plan(&t, r, 2, &out) == GANTRY_OK, cases[i].first % 2 == 0);
        if (cases[i].first % 2 == 0) {
            assert_int_equal(out.partitions[0].planned_sms, cases[i].first);
        }
    }
}

/* ---- the guide's use cases of the structured split ------------------------------------------- */

static void test_structured_use_cases(void **state)
{
    (void)state;
    gantry_sm_topology t = structured(h200());
    gantry_partition_layout out;
    /* 1: 16 SMs, clusters. */
    gantry_partition_request one[] = {request("a", EXACT, 16)};
    assert_ok(plan(&t, one, 1, &out));
    assert_int_equal(out.partitions[0].planned_sms, 16);
    assert_int_equal(out.partitions[0].cluster_size, 8);
    assert_int_equal(out.partitions[1].planned_sms, 116);
    /* 2a: 16 and the remainder; no clusters. */
    gantry_partition_request two_a[] = {request("a", EXACT, 16), request("b", REST, 0)};
    two_a[0].cluster_size = two_a[0].preferred_cluster_size = 2;
    assert_ok(plan(&t, two_a, 2, &out));
    assert_int_equal(out.group_count, 1);
    assert_int_equal(out.partitions[1].planned_sms, 116);
    assert_true(out.partitions[1].takes_remainder);
    /* 2b: the same, the second by discovery with backfill. */
    gantry_partition_request two_b[] = {two_a[0], request("b", EXACT, 0)};
    two_b[1].cluster_size = 2;
    two_b[1].backfill = two_b[1].is_default = 1;
    assert_ok(plan(&t, two_b, 2, &out));
    assert_int_equal(out.group_count, 2);
    assert_true(out.groups[1].is_discovered && out.groups[1].backfill);
    assert_int_equal(out.partitions[1].planned_sms, 116);
    /* 3: 28 and 32, clusters of 4. */
    gantry_partition_request three[] = {request("a", EXACT, 28), request("b", EXACT, 32)};
    three[0].cluster_size = three[1].cluster_size = 4;
    assert_ok(plan(&t, three, 2, &out));
    assert_int_equal(out.partitions[0].planned_sms, 28);
    assert_int_equal(out.partitions[1].planned_sms, 32);
    /* 4: as many SMs as clusters of 8 can be made of, and a remainder. */
    gantry_partition_request four[] = {request("a", EXACT, 0), request("r", REST, 0)};
    four[0].cluster_size = 8;
    assert_ok(plan(&t, four, 2, &out));
    assert_int_equal(out.partitions[0].planned_sms, 120);
    assert_int_equal(out.partitions[1].planned_sms, 12);
    /* 5: 8, and as many SMs as clusters of 4 can be made of, in either order of the requests. */
    for (uint32_t first = 0; first < 2; first++) {
        gantry_partition_request five[2];
        five[first] = request("eight", EXACT, 8);
        five[first].cluster_size = 2;
        five[1 - first] = request("most", EXACT, 0);
        five[1 - first].cluster_size = 4;
        five[1 - first].is_default = 1;
        assert_ok(plan(&t, five, 2, &out));
        assert_int_equal(out.partitions[first].planned_sms, 8);
        assert_int_equal(out.partitions[1 - first].planned_sms, 116);
        assert_int_equal(out.unused_sms, 8); /* 18 SMs make four clusters of 4 */
    }
}

/* What the guide says of overlaps and borrowing on drivers of CUDA 13.1: refused, with the reason. */
static void test_overlaps_that_one_descriptor_cannot_hold_are_refused(void **state)
{
    (void)state;
    const gantry_sm_topology t = structured(h200());
    gantry_partition_layout out;
    gantry_partition_request r[] = {request("a", EXACT, 32), request("b", EXACT, 32), request("c", EXACT, 32),
                                    request("rest", REST, 0)};
    r[1].overlaps = "a";
    r[2].overlaps = "b"; /* a chain */
    r[1].overlap_sms = r[2].overlap_sms = 16;
    assert_int_equal(plan(&t, r, 4, &out), GANTRY_ERR_UNSUPPORTED);
    assert_non_null(strstr(gantry_last_error(), "'c': overlaps must be with a partition of a given number"));
    r[2].overlaps = "a"; /* two that overlap a third one */
    assert_ok(plan(&t, r, 4, &out));
    r[1].cluster_size = 4;
    assert_int_equal(plan(&t, r, 4, &out), GANTRY_ERR_INVALID_ARGUMENT);
    assert_non_null(strstr(gantry_last_error(), "another cluster size than the partition it overlaps with"));
    r[1].overlaps = NULL;
    r[1].overlap_sms = 0;
    r[1].borrows = "a";
    assert_int_equal(plan(&t, r, 4, &out), GANTRY_ERR_INVALID_ARGUMENT);
    assert_non_null(strstr(gantry_last_error(), "another cluster size than the partition it borrows from"));
}

/* The same requests are wrong on drivers of CUDA 13.0 and of 13.1. */
static void test_a_preferred_cluster_is_a_multiple_on_every_driver(void **state)
{
    (void)state;
    static const struct {
        uint32_t cluster, preferred;
        bool is_right;
    } cases[] = {{4, 8, true}, {4, 4, true}, {4, 6, false}, {4, 2, false}, {0, 16, true}, {0, 12, false}};
    for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
        const gantry_sm_topology drivers[] = {h200(), structured(h200())};
        gantry_partition_request r[] = {request("a", EXACT, 16), request("b", REST, 0)};
        r[0].cluster_size = cases[i].cluster;
        r[0].preferred_cluster_size = cases[i].preferred;
        for (size_t k = 0; k < 2; k++) {
            gantry_partition_layout out;
            assert_int_equal(plan(&drivers[k], r, 2, &out),
                             cases[i].is_right ? GANTRY_OK : GANTRY_ERR_UNSUPPORTED);
        }
    }
}

static void test_cluster_sizes_of_groups(void **state)
{
    (void)state;
    gantry_sm_topology t = structured(h200());
    gantry_partition_layout out;
    gantry_partition_request r[] = {request("a", EXACT, 16), request("b", EXACT, 20), request("c", REST, 0)};
    r[0].cluster_size = 4;
    r[0].preferred_cluster_size = 8;
    r[1].ignore_coscheduling = 1; /* this counts for this request only */
    assert_ok(plan(&t, r, 3, &out));
    assert_int_equal(out.groups[0].cluster_size, 4);
    assert_int_equal(out.groups[0].preferred_cluster_size, 8);
    assert_int_equal(out.partitions[0].cluster_size, 4);
    assert_int_equal(out.groups[1].cluster_size, 2);
    assert_int_equal(out.groups[1].preferred_cluster_size, 2);
    r[0].preferred_cluster_size = 6; /* this is no multiple */
    assert_int_equal(plan(&t, r, 3, &out), GANTRY_ERR_UNSUPPORTED);
    r[0].preferred_cluster_size = 0;
    r[0].cluster_size = 34; /* this is more than any cluster */
    assert_int_equal(plan(&t, r, 3, &out), GANTRY_ERR_UNSUPPORTED);
    r[0].cluster_size = 20; /* no processing cluster has so many SMs */
    r[0].sm_count = 20;
    assert_int_equal(plan(&t, r, 3, &out), GANTRY_ERR_INVALID_ARGUMENT);
    r[0].cluster_size = 0;
    r[0].sm_count = 12; /* one cluster of 8, and four SMs that are in none */
    assert_int_equal(plan(&t, r, 3, &out), GANTRY_ERR_INVALID_ARGUMENT);
    r[0].backfill = 1;
    assert_ok(plan(&t, r, 3, &out));
    assert_int_equal(out.partitions[0].planned_sms, 12);
    assert_true(out.groups[0].backfill);
}

/* The use cases on devices where only equal units can be made; clusters of 4 fit in units of 8. */
static void test_use_cases_by_count(void **state)
{
    (void)state;
    gantry_sm_topology t = h200();
    gantry_partition_layout out;
    gantry_partition_request r[] = {request("a", EXACT, 16), request("b", EXACT, 0)};
    r[1].backfill = r[1].is_default = 1;
    assert_ok(plan(&t, r, 2, &out));
    assert_int_equal(out.partitions[0].planned_sms, 16);
    assert_int_equal(out.partitions[1].planned_sms, 116);
    gantry_partition_request two_a[] = {request("a", EXACT, 16), request("b", REST, 0)};
    assert_ok(plan(&t, two_a, 2, &out));
    assert_int_equal(out.partitions[1].planned_sms, 116);
    assert_int_equal(out.partitions[1].takes_remainder, 1);
    gantry_partition_request three[] = {request("a", EXACT, 28), request("b", EXACT, 32)};
    three[0].cluster_size = three[1].cluster_size = 4;
    assert_int_equal(plan(&t, three, 2, &out), GANTRY_ERR_INVALID_ARGUMENT); /* 28 */
    three[0].size = AT_LEAST;
    assert_ok(plan(&t, three, 2, &out));
    assert_int_equal(out.partitions[0].planned_sms, 32);
    gantry_partition_request four[] = {request("a", EXACT, 0), request("r", REST, 0)};
    assert_ok(plan(&t, four, 2, &out));
    assert_int_equal(out.partitions[0].planned_sms, 120);
    assert_int_equal(out.partitions[1].planned_sms, 12);
    four[0].cluster_size = 16;
    assert_int_equal(plan(&t, four, 2, &out), GANTRY_ERR_UNSUPPORTED);
    four[0].cluster_size = 4;
    four[0].ignore_coscheduling = 1;
    assert_int_equal(plan(&t, four, 2, &out), GANTRY_ERR_INVALID_ARGUMENT);
    for (uint32_t first = 0; first < 2; first++) { /* 5: in either order of the requests */
        gantry_partition_request five[2];
        five[first] = request("eight", EXACT, 8);
        five[1 - first] = request("most", EXACT, 0);
        five[1 - first].cluster_size = 4;
        five[1 - first].is_default = 1;
        assert_ok(plan(&t, five, 2, &out));
        assert_int_equal(out.partitions[first].planned_sms, 8);
        assert_int_equal(out.partitions[1 - first].planned_sms, 112);
        assert_int_equal(out.unused_sms, 12);
    }
}

static uint32_t common_sms(const gantry_partition_layout *out, uint32_t a, uint32_t b)
{
    uint32_t sms = 0;
    for (uint32_t g = 0; g < out->group_count; g++) {
        if (gy_groups_have(out->partitions[a].groups, g) && gy_groups_have(out->partitions[b].groups, g)) {
            sms += out->is_structured ? out->groups[g].planned_sms : out->unit_sms;
        }
    }
    return sms;
}

static void test_declared_overlap_and_borrowing(void **state)
{
    (void)state;
    gantry_sm_topology both[] = {h200(), structured(h200())};
    for (size_t i = 0; i < 2; i++) {
        gantry_partition_layout out;
        gantry_partition_request r[] = {request("a", EXACT, 48), request("b", EXACT, 32),
                                        request("r", REST, 0)};
        r[1].overlaps = "a";
        r[1].overlap_sms = 16;
        r[1].borrows = "a";
        assert_ok(plan(&both[i], r, 3, &out));
        assert_int_equal(out.partitions[0].planned_sms, 48);
        assert_int_equal(out.partitions[1].planned_sms, 32);
        assert_int_equal(out.partitions[2].planned_sms, 132 - 48 - 16);
        assert_int_equal(common_sms(&out, 0, 1), 16);
        assert_int_equal(out.partitions[0].shared_sms, 16);
        assert_int_equal(out.partitions[1].shared_sms, 16);
        assert_int_equal(out.partitions[1].wide_sms, 64);
        assert_int_equal(out.partitions[0].wide_sms, 0);
        gantry_partition_request last[] = {r[2], r[0], r[1]}; /* the last one shares, too */
        assert_ok(plan(&both[i], last, 3, &out));
        assert_true(out.partitions[1].shared_sms == 16 && out.partitions[2].shared_sms == 16);
        r[1].sm_count = 16; /* it has no unit of its own */
        assert_ok(plan(&both[i], r, 3, &out));
        assert_int_equal(out.partitions[1].planned_sms, 16);
        assert_int_equal(out.partitions[2].planned_sms, 132 - 48);
        r[1].overlap_sms = 12; /* this is no multiple of the 8 that can be had together */
        r[1].sm_count = 20;
        assert_int_equal(plan(&both[i], r, 3, &out), GANTRY_ERR_INVALID_ARGUMENT);
        if (!both[i].is_structured) { /* whole units then */
            r[1].size = AT_LEAST;
            assert_ok(plan(&both[i], r, 3, &out));
            assert_int_equal(common_sms(&out, 0, 1), 16);
            r[1].size = EXACT;
        }
        r[1].overlap_sms = 56;
        r[1].sm_count = 64;
        assert_int_equal(plan(&both[i], r, 3, &out), GANTRY_ERR_INVALID_ARGUMENT);
    }
}

static void test_bad_requests_are_named(void **state)
{
    (void)state;
    gantry_sm_topology t = gh200();
    gantry_partition_layout out;
    gantry_partition_request r[] = {request("a", EXACT, 16), request("b", REST, 0)};
    gantry_partition_request good = r[0];
#define REFUSED(change)                                                      \
    do {                                                                     \
        r[0] = good;                                                         \
        r[1] = request("b", REST, 0);                                        \
        change;                                                              \
        assert_int_equal(plan(&t, r, 2, &out), GANTRY_ERR_INVALID_ARGUMENT); \
    } while (0)
    REFUSED(r[0].name = "");
    REFUSED(r[0].name = NULL);
    REFUSED(r[0].name = "a name that is longer than thirty-one bytes");
    REFUSED(r[0].name = "b");
    REFUSED(r[0].struct_size = 8);
    REFUSED(r[1].struct_size += 8);
    REFUSED(r[0].size = (gantry_partition_size)3);
    REFUSED(r[0].size = REST);
    REFUSED(r[0].sm_count = 17);
    REFUSED(r[0].sm_count = 136);
    for (uint32_t less = 0; less < 9; less++) { /* a size that would wrap when it is rounded up */
        for (int structured = 0; structured < 2; structured++) {
            t.is_structured = (uint32_t)structured;
            REFUSED((r[0].size = AT_LEAST, r[0].sm_count = UINT32_MAX - less));
            assert_non_null(strstr(gantry_last_error(), "SMs: the device has 132"));
            REFUSED((r[1].overlaps = "a", r[1].overlap_sms = UINT32_MAX - less));
            assert_non_null(strstr(gantry_last_error(), "partition 'b' wants an overlap of 42949672"));
            r[0] = good;
            r[0].cluster_size = UINT32_MAX - 1;
            assert_int_equal(plan(&t, r, 2, &out), GANTRY_ERR_INVALID_ARGUMENT);
            r[1] = request("b", REST, 0);
            assert_int_equal(plan(&t, r, 2, &out), GANTRY_ERR_UNSUPPORTED);
        }
    }
    t.is_structured = 0;
    REFUSED(r[0].cluster_size = 3);
    REFUSED(r[0].overlaps = "b");
    REFUSED(r[0].overlap_sms = 8);
    REFUSED((r[0].overlaps = "a", r[0].overlap_sms = 8));
    REFUSED(r[0].borrows = "nobody");
    REFUSED(r[0].is_default = r[1].is_default = 1);
    REFUSED((r[0].share = &(gantry_share){sizeof(gantry_share), .percent = -1}));
    REFUSED((r[0].share = &(gantry_share){sizeof(gantry_share), .percent = (double)INFINITY}));
    REFUSED((r[0].share = &(gantry_share){sizeof(gantry_share), .in_flight = 17}));
    REFUSED((r[0].share = &(gantry_share){0, .percent = 1}));
    REFUSED(t.gpc_count = 1);
    t.gpc_count = 0;
    assert_int_equal(plan(&t, r, 0, &out), GANTRY_ERR_INVALID_ARGUMENT);
    assert_int_equal(plan(&t, NULL, 1, &out), GANTRY_ERR_INVALID_ARGUMENT);
    assert_int_equal(gantry_partition_plan(NULL, NULL, NULL), GANTRY_ERR_INVALID_ARGUMENT);
    r[0] = request("all", EXACT, 128);
    gantry_sm_topology none = t;
    none.total_sms = 128; /* nothing is left for work that names no partition */
    none.fine_unit_count = 64;
    assert_int_equal(plan(&none, r, 1, &out), GANTRY_ERR_INVALID_ARGUMENT);
    assert_non_null(strstr(gantry_last_error(), "nothing is left"));
}

static void test_bad_requests_for_queues_are_named(void **state)
{
    (void)state;
    gantry_sm_topology t = gh200();
    gantry_partition_layout out;
    const gantry_partition_request good = request("a", EXACT, 16);
    gantry_partition_request r[] = {good, request("b", REST, 0)};
    REFUSED(r[0].workqueues_of = "nobody");
    assert_non_null(
        strstr(gantry_last_error(), "partition 'a': it uses its own work queues as another's, or"));
    REFUSED(r[0].workqueues_of = "a");
    REFUSED((r[0].workqueues_of = "b", r[0].workqueue_limit = 2));
    assert_non_null(strstr(gantry_last_error(), "a wish about work queues, and uses another's"));
    REFUSED((r[0].workqueues_of = "b", r[0].workqueue_scope = GANTRY_WORKQUEUE_BALANCED));
    REFUSED((r[0].workqueues_of = "b", r[1].workqueues_of = "a"));
    assert_non_null(strstr(gantry_last_error(), "a partition that uses another's"));
    void *const somebodys = &t; /* the planner does not look at it */
    REFUSED((r[0].workqueues_of = "b", r[0].workqueues_green = somebodys));
    assert_non_null(strstr(gantry_last_error(), "of a partition and of a green context"));
    REFUSED((r[0].workqueues_green = somebodys, r[0].workqueue_limit = 2));
    REFUSED((r[0].workqueues_green = somebodys, r[0].workqueue_scope = GANTRY_WORKQUEUE_BALANCED));
    r[0] = good;
    r[1] = request("b", REST, 0);
    r[0].workqueues_of = "b";
    assert_int_equal(plan(&t, r, 2, &out), GANTRY_OK);
    r[0].workqueues_of = NULL;
    r[0].workqueues_green = somebodys;
    assert_int_equal(plan(&t, r, 2, &out), GANTRY_OK);
}

/* Programs that were compiled with an older header have a shorter struct. */
static void test_a_topology_may_be_of_an_older_program(void **state)
{
    (void)state;
    gantry_sm_topology t = gh200();
    gantry_partition_layout out;
    gantry_partition_request r[] = {request("a", EXACT, 16), request("b", REST, 0)};
    t.struct_size = offsetof(gantry_sm_topology, workqueue_scope);
    assert_int_equal(plan(&t, r, 2, &out), GANTRY_OK);
    t.struct_size -= 4;
    assert_int_equal(plan(&t, r, 2, &out), GANTRY_ERR_INVALID_ARGUMENT);
}

/* Work that names no partition cannot have a partition: the message says why not. */
static void test_a_missing_default_is_explained(void **state)
{
    (void)state;
    gantry_sm_topology t = gh200();
    gantry_partition_layout out;
    gantry_partition_request many[GANTRY_PARTITIONS_MAX], one = request("default", AT_LEAST, 16);
    static const char *const names[] = {"a", "b", "c", "d", "e", "f", "g", "h",
                                        "i", "j", "k", "l", "m", "n", "o", "p"};
    assert_int_equal(sizeof(names) / sizeof(names[0]), GANTRY_PARTITIONS_MAX);
    t.unit_sms = t.alignment = 2; /* so that there are more than 16 units */
    t.unit_count = t.fine_unit_count;
    for (int i = 0; i < GANTRY_PARTITIONS_MAX; i++) {
        many[i] = request(names[i], AT_LEAST, 2);
    }
    assert_int_equal(plan(&t, many, GANTRY_PARTITIONS_MAX, &out), GANTRY_ERR_INVALID_ARGUMENT);
    assert_non_null(strstr(gantry_last_error(), "16 requests: there is no room for one more"));
    many[3].is_default = 1;
    assert_ok(plan(&t, many, GANTRY_PARTITIONS_MAX, &out));
    assert_int_equal(plan(&t, &one, 1, &out), GANTRY_ERR_INVALID_ARGUMENT);
    assert_non_null(strstr(gantry_last_error(), "called 'default', and that name is taken"));
    one.is_default = 1;
    assert_ok(plan(&t, &one, 1, &out));
}

/* ---- random search --------------------------------------------------------------------------- */

static uint32_t seed = 1;

static uint32_t draw(uint32_t below)
{
    seed = seed * 1664525u + 1013904223u;
    return (uint32_t)(((uint64_t)(seed >> 8) * below) >> 24);
}

static gantry_sm_topology random_topology(void)
{
    gantry_sm_topology t = {.struct_size = sizeof(t), .alignment = 2u << draw(3), .fine_unit_sms = 2};
    t.unit_sms = t.alignment;
    t.gpc_count = 1 + draw(10);
    for (uint32_t g = 0; g < t.gpc_count; g++) {
        t.gpc_sms[g] = (uint8_t)(2 + 2 * draw(10));
        t.total_sms += t.gpc_sms[g];
        t.unit_count += t.gpc_sms[g] / t.unit_sms;
        t.fine_unit_count += t.gpc_sms[g] / 2;
    }
    t.is_structured = draw(2);
    t.max_cluster = 32;
    return t;
}

static uint32_t random_requests(const gantry_sm_topology *t, gantry_partition_request *r)
{
    static const char *const names[] = {"a", "b", "c", "d", "e", "f"};
    uint32_t count = 1 + draw(6);
    bool rest = false;
    for (uint32_t i = 0; i < count; i++) {
        bool is_rest = !rest && draw(6) == 0;
        rest = rest || is_rest;
        r[i] = request(names[i], is_rest ? REST : draw(2) ? EXACT : AT_LEAST, t->alignment * draw(6));
        r[i].backfill = draw(4) == 0;
        r[i].ignore_coscheduling = draw(8) == 0;
        if (i > 0 && draw(5) == 0 && r[i].sm_count != 0) {
            r[i].overlaps = names[draw(i)];
            r[i].overlap_sms = t->alignment;
        }
        if (i > 0 && draw(5) == 0) {
            r[i].borrows = names[draw(i)];
        }
    }
    return count;
}

/* This does not use the planner's way to count: which SM of the split's numbering is where. */
static void check_plan(const gantry_sm_topology *t, const gantry_partition_request *r, uint32_t count,
                       const gantry_partition_layout *out)
{
    uint32_t in_groups = 0, in_use = 0, remainders = 0;
    for (uint32_t g = 0; g < out->group_count; g++) {
        uint32_t sms = out->is_structured ? out->groups[g].planned_sms : out->unit_sms;
        uint32_t holders = 0, declared = 1;
        in_groups += sms;
        for (uint32_t p = 0; p < out->count; p++) {
            if (gy_groups_have(out->partitions[p].groups, g)) {
                holders++;
                declared += p < count && r[p].overlaps != NULL;
            }
        }
        assert_true(holders <= declared); /* the request that is one too many has said so */
        in_use += holders != 0 ? sms : 0;
    }
    assert_int_equal(in_groups + out->remainder_sms, t->total_sms);
    for (uint32_t p = 0; p < out->count; p++) {
        const gantry_partition_slot *slot = &out->partitions[p];
        uint32_t sms = slot->takes_remainder ? out->remainder_sms : 0;
        for (uint32_t g = 0; g < GY_GROUPS_MAX; g++) {
            bool has = gy_groups_have(slot->groups, g);
            assert_true(!has || g < out->group_count);
            sms += !has ? 0 : out->is_structured ? out->groups[g].planned_sms : out->unit_sms;
        }
        assert_int_equal(slot->planned_sms, sms);
        assert_true(sms > 0);
        remainders += slot->takes_remainder;
        if (p < count && r[p].size != REST && r[p].sm_count != 0) {
            assert_true(r[p].size == EXACT ? sms == r[p].sm_count : sms >= r[p].sm_count);
        }
        if (p < count && r[p].overlaps == NULL) {
            for (uint32_t other = 0; other < p; other++) {
                bool other_says = other < count && r[other].overlaps != NULL;
                assert_true(other_says || common_sms(out, p, other) == 0);
            }
        }
    }
    assert_true(remainders <= 1);
    in_use += remainders ? out->remainder_sms : 0;
    assert_int_equal(in_use + out->unused_sms, t->total_sms);
    assert_true(out->default_partition < out->count);
    /* no request is marked is_default here: the remainder belongs to one of them */
    assert_int_equal(out->unused_sms, 0);
}

static void test_random_plans_neither_overlap_nor_lose_sms(void **state)
{
    (void)state;
    uint32_t planned = 0;
    for (uint32_t round = 0; round < 20000; round++) {
        gantry_sm_topology t = random_topology();
        gantry_partition_request r[6];
        gantry_partition_layout out;
        uint32_t count = random_requests(&t, r);
        gantry_status status = plan(&t, r, count, &out);
        if (status == GANTRY_OK) {
            planned++;
            check_plan(&t, r, count, &out);
        } else {
            assert_true(status == GANTRY_ERR_INVALID_ARGUMENT || status == GANTRY_ERR_UNSUPPORTED);
        }
    }
    assert_in_range(planned, 4000, 19999);
}

/* A request that fits is not refused: numbers of whole units that leave something over. */
static void test_random_plans_that_fit_are_made(void **state)
{
    (void)state;
    for (uint32_t round = 0; round < 5000; round++) {
        static const char *const names[] = {"a", "b", "c", "d"};
        gantry_sm_topology t = random_topology();
        gantry_partition_request r[4];
        gantry_partition_layout out;
        uint32_t units = t.unit_count, count = 0;
        while (count < 4 && units > 1) {
            uint32_t n = 1 + draw(units - 1);
            r[count] = request(names[count], EXACT, n * t.unit_sms);
            units -= n;
            count++;
        }
        if (count > 0) {
            assert_ok(plan(&t, r, count, &out));
            check_plan(&t, r, count, &out);
        }
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_split_by_count_gives_what_the_guide_says),
        cmocka_unit_test(test_plans_give_the_same),
        cmocka_unit_test(test_helper_splits),
        cmocka_unit_test(test_fewer_units_than_sms),
        cmocka_unit_test(test_small_units),
        cmocka_unit_test(test_splits_of_the_field),
        cmocka_unit_test(test_structured_use_cases),
        cmocka_unit_test(test_a_preferred_cluster_is_a_multiple_on_every_driver),
        cmocka_unit_test(test_overlaps_that_one_descriptor_cannot_hold_are_refused),
        cmocka_unit_test(test_cluster_sizes_of_groups),
        cmocka_unit_test(test_use_cases_by_count),
        cmocka_unit_test(test_declared_overlap_and_borrowing),
        cmocka_unit_test(test_bad_requests_are_named),
        cmocka_unit_test(test_bad_requests_for_queues_are_named),
        cmocka_unit_test(test_a_topology_may_be_of_an_older_program),
        cmocka_unit_test(test_a_missing_default_is_explained),
        cmocka_unit_test(test_random_plans_neither_overlap_nor_lose_sms),
        cmocka_unit_test(test_random_plans_that_fit_are_made),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
