/* SPDX-License-Identifier: MIT */
#include "bench/fleet_pair.h"

#include <string.h>

bool bench_pair_ok(gantry_status status)
{
    return bench_ok("fleet", status);
}

bool bench_pair_enter(struct fleet_pair *pair, uint32_t device)
{
    return bench_pair_ok(gantry_context_acquire(pair->contexts[device]));
}

void bench_pair_leave(struct fleet_pair *pair, uint32_t device)
{
    (void)bench_pair_ok(gantry_context_release(pair->contexts[device]));
}

bool bench_pair_settle(struct fleet_pair *pair)
{
    return bench_pair_ok(gantry_context_synchronize(pair->contexts[0])) &&
           bench_pair_ok(gantry_context_synchronize(pair->contexts[1]));
}

static bool open_device(struct fleet_pair *pair, uint32_t device)
{
    pair->contexts[device] = gantry_fleet_context(pair->fleet, device);
    pair->heaps[device] = gantry_context_heap(pair->contexts[device]);
    if (!bench_pair_enter(pair, device)) {
        return false;
    }
    bool good = RAW(&pair->cuda, cuStreamCreate(&pair->streams[device], CU_STREAM_NON_BLOCKING));
    bench_pair_leave(pair, device);
    return good;
}

bool bench_pair_open(struct fleet_pair *pair, const struct bench_options *options)
{
    gantry_context_options context = GANTRY_CONTEXT_OPTIONS_INIT;
    gantry_fleet_options fleet = GANTRY_FLEET_OPTIONS_INIT;
    gantry_taskman_options manager = GANTRY_TASKMAN_OPTIONS_INIT;
    memset(pair, 0, sizeof(*pair));
    pair->is_emulated = options->emulated;
    context.driver = options->driver;
    fleet.devices = "0,1";
    fleet.context = &context;
    if (!bench_pair_ok(gantry_fleet_create(&fleet, &pair->fleet)) ||
        !raw_cuda_open(gantry_fleet_context(pair->fleet, 0), &pair->cuda)) {
        return false;
    }
    manager.fleet = pair->fleet;
    return open_device(pair, 0) && open_device(pair, 1) &&
           bench_pair_ok(gantry_taskman_create(&manager, &pair->manager));
}

void bench_pair_close(struct fleet_pair *pair)
{
    gantry_taskman_destroy(pair->manager);
    for (uint32_t d = 0; d < FLEET_PAIR; d++) {
        if (pair->streams[d] != NULL && bench_pair_enter(pair, d)) {
            (void)RAW(&pair->cuda, cuStreamDestroy(pair->streams[d]));
            bench_pair_leave(pair, d);
        }
    }
    gantry_fleet_destroy(pair->fleet);
}
