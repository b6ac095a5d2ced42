/* SPDX-License-Identifier: MIT */
/* A loop whose turns the device decides: a kernel improves a root and writes a word, 0 when it has come to
 * rest. The CPU launches the loop once and waits for its end, however many turns it takes. */
#include "device_loop.kernels.h" /* made of device_loop.cu by gantry_add_kernels() */
#include <gantry/gantry.h>
#include <stdio.h>
#include <stdlib.h>

struct root {
    float square, guess;
};

static gantry_kernel *newton;
static void *root_on_device, *again; /* for the device: the root, and the word: not 0: one more turn */

static void must(gantry_status status)
{
    if (status != GANTRY_OK) {
        fprintf(stderr, "%s\n", gantry_last_error());
        exit(EXIT_FAILURE);
    }
}

static gantry_launch_result improve(gantry_launch *launch, void *arg)
{
    void *args[] = {&root_on_device, &again};
    gantry_dim3 one = {1, 1, 1};
    bool failed = gantry_launch_kernel(launch, newton, one, one, 0, args);
    return failed ? GANTRY_LAUNCH_FAILED : GANTRY_LAUNCH_DONE;
}

int main(void)
{
    gantry_context *context;
    gantry_module *module;
    gantry_taskman *graph;
    gantry_task *tasks[2];
    void *memory;
    must(gantry_context_create(NULL, &context));
    must(gantry_module_load(context, &gantry_image_device_loop, &module));
    must(gantry_module_get_kernel(module, "newton", &newton));
    gantry_heap *heap = gantry_context_heap(context);
    gantry_alloc_site site = GANTRY_ALLOC_SITE("loop");
    must(gantry_heap_alloc(heap, GANTRY_MEMORY_DEVICE, sizeof(uint32_t), 0, site, &again));
    must(gantry_heap_alloc(heap, GANTRY_MEMORY_PINNED, sizeof(struct root), 0, site, &memory));
    must(gantry_heap_device_address(heap, memory, &root_on_device)); /* the device works on it in place */
    struct root *root = memory;
    gantry_taskman_options options = {sizeof(options), .gpu_dispatcher = gantry_context_dispatcher(context)};
    must(gantry_taskman_create(&options, &graph));

    gantry_task_desc chain[] = {
        {sizeof(*chain), GANTRY_TASK_SYNC_POINT, .label = "begin"},
        {sizeof(*chain), GANTRY_TASK_KERNEL, .label = "improve", .launch = improve, .is_stable = true}};
    gantry_loop_options how = {sizeof(how), .word = again, .most = 100, .label = "rounds"};
    gantry_loop loop = {.struct_size = sizeof(loop)};
    must(gantry_taskman_submit_chain(graph, chain, 2, tasks));
    must(gantry_taskman_submit_loop(graph, &how, &loop));
    must(gantry_task_start_after(loop.test, tasks[1]));
    must(gantry_task_start_after(tasks[1], loop.decide)); /* its dependent 0: a turn begins here */
    must(gantry_taskman_freeze(graph));                   /* only frozen graphs have loops */

    for (int square = 2; square <= 200; square *= 10) {
        gantry_loop_stats stats = {.struct_size = sizeof(stats)};
        *root = (struct root){.square = (float)square, .guess = (float)square};
        must(gantry_taskman_run(graph, 1));
        must(gantry_context_synchronize(context)); /* the loop is launched: wait for its end */
        must(gantry_loop_get_stats(loop.decide, &stats));
        printf("the root of %d is %.6f\n", square, root->guess);
        printf("after %u rounds, in launch %d on the device\n", stats.turns, (int)stats.launches);
    }
    gantry_taskman_destroy(graph);
    gantry_context_destroy(context); /* frees the heap with all that is left in it */
    return 0;
}
