/* SPDX-License-Identifier: MIT */
/* Kernels whose blocks steal, launched in clusters through the library: each unit is done once, on streams
 * and in graphs.  Emulated devices steal here; on others the results must be the same. */
#include "steal_kernels.kernels.h"
#include "tests/support/cmocka_c11.h"
#include "tests/support/gpu_fixture.h"

#include <stdlib.h>
#include <string.h>

#define UNITS 512u

static struct gpu_fixture gpu;
static struct gantry_emu_control emu;
static bool is_emulated;
static gantry_kernel *row, *box;
static uint32_t *device, *host; /* UNITS counts, and that of the wrong ones */

struct launch {
    gantry_kernel *kernel;
    gantry_dim3 grid, cluster;
};

static gantry_launch_result launch_units(gantry_launch *launch, void *arg)
{
    const struct launch *l = arg;
    uint32_t *wrong = device + UNITS;
    void *args[] = {&device, &wrong};
    gantry_launch_options options = GANTRY_LAUNCH_OPTIONS_INIT;
    options.cluster = l->cluster;
    const gantry_dim3 block = {32, 1, 1};
    gantry_status status = gantry_launch_fill(launch, device, 0, 4, UNITS + 1);
    if (status == GANTRY_OK) {
        status = gantry_launch_kernel_with(launch, l->kernel, l->grid, block, 0, args, &options);
    }
    return status == GANTRY_OK ? GANTRY_LAUNCH_DONE : GANTRY_LAUNCH_FAILED;
}

static gantry_launch_result fetch(gantry_launch *launch, void *arg)
{
    (void)arg;
    return gantry_launch_copy_dtoh(launch, host, device, (UNITS + 1) * 4) == GANTRY_OK ? GANTRY_LAUNCH_DONE
                                                                                       : GANTRY_LAUNCH_FAILED;
}

/* Each unit is done once, and units are stolen unless each request is refused. */
static void try(struct launch *l, uint64_t refuse_every)
{
    if (is_emulated) {
        emu.reset_counters();
        emu.refuse_steals(refuse_every);
    }
    gantry_task *task = gpu_fixture_gpu(&gpu, GANTRY_TASK_KERNEL, "units", launch_units, l);
    gpu_fixture_after(gpu_fixture_gpu(&gpu, GANTRY_TASK_DTOH, "fetch", fetch, NULL), task);
    memset(host, 0xff, (UNITS + 1) * 4);
    assert_ok(gpu_fixture_step(&gpu));
    assert_ok(gantry_context_synchronize(gpu.context));
    const uint32_t units = l->grid.x * l->grid.y * l->grid.z;
    for (uint32_t unit = 0; unit < UNITS; unit++) {
        assert_int_equal(host[unit], unit < units);
    }
    assert_int_equal(host[UNITS], 0);
    if (is_emulated) {
        const uint64_t steals = emu.steals();
        assert_true(refuse_every == 1 ? steals == 0 : steals != 0);
        assert_int_equal(steals % (l->cluster.x * l->cluster.y * l->cluster.z), 0);
    }
}

static void use_words(void)
{
    gantry_heap *heap = gantry_context_heap(gpu.context);
    void *block;
    assert_ok(gantry_heap_alloc(heap, GANTRY_MEMORY_DEVICE, (UNITS + 1) * 4, 0, GANTRY_ALLOC_SITE("units"),
                                &block));
    device = block;
    assert_ok(gantry_heap_alloc(heap, GANTRY_MEMORY_PINNED, (UNITS + 1) * 4, 0, GANTRY_ALLOC_SITE("units"),
                                &block));
    host = block;
}

static void try_all(gantry_submission submission)
{
    gantry_context_options options = GANTRY_CONTEXT_OPTIONS_INIT;
    options.driver = gpu_fixture_driver();
    options.submission = submission;
    gpu_fixture_open_with(&gpu, 1, &options);
    is_emulated = gpu_fixture_controls(&emu);
    gantry_device_info info = {.struct_size = sizeof(info)};
    assert_ok(gantry_context_device_info(gpu.context, &info));
    gantry_module *module;
    assert_ok(gantry_module_load(gpu.context, &gantry_image_steal_kernels, &module));
    assert_ok(gantry_module_get_kernel(module, "units_of_row", &row));
    assert_ok(gantry_module_get_kernel(module, "units_of_box", &box));
    use_words();
    for (uint32_t size = 1; size <= 8 && info.compute_major >= 9; size *= 2) {
        struct launch launches[] = {{row, {UNITS, 1, 1}, {size, 1, 1}},
                                    {box, {UNITS, 1, 1}, {size, 1, 1}},
                                    {box, {2 * size, 4, 5}, {size, 1, 1}},
                                    {box, {4, 2 * size, 3}, {1, size, 1}},
                                    {box, {6, 4, 8}, {size > 2 ? 2 : 1, size > 4 ? 2 : 1, size > 1 ? 2 : 1}}};
        for (uint32_t i = 0; i < 15; i++) {
            try(&launches[i % 5], i / 5);
        }
    }
    assert_ok(gantry_heap_free(gantry_context_heap(gpu.context), device));
    assert_ok(gantry_heap_free(gantry_context_heap(gpu.context), host));
    gantry_module_unload(module);
    gpu_fixture_close(&gpu);
}

static void test_clusters_steal_on_streams(void **state)
{
    (void)state;
    try_all(GANTRY_SUBMISSION_STREAMS);
}

static void test_clusters_steal_in_graphs(void **state)
{
    (void)state;
    try_all(GANTRY_SUBMISSION_GRAPHS);
}

static gantry_launch_result launch_ask_again(gantry_launch *launch, void *arg)
{
    void *args[] = {&device};
    const gantry_dim3 grid = {8, 1, 1}, block = {1, 1, 1};
    return gantry_launch_kernel(launch, arg, grid, block, 0, args) == GANTRY_OK ? GANTRY_LAUNCH_DONE
                                                                                : GANTRY_LAUNCH_FAILED;
}

/* Who breaks a rule of stealing reads which, and in which kernel. */
static void test_a_broken_rule_is_named(void **state)
{
    (void)state;
    gantry_context_options options = GANTRY_CONTEXT_OPTIONS_INIT;
    options.driver = gpu_fixture_driver();
    gpu_fixture_open_with(&gpu, 1, &options);
    if (!gpu_fixture_controls(&emu)) {
        gpu_fixture_close(&gpu);
        skip(); /* a device does anything then */
    }
    gantry_module *module;
    gantry_kernel *kernel;
    assert_ok(gantry_module_load(gpu.context, &gantry_image_steal_kernels, &module));
    assert_ok(gantry_module_get_kernel(module, "ask_again", &kernel));
    use_words();
    (void)gpu_fixture_gpu(&gpu, GANTRY_TASK_KERNEL, "ask again", launch_ask_again, kernel);
    (void)gpu_fixture_step(&gpu); /* it may end before the kernel does */
    assert_int_not_equal(gantry_context_synchronize(gpu.context), GANTRY_OK);
    if (strstr(gantry_last_error(), "kernel ask_again: block (") == NULL ||
        strstr(gantry_last_error(), ") asks for a block after it has seen a refusal") == NULL) {
        fail_msg("%s", gantry_last_error());
    }
    gpu_fixture_close(&gpu);
}

int main(void)
{
    setenv("GANTRY_EMU_PROFILE", "b200", 1); /* a device whose blocks steal */
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_clusters_steal_on_streams),
        cmocka_unit_test(test_clusters_steal_in_graphs),
        cmocka_unit_test(test_a_broken_rule_is_named),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
