/* SPDX-License-Identifier: MIT */
/* The process's limit on GPU time.  It is read from the environment, else from the file that $GANTRY_CONFIG
 * names:
 *
 *   $CUDA_DEVICE_SM_LIMIT, CUDA_DEVICE_SM_LIMIT=…       percent, 1 to 99; 0, or 100 and more: no limit */
#ifndef PARTITION_LIMIT_H
#define PARTITION_LIMIT_H

#include "base/status.h"

/* Percent, 1 to 99, come out; 0: there is no limit.
 * @retval GANTRY_ERR_INVALID_ARGUMENT  for any other value (the message has the name, the value and where it
 * was found)
 * @retval GANTRY_ERR_IO                the file cannot be read */
GANTRY_MUST_CHECK gantry_status gy_limit_read(double *out);

#endif
