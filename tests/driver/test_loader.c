/* SPDX-License-Identifier: MIT */
/* Which driver library is chosen, what the library says when there is none, and what results mean. */
#include "driver/driver.h"

#include "base/thread.h"
#include "tests/support/cmocka_c11.h"

#include <dlfcn.h>
#include <limits.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

static char log_text[4096]; /* info lines; only the test's thread writes them */

static void keep_info(void *user, gantry_log_level level, const char *line)
{
    (void)user;
    if (level == GANTRY_LOG_INFO) {
        size_t used = strlen(log_text);
        snprintf(log_text + used, sizeof(log_text) - used, "%s\n", line);
    }
}

static int each_setup(void **state)
{
    (void)state;
    static const char *const names[] = {"GANTRY_DRIVER", "FAKE_DRIVER_VERSION", "FAKE_DRIVER_INIT",
                                        "FAKE_DRIVER_DEVICES"};
    for (size_t i = 0; i < sizeof(names) / sizeof(names[0]); i++) {
        unsetenv(names[i]);
    }
    log_text[0] = '\0';
    return setenv("GANTRY_EMULATOR", FAKE_EMULATOR, 1);
}

static int group_setup(void **state)
{
    (void)state;
    gantry_set_log(keep_info, NULL, GANTRY_LOG_INFO);
    /* Because of its soname it becomes the libcuda.so.1 of this process, on a machine with a GPU as well. */
    return dlopen(FAKE_CUDA, RTLD_NOW | RTLD_LOCAL) != NULL ? 0 : -1;
}

static void expect_refused(gantry_driver_choice choice, gantry_status status, const char *text)
{
    const struct gy_driver *const before = (const struct gy_driver *)(const void *)&before;
    const struct gy_driver *driver = before;
    assert_int_equal(gy_driver_open(choice, &driver), status);
    assert_ptr_equal(driver, before);
    if (strstr(gantry_last_error(), text) == NULL) {
        fail_msg("\"%s\" does not say \"%s\"", gantry_last_error(), text);
    }
}

static void test_auto_takes_cuda_when_it_has_a_device(void **state)
{
    (void)state;
    const struct gy_driver *driver;
    assert_ok(gy_driver_open(GANTRY_DRIVER_AUTO, &driver));
    assert_false(driver->emulated);
    assert_string_equal(driver->name, "cuda");
    assert_int_equal(driver->version, 13000);
    assert_string_equal(log_text, "");
    gy_driver_close(driver);
}

static void test_auto_takes_the_emulator_without_a_device_and_says_why(void **state)
{
    (void)state;
    const struct gy_driver *driver;
    setenv("FAKE_DRIVER_DEVICES", "0", 1);
    assert_ok(gy_driver_open(GANTRY_DRIVER_AUTO, &driver));
    assert_true(driver->emulated);
    assert_string_equal(driver->name, "emulated");
    static const char said[] = "running on the emulated driver, without a GPU (cuda driver: no device)\n";
    assert_string_equal(log_text, said);
    const struct gy_driver *again;
    assert_ok(gy_driver_open(GANTRY_DRIVER_AUTO, &again));
    assert_true(again->emulated);
    assert_string_equal(log_text, said); /* one such line is enough */
    gy_driver_close(again);
    gy_driver_close(driver);
}

/* Nothing is wrong where there is no device, or only the toolkit's stub of a driver. */
static void test_auto_takes_the_emulator_in_the_place_of_a_stub(void **state)
{
    (void)state;
    static const char *const absent[] = {"100", "34"};
    for (size_t i = 0; i < sizeof(absent) / sizeof(absent[0]); i++) {
        const struct gy_driver *driver;
        setenv("FAKE_DRIVER_INIT", absent[i], 1);
        assert_ok(gy_driver_open(GANTRY_DRIVER_AUTO, &driver));
        assert_true(driver->emulated);
        gy_driver_close(driver);
    }
}

