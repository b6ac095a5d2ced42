/* SPDX-License-Identifier: MIT */
/* Random chains of all launch functions with random arguments, at, around and beyond the ends of their
 * ranges, which change from step to step while the shape stays.
 *
 *   test_campaign_values [--seeds N] [--first SEED] [--steps N] [--huge 0|1]
 *
 * A seed is a chain (values.h): it runs on streams, as graphs or in auto, built anew in each step, frozen, or
 * frozen of stable tasks, on one or two devices, or in partitions.  In each step one field of one call
 * changes alone, or one call, or everything, or nothing.  Memory is filled with noise before each step and
 * compared with a model on the CPU behind it.  Before some calls another one is made that must be refused,
 * with the same status in each way.  --huge 1 also copies and fills more than 4 GiB.  Without options each
 * field must have changed alone in a few steps that were patches of graphs, or, where no graph can be patched
 * with it, a graph. */
#include "context/context.h"
#include "tests/campaign/values_huge.h"
#include "tests/campaign/values_launch.h"
#include "tests/support/gpu_fixture.h"

#include "values_kernels.kernels.h"

#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#if defined(__SANITIZE_ADDRESS__) || defined(__SANITIZE_THREAD__)
enum { SANITIZED = 1 };
#else
enum { SANITIZED = 0 };
#endif

enum {
    STEPS = 6,
    SEEDS = 1600,
    SKIPPED = 77,
    LEAST = 1, /* steps in which a field has changed alone */
    NOISE = 1 << 20,
};

enum world { WORLD_ONE, WORLD_PARTITIONS, WORLD_TWO_DEVICES, WORLDS };
static const char *const world_names[WORLDS] = {"one device", "partitions", "two devices"};

enum form { FORM_FRESH, FORM_FROZEN, FORM_STABLE, FORMS };
static const char *const form_names[FORMS] = {"built anew", "frozen", "stable"};

static const char *const submission_names[] = {"default", "streams", "graphs", "auto"};

static struct {
    uint64_t seed;
    uint32_t steps, step;
    enum world world;
    enum form form;
    gantry_submission submission;
    enum value_change change;
    struct value_rng rng;
    gantry_fleet *fleet;
    gantry_taskman *manager;
    gantry_task *tasks[VALUE_NODES];
    struct value_chain chain, before; /* before: in the step before */
    struct value_memory expected, found;
    uint8_t noise[NOISE];
} s;

static uint64_t alone[VALUE_FIELDS], alone_in_graphs[VALUE_FIELDS], patched_steps, graph_steps, all_steps;

void value_broken(const char *format, ...)
{
    static const char *const changes[VALUE_CHANGES] = {
        "nothing", "one field", "one call", "all values", "the kind of a call", "the last one back"};
    const char *field = value_field_name(value_field_changed);
    va_list args;
    va_start(args, format);
    fprintf(stderr, "seed %llu (%s, %s, %s), step %u, in which changed %s%s%s: ", (unsigned long long)s.seed,
            world_names[s.world], submission_names[s.submission], form_names[s.form], s.step,
            changes[s.change], field != NULL ? ", " : "", field != NULL ? field : "");
    (void)vfprintf(stderr, format, args);
    fprintf(stderr, "\n");
    value_print(&s.chain);
    fprintf(stderr, "repeat with --first %llu --seeds 1 --steps %u%s\n", (unsigned long long)s.seed, s.steps,
            s.chain.node_count == 0 ? " --huge 1" : "");
    va_end(args);
    _exit(1);
}

static void must(gantry_status status, const char *what)
{
    if (status != GANTRY_OK) {
        value_broken("%s: %s: %s", what, gantry_status_name(status), gantry_last_error());
    }
}

static uint32_t draw(uint32_t below)
{
    return value_draw(&s.rng, below);
}

/* ---- the world ------------------------------------------------------------------------------------- */

static void *allocate(gantry_context *context, gantry_memory_kind kind, size_t bytes)
{
    void *out = NULL;
    must(gantry_heap_alloc(gantry_context_heap(context), kind, bytes, 256, GANTRY_ALLOC_SITE("values"), &out),
         "memory");
    return out;
}

static void open_device(struct value_device *device, gantry_context *context)
{
    static const char *const names[VALUE_KERNELS] = {"value_scalars", "value_others", "value_middle",
                                                     "value_large"};
    gantry_module *module = NULL;
    device->context = context;
    must(gantry_module_load(context, &gantry_image_values_kernels, &module), "module");
    for (uint32_t i = 0; i < VALUE_KERNELS; i++) {
        must(gantry_module_get_kernel(module, names[i], &device->kernels[i]), "kernel");
    }
    device->memory = allocate(context, GANTRY_MEMORY_DEVICE, VALUE_BYTES);
}

