/* SPDX-License-Identifier: MIT */
/* Lists of copies that the device reads are checked there before they are done: GANTRY_CHECK=bounds names the
 * first index that is wrong, and what is wrong with it. */
#include "tests/support/cmocka_c11.h"
#include "tests/support/emu_controls.h"

#include "tests/dispatcher/lists_scene.h"

#include "base/checking.h"
#include "context/context.h"

#include <stdlib.h>
#include <string.h>

static int open_checked(void **state)
{
    setenv("GANTRY_CHECK", "bounds", 1);
    int result = lists_open(state, GANTRY_SUBMISSION_GRAPHS);
    (void)gy_checks_read();
    unsetenv("GANTRY_CHECK");
    return result;
}

static int close_checked(void **state)
{
    int result = lists_close(state);
    (void)gy_checks_read();
    return result;
}

static void test_checks_name_the_index_and_the_number(void **state)
{
    struct lists *l = *state;
    lists_make(l, 50, 300);
    lists_use(l, DESCS, true);
    assert_ok(lists_step(l));
    lists_assert_copied(l);
    const gantry_copy_desc good = l->made[7];
    l->made[7].bytes = BYTES + 1;
    lists_refuse(l, "copy descriptor 7: dest 0x");
    lists_refuse(l, " with 262145 bytes leaves its memory");
    l->made[7] = good;
    l->made[49].source = l->content;
    l->made[49].bytes = 1;
    lists_refuse(l, "copy descriptor 49: source 0x");
    lists_make(l, 50, 300);
    l->made[3].type = (gantry_copy_type)9;
    lists_refuse(l, "copy descriptor 3: type 9 is unknown");
    lists_make(l, 50, 300);
    l->made[12].dest = l->made[30].dest;
    l->made[12].bytes = l->made[30].bytes = 5;
    lists_refuse(l, "copy descriptors 12 and 30: their dest ranges overlap");
    lists_make(l, 50, 300);
    *l->made_count = 501;
    lists_refuse(l, "copy list: the count is 501, more than the maximum 500");
    lists_make(l, 50, 300);
    l->made[1] = (gantry_copy_desc){
        .dest = l->dest, .source = &good, .bytes = 64, .type = GANTRY_COPY_FILL, .pattern_bytes = 8};
    lists_refuse(l, "the pattern of copy descriptor 1, 0x");
}

static void test_arrays_are_checked_like_descriptors(void **state)
{
    struct lists *l = *state;
    lists_make(l, 40, 300);
    l->arrays[2 * MOST + 5] = BYTES + 1;
    lists_use(l, COLUMNS, true);
    lists_refuse(l, "copy descriptor 5: dest 0x");
    lists_make(l, 40, 300);
    l->arrays[MOST + 6] = (uintptr_t)l->content; /* a copy from page-locked memory is allowed */
    l->arrays[2 * MOST + 6] = 1;
    memcpy(l->expected + (l->arrays[6] - (uintptr_t)l->dest), l->content, 1);
    lists_use(l, PINNED_COLUMNS, true);
    assert_ok(lists_step(l));
    lists_synchronize(l); /* the kernel reads the page-locked arrays, which the next list overwrites */
    lists_make(l, 40, 300);
    l->arrays[8] = 0;
    l->arrays[2 * MOST + 8] = 4;
    lists_refuse(l, "copy descriptor 8: dest is NULL");
}

/* Plant a mistake at one index, in both forms; the list is as long as the device says. */
static void plant(struct lists *l, uint32_t at, unsigned mistake, char *text, size_t room)
{
    gantry_copy_desc *desc = &l->made[at];
    const char *expected = "leaves its memory";
    switch (mistake) {
    case 0:
        desc->bytes = l->arrays[2 * MOST + at] = BYTES + 1 + at;
        break;
    case 1:
        desc->dest = NULL;
        l->arrays[at] = 0;
        desc->bytes = l->arrays[2 * MOST + at] = 3;
        expected = "dest is NULL";
        break;
    default: /* no memory of anybody's */
        desc->source = (const void *)(uintptr_t)0x123450;
        l->arrays[MOST + at] = 0x123450;
        desc->bytes = l->arrays[2 * MOST + at] = 7;
        expected = "source 0x123450 is pageable host memory, or no memory at all";
    }
    (void)snprintf(text, room, "copy descriptor %u: ", at);
    lists_refuse(l, text);
    lists_refuse(l, expected);
}

static void test_each_index_is_checked(void **state)
{
    struct lists *l = *state;
    char text[64];
    for (unsigned i = 0; i < 18; i++) {
        lists_make(l, MOST, 300);
        lists_use(l, i % 2 == 0 ? DESCS : COLUMNS, true);
        const uint32_t last = *l->made_count - 1, places[] = {0, last / 2, last};
        plant(l, places[i / 6], i / 2 % 3, text, sizeof(text));
        lists_make(l, MOST, 300); /* of several, the first is told */
        lists_use(l, i % 2 == 0 ? DESCS : COLUMNS, true);
        for (uint32_t at = last / 3; at < *l->made_count; at += 7) {
            l->made[at].bytes = l->arrays[2 * MOST + at] = BYTES + 1;
        }
        plant(l, last / 3, 0, text, sizeof(text));
    }
}

