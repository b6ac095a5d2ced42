/* SPDX-License-Identifier: MIT */
/* The device that is meant, and its properties. */
#ifndef DRIVER_DEVICE_H
#define DRIVER_DEVICE_H

#include "driver/driver.h"

/* Find the device that `text` names: an ordinal ("1"), a UUID ("GPU-" or "MIG-" and 32 hexadecimal digits
 * with dashes, as nvidia-smi prints it) or "best"; NULL: $GANTRY_DEVICE, else "0".
 * @retval GANTRY_ERR_INVALID_ARGUMENT  the text is none of these
 * @retval GANTRY_ERR_NO_DEVICE         there is no such device
 * @retval GANTRY_ERR_UNSUPPORTED       the text is a UUID, but the driver does not report any */
GANTRY_MUST_CHECK gantry_status gy_device_find(const struct gy_driver *driver, const char *text,
                                               CUdevice *out);

/* Read everything that gantry_device_info holds, and set its struct_size, too. */
GANTRY_MUST_CHECK gantry_status gy_device_read_info(const struct gy_driver *driver, CUdevice device,
                                                    gantry_device_info *out);

/* The device that gantry_suggest_device() suggests. */
GANTRY_MUST_CHECK gantry_status gy_device_suggested_ordinal(const struct gy_driver *driver, int *out);

#endif
