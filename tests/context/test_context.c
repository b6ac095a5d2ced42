/* A whole context: how it is made, what it refuses, what it leaves behind. */
#include "tests/support/cmocka_c11.h"

#include "base/alloc.h"
#include "driver/context.h"
#include "driver/emulator/gantry_emu.h"
#include "driver/funcs.h"
#include "tests/support/gpu_fixture.h"

#include <order_kernels.kernels.h>

#include <stdlib.h>
#include <string.h>

static gantry_context *const UNTOUCHED = (gantry_context *)0x10;

static gantry_context_options default_options(void)
{
    gantry_context_options options = GANTRY_CONTEXT_OPTIONS_INIT;
    options.driver = gpu_fixture_driver();
    return options;
}

static gantry_context *open_context(void)
{
    gantry_context_options options = default_options();
    gantry_context *context;
    assert_ok(gantry_context_create(&options, &context));
    return context;
}

/* ---- options ---- */

static void expect_refused(const gantry_context_options *options, gantry_status expected)
{
    gantry_context *context = UNTOUCHED;
    assert_int_equal(gantry_context_create(options, &context), expected);
    assert_ptr_equal(context, UNTOUCHED);
}

static void test_wrong_options_are_refused(void **state)
{
    (void)state;
    gantry_context_options options = default_options();
    assert_int_equal(gantry_context_create(&options, NULL), GANTRY_ERR_INVALID_ARGUMENT);
    options.stream_limit = 65;
    expect_refused(&options, GANTRY_ERR_INVALID_ARGUMENT);
    options = default_options();
    options.completion_wait = (gantry_wait_mode)(GANTRY_WAIT_ADAPTIVE + 1);
    expect_refused(&options, GANTRY_ERR_INVALID_ARGUMENT);
    options = default_options();
    options.mode = (gantry_context_mode)(GANTRY_CONTEXT_ADOPT + 1);
    expect_refused(&options, GANTRY_ERR_INVALID_ARGUMENT);
    options.mode = GANTRY_CONTEXT_ADOPT; /* without a context */
    expect_refused(&options, GANTRY_ERR_INVALID_ARGUMENT);
    options = default_options();
    options.driver = (gantry_driver_choice)(GANTRY_DRIVER_EMULATED + 1);
    expect_refused(&options, GANTRY_ERR_INVALID_ARGUMENT);
    options = default_options();
    options.device = "4711";
    expect_refused(&options, GANTRY_ERR_NO_DEVICE);
    options.struct_size = 1;
    expect_refused(&options, GANTRY_ERR_INVALID_ARGUMENT);
}

static void test_options_of_a_newer_caller_are_refused_only_when_used(void **state)
{
    (void)state;
    struct {
        gantry_context_options known;
        uint64_t unknown;
    } newer = {default_options(), 1};
    newer.known.struct_size = sizeof(newer);
    expect_refused(&newer.known, GANTRY_ERR_UNSUPPORTED);
    newer.unknown = 0;
    gantry_context *context;
    assert_ok(gantry_context_create(&newer.known, &context));
    gantry_context_destroy(context);
}

static void test_wrong_heap_options_are_refused(void **state)
{
    (void)state;
    gantry_heap_options heap = GANTRY_HEAP_OPTIONS_INIT;
    heap.slab_bytes[GANTRY_MEMORY_PINNED] = SIZE_MAX;
    gantry_context_options options = default_options();
    options.heap = &heap;
    long live = gy_alloc_live();
    expect_refused(&options, GANTRY_ERR_INVALID_ARGUMENT);
    assert_int_equal(gy_alloc_live(), live);
}

/* ---- what it gives ---- */

