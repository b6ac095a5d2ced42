/* SPDX-License-Identifier: MIT */
/* The short way of large usual batches, and large copies whose sides are aligned differently: their copies
 * are right, and they refuse everything that the long way refuses.  Runs on the emulated driver, or on a
 * device with GANTRY_TEST_DRIVER=cuda. */
#include "tests/copykernel/fixture.h"

#include "base/alloc.h"
#include "copykernel/internal.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { MOST = 1200, HALF = ARENA / 2 };

static gantry_copy_desc descs[MOST];

/* Copies from the lower half of `from` to the upper half of `to`: dests in order with gaps, sources
 * anywhere. */
static size_t make_batch(void *to, void *from, gantry_copy_type type, uint64_t least, uint64_t most)
{
    size_t count = 0, offset = HALF;
    while (count < MOST) {
        uint64_t bytes = least + random_below(most - least + 1);
        if (offset + bytes + 40 > ARENA) {
            break;
        }
        descs[count++] = (gantry_copy_desc){.dest = at(to, offset),
                                            .source = at(from, random_below(HALF - bytes)),
                                            .bytes = bytes,
                                            .type = type};
        offset += bytes + 1 + random_below(40);
    }
    return count;
}

static void shuffle(size_t count)
{
    for (size_t i = count; i > 1; i--) {
        uint64_t k = random_below(i);
        gantry_copy_desc other = descs[k];
        descs[k] = descs[i - 1];
        descs[i - 1] = other;
    }
}

static bool is_usual(struct fixture *f, size_t count)
{
    struct gy_copy_scan scan;
    return gy_copy_scan(f->context, f->heap, descs, count, &f->copier->places, &scan);
}

/* The image of `to` after the batch. */
static void do_in_image(struct fixture *f, size_t count, const uint8_t *from_image, const void *from)
{
    for (size_t i = 0; i < count; i++) {
        memmove(f->image + ((const char *)descs[i].dest - (char *)f->device),
                from_image + ((const char *)descs[i].source - (const char *)from), descs[i].bytes);
    }
}

static void test_usual_batches_take_the_short_way_and_arrive(void **state)
{
    struct fixture *f = *state;
    static const uint64_t sizes[][2] = {{1, 200}, {64, 64}, {0, 600}, {100, 800}};
    for (uint32_t i = 0; i < 8; i++) {
        size_t count = make_batch(f->device, f->pinned, GANTRY_COPY_HTOD, sizes[i % 4][0], sizes[i % 4][1]);
        assert_true(count > 256);
        do_in_image(f, count, f->pinned, f->pinned);
        assert_true(is_usual(f, count));
        launch(f, descs, count);
        assert_device_is_image(f);
        count = make_batch(f->device, f->device, GANTRY_COPY_DTOD, sizes[i % 4][0], sizes[i % 4][1]);
        do_in_image(f, count, f->image, f->device);
        assert_true(is_usual(f, count));
        launch(f, descs, count);
        assert_device_is_image(f);
    }
}

static void test_batches_to_the_host_arrive(void **state)
{
    struct fixture *f = *state;
    size_t count = make_batch(f->device, f->pinned, GANTRY_COPY_HTOD, 300, 400);
    launch(f, descs, count);
    synchronize(f);
    uint8_t *expected = malloc(ARENA);
    assert_non_null(expected);
    memcpy(expected, f->pinned, ARENA);
    for (size_t i = 0; i < count; i++) { /* data that came from there goes behind its source */
        const gantry_copy_desc forth = descs[i];
        memcpy(expected + ((char *)forth.dest - (char *)f->device), forth.source, forth.bytes);
        descs[i] = (gantry_copy_desc){.dest = at(f->pinned, (size_t)((char *)forth.dest - (char *)f->device)),
                                      .source = forth.dest,
                                      .bytes = forth.bytes,
                                      .type = GANTRY_COPY_DTOH};
    }
    assert_true(is_usual(f, count));
    launch(f, descs, count);
    synchronize(f);
    assert_memory_equal(f->pinned, expected, ARENA);
    free(expected);
}

/* Dests in any order take the short way where their map has room; in any case they arrive. */
static void test_shuffled_batches_arrive(void **state)
{
    struct fixture *f = *state;
    for (uint32_t i = 0; i < 6; i++) {
        const bool even = i % 2 == 0;
        size_t count = make_batch(f->device, f->pinned, GANTRY_COPY_HTOD, even ? 64 : 1, even ? 100 : 300);
        if (even) {
            for (size_t k = 0; k < count; k++) {
                descs[k].dest = at(f->device, HALF + k * 192);
            }
        }
        do_in_image(f, count, f->pinned, f->pinned);
        shuffle(count);
        assert_true(is_usual(f, count) || !even);
        launch(f, descs, count);
        assert_device_is_image(f);
    }
}

