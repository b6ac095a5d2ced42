/* SPDX-License-Identifier: MIT */
/* make_trace FILE [MILLIONS]: record a trace with everything in it that Gantry writes, and print what a
 * reader must find, one slice per line: track, category, name, begin, end, id; separated by tabs.  The id of
 * a block, which has no category, is its number.  With $MAKE_TRACE_COMPRESS the file is deflated.  MILLIONS
 * of blocks instead, encoded by $MAKE_TRACE_ENCODERS threads: for measuring.  With $MAKE_TRACE_HANG it never
 * ends its recording, and with $MAKE_TRACE_LOSE it loses 16 blocks.  With $MAKE_TRACE_PARTITIONS streams 0
 * and 1 are alpha's and the others beta's, whose blocks run on SMs of their own, but for so many of alpha's.
 */
#include "base/span.h"
#include "base/thread.h"
#include "profile/cta_batch.h"
#include "profile/session.h"

#include <sched.h>
#include <stdio.h>
#include <stdlib.h>
#include <unistd.h>

static void emit(const char *track, enum gy_span_category category, const char *name, uint64_t begin,
                 uint64_t end, uint64_t id)
{
    static const char *const categories[] = {"task", "phase", "launch", "batch", "wait", "submit", "memory"};
    gy_span_emit(category, name, begin, end, id);
    printf("%s\t%s\t%s\t%llu\t%llu\t%llu\n", track, categories[category], name, (unsigned long long)begin,
           (unsigned long long)end, (unsigned long long)id);
}

static void gd(void *arg)
{
    uint64_t t = *(uint64_t *)arg;
    for (uint64_t batch = 0; batch < 300; batch++, t += 1000) {
        for (uint64_t i = 0; i < 10; i++) {
            char name[32]; /* 3000 names: more than one table of them */
            snprintf(name, sizeof(name), "launch %u", (unsigned)(batch * 10 + i));
            gy_span_add_flow(batch == 0 && i < 4 ? 1000 + i : 0); /* to the kernels */
            emit("gantry GD", GY_SPAN_LAUNCH, name, t + 20 + i * 10, t + 30 + i * 10, i);
        }
        emit("gantry GD", GY_SPAN_PHASE, "Kernel", t + 10, t + 500, batch);
        emit("gantry GD", GY_SPAN_BATCH, "batch", t, t + 900, batch);
    }
}

static void worker(void *arg)
{
    uint64_t t = *(uint64_t *)arg;
    emit("gantry worker 0", GY_SPAN_TASK, "a", t + 100, t + 200, 1);
    emit("gantry worker 0: overlapping", GY_SPAN_TASK, "b", t + 150, t + 250, UINT64_MAX);
    emit("gantry worker 0", GY_SPAN_WAIT, "nothing", t + 300, t + 300, 0);
    emit("gantry worker 0", GY_SPAN_MEMORY, "waiting for memory", t + 400720, t + 401480, 0);
    emit("gantry worker 0", GY_SPAN_TASK, "slow", t + 401700, t + 403590, 2);
}

/* Two batches in GPU time; they overlap, so the track has two lines. */
static void gpu_batches(uint64_t t, uint32_t number)
{
    static const uint64_t batches[][3] = {{100, 300, 4}, {200, 600, 7}};
    for (uint64_t i = 0; i < 2; i++) {
        const struct gy_gpu_slice slice = {.gpu = number,
                                           .name = "batch",
                                           .begin_ns = t + batches[i][0],
                                           .end_ns = t + batches[i][1],
                                           .id = 31 + i,
                                           .tasks = batches[i][2]};
        gy_profile_gpu_slice(gy_profile_generation(), &slice);
        printf("batches\tgpu_batch\tbatch\t%llu\t%llu\t%llu\n", (unsigned long long)slice.begin_ns,
               (unsigned long long)slice.end_ns, (unsigned long long)slice.id);
    }
}

static const char *partition_of(uint32_t stream)
{
    return getenv("MAKE_TRACE_PARTITIONS") == NULL ? NULL : stream < 2 ? "alpha" : "beta";
}

