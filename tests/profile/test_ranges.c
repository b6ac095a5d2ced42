/* SPDX-License-Identifier: MIT */
/* Ranges inside blocks, from the kernel's macros to the trace. */
#include "tests/support/cmocka_c11.h"

#include "base/clock.h"
#include "tests/profile/cta_fixture.h"

#include "cta_ranges.kernels.h"

#include <stdio.h>
#include <string.h>

enum { LOAD, COMPUTE, INNER, STORE, STAGES };

static uint32_t first_number; /* the number of tile_stages; whole_block is the next */
static gantry_kernel *tile_stages, *whole_block;

struct stage_work {
    gantry_kernel *kernel;
    uint32_t id, blocks, threads, turns, ranges;
    bool had_records;
};

static gantry_launch_result launch_stages(gantry_launch *launch, void *arg)
{
    struct stage_work *work = arg;
    gantry_dim3 grid = {work->blocks, 1, 1}, block = {work->threads, 1, 1};
    void *profile = work->ranges != 0 ? gantry_launch_profile_ranges(launch, work->id, grid, work->ranges)
                                      : gantry_launch_profile(launch, work->id, grid);
    work->had_records = profile != NULL;
    void *args[] = {&cells, &work->turns, &profile, &work->id};
    return gantry_launch_kernel(launch, work->kernel, grid, block, 0, args) == GANTRY_OK
               ? GANTRY_LAUNCH_DONE
               : GANTRY_LAUNCH_FAILED;
}

static int set_up_ranges(void **state)
{
    (void)set_up(state);
    gantry_module *module;
    assert_ok(gantry_module_load(fixture.context, &gantry_image_cta_ranges, &module));
    assert_ok(gantry_module_get_kernel(module, "tile_stages", &tile_stages));
    assert_ok(gantry_module_get_kernel(module, "whole_block", &whole_block));
    return 0;
}

static void run(struct stage_work *work)
{
    (void)gpu_fixture_gpu(&fixture, GANTRY_TASK_KERNEL, "stages", launch_stages, work);
    assert_ok(gpu_fixture_step(&fixture));
}

static uint64_t ranges_called(const char *name)
{
    uint64_t count = 0;
    for (size_t i = 0; i < trace.slice_count; i++) {
        const struct read_slice *s = &trace.slices[i];
        count += strcmp(s->category, "range") == 0 && (name == NULL || strcmp(s->name, name) == 0);
    }
    return count;
}

/* The slice of the block that the range belongs to. */
static const struct read_slice *block_of(const struct read_slice *range)
{
    for (size_t i = 0; i < trace.slice_count; i++) {
        const struct read_slice *s = &trace.slices[i];
        if (is_block(s) && reader_argument(s, "block") == reader_argument(range, "block")) {
            return s;
        }
    }
    return NULL;
}

/* A record has no room for a longer time: the slice of the block ends here, those of its ranges later. */
static bool is_cut(const struct read_slice *block)
{
    return block->end - block->begin >= UINT32_MAX - UINT32_MAX / 1000; /* in host time */
}

/* Each range lies within its block, on a track of its SM and group; ranges of 2 lie within one of 1. */
static void check_places(void)
{
    static const char *const groups[STAGES] = {"group 0, ", "group 1, ", "group 1, ", "group 2, "};
    static const char *const names[STAGES] = {"load", "compute", "inner", "range 3"};
    for (size_t i = 0; i < trace.slice_count; i++) {
        const struct read_slice *s = &trace.slices[i];
        if (strcmp(s->category, "range") != 0) {
            continue;
        }
        const struct read_slice *block = block_of(s);
        assert_non_null(block);
        assert_true(s->begin >= block->begin && (s->end <= block->end || is_cut(block)));
        int stage = 0;
        while (strcmp(names[stage], s->name) != 0) {
            stage++;
            assert_true(stage < STAGES);
        }
        assert_int_equal(strncmp(s->track->name, groups[stage], strlen(groups[stage])), 0);
        assert_string_equal(s->track->name + strlen(groups[stage]), block->track->name);
        const struct read_track *above = reader_track(&trace, NULL, "ranges of tile_stages");
        assert_non_null(above);
        assert_int_equal(s->track->parent, above->uuid);
    }
}

