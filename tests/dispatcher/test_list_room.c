/* SPDX-License-Identifier: MIT */
/* Lists that the device reads have room: each of their arrays for each copy, and the notes of the kernels for
 * each slice of the list. */
#include "tests/support/cmocka_c11.h"

#include "copykernel/internal.h"
#include "dispatcher/internal.h"
#include "tests/dispatcher/lists_scene.h"

#include <stdio.h>
#include <string.h>

static int open_streams(void **state)
{
    return lists_open(state, GANTRY_SUBMISSION_STREAMS);
}

/* The kernels find that there is nothing to copy. */
static void expect_no_copies(struct lists *l)
{
    *l->made_count = 0;
    memset(l->expected, 0, BYTES);
    assert_ok(lists_step(l));
    lists_assert_copied(l);
}

/* ---- the caller's arrays ------------------------------------------------------------------------- */

enum { FEW = 512, ARRAYS = 4 }; /* so many of each array are whole pages */

/* One array has room for FEW copies, and the others for twice as many. */
static void place_arrays(struct lists *l, const uint32_t shortest, void *blocks[ARRAYS])
{
    static const size_t each[ARRAYS] = {sizeof(gantry_copy_desc), sizeof(void *), sizeof(void *),
                                        sizeof(uint64_t)};
    for (uint32_t i = 0; i < ARRAYS; i++) {
        blocks[i] =
            lists_allocate(l, GANTRY_MEMORY_DEVICE, (i == shortest ? FEW : (size_t)2 * FEW) * each[i]);
    }
    l->list = (gantry_copy_list)GANTRY_COPY_LIST_INIT;
    l->list.count = l->count;
    if (shortest == 0) {
        l->list.descs = blocks[0];
    } else {
        l->list.dests = blocks[1];
        l->list.sources = blocks[2];
        l->list.bytes = blocks[3];
    }
}

static void test_each_array_has_room_for_all_copies(void **state)
{
    static const char *const names[ARRAYS] = {"descs", "dests", "sources", "bytes"};
    struct lists *l = *state;
    for (uint32_t i = 0; i < ARRAYS; i++) {
        void *blocks[ARRAYS];
        char text[64];
        snprintf(text, sizeof(text), "copy list: %s 0x", names[i]);
        place_arrays(l, i, blocks);
        l->list.most = FEW;
        expect_no_copies(l);
        l->list.most = FEW + 1;
        lists_refuse(l, text);
        for (uint32_t k = 0; k < ARRAYS; k++) {
            assert_ok(gantry_heap_free(gantry_context_heap(l->gpu.context), blocks[k]));
        }
    }
}

/* ---- the kernels' notes -------------------------------------------------------------------------- */

enum { MOST_SLICES = 4096, SLICE = 32 };

/* The bytes of the largest memory for notes that was used. */
static size_t room_of_notes(const struct lists *l)
{
    const struct gy_copier *copier = gantry_context_dispatcher(l->gpu.context)->config.copier;
    size_t most = 0;
    for (unsigned c = 0; c < GY_COPY_RING_CLASSES; c++) {
        const struct gy_copy_ring *ring = &copier->scratch;
        if (ring->free[c] != NULL || ring->busy[c].first != NULL) {
            most = (size_t)16384 << c;
        }
    }
    return most;
}

/* A slice has up to 32 copies, and any of them may be a large one: so each has a note. */
static void test_each_slice_has_a_note(void **state)
{
    struct lists *l = *state;
    void *block = lists_allocate(l, GANTRY_MEMORY_DEVICE, (size_t)MOST_SLICES * SLICE * sizeof(uint64_t));
    lists_use(l, COLUMNS, true);
    l->list.dests = block;
    l->list.sources = block;
    l->list.bytes = block;
    for (uint32_t slices = 1; slices <= MOST_SLICES; slices *= 2) {
        for (int more = -1; more <= 1; more++) { /* around each size in which the memory comes */
            l->list.most = slices * SLICE + (uint32_t)more;
            l->list.most = l->list.most < MOST_SLICES * SLICE ? l->list.most : MOST_SLICES * SLICE;
            expect_no_copies(l);
            const size_t needed = ((size_t)l->list.most + SLICE - 1) / SLICE;
            assert_true(room_of_notes(l) >= needed * sizeof(struct gy_copy_large_entry));
        }
    }
    assert_ok(gantry_heap_free(gantry_context_heap(l->gpu.context), block));
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup_teardown(test_each_array_has_room_for_all_copies, open_streams, lists_close),
        cmocka_unit_test_setup_teardown(test_each_slice_has_a_note, open_streams, lists_close),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
