/* SPDX-License-Identifier: MIT */
#include "taskman/submit.h"

#include "base/alloc.h"
#include "base/handle.h"
#include "base/point.h"
#include "taskman/access.h"
#include "taskman/description.h"
#include "taskman/edges.h"
#include "taskman/failure.h"
#include "taskman/memory.h"
#include "taskman/port.h"
#include "taskman/references.h"

#include <assert.h>

static gantry_status refuse_stopped(void)
{
    return GY_FAIL(GANTRY_ERR_STATE, "task manager: stopped; reset it before the next step");
}

static GY_COLD gantry_status no_task_memory(const char *name)
{
    return GY_FAIL(GANTRY_ERR_OUT_OF_HOST_MEMORY, "no memory for task '%s'", name != NULL ? name : "");
}

/* A task with one reference, of no kind yet, in the place that was peeked at. */
static inline gantry_task *take_task_locked(gantry_taskman *manager, gantry_task *task)
    GY_REQUIRES(manager->lock)
{
    gy_task_clear_all(task);
    atomic_init(&task->references, 1);
    task->traits = GANTRY_TASK_SYNC_POINT;
    task->owner = &manager->as_owner;
    task->index = manager->graph.tasks;
    gy_graph_take_task(&manager->graph);
    return task;
}

static gantry_status add_placeholder_locked(gantry_taskman *manager, const struct gy_name *name,
                                            gantry_task **out) GY_REQUIRES(manager->lock)
{
    gantry_task *task = gy_graph_peek_task(&manager->graph);
    if (task == NULL || !gy_names_reserve(&manager->names, name)) {
        return no_task_memory(name->text);
    }
    take_task_locked(manager, task);
    task->name = gy_names_add(&manager->names, name, task);
    gy_task_state_init(task, GANTRY_TASK_STATE_PLACEHOLDER);
    manager->counts.unfilled++;
    manager->counts.special++;
    if (gy_taskman_phase(manager) == GY_RUNNING) {
        gy_task_set(task, GY_TASK_LATE_NAME);
        manager->counts.late_names++;
    } else {
        gy_taskman_count_pending(manager, task, 0);
    }
    *out = task;
    return GANTRY_OK;
}

/* The traits of a task that is not gy_description_is_usual(), beside those that every task may have. */
static GY_RARE unsigned unusual_traits_of(const gantry_task_desc *desc)
{
    unsigned traits = desc->memory != 0 ? GY_TRAIT_MEMORY : 0u;
    if (desc->kind == GANTRY_TASK_CPU) {
        traits |= desc->is_condition ? GY_TRAIT_CONDITION : 0u;
        traits |= desc->priority == GANTRY_TASK_PRIORITY_HIGH  ? GY_TRAIT_HIGH
                  : desc->priority == GANTRY_TASK_PRIORITY_LOW ? GY_TRAIT_LOW
                                                               : 0u;
        traits |= desc->port != NULL ? GY_TRAIT_PORT : 0u;
        traits |= desc->cpu_class != 0 || desc->bandwidth_critical ? GY_TRAIT_CLASSED : 0u;
    }
    return traits;
}

static GY_INLINE unsigned traits_of(const gantry_task_desc *desc, bool usual)
{
    unsigned traits = (unsigned)desc->kind;
    traits |= desc->is_stable ? GY_TRAIT_STABLE : 0u;
    traits |= desc->is_independent ? GY_TRAIT_INDEPENDENT : 0u;
    return usual ? traits : traits | unusual_traits_of(desc);
}

/* `task` has a reference that nobody else takes away while we write.  `usual`: see gy_description_is_usual();
 * a task that is may also be described as one that is not.  `flags`: those that it has. */
