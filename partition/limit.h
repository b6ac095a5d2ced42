/* The process's limit on GPU time: $CUDA_DEVICE_SM_LIMIT, or that key of the file $GANTRY_CONFIG names. */
#ifndef PARTITION_LIMIT_H
#define PARTITION_LIMIT_H

#include "base/status.h"

/* Percent, 1 to 99; 0: no limit (not set, 0, or 100 and more).  The environment is before the file.
 * @retval GANTRY_ERR_INVALID_ARGUMENT  anything else (named)
 * @retval GANTRY_ERR_IO                the file cannot be read */
GANTRY_MUST_CHECK gantry_status gy_limit_read(double *out);

#endif