static void open_contexts(void)
{
    gantry_context_options options = GANTRY_CONTEXT_OPTIONS_INIT;
    gantry_partition_request requests[2] = {
        {.struct_size = sizeof(requests[0]),
         .name = "own",
         .size = GANTRY_PARTITION_AT_LEAST,
         .sm_count = 16},
        {.struct_size = sizeof(requests[0]), .name = "rest", .size = GANTRY_PARTITION_REST}};
    gantry_partition_options plan = GANTRY_PARTITION_OPTIONS_INIT;
    plan.requests = requests;
    plan.count = 2;
    gpu_fixture_hold_devices();
    options.driver = gpu_fixture_driver();
    options.mode = GANTRY_CONTEXT_PRIMARY;
    options.partitions = s.world == WORLD_PARTITIONS ? &plan : NULL;
    if (s.world == WORLD_TWO_DEVICES) {
        gantry_fleet_options fleet = GANTRY_FLEET_OPTIONS_INIT;
        fleet.devices = "0,1";
        fleet.context = &options;
        must(gantry_fleet_create(&fleet, &s.fleet), "fleet");
        open_device(&value_setup.devices[0], gantry_fleet_context(s.fleet, 0));
        open_device(&value_setup.devices[1], gantry_fleet_context(s.fleet, 1));
    } else {
        gantry_context *context = NULL;
        must(gantry_context_create(&options, &context), "context");
        open_device(&value_setup.devices[0], context);
    }
}

static bool has_clusters(gantry_context *context)
{
    gantry_launch_options options = GANTRY_LAUNCH_OPTIONS_INIT;
    gantry_occupancy found = {.struct_size = sizeof(found)};
    bool has = true;
    options.cluster = (gantry_dim3){4, 1, 1};
    for (uint32_t i = 0; i < gantry_partition_count(context); i++) {
        has =
            has &&
            gantry_partition_get_occupancy(gantry_partition_at(context, i), value_setup.devices[0].kernels[0],
                                           (gantry_dim3){128, 1, 1}, 4096, &options, &found) == GANTRY_OK &&
            found.clusters > 0;
    }
    return has;
}

/* The calling thread gets the device's context. */
static const struct gy_driver *enter(const struct value_device *device)
{
    const struct gy_driver *driver = device->context->cuda->driver;
    if (driver->cuCtxPushCurrent(device->context->cuda->native) != CUDA_SUCCESS) {
        value_broken("the context cannot be made current");
    }
    return driver;
}

static void leave(const struct gy_driver *driver, CUresult result)
{
    CUcontext context;
    if (result != CUDA_SUCCESS || driver->cuCtxPopCurrent(&context) != CUDA_SUCCESS) {
        value_broken("the driver says %d", (int)result);
    }
}

static void open_world(enum world world)
{
    gantry_taskman_options options = GANTRY_TASKMAN_OPTIONS_INIT;
    memset(&value_setup, 0, sizeof(value_setup));
    s.world = world;
    s.fleet = NULL;
    open_contexts();
    gantry_context *context = value_setup.devices[0].context;
    struct value_world *w = &value_setup.world;
    w->devices = world == WORLD_TWO_DEVICES ? 2 : 1;
    w->partitions = world == WORLD_PARTITIONS ? gantry_partition_count(context) : 0;
    w->partitions = w->partitions > 2 ? 2 : w->partitions;
    for (uint32_t i = 0; i < w->partitions; i++) {
        value_setup.partitions[i + 1] = gantry_partition_at(context, i);
    }
    w->has_clusters = has_clusters(context);
    int least = 0, greatest = 0;
    const struct gy_driver *driver = enter(&value_setup.devices[0]);
    leave(driver, driver->cuCtxGetStreamPriorityRange(&least, &greatest));
    w->least_priority = least;
    w->greatest_priority = greatest;
    value_setup.host = allocate(context, GANTRY_MEMORY_PINNED, VALUE_BYTES);
    value_setup.lists =
        allocate(context, GANTRY_MEMORY_PINNED, VALUE_NODES * VALUE_OPS * sizeof(struct value_lists));
    for (uint32_t i = 0; i < VALUE_NODES; i++) {
        must(gantry_copy_queue_create(VALUE_DESCS, &value_setup.queues[i]), "queue");
    }
    options.gpu_dispatcher = s.fleet == NULL ? gantry_context_dispatcher(context) : NULL;
    options.fleet = s.fleet;
    must(gantry_taskman_create(&options, &s.manager), "manager");
}

