/* Which CPUs share a last-level cache, as Linux tells in sysfs: each CPU's index3 lists those it shares its
 * L3 with.  A domain is found by its first usable CPU. */
#include "base/options.h"

#include <gantry/taskman.h>

#include <errno.h>
#include <sched.h>
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

/* The CPUs of `usable` that share a cache with `cpu`; all of them where nothing is known. */
static void find_sharers(size_t cpu, const cpu_set_t *usable, cpu_set_t *out)
{
    char path[96], text[1024];
    snprintf(path, sizeof(path), "/sys/devices/system/cpu/cpu%zu/cache/index3/shared_cpu_list", cpu);
    *out = *usable;
    FILE *file = fopen(path, "re");
    if (file == NULL) {
        return;
    }
    if (fgets(text, sizeof(text), file) != NULL) {
        parse_list(text, out);
        CPU_AND(out, out, usable);
        CPU_SET(cpu, out); /* whatever the file says */
    }
    fclose(file);
}

gantry_status gantry_cpu_cache_domain(uint32_t index, uint32_t *cpus, uint32_t capacity, uint32_t *out_count)
{
    if (out_count == NULL || (cpus == NULL && capacity != 0)) {
        return GY_FAIL(GANTRY_ERR_INVALID_ARGUMENT, "cache domain: a place for the answer is NULL");
    }
    cpu_set_t usable, left, domain;
    if (sched_getaffinity(0, sizeof(usable), &usable) != 0) {
        CPU_ZERO(&usable);
        CPU_SET(0, &usable);
    }
    left = usable;
    CPU_ZERO(&domain);
    uint32_t found = 0;
    for (size_t cpu = 0; cpu < CPU_SETSIZE && found <= index; cpu++) {
        if (CPU_ISSET(cpu, &left)) {
            find_sharers(cpu, &usable, &domain);
            for (size_t sharer = cpu; sharer < CPU_SETSIZE; sharer++) {
                if (CPU_ISSET(sharer, &domain)) {
                    CPU_CLR(sharer, &left);
                }
            }
            found++;
        }
    }
    uint32_t count = 0;
    for (uint32_t cpu = 0; cpu < CPU_SETSIZE && found > index; cpu++) {
        if (CPU_ISSET(cpu, &domain)) {
            if (count < capacity) {
                cpus[count] = cpu;
            }
            count++;
        }
    }
    *out_count = count;
    return GANTRY_OK;
}