static GY_INLINE void describe(gantry_task *task, const gantry_task_desc *desc, bool usual, unsigned flags)
{
    task->traits = (uint8_t)traits_of(desc, usual);
    if (gy_task_is_gpu(task)) {
        const gantry_taskman *manager = gy_task_manager(task);
        uint32_t device = manager->gpu.device;
        task->body.launch = desc->launch;
        task->partition =
            (uint8_t)(usual ? manager->gpu.partition : gy_description_place(manager, desc, &device));
        task->device = (uint8_t)device;
    } else {
        if (!usual && desc->port != NULL) {
            task->body.port = gy_port_number(desc->port);
        } else {
            task->body.run = desc->run;
        }
        task->cpu_class = (uint8_t)desc->cpu_class;
        task->is_critical = desc->bandwidth_critical;
    }
    task->arg = desc->arg;
    task->release = desc->release;
    task->label = desc->label;
    task->context_id = desc->context_id;
    flags |= GY_TASK_FILLED | (desc->release != NULL ? GY_TASK_HEARD : 0u);
    atomic_store_explicit(&task->flags, (uint8_t)flags, memory_order_relaxed);
}

/* A placeholder of before the start lost its first reference to the start: the submitter gets another.
 * One made while running still has its first, which becomes the submitter's. */
static gantry_status fill_locked(gantry_taskman *manager, gantry_task *task, const gantry_task_desc *desc)
    GY_REQUIRES(manager->lock)
{
    unsigned awaited = task->traits & (unsigned)GY_TRAIT_AWAITED;
    if (awaited != 0 && desc->kind == GANTRY_TASK_CPU && !gy_task_has(task, GY_TASK_FILLED)) {
        return GY_FAIL(GANTRY_ERR_INVALID_ARGUMENT,
                       "task '%s' is a CPU task, but a task waits for the GPU to be done with it",
                       desc->name);
    }
    if (gy_task_has(task, GY_TASK_FILLED)) {
        return GY_FAIL(GANTRY_ERR_DUPLICATE_NAME, "task '%s' was submitted already", desc->name);
    }
    if (gy_task_has(task, GY_TASK_LATE_NAME)) {
        gy_task_clear(task, GY_TASK_LATE_NAME);
        manager->counts.late_names--;
        gy_taskman_count_pending(manager, task, GY_WORK_ACTIVE);
    } else if (gy_taskman_phase(manager) == GY_RUNNING && !gy_task_hold_outside(task)) {
        return GY_FAIL(GANTRY_ERR_LATE_DEPENDENCY, "task '%s': what waited for that name has gone on already",
                       desc->name);
    }
    describe(task, desc, false, atomic_load_explicit(&task->flags, memory_order_relaxed));
    task->traits |= desc->kind == GANTRY_TASK_SYNC_POINT ? (uint8_t)awaited : 0;
    if (desc->is_condition) {
        gy_graph_loosen(task);
    }
    gy_task_enter(task, GANTRY_TASK_STATE_HELD);
    manager->counts.unfilled--;
    return GANTRY_OK;
}

/* Does a step that runs, or a graph that is frozen, take it? */
static gantry_status check_phase_locked(gantry_taskman *manager, const gantry_task_desc *desc)
    GY_REQUIRES(manager->lock)
{
    if (gy_taskman_phase(manager) == GY_STOPPED) {
        return refuse_stopped();
    }
    if (desc->is_condition || ((desc->name != NULL || desc->access_count != 0) && manager->frozen)) {
        const char *what = desc->is_condition   ? "a condition comes"
                           : desc->name != NULL ? "its graph is frozen: a name comes"
                                                : "its graph is frozen: accesses come";
        return GY_FAIL(GANTRY_ERR_STATE, "task '%s': %s too late", gy_description_label(desc), what);
    }
    return GANTRY_OK;
}

static gantry_status check_memory_locked(gantry_taskman *manager, const gantry_task_desc *desc)
    GY_REQUIRES(manager->lock)
{
    return desc->memory <= manager->memory.count
               ? GANTRY_OK
               : GY_FAIL(GANTRY_ERR_INVALID_ARGUMENT, "task '%s': memory %u was not declared",
                         desc->name != NULL ? desc->name : "", desc->memory);
}

