#include "dispatcher/intake.h"

#include "dispatcher/release.h"
#include "dispatcher/ways/regions.h"

static enum gd_phase phase_of(const gantry_task *task)
{
    _Static_assert(GANTRY_TASK_KERNEL - GANTRY_TASK_HTOD == GD_KERNEL &&
                       GANTRY_TASK_DTOH - GANTRY_TASK_HTOD == GD_DTOH,
                   "phases come in the order of the kinds");
    return (enum gd_phase)(gy_task_kind(task) - GANTRY_TASK_HTOD);
}

/* Path of a task, step 5 of 8: a ready task gets a stream and a bin. */
static GY_INLINE void place(struct gantry_dispatcher *d, struct gy_round *round, gantry_task *task)
{
    struct gy_task_gpu *gpu = gy_task_gpu(task);
    if (__builtin_expect(gy_context_is_lost(d->config.context), 0)) {
        gy_gd_release_failed(d, task, gy_context_adopt_loss(d->config.context));
        return;
    }
    struct gy_gpu_memory *memory = gy_task_memory(task);
    if (memory != NULL && gy_task_may_begin(task) && /* else it needs none */
        !gy_admission_enter(&d->admission, task, memory)) {
        return;
    }
    uint32_t stream;
    uint64_t trail = atomic_load_explicit(&gpu->trail, memory_order_acquire);
    gantry_status status = gy_streams_assign(&d->streams, trail, gy_gd_partition_index(d, task), &stream);
    if (status != GANTRY_OK) {
        gy_gd_release_failed(d, task, status);
        return;
    }
    gy_task_prefetch_self(task);
    gpu->stream = (uint16_t)(stream + 1);
    gpu->launch_index = 0;
    gy_gpu_list_append(&round->bins.of[phase_of(task)], task, task);
}

void gy_gd_place(struct gantry_dispatcher *d, struct gy_round *round, gantry_task *task)
{
    place(d, round, task);
}

static GY_INLINE void take_in(struct gantry_dispatcher *d, struct gy_round *round, gantry_task *task)
{
    if (__builtin_expect(!gy_task_is_gpu(task), 0)) { /* a sync point, see gy_task_is_awaited() */
        gy_task_release_owing(task, GANTRY_OK, &d->debt);
    } else if (!gy_replay_take(d, round, task)) {
        place(d, round, task);
    }
}

void gy_gd_return_streams_if_due(struct gantry_dispatcher *d)
{
    if (atomic_load_explicit(&d->streams_due, memory_order_relaxed) &&
        atomic_exchange(&d->streams_due, false)) {
        gy_streams_return_all(&d->streams);
    }
}

static inline gantry_task *pop(struct gy_gpu_list *list)
{
    gantry_task *task = list->first;
    if (task != NULL) {
        list->first = gy_task_gpu(task)->next;
        list->last = list->first != NULL ? list->last : NULL;
    }
    return task;
}

/* Tasks that waited for memory: bin those that have it now, fail those that will never have it. */
static GY_RARE void poll_admission(struct gantry_dispatcher *d, struct gy_round *round)
{
    gy_admission_poll(&d->admission);
    gantry_task *task;
    while ((task = pop(&d->admission.refused)) != NULL) {
        gy_gd_release_failed(d, task, gy_admission_fail(&d->admission, gy_task_memory(task)));
    }
    while ((task = pop(&d->admission.ready)) != NULL) {
        take_in(d, round, task);
    }
}

/* Take everything submitted since the last poll, here or elsewhere, into the bins.  Releasing a failed task
 * may submit more, so go on until nothing comes. */
void gy_gd_poll(struct gantry_dispatcher *d, struct gy_round *round)
{
    for (;;) {
        for (gantry_task *task; (task = pop(&d->local)) != NULL;) {
            take_in(d, round, task);
        }
        if (!gy_inbox_is_empty(&d->inbox)) {
            (void)gy_inbox_take(&d->inbox, &d->local);
        }
        gy_gd_return_streams_if_due(d);
        if (d->local.first == NULL && gy_admission_is_busy(&d->admission)) {
            poll_admission(d, round);
        }
        if (d->local.first == NULL) {
            return;
        }
    }
}
