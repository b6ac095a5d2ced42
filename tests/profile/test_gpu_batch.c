/* SPDX-License-Identifier: MIT */
/* Batches in GPU time: from the first begin of their tasks to the last end, whatever the order in which these
 * become known; and a batch belongs to one recording. */
#include "tests/support/cmocka_c11.h"

#include "profile/gpu_batch.h"
#include "profile/gpu_marks.h"

enum { TASKS = 3, ORDERS = 6, GENERATION = 7 };

static const uint64_t begins[TASKS] = {200, 100, 300}, ends[TASKS] = {900, 400, 600};
static const uint32_t orders[ORDERS][TASKS] = {{0, 1, 2}, {0, 2, 1}, {1, 0, 2},
                                               {1, 2, 0}, {2, 0, 1}, {2, 1, 0}};

static void test_a_batch_lasts_from_the_first_begin_to_the_last_end(void **state)
{
    (void)state;
    struct gy_gpu_batches batches;
    gy_gpu_batches_init(&batches);
    for (uint32_t i = 0; i < ORDERS; i++) {
        gy_gpu_batches_begin(&batches, GENERATION, i);
        struct gy_gpu_batch *batch = gy_gpu_batches_hold(&batches, GENERATION);
        assert_non_null(batch);
        for (uint32_t k = 0; k < TASKS; k++) {
            gy_gpu_batch_add(batch, 3, begins[orders[i][k]], ends[orders[i][k]]);
        }
        assert_int_equal(batch->begin_ns, 100);
        assert_int_equal(batch->end_ns, 900);
        assert_int_equal(batch->tasks, TASKS);
        assert_int_equal(batch->gpu, 3);
        assert_int_equal(batch->number, i);
        gy_gpu_batch_leave(&batches, batch);
    }
    gy_gpu_batches_fini(&batches);
}

/* Who holds a batch keeps it; the last one to leave makes it free for the next recording. */
static void test_a_batch_is_of_one_recording(void **state)
{
    (void)state;
    struct gy_gpu_batches batches;
    gy_gpu_batches_init(&batches);
    assert_null(gy_gpu_batches_hold(&batches, GENERATION));
    gy_gpu_batches_begin(&batches, GENERATION, 1);
    assert_null(gy_gpu_batches_hold(&batches, GENERATION - 1));
    assert_null(gy_gpu_batches_hold(&batches, GENERATION + 1));
    struct gy_gpu_batch *first = gy_gpu_batches_hold(&batches, GENERATION);
    struct gy_gpu_batch *again = gy_gpu_batches_hold(&batches, GENERATION);
    assert_ptr_equal(first, again);
    gy_gpu_batch_add(first, 0, 1, 2);
    assert_int_equal(gy_gpu_batches_begun(&batches, GENERATION), 1);
    assert_int_equal(gy_gpu_batches_begun(&batches, GENERATION + 1), 0);
    gy_gpu_batches_end(&batches);
    gy_gpu_batch_leave(&batches, first);
    assert_true(gy_gpu_batches_are_awaited(&batches, GENERATION)); /* one holds it still */
    assert_false(gy_gpu_batches_are_awaited(&batches, GENERATION + 1));
    gy_gpu_batch_rest(again, true);
    assert_false(gy_gpu_batches_are_awaited(&batches, GENERATION));
    gy_gpu_batch_rest(again, false);
    gy_gpu_batch_leave(&batches, again);
    assert_false(gy_gpu_batches_are_awaited(&batches, GENERATION));
    gy_gpu_batches_begin(&batches, GENERATION + 1, 2);
    assert_null(gy_gpu_batches_hold(&batches, GENERATION));
    gy_gpu_batches_fini(&batches);
}

/* What was in use when a recording ended is lost once, whoever ends it again, and is none of the next one's.
 */
static void test_a_recording_is_closed_once(void **state)
{
    (void)state;
    struct gy_gpu_marks marks = {.generation = GENERATION, .used = 3, .resting = 1};
    gy_gpu_marks_init(&marks, NULL);
    assert_int_equal(gy_gpu_marks_awaited(&marks, GENERATION), 2);
    assert_int_equal(gy_gpu_marks_awaited(&marks, GENERATION + 1), 0);
    assert_int_equal(gy_gpu_marks_close(&marks, GENERATION - 1), 0);
    assert_int_equal(gy_gpu_marks_close(&marks, GENERATION), 3);
    assert_true(gy_gpu_marks_are_closed(&marks, GENERATION));
    assert_int_equal(gy_gpu_marks_close(&marks, GENERATION), 0);
    assert_false(gy_gpu_marks_are_closed(&marks, GENERATION + 1));
    gy_gpu_marks_fini(&marks);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_a_batch_lasts_from_the_first_begin_to_the_last_end),
        cmocka_unit_test(test_a_batch_is_of_one_recording),
        cmocka_unit_test(test_a_recording_is_closed_once),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