/* The first GPU task of a step, or one with traits: tell whom that concerns. */
static GY_RARE void tell_gpu_locked(gantry_taskman *manager, const gantry_task *task, bool is_first)
    GY_REQUIRES(manager->lock)
{
    const uint32_t both = GY_TRAIT_STABLE | GY_TRAIT_MEMORY;
    if (is_first && !atomic_load_explicit(&manager->hints.was_helped, memory_order_relaxed) &&
        gy_taskman_phase(manager) == GY_BUILDING) {
        manager->gpu.ops->tell(manager->gpu.dispatcher, GY_GPU_STEP_ANNOUNCED);
    }
    if ((task->traits & GY_TRAIT_INDEPENDENT) != 0) {
        atomic_store_explicit(&manager->gpu_facts.has_independent, true, memory_order_relaxed);
    }
    if ((task->traits & both) == both && !manager->memory.has_told) {
        manager->memory.has_told = true;
        gy_log(GANTRY_LOG_INFO,
               "stable task '%s' is called in every run, like all that declare memory: it starts when there "
               "is room",
               gantry_task_label(task));
    }
}

static GY_INLINE void count_special_locked(gantry_taskman *manager, const gantry_task *task)
    GY_REQUIRES(manager->lock)
{
    manager->counts.special++;
    if (gy_task_is_gpu(task)) {
        const uint64_t before = gy_taskman_gpu_tasks(manager);
        atomic_store_explicit(&manager->counts.gpu, before + 1, memory_order_relaxed);
        manager->counts.stables += gy_task_is_stable(task);
        if (before == 0 || (task->traits & (GY_TRAIT_INDEPENDENT | GY_TRAIT_MEMORY)) != 0) {
            tell_gpu_locked(manager, task, before == 0);
        }
    } else {
        manager->counts.sync += gy_task_kind(task) == GANTRY_TASK_SYNC_POINT;
        manager->counts.conditions += gy_task_is_condition(task);
    }
}

static GY_INLINE gantry_status add_unnamed_locked(gantry_taskman *manager, const gantry_task_desc *desc,
                                                  bool usual, gantry_task **out) GY_REQUIRES(manager->lock)
{
    gantry_task *task = gy_graph_peek_task(&manager->graph);
    if (task == NULL) {
        return no_task_memory(desc->label);
    }
    take_task_locked(manager, task);
    describe(task, desc, usual, 0);
    gy_task_state_init(task, GANTRY_TASK_STATE_HELD);
    gy_taskman_count_pending(manager, task, GY_WORK_ACTIVE);
    *out = task;
    return GANTRY_OK;
}

static gantry_status add_named_locked(gantry_taskman *manager, const gantry_task_desc *desc,
                                      const struct gy_name *name, gantry_task **out)
    GY_REQUIRES(manager->lock)
{
    gantry_task *task = gy_names_find(&manager->names, name);
    if (task != NULL) {
        gantry_status status = fill_locked(manager, task, desc);
        *out = status == GANTRY_OK ? task : *out;
        return status;
    }
    if (gy_graph_peek_task(&manager->graph) == NULL || !gy_names_reserve(&manager->names, name)) {
        return no_task_memory(desc->name);
    }
    gantry_status status = add_unnamed_locked(manager, desc, false, &task);
    task->name = gy_names_add(&manager->names, name, task);
    *out = task;
    return status;
}

static GY_RARE gantry_status add_unusual_locked(gantry_taskman *manager, const gantry_task_desc *desc,
                                                const struct gy_name *name, gantry_task **out)
    GY_REQUIRES(manager->lock)
{
    gantry_status status = desc->memory != 0 ? check_memory_locked(manager, desc) : GANTRY_OK;
    if (status == GANTRY_OK) {
        status = name == NULL ? add_unnamed_locked(manager, desc, false, out)
                              : add_named_locked(manager, desc, name, out);
    }
    if (status == GANTRY_OK && desc->memory != 0) {
        gy_taskman_name_memory(manager, *out, desc->memory);
    }
    return status;
}

