/* SPDX-License-Identifier: MIT */
/* Lists of copies that the device reads, and boxes: from launch callbacks, on streams, in graphs that are
 * made anew or kept and patched, and in replayed steps, with lists that earlier GPU work has written; and
 * lists that the host refuses. */
#include "tests/support/cmocka_c11.h"

#include "tests/dispatcher/lists_scene.h"

#include "context/context.h"

#include <stdlib.h>
#include <string.h>

static int open_streams(void **state)
{
    return lists_open(state, GANTRY_SUBMISSION_STREAMS);
}

static int open_graphs(void **state)
{
    return lists_open(state, GANTRY_SUBMISSION_GRAPHS);
}

/* ---- boxes and forms ---- */

/* Write what dest will contain after the box was copied. */
static void expect_box(struct lists *l)
{
    const gantry_copy_box *box = &l->box;
    const size_t to = (size_t)((uint8_t *)box->dest - l->dest);
    const size_t from = (size_t)((const uint8_t *)box->source - l->source);
    memset(l->expected, 0, BYTES);
    for (uint64_t layer = 0; layer < box->layers; layer++) {
        for (uint64_t row = 0; row < box->rows; row++) {
            memcpy(l->expected + to + layer * box->dest_layer_pitch + row * box->dest_pitch,
                   l->content + from + layer * box->source_layer_pitch + row * box->source_pitch, box->width);
        }
    }
}

/* Make a box of any shape; `expected` has the contents of dest afterwards. */
static void make_box(struct lists *l)
{
    static const uint64_t widths[] = {1, 16, 200, 1000};
    gantry_copy_box *box = &l->box;
    *box = (gantry_copy_box)GANTRY_COPY_BOX_INIT;
    box->width = 1 + lists_random(widths[lists_random(4)]);
    box->rows = 2 + lists_random(30);
    box->layers = 1 + lists_random(3);
    box->dest_pitch = box->width + lists_random(300);
    box->source_pitch = box->width + 1 + lists_random(300);
    box->dest_layer_pitch = box->rows * box->dest_pitch + lists_random(300);
    box->source_layer_pitch = box->rows * box->source_pitch + lists_random(300);
    box->dest = l->dest + lists_random(BYTES - 3 * box->dest_layer_pitch);
    box->source = l->source + lists_random(BYTES - 3 * box->source_layer_pitch);
    expect_box(l);
}

static void check_forms(struct lists *l)
{
    static const uint64_t biggest[] = {300, 8, 70000, 2000};
    for (uint32_t i = 0; i < 12; i++) {
        lists_make(l, MOST, biggest[i % 4]);
        lists_use(l, (enum form)(i % 3), i % 2 == 1);
        l->list.largest = i % 4 == 3 ? 0 : biggest[i % 4];
        assert_ok(lists_step(l));
        lists_assert_copied(l);
    }
}

static void test_lists_are_copied_on_streams(void **state)
{
    check_forms(*state);
}

static void test_lists_are_copied_in_graphs(void **state)
{
    struct lists *l = *state;
    check_forms(l);
    assert_true(gpu_fixture_stats(&l->gpu).graph_launches > 0);
}

static void check_boxes(struct lists *l, bool is_patched)
{
    for (uint32_t i = 0; i < (is_patched ? 60 : 6); i++) {
        if (is_patched && i >= 6 && gpu_fixture_stats(&l->gpu).graph_patches > 0) {
            break; /* a loaded machine cuts steps here or there */
        }
        make_box(l);
        assert_ok(lists_step(l));
        lists_assert_copied(l);
    }
}

static void test_boxes_are_copied_on_streams(void **state)
{
    check_boxes(*state, false);
}

static void test_boxes_are_copied_in_graphs(void **state)
{
    struct lists *l = *state;
    check_boxes(l, true);
    assert_true(gpu_fixture_stats(&l->gpu).graph_patches > 0);
}

/* Steps of one shape with other lists: the graph is kept, and the kernel gets the new addresses. */
static void test_kept_graphs_are_patched_to_other_lists(void **state)
{
    struct lists *l = *state;
    for (uint32_t i = 0; i < 4 || (i < 60 && gpu_fixture_stats(&l->gpu).graph_patches == 0); i++) {
        lists_make(l, MOST, 300);
        lists_use(l, COLUMNS, true);
        l->list.largest = 300;
        l->list.most = MOST - i;
        *l->made_count = *l->made_count < l->list.most ? *l->made_count : l->list.most;
        memset(l->expected, 0, BYTES);
        for (uint32_t k = 0; k < *l->made_count; k++) {
            memcpy(l->expected + (l->arrays[k] - (uintptr_t)l->dest),
                   l->content + (l->arrays[MOST + k] - (uintptr_t)l->source), l->arrays[2 * MOST + k]);
        }
        assert_ok(lists_step(l));
        lists_assert_copied(l);
    }
    assert_true(gpu_fixture_stats(&l->gpu).graph_patches > 0);
}

