/* One graph over two devices: a GPU task names its context, and an edge means the same between devices as on
 * one.  Without two devices the emulated driver has them; on a machine with one, everything runs there. */
#include <gantry/gantry.h>
#include <stdio.h>
#include <stdlib.h>

enum { COUNT = 1000, BYTES = COUNT * sizeof(uint32_t) };
static uint32_t *host;      /* a half for each device, page-locked: all devices reach it */
static void *filled[2];     /* on each device */
static void *both, *result; /* on the first device; page-locked */

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

static gantry_launch_result fill(gantry_launch *launch, void *arg)
{
    size_t half = (size_t)arg;
    gantry_status status = gantry_launch_fill(launch, filled[half], 3 + 4 * half, sizeof(uint32_t), COUNT);
    return launched(status != GANTRY_OK
                        ? status
                        : gantry_launch_copy_dtoh(launch, host + half * COUNT, filled[half], BYTES));
}

static gantry_launch_result gather(gantry_launch *launch, void *arg)
{
    gantry_status status = gantry_launch_copy_htod(launch, both, host, 2 * BYTES);
    return launched(status != GANTRY_OK ? status : gantry_launch_copy_dtoh(launch, result, both, 2 * BYTES));
}

static gantry_status add_up(gantry_task *task, void *arg)
{
    uint32_t sum = 0;
    for (int i = 0; i < 2 * COUNT; i++) {
        sum += ((uint32_t *)result)[i];
    }
    printf("the sum is %u\n", sum);
    return GANTRY_OK;
}

int main(void)
{
    gantry_fleet *fleet;
    gantry_taskman *graph;
    gantry_task *halves[2], *gathered, *added;
    setenv("GANTRY_EMU_DEVICES", "2", 0);
    must(gantry_fleet_create(NULL, &fleet));
    gantry_context *contexts[2] = {gantry_fleet_context(fleet, 0),
                                   gantry_fleet_context(fleet, gantry_fleet_device_count(fleet) > 1)};
    gantry_heap *heap = gantry_context_heap(contexts[0]);
    gantry_alloc_site site = GANTRY_ALLOC_SITE("buffer");
    must(gantry_heap_alloc(heap, GANTRY_MEMORY_PINNED, 2 * BYTES, 0, site, (void **)&host));
    must(gantry_heap_alloc(heap, GANTRY_MEMORY_PINNED, 2 * BYTES, 0, site, &result));
    must(gantry_heap_alloc(heap, GANTRY_MEMORY_DEVICE, 2 * BYTES, 0, site, &both));
    gantry_taskman_options options = {sizeof(options), .fleet = fleet};
    must(gantry_taskman_create(&options, &graph));

    gantry_task_desc gather_it = {sizeof(gather_it), GANTRY_TASK_DTOH, .label = "gather", .launch = gather,
                                  .context = contexts[0]};
    gantry_task_desc add_it = {sizeof(add_it), GANTRY_TASK_CPU, .label = "add up", .run = add_up};
    must(gantry_taskman_submit(graph, &gather_it, &gathered));
    must(gantry_taskman_submit(graph, &add_it, &added));
    must(gantry_task_start_after_done(added, gathered));
    for (size_t half = 0; half < 2; half++) {
        must(gantry_heap_alloc(gantry_context_heap(contexts[half]), GANTRY_MEMORY_DEVICE, BYTES, 0, site,
                               &filled[half]));
        gantry_task_desc fill_it = {sizeof(fill_it), GANTRY_TASK_KERNEL,  .label = "fill",
                                    .launch = fill,  .arg = (void *)half, .context = contexts[half]};
        must(gantry_taskman_submit(graph, &fill_it, &halves[half]));
        must(gantry_task_start_after(gathered, halves[half])); /* on whatever device that is */
    }

    must(gantry_taskman_start(graph));
    must(gantry_taskman_stop(graph));
    gantry_taskman_destroy(graph);
    for (size_t half = 0; half < 2; half++) {
        gantry_heap_free(gantry_context_heap(contexts[half]), filled[half]);
    }
    gantry_heap_free(heap, host);
    gantry_heap_free(heap, result);
    gantry_heap_free(heap, both);
    gantry_fleet_destroy(fleet);
    return 0;
}
