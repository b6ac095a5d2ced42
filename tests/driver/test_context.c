/* SPDX-License-Identifier: MIT */
/* Which device and which CUDA context the library takes, on which thread it is current, and its loss; on the
 * emulated driver. */
#include "driver/context.h"

#include "base/alloc.h"
#include "tests/support/cmocka_c11.h"

#include <dlfcn.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

static gantry_context_options emulated_options(gantry_context_mode mode)
{
    gantry_context_options options = GANTRY_CONTEXT_OPTIONS_INIT;
    options.driver = GANTRY_DRIVER_EMULATED;
    options.mode = mode;
    return options;
}

static struct gy_context *open_mode(gantry_context_mode mode)
{
    gantry_context_options options = emulated_options(mode);
    struct gy_context *context = NULL;
    assert_ok(gy_context_open(&options, &context));
    return context;
}

static CUcontext current_of(const struct gy_context *context)
{
    CUcontext native = (CUcontext)(void *)&native;
    assert_int_equal(context->driver->cuCtxGetCurrent(&native), CUDA_SUCCESS);
    return native;
}

static int each_setup(void **state)
{
    (void)state;
    return unsetenv("GANTRY_DEVICE");
}

static int each_teardown(void **state)
{
    (void)state;
    return gy_alloc_live() == 0 ? 0 : -1;
}

static void expect_refused(const gantry_context_options *options, gantry_status status, const char *text)
{
    struct gy_context *context = (struct gy_context *)(void *)&context;
    struct gy_context *before = context;
    assert_int_equal(gy_context_open(options, &context), status);
    assert_ptr_equal(context, before);
    if (strstr(gantry_last_error(), text) == NULL) {
        fail_msg("\"%s\" does not say \"%s\"", gantry_last_error(), text);
    }
}

static void test_device_info_is_the_drivers(void **state)
{
    (void)state;
    struct gy_context *context = open_mode(GANTRY_CONTEXT_PRIMARY);
    const struct gy_driver *driver = context->driver;
    const gantry_device_info *info = &context->info;
    int value = 0;
    size_t bytes = 0;
    char name[128] = "";
    assert_int_equal(info->struct_size, sizeof(*info));
    assert_true(info->emulated);
    assert_int_equal(info->ordinal, 0);
    assert_int_equal(info->driver_version, driver->version);
    assert_int_equal(driver->cuDeviceGetName(name, sizeof(name), context->device), CUDA_SUCCESS);
    assert_string_equal(info->name, name);
    assert_int_equal(driver->cuDeviceTotalMem(&bytes, context->device), CUDA_SUCCESS);
    assert_int_equal(info->memory_bytes, bytes);
    assert_int_equal(
        driver->cuDeviceGetAttribute(&value, CU_DEVICE_ATTRIBUTE_MULTIPROCESSOR_COUNT, context->device),
        CUDA_SUCCESS);
    assert_int_equal(info->total_sms, value);
    assert_true(value > 0);
    assert_int_equal(
        driver->cuDeviceGetAttribute(&value, CU_DEVICE_ATTRIBUTE_COMPUTE_CAPABILITY_MAJOR, context->device),
        CUDA_SUCCESS);
    assert_int_equal(info->compute_major, value);
    gy_context_close(context);
}

/* "GPU-" and the device's UUID with dashes, in capitals when `upper`. */
static void uuid_text(const uint8_t uuid[16], bool upper, char text[48])
{
    const char *digits = upper ? "0123456789ABCDEF" : "0123456789abcdef";
    memcpy(text, "GPU-", 4);
    char *to = text + 4;
    for (int i = 0; i < 16; i++) {
        if (i == 4 || i == 6 || i == 8 || i == 10) {
            *to++ = '-';
        }
        *to++ = digits[uuid[i] >> 4];
        *to++ = digits[uuid[i] & 15];
    }
    *to = '\0';
}

