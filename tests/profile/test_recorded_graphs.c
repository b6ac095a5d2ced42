/* SPDX-License-Identifier: MIT */
/* Recorded steps in graphs mode: the executable graphs stay as they are, and the records are right. */
#include "tests/support/cmocka_c11.h"

#include "base/clock.h"
#include "profile/session.h"
#include "tests/profile/cta_fixture.h"

#include "cta_kernels.kernels.h"
#include "cta_quiet.kernels.h"
#include "cta_ranges.kernels.h"

#include <gantry/host_module.h>

#include <pthread.h>
#include <stdatomic.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

enum { CHAINS = 4, LENGTH = 5, TASKS = CHAINS * LENGTH, BLOCKS = 6, WARM = 3, STEPS = 4 };

static struct work work, uneven;
static struct gantry_emu_control emu; /* its functions are NULL on a device */
static bool has_emu;

static int set_up_graphs(void **state)
{
    (void)set_up(state);
    has_emu = gpu_fixture_controls(&emu);
    work = (struct work){.grid = {BLOCKS, 1, 1}, .threads = 32, .spins = 1, .launches = 1};
    assert_ok(gantry_dispatcher_set_submission(gantry_context_dispatcher(fixture.context),
                                               GANTRY_SUBMISSION_GRAPHS));
    return 0;
}

static uint32_t length = LENGTH;

/* CHAINS chains of `length` kernels each; `first` and `last`, unless they are NULL, come before and after
 * all. */
static void submit_between(gantry_task *first, gantry_launch_fn launch, void *arg, gantry_task *last)
{
    for (uint32_t i = 0; i < CHAINS; i++) {
        gantry_task *before = first;
        for (uint32_t k = 0; k < length; k++) {
            gantry_task *task = gpu_fixture_gpu(&fixture, GANTRY_TASK_KERNEL, "work", launch, arg);
            if (before != NULL) {
                gpu_fixture_after(task, before);
            }
            before = task;
        }
        if (last != NULL) {
            gantry_task *end = gpu_fixture_gpu(&fixture, GANTRY_TASK_DTOH, "end", launch_done, last);
            gpu_fixture_after(end, before);
            gpu_fixture_after(last, end);
        }
    }
}

static void submit_chains(gantry_launch_fn launch, void *arg, gantry_task *last)
{
    submit_between(NULL, launch, arg, last);
}

static void run_with(gantry_launch_fn launch, void *arg)
{
    submit_chains(launch, arg, gpu_fixture_cpu(&fixture, "last", do_nothing, NULL));
    assert_ok(gpu_fixture_step(&fixture));
    assert_ok(gantry_context_synchronize(fixture.context)); /* the next step meets graphs that are idle */
}

static void run_steps(uint32_t steps)
{
    for (uint32_t i = 0; i < steps; i++) {
        run_with(launch_work, &work);
    }
}

static uint64_t kernels_set(void)
{
    return has_emu ? emu.calls("cuGraphExecKernelNodeSetParams") : 0;
}

static void expect_blocks(uint64_t blocks)
{
    assert_int_equal(stats.ctas, blocks);
    assert_int_equal(stats.ctas_lost, 0);
    assert_int_equal(stats.lost, 0);
    assert_int_equal(blocks_called("count_up"), blocks);
    reader_free(&trace);
}

/* The first kernel of a step, which all others come after, has one block more than that of the step before,
 * so that all records of a step lie elsewhere. */
static uint64_t run_uneven(uint32_t steps)
{
    static uint32_t uneven_blocks;
    uint64_t sum = 0;
    for (uint32_t i = 0; i < steps; i++) {
        uneven = work;
        uneven.grid.x = 1 + uneven_blocks++ % 7;
        gantry_task *first = gpu_fixture_gpu(&fixture, GANTRY_TASK_KERNEL, "uneven", launch_work, &uneven);
        submit_between(first, launch_work, &work, gpu_fixture_cpu(&fixture, "last", do_nothing, NULL));
        assert_ok(gpu_fixture_step(&fixture));
        assert_ok(gantry_context_synchronize(fixture.context)); /* the next step meets graphs that are idle */
        sum += uneven.grid.x + TASKS * BLOCKS;
    }
    return sum;
}

