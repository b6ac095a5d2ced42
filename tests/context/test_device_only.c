/* SPDX-License-Identifier: MIT */
/* Images for devices alone: a device takes any CUDA C++, and the emulated driver returns an error that names
 * the kernel. */
#include "any_cuda.kernels.h"
#include "order_kernels.kernels.h"
#include "tests/context/module_scene.h"
#include "tests/support/cmocka_c11.h"

#include <string.h>

enum { COUNT = 100 };

static void test_the_image_knows_its_kernels(void **state)
{
    (void)state;
    const gantry_module_image *image = &gantry_image_any_cuda;
    assert_int_equal(image->device_only, 1);
    assert_null(image->host);
    assert_null(image->ptx);
    if (image->fatbin == NULL) {
        assert_null(image->kernel_names); /* it was built without nvcc */
        return;
    }
    static const char *const expected[] = {"double_all", "_Z10add_to_allIjEvPT_j", "_Z10add_to_allIyEvPT_j"};
    size_t count = 0;
    for (; image->kernel_names[count] != NULL; count++) {
    }
    assert_int_equal(count, 3);
    for (size_t i = 0; i < 3; i++) {
        size_t at = 0;
        while (at < count && strcmp(image->kernel_names[at], expected[i]) != 0) {
            at++;
        }
        if (at == count) {
            fail_msg("there is no %s", expected[i]);
        }
    }
}

static void test_on_the_emulated_driver_the_kernel_is_named(void **state)
{
    (void)state;
    gantry_module *module, *again, *other;
    gantry_kernel *kernel = NULL;
    if (!is_emulated) {
        skip();
    }
    assert_ok(gantry_module_load(gpu.context, &gantry_image_any_cuda, &module));
    assert_int_equal(gantry_module_get_kernel(module, "double_all", &kernel), GANTRY_ERR_UNSUPPORTED);
    assert_null(kernel);
    assert_non_null(
        strstr(gantry_last_error(), "kernel \"double_all\" of image \"any_cuda\" is for devices only"));
    assert_ok(gantry_module_load(gpu.context, &gantry_image_any_cuda, &again));
    assert_ptr_equal(module, again);
    assert_ok(
        gantry_module_load(gpu.context, &gantry_image_order_kernels, &other)); /* the others work as ever */
    assert_ok(gantry_module_get_kernel(other, "count_up", &kernel));
    gantry_module_unload(module);
    gantry_module_unload(again);
}

static gantry_kernel *add, *twice;
static void *device, *host;

static gantry_launch_result launch(gantry_launch *launch, void *arg)
{
    (void)arg;
    uint32_t count = COUNT;
    void *args[] = {&device, &count};
    const gantry_dim3 blocks = {1, 1, 1}, threads = {128, 1, 1};
    if (gantry_launch_fill(launch, device, 4, 4, COUNT) != GANTRY_OK ||
        gantry_launch_kernel(launch, add, blocks, threads, 0, args) != GANTRY_OK ||
        gantry_launch_kernel(launch, twice, blocks, threads, 0, args) != GANTRY_OK ||
        gantry_launch_copy_dtoh(launch, host, device, COUNT * 4) != GANTRY_OK) {
        return GANTRY_LAUNCH_FAILED;
    }
    return GANTRY_LAUNCH_DONE;
}

static void test_on_a_device_they_run(void **state)
{
    (void)state;
    gantry_module *module;
    gantry_heap *heap = gantry_context_heap(gpu.context);
    if (is_emulated || gantry_image_any_cuda.fatbin == NULL) {
        skip();
    }
    assert_ok(gantry_module_load(gpu.context, &gantry_image_any_cuda, &module));
    assert_ok(gantry_module_get_kernel(module, "_Z10add_to_allIjEvPT_j", &add));
    assert_ok(gantry_module_get_kernel(module, "double_all", &twice));
    assert_ok(
        gantry_heap_alloc(heap, GANTRY_MEMORY_DEVICE, COUNT * 4, 0, GANTRY_ALLOC_SITE("numbers"), &device));
    assert_ok(
        gantry_heap_alloc(heap, GANTRY_MEMORY_PINNED, COUNT * 4, 0, GANTRY_ALLOC_SITE("numbers"), &host));
    (void)gpu_fixture_gpu(&gpu, GANTRY_TASK_KERNEL, "any", launch, NULL);
    assert_ok(gpu_fixture_step(&gpu));
    assert_ok(gantry_context_synchronize(gpu.context));
    for (uint32_t i = 0; i < COUNT; i++) {
        assert_int_equal(((uint32_t *)host)[i], (4 + 3) * 2);
    }
    assert_ok(gantry_heap_free(heap, device));
    assert_ok(gantry_heap_free(heap, host));
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup_teardown(test_the_image_knows_its_kernels, module_scene_open,
                                        module_scene_close),
        cmocka_unit_test_setup_teardown(test_on_the_emulated_driver_the_kernel_is_named, module_scene_open,
                                        module_scene_close),
        cmocka_unit_test_setup_teardown(test_on_a_device_they_run, module_scene_open, module_scene_close),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
