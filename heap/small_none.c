/* SPDX-License-Identifier: MIT */
/* The small tier of a build without jemalloc: there is none, so the page layer serves every block.  Only
 * gy_small_probe() is ever called; the other functions have no object to be called on. */
#include "heap/small.h"

#include <assert.h>

static void must_be_none(const struct gy_small *small)
{
    (void)small; /* unused without asserts */
    assert(small == NULL);
}

gantry_status gy_small_probe(void)
{
    return GANTRY_ERR_UNSUPPORTED;
}

gantry_status gy_small_create(struct gy_granules *map, struct gy_usage *usage, struct gy_small **out)
{
    (void)map;
    (void)usage;
    (void)out;
    return GANTRY_ERR_UNSUPPORTED;
}

struct gy_chunk *gy_small_destroy(struct gy_small *small)
{
    must_be_none(small);
    return NULL;
}

void gy_small_add_chunk(struct gy_small *small, struct gy_chunk *chunk)
{
    (void)chunk;
    must_be_none(small);
}

void gy_small_purge(struct gy_small *small)
{
    must_be_none(small);
}

struct gy_chunk *gy_small_remove_chunk(struct gy_small *small)
{
    must_be_none(small);
    return NULL;
}

enum gy_small_result gy_small_alloc(struct gy_small *small, size_t bytes, size_t alignment, uint32_t site,
                                    uintptr_t *out)
{
    (void)site;
    (void)bytes;
    (void)alignment;
    (void)out;
    must_be_none(small);
    return GY_SMALL_NO_MEMORY;
}

void gy_small_free(struct gy_small *small, uintptr_t address, size_t bytes, uint32_t site)
{
    (void)site;
    (void)address;
    (void)bytes;
    must_be_none(small);
}

size_t gy_small_capacity(uintptr_t address)
{
    (void)address;
    return 0;
}

void gy_small_resized(struct gy_small *small, uint32_t site, size_t before, size_t after)
{
    (void)site;
    (void)before;
    (void)after;
    must_be_none(small);
}

void gy_small_reused(struct gy_small *small, uint32_t site, size_t bytes, uint32_t new_site, size_t new_bytes)
{
    (void)site;
    (void)bytes;
    (void)new_site;
    (void)new_bytes;
    must_be_none(small);
}

void gy_small_collect(struct gy_small *small, struct gy_sums *sums)
{
    (void)sums;
    must_be_none(small);
}

void gy_small_collect_site(struct gy_small *small, uint32_t site, int64_t *bytes, int64_t *count)
{
    (void)site;
    (void)bytes;
    (void)count;
    must_be_none(small);
}

bool gy_small_hold_tallies(struct gy_small *small, bool wait)
{
    (void)wait;
    must_be_none(small);
    return true;
}

void gy_small_let_go_tallies(struct gy_small *small)
{
    must_be_none(small);
}

void gy_small_add_site(struct gy_small *small, uint32_t site, int64_t *bytes, int64_t *count)
{
    (void)site;
    (void)bytes;
    (void)count;
    must_be_none(small);
}

bool gy_small_allocated(struct gy_small *small, uint64_t *sum)
{
    (void)sum;
    must_be_none(small);
    return true;
}

uint64_t gy_small_freed(struct gy_small *small)
{
    must_be_none(small);
    return 0;
}

void gy_small_each_block(struct gy_small *small, gy_visit_fn visit, void *user)
{
    (void)visit;
    (void)user;
    must_be_none(small);
}
