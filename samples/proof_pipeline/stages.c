/* SPDX-License-Identifier: MIT */
/* The CPU's stages of a partition as task bodies, and the big memory they work in. */
#include "samples/proof_pipeline/internal.h"

#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <time.h>

static void count_stage(struct pipeline *pipeline, enum stage stage, uint64_t begin)
{
    atomic_fetch_add_explicit(&pipeline->stage_ns[stage], proof_now_ns() - begin, memory_order_relaxed);
}

/* CPU time of the calling thread. */
static uint64_t cpu_now_ns(void)
{
    struct timespec t;
    clock_gettime(CLOCK_THREAD_CPUTIME_ID, &t);
    return (uint64_t)t.tv_sec * 1000000000u + (uint64_t)t.tv_nsec;
}

static void count_cpu(struct pipeline *pipeline, enum stage stage, uint64_t begin)
{
    atomic_fetch_add_explicit(&pipeline->cpu_ns[stage], cpu_now_ns() - begin, memory_order_relaxed);
}

/* ---- big memory ---------------------------------------------------------------------------- */

static void *take_big(struct partition *p, int which, size_t bytes)
{
    void *memory = MAP_FAILED;
    if (!p->pipeline->settings.keep_memory) {
        memory = mmap(NULL, bytes, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    } else if (gantry_heap_alloc(p->pipeline->heap, GANTRY_MEMORY_HOST, bytes, 0, GANTRY_ALLOC_SITE("big"),
                                 &memory) != GANTRY_OK) {
        memory = MAP_FAILED;
    }
    if (memory == MAP_FAILED) {
        return NULL;
    }
    p->bigs[which] = (struct big){p->pipeline, memory, bytes};
    return memory;
}

static void give_big(void *arg)
{
    struct big *big = arg;
    uint64_t begin = cpu_now_ns();
    if (big->pipeline->settings.keep_memory) {
        (void)gantry_heap_free(big->pipeline->heap, big->memory);
    } else {
        munmap(big->memory, big->bytes);
    }
    big->memory = NULL;
    count_cpu(big->pipeline, STAGE_FREEING, begin);
}

/* As the heap's policy says: here, by its thread, or each by a thread of its own.  What the heap keeps is not
 * worth a thread. */
static void give_bigs(struct partition *p)
{
    uint64_t begin = proof_now_ns();
    for (int i = 0; i < BIGS; i++) {
        if (p->bigs[i].memory != NULL && p->pipeline->settings.keep_memory) {
            give_big(&p->bigs[i]);
        } else if (p->bigs[i].memory != NULL) {
            (void)gantry_heap_reclaim(p->pipeline->heap, give_big, &p->bigs[i], p->bigs[i].bytes);
        }
    }
    count_stage(p->pipeline, STAGE_FREEING, begin);
}

void proof_drop_partition(struct partition *p)
{
    if (p->staging != NULL) {
        (void)gantry_heap_free(p->pipeline->heap, p->staging);
        p->staging = NULL;
    }
    if (p->device != NULL) { /* a failure came between; nothing runs any more */
        (void)gantry_heap_free(p->pipeline->heap, p->device);
        p->device = NULL;
    }
    for (int i = 0; i < BIGS; i++) {
        if (p->bigs[i].memory != NULL) {
            give_big(&p->bigs[i]);
        }
    }
}

/* ---- synthesis ----------------------------------------------------------------------------- */

static gantry_status synthesize_part(size_t begin, size_t end, void *arg)
{
    struct partition *p = arg;
    uint64_t cpu = cpu_now_ns();
    proof_synthesize(p->pipeline->problem, p->bigs[BIG_WITNESS].memory, begin, end,
                     p->bigs[BIG_VECTORS].memory);
    count_cpu(p->pipeline, STAGE_SYNTHESIS, cpu);
    return GANTRY_OK;
}

gantry_status proof_run_synthesis(gantry_task *task, void *arg)
{
    (void)task;
    struct partition *p = arg;
    struct pipeline *pipeline = p->pipeline;
    size_t n = pipeline->problem->rows;
    uint64_t begin = proof_now_ns(), cpu = cpu_now_ns();
    uint32_t *witness = take_big(p, BIG_WITNESS, n * 4);
    if (witness == NULL || take_big(p, BIG_VECTORS, 3 * n * 4) == NULL) {
        return GANTRY_ERR_OUT_OF_HOST_MEMORY;
    }
    proof_witness(pipeline->problem, p->index, witness);
    count_cpu(pipeline, STAGE_SYNTHESIS, cpu);
    gantry_status status = gantry_parallel_for(pipeline->cpus, 0, n, 0, synthesize_part, p);
    count_stage(pipeline, STAGE_SYNTHESIS, begin);
    return status;
}

/* ---- preparation --------------------------------------------------------------------------- */

gantry_status proof_run_preparation(gantry_task *task, void *arg)
{
    (void)task;
    struct partition *p = arg;
    const struct problem *problem = p->pipeline->problem;
    size_t n = problem->rows;
    uint64_t begin = proof_now_ns(), cpu = cpu_now_ns();
    void *staging = NULL;
    gantry_status status =
        gantry_heap_alloc(p->pipeline->heap, GANTRY_MEMORY_PINNED, proof_words_in_all(problem) * 4, 0,
                          GANTRY_ALLOC_SITE("staging"), &staging);
    if (status != GANTRY_OK) {
        return status;
    }
    p->staging = staging;
    uint32_t *order = take_big(p, BIG_ORDER, (n + problem->buckets + 1) * 4);
    struct point *bases = take_big(p, BIG_BASES, n * sizeof(*bases));
    if (order == NULL || bases == NULL) {
        return GANTRY_ERR_OUT_OF_HOST_MEMORY;
    }
    proof_prepare(problem, p->bigs[BIG_WITNESS].memory, order, order + n, bases);
    memcpy(p->staging, p->bigs[BIG_VECTORS].memory, 3 * n * 4);
    memcpy(p->staging + proof_offset_order(problem), order, (n + problem->buckets + 1) * 4);
    count_cpu(p->pipeline, STAGE_PREPARATION, cpu);
    count_stage(p->pipeline, STAGE_PREPARATION, begin);
    return GANTRY_OK;
}

/* ---- tail ---------------------------------------------------------------------------------- */

/* Each part has its rows, and a table of buckets for one window after the other.  There are as many parts as
 * tails have workers. */
struct tail {
    struct partition *partition;
    uint32_t parts;
    struct point *sums; /* windows of the first part, of the second, ... */
};

static gantry_status tail_part(size_t begin, size_t end, void *arg)
{
    struct tail *tail = arg;
    struct partition *p = tail->partition;
    const struct problem *problem = p->pipeline->problem;
    uint64_t cpu = cpu_now_ns();
    for (size_t part = begin; part < end; part++) {
        struct point *table = (struct point *)p->bigs[BIG_TABLES].memory + (part << problem->window_bits);
        size_t first = problem->rows * part / tail->parts, last = problem->rows * (part + 1) / tail->parts;
        for (uint32_t window = 0; window < problem->windows; window++) {
            proof_tail_part(problem, window, first, last, p->staging + proof_offset_h(problem),
                            p->bigs[BIG_ORDER].memory, p->bigs[BIG_BASES].memory, table,
                            &tail->sums[part * problem->windows + window]);
        }
    }
    count_cpu(p->pipeline, STAGE_TAIL, cpu);
    return GANTRY_OK;
}

static gantry_status compute_tail(struct partition *p, struct answer *answer)
{
    struct pipeline *pipeline = p->pipeline;
    const struct problem *problem = pipeline->problem;
    uint32_t limit = pipeline->settings.tail_workers;
    struct tail tail = {p, limit != 0 ? limit : proof_workers(pipeline), NULL};
    size_t sums = (size_t)tail.parts * problem->windows;
    tail.sums = malloc(sums * sizeof(*tail.sums));
    if (tail.sums == NULL ||
        take_big(p, BIG_TABLES, ((size_t)tail.parts << problem->window_bits) * sizeof(struct point)) ==
            NULL) {
        free(tail.sums);
        return GANTRY_ERR_OUT_OF_HOST_MEMORY;
    }
    gantry_status status = gantry_parallel_for(pipeline->cpus, 0, tail.parts, 1, tail_part, &tail);
    *answer = (struct answer){.bucket_digest =
                                  proof_digest(p->staging + proof_offset_sums(problem), problem->buckets)};
    for (size_t i = 0; i < sums && status == GANTRY_OK; i++) {
        proof_add_point(&answer->sum, &tail.sums[i]);
    }
    free(tail.sums);
    return status;
}

gantry_status proof_run_tail(gantry_task *task, void *arg)
{
    (void)task;
    struct partition *p = arg;
    uint64_t begin = proof_now_ns();
    struct answer answer;
    gantry_status status = compute_tail(p, &answer);
    count_stage(p->pipeline, STAGE_TAIL, begin);
    if (status != GANTRY_OK) {
        return status;
    }
    const struct answer *expected = &p->pipeline->answers[p->index];
    p->is_right = answer.bucket_digest == expected->bucket_digest &&
                  memcmp(&answer.sum, &expected->sum, sizeof(answer.sum)) == 0;
    return GANTRY_OK;
}

/* A task of its own: the gate is down again. */
gantry_status proof_run_freeing(gantry_task *task, void *arg)
{
    (void)task;
    struct partition *p = arg;
    (void)gantry_heap_free(p->pipeline->heap, p->staging);
    p->staging = NULL;
    give_bigs(p);
    return GANTRY_OK;
}
