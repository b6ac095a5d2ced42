/* SPDX-License-Identifier: MIT */
/* `gantry bench profile`: what a recording costs the kernels it sees.
 *
 * One run is a task that launches a kernel of many blocks again and again; it is timed until the last launch
 * has ended.  Ours: the kernel with the macros, while a recording runs (on) or with a NULL buffer (off).
 * Yardstick: the same kernel without the macros, nothing recorded; `same` runs that kernel on both sides,
 * and so says which differences are too small to mean anything; in `longer` each thread of ours multiplies
 * eight times more, as a scale.  The work of a block is calibrated so that it takes about 2 or 10 us, while
 * its SM is full (16 blocks of 128 threads) or has 4 of them, which take so much shared memory.  The
 * launches of a run are of eight kernels in turn, see profile_work.h.  The beginning of a recording, which
 * compares clocks and makes buffers, is not timed.
 *
 * records: the time of a recording of short blocks, from its first launch until every record is read and the
 * file is closed.  For launches it says what it takes to get the records from the device and to read them,
 * and has no yardstick; for blocks a slice is written for each one as well, and the yardstick is the same
 * with one thread that encodes.  The last lines are not times but errors of clocks: those that the
 * recordings state, and those that SMs find which send each other the time.
 *
 * On the emulated driver the figures say what the emulator does, not what a device would. */
#include "bench/bench_profile_ways.h"
#include "bench/harness.h"
#include "bench/profile_ways.h"
#include "cli/messages.h"

#include "profile_kernels_bench.kernels.h"
#include "profile_own_clock_bench.kernels.h"

#include <gantry/profile.h>

#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

#define THREADS 128u
#define COUNTERS (BENCH_COUNTERS * BENCH_COUNTER_WORDS * sizeof(uint32_t))
#define RESIDENT 16u       /* an SM has room for so many blocks of THREADS threads: 2048 threads */
#define FEW 4u             /* the number of resident blocks with so much shared memory each: */
#define SHARED (48u << 10) /* what a block may have without being asked for */

enum side { PLAIN_SIDE, LONGER_SIDE, RECORDED_SIDE };

struct profile_bench {
    gantry_context *context;
    gantry_cpu_dispatcher *cpus;
    gantry_taskman *manager;
    gantry_task *done; /* of the current run: it starts when the GPU has finished */
    gantry_kernel *plain[2][BENCH_SHIFTS], *longer[2][BENCH_SHIFTS]; /* by is_loads */
    gantry_kernel *recorded[2][BENCH_SHIFTS];                        /* likewise */
    gantry_kernel *own_clock[BENCH_SHIFTS], *ping_pong;
    bool is_loads, is_few, emulated;
    uint32_t sms;
    uint32_t first_kernel;
    uint32_t *counted; /* page-locked: how many blocks of the latest run have run */
    void *counter;     /* on the device: the same counters while the blocks run, and the sink behind them */
    void *data;        /* on the device: zeros */
    uint32_t blocks, launches; /* of a run */
    uint32_t steps;
    enum side side; /* the kernels that the current run launches */
    bool records;   /* the case records while ours runs */
    gantry_profile *profile;
    gantry_profile_ctas what;
    gantry_profile_clock clock;
    uint8_t encoders;                              /* 0: as many as a recording chooses by itself */
    uint64_t ctas, ctas_lost, bytes, alignment_ns; /* of the recordings of a case */
    uint64_t sm_alignment_ns;                      /* of all */
    char path[64];
};

static bool ok(gantry_status status)
{
    return bench_ok("profile", status);
}

static gantry_kernel **kernels_of(struct profile_bench *b)
{
    switch (b->side) {
    case PLAIN_SIDE:
        return b->plain[b->is_loads];
    case LONGER_SIDE:
        return b->longer[b->is_loads];
    default:
        return b->clock == GANTRY_PROFILE_CLOCK_SM ? b->own_clock : b->recorded[b->is_loads];
    }
}

