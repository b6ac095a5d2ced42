/* SPDX-License-Identifier: MIT */
/* Counts how often two values took effect in the same program, and three. */
#include "tests/campaign/crossing.h"

static bool has(const struct cross_effects *effects, int value)
{
    return (effects->words[value / 64] >> value % 64 & 1) != 0;
}

static void add_relaxed(atomic_uint *counter)
{
    atomic_fetch_add_explicit(counter, 1, memory_order_relaxed);
}

static void count_triples(struct cross_matrix *matrix, const int *values, int count)
{
    for (int a = 0; a < count; a++) {
        for (int b = a + 1; b < count; b++) {
            atomic_uchar *row = matrix->triples[values[a]][values[b]];
            for (int c = b + 1; c < count; c++) {
                if (atomic_load_explicit(&row[values[c]], memory_order_relaxed) < CROSS_TRIPLES_MOST) {
                    atomic_fetch_add_explicit(&row[values[c]], 1, memory_order_relaxed);
                }
            }
        }
    }
}

static int list_values(const struct cross_program *program, int *values)
{
    int count = 0;
    for (int v = 0; v < VALUES; v++) {
        if (cross_has(program, v)) {
            values[count++] = v;
        }
    }
    return count;
}

static void count_plan(struct cross_matrix *matrix, const struct cross_program *program)
{
    int values[VALUES], count = list_values(program, values);
    for (int a = 0; a < count; a++) {
        add_relaxed(&matrix->planned[values[a]]);
        for (int b = a + 1; b < count; b++) {
            add_relaxed(&matrix->both[values[a]][values[b]]);
        }
    }
}

void cross_matrix_count(struct cross_matrix *matrix, const struct cross_program *program,
                        const struct cross_effects *effects)
{
    int values[VALUES], count = 0;
    count_plan(matrix, program);
    for (int v = 0; v < VALUES; v++) {
        if (has(effects, v)) {
            values[count++] = v;
            add_relaxed(&matrix->single[v]);
        }
    }
    for (int a = 0; a < count; a++) {
        for (int b = a + 1; b < count; b++) {
            add_relaxed(&matrix->pairs[values[a]][values[b]]);
        }
    }
    if (matrix->least_triples != 0) {
        count_triples(matrix, values, count);
    }
    atomic_fetch_add(&matrix->programs, 1);
}

uint32_t cross_matrix_met(const struct cross_matrix *matrix, int a, int b)
{
    return atomic_load_explicit(a < b ? &matrix->pairs[a][b] : &matrix->pairs[b][a], memory_order_relaxed);
}

uint32_t cross_matrix_had(const struct cross_matrix *matrix, int a, int b)
{
    return atomic_load_explicit(a < b ? &matrix->both[a][b] : &matrix->both[b][a], memory_order_relaxed);
}

uint32_t cross_matrix_least(const struct cross_matrix *matrix, int a, int b)
{
    return cross_are_dear(a, b) ? matrix->least_dear : matrix->least;
}

uint32_t cross_matrix_met_three(const struct cross_matrix *matrix, int a, int b, int c)
{
    int low = a < b ? a : b, high = a < b ? b : a;
    int first = low < c ? low : c, last = high > c ? high : c, middle = a + b + c - first - last;
    return atomic_load_explicit(&matrix->triples[first][middle][last], memory_order_relaxed);
}

/* ---- printing -------------------------------------------------------------------------------- */

static uint32_t least_of(const struct cross_matrix *matrix, int f, int g)
{
    uint32_t least = UINT32_MAX;
    for (int v = cross_features[f].first; v < cross_features[f].first + cross_features[f].count; v++) {
        for (int w = cross_features[g].first; w < cross_features[g].first + cross_features[g].count; w++) {
            uint32_t met = cross_matrix_met(matrix, v, w);
            least = cross_may_meet(v, w) && met < least ? met : least;
        }
    }
    return least;
}

