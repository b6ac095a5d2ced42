/* SPDX-License-Identifier: MIT */
/* A list of copies that the device writes and reads: a kernel decides what is copied, and the CPU never sees
 * the list. */
#include "copy_list.kernels.h" /* made of copy_list.cu by gantry_add_kernels() */
#include <gantry/gantry.h>
#include <stdio.h>
#include <stdlib.h>

struct row {
    uint32_t words[16];
};

enum { ROWS = 100, BYTES = ROWS * sizeof(struct row) };
static gantry_heap *heap;
static gantry_kernel *kernel;
static void *rows, *chosen, *from, *to, *bytes, *count; /* addresses for the device */
static struct row *host;                                /* page-locked, as is the next one */
static uint32_t *host_count;

static void must(gantry_status status)
{
    if (status != GANTRY_OK) {
        fprintf(stderr, "%s\n", gantry_last_error());
        exit(EXIT_FAILURE);
    }
}

/* What one task enqueues is done in this order: the list is complete when it is read. */
static gantry_launch_result copy_odd(gantry_launch *launch, void *arg)
{
    void *args[] = {&from, &to, &bytes, &count, &rows, &chosen, &(uint32_t){ROWS}};
    gantry_dim3 one = {1, 1, 1};
    gantry_copy_list list = {.struct_size = sizeof(list), .sources = from, .dests = to, .bytes = bytes};
    list.count = count;
    list.most = ROWS;
    bool failed = gantry_launch_copy_htod(launch, rows, host, BYTES) ||
                  gantry_launch_kernel(launch, kernel, one, one, 0, args) ||
                  gantry_copy_launch_list(launch, &list, NULL) ||
                  gantry_launch_copy_dtoh(launch, host, chosen, BYTES);
    return failed ? GANTRY_LAUNCH_FAILED : GANTRY_LAUNCH_DONE;
}

static void *allocate(gantry_memory_kind kind, size_t size)
{
    void *block;
    must(gantry_heap_alloc(heap, kind, size, 0, GANTRY_ALLOC_SITE("copy_list"), &block));
    return block;
}

int main(void)
{
    gantry_context *context;
    gantry_module *module;
    gantry_taskman *graph;
    must(gantry_context_create(NULL, &context));
    must(gantry_module_load(context, &gantry_image_copy_list, &module));
    must(gantry_module_get_kernel(module, "choose", &kernel));
    heap = gantry_context_heap(context);
    rows = allocate(GANTRY_MEMORY_DEVICE, BYTES);
    chosen = allocate(GANTRY_MEMORY_DEVICE, BYTES);
    from = allocate(GANTRY_MEMORY_DEVICE, ROWS * sizeof(void *));
    to = allocate(GANTRY_MEMORY_DEVICE, ROWS * sizeof(void *));
    bytes = allocate(GANTRY_MEMORY_DEVICE, ROWS * sizeof(uint64_t));
    host = allocate(GANTRY_MEMORY_PINNED, BYTES);
    host_count = allocate(GANTRY_MEMORY_PINNED, sizeof(*host_count));
    must(gantry_heap_device_address(heap, host_count, &count));
    for (uint32_t i = 0; i < ROWS; i++) {
        host[i] = (struct row){{i}};
    }
    gantry_taskman_options options = {sizeof(options), .gpu_dispatcher = gantry_context_dispatcher(context)};
    must(gantry_taskman_create(&options, &graph));
    gantry_task_desc desc = {sizeof(desc), GANTRY_TASK_KERNEL, .label = "copy odd rows", .launch = copy_odd};
    must(gantry_taskman_submit(graph, &desc, NULL));
    must(gantry_taskman_start(graph));
    must(gantry_taskman_stop(graph));
    must(gantry_context_synchronize(context));
    printf("%u rows were copied; the last one is number %u\n", *host_count, host[*host_count - 1].words[0]);
    gantry_taskman_destroy(graph);
    gantry_context_destroy(context); /* frees the heap with all that is left in it */
    return 0;
}
