/* SPDX-License-Identifier: MIT */
/* What a partition's GPU tasks enqueue. */
#include "samples/proof_pipeline/internal.h"

#include "cli/samples.h"

#define THREADS 256u

size_t proof_offset_order(const struct problem *p)
{
    return 3 * (size_t)p->rows;
}

size_t proof_offset_starts(const struct problem *p)
{
    return proof_offset_order(p) + p->rows;
}

size_t proof_words_in(const struct problem *p)
{
    return proof_offset_starts(p) + p->buckets + 1;
}

size_t proof_offset_h(const struct problem *p)
{
    return (proof_words_in(p) + 63) / 64 * 64;
}

size_t proof_offset_sums(const struct problem *p)
{
    return proof_offset_h(p) + p->rows;
}

size_t proof_words_in_all(const struct problem *p)
{
    return proof_offset_sums(p) + p->buckets;
}

static gantry_launch_result result_of(struct partition *p, gantry_status status, gantry_launch_result success)
{
    if (status == GANTRY_OK) {
        return success;
    }
    proof_tell(p->pipeline, "device", cli_cause(status));
    return GANTRY_LAUNCH_FAILED;
}

/* `count` vectors or one, a thread per `items`. */
static gantry_status launch(gantry_launch *launch, struct partition *p, enum kernel kernel, uint32_t items,
                            uint32_t vectors, void **args)
{
    gantry_dim3 grid = {(items + THREADS - 1) / THREADS, vectors, 1}, block = {THREADS, 1, 1};
    return gantry_launch_kernel(launch, p->pipeline->kernels[kernel], grid, block, 0, args);
}

gantry_launch_result proof_launch_upload(gantry_launch *at, void *arg)
{
    struct partition *p = arg;
    const struct problem *problem = p->pipeline->problem;
    p->launched_ns = proof_now_ns();
    void *memory = NULL;
    gantry_status status = gantry_launch_alloc(at, GANTRY_MEMORY_DEVICE, proof_words_in_all(problem) * 4, 0,
                                               GANTRY_ALLOC_SITE("partition"), &memory);
    p->device = memory;
    if (status == GANTRY_OK) {
        status = gantry_launch_copy_htod(at, p->device, p->staging, proof_words_in(problem) * 4);
    }
    return result_of(p, status, GANTRY_LAUNCH_DONE);
}

static gantry_status forward(gantry_launch *at, struct partition *p, uint32_t vectors)
{
    struct pipeline *pipeline = p->pipeline;
    uint32_t n = pipeline->problem->rows;
    gantry_status status = GANTRY_OK;
    for (uint32_t half = n / 2; half > 0 && status == GANTRY_OK; half /= 2) {
        void *args[] = {&p->device, &pipeline->roots, &n, &half};
        status = launch(at, p, KERNEL_FORWARD, n / 2, vectors, args);
    }
    return status;
}

static gantry_status backward(gantry_launch *at, struct partition *p, uint32_t vectors)
{
    struct pipeline *pipeline = p->pipeline;
    uint32_t n = pipeline->problem->rows, factor = pipeline->problem->inverse_rows;
    gantry_status status = GANTRY_OK;
    for (uint32_t half = 1; half < n && status == GANTRY_OK; half *= 2) {
        void *args[] = {&p->device, &pipeline->roots, &n, &half};
        status = launch(at, p, KERNEL_BACKWARD, n / 2, vectors, args);
    }
    void *args[] = {&p->device, &n, &factor};
    return status == GANTRY_OK ? launch(at, p, KERNEL_SCALE, n, vectors, args) : status;
}

static gantry_status combine(gantry_launch *at, struct partition *p)
{
    uint32_t n = p->pipeline->problem->rows;
    void *args[] = {&p->device, &n};
    gantry_status status = launch(at, p, KERNEL_COMBINE, n, 1, args);
    return status == GANTRY_OK ? backward(at, p, 1) : status;
}

static gantry_status sum_buckets(gantry_launch *at, struct partition *p)
{
    const struct problem *problem = p->pipeline->problem;
    uint32_t buckets = problem->buckets, *order = p->device + proof_offset_order(problem);
    uint32_t *starts = p->device + proof_offset_starts(problem),
             *sums = p->device + proof_offset_sums(problem);
    void *args[] = {&p->device, &order, &starts, &buckets, &sums};
    return launch(at, p, KERNEL_BUCKET_SUMS, buckets, 1, args);
}

/* A transform per call, so that those of other partitions come in between.  There and back again is what it
 * was before: the rounds are work of the right kind, and change nothing. */
gantry_launch_result proof_launch_transforms(gantry_launch *at, void *arg)
{
    struct partition *p = arg;
    uint32_t index = (uint32_t)gantry_launch_index(at), rounds = p->pipeline->settings.rounds;
    if (index < 2 * rounds) {
        return result_of(p, index % 2 == 0 ? forward(at, p, 3) : backward(at, p, 3), GANTRY_LAUNCH_AGAIN);
    }
    switch (index - 2 * rounds) {
    case 0:
        return result_of(p, forward(at, p, 3), GANTRY_LAUNCH_AGAIN);
    case 1:
        return result_of(p, combine(at, p), GANTRY_LAUNCH_AGAIN);
    default:
        return result_of(p, sum_buckets(at, p), GANTRY_LAUNCH_DONE);
    }
}

/* h lies where a was. */
gantry_launch_result proof_launch_download(gantry_launch *at, void *arg)
{
    struct partition *p = arg;
    const struct problem *problem = p->pipeline->problem;
    size_t h = proof_offset_h(problem), sums = proof_offset_sums(problem);
    gantry_status status = gantry_launch_copy_dtoh(at, p->staging + h, p->device, (size_t)problem->rows * 4);
    if (status == GANTRY_OK) {
        status =
            gantry_launch_copy_dtoh(at, p->staging + sums, p->device + sums, (size_t)problem->buckets * 4);
    }
    if (status == GANTRY_OK) {
        status = gantry_free_after(p->device, at);
    }
    if (status == GANTRY_OK) {
        p->device = NULL;
    }
    return result_of(p, status, GANTRY_LAUNCH_DONE);
}
