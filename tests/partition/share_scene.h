/* SPDX-License-Identifier: MIT */
/* Shares on the device clock of the emulated driver: each kernel takes as long as the test says; otherwise
 * time passes only when the dispatcher has nothing in flight and waits for tokens. */
#ifndef TESTS_PARTITION_SHARE_SCENE_H
#define TESTS_PARTITION_SHARE_SCENE_H

#include "emulator/gantry_emu.h"
#include "tests/support/gpu_fixture.h"

#include <stdatomic.h>

#define MS 1000000u

extern struct gantry_emu_control share_emu;

struct share_scene {
    struct gpu_fixture gpu;
    gantry_kernel *kernel;
    void *seen;
    _Atomic(uint32_t) done; /* launch calls */
    uint32_t calls;         /* of each task; 0: one */
};

/* False, with a message on stderr, without the emulated driver: share tests use it whatever driver the
 * others run on. */
bool share_scene_begin(void);

/* From the first call on shares use the device's clock, and a kernel takes `kernel_ns`; the second call ends
 * this. */
void share_scene_start_clock(uint64_t kernel_ns);
void share_scene_stop_clock(void);
uint64_t share_scene_now(void);

/* On GD, which owns the quotas: does any of them have work in flight? */
bool share_scene_is_working(void);

/* `options` NULL: there is one partition, and nothing special; the driver is chosen here. */
void share_scene_open(struct share_scene *scene, gantry_context_options *options);
void share_scene_close(struct share_scene *scene);

/* While it is frozen the clock does not go on by itself. */
void share_scene_freeze(bool frozen);

/* A launch callback that launches one kernel per call; its `arg` is the scene. */
gantry_launch_result share_scene_launch(gantry_launch *launch, void *arg);
/* Submit tasks that launch one kernel per call; chained: each comes after the one before. */
void share_scene_submit(struct share_scene *scene, gantry_taskman *manager, gantry_partition *partition,
                        uint32_t count, bool chained, bool stable);
/* Make a task manager of the scene's pool with a share; NULL: without one. */
gantry_taskman *share_scene_manager(struct share_scene *scene, const gantry_share *share);

gantry_share_usage share_scene_usage(gantry_taskman *manager);
gantry_share_usage share_scene_partition_usage(struct share_scene *scene, uint32_t index);
/* Wait until `ns` are charged to the manager: the last group is charged when its end was seen. */
void share_scene_await(gantry_taskman *manager, uint64_t ns);
/* The same for a partition, which is charged after the manager. */
void share_scene_await_partition(struct share_scene *scene, uint32_t index, uint64_t ns);

/* |used - rate * time| <= burst + (n + 1) * longest */
bool share_scene_within(const gantry_share_usage *usage, double time_ns, uint64_t burst_ns,
                        uint32_t in_flight);

#endif