/* The largest copy is out of bounds, or the count is above the maximum. */
static void test_what_the_list_says_wrongly_is_bounded(void **state)
{
    struct lists *l = *state;
    lists_make(l, 40, 30000);
    lists_use(l, DESCS, true);
    l->list.largest = 100;
    assert_ok(lists_step(l));
    lists_assert_copied(l);
    lists_make(l, 60, 200);
    lists_use(l, COLUMNS, true);
    uint32_t made = *l->made_count;
    *l->made_count = UINT32_MAX;
    l->list.most = made;
    assert_ok(lists_step(l));
    lists_assert_copied(l);
    *l->made_count = 0;
    memset(l->expected, 0, BYTES);
    assert_ok(lists_step(l));
    lists_assert_copied(l);
    l->list.most = 0;
    assert_ok(lists_step(l));
    lists_assert_copied(l);
}

/* ---- replayed ---- */

static void freeze(struct lists *l)
{
    lists_submit(l, true);
    assert_ok(gantry_taskman_freeze(l->gpu.manager));
}

static void run_again(struct lists *l)
{
    memset(l->got, 0xee, BYTES);
    assert_ok(gantry_taskman_run(l->gpu.manager, 1));
    lists_assert_copied(l);
}

/* The list's contents are read anew in every run, without a call. */
static void test_replayed_lists_may_change(void **state)
{
    struct lists *l = *state;
    static const uint64_t biggest[] = {300, 70000, 8, 2000};
    lists_make(l, MOST, 500);
    lists_use(l, DESCS, true);
    freeze(l);
    for (uint32_t i = 0; i < 3; i++) { /* until it is recorded */
        run_again(l);
    }
    const uint32_t calls = l->calls;
    const uint64_t replays = gpu_fixture_stats(&l->gpu).graph_replays;
    for (uint32_t i = 0; i < 8; i++) {
        lists_make(l, 1 + (uint32_t)lists_random(MOST), biggest[i % 4]);
        run_again(l);
    }
    assert_int_equal(l->calls, calls);
    assert_int_equal(gpu_fixture_stats(&l->gpu).graph_replays, replays + 8);
    assert_ok(gantry_taskman_reset(l->gpu.manager));
}

/* What lies in the rows is read anew in every run. */
static void test_replayed_boxes_read_what_is_there(void **state)
{
    struct lists *l = *state;
    make_box(l);
    freeze(l);
    for (uint32_t run = 0; run < 5; run++) {
        for (size_t i = 0; i < BYTES; i++) {
            l->content[i] += (uint8_t)(run + 1);
        }
        expect_box(l);
        run_again(l);
    }
    assert_true(l->calls < 5 && gpu_fixture_stats(&l->gpu).graph_replays > 0);
    assert_ok(gantry_taskman_reset(l->gpu.manager));
}

/* A batch that the host describes, of more copies than fit into a kernel's parameters. */
static gantry_launch_result launch_packed(gantry_launch *launch, void *arg)
{
    struct lists *l = arg;
    static gantry_copy_desc descs[PACKED];
    for (uint32_t i = 0; i < PACKED; i++) {
        descs[i] = (gantry_copy_desc){
            .dest = l->dest + 40 * i, .source = l->source + 13 * i, .bytes = 39, .type = GANTRY_COPY_DTOD};
    }
    l->calls++;
    assert_ok(gantry_copy_launch(launch, descs, PACKED));
    return GANTRY_LAUNCH_DONE;
}

/* Another batch, not stable: it must not get the memory that the recorded one reads. */
static gantry_launch_result launch_other(gantry_launch *launch, void *arg)
{
    struct lists *l = arg;
    static gantry_copy_desc descs[PACKED];
    for (uint32_t i = 0; i < PACKED; i++) {
        descs[i] = (gantry_copy_desc){.dest = (uint8_t *)l->columns + 2 * i,
                                      .source = l->source + 2 * i,
                                      .bytes = 1,
                                      .type = GANTRY_COPY_DTOD};
    }
    assert_ok(gantry_copy_launch(launch, descs, PACKED));
    return GANTRY_LAUNCH_DONE;
}

