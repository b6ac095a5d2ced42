/* SPDX-License-Identifier: MIT */
/* The yardstick: the whole matrix on one device, factored by one call of cuSOLVER. */
#ifndef CHOLESKY_DENSE_H
#define CHOLESKY_DENSE_H

#include "samples/tile_cholesky/check.h"
#include "samples/tile_cholesky/cholesky.h"

/* The times of `runs` runs, in ms, each checked.  Nothing may be built.  False: told on stderr. */
bool cholesky_time_dense(struct cholesky *cholesky, struct check *check, uint32_t runs, double *ms,
                         struct check_result *out);

#endif