static gantry_launch_result launch_work(gantry_launch *launch, void *arg)
{
    struct profile_bench *b = arg;
    gantry_dim3 grid = {b->blocks, 1, 1}, block = {THREADS, 1, 1};
    void *sink = (char *)b->counter + COUNTERS;
    if (gantry_launch_index(launch) == 0 &&
        gantry_launch_fill(launch, b->counter, 0, 1, COUNTERS) != GANTRY_OK) {
        return GANTRY_LAUNCH_FAILED;
    }
    bool records = b->side == RECORDED_SIDE;
    void *profile = records ? gantry_launch_profile(launch, b->first_kernel, grid) : NULL;
    void *args[] = {&b->steps, &b->data, &b->counter, &sink, &profile, &b->first_kernel};
    if (gantry_launch_kernel(launch, kernels_of(b)[gantry_launch_index(launch) % BENCH_SHIFTS], grid, block,
                             b->is_few ? SHARED : 0, args) != GANTRY_OK) {
        return GANTRY_LAUNCH_FAILED;
    }
    if (gantry_launch_index(launch) + 1 < b->launches) {
        return GANTRY_LAUNCH_AGAIN;
    }
    bool good = gantry_launch_copy_dtoh(launch, b->counted, b->counter, COUNTERS) == GANTRY_OK &&
                gantry_launch_add_completion(launch, b->done) == GANTRY_OK;
    return good ? GANTRY_LAUNCH_DONE : GANTRY_LAUNCH_FAILED;
}

static gantry_status do_nothing(gantry_task *task, void *arg)
{
    (void)task;
    (void)arg;
    return GANTRY_OK;
}

static bool build(struct profile_bench *b)
{
    gantry_task_desc work = GANTRY_TASK_DESC_INIT, done = GANTRY_TASK_DESC_INIT;
    work.kind = GANTRY_TASK_KERNEL;
    work.label = "work";
    work.launch = launch_work;
    work.arg = b;
    done.name = "done";
    done.run = do_nothing;
    gantry_task *first;
    memset(b->counted, 0, COUNTERS);
    return ok(gantry_taskman_reset(b->manager)) && ok(gantry_taskman_submit(b->manager, &work, &first)) &&
           ok(gantry_taskman_submit(b->manager, &done, &b->done)) &&
           ok(gantry_task_start_after(b->done, first));
}

static bool prepare_plain(void *arg)
{
    struct profile_bench *b = arg;
    b->side = PLAIN_SIDE;
    return build(b);
}

static bool prepare_longer(void *arg)
{
    struct profile_bench *b = arg;
    b->side = LONGER_SIDE;
    return build(b);
}

static bool run(void *arg)
{
    struct profile_bench *b = arg;
    return ok(gantry_taskman_start(b->manager)) && ok(gantry_taskman_stop(b->manager));
}

/* Start a recording, and launch once so that it sees the device. */
static bool start(struct profile_bench *b)
{
    gantry_profile_options options = GANTRY_PROFILE_OPTIONS_INIT;
    options.path = b->path;
    options.buffers = 64;
    options.ctas = b->what;
    options.clock = b->clock;
    options.encoders = b->encoders;
    uint32_t launches = b->launches;
    b->launches = 1;
    bool good = ok(gantry_profile_start(&options, &b->profile)) && build(b) && run(b);
    b->launches = launches;
    return good;
}

static bool prepare_ours(void *arg)
{
    struct profile_bench *b = arg;
    b->side = RECORDED_SIDE;
    return (!b->records || start(b)) && build(b);
}

static bool prepare_ours_encoded_by_one(void *arg)
{
    struct profile_bench *b = arg;
    b->encoders = 1;
    bool good = prepare_ours(b);
    b->encoders = 0;
    return good;
}

static bool verify_plain(void *arg)
{
    struct profile_bench *b = arg;
    uint64_t blocks = 0;
    for (uint32_t i = 0; i < BENCH_COUNTERS; i++) {
        blocks += b->counted[i * BENCH_COUNTER_WORDS];
    }
    return blocks == (uint64_t)b->blocks * b->launches;
}

