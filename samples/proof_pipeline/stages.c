/* The CPU's stages of a partition as task bodies, and the big memory they work in. */
#include "samples/proof_pipeline/internal.h"

#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>

static void count_stage(struct pipeline *pipeline, enum stage stage, uint64_t begin)
{
    atomic_fetch_add_explicit(&pipeline->stage_ns[stage], proof_now_ns() - begin, memory_order_relaxed);
}

/* ---- big memory ---------------------------------------------------------------------------- */

static void *take_big(struct big *big, size_t bytes)
{
    void *memory = mmap(NULL, bytes, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    if (memory == MAP_FAILED) {
        return NULL;
    }
    *big = (struct big){memory, bytes};
    return memory;
}

static void unmap(void *arg)
{
    struct big *big = arg;
    munmap(big->memory, big->bytes);
    big->memory = NULL;
}

/* As the heap's policy says: here, by its thread, or each by a thread of its own. */
static void give_bigs(struct partition *p)
{
    uint64_t begin = proof_now_ns();
    for (int i = 0; i < BIGS; i++) {
        if (p->bigs[i].memory != NULL) {
            (void)gantry_heap_reclaim(p->pipeline->heap, unmap, &p->bigs[i], p->bigs[i].bytes);
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
            unmap(&p->bigs[i]);
        }
    }
}

/* ---- synthesis ----------------------------------------------------------------------------- */

static gantry_status synthesize_part(size_t begin, size_t end, void *arg)
{
    struct partition *p = arg;
    proof_synthesize(p->pipeline->problem, p->bigs[BIG_WITNESS].memory, begin, end,
                     p->bigs[BIG_VECTORS].memory);
    return GANTRY_OK;
}

gantry_status proof_run_synthesis(gantry_task *task, void *arg)
{
    (void)task;
    struct partition *p = arg;
    struct pipeline *pipeline = p->pipeline;
    size_t n = pipeline->problem->rows;
    uint64_t begin = proof_now_ns();
    uint32_t *witness = take_big(&p->bigs[BIG_WITNESS], n * 4);
    if (witness == NULL || take_big(&p->bigs[BIG_VECTORS], 3 * n * 4) == NULL) {
        return GANTRY_ERR_OUT_OF_HOST_MEMORY;
    }
    proof_witness(pipeline->problem, p->index, witness);
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
    uint64_t begin = proof_now_ns();
    void *staging = NULL;
    gantry_status status =
        gantry_heap_alloc(p->pipeline->heap, GANTRY_MEMORY_PINNED, proof_words_in_all(problem) * 4, 0,
                          GANTRY_ALLOC_SITE("staging"), &staging);
    if (status != GANTRY_OK) {
        return status;
    }
    p->staging = staging;
    uint32_t *order = take_big(&p->bigs[BIG_ORDER], (n + problem->buckets + 1) * 4);
    struct point *bases = take_big(&p->bigs[BIG_BASES], n * sizeof(*bases));
    if (order == NULL || bases == NULL) {
        return GANTRY_ERR_OUT_OF_HOST_MEMORY;
    }
    proof_prepare(problem, p->bigs[BIG_WITNESS].memory, order, order + n, bases);
    memcpy(p->staging, p->bigs[BIG_VECTORS].memory, 3 * n * 4);
    memcpy(p->staging + proof_offset_order(problem), order, (n + problem->buckets + 1) * 4);
    count_stage(p->pipeline, STAGE_PREPARATION, begin);
    return GANTRY_OK;
}

/* ---- tail ---------------------------------------------------------------------------------- */

/* Every worker gets rows of every window: parts of a window are as many as tails have workers. */
struct tail {
    struct partition *partition;
    uint32_t chunks;
    struct point *sums; /* windows * chunks */
};

static gantry_status tail_part(size_t begin, size_t end, void *arg)
{
    struct tail *tail = arg;
    struct partition *p = tail->partition;
    const struct problem *problem = p->pipeline->problem;
    struct big table = {NULL, 0};
    if (take_big(&table, ((size_t)1 << problem->window_bits) * sizeof(struct point)) == NULL) {
        return GANTRY_ERR_OUT_OF_HOST_MEMORY;
    }
    for (size_t i = begin; i < end; i++) {
        size_t window = i / tail->chunks, chunk = i % tail->chunks;
        size_t first = problem->rows * chunk / tail->chunks;
        size_t last = problem->rows * (chunk + 1) / tail->chunks;
        proof_tail_part(problem, (uint32_t)window, first, last, p->staging + proof_offset_h(problem),
                        p->bigs[BIG_ORDER].memory, p->bigs[BIG_BASES].memory, table.memory, &tail->sums[i]);
    }
    unmap(&table);
    return GANTRY_OK;
}

static gantry_status compute_tail(struct partition *p, struct answer *answer)
{
    struct pipeline *pipeline = p->pipeline;
    const struct problem *problem = pipeline->problem;
    uint32_t limit = pipeline->settings.tail_workers;
    struct tail tail = {p, limit != 0 ? limit : proof_workers(pipeline), NULL};
    size_t parts = (size_t)problem->windows * tail.chunks;
    tail.sums = malloc(parts * sizeof(*tail.sums));
    if (tail.sums == NULL) {
        return GANTRY_ERR_OUT_OF_HOST_MEMORY;
    }
    gantry_status status = gantry_parallel_for(pipeline->cpus, 0, parts, 1, tail_part, &tail);
    *answer = (struct answer){.bucket_digest =
                                  proof_digest(p->staging + proof_offset_sums(problem), problem->buckets)};
    for (size_t i = 0; i < parts && status == GANTRY_OK; i++) {
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
