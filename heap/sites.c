/* SPDX-License-Identifier: MIT */
#include "heap/sites.h"

#include "base/alloc.h"
#include "heap/chunk.h"

#include <assert.h>
#include <string.h>

#define FIRST_BITS 6
#define MAX_SITES ((uint32_t)1 << GY_SITE_BITS)

struct site_table {
    struct site_table *retired_before;
    unsigned bits;
    _Atomic(struct gy_site *) slots[]; /* atomic; open addressing, at most half full */
};

static struct site_table *make_table(unsigned bits)
{
    struct site_table *table = gy_zalloc(sizeof(*table) + (sizeof(table->slots[0]) << bits));
    if (table != NULL) {
        table->bits = bits;
    }
    return table;
}

static size_t slot_of(const struct site_table *table, const gantry_alloc_site *site)
{
    uint64_t key =
        (uint64_t)(uintptr_t)site->file * 31 + (uint64_t)(uintptr_t)site->tag + (unsigned)site->line;
    return (size_t)((key * 0x9e3779b97f4a7c15u) >> (64 - table->bits));
}

/* Find the site; NULL: it is not there, and `free_slot` is where it belongs. */
static struct gy_site *find(struct site_table *table, const gantry_alloc_site *site,
                            _Atomic(struct gy_site *) **free_slot)
{
    size_t mask = ((size_t)1 << table->bits) - 1;
    for (size_t i = slot_of(table, site);; i = (i + 1) & mask) {
        struct gy_site *known = atomic_load_explicit(&table->slots[i], memory_order_acquire);
        if (known == NULL) {
            *free_slot = &table->slots[i];
            return NULL;
        }
        if (known->where.line == site->line && known->where.file == site->file &&
            known->where.tag == site->tag) {
            return known;
        }
    }
}

bool gy_sites_are_valid(const struct gy_sites *sites)
{
    const struct site_table *table = atomic_load_explicit(&sites->table, memory_order_relaxed);
    const struct gy_site *newest = sites->newest;
    return sites->count >= 1 && sites->count <= MAX_SITES &&
           sites->count <= (uint32_t)1 << (table->bits - 1) &&
           (newest == NULL ? sites->count == 1 : newest->number == sites->count - 1) &&
           (sites->retired == NULL || sites->retired->bits < table->bits);
}

bool gy_sites_init(struct gy_sites *sites)
{
    memset(sites, 0, sizeof(*sites));
    struct site_table *table = make_table(FIRST_BITS);
    if (table == NULL) {
        return false;
    }
    atomic_init(&sites->table, table);
    sites->count = 1; /* number 0 means: no site */
    gy_mutex_init(&sites->lock, GY_RANK_LEAF);
    return true;
}

void gy_sites_fini(struct gy_sites *sites)
{
    gy_free(atomic_load_explicit(&sites->table, memory_order_relaxed));
    for (struct site_table *table = sites->retired; table != NULL;) {
        struct site_table *before = table->retired_before;
        gy_free(table);
        table = before;
    }
    for (struct gy_site *site = sites->newest; site != NULL;) {
        struct gy_site *next = site->next;
        gy_free(site);
        site = next;
    }
    gy_mutex_fini(&sites->lock);
}

/* Publish a copy of the table that is twice as large. */
static void use_larger_table(struct gy_sites *sites, struct site_table *larger) GY_REQUIRES(sites->lock)
{
    for (struct gy_site *site = sites->newest; site != NULL; site = site->next) {
        _Atomic(struct gy_site *) *slot;
        if (find(larger, &site->where, &slot) == NULL) {
            atomic_store_explicit(slot, site, memory_order_relaxed);
        }
    }
    struct site_table *table = atomic_load_explicit(&sites->table, memory_order_relaxed);
    assert(larger->bits > table->bits);
    table->retired_before = sites->retired;
    sites->retired = table;
    atomic_store_explicit(&sites->table, larger, memory_order_release);
    assert(gy_sites_are_valid(sites));
}

