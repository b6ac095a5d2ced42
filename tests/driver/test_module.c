/* SPDX-License-Identifier: MIT */
/* Which form of a kernel image the library takes, and what it says when none fits.  The driver is a fake
 * that answers by the image's text; the conformance suite has real images. */
#include "driver/module.h"

#include "base/alloc.h"
#include "tests/support/cmocka_c11.h"

#include <dlfcn.h>
#include <stdlib.h>
#include <string.h>

static const char *const two_kernels[] = {"add", "scale", NULL};
static const char *const some_missing[] = {"missing_one", "add", "missing_two", NULL};

static struct gy_context *context;

static int open_context(gantry_driver_choice driver)
{
    gantry_context_options options = GANTRY_CONTEXT_OPTIONS_INIT;
    options.driver = driver;
    return gy_context_open(&options, &context) == GANTRY_OK ? 0 : -1;
}

static int cuda_setup(void **state)
{
    (void)state;
    return open_context(GANTRY_DRIVER_CUDA);
}

static int emulated_setup(void **state)
{
    (void)state;
    return open_context(GANTRY_DRIVER_EMULATED);
}

static int teardown(void **state)
{
    (void)state;
    gy_context_close(context);
    return gy_alloc_live() == 0 ? 0 : -1;
}

static int group_setup(void **state)
{
    (void)state;
    unsetenv("GANTRY_DEVICE");
    setenv("GANTRY_EMULATOR", FAKE_EMULATOR, 1);
    return dlopen(FAKE_CUDA, RTLD_NOW | RTLD_LOCAL) != NULL ? 0 : -1;
}

static gantry_module_image image_of(const char *fatbin, const char *ptx, const char *host,
                                    const char *const *kernels)
{
    return (gantry_module_image){
        .struct_size = sizeof(gantry_module_image),
        .name = "image",
        .fatbin = fatbin,
        .fatbin_bytes = fatbin != NULL ? strlen(fatbin) : 0,
        .ptx = ptx,
        .host = host,
        .kernel_names = kernels,
    };
}

static void expect_loads(const char *fatbin, const char *ptx, const char *host)
{
    gantry_module_image image = image_of(fatbin, ptx, host, two_kernels);
    struct gantry_module *module;
    assert_ok(gy_module_load(context, &image, &module));
    assert_int_equal(module->kernel_count, 2);
    gy_module_unload(module);
}

static void expect_refused(gantry_module_image image, gantry_status status, const char *text)
{
    struct gantry_module *module = (struct gantry_module *)(void *)&image;
    assert_int_equal(gy_module_load(context, &image, &module), status);
    assert_ptr_equal(module, &image);
    if (strstr(gantry_last_error(), text) == NULL) {
        fail_msg("\"%s\" does not say \"%s\"", gantry_last_error(), text);
    }
}

static void test_fatbin_is_taken_first_then_ptx(void **state)
{
    (void)state;
    expect_loads("good", NULL, NULL);
    expect_loads("good", "broken", NULL);
    expect_loads("other", "good", NULL);
    expect_loads("new", "good", NULL);
    expect_loads(NULL, "good", "host");
}

static void test_emulated_driver_takes_the_host_form_only(void **state)
{
    (void)state;
    expect_loads("broken", "broken", "good");
    expect_refused(image_of("good", "good", NULL, two_kernels), GANTRY_ERR_UNSUPPORTED,
                   "which needs host code; the image has: fat binary PTX");
}

static void test_image_that_does_not_fit_says_what_is_needed(void **state)
{
    (void)state;
    expect_refused(image_of(NULL, NULL, "good", two_kernels), GANTRY_ERR_UNSUPPORTED,
                   "does not fit Fake 0 (sm_7576, cuda driver), which needs a fat binary for it or PTX up to "
                   "it; the image has: host code");
    expect_refused(image_of(NULL, NULL, NULL, two_kernels), GANTRY_ERR_UNSUPPORTED, "the image has: nothing");
    expect_refused(image_of("other", NULL, NULL, two_kernels), GANTRY_ERR_UNSUPPORTED,
                   "CUDA_ERROR_NO_BINARY_FOR_GPU");
    expect_refused(image_of("other", "new", NULL, two_kernels), GANTRY_ERR_UNSUPPORTED,
                   "CUDA_ERROR_UNSUPPORTED_PTX_VERSION");
    assert_int_equal(gantry_last_native_error(), CUDA_ERROR_UNSUPPORTED_PTX_VERSION);
}

static void test_compiler_log_is_in_the_message(void **state)
{
    (void)state;
    expect_refused(
        image_of(NULL, "broken", NULL, two_kernels), GANTRY_ERR_DRIVER,
        "cuModuleLoadDataEx(\"image\"): line 7; fatal: Unknown symbol 'x': CUDA_ERROR_INVALID_PTX");
    expect_refused(image_of("broken", "good", NULL, two_kernels), GANTRY_ERR_DRIVER, "Unknown symbol");
}

static void test_missing_kernels_are_named_at_load(void **state)
{
    (void)state;
    expect_refused(image_of("good", NULL, NULL, some_missing), GANTRY_ERR_NOT_FOUND,
                   "image \"image\" has no kernel \"missing_one\", \"missing_two\"; it has: add");
}

