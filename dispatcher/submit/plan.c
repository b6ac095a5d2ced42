/* SPDX-License-Identifier: MIT */
/* Making plans: which stable tasks of a graph may be launched together; and the life of plans. */
#include "dispatcher/submit/plan.h"

#include "base/alloc.h"
#include "base/checking.h"
#include "copykernel/copier.h"
#include "dispatcher/call/calls.h"
#include "dispatcher/order/wait_set.h"
#include "dispatcher/submit/device_loop.h"
#include "dispatcher/submit/plan_graph.h"
#include "driver/spent.h"

#include <assert.h>
#include <stdlib.h>
#include <string.h>

/* Sets of outer tasks may take this much while a plan is made; a graph that needs more gets no plan. */
#define MOST_SET_BYTES ((size_t)64 << 20)
#define NONE UINT32_MAX

/* ---- what is known while a plan is made; arrays by index of the task ------------------------ */

struct edge {
    uint32_t from, to; /* numbers of units */
};

struct making {
    struct gy_plan *plan;
    uint32_t device; /* whose tasks are divided, or GY_PLAN_ALL_DEVICES */
    struct gy_plan_graph graph;
    uint32_t *left;  /* predecessors that are not seen yet */
    uint32_t *order; /* indices in topological order */
    uint32_t ordered;
    uint32_t *bit;  /* the bit in a set that stands for an outer task; NONE: the task is not outer */
    uint32_t outer; /* the number of outer tasks */
    size_t words;   /* words in a set */
    uint64_t *sets;
    struct edge *edges; /* edges between units */
    size_t edge_count, edge_room;
    uint32_t from; /* the member that is being looked at */
    bool out_of_memory;
};

static bool is_member(const struct making *m, const gantry_task *task)
{
    return gy_task_is_stable(task) && (m->device == GY_PLAN_ALL_DEVICES || task->device == m->device);
}

static uint64_t *set_of(const struct making *m, uint32_t index)
{
    return m->sets + m->words * index;
}

static void count_edge(void *user, gantry_task *dependent)
{
    struct making *m = user;
    m->left[gy_task_index(dependent)]++;
}

static void note_task(void *user, gantry_task *task)
{
    struct making *m = user;
    uint32_t index = gy_task_index(task);
    bool is_outer = (!is_member(m, task) && !gy_plan_is_sync_point(task)) || gy_task_is_held_by_others(task);
    m->bit[index] = is_outer ? m->outer++ : NONE;
    gy_task_each_dependent(task, count_edge, m);
}

/* ---- sets ------------------------------------------------------------------------------------ */

static void set_bit(uint64_t *set, uint32_t bit)
{
    set[bit / 64] |= UINT64_C(1) << bit % 64;
}

/* `dependent` comes after everything that m->from comes after, and after m->from itself if that is outer. */
static void pass_set(void *user, gantry_task *dependent)
{
    struct making *m = user;
    uint32_t index = gy_task_index(dependent);
    const uint64_t *before = set_of(m, m->from);
    uint64_t *after = set_of(m, index);
    for (size_t w = 0; w < m->words; w++) {
        after[w] |= before[w];
    }
    if (m->bit[m->from] != NONE) {
        set_bit(after, m->bit[m->from]);
    }
    if (--m->left[index] == 0) {
        m->order[m->ordered++] = index;
    }
}

static void fill_sets(struct making *m)
{
    for (uint32_t i = 0; i < m->graph.tasks; i++) {
        if (m->graph.task[i] != NULL && m->left[i] == 0) {
            m->order[m->ordered++] = i;
        }
    }
    for (uint32_t at = 0; at < m->ordered; at++) {
        m->from = m->order[at];
        if (m->bit[m->from] != NONE && is_member(m, m->graph.task[m->from])) {
            set_bit(set_of(m, m->from),
                    m->bit[m->from]); /* what holds this member back comes before the member itself, too */
        }
        gy_task_each_dependent(m->graph.task[m->from], pass_set, m);
    }
}

/* ---- units --------------------------------------------------------------------------------- */

static uint64_t hash_set(const uint64_t *set, size_t words)
{
    uint64_t hash = 1;
    for (size_t w = 0; w < words; w++) {
        hash = (hash ^ set[w]) * UINT64_C(0x9e3779b97f4a7c15);
        hash ^= hash >> 29;
    }
    return hash;
}

