/* SPDX-License-Identifier: MIT */
/* gantry_parallel_for(): a loop whose caller works on it, with idle workers joining in.
 *
 * The loop lives on its caller's stack and is listed in the pool while it lasts.  A worker that finds it
 * counts itself in under the lock, works through parts until none is left, and counts itself out.  The caller
 * takes the loop off the list when no part is left and waits for those still inside: they only run parts, so
 * the wait ends, also when parts have loops of their own. */
#include "base/bandwidth.h"
#include "base/handle.h"
#include "base/proof.h"
#include "taskman/cpu/loop.h"
#include "taskman/cpu/wait.h"

#include <assert.h>

struct joining {
    gantry_cpu_dispatcher *pool;
    struct gy_loop *loop;
};

static bool nobody_helps(void *user, bool thorough)
{
    (void)thorough;
    struct joining *joining = user;
    gy_mutex_lock(&joining->pool->inject_lock);
    bool nobody = joining->loop->helpers == 0;
    assert(gy_pool_is_valid(joining->pool));
    gy_mutex_unlock(&joining->pool->inject_lock);
    return nobody;
}

static void unlist_loop(struct joining *joining)
{
    gantry_cpu_dispatcher *pool = joining->pool;
    struct gy_loop *loop = joining->loop;
    gy_mutex_lock(&pool->inject_lock);
    struct gy_loop *before = atomic_load_explicit(&pool->shown.loops, memory_order_relaxed);
    if (before == loop) {
        atomic_store(&pool->shown.loops, loop->next);
    } else {
        while (before->next != loop) {
            before = before->next;
        }
        before->next = loop->next;
    }
    assert(gy_pool_is_valid(pool));
    gy_mutex_unlock(&pool->inject_lock);
    if (!nobody_helps(joining, true)) {
        gy_pool_wait(pool, &(struct gy_wait){.condition = nobody_helps, .user = joining});
    }
}

/* The loop goes with its caller's frame, so helpers must have left it. */
static void part_exits(void *joining)
{
    if (joining != NULL) {
        gy_loop_note_exit(((struct joining *)joining)->loop);
        unlist_loop(joining);
    }
}

gantry_status gantry_parallel_for(gantry_cpu_dispatcher *dispatcher, size_t begin, size_t end, size_t grain,
                                  gantry_range_fn body, void *arg)
{
    GY_ACCEPT(CPU_DISPATCHER, dispatcher);
    if (dispatcher == NULL || body == NULL || begin > end) {
        return GY_FAIL(GANTRY_ERR_INVALID_ARGUMENT,
                       "parallel for: dispatcher or body is NULL, or begin after end");
    }
    if (begin == end) {
        return GANTRY_OK;
    }
    struct gy_loop loop = {.body = body,
                           .arg = arg,
                           .begin = begin,
                           .end = end,
                           .grain = grain,
                           .cpu_class = gy_worker_is_of(dispatcher) ? gy_worker_current->cpus.cpu_class : 0,
                           .shared = gy_proof() != NULL ? gy_proof()->share() : NULL,
                           .exempt = gy_bandwidth_is_exempt()};
    size_t count = end - begin;
    if (grain == 0) {
        loop.grain = count / (8 * ((size_t)dispatcher->worker_count + 1)) + 1;
    }
    loop.parts = count / loop.grain + (count % loop.grain != 0);
    bool is_shared = loop.parts > 1 && dispatcher->workers != NULL && dispatcher->worker_count != 0;
    if (is_shared) {
        gy_loop_list(dispatcher, &loop);
    }
    struct joining joining = {dispatcher, &loop};
    pthread_cleanup_push(part_exits, is_shared ? &joining : NULL);
    gy_loop_work_on(&loop);
    pthread_cleanup_pop(0);
    if (is_shared) {
        unlist_loop(&joining);
    }
    gantry_status status = (gantry_status)atomic_load(&loop.status);
    if (status != GANTRY_OK) {
        return GY_FAIL(status, "parallel for: a part returned %s", gantry_status_name(status));
    }
    return GANTRY_OK;
}