static void test_device_is_found_by_ordinal_uuid_and_environment(void **state)
{
    (void)state;
    char text[48];
    gantry_context_options options = emulated_options(GANTRY_CONTEXT_PRIMARY);
    struct gy_context *context;
    options.device = "0";
    assert_ok(gy_context_open(&options, &context));
    uuid_text(context->info.uuid, false, text);
    gy_context_close(context);

    options.device = text;
    assert_ok(gy_context_open(&options, &context));
    assert_int_equal(context->info.ordinal, 0);
    uuid_text(context->info.uuid, true, text);
    gy_context_close(context);

    memcpy(text, "MIG-", 4);
    assert_ok(gy_context_open(&options, &context));
    gy_context_close(context);

    options.device = NULL;
    setenv("GANTRY_DEVICE", text, 1);
    assert_ok(gy_context_open(&options, &context));
    gy_context_close(context);
    text[11] = '\0'; /* as much of it as tells it from others will do */
    setenv("GANTRY_DEVICE", text, 1);
    assert_ok(gy_context_open(&options, &context));
    gy_context_close(context);

    setenv("GANTRY_DEVICE", "77", 1);
    expect_refused(&options, GANTRY_ERR_NO_DEVICE, "no device 77");
    options.device = "0"; /* the option overrides the environment */
    assert_ok(gy_context_open(&options, &context));
    gy_context_close(context);
}

static void test_unknown_device_is_refused(void **state)
{
    (void)state;
    static const char *const nonsense[] = {"zero", "-1",     "+1",
                                           " 0",   "1x",     "99999999999999999999",
                                           "GPU-", "GPU-zz", "GPU-00000000-0000-0000-0000-0000000000001"};
    gantry_context_options options = emulated_options(GANTRY_CONTEXT_PRIMARY);
    for (size_t i = 0; i < sizeof(nonsense) / sizeof(nonsense[0]); i++) {
        options.device = nonsense[i];
        expect_refused(&options, GANTRY_ERR_INVALID_ARGUMENT, nonsense[i]);
    }
    options.device = "1000";
    expect_refused(&options, GANTRY_ERR_NO_DEVICE, "no device 1000");
    options.device = "GPU-12";
    expect_refused(&options, GANTRY_ERR_NO_DEVICE, "0 devices of");
    options.device = "GPU-0a0b0c0d-0000-0000-0000-00000000ffff";
    expect_refused(&options, GANTRY_ERR_NO_DEVICE, options.device);
}

static void test_invalid_options_are_refused(void **state)
{
    (void)state;
    gantry_context_options options = emulated_options((gantry_context_mode)9);
    expect_refused(&options, GANTRY_ERR_INVALID_ARGUMENT, "mode 9");
    options = emulated_options(GANTRY_CONTEXT_ADOPT);
    expect_refused(&options, GANTRY_ERR_INVALID_ARGUMENT, "adopt");
    options = emulated_options(GANTRY_CONTEXT_PRIMARY);
    options.adopted = &options;
    expect_refused(&options, GANTRY_ERR_INVALID_ARGUMENT, "adopt");
    options = emulated_options(GANTRY_CONTEXT_PRIMARY);
    options.driver = (gantry_driver_choice)5;
    expect_refused(&options, GANTRY_ERR_INVALID_ARGUMENT, "driver choice 5");
    options = emulated_options(GANTRY_CONTEXT_PRIMARY);
    options.completion_wait = (gantry_wait_mode)11;
    expect_refused(&options, GANTRY_ERR_INVALID_ARGUMENT, "wait mode 11");
}

static void test_primary_context_is_shared(void **state)
{
    (void)state;
    struct gy_context *first = open_mode(GANTRY_CONTEXT_PRIMARY);
    struct gy_context *second = open_mode(GANTRY_CONTEXT_PRIMARY);
    assert_ptr_equal(first->native, second->native);
    gy_context_close(first);
    assert_ok(gy_context_push(second));
    assert_ok(gy_context_pop(second));
    gy_context_close(second);
    gy_context_close(NULL);
}

static void test_own_context_is_separate_and_not_left_current(void **state)
{
    (void)state;
    static const gantry_wait_mode waits[] = {GANTRY_WAIT_DEFAULT, GANTRY_WAIT_BLOCK, GANTRY_WAIT_YIELD,
                                             GANTRY_WAIT_SPIN, GANTRY_WAIT_HYBRID};
    struct gy_context *primary = open_mode(GANTRY_CONTEXT_PRIMARY);
    for (size_t i = 0; i < sizeof(waits) / sizeof(waits[0]); i++) {
        gantry_context_options options = emulated_options(GANTRY_CONTEXT_OWN);
        struct gy_context *own;
        options.completion_wait = waits[i];
        assert_ok(gy_context_open(&options, &own));
        assert_ptr_not_equal(own->native, primary->native);
        assert_null(current_of(own));
        gy_context_close(own);
    }
    gy_context_close(primary);
}

