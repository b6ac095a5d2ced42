/* SPDX-License-Identifier: MIT */
/* A gantry_fleet: the contexts of several devices, joined for task managers.
 *
 *   gantry_fleet ──► gantry_context, one per device ──► its dispatcher ◄── struct gy_fleet: all of them as
 * one
 *
 * With one device there is nothing to join: managers talk to its dispatcher as if there were no fleet. */
#include <gantry/fleet.h>

#include "base/alloc.h"
#include "base/handle.h"
#include "base/options.h"
#include "context/context.h"
#include "driver/device.h"
#include "driver/driver.h"
#include "fleet/fleet_ops.h"
#include "taskman/cpu/pool.h"

#include <stdio.h>
#include <string.h>

_Static_assert(GANTRY_FLEET_DEVICES_MAX == GY_FLEET_MAX && GY_FLEET_MAX <= GY_CONTEXTS_IN_GROUP,
               "all parts have room for the same number of devices");

enum { NAME_BYTES = 64 };

struct gantry_fleet {
    struct gy_gpu_fleet base;                           /* immutable; first: how taskman/ sees us */
    uint32_t count;                                     /* immutable */
    gantry_context *contexts[GANTRY_FLEET_DEVICES_MAX]; /* immutable */
    struct gy_fleet *joined;                            /* immutable; NULL: there is one device alone */
};

/* The devices of a list, in its order, before any of them is opened. */
struct device_list {
    uint32_t count;
    char names[GANTRY_FLEET_DEVICES_MAX][NAME_BYTES];
    CUdevice devices[GANTRY_FLEET_DEVICES_MAX];
};

static gantry_status add_device(const struct gy_driver *driver, const char *name, struct device_list *list)
{
    if (list->count == GANTRY_FLEET_DEVICES_MAX) {
        return GY_FAIL(GANTRY_ERR_INVALID_ARGUMENT, "fleet: more than %d devices", GANTRY_FLEET_DEVICES_MAX);
    }
    CUdevice device;
    gantry_status status = gy_device_find(driver, name, &device);
    if (status != GANTRY_OK) {
        return status;
    }
    for (uint32_t i = 0; i < list->count; i++) {
        if (list->devices[i] == device) {
            return GY_FAIL(GANTRY_ERR_INVALID_ARGUMENT, "fleet: device '%s' is in the list twice", name);
        }
    }
    list->devices[list->count] = device;
    snprintf(list->names[list->count++], NAME_BYTES, "%s", name);
    return GANTRY_OK;
}

static gantry_status list_all(const struct gy_driver *driver, struct device_list *list)
{
    int count = 0;
    gantry_status status = GY_DRIVER_CALL(driver, cuDeviceGetCount(&count));
    if (status == GANTRY_OK && count == 0) {
        return GY_FAIL(GANTRY_ERR_NO_DEVICE, "fleet: there is no device");
    }
    for (int i = 0; i < count && status == GANTRY_OK; i++) {
        char name[NAME_BYTES];
        snprintf(name, sizeof(name), "%d", i);
        status = add_device(driver, name, list);
    }
    return status;
}

static gantry_status list_named(const struct gy_driver *driver, const char *text, struct device_list *list)
{
    gantry_status status = GANTRY_OK;
    for (const char *at = text; status == GANTRY_OK; at++) {
        size_t length = strcspn(at, ",");
        char name[NAME_BYTES];
        if (length == 0 || length >= sizeof(name)) {
            return GY_FAIL(GANTRY_ERR_INVALID_ARGUMENT, "fleet: device %u of '%s' is %s", list->count, text,
                           length == 0 ? "empty" : "too long");
        }
        memcpy(name, at, length);
        name[length] = '\0';
        status = add_device(driver, name, list);
        at += length;
        if (*at == '\0') {
            break;
        }
    }
    return status;
}

/* The devices of the list that reach memory of device `own`: a bit for each ordinal.  Only memory that is
 * mapped can be let to others. */
static uint64_t find_peers(const struct gy_driver *driver, const struct device_list *list, CUdevice own)
{
    uint64_t peers = 0;
    int maps = 0;
    if (driver->cuMemSetAccess == NULL ||
        driver->cuDeviceGetAttribute(&maps, CU_DEVICE_ATTRIBUTE_VIRTUAL_MEMORY_MANAGEMENT_SUPPORTED, own) !=
            CUDA_SUCCESS ||
        maps == 0) {
        return 0;
    }
    for (uint32_t i = 0; i < list->count; i++) {
        int can = 0;
        if (list->devices[i] != own && driver->cuDeviceCanAccessPeer != NULL &&
            driver->cuDeviceCanAccessPeer(&can, list->devices[i], own) == CUDA_SUCCESS && can != 0) {
            peers |= UINT64_C(1) << list->devices[i];
        }
    }
    return peers;
}

/* All devices of the fleet that reach the memory of each heap may use it, unless the application names those
 * that may. */
