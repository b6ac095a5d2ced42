/* SPDX-License-Identifier: MIT */
#include "bench/ways_figures.h"

#include <math.h>
#include <stdlib.h>

enum { DRAWS = 400, MOST_SLOTS = WAYS_STEPS };

/* A figure is made of slots, each a column of one number per round: of the steps of a turn, or of one step.
 */
struct slots {
    uint32_t count, rounds;
    double *us; /* [way][slot][round]; per counted step; NAN: none was counted */
};

bool bench_ways_begins_turn(uint32_t round, uint32_t step)
{
    return step == 0 || (step >= WAYS_TURN && (step + round) % WAYS_TURN == 0);
}

static bool is_counted(uint32_t round, uint32_t step)
{
    return step < WAYS_TURN || !bench_ways_begins_turn(round, step);
}

static double *cell_of(const struct slots *s, uint32_t way, uint32_t slot, uint32_t round)
{
    return &s->us[((size_t)way * s->count + slot) * s->rounds + round];
}

/* The mean of the counted steps from `from` on. */
static double mean_of(const struct ways_times *t, uint32_t way, uint32_t round, uint32_t from, uint32_t steps)
{
    double sum = 0;
    uint32_t counted = 0;
    for (uint32_t step = from; step < from + steps && step < t->steps; step++) {
        const bool counts = is_counted(round, step);
        sum += counts ? (double)t->us[way][round][step] : 0;
        counted += counts;
    }
    return counted != 0 ? sum / counted : NAN;
}

static bool fill(const struct ways_times *t, enum ways_value value, struct slots *s)
{
    const bool by_turns = value == WAYS_MEAN;
    const uint32_t steps = by_turns ? WAYS_TURN : 1;
    s->rounds = by_turns ? t->whole : t->rounds;
    s->count = by_turns ? (t->steps + WAYS_TURN - 1) / WAYS_TURN : WAYS_TURN;
    s->us = malloc(sizeof(*s->us) * WAYS_WAYS * s->count * s->rounds);
    for (uint32_t way = 0; way < WAYS_WAYS && s->us != NULL; way++) {
        for (uint32_t slot = 0; slot < s->count; slot++) {
            for (uint32_t round = 0; round < s->rounds; round++) {
                *cell_of(s, way, slot, round) = mean_of(t, way, round, slot * steps, steps);
            }
        }
    }
    return s->us != NULL;
}

static double median_of(double *values, uint32_t count)
{
    bench_sort(values, count);
    return (values[(count - 1) / 2] + values[count / 2]) / 2;
}

/* A small generator: the same draws each time. */
static uint32_t draw(uint64_t *state, uint32_t below)
{
    *state = *state * UINT64_C(6364136223846793005) + UINT64_C(1442695040888963407);
    return (uint32_t)((*state >> 33) % below);
}

/* The mean of the slots' medians, of the rounds that `drawn` has for each slot; NULL: of all. */
static double figure_of(const struct slots *s, uint32_t way, const uint32_t *drawn, double *room)
{
    double sum = 0;
    for (uint32_t slot = 0; slot < s->count; slot++) {
        for (uint32_t i = 0; i < s->rounds; i++) {
            room[i] = *cell_of(s, way, slot, drawn != NULL ? drawn[slot * s->rounds + i] : i);
        }
        sum += median_of(room, s->rounds);
    }
    return sum / s->count;
}

/* The number that is at `place` when they are sorted; changes their order. */
static double select_place(double *values, uint32_t count, uint32_t place)
{
    uint32_t low = 0, high = count - 1;
    while (low < high) {
        const double pivot = values[low + (high - low) / 2];
        uint32_t i = low, j = high;
        for (;; i++, j--) {
            while (values[i] < pivot) {
                i++;
            }
            while (values[j] > pivot) {
                j--;
            }
            if (i >= j) {
                break;
            }
            const double swapped = values[i];
            values[i] = values[j];
            values[j] = swapped;
        }
        low = place > j ? j + 1 : low;
        high = place > j ? high : j;
    }
    return values[place];
}

/* The time that 99 of 100 steps do not exceed, of the turns that `drawn` has for each round. */
static double p99_of(const struct ways_times *t, uint32_t way, const uint32_t *drawn, double *room)
{
    const uint32_t turns = t->steps / WAYS_TURN;
    uint32_t count = 0;
    for (uint32_t i = 0; i < t->whole * turns; i++) {
        const uint32_t from = drawn != NULL ? drawn[i] : i, round = from / turns, turn = from % turns;
        for (uint32_t step = turn * WAYS_TURN; step < (turn + 1) * WAYS_TURN; step++) {
            if (step >= WAYS_TURN && is_counted(round, step)) {
                room[count++] = (double)t->us[way][round][step];
            }
        }
    }
    return select_place(room, count, count * 99 / 100);
}

struct bootstrap {
    const struct ways_times *times;
    enum ways_value value;
    struct slots slots;
    uint32_t *drawn; /* as many as there are turns and rounds, or steps and rounds */
    double *room;
    double ratios[DRAWS];
};

static double figure(const struct bootstrap *b, uint32_t way, const uint32_t *drawn)
{
    return b->value == WAYS_P99 ? p99_of(b->times, way, drawn, b->room)
                                : figure_of(&b->slots, way, drawn, b->room);
}

static void draw_anew(struct bootstrap *b, uint64_t *state)
{
    const uint32_t turns = b->times->steps / WAYS_TURN, whole = b->times->whole;
    if (b->value == WAYS_P99) {
        for (uint32_t i = 0; i < whole * turns; i++) {
            b->drawn[i] = draw(state, whole) * turns + i % turns;
        }
        return;
    }
    for (uint32_t i = 0; i < b->slots.count * b->slots.rounds; i++) {
        b->drawn[i] = draw(state, b->slots.rounds);
    }
}

static void compare(struct bootstrap *b, struct ways_line *out)
{
    uint64_t state = 1;
    for (uint32_t way = 0; way < WAYS_WAYS; way++) {
        out->us[way] = figure(b, way, NULL);
    }
    out->best = out->us[WAYS_STREAMS] < out->us[WAYS_GRAPHS] ? WAYS_STREAMS : WAYS_GRAPHS;
    for (uint32_t i = 0; i < DRAWS; i++) {
        draw_anew(b, &state);
        b->ratios[i] = figure(b, WAYS_AUTO, b->drawn) / figure(b, out->best, b->drawn);
    }
    bench_sort(b->ratios, DRAWS);
    out->ratio = (struct bench_median){out->us[WAYS_AUTO] / out->us[out->best], b->ratios[DRAWS / 40],
                                       b->ratios[DRAWS - 1 - DRAWS / 40]};
}

bool bench_ways_line_of(const struct ways_times *times, enum ways_value value, struct ways_line *out)
{
    struct bootstrap *b = calloc(1, sizeof(*b));
    if (b == NULL) {
        return false;
    }
    const size_t most = (size_t)MOST_SLOTS * times->rounds;
    b->times = times;
    b->value = value;
    b->drawn = malloc(most * sizeof(*b->drawn));
    b->room = malloc(most * sizeof(*b->room));
    const bool good =
        b->drawn != NULL && b->room != NULL && (value == WAYS_P99 || fill(times, value, &b->slots));
    if (good) {
        compare(b, out);
    }
    free(b->slots.us);
    free(b->room);
    free(b->drawn);
    free(b);
    return good;
}
