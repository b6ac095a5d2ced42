/* SPDX-License-Identifier: MIT */
/* A step: each of the 8 pipelines copies 64 KiB to the device, launches its kernels, copies 64 KiB back, and
 * asks for a completion, which starts a CPU task.  By hand: the same calls on 8 streams, and an event on
 * each, for which the thread waits, spinning; then it calls the same function.  Both until all of these were
 * called. */
#include "bench/submit_copies.h"

#include <stdatomic.h>
#include <stdlib.h>
#include <string.h>

enum { COPY_BYTES = 64 << 10 };

struct copies {
    struct submit_work *work;
    struct pipe {
        struct copies *all;
        uint32_t *in, *out; /* page-locked */
        void *device;
        gantry_task *done;
    } pipes[PIPELINES];
    uint32_t number;       /* of the run: what is copied */
    _Atomic(uint32_t) ran; /* completions of the run */
};

/* ---- ours -------------------------------------------------------------------------------------- */

static gantry_launch_result launch_in(gantry_launch *launch, void *arg)
{
    const struct pipe *pipe = arg;
    return gantry_launch_copy_htod(launch, pipe->device, pipe->in, COPY_BYTES) == GANTRY_OK
               ? GANTRY_LAUNCH_DONE
               : GANTRY_LAUNCH_FAILED;
}

static gantry_launch_result launch_out(gantry_launch *launch, void *arg)
{
    const struct pipe *pipe = arg;
    return gantry_launch_copy_dtoh(launch, pipe->out, pipe->device, COPY_BYTES) == GANTRY_OK &&
                   gantry_launch_add_completion(launch, pipe->done) == GANTRY_OK
               ? GANTRY_LAUNCH_DONE
               : GANTRY_LAUNCH_FAILED;
}

static gantry_status note_end(gantry_task *task, void *arg)
{
    (void)task;
    atomic_fetch_add(&((struct pipe *)arg)->all->ran, 1);
    return GANTRY_OK;
}

static bool submit(struct pipe *pipe, gantry_task_kind kind, gantry_launch_fn launch, gantry_task **out)
{
    gantry_task_desc desc = GANTRY_TASK_DESC_INIT;
    desc.kind = kind;
    desc.launch = launch;
    desc.run = launch == NULL ? note_end : NULL;
    desc.arg = pipe;
    return bench_submit_ok(gantry_taskman_submit(pipe->all->work->manager, &desc, out));
}

/* The tasks around the kernels of a pipeline, of which these are the first and the last. */
static bool surround(struct pipe *pipe, gantry_task *first, gantry_task *last)
{
    gantry_task *in, *out;
    return submit(pipe, GANTRY_TASK_CPU, NULL, &pipe->done) &&
           submit(pipe, GANTRY_TASK_HTOD, launch_in, &in) &&
           submit(pipe, GANTRY_TASK_DTOH, launch_out, &out) &&
           bench_submit_ok(gantry_task_start_after(first, in)) &&
           bench_submit_ok(gantry_task_start_after(out, last)) &&
           bench_submit_ok(gantry_task_start_after(pipe->done, out));
}

/* Other numbers are copied than in the run before. */
static void change(struct copies *c)
{
    c->number++;
    atomic_store(&c->ran, 0);
    for (uint32_t p = 0; p < PIPELINES; p++) {
        c->pipes[p].in[0] = c->pipes[p].in[COPY_BYTES / 4 - 1] = c->number * PIPELINES + p;
    }
}

static bool prepare_ours(void *arg)
{
    struct copies *c = arg;
    struct submit_work *work = c->work;
    work->turn++;
    change(c);
    bool good = bench_submit_ok(gantry_taskman_reset(work->manager)) && bench_submit_build(work);
    for (uint32_t p = 0; p < PIPELINES && good; p++) {
        const uint32_t last = (work->kernels - 1 - p) / PIPELINES * PIPELINES + p;
        good = surround(&c->pipes[p], work->tasks[p], work->tasks[last]);
    }
    return good;
}

static bool run_ours(void *arg)
{
    return bench_submit_run(((struct copies *)arg)->work);
}

/* ---- by hand ----------------------------------------------------------------------------------- */

static bool prepare_hand(void *arg)
{
    change(arg);
    return true;
}

