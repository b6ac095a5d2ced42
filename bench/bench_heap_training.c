/* SPDX-License-Identifier: MIT */
/* `gantry bench heap`, the rows "training": several threads allocate and free as a framework does that trains
 * a model, each on a stream of its own.
 *
 * A pass is a training step.  Forward, each layer keeps some activations and frees its scratch; backward,
 * each layer takes gradients and frees what forward kept, the last layer first.  Weights and the optimizer's
 * state live all the time.  Shapes are those of a small transformer, the same in each pass; every layer also
 * takes scratch of any size, of which no pass has the same.  The first passes are not counted: they take
 * memory from the driver. */
#include "bench/bench_heap.h"

#include "base/clock.h"

#include <pthread.h>
#include <stdatomic.h>
#include <stdlib.h>
#include <string.h>

#define THREADS 4u
#define LAYERS 12u
#define KEPT 7u       /* activations of a layer that backward needs */
#define MOST_LIVE 64u /* scratch blocks at once */
#define TOKENS 4096u  /* of a batch */
#define WIDTH 768u
#define WORDS 8192u
#define UNCOUNTED 2u /* passes */
#define PASSES_PER_RUN 4u

struct trainer {
    struct training *training;
    CUstream stream;
    pthread_t thread;
    uint64_t random;
    void *weights[LAYERS * 4];
    void *kept[LAYERS][KEPT];
    void *loss[2];
    uint64_t operations, ns, slowest; /* of the counted passes */
    bool good;
};

struct training {
    struct bench_heap_context *context;
    bool theirs;
    uint32_t passes;
    pthread_barrier_t pass;
    struct trainer trainers[THREADS];
    _Atomic(uint64_t) live, peak_live; /* bytes asked for, all threads together */
};

static uint64_t next_random(struct trainer *t)
{
    t->random ^= t->random << 13;
    t->random ^= t->random >> 7;
    t->random ^= t->random << 17;
    return t->random >> 11;
}

/* ---- one operation ------------------------------------------------------------------------- */

static void count(struct trainer *t, uint64_t begin)
{
    uint64_t took = gy_clock_ns() - begin;
    t->operations++;
    t->ns += took;
    t->slowest = took > t->slowest ? took : t->slowest;
}

static void take(struct trainer *t, size_t bytes, void **out)
{
    struct bench_heap_context *context = t->training->context;
    CUdeviceptr address = 0;
    uint64_t begin = gy_clock_ns();
    if (t->training->theirs) {
        t->good = RAW(&context->cuda, cuMemAllocAsync(&address, bytes, t->stream)) && t->good;
        *out = (void *)(uintptr_t)address;
    } else {
        t->good = bench_heap_ok(gantry_heap_alloc_on(context->heap, GANTRY_MEMORY_DEVICE, bytes, 0, t->stream,
                                                     GANTRY_ALLOC_SITE("bench training"), out)) &&
                  t->good;
    }
    count(t, begin);
    uint64_t live = atomic_fetch_add_explicit(&t->training->live, bytes, memory_order_relaxed) + bytes;
    uint64_t peak = atomic_load_explicit(&t->training->peak_live, memory_order_relaxed);
    while (live > peak &&
           !atomic_compare_exchange_weak_explicit(&t->training->peak_live, &peak, live, memory_order_relaxed,
                                                  memory_order_relaxed)) {
    }
}

static void give(struct trainer *t, size_t bytes, void *block)
{
    struct bench_heap_context *context = t->training->context;
    uint64_t begin = gy_clock_ns();
    if (t->training->theirs) {
        t->good = RAW(&context->cuda, cuMemFreeAsync((CUdeviceptr)(uintptr_t)block, t->stream)) && t->good;
    } else {
        t->good = bench_heap_ok(gantry_heap_free_on(context->heap, block, t->stream)) && t->good;
    }
    count(t, begin);
    atomic_fetch_sub_explicit(&t->training->live, bytes, memory_order_relaxed);
}

