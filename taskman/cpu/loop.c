/* SPDX-License-Identifier: MIT */
#include "taskman/cpu/loop.h"

#include "base/bandwidth.h"
#include "base/outside.h"
#include "base/proof.h"
#include "taskman/cpu/classes.h"
#include "taskman/cpu/wake.h"

#include <assert.h>

bool gy_loop_is_valid(const struct gy_loop *loop)
{
    size_t count = loop->end - loop->begin;
    return loop->begin < loop->end && loop->grain != 0 && loop->parts == (count - 1) / loop->grain + 1;
}

static bool has_parts(const struct gy_loop *loop)
{
    return atomic_load_explicit(&loop->next_part, memory_order_relaxed) < loop->parts;
}

void gy_loop_work_on(struct gy_loop *loop)
{
    assert(gy_loop_is_valid(loop));
    while (atomic_load_explicit(&loop->status, memory_order_relaxed) == GANTRY_OK) {
        size_t part = atomic_fetch_add_explicit(&loop->next_part, 1, memory_order_relaxed);
        if (part >= loop->parts) {
            return;
        }
        size_t begin = loop->begin + part * loop->grain;
        size_t end = part + 1 == loop->parts ? loop->end : begin + loop->grain;
        const struct gy_inside *inside = gy_outside_begin();
        int32_t status = loop->body(begin, end, loop->arg);
        gy_outside_end_of(inside, "a loop");
        int32_t none = GANTRY_OK;
        if (status != GANTRY_OK) {
            atomic_compare_exchange_strong(&loop->status, &none, status);
        }
    }
}

/* A part has called pthread_exit(): the loop has failed. */
void gy_loop_note_exit(struct gy_loop *loop)
{
    int32_t none = GANTRY_OK;
    atomic_compare_exchange_strong(&loop->status, &none, GANTRY_ERR_STATE);
}

void gy_loop_list(gantry_cpu_dispatcher *pool, struct gy_loop *loop)
{
    assert(gy_loop_is_valid(loop));
    gy_mutex_lock(&pool->inject_lock);
    loop->next = atomic_load_explicit(&pool->shown.loops, memory_order_relaxed);
    atomic_store(&pool->shown.loops, loop);
    assert(gy_pool_is_valid(pool));
    gy_mutex_unlock(&pool->inject_lock);
    gy_pool_notify_work(pool, loop->parts - 1);
}

static bool may_help_locked(gantry_cpu_dispatcher *pool, const struct gy_loop *loop)
    GY_REQUIRES(pool->inject_lock)
{
    const struct gy_class *class = loop->cpu_class != 0 ? &pool->classes[loop->cpu_class - 1] : NULL;
    return has_parts(loop) && (class == NULL || class->running < class->limit);
}

struct helping {
    struct gy_worker *self;
    struct gy_loop *loop;
};

/* Help on the terms of the loop's caller: within its class, and exempt from the bandwidth gate if it is. */
static void start_helping(struct gy_worker *self, const struct gy_loop *loop)
{
    if (__builtin_expect(loop->shared != NULL, 0)) {
        gy_proof()->share_begin(loop->shared);
    }
    if (loop->cpu_class != 0) {
        gy_worker_enter_class(self, loop->cpu_class);
    }
    if (loop->exempt) {
        gy_bandwidth_exempt();
    }
}

/* The loop may be gone afterwards. */
static void stop_helping(struct gy_worker *self, struct gy_loop *loop)
{
    if (__builtin_expect(loop->shared != NULL, 0)) {
        gy_proof()->share_end();
    }
    gantry_cpu_dispatcher *pool = self->pool;
    if (loop->exempt) {
        gy_bandwidth_unexempt();
    }
    if (loop->cpu_class != 0) {
        gy_worker_leave_class(self);
    }
    gy_mutex_lock(&pool->inject_lock);
    assert(loop->helpers != 0);
    bool is_last = --loop->helpers == 0;
    assert(gy_pool_is_valid(pool));
    gy_mutex_unlock(&pool->inject_lock);
    if (is_last) {
        gy_event_notify(&pool->events.done, UINT32_MAX);
    }
}

static void part_exits_in_helper(void *user)
{
    struct helping *helping = user;
    gy_loop_note_exit(helping->loop);
    stop_helping(helping->self, helping->loop);
}

bool gy_worker_help(struct gy_worker *self)
{
    gantry_cpu_dispatcher *pool = self->pool;
    if (self->only_owner != NULL || atomic_load(&pool->shown.loops) == NULL) {
        return false;
    }
    gy_mutex_lock(&pool->inject_lock);
    struct gy_loop *loop = atomic_load_explicit(&pool->shown.loops, memory_order_relaxed);
    while (loop != NULL && !may_help_locked(pool, loop)) {
        loop = loop->next;
    }
    if (loop != NULL) {
        loop->helpers++;
        if (loop->cpu_class != 0) {
            pool->classes[loop->cpu_class - 1].running++;
        }
    }
    assert(gy_pool_is_valid(pool));
    gy_mutex_unlock(&pool->inject_lock);
    if (loop == NULL) {
        return false;
    }
    bool was_looking = self->search != GY_SEARCH_OFF;
    gy_worker_end_looking(self);
    gy_worker_enter(self, GY_WORKER_IN_BODY);
    start_helping(self, loop);
    struct helping helping = {self, loop};
    pthread_cleanup_push(part_exits_in_helper, &helping);
    gy_loop_work_on(loop);
    pthread_cleanup_pop(0);
    stop_helping(self, loop);
    gy_worker_enter(self, GY_WORKER_BETWEEN);
    if (was_looking) {
        gy_worker_begin_looking(self);
    }
    return true;
}