static void expect_refused(struct fixture *f, size_t count, const char *text)
{
    assert_false(is_usual(f, count));
    assert_int_equal(try_launch(f, descs, count), GANTRY_ERR_INVALID_ARGUMENT);
    if (strstr(gantry_last_error(), text) == NULL) {
        fail_msg("'%s' lacks '%s'", gantry_last_error(), text);
    }
    assert_device_is_image(f);
}

static size_t make_regular(struct fixture *f, bool in_order)
{
    for (size_t k = 0; k < 600; k++) {
        descs[k] = (gantry_copy_desc){.dest = at(f->device, HALF + k * 128),
                                      .source = at(f->device, k * 128),
                                      .bytes = 64,
                                      .type = GANTRY_COPY_DTOD};
    }
    if (!in_order) {
        shuffle(600);
    }
    return 600;
}

static void test_bad_batches_are_refused_as_ever(void **state)
{
    struct fixture *f = *state;
    for (int in_order = 0; in_order < 2; in_order++) {
        size_t count = make_regular(f, in_order != 0);
        assert_true(is_usual(f, count));
        descs[300].dest = (char *)descs[40].dest + 63;
        expect_refused(f, count, "and 300: their dest ranges overlap");
        count = make_regular(f, in_order != 0);
        descs[300].source = (char *)descs[40].dest + 63;
        expect_refused(f, count, "copy descriptor 300: source overlaps dest of descriptor 40");
        count = make_regular(f, in_order != 0);
        descs[599].bytes = 0;
        descs[0].dest = NULL;
        expect_refused(f, count, "copy descriptor 0: dest is NULL");
        count = make_regular(f, in_order != 0);
        descs[7].dest = at(f->device, ARENA - 63);
        expect_refused(f, count, "copy descriptor 7: dest 0x");
        count = make_regular(f, in_order != 0);
        descs[8].source = f->pinned;
        expect_refused(f, count, "copy descriptor 8: source 0x");
        count = make_regular(f, in_order != 0);
        descs[9].type = GANTRY_COPY_HTOD;
        expect_refused(f, count, "copy descriptor 9: source 0x");
        count = make_regular(f, in_order != 0);
        descs[10].type = (gantry_copy_type)4;
        expect_refused(f, count, "copy descriptor 10: type 4 is unknown");
    }
}

/* One of many is wrong, in a part of the batch whose memory is known: sums over that part must not hide it.
 */
static void test_one_that_is_wrong_among_many_is_found(void **state)
{
    struct fixture *f = *state;
    static const size_t places[] = {0, 255, 256, 300, 511, 512, 599};
    for (size_t n = 0; n < 2 * sizeof(places) / sizeof(places[0]); n++) {
        const size_t at_place = places[n / 2];
        const bool in_order = n % 2 == 0;
        gantry_copy_desc *const wrong = &descs[at_place];
        char text[64];
        size_t count = make_regular(f, in_order);
        wrong->dest = (void *)(uintptr_t)(UINTPTR_MAX - 9); /* its end comes before all others */
        snprintf(text, sizeof(text), "copy descriptor %zu: dest 0x", at_place);
        expect_refused(f, count, text);
        count = make_regular(f, in_order);
        wrong->source = (void *)(uintptr_t)(UINTPTR_MAX - 9);
        snprintf(text, sizeof(text), "copy descriptor %zu: source 0x", at_place);
        expect_refused(f, count, text);
        make_regular(f, in_order);
        wrong->source = f->pinned;
        expect_refused(f, count, text);
        make_regular(f, in_order);
        wrong->type = GANTRY_COPY_HTOD;
        expect_refused(f, count, text);
        make_regular(f, in_order);
        wrong->bytes = UINT64_MAX;
        snprintf(text, sizeof(text), "copy descriptor %zu: dest 0x", at_place);
        expect_refused(f, count, text);
        make_regular(f, in_order);
        wrong->dest = at(f->device, ARENA - 63);
        expect_refused(f, count, text);
    }
}

/* An empty copy, and two that continue each other, anywhere. */
static void test_one_that_is_unusual_among_many_arrives(void **state)
{
    struct fixture *f = *state;
    static const size_t places[] = {1, 255, 256, 300, 511, 512, 599};
    for (size_t n = 0; n < sizeof(places) / sizeof(places[0]); n++) {
        gantry_copy_desc *const one = &descs[places[n]];
        size_t count = make_regular(f, true);
        one->bytes = 0;
        assert_true(is_usual(f, count));
        do_in_image(f, count, f->image, f->device);
        launch(f, descs, count);
        assert_device_is_image(f);
        make_regular(f, true);
        one[-1].bytes = 128;
        one[0].source = (char *)one[-1].source + 128;
        assert_false(is_usual(f, count));
        do_in_image(f, count, f->image, f->device);
        launch(f, descs, count);
        assert_device_is_image(f);
    }
}

