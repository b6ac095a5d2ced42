/* Which CPUs share a last-level cache: hwloc tells where the library was built with it, else Linux's sysfs,
 * where each CPU's index3 lists those that it shares its L3 with. */
#include "taskman/cpu/caches.h"

#include "base/options.h"

#include <gantry/taskman.h>

#include <stdio.h>
#include <stdlib.h>

/* "0-7,16-23" into a set. */
static void parse_list(const char *text, cpu_set_t *out)
{
    CPU_ZERO(out);
    while (*text >= '0' && *text <= '9') {
        char *end = NULL;
        unsigned long first = strtoul(text, &end, 10), last = first;
        if (*end == '-') {
            last = strtoul(end + 1, &end, 10);
        }
        for (unsigned long cpu = first; cpu <= last && cpu < CPU_SETSIZE; cpu++) {
            CPU_SET(cpu, out);
        }
        text = *end == ',' ? end + 1 : end;
    }
}

/* False: nothing is known. */
static bool read_sharers(const char *root, size_t cpu, cpu_set_t *out)
{
    char path[256], text[1024];
    snprintf(path, sizeof(path), "%s/cpu%zu/cache/index3/shared_cpu_list", root, cpu);
    FILE *file = fopen(path, "re");
    if (file == NULL) {
        return false;
    }
    bool is_known = fgets(text, sizeof(text), file) != NULL;
    fclose(file);
    if (is_known) {
        parse_list(text, out);
        CPU_SET(cpu, out); /* whatever the file says */
    }
    return is_known;
}

void gy_caches_from_sysfs(const char *root, const cpu_set_t *usable, struct gy_caches *out)
{
    for (size_t cpu = 0; cpu < CPU_SETSIZE; cpu++) {
        out->of_cpu[cpu] = GY_NO_CACHE;
    }
    for (size_t cpu = 0; cpu < CPU_SETSIZE; cpu++) {
        cpu_set_t sharers;
        if (!CPU_ISSET(cpu, usable) || out->of_cpu[cpu] != GY_NO_CACHE ||
            !read_sharers(root, cpu, &sharers)) {
            continue;
        }
        for (size_t sharer = 0; sharer < CPU_SETSIZE; sharer++) {
            if (CPU_ISSET(sharer, &sharers) && out->of_cpu[sharer] == GY_NO_CACHE) {
                out->of_cpu[sharer] = (uint16_t)cpu;
            }
        }
    }
}

uint32_t gy_caches_domain(const struct gy_caches *caches, const cpu_set_t *usable, uint32_t index,
                          uint32_t *cpus, uint32_t capacity)
{
    bool is_seen[GY_NO_CACHE + 1] = {false};
    uint32_t found = 0, count = 0, wanted = 0;
    for (uint32_t cpu = 0; cpu < CPU_SETSIZE; cpu++) {
        uint32_t cache = caches->of_cpu[cpu];
        if (!CPU_ISSET(cpu, usable)) {
            continue;
        }
        if (!is_seen[cache]) {
            is_seen[cache] = true;
            wanted = found == index ? cache : wanted;
            found++;
        }
        if (found > index && cache == wanted) {
            if (count < capacity) {
                cpus[count] = cpu;
            }
            count++;
        }
    }
    return count;
}

gantry_status gantry_cpu_cache_domain(uint32_t index, uint32_t *cpus, uint32_t capacity, uint32_t *out_count)
{
    if (out_count == NULL || (cpus == NULL && capacity != 0)) {
        return GY_FAIL(GANTRY_ERR_INVALID_ARGUMENT, "cache domain: a place for the answer is NULL");
    }
    cpu_set_t usable;
    if (sched_getaffinity(0, sizeof(usable), &usable) != 0) {
        CPU_ZERO(&usable);
        CPU_SET(0, &usable);
    }
    struct gy_caches caches;
    if (!gy_caches_from_hwloc(&caches)) {
        gy_caches_from_sysfs(GY_SYSFS_CPUS, &usable, &caches);
    }
    *out_count = gy_caches_domain(&caches, &usable, index, cpus, capacity);
    return GANTRY_OK;
}