/* The first recorded step of a shape makes its graph.  From then on neither the begin nor the end of a
 * recording, nor a step in one, makes a graph or sets a node, but for the first kernel of each step. */
static void test_recordings_leave_graphs_as_they_are(void **state)
{
    (void)state;
    (void)run_uneven(WARM);
    gantry_profile *profile = start(GANTRY_PROFILE_CTAS_EACH, 0, 0);
    uint64_t blocks = run_uneven(1);
    const uint64_t kernels = kernels_set();
    const gantry_dispatcher_stats before = gpu_fixture_stats(&fixture);
    blocks += run_uneven(STEPS);
    stop_and_load(profile);
    expect_blocks(blocks);
    for (uint32_t round = 0; round < 2; round++) {
        (void)run_uneven(WARM);
        profile = start(GANTRY_PROFILE_CTAS_EACH, 0, 0);
        blocks = run_uneven(STEPS);
        stop_and_load(profile);
        expect_blocks(blocks);
    }
    const gantry_dispatcher_stats after = gpu_fixture_stats(&fixture);
    const uint64_t steps = 3 * STEPS + 2 * WARM;
    assert_int_equal(after.graph_launches - before.graph_launches, steps);
    assert_int_equal(after.graph_instantiations, before.graph_instantiations);
    /* An event that the completion thread still has is exchanged, which is a node more; a step would be
     * TASKS. */
    assert_in_range(after.graph_nodes_set - before.graph_nodes_set, steps, steps + TASKS - 1);
    assert_int_equal(kernels_set() - kernels, has_emu ? steps : 0);
}

static void test_each_block_of_each_launch_is_recorded(void **state)
{
    (void)state;
    gantry_profile *profile = start(GANTRY_PROFILE_CTAS_BLOCKS, 0, 0);
    run_steps(STEPS);
    stop_and_load(profile);
    uint32_t seen[BLOCKS] = {0};
    for (size_t i = 0; i < trace.slice_count; i++) {
        if (is_block(&trace.slices[i])) {
            const uint64_t block = reader_argument(&trace.slices[i], "block");
            assert_true(block < BLOCKS);
            seen[block]++;
        }
    }
    for (uint32_t i = 0; i < BLOCKS; i++) {
        assert_int_equal(seen[i], STEPS * TASKS);
    }
    expect_blocks((uint64_t)STEPS * TASKS * BLOCKS);
}

/* More steps are on the device than there are graphs of them: each has slots of its own, and those beyond are
 * made as a whole. */
static void test_steps_in_flight_have_slots_of_their_own(void **state)
{
    (void)state;
    enum { MANY = 8 };
    gantry_profile *profile = start(GANTRY_PROFILE_CTAS_EACH, 0, 0);
    run_steps(2);
    if (has_emu) {
        emu.hold();
    }
    for (uint32_t i = 0; i < MANY; i++) {
        submit_chains(launch_work, &work, NULL);
        assert_ok(gpu_fixture_step(&fixture));
    }
    if (has_emu) {
        emu.release();
    }
    assert_ok(gantry_context_synchronize(fixture.context));
    stop_and_load(profile);
    expect_blocks((uint64_t)(2 + MANY) * TASKS * BLOCKS);
}

/* A module goes while graphs are on the device: all graphs are dropped, and none that comes instead has their
 * slots before the device is done with them. */