static void close_world(void)
{
    gantry_heap *heap = gantry_context_heap(value_setup.devices[0].context);
    gantry_taskman_destroy(s.manager);
    for (uint32_t i = 0; i < VALUE_NODES; i++) {
        gantry_copy_queue_destroy(value_setup.queues[i]);
    }
    must(gantry_heap_free(heap, value_setup.lists), "free");
    must(gantry_heap_free(heap, value_setup.host), "free");
    for (uint32_t i = 0; i < value_setup.world.devices; i++) {
        heap = gantry_context_heap(value_setup.devices[i].context);
        must(gantry_heap_free(heap, value_setup.devices[i].memory), "free");
    }
    if (s.fleet != NULL) {
        gantry_fleet_destroy(s.fleet);
    } else {
        gantry_context_destroy(value_setup.devices[0].context);
    }
}

/* ---- a step ---------------------------------------------------------------------------------------- */

static void write_noise(void)
{
    for (uint32_t i = 0; i < VALUE_SPACES; i++) {
        memcpy(s.expected.bytes[i], s.noise + draw(NOISE - VALUE_BYTES), VALUE_BYTES);
    }
    memcpy(value_setup.host, s.expected.bytes[VALUE_HOST], VALUE_BYTES);
    for (uint32_t i = 0; i < value_setup.world.devices; i++) {
        const struct value_device *device = &value_setup.devices[i];
        const struct gy_driver *driver = enter(device);
        CUresult result =
            driver->cuMemcpyHtoD((CUdeviceptr)(uintptr_t)device->memory, s.expected.bytes[i], VALUE_BYTES);
        result = result == CUDA_SUCCESS ? driver->cuCtxSynchronize() : result;
        leave(driver, result);
    }
}

static void compare(void)
{
    static const char *const names[VALUE_SPACES] = {"the device", "the other device", "the host"};
    for (uint32_t i = 0; i < VALUE_SPACES; i++) {
        for (uint32_t k = 0; k < VALUE_BYTES; k++) {
            if (s.found.bytes[i][k] != s.expected.bytes[i][k]) {
                value_broken("byte %u of the memory of %s is %02x, not %02x", k, names[i],
                             s.found.bytes[i][k], s.expected.bytes[i][k]);
            }
        }
    }
}

static void check(void)
{
    memcpy(s.found.bytes[VALUE_OTHER_DEVICE], s.expected.bytes[VALUE_OTHER_DEVICE], VALUE_BYTES);
    for (uint32_t i = 0; i < value_setup.world.devices; i++) {
        must(gantry_context_synchronize(value_setup.devices[i].context), "synchronise");
    }
    for (uint32_t i = 0; i < value_setup.world.devices; i++) {
        const struct value_device *device = &value_setup.devices[i];
        const struct gy_driver *driver = enter(device);
        leave(driver,
              driver->cuMemcpyDtoH(s.found.bytes[i], (CUdeviceptr)(uintptr_t)device->memory, VALUE_BYTES));
    }
    memcpy(s.found.bytes[VALUE_HOST], value_setup.host, VALUE_BYTES);
    if (memcmp(&s.found, &s.expected, sizeof(s.found)) != 0) {
        compare();
    }
}

/* The node before it on its lane; itself: none. */
static uint32_t find_before(uint32_t node)
{
    for (uint32_t i = node; i-- > 0;) {
        if (s.chain.nodes[i].lane == s.chain.nodes[node].lane) {
            return i;
        }
    }
    return node;
}

static void submit(uint32_t i)
{
    struct value_node *node = &s.chain.nodes[i];
    gantry_task_desc desc = GANTRY_TASK_DESC_INIT;
    desc.kind = (gantry_task_kind)(i % 8 == 7 ? GANTRY_TASK_DTOH : GANTRY_TASK_KERNEL);
    desc.launch = value_launch_node;
    desc.arg = node;
    desc.label = "values";
    desc.is_stable = s.form == FORM_STABLE;
    desc.context = s.fleet != NULL ? value_setup.devices[node->device].context : NULL;
    desc.partition = value_setup.partitions[node->partition];
    must(gantry_taskman_submit(s.manager, &desc, &s.tasks[i]), "submit");
    const uint32_t before[] = {find_before(i), node->after};
    for (uint32_t k = 0; k < 2; k++) {
        if (before[k] != i) {
            must(gantry_task_start_after(s.tasks[i], s.tasks[before[k]]), "edge");
        }
    }
}