static bool stop(struct profile_bench *b)
{
    gantry_profile_stats stats = {.struct_size = sizeof(stats)};
    bool good = ok(gantry_profile_stop(b->profile, &stats));
    b->profile = NULL;
    b->ctas += stats.ctas;
    b->ctas_lost += stats.ctas_lost;
    b->bytes += stats.bytes;
    b->alignment_ns = stats.cta_alignment_ns > b->alignment_ns ? stats.cta_alignment_ns : b->alignment_ns;
    b->sm_alignment_ns =
        stats.sm_alignment_ns > b->sm_alignment_ns ? stats.sm_alignment_ns : b->sm_alignment_ns;
    return good && stats.ctas == (uint64_t)b->blocks * (b->launches + 1) && stats.ctas_lost == 0;
}

/* Every block ran, and the recording has every one of them. */
static bool verify_ours(void *arg)
{
    struct profile_bench *b = arg;
    bool good = verify_plain(b);
    return (!b->records || stop(b)) && good;
}

static bool run_to_the_file(void *arg)
{
    struct profile_bench *b = arg;
    bool good = run(b);
    return stop(b) && good;
}

static uint64_t now_ns(void)
{
    struct timespec t;
    clock_gettime(CLOCK_MONOTONIC, &t);
    return (uint64_t)t.tv_sec * 1000000000u + (uint64_t)t.tv_nsec;
}

/* Time of a run with so many steps per block; 0 when it failed. */
static uint64_t time_steps(struct profile_bench *b, uint32_t steps)
{
    uint64_t best = 0;
    b->steps = steps;
    for (int i = 0; i < 3; i++) {
        if (!prepare_plain(b)) {
            return 0;
        }
        uint64_t begin = now_ns();
        if (!run(b)) {
            return 0;
        }
        uint64_t ns = now_ns() - begin;
        best = best == 0 || ns < best ? ns : best;
    }
    return best;
}

static uint32_t resident_of(const struct profile_bench *b)
{
    return b->is_few ? FEW : RESIDENT;
}

static void set_blocks(struct profile_bench *b)
{
    b->blocks = b->emulated ? 64 : b->sms * resident_of(b) * 56;
}

/* What a step costs a block on a full SM: computed from runs of two lengths. */
static bool calibrate(struct profile_bench *b, double *ns_per_step)
{
    set_blocks(b);
    uint32_t least = b->is_loads ? 10 : 50, most = 6 * least;
    uint64_t few = time_steps(b, least), many = time_steps(b, most);
    if (few == 0 || many <= few) {
        cli_error("bench profile: the work cannot be calibrated");
        return false;
    }
    double rounds = (double)b->blocks * b->launches / (b->sms * resident_of(b));
    *ns_per_step = (double)(many - few) / (most - least) / rounds;
    return true;
}

static void print_recording(const struct profile_bench *b, const struct bench_options *options)
{
    if (!options->json && !options->emulated && b->ctas != 0) {
        fprintf(options->out,
                "  %-24s %llu blocks, %llu lost, %.1f bytes each in the file, within %llu ns, SMs within "
                "%llu ns\n",
                "", (unsigned long long)b->ctas, (unsigned long long)b->ctas_lost,
                (double)b->bytes / (double)b->ctas, (unsigned long long)b->alignment_ns,
                (unsigned long long)b->sm_alignment_ns);
    }
}

/* Blocks per second until the last record is in the file, with one slice per launch or one per block. */
static bool run_records(struct profile_bench *b, const struct bench_options *options, const char *name,
                        gantry_profile_ctas what)
{
    b->records = true;
    b->what = what;
    b->ctas = b->ctas_lost = b->bytes = b->alignment_ns = b->sm_alignment_ns = 0;
    struct bench_case one = {
        .name = name,
        .item = "block",
        .items = (uint64_t)b->blocks * b->launches,
        .ours = {.prepare = prepare_ours, .run = run_to_the_file, .verify = verify_plain},
        .arg = b,
    };
    if (what == GANTRY_PROFILE_CTAS_EACH) {
        one.yardstick = one.ours;
        one.yardstick.name = "one-encoder";
        one.yardstick.prepare = prepare_ours_encoded_by_one;
    }
    bool good = bench_run(options, &one, NULL);
    print_recording(b, options);
    b->what = GANTRY_PROFILE_CTAS_EACH;
    return good;
}

/* An error in ns, as a line like the others. */
static void report_error(const struct bench_options *options, const char *name, uint64_t ns)
{
    struct bench_case one = {.name = name, .item = "clock", .items = 1};
    struct bench_result result = {.min_ns = (double)ns, .median_ns = (double)ns, .verified = true};
    bench_report(options, &one, &result);
}