static void test_graphs_dropped_in_flight_keep_their_slots(void **state)
{
    (void)state;
    enum { TIMES = 5 };
    gantry_profile *profile = start(GANTRY_PROFILE_CTAS_EACH, 0, 0);
    run_steps(2);
    for (uint32_t round = 0; round < 2; round++) {
        if (has_emu) {
            emu.hold();
        }
        for (uint32_t i = 0; i < TIMES; i++) {
            gantry_module *module;
            assert_ok(gantry_module_load(fixture.context, &gantry_image_cta_ranges, &module));
            submit_chains(launch_work, &work, NULL);
            assert_ok(gpu_fixture_step(&fixture));
            gantry_module_unload(module);
        }
        if (has_emu) {
            emu.release();
        }
        assert_ok(gantry_context_synchronize(fixture.context));
    }
    run_steps(1);
    stop_and_load(profile);
    expect_blocks((uint64_t)(3 + 2 * TIMES) * TASKS * BLOCKS);
}

static bool was_told;

static void look_for_slots(void *user, gantry_log_level level, const char *line)
{
    (void)user;
    was_told = was_told || (level == GANTRY_LOG_WARNING && strstr(line, "no memory for slots") != NULL);
}

/* Without memory for slots the graphs are changed at each launch, which is told once, and nothing is lost. */
static void test_without_slots_kernels_are_set(void **state)
{
    (void)state;
    if (!has_emu) {
        skip();
    }
    gantry_dispatcher *dispatcher = gantry_context_dispatcher(fixture.context);
    gantry_profile *profile = start(GANTRY_PROFILE_CTAS_EACH, 0, 0);
    assert_ok(gantry_dispatcher_set_submission(dispatcher, GANTRY_SUBMISSION_STREAMS));
    run_steps(1); /* the recording has its buffers now */
    assert_ok(gantry_dispatcher_set_submission(dispatcher, GANTRY_SUBMISSION_GRAPHS));
    assert_int_equal((emu.fail)("cuMemHostAlloc", 1, 2, GANTRY_EMU_ONCE), 0);
    was_told = false;
    gantry_set_log(look_for_slots, NULL, GANTRY_LOG_WARNING);
    uint64_t blocks = run_uneven(2);
    const uint64_t set = kernels_set();
    blocks += run_uneven(2);
    gantry_set_log(NULL, NULL, GANTRY_LOG_ERROR);
    assert_true(was_told);
    assert_true(kernels_set() >= set + 2 * TASKS);
    stop_and_load(profile);
    expect_blocks(blocks + TASKS * BLOCKS);
}

static gantry_kernel *other_count_up;

static gantry_launch_result launch_other(gantry_launch *launch, void *arg)
{
    (void)arg;
    uint32_t id = first_kernel, spins = 1;
    void *profile = gantry_launch_profile(launch, id, work.grid);
    void *args[] = {&cells, &spins, &profile, &id};
    return gantry_launch_kernel(launch, other_count_up, work.grid, (gantry_dim3){32, 1, 1}, 0, args) ==
                   GANTRY_OK
               ? GANTRY_LAUNCH_DONE
               : GANTRY_LAUNCH_FAILED;
}

/* Load the kernels as a file has them that was compiled with the macros of before. */
static gantry_module *load_old(gantry_module_image *image, struct gantry_host_module *host)
{
    gantry_module *module;
    *host = *(const struct gantry_host_module *)gantry_image_cta_kernels.host;
    host->has_cta_macros = 1;
    *image = gantry_image_cta_kernels;
    image->host = host;
    assert_ok(gantry_module_load(fixture.context, image, &module));
    assert_ok(gantry_module_get_kernel(module, "count_up", &other_count_up));
    return module;
}

/* Kernels with the macros of before get the addresses of their records, as on streams. */
static void test_kernels_of_before_are_recorded(void **state)
{
    (void)state;
    static gantry_module_image image;
    static struct gantry_host_module host;
    gantry_module *module = load_old(&image, &host);
    gantry_profile *profile = start(GANTRY_PROFILE_CTAS_EACH, 0, 0);
    for (uint32_t i = 0; i < STEPS; i++) {
        run_with(launch_other, NULL);
        run_steps(1); /* a kernel of that name may be one of them */
    }
    stop_and_load(profile);
    expect_blocks((uint64_t)2 * STEPS * TASKS * BLOCKS);
    gantry_module_unload(module);
}

