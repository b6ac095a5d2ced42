/* SPDX-License-Identifier: MIT */
/* A fleet: several dispatchers, each of a device, as one for task managers.
 *
 * To taskman/ it is a GPU dispatcher like any other (fleet_ops.c).  It has no thread of its own: a ready task
 * goes to the dispatcher of its device, by way of those that have work which it comes after (route.h). */
#ifndef FLEET_FLEET_OPS_H
#define FLEET_FLEET_OPS_H

#include "dispatcher/order/crossing.h"
#include "driver/context.h"
#include "taskman/gpu_ops.h"

struct gy_fleet {
    struct gy_gpu_dispatcher base;                   /* immutable; first: how taskman/ sees us */
    uint32_t count;                                  /* immutable; 2 … GY_FLEET_MAX */
    struct gantry_dispatcher *members[GY_FLEET_MAX]; /* immutable; by number of the device */
    struct gy_crossing_pool crossings;               /* its own guards */
    gy_mutex lock;                                   /* rank LEAF */
    uint32_t users;                                  /* guarded by lock: task managers, and the owner */
    struct gy_gpu_user *managers;                    /* see gy_users_add() */
};

/* Joins `count` dispatchers, two or more, that have no task yet and belong to no fleet.  From now on their
 * contexts are lost together.
 * @retval GANTRY_ERR_OUT_OF_HOST_MEMORY */
GANTRY_MUST_CHECK gantry_status gy_fleet_create(gantry_dispatcher *const *members, uint32_t count,
                                                struct gy_fleet **out);
/* The owner needs it no longer; it goes with the last task manager that uses it. */
void gy_fleet_leave(struct gy_fleet *fleet);

#endif