/* A kernel of ours against the plain one, pair by pair: the difference is far below that of two runs. */
struct kernel_case {
    const char *name;
    double block_ns;
    bool is_loads, is_few;
    enum side side;
    bool records;
    gantry_profile_clock clock;
};

static bool run_case(struct profile_bench *b, const struct bench_options *options,
                     const struct kernel_case *which, uint32_t pairs)
{
    b->records = which->records;
    b->is_loads = which->is_loads;
    b->is_few = which->is_few;
    b->clock = which->clock;
    set_blocks(b);
    b->what =
        GANTRY_PROFILE_CTAS_KERNELS; /* the kernels do the same as for EACH, and the writer is soon done */
    b->ctas = b->ctas_lost = b->bytes = b->alignment_ns = b->sm_alignment_ns = 0;
    struct bench_side plain = {
        .name = "no-macros", .prepare = prepare_plain, .run = run, .verify = verify_plain};
    struct bench_case one = {
        .name = which->name,
        .item = "block",
        .items = (uint64_t)b->blocks * b->launches,
        .pairs = pairs,
        .ours = {.prepare = prepare_ours, .run = run, .verify = verify_ours},
        .yardstick = plain,
        .arg = b,
    };
    one.ours = which->side == RECORDED_SIDE ? one.ours : plain;
    one.ours.prepare = which->side == LONGER_SIDE ? prepare_longer : one.ours.prepare;
    bool good = bench_run(options, &one, NULL);
    print_recording(b, options);
    b->is_loads = b->is_few = false;
    set_blocks(b);
    b->clock = GANTRY_PROFILE_CLOCK_GLOBAL;
    b->what = GANTRY_PROFILE_CTAS_EACH;
    return good;
}

/* Compare the clocks of SMs with each other; the emulator has none. */
static bool run_ways(struct profile_bench *b, const struct bench_options *options, uint32_t sms)
{
    struct bench_ways ways;
    if (!bench_measure_ways(b->context, b->manager, b->ping_pong, sms, &ways)) {
        cli_error("bench profile: the SMs' clocks could not be compared");
        return false;
    }
    struct bench_case one = {.name = "profile/sm-ping-pong-p99", .item = "clock", .items = 1};
    struct bench_result result = {
        .min_ns = ways.p99_ns, .median_ns = ways.median_ns, .verified = ways.backwards == 0};
    bench_report(options, &one, &result);
    if (!options->json && !options->emulated) {
        fprintf(options->out,
                "  %-24s %u pairs of SMs, at most %.1f ns; %llu messages, the fastest %lld ns, %llu ways "
                "back in time; by these alone within %.1f ns\n",
                "", ways.pairs, ways.most_ns, (unsigned long long)ways.messages, (long long)ways.least_ns,
                (unsigned long long)ways.backwards, ways.bound_p99_ns);
    }
    return result.verified;
}

static bool get(gantry_module *module, const char *kind, uint32_t first, gantry_kernel **out)
{
    for (uint32_t i = 0; i < BENCH_SHIFTS; i++) {
        char name[32];
        snprintf(name, sizeof(name), "%s_%u", kind, first + i);
        if (!ok(gantry_module_get_kernel(module, name, &out[i]))) {
            return false;
        }
    }
    return true;
}

static bool load(struct profile_bench *b)
{
    gantry_module *module, *own_clock;
    return ok(gantry_module_load(b->context, &gantry_image_profile_kernels_bench, &module)) &&
           ok(gantry_module_load(b->context, &gantry_image_profile_own_clock_bench, &own_clock)) &&
           get(module, "plain_work", 0, b->plain[0]) && get(module, "plain_loads", 0, b->plain[1]) &&
           get(module, "plain_work", BENCH_SHIFTS, b->longer[0]) &&
           get(module, "plain_loads", BENCH_SHIFTS, b->longer[1]) &&
           get(module, "recorded_work", 0, b->recorded[0]) &&
           get(module, "recorded_loads", 0, b->recorded[1]) &&
           get(own_clock, "own_clock_work", 0, b->own_clock) &&
           ok(gantry_module_get_kernel(module, "ping_pong", &b->ping_pong));
}