/* Give every member the number of its unit, in order of first appearance.  `table` has room + 1 slots, a
 * power of 2 above the number of tasks, which are all NONE at first; a slot holds the first task of a unit.
 */
static void number_units(struct making *m, uint32_t *table, uint32_t mask)
{
    struct gy_plan *plan = m->plan;
    for (uint32_t at = 0; at < m->ordered; at++) {
        uint32_t index = m->order[at];
        if (!is_member(m, m->graph.task[index])) {
            continue;
        }
        const uint64_t *set = set_of(m, index);
        uint32_t slot = (uint32_t)(hash_set(set, m->words) >> 16) & mask;
        while (table[slot] != NONE && memcmp(set_of(m, table[slot]), set, m->words * sizeof(*set)) != 0) {
            slot = (slot + 1) & mask;
        }
        if (table[slot] == NONE) {
            table[slot] = index;
            plan->unit_of[index] = ++plan->unit_count;
        } else {
            plan->unit_of[index] = plan->unit_of[table[slot]];
        }
    }
}

static gantry_status find_units(struct making *m)
{
    uint32_t room = 16;
    while (room <= m->graph.tasks) {
        room *= 2;
    }
    room *= 2;
    uint32_t *table = gy_zalloc_array(room, sizeof(*table));
    if (table == NULL) {
        return GANTRY_ERR_OUT_OF_HOST_MEMORY;
    }
    memset(table, 0xff, room * sizeof(*table));
    number_units(m, table, room - 1);
    gy_free(table);
    return GANTRY_OK;
}

static void list_members(struct making *m)
{
    struct gy_plan *plan = m->plan;
    for (uint32_t i = 0; i < m->graph.tasks; i++) {
        if (plan->unit_of[i] != 0) {
            plan->units[plan->unit_of[i] - 1].members++;
        }
    }
    uint32_t first = 0;
    for (uint32_t r = 0; r < plan->unit_count; r++) {
        struct gy_unit *unit = &plan->units[r];
        unit->plan = plan;
        unit->first = first;
        first += unit->members;
        unit->members = 0;
    }
    for (uint32_t at = 0; at < m->ordered; at++) {
        uint32_t number = plan->unit_of[m->order[at]];
        if (number != 0) {
            struct gy_unit *unit = &plan->units[number - 1];
            gantry_task *task = m->graph.task[m->order[at]];
            plan->members[unit->first + unit->members++] = task;
            unit->partitions |= UINT64_C(1) << gy_task_partition(task);
        }
    }
}

/* ---- edges between units ------------------------------------------------------------------- */

static void add_edge(struct making *m, uint32_t from, uint32_t to)
{
    if (m->edge_count == m->edge_room) {
        size_t room = m->edge_room == 0 ? 64 : 2 * m->edge_room;
        struct edge *edges = gy_zalloc_array(room, sizeof(*edges));
        if (edges == NULL) {
            m->out_of_memory = true;
            return;
        }
        if (m->edge_count != 0) {
            memcpy(edges, m->edges, m->edge_count * sizeof(*edges));
        }
        gy_free(m->edges);
        m->edges = edges;
        m->edge_room = room;
    }
    m->edges[m->edge_count++] = (struct edge){from, to};
}

/* `dependent` comes after the member m->from, directly or through sync points. */
static bool follow(void *user, gantry_task *dependent)
{
    struct making *m = user;
    uint32_t index = gy_task_index(dependent);
    uint32_t from = m->plan->unit_of[m->from], to = m->plan->unit_of[index];
    if (to != 0 && to == from) {
        m->plan->inside[index] = true;
        return false;
    }
    if (gy_plan_is_sync_point(dependent)) {
        return true;
    }
    m->plan->units[from - 1].leaving++;
    if (to != 0) {
        add_edge(m, from - 1, to - 1);
    }
    return false;
}

static void find_edges(struct making *m)
{
    for (uint32_t i = 0; i < m->graph.tasks; i++) {
        if (m->plan->unit_of[i] != 0) {
            m->from = i;
            gy_plan_graph_follow(&m->graph, i, follow, m);
        }
    }
    for (uint32_t i = 0; i < m->graph.tasks; i++) {
        if (m->plan->unit_of[i] != 0 && !m->plan->inside[i]) {
            m->plan->units[m->plan->unit_of[i] - 1].roots++;
        }
    }
}

