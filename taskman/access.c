/* SPDX-License-Identifier: MIT */
#include "taskman/access.h"

#include "base/alloc.h"
#include "base/proof.h"
#include "taskman/areas.h"
#include "taskman/edges.h"
#include "taskman/gpu_task.h"
#include "taskman/successors.h"

#include <gantry/access.h>
#include <gantry/launch.h>

#include <assert.h>
#include <string.h>

enum {
    LOOKED_AT = 4, /* in lists that may be long */
    SHORT_PATH = 2,
    LONGEST_PATH = 3,
    BLOCK_OF_ACCESSORS = 256,
    MANY_AREAS = 4096,
    FIRST_STEP = 2
};

/* What is known of a task of the step, by its index.  Memory for a step is kept for the next. */
enum access_mark { MARK_DECLARED = 1, MARK_INDEPENDENT = 2 };

/* An access of a CPU task. */
struct cpu_access {
    gantry_task *task;
    struct gy_area *area;
    gantry_access_mode mode;
};

struct accessor_block {
    struct accessor_block *next;
    uint32_t used;
    struct gy_accessor accessors[BLOCK_OF_ACCESSORS];
};

struct gy_access_map {
    struct gy_areas areas;
    struct accessor_block *blocks; /* of the step; the first has room */
    struct accessor_block *spare;  /* of earlier steps; empty */
    struct cpu_access *of_cpu;     /* of the step */
    size_t of_cpu_count, of_cpu_room;
    struct gy_data_edge *edges; /* of the step */
    size_t edge_count, edge_room;
    uint8_t *marks; /* enum access_mark */
    size_t marks_room;
    size_t used;           /* areas, in the step */
    uint64_t step;         /* from 2 on: the one that is built or runs */
    uint64_t declared_gpu; /* GPU tasks of it with accesses */
    bool lacks;            /* memory: some edges of the step are missing */
    bool is_before_known;  /* the step before had GPU tasks, and all had accesses that are known yet */
    gantry_task *earlier;  /* a GPU task that comes after the GPU work of earlier steps; NULL: none yet */
};

/* ---- edges ------------------------------------------------------------------------------------- */

static gantry_status no_memory(const gantry_task *task)
{
    return GY_FAIL(GANTRY_ERR_OUT_OF_HOST_MEMORY, "no memory for an access of task '%s'",
                   gantry_task_label(task));
}

static gantry_launch_result launch_nothing(gantry_launch *launch, void *arg)
{
    (void)launch;
    (void)arg;
    return GANTRY_LAUNCH_DONE;
}

/* One call that declares accesses of a task. */
struct declaration {
    gantry_task *task;
    gy_access_add *add;
    bool is_late;        /* the step runs, and the caller has a reference on the task */
    gantry_task **fence; /* of a late CPU task; see gy_accesses_declare() */
};

static gantry_status add_fence(gantry_taskman *manager, const struct declaration *d, gantry_task **out)
    GY_REQUIRES(manager->lock)
{
    gantry_task_desc desc = GANTRY_TASK_DESC_INIT;
    desc.kind = GANTRY_TASK_KERNEL;
    desc.label = "after earlier work";
    desc.launch = launch_nothing;
    const gantry_status status = d->add(manager, &desc, out);
    manager->accesses->declared_gpu += status == GANTRY_OK; /* it accesses nothing */
    return status;
}

/* The late CPU task comes after a GPU task without work, which is still held: behind that is all GPU work of
 * earlier steps, and what it is given besides. */
static gantry_status have_fence(gantry_taskman *manager, const struct declaration *d)
    GY_REQUIRES(manager->lock)
{
    bool has_ended;
    if (*d->fence != NULL) {
        return GANTRY_OK;
    }
    const gantry_status status = add_fence(manager, d, d->fence);
    return status == GANTRY_OK ? gy_edges_link_late_locked(manager, *d->fence, d->task, true, &has_ended)
                               : status;
}

