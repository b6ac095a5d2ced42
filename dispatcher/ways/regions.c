#include "dispatcher/ways/regions.h"

#include "base/alloc.h"
#include "dispatcher/gates/gate.h"
#include "dispatcher/release.h"
#include "dispatcher/round.h"

#include <assert.h>
#include <string.h>

bool gy_region_is_valid(const struct gy_region *region)
{
    bool holds = region->held.first != NULL;
    return region->arrived <= region->roots && region->roots <= region->members &&
           region->settled <= region->needs && region->completes <= region->completes_room &&
           gy_gpu_list_is_valid(&region->held) &&
           (region->stage != GY_REGION_LAUNCHED || region->exec != NULL) &&
           (region->stage != GY_REGION_WAITING || holds == (region->arrived != 0));
}

/* ---- due ------------------------------------------------------------------------------------- */

static void check_due(struct gantry_dispatcher *d, struct gy_region *region)
{
    if (region->stage == GY_REGION_WAITING && region->arrived == region->roots &&
        region->settled == region->needs) {
        region->next_due = NULL;
        *(d->regions.due == NULL ? &d->regions.due : &d->regions.last_due->next_due) = region;
        d->regions.last_due = region;
    }
}

void gy_replay_try_again(struct gantry_dispatcher *d)
{
    while (d->regions.throttled != NULL) {
        struct gy_region *region = d->regions.throttled;
        d->regions.throttled = region->next_due;
        region->next_due = NULL;
        *(d->regions.due == NULL ? &d->regions.due : &d->regions.last_due->next_due) = region;
        d->regions.last_due = region;
    }
    assert(gy_gate_units.is_valid(d));
}

void gy_region_settle(struct gantry_dispatcher *d, struct gy_region *region, enum gy_region_stage stage)
{
    assert(region->stage == GY_REGION_WAITING && stage != GY_REGION_WAITING);
    struct gy_plan *plan = region->plan;
    region->stage = stage;
    for (uint32_t i = 0; i < region->needed_by; i++) {
        struct gy_region *next = &plan->regions[plan->needed_by[region->first_needed_by + i]];
        gy_region_renew(next);
        next->settled++;
        assert(gy_region_is_valid(next));
        next->must_call |= stage != GY_REGION_LAUNCHED;
        gy_trail_merge(&d->trails, &next->trail, region->position);
        check_due(d, next);
    }
}

void gy_region_release(struct gantry_dispatcher *d, struct gy_region *region, gantry_task *task)
{
    assert(region->stage == GY_REGION_LAUNCHED && gy_region_is_valid(region));
    struct gy_task_gpu *gpu = gy_task_gpu(task);
    if (!gy_task_begin_launched(task)) {
        gy_gd_release_failed(d, task, GANTRY_ERR_TASK_FAILED);
        return;
    }
    gy_trail_drop(&d->trails, atomic_load_explicit(&gpu->trail, memory_order_acquire));
    gpu->launch_index = 0;
    gpu->stream = (uint16_t)(region->stream + 1);
    atomic_store_explicit(&gpu->trail, region->position, memory_order_release);
    gy_gd_count(&d->counters.tasks, 1);
    gy_gd_count(&d->counters.tasks_failed, region->result != GANTRY_OK);
    gy_task_release(task, region->result, &d->debt);
}

/* ---- recorded -------------------------------------------------------------------------------- */

void gy_region_forbid(struct gy_region *region, const gantry_task *task, const char *why)
{
    if (!region->never) {
        region->never = true;
        gy_log(GANTRY_LOG_INFO, "stable task '%s' is called in every run: %s", gantry_task_label(task), why);
    }
}

void gy_replay_forbid(const struct gantry_launch *launch, const char *why)
{
    if (__builtin_expect(launch->calls != NULL, 0)) {
        gy_calls_set_free(launch->calls);
    }
    if (launch->round->recording != NULL) {
        gy_region_forbid(launch->round->recording->region, launch->task, why);
    }
}

static bool make_room(struct gy_region *region)
{
    if (region->completes < region->completes_room) {
        return true;
    }
    uint32_t room = region->completes_room == 0 ? 16 : 2 * region->completes_room;
    gantry_task **larger = gy_zalloc_array(room, sizeof(gantry_task *));
    if (larger == NULL) {
        return false;
    }
    if (region->completes != 0) {
        memcpy(larger, region->completions, region->completes * sizeof(gantry_task *));
    }
    gy_free(region->completions);
    region->completions = larger;
    region->completes_room = room;
    return true;
}

/* A task that is no part of the frozen graph is another one in each run. */
static GY_COLD void compare_completion(const struct gantry_launch *launch, const gantry_task *target)
{
    if (gy_task_gpu_plan(target) == gy_task_gpu_plan(launch->task)) {
        gy_calls_note_completion(launch->calls, launch->task, target);
    } else {
        gy_calls_set_free(launch->calls);
    }
}

void gy_replay_note_completion(const struct gantry_launch *launch, gantry_task *target)
{
    if (__builtin_expect(launch->calls != NULL, 0)) {
        compare_completion(launch, target);
    }
    if (launch->round->recording == NULL) {
        return;
    }
    struct gy_region *region = launch->round->recording->region;
    if (gy_task_gpu_plan(target) != &region->plan->head) {
        gy_replay_forbid(launch, "it completes a task that is not part of the frozen graph");
    } else if (!make_room(region)) {
        gy_replay_forbid(launch, "no memory to remember what it completes");
    } else {
        region->completions[region->completes++] = target;
    }
    assert(gy_region_is_valid(region));
}

/* ---- the gate -------------------------------------------------------------------------------- */

/* A task of a region is the region's until its roots are all there; while one is recorded, tasks of others
 * wait. */
static bool admits(struct gantry_dispatcher *d, struct gy_round *round, gantry_task *task)
{
    struct gy_region *region = gy_plan_region(task);
    if (region != NULL && region->stage == GY_REGION_LAUNCHED) {
        gy_region_release(d, region, task);
        return false;
    }
    if (region != NULL && region->stage == GY_REGION_WAITING) {
        gy_gpu_list_append(&region->held, task, task);
        region->arrived++;
        assert(gy_region_is_valid(region));
        check_due(d, region);
        return false;
    }
    if (round->recording != NULL && region != round->recording->region) {
        gy_gpu_list_append(&round->recording->others, task, task);
        return false;
    }
    return true;
}

/* Regions that are due have all their roots; a list ends with its last one. */
static bool is_valid(const struct gantry_dispatcher *d)
{
    const struct gy_region *last = NULL;
    for (const struct gy_region *region = d->regions.due; region != NULL; region = region->next_due) {
        if (region->stage != GY_REGION_WAITING || region->arrived != region->roots ||
            region->settled != region->needs || !gy_region_is_valid(region)) {
            return false;
        }
        last = region;
    }
    for (const struct gy_region *region = d->regions.throttled; region != NULL; region = region->next_due) {
        if (region->stage != GY_REGION_WAITING || region->arrived != region->roots ||
            !gy_region_is_valid(region)) {
            return false;
        }
    }
    return last == NULL || last == d->regions.last_due;
}

const struct gy_gate gy_gate_units = {.name = "units", .admits = admits, .is_valid = is_valid};