static void test_adopted_context_is_left_alone(void **state)
{
    (void)state;
    struct gy_context *own = open_mode(GANTRY_CONTEXT_OWN);
    gantry_context_options options = emulated_options(GANTRY_CONTEXT_ADOPT);
    struct gy_context *adopter;
    options.adopted = own->native;
    assert_ok(gy_context_open(&options, &adopter));
    assert_ptr_equal(adopter->native, own->native);
    assert_int_equal(adopter->device, own->device);
    assert_null(current_of(own));
    gy_context_close(adopter);
    options.device = "0";
    assert_ok(gy_context_open(&options, &adopter));
    gy_context_close(adopter);
    assert_ok(gy_context_push(own));
    assert_int_equal(own->driver->cuCtxSynchronize(), CUDA_SUCCESS);
    assert_ok(gy_context_pop(own));
    gy_context_close(own);
}

static void expect_unknown(gantry_context_options *options, const char *path)
{
    expect_refused(options, GANTRY_ERR_DRIVER, "the emulated driver does not know the context to adopt");
    assert_non_null(strstr(gantry_last_error(), "CUDA_ERROR_INVALID_CONTEXT"));
    if (path != NULL) {
        assert_non_null(strstr(gantry_last_error(), "another copy of it is loaded, "));
        assert_non_null(strstr(gantry_last_error(), path));
    } else {
        assert_null(strstr(gantry_last_error(), "copy"));
    }
}

static void copy_file(const char *from, const char *to)
{
    static char bytes[1 << 16];
    FILE *in = fopen(from, "rb"), *out = fopen(to, "wb");
    assert_true(in != NULL && out != NULL);
    for (size_t n; (n = fread(bytes, 1, sizeof(bytes), in)) != 0;) {
        assert_int_equal(fwrite(bytes, 1, n, out), n);
    }
    assert_int_equal(fclose(in) | fclose(out), 0);
}

static void *symbol_of(void *library, const char *name)
{
    void *found = dlsym(library, name);
    assert_non_null(found);
    return found;
}

/* A program that is linked with an emulated driver, while $GANTRY_EMULATOR names another one: each has a
 * context, and whichever of the other's objects is taken for a context is none. */
static void test_a_context_of_another_copy_is_refused(void **state)
{
    (void)state;
    char folder[] = "/tmp/gantry-copy-XXXXXX", path[64];
    CUresult (*init)(unsigned), (*retain)(CUcontext *, CUdevice), (*release)(CUdevice);
    CUcontext theirs;
    struct gy_context *ours = open_mode(GANTRY_CONTEXT_PRIMARY);
    gantry_context_options options = emulated_options(GANTRY_CONTEXT_ADOPT);
    options.adopted = (void *)16;
    expect_unknown(&options, NULL);
    assert_non_null(mkdtemp(folder));
    (void)snprintf(path, sizeof(path), "%s/libgantry-emu.so", folder);
    copy_file(getenv("GANTRY_EMULATOR"), path);
    void *library = dlopen(path, RTLD_NOW | RTLD_LOCAL | RTLD_NODELETE);
    assert_non_null(library);
    *(void **)&init = symbol_of(library, "cuInit");
    *(void **)&retain = symbol_of(library, "cuDevicePrimaryCtxRetain");
    *(void **)&release = symbol_of(library, "cuDevicePrimaryCtxRelease_v2");
    assert_int_equal(init(0), CUDA_SUCCESS);
    assert_int_equal(retain(&theirs, 0), CUDA_SUCCESS);
    options.adopted = theirs;
    expect_unknown(&options, path);
    assert_int_equal(release(0), CUDA_SUCCESS);
    assert_int_equal(unlink(path) | rmdir(folder), 0);
    gy_context_close(ours);
}

static void test_push_and_pop_nest(void **state)
{
    (void)state;
    struct gy_context *a = open_mode(GANTRY_CONTEXT_PRIMARY);
    struct gy_context *b = open_mode(GANTRY_CONTEXT_OWN);
    struct gy_context *const order[] = {a, a, b, a, b, b};
    const size_t count = sizeof(order) / sizeof(order[0]);
    for (size_t i = 0; i < count; i++) {
        assert_ok(gy_context_push(order[i]));
        assert_ptr_equal(current_of(a), order[i]->native);
    }
    assert_int_equal(gy_context_pop(a), GANTRY_ERR_STATE); /* b is the latest one */
    for (size_t i = count; i-- > 0;) {
        assert_ptr_equal(current_of(a), order[i]->native);
        assert_ok(gy_context_pop(order[i]));
    }
    assert_null(current_of(a));
    gy_context_close(b);
    gy_context_close(a);
}

