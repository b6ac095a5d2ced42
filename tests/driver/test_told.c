/* SPDX-License-Identifier: MIT */
/* What the driver logs about failing calls: its reasons appear in our messages, and refusals in captures are
 * counted. */
#include "driver/told.h"

#include "base/thread.h"
#include "driver/module.h"
#include "tests/support/cmocka_c11.h"

#include <gantry/host_module.h>

#include <string.h>

static struct gy_context *context;
static CUmodule module;
static CUfunction nothing;
static CUstream stream;

static void run_nothing(struct gantry_host_thread *self, void *const *args)
{
    (void)self;
    (void)args;
}

static const struct gantry_host_kernel kernels[] = {{"nothing", run_nothing, 0, NULL}};
static const struct gantry_host_module image = {GANTRY_HOST_MODULE_MAGIC, "told", 1, kernels, 0, 0};

static int open_all(void **state)
{
    (void)state;
    gantry_context_options options = GANTRY_CONTEXT_OPTIONS_INIT;
    options.driver = GANTRY_DRIVER_EMULATED;
    if (gy_context_open(&options, &context) != GANTRY_OK || gy_context_push(context) != GANTRY_OK) {
        return -1;
    }
    return GY_CALL(context, cuModuleLoadDataEx(&module, &image, 0, NULL, NULL)) == GANTRY_OK &&
                   GY_CALL(context, cuModuleGetFunction(&nothing, module, "nothing")) == GANTRY_OK &&
                   GY_CALL(context, cuStreamCreate(&stream, CU_STREAM_NON_BLOCKING)) == GANTRY_OK
               ? 0
               : -1;
}

static int close_all(void **state)
{
    (void)state;
    (void)context->driver->cuStreamDestroy(stream);
    (void)context->driver->cuModuleUnload(module);
    assert_ok(gy_context_pop(context));
    gy_context_close(context);
    return 0;
}

static gantry_status launch(unsigned int threads)
{
    return GY_CALL(context, cuLaunchKernel(nothing, 1, 1, 1, threads, 1, 1, 0, stream, NULL, NULL));
}

static void test_a_failure_has_the_drivers_reason(void **state)
{
    (void)state;
    assert_non_null(context->driver->log);
    assert_int_equal(launch(4096), GANTRY_ERR_DRIVER);
    const char *told = strstr(gantry_last_error(), "the driver says: ");
    assert_non_null(told);
    assert_non_null(strstr(told, "(4096,1,1)"));
    assert_null(strstr(gantry_last_error(), "Returning"));
}

/* A call for which the driver logs nothing does not get the text that another call has left. */
static void test_a_reason_belongs_to_its_own_failure(void **state)
{
    (void)state;
    assert_int_not_equal(context->driver->cuLaunchKernel(nothing, 1, 1, 1, 4096, 1, 1, 0, stream, NULL, NULL),
                         CUDA_SUCCESS);
    assert_int_equal(GY_CALL(context, cuStreamWaitEvent(stream, NULL, 7)), GANTRY_ERR_DRIVER);
    assert_null(strstr(gantry_last_error(), "the driver says"));
    assert_int_equal(launch(4096), GANTRY_ERR_DRIVER); /* the message has a text again, and it is its own */
    assert_non_null(strstr(gantry_last_error(), "(4096,1,1)"));
    assert_int_equal(gy_driver_failed(context->driver, CUDA_ERROR_INVALID_VALUE, "nothing", __FILE__, 1),
                     GANTRY_ERR_DRIVER);
    assert_null(strstr(gantry_last_error(), "the driver says"));
}

/* The same holds for a driver that logs nothing. */
static void test_a_refused_launch_is_described_with_the_limit_it_breaks(void **state)
{
    (void)state;
    struct gantry_module owner = {.context = context};
    const struct gantry_kernel kernel = {.function = nothing, .name = "nothing", .module = &owner};
    static const struct {
        struct gy_launch_size size;
        const char *text;
    } cases[] = {
        {{{1, 1, 1}, {4096, 1, 1}, 0},
         "grid 1x1x1 of 4096x1x1 threads, 0 bytes of shared memory (block.x 4096 is above 1024)"},
        {{{1, 1, 1}, {64, 64, 1}, 16},
         "grid 1x1x1 of 64x64x1 threads, 16 bytes of shared memory (threads per block: 4096 is above 1024)"},
        {{{1, 70000, 1}, {32, 1, 1}, 0},
         "grid 1x70000x1 of 32x1x1 threads, 0 bytes of shared memory (grid.y 70000 is above 65535)"},
        {{{1, 1, 1}, {32, 1, 1}, 1 << 20},
         "grid 1x1x1 of 32x1x1 threads, 1048576 bytes of shared memory "
         "(bytes of shared memory: 1048576 is above 49152)"},
        {{{2, 3, 4}, {32, 1, 1}, 7}, "grid 2x3x4 of 32x1x1 threads, 7 bytes of shared memory"},
    };
    for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
        char text[200];
        gy_kernel_describe_launch(&kernel, &cases[i].size, text, sizeof(text));
        assert_string_equal(text, cases[i].text);
    }
}

static void count_refusals(void *arg)
{
    *(uint32_t *)arg = gy_told_refusals();
}

static void test_refusals_in_a_capture_are_counted_on_their_thread(void **state)
{
    (void)state;
    CUgraph graph = NULL;
    gy_thread thread;
    uint32_t before = gy_told_refusals(), elsewhere = 99;
    (void)launch(4096);
    assert_int_equal(context->driver->cuStreamQuery(stream), CUDA_SUCCESS);
    assert_int_equal(gy_told_refusals(), before);
    assert_ok(GY_CALL(context, cuStreamBeginCapture(stream, CU_STREAM_CAPTURE_MODE_THREAD_LOCAL)));
    assert_int_equal(context->driver->cuStreamSynchronize(stream), CUDA_ERROR_STREAM_CAPTURE_UNSUPPORTED);
    assert_int_equal(gy_told_refusals(), before + 1);
    (void)context->driver->cuStreamEndCapture(stream, &graph);
    assert_int_equal(gy_told_refusals(), before + 2);
    assert_ok(gy_thread_start(&thread, "elsewhere", count_refusals, &elsewhere));
    gy_thread_join(&thread);
    assert_int_equal(elsewhere, 0);
}

static void test_a_fault_of_the_gpu_says_that_the_process_must_end(void **state)
{
    (void)state;
    const struct gy_driver *driver = context->driver;
    (void)gy_driver_failed(driver, CUDA_ERROR_ILLEGAL_ADDRESS, "cuSomething", __FILE__, 1);
    assert_non_null(strstr(gantry_last_error(), "end the process"));
    (void)gy_driver_failed(driver, CUDA_ERROR_CONTEXT_IS_DESTROYED, "cuSomething", __FILE__, 1);
    assert_null(strstr(gantry_last_error(), "end the process"));
    (void)gy_driver_failed(driver, CUDA_ERROR_OUT_OF_MEMORY, "cuSomething", __FILE__, 1);
    assert_null(strstr(gantry_last_error(), "end the process"));
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_a_failure_has_the_drivers_reason),
        cmocka_unit_test(test_a_reason_belongs_to_its_own_failure),
        cmocka_unit_test(test_a_refused_launch_is_described_with_the_limit_it_breaks),
        cmocka_unit_test(test_refusals_in_a_capture_are_counted_on_their_thread),
        cmocka_unit_test(test_a_fault_of_the_gpu_says_that_the_process_must_end),
    };
    return cmocka_run_group_tests(tests, open_all, close_all);
}