static void test_auto_takes_nothing_in_the_place_of_a_driver_that_fails(void **state)
{
    (void)state;
    static const int failures[] = {803, 804, 46, 999, 2};
    for (size_t i = 0; i < sizeof(failures) / sizeof(failures[0]); i++) {
        char text[16], number[24];
        snprintf(text, sizeof(text), "%d", failures[i]);
        snprintf(number, sizeof(number), "(%s)", text);
        setenv("FAKE_DRIVER_INIT", text, 1);
        expect_refused(GANTRY_DRIVER_AUTO, GANTRY_ERR_NO_DRIVER, number);
        expect_refused(GANTRY_DRIVER_AUTO, GANTRY_ERR_NO_DRIVER, "cuda driver: cuInit(0): ");
        expect_refused(GANTRY_DRIVER_AUTO, GANTRY_ERR_NO_DRIVER, "GANTRY_DRIVER=emulated");
        assert_int_equal(gantry_last_native_error(), failures[i]);
    }
    unsetenv("FAKE_DRIVER_INIT");
    setenv("FAKE_DRIVER_VERSION", "11080", 1);
    expect_refused(GANTRY_DRIVER_AUTO, GANTRY_ERR_NO_DRIVER, "CUDA 11.8, 12.0 or later");
}

static void test_auto_obeys_the_environment(void **state)
{
    (void)state;
    const struct gy_driver *driver;
    setenv("GANTRY_DRIVER", "emulated", 1);
    assert_ok(gy_driver_open(GANTRY_DRIVER_AUTO, &driver));
    assert_true(driver->emulated);
    assert_string_equal(log_text, "");
    gy_driver_close(driver);
    setenv("GANTRY_DRIVER", "cuda", 1);
    assert_ok(gy_driver_open(GANTRY_DRIVER_AUTO, &driver));
    assert_false(driver->emulated);
    gy_driver_close(driver);
    setenv("FAKE_DRIVER_DEVICES", "0", 1);
    expect_refused(GANTRY_DRIVER_AUTO, GANTRY_ERR_NO_DEVICE, "no device");
    setenv("GANTRY_DRIVER", "hip", 1);
    expect_refused(GANTRY_DRIVER_AUTO, GANTRY_ERR_INVALID_ARGUMENT, "\"hip\"");
}

static void test_choice_overrides_the_environment(void **state)
{
    (void)state;
    const struct gy_driver *driver;
    setenv("GANTRY_DRIVER", "cuda", 1);
    assert_ok(gy_driver_open(GANTRY_DRIVER_EMULATED, &driver));
    assert_true(driver->emulated);
    gy_driver_close(driver);
    expect_refused((gantry_driver_choice)7, GANTRY_ERR_INVALID_ARGUMENT, "7");
}

static void test_driver_without_device_is_refused(void **state)
{
    (void)state;
    setenv("FAKE_DRIVER_INIT", "100", 1);
    expect_refused(GANTRY_DRIVER_CUDA, GANTRY_ERR_NO_DEVICE, "cuInit(0): CUDA_ERROR_NO_DEVICE (100)");
    assert_int_equal(gantry_last_native_error(), 100);
}

static void test_driver_that_does_not_start_is_refused(void **state)
{
    (void)state;
    setenv("FAKE_DRIVER_INIT", "803", 1);
    expect_refused(GANTRY_DRIVER_CUDA, GANTRY_ERR_NO_DRIVER, "CUDA_ERROR_SYSTEM_DRIVER_MISMATCH (803)");
    assert_int_equal(gantry_last_native_error(), 803);
}

static void test_old_driver_is_refused(void **state)
{
    (void)state;
    setenv("FAKE_DRIVER_VERSION", "11080", 1);
    expect_refused(GANTRY_DRIVER_CUDA, GANTRY_ERR_NO_DRIVER, "CUDA 11.8, 12.0 or later");
}

static void test_missing_function_is_named(void **state)
{
    (void)state;
    setenv("GANTRY_EMULATOR", FAKE_LACKING, 1);
    expect_refused(GANTRY_DRIVER_EMULATED, GANTRY_ERR_NO_DRIVER, "cuMemAlloc_v2");
}

static void test_missing_library_is_named(void **state)
{
    (void)state;
    setenv("GANTRY_EMULATOR", "/nowhere/libemu.so", 1);
    expect_refused(GANTRY_DRIVER_EMULATED, GANTRY_ERR_NO_DRIVER, "/nowhere/libemu.so");
    setenv("FAKE_DRIVER_DEVICES", "0", 1);
    expect_refused(GANTRY_DRIVER_AUTO, GANTRY_ERR_NO_DRIVER, "cuda driver: no device; ");
    expect_refused(GANTRY_DRIVER_AUTO, GANTRY_ERR_NO_DRIVER, "/nowhere/libemu.so");
}