static void test_a_context_has_all_its_parts(void **state)
{
    (void)state;
    gantry_context *context = open_context();
    gantry_device_info info = {.struct_size = sizeof(info)};
    assert_ok(gantry_context_device_info(context, &info));
    assert_int_equal(info.emulated, gpu_fixture_driver() == GANTRY_DRIVER_EMULATED);
    assert_true(info.multiprocessors > 0 && info.memory_bytes > 0 && info.name[0] != '\0');
    info.struct_size = 0;
    assert_int_equal(gantry_context_device_info(context, &info), GANTRY_ERR_INVALID_ARGUMENT);
    assert_int_equal(gantry_context_device_info(NULL, &info), GANTRY_ERR_INVALID_ARGUMENT);
    assert_non_null(gantry_context_native(context));
    assert_non_null(gantry_context_heap(context));
    assert_non_null(gantry_context_dispatcher(context));
    assert_true(gantry_context_is_valid(context));
    gantry_context_destroy(context);
    gantry_context_destroy(NULL);
}

static void test_acquire_nests_and_needs_its_release(void **state)
{
    (void)state;
    gantry_context *context = open_context();
    assert_int_equal(gantry_context_release(context), GANTRY_ERR_STATE);
    assert_ok(gantry_context_acquire(context));
    assert_ok(gantry_context_acquire(context));
    assert_ok(gantry_context_release(context));
    assert_ok(gantry_context_release(context));
    assert_int_equal(gantry_context_release(context), GANTRY_ERR_STATE);
    assert_int_equal(gantry_context_acquire(NULL), GANTRY_ERR_INVALID_ARGUMENT);
    assert_int_equal(gantry_context_release(NULL), GANTRY_ERR_INVALID_ARGUMENT);
    gantry_context_destroy(context);
}

static void test_an_adopted_context_is_left_alone(void **state)
{
    (void)state;
    gantry_context_options options = default_options();
    options.mode = GANTRY_CONTEXT_OWN;
    gantry_context *owner, *guest;
    assert_ok(gantry_context_create(&options, &owner));
    options.mode = GANTRY_CONTEXT_ADOPT;
    options.adopted = gantry_context_native(owner);
    assert_ok(gantry_context_create(&options, &guest));
    assert_ptr_equal(gantry_context_native(guest), gantry_context_native(owner));
    gantry_context_destroy(guest);
    void *block;
    gantry_alloc_site site = GANTRY_ALLOC_SITE("after the guest");
    assert_ok(gantry_heap_alloc(gantry_context_heap(owner), GANTRY_MEMORY_DEVICE, 4096, 0, site, &block));
    assert_ok(gantry_heap_free(gantry_context_heap(owner), block));
    gantry_context_destroy(owner);
}

/* ---- modules ---- */

static void test_modules_are_found_and_left_ones_unloaded(void **state)
{
    (void)state;
    gantry_context *context = open_context();
    gantry_module *first, *second, *third;
    gantry_kernel *kernel;
    assert_ok(gantry_module_load(context, &gantry_image_order_kernels, &first));
    assert_ok(gantry_module_load(context, &gantry_image_order_kernels, &second));
    assert_ok(gantry_module_load(context, &gantry_image_order_kernels, &third));
    gantry_module_unload(second);
    assert_ok(gantry_module_get_kernel(first, "stamp", &kernel));
    assert_string_equal(gantry_kernel_name(kernel), "stamp");
    assert_int_equal(gantry_module_get_kernel(first, "crane", &kernel), GANTRY_ERR_NOT_FOUND);
    assert_non_null(strstr(gantry_last_error(), "stamp")); /* the message lists what there is */
    assert_int_equal(gantry_module_get_kernel(NULL, "stamp", &kernel), GANTRY_ERR_INVALID_ARGUMENT);
    assert_int_equal(gantry_module_get_kernel(first, NULL, &kernel), GANTRY_ERR_INVALID_ARGUMENT);
    assert_int_equal(gantry_module_get_kernel(first, "stamp", NULL), GANTRY_ERR_INVALID_ARGUMENT);
    assert_int_equal(gantry_module_load(NULL, &gantry_image_order_kernels, &second),
                     GANTRY_ERR_INVALID_ARGUMENT);
    assert_int_equal(gantry_module_load(context, NULL, &second), GANTRY_ERR_INVALID_ARGUMENT);
    assert_int_equal(gantry_module_load(context, &gantry_image_order_kernels, NULL),
                     GANTRY_ERR_INVALID_ARGUMENT);
    gantry_module_unload(NULL);
    gantry_context_destroy(context); /* unloads first and third */
}

