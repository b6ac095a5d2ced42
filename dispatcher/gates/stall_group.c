/* SPDX-License-Identifier: MIT */
#include "dispatcher/gates/stall_group.h"

#include "base/alloc.h"
#include "base/status.h"

#include <assert.h>

gantry_status gy_stall_group_make(struct gy_stall_member *const *members, uint32_t count)
{
    assert(count <= GY_STALL_MEMBERS_MAX);
    struct gy_stall_group *group = gy_zalloc(sizeof(*group));
    if (group == NULL) {
        return GY_FAIL(GANTRY_ERR_OUT_OF_HOST_MEMORY, "no memory for the stalls of a fleet");
    }
    gy_mutex_init(&group->lock, GY_RANK_STALLS);
    gy_mutex_lock(&group->lock);
    for (uint32_t i = 0; i < count; i++) {
        group->members[i] = members[i];
        members[i]->group = group;
    }
    gy_mutex_unlock(&group->lock);
    return GANTRY_OK;
}

void gy_stall_leave(struct gy_stall_member *member)
{
    struct gy_stall_group *group = member->group;
    if (group == NULL) {
        return;
    }
    bool is_last = true;
    gy_mutex_lock(&group->lock);
    for (uint32_t i = 0; i < GY_STALL_MEMBERS_MAX; i++) {
        if (group->members[i] == member) {
            group->members[i] = NULL;
        }
        is_last = is_last && group->members[i] == NULL;
    }
    gy_mutex_unlock(&group->lock);
    if (is_last) {
        gy_mutex_fini(&group->lock);
        gy_free(group);
    }
}

void gy_stall_ask(struct gy_stall_member *member)
{
    atomic_store(&member->asked, true);
    gy_inbox_signal(member->inbox);
}

static bool has_waiting(const struct gy_stall_member *member)
{
    return member != NULL && atomic_load(&member->waiting) != 0;
}

void gy_stall_end_move(struct gy_stall_member *member)
{
    struct gy_stall_group *group = member->group;
    if (group == NULL) {
        return;
    }
    atomic_fetch_add(&group->moves, GY_STALL_MOVE - 1);
    gy_mutex_lock(&group->lock);
    for (uint32_t i = 0; i < GY_STALL_MEMBERS_MAX; i++) {
        if (group->members[i] != member && has_waiting(group->members[i])) {
            gy_stall_ask(group->members[i]);
        }
    }
    gy_mutex_unlock(&group->lock);
}

/* Are all others stuck, too, at that number, and none of them before this one?  They are told, if this one
 * has not been stuck at it before, and those that have not looked are asked to. */
static bool others_are_stuck_locked(struct gy_stall_group *group, const struct gy_stall_member *member,
                                    uint64_t noted, bool is_news) GY_REQUIRES(group->lock)
{
    bool all = true, is_first = true, is_behind = false;
    for (uint32_t i = 0; i < GY_STALL_MEMBERS_MAX; i++) {
        struct gy_stall_member *other = group->members[i];
        if (other == member) {
            is_behind = true;
            continue;
        }
        if (!has_waiting(other)) {
            continue;
        }
        bool is_stuck = atomic_load(&other->stuck) == noted;
        all = all && is_stuck;
        is_first = is_first && is_behind;
        if (is_news || !is_stuck) {
            gy_stall_ask(other);
        }
    }
    return all && is_first;
}

bool gy_stall_is_ours(struct gy_stall_member *member, uint64_t moves)
{
    struct gy_stall_group *group = member->group;
    if (group == NULL) {
        return true;
    }
    if (moves % GY_STALL_MOVE != 0) {
        return false; /* the device that lets tasks go reports it then */
    }
    gy_mutex_lock(&group->lock);
    bool is_news = atomic_exchange(&member->stuck, moves + 1) != moves + 1;
    bool is_ours = others_are_stuck_locked(group, member, moves + 1, is_news);
    is_ours = is_ours && atomic_compare_exchange_strong(&group->moves, &moves, moves + GY_STALL_MOVE);
    gy_mutex_unlock(&group->lock);
    return is_ours;
}
