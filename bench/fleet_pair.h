/* SPDX-License-Identifier: MIT */
/* Two devices for `gantry bench fleet`: as a fleet, and by hand, in the same contexts. */
#ifndef BENCH_FLEET_PAIR_H
#define BENCH_FLEET_PAIR_H

#include "bench/harness.h"
#include "bench/raw_cuda.h"

#include <gantry/gantry.h>

enum { FLEET_PAIR = 2 };

struct fleet_pair {
    gantry_fleet *fleet;
    gantry_context *contexts[FLEET_PAIR];
    gantry_heap *heaps[FLEET_PAIR];
    gantry_taskman *manager;
    struct raw_cuda cuda;
    CUstream streams[FLEET_PAIR]; /* by hand */
    bool is_emulated;
};

/* False, here and below: it failed, with a line on stderr. */
bool bench_pair_open(struct fleet_pair *pair, const struct bench_options *options);
void bench_pair_close(struct fleet_pair *pair);
bool bench_pair_ok(gantry_status status);
/* Make a device's context current; bench_pair_leave() undoes it. */
bool bench_pair_enter(struct fleet_pair *pair, uint32_t device);
void bench_pair_leave(struct fleet_pair *pair, uint32_t device);
/* Wait for all work of both devices. */
bool bench_pair_settle(struct fleet_pair *pair);

/* The rows of `gantry bench fleet`; fleet_hop.c, fleet_peer.c. */
bool bench_fleet_hop(const struct bench_options *options);
bool bench_fleet_peer(const struct bench_options *options);

#endif
