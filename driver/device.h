/* Which device is meant, and what it is. */
#ifndef DRIVER_DEVICE_H
#define DRIVER_DEVICE_H

#include "driver/driver.h"

/* The device that `text` names: an ordinal ("1"), a UUID ("GPU-" or "MIG-" and 32 hexadecimal digits with
 * dashes, as nvidia-smi prints it) or "best"; NULL: $GANTRY_DEVICE, else "0".
 * @retval GANTRY_ERR_INVALID_ARGUMENT  none of these
 * @retval GANTRY_ERR_NO_DEVICE         no such device
 * @retval GANTRY_ERR_UNSUPPORTED       a UUID, but the driver does not tell any */
GANTRY_MUST_CHECK gantry_status gy_device_find(const struct gy_driver *driver, const char *text,
                                               CUdevice *out);

/* Read everything that gantry_device_info holds; struct_size is set as well. */
GANTRY_MUST_CHECK gantry_status gy_device_read_info(const struct gy_driver *driver, CUdevice device,
                                                    gantry_device_info *out);

/* What gantry_suggest_device() tells. */
GANTRY_MUST_CHECK gantry_status gy_device_suggested_ordinal(const struct gy_driver *driver, int *out);

#endif
