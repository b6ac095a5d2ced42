/* SPDX-License-Identifier: MIT */
/* Code that is loaded while the program runs: here a form of an image that was built with the program; it may
 * as well be a file, or what a compiler has just made (gantry_module_code.path). */
#include "own_module.kernels.h" /* made of own_module.cu by gantry_add_kernels() */
#include <gantry/gantry.h>
#include <stdio.h>
#include <stdlib.h>

enum { COUNT = 100, THREADS = 64 };
static const char *const names[] = {"square", NULL}; /* as they stand in the code */
static gantry_kernel *kernel;
static uint32_t *numbers, *host;

static void must(gantry_status status)
{
    if (status != GANTRY_OK) {
        fprintf(stderr, "%s\n", gantry_last_error());
        exit(EXIT_FAILURE);
    }
}

static gantry_launch_result square(gantry_launch *launch, void *arg)
{
    void *args[] = {&numbers, &(uint32_t){COUNT}};
    gantry_status status =
        gantry_launch_kernel(launch, kernel, (gantry_dim3){(COUNT + THREADS - 1) / THREADS, 1, 1},
                             (gantry_dim3){THREADS, 1, 1}, 0, args);
    status = status == GANTRY_OK ? gantry_launch_copy_dtoh(launch, host, numbers, COUNT * sizeof(uint32_t))
                                 : status;
    return status == GANTRY_OK ? GANTRY_LAUNCH_DONE : GANTRY_LAUNCH_FAILED;
}

/* The bytes for the device: a fat binary or PTX; the emulated one runs host code. */
static const void *code_for(const gantry_context *context, const gantry_module_image *image)
{
    gantry_device_info info = {.struct_size = sizeof(info)};
    must(gantry_context_device_info(context, &info));
    return info.emulated ? image->host : image->fatbin != NULL ? image->fatbin : image->ptx;
}

int main(void)
{
    gantry_context *context;
    gantry_module *module, *missing;
    gantry_taskman *graph;
    must(gantry_context_create(NULL, &context));
    gantry_module_code code = GANTRY_MODULE_CODE_INIT;
    code.code = code_for(context, &gantry_image_own_module);
    code.kernel_names = names;
    must(gantry_module_load_code(context, &code, &module));
    must(gantry_module_get_kernel(module, "square", &kernel));
    gantry_module_code nothing = GANTRY_MODULE_CODE_INIT;
    nothing.path = "there is no such file";
    nothing.kernel_names = names;
    printf("another one: %s\n", gantry_status_name(gantry_module_load_code(context, &nothing, &missing)));

    gantry_heap *heap = gantry_context_heap(context);
    const size_t bytes = COUNT * sizeof(uint32_t);
    must(gantry_heap_alloc(heap, GANTRY_MEMORY_DEVICE, bytes, 0, GANTRY_ALLOC_SITE("numbers"),
                           (void **)&numbers));
    must(gantry_heap_alloc(heap, GANTRY_MEMORY_PINNED, bytes, 0, GANTRY_ALLOC_SITE("host"), (void **)&host));
    gantry_taskman_options options = {sizeof(options), .gpu_dispatcher = gantry_context_dispatcher(context)};
    must(gantry_taskman_create(&options, &graph));
    gantry_task_desc desc = {sizeof(desc), GANTRY_TASK_KERNEL, .label = "square", .launch = square};
    must(gantry_taskman_submit(graph, &desc, NULL));
    must(gantry_taskman_start(graph));
    must(gantry_taskman_stop(graph));
    must(gantry_context_synchronize(context));
    printf("the square of 9 is %u, that of 99 is %u\n", host[9], host[99]);
    gantry_taskman_destroy(graph);
    gantry_context_destroy(context);
    return 0;
}
