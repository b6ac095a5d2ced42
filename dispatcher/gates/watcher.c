#include "dispatcher/gates/watcher.h"

#include "base/alloc.h"
#include "base/clock.h"

static void tell(struct gy_watcher *w)
{
    if (gy_utilisation_admits(w->use)) {
        gy_inbox_signal(w->inbox);
    }
}

void gy_watcher_tick(struct gy_watcher *w)
{
    gy_utilisation_tick(w->use);
    tell(w);
}

static void watch(void *arg)
{
    struct gy_watcher *w = arg;
    uint64_t next = gy_clock_ns() + GY_UTILISATION_TICK_NS;
    gy_mutex_lock(&w->lock);
    while (!w->closing) {
        if (gy_clock_ns() < next) {
            gy_cond_wait_until(&w->wake, &w->lock, next);
            continue;
        }
        next += GY_UTILISATION_TICK_NS;
        gy_mutex_unlock(&w->lock);
        gy_utilisation_tick_if_due(w->use, gy_clock_ns());
        tell(w);
        gy_mutex_lock(&w->lock);
    }
    gy_mutex_unlock(&w->lock);
}

gantry_status gy_watcher_create(const struct gy_context *context, int limit, struct gy_inbox *inbox,
                                bool with_thread, struct gy_watcher **out)
{
    struct gy_watcher *w = gy_zalloc(sizeof(*w));
    if (w == NULL) {
        return GY_FAIL(GANTRY_ERR_OUT_OF_HOST_MEMORY, "no memory for a watcher");
    }
    w->inbox = inbox;
    gantry_status status = gy_utilisation_join(context, limit, &w->use);
    if (status != GANTRY_OK) {
        goto free_watcher;
    }
    gy_mutex_init(&w->lock, GY_RANK_LEAF);
    status = gy_cond_init(&w->wake);
    if (status != GANTRY_OK) {
        goto fini_lock;
    }
    w->has_thread = with_thread;
    status = with_thread ? gy_thread_start(&w->thread, "GQ", watch, w) : GANTRY_OK;
    if (status != GANTRY_OK) {
        goto fini_wake;
    }
    *out = w;
    return GANTRY_OK;
fini_wake:
    gy_cond_fini(&w->wake);
fini_lock:
    gy_mutex_fini(&w->lock);
    gy_utilisation_leave(w->use);
free_watcher:
    gy_free(w);
    return status;
}

void gy_watcher_destroy(struct gy_watcher *w)
{
    if (w == NULL) {
        return;
    }
    if (w->has_thread) {
        gy_mutex_lock(&w->lock);
        w->closing = true;
        gy_cond_signal(&w->wake);
        gy_mutex_unlock(&w->lock);
        gy_thread_join(&w->thread);
    }
    gy_cond_fini(&w->wake);
    gy_mutex_fini(&w->lock);
    gy_utilisation_leave(w->use);
    gy_free(w);
}

void gy_watcher_unhold(struct gy_watcher *w, struct gy_bins *bins, bool all)
{
    if (w->held.first == NULL || (!all && !gy_utilisation_admits(w->use))) {
        return;
    }
    gy_bins_prepend(bins, GD_KERNEL, w->held);
    w->held = (struct gy_gpu_list){NULL, NULL};
}
