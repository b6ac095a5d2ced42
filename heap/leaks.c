/* SPDX-License-Identifier: MIT */
/* The report of the blocks that are still allocated when a heap is destroyed: bytes and blocks per allocation
 * site. */
#include "base/alloc.h"
#include "base/status.h"
#include "heap/sites.h"

#include <inttypes.h>
#include <string.h>

void gy_leaks_begin(struct gy_leaks *leaks, struct gy_sites *sites)
{
    memset(leaks, 0, sizeof(*leaks));
    leaks->sites = sites;
    /* Nobody adds sites any more, since the heap is being destroyed. */
    gy_mutex_lock(&sites->lock);
    uint32_t count = sites->count;
    gy_mutex_unlock(&sites->lock);
    leaks->bytes = gy_zalloc_array(count, 2 * sizeof(*leaks->bytes));
    leaks->counts = leaks->bytes != NULL ? leaks->bytes + count : NULL;
}

void gy_leaks_visit(void *user, const struct gy_visited *block)
{
    struct gy_leaks *leaks = user;
    uint32_t site = block->site;
    size_t bytes = block->bytes;
    leaks->total_bytes += bytes;
    leaks->total_count++;
    if (leaks->bytes != NULL) {
        leaks->bytes[site] += bytes;
        leaks->counts[site]++;
    }
}

static void log_leak(const char *kind, uint64_t count, uint64_t bytes, const gantry_alloc_site *where)
{
    gy_log(GANTRY_LOG_WARNING, "heap: %" PRIu64 " %s block%s of %" PRIu64 " bytes leaked, %s, from %s:%d",
           count, kind, count == 1 ? "" : "s", bytes, gy_site_tag(where), gy_site_file(where), where->line);
}

/* Report the site together with all later ones that read the same. */
static void report_site(struct gy_leaks *leaks, const struct gy_site *site, const char *kind)
{
    uint64_t count = 0;
    uint64_t bytes = 0;
    for (const struct gy_site *other = site; other != NULL; other = other->next) {
        if (leaks->counts[other->number] != 0 && gy_sites_same(&site->where, &other->where)) {
            count += leaks->counts[other->number];
            bytes += leaks->bytes[other->number];
            leaks->counts[other->number] = 0;
        }
    }
    log_leak(kind, count, bytes, &site->where);
}

void gy_leaks_report(struct gy_leaks *leaks, const char *kind)
{
    static const gantry_alloc_site unknown = {NULL, NULL, 0};
    if (leaks->bytes == NULL) {
        if (leaks->total_count != 0) {
            log_leak(kind, leaks->total_count, leaks->total_bytes, &unknown);
        }
        return;
    }
    for (const struct gy_site *site = leaks->sites->newest; site != NULL; site = site->next) {
        if (leaks->counts[site->number] != 0) {
            report_site(leaks, site, kind);
        }
    }
    if (leaks->counts[0] != 0) {
        log_leak(kind, leaks->counts[0], leaks->bytes[0], &unknown);
    }
    gy_free(leaks->bytes);
    leaks->bytes = NULL;
}
