/* SPDX-License-Identifier: MIT */
#include "samples/proof_pipeline/problem.h"

#include "samples/proof_pipeline/field.h"

#include <gantry/bandwidth.h>

#include <stdlib.h>
#include <string.h>

enum { ROWS_PER_YIELD = 512 };

static uint32_t field_power(uint32_t base, uint32_t exponent)
{
    uint32_t result = 1;
    for (; exponent != 0; exponent >>= 1) {
        result = (exponent & 1) != 0 ? field_mul(result, base) : result;
        base = field_mul(base, base);
    }
    return result;
}

/* G. Steele, D. Lea, C. Flood, "Fast splittable pseudorandom number generators", OOPSLA 2014 (splitmix64). */
static uint64_t mix(uint64_t x)
{
    x += 0x9e3779b97f4a7c15u;
    x = (x ^ (x >> 30)) * 0xbf58476d1ce4e5b9u;
    x = (x ^ (x >> 27)) * 0x94d049bb133111ebu;
    return x ^ (x >> 31);
}

/* ---- what all proofs share ----------------------------------------------------------------- */

static bool fill_matrix(const struct problem *p, uint64_t seed, struct matrix *out)
{
    size_t count = (size_t)p->rows * p->entries;
    out->columns = malloc(count * sizeof(uint32_t));
    out->values = malloc(count * sizeof(uint32_t));
    if (out->columns == NULL || out->values == NULL) {
        return false;
    }
    for (size_t i = 0; i < count; i++) {
        uint64_t random = mix(seed << 40 | i);
        out->columns[i] = (uint32_t)(random % p->rows);
        out->values[i] = (uint32_t)((random >> 32) % FIELD_PRIME);
    }
    return true;
}

bool proof_create(struct problem *p, uint32_t rows_log2, uint32_t entries, uint32_t window_bits)
{
    *p = (struct problem){.rows = 1u << rows_log2,
                          .rows_log2 = rows_log2,
                          .entries = entries,
                          .buckets = rows_log2 > 4 ? 1u << (rows_log2 - 4) : 1,
                          .window_bits = window_bits,
                          .windows = (31 + window_bits - 1) / window_bits};
    p->inverse_rows = field_power(p->rows, FIELD_PRIME - 2);
    p->points = malloc(p->rows * sizeof(*p->points));
    p->roots = malloc(p->rows / 2 * sizeof(*p->roots));
    bool good = p->points != NULL && p->roots != NULL;
    for (uint64_t i = 0; i < 3 && good; i++) {
        good = fill_matrix(p, i + 1, &p->matrices[i]);
    }
    if (!good) {
        proof_destroy(p);
        return false;
    }
    uint32_t root = field_power(FIELD_GENERATOR, (FIELD_PRIME - 1) / p->rows), power = 1;
    for (uint32_t i = 0; i < p->rows / 2; i++) {
        p->roots[i] = power;
        power = field_mul(power, root);
    }
    for (uint32_t i = 0; i < p->rows; i++) {
        for (uint32_t k = 0; k < POINT_WORDS; k++) {
            p->points[i].word[k] = (uint32_t)(mix((uint64_t)i * POINT_WORDS + k) % FIELD_PRIME);
        }
    }
    return true;
}

void proof_destroy(struct problem *p)
{
    for (int i = 0; i < 3; i++) {
        free(p->matrices[i].columns);
        free(p->matrices[i].values);
    }
    free(p->points);
    free(p->roots);
    *p = (struct problem){0};
}

/* ---- the stages of a partition ------------------------------------------------------------- */

void proof_witness(const struct problem *p, uint32_t seed, uint32_t *witness)
{
    for (uint32_t i = 0; i < p->rows; i++) {
        witness[i] = (uint32_t)(mix((uint64_t)seed << 32 | i) % FIELD_PRIME);
    }
}

/* The sum stays below the square of the prime and is reduced once, since dividing for each entry would take
 * longer than reading it. */
static uint32_t multiply_row(const struct problem *p, const struct matrix *matrix, const uint32_t *witness,
                             size_t row)
{
    const uint64_t square = (uint64_t)FIELD_PRIME * FIELD_PRIME;
    uint64_t sum = 0;
    for (size_t i = row * p->entries; i < (row + 1) * p->entries; i++) {
        uint64_t more = sum + (uint64_t)matrix->values[i] * witness[matrix->columns[i]];
        uint64_t less = more - square;
        sum = less < more ? less : more;
    }
    return (uint32_t)(sum % FIELD_PRIME);
}

void proof_synthesize(const struct problem *p, const uint32_t *witness, size_t begin, size_t end,
                      uint32_t *vectors)
{
    for (size_t row = begin; row < end; row++) {
        if (row % ROWS_PER_YIELD == 0 || row == begin) {
            gantry_bandwidth_yield();
        }
        for (size_t i = 0; i < 3; i++) {
            vectors[i * p->rows + row] = multiply_row(p, &p->matrices[i], witness, row);
        }
    }
}