/* What a call does with what it was given. */
struct odd_call {
    bool swaps, forgets, repeats;
};

static gantry_launch_result launch_odd(gantry_launch *launch, void *arg)
{
    const struct odd_call *odd = arg;
    uint32_t id = first_kernel, spins = 1;
    gantry_dim3 small = {1, 1, 1}, large = {BLOCKS, 1, 1}, block = {32, 1, 1};
    void *a = gantry_launch_profile(launch, id, small), *b = gantry_launch_profile(launch, id, large);
    void *with_a[] = {&cells, &spins, &a, &id}, *with_b[] = {&cells, &spins, &b, &id};
    bool good = true;
    if (odd->swaps) {
        good = gantry_launch_kernel(launch, count_up, large, block, 0, with_b) == GANTRY_OK;
    }
    good = good && gantry_launch_kernel(launch, count_up, small, block, 0, with_a) == GANTRY_OK;
    if (odd->repeats) {
        good = good && gantry_launch_kernel(launch, count_up, small, block, 0, with_a) == GANTRY_OK;
    }
    if (!odd->swaps && !odd->forgets) {
        good = good && gantry_launch_kernel(launch, count_up, large, block, 0, with_b) == GANTRY_OK;
    }
    return good ? GANTRY_LAUNCH_DONE : GANTRY_LAUNCH_FAILED;
}

/* Several kernels in a call find their own records, whatever their order; what is not used is lost. */
static void test_each_kernel_of_a_call_has_its_own_records(void **state)
{
    (void)state;
    static struct odd_call calls[] = {
        {false, false, false}, {true, false, false}, {false, true, false}, {false, false, true}};
    for (size_t i = 0; i < sizeof(calls) / sizeof(calls[0]); i++) {
        gantry_profile *profile = start(GANTRY_PROFILE_CTAS_EACH, 0, 0);
        for (uint32_t step = 0; step < STEPS; step++) {
            run_with(launch_odd, &calls[i]);
        }
        stop_and_load(profile);
        assert_int_equal(stats.ctas, STEPS * TASKS * (calls[i].forgets ? 1 : 1 + BLOCKS));
        assert_int_equal(stats.ctas_lost, calls[i].forgets ? STEPS * TASKS * BLOCKS : 0);
        assert_int_equal(stats.lost, 0);
        reader_free(&trace);
    }
}

static uint32_t first_ranges;
static gantry_kernel *tile_stages;

static gantry_launch_result launch_ranges(gantry_launch *launch, void *arg)
{
    (void)arg;
    uint32_t id = first_ranges, turns = 2;
    gantry_dim3 grid = {BLOCKS, 1, 1}, block = {96, 1, 1};
    void *profile = gantry_launch_profile_ranges(launch, id, grid, 24);
    void *args[] = {&cells, &turns, &profile, &id};
    return gantry_launch_kernel(launch, tile_stages, grid, block, 0, args) == GANTRY_OK
               ? GANTRY_LAUNCH_DONE
               : GANTRY_LAUNCH_FAILED;
}