static void test_kernel_is_found_by_name_or_the_names_are_listed(void **state)
{
    (void)state;
    gantry_module_image image = image_of("good", NULL, NULL, two_kernels);
    struct gantry_module *module;
    struct gantry_kernel *kernel;
    assert_ok(gy_module_load(context, &image, &module));
    assert_ok(gy_module_kernel(module, "scale", &kernel));
    assert_string_equal(kernel->name, "scale");
    assert_ptr_equal(kernel->module, module);
    assert_non_null(kernel->function);
    struct gantry_kernel *before = kernel;
    assert_int_equal(gy_module_kernel(module, "scal", &kernel), GANTRY_ERR_NOT_FOUND);
    assert_ptr_equal(kernel, before);
    assert_non_null(strstr(gantry_last_error(), "has no kernel \"scal\"; it has: add, scale ["));
    gy_module_unload(module);
}

static void test_image_without_kernels_loads(void **state)
{
    (void)state;
    gantry_module_image image = image_of("good", NULL, NULL, NULL);
    struct gantry_module *module;
    struct gantry_kernel *kernel;
    assert_ok(gy_module_load(context, &image, &module));
    assert_int_equal(gy_module_kernel(module, "add", &kernel), GANTRY_ERR_NOT_FOUND);
    assert_non_null(strstr(gantry_last_error(), "it has: none"));
    gy_module_unload(module);
    gy_module_unload(NULL);
}

static void test_long_list_of_kernels_is_cut(void **state)
{
    (void)state;
    static const char *names[41];
    for (size_t i = 0; i + 1 < sizeof(names) / sizeof(names[0]); i++) {
        names[i] = "a_kernel_with_a_long_name";
    }
    gantry_module_image image = image_of("good", NULL, NULL, names);
    struct gantry_module *module;
    struct gantry_kernel *kernel;
    assert_ok(gy_module_load(context, &image, &module));
    assert_int_equal(gy_module_kernel(module, "b", &kernel), GANTRY_ERR_NOT_FOUND);
    assert_non_null(strstr(gantry_last_error(), "… ["));
    gy_module_unload(module);
}

static void test_invalid_image_is_refused(void **state)
{
    (void)state;
    struct gantry_module *module;
    assert_int_equal(gy_module_load(context, NULL, &module), GANTRY_ERR_INVALID_ARGUMENT);
    gantry_module_image image = image_of("good", NULL, NULL, two_kernels);
    image.struct_size = 8;
    expect_refused(image, GANTRY_ERR_INVALID_ARGUMENT, "struct_size 8");
    image.struct_size = sizeof(image);
    image.name = NULL;
    expect_refused(image, GANTRY_ERR_INVALID_ARGUMENT, "name");
}

static void test_load_survives_every_failing_allocation(void **state)
{
    (void)state;
    gantry_module_image image = image_of("good", NULL, NULL, two_kernels);
    long live = gy_alloc_live();
    for (long n = 0;; n++) {
        struct gantry_module *module = NULL;
        gy_fault_arm(n);
        gantry_status status = gy_module_load(context, &image, &module);
        bool fired = gy_fault_fired();
        gy_fault_arm(-1);
        if (!fired) {
            assert_int_equal(status, GANTRY_OK);
            gy_module_unload(module);
            assert_true(n > 0);
            break;
        }
        assert_int_equal(status, GANTRY_ERR_OUT_OF_HOST_MEMORY);
        assert_null(module);
        assert_int_equal(gy_alloc_live(), live);
    }
}

static void test_nothing_loads_on_a_lost_context(void **state)
{
    (void)state;
    struct gy_error cause = {.status = GANTRY_ERR_DRIVER, .native = 719, .text = "the first cause"};
    gantry_module_image image = image_of("good", NULL, NULL, two_kernels);
    struct gantry_module *module;
    assert_ok(gy_module_load(context, &image, &module));
    gy_context_lose(context, &cause);
    expect_refused(image_of(NULL, "broken", NULL, two_kernels), GANTRY_ERR_DEVICE_LOST, "the first cause");
    gy_module_unload(module);
}

#define CUDA_TEST(name) cmocka_unit_test_setup_teardown(name, cuda_setup, teardown)

int main(void)
{
    const struct CMUnitTest tests[] = {
        CUDA_TEST(test_fatbin_is_taken_first_then_ptx),
        cmocka_unit_test_setup_teardown(test_emulated_driver_takes_the_host_form_only, emulated_setup,
                                        teardown),
        CUDA_TEST(test_image_that_does_not_fit_says_what_is_needed),
        CUDA_TEST(test_compiler_log_is_in_the_message),
        CUDA_TEST(test_missing_kernels_are_named_at_load),
        CUDA_TEST(test_kernel_is_found_by_name_or_the_names_are_listed),
        CUDA_TEST(test_image_without_kernels_loads),
        CUDA_TEST(test_long_list_of_kernels_is_cut),
        CUDA_TEST(test_invalid_image_is_refused),
        CUDA_TEST(test_load_survives_every_failing_allocation),
        CUDA_TEST(test_nothing_loads_on_a_lost_context),
    };
    return cmocka_run_group_tests(tests, group_setup, NULL);
}
