/* SPDX-License-Identifier: MIT */
/**
 * @file fleet.h
 * Fleets: one graph of tasks over several devices of the machine.
 *
 * A fleet has a context for each of its devices.  A task manager that was created with
 * gantry_taskman_options.fleet takes GPU tasks for all of them: a task names its context
 * (gantry_task_desc.context) or a partition of it.  Every dependency means what it means on one device, also
 * through CPU tasks and sync points, in frozen graphs and from step to step.  docs/guides/fleet.md has the
 * rules and a whole example.
 *
 * A fleet is lost as a whole: when one of its contexts is lost, so are the others, with the first cause,
 * which names the device.
 *
 * Threading: create and destroy from any thread, not from a task; queries from any thread.
 */
#ifndef GANTRY_FLEET_H
#define GANTRY_FLEET_H

#include <gantry/context.h>

GANTRY_BEGIN_DECLS

enum {
    GANTRY_FLEET_DEVICES_MAX = 16 /* most devices in a fleet */
};

/** How gantry_fleet_create() makes a fleet. */
typedef struct gantry_fleet_options {
    size_t struct_size;
    const char *devices; /* "all", or ordinals and UUIDs with commas between them ("0,2"), each device once;
                          * NULL: "all".  Their order is the order of the contexts */
    const gantry_context_options *context; /* of each context, but for `device`, which is ignored; NULL:
                                            * defaults.  Not GANTRY_CONTEXT_ADOPT */
} gantry_fleet_options;
#define GANTRY_FLEET_OPTIONS_INIT                \
    {                                            \
        sizeof(gantry_fleet_options), NULL, NULL \
    }

/** Create a context on each device and join them.  `options` NULL: defaults.  Device memory of each context's
 *  heap is let to all devices of the fleet that reach it (gantry_heap_options.peers), but where
 *  `options->context->heap` says otherwise.
 *  @retval GANTRY_OK
 *  @retval GANTRY_ERR_INVALID_ARGUMENT  NULL, an empty or too long list, a device that is named twice, or
 *                                       what gantry_context_create() refuses
 *  @retval GANTRY_ERR_UNSUPPORTED       an option this library does not know, or as gantry_context_create()
 *  @retval GANTRY_ERR_NO_DRIVER, GANTRY_ERR_NO_DEVICE, GANTRY_ERR_IO, GANTRY_ERR_DRIVER,
 *          GANTRY_ERR_OUT_OF_HOST_MEMORY  as gantry_context_create() */
GANTRY_API GANTRY_MUST_CHECK gantry_status gantry_fleet_create(const gantry_fleet_options *options,
                                                               gantry_fleet **out);

/** Destroy the contexts as gantry_context_destroy() does: task managers that use the fleet may be left, even
 * running; all devices then count as lost.  NULL is ignored.  Not from a task or another callback of the
 * library. */
GANTRY_API void gantry_fleet_destroy(gantry_fleet *fleet);

/** How many devices the fleet has; 0 for NULL. */
GANTRY_API uint32_t gantry_fleet_device_count(const gantry_fleet *fleet);

/** The context of device `index` of the fleet; NULL: there is none.  It lives as long as the fleet, and
 * gantry_context_destroy() refuses it.  Managers of that device alone may use it like any other. */
GANTRY_API gantry_context *gantry_fleet_context(gantry_fleet *fleet, uint32_t index);

GANTRY_END_DECLS

#endif
