/* SPDX-License-Identifier: MIT */
/* CPUs: which ones may be used, and how many of them a quota lets run at a time. */
#ifndef BASE_CPUS_H
#define BASE_CPUS_H

#include <sched.h>
#include <stdbool.h>
#include <stdint.h>

#define GY_CPUS_MOST 8192u /* the most that Linux is built for; cpu_set_t has room for 1024 */

/* A set of CPUs.  `system` is its beginning, for calls that are told the size of all of it. */
typedef union gy_cpus {
    cpu_set_t system;
    uint64_t words[GY_CPUS_MOST / 64];
} gy_cpus;

static inline bool gy_cpus_has(const gy_cpus *set, uint32_t cpu)
{
    return cpu < GY_CPUS_MOST && (set->words[cpu / 64] >> (cpu % 64) & 1u) != 0;
}

static inline void gy_cpus_add(gy_cpus *set, uint32_t cpu)
{
    if (cpu < GY_CPUS_MOST) {
        set->words[cpu / 64] |= UINT64_C(1) << (cpu % 64);
    }
}

static inline uint32_t gy_cpus_count(const gy_cpus *set)
{
    return (uint32_t)CPU_COUNT_S(sizeof(*set), &set->system);
}

/* The CPUs that the calling thread may use, by its affinity and the cpuset of its group; the first one when
 * the system does not say. */
void gy_cpus_usable(gy_cpus *out);

/* How many threads can run at a time: as many as `set` has CPUs, and no more than a quota gives time for. */
uint32_t gy_cpus_at_once(const gy_cpus *set);
/* The same of gy_cpus_usable(). */
uint32_t gy_cpus_usable_at_once(void);

/* The CPUs that the quotas of the process's control groups have time for, rounded up: cpu.max, or
 * cpu.cfs_quota_us of version 1, of its group and those around it.  0: there is no quota.  Files are looked
 * for below `root`, usually "". */
uint32_t gy_cpus_quota(const char *root);

#endif
