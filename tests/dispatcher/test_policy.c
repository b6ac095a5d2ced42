/* SPDX-License-Identifier: MIT */
/* The policy's table: for everything that can be known of a round, how its calls are made.
 *
 * The expectation is a letter for each trust, UNKNOWN, OURS, BEARS, RAW and NO: p plain, s synchronous, f
 * first, t trial, b batch, r recording; then what is played: n nothing, f few, s strange. */
#include "dispatcher/submit/policy.h"
#include "tests/support/cmocka_c11.h"

#include <string.h>

static const char letters[] = {
    [GY_MODE_PLAIN] = 'p', [GY_MODE_SYNCHRONOUS] = 's', [GY_MODE_FIRST] = 'f',    [GY_MODE_AHEAD] = 'a',
    [GY_MODE_TRIAL] = 't', [GY_MODE_BATCH] = 'b',       [GY_MODE_RECORDING] = 'r'};

static void spell(const struct gy_way *way, char text[GY_TRUSTS + 1])
{
    for (int trust = 0; trust < GY_TRUSTS; trust++) {
        text[trust] = letters[way->modes[trust]];
    }
    text[GY_TRUSTS] = '\0';
}

/* What a way says of itself agrees with its modes. */
static void hangs_together(const struct gy_way *way)
{
    char text[GY_TRUSTS + 1];
    spell(way, text);
    const bool notes = strpbrk(text, "tbr") != NULL;
    assert_int_equal(way->notes, notes);
    assert_int_equal(way->is_uniform, strspn(text, (char[]){text[0], '\0'}) == GY_TRUSTS);
    assert_int_equal(way->guard == GY_GUARD_CLOSED, !notes);
    assert_false(gy_mode_notes(way->modes[GY_TRUST_NO]));
    assert_true(way->passes >= way->barren && way->barren > 1);
    if (notes) {
        assert_non_null(way->without);
        assert_false(way->without->notes);
        assert_int_equal(way->without->modes[GY_TRUST_UNKNOWN] == GY_MODE_FIRST,
                         way->modes[GY_TRUST_UNKNOWN] == GY_MODE_FIRST);
    }
}

#define ON GANTRY_SUBMISSION_STREAMS
#define GRAPHS GANTRY_SUBMISSION_GRAPHS
#define AUTO GANTRY_SUBMISSION_AUTO