static void submit_packed(struct lists *l)
{
    static const gantry_launch_fn functions[4] = {lists_launch_inputs, launch_packed, lists_launch_result,
                                                  launch_other};
    gantry_task *tasks[4];
    for (int i = 0; i < 4; i++) {
        gantry_task_desc desc = GANTRY_TASK_DESC_INIT;
        desc.kind = GANTRY_TASK_KERNEL;
        desc.label = "packed";
        desc.launch = functions[i];
        desc.arg = l;
        desc.is_stable = functions[i] != launch_other;
        assert_ok(gantry_taskman_submit(l->gpu.manager, &desc, &tasks[i]));
        if (i > 0) {
            gpu_fixture_after(tasks[i], tasks[i - 1]);
        }
    }
    assert_ok(gantry_taskman_freeze(l->gpu.manager));
}

static void test_large_batches_are_replayed(void **state)
{
    struct lists *l = *state;
    for (int round = 0; round < 2; round++) { /* the memory that a graph used before is used again */
        l->calls = 0;
        submit_packed(l);
        for (uint32_t run = 0; run < 4; run++) {
            for (size_t i = 0; i < BYTES; i++) {
                l->content[i] = (uint8_t)lists_random(256);
            }
            memset(l->expected, 0, BYTES);
            for (uint32_t i = 0; i < PACKED; i++) {
                memcpy(l->expected + 40 * i, l->content + 13 * i, 39);
            }
            run_again(l);
        }
        assert_true(l->calls < 3);
        assert_ok(gantry_taskman_reset(l->gpu.manager));
    }
}

/* ---- refused ---- */

static void test_bad_lists_are_refused(void **state)
{
    struct lists *l = *state;
    static uint64_t pageable[64];
    lists_make(l, 20, 100);
    lists_use(l, DESCS, false);
    l->list.struct_size = 8;
    lists_refuse(l, "copy list: struct_size 8 is too small");
    lists_use(l, DESCS, false);
    l->list.bytes = l->columns;
    lists_refuse(l, "copy list: it has both descs and dests, sources or bytes");
    lists_use(l, COLUMNS, false);
    l->list.sources = NULL;
    lists_refuse(l, "copy list: sources is NULL");
    lists_use(l, COLUMNS, false);
    l->list.bytes = (const uint64_t *)(const void *)((const char *)l->columns + 4);
    lists_refuse(l, "is not aligned to 8 bytes");
    lists_use(l, COLUMNS, false);
    l->list.bytes = pageable;
    lists_refuse(l, "copy list: bytes 0x");
    lists_refuse(l, "is pageable host memory");
    lists_use(l, COLUMNS, true);
    l->list.most = 2 * MOST + 1;
    lists_refuse(l, " with 8008 bytes leaves its memory");
    lists_use(l, DESCS, true);
    l->list.count = (const uint32_t *)(const void *)((const char *)l->count + 2);
    lists_refuse(l, "copy list: count 0x");
    assert_int_equal(gantry_copy_launch_list(NULL, &l->list, NULL), GANTRY_ERR_INVALID_ARGUMENT);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup_teardown(test_lists_are_copied_on_streams, open_streams, lists_close),
        cmocka_unit_test_setup_teardown(test_lists_are_copied_in_graphs, open_graphs, lists_close),
        cmocka_unit_test_setup_teardown(test_boxes_are_copied_on_streams, open_streams, lists_close),
        cmocka_unit_test_setup_teardown(test_boxes_are_copied_in_graphs, open_graphs, lists_close),
        cmocka_unit_test_setup_teardown(test_kept_graphs_are_patched_to_other_lists, open_graphs,
                                        lists_close),
        cmocka_unit_test_setup_teardown(test_replayed_boxes_read_what_is_there, open_graphs, lists_close),
        cmocka_unit_test_setup_teardown(test_what_the_list_says_wrongly_is_bounded, open_streams,
                                        lists_close),
        cmocka_unit_test_setup_teardown(test_replayed_lists_may_change, open_graphs, lists_close),
        cmocka_unit_test_setup_teardown(test_large_batches_are_replayed, open_graphs, lists_close),
        cmocka_unit_test_setup_teardown(test_bad_lists_are_refused, open_streams, lists_close),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