static void test_ranges_are_recorded(void **state)
{
    (void)state;
    static const char *const names[] = {"tile_stages"};
    gantry_module *module;
    assert_ok(gantry_profile_register_kernels(names, 1, &first_ranges));
    assert_ok(gantry_module_load(fixture.context, &gantry_image_cta_ranges, &module));
    assert_ok(gantry_module_get_kernel(module, "tile_stages", &tile_stages));
    for (uint32_t round = 0; round < 2; round++) {
        const uint64_t set = kernels_set();
        gantry_profile *profile = start(GANTRY_PROFILE_CTAS_EACH, 0, 0);
        for (uint32_t step = 0; step < STEPS; step++) {
            run_with(launch_ranges, NULL);
        }
        stop_and_load(profile);
        assert_true(round == 0 || kernels_set() == set);
        uint64_t ranges = 0;
        for (size_t i = 0; i < trace.slice_count; i++) {
            ranges += strcmp(trace.slices[i].category, "range") == 0;
        }
        assert_int_equal(ranges, STEPS * TASKS * BLOCKS * 2 * 4);
        assert_int_equal(stats.ctas, STEPS * TASKS * BLOCKS);
        assert_int_equal(stats.ctas_lost + stats.lost, 0);
        reader_free(&trace);
    }
}

/* Recordings that want other things of the blocks, with or without room for them, in the same graphs. */
static void test_recordings_of_all_kinds_follow_each_other(void **state)
{
    (void)state;
    static const gantry_profile_ctas kinds[] = {GANTRY_PROFILE_CTAS_EACH, GANTRY_PROFILE_CTAS_OFF,
                                                GANTRY_PROFILE_CTAS_KERNELS, GANTRY_PROFILE_CTAS_BLOCKS};
    for (size_t i = 0; i < 8; i++) {
        const gantry_profile_ctas kind = kinds[i % 4];
        gantry_profile *profile = start(kind, 0, 0);
        run_steps(2);
        stop_and_load(profile);
        assert_int_equal(stats.ctas, kind == GANTRY_PROFILE_CTAS_OFF ? 0 : 2 * TASKS * BLOCKS);
        assert_int_equal(stats.ctas_lost + stats.lost, 0);
        reader_free(&trace);
        run_steps(1);
    }
    for (uint32_t i = 0; i < 3; i++) { /* no step has all its blocks in the only buffer */
        gantry_profile *profile = start(GANTRY_PROFILE_CTAS_EACH, TASKS * BLOCKS / 2, 1);
        run_steps(STEPS);
        stop_and_load(profile);
        assert_int_equal(stats.ctas + stats.ctas_lost, STEPS * TASKS * BLOCKS);
        assert_true(stats.ctas_lost != 0 && stats.ctas != 0);
        assert_int_equal(blocks_called("count_up"), stats.ctas);
        reader_free(&trace);
    }
}

static atomic_uint steps_run;

static void *run_until_stopped(void *arg)
{
    atomic_bool *is_over = arg;
    while (!atomic_load(is_over)) {
        run_steps(1);
        atomic_fetch_add(&steps_run, 1);
    }
    return NULL;
}

/* The stop comes at any moment of a step; what it leaves is right for the recording that follows. */
static void test_a_stop_may_come_at_any_time(void **state)
{
    (void)state;
    enum { ROUNDS = 12 };
    atomic_bool is_over = false;
    pthread_t runner;
    atomic_store(&steps_run, 0);
    assert_int_equal(pthread_create(&runner, NULL, run_until_stopped, &is_over), 0);
    for (uint32_t i = 0; i < ROUNDS; i++) {
        gantry_profile *profile = start(GANTRY_PROFILE_CTAS_EACH, 0, 0);
        const uint32_t before = atomic_load(&steps_run);
        while (atomic_load(&steps_run) < before + 2) {
            usleep(100 + 37 * i);
        }
        stop_and_load(profile);
        assert_true(stats.ctas >= TASKS * BLOCKS); /* one step was in it as a whole */
        assert_int_equal(blocks_called("count_up"), stats.ctas);
        reader_free(&trace);
    }
    atomic_store(&is_over, true);
    pthread_join(runner, NULL);
    gantry_profile *profile = start(GANTRY_PROFILE_CTAS_EACH, 0, 0);
    run_steps(STEPS);
    stop_and_load(profile);
    expect_blocks((uint64_t)STEPS * TASKS * BLOCKS);
}

