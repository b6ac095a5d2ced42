/* SPDX-License-Identifier: MIT */
/* Chooses the values of the next program: a covering design that is made as programs go.  It counts the
 * pairs, and in the long run the triples, that took effect; those that met least so far decide. */
#include "tests/campaign/crossing.h"

enum { TRIES = 2000, LEARNS = 4 };

static uint64_t next_random(uint64_t *random)
{
    *random = *random * UINT64_C(6364136223846793005) + UINT64_C(1442695040888963407);
    return *random >> 33;
}

enum { WHOLE = 1 << 10 };

/* How much a meeting is wanted: the rarer it is the more, and not at all once it has happened as often as is
 * asked for. */
static uint64_t wanted(const struct cross_matrix *matrix, int a, int b)
{
    uint32_t least = cross_matrix_least(matrix, a, b), met = cross_matrix_met(matrix, a, b);
    uint64_t left = met < least ? (uint64_t)(least - met) * WHOLE / least : 0;
    return left * left;
}

void cross_force(struct cross_choice *choice, int value)
{
    int f = cross_values[value].feature, *place = &choice->forced[f];
    for (int k = 0; k + 1 < cross_most(f) && *place >= 0 && *place != value; k++) {
        place = &choice->more[f][k];
    }
    *place = value;
}

static bool has_debt(const struct cross_choice *choice)
{
    bool has = choice->forced[FEATURE_CANCEL] == VALUE_CANCEL_DEBT;
    for (int k = 0; k < MORE; k++) {
        has = has || choice->more[FEATURE_CANCEL][k] == VALUE_CANCEL_DEBT;
    }
    return has;
}

/* The value makes more threads that spin, or has them spin for the length of a debt, and it has met them
 * often enough. */
static bool spins_enough(const struct cross_matrix *matrix, const struct cross_choice *choice, int value)
{
    int cpu = choice->forced[FEATURE_CPU_WAIT], gpu = choice->forced[FEATURE_GPU_WAIT];
    bool workers = value == VALUE_TWO_WORKERS || value == VALUE_FOUR_WORKERS;
    bool others = value == VALUE_TWO_PARTITIONS || value == VALUE_BORROWING;
    bool both = cross_spins(value), debt = value == VALUE_CANCEL_DEBT;
    return ((workers || both || debt) && cpu == VALUE_CPU_SPIN && wanted(matrix, value, cpu) == 0) ||
           ((others || both || debt) && gpu == VALUE_GPU_SPIN && wanted(matrix, value, gpu) == 0) ||
           (both && has_debt(choice) && wanted(matrix, value, VALUE_CANCEL_DEBT) == 0);
}

/* How much a pair is wanted as the first of a program: a pair that is planned again and again and hardly
 * ever takes effect is wanted less, so that others get their turn. */
static uint64_t rank(const struct cross_matrix *matrix, const struct cross_choice *choice, int a, int b)
{
    uint64_t tried = atomic_load_explicit(&matrix->tried[a][b], memory_order_relaxed);
    bool fits = cross_may_meet(a, b) && cross_goes_with(choice, a) && cross_goes_with(choice, b) &&
                !spins_enough(matrix, choice, a) && !spins_enough(matrix, choice, b);
    return fits ? WHOLE * wanted(matrix, a, b) / (1 + tried / 16) : 0;
}

/* Take some pairs at random and choose the one that met least; when only a few are still wanted, choose
 * among all pairs.  False: none is wanted any more. */
