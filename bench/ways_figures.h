/* SPDX-License-Identifier: MIT */
/* The figures of `gantry bench ways`: times of steps, and what the ways' times say of each other.
 *
 * A round is one sequence of steps of each way.  The ways take turns of TURN steps, so that what disturbs the
 * machine disturbs all of them.  The first step of a turn, but for the first turn, is not counted: the way's
 * threads have slept while the others ran.  The turns begin at other steps in each round, so each step is
 * counted in most rounds.
 *
 * MEAN         the sum over turns of the median of rounds, per step
 * FIRST_STEPS  the sum of the first turn's steps, of each the median of rounds, per step
 * P99          the time that 99 of 100 steps behind the first turn, of all rounds, do not exceed
 *
 * The interval of a ratio is where it lies in 95 of 100 draws, each of which takes the figure from rounds
 * that are drawn anew for each turn (or step), the same for both ways. */
#ifndef BENCH_WAYS_FIGURES_H
#define BENCH_WAYS_FIGURES_H

#include "bench/harness.h"

enum { WAYS_TURN = 20, WAYS_STEPS = 200, WAYS_ROUNDS = 400 };
enum { WAYS_TURNS = WAYS_STEPS / WAYS_TURN };
enum ways_way { WAYS_STREAMS, WAYS_GRAPHS, WAYS_AUTO, WAYS_WAYS };
enum ways_value { WAYS_MEAN, WAYS_FIRST_STEPS, WAYS_P99, WAYS_VALUES };

struct ways_times {
    uint32_t steps;                               /* of a whole round; WAYS_STEPS at most */
    uint32_t rounds;                              /* of which the first `whole` are whole, … */
    uint32_t whole;                               /* … and the others only the first turn */
    float us[WAYS_WAYS][WAYS_ROUNDS][WAYS_STEPS]; /* in the order of rounds: whole ones first */
};

struct ways_line {
    enum ways_way best; /* WAYS_STREAMS or WAYS_GRAPHS */
    double us[WAYS_WAYS];
    struct bench_median ratio; /* of WAYS_AUTO to the best */
};

/* In the round, does a turn begin with this step? */
bool bench_ways_begins_turn(uint32_t round, uint32_t step);

/* False: out of memory. */
bool bench_ways_line_of(const struct ways_times *times, enum ways_value value, struct ways_line *out);

#endif