/* Add `made`, unless another thread was faster; returns the number.  Memory that was not used comes back in
 * the pointers. */
static uint32_t add_site(struct gy_sites *sites, struct gy_site **made, struct site_table **larger)
{
    uint32_t number = 0;
    gy_mutex_lock(&sites->lock);
    struct site_table *table = atomic_load_explicit(&sites->table, memory_order_relaxed);
    if (*larger != NULL && (*larger)->bits > table->bits) {
        use_larger_table(sites, *larger);
        table = *larger;
        *larger = NULL;
    }
    _Atomic(struct gy_site *) *slot;
    struct gy_site *known = find(table, &(*made)->where, &slot);
    if (known != NULL) {
        number = known->number;
    } else if (sites->count < MAX_SITES && sites->count < (uint32_t)1 << (table->bits - 1)) {
        struct gy_site *site = *made;
        *made = NULL;
        number = sites->count++;
        site->number = number;
        site->next = sites->newest;
        sites->newest = site;
        atomic_store_explicit(slot, site, memory_order_release);
    }
    assert(gy_sites_are_valid(sites));
    gy_mutex_unlock(&sites->lock);
    return number;
}

bool gy_sites_number(struct gy_sites *sites, const gantry_alloc_site *site, uint32_t *out)
{
    struct site_table *table = atomic_load_explicit(&sites->table, memory_order_acquire);
    _Atomic(struct gy_site *) *slot;
    struct gy_site *known = find(table, site, &slot);
    if (known != NULL) {
        *out = known->number;
        return true;
    }
    uint32_t number = 0;
    bool ok = true;
    while (ok && number == 0) {
        gy_mutex_lock(&sites->lock);
        unsigned bits = atomic_load_explicit(&sites->table, memory_order_relaxed)->bits;
        uint32_t count = sites->count;
        gy_mutex_unlock(&sites->lock);
        if (count >= MAX_SITES) {
            break;
        }
        struct gy_site *made = gy_zalloc(sizeof(*made));
        struct site_table *larger = count >= (uint32_t)1 << (bits - 1) ? make_table(bits + 1) : NULL;
        ok = made != NULL && (larger != NULL || count < (uint32_t)1 << (bits - 1));
        if (ok) {
            made->where = *site;
            number = add_site(sites, &made, &larger);
        }
        gy_free(larger);
        gy_free(made);
    }
    if (ok) {
        *out = number;
    }
    return ok;
}

gantry_alloc_site gy_sites_where(struct gy_sites *sites, uint32_t number)
{
    gantry_alloc_site where = {NULL, NULL, 0};
    gy_mutex_lock(&sites->lock);
    for (const struct gy_site *site = sites->newest; site != NULL; site = site->next) {
        if (site->number == number) {
            where = site->where;
            break;
        }
    }
    gy_mutex_unlock(&sites->lock);
    return where;
}

uint32_t gy_sites_count(struct gy_sites *sites)
{
    gy_mutex_lock(&sites->lock);
    uint32_t count = sites->count;
    gy_mutex_unlock(&sites->lock);
    return count;
}

struct gy_site *gy_sites_copy(struct gy_sites *sites, size_t *out_count)
{
    gy_mutex_lock(&sites->lock);
    const struct gy_site *first = sites->newest; /* the sites before it never change */
    size_t count = sites->count;
    gy_mutex_unlock(&sites->lock);
    struct gy_site *copy = gy_zalloc_array(count, sizeof(*copy));
    size_t copied = 0;
    for (const struct gy_site *site = first; copy != NULL && site != NULL; site = site->next) {
        copy[copied++] = *site;
    }
    *out_count = copied; /* number 0 has no struct */
    return copy;
}

bool gy_sites_same(const gantry_alloc_site *a, const gantry_alloc_site *b)
{
    return a->line == b->line && strcmp(gy_site_tag(a), gy_site_tag(b)) == 0 &&
           strcmp(gy_site_file(a), gy_site_file(b)) == 0;
}