/* `usual`: see gy_description_is_usual(). */
static GY_INLINE gantry_status add_locked(gantry_taskman *manager, const gantry_task_desc *desc, bool usual,
                                          const struct gy_name *name, gantry_task **out)
    GY_REQUIRES(manager->lock)
{
    if (gy_taskman_phase(manager) != GY_BUILDING) {
        gantry_status status = check_phase_locked(manager, desc);
        if (status != GANTRY_OK) {
            return status;
        }
    }
    gantry_task *task = NULL;
    gantry_status status = usual ? add_unnamed_locked(manager, desc, true, &task)
                                 : add_unusual_locked(manager, desc, name, &task);
    if (status != GANTRY_OK) {
        return status;
    }
    manager->counts.submitted++;
    if (task->traits != GANTRY_TASK_CPU) {
        count_special_locked(manager, task);
    }
    *out = task;
    return GANTRY_OK;
}

gantry_status gy_taskman_add_locked(gantry_taskman *manager, const gantry_task_desc *desc, gantry_task **out)
{
    return add_locked(manager, desc, false, NULL, out);
}

/* Gives the lock back.  A task that lacks edges fails; one that runs already, at once: nobody has it. */
static GY_RARE gantry_status declare(gantry_taskman *manager, gantry_task *task,
                                     const gantry_access *accesses, size_t count) GY_RELEASE(manager->lock)
{
    gantry_task *fence;
    const bool is_late = gy_taskman_phase(manager) == GY_RUNNING;
    const gantry_status status =
        gy_accesses_declare(manager, task, accesses, count, gy_taskman_add_locked, &fence);
    assert(gy_taskman_is_valid(manager));
    gy_fast_lock_give(&manager->lock);
    if (fence != NULL) {
        (void)gy_taskman_unhold(fence, GANTRY_OK, NULL); /* the reference is ours */
    }
    if (status != GANTRY_OK && is_late) {
        (void)gy_taskman_unhold(task, status, NULL); /* and so is this one */
    } else if (status != GANTRY_OK) {
        gy_taskman_keep_failure(manager, task, status);
    }
    return status;
}

/* Path of a task, step 1 of 9: it is described, and held.
 *
 * The description was checked; `usual` and `name` as add_locked(). */
static GY_INLINE gantry_status submit_checked(gantry_taskman *manager, const gantry_task_desc *desc,
                                              bool usual, const struct gy_name *name, gantry_task **out)
{
    gantry_task *task = NULL;
    gy_fast_lock_take(&manager->lock);
    gantry_status status = add_locked(manager, desc, usual, name, &task);
    gy_point(GY_POINT_PATH_1, task);
    if (!usual && status == GANTRY_OK && desc->access_count != 0) {
        status = declare(manager, task, desc->accesses, desc->access_count);
    } else {
        assert(gy_taskman_is_valid(manager));
        gy_fast_lock_give(&manager->lock);
    }
    if (status == GANTRY_OK && out != NULL) {
        *out = task;
    }
    return status;
}

/* A task whose calls say what it accesses: it is submitted with the list of that. */
static GY_RARE gantry_status submit_asked(gantry_taskman *manager, const gantry_task_desc *desc,
                                          gantry_task *const *predecessors, size_t count, gantry_task **out)
{
    struct gy_access_list said = {.at = said.few, .count = 0, .room = GY_ACCESS_FEW};
    gantry_task_desc ours = *desc;
    uint32_t device;
    (void)gy_description_place(manager, desc, &device);
    struct gy_gpu_dispatcher *d = (struct gy_gpu_dispatcher *)manager->gpu.ops->on_device(
        manager->gpu.dispatcher, desc->context, &device);
    gantry_status status = d->ops->ask((gantry_dispatcher *)d, desc, &said);
    if (status == GANTRY_OK) {
        ours.calls_say_accesses = false;
        ours.accesses = said.at;
        ours.access_count = (uint32_t)said.count;
        status = said.count > UINT32_MAX
                     ? GY_FAIL(GANTRY_ERR_INVALID_ARGUMENT, "task: its calls say %zu accesses", said.count)
                 : predecessors == NULL
                     ? gantry_taskman_submit(manager, &ours, out)
                     : gantry_taskman_submit_after(manager, &ours, predecessors, count, out);
    }
    if (said.at != said.few) {
        gy_free(said.at);
    }
    return status;
}

