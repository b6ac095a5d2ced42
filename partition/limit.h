/* The process's limit on GPU time, and how it is kept.  From the environment, else from the file that
 * $GANTRY_CONFIG names:
 *
 *   $CUDA_DEVICE_SM_LIMIT, CUDA_DEVICE_SM_LIMIT=…       percent, 1 to 99; 0, or 100 and more: no limit
 *   $GANTRY_QUOTA_CONTROLLER, quota_controller = …      "bucket" (the default) or "nvml" */
#ifndef PARTITION_LIMIT_H
#define PARTITION_LIMIT_H

#include "base/status.h"

struct gy_limit {
    double percent; /* 1 to 99; 0: none */
    bool by_nvml;   /* kept by partition/utilisation.h, not by buckets */
};

/* `controller`: what the application asks for, before everything else; NULL: nothing.
 * @retval GANTRY_ERR_INVALID_ARGUMENT  anything else (the name, the value and where it was found are told)
 * @retval GANTRY_ERR_IO                the file cannot be read */
GANTRY_MUST_CHECK gantry_status gy_limit_read(const char *controller, struct gy_limit *out);

#endif
