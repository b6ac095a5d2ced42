/* SPDX-License-Identifier: MIT */
#include "tests/proof/edge_wrap.h"

#include <dlfcn.h>
#include <pthread.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static atomic_ullong edges, completions, accesses; /* so many were declared */

/* The thread is in the library, whose calls of its own functions are not the program's. */
static _Thread_local bool is_inside;

void edge_find_real(void *function, const char *name)
{
    void *found = dlsym(RTLD_NEXT, name);
    memcpy(function, &found,
           sizeof(found)); /* ISO C has no cast from an object pointer to a function pointer */
}

static bool is_left_out(enum edge_kind kind, uint64_t number)
{
    char name[32];
    const char *left_out = getenv("PROOF_LEAVE_OUT");
    snprintf(name, sizeof(name), "%s%llu", kind >= EDGE_COMPLETION ? "c" : "", (unsigned long long)number);
    return left_out != NULL && strcmp(left_out, name) == 0;
}

/* ---- the order without the edge
 * --------------------------------------------------------------------------------
 *
 * The program is to do what it does with the edge: else it may fail before the two tasks touch anything.  So
 * what comes after is held by a reference, which the release callback of what comes before gives back.  That
 * declares nothing: no task is known to have ended in the thread that calls it. */

enum { SLOTS = 4096 };

struct released {
    gantry_task *task;
    struct released *next;
    gantry_task_release_fn release; /* the program's; NULL: none */
    gantry_task *holds;             /* NULL: none */
    bool has_ended;
};

static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER; /* guards all below */
static struct released *slots[SLOTS];

static struct released *find(const gantry_task *task)
{
    struct released *found = slots[(uintptr_t)task / 64 % SLOTS];
    while (found != NULL && found->task != task) {
        found = found->next;
    }
    return found;
}

static void release(gantry_task *task, void *arg, gantry_status result)
{
    gantry_status (*give)(gantry_task *);
    pthread_mutex_lock(&lock);
    struct released *own = find(task);
    gantry_task *held = own->holds;
    const gantry_task_release_fn called = own->release;
    own->has_ended = true;
    pthread_mutex_unlock(&lock);
    if (called != NULL) {
        called(task, arg, result);
    }
    if (held != NULL) {
        edge_find_real(&give, "gantry_task_remove_reference");
        (void)give(held);
    }
}

/* Accesses as they are declared, to be freed: one of them is spoiled if $PROOF_SPOIL says so.  `*first`: the
 * number of the first. */
static gantry_access *spoil(const gantry_access *list, size_t count, uint64_t *first)
{
    gantry_access *copy = calloc(count + 1, sizeof(*copy));
    const char *spoiled = getenv("PROOF_SPOIL");
    if (copy == NULL) {
        abort();
    }
    *first = atomic_fetch_add(&accesses, count);
    for (size_t i = 0; i < count; i++) {
        char half[32], out[32];
        copy[i] = list[i];
        snprintf(half, sizeof(half), "half%llu", (unsigned long long)(*first + i));
        snprintf(out, sizeof(out), "out%llu", (unsigned long long)(*first + i));
        const bool is_half = spoiled != NULL && strcmp(spoiled, half) == 0;
        const bool is_out = spoiled != NULL && strcmp(spoiled, out) == 0;
        copy[i].bytes = is_out ? 0 : is_half ? copy[i].bytes / 2 : copy[i].bytes;
    }
    return copy;
}

/* What is submitted in the place of a description. */
struct own_desc {
    gantry_task_desc desc;
    gantry_access *accesses; /* to be freed */
    uint64_t first_access;   /* the number of the first */
};

static struct own_desc released_by_us(const gantry_task_desc *desc)
{
    struct own_desc own = {.desc = *desc};
    own.desc.accesses = own.accesses = spoil(desc->accesses, desc->access_count, &own.first_access);
    own.desc.release = release;
    return own;
}

/* `own`: freed.  `task` NULL: it was refused. */
static void submitted(gantry_task *task, const gantry_task_desc *desc, struct own_desc *own_desc)
{
    free(own_desc->accesses);
    if (task == NULL) {
        return;
    }
    pthread_mutex_lock(&lock);
    struct released *own = find(task);
    if (own == NULL) {
        struct released **slot = &slots[(uintptr_t)task / 64 % SLOTS];
        own = calloc(1, sizeof(*own));
        if (own == NULL) {
            abort();
        }
        own->task = task;
        own->next = *slot;
        *slot = own;
    }
    own->release = desc->release;
    own->holds = NULL;
    own->has_ended = false;
    pthread_mutex_unlock(&lock);
    edge_was_submitted(task, desc);
    edge_accesses_declared(task, own_desc->first_access, desc->accesses, desc->access_count);
}