static GY_RARE gantry_status submit_any(gantry_taskman *manager, const gantry_task_desc *desc,
                                        gantry_task **out)
{
    gantry_task_desc ours;
    gantry_status status = gy_description_import(manager, &desc, &ours);
    if (status != GANTRY_OK) {
        return status;
    }
    if (desc->calls_say_accesses) {
        return submit_asked(manager, desc, NULL, 0, out);
    }
    struct gy_name name;
    if (desc->name != NULL) {
        name = gy_name_of(desc->name);
    }
    return submit_checked(manager, desc, false, desc->name != NULL ? &name : NULL, out);
}

gantry_status gantry_taskman_submit(gantry_taskman *manager, const gantry_task_desc *desc, gantry_task **out)
{
    GY_ACCEPT(TASKMAN, manager);
    if (manager == NULL || desc == NULL) {
        return GY_FAIL(GANTRY_ERR_INVALID_ARGUMENT, "task: manager or description is NULL");
    }
    return gy_description_is_plain(manager, desc) ? submit_checked(manager, desc, true, NULL, out)
                                                  : submit_any(manager, desc, out);
}

/* May all of these be predecessors of a task of `manager`? */
static gantry_status check_predecessors(const gantry_taskman *manager, gantry_task *const *predecessors,
                                        size_t count)
{
    for (size_t i = 0; i < count; i++) {
        gantry_task *task = predecessors[i];
        if (task == NULL) {
            return GY_FAIL(GANTRY_ERR_INVALID_ARGUMENT, "task: predecessor %zu of %zu is NULL", i, count);
        }
        if (GY_HANDLE_IS_BAD_IN("gantry_taskman_submit_after", TASK, task)) {
            return GANTRY_ERR_INVALID_ARGUMENT;
        }
        if (gy_task_manager(task) != manager) {
            return GY_FAIL(GANTRY_ERR_FOREIGN_HANDLE,
                           "task: predecessor %zu of %zu, '%s', is of another task manager", i, count,
                           gantry_task_label(task));
        }
        if (gy_task_has(task, GY_TASK_LIGHT)) {
            return GY_FAIL(GANTRY_ERR_INVALID_ARGUMENT, "task: predecessor %zu of %zu, '%s', is a light task",
                           i, count, gantry_task_label(task));
        }
    }
    return GANTRY_OK;
}

/* One by one: a step runs, where each predecessor may end at any time, or the task has a name, which may have
 * been referred to before.  The description is checked once more. */
static gantry_status submit_and_link(gantry_taskman *manager, const gantry_task_desc *desc,
                                     gantry_task *const *predecessors, size_t count, gantry_task **out)
{
    gantry_status status = gantry_taskman_submit(manager, desc, out);
    for (size_t i = 0; i < count && status == GANTRY_OK; i++) {
        status = gantry_task_start_after(*out, predecessors[i]);
    }
    return status;
}