static gantry_launch_result clear_data(gantry_launch *launch, void *arg)
{
    struct profile_bench *b = arg;
    return gantry_launch_fill(launch, b->data, 0, sizeof(uint32_t), BENCH_DATA_WORDS) == GANTRY_OK
               ? GANTRY_LAUNCH_DONE
               : GANTRY_LAUNCH_FAILED;
}

static bool allocate(struct profile_bench *b)
{
    gantry_heap *heap = gantry_context_heap(b->context);
    gantry_task_desc clear = GANTRY_TASK_DESC_INIT;
    gantry_task *task;
    void *counted;
    if (!ok(gantry_heap_alloc(heap, GANTRY_MEMORY_PINNED, COUNTERS, 0, GANTRY_ALLOC_SITE("bench profile"),
                              &counted))) {
        return false;
    }
    b->counted = counted;
    clear.kind = GANTRY_TASK_KERNEL;
    clear.label = "clear";
    clear.launch = clear_data;
    clear.arg = b;
    return ok(gantry_heap_alloc(heap, GANTRY_MEMORY_DEVICE, COUNTERS + 256, 0,
                                GANTRY_ALLOC_SITE("bench profile"), &b->counter)) &&
           ok(gantry_heap_alloc(heap, GANTRY_MEMORY_DEVICE, BENCH_DATA_WORDS * sizeof(uint32_t), 0,
                                GANTRY_ALLOC_SITE("bench profile"), &b->data)) &&
           ok(gantry_taskman_submit(b->manager, &clear, &task)) && ok(gantry_taskman_start(b->manager)) &&
           ok(gantry_taskman_stop(b->manager));
}

static bool open_all(struct profile_bench *b, const struct bench_options *options)
{
    static const char *const names[] = {"recorded_work"};
    gantry_context_options context = GANTRY_CONTEXT_OPTIONS_INIT;
    context.driver = options->driver;
    context.submission = GANTRY_SUBMISSION_STREAMS; /* kernels are compared, not their launches */
    gantry_cpu_dispatcher_options cpus = GANTRY_CPU_DISPATCHER_OPTIONS_INIT;
    cpus.worker_count = 1;
    gantry_taskman_options manager = GANTRY_TASKMAN_OPTIONS_INIT;
    snprintf(b->path, sizeof(b->path), "/tmp/gantry-bench-%d.pftrace", (int)getpid());
    if (!ok(gantry_context_create(&context, &b->context)) ||
        !ok(gantry_cpu_dispatcher_create(&cpus, &b->cpus))) {
        return false;
    }
    manager.cpu_dispatcher = b->cpus;
    manager.gpu_dispatcher = gantry_context_dispatcher(b->context);
    return ok(gantry_taskman_create(&manager, &b->manager)) &&
           ok(gantry_profile_register_kernels(names, 1, &b->first_kernel)) && load(b) && allocate(b);
}

static void close_all(struct profile_bench *b)
{
    (void)gantry_profile_stop(b->profile, NULL);
    gantry_taskman_destroy(b->manager);
    gantry_cpu_dispatcher_destroy(b->cpus);
    if (b->counted != NULL) {
        (void)gantry_heap_free(gantry_context_heap(b->context), b->counted);
    }
    if (b->counter != NULL) {
        (void)gantry_heap_free(gantry_context_heap(b->context), b->counter);
    }
    if (b->data != NULL) {
        (void)gantry_heap_free(gantry_context_heap(b->context), b->data);
    }
    gantry_context_destroy(b->context);
    (void)unlink(b->path);
}

#define OFF_AND_ON(name, ns, is_loads, is_few)                                                      \
    {"profile/off-" name, ns, is_loads, is_few, RECORDED_SIDE, false, GANTRY_PROFILE_CLOCK_GLOBAL}, \
    {                                                                                               \
        "profile/on-" name, ns, is_loads, is_few, RECORDED_SIDE, true, GANTRY_PROFILE_CLOCK_GLOBAL  \
    }

