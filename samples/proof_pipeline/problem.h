/* SPDX-License-Identifier: MIT */
/* What is computed, without a word about who computes it when: the data that all proofs share, the CPU's
 * stages of a partition as plain functions, and a serial version of everything to compare with.
 *
 * A partition has a witness w.  Synthesis: a = A w, b = B w, c = C w with three sparse matrices. Preparation:
 * the rows in order of the witness's low bits (buckets), and the points in that order.  Device: h =
 * NTT^-1(NTT(a)
 * * NTT(b) - NTT(c)), and the sum of h over each bucket.  Tail: the sum of h[i] times point i, by Pippenger's
 * method with a table of buckets per part.  Points are vectors of 16 field elements. */
#ifndef PROOF_PIPELINE_PROBLEM_H
#define PROOF_PIPELINE_PROBLEM_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#define POINT_WORDS 16

struct point {
    uint32_t word[POINT_WORDS];
};

/* Rows of so many entries each. */
struct matrix {
    uint32_t *columns; /* rows * entries */
    uint32_t *values;
};

struct problem {
    uint32_t rows; /* n, a power of two; as many columns */
    uint32_t rows_log2;
    uint32_t entries;     /* of a row */
    uint32_t buckets;     /* a power of two */
    uint32_t window_bits; /* of the tail's tables */
    uint32_t windows;
    uint32_t inverse_rows; /* of n, in the field */
    struct matrix matrices[3];
    struct point *points; /* n */
    uint32_t *roots;      /* n / 2 */
};

/* What comes of a partition. */
struct answer {
    struct point sum;
    uint64_t bucket_digest;
};

/* False: no memory. */
bool proof_create(struct problem *problem, uint32_t rows_log2, uint32_t entries, uint32_t window_bits);
void proof_destroy(struct problem *problem);

/* The witness of a partition, in full. */
void proof_witness(const struct problem *problem, uint32_t seed, uint32_t *witness);

/* Rows begin to end - 1 of all three products; `vectors` is a, b and c one behind the other.  Yields to the
 * bandwidth gate. */
void proof_synthesize(const struct problem *problem, const uint32_t *witness, size_t begin, size_t end,
                      uint32_t *vectors);

/* order: n; starts: buckets + 1; bases: n. */
void proof_prepare(const struct problem *problem, const uint32_t *witness, uint32_t *order, uint32_t *starts,
                   struct point *bases);

/* One window of rows begin to end - 1 (in `order`); `table` has 2^window_bits points, whatever is in them. */
void proof_tail_part(const struct problem *problem, uint32_t window, size_t begin, size_t end,
                     const uint32_t *h, const uint32_t *order, const struct point *bases, struct point *table,
                     struct point *out);
void proof_add_point(struct point *sum, const struct point *other);
uint64_t proof_digest(const uint32_t *values, size_t count);

/* Everything for one partition, in this thread and by the plainest means.  False: no memory. */
bool proof_solve(const struct problem *problem, uint32_t seed, struct answer *out);

#endif
