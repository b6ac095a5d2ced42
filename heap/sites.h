/* SPDX-License-Identifier: MIT */
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
    struct gy_site *next;    /* immutable; the site with the number before */
};

struct gy_sites {
    gy_mutex lock;                      /* rank LEAF */
    _Atomic(struct site_table *) table; /* atomic for readers; replaced under lock */
    struct site_table *retired;         /* guarded by lock; former tables, in which readers may still look */
    struct gy_site *newest;             /* guarded by lock */
    uint32_t count;                     /* guarded by lock */
};

/* To be called under the lock: numbers are given out in order, and the table has room for all of them. */
bool gy_sites_are_valid(const struct gy_sites *sites);

/* False: out of host memory. */
GANTRY_MUST_CHECK bool gy_sites_init(struct gy_sites *sites);
void gy_sites_fini(struct gy_sites *sites);

/* Get the number of `site`, which is compared by the addresses of its strings and by its line.  When there
 * are more sites than GY_SITE_BITS can number, the others share number 0 with the untagged ones.  No lock is
 * taken when the site is known.  False: out of host memory. */
GANTRY_MUST_CHECK bool gy_sites_number(struct gy_sites *sites, const gantry_alloc_site *site, uint32_t *out);

/* The site of that number; its strings are static, and all NULL for number 0. */
gantry_alloc_site gy_sites_where(struct gy_sites *sites, uint32_t number);

/* All numbers are below this. */
uint32_t gy_sites_count(struct gy_sites *sites);

/* Copy all sites known so far, newest first; the caller frees the copies with gy_free().  `out_count` gets
 * their number.  NULL: out of host memory. */
struct gy_site *gy_sites_copy(struct gy_sites *sites, size_t *out_count);

/* True when `a` and `b` read the same: the strings of one place may have several addresses. */
bool gy_sites_same(const gantry_alloc_site *a, const gantry_alloc_site *b);

/* The tag, "untagged" for NULL. */
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

/* gy_leaks_visit() adds up the blocks that are visited (user: struct gy_leaks), and gy_leaks_report() logs a
 * warning per tag and place. */
void gy_leaks_begin(struct gy_leaks *leaks, struct gy_sites *sites);
void gy_leaks_visit(void *leaks, const struct gy_visited *block);
void gy_leaks_report(struct gy_leaks *leaks, const char *kind);

#endif