static bool force_pair(struct cross_matrix *matrix, struct cross_choice *choice, uint64_t *random)
{
    uint64_t highest = 0;
    int a = 0, b = 0;
    for (int i = 0; i < TRIES + VALUES * VALUES && (i < TRIES || highest == 0 || i > TRIES); i++) {
        int v = i < TRIES ? (int)(next_random(random) % VALUES) : (i - TRIES) / VALUES;
        int w = i < TRIES ? (int)(next_random(random) % VALUES) : (i - TRIES) % VALUES;
        uint64_t is = rank(matrix, choice, v, w);
        is += is * (next_random(random) & 255) / 256;
        if (is > highest) {
            highest = is;
            a = v;
            b = w;
        }
    }
    if (highest != 0) {
        cross_force(choice, a);
        cross_force(choice, b);
        atomic_fetch_add_explicit(&matrix->tried[a][b], 1, memory_order_relaxed);
        atomic_fetch_add_explicit(&matrix->tried[b][a], 1, memory_order_relaxed);
    }
    return highest != 0;
}

static bool is_missing(const struct cross_matrix *matrix, int a, int b, int c)
{
    return cross_three_may_meet(a, b, c) && cross_matrix_met_three(matrix, a, b, c) < matrix->least_triples;
}

/* Choose a triple that is missing: one of some at random, else the next one behind a random place. */
static void force_triple(const struct cross_matrix *matrix, struct cross_choice *choice, uint64_t *random)
{
    int a = 0, b = 0, c = 0;
    bool found = false;
    for (int i = 0; i < TRIES && !found; i++) {
        a = (int)(next_random(random) % VALUES);
        b = (int)(next_random(random) % VALUES);
        c = (int)(next_random(random) % VALUES);
        found = is_missing(matrix, a, b, c);
    }
    int from = (int)(next_random(random) % VALUES);
    for (int i = 0; i < VALUES * VALUES && !found; i++) {
        a = (from + i / VALUES) % VALUES;
        b = i % VALUES;
        for (c = b + 1; c < VALUES && cross_may_meet(a, b) && !found; c++) {
            found = is_missing(matrix, a, b, c);
        }
        c -= found ? 1 : 0;
    }
    if (found && cross_goes_with(choice, a) && cross_goes_with(choice, b) && cross_goes_with(choice, c)) {
        cross_force(choice, a);
        cross_force(choice, b);
        cross_force(choice, c);
    }
}

/* How often two values have taken effect in programs that had both, in 256ths: pairs that spoil each other
 * are left to programs that begin with them. */
static uint64_t rate(const struct cross_matrix *matrix, int a, int b)
{
    uint64_t met = cross_matrix_met(matrix, a, b) + LEARNS, had = cross_matrix_had(matrix, a, b) + LEARNS;
    return met < had ? 256 * met / had : 256;
}

/* How much the meetings of `value` with the values that are already forced are wanted. */
static uint64_t gain(const struct cross_matrix *matrix, const struct cross_choice *choice, int value)
{
    uint64_t sum = 0;
    for (int f = 0; f < FEATURES; f++) {
        int other = choice->forced[f];
        if (other < 0 || f == cross_values[value].feature) {
            continue;
        }
        sum += wanted(matrix, value, other) * rate(matrix, value, other) / 256;
        for (int k = 0; k < MORE && choice->more[f][k] >= 0; k++) {
            sum += wanted(matrix, value, choice->more[f][k]) * rate(matrix, value, choice->more[f][k]) / 256;
        }
        for (int g = f + 1; g < FEATURES && matrix->least_triples != 0; g++) {
            sum += choice->forced[g] >= 0 && is_missing(matrix, value, other, choice->forced[g]) ? 100 : 0;
        }
    }
    return sum;
}

/* How much processor time, or time, a program takes with the value, in quarters of what it takes without. */
static uint64_t cost(int value)
{
    switch (value) {
    case VALUE_GPU_SPIN:
    case VALUE_CPU_SPIN:
    case VALUE_GPU_YIELD:
        return 12;
    case VALUE_CPU_YIELD:
        return 8;
    case VALUE_CANCEL_DEBT:
        return 16;
    default:
        return 4;
    }
}