static int compare_edges(const void *a, const void *b)
{
    const struct edge *x = a, *y = b;
    if (x->from != y->from) {
        return x->from < y->from ? -1 : 1;
    }
    return (x->to > y->to) - (x->to < y->to);
}

/* List each edge once, grouped by the unit where it begins. */
static gantry_status list_edges(struct making *m)
{
    struct gy_plan *plan = m->plan;
    plan->needed_by = gy_zalloc_array(m->edge_count + 1, sizeof(*plan->needed_by));
    if (plan->needed_by == NULL || m->out_of_memory) {
        return GANTRY_ERR_OUT_OF_HOST_MEMORY;
    }
    if (m->edge_count > 1) {
        qsort(m->edges, m->edge_count, sizeof(*m->edges), compare_edges);
    }
    uint32_t count = 0;
    for (size_t e = 0; e < m->edge_count; e++) {
        const struct edge *edge = &m->edges[e];
        if (e > 0 && compare_edges(edge, edge - 1) == 0) {
            continue;
        }
        struct gy_unit *from = &plan->units[edge->from];
        if (from->needed_by++ == 0) {
            from->first_needed_by = count;
        }
        plan->needed_by[count++] = edge->to;
        plan->units[edge->to].needs++;
    }
    return GANTRY_OK;
}

/* ---- making ---------------------------------------------------------------------------------- */

static void plan_free(struct gy_plan *plan)
{
    for (uint32_t r = 0; r < plan->unit_count && plan->units != NULL; r++) {
        gy_free(plan->units[r].recorded.completions);
    }
    for (uint32_t i = 0; i < plan->tasks && plan->calls != NULL; i++) {
        gy_calls_fini(&plan->calls[i]);
    }
    gy_free(plan->calls);
    gy_free(plan->units);
    gy_free(plan->needed_by);
    gy_free(plan->members);
    gy_free(plan->inside);
    gy_free(plan->unit_of);
    gy_free(plan);
}

static void making_fini(struct making *m)
{
    gy_plan_graph_fini(&m->graph);
    gy_free(m->left);
    gy_free(m->order);
    gy_free(m->bit);
    gy_free(m->sets);
    gy_free(m->edges);
}

static gantry_status making_init(struct making *m, gantry_taskman *manager)
{
    struct gy_plan *plan = m->plan;
    const bool has_graph = gy_plan_graph_init(&m->graph, manager);
    const size_t n = m->graph.tasks;
    m->left = gy_zalloc_array(n, sizeof(*m->left));
    m->order = gy_zalloc_array(n, sizeof(*m->order));
    m->bit = gy_zalloc_array(n, sizeof(*m->bit));
    plan->unit_of = gy_zalloc_array(n, sizeof(*plan->unit_of));
    plan->inside = gy_zalloc_array(n, sizeof(*plan->inside));
    plan->members = gy_zalloc_array(n, sizeof(gantry_task *));
    plan->tasks = m->graph.tasks;
    const bool is_compared = gy_check_is_on(GY_CHECK_STABLE);
    plan->calls = is_compared ? gy_zalloc_array(n, sizeof(*plan->calls)) : NULL;
    if ((is_compared && plan->calls == NULL) || !has_graph || m->left == NULL || m->order == NULL ||
        m->bit == NULL || plan->inside == NULL || plan->unit_of == NULL || plan->members == NULL) {
        return GANTRY_ERR_OUT_OF_HOST_MEMORY;
    }
    gy_taskman_each_task(manager, note_task, m);
    m->words = (m->outer + 63) / 64;
    return GANTRY_OK;
}

static gantry_status divide(struct making *m)
{
    struct gy_plan *plan = m->plan;
    m->sets = gy_zalloc_array(m->graph.tasks, (m->words + 1) * sizeof(uint64_t));
    if (m->sets == NULL) {
        return GANTRY_ERR_OUT_OF_HOST_MEMORY;
    }
    fill_sets(m);
    gantry_status status = find_units(m);
    if (status != GANTRY_OK) {
        return status;
    }
    plan->units = gy_zalloc_array(plan->unit_count + 1, sizeof(*plan->units));
    if (plan->units == NULL) {
        return GANTRY_ERR_OUT_OF_HOST_MEMORY;
    }
    list_members(m);
    find_edges(m);
    return list_edges(m);
}