static gantry_status open_contexts(gantry_fleet *fleet, const struct gy_driver *driver,
                                   const gantry_context_options *options, const struct device_list *list)
{
    gantry_heap_options heap = GANTRY_HEAP_OPTIONS_INIT;
    gantry_context_options ours = *options;
    gantry_status status =
        gy_options_import(&heap, sizeof(heap), options->heap, sizeof(size_t) * 2, "gantry_heap_options");
    const uint64_t wanted = heap.peers;
    heap.struct_size = sizeof(heap);
    ours.heap = &heap;
    for (uint32_t i = 0; i < list->count && status == GANTRY_OK; i++) {
        ours.device = list->names[i];
        heap.peers = wanted != 0 ? wanted : find_peers(driver, list, list->devices[i]);
        status = gantry_context_create(&ours, &fleet->contexts[i]);
        fleet->count += status == GANTRY_OK;
    }
    return status;
}

static gantry_status add_contexts(gantry_fleet *fleet, const gantry_context_options *options,
                                  const char *devices)
{
    const struct gy_driver *driver;
    struct device_list list = {0};
    gantry_status status = gy_driver_open(options->driver, &driver);
    if (status != GANTRY_OK) {
        return status;
    }
    status = devices == NULL || strcmp(devices, "all") == 0 ? list_all(driver, &list)
                                                            : list_named(driver, devices, &list);
    if (status == GANTRY_OK) {
        status = open_contexts(fleet, driver, options, &list);
    }
    gy_driver_close(driver);
    return status;
}

static gantry_status join(gantry_fleet *fleet)
{
    gantry_dispatcher *members[GANTRY_FLEET_DEVICES_MAX];
    for (uint32_t i = 0; i < fleet->count; i++) {
        members[i] = fleet->contexts[i]->dispatcher;
    }
    if (fleet->count == 1) {
        fleet->base.dispatcher = members[0];
    } else {
        gantry_status status = gy_fleet_create(members, fleet->count, &fleet->joined);
        if (status != GANTRY_OK) {
            return status;
        }
        fleet->base.dispatcher = (gantry_dispatcher *)(void *)fleet->joined;
    }
    for (uint32_t i = 0; i < fleet->count; i++) {
        fleet->contexts[i]->is_of_fleet = true;
    }
    return GANTRY_OK;
}

static void destroy_contexts(gantry_fleet *fleet)
{
    for (uint32_t i = fleet->count; i-- > 0;) {
        fleet->contexts[i]->is_of_fleet = false;
        gantry_context_destroy(fleet->contexts[i]);
    }
}

static gantry_status import_options(const gantry_fleet_options *theirs, gantry_fleet_options *ours,
                                    gantry_context_options *context)
{
    *ours = (gantry_fleet_options){.struct_size = sizeof(*ours)};
    *context = (gantry_context_options)GANTRY_CONTEXT_OPTIONS_INIT;
    gantry_status status =
        gy_options_import(ours, sizeof(*ours), theirs, sizeof(size_t) * 2, "gantry_fleet_options");
    if (status == GANTRY_OK) {
        status = gy_options_import(context, sizeof(*context), ours->context, sizeof(size_t) * 2,
                                   "gantry_fleet_options.context");
    }
    context->struct_size = sizeof(*context);
    if (status == GANTRY_OK && context->mode == GANTRY_CONTEXT_ADOPT) {
        return GY_FAIL(GANTRY_ERR_INVALID_ARGUMENT, "fleet: its contexts cannot be adopted");
    }
    return status;
}

gantry_status gantry_fleet_create(const gantry_fleet_options *options, gantry_fleet **out)
{
    if (out == NULL) {
        return GY_FAIL(GANTRY_ERR_INVALID_ARGUMENT, "gantry_fleet_create: out is NULL");
    }
    gantry_fleet_options ours;
    gantry_context_options context;
    gantry_status status = import_options(options, &ours, &context);
    if (status != GANTRY_OK) {
        return status;
    }
    gantry_fleet *fleet = gy_zalloc(sizeof(*fleet));
    if (fleet == NULL) {
        return GY_FAIL(GANTRY_ERR_OUT_OF_HOST_MEMORY, "no memory for a fleet");
    }
    status = add_contexts(fleet, &context, ours.devices);
    if (status == GANTRY_OK) {
        status = join(fleet);
    }
    if (status != GANTRY_OK) {
        destroy_contexts(fleet);
        gy_free(fleet);
        return status;
    }
    gy_handle_born(GY_HANDLE_FLEET, fleet, sizeof(*fleet), sizeof(*fleet));
    *out = fleet;
    return GANTRY_OK;
}

void gantry_fleet_destroy(gantry_fleet *fleet)
{
    GY_ACCEPT_OR_LEAVE(FLEET, fleet);
    if (fleet == NULL || gy_pool_check_outside("gantry_fleet_destroy") != GANTRY_OK) {
        return;
    }
    destroy_contexts(fleet);
    if (fleet->joined != NULL) {
        gy_fleet_leave(fleet->joined);
    }
    gy_handle_free(fleet, fleet);
}

uint32_t gantry_fleet_device_count(const gantry_fleet *fleet)
{
    GY_ACCEPT_OR(0, FLEET, fleet);
    return fleet != NULL ? fleet->count : 0;
}

gantry_context *gantry_fleet_context(gantry_fleet *fleet, uint32_t index)
{
    GY_ACCEPT_OR(NULL, FLEET, fleet);
    if (fleet == NULL || index >= fleet->count) {
        (void)GY_FAIL(GANTRY_ERR_INVALID_ARGUMENT, "gantry_fleet_context: index %u of %u devices", index,
                      fleet != NULL ? fleet->count : 0);
        return NULL;
    }
    return fleet->contexts[index];
}