static void gpu(uint64_t t)
{
    uint64_t generation = gy_profile_generation();
    uint32_t number = gy_profile_add_gpu(generation, "GPU 0: example");
    /* Idle for 500 (nothing ready), 800 (memory) and 2000 (a CPU task) once the batches are over. */
    static const uint64_t late[][2] = {
        {400000, 400100}, {400600, 400700}, {401500, 401600}, {403600, 403700}};
    for (uint64_t i = 0; i < 4; i++) {
        struct gy_gpu_slice slice = {.gpu = number,
                                     .stream = 1,
                                     .partition = partition_of(1),
                                     .name = "late",
                                     .begin_ns = t + late[i][0],
                                     .end_ns = t + late[i][1],
                                     .id = 100 + i};
        gy_profile_gpu_slice(generation, &slice);
        printf("stream 1\tgpu\tlate\t%llu\t%llu\t%llu\n", (unsigned long long)slice.begin_ns,
               (unsigned long long)slice.end_ns, (unsigned long long)slice.id);
    }
    for (uint64_t i = 0; i < 50; i++) {
        struct gy_gpu_slice slice = {.gpu = number,
                                     .stream = (uint32_t)(i % 3),
                                     .partition = partition_of((uint32_t)(i % 3)),
                                     .name = "kernel",
                                     .begin_ns = t + i * 10,
                                     .end_ns = t + i * 10 + 45, /* it overlaps the one after the next two */
                                     .id = i};
        gy_profile_gpu_slice(generation, &slice);
        printf("stream %u\tgpu\tkernel\t%llu\t%llu\t%llu\n", slice.stream, (unsigned long long)slice.begin_ns,
               (unsigned long long)slice.end_ns, (unsigned long long)i);
    }
    gpu_batches(t, number);
}

/* ---- blocks of kernels ---- */

enum { BLOCKS = 400, LAUNCHES = 4, SMS = 5 };

enum { RANGES = 16, WITH_RANGES = 12 }; /* of the last launch: records of a block, and blocks that have any */

static gantry_cta_record records[LAUNCHES * BLOCKS + BLOCKS * RANGES];
static struct gy_cta_launch launches[LAUNCHES];
static uint32_t first_kernel;
static uint64_t many_begin_ns;

static void done(struct gy_cta_batch *batch)
{
    (void)batch;
}

/* In block b of the last launch, which began at `start`: a range `load`, and within `compute`, which begins
 * at the same time, another one without a name.  A range that overlaps does not lie within any other.  In
 * the first block ranges have been lost. */
static void ranges(uint32_t b, uint64_t start)
{
    static const struct {
        uint32_t id, from, to, group;
        const char *name;
    } all[] = {{0, 0, 100, 0, "load"},
               {2, 100, 150, 0, "range 2"},
               {1, 100, 300, 0, "compute"},
               {0, 250, 400, 0, "load"},
               {1, 10, 20, 1, "compute"}};
    gantry_range_record *at = (void *)&records[LAUNCHES * BLOCKS + b * RANGES];
    for (uint32_t i = 0; i < sizeof(all) / sizeof(all[0]); i++) {
        uint32_t place = all[i].group * RANGES / 2 + i;
        at[place] = (gantry_range_record){start + 5000 + all[i].from, all[i].to - all[i].from,
                                          all[i].id | all[i].group << 16 | GANTRY_RANGE_IS_ONE};
        printf("group %u, SM %03u\trange\t%s\t%llu\t%llu\t%u\n", all[i].group, b % SMS, all[i].name,
               (unsigned long long)start + all[i].from, (unsigned long long)start + all[i].to, LAUNCHES - 1);
    }
    if (b == 0) {
        at[RANGES - 1] = (gantry_range_record){7, 0, 1u | 1u << 16 | GANTRY_RANGE_IS_NOTE};
    }
}

static uint32_t sm_of(uint32_t launch, uint32_t b)
{
    const char *strays = getenv("MAKE_TRACE_PARTITIONS");
    const bool is_elsewhere =
        strays != NULL && (launch >= 2 || (launch == 0 && b < strtoul(strays, NULL, 10)));
    return b % SMS + (is_elsewhere ? SMS : 0);
}