/* A stable task keeps its promise where its values stay. */
static void invalidate(void)
{
    for (uint32_t i = 0; i < s.chain.node_count && s.step > 0 && s.form == FORM_STABLE; i++) {
        if (s.chain.nodes[i].has_changed) {
            must(gantry_task_invalidate(s.tasks[i]), "invalidate");
        }
    }
}

static void run_step(void)
{
    const bool is_new = s.form == FORM_FRESH || s.step == 0;
    for (uint32_t i = 0; i < s.chain.node_count && is_new; i++) {
        submit(i);
    }
    if (s.form != FORM_FRESH && is_new) {
        must(gantry_taskman_freeze(s.manager), "freeze");
    }
    invalidate();
    must(gantry_taskman_start(s.manager), "start");
    must(gantry_taskman_stop(s.manager), "stop");
    if (s.form == FORM_FRESH || s.step + 1 == s.steps) {
        must(gantry_taskman_reset(s.manager), "reset");
    }
}

static gantry_dispatcher_stats stats_now(void)
{
    gantry_dispatcher_stats sum = {.struct_size = sizeof(sum)};
    for (uint32_t i = 0; i < value_setup.world.devices; i++) {
        gantry_dispatcher_stats one = {.struct_size = sizeof(one)};
        must(gantry_dispatcher_get_stats(gantry_context_dispatcher(value_setup.devices[i].context), &one),
             "statistics");
        sum.graph_launches += one.graph_launches;
        sum.graph_patches += one.graph_patches;
        sum.graph_nodes_set += one.graph_nodes_set;
    }
    return sum;
}

static void count_step(const gantry_dispatcher_stats *before)
{
    const gantry_dispatcher_stats now = stats_now();
    const bool is_patched =
        now.graph_patches > before->graph_patches && now.graph_nodes_set > before->graph_nodes_set;
    const bool is_graph = now.graph_launches > before->graph_launches;
    all_steps++;
    patched_steps += is_patched;
    graph_steps += is_graph;
    if (s.change == VALUE_ONE_FIELD && value_field_changed < VALUE_FIELDS) {
        alone[value_field_changed] += is_patched;
        alone_in_graphs[value_field_changed] += is_graph;
    }
}

/* ---- a chain --------------------------------------------------------------------------------------- */

static enum world world_of(uint64_t seed)
{
    return seed % 8 < 4 ? WORLD_ONE : seed % 8 < 6 ? WORLD_PARTITIONS : WORLD_TWO_DEVICES;
}

/* Who does batches: the kernel always, the copy engines always, or as is usual. */
static void tune_copies(uint32_t how)
{
    for (uint32_t i = 0; i < value_setup.world.devices && how != 0; i++) {
        gantry_copy_tuning tuning = {.struct_size = sizeof(tuning)};
        must(gantry_copy_get_tuning(value_setup.devices[i].context, &tuning), "tuning");
        for (uint32_t k = 0; k < 3 * GANTRY_COPY_SIZE_CLASSES; k++) {
            tuning.engine_up_to[k / GANTRY_COPY_SIZE_CLASSES][k % GANTRY_COPY_SIZE_CLASSES] =
                how == 1 ? 0 : VALUE_DESCS;
        }
        must(gantry_copy_set_tuning(value_setup.devices[i].context, &tuning), "tuning");
    }
}

/* Draw what is other than in the step before. */
static void change_chain(void)
{
    static struct value_chain last;
    memcpy(&last, &s.chain, sizeof(last));
    if (s.step > 1 && draw(8) == 0) {
        memcpy(&s.chain, &s.before, sizeof(last));
        s.change = VALUE_BACK;
        for (uint32_t i = 0; i < s.chain.node_count; i++) {
            s.chain.nodes[i].has_changed = true;
        }
    } else {
        s.change = value_change_chain(&s.rng, &value_setup.world, &s.chain);
    }
    memcpy(&s.before, &last, sizeof(last));
}

