/* SPDX-License-Identifier: MIT */
/* Links between devices: the facts about a pair, and that a measurement leaves nothing behind. */
#include "tests/support/gpu_fixture.h"

#include "driver/driver.h"
#include "tests/support/cmocka_c11.h"
#include "tests/support/emu_controls.h"

#include <gantry/links.h>

#include <stdlib.h>
#include <string.h>

#define MEASURED_BYTES ((uint64_t)1 << 20)

/* The emulated driver has three devices, two of which are linked. */
static bool is_emulated(void)
{
    return gpu_fixture_driver() == GANTRY_DRIVER_EMULATED;
}

static bool has_pair(void)
{
    gantry_link link = {.struct_size = sizeof(link)};
    return gantry_link_get(gpu_fixture_driver(), 0, 1, &link) == GANTRY_OK;
}

static void test_a_link_is_told_in_both_directions(void **state)
{
    (void)state;
    gantry_link there = {.struct_size = sizeof(there)}, back = {.struct_size = sizeof(back)};
    if (!has_pair()) {
        print_message("skipped: one device has no links\n");
        skip();
    }
    assert_ok(gantry_link_get(gpu_fixture_driver(), 0, 1, &there));
    assert_ok(gantry_link_get(gpu_fixture_driver(), 1, 0, &back));
    assert_int_equal(there.from, 0);
    assert_int_equal(there.to, 1);
    assert_int_equal(back.from, 1);
    assert_int_equal(there.access != 0, there.rank >= 0);
    assert_int_equal(there.measured, 0);
    if (is_emulated()) {
        assert_int_equal(there.access, 1);
        assert_ok(gantry_link_get(GANTRY_DRIVER_EMULATED, 0, 2, &there));
        assert_int_equal(there.access, 0);
        assert_int_equal(there.rank, -1);
    }
}

static void measure(int from, int to)
{
    gantry_link link = {.struct_size = sizeof(link)};
    const struct gy_driver *driver;
    CUcontext current = NULL;
    assert_ok(gy_driver_open(gpu_fixture_driver(), &driver));
    assert_ok(gantry_link_measure(gpu_fixture_driver(), from, to, MEASURED_BYTES, &link));
    assert_int_equal(driver->cuCtxGetCurrent(&current), CUDA_SUCCESS);
    assert_null(current);
    gy_driver_close(driver);
    assert_int_equal(link.measured, 1);
    assert_true(link.gb_per_s > 0);
    assert_true(link.copy_us > 0);
    print_message("%d -> %d: access %u, rank %d, %.1f GB/s, %.2f us\n", from, to, link.access, link.rank,
                  link.gb_per_s, link.copy_us);
}

static void test_links_are_measured_with_and_without_access(void **state)
{
    (void)state;
    struct gantry_emu_control emu;
    if (!has_pair()) {
        print_message("skipped: one device has no links\n");
        skip();
    }
    measure(0, 1);
    if (is_emulated()) {
        measure(2, 0);
        assert_true(emu_controls_open(&emu));
        assert_int_equal(emu.live(GANTRY_EMU_LIVE_CONTEXTS), 0);
        assert_int_equal(emu.live(GANTRY_EMU_LIVE_DEVICE_BYTES), 0);
        assert_int_equal(emu.live(GANTRY_EMU_LIVE_RESERVATIONS), 0);
    }
}

/* Whichever call is refused, everything is given back. */
static void test_failures_leave_nothing_behind(void **state)
{
    (void)state;
    static const char *const calls[] = {"cuMemAlloc",         "cuMemAddressReserve", "cuMemCreate",
                                        "cuMemMap",           "cuMemSetAccess",      "cuStreamCreate",
                                        "cuEventCreate",      "cuEventRecord",       "cuMemcpyDtoDAsync",
                                        "cuEventSynchronize", "cuEventElapsedTime"};
    struct gantry_emu_control emu;
    if (!is_emulated()) {
        print_message("skipped: no device fails on request\n");
        skip();
    }
    assert_true(emu_controls_open(&emu));
    for (size_t i = 0; i < sizeof(calls) / sizeof(calls[0]); i++) {
        gantry_link link = {.struct_size = sizeof(link)};
        assert_int_equal((emu.fail)(calls[i], 1, 2, GANTRY_EMU_ONCE), 0);
        assert_int_not_equal(gantry_link_measure(GANTRY_DRIVER_EMULATED, 0, 1, MEASURED_BYTES, &link),
                             GANTRY_OK);
        assert_non_null(strstr(gantry_last_error(), calls[i]));
        emu.clear_faults();
        assert_int_equal(emu.live(GANTRY_EMU_LIVE_CONTEXTS), 0);
        assert_int_equal(emu.live(GANTRY_EMU_LIVE_DEVICE_BYTES), 0);
        assert_int_equal(emu.live(GANTRY_EMU_LIVE_RESERVATIONS), 0);
    }
}

static void test_nonsense_is_refused(void **state)
{
    (void)state;
    gantry_link link = {.struct_size = sizeof(link)};
    gantry_driver_choice driver = gpu_fixture_driver();
    assert_int_equal(gantry_link_get(driver, 0, 0, &link), GANTRY_ERR_INVALID_ARGUMENT);
    assert_int_equal(gantry_link_get(driver, 0, 1, NULL), GANTRY_ERR_INVALID_ARGUMENT);
    assert_int_equal(gantry_link_get(driver, 0, 4711, &link), GANTRY_ERR_NO_DEVICE);
    assert_int_equal(gantry_link_measure(driver, 0, 1, 1, &link), GANTRY_ERR_INVALID_ARGUMENT);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_a_link_is_told_in_both_directions),
        cmocka_unit_test(test_links_are_measured_with_and_without_access),
        cmocka_unit_test(test_failures_leave_nothing_behind),
        cmocka_unit_test(test_nonsense_is_refused),
    };
    setenv("GANTRY_EMU_DEVICES", "3", 1);
    setenv("GANTRY_EMU_PROFILE", "links=pairs", 1);
    return cmocka_run_group_tests_name("links", tests, NULL, NULL);
}
