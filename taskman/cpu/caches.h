/* SPDX-License-Identifier: MIT */
/* Which CPUs share a last-level cache. */
#ifndef TASKMAN_CPU_CACHES_H
#define TASKMAN_CPU_CACHES_H

#include "base/cpus.h"

#include <stdbool.h>
#include <stdint.h>

#define GY_NO_CACHE GY_CPUS_MOST

/* For each CPU a number: CPUs that share an L3 have the same one, and GY_NO_CACHE means that nothing is
 * known. */
struct gy_caches {
    uint16_t of_cpu[GY_CPUS_MOST];
};

/* Read the caches from hwloc; false: the library is built without it, or it knows nothing. */
bool gy_caches_from_hwloc(struct gy_caches *out);

/* Read the caches of the CPUs in `usable` from Linux's files below `root`, usually GY_SYSFS_CPUS. */
#define GY_SYSFS_CPUS "/sys/devices/system/cpu"
void gy_caches_from_sysfs(const char *root, const gy_cpus *usable, struct gy_caches *out);

/* The CPUs of `usable` in the `index`-th cache, caches in the order of their first such CPU; those of which
 * nothing is known are one cache.  Up to `capacity` are written, all are counted. */
uint32_t gy_caches_domain(const struct gy_caches *caches, const gy_cpus *usable, uint32_t index,
                          uint32_t *cpus, uint32_t capacity);

#endif