/* GPU time is host time + 5000; launches overlap by halves, with two blocks at once on each SM. */
static void blocks(uint64_t t)
{
    static const char *const names[] = {"even", "odd"};
    static struct gy_cta_batch batch;
    for (uint32_t l = 0; l < LAUNCHES; l++) {
        uint64_t base = t + l * 20000;
        launches[l] = (struct gy_cta_launch){.first = l * BLOCKS,
                                             .count = BLOCKS,
                                             .ranges = l == LAUNCHES - 1 ? RANGES : 0,
                                             .kernel = first_kernel + l % 2,
                                             .stream = l,
                                             .id = l,
                                             .flow = 1000 + l,
                                             .copies = {l, {l * 1000000, 0, l == 3 ? 500000 : 0}},
                                             .launched_ns = base,
                                             .ended_ns = t + 10000000};
        for (uint32_t b = 0; b < BLOCKS; b++) {
            uint64_t start = base + 100 + b / (SMS * 2) * 1000 + b % 7;
            records[l * BLOCKS + b] = (gantry_cta_record){
                start + 5000, 900, sm_of(l, b) | (first_kernel + l % 2) << GANTRY_CTA_SM_BITS};
            printf("SM %03u\t\t%s\t%llu\t%llu\t%u\n", sm_of(l, b), names[l % 2], (unsigned long long)start,
                   (unsigned long long)start + 900, b);
            if (l == LAUNCHES - 1 && b < WITH_RANGES) {
                ranges(b, start);
            }
        }
        printf("stream %u: kernels\tkernel\t%s\t%llu\t%llu\t%u\n", l, names[l % 2],
               (unsigned long long)base + 100,
               (unsigned long long)base + 100 + (BLOCKS - 1) / (SMS * 2) * 1000 + 6 + 900, l);
    }
    if (getenv("MAKE_TRACE_TAKE") != NULL) { /* one block of the first launch did all the others */
        for (uint32_t b = 1; b < BLOCKS; b++) {
            records[b] = (gantry_cta_record){0, GANTRY_CTA_TAKEN, 0};
        }
    }
    batch = (struct gy_cta_batch){.done = done,
                                  .records = records,
                                  .launches = launches,
                                  .launch_count = LAUNCHES,
                                  .used = LAUNCHES * BLOCKS + BLOCKS * RANGES,
                                  .blocks = LAUNCHES * BLOCKS,
                                  .gpu = 1,
                                  .number = 7,
                                  .seen_ns = t + 10000000,
                                  .clock = {.gpu_ns = t + 5000, .host_ns = t, .bound_ns = 50, .rate = 1}};
    (void)gy_profile_add_ctas(gy_profile_generation(), &batch);
}

/* ---- for measuring: millions of blocks through the writer ---- */

enum { BATCH = 100000, BATCH_SMS = 132, RESIDENT = 16, BATCHES = 8 };

/* Batch n has the records of n % BATCHES; its clock puts them behind batch n - 1. */
static struct many_batch {
    struct gy_cta_batch base;
    atomic_uint busy; /* atomic: the writer has it */
    struct gy_cta_launch launch;
} many[BATCHES];

static void many_done(struct gy_cta_batch *batch)
{
    atomic_store(&((struct many_batch *)batch)->busy, 0);
}

/* As on a device, an SM takes the next block when one of its blocks has ended. */
static bool make_many(struct many_batch *batch)
{
    static uint64_t ends[BATCH_SMS][RESIDENT];
    gantry_cta_record *made = calloc(BATCH, sizeof(*made));
    for (uint32_t i = 0; i < BATCH_SMS * RESIDENT; i++) {
        ends[i % BATCH_SMS][i / BATCH_SMS] = 1 + i;
    }
    for (uint32_t b = 0; made != NULL && b < BATCH; b++) {
        uint64_t *first = ends[b % BATCH_SMS];
        for (uint32_t i = 1; i < RESIDENT; i++) {
            uint64_t *other = &ends[b % BATCH_SMS][i];
            first = *other < *first ? other : first;
        }
        uint32_t ns = 8000 + b * 2654435761u % 900;
        made[b] = (gantry_cta_record){*first + 500, ns, b % BATCH_SMS | first_kernel << GANTRY_CTA_SM_BITS};
        *first += 500 + ns;
    }
    batch->base.records = made;
    return made != NULL;
}