static void enlist(struct gy_plan_list *list, struct gy_plan *plan)
{
    gy_mutex_lock(&list->lock);
    plan->list = list;
    plan->next = list->first;
    plan->place = &list->first;
    if (plan->next != NULL) {
        plan->next->place = &plan->next;
    }
    list->first = plan;
    gy_mutex_unlock(&list->lock);
}

/* Between runs: the recording of the task's unit is no longer valid. */
static void changed(struct gy_gpu_plan *self, const gantry_task *task)
{
    struct gy_plan *plan = (struct gy_plan *)self;
    uint32_t number = plan->unit_of[gy_task_index(task)];
    if (number == 0) {
        return;
    }
    struct gy_unit *unit = &plan->units[number - 1];
    unit->recorded.is_stale = true;
    for (uint32_t i = 0; i < unit->members && plan->calls != NULL; i++) {
        gy_calls_forget(&plan->calls[gy_task_index(plan->members[unit->first + i])]);
    }
}

static void destroy_graphs(struct gy_plan_list *list, struct gy_plan *plan)
{
    for (uint32_t r = 0; r < plan->unit_count; r++) {
        gy_exec_drop(list->context, &plan->units[r].recorded.exec);
        gy_copier_kept_dropped(list->copier, &plan->units[r].recorded.kept);
    }
}

static void drop(struct gy_gpu_plan *self)
{
    struct gy_plan *plan = (struct gy_plan *)self;
    struct gy_plan_list *list = plan->list;
    if (list != NULL) {
        gy_mutex_lock(&list->lock);
        *plan->place = plan->next;
        if (plan->next != NULL) {
            plan->next->place = plan->place;
        }
        gy_mutex_unlock(&list->lock);
        bool pushed = gy_context_push(list->context) == GANTRY_OK;
        destroy_graphs(list, plan);
        if (pushed) {
            (void)gy_context_pop(list->context);
        }
    }
    plan_free(plan);
}

/* A plan was made, or there was no memory for it. */
static gantry_status finish(struct gy_plan_list *list, struct gy_plan *plan, gantry_status status,
                            struct gy_gpu_plan **out)
{
    if (status != GANTRY_OK || (plan->unit_count == 0 && plan->units == NULL)) {
        plan_free(plan);
        return status == GANTRY_OK ? status
                                   : GY_FAIL(status, "freeze: no memory for the plan of stable tasks");
    }
    plan->head.drop = drop;
    plan->head.changed = changed;
    plan->run = &plan->head.run;
    enlist(list, plan);
    *out = &plan->head;
    return GANTRY_OK;
}

gantry_status gy_plan_make(struct gy_plan_list *list, gantry_taskman *manager, uint32_t device,
                           struct gy_gpu_plan **out)
{
    struct gy_plan *plan = gy_zalloc(sizeof(*plan));
    if (plan == NULL) {
        return GY_FAIL(GANTRY_ERR_OUT_OF_HOST_MEMORY, "freeze: no memory for the plan of stable tasks");
    }
    if (gy_taskman_has_conditions(manager)) {
        const gantry_status planned = gy_device_loops_plan(plan, manager, device);
        return finish(list, plan, planned, out);
    }
    struct making m = {.plan = plan, .device = device};
    gantry_status status = making_init(&m, manager);
    bool too_large = m.words > MOST_SET_BYTES / sizeof(uint64_t) / (m.graph.tasks != 0 ? m.graph.tasks : 1);
    if (status == GANTRY_OK && !too_large) {
        status = divide(&m);
    }
    making_fini(&m);
    if (status == GANTRY_OK && too_large) {
        plan_free(plan);
        gy_log(GANTRY_LOG_WARNING,
               "freeze: %u tasks, %u of them not stable, are too many to find out which stable ones may be "
               "launched together: all are called in every run",
               m.graph.tasks, m.outer);
        return GANTRY_OK;
    }
    return finish(list, plan, status, out);
}

/* ---- of a fleet ------------------------------------------------------------------------------ */

struct joined_plan {
    struct gy_gpu_plan head;  /* first */
    uint32_t count;           /* immutable */
    struct gy_gpu_plan *of[]; /* immutable; by number of the device */
};

static void drop_joined(struct gy_gpu_plan *self)
{
    struct joined_plan *all = (struct joined_plan *)self;
    for (uint32_t e = 0; e < all->count; e++) {
        if (all->of[e] != NULL) {
            all->of[e]->drop(all->of[e]);
        }
    }
    gy_free(all);
}