static void test_ranges_are_slices_of_their_blocks(void **state)
{
    (void)state;
    static const gantry_submission modes[] = {GANTRY_SUBMISSION_STREAMS, GANTRY_SUBMISSION_GRAPHS};
    for (size_t mode = 0; mode < 2; mode++) {
        assert_ok(gantry_dispatcher_set_submission(gantry_context_dispatcher(fixture.context), modes[mode]));
        gantry_profile *profile = start(GANTRY_PROFILE_CTAS_BLOCKS, 0, 0);
        struct stage_work work = {tile_stages, first_number, 20, 96, 4, 24, false};
        run(&work);
        stop_and_load(profile);
        assert_true(work.had_records);
        assert_int_equal(stats.ctas, 20);
        assert_int_equal(stats.ctas_lost, 0);
        assert_int_equal(stats.ranges, 20 * 4 * 4);
        assert_int_equal(stats.ranges_lost, 0);
        assert_int_equal(ranges_called("load"), 20 * 4);
        assert_int_equal(ranges_called("compute"), 20 * 4);
        assert_int_equal(ranges_called("inner"), 20 * 4);
        assert_int_equal(ranges_called("range 3"), 20 * 4); /* it has no name */
        check_places();
        reader_free(&trace);
    }
}

/* How many ranges the recording reports as lost, of which the first was this one. */
static uint64_t lost_as(const char *name)
{
    uint64_t lost = 0;
    for (size_t i = 0; i < trace.mark_count; i++) {
        const struct read_slice *mark = &trace.marks[i];
        bool is_it = strcmp(mark->track->name, "lost ranges") == 0 && strcmp(mark->name, name) == 0;
        lost += is_it ? reader_argument(mark, "lost") : 0;
    }
    return lost;
}

static void test_ranges_without_room_are_counted_and_named(void **state)
{
    (void)state;
    gantry_profile *profile = start(GANTRY_PROFILE_CTAS_BLOCKS, 0, 0);
    /* 32 records a block are 10 a group: of 12, 12 + 12 and 12 ranges the first 9 are kept, and a note. */
    struct stage_work work = {tile_stages, first_number, 5, 96, 12, 17, false};
    run(&work);
    stop_and_load(profile);
    assert_int_equal(stats.ranges, 5 * 3 * 9);
    assert_int_equal(stats.ranges_lost, 5 * (3 + 15 + 3));
    assert_int_equal(lost_as("tile_stages: load"), 5 * 3);
    assert_int_equal(lost_as("tile_stages: inner"), 5 * 15); /* it ends before the range around it */
    assert_int_equal(lost_as("tile_stages: range 3"), 5 * 3);
    const struct read_slice *end = reader_mark(&trace, "end");
    assert_non_null(end);
    assert_int_equal(reader_argument(end, "ranges_lost"), stats.ranges_lost);
}

static void test_a_whole_block_is_one_group(void **state)
{
    (void)state;
    gantry_profile *profile = start(GANTRY_PROFILE_CTAS_KERNELS, 0, 0);
    struct stage_work work = {whole_block, first_number + 1, 30, 64, 16, 16, false};
    run(&work);
    stop_and_load(profile);
    assert_int_equal(stats.ranges, 30 * 16);
    assert_int_equal(stats.ranges_lost, 0);
    assert_int_equal(ranges_called("range 0"), 30 * 16); /* the names belong to a kernel */
}

static char warnings[4][400];
static uint32_t warning_count;

static void keep_warning(void *user, gantry_log_level level, const char *line)
{
    (void)user;
    if (level == GANTRY_LOG_WARNING && warning_count < 4) {
        snprintf(warnings[warning_count++], sizeof(warnings[0]), "%s", line);
    }
}