static bool run_hand(void *arg)
{
    struct copies *c = arg;
    struct submit_work *work = c->work;
    struct raw_cuda *cuda = &work->cuda;
    bool good = true;
    for (uint32_t p = 0; p < PIPELINES && good; p++) {
        good = RAW(cuda, cuMemcpyHtoDAsync((CUdeviceptr)(uintptr_t)c->pipes[p].device, c->pipes[p].in,
                                           COPY_BYTES, work->streams[p]));
    }
    good = good && bench_submit_by_hand(work);
    for (uint32_t p = 0; p < PIPELINES && good; p++) {
        good = RAW(cuda, cuMemcpyDtoHAsync(c->pipes[p].out, (CUdeviceptr)(uintptr_t)c->pipes[p].device,
                                           COPY_BYTES, work->streams[p])) &&
               RAW(cuda, cuEventRecord(work->events[p], work->streams[p]));
    }
    for (uint32_t p = 0; p < PIPELINES && good; p++) {
        good = RAW(cuda, cuEventSynchronize(work->events[p])) && note_end(NULL, &c->pipes[p]) == GANTRY_OK;
    }
    return good;
}

/* ---- the row ----------------------------------------------------------------------------------- */

static bool verify(void *arg)
{
    struct copies *c = arg;
    bool right = bench_submit_check(c->work) && atomic_load(&c->ran) == PIPELINES;
    for (uint32_t p = 0; p < PIPELINES && c->work->executes; p++) {
        const uint32_t number = c->number * PIPELINES + p;
        right = right && c->pipes[p].out[0] == number && c->pipes[p].out[COPY_BYTES / 4 - 1] == number;
    }
    return right;
}

static bool make(struct copies *c)
{
    gantry_heap *heap = gantry_context_heap(c->work->context);
    const gantry_alloc_site site = GANTRY_ALLOC_SITE("bench submit");
    bool good = true;
    for (uint32_t p = 0; p < PIPELINES && good; p++) {
        struct pipe *pipe = &c->pipes[p];
        pipe->all = c;
        good = bench_submit_ok(
                   gantry_heap_alloc(heap, GANTRY_MEMORY_PINNED, COPY_BYTES, 0, site, (void **)&pipe->in)) &&
               bench_submit_ok(
                   gantry_heap_alloc(heap, GANTRY_MEMORY_PINNED, COPY_BYTES, 0, site, (void **)&pipe->out)) &&
               bench_submit_ok(
                   gantry_heap_alloc(heap, GANTRY_MEMORY_DEVICE, COPY_BYTES, 0, site, &pipe->device));
    }
    return good;
}

static bool drop(struct copies *c)
{
    gantry_heap *heap = gantry_context_heap(c->work->context);
    bool good = true;
    for (uint32_t p = 0; p < PIPELINES; p++) {
        void *const blocks[] = {c->pipes[p].in, c->pipes[p].out, c->pipes[p].device};
        for (int i = 0; i < 3; i++) {
            good = (blocks[i] == NULL || bench_submit_ok(gantry_heap_free(heap, blocks[i]))) && good;
        }
    }
    return good;
}

bool bench_submit_copies(struct submit_work *work, const struct bench_options *options, const char *name,
                         uint32_t kernels)
{
    gantry_dispatcher *dispatcher = gantry_context_dispatcher(work->context);
    struct copies copies = {.work = work};
    const struct bench_case one = {
        .name = name,
        .item = "kernel",
        .items = kernels,
        .ours = {.prepare = prepare_ours, .run = run_ours, .verify = verify},
        .yardstick = {.name = "hand-loop", .prepare = prepare_hand, .run = run_hand, .verify = verify},
        .arg = &copies,
    };
    work->kernels = kernels;
    bool good = make(&copies) &&
                bench_submit_ok(gantry_dispatcher_set_submission(dispatcher, GANTRY_SUBMISSION_GRAPHS)) &&
                bench_run(options, &one, NULL);
    good = bench_submit_ok(gantry_dispatcher_set_submission(dispatcher, GANTRY_SUBMISSION_STREAMS)) && good;
    return bench_submit_ok(gantry_taskman_reset(work->manager)) && drop(&copies) && good;
}
