/* SPDX-License-Identifier: MIT */
/* Who shares the GPU: what each tenant was to get and what it got, who held whom, and on which SMs their
 * blocks ran.  A tenant is a partition, or a task manager that has a share of GPU time. */
#ifndef CLI_REPORT_TENANTS_H
#define CLI_REPORT_TENANTS_H

#include "cli/trace.h"

#include <stdio.h>

#define REPORT_TENANTS 128u
#define REPORT_HOLDS 128u
#define REPORT_SMS 4096u         /* the numbers of SMs are below it */
#define REPORT_WINDOW_US 100000u /* of `worst_us` */

struct report_tenant {
    char name[64];
    uint32_t gpu;        /* track, of a partition; 0: of any */
    uint64_t target_ppm; /* its share of GPU time; 0: it has none, and the next three say nothing */
    uint64_t charged_us; /* GPU time between the first count of it and the last */
    uint64_t counted_us; /* between these */
    uint64_t worst_us;   /* the most that was charged within 100 ms; 0: it was counted for less than that */
    uint64_t holds, held_ns; /* times in which the share held tasks back, added up */
    uint64_t tasks, p50_ns, p99_ns;
    uint64_t *blocks_of;     /* by SM, REPORT_SMS of them */
    uint64_t blocks, strays; /* strays: on SMs where another partition of the GPU has more */
};

/* For one reason tasks of one share on one device were held back: see the span's name in
 * dispatcher/gates/share_turns.c. */
struct report_hold {
    uint32_t name; /* index into the trace's names */
    uint64_t ordinal;
    uint64_t count, ns;
};

struct report_tenants {
    struct report_tenant *list; /* partitions first */
    size_t count;
    struct report_hold *holds; /* by time */
    size_t hold_count;
};

struct report;

/* `report` has its partitions.  False: out of memory.  Free what comes out, also then. */
bool cli_report_tenants(const struct trace *trace, const struct report *report, struct report_tenants *out);
void cli_report_tenants_free(struct report_tenants *tenants);
void cli_report_tenants_text(const struct trace *trace, const struct report_tenants *tenants);
void cli_report_tenants_json(const struct trace *trace, const struct report_tenants *tenants, FILE *file);

/* Does the counter of that name say what share of GPU time somebody is to get? */
bool cli_report_is_target(const char *counter);

/* The partition that has most blocks on the SM; NULL: none has any. */
const struct report_tenant *cli_report_tenant_of_sm(const struct trace *trace,
                                                    const struct report_tenants *tenants, uint32_t gpu,
                                                    int32_t sm);

#endif
