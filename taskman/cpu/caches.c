/* SPDX-License-Identifier: MIT */
/* Which CPUs share a last-level cache: hwloc tells where the library was built with it, else Linux's sysfs,
 * where each CPU's index3 lists those that it shares its L3 with. */
#include "taskman/cpu/caches.h"

#include "base/options.h"

#include <gantry/taskman.h>

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* "0-7,16-23" into a set. */
static void parse_list(const char *text, gy_cpus *out)
{
    memset(out, 0, sizeof(*out));
    while (*text >= '0' && *text <= '9') {
        char *end = NULL;
        unsigned long first = strtoul(text, &end, 10), last = first;
        if (*end == '-') {
            last = strtoul(end + 1, &end, 10);
        }
        for (unsigned long cpu = first; cpu <= last && cpu < GY_CPUS_MOST; cpu++) {
            gy_cpus_add(out, (uint32_t)cpu);
        }
        text = *end == ',' ? end + 1 : end;
    }
}

/* False: nothing is known. */
static bool read_sharers(const char *root, uint32_t cpu, gy_cpus *out)
{
    char path[256], text[1024];
    snprintf(path, sizeof(path), "%s/cpu%u/cache/index3/shared_cpu_list", root, cpu);
    FILE *file = fopen(path, "re");
    if (file == NULL) {
        return false;
    }
    bool is_known = fgets(text, sizeof(text), file) != NULL;
    fclose(file);
    if (is_known) {
        parse_list(text, out);
        gy_cpus_add(out, cpu); /* whatever the file says */
    }
    return is_known;
}

void gy_caches_from_sysfs(const char *root, const gy_cpus *usable, struct gy_caches *out)
{
    for (uint32_t cpu = 0; cpu < GY_CPUS_MOST; cpu++) {
        out->of_cpu[cpu] = GY_NO_CACHE;
    }
    for (uint32_t cpu = 0; cpu < GY_CPUS_MOST; cpu++) {
        gy_cpus sharers;
        if (!gy_cpus_has(usable, cpu) || out->of_cpu[cpu] != GY_NO_CACHE ||
            !read_sharers(root, cpu, &sharers)) {
            continue;
        }
        for (uint32_t sharer = 0; sharer < GY_CPUS_MOST; sharer++) {
            if (gy_cpus_has(&sharers, sharer) && out->of_cpu[sharer] == GY_NO_CACHE) {
                out->of_cpu[sharer] = (uint16_t)cpu;
            }
        }
    }
}

uint32_t gy_caches_domain(const struct gy_caches *caches, const gy_cpus *usable, uint32_t index,
                          uint32_t *cpus, uint32_t capacity)
{
    bool is_seen[GY_NO_CACHE + 1] = {false};
    uint32_t found = 0, count = 0, wanted = 0;
    for (uint32_t cpu = 0; cpu < GY_CPUS_MOST; cpu++) {
        uint32_t cache = caches->of_cpu[cpu];
        if (!gy_cpus_has(usable, cpu)) {
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
    gy_cpus usable;
    gy_cpus_usable(&usable);
    struct gy_caches caches;
    if (!gy_caches_from_hwloc(&caches)) {
        gy_caches_from_sysfs(GY_SYSFS_CPUS, &usable, &caches);
    }
    *out_count = gy_caches_domain(&caches, &usable, index, cpus, capacity);
    return GANTRY_OK;
}