static const struct kernel_case cases[] = {
    {"profile/same-2us", 2000, false, false, PLAIN_SIDE, false, GANTRY_PROFILE_CLOCK_GLOBAL},
    {"profile/longer-2us", 2000, false, false, LONGER_SIDE, false, GANTRY_PROFILE_CLOCK_GLOBAL},
    {"profile/longer-10us", 10000, false, false, LONGER_SIDE, false, GANTRY_PROFILE_CLOCK_GLOBAL},
    {"profile/longer-2us-loads", 2000, true, false, LONGER_SIDE, false, GANTRY_PROFILE_CLOCK_GLOBAL},
    {"profile/longer-10us-loads", 10000, true, false, LONGER_SIDE, false, GANTRY_PROFILE_CLOCK_GLOBAL},
    OFF_AND_ON("2us", 2000, false, false),
    OFF_AND_ON("10us", 10000, false, false),
    OFF_AND_ON("2us-loads", 2000, true, false),
    OFF_AND_ON("10us-loads", 10000, true, false),
    OFF_AND_ON("2us-few", 2000, false, true),
    OFF_AND_ON("10us-few", 10000, false, true),
    OFF_AND_ON("2us-few-loads", 2000, true, true),
    OFF_AND_ON("10us-few-loads", 10000, true, true),
    {"profile/on-10us-sm-clock", 10000, false, false, RECORDED_SIDE, true, GANTRY_PROFILE_CLOCK_SM},
};

static bool run_kernel_cases(struct profile_bench *b, const struct bench_options *options)
{
    bool emulated = b->emulated;
    double ns_per_step[2][2];
    bool good = true;
    for (uint32_t i = 0; i < (emulated ? 1 : 4); i++) { /* in the emulator nothing waits for memory */
        b->is_loads = i % 2 == 1;
        b->is_few = i / 2 == 1;
        if (!calibrate(b, &ns_per_step[b->is_loads][b->is_few])) {
            return false;
        }
    }
    for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
        const struct kernel_case *c = &cases[i];
        if (emulated && (c->is_loads || c->is_few)) {
            continue;
        }
        b->steps = (uint32_t)(c->block_ns / ns_per_step[c->is_loads][c->is_few]) + 1;
        b->launches = emulated ? 2 : BENCH_SHIFTS * (c->records ? 6 : 8);
        good = run_case(b, options, c, emulated ? 1 : c->records ? 4 : 6) && good;
    }
    b->steps = (uint32_t)(2000 / ns_per_step[0][0]) + 1;
    return good;
}

static bool run_cases(struct profile_bench *b, const struct bench_options *options)
{
    gantry_device_info info = {.struct_size = sizeof(info)};
    if (!ok(gantry_context_device_info(b->context, &info))) {
        return false;
    }
    b->sms = info.total_sms;
    b->emulated = info.emulated;
    b->launches = info.emulated ? 2 : BENCH_SHIFTS;
    bool good = run_kernel_cases(b, options);
    struct bench_options few = *options;
    few.runs = few.runs < 3 ? few.runs : 3; /* these are long */
    b->launches = info.emulated ? 4 : 28;
    good = run_records(b, &few, "profile/records-of-launches", GANTRY_PROFILE_CTAS_KERNELS) && good;
    good = run_records(b, &few, "profile/records-of-blocks", GANTRY_PROFILE_CTAS_EACH) && good;
    report_error(options, "profile/host-to-gpu", b->alignment_ns);
    if (b->sm_alignment_ns != 0) { /* the measurement succeeded */
        report_error(options, "profile/sm-to-sm-p99", b->sm_alignment_ns);
    }
    return (info.emulated || run_ways(b, options, b->sms)) && good;
}

static bool bench_profile(const struct bench_options *options)
{
    struct profile_bench *b = calloc(1, sizeof(*b));
    if (b == NULL) {
        return false;
    }
    bool good = open_all(b, options) && run_cases(b, options);
    close_all(b);
    free(b);
    return good;
}

const struct gantry_bench gantry_bench_profile = {
    .name = "profile",
    .summary = "what a recording costs kernels, block by block",
    .help = "A kernel with the macros of <gantry/profile_kernel.h>, recorded (on) or with no recording "
            "(off), against\n"
            "the same kernel without them; 'same' has that kernel on both sides.\n"
            "\n"
            "  records          20 million blocks, from the first launch until the file is closed\n",
    .main = bench_profile,
};