static void test_launches_without_room_record_no_ranges(void **state)
{
    (void)state;
    warning_count = 0;
    gantry_set_log(keep_warning, NULL, GANTRY_LOG_WARNING);
    gantry_profile *profile = start(GANTRY_PROFILE_CTAS_BLOCKS, 0, 0);
    struct stage_work plain = {tile_stages, first_number, 20, 96, 4, 0, false};
    run(&plain);
    struct stage_work large = {tile_stages, first_number, 20, 96, 4, 2032, false};
    run(&large); /* 20 * 2033 are more than a buffer's 4096 */
    struct stage_work beyond = {tile_stages, first_number, 20, 96, 4, 2033, false};
    run(&beyond);
    stop_and_load(profile);
    assert_true(plain.had_records);
    assert_false(large.had_records);
    assert_false(beyond.had_records);
    assert_int_equal(stats.ctas, 20);
    assert_int_equal(stats.ctas_lost, 40);
    assert_int_equal(stats.ranges, 0);
    struct stage_work off = {tile_stages, first_number, 20, 96, 4, 24, true};
    run(&off); /* nothing is recorded */
    assert_false(off.had_records);
    gantry_set_log(NULL, NULL, GANTRY_LOG_INFO);
    assert_true(warning_count > 0);
    assert_non_null(
        strstr(warnings[0], "\"tile_stages\": 20 blocks with room for 2032 ranges each take 40660 places"));
    assert_non_null(strstr(warnings[0], "which has 4096 (ctas_per_buffer)"));
}

static void test_ranges_of_an_sms_own_clock_are_placed(void **state)
{
    (void)state;
    gantry_profile_options options = GANTRY_PROFILE_OPTIONS_INIT;
    options.path = path;
    options.clock = GANTRY_PROFILE_CLOCK_SM;
    options.ctas = GANTRY_PROFILE_CTAS_BLOCKS;
    gantry_profile *profile = NULL;
    assert_ok(gantry_profile_start(&options, &profile));
    uint64_t before = gy_clock_ns();
    struct stage_work work = {tile_stages, first_number, 40, 96, 4, 24, false};
    run(&work);
    stop_and_load(profile);
    uint64_t after = gy_clock_ns();
    assert_int_equal(stats.ranges, 40 * 16);
    assert_int_equal(stats.ranges_lost, 0);
    for (size_t i = 0; i < trace.slice_count; i++) {
        const struct read_slice *s = &trace.slices[i];
        assert_true(strcmp(s->category, "range") != 0 || (s->begin >= before && s->end <= after));
    }
    check_places();
}

static void test_names_are_checked(void **state)
{
    (void)state;
    static const char *const names[] = {"load", NULL};
    assert_int_equal(gantry_profile_name_ranges(first_number, NULL, 1), GANTRY_ERR_INVALID_ARGUMENT);
    assert_int_equal(gantry_profile_name_ranges(first_number, names, 0), GANTRY_ERR_INVALID_ARGUMENT);
    assert_int_equal(gantry_profile_name_ranges(first_number, names, 2), GANTRY_ERR_INVALID_ARGUMENT);
    assert_non_null(strstr(gantry_last_error(), "name 1"));
    assert_int_equal(gantry_profile_name_ranges(first_number, names, 65537), GANTRY_ERR_INVALID_ARGUMENT);
    assert_int_equal(gantry_profile_name_ranges(first_number + 1000, names, 1), GANTRY_ERR_NOT_FOUND);
    assert_non_null(strstr(gantry_last_error(), "no kernel"));
}

int main(void)
{
    static const char *const kernels[] = {"tile_stages", "whole_block"};
    static const char *const before[] = {"other"}, *const names[] = {"load", "compute", "inner"};
    int status = cta_begin();
    if (status != 0) {
        return status;
    }
    if (gantry_profile_register_kernels(kernels, 2, &first_number) != GANTRY_OK ||
        gantry_profile_name_ranges(first_number, before, 1) != GANTRY_OK ||
        gantry_profile_name_ranges(first_number, names, 3) != GANTRY_OK) { /* the later names are in force */
        return 1;
    }
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup_teardown(test_ranges_are_slices_of_their_blocks, set_up_ranges, tear_down),
        cmocka_unit_test_setup_teardown(test_ranges_without_room_are_counted_and_named, set_up_ranges,
                                        tear_down),
        cmocka_unit_test_setup_teardown(test_a_whole_block_is_one_group, set_up_ranges, tear_down),
        cmocka_unit_test_setup_teardown(test_launches_without_room_record_no_ranges, set_up_ranges,
                                        tear_down),
        cmocka_unit_test_setup_teardown(test_ranges_of_an_sms_own_clock_are_placed, set_up_ranges, tear_down),
        cmocka_unit_test(test_names_are_checked),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
