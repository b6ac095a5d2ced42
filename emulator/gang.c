/* SPDX-License-Identifier: MIT */
/* How blocks of a gang wait for each other, and what they leave for each other. */
#include "emulator/gang.h"

#include "emulator/gang_inside.h"

#include <stdio.h>
#include <string.h>

gy_mutex gy_emu_gang_lock = {PTHREAD_MUTEX_INITIALIZER, GY_RANK_LEAF};

/* ---- meetings --------------------------------------------------------------------------------- */

static void fail(struct gy_emu_gang *gang, CUresult result, const char *why)
{
    if (gang->result == CUDA_SUCCESS) {
        gang->result = result;
        snprintf(gang->why, sizeof(gang->why), "%s", why);
    }
    gy_cond_broadcast(&gang->changed);
}

/* Blocks of a cluster that have ended are not waited for; blocks of a grid are. */
static bool is_complete(const struct gy_emu_gang *gang, const struct meeting *meeting)
{
    const uint32_t gone = meeting != &gang->all ? meeting->ended : 0;
    return meeting->arrived != 0 && meeting->arrived + gone == meeting->members;
}

/* Let the meeting's blocks go on if all have come.  True: they do. */
static bool let_go(struct gy_emu_gang *gang, struct meeting *meeting)
{
    if (!is_complete(gang, meeting)) {
        return false;
    }
    gang->asleep -= meeting->arrived;
    meeting->arrived = 0;
    meeting->generation++;
    gy_cond_broadcast(&gang->changed);
    return true;
}

/* No waiting thread can ever go on when all others have ended. */
static void check_for_ever(struct gy_emu_gang *gang)
{
    if (gang->asleep != 0 && gang->asleep + gang->ended == gang->count) {
        char why[200];
        snprintf(why, sizeof(why),
                 "the launch can never end: of its %u blocks that wait for each other %u have ended, and %u "
                 "are at barriers to which the others do not come",
                 gang->count, gang->ended, gang->asleep);
        fail(gang, CUDA_ERROR_LAUNCH_FAILED, why);
    }
}

static struct meeting *meeting_of(struct gy_emu_gang *gang, uint32_t member, enum gy_emu_meeting where)
{
    return where == GY_EMU_MEET_GRID ? &gang->all : &gang->clusters[member / gang->cluster_blocks];
}

const char *gy_emu_gang_meet(struct gy_emu_gang *gang, uint32_t member, enum gy_emu_meeting where)
{
    gy_mutex_lock(&gy_emu_gang_lock);
    struct meeting *meeting = meeting_of(gang, member, where);
    const uint32_t generation = meeting->generation;
    meeting->arrived++;
    gang->asleep++;
    if (!let_go(gang, meeting)) {
        check_for_ever(gang);
    }
    while (meeting->generation == generation && gang->result == CUDA_SUCCESS) {
        gy_cond_wait(&gang->changed, &gy_emu_gang_lock);
    }
    const char *why = meeting->generation == generation ? gang->why : NULL;
    gy_mutex_unlock(&gy_emu_gang_lock);
    return why;
}

void gy_emu_gang_share(struct gy_emu_gang *gang, uint32_t member, void *shared)
{
    gy_mutex_lock(&gy_emu_gang_lock);
    gang->members[member].shared = shared;
    gy_mutex_unlock(&gy_emu_gang_lock);
}

void *gy_emu_gang_shared_of(struct gy_emu_gang *gang, uint32_t member, uint32_t rank)
{
    gy_mutex_lock(&gy_emu_gang_lock);
    const uint32_t first = member / gang->cluster_blocks * gang->cluster_blocks;
    const bool have_met = gang->clusters[member / gang->cluster_blocks].generation != 0;
    void *shared = rank < gang->cluster_blocks && (have_met || first + rank == member)
                       ? gang->members[first + rank].shared
                       : NULL;
    gy_mutex_unlock(&gy_emu_gang_lock);
    return shared;
}

/* ---- clusters that take over others ------------------------------------------------------------- */

/* The words grant a block, and its thief has not looked at them. */
static bool is_unheard(const struct told *told)
{
    return told->is_there && !told->is_heard && told->words[3] != 0;
}

const char *gy_emu_gang_tell(struct gy_emu_gang *gang, uint32_t member, uint32_t slot, uint32_t rank,
                             const uint32_t words[4])
{
    const char *broken = NULL;
    gy_mutex_lock(&gy_emu_gang_lock);
    const uint32_t generation = gang->clusters[member / gang->cluster_blocks].generation;
    const uint32_t first = member / gang->cluster_blocks * gang->cluster_blocks;
    struct member *to = &gang->members[first + (rank < gang->cluster_blocks ? rank : 0)];
    struct told *told = &to->told[slot & 1];
    if (rank >= gang->cluster_blocks || generation == 0) {
        broken = "tells a block that its cluster does not have, or before the cluster's blocks have met";
    } else if (to->has_ended) {
        broken = "got a cluster, and a block of its own cluster has ended without asking";
    } else if (is_unheard(told)) {
        broken = "tells a block of its cluster before that has looked at what it was told";
    } else {
        *told = (struct told){.generation = generation, .is_there = true};
        memcpy(told->words, words, sizeof(told->words));
    }
    gy_mutex_unlock(&gy_emu_gang_lock);
    return broken;
}

bool gy_emu_gang_hear(struct gy_emu_gang *gang, uint32_t member, uint32_t slot, uint32_t words[4])
{
    gy_mutex_lock(&gy_emu_gang_lock);
    struct told *told = &gang->members[member].told[slot & 1];
    const uint32_t generation = gang->clusters[member / gang->cluster_blocks].generation;
    const bool is_there = told->is_there && told->generation != generation;
    if (is_there) {
        memcpy(words, told->words, sizeof(told->words));
        told->is_heard = true;
    }
    gy_mutex_unlock(&gy_emu_gang_lock);
    return is_there;
}

/* ---- blocks ----------------------------------------------------------------------------------- */

uint64_t gy_emu_gang_block(const struct gy_emu_grid *grid, uint64_t cluster, uint32_t rank)
{
    uint64_t at[3];
    for (int i = 0; i < 3; i++) {
        const uint32_t size = grid->cluster[i], row = grid->grid_size[i] / size;
        at[i] = cluster % row * size + rank % size;
        cluster /= row;
        rank /= size;
    }
    return at[0] + grid->grid_size[0] * (at[1] + (uint64_t)grid->grid_size[1] * at[2]);
}

void gy_emu_gang_end(struct gy_emu_gang *gang, uint32_t member, CUresult result, const char *why)
{
    gy_mutex_lock(&gy_emu_gang_lock);
    if (result != CUDA_SUCCESS) {
        fail(gang, result, why);
    }
    struct member *self = &gang->members[member];
    self->has_ended = true;
    if (is_unheard(&self->told[0]) || is_unheard(&self->told[1])) {
        fail(gang, CUDA_ERROR_LAUNCH_FAILED, "a block ended without doing the block that its cluster got");
    }
    gang->ended++;
    gang->all.ended++;
    struct meeting *mine = meeting_of(gang, member, GY_EMU_MEET_CLUSTER);
    mine->ended++;
    if (!let_go(gang, mine)) {
        check_for_ever(gang);
    }
    gy_mutex_unlock(&gy_emu_gang_lock);
}
