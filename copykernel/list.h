/* SPDX-License-Identifier: MIT */
/* Copies whose list the device reads: two kernels, no host work for each copy (list_moves.h). */
#ifndef COPYKERNEL_LIST_H
#define COPYKERNEL_LIST_H

#include "copykernel/copier.h"

/* Import the struct of a caller of any version, and check it as far as this can be done without looking into
 * its arrays; `most` 0 is fine.  Statuses as gantry_copy_launch_list(). */
GANTRY_MUST_CHECK gantry_status gy_copy_list_import(const gantry_copy_list *theirs, gantry_copy_list *out);

/* Dispatcher thread, context current.  Launch an imported list; *kernels: how many were launched.  Statuses
 * as gantry_copy_launch_list(). */
GANTRY_MUST_CHECK gantry_status gy_copier_launch_list(struct gy_copier *copier,
                                                      const struct gy_copy_target *target,
                                                      const gantry_copy_list *list,
                                                      const gantry_copy_options *options, uint32_t *kernels);

/* Dispatcher thread, context current, outside of a capture.  Let the device check the list on the
 * stream, as gantry_copy_launch() checks its descriptors, and wait for that (list_check.c).
 * @retval GANTRY_ERR_INVALID_ARGUMENT  the message names index and number
 * @retval GANTRY_ERR_OUT_OF_DEVICE_MEMORY, GANTRY_ERR_OUT_OF_HOST_MEMORY, GANTRY_ERR_DRIVER,
 *         GANTRY_ERR_DEVICE_LOST */
GANTRY_MUST_CHECK gantry_status gy_copier_check_list(struct gy_copier *copier, CUstream stream,
                                                     const gantry_copy_list *list);

#endif
