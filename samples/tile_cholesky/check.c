/* SPDX-License-Identifier: MIT */
#include "samples/tile_cholesky/check.h"

#include "cli/messages.h"
#include "cli/samples.h"
#include "samples/tile_cholesky/cholesky.h"
#include "samples/tile_cholesky/matrix.h"

#include <float.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

static bool is_ok(gantry_status status)
{
    if (status != GANTRY_OK) {
        cli_error("tile_cholesky: the check: %s", cli_cause(status));
    }
    return status == GANTRY_OK;
}

/* ---- what is wanted -------------------------------------------------------------------------------- */

/* A row's product with the probes. */
static gantry_status multiply_rows(size_t begin, size_t end, void *arg)
{
    struct check *c = arg;
    const uint32_t n = c->size;
    const float diagonal = cholesky_diagonal(n);
    for (size_t row = begin; row < end; row++) {
        double sums[CHECK_PROBES] = {0}, squares = 0;
        for (uint32_t column = 0; column < n; column++) {
            double element = (double)matrix_element((uint32_t)row, column, diagonal);
            squares += element * element;
            for (uint32_t p = 0; p < CHECK_PROBES; p++) {
                sums[p] += element * c->probes[p * (size_t)n + column];
            }
        }
        for (uint32_t p = 0; p < CHECK_PROBES; p++) {
            c->wanted[p * (size_t)n + row] = sums[p];
        }
        c->squares[row] = squares;
    }
    return GANTRY_OK;
}

/* Column by column, in double. */
static void factor_by_cpu(double *l, uint32_t n)
{
    const float diagonal = cholesky_diagonal(n);
    for (uint32_t column = 0; column < n; column++) {
        double *to = l + (size_t)column * n;
        for (uint32_t row = column; row < n; row++) {
            to[row] = (double)matrix_element(row, column, diagonal);
        }
        for (uint32_t k = 0; k < column; k++) {
            const double *from = l + (size_t)k * n, factor = from[column];
            for (uint32_t row = column; row < n; row++) {
                to[row] -= factor * from[row];
            }
        }
        double root = sqrt(to[column]);
        for (uint32_t row = column; row < n; row++) {
            to[row] /= root;
        }
    }
}

bool check_open(struct check *c, uint32_t size, uint32_t tile)
{
    const size_t n = size;
    memset(c, 0, sizeof(*c));
    c->size = size;
    c->tile = tile;
    c->probes = calloc(CHECK_PROBES * n, 4 * sizeof(double));
    c->squares = calloc(n, sizeof(double));
    c->factor = size <= CHECK_WHOLE_SIZE ? calloc(n * n, sizeof(double)) : NULL;
    if (c->probes == NULL || c->squares == NULL || (size <= CHECK_WHOLE_SIZE && c->factor == NULL)) {
        cli_error("tile_cholesky: the check: out of memory");
        return false;
    }
    c->wanted = c->probes + CHECK_PROBES * n;
    c->inner = c->wanted + CHECK_PROBES * n;
    c->got = c->inner + CHECK_PROBES * n;
    for (size_t i = 0; i < CHECK_PROBES * n; i++) {
        c->probes[i] = matrix_element((uint32_t)(i % n), UINT32_MAX - (uint32_t)(i / n), 0) < 0 ? -1 : 1;
    }
    if (!is_ok(gantry_cpu_dispatcher_create(NULL, &c->cpus)) ||
        !is_ok(gantry_parallel_for(c->cpus, 0, n, 0, multiply_rows, c))) {
        return false;
    }
    double squares = 0;
    for (size_t i = 0; i < n; i++) {
        squares += c->squares[i];
    }
    c->norm = sqrt(squares);
    if (c->factor != NULL) {
        factor_by_cpu(c->factor, size);
    }
    return true;
}

void check_close(struct check *c)
{
    gantry_cpu_dispatcher_destroy(c->cpus);
    free(c->probes);
    free(c->squares);
    free(c->factor);
}

/* ---- what has come out ------------------------------------------------------------------------------- */