static void test_pop_without_push_is_refused(void **state)
{
    (void)state;
    struct gy_context *context = open_mode(GANTRY_CONTEXT_PRIMARY);
    assert_int_equal(gy_context_pop(context), GANTRY_ERR_STATE);
    /* A context that the application made current must stay current. */
    CUcontext popped;
    assert_int_equal(context->driver->cuCtxPushCurrent(context->native), CUDA_SUCCESS);
    assert_int_equal(gy_context_pop(context), GANTRY_ERR_STATE);
    assert_ptr_equal(current_of(context), context->native);
    assert_int_equal(context->driver->cuCtxPopCurrent(&popped), CUDA_SUCCESS);
    assert_ok(gy_context_push(context));
    assert_ok(gy_context_pop(context));
    assert_int_equal(gy_context_pop(context), GANTRY_ERR_STATE);
    gy_context_close(context);
}

static void test_pop_under_a_foreign_context_leaves_it(void **state)
{
    (void)state;
    struct gy_context *a = open_mode(GANTRY_CONTEXT_PRIMARY);
    struct gy_context *b = open_mode(GANTRY_CONTEXT_OWN);
    CUcontext popped;
    assert_ok(gy_context_push(a));
    assert_int_equal(a->driver->cuCtxPushCurrent(b->native), CUDA_SUCCESS);
    assert_int_equal(gy_context_pop(a), GANTRY_ERR_STATE);
    assert_ptr_equal(current_of(a), b->native);
    assert_int_equal(a->driver->cuCtxPopCurrent(&popped), CUDA_SUCCESS);
    assert_ok(gy_context_pop(a));
    gy_context_close(b);
    gy_context_close(a);
}

static void test_push_is_bounded(void **state)
{
    (void)state;
    struct gy_context *a = open_mode(GANTRY_CONTEXT_PRIMARY);
    struct gy_context *b = open_mode(GANTRY_CONTEXT_OWN);
    int pushed = 0;
    while (gy_context_push(pushed % 2 == 0 ? a : b) == GANTRY_OK) {
        pushed++;
        assert_true(pushed < 1000);
    }
    assert_int_equal(pushed, 16);
    while (pushed-- > 0) {
        assert_ok(gy_context_pop(pushed % 2 == 0 ? a : b));
    }
    assert_null(current_of(a));
    gy_context_close(b);
    gy_context_close(a);
}

static void pop_elsewhere(void *arg)
{
    gantry_status *status = ((void **)arg)[1];
    *status = gy_context_pop(((void **)arg)[0]);
}

static void test_push_counts_for_its_own_thread_only(void **state)
{
    (void)state;
    struct gy_context *context = open_mode(GANTRY_CONTEXT_PRIMARY);
    gantry_status status = GANTRY_OK;
    void *arg[] = {context, &status};
    gy_thread thread;
    assert_ok(gy_context_push(context));
    assert_ok(gy_thread_start(&thread, "popper", pop_elsewhere, arg));
    gy_thread_join(&thread);
    assert_int_equal(status, GANTRY_ERR_STATE);
    assert_ok(gy_context_pop(context));
    gy_context_close(context);
}

static void test_ordinary_failure_does_not_lose_the_context(void **state)
{
    (void)state;
    struct gy_context *context = open_mode(GANTRY_CONTEXT_PRIMARY);
    assert_int_equal(gy_context_check(context, CUDA_ERROR_INVALID_VALUE, "cuX()", "f.c", 3),
                     GANTRY_ERR_DRIVER);
    assert_non_null(strstr(gantry_last_error(), "cuX(): CUDA_ERROR_INVALID_VALUE (1): "));
    assert_int_equal(gy_context_check(context, CUDA_ERROR_OUT_OF_MEMORY, "cuX()", "f.c", 3),
                     GANTRY_ERR_OUT_OF_DEVICE_MEMORY);
    assert_false(gy_context_is_lost(context));
    assert_int_equal(gy_context_check(context, CUDA_SUCCESS, "cuX()", "f.c", 3), GANTRY_OK);
    assert_int_equal(gy_context_failed(context, CUDA_SUCCESS, "cuX()", "f.c", 3), GANTRY_OK);
    gy_context_close(context);
}