/* The edge is not declared. */
static void hold(gantry_task *task, gantry_task *predecessor)
{
    gantry_status (*add)(gantry_task *);
    edge_find_real(&add, "gantry_task_add_reference");
    pthread_mutex_lock(&lock);
    struct released *before = find(predecessor);
    if (before != NULL && !before->has_ended && before->holds == NULL && add(task) == GANTRY_OK) {
        before->holds = task;
    }
    pthread_mutex_unlock(&lock);
}

/* ---- the functions
 * ------------------------------------------------------------------------------------------- */

typedef gantry_status edge_fn(gantry_task *task, gantry_task *other);

/* `name`: a function that declares one edge between its arguments. */
static gantry_status declare(const char *name, enum edge_kind kind, gantry_task *task,
                             gantry_task *predecessor, bool is_reversed)
{
    edge_fn *real;
    edge_find_real(&real, name);
    const bool is_own = !is_inside;
    const uint64_t number = is_own ? atomic_fetch_add(&edges, 1) : 0;
    const bool is_out = is_own && is_left_out(kind, number);
    gantry_status status = GANTRY_OK;
    if (!is_out) {
        status = is_reversed ? real(predecessor, task) : real(task, predecessor);
    } else {
        hold(task, predecessor);
    }
    if (status == GANTRY_ERR_LATE_DEPENDENCY && is_own &&
        gantry_task_get_state(predecessor) >= GANTRY_TASK_STATE_DONE) {
        edge_has_ended(task, predecessor);
    }
    if (status == GANTRY_OK && is_own) {
        edge_was_declared(kind, number, task, predecessor, is_out);
    }
    return status;
}

gantry_status gantry_task_start_after(gantry_task *task, gantry_task *predecessor)
{
    return declare("gantry_task_start_after", EDGE_PLAIN, task, predecessor, false);
}

gantry_status gantry_task_start_after_done(gantry_task *task, gantry_task *gpu_task)
{
    return declare("gantry_task_start_after_done", EDGE_DONE, task, gpu_task, false);
}

gantry_status gantry_task_finish_before(gantry_task *task, gantry_task *successor)
{
    return declare("gantry_task_finish_before", EDGE_PLAIN, successor, task, true);
}

gantry_status gantry_taskman_submit(gantry_taskman *manager, const gantry_task_desc *desc, gantry_task **out)
{
    gantry_status (*real)(gantry_taskman *, const gantry_task_desc *, gantry_task **);
    gantry_task *task = NULL;
    edge_find_real(&real, "gantry_taskman_submit");
    if (is_inside) {
        return real(manager, desc, out);
    }
    struct own_desc own = released_by_us(desc);
    is_inside = true;
    const gantry_status status = real(manager, &own.desc, &task);
    is_inside = false;
    submitted(status == GANTRY_OK ? task : NULL, desc, &own);
    if (status == GANTRY_OK && out != NULL) {
        *out = task;
    }
    return status;
}

gantry_status gantry_taskman_submit_after(gantry_taskman *manager, const gantry_task_desc *desc,
                                          gantry_task *const *predecessors, size_t count, gantry_task **out)
{
    gantry_status (*real)(gantry_taskman *, const gantry_task_desc *, gantry_task *const *, size_t,
                          gantry_task **);
    const uint64_t first = atomic_fetch_add(&edges, count);
    gantry_task **kept = calloc(count + 1, sizeof(*kept)), *task = NULL;
    size_t left = 0;
    if (kept == NULL) {
        abort();
    }
    for (size_t i = 0; i < count; i++) {
        if (!is_left_out(EDGE_PLAIN, first + i)) {
            kept[left++] = predecessors[i];
        }
    }
    edge_find_real(&real, "gantry_taskman_submit_after");
    struct own_desc own = released_by_us(desc);
    is_inside = true;
    const gantry_status status = real(manager, &own.desc, kept, left, &task);
    is_inside = false;
    free(kept);
    submitted(status == GANTRY_OK ? task : NULL, desc, &own);
    if (task != NULL && out != NULL) {
        *out = task;
    }
    if (status == GANTRY_OK) {
        for (size_t i = 0; i < count; i++) {
            const bool is_out = is_left_out(EDGE_PLAIN, first + i);
            edge_was_declared(EDGE_PLAIN, first + i, task, predecessors[i], is_out);
            if (is_out) {
                hold(task, predecessors[i]);
            }
        }
    }
    return status;
}

