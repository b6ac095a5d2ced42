/* SPDX-License-Identifier: MIT */
#include "taskman/cpu/owners.h"

#include "taskman/cpu/client.h"

#include <assert.h>

void gy_pool_add_owner(gantry_cpu_dispatcher *pool, struct gy_task_owner *owner)
{
    gy_mutex_lock(&pool->inject_lock);
    owner->next_of_pool = pool->gpu_owners;
    pool->gpu_owners = owner;
    assert(gy_pool_is_valid(pool));
    gy_mutex_unlock(&pool->inject_lock);
}

void gy_pool_remove_owner(gantry_cpu_dispatcher *pool, struct gy_task_owner *owner)
{
    gy_mutex_lock(&pool->inject_lock);
    struct gy_task_owner **link = &pool->gpu_owners;
    while (*link != owner) {
        link = &(*link)->next_of_pool;
    }
    *link = owner->next_of_pool;
    assert(gy_pool_is_valid(pool));
    gy_mutex_unlock(&pool->inject_lock);
}

void gy_pool_count_held_back(gantry_cpu_dispatcher *pool, bool more)
{
    atomic_fetch_add(&pool->held_back, more ? 1 : UINT64_MAX);
}

/* The count of the one that fell quiet was taken down before we look here, and the dispatcher's thread counts
 * what it holds back before it looks whether an owner is quiet.  All of that is sequentially consistent, so
 * one of the two sees the other (tests/models/admission.pml). */
void gy_pool_tell_held_back(gantry_cpu_dispatcher *pool)
{
    gy_mutex_lock(&pool->inject_lock);
    for (struct gy_task_owner *owner = pool->gpu_owners; owner != NULL; owner = owner->next_of_pool) {
        gy_owner_fell_quiet(owner);
    }
    assert(gy_pool_is_valid(pool));
    gy_mutex_unlock(&pool->inject_lock);
}