/* ---- a step -------------------------------------------------------------------------------- */

static size_t activation_bytes(unsigned which)
{
    static const unsigned widths[KEPT] = {1, 3, 1, 1, 4, 4, 1}; /* of a layer's tensors, in WIDTH */
    return (size_t)TOKENS * WIDTH * 2 * widths[which];
}

static size_t weight_bytes(unsigned which)
{
    static const unsigned edges[] = {3, 1, 4, 4};
    return (size_t)WIDTH * WIDTH * 4 * edges[which % 4] * 4; /* weight, gradient, two moments */
}

static const size_t loss_bytes = (size_t)TOKENS * WORDS * 2;

/* What a layer's kernels need for themselves: sizes of their own, and some that no pass has the same. */
static void use_scratch(struct trainer *t, unsigned count_of)
{
    void *blocks[MOST_LIVE];
    size_t bytes[MOST_LIVE];
    for (unsigned i = 0; i < count_of; i++) {
        unsigned octave = (unsigned)(next_random(t) % 12);
        size_t least = (size_t)512 << octave; /* log-uniform: 512 bytes to 2 MiB */
        bytes[i] = i % 2 == 0 ? least + (size_t)(next_random(t) % least)
                              : activation_bytes((unsigned)next_random(t) % KEPT);
        take(t, bytes[i], &blocks[i]);
        if (i % 3 == 2) { /* some end before the others */
            give(t, bytes[i], blocks[i]);
            bytes[i] = 0;
        }
    }
    for (unsigned i = 0; i < count_of; i++) {
        if (bytes[i] != 0) {
            give(t, bytes[i], blocks[i]);
        }
    }
}

static void forward(struct trainer *t)
{
    for (unsigned layer = 0; layer < LAYERS; layer++) {
        for (unsigned i = 0; i < KEPT; i++) {
            take(t, activation_bytes(i), &t->kept[layer][i]);
            use_scratch(t, 3);
        }
    }
    for (unsigned i = 0; i < 2; i++) {
        take(t, loss_bytes, &t->loss[i]);
    }
}

static void backward(struct trainer *t)
{
    for (unsigned i = 0; i < 2; i++) {
        give(t, loss_bytes, t->loss[i]);
    }
    for (unsigned layer = LAYERS; layer-- > 0;) {
        for (unsigned i = KEPT; i-- > 0;) {
            void *gradient;
            take(t, activation_bytes(i), &gradient);
            use_scratch(t, 3);
            give(t, activation_bytes(i), t->kept[layer][i]);
            give(t, activation_bytes(i), gradient);
        }
    }
}

static void *train(void *arg)
{
    struct trainer *t = arg;
    struct bench_heap_context *context = t->training->context;
    bool entered = bench_heap_ok(gantry_context_acquire(context->context));
    for (unsigned i = 0; i < LAYERS * 4 && t->good; i++) {
        take(t, weight_bytes(i), &t->weights[i]);
    }
    for (uint32_t pass = 0; pass < t->training->passes + UNCOUNTED; pass++) {
        if (pass == UNCOUNTED) {
            t->operations = t->ns = t->slowest = 0;
        }
        if (t->good) {
            forward(t);
            backward(t);
        }
        (void)pthread_barrier_wait(&t->training->pass); /* the peaks of all fall together */
    }
    for (unsigned i = 0; i < LAYERS * 4 && t->good; i++) {
        give(t, weight_bytes(i), t->weights[i]);
    }
    if (entered) {
        (void)gantry_context_release(context->context);
    }
    t->good = t->good && entered;
    return NULL;
}

/* ---- figures ------------------------------------------------------------------------------- */

struct figures {
    double ns, slowest, slabs; /* per operation; the slowest; slab bytes per byte of the peak in use */
    uint64_t peak;             /* bytes in use */
    bool good;
};