static void test_each_fact_has_its_row(void **state)
{
    (void)state;
    static const struct {
        gantry_submission submission;
        bool synchronous, ends, refusals, shared;
        enum gy_choice_way known;
        const char *modes;
        char plays;
        bool is_auto;
    } rows[] = {
        /* streams mode: nothing else counts, but that each call is waited for */
        {ON, false, true, true, false, GY_WAY_STREAMS, "ppppp", 'n', false},
        {ON, false, false, false, true, GY_WAY_GRAPH, "ppppp", 'n', false},
        {ON, true, true, true, false, GY_WAY_STREAMS, "sssss", 'n', false},
        /* graphs mode */
        {GRAPHS, false, true, true, false, GY_WAY_STREAMS, "tbttp", 'n', false},
        {GRAPHS, false, false, true, true, GY_WAY_MEETING, "tbttp", 'n', false},
        {GRAPHS, false, true, false, false, GY_WAY_STREAMS, "tbppp", 'n', false},
        {GRAPHS, true, true, true, false, GY_WAY_GRAPH, "sssss", 'n', false},
        /* auto without what it needs is streams mode */
        {AUTO, false, false, true, false, GY_WAY_GRAPH, "ppppp", 'n', false},
        {AUTO, true, true, true, false, GY_WAY_GRAPH, "sssss", 'n', false},
        /* auto */
        {AUTO, false, true, true, false, GY_WAY_STREAMS, "ppppp", 'n', true},
        {AUTO, false, true, true, false, GY_WAY_GRAPH, "fbtpp", 'f', true},
        {AUTO, false, true, true, false, GY_WAY_IF_KNOWN, "fbtpp", 's', true},
        {AUTO, false, true, true, true, GY_WAY_GRAPH, "fbtpp", 'n', true},
        {AUTO, false, true, true, true, GY_WAY_IF_KNOWN, "fbtpp", 'n', true},
        {AUTO, false, true, false, false, GY_WAY_GRAPH, "fbppp", 'f', true},
        {AUTO, false, true, false, false, GY_WAY_IF_KNOWN, "fbppp", 's', true},
        /* functions that were not met: streams */
        {AUTO, false, true, true, false, GY_WAY_MEETING, "fpppp", 'n', true},
        {AUTO, false, true, false, true, GY_WAY_MEETING, "fpppp", 'n', true},
    };
    for (size_t i = 0; i < sizeof(rows) / sizeof(rows[0]); i++) {
        const struct gy_policy_facts facts = {.submission = rows[i].submission,
                                              .is_synchronous = rows[i].synchronous,
                                              .tells_ends = rows[i].ends,
                                              .tells_refusals = rows[i].refusals,
                                              .is_shared = rows[i].shared,
                                              .known = rows[i].known};
        const struct gy_policy policy = gy_policy_of(&facts);
        char text[GY_TRUSTS + 1];
        spell(policy.way, text);
        assert_string_equal(text, rows[i].modes);
        assert_int_equal("nfs"[policy.plays], rows[i].plays);
        struct gy_policy_facts unasked = facts;
        unasked.known = GY_WAY_UNASKED;
        assert_int_equal(gy_policy_of(&unasked).way == NULL, rows[i].is_auto);
    }
}

/* All facts there can be: 3 modes of submission, 4 of yes or no, 4 that auto may know. */
static void test_all_ways_hang_together(void **state)
{
    (void)state;
    uint32_t graphs = 0;
    for (unsigned all = 0; all < 3 * 16 * 4; all++) {
        static const gantry_submission submissions[] = {ON, GRAPHS, AUTO};
        const unsigned bits = all / 3 % 16;
        const struct gy_policy_facts facts = {.submission = submissions[all % 3],
                                              .is_synchronous = bits & 1u,
                                              .tells_ends = bits >> 1 & 1u,
                                              .tells_refusals = bits >> 2 & 1u,
                                              .is_shared = bits >> 3 & 1u,
                                              .known = (enum gy_choice_way)(GY_WAY_STREAMS + all / 48)};
        const struct gy_policy policy = gy_policy_of(&facts);
        const struct gy_way *way = policy.way;
        hangs_together(way);
        assert_int_equal(facts.is_synchronous, way->modes[GY_TRUST_UNKNOWN] == GY_MODE_SYNCHRONOUS);
        assert_false(way->notes && facts.submission == GANTRY_SUBMISSION_STREAMS);
        assert_false(policy.plays != GY_PLAYS_NOTHING && (facts.is_shared || !way->notes));
        /* what a callback enqueues itself is never captured where refused calls are not told of */
        assert_false(!facts.tells_refusals &&
                     (gy_mode_notes(way->modes[GY_TRUST_BEARS]) || gy_mode_notes(way->modes[GY_TRUST_RAW])));
        graphs += way->notes;
    }
    assert_int_equal(graphs, 32 + 8); /* graphs mode: 2^3 x 4; auto: 2^2 where it knows one of two */
}

static void test_units_have_rows_of_their_own(void **state)
{
    (void)state;
    char text[GY_TRUSTS + 1];
    for (int tells = 0; tells < 2; tells++) {
        const struct gy_way *way = gy_policy_of_unit(tells);
        hangs_together(way);
        spell(way, text);
        assert_string_equal(text, tells ? "rrrrp" : "rrppp");
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_each_fact_has_its_row),
        cmocka_unit_test(test_all_ways_hang_together),
        cmocka_unit_test(test_units_have_rows_of_their_own),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