/* Two managers of one context have steps at the same time. */
static void test_two_managers_are_recorded(void **state)
{
    (void)state;
    gantry_taskman *managers[2] = {fixture.manager, NULL};
    gantry_taskman_options options = GANTRY_TASKMAN_OPTIONS_INIT;
    options.cpu_dispatcher = fixture.cpus;
    options.gpu_dispatcher = gantry_context_dispatcher(fixture.context);
    assert_ok(gantry_taskman_create(&options, &managers[1]));
    for (uint32_t round = 0; round < 2; round++) {
        gantry_profile *profile = start(GANTRY_PROFILE_CTAS_EACH, 0, 0);
        for (uint32_t step = 0; step < STEPS; step++) {
            for (uint32_t m = 0; m < 2; m++) {
                fixture.manager = managers[m];
                submit_chains(launch_work, &work, NULL);
                assert_ok(gantry_taskman_start(managers[m]));
            }
            for (uint32_t m = 0; m < 2; m++) {
                assert_ok(gantry_taskman_stop(managers[m]));
                assert_ok(gantry_taskman_reset(managers[m]));
            }
        }
        fixture.manager = managers[0];
        assert_ok(gantry_context_synchronize(fixture.context));
        stop_and_load(profile);
        expect_blocks((uint64_t)2 * STEPS * TASKS * BLOCKS);
    }
    gantry_taskman_destroy(managers[1]);
}

/* What the driver refuses as a graph goes to streams: each block has its record, whatever was prepared. */
static void test_what_is_played_is_recorded(void **state)
{
    (void)state;
    static const char *const calls[] = {"cuGraphCreate",
                                        "cuGraphAddKernelNode",
                                        "cuGraphAddEventRecordNode",
                                        "cuGraphInstantiateWithFlags",
                                        "cuGraphLaunch",
                                        "cuGraphExecKernelNodeSetParams",
                                        "cuGraphExecEventRecordNodeSetEvent"};
    if (!has_emu) {
        skip();
    }
    for (size_t c = 0; c < sizeof(calls) / sizeof(calls[0]); c++) {
        for (uint32_t nth = 1; nth <= 5; nth += 2) {
            length = LENGTH + (uint32_t)c * 3 + nth; /* a new shape */
            gantry_profile *profile = start(GANTRY_PROFILE_CTAS_EACH, 0, 0);
            assert_int_equal((emu.fail)(calls[c], nth, 2, nth == 5 ? GANTRY_EMU_ALWAYS : GANTRY_EMU_ONCE), 0);
            run_steps(STEPS);
            emu.clear_faults();
            run_steps(STEPS);
            stop_and_load(profile);
            expect_blocks((uint64_t)2 * STEPS * CHAINS * length * BLOCKS);
        }
    }
    assert_true(gpu_fixture_stats(&fixture).graph_plays >= 10);
    length = LENGTH;
}

/* The time of the shortest of some steps, in us per kernel. */
static double time_steps(uint32_t steps)
{
    uint64_t least = UINT64_MAX;
    for (uint32_t i = 0; i < steps; i++) {
        submit_chains(launch_work, &work, gpu_fixture_cpu(&fixture, "last", do_nothing, NULL));
        const uint64_t begin = gy_clock_ns();
        assert_ok(gpu_fixture_step(&fixture));
        assert_ok(gantry_context_synchronize(fixture.context));
        const uint64_t ns = gy_clock_ns() - begin;
        least = ns < least ? ns : least;
    }
    return (double)least / 1e3 / (CHAINS * length);
}