gantry_status gantry_taskman_submit_after(gantry_taskman *manager, const gantry_task_desc *desc,
                                          gantry_task *const *predecessors, size_t count, gantry_task **out)
{
    GY_ACCEPT(TASKMAN, manager);
    if (manager == NULL || desc == NULL || (predecessors == NULL && count != 0)) {
        return GY_FAIL(GANTRY_ERR_INVALID_ARGUMENT, "task: manager, description or predecessors is NULL");
    }
    gantry_task_desc ours;
    const bool usual = gy_description_is_plain(manager, desc);
    gantry_status status = usual ? GANTRY_OK : gy_description_import(manager, &desc, &ours);
    status = status == GANTRY_OK ? check_predecessors(manager, predecessors, count) : status;
    if (status != GANTRY_OK) {
        return status;
    }
    if (!usual && desc->calls_say_accesses) {
        return submit_asked(manager, desc, predecessors, count, out);
    }
    gantry_task *task = NULL;
    gy_fast_lock_take(&manager->lock);
    const bool at_once = gy_taskman_phase(manager) == GY_BUILDING && desc->name == NULL;
    if (at_once) {
        status = add_locked(manager, desc, usual, NULL, &task);
        gy_point(GY_POINT_PATH_1, task);
        status = status == GANTRY_OK ? gy_edges_link_all_locked(manager, task, predecessors, count) : status;
    }
    if (at_once && !usual && status == GANTRY_OK && desc->access_count != 0) {
        status = declare(manager, task, desc->accesses, desc->access_count);
    } else {
        assert(gy_taskman_is_valid(manager));
        gy_fast_lock_give(&manager->lock);
    }
    if (!at_once) {
        status = submit_and_link(manager, desc, predecessors, count, &task);
    }
    if (task != NULL && out != NULL) { /* what was submitted stays, also where an edge came too late */
        *out = task;
    }
    return status;
}

/* ---- accesses of a task that is there ---------------------------------------------------------- */

gantry_status gantry_task_access(gantry_task *task, const gantry_access *accesses, size_t count)
{
    GY_ACCEPT(TASK, task);
    if (task == NULL || (accesses == NULL && count != 0)) {
        return GY_FAIL(GANTRY_ERR_INVALID_ARGUMENT, "access: the task or its accesses are NULL");
    }
    const char *label = gantry_task_label(task);
    if (gy_task_has(task, GY_TASK_LIGHT) || gy_task_is_condition(task) ||
        !gy_task_has(task, GY_TASK_FILLED)) {
        return GY_FAIL(GANTRY_ERR_INVALID_ARGUMENT,
                       "access: '%s' is a light task, a condition or a name without a task", label);
    }
    gantry_taskman *manager = gy_task_manager(task);
    const gantry_status status = gy_accesses_check(manager, label, accesses, count);
    if (status != GANTRY_OK) {
        return status;
    }
    gy_fast_lock_take(&manager->lock);
    if (gy_taskman_phase(manager) != GY_BUILDING || manager->frozen) {
        assert(gy_taskman_is_valid(manager));
        gy_fast_lock_give(&manager->lock);
        return GY_FAIL(GANTRY_ERR_STATE,
                       "access: the step of task '%s' was started, or its graph is frozen: a task that is "
                       "made while a step runs has its accesses in its description",
                       label);
    }
    return declare(manager, task, accesses, count);
}

/* ---- loops, for the GPU dispatcher ------------------------------------------------------------ */

static gantry_status refuse_late_loop(void)
{
    return GY_FAIL(GANTRY_ERR_STATE, "gantry_taskman_submit_loop: the manager is not being built");
}

/* Only for the second task memory may be missing: the edge's is looked for first. */
static gantry_status add_loop_locked(gantry_taskman *manager, const struct gy_gpu_loop_tasks *tasks)
    GY_REQUIRES(manager->lock)
{
    if (gy_taskman_phase(manager) != GY_BUILDING) {
        return refuse_late_loop();
    }
    if (gy_graph_peek_edge(&manager->graph) == NULL) {
        return no_task_memory(tasks->test->label);
    }
    gantry_status status = add_locked(manager, tasks->test, false, NULL, tasks->out_test);
    if (status != GANTRY_OK) {
        return status;
    }
    tasks->loop->next = manager->loops;
    manager->loops = tasks->loop;
    gantry_task *condition;
    status = add_locked(manager, tasks->decide, false, NULL, &condition);
    if (status == GANTRY_OK) {
        status = gy_edges_link_all_locked(manager, condition, tasks->out_test, 1);
        *tasks->out_decide = condition;
    }
    return status;
}