/* The path of libgantry-emu.so in this program's folder. */
static void beside_this_program(char path[PATH_MAX + 32])
{
    char program[PATH_MAX] = "";
    ssize_t bytes = readlink("/proc/self/exe", program, sizeof(program) - 1);
    assert_true(bytes > 0);
    *strrchr(program, '/') = '\0';
    snprintf(path, PATH_MAX + 32, "%s/libgantry-emu.so", program);
}

static void test_emulator_is_found_beside_the_program(void **state)
{
    (void)state;
    char path[PATH_MAX + 32];
    beside_this_program(path);
    unlink(path);
    assert_int_equal(symlink(FAKE_EMULATOR, path), 0);
    unsetenv("GANTRY_EMULATOR");
    const struct gy_driver *driver = NULL;
    gantry_status status = gy_driver_open(GANTRY_DRIVER_EMULATED, &driver);
    unlink(path);
    assert_int_equal(status, GANTRY_OK);
    assert_true(driver->emulated);
    gy_driver_close(driver);
}

static void test_table_is_shared_until_the_last_close(void **state)
{
    (void)state;
    const struct gy_driver *first, *second;
    assert_ok(gy_driver_open(GANTRY_DRIVER_CUDA, &first));
    setenv("FAKE_DRIVER_VERSION", "12040", 1);
    assert_ok(gy_driver_open(GANTRY_DRIVER_CUDA, &second));
    assert_ptr_equal(first, second);
    assert_int_equal(second->version, 13000);
    gy_driver_close(first);
    assert_int_equal(second->version, 13000);
    gy_driver_close(second);
    gy_driver_close(NULL);
    assert_ok(gy_driver_open(GANTRY_DRIVER_CUDA, &first));
    assert_int_equal(first->version, 12040); /* the environment is read anew */
    gy_driver_close(first);
}

#define THREADS 4
#define ROUNDS 50
static atomic_int refused;

static void open_and_close(void *arg)
{
    (void)arg;
    for (int i = 0; i < ROUNDS; i++) {
        const struct gy_driver *driver;
        int count = 0;
        if (gy_driver_open(GANTRY_DRIVER_CUDA, &driver) != GANTRY_OK ||
            driver->cuDeviceGetCount(&count) != CUDA_SUCCESS || count != 1) {
            atomic_fetch_add(&refused, 1);
            return;
        }
        gy_driver_close(driver);
    }
}

static void test_threads_may_open_at_once(void **state)
{
    (void)state;
    gy_thread threads[THREADS];
    atomic_store(&refused, 0);
    for (int i = 0; i < THREADS; i++) {
        assert_ok(gy_thread_start(&threads[i], "opener", open_and_close, NULL));
    }
    for (int i = 0; i < THREADS; i++) {
        gy_thread_join(threads + i);
    }
    assert_int_equal(atomic_load(&refused), 0);
}

