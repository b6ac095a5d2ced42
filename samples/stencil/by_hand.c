/* SPDX-License-Identifier: MIT */
/* Beside the graph, for comparison: a thread for each device launches its part on two streams, one for the
 * edges and the halo, one for the interior.  Before the edges of a step it waits until its neighbours'
 * threads have recorded the events of their halos, and has its stream wait for those.  Kernels, memory and
 * order are those of the graph. */
#include "samples/stencil/by_hand.h"

#include "bench/raw_cuda.h"
#include "cli/messages.h"
#include "samples/stencil/graph.h"

#include <pthread.h>
#include <sched.h>
#include <stdatomic.h>
#include <stdlib.h>

enum {
    RING = 4 /* steps whose events are kept: a thread is one ahead of its neighbours at most */,
    SPINS = 10000
};

/* To the threads that stand ready. */
enum signal { WAIT, GO, GO_HOME };

/* A thread's device. */
struct side {
    struct stencil_by_hand *halo;
    struct stencil_part *part;
    struct side *neighbours[2]; /* above and below; NULL: there is none */
    CUfunction edges_kernel, rows_kernel;
    CUstream outer, inner; /* of the edges and halos, and of the interior */
    CUevent edges[RING], halos[RING], interiors[RING];
    _Atomic(uint32_t) recorded; /* steps whose halo's event is recorded */
};

struct stencil_by_hand {
    struct stencil *stencil;
    struct raw_cuda cuda;
    struct side sides[GANTRY_FLEET_DEVICES_MAX];
    pthread_t threads[GANTRY_FLEET_DEVICES_MAX];
    uint32_t thread_count;
    _Atomic(enum signal) signal; /* written by who runs it, read by the threads */
    atomic_bool failed;          /* set by any thread, read by all */
};

/* ---- steps --------------------------------------------------------------------------------------- */

static CUdeviceptr address(const void *pointer)
{
    return (CUdeviceptr)(uintptr_t)pointer;
}

/* The rows that the other device keeps of this one; NULL: there is no neighbour on that side. */
static void find_halos(const struct side *s, uint32_t index, float **above, float **below)
{
    const struct stencil_part *part = s->part;
    const size_t columns = s->halo->stencil->settings.columns;
    *above = part->above != NULL ? part->above->buffers[index] + (part->above->rows + 1) * columns : NULL;
    *below = part->below != NULL ? part->below->buffers[index] : NULL;
}

static bool launch(const struct side *s, CUfunction kernel, uint32_t rows, CUstream stream, void **args)
{
    const uint32_t blocks = (s->halo->stencil->settings.columns + STENCIL_BLOCK - 1) / STENCIL_BLOCK;
    return RAW(&s->halo->cuda,
               cuLaunchKernel(kernel, blocks, rows, 1, STENCIL_BLOCK, 1, 1, 0, stream, args, NULL));
}

/* Once more in a loop that looks at a word: where CPUs are fewer than threads, the other one needs this one.
 */
static void spin(uint32_t *spins)
{
    if (++*spins % SPINS == 0) {
        (void)sched_yield();
    }
}

static bool wait_for(struct side *s, const struct side *other, uint32_t step)
{
    uint32_t spins = 0;
    while (atomic_load_explicit(&other->recorded, memory_order_acquire) < step) {
        if (atomic_load_explicit(&s->halo->failed, memory_order_relaxed)) {
            return false;
        }
        spin(&spins);
    }
    return RAW(&s->halo->cuda, cuStreamWaitEvent(s->outer, other->halos[(step - 1) % RING], 0));
}

/* The edges of step `t` come after the interior and the neighbours' halos of the step before. */
static bool wait_outer(struct side *s, uint32_t t)
{
    bool good = RAW(&s->halo->cuda, cuStreamWaitEvent(s->outer, s->interiors[(t - 1) % RING], 0));
    for (int i = 0; i < 2 && good; i++) {
        good = s->neighbours[i] == NULL || wait_for(s, s->neighbours[i], t);
    }
    return good;
}

/* The edges, and their halos: as a copy of its own, or by the kernel. */
static bool launch_outer(struct side *s, struct stencil_step *step, uint32_t t)
{
    struct raw_cuda *cuda = &s->halo->cuda;
    struct stencil_settings *settings = &s->halo->stencil->settings;
    const size_t bytes = settings->columns * sizeof(float);
    float *above, *below, *none = NULL;
    find_halos(s, step->index, &above, &below);
    void *args[] = {&step->from,
                    &step->to,
                    &settings->columns,
                    &s->part->rows,
                    settings->is_fused ? &above : &none,
                    settings->is_fused ? &below : &none};
    if ((t > 0 && !wait_outer(s, t)) || !launch(s, s->edges_kernel, 2, s->outer, args) ||
        !RAW(cuda, cuEventRecord(s->edges[t % RING], s->outer))) {
        return false;
    }
    if (settings->is_fused) {
        return RAW(cuda, cuEventRecord(s->halos[t % RING], s->outer));
    }
    return (above == NULL || RAW(cuda, cuMemcpyAsync(address(above), address(step->to + settings->columns),
                                                     bytes, s->outer))) &&
           (below == NULL ||
            RAW(cuda,
                cuMemcpyAsync(address(below), address(step->to + s->part->rows * (size_t)settings->columns),
                              bytes, s->outer))) &&
           RAW(cuda, cuEventRecord(s->halos[t % RING], s->outer));
}

static bool launch_inner(struct side *s, struct stencil_step *step, uint32_t t)
{
    struct raw_cuda *cuda = &s->halo->cuda;
    uint32_t second = 2;
    void *args[] = {&step->from, &step->to, &s->halo->stencil->settings.columns, &second};
    return (t == 0 || RAW(cuda, cuStreamWaitEvent(s->inner, s->edges[(t - 1) % RING], 0))) &&
           launch(s, s->rows_kernel, s->part->rows - 2, s->inner, args) &&
           RAW(cuda, cuEventRecord(s->interiors[t % RING], s->inner));
}

