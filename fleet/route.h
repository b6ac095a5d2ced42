/* SPDX-License-Identifier: MIT */
/* The way of a ready task through the dispatchers of its fleet.
 *
 *   ready ──► visit e ──► visit f ──► home: the task's own dispatcher, gates, stream, bin
 *               │ export    │ export
 *
 * It visits a device only for work that it comes after and that the host has not seen pass.  No thread waits
 * for another meanwhile: a visitor is a task in an inbox.  While the device builds a graph, which may hold
 * that work, its visitors are kept until the graph was launched. */
#ifndef FLEET_ROUTE_H
#define FLEET_ROUTE_H

#include "dispatcher/order/crossing.h"
#include "taskman/gpu_task.h"

struct gantry_dispatcher;
struct gy_fleet;

/* Any thread: send ready tasks, a list, on their way. */
void gy_fleet_submit(struct gy_fleet *fleet, gantry_task *first, gantry_task *last);

/* The dispatcher thread: a task that only visits the device. */
GY_COLD void gy_fleet_visit(struct gantry_dispatcher *d, gantry_task *task);
/* The dispatcher thread: no graph is being built any more: all visitors that were kept go on. */
GY_COLD void gy_fleet_let_go(struct gantry_dispatcher *d);

/* The dispatcher thread: a sync point is at home.  The work that it comes after becomes one timeline
 * point. */
GY_COLD gantry_status gy_fleet_settle(struct gantry_dispatcher *d, gantry_task *task);

#endif
