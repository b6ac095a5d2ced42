/* SPDX-License-Identifier: MIT */
/* Boxes: random ones are compared with memcpy() row by row, and some are refused.  Runs on the emulated
 * driver, or on a device with GANTRY_TEST_DRIVER=cuda. */
#include "tests/copykernel/fixture.h"

#include "copykernel/box.h"

#include <string.h>

enum { HALF = ARENA / 2 };

static gantry_status try_box(struct fixture *f, const gantry_copy_box *box)
{
    const struct gy_copy_target target = {.stream = f->stream};
    gantry_copy_box ours;
    bool launched;
    gantry_status status = gy_copy_box_import(box, &ours);
    return status == GANTRY_OK ? gy_copier_launch_box(f->copier, &target, &ours, NULL, &launched) : status;
}

static void do_in_image(struct fixture *f, const gantry_copy_box *box)
{
    for (uint64_t layer = 0; layer < box->layers; layer++) {
        for (uint64_t row = 0; row < box->rows; row++) {
            const char *from =
                (const char *)box->source + layer * box->source_layer_pitch + row * box->source_pitch;
            char *to = (char *)box->dest + layer * box->dest_layer_pitch + row * box->dest_pitch;
            memcpy(f->image + (to - (char *)f->device), from, box->width);
        }
    }
}

/* A box that fits into a half of an arena on both sides; some are contiguous, some have gaps. */
static gantry_copy_box random_box(struct fixture *f)
{
    static const uint64_t widths[] = {1, 8, 16, 64, 200, 1000, 20000, 40001};
    gantry_copy_box box = GANTRY_COPY_BOX_INIT;
    for (;;) {
        const uint64_t alignment = random_below(2) == 0 ? 16 : 1;
        box.width = 1 + random_below(widths[random_below(8)]);
        box.rows = 1 + random_below(60);
        box.layers = 1 + random_below(4);
        box.dest_pitch = box.width + (random_below(2) == 0 ? 0 : random_below(100) * alignment);
        box.source_pitch = random_below(2) == 0 ? box.width : random_below(2 * box.width);
        box.dest_layer_pitch =
            (box.rows - 1) * box.dest_pitch + box.width + (random_below(2) == 0 ? 0 : random_below(300));
        box.source_layer_pitch = random_below(2) == 0 ? box.rows * box.source_pitch : random_below(5000);
        const uint64_t dest = (box.layers - 1) * box.dest_layer_pitch + box.dest_layer_pitch;
        const uint64_t source =
            (box.layers - 1) * box.source_layer_pitch + (box.rows - 1) * box.source_pitch + box.width;
        if (dest < HALF - 20 && source < HALF - 20) {
            box.dest = at(f->device, random_below(HALF - dest));
            box.source = at(f->pinned, random_below(HALF - source));
            return box;
        }
    }
}

static void test_random_boxes_arrive(void **state)
{
    struct fixture *f = *state;
    for (uint32_t i = 0; i < 150; i++) {
        const gantry_copy_box box = random_box(f);
        do_in_image(f, &box);
        assert_ok(try_box(f, &box));
        if (i % 10 == 9) {
            assert_device_is_image(f);
        }
    }
    assert_device_is_image(f);
}

/* Columns of a matrix to other columns of it. */
static void test_parts_of_the_same_rows_may_be_copied(void **state)
{
    struct fixture *f = *state;
    gantry_copy_box box = {sizeof(box), f->device, f->pinned, 1000, 100, 1, 1000, 1000, 0, 0};
    do_in_image(f, &box);
    assert_ok(try_box(f, &box));
    box =
        (gantry_copy_box){sizeof(box), at(f->device, 500), at(f->device, 100), 400, 100, 1, 1000, 1000, 0, 0};
    for (uint32_t row = 0; row < 100; row++) {
        memcpy(f->image + row * 1000 + 500, f->image + row * 1000 + 100, 400);
    }
    assert_ok(try_box(f, &box));
    assert_device_is_image(f);
    box.width = 401;
    assert_int_equal(try_box(f, &box), GANTRY_ERR_INVALID_ARGUMENT);
    assert_non_null(strstr(gantry_last_error(), "copy box: source 0x"));
    box.dest = at(f->device, 99);
    box.width = 2;
    assert_int_equal(try_box(f, &box), GANTRY_ERR_INVALID_ARGUMENT);
    box.dest = at(f->device, 3099);
    assert_int_equal(try_box(f, &box), GANTRY_ERR_INVALID_ARGUMENT);
    box.dest = at(f->device, 3101);
    box.width = 1;
    box.source_pitch = 999;
    assert_int_equal(try_box(f, &box), GANTRY_ERR_INVALID_ARGUMENT);
    assert_device_is_image(f);
}