gantry_status gy_taskman_submit_loop(gantry_taskman *manager, const struct gy_gpu_loop_tasks *tasks)
{
    if (gy_taskman_phase(manager) != GY_BUILDING) {
        return refuse_late_loop();
    }
    gantry_status status = gy_description_check(manager, tasks->test);
    if (status == GANTRY_OK) {
        uint32_t device;
        (void)gy_description_place(manager, tasks->test, &device);
        status =
            tasks->prepare(tasks->loop, manager->gpu.ops->on_device(manager->gpu.dispatcher, NULL, &device));
    }
    if (status != GANTRY_OK) {
        return status;
    }
    gy_fast_lock_take(&manager->lock);
    status = add_loop_locked(manager, tasks);
    assert(gy_taskman_is_valid(manager));
    gy_fast_lock_give(&manager->lock);
    return status;
}

gantry_status gantry_taskman_get_named(gantry_taskman *manager, const char *text, gantry_task **out)
{
    GY_ACCEPT(TASKMAN, manager);
    if (manager == NULL || text == NULL || text[0] == '\0' || out == NULL) {
        return GY_FAIL(GANTRY_ERR_INVALID_ARGUMENT, "task name: an argument is NULL or the name is empty");
    }
    struct gy_name name = gy_name_of(text);
    gantry_task *task = NULL;
    gantry_status status = GANTRY_OK;
    gy_fast_lock_take(&manager->lock);
    if (gy_taskman_phase(manager) == GY_STOPPED && !manager->frozen) {
        status = refuse_stopped();
    } else {
        task = gy_names_find(&manager->names, &name);
        if (task == NULL && manager->frozen) {
            status = GY_FAIL(GANTRY_ERR_NOT_FOUND, "task name '%s': not in the frozen graph", text);
        } else if (task == NULL) {
            status = add_placeholder_locked(manager, &name, &task);
        }
    }
    assert(gy_taskman_is_valid(manager));
    gy_fast_lock_give(&manager->lock);
    if (status == GANTRY_OK) {
        *out = task;
    }
    return status;
}

/* ---- light tasks ----------------------------------------------------------------------------- */

static gantry_status add_light_locked(gantry_taskman *manager, const gantry_task_desc *desc,
                                      gantry_task *continuation, gantry_task **out) GY_REQUIRES(manager->lock)
{
    if (gy_taskman_phase(manager) == GY_STOPPED) {
        return refuse_stopped();
    }
    gantry_task *task = gy_graph_peek_task(&manager->graph);
    if (task == NULL) {
        return no_task_memory(desc->label);
    }
    if (continuation != NULL && !gy_task_hold(continuation)) {
        return gy_task_refuse_hold(continuation, "light task: continuation");
    }
    take_task_locked(manager, task);
    describe(task, desc, true, GY_TASK_LIGHT);
    gy_task_state_init(task, GANTRY_TASK_STATE_HELD);
    gy_taskman_count_pending(manager, task, GY_WORK_ACTIVE);
    manager->counts.outside += gy_taskman_phase(manager) == GY_BUILDING;
    manager->counts.submitted++;
    manager->counts.special++;
    manager->counts.lights++;
    if (continuation != NULL) {
        gy_graph_link_own(task, continuation);
        manager->graph.edges++;
        continuation->predecessors += !gy_task_has(continuation, GY_TASK_FROZEN);
    }
    *out = task;
    return GANTRY_OK;
}

gantry_status gy_taskman_add_light(gantry_taskman *manager, const gantry_task_desc *desc,
                                   gantry_task *continuation, gantry_task **out)
{
    gy_fast_lock_take(&manager->lock);
    gantry_status status = add_light_locked(manager, desc, continuation, out);
    assert(gy_taskman_is_valid(manager));
    gy_fast_lock_give(&manager->lock);
    return status;
}
