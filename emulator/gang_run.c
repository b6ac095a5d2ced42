/* SPDX-License-Identifier: MIT */
/* How gangs run.  Helpers are OS threads that wait for a block to run; there are as many as were ever needed
 * at once.  All blocks of a gang get a thread before the first one begins. */
#include "emulator/gang_inside.h"

#include "base/alloc.h"

#include <stdio.h>

struct helper {
    gy_thread thread;
    gy_cond wake;
    struct gy_emu_gang *gang; /* the gang that it is to run; NULL: none */
    uint32_t member;
    struct helper *next; /* link of `idle`, or of a gang's helpers */
};

static struct helper *idle; /* guarded by gy_emu_gang_lock */

static void run_member(struct gy_emu_gang *gang, uint32_t member)
{
    struct gy_emu_grid grid = *gang->grid;
    const uint64_t cluster = gang->first_cluster + member / gang->cluster_blocks;
    const uint64_t block = gy_emu_gang_block(&grid, cluster, member % gang->cluster_blocks);
    grid.gang = gang;
    grid.member = member;
    grid.hear(grid.grid_owner, block, true);
    const bool ran = gy_emu_exec_block(&grid, block, grid.sm_of(grid.grid_owner, block));
    grid.hear(grid.grid_owner, block, false);
    const CUresult trap = grid.take_trap();
    const CUresult result = trap != CUDA_SUCCESS || ran ? trap : CUDA_ERROR_LAUNCH_FAILED;
    gy_emu_gang_end(gang, member, result, ran ? "it trapped" : gy_emu_exec_why());
}

/* ---- helpers ---------------------------------------------------------------------------------- */

static void helper_main(void *arg)
{
    struct helper *self = arg;
    for (;;) {
        gy_mutex_lock(&gy_emu_gang_lock);
        while (self->gang == NULL) {
            gy_cond_wait(&self->wake, &gy_emu_gang_lock);
        }
        struct gy_emu_gang *gang = self->gang;
        gy_mutex_unlock(&gy_emu_gang_lock);
        run_member(gang, self->member);
        gy_mutex_lock(&gy_emu_gang_lock);
        self->gang = NULL;
        self->next = idle;
        idle = self;
        gang->running--;
        gy_cond_broadcast(&gang->changed);
        gy_mutex_unlock(&gy_emu_gang_lock);
    }
}

/* They are never joined: the library is never unloaded. */
static struct helper *make_helper(void)
{
    struct helper *helper = gy_zalloc(sizeof(*helper));
    if (helper == NULL) {
        return NULL;
    }
    if (gy_cond_init(&helper->wake) != GANTRY_OK) {
        gy_free(helper);
        return NULL;
    }
    if (gy_thread_start(&helper->thread, "gantry-emu-gang", helper_main, helper) != GANTRY_OK) {
        gy_cond_fini(&helper->wake);
        gy_free(helper);
        return NULL;
    }
    return helper;
}

static struct helper *take_helper(void)
{
    gy_mutex_lock(&gy_emu_gang_lock);
    struct helper *helper = idle;
    if (helper != NULL) {
        idle = helper->next;
    }
    gy_mutex_unlock(&gy_emu_gang_lock);
    return helper != NULL ? helper : make_helper();
}

static void give_back(struct helper *list)
{
    gy_mutex_lock(&gy_emu_gang_lock);
    while (list != NULL) {
        struct helper *helper = list;
        list = helper->next;
        helper->next = idle;
        idle = helper;
    }
    gy_mutex_unlock(&gy_emu_gang_lock);
}

/* Start blocks 1, 2, … on helpers.  False: there are not enough, and none has begun. */
static bool start_helpers(struct gy_emu_gang *gang)
{
    struct helper *list = NULL;
    for (uint32_t i = 1; i < gang->count; i++) {
        struct helper *helper = take_helper();
        if (helper == NULL) {
            give_back(list);
            return false;
        }
        helper->next = list;
        list = helper;
    }
    gy_mutex_lock(&gy_emu_gang_lock);
    for (uint32_t i = 1; i < gang->count; i++) {
        struct helper *helper = list;
        list = helper->next;
        helper->member = i;
        helper->gang = gang;
        gang->running++;
        gy_cond_signal(&helper->wake);
    }
    gy_mutex_unlock(&gy_emu_gang_lock);
    return true;
}

/* Run the gang, which has room for its notes. */
static void run_all(struct gy_emu_gang *gang)
{
    if (!start_helpers(gang)) {
        snprintf(gang->why, sizeof(gang->why), "no threads for %u blocks that wait for each other",
                 gang->count);
        gang->result = CUDA_ERROR_LAUNCH_FAILED;
        return;
    }
    run_member(gang, 0);
    gy_mutex_lock(&gy_emu_gang_lock);
    while (gang->running > 0) {
        gy_cond_wait(&gang->changed, &gy_emu_gang_lock);
    }
    gy_mutex_unlock(&gy_emu_gang_lock);
}

CUresult gy_emu_gang_run(const struct gy_emu_grid *grid, uint64_t first, uint32_t clusters, char *why,
                         size_t room)
{
    const uint32_t size = grid->cluster[0] * grid->cluster[1] * grid->cluster[2];
    struct gy_emu_gang gang = {
        .grid = grid, .first_cluster = first, .count = clusters * size, .cluster_blocks = size};
    gang.all.members = gang.count;
    gang.clusters = gy_zalloc_array(clusters, sizeof(struct meeting));
    gang.members = gy_zalloc_array(gang.count, sizeof(struct member));
    if (gang.clusters == NULL || gang.members == NULL || gy_cond_init(&gang.changed) != GANTRY_OK) {
        snprintf(why, room, "out of memory for %u blocks that wait for each other", gang.count);
        gang.result = CUDA_ERROR_LAUNCH_FAILED;
        goto free_all;
    }
    for (uint32_t i = 0; i < clusters; i++) {
        gang.clusters[i].members = size;
    }
    run_all(&gang);
    snprintf(why, room, "%s", gang.why);
    gy_cond_fini(&gang.changed);
free_all:
    gy_free(gang.clusters);
    gy_free(gang.members);
    return gang.result;
}
