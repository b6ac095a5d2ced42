/* SPDX-License-Identifier: MIT */
/* How far the SMs' readings of %globaltimer lie apart, by messages: see ping_pong() in
 * profile_kernels_bench.cu.
 *
 * Every two SMs send each other the time, through several lines of the cache.  No message arrives before it
 * is sent, so one that seems to shows an error of the clocks.  Take the fastest message in each
 * direction.  If both took equally long, half of the difference says how far one clock is ahead of the
 * other.  Whatever they took, it is not further ahead than half of the sum.  A recording measures it in
 * neither of these ways. */
#include "bench/bench_profile_ways.h"

#include "bench/harness.h"
#include "bench/profile_ways.h"

#include <stdlib.h>
#include <string.h>

#define VOLLEYS 17u
#define PATIENCE (1u << 20)

struct exchange {
    gantry_kernel *kernel;
    uint32_t blocks;
    gantry_task *done;
    void *device;                   /* boxes, ways, SMs, stuck: in this order, so that each is aligned */
    unsigned char *host;            /* all but the boxes */
    size_t boxes, ways, sms, bytes; /* bytes of each, and of all but the boxes */
};

static bool ok(gantry_status status)
{
    return bench_ok("profile", status);
}

static gantry_launch_result launch(gantry_launch *launch, void *arg)
{
    struct exchange *e = arg;
    gantry_dim3 grid = {e->blocks, 1, 1}, block = {1, 1, 1};
    char *boxes = e->device, *ways = boxes + e->boxes, *sms = ways + e->ways, *stuck = sms + e->sms;
    uint32_t lines = BENCH_LINES, volleys = VOLLEYS, patience = PATIENCE;
    void *args[] = {&boxes, &ways, &sms, &stuck, &lines, &volleys, &patience};
    bool good = gantry_launch_fill(launch, e->device, 0, 1, e->boxes + e->bytes) == GANTRY_OK &&
                gantry_launch_kernel(launch, e->kernel, grid, block, 0, args) == GANTRY_OK &&
                gantry_launch_copy_dtoh(launch, e->host, ways, e->bytes) == GANTRY_OK &&
                gantry_launch_add_completion(launch, e->done) == GANTRY_OK;
    return good ? GANTRY_LAUNCH_DONE : GANTRY_LAUNCH_FAILED;
}

static gantry_status do_nothing(gantry_task *task, void *arg)
{
    (void)task;
    (void)arg;
    return GANTRY_OK;
}

static bool run(struct exchange *e, gantry_taskman *manager)
{
    gantry_task_desc work = GANTRY_TASK_DESC_INIT, done = GANTRY_TASK_DESC_INIT;
    work.kind = GANTRY_TASK_KERNEL;
    work.label = "ping pong";
    work.launch = launch;
    work.arg = e;
    done.name = "done";
    done.run = do_nothing;
    gantry_task *first;
    return ok(gantry_taskman_reset(manager)) && ok(gantry_taskman_submit(manager, &work, &first)) &&
           ok(gantry_taskman_submit(manager, &done, &e->done)) &&
           ok(gantry_task_start_after(e->done, first)) && ok(gantry_taskman_start(manager)) &&
           ok(gantry_taskman_stop(manager));
}

/* False when two blocks shared an SM, or one got no answer. */
static bool are_good(const struct exchange *e)
{
    const uint32_t *sms = (const uint32_t *)(const void *)(e->host + e->ways);
    bool seen[4096] = {false};
    for (uint32_t b = 0; b < e->blocks; b++) {
        if (seen[sms[b] % 4096]) {
            return false;
        }
        seen[sms[b] % 4096] = true;
    }
    return sms[e->blocks] == 0; /* the word `stuck` lies behind the SMs */
}

/* Sort the numbers. */
static double p99_of(double *values, uint32_t count)
{
    bench_sort(values, count);
    return values[count - 1 - count / 100];
}

static bool summarise(const struct exchange *e, struct bench_ways *out)
{
    const int64_t *ways = (const int64_t *)(const void *)e->host;
    uint32_t n = e->blocks, pairs = n * (n - 1) / 2, at = 0;
    double *offsets = are_good(e) ? calloc(2 * (size_t)pairs, sizeof(*offsets)) : NULL;
    if (offsets == NULL) {
        return false;
    }
    double *bounds = offsets + pairs;
    *out = (struct bench_ways){.pairs = pairs,
                               .messages = (uint64_t)n * (n - 1) * BENCH_LINES * (VOLLEYS - 1),
                               .least_ns = INT64_MAX};
    for (uint32_t a = 0; a < n; a++) {
        for (uint32_t b = a + 1; b < n; b++, at++) {
            int64_t there = ways[a * n + b], back = ways[b * n + a];
            offsets[at] = (double)(there > back ? there - back : back - there) / 2;
            bounds[at] = (double)(there + back) / 2;
            out->backwards += (there < 0 ? 1u : 0u) + (back < 0 ? 1u : 0u);
            out->least_ns = there < out->least_ns ? there : out->least_ns;
            out->least_ns = back < out->least_ns ? back : out->least_ns;
        }
    }
    out->p99_ns = p99_of(offsets, pairs);
    out->median_ns = offsets[pairs / 2];
    out->most_ns = offsets[pairs - 1];
    out->bound_p99_ns = p99_of(bounds, pairs);
    free(offsets);
    return true;
}

bool bench_measure_ways(gantry_context *context, gantry_taskman *manager, gantry_kernel *ping_pong,
                        uint32_t sms, struct bench_ways *out)
{
    struct exchange e = {.kernel = ping_pong, .blocks = sms & ~1u};
    gantry_heap *heap = gantry_context_heap(context);
    e.boxes = (size_t)e.blocks * e.blocks * BENCH_LINES * BENCH_BOX_WORDS * sizeof(uint64_t);
    e.ways = (size_t)e.blocks * e.blocks * sizeof(int64_t);
    e.sms = e.blocks * sizeof(uint32_t);
    e.bytes = e.ways + e.sms + sizeof(uint32_t);
    void *host = NULL;
    bool good =
        ok(gantry_heap_alloc(heap, GANTRY_MEMORY_DEVICE, e.boxes + e.bytes, 0, GANTRY_ALLOC_SITE("ways"),
                             &e.device)) &&
        ok(gantry_heap_alloc(heap, GANTRY_MEMORY_PINNED, e.bytes, 0, GANTRY_ALLOC_SITE("ways"), &host));
    e.host = host;
    /* It is measured twice: the first time warms up. */
    good = good && e.blocks != 0 && run(&e, manager) && run(&e, manager) && summarise(&e, out);
    if (host != NULL) {
        (void)gantry_heap_free(heap, host);
    }
    if (e.device != NULL) {
        (void)gantry_heap_free(heap, e.device);
    }
    return good;
}
