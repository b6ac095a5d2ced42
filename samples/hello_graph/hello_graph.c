/* The smallest whole program: numbers go to the device, are tripled and incremented there, and come back. */
#include "hello_graph.kernels.h" /* made of hello_graph.cu by gantry_add_kernels() */

#include <gantry/gantry.h>
#include <stdlib.h>
#define MUST(call) ((call) == GANTRY_OK ? (void)0 : (fprintf(stderr, "%s\n", gantry_last_error()), exit(1)))
enum { COUNT = 1000, BYTES = COUNT * sizeof(uint32_t), TASKS = 5, SIZE = sizeof(gantry_task_desc) };
static void *host, *device; /* the numbers; host memory is page-locked, so that the device can copy it */
static gantry_launch_result copy(gantry_launch *launch, void *back)
{
    MUST(back == NULL ? gantry_launch_copy_htod(launch, device, host, BYTES)
                      : gantry_launch_copy_dtoh(launch, host, device, BYTES));
    return GANTRY_LAUNCH_DONE;
}
static gantry_launch_result compute(gantry_launch *launch, void *kernel)
{
    void *args[] = {&device, &(uint32_t){COUNT}};
    MUST(gantry_launch_kernel(launch, kernel, (gantry_dim3){4, 1, 1}, (gantry_dim3){256, 1, 1}, 0, args));
    return GANTRY_LAUNCH_DONE;
}
static gantry_status look(gantry_task *task, void *numbers)
{
    uint32_t right = 0;
    for (uint32_t i = 0; i < COUNT; i++)
        right += ((uint32_t *)numbers)[i] == 3 * i + 1;
    printf("%s: %u of %d numbers are 3 i + 1\n", gantry_task_label(task), right, COUNT);
    return right == COUNT ? GANTRY_OK : GANTRY_ERR_TASK_FAILED;
}
int main(void)
{
    gantry_context *context;
    gantry_module *module;
    gantry_kernel *kernels[2];
    gantry_taskman *graph;
    gantry_task *tasks[TASKS];
    MUST(gantry_context_create(NULL, &context));
    MUST(gantry_module_load(context, &gantry_image_hello_graph, &module));
    MUST(gantry_module_get_kernel(module, "triple", &kernels[0]));
    MUST(gantry_module_get_kernel(module, "increment", &kernels[1]));
    gantry_heap *heap = gantry_context_heap(context);
    MUST(gantry_heap_alloc(heap, GANTRY_MEMORY_PINNED, BYTES, 0, GANTRY_ALLOC_SITE("host"), &host));
    MUST(gantry_heap_alloc(heap, GANTRY_MEMORY_DEVICE, BYTES, 0, GANTRY_ALLOC_SITE("device"), &device));
    for (uint32_t i = 0; i < COUNT; i++)
        ((uint32_t *)host)[i] = i;
    gantry_taskman_options options = {sizeof(options), .gpu_dispatcher = gantry_context_dispatcher(context)};
    MUST(gantry_taskman_create(&options, &graph));
    const gantry_task_desc chain[TASKS] = {
        {SIZE, GANTRY_TASK_HTOD, .label = "upload", .launch = copy},
        {SIZE, GANTRY_TASK_KERNEL, .launch = compute, .arg = kernels[0]},
        {SIZE, GANTRY_TASK_KERNEL, .launch = compute, .arg = kernels[1]},
        {SIZE, GANTRY_TASK_DTOH, .launch = copy, .arg = host},
        {SIZE, GANTRY_TASK_CPU, .label = "look", .run = look, .arg = host}};
    MUST(gantry_taskman_submit_chain(graph, chain, TASKS, tasks));
    MUST(gantry_task_start_after_done(tasks[4], tasks[3])); /* "look" reads what was copied back */
    MUST(gantry_taskman_start(graph));
    MUST(gantry_taskman_stop(graph));
    gantry_taskman_destroy(graph);
    gantry_heap_free(heap, host);
    gantry_heap_free(heap, device);
    gantry_context_destroy(context);
    return 0;
}
