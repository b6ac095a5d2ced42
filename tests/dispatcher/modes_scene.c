/* SPDX-License-Identifier: MIT */
#include "tests/dispatcher/modes_scene.h"

#include "context/context.h"
#include "tests/support/cmocka_c11.h"

#include <stdatomic.h>
#include <string.h>

gantry_context_options modes_options(void)
{
    gantry_context_options options = GANTRY_CONTEXT_OPTIONS_INIT;
    options.driver = gpu_fixture_driver();
    return options;
}

void modes_open(struct modes_scene *s, const gantry_context_options *options)
{
    memset(s, 0, sizeof(*s));
    gpu_fixture_open_with(&s->gpu, 1, options);
    stamps_open(&s->stamps, s->gpu.context, WORDS * sizeof(uint32_t));
    gantry_heap *heap = gantry_context_heap(s->gpu.context);
    assert_ok(gantry_heap_alloc(heap, GANTRY_MEMORY_DEVICE, WORDS * sizeof(uint32_t), 0,
                                GANTRY_ALLOC_SITE("device"), &s->device));
}

void modes_close(struct modes_scene *s)
{
    if (gantry_context_is_valid(s->gpu.context)) { /* not every task here has a completion */
        assert_ok(gantry_context_acquire(s->gpu.context));
        assert_int_equal(s->gpu.context->cuda->driver->cuCtxSynchronize(), CUDA_SUCCESS);
        assert_ok(gantry_context_release(s->gpu.context));
    }
    stamps_close(&s->stamps);
    assert_ok(gantry_heap_free(gantry_context_heap(s->gpu.context), s->device));
    gpu_fixture_close(&s->gpu);
}

bool modes_stamp(gantry_launch *launch, const struct modes_job *job)
{
    uint32_t begin = 1 + 2 * job->index;
    return stamps_launch(&job->scene->stamps, launch, begin, begin + 1, job->spins) == GANTRY_OK;
}

bool modes_complete(gantry_launch *launch, const struct modes_job *job)
{
    return job->completes == NULL || gantry_launch_add_completion(launch, job->completes) == GANTRY_OK;
}

gantry_launch_result modes_launch(gantry_launch *launch, void *arg)
{
    struct modes_job *job = arg;
    job->calls++;
    if (job->sync_point && gantry_launch_request_sync_point(launch) != GANTRY_OK) {
        return GANTRY_LAUNCH_FAILED;
    }
    return modes_stamp(launch, job) && modes_complete(launch, job) ? GANTRY_LAUNCH_DONE
                                                                   : GANTRY_LAUNCH_FAILED;
}

gantry_status modes_count_run(gantry_task *task, void *arg)
{
    (void)task;
    atomic_fetch_add((_Atomic(uint32_t) *)arg, 1);
    return GANTRY_OK;
}

uint32_t modes_begin_of(const struct modes_scene *s, uint32_t index)
{
    return s->stamps.cells[1 + 2 * index];
}

uint32_t modes_end_of(const struct modes_scene *s, uint32_t index)
{
    return s->stamps.cells[2 + 2 * index];
}

/* Run a step of `count` jobs in a row (each after the one before), which ends with a completion. */
gantry_status modes_run_chain(struct modes_scene *s, gantry_launch_fn launch, struct modes_job *jobs,
                              uint32_t count)
{
    _Atomic(uint32_t) ran = 0;
    gantry_task *done = gpu_fixture_cpu(&s->gpu, "done", modes_count_run, &ran);
    gantry_task *before = NULL;
    for (uint32_t i = 0; i < count; i++) {
        jobs[i].scene = s;
        jobs[i].index = i;
        jobs[i].completes = i + 1 == count ? done : NULL;
        gantry_task *task = gpu_fixture_gpu(&s->gpu, GANTRY_TASK_KERNEL, "link", launch, &jobs[i]);
        if (before != NULL) {
            gpu_fixture_after(task, before);
        }
        before = task;
    }
    gpu_fixture_after(done, before);
    gantry_status status = gpu_fixture_step(&s->gpu);
    assert_int_equal(ran, status == GANTRY_OK);
    return status;
}
