/* SPDX-License-Identifier: MIT */
/* Ports, for the files that submit tasks and hand them out.
 *
 * Tasks know a port by its number, which no other port of the process gets: a port may be gone when a task
 * that names it becomes ready. */
#ifndef TASKMAN_PORT_H
#define TASKMAN_PORT_H

#include "taskman/awaits.h"

#include <gantry/port.h>

uint64_t gy_port_number(const gantry_port *port);

/* GANTRY_ERR_STATE: the port's thread is not in this process; `shown` is the task that names it. */
gantry_status gy_port_check(const gantry_port *port, const char *shown);

/* Of READY tasks with GY_TRAIT_QUEUED, hand those that name a port to it, or fail them when it is gone; the
 * others stay in the list.  The caller holds no lock. */
GY_COLD void gy_ports_take(struct gy_task_list *queued, gy_dispatch_fn *dispatch);

#endif
