/* How often two values took effect in the same program. */
#include "tests/campaign/crossing.h"

static bool has(const struct cross_effects *effects, int value)
{
    return (effects->words[value / 64] >> value % 64 & 1) != 0;
}

void cross_matrix_count(struct cross_matrix *matrix, const struct cross_effects *effects)
{
    int values[FEATURES], count = 0;
    for (int v = 0; v < VALUES && count < FEATURES; v++) {
        if (has(effects, v)) {
            values[count++] = v;
            atomic_fetch_add_explicit(&matrix->single[v], 1, memory_order_relaxed);
        }
    }
    for (int a = 0; a < count; a++) {
        for (int b = a + 1; b < count; b++) {
            atomic_fetch_add_explicit(&matrix->pairs[values[a]][values[b]], 1, memory_order_relaxed);
        }
    }
    atomic_fetch_add(&matrix->programs, 1);
}

/* Two values of different features that may meet; a < b. */
static bool counts(int a, int b)
{
    return cross_values[a].feature != cross_values[b].feature && cross_impossible(a, b) == NULL &&
           cross_not_yet(a, b) == NULL && cross_not_yet(a, a) == NULL && cross_not_yet(b, b) == NULL;
}

static uint32_t least_of(const struct cross_matrix *matrix, int f, int g, int *a, int *b)
{
    uint32_t least = UINT32_MAX;
    for (int v = cross_features[f].first; v < cross_features[f].first + cross_features[f].count; v++) {
        for (int w = cross_features[g].first; w < cross_features[g].first + cross_features[g].count; w++) {
            uint32_t met = atomic_load(&matrix->pairs[v][w]);
            if (counts(v, w) && met < least) {
                least = met;
                *a = v;
                *b = w;
            }
        }
    }
    return least;
}

void cross_matrix_print(const struct cross_matrix *matrix, FILE *file)
{
    fprintf(file, "programs: %llu\nvalues and how many programs each took effect in:\n",
            (unsigned long long)atomic_load(&matrix->programs));
    for (int f = 0; f < FEATURES; f++) {
        fprintf(file, "%3d %-12s", f, cross_features[f].name);
        for (int v = cross_features[f].first; v < cross_features[f].first + cross_features[f].count; v++) {
            fprintf(file, " %s %u", cross_values[v].name, atomic_load(&matrix->single[v]));
        }
        fprintf(file, "\n");
    }
    fprintf(file, "features that met: the least number of programs of any two of their values\n   ");
    for (int g = 1; g < FEATURES; g++) {
        fprintf(file, "%5d", g);
    }
    fprintf(file, "\n");
    for (int f = 0; f + 1 < FEATURES; f++) {
        fprintf(file, "%3d%*s", f, 5 * f, "");
        for (int g = f + 1; g < FEATURES; g++) {
            int a = 0, b = 0;
            uint32_t least = least_of(matrix, f, g, &a, &b);
            fprintf(file, least == UINT32_MAX ? "    -" : "%5u", least);
        }
        fprintf(file, "\n");
    }
}

uint32_t cross_matrix_missing(const struct cross_matrix *matrix, uint32_t least, uint32_t most, FILE *file)
{
    uint32_t missing = 0;
    for (int a = 0; a < VALUES; a++) {
        for (int b = a + 1; b < VALUES; b++) {
            uint32_t met = atomic_load(&matrix->pairs[a][b]);
            if (!counts(a, b) || met >= least) {
                continue;
            }
            if (missing++ < most) {
                fprintf(file, "%s=%s and %s=%s met in %u programs\n",
                        cross_features[cross_values[a].feature].name, cross_values[a].name,
                        cross_features[cross_values[b].feature].name, cross_values[b].name, met);
            }
        }
    }
    return missing;
}

bool cross_matrix_poorest(const struct cross_matrix *matrix, uint32_t least, uint64_t number, int *a, int *b)
{
    uint64_t offset = number * UINT64_C(0x9e3779b97f4a7c15) >> 33;
    uint32_t lowest = least;
    bool found = false;
    for (int tries = 0; tries < 400; tries++) { /* of a few at random, the poorest */
        offset = offset * UINT64_C(6364136223846793005) + UINT64_C(1442695040888963407);
        int v = (int)((offset >> 33) % VALUES), w = (int)((offset >> 13) % VALUES);
        uint32_t met = atomic_load(&matrix->pairs[v < w ? v : w][v < w ? w : v]);
        if (counts(v, w) && met < lowest) {
            lowest = met;
            *a = v;
            *b = w;
            found = true;
        }
    }
    return found;
}

/* How many meetings are still wanted of `value` with those that are forced already. */
static uint64_t wanted(const struct cross_matrix *matrix, uint32_t least, const struct cross_choice *choice,
                       int value)
{
    uint64_t sum = 0;
    for (int f = 0; f < FEATURES; f++) {
        int other = choice->forced[f];
        if (other >= 0 && counts(value < other ? value : other, value < other ? other : value)) {
            uint32_t met = atomic_load_explicit(
                &matrix->pairs[value < other ? value : other][value < other ? other : value],
                memory_order_relaxed);
            sum += met < least ? least - met : 0;
        }
    }
    return sum;
}

static bool goes_with(const struct cross_choice *choice, int value)
{
    bool goes = cross_values[value].weight != 0 && cross_not_yet(value, value) == NULL;
    for (int f = 0; f < FEATURES && goes; f++) {
        goes = choice->forced[f] < 0 || (cross_impossible(value, choice->forced[f]) == NULL &&
                                         cross_not_yet(value, choice->forced[f]) == NULL);
    }
    return goes;
}

void cross_matrix_fill(const struct cross_matrix *matrix, uint32_t least, uint64_t number,
                       struct cross_choice *choice)
{
    uint64_t random = number * UINT64_C(0x9e3779b97f4a7c15);
    int first = (int)((random >> 33) % FEATURES);
    for (int k = 0; k < FEATURES; k++) {
        int f = (first + k * 7) % FEATURES,
            best = -1; /* 7 and the number of features have no common divisor */
        uint64_t most = 0;
        for (int v = cross_features[f].first; v < cross_features[f].first + cross_features[f].count; v++) {
            random = random * UINT64_C(6364136223846793005) + UINT64_C(1442695040888963407);
            uint64_t sum =
                choice->forced[f] < 0 && goes_with(choice, v) ? wanted(matrix, least, choice, v) : 0;
            sum += sum * (random >> 33 & 255) / 512; /* not always the same one first */
            if (sum > most) {
                most = sum;
                best = v;
            }
        }
        if (best >= 0) {
            choice->forced[f] = best;
        }
    }
}