/* The late task comes after one that has been released: it gets what that would have given to it. */
static gantry_status come_after_ended(gantry_taskman *manager, const struct declaration *d,
                                      gantry_task *before) GY_REQUIRES(manager->lock)
{
    const bool is_gpu = gy_task_is_gpu(before);
    const gantry_status result = gantry_task_result(before);
    gantry_task *behind = d->task;
    if (result != GANTRY_OK) {
        gy_task_fail_successor(d->task, result);
        return GANTRY_OK;
    }
    if (is_gpu && !gy_task_is_gpu(d->task)) {
        const gantry_status status = have_fence(manager, d);
        if (status != GANTRY_OK) {
            return status;
        }
        behind = *d->fence;
    }
    if (is_gpu) { /* its wait set is a point, which stays; what comes after a CPU task has waited for the GPU
                   */
        gy_task_merge_deps(before, atomic_load_explicit(&before->wait_set, memory_order_acquire), behind);
    }
    if (gy_proof() != NULL) {
        gy_proof()->has_ended(manager, before, behind, is_gpu);
    }
    return GANTRY_OK;
}

/* Has `before` an edge to the task?  Our caller looks at no other task meanwhile, so an edge that it has made
 * is the last of `before`.  `when_done`: one that waits for the GPU. */
static bool leads_to(const gantry_task *before, const gantry_task *task, bool when_done)
{
    const struct gy_edge *last = before->last_edge;
    return last != NULL && gy_edge_successor(last) == task && (gy_edge_is_done(last) || !when_done);
}

/* Is there a path of `edges` edges at most from `before` to the task, as far as that is quickly told?  Where
 * it is to wait for the GPU, one of them must do so. */
static bool has_path(const gantry_task *before, const gantry_task *task, bool when_done, int edges)
{
    bool has = leads_to(before, task, when_done);
    const struct gy_edge *edge = atomic_load_explicit(&before->edges, memory_order_acquire);
    for (int i = 0; i < LOOKED_AT && edges > 1 && !has && edge != NULL && edge != &gy_edge_closed; i++) {
        const gantry_task *between = gy_edge_successor(edge);
        has = !gy_task_is_condition(between) && /* it holds nothing back */
              has_path(between, task, when_done && (gy_task_is_gpu(between) || !gy_edge_is_done(edge)),
                       edges - 1);
        edge = atomic_load_explicit(&edge->next, memory_order_acquire);
    }
    return has;
}

/* Only where areas overlap it is worth it to look for a long path. */
static bool is_behind(const gantry_task *before, const gantry_task *task, const struct gy_area *area)
{
    const bool when_done = gy_task_is_gpu(before) && !gy_task_is_gpu(task);
    return before == task ||
           has_path(before, task, when_done, area->met_count == 0 ? SHORT_PATH : LONGEST_PATH);
}

/* Because of the area. */
static gantry_status come_after(gantry_taskman *manager, const struct declaration *d, gantry_task *before,
                                const struct gy_area *area) GY_REQUIRES(manager->lock)
{
    struct gy_access_map *map = manager->accesses;
    gantry_task *task = d->task;
    const bool when_done = gy_task_is_gpu(before) && !gy_task_is_gpu(task);
    if (is_behind(before, task, area)) {
        return GANTRY_OK;
    }
    if (!gy_grow_array(&map->edges, &map->edge_room, map->edge_count + 1, sizeof(*map->edges))) {
        return no_memory(task);
    }
    bool has_ended = false;
    const gantry_status status = d->is_late
                                     ? gy_edges_link_late_locked(manager, before, task, when_done, &has_ended)
                                     : gy_edges_link_locked(manager, before, task, when_done);
    if (status == GANTRY_OK && !has_ended) {
        map->edges[map->edge_count++] =
            (struct gy_data_edge){before->index, task->index, area->key.at, area->key.bytes, area->key.rows};
    }
    return has_ended ? come_after_ended(manager, d, before) : status;
}

