/* SPDX-License-Identifier: MIT */
/* Copies of rows at even distances: one kernel that reads no list. */
#ifndef COPYKERNEL_BOX_H
#define COPYKERNEL_BOX_H

#include "copykernel/copier.h"

/* Import the struct of a caller of any version.  Statuses as gantry_copy_launch_box(). */
GANTRY_MUST_CHECK gantry_status gy_copy_box_import(const gantry_copy_box *theirs, gantry_copy_box *out);

/* Dispatcher thread, context current.  Launch an imported box; *launched: something was launched.  Statuses
 * as gantry_copy_launch_box(). */
GANTRY_MUST_CHECK gantry_status gy_copier_launch_box(struct gy_copier *copier,
                                                     const struct gy_copy_target *target,
                                                     const gantry_copy_box *box,
                                                     const gantry_copy_options *options, bool *launched);

#endif
