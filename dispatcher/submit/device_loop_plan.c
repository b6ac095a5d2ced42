/* SPDX-License-Identifier: MIT */
/* Making plans of the bodies of loops: which loops of a graph with conditions can run on the device.
 *
 * A body is all that comes after the first dependent of the loop's `decide`, up to its `test`.  Its tasks
 * must all lead to `test`, and nothing but that first one may come after anything outside. */
#include "dispatcher/submit/device_loop.h"

#include "base/alloc.h"
#include "dispatcher/submit/plan.h"
#include "dispatcher/submit/plan_graph.h"

#include <assert.h>
#include <stdio.h>

/* Arrays are by index of the task. */
struct bodies {
    struct gy_plan *plan;
    struct gy_plan_graph graph;
    const struct gy_device_loop **inside; /* the loop in whose body the task is; NULL: in none */
    uint32_t *stack;                      /* tasks of the body whose dependents were not looked at */
    uint32_t depth;

    /* The loop that is being looked at. */
    struct gy_device_loop *loop;
    gantry_task *first; /* where each turn begins */
    uint32_t dependents;
    const gantry_task *odd; /* the task for which it cannot run on the device */
    const char *why;        /* NULL: it can */
    uint32_t members;
    struct gy_unit *unit;
};

static void refuse(struct bodies *b, const gantry_task *task, const char *why)
{
    if (b->why == NULL) {
        b->odd = task;
        b->why = why;
    }
}

/* ---- one body --------------------------------------------------------------------------------- */

static void find_first(void *user, gantry_task *dependent)
{
    struct bodies *b = user;
    b->first = b->dependents++ == 0 ? dependent : b->first;
}

static void check_member(struct bodies *b, const gantry_task *task)
{
    if (gy_plan_is_sync_point(task)) {
        return;
    }
    if (!gy_task_is_gpu(task) || !gy_task_is_stable(task)) {
        refuse(b, task, gy_task_is_gpu(task) ? "is not stable" : "is a CPU task");
    } else if (b->loop->test->device != task->device) {
        refuse(b, task, "is of another device than its test");
    } else if (gy_task_partition(task) != gy_task_partition(b->loop->test)) {
        refuse(b, task, "is of another partition than its test");
    }
    b->members++;
}

/* `task` is inside: it comes after the first one. */
static void enter(void *user, gantry_task *task)
{
    struct bodies *b = user;
    const uint32_t index = gy_task_index(task);
    b->dependents++;
    if (task == b->loop->test || b->inside[index] == b->loop) {
        return;
    }
    if (b->inside[index] != NULL) {
        refuse(b, task, "is of another loop, too");
        return;
    }
    b->inside[index] = b->loop;
    check_member(b, task);
    b->stack[b->depth++] = index;
}

static void find_body(struct bodies *b)
{
    b->depth = b->members = b->dependents = 0;
    gy_task_each_dependent(b->loop->decide, find_first, b);
    if (b->first == NULL || b->first == b->loop->test || b->dependents > 2) {
        refuse(b, b->loop->decide, b->dependents > 2 ? "has more than two dependents" : "has no body");
        return;
    }
    enter(b, b->first);
    while (b->depth > 0 && b->why == NULL) {
        const gantry_task *task = b->graph.task[b->stack[--b->depth]];
        b->dependents = 0;
        gy_task_each_dependent(task, enter, b);
        if (b->dependents == 0) {
            refuse(b, task, "comes after the body's first task, and the test does not come after it");
        }
    }
}

/* A dependent of a task outside. */
static void check_entry(void *user, gantry_task *dependent)
{
    struct bodies *b = user;
    if (b->inside[gy_task_index(dependent)] == b->loop && dependent != b->first) {
        refuse(b, dependent, "comes after a task outside of the loop");
    }
}

static void check_entries(struct bodies *b)
{
    for (uint32_t i = 0; i < b->plan->tasks && b->why == NULL; i++) {
        if (b->graph.task[i] != NULL && b->inside[i] != b->loop) {
            gy_task_each_dependent(b->graph.task[i], check_entry, b);
        }
    }
}

/* ---- units ------------------------------------------------------------------------------------ */

/* `dependent` comes after a member of the unit, directly or through sync points. */
static bool follow(void *user, gantry_task *dependent)
{
    struct bodies *b = user;
    const uint32_t index = gy_task_index(dependent);
    if (gy_plan_is_sync_point(dependent)) {
        return true;
    }
    if (b->plan->unit_of[index] == b->plan->unit_count) {
        b->plan->inside[index] = true;
    } else {
        b->unit->leaving++;
    }
    return false;
}

static void follow_all(struct bodies *b)
{
    for (uint32_t i = 0; i < b->plan->tasks; i++) {
        if (b->plan->unit_of[i] == b->plan->unit_count) {
            gy_plan_graph_follow(&b->graph, i, follow, b);
        }
    }
}