static struct figures run(struct training *training, bool theirs)
{
    struct bench_heap_context *context = training->context;
    struct figures figures = {.good = true};
    uint64_t ns = 0, operations = 0;
    training->theirs = theirs;
    atomic_store_explicit(&training->peak_live, 0, memory_order_relaxed);
    for (unsigned i = 0; i < THREADS; i++) {
        struct trainer *t = &training->trainers[i];
        const CUstream stream = t->stream;
        *t = (struct trainer){.training = training, .stream = stream, .good = true};
        t->random = 88172645463325252u + i;
        if (pthread_create(&t->thread, NULL, train, t) != 0) {
            fputs("bench heap: cannot start threads\n", stderr);
            exit(EXIT_FAILURE); /* those that did start wait for ever */
        }
    }
    for (unsigned i = 0; i < THREADS; i++) {
        struct trainer *t = &training->trainers[i];
        pthread_join(t->thread, NULL);
        ns += t->ns;
        operations += t->operations;
        figures.slowest = (double)t->slowest > figures.slowest ? (double)t->slowest : figures.slowest;
        figures.good = figures.good && t->good;
    }
    gantry_heap_stats stats = {.struct_size = sizeof(stats)};
    figures.good =
        bench_heap_ok(gantry_heap_get_stats(context->heap, GANTRY_MEMORY_DEVICE, &stats)) && figures.good;
    figures.ns = operations != 0 ? (double)ns / (double)operations : 0;
    figures.peak = atomic_load_explicit(&training->peak_live, memory_order_relaxed);
    figures.slabs = figures.peak != 0 ? (double)stats.peak_slab_bytes / (double)figures.peak : 0;
    figures.good = figures.good && atomic_load_explicit(&training->live, memory_order_relaxed) == 0;
    return figures;
}

static void report(const struct bench_options *options, const char *name, double ours, double theirs,
                   bool good)
{
    struct bench_case one = {.name = name, .item = "operation"};
    struct bench_result result = {.min_ns = ours, .median_ns = ours, .verified = good};
    if (theirs != 0) {
        one.yardstick.name = "cuMemAllocAsync";
        result.yardstick_min_ns = result.yardstick_median_ns = theirs;
    }
    bench_report(options, &one, &result);
}

bool bench_heap_training(struct bench_heap_context *context, const struct bench_options *options)
{
    struct training *training = calloc(1, sizeof(*training));
    bool good = training != NULL && pthread_barrier_init(&training->pass, NULL, THREADS) == 0;
    if (!good) {
        free(training);
        return false;
    }
    training->context = context;
    training->passes = PASSES_PER_RUN * options->runs;
    for (unsigned i = 0; i < THREADS && good; i++) {
        good = RAW(&context->cuda, cuStreamCreate(&training->trainers[i].stream, CU_STREAM_NON_BLOCKING));
    }
    good = good && bench_heap_ok(gantry_heap_trim(context->heap, GANTRY_MEMORY_DEVICE, 0, NULL)) &&
           bench_heap_ok(gantry_heap_reset_peaks(context->heap, GANTRY_MEMORY_DEVICE));
    struct figures ours = {.good = false}, theirs = {.good = true};
    if (good) {
        ours = run(training, false);
        good = bench_heap_ok(gantry_heap_settle(context->heap)) &&
               bench_heap_ok(gantry_heap_trim(context->heap, GANTRY_MEMORY_DEVICE, 0, NULL));
    }
    if (good && context->cuda.cuMemAllocAsync != NULL) {
        theirs = run(training, true);
    }
    good = good && ours.good && theirs.good;
    report(options, "heap/training", ours.ns, theirs.ns, good);
    report(options, "heap/training-slowest", ours.slowest, theirs.slowest, good);
    bench_heap_report_slabs(options, "heap/training-slabs", ours.slabs, ours.peak, good);
    for (unsigned i = 0; i < THREADS && training->trainers[i].stream != NULL; i++) {
        (void)RAW(&context->cuda, cuStreamDestroy(training->trainers[i].stream));
    }
    pthread_barrier_destroy(&training->pass);
    free(training);
    return good;
}
