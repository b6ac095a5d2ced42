/* SPDX-License-Identifier: MIT */
/* What is left behind, and what the library says, when one of many driver calls fails; on the emulated
 * driver, whose calls can be made to fail. */
#include "driver/module.h"

#include "base/alloc.h"
#include "emulator/gantry_emu.h"
#include "tests/support/cmocka_c11.h"

#include <gantry/host_module.h>

#include <dlfcn.h>
#include <stdlib.h>
#include <string.h>

static const struct gy_driver *driver; /* it is held over all tests */
static struct gantry_emu_control emu;

static void run_nothing(struct gantry_host_thread *self, void *const *args)
{
    (void)self;
    (void)args;
}

static const struct gantry_host_kernel host_kernels[] = {{"first", run_nothing, 0, NULL},
                                                         {"second", run_nothing, 0, NULL}};
static const struct gantry_host_module host_module = {
    GANTRY_HOST_MODULE_MAGIC, "faulty", 2, host_kernels, 0, 0};
static const char *const kernel_names[] = {"first", "second", NULL};
static const gantry_module_image image = {
    .struct_size = sizeof(image), .name = "faulty", .host = &host_module, .kernel_names = kernel_names};

/* Make the nth call of `function` from now on fail. */
static void let_fail(const char *function, uint64_t nth, CUresult result)
{
    /* CMocka has a macro of this name: no parenthesis may follow it. */
    assert_int_equal((emu.fail)(function, nth, (int)result, GANTRY_EMU_ONCE), 0);
}

