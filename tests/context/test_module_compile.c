/* SPDX-License-Identifier: MIT */
/* Modules that are compiled at run time: with a fake compiler on the emulated driver, with the real one on a
 * device. */
#include "order_kernels.kernels.h"
#include "tests/context/counting.h"
#include "tests/context/fake_nvrtc.h"
#include "tests/support/cmocka_c11.h"
#include "tests/support/gpu_fixture.h"

#include <gantry/host_module.h>

#include <dlfcn.h>
#include <stdlib.h>
#include <string.h>

static struct gpu_fixture gpu;
static bool is_emulated;
static struct fake_nvrtc *fake; /* NULL on a device */

static const char text[] =
    "template <typename T> __global__ void count_up(T *count, T by) { atomicAdd(count, by); }\n";
static const char *const names[] = {"count_up<unsigned>", NULL};

static int set_up(void **state)
{
    (void)state;
    struct gantry_emu_control emu;
    gpu_fixture_open(&gpu, 1, 0);
    is_emulated = gpu_fixture_controls(&emu);
    if (is_emulated) {
        fake->code = gantry_image_order_kernels.host;
        fake->code_bytes = sizeof(struct gantry_host_module);
        memcpy(fake->architectures, (int[4]){80, 90}, sizeof(fake->architectures));
        setenv("GANTRY_NVRTC", FAKE_NVRTC, 1);
    } else {
        unsetenv("GANTRY_NVRTC");
    }
    return 0;
}

static int tear_down(void **state)
{
    (void)state;
    gpu_fixture_close(&gpu);
    assert_int_equal(fake->programs, 0);
    return 0;
}

static gantry_module_source source_of(const char *what)
{
    gantry_module_source source = GANTRY_MODULE_SOURCE_INIT;
    source.text = what;
    source.name = "blur.cu";
    source.kernel_names = names;
    return source;
}

static void expect_refused(const gantry_module_source *source, gantry_status status, const char *part)
{
    gantry_module *module;
    assert_int_equal(gantry_module_compile(gpu.context, source, &module), status);
    if (strstr(gantry_last_error(), part) == NULL) {
        fail_msg("\"%s\" does not say \"%s\"", gantry_last_error(), part);
    }
}

/* ---- no compiler ------------------------------------------------------------------------------- */

static void test_without_a_compiler_the_message_says_where_it_was_looked_for(void **state)
{
    (void)state;
    gantry_module_source source = source_of(text);
    if (!is_emulated) {
        skip();
    }
    setenv("GANTRY_NVRTC", "/no/such/libnvrtc.so", 1);
    expect_refused(&source, GANTRY_ERR_UNSUPPORTED, "/no/such/libnvrtc.so");
    setenv("GANTRY_NVRTC", FAKE_CUDA, 1);
    expect_refused(&source, GANTRY_ERR_UNSUPPORTED, "lacks nvrtcVersion");
}

/* A machine with a device need not have the compiler. */
static void compile_or_skip(const gantry_module_source *source, gantry_module **out)
{
    const gantry_status status = gantry_module_compile(gpu.context, source, out);
    if (status == GANTRY_ERR_UNSUPPORTED && !is_emulated) {
        print_message("%s\n", gantry_last_error());
        skip();
    }
    assert_ok(status);
}

static void test_a_compiled_kernel_runs_under_its_name_in_the_source(void **state)
{
    (void)state;
    static const char *const options[] = {"-DN=4", "-lineinfo", NULL};
    gantry_module_source source = source_of(text);
    gantry_module *module;
    source.options = options;
    compile_or_skip(&source, &module);
    counting_check(&gpu, module, names[0]);
    if (is_emulated) {
        assert_string_equal(fake->options, "-DN=4 -lineinfo --gpu-architecture=sm_90");
        assert_string_equal(fake->name, "blur.cu");
        assert_int_equal(fake->took_ptx, 0);
    }
    gantry_module_unload(module);
    setenv("GANTRY_NVRTC", "/no/such/libnvrtc.so", 1); /* it is looked for once */
    assert_ok(gantry_module_compile(gpu.context, &source, &module));
    gantry_module_unload(module);
}

static void test_a_compiler_that_does_not_know_the_device_gives_ptx(void **state)
{
    (void)state;
    gantry_module_source source = source_of(text);
    gantry_module *module;
    if (!is_emulated) {
        skip();
    }
    memcpy(fake->architectures, (int[4]){75, 80}, sizeof(fake->architectures));
    assert_ok(gantry_module_compile(gpu.context, &source, &module));
    assert_string_equal(fake->options, "--gpu-architecture=compute_80");
    assert_int_equal(fake->took_ptx, 1);
    counting_check(&gpu, module, names[0]);
    memcpy(fake->architectures, (int[4]){100, 120}, sizeof(fake->architectures));
    expect_refused(&source, GANTRY_ERR_UNSUPPORTED, "NVRTC 13.0 makes no code for compute capability 9.0");
}