static gantry_status come_after_all(gantry_taskman *manager, const struct declaration *d,
                                    const struct gy_accessor *list, const struct gy_area *area)
    GY_REQUIRES(manager->lock)
{
    gantry_status status = GANTRY_OK;
    for (; list != NULL && status == GANTRY_OK; list = list->next) {
        status = come_after(manager, d, list->task, area);
    }
    return status;
}

/* The lists of the area, which are empty in a new step. */
static struct gy_accessors *accessors_of(const struct gy_access_map *map, struct gy_area *area)
{
    struct gy_accessors *a = &area->accessors;
    if (a->step != map->step) {
        a->step = map->step;
        a->readers = a->writers = a->base = NULL;
        a->adds = false;
    }
    return a;
}

/* After those of the step that the access, of this area or one that meets it, must not be beside. */
static gantry_status come_after_accessors(gantry_taskman *manager, const struct declaration *d,
                                          struct gy_area *area, gantry_access_mode mode)
    GY_REQUIRES(manager->lock)
{
    const struct gy_accessors *a = accessors_of(manager->accesses, area);
    const bool joins = mode == GANTRY_ACCESS_ADD && a->adds && a->readers == NULL;
    const struct gy_accessor *list = joins ? a->base : a->writers;
    list = mode != GANTRY_ACCESS_READ && a->readers != NULL ? a->readers : list;
    return come_after_all(manager, d, list, area);
}

/* ---- who accesses ------------------------------------------------------------------------------ */

static struct gy_accessor *new_accessor(struct gy_access_map *map, gantry_task *task,
                                        struct gy_accessor *next)
{
    struct accessor_block *block = map->blocks;
    if (block == NULL || block->used == BLOCK_OF_ACCESSORS) {
        block = map->spare != NULL ? map->spare : gy_zalloc(sizeof(*block));
        if (block == NULL) {
            return NULL;
        }
        map->spare = block->next;
        block->next = map->blocks;
        map->blocks = block;
    }
    struct gy_accessor *accessor = &block->accessors[block->used++];
    *accessor = (struct gy_accessor){task, next};
    return accessor;
}

/* All of `inner` is in `outer`, as far as that is quickly told. */
static bool is_inside(const struct gy_area *inner, const struct gy_area *outer)
{
    return outer->key.rows == 1 && outer->key.at <= inner->key.at && inner->end <= outer->end;
}

/* Who comes after the task comes after these, too. */
static void forget_inside(const struct gy_access_map *map, const struct gy_area *area)
{
    for (size_t i = 0; i < area->met_count; i++) {
        if (is_inside(area->met[i], area)) {
            struct gy_accessors *a = accessors_of(map, area->met[i]);
            a->readers = a->writers = a->base = NULL;
            a->adds = false;
        }
    }
}

/* Who comes after the task comes after those that it is behind: readers of an area that no write covers do
 * not become more and more. */
static void forget_behind(struct gy_accessor **list, const gantry_task *task, const struct gy_area *area)
{
    for (int i = 0; i < LOOKED_AT && *list != NULL; i++) {
        if (is_behind((*list)->task, task, area)) {
            *list = (*list)->next;
        } else {
            list = &(*list)->next;
        }
    }
}

/* The task is the latest that accesses the area; false: no memory. */
static bool enter(struct gy_access_map *map, gantry_task *task, struct gy_area *area, gantry_access_mode mode)
{
    struct gy_accessors *a = accessors_of(map, area);
    const bool reads = mode == GANTRY_ACCESS_READ, adds = mode == GANTRY_ACCESS_ADD;
    const bool joins = adds && a->adds && a->readers == NULL;
    if (reads && area->met_count != 0) {
        forget_behind(&a->readers, task, area);
    }
    struct gy_accessor *const one = new_accessor(map, task, reads ? a->readers : joins ? a->writers : NULL);
    if (one == NULL) {
        return false;
    }
    if (reads) {
        a->readers = one;
        return true;
    }
    if (!joins) {
        a->base = adds ? a->readers != NULL ? a->readers : a->writers : NULL;
        a->readers = NULL;
    }
    a->writers = one;
    a->adds = adds;
    if (!adds) {
        forget_inside(map, area);
    }
    return true;
}

