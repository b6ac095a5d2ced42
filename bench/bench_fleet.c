/* SPDX-License-Identifier: MIT */
/* `gantry bench fleet`: two devices under one task manager, against the same by hand. */
#include "bench/fleet_pair.h"

static bool bench_fleet(const struct bench_options *options)
{
    bool good = bench_fleet_hop(options);
    return bench_fleet_peer(options) && good;
}

const struct gantry_bench gantry_bench_fleet = {
    .name = "fleet",
    .summary = "two devices in one graph: hops and copies between them",
    .help = "A chain of kernels that hops between two devices, per hop, against bare events; and copies\n"
            "between the devices against the same calls without a task.  Needs two devices.  (The sample\n"
            "stencil has a comparison of its own, with the option --by-hand.)\n",
    .least_devices = 2,
    .main = bench_fleet,
};
