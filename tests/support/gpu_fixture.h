/* SPDX-License-Identifier: MIT */
/* A context, a pool and a manager on the driver the tests run on: $GANTRY_TEST_DRIVER, "emulated" by
 * default.  Functions fail the test themselves. */
#ifndef TESTS_SUPPORT_GPU_FIXTURE_H
#define TESTS_SUPPORT_GPU_FIXTURE_H

#include "emulator/gantry_emu.h"

#include <gantry/gantry.h>

#include <stdbool.h>

struct gpu_fixture {
    gantry_context *context;
    gantry_cpu_dispatcher *cpus;
    gantry_taskman *manager;
};

gantry_driver_choice gpu_fixture_driver(void);
/* Returns how many devices that driver has. */
uint32_t gpu_fixture_devices(void);
/* Has it fewer than `wanted`?  A real machine may; what is left out then is said.  One that has fewer than
 * $GANTRY_TEST_DEVICES fails.  The emulated driver has as many as the test asks for. */
bool gpu_fixture_lacks_devices(uint32_t wanted);
/* Keep the primary contexts of all devices until the program ends; nothing on the emulated driver.  A driver
 * takes a quarter of a second to make and destroy one, and all processes take turns.  gpu_fixture_open() does
 * it. One thread. */
void gpu_fixture_hold_devices(void);
void gpu_fixture_open(struct gpu_fixture *fixture, uint32_t workers, uint32_t stream_limit);
void gpu_fixture_open_with(struct gpu_fixture *fixture, uint32_t workers,
                           const gantry_context_options *context);
/* Replace the manager by one that has no guests: only the dispatcher's own threads do its work. */
void gpu_fixture_use_threads_only(struct gpu_fixture *fixture);
void gpu_fixture_close(struct gpu_fixture *fixture);

/* Submit a GPU task. */
gantry_task *gpu_fixture_gpu(struct gpu_fixture *fixture, gantry_task_kind kind, const char *label,
                             gantry_launch_fn launch, void *arg);
/* Submit a CPU task, or a sync point when `run` is NULL. */
gantry_task *gpu_fixture_cpu(struct gpu_fixture *fixture, const char *label, gantry_task_fn run, void *arg);
void gpu_fixture_after(gantry_task *task, gantry_task *predecessor);
/* Declare that tasks of the manager need so much device memory. */
uint32_t gpu_fixture_declare(gantry_taskman *manager, uint64_t device_bytes);

/* Start, stop and reset one step; returns the status of stop. */
gantry_status gpu_fixture_step(struct gpu_fixture *fixture);
/* Stop and reset a step that was started; returns the status of stop. */
gantry_status gpu_fixture_stop(struct gpu_fixture *fixture);
/* Allocate zeros in device memory, which are there when this returns; it runs a step of its own. */
void gpu_fixture_clear(struct gpu_fixture *fixture, void *device, size_t bytes);
/* Copy to device memory of a context, by the driver and no task; it is there when this returns. */
void gpu_fixture_upload(gantry_context *context, void *device, const void *from, size_t bytes);
gantry_dispatcher_stats gpu_fixture_stats(struct gpu_fixture *fixture);

/* Look up one of the emulated driver's control functions (emulator/gantry_emu.h); NULL on a real
 * device. */
void *gpu_fixture_emulator(const char *symbol);
/* Look up all of them; false on a real device. */
bool gpu_fixture_controls(struct gantry_emu_control *emu);

#endif