/* ---- from step to step ------------------------------------------------------------------------- */

static void note_step(struct gy_access_steps *steps, uint64_t step)
{
    steps->before = steps->latest != step ? steps->latest : steps->before;
    steps->latest = step;
}

/* The latest step before this one. */
static uint64_t earlier_of(const struct gy_access_steps *steps, uint64_t step)
{
    return steps->latest != step ? steps->latest : steps->before;
}

/* The latest earlier step in which the GPU did with the area what the access may not be beside; 0: none. */
static uint64_t latest_met(const struct gy_area *area, gantry_access_mode mode, uint64_t step)
{
    const uint64_t written = earlier_of(&area->accessors.written, step);
    const uint64_t read = mode != GANTRY_ACCESS_READ ? earlier_of(&area->accessors.read, step) : 0;
    return read > written ? read : written;
}

static uint64_t latest_met_by(const struct gy_area *area, gantry_access_mode mode, uint64_t step)
{
    uint64_t latest = latest_met(area, mode, step);
    for (size_t i = 0; i < area->met_count; i++) {
        const uint64_t one = latest_met(area->met[i], mode, step);
        latest = one > latest ? one : latest;
    }
    return latest;
}

/* While the graph is built: there is a GPU task without work, behind which all GPU work of earlier steps is.
 */
static gantry_status have_earlier(gantry_taskman *manager, const struct declaration *d)
    GY_REQUIRES(manager->lock)
{
    gantry_task **earlier = &manager->accesses->earlier;
    return *earlier == NULL ? add_fence(manager, d, earlier) : GANTRY_OK;
}

/* Is the GPU task, whose access meets GPU work of step `latest` last, beside the step before?  It was so for
 * all accesses that it has declared before.  A late task never is. */
static void judge_independence(gantry_taskman *manager, const struct declaration *d, uint64_t latest)
    GY_REQUIRES(manager->lock)
{
    struct gy_access_map *map = manager->accesses;
    gantry_task *task = d->task;
    uint8_t *mark = &map->marks[task->index];
    const bool is_first = (*mark & MARK_DECLARED) == 0;
    const bool is_apart = map->is_before_known && latest != map->step - 1 && !d->is_late;
    if (is_first && is_apart && !gy_task_is_independent(task)) {
        *mark |= MARK_INDEPENDENT;
        task->traits |= GY_TRAIT_INDEPENDENT;
        atomic_store_explicit(&manager->gpu_facts.has_independent, true, memory_order_relaxed);
    } else if (!is_apart && (*mark & MARK_INDEPENDENT) != 0) {
        *mark &= (uint8_t)~MARK_INDEPENDENT;
        task->traits &= (uint8_t)~GY_TRAIT_INDEPENDENT;
    }
    map->declared_gpu += is_first;
    *mark |= MARK_DECLARED;
}

/* False: no memory. */
static bool note_cpu_access(struct gy_access_map *map, gantry_task *task, struct gy_area *area,
                            gantry_access_mode mode)
{
    if (!gy_grow_array(&map->of_cpu, &map->of_cpu_room, map->of_cpu_count + 1, sizeof(*map->of_cpu))) {
        return false;
    }
    map->of_cpu[map->of_cpu_count++] = (struct cpu_access){task, area, mode};
    return true;
}

/* A CPU task comes after the GPU work of earlier steps that its access meets. */
static gantry_status come_after_earlier(gantry_taskman *manager, const struct declaration *d,
                                        struct gy_area *area, gantry_access_mode mode)
    GY_REQUIRES(manager->lock)
{
    struct gy_access_map *map = manager->accesses;
    if (!note_cpu_access(map, d->task, area, mode)) {
        return no_memory(d->task);
    }
    if (latest_met_by(area, mode, map->step) == 0) {
        return GANTRY_OK;
    }
    if (d->is_late) {
        return have_fence(manager, d);
    }
    const gantry_status status = have_earlier(manager, d);
    return status == GANTRY_OK ? come_after(manager, d, map->earlier, area) : status;
}