static void test_sticky_failure_loses_it_and_the_first_cause_stays(void **state)
{
    (void)state;
    struct gy_context *context = open_mode(GANTRY_CONTEXT_OWN);
    assert_int_equal(gy_context_check(context, CUDA_ERROR_ILLEGAL_ADDRESS, "cuFirst()", "f.c", 3),
                     GANTRY_ERR_DEVICE_LOST);
    assert_true(gy_context_is_lost(context));
    char first[GY_ERROR_TEXT_BYTES];
    memcpy(first, gy_error_last()->text, sizeof(first));
    assert_non_null(strstr(first, "cuFirst(): CUDA_ERROR_ILLEGAL_ADDRESS (700): "));

    (void)GY_FAIL(GANTRY_ERR_STATE, "something else");
    assert_int_equal(gy_context_check(context, CUDA_ERROR_INVALID_VALUE, "cuLater()", "f.c", 4),
                     GANTRY_ERR_DEVICE_LOST);
    assert_string_equal(gantry_last_error(), first);
    assert_int_equal(gantry_last_native_error(), 700);
    struct gy_error other = {.status = GANTRY_ERR_DRIVER, .native = 1, .text = "second"};
    gy_context_lose(context, &other);
    (void)GY_FAIL(GANTRY_ERR_STATE, "something else");
    assert_int_equal(gy_context_adopt_loss(context), GANTRY_ERR_DEVICE_LOST);
    assert_string_equal(gantry_last_error(), first);
    gy_context_close(context);
}

#define LOSERS 4

struct loser {
    struct gy_context *context;
    int native;
    gantry_status status;
    int seen; /* the native error of the cause that was reported */
};

static void lose(void *arg)
{
    struct loser *loser = arg;
    loser->status = gy_context_check(loser->context, (CUresult)loser->native, "cuX()", "f.c", loser->native);
    loser->seen = gantry_last_native_error();
}

static void test_threads_that_lose_it_at_once_agree_on_the_cause(void **state)
{
    (void)state;
    struct gy_context *context = open_mode(GANTRY_CONTEXT_PRIMARY);
    struct loser losers[LOSERS];
    gy_thread threads[LOSERS];
    for (int i = 0; i < LOSERS; i++) {
        losers[i] = (struct loser){.context = context, .native = CUDA_ERROR_ILLEGAL_INSTRUCTION + i};
        assert_ok(gy_thread_start(&threads[i], "loser", lose, &losers[i]));
    }
    for (int i = 0; i < LOSERS; i++) {
        gy_thread_join(&threads[i]);
    }
    for (int i = 0; i < LOSERS; i++) {
        assert_int_equal(losers[i].status, GANTRY_ERR_DEVICE_LOST);
        assert_int_equal(losers[i].seen, losers[0].seen);
    }
    gy_context_close(context);
}

static void test_open_survives_every_failing_allocation(void **state)
{
    (void)state;
    gantry_context_options options = emulated_options(GANTRY_CONTEXT_OWN);
    for (long n = 0;; n++) {
        struct gy_context *context = NULL;
        gy_fault_arm(n);
        gantry_status status = gy_context_open(&options, &context);
        bool fired = gy_fault_fired();
        gy_fault_arm(-1);
        if (!fired) {
            assert_int_equal(status, GANTRY_OK);
            gy_context_close(context);
            assert_true(n > 0);
            break;
        }
        assert_int_equal(status, GANTRY_ERR_OUT_OF_HOST_MEMORY);
        assert_null(context);
        assert_int_equal(gy_alloc_live(), 0);
    }
}

#define TEST(name) cmocka_unit_test_setup_teardown(name, each_setup, each_teardown)

int main(void)
{
    const struct CMUnitTest tests[] = {
        TEST(test_device_info_is_the_drivers),
        TEST(test_device_is_found_by_ordinal_uuid_and_environment),
        TEST(test_unknown_device_is_refused),
        TEST(test_invalid_options_are_refused),
        TEST(test_primary_context_is_shared),
        TEST(test_own_context_is_separate_and_not_left_current),
        TEST(test_adopted_context_is_left_alone),
        TEST(test_a_context_of_another_copy_is_refused),
        TEST(test_push_and_pop_nest),
        TEST(test_pop_without_push_is_refused),
        TEST(test_pop_under_a_foreign_context_leaves_it),
        TEST(test_push_is_bounded),
        TEST(test_push_counts_for_its_own_thread_only),
        TEST(test_ordinary_failure_does_not_lose_the_context),
        TEST(test_sticky_failure_loses_it_and_the_first_cause_stays),
        TEST(test_threads_that_lose_it_at_once_agree_on_the_cause),
        TEST(test_open_survives_every_failing_allocation),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
