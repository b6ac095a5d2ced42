/* Allocation sites by number, so that a block's record needs only a few bits for "who asked". */
#ifndef HEAP_SITES_H
#define HEAP_SITES_H

#include "base/thread.h"
#include "heap/region.h"

#include <gantry/heap.h>

#include <stdatomic.h>

struct gy_site {
    gantry_alloc_site where; /* immutable; strings are the caller's, static */
    uint32_t number;         /* immutable */
    struct gy_site *next;    /* immutable; the site numbered before */
};

struct gy_sites {
    gy_mutex lock;                      /* rank LEAF */
    _Atomic(struct site_table *) table; /* atomic for readers; replaced under lock */
    struct site_table *retired;         /* guarded by lock; former tables, readers may still be in them */
    struct gy_site *newest;             /* guarded by lock */
    uint32_t count;                     /* guarded by lock */
};

/* Under the lock: numbers are given out in order, and the table has room for as many. */
bool gy_sites_are_valid(const struct gy_sites *sites);

/* False: out of host memory. */
GANTRY_MUST_CHECK bool gy_sites_init(struct gy_sites *sites);
void gy_sites_fini(struct gy_sites *sites);

/* The number of `site`, compared by its string addresses and line.  A site that is one too many for
 * GY_SITE_BITS shares number 0 with the untagged ones.  No lock when the site is known.
 * False: out of host memory. */
GANTRY_MUST_CHECK bool gy_sites_number(struct gy_sites *sites, const gantry_alloc_site *site, uint32_t *out);

/* The site of that number, whose strings are static; all NULL for number 0. */
gantry_alloc_site gy_sites_where(struct gy_sites *sites, uint32_t number);

/* Numbers are below this. */
uint32_t gy_sites_count(struct gy_sites *sites);

/* Copies of all sites known so far, newest first, for gy_free(); `out_count` gets how many.  NULL: out of
 * host memory. */
struct gy_site *gy_sites_copy(struct gy_sites *sites, size_t *out_count);

/* True when `a` and `b` read the same: one place may have several string addresses. */
bool gy_sites_same(const gantry_alloc_site *a, const gantry_alloc_site *b);

/* "untagged" for NULL. */
static inline const char *gy_site_tag(const gantry_alloc_site *where)
{
    return where->tag != NULL ? where->tag : "untagged";
}
static inline const char *gy_site_file(const gantry_alloc_site *where)
{
    return where->file != NULL ? where->file : "unknown place";
}

/* Sums per site, for the leak report. */
struct gy_leaks {
    struct gy_sites *sites;
    uint64_t *bytes;  /* by site number; NULL: only the totals could be kept */
    uint64_t *counts; /* by site number */
    uint64_t total_bytes;
    uint64_t total_count;
};

/* Add up what is visited (user: struct gy_leaks), then log a warning per tag and place. */
void gy_leaks_begin(struct gy_leaks *leaks, struct gy_sites *sites);
void gy_leaks_visit(void *leaks, const struct gy_visited *block);
void gy_leaks_report(struct gy_leaks *leaks, const char *kind);

#endif
