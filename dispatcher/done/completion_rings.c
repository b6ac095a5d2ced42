/* SPDX-License-Identifier: MIT */
#include "dispatcher/done/completion_rings.h"

#include "base/alloc.h"

static uint32_t count_rings(const struct gy_completion_config *config, const struct gy_partitions *all)
{
    bool polls = config->wait == GANTRY_WAIT_SPIN || config->wait == GANTRY_WAIT_YIELD;
    return polls || !all->is_planned ? 1 : all->count;
}

gantry_status gy_rings_init(struct gy_completion_rings *r, const struct gy_completion_config *config,
                            const struct gy_partitions *all)
{
    struct gy_completion_config ours = *config;
    uint32_t count = count_rings(config, all);
    *r = (struct gy_completion_rings){.streams = config->streams};
    r->rings = gy_zalloc_array(count, sizeof(*r->rings));
    r->collecting = r->rings != NULL ? gy_zalloc(sizeof(*r->collecting)) : NULL;
    if (r->collecting == NULL) {
        gy_free(r->rings);
        return GY_FAIL(GANTRY_ERR_OUT_OF_HOST_MEMORY, "dispatcher: no memory for %u completion rings", count);
    }
    gy_mutex_init(r->collecting, GY_RANK_COLLECT);
    ours.collecting = r->collecting;
    gantry_status status = GANTRY_OK;
    for (uint32_t i = 0; i < count && status == GANTRY_OK; i++) {
        status = gy_completion_init(&r->rings[i], &ours, count > 1 ? all->partitions[i].info.name : NULL);
        r->count += status == GANTRY_OK;
    }
    if (status != GANTRY_OK) {
        gy_rings_fini(r);
    }
    return status;
}

struct gy_completion_counts gy_rings_counts(const struct gy_completion_rings *r)
{
    struct gy_completion_counts sum = r->gone;
    for (uint32_t i = 0; i < r->count; i++) {
        const struct gy_completion *ring = &r->rings[i];
        sum.looks += atomic_load_explicit(&ring->counters.looks, memory_order_relaxed);
        sum.naps += atomic_load_explicit(&ring->counters.naps, memory_order_relaxed);
        sum.awaited += atomic_load_explicit(&ring->counters.awaited, memory_order_relaxed);
        sum.unseen_ns += atomic_load_explicit(&ring->counters.unseen_ns, memory_order_relaxed);
    }
    return sum;
}

void gy_rings_close(struct gy_completion_rings *r)
{
    for (uint32_t i = 0; i < r->count; i++) {
        gy_completion_fini(&r->rings[i]);
    }
    gy_mutex_fini(r->collecting);
}

void gy_rings_free(struct gy_completion_rings *r)
{
    gy_free(r->collecting);
    gy_free(r->rings);
}

void gy_rings_fini(struct gy_completion_rings *r)
{
    gy_rings_close(r);
    gy_rings_free(r);
}

gantry_status gy_rings_add(struct gy_completion_rings *r, uint32_t stream, gantry_task *task, uint64_t flow)
{
    return gy_completion_add(gy_rings_of(r, stream), stream, task, flow);
}

bool gy_rings_has(struct gy_completion_rings *r, uint32_t stream, const gantry_task *task)
{
    return gy_completion_has(gy_rings_of(r, stream), stream, task);
}

gantry_status gy_rings_watch(struct gy_completion_rings *r, uint32_t stream)
{
    return gy_completion_watch(gy_rings_of(r, stream), stream);
}

uint64_t gy_rings_expect(struct gy_completion_rings *r)
{
    uint64_t first = 0;
    for (uint32_t i = 0; i < r->count; i++) {
        uint64_t soon = gy_completion_expect(&r->rings[i]);
        first = soon != 0 && (first == 0 || soon < first) ? soon : first;
    }
    return first;
}

bool gy_rings_next_end(struct gy_completion_rings *r, const gantry_taskman *manager, bool will_look,
                       struct gy_lookout *out)
{
    bool any = false;
    for (uint32_t i = 0; i < r->count; i++) {
        struct gy_lookout one;
        if (gy_completion_next_end(&r->rings[i], manager, will_look, &one) &&
            (!any || one.from_ns < out->from_ns)) {
            *out = one;
            any = true;
        }
    }
    return any;
}

bool gy_rings_is_full(struct gy_completion_rings *r, uint32_t stream)
{
    return gy_completion_is_full(gy_rings_of(r, stream));
}

bool gy_rings_is_pending(const struct gy_completion_rings *r)
{
    bool any = false;
    for (uint32_t i = 0; i < r->count; i++) {
        any = any || gy_completion_is_pending(&r->rings[i]);
    }
    return any;
}

bool gy_rings_is_pending_beside(struct gy_completion_rings *r, uint32_t stream)
{
    return gy_completion_is_pending(gy_rings_of(r, stream));
}

gantry_status gy_rings_flush_of(struct gy_completion_rings *r, uint32_t stream)
{
    return gy_completion_flush(gy_rings_of(r, stream));
}

gantry_status gy_rings_flush(struct gy_completion_rings *r)
{
    gantry_status status = GANTRY_OK;
    for (uint32_t i = 0; i < r->count; i++) { /* those behind a failure, too: their tasks are failed */
        gantry_status one = gy_completion_flush(&r->rings[i]);
        status = status == GANTRY_OK ? one : status;
    }
    return status;
}