void cross_matrix_print(const struct cross_matrix *matrix, FILE *file)
{
    fprintf(file,
            "programs: %llu\nvalues, and how many programs each took effect in, of those that had it:\n",
            (unsigned long long)atomic_load(&matrix->programs));
    for (int f = 0; f < FEATURES; f++) {
        fprintf(file, "%3d %-12s", f, cross_features[f].name);
        for (int v = cross_features[f].first; v < cross_features[f].first + cross_features[f].count; v++) {
            fprintf(file, " %s %u/%u", cross_values[v].name, atomic_load(&matrix->single[v]),
                    atomic_load(&matrix->planned[v]));
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
            uint32_t least = least_of(matrix, f, g);
            fprintf(file, least == UINT32_MAX ? "    -" : "%5u", least);
        }
        fprintf(file, "\n");
    }
}

static void print_value(int v, FILE *file)
{
    fprintf(file, "%s=%s", cross_features[cross_values[v].feature].name, cross_values[v].name);
}

uint32_t cross_matrix_missing(const struct cross_matrix *matrix, uint32_t most, FILE *file)
{
    uint32_t missing = 0;
    for (int a = 0; a < VALUES; a++) {
        for (int b = a + 1; b < VALUES; b++) {
            uint32_t met = cross_matrix_met(matrix, a, b);
            if (cross_may_meet(a, b) && met < cross_matrix_least(matrix, a, b) && missing++ < most) {
                print_value(a, file);
                fprintf(file, " and ");
                print_value(b, file);
                fprintf(file, " met in %u programs\n", met);
            }
        }
    }
    return missing;
}

uint32_t cross_matrix_never(const struct cross_matrix *matrix, uint32_t tried, FILE *file)
{
    uint32_t never = 0;
    for (int a = 0; a < VALUES; a++) {
        for (int b = a + 1; b < VALUES; b++) {
            uint32_t had = cross_matrix_had(matrix, a, b);
            if (cross_may_meet(a, b) && cross_matrix_met(matrix, a, b) == 0 && had >= tried) {
                never++;
                print_value(a, file);
                fprintf(file, " and ");
                print_value(b, file);
                fprintf(file, " met in none of the %u programs that had both\n", had);
            }
        }
    }
    return never;
}

uint32_t cross_matrix_missing_calm(const struct cross_matrix *matrix, uint32_t most)
{
    uint32_t missing = 0;
    for (int a = 0; a < VALUES && missing < most; a++) {
        for (int b = a + 1; b < VALUES && !cross_spins(a); b++) {
            missing += !cross_spins(b) && cross_may_meet(a, b) &&
                       cross_matrix_met(matrix, a, b) < cross_matrix_least(matrix, a, b);
        }
    }
    return missing;
}

uint32_t cross_matrix_unexpected(const struct cross_matrix *matrix, FILE *file)
{
    uint32_t unexpected = 0;
    for (int a = 0; a < VALUES; a++) {
        for (int b = a + 1; b < VALUES; b++) {
            const char *reason = cross_impossible(a, b);
            if (reason != NULL && cross_matrix_met(matrix, a, b) != 0) {
                unexpected++;
                print_value(a, file);
                fprintf(file, " and ");
                print_value(b, file);
                fprintf(file, " met in %u programs, though %s\n", cross_matrix_met(matrix, a, b), reason);
            }
        }
    }
    return unexpected;
}

uint32_t cross_matrix_missing_triples(const struct cross_matrix *matrix, uint32_t most, FILE *file)
{
    uint32_t missing = 0;
    for (int a = 0; a < VALUES; a++) {
        for (int b = a + 1; b < VALUES; b++) {
            for (int c = b + 1; c < VALUES && cross_may_meet(a, b); c++) {
                if (cross_three_may_meet(a, b, c) &&
                    cross_matrix_met_three(matrix, a, b, c) < matrix->least_triples && missing++ < most) {
                    print_value(a, file);
                    fprintf(file, " and ");
                    print_value(b, file);
                    fprintf(file, " and ");
                    print_value(c, file);
                    fprintf(file, " met in %u programs\n", cross_matrix_met_three(matrix, a, b, c));
                }
            }
        }
    }
    return missing;
}
