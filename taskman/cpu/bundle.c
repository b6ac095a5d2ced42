/* SPDX-License-Identifier: MIT */
/* Bundles: tasks that one body makes in quick succession go to the other workers several at a time.
 *
 * The first tasks that a body makes go into its worker's deque one by one, and other workers steal them at
 * once.  A body that goes on making tasks would disturb itself like that: small tasks are stolen as fast as
 * they are made, so with every push the core has to get back the lines of the deque that the thieves have
 * just looked at.  So the worker collects the next tasks, newest first, in its `bundle`, where thieves do not
 * look as long as they find anything else, and pushes them as one item when they are enough.  Whoever takes
 * that item gets all of them, with one compare-and-swap, and pushes them one by one into its own deque.  So a
 * worker runs its tasks in the same order as without bundles, and others can steal them again.
 *
 * What is in `bundle` is as safe as what is in a deque.  A worker that finds nothing at all takes the whole
 * bundle of another one, at the latest in its last look before it sleeps, and the task that makes the bundle
 * non-empty wakes a worker as a task in the deque would.  So a body that has made tasks and then computes for
 * long does not keep them (tests/models/bundle.pml).  It leaves nothing there when it ends.
 *
 * A long list of tasks that the end of one task has made ready is cut into bundles, too.
 *
 * A bundle is closed early when the body is slow: a bundle shall take no longer than GY_BUNDLE_NS, else it is
 * halved the next time. */
#include "taskman/cpu/bundle.h"

#include "base/clock.h"
#include "base/hints.h"
#include "base/point.h"
#include "base/times.h"
#include "taskman/cpu/queues.h"
#include "taskman/cpu/wake.h"

#include <assert.h>

enum {
    FIRST_MOST = 8, /* tasks in a body's first bundle */
    AHEAD = 6,      /* tasks to prefetch ahead of the one that is counted */
};

static inline gantry_task *item_of(gantry_task *first)
{
    return first->next != NULL ? gy_item_of_bundle(first) : first;
}

/* Push the tasks of the bundle, all at once. */
static void publish(struct gy_worker *self)
{
    gantry_task *first = atomic_exchange(&self->bundle, NULL);
    self->filling.count = 0;
    if (first == NULL) {
        return; /* another thread was faster */
    }
    gy_point(GY_POINT_WORKER_BUNDLED, self);
    gantry_task *item = item_of(first);
    if (!gy_deque_push(&self->deque, item)) {
        (void)gy_pool_inject_item(self->pool, item);
    }
    gy_worker_tell_of_task(self);
}

/* The bundle was filled in this time: how large may the next one be? */
static void adapt(struct gy_worker *self)
{
    uint64_t now_ns = gy_clock_ns(), took_ns = now_ns - self->filling.since_ns;
    self->filling.since_ns = now_ns;
    if (took_ns > GY_BUNDLE_NS) {
        self->filling.most = self->filling.most > 1 ? self->filling.most / 2 : 1;
    } else if (took_ns <= GY_BUNDLE_NS / 2 && self->filling.most < GY_BUNDLE_MOST) {
        self->filling.most *= 2;
    }
}

void gy_worker_begin_bundles(struct gy_worker *self)
{
    if (self->filling.made <= GY_BUNDLE_BEHIND) {
        self->filling.made = GY_BUNDLE_BEHIND + 1;
        self->filling.most = FIRST_MOST;
        self->filling.since_ns = gy_clock_ns();
    }
}

void gy_worker_bundle(struct gy_worker *self, gantry_task *task)
{
    assert(gy_worker_is_valid(self));
    gy_worker_begin_bundles(self);
    gantry_task *first = atomic_load_explicit(&self->bundle, memory_order_relaxed);
    task->next = first;
    if (first != NULL && atomic_compare_exchange_strong(&self->bundle, &first, task)) {
        self->filling.count++;
    } else { /* nobody else makes it non-empty */
        task->next = NULL;
        self->filling.count = 1;
        atomic_store(&self->bundle, task);
        gy_worker_tell_of_task(self);
    }
    if (self->filling.count >= self->filling.most) {
        publish(self);
        adapt(self);
    }
}

void gy_worker_end_bundles(struct gy_worker *self)
{
    if (atomic_load_explicit(&self->bundle, memory_order_relaxed) != NULL) {
        publish(self);
    }
    self->filling.made = self->filling.count = 0;
    assert(gy_worker_is_valid(self));
}

/* Cut `size` tasks off the list, which has as many at least. */
static gantry_task *cut(gantry_task **list, size_t size)
{
    gantry_task *first = *list, *last = first;
    for (size_t i = 1; i < size; i++) {
        last = last->next;
    }
    *list = last->next;
    last->next = NULL;
    return item_of(first);
}

/* Bundles are small compared with the list, so that all workers end at about the same time. */
bool gy_worker_push_list(struct gy_worker *self, gantry_task *first, size_t count)
{
    size_t share = count / (2 * (size_t)self->pool->worker_count);
    size_t size = share < GY_BUNDLE_MOST ? share : GY_BUNDLE_MOST;
    gantry_task *items[GY_LIST_MOST / 2];
    assert(count != 0 && count <= GY_LIST_MOST);
    if (size < 2 || self->pool->worker_count == 1) {
        return gy_deque_push_list(&self->deque, first, count);
    }
    size_t number = (count - 1) / size + 1;
    for (size_t i = number; i != 0; i--) {
        items[i - 1] = cut(&first, i == 1 ? count - (number - 1) * size : size);
    }
    if (!gy_deque_push_array(&self->deque, items, number)) {
        for (size_t i = number; i != 0; i--) {
            (void)gy_pool_inject_item(self->pool, items[i - 1]);
        }
    }
    return true;
}

/* How many tasks the list has.  Their lines are in other caches or in none, and each says where the next one
 * is: that is mostly as far away as that one was from the one before, so lines are asked for early. */
static size_t count_ahead(const gantry_task *first)
{
    size_t count = 1;
    for (const gantry_task *task = first, *next; (next = task->next) != NULL; task = next, count++) {
        intptr_t step = (intptr_t)next - (intptr_t)task;
        gy_prefetch_write((const void *)((intptr_t)next + AHEAD * step)); /* NOLINT: perhaps no task */
    }
    return count;
}

gantry_task *gy_worker_open_bundle(struct gy_worker *self, gantry_task *item)
{
    gantry_task *first = gy_item_first(item), *rest = first->next;
    size_t count = count_ahead(first) - 1;
    assert(count >= 1 && count < GY_BUNDLE_MOST);
    gy_point(GY_POINT_WORKER_STOLE, self);
    if (!gy_deque_push_list(&self->deque, rest, count)) {
        (void)gy_pool_inject_item(self->pool, item_of(rest));
    }
    gy_worker_tell_of_task(self); /* a worker may have looked while they were in no queue */
    return first;
}

gantry_task *gy_bundle_seize(struct gy_worker *victim)
{
    if (atomic_load(&victim->bundle) == NULL) {
        return NULL;
    }
    gantry_task *first = atomic_exchange(&victim->bundle, NULL);
    return first != NULL ? item_of(first) : NULL;
}
