/* SPDX-License-Identifier: MIT */
/* What may keep a GPU idle: a row for each cause. */
#include "cli/report_stats.h"

/* Each cause's row: what JSON calls it, and what people read. */
static const struct {
    const char *key, *text;
} causes[REPORT_CAUSES] = {
    [REPORT_HOST_TASK] = {"host_task", "waiting for a host task"},
    [REPORT_SHARE] = {"share", "held back by a share"},
    [REPORT_MEMORY] = {"memory", "waiting for memory"},
    [REPORT_EXCHANGE] = {"exchange", "waiting for a renderer"},
    [REPORT_ORDER] = {"order", "launched, but not begun"},
    [REPORT_LAUNCH] = {"launch", "in a launch callback"},
    [REPORT_DISPATCHER] = {"dispatcher", "dispatcher busy"},
    [REPORT_COMPLETION] = {"completion", "done, but not told"},
    [REPORT_NOTHING] = {"nothing_ready", "nothing ready"},
    [REPORT_OTHER_GPU] = {"other_gpu", "waiting for another GPU"},
};

const char *cli_report_cause(enum report_cause cause)
{
    return causes[cause].text;
}

const char *cli_report_cause_key(enum report_cause cause)
{
    return causes[cause].key;
}
