/* The process's limit on GPU time, and the controller that enforces it.  They are read from the environment,
 * else from the file that $GANTRY_CONFIG names:
 *
 *   $CUDA_DEVICE_SM_LIMIT, CUDA_DEVICE_SM_LIMIT=…       percent, 1 to 99; 0, or 100 and more: no limit
 *   $GANTRY_QUOTA_CONTROLLER, quota_controller = …      "bucket" (the default) or "nvml" */
#ifndef PARTITION_LIMIT_H
#define PARTITION_LIMIT_H

#include "base/status.h"

struct gy_limit {
    double percent; /* 1 to 99; 0: none */
    bool by_nvml;   /* enforced by partition/utilisation.h, not by buckets */
};

/* `controller` is the controller that the application asks for, which comes before everything else; NULL:
 * none.
 * @retval GANTRY_ERR_INVALID_ARGUMENT  for any other value (the message has the name, the value and where it
 * was found)
 * @retval GANTRY_ERR_IO                the file cannot be read */
GANTRY_MUST_CHECK gantry_status gy_limit_read(const char *controller, struct gy_limit *out);

#endif