static int group_setup(void **state)
{
    (void)state;
    unsetenv("GANTRY_DEVICE");
    if (gy_driver_open(GANTRY_DRIVER_EMULATED, &driver) != GANTRY_OK) {
        return -1;
    }
    bool found = true;
#define CONTROL(result, name, parameters)                                      \
    *(void **)(void *)&emu.name = dlsym(driver->library, "gantry_emu_" #name); \
    found = found && emu.name != NULL;
    GANTRY_EMU_CONTROLS(CONTROL)
#undef CONTROL
    return found ? 0 : -1;
}

static int group_teardown(void **state)
{
    (void)state;
    gy_driver_close(driver);
    return 0;
}

static int each_setup(void **state)
{
    (void)state;
    emu.reset();
    return 0;
}

static int each_teardown(void **state)
{
    (void)state;
    CUcontext current = NULL;
    emu.reset();
    bool clean = driver->cuCtxGetCurrent(&current) == CUDA_SUCCESS && current == NULL;
    clean &= emu.live(GANTRY_EMU_LIVE_MODULES) == 0;
    clean &= emu.live(GANTRY_EMU_LIVE_CONTEXTS) == 0;
    clean &= gy_alloc_live() == 0;
    return clean ? 0 : -1;
}

static gantry_context_options options_of(gantry_context_mode mode)
{
    gantry_context_options options = GANTRY_CONTEXT_OPTIONS_INIT;
    options.driver = GANTRY_DRIVER_EMULATED;
    options.mode = mode;
    return options;
}

static struct gy_context *open_mode(gantry_context_mode mode)
{
    gantry_context_options options = options_of(mode);
    struct gy_context *context = NULL;
    assert_ok(gy_context_open(&options, &context));
    return context;
}

/* Make each call of `function` that gy_context_open() makes fail, one after the other. */
static void expect_open_fails(const gantry_context_options *options, const char *function)
{
    int64_t contexts = emu.live(GANTRY_EMU_LIVE_CONTEXTS);
    uint64_t calls = 0;
    for (uint64_t nth = 1;; nth++) {
        struct gy_context *context = NULL;
        CUcontext current = NULL;
        emu.reset();
        let_fail(function, nth, CUDA_ERROR_OUT_OF_MEMORY);
        gantry_status status = gy_context_open(options, &context);
        calls = emu.calls(function);
        if (calls < nth) { /* it was not called so often, so nothing failed */
            assert_int_equal(status, GANTRY_OK);
            gy_context_close(context);
            assert_true(nth > 1);
            return;
        }
        assert_int_equal(status, GANTRY_ERR_OUT_OF_DEVICE_MEMORY);
        assert_null(context);
        assert_non_null(strstr(gantry_last_error(), function));
        assert_int_equal(emu.live(GANTRY_EMU_LIVE_CONTEXTS), contexts);
        assert_int_equal(driver->cuCtxGetCurrent(&current), CUDA_SUCCESS);
        assert_null(current);
    }
}

static void test_failed_open_leaves_nothing(void **state)
{
    (void)state;
    static const char *const common[] = {"cuDeviceGetCount", "cuDeviceGet",     "cuDeviceGetName",
                                         "cuDeviceTotalMem", "cuDeviceGetUuid", "cuDeviceGetAttribute"};
    gantry_context_options primary = options_of(GANTRY_CONTEXT_PRIMARY), own = options_of(GANTRY_CONTEXT_OWN);
    for (size_t i = 0; i < sizeof(common) / sizeof(common[0]); i++) {
        expect_open_fails(&primary, common[i]);
        expect_open_fails(&own, common[i]);
    }
    expect_open_fails(&primary, "cuDevicePrimaryCtxRetain");
    expect_open_fails(&own, "cuCtxCreate");
    expect_open_fails(&own, "cuCtxPopCurrent");
}

static void test_failed_adoption_leaves_the_context_alone(void **state)
{
    (void)state;
    struct gy_context *owner = open_mode(GANTRY_CONTEXT_OWN);
    gantry_context_options adopt = options_of(GANTRY_CONTEXT_ADOPT);
    adopt.adopted = owner->native;
    adopt.device = "0";
    expect_open_fails(&adopt, "cuCtxPushCurrent");
    expect_open_fails(&adopt, "cuCtxGetDevice");
    expect_open_fails(&adopt, "cuDeviceGetAttribute");
    adopt.adopted = (void *)(uintptr_t)0x1234; /* there is no context at all */
    struct gy_context *context = NULL;
    assert_int_not_equal(gy_context_open(&adopt, &context), GANTRY_OK);
    gy_context_close(owner);
}

static void test_driver_that_fails_to_start_can_be_tried_again(void **state)
{
    (void)state;
    const struct gy_driver *again = NULL;
    gy_driver_close(driver); /* the last reference */
    let_fail("cuInit", 1, CUDA_ERROR_UNKNOWN);
    gantry_status refused = gy_driver_open(GANTRY_DRIVER_EMULATED, &again);
    gantry_status status = gy_driver_open(GANTRY_DRIVER_EMULATED, &driver);
    assert_int_equal(status, GANTRY_OK);
    assert_int_equal(refused, GANTRY_ERR_NO_DRIVER);
    assert_null(again);
}

static void test_failed_push_and_pop_keep_the_count_right(void **state)
{
    (void)state;
    struct gy_context *context = open_mode(GANTRY_CONTEXT_PRIMARY);
    CUcontext popped = NULL;
    let_fail("cuCtxPushCurrent", 1, CUDA_ERROR_INVALID_VALUE);
    assert_int_equal(gy_context_push(context), GANTRY_ERR_DRIVER);
    assert_int_equal(gy_context_pop(context), GANTRY_ERR_STATE); /* it was not counted */
    assert_ok(gy_context_push(context));
    let_fail("cuCtxPopCurrent", 1, CUDA_ERROR_INVALID_VALUE);
    assert_int_equal(gy_context_pop(context), GANTRY_ERR_DRIVER);
    /* the failed call was counted all the same */
    assert_int_equal(gy_context_pop(context), GANTRY_ERR_STATE);
    assert_int_equal(driver->cuCtxPopCurrent(&popped), CUDA_SUCCESS);
    gy_context_close(context);
}

static void test_module_that_does_not_load_leaves_nothing(void **state)
{
    (void)state;
    static const struct {
        const char *function;
        uint64_t nth;
        CUresult result;
        gantry_status status;
    } faults[] = {
        {"cuCtxPushCurrent", 1, CUDA_ERROR_INVALID_VALUE, GANTRY_ERR_DRIVER},
        {"cuModuleLoadDataEx", 1, CUDA_ERROR_OUT_OF_MEMORY, GANTRY_ERR_OUT_OF_DEVICE_MEMORY},
        {"cuModuleLoadDataEx", 1, CUDA_ERROR_NO_BINARY_FOR_GPU, GANTRY_ERR_UNSUPPORTED},
        {"cuModuleGetFunction", 1, CUDA_ERROR_INVALID_VALUE, GANTRY_ERR_DRIVER},
        {"cuModuleGetFunction", 2, CUDA_ERROR_NOT_FOUND, GANTRY_ERR_NOT_FOUND},
    };
    struct gy_context *context = open_mode(GANTRY_CONTEXT_PRIMARY);
    long live = gy_alloc_live();
    for (size_t i = 0; i < sizeof(faults) / sizeof(faults[0]); i++) {
        struct gantry_module *module = NULL;
        let_fail(faults[i].function, faults[i].nth, faults[i].result);
        assert_int_equal(gy_module_load(context, &image, &module), faults[i].status);
        assert_int_equal(gantry_last_native_error(), faults[i].result);
        assert_null(module);
        assert_int_equal(emu.live(GANTRY_EMU_LIVE_MODULES), 0);
        assert_int_equal(gy_alloc_live(), live);
        assert_int_equal(gy_context_pop(context), GANTRY_ERR_STATE);
    }
    struct gantry_module *module = NULL;
    assert_ok(gy_module_load(context, &image, &module));
    assert_int_equal(emu.live(GANTRY_EMU_LIVE_MODULES), 1);
    gy_module_unload(module);
    gy_context_close(context);
}

static void test_context_broken_by_the_device_reports_the_first_cause(void **state)
{
    (void)state;
    struct gy_context *context = open_mode(GANTRY_CONTEXT_OWN);
    struct gantry_module *module = NULL, *other = NULL;
    CUdeviceptr address;
    char first[GY_ERROR_TEXT_BYTES];
    assert_ok(gy_module_load(context, &image, &module));
    assert_ok(gy_context_push(context));
    assert_int_equal(emu.break_context(context->native, CUDA_ERROR_ILLEGAL_INSTRUCTION), 0);
    assert_int_equal(GY_CALL(context, cuMemAlloc(&address, 64)), GANTRY_ERR_DEVICE_LOST);
    assert_true(gy_context_is_lost(context));
    assert_non_null(
        strstr(gantry_last_error(), "cuMemAlloc(&address, 64): CUDA_ERROR_ILLEGAL_INSTRUCTION (715)"));
    memcpy(first, gy_error_last()->text, sizeof(first));
    assert_int_equal(GY_CALL(context, cuCtxSynchronize()), GANTRY_ERR_DEVICE_LOST);
    assert_string_equal(gantry_last_error(), first);
    (void)gy_context_pop(context);
    assert_int_equal(gy_module_load(context, &image, &other), GANTRY_ERR_DEVICE_LOST);
    assert_null(other);
    assert_string_equal(gantry_last_error(), first);
    gy_module_unload(module);
    gy_context_close(context);
}

#define TEST(name) cmocka_unit_test_setup_teardown(name, each_setup, each_teardown)

int main(void)
{
    const struct CMUnitTest tests[] = {
        TEST(test_failed_open_leaves_nothing),
        TEST(test_failed_adoption_leaves_the_context_alone),
        TEST(test_driver_that_fails_to_start_can_be_tried_again),
        TEST(test_failed_push_and_pop_keep_the_count_right),
        TEST(test_module_that_does_not_load_leaves_nothing),
        TEST(test_context_broken_by_the_device_reports_the_first_cause),
    };
    return cmocka_run_group_tests(tests, group_setup, group_teardown);
}