/* The roots come first. */
static void list_members(struct bodies *b, bool inside)
{
    struct gy_plan *plan = b->plan;
    for (uint32_t i = 0; i < plan->tasks; i++) {
        if (plan->unit_of[i] == plan->unit_count && plan->inside[i] == inside) {
            plan->members[b->unit->first + b->unit->members++] = b->graph.task[i];
            b->unit->partitions |= UINT64_C(1) << gy_task_partition(b->graph.task[i]);
        }
    }
}

static void make_unit(struct bodies *b, uint32_t first)
{
    struct gy_plan *plan = b->plan;
    b->unit = &plan->units[plan->unit_count++];
    b->unit->plan = plan;
    b->unit->loop = b->loop;
    b->unit->first = first;
    for (uint32_t i = 0; i < plan->tasks; i++) {
        if (b->inside[i] == b->loop && !gy_plan_is_sync_point(b->graph.task[i])) {
            plan->unit_of[i] = plan->unit_count;
        }
    }
    follow_all(b);
    list_members(b, false);
    b->unit->roots = b->unit->members;
    list_members(b, true);
    b->loop->unit = b->unit;
    assert(b->unit->members == b->members && b->unit->roots != 0 && gy_device_loop_is_valid(b->loop));
}

/* ---- all -------------------------------------------------------------------------------------- */

static void look_at(struct bodies *b, struct gy_device_loop *loop, uint32_t *first)
{
    b->loop = loop;
    b->first = NULL;
    b->why = NULL;
    loop->unit = NULL;
    loop->never = false;
    loop->told = NULL;
    find_body(b);
    check_entries(b);
    if (b->why == NULL && b->members == 0) {
        refuse(b, b->first, "is all of its body");
    }
    if (b->why == NULL) {
        make_unit(b, *first);
        *first += b->unit->members;
        return;
    }
    gy_log(GANTRY_LOG_INFO, "loop '%s' is decided by the CPU: task '%s' %s", gantry_task_label(loop->decide),
           gantry_task_label(b->odd), b->why);
}

static gantry_status allocate(struct bodies *b, uint32_t loops)
{
    struct gy_plan *plan = b->plan;
    const size_t n = plan->tasks;
    b->inside = gy_zalloc_array(n, sizeof(struct gy_device_loop *));
    b->stack = gy_zalloc_array(n + 1, sizeof(*b->stack));
    plan->unit_of = gy_zalloc_array(n, sizeof(*plan->unit_of));
    plan->inside = gy_zalloc_array(n, sizeof(*plan->inside));
    plan->members = gy_zalloc_array(n, sizeof(gantry_task *));
    plan->needed_by = gy_zalloc_array(1, sizeof(*plan->needed_by));
    plan->units = gy_zalloc_array(loops, sizeof(*plan->units));
    const bool has_all = b->inside != NULL && b->stack != NULL && plan->unit_of != NULL &&
                         plan->inside != NULL && plan->members != NULL && plan->needed_by != NULL &&
                         plan->units != NULL;
    return has_all ? GANTRY_OK : GANTRY_ERR_OUT_OF_HOST_MEMORY;
}

/* Is the loop of the device that is planned, and were all its tasks submitted? */
static struct gy_device_loop *loop_at(struct gy_gpu_loop *at, uint32_t device)
{
    struct gy_device_loop *loop = (struct gy_device_loop *)(void *)at;
    const bool is_whole = loop->list != NULL && loop->decide != NULL;
    return is_whole && (device == GY_PLAN_ALL_DEVICES || loop->test->device == device) ? loop : NULL;
}

gantry_status gy_device_loops_plan(struct gy_plan *plan, gantry_taskman *manager, uint32_t device)
{
    struct bodies b = {.plan = plan};
    uint32_t loops = 0, first = 0;
    for (struct gy_gpu_loop *at = gy_taskman_loops(manager); at != NULL; at = at->next) {
        loops += loop_at(at, device) != NULL;
    }
    if (loops == 0) {
        return GANTRY_OK;
    }
    const bool has_graph = gy_plan_graph_init(&b.graph, manager);
    plan->tasks = b.graph.tasks;
    const gantry_status status = has_graph ? allocate(&b, loops) : GANTRY_ERR_OUT_OF_HOST_MEMORY;
    if (status == GANTRY_OK) {
        for (struct gy_gpu_loop *at = gy_taskman_loops(manager); at != NULL; at = at->next) {
            struct gy_device_loop *loop = loop_at(at, device);
            if (loop != NULL) {
                look_at(&b, loop, &first);
            }
        }
    }
    gy_plan_graph_fini(&b.graph);
    gy_free((void *)b.inside);
    gy_free(b.stack);
    return status;
}