void check_begin(struct check *c)
{
    memset(c->got, 0, CHECK_PROBES * (size_t)c->size * sizeof(double));
    c->difference = 0;
}

/* The first row of tile i that counts in a column of it: above the diagonal there is no L. */
static uint32_t first_row(const struct check *c, uint32_t i, uint32_t column)
{
    return i == c->k ? column : 0;
}

/* inner = L' probes, for columns of the column of tiles. */
static gantry_status multiply_columns(size_t begin, size_t end, void *arg)
{
    struct check *c = arg;
    const size_t n = c->size, first = (size_t)c->k * c->tile;
    for (size_t column = begin; column < end; column++) {
        double sums[CHECK_PROBES] = {0};
        for (uint32_t i = c->k; i < c->size / c->tile; i++) {
            const float *from = c->column + (i - c->k) * c->tile_step + column * c->pitch;
            for (uint32_t r = first_row(c, i, (uint32_t)column); r < c->tile; r++) {
                for (uint32_t p = 0; p < CHECK_PROBES; p++) {
                    sums[p] += (double)from[r] * c->probes[p * n + (size_t)i * c->tile + r];
                }
            }
        }
        for (uint32_t p = 0; p < CHECK_PROBES; p++) {
            c->inner[p * n + first + column] = sums[p];
        }
    }
    return GANTRY_OK;
}

/* got += L inner, for rows of tiles. */
static gantry_status add_tiles(size_t begin, size_t end, void *arg)
{
    struct check *c = arg;
    const size_t n = c->size, first = (size_t)c->k * c->tile;
    for (size_t i = begin; i < end; i++) {
        for (uint32_t column = 0; column < c->tile; column++) {
            const float *from = c->column + (i - c->k) * c->tile_step + column * c->pitch;
            for (uint32_t r = first_row(c, (uint32_t)i, column); r < c->tile; r++) {
                for (uint32_t p = 0; p < CHECK_PROBES; p++) {
                    c->got[p * n + i * c->tile + r] += (double)from[r] * c->inner[p * n + first + column];
                }
            }
        }
    }
    return GANTRY_OK;
}

/* A value that is no number is the largest difference. */
static void compare_column(struct check *c)
{
    for (uint32_t i = c->k; i < c->size / c->tile; i++) {
        for (uint32_t column = 0; column < c->tile; column++) {
            const float *from = c->column + (i - c->k) * c->tile_step + column * c->pitch;
            const double *right =
                c->factor + ((size_t)c->k * c->tile + column) * c->size + (size_t)i * c->tile;
            for (uint32_t r = first_row(c, i, column); r < c->tile; r++) {
                double difference = fabs((double)from[r] - right[r]);
                c->difference = difference <= c->difference ? c->difference
                                : isnan(difference)         ? (double)INFINITY
                                                            : difference;
            }
        }
    }
}

bool check_column(struct check *c, uint32_t k, const float *column, size_t tile_step, size_t pitch)
{
    c->k = k;
    c->column = column;
    c->tile_step = tile_step;
    c->pitch = pitch;
    if (c->factor != NULL) {
        compare_column(c);
    }
    return is_ok(gantry_parallel_for(c->cpus, 0, c->tile, 0, multiply_columns, c)) &&
           is_ok(gantry_parallel_for(c->cpus, k, c->size / c->tile, 1, add_tiles, c));
}

bool check_end(struct check *c, struct check_result *out)
{
    double squares = 0, root = sqrt((double)cholesky_diagonal(c->size));
    for (size_t i = 0; i < CHECK_PROBES * (size_t)c->size; i++) {
        double difference = c->wanted[i] - c->got[i];
        squares += difference * difference;
    }
    *out = (struct check_result){
        .residual = sqrt(squares / CHECK_PROBES) / c->norm,
        .difference = c->factor != NULL ? c->difference / root : -1,
        .residual_bound = 4 * (double)FLT_EPSILON * sqrt((double)c->size / 64 + 1),
        .difference_bound = 16 * (double)FLT_EPSILON,
    };
    out->is_good = out->residual <= out->residual_bound && out->difference <= out->difference_bound;
    return out->is_good;
}
