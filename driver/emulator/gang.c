/* How gangs run.  Helpers are OS threads that wait for a block to run; there are as many as were ever needed
 * at once.  All blocks of a gang get a thread before the first one begins. */
#include "driver/emulator/gang.h"

#include "base/alloc.h"
#include "base/thread.h"

#include <stdio.h>
#include <string.h>

/* A place where blocks wait for each other. */
struct meeting {
    uint32_t members, arrived, ended;
    uint32_t generation; /* how often all have met */
};

/* What a block is told of the cluster that its own has taken over. */
struct told {
    uint32_t words[4];
    uint32_t generation; /* of the cluster's meeting, when it was told */
    bool is_there, is_heard;
};

/* What a block keeps here. */
struct member {
    void *shared; /* its dynamic shared memory */
    struct told told[2];
    bool has_ended;
};

struct helper {
    gy_thread thread;
    gy_cond wake;
    struct gy_emu_gang *gang; /* the gang that it is to run; NULL: none */
    uint32_t member;
    struct helper *next; /* link of `idle`, or of a gang's helpers */
};

/* `lock` guards all that changes. */
struct gy_emu_gang {
    const struct gy_emu_grid *grid;
    uint64_t first_cluster;
    uint32_t count, cluster_blocks; /* blocks in all, and of a cluster */
    uint32_t running;               /* blocks on helpers */
    uint32_t ended, asleep;         /* blocks that have ended; that wait at a meeting */
    struct meeting all;             /* the grid's */
    struct meeting *clusters;
    struct member *members;
    CUresult result;
    char why[320];
    gy_cond changed;
};

static gy_mutex lock = {PTHREAD_MUTEX_INITIALIZER, GY_RANK_LEAF};
static struct helper *idle;

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
    gy_mutex_lock(&lock);
    struct meeting *meeting = meeting_of(gang, member, where);
    const uint32_t generation = meeting->generation;
    meeting->arrived++;
    gang->asleep++;
    if (!let_go(gang, meeting)) {
        check_for_ever(gang);
    }
    while (meeting->generation == generation && gang->result == CUDA_SUCCESS) {
        gy_cond_wait(&gang->changed, &lock);
    }
    const char *why = meeting->generation == generation ? gang->why : NULL;
    gy_mutex_unlock(&lock);
    return why;
}

void gy_emu_gang_share(struct gy_emu_gang *gang, uint32_t member, void *shared)
{
    gy_mutex_lock(&lock);
    gang->members[member].shared = shared;
    gy_mutex_unlock(&lock);
}

void *gy_emu_gang_shared_of(struct gy_emu_gang *gang, uint32_t member, uint32_t rank)
{
    gy_mutex_lock(&lock);
    const uint32_t first = member / gang->cluster_blocks * gang->cluster_blocks;
    const bool have_met = gang->clusters[member / gang->cluster_blocks].generation != 0;
    void *shared = rank < gang->cluster_blocks && (have_met || first + rank == member)
                       ? gang->members[first + rank].shared
                       : NULL;
    gy_mutex_unlock(&lock);
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
    gy_mutex_lock(&lock);
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
    gy_mutex_unlock(&lock);
    return broken;
}

bool gy_emu_gang_hear(struct gy_emu_gang *gang, uint32_t member, uint32_t slot, uint32_t words[4])
{
    gy_mutex_lock(&lock);
    struct told *told = &gang->members[member].told[slot & 1];
    const uint32_t generation = gang->clusters[member / gang->cluster_blocks].generation;
    const bool is_there = told->is_there && told->generation != generation;
    if (is_there) {
        memcpy(words, told->words, sizeof(told->words));
        told->is_heard = true;
    }
    gy_mutex_unlock(&lock);
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

static void run_member(struct gy_emu_gang *gang, uint32_t member)
{
    struct gy_emu_grid grid = *gang->grid;
    const uint64_t cluster = gang->first_cluster + member / gang->cluster_blocks;
    const uint64_t block = gy_emu_gang_block(&grid, cluster, member % gang->cluster_blocks);
    grid.gang = gang;
    grid.member = member;
    const bool ran = gy_emu_exec_block(&grid, block, grid.sm_of(grid.grid_owner, block));
    const CUresult trap = grid.take_trap();
    gy_mutex_lock(&lock);
    if (!ran || trap != CUDA_SUCCESS) {
        fail(gang, trap != CUDA_SUCCESS ? trap : CUDA_ERROR_LAUNCH_FAILED,
             ran ? "it trapped" : gy_emu_exec_why());
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
    gy_mutex_unlock(&lock);
}

/* ---- helpers ---------------------------------------------------------------------------------- */

static void helper_main(void *arg)
{
    struct helper *self = arg;
    for (;;) {
        gy_mutex_lock(&lock);
        while (self->gang == NULL) {
            gy_cond_wait(&self->wake, &lock);
        }
        struct gy_emu_gang *gang = self->gang;
        gy_mutex_unlock(&lock);
        run_member(gang, self->member);
        gy_mutex_lock(&lock);
        self->gang = NULL;
        self->next = idle;
        idle = self;
        gang->running--;
        gy_cond_broadcast(&gang->changed);
        gy_mutex_unlock(&lock);
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
    gy_mutex_lock(&lock);
    struct helper *helper = idle;
    if (helper != NULL) {
        idle = helper->next;
    }
    gy_mutex_unlock(&lock);
    return helper != NULL ? helper : make_helper();
}

static void give_back(struct helper *list)
{
    gy_mutex_lock(&lock);
    while (list != NULL) {
        struct helper *helper = list;
        list = helper->next;
        helper->next = idle;
        idle = helper;
    }
    gy_mutex_unlock(&lock);
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
    gy_mutex_lock(&lock);
    for (uint32_t i = 1; i < gang->count; i++) {
        struct helper *helper = list;
        list = helper->next;
        helper->member = i;
        helper->gang = gang;
        gang->running++;
        gy_cond_signal(&helper->wake);
    }
    gy_mutex_unlock(&lock);
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
    gy_mutex_lock(&lock);
    while (gang->running > 0) {
        gy_cond_wait(&gang->changed, &lock);
    }
    gy_mutex_unlock(&lock);
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
