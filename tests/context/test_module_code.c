/* SPDX-License-Identifier: MIT */
/* Modules made of code that was compiled elsewhere: from memory and from files, and the errors in them. */
#include "order_kernels.kernels.h"
#include "tests/context/counting.h"
#include "tests/context/module_scene.h"
#include "tests/support/cmocka_c11.h"

#include <stdio.h>
#include <string.h>
#include <unistd.h>

/* The image in the form that this driver takes; NULL: there is none. */
static const void *code_of(const gantry_module_image *image)
{
    return is_emulated ? image->host : image->fatbin != NULL ? image->fatbin : (const void *)image->ptx;
}

static const char *const names[] = {"count_up", "stamp", NULL};

static void test_code_in_memory_is_loaded(void **state)
{
    (void)state;
    gantry_module_code code = GANTRY_MODULE_CODE_INIT;
    gantry_module *first, *second;
    code.code = code_of(&gantry_image_order_kernels);
    code.kernel_names = names;
    code.max_registers = 64;
    code.line_info = 1;
    if (code.code == NULL) {
        skip();
    }
    assert_ok(gantry_module_load_code(gpu.context, &code, &first));
    assert_ok(gantry_module_load_code(gpu.context, &code, &second));
    assert_ptr_not_equal(first, second);
    counting_check(&gpu, first, "count_up");
    gantry_module_unload(first);
    counting_check(&gpu, second, "count_up"); /* it is unloaded with the context */
}

static void write_file(const char *path, const void *bytes, size_t count)
{
    FILE *file = fopen(path, "wbe");
    assert_non_null(file);
    assert_int_equal(fwrite(bytes, 1, count, file), count);
    assert_int_equal(fclose(file), 0);
}

static void test_a_file_is_loaded_or_says_why_not(void **state)
{
    (void)state;
    static const char text[] = "this is no code";
    const gantry_module_image *image = &gantry_image_order_kernels;
    char path[64];
    gantry_module_code code = GANTRY_MODULE_CODE_INIT;
    gantry_module *module;
    snprintf(path, sizeof(path), "module-code-%ld.bin", (long)getpid());
    code.path = path;
    code.kernel_names = names;
    assert_int_equal(gantry_module_load_code(gpu.context, &code, &module), GANTRY_ERR_IO);
    assert_non_null(strstr(gantry_last_error(), path));
    write_file(path, text, sizeof(text) - 1);
    assert_int_equal(gantry_module_load_code(gpu.context, &code, &module), GANTRY_ERR_DRIVER);
    assert_non_null(strstr(gantry_last_error(), path));
    if (!is_emulated && image->fatbin != NULL) {
        write_file(path, image->fatbin, image->fatbin_bytes);
        assert_ok(gantry_module_load_code(gpu.context, &code, &module));
        counting_check(&gpu, module, "count_up");
    }
    assert_int_equal(remove(path), 0);
}

static void test_missing_kernels_are_named(void **state)
{
    (void)state;
    static const char *const wrong[] = {"count_up", "crane", NULL};
    gantry_module_code code = GANTRY_MODULE_CODE_INIT;
    gantry_module *module;
    code.code = code_of(&gantry_image_order_kernels);
    code.kernel_names = wrong;
    if (code.code == NULL) {
        skip();
    }
    assert_int_equal(gantry_module_load_code(gpu.context, &code, &module), GANTRY_ERR_NOT_FOUND);
    assert_non_null(strstr(gantry_last_error(), "crane"));
}

static const struct CMUnitTest tests[] = {
    cmocka_unit_test_setup_teardown(test_code_in_memory_is_loaded, module_scene_open, module_scene_close),
    cmocka_unit_test_setup_teardown(test_a_file_is_loaded_or_says_why_not, module_scene_open,
                                    module_scene_close),
    cmocka_unit_test_setup_teardown(test_missing_kernels_are_named, module_scene_open, module_scene_close),
};

int main(void)
{
    return cmocka_run_group_tests(tests, NULL, NULL);
}