/* Steps of a thousand kernels are several graphs each. */
static void test_steps_of_many_kernels_set_no_node(void **state)
{
    (void)state;
    length = getenv("GANTRY_TEST_LIGHT") != NULL ? 100 : 250;
    work.grid.x = 1;
    work.launches = 1;
    (void)time_steps(WARM);
    const double before = time_steps(STEPS);
    gantry_profile *profile = start(GANTRY_PROFILE_CTAS_EACH, 65536, 32);
    (void)time_steps(WARM);
    const gantry_dispatcher_stats first = gpu_fixture_stats(&fixture);
    const double recorded = time_steps(STEPS);
    const gantry_dispatcher_stats last = gpu_fixture_stats(&fixture);
    stats = (gantry_profile_stats){.struct_size = sizeof(stats)};
    assert_ok(gantry_profile_stop(profile, &stats));
    const double after = time_steps(STEPS);
    const gantry_dispatcher_stats end = gpu_fixture_stats(&fixture);
    print_message("%u kernels: %.3f us each, %.3f recorded, %.3f then; %u nodes were set, %u graphs made\n",
                  CHAINS * length, before, recorded, after,
                  (unsigned)(end.graph_nodes_set - first.graph_nodes_set),
                  (unsigned)(end.graph_instantiations - first.graph_instantiations));
    assert_int_equal(stats.ctas, (WARM + STEPS) * CHAINS * length);
    assert_int_equal(stats.ctas_lost + stats.lost, 0);
    assert_int_equal(last.graph_nodes_set, first.graph_nodes_set);
    assert_int_equal(end.graph_nodes_set, first.graph_nodes_set);
    assert_int_equal(end.graph_instantiations, first.graph_instantiations);
    length = LENGTH;
}

static void test_the_environment_records_graphs(void **state)
{
    gpu_fixture_close(&fixture);
    assert_int_equal(setenv("GANTRY_PROFILE", path, 1), 0);
    (void)set_up_graphs(state);
    run_steps(STEPS);
    assert_int_equal(unsetenv("GANTRY_PROFILE"), 0);
    gpu_fixture_close(&fixture); /* the last context: the recording ends */
    const char *wrong = reader_load(path, &trace);
    if (wrong != NULL) {
        fail_msg("%s", wrong);
    }
    assert_int_equal(blocks_called("count_up"), STEPS * TASKS * BLOCKS);
    (void)set_up_graphs(state); /* for the tear-down */
}

int main(void)
{
    int status = cta_begin();
    if (status != 0) {
        return status;
    }
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup_teardown(test_recordings_leave_graphs_as_they_are, set_up_graphs, tear_down),
        cmocka_unit_test_setup_teardown(test_each_block_of_each_launch_is_recorded, set_up_graphs, tear_down),
        cmocka_unit_test_setup_teardown(test_steps_in_flight_have_slots_of_their_own, set_up_graphs,
                                        tear_down),
        cmocka_unit_test_setup_teardown(test_graphs_dropped_in_flight_keep_their_slots, set_up_graphs,
                                        tear_down),
        cmocka_unit_test_setup_teardown(test_without_slots_kernels_are_set, set_up_graphs, tear_down),
        cmocka_unit_test_setup_teardown(test_kernels_of_before_are_recorded, set_up_graphs, tear_down),
        cmocka_unit_test_setup_teardown(test_each_kernel_of_a_call_has_its_own_records, set_up_graphs,
                                        tear_down),
        cmocka_unit_test_setup_teardown(test_ranges_are_recorded, set_up_graphs, tear_down),
        cmocka_unit_test_setup_teardown(test_recordings_of_all_kinds_follow_each_other, set_up_graphs,
                                        tear_down),
        cmocka_unit_test_setup_teardown(test_a_stop_may_come_at_any_time, set_up_graphs, tear_down),
        cmocka_unit_test_setup_teardown(test_two_managers_are_recorded, set_up_graphs, tear_down),
        cmocka_unit_test_setup_teardown(test_what_is_played_is_recorded, set_up_graphs, tear_down),
        cmocka_unit_test_setup_teardown(test_steps_of_many_kernels_set_no_node, set_up_graphs, tear_down),
        cmocka_unit_test_setup_teardown(test_the_environment_records_graphs, set_up_graphs, tear_down),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
