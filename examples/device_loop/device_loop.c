/* A loop whose turns the device decides: a kernel improves a root and writes a word, 0 when it has come to
 * rest. The CPU launches the loop once and waits for its end, however many turns it takes. */
#include "device_loop.kernels.h"
#include <gantry/gantry.h>
#include <stdio.h>
#include <stdlib.h>

struct root {
    uint32_t again; /* the word: not 0: one more turn */
    float square, guess;
};

static gantry_kernel *newton;
static struct root *host, *device;

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

static gantry_launch_result upload(gantry_launch *launch, void *arg)
{
    return launched(gantry_launch_copy_htod(launch, device, host, sizeof(*host)));
}

static gantry_launch_result improve(gantry_launch *launch, void *arg)
{
    gantry_dim3 one = {1, 1, 1};
    void *args[] = {&device};
    return launched(gantry_launch_kernel(launch, newton, one, one, 0, args));
}

static gantry_launch_result download(gantry_launch *launch, void *arg)
{
    return launched(gantry_launch_copy_dtoh(launch, host, device, sizeof(*host)));
}

static gantry_status show(gantry_task *task, void *arg)
{
    printf("the root of %.0f is %.6f\n", host->square, host->guess);
    return GANTRY_OK;
}

int main(void)
{
    gantry_context *context;
    gantry_module *module;
    gantry_taskman *graph;
    must(gantry_context_create(NULL, &context));
    must(gantry_module_load(context, &gantry_image_device_loop, &module));
    must(gantry_module_get_kernel(module, "newton", &newton));
    gantry_heap *heap = gantry_context_heap(context);
    must(gantry_heap_alloc(heap, GANTRY_MEMORY_PINNED, sizeof(*host), 0, GANTRY_ALLOC_SITE("host"),
                           (void **)&host));
    must(gantry_heap_alloc(heap, GANTRY_MEMORY_DEVICE, sizeof(*host), 0, GANTRY_ALLOC_SITE("device"),
                           (void **)&device));
    gantry_taskman_options options = {sizeof(options), .gpu_dispatcher = gantry_context_dispatcher(context)};
    must(gantry_taskman_create(&options, &graph));

    gantry_task *uploaded, *improved, *downloaded, *shown;
    gantry_task_desc upload_it = {sizeof(upload_it), GANTRY_TASK_HTOD, .label = "upload", .launch = upload};
    gantry_task_desc improve_it = {sizeof(improve_it), GANTRY_TASK_KERNEL, .label = "improve",
                                   .launch = improve, .is_stable = true}; /* each turn enqueues the same */
    gantry_task_desc download_it = {sizeof(download_it), GANTRY_TASK_DTOH, .label = "download",
                                    .launch = download};
    gantry_task_desc show_it = {sizeof(show_it), .label = "show", .run = show};
    must(gantry_taskman_submit(graph, &upload_it, &uploaded));
    must(gantry_taskman_submit(graph, &improve_it, &improved));
    must(gantry_taskman_submit(graph, &download_it, &downloaded));
    must(gantry_taskman_submit(graph, &show_it, &shown));
    gantry_loop_options how = {
        .struct_size = sizeof(how), .word = &device->again, .most = 100, .label = "rounds"};
    gantry_loop loop = {.struct_size = sizeof(loop)};
    must(gantry_taskman_submit_loop(graph, &how, &loop));
    must(gantry_task_start_after(improved, uploaded));
    must(gantry_task_start_after(loop.test, improved));
    must(gantry_task_start_after(improved, loop.decide));   /* its dependent 0: a turn begins here */
    must(gantry_task_start_after(downloaded, loop.decide)); /* its dependent 1: on */
    must(gantry_task_start_after_done(shown, downloaded));
    must(gantry_taskman_freeze(graph)); /* only frozen graphs have loops */

    for (int square = 2; square <= 200; square *= 10) {
        *host = (struct root){.square = (float)square, .guess = (float)square};
        must(gantry_taskman_run(graph, 1));
        gantry_loop_stats stats = {.struct_size = sizeof(stats)};
        must(gantry_loop_get_stats(loop.decide, &stats));
        printf("after %u rounds, in launch %d on the device\n", stats.turns, (int)stats.launches);
    }

    gantry_taskman_destroy(graph);
    gantry_heap_free(heap, host);
    gantry_heap_free(heap, device);
    gantry_module_unload(module);
    gantry_context_destroy(context);
    return 0;
}
