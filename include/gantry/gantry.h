/* SPDX-License-Identifier: MIT */
/**
 * @file gantry.h
 * All of Gantry's host API.  Kernels include <gantry/kernel.h> instead.
 */
#ifndef GANTRY_GANTRY_H
#define GANTRY_GANTRY_H

#include <gantry/access.h>
#include <gantry/bandwidth.h>
#include <gantry/base.h>
#include <gantry/context.h>
#include <gantry/copy.h>
#include <gantry/detach.h>
#include <gantry/dispatcher.h>
#include <gantry/fleet.h>
#include <gantry/heap.h>
#include <gantry/interop.h>
#include <gantry/launch.h>
#include <gantry/links.h>
#include <gantry/loop.h>
#include <gantry/module.h>
#include <gantry/partition.h>
#include <gantry/port.h>
#include <gantry/profile.h>
#include <gantry/ring.h>
#include <gantry/task.h>
#include <gantry/taskman.h>

#endif
