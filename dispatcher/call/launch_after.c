/* SPDX-License-Identifier: MIT */
/* The things that a launch callback may ask to be done when the GPU has passed its work: completions and
 * frees; and the blocks that it takes from those that others have freed so. */
#include "base/handle.h"
#include "base/proof.h"
#include "dispatcher/call/again.h"
#include "dispatcher/call/capture.h"
#include "dispatcher/call/launch.h"
#include "dispatcher/submit/replay_units.h"

/* Let `task` keep one more reference until the GPU has passed the work on `stream`. */
static gantry_status add_completion(gantry_launch *launch, uint32_t stream, gantry_task *task)
{
    struct gantry_dispatcher *d = launch->dispatcher;
    if (gy_again_has_completion(d, stream, task)) {
        return GANTRY_OK;
    }
    gantry_status status = gantry_task_add_reference(task);
    if (status != GANTRY_OK) {
        return status;
    }
    if (gy_mode_is_noted(launch) && gy_rings_is_full(&d->completion, stream)) {
        /* The completion will be flushed, which needs events behind the graph. */
        status = gy_capture_leave(launch);
        if (status != GANTRY_OK) {
            (void)gantry_task_remove_reference(task);
            return status;
        }
    }
    gy_again_before_count(launch);
    status = gy_rings_add(&d->completion, stream, task, launch->flow);
    if (status == GANTRY_OK) {
        gy_gd_count(&d->counters.completions, 1);
        gy_units_note_completion(launch, task);
    }
    if (status != GANTRY_OK) {
        (void)gantry_task_remove_reference(task);
    }
    return status;
}

gantry_status gantry_launch_add_completion(gantry_launch *launch, gantry_task *task)
{
    GY_ACCEPT(LAUNCH, launch);
    GY_ACCEPT(TASK, task);
    gantry_status status = gy_launch_check_scope(launch, "gantry_launch_add_completion");
    if (gy_proof() != NULL) {
        gy_proof()->completes(task, false);
    }
    return status == GANTRY_OK ? add_completion(launch, launch->stream_index, task) : status;
}

/* Is there work on the stream of which the host has not seen the end? */
static bool is_busy(const struct gy_stream *stream)
{
    return stream->running != 0 ||
           atomic_load_explicit(&stream->completed, memory_order_relaxed) < stream->tail;
}

gantry_status gantry_launch_add_completion_of_all(gantry_launch *launch, gantry_task *task)
{
    GY_ACCEPT(LAUNCH, launch);
    GY_ACCEPT(TASK, task);
    gantry_status status = gy_launch_check_scope(launch, "gantry_launch_add_completion_of_all");
    if (status != GANTRY_OK) {
        return status;
    }
    struct gantry_dispatcher *d = launch->dispatcher;
    gy_units_forbid(launch, "it completes a task behind all work of the dispatcher");
    if (gy_proof() != NULL) {
        gy_proof()->completes(task, true);
    }
    status = gy_capture_leave_ahead(launch); /* the batch is part of that */
    /* The task's own stream comes first: with that reference, no later completion fails. */
    status = status == GANTRY_OK ? add_completion(launch, launch->stream_index, task) : status;
    for (uint32_t i = 0; i < d->streams.count && status == GANTRY_OK; i++) {
        if (i != launch->stream_index && is_busy(&d->streams.streams[i])) {
            status = add_completion(launch, i, task);
        }
    }
    return status;
}

gantry_status gantry_free_after(void *pointer, gantry_launch *launch)
{
    GY_ACCEPT(LAUNCH, launch);
    gantry_status status = gy_launch_check_giving(launch, "gantry_free_after");
    if (status != GANTRY_OK || pointer == NULL) {
        return status;
    }
    struct gantry_dispatcher *d = launch->dispatcher;
    gy_units_forbid(launch, "it frees memory");
    /* Work that is enqueued so far comes before the next timeline point, whichever task closes it. */
    uint64_t point = d->streams.streams[launch->stream_index].tail + 1;
    if (launch->frees.begin == launch->frees.end ||
        !gy_deferred_again(&d->deferred, launch->stream_index, &launch->frees, pointer)) {
        status = gy_deferred_add(&d->deferred, launch->stream_index, point, pointer);
    }
    return status;
}

gantry_status gantry_launch_alloc(gantry_launch *launch, gantry_memory_kind kind, size_t bytes,
                                  size_t alignment, gantry_alloc_site site, void **out)
{
    GY_ACCEPT(LAUNCH, launch);
    gantry_status status = gy_launch_check_scope(launch, "gantry_launch_alloc");
    if (status != GANTRY_OK) {
        return status;
    }
    struct gantry_dispatcher *d = launch->dispatcher;
    gy_units_forbid(launch, "it allocates memory");
    bool plain = out != NULL && bytes != 0 && (alignment & (alignment - 1)) == 0;
    bool taken = plain && gy_deferred_take(&d->deferred, launch->stream_index, &launch->frees, kind, bytes,
                                           alignment, &site, out);
    if (taken) {
        if (gy_proof() != NULL) {
            gy_proof()->allocated(*out, bytes, site, kind == GANTRY_MEMORY_DEVICE);
        }
        return GANTRY_OK;
    }
    return gantry_heap_alloc(d->config.heap, kind, bytes, alignment, site, out);
}
