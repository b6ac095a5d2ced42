/* SPDX-License-Identifier: MIT */
/* The steps as tasks. */
#ifndef STENCIL_GRAPH_H
#define STENCIL_GRAPH_H

#include "samples/stencil/stencil.h"

/* Submit the tasks of a run and freeze them. */
bool stencil_submit_steps(struct stencil *stencil);

/* Did the call work?  When not, says on stderr what failed, and why. */
bool stencil_ok(gantry_status status, const char *what);
/* Blocks for so many rows. */
gantry_dim3 stencil_blocks(const struct stencil *stencil, uint32_t rows);

#endif