/* Add one more value of a feature that may have several, when some of its meetings are still wanted. */
static void force_another(const struct cross_matrix *matrix, struct cross_choice *choice, int feature)
{
    const struct cross_feature *f = &cross_features[feature];
    uint64_t most = 0;
    int best = -1;
    for (int v = f->first; v < f->first + f->count; v++) {
        bool fits = cross_goes_beside(choice, v) && !spins_enough(matrix, choice, v);
        uint64_t sum = fits ? 4 * gain(matrix, choice, v) / cost(v) : 0;
        best = sum > most ? v : best;
        most = sum > most ? sum : most;
    }
    if (best >= 0) {
        cross_force(choice, best);
    }
}

static void force_unless(struct cross_choice *choice, int value)
{
    if (cross_goes_with(choice, value)) {
        cross_force(choice, value);
    }
}

static bool wants_another(const struct cross_matrix *matrix, const struct cross_choice *choice, int feature)
{
    const struct cross_feature *f = &cross_features[feature];
    bool wants = false;
    for (int v = f->first + 1; v < f->first + f->count && choice->forced[feature] > f->first; v++) {
        wants = wants || (v != choice->forced[feature] && gain(matrix, choice, v) != 0);
    }
    return wants;
}

/* Two failures, or two cancels, need several steps of a graph that run() does not start.  When they are
 * wanted, and neither feature has a value yet, a program gets them. */
static void make_room(const struct cross_matrix *matrix, struct cross_choice *choice, uint64_t *random)
{
    static const int graphs[] = {VALUE_REBUILT, VALUE_FROZEN, VALUE_PARTS, VALUE_LATE};
    enum { GRAPHS = sizeof(graphs) / sizeof(graphs[0]) };
    uint64_t first = next_random(random);
    if (!wants_another(matrix, choice, FEATURE_FAILURE) && !wants_another(matrix, choice, FEATURE_CANCEL)) {
        return;
    }
    force_unless(choice, VALUE_STEPS);
    for (uint64_t i = 0; i < GRAPHS; i++) {
        force_unless(choice, graphs[(first + i) % GRAPHS]);
    }
}

/* As drawn, but without values that spin. */
static void force_wait(struct cross_choice *choice, int feature, uint64_t *random)
{
    const struct cross_feature *f = &cross_features[feature];
    uint32_t sum = 0;
    for (int v = f->first; v < f->first + f->count; v++) {
        sum += cross_goes_with(choice, v) ? cross_values[v].weight : 0;
    }
    uint64_t drawn = sum != 0 ? next_random(random) % sum : 0;
    for (int v = f->first; v < f->first + f->count && choice->forced[feature] < 0; v++) {
        uint32_t weight = cross_goes_with(choice, v) ? cross_values[v].weight : 0;
        if (drawn < weight) {
            cross_force(choice, v);
        }
        drawn -= weight;
    }
}

static uint64_t wanted_of(const struct cross_matrix *matrix, const struct cross_choice *choice, int value)
{
    uint64_t sum = 0;
    for (int v = 0; v < VALUES; v++) {
        sum += cross_may_meet(value, v) && cross_goes_with(choice, v) ? wanted(matrix, value, v) : 0;
    }
    return sum;
}

static void force_spin(const struct cross_matrix *matrix, struct cross_choice *choice)
{
    uint64_t gpu = cross_goes_with(choice, VALUE_GPU_SPIN) ? wanted_of(matrix, choice, VALUE_GPU_SPIN) : 0;
    uint64_t cpu = cross_goes_with(choice, VALUE_CPU_SPIN) ? wanted_of(matrix, choice, VALUE_CPU_SPIN) : 0;
    if (gpu + cpu != 0) {
        cross_force(choice, gpu > cpu ? VALUE_GPU_SPIN : VALUE_CPU_SPIN);
    }
}

