/* SPDX-License-Identifier: MIT */
/* Is L L' the matrix?  L is looked at a column of tiles at a time, from the first one on. */
#ifndef CHOLESKY_CHECK_H
#define CHOLESKY_CHECK_H

#include <gantry/taskman.h>

#include <stdbool.h>
#include <stdint.h>

enum { CHECK_PROBES = 4, CHECK_WHOLE_SIZE = 1024 /* up to this, L is compared with that of the CPU */ };

struct check {
    gantry_cpu_dispatcher *cpus;
    uint32_t size, tile;
    double norm;    /* of the matrix: the root of the sum of all squares */
    double *probes; /* CHECK_PROBES vectors of -1 and 1, one behind the other; next their products: */
    double *wanted; /* with the matrix */
    double *inner;  /* with L' */
    double *got;    /* with L L' */
    double *factor; /* L by the CPU, column-major; NULL: the matrix is too large */
    double *squares;
    double difference; /* the largest between an element of L and of `factor` */
    bool has_wanted;   /* the matrix's part is done, for all checks of this size */
    const float *column;
    uint32_t k;
    size_t tile_step, pitch;
};

struct check_result {
    double residual;   /* ||A - L L'|| / ||A||, Frobenius; estimated: the root of the mean of the squares over
                        * the   probes, whose expectation it is */
    double difference; /* of elements of L, relative to the largest possible one; or -1: not compared */
    double residual_bound, difference_bound;
    bool is_good;
};

/* False: told on stderr. */
bool check_open(struct check *check, uint32_t size, uint32_t tile);
void check_close(struct check *check);
void check_begin(struct check *check);
/* Column k: its tiles (k,k), (k+1,k) … are `tile_step` floats apart, columns in them `pitch`. */
bool check_column(struct check *check, uint32_t k, const float *column, size_t tile_step, size_t pitch);
bool check_end(struct check *check, struct check_result *out);

#endif