static int write_many(uint64_t millions)
{
    uint64_t now = gy_clock_ns();
    for (uint32_t i = 0; i < BATCHES; i++) {
        if (!make_many(&many[i])) {
            return 1;
        }
    }
    uint64_t begin = gy_clock_ns();
    for (uint64_t n = 0; n < millions * 10; n++) {
        struct many_batch *batch = &many[n % BATCHES];
        while (atomic_load(&batch->busy) != 0) {
            sched_yield();
        }
        batch->launch =
            (struct gy_cta_launch){.count = BATCH, .kernel = first_kernel, .ended_ns = UINT64_MAX / 4};
        batch->base = (struct gy_cta_batch){
            .done = many_done,
            .records = batch->base.records,
            .launches = &batch->launch,
            .launch_count = 1,
            .used = BATCH,
            .blocks = BATCH,
            .gpu = 1,
            .number = n,
            .seen_ns = UINT64_MAX / 4,
            .clock = {
                .host_ns = now + n * (BATCH / (BATCH_SMS * RESIDENT) + 1) * 10000, .bound_ns = 1, .rate = 1}};
        atomic_store(&batch->busy, 1);
        if (!gy_profile_add_ctas(gy_profile_generation(), &batch->base)) {
            return 1;
        }
    }
    many_begin_ns = begin;
    return 0;
}

int main(int argc, char **argv)
{
    gantry_profile_options options = GANTRY_PROFILE_OPTIONS_INIT;
    options.path = argc >= 2 ? argv[1] : NULL;
    options.ctas = argc == 3 ? GANTRY_PROFILE_CTAS_EACH : GANTRY_PROFILE_CTAS_BLOCKS;
    options.compress = getenv("MAKE_TRACE_COMPRESS") != NULL;
    const char *encoders = getenv("MAKE_TRACE_ENCODERS");
    options.encoders = encoders != NULL ? (uint8_t)strtoul(encoders, NULL, 10) : 0;
    static const char *const kernels[] = {"even", "odd"};
    if (gantry_profile_register_kernels(kernels, 2, &first_kernel) != GANTRY_OK) {
        return 1;
    }
    static const char *const stages[] = {"load", "compute"};
    gantry_profile *profile;
    if (gantry_profile_name_ranges(first_kernel + 1, stages, 2) != GANTRY_OK ||
        gantry_profile_start(&options, &profile) != GANTRY_OK) {
        fprintf(stderr, "%s\n", gantry_last_error());
        return 1;
    }
    if (argc == 3) {
        (void)gy_profile_add_gpu(gy_profile_generation(), "GPU 0: example");
        int failed = write_many(strtoull(argv[2], NULL, 10));
        gantry_status status = gantry_profile_stop(profile, NULL);
        for (uint32_t i = 0; i < BATCHES; i++) {
            free(many[i].base.records);
        }
        printf("%.3f s\n", (double)(gy_clock_ns() - many_begin_ns) / 1e9);
        return failed != 0 || status != GANTRY_OK;
    }
    uint64_t t = gy_clock_ns();
    gy_thread thread;
    if (gy_thread_start(&thread, "gantry GD", gd, &t) == GANTRY_OK) {
        gy_thread_join(&thread);
    }
    if (gy_thread_start(&thread, "gantry worker 0", worker, &t) == GANTRY_OK) {
        gy_thread_join(&thread);
    }
    gpu(t);
    blocks(t);
    if (getenv("MAKE_TRACE_LOSE") != NULL) {
        gy_profile_count_lost_ctas(gy_profile_generation(), 16);
    }
    while (getenv("MAKE_TRACE_HANG") != NULL) {
        (void)fflush(stdout);
        pause();
    }
    if (gantry_profile_stop(profile, NULL) != GANTRY_OK) {
        fprintf(stderr, "%s\n", gantry_last_error());
        return 1;
    }
    return 0;
}