static void run_chain(uint64_t seed)
{
    static const gantry_submission submissions[] = {GANTRY_SUBMISSION_STREAMS, GANTRY_SUBMISSION_GRAPHS,
                                                    GANTRY_SUBMISSION_GRAPHS, GANTRY_SUBMISSION_AUTO};
    s.seed = seed;
    s.rng.state = (seed + 1) * UINT64_C(0x9e3779b97f4a7c15);
    s.submission = submissions[draw(4)];
    s.form = draw(2) == 0 ? FORM_FRESH : (enum form)draw(FORMS);
    s.change = VALUE_ALL_VALUES;
    tune_copies(draw(3));
    for (uint32_t i = 0; i < value_setup.world.devices; i++) {
        must(gantry_dispatcher_set_submission(gantry_context_dispatcher(value_setup.devices[i].context),
                                              s.submission),
             "submission");
    }
    value_draw_chain(&s.rng, &value_setup.world, &s.chain);
    for (s.step = 0; s.step < s.steps; s.step++) {
        if (s.step > 0) {
            change_chain();
        }
        for (uint32_t i = 0; i < s.chain.node_count; i++) {
            value_write_lists(&s.chain.nodes[i]);
        }
        const gantry_dispatcher_stats before = stats_now();
        write_noise();
        run_step();
        value_model_run(&s.chain, &s.expected);
        check();
        count_step(&before);
    }
}

static void run_world(enum world world, uint64_t first, uint64_t seeds, bool has_huge)
{
    bool is_open = false;
    for (uint64_t seed = first; seed < first + seeds; seed++) {
        if (world_of(seed) != world) {
            continue;
        }
        if (!is_open) {
            open_world(world);
            is_open = true;
        }
        run_chain(seed);
    }
    if (is_open && has_huge && world == WORLD_ONE) {
        s.chain.node_count = 0;
        tune_copies(gpu_fixture_driver() == GANTRY_DRIVER_EMULATED ? 2 : 1); /* its kernel takes too long */
        values_run_huge(value_setup.devices[0].context, s.manager);
    }
    if (is_open) {
        close_world();
    }
}

/* ---- the program ----------------------------------------------------------------------------------- */

static uint32_t judge(bool has_all)
{
    uint32_t missing = 0;
    for (uint32_t field = 0; value_field_name(field) != NULL; field++) {
        const bool is_option = value_field_is_option(field);
        const uint64_t steps = is_option ? alone_in_graphs[field] : alone[field];
        if (has_all && steps < LEAST) {
            printf("%s has changed alone in %llu %s\n", value_field_name(field), (unsigned long long)steps,
                   is_option ? "graphs" : "patches");
            missing++;
        }
    }
    return missing;
}

static void make_noise(void)
{
    struct value_rng rng = {.state = 1};
    for (uint32_t i = 0; i < NOISE; i++) {
        s.noise[i] = (uint8_t)value_draw(&rng, 256);
    }
}

int main(int argc, char **argv)
{
    uint64_t seeds = 0, first = 1, steps = STEPS, huge = UINT64_MAX;
    bool understood = argc % 2 == 1;
    for (int i = 1; i + 1 < argc; i += 2) {
        char *end = NULL;
        uint64_t *to = strcmp(argv[i], "--seeds") == 0   ? &seeds
                       : strcmp(argv[i], "--first") == 0 ? &first
                       : strcmp(argv[i], "--steps") == 0 ? &steps
                       : strcmp(argv[i], "--huge") == 0  ? &huge
                                                         : NULL;
        understood = understood && to != NULL && (*to = strtoull(argv[i + 1], &end, 10), *end == '\0');
    }
    if (!understood || steps == 0) {
        fprintf(stderr, "usage: %s [--seeds N] [--first SEED] [--steps N] [--huge 0|1]\n", argv[0]);
        return 2;
    }
    (void)setenv("GANTRY_EMU_DEVICES", "2", 0);
    const bool whole = seeds == 0 && getenv("GANTRY_TEST_LIGHT") == NULL && !SANITIZED;
    huge = huge == UINT64_MAX ? whole : huge;
    const uint64_t count = seeds != 0 ? seeds : whole ? SEEDS : SEEDS / 8;
    const uint32_t devices = gpu_fixture_devices();
    if (devices == 0) {
        printf("skipped: no device\n");
        return SKIPPED;
    }
    s.steps = (uint32_t)steps;
    make_noise();
    gantry_set_log(NULL, NULL, GANTRY_LOG_ERROR);
    for (uint32_t world = 0; world < (gpu_fixture_lacks_devices(2) ? WORLD_TWO_DEVICES : WORLDS); world++) {
        run_world((enum world)world, first, count, huge != 0);
    }
    printf("%llu seeds: %llu steps, %llu of them graphs, %llu patched\n", (unsigned long long)count,
           (unsigned long long)all_steps, (unsigned long long)graph_steps, (unsigned long long)patched_steps);
    return judge(whole) != 0 ? 1 : 0;
}
