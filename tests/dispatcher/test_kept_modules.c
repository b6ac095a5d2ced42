/* SPDX-License-Identifier: MIT */
/* Graphs that are kept, and modules that come and go. */
#include "order_kernels.kernels.h"
#include "tests/dispatcher/patched_scene.h"
#include "tests/support/cmocka_c11.h"

static void test_an_unloaded_module_drops_what_was_kept(void **state)
{
    (void)state;
    patched_open_with_rows();
    for (uint32_t i = 0; i < 3; i++) {
        gantry_module_unload(patched.module);
        patched_load();
        const struct patched_change step = patched_run_rows(PATCHED_ROWS, true);
        assert_int_equal(step.made, 1);
        assert_int_equal(step.kept, 0);
        assert_int_equal(gpu_fixture_stats(&patched.gpu).graphs_kept, 1);
        patched_expect(patched_run_rows(PATCHED_ROWS, true), 0);
    }
    patched_close();
}

/* A step without the second module's kernel is kept, too, when that module goes. */
static void test_an_unloaded_module_drops_nothing_else(void **state)
{
    (void)state;
    static gantry_module_image image; /* the same kernels; another image is another module */
    gantry_module *second;
    patched_open_with_rows();
    image = gantry_image_order_kernels;
    (void)patched_run_rows(PATCHED_ROWS / 2, false);
    for (uint32_t i = 0; i < 3; i++) {
        assert_ok(gantry_module_load(patched.gpu.context, &image, &second));
        gantry_module_unload(second);
        patched_expect(patched_run_rows(PATCHED_ROWS, true), 0);
    }
    assert_ok(gantry_module_load(patched.gpu.context, &image, &second));
    gantry_kernel *const first = patched.kernels[COUNT_DOWN];
    assert_ok(gantry_module_get_kernel(second, "count_down", &patched.kernels[COUNT_DOWN]));
    patched.jobs[PATCHED_ROWS - 1].function = COUNT_DOWN;
    patched_expect(patched_run_rows(PATCHED_ROWS, true), 1);
    assert_int_equal(gpu_fixture_stats(&patched.gpu).graphs_kept, 2);
    gantry_module_unload(second);
    patched.kernels[COUNT_DOWN] = first;
    assert_int_equal(patched_run_rows(PATCHED_ROWS / 2, false).kept, PATCHED_ROWS / 2);
    assert_int_equal(gpu_fixture_stats(&patched.gpu).graphs_kept, 1);
    assert_int_equal(patched_run_rows(PATCHED_ROWS, true).made, 1);
    patched_expect(patched_run_rows(PATCHED_ROWS, true), 0);
    patched_close();
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_an_unloaded_module_drops_what_was_kept),
        cmocka_unit_test(test_an_unloaded_module_drops_nothing_else),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