static bool run_side(struct side *s)
{
    bool good = true;
    for (uint32_t t = 0; t < s->halo->stencil->settings.steps && good; t++) {
        struct stencil_step *step = &s->part->steps[t % 2];
        good = launch_outer(s, step, t);
        if (good) {
            atomic_store_explicit(&s->recorded, t + 1, memory_order_release);
            good = launch_inner(s, step, t);
        }
    }
    return good && RAW(&s->halo->cuda, cuStreamSynchronize(s->outer)) &&
           RAW(&s->halo->cuda, cuStreamSynchronize(s->inner));
}

static void *drive_side(void *arg)
{
    struct side *s = arg;
    struct stencil_by_hand *h = s->halo;
    uint32_t spins = 0;
    bool good = stencil_ok(gantry_context_acquire(s->part->context), "by hand");
    while (atomic_load(&h->signal) == WAIT) {
        spin(&spins);
    }
    bool goes = atomic_load(&h->signal) == GO;
    if (goes && !(good && run_side(s))) {
        atomic_store(&h->failed, true);
    }
    if (good) {
        (void)stencil_ok(gantry_context_release(s->part->context), "by hand");
    }
    return NULL;
}

static void signal_and_join(struct stencil_by_hand *h, enum signal signal)
{
    atomic_store(&h->signal, signal);
    for (; h->thread_count > 0; h->thread_count--) {
        (void)pthread_join(h->threads[h->thread_count - 1], NULL);
    }
}

bool stencil_by_hand_ready(struct stencil_by_hand *h)
{
    const uint32_t count = h->stencil->count;
    atomic_store(&h->signal, WAIT);
    for (uint32_t i = 0; i < count; i++) {
        atomic_store(&h->sides[i].recorded, 0);
    }
    for (h->thread_count = 0; h->thread_count < count; h->thread_count++) {
        if (pthread_create(&h->threads[h->thread_count], NULL, drive_side, &h->sides[h->thread_count]) != 0) {
            cli_error("stencil: by hand: no thread can be created");
            signal_and_join(h, GO_HOME);
            return false;
        }
    }
    return true;
}

bool stencil_by_hand_run(struct stencil_by_hand *h)
{
    signal_and_join(h, GO);
    return !atomic_load(&h->failed);
}

/* ---- life ----------------------------------------------------------------------------------------- */

static bool open_side(struct stencil_by_hand *h, uint32_t i)
{
    struct side *s = &h->sides[i];
    struct raw_cuda *cuda = &h->cuda;
    s->halo = h;
    s->part = &h->stencil->parts[i];
    s->neighbours[0] = s->part->above != NULL ? s - 1 : NULL;
    s->neighbours[1] = s->part->below != NULL ? s + 1 : NULL;
    s->edges_kernel = gantry_kernel_native(s->part->edges_kernel);
    s->rows_kernel = gantry_kernel_native(s->part->rows_kernel);
    if (!stencil_ok(gantry_context_acquire(s->part->context), "by hand")) {
        return false;
    }
    bool good = RAW(cuda, cuStreamCreate(&s->outer, CU_STREAM_NON_BLOCKING)) &&
                RAW(cuda, cuStreamCreate(&s->inner, CU_STREAM_NON_BLOCKING));
    for (uint32_t e = 0; e < RING && good; e++) {
        good = RAW(cuda, cuEventCreate(&s->edges[e], CU_EVENT_DISABLE_TIMING)) &&
               RAW(cuda, cuEventCreate(&s->halos[e], CU_EVENT_DISABLE_TIMING)) &&
               RAW(cuda, cuEventCreate(&s->interiors[e], CU_EVENT_DISABLE_TIMING));
    }
    return stencil_ok(gantry_context_release(s->part->context), "by hand") && good;
}

static void close_side(struct side *s)
{
    struct raw_cuda *cuda = &s->halo->cuda;
    CUstream const streams[] = {s->outer, s->inner};
    if (!stencil_ok(gantry_context_acquire(s->part->context), "by hand")) {
        return;
    }
    for (uint32_t e = 0; e < RING; e++) {
        CUevent const events[] = {s->edges[e], s->halos[e], s->interiors[e]};
        for (uint32_t i = 0; i < 3; i++) {
            if (events[i] != NULL) {
                (void)RAW(cuda, cuEventDestroy(events[i]));
            }
        }
    }
    for (uint32_t i = 0; i < 2; i++) {
        if (streams[i] != NULL) {
            (void)RAW(cuda, cuStreamDestroy(streams[i]));
        }
    }
    (void)stencil_ok(gantry_context_release(s->part->context), "by hand");
}

struct stencil_by_hand *stencil_by_hand_open(struct stencil *stencil)
{
    struct stencil_by_hand *h = calloc(1, sizeof(*h));
    if (h == NULL) {
        cli_error("stencil: by hand: out of memory");
        return NULL;
    }
    h->stencil = stencil;
    bool good = raw_cuda_open(stencil->parts[0].context, &h->cuda);
    for (uint32_t i = 0; i < stencil->count && good; i++) {
        good = open_side(h, i);
    }
    if (!good) {
        stencil_by_hand_close(h);
        h = NULL;
    }
    return h;
}

void stencil_by_hand_close(struct stencil_by_hand *h)
{
    for (uint32_t i = 0; h != NULL && i < h->stencil->count; i++) {
        if (h->sides[i].part != NULL) {
            close_side(&h->sides[i]);
        }
    }
    free(h);
}
