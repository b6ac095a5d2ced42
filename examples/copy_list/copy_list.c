/* A list of copies that the device writes and reads: a kernel decides what is copied, and the CPU never sees
 * the list. */
#include "copy_list.kernels.h" /* made of copy_list.cu by gantry_add_kernels() */
#include <gantry/gantry.h>
#include <stdio.h>
#include <stdlib.h>

enum { ROWS = 100, ROW_BYTES = 64 };
static gantry_kernel *kernel;
static void *rows, *chosen, *from, *to, *bytes; /* on the device */
static uint32_t *count, *result;                /* page-locked: CPU and device see the same */
static void *count_on_device;

static void must(gantry_status status)
{
    if (status != GANTRY_OK) {
        fprintf(stderr, "%s\n", gantry_last_error());
        exit(EXIT_FAILURE);
    }
}

static gantry_launch_result launched(gantry_status status)
{
    return status == GANTRY_OK ? GANTRY_LAUNCH_DONE : GANTRY_LAUNCH_FAILED;
}

static gantry_launch_result choose(gantry_launch *launch, void *arg)
{
    void *args[] = {
        &from, &to, &bytes, &count_on_device, &rows, &chosen, &(uint32_t){ROWS}, &(uint32_t){ROW_BYTES}};
    return launched(
        gantry_launch_kernel(launch, kernel, (gantry_dim3){1, 1, 1}, (gantry_dim3){1, 1, 1}, 0, args));
}

static gantry_launch_result copy(gantry_launch *launch, void *arg)
{
    gantry_copy_list list = {.struct_size = sizeof(list),
                             .dests = to,
                             .sources = from,
                             .bytes = bytes,
                             .count = count_on_device,
                             .largest = ROW_BYTES,
                             .most = ROWS};
    return launched(gantry_copy_launch_list(launch, &list, NULL));
}

static gantry_launch_result move(gantry_launch *launch, void *back)
{
    return launched(back == NULL ? gantry_launch_copy_htod(launch, rows, result, ROWS * ROW_BYTES)
                                 : gantry_launch_copy_dtoh(launch, result, chosen, ROWS * ROW_BYTES));
}

static void *allocate(gantry_context *context, gantry_memory_kind kind, size_t size)
{
    void *block;
    must(gantry_heap_alloc(gantry_context_heap(context), kind, size, 0, GANTRY_ALLOC_SITE("copy_list"),
                           &block));
    return block;
}

int main(void)
{
    gantry_context *context;
    gantry_module *module;
    gantry_taskman *graph;
    gantry_task *tasks[5];
    must(gantry_context_create(NULL, &context));
    must(gantry_module_load(context, &gantry_image_copy_list, &module));
    must(gantry_module_get_kernel(module, "choose", &kernel));
    rows = allocate(context, GANTRY_MEMORY_DEVICE, ROWS * ROW_BYTES);
    chosen = allocate(context, GANTRY_MEMORY_DEVICE, ROWS * ROW_BYTES);
    from = allocate(context, GANTRY_MEMORY_DEVICE, ROWS * sizeof(uint64_t));
    to = allocate(context, GANTRY_MEMORY_DEVICE, ROWS * sizeof(uint64_t));
    bytes = allocate(context, GANTRY_MEMORY_DEVICE, ROWS * sizeof(uint64_t));
    result = allocate(context, GANTRY_MEMORY_PINNED, ROWS * ROW_BYTES);
    count = allocate(context, GANTRY_MEMORY_PINNED, sizeof(*count));
    must(gantry_heap_device_address(gantry_context_heap(context), count, &count_on_device));
    for (uint32_t i = 0; i < ROWS * ROW_BYTES / sizeof(uint32_t); i++) {
        result[i] = i * sizeof(uint32_t) / ROW_BYTES; /* each row has its number all over */
    }
    gantry_taskman_options options = {sizeof(options), .gpu_dispatcher = gantry_context_dispatcher(context)};
    must(gantry_taskman_create(&options, &graph));
    gantry_task_desc chain[] = {
        {sizeof(*chain), GANTRY_TASK_HTOD, .label = "upload", .launch = move},
        {sizeof(*chain), GANTRY_TASK_KERNEL, .label = "choose", .launch = choose},
        {sizeof(*chain), GANTRY_TASK_KERNEL, .label = "copy", .launch = copy},
        {sizeof(*chain), GANTRY_TASK_DTOH, .label = "download", .launch = move, .arg = result},
        {sizeof(*chain), GANTRY_TASK_SYNC_POINT, .label = "downloaded"}};
    must(gantry_taskman_submit_chain(graph, chain, 5, tasks));
    must(gantry_task_start_after_done(tasks[4], tasks[3]));
    must(gantry_taskman_start(graph));
    must(gantry_taskman_stop(graph));
    printf("%u rows were copied; the last one is number %u\n", *count,
           result[(*count - 1) * ROW_BYTES / sizeof(uint32_t)]);
    gantry_taskman_destroy(graph);
    gantry_context_destroy(context);
    return 0;
}