static gantry_status order_by_steps(gantry_taskman *manager, const struct declaration *d,
                                    struct gy_area *area, gantry_access_mode mode) GY_REQUIRES(manager->lock)
{
    const uint64_t step = manager->accesses->step;
    if (!gy_task_is_gpu(d->task)) {
        return come_after_earlier(manager, d, area, mode);
    }
    judge_independence(manager, d, latest_met_by(area, mode, step));
    note_step(mode == GANTRY_ACCESS_READ ? &area->accessors.read : &area->accessors.written, step);
    return GANTRY_OK;
}

/* ---- declaring --------------------------------------------------------------------------------- */

static struct gy_area_key key_of(const gantry_access *access)
{
    const size_t rows = access->rows > 1 ? access->rows : 1;
    return (struct gy_area_key){(uintptr_t)access->at, access->bytes, rows, rows > 1 ? access->pitch : 0};
}

static gantry_status declare_one(gantry_taskman *manager, const struct declaration *d,
                                 const gantry_access *access) GY_REQUIRES(manager->lock)
{
    struct gy_access_map *map = manager->accesses;
    const struct gy_area_key key = key_of(access);
    struct gy_area *area = gy_areas_find(&map->areas, &key);
    if (area == NULL) {
        return no_memory(d->task);
    }
    map->used += area->accessors.step != map->step;
    gantry_status status = order_by_steps(manager, d, area, access->mode);
    status = status == GANTRY_OK ? come_after_accessors(manager, d, area, access->mode) : status;
    for (size_t i = 0; i < area->met_count && status == GANTRY_OK; i++) {
        status = come_after_accessors(manager, d, area->met[i], access->mode);
    }
    return status != GANTRY_OK || enter(map, d->task, area, access->mode) ? status : no_memory(d->task);
}

/* There is a map, in which the task has a mark. */
static gantry_status open_map(gantry_taskman *manager, const gantry_task *task) GY_REQUIRES(manager->lock)
{
    if (manager->accesses == NULL) {
        manager->accesses = gy_zalloc(sizeof(*manager->accesses));
        if (manager->accesses != NULL) {
            manager->accesses->step = FIRST_STEP;
        }
    }
    struct gy_access_map *map = manager->accesses;
    return map != NULL && gy_grow_array(&map->marks, &map->marks_room, (size_t)task->index + 1, 1)
               ? GANTRY_OK
               : no_memory(task);
}

gantry_status gy_accesses_declare(gantry_taskman *manager, gantry_task *task, const gantry_access *accesses,
                                  size_t count, gy_access_add *add, gantry_task **fence)
{
    const bool is_late = gy_taskman_phase(manager) == GY_RUNNING;
    const struct declaration d = {task, add, is_late, fence};
    *fence = NULL;
    gantry_status status = open_map(manager, task);
    for (size_t i = 0; i < count && status == GANTRY_OK; i++) {
        status = accesses[i].bytes != 0 ? declare_one(manager, &d, &accesses[i]) : GANTRY_OK;
    }
    if (status != GANTRY_OK) { /* it must not run with fewer edges than it needs */
        gy_task_preset_failure(task, status);
        if (manager->accesses != NULL) {
            manager->accesses->lacks = true;
        }
    } else if (__builtin_expect(gy_proof_listens() != 0, 0)) {
        gy_proof()->declares(manager, task, accesses, count);
    }
    return status;
}

