/* SPDX-License-Identifier: MIT */
/* What NVML, the driver's management library, is asked.  It is opened at run time: libnvidia-ml.so.1. */
#ifndef PARTITION_NVML_H
#define PARTITION_NVML_H

#include <stdint.h>

/* Count the multiprocessors of the whole GPU, of which a client of MPS may see a part; 0: NVML is not there,
 * or does not say.  It is opened and closed again. */
uint32_t gy_nvml_count_sms(const uint8_t uuid[16], int compute_major, int compute_minor);

#endif