static void changed_joined(struct gy_gpu_plan *self, const gantry_task *task)
{
    struct gy_gpu_plan *plan = self->members[task->device];
    if (plan != NULL) {
        plan->changed(plan, task);
    }
}

gantry_status gy_plan_join(struct gy_gpu_plan *const *members, uint32_t count, struct gy_gpu_plan **out)
{
    struct joined_plan *all = gy_zalloc(sizeof(*all) + count * sizeof(struct gy_gpu_plan *));
    for (uint32_t e = 0; e < count; e++) {
        if (members[e] != NULL && all == NULL) {
            members[e]->drop(members[e]);
        } else if (members[e] != NULL) {
            all->of[e] = members[e];
            ((struct gy_plan *)members[e])->run = &all->head.run;
        }
    }
    if (all == NULL) {
        return GY_FAIL(GANTRY_ERR_OUT_OF_HOST_MEMORY, "freeze: no memory for the plan of stable tasks");
    }
    all->count = count;
    all->head.drop = drop_joined;
    all->head.changed = changed_joined;
    all->head.members = all->of;
    *out = &all->head;
    return GANTRY_OK;
}

/* ---- of a dispatcher ------------------------------------------------------------------------- */

void gy_plan_list_init(struct gy_plan_list *list, struct gy_context *context, struct gy_copier *copier)
{
    list->context = context;
    list->copier = copier;
    list->first = NULL;
    gy_mutex_init(&list->lock, GY_RANK_LEAF);
}

void gy_plan_list_fini(struct gy_plan_list *list)
{
    gy_mutex_lock(&list->lock);
    struct gy_plan *first = list->first;
    list->first = NULL;
    gy_mutex_unlock(&list->lock);
    for (struct gy_plan *plan = first; plan != NULL; plan = plan->next) {
        destroy_graphs(list, plan);
        plan->list = NULL;
    }
    gy_spent_sweep(list->context);
    gy_mutex_fini(&list->lock);
}

static void forget(struct gy_plan_list *list, struct gy_plan *plan)
{
    destroy_graphs(list, plan);
    for (uint32_t r = 0; r < plan->unit_count; r++) {
        struct gy_unit *unit = &plan->units[r];
        unit->partitions = 0;
        for (uint32_t i = 0; i < unit->members; i++) {
            gantry_task *task = plan->members[unit->first + i];
            unit->partitions |= UINT64_C(1) << gy_task_partition(task);
            if (plan->calls != NULL) {
                gy_calls_forget(&plan->calls[gy_task_index(task)]);
            }
        }
    }
}

void gy_plan_list_forget(struct gy_plan_list *list)
{
    gy_mutex_lock(&list->lock);
    struct gy_plan *first = list->first;
    gy_mutex_unlock(&list->lock);
    for (struct gy_plan *plan = first; plan != NULL; plan = plan->next) {
        forget(list, plan);
    }
}

/* ---- running --------------------------------------------------------------------------------- */

void gy_unit_renew(struct gy_unit *unit)
{
    uint64_t run = *unit->plan->run;
    if (unit->run == run) {
        return;
    }
    unit->run = run;
    gy_unit_begin_again(unit);
}

void gy_unit_begin_again(struct gy_unit *unit)
{
    assert(unit->held.first == NULL);
    unit->recorded.is_loop = false;
    unit->stage = GY_UNIT_WAITING;
    unit->arrived = unit->settled = 0;
    unit->must_call = false;
    unit->point = GY_WAIT_SET_NONE;
    unit->stream = 0;
    atomic_store_explicit(&unit->wait_set, GY_WAIT_SET_NONE, memory_order_relaxed);
}

bool gy_plan_has_unit(const gantry_task *task)
{
    const struct gy_plan *plan = gy_plan_of(task);
    return plan != NULL && plan->unit_of[gy_task_index(task)] != 0;
}

bool gy_plan_is_inside(const gantry_task *task)
{
    const struct gy_plan *plan = gy_plan_of(task);
    return plan != NULL && plan->inside[gy_task_index(task)];
}

struct gy_calls *gy_plan_calls(const gantry_task *task)
{
    const struct gy_plan *plan = gy_plan_of(task);
    const uint32_t index = gy_task_index(task);
    return plan != NULL && plan->calls != NULL && plan->unit_of[index] != 0 ? &plan->calls[index] : NULL;
}
