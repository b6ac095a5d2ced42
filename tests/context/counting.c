/* SPDX-License-Identifier: MIT */
#include "tests/context/counting.h"

#include "tests/support/cmocka_c11.h"

struct job {
    gantry_kernel *kernel;
    uint32_t *device, *host;
};

static gantry_launch_result launch(gantry_launch *launch, void *arg)
{
    struct job *job = arg;
    uint32_t by = 5;
    void *args[] = {&job->device, &by};
    const gantry_dim3 one = {1, 1, 1}, threads = {8, 1, 1};
    if (gantry_launch_fill(launch, job->device, 0, 4, 1) != GANTRY_OK ||
        gantry_launch_kernel(launch, job->kernel, one, threads, 0, args) != GANTRY_OK ||
        gantry_launch_copy_dtoh(launch, job->host, job->device, 4) != GANTRY_OK) {
        return GANTRY_LAUNCH_FAILED;
    }
    return GANTRY_LAUNCH_DONE;
}

void counting_check(struct gpu_fixture *gpu, gantry_module *module, const char *name)
{
    gantry_heap *heap = gantry_context_heap(gpu->context);
    struct job job = {.kernel = NULL};
    void *block;
    assert_ok(gantry_module_get_kernel(module, name, &job.kernel));
    assert_string_equal(gantry_kernel_name(job.kernel), name);
    assert_ok(gantry_heap_alloc(heap, GANTRY_MEMORY_DEVICE, 64, 0, GANTRY_ALLOC_SITE("count"), &block));
    job.device = block;
    assert_ok(gantry_heap_alloc(heap, GANTRY_MEMORY_PINNED, 64, 0, GANTRY_ALLOC_SITE("count"), &block));
    job.host = block;
    (void)gpu_fixture_gpu(gpu, GANTRY_TASK_KERNEL, "count", launch, &job);
    assert_ok(gpu_fixture_step(gpu));
    assert_ok(gantry_context_synchronize(gpu->context));
    assert_int_equal(job.host[0], 40);
    assert_ok(gantry_heap_free(heap, job.device));
    assert_ok(gantry_heap_free(heap, job.host));
}