/* ---- failures ---- */

/* Keeps the driver and the device's primary context in use, so that a creation costs little; unlike a whole
 * context it has no threads, whose first breath would change what is counted. */
static struct gy_context *hold_driver(void)
{
    gantry_context_options options = default_options();
    struct gy_context *held;
    assert_ok(gy_context_open(&options, &held));
    return held;
}

static void test_create_survives_every_host_failure(void **state)
{
    (void)state;
    struct gy_context *held = hold_driver();
    gantry_context_options options = default_options();
    long live = gy_alloc_live();
    for (long nth = 0;; nth++) {
        gantry_context *context = UNTOUCHED;
        gy_fault_arm(nth);
        gantry_status status = gantry_context_create(&options, &context);
        bool fired = gy_fault_fired();
        gy_fault_arm(-1);
        if (status == GANTRY_OK) {
            gantry_context_destroy(context);
        } else {
            assert_int_equal(status, GANTRY_ERR_OUT_OF_HOST_MEMORY);
            assert_ptr_equal(context, UNTOUCHED);
        }
        assert_int_equal(gy_alloc_live(), live);
        if (!fired) {
            assert_ok(status);
            assert_true(nth > 10);
            break;
        }
    }
    gy_context_close(held);
}

static int64_t live_objects(int64_t (*live)(int kind))
{
    int64_t sum = 0;
    for (int kind = 0; kind < GANTRY_EMU_LIVE_KINDS; kind++) {
        sum += live(kind);
    }
    return sum;
}

/* Every call of every function that a creation makes fails once. */
static void test_create_survives_every_driver_failure(void **state)
{
    static const char *const functions[] = {
#define F(need, member, symbol, prototype) #member,
        GY_DRIVER_FUNCS(F)
#undef F
    };
    (void)state;
    struct gy_context *held = hold_driver();
    struct gantry_emu_control emu;
#define X(result, name, parameters) *(void **)&emu.name = gpu_fixture_emulator("gantry_emu_" #name);
    GANTRY_EMU_CONTROLS(X)
#undef X
    gantry_context_options options = default_options();
    long host_live = gy_alloc_live();
    int64_t live = live_objects(emu.live);
    uint32_t failures = 0;
    for (size_t i = 0; i < sizeof(functions) / sizeof(functions[0]); i++) {
        for (uint64_t nth = 1;; nth++) {
            gantry_context *context = UNTOUCHED;
            (emu.reset_counters)();
            assert_int_equal((emu.fail)(functions[i], nth, 2 /* CUDA_ERROR_OUT_OF_MEMORY */, GANTRY_EMU_ONCE),
                             0);
            gantry_status status = gantry_context_create(&options, &context);
            bool reached = (emu.calls)(functions[i]) >= nth;
            (emu.clear_faults)();
            if (status == GANTRY_OK) {
                gantry_context_destroy(context);
            } else {
                assert_ptr_equal(context, UNTOUCHED);
                failures++;
            }
            assert_int_equal(gy_alloc_live(), host_live);
            assert_int_equal(live_objects(emu.live), live);
            if (!reached) {
                assert_ok(status);
                break;
            }
        }
    }
    assert_true(failures > 0);
    gy_context_close(held);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_wrong_options_are_refused),
        cmocka_unit_test(test_options_of_a_newer_caller_are_refused_only_when_used),
        cmocka_unit_test(test_wrong_heap_options_are_refused),
        cmocka_unit_test(test_a_context_has_all_its_parts),
        cmocka_unit_test(test_acquire_nests_and_needs_its_release),
        cmocka_unit_test(test_an_adopted_context_is_left_alone),
        cmocka_unit_test(test_modules_are_found_and_left_ones_unloaded),
        cmocka_unit_test(test_create_survives_every_host_failure),
        cmocka_unit_test(test_create_survives_every_driver_failure),
    };
    /* The scripted failures are the emulated driver's. */
    size_t count = sizeof(tests) / sizeof(tests[0]) - (gpu_fixture_driver() != GANTRY_DRIVER_EMULATED);
    return _cmocka_run_group_tests("context", tests, count, NULL, NULL);
}