/* A counting sort. */
void proof_prepare(const struct problem *p, const uint32_t *witness, uint32_t *order, uint32_t *starts,
                   struct point *bases)
{
    memset(starts, 0, (p->buckets + 1) * sizeof(*starts));
    for (uint32_t i = 0; i < p->rows; i++) {
        starts[witness[i] % p->buckets + 1]++;
    }
    for (uint32_t i = 0; i < p->buckets; i++) {
        starts[i + 1] += starts[i];
    }
    for (uint32_t i = 0; i < p->rows; i++) {
        uint32_t to = starts[witness[i] % p->buckets]++;
        order[to] = i;
        bases[to] = p->points[i];
    }
    memmove(starts + 1, starts, p->buckets * sizeof(*starts)); /* each has become the next one's start */
    starts[0] = 0;
}

void proof_add_point(struct point *sum, const struct point *other)
{
    for (int k = 0; k < POINT_WORDS; k++) {
        uint32_t value = sum->word[k] + other->word[k], less = value - FIELD_PRIME;
        sum->word[k] = less < value ? less : value;
    }
}

/* N. Pippenger, "On the evaluation of powers and monomials", SIAM J. Comput. 9, 1980: points with the same
 * digit are added first; then the sum over digits d of d * table[d] is a sum of sums from the top. */
void proof_tail_part(const struct problem *p, uint32_t window, size_t begin, size_t end, const uint32_t *h,
                     const uint32_t *order, const struct point *bases, struct point *table, struct point *out)
{
    uint32_t digits = 1u << p->window_bits, shift = window * p->window_bits;
    memset(table, 0, digits * sizeof(*table));
    for (size_t i = begin; i < end; i++) {
        uint32_t digit = h[order[i]] >> shift & (digits - 1);
        if (digit != 0) {
            proof_add_point(&table[digit], &bases[i]);
        }
    }
    struct point running = {{0}}, sum = {{0}};
    for (uint32_t digit = digits - 1; digit > 0; digit--) {
        proof_add_point(&running, &table[digit]);
        proof_add_point(&sum, &running);
    }
    uint32_t weight = field_power(2, shift);
    for (int k = 0; k < POINT_WORDS; k++) {
        out->word[k] = field_mul(sum.word[k], weight);
    }
}

uint64_t proof_digest(const uint32_t *values, size_t count)
{
    uint64_t digest = count;
    for (size_t i = 0; i < count; i++) {
        digest = mix(digest ^ values[i]);
    }
    return digest;
}

/* ---- everything, serially ------------------------------------------------------------------ */

/* The value at every power of the root, by halving: odd and even coefficients apart. */
static void transform(const uint32_t *in, size_t stride, uint32_t n, uint32_t root, uint32_t *out)
{
    if (n == 1) {
        out[0] = in[0];
        return;
    }
    uint32_t half = n / 2, power = 1, square = field_mul(root, root);
    transform(in, stride * 2, half, square, out);
    transform(in + stride, stride * 2, half, square, out + half);
    for (uint32_t i = 0; i < half; i++) {
        uint32_t even = out[i], odd = field_mul(out[half + i], power);
        out[i] = field_add(even, odd);
        out[half + i] = field_sub(even, odd);
        power = field_mul(power, root);
    }
}

/* `h` gets the result; `room` has 4 n elements. */
static void combine(const struct problem *p, uint32_t *vectors, uint32_t *room, uint32_t *h)
{
    uint32_t n = p->rows, root = field_power(FIELD_GENERATOR, (FIELD_PRIME - 1) / n);
    for (size_t i = 0; i < 3; i++) {
        transform(vectors + i * n, 1, n, root, room + i * n);
    }
    uint32_t *values = room + 3 * (size_t)n;
    for (size_t i = 0; i < n; i++) {
        values[i] = field_sub(field_mul(room[i], room[n + i]), room[2 * (size_t)n + i]);
    }
    transform(values, 1, n, field_power(root, FIELD_PRIME - 2), h);
    for (size_t i = 0; i < n; i++) {
        h[i] = field_mul(h[i], p->inverse_rows);
    }
}

static void sum_up(const struct problem *p, const uint32_t *witness, const uint32_t *h, uint32_t *sums,
                   struct answer *out)
{
    memset(sums, 0, p->buckets * sizeof(*sums));
    *out = (struct answer){.bucket_digest = 0};
    for (uint32_t i = 0; i < p->rows; i++) {
        uint32_t *sum = &sums[witness[i] % p->buckets];
        *sum = field_add(*sum, h[i]);
        for (int k = 0; k < POINT_WORDS; k++) {
            uint32_t term = field_mul(h[i], p->points[i].word[k]);
            out->sum.word[k] = field_add(out->sum.word[k], term);
        }
    }
    out->bucket_digest = proof_digest(sums, p->buckets);
}

bool proof_solve(const struct problem *p, uint32_t seed, struct answer *out)
{
    size_t n = p->rows;
    uint32_t *memory = malloc((9 * n + p->buckets) * sizeof(uint32_t));
    if (memory == NULL) {
        return false;
    }
    uint32_t *witness = memory, *vectors = memory + n, *room = memory + 4 * n, *h = memory + 8 * n;
    proof_witness(p, seed, witness);
    proof_synthesize(p, witness, 0, n, vectors);
    combine(p, vectors, room, h);
    sum_up(p, witness, h, memory + 9 * n, out);
    free(memory);
    return true;
}
