/* SPDX-License-Identifier: MIT */
#include "base/cpus.h"

#include <string.h>

void gy_cpus_usable(gy_cpus *out)
{
    if (sched_getaffinity(0, sizeof(*out), &out->system) != 0) {
        memset(out, 0, sizeof(*out));
        gy_cpus_add(out, 0);
    }
}

uint32_t gy_cpus_at_once(const gy_cpus *set)
{
    const uint32_t count = gy_cpus_count(set), quota = gy_cpus_quota("");
    return quota != 0 && quota < count ? quota : count;
}

uint32_t gy_cpus_usable_at_once(void)
{
    gy_cpus mine;
    gy_cpus_usable(&mine);
    return gy_cpus_at_once(&mine);
}
