/* gantry_parallel_for(): a loop whose caller works on it, with idle workers joining in.
 *
 * The loop lives on its caller's stack and is listed in the pool while it lasts.  A worker that finds it
 * counts itself in under the lock, works through parts until none is left, and counts itself out.  The caller
 * takes the loop off the list when no part is left and waits for those still inside: they only run parts, so
 * the wait ends, also when parts have loops of their own. */
#include "taskman/cpu/worker.h"

#include "base/bandwidth.h"
#include "base/handle.h"
#include "base/status.h"

struct gy_loop {
    struct gy_loop *next; /* guarded by the pool's inject_lock */
    gantry_range_fn body;
    void *arg;
    size_t begin, end, grain, parts;
    uint32_t cpu_class;        /* its caller's, whose limit holds for helpers too; 0: none */
    bool exempt;               /* its caller is not held back by the bandwidth gate; nor are helpers */
    uint32_t helpers;          /* guarded by the pool's inject_lock */
    _Atomic(size_t) next_part; /* atomic */
    _Atomic(int32_t) status;   /* atomic; the first failure */
};

static bool has_parts(const struct gy_loop *loop)
{
    return atomic_load_explicit(&loop->next_part, memory_order_relaxed) < loop->parts;
}

static void work_on(struct gy_loop *loop)
{
    while (atomic_load_explicit(&loop->status, memory_order_relaxed) == GANTRY_OK) {
        size_t part = atomic_fetch_add_explicit(&loop->next_part, 1, memory_order_relaxed);
        if (part >= loop->parts) {
            return;
        }
        size_t begin = loop->begin + part * loop->grain;
        size_t end = part + 1 == loop->parts ? loop->end : begin + loop->grain;
        int32_t status = loop->body(begin, end, loop->arg);
        int32_t none = GANTRY_OK;
        if (status != GANTRY_OK) {
            atomic_compare_exchange_strong(&loop->status, &none, status);
        }
    }
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

/* As the caller would: within its class, and as little held back. */
static void start_helping(struct gy_worker *self, const struct gy_loop *loop)
{
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
    gantry_cpu_dispatcher *pool = self->pool;
    if (loop->exempt) {
        gy_bandwidth_unexempt();
    }
    if (loop->cpu_class != 0) {
        gy_worker_leave_class(self);
    }
    gy_mutex_lock(&pool->inject_lock);
    bool is_last = --loop->helpers == 0;
    gy_mutex_unlock(&pool->inject_lock);
    if (is_last) {
        gy_event_notify(&pool->done, UINT32_MAX);
    }
}

/* A part has called pthread_exit(): the loop has failed. */
static void note_exit(struct gy_loop *loop)
{
    int32_t none = GANTRY_OK;
    atomic_compare_exchange_strong(&loop->status, &none, GANTRY_ERR_STATE);
}

static void part_exits_in_helper(void *user)
{
    struct helping *helping = user;
    note_exit(helping->loop);
    stop_helping(helping->self, helping->loop);
}

bool gy_worker_help(struct gy_worker *self)
{
    gantry_cpu_dispatcher *pool = self->pool;
    if (self->only != NULL || atomic_load(&pool->loops) == NULL) {
        return false;
    }
    gy_mutex_lock(&pool->inject_lock);
    struct gy_loop *loop = atomic_load_explicit(&pool->loops, memory_order_relaxed);
    while (loop != NULL && !may_help_locked(pool, loop)) {
        loop = loop->next;
    }
    if (loop != NULL) {
        loop->helpers++;
        if (loop->cpu_class != 0) {
            pool->classes[loop->cpu_class - 1].running++;
        }
    }
    gy_mutex_unlock(&pool->inject_lock);
    if (loop == NULL) {
        return false;
    }
    self->activity = GY_IN_BODY;
    start_helping(self, loop);
    struct helping helping = {self, loop};
    pthread_cleanup_push(part_exits_in_helper, &helping);
    work_on(loop);
    pthread_cleanup_pop(0);
    stop_helping(self, loop);
    self->activity = GY_LOOKING;
    return true;
}

static void list_loop(gantry_cpu_dispatcher *pool, struct gy_loop *loop)
{
    gy_mutex_lock(&pool->inject_lock);
    loop->next = atomic_load_explicit(&pool->loops, memory_order_relaxed);
    atomic_store(&pool->loops, loop);
    gy_mutex_unlock(&pool->inject_lock);
    gy_pool_notify_work(pool, loop->parts - 1);
}

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
    gy_mutex_unlock(&joining->pool->inject_lock);
    return nobody;
}

static void unlist_loop(struct joining *joining)
{
    gantry_cpu_dispatcher *pool = joining->pool;
    struct gy_loop *loop = joining->loop;
    gy_mutex_lock(&pool->inject_lock);
    struct gy_loop *before = atomic_load_explicit(&pool->loops, memory_order_relaxed);
    if (before == loop) {
        atomic_store(&pool->loops, loop->next);
    } else {
        while (before->next != loop) {
            before = before->next;
        }
        before->next = loop->next;
    }
    gy_mutex_unlock(&pool->inject_lock);
    if (!nobody_helps(joining, true)) {
        gy_pool_wait(pool, &(struct gy_wait){.condition = nobody_helps, .user = joining});
    }
}

/* The loop goes with its caller's frame, so helpers must have left it. */
static void part_exits(void *joining)
{
    if (joining != NULL) {
        note_exit(((struct joining *)joining)->loop);
        unlist_loop(joining);
    }
}

gantry_status gantry_parallel_for(gantry_cpu_dispatcher *dispatcher, size_t begin, size_t end, size_t grain,
                                  gantry_range_fn body, void *arg)
{
    if (GY_HANDLE_IS_BAD(CPU_DISPATCHER, dispatcher)) {
        return GANTRY_ERR_INVALID_ARGUMENT;
    }
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
                           .cpu_class = gy_worker_is_of(dispatcher) ? gy_worker_current->cpu_class : 0,
                           .exempt = gy_bandwidth_is_exempt()};
    size_t count = end - begin;
    if (grain == 0) {
        loop.grain = count / (8 * ((size_t)dispatcher->worker_count + 1)) + 1;
    }
    loop.parts = count / loop.grain + (count % loop.grain != 0);
    bool is_shared = loop.parts > 1 && dispatcher->workers != NULL && dispatcher->worker_count != 0;
    if (is_shared) {
        list_loop(dispatcher, &loop);
    }
    struct joining joining = {dispatcher, &loop};
    pthread_cleanup_push(part_exits, is_shared ? &joining : NULL);
    work_on(&loop);
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
