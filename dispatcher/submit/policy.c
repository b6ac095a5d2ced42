/* SPDX-License-Identifier: MIT */
#include "dispatcher/submit/policy.h"

enum {
    /* Passes: of any phase; without an end, on streams; the same where leaving the phase means a graph of its
     * own; and of a unit, where leaving it gives the recording up. */
    MOST_PASSES = 4096,
    MOST_BARREN = 8,
    MOST_BARREN_IN_CAPTURE = 256,
    MOST_IN_RECORDING = 65536
};

/* The modes of calls of functions UNKNOWN, OURS, BEARS, RAW and NO. */
#define MODES(unknown, ours, bears, raw, no) \
    .modes = {GY_MODE_##unknown, GY_MODE_##ours, GY_MODE_##bears, GY_MODE_##raw, GY_MODE_##no}
#define ON_STREAMS .passes = MOST_PASSES, .barren = MOST_BARREN
#define IN_GRAPHS .passes = MOST_PASSES, .barren = MOST_BARREN_IN_CAPTURE, .notes = true
#define RECORDED \
    .passes = MOST_IN_RECORDING, .barren = MOST_IN_RECORDING, .notes = true, .guard = GY_GUARD_WHOLE

static const struct gy_way streams = {MODES(PLAIN, PLAIN, PLAIN, PLAIN, PLAIN), ON_STREAMS,
                                      .is_uniform = true};
static const struct gy_way synchronous = {
    MODES(SYNCHRONOUS, SYNCHRONOUS, SYNCHRONOUS, SYNCHRONOUS, SYNCHRONOUS), ON_STREAMS, .is_uniform = true};
static const struct gy_way meeting = {MODES(FIRST, PLAIN, PLAIN, PLAIN, PLAIN), ON_STREAMS};

/* Two each: the driver tells of refused calls, or it does not.  A round of AUTO notes calls of those
 * functions alone that were met, which do not wait for the context. */
static const struct gy_way graph[] = {
    {MODES(TRIAL, BATCH, PLAIN, PLAIN, PLAIN), IN_GRAPHS, .guard = GY_GUARD_WHOLE, .without = &streams},
    {MODES(TRIAL, BATCH, TRIAL, TRIAL, PLAIN), IN_GRAPHS, .guard = GY_GUARD_WHOLE, .without = &streams}};
static const struct gy_way automatic[] = {
    {MODES(FIRST, BATCH, PLAIN, PLAIN, PLAIN), IN_GRAPHS, .guard = GY_GUARD_APART, .without = &meeting},
    {MODES(FIRST, BATCH, TRIAL, PLAIN, PLAIN), IN_GRAPHS, .guard = GY_GUARD_APART, .without = &meeting}};
static const struct gy_way unit[] = {
    {MODES(RECORDING, RECORDING, PLAIN, PLAIN, PLAIN), RECORDED, .without = &streams},
    {MODES(RECORDING, RECORDING, RECORDING, RECORDING, PLAIN), RECORDED, .without = &streams}};

/* A graph that tells all ends at once could wait for the host for ever: there is no auto with such. */
struct gy_policy gy_policy_of(const struct gy_policy_facts *facts)
{
    static const struct {
        const struct gy_way *ways[2];
        enum gy_kept_plays plays;
    } known[] = {[GY_WAY_UNASKED] = {{NULL, NULL}, GY_PLAYS_NOTHING},
                 [GY_WAY_STREAMS] = {{&streams, &streams}, GY_PLAYS_NOTHING},
                 [GY_WAY_MEETING] = {{&meeting, &meeting}, GY_PLAYS_NOTHING},
                 [GY_WAY_IF_KNOWN] = {{&automatic[0], &automatic[1]}, GY_PLAYS_STRANGE},
                 [GY_WAY_GRAPH] = {{&automatic[0], &automatic[1]}, GY_PLAYS_FEW}};
    if (facts->submission == GANTRY_SUBMISSION_AUTO && !facts->is_synchronous && facts->tells_ends) {
        return (struct gy_policy){known[facts->known].ways[facts->tells_refusals],
                                  facts->is_shared ? GY_PLAYS_NOTHING : known[facts->known].plays};
    }
    const bool is_graph = facts->submission == GANTRY_SUBMISSION_GRAPHS;
    return (struct gy_policy){facts->is_synchronous ? &synchronous
                              : is_graph            ? &graph[facts->tells_refusals]
                                                    : &streams,
                              GY_PLAYS_NOTHING};
}

const struct gy_way *gy_policy_of_unit(bool tells_refusals)
{
    return &unit[tells_refusals];
}