static void test_an_architecture_of_the_programs_own_is_left_alone(void **state)
{
    (void)state;
    static const char *const options[] = {"-arch=compute_80", NULL};
    gantry_module_source source = source_of(text);
    gantry_module *module;
    source.options = options;
    compile_or_skip(&source, &module);
    if (is_emulated) {
        assert_string_equal(fake->options, "-arch=compute_80");
    }
    counting_check(&gpu, module, names[0]);
}

/* ---- what is wrong with the source ---------------------------------------------------------------- */

static void test_a_source_that_does_not_compile_is_told_with_the_compilers_words(void **state)
{
    (void)state;
    char log[512], little[8];
    gantry_module_source source = source_of("__global__ void fails() { x = 1; }\n");
    source.log = log;
    source.log_bytes = sizeof(log);
    if (!is_emulated) {
        gantry_module *module;
        gantry_module_source good = source_of(text);
        compile_or_skip(&good, &module);
    }
    expect_refused(&source, GANTRY_ERR_INVALID_ARGUMENT, "blur.cu");
    assert_non_null(strstr(gantry_last_error(), "identifier \"x\" is undefined"));
    assert_null(strchr(gantry_last_error(), '\n'));
    assert_non_null(strstr(log, "identifier \"x\" is undefined"));
    assert_non_null(strchr(log, '\n'));
    source.log = little;
    source.log_bytes = sizeof(little);
    expect_refused(&source, GANTRY_ERR_INVALID_ARGUMENT, "blur.cu");
    assert_int_equal(strlen(little), sizeof(little) - 1);
}

static void test_warnings_are_in_the_log_and_a_clean_log_is_empty(void **state)
{
    (void)state;
    char log[512] = "left";
    gantry_module *module;
    gantry_module_source source = source_of(text);
    source.log = log;
    source.log_bytes = sizeof(log);
    compile_or_skip(&source, &module);
    assert_string_equal(log, "");
    if (is_emulated) {
        source.text = "warns";
        assert_ok(gantry_module_compile(gpu.context, &source, &module));
        assert_non_null(strstr(log, "never used"));
    }
}

static void test_a_name_that_the_source_lacks_is_named(void **state)
{
    (void)state;
    static const char *const wrong[] = {"nonsense", NULL}, *const absent[] = {"absent<int>", NULL};
    gantry_module_source source = source_of(text);
    if (!is_emulated) {
        skip();
    }
    source.kernel_names = wrong;
    expect_refused(&source, GANTRY_ERR_NOT_FOUND, "nonsense");
    source.kernel_names = absent; /* the compiler takes it, and the driver does not find it */
    expect_refused(&source, GANTRY_ERR_NOT_FOUND, "absent<int>");
}

static void test_code_that_the_driver_refuses_is_an_error_of_the_driver(void **state)
{
    (void)state;
    static const char ptx[] = ".version 8.0";
    gantry_module_source source = source_of(text);
    if (!is_emulated) {
        skip();
    }
    fake->code = ptx;
    fake->code_bytes = sizeof(ptx);
    expect_refused(&source, GANTRY_ERR_DRIVER, "the emulated driver runs host modules only");
}

int main(void)
{
    static struct fake_nvrtc unused;
    void *library = dlopen(FAKE_NVRTC, RTLD_NOW | RTLD_LOCAL);
    fake = library != NULL ? dlsym(library, "fake_nvrtc") : NULL;
    if (fake == NULL) {
        fake = &unused;
    }
    /* The first module comes before the library is found: from then on it stays. */
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup_teardown(test_without_a_compiler_the_message_says_where_it_was_looked_for,
                                        set_up, tear_down),
        cmocka_unit_test_setup_teardown(test_a_compiled_kernel_runs_under_its_name_in_the_source, set_up,
                                        tear_down),
        cmocka_unit_test_setup_teardown(test_a_compiler_that_does_not_know_the_device_gives_ptx, set_up,
                                        tear_down),
        cmocka_unit_test_setup_teardown(test_an_architecture_of_the_programs_own_is_left_alone, set_up,
                                        tear_down),
        cmocka_unit_test_setup_teardown(test_a_source_that_does_not_compile_is_told_with_the_compilers_words,
                                        set_up, tear_down),
        cmocka_unit_test_setup_teardown(test_warnings_are_in_the_log_and_a_clean_log_is_empty, set_up,
                                        tear_down),
        cmocka_unit_test_setup_teardown(test_a_name_that_the_source_lacks_is_named, set_up, tear_down),
        cmocka_unit_test_setup_teardown(test_code_that_the_driver_refuses_is_an_error_of_the_driver, set_up,
                                        tear_down),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