/* Chains that end where an edge is left out, one after the other. */
static gantry_status submit_chains(gantry_taskman *manager, const gantry_task_desc *descs, size_t count,
                                   uint64_t first, gantry_task **tasks)
{
    gantry_status (*real)(gantry_taskman *, const gantry_task_desc *, size_t, gantry_task **);
    gantry_status status = GANTRY_OK;
    edge_find_real(&real, "gantry_taskman_submit_chain");
    for (size_t begin = 0, end; begin < count && status == GANTRY_OK; begin = end) {
        end = begin + 1;
        while (end < count && !is_left_out(EDGE_PLAIN, first + end - 1)) {
            end++;
        }
        is_inside = true;
        status = real(manager, descs + begin, end - begin, tasks + begin);
        is_inside = false;
    }
    return status;
}

gantry_status gantry_taskman_submit_chain(gantry_taskman *manager, const gantry_task_desc *descs,
                                          size_t count, gantry_task **out)
{
    const uint64_t first = atomic_fetch_add(&edges, count > 0 ? count - 1 : 0);
    gantry_task **tasks = calloc(count + 1, sizeof(gantry_task *));
    struct own_desc *own = calloc(count + 1, sizeof(*own));
    gantry_task_desc *submits = calloc(count + 1, sizeof(*submits));
    if (tasks == NULL || own == NULL || submits == NULL) {
        abort();
    }
    for (size_t i = 0; i < count; i++) {
        own[i] = released_by_us(&descs[i]);
        submits[i] = own[i].desc;
    }
    const gantry_status status = submit_chains(manager, submits, count, first, tasks);
    for (size_t i = 0; i < count; i++) {
        submitted(status == GANTRY_OK ? tasks[i] : NULL, &descs[i], &own[i]);
    }
    for (size_t i = 0; i < count && status == GANTRY_OK; i++) {
        const bool is_out = i > 0 && is_left_out(EDGE_PLAIN, first + i - 1);
        if (i > 0) {
            edge_was_declared(EDGE_PLAIN, first + i - 1, tasks[i], tasks[i - 1], is_out);
        }
        if (is_out) {
            hold(tasks[i], tasks[i - 1]);
        }
    }
    free(own);
    free(submits);
    if (out != NULL) {
        memcpy(out, tasks, count * sizeof(gantry_task *));
    }
    free(tasks);
    return status;
}

/* The edge between the two is the library's. */
gantry_status gantry_taskman_submit_loop(gantry_taskman *manager, const gantry_loop_options *options,
                                         gantry_loop *out)
{
    gantry_status (*real)(gantry_taskman *, const gantry_loop_options *, gantry_loop *);
    const gantry_task_desc test = {.kind = GANTRY_TASK_KERNEL}, decide = {.kind = GANTRY_TASK_CPU};
    edge_find_real(&real, "gantry_taskman_submit_loop");
    is_inside = true;
    const gantry_status status = real(manager, options, out);
    is_inside = false;
    if (status == GANTRY_OK) {
        edge_was_submitted(out->test, &test);
        edge_was_submitted(out->decide, &decide);
        edge_was_declared(EDGE_OF_LIBRARY, 0, out->decide, out->test, false);
    }
    return status;
}

static gantry_status complete(const char *name, enum edge_kind kind, gantry_launch *launch, gantry_task *task)
{
    gantry_status (*real)(gantry_launch *, gantry_task *);
    edge_find_real(&real, name);
    const uint64_t number = atomic_fetch_add(&completions, 1);
    const bool is_out = is_left_out(kind, number);
    const gantry_status status = is_out ? GANTRY_OK : real(launch, task);
    if (status == GANTRY_OK) {
        edge_was_declared(kind, number, task, gantry_launch_task(launch), is_out);
    }
    return status;
}

gantry_status gantry_launch_add_completion(gantry_launch *launch, gantry_task *task)
{
    return complete("gantry_launch_add_completion", EDGE_COMPLETION, launch, task);
}

gantry_status gantry_launch_add_completion_of_all(gantry_launch *launch, gantry_task *task)
{
    return complete("gantry_launch_add_completion_of_all", EDGE_COMPLETION_OF_ALL, launch, task);
}

gantry_status gantry_task_access(gantry_task *task, const gantry_access *list, size_t count)
{
    gantry_status (*real)(gantry_task *, const gantry_access *, size_t);
    uint64_t first;
    gantry_access *own = spoil(list, count, &first);
    edge_find_real(&real, "gantry_task_access");
    const gantry_status status = real(task, own, count);
    if (status == GANTRY_OK) {
        edge_accesses_declared(task, first, list, count);
    }
    free(own);
    return status;
}