/* Exchange copies, so that dests are in no order. */
static void shuffle(struct lists *l)
{
    for (uint32_t i = *l->made_count; i > 1; i--) {
        const uint32_t other = (uint32_t)lists_random(i);
        const gantry_copy_desc one = l->made[i - 1];
        l->made[i - 1] = l->made[other];
        l->made[other] = one;
        for (int row = 0; row < 3; row++) {
            uint64_t *words = l->arrays + row * MOST, word = words[i - 1];
            words[i - 1] = words[other];
            words[other] = word;
        }
    }
}

static void test_overlaps_are_found_in_any_order(void **state)
{
    struct lists *l = *state;
    char text[100];
    for (unsigned i = 0; i < 8; i++) {
        lists_make(l, 2 + (uint32_t)lists_random(MOST - 2), 300);
        shuffle(l);
        lists_use(l, i % 2 == 0 ? DESCS : COLUMNS, true);
        assert_ok(lists_step(l));
        lists_assert_copied(l);
        const uint32_t a = (uint32_t)lists_random(*l->made_count);
        const uint32_t b = (a + 1 + (uint32_t)lists_random(*l->made_count - 1)) % *l->made_count;
        const bool is_source = i / 2 % 2 == 1;
        l->made[a].bytes = l->arrays[2 * MOST + a] = l->made[b].bytes = l->arrays[2 * MOST + b] = 1;
        if (is_source) {
            l->made[a].source = l->made[b].dest;
            l->arrays[MOST + a] = l->arrays[b];
            (void)snprintf(text, sizeof(text), "copy descriptor %u: source overlaps dest of descriptor %u", a,
                           b);
        } else {
            l->made[a].dest = l->made[b].dest;
            l->arrays[a] = l->arrays[b];
            (void)snprintf(text, sizeof(text), "copy descriptors %u and %u: their dest ranges overlap",
                           a < b ? a : b, a < b ? b : a);
        }
        lists_refuse(l, text);
    }
}

/* More blocks than the kernel can note at a time, and memory that is none of the heap's. */
static void test_memory_of_many_blocks_is_found(void **state)
{
    struct lists *l = *state;
    void *blocks[MOST];
    CUdeviceptr foreign;
    assert_ok(gantry_context_acquire(l->gpu.context));
    assert_ok(GY_CALL(l->gpu.context->cuda, cuMemAlloc(&foreign, 64)));
    for (uint32_t i = 0; i < MOST; i++) {
        blocks[i] = i == 3 ? (void *)(uintptr_t)foreign : lists_allocate(l, GANTRY_MEMORY_DEVICE, 64);
        l->made[i] =
            (gantry_copy_desc){.dest = blocks[i], .source = l->source, .bytes = 64, .type = GANTRY_COPY_DTOD};
    }
    *l->made_count = MOST;
    lists_use(l, DESCS, true);
    assert_ok(lists_step(l));
    lists_synchronize(l);
    l->made[MOST - 1].bytes = 65;
    lists_refuse(l, "copy descriptor 499: dest 0x");
    l->made[3].bytes = 65;
    lists_refuse(l, "copy descriptor 3: dest 0x");
    for (uint32_t i = 0; i < MOST; i++) {
        if (i != 3) {
            assert_ok(gantry_heap_free(gantry_context_heap(l->gpu.context), blocks[i]));
        }
    }
    assert_ok(GY_CALL(l->gpu.context->cuda, cuMemFree(foreign)));
    assert_ok(gantry_context_release(l->gpu.context));
}

/* The list itself stays where it is. */
static void test_lists_are_not_read_by_the_host(void **state)
{
    struct lists *l = *state;
    struct gantry_emu_control emu;
    if (!l->emulated || !emu_controls_open(&emu)) {
        return; /* a device does not count */
    }
    lists_make(l, MOST, 300);
    lists_use(l, DESCS, true);
    const uint64_t before = emu.calls("cuMemcpyDtoH_v2");
    assert_ok(lists_step(l));
    lists_assert_copied(l);
    assert_int_equal(emu.calls("cuMemcpyDtoH_v2"), before);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup_teardown(test_checks_name_the_index_and_the_number, open_checked,
                                        close_checked),
        cmocka_unit_test_setup_teardown(test_arrays_are_checked_like_descriptors, open_checked,
                                        close_checked),
        cmocka_unit_test_setup_teardown(test_each_index_is_checked, open_checked, close_checked),
        cmocka_unit_test_setup_teardown(test_overlaps_are_found_in_any_order, open_checked, close_checked),
        cmocka_unit_test_setup_teardown(test_memory_of_many_blocks_is_found, open_checked, close_checked),
        cmocka_unit_test_setup_teardown(test_lists_are_not_read_by_the_host, open_checked, close_checked),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