static void test_unusual_batches_take_the_long_way(void **state)
{
    struct fixture *f = *state;
    size_t count = make_regular(f, true);
    for (size_t k = 0; k < count; k++) { /* neighbours that continue each other are one copy */
        descs[k].dest = at(f->device, HALF + k * 64);
        descs[k].source = at(f->device, k * 64);
    }
    assert_false(is_usual(f, count));
    make_regular(f, true);
    descs[5] = (gantry_copy_desc){
        .dest = descs[5].dest, .bytes = 64, .type = GANTRY_COPY_FILL, .pattern_bytes = 1, .pattern = 7};
    assert_false(is_usual(f, count));
    launch(f, descs, count);
    for (size_t k = 0; k < count; k++) {
        uint8_t *to = f->image + HALF + k * 128;
        k == 5 ? memset(to, 7, 64) : memcpy(to, f->image + k * 128, 64);
    }
    assert_device_is_image(f);
}

/* ---- large and misaligned ---- */

static void test_large_copies_aligned_differently_arrive(void **state)
{
    struct fixture *f = *state;
    gantry_copy_tuning tuning = gy_copier_tuning(f->copier);
    assert_int_equal(tuning.misaligned, GANTRY_COPY_MISALIGNED_KERNEL);
    memset(tuning.engine_up_to, 0xff, sizeof(tuning.engine_up_to));
    for (uint32_t misaligned = 0; misaligned <= 2; misaligned++) {
        tuning.misaligned = misaligned;
        assert_ok(gy_copier_set_tuning(f->copier, &tuning));
        for (uint32_t i = 0; i < 20; i++) {
            const size_t odd = random_below(200), from = random_below(200),
                         bytes = 1 + random_below(HALF - 300);
            const gantry_copy_desc first = {
                at(f->device, from), at(f->pinned, 300), bytes, GANTRY_COPY_HTOD, 0, 0};
            const gantry_copy_desc second = {
                at(f->device, HALF + odd), at(f->device, from), bytes, GANTRY_COPY_DTOD, 0, 0};
            launch(f, &first, 1);
            launch(f, &second, 1);
            memcpy(f->image + from, at(f->pinned, 300), bytes);
            memcpy(f->image + HALF + odd, f->image + from, bytes);
            assert_device_is_image(f);
        }
    }
    tuning.misaligned = 3;
    assert_int_equal(gy_copier_set_tuning(f->copier, &tuning), GANTRY_ERR_INVALID_ARGUMENT);
}

static uint64_t engine_calls(struct fixture *f, const gantry_copy_desc *desc)
{
    f->emu.reset_counters();
    launch(f, desc, 1);
    assert_int_equal(f->emu.calls("cuMemcpyAsync") + f->emu.calls("cuLaunchKernel"), 1);
    return f->emu.calls("cuMemcpyAsync");
}

static void test_the_kernel_does_them_unless_told_otherwise(void **state)
{
    struct fixture *f = emulated_only(state);
    gantry_copy_tuning tuning = gy_copier_tuning(f->copier);
    memset(tuning.engine_up_to, 0xff, sizeof(tuning.engine_up_to));
    const gantry_copy_desc odd = {at(f->device, HALF), at(f->device, 3), 100000, GANTRY_COPY_DTOD, 0, 0};
    const gantry_copy_desc even = {at(f->device, HALF + 3), at(f->device, 3), 100000, GANTRY_COPY_DTOD, 0, 0};
    const gantry_copy_desc host = {at(f->device, HALF), at(f->pinned, 3), 100000, GANTRY_COPY_HTOD, 0, 0};
    assert_ok(gy_copier_set_tuning(f->copier, &tuning));
    assert_int_equal(engine_calls(f, &odd), 0);
    assert_int_equal(engine_calls(f, &even), 1);
    assert_int_equal(engine_calls(f, &host), 1);
    tuning.misaligned = GANTRY_COPY_MISALIGNED_ENGINE;
    assert_ok(gy_copier_set_tuning(f->copier, &tuning));
    assert_int_equal(engine_calls(f, &odd), 1);
    synchronize(f);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        WITH_FIXTURE(test_usual_batches_take_the_short_way_and_arrive),
        WITH_FIXTURE(test_batches_to_the_host_arrive),
        WITH_FIXTURE(test_shuffled_batches_arrive),
        WITH_FIXTURE(test_bad_batches_are_refused_as_ever),
        WITH_FIXTURE(test_one_that_is_wrong_among_many_is_found),
        WITH_FIXTURE(test_one_that_is_unusual_among_many_arrives),
        WITH_FIXTURE(test_unusual_batches_take_the_long_way),
        WITH_FIXTURE(test_large_copies_aligned_differently_arrive),
        WITH_FIXTURE(test_the_kernel_does_them_unless_told_otherwise),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