/* One behind the last byte of the other, whichever comes first: that is apart, and a byte less is not. */
static void test_sides_may_lie_side_by_side(void **state)
{
    struct fixture *f = *state;
    gantry_copy_box box = {sizeof(box), f->device, f->pinned, 1000, 1, 1, 1000, 1000, 0, 0};
    do_in_image(f, &box);
    assert_ok(try_box(f, &box));
    box = (gantry_copy_box){sizeof(box), f->device, at(f->device, 300), 100, 2, 1, 200, 250, 0, 0};
    memcpy(f->image, f->image + 300, 100);
    memcpy(f->image + 200, f->image + 550, 100);
    assert_ok(try_box(f, &box));
    box.source = at(f->device, 299);
    assert_int_equal(try_box(f, &box), GANTRY_ERR_INVALID_ARGUMENT);
    box.source = f->device;
    box.dest = at(f->device, 350);
    memcpy(f->image + 350, f->image, 100);
    memcpy(f->image + 550, f->image + 250, 100);
    assert_ok(try_box(f, &box));
    box.dest = at(f->device, 349);
    assert_int_equal(try_box(f, &box), GANTRY_ERR_INVALID_ARGUMENT);
    assert_device_is_image(f);
}

static void test_boxes_of_nothing_do_nothing(void **state)
{
    struct fixture *f = *state;
    for (uint32_t i = 0; i < 3; i++) {
        gantry_copy_box box = GANTRY_COPY_BOX_INIT;
        box.width = i != 0 ? 7 : 0;
        box.rows = i != 1 ? 3 : 0;
        box.layers = i != 2 ? 3 : 0;
        assert_ok(try_box(f, &box));
    }
    assert_device_is_image(f);
}

static void refuse(struct fixture *f, const gantry_copy_box *box, const char *text)
{
    assert_int_equal(try_box(f, box), GANTRY_ERR_INVALID_ARGUMENT);
    if (strstr(gantry_last_error(), text) == NULL) {
        fail_msg("'%s' lacks '%s'", gantry_last_error(), text);
    }
}

static void test_bad_boxes_are_refused(void **state)
{
    struct fixture *f = *state;
    static char pageable[100];
    const gantry_copy_box good = {sizeof(good), f->device, f->pinned, 100, 10, 3, 100, 200, 1000, 2000};
    gantry_copy_box box = good;
    box.struct_size = 8;
    refuse(f, &box, "copy box: struct_size 8 is too small");
    box = good;
    box.dest_pitch = 99;
    refuse(f, &box, "copy box: dest_pitch is 99, less than the width 100");
    box = good;
    box.dest_layer_pitch = 999;
    refuse(f, &box, "copy box: dest_layer_pitch is 999, less than its 10 rows take");
    box = good;
    box.source = pageable;
    refuse(f, &box, "copy box: source 0x");
    box = good;
    box.dest = NULL;
    refuse(f, &box, "copy box: dest is NULL");
    box = good;
    box.source = at(f->pinned, ARENA - 5899);
    refuse(f, &box, " with 5900 bytes from the first to the last leaves its memory");
    box = good;
    box.rows = (uint64_t)1 << 45;
    box.layers = 1;
    refuse(f, &box, "copy box: it is larger than the address space");
    assert_device_is_image(f);
    box = good;
    do_in_image(f, &box);
    assert_ok(try_box(f, &box));
    assert_device_is_image(f);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        WITH_FIXTURE(test_random_boxes_arrive),
        WITH_FIXTURE(test_parts_of_the_same_rows_may_be_copied),
        WITH_FIXTURE(test_sides_may_lie_side_by_side),
        WITH_FIXTURE(test_boxes_of_nothing_do_nothing),
        WITH_FIXTURE(test_bad_boxes_are_refused),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