bool gy_access_list_add(struct gy_access_list *list, const gantry_access *access)
{
    gantry_access *at = list->at != list->few ? list->at : NULL;
    size_t room = at != NULL ? list->room : 0;
    if (list->count == list->room) {
        if (!gy_grow_array(&at, &room, list->count + 1, sizeof(*at))) {
            return false;
        }
        if (list->at == list->few) {
            memcpy(at, list->few, sizeof(list->few));
        }
        list->at = at;
        list->room = room;
    }
    list->at[list->count++] = *access;
    return true;
}

static gantry_status check_access(const gantry_taskman *manager, const char *label,
                                  const gantry_access *access, size_t number)
{
    const struct gy_gpu_ops *ops = manager->gpu.ops;
    const size_t rows = access->rows > 1 ? access->rows : 1;
    size_t length = 0;
    if (access->mode < GANTRY_ACCESS_READ || access->mode > GANTRY_ACCESS_ADD) {
        return GY_FAIL(GANTRY_ERR_INVALID_ARGUMENT, "access %zu of task '%s': there is no mode %d", number,
                       label, (int)access->mode);
    }
    if (access->bytes == 0) {
        return GANTRY_OK;
    }
    if (access->at == NULL) {
        return GY_FAIL(GANTRY_ERR_INVALID_ARGUMENT, "access %zu of task '%s': %zu bytes at NULL", number,
                       label, access->bytes);
    }
    if (rows > 1 && access->pitch < access->bytes) {
        return GY_FAIL(GANTRY_ERR_INVALID_ARGUMENT,
                       "access %zu of task '%s': a pitch of %zu is below the %zu bytes of a row", number,
                       label, access->pitch, access->bytes);
    }
    if (__builtin_mul_overflow(rows - 1, rows > 1 ? access->pitch : 0, &length) ||
        __builtin_add_overflow(length, access->bytes, &length) ||
        __builtin_add_overflow((uintptr_t)access->at, length, &length)) {
        return GY_FAIL(GANTRY_ERR_INVALID_ARGUMENT,
                       "access %zu of task '%s': %zu rows of %zu bytes from %p go beyond the end of memory",
                       number, label, rows, access->bytes, access->at);
    }
    if (ops != NULL && ops->has_freed != NULL && ops->has_freed(manager->gpu.dispatcher, access->at)) {
        return GY_FAIL(GANTRY_ERR_INVALID_ARGUMENT,
                       "access %zu of task '%s': %p is in no live block of the heap: it was freed", number,
                       label, access->at);
    }
    return GANTRY_OK;
}

gantry_status gy_accesses_check(const gantry_taskman *manager, const char *label,
                                const gantry_access *accesses, size_t count)
{
    gantry_status status = GANTRY_OK;
    for (size_t i = 0; i < count && status == GANTRY_OK; i++) {
        status = check_access(manager, label, &accesses[i], i);
    }
    return status;
}

/* ---- life -------------------------------------------------------------------------------------- */

static void free_blocks(struct accessor_block *block)
{
    for (struct accessor_block *next; block != NULL; block = next) {
        next = block->next;
        gy_free(block);
    }
}

/* The next step gets the blocks of this one. */
static void spare_blocks(struct gy_access_map *map)
{
    for (struct accessor_block *block = map->blocks, *next; block != NULL; block = next) {
        next = block->next;
        block->used = 0;
        block->next = map->spare;
        map->spare = block;
    }
    map->blocks = NULL;
}

static void undo_independence(void *user, gantry_task *task)
{
    const struct gy_access_map *map = user;
    if (task->index < map->marks_room && (map->marks[task->index] & MARK_INDEPENDENT) != 0) {
        task->traits &= (uint8_t)~GY_TRAIT_INDEPENDENT;
    }
}

/* Does the GPU work of the step do with the area, or one that meets it, what the access may not be beside?
 */
static bool meets_own_step(const struct gy_access_map *map, const struct cpu_access *access)
{
    bool meets = false;
    for (size_t i = 0; i <= access->area->met_count; i++) {
        const struct gy_area *area = i == 0 ? access->area : access->area->met[i - 1];
        meets = meets || area->accessors.written.latest == map->step ||
                (access->mode != GANTRY_ACCESS_READ && area->accessors.read.latest == map->step);
    }
    return meets;
}

