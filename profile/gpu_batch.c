/* SPDX-License-Identifier: MIT */
#include "profile/gpu_batch.h"

#include "base/alloc.h"
#include "profile/session.h"

void gy_gpu_batches_init(struct gy_gpu_batches *batches)
{
    *batches = (struct gy_gpu_batches){.free = NULL};
    gy_mutex_init(&batches->lock, GY_RANK_LEAF);
}

void gy_gpu_batches_fini(struct gy_gpu_batches *batches)
{
    gy_gpu_batches_end(batches);
    gy_free(batches->all);
    gy_mutex_fini(&batches->lock);
}

static struct gy_gpu_batch *take(struct gy_gpu_batches *batches, uint64_t generation)
{
    gy_mutex_lock(&batches->lock);
    struct gy_gpu_batch *batch = batches->free;
    if (batch != NULL) {
        batches->free = batch->next;
        batch->generation = generation;
        batch->tasks = 0;
    }
    gy_mutex_unlock(&batches->lock);
    return batch;
}

static void give(struct gy_gpu_batches *batches, struct gy_gpu_batch *batch)
{
    gy_mutex_lock(&batches->lock);
    batch->generation = 0;
    batch->next = batches->free;
    batches->free = batch;
    gy_mutex_unlock(&batches->lock);
}

static void make_all(struct gy_gpu_batches *batches)
{
    struct gy_gpu_batch *all = gy_zalloc_array(GY_GPU_BATCHES, sizeof(*all));
    gy_mutex_lock(&batches->lock);
    batches->all = all;
    gy_mutex_unlock(&batches->lock);
    for (uint32_t i = 0; batches->all != NULL && i < GY_GPU_BATCHES; i++) {
        give(batches, &batches->all[i]);
    }
}

void gy_gpu_batches_begin(struct gy_gpu_batches *batches, uint64_t generation, uint64_t number)
{
    gy_gpu_batches_end(batches);
    if (batches->all == NULL) {
        make_all(batches);
    }
    struct gy_gpu_batch *batch = take(batches, generation);
    if (batch == NULL) {
        gy_profile_count_lost(generation, 1);
        return;
    }
    batch->number = number;
    batch->gpu = 0;
    atomic_store_explicit(&batch->held, 1, memory_order_relaxed);
    batches->current = batch;
}

void gy_gpu_batches_end(struct gy_gpu_batches *batches)
{
    struct gy_gpu_batch *batch = batches->current;
    batches->current = NULL;
    gy_gpu_batch_leave(batches, batch);
}

struct gy_gpu_batch *gy_gpu_batches_hold(const struct gy_gpu_batches *batches, uint64_t generation)
{
    struct gy_gpu_batch *batch = batches->current;
    if (batch == NULL || batch->generation != generation) {
        return NULL;
    }
    atomic_fetch_add_explicit(&batch->held, 1, memory_order_relaxed);
    return batch;
}

void gy_gpu_batch_add(struct gy_gpu_batch *batch, uint32_t gpu, uint64_t begin_ns, uint64_t end_ns)
{
    if (batch == NULL) {
        return;
    }
    batch->gpu = gpu;
    batch->begin_ns = batch->tasks == 0 || begin_ns < batch->begin_ns ? begin_ns : batch->begin_ns;
    batch->end_ns = batch->tasks == 0 || end_ns > batch->end_ns ? end_ns : batch->end_ns;
    batch->tasks++;
}

void gy_gpu_batch_rest(struct gy_gpu_batch *batch, bool rests)
{
    if (batch != NULL && rests) {
        atomic_fetch_add(&batch->resting, 1);
    } else if (batch != NULL) {
        atomic_fetch_sub(&batch->resting, 1);
    }
}

/* Who lets go of it last writes its slice before it is free. */
bool gy_gpu_batches_are_awaited(struct gy_gpu_batches *batches, uint64_t generation)
{
    bool any = false;
    gy_mutex_lock(&batches->lock);
    for (uint32_t i = 0; batches->all != NULL && i < GY_GPU_BATCHES && !any; i++) {
        const struct gy_gpu_batch *batch = &batches->all[i];
        const unsigned held = atomic_load(&batch->held);
        any = batch->generation == generation && (held == 0 || held > atomic_load(&batch->resting));
    }
    gy_mutex_unlock(&batches->lock);
    return any;
}

uint32_t gy_gpu_batches_begun(struct gy_gpu_batches *batches, uint64_t generation)
{
    uint32_t used = 0;
    gy_mutex_lock(&batches->lock);
    for (uint32_t i = 0; batches->all != NULL && i < GY_GPU_BATCHES; i++) {
        const struct gy_gpu_batch *batch = &batches->all[i];
        used += batch->generation == generation && batch->tasks != 0;
    }
    gy_mutex_unlock(&batches->lock);
    return used;
}

void gy_gpu_batch_leave(struct gy_gpu_batches *batches, struct gy_gpu_batch *batch)
{
    if (batch == NULL || atomic_fetch_sub_explicit(&batch->held, 1, memory_order_acq_rel) != 1) {
        return;
    }
    if (batch->tasks != 0) { /* else all its tasks were lost, or it had none */
        const struct gy_gpu_slice slice = {.gpu = batch->gpu,
                                           .name = "batch",
                                           .begin_ns = batch->begin_ns,
                                           .end_ns = batch->end_ns,
                                           .id = batch->number,
                                           .tasks = batch->tasks};
        gy_profile_gpu_slice(batch->generation, &slice);
    }
    give(batches, batch);
}
