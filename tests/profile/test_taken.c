/* SPDX-License-Identifier: MIT */
/* Recordings of kernels whose blocks steal: a block that another one did is not lost, and what is lost is
 * known exactly. */
#include "tests/support/cmocka_c11.h"

#include "tests/profile/cta_fixture.h"

#include "cta_steal.kernels.h"

#include <stdlib.h>
#include <string.h>

static gantry_kernel *steal_cells, *steal_and_forget;
static uint32_t first_id;
static struct gantry_emu_control emu;
static bool is_emulated;

struct steal_launch {
    gantry_kernel *kernel;
    uint32_t id;
    gantry_dim3 grid, cluster;
};

static gantry_launch_result launch_steal(gantry_launch *launch, void *arg)
{
    struct steal_launch *l = arg;
    void *profile = gantry_launch_profile(launch, l->id, l->grid);
    void *args[] = {&cells, &profile, &l->id};
    gantry_launch_options options = GANTRY_LAUNCH_OPTIONS_INIT;
    options.cluster = l->cluster;
    const gantry_dim3 block = {32, 1, 1};
    return gantry_launch_kernel_with(launch, l->kernel, l->grid, block, 0, args, &options) == GANTRY_OK
               ? GANTRY_LAUNCH_DONE
               : GANTRY_LAUNCH_FAILED;
}

/* Record one launch; returns how many blocks were taken over as the emulator counts them. */
static uint64_t record(struct steal_launch *l, gantry_profile_ctas ctas, uint64_t refuse_every)
{
    if (is_emulated) {
        emu.reset_counters();
        emu.refuse_steals(refuse_every);
    }
    gantry_profile *profile = start(ctas, 0, 0);
    (void)gpu_fixture_gpu(&fixture, GANTRY_TASK_KERNEL, "steal", launch_steal, l);
    assert_ok(gpu_fixture_step(&fixture));
    assert_ok(gantry_context_synchronize(fixture.context));
    stop_and_load(profile);
    return is_emulated ? emu.steals() : 0;
}

/* An argument of the slice of that name; 0 without. */
static uint64_t argument_of(const char *category, const char *slice, const char *name)
{
    const struct read_slice *found = slice_of(category, slice);
    assert_non_null(found);
    const uint64_t value = reader_argument(found, name);
    return value != UINT64_MAX ? value : 0;
}

static void try(gantry_dim3 grid, gantry_dim3 cluster, uint64_t refuse_every)
{
    static const gantry_profile_ctas whats[] = {GANTRY_PROFILE_CTAS_EACH, GANTRY_PROFILE_CTAS_BLOCKS,
                                                GANTRY_PROFILE_CTAS_KERNELS};
    struct steal_launch launch = {steal_cells, first_id, grid, cluster};
    const uint32_t blocks = grid.x * grid.y * grid.z;
    for (int i = 0; i < 3; i++) {
        const uint64_t steals = record(&launch, whats[i], refuse_every);
        assert_int_equal(stats.ctas_lost, 0);
        assert_int_equal(stats.ctas + stats.ctas_taken, blocks);
        assert_int_equal(stats.ctas_taken, steals);
        assert_true(!is_emulated || (refuse_every == 1) == (steals == 0));
        assert_int_equal(argument_of("kernel", "steal_cells", "ctas"), blocks - steals);
        assert_int_equal(argument_of("kernel", "steal_cells", "ctas_taken"), steals);
        assert_int_equal(argument_of("kernel", "steal_cells", "lost"), 0);
        assert_int_equal(reader_argument(reader_mark(&trace, "end"), "ctas_taken"), steals);
        reader_free(&trace);
    }
}

static void test_blocks_that_were_taken_over_are_not_lost(void **state)
{
    (void)state;
    for (uint64_t every = 0; every < 4; every++) {
        try((gantry_dim3){1024, 1, 1}, (gantry_dim3){0, 0, 0}, every);
        try((gantry_dim3){10, 6, 5}, (gantry_dim3){0, 0, 0}, every);
        try((gantry_dim3){512, 1, 1}, (gantry_dim3){4, 1, 1}, every);
        try((gantry_dim3){8, 6, 4}, (gantry_dim3){2, 1, 2}, every);
    }
}

/* Blocks 1, 3, ... that ran leave none.  With every second request refused some of either kind run. */
static void test_what_is_lost_is_known_among_those_taken_over(void **state)
{
    (void)state;
    struct steal_launch launch = {steal_and_forget, first_id + 1, {200, 1, 1}, {0, 0, 0}};
    for (uint64_t every = 1; every < 5; every++) {
        const uint64_t steals = record(&launch, GANTRY_PROFILE_CTAS_EACH, every);
        assert_int_equal(stats.ctas_taken, steals);
        assert_int_equal(stats.ctas + stats.ctas_taken + stats.ctas_lost, 200);
        assert_int_equal(stats.ctas, blocks_called("steal_and_forget"));
        assert_true(every != 1 || stats.ctas_lost == 100);
        reader_free(&trace);
    }
}

static int set_up_steal(void **state)
{
    if (set_up(state) != 0) {
        return -1;
    }
    gantry_module *module;
    assert_ok(gantry_module_load(fixture.context, &gantry_image_cta_steal, &module));
    assert_ok(gantry_module_get_kernel(module, "steal_cells", &steal_cells));
    assert_ok(gantry_module_get_kernel(module, "steal_and_forget", &steal_and_forget));
    is_emulated = gpu_fixture_controls(&emu);
    return 0;
}

int main(void)
{
    static const char *const names[] = {"steal_cells", "steal_and_forget"};
    setenv("GANTRY_EMU_PROFILE", "b200", 1); /* a device whose blocks steal */
    const int status = cta_begin();
    if (status != 0 || gantry_profile_register_kernels(names, 2, &first_id) != GANTRY_OK) {
        return status != 0 ? status : 1;
    }
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup_teardown(test_blocks_that_were_taken_over_are_not_lost, set_up_steal,
                                        tear_down),
        cmocka_unit_test_setup_teardown(test_what_is_lost_is_known_among_those_taken_over, set_up_steal,
                                        tear_down),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
