/* SPDX-License-Identifier: MIT */
/* What the system counts: CPU time and minor page faults of this process, TLB shootdown interrupts of the
 * machine. */
#include "samples/proof_pipeline/internal.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>

/* The line "TLB: 12 34 ... TLB shootdowns" has a number per CPU. */
static double read_shootdowns(void)
{
    FILE *file = fopen("/proc/interrupts", "re");
    if (file == NULL) {
        return -1;
    }
    char *line = NULL;
    size_t room = 0;
    double sum = -1;
    while (getline(&line, &room, file) > 0) {
        char *at = strstr(line, "TLB:");
        if (at == NULL) {
            continue;
        }
        sum = 0;
        at += strlen("TLB:");
        for (char *end = NULL;; at = end) {
            unsigned long long value = strtoull(at, &end, 10);
            if (end == at) {
                break;
            }
            sum += (double)value;
        }
    }
    free(line);
    fclose(file);
    return sum;
}

static double milliseconds(struct timeval time)
{
    return (double)time.tv_sec * 1e3 + (double)time.tv_usec / 1e3;
}

struct counters proof_counters_now(void)
{
    struct rusage usage;
    getrusage(RUSAGE_SELF, &usage);
    return (struct counters){(double)usage.ru_minflt, read_shootdowns(), milliseconds(usage.ru_utime),
                             milliseconds(usage.ru_stime)};
}
