/* SPDX-License-Identifier: MIT */
/* What hwloc knows about caches, which is more than Linux's files where a machine describes itself badly; and
 * its environment variables can describe another machine. */
#include "taskman/cpu/caches.h"

#if GANTRY_HAS_HWLOC
#include <hwloc.h>

static bool load(hwloc_topology_t topology)
{
    return hwloc_topology_set_all_types_filter(topology, HWLOC_TYPE_FILTER_KEEP_NONE) == 0 &&
           hwloc_topology_set_type_filter(topology, HWLOC_OBJ_L3CACHE, HWLOC_TYPE_FILTER_KEEP_ALL) == 0 &&
           hwloc_topology_set_flags(topology, HWLOC_TOPOLOGY_FLAG_DONT_CHANGE_BINDING) == 0 &&
           hwloc_topology_load(topology) == 0;
}

bool gy_caches_from_hwloc(struct gy_caches *out)
{
    hwloc_topology_t topology;
    if (hwloc_topology_init(&topology) != 0) {
        return false;
    }
    bool is_loaded = load(topology);
    for (size_t cpu = 0; cpu < GY_CPUS_MOST && is_loaded; cpu++) {
        out->of_cpu[cpu] = GY_NO_CACHE;
    }
    hwloc_obj_t cache = NULL;
    while (is_loaded && (cache = hwloc_get_next_obj_by_type(topology, HWLOC_OBJ_L3CACHE, cache)) != NULL) {
        int first = hwloc_bitmap_first(cache->cpuset);
        for (int cpu = first; cpu >= 0 && cpu < (int)GY_CPUS_MOST;
             cpu = hwloc_bitmap_next(cache->cpuset, cpu)) {
            out->of_cpu[cpu] = (uint16_t)first;
        }
    }
    hwloc_topology_destroy(topology);
    return is_loaded;
}

#else

bool gy_caches_from_hwloc(struct gy_caches *out)
{
    (void)out;
    return false;
}

#endif