static void test_results_become_statuses(void **state)
{
    (void)state;
    static const struct {
        CUresult result;
        gantry_status status;
        bool sticky;
    } cases[] = {
        {CUDA_SUCCESS, GANTRY_OK, false},
        {CUDA_ERROR_OUT_OF_MEMORY, GANTRY_ERR_OUT_OF_DEVICE_MEMORY, false},
        {CUDA_ERROR_NO_DEVICE, GANTRY_ERR_NO_DEVICE, false},
        {CUDA_ERROR_NOT_SUPPORTED, GANTRY_ERR_UNSUPPORTED, false},
        {CUDA_ERROR_NO_BINARY_FOR_GPU, GANTRY_ERR_UNSUPPORTED, false},
        {CUDA_ERROR_NOT_FOUND, GANTRY_ERR_NOT_FOUND, false},
        {CUDA_ERROR_STUB_LIBRARY, GANTRY_ERR_NO_DRIVER, false},
        {CUDA_ERROR_INVALID_VALUE, GANTRY_ERR_DRIVER, false},
        {CUDA_ERROR_NOT_READY, GANTRY_ERR_DRIVER, false},
        {CUDA_ERROR_STREAM_CAPTURE_INVALIDATED, GANTRY_ERR_DRIVER, false},
        {CUDA_ERROR_LAUNCH_OUT_OF_RESOURCES, GANTRY_ERR_DRIVER, false},
        {CUDA_ERROR_ILLEGAL_ADDRESS, GANTRY_ERR_DEVICE_LOST, true},
        {CUDA_ERROR_ASSERT, GANTRY_ERR_DEVICE_LOST, true},
        {CUDA_ERROR_LAUNCH_FAILED, GANTRY_ERR_DEVICE_LOST, true},
        {CUDA_ERROR_ECC_UNCORRECTABLE, GANTRY_ERR_DEVICE_LOST, true},
        {CUDA_ERROR_CONTEXT_IS_DESTROYED, GANTRY_ERR_DEVICE_LOST, true},
        {(CUresult)12345, GANTRY_ERR_DRIVER, false},
    };
    const struct gy_driver *driver;
    assert_ok(gy_driver_open(GANTRY_DRIVER_CUDA, &driver));
    for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
        assert_int_equal(gy_driver_check(driver, cases[i].result, "cuX()", "f.c", 1), cases[i].status);
        assert_int_equal(gy_driver_result_is_sticky(cases[i].result), cases[i].sticky);
    }
    gy_driver_close(driver);
}

static void test_failed_call_is_told_with_its_name_and_place(void **state)
{
    (void)state;
    const struct gy_driver *driver;
    CUdevice device;
    assert_ok(gy_driver_open(GANTRY_DRIVER_CUDA, &driver));
    gantry_set_log(keep_info, NULL, GANTRY_LOG_DEBUG); /* places are logged at this level */
    assert_int_equal(GY_DRIVER_CALL(driver, cuDeviceGet(&device, 9)), GANTRY_ERR_NO_DEVICE);
    assert_non_null(
        strstr(gantry_last_error(), "cuDeviceGet(&device, 9): CUDA_ERROR_INVALID_DEVICE (101): "));
    assert_non_null(strstr(gantry_last_error(), "test_loader.c:"));
    assert_int_equal(gantry_last_native_error(), 101);
    (void)gy_driver_failed(driver, CUDA_ERROR_INVALID_VALUE, "cuX()", "f.c", 12);
    assert_string_equal(gantry_last_error(),
                        "cuX(): FAKE_INVALID_VALUE (1): fake text [GANTRY_ERR_DRIVER, f.c:12]");
    (void)gy_driver_failed(driver, (CUresult)12345, "cuX()", "f.c", 12);
    assert_non_null(strstr(gantry_last_error(), "cuX(): CUDA_ERROR_? (12345): "));
    assert_string_equal(gy_driver_result_name(driver, CUDA_ERROR_OUT_OF_MEMORY), "CUDA_ERROR_OUT_OF_MEMORY");
    gy_driver_close(driver);
}

#define TEST(name) cmocka_unit_test_setup(name, each_setup)

int main(void)
{
    const struct CMUnitTest tests[] = {
        TEST(test_auto_takes_cuda_when_it_has_a_device),
        TEST(test_auto_takes_the_emulator_without_a_device_and_says_why),
        TEST(test_auto_takes_the_emulator_in_the_place_of_a_stub),
        TEST(test_auto_takes_nothing_in_the_place_of_a_driver_that_fails),
        TEST(test_auto_obeys_the_environment),
        TEST(test_choice_overrides_the_environment),
        TEST(test_driver_without_device_is_refused),
        TEST(test_driver_that_does_not_start_is_refused),
        TEST(test_old_driver_is_refused),
        TEST(test_missing_function_is_named),
        TEST(test_missing_library_is_named),
        TEST(test_emulator_is_found_beside_the_program),
        TEST(test_table_is_shared_until_the_last_close),
        TEST(test_threads_may_open_at_once),
        TEST(test_results_become_statuses),
        TEST(test_failed_call_is_told_with_its_name_and_place),
    };
    return cmocka_run_group_tests(tests, group_setup, NULL);
}