/* How much more each value is wanted now that `forced` is. */
static void add_gains(const struct cross_matrix *matrix, const struct cross_choice *choice, int forced,
                      uint64_t *gains)
{
    int feature = cross_values[forced].feature;
    for (int v = 0; v < VALUES; v++) {
        if (cross_values[v].feature == feature || choice->forced[cross_values[v].feature] >= 0) {
            continue;
        }
        gains[v] += wanted(matrix, v, forced) * rate(matrix, v, forced) / 256;
        for (int g = 0; g < FEATURES && matrix->least_triples != 0; g++) {
            bool other = g != feature && choice->forced[g] >= 0;
            gains[v] += other && is_missing(matrix, v, forced, choice->forced[g]) ? 100 : 0;
        }
    }
}

/* Choose the value that is wanted most among those that go with the forced ones, of a feature that has none
 * yet. */
static int best_of_all(const struct cross_matrix *matrix, const struct cross_choice *choice,
                       const uint64_t *gains, uint64_t *random)
{
    uint64_t most = 0;
    int best = -1;
    for (int v = 0; v < VALUES; v++) {
        bool fits = cross_goes_with(choice, v) && !spins_enough(matrix, choice, v);
        uint64_t sum = fits ? gains[v] : 0;
        sum += sum * (next_random(random) & 255) / 512; /* so that the order is not always the same */
        sum = 4 * sum / cost(v);
        best = sum > most ? v : best;
        most = sum > most ? sum : most;
    }
    return best;
}

/* As long as meetings are wanted, nothing spins by chance; and beside what spins, a debt, or two devices,
 * what nothing is wanted of is what takes least of a processor. */
static void force_cheap(struct cross_choice *choice, uint64_t *random)
{
    static const int cheap[] = {VALUE_ONE_DEVICE, VALUE_ONE_WORKER, VALUE_WHOLE,     VALUE_UNSTABLE,
                                VALUE_ONE_STEP,   VALUE_ALONE,      VALUE_NO_MEMORY, VALUE_NO_BESIDE};
    bool is_dear = cross_spins(choice->forced[FEATURE_CPU_WAIT]) ||
                   cross_spins(choice->forced[FEATURE_GPU_WAIT]) || has_debt(choice) ||
                   choice->forced[FEATURE_DEVICES] == VALUE_TWO_DEVICES;
    if (is_dear) {
        force_unless(choice, VALUE_CPU_BLOCK);
        force_unless(choice, VALUE_GPU_BLOCK);
        for (size_t i = 0; i < sizeof(cheap) / sizeof(cheap[0]); i++) {
            force_unless(choice, cheap[i]);
        }
    }
    choice->never_spins = true;
    force_wait(choice, FEATURE_CPU_WAIT, random);
    force_wait(choice, FEATURE_GPU_WAIT, random);
}

void cross_plan(struct cross_matrix *matrix, uint64_t number, enum cross_spin spin,
                struct cross_choice *choice)
{
    bool wants = true;
    int order[FEATURES];
    uint64_t gains[VALUES];
    uint64_t random = (number + 1) * UINT64_C(0x9e3779b97f4a7c15);
    choice->never_spins = spin == CROSS_NEVER_SPINS;
    if (spin == CROSS_SPINS_FIRST) {
        force_spin(matrix, choice);
    }
    if (matrix->least_triples != 0 && number % 2 == 0) {
        force_triple(matrix, choice, &random);
    } else {
        wants = force_pair(matrix, choice, &random);
    }
    for (int f = 0; f < FEATURES; f++) { /* in a random order */
        int at = (int)(next_random(&random) % (uint64_t)(f + 1));
        order[f] = order[at];
        order[at] = f;
    }
    for (int v = 0; v < VALUES; v++) {
        gains[v] = gain(matrix, choice, v);
    }
    for (int best = 0; best >= 0;) {
        best = best_of_all(matrix, choice, gains, &random);
        if (best >= 0) {
            cross_force(choice, best);
            add_gains(matrix, choice, best, gains);
        }
    }
    make_room(matrix, choice, &random);
    for (int k = 0; k < MORE * FEATURES; k++) {
        force_another(matrix, choice, order[k % FEATURES]);
    }
    if (wants || choice->never_spins) {
        force_cheap(choice, &random);
    }
}