/* Whether a run's CPU tasks must come after GPU work of the run before. */
static bool has_runs_that_meet(const struct gy_access_map *map)
{
    bool has = false;
    for (size_t i = 0; i < map->of_cpu_count && !has; i++) {
        has = meets_own_step(map, &map->of_cpu[i]);
    }
    return has;
}

static gantry_status order_runs(gantry_taskman *manager, gy_access_add *add) GY_REQUIRES(manager->lock)
{
    const struct gy_access_map *map = manager->accesses;
    struct declaration d = {.add = add};
    gantry_status status = have_earlier(manager, &d);
    for (size_t i = 0; i < map->of_cpu_count && status == GANTRY_OK; i++) {
        d.task = map->of_cpu[i].task;
        status = meets_own_step(map, &map->of_cpu[i])
                     ? come_after(manager, &d, map->earlier, map->of_cpu[i].area)
                     : GANTRY_OK;
    }
    return status;
}

gantry_status gy_accesses_freeze(gantry_taskman *manager, gy_access_add *add)
{
    struct gy_access_map *map = manager->accesses;
    if (map == NULL || gy_taskman_phase(manager) != GY_BUILDING) {
        return GANTRY_OK;
    }
    if (map->lacks) {
        return GY_FAIL(GANTRY_ERR_OUT_OF_HOST_MEMORY, "freeze: there was no memory for edges from data");
    }
    const gantry_status status = has_runs_that_meet(map) ? order_runs(manager, add) : GANTRY_OK;
    if (status == GANTRY_OK) {
        struct gy_graph_view view = gy_graph_view(&manager->graph);
        gy_graph_each(&view, undo_independence, map);
    }
    return status;
}

size_t gy_accesses_count_edges(const gantry_taskman *manager)
{
    return manager->accesses != NULL ? manager->accesses->edge_count : 0;
}

gantry_status gy_accesses_copy_edges(const gantry_taskman *manager, struct gy_data_edge **out, size_t *count)
{
    *out = NULL;
    *count = gy_accesses_count_edges(manager);
    if (*count == 0) {
        return GANTRY_OK;
    }
    *out = gy_zalloc_array(*count, sizeof(**out));
    if (*out == NULL) {
        return GY_FAIL(GANTRY_ERR_OUT_OF_HOST_MEMORY, "no memory for %zu edges that come from data", *count);
    }
    memcpy(*out, manager->accesses->edges, *count * sizeof(**out));
    return GANTRY_OK;
}

void gy_accesses_end_step(gantry_taskman *manager)
{
    struct gy_access_map *map = manager->accesses;
    if (map == NULL) {
        return;
    }
    const uint64_t gpu = gy_taskman_gpu_tasks(manager);
    const bool has_run =
        manager->frozen ? manager->frozen_graph.has_run : gy_taskman_phase(manager) == GY_STOPPED;
    map->is_before_known = has_run && gpu != 0 && gpu == map->declared_gpu;
    map->declared_gpu = 0;
    map->earlier = NULL;
    map->lacks = false;
    map->of_cpu_count = map->edge_count = 0;
    if (map->marks != NULL) {
        memset(map->marks, 0, map->marks_room);
    }
    spare_blocks(map);
    map->step++;
    const size_t used = map->used;
    map->used = 0;
    if (map->areas.count > MANY_AREAS && used < map->areas.count / 2) {
        gy_areas_clear(&map->areas);
        map->is_before_known = false;
    }
}

void gy_accesses_free(gantry_taskman *manager)
{
    struct gy_access_map *map = manager->accesses;
    if (map != NULL) {
        gy_areas_clear(&map->areas);
        gy_free(map->marks);
        gy_free(map->of_cpu);
        gy_free(map->edges);
        free_blocks(map->blocks);
        free_blocks(map->spare);
        gy_free(map);
        manager->accesses = NULL;
    }
}
